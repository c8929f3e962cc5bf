"""The records of a Claude Code transcript, one after the other, as messages.

A transcript is a JSON Lines file of about 50 types of records. What a record is, is decided by its
type and flags; tags in a text count only where no flag can say it (older versions, ``!cmd``,
interruptions), and then only when they make up the whole text: people and models quote them.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from ..model import (
    PROMPT_KINDS,
    Attachment,
    FileRecords,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    Tokens,
)
from ..text import count, iso_time, json_start, json_text
from .claude_branches import root_key
from .claude_tools import (
    AGENT_TOOLS,
    answers,
    attachment_of,
    block_text,
    finish_call,
    input_edits,
    outsourced_output,
    plain,
    result_content,
    wants_input_edits,
)
from .jsonl import decode, read_lines

SOURCE = "claude-code"

#: An API message whose latest row stands further back than this begins a new row.
REACH = 100
# What became of a record
KEPT, IGNORED, UNKNOWN, HELD = 1, 0, -1, -2

Record = dict[str, Any]

# ------------------------------------------------------------------------------- kinds of records

#: Records that hold nothing of a conversation. Seen in 1.0.17 to 2.1.332; ``progress`` repeats what
#: tools and subagents say elsewhere, ``api-request-blob`` repeats prompts.
NOISE = frozenset(
    (
        "file-history-snapshot",
        "file-history-delta",
        "progress",
        "last-prompt",
        "permission-mode",
        "mode",
        "agent-name",
        "agent-color",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "tools-used",
        "relocated",
        "pr-link",
        "frame-link",
        "bridge-session",
        "speculation-accept",
        "content-replacement",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "started",
        "result",
        "tag",
        "task-summary",
    )
)
#: ``system`` records, likewise.
NOISE_SYSTEM = frozenset(
    (
        "turn_duration",
        "compact_boundary",
        "microcompact_boundary",
        "session_start",
        "bridge_status",
        "agents_killed",
        "thinking",
        "file_snapshot",
        "memory_saved",
        "permission_retry",
        "scheduled_task_fire",
    )
)
#: ``attachment`` records, likewise: reminders to the model, listings, deltas.
NOISE_ATTACHMENTS = frozenset(
    (
        "agent_listing_delta",
        "agent_mention",
        "agent_pending_messages",
        "async_hook_response",
        "auto_mode",
        "auto_mode_exit",
        "bagel_console",
        "bash_steering",
        "budget_usd",
        "command_permissions",
        "compact_file_reference",
        "compaction_reminder",
        "companion_intro",
        "context_efficiency",
        "critical_system_reminder",
        "current_session_memory",
        "date",
        "date_change",
        "deferred_tools_delta",
        "diagnostics",
        "dynamic_skill",
        "edited_image_file",
        "edited_text_file",
        "environment",
        "hook_permission_decision",
        "hook_success",
        "instructions",
        "invoked_skills",
        "mcp_instructions_delta",
        "mcp_resource",
        "model",
        "nested_memory",
        "output_style",
        "output_token_usage",
        "plan_file_reference",
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "prompt_snapshot",
        "relevant_memories",
        "remote_session_change",
        "sandbox_mode",
        "session_context",
        "skill_discovery",
        "skill_listing",
        "structured_output",
        "task_reminder",
        "task_status",
        "team_context",
        "teammate_mailbox",
        "teammate_shutdown_batch",
        "todo",
        "todo_reminder",
        "todo_reminders",
        "token_usage",
        "total_tokens_reminder",
        "ultra_effort_enter",
        "ultra_effort_exit",
        "ultramemory",
        "ultrathink_effort",
        "unknown_command_fallback",
        "verify_plan_reminder",
    )
)
_HOOK_ATTACHMENTS = frozenset(
    (
        "hook_additional_context",
        "hook_blocking_error",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_stopped_continuation",
        "hook_system_message",
    )
)

_NOISE_BYTES = frozenset(kind.encode() for kind in NOISE)
#: Attachments that are large (more than half of the bytes of a 2.1.332 file) and hold nothing of the
#: conversation, recognised at their beginning; ``progress`` in the two orders of keys seen.
_NOISE_LINE = re.compile(
    rb'\{"parentUuid":(?:null|"[^"\\]{1,64}"),"isSidechain":(?:true|false),'
    rb'(?:"(?:agentId|userType|cwd|sessionId|version|gitBranch|slug|entrypoint)":'
    rb'"(?:[^"\\]|\\.){0,1024}",){0,10}'
    rb'(?:"type":"progress"|"attachment":\{"type":"(?:'
    + "|".join(sorted(NOISE_ATTACHMENTS)).encode()
    + rb')")[,}]'
)


def is_noise(line: bytes) -> bool:
    """Whether a line is a whole record that is known to hold nothing, told from its first bytes.
    A line that may hold two records, glued together by an appender, is decoded."""
    if line[-1:] != b"}":
        return False
    if line.startswith(b'{"type":"'):
        end = line.find(b'"', 9, 48)
        noise = end > 0 and line[9:end] in _NOISE_BYTES and line[end + 1 : end + 2] in b",}"
    elif line.find(b'"attachment":{', 0, 512) > 0 or line.find(b'"type":"progress"', 0, 1024) > 0:
        noise = _NOISE_LINE.match(line) is not None
    else:
        return False
    return noise and b"}{" not in line


# ------------------------------------------------------------------------------- texts with tags

_INTERRUPTED = frozenset(
    ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
)
_COMMAND_TAGS = ("command-name", "command-message", "command-args", "skill-format")
_IDE_TAGS = ("ide_opened_file", "ide_selection", "ide_diagnostics", "system-reminder")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UNKNOWN_COMMAND = re.compile(r"Unknown (?:slash command|skill): \S{1,100}")
_SLASH = re.compile(r"/[A-Za-z][\w:.-]{0,100}(?=\s|$)(?!/)")


def wrapped(text: str, tag: str) -> str | None:
    """What stands in ``<tag>…</tag>`` when that is the whole text, else ``None``."""
    text = text.strip()
    start, end = f"<{tag}>", f"</{tag}>"
    if text.startswith(start) and text.endswith(end) and len(text) >= len(start) + len(end):
        return text[len(start) : len(text) - len(end)]
    return None


def command_text(text: str) -> str | None:
    """``/name arguments`` of a text that consists only of ``<command-name>``, ``<command-message>``
    and ``<command-args>`` (their order varies), else ``None``."""
    if "<command-name>" not in text:
        return None
    found: dict[str, str] = {}
    rest = text.strip()
    while rest:
        for tag in _COMMAND_TAGS:
            if tag not in found and rest.startswith(f"<{tag}>"):
                end = rest.find(f"</{tag}>")
                # arguments are a person's text and may quote their own end tag
                last = tag == "command-args" and rest.endswith(f"</{tag}>")
                if last and not any(f"<{other}>" in rest[end:] for other in _COMMAND_TAGS[:2]):
                    end = len(rest) - len(tag) - 3
                if end < 0:
                    return None
                found[tag] = rest[len(tag) + 2 : end]
                rest = rest[end + len(tag) + 3 :].lstrip()
                break
        else:
            return None
    name = found.get("command-name", "").strip()
    if not name:
        return None
    if not name.startswith("/"):
        name = "/" + name
    return f"{name} {found.get('command-args', '').strip()}".rstrip()


def local_output(text: str) -> str | None:
    """The output of a command that ran in the client (``<local-command-stdout>`` or ``-stderr``,
    ``<bash-stdout>…</bash-stdout><bash-stderr>…</bash-stderr>``), without terminal colours, or
    ``None`` where the text is anything else."""
    stripped = text.strip()
    if stripped.startswith("<local-command-std"):
        inner = wrapped(stripped, "local-command-stdout")
        if inner is None:
            inner = wrapped(stripped, "local-command-stderr")
        return None if inner is None else _ANSI.sub("", inner).strip("\n")
    if stripped.startswith(("<bash-stdout>", "<bash-stderr>")):
        inner = wrapped(stripped, "bash-stdout")
        if inner is None and stripped.endswith("</bash-stderr>"):
            if stripped.startswith("<bash-stderr>"):
                inner = stripped[13:-14]
            else:
                middle = stripped.rfind("</bash-stdout>")
                if middle >= 0:
                    errors = stripped[middle + 14 : -14].lstrip()
                    if errors.startswith("<bash-stderr>"):
                        parts = (stripped[13:middle], errors[13:])
                        inner = "\n".join(part.strip("\n") for part in parts if part.strip())
        return None if inner is None else _ANSI.sub("", inner).strip("\n")
    return None


def typed_kind(text: str) -> str:
    """Whether typed text is a plain prompt or a slash command."""
    return "command" if "\n" not in text and _SLASH.match(text) else "prompt"


def flagged_kind(record: Record) -> str | None:
    """The kind of a user record's text where a flag says it (1.0.128 … 2.1.332), else ``None``."""
    if record.get("isCompactSummary") is True:
        return "summary"
    if record.get("isMeta") is True:
        return "context"
    origin = record.get("origin")
    if isinstance(origin, dict):
        origin = origin.get("kind")
    source = record.get("promptSource")
    if (isinstance(origin, str) and origin != "human") or source == "system":
        return "notification"
    return "prompt" if isinstance(source, str) and source else None


def told_kind(text: str) -> tuple[str, str]:
    """Kind and content of a text that no flag describes, by what makes up the whole of it."""
    head = text[:1]
    if head == "<" or head.isspace():
        command = command_text(text)
        if command is not None:
            return "command", command
        shell = wrapped(text, "bash-input")
        if shell is not None:
            return "shell", "!" + shell
        output = local_output(text)
        if output is not None:
            return "local-output", output
        note = text.lstrip()
        if note.startswith("<task-notification>") and "</task-notification>" in note:
            return "notification", text
        memory = wrapped(text, "user-memory-input")
        if memory is not None:
            return "command", "# " + memory
        caveat = wrapped(text, "local-command-caveat")
        if caveat is not None and caveat.startswith("Caveat: The messages below were gen"):
            return "context", text
    elif head == "[":
        if text.strip() in _INTERRUPTED:
            return "interruption", text
    elif head == "U":
        if _UNKNOWN_COMMAND.fullmatch(text):
            return "local-output", text
    elif head == "C" and text.startswith(
        "Caveat: The messages below were generated by the user while running local commands."
    ):
        return "context", text
    return "prompt", text


# ------------------------------------------------------------------------------- one conversation


class Answer:
    """An API message (``message.id``): the row of its latest step, and its usage so far."""

    __slots__ = ("cost", "index", "row", "settled", "stop", "tokens")

    def __init__(self) -> None:
        self.row: ParsedMessage | None = None
        self.index = -1
        self.tokens: Tokens | None = None
        self.settled = False  # its usage stands on a row that is out of reach
        self.stop: object = None
        self.cost = 0.0


class Thread:
    """A conversation that is being built: the main one, a subagent's, or a sidechain that 1.0.x
    keeps inside the main file."""

    def __init__(self, conversation: ParsedConversation, agent: bool) -> None:
        self.conversation = conversation
        self.messages = conversation.messages
        # only interleaved lines of one message.id ever come back to an older row
        self.messages.window = REACH
        self.agent = agent
        self.steps: dict[str, int] = {}
        self.recent: dict[str, Answer] = {}
        self.calls: dict[str, tuple[ParsedMessage, ParsedToolCall]] = {}
        self.models: Counter[str] = Counter()
        self.last: ParsedMessage | None = None
        self.last_answer: Answer | None = None
        self.last_person: ParsedMessage | None = None
        self.task_calls: dict[str, ParsedToolCall] = {}
        self.call_count = 0
        self.cost = 0.0

    def append(self, message: ParsedMessage) -> int:
        self.last = message
        return self.messages.append(message)

    def answer(self, message_id: str) -> Answer | None:
        return self.recent.get(message_id)

    def new_answer(self, message_id: str) -> Answer:
        answer = self.recent[message_id] = Answer()
        if len(self.recent) > 64:
            oldest = next(iter(self.recent))
            del self.recent[oldest]
        return answer

    def finish(self) -> None:
        """Settles what only the end of the file can tell."""
        if self.models:
            self.conversation.model = self.models.most_common(1)[0][0]
        for row, call in self.calls.values():
            if row is not self.last:  # the conversation went on without its result
                call.status = "interrupted"


class Transcript:
    """Reads the files of one conversation, record by record, into :class:`Thread` objects.

    ``folder`` is the directory that bears the session's name beside its file: oversized outputs and
    subagents lie there. ``agent_of`` tells which subagent a tool call started, by its id.
    """

    def __init__(
        self,
        session_id: str,
        folder: Path,
        *,
        agent: bool = False,
        agent_of: Callable[[str], str | None] | None = None,
    ) -> None:
        kind = "subagent" if agent else "main"
        self.session_id = session_id
        self.main = Thread(ParsedConversation(SOURCE, session_id, kind), agent)
        self.sidechains: dict[str, Thread] = {}
        self.sidechain_of: dict[str, Thread] = {}
        self.outputs = folder / "tool-results"
        self.agent = agent
        self.agent_of = agent_of or (lambda call_id: None)
        self.file_number = 0
        self.first_file = True
        self.places: set[str] = set()
        self.answered = 0  # answers of a person in the record at hand
        self.fresh = True  # no chained record of this file was read yet
        self.seen: set[int] = set()
        # titles
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        self.summaries: list[tuple[str, str]] = []
        # prompts typed while Claude worked
        self.queue: deque[tuple[str, str | None, int]] = deque()
        self.removed: list[tuple[str, str | None, int, bool]] = []
        self.delivered: dict[str, int] = {}
        # copies
        self.parent: str | None = None
        self.parent_agent: str | None = None
        self.own_session = False
        self.foreign: str | None = None
        self.own_start: str | None = None
        self.copied = False
        self.replay: list[tuple[Record, int]] | None = None
        self.flushing = False
        # branches
        self.prompt_parents: set[int] = set()
        self.branched = False
        self.original_cwd: str | None = None
        self.total_cost: float | None = None
        self.session_of_records: str | None = None
        self.meta: dict[str, Any] = {}
        self.records = FileRecords("")
        self.handlers: dict[str, Callable[[Record, int], int]] = {
            "assistant": self.assistant,
            "user": self.user,
            "attachment": self.attachment,
            "system": self.system,
            "queue-operation": self.queue_operation,
            "summary": self.summary,
            "ai-title": self.title,
            "custom-title": self.title,
            "worktree-state": self.worktree,
            "cost-state": self.cost_state,
        }

    # ---------------------------------------------------------------------------- reading

    def read(self, path: str) -> FileRecords:
        """Reads a file of the conversation; the one that comes first is the one that counts where
        they differ. Raises :class:`OSError`."""
        records = self.records = FileRecords(path)
        self.file_number += 1
        handlers = self.handlers
        kept = ignored = 0
        self.fresh = True
        for number, line in read_lines(path):
            if is_noise(line):
                records.records += 1
                ignored += 1
                continue
            try:
                values: list[Any] = [orjson.loads(line)]
            except orjson.JSONDecodeError:
                values, malformed = decode(line)
                if malformed:
                    records.records += 1
                    records.malformed += 1
            for record in values:
                records.records += 1
                if not isinstance(record, dict):
                    records.malformed += 1
                    continue
                kind = record.get("type")
                handler = handlers.get(kind) if isinstance(kind, str) else None
                if handler is not None:
                    if self.replay is not None:
                        outcome = self.replayed(record, number, handler)
                    else:
                        outcome = handler(record, number)
                elif isinstance(kind, str) and kind in NOISE:
                    outcome = IGNORED
                else:
                    records.add_unknown(f"line {number + 1}", _name(kind), sample(record))
                    continue
                if outcome > 0:
                    kept += 1
                elif outcome == IGNORED:
                    ignored += 1
        records.kept += kept
        records.ignored += ignored
        self.end_replay()
        self.flush_removed(everything=True)
        self.first_file = False
        return records

    def line(self, number: int) -> int | None:
        """A record number for a message: those of a second file mean nothing."""
        return number if self.first_file else None

    def place(self, number: int, kind: str = "line") -> str:
        """An id for what has none: where it stands."""
        file = "" if self.first_file else f"{self.file_number}."
        place = base = f"{kind}-{file}{number}"
        again = 1
        while place in self.places:  # several records on one line
            again += 1
            place = f"{base}.{again}"
        self.places.add(place)
        return place

    def unknown(self, number: int, type_: str, record: Record) -> int:
        self.records.add_unknown(f"line {number + 1}", type_, sample(record))
        return UNKNOWN

    # ---------------------------------------------------------------------------- what all share

    def header(self, record: Record, uuid: str) -> bool:
        """Takes what any chained record says about the session. False when the record was read
        before: files repeat lines (28 in 2 files), and copies of a file hold the same ones."""
        key = hash(uuid)
        if uuid:
            if key in self.seen:
                return False
            self.seen.add(key)
        conversation = self.main.conversation
        if conversation.cwd is None:
            cwd = record.get("cwd")
            if isinstance(cwd, str) and cwd:
                conversation.cwd = plain(cwd)
        if conversation.git_branch is None:
            branch = record.get("gitBranch")
            if isinstance(branch, str) and branch:
                conversation.git_branch = plain(branch)
        version = record.get("version")
        if isinstance(version, str) and self.first_file:
            conversation.tool_version = version
        self.copied = False
        session = record.get("sessionId")
        if session != self.session_id and isinstance(session, str) and session:
            if self.session_of_records is None:
                self.session_of_records = plain(session)
            if not self.agent and self.foreign is None and not self.own_session:
                self.foreign = plain(session)
            self.copied = session == self.foreign and not self.agent
        else:
            self.own_session = True
        origin = record.get("forkedFrom")
        if origin is not None:
            origin = origin.get("sessionId") if isinstance(origin, dict) else None
            if isinstance(origin, str) and origin != self.session_id:
                self.parent = plain(origin)
                self.copied = True
        else:
            origin = record.get("requestSessionId")
            if isinstance(origin, str) and origin != self.session_id and not self.agent:
                self.parent = plain(origin)
                self.copied = True
        if self.copied:
            self.own_start = None
        elif self.own_start is None:
            self.own_start = iso_time(record.get("timestamp"))
        if self.agent and self.parent_agent is None:
            above = record.get("parentAgentId")
            if isinstance(above, str) and above:
                self.parent_agent = plain(above)
        return True

    def thread(self, record: Record, uuid: str, number: int) -> Thread:
        """The conversation that a record belongs to: its own for each sidechain of 1.0.x."""
        if self.agent or record.get("isSidechain") is not True:
            return self.main
        parent = record.get("parentUuid")
        thread = self.sidechain_of.get(parent) if isinstance(parent, str) else None
        if thread is None:
            agent = record.get("agentId")
            message = record.get("message")
            prompt = message.get("content") if isinstance(message, dict) else None
            begins = isinstance(prompt, str) and prompt in self.main.task_calls
            if isinstance(agent, str) and agent:
                session_id = "agent-" + plain(agent)
            elif parent is None or begins or not self.sidechains:
                session_id = f"{self.session_id}:sidechain-{uuid or number}"
            else:
                session_id = next(reversed(self.sidechains))  # its parent was not written
            thread = self.sidechains.get(session_id)
            if thread is None:
                conversation = ParsedConversation(SOURCE, session_id, "subagent")
                conversation.parent_session_id = self.session_id
                thread = Thread(conversation, agent=True)
            else:
                del self.sidechains[session_id]
            self.sidechains[session_id] = thread
        if uuid:
            self.sidechain_of[uuid] = thread
        return thread

    # ---------------------------------------------------------------------------- assistant

    def assistant(self, record: Record, number: int) -> int:
        message = record.get("message")
        if not isinstance(message, dict):
            return self.unknown(number, "assistant", record)
        uuid = record.get("uuid")
        if not isinstance(uuid, str):
            uuid = ""
        if not self.header(record, uuid):
            return IGNORED
        self.fresh = False
        thread = self.main
        if record.get("isSidechain") is True and not self.agent:
            thread = self.thread(record, uuid, number)
        model = message.get("model")
        content = message.get("content")
        if model == "<synthetic>" or record.get("isApiErrorMessage") is True:
            return self.synthetic(thread, record, content, uuid, number)
        message_id = message.get("id")
        if not isinstance(message_id, str) or not message_id:
            message_id = uuid
        elif message_id != uuid and hash(message_id) in self.seen:
            message_id += "#message"  # never seen: another record's uuid
        key = message_id or self.place(number)
        answer = thread.recent.get(key)
        if answer is not None:
            if len(thread.messages) - answer.index > REACH and answer.row is not None:
                answer.settled = answer.settled or answer.tokens is not None
                answer.row = answer.tokens = None
        else:
            if self.removed and thread is self.main:
                self.flush_removed()
            answer = thread.new_answer(key)
            if key not in thread.steps:
                thread.steps[key] = 0
                if isinstance(model, str) and model:
                    thread.models[model] += 1
        time = iso_time(record.get("timestamp"))
        kept = False
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if isinstance(content, list):
            for block in content:
                if not isinstance(block, dict):
                    continue
                type_ = block.get("type")
                if type_ == "tool_use":
                    self.tool_use(thread, answer, key, block, time, model, number)
                    kept = True
                elif type_ == "text":
                    text = block.get("text")
                    if isinstance(text, str) and text and not text.isspace():
                        text = plain(text)
                        row = answer.row
                        if row is None or row.tool_calls:
                            row = self.step(thread, answer, key, time, model, number)
                            row.content = text
                        elif row.content:
                            row.content = f"{row.content}\n\n{text}"
                        else:
                            row.content = text
                        thread.messages.grew(len(text))
                        kept = True
                elif type_ == "thinking":
                    text = block.get("thinking")
                    if isinstance(text, str) and text and not text.isspace():
                        text = plain(text)
                        row = answer.row
                        if row is None or row.content or row.thinking or row.tool_calls:
                            row = self.step(thread, answer, key, time, model, number)
                        row.thinking = text
                        thread.messages.grew(len(text))
                        kept = True
                elif isinstance(type_, str):
                    kept |= self.other_block(thread, answer, key, block, time, model, number)
        stop = message.get("stop_reason")
        if stop is not None:
            answer.stop = stop
        usage = message.get("usage")
        if isinstance(usage, dict) and not answer.settled:
            tokens = tokens_of(usage)
            if tokens is not None:
                answer.tokens = tokens
                if answer.row is not None:
                    answer.row.tokens = tokens
        if record.get("isAbortedMidStream") is True and answer.row is not None:
            answer.row.kind = "partial"
        if "costUSD" in record:
            cost = record["costUSD"]
            if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < 1e6:
                thread.cost += cost - answer.cost
                answer.cost = float(cost)
        thread.last_answer = answer
        return KEPT if kept or answer.row is not None else IGNORED

    def step(
        self,
        thread: Thread,
        answer: Answer,
        key: str,
        time: str | None,
        model: object,
        number: int,
    ) -> ParsedMessage:
        """Begins a row for the next step of an API message. Usage stands on the last one."""
        done = thread.steps[key] = thread.steps[key] + 1
        row = ParsedMessage(
            key if done == 1 else f"{key}#{done}",
            "assistant",
            "reply",
            timestamp=time,
            model=model if isinstance(model, str) and model else None,
            shared_uid=key not in self.places,
            inherited=self.copied and self.parent is not None and thread is self.main,
            record=self.line(number),
        )
        if answer.row is not None:
            answer.row.tokens = None
        row.tokens = answer.tokens
        answer.row = row
        answer.index = thread.append(row)
        return row

    def tool_use(
        self,
        thread: Thread,
        answer: Answer,
        key: str,
        block: Record,
        time: str | None,
        model: object,
        number: int,
    ) -> None:
        row = answer.row
        if row is None:
            row = self.step(thread, answer, key, time, model, number)
        given = block.get("input")
        text = input_text(given) if given is not None else None
        name = block.get("name")
        call_id = block.get("id")
        call = ParsedToolCall(
            plain(name) if isinstance(name, str) and name else "unknown",
            text,
            call_id=plain(call_id) if isinstance(call_id, str) else None,
            started_at=time,
        )
        row.tool_calls.append(call)
        thread.call_count += 1
        if text is not None:
            thread.messages.grew(len(text))
        if isinstance(call_id, str):
            thread.calls[call_id] = (row, call)
        if call.name in AGENT_TOOLS and isinstance(given, dict):
            prompt = given.get("prompt")
            if isinstance(prompt, str):
                thread.task_calls.setdefault(prompt, call)

    def other_block(
        self,
        thread: Thread,
        answer: Answer,
        key: str,
        block: Record,
        time: str | None,
        model: object,
        number: int,
    ) -> bool:
        """Blocks of server tools (``server_tool_use``, ``web_search_tool_result``, 2.1.332),
        pictures; ``redacted_thinking`` and ``fallback`` hold nothing to show."""
        type_ = str(block["type"])
        if type_.endswith("tool_use"):
            self.tool_use(thread, answer, key, block, time, model, number)
            return True
        if type_.endswith("tool_result"):
            found = thread.calls.pop(_text(block.get("tool_use_id")), None)
            if found is None:
                return False
            row, call = found
            call.output = result_content(block.get("content"), row.attachments)
            content = block.get("content")
            code = content.get("error_code") if isinstance(content, dict) else None
            call.status = "error" if block.get("is_error") is True or code else "ok"
            if isinstance(code, str) and not call.output:
                call.output = plain(code)
            thread.messages.grew(len(call.output))
            return True
        attachment = attachment_of(block)
        if attachment is None:
            return False
        row_ = answer.row or self.step(thread, answer, key, time, model, number)
        row_.attachments.append(attachment)
        return True

    def synthetic(
        self, thread: Thread, record: Record, content: Any, uuid: str, number: int
    ) -> int:
        """What the client puts in the model's place: API errors, "No response requested."."""
        text = result_content(content, [])
        if not text.strip():
            return IGNORED
        error = record.get("isApiErrorMessage") is True or text.startswith("API Error")
        self.harness(thread, record, text, "error" if error else "notification", uuid, number)
        return KEPT

    def harness(
        self,
        thread: Thread,
        record: Record,
        text: str,
        kind: str,
        uuid: str,
        number: int,
        role: str = "system",
    ) -> ParsedMessage:
        """Appends a message of the harness's own, or any other that is one record."""
        uid = uuid or self.place(number)
        if uid in thread.steps:
            uid += "#record"  # a message.id was the same
        row = ParsedMessage(
            uid,
            role,
            kind,
            text,
            timestamp=iso_time(record.get("timestamp")),
            shared_uid=bool(uuid),
            inherited=self.copied and self.parent is not None and thread is self.main,
            record=self.line(number),
        )
        thread.append(row)
        thread.last_answer = None
        return row

    # ---------------------------------------------------------------------------- user

    def user(self, record: Record, number: int) -> int:
        message = record.get("message")
        if isinstance(message, str):
            message = {"content": message}
        if not isinstance(message, dict):
            return self.unknown(number, "user", record)
        content = message.get("content")
        uuid = record.get("uuid")
        if not isinstance(uuid, str):
            uuid = ""
        if (
            record.get("parentUuid") is None
            and not self.fresh
            and not self.agent
            and self.begins_replay(record, uuid)
        ):
            self.replay = [(record, number)]
            return HELD
        if not self.header(record, uuid):
            return IGNORED
        self.fresh = False
        thread = self.main
        if record.get("isSidechain") is True and not self.agent:
            thread = self.thread(record, uuid, number)
        texts: list[str] = []
        attachments: list[Attachment] = []
        kept = results = False
        self.answered = 0
        if isinstance(content, str):
            if content:
                texts.append(plain(content))
        elif isinstance(content, list):
            several = len(content) > 1
            structured = record.get("toolUseResult")
            if several and sum(map(_is_result, content)) > 1:
                structured = None  # whose it is, is not told
            for block in content:
                if isinstance(block, str):
                    texts.append(plain(block))
                    continue
                if not isinstance(block, dict):
                    continue
                type_ = block.get("type")
                if type_ == "tool_result":
                    results = True
                    kept |= self.tool_result(thread, record, block, structured, uuid, number)
                elif type_ == "text":
                    text = block_text(block)
                    if text is not None:
                        texts.append(text)
                else:
                    attachment = attachment_of(block)
                    if attachment is not None:
                        attachments.append(attachment)
        if texts or attachments:
            kept |= self.user_texts(thread, record, texts, attachments, results, uuid, number)
        return KEPT if kept else IGNORED

    def tool_result(
        self,
        thread: Thread,
        record: Record,
        block: Record,
        structured: Any,
        uuid: str,
        number: int,
    ) -> bool:
        call_id = block.get("tool_use_id")
        found = thread.calls.pop(call_id, None) if isinstance(call_id, str) else None
        if found is None:
            return False  # its call stands in another file (a fork), or it was told before
        row, call = found
        output = result_content(block.get("content"), row.attachments)
        if output.startswith("<persisted-output>") or (
            isinstance(structured, dict) and "persistedOutputPath" in structured
        ):
            output = outsourced_output(output, structured, self.outputs) or output
        finish_call(call, block, output, record, structured, iso_time(record.get("timestamp")))
        size = len(output)
        if structured is None and wants_input_edits(call) and call.input is not None:
            try:
                call.edits.extend(input_edits(call.name, orjson.loads(call.input), output))
            except orjson.JSONDecodeError:
                pass
        for edit in call.edits:
            size += len(edit.diff or "")
        for attachment in row.attachments:
            size += len(attachment.content or b"")
        thread.messages.grew(size)
        if call.subagent_session_id is None and call.name in AGENT_TOOLS:
            call.subagent_session_id = self.agent_of(str(call_id))
        if call.name == "AskUserQuestion":
            for text in answers(structured):
                self.answered += 1
                row = self.harness(thread, record, text, "answer", uuid, number, "user")
                row.uid += f"#answer{self.answered}"
        return True

    def user_texts(
        self,
        thread: Thread,
        record: Record,
        texts: list[str],
        attachments: list[Attachment],
        beside_results: bool,
        uuid: str,
        number: int,
    ) -> bool:
        """Makes messages of the texts of a user record: notes of the harness that stand as blocks
        of their own, and the prompt."""
        flagged = flagged_kind(record)
        notes: list[tuple[str, str]] = []
        if flagged is None or (flagged == "prompt" and len(texts) > 1):
            rest: list[str] = []
            for text in texts:
                if (beside_results or len(texts) > 1) and (kind := _note_kind(text)):
                    notes.append((kind, text))
                else:
                    rest.append(text)
            texts = rest
        kind, content = "", "\n".join(texts)
        if texts or attachments:
            if flagged is not None:
                kind = flagged
                if flagged == "context" and content.startswith("Stop hook feedback"):
                    kind = "hook"
            else:
                kind, content = told_kind(content)
                after_command = thread.last is not None and thread.last.kind == "command"
                if after_command and content.startswith("<local-command-stdout>"):
                    kind = "local-output" if kind == "prompt" else kind  # cut off
            if thread.agent and kind in ("prompt", "command", "shell"):
                kind = "task"
        kept = False
        for place, (note_kind, text) in enumerate(notes):
            row = self.harness(thread, record, text, note_kind, uuid, number, "user")
            if kind or place:
                row.uid += f"#note{place + 1}"
            kept = True
        if not kind or (not content.strip() and not attachments):
            return kept
        if kind == "interruption":
            self.interrupted(thread)
        if kind in PROMPT_KINDS and thread is self.main:
            self.prompt(record, content)
        row = self.harness(thread, record, content, kind, uuid, number, "user")
        row.attachments = attachments
        for attachment in attachments:
            thread.messages.grew(len(attachment.content or b""))
        if kind in PROMPT_KINDS:
            thread.last_person = row
        elif kind == "task" and thread is not self.main and len(thread.messages) == 1:
            call = self.main.task_calls.get(content)
            if call is not None and call.subagent_session_id is None:
                call.subagent_session_id = thread.conversation.session_id
                del self.main.task_calls[content]
        return True

    def prompt(self, record: Record, content: str) -> None:
        """Notes where a person's prompt stands: under which parent, and whether it was queued."""
        parent = record.get("parentUuid")
        above = parent if isinstance(parent, str) else root_key(record)
        if above is not None and self.first_file:
            key = hash(above)
            if key in self.prompt_parents:
                self.branched = True
            self.prompt_parents.add(key)
        if self.queue or self.removed:
            self.unqueue(content)
            self.flush_removed(returned=True)

    def interrupted(self, thread: Thread) -> None:
        """The answer before an interruption was cut off, unless it was complete or called a tool."""
        answer = thread.last_answer
        if answer is None or answer.row is None or answer.row is not thread.last:
            return
        if not answer.row.tool_calls and answer.stop in (None, "aborted"):
            answer.row.kind = "partial"

    # ---------------------------------------------------------------------------- copies in a file

    def begins_replay(self, record: Record, uuid: str) -> bool:
        """Whether a record may begin a copy of what this file already holds. 2.0.60 appends such
        copies, with new uuids and the old message.ids, when a session is resumed from elsewhere."""
        return (
            not self.flushing
            and bool(self.main.steps)
            and record.get("isSidechain") is not True
            and record.get("isCompactSummary") is not True
            and record.get("isMeta") is not True
            and "toolUseResult" not in record
            and hash(uuid) not in self.seen
        )

    def replayed(self, record: Record, number: int, handler: Callable[[Record, int], int]) -> int:
        """Takes a record while a copy may be under way: user records are held back until an
        assistant record tells whether its ``message.id`` is known."""
        assert self.replay is not None
        if record.get("type") == "assistant":
            message = record.get("message")
            message_id = message.get("id") if isinstance(message, dict) else None
            if isinstance(message_id, str) and message_id in self.main.steps:
                self.records.ignored += len(self.replay)
                self.replay.clear()
                return IGNORED
            self.end_replay()
            return handler(record, number)
        if record.get("type") not in ("user", "attachment", "system"):
            return handler(record, number)
        self.replay.append((record, number))
        if len(self.replay) > 200:
            self.end_replay()
        return HELD

    def end_replay(self) -> None:
        held, self.replay = self.replay, None
        if not held:
            return
        self.flushing = True  # none of these begins a copy again
        for record, number in held:
            outcome = self.handlers[record["type"]](record, number)
            if outcome > 0:
                self.records.kept += 1
            elif outcome == IGNORED:
                self.records.ignored += 1
        self.flushing = False

    # ---------------------------------------------------------------------------- attachments

    def attachment(self, record: Record, number: int) -> int:
        attachment = record.get("attachment")
        if not isinstance(attachment, dict):
            return self.unknown(number, "attachment", record)
        kind = attachment.get("type")
        if not isinstance(kind, str):
            return self.unknown(number, "attachment", record)
        if kind in NOISE_ATTACHMENTS:
            return IGNORED
        uuid = record.get("uuid")
        if not isinstance(uuid, str):
            uuid = ""
        if kind == "queued_command":
            if not self.header(record, uuid):
                return IGNORED
            thread = self.thread(record, uuid, number)
            return self.queued_command(thread, record, attachment, uuid, number)
        if kind in ("file", "directory"):
            return self.mentioned_file(record, attachment, uuid)
        if kind in _HOOK_ATTACHMENTS:
            text = _hook_text(attachment)
            if not text.strip() or not self.header(record, uuid):
                return IGNORED
            thread = self.thread(record, uuid, number)
            self.harness(thread, record, text, "hook", uuid, number)
            return KEPT
        if kind in ("opened_file_in_ide", "selected_lines_in_ide"):
            if not self.header(record, uuid):
                return IGNORED
            name = _text(attachment.get("filename"))
            text = "\n".join(part for part in (name, _text(attachment.get("content"))) if part)
            if not text:
                return IGNORED
            thread = self.thread(record, uuid, number)
            self.harness(thread, record, plain(text), "context", uuid, number)
            return KEPT
        return self.unknown(number, f"attachment/{_name(kind)}", record)

    def queued_command(
        self, thread: Thread, record: Record, attachment: Record, uuid: str, number: int
    ) -> int:
        """A prompt typed while Claude worked (2.1.97 and later; 292 of 294 stand only here)."""
        prompt = attachment.get("prompt")
        pictures: list[Attachment] = []
        if isinstance(prompt, list):
            texts: list[str] = []
            for block in prompt:
                if not isinstance(block, dict):
                    continue
                text = block_text(block)
                if text is not None:
                    texts.append(text)
                elif (picture := attachment_of(block)) is not None:
                    pictures.append(picture)
            text = "\n".join(texts)
        else:
            text = plain(_text(prompt))
        if not text.strip() and not pictures:
            return IGNORED
        origin = attachment.get("origin")
        origin = origin.get("kind") if isinstance(origin, dict) else None
        mode = attachment.get("commandMode")
        if mode == "task-notification" or (isinstance(origin, str) and origin != "human"):
            kind = "notification"
        elif attachment.get("isMeta") is True:
            kind = "context"
        elif mode == "bash":
            kind, text = "shell", "!" + text
        else:
            kind = typed_kind(text)
        if kind in ("prompt", "command") and origin is None:
            kind, text = told_kind(text) if text[:1] in "<[" else (kind, text)
        self.unqueue(text)
        place = self.delivered.pop(text.strip(), None)
        if place is not None:
            return IGNORED  # it was told by its queue-operation already
        if thread.agent and kind in PROMPT_KINDS:
            kind = "task"
        row = self.harness(thread, record, text, kind, uuid, number, "user")
        row.attachments = pictures
        if kind in PROMPT_KINDS:
            thread.last_person = row
        return KEPT

    def mentioned_file(self, record: Record, attachment: Record, uuid: str) -> int:
        """A file or directory that the prompt names with ``@``: goes with the prompt."""
        row = self.main.last_person
        if row is None or row is not self.main.last or not self.header(record, uuid):
            return IGNORED
        name = _text(attachment.get("displayPath")) or _text(attachment.get("filename"))
        name = name or _text(attachment.get("path"))
        content = attachment.get("content")
        file = content.get("file") if isinstance(content, dict) else None
        if isinstance(file, dict):
            content = file.get("content")
        found = Attachment("file" if attachment.get("type") == "file" else "directory", plain(name))
        if isinstance(content, str):
            found.media_type = "text/plain"
            found.content = content[:2_000_000].encode("utf-8", "replace")
            self.main.messages.grew(len(found.content))
        row.attachments.append(found)
        return KEPT

    # ---------------------------------------------------------------------------- the queue

    def queue_operation(self, record: Record, number: int) -> int:
        """Prompts typed while Claude worked, before 2.1.97: ``enqueue`` has the text. On
        ``dequeue`` it becomes a user record; on ``remove`` (taken into the running turn) and
        ``popAll`` (taken back to the editor) it may stand nowhere else."""
        operation = record.get("operation")
        content = record.get("content")
        if isinstance(content, list):
            content = "\n".join(
                text for block in content if isinstance(block, dict) and (text := block_text(block))
            )
        text = plain(content) if isinstance(content, str) else ""
        if operation == "enqueue":
            self.queue.append((text, iso_time(record.get("timestamp")), number))
            if len(self.queue) > 1000:
                self.queue.popleft()
        elif operation == "dequeue":
            if self.queue:
                self.queue.popleft()
        elif operation == "remove":
            at = 0
            if text:
                at = next((i for i, entry in enumerate(self.queue) if entry[0] == text), -1)
            if 0 <= at < len(self.queue):
                queued = self.queue[at]
                del self.queue[at]
                if queued[0].strip():
                    self.removed.append((*queued, False))
        elif operation == "popAll":
            self.removed.extend((*entry, True) for entry in self.queue if entry[0].strip())
            self.queue.clear()
        elif operation is not None:
            return self.unknown(number, f"queue-operation/{_name(operation)}", record)
        return IGNORED

    def unqueue(self, text: str) -> None:
        """A text of the queue arrived as a record: it is not told twice."""
        text = text.strip()
        for entry in self.removed:
            if entry[0].strip() == text:
                self.removed.remove(entry)
                return
        for queued in self.queue:
            if queued[0].strip() == text:
                self.queue.remove(queued)
                return

    def flush_removed(self, *, everything: bool = False, returned: bool = False) -> None:
        """Keeps the removed texts that arrived nowhere: those taken into the turn when the next
        answer begins, those taken back to the editor when the next prompt comes."""
        if everything:
            self.removed.extend((*entry, False) for entry in self.queue if entry[0].strip())
            self.queue.clear()
        elif not self.removed:
            return
        waiting: list[tuple[str, str | None, int, bool]] = []
        for entry in self.removed:
            text, time, number, taken_back = entry
            if not everything and taken_back != returned:
                waiting.append(entry)
                continue
            kind, text = told_kind(text)
            if kind == "prompt":
                kind = typed_kind(text)
            self.copied = False
            row = self.harness(self.main, {}, text, kind, "", number, "user")
            row.timestamp = time
            row.uid = self.place(number, "queue")
            self.delivered[text.strip()] = number
            self.records.kept += 1
            self.records.ignored -= 1  # as which its enqueue was counted
        self.removed = waiting

    # ---------------------------------------------------------------------------- system and others

    def system(self, record: Record, number: int) -> int:
        subtype = record.get("subtype")
        content = record.get("content")
        text = plain(content) if isinstance(content, str) else ""
        uuid = record.get("uuid")
        if not isinstance(uuid, str):
            uuid = ""
        self.fresh = subtype == "compact_boundary"
        kind = "notification"
        role = "system"
        if subtype == "local_command":
            kind, text = told_kind(text)
            if kind in ("prompt", "context", "interruption", "notification"):
                kind = "local-output"
            if kind == "command":
                role = "user"
        elif subtype == "api_error":
            kind, text = "error", _error_text(record)
        elif subtype == "stop_hook_summary":
            errors = record.get("hookErrors")
            kind, text = "hook", ""
            if isinstance(errors, list):
                text = "\n".join(plain(error) for error in errors if isinstance(error, str))
            reason = record.get("stopReason")
            if not text and record.get("preventedContinuation") is True and isinstance(reason, str):
                text = plain(reason)
        elif subtype in ("error", "api_refusal", "model_refusal_fallback"):
            kind = "error"
        elif subtype in ("informational", "away_summary", "warning", "info", "notice"):
            pass
        elif isinstance(subtype, str) and subtype in NOISE_SYSTEM:
            return IGNORED
        elif subtype is not None or not text:
            return self.unknown(number, f"system/{_name(subtype)}", record)
        if not text.strip() or not self.header(record, uuid):
            return IGNORED
        thread = self.thread(record, uuid, number)
        if kind == "command" and thread.agent:
            kind = "local-output"
        row = self.harness(thread, record, text, kind, uuid, number, role)
        if kind == "command":
            thread.last_person = row
        return KEPT

    def summary(self, record: Record, number: int) -> int:
        """The title of a session, up to 2.1.27; of another session in 129 of 356 cases."""
        text, leaf = record.get("summary"), record.get("leafUuid")
        if not isinstance(text, str) or not isinstance(leaf, str):
            return IGNORED
        if text.startswith('{"title"'):
            try:
                title = orjson.loads(text)
                text = title["title"] if isinstance(title["title"], str) else text
            except (orjson.JSONDecodeError, KeyError, TypeError):
                pass
        if text.strip() and len(self.summaries) < 1000:
            self.summaries.append((plain(text), leaf))
        return KEPT

    def title(self, record: Record, number: int) -> int:
        for key in ("customTitle", "aiTitle"):
            text = record.get(key)
            if not isinstance(text, str) or not text.strip():
                continue
            text = plain(text).strip()
            if text.startswith("<local-command-caveat>") or not self.first_file:
                return IGNORED  # seen once: the client's own note taken for a title
            if key == "customTitle":
                self.custom_title = text
            else:
                self.ai_title = text
            return KEPT
        return IGNORED

    def worktree(self, record: Record, number: int) -> int:
        state = record.get("worktreeSession")
        path = state.get("originalCwd") if isinstance(state, dict) else None
        if not isinstance(path, str) or not path:
            return IGNORED
        self.original_cwd = plain(path)
        return KEPT

    def cost_state(self, record: Record, number: int) -> int:
        cost = record.get("totalCostUSD")
        if (
            not self.first_file
            or not isinstance(cost, int | float)
            or isinstance(cost, bool)
            or not 0 < cost < 1e9
        ):
            return IGNORED
        self.total_cost = float(cost)
        return KEPT


# ------------------------------------------------------------------------------- small accessors


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _name(value: object) -> str:
    return plain(value)[:100] if isinstance(value, str) else f"({type(value).__name__})"


def _note_kind(text: str) -> str | None:
    """What a text block of its own is that the harness puts beside a prompt, or ``None``."""
    if text[:1] == "<":
        if any(wrapped(text, tag) is not None for tag in _IDE_TAGS):
            return "context"
    elif text[:1] == "[" and text.strip() in _INTERRUPTED:
        return "interruption"
    return None


def _hook_text(attachment: Record) -> str:
    for key in ("content", "blockingError", "stderr", "message", "stdout"):
        value = attachment.get(key)
        if isinstance(value, dict):
            value = value.get("blockingError") or value.get("message")
        if isinstance(value, list):
            value = "\n".join(part for part in value if isinstance(part, str))
        if isinstance(value, str) and value.strip():
            return plain(value)
    return ""


def input_text(given: object) -> str:
    """The input of a tool call as JSON text that SQLite can hold."""
    try:
        return json_text(given)
    except (RecursionError, ValueError):
        return "{}"  # nested deeper than anything reads


def _error_text(record: Record) -> str:
    error = record.get("error")
    if isinstance(error, dict):
        for key in ("formatted", "message"):
            if isinstance(error.get(key), str) and error[key].strip():
                return plain(error[key])
        inner = error.get("error")
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return plain(inner["message"])
    for value in (error, record.get("content")):
        if isinstance(value, str) and value.strip():
            return plain(value)
    return "API error"


def sample(record: Record) -> str:
    """The beginning of a record, for the table of unknown records."""
    try:
        return json_start(record)
    except (RecursionError, ValueError):
        return ""


def _count(value: object) -> int | None:
    # the usual case first: this is asked five times for every line of an answer
    return value if type(value) is int and 0 <= value < 2**53 else count(value)


def tokens_of(usage: Record) -> Tokens | None:
    """Usage of an API message. ``input_tokens`` excludes what was read from or written to the
    cache; ``thinking_tokens`` (2.1.251) are part of the output. ``None`` when nothing is told."""
    details = usage.get("output_tokens_details")
    tokens = Tokens(
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
        _count(usage.get("cache_read_input_tokens")),
        _count(usage.get("cache_creation_input_tokens")),
        _count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    )
    if tokens.input is None and tokens.output is None and tokens.cache_read is None:
        return None
    return tokens
