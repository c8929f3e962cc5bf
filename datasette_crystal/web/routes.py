"""The routes of the plugin."""

from __future__ import annotations

from typing import Any


def routes() -> list[tuple[str, Any]]:
    """(pattern, view) of every page. Order matters: ``search`` is no source."""
    from .conversation import conversation
    from .overview import overview
    from .search_page import search

    crystal = r"^/(?P<database>[^/]+)/-/crystal"
    return [
        (rf"{crystal}$", overview),
        (rf"{crystal}/search(?P<format>\.json)?$", search),
        (
            rf"{crystal}/(?P<source>[^/.]+)/(?P<session_id>[^/.]+)(?P<format>\.json|\.md)?$",
            conversation,
        ),
    ]
