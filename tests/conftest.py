"""Builders and fixtures that several test files share."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from datasette_crystal.model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Messages,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    SourceFile,
    SourceInfo,
)
from datasette_crystal.store import Store, close_at_rest, open_for_writing

pytest_plugins = ["browsing"]

#: Real and recorded home directories with their truth, kept outside the repository.
FIXTURES = Path(os.environ["CRYSTAL_FIXTURES"]) if os.environ.get("CRYSTAL_FIXTURES") else None
#: The browser of the tests that need one.
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fixtures: needs the folder that CRYSTAL_FIXTURES names")
    config.addinivalue_line(
        "markers", "browser: needs Chromium; left out where there is none, but in CI"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = set()
    if FIXTURES is None:
        without.add("fixtures")
    if CHROMIUM is None and not os.environ.get("CI"):
        without.add("browser")
    left_out = {item for item in items if any(map(item.get_closest_marker, without))}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A skipped test hides something that CI should have installed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = 1


NOW = "2026-11-30T12:00:00.000Z"


def message(uid: str, content: str = "", **values: Any) -> ParsedMessage:
    """A message of a conversation: a prompt when ``uid`` begins with u, else a reply."""
    person = uid.startswith("u")
    values.setdefault("role", "user" if person else "assistant")
    values.setdefault("kind", "prompt" if person else "reply")
    values.setdefault("shared_uid", True)
    return ParsedMessage(uid=uid, content=content, **values)


def call(name: str = "Bash", **values: Any) -> ParsedToolCall:
    values.setdefault("input", '{"command":"ls"}')
    values.setdefault("output", "done")
    values.setdefault("status", "ok")
    return ParsedToolCall(name=name, **values)


def conversation(
    session_id: str, messages: Iterable[ParsedMessage], **values: Any
) -> ParsedConversation:
    values.setdefault("source", "toy")
    values.setdefault("cwd", "/home/ana/shop")
    return ParsedConversation(session_id=session_id, messages=Messages(messages), **values)


def store_all(path: Path, *conversations: ParsedConversation, machine: str = "m1") -> list[str]:
    """Stores conversations one after the other, as one import would; returns the outcomes."""
    connection = open_for_writing(path)
    store = Store(connection, machine, lambda: NOW)
    outcomes = []
    with store.transaction():
        store.start_run("0", "UTC", "{}")
        for source in sorted({item.source for item in conversations}):
            store.add_source(source, source.title())
        for item in conversations:
            outcomes.append(store.store_conversation(item)[1])
    store.finish()
    close_at_rest(connection)
    return outcomes


def query(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


def shown(path: Path, session_id: str) -> list[tuple[str, str, int]]:
    """(content, state, inherited) of what a conversation shows, in order."""
    return query(
        path,
        "select content, state, inherited from transcript where conversation_id = "
        "(select id from conversations where session_id = ?) order by position",
        session_id,
    )


def check_invariants(path: Path) -> None:
    """What must hold in every crystal database."""
    assert query(path, "pragma integrity_check") == [("ok",)]
    assert query(path, "pragma foreign_key_check") == []
    assert (
        query(
            path,
            "select c.session_id from conversations c where message_count <> "
            "(select count(*) from messages m where m.conversation_id = c.id)",
        )
        == []
    )
    # every message is shown by the conversation that owns it, at its own place
    assert (
        query(
            path,
            "select m.id from messages m left join conversation_messages cm "
            "on cm.conversation_id = m.conversation_id and cm.position = m.position "
            "and cm.message_id = m.id and cm.uid = m.uid where cm.message_id is null",
        )
        == []
    )
    # no conversation shows a message twice, and places are counted from 0 without a gap
    assert (
        query(
            path,
            "select conversation_id from conversation_messages group by conversation_id "
            "having count(distinct message_id) <> count(*) or min(position) <> 0 "
            "or max(position) <> count(*) - 1",
        )
        == []
    )
    for table in ("tool_calls", "file_edits"):
        assert (
            query(
                path,
                f"select t.id from {table} t join messages m on m.id = t.message_id "
                "where m.conversation_id <> t.conversation_id",
            )
            == []
        )
    connection = sqlite3.connect(path)
    try:
        # rank 1: compare the index with the table too
        connection.execute(
            "insert into messages_fts(messages_fts, rank) values('integrity-check', 1)"
        )
        connection.execute("insert into messages_cjk(messages_cjk) values('integrity-check')")
        connection.rollback()
    finally:
        connection.close()


_NATURAL = {
    "conversation_id": "(select source || '/' || session_id from conversations where id = {})",
    "parent_id": "(select source || '/' || session_id from conversations where id = {})",
    "subagent_id": "(select source || '/' || session_id from conversations where id = {})",
    "project_id": "(select machine || path from projects where id = {})",
    "message_id": "(select uid from messages where id = {})",
}


def contents(path: Path) -> dict[str, list[str]]:
    """The content of a database without what depends on the order or the time of imports: integer
    ids become natural keys."""
    found = {}
    for table in (
        "conversations",
        "messages",
        "conversation_messages",
        "tool_calls",
        "file_edits",
        "attachments",
        "daily_usage",
    ):
        columns = [row[1] for row in query(path, f"pragma table_info({table})")]
        columns = [c for c in columns if c not in ("id", "imported_at", "updated_at")]
        select = ", ".join(_NATURAL.get(c, "{}").format(f"{table}.{c}") for c in columns)
        found[table] = sorted(repr(row) for row in query(path, f"select {select} from {table}"))
    return found


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class ToyAdapter:
    """A source whose conversations a test writes by hand: one file each, whose content does not
    matter."""

    name = "toy"
    display_name = "Toy"
    parser_version = 1

    def __init__(self, home: Path) -> None:
        self.root = home / ".toy"
        self.root.mkdir(parents=True, exist_ok=True)
        self.conversations: dict[str, ParsedConversation | Exception] = {}
        self.parsed: list[str] = []

    def put(self, item: ParsedConversation) -> Path:
        path = self.root / f"{item.session_id}.toy"
        path.write_text(f"{len(item.messages)} {len(self.conversations)} {item.title}")
        self.conversations[item.session_id] = item
        return path

    def detect(self, env: Environment) -> SourceInfo | None:
        return SourceInfo(self.name, [self.root]) if self.root.is_dir() else None

    def scan(self, env: Environment) -> Iterator[ConversationMeta]:
        for path in sorted(self.root.glob("*.toy")):
            yield ConversationMeta(self.name, path.stem, (SourceFile.at(path, self.root),))

    def parse(self, meta: ConversationMeta) -> Parsed:
        self.parsed.append(meta.session_id)
        item = self.conversations[meta.session_id]
        if isinstance(item, Exception):
            raise item
        records = FileRecords(meta.files[0].path, records=len(item.messages))
        records.kept = records.records
        return Parsed([item], [records])


@pytest.fixture
def deny_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a directory one that may not be listed - also for root, whom file modes do not bind."""
    real = os.scandir

    def deny(directory: Path) -> None:
        def scandir(path: Any = ".") -> Any:
            if os.fspath(path) == str(directory):
                raise PermissionError(13, "Permission denied", str(directory))
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return deny


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "crystal.db"


@pytest.fixture
def toy(tmp_path: Path) -> ToyAdapter:
    return ToyAdapter(tmp_path / "home")
