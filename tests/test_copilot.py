"""The chats of GitHub Copilot in VS Code: the log, flat files, exports, databases."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_crystal.adapters.copilot import CopilotAdapter, register_adapters
from datasette_crystal.adapters.mutationlog import Refused, Replay
from datasette_crystal.model import (
    ConversationMeta,
    Environment,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    ScanProblem,
)

ADAPTER = CopilotAdapter()
MILLISECONDS = 1_770_000_000_000
CHAT = "0a1b2c3d-0000-4000-8000-000000000001"
ASKED = "request_0a1b2c3d-1111-4000-8000-00000000000"


# ------------------------------------------------------------------- builders


def request(number: int = 1, text: str = "question", *parts: Any, **values: Any) -> dict[str, Any]:
    return {
        "requestId": f"{ASKED}{number}",
        "message": {"text": text, "parts": [{"kind": "text", "text": text}]},
        "timestamp": MILLISECONDS + number * 1000,
        "response": list(parts),
        "modelState": {"value": 1, "completedAt": MILLISECONDS + number * 1000 + 500},
        **values,
    }


def says(text: str) -> dict[str, Any]:
    return {"value": text, "supportThemeIcons": False}


def thinks(text: Any, id_: str = "t") -> dict[str, Any]:
    return {"kind": "thinking", "value": text, "id": id_}


def runs(tool: str = "copilot_readFile", id_: str = "", **values: Any) -> dict[str, Any]:
    return {
        "kind": "toolInvocationSerialized",
        "toolId": tool,
        "toolCallId": id_ or "f0000000-0000-4000-8000-000000000000",
        "isConfirmed": {"type": 1},
        "isComplete": True,
        **values,
    }


def file_uri(path: str) -> dict[str, Any]:
    return {"$mid": 1, "path": path, "scheme": "file"}


def rounds(*calls: tuple[str, str, Any, Any]) -> dict[str, Any]:
    """result.metadata for calls of (id, name, arguments, result)."""
    return {
        "metadata": {
            "toolCallRounds": [
                {"response": "", "toolCalls": [{"id": i, "name": n, "arguments": a}]}
                for i, n, a, _ in calls
            ],
            "toolCallResults": {
                i: {"$mid": 20, "content": [{"$mid": 21, "value": r}]} for i, _, _, r in calls
            },
        }
    }


def session(*requests: Any, **values: Any) -> dict[str, Any]:
    return {
        "version": 3,
        "sessionId": CHAT,
        "creationDate": MILLISECONDS,
        "requests": list(requests),
        **values,
    }


class Home:
    """A home directory with VS Code in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.user_dir = path / ".config/Code/User"
        self.storage = self.add_storage("a" * 32, "file:///home/ana/shop")

    def add_storage(self, id_: str, folder: str | None = None) -> Path:
        storage = self.user_dir / "workspaceStorage" / id_
        (storage / "chatSessions").mkdir(parents=True)
        if folder is not None:
            (storage / "workspace.json").write_text(json.dumps({"folder": folder}))
        return storage

    def flat(self, value: Any, name: str = CHAT, storage: Path | None = None) -> Path:
        path = (storage or self.storage) / "chatSessions" / f"{name}.json"
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    def log(self, *entries: Any, name: str = CHAT, storage: Path | None = None) -> Path:
        path = (storage or self.storage) / "chatSessions" / f"{name}.jsonl"
        path.write_bytes(
            b"".join(
                (e if isinstance(e, bytes) else json.dumps(e, separators=(",", ":")).encode())
                + b"\n"
                for e in entries
            )
        )
        return path

    def database(self, values: dict[str, Any], storage: Path | None = None) -> Path:
        path = (storage or self.storage) / "state.vscdb"
        db = sqlite3.connect(path)
        db.execute("create table ItemTable (key text unique on conflict replace, value blob)")
        for key, value in values.items():
            db.execute("insert into ItemTable values (?, ?)", (key, json.dumps(value)))
        db.commit()
        db.close()
        return path

    def env(self, *roots: Path) -> Environment:
        return Environment.for_home(self.path, {"copilot": roots} if roots else None)

    def metas(self, *roots: Path) -> list[ConversationMeta]:
        found = list(ADAPTER.scan(self.env(*roots)))
        assert not [problem for problem in found if isinstance(problem, ScanProblem)]
        return [meta for meta in found if isinstance(meta, ConversationMeta)]

    def parse(self, *roots: Path) -> Parsed:
        (meta,) = self.metas(*roots)
        return checked(ADAPTER.parse(meta))

    def read(self, *roots: Path) -> ParsedConversation:
        (conversation,) = self.parse(*roots).conversations
        return conversation


def checked(parsed: Parsed) -> Parsed:
    for records in parsed.files:
        accounted = records.kept + records.ignored + records.unknown + records.malformed
        assert records.records == accounted
    for conversation in parsed.conversations:
        uids = [message.uid for message in conversation.messages]
        assert len(uids) == len(set(uids))
        for message in conversation.messages:
            for call in message.tool_calls:
                assert call.input is None or json.loads(call.input) is not None
    return parsed


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def rows(conversation: ParsedConversation) -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in conversation.messages]


def replies(home: Home, *parts: Any, **values: Any) -> list[ParsedMessage]:
    home.flat(session(request(1, "question", *parts, **values)))
    return [message for message in home.read().messages if message.role == "assistant"]


def only_call(home: Home, *parts: Any, **values: Any) -> ParsedToolCall:
    (call,) = [call for m in replies(home, *parts, **values) for call in m.tool_calls]
    return call


# ------------------------------------------------------------------- the mutation log

INITIAL = {"kind": 0, "v": {"requests": [], "a": {"b": [1, 2, 3]}}}


def replayed(*entries: Any) -> Any:
    replay = Replay()
    for entry in entries:
        replay.apply(entry)
    return replay.state


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"kind": 0, "v": 5}, 5),
        ({"kind": 1, "k": ["a", "b"], "v": 7}, {"b": 7}),
        ({"kind": 1, "k": ["a", "b", 1], "v": 7}, {"b": [1, 7, 3]}),
        ({"kind": 1, "k": ["a", "b", 4], "v": 7}, {"b": [1, 2, 3, None, 7]}),
        ({"kind": 1, "k": ["a", "b"]}, {}),  # no v: removed
        ({"kind": 1, "k": ["a", "b"], "v": None}, {"b": None}),
        ({"kind": 1, "k": ["a", "c", "d"], "v": 7}, Refused),
        ({"kind": 1, "k": [], "v": 7}, {"b": [1, 2, 3]}),
        ({"kind": 1, "k": ["a", "__proto__"], "v": 7}, {"b": [1, 2, 3], "__proto__": 7}),
        ({"kind": 1, "k": ["a", "b", 10**12], "v": 7}, Refused),
        ({"kind": 1, "k": ["a", "b", -1], "v": 7}, Refused),
        ({"kind": 1, "k": ["a", "b", True], "v": 7}, Refused),
        ({"kind": 1, "k": ["a", "b", 0, "c"], "v": 7}, Refused),
        ({"kind": 2, "k": ["a", "b"], "v": [4]}, {"b": [1, 2, 3, 4]}),
        ({"kind": 2, "k": ["a", "b"], "v": [4, 5], "i": 1}, {"b": [1, 4, 5]}),  # not a splice
        ({"kind": 2, "k": ["a", "b"], "i": 2}, {"b": [1, 2]}),
        ({"kind": 2, "k": ["a", "b"], "i": 0}, {"b": []}),
        ({"kind": 2, "k": ["a", "b"], "i": 10**12}, Refused),
        ({"kind": 2, "k": ["a", "new"], "v": [4]}, {"b": [1, 2, 3], "new": [4]}),
        ({"kind": 2, "k": ["a"], "v": [4]}, Refused),
        ({"kind": 2, "k": ["a", "b"], "v": {}}, Refused),
        ({"kind": 3, "k": ["a", "b"]}, {}),
        ({"kind": 3, "k": ["a", "b", 1]}, {"b": [1, None, 3]}),  # the others do not move
        ({"kind": 3, "k": ["a", "b", 9]}, {"b": [1, 2, 3]}),
        ({"kind": 3, "k": ["a", "none"]}, {"b": [1, 2, 3]}),
        ({"kind": 4, "k": ["a"]}, Refused),
        ({"kind": True, "k": ["a"]}, Refused),
        ({"kind": 1, "k": "a", "v": 1}, Refused),
        ([], Refused),
    ],
)
def test_each_kind_of_entry(entry: Any, expected: Any) -> None:
    if expected is Refused:
        with pytest.raises(Refused):
            replayed(INITIAL, entry)
        return
    state = replayed(json.loads(json.dumps(INITIAL)), entry)
    assert (state if entry["kind"] == 0 else state["a"]) == expected


def test_entries_before_the_initial_one_are_refused_and_later_ones_reset() -> None:
    replay = Replay()
    with pytest.raises(Refused):
        replay.apply({"kind": 1, "k": ["a"], "v": 1})
    replay.apply({"kind": 0, "v": {"a": 2}})
    replay.apply({"kind": 0, "v": {"b": 3}})
    assert replay.state == {"b": 3}


def ids(replay: Replay) -> list[tuple[str, bool]]:
    return [(request["requestId"], gone) for request, gone in replay.requests()]


def simple(*names: str) -> list[dict[str, str]]:
    return [{"requestId": name} for name in names]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([{"kind": 2, "k": ["requests"], "v": simple("d")}], "a b c d"),
        ([{"kind": 2, "k": ["requests"], "v": simple("d"), "i": 1}], "a -b -c d"),
        ([{"kind": 2, "k": ["requests"], "v": simple("b", "d"), "i": 1}], "a -c b d"),
        ([{"kind": 2, "k": ["requests"], "i": 0}], "-a -b -c"),
        (
            [
                {"kind": 2, "k": ["requests"], "v": simple("d"), "i": 2},
                {"kind": 2, "k": ["requests"], "v": simple("e"), "i": 1},
            ],
            "a -b -c -d e",
        ),
        (  # back again after it was taken away
            [
                {"kind": 2, "k": ["requests"], "v": simple("d"), "i": 2},
                {"kind": 2, "k": ["requests"], "v": simple("c"), "i": 2},
            ],
            "a b -d c",
        ),
        ([{"kind": 1, "k": ["requests", 1], "v": simple("d")[0]}], "a -b d c"),
        ([{"kind": 1, "k": ["requests", 1], "v": simple("b")[0]}], "a b c"),
        ([{"kind": 3, "k": ["requests", 1]}], "a -b c"),
        ([{"kind": 3, "k": ["requests"]}], "-a -b -c"),
        (
            [
                {"kind": 3, "k": ["requests"]},
                {"kind": 2, "k": ["requests"], "v": simple("c")},
            ],
            "-a -b c",
        ),
        ([{"kind": 1, "k": ["requests"], "v": simple("c", "d")}], "-a -b c d"),
        ([{"kind": 0, "v": {"requests": simple("a", "c", "d")}}], "a -b c d"),
        ([{"kind": 0, "v": 1}], "-a -b -c"),
        ([{"kind": 1, "k": ["requests", 4], "v": simple("d")[0]}], "a b c d"),
    ],
)
def test_requests_that_were_taken_away_are_remembered(entries: list[Any], expected: str) -> None:
    replay = Replay()
    replay.apply({"kind": 0, "v": {"requests": simple("a", "b", "c")}})
    for entry in entries:
        replay.apply(entry)
    assert " ".join(("-" if gone else "") + name for name, gone in ids(replay)) == expected


PATHS = st.lists(
    st.sampled_from(["requests", "response", "a", "__proto__", 0, 1, 2, 17, -1, 10**12, None, True])
)
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(simple("a", "b", "c")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from([0, 1, 1, 2, 2, 3, 9, None])},
        optional={"k": PATHS, "v": VALUES, "i": st.sampled_from([0, 1, 2, 5, -1, 10**12, "x"])},
    ),
    max_size=25,
)


@given(ENTRIES)
def test_any_log_is_applied_or_refused(entries: list[Any]) -> None:
    replay = Replay()
    for entry in [{"kind": 0, "v": {"requests": simple("a", "b")}}, *entries]:
        try:
            replay.apply(json.loads(json.dumps(entry)))
        except Refused:
            pass
    live = [request for request, gone in replay.requests() if not gone]
    requests = replay.state.get("requests") if isinstance(replay.state, dict) else None
    held = requests if isinstance(requests, list) else []
    assert [r for r in held if r is not None] == live
    names = [
        request["requestId"]
        for request, _ in replay.requests()
        if isinstance(request, dict) and isinstance(request.get("requestId"), str)
    ]
    assert set(names) >= {
        r["requestId"] for r in live if isinstance(r, dict) and r.get("requestId")
    }


# ------------------------------------------------------------------- reading a log


def test_a_conversation_is_what_the_whole_log_amounts_to(home: Home) -> None:
    home.log(
        {"kind": 0, "v": session(inputState={"inputText": "draft"})},
        {"kind": 2, "k": ["requests"], "v": [request(1, "first", says("dra"), says("ft"))]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [says("final")], "i": 0},
        {"kind": 1, "k": ["requests", 0, "completionTokens"], "v": 39},
        {"kind": 1, "k": ["customTitle"], "v": "A title"},
        {"kind": 1, "k": ["inputState", "inputText"], "v": "not sent"},
        {"kind": 2, "k": ["pendingRequests"], "v": [{"request": request(9, "queued")}]},
    )
    parsed = home.parse()
    (conversation,) = parsed.conversations
    assert rows(conversation) == [("prompt", "first"), ("reply", "final")]
    assert conversation.title == "A title"
    assert conversation.title_origin == "tool"
    assert conversation.project_path == "/home/ana/shop"
    assert conversation.started_at == "2026-02-02T02:40:00.000Z"
    reply = list(conversation.messages)[1]
    assert reply.tokens is not None and reply.tokens.output == 39 and reply.tokens.input is None
    assert reply.timestamp == "2026-02-02T02:40:01.500Z"
    (records,) = parsed.files
    assert (records.records, records.kept, records.ignored) == (7, 5, 2)


def test_requests_that_were_cut_off_are_abandoned(home: Home) -> None:
    home.log(
        {"kind": 0, "v": session(request(1, "one", says("1")), request(2, "two", says("2")))},
        {"kind": 2, "k": ["requests"], "v": [request(3, "three", says("3"))], "i": 1},
    )
    states = [(m.content, m.state) for m in home.read().messages]
    assert states == [
        ("one", "active"),
        ("1", "active"),
        ("two", "abandoned"),
        ("2", "abandoned"),
        ("three", "active"),
        ("3", "active"),
    ]


def test_a_prompt_that_met_the_sign_in_dialog_stands_once(home: Home) -> None:
    stub = request(1, "hello", says("Sign in"), agent={"id": "setup.agent"})
    home.log(
        {"kind": 0, "v": session(stub)},
        {"kind": 2, "k": ["requests"], "v": [request(2, "hello", says("Hi"))], "i": 0},
    )
    assert rows(home.read()) == [("prompt", "hello"), ("reply", "Hi")]


def test_torn_orphaned_and_unknown_lines_are_counted(home: Home) -> None:
    home.log(
        b"\xef\xbb\xbf" + json.dumps({"kind": 0, "v": session(request(1, "one"))}).encode(),
        {"kind": 1, "k": ["requests", 7, "response", 0], "v": 1},  # no parent
        {"kind": 7, "k": ["x"]},
        {"kind": 1, "k": ["somethingNew"], "v": 1},
        {"kind": 1, "k": ["requests", 0, "novelty"], "v": 1},
        b"",
        b'{"kind":1,"k":["customTitle"],"v":"t"}{"kind":1,"k":["customTitle"],"v":"u"}',
        b"\0\0\0",
        b'{"kind":2,"k":["requests"],"v":[{"requ',
    )
    parsed = home.parse()
    (records,) = parsed.files
    assert (records.kept, records.malformed, records.unknown) == (3, 3, 3)
    assert {sample.type for sample in records.samples} == {
        "kind 7",
        "somethingNew",
        "requests.#.novelty",
    }
    assert parsed.conversations[0].title == "u"
    assert parsed.conversations[0].fidelity == "partial"


def test_a_log_without_a_beginning_falls_back_to_the_flat_file(home: Home) -> None:
    home.log({"kind": 1, "k": ["customTitle"], "v": "lost"})
    (meta,) = home.metas()
    with pytest.raises(ValueError, match="no initial entry"):
        ADAPTER.parse(meta)
    home.flat(session(request(1, "one", says("1"))))
    assert rows(home.read()) == [("prompt", "one"), ("reply", "1")]


def test_a_late_initial_entry_is_taken(home: Home) -> None:
    home.log(
        {"kind": 1, "k": ["customTitle"], "v": "lost"},
        {"kind": 0, "v": session(request(1, "one", says("1")))},
    )
    assert rows(home.read()) == [("prompt", "one"), ("reply", "1")]


def test_the_log_is_preferred_to_the_flat_file(home: Home) -> None:
    home.log({"kind": 0, "v": session(request(1, "from the log", says("1")))})
    home.flat(session(request(1, "from the flat file")))
    parsed = home.parse()
    assert rows(parsed.conversations[0])[0] == ("prompt", "from the log")
    assert [len(meta.files) for meta in home.metas()] == [2]
    assert (parsed.files[1].kept, parsed.files[1].ignored) == (0, 2)


def test_drafts_are_recognised_without_decoding(home: Home) -> None:
    draft = b'{"kind":1,"k":["inputState","attachments"],"v":[' + b"1," * 50_000 + b"1]}"
    torn = b'{"kind":1,"k":["inputState","attachm'
    home.log({"kind": 0, "v": session(request(1, "one"))}, draft, torn)
    (records,) = home.parse().files
    assert (records.kept, records.ignored, records.malformed) == (1, 1, 1)


# ------------------------------------------------------------------- flat files


def test_version_1(home: Home) -> None:
    home.flat(
        {
            "sessionId": CHAT,
            "creationDate": MILLISECONDS,
            "requests": [
                {"message": "plain", "response": "answer"},
                {"message": "more", "response": ["an", "swer", {"value": " two"}]},
                {
                    "message": "last",
                    "response": [],
                    "responseErrorDetails": {"message": "It failed"},
                },
            ],
        }
    )
    conversation = home.read()
    assert rows(conversation) == [
        ("prompt", "plain"),
        ("reply", "answer"),
        ("prompt", "more"),
        ("reply", "answer two"),
        ("prompt", "last"),
        ("error", "It failed"),
    ]
    assert [message.timestamp for message in conversation.messages] == [None] * 6
    assert not any(message.shared_uid for message in conversation.messages)


def test_version_2_and_titles(home: Home) -> None:
    home.flat(session(request(1, "ask\nmore"), version=2, computedTitle="Computed"))
    assert home.read().title == "Computed"
    home.flat(session(request(1, "\n ask\nmore"), customTitle=" "))
    assert (home.read().title, home.read().title_origin) == ("ask", "first-prompt")


def test_a_log_entry_in_a_flat_file_is_unwrapped(home: Home) -> None:
    home.flat({"kind": 0, "v": session(request(1, "one", says("1")))})
    assert rows(home.read()) == [("prompt", "one"), ("reply", "1")]


def test_of_a_file_that_ends_early_the_complete_requests_are_read(home: Home) -> None:
    data = json.dumps(session(request(1, "one", says("1")), request(2, "two", says("2"))))
    home.flat(data[: data.index('"two"') + 20].encode())
    parsed = home.parse()
    assert rows(parsed.conversations[0]) == [("prompt", "one"), ("reply", "1")]
    assert parsed.conversations[0].fidelity == "partial"
    assert parsed.conversations[0].started_at == "2026-02-02T02:40:00.000Z"
    assert parsed.files[0].malformed == 1


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"[]", b"{}", b'{"requests": 5}', b"not json", b'{"requests": [{']
)
def test_what_is_no_session_is_an_error(home: Home, data: bytes) -> None:
    home.flat(data)
    (meta,) = home.metas()
    with pytest.raises(ValueError):
        ADAPTER.parse(meta)


def test_an_empty_session_is_an_empty_conversation(home: Home) -> None:
    home.flat(session())
    assert rows(home.read()) == []


# ------------------------------------------------------------------- finding


def test_empty_windows_transfers_and_no_workspace(home: Home) -> None:
    for folder, name in (("emptyWindowChatSessions", "x"), ("transferredChatSessions", "y")):
        (home.user_dir / "globalStorage" / folder).mkdir(parents=True)
        (home.user_dir / "globalStorage" / folder / f"{name}.json").write_text(
            json.dumps(session(request(1, name)))
        )
    home.flat(session(request(1, "z")), "z", home.add_storage("no-workspace"))
    assert [meta.session_id for meta in home.metas()] == ["x", "y", "z"]
    assert {ADAPTER.parse(meta).conversations[0].project_path for meta in home.metas()} == {None}


def test_copies_of_a_session_are_read_once_the_newest(home: Home) -> None:
    old = home.flat(session(request(1, "old")))
    new = home.flat(session(request(1, "new")), storage=home.add_storage("b" * 32))
    os.utime(old, (1, 1))
    assert rows(home.read()) == [("prompt", "new"), ("reply", "")]
    os.utime(new, (0, 0))
    assert rows(home.read()) == [("prompt", "old"), ("reply", "")]


def test_exports_are_read_where_the_user_names_them(home: Home) -> None:
    documents = home.path / "Documents"
    documents.mkdir()
    export = {"initialLocation": "panel", "requests": [request(1, "exported", says("yes"))]}
    (documents / "chat.json").write_text(json.dumps(export, indent=2))
    (documents / "package.json").write_text('{"name": "shop", "kind": "x"}')
    (documents / "notes.txt").write_text("requests")
    assert home.metas() == []
    for root in (documents, documents / "chat.json"):
        (meta,) = home.metas(root)
        assert rows(ADAPTER.parse(meta).conversations[0]) == [
            ("prompt", "exported"),
            ("reply", "yes"),
        ]
    export["requests"].append(request(2, "later"))  # type: ignore[attr-defined]
    (documents / "chat.json").write_text(json.dumps(export))
    assert home.metas(documents)[0].session_id == meta.session_id
    home.flat(session(request(1, "native"), sessionId=meta.session_id), meta.session_id)
    assert rows(home.read(documents))[0] == ("prompt", "native")


def test_a_copied_session_file_keeps_its_id(home: Home) -> None:
    backup = home.path / "backup"
    backup.mkdir()
    (backup / "any.jsonl").write_text(json.dumps({"kind": 0, "v": session(request(1, "one"))}))
    assert [meta.session_id for meta in home.metas(backup)] == [CHAT]


def test_detect(home: Home) -> None:
    assert ADAPTER.detect(home.env()) is None
    home.flat(session(request()))
    info = ADAPTER.detect(home.env())
    assert info is not None and (info.conversations, info.roots) == (1, [home.user_dir])
    found: list[Any] = []
    register_adapters(found.append)
    assert [adapter.name for adapter in found] == ["copilot"]


# ------------------------------------------------------------------- databases


def test_sessions_of_old_databases(home: Home) -> None:
    old = session(request(1, "old", says("1")), sessionId="in-database")
    path = home.database({"interactive.sessions": [old, None, {"requests": 1}]})
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(home.storage.iterdir()))
    assert rows(home.read()) == [("prompt", "old"), ("reply", "1")]
    (meta,) = home.metas()
    assert meta.session_id == meta.files[0].part == "in-database"
    assert home.read().project_path == "/home/ana/shop"
    after = (path.read_bytes(), path.stat().st_mtime_ns, sorted(home.storage.iterdir()))
    assert before == after
    home.flat(session(request(1, "newer"), sessionId="in-database"), "in-database")
    assert rows(home.read())[0] == ("prompt", "newer")


def test_the_marker_of_a_stored_session_is_its_content(home: Home) -> None:
    sessions = [session(request(1, name), sessionId=name) for name in ("a", "b")]
    path = home.database({"interactive.sessions": sessions})
    before = {meta.session_id: (meta.marker, meta.files) for meta in home.metas()}
    sessions[1]["requests"].append(request(2, "more"))
    path.unlink()
    home.database({"interactive.sessions": sessions, "other": 1})
    after = {meta.session_id: (meta.marker, meta.files) for meta in home.metas()}
    assert before["a"] == after["a"]
    assert before["b"] != after["b"]


def test_titles_of_the_index(home: Home) -> None:
    index = {"version": 1, "entries": {CHAT: {"title": "Indexed"}, "gone": {"title": "Gone"}}}
    home.database({"chat.ChatSessionStore.index": index, "interactive.sessions": []})
    home.flat(session(request(1, "first words")))
    assert (home.read().title, home.read().title_origin) == ("Indexed", "tool")
    home.flat(session(request(1, "first words"), customTitle="Own"))
    assert home.read().title == "Own"


def test_a_damaged_database_is_a_problem_and_stops_nothing(home: Home) -> None:
    """Whether it held sessions cannot be told any more."""
    home.flat(session(request(1, "first words")))
    for content in (b"garbage", b"garbage interactive.sessions"):
        (home.storage / "state.vscdb").write_bytes(content)
        problem, meta = ADAPTER.scan(home.env())
        assert isinstance(problem, ScanProblem) and problem.status == "unreadable"
        assert isinstance(meta, ConversationMeta)
    (home.storage / "state.vscdb").write_bytes(b"")
    assert home.read().title == "first words"


# ------------------------------------------------------------------- what was asked


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, "prompt"),
        ({"message": {"text": "/fix it"}, "slashCommand": {"name": "fix"}}, "command"),
        ({"message": {"text": "/etc/hosts is wrong"}}, "prompt"),
        ({"confirmation": "Continue"}, "answer"),
        ({"isSystemInitiated": True}, "notification"),
        ({"requestHiddenFromTranscript": True}, "context"),
    ],
)
def test_whose_words_a_request_is(home: Home, values: dict[str, Any], kind: str) -> None:
    home.flat(session(request(1, "words", **values)))
    first = next(iter(home.read().messages))
    assert first.kind == kind
    assert first.role == ("system" if kind in ("notification", "context") else "user")


def test_text_that_is_only_in_the_parts(home: Home) -> None:
    parts = [{"kind": "text", "text": "only "}, {"kind": "text", "text": "here"}, 7]
    home.flat(session(request(1, "x", message={"text": "", "parts": parts})))
    assert rows(home.read())[0] == ("prompt", "only here")


def test_undone_requests_are_rolled_back(home: Home) -> None:
    home.flat(session(request(1, "undone", says("x"), shouldBeRemovedOnSend={"requestId": "r"})))
    assert {message.state for message in home.read().messages} == {"rolled-back"}


def test_attachments(home: Home) -> None:
    png = b"\x89PNG\r\n"
    range_ = {"startLineNumber": 3, "startColumn": 1, "endLineNumber": 9, "endColumn": 2}
    variables = [
        {"kind": "file", "name": "a.py", "value": file_uri("/home/ana/a.py")},
        {"name": "old", "value": {"uri": file_uri("/home/ana/b.py"), "range": range_}},
        {"kind": "image", "name": "i", "value": {"$base64": base64.b64encode(png).decode()}},
        {"kind": "image", "name": "j", "value": {str(n): b for n, b in enumerate(png)}},
        {"kind": "image", "name": "k", "value": {"0": 999}},
        {"kind": "string", "name": "pasted", "value": "text"},
        {"kind": "workspace", "name": "w", "value": "tree of everything"},
        {"kind": "tool", "name": "t"},
        None,
    ]
    home.flat(session(request(1, "look", variableData={"variables": variables})))
    attached = next(iter(home.read().messages)).attachments
    assert [(a.kind, a.name, a.media_type, a.content) for a in attached] == [
        ("file", "/home/ana/a.py", None, None),
        ("file", "/home/ana/b.py:3-9", None, None),
        ("image", "i", "image/png", png),
        ("image", "j", "image/png", png),
        ("image", "k", None, None),
        ("string", "pasted", "text/plain", b"text"),
    ]


# ------------------------------------------------------------------- what came back


def test_fragments_are_joined_without_anything_between(home: Home) -> None:
    (reply,) = replies(
        home,
        says("See "),
        {"kind": "inlineReference", "inlineReference": file_uri("/home/ana/shop/cart.py")},
        says(", "),
        {"kind": "inlineReference", "name": "the cart", "inlineReference": file_uri("/x")},
        {
            "kind": "inlineReference",
            "inlineReference": {"name": "total", "kind": 11, "location": {"uri": file_uri("/x")}},
        },
        says(" and"),
        {"kind": "markdownContent", "content": {"value": " more"}},
        {"kind": "markdownVuln", "content": {"value": "."}, "vulnerabilities": []},
    )
    assert reply.content == "See `cart.py`, `the cart` `total` and more."


def test_steps_are_rows(home: Home) -> None:
    steps = replies(
        home,
        thinks(["I ", "see"]),
        thinks("", "t"),
        says("Reading."),
        runs(),
        says("\n"),
        runs(),
        thinks("Now", "u"),
        says("\n\nDone"),
        says("."),
    )
    assert [(s.thinking, s.content, len(s.tool_calls)) for s in steps] == [
        ("I see", "Reading.", 2),
        ("Now", "\n\nDone.", 0),
    ]


def test_thoughts_are_kept_apart(home: Home) -> None:
    steps = replies(home, thinks("a", "1"), thinks("b", "1"), thinks("c", "2"), says("d"))
    assert [(s.thinking, s.content) for s in steps] == [("ab", ""), ("c", "d")]


def test_an_answer_of_tool_calls_only_or_of_nothing_is_one_row(home: Home) -> None:
    assert [(r.content, len(r.tool_calls)) for r in replies(home, runs())] == [("", 1)]
    assert [(r.content, r.kind) for r in replies(home)] == [("", "reply")]


def test_a_request_that_was_never_answered_has_no_reply(home: Home) -> None:
    killed = request(1, "killed", modelState={"value": 0})
    del killed["response"]
    home.flat(session(killed))
    assert rows(home.read()) == [("prompt", "killed")]


def test_what_the_editor_says_is_not_the_models(home: Home) -> None:
    home.flat(
        session(
            request(
                1,
                "q",
                {"kind": "mcpServersStarting", "didStartServerIds": ["x"]},
                {"kind": "progressMessage", "content": {"value": "Working"}},
                {"kind": "warning", "content": {"value": "Careful"}},
                {"kind": "confirmation", "title": "Go on?", "message": {"value": "It costs"}},
                {"kind": "hook", "hookType": "Stop", "stopReason": "no"},
                {"kind": "undoStop", "id": "1"},
                says("Answer"),
            )
        )
    )
    assert rows(home.read()) == [
        ("prompt", "q"),
        ("notification", "Careful"),
        ("notification", "Go on?\n\nIt costs"),
        ("hook", "Stop\n\nno"),
        ("reply", "Answer"),
    ]


def test_questions_and_answers(home: Home) -> None:
    questions = [
        {"id": "1", "title": "Which?", "options": [{"label": "red"}, {"label": "blue"}]},
        {"id": "2", "title": "Why?"},
    ]
    data = {"1": {"selectedValue": "red"}, "2": "because"}
    home.flat(
        session(request(1, "q", {"kind": "questionCarousel", "questions": questions, "data": data}))
    )
    assert rows(home.read())[1:3] == [
        ("notification", "Which?\n- red\n- blue\n\nWhy?"),
        ("answer", "Which?: red\nWhy?: because"),
    ]


def test_unknown_parts_are_reported_and_their_text_is_kept(home: Home) -> None:
    hologram = {"kind": "hologram", "content": {"value": "shiny"}}
    home.flat(session(request(1, "q", *[hologram] * 4)))
    parsed = home.parse()
    assert ("notification", "shiny") in rows(parsed.conversations[0])
    (records,) = parsed.files
    # the session, its request, and four parts; three of a type are shown as samples
    assert (records.records, records.kept, records.unknown) == (6, 2, 4)
    assert [sample.type for sample in records.samples] == ["hologram"] * 3


def test_what_was_retracted_is_abandoned(home: Home) -> None:
    steps = replies(
        home, says("bad"), {"kind": "clearToPreviousToolInvocation", "reason": 1}, says("good")
    )
    assert [(s.content, s.state) for s in steps] == [("bad", "abandoned"), ("good", "active")]


# ------------------------------------------------------------------- how it ended


def test_cancelled_and_failed(home: Home) -> None:
    home.flat(
        session(
            request(1, "a", says("half"), modelState={"value": 2}),
            request(2, "b", says("half"), isCanceled=True, modelState=None),
            request(3, "c", result={"errorDetails": {"message": "No quota", "code": "x"}}),
            request(4, "d", says("so"), result={"errorDetails": {"responseIsIncomplete": True}}),
        )
    )
    assert rows(home.read()) == [
        ("prompt", "a"),
        ("partial", "half"),
        ("interruption", "Canceled"),
        ("prompt", "b"),
        ("partial", "half"),
        ("interruption", "Canceled"),
        ("prompt", "c"),
        ("error", "No quota"),
        ("prompt", "d"),
        ("partial", "so"),
    ]


@pytest.mark.parametrize(
    ("values", "model"),
    [
        ({"modelId": "copilot/gpt-9"}, "gpt-9"),
        ({"modelId": "copilot/auto", "result": {"details": "GPT-9 mini • 1x"}}, "GPT-9 mini"),
        ({"modelId": "copilot/auto"}, None),
        (
            {"modelId": "copilot/auto", "result": {"metadata": {"resolvedModel": "gpt-9-real"}}},
            "gpt-9-real",
        ),
    ],
)
def test_model(home: Home, values: dict[str, Any], model: str | None) -> None:
    assert replies(home, says("x"), **values)[0].model == model


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        ({"completionTokens": 12, "promptTokens": 900}, 12),
        ({"result": {"usage": {"completionTokens": 7}}}, 7),
        ({"result": {"metadata": {"outputTokens": 5}}}, 5),
        ({"result": {"metadata": {"outputTokens": 5, "toolCallRounds": [{}, {}]}}}, None),
        ({"completionTokens": "many"}, None),
    ],
)
def test_tokens_of_all_calls_stand_on_the_last_row(
    home: Home, values: dict[str, Any], tokens: int | None
) -> None:
    first, last = replies(home, says("x"), runs(), says("y"), **values)
    assert first.tokens is None
    assert (last.tokens.output if last.tokens else None) == tokens


def test_votes(home: Home) -> None:
    assert replies(home, says("x"), vote=1)[0].vote == "up"
    assert replies(home, says("x"), vote=0)[0].vote == "down"
    assert replies(home, says("x"), vote=True)[0].vote is None


# ------------------------------------------------------------------- tool calls


def test_calls_are_joined_by_id_without_their_tails(home: Home) -> None:
    call = only_call(
        home,
        runs(id_="call_1__vscode-1"),
        result=rounds(("call_1__vscode-22", "read_file", '{"filePath": "/a"}', "text of a")),
    )
    assert (call.name, call.input, call.output) == (
        "copilot_readFile",
        '{"filePath": "/a"}',
        "text of a",
    )
    assert (call.call_id, call.status) == ("call_1__vscode-1", "ok")


def test_calls_without_a_common_id_are_joined_by_order(home: Home) -> None:
    (reply,) = replies(
        home,
        runs(id_="u1"),
        runs("copilot_findTextInFiles", "u2"),
        runs(id_="u3"),
        result=rounds(
            ("c1", "read_file", '{"n":1}', "one"),
            ("c2", "grep_search", '{"n":2}', "two"),
            ("c3", "read_file", '{"n":3}', "three"),
        ),
    )
    assert [(c.input, c.output) for c in reply.tool_calls] == [
        ('{"n":1}', "one"),
        ('{"n":2}', "two"),
        ('{"n":3}', "three"),
    ]


def test_calls_are_never_counted_twice_nor_joined_by_guess(home: Home) -> None:
    (reply,) = replies(
        home,
        runs(id_="u1"),
        runs("runSubagent", "u2"),
        runs(id_="u3", subAgentInvocationId="u2"),
        result=rounds(
            ("c1", "read_file", '{"n":1}', "one"),
            ("c2", "runSubagent", '{"prompt":"go"}', "report"),
            ("c4", "run_in_terminal", '{"command":"ls"}', "hidden"),
        ),
    )
    assert [(c.name, c.output) for c in reply.tool_calls] == [
        ("copilot_readFile", "one"),
        ("runSubagent", "report"),
        ("copilot_readFile", None),  # the subagent's, of which nothing is recorded
    ]
    (two,) = replies(home, runs(), runs(), result=rounds(("c1", "read_file", '{"n":1}', "one")))
    assert [c.output for c in two.tool_calls] == [None, None]


def test_results_as_a_tree(home: Home) -> None:
    tree = {
        "node": {
            "children": [
                {"text": "a"},
                {"children": [{"text": "b", "lineBreakBefore": True}, {"text": "c"}]},
                {"text": "d"},
            ]
        }
    }
    call = only_call(home, runs(), result=rounds(("c", "read_file", "{}", tree)))
    assert call.output == "a\nbcd"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": 1', '"{\\"a\\": 1"'),
        ("", None),
        ({"a": 1}, '{"a":1}'),
        (None, None),
    ],
)
def test_arguments_are_json_text(home: Home, arguments: Any, expected: str | None) -> None:
    call = only_call(home, runs(), result=rounds(("c", "read_file", arguments, "x")))
    assert call.input == expected


def terminal(**values: Any) -> dict[str, Any]:
    return {"kind": "terminal", **values}


@pytest.mark.parametrize(
    ("values", "input_", "output"),
    [
        ({"toolSpecificData": terminal(command="ls")}, {"command": "ls"}, None),
        (
            {"toolSpecificData": terminal(commandLine={"original": "ls", "userEdited": "ls -a"})},
            {"command": "ls -a"},
            None,
        ),
        (
            {"toolSpecificData": terminal(terminalCommandOutput={"text": "a\r\nb"})},
            None,
            "a\r\nb",
        ),
        (
            {"toolSpecificData": {"kind": "todoList", "todoList": [{"title": "x"}]}},
            {"todoList": [{"title": "x"}]},
            None,
        ),
        (
            {"toolSpecificData": {"kind": "subagent", "prompt": "go", "result": "done"}},
            {"prompt": "go"},
            "done",
        ),
        ({"toolSpecificData": {"kind": "input", "rawInput": {"q": 1}}}, {"q": 1}, None),
        (
            {"resultDetails": {"input": '{"q":1}', "output": [{"value": "r", "isText": True}]}},
            {"q": 1},
            "r",
        ),
        (
            {"resultDetails": [file_uri("/a"), {"uri": file_uri("/b"), "range": None}]},
            None,
            "/a\n/b",
        ),
        (
            {
                "invocationMessage": {
                    "value": "Reading [](file:///a/b)",
                    "uris": {"file:///a/b": file_uri("/a/b")},
                }
            },
            {"filePath": "/a/b"},
            None,
        ),
        (
            {"invocationMessage": "Searching [](file:///a/b.py) for `x`"},
            {"invocationMessage": "Searching b.py for `x`"},
            None,
        ),
    ],
)
def test_what_is_shown_stands_in_for_what_is_not_recorded(
    home: Home, values: dict[str, Any], input_: Any, output: str | None
) -> None:
    call = only_call(home, runs(**values))
    assert (json.loads(call.input) if call.input else None) == input_
    assert call.output == output


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({}, "ok"),
        ({"isConfirmed": True}, "ok"),
        ({"isConfirmed": False}, "denied"),
        ({"isConfirmed": {"type": 0}}, "denied"),
        ({"isConfirmed": {"type": 5}}, "denied"),
        ({"isComplete": False}, "interrupted"),
        ({"isComplete": None}, "unknown"),
        ({"resultDetails": {"isError": True, "output": []}}, "error"),
        ({"toolSpecificData": terminal(terminalCommandState={"exitCode": 2})}, "error"),
        ({"toolSpecificData": terminal(terminalCommandState={"exitCode": 0})}, "ok"),
        ({"resultDetails": {"output": "ERROR while calling tool: no"}}, "error"),
    ],
)
def test_status(home: Home, values: dict[str, Any], status: str) -> None:
    assert only_call(home, runs(**values)).status == status


def test_exit_code_and_duration(home: Home) -> None:
    state = {"exitCode": 1, "duration": 729, "timestamp": MILLISECONDS}
    call = only_call(home, runs(toolSpecificData=terminal(terminalCommandState=state)))
    assert (call.exit_code, call.duration_ms) == (1, 729)


def test_a_call_that_still_runs_is_pending(home: Home) -> None:
    part = runs(isComplete=False)
    assert only_call(home, part, modelState={"value": 4}).status == "pending"


# ------------------------------------------------------------------- edits


def edit_group(path: str, text: str, first: int, last: int, end_column: int) -> dict[str, Any]:
    range_ = {"startLineNumber": first, "startColumn": 1}
    range_ |= {"endLineNumber": last, "endColumn": end_column}
    return {
        "kind": "textEditGroup",
        "uri": file_uri(path),
        "edits": [[], [{"text": text, "range": range_}]],
        "done": True,
    }


def test_edits_belong_to_the_editing_call_before_them(home: Home) -> None:
    (reply,) = replies(
        home,
        runs("copilot_createFile", "1"),
        edit_group("/n.py", "a\nb\n", 1, 1, 1),
        runs("copilot_replaceString", "2"),
        edit_group("/o.py", "x\n", 4, 6, 1),
        runs("copilot_readFile", "3"),
    )
    shown = [
        [(e.path, e.action, e.lines_added, e.lines_removed, e.diff) for e in call.edits]
        for call in reply.tool_calls
    ]
    assert shown == [
        [("/n.py", "create", 2, 0, "@@ -1,0 +1,2 @@\n+a\n+b")],
        [("/o.py", "edit", 1, 2, "@@ -4,2 +4,1 @@\n+x")],
        [],
    ]


def test_edits_before_their_call_and_edits_without_one(home: Home) -> None:
    (call,) = replies(home, edit_group("/a", "x", 1, 1, 9), runs("copilot_applyPatch"))[
        0
    ].tool_calls
    assert [(e.path, e.lines_removed) for e in call.edits] == [("/a", 1)]
    (call,) = replies(home, says("So:"), edit_group("/a", "x", 1, 1, 1))[0].tool_calls
    assert (call.name, call.input, call.status) == ("textEditGroup", '{"path":"/a"}', "ok")


def test_other_edits(home: Home) -> None:
    call = only_call(
        home,
        runs("copilot_editFiles"),
        {"kind": "notebookEditGroup", "uri": file_uri("/n.ipynb"), "edits": []},
        {
            "kind": "workspaceEdit",
            "edits": [
                {"oldResource": file_uri("/a"), "newResource": file_uri("/b")},
                {"oldResource": file_uri("/c")},
                {"newResource": file_uri("/d")},
            ],
        },
    )
    assert [(e.path, e.action) for e in call.edits] == [
        ("/n.ipynb", "edit"),
        ("/b", "rename"),
        ("/c", "delete"),
        ("/d", "create"),
    ]


def test_the_name_of_the_file_stands_in_emptied_code_blocks(home: Home) -> None:
    uri = {"kind": "codeblockUri", "uri": file_uri("/a.py"), "isEdit": True}
    (reply,) = replies(home, says("So:"), says("\n```\n"), uri, says("\n```\n"), says("Done"))
    assert reply.content == "So:\n```\n/a.py\n```\nDone"
    (reply,) = replies(home, says("```py\n"), uri, says("x = 1\n```"))
    assert reply.content == "```py\nx = 1\n```"


# ------------------------------------------------------------------- ids


def test_ids_are_stable_and_shared_where_they_are_unique(home: Home) -> None:
    home.flat(session(request(1, "q", says("a"), runs(), says("b"))))
    first = list(home.read().messages)
    assert [(m.uid, m.shared_uid, m.record) for m in first] == [
        (f"{ASKED}1", True, 0),
        (f"{ASKED}1/1", True, 0),
        (f"{ASKED}1/2", True, 0),
    ]
    home.flat(session(request(1, "q", requestId="request_1")))
    assert {m.shared_uid for m in home.read().messages} == {False}


def test_ids_that_occur_twice_are_told_apart(home: Home) -> None:
    home.flat(session(request(1, "q", says("a")), request(1, "q", says("a"))))
    assert len({m.uid for m in home.read().messages}) == 4


# ------------------------------------------------------------------- anything at all

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=6)
    | st.sampled_from(["```", "\n```\n", "\ud800", "\0", "request_1", 10**30]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "kind",
                    "value",
                    "content",
                    "requests",
                    "requestId",
                    "message",
                    "text",
                    "parts",
                    "response",
                    "result",
                    "metadata",
                    "toolCallRounds",
                    "toolCallResults",
                    "toolCalls",
                    "id",
                    "name",
                    "arguments",
                    "toolId",
                    "toolCallId",
                    "uri",
                    "uris",
                    "path",
                    "scheme",
                    "edits",
                    "range",
                    "startLineNumber",
                    "endLineNumber",
                    "variableData",
                    "variables",
                    "resultDetails",
                    "output",
                    "input",
                    "toolSpecificData",
                    "commandLine",
                    "terminalCommandState",
                    "exitCode",
                    "isConfirmed",
                    "type",
                    "invocationMessage",
                    "inlineReference",
                    "node",
                    "children",
                    "errorDetails",
                    "agent",
                    "modelState",
                    "completionTokens",
                    "vote",
                    "questions",
                    "data",
                    "customTitle",
                    "workingDirectory",
                    "repoData",
                    "remoteUrl",
                    "todoList",
                    "duration",
                    "isComplete",
                    "timestamp",
                    "sessionId",
                    "creationDate",
                    "k",
                    "v",
                    "i",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=40,
)
KINDS = [
    "toolInvocationSerialized",
    "thinking",
    "inlineReference",
    "textEditGroup",
    "workspaceEdit",
    "codeblockUri",
    "questionCarousel",
    "treeData",
    "confirmation",
    "hook",
    "markdownContent",
    "novelty",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ANY, st.lists(st.tuples(st.sampled_from(KINDS), ANY), max_size=6), st.booleans())
def test_any_shape_is_read_without_raising(
    home: Home, value: Any, parts: list[tuple[str, Any]], log: bool
) -> None:
    shaped = [{**(p if isinstance(p, dict) else {"value": p}), "kind": kind} for kind, p in parts]
    extra = value if isinstance(value, dict) else {"response": [value]}
    whole = session(value, {**request(1, "q", *shaped), **extra}, extra)
    for path in (home.storage / "chatSessions").iterdir():
        path.unlink()
    if log:
        home.log({"kind": 0, "v": whole}, {"kind": 1, "k": value, "v": value}, value)
    else:
        home.flat(whole)
    first = home.parse()
    assert [list(c.messages) for c in home.parse().conversations] == [
        list(c.messages) for c in first.conversations
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2000))
def test_any_bytes_are_read_or_are_an_error(home: Home, garbage: bytes, cut: int) -> None:
    good = json.dumps({"kind": 0, "v": session(request(1, "one", says("1")))}).encode() + b"\n"
    for data in (garbage, good[: cut % len(good)] + garbage, good + garbage):
        for name in (f"{CHAT}.jsonl", "other.json"):
            (home.storage / "chatSessions" / name).write_bytes(data)
        for meta in home.metas():
            try:
                checked(ADAPTER.parse(meta))
            except ValueError:
                pass


def test_deep_and_wide_values(home: Home) -> None:
    deep: Any = {"text": "x"}
    for _ in range(400):
        deep = {"children": [deep]}
    nested = json.dumps(
        session(request(1, "q", runs(), result=rounds(("c", "read_file", "{}", {"node": deep}))))
    )
    home.flat(nested.encode())
    assert [c.output for m in home.read().messages for c in m.tool_calls] == ["x"]
    too_deep = b'{"requests":' + b"[" * 100_000
    home.flat(too_deep)
    with pytest.raises(ValueError):
        ADAPTER.parse(home.metas()[0])


def test_a_long_log_is_replayed_in_linear_time(home: Home) -> None:
    entries: list[Any] = [{"kind": 0, "v": session()}]
    for number in range(3000):
        entries.append({"kind": 2, "k": ["requests"], "v": [request(number, f"q{number}")]})
        entries.append({"kind": 2, "k": ["requests", number, "response"], "v": [says("a")]})
        entries.append({"kind": 2, "k": ["requests"], "i": number})
        entries.append(
            {"kind": 2, "k": ["requests"], "v": [request(number, f"q{number}", says("b"))]}
        )
    home.log(*entries)
    conversation = home.read()
    assert len(conversation.messages) == 6000
    assert {message.state for message in conversation.messages} == {"active"}
