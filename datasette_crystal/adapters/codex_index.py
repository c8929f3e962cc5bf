"""What Codex keeps beside its rollouts: the names of threads, which file of a thread is the live
one, and the prompts that people typed.

``state_5.sqlite`` is a live database of another program. Opening it in place would create or change
its ``-wal`` and ``-shm``, so a private copy is read and deleted at once.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..text import iso_time
from .jsonl import decode, read_lines

#: Reading the thread index must not hold up a scan: it is only a cache of what the rollouts say.
DEADLINE = 3.0
_MAX_DATABASE = 512 * 1024 * 1024
_STATE_NAME = re.compile(r"state_(\d+)\.sqlite")
_WANTED = ("id", "rollout_path", "archived", "title", "name", "first_user_message")


@dataclass(slots=True)
class Thread:
    """What the index files say of one thread."""

    title: str | None = None
    live_file: str | None = None
    archived: bool = False
    parent: str | None = None


def state_database(*directories: Path | None) -> Path | None:
    """The newest ``state_<n>.sqlite`` in the first directory that has one."""
    for directory in directories:
        if directory is None:
            continue
        found: list[tuple[int, Path]] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    match = _STATE_NAME.fullmatch(entry.name)
                    if match and len(match.group(1)) < 10 and entry.is_file():
                        found.append((int(match.group(1)), Path(entry.path)))
        except OSError:
            continue
        if found:
            return max(found)[1]
    return None


def read_state(database: Path) -> dict[str, Thread]:
    """The threads of a ``state_5.sqlite`` by their id. Raises :class:`OSError` or
    :class:`sqlite3.Error` when it cannot be read; unknown and missing columns are no error."""
    directory = tempfile.mkdtemp(prefix="datasette-crystal-")  # mode 0700
    try:
        copy = _copy(database, Path(directory).absolute())
        deadline = time.monotonic() + DEADLINE
        # read-only: closing it would else write the log into the copy, and wait for the disk
        connection = sqlite3.connect(f"{copy.as_uri()}?mode=ro", isolation_level=None, uri=True)
        try:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 20_000)
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            return _threads(connection)
        finally:
            connection.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _copy(database: Path, directory: Path) -> Path:
    """Copies a database and its write-ahead log, again if it was written to meanwhile."""
    copy = directory / "state.sqlite"
    wal, wal_copy = Path(f"{database}-wal"), Path(f"{copy}-wal")
    for _ in range(3):
        before = _stamp(database), _stamp(wal)
        size = sum(stamp[0] for stamp in before if stamp is not None)
        if size > _MAX_DATABASE:
            raise OSError(f"{size} bytes are too much for a thread index")
        shutil.copyfile(database, copy)
        try:
            shutil.copyfile(wal, wal_copy)
        except FileNotFoundError:
            wal_copy.unlink(missing_ok=True)
        if before == (_stamp(database), _stamp(wal)):
            break
    return copy


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _threads(connection: sqlite3.Connection) -> dict[str, Thread]:
    columns = {row[1] for row in connection.execute("pragma table_info(threads)")}
    if "id" not in columns:
        return {}
    wanted = [column for column in _WANTED if column in columns]
    threads: dict[str, Thread] = {}
    for values in connection.execute(f"select {', '.join(wanted)} from threads"):
        row: dict[str, Any] = dict(zip(wanted, values, strict=True))
        if not isinstance(row["id"], str):
            continue
        path = row.get("rollout_path")
        name = re.split(r"[/\\]", path)[-1] if isinstance(path, str) and path else None
        threads[row["id"]] = Thread(_title(row), name, row.get("archived") == 1)
    try:
        edges = connection.execute(
            "select parent_thread_id, child_thread_id from thread_spawn_edges"
        )
        for parent, child in edges:
            if child in threads and isinstance(parent, str):
                threads[child].parent = parent
    except sqlite3.Error:
        pass  # older than the table
    return threads


def _title(row: dict[str, Any]) -> str | None:
    """The name that a thread was given; its ``title`` only where that is not the first prompt
    again, as it is for most threads of the command line."""
    name = row.get("name")
    if isinstance(name, str) and name.strip():
        return name.strip()
    title, first = row.get("title"), row.get("first_user_message")
    if not isinstance(title, str) or not title.strip():
        return None
    title = title.strip()
    if isinstance(first, str):
        start = " ".join(title.rstrip("…. ").split())
        if " ".join(first.split()).startswith(start):
            return None
    return title


def read_names(path: Path) -> dict[str, str]:
    """The thread names of ``session_index.jsonl`` by thread id. It is only ever appended to, so
    the last name of a thread is valid. Raises :class:`OSError`."""
    names: dict[str, str] = {}
    for _, line in read_lines(path):
        for value in decode(line)[0]:
            if isinstance(value, dict):
                thread_id, name = value.get("id"), value.get("thread_name")
                if isinstance(thread_id, str) and isinstance(name, str) and name.strip():
                    names[thread_id] = name.strip()
    return names


def read_prompts(path: Path, known: Iterable[str]) -> dict[str, list[tuple[str | None, str]]]:
    """The prompts of ``history.jsonl`` by session id, each with its time, for all sessions but
    those ``known``. Raises :class:`OSError`."""
    skipped = set(known)
    prompts: dict[str, list[tuple[str | None, str]]] = {}
    for _, line in read_lines(path):
        for value in decode(line)[0]:
            if not isinstance(value, dict):
                continue
            session_id, text = value.get("session_id"), value.get("text")
            if not isinstance(session_id, str) or not session_id or session_id in skipped:
                continue
            if isinstance(text, str) and text.strip():
                prompts.setdefault(session_id, []).append((iso_time(value.get("ts")), text))
    return prompts
