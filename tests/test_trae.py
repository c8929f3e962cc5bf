"""Trae's chats and TRAE CLI's rollouts, on small databases built here."""

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

from datasette_crystal.adapters.trae import TraeAdapter, TraeCli, register_adapters
from datasette_crystal.adapters.trae_messages import add_messages, model_name, ordered
from datasette_crystal.importer import Options, run_import
from datasette_crystal.model import (
    CALL_STATUSES,
    ConversationMeta,
    Environment,
    FileRecords,
    Messages,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
)
from datasette_crystal.testing import check_adapter

KEY = "memento/icube-ai-agent-storage"
HISTORY = "icube-ai-agent-storage-input-history"
MILLISECONDS = 1_780_000_000_000
ISO = "2026-05-28T20:26:40.000Z"
PICKER = ("icube-ai-chat-storage-mention-search-selected-itemIds", '["rule","code"]')

# --------------------------------------------------------------------------- builders


def user(text: Any, **values: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **values}


def answer(text: Any = "", **values: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **values}


def works(*steps: dict[str, Any], **task: Any) -> dict[str, Any]:
    """An answer in builder mode: its text is not in content."""
    return answer("", agentTaskContent={**task, "guideline": {"planItems": list(steps)}})


def session(id_: str, *messages: Any, **values: Any) -> dict[str, Any]:
    times = {"createdAt": MILLISECONDS, "updatedAt": MILLISECONDS + 60_000}
    return {"sessionId": id_, **times, "messages": list(messages), **values}


def stored(*sessions: Any) -> dict[str, Any]:
    return {"list": list(sessions), "currentSessionId": None}


class Home:
    """A home directory with Trae's databases in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.adapter = TraeAdapter()

    @property
    def env(self) -> Environment:
        return Environment.for_home(self.path)

    def user_dir(self, product: str = "Trae") -> Path:
        return self.path / ".config" / product / "User"

    def put(
        self,
        values: dict[str, Any],
        *,
        product: str = "Trae",
        storage: str = "aa",
        folder: str | None = "file:///home/dev/app",
        blob: bool = False,
    ) -> Path:
        """Writes values (JSON unless they are bytes) to a workspace's database; ``storage`` may be
        ``global``."""
        user_dir = self.user_dir(product)
        directory = (
            user_dir / "globalStorage"
            if storage == "global"
            else user_dir / "workspaceStorage" / storage
        )
        directory.mkdir(parents=True, exist_ok=True)
        if folder is not None and storage != "global":
            (directory / "workspace.json").write_text(json.dumps({"folder": folder}))
        database = sqlite3.connect(directory / "state.vscdb")
        with database:
            database.execute(
                "create table if not exists ItemTable "
                "(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
            )
            for key, value in values.items():
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                database.execute(
                    "insert into ItemTable values (?, ?)", (key, data if blob else _text(data))
                )
        database.close()
        return directory / "state.vscdb"

    def encrypt(self, product: str = "Trae") -> Path:
        directory = self.user_dir(product).parent / "ModularData" / "ai-agent"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "database.db"
        path.write_bytes(bytes(range(1, 255)) * 40)
        return path

    def scan(self) -> tuple[list[ConversationMeta], list[ScanProblem]]:
        found = list(self.adapter.scan(self.env))
        problems = [item for item in found if isinstance(item, ScanProblem)]
        return [item for item in found if isinstance(item, ConversationMeta)], problems

    def read(self) -> dict[str, ParsedConversation]:
        conversations = {}
        for meta in self.scan()[0]:
            parsed = self.adapter.parse(meta)
            for records in parsed.files:
                assert adds_up(records)
            for conversation in parsed.conversations:
                conversations[conversation.session_id] = conversation
        return conversations

    def read_one(self, *messages: Any, **values: Any) -> list[ParsedMessage]:
        self.put({KEY: stored(session("s", *messages, **values))})
        return list(self.read()["s"].messages)


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def adds_up(records: FileRecords) -> bool:
    counted = records.kept + records.ignored + records.unknown + records.malformed
    return records.records == counted


def texts(conversation: ParsedConversation) -> list[str]:
    return [message.content for message in conversation.messages]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# --------------------------------------------------------------------------- where chats are


def test_all_four_products_are_found_and_told_apart(home: Home) -> None:
    for product in ("Trae", "Trae CN", "TRAE SOLO", "TRAE SOLO CN"):
        name = product.lower().replace(" ", "-")
        home.put({KEY: stored(session(name, user("q"), answer("a")))}, product=product)
    found = home.read()
    assert {id_: conversation.tool_version for id_, conversation in found.items()} == {
        "trae": "Trae",
        "trae-cn": "Trae CN",
        "trae-solo": "TRAE SOLO",
        "trae-solo-cn": "TRAE SOLO CN",
    }
    assert {conversation.source for conversation in found.values()} == {"trae"}
    info = home.adapter.detect(home.env)
    assert info is not None and len(info.roots) == 4 and info.conversations == 4


@pytest.mark.parametrize("place", ["Library/Application Support", "AppData/Roaming"])
def test_homes_of_other_platforms_are_read(home: Home, place: str) -> None:
    home.put({KEY: stored(session("s", user("q"), answer("a")))})
    (home.path / place).parent.mkdir(parents=True)
    (home.path / ".config").rename(home.path / place)
    assert list(home.read()) == ["s"]


def test_a_directory_that_the_user_names_is_read(home: Home, tmp_path: Path) -> None:
    home.put({KEY: stored(session("s", user("q"), answer("a")))}, product="Trae CN")
    root = home.user_dir("Trae CN").parent
    env = Environment(tmp_path / "nowhere", roots={"trae": (root,)})
    (meta,) = home.adapter.scan(env)
    assert isinstance(meta, ConversationMeta) and meta.session_id == "s"
    assert home.adapter.parse(meta).conversations[0].tool_version == "Trae CN"


def test_nothing_is_found_in_an_empty_home(home: Home) -> None:
    assert home.adapter.detect(home.env) is None
    assert home.scan() == ([], [])


@pytest.mark.parametrize("blob", [False, True])
def test_the_value_may_be_text_or_blob(home: Home, blob: bool) -> None:
    home.put({KEY: stored(session("s", user("frage"), answer("größer")))}, blob=blob)
    assert texts(home.read()["s"]) == ["frage", "größer"]


def test_global_storage_is_read_and_has_no_project(home: Home) -> None:
    home.put({KEY: stored(session("g", user("q"), answer("a")))}, storage="global")
    assert home.read()["g"].project_path is None


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("file:///home/dev/my%20app", "/home/dev/my app"),
        ("file:///c%3A/proj/a", "c:\\proj\\a"),
    ],
)
def test_the_project_is_that_of_the_workspace(home: Home, folder: str, path: str) -> None:
    home.put({KEY: stored(session("s", user("q"), answer("a")))}, folder=folder)
    assert home.read()["s"].project_path == path


def test_rows_that_are_only_in_the_wal_are_seen_and_nothing_is_touched(home: Home) -> None:
    path = home.put({"x": 1})
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("pragma wal_autocheckpoint = 0")
    value = json.dumps(stored(session("s", user("q"), answer("a"))))
    writer.execute("insert into ItemTable values (?, ?)", (KEY, value))
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert list(home.read()) == ["s"]
    home.adapter.close()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    writer.close()


# --------------------------------------------------------------------------- values and keys


@pytest.mark.parametrize(
    "value",
    [
        [session("s", user("q"), answer("a"))],
        {"sessions": [session("s", user("q"), answer("a"))]},
        {"value": [session("s", user("q"), answer("a"))]},
        {"data": {"list": [session("s", user("q"), answer("a"))]}},
        {"entries": {"s": {"messages": [user("q"), answer("a")]}}},
        session("s", user("q"), answer("a")),
        {"list": [{"id": "s", "messages": [user("q"), answer("a")]}]},
    ],
)
def test_sessions_are_known_by_their_structure(home: Home, value: Any) -> None:
    home.put({KEY: value})
    found = home.read()
    assert list(found) == ["s"] and texts(found["s"]) == ["q", "a"]


@pytest.mark.parametrize(
    "key",
    [
        "memento/icube-ai-chat-storage-7467774676505887760",
        "memento/icube-ai-ng-chat-storage-1",
        KEY + "-123",
        "ChatStore",
        "memento/some-future-agent",
    ],
)
def test_other_keys_may_hold_sessions(home: Home, key: str) -> None:
    home.put({key: stored(session("s", user("q"), answer("a")))})
    assert list(home.read()) == ["s"]


def test_what_only_looks_like_chats_is_none(home: Home) -> None:
    home.put(
        {
            PICKER[0]: PICKER[1].encode(),
            "ChatStore": {"messages": [{"id": "x", "height": 120}]},
            "chat.ChatSessionStore.index": {"version": 1, "entries": {}},
            "chat.draft": {"list": [{"id": "d", "messages": [{"role": "button", "content": "x"}]}]},
            "secret://agent": stored(session("secret", user("q"), answer("a"))),
            "draft:session:1:code": stored(session("draft", user("q"))),
            KEY: stored(),
        }
    )
    assert home.scan() == ([], [])


def test_entries_that_are_no_sessions_cost_only_themselves(home: Home) -> None:
    home.put({KEY: stored(None, 7, session("", user("no id")), session("s", user("q")))})
    metas, problems = home.scan()
    assert not problems
    parsed = {meta.session_id: home.adapter.parse(meta) for meta in metas}
    assert [c.session_id for p in parsed.values() for c in p.conversations] == ["s"]
    (rest,) = (p for id_, p in parsed.items() if id_ != "s")
    (records,) = rest.files
    assert (records.records, records.malformed) == (3, 3)


@pytest.mark.parametrize("value", [{"state": {"a": 1}}, 42, "text"])
def test_a_value_of_an_unknown_form_is_reported(home: Home, value: Any) -> None:
    home.put({KEY: value})
    (meta,), (problem,) = home.scan()
    (records,) = home.adapter.parse(meta).files
    assert (records.records, records.unknown) == (1, 1)
    assert KEY in records.samples[0].type
    assert "not known" in problem.reason and problem.root == str(home.user_dir())


def test_a_session_of_an_unknown_form_is_reported_without_its_contents(home: Home) -> None:
    home.put({KEY: stored({"sessionId": "s", "messages": {"token": "hunter2"}})})
    (meta,), _ = home.scan()
    (records,) = home.adapter.parse(meta).files
    assert records.unknown == 1
    assert "messages: dict" in records.samples[0].sample
    assert "hunter2" not in records.samples[0].sample


@pytest.mark.parametrize("value", [b'{"list": [', b"\0\0\0\0", b"[" * 100_000])
def test_a_value_that_is_not_json_is_reported(home: Home, value: bytes) -> None:
    home.put({KEY: value})
    home.put({KEY: stored(session("good", user("q"), answer("a")))}, storage="bb")
    metas, (problem,) = home.scan()
    assert [meta.session_id for meta in metas] == ["good"]
    assert problem.path.endswith(f"state.vscdb:{KEY}") and problem.root == str(home.user_dir())


def test_an_empty_value_is_a_window_without_chats(home: Home) -> None:
    home.put({KEY: {}})
    home.put({KEY: b""}, storage="bb")
    home.put({KEY: None}, storage="cc")
    assert home.scan() == ([], [])


def test_a_file_that_is_no_database_is_reported(home: Home) -> None:
    home.put({KEY: stored(session("good", user("q"), answer("a")))})
    bad = home.user_dir() / "workspaceStorage" / "bb" / "state.vscdb"
    bad.parent.mkdir()
    bad.write_bytes(b"hello" * 1000)
    metas, (problem,) = home.scan()
    assert [meta.session_id for meta in metas] == ["good"]
    assert problem.path == str(bad)


def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    path = home.put({KEY: stored(session("s", user("q"), answer("a")))})
    outside = tmp_path / "outside.vscdb"
    path.rename(outside)
    path.symlink_to(outside)
    assert home.scan() == ([], [])


# --------------------------------------------------------------------------- copies of a session


def test_of_two_copies_the_fuller_one_is_read(home: Home) -> None:
    home.put({KEY: stored(session("s", user("a"), answer("b")))}, folder="file:///one")
    home.put(
        {KEY: stored(session("s", user("a"), answer("b"), user("c"), answer("d")))},
        storage="bb",
        folder="file:///two",
    )
    (meta,), _ = home.scan()
    assert [Path(file.path).parent.name for file in meta.files] == ["bb", "aa"]
    conversation = home.read()["s"]
    assert texts(conversation) == ["a", "b", "c", "d"]
    assert conversation.project_path == "/two"


def test_of_two_equally_long_copies_the_newer_one_is_read(home: Home) -> None:
    old = session("s", user("a"), answer("old"), updatedAt=MILLISECONDS)
    new = session("s", user("a"), answer("new"), updatedAt=MILLISECONDS + 1)
    home.put({KEY: stored(old, new, old)})
    assert texts(home.read()["s"]) == ["a", "new"]


# --------------------------------------------------------------------------- change detection


def test_only_the_session_that_changed_has_a_new_marker(home: Home) -> None:
    one, two = session("one", user("q")), session("two", user("q"))
    home.put({KEY: stored(one, two)})
    before = {meta.session_id: meta.marker for meta in home.scan()[0]}
    two["messages"].append(answer("a"))
    home.put({KEY: stored(one, two)})
    after = {meta.session_id: meta.marker for meta in home.scan()[0]}
    assert before["one"] == after["one"] and before["two"] != after["two"]
    assert texts(home.read()["two"]) == ["q", "a"]


def test_a_session_that_went_away_after_the_scan_is_an_error(home: Home) -> None:
    home.put({KEY: stored(session("s", user("q")))})
    (meta,), _ = home.scan()
    home.put({KEY: stored()})
    with pytest.raises(ValueError, match="no longer"):
        home.adapter.parse(meta)


def test_sessions_of_one_database_decode_it_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.put({KEY: stored(*(session(f"s{n}", user(f"q{n}")) for n in range(50)))})
    metas, _ = home.scan()
    from datasette_crystal.adapters import trae

    calls = []
    read = trae._read
    monkeypatch.setattr(trae, "_read", lambda db: calls.append(1) or read(db))
    found = [home.adapter.parse(meta).conversations[0] for meta in metas]
    assert [texts(conversation) for conversation in found] == [[f"q{n}"] for n in range(50)]
    assert len(calls) == 1


# --------------------------------------------------------------------------- sessions


def test_a_session_tells_title_times_and_model(home: Home) -> None:
    model = {"config_name": "cfg", "display_model_name": "Doubao-Seed"}
    (_, reply) = home.read_one(
        user("q", timestamp=MILLISECONDS), answer("a", modelInfo=model), title="A title"
    )
    conversation = home.read()["s"]
    assert (conversation.title, conversation.title_origin) == ("A title", "tool")
    assert conversation.started_at == ISO
    assert conversation.ended_at == "2026-05-28T20:27:40.000Z"
    assert conversation.model == reply.model == "Doubao-Seed"


def test_the_model_may_stand_in_a_map_beside_the_sessions(home: Home) -> None:
    home.put(
        {
            KEY: stored(session("s", user("q"), answer("a"))),
            "77_ai-chat:sessionRelation:modelMap": {"s": {"model": "1_-_gemini-3-flash"}},
        }
    )
    assert home.read()["s"].model == "gemini-3-flash"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("1_-_claude", "claude"),
        (" gpt ", "gpt"),
        ({"config_name": "c", "display_model_name": ""}, "c"),
        ({}, None),
        (5, None),
        ("", None),
    ],
)
def test_model_names(value: Any, name: str | None) -> None:
    assert model_name(value) == name


def test_times_may_be_seconds_or_text_and_are_never_invented(home: Home) -> None:
    found = home.read_one(
        user("q", timestamp="2026-05-28T22:26:40+02:00"),
        answer("a", timestamp=MILLISECONDS // 1000),
        user("later"),
        answer("b", timestamp="soon"),
        createdAt=ISO,
        updatedAt="2020-01-01T00:00:00Z",
    )
    assert [message.timestamp for message in found] == [ISO, ISO, None, None]
    conversation = home.read()["s"]
    assert conversation.started_at == ISO
    assert conversation.ended_at is None  # it cannot have ended before


# --------------------------------------------------------------------------- order and ids


def test_order_is_by_turn_when_every_message_has_one(home: Home) -> None:
    found = home.read_one(
        user("q0", turnIndex=0, turnId="T0"),
        answer("a0", turnIndex=0, turnId="T0"),
        user("q1", turnIndex=1, turnId="T1"),
        answer("a1", turnIndex=1, turnId="T1"),
        answer("more of a0", turnIndex=0, turnId="T0"),
    )
    assert [m.content for m in found] == ["q0", "a0", "more of a0", "q1", "a1"]
    assert [m.uid for m in found] == ["0", "1", "4", "2", "3"]


def test_order_is_that_of_the_list_when_a_turn_is_missing(home: Home) -> None:
    found = home.read_one(user("a", turnIndex=5), answer("b"), user("c", turnIndex=0))
    assert [m.content for m in found] == ["a", "b", "c"]


def test_order_is_never_that_of_the_times(home: Home) -> None:
    found = home.read_one(
        user("a", turnIndex=0, timestamp=MILLISECONDS + 5000),
        answer("b", turnIndex=1, timestamp=MILLISECONDS),
    )
    assert [m.content for m in found] == ["a", "b"]
    assert found[1].timestamp == ISO


@pytest.mark.parametrize("turn", [True, "1", 1.5, None, {}])
def test_only_whole_numbers_are_turns(turn: Any) -> None:
    messages = [user("a", turnIndex=1), user("b", turnIndex=turn), user("c", turnIndex=0)]
    assert [place for place, _ in ordered(messages)] == [0, 1, 2]


def test_messages_without_ids_or_with_shared_ones_are_all_kept(home: Home) -> None:
    found = home.read_one(
        user("a"),
        answer("b", agentMessageId="same", turnId="T"),
        user("c", turnId="T"),
        answer("d", agentMessageId="same", turnId="T"),
    )
    assert [m.content for m in found] == ["a", "b", "c", "d"]
    assert [m.uid for m in found] == ["0", "1", "2", "3"]
    assert not any(m.shared_uid for m in found)


# --------------------------------------------------------------------------- messages


def test_roles_and_kinds(home: Home) -> None:
    found = home.read_one({"role": "system", "content": "rules"}, user("q"), answer("a"))
    assert [(m.role, m.kind) for m in found] == [
        ("system", "context"),
        ("user", "prompt"),
        ("assistant", "reply"),
    ]


def test_blank_messages_are_ignored_and_odd_ones_counted(home: Home) -> None:
    home.put({KEY: stored(session("s", user("  \n"), user("q"), None, {"role": "robot"}, "x"))})
    (meta,), _ = home.scan()
    parsed = home.adapter.parse(meta)
    (records,) = parsed.files
    assert (records.kept, records.ignored, records.unknown, records.malformed) == (1, 1, 1, 2)
    assert texts(parsed.conversations[0]) == ["q"]


def test_text_is_kept_as_it_is(home: Home) -> None:
    (prompt,) = home.read_one(user("  <system>indented</system>\n\n"))
    assert prompt.content == "  <system>indented</system>\n\n"


def test_content_may_be_blocks(home: Home) -> None:
    found = home.read_one(
        user([{"type": "text", "text": "one"}, {"type": "text", "text_content": "two"}]),
        user([], query=[{"type": "text", "data": {"content": "asked"}}]),
        user(
            [{"type": "text", "text_content": "mirror"}],
            query=[{"type": "text", "data": {"content": "asked again"}}],
        ),
    )
    assert [m.content for m in found] == ["one\ntwo", "asked", "asked again"]


def test_an_answer_that_was_stopped_is_partial(home: Home) -> None:
    message = works({"thought": "t", "toolName": "run_command", "result": {"status": "running"}})
    found = home.read_one(
        user("q"), answer("half", status="canceled"), {**message, "status": "Canceled"}
    )
    assert [m.kind for m in found] == ["prompt", "partial", "partial"]
    assert found[2].tool_calls[0].status == "interrupted"


# --------------------------------------------------------------------------- the agent's work


def test_proposal_and_finish_are_the_reply_and_steps_the_tool_calls(home: Home) -> None:
    _, reply = home.read_one(
        user("build it"),
        works(
            {"thought": "look", "toolName": "view_files", "reasoningContent": "r1"},
            {"thought": "edit", "toolName": "edit_file", "reasoningContent": ""},
            {"thought": "All done.", "toolName": "finish"},
            proposal="I will build it.",
            proposalReasoningContent="why",
        ),
    )
    assert reply.content == "I will build it.\n\nAll done."
    assert reply.thinking == "why\n\nr1\n\nlook\n\nedit"
    assert [call.name for call in reply.tool_calls] == ["view_files", "edit_file"]
    assert [call.title for call in reply.tool_calls] == ["view_files: look", "edit_file: edit"]
    assert [call.status for call in reply.tool_calls] == ["unknown", "unknown"]


def test_content_comes_before_proposal_and_each_text_once(home: Home) -> None:
    step = {"toolName": "finish", "thought": "end"}
    message = works(step, proposal="visible", proposalReasoningContent="why")
    _, reply = home.read_one(user("q"), {**message, "content": "visible"})
    assert (reply.content, reply.thinking) == ("visible\n\nend", "why")


def test_the_guiding_thought_is_the_reply_where_there_is_no_other(home: Home) -> None:
    step = {"thought": "step", "toolName": "run_command"}
    task = {"guideline": {"planItems": [step], "thought": "guide"}}
    _, alone, beside = home.read_one(
        user("q"),
        answer("", agentTaskContent=task),
        answer("said", agentTaskContent=task),
    )
    assert (alone.content, alone.thinking) == ("guide", "step")
    assert (beside.content, beside.thinking) == ("said", "step\n\nguide")


def test_contents_then_thoughts_of_steps_are_the_reply_where_there_is_no_other(home: Home) -> None:
    contents = works({"content": "one"}, {"content": "two"})
    thoughts = works({"thought": "first", "toolName": "t"}, {"thought": "then", "toolName": "t"})
    _, first, second = home.read_one(user("q"), contents, thoughts)
    assert (first.content, first.thinking, first.tool_calls) == ("one\ntwo", None, [])
    assert (second.content, second.thinking) == ("first\n\nthen", None)
    assert len(second.tool_calls) == 2


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("plain", "plain"),
        ("{not json", "{not json"),
        ('{"a": 1}', '{"a": 1}'),
        (json.dumps({"proposal": "from JSON"}), "from JSON"),
    ],
)
def test_the_task_may_be_text(home: Home, task: str, text: str) -> None:
    _, reply = home.read_one(user("q"), answer("", agentTaskContent=task))
    assert reply.content == text


def test_a_turn_of_tool_calls_alone_is_kept(home: Home) -> None:
    _, calls, _ = home.read_one(user("q"), works({"toolName": "run_command"}), answer("ok"))
    assert (calls.content, calls.thinking) == ("", None)
    assert [call.name for call in calls.tool_calls] == ["run_command"]


def test_calls_of_later_builds(home: Home) -> None:
    """toolCallInfo{name, params, result}, and the answer as the tool ResponseToUser."""
    run = {
        "thought": "run it",
        "toolCallInfo": {
            "id": "c1",
            "name": "RunCommand",
            "params": {"command": "ls"},
            "result": {"status": "success", "output": "a\nb", "exit_code": 0},
        },
    }
    end = {"toolCallInfo": {"name": "ResponseToUser", "params": {"summary": "Finished."}}}
    _, reply = home.read_one(user("q"), works(run, end))
    assert (reply.content, reply.thinking) == ("Finished.", "run it")
    (call,) = reply.tool_calls
    assert (call.name, call.call_id, call.status) == ("RunCommand", "c1", "ok")
    assert json.loads(call.input or "") == {"command": "ls"}
    assert (call.output, call.exit_code) == ("a\nb", 0)


@pytest.mark.parametrize("hidden", [{"hide": True}, {"parentAgentRunIds": ["p"]}])
def test_the_answer_of_a_subagent_is_not_the_reply(home: Home, hidden: dict[str, Any]) -> None:
    end = {"toolCallInfo": {"name": "ResponseToUser", "params": {"summary": "inner"}}, **hidden}
    _, reply = home.read_one(user("q"), works(end))
    assert reply.content == ""
    assert [call.name for call in reply.tool_calls] == ["ResponseToUser"]


@pytest.mark.parametrize(
    ("step", "status"),
    [
        ({"result": {"status": "success"}}, "ok"),
        ({"result": {"status": "failed", "message": "no"}}, "error"),
        ({"result": {"status": "skipped"}}, "denied"),
        ({"result": {"status": "canceled"}}, "interrupted"),
        ({"result": {"status": "running"}}, "pending"),
        ({"result": "text"}, "ok"),
        ({"error": "broken"}, "error"),
        ({"result": {"exitCode": 1, "stdout": "x"}}, "error"),
        ({"status": "failed"}, "error"),
        ({}, "unknown"),
    ],
)
def test_how_a_call_ended(home: Home, step: dict[str, Any], status: str) -> None:
    _, reply = home.read_one(user("q"), works({"toolName": "run_command", **step}))
    assert reply.tool_calls[0].status == status


@pytest.mark.parametrize(
    ("step", "value"),
    [
        ({"params": {"a": 1}}, {"a": 1}),
        ({"arguments": '{"a": 1}'}, {"a": 1}),
        ({"args": [1]}, [1]),
        ({"input": "just text"}, "just text"),
        ({"params": 2**70}, 2**70),
    ],
)
def test_the_input_of_a_call_is_json(home: Home, step: dict[str, Any], value: Any) -> None:
    _, reply = home.read_one(user("q"), works({"toolName": "t", **step}))
    assert json.loads(reply.tool_calls[0].input or "") == value


def test_results_that_are_more_than_text_are_json(home: Home) -> None:
    _, reply = home.read_one(
        user("q"), works({"toolName": "t", "result": {"files": ["a"], "total": 1}})
    )
    assert json.loads(reply.tool_calls[0].output or "") == {"files": ["a"], "total": 1}


def test_edits_name_their_file(home: Home) -> None:
    _, reply = home.read_one(
        user("q"),
        works(
            {"toolName": "edit_file", "params": {"file_path": "/a/b.py"}},
            {"toolName": "delete_file", "params": {"path": "c"}, "result": {"status": "failed"}},
            {"toolName": "view_files", "params": {"path": "d"}},
        ),
    )
    assert [[(e.path, e.action) for e in c.edits] for c in reply.tool_calls] == [
        [("/a/b.py", "edit")],
        [],
        [],
    ]


def test_attachments_of_a_prompt(home: Home) -> None:
    pixel = "data:image/png;base64," + base64.b64encode(b"PNG").decode()
    (prompt,) = home.read_one(
        user(
            "",
            files=[{"file": "/a/b.py", "start": 3, "end": 9}, "c.py", {}, 5],
            multiMedia=[{"url": pixel, "name": "shot.png"}, "https://example.org/i.png"],
        )
    )
    found = [(item.kind, item.name, item.media_type, item.content) for item in prompt.attachments]
    assert found == [
        ("file", "/a/b.py:3-9", None, None),
        ("file", "c.py", None, None),
        ("image", "shot.png", "image/png", b"PNG"),
        ("image", "https://example.org/i.png", None, None),
    ]


# --------------------------------------------------------------------------- prompts alone


def typed(*prompts: str) -> list[dict[str, Any]]:
    return [
        {"inputText": text, "parsedQuery": [], "multiMedia": [], "files": []} for text in prompts
    ]


def test_a_history_of_prompts_is_flagged_as_such(home: Home) -> None:
    home.put({HISTORY: typed("one", "two", "one")}, product="Trae CN")
    (conversation,) = home.read().values()
    assert conversation.session_id == "input-history-trae-cn-aa"
    assert (conversation.kind, conversation.fidelity) == ("prompt-history", "partial")
    assert conversation.project_path == "/home/dev/app"
    assert [(m.kind, m.content) for m in conversation.messages] == [
        ("prompt", "one"),
        ("prompt", "two"),
        ("prompt", "one"),
    ]
    assert len({m.uid for m in conversation.messages}) == 3
    assert all(m.timestamp is None for m in conversation.messages)


def test_uids_of_a_history_do_not_depend_on_places(home: Home) -> None:
    home.put({HISTORY: typed("one", "two", "three")})
    (before,) = home.read().values()
    home.put({HISTORY: typed("two", "three", "four")})
    (after,) = home.read().values()
    known = {m.content: m.uid for m in before.messages}
    assert {m.content: m.uid for m in after.messages if m.content in known} == {
        "two": known["two"],
        "three": known["three"],
    }


def test_prompts_that_a_session_shows_are_not_told_twice(home: Home) -> None:
    home.put(
        {
            KEY: stored(session("s", user("go on"), answer("a"))),
            HISTORY: typed("go on", "go on", "lost"),
        }
    )
    found = home.read()
    assert texts(found["input-history-trae-aa"]) == ["go on", "lost"]
    (meta,) = (m for m in home.scan()[0] if m.session_id != "s")
    (records,) = home.adapter.parse(meta).files
    assert (records.records, records.kept, records.ignored) == (3, 2, 1)


def test_a_history_that_the_sessions_tell_wholly_is_no_conversation(home: Home) -> None:
    home.put({KEY: stored(session("s", user("q"), answer("a"))), HISTORY: typed("q")})
    assert list(home.read()) == ["s"]


def test_odd_entries_of_a_history_are_counted(home: Home) -> None:
    entries = [
        *typed("real", ""),
        5,
        {"strange": 1},
        {"parsedQuery": ["par", "sed", 1]},
        "bare",
        {"inputText": "", "files": [{"file": "a.py"}]},
    ]
    home.put({HISTORY: {"entries": entries}})
    (meta,), _ = home.scan()
    parsed = home.adapter.parse(meta)
    (records,) = parsed.files
    assert (records.kept, records.ignored, records.unknown, records.malformed) == (4, 1, 1, 1)
    assert texts(parsed.conversations[0]) == ["real", "parsed", "bare", ""]


# --------------------------------------------------------------------------- encrypted stores


def test_an_encrypted_store_is_reported_with_the_number_of_sessions(home: Home) -> None:
    path = home.encrypt()
    home.put({KEY: stored(session("stub"), session("stub2"), session("s", user("q")))})
    metas, (problem,) = home.scan()
    assert [meta.session_id for meta in metas] == ["s"]
    assert problem.path == str(path) and problem.root == str(home.user_dir())
    assert problem.reason.startswith("2 sessions are listed without text")
    assert "encrypted" in problem.reason
    info = home.adapter.detect(home.env)
    assert info is not None and info.conversations == 1
    assert [(item.path, item.reason) for item in info.unreadable] == [(str(path), problem.reason)]


def test_an_encrypted_store_alone_is_not_like_no_trae_at_all(home: Home) -> None:
    path = home.encrypt()
    home.user_dir().mkdir()
    info = home.adapter.detect(home.env)
    assert info is not None and info.conversations == 0
    assert [item.path for item in info.unreadable] == [str(path)]


def test_a_store_that_is_not_encrypted_is_not_called_so(home: Home) -> None:
    home.encrypt().write_bytes(b"SQLite format 3\0" + bytes(100))
    home.put({KEY: stored()})
    _, (problem,) = home.scan()
    assert "encrypted" not in problem.reason and "not known" in problem.reason


def test_sessions_without_text_are_named_also_where_nothing_is_encrypted(home: Home) -> None:
    home.put({KEY: stored(session("stub"), {"sessionId": "bare"})})
    assert home.scan() == ([], [])
    info = home.adapter.detect(home.env)
    assert info is not None and info.warnings == [
        "Trae: 2 sessions are listed without text, so that there is nothing to import"
    ]


def imported(home: Home, database: Path) -> dict[str, Any]:
    report = run_import(database, home.env, {"trae": TraeAdapter()}, Options(min_messages=1))
    connection = sqlite3.connect(database)
    try:
        return {
            "changed": report.changed,
            "conversations": connection.execute(
                "select session_id, message_count, missing_since from conversations"
            ).fetchall(),
            "messages": connection.execute(
                "select m.content, cm.state from conversation_messages cm "
                "join messages m on m.id = cm.message_id order by cm.position"
            ).fetchall(),
        }
    finally:
        connection.close()


def test_what_was_imported_before_the_store_was_encrypted_is_kept(
    home: Home, tmp_path: Path
) -> None:
    database = tmp_path / "crystal.db"
    home.put({KEY: stored(session("s", user("q"), answer("a")))})
    first = imported(home, database)
    assert first["conversations"] == [("s", 2, None)]
    home.put({KEY: stored(session("s"))})
    home.encrypt()
    second = imported(home, database)
    assert second["conversations"] == first["conversations"]
    assert second["messages"] == [("q", "active"), ("a", "active")]
    assert imported(home, database)["changed"] is False


def test_places_that_shift_lose_nothing(home: Home, tmp_path: Path) -> None:
    database = tmp_path / "crystal.db"
    messages = [user("a"), answer("b"), user("c"), answer("d")]
    home.put({KEY: stored(session("s", *messages))})
    imported(home, database)
    home.put({KEY: stored(session("s", *messages[2:], user("e")))})
    assert imported(home, database)["messages"] == [
        ("a", "gone"),
        ("b", "gone"),
        ("c", "active"),
        ("d", "active"),
        ("e", "active"),
    ]


def test_an_unchanged_home_writes_nothing_whatever_is_wrong_in_it(
    home: Home, tmp_path: Path
) -> None:
    database = tmp_path / "crystal.db"
    home.put({KEY: stored(None, session("s", user("q"))), "memento/icube-ai-chat-storage-1": b"{"})
    home.put({KEY: {"state": 1}}, storage="bb")
    home.encrypt()
    assert imported(home, database)["changed"] is True
    assert imported(home, database)["changed"] is False


# --------------------------------------------------------------------------- the contract


def test_the_testing_kit_finds_no_fault(home: Home) -> None:
    home.put(
        {
            KEY: stored(
                None,
                session("s", user("q"), works({"toolName": "t", "params": {"a": 1}})),
                session("t", user("q"), answer("a"), title="T"),
            ),
            HISTORY: typed("typed"),
        }
    )
    home.put({KEY: stored(session("u", user("q"), answer("a")))}, product="Trae CN", blob=True)
    check_adapter(TraeAdapter(), home.env)


def test_both_adapters_are_registered() -> None:
    found: list[Any] = []
    register_adapters(found.append)
    assert [(item.name, item.display_name) for item in found] == [
        ("trae", "Trae"),
        ("trae-cli", "TRAE CLI"),
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["user", "assistant", "finish", "ResponseToUser", "canceled"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "agentTaskContent",
                    "guideline",
                    "planItems",
                    "thought",
                    "toolName",
                    "toolCallInfo",
                    "name",
                    "params",
                    "result",
                    "status",
                    "turnIndex",
                    "proposal",
                    "query",
                    "files",
                    "multiMedia",
                    "timestamp",
                    "reasoningContent",
                    "modelInfo",
                    "messages",
                    "sessionId",
                    "list",
                    "summary",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]) | JSON},
    optional={
        "content": JSON,
        "agentTaskContent": JSON
        | st.fixed_dictionaries(
            {"guideline": st.fixed_dictionaries({"planItems": st.lists(JSON, max_size=4)})}
        ),
        "turnIndex": st.integers() | JSON,
        "timestamp": JSON,
        "status": JSON,
        "files": JSON,
        "multiMedia": JSON,
        "modelInfo": JSON,
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGE | JSON, max_size=6))
def test_any_messages_are_read_and_counted(messages: list[Any]) -> None:
    def read() -> tuple[list[ParsedMessage], FileRecords]:
        into, records = Messages(), FileRecords("x")
        add_messages(messages, into, records)
        return list(into), records

    found, records = read()
    assert adds_up(records) and records.records == len(messages)
    assert records.kept == len(found)
    assert len({message.uid for message in found}) == len(found)
    for message in found:
        for call in message.tool_calls:
            assert call.status in CALL_STATUSES and call.name
            if call.input is not None:
                json.loads(call.input)
    assert (found, records) == read()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=st.binary(max_size=60) | JSON.map(lambda v: json.dumps(v).encode()))
def test_any_value_is_read(value: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    home.put({KEY: value, HISTORY: value, "other-chat": value})
    metas, problems = home.scan()
    for meta in metas:
        for records in home.adapter.parse(meta).files:
            assert adds_up(records)
    assert home.scan() == (metas, problems)
    home.adapter.close()


def test_long_and_odd_texts_are_survived(home: Home) -> None:
    found = home.read_one(
        works(*({"thought": f"t{n}", "toolName": "t"} for n in range(5000)), proposal="p" * 99_999),
        user("surrogate \ud83d and \0"),
    )
    assert len(found[0].content) == 99_999 and len(found[0].tool_calls) == 5000
    found[1].content.encode()
    assert "\0" not in found[1].content


@pytest.mark.parametrize("depth", [300, 900, 990])
def test_a_message_that_is_nested_too_deeply_costs_only_itself(home: Home, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    value = json.dumps(stored(session("s", user("q"), answer("a", x="DEEP"), user("r"))))
    home.put({KEY: value.replace('"DEEP"', deep).encode()})
    found = texts(home.read()["s"])
    assert found in (["q", "a", "r"], ["q", "r"])


# --------------------------------------------------------------------------- TRAE CLI

THREAD = "01a22e58-20b0-7571-a007-a09d19d6a231"


def rollout(path: Path, prompt: str) -> None:
    def record(type_: str, payload: dict[str, Any]) -> str:
        return json.dumps({"timestamp": ISO, "type": type_, "payload": payload})

    def said(role: str, type_: str, text: str) -> str:
        content = [{"type": type_, "text": text}]
        return record("response_item", {"type": "message", "role": role, "content": content})

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        record(
            "session_meta",
            {"id": THREAD, "cwd": "/p", "originator": "codex-tui", "model_provider": "trae"},
        ),
        said("user", "input_text", prompt),
        said("assistant", "output_text", "done"),
    ]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, ".trae/cli"),
        ({"TRAE_HOME": "~/elsewhere"}, "elsewhere/cli"),
        ({"TRAECLI_HOME": "~/tool", "TRAE_HOME": "~/elsewhere"}, "tool"),
    ],
)
@pytest.mark.parametrize(
    ("folder", "archived"), [("sessions/2026/05/28", False), ("archived_sessions", True)]
)
def test_rollouts_of_trae_cli_are_read_under_their_own_name(
    tmp_path: Path, variables: dict[str, str], place: str, folder: str, archived: bool
) -> None:
    rollout(tmp_path / place / folder / f"rollout-2026-05-28T20-26-40-{THREAD}.jsonl", "hello")
    env = Environment(tmp_path, variables=variables)
    adapter = TraeCli()
    (meta,) = adapter.scan(env)
    assert isinstance(meta, ConversationMeta)
    assert (meta.source, meta.session_id) == ("trae-cli", THREAD)
    (conversation,) = adapter.parse(meta).conversations
    assert (conversation.source, conversation.archived) == ("trae-cli", archived)
    assert [(m.role, m.content) for m in conversation.messages] == [
        ("user", "hello"),
        ("assistant", "done"),
    ]
    info = adapter.detect(env)
    assert info is not None and info.conversations == 1


def test_secrets_beside_trae_cli_are_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout(tmp_path / ".trae/cli/sessions" / f"rollout-2026-05-28T20-26-40-{THREAD}.jsonl", "q")
    (tmp_path / ".trae" / "trae-jwt-token").write_text("secret")
    opened: list[str] = []
    real = os.open

    def watch(path: Any, *arguments: Any, **named: Any) -> int:
        opened.append(os.fspath(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", watch)
    adapter = TraeCli()
    for meta in adapter.scan(Environment.for_home(tmp_path)):
        assert isinstance(meta, ConversationMeta)
        adapter.parse(meta)
    assert opened and not any("token" in path for path in opened)
