"""The dataclasses that cross between adapters and the importer.

An adapter turns what a tool left on disk into these. Everything downstream - the importer, the
store, the pages - knows only them, and nothing here knows SQL or Datasette.

Times are ISO 8601 UTC text with milliseconds, such as ``2026-11-30T21:12:43.109Z`` (see
:func:`datasette_crystal.text.iso_time`), or ``None`` where the source has none: a time is never
invented.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

#: Whose words a message is made of. A person's, another agent's, the model's, the harness's.
PERSON_KINDS = ("prompt", "command", "shell", "answer")
AGENT_KINDS = ("task",)
MODEL_KINDS = ("reply", "partial")
HARNESS_KINDS = (
    "context",
    "summary",
    "notification",
    "interruption",
    "error",
    "local-output",
    "hook",
)
MESSAGE_KINDS = PERSON_KINDS + AGENT_KINDS + MODEL_KINDS + HARNESS_KINDS
#: What counts as a prompt of a conversation (an answer to a tool's question does not start a turn).
PROMPT_KINDS = ("prompt", "command", "shell")
ROLES = ("user", "assistant", "system")
#: Where a message stands in a conversation: shown, undone by the user, on a branch that the user
#: left (rewind), or no longer in the tool's own files.
STATES = ("active", "rolled-back", "abandoned", "gone")
CONVERSATION_KINDS = ("main", "subagent", "fork", "review", "prompt-history")
CALL_STATUSES = ("ok", "error", "denied", "interrupted", "pending", "unknown")
FIDELITIES = ("complete", "partial", "metadata-only", "unreadable")
EDIT_ACTIONS = ("create", "edit", "delete", "rename")
TITLE_ORIGINS = ("user", "tool", "summary", "first-prompt", "task")


# --------------------------------------------------------------------------- where to look


@dataclass(frozen=True)
class Environment:
    """Where adapters look for a tool's files. Nothing else in the package reads the home
    directory or the process environment, so that any home directory - also one copied from another
    machine - can be imported.

    ``home`` is the home directory; ``platform`` is a :data:`sys.platform` value; ``variables`` are
    the environment variables that tools honour (``CLAUDE_CONFIG_DIR``, ``CODEX_HOME``,
    ``XDG_CONFIG_HOME``, ``APPDATA`` ...), empty for a home that is not the user's own; ``roots``
    are directories that the user named for a source, looked at beside the usual ones.
    """

    home: Path
    platform: str = sys.platform
    variables: Mapping[str, str] = field(default_factory=dict)
    roots: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    @classmethod
    def current(cls, roots: Mapping[str, tuple[Path, ...]] | None = None) -> Environment:
        """The user's own home directory and environment."""
        return cls(Path.home(), sys.platform, dict(os.environ), roots or {})

    @classmethod
    def for_home(
        cls, home: Path, roots: Mapping[str, tuple[Path, ...]] | None = None
    ) -> Environment:
        """Another home directory: the variables of this process do not apply to it."""
        return cls(home, sys.platform, {}, roots or {})

    def directory_variable(self, name: str) -> Path | None:
        """The directory that environment variable ``name`` holds (``~`` expanded), or ``None``."""
        value = self.variables.get(name)
        if not value:
            return None
        if value == "~" or value.startswith(("~/", "~\\")):
            return self.home / value[2:]
        return Path(value)


@dataclass(frozen=True)
class Unreadable:
    """Something of a source that is there but cannot be read, and why (one plain line)."""

    path: str
    reason: str


@dataclass
class SourceInfo:
    """What :meth:`Adapter.detect` found: ``roots`` are the directories (or databases) of the tool,
    ``conversations`` their number (``None`` where counting would mean reading), ``oldest`` and
    ``newest`` file times, ``warnings`` plain lines for the user (such as a tool that deletes its
    history after 30 days)."""

    source: str
    roots: list[Path]
    conversations: int | None = None
    oldest: str | None = None
    newest: str | None = None
    unreadable: list[Unreadable] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


# --------------------------------------------------------------------------- what scan() gives


@dataclass(frozen=True)
class SourceFile:
    """A file as ``stat`` saw it, without reading it. ``root`` is the directory of the tool that it
    was found in: a file that is missing from a completely read root is known to be gone. ``part``
    names one conversation inside a file that holds many (a database), else it is empty."""

    path: str
    root: str
    size: int
    mtime_ns: int
    part: str = ""

    @classmethod
    def at(cls, path: Path, root: Path, part: str = "") -> SourceFile:
        """Raises :class:`OSError` when the file is not there."""
        status = path.stat()
        return cls(str(path), str(root), status.st_size, status.st_mtime_ns, part)


@dataclass(frozen=True)
class ConversationMeta:
    """Identity and change marker of one conversation, found without reading its contents.

    ``files`` are the files that it is made of, the one that names it first: the importer reads the
    conversation again when the size or mtime of one of them changed, when ``marker`` changed, or
    when the adapter's ``parser_version`` did. ``marker`` holds whatever else its content depends on
    (a title kept in an index file, the ``updatedAt`` of a conversation inside a shared database).
    ``hints`` are the adapter's own, picklable.
    """

    source: str
    session_id: str
    files: tuple[SourceFile, ...]
    marker: str = ""
    hints: Any = None


@dataclass(frozen=True)
class ScanProblem:
    """Yielded by :meth:`Adapter.scan` between conversations: a file or directory that could not be
    looked at, and why. Nothing in ``root`` is taken for missing then; without a root, nothing of the
    whole source. ``status`` is ``error`` where another try may help (no permission, a lock), and
    ``unreadable`` where the content itself cannot be read (damaged, encrypted)."""

    source: str
    path: str
    reason: str
    root: str = ""
    status: str = "error"

    @classmethod
    def of(cls, source: str, path: str | Path, error: Exception, root: str = "") -> ScanProblem:
        """The problem that an exception tells of: a :class:`ValueError` is about content."""
        reason = getattr(error, "strerror", None) or str(error)
        status = "unreadable" if isinstance(error, ValueError) else "error"
        return cls(source, str(path), reason, root, status)


# --------------------------------------------------------------------------- what parse() gives


@dataclass(slots=True)
class Tokens:
    """Tokens of one model call, counted once. ``input`` is what was sent anew: neither read from
    nor written to the cache; ``output`` includes ``reasoning``. ``None``: not recorded."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


@dataclass(slots=True)
class FileEdit:
    """A change that a tool call made to a file. ``diff`` is a unified diff without file headers
    where the source has one; line counts are ``None`` where they are not known."""

    path: str
    action: str = "edit"
    lines_added: int | None = None
    lines_removed: int | None = None
    diff: str | None = None


@dataclass(slots=True)
class ParsedToolCall:
    """``input`` is valid JSON text (raw text input is a JSON string); ``output`` is text as the
    model got it; ``call_id`` is the source's id, which need not be unique; ``title`` is one
    readable line (see :func:`datasette_crystal.text.tool_title`), made by the importer when empty."""

    name: str
    input: str | None = None
    output: str | None = None
    call_id: str | None = None
    status: str = "pending"
    exit_code: int | None = None
    started_at: str | None = None
    duration_ms: int | None = None
    title: str = ""
    subagent_session_id: str | None = None
    edits: list[FileEdit] = field(default_factory=list)


@dataclass(slots=True)
class Attachment:
    """Something that came with a message: an image, a document, pasted text, a file reference.
    ``content`` is the bytes where the source keeps them."""

    kind: str
    name: str = ""
    media_type: str | None = None
    content: bytes | None = None


@dataclass(slots=True)
class ParsedMessage:
    """One step: thinking, then text, then the tool calls that followed.

    ``uid`` is the source's id of the message, unique in its conversation and the same on every
    reading. ``shared_uid`` says that every copy of this message (in a fork, a resumed session)
    carries the same uid, so that equal uids within the source mean one message; leave it false for
    ids that are only positions. ``inherited`` says that the source itself shows this message to be
    copied from ``parent_session_id``. ``record`` is the number of the record that it begins at (a
    line number from 0, or the source's own ordinal).
    """

    uid: str
    role: str
    kind: str
    content: str = ""
    thinking: str | None = None
    timestamp: str | None = None
    model: str | None = None
    tokens: Tokens | None = None
    state: str = "active"
    shared_uid: bool = False
    inherited: bool = False
    record: int | None = None
    vote: str | None = None
    tool_calls: list[ParsedToolCall] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Whether a tool call still waits for its result."""
        return any(call.status == "pending" for call in self.tool_calls)


class Messages:
    """The messages of a conversation, in the source's own order: append, index states, iterate.

    It behaves like a list that only grows. A very long conversation is kept in a temporary file
    beyond ``limit`` bytes of text, so that a 200 MB session is read in bounded memory. Messages
    with an open tool call, and the newest ``window`` ones (of huge messages: the newest 64), are
    never moved there, so an adapter may still add to them; ``state`` of any message is set with :meth:`mark`.
    """

    limit = 24_000_000
    window = 2_000
    _chunk = 500

    def __init__(self, messages: Iterable[ParsedMessage] = ()) -> None:
        self._live: dict[int, ParsedMessage] = {}
        self._chunks: list[tuple[int, int, int]] = []  # first index, offset, bytes
        self._spilled = 0  # every index below was looked at for moving
        self._length = 0
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._states: dict[int, str] = {}
        for message in messages:
            self.append(message)

    def __len__(self) -> int:
        return self._length

    def append(self, message: ParsedMessage) -> int:
        """Returns the index of the message."""
        index = self._length
        self._live[index] = message
        self._length += 1
        # What an object of this kind costs beside its text was measured at about 600 bytes.
        self._bytes += 600 + len(message.content) + len(message.thinking or "")
        if self._length % 256 == 0 or self._bytes > 3 * self.limit:
            self._spill()
        return index

    def grew(self, count: int) -> None:
        """Tells that ``count`` more characters hang on messages that were already appended."""
        self._bytes += count
        if self._bytes > 3 * self.limit:
            self._spill()

    def mark(self, index: int, state: str) -> None:
        """Sets the state of the message at ``index``."""
        message = self._live.get(index)
        if message is not None:
            message.state = state
        else:
            self._states[index] = state

    def __getitem__(self, index: int) -> ParsedMessage:
        """A message that is still in memory (one of the newest ``window``)."""
        return self._live[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[ParsedMessage]:
        index = 0
        for first, offset, size in self._chunks:
            while index < first:
                yield self._live[index]
                index += 1
            assert self._file is not None
            self._file.seek(offset)
            for moved in pickle.loads(self._file.read(size)):
                message = self._live[index] if moved is None else moved
                if index in self._states:
                    message.state = self._states[index]
                yield message
                index += 1
        while index < self._length:
            yield self._live[index]
            index += 1

    def _spill(self) -> None:
        while self._bytes > self.limit:
            # a few huge messages must go, too, not only many small ones
            pressing = self._bytes > 3 * self.limit
            movable = self._length - self._spilled - (64 if pressing else self.window)
            size = min(movable, self._chunk)
            if size < (1 if pressing else self._chunk):
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="datasette-crystal-")  # noqa: SIM115
            first = self._spilled
            chunk: list[ParsedMessage | None] = []
            for index in range(first, first + size):
                message = self._live[index]
                if message.open:
                    chunk.append(None)
                    continue
                chunk.append(self._live.pop(index))
                self._bytes -= 600 + len(message.content) + len(message.thinking or "")
                for call in message.tool_calls:
                    self._bytes -= len(call.input or "") + len(call.output or "")
            data = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
            offset = self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._chunks.append((first, offset, len(data)))
            self._spilled += size
            self._bytes = max(self._bytes, 0)


@dataclass(slots=True)
class ParsedConversation:
    """One conversation. ``started_at`` is when *this* conversation began: a fork that repeats older
    messages began when it was forked. Left at ``None`` the importer takes the first and last time
    of the messages that are not inherited. ``inherits_until`` is, for a fork that only refers to
    its parent's history, the ordinal before which the parent's records belong to it too."""

    source: str
    session_id: str
    kind: str = "main"
    title: str | None = None
    title_origin: str | None = None
    parent_session_id: str | None = None
    inherits_until: int | None = None
    project_path: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    git_remote: str | None = None
    model: str | None = None
    tool_version: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    cost_usd: float | None = None
    archived: bool = False
    fidelity: str = "complete"
    messages: Messages = field(default_factory=Messages)


@dataclass(slots=True)
class UnknownRecord:
    """A record of a type that the adapter does not know: where it stands and how it looks."""

    where: str
    type: str
    sample: str


@dataclass(slots=True)
class FileRecords:
    """How every record of one file was accounted for:
    ``records = kept + ignored + unknown + malformed``. A record is kept when something of it is in
    the conversation, ignored when its type is known to hold nothing of a conversation, unknown when
    its type is not known, malformed when it is not a record at all. ``message`` is a plain line
    for the import log."""

    path: str
    part: str = ""
    records: int = 0
    kept: int = 0
    ignored: int = 0
    unknown: int = 0
    malformed: int = 0
    samples: list[UnknownRecord] = field(default_factory=list)
    message: str | None = None

    def add_unknown(self, where: str, type_: str, sample: str) -> None:
        """Counts an unknown record; a few samples of each type are kept."""
        self.unknown += 1
        if sum(1 for other in self.samples if other.type == type_) < 3 and len(self.samples) < 50:
            self.samples.append(UnknownRecord(where, type_[:200], sample[:2000]))


@dataclass(slots=True)
class Parsed:
    """What :meth:`Adapter.parse` gives: usually one conversation and the records of one file."""

    conversations: list[ParsedConversation]
    files: list[FileRecords] = field(default_factory=list)
