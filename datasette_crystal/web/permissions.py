"""Who may see what is made of other tables.

Datasette knows that a full-text index shows what its table holds (1.0 mostly, 0.65 not at all), and
of views it knows nothing. Here every view, every full-text index with its shadow tables, and every
saved query of ours may be seen only by those who may see all the tables that it is made of.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..schema import QUERIES

#: (type, name, sql) of a row of sqlite_master
SchemaRow = tuple[str, str, "str | None"]

_VIRTUAL = re.compile(
    r"\s*create\s+virtual\s+table\b.*?\busing\s+(\w+)\s*(?:\((.*)\))?", re.I | re.S
)
_CONTENT = re.compile(
    r"""\bcontent\s*=\s*(?:"([^"]+)"|'([^']+)'|\[([^\]]+)\]|`([^`]+)`|(\w+))""", re.I
)
_FIRST_WORD = re.compile(r"""\s*["'\[`]?([^"'\]`,]+)""")
_SHADOWS = ("data", "idx", "content", "docsize", "config", "segments", "segdir", "stat")


@dataclass(frozen=True)
class Dependencies:
    """The tables that derived tables and saved queries are made of, by name."""

    tables: dict[str, frozenset[str]]
    queries: dict[str, frozenset[str]]


def dependencies_of(schema: Iterable[SchemaRow]) -> Dependencies:
    """What is made of what, from the rows of ``sqlite_master``. What cannot be understood is made
    of everything."""
    schema = [row for row in schema if row[0] in ("table", "view")]
    names = {name for _, name, _ in schema}
    by_key = {name.lower(): name for name in names}
    direct: dict[str, set[str]] = {}
    for kind, name, sql in schema:
        virtual = _VIRTUAL.match(sql or "")
        if kind == "table" and virtual:
            sources = _index_sources(name, virtual[1].lower(), virtual[2] or "", by_key)
            if sources:
                direct[name] = sources
            for suffix in _SHADOWS:
                if f"{name}_{suffix}" in names:
                    direct[f"{name}_{suffix}"] = {name}
    ordinary = {
        name for kind, name, _ in schema if kind == "table" and not name.startswith("sqlite_")
    } - direct.keys()
    for _, name, _ in schema:
        if name.startswith("sqlite_stat"):
            direct[name] = set(ordinary)  # samples of values of any index
    reader = _Reader(schema, direct.keys())
    for kind, name, _ in schema:
        if kind == "view":
            quoted = name.replace('"', '""')
            read = reader.tables_read(f'select * from "{quoted}"')
            direct[name] = ordinary if read is None else {by_key[key] for key in read} - {name}
    queries = {}
    for name, query in QUERIES.items():
        read = reader.tables_read(query.sql)
        queries[name] = ordinary if read is None else {by_key[key] for key in read}
    reader.close()

    def closure(sources: set[str]) -> frozenset[str]:
        found: set[str] = set()
        while sources:
            found |= sources
            sources = set().union(*(direct.get(source, ()) for source in sources)) - found
        return frozenset(found)

    return Dependencies(
        {name: closure(sources) - {name} for name, sources in direct.items()},
        {name: closure(set(sources)) for name, sources in queries.items()},
    )


def _index_sources(name: str, module: str, arguments: str, by_key: dict[str, str]) -> set[str]:
    if module in ("fts5vocab", "fts4aux"):
        source = by_key.get(_FIRST_WORD.match(arguments)[1].strip().lower())  # type: ignore[index]
        return {source} if source else set(by_key.values()) - {name}
    content = _CONTENT.search(arguments)
    if content:
        source = by_key.get(next(group for group in content.groups() if group).lower())
        if source:
            return {source}
    # Contentless, or with a content of its own: it goes by its name, as messages_cjk does.
    parts = name.lower().split("_")
    for length in range(len(parts) - 1, 0, -1):
        source = by_key.get("_".join(parts[:length]))
        if source:
            return {source}
    return set()


class _Reader:
    """An empty copy of a database, to ask SQLite itself which tables a statement reads."""

    def __init__(self, schema: list[SchemaRow], derived: Iterable[str]) -> None:
        from datasette.utils.sqlite import sqlite3

        self._error = sqlite3.Error
        self._keys = {name.lower() for _, name, _ in schema}
        self._read: set[str] = set()
        self._connection = sqlite3.connect(":memory:")
        for function, arguments in (("escape_fts", 1), ("list_price_usd", 6)):
            self._connection.create_function(function, arguments, str)
        derived = set(derived)
        for kind, name, sql in sorted(schema, key=lambda row: row[0]):
            virtual = _VIRTUAL.match(sql or "")
            shadow = kind == "table" and name in derived and not virtual
            if not sql or shadow or name.startswith("sqlite_"):
                continue
            if virtual and not virtual[1].lower().startswith("fts"):
                continue
            try:
                self._connection.execute(sql)
            except sqlite3.Error:
                pass  # what reads it cannot be prepared, and so is made of everything
        self._connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == 20 and first and first.lower() in self._keys:  # SQLITE_READ
            self._read.add(first.lower())
        return 0

    def tables_read(self, sql: str) -> set[str] | None:
        """Lower-case names of the tables and views that a statement reads; ``None`` when SQLite
        cannot prepare it."""
        self._read.clear()
        parameters = dict.fromkeys(re.findall(r":(\w+)", sql), "")
        try:
            self._connection.execute(f"explain {sql}", parameters)
        except self._error:
            return None
        return set(self._read)

    def close(self) -> None:
        self._connection.close()


_known: weakref.WeakKeyDictionary[Any, tuple[int, Dependencies]] = weakref.WeakKeyDictionary()


async def dependencies(db: Any) -> Dependencies:
    """:func:`dependencies_of` a database of Datasette, found again when its schema changes."""
    version = (await db.execute("pragma schema_version")).first()[0]
    known = _known.get(db)
    if known is None or known[0] != version:
        rows = (await db.execute("select type, name, sql from sqlite_master")).rows
        known = (version, dependencies_of([tuple(row) for row in rows]))
        _known[db] = known
    return known[1]
