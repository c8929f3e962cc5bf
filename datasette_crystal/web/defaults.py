"""The defaults of :mod:`datasette_crystal.schema`, applied to every crystal database that Datasette
serves. They fill gaps: what the user wrote wins, key by key, and other databases are left alone."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from ..schema import database_metadata

#: Of each database file: (size, mtime) when its header was last read, and what it said.
_seen: weakref.WeakKeyDictionary[Any, tuple[tuple[int, int], bool]] = weakref.WeakKeyDictionary()

#: Where SQLite's file format keeps the application id.
_HEADER_OFFSET = 68


def is_crystal(db: Any) -> bool:
    """Whether a database of Datasette bears our application id.

    The file's header says so; it is read again when the file changes, since an import may fill an
    empty database while Datasette serves it. No query: 0.65 asks for metadata synchronously.
    """
    from os import stat

    from ..migrations import APPLICATION_ID

    if not db.path:
        return False
    try:
        status = stat(db.path)
        marker = (status.st_size, status.st_mtime_ns)
        known = _seen.get(db)
        # an id is never taken away again
        if known and (known[1] or known[0] == marker):
            return known[1]
        with open(db.path, "rb") as file:
            file.seek(_HEADER_OFFSET)
            found = file.read(4) == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        return False
    _seen[db] = (marker, found)
    return found


def crystal_databases(datasette: Any) -> Iterator[tuple[str, Any]]:
    """(name, database) of every crystal database that is attached now."""
    for name, db in list(datasette.databases.items()):
        if is_crystal(db):
            yield name, db


def defaults_for(user: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata of a crystal database that ``user``, the metadata that the user wrote for it,
    leaves open."""
    user = user or {}
    defaults = database_metadata()
    tables = defaults.pop("tables")
    user_tables = user.get("tables") or {}
    gaps = _gaps(defaults, user)
    gaps["tables"] = {
        name: _gaps(table, user_tables.get(name) or {}) for name, table in tables.items()
    }
    return gaps


def _gaps(defaults: dict[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    gaps = {key: value for key, value in defaults.items() if key not in user}
    if "description_html" in user:
        gaps.pop("description", None)
    if "sort" in user or "sort_desc" in user:  # both at once are an error
        gaps.pop("sort", None)
        gaps.pop("sort_desc", None)
    if "columns" in defaults:
        theirs = user.get("columns") or {}
        gaps["columns"] = {
            name: text for name, text in defaults["columns"].items() if name not in theirs
        }
    return gaps
