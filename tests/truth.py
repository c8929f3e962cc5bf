"""What is independently known of the homes in the fixtures folder, and what an import made of them.

Two kinds of truth are read: ``truth.json`` beside a recorded home says what was typed and what the
model answered, from the recorder's own script; ``expected.json`` inside a home of real sessions was
computed from the facts of the formats. Both become :class:`Truth`. What an import stored is read
back as :class:`Found`. :data:`FIELDS` compares the two, one field at a time; each check gives plain
lines that say what is wrong, none when all is right.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import zstandard

PROMPTS = ("prompt", "command", "shell")
REPLIES = ("reply", "partial")
TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
FAILED = ("error", "denied", "interrupted")
#: Tools that run in a terminal, and so in a directory; their truth knows every message. Of the
#: editors' databases it leaves out rows that nothing refers to ("skip or flag").
TERMINAL = ("claude-code", "codex", "cursor-cli")


def plain(text: str | None) -> str:
    """A text as it is compared: without what surrounds it, and with one kind of line end."""
    return (text or "").replace("\r\n", "\n").strip()


def folded(text: str | None) -> str:
    return " ".join((text or "").split())


def short(value: object, limit: int = 160) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


# ----------------------------------------------------------------------------------- the truth


@dataclass(frozen=True)
class Text:
    """A text that was said. ``also`` are other forms that are as right. An optional one may be
    missing, of a ``prefix`` only the beginning is known, and the place of a ``floating`` one among
    the others is not. ``arguments``: it is what followed a slash command; ``inside``: only this
    piece of it is known."""

    text: str
    also: tuple[str, ...] = ()
    optional: bool = False
    prefix: bool = False
    floating: bool = False
    arguments: bool = False
    inside: bool = False

    def is_(self, found: str) -> bool:
        if self.arguments:
            found = re.sub(r"^/\S+\s+", "", found)
        if self.prefix:
            return found.startswith(plain(self.text))
        if self.inside:
            return plain(self.text) in found
        return found == plain(self.text) or any(found == plain(other) for other in self.also)


@dataclass(frozen=True)
class Call:
    """A tool call; what is ``None`` is not known. ``output`` is text that its result holds."""

    name: str
    call_id: str | None = None
    input: Any = None
    output: str | None = None
    has_result: bool | None = None
    failed: bool | None = None
    exit_code: int | None = None
    other_names: tuple[str, ...] = ()


@dataclass
class Truth:
    """One conversation. ``own_only``: the numbers speak of what this conversation added to what it
    inherited, else of all that it shows; ``shared``: some of that lies in another conversation of
    the home, too. ``replies`` are lists of parts; ``turns`` are, for a
    source of which only fragments are known, the fragments of each turn. ``order`` is the sequence
    of everything as (list, index), such as ``("replies", 3)``."""

    source: str
    key: str
    session_id: str | None
    kind: str = "main"
    own_only: bool = False
    shared: bool = False
    prompts: list[Text] = field(default_factory=list)
    prompt_records: list[int] | None = None
    tasks: list[Text] = field(default_factory=list)
    answers: list[str] | None = None
    replies: list[list[Text]] = field(default_factory=list)
    turns: list[list[str]] | None = None
    thinking: list[Text] | None = None
    thinking_counts: tuple[int, ...] | None = None
    calls: list[Call] = field(default_factory=list)
    tokens: list[dict[str, int]] | None = None
    titles: list[str] = field(default_factory=list)
    title_is_prefix: bool = False
    parent: str | None = None
    inherited: list[Text] | None = None
    git_branches: list[str | None] | None = None
    project_path: str | None = None
    models: list[str] | None = None
    model_alias: str | None = None
    versions: list[str] | None = None
    images: int | None = None
    attachments: list[tuple[str, int, int]] | None = None
    undone: dict[str, Any] | None = None
    order: list[tuple[str, int]] | None = None
    message_ids: list[str] | None = None
    archived: bool | None = None
    summaries: list[str] | None = None
    interruptions: int | None = None
    harness: dict[str, int] | None = None


@dataclass
class FileTruth:
    """How many records a file has, by what its lines are."""

    source: str
    path: str
    lines: int
    malformed: int
    unknown_types: set[str]
    unknown: int


@dataclass
class Home:
    """A home directory and all that is known of it. ``states`` are the directories to import one
    after the other at one place."""

    name: str
    states: list[Path]
    conversations: list[Truth]
    files: list[FileTruth]
    history_only: list[str]
    free_commands: set[str]
    tokens: dict[str, list[dict[str, int]]]

    def sources(self) -> set[str]:
        return {truth.source for truth in self.conversations}


def load_homes(folder: Path, sources: Sequence[str]) -> list[Home]:
    """Every home below ``folder`` that holds something of one of ``sources``; the truth of other
    sources is left out."""
    homes = [
        _recorded_home(path.parent) for path in sorted(folder.glob("recordings/*/*/truth.json"))
    ]
    homes += [_real_home(path.parent) for path in sorted(folder.glob("homes/*/expected.json"))]
    kept = []
    for home in homes:
        empty = not home.conversations and home.name.split("_")[1] in sources
        home.conversations = [truth for truth in home.conversations if truth.source in sources]
        home.files = [file for file in home.files if file.source in sources]
        if home.conversations or empty:
            kept.append(home)
    return kept


def _states(home: Path) -> list[Path]:
    states = [home / "before", home / "after"]
    return states if states[0].is_dir() else [home]


def usage(values: dict[str, Any] | None) -> dict[str, int]:
    return {name: (values or {}).get(name) or 0 for name in TOKENS}


def total(usages: Iterable[dict[str, int]]) -> dict[str, int]:
    found = dict.fromkeys(TOKENS, 0)
    for item in usages:
        for name in TOKENS:
            found[name] += item[name]
    return found


# ------------------------------------------------------------------------------- recorded homes


def _recorded_home(folder: Path) -> Home:
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    name = f"{folder.parent.name}/{folder.name}"
    home = folder / "home"
    version = re.search(r"\d[\w.]*", truth["version"])
    assert version
    facts = _Facts("".join(data.decode("utf-8", "replace") for _, _, data in _transcripts(home)))
    conversations: list[Truth] = []
    by_key = {item["key"]: item for item in truth["conversations"]}
    commands = {"/exit"}  # how the recorder leaves the client
    helpers = [usage(item) for item in truth["aux_usage"] if item["kind"] == "compact"]
    tokens: dict[str, list[dict[str, int]]] = {}
    for item in truth["conversations"]:
        commands |= {event["command"] for event in item["events"] if event["kind"] == "slash"}
        if item.get("deleted") or not (item["user_messages"] or item["assistant_texts"]):
            continue
        compacted = len(truth["conversations"]) == 1 or any(
            event["kind"] == "compact" for event in item["events"]
        )
        made = _recorded(item, version.group(), facts, helpers if compacted else [])
        if item["forked_from"]:
            parent = by_key[item["forked_from"]]
            made.kind = "fork"
            made.parent = parent["session_id"]
            made.inherited = _inherited(item, parent)
        conversations.append(made)
        for sub in item["subagents"]:
            child = _recorded(
                {
                    **item,
                    **sub,
                    "key": sub["prompt"],
                    "session_id": None,
                    "title": None,
                    "user_messages": [],
                },
                version.group(),
                facts,
                [],
            )
            child.kind = "subagent"
            child.parent = item["session_id"]
            child.tasks = [Text(text, prefix=True) for text in sub["user_messages"]]
            conversations.append(child)
    for source in {item.source for item in conversations}:
        known = [item.tokens[0] for item in conversations if item.source == source and item.tokens]
        tokens[source] = [total(known), total([*known, *helpers])]
    files = list(_whole_files(home))
    return Home(name, _states(home), conversations, files, [], commands, tokens)


@dataclass
class _Facts:
    """What the client did by itself, found as plain strings in its files: tools that this version
    does not have, agents that it ran in the background, and what it never wrote."""

    text: str

    def lacks_tool(self, name: str) -> bool:
        return f"No such tool available: {name}" in self.text

    @property
    def runs_agents_in_background(self) -> bool:
        return "Async agent launched" in self.text

    def holds(self, said: str) -> bool:
        """Whether the first line of a text was written anywhere at all."""
        line = plain(said).split("\n")[0][:60]
        return any(json.dumps(line, ensure_ascii=a)[1:-1] in self.text for a in (True, False))


def _transcripts(home: Path) -> Iterator[tuple[str, Path, bytes]]:
    """(source, path, content) of the files that the conversations of a home are in."""
    for source, pattern in (
        ("claude-code", ".claude/projects/**/*.jsonl"),
        ("codex", ".codex/sessions/**/rollout-*"),
        ("codex", ".codex/archived_sessions/rollout-*"),
    ):
        for path in sorted(home.glob(pattern)):
            data = path.read_bytes()
            if path.suffix == ".zst":
                with zstandard.ZstdDecompressor().stream_reader(data) as stream:
                    data = stream.read()
            yield source, path, data


def _whole_files(home: Path) -> Iterator[FileTruth]:
    """The clients of these homes were not stopped while they wrote: each line is a record."""
    for source, path, data in _transcripts(home):
        lines = [line for line in data.split(b"\n") if line.strip()]
        for line in lines:
            json.loads(line)
        yield FileTruth(source, str(path.relative_to(home)), len(lines), 0, set(), 0)


def _recorded(
    item: dict[str, Any], version: str, facts: _Facts, helpers: list[dict[str, int]]
) -> Truth:
    truth = Truth(item["source"], item["key"], item["session_id"], own_only=True)
    if truth.session_id:
        truth.key = truth.session_id
    said = Counter(item["user_messages"])
    answered = Counter(item["assistant_texts"])
    order: list[tuple[str, int]] = []
    thinking: list[Text] = []
    usages: list[dict[str, int]] = []
    attachments: list[tuple[str, int, int]] = []
    abandoned: list[str] = []
    summaries: list[str] = []
    interruptions = 0

    def prompt(text: Text) -> None:
        order.append(("prompts", len(truth.prompts)))
        truth.prompts.append(text)

    def reply(text: Text) -> None:
        order.append(("replies", len(truth.replies)))
        truth.replies.append([text])

    for event in item["events"]:
        kind = event["kind"]
        if kind == "user":
            text = event["text"]
            request = event.get("ide_request")
            # it never reached the model, or not even a file
            optional = said[text] <= 0 or not facts.holds(text)
            said[text] -= 1
            prompt(
                Text(
                    text,
                    (request,) if request else (),
                    optional=optional,
                    floating=bool(event.get("queued")),
                )
            )
            if not optional:
                attachments.append((text, event.get("images", 0), event.get("documents", 0)))
        elif kind == "assistant":
            lost = (
                not event["complete"]  # the answer was cut: its numbers never came
                or not event["blocks"]  # Claude Code writes no line for an answer of nothing
                or (truth.source == "codex" and event["stop"] == "max_tokens")
            )
            if not lost:
                usages.append(usage(event["usage"]))
            itself = "started by the client itself" in (event.get("note") or "")
            for block in event["blocks"]:
                if block["type"] == "thinking":
                    parts = block["thinking"]
                    for part in [parts] if isinstance(parts, str) else parts:
                        order.append(("thinking", len(thinking)))
                        thinking.append(Text(part))
                elif block["type"] == "text":
                    optional = answered[block["text"]] <= 0
                    answered[block["text"]] -= 1
                    # the recorder does not know when a turn of the client's own was
                    reply(Text(block["text"], optional=optional, floating=itself))
                elif block["type"] == "tool":
                    order.append(("calls", len(truth.calls)))
                    truth.calls.append(_recorded_call(block, facts))
                elif block["type"] == "raw" and block["raw"].get("type", "").endswith("_call"):
                    order.append(("calls", len(truth.calls)))
                    truth.calls.append(
                        Call(block["raw"]["type"].removesuffix("_call"), failed=False)
                    )
            if event.get("delivered_text_prefix"):
                reply(Text(event["delivered_text_prefix"], optional=True, prefix=True))
            began = re.search(r"last input began: (.+)", event.get("note") or "", re.S)
            if began and not began.group(1).startswith("<"):
                # words that the client sent in a turn of its own
                truth.prompts.append(
                    Text(began.group(1), optional=True, prefix=True, floating=True)
                )
        elif kind == "bash_mode":
            command = event["command"]
            prompt(Text("!" + command, (command, "! " + command)))
        elif kind in ("slash", "memory"):
            text = event.get("command") or event["text"]
            truth.prompts.append(Text(text, optional=True, floating=True))
        elif kind == "compact":
            if facts.holds(event["summary"]):
                summaries.append(event["summary"])
        elif kind == "interrupt":
            interruptions += 1
        elif kind == "rewind":
            shown = [
                (name, index)
                for name, index in order
                if name in ("prompts", "replies") and not _text(truth, name, index).optional
            ]
            start = max(
                place
                for place, (name, index) in enumerate(shown)
                if name == "prompts" and truth.prompts[index].text == event["to_before"]
            )
            abandoned += [_text(truth, name, index).text for name, index in shown[start:]]
    assert not +said and not +answered, "the digest holds a text that no event has"
    truth.thinking = thinking
    truth.order = order
    truth.attachments = attachments
    truth.undone = {"texts": abandoned}
    truth.summaries = summaries
    truth.interruptions = interruptions
    truth.git_branches = [item["git_branch"]]
    truth.project_path = item["cwd"]
    truth.model_alias = item["model"]
    truth.versions = [version]
    title = item.get("title") or item.get("ai_title")
    truth.titles = [title] if title else []
    truth.archived = bool(item.get("archived")) if item["source"] == "codex" else None
    if usages:
        # the call that wrote a summary is recorded by some clients only
        truth.tokens = [total(usages), total([*usages, *helpers])]
    return truth


def _text(truth: Truth, name: str, index: int) -> Text:
    return truth.prompts[index] if name == "prompts" else truth.replies[index][0]


def _recorded_call(block: dict[str, Any], facts: _Facts) -> Call:
    output: str | None = block.get("out") or None
    failed: bool | None = block["err"]
    if facts.lacks_tool(block["name"]):
        output, failed = None, True
    elif facts.runs_agents_in_background and block["name"] in ("Task", "Agent"):
        output = None
    return Call(
        block["name"],
        block["id"],
        block["input"],
        output,
        True,
        failed,
    )


def _inherited(item: dict[str, Any], parent: dict[str, Any]) -> list[Text]:
    """The prompts and replies of the first turns of the parent, in order."""
    turns = re.search(r"\[0:(\d+) turns\]", item["inherits"])
    assert turns
    texts: list[Text] = []
    begun = 0
    for event in parent["events"]:
        if event["kind"] == "user":
            begun += 1
        if begun > int(turns.group(1)):
            break
        if event["kind"] == "user":
            texts.append(Text(event["text"]))
        elif event["kind"] == "assistant":
            texts += [Text(block["text"]) for block in event["blocks"] if block["type"] == "text"]
    return texts


# ------------------------------------------------------------------------- homes of real sessions


def _real_home(folder: Path) -> Home:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    conversations: list[Truth] = []
    files: list[FileTruth] = []
    for item in expected["conversations"]:
        truth = _real(item)
        conversations.append(truth)
        if item.get("sidechain"):
            # "rows of this conversation with kind sidechain, or a child conversation"
            child = Truth(item["source"], f"{truth.key}:sidechain", None, "subagent")
            child.parent = item["session_id"]
            child.tasks, truth.tasks = truth.tasks, []
            _add_numbers(child, item["sidechain"])
            conversations.append(child)
        if "lines" in item:
            files.append(_real_file(item))
    _mark_copies(expected["conversations"], conversations)
    if not files:
        files = list(_whole_files(_states(folder)[-1]))
    history = [text for item in expected.get("prompt_history_only", []) for text in item["prompts"]]
    tokens = {}
    if expected.get("claude_tokens_global"):
        tokens["claude-code"] = [_claude_tokens(expected["claude_tokens_global"])]
    codex = [item.tokens[0] for item in conversations if item.source == "codex" and item.tokens]
    if codex:
        tokens["codex"] = [total(codex)]
    return Home(folder.name, _states(folder), conversations, files, history, set(), tokens)


def _mark_copies(items: list[dict[str, Any]], truths: list[Truth]) -> None:
    """Marks conversations of editors that share messages: by their ids, or for Copilot, whose ids
    are not known, because they begin alike."""
    for one in items:
        for other in items:
            if one is other or one["source"] != other["source"] or "records_by_type" in one:
                continue
            if "reply_markdown" in one:
                alike = one["prompts"][:1] == other["prompts"][:1]
            else:
                ids = set(one.get("message_ids", ()))
                alike = bool(ids & set(other.get("message_ids", ())))
            if alike and one["source"] not in TERMINAL:
                for truth in truths:
                    truth.shared |= truth.key == (one["session_id"] or one["file"])


def _claude_tokens(values: dict[str, int]) -> dict[str, int]:
    return usage({**values, "cache_write": values["cache_creation"]})


def _real_file(item: dict[str, Any]) -> FileTruth:
    unknown = set(item["record_types_unknown"])
    return FileTruth(
        item["source"],
        item["file"],
        item["lines"],
        len(item["bad_lines"]),
        unknown,
        sum(item["records_by_type"][type_] for type_ in unknown),
    )


def _real(item: dict[str, Any]) -> Truth:
    source = item["source"]
    truth = Truth(source, item["session_id"] or item["file"], item["session_id"])
    parent = item["parent"]["session_id"] if item["parent"] else None
    truth.parent = parent or item.get("forked_from")
    if parent:
        truth.kind = "subagent"
    elif truth.parent:
        truth.kind = "fork"
    # what a Codex fork copied is left out of its numbers, what a Claude one copied is not
    truth.own_only = source == "codex"
    truth.shared = bool(item.get("shared_message_ids"))
    kinds = item.get("prompt_kinds") or ["typed"] * len(item["prompts"])
    truth.prompts = [
        _real_prompt(text, kind) for text, kind in zip(item["prompts"], kinds, strict=True)
    ]
    for other in item["prompts_optional"]:
        if "must_contain" in other:  # "any replacement is fine, the row must exist"
            truth.prompts.append(Text(other["must_contain"], inside=True, floating=True))
        else:
            truth.prompts.append(Text(other["text"], optional=True, floating=True))
    if item.get("prompt_lines") and source == "claude-code":  # Codex tells a prompt in two records
        truth.prompt_records = [line - 1 for line in item["prompt_lines"]]
    truth.tasks = [Text(text) for text in item.get("task_prompts", [])]
    if truth.kind == "subagent" and "task_prompts" not in item:
        truth.prompts, truth.tasks = [], truth.prompts
    if "user_answers" in item:
        truth.answers = [text for answer in item["user_answers"] for text in answer.values()]
    _add_numbers(truth, item)
    if item["title"]:
        truth.titles = [item["title"]]
        if item.get("index_title"):  # "index title or the first request line"
            truth.titles.append(item["index_title"])
        truth.title_is_prefix = "first" in (item.get("title_source") or "")
    branch = item["git_branch"]
    truth.git_branches = ["HEAD", None] if branch == "HEAD" else [branch]
    truth.project_path = item["project_path"]
    truth.models = item.get("models")
    truth.versions = item.get("client_versions") or None
    truth.images = item.get("images")
    truth.undone = item.get("rolled_back")
    if "message_ids" in item:
        prefix = f"{truth.session_id}:"
        truth.message_ids = [uid.removeprefix(prefix) for uid in item["message_ids"]]
    truth.archived = item.get("archived")
    if source == "claude-code":
        texts = item["harness_texts"]
        truth.harness = {
            "command": texts.get("command", 0),
            "interruption": texts.get("interrupt", 0),
            "summary": texts.get("compact_summary", 0),
            "notification": texts.get("notification", 0),
            "error": item["api_errors"],
        }
    elif source == "codex" and "errors" in item:
        truth.harness = {"error": len(item["errors"]), "interruption": item["turn_aborted"]}
    return truth


def _add_numbers(truth: Truth, item: dict[str, Any]) -> None:
    """Replies, thinking, tool calls and tokens."""
    source = truth.source
    if "reply_markdown" in item:
        truth.turns = item["reply_markdown"]
    else:
        parts = item.get("reply_parts") or [[text] for text in item["replies"]]
        truth.replies = [[Text(part) for part in reply] for reply in parts]
        truth.replies += [
            [Text(x["text"], optional=True, floating=True)]
            for x in item.get("replies_optional", [])
        ]
    # "one row per item or per part"
    counts = {item["thinking_count"], item.get("thinking_parts", item["thinking_count"])}
    truth.thinking_counts = tuple(sorted(counts))
    truth.calls = [_real_call(call) for call in item["tool_calls"]]
    tokens = item["tokens"]
    if source == "claude-code":
        truth.tokens = [_claude_tokens(tokens)]
    elif source == "codex" and tokens:
        # Codex writes input with the cached part in it
        truth.tokens = [
            usage(
                {
                    **tokens,
                    "input": tokens["input"] - tokens["cached_input"],
                    "cache_read": tokens["cached_input"],
                }
            )
        ]
    elif source == "copilot" and tokens.get("completion") is not None:
        truth.tokens = [usage({"output": tokens["completion"]})]
    elif tokens.get("output") is not None:
        truth.tokens = [usage(tokens)]


def _real_prompt(text: str, kind: str) -> Text:
    if kind == "bash_input":
        return Text(text, ("!" + text, "! " + text))
    if kind == "command_args":
        return Text(text, arguments=True)
    return Text(text)


def _real_call(call: dict[str, Any]) -> Call:
    # without a result it has not succeeded either
    failed = call["is_error"] if call["has_result"] is not False or call["is_error"] else None
    exit_code = call.get("exit_code")
    if failed is None and exit_code is not None:
        failed = exit_code != 0
    name = call["name"]
    other = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("copilot_")).lower()
    return Call(
        name,
        call["id"],
        has_result=call["has_result"],
        failed=failed,
        exit_code=exit_code,
        other_names=(other,) if name.startswith("copilot_") else (),
    )


# ------------------------------------------------------------------------------ what was imported


@dataclass
class FoundCall:
    name: str
    call_id: str | None
    status: str
    exit_code: int | None
    input: str | None
    output: str | None
    subagent: str | None


@dataclass
class Row:
    """A message as one conversation shows it; ``own``: this conversation is where it belongs."""

    message_id: int
    uid: str
    state: str
    record: int | None
    own: bool
    role: str
    kind: str
    model: str | None
    content: str
    thinking: str | None
    tokens: dict[str, int]
    calls: list[FoundCall]
    attachments: list[str]


@dataclass
class Found:
    """A conversation as the database has it. ``parent`` is the session id of its parent where that
    is in the database, ``parent_session_id`` what the source calls it."""

    source: str
    session_id: str
    kind: str
    title: str
    parent: str | None
    parent_session_id: str | None
    git_branch: str | None
    cwd: str | None
    project: str | None
    model: str | None
    version: str | None
    archived: bool
    rows: list[Row] = field(default_factory=list)

    def seen(self, truth: Truth) -> list[Row]:
        """The rows that the numbers of ``truth`` speak of."""
        return [
            row
            for row in self.rows
            if (row.own or not truth.own_only)
            and (row.state == "active" or truth.source in TERMINAL)
        ]

    def of_kind(self, truth: Truth, kinds: Sequence[str]) -> list[Row]:
        return [row for row in self.seen(truth) if row.kind in kinds]


def read(database: Path) -> list[Found]:
    """Every conversation of a database with all that it shows."""
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        calls: dict[int, list[FoundCall]] = {}
        for row in connection.execute(
            "select t.*, s.session_id as subagent from tool_calls t "
            "left join conversations s on s.id = t.subagent_id order by t.message_id, t.position"
        ):
            calls.setdefault(row["message_id"], []).append(
                FoundCall(
                    row["name"],
                    row["call_id"],
                    row["status"],
                    row["exit_code"],
                    row["input"],
                    row["output"],
                    row["subagent"],
                )
            )
        attachments: dict[int, list[str]] = {}
        # a path alone is not an image that was kept
        for row in connection.execute(
            "select message_id, kind from attachments where content is not null order by id"
        ):
            attachments.setdefault(row["message_id"], []).append(row["kind"])
        found: dict[int, Found] = {}
        for row in connection.execute(
            "select c.*, p.session_id as parent, j.path as project from conversations c "
            "left join conversations p on p.id = c.parent_id "
            "left join projects j on j.id = c.project_id order by c.id"
        ):
            found[row["id"]] = Found(
                row["source"],
                row["session_id"],
                row["kind"],
                row["title"],
                row["parent"],
                row["parent_session_id"],
                row["git_branch"],
                row["cwd"],
                row["project"],
                row["model"],
                row["tool_version"],
                bool(row["archived"]),
            )
        for row in connection.execute(
            "select cm.conversation_id as shown_in, cm.uid as shown_uid, cm.state, cm.record, cm.origin, m.* "
            "from conversation_messages cm join messages m on m.id = cm.message_id "
            "order by cm.conversation_id, cm.position"
        ):
            found[row["shown_in"]].rows.append(
                Row(
                    row["id"],
                    row["shown_uid"],
                    row["state"],
                    row["record"],
                    row["shown_in"] == row["conversation_id"] and row["origin"] == "own",
                    row["role"],
                    row["kind"],
                    row["model"],
                    row["content"],
                    row["thinking"],
                    {name: row[f"{name}_tokens"] or 0 for name in TOKENS},
                    calls.get(row["id"], []),
                    attachments.get(row["id"], []),
                )
            )
        return list(found.values())
    finally:
        connection.close()


@dataclass
class Totals:
    """What the tables of messages and tool calls hold, without looking at conversations."""

    prompts: list[str]
    replies: list[str]
    calls: int
    tokens: dict[str, int]


def table_totals(database: Path, source: str) -> Totals:
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    connection.execute(
        "create temporary view counted as select * from messages m where source = "
        f"'{source}' and exists (select 1 from conversation_messages cm where "
        f"cm.message_id = m.id and (cm.state = 'active' or m.source in {TERMINAL}))"
    )
    try:
        rows = connection.execute("select kind, content from counted").fetchall()
        sums = ", ".join(f"coalesce(sum({name}_tokens), 0)" for name in TOKENS)
        tokens = connection.execute(f"select {sums} from counted").fetchone()
        calls = connection.execute(
            "select count(*) from tool_calls where message_id in (select id from counted)"
        ).fetchone()
        return Totals(
            [content for kind, content in rows if kind in PROMPTS],
            [content for kind, content in rows if kind in REPLIES],
            calls[0],
            dict(zip(TOKENS, tokens, strict=True)),
        )
    finally:
        connection.close()


# --------------------------------------------------------------------------------- which is which


def pair(home: Home, found: list[Found]) -> tuple[dict[str, Found | None], list[Found]]:
    """Truth's key → conversation of the database, and the conversations that are left: by session
    id where the truth has it, else by the most texts in common."""
    left = list(found)
    pairs: dict[str, Found | None] = {}
    for truth in home.conversations:
        pairs[truth.key] = None
        for item in left:
            if (item.source, item.session_id) == (truth.source, truth.session_id):
                pairs[truth.key] = item
                left.remove(item)
                break
    for truth in home.conversations:
        if truth.session_id is not None:
            continue
        said = [*truth.prompts, *truth.tasks, *(part for reply in truth.replies for part in reply)]
        fragments = [fragment for turn in truth.turns or [] for fragment in turn]

        def common(item: Found, said: list[Text] = said, fragments: list[str] = fragments) -> int:
            texts = [plain(row.content) for row in item.rows]
            return sum(any(text.is_(other) for other in texts) for text in said) + sum(
                any(plain(fragment) in other for other in texts) for fragment in fragments
            )

        best = max((item for item in left if item.source == truth.source), key=common, default=None)
        if best is not None and common(best):
            pairs[truth.key] = best
            left.remove(best)
    return pairs, left


# ---------------------------------------------------------------------------------- one by one


def _joined(expected: Sequence[Text], last: int, found: str) -> int:
    """How many texts, ``last`` being the last of them, make up the found one: usually 1, and 0 when
    they do not. The white space between several parts of one answer is not known."""
    if expected[last].is_(found):
        return 1
    end = plain(expected[last].text)
    if not end or not found.endswith(end) or expected[last].prefix:
        return 0
    squeezed = "".join(found.split())
    for size in range(2, min(last + 1, 12) + 1):
        parts = expected[last + 1 - size : last + 1]
        if "".join("".join(part.text.split()) for part in parts) == squeezed:
            return size
    return 0


def align(
    expected: Sequence[Text], found: Sequence[str]
) -> tuple[list[tuple[list[int], int]], list[str]]:
    """Matches texts in order. Returns ([indexes of ``expected``], index of ``found``) pairs - one
    found text may be several expected ones joined - and what is wrong."""
    rows, columns = len(expected), len(found)
    texts = [plain(text) for text in found]
    sizes = {
        (row, column): size
        for column, text in enumerate(texts)
        for row in range(rows)
        if (size := _joined(expected, row, text))
    }
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows):
        for column in range(columns):
            value = max(best[row][column + 1], best[row + 1][column])
            if (row, column) in sizes:
                first = row + 1 - sizes[row, column]
                weight = sum(1 if one.optional else 1000 for one in expected[first : row + 1])
                value = max(value, best[first][column] + weight)
            best[row + 1][column + 1] = value
    pairs: list[tuple[list[int], int]] = []
    row, column = rows, columns
    while row and column:
        if best[row][column] == best[row - 1][column]:
            row -= 1
        elif best[row][column] == best[row][column - 1]:
            column -= 1
        else:
            first = row - sizes[row - 1, column - 1]
            pairs.append((list(range(first, row)), column - 1))
            row, column = first, column - 1
    pairs.reverse()
    matched = {index for indexes, _ in pairs for index in indexes}
    left = [index for index in range(columns) if index not in {other for _, other in pairs}]
    problems = []
    for index, one in enumerate(expected):
        if index in matched:
            continue
        place = next((other for other in left if one.is_(texts[other])), None)
        if place is not None:
            left.remove(place)
            if not one.floating:
                problems.append(f"out of order: {short(one.text)!r}")
        elif not one.optional:
            problems.append(f"lost: {short(one.text)!r}")
    for index in left:
        known = any(one.is_(texts[index]) for one in expected)
        problems.append(f"{'doubled' if known else 'invented'}: {short(texts[index])!r}")
    return pairs, problems


def _prompt_rows(home: Home, truth: Truth, found: Found) -> list[Row]:
    """The rows of a person's own words. Commands without arguments are not among the prompts of
    the truth (their number is: see "harness"), nor are those that the recorder's script typed
    somewhere else in the home, or to leave the client."""
    known = [text for text in truth.prompts if not text.optional]
    return [
        row
        for row in found.of_kind(truth, PROMPTS)
        if row.kind != "command"
        or not is_free_command(home, row.content)
        or any(text.is_(plain(row.content)) for text in known)
    ]


def is_free_command(home: Home, text: str) -> bool:
    """Whether a slash command may be shown or not."""
    if home.free_commands:
        return text in home.free_commands
    return re.fullmatch(r"/\S+", text) is not None


def _reply_rows(truth: Truth, found: Found) -> list[Row]:
    return [row for row in found.of_kind(truth, REPLIES) if row.content.strip()]


def _parts(truth: Truth) -> list[Text]:
    return [part for reply in truth.replies for part in reply]


def check_prompts(home: Home, truth: Truth, found: Found) -> list[str]:
    """A person's own words: all, exactly, in order, none twice, none invented."""
    rows = _prompt_rows(home, truth, found)
    problems = align(truth.prompts, [row.content for row in rows])[1]
    if truth.prompt_records is not None:
        kept = [
            row.record
            for row in rows
            if not any(text.optional and text.is_(plain(row.content)) for text in truth.prompts)
        ]
        if kept != truth.prompt_records and not problems:
            problems.append(f"they stand in records {truth.prompt_records}, not in {kept}")
    return problems


def check_tasks(home: Home, truth: Truth, found: Found) -> list[str]:
    """What the parent wrote to its subagent."""
    return align(truth.tasks, [row.content for row in found.of_kind(truth, ("task",))])[1]


def check_answers(home: Home, truth: Truth, found: Found) -> list[str]:
    """Answers to a question that the tool asked: rows of their own are optional, but then it is
    these."""
    texts = [Text(text, optional=True) for text in truth.answers or []]
    return align(texts, [row.content for row in found.of_kind(truth, ("answer",))])[1]


def check_replies(home: Home, truth: Truth, found: Found) -> list[str]:
    """The model's own words: all, exactly, in order, none twice, none invented."""
    if truth.turns is not None:
        return _check_turns(truth, found)
    return align(_parts(truth), [row.content for row in _reply_rows(truth, found)])[1]


def _check_turns(truth: Truth, found: Found) -> list[str]:
    turns: list[str] = []
    for row in found.seen(truth):
        if row.kind in PROMPTS:
            turns.append("")
        elif row.kind in REPLIES and turns:
            turns[-1] += row.content + "\n"
    assert truth.turns is not None
    place = 0
    for number, fragments in enumerate(truth.turns):
        # an empty code fence may be dropped, and a turn may have no answer
        known = [text for text in map(folded, fragments) if text.replace("`", "").strip()]
        while place < len(turns) and not _in_order(known, folded(turns[place])):
            place += 1
        if place == len(turns):
            return [f"no turn has all of answer {number}: {short(known)}"]
        place += 1
    return []


def _in_order(pieces: list[str], text: str) -> bool:
    place = 0
    for piece in pieces:
        there = text.find(piece, place)
        if there < 0:
            return False
        place = there + len(piece)
    return True


def check_roles(home: Home, truth: Truth, found: Found) -> list[str]:
    """No words of one side in the mouth of the other."""
    problems = []
    said = [text for text in (*truth.prompts, *truth.tasks) if not text.optional]
    answered = [part for part in _parts(truth) if not part.optional]
    for row in found.rows:
        side = {"prompt": "user", "task": "user", "reply": "assistant"}.get(row.kind)
        if side and row.role != side:
            problems.append(f"a {row.kind} has role {row.role}: {short(row.content)!r}")
        text = plain(row.content)
        if not text:
            continue
        person = any(other.is_(text) for other in said)
        model = any(other.is_(text) for other in answered)
        if person and not model and row.kind not in (*PROMPTS, "task", "answer"):
            problems.append(f"a prompt is of kind {row.kind}: {short(text)!r}")
        if model and not person and row.kind not in (*REPLIES, "summary"):
            problems.append(f"a reply is of kind {row.kind}: {short(text)!r}")
    return problems


def check_thinking(home: Home, truth: Truth, found: Found) -> list[str]:
    """Readable thinking: the texts in order, or their number where only that is known."""
    rows = [row.thinking or "" for row in found.seen(truth) if (row.thinking or "").strip()]
    if truth.thinking is not None:
        return align(truth.thinking, rows)[1]
    assert truth.thinking_counts is not None
    least, most = truth.thinking_counts[0], truth.thinking_counts[-1]
    if least <= len(rows) <= most:
        return []
    return [f"{least} to {most} thoughts expected, {len(rows)} found"]


def _call_rows(truth: Truth, found: Found) -> list[FoundCall]:
    return [call for row in found.seen(truth) for call in row.calls]


def _pair_calls(truth: Truth, found: Found) -> list[tuple[Call, FoundCall]]:
    calls = _call_rows(truth, found)
    if len(calls) != len(truth.calls):
        by_id = {call.call_id: call for call in calls if call.call_id}
        return [(call, by_id[call.call_id]) for call in truth.calls if call.call_id in by_id]
    return list(zip(truth.calls, calls, strict=True))


def check_calls(home: Home, truth: Truth, found: Found) -> list[str]:
    """Tool calls by name and id, in order of first appearance."""

    def key(name: str, call_id: str | None) -> str:
        return f"{name} {call_id}"

    expected = [
        Text(
            key(call.name, call.call_id),
            tuple(key(name, call.call_id) for name in call.other_names),
        )
        for call in truth.calls
    ]
    # an id is asked for only where the truth has one
    ids = {call.call_id for call in truth.calls}
    calls = [
        key(call.name, call.call_id if call.call_id in ids else None)
        for call in _call_rows(truth, found)
    ]
    return align(expected, calls)[1]


def _same_input(expected: Any, found: str) -> bool:
    """Equal, or with switches that the client fills in (Claude Code: replace_all)."""
    value = json.loads(found)
    if isinstance(value, dict) and isinstance(expected, dict):
        return {k: v for k, v in value.items() if k in expected or v is not False} == expected
    return bool(value == expected)


def check_call_inputs(home: Home, truth: Truth, found: Found) -> list[str]:
    """Every tool call has its input: the known one, or at least one."""
    problems = []
    for expected, call in _pair_calls(truth, found):
        where = f"{call.name} {call.call_id}"
        if call.input is None:
            problems.append(f"{where} has no input")
        elif expected.input is not None and not _same_input(expected.input, call.input):
            problems.append(f"{where}: {short(expected.input)} expected, {short(call.input)} found")
    return problems


def check_call_outputs(home: Home, truth: Truth, found: Found) -> list[str]:
    """Every tool call has its result, and the known output is in it."""
    problems = []
    for expected, call in _pair_calls(truth, found):
        where = f"{call.name} {call.call_id}"
        if expected.has_result and call.output is None:
            problems.append(f"{where} has no result")
        elif expected.has_result is False and call.output and not expected.failed:
            problems.append(f"{where} has a result: {short(call.output)!r}")
        elif expected.output and plain(expected.output) not in plain(call.output):
            problems.append(
                f"{where}: {short(expected.output)!r} expected, {short(call.output)!r} found"
            )
    return problems


def check_call_errors(home: Home, truth: Truth, found: Found) -> list[str]:
    """Failed calls are marked as failed, others are not."""
    problems = []
    for expected, call in _pair_calls(truth, found):
        where = f"{call.name} {call.call_id}"
        if expected.failed is not None:
            right = FAILED if expected.failed else ("ok",)
            if call.status not in right:
                problems.append(f"{where} is {call.status}, not {' or '.join(right)}")
        if expected.exit_code is not None and call.exit_code != expected.exit_code:
            problems.append(f"{where}: exit code {expected.exit_code}, not {call.exit_code}")
    return problems


#: The kinds of tokens that a source records: what went in, and what came out.
TOKENS_IN = {
    "claude-code": ("input", "cache_read", "cache_write"),
    "codex": ("input", "cache_read"),
}
TOKENS_OUT = {"codex": ("output", "reasoning")}


def compare_tokens(
    source: str, side: str, accepted: list[dict[str, int]], found: dict[str, int]
) -> list[str]:
    if side == "tokens_in":
        names = TOKENS_IN.get(source, ("input",))
    else:
        names = TOKENS_OUT.get(source, ("output",))
    wanted = [{name: values[name] for name in names} for values in accepted]
    have = {name: found[name] for name in names}
    return [] if have in wanted else [f"{wanted} expected, {have} found"]


def check_tokens_in(home: Home, truth: Truth, found: Found) -> list[str]:
    """Tokens that went to the model, each model call once."""
    sums = total(row.tokens for row in found.seen(truth))
    return compare_tokens(truth.source, "tokens_in", truth.tokens or [], sums)


def check_tokens_out(home: Home, truth: Truth, found: Found) -> list[str]:
    """Tokens that came from the model, each model call once."""
    sums = total(row.tokens for row in found.seen(truth))
    return compare_tokens(truth.source, "tokens_out", truth.tokens or [], sums)


def check_title(home: Home, truth: Truth, found: Found) -> list[str]:
    title = folded(found.title)
    accepted = list(truth.titles)
    if truth.title_is_prefix and truth.prompts:
        accepted += truth.prompts[0].also  # "a "!" or "$" in front is fine"
    for expected in map(folded, accepted):
        if title == expected:
            return []
        beginning = title.rstrip("…").rstrip()
        cut = expected.startswith(beginning) or title.startswith(expected)
        if truth.title_is_prefix and len(beginning) > 8 and cut:
            return []
    return [f"{truth.titles[0]!r} expected, {found.title!r} found"]


def check_parent(home: Home, truth: Truth, found: Found) -> list[str]:
    """The parent's session id and kind; linked where the parent is in the home, else only named."""
    problems = []
    if found.kind != truth.kind and not (truth.shared and found.kind == "fork"):
        problems.append(f"kind {truth.kind} expected, {found.kind} found")
    if found.parent_session_id != truth.parent:
        problems.append(f"parent {truth.parent!r} expected, {found.parent_session_id!r} found")
    there = any(other.session_id == truth.parent for other in home.conversations)
    if truth.parent and found.parent != (truth.parent if there else None):
        problems.append(f"it is linked with {found.parent!r}")
    return problems


def check_inherited(home: Home, truth: Truth, found: Found) -> list[str]:
    """A fork shows the turns that it inherited, then its own, and owns only these."""
    assert truth.inherited is not None
    rows = [row for row in found.rows if row.kind in (*PROMPTS, *REPLIES) and row.content.strip()]
    own = [row for row in rows if row.own]
    problems = align(truth.inherited, [row.content for row in rows if not row.own])[1]
    if rows[len(rows) - len(own) :] != own:
        problems.append("its own messages do not come last")
    return problems


def check_git_branch(home: Home, truth: Truth, found: Found) -> list[str]:
    assert truth.git_branches is not None
    if found.git_branch in truth.git_branches:
        return []
    return [f"{truth.git_branches} expected, {found.git_branch!r} found"]


def check_project(home: Home, truth: Truth, found: Found) -> list[str]:
    """The directory that the conversation began in, and the project of that path. Which way its
    slashes lean is not compared."""

    def slashes(path: str | None) -> str | None:
        return path and path.replace("\\", "/")

    problems = []
    expected = slashes(truth.project_path)
    if slashes(found.cwd) != expected and (found.cwd or truth.source in TERMINAL):
        problems.append(f"cwd {truth.project_path!r} expected, {found.cwd!r} found")
    if slashes(found.project) != expected:
        problems.append(f"project {truth.project_path!r} expected, {found.project!r} found")
    return problems


def check_models(home: Home, truth: Truth, found: Found) -> list[str]:
    """Every model that answered, and one of them as the conversation's."""
    models = {row.model for row in found.seen(truth) if row.model}
    if truth.model_alias is not None:
        wrong = {model for model in models | {found.model or ""} if truth.model_alias not in model}
        if wrong or not models:
            return [f"{truth.model_alias!r} expected, {sorted(wrong)} found"]
        return []
    expected = {model.removeprefix("copilot/") for model in truth.models or []}
    if "auto" in expected:
        return []  # which one that was is not known
    accepted: set[str | None] = {*expected} or {None}
    if truth.parent and not expected:
        # its own records name none: it goes on with what it copied
        for parent in home.conversations:
            if parent.session_id == truth.parent:
                accepted |= {*(parent.models or [])}
                expected = set(parent.models or []) & models
    problems = []
    if models != expected:
        problems.append(f"{sorted(expected)} expected, {sorted(models)} found")
    if found.model not in accepted:
        problems.append(f"{accepted} expected, the conversation's is {found.model!r}")
    return problems


def check_version(home: Home, truth: Truth, found: Found) -> list[str]:
    assert truth.versions
    if found.version in truth.versions:
        return []
    return [f"{truth.versions} expected, {found.version!r} found"]


def check_attachments(home: Home, truth: Truth, found: Found) -> list[str]:
    """Images and documents that a person gave: their number, with the prompt that they came with
    where it is known."""
    rows = found.of_kind(truth, PROMPTS)
    if truth.attachments is None:
        images = sum(row.attachments.count("image") for row in rows)
        return [] if images == truth.images else [f"{truth.images} images, not {images}"]
    expected = Counter(truth.attachments)
    given = Counter(
        (plain(row.content), row.attachments.count("image"), row.attachments.count("document"))
        for row in rows
        if row.attachments
    )
    wanted = Counter({(plain(text), i, d): n for (text, i, d), n in expected.items() if i or d})
    if given == wanted:
        return []
    return [f"{dict(wanted)} expected, {dict(given)} found"]


def check_states(home: Home, truth: Truth, found: Found) -> list[str]:
    """What a rewind or a rollback undid is marked, everything else is active."""
    assert truth.undone is not None
    rows = [row for row in found.seen(truth) if row.state != "active"]
    texts = [row.content for row in rows if row.kind in (*PROMPTS, *REPLIES) and row.content]
    if "texts" in truth.undone:
        return align([Text(text) for text in truth.undone["texts"]], texts)[1]
    problems = align(
        [Text(text) for text in truth.undone["prompts"]],
        [row.content for row in rows if row.kind in PROMPTS],
    )[1]
    for name, count in (
        ("replies", sum(row.kind in REPLIES and bool(row.content.strip()) for row in rows)),
        ("tool_calls", sum(len(row.calls) for row in rows)),
    ):
        if count != truth.undone[name]:
            problems.append(f"{truth.undone[name]} {name} undone, not {count}")
    return problems


def check_order(home: Home, truth: Truth, found: Found) -> list[str]:
    """Everything in the order in which it was said, prompts, thinking, replies and tool calls
    among each other; where only ids or records are known: in the order of these."""
    if truth.message_ids is not None:
        wanted_ids = {uid: place for place, uid in enumerate(truth.message_ids)}
        uids = [
            row.uid.removeprefix(f"{truth.session_id}:")
            for row in found.of_kind(truth, (*PROMPTS, *REPLIES, "task"))
        ]
        if not set(uids) <= set(wanted_ids):
            return [f"unknown ids: {[uid for uid in uids if uid not in wanted_ids]}"]
        return [
            f"{after} comes after {before}"
            for before, after in pairwise(uids)
            if wanted_ids[after] < wanted_ids[before]
        ]
    if truth.order is None:
        records = [row.record for row in found.seen(truth) if row.record is not None]
        if records == sorted(records):
            return []
        return [
            f"record {after} comes after record {before}"
            for before, after in pairwise(records)
            if after < before
        ]
    places: dict[tuple[str, int], tuple[int, int]] = {}
    prompts = {id(row) for row in _prompt_rows(home, truth, found)}
    lists: dict[str, list[tuple[tuple[int, int], str]]] = {
        name: [] for name in ("prompts", "replies", "thinking", "calls")
    }
    for number, row in enumerate(found.seen(truth)):
        if id(row) in prompts:
            lists["prompts"].append(((number, 0), row.content))
        if row.thinking:
            lists["thinking"].append(((number, 1), row.thinking))
        if row.kind in REPLIES and row.content.strip():
            lists["replies"].append(((number, 2), row.content))
        lists["calls"] += [((number, 3 + i), call.name) for i, call in enumerate(row.calls)]
    wanted: dict[str, list[Text]] = {
        "prompts": truth.prompts,
        "replies": _parts(truth),
        "thinking": truth.thinking or [],
        "calls": [Text(call.name) for call in truth.calls],
    }
    for name, texts in wanted.items():
        for indexes, column in align(texts, [text for _, text in lists[name]])[0]:
            for index in indexes:
                if not texts[index].floating:
                    places[name, index] = lists[name][column][0]
    sequence = [(item, places[item]) for item in truth.order if item in places]
    problems = []
    for (before, place), (after, other) in pairwise(sequence):
        if other < place:
            problems.append(f"{after} comes before {before}")
    return problems


def check_archived(home: Home, truth: Truth, found: Found) -> list[str]:
    if found.archived == truth.archived:
        return []
    return [f"archived is {found.archived}, not {truth.archived}"]


def check_harness(home: Home, truth: Truth, found: Found) -> list[str]:
    """What the harness wrote, by kind: a compaction leaves its summary, an interruption a mark."""
    counts = Counter(row.kind for row in found.seen(truth))
    problems = []
    for kind, count in (truth.harness or {}).items():
        if counts[kind] != count:
            problems.append(f"{count} of kind {kind} expected, {counts[kind]} found")
    for text in truth.summaries or []:
        summaries = [row.content for row in found.of_kind(truth, ("summary",))]
        if not any(plain(text) in plain(summary) for summary in summaries):
            problems.append(f"no summary holds {short(text)!r}")
    # a refused tool is a mark, too, of which the recorder says nothing
    if counts["interruption"] < (truth.interruptions or 0):
        problems.append(f"{truth.interruptions} interruptions, not {counts['interruption']}")
    return problems


@dataclass(frozen=True)
class Field:
    """How a field is compared, and of which conversations something is known."""

    check: Callable[[Home, Truth, Found], list[str]]
    known: Callable[[Truth], bool]


def _always(truth: Truth) -> bool:
    return True


FIELDS = {
    "prompts": Field(check_prompts, _always),
    "tasks": Field(check_tasks, lambda truth: bool(truth.tasks)),
    "answers": Field(check_answers, lambda truth: truth.answers is not None),
    "replies": Field(check_replies, _always),
    "roles": Field(check_roles, _always),
    "thinking": Field(
        check_thinking,
        lambda truth: truth.thinking is not None or truth.thinking_counts is not None,
    ),
    "calls": Field(check_calls, _always),
    # Trae names the tools of a plan without their input
    "call_inputs": Field(
        check_call_inputs, lambda truth: bool(truth.calls) and truth.source != "trae"
    ),
    "call_outputs": Field(check_call_outputs, lambda truth: bool(truth.calls)),
    "call_errors": Field(check_call_errors, lambda truth: bool(truth.calls)),
    "tokens_in": Field(check_tokens_in, lambda truth: truth.tokens is not None),
    "tokens_out": Field(check_tokens_out, lambda truth: truth.tokens is not None),
    "title": Field(check_title, lambda truth: bool(truth.titles)),
    "parent": Field(check_parent, _always),
    "inherited": Field(check_inherited, lambda truth: truth.inherited is not None),
    "git_branch": Field(check_git_branch, lambda truth: truth.git_branches is not None),
    "project": Field(check_project, lambda truth: truth.project_path is not None),
    "models": Field(
        check_models, lambda truth: truth.models is not None or truth.model_alias is not None
    ),
    "version": Field(check_version, lambda truth: truth.versions is not None),
    "attachments": Field(
        check_attachments,
        lambda truth: truth.images is not None or truth.attachments is not None,
    ),
    "states": Field(check_states, lambda truth: truth.undone is not None),
    "order": Field(check_order, _always),
    "archived": Field(check_archived, lambda truth: truth.archived is not None),
    "harness": Field(
        check_harness,
        lambda truth: bool(truth.summaries or truth.interruptions) or truth.harness is not None,
    ),
}


# ----------------------------------------------------------------------------- the whole database


def check_conversations(home: Home, pairs: dict[str, Found | None], left: list[Found]) -> list[str]:
    """None lost, none invented, none twice, under the right session ids."""
    problems = [f"lost: {key}" for key, found in pairs.items() if found is None]
    for item in left:
        texts = [row.content for row in item.rows if row.kind in PROMPTS]
        history = item.kind == "prompt-history" and set(texts) <= set(home.history_only)
        if not history:
            problems.append(f"invented: {item.source} {item.session_id} {short(item.title)!r}")
    return problems


def check_totals(home: Home, source: str, totals: Totals) -> list[str]:
    """Prompts, words of replies and tool calls of all conversations together, each once although
    files repeat them: of those that share messages, what any of them has."""
    truths = [truth for truth in home.conversations if truth.source == source]
    optional = [
        text for truth in truths for text in (*truth.prompts, *_parts(truth)) if text.optional
    ]
    prompts: Counter[str] = Counter()
    replies: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    shared: dict[str, Counter[str]] = {name: Counter() for name in ("p", "r", "c")}
    for truth in truths:
        said = Counter(plain(text.text) for text in truth.prompts if not text.optional)
        answered = Counter(plain(part.text) for part in _parts(truth) if not part.optional)
        called = Counter(f"{number} {call.call_id}" for number, call in enumerate(truth.calls))
        if truth.shared:
            assert all(call.call_id for call in truth.calls)
            shared["p"] |= said
            shared["r"] |= answered
            shared["c"] |= Counter(call.call_id or "" for call in truth.calls)
        else:
            prompts, replies, calls = prompts + said, replies + answered, calls + called
    prompts, replies, calls = prompts + shared["p"], replies + shared["r"], calls + shared["c"]
    required = [
        text for truth in truths for text in (*truth.prompts, *_parts(truth)) if not text.optional
    ]

    def known(texts: list[str]) -> list[str]:
        """Without empty ones (an image alone) and those that may be missing."""
        return [
            text
            for text in map(plain, texts)
            if text
            and (
                any(other.is_(text) for other in required)
                or not (is_free_command(home, text) or any(other.is_(text) for other in optional))
            )
        ]

    problems = []
    wanted = sum(count for text, count in prompts.items() if text)
    if len(known(totals.prompts)) != wanted:
        problems.append(f"{wanted} prompts expected, {len(known(totals.prompts))} found")
    if all(truth.turns is None for truth in truths):
        words = sum(len("".join(text.split())) * count for text, count in replies.items())
        found = sum(len("".join(text.split())) for text in known(totals.replies))
        if found != words:
            problems.append(f"{words} characters of replies expected, {found} found")
    if totals.calls != calls.total():
        problems.append(f"{calls.total()} tool calls expected, {totals.calls} found")
    return problems
