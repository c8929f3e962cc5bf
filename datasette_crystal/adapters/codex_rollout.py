"""Reads one rollout file, the JSON Lines that Codex writes for a thread.

Three shapes of it exist, and tools that descend from Codex write them too; they are told apart by
their records, never by ``cli_version`` (``codex migrate-rollouts`` rewrites old files in place):

- *bare* (until September 2025): response items without an envelope, and nothing else;
- *wrapped* (0.34 - 0.147): ``{timestamp, type, payload}``; what a person typed and what the model
  answered is told twice, as ``event_msg`` (user_message, agent_message) and as ``response_item``;
- *paginated* (from 0.148): the events are ``item_completed`` with an item, every record has an
  ``ordinal``, a fork refers to its parent's history instead of copying it.

The response item is the message; the event tells that a person really typed it (other response
items of role ``user`` are the harness's), and is all there is where a turn was cut off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from ..model import (
    Attachment,
    FileRecords,
    Messages,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    Tokens,
)
from ..text import count, iso_time, json_start, json_text, milliseconds_between
from .codex_texts import (
    dict_in,
    image_name,
    is_injected,
    list_in,
    shell_block,
    split_ide_context,
    squeezed,
    text_in,
    without_citation,
    wraps_image,
)
from .codex_tokens import Usage, UsageMeter, add_tokens, tokens_of
from .codex_tools import (
    duration_ms,
    edits_of_changes,
    edits_of_patch,
    image_at,
    image_of,
    patch_in,
    read_output,
    whole_number,
)
from .jsonl import decode, read_lines

Record = dict[str, Any]
#: What a handler says became of its record; None: the handler has counted it as unknown.
KEPT, IGNORED = True, False
Handler = Callable[[Any, Record], "bool | None"]

#: The first words of what a compaction tells the next model (0.80 - 0.171).
_SUMMARY_PREFIX = "Another language model started to solve this problem"
#: Closed calls that events may still add to, and texts of a turn that may be told again.
_RECENT = 200
#: A copied history is written in one go (0.36: 1,344 lines within 180 ms); after a pause of this
#: many milliseconds the fork's own records begin.
_COPY_PAUSE = 1_000

_IGNORED_EVENTS = frozenset(
    (
        "task_started",
        "turn_started",
        "context_compacted",
        "thread_settings_applied",
        "guardian_assessment",
        "session_configured",
        "exec_command_begin",
        "exec_command_output_delta",
        "patch_apply_begin",
        "patch_apply_updated",
        "mcp_tool_call_begin",
        "web_search_begin",
        "view_image_tool_call",
        "image_generation_begin",
        "turn_diff",
        "plan_update",
        "agent_reasoning_section_break",
        "agent_message_delta",
        "agent_reasoning_delta",
        "agent_message_content_delta",
        "reasoning_content_delta",
        "reasoning_raw_content_delta",
        "plan_delta",
        "item_started",
        "raw_response_item",
        "background_event",
        "stream_error",
        "deprecation_notice",
        "mcp_startup_update",
        "mcp_startup_complete",
        "mcp_list_tools_response",
        "list_custom_prompts_response",
        "list_skills_response",
        "skills_update_available",
        "get_history_entry_response",
        "undo_started",
        "undo_completed",
        "shutdown_complete",
        "exec_approval_request",
        "apply_patch_approval_request",
        "request_permissions",
        "request_user_input",
        "elicitation_request",
        "terminal_interaction",
        "thread_goal_updated",
        "model_reroute",
        "model_verification",
        "collab_agent_spawn_begin",
        "collab_agent_interaction_begin",
        "collab_waiting_begin",
        "collab_close_begin",
        "collab_resume_begin",
        "hook_started",
        "hook_completed",
    )
)
_IGNORED_ITEMS = frozenset(
    (
        "ghost_snapshot",
        "compaction",
        "compaction_summary",
        "context_compaction",
        "compaction_trigger",
        "other",
    )
)
_IGNORED_RECORDS = frozenset(
    ("world_state", "inter_agent_communication_metadata", "security_risk_score")
)


def uuid7_time(identifier: str) -> int | None:
    """Milliseconds since 1970 at which a version 7 UUID was made; ``None`` for any other id."""
    if len(identifier) != 36 or identifier[14] != "7":
        return None
    try:
        return int(identifier[:8] + identifier[9:13], 16)
    except ValueError:
        return None


@dataclass(slots=True)
class Typed:
    """A user-role response item with text that the harness did not mark as its own: a person's
    words if an event says so, or if the file has no such events."""

    text: str
    images: list[Attachment]
    item_id: str
    labelled: bool
    timestamp: str | None
    record: int
    position: str


@dataclass(slots=True)
class Told:
    """An answer or a thought that so far only an event told."""

    text: str
    item_id: str
    timestamp: str | None
    record: int
    position: str
    row: ParsedMessage | None = None


@dataclass(slots=True)
class Reading:
    """What one rollout file holds. ``base`` is the thread and the ordinal up to which the history
    of another file belongs to this one too."""

    conversation: ParsedConversation
    records: FileRecords
    base: tuple[str, int] | None = None
    has_meta: bool = False


class RolloutReader:
    """Turns the records of one file into a :class:`Reading`: ``RolloutReader(...).read()``.

    ``thread_id`` is what the file name says; the first ``session_meta`` has the last word.
    ``rewound`` tells that the file continues another one of the same thread.
    """

    def __init__(self, source: str, path: str, thread_id: str, *, rewound: bool = False) -> None:
        self.rewound = rewound
        self.path = path
        self.thread_id = thread_id
        self.conversation = ParsedConversation(source, thread_id)
        self.messages: Messages = self.conversation.messages
        self.records = FileRecords(path)
        self.unknown_types: Counter[str] = Counter()
        self.has_meta = False
        self.base: tuple[str, int] | None = None
        self.delegated = False  # a subagent or reviewer: its prompts are another agent's words
        self.inherited_task = False  # so were those of the thread that it was copied from
        # the record at hand
        self.timestamp: str | None = None
        self.record = 0
        self.position = ""
        # a copied history at the start of a fork
        self.inherited = False
        self.own = True
        self.own_start: str | None = None
        self.copied = False
        self.copied_at: str | None = None
        # the turn
        self.model: str | None = None
        self.models: Counter[str] = Counter()
        self.current: ParsedMessage | None = None
        self.last_reply: ParsedMessage | None = None
        self.thinking: list[str] = []
        self.thought: Told | None = None  # where the thinking began; without its text
        self.answered = False
        self.turn_starts: list[int] = []
        self.rolled_back: list[tuple[int, int]] = []
        # told twice
        self.typed: list[Typed] = []
        self.settled: list[str] = []  # texts of unmatched items that became prompts
        self.event_prompts: list[str] = []  # texts of events without an item
        self.saw_events = False  # of people typing
        self.saw_items = False
        self.told: list[Told] = []
        self.told_rows: list[Told] = []
        self.answers: list[tuple[str, str]] = []  # id and text of items that no event told yet
        self.plans: list[Told] = []
        self.thoughts: list[Told] = []
        self.parts: list[str] = []  # of reasoning items that no event told yet
        self.shells: list[tuple[str, str]] = []
        self.aborted: ParsedMessage | None = None
        self.hooked: set[str] = set()
        self.error_text = ""
        self.compacted_last = False
        # calls
        self.open: dict[str, tuple[ParsedToolCall, ParsedMessage]] = {}
        self.closed: dict[str, tuple[ParsedToolCall, ParsedMessage]] = {}
        self.call_ids: set[int] = set()
        self.last_tool = ""
        self.turn_calls: list[str] = []
        self.interrupted: set[str] = set()
        self.unanswered: set[str] = set()
        # tokens
        self.owed: Tokens | None = None
        self.usage = UsageMeter()
        self.uids: set[int] = set()
        self.title = ""

    # ----------------------------------------------------------------- lines and records

    def read(self) -> Reading:
        """Reads the file. Raises :class:`OSError` when it cannot be opened."""
        records = self.records
        for number, line in read_lines(self.path):
            try:
                values: list[Any] = [orjson.loads(line)]
                damaged = False
            except orjson.JSONDecodeError:
                values, damaged = decode(line)
            for index, value in enumerate(values):
                records.records += 1
                if not isinstance(value, dict):
                    records.malformed += 1
                    continue
                self.position = f"{number}.{index}" if index else str(number)
                self.record = number
                try:
                    outcome = self._record(value)
                except RecursionError:  # nested deeper than anything real
                    records.malformed += 1
                    continue
                if outcome is KEPT:
                    records.kept += 1
                elif outcome is IGNORED:
                    records.ignored += 1
            if damaged:
                records.records += 1
                records.malformed += 1
        return self._finish()

    def _record(self, record: Record) -> bool | None:
        type_ = record.get("type")
        payload = record.get("payload")
        if not isinstance(payload, dict):
            if payload is not None:
                return self._unknown(record, text_in(type_) or "record")
            return self._bare(record, type_)
        timestamp = record.get("timestamp")
        self.timestamp = iso_time(timestamp) if timestamp is not None else None
        ordinal = record.get("ordinal")
        if ordinal is not None and (number := count(ordinal)) is not None:
            self.record = number
        if self.inherited or not self.own:
            self._look_for_own_records(type_, payload)
        if type_ == "response_item":
            return self._item(payload, record)
        if type_ == "event_msg":
            name = payload.get("type")
            handler = _EVENTS.get(name) if isinstance(name, str) else None
            if handler is not None:
                return handler(self, payload)
            if isinstance(name, str) and name in _IGNORED_EVENTS:
                if name in ("task_started", "turn_started"):
                    self._end_turn()
                return IGNORED
            return self._unknown(record, f"event_msg:{text_in(name)}")
        if type_ == "turn_context":
            return self._turn_context(payload)
        if type_ == "session_meta":
            return self._session_meta(payload)
        if type_ == "token_usage_record":
            return self._token_usage_record(payload)
        if type_ == "compacted":
            return self._compacted(payload)
        if isinstance(type_, str) and type_ in _IGNORED_RECORDS:
            return IGNORED
        if type_ == "inter_agent_communication":
            return self._inter_agent_message(payload)
        return self._unknown(record, text_in(type_) or "record")

    def _bare(self, record: Record, type_: object) -> bool | None:
        """A record of the time before envelopes."""
        self.timestamp = iso_time(record.get("timestamp"))
        if type_ is None:
            if "record_type" in record:
                return IGNORED
            if isinstance(record.get("id"), str):
                return self._session_meta(record)
        elif type_ == "session_meta":
            return self._session_meta(record)
        elif type_ in ("response_item", "event_msg", "turn_context", "compacted"):
            return self._unknown(record, text_in(type_))
        elif isinstance(type_, str):
            return self._item(record, record)
        return self._unknown(record, text_in(type_) or "record")

    def _item(self, item: Record, record: Record) -> bool | None:
        name = item.get("type")
        if isinstance(name, str):
            handler = _RESPONSE_ITEMS.get(name)
            if handler is not None:
                return handler(self, item)
            if name in _IGNORED_ITEMS:
                return IGNORED
        prefix = "bare" if record is item else "response_item"
        return self._unknown(record, f"{prefix}:{text_in(name)}")

    def _unknown(self, record: Record, type_: str) -> bool | None:
        self.unknown_types[type_] += 1
        sample = json_start(record) if self.unknown_types[type_] <= 3 else ""
        self.records.add_unknown(f"line {self.position}", type_, sample)
        return None

    # ----------------------------------------------------------------- rows

    def _uid(self, item_id: str) -> tuple[str, bool]:
        """The uid of a row and whether copies of it bear the same: the item's own id, unless it was
        made up (``item-1``), else the line."""
        if item_id and not item_id.startswith("item-"):
            key = hash(item_id)
            if key not in self.uids:
                self.uids.add(key)
                return item_id, True
        return f"line-{self.position}", False

    def _add(
        self,
        role: str,
        kind: str,
        content: str = "",
        *,
        item_id: str = "",
        suffix: str = "",
        thinking: str | None = None,
    ) -> ParsedMessage:
        """Appends a row that begins at the record at hand."""
        if suffix:
            uid, shared = f"line-{self.position}.{suffix}", False
        else:
            uid, shared = self._uid(item_id)
        message = ParsedMessage(
            uid,
            role,
            kind,
            content,
            thinking,
            self.timestamp,
            self.model if role == "assistant" else None,
            None,
            "active",
            shared,
            self.inherited,
            self.record,
        )
        self.messages.append(message)
        return message

    def _add_harness(
        self, role: str, kind: str, content: str, item_id: str = "", suffix: str = ""
    ) -> ParsedMessage:
        self._settle_typed()
        self._flush_thinking()
        message = self._add(role, kind, content, item_id=item_id, suffix=suffix)
        self.current = None
        return message

    def _add_reply(self, content: str = "", item_id: str = "") -> ParsedMessage:
        """A new step of the model: what it thought before goes with it, and what it cost."""
        thinking = None
        if self.thinking:
            thinking = "\n\n".join(self.thinking)
            self.thinking = []
            self.thought = None
        message = self._add("assistant", "reply", content, item_id=item_id, thinking=thinking)
        self.current = self.last_reply = message
        if self.owed is not None:
            self._charge(message, self.owed)
            self.owed = None
            self.answered = False
        else:
            self.answered = True
        return message

    def _go_to(self, place: Told | Typed) -> tuple[str | None, int, str]:
        """Makes an earlier record the one at hand; gives what :meth:`_come_back` needs."""
        here = self.timestamp, self.record, self.position
        self.timestamp, self.record, self.position = place.timestamp, place.record, place.position
        return here

    def _come_back(self, here: tuple[str | None, int, str]) -> None:
        self.timestamp, self.record, self.position = here

    def _reply_at(self, told: Told) -> ParsedMessage:
        here = self._go_to(told)
        row = self._add_reply(told.text, told.item_id)
        self._come_back(here)
        return row

    def _flush_thinking(self) -> None:
        """Thoughts that nothing followed become a row of their own."""
        if self.thinking:
            self._reply_at(self.thought or Told("", "", self.timestamp, self.record, self.position))

    # ----------------------------------------------------------------- session and turns

    def _session_meta(self, meta: Record) -> bool | None:
        thread_id = text_in(meta.get("id"))
        conversation = self.conversation
        if self.has_meta or (
            # the first line is lost, and this is the copied ancestor's
            self.records.records > 1 and thread_id != self.thread_id and self.thread_id
        ):
            if thread_id and thread_id != conversation.session_id and not len(self.messages):
                return self._copied_meta(thread_id)
            return IGNORED
        self.has_meta = True
        if thread_id:
            conversation.session_id = thread_id
        conversation.cwd = text_in(meta.get("cwd")) or None
        conversation.tool_version = text_in(meta.get("cli_version")) or None
        git = dict_in(meta.get("git"))
        conversation.git_branch = text_in(git.get("branch")) or None
        conversation.git_remote = text_in(git.get("repository_url")) or None
        started = iso_time(meta.get("timestamp")) or self.timestamp
        conversation.started_at = self.own_start = started
        self._ancestry(meta, conversation)
        return KEPT

    def _ancestry(self, meta: Record, conversation: ParsedConversation) -> None:
        """Where the thread comes from: a fork, a subagent, a reviewer, or nowhere."""
        forked_from = text_in(meta.get("forked_from_id"))
        parent = text_in(meta.get("parent_thread_id"))
        origin = meta.get("source")
        subagent = origin.get("subagent") if isinstance(origin, dict) else None
        thread_source = text_in(meta.get("thread_source"))
        base = dict_in(meta.get("history_base"))
        base_thread, base_end = (
            text_in(base.get("thread_id")),
            count(base.get("end_ordinal_exclusive")),
        )
        if isinstance(subagent, dict) and isinstance(subagent.get("thread_spawn"), dict):
            spawn = subagent["thread_spawn"]
            parent = text_in(spawn.get("parent_thread_id")) or parent
            self.inherited_task = (count(spawn.get("depth")) or 1) > 1
        if base_thread and self.rewound and base_thread != forked_from:
            base_thread = conversation.session_id  # whatever it calls the earlier file
        if base_thread and base_end is not None:
            self.base = (base_thread, base_end)
            self.usage.continues = True
        if subagent is not None or thread_source == "subagent" or "review" in thread_source:
            reviewer = subagent == "review" or "review" in thread_source
            if isinstance(subagent, dict) and subagent.get("other") == "guardian":
                reviewer = True
            conversation.kind = "review" if reviewer else "subagent"
            self.delegated = True
            root = text_in(meta.get("session_id"))
            parent = parent or forked_from or (root if root != conversation.session_id else "")
        elif forked_from or (base_thread and base_thread != conversation.session_id):
            conversation.kind = "fork"
            parent = base_thread or forked_from
        else:
            parent = ""
        if parent and parent != conversation.session_id:
            conversation.parent_session_id = parent
        if base_thread and base_thread == conversation.parent_session_id:
            conversation.inherits_until = base_end
        if forked_from and self.base is None:
            self.own = False  # its history may be copied without the ancestor's session_meta

    def _copied_meta(self, thread_id: str) -> bool:
        """A second session_meta of another thread: a copy of that thread's records follows."""
        conversation = self.conversation
        if self.base is not None or self.copied:
            return IGNORED
        self.inherited = self.copied = True
        self.own = False
        self.copied_at = self.timestamp
        if conversation.kind == "main":
            conversation.kind = "fork"
        if conversation.parent_session_id is None:
            conversation.parent_session_id = thread_id
        return KEPT

    def _look_for_own_records(self, type_: object, payload: Record) -> None:
        """In a fork that copied its parent's records: does the record at hand still belong to the
        copy? Newer files tell by the turn's id, which holds its time; older ones (0.36) wrote the
        copy in one go, so that a pause ends it; some kept the parent's times."""
        if type_ == "session_meta":
            return
        verdict = self._copied_by_turn(payload)
        now, before = self.timestamp, self.copied_at
        if verdict is None and self.inherited and now is not None:
            if self.own_start is not None and now < self.own_start:
                verdict = True
            elif before is not None and self.own_start is not None and before < self.own_start:
                verdict = False
            elif before is not None:
                verdict = (milliseconds_between(before, now) or 0) < _COPY_PAUSE
        if now is not None:
            self.copied_at = now
        if verdict is True:
            self.inherited = True
        elif verdict is False:
            self._end_turn()
            self.inherited = False
            self.own = True
            # what this thread spends is not booked on its parent's rows
            self.current = self.last_reply = None
            self.answered = False

    def _copied_by_turn(self, payload: Record) -> bool | None:
        turn = payload.get("turn_id")
        if turn is None:
            turn = dict_in(payload.get("internal_chat_message_metadata_passthrough")).get("turn_id")
        turn_time = uuid7_time(turn) if isinstance(turn, str) else None
        own_time = uuid7_time(self.conversation.session_id)
        if turn_time is not None and own_time is not None:
            return turn_time < own_time
        if payload.get("type") in ("task_started", "turn_started"):
            started = iso_time(payload.get("started_at"))
            if started is not None and self.own_start is not None:
                return started[:19] < self.own_start[:19]
        return None

    def _turn_context(self, context: Record) -> bool:
        model = text_in(context.get("model"))
        if model:
            self.model = model
            if not self.inherited:
                self.models[model] += 1
        cwd = text_in(context.get("cwd"))
        if cwd and self.conversation.cwd is None:
            self.conversation.cwd = cwd
        return KEPT if model or cwd else IGNORED

    def _settle(self) -> None:
        """Whatever is told but not yet a row becomes one: the turn goes on without it."""
        self._settle_typed()
        self._settle_replies()

    def _settle_replies(self) -> None:
        self._flush_told()
        plans, self.plans = self.plans, []
        for plan in plans:
            self._reply_at(plan)
        self._flush_shells()
        self._flush_thinking()

    def _end_turn(self) -> None:
        self._settle()
        self.unanswered.update(self.turn_calls)
        self.turn_calls = []
        self.settled = []
        self.event_prompts = []
        self.told_rows = []
        self.answers = []
        self.parts = []
        self.aborted = None
        self.hooked = set()
        self.error_text = ""
        self.usage.recorded_in_turn = False
        self.compacted_last = False

    def _task_complete(self, event: Record) -> bool:
        self._end_turn_softly()
        error = event.get("error")
        if error is None:
            return IGNORED
        return self._error(error if isinstance(error, dict) else {"message": error})

    def _end_turn_softly(self) -> None:
        # an error of this turn may still be told by its end
        error_text = self.error_text
        self._end_turn()
        self.error_text = error_text

    def _error(self, event: Record) -> bool:
        text = text_in(event.get("message")) or json_text(event)
        if text == self.error_text:
            return KEPT
        reply = self.current
        if text.startswith("Incomplete response returned") and reply is not None and reply.content:
            reply.kind = "partial"
        self._settle()
        self._add_harness("system", "error", text)
        self.error_text = text
        return KEPT

    def _warning(self, event: Record) -> bool:
        text = text_in(event.get("message"))
        if not text.strip():
            return IGNORED
        self._add_harness("system", "notification", text)
        return KEPT

    def _turn_aborted(self, event: Record) -> bool:
        aborted = self.aborted
        self.interrupted.update(self.turn_calls)
        if aborted is None:
            self._settle()
            reason = text_in(event.get("reason")) or "aborted"
            aborted = self._add_harness("system", "interruption", reason)
        self._end_turn()
        self.aborted = aborted
        return KEPT

    def _thread_rolled_back(self, event: Record) -> bool:
        self._end_turn()
        number = count(event.get("num_turns")) or 0
        starts = self.turn_starts
        if not number or not starts:
            return IGNORED
        start = starts[max(0, len(starts) - number)]
        del starts[max(0, len(starts) - number) :]
        end = len(self.messages)
        low = high = end
        while self.rolled_back and self.rolled_back[-1][1] > start:
            region_start, region_end = self.rolled_back.pop()
            self._mark(max(region_end, start), low)
            low = min(region_start, low)
        self._mark(start, low)
        self.rolled_back.append((min(start, low), high))
        self.current = None
        return KEPT

    def _mark(self, start: int, end: int) -> None:
        for index in range(start, end):
            self.messages.mark(index, "rolled-back")

    def _thread_name_updated(self, event: Record) -> bool:
        name = text_in(event.get("thread_name")).strip()
        if name and not self.inherited:
            self.title = name
            return KEPT
        return IGNORED

    # ----------------------------------------------------------------- what people typed

    def _message(self, item: Record) -> bool | None:
        role = item.get("role")
        if role == "assistant":
            return self._answer(item)
        if role == "user":
            return self._user_item(item)
        return IGNORED  # developer, system: instructions of the harness, 10 to 20 KB each

    def _user_item(self, item: Record) -> bool:
        content = item.get("content")
        blocks: list[Any] = [content] if isinstance(content, str) else list_in(content)
        metadata = dict_in(item.get("internal_chat_message_metadata_passthrough"))
        labels = list_in(metadata.get("content_item_kinds"))
        if len(labels) != len(blocks):
            labels = []
        typed: list[str] = []
        injected: list[str] = []
        images: list[Attachment] = []
        name = ""
        labelled = False
        for index, block in enumerate(blocks):
            text = block if isinstance(block, str) else text_in(dict_in(block).get("text"))
            if not text:
                image = image_of(dict_in(block), name)
                if image is not None:
                    images.append(image)
                    name = ""
                continue
            label = text_in(labels[index]) if labels else ""
            labelled = labelled or label.startswith("user.")
            if text.startswith(("<image", "</image>")) and wraps_image(blocks, index):
                name = image_name(text) or name
            elif label.startswith("user.") or (
                # answers bear "unknown", and so may what a later version adds
                label in ("", "unknown") and not is_injected(text)
            ):
                typed.append(text)
            else:
                injected.append(text)
        item_id = text_in(item.get("id"))
        if injected:
            self._settle_typed()
            for number, text in enumerate(injected):
                alone = not typed and not images and len(injected) == 1
                suffix = "" if alone else f"context-{number}"
                self._injected(text, item_id if alone else "", suffix)
        if typed or images:
            text = "\n\n".join(typed)
            if not injected and self._repeats_event(text):
                return KEPT
            if len(self.typed) >= _RECENT:
                self._settle_typed()
            self.typed.append(
                Typed(
                    text,
                    images,
                    item_id,
                    labelled,
                    self.timestamp,
                    self.record,
                    self.position,
                )
            )
            return KEPT
        return KEPT if injected else IGNORED

    def _repeats_event(self, text: str) -> bool:
        """Is this the item of a prompt whose event came first?"""
        if not self.event_prompts:
            return False
        key = squeezed(text)
        if key in self.event_prompts:
            self.event_prompts.remove(key)
            return True
        return False

    def _injected(self, text: str, item_id: str, suffix: str) -> None:
        """A text that the harness put into the conversation in the user's name."""
        start = text.lstrip()
        if start.startswith("<user_shell_command>"):
            command, result = shell_block(text)
            self._shell(command, result, item_id)
            return
        if start.startswith("<turn_aborted>"):
            self.interrupted.update(self.turn_calls)
            if self.aborted is not None:
                self.aborted.content = text
                return
            self._settle()
            self.aborted = self._add_harness("user", "interruption", text, item_id, suffix)
            return
        if start.startswith("<subagent_notification>"):
            self._add_harness("user", "notification", text, item_id, suffix)
            return
        if start.startswith("<hook_prompt"):
            if len(self.hooked) < _RECENT:
                self.hooked.add(squeezed(text))
            self._add_harness("user", "hook", text, item_id, suffix)
            return
        if self.conversation.cwd is None and "<cwd>" in text:
            self.conversation.cwd = (
                text.partition("<cwd>")[2].partition("</cwd>")[0].strip() or None
            )
        self._add_harness("user", "context", text, item_id, suffix)

    def _user_event(self, event: Record) -> bool:
        """``event_msg/user_message``: a person typed this."""
        text = text_in(event.get("message"))
        images = [image_at(url) for url in list_in(event.get("images")) if isinstance(url, str)]
        local = [path for path in list_in(event.get("local_images")) if isinstance(path, str)]
        self.saw_events = True
        return self._typed_event(text, images, local, "")

    def _user_message_item(self, item: Record) -> bool:
        """``item_completed/UserMessage``: a person typed this (0.148 on)."""
        texts: list[str] = []
        images: list[Attachment] = []
        local: list[str] = []
        for block in list_in(item.get("content")):
            if not isinstance(block, dict):
                continue
            kind = text_in(block.get("type")).lower()
            if kind == "text" or kind == "input_text":
                texts.append(text_in(block.get("text")))
            elif kind == "local_image":
                local.append(text_in(block.get("path")))
            elif kind == "image" or kind == "input_image":
                image = image_of({**block, "type": "image"})
                if image is not None:
                    images.append(image)
            elif name := text_in(block.get("name")) or text_in(block.get("path")):
                images.append(Attachment("reference", name))
        self.saw_events = self.saw_items = True
        item_id = text_in(item.get("id"))
        return self._typed_event("\n\n".join(filter(None, texts)), images, local, item_id)

    def _typed_event(
        self, text: str, images: list[Attachment], local: list[str], item_id: str
    ) -> bool:
        key = squeezed(text)
        waiting = self.typed
        found = -1
        for index, candidate in enumerate(waiting):
            if candidate.text == text or squeezed(candidate.text) == key:
                found = index
                break
        if found < 0 and len(waiting) == 1 and key and key in squeezed(waiting[0].text):
            found = 0
        if found >= 0:
            match = waiting[found]
            self.typed = waiting[:found]
            self._settle_typed()
            self.typed = waiting[found + 1 :]
            attachments = match.images
            for index, path in enumerate(local):
                # the item holds the picture, the event its file name
                if index < len(attachments):
                    attachments[index].name = attachments[index].name or path
                else:
                    attachments.append(Attachment("image", path))
            if not match.images:
                attachments = images
            attachments += [image for image in images if image.kind == "reference"]
            here = self._go_to(match)
            self._prompt(text, attachments, match.item_id or item_id)
            self._come_back(here)
            return KEPT
        if key in self.settled:
            self.settled.remove(key)
            return KEPT
        self._settle_typed()
        images += [Attachment("image", path) for path in local]
        if not text.strip() and not images:
            return IGNORED
        self._prompt(text, images, item_id)
        self.event_prompts.append(key)
        del self.event_prompts[:-_RECENT]
        return KEPT

    def _settle_typed(self) -> None:
        """Items that no event claimed: a person's words in files without events (bare ones, and
        some of 0.153), steered input, or what the harness said in the user's name."""
        if not self.typed:
            return
        waiting, self.typed = self.typed, []
        for typed in waiting:
            here = self._go_to(typed)
            self._settle_one(typed)
            self._come_back(here)

    def _settle_one(self, typed: Typed) -> None:
        text = typed.text
        if not text.strip():
            if self.last_tool == "view_image" and self.last_reply is not None:
                # 0.80: the picture that the tool shows follows as a user item
                self._attach(self.last_reply, typed.images)
                return
            if not typed.images:
                return
        elif not typed.labelled:
            if text.startswith(_SUMMARY_PREFIX):
                self._add_harness("user", "context", text, typed.item_id)
                return
            if self.saw_events and text.startswith("Warning: "):
                self._add_harness("user", "notification", text, typed.item_id)
                return
            if self.saw_items:
                self._add_harness("user", "context", text, typed.item_id)
                return
        self.settled.append(squeezed(text))
        del self.settled[:-_RECENT]
        self._prompt(text, typed.images, typed.item_id)

    def _prompt(self, text: str, attachments: list[Attachment], item_id: str) -> None:
        self.told_rows = []
        self._settle_replies()
        self.unanswered.update(self.turn_calls)
        self.turn_calls = []
        self.current = None
        self.answers = []
        self.aborted = None
        self.last_tool = ""
        self._pay_debts()
        self.turn_starts.append(len(self.messages))
        context, request = split_ide_context(text)
        if context:
            self._add("user", "context", context, suffix="ide")
        kind = "prompt"
        if self.inherited_task if self.inherited else self.delegated:
            kind = "task"
        elif request[:1] == "!" and len(request) > 1 and request[1] not in " \t\n![=":
            kind = "shell"
        message = self._add("user", kind, request, item_id=item_id)
        if attachments:
            self._attach(message, attachments)

    def _attach(self, message: ParsedMessage, attachments: list[Attachment]) -> None:
        message.attachments += attachments
        self.messages.grew(sum(len(item.content or b"") for item in attachments))

    def _inter_agent_message(self, item: Record) -> bool:
        """A message between agents (0.144 on); its text is mostly encrypted."""
        texts: list[str] = []
        encrypted = False
        content = item.get("content")
        for block in [content] if isinstance(content, str) else list_in(content):
            if isinstance(block, str):
                texts.append(block)
            elif isinstance(block, dict):
                encrypted = encrypted or block.get("type") == "encrypted_content"
                texts.append(text_in(block.get("text")))
        text = "\n".join(part for part in texts if part.strip())
        if not text:
            return IGNORED
        self._settle()
        # only the envelope is readable of an encrypted task: not the words of the other agent
        task = self.delegated and not encrypted
        item_id = text_in(item.get("id"))
        if task:
            self._prompt(text, [], item_id)
        else:
            self._add_harness("user", "notification", text, item_id)
        return KEPT

    # ----------------------------------------------------------------- shell commands of a person

    def _shell(self, command: str, result: str, item_id: str) -> None:
        for index, (other, _) in enumerate(self.shells):
            if other.strip() == command.strip():
                del self.shells[index]
                break
        self._settle_typed()
        self._flush_told()
        self._flush_thinking()
        self.current = None
        self._add("user", "shell", "!" + command, item_id=item_id)
        if result.strip():
            self._add("user", "local-output", result, suffix="output")

    def _shell_event(self, command: object, output: str) -> bool:
        words = list_in(command)
        if len(words) == 3 and words[1] in ("-lc", "-c"):
            script = text_in(words[2])
        else:
            script = command if isinstance(command, str) else " ".join(map(text_in, words))
        if len(self.shells) >= _RECENT:
            self._flush_shells()
        self.shells.append((script, output))
        return KEPT

    def _flush_shells(self) -> None:
        shells, self.shells = self.shells, []
        for number, (command, output) in enumerate(shells):
            self._settle_typed()
            self.current = None
            self._add("user", "shell", "!" + command, suffix=f"shell-{number}")
            if output.strip():
                self._add("user", "local-output", output, suffix=f"shell-{number}-output")

    # ----------------------------------------------------------------- what the model said

    def _answer(self, item: Record) -> bool:
        """A response item of role assistant: one row."""
        content = item.get("content")
        parts: list[str] = []
        images: list[Attachment] = []
        for block in [content] if isinstance(content, str) else list_in(content):
            if isinstance(block, str):
                parts.append(block)
            elif isinstance(block, dict):
                text = block.get("text")
                if not isinstance(text, str):
                    text = text_in(block.get("refusal"))
                if text:
                    parts.append(text)
                elif (image := image_of(block)) is not None:
                    images.append(image)
        parts = [part for part in map(without_citation, parts) if part]
        if not parts and not images:
            return IGNORED
        text = parts[0] if len(parts) == 1 else "\n\n".join(parts)
        item_id = text_in(item.get("id"))
        if self.typed:
            self._settle_typed()
        if self.plans:
            self.plans = [plan for plan in self.plans if plan.text.strip() not in text]
        told = bool(self.told) and self._claim(text, parts, item_id)
        if not told:
            if self.told_rows and self._merge_late(text, item_id):
                return KEPT
            self._flush_told()
        message = self._add_reply(text, item_id)
        if images:
            self._attach(message, images)
        if not told:
            self.answers.append((item_id, text))
            del self.answers[:-_RECENT]
        self.compacted_last = False
        return KEPT

    def _claim(self, text: str, parts: list[str], item_id: str) -> bool:
        """Takes away the events that told this answer. Events before them that nothing will tell
        again become rows first, so that the order stays the source's own."""
        told = self.told
        found = -1
        for index, event in enumerate(told):
            if (item_id and event.item_id == item_id) or event.text == text:
                found = index
                break
        if found < 0:
            key = squeezed(text)
            keys = {squeezed(part) for part in parts}
            for index, event in enumerate(told):
                event_key = squeezed(event.text)
                if event_key == key or event_key in keys:
                    found = index
                    break
            else:
                for index, event in enumerate(told):
                    if len(event.text) > 20 and squeezed(event.text) in key:
                        found = index
                        break
        if found < 0:
            return False
        last = found
        if len(parts) > 1 and told[found].text.strip() != text.strip():
            # one event for each part of the answer
            remaining = [squeezed(part) for part in parts]
            while last < len(told) and remaining and squeezed(told[last].text) in remaining:
                remaining.remove(squeezed(told[last].text))
                last += 1
            last = max(last - 1, found)
        self.told = told[:found]
        self._flush_told()
        self.told = told[last + 1 :]
        return True

    def _merge_late(self, text: str, item_id: str) -> bool:
        """The item of an answer whose event had to become a row already."""
        key = squeezed(text)
        for index, event in enumerate(self.told_rows):
            row = event.row
            if row is None or (
                squeezed(event.text) != key and not (item_id and event.item_id == item_id)
            ):
                continue
            del self.told_rows[index]
            self.messages.grew(len(text) - len(row.content))
            row.content = text
            if item_id and not row.shared_uid:
                row.uid, row.shared_uid = self._uid(item_id)
            self.current = self.last_reply = row
            return True
        return False

    def _answer_event(self, event: Record) -> bool:
        return self._answer_told(text_in(event.get("message")), "")

    def _agent_message_item(self, item: Record) -> bool:
        texts = [text_in(dict_in(block).get("text")) for block in list_in(item.get("content"))]
        return self._answer_told("\n\n".join(filter(None, texts)), text_in(item.get("id")))

    def _answer_told(self, text: str, item_id: str) -> bool:
        text = without_citation(text)
        if not text:
            return IGNORED
        if self.answers:
            # normally the event comes first; else the answer is there already
            key = squeezed(text)
            for index, (answer_id, answer) in enumerate(self.answers):
                if (item_id and item_id == answer_id) or squeezed(answer) == key:
                    del self.answers[index]
                    return KEPT
        if self.compacted_last and text == "Compact task completed":
            self._add_harness("system", "notification", text)
            return KEPT
        if self.typed:
            self._settle_typed()
        if len(self.told) >= _RECENT:
            self._flush_told()
        self.told.append(Told(text, item_id, self.timestamp, self.record, self.position))
        return KEPT

    def _plan_item(self, item: Record) -> bool:
        """A proposed plan. It is told again by the answer that proposes it (0.104 - 0.126)."""
        text = text_in(item.get("text"))
        if not text.strip():
            return IGNORED
        current = self.last_reply
        if current is None or text.strip() not in current.content:
            item_id = text_in(item.get("id"))
            if len(self.plans) >= _RECENT:
                self._settle_replies()
            self.plans.append(Told(text, item_id, self.timestamp, self.record, self.position))
        return KEPT

    def _flush_told(self) -> None:
        """Answers and thoughts that only events told: the turn was cut off before the items."""
        if self.thoughts:
            thoughts, self.thoughts = self.thoughts, []
            place = thoughts[0]
            self.thinking += [thought.text for thought in thoughts]
            if self.thought is None:
                self.thought = Told("", "", place.timestamp, place.record, place.position)
        if self.told:
            told, self.told = self.told, []
            for event in told:
                event.row = self._reply_at(event)
            self.told_rows = (self.told_rows + told)[-_RECENT:]

    def _reasoning(self, item: Record) -> bool:
        parts = [
            text
            for key in ("summary", "content")
            for block in list_in(item.get(key))
            if (text := text_in(dict_in(block).get("text"))).strip()
        ]
        if not parts:
            return IGNORED
        if self.typed:
            self._settle_typed()
        self._flush_thinking()
        self.thought = Told("", text_in(item.get("id")), self.timestamp, self.record, self.position)
        self.thinking = parts
        if self.thoughts:
            remaining = [part.strip() for part in parts]
            kept = []
            for thought in self.thoughts:
                if thought.text.strip() in remaining:
                    remaining.remove(thought.text.strip())
                else:
                    kept.append(thought)
            self.thoughts = kept
            self.parts = remaining
        else:
            self.parts = [part.strip() for part in parts]
        return KEPT

    def _reasoning_event(self, event: Record) -> bool:
        return self._thought_told(text_in(event.get("text")))

    def _reasoning_item(self, item: Record) -> bool:
        texts = list_in(item.get("summary_text")) + list_in(item.get("raw_content"))
        kept = [self._thought_told(text_in(text)) for text in texts]
        return KEPT if any(kept) else IGNORED

    def _thought_told(self, text: str) -> bool:
        stripped = text.strip()
        if not stripped:
            return IGNORED
        if stripped in self.parts:
            self.parts.remove(stripped)
            return KEPT
        if self.typed:
            self._settle_typed()
        if len(self.thoughts) >= _RECENT:
            self._flush_told()
        self.thoughts.append(Told(text, "", self.timestamp, self.record, self.position))
        return KEPT

    def _compacted(self, payload: Record) -> bool:
        """The harness put a summary in the place of the history. ``replacement_history`` holds
        copies, never new messages."""
        self._settle()
        text = text_in(payload.get("message"))
        reply = self.last_reply
        self.compacted_last = True
        if not text.strip():
            return IGNORED
        if (
            reply is not None
            and reply.content
            and reply.kind == "reply"
            and not reply.tool_calls
            and self.messages[-1] is reply
            and text.rstrip().endswith(reply.content.strip())
        ):
            # from 0.145 on the summary is a response item too; nobody saw it as an answer
            reply.kind, reply.role = "summary", "system"
            self.answers = []
            self.current = self.last_reply = None
            return KEPT
        message = self._add("system", "summary", text)
        if self.owed is not None:
            self._charge(message, self.owed)
            self.owed = None
        self.current = None
        return KEPT

    # ----------------------------------------------------------------- tool calls

    def _call(
        self, item: Record, name: str, input_: str | None, value: object = None
    ) -> ParsedToolCall:
        """Adds a call to the step that it follows. ``value`` is the decoded input."""
        item_id = text_in(item.get("id"))
        call_id = text_in(item.get("call_id")) or item_id
        if self.typed:
            self._settle_typed()
        if self.told and (self.current is None or self.told[0].record > (self.current.record or 0)):
            # the answer that came before this call is told by an event only
            self._flush_told()
        row = self.current
        if row is None or self.thinking:
            thought = self.thought
            row = self._add_reply("", thought.item_id if thought and thought.item_id else item_id)
        elif self.owed is not None:
            self._charge(row, self.owed)
            self.owed = None
        else:
            self.answered = True
        call = ParsedToolCall(name, input_, None, call_id or None, "pending", None, self.timestamp)
        row.tool_calls.append(call)
        self.messages.grew(len(input_ or ""))
        if call_id:
            self.open[call_id] = (call, row)
            self.call_ids.add(hash(call_id))
            self.turn_calls.append(call_id)
        self.compacted_last = False
        if input_ and "*** Begin Patch" in input_ and (patch := patch_in(value)) is not None:
            call.edits = edits_of_patch(patch)
        return call

    def _function_call(self, item: Record) -> bool:
        arguments = item.get("arguments")
        value: Any = arguments
        if isinstance(arguments, str):
            input_: str | None = arguments
            try:
                value = orjson.loads(arguments)
            except orjson.JSONDecodeError:
                input_ = json_text(arguments)
        else:
            input_ = None if arguments is None else json_text(arguments)
        name = text_in(item.get("name")) or "unknown"
        namespace = text_in(item.get("namespace"))
        if namespace.startswith("mcp__") and not name.startswith("mcp__"):
            name = f"{namespace.rstrip('_')}__{name}"
        self._call(item, name, input_, value)
        return KEPT

    def _custom_call(self, item: Record) -> bool:
        text = item.get("input")
        name = text_in(item.get("name")) or "unknown"
        self._call(item, name, None if text is None else json_text(text), text)
        return KEPT

    def _local_shell_call(self, item: Record) -> bool:
        action = item.get("action")
        self._call(item, "local_shell", None if action is None else json_text(action), action)
        return KEPT

    def _tool_search_call(self, item: Record) -> bool:
        arguments = item.get("arguments")
        self._call(item, "tool_search", None if arguments is None else json_text(arguments))
        return KEPT

    def _tool_search_output(self, item: Record) -> bool:
        tools = item.get("tools", item.get("output"))
        output = tools if isinstance(tools, str | list) else json_text(tools)
        if isinstance(output, list):
            output = json_text(output)
        return self._call_output({**item, "output": output})

    def _web_search_call(self, item: Record) -> bool:
        action = item.get("action")
        input_ = None if action is None else json_text(action)
        call = self._call(item, "web_search", input_)
        call.status = "error" if item.get("status") == "failed" else "ok"
        self._close(call.call_id)
        return KEPT

    def _image_generation_call(self, item: Record) -> bool:
        prompt = text_in(item.get("revised_prompt"))
        call = self._call(item, "image_generation", json_text({"prompt": prompt}))
        call.status = "error" if item.get("status") == "failed" else "ok"
        result = text_in(item.get("result"))
        if result and self.current is not None:
            self._attach(self.current, [image_at("data:image/png;base64," + result)])
        self._close(call.call_id)
        return KEPT

    def _call_output(self, item: Record) -> bool:
        call_id = text_in(item.get("call_id")) or text_in(item.get("id"))
        found = self.open.get(call_id)
        if found is None:
            if not call_id or hash(call_id) in self.call_ids:
                return IGNORED  # told twice
            # the record of the call is lost
            self._call({"call_id": call_id}, "unknown", None)
            found = self.open[call_id]
        call, row = found
        outcome = read_output(item.get("output"))
        call.output = outcome.text
        if outcome.exit_code is not None:
            call.exit_code = outcome.exit_code
        if outcome.duration_ms is not None:
            call.duration_ms = outcome.duration_ms
        status = outcome.status
        if status == "ok" and call.exit_code:
            status = "error"
        # an event before it may have told of a failure that the text does not show
        if call.status == "pending" or (status != "ok" and call.status != "denied"):
            call.status = status
        self.messages.grew(len(outcome.text))
        if outcome.images:
            self._attach(row, outcome.images)
        self.last_tool = call.name
        if call.name == "spawn_agent" and call.subagent_session_id is None:
            call.subagent_session_id = _spawned_agent(outcome.text)
        self._close(call_id)
        return KEPT

    def _close(self, call_id: str | None) -> None:
        if not call_id or call_id not in self.open:
            return
        pair = self.open.pop(call_id)
        _drop_undone_edits(pair[0])
        closed = self.closed
        closed[call_id] = pair
        if len(closed) > _RECENT:
            del closed[next(iter(closed))]

    def _joined(self, call_id: object) -> ParsedToolCall | None:
        """The call that an event tells more about."""
        if not isinstance(call_id, str):
            return None
        found = self.open.get(call_id) or self.closed.get(call_id)
        return found[0] if found else None

    def _command_item(self, item: Record) -> bool:
        """``CommandExecution`` (0.148 on) or ``exec_command_end`` (0.117 - 0.128)."""
        output = text_in(item.get("aggregated_output")) or text_in(item.get("formatted_output"))
        if item.get("source") in ("user_shell", "userShell"):
            return self._shell_event(item.get("command"), output)
        call = self._joined(item.get("call_id", item.get("id")))
        if call is None:
            return IGNORED
        exit_code = whole_number(item.get("exit_code"))
        if call.exit_code is None:
            call.exit_code = exit_code
        if call.duration_ms is None:
            call.duration_ms = duration_ms(item.get("duration"))
        status = item.get("status")
        if status == "declined":
            call.status = "denied"
        elif (exit_code or status == "failed") and call.status in ("pending", "ok"):
            call.status = "error"
        return KEPT

    def _patch_item(self, item: Record) -> bool:
        """``FileChange`` (0.148 on) or ``patch_apply_end``: the diff as it was applied."""
        call = self._joined(item.get("call_id", item.get("id")))
        inner = False
        if call is None:
            # code mode: the script of an ``exec`` call patches files, under an id of its own
            newest = islice(reversed(self.open.values()), 20)
            call = next((call for call, _ in newest if call.name == "exec"), None)
            inner = True
        if call is None:
            return IGNORED
        status = item.get("status")
        if status == "declined":
            if not inner:
                call.status = "denied"
                call.edits = []
            return KEPT
        if item.get("success") is False or status == "failed":
            if not inner:
                call.edits = []
                call.status = "error"
            return KEPT
        edits = edits_of_changes(item.get("changes"))
        if edits:
            call.edits = call.edits + edits if inner else edits
            self.messages.grew(sum(len(edit.diff or "") for edit in edits))
        return KEPT

    def _mcp_item(self, item: Record) -> bool:
        call = self._joined(item.get("call_id", item.get("id")))
        if call is None:
            return IGNORED
        if call.duration_ms is None:
            call.duration_ms = duration_ms(item.get("duration"))
        result = dict_in(item.get("result"))
        answer = dict_in(result.get("Ok", result))
        failed = (
            "Err" in result
            or answer.get("isError") is True
            or answer.get("is_error") is True
            or item.get("status") == "failed"
            or isinstance(item.get("error"), dict | str)
        )
        if failed and call.status in ("pending", "ok"):
            call.status = "error"
        return KEPT

    def _web_search_event(self, event: Record) -> bool:
        call = self._joined(event.get("call_id", event.get("id")))
        if call is None:
            return IGNORED
        if not call.input or call.input == "{}":
            action = event.get("action") or {"query": event.get("query")}
            call.input = json_text(action)
        return KEPT

    def _spawn_event(self, event: Record) -> bool:
        """``sub_agent_activity``, ``collab_agent_spawn_end``, ``CollabAgentToolCall``: which thread
        a spawn_agent call started."""
        call = self._joined(event.get("event_id", event.get("call_id", event.get("id"))))
        if call is None or call.name != "spawn_agent":
            return IGNORED
        receivers = list_in(event.get("receiver_thread_ids"))
        thread_id = (
            text_in(event.get("agent_thread_id"))
            or text_in(event.get("new_thread_id"))
            or (text_in(receivers[0]) if receivers else "")
        )
        if not thread_id:
            return IGNORED
        call.subagent_session_id = thread_id
        return KEPT

    def _hook_item(self, item: Record) -> bool:
        texts = [text_in(dict_in(part).get("text")) for part in list_in(item.get("fragments"))]
        text = "\n\n".join(filter(None, texts))
        if not text.strip():
            return IGNORED
        if any(squeezed(text) in told for told in self.hooked):
            return KEPT
        self._add_harness("user", "hook", text, text_in(item.get("id")))
        return KEPT

    def _review_event(self, event: Record) -> bool:
        """Entering and leaving a review: what it was about, and what it found."""
        output = dict_in(event.get("review_output"))
        text = (
            text_in(event.get("user_facing_hint"))
            or text_in(event.get("review"))
            or text_in(output.get("overall_explanation"))
        )
        if not text.strip():
            return IGNORED
        self._settle()
        self._add_harness("system", "notification", text)
        return KEPT

    # ----------------------------------------------------------------- items of paginated files

    def _item_completed(self, event: Record) -> bool | None:
        item = event.get("item")
        if not isinstance(item, dict):
            return self._unknown(event, "event_msg:item_completed")
        name = item.get("type")
        handler = _ITEMS.get(name) if isinstance(name, str) else None
        if handler is None:
            if name in ("ContextCompaction", "ImageView", "TodoList", "Sleep"):
                return IGNORED
            return self._unknown(event, f"event_msg:item_completed:{text_in(name)}")
        return handler(self, item)

    # ----------------------------------------------------------------- tokens

    def _token_count(self, event: Record) -> bool:
        spent = self.usage.spent(event, counts=not self.inherited, answered=self.answered)
        return IGNORED if spent is None else self._spend(spent)

    def _token_usage_record(self, record: Record) -> bool:
        spent = self.usage.recorded(record, counts=not self.inherited)
        return IGNORED if spent is None else self._spend(spent)

    def _spend(self, usage: Usage) -> bool:
        """Books the tokens of one model call on the step that it gave. 0.47 and older tell them
        before that step, newer versions after it; a compaction gives none."""
        if not any(usage):
            return IGNORED
        tokens = tokens_of(usage)
        upcoming = self.told or self.thoughts or self.thinking
        if self.answered and not upcoming and self.last_reply is not None:
            self._charge(self.last_reply, tokens)
            self.answered = False
        elif self.owed is None:
            self.owed = tokens
        else:
            add_tokens(self.owed, tokens)
        return KEPT

    def _charge(self, message: ParsedMessage, tokens: Tokens) -> None:
        if message.tokens is None:
            message.tokens = tokens
        else:
            add_tokens(message.tokens, tokens)

    def _pay_debts(self) -> None:
        """Tokens of a call that gave nothing to see go to the step before it."""
        if self.owed is not None and self.last_reply is not None:
            self._charge(self.last_reply, self.owed)
            self.owed = None

    # ----------------------------------------------------------------- the end

    def _finish(self) -> Reading:
        self._settle()
        self._pay_debts()
        if self.owed is not None and len(self.messages):
            self._charge(self.messages[-1], self.owed)
        for call_id, (call, _) in self.open.items():
            if call_id in self.interrupted:
                call.status = "interrupted"
                call.edits = []
            elif call_id in self.unanswered:
                call.status = "unknown"
        conversation = self.conversation
        if self.models:
            conversation.model = self.models.most_common(1)[0][0]
        if self.title:
            conversation.title, conversation.title_origin = self.title, "tool"
        records = self.records
        if not records.kept:
            records.message = "nothing of a conversation was found in this file"
        return Reading(conversation, records, self.base, self.has_meta)


def _drop_undone_edits(call: ParsedToolCall) -> None:
    """A patch that failed or was refused changed no file."""
    if call.edits and call.status in ("error", "denied", "interrupted"):
        call.edits = []


def _spawned_agent(output: str) -> str | None:
    """The thread that a spawn_agent call started, as its output names it (0.171)."""
    if not output.startswith("{") or len(output) > 10_000:
        return None
    values, _ = decode(output.encode("utf-8", "replace"))
    return text_in(dict_in(values[0] if values else None).get("agent_id")) or None


_RESPONSE_ITEMS: dict[str, Handler] = {
    "message": RolloutReader._message,
    "reasoning": RolloutReader._reasoning,
    "function_call": RolloutReader._function_call,
    "custom_tool_call": RolloutReader._custom_call,
    "function_call_output": RolloutReader._call_output,
    "custom_tool_call_output": RolloutReader._call_output,
    "web_search_call": RolloutReader._web_search_call,
    "local_shell_call": RolloutReader._local_shell_call,
    "local_shell_call_output": RolloutReader._call_output,
    "tool_search_call": RolloutReader._tool_search_call,
    "tool_search_output": RolloutReader._tool_search_output,
    "image_generation_call": RolloutReader._image_generation_call,
    "agent_message": RolloutReader._inter_agent_message,
}
_EVENTS: dict[str, Handler] = {
    "user_message": RolloutReader._user_event,
    "agent_message": RolloutReader._answer_event,
    "agent_reasoning": RolloutReader._reasoning_event,
    "agent_reasoning_raw_content": RolloutReader._reasoning_event,
    "token_count": RolloutReader._token_count,
    "item_completed": RolloutReader._item_completed,
    "task_complete": RolloutReader._task_complete,
    "turn_complete": RolloutReader._task_complete,
    "turn_aborted": RolloutReader._turn_aborted,
    "thread_rolled_back": RolloutReader._thread_rolled_back,
    "thread_name_updated": RolloutReader._thread_name_updated,
    "error": RolloutReader._error,
    "warning": RolloutReader._warning,
    "exec_command_end": RolloutReader._command_item,
    "patch_apply_end": RolloutReader._patch_item,
    "mcp_tool_call_end": RolloutReader._mcp_item,
    "web_search_end": RolloutReader._web_search_event,
    "image_generation_end": RolloutReader._web_search_event,
    "sub_agent_activity": RolloutReader._spawn_event,
    "collab_agent_spawn_end": RolloutReader._spawn_event,
    "collab_agent_interaction_end": RolloutReader._spawn_event,
    "collab_waiting_end": RolloutReader._spawn_event,
    "collab_close_end": RolloutReader._spawn_event,
    "collab_resume_end": RolloutReader._spawn_event,
    "entered_review_mode": RolloutReader._review_event,
    "exited_review_mode": RolloutReader._review_event,
}
_ITEMS: dict[str, Handler] = {
    "UserMessage": RolloutReader._user_message_item,
    "AgentMessage": RolloutReader._agent_message_item,
    "Reasoning": RolloutReader._reasoning_item,
    "Plan": RolloutReader._plan_item,
    "CommandExecution": RolloutReader._command_item,
    "FileChange": RolloutReader._patch_item,
    "McpToolCall": RolloutReader._mcp_item,
    "WebSearch": RolloutReader._web_search_event,
    "Extension": RolloutReader._web_search_event,
    "ImageGeneration": RolloutReader._web_search_event,
    "CollabAgentToolCall": RolloutReader._spawn_event,
    "HookPrompt": RolloutReader._hook_item,
    "EnteredReviewMode": RolloutReader._review_event,
    "ExitedReviewMode": RolloutReader._review_event,
}
