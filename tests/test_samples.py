"""The sample conversations are what their script writes, and show every feature."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import contents, query

from datasette_crystal.cli import crystal
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
from datasette_crystal.samples import DATABASES, HOME, sample_home, shown_at
from datasette_crystal.samples.build import databases, files, write
from datasette_crystal.testing import check_adapter

SOURCES = {
    "claude-code",
    "codex",
    "copilot",
    "cursor",
    "cursor-cli",
    "trae",
    "trae-cli",
}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sample_home() as path:
        yield path


@pytest.fixture(scope="module")
def sample(home: Path) -> tuple[list[ParsedConversation], list[FileRecords]]:
    conversations, records = [], []
    adapters = get_adapters()
    for name in sorted(SOURCES):
        for meta in adapters[name].scan(Environment.for_home(home)):
            assert not isinstance(meta, ScanProblem)
            parsed = adapters[name].parse(meta)
            conversations += parsed.conversations
            records += parsed.files
        close = getattr(adapters[name], "close", None)
        if close is not None:
            close()
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


def _shipped() -> dict[str, bytes]:
    return {
        path.relative_to(HOME.parent).as_posix(): path.read_bytes()
        for folder in (HOME, DATABASES)
        for path in folder.rglob("*")
        if path.is_file()
    }


def _of(
    messages: list[tuple[str, ParsedMessage]], source: str, kind: str | None = None
) -> list[ParsedMessage]:
    return [m for name, m in messages if name == source and kind in (None, m.kind)]


def test_shipped_files_are_what_the_script_writes(tmp_path: Path) -> None:
    write(tmp_path)
    written = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert written.keys() == {f"home/{name}" for name in files()} | {
        f"databases/{database.name}.json" for database in databases()
    }
    shipped = _shipped()
    assert shipped.keys() == written.keys()
    for name, content in written.items():
        assert shipped[name] == content, name


def test_samples_are_small() -> None:
    assert sum(map(len, _shipped().values())) < 900_000


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
        if file.path.endswith(".jsonl") and Path(file.path).name != "history.jsonl":
            lines = Path(file.path).read_bytes().count(b"\n")
            assert file.records == lines, file.path


def test_conversations_of_the_command_line_tools(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> None:
    conversations, _ = sample
    by_source = Counter((conversation.source, conversation.kind) for conversation in conversations)
    # ten sessions (one repeats another's beginning), two agents; six threads, one agent
    assert by_source["claude-code", "subagent"] == 2
    assert by_source["claude-code", "main"] + by_source["claude-code", "fork"] == 10
    assert by_source["codex", "subagent"] == 1
    assert by_source["codex", "fork"] == 1
    assert by_source["codex", "main"] == 5
    assert by_source["claude-code", "prompt-history"] == 1
    assert by_source["codex", "prompt-history"] == 1
    assert {kind for _, kind in by_source} | {"review"} >= set(CONVERSATION_KINDS) - {"fork"}
    projects = {Path(c.cwd).name for c in conversations if c.cwd}
    assert projects == {"teahouse-api", "tideline", "moss-hop", "handbook"}
    assert [c.source for c in conversations if c.archived] == ["codex", "cursor"]
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
    # of Cursor's command line agent only transcripts may be left, which tell the parent alone
    children -= {c.session_id for c in conversations if c.source == "cursor-cli"}
    started = {
        call.subagent_session_id
        for _, message in messages
        for call in message.tool_calls
        if call.name in ("Agent", "spawn_agent", "task_v2")
    }
    assert started == children


def test_every_kind_of_message_is_there(messages: list[tuple[str, ParsedMessage]]) -> None:
    kinds = {message.kind for _, message in messages}
    assert kinds >= set(MESSAGE_KINDS) - {"hook"}
    assert {message.state for _, message in messages} == {"active", "rolled-back", "abandoned"}
    assert {source for source, message in messages if message.thinking} == SOURCES - {"trae-cli"}
    for source in ("codex", "copilot", "cursor", "trae-cli"):
        assert any(message.tokens for message in _of(messages, source)), source
    pictures = [
        (source, attachment.content[:4])
        for source, message in messages
        for attachment in message.attachments
        if attachment.kind == "image" and attachment.content
    ]
    assert set(pictures) == {(source, b"\x89PNG") for source in ("claude-code", "codex", "copilot")}


def test_tool_calls_of_many_kinds(messages: list[tuple[str, ParsedMessage]]) -> None:
    calls = [(source, call) for source, message in messages for call in message.tool_calls]
    assert {call.status for _, call in calls} == {
        "ok",
        "error",
        "denied",
        "interrupted",
        "pending",
        "unknown",
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


def test_what_copilot_keeps(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
    messages: list[tuple[str, ParsedMessage]],
) -> None:
    conversations = {c.title: c for c in sample[0] if c.source == "copilot"}
    assert conversations.keys() == {
        "Undo and redo in the level editor",
        "How the search index is built",
        "What was the flag of `git log` that shows the diff of each commit?",
    }
    log = conversations["Undo and redo in the level editor"]
    flat = conversations["How the search index is built"]
    assert (log.project_path, flat.project_path) == ("/home/dev/moss-hop", "/home/dev/handbook")
    # the request that was edited and sent again, with its two rounds
    assert [m.kind for m in log.messages if m.state == "abandoned"] == ["prompt", "reply", "reply"]
    assert [m.kind for m in log.messages][-6:] == [
        "prompt",
        "partial",
        "interruption",
        "prompt",
        "reply",
        "reply",
    ]
    assert [m.vote for m in log.messages if m.vote] == ["up"]
    assert [m.vote for m in flat.messages if m.vote] == ["down"]
    assert next(iter(flat.messages)).kind == "command"
    assert next(m.content for m in flat.messages if m.kind == "error").startswith("Sorry,")
    assert any("goes through `editor.ts`, so" in m.content for m in log.messages)
    # streamed text is sent twice and stands here once
    assert sum(m.content.count("Ctrl+Z works.") for m in log.messages) == 1
    calls = [call for message in log.messages for call in message.tool_calls]
    terminal = [(c.status, c.exit_code) for c in calls if c.name == "run_in_terminal"]
    assert terminal == [("error", 1), ("ok", 0), ("denied", None)]
    assert [c.name for c in calls].count("manage_todo_list") == 2
    assert [c.name for c in calls].count("runSubagent") == 1
    created = [edit for call in calls for edit in call.edits if edit.action == "create"]
    assert [edit.path for edit in created] == ["/home/dev/moss-hop/src/undo.ts"]
    edited = [edit for call in calls for edit in call.edits if edit.path.endswith("editor.ts")]
    assert [(edit.lines_added, edit.lines_removed) for edit in edited] == [
        (3, 0),
        (1, 1),
        (9, 1),
        (1, 0),
    ]
    tools = [call for message in flat.messages for call in message.tool_calls]
    assert [(c.name, c.status) for c in tools if c.name.startswith("mcp_")] == [
        ("mcp_links_check_site", "error"),
        ("mcp_links_check_site", "ok"),
    ]


def test_what_cursor_keeps(sample: tuple[list[ParsedConversation], list[FileRecords]]) -> None:
    conversations = {c.title: c for c in sample[0] if c.source == "cursor"}
    chart = conversations["Show gaps in the tide chart"]
    child = conversations["Reporting interval"]
    alert = conversations["Alert when a tea runs out"]
    assert (chart.kind, child.kind, alert.kind) == ("main", "subagent", "main")
    assert child.parent_session_id == chart.session_id
    assert (chart.project_path, alert.project_path) == (
        "/home/dev/tideline",
        "/home/dev/teahouse-api",
    )
    assert [next(iter(c.messages)).kind for c in (chart, child)] == ["prompt", "task"]
    (silent,) = (m for m in chart.messages if m.kind == "prompt" and not m.content)
    assert [a.name for a in silent.attachments] == ["/home/dev/tideline/plots/217.png"]
    (left,) = (m for m in chart.messages if m.state == "abandoned")
    assert left.content.startswith("Is this how it should look?")
    calls = {call.name: call for m in chart.messages for call in m.tool_calls}
    assert calls.keys() >= {"todo_write", "read_file_v2", "edit_file_v2", "task_v2"}
    assert calls["run_terminal_command_v2"].status == "denied"
    assert [m.kind for m in alert.messages if m.role == "system"] == ["summary", "error"]
    failed = [c for m in alert.messages for c in m.tool_calls if c.status == "error"]
    assert [c.output for c in failed] == [
        "No such file: teahouse/stocks.py. Did you mean teahouse/stock.py?"
    ]


def test_what_cursors_command_line_agent_keeps(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> None:
    conversations = [c for c in sample[0] if c.source == "cursor-cli"]
    assert sorted((c.kind, c.fidelity) for c in conversations) == [
        ("main", "complete"),
        ("main", "partial"),
        ("subagent", "partial"),
    ]
    (notes,) = (c for c in conversations if c.fidelity == "complete")
    assert (notes.title, notes.cwd) == ("Release notes for November", "/home/dev/handbook")
    told = "\n".join(m.content for m in notes.messages)
    assert "No, by size of the change." not in told  # on the branch that was left
    assert [m.content for m in notes.messages if m.kind == "prompt"] == [
        "Write release notes for November from the merged pull requests.",
        "Danke! Und bitte auch auf Deutsch, als `2026-11.de.md`.",
    ]
    calls = [(c.name, c.status) for m in notes.messages for c in m.tool_calls]
    assert calls == [("Shell", "error"), ("Shell", "ok"), ("Write", "ok"), ("Write", "ok")]


def test_what_trae_keeps(sample: tuple[list[ParsedConversation], list[FileRecords]]) -> None:
    conversations = [c for c in sample[0] if c.source == "trae"]
    titles = {c.title: c for c in conversations if c.title}
    build = titles["Sound of water near the pond"]
    assert [m.kind for m in build.messages] == [
        "prompt",
        "reply",
        "prompt",
        "reply",
        "prompt",
        "partial",
    ]
    answer = list(build.messages)[1]
    # the proposal, then the thought of the step that finishes
    assert answer.content.startswith("先看现有的音频代码")
    assert answer.content.endswith("构建通过。")
    assert [(c.name, c.status, c.exit_code) for c in answer.tool_calls] == [
        ("view_files", "ok", None),
        ("create_file", "ok", None),
        ("run_command", "error", 2),
        ("update_file", "ok", None),
        ("run_command", "ok", 0),
    ]
    chat = titles["Which easing for the jump"]
    assert [bool(m.thinking) for m in chat.messages] == [False, True, False, False]
    (history,) = (c for c in conversations if c.kind == "prompt-history")
    assert [m.content for m in history.messages] == ["Draw a lily pad as SVG, 64 × 64"]


def test_one_conversation_is_really_long(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> None:
    conversations, _ = sample
    (parsers,) = (c for c in conversations if c.title == "UTC in every parser, gauge by gauge")
    assert len(parsers.messages) >= 150
    assert [m.kind for m in parsers.messages].count("summary") == 1
    # 42 gauges: each test passes in the end, and 13 failed once before
    tests = [
        call.exit_code
        for message in parsers.messages
        for call in message.tool_calls
        if "tests/test_parsers.py" in (call.input or "")
    ]
    assert len(tests) == 42 + 13
    assert tests.count(1) == 13


def test_everything_happened_in_the_story(
    sample: tuple[list[ParsedConversation], list[FileRecords]],
) -> None:
    conversations, _ = sample
    for conversation in conversations:
        times = [m.timestamp for m in conversation.messages if m.timestamp]
        assert all("2026-09-28" <= time < "2026-12-01" for time in times), conversation.title


@pytest.mark.parametrize("name", sorted(SOURCES - {"claude-code", "codex"}))
def test_adapters_of_editors_pass_the_kit(name: str) -> None:
    # with a home of its own: the kit damages copies, and wants the originals untouched
    with sample_home() as home:
        check_adapter(get_adapters()[name], home)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    result = CliRunner().invoke(crystal, ["demo", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "34 sample conversations" in result.output
    return path


def test_demo_has_all_tools(demo: Path) -> None:
    assert {name for (name,) in query(demo, "select distinct source from conversations")} == SOURCES
    assert query(demo, "select count(*) from conversations") == [(34,)]
    assert query(
        demo, "select count(*) from import_log where status in ('error', 'unreadable')"
    ) == [(0,)]
    children = query(
        demo,
        "select source, count(parent_id) from conversations where kind = 'subagent' group by source",
    )
    assert children == [("claude-code", 2), ("codex", 1), ("cursor", 1), ("cursor-cli", 1)]


def test_demo_is_always_the_same(demo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    CliRunner().invoke(crystal, ["demo", str(other)], catch_exceptions=False)
    assert contents(other) == contents(demo)
    # also what is kept about files, and in which order things came in
    for sql in (
        "select machine, root, path, size, mtime_ns, marker from source_files order by id",
        "select source, file_path, status, message, records from import_log order by id",
        "select id, title from messages order by id",
    ):
        assert query(other, sql) == query(demo, sql)


def test_demo_tells_of_a_home_and_not_of_where_it_was_made(demo: Path) -> None:
    for table, column in (
        ("source_files", "path"),
        ("source_files", "root"),
        ("import_log", "file_path"),
    ):
        paths = [path for (path,) in query(demo, f"select {column} from {table}")]
        assert paths
        assert all(path.startswith("/home/dev/.") for path in paths), paths
    assert b"datasette-crystal-" not in demo.read_bytes()
    assert str(HOME).encode() not in demo.read_bytes()


def test_sample_home_is_deleted() -> None:
    with sample_home() as home:
        assert (home / ".config/Cursor/User/globalStorage/state.vscdb").stat().st_size
    assert not home.exists()


def test_shown_adapters_tell_of_another_place(home: Path) -> None:
    env = Environment.for_home(home)
    for adapter in shown_at(get_adapters(), home, "/home/dev").values():
        info = adapter.detect(env)
        assert info is not None, adapter.name
        assert all(root.as_posix().startswith("/home/dev/.") for root in info.roots)
        for found in adapter.scan(env):
            assert not isinstance(found, ScanProblem)
            parsed = adapter.parse(found)
            told = {file.path for file in found.files} | {file.path for file in parsed.files}
            assert all(path.startswith("/home/dev/.") for path in told)
