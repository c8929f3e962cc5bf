"""The sample conversations are what their script writes, and show every feature."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from datasette_crystal.model import (
    CONVERSATION_KINDS,
    MESSAGE_KINDS,
    Environment,
    FileRecords,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
)
from datasette_crystal.plugins import get_adapters
from datasette_crystal.samples import HOME
from datasette_crystal.samples.build import files, write


@pytest.fixture(scope="module")
def sample() -> tuple[list[ParsedConversation], list[FileRecords]]:
    conversations, records = [], []
    for name in ("claude-code", "codex"):
        adapter = get_adapters()[name]
        for meta in adapter.scan(Environment.for_home(HOME)):
            assert not isinstance(meta, ScanProblem)
            parsed = adapter.parse(meta)
            conversations += parsed.conversations
            records += parsed.files
    return conversations, records


@pytest.fixture(scope="module")
def messages(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> list[tuple[str, ParsedMessage]]:
    return [
        (conversation.source, message)
        for conversation in sample[0]
        for message in conversation.messages
    ]


def _shipped() -> Iterator[Path]:
    return (path for path in HOME.rglob("*") if path.is_file())


def test_shipped_files_are_what_the_script_writes(tmp_path: Path) -> None:
    write(tmp_path)
    written = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert written.keys() == files().keys()
    shipped = {path.relative_to(HOME).as_posix(): path.read_bytes() for path in _shipped()}
    assert shipped.keys() == written.keys()
    for name, content in written.items():
        assert shipped[name] == content, name


def test_samples_are_small() -> None:
    assert sum(path.stat().st_size for path in _shipped()) < 400_000


def test_every_record_but_the_two_bad_ones_is_known(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> None:
    _, records = sample
    unknown = [item.type for file in records for item in file.samples]
    assert unknown == ["garden-state"]
    assert sum(file.unknown for file in records) == 1
    assert sum(file.malformed for file in records) == 1
    for file in records:
        assert file.records == file.kept + file.ignored + file.unknown + file.malformed
        if Path(file.path).name != "history.jsonl":
            lines = Path(file.path).read_bytes().count(b"\n")
            assert file.records == lines, file.path


def test_conversations_of_both_tools(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> None:
    conversations, _ = sample
    by_source = Counter((conversation.source, conversation.kind) for conversation in conversations)
    # nine sessions (one repeats another's beginning), two agents; six threads, one agent
    assert by_source["claude-code", "subagent"] == 2
    assert by_source["claude-code", "main"] + by_source["claude-code", "fork"] == 9
    assert by_source["codex", "subagent"] == 1
    assert by_source["codex", "fork"] == 1
    assert by_source["codex", "main"] == 5
    assert by_source["claude-code", "prompt-history"] == 1
    assert by_source["codex", "prompt-history"] == 1
    assert {kind for _, kind in by_source} | {"review"} >= set(CONVERSATION_KINDS) - {"fork"}
    projects = {Path(c.cwd).name for c in conversations if c.cwd}
    assert projects == {"teahouse-api", "tideline", "moss-hop", "handbook"}
    assert [c.archived for c in conversations].count(True) == 1
    titles = {c.title: c.title_origin for c in conversations if c.title}
    assert titles["Rate limit for login and reset"] == "user"
    assert titles["支付回调幂等处理"] == "tool"
    assert titles["Silent periods of gauges"] == "tool"
    assert {c.model for c in conversations} >= {
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "gpt-5.5",
        "gpt-6-astra",
    }


def test_the_forks_have_parents(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
    messages: list[tuple[str, ParsedMessage]],
) -> None:
    conversations, _ = sample
    (fork,) = (c for c in conversations if c.source == "codex" and c.kind == "fork")
    (parent,) = (c for c in conversations if c.session_id == fork.parent_session_id)
    assert parent.title == "Silent periods of gauges"
    # one turn of the parent's three was inherited
    assert fork.inherits_until is not None
    prompts = [m for m in parent.messages if m.kind == "prompt"]
    assert [m.record < fork.inherits_until for m in prompts if m.record is not None] == [
        True,
        False,
        False,
    ]
    # Claude Code copies: the first prompt and what followed have equal uids in two sessions
    uids = Counter(m.uid for source, m in messages if source == "claude-code" and m.shared_uid)
    assert sum(1 for number in uids.values() if number == 2) == 4
    assert max(uids.values()) == 2
    children = {c.session_id for c in conversations if c.kind == "subagent"}
    started = {
        call.subagent_session_id
        for _, message in messages
        for call in message.tool_calls
        if call.name in ("Agent", "spawn_agent")
    }
    assert started == children


def test_every_kind_of_message_is_there(messages: list[tuple[str, ParsedMessage]]) -> None:
    kinds = {message.kind for _, message in messages}
    assert kinds >= set(MESSAGE_KINDS) - {"hook"}
    assert {message.state for _, message in messages} == {"active", "rolled-back", "abandoned"}
    assert {source for source, message in messages if message.thinking} == {
        "claude-code",
        "codex",
    }
    assert any(message.tokens for source, message in messages if source == "codex")
    pictures = [
        (source, attachment.content[:4])
        for source, message in messages
        for attachment in message.attachments
        if attachment.kind == "image" and attachment.content
    ]
    assert set(pictures) == {("claude-code", b"\x89PNG"), ("codex", b"\x89PNG")}


def test_tool_calls_of_many_kinds(messages: list[tuple[str, ParsedMessage]]) -> None:
    calls = [(source, call) for source, message in messages for call in message.tool_calls]
    assert {call.status for _, call in calls} == {
        "ok",
        "error",
        "denied",
        "interrupted",
        "pending",
    }
    assert {call.exit_code for _, call in calls} >= {None, 0, 1, 2, 3}
    names = {call.name for _, call in calls}
    assert names >= {
        "Agent",
        "AskUserQuestion",
        "Bash",
        "Edit",
        "ExitPlanMode",
        "Glob",
        "Grep",
        "Read",
        "TodoWrite",
        "WebFetch",
        "WebSearch",
        "Write",
        "apply_patch",
        "exec_command",
        "spawn_agent",
        "update_plan",
        "view_image",
    }
    for source in ("claude-code", "codex"):
        edits = [edit for name, call in calls if name == source for edit in call.edits]
        assert {edit.action for edit in edits} >= {"create", "edit"}
        assert all(edit.diff for edit in edits if edit.action == "edit")
    assert any("\x1b[31m" in (call.output or "") for _, call in calls)


def test_what_people_will_look_for(messages: list[tuple[str, ParsedMessage]]) -> None:
    prompts = [m.content for _, m in messages if m.kind in ("prompt", "command", "shell")]
    assert any("<script>alert(1)</script>" in text for text in prompts)
    assert any("支付平台的回调会重发" in text for text in prompts)
    assert any("La búsqueda del manual" in text for text in prompts)
    assert any("/review" in text and "--focus races" in text for text in prompts)
    assert any("redis-cli" in text for text in prompts)
    # typed while the model worked
    assert "also check that NaN levels behave the same" in prompts
    answers = [m.content for _, m in messages if m.kind == "answer"]
    assert answers == ["Redis", "Login, Password reset"]
    replies = [m.content for _, m in messages if m.kind == "reply"]
    assert any("|---" in text for text in replies)
    assert any("```python" in text for text in replies)
    everything = "\n".join(prompts + replies)
    assert "EXAMPLE-NOT-A-REAL-KEY" in everything
