"""The queries of the pages without a Datasette: a SQLite connection that looks like one of its
databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")


class Rows:
    """What Datasette's ``execute`` gives."""

    def __init__(self, rows: list[sqlite3.Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[sqlite3.Row]:
        return iter(self.rows)

    def first(self) -> sqlite3.Row | None:
        return self.rows[0] if self.rows else None


class Reader:
    """A connection with the one method of Datasette's databases that the pages' queries call."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def execute(self, sql: str, parameters: Any = (), **_: Any) -> Rows:
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return Rows(cursor.execute(sql, parameters).fetchall())


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine over a :class:`Reader` returns. It never waits, so it needs no event loop:
    Jupyter has one of its own, in which no other can run."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine waits for something")
