"""Adapters are plugins: the built-in ones, and any other."""

import sys
import types
from collections.abc import Callable, Iterator

import pytest

from datasette_crystal.adapters import Adapter
from datasette_crystal.hookspecs import hookimpl
from datasette_crystal.model import ConversationMeta, Environment, Parsed, SourceInfo
from datasette_crystal.plugins import DEFAULT_PLUGINS, get_adapters, load_plugins, pm


class Nothing:
    """An adapter that never finds anything."""

    display_name = "Nothing"
    parser_version = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def detect(self, env: Environment) -> SourceInfo | None:
        return None

    def scan(self, env: Environment) -> Iterator[ConversationMeta]:
        return iter(())

    def parse(self, meta: ConversationMeta) -> Parsed:
        return Parsed([])


def plugin(*adapters: Adapter) -> types.SimpleNamespace:
    @hookimpl
    def register_adapters(register: Callable[[Adapter], None]) -> None:
        for adapter in adapters:
            register(adapter)

    return types.SimpleNamespace(register_adapters=register_adapters)


@pytest.fixture
def registered() -> Iterator[Callable[..., None]]:
    load_plugins()
    plugins = []

    def register(*adapters: Adapter) -> None:
        plugins.append(plugin(*adapters))
        pm.register(plugins[-1])

    yield register
    for item in plugins:
        pm.unregister(item)


def test_built_in_adapters_come_by_the_same_hook() -> None:
    adapters = get_adapters()
    assert list(adapters)[:2] == ["claude-code", "codex"]
    for name in DEFAULT_PLUGINS:
        assert pm.has_plugin(name)
        assert hasattr(sys.modules[name], "register_adapters")
    assert all(isinstance(adapter, Adapter) for adapter in adapters.values())
    assert all(name == adapter.name for name, adapter in adapters.items())


def test_unregistered_built_in_is_gone_and_comes_back() -> None:
    load_plugins()
    name = DEFAULT_PLUGINS[1]
    module = pm.unregister(name=name)
    try:
        assert "codex" not in get_adapters()
    finally:
        pm.register(module, name)
    assert "codex" in get_adapters()


def test_plugin_may_register_several(registered: Callable[..., None]) -> None:
    before = list(get_adapters())
    registered(Nothing("one"), Nothing("two"))
    registered(Nothing("three"))
    assert list(get_adapters()) == [*before, "one", "two", "three"]


@pytest.mark.parametrize("name", ("codex", "one"))
def test_two_adapters_of_one_name_are_refused(registered: Callable[..., None], name: str) -> None:
    registered(Nothing("one"))
    registered(Nothing(name))
    with pytest.raises(ValueError, match=f"two adapters are called '{name}'"):
        get_adapters()


def test_plugins_are_loaded_once() -> None:
    load_plugins()
    before = pm.get_plugins()
    load_plugins()
    assert pm.get_plugins() == before
