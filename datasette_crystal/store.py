"""Everything that writes crystal.db. Knows the schema, and nothing of sources."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from sys import intern
from typing import Any

import orjson
from sqlite_utils import Database

from . import search, usage
from .alignment import (
    fill_gaps,
    is_poorer,
    match_in_order,
    message_signature,
    richer,
    signature,
)
from .migrations import (
    APPLICATION_ID,
    LATE_INDEXES,
    ensure_late_indexes,
    migrations,
    newer_migrations,
)
from .model import (
    MODEL_KINDS,
    PERSON_KINDS,
    PROMPT_KINDS,
    FileRecords,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    SourceFile,
    Tokens,
)
from .text import clean, count, first_line, tool_title_from_json

#: Seconds to wait for another writer.
BUSY_TIMEOUT = 120


class StoreError(Exception):
    """The database cannot be used; the message is one plain line for the user."""


# --------------------------------------------------------------------------- opening


def is_crystal(connection: sqlite3.Connection) -> bool:
    """Whether a database bears our application id."""
    return bool(connection.execute("pragma application_id").fetchone()[0] == APPLICATION_ID)


def is_publication(connection: sqlite3.Connection) -> bool:
    """Whether a crystal database was written by ``datasette crystal publish``."""
    return any(
        orjson.loads(options).get("published")
        for (options,) in connection.execute(
            "select options from import_runs where machine = 'published'"
        )
    )


def open_readonly(path: str | Path) -> sqlite3.Connection:
    """Opens an existing crystal database without ever writing to it. Raises :class:`StoreError`."""
    path = Path(path)
    if not path.is_file():
        raise StoreError(f"{path} does not exist; `datasette crystal import` makes it")
    address = path.absolute().as_uri() + "?mode=ro"
    try:
        try:
            return _opened_readonly(address, path)
        except sqlite3.OperationalError:
            # A file in WAL mode needs a -shm beside it, also to read: not in a folder that cannot be
            # written. Without a -wal the file is all there is, and nobody can be writing it.
            wal = path.with_name(path.name + "-wal")
            if wal.exists() and wal.stat().st_size:
                raise
            return _opened_readonly(address + "&immutable=1", path)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path}: {error}") from error


def _opened_readonly(address: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT)
    try:
        _check(connection, path)
    except (sqlite3.DatabaseError, StoreError):
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the database is an existing crystal database; ``False`` when it is empty."""
    if not connection.execute("select count(*) from sqlite_master").fetchone()[0]:
        return False
    if not is_crystal(connection):
        raise StoreError(
            f"{path} is a SQLite database of something else, and was left alone; name another file"
        )
    newer = newer_migrations(Database(connection))
    if newer:
        raise StoreError(
            f"{path} was written by a newer version of datasette-crystal ({newer[-1]}); "
            "nothing was changed. Upgrade with: datasette install -U datasette-crystal"
        )
    return True


def open_for_writing(path: str | Path) -> sqlite3.Connection:
    """Opens or creates a crystal database and brings its schema up to date. A new file is readable
    by its owner only. Raises :class:`StoreError` where the file is no crystal database, was written
    by a newer version, is a publication, or cannot be written."""
    path = Path(path)
    if not path.parent.is_dir():
        raise StoreError(f"the directory {path.parent} does not exist")
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)
    except (OSError, sqlite3.OperationalError) as error:
        raise StoreError(f"{path} cannot be written: {error}") from error
    try:
        exists = _check(connection, path)
        if exists and is_publication(connection):
            raise StoreError(
                f"{path} was published to be shown to others, and was left alone: an import would "
                "bring into it what was taken out; name another file"
            )
        if not exists or migrations.pending(Database(connection)):
            connection.execute("begin immediate")
            with connection_rollback(connection):
                # two first imports at once: only now it is certain what is there
                if not _check(connection, path):
                    connection.execute(f"pragma application_id = {APPLICATION_ID}")
                migrations.apply(Database(connection))
        # a database at rest goes to WAL when nobody reads it
        connection.execute("pragma busy_timeout = 15000")
        connection.execute("pragma journal_mode = wal").fetchall()
        connection.execute(f"pragma busy_timeout = {BUSY_TIMEOUT * 1000}")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma cache_size = -32768")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma foreign_keys = off")
    except sqlite3.Error as error:
        connection.close()
        if "locked" in str(error):
            raise StoreError(
                f"{path} is being read by another program; try again when it is done"
            ) from error
        raise StoreError(f"{path}: {error}") from error
    except StoreError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def connection_rollback(connection: sqlite3.Connection) -> Iterator[None]:
    """Commits the open transaction, or rolls it back when the block raises."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("rollback")
        raise
    connection.execute("commit")


def close_at_rest(connection: sqlite3.Connection) -> None:
    """Closes the database so that it is one self-contained file again, where no other connection
    holds it open; else its empty ``-wal`` stays until that one closes."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        connection.execute("pragma busy_timeout = 200")
        connection.execute("pragma journal_mode = delete").fetchall()
    connection.close()


# --------------------------------------------------------------------------- small facts


@dataclass(frozen=True)
class KnownFile:
    """What the database knows of a source file (see :class:`~.model.SourceFile`)."""

    id: int
    source: str
    root: str
    size: int
    mtime_ns: int
    marker: str
    parser_version: int
    outcome: str
    skipped_below: int | None
    missing_since: str | None
    boundary_hash: str | None
    conversations: tuple[int, ...] = ()


def known_files(connection: sqlite3.Connection, machine: str) -> dict[tuple[str, str], KnownFile]:
    """Every source file that was imported on ``machine``, by (path, part)."""
    given: dict[int, tuple[int, ...]] = {}
    for file_id, conversation_id in connection.execute(
        "select source_file_id, conversation_id from conversation_files"
    ):
        given[file_id] = (*given.get(file_id, ()), conversation_id)
    files = {}
    for path, part, *values in connection.execute(
        "select path, part, id, source, root, size, mtime_ns, marker, parser_version, outcome, "
        "skipped_below, missing_since, boundary_hash from source_files where machine = ?",
        (machine,),
    ):
        files[path, part] = KnownFile(*[*values, given.get(values[0], ())])
    return files


def unfinished(connection: sqlite3.Connection) -> bool:
    """Whether the last import did not come to its end (it was killed, or the disk was full)."""
    return (
        connection.execute(
            "select 1 from import_runs where ended_at is null and id > "
            "(select coalesce(max(id), 0) from import_runs where ended_at is not null)"
        ).fetchone()
        is not None
    )


def project_name(path: str) -> str:
    """The last part of a path, in the way of the machine that it comes from."""
    windows = "\\" in path or (len(path) > 1 and path[1] == ":")
    pure = PureWindowsPath(path) if windows else PurePosixPath(path)
    return pure.name or path or "(unknown)"


def message_title(message: ParsedMessage) -> str:
    """A line of ordinary text for a message: its first line, else ``[Bash] ls -la``, ``[image]``."""
    title = first_line(message.content)
    if title:
        return title
    for call in message.tool_calls:
        detail = call_title(call)
        prefix = f"{call.name}: "
        detail = detail[len(prefix) :] if detail.startswith(prefix) else ""
        return first_line(f"[{call.name}] {detail}")
    for attachment in message.attachments:
        return first_line(f"[{attachment.kind}] {attachment.name}")
    if message.thinking:
        return first_line("[thinking] " + message.thinking)
    return f"[{message.kind}]"


def call_title(call: ParsedToolCall) -> str:
    return call.title or tool_title_from_json(call.name, call.input)


def _counts(tokens: Tokens | None) -> tuple[int | None, ...]:
    """Token counts as they can be stored and added up: an impossible one is not known."""
    if tokens is None:
        return (None,) * 5
    return (
        count(tokens.input),
        count(tokens.output),
        count(tokens.cache_read),
        count(tokens.cache_write),
        count(tokens.reasoning),
    )


def _earliest(one: str | None, two: str | None) -> str | None:
    return min(one, two) if one and two else one or two


def _optional(text: str | None) -> str | None:
    return clean(text) if text else None


#: How much an outcome of a call tells.
_STATUS_RANK = {"pending": 0, "unknown": 1, "interrupted": 2, "denied": 3, "ok": 4, "error": 4}

_INSERT_MESSAGE = (
    "insert into messages (id, title, source, conversation_id, uid, position, turn, role, kind, "
    "model, timestamp, has_code, has_tool_use, characters, input_tokens, output_tokens, cache_read_tokens, "
    "cache_write_tokens, reasoning_tokens, vote, content, thinking) values "
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_CALL = (
    "insert into tool_calls (id, title, name, message_id, conversation_id, position, call_id, "
    "status, exit_code, started_at, duration_ms, subagent_session_id, input, output) values "
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_EDIT = (
    "insert into file_edits (path, action, message_id, position, conversation_id, lines_added, "
    "lines_removed, diff) values (?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_ATTACHMENT = (
    "insert into attachments (name, message_id, position, kind, media_type, size, sha256, content) "
    "values (?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_LINK = (
    "insert into conversation_messages (conversation_id, position, message_id, uid, state, origin, "
    "record) values (?, ?, ?, ?, ?, ?, ?)"
)

#: message id, uid, state, origin, record
Link = tuple[int, str, str, str, "int | None"]


@dataclass
class _Rows:
    """Rows that wait to be inserted together."""

    messages: list[tuple[Any, ...]] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    edits: list[tuple[Any, ...]] = field(default_factory=list)
    attachments: list[tuple[Any, ...]] = field(default_factory=list)
    characters: int = 0


class Store:
    """Writes conversations into an open database. One transaction at a time (:meth:`transaction`);
    ids are given out inside it, so several importers may take turns."""

    def __init__(
        self, connection: sqlite3.Connection, machine: str, clock: Callable[[], str]
    ) -> None:
        self.db = connection
        self.machine = machine
        self.clock = clock
        self.now = clock()
        self.touched: set[int] = set()  # conversations whose rows changed in this run
        self.old_starts: set[str | None] = set()  # when they began, as was thought before
        self._rebuild_usage = unfinished(connection)
        self.run_id: int | None = None
        self._projects: dict[tuple[str, str], int] = {}
        self._next_message = self._next_call = 0
        self._words = False

    # ----------------------------------------------------------------- transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A batch: everything in it lands together, or nothing does."""
        self.db.execute("begin immediate")
        with connection_rollback(self.db):
            self.now = self.clock()
            self._projects.clear()
            self._next_message, self._next_call = (
                self.db.execute(f"select coalesce(max(id), 0) + 1 from {table}").fetchone()[0]
                for table in ("messages", "tool_calls")
            )
            self._words = search.fts_exists(self.db)
            yield

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """One conversation of a batch: undone alone when the block raises."""
        self.db.execute("savepoint conversation")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("rollback to conversation")
                self.db.execute("release conversation")
            raise
        self.db.execute("release conversation")

    def start_run(self, version: str, timezone: str, options: str) -> None:
        """Writes the row of this run, once, when there is something to write."""
        if self.run_id is None:
            self.run_id = self.db.execute(
                "insert into import_runs (started_at, version, machine, timezone, options) "
                "values (?, ?, ?, ?, ?)",
                (self.now, version, self.machine, timezone, options),
            ).lastrowid

    def add_source(self, id_: str, name: str) -> None:
        self.db.execute(
            "insert into sources (id, name) values (?, ?) on conflict (id) do update "
            "set name = excluded.name where name <> excluded.name",
            (id_, name),
        )

    # ----------------------------------------------------------------- one conversation

    def has_other_files(self, conversation_id: int, files: Iterable[SourceFile]) -> bool:
        """Whether a conversation is made of further files that are still there."""
        mine = {(file.path, file.part) for file in files}
        return any(
            row not in mine
            for row in self.db.execute(
                "select f.path, f.part from conversation_files cf "
                "join source_files f on f.id = cf.source_file_id "
                "where cf.conversation_id = ? and f.missing_since is null and f.machine = ?",
                (conversation_id, self.machine),
            )
        )

    def other_machine(self, conversation_id: int) -> str | None:
        """The machine that a conversation came from, where it is not this one."""
        machine = self.db.execute(
            "select machine from conversations where id = ?", (conversation_id,)
        ).fetchone()[0]
        return None if machine == self.machine else machine

    def conversation_id(self, source: str, session_id: str) -> tuple[int, str] | None:
        """Id and kind of the stored conversation that a session is, or is part of."""
        row = self.db.execute(
            "select id, kind from conversations where source = :source and session_id = :session "
            "union all select c.id, c.kind from resumed_sessions r join conversations c "
            "on c.id = r.conversation_id where r.source = :source and r.session_id = :session",
            {"source": source, "session": clean(session_id)},
        ).fetchone()
        return (row[0], row[1]) if row else None

    def store_conversation(
        self, parsed: ParsedConversation, grown: bool = False, partial: bool = False
    ) -> tuple[int, str]:
        """Stores a conversation, or brings the stored one up to date. Returns its id and what
        happened: ``imported``, ``updated`` or ``unchanged``. Call it inside a transaction.

        ``grown`` says that its files begin with the very bytes that they held before: then what the
        new reading does not give is nothing that the tool took away, but was understood better
        (a prompt that waited, say, and was then told as a record), and goes. ``partial`` says that
        other files hold more of it."""
        parsed.session_id = clean(parsed.session_id)
        parsed.parent_session_id = _optional(parsed.parent_session_id)
        stored = self.conversation_id(parsed.source, parsed.session_id)
        if stored and parsed.kind == "prompt-history" and stored[1] != "prompt-history":
            return stored[0], "unchanged"  # the transcript itself is here, its prompts with it
        upgrade = bool(stored and stored[1] == "prompt-history" and parsed.kind != "prompt-history")
        if stored and upgrade:
            # the transcript is back: what history.jsonl knew of it is a part of that
            ids = [link[0] for link in self._links(stored[0])]
            self._write_links(stored[0], self._links(stored[0]), [])
            self._drop(stored[0], ids)
            self.db.execute(
                "delete from conversation_files where conversation_id = ?", (stored[0],)
            )
            partial = False

        first = last = None
        for message in parsed.messages:
            if message.timestamp and not message.inherited:
                if first is None or message.timestamp < first:
                    first = message.timestamp
                if last is None or message.timestamp > last:
                    last = message.timestamp
        started_at = parsed.started_at or first
        ended_at = parsed.ended_at or last or started_at

        conversation_id = stored[0] if stored else 0
        old_links = self._links(conversation_id) if stored else []
        own_links = [link for link in old_links if link[3] != "referred"]
        uids, matched, relatives = self._match(parsed, conversation_id, own_links, started_at)
        if stored and relatives and not self._is_resumed(conversation_id):
            # its beginning alone could not tell, and was stored as a conversation of its own: would
            # it be one if it came now?
            other = self._resumed_as(parsed, *self._match(parsed, conversation_id, [], started_at))
            if other is not None:
                self._dissolve(conversation_id, other)
                return self.store_conversation(parsed)
        # a session that was resumed in another file is one conversation made of several files
        several = bool(stored) and (partial or self._is_resumed(conversation_id))
        if not stored:
            resumed = self._resumed_as(parsed, uids, matched, relatives)
            if resumed is not None:
                several = True
                conversation_id = resumed
                old_links = own_links = self._links(conversation_id)
            else:
                conversation_id = self._insert_conversation(parsed, started_at, ended_at)
        exists = bool(stored) or several

        owners = self._owners(matched, conversation_id)
        new_ids: set[int] = set()
        for index, id_ in enumerate(matched):
            if not id_:
                matched[index] = self._next_message
                new_ids.add(self._next_message)
                self._next_message += 1

        # what a fork refers to stays in front; it is looked at again at the end of the run
        referred = [link for link in old_links if link[3] == "referred"]
        links = referred + self._new_links(
            parsed, uids, matched, own_links, drop_gone=grown and not several, several=several
        )
        poorer_tokens = bool(stored) and not grown and self._tells_less(parsed, conversation_id)
        changed = self._write_messages(
            parsed,
            conversation_id,
            started_at,
            links,
            uids,
            matched,
            new_ids,
            owners,
            several,
            keep_tokens=poorer_tokens,
        )
        if links != old_links:
            self._write_links(conversation_id, old_links, links)
            changed = True
        if grown and not several:
            kept = set(matched)
            self._drop(conversation_id, [link[0] for link in own_links if link[0] not in kept])
        if several:
            changed |= self._join_session(conversation_id, parsed, started_at, ended_at)
        elif stored:
            changed |= self._update_conversation(
                conversation_id, parsed, started_at, ended_at, grown=grown or upgrade
            )
            if grown:
                changed |= self._hand_over(conversation_id)
        changed |= self._set_title(conversation_id, parsed.title, parsed.title_origin)
        if changed or not exists:
            self.refresh_counts(conversation_id)
            self.touched.add(conversation_id)
            if exists:
                self.db.execute(
                    "update conversations set updated_at = ? where id = ?",
                    (self.now, conversation_id),
                )
        return conversation_id, "imported" if not exists else "updated" if changed else "unchanged"

    # ----------------------------------------------------------------- resumed in another file

    def _is_resumed(self, conversation_id: int) -> bool:
        return (
            self.db.execute(
                "select 1 from resumed_sessions where conversation_id = ?", (conversation_id,)
            ).fetchone()
            is not None
        )

    def _resumed_as(
        self,
        parsed: ParsedConversation,
        uids: list[str],
        matched: list[int],
        relatives: set[int],
    ) -> int | None:
        """The stored conversation that this session goes on with, or that went on with it.

        Claude Code 1.0.35 goes on in a new file with a copy of the whole history, under a new
        session id and new uuids, and never says where it comes from. So where one session holds
        all that was said in the other, renumbered, and neither names a parent of its own, they are
        one conversation. A copy that keeps the uuids is a conversation of its own (a fork).
        """
        here = {id_: index for index, id_ in enumerate(matched) if id_}
        speaking = {*PERSON_KINDS, *MODEL_KINDS, "task"}
        unmatched = any(
            not id_ and message.kind in speaking
            for id_, message in zip(matched, parsed.messages, strict=True)
        )
        for other, kind, parent in self.db.execute(
            "select id, kind, parent_session_id from conversations "
            f"where id in ({','.join('?' * len(relatives))}) order by started_at, session_id",
            sorted(relatives),
        ).fetchall():
            # "fork" without a parent that the source names is only what we made of it
            if kind == "fork" and parent is None:
                kind = "main"
            if kind != parsed.kind or not self._same_session(
                parsed.source, parent, parsed.parent_session_id
            ):
                continue
            rows = self.db.execute(
                "select cm.message_id, cm.uid, m.kind from conversation_messages cm "
                "join messages m on m.id = cm.message_id where cm.conversation_id = ? "
                "and cm.state <> 'gone' order by cm.position",
                (other,),
            ).fetchall()
            common = [(id_, uid, kind) for id_, uid, kind in rows if id_ in here]
            renumbered = any(
                uid != uids[here[id_]] and kind in (*PERSON_KINDS, "task")
                for id_, uid, kind in common
            )
            contains = all(id_ in here or kind not in speaking for id_, _, kind in rows)
            order = [here[id_] for id_, _, _ in common]
            if renumbered and (contains or not unmatched) and order == sorted(order):
                return int(other)
        return None

    def _same_session(self, source: str, one: str | None, two: str | None) -> bool:
        """Whether two session ids name one conversation."""
        if one == two:
            return True
        if one is None or two is None:
            return False
        first = self.conversation_id(source, one)
        return first is not None and first == self.conversation_id(source, two)

    def _join_session(
        self,
        conversation_id: int,
        parsed: ParsedConversation,
        started_at: str | None,
        ended_at: str | None,
    ) -> bool:
        """Makes a session part of a conversation, which bears the id of the session that began
        first and the facts of the one that ended last."""
        session_id, stored_start, stored_end = self.db.execute(
            "select session_id, started_at, ended_at from conversations where id = ?",
            (conversation_id,),
        ).fetchone()
        changed = False
        if parsed.session_id != session_id:
            other = parsed.session_id
            if (started_at or "9", parsed.session_id) < (stored_start or "9", session_id):
                other = session_id
                self.db.execute(
                    "update conversations set session_id = ? where id = ?",
                    (parsed.session_id, conversation_id),
                )
            cursor = self.db.execute(
                "insert or ignore into resumed_sessions (source, session_id, conversation_id) "
                "values (?, ?, ?)",
                (parsed.source, other, conversation_id),
            )
            changed = cursor.rowcount > 0
        newest = (ended_at or "") >= (stored_end or "")
        if not newest:
            parsed.title = None
        changed |= self._update_conversation(
            conversation_id, parsed, started_at, ended_at, only_missing=not newest
        )
        return changed

    def _links(self, conversation_id: int) -> list[Link]:
        return [
            # one object for each word, not one for each row: a conversation may be very long
            (id_, uid, intern(state), intern(origin), record)
            for id_, uid, state, origin, record in self.db.execute(
                "select message_id, uid, state, origin, record from conversation_messages "
                "where conversation_id = ? order by position",
                (conversation_id,),
            )
        ]

    # ----------------------------------------------------------------- which are the same

    def _match(
        self,
        parsed: ParsedConversation,
        conversation_id: int,
        own: list[Link],
        started_at: str | None,
    ) -> tuple[list[str], list[int], set[int]]:
        """The uid of each message (made unique); the id of the stored message that it is, or 0; and
        the other conversations that hold some of them under the same ids."""
        uids: list[str] = []
        taken: set[str] = set()
        shared: list[int] = []
        copied: list[int] = []
        positional: list[int] = []
        for index, message in enumerate(parsed.messages):
            uid = clean(message.uid) or f"message-{index}"
            if uid in taken:
                number = 2
                while f"{uid}~{number}" in taken:
                    number += 1
                uid = f"{uid}~{number}"
            elif message.shared_uid:
                shared.append(index)
            else:
                positional.append(index)
            taken.add(uid)
            uids.append(uid)
            if message.inherited:
                copied.append(index)
        matched = [0] * len(uids)
        signatures: list[int] = []

        def new_signature(index: int) -> int:
            if not signatures:
                signatures.extend(message_signature(message) for message in parsed.messages)
            return signatures[index]

        stored_signatures: dict[int, int] = {}

        def stored_signature(id_: int) -> int:
            if id_ not in stored_signatures:
                stored_signatures[id_] = self._stored_signature(id_)
            return stored_signatures[id_]

        used: set[int] = set()

        def take(index: int, id_: int) -> None:
            if id_ not in used:
                matched[index] = id_
                used.add(id_)

        # 1. this conversation as it was read before: same ids
        if own:
            by_uid = {link[1]: place for place, link in enumerate(own)}
            for index in shared:
                place = by_uid.get(uids[index])
                if place is not None:
                    uids[index] = own[place][1]
                    take(index, own[place][0])
            # An id that is only a position says nothing after the file was rewritten: the text
            # must be the same, or the stored text must have grown.
            candidates = {
                index: own[by_uid[uids[index]]][0] for index in positional if uids[index] in by_uid
            }
            del by_uid
            if candidates:
                for index, message in enumerate(parsed.messages):
                    if index in candidates and self._is_same_or_grown(message, candidates[index]):
                        take(index, candidates[index])
        # 2. copies in other conversations, by shared ids
        relatives = self._match_shared(
            parsed, conversation_id, [i for i in shared if not matched[i]], uids, take
        )
        # 3. the rest of this conversation by text, between those
        if own and not all(matched) and any(link[0] not in used for link in own):
            gaps = fill_gaps(matched, [link[0] for link in own], new_signature, stored_signature)
            for index, id_ in gaps.items():
                take(index, id_)
        # 4. between the copies, by text
        for relative in sorted(relatives):
            if all(matched):
                break
            self._match_relative(
                parsed, relative, matched, started_at, new_signature, stored_signature, take
            )
        # 5. copies that the source itself declares
        self._match_declared(
            parsed, conversation_id, copied, matched, new_signature, stored_signature, take
        )
        return uids, matched, relatives

    def _match_shared(
        self,
        parsed: ParsedConversation,
        conversation_id: int,
        indexes: list[int],
        uids: list[str],
        take: Any,
    ) -> set[int]:
        """Takes messages of other conversations of this source that bear the same id and are the
        same message. Returns those conversations."""
        found: dict[int, list[tuple[int, int]]] = {}
        by_uid = {uids[index]: index for index in indexes}
        for start in range(0, len(indexes), 500):
            chunk = [uids[index] for index in indexes[start : start + 500]]
            marks = ",".join("?" * len(chunk))
            for uid, id_, other in self.db.execute(
                # cross join: before there are statistics, SQLite would begin with the source
                "select cm.uid, cm.message_id, cm.conversation_id "
                "from conversation_messages cm indexed by conversation_messages_uid "
                "cross join conversations c on c.id = cm.conversation_id "
                f"where cm.uid in ({marks}) and c.source = ?",
                (*chunk, parsed.source),
            ):
                if other != conversation_id:
                    found.setdefault(by_uid[uid], []).append((id_, other))
        relatives: set[int] = set()
        if not found:
            return relatives
        for index, message in enumerate(parsed.messages):
            for id_, other in sorted(found.get(index, ())):
                if self._is_copy(message, id_):
                    take(index, id_)
                    relatives.add(other)
        return relatives

    def _is_copy(self, message: ParsedMessage, id_: int) -> bool:
        """Equal ids with different content and no shared time are two messages."""
        role, timestamp, content, thinking = self.db.execute(
            "select role, timestamp, content, thinking from messages where id = ?", (id_,)
        ).fetchone()
        if role != message.role:
            return False
        if timestamp and timestamp == message.timestamp:
            return True
        new, old = message.content.split(), content.split()
        if new != old:
            return bool(new and old) and (
                is_poorer(message.content, content) or is_poorer(content, message.content)
            )
        return bool(new) or (message.thinking or "").split() == (thinking or "").split()

    def _is_same_or_grown(self, message: ParsedMessage, id_: int) -> bool:
        role, _kind, content = self.db.execute(
            "select role, kind, content from messages where id = ?", (id_,)
        ).fetchone()
        if role != message.role:
            return False
        if not content.strip() and message.tool_calls:
            # a step that was still open: its calls come one by one
            calls = self.db.execute(
                "select name, input from tool_calls where message_id = ? order by position", (id_,)
            ).fetchall()
            now = [(call.name, call.input) for call in message.tool_calls]
            if calls == now[: len(calls)] and (calls or not message.content.strip()):
                return True
        if content.strip() or message.content.strip():
            return content.split() == message.content.split() or bool(
                content.strip() and is_poorer(content, message.content)
            )
        return bool(self._stored_signature(id_) == message_signature(message))

    def _stored_signature(self, id_: int) -> int:
        role, kind, content, thinking = self.db.execute(
            "select role, kind, content, thinking from messages where id = ?", (id_,)
        ).fetchone()
        calls: Iterable[tuple[str, str | None]] = ()
        if not content.strip():
            calls = self.db.execute(
                "select name, input from tool_calls where message_id = ? order by position", (id_,)
            ).fetchall()
        return signature(role, kind, content, thinking, calls)

    def _match_relative(
        self,
        parsed: ParsedConversation,
        relative: int,
        matched: list[int],
        started_at: str | None,
        new_signature: Any,
        stored_signature: Any,
        take: Any,
    ) -> None:
        other = [link[0] for link in self._links(relative) if link[3] != "referred"]
        for index, id_ in fill_gaps(
            matched, other, new_signature, stored_signature, tail=False
        ).items():
            take(index, id_)
        # After the last common message two conversations go their own ways - but for what the copy
        # wrote in the same instant as that message: the copying itself (1.0.35 stamps all of it
        # with one time).
        common = {id_: place for place, id_ in enumerate(other)}
        last = max((i for i, id_ in enumerate(matched) if id_ in common), default=None)
        if last is None:
            return
        relative_start = self.db.execute(
            "select started_at from conversations where id = ?", (relative,)
        ).fetchone()[0]
        rest_new = [i for i in range(last + 1, len(matched)) if not matched[i]]
        rest_old = [id_ for id_ in other[common[matched[last]] + 1 :] if id_ not in set(matched)]
        if not rest_new or not rest_old:
            return
        if (started_at or "9") >= (relative_start or "9"):  # this one is the copy
            times = {i: m.timestamp for i, m in enumerate(parsed.messages) if i >= last}
            rest_new = [i for i in rest_new if times[i] and times[i] == times[last]]
        else:
            # the copy's own times are gone once its rows belong to somebody else: it still owns
            # what is not common
            stamp = self._timestamp(other[common[matched[last]]])
            rest_old = [id_ for id_ in rest_old if stamp and self._timestamp(id_) == stamp]
        pairs = match_in_order(
            [new_signature(i) for i in rest_new], [stored_signature(id_) for id_ in rest_old]
        )
        for a, b in pairs:
            take(rest_new[a], rest_old[b])

    def _is_shown_elsewhere(self, id_: int, conversation_id: int) -> bool:
        return (
            self.db.execute(
                "select 1 from conversation_messages where message_id = ? "
                "and conversation_id <> ? and origin <> 'referred'",
                (id_, conversation_id),
            ).fetchone()
            is not None
        )

    def _timestamp(self, id_: int) -> str | None:
        row = self.db.execute("select timestamp from messages where id = ?", (id_,)).fetchone()
        return row[0] if row else None

    def _match_declared(
        self,
        parsed: ParsedConversation,
        conversation_id: int,
        copied: list[int],
        matched: list[int],
        new_signature: Any,
        stored_signature: Any,
        take: Any,
    ) -> None:
        """Messages that the source shows to be copies: of the parent, or (while the parent is not
        here) of another copy of the same parent; and, for a parent that comes after its copies, the
        copies of it."""
        copied = [index for index in copied if not matched[index]]
        if copied and parsed.parent_session_id:
            lists = self.db.execute(
                "select id from conversations where source = ? and session_id = ? and id <> ?",
                (parsed.source, parsed.parent_session_id, conversation_id),
            ).fetchall()
            whole = bool(lists)
            if not lists:
                lists = self.db.execute(
                    "select id from conversations where source = ? and parent_session_id = ? "
                    "and id <> ? order by started_at, session_id",
                    (parsed.source, parsed.parent_session_id, conversation_id),
                ).fetchall()
            for (other,) in lists:
                ids = [link[0] for link in self._links(other) if whole or link[3] == "copied"]
                todo = [index for index in copied if not matched[index]]
                pairs = match_in_order(
                    [new_signature(i) for i in todo], [stored_signature(id_) for id_ in ids]
                )
                for a, b in pairs:
                    take(todo[a], ids[b])
        children = self.db.execute(
            "select id from conversations where source = ? and parent_session_id = ? and id <> ?",
            (parsed.source, parsed.session_id, conversation_id),
        ).fetchall()
        for (child,) in children:
            ids = [link[0] for link in self._links(child) if link[3] == "copied"]
            todo = [index for index, id_ in enumerate(matched) if not id_]
            if ids and todo:
                pairs = match_in_order(
                    [stored_signature(id_) for id_ in ids], [new_signature(i) for i in todo]
                )
                for a, b in pairs:
                    take(todo[b], ids[a])

    def _owners(self, ids: Sequence[int], conversation_id: int) -> dict[int, tuple[int, str, str]]:
        """For stored messages that another conversation owns: its id, start and session id."""
        wanted = [id_ for id_ in ids if id_]
        owners: dict[int, tuple[int, str, str]] = {}
        for start in range(0, len(wanted), 500):
            chunk = wanted[start : start + 500]
            for id_, owner, started_at, session_id in self.db.execute(
                "select m.id, c.id, c.started_at, c.session_id from messages m "
                "join conversations c on c.id = m.conversation_id "
                f"where m.id in ({','.join('?' * len(chunk))}) and c.id <> ?",
                (*chunk, conversation_id),
            ):
                owners[id_] = (owner, started_at or "9", session_id)
        return owners

    # ----------------------------------------------------------------- writing messages

    def _new_links(
        self,
        parsed: ParsedConversation,
        uids: list[str],
        ids: list[int],
        old: list[Link],
        drop_gone: bool,
        several: bool,
    ) -> list[Link]:
        """The links of a conversation: what was read, and what was there before and is gone now, at
        its old place. Of a conversation made of several files (``several``) this is one: what it
        does not hold is not gone, and what it adds comes after what it follows."""
        links: list[Link] = [
            (
                ids[index],
                uids[index],
                message.state,
                "copied" if message.inherited else "own",
                message.record,
            )
            for index, message in enumerate(parsed.messages)
        ]
        if not old or drop_gone:
            return links
        if several:
            return self._united_links(parsed, links, old)
        here = set(ids)
        gone_after: dict[int, list[Link]] = {}
        last = 0
        for link in old:
            if link[0] in here:
                last = link[0]
            else:
                gone_after.setdefault(last, []).append((link[0], link[1], "gone", link[3], link[4]))
        if not gone_after:
            return links
        merged = gone_after.get(0, [])
        for link in links:
            merged.append(link)
            merged += gone_after.get(link[0], ())
        return merged

    def _united_links(
        self, parsed: ParsedConversation, new: list[Link], old: list[Link]
    ) -> list[Link]:
        known = {link[0]: link for link in old}
        times = {
            link[0]: message.timestamp for link, message in zip(new, parsed.messages, strict=True)
        }
        after: dict[int, list[Link]] = {}
        last = 0
        replaced: dict[int, Link] = {}
        for link in new:
            if link[0] not in known:
                after.setdefault(last, []).append(link)
                continue
            last = link[0]
            # the original has the earlier time; a copy is stamped when it was made
            if self._is_earlier(times[last], self._timestamp(last)):
                replaced[last] = link
            elif known[last][2] == "gone":
                replaced[last] = (*known[last][:2], link[2], *known[last][3:])
        united = after.get(0, [])
        for link in old:
            united.append(replaced.get(link[0], link))
            united += after.get(link[0], ())
        return united

    @staticmethod
    def _is_earlier(new: str | None, stored: str | None) -> bool:
        return bool(new) and (stored is None or new < stored)  # type: ignore[operator]

    def _write_links(self, conversation_id: int, old: list[Link], new: list[Link]) -> None:
        same = 0
        while same < len(old) and same < len(new) and old[same] == new[same]:
            same += 1
        if same < len(old):
            self.db.execute(
                "delete from conversation_messages where conversation_id = ? and position >= ?",
                (conversation_id, same),
            )
        self.db.executemany(
            _INSERT_LINK,
            ((conversation_id, position, *new[position]) for position in range(same, len(new))),
        )
        if old:
            self.db.executemany(
                "update messages set position = :position "
                "where id = :id and conversation_id = :conversation and position <> :position",
                [
                    {"id": new[place][0], "conversation": conversation_id, "position": place}
                    for place in range(same, len(new))
                ],
            )

    def _write_messages(
        self,
        parsed: ParsedConversation,
        conversation_id: int,
        started_at: str | None,
        links: list[Link],
        uids: list[str],
        ids: list[int],
        new_ids: set[int],
        owners: dict[int, tuple[int, str, str]],
        several: bool,
        keep_tokens: bool,
    ) -> bool:
        positions = (
            {link[0]: position for position, link in enumerate(links)}
            if len(links) != len(ids) or several
            else None
        )
        key = (started_at or "9", parsed.session_id)
        rows = _Rows()
        changed = False
        lost: set[int] = set()
        turn = 0
        for index, message in enumerate(parsed.messages):
            if message.kind in PROMPT_KINDS:
                turn += 1
            id_ = ids[index]
            position = positions[id_] if positions else index
            if id_ in new_ids:
                self._add_message(
                    rows, parsed.source, conversation_id, id_, uids[index], position, turn, message
                )
                changed = True
                if len(rows.messages) >= 500 or rows.characters > 8_000_000:
                    self._flush(rows)
                continue
            owner = owners.get(id_)
            if owner is None:
                mine = not several or self._is_earlier(message.timestamp, self._timestamp(id_))
            else:
                mine = key < owner[1:]
                if mine:
                    lost.add(owner[0])
            merged = self._merge_message(
                id_,
                message,
                conversation_id,
                uids[index],
                position,
                turn,
                mine,
                keep_tokens,
                foreign=owner is not None,
            )
            if merged and owner is not None and not mine:
                lost.add(owner[0])  # this copy knew something that the owner did not
            changed |= merged
        self._flush(rows)
        for other in lost:
            self._set_title(other, None, None)
            self.refresh_counts(other)
            self.touched.add(other)
        return changed or bool(lost)

    def _add_message(
        self,
        rows: _Rows,
        source: str,
        conversation_id: int,
        id_: int,
        uid: str,
        position: int,
        turn: int,
        message: ParsedMessage,
    ) -> None:
        content = clean(message.content) if message.content else ""
        thinking = _optional(message.thinking)
        tokens = message.tokens
        rows.messages.append(
            (
                id_,
                clean(message_title(message)),
                source,
                conversation_id,
                uid,
                position,
                turn,
                message.role,
                message.kind,
                message.model,
                message.timestamp,
                "```" in content,
                bool(message.tool_calls),
                len(content),
                *_counts(tokens),
                message.vote,
                content,
                thinking,
            )
        )
        rows.characters += len(content) + len(thinking or "")
        for place, call in enumerate(message.tool_calls):
            self._add_call(rows, conversation_id, id_, place, call)
        for place, attachment in enumerate(message.attachments):
            rows.attachments.append(_attachment_row(id_, place, attachment))
            rows.characters += len(attachment.content or b"")

    def _add_call(
        self, rows: _Rows, conversation_id: int, message_id: int, place: int, call: ParsedToolCall
    ) -> None:
        output = None if call.output is None else clean(call.output)
        rows.calls.append(
            (
                self._next_call,
                clean(call_title(call)),
                clean(call.name),
                message_id,
                conversation_id,
                place,
                _optional(call.call_id),
                call.status,
                call.exit_code,
                call.started_at,
                call.duration_ms,
                _optional(call.subagent_session_id),
                _optional(call.input),
                output,
            )
        )
        self._next_call += 1
        rows.characters += len(output or "") + len(call.input or "")
        for edit in call.edits:
            rows.edits.append(
                (
                    clean(edit.path),
                    edit.action,
                    message_id,
                    place,
                    conversation_id,
                    edit.lines_added,
                    edit.lines_removed,
                    _optional(edit.diff),
                )
            )

    def _flush(self, rows: _Rows) -> None:
        if rows.messages:
            self.db.executemany(_INSERT_MESSAGE, rows.messages)
            search.add_texts(
                self.db, ((row[0], row[20], row[21]) for row in rows.messages), self._words
            )
        if rows.calls:
            self.db.executemany(_INSERT_CALL, rows.calls)
        if rows.edits:
            self.db.executemany(_INSERT_EDIT, rows.edits)
        if rows.attachments:
            self.db.executemany(_INSERT_ATTACHMENT, rows.attachments)
        rows.messages.clear()
        rows.calls.clear()
        rows.edits.clear()
        rows.attachments.clear()
        rows.characters = 0

    # ----------------------------------------------------------------- a message again

    def _merge_message(
        self,
        id_: int,
        message: ParsedMessage,
        conversation_id: int,
        uid: str,
        position: int,
        turn: int,
        mine: bool,
        keep_tokens: bool,
        foreign: bool,
    ) -> bool:
        """Brings a stored message up to date with another reading of it. ``mine``: the conversation
        that is being read owns it (or takes it over); else only what is missing is filled in.
        Returns whether anything changed."""
        names = (
            "conversation_id, uid, position, turn, title, kind, model, timestamp, has_code, "
            "has_tool_use, characters, input_tokens, output_tokens, cache_read_tokens, "
            "cache_write_tokens, reasoning_tokens, vote, content, thinking"
        )
        old = self.db.execute(f"select {names} from messages where id = ?", (id_,)).fetchone()
        if not foreign and message.timestamp != old[7]:
            foreign = self._is_shown_elsewhere(id_, conversation_id)
        content = richer(clean(message.content), old[17], mine) or ""
        thinking = richer(_optional(message.thinking), old[18], mine)
        counts = _counts(message.tokens)
        # the tokens of a model call may move to a later step of it as the file grows
        if (not mine or keep_tokens) and any(count is not None for count in old[11:16]):
            counts = old[11:16]
        mine_first = (
            (lambda new, before: new if new is not None else before)
            if mine
            else (lambda new, before: before if before is not None else new)
        )
        place = (conversation_id, uid, position, turn) if mine else old[:4]
        title = (
            clean(message_title(message))
            if content != old[17] or (mine and not content and not is_poorer(None, old[17]))
            else old[4]
        )
        if not content and not mine:
            title = old[4]
        new = (
            *place,
            title,
            message.kind if mine else old[5],
            mine_first(message.model, old[6]),
            # of copies the earliest time is right: they are stamped when they are made
            _earliest(message.timestamp, old[7])
            if foreign
            else mine_first(message.timestamp, old[7]),
            int("```" in content),
            int(bool(message.tool_calls) or bool(old[9])),
            len(content),
            *counts,
            mine_first(message.vote, old[16]),
            content,
            thinking,
        )
        changed = new != old
        if changed:
            reindex = new[17:] != old[17:]
            if reindex:
                search.remove_texts(self.db, [(id_, old[17], old[18])], self._words)
            self.db.execute(
                f"update messages set ({names}) = ({','.join('?' * len(new))}) where id = ?",
                (*new, id_),
            )
            if reindex:
                search.add_texts(self.db, [(id_, content, thinking)], self._words)
            if new[0] != old[0]:
                for table in ("tool_calls", "file_edits"):
                    self.db.execute(
                        f"update {table} set conversation_id = ? where message_id = ?",
                        (conversation_id, id_),
                    )
        if message.tool_calls:
            changed |= self._merge_calls(id_, message, place[0], mine, foreign)
        if message.attachments:
            changed |= self._merge_attachments(id_, message)
        return changed

    def _merge_calls(
        self,
        message_id: int,
        message: ParsedMessage,
        conversation_id: int,
        mine: bool,
        foreign: bool,
    ) -> bool:
        names = (
            "call_id, title, name, status, exit_code, started_at, duration_ms, "
            "subagent_session_id, input, output"
        )
        stored = {
            row[1]: row
            for row in self.db.execute(
                f"select id, position, {names} from tool_calls where message_id = ?",
                (message_id,),
            )
        }
        by_call_id = {row[2]: row for row in stored.values() if row[2]}
        changed = False
        rows = _Rows()
        free = max(stored, default=-1) + 1
        for place, call in enumerate(message.tool_calls):
            row = by_call_id.get(call.call_id or "")
            if row is None:
                row = stored.get(place)
                if row is not None and row[2] and call.call_id and row[2] != call.call_id:
                    row = None
            if row is None:
                self._add_call(rows, conversation_id, message_id, free, call)
                free += 1
                changed = True
                continue
            old = row[2:]
            call_id, subagent = _optional(call.call_id), _optional(call.subagent_session_id)
            newer = mine and _STATUS_RANK[call.status] >= _STATUS_RANK.get(old[3], 0)
            better = newer or _STATUS_RANK[call.status] > _STATUS_RANK.get(old[3], 0)
            started_at = (
                _earliest(call.started_at, old[5])
                if foreign
                else (call.started_at or old[5])
                if mine
                else (old[5] or call.started_at)
            )
            duration_ms = old[6]
            if call.duration_ms is not None and (
                started_at != old[5] if foreign and old[5] else better
            ):
                duration_ms = call.duration_ms
            new = (
                (call_id or old[0]) if mine else (old[0] or call_id),
                clean(call_title(call)) if mine else old[1],
                clean(call.name) if mine else old[2],
                call.status if better else old[3],
                call.exit_code if better and call.exit_code is not None else old[4],
                started_at,
                duration_ms,
                (subagent or old[7]) if mine else (old[7] or subagent),
                richer(_optional(call.input), old[8], mine),
                richer(None if call.output is None else clean(call.output), old[9], mine),
            )
            if new != old:
                self.db.execute(
                    f"update tool_calls set ({names}) = ({','.join('?' * len(new))}) where id = ?",
                    (*new, row[0]),
                )
                changed = True
            if call.edits:
                changed |= self._merge_edits(rows, message_id, conversation_id, row[1], call, mine)
        self._flush(rows)
        return changed

    def _merge_edits(
        self,
        rows: _Rows,
        message_id: int,
        conversation_id: int,
        place: int,
        call: ParsedToolCall,
        mine: bool,
    ) -> bool:
        stored = self.db.execute(
            "select path, action, message_id, position, conversation_id, lines_added, "
            "lines_removed, diff from file_edits where message_id = ? and position = ? order by id",
            (message_id, place),
        ).fetchall()
        read = _Rows()
        self._add_call(read, conversation_id, message_id, place, call)
        self._next_call -= 1
        if stored == read.edits or (stored and not mine):
            return False
        self.db.execute(
            "delete from file_edits where message_id = ? and position = ?", (message_id, place)
        )
        rows.edits += read.edits
        return True

    def _merge_attachments(self, message_id: int, message: ParsedMessage) -> bool:
        stored = set(
            self.db.execute(
                "select kind, name, sha256 from attachments where message_id = ?", (message_id,)
            )
        )
        rows = [
            _attachment_row(message_id, len(stored) + place, attachment)
            for place, attachment in enumerate(message.attachments)
        ]
        rows = [row for row in rows if (row[3], row[0], row[6]) not in stored]
        self.db.executemany(_INSERT_ATTACHMENT, rows)
        return bool(rows)

    def _tells_less(self, parsed: ParsedConversation, conversation_id: int) -> bool:
        """Whether a reading knows of fewer output tokens than are stored: it is of a file that was
        cut, and must not take tokens away."""
        stored = self.db.execute(
            "select coalesce(sum(m.output_tokens), 0) from conversation_messages cm "
            "join messages m on m.id = cm.message_id where cm.conversation_id = ? "
            "and cm.origin <> 'referred'",
            (conversation_id,),
        ).fetchone()[0]
        read = sum(m.tokens.output or 0 for m in parsed.messages if m.tokens)
        return bool(read < stored)

    def _drop(self, conversation_id: int, ids: list[int]) -> None:
        """Takes messages out that this conversation does not show any more; those that another one
        shows become that one's."""
        others = [id_ for id_ in ids if not self._give(id_, conversation_id, leaving=True)]
        self._delete_messages(
            [
                id_
                for id_ in others
                if self.db.execute(
                    "select conversation_id from messages where id = ?", (id_,)
                ).fetchone()
                == (conversation_id,)
            ]
        )

    def _hand_over(self, conversation_id: int) -> bool:
        """Gives messages back to conversations that began earlier and show them too: this one began
        later than its first lines made believe."""
        ids = [
            row[0]
            for row in self.db.execute(
                "select m.id from messages m where m.conversation_id = :id and exists ("
                "select 1 from conversation_messages cm where cm.message_id = m.id "
                "and cm.conversation_id <> :id and cm.origin <> 'referred')",
                {"id": conversation_id},
            )
        ]
        given = [self._give(id_, conversation_id) for id_ in ids]
        return any(given)

    def _give(self, id_: int, giver: int, leaving: bool = False) -> bool:
        """Makes the earliest conversation that shows a message its owner. Returns whether another
        one than ``giver`` owns it now."""
        row = self.db.execute(
            "select cm.conversation_id, cm.uid, cm.position, m.conversation_id "
            "from conversation_messages cm join conversations c on c.id = cm.conversation_id "
            "join messages m on m.id = cm.message_id "
            "where cm.message_id = :id and cm.origin <> 'referred' "
            "and (cm.conversation_id <> :giver or not :leaving) "
            "order by coalesce(c.started_at, '9'), c.session_id limit 1",
            {"id": id_, "giver": giver, "leaving": leaving},
        ).fetchone()
        if row is None or row[3] != giver:
            return row is not None
        owner, uid, position, _ = row
        if owner == giver:
            return False
        self.db.execute(
            "update messages set conversation_id = ?, uid = ?, position = ? where id = ?",
            (owner, uid, position, id_),
        )
        for table in ("tool_calls", "file_edits"):
            self.db.execute(
                f"update {table} set conversation_id = ? where message_id = ?", (owner, id_)
            )
        self._set_title(owner, None, None)
        self.refresh_counts(owner)
        self.touched.add(owner)
        return True

    def _dissolve(self, conversation_id: int, into: int) -> None:
        """Takes a conversation out whose session turned out to be part of another one."""
        ids = [link[0] for link in self._links(conversation_id)]
        start = self.db.execute(
            "select started_at from conversations where id = ?", (conversation_id,)
        ).fetchone()[0]
        self.old_starts.add(start)
        self.db.execute(
            "delete from conversation_messages where conversation_id = ?", (conversation_id,)
        )
        self._drop(conversation_id, ids)
        self.db.execute(
            "update or ignore conversation_files set conversation_id = ? where conversation_id = ?",
            (into, conversation_id),
        )
        for statement in (
            "delete from conversation_files where conversation_id = ?",
            "update import_log set conversation_id = null where conversation_id = ?",
            "update conversations set parent_id = null where parent_id = ?",
            "update tool_calls set subagent_id = null where subagent_id = ?",
            "delete from conversations where id = ?",
        ):
            self.db.execute(statement, (conversation_id,))
        self.touched.discard(conversation_id)

    def _delete_messages(self, ids: list[int]) -> None:
        for id_ in ids:
            texts = self.db.execute(
                "select id, content, thinking from messages where id = ?", (id_,)
            ).fetchall()
            search.remove_texts(self.db, texts, self._words)
            for table in ("file_edits", "tool_calls", "attachments", "conversation_messages"):
                self.db.execute(f"delete from {table} where message_id = ?", (id_,))
            self.db.execute("delete from messages where id = ?", (id_,))

    # ----------------------------------------------------------------- the conversation row

    def _header(self, parsed: ParsedConversation, machine: str) -> dict[str, Any]:
        path = parsed.project_path or parsed.cwd
        return {
            "project_id": self._project(machine, clean(path), parsed.git_remote) if path else None,
            "machine": machine,
            "cwd": _optional(parsed.cwd),
            "git_branch": _optional(parsed.git_branch),
            "model": _optional(parsed.model),
            "tool_version": _optional(parsed.tool_version),
            "parent_session_id": parsed.parent_session_id,
            "inherits_until": parsed.inherits_until,
            "cost_usd": parsed.cost_usd,
            "cost_origin": None if parsed.cost_usd is None else "recorded",
        }

    def _insert_conversation(
        self, parsed: ParsedConversation, started_at: str | None, ended_at: str | None
    ) -> int:
        header = self._header(parsed, self.machine) | {
            "title": "",
            "source": parsed.source,
            "session_id": parsed.session_id,
            "kind": parsed.kind,
            "started_at": started_at,
            "ended_at": ended_at,
            "archived": int(parsed.archived),
            "fidelity": parsed.fidelity,
            "imported_at": self.now,
            "updated_at": self.now,
        }
        id_ = self.db.execute(
            f"insert into conversations ({','.join(header)}) values "
            f"({','.join(':' + name for name in header)})",
            header,
        ).lastrowid
        assert id_ is not None
        return id_

    def _update_conversation(
        self,
        id_: int,
        parsed: ParsedConversation,
        started_at: str | None,
        ended_at: str | None,
        only_missing: bool = False,
        grown: bool = False,
    ) -> bool:
        # a conversation that came from another machine first stays that machine's
        machine = self.db.execute(
            "select machine from conversations where id = ?", (id_,)
        ).fetchone()[0]
        header = {
            name: value
            for name, value in self._header(parsed, machine).items()
            if value is not None and name != "machine"
        }
        header |= {
            "kind": parsed.kind,
            "archived": int(parsed.archived),
            "missing_since": None,
        }
        names = list(header)
        old_start, old_end, old_fidelity, *old = self.db.execute(
            f"select started_at, ended_at, fidelity, {','.join(names)} from conversations "
            "where id = ?",
            (id_,),
        ).fetchone()
        if parsed.kind == "main" and old[names.index("kind")] == "fork":
            header["kind"] = "fork"  # found out at the end of an import, not by the source
        if only_missing:
            header = {
                name: new if before is None else before
                for (name, new), before in zip(header.items(), old, strict=True)
            }
        elif parsed.messages or old_fidelity != "complete":
            header["fidelity"] = parsed.fidelity
            names.append("fidelity")
            old.append(old_fidelity)
        # a truncated file does not make a conversation begin later or end earlier
        for name, new, before, choose in (
            ("started_at", started_at, old_start, min),
            ("ended_at", ended_at, old_end, max),
        ):
            both = [value for value in (new, before) if value]
            if grown and new:
                both = [new]
            header[name] = choose(both) if both else None
            names.append(name)
            old.append(before)
        if header["started_at"] != old_start:
            self.old_starts.add(old_start)
        if [header[name] for name in names] == old:
            return False
        self.db.execute(
            f"update conversations set {','.join(f'{name} = :{name}' for name in names)} "
            "where id = :id",
            header | {"id": id_},
        )
        return True

    def _project(self, machine: str, path: str, remote: str | None) -> int:
        key = (machine, path)
        if key not in self._projects:
            row = self.db.execute(
                "select id from projects where machine = ? and path = ?", key
            ).fetchone()
            if row is None:
                row = (
                    self.db.execute(
                        "insert into projects (name, machine, path, remote) values (?, ?, ?, ?)",
                        (project_name(path), machine, path, remote),
                    ).lastrowid,
                )
            self._projects[key] = row[0]
        if remote:
            self.db.execute(
                "update projects set remote = ? where id = ? and remote is not ?",
                (remote, self._projects[key], remote),
            )
        return self._projects[key]

    def _set_title(self, id_: int, title: str | None, origin: str | None) -> bool:
        """The tool's title; without one the title that the tool once gave stays, and else a
        conversation is called after its first prompt. Returns whether it changed."""
        title = first_line(title or "", 200)
        before = self.db.execute(
            "select title, title_origin from conversations where id = ?", (id_,)
        ).fetchone()
        if not title:
            if before[0] and before[1] in ("user", "tool", "summary"):
                return False
            title, origin = self._title_from_messages(id_)
        title = clean(title)
        if (title, origin) == before:
            return False
        self.db.execute(
            "update conversations set title = ?, title_origin = ? where id = ?",
            (title, origin, id_),
        )
        return True

    def _title_from_messages(self, id_: int) -> tuple[str, str | None]:
        for kinds, origin in (
            (("prompt", "command", "shell"), "first-prompt"),
            (("task",), "task"),
            (MODEL_KINDS, None),
        ):
            marks = ",".join("?" * len(kinds))
            for own in ("and cm.origin = 'own' and cm.state = 'active'", ""):
                row = self.db.execute(
                    "select m.title, substr(m.content, 1, 1000) from conversation_messages cm "
                    "join messages m on m.id = cm.message_id "
                    f"where cm.conversation_id = ? and m.kind in ({marks}) {own} "
                    "order by m.conversation_id <> cm.conversation_id, cm.position limit 1",
                    (id_, *kinds),
                ).fetchone()
                if row:
                    return first_line(row[1], 200) or row[0], origin
        return "(untitled)", None

    def default_title(self, id_: int) -> str:
        """What a conversation is called when neither a person nor the tool gave it a title."""
        return clean(self._title_from_messages(id_)[0])

    def refresh_title(self, id_: int) -> None:
        """Names a conversation after its first prompt again, where neither a person nor the tool
        gave it a title."""
        self._set_title(id_, None, None)

    def refresh_counts(self, id_: int) -> None:
        """Counts and sums of a conversation, over the messages that it owns."""
        prompts = ",".join(f"'{kind}'" for kind in PROMPT_KINDS)
        self.db.execute(
            "update conversations set (message_count, prompt_count, error_count, input_tokens, "
            "output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens) = ("
            f"select count(*), coalesce(sum(kind in ({prompts})), 0), "
            "coalesce(sum(kind = 'error'), 0), "
            "sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), "
            "sum(cache_write_tokens), sum(reasoning_tokens) "
            "from messages where conversation_id = :id) where id = :id",
            {"id": id_},
        )
        self.db.execute(
            "update conversations set (tool_call_count, error_count) = ("
            "select count(*), conversations.error_count + coalesce(sum(status = 'error'), 0) "
            "from tool_calls where conversation_id = :id), inherited_count = ("
            "select count(*) from conversation_messages cm join messages m on m.id = cm.message_id "
            "where cm.conversation_id = :id and m.conversation_id <> :id) where id = :id",
            {"id": id_},
        )

    # ----------------------------------------------------------------- files and the log

    def record_file(
        self,
        source: str,
        file: SourceFile,
        *,
        marker: str,
        parser_version: int,
        outcome: str,
        skipped_below: int | None = None,
        boundary_hash: str | None = None,
    ) -> int:
        """Writes how a file was found and what came of it; returns its id."""
        values = {
            "source": source,
            "machine": self.machine,
            "root": clean(file.root),
            "path": clean(file.path),
            "part": clean(file.part),
            "size": file.size,
            "mtime_ns": file.mtime_ns,
            "marker": clean(marker),
            "parser_version": parser_version,
            "boundary_hash": boundary_hash,
            "outcome": outcome,
            "skipped_below": skipped_below,
        }
        row = self.db.execute(
            f"insert into source_files ({','.join(values)}) values "
            f"({','.join(':' + name for name in values)}) "
            "on conflict (machine, path, part) do update set "
            + ",".join(f"{name} = excluded.{name}" for name in values)
            + ", missing_since = null returning id",
            values,
        ).fetchone()
        return int(row[0])

    def link_file(self, conversation_id: int, source_file_id: int) -> None:
        self.db.execute(
            "insert or ignore into conversation_files (conversation_id, source_file_id) "
            "values (?, ?)",
            (conversation_id, source_file_id),
        )

    def log(
        self,
        source: str,
        file_path: str,
        status: str,
        message: str | None = None,
        conversation_id: int | None = None,
        records: FileRecords | None = None,
        source_file_id: int | None = None,
    ) -> bool:
        """Writes a row of the import log, unless the last row of this file says the same (an
        outcome that repeats is no news). Returns whether a row was written."""
        counts: tuple[int | None, ...] = (None,) * 5
        if records is not None:
            counts = (
                records.records,
                records.kept,
                records.ignored,
                records.unknown,
                records.malformed,
            )
            message = message or records.message
            if source_file_id is not None:
                self.db.execute(
                    "delete from unknown_records where source_file_id = ?", (source_file_id,)
                )
                self.db.executemany(
                    "insert into unknown_records (source_file_id, location, type, sample) "
                    "values (?, ?, ?, ?)",
                    (
                        (source_file_id, clean(s.where), clean(s.type), clean(s.sample))
                        for s in records.samples
                    ),
                )
        message = clean(first_line(message, 500)) if message else None
        path = clean(file_path)
        last = self.db.execute(
            "select status, message, conversation_id, records, kept_records, ignored_records, "
            "unknown_records, malformed_records from import_log where file_path = ? "
            "and source = ? order by id desc limit 1",
            (path, source),
        ).fetchone()
        new = (status, message, conversation_id, *counts)
        if last == new or (
            last and status == "updated" and last[0] == "imported" and last[1:] == new[1:]
        ):
            return False
        self.db.execute(
            "insert into import_log (run_id, source, conversation_id, file_path, status, message, "
            "records, kept_records, ignored_records, unknown_records, malformed_records, "
            "created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.run_id, source, conversation_id, path, status, message, *counts, self.now),
        )
        return True

    def mark_missing(self, files: Iterable[KnownFile]) -> None:
        """The tool deleted these files: they are marked, and so is every conversation none of whose
        files is left. Nothing else changes."""
        for file in files:
            self.db.execute(
                "update source_files set missing_since = ? where id = ? and missing_since is null",
                (self.now, file.id),
            )
            self.db.execute(
                "update conversations set missing_since = ? where missing_since is null and id in ("
                "select conversation_id from conversation_files where source_file_id = ?) "
                "and not exists (select 1 from conversation_files cf join source_files f "
                "on f.id = cf.source_file_id where cf.conversation_id = conversations.id "
                "and f.missing_since is null)",
                (self.now, file.id),
            )

    def mark_back(self, files: Iterable[KnownFile]) -> None:
        """These files were missing once and are there again, unchanged."""
        for file in files:
            self.db.execute("update source_files set missing_since = null where id = ?", (file.id,))
            self.db.execute(
                "update conversations set missing_since = null where id in ("
                "select conversation_id from conversation_files where source_file_id = ?)",
                (file.id,),
            )

    # ----------------------------------------------------------------- the end of a run

    def finish(self) -> None:
        """Everything that needs the whole: links between conversations, indexes, full text, the
        daily figures. May be repeated; does only what is left to do."""
        with self.transaction():
            self._resolve_parents()
            self._resolve_references()
        with self.transaction():
            if not self._words:
                search.build_fts(self.db)
            if not search.cjk_exists(self.db):
                search.build_cjk(self.db)
            ensure_late_indexes(self.db)
        with self.transaction():
            if self._rebuild_usage:
                self.db.execute("delete from daily_usage")
            usage.refresh(self.db, self.touched, self.old_starts)
            self.db.execute("pragma analysis_limit = 2000")
            self.db.execute("analyze")
            self.db.execute(
                "update import_runs set ended_at = ? where id = ?", (self.clock(), self.run_id)
            )

    def _resolve_parents(self) -> None:
        for table, column, session in (
            ("conversations", "parent_id", "parent_session_id"),
            ("tool_calls", "subagent_id", "subagent_session_id"),
        ):
            source = (
                "conversations.source"
                if table == "conversations"
                else "(select c.source from conversations c where c.id = tool_calls.conversation_id)"
            )
            self.db.execute(
                f"update {table} set {column} = found.id from (select p.id, p.source, p.session_id "
                f"from conversations p) as found where {table}.{column} is null "
                f"and {table}.{session} is not null and found.source = {source} "
                f"and found.session_id = {table}.{session} and found.id <> "
                + ("conversations.id" if table == "conversations" else "tool_calls.conversation_id")
            )
        # what was taken for a copy, and owns all that it shows now, is none
        self.db.execute(
            "update conversations set kind = 'main', parent_id = null where kind = 'fork' "
            "and parent_session_id is null and inherited_count = 0"
        )
        # A copy under the same ids that does not say where it comes from: it goes on from the
        # conversation that owns the last message that it repeats.
        self.db.execute(
            "update conversations set kind = 'fork', parent_id = ("
            "select m.conversation_id from conversation_messages cm "
            "join messages m on m.id = cm.message_id where cm.conversation_id = conversations.id "
            "and m.conversation_id <> conversations.id order by cm.position desc limit 1) "
            "where kind in ('main', 'fork') and parent_session_id is null and inherited_count > 0"
        )

    def _resolve_references(self) -> None:
        """Forks that only refer to their parent's history list its messages before their own. A
        parent may itself be such a fork: parents come first, and a circle is left alone."""
        forks = {
            id_: (parent_id, until)
            for id_, parent_id, until in self.db.execute(
                "select id, parent_id, inherits_until from conversations "
                "where inherits_until is not null and parent_id is not null"
            )
        }
        done: set[int] = set()

        def resolve(id_: int, path: tuple[int, ...]) -> None:
            if id_ in done or id_ not in forks or id_ in path:
                return
            parent, until = forks[id_]
            resolve(parent, (*path, id_))
            done.add(id_)
            old = self._links(id_)
            own = [link for link in old if link[3] != "referred"]
            mine = {link[0] for link in own}
            referred: list[Link] = [
                (link[0], link[1], link[2], "referred", link[4])
                for link in self._links(parent)
                if link[4] is not None and link[4] < until and link[0] not in mine
            ]
            if referred + own == old:
                return
            self._write_links(id_, old, referred + own)
            self.refresh_counts(id_)
            self.touched.add(id_)

        for id_ in sorted(forks):
            resolve(id_, ())


def needs_finish(connection: sqlite3.Connection) -> bool:
    """Whether a run that finds nothing new still has something to do: the last one was killed."""
    have = {
        row[0] for row in connection.execute("select name from sqlite_master where type = 'index'")
    }
    return (
        unfinished(connection)
        or not search.fts_exists(connection)
        or not search.cjk_exists(connection)
        or not have.issuperset(LATE_INDEXES)
    )


def _attachment_row(message_id: int, place: int, attachment: Any) -> tuple[Any, ...]:
    content = attachment.content
    return (
        clean(attachment.name or attachment.kind),
        message_id,
        place,
        attachment.kind,
        _optional(attachment.media_type),
        None if content is None else len(content),
        None if content is None else hashlib.sha256(content).hexdigest(),
        content,
    )
