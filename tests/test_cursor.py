"""Chats of the Cursor editor, in all the places where they have lived."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_crystal.adapters import cursor, vscdb
from datasette_crystal.adapters.cursor import CursorAdapter, sessions_in_editor
from datasette_crystal.adapters.cursor_bubbles import Steps, bubble_time
from datasette_crystal.adapters.vscdb import VscdbBusy
from datasette_crystal.model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Messages,
    ParsedConversation,
    ScanProblem,
)
from datasette_crystal.testing import check_adapter
from datasette_crystal.text import iso_time

USER = Path(".config/Cursor/User")
CHATDATA = "workbench.panel.aichat.view.aichat.chatdata"
T0 = 1_757_000_000_000

# --------------------------------------------------------------------------- building homes


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def store(
    path: Path,
    items: dict[str, Any] | None = None,
    disk: Iterable[tuple[Any, Any]] | None = None,
    *,
    journal_mode: str = "delete",
) -> Path:
    """A state.vscdb; values that are not text, bytes or numbers are written as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute(f"pragma journal_mode = {journal_mode}")
    for table, pairs in (("ItemTable", (items or {}).items()), ("cursorDiskKV", disk)):
        if pairs is None:
            continue
        db.execute(
            f"create table if not exists {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
        )
        for key, value in pairs:
            if isinstance(value, dict | list):
                value = json.dumps(value)
            db.execute(f"insert into {table} values (?, ?)", (key, value))
    db.commit()
    db.close()
    return path


def bubble(number: int, type_: int, text: str = "", **more: Any) -> dict[str, Any]:
    return {
        "_v": 3,
        "type": type_,
        "bubbleId": uuid(number),
        "text": text,
        "toolResults": [],
        "allThinkingBlocks": [],
        "tokenCount": {"inputTokens": 0, "outputTokens": 0},
        **more,
    }


def tool(name: str, arguments: Any, result: Any = None, **more: Any) -> dict[str, Any]:
    former = {
        "tool": 5,
        "name": name,
        "toolCallId": f"call_{name}",
        "status": "completed",
        "rawArgs": json.dumps(arguments),
        "params": json.dumps({**arguments, "contents": "long" * 100}),
        "additionalData": {},
        **more,
    }
    if result is not None:
        former["result"] = result if isinstance(result, str) else json.dumps(result)
    return {"toolFormerData": former, "capabilityType": 15}


def composer(id_: str, bubbles: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "_v": 10,
        "composerId": id_,
        "createdAt": T0,
        "fullConversationHeadersOnly": [
            {"bubbleId": item["bubbleId"], "type": item["type"]} for item in bubbles
        ],
        "conversationMap": {},
        "blobEncryptionKey": "SECRET-KEY",
        "speculativeSummarizationEncryptionKey": "SECRET-KEY",
        **more,
    }


def disk_of(
    id_: str, bubbles: list[dict[str, Any]], *, others: Iterable[dict[str, Any]] = (), **more: Any
) -> list[tuple[str, Any]]:
    """Rows of a chat, written in the opposite order of the chat, as Cursor never promises one."""
    pairs: list[tuple[str, Any]] = [
        (f"bubbleId:{id_}:{item['bubbleId']}", item) for item in [*others, *reversed(bubbles)]
    ]
    return [*pairs, (f"composerData:{id_}", composer(id_, bubbles, **more))]


def dialogue(first: int = 1, count: int = 4, word: str = "m") -> list[dict[str, Any]]:
    return [bubble(first + n, 1 + n % 2, f"{word} {n}") for n in range(count)]


def global_store(home: Path, disk: Iterable[tuple[Any, Any]], **items: Any) -> Path:
    return store(home / USER / "globalStorage/state.vscdb", items, disk)


def workspace(home: Path, id_: str, folder: str | None, items: dict[str, Any]) -> Path:
    path = store(home / USER / "workspaceStorage" / id_ / "state.vscdb", items, [])
    if folder is not None:
        (path.parent / "workspace.json").write_text(json.dumps({"folder": folder}))
    return path


# --------------------------------------------------------------------------- reading homes


def scan(home: Path, adapter: CursorAdapter | None = None) -> list[ConversationMeta]:
    found = list((adapter or CursorAdapter()).scan(Environment.for_home(home)))
    assert not [item for item in found if isinstance(item, ScanProblem)]
    return [item for item in found if isinstance(item, ConversationMeta)]


def read(home: Path) -> dict[str, ParsedConversation]:
    return {id_: conversation for id_, (conversation, _) in read_with_records(home).items()}


def read_with_records(home: Path) -> dict[str, tuple[ParsedConversation, FileRecords]]:
    adapter = CursorAdapter()
    found = {}
    for item in adapter.scan(Environment.for_home(home)):
        if isinstance(item, ScanProblem):
            continue
        parsed = adapter.parse(item)
        [records] = parsed.files
        assert records.records == (
            records.kept + records.ignored + records.unknown + records.malformed
        )
        for conversation in parsed.conversations:
            assert conversation.session_id not in found
            found[conversation.session_id] = (conversation, records)
    adapter.close()
    return found


def read_one(home: Path) -> ParsedConversation:
    [conversation] = read(home).values()
    return conversation


def words(conversation: ParsedConversation, state: str = "active") -> list[tuple[str, str]]:
    return [
        (message.kind, message.content)
        for message in conversation.messages
        if message.state == state
    ]


def one_chat(home: Path, bubbles: list[dict[str, Any]], **more: Any) -> ParsedConversation:
    global_store(home, disk_of("c1", bubbles, **more))
    return read_one(home)


TALK = [("prompt", "m 0"), ("reply", "m 1"), ("prompt", "m 2"), ("reply", "m 3")]

# --------------------------------------------------------------------------- the five places


def test_tabs_of_2024(tmp_path: Path) -> None:
    bubbles = [
        {"type": "user", "id": "u1", "text": "ask", "selectedImages": [{"path": "/img/1.png"}]},
        {"type": "ai", "id": "a1", "rawText": "answer", "modelType": "gpt-4o"},
    ]
    tabs = [
        {"tabId": "t1", "chatTitle": "First", "bubbles": bubbles, "lastSendTime": T0},
        {"tabId": "t2", "chatTitle": "Empty", "bubbles": []},
        "garbage",
    ]
    prompts = [{"text": "ask", "commandType": 1}]
    workspace(
        tmp_path, "w1", "file:///c%3A/x/y", {CHATDATA: {"tabs": tabs}, "aiService.prompts": prompts}
    )
    chat = read_one(tmp_path)
    assert chat.session_id == "t1"
    assert (chat.title, chat.title_origin) == ("First", "tool")
    assert words(chat) == [("prompt", "ask"), ("reply", "answer")]
    first, second = chat.messages
    assert [(item.kind, item.name) for item in first.attachments] == [("image", "/img/1.png")]
    assert (first.timestamp, second.timestamp, second.model) == (None, None, "gpt-4o")
    assert chat.ended_at == iso_time(T0)
    assert chat.project_path == "c:\\x\\y"


def test_chats_inside_a_workspace(tmp_path: Path) -> None:
    chats = [
        {"composerId": "c1", "conversation": dialogue(), "createdAt": T0, "name": "Named"},
        {"composerId": "c2", "conversation": dialogue(50, 2, "x"), "createdAt": T0},
        {"composerId": "c3", "conversation": []},
    ]
    workspace(
        tmp_path, "w1", "file:///home/a/b", {"composer.composerData": {"allComposers": chats}}
    )
    found = read(tmp_path)
    assert list(found) == ["c1", "c2"]
    assert words(found["c1"]) == TALK
    assert (found["c1"].title, found["c2"].title) == ("Named", None)
    assert found["c2"].project_path == "/home/a/b"
    assert found["c1"].started_at == iso_time(T0)


def test_chats_inside_the_global_row_with_tools_apart(tmp_path: Path) -> None:
    bubbles = [bubble(1, 1, "list"), bubble(2, 2), bubble(3, 2, "two files")]
    tools = {uuid(2): {"tool": 15, "name": "run_terminal_cmd", "rawArgs": '{"command":"ls"}',
                       "result": '{"output":"a\\nb"}', "status": "completed"}}  # fmt: skip
    capabilities = [{"type": 11}, {"type": 15, "data": {"bubbleDataMap": json.dumps(tools)}}]
    value = {"composerId": "c1", "conversation": bubbles, "capabilities": capabilities}
    empty = {"composerId": "c2", "conversation": []}
    global_store(tmp_path, [("composerData:c1", value), ("composerData:c2", empty)])
    workspace(
        tmp_path,
        "w1",
        "file:///home/a/b",
        {"composer.composerData": {"allComposers": [{"composerId": "c1", "name": "Head"}]}},
    )
    chat = read_one(tmp_path)
    assert chat.title == "Head"
    assert chat.project_path == "/home/a/b"
    assert words(chat) == [("prompt", "list"), ("reply", ""), ("reply", "two files")]
    [call] = list(chat.messages)[1].tool_calls
    assert (call.name, call.input, call.output, call.status) == (
        "run_terminal_cmd",
        '{"command":"ls"}',
        "a\nb",
        "ok",
    )


def test_headers_and_rows(tmp_path: Path) -> None:
    chat = one_chat(tmp_path, dialogue(), name="Named", lastUpdatedAt=T0 + 9)
    assert words(chat) == TALK, "the order of the headers, not that of the rows"
    assert (chat.title, chat.started_at, chat.ended_at) == ("Named", iso_time(T0), iso_time(T0 + 9))
    assert chat.fidelity == "complete"
    assert [message.uid for message in chat.messages] == [uuid(n) for n in range(1, 5)]
    assert all(message.shared_uid for message in chat.messages)


def heads_of(*heads: dict[str, Any]) -> dict[str, Any]:
    return {"composer.composerHeaders": {"allComposers": list(heads)}}


def test_heads_under_a_global_key(tmp_path: Path) -> None:
    disk = [*disk_of("c1", dialogue(), name="Old name"), *disk_of("c2", dialogue(50, 2))]
    uri = {"fsPath": "/home/deleted", "external": "file:///wrong%20one", "scheme": "file"}
    global_store(
        tmp_path,
        disk,
        **heads_of(
            {
                "composerId": "c1",
                "name": "New name",
                "lastUpdatedAt": T0 + 5,
                "workspaceIdentifier": {"id": "w1", "uri": uri},
                "isArchived": True,
            },
            {"composerId": "c2", "workspaceIdentifier": {"id": "gone", "uri": uri}},
            {"composerId": "no body", "name": "elsewhere"},
        ),
    )
    workspace(tmp_path, "w1", "file:///home/dev/one", {})
    found = read(tmp_path)
    assert list(found) == ["c1", "c2"]
    assert found["c1"].title == "New name"
    assert found["c1"].archived and not found["c2"].archived
    assert found["c1"].project_path == "/home/dev/one"
    assert found["c2"].project_path == "/home/deleted", "its workspace was deleted"


def test_heads_in_a_table_and_subagents(tmp_path: Path) -> None:
    started = tool("task_v2", {"prompt": "explore"}, {"agentId": "child"})
    path = global_store(
        tmp_path,
        [
            *disk_of("parent", [bubble(1, 1, "do"), bubble(2, 2, **started)]),
            *disk_of("child", [bubble(3, 1, "explore"), bubble(4, 2, "one file")]),
            *disk_of("other", [bubble(5, 1, "look"), bubble(6, 2, "seen")]),
            *disk_of("boss", [bubble(7, 1, "go")], subagentComposerIds=["other"]),
        ],
    )
    db = sqlite3.connect(path)
    db.execute(
        "create table composerHeaders (composerId TEXT PRIMARY KEY, workspaceId TEXT, "
        "createdAt INTEGER, lastUpdatedAt INTEGER, isArchived INTEGER, isSubagent INTEGER, "
        "recency INTEGER, checkpointAt INTEGER, value TEXT)"
    )
    child = {"subagentInfo": {"parentComposerId": "parent", "toolCallId": "call_task_v2"}}
    for id_, archived, subagent, value in (
        ("parent", 1, 0, {"name": "Work"}),
        ("child", 0, 1, child),
    ):
        db.execute(
            "insert into composerHeaders values (?, 'w1', ?, ?, ?, ?, 0, 0, ?)",
            (id_, T0 + 1, T0 + 2, archived, subagent, json.dumps(value)),
        )
    db.commit()
    db.close()
    workspace(tmp_path, "w1", "file:///home/dev/one", {})
    found = read(tmp_path)
    assert found["parent"].title == "Work" and found["parent"].archived
    assert found["parent"].started_at == iso_time(T0 + 1)
    assert found["parent"].project_path == "/home/dev/one"
    assert found["parent"].kind == "main"
    [call] = list(found["parent"].messages)[1].tool_calls
    assert call.subagent_session_id == "child"
    assert (found["child"].kind, found["child"].parent_session_id) == ("subagent", "parent")
    assert words(found["child"]) == [("task", "explore"), ("reply", "one file")]
    assert (found["other"].kind, found["other"].parent_session_id) == ("subagent", "boss")


# --------------------------------------------------------------------------- which workspace


def test_the_workspace_that_lists_a_chat_is_its_project(tmp_path: Path) -> None:
    global_store(
        tmp_path,
        [pair for n in range(4) for pair in disk_of(f"c{n}", dialogue(10 * n + 1, 2, f"c{n}"))],
    )
    workspace(
        tmp_path,
        "w1",
        "file:///home/dev/100%",
        {
            "composer.composerData": {"selectedComposerIds": ["c0"], "allComposers": ["garbage"]},
            "workbench.panel.composerChatViewPane.p": {"workbench.panel.aichat.view.c1": {}},
            "workbench.panel.composerChatViewPane.p.hidden": {"workbench.panel.aichat.view.c2": {}},
        },
    )
    workspace(
        tmp_path, "1757000000000", None, {"composer.composerData": {"selectedComposerIds": ["c3"]}}
    )
    found = read(tmp_path)
    assert {id_: chat.project_path for id_, chat in found.items()} == {
        "c0": "/home/dev/100%",
        "c1": "/home/dev/100%",
        "c2": None,
        "c3": None,
    }


def test_a_chat_in_several_places_is_given_once_where_it_is_fullest(tmp_path: Path) -> None:
    head = {"composerId": "c1", "name": "Dup"}
    global_store(
        tmp_path,
        [("composerData:c2", {"conversation": []}), *disk_of("c1", dialogue())],
    )
    inline = {"composerId": "c2", "conversation": dialogue(50, 2, "in")}
    for id_ in ("w1", "w2"):
        workspace(
            tmp_path,
            id_,
            f"file:///{id_}",
            {"composer.composerData": {"allComposers": [head, inline]}},
        )
    found = read(tmp_path)
    assert words(found["c1"]) == TALK
    assert words(found["c2"]) == [("prompt", "in 0"), ("reply", "in 1")]
    assert len(found) == 2
    assert found["c1"].project_path == "/w1"


# --------------------------------------------------------------------------- order, gaps, orphans


def test_rows_outside_the_list_are_flagged_and_stand_last(tmp_path: Path) -> None:
    others = [bubble(90, 2, "regenerated"), bubble(80, 2, **tool("grep", {"q": 1}, "found"))]
    chat = one_chat(tmp_path, dialogue(), others=others)
    assert words(chat) == TALK
    flagged = [message for message in chat.messages if message.state == "abandoned"]
    assert [message.content for message in flagged] == ["regenerated"]
    assert [call.name for call in flagged[0].tool_calls] == ["grep"]
    assert list(chat.messages)[-1] is flagged[0]


def test_gaps_cost_only_themselves(tmp_path: Path) -> None:
    bubbles = dialogue(1, 8)
    rows = dict(disk_of("c1", bubbles))
    bad = {1: None, 2: b"", 3: '{"_v":3,"text":"cut', 4: "null", 5: "[]"}
    for number, value in bad.items():
        rows[f"bubbleId:c1:{uuid(number + 1)}"] = value
    del rows[f"bubbleId:c1:{uuid(7)}"]
    global_store(tmp_path, rows.items())
    [(chat, records)] = read_with_records(tmp_path).values()
    assert words(chat) == [("prompt", "m 0"), ("reply", "m 7")]
    assert chat.fidelity == "partial"
    assert records.message == "6 of 8 messages are not in the database"
    assert (records.kept, records.malformed) == (3, 2)


def test_a_chat_without_its_row_is_in_the_order_of_writing(tmp_path: Path) -> None:
    rows = [(f"bubbleId:lone:{uuid(9 - n)}", item) for n, item in enumerate(dialogue())]
    for number, item in enumerate(dialogue()):
        item["bubbleId"] = uuid(9 - number)
    empty = [("composerData:n1", None), ("composerData:n2", ""), ("composerData:n3", "{bad")]
    empty += [("composerData:n4", "[1]"), ("composerData:n5", composer("n5", []))]
    odd = [("bubbleId:::", "{}"), ("bubbleId:", None), ("bubbleId:x", "{}"), ("bubbleId:y:z", "[]")]
    global_store(tmp_path, [*rows, *empty, *odd])
    [(chat, records)] = read_with_records(tmp_path).values()
    assert chat.session_id == "lone"
    assert words(chat) == TALK
    assert chat.fidelity == "partial"
    assert "order of writing" in str(records.message)


def test_a_chat_whose_messages_are_all_gone_is_metadata(tmp_path: Path) -> None:
    global_store(tmp_path, [("composerData:c1", composer("c1", dialogue(), name="Lost"))])
    chat = read_one(tmp_path)
    assert (chat.fidelity, len(chat.messages), chat.title) == ("metadata-only", 0, "Lost")


def test_bodies_may_stand_in_the_chats_own_row(tmp_path: Path) -> None:
    bubbles = dialogue()
    value = composer("c1", bubbles, conversationMap={item["bubbleId"]: item for item in bubbles})
    global_store(tmp_path, [("composerData:c1", value)])
    assert words(read_one(tmp_path)) == TALK


def test_ids_are_exact_bytes(tmp_path: Path) -> None:
    ids = ["AbC", "abc", "a_c", "aXc", "a%", "call_a\nfc_b", "call_a", "x:y", "x"]
    disk = [
        pair for n, id_ in enumerate(ids) for pair in disk_of(id_, dialogue(10 * n + 1, 2, id_))
    ]
    disk += [(None, "dup"), (5, "number"), (b"composerData:blob", b"{}")]
    global_store(tmp_path, disk)
    found = read(tmp_path)
    assert {id_: words(chat) for id_, chat in found.items()} == {
        id_: [("prompt", f"{id_} 0"), ("reply", f"{id_} 1")] for id_ in ids
    }


def test_values_may_be_blobs_and_hold_odd_text(tmp_path: Path) -> None:
    bubbles = [bubble(1, 1, "nul \0 and \ud83d lone"), bubble(2, 2, "ok")]
    disk = [
        (key, json.dumps(value).encode() if isinstance(value, dict) else value)
        for key, value in disk_of("c1", bubbles, name="A \0 title")
    ]
    global_store(tmp_path, disk)
    chat = read_one(tmp_path)
    first, second = chat.messages
    assert second.content == "ok"
    assert "\0" not in first.content and "lone" in first.content
    first.content.encode()
    assert chat.title == "A ␀ title"


# --------------------------------------------------------------------------- bubbles


def test_a_step_is_thought_text_and_calls(tmp_path: Path) -> None:
    thought = {"thinking": {"text": "hm", "signature": "s"}}
    chat = one_chat(
        tmp_path,
        [
            bubble(1, 1, "do"),
            bubble(2, 2, **thought),
            bubble(3, 2, "I look."),
            bubble(4, 2, **tool("list_dir", {"p": "."}, {"files": ["a"]})),
            bubble(5, 2, **tool("read_file", {"target_file": "a"}, {"contents": "x\ny"})),
            bubble(6, 2, "Then."),
            bubble(7, 2, **{"thinking": "bare"}),
            bubble(8, 2, **{"allThinkingBlocks": [{"thinking": "one"}, "two", 3]}),
            bubble(9, 2, toolFormerData={"additionalData": {}}),
            bubble(10, 2, "Done."),
        ],
    )
    shown = [
        (m.content, m.thinking, [call.name for call in m.tool_calls], m.uid) for m in chat.messages
    ]
    assert shown == [
        ("do", None, [], uuid(1)),
        ("I look.", "hm", ["list_dir", "read_file"], uuid(2)),
        ("Then.", None, [], uuid(6)),
        ("", "bare", [], uuid(7)),
        ("Done.", "one\n\ntwo", [], uuid(8)),
    ]
    first, second = list(chat.messages)[1].tool_calls
    assert (first.output, second.output) == ('{"files": ["a"]}', "x\ny")


def test_a_tool_call_after_a_prompt_is_its_own_row(tmp_path: Path) -> None:
    chat = one_chat(
        tmp_path, [bubble(1, 1, "do"), bubble(2, 2, **tool("grep", {})), bubble(3, 2, "found")]
    )
    assert [(m.role, m.content, len(m.tool_calls)) for m in chat.messages] == [
        ("user", "do", 0),
        ("assistant", "", 1),
        ("assistant", "found", 0),
    ]


@pytest.mark.parametrize(
    ("former", "status"),
    [
        ({"status": "completed"}, "ok"),
        ({"status": "error", "error": "no match"}, "error"),
        ({"status": "error", "userDecision": "rejected"}, "error"),
        ({"status": "cancelled"}, "interrupted"),
        ({"status": "cancelled", "userDecision": "rejected"}, "denied"),
        ({"status": "completed", "userDecision": "rejected"}, "denied"),
        ({"status": "loading"}, "pending"),
        ({"status": ["x"]}, "unknown"),
        ({"status": None, "error": "x"}, "error"),
        ({"status": None, "result": "x"}, "ok"),
    ],
)
def test_the_status_of_a_call(former: dict[str, Any], status: str) -> None:
    messages = Messages()
    Steps(messages).add({"type": 2, "toolFormerData": {"name": "t", **former}}, "u", 0)
    assert messages[0].tool_calls[0].status == status


@pytest.mark.parametrize(
    ("former", "input_"),
    [
        ({"rawArgs": '{"a":1}', "params": '{"b":2}'}, '{"a":1}'),
        ({"rawArgs": "", "params": '{"b":2}'}, '{"b":2}'),
        ({"rawArgs": '{"a":', "params": '{"b":2}'}, '{"b":2}'),
        ({"rawArgs": '{"a":'}, '"{\\"a\\":"'),
        ({"params": {"b": 2}}, '{"b":2}'),
        ({"rawArgs": 5, "params": None}, "5"),
        ({}, None),
    ],
)
def test_the_input_of_a_call(former: dict[str, Any], input_: str | None) -> None:
    messages = Messages()
    Steps(messages).add({"type": 2, "toolFormerData": {"name": "t", **former}}, "u", 0)
    assert messages[0].tool_calls[0].input == input_


@pytest.mark.parametrize(
    ("former", "output", "exit_code"),
    [
        ({"result": '{"output":"a\\nb","exitCodeV2":2,"rejected":false}'}, "a\nb", 2),
        ({"result": '{"output":"a","more":[1]}'}, '{"output":"a","more":[1]}', None),
        ({"result": '{"contents":"a"}'}, "a", None),
        ({"result": '{"output":'}, '{"output":', None),
        ({"result": {"a": 1}}, '{"a":1}', None),
        ({"error": '{"clientVisibleErrorMessage":"c","modelVisibleErrorMessage":"m"}'}, "m", None),
        ({"error": "plain"}, "plain", None),
        ({"error": {"x": 1}}, '{"x":1}', None),
        ({}, None, None),
    ],
)
def test_the_output_of_a_call(
    former: dict[str, Any], output: str | None, exit_code: int | None
) -> None:
    messages = Messages()
    Steps(messages).add({"type": 2, "toolFormerData": {"name": "t", **former}}, "u", 0)
    [call] = messages[0].tool_calls
    assert (call.output, call.exit_code) == (output, exit_code)


def test_edits_of_files() -> None:
    chunk = {
        "diffString": "  one\n- two\n+ 2\n+ 3",
        "oldStart": 4,
        "oldLines": 2,
        "newStart": 4,
        "newLines": 3,
    }
    messages = Messages()
    steps = Steps(messages)
    edit = tool("edit_file", {"target_file": "a.py"}, {"diff": {"chunks": [chunk, "garbage"]}})
    steps.add(bubble(1, 2, **edit), "1", 0)
    steps.add(bubble(2, 2, **tool("delete_file", {"target_file": "b.py"}, "{}")), "2", 1)
    failed = tool("edit_file", {"target_file": "c.py"}, status="error", error="no match")
    steps.add(bubble(3, 2, **failed), "3", 2)
    steps.add(bubble(4, 2, **tool("read_file", {"target_file": "d.py"}, "{}")), "4", 3)
    [first], [second], third, fourth = (call.edits for call in messages[0].tool_calls)
    assert (first.path, first.action) == ("a.py", "edit")
    assert first.diff == "@@ -4,2 +4,3 @@\n one\n-two\n+2\n+3"
    assert (first.lines_added, first.lines_removed) == (2, 1)
    assert (second.path, second.action) == ("b.py", "delete")
    assert third == fourth == []


def test_prompts_of_images_only_and_rich_text(tmp_path: Path) -> None:
    rich = {"root": {"children": [{"children": [{"text": "rich "}, {"text": "text"}]}]}}
    context = {
        "selectedImages": [{"path": "/i/0.png"}, {"path": "/i/1.png"}],
        "fileSelections": [{"uri": {"fsPath": "c:\\a b.py", "external": "file:///c%3A/a%20b.py"}}],
    }
    chat = one_chat(
        tmp_path,
        [
            bubble(1, 1, "", context=context, richText="{}"),
            bubble(2, 1, "", richText=json.dumps(rich)),
            bubble(3, 1, ""),
            bubble(4, 1, "", images=["data:image/png;base64,AAAA"]),
        ],
    )
    assert words(chat) == [("prompt", ""), ("prompt", "rich text"), ("prompt", "")]
    assert [(item.kind, item.name) for item in next(iter(chat.messages)).attachments] == [
        ("image", "/i/0.png"),
        ("image", "/i/1.png"),
        ("file", "c:\\a b.py"),
    ]
    assert [item.kind for item in list(chat.messages)[2].attachments] == ["image"]


def test_errors_and_summaries_are_the_harness_own(tmp_path: Path) -> None:
    details = {"title": "Limit", "detail": "You have reached it."}
    chat = one_chat(
        tmp_path,
        [
            bubble(1, 1, "do"),
            bubble(
                2,
                2,
                "half an answer",
                errorDetails={"message": "You have reached it.", "error": {"details": details}},
            ),
            bubble(3, 2, "what was said", capabilityType=22),
            bubble(4, 2, "", errorDetails="odd"),
            bubble(5, 2, "", capabilityType=22),
        ],
    )
    assert [(m.role, m.kind, m.content) for m in chat.messages] == [
        ("user", "prompt", "do"),
        ("assistant", "reply", "half an answer"),
        ("system", "error", "Limit\n\nYou have reached it."),
        ("system", "summary", "what was said"),
        ("system", "error", "odd"),
    ]


def test_tokens_are_kept_where_they_were_counted(tmp_path: Path) -> None:
    def spent(input_: Any, output: Any) -> dict[str, Any]:
        return {"tokenCount": {"inputTokens": input_, "outputTokens": output}}

    chat = one_chat(
        tmp_path,
        [
            bubble(1, 1, "do"),
            bubble(2, 2, "\n", **spent(1, 2)),
            bubble(3, 2, "a", **spent(10, 20)),
            bubble(4, 2, " ", **spent(100, 200)),
            bubble(5, 2, "b"),
            bubble(6, 2, "c", **spent("x", -1)),
        ],
    )
    tokens = [m.tokens and (m.tokens.input, m.tokens.output) for m in chat.messages]
    assert tokens == [None, (111, 222), None, None]


def test_times_are_the_documented_ones_or_none() -> None:
    assert bubble_time({"createdAt": T0}) == iso_time(T0)
    assert bubble_time({"createdAt": "2025-09-27T19:06:50.000Z"}) == "2025-09-27T19:06:50.000Z"
    assert bubble_time({}, {"createdAt": T0}) == iso_time(T0)
    timing = {"clientStartTime": 1136746.9, "clientRpcSendTime": T0, "clientEndTime": T0 + 1}
    assert bubble_time({"timingInfo": timing}) == iso_time(T0)
    assert bubble_time({"timingInfo": {"clientEndTime": T0 + 1}}) == iso_time(T0 + 1)
    assert bubble_time({"timingInfo": {"clientStartTime": 1136746.9}}) is None
    assert bubble_time({"createdAt": "not a date", "timingInfo": []}) is None


def test_models(tmp_path: Path) -> None:
    chat = one_chat(
        tmp_path,
        [
            bubble(1, 1, "do", modelInfo={"modelName": "composer-2.5"}),
            bubble(2, 2, "a"),
            bubble(3, 2, "b", modelInfo={"modelName": "other"}),
            bubble(4, 1, "again", modelInfo={"modelName": "default"}),
            bubble(5, 2, "c"),
        ],
        modelConfig={"modelName": "default"},
    )
    assert [m.model for m in chat.messages if m.role == "assistant"] == [
        "composer-2.5",
        "other",
        None,
    ]
    assert chat.model == "other"


def test_unknown_bubbles_are_reported_without_their_values(tmp_path: Path) -> None:
    odd = bubble(2, 7, "SECRET-KEY words")
    global_store(tmp_path, disk_of("c1", [bubble(1, 1, "do"), odd, bubble(3, True, "x")]))
    [(_, records)] = read_with_records(tmp_path).values()
    assert records.unknown == 2
    assert records.samples[0].type == "bubble type 7"
    assert "toolResults" in records.samples[0].sample
    assert "SECRET" not in repr(records)


def test_secrets_of_the_same_rows_are_not_taken(tmp_path: Path) -> None:
    path = global_store(
        tmp_path,
        disk_of("c1", dialogue(), conversationState="SECRET-KEY"),
        **{"cursorAuth/accessToken": "SECRET-KEY", "secret://x": "SECRET-KEY"},
    )
    assert b"SECRET-KEY" in path.read_bytes()
    adapter = CursorAdapter()
    for meta in scan(tmp_path, adapter):
        parsed = adapter.parse(meta)
        assert "SECRET-KEY" not in repr([meta, parsed, list(parsed.conversations[0].messages)])


# --------------------------------------------------------------------------- what changed


def change(path: Path, rows: Iterable[tuple[str, Any]]) -> None:
    db = sqlite3.connect(path)
    for key, value in rows:
        value = json.dumps(value) if isinstance(value, dict) else value
        db.execute("insert into cursorDiskKV values (?, ?)", (key, value))
    db.commit()
    db.close()


def markers(home: Path) -> dict[str, str]:
    return {meta.session_id: meta.marker for meta in scan(home)}


def test_only_the_chat_that_grew_has_another_marker(tmp_path: Path) -> None:
    bubbles = dialogue()
    path = global_store(tmp_path, [*disk_of("c1", bubbles), *disk_of("c2", dialogue(50))])
    before = markers(tmp_path)
    assert markers(tmp_path) == before
    grown = [*bubbles, bubble(9, 1, "more")]
    change(
        path, [(f"bubbleId:c1:{uuid(9)}", grown[-1]), ("composerData:c1", composer("c1", grown))]
    )
    after = markers(tmp_path)
    assert after["c1"] != before["c1"] and after["c2"] == before["c2"]
    # a message is edited, and nothing else of the chat is written
    change(path, [(f"bubbleId:c2:{uuid(51)}", bubble(51, 2, "edited"))])
    edited = markers(tmp_path)
    assert edited["c2"] != after["c2"] and edited["c1"] == after["c1"]
    # the newest message is being written in place
    db = sqlite3.connect(path)
    db.execute(
        "update cursorDiskKV set value = ? where key = ?",
        (json.dumps(bubble(9, 1, "more and more")), f"bubbleId:c1:{uuid(9)}"),
    )
    db.commit()
    db.close()
    assert markers(tmp_path)["c1"] != edited["c1"]


def test_growth_in_the_wal_only_is_seen_and_the_source_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / USER / "globalStorage/state.vscdb"
    store(path, {}, disk_of("c1", dialogue()), journal_mode="wal")
    before = markers(tmp_path)
    editor = sqlite3.connect(path, isolation_level=None)
    editor.execute("pragma wal_autocheckpoint = 0")
    grown = [*dialogue(), bubble(9, 1, "more")]
    editor.execute(
        "insert into cursorDiskKV values (?, ?)", (f"bubbleId:c1:{uuid(9)}", json.dumps(grown[-1]))
    )
    editor.execute(
        "insert into cursorDiskKV values ('composerData:c1', ?)",
        (json.dumps(composer("c1", grown)),),
    )
    main = path.read_bytes()
    assert uuid(9).encode() not in main

    def tree() -> dict[str, tuple[str, int, int]]:
        return {
            item.name: (
                hashlib.sha256(item.read_bytes()).hexdigest(),
                item.stat().st_size,
                item.stat().st_mtime_ns,
            )
            for item in path.parent.iterdir()
        }

    files = tree()
    assert set(files) == {"state.vscdb", "state.vscdb-wal", "state.vscdb-shm"}
    assert markers(tmp_path) != before
    assert words(read_one(tmp_path)) == [*TALK, ("prompt", "more")]
    assert tree() == files
    editor.close()


def test_titles_and_folders_are_part_of_the_marker(tmp_path: Path) -> None:
    global_store(tmp_path, disk_of("c1", dialogue()))
    first = markers(tmp_path)
    path = workspace(
        tmp_path,
        "w1",
        "file:///home/a",
        {"composer.composerData": {"allComposers": [{"composerId": "c1", "name": "Title"}]}},
    )
    second = markers(tmp_path)
    (path.parent / "workspace.json").write_text('{"folder": "file:///home/b"}')
    third = markers(tmp_path)
    assert len({first["c1"], second["c1"], third["c1"]}) == 3


def test_a_busy_database_is_reported_and_nothing_of_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    global_store(tmp_path, disk_of("c1", dialogue()))
    workspace(
        tmp_path,
        "w1",
        "file:///w",
        {
            "composer.composerData": {
                "allComposers": [{"composerId": "c2", "conversation": dialogue(50)}]
            }
        },
    )
    real = vscdb.open_snapshot

    def busy(path: str, **options: Any) -> vscdb.Snapshot:
        if "globalStorage" in path:
            raise VscdbBusy("being written all the time")
        return real(path, **options)

    monkeypatch.setattr(vscdb, "open_snapshot", busy)
    problem, meta = CursorAdapter().scan(Environment.for_home(tmp_path))
    assert isinstance(problem, ScanProblem) and problem.root == str(tmp_path / USER)
    assert isinstance(meta, ConversationMeta) and meta.session_id == "c2"


def test_a_database_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    global_store(
        tmp_path, [pair for n in range(9) for pair in disk_of(f"c{n}", dialogue(10 * n + 1))]
    )
    opened = []
    real = vscdb.open_snapshot
    monkeypatch.setattr(
        vscdb,
        "open_snapshot",
        lambda path, **options: (opened.append(path), real(path, **options))[1],
    )
    adapter = CursorAdapter()
    assert sum(len(adapter.parse(meta).conversations) for meta in scan(tmp_path, adapter)) == 9
    assert len(opened) == 1
    adapter.close()
    adapter.close()


def test_metas_are_enough_to_parse_elsewhere(tmp_path: Path) -> None:
    import pickle

    global_store(tmp_path, disk_of("c1", dialogue()))
    [meta] = scan(tmp_path)
    [conversation] = CursorAdapter().parse(pickle.loads(pickle.dumps(meta))).conversations
    assert words(conversation) == TALK


def test_large_chats_are_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [bubble(90, 2, "regenerated"), bubble(80, 1, "edited")]
    global_store(tmp_path, disk_of("c1", dialogue(), others=others))
    whole = [(m.uid, m.content, m.state) for m in read_one(tmp_path).messages]
    for limit in (0, 300, 1_000):
        monkeypatch.setattr(cursor, "_MAX_LOADED", limit)
        assert [(m.uid, m.content, m.state) for m in read_one(tmp_path).messages] == whole


# --------------------------------------------------------------------------- where to look


def test_nothing_there(tmp_path: Path) -> None:
    assert CursorAdapter().detect(Environment.for_home(tmp_path)) is None
    assert scan(tmp_path) == []


def test_detect_and_unreadable_files(tmp_path: Path) -> None:
    global_store(tmp_path, disk_of("c1", dialogue()))
    bad = tmp_path / USER / "workspaceStorage/bad/state.vscdb"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b"not a database at all")
    info = CursorAdapter().detect(Environment.for_home(tmp_path))
    assert info is not None and info.roots == [tmp_path / USER]
    meta, problem = sorted(
        CursorAdapter().scan(Environment.for_home(tmp_path)), key=lambda item: type(item).__name__
    )
    assert isinstance(problem, ScanProblem) and problem.path == str(bad)
    assert isinstance(meta, ConversationMeta)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_reported_not_followed(tmp_path: Path) -> None:
    outside = global_store(tmp_path / "outside", disk_of("c1", dialogue()))
    path = tmp_path / "home" / USER / "globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    path.symlink_to(outside)
    [problem] = CursorAdapter().scan(Environment.for_home(tmp_path / "home"))
    assert isinstance(problem, ScanProblem) and "link" in problem.reason


def test_roots_that_the_user_names(tmp_path: Path) -> None:
    global_store(tmp_path / "backup", disk_of("c1", dialogue()))
    env = Environment.for_home(tmp_path / "home", {"cursor": (tmp_path / "backup" / USER,)})
    [meta] = CursorAdapter().scan(env)
    assert isinstance(meta, ConversationMeta) and meta.session_id == "c1"


def test_the_backup_beside_is_no_source(tmp_path: Path) -> None:
    path = global_store(tmp_path, disk_of("c1", dialogue()))
    store(path.with_name("state.vscdb.backup"), {}, disk_of("c2", dialogue(50)))
    assert list(read(tmp_path)) == ["c1"]


def test_which_sessions_the_editor_holds(tmp_path: Path) -> None:
    global_store(
        tmp_path,
        [
            *disk_of("full", dialogue()),
            ("composerData:head only", composer("head only", dialogue(50))),
            ("composerData:empty", composer("empty", [])),
        ],
    )
    env = Environment.for_home(tmp_path)
    assert sessions_in_editor(env, ["full", "head only", "empty", "other"]) == {"full"}
    assert sessions_in_editor(Environment.for_home(tmp_path / "none"), ["full"]) == set()


def test_the_adapter_keeps_the_rules(tmp_path: Path) -> None:
    global_store(
        tmp_path,
        [
            *disk_of("c1", dialogue(), name="One"),
            *disk_of("c2", [bubble(50, 1, "x"), bubble(51, 2, **tool("grep", {"q": "x"}, "y"))]),
        ],
    )
    workspace(
        tmp_path, "w1", "file:///w", {CHATDATA: {"tabs": [{"tabId": "t", "bubbles": [
            {"type": "user", "id": "u", "text": "ask"}, {"type": "ai", "id": "a", "text": "say"}]}]}}
    )  # fmt: skip
    check_adapter(CursorAdapter(), tmp_path)


# --------------------------------------------------------------------------- anything at all

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
FIELD_NAMES = """
type text bubbleId toolFormerData name rawArgs params result status error thinking
context selectedImages fileSelections uri path fsPath createdAt timingInfo tokenCount
inputTokens errorDetails modelInfo modelName richText root children conversation
capabilities data bubbleDataMap fullConversationHeadersOnly conversationMap composerId
workspaceIdentifier id subagentInfo parentComposerId subagentComposerIds isArchived
lastUpdatedAt allComposers tabs tabId bubbles chatTitle selectedComposerIds
capabilityType diff chunks diffString
"""
KEYS = st.sampled_from(FIELD_NAMES.split())
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5)
)
VALUES = ANY.map(json.dumps) | st.binary(max_size=40) | st.none() | st.integers(-5, 5)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    chats=st.lists(VALUES, max_size=3),
    rows=st.lists(st.tuples(st.sampled_from(["c0", "c1", "lone", ""]), VALUES), max_size=6),
    items=st.lists(VALUES, min_size=4, max_size=4),
)
def test_no_value_is_too_odd(
    tmp_path: Path, chats: list[Any], rows: list[tuple[str, Any]], items: list[Any]
) -> None:
    path = tmp_path / USER / "globalStorage/state.vscdb"
    path.unlink(missing_ok=True)
    disk = [(f"composerData:c{n}", value) for n, value in enumerate(chats)]
    disk += [(f"bubbleId:{id_}:{uuid(n)}", value) for n, (id_, value) in enumerate(rows)]
    disk += disk_of("good", dialogue())
    names = ("composer.composerData", CHATDATA, "composer.composerHeaders",
             "workbench.panel.composerChatViewPane.x")  # fmt: skip
    store(path, dict(zip(names, items, strict=True)), disk)
    first = read_with_records(tmp_path)
    assert words(first["good"][0]) == TALK
    second = read_with_records(tmp_path)
    assert list(first) == list(second)
    for id_, (chat, records) in first.items():
        assert list(chat.messages) == list(second[id_][0].messages)
        assert records == second[id_][1]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(KEYS, ANY, max_size=8), max_size=6), ANY)
def test_no_bubble_is_too_odd(bubbles: list[dict[str, Any]], stored: Any) -> None:
    messages = Messages()
    steps = Steps(messages)
    for number, item in enumerate(bubbles):
        for type_ in (1, 2, item.get("type")):
            assert steps.add({**item, "type": type_}, f"{number}", number, tool=stored) in (
                "kept",
                "ignored",
                "unknown",
            )
    assert len({message.uid for message in messages}) == len(messages)
