"""Databases of the sample home, which ship as JSON: the bytes of an SQLite file depend on the
version of SQLite that wrote it, its rows do not.

A file has ``path`` (in the home) and ``tables``, each with the statement that makes it and its rows.
A cell is text, a number or ``null``; an object or a list is the JSON text of it, and
``{"$blob": "00ff"}`` bytes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .writers import compact


def blob(data: bytes) -> dict[str, str]:
    """A cell that holds bytes."""
    return {"$blob": data.hex()}


@dataclass(frozen=True)
class Database:
    """A database at ``path`` in the home; ``name`` is that of the JSON file; ``tables`` leads from
    a ``create table`` statement to its rows."""

    path: str
    name: str
    tables: Mapping[str, Sequence[Sequence[Any]]]

    def text(self) -> str:
        """The JSON file, a line for each row."""
        tables = [
            f'{{"create": {compact(create)}, "rows": [\n'
            + ",\n".join(compact(row) for row in rows)
            + "\n]}"
            for create, rows in self.tables.items()
        ]
        return f'{{"path": {compact(self.path)}, "tables": [\n{",".join(tables)}\n]}}\n'


def assemble(text: str, home: Path) -> Path:
    """Makes the database that a JSON file describes, below ``home``; returns its path."""
    described = json.loads(text)
    path = home / described["path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in described["tables"]:
            connection.execute(table["create"])
            name = table["create"].split()[2]
            for row in table["rows"]:
                marks = ", ".join("?" * len(row))
                connection.execute(f"insert into {name} values ({marks})", [_cell(c) for c in row])
    return path


def _cell(value: Any) -> Any:
    if isinstance(value, dict) and "$blob" in value:
        return bytes.fromhex(value["$blob"])
    return compact(value) if isinstance(value, dict | list) else value
