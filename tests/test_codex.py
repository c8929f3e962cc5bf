"""The Codex adapter, on small session files built here. What is right is reasoned, not copied."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_crystal.adapters import Adapter
from datasette_crystal.adapters.codex import Codex, RolloutSource, register_adapters
from datasette_crystal.adapters.codex_rollout import RolloutReader
from datasette_crystal.adapters.codex_texts import (
    is_injected,
    split_ide_context,
    without_citation,
)
from datasette_crystal.adapters.codex_tools import (
    edits_of_changes,
    edits_of_patch,
    image_at,
    patch_in,
    read_output,
)
from datasette_crystal.model import (
    CALL_STATUSES,
    MESSAGE_KINDS,
    ROLES,
    STATES,
    ConversationMeta,
    Environment,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
)

THREAD = "01a22e58-20b0-7571-a007-a09d19d6a231"
OTHER = "01a22e60-0000-7000-8000-000000000001"
EARLIER_TURN = "01a22e57-0000-7000-8000-00000000000a"
OWN_TURN = "01a22e58-30b0-7571-a007-a09d19d6a231"
PIXEL = base64.b64encode(b"\x89PNG....").decode()


# --------------------------------------------------------------------------- builders


class Clock:
    """Gives each record a time of its own, a tenth of a second later."""

    def __init__(self) -> None:
        self.tenths = 0

    def __call__(self, pause: float = 0.1) -> str:
        self.tenths += round(pause * 10)
        seconds, tenth = divmod(self.tenths, 10)
        return f"2026-05-01T10:{seconds // 60:02d}:{seconds % 60:02d}.{tenth}00Z"


def meta(thread: str = THREAD, **more: Any) -> dict[str, Any]:
    payload = {"id": thread, "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/work/shop"}
    return {"type": "session_meta", "payload": {**payload, "cli_version": "0.120.0", **more}}


def item(**payload: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": payload}


def event(type_: str, **payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": type_, **payload}}


def completed(type_: str, **fields: Any) -> dict[str, Any]:
    return event("item_completed", item={"type": type_, **fields})


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}], **more)


def typed(text: str) -> list[dict[str, Any]]:
    return [said("user", text), event("user_message", message=text, images=[])]


def answered(text: str) -> list[dict[str, Any]]:
    return [event("agent_message", message=text), said("assistant", text)]


def called(call_id: str, name: str = "shell_command", **arguments: Any) -> dict[str, Any]:
    text = json.dumps(arguments)
    return item(type="function_call", name=name, arguments=text, call_id=call_id)


def output(call_id: str, text: Any) -> dict[str, Any]:
    return item(type="function_call_output", call_id=call_id, output=text)


def usage(sent: int, answer: int, cached: int = 0) -> dict[str, int]:
    return {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": answer}


def counted(total: dict[str, int], last: dict[str, int] | None = None) -> dict[str, Any]:
    info = {"total_token_usage": total, "last_token_usage": last or total}
    return event("token_count", info=info)


def flat(*parts: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for part in parts:
        records += [part] if isinstance(part, dict) else flat(*part)
    return records


def lines(records: Iterable[dict[str, Any]], *, ordinals: bool = False) -> bytes:
    clock = Clock()
    rows = []
    for number, record in enumerate(records):
        row = {"timestamp": clock(), **record}
        if ordinals:
            row.setdefault("ordinal", number)
        rows.append(json.dumps(row).encode())
    return b"\n".join(rows) + b"\n"


def rollout(
    home: Path,
    data: bytes,
    thread: str = THREAD,
    *,
    time: str = "2026-05-01T12-00-00",
    revision: str = "",
    folder: str = "sessions/2026/05/01",
    suffix: str = ".jsonl",
) -> Path:
    name = f"rollout-{time}-{thread}{'_' + revision if revision else ''}{suffix}"
    path = home / ".codex" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def metas(home: Path, **more: Any) -> list[ConversationMeta]:
    found = list(Codex().scan(Environment.for_home(home, **more)))
    return [one for one in found if isinstance(one, ConversationMeta)]


def parse_home(home: Path) -> dict[str, ParsedConversation]:
    adapter = Codex()
    parsed = [adapter.parse(one) for one in metas(home)]
    for one in parsed:
        check(one)
    return {c.session_id: c for one in parsed for c in one.conversations}


def check(parsed: Parsed) -> None:
    """What holds for everything that the adapter gives."""
    for file in parsed.files:
        assert file.records == file.kept + file.ignored + file.unknown + file.malformed
    for conversation in parsed.conversations:
        messages = list(conversation.messages)
        uids = [message.uid for message in messages]
        assert len(set(uids)) == len(uids)
        for message in messages:
            assert message.kind in MESSAGE_KINDS
            assert message.role in ROLES
            assert message.state in STATES
            for call in message.tool_calls:
                assert call.status in CALL_STATUSES
                if call.input is not None:
                    json.loads(call.input)


def read(tmp_path: Path, *parts: Any, ordinals: bool = False) -> ParsedConversation:
    rollout(tmp_path, lines(flat(meta(), *parts), ordinals=ordinals))
    return parse_home(tmp_path)[THREAD]


def rows(conversation: ParsedConversation) -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in conversation.messages]


def message(conversation: ParsedConversation, content: str) -> ParsedMessage:
    return next(m for m in conversation.messages if m.content == content)


# --------------------------------------------------------------------------- the three shapes


def test_bare_rollout(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {
            "id": THREAD,
            "timestamp": "2025-08-01T10:00:00.000Z",
            "instructions": None,
            "git": {"branch": "main", "repository_url": "https://example.org/x.git"},
        },
        {"record_type": "state"},
        said("user", "<environment_context>\n<cwd>/bare</cwd>\n</environment_context>")["payload"],
        said("user", "hello")["payload"],
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        said("assistant", "hi", id="msg_1")["payload"],
        called("c1", "shell", command=["ls"])["payload"],
        output("c1", '{"output":"a\\n","metadata":{"exit_code":2,"duration_seconds":0.5}}')[
            "payload"
        ],
    ]
    rollout(tmp_path, b"\n".join(json.dumps(r).encode() for r in records))
    conversation = parse_home(tmp_path)[THREAD]
    assert [kind for kind, _ in rows(conversation)] == ["context", "prompt", "reply"]
    assert conversation.cwd == "/bare"
    assert conversation.git_branch == "main"
    assert conversation.git_remote == "https://example.org/x.git"
    assert conversation.started_at == "2025-08-01T10:00:00.000Z"
    reply = message(conversation, "hi")
    assert (reply.thinking, reply.timestamp, reply.uid, reply.shared_uid) == (
        "hm",
        None,
        "msg_1",
        True,
    )
    call = reply.tool_calls[0]
    assert (call.status, call.exit_code, call.duration_ms, call.output) == ("error", 2, 500, "a\n")


def test_what_is_told_twice_is_one_row(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("one"),
        answered("OK"),
        typed("two"),
        event("agent_message", message="padded \n"),
        said("assistant", "padded"),
        answered("OK"),
        answered("OK"),
    )
    assert rows(conversation) == [
        ("prompt", "one"),
        ("reply", "OK"),
        ("prompt", "two"),
        ("reply", "padded"),
        ("reply", "OK"),
        ("reply", "OK"),
    ]
    assert [m.shared_uid for m in conversation.messages] == [False] * 6


def test_paginated_rollout(tmp_path: Path) -> None:
    labels = {"content_item_kinds": ["user.text"]}
    conversation = read(
        tmp_path,
        event("task_started", turn_id="t"),
        said(
            "user",
            "# anything that nobody typed",
            internal_chat_message_metadata_passthrough={"content_item_kinds": ["agents_md.x"]},
        ),
        said(
            "user",
            "<environment_context>\nis a tag\n</environment_context>",
            id="msg_u",
            internal_chat_message_metadata_passthrough=labels,
        ),
        completed(
            "UserMessage",
            id="x",
            content=[
                {"type": "text", "text": "<environment_context>\nis a tag\n</environment_context>"}
            ],
        ),
        said("user", "unlabelled text of the harness"),
        completed("Reasoning", id="rs_1", summary_text=["**Look**"], raw_content=[]),
        item(type="reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "**Look**"}]),
        completed("AgentMessage", id="msg_a", content=[{"type": "Text", "text": "done"}]),
        said("assistant", "done", id="msg_a"),
        ordinals=True,
    )
    assert [m.kind for m in conversation.messages] == ["context", "prompt", "context", "reply"]
    prompt, reply = list(conversation.messages)[1], list(conversation.messages)[3]
    assert (prompt.uid, prompt.shared_uid, prompt.record) == ("msg_u", True, 3)
    assert (reply.uid, reply.thinking, reply.record) == ("msg_a", "**Look**", 9)


def test_paginated_without_events(tmp_path: Path) -> None:
    conversation = read(tmp_path, said("user", "just asked"), said("assistant", "told"))
    assert rows(conversation) == [("prompt", "just asked"), ("reply", "told")]


def test_rewritten_in_place_gives_the_same_rows(tmp_path: Path) -> None:
    before = read(tmp_path / "a", typed("one"), answered("OK"), typed("again"), answered("OK"))

    def rewritten(number: int, prompt: str) -> list[dict[str, Any]]:
        return [
            said("user", prompt),
            completed(
                "UserMessage", id=f"item-{number}", content=[{"type": "text", "text": prompt}]
            ),
            completed(
                "AgentMessage", id=f"item-{number + 1}", content=[{"type": "Text", "text": "OK"}]
            ),
            said("assistant", "OK"),
        ]

    after = read(tmp_path / "b", rewritten(1, "one"), rewritten(3, "again"), ordinals=True)
    assert rows(before) == rows(after)
    assert not any(m.shared_uid for m in after.messages)


# --------------------------------------------------------------------------- prompts


def test_event_without_item_and_item_without_event(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        event("user_message", message="only an event"),
        answered("a"),
        said("user", "only an item, steered"),
        answered("b"),
        typed("both"),
        said("user", "Warning: apply_patch was requested via exec_command."),
        answered("c"),
    )
    assert [r for r in rows(conversation) if r[0] != "reply"] == [
        ("prompt", "only an event"),
        ("prompt", "only an item, steered"),
        ("prompt", "both"),
        ("notification", "Warning: apply_patch was requested via exec_command."),
    ]


def test_event_that_comes_late_or_early(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        said("user", "late"),
        answered("a"),
        event("user_message", message="late"),
        event("user_message", message="early"),
        said("user", "early"),
        answered("b"),
    )
    assert [text for kind, text in rows(conversation) if kind == "prompt"] == ["late", "early"]


def test_quoted_tags_are_prompts(tmp_path: Path) -> None:
    texts = [
        "<environment_context> is what tag?",
        "# AGENTS.md instructions for me: write one",
        "<user_instructions>hi</user_instructions> explain this tag",
        "<turn_aborted> means?",
    ]
    conversation = read(
        tmp_path, typed("start"), answered("a"), *[[said("user", t), answered(t)] for t in texts]
    )
    assert [text for kind, text in rows(conversation) if kind == "prompt"] == ["start", *texts]


@pytest.mark.parametrize(
    ("text", "injected"),
    [
        ("<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", True),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>", True),
        ("# AGENTS.md instructions\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>\n", True),
        ("# AGENTS.md instructions\n\nwhat are they?", False),
        ("<user_instructions>\n\nx\n\n</user_instructions>", True),
        ("<recommended_plugins>\n" + "- x\n" * 200, True),
        ("<recommended_plugins>\nshort and open", False),
        ("<skill>\n<name>x</name>\n</skill>", True),
        ("<skill>s</skill> and my words", False),
        ("<skillful>\nx\n</skillful>", False),
        ("", False),
        ("<", False),
    ],
)
def test_is_injected(text: str, injected: bool) -> None:
    assert is_injected(text) is injected


def test_ide_context_is_cut_only_as_a_prefix(tmp_path: Path) -> None:
    ide = (
        "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nfix it\n"
    )
    quoted = "I quote:\n## My request for Codex:\nwhy?"
    conversation = read(tmp_path, typed(ide), answered("a"), typed(quoted), answered("b"))
    assert rows(conversation) == [
        ("context", "# Context from my IDE setup:\n\n## Active file: a.py"),
        ("prompt", "fix it\n"),
        ("reply", "a"),
        ("prompt", quoted),
        ("reply", "b"),
    ]
    assert split_ide_context("## Open tabs:\nno marker") == ("", "## Open tabs:\nno marker")
    assert split_ide_context("## Open tabs:\n- a\n## My request for Codex:") == (
        "## Open tabs:\n- a",
        "",
    )


def test_mixed_item_gives_context_and_prompt(tmp_path: Path) -> None:
    content = [
        {"type": "input_text", "text": "<recommended_plugins>\nx\n</recommended_plugins>"},
        {"type": "input_text", "text": "my question"},
    ]
    conversation = read(tmp_path, item(type="message", role="user", content=content), answered("a"))
    assert [kind for kind, _ in rows(conversation)] == ["context", "prompt", "reply"]
    assert rows(conversation)[1] == ("prompt", "my question")


def test_images(tmp_path: Path) -> None:
    url = f"data:image/png;base64,{PIXEL}"
    content = [
        {"type": "input_text", "text": '<image name=[Image #1] path="/x/dot.png">'},
        {"type": "input_image", "image_url": url},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "what is it?"},
    ]
    conversation = read(
        tmp_path,
        item(type="message", role="user", content=content),
        completed(
            "UserMessage",
            id="u",
            content=[
                {"type": "local_image", "path": "/x/dot.png"},
                {"type": "text", "text": "what is it?"},
            ],
        ),
        answered("a dot"),
        completed("UserMessage", id="v", content=[{"type": "local_image", "path": "/x/gone.png"}]),
        event("user_message", message="see", images=[url]),
    )
    prompt, _, alone, see = conversation.messages
    assert prompt.content == "what is it?"
    image = prompt.attachments[0]
    assert (image.name, image.media_type, image.content) == (
        "/x/dot.png",
        "image/png",
        b"\x89PNG....",
    )
    assert (alone.kind, alone.content, alone.attachments[0].name) == ("prompt", "", "/x/gone.png")
    assert see.attachments[0].content == b"\x89PNG...."
    assert image_at("data:image/png;base64,A").content is None
    assert image_at("https://example.org/a.png").name == "https://example.org/a.png"


def test_picture_of_a_tool_is_no_prompt(tmp_path: Path) -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    conversation = read(
        tmp_path,
        typed("look"),
        called("c", "view_image", path="/x.png"),
        output("c", "attached local image path"),
        item(type="message", role="user", content=[picture]),
        answered("seen"),
        called("d", "view_image", path="/y.png"),
        output("d", [picture]),
    )
    assert [kind for kind, _ in rows(conversation)] == ["prompt", "reply", "reply"]
    first, second = list(conversation.messages)[1:]
    assert [a.media_type for a in first.attachments] == ["image/png"]
    assert [a.media_type for a in second.attachments] == ["image/png"]
    assert second.tool_calls[0].status == "ok"


def test_shell_commands_of_a_person(tmp_path: Path) -> None:
    block = (
        "<user_shell_command>\n<command>\necho hi\n</command>\n"
        "<result>\nExit code: 0\nOutput:\nhi\n</result>\n</user_shell_command>"
    )
    conversation = read(
        tmp_path,
        typed("!ls"),
        answered("a"),
        completed(
            "CommandExecution",
            id="q",
            source="user_shell",
            command=["/bin/bash", "-lc", "echo hi"],
            aggregated_output="hi\n",
        ),
        said("user", block),
        event("task_complete"),
        event(
            "exec_command_end",
            source="user_shell",
            command=["bash", "-lc", "pwd"],
            aggregated_output="/x",
        ),
        event("task_complete"),
    )
    assert [r for r in rows(conversation) if r[0] != "reply"] == [
        ("shell", "!ls"),
        ("shell", "!echo hi"),
        ("local-output", "Exit code: 0\nOutput:\nhi"),
        ("shell", "!pwd"),
        ("local-output", "/x"),
    ]


# --------------------------------------------------------------------------- answers, thoughts


def test_answer_that_only_an_event_told(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("go"),
        answered("first"),
        event("agent_reasoning", text="thought"),
        event("agent_message", message="last words"),
        event("turn_aborted", reason="interrupted"),
        said("user", "<turn_aborted>\nThe user stopped it.\n</turn_aborted>"),
        typed("next"),
        answered("first"),
    )
    assert rows(conversation) == [
        ("prompt", "go"),
        ("reply", "first"),
        ("reply", "last words"),
        ("interruption", "<turn_aborted>\nThe user stopped it.\n</turn_aborted>"),
        ("prompt", "next"),
        ("reply", "first"),
    ]
    assert message(conversation, "last words").thinking == "thought"


def test_answer_before_a_call_that_only_an_event_told(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("go"),
        event("agent_message", message="I look."),
        called("c", command="ls"),
        output("c", "x"),
        answered("Seen."),
    )
    assert rows(conversation)[1:] == [("reply", "I look."), ("reply", "Seen.")]
    assert [c.call_id for c in message(conversation, "I look.").tool_calls] == ["c"]


def test_item_that_comes_after_its_call(tmp_path: Path) -> None:
    # 0.47 writes all events of a response before its items
    conversation = read(
        tmp_path,
        typed("go"),
        event("agent_message", message="I look."),
        called("c", command="ls"),
        said("assistant", "I look."),
        called("d", command="ls"),
    )
    assert rows(conversation)[1:] == [("reply", "I look.")]
    assert [c.call_id for c in message(conversation, "I look.").tool_calls] == ["c", "d"]


def test_parts_of_one_answer(tmp_path: Path) -> None:
    content = [{"type": "output_text", "text": "one"}, {"type": "output_text", "text": "two"}]
    conversation = read(
        tmp_path,
        typed("go"),
        event("agent_message", message="one"),
        event("agent_message", message="two"),
        item(type="message", role="assistant", content=content),
    )
    assert rows(conversation)[1:] == [("reply", "one\n\ntwo")]


def test_memory_citations(tmp_path: Path) -> None:
    cited = "Done.\n<oai-mem-citation>\n<x>1</x>\n</oai-mem-citation>\n"
    quoted = "The tag <oai-mem-citation> stays."
    conversation = read(
        tmp_path,
        typed("go"),
        [event("agent_message", message="Done."), said("assistant", cited)],
        answered(quoted),
    )
    assert [text for _, text in rows(conversation)[1:]] == ["Done.", quoted]
    assert without_citation("<oai-mem-citation>\n</oai-mem-citation>") == ""


def test_steps(tmp_path: Path) -> None:
    def thought(text: str) -> dict[str, Any]:
        return item(type="reasoning", summary=[{"type": "summary_text", "text": text}])

    conversation = read(
        tmp_path,
        typed("go"),
        called("a", command="x"),
        output("a", "1"),
        thought("why"),
        called("b", command="y"),
        output("b", "2"),
        item(type="reasoning", summary=[], encrypted_content="zzz"),
        called("c", command="z"),
        answered("text"),
        called("d", command="z"),
        thought("one"),
        thought("two"),
    )
    steps = [
        (m.content, m.thinking, [c.call_id for c in m.tool_calls])
        for m in conversation.messages
        if m.role == "assistant"
    ]
    assert steps == [
        ("", None, ["a"]),
        ("", "why", ["b", "c"]),
        ("text", None, ["d"]),
        ("", "one", []),
        ("", "two", []),
    ]


def test_reasoning_events_and_items(tmp_path: Path) -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("a", "b")]
    conversation = read(
        tmp_path,
        typed("go"),
        [event("agent_reasoning", text="a"), event("agent_reasoning", text="b")],
        item(type="reasoning", summary=parts),
        answered("one"),
        item(type="reasoning", summary=parts),
        [event("agent_reasoning", text="a"), event("agent_reasoning", text="b")],
        answered("two"),
    )
    thoughts = [m.thinking for m in conversation.messages if m.thinking]
    assert thoughts == ["a\n\nb", "a\n\nb"]


def test_plans_are_told_once(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("plan"),
        completed("Plan", id="p", text="1. do it"),
        said("assistant", "<proposed_plan>\n1. do it\n</proposed_plan>"),
        event("task_complete"),
        typed("another"),
        completed("Plan", id="q", text="2. do that"),
        event("task_complete"),
    )
    assert [text for kind, text in rows(conversation) if kind == "reply"] == [
        "<proposed_plan>\n1. do it\n</proposed_plan>",
        "2. do that",
    ]


def test_compaction(tmp_path: Path) -> None:
    prefix = "Another language model started to solve this problem and ...\n"
    conversation = read(
        tmp_path,
        typed("go"),
        answered("a"),
        counted(usage(10, 1)),
        counted(usage(30, 3), usage(20, 2)),
        {
            "type": "compacted",
            "payload": {"message": prefix + "SUMMARY 1", "replacement_history": []},
        },
        event("context_compacted"),
        event("agent_message", message="Compact task completed"),
        typed("more"),
        said("assistant", "SUMMARY 2"),
        counted(usage(60, 6), usage(30, 3)),
        {
            "type": "compacted",
            "payload": {
                "message": prefix + "SUMMARY 2",
                "replacement_history": [said("assistant", "a copy")["payload"]],
            },
        },
        answered("b"),
        {"type": "compacted", "payload": {"message": ""}},
    )
    assert rows(conversation) == [
        ("prompt", "go"),
        ("reply", "a"),
        ("summary", prefix + "SUMMARY 1"),
        ("notification", "Compact task completed"),
        ("prompt", "more"),
        ("summary", "SUMMARY 2"),
        ("reply", "b"),
    ]
    spent = [(m.content[-9:], m.tokens.input) for m in conversation.messages if m.tokens]
    assert spent == [("a", 10), ("SUMMARY 1", 20), ("SUMMARY 2", 30)]


# --------------------------------------------------------------------------- turns


def test_rolled_back_turns(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("1"),
        answered("a1"),
        typed("2"),
        answered("a2"),
        typed("3"),
        answered("a3"),
        event("thread_rolled_back", num_turns=1),
        typed("4"),
        answered("a4"),
        event("thread_rolled_back", num_turns=2),
        typed("5"),
        answered("a5"),
        event("thread_rolled_back", num_turns="x"),
    )
    states = {m.content: m.state for m in conversation.messages}
    assert {text for text, state in states.items() if state == "active"} == {"1", "a1", "5", "a5"}
    assert states["3"] == states["2"] == states["a4"] == "rolled-back"


def test_failed_and_aborted_turns(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("one"),
        event("task_complete", error={"message": "no quota"}, last_agent_message=None),
        typed("two"),
        event("error", message="broken"),
        event("task_complete", error={"message": "broken"}),
        typed("three"),
        said("assistant", "half"),
        event("task_complete", error={"message": "Incomplete response returned, reason: x"}),
        typed("four"),
        called("c", command="sleep"),
        event("turn_aborted", reason="interrupted"),
        typed("five"),
        called("d", command="x"),
        typed("six"),
        called("e", command="x"),
    )
    assert rows(conversation) == [
        ("prompt", "one"),
        ("error", "no quota"),
        ("prompt", "two"),
        ("error", "broken"),
        ("prompt", "three"),
        ("partial", "half"),
        ("error", "Incomplete response returned, reason: x"),
        ("prompt", "four"),
        ("reply", ""),
        ("interruption", "interrupted"),
        ("prompt", "five"),
        ("reply", ""),
        ("prompt", "six"),
        ("reply", ""),
    ]
    statuses = [c.status for m in conversation.messages for c in m.tool_calls]
    assert statuses == ["interrupted", "unknown", "pending"]
    assert all(m.role == "system" for m in conversation.messages if m.kind == "error")


# --------------------------------------------------------------------------- tool calls


@pytest.mark.parametrize(
    ("value", "text", "status", "exit_code", "milliseconds"),
    [
        ('{"output":"a","metadata":{"exit_code":0,"duration_seconds":1.5}}', "a", "ok", 0, 1500),
        ('{"output":"a","metadata":{"exit_code":1}}', "a", "error", 1, None),
        ('{"output":"a\\ud800","metadata":{"exit_code":0}}', "a\ufffd", "ok", 0, None),
        ('{"output":"unsupported call: x"}', "unsupported call: x", "error", None, None),
        ("Exit code: 7\nWall time: 0.2 seconds\nOutput:\nb", None, "error", 7, 200),
        (
            "Chunk ID: 1\nWall time: 0.25 seconds\nProcess exited with code 0\nOutput:\nExit code: 5",
            None,
            "ok",
            0,
            250,
        ),
        (
            "Chunk ID: 1\nWall time: 1 seconds\nProcess running with session ID 9\nOutput:\n",
            None,
            "ok",
            None,
            1000,
        ),
        ("Plan updated", None, "ok", None, None),
        ("unsupported call: nothing", None, "error", None, None),
        ("apply_patch verification failed: x", None, "error", None, None),
        ("aborted by user after 3.1s", None, "interrupted", None, None),
        ("exec command rejected by user", None, "denied", None, None),
        ({"content": "nope", "success": False}, "nope", "error", None, None),
        (
            [{"type": "input_text", "text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}],
            None,
            "error",
            None,
            100,
        ),
        (None, "", "ok", None, None),
        (12, "12", "ok", None, None),
        ('{"output":', '{"output":', "ok", None, None),
        ("Exit code: x\nWall time: y seconds", None, "ok", None, None),
    ],
)
def test_outputs(
    value: Any, text: str | None, status: str, exit_code: int | None, milliseconds: int | None
) -> None:
    outcome = read_output(value)
    if text is None:
        text = value if isinstance(value, str) else value[0]["text"]
    assert outcome.text == text
    assert (outcome.status, outcome.exit_code, outcome.duration_ms) == (
        status,
        exit_code,
        milliseconds,
    )


def test_events_join_their_call(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("go"),
        called("a", "exec_command", cmd="false"),
        event(
            "exec_command_end", call_id="a", exit_code=1, duration={"secs": 1, "nanos": 5_000_000}
        ),
        output("a", "no header here"),
        called("b", "mcp__docs__find", q="x"),
        output("b", "answer"),
        event(
            "mcp_tool_call_end",
            call_id="b",
            result={"Ok": {"isError": True}},
            duration={"secs": 0, "nanos": 7_000_000},
        ),
        called("c", "exec_command", cmd="x"),
        completed("CommandExecution", id="c", status="declined"),
        output("c", "something"),
        completed("CommandExecution", id="nobody", exit_code=3),
        item(
            type="web_search_call",
            id="ws_1",
            status="completed",
            action={"type": "search", "query": "q"},
        ),
        event("web_search_end", call_id="ws_1", query="q"),
        item(type="web_search_call", status="completed", action={"type": "open_page", "url": "u"}),
        called("d", "find", q=1),
    )
    calls = [c for m in conversation.messages for c in m.tool_calls]
    assert [(c.name, c.status, c.exit_code, c.duration_ms) for c in calls] == [
        ("exec_command", "error", 1, 1005),
        ("mcp__docs__find", "error", None, 7),
        ("exec_command", "denied", None, None),
        ("web_search", "ok", None, None),
        ("web_search", "ok", None, None),
        ("find", "pending", None, None),
    ]


def test_namespace_of_mcp_tools(tmp_path: Path) -> None:
    call = item(
        type="function_call", namespace="mcp__docs__", name="find", arguments="{}", call_id="a"
    )
    conversation = read(tmp_path, typed("go"), call)
    assert conversation.messages[1].tool_calls[0].name == "mcp__docs__find"


PATCH = """*** Begin Patch
*** Add File: new.py
+a
+b
*** Update File: old.py
*** Move to: moved.py
@@ def f():
-x
+y
 z
*** Delete File: gone.py
*** End Patch"""


def test_patches() -> None:
    edits = edits_of_patch(PATCH)
    assert [(e.path, e.action, e.lines_added, e.lines_removed) for e in edits] == [
        ("new.py", "create", 2, 0),
        ("moved.py", "rename", 1, 1),
        ("gone.py", "delete", None, None),
    ]
    assert edits[0].diff == "@@ -0,0 +1,2 @@\n+a\n+b"
    assert edits[1].diff == "@@ def f():\n-x\n+y\n z"
    heredoc = f"cd src && apply_patch <<'EOF'\n{PATCH}\nEOF\n"
    assert edits_of_patch(patch_in({"command": ["bash", "-lc", heredoc]}) or "") == edits
    assert edits_of_patch(patch_in({"cmd": heredoc}) or "") == edits
    assert patch_in({"cmd": f"echo '{PATCH}'"}) is None
    assert edits_of_patch("*** Begin Patch") == []


def test_changes() -> None:
    edits = edits_of_changes(
        {
            "/a": {"type": "add", "content": "1\n2\n"},
            "/b": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": None},
            "/c": {"type": "update", "unified_diff": "@@\n", "move_path": "/d"},
            "/e": {"type": "delete", "content": "1\n"},
            "/f": {"update": {"unified_diff": "@@\n+1\n"}},
            "/g": "nonsense",
            "/h": {},
            "/i": {"type": 3},
        }
    )
    assert [(e.path, e.action, e.lines_added, e.lines_removed) for e in edits] == [
        ("/a", "create", 2, 0),
        ("/b", "edit", 1, 1),
        ("/d", "rename", 0, 0),
        ("/e", "delete", 0, 1),
        ("/f", "edit", 1, 0),
    ]
    assert edits_of_changes([1]) == []


def test_edits_of_calls(tmp_path: Path) -> None:
    def patch(call_id: str) -> dict[str, Any]:
        return item(type="custom_tool_call", name="apply_patch", input=PATCH, call_id=call_id)

    def answer(call_id: str, text: str) -> dict[str, Any]:
        return item(type="custom_tool_call_output", call_id=call_id, output=text)

    changes = {"/x/new.py": {"type": "add", "content": "a\nb\n"}}
    conversation = read(
        tmp_path,
        typed("go"),
        patch("a"),
        answer("a", "Success."),
        patch("b"),
        answer("b", "apply_patch verification failed: no such file"),
        patch("c"),
        event("patch_apply_end", call_id="c", success=True, changes=changes),
        answer("c", "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."),
        item(type="custom_tool_call", name="exec", input="await tools.apply_patch(p)", call_id="d"),
        completed("FileChange", id="exec-1", changes=changes, status="completed"),
        answer("d", "Script completed"),
        patch("e"),
        completed("FileChange", id="e", changes=changes, status="declined"),
    )
    calls = {c.call_id: c for m in conversation.messages for c in m.tool_calls}
    assert {k: len(c.edits) for k, c in calls.items()} == {"a": 3, "b": 0, "c": 1, "d": 1, "e": 0}
    assert calls["c"].edits[0].path == "/x/new.py"
    assert json.loads(calls["a"].input or "") == PATCH
    assert calls["e"].status == "denied"


def test_output_without_call_and_twice(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("go"),
        output("lost", "text"),
        called("a"),
        output("a", "1"),
        output("a", "2"),
    )
    calls = [(c.name, c.output) for m in conversation.messages for c in m.tool_calls]
    assert calls == [("unknown", "text"), ("shell_command", "1")]


# --------------------------------------------------------------------------- tokens


def test_totals_are_counted_by_their_change(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        event("token_count", info=None),
        typed("one"),
        answered("a"),
        counted(usage(100, 10, cached=40)),
        counted(usage(100, 10, cached=40)),
        answered("b"),
        counted(usage(300, 30, cached=140), usage(200, 20, cached=100)),
        typed("two"),
        counted(usage(300, 30, cached=140), usage(200, 20, cached=100)),
        answered("c"),
        counted(usage(50, 5), usage(50, 5)),
    )
    spent = {m.content: m.tokens for m in conversation.messages if m.tokens}
    assert {k: (t.input, t.output, t.cache_read) for k, t in spent.items()} == {
        "a": (60, 10, 40),
        "b": (100, 20, 100),
        "c": (50, 5, 0),
    }


def test_totals_that_restart_with_each_session(tmp_path: Path) -> None:
    # 0.47: the events come before the items, and a resumed thread counts from zero
    def turn(text: str) -> list[dict[str, Any]]:
        return [
            *typed(text),
            event("token_count", info=None),
            event("agent_message", message="ok " + text),
            counted(usage(90, 5)),
            said("assistant", "ok " + text),
        ]

    conversation = read(tmp_path, turn("1"), turn("2"))
    assert [m.tokens.input for m in conversation.messages if m.tokens] == [90, 90]
    assert message(conversation, "ok 2").tokens is not None


def test_exact_records_come_first(tmp_path: Path) -> None:
    def record(sent: int, response: str) -> dict[str, Any]:
        numbers = {**usage(sent, 1), "cache_write_input_tokens": 2}
        return {
            "type": "token_usage_record",
            "payload": {"usage": numbers, "response_id": response},
        }

    conversation = read(
        tmp_path,
        typed("old turn"),
        answered("a"),
        counted(usage(10, 1)),
        event("task_started"),
        typed("new turn"),
        answered("b"),
        record(20, "r1"),
        record(20, "r1"),
        counted(usage(30, 2), usage(20, 1)),
        answered("c"),
        record(30, "r2"),
    )
    spent = {m.content: m.tokens for m in conversation.messages if m.tokens}
    assert {k: (t.input, t.cache_write) for k, t in spent.items()} == {
        "a": (10, None),
        "b": (18, 2),
        "c": (28, 2),
    }


def test_no_tokens_are_lost(tmp_path: Path) -> None:
    conversation = read(
        tmp_path, typed("go"), answered("a"), counted(usage(5, 1)), counted(usage(9, 2))
    )
    assert sum(m.tokens.input or 0 for m in conversation.messages if m.tokens) == 9
    conversation = read(tmp_path, typed("go"), counted(usage(5, 1)))
    assert sum(m.tokens.input or 0 for m in conversation.messages if m.tokens) == 5


# --------------------------------------------------------------------------- ancestry


def forked(pause: float, turn: str | None = None) -> bytes:
    """A fork that copied its parent's records within an instant, then went on."""
    clock = Clock()
    copied = flat(
        meta(OTHER, timestamp="2026-04-01T00:00:00.000Z"),
        event("task_started", turn_id=EARLIER_TURN) if turn else [],
        typed("old"),
        answered("old answer"),
        counted(usage(100, 10)),
    )
    own = flat(
        event("task_started", turn_id=turn) if turn else [],
        typed("new"),
        answered("new answer"),
        counted(usage(150, 15), usage(50, 5)),
    )
    now = clock()
    rows = [{"timestamp": now, **meta(forked_from_id=OTHER)}]
    rows += [{"timestamp": now, **record} for record in copied]
    for record in own:
        rows.append({"timestamp": clock(pause), **record})
        pause = 0.1
    return b"\n".join(json.dumps(row).encode() for row in rows)


@pytest.mark.parametrize(("pause", "turn"), [(30.0, None), (0.1, OWN_TURN)])
def test_fork_that_copies_its_parent(tmp_path: Path, pause: float, turn: str | None) -> None:
    rollout(tmp_path, forked(pause, turn))
    conversation = parse_home(tmp_path)[THREAD]
    assert (conversation.kind, conversation.parent_session_id) == ("fork", OTHER)
    assert [(m.content, m.inherited) for m in conversation.messages] == [
        ("old", True),
        ("old answer", True),
        ("new", False),
        ("new answer", False),
    ]
    spent = [(m.content, m.tokens.input) for m in conversation.messages if m.tokens]
    assert spent == [("new answer", 50)]
    assert conversation.started_at == "2026-05-01T10:00:00.000Z"


def test_fork_whose_copies_keep_their_times(tmp_path: Path) -> None:
    old, new = "2026-04-01T00:00:{:02d}.000Z", "2026-05-01T10:00:{:02d}.000Z"
    copied = flat(typed("old"), answered("old answer"))
    records = [{"timestamp": new.format(0), **meta(forked_from_id=OTHER)}]
    records += [{"timestamp": old.format(0), **meta(OTHER)}]
    records += [{"timestamp": old.format(i + 20), **r} for i, r in enumerate(copied)]
    records += [{"timestamp": new.format(i + 1), **r} for i, r in enumerate(typed("new"))]
    rollout(tmp_path, b"\n".join(json.dumps(r).encode() for r in records))
    conversation = parse_home(tmp_path)[THREAD]
    assert [m.inherited for m in conversation.messages] == [True, True, False]


def test_subagent_with_copied_context(tmp_path: Path) -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": OTHER, "depth": 1}}}
    conversation = read_records(
        tmp_path,
        meta(source=spawn, forked_from_id=OTHER, parent_thread_id=OTHER),
        meta(OTHER),
        event("task_started", turn_id=EARLIER_TURN),
        typed("the person's words"),
        event("agent_message", message="the parent's words"),
        event("task_started", turn_id=OWN_TURN),
        item(
            type="agent_message", author="/root", content=[{"type": "input_text", "text": "do it"}]
        ),
        item(
            type="agent_message",
            content=[{"type": "input_text", "text": "envelope"}, {"type": "encrypted_content"}],
        ),
        answered("done"),
    )
    assert (conversation.kind, conversation.parent_session_id) == ("subagent", OTHER)
    assert [(m.kind, m.content, m.inherited) for m in conversation.messages] == [
        ("prompt", "the person's words", True),
        ("reply", "the parent's words", True),
        ("task", "do it", False),
        ("notification", "envelope", False),
        ("reply", "done", False),
    ]


def read_records(tmp_path: Path, *parts: Any, ordinals: bool = False) -> ParsedConversation:
    rollout(tmp_path, lines(flat(*parts), ordinals=ordinals))
    return parse_home(tmp_path)[THREAD]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"source": {"subagent": "review"}, "parent_thread_id": OTHER}, "review"),
        ({"source": {"subagent": {"other": "guardian"}}, "session_id": OTHER}, "review"),
        ({"source": "cli", "thread_source": "guardian_review", "session_id": OTHER}, "review"),
        ({"thread_source": "subagent", "parent_thread_id": OTHER}, "subagent"),
    ],
)
def test_threads_of_other_agents(tmp_path: Path, fields: dict[str, Any], kind: str) -> None:
    conversation = read_records(tmp_path, meta(**fields), typed("task"), answered("done"))
    assert (conversation.kind, conversation.parent_session_id) == (kind, OTHER)
    assert rows(conversation)[0] == ("task", "task")


def test_fork_by_reference(tmp_path: Path) -> None:
    base = {"thread_id": OTHER, "end_ordinal_exclusive": 24}
    conversation = read_records(
        tmp_path,
        {**meta(forked_from_id=OTHER, history_base=base), "ordinal": 24},
        {**said("user", "mine", id="msg_1"), "ordinal": 27},
        {**said("assistant", "yours", id="msg_2"), "ordinal": 28},
        counted(usage(500, 50), usage(20, 2)),
    )
    assert (conversation.kind, conversation.parent_session_id) == ("fork", OTHER)
    assert conversation.inherits_until == 24
    assert [m.record for m in conversation.messages] == [27, 28]
    assert [m.tokens.input for m in conversation.messages if m.tokens] == [20]


def test_first_meta_is_the_identity(tmp_path: Path) -> None:
    conversation = read_records(
        tmp_path, meta(), meta(memory_mode="x"), typed("a"), answered("b"), meta(OTHER), typed("c")
    )
    assert conversation.session_id == THREAD
    assert conversation.kind == "main"
    assert not any(m.inherited for m in conversation.messages)


def test_spawned_agents_are_linked(tmp_path: Path) -> None:
    conversation = read(
        tmp_path,
        typed("go"),
        called("a", "spawn_agent", message="x"),
        output("a", json.dumps({"agent_id": OTHER})),
        called("b", "spawn_agent", message="x"),
        event("sub_agent_activity", event_id="b", agent_thread_id="t2", kind="started"),
        output("b", '{"task_name":"/root/x"}'),
        called("c", "spawn_agent", message="x"),
        completed("CollabAgentToolCall", id="c", tool="spawn_agent", receiver_thread_ids=["t3"]),
        said("user", "<subagent_notification>\n{}\n</subagent_notification>"),
    )
    calls = [c.subagent_session_id for m in conversation.messages for c in m.tool_calls]
    assert calls == [OTHER, "t2", "t3"]
    assert rows(conversation)[-1][0] == "notification"


def test_rewound_thread(tmp_path: Path) -> None:
    old = flat(meta(), typed("1"), answered("a1"), typed("2"), answered("a2"))
    rollout(tmp_path, lines(old, ordinals=True))
    base = {"thread_id": THREAD, "end_ordinal_exclusive": 5}
    new = [{**meta(history_base=base), "ordinal": 5}]
    new += [{**r, "ordinal": 6 + i} for i, r in enumerate(flat(typed("2b"), answered("a2b")))]
    rollout(tmp_path, lines(new), time="2026-05-01T13-00-00", revision=OTHER)
    found = metas(tmp_path)
    assert len(found) == 1
    assert len(found[0].files) == 2
    conversation = parse_home(tmp_path)[THREAD]
    assert conversation.kind == "main"
    assert [(m.content, m.state) for m in conversation.messages] == [
        ("1", "active"),
        ("a1", "active"),
        ("2", "abandoned"),
        ("a2", "abandoned"),
        ("2b", "active"),
        ("a2b", "active"),
    ]
    # the thread index says that the user went back to the old file
    database(
        tmp_path, [(THREAD, f"/x/rollout-2026-05-01T12-00-00-{THREAD}.jsonl", "t", "t", None, 0)]
    )
    assert metas(tmp_path)[0].marker != found[0].marker
    states = {m.content: m.state for m in parse_home(tmp_path)[THREAD].messages}
    assert states["2"] == "active"
    assert states["2b"] == "abandoned"


def test_rewound_thread_that_copies(tmp_path: Path) -> None:
    rollout(tmp_path, lines(flat(meta(), typed("1"), answered("a1"), typed("2"), answered("a2"))))
    rollout(
        tmp_path,
        lines(flat(meta(), typed("1"), answered("a1"), typed("2b"))),
        time="2026-05-01T13-00-00",
        revision="abc",
    )
    conversation = parse_home(tmp_path)[THREAD]
    assert [(m.content, m.state) for m in conversation.messages] == [
        ("1", "active"),
        ("a1", "active"),
        ("2", "abandoned"),
        ("a2", "abandoned"),
        ("2b", "active"),
    ]


# --------------------------------------------------------------------------- files and index


def database(
    home: Path, threads: list[tuple[Any, ...]], name: str = "state_5.sqlite", columns: str = ""
) -> Path:
    path = home / ".codex" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    columns = columns or "id, rollout_path, title, first_user_message, name, archived"
    connection.execute(f"create table threads({columns})")
    marks = ", ".join("?" * len(columns.split(",")))
    connection.executemany(f"insert into threads values({marks})", threads)
    connection.commit()
    connection.close()
    return path


def listing(home: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(home.rglob("*"))}


SMALL = lines(flat(meta(), typed("Why?"), answered("So.")))


def test_titles(tmp_path: Path) -> None:
    ids = [f"01a22e58-20b0-7571-a007-00000000000{n}" for n in range(5)]
    for thread in ids:
        rollout(tmp_path, lines(flat(meta(thread), typed("Why?"), answered("So."))), thread)
    database(
        tmp_path,
        [
            (ids[0], None, "Why?", "Why?", "Given name", 0),
            (ids[1], None, "A real title", "Why?", None, 0),
            (ids[2], None, "Why?", "Why?", None, 1),
            (ids[3], 7, "Wh…", "Why?", "", 0),
            (None, None, None, None, None, None),
        ],
    )
    index = [
        {"id": ids[0], "thread_name": "weaker"},
        {"id": ids[2], "thread_name": "first"},
        {"id": ids[2], "thread_name": "last"},
        {"id": 3, "thread_name": None},
    ]
    (tmp_path / ".codex" / "session_index.jsonl").write_text("\n".join(map(json.dumps, index)))
    before = listing(tmp_path)
    found = parse_home(tmp_path)
    assert listing(tmp_path) == before
    assert [found[thread].title for thread in ids] == [
        "Given name",
        "A real title",
        "last",
        None,
        None,
    ]
    assert found[ids[2]].archived


def test_title_from_the_rollout(tmp_path: Path) -> None:
    conversation = read(
        tmp_path, typed("Why?"), event("thread_name_updated", thread_name=" Named ")
    )
    assert (conversation.title, conversation.title_origin) == ("Named", "tool")


def test_live_thread_index_is_not_touched(tmp_path: Path) -> None:
    rollout(tmp_path, SMALL)
    path = database(tmp_path, [])
    writer = sqlite3.connect(path)
    writer.execute("pragma journal_mode=wal")
    writer.execute("insert into threads(id, name) values(?, 'in the log only')", (THREAD,))
    writer.commit()
    before = listing(tmp_path)
    assert parse_home(tmp_path)[THREAD].title == "in the log only"
    assert listing(tmp_path) == before
    writer.close()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 500])
def test_broken_thread_index(tmp_path: Path, content: bytes) -> None:
    rollout(tmp_path, SMALL)
    (tmp_path / ".codex" / "state_5.sqlite").write_bytes(content)
    found = list(Codex().scan(Environment.for_home(tmp_path)))
    assert sum(isinstance(one, ConversationMeta) for one in found) == 1
    assert all(one.root == "" for one in found if isinstance(one, ScanProblem))


def test_other_columns(tmp_path: Path) -> None:
    rollout(tmp_path, SMALL)
    database(tmp_path, [(THREAD, "T")], columns="id, title")
    assert parse_home(tmp_path)[THREAD].title == "T"
    database(tmp_path, [(THREAD, "newer")], "state_12.sqlite", columns="id, name")
    assert parse_home(tmp_path)[THREAD].title == "newer"
    database(tmp_path, [("T",)], "state_13.sqlite", columns="title")
    assert parse_home(tmp_path)[THREAD].title is None


def test_compressed_and_archived(tmp_path: Path) -> None:
    packed = zstandard.ZstdCompressor().compress(SMALL)
    rollout(tmp_path, packed, suffix=".jsonl.zst")
    assert rows(parse_home(tmp_path)[THREAD]) == [("prompt", "Why?"), ("reply", "So.")]
    plain = rollout(tmp_path, SMALL)
    assert [file.path for file in metas(tmp_path)[0].files] == [str(plain)]
    rollout(tmp_path, SMALL, OTHER, folder="archived_sessions")
    by_id = {m.session_id: Codex().parse(m).conversations[0] for m in metas(tmp_path)}
    assert not by_id[THREAD].archived
    assert by_id[THREAD if OTHER not in by_id else OTHER].archived
    rollout(tmp_path, SMALL, folder="archived_sessions")
    assert [file.path for file in metas(tmp_path)[0].files] == [str(plain)]


def test_damaged_compressed_file(tmp_path: Path) -> None:
    packed = bytearray(zstandard.ZstdCompressor().compress(SMALL * 50))
    rollout(tmp_path, bytes(packed[: len(packed) // 2]), suffix=".jsonl.zst")
    parsed = Codex().parse(metas(tmp_path)[0])
    check(parsed)
    assert parsed.files[0].message
    packed[0] ^= 0xFF
    rollout(tmp_path, bytes(packed), suffix=".jsonl.zst")
    parsed = Codex().parse(metas(tmp_path)[0])
    check(parsed)
    assert parsed.files[0].malformed == 1


def test_where_to_look(tmp_path: Path) -> None:
    rollout(tmp_path / "elsewhere", SMALL)
    home = tmp_path / "elsewhere" / ".codex"
    env = Environment(tmp_path, variables={"CODEX_HOME": str(home)})
    assert [m.session_id for m in Codex().scan(env) if isinstance(m, ConversationMeta)] == [THREAD]
    for root in (home, home / "sessions", home / "sessions" / "2026"):
        found = metas(tmp_path, roots={"codex": (root,)})
        assert [m.session_id for m in found] == [THREAD]
    both = Environment(tmp_path, variables={"CODEX_HOME": str(home)}, roots={"codex": (home,)})
    assert len(list(Codex().scan(both))) == 1
    assert list(Codex().scan(Environment.for_home(tmp_path / "nobody"))) == []


def test_another_tool_with_the_same_files(tmp_path: Path) -> None:
    rollout(tmp_path, SMALL)
    (tmp_path / ".codex").rename(tmp_path / "cli")
    source = RolloutSource("traex", "TRAE CLI", lambda env: [env.home / "cli"])
    assert isinstance(source, Adapter)
    one = next(iter(source.scan(Environment.for_home(tmp_path))))
    assert isinstance(one, ConversationMeta)
    assert (one.source, source.parse(one).conversations[0].source) == ("traex", "traex")


def test_detect(tmp_path: Path) -> None:
    assert Codex().detect(Environment.for_home(tmp_path)) is None
    rollout(tmp_path, SMALL)
    info = Codex().detect(Environment.for_home(tmp_path))
    assert info is not None
    assert (info.source, info.conversations, info.roots) == ("codex", 1, [tmp_path / ".codex"])


def test_registration() -> None:
    adapters: list[Adapter] = []
    register_adapters(adapters.append)
    assert [(a.name, a.display_name, a.parser_version) for a in adapters] == [
        ("codex", "Codex CLI", 1)
    ]


def test_prompts_of_lost_threads(tmp_path: Path) -> None:
    rollout(tmp_path, SMALL)
    prompts = [
        {"session_id": THREAD, "ts": 1_777_000_000, "text": "has a rollout"},
        {"session_id": OTHER, "ts": 1_777_000_001, "text": "lost"},
        {"session_id": OTHER, "ts": "x", "text": "!ls"},
        {"session_id": OTHER, "ts": 1, "text": ""},
        {"session_id": None},
        [],
    ]
    history = tmp_path / ".codex" / "history.jsonl"
    history.write_text("\n".join(map(json.dumps, prompts)) + '\n{"torn')
    conversation = parse_home(tmp_path)[OTHER]
    assert conversation.kind == "prompt-history"
    assert [(m.kind, m.content, m.timestamp) for m in conversation.messages] == [
        ("prompt", "lost", "2026-04-24T03:06:41.000Z"),
        ("shell", "!ls", None),
    ]


def test_a_renamed_thread_changes_its_marker(tmp_path: Path) -> None:
    rollout(tmp_path, SMALL)
    first = metas(tmp_path)[0]
    assert metas(tmp_path)[0] == first
    index = tmp_path / ".codex" / "session_index.jsonl"
    index.write_text(json.dumps({"id": THREAD, "thread_name": "new"}))
    assert metas(tmp_path)[0].marker != first.marker
    assert metas(tmp_path)[0].files == first.files


# --------------------------------------------------------------------------- bad input


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    good = SMALL.split(b"\n")
    data = b"\n".join(
        [
            good[0],
            b"\0" * 400,
            b'{"timestamp":"2026-05-01T10:00:00.000Z","type":"event_msg","payl',
            good[1] + good[2],
            b"[1, 2]",
            b"17",
            good[3],
            b'{"type":"response_item","payload":"text"}',
            good[4][:30],
        ]
    )
    rollout(tmp_path, data)
    parsed = Codex().parse(metas(tmp_path)[0])
    check(parsed)
    assert [text for _, text in rows(parsed.conversations[0])] == ["Why?", "So."]
    file = parsed.files[0]
    assert (file.records, file.malformed, file.unknown) == (10, 5, 1)


def test_unknown_types_are_counted_with_a_sample(tmp_path: Path) -> None:
    rollout(
        tmp_path,
        lines(
            flat(
                meta(),
                event("future_event", x=1),
                completed("FutureItem", id="i"),
                item(type="future_item"),
                {"type": "future_record", "payload": {}},
                {"type": "world_state", "payload": {}},
                said("developer", "instructions"),
            )
        ),
    )
    file = Codex().parse(metas(tmp_path)[0]).files[0]
    assert [sample.type for sample in file.samples] == [
        "event_msg:future_event",
        "event_msg:item_completed:FutureItem",
        "response_item:future_item",
        "future_record",
    ]
    assert (file.records, file.kept, file.ignored, file.unknown) == (7, 1, 2, 4)


def test_nothing_of_a_conversation(tmp_path: Path) -> None:
    rollout(tmp_path, b'{"type":"thread.started"}\n{"type":"item.completed"}\n')
    parsed = Codex().parse(metas(tmp_path)[0])
    assert parsed.conversations == []
    assert parsed.files[0].message
    rollout(tmp_path, b"")
    assert Codex().parse(metas(tmp_path)[0]).conversations == []


def test_missing_file_raises_oserror(tmp_path: Path) -> None:
    path = rollout(tmp_path, SMALL)
    one = metas(tmp_path)[0]
    path.unlink()
    with pytest.raises(OSError):
        Codex().parse(one)


def test_unreadable_directory(tmp_path: Path, deny_listing: Callable[[Path], None]) -> None:
    deny_listing(rollout(tmp_path, SMALL).parent)
    found = list(Codex().scan(Environment.for_home(tmp_path)))
    assert [one.root for one in found if isinstance(one, ScanProblem)] == [str(tmp_path / ".codex")]


def test_deep_nesting_and_long_turns(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    text = json.dumps({"type": "odd", "payload": {"x": 1}}).replace("1", json.dumps(deep))
    many = lines(flat(meta(), *[said("user", f"p{n}") for n in range(5000)]))
    rollout(tmp_path, text.encode() + b"\n" + many)
    parsed = Codex().parse(metas(tmp_path)[0])
    check(parsed)
    assert len(parsed.conversations[0].messages) == 5000


def test_many_rollbacks_stay_linear(tmp_path: Path) -> None:
    number = 2000
    conversation = read(
        tmp_path,
        *[typed(f"p{n}") for n in range(number)],
        *[event("thread_rolled_back", num_turns=1) for _ in range(number)],
        *[[*typed(f"q{n}"), event("thread_rolled_back", num_turns=1)] for n in range(number)],
    )
    assert {m.state for m in conversation.messages} == {"rolled-back"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "id", "content", "output", "item", "message", "call_id", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("web_search_call", "agent_message", "user_message", "agent_reasoning", "token_count"),
        *("item_completed", "task_started", "task_complete", "turn_aborted", "thread_rolled_back"),
        *("exec_command_end", "patch_apply_end", "mcp_tool_call_end", "error", "UserMessage"),
        *(
            "AgentMessage",
            "CommandExecution",
            "FileChange",
            "Plan",
            "Reasoning",
            "tool_search_call",
        ),
        *(
            "tool_search_output",
            "image_generation_call",
            "local_shell_call",
            "HookPrompt",
            "unknown",
        ),
    ]
)
FIELDS = st.fixed_dictionaries(
    {"type": NAMES},
    optional={
        "role": st.sampled_from(["user", "assistant", "developer"]) | JSON,
        "content": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["input_text", "output_text", "input_image", "Text"])},
                optional={
                    "text": st.sampled_from(["a", "b", "<turn_aborted>\nx\n</turn_aborted>"])
                    | JSON,
                    "image_url": JSON,
                },
            ),
            max_size=2,
        )
        | JSON,
        "call_id": st.sampled_from(["c1", "c2"]) | JSON,
        "id": st.sampled_from(["m1", "item-1"]) | JSON,
        "output": JSON,
        "arguments": JSON,
        "input": JSON,
        "name": st.sampled_from(["exec", "spawn_agent", "view_image"]) | JSON,
        "message": st.sampled_from(["a", "b"]) | JSON,
        "text": st.sampled_from(["a", "b"]) | JSON,
        "summary": st.just([{"text": "a"}]) | JSON,
        "info": JSON | st.just({"total_token_usage": usage(9, 3), "last_token_usage": usage(4, 1)}),
        "usage": JSON,
        "num_turns": JSON,
        "changes": JSON,
        "images": JSON,
        "command": JSON,
        "source": JSON,
        "status": JSON,
        "result": JSON,
        "error": JSON,
        "duration": JSON,
        "internal_chat_message_metadata_passthrough": JSON,
        "history_base": JSON,
        "git": JSON,
        "receiver_thread_ids": JSON,
    },
)
RECORDS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["response_item", "event_msg", "session_meta", "turn_context", "compacted"]
        )
        | JSON
    },
    optional={
        "timestamp": JSON | st.just("2026-05-01T10:00:00.000Z"),
        "ordinal": JSON,
        "payload": FIELDS
        | FIELDS.flatmap(lambda f: st.just({"type": "item_completed", "item": f}))
        | JSON,
    },
)
LINES = st.one_of(
    RECORDS.map(lambda record: json.dumps(record).encode()),
    FIELDS.map(lambda record: json.dumps(record).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=30),
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LINES, max_size=25), st.booleans())
def test_anything_at_all(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], start: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / f"rollout-2026-05-01T12-00-00-{THREAD}.jsonl"
    head = [json.dumps(meta()).encode()] if start else []
    path.write_bytes(b"\n".join(head + data))

    def once() -> Any:
        reading = RolloutReader("codex", str(path), THREAD).read()
        check(Parsed([reading.conversation], [reading.records]))
        return list(reading.conversation.messages), reading.records

    assert once() == once()
