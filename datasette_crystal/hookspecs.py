"""The plugin hooks of datasette-crystal."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pluggy import HookimplMarker, HookspecMarker

if TYPE_CHECKING:
    from .adapters import Adapter

hookspec = HookspecMarker("crystal")
hookimpl = HookimplMarker("crystal")


@hookspec
def register_adapters(register: "Callable[[Adapter], None]") -> None:
    """Call ``register(adapter)`` once for each source of conversations that the plugin can read."""
