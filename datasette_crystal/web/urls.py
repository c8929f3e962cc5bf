"""Links to the pages of the plugin. All go through ``datasette.urls``, so ``base_url`` holds."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

#: View names of our pages, as Datasette gives them to templates and hooks.
OVERVIEW, SEARCH, CONVERSATION = "crystal-overview", "crystal-search", "crystal-conversation"
#: The view name of results to read.
READING = "crystal-read"


#: The query string of the reading list. Facets are not shown there, the number of rows (1.0) is.
READING_LIST = {
    "_sort_desc": "started_at",
    "kind__notin": "subagent,prompt-history",
    "_nofacet": "1",
    "_nosuggest": "1",
    "_extra": "count",
}


def overview_url(datasette: Any, database: str, **parameters: str) -> str:
    """``/{db}/-/crystal``, with filters as a query string."""
    return _path(datasette, database, "/-/crystal", parameters)


def search_url(datasette: Any, database: str, format: str = "", **parameters: str) -> str:
    """``/{db}/-/crystal/search``. ``format`` is ``.json``."""
    return _path(datasette, database, f"/-/crystal/search{format}", parameters)


def search_all_url(datasette: Any, format: str = "", **parameters: str) -> str:
    """``/-/crystal/search``: the search over all crystal databases."""
    path = str(datasette.urls.path(f"/-/crystal/search{format}"))
    return f"{path}?{urlencode(parameters)}" if parameters else path


def reading_url(datasette: Any, database: str) -> str:
    """``/{db}/conversations.read``: the list of conversations to read, the newest first, without
    those that only belong to another one and lists of prompts."""
    path = datasette.urls.table(database, "conversations", format="read")
    return f"{path}?{urlencode(READING_LIST)}"


def open_url(datasette: Any, database: str, **ids: int) -> str:
    """``/{db}/-/crystal/open?message=17`` or ``?conversation=17``: leads to the page of what has
    that number in the database. For links that cannot ask for its name."""
    return _path(datasette, database, "/-/crystal/open", {k: str(v) for k, v in ids.items()})


def conversation_url(
    datasette: Any,
    database: str,
    source: str,
    session_id: str,
    uid: str | None = None,
    format: str = "",
    **parameters: str,
) -> str:
    """``/{db}/-/crystal/{source}/{session_id}``, ids tilde-encoded. With ``uid`` it is the permalink
    of a message: the page that shows it (``?message=``), and its place there. ``format`` is
    ``.json`` or ``.md``."""
    from datasette.utils import tilde_encode

    tail = f"/-/crystal/{tilde_encode(source)}/{tilde_encode(session_id)}{format}"
    if uid is not None:
        parameters = {**parameters, "message": uid}
    path = _path(datasette, database, tail, parameters)
    return path if uid is None else f"{path}#{anchor(uid)}"


def image_url(datasette: Any, database: str, attachment_id: int) -> str:
    """``/{db}/-/crystal/-/image/{id}``: an image that came with a message."""
    return _path(datasette, database, f"/-/crystal/-/image/{attachment_id}", {})


def anchor(uid: str) -> str:
    """The id of a message's element on its page."""
    from datasette.utils import tilde_encode

    return f"m-{tilde_encode(uid)}"


def static_url(datasette: Any, name: str) -> str:
    """A file of ``static/``. Its hash is part of the address, so that a browser that keeps the old
    one asks anew. The value still knows that it has ``base_url``: Datasette does not put it before
    an address of a hook a second time."""
    address: str = datasette.urls.static_plugins("datasette_crystal", name) + (
        f"?{_fingerprint(name)}"
    )
    return address


@functools.cache
def _fingerprint(name: str) -> str:
    file = Path(__file__).parent.parent / "static" / name
    return hashlib.sha256(file.read_bytes()).hexdigest()[:8]


def _path(datasette: Any, database: str, tail: str, parameters: dict[str, str]) -> str:
    path = datasette.urls.database(database) + tail
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else str(path)
