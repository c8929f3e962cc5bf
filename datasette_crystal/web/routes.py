"""The routes of the plugin."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_CRYSTAL = r"^/(?P<database>[^/]+)/-/crystal"

#: (pattern, module, view). Order matters: ``search`` and ``open`` are no sources.
_ROUTES = (
    (rf"{_CRYSTAL}$", "overview", "overview"),
    (rf"{_CRYSTAL}/search(?P<format>\.json)?$", "search_page", "search"),
    (r"^/-/crystal/search(?P<format>\.json)?$", "search_page", "search_all"),
    (rf"{_CRYSTAL}/open$", "integration", "open_by_number"),
    (rf"{_CRYSTAL}/-/image/(?P<id>[0-9]+)$", "conversation", "image"),
    (
        rf"{_CRYSTAL}/(?P<source>[^/.]+)/(?P<session_id>[^/.]+)(?P<format>\.json|\.md)?$",
        "conversation",
        "conversation",
    ),
)


def routes() -> list[tuple[str, Any]]:
    """(pattern, view) of every page."""
    return [
        (pattern, getattr(import_module(f".{module}", __package__), view))
        for pattern, module, view in _ROUTES
    ]
