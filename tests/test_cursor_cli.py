"""Chats of Cursor's command line agent: stores, transcripts, and which of them is read."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_crystal.adapters import cursor_cli
from datasette_crystal.adapters.cursor_cli import CursorCliAdapter
from datasette_crystal.adapters.vscdb import VscdbBusy
from datasette_crystal.model import (
    ConversationMeta,
    Environment,
    FileRecords,
    ParsedConversation,
    ScanProblem,
)
from datasette_crystal.testing import check_adapter
from datasette_crystal.text import iso_time

T0 = 1_771_600_000_000
ID = "51f94b2c-2ba7-4a82-9fbe-e32962bc02e6"

# --------------------------------------------------------------------------- building homes


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Store:
    """A store.db in the making."""

    def __init__(self, home: Path, id_: str = ID) -> None:
        self.path = home / ".cursor/chats/0123456789abcdef" / id_ / "store.db"
        self.path.parent.mkdir(parents=True)
        self.db = sqlite3.connect(self.path)
        self.db.execute("create table blobs (id TEXT PRIMARY KEY, data BLOB)")
        self.db.execute("create table meta (key TEXT PRIMARY KEY, value TEXT)")

    def blob(self, value: Any) -> bytes:
        """Returns the digest."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        digest = hashlib.sha256(data).digest()
        self.db.execute("insert or replace into blobs values (?, ?)", (digest.hex(), data))
        return digest

    def root(self, digests: list[bytes], folder: str | None = None) -> bytes:
        data = b"".join(field(1, digest) for digest in digests)
        return self.blob(data + (field(9, folder.encode()) if folder else b""))

    def finish(self, root: bytes, **meta: Any) -> None:
        value = {
            "agentId": self.path.parent.name,
            "latestRootBlobId": root.hex(),
            "blobEncryptionKey": "SECRET-KEY",
            "createdAt": T0,
            **meta,
        }
        self.db.execute(
            "insert or replace into meta values ('0', ?)", (json.dumps(value).encode().hex(),)
        )
        self.db.commit()
        self.db.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def query(text: str) -> dict[str, Any]:
    return user(f"<user_query>\n{text}\n</user_query>")


def assistant(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "1", "role": "assistant", "content": list(parts)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(id_: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": id_, "toolName": name, "args": arguments}


def result(id_: str, value: Any, **more: Any) -> dict[str, Any]:
    part = {"type": "tool-result", "toolCallId": id_, "toolName": "x", "result": value, **more}
    return {"role": "tool", "content": [part]}


def simple_store(home: Path, messages: list[Any], id_: str = ID, **meta: Any) -> Path:
    store = Store(home, id_)
    store.finish(store.root([store.blob(message) for message in messages]), **meta)
    return store.path


def transcript(home: Path, id_: str, lines: list[Any], *, folder: str = "") -> Path:
    path = home / ".cursor/projects/home-dev-p/agent-transcripts" / folder / f"{id_}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    )
    return path


def line(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "message": {"content": list(parts)}}


# --------------------------------------------------------------------------- reading homes


def scan(home: Path) -> list[ConversationMeta | ScanProblem]:
    return list(CursorCliAdapter().scan(Environment.for_home(home)))


def read(home: Path) -> dict[str, tuple[ParsedConversation, list[FileRecords]]]:
    adapter = CursorCliAdapter()
    found = {}
    for meta in scan(home):
        assert isinstance(meta, ConversationMeta)
        parsed = adapter.parse(meta)
        for records in parsed.files:
            assert records.records == (
                records.kept + records.ignored + records.unknown + records.malformed
            )
        for conversation in parsed.conversations:
            found[conversation.session_id] = (conversation, parsed.files)
    return found


def read_one(home: Path) -> ParsedConversation:
    [(conversation, _)] = read(home).values()
    return conversation


def words(conversation: ParsedConversation) -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in conversation.messages]


TURN = [query("Read it"), assistant(text("It says hello."))]
TALK = [("prompt", "Read it"), ("reply", "It says hello.")]

# --------------------------------------------------------------------------- stores


def test_a_store_is_walked_from_its_latest_root(tmp_path: Path) -> None:
    store = Store(tmp_path)
    left = store.blob(assistant(text("ABANDONED BRANCH")))
    digests = [
        store.blob(message)
        for message in (
            {"role": "system", "content": "You are"},
            user("<user_info>\nOS: linux\n\nWorkspace Path: /home/other\n</user_info>"),
            query("Read it"),
            assistant(
                {"type": "reasoning", "text": "need to read"},
                text("Reading."),
                call("tc1", "Read", path="/tmp/foo"),
                call("tc2", "Write", path="/tmp/bar", contents="x"),
            ),
            result("tc1", "hello"),
            result("tc2", {"type": "error-text", "value": "denied"}, isError=True),
            assistant(text("It says hello.")),
        )
    ]
    store.root([digests[0], left])
    store.finish(
        store.root(digests, "/home/dev/p"), name="Read foo", lastUsedModel="gpt-5", mode="default"
    )
    (store.path.parent / "meta.json").write_text(json.dumps({"updatedAtMs": T0 + 9000}))
    [(chat, [records])] = read(tmp_path).values()
    assert (chat.session_id, chat.title, chat.model) == (ID, "Read foo", "gpt-5")
    assert (chat.started_at, chat.ended_at) == (iso_time(T0), iso_time(T0 + 9000))
    assert chat.cwd == chat.project_path == "/home/dev/p"
    shown = [(m.role, m.kind, m.content, m.thinking) for m in chat.messages]
    assert shown[0][:2] == ("user", "context")
    assert shown[1:] == [
        ("user", "prompt", "Read it", None),
        ("assistant", "reply", "Reading.", "need to read"),
        ("assistant", "reply", "It says hello.", None),
    ]
    first, second = list(chat.messages)[2].tool_calls
    assert (first.name, first.input, first.output, first.status) == (
        "Read",
        '{"path":"/tmp/foo"}',
        "hello",
        "ok",
    )
    assert (second.output, second.status) == ("denied", "error")
    assert [edit.path for edit in second.edits] == ["/tmp/bar"]
    # the root, six messages; the system prompt
    assert (records.kept, records.ignored) == (7, 1)
    assert "SECRET-KEY" not in repr((chat, list(chat.messages), records, scan(tmp_path)))


def test_the_folder_of_a_store(tmp_path: Path) -> None:
    path = simple_store(
        tmp_path, [user("<user_info>\nWorkspace Path: /home/a b\n</user_info>"), *TURN]
    )
    assert read_one(tmp_path).project_path == "/home/a b"
    (path.parent / "meta.json").write_text(json.dumps({"cwd": "/home/meta", "title": "T"}))
    chat = read_one(tmp_path)
    assert (chat.project_path, chat.title) == ("/home/meta", "T")


def test_thoughts_and_texts_after_calls_begin_a_row(tmp_path: Path) -> None:
    simple_store(
        tmp_path,
        [
            query("do"),
            assistant(
                call("1", "A"), text("one"), call("2", "B"), {"type": "reasoning", "text": "hm"}
            ),
        ],
    )
    chat = read_one(tmp_path)
    shown = [(m.content, m.thinking, [c.name for c in m.tool_calls]) for m in chat.messages]
    assert shown == [("do", None, []), ("", None, ["A"]), ("one", None, ["B"]), ("", "hm", [])]
    assert {c.status for m in chat.messages for c in m.tool_calls} == {"unknown"}
    assert len({m.uid for m in chat.messages}) == 4


def test_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    simple_store(tmp_path, [*TURN, *TURN])
    chat = read_one(tmp_path)
    assert words(chat) == TALK * 2
    assert len({m.uid for m in chat.messages}) == 4
    assert not any(m.shared_uid for m in chat.messages)


def test_what_the_client_puts_around_a_prompt(tmp_path: Path) -> None:
    stamped = (
        "<timestamp>2026-02-20T15:06:40Z</timestamp>\n<user_query>\na <user_query> b\n</user_query>"
    )
    simple_store(
        tmp_path,
        [
            user(stamped),
            user("<attached_files>\nx\n</attached_files>\n<user_query>\nlook\n</user_query>"),
            user("plain <b>text</b>"),
            user("<git_status>\nclean\n</git_status>"),
            {"role": "user", "content": "a string"},
            assistant(text("ok")),
        ],
    )
    chat = read_one(tmp_path)
    assert words(chat) == [
        ("prompt", "a <user_query> b"),
        ("context", "<attached_files>\nx\n</attached_files>"),
        ("prompt", "look"),
        ("prompt", "plain <b>text</b>"),
        ("context", "<git_status>\nclean\n</git_status>"),
        ("prompt", "a string"),
        ("reply", "ok"),
    ]
    assert next(iter(chat.messages)).timestamp == "2026-02-20T15:06:40.000Z"


def test_images(tmp_path: Path) -> None:
    data = base64.b64encode(b"png bytes").decode()
    parts = [
        {"type": "image", "image": data, "mimeType": "image/png"},
        {"type": "image", "image": "https://x/y.png"},
        {"type": "file", "data": {"odd": 1}, "filename": "a.pdf"},
    ]
    simple_store(tmp_path, [{"role": "user", "content": parts}, assistant(text("seen"))])
    first = next(iter(read_one(tmp_path).messages))
    assert (first.kind, first.content) == ("prompt", "")
    assert [(a.kind, a.name, a.media_type, a.content) for a in first.attachments] == [
        ("image", "", "image/png", b"png bytes"),
        ("image", "https://x/y.png", None, None),
        ("file", "a.pdf", None, None),
    ]


def test_turns_in_newer_roots(tmp_path: Path) -> None:
    store = Store(tmp_path)
    asked = store.blob(query("Read it"))
    said = field(4, json.dumps(assistant(text("It says hello."))).encode())
    turn = field(1, asked) + field(2, said + field(26, T0))
    store.finish(store.blob(field(3, b"x") + field(8, turn) + field(8, store.blob(b"\x08\x01"))))
    chat = read_one(tmp_path)
    assert words(chat) == TALK
    assert list(chat.messages)[1].timestamp == iso_time(T0)


def test_encrypted_blobs_are_unreadable_and_the_transcript_takes_over(tmp_path: Path) -> None:
    simple_store(tmp_path, [b"\x93\x01encrypted", b"\x94\x02encrypted"], name="Secret")
    chat, [records] = read(tmp_path)[ID]
    assert (chat.fidelity, chat.title, len(chat.messages)) == ("unreadable", "Secret", 0)
    assert records.unknown == 2
    transcript(tmp_path, ID, [line("user", text("hi")), line("assistant", text("hello"))])
    chat, [_, _] = read(tmp_path)[ID]
    assert words(chat) == [("prompt", "hi"), ("reply", "hello")]


def test_missing_and_odd_blobs_cost_only_themselves(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digests = [store.blob(TURN[0]), b"\x01" * 32, store.blob(b"{cut"), store.blob({"a": 1})]
    digests += [store.blob({"role": "robot"}), store.blob(TURN[1])]
    store.finish(store.root(digests))
    chat, [records] = read(tmp_path)[ID]
    assert words(chat) == TALK
    assert (records.kept, records.unknown) == (3, 3)


def test_no_store_at_all(tmp_path: Path) -> None:
    path = tmp_path / ".cursor/chats/x" / ID / "store.db"
    path.parent.mkdir(parents=True)
    sqlite3.connect(path).execute("create table other (a)")
    [meta] = scan(tmp_path)
    assert isinstance(meta, ConversationMeta)
    with pytest.raises(ValueError, match="not a chat store"):
        CursorCliAdapter().parse(meta)
    path.write_bytes(b"garbage" * 100)
    with pytest.raises(ValueError):
        CursorCliAdapter().parse(meta)


def test_a_store_without_a_root_is_empty(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.finish(b"", name="New")
    assert read(tmp_path) == {}


def test_growth_in_the_wal_changes_the_marker(tmp_path: Path) -> None:
    path = simple_store(tmp_path, TURN)
    [before] = scan(tmp_path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma wal_autocheckpoint = 0")
    db.execute("insert into blobs values ('x', 'y')")
    [after] = scan(tmp_path)
    assert isinstance(before, ConversationMeta) and isinstance(after, ConversationMeta)
    assert before.marker != after.marker
    db.close()


# --------------------------------------------------------------------------- transcripts


def test_a_transcript(tmp_path: Path) -> None:
    path = transcript(
        tmp_path,
        ID,
        [
            line("user", text("<user_query>\nRead it\n</user_query>")),
            line(
                "assistant",
                {"type": "thinking", "thinking": "[REDACTED]"},
                text("Reading."),
                {"type": "tool_use", "name": "Read", "input": {"path": "/tmp/foo"}},
            ),
            line("assistant", text("It says hello.")),
            {"type": "error", "message": "connection lost"},
            {"type": "turn_ended"},
            {"type": "new thing", "secret": "SECRET-KEY"},
            "{cut",
            "[1]",
        ],
        folder=ID,
    )
    chat, [records] = read(tmp_path)[ID]
    assert words(chat) == [
        ("prompt", "Read it"),
        ("reply", "Reading."),
        ("reply", "It says hello."),
        ("error", "connection lost"),
    ]
    assert chat.fidelity == "partial"
    [reading] = list(chat.messages)[1].tool_calls
    assert (reading.input, reading.output, reading.status) == (
        '{"path":"/tmp/foo"}',
        None,
        "unknown",
    )
    assert (records.path, records.kept, records.ignored) == (str(path), 4, 1)
    assert (records.unknown, records.malformed) == (1, 2)
    assert "SECRET" not in repr(records)


def test_transcripts_of_subagents(tmp_path: Path) -> None:
    transcript(tmp_path, ID, [line("user", text("go")), line("assistant", text("ok"))], folder=ID)
    transcript(
        tmp_path,
        "child",
        [line("user", text("explore")), line("assistant", text("found"))],
        folder=f"{ID}/subagents",
    )
    found = read(tmp_path)
    child, _ = found["child"]
    assert (child.kind, child.parent_session_id) == ("subagent", ID)
    assert words(child) == [("task", "explore"), ("reply", "found")]
    assert found[ID][0].kind == "main"


def test_what_is_no_conversation(tmp_path: Path) -> None:
    transcript(tmp_path, "ended", [{"type": "turn_ended"}])
    transcript(tmp_path, "failed", [{"type": "error", "message": "no network"}])
    transcript(tmp_path, "empty", [])
    (tmp_path / ".cursor/projects/home-dev-p/agent-transcripts/old.txt").write_text("user:\nhi\n")
    assert read(tmp_path) == {}


# --------------------------------------------------------------------------- which is read


def editor_store(home: Path, id_: str, *, body: bool = True) -> None:
    path = home / ".config/Cursor/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute("create table if not exists cursorDiskKV (key TEXT UNIQUE, value BLOB)")
    headers = {"composerId": id_, "fullConversationHeadersOnly": [{"bubbleId": "b", "type": 1}]}
    db.execute(
        "insert into cursorDiskKV values (?, ?)", (f"composerData:{id_}", json.dumps(headers))
    )
    if body:
        db.execute(
            "insert into cursorDiskKV values (?, ?)",
            (f"bubbleId:{id_}:b", json.dumps({"type": 1, "text": "hi"})),
        )
    db.commit()
    db.close()


def test_editor_before_store_before_transcript(tmp_path: Path) -> None:
    for id_ in ("editor", "store", "head"):
        simple_store(tmp_path, TURN, id_)
    for id_ in ("editor", "store", "transcript"):
        transcript(tmp_path, id_, [line("user", text("poorer")), line("assistant", text("x"))])
    editor_store(tmp_path, "editor")
    editor_store(tmp_path, "head", body=False)
    found = {id_: words(chat) for id_, (chat, _) in read(tmp_path).items()}
    assert found == {
        "store": TALK,
        "head": TALK,
        "transcript": [("prompt", "poorer"), ("reply", "x")],
    }


def test_while_the_editors_database_is_busy_nothing_is_given_and_nothing_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple_store(tmp_path, TURN)

    def busy(env: Environment, ids: Any) -> set[str]:
        raise VscdbBusy("being written")

    monkeypatch.setattr(cursor_cli, "sessions_in_editor", busy)
    problems = scan(tmp_path)
    roots = {problem.root for problem in problems if isinstance(problem, ScanProblem)}
    assert len(problems) == 2
    assert roots == {str(tmp_path / ".cursor" / name) for name in ("chats", "projects")}


def test_where_to_look(tmp_path: Path) -> None:
    assert CursorCliAdapter().detect(Environment.for_home(tmp_path)) is None
    (tmp_path / "elsewhere").mkdir()
    simple_store(tmp_path / "elsewhere", TURN)
    config = str(tmp_path / "elsewhere/.cursor")
    env = Environment(tmp_path, variables={"CURSOR_CONFIG_DIR": config})
    info = CursorCliAdapter().detect(env)
    assert info is not None and info.roots == [Path(config) / "chats"]
    assert len(list(CursorCliAdapter().scan(env))) == 1
    named = Environment.for_home(tmp_path, {"cursor-cli": (tmp_path / "elsewhere",)})
    assert len(list(CursorCliAdapter().scan(named))) == 1


def test_the_adapter_keeps_the_rules(tmp_path: Path) -> None:
    simple_store(tmp_path, [*TURN, query("more"), assistant(call("1", "Read", path="x"))])
    transcript(tmp_path, "t", [line("user", text("hi")), line("assistant", text("hello"))])
    check_adapter(CursorCliAdapter(), tmp_path)


# --------------------------------------------------------------------------- anything at all

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    ["role", "content", "type", "text", "toolCallId", "toolName", "args", "input", "result", "output",
     "isError", "value", "image", "data", "message", "name", "id", "filename", "mimeType"]
)  # fmt: skip
NAMES = st.sampled_from(["user", "assistant", "tool", "system", "text", "reasoning", "tool-call",
                         "tool-result", "image", "error", "turn_ended"])  # fmt: skip
ANY = st.recursive(
    SCALARS | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(ANY, max_size=5), st.binary(max_size=60))
def test_nothing_is_too_odd(tmp_path: Path, values: list[Any], root: bytes) -> None:
    home = Path(tmp_path) / f"{len(list(tmp_path.iterdir()))}"
    simple_store(home, [*TURN, *values], "store")
    store = Store(home, "root")
    store.finish(store.blob(root))
    transcript(home, "lines", [*values, line("user", text("hi")), root.decode("latin-1")])
    first, second = read(home), read(home)
    assert words(first["store"][0])[:2] == TALK
    assert any(message.content == "hi" for message in first["lines"][0].messages)
    assert list(first) == list(second)
    for id_, (chat, records) in first.items():
        assert list(chat.messages) == list(second[id_][0].messages)
        assert records == second[id_][1]
        assert len({message.uid for message in chat.messages}) == len(chat.messages)
