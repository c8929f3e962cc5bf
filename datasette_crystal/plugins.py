"""The plugin manager: built-in adapters are plugins like any other."""

import importlib

import pluggy

from . import hookspecs
from .adapters import Adapter

pm: pluggy.PluginManager = pluggy.PluginManager("crystal")
pm.add_hookspecs(hookspecs)

DEFAULT_PLUGINS = (
    "datasette_crystal.adapters.claude_code",
    "datasette_crystal.adapters.codex",
    "datasette_crystal.adapters.copilot",
    "datasette_crystal.adapters.cursor",
    "datasette_crystal.adapters.cursor_cli",
    "datasette_crystal.adapters.trae",
)
_loaded = False


def load_plugins() -> None:
    """Loads the built-in adapters, then those of installed packages (entry point group
    ``crystal``), once."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    for name in DEFAULT_PLUGINS:
        if not pm.has_plugin(name):
            pm.register(importlib.import_module(name), name)
    pm.load_setuptools_entrypoints("crystal")


def get_adapters() -> dict[str, Adapter]:
    """Every registered adapter by its name, built-in ones first. Raises :class:`ValueError` when
    two adapters bear the same name."""
    load_plugins()
    adapters: dict[str, Adapter] = {}

    def register(adapter: Adapter) -> None:
        if adapter.name in adapters:
            raise ValueError(f"two adapters are called {adapter.name!r}")
        adapters[adapter.name] = adapter

    # in the order of registration; pluggy itself would call the newest plugin first
    for plugin_call in pm.hook.register_adapters.get_hookimpls():
        plugin_call.function(register=register)
    return adapters
