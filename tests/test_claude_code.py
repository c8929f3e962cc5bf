"""The Claude Code adapter, on sessions that these tests write themselves."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_crystal.adapters.claude_code import ClaudeCode, register_adapters
from datasette_crystal.adapters.claude_records import (
    command_text,
    is_noise,
    local_output,
    told_kind,
    wrapped,
)
from datasette_crystal.adapters.claude_tools import replacement
from datasette_crystal.model import (
    CALL_STATUSES,
    MESSAGE_KINDS,
    ROLES,
    STATES,
    ConversationMeta,
    Environment,
    FileEdit,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    ScanProblem,
)
from datasette_crystal.testing import check_adapter

SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
PIXEL = b"\x89PNG not really"


# ------------------------------------------------------------------------------- builders


class Session:
    """Writes the records of a session file, each hanging on the one before."""

    def __init__(self, session_id: str = SESSION, **common: Any) -> None:
        self.session_id = session_id
        self.common = {
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/d/shop",
            "sessionId": session_id,
            "version": "2.1.80",
            "gitBranch": "main",
            **common,
        }
        self.lines: list[Any] = []
        self.parent: str | None = None
        self.number = 0

    def raw(self, record: Any) -> None:
        self.lines.append(record)

    def chained(self, type_: str, **fields: Any) -> str:
        self.number += 1
        uuid = fields.pop("uuid", f"{self.session_id[:8]}-0000-4000-8000-{self.number:012d}")
        record = {
            "parentUuid": self.parent,
            **self.common,
            "type": type_,
            "uuid": uuid,
            "timestamp": f"2026-03-01T10:{self.number // 60:02d}:{self.number % 60:02d}.000Z",
            **fields,
        }
        self.lines.append({key: value for key, value in record.items() if value is not ...})
        self.parent = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        return self.chained("user", message={"role": "user", "content": content}, **fields)

    def assistant(
        self,
        message_id: str,
        *blocks: dict[str, Any],
        model: str = "claude-x",
        usage: dict[str, Any] | None = None,
        stop: str | None = None,
        **fields: Any,
    ) -> str:
        message = {
            "id": message_id,
            "role": "assistant",
            "model": model,
            "content": list(blocks),
            "stop_reason": stop,
        }
        if usage is not None:
            message["usage"] = usage
        return self.chained("assistant", message=message, **fields)

    def reply(self, message_id: str, text: str, **fields: Any) -> str:
        return self.assistant(message_id, says(text), **fields)

    def result(self, call_id: str, content: Any, *, error: bool = False, **fields: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        if error:
            block["is_error"] = True
        return self.user([block], **fields)

    def system(self, subtype: str, **fields: Any) -> str:
        return self.chained("system", subtype=subtype, **fields)

    def attachment(self, type_: str, *, record: dict[str, Any] | None = None, **fields: Any) -> str:
        return self.chained("attachment", attachment={"type": type_, **fields}, **(record or {}))

    def queue(self, operation: str, **fields: Any) -> None:
        self.raw(
            {
                "type": "queue-operation",
                "operation": operation,
                "timestamp": "2026-03-01T10:00:00.000Z",
                "sessionId": self.session_id,
                **fields,
            }
        )

    def write(self, home: Path, name: str | None = None, project: str = "-home-d-shop") -> Path:
        path = home / ".claude" / "projects" / project / (name or f"{self.session_id}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(to_lines(self.lines))
        return path


def to_lines(records: Iterable[Any]) -> bytes:
    parts = []
    for record in records:
        if not isinstance(record, bytes):
            record = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
        parts.append(record + b"\n")
    return b"".join(parts)


def says(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def thinks(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": "x"}


def uses(call_id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def usage(
    given: int, output: int, read: int = 0, write: int = 0, reasoning: int | None = None
) -> dict[str, Any]:
    value: dict[str, Any] = {
        "input_tokens": given,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }
    if reasoning is not None:
        value["output_tokens_details"] = {"thinking_tokens": reasoning}
    return value


def picture(data: bytes = PIXEL) -> dict[str, Any]:
    return {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(data).decode(),
        },
    }


def metas(home: Path, **environment: Any) -> dict[str, ConversationMeta]:
    env = Environment(home, "linux", **environment)
    found = {}
    for meta in ClaudeCode().scan(env):
        assert isinstance(meta, ConversationMeta), meta
        assert meta.session_id not in found
        found[meta.session_id] = meta
    return found


def check(parsed: Parsed) -> Parsed:
    """What must hold of any result."""
    for file in parsed.files:
        assert file.records == file.kept + file.ignored + file.unknown + file.malformed, file
        assert min(file.kept, file.ignored, file.unknown, file.malformed) >= 0
    for conversation in parsed.conversations:
        uids = [message.uid for message in conversation.messages]
        assert len(uids) == len(set(uids)), uids
        assert len(conversation.messages) > 0
        for message in conversation.messages:
            assert message.kind in MESSAGE_KINDS
            assert message.role in ROLES
            assert message.state in STATES
            for call in message.tool_calls:
                assert call.status in CALL_STATUSES
                assert call.input is None or json.loads(call.input) is not ...
    return parsed


def parse_all(home: Path) -> dict[str, ParsedConversation]:
    found: dict[str, ParsedConversation] = {}
    for meta in metas(home).values():
        for conversation in check(ClaudeCode().parse(meta)).conversations:
            found[conversation.session_id] = conversation
    return found


def parse(home: Path, session: Session) -> ParsedConversation:
    session.write(home)
    return parse_all(home)[session.session_id]


def parsed_file(home: Path, session: Session) -> Parsed:
    session.write(home)
    return check(ClaudeCode().parse(metas(home)[session.session_id]))


def rows(conversation: ParsedConversation) -> list[tuple[str, str]]:
    return [(message.kind, message.content) for message in conversation.messages]


def calls(conversation: ParsedConversation) -> list[ParsedToolCall]:
    return [call for message in conversation.messages for call in message.tool_calls]


def only(conversation: ParsedConversation, kind: str) -> ParsedMessage:
    [message] = [each for each in conversation.messages if each.kind == kind]
    return message


# ------------------------------------------------------------------------------- discovery


def test_registers_itself() -> None:
    found: list[Any] = []
    register_adapters(found.append)
    assert [(each.name, each.display_name) for each in found] == [("claude-code", "Claude Code")]


def test_no_trace(tmp_path: Path) -> None:
    assert ClaudeCode().detect(Environment.for_home(tmp_path)) is None
    assert metas(tmp_path) == {}


def test_finds_sessions_and_subagents_of_every_age(tmp_path: Path) -> None:
    session = Session()
    session.user("Hello")
    session.write(tmp_path)
    agent = Session(SESSION, isSidechain=True, agentId="0a1b2c3d")
    agent.user("Do it")
    agent.write(tmp_path, "agent-0a1b2c3d.jsonl")
    agent.write(tmp_path, f"{SESSION}/subagents/agent-aname-0123456789abcdef.jsonl")
    agent.write(tmp_path, f"{SESSION}/subagents/workflows/w1/agent-77.jsonl")
    (tmp_path / ".claude/projects/-home-d-shop" / SESSION / "tool-results").mkdir()
    (tmp_path / ".claude/projects/-home-d-shop" / SESSION / "tool-results/x.jsonl").write_text("{}")
    found = metas(tmp_path)
    assert set(found) == {SESSION, "agent-0a1b2c3d", "agent-aname-0123456789abcdef", "agent-77"}
    conversations = parse_all(tmp_path)
    assert conversations["agent-0a1b2c3d"].parent_session_id == SESSION
    assert conversations["agent-77"].parent_session_id == SESSION
    assert conversations["agent-77"].kind == "subagent"
    assert rows(conversations["agent-77"]) == [("task", "Do it")]


@pytest.mark.parametrize("root", ["data", "data/projects", "."])
def test_directory_named_by_the_user(tmp_path: Path, root: str) -> None:
    session = Session()
    session.user("Hello")
    home = tmp_path / "copied"
    session.write(home)
    if root != ".":
        (home / ".claude").rename(home / "data")
    found = metas(tmp_path, roots={"claude-code": (home / root,)})
    assert set(found) == {SESSION}


def test_config_dir_variable_replaces_the_usual_place(tmp_path: Path) -> None:
    for place in ("one", "two", ".claude"):
        session = Session(f"{place}-session")
        session.user("Hello")
        session.write(tmp_path)
        if place != ".claude":
            (tmp_path / ".claude").rename(tmp_path / place)
    variables = {"CLAUDE_CONFIG_DIR": f"~/one,{tmp_path / 'two'}"}
    assert set(metas(tmp_path, variables=variables)) == {"one-session", "two-session"}
    assert set(metas(tmp_path)) == {".claude-session"}


def test_config_directory_of_1_0(tmp_path: Path) -> None:
    session = Session()
    session.user("Hello")
    session.write(tmp_path)
    (tmp_path / ".config").mkdir()
    (tmp_path / ".claude").rename(tmp_path / ".config/claude")
    assert set(metas(tmp_path)) == {SESSION}


def test_detect_counts_and_warns(tmp_path: Path) -> None:
    session = Session()
    session.user("Hello")
    session.write(tmp_path)
    info = ClaudeCode().detect(Environment.for_home(tmp_path))
    assert info is not None
    assert info.conversations == 1 and info.newest and info.oldest
    assert "30 days" in info.warnings[0]
    settings_file = tmp_path / ".claude/settings.json"
    settings_file.write_text('{"cleanupPeriodDays": 7, "env": {"SECRET": "x"}}')
    info = ClaudeCode().detect(Environment.for_home(tmp_path))
    assert info is not None and "7 days" in info.warnings[0] and "SECRET" not in info.warnings[0]
    settings_file.write_text('{"cleanupPeriodDays": 99999}')
    info = ClaudeCode().detect(Environment.for_home(tmp_path))
    assert info is not None and info.warnings == []


def test_unreadable_directory_is_a_problem(
    tmp_path: Path, deny_listing: Callable[[Path], None]
) -> None:
    session = Session()
    session.user("Hello")
    deny_listing(session.write(tmp_path).parent)
    [problem] = ClaudeCode().scan(Environment.for_home(tmp_path))
    assert isinstance(problem, ScanProblem) and problem.root == str(tmp_path / ".claude")


def test_copies_of_one_session_are_one_conversation(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    session.reply("m1", "First")
    session.write(tmp_path, project="-old-place")
    session.user("Two")
    session.write(tmp_path, project="-new-place")
    found = metas(tmp_path)[SESSION]
    assert [Path(file.path).parent.name for file in found.files] == ["-new-place", "-old-place"]
    parsed = check(ClaudeCode().parse(found))
    assert rows(parsed.conversations[0]) == [
        ("prompt", "One"),
        ("reply", "First"),
        ("prompt", "Two"),
    ]
    assert [(file.kept, file.ignored) for file in parsed.files] == [(3, 0), (0, 2)]


def test_records_of_a_copy_without_ids_keep_apart(tmp_path: Path) -> None:
    session = Session()
    session.raw({"type": "user", "message": {"content": "No id"}})
    session.raw({"type": "assistant", "message": {"content": "Neither"}})
    session.write(tmp_path, project="-a")
    session.write(tmp_path, project="-b")
    check(ClaudeCode().parse(metas(tmp_path)[SESSION]))


def test_vanished_file(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    path = session.write(tmp_path)
    meta = metas(tmp_path)[SESSION]
    path.unlink()
    with pytest.raises(OSError):
        ClaudeCode().parse(meta)


# ------------------------------------------------------------------------------- answers


def test_lines_of_one_message_are_its_steps(tmp_path: Path) -> None:
    session = Session()
    session.user("Look")
    first = usage(5, 1, 10, 20)
    session.assistant("m1", thinks("Hm"), usage=first)
    session.assistant("m1", says("I look."), usage=first)
    session.assistant("m1", uses("t1", command="ls"), usage=first)
    session.assistant("m1", uses("t2", command="pwd"), usage=first)
    session.result("t1", "a.py")
    session.assistant("m1", says("One more."), usage=usage(5, 9, 10, 20, 3))
    session.result("t2", "/home")
    session.reply("m2", "Done.", usage=usage(1, 2))
    conversation = parse(tmp_path, session)
    assert [(m.uid, m.kind, m.thinking, m.content) for m in conversation.messages][1:] == [
        ("m1", "reply", "Hm", "I look."),
        ("m1#2", "reply", None, "One more."),
        ("m2", "reply", None, "Done."),
    ]
    _, step, last, other = conversation.messages
    assert [(call.name, call.output, call.status) for call in step.tool_calls] == [
        ("Bash", "a.py", "ok"),
        ("Bash", "/home", "ok"),
    ]
    assert step.tokens is None, "usage stands once, on the last step"
    assert last.tokens is not None and other.tokens is not None
    assert (last.tokens.input, last.tokens.output, last.tokens.reasoning) == (5, 9, 3)
    assert (last.tokens.cache_read, last.tokens.cache_write) == (10, 20)
    assert all(message.shared_uid for message in conversation.messages)
    assert conversation.model == "claude-x"


def test_thinking_after_text_begins_a_step(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", thinks("a"), says("b"), thinks("c"), says("d"), says("e"))
    conversation = parse(tmp_path, session)
    assert [(m.thinking, m.content) for m in conversation.messages] == [("a", "b"), ("c", "d\n\ne")]


def test_calls_before_any_text_and_empty_thinking(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", thinks(""), usage=usage(1, 1))
    session.assistant("m1", uses("t1"), usage=usage(1, 7))
    conversation = parse(tmp_path, session)
    [message] = conversation.messages
    assert (message.content, message.thinking) == ("", None)
    assert message.tokens is not None and message.tokens.output == 7
    assert [call.status for call in message.tool_calls] == ["pending"]


def test_calls_that_went_on_without_result_were_interrupted(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", uses("t1"))
    session.user("Never mind")
    assert [call.status for call in calls(parse(tmp_path, session))] == ["interrupted"]


def test_repeated_lines_count_once(tmp_path: Path) -> None:
    session = Session()
    session.user("Hello")
    session.reply("m1", "Hi")
    session.lines += session.lines[:]
    parsed = parsed_file(tmp_path, session)
    assert rows(parsed.conversations[0]) == [("prompt", "Hello"), ("reply", "Hi")]
    assert (parsed.files[0].kept, parsed.files[0].ignored) == (2, 2)


def test_far_apart_lines_of_one_message_keep_tokens_once(tmp_path: Path) -> None:
    session = Session()
    session.reply("m1", "Begin", usage=usage(1, 5))
    for number in range(150):
        session.user(f"Prompt {number}")
    session.reply("m1", "End", usage=usage(1, 6))
    conversation = parse(tmp_path, session)
    told = [m for m in conversation.messages if m.kind == "reply"]
    assert [m.uid for m in told] == ["m1", "m1#2"]
    assert [m.tokens.output if m.tokens else None for m in told] == [5, None]


def test_other_providers_and_missing_ids(tmp_path: Path) -> None:
    session = Session()
    session.chained("assistant", message={"model": "glm-5.1", "content": "Plain text"})
    session.chained("assistant", message={"model": "glm-5.1", "content": [says("b")]})
    conversation = parse(tmp_path, session)
    assert rows(conversation) == [("reply", "Plain text"), ("reply", "b")]
    assert conversation.model == "glm-5.1"


def test_server_tools(tmp_path: Path) -> None:
    session = Session()
    session.assistant(
        "m1",
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": [{"type": "web_search_result", "title": "A page", "url": "https://e.org"}],
        },
        says("Found."),
    )
    conversation = parse(tmp_path, session)
    [call] = calls(conversation)
    assert (call.name, call.output, call.status) == ("web_search", "A page", "ok")
    assert [m.content for m in conversation.messages] == ["", "Found."]


def test_what_the_client_says_in_the_models_place(tmp_path: Path) -> None:
    session = Session()
    session.user("Hello")
    session.reply("e1", "API Error: 529", model="<synthetic>", isApiErrorMessage=True)
    session.reply("e2", "No response requested.", model="<synthetic>", isApiErrorMessage=False)
    session.reply("e3", "API Error: old", model="<synthetic>")
    conversation = parse(tmp_path, session)
    assert [(m.role, m.kind) for m in conversation.messages] == [
        ("user", "prompt"),
        ("system", "error"),
        ("system", "notification"),
        ("system", "error"),
    ]
    assert conversation.model is None


def test_cut_off_answers(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    session.reply("m1", "It beg")
    session.user([says("[Request interrupted by user]")])
    session.user("Two")
    session.reply("m2", "Whole", stop="end_turn")
    session.user("[Request interrupted by user]")
    session.reply("m3", "Aborted", isAbortedMidStream=True)
    conversation = parse(tmp_path, session)
    assert [m.kind for m in conversation.messages] == [
        "prompt",
        "partial",
        "interruption",
        "prompt",
        "reply",
        "interruption",
        "partial",
    ]


# ------------------------------------------------------------------------------- tool results


def finished(home: Path, block: dict[str, Any], content: Any, **fields: Any) -> ParsedToolCall:
    session = Session()
    session.assistant("m1", block)
    session.result(block["id"], content, **fields)
    [call] = calls(parse(home, session))
    return call


def test_shell_command(tmp_path: Path) -> None:
    shell = {"stdout": "a", "stderr": "", "interrupted": False}
    call = finished(tmp_path, uses("t", command="ls"), "a", toolUseResult=shell)
    assert json.loads(call.input or "") == {"command": "ls"}
    assert (call.status, call.exit_code, call.output) == ("ok", 0, "a")
    assert call.started_at == "2026-03-01T10:00:01.000Z" and call.duration_ms == 1000


def test_shell_command_that_fails(tmp_path: Path) -> None:
    call = finished(
        tmp_path, uses("t"), "Exit code 137\nKilled", error=True, toolUseResult="Error: Exit code"
    )
    assert (call.status, call.exit_code) == ("error", 137)


@pytest.mark.parametrize(
    ("content", "fields", "status"),
    [
        ("No.", {"error": True, "toolDenialKind": "user-rejected"}, "denied"),
        (
            "The user doesn't want to proceed with this tool use. The tool use was rejected.",
            {"error": True},
            "denied",
        ),
        ("Permission to use Bash with command rm has been denied.", {"error": True}, "denied"),
        ("", {"toolUseResult": {"stdout": "", "interrupted": True}}, "interrupted"),
        (
            "Exit code 137\n[Request interrupted by user for tool use]",
            {"error": True},
            "interrupted",
        ),
        ("<tool_use_error>No such tool</tool_use_error>", {"error": True}, "error"),
        ("It says: permission denied", {}, "ok"),
    ],
)
def test_status(tmp_path: Path, content: str, fields: dict[str, Any], status: str) -> None:
    assert finished(tmp_path, uses("t"), content, **fields).status == status


def test_edit_with_a_patch(tmp_path: Path) -> None:
    hunk = {
        "oldStart": 3,
        "oldLines": 2,
        "newStart": 3,
        "newLines": 3,
        "lines": [" a", "-b", "+c", "+d"],
    }
    call = finished(
        tmp_path,
        uses("t", "Edit", file_path="/x.py", old_string="b", new_string="c\nd"),
        "updated",
        toolUseResult={"filePath": "/x.py", "structuredPatch": [hunk], "originalFile": "a\nb"},
    )
    assert call.edits == [FileEdit("/x.py", "edit", 2, 1, "@@ -3,2 +3,3 @@\n a\n-b\n+c\n+d")]


def test_created_file(tmp_path: Path) -> None:
    call = finished(
        tmp_path,
        uses("t", "Write", file_path="/x.py", content="a\nb\n"),
        "File created",
        toolUseResult={
            "type": "create",
            "filePath": "/x.py",
            "content": "a\nb\n",
            "structuredPatch": [],
        },
    )
    assert call.edits == [FileEdit("/x.py", "create", 2, 0, "@@ -0,0 +1,2 @@\n+a\n+b")]


@pytest.mark.parametrize(
    ("block", "output", "edit"),
    [
        (
            uses("t", "Edit", file_path="/x", old_string="a\nb", new_string="a\nc"),
            "updated",
            FileEdit("/x", "edit", 1, 1, "@@ -2,1 +2,1 @@\n-b\n+c"),
        ),
        (
            uses("t", "Write", file_path="/x", content="a"),
            "File created successfully",
            FileEdit("/x", "create", 1, 0, "@@ -0,0 +1,1 @@\n+a"),
        ),
        (uses("t", "Write", file_path="/x", content="a"), "updated", FileEdit("/x", "edit")),
        (
            uses("t", "Edit", file_path="/x", old_string="a", new_string="b", replace_all=True),
            "All",
            FileEdit("/x", "edit", None, None, "@@ -1,1 +1,1 @@\n-a\n+b"),
        ),
        (
            uses(
                "t",
                "MultiEdit",
                file_path="/x",
                edits=[
                    {"old_string": "a", "new_string": "b"},
                    {"old_string": "c", "new_string": ""},
                ],
            ),
            "updated",
            FileEdit("/x", "edit", 1, 2, "@@ -1,1 +1,1 @@\n-a\n+b\n@@ -1,1 +0,0 @@\n-c"),
        ),
    ],
)
def test_edits_that_only_the_input_tells(
    tmp_path: Path, block: dict[str, Any], output: str, edit: FileEdit
) -> None:
    [found] = finished(tmp_path, block, output).edits
    if edit.diff and "+0,0" in edit.diff:
        assert (found.lines_added, found.lines_removed) == (edit.lines_added, edit.lines_removed)
    else:
        assert found == edit


def test_failed_edit_changed_nothing(tmp_path: Path) -> None:
    block = uses("t", "Edit", file_path="/x", old_string="a", new_string="b")
    assert finished(tmp_path, block, "not found", error=True).edits == []


def test_replacement_leaves_out_what_is_equal() -> None:
    assert replacement("a\n" * 5 + "b\n", "a\n" * 5 + "c\n") == ("@@ -6,1 +6,1 @@\n-b\n+c", 1, 1)
    assert replacement("same", "same") == (None, 0, 0)


def test_pictures_in_results(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", uses("t", "Read", file_path="/x.png"))
    session.result("t", [says("read:"), picture()], toolUseResult={"file": {"base64": "eA=="}})
    conversation = parse(tmp_path, session)
    [message] = conversation.messages
    assert message.tool_calls[0].output == "read:\n[image]"
    [attachment] = message.attachments
    assert (attachment.content, attachment.media_type) == (PIXEL, "image/png")


def test_answers_to_questions_are_a_persons_words(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", uses("t", "AskUserQuestion", questions=[{"question": "Which?"}]))
    session.result(
        "t",
        "User has answered",
        toolUseResult={"answers": {"Which?": "Red", "What else?": ["a", "b"], "No?": 3}},
    )
    conversation = parse(tmp_path, session)
    assert rows(conversation)[1:] == [("answer", "Red"), ("answer", "a, b")]
    assert conversation.messages[1].role == "user"


def outsourced(home: Path, path: str, **structured: Any) -> ParsedToolCall:
    session = Session()
    session.assistant("m1", uses("t"))
    content = f"<persisted-output>\nOutput too large. Full output saved to: {path}\nPreview"
    session.result("t", content, toolUseResult=structured or None)
    [call] = calls(parse(home, session))
    return call


def test_outsourced_output_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/projects/-home-d-shop" / SESSION / "tool-results"
    folder.mkdir(parents=True)
    (folder / "b.txt").write_text("all of it\n" * 100)
    call = outsourced(tmp_path, r"C:\other\machine\b.txt", persistedOutputPath=r"C:\x\b.txt")
    assert call.output == "all of it\n" * 100
    assert outsourced(tmp_path, "/elsewhere/tool-results/b.txt").output == "all of it\n" * 100


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "..", "/", "gone.txt", "link", "dir"])
def test_outsourced_output_never_leads_elsewhere(tmp_path: Path, path: str) -> None:
    folder = tmp_path / ".claude/projects/-home-d-shop" / SESSION / "tool-results"
    folder.mkdir(parents=True)
    (folder / "dir").mkdir()
    (folder.parent / "secret").write_text("secret")
    (folder / "link").symlink_to(folder.parent / "secret")
    call = outsourced(tmp_path, path, persistedOutputPath=path)
    assert (call.output or "").startswith("<persisted-output>")


def test_results_without_call_or_told_twice(tmp_path: Path) -> None:
    session = Session()
    session.result("elsewhere", "x")
    session.assistant("m1", uses("t"))
    session.result("t", "first")
    session.result("t", "second")
    parsed = parsed_file(tmp_path, session)
    assert [call.output for call in calls(parsed.conversations[0])] == ["first"]
    assert (parsed.files[0].kept, parsed.files[0].ignored) == (2, 2)


def test_structured_result_of_several_blocks_is_nobodys(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", uses("a"), uses("b"))
    session.user(
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": "b", "content": "2"},
        ],
        toolUseResult={"stdout": "1", "interrupted": True},
    )
    assert [call.status for call in calls(parse(tmp_path, session))] == ["ok", "ok"]


# ------------------------------------------------------------------------------- whose words


QUOTES = [
    "<system-reminder>disk full</system-reminder>",
    "<command-name>/deploy</command-name> and <local-command-stdout>x</local-command-stdout>",
    "[Request interrupted by user] is what the log says",
    "<bash-input>ls</bash-input> is shown, why?",
    "Caveat: <local-command-caveat>not a real one</local-command-caveat> tail",
    "This session is being continued from a previous conversation that ran out of context.",
    "Unknown slash command: x\nis what it prints",
    "  padded  \n\n",
    "null",
    "0",
    '<pasted_content id="1">long</pasted_content>',
]


@pytest.mark.parametrize("text", QUOTES)
def test_prompts_and_answers_quote_tags(tmp_path: Path, text: str) -> None:
    session = Session()
    session.user(text)
    session.reply("m1", text)
    assert rows(parse(tmp_path, session)) == [("prompt", text), ("reply", text)]


@pytest.mark.parametrize(
    "text",
    [
        "[Request interrupted by user]",
        "<bash-input>ls</bash-input>",
        "<command-name>/x</command-name><command-message>x</command-message>",
        "<task-notification>x</task-notification>",
    ],
)
def test_flag_says_that_it_was_typed(tmp_path: Path, text: str) -> None:
    session = Session()
    session.user(text, promptSource="typed", origin={"kind": "human"})
    assert rows(parse(tmp_path, session)) == [("prompt", text)]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"isMeta": True}, "context"),
        ({"isCompactSummary": True, "isVisibleInTranscriptOnly": True}, "summary"),
        ({"origin": {"kind": "task-notification"}, "promptSource": "system"}, "notification"),
        ({"promptSource": "system"}, "notification"),
        ({"promptSource": "sdk"}, "prompt"),
        ({}, "prompt"),
    ],
)
def test_kind_by_flags(tmp_path: Path, fields: dict[str, Any], kind: str) -> None:
    session = Session()
    session.user("Some text", **fields)
    assert rows(parse(tmp_path, session)) == [(kind, "Some text")]


@pytest.mark.parametrize(
    ("text", "kind", "content"),
    [
        (
            "<command-message>review is running…</command-message>\n"
            "<command-name>/review</command-name>\n<command-args>src --deep</command-args>",
            "command",
            "/review src --deep",
        ),
        (
            "<command-name>/clear</command-name>\n   <command-message>clear</command-message>\n"
            "   <command-args></command-args>",
            "command",
            "/clear",
        ),
        (
            "<command-name>/say</command-name><command-args>the tag </command-args> ends"
            "</command-args>",
            "command",
            "/say the tag </command-args> ends",
        ),
        ("<bash-input>git status</bash-input>", "shell", "!git status"),
        (
            "<bash-stdout>M a.py</bash-stdout><bash-stderr>warn</bash-stderr>",
            "local-output",
            "M a.py\nwarn",
        ),
        ("<bash-stdout></bash-stdout><bash-stderr>no</bash-stderr>", "local-output", "no"),
        (
            "<local-command-stdout>\x1b[2mCost < 5\x1b[22m</local-command-stdout>",
            "local-output",
            "Cost < 5",
        ),
        ("<local-command-stderr>bad</local-command-stderr>", "local-output", "bad"),
        ("[Request interrupted by user for tool use]", "interruption", ...),
        ("<task-notification>\n<status>done</status>\n</task-notification>", "notification", ...),
        ("Unknown slash command: deploy", "local-output", ...),
        (
            "Caveat: The messages below were generated by the user while running local commands."
            " DO NOT",
            "context",
            ...,
        ),
        ("<user-memory-input>tabs are bad</user-memory-input>", "command", "# tabs are bad"),
    ],
)
def test_kind_by_text_where_no_flag_says_it(text: str, kind: str, content: Any) -> None:
    assert told_kind(text) == (kind, text if content is ... else content)


def test_helpers_refuse_what_is_not_whole() -> None:
    assert wrapped("<a>x</a> more", "a") is None
    assert command_text("<command-name>/x</command-name> why?") is None
    assert command_text("<command-message>x</command-message>") is None
    assert local_output("<bash-stdout>x") is None


def test_expanded_command_is_context(tmp_path: Path) -> None:
    session = Session()
    session.user("<command-message>e</command-message><command-name>/e</command-name>")
    session.user([says("Please explain.")], isMeta=True)
    assert rows(parse(tmp_path, session)) == [("command", "/e"), ("context", "Please explain.")]


def test_commands_told_by_system_records(tmp_path: Path) -> None:
    session = Session()
    session.system(
        "local_command",
        content="<command-name>/rename</command-name><command-args>A b</command-args>",
    )
    session.system("local_command", content="<local-command-stdout>Renamed</local-command-stdout>")
    session.system("local_command", content="<local-command-stdout></local-command-stdout>")
    parsed = parsed_file(tmp_path, session)
    conversation = parsed.conversations[0]
    assert rows(conversation) == [("command", "/rename A b"), ("local-output", "Renamed")]
    assert [m.role for m in conversation.messages] == ["user", "system"]
    assert (parsed.files[0].kept, parsed.files[0].ignored) == (2, 1)


def test_notes_of_the_ide_stand_apart(tmp_path: Path) -> None:
    session = Session()
    note = "<ide_opened_file>The user opened /x</ide_opened_file>"
    uuid = session.user([says(note), says("Why?"), says("And how?")])
    session.user([says("<system-reminder>r</system-reminder>"), says("Go")])
    session.user([says(note)])
    conversation = parse(tmp_path, session)
    assert rows(conversation) == [
        ("context", note),
        ("prompt", "Why?\nAnd how?"),
        ("context", "<system-reminder>r</system-reminder>"),
        ("prompt", "Go"),
        ("prompt", note),
    ], "a text that is all there is, is what was typed"
    assert conversation.messages[1].uid == uuid


def test_pictures_and_documents_of_prompts(tmp_path: Path) -> None:
    session = Session()
    session.user([picture()])
    session.user([says("[Image #1] What is it?"), picture(b"two")])
    session.user(
        [
            {
                "type": "document",
                "title": "n.txt",
                "source": {"type": "text", "media_type": "text/plain", "data": "plain"},
            },
            says("Read"),
        ]
    )
    session.user([{"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}}])
    conversation = parse(tmp_path, session)
    assert [m.content for m in conversation.messages] == ["", "[Image #1] What is it?", "Read", ""]
    found = [m.attachments[0] for m in conversation.messages]
    assert [(a.kind, a.content) for a in found] == [
        ("image", PIXEL),
        ("image", b"two"),
        ("document", b"plain"),
        ("image", None),
    ]
    assert [a.name for a in found] == ["", "", "n.txt", "https://e.org/a.png"]


def test_mentioned_files_go_with_the_prompt(tmp_path: Path) -> None:
    session = Session()
    session.user("See @a.py")
    session.attachment(
        "file",
        filename="/p/a.py",
        displayPath="a.py",
        content={"type": "text", "file": {"filePath": "/p/a.py", "content": "x = 1"}},
    )
    session.attachment("directory", path="/p", content="a.py\nb.py")
    [message] = parse(tmp_path, session).messages
    assert [(a.kind, a.name, a.content) for a in message.attachments] == [
        ("file", "a.py", b"x = 1"),
        ("directory", "/p", b"a.py\nb.py"),
    ]


def test_hooks_and_errors_of_the_harness(tmp_path: Path) -> None:
    session = Session()
    session.attachment("hook_success", content="", stdout="{}")
    session.attachment("hook_additional_context", content=["one", "two"])
    session.attachment("hook_blocking_error", blockingError={"blockingError": "stop"})
    session.system("api_error", error={"formatted": "529 Overloaded", "message": "long"})
    session.system("stop_hook_summary", hookErrors=[], preventedContinuation=False)
    session.system("stop_hook_summary", hookErrors=["failed"])
    session.system("informational", content="Switched")
    session.system("turn_duration", durationMs=5)
    session.user("Stop hook feedback: go on", isMeta=True)
    parsed = parsed_file(tmp_path, session)
    assert rows(parsed.conversations[0]) == [
        ("hook", "one\ntwo"),
        ("hook", "stop"),
        ("error", "529 Overloaded"),
        ("hook", "failed"),
        ("notification", "Switched"),
        ("hook", "Stop hook feedback: go on"),
    ]
    assert parsed.files[0].ignored == 3


# ------------------------------------------------------------------------------- the queue


def test_queued_prompts(tmp_path: Path) -> None:
    session = Session()
    session.user("Sleep")
    session.reply("m1", "Working.")
    session.queue("enqueue", content="Typed meanwhile")
    session.queue("remove")
    session.attachment("queued_command", prompt="Typed meanwhile", commandMode="prompt")
    session.attachment(
        "queued_command", prompt=[says("with"), says("picture"), picture()], commandMode="prompt"
    )
    note = "<task-notification>\ndone\n</task-notification>"
    session.attachment("queued_command", prompt=note, commandMode="task-notification")
    session.attachment("queued_command", prompt="ls", commandMode="bash")
    session.attachment("queued_command", prompt="/review src", commandMode="prompt")
    session.attachment(
        "queued_command", prompt="From a peer", commandMode="prompt", origin={"kind": "peer"}
    )
    session.reply("m2", "Read.")
    conversation = parse(tmp_path, session)
    assert rows(conversation)[2:] == [
        ("prompt", "Typed meanwhile"),
        ("prompt", "with\npicture"),
        ("notification", note),
        ("shell", "!ls"),
        ("command", "/review src"),
        ("notification", "From a peer"),
        ("reply", "Read."),
    ]
    assert conversation.messages[3].attachments[0].content == PIXEL


def test_queued_prompts_before_there_were_attachments(tmp_path: Path) -> None:
    session = Session()
    session.queue("enqueue", content="Sleep")
    session.queue("dequeue")
    session.user("Sleep")
    session.reply("m1", "Working.")
    session.queue("enqueue", content="Only in the queue")
    session.queue("enqueue", content="Becomes a record")
    session.queue("remove")
    session.queue("dequeue")
    session.reply("m2", "Read.")
    session.user("Becomes a record")
    parsed = parsed_file(tmp_path, session)
    conversation = parsed.conversations[0]
    assert rows(conversation) == [
        ("prompt", "Sleep"),
        ("reply", "Working."),
        ("prompt", "Only in the queue"),
        ("reply", "Read."),
        ("prompt", "Becomes a record"),
    ]
    queued = conversation.messages[2]
    assert not queued.shared_uid and queued.timestamp == "2026-03-01T10:00:00.000Z"
    assert parsed.files[0].kept == 5


def test_prompts_taken_back_to_the_editor(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    session.queue("enqueue", content="Sent again unchanged")
    session.queue("enqueue", content="Never sent")
    session.queue("popAll", content="both")
    session.reply("m1", "Ok")
    session.user("Sent again unchanged")
    assert rows(parse(tmp_path, session)) == [
        ("prompt", "One"),
        ("reply", "Ok"),
        ("prompt", "Never sent"),
        ("prompt", "Sent again unchanged"),
    ]


def test_attachment_that_comes_after_the_answer_is_not_told_twice(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    session.queue("enqueue", content="Late")
    session.queue("remove")
    session.reply("m1", "Ok")
    session.attachment("queued_command", prompt="Late", commandMode="prompt")
    assert [content for _, content in rows(parse(tmp_path, session))] == ["One", "Late", "Ok"]


# ------------------------------------------------------------------------------- compaction, branches


def states(conversation: ParsedConversation) -> dict[str, str]:
    return {message.content: message.state for message in conversation.messages}


def test_compaction_and_rewind(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    anchor = session.reply("m1", "Reply one")
    session.user("Wrong")
    session.reply("m2", "To wrong")
    session.parent = anchor
    session.user("Right")
    last = session.reply("m3", "To right")
    session.parent = None
    session.system("compact_boundary", content="Compacted", logicalParentUuid=last)
    session.user("This session is being continued …", isCompactSummary=True)
    session.user("Later")
    leaf = session.reply("m4", "To later")
    session.raw({"type": "last-prompt", "leafUuid": "00000000-0000-0000-0000-000000000000"})
    session.raw({"type": "last-prompt", "lastPrompt": "Later", "leafUuid": leaf})
    conversation = parse(tmp_path, session)
    dead = [content for content, state in states(conversation).items() if state != "active"]
    assert dead == ["Wrong", "To wrong"]
    assert set(states(conversation).values()) == {"active", "abandoned"}


def test_last_prompt_names_the_live_branch(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    anchor = session.reply("m1", "Reply one")
    session.user("First version")
    leaf = session.reply("m2", "To first")
    session.parent = anchor
    session.user("Second version")
    session.reply("m3", "To second")
    session.raw({"type": "last-prompt", "leafUuid": leaf})
    found = states(parse(tmp_path, session))
    assert found["Second version"] == found["To second"] == "abandoned"
    assert found["First version"] == found["To first"] == "active"


def test_chain_runs_through_every_record_type(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    anchor = session.reply("m1", "Reply one")
    session.user("Wrong")
    session.chained("progress", data={"type": "hook_progress"})
    session.attachment("date", date="2026-03-01")
    session.assistant("m2", uses("t"))
    session.result("t", "x")
    session.reply("m3", "Below wrong")
    session.parent = anchor
    session.user("Right")
    found = parse(tmp_path, session)
    assert [m.state for m in found.messages] == [
        "active",
        "active",
        "abandoned",
        "abandoned",
        "abandoned",
        "active",
    ]


def test_parallel_results_and_dangling_parents_are_no_branches(tmp_path: Path) -> None:
    session = Session()
    session.user("One", parentUuid="points-nowhere")
    first = session.assistant("m1", uses("a"))
    session.assistant("m1", uses("b"))
    session.result("b", "2")
    session.parent = first
    session.result("a", "1")
    session.user("Two")
    session.user("Three", parentUuid=None)
    session.user("Four", parentUuid=None)
    assert set(states(parse(tmp_path, session)).values()) == {"active"}


def test_edit_of_the_first_prompt(tmp_path: Path) -> None:
    session = Session()
    place = {"promptIndex": 1, "turnIndex": 1}
    session.user("Hello wrong", turnPosition=place)
    session.reply("m1", "Hi")
    session.parent = None
    session.user("Hello right", turnPosition=place)
    session.reply("m2", "Hi again")
    found = states(parse(tmp_path, session))
    assert [key for key, state in found.items() if state == "active"] == ["Hello right", "Hi again"]


def test_cycles_and_long_chains_end(tmp_path: Path) -> None:
    session = Session()
    session.user("A", uuid="a", parentUuid="b")
    session.user("B", uuid="b", parentUuid="a")
    session.user("C", uuid="c", parentUuid="a")
    session.user("S", uuid="s", parentUuid="s")
    session.parent = "c"
    for number in range(5000):
        session.attachment("date", record={"uuid": f"n{number}"})
    parse(tmp_path, session)


# ------------------------------------------------------------------------------- copies


def test_fork_by_forked_from(tmp_path: Path) -> None:
    session = Session()
    copied = {"forkedFrom": {"sessionId": OTHER, "messageUuid": "u"}}
    session.user("Old", **copied)
    session.reply("m1", "Old reply", usage=usage(1, 1), costUSD=0.5, **copied)
    session.user("New")
    session.reply("m2", "New reply")
    session.raw({"type": "cost-state", "totalCostUSD": 1.5})
    conversation = parse(tmp_path, session)
    assert (conversation.kind, conversation.parent_session_id) == ("fork", OTHER)
    assert [m.inherited for m in conversation.messages] == [True, True, False, False]
    assert conversation.started_at == "2026-03-01T10:00:03.000Z"
    assert conversation.cost_usd is None, "the totals count the parent's calls again"


def test_fork_by_request_session(tmp_path: Path) -> None:
    session = Session()
    session.user("Old")
    session.reply("m1", "Old reply", requestSessionId=OTHER)
    session.user("New")
    session.reply("m2", "New reply", requestSessionId=SESSION)
    conversation = parse(tmp_path, session)
    assert (conversation.kind, conversation.parent_session_id) == ("fork", OTHER)
    assert conversation.started_at == "2026-03-01T10:00:03.000Z"


def test_resumed_copy_of_1_0_keeps_the_old_session_on_prompts(tmp_path: Path) -> None:
    session = Session()
    session.user("Old", sessionId=OTHER)
    session.reply("m1", "Old reply")
    session.user("New")
    conversation = parse(tmp_path, session)
    assert (conversation.kind, conversation.parent_session_id) == ("fork", OTHER)


def test_file_of_another_name_is_no_fork(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    session.write(tmp_path, "renamed.jsonl")
    conversation = parse_all(tmp_path)["renamed"]
    assert (conversation.kind, conversation.parent_session_id) == ("main", None)


def test_copy_inside_a_file_is_not_told_twice(tmp_path: Path) -> None:
    session = Session()
    session.user([says("What colour?"), picture()])
    session.reply("m1", "Red")
    session.parent = None
    session.user([says("What colour?")])
    session.user([picture()])
    session.reply("m1", "Red")
    session.user("And now?")
    session.reply("m2", "Blue")
    parsed = parsed_file(tmp_path, session)
    assert rows(parsed.conversations[0]) == [
        ("prompt", "What colour?"),
        ("reply", "Red"),
        ("prompt", "And now?"),
        ("reply", "Blue"),
    ]
    assert (parsed.files[0].kept, parsed.files[0].ignored) == (4, 3)


def test_new_beginnings_inside_a_file_are_kept(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    session.reply("m1", "First")
    session.parent = None
    session.user("Two")
    session.user("Three", parentUuid=None)
    session.reply("m2", "Second")
    session.parent = None
    session.user("At the end")
    assert [content for _, content in rows(parse(tmp_path, session))] == [
        "One",
        "First",
        "Two",
        "Three",
        "Second",
        "At the end",
    ]


# ------------------------------------------------------------------------------- subagents


def test_call_names_its_subagent(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", uses("t1", "Agent", prompt="Count"), uses("t2", "Agent", prompt="B"))
    session.result(
        "t1",
        [says("Three.")],
        toolUseResult={"status": "completed", "agentId": "abc123", "totalDurationMs": 4200},
    )
    session.result("t2", [says("Async agent launched successfully.\nagentId: def456 (internal)")])
    first, second = calls(parse(tmp_path, session))
    assert (first.subagent_session_id, first.duration_ms) == ("agent-abc123", 4200)
    assert (second.subagent_session_id, second.status) == ("agent-def456", "ok")


def test_subagent_file_and_its_meta(tmp_path: Path) -> None:
    session = Session()
    session.assistant("m1", uses("t1", "Agent", prompt="Count"))
    session.result("t1", "done")
    path = session.write(tmp_path)
    agent = Session(SESSION, isSidechain=True, agentId="abc")
    agent.user("Count")
    agent.user("Also this")
    agent.reply("a1", "Three")
    file = agent.write(tmp_path, f"{SESSION}/subagents/agent-abc.jsonl")
    meta = {"agentType": "Explore", "description": "Count files", "toolUseId": "t1"}
    file.with_name("agent-abc.meta.json").write_text(json.dumps(meta))
    found = parse_all(tmp_path)
    child = found["agent-abc"]
    assert (child.kind, child.parent_session_id, child.title) == (
        "subagent",
        SESSION,
        "Count files",
    )
    assert child.title_origin == "task"
    assert rows(child) == [("task", "Count"), ("task", "Also this"), ("reply", "Three")]
    assert [call.subagent_session_id for call in calls(found[SESSION])] == ["agent-abc"]
    assert path.exists()


def test_nested_subagent(tmp_path: Path) -> None:
    agent = Session(SESSION, isSidechain=True, agentId="deep", parentAgentId="upper")
    agent.user("Go")
    agent.write(tmp_path, f"{SESSION}/subagents/agent-deep.jsonl")
    other = Session(SESSION, isSidechain=True, agentId="low")
    other.user("Go")
    other.write(tmp_path, f"{SESSION}/subagents/agent-upper/subagents/agent-low.jsonl")
    found = parse_all(tmp_path)
    assert found["agent-deep"].parent_session_id == "agent-upper"
    assert found["agent-low"].parent_session_id == "agent-upper"


@pytest.mark.parametrize("prompt", [None, "Warmup"])
def test_warm_ups_are_no_conversations(tmp_path: Path, prompt: str | None) -> None:
    agent = Session(SESSION, isSidechain=True, agentId="0a1b2c3d")
    if prompt:
        agent.user(prompt)
    agent.reply("m1", "ok")
    agent.write(tmp_path, "agent-0a1b2c3d.jsonl")
    parsed = check(ClaudeCode().parse(metas(tmp_path)["agent-0a1b2c3d"]))
    assert parsed.conversations == []
    assert (parsed.files[0].records, parsed.files[0].ignored) == (
        1 + bool(prompt),
        1 + bool(prompt),
    )


def test_sidechains_inside_the_file_of_1_0(tmp_path: Path) -> None:
    session = Session()
    session.user("Search")
    session.assistant(
        "m1", uses("t1", "Task", prompt="Find A"), uses("t2", "Task", prompt="Find B")
    )
    main = session.parent
    a = session.user("Find A", isSidechain=True, parentUuid=None)
    b = session.user("Find B", isSidechain=True, parentUuid=None)
    session.reply("a1", "A here", isSidechain=True, parentUuid=a)
    session.reply("b1", "B there", isSidechain=True, parentUuid=b)
    session.parent = main
    session.result("t1", "A here")
    session.result("t2", "B there")
    session.reply("m2", "Both found")
    session.write(tmp_path)
    found = parse_all(tmp_path)
    assert [kind for kind, _ in rows(found[SESSION])] == ["prompt", "reply", "reply"]
    ids = [f"{SESSION}:sidechain-{uuid}" for uuid in (a, b)]
    assert [call.subagent_session_id for call in calls(found[SESSION])] == ids
    assert rows(found[ids[0]]) == [("task", "Find A"), ("reply", "A here")]
    assert rows(found[ids[1]]) == [("task", "Find B"), ("reply", "B there")]
    child = found[ids[0]]
    assert (child.kind, child.parent_session_id, child.cwd) == ("subagent", SESSION, "/home/d/shop")


# ------------------------------------------------------------------------------- about the session


def titled(home: Path, *records: dict[str, Any]) -> tuple[str | None, str | None]:
    session = Session()
    leaf = session.user("Hello")
    for record in records:
        if record.get("leafUuid") == "own":
            record = {**record, "leafUuid": leaf}
        session.raw(record)
    conversation = parse(home, session)
    return conversation.title, conversation.title_origin


def test_titles_by_rank(tmp_path: Path) -> None:
    summary = {"type": "summary", "summary": "A summary", "leafUuid": "own"}
    foreign = {"type": "summary", "summary": "Of another session", "leafUuid": "elsewhere"}
    made = [{"type": "ai-title", "aiTitle": title} for title in ("First", "Second")]
    named = [{"type": "custom-title", "customTitle": title} for title in ("Old", "New")]
    caveat = {"type": "custom-title", "customTitle": "<local-command-caveat>Caveat: x"}
    assert titled(tmp_path) == (None, None)
    assert titled(tmp_path, foreign) == (None, None)
    assert titled(tmp_path, summary, foreign) == ("A summary", "summary")
    assert titled(tmp_path, summary, *made) == ("Second", "tool")
    assert titled(tmp_path, *named, *made, summary) == ("New", "user")
    assert titled(tmp_path, *made, caveat) == ("Second", "tool")
    wrapped_title = {**summary, "summary": '{"title": "Inside"}'}
    assert titled(tmp_path, wrapped_title) == ("Inside", "summary")


def test_titles_of_side_files(tmp_path: Path) -> None:
    session = Session()
    session.user("Hello")
    path = session.write(tmp_path)
    index = {"version": 1, "entries": [{"sessionId": SESSION, "summary": "From the index"}]}
    (path.parent / "sessions-index.json").write_text(json.dumps(index))
    conversation = parse_all(tmp_path)[SESSION]
    assert (conversation.title, conversation.title_origin) == ("From the index", "summary")
    before = metas(tmp_path)[SESSION].marker
    (path.parent / "sessions-index.json").write_text(json.dumps(index).replace("From", "Of"))
    assert metas(tmp_path)[SESSION].marker != before
    (path.parent / SESSION).mkdir()
    (path.parent / SESSION / "custom-title.json").write_text('{"customTitle": "Carried"}')
    conversation = parse_all(tmp_path)[SESSION]
    assert (conversation.title, conversation.title_origin) == ("Carried", "user")


def test_facts_about_the_session(tmp_path: Path) -> None:
    session = Session(gitBranch="")
    session.user("One")
    session.user("Two", gitBranch="HEAD", cwd="/home/d/shop/.claude/worktrees/w1")
    session.common["version"] = "2.1.90"
    session.reply("m1", "a", model="claude-x")
    session.reply("m2", "b", model="claude-y")
    session.reply("m3", "c", model="claude-y")
    session.raw({"type": "worktree-state", "worktreeSession": {"originalCwd": "/home/d/shop"}})
    session.raw({"type": "cost-state", "totalCostUSD": 0.5})
    session.raw({"type": "cost-state", "totalCostUSD": 0.75})
    conversation = parse(tmp_path, session)
    assert conversation.cwd == conversation.project_path == "/home/d/shop"
    assert (conversation.git_branch, conversation.tool_version) == ("HEAD", "2.1.90")
    assert (conversation.model, conversation.cost_usd) == ("claude-y", 0.75)


def test_cost_of_old_lines_counts_once_per_message(tmp_path: Path) -> None:
    session = Session()
    session.reply("m1", "a", costUSD=0.25)
    session.assistant("m1", uses("t"), costUSD=0.5)
    session.reply("m2", "b", costUSD=0.125)
    assert parse(tmp_path, session).cost_usd == 0.625


# ------------------------------------------------------------------------------- prompt history


def test_history_tells_sessions_that_are_gone(tmp_path: Path) -> None:
    session = Session()
    session.user("Still here")
    session.write(tmp_path)
    lines = [
        {
            "display": "Still here",
            "timestamp": 1796073930997,
            "project": "/p",
            "sessionId": SESSION,
        },
        {"display": "Gone", "timestamp": 1796073930998, "project": "/p", "sessionId": OTHER},
        {"display": "Same time", "timestamp": 1796073930998, "project": "/p", "sessionId": OTHER},
        {
            "display": "/model opus",
            "timestamp": 1796073931997,
            "project": "/p",
            "sessionId": OTHER,
        },
        {"display": "!ls", "timestamp": 1796073932997, "project": "/p", "sessionId": OTHER},
        {
            "display": "Look [Pasted text #1 +9 lines]",
            "pastedContents": {
                "1": {"type": "text", "content": "pasted"},
                "2": {"type": "text", "contentHash": "abc"},
                "3": {"type": "text", "contentHash": "../../x"},
            },
            "project": "/old",
        },
        {"display": 3},
        b'{"display": "torn',
    ]
    (tmp_path / ".claude/history.jsonl").write_bytes(to_lines(lines))
    (tmp_path / ".claude/paste-cache").mkdir()
    (tmp_path / ".claude/paste-cache/abc.txt").write_text("from the cache")
    [meta] = [meta for key, meta in metas(tmp_path).items() if key.startswith("history:")]
    parsed = check(ClaudeCode().parse(meta))
    gone, old = parsed.conversations
    assert (gone.session_id, gone.kind, gone.cwd) == (OTHER, "prompt-history", "/p")
    assert rows(gone) == [
        ("prompt", "Gone"),
        ("prompt", "Same time"),
        ("command", "/model opus"),
        ("shell", "!ls"),
    ]
    assert gone.messages[0].timestamp == "2026-11-30T21:25:30.998Z"
    assert (old.session_id, old.cwd) == ("history:/old", "/old")
    attached = [attachment.content for attachment in old.messages[0].attachments]
    assert attached == [b"pasted", b"from the cache", None]
    file = parsed.files[0]
    assert (file.kept, file.ignored, file.unknown, file.malformed) == (5, 1, 1, 1)


# ------------------------------------------------------------------------------- bad input


def test_noise_is_told_from_its_first_bytes_only_where_that_is_exact() -> None:
    assert is_noise(b'{"type":"file-history-snapshot","messageId":"x"}')
    assert not is_noise(b'{"type":"file-history-snapshot","messageId":"x"'), "torn"
    assert not is_noise(b'{"type":"user","message":{"type":"progress"}}')
    head = b'{"parentUuid":"u","isSidechain":false,'
    assert is_noise(head + b'"attachment":{"type":"prompt_snapshot","x":1},"type":"attachment"}')
    assert is_noise(head + b'"userType":"external","cwd":"/a\\"b","type":"progress","data":{}}')
    assert not is_noise(head + b'"attachment":{"type":"queued_command","prompt":"x"}}')
    assert not is_noise(head + b'"message":{"attachment":{"type":"prompt_snapshot"}}}')
    assert not is_noise(head + b'"message":{"content":[{"input":{"type":"progress"}}]}}')


def test_bad_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    session = Session()
    session.raw(b"\xef\xbb\xbf" + json.dumps({"type": "mode"}).encode())
    session.user("One")
    session.raw(b"\0" * 3772)
    session.raw(b"")
    session.raw(b'{"type":"user","message":{"role":"us')
    session.raw(b"[1, 2]")
    session.raw(b'"text"')
    session.raw(b'{"type":"mode"}{"type":"mode"}')
    session.raw({"type": "from-the-future", "payload": 1})
    session.raw({"no": "type"})
    session.raw({"type": ["list"]})
    session.system("from-the-future", content="x")
    session.attachment("from-the-future")
    session.raw(b'{"type":"user","message":{"content":"\\ud800 alone"}}')
    session.raw(b"[" * 100_000)
    session.user("Last")
    parsed = parsed_file(tmp_path, session)
    file = parsed.files[0]
    assert [content for _, content in rows(parsed.conversations[0])] == [
        "One",
        "\ufffd alone",
        "Last",
    ]
    assert (file.unknown, file.malformed, file.ignored, file.kept) == (5, 5, 3, 3)
    assert {each.type for each in file.samples} >= {"from-the-future", "system/from-the-future"}


def test_nul_in_text(tmp_path: Path) -> None:
    session = Session()
    session.user("a\0b")
    session.assistant("m1", says("c\0d"), uses("t", command="printf '\0'"))
    session.result("t", "e\0f")
    conversation = parse(tmp_path, session)
    texts = [m.content for m in conversation.messages] + [calls(conversation)[0].output or ""]
    assert not any("\0" in text for text in texts)


def test_file_without_conversation(tmp_path: Path) -> None:
    session = Session()
    session.raw({"type": "summary", "summary": "Of another session", "leafUuid": "x"})
    parsed = parsed_file(tmp_path, session)
    assert parsed.conversations == []
    assert (parsed.files[0].kept, parsed.files[0].ignored) == (0, 1)
    session.lines = []
    assert parsed_file(tmp_path, session).files[0].records == 0


def test_inputs_nested_deeply(tmp_path: Path) -> None:
    session = Session()
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    session.raw(
        b'{"type":"assistant","uuid":"u","message":{"id":"m","content":[{"type":"tool_use",'
        b'"id":"t","name":"X","input":' + deep + b"}]}}"
    )
    parsed_file(tmp_path, session)


def test_source_is_not_touched(tmp_path: Path) -> None:
    session = Session()
    session.user("One")
    path = session.write(tmp_path)
    before = path.stat()
    parse_all(tmp_path)
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [path.name]


# ------------------------------------------------------------------------------- properties

WORDS = st.sampled_from(
    [
        "",
        "user",
        "assistant",
        "system",
        "attachment",
        "progress",
        "u1",
        "u2",
        "m1",
        "m2",
        "t1",
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "image",
        "queued_command",
        "local_command",
        "compact_boundary",
        "enqueue",
        "remove",
        "popAll",
        "dequeue",
        "Task",
        "AskUserQuestion",
        "<command-name>/x</command-name>",
        "[Request interrupted by user]",
        "<bash-input>ls</bash-input>",
        "<persisted-output>\nsaved to: x",
        "Unknown skill: x",
        "\0",
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=8)
)
KEYS = st.sampled_from(
    [
        "type",
        "uuid",
        "parentUuid",
        "logicalParentUuid",
        "message",
        "content",
        "id",
        "role",
        "model",
        "usage",
        "text",
        "thinking",
        "name",
        "input",
        "prompt",
        "tool_use_id",
        "is_error",
        "toolUseResult",
        "structuredPatch",
        "filePath",
        "lines",
        "answers",
        "agentId",
        "isSidechain",
        "isMeta",
        "isCompactSummary",
        "origin",
        "kind",
        "promptSource",
        "forkedFrom",
        "requestSessionId",
        "sessionId",
        "timestamp",
        "subtype",
        "attachment",
        "operation",
        "commandMode",
        "source",
        "data",
        "leafUuid",
        "summary",
        "customTitle",
        "turnPosition",
        "promptIndex",
        "costUSD",
        "stop_reason",
        "error",
        "cwd",
        "version",
        "gitBranch",
        "display",
        "pastedContents",
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=12,
)
TYPES = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "attachment",
        "queue-operation",
        "summary",
        "custom-title",
        "worktree-state",
        "cost-state",
        "last-prompt",
        "progress",
        "odd",
    ]
)
BLOCKS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": WORDS, "text": WORDS, "thinking": WORDS}),
        st.fixed_dictionaries(
            {"type": st.just("tool_use"), "id": WORDS, "name": WORDS, "input": JSON}
        ),
        st.fixed_dictionaries(
            {"type": st.just("tool_result"), "tool_use_id": WORDS, "content": JSON}
        ),
        JSON,
    ),
    max_size=3,
)
RECORDS = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "uuid": WORDS,
        "parentUuid": st.one_of(st.none(), WORDS, JSON),
        "message": st.one_of(
            st.fixed_dictionaries(
                {"content": st.one_of(WORDS, BLOCKS)},
                optional={
                    "id": st.sampled_from(["m1", "m2", "u1", ""]),
                    "model": WORDS,
                    "usage": JSON,
                },
            ),
            JSON,
        ),
        "attachment": st.one_of(
            st.fixed_dictionaries({"type": WORDS}, optional={"prompt": JSON, "commandMode": WORDS}),
            JSON,
        ),
        "subtype": st.one_of(WORDS, JSON),
        "operation": WORDS,
        "content": st.one_of(WORDS, JSON),
        "isSidechain": st.booleans(),
        "isMeta": st.booleans(),
        "toolUseResult": JSON,
        "origin": JSON,
        "forkedFrom": JSON,
        "sessionId": WORDS,
        "turnPosition": JSON,
        "leafUuid": st.one_of(WORDS, JSON),
        "costUSD": JSON,
        "timestamp": st.one_of(st.just("2026-01-01T00:00:00.000Z"), JSON),
    },
)
LINES = st.one_of(
    RECORDS.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
)


def flat(parsed: Parsed) -> list[Any]:
    return [
        [
            (
                conversation.session_id,
                conversation.kind,
                conversation.title,
                list(conversation.messages),
            )
            for conversation in parsed.conversations
        ],
        parsed.files,
    ]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LINES, max_size=12), st.booleans())
def test_nothing_raises_and_everything_is_counted(lines: list[bytes], agent: bool) -> None:
    name = "agent-x" if agent else SESSION
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path = home / ".claude/projects/p" / f"{name}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\n".join(lines))
        (home / ".claude/history.jsonl").write_bytes(b"\n".join(lines))
        for meta in metas(home).values():
            parsed = ClaudeCode().parse(meta)
            for file in parsed.files:
                assert file.records == file.kept + file.ignored + file.unknown + file.malformed
                assert min(file.kept, file.ignored, file.unknown, file.malformed) >= 0
            for conversation in parsed.conversations:
                uids = [message.uid for message in conversation.messages]
                assert len(uids) == len(set(uids))
            assert flat(ClaudeCode().parse(meta)) == flat(parsed)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_noise_prefix_agrees_with_the_decoder(value: Any) -> None:
    record = {"type": "last-prompt", "leafUuid": value}
    assert is_noise(json.dumps(record, separators=(",", ":")).encode())


def test_the_rules_of_every_adapter(tmp_path: Path) -> None:
    session = Session()
    session.user("Look")
    anchor = session.assistant("m1", says("I do."), uses("t1", "Agent", prompt="Count"))
    session.result("t1", "Three", toolUseResult={"agentId": "abc"})
    session.user([says("Wrong"), picture()])
    session.parent = anchor
    session.user("Right", promptSource="typed")
    session.queue("enqueue", content="Queued")
    session.queue("remove")
    session.raw({"type": "custom-title", "customTitle": "A name"})
    session.write(tmp_path)
    agent = Session(SESSION, isSidechain=True, agentId="abc")
    agent.user("Count")
    agent.reply("a1", "Three")
    agent.write(tmp_path, f"{SESSION}/subagents/agent-abc.jsonl")
    (tmp_path / ".claude/history.jsonl").write_bytes(
        to_lines([{"display": "Gone", "timestamp": 1796073930998, "sessionId": OTHER}])
    )
    check_adapter(ClaudeCode(), Environment.for_home(tmp_path))
