"""Trae: the chats of its four products (Trae, Trae CN, TRAE SOLO, TRAE SOLO CN), in the
``state.vscdb`` of each workspace and in the global one; and TRAE CLI.

``ItemTable`` has one value with all sessions of a workspace, under
``memento/icube-ai-agent-storage`` (TEXT or BLOB). Older and newer builds use other keys, so that a
value is known by its structure: a list of sessions, each with an id and messages that say who
speaks. (A filter by the name of the key takes the state of a picker for a conversation.)

Builds of 2026 keep the texts elsewhere: ``ModularData/ai-agent/database.db`` is encrypted with a key
that only the running program has. What is left in ``state.vscdb`` are sessions without messages, and
the prompts that were typed (``icube-ai-agent-storage-input-history``: no session, no time). The
former are reported, never imported; the latter become a conversation of kind ``prompt-history``.

TRAE CLI (``~/.trae/cli``) writes the same rollouts as Codex.

Records: the messages of a session; the prompts of a history; and of a list of sessions those of its
entries that are none.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import orjson

from ..hookspecs import hookimpl
from ..model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
    SourceFile,
    SourceInfo,
    UnknownRecord,
    Unreadable,
)
from ..text import clean, iso_time, json_text
from . import Adapter
from .codex import RolloutSource
from .jsonl import decode
from .trae_messages import (
    add_messages,
    as_dict,
    as_list,
    as_text,
    attachments,
    is_message,
    model_name,
    shape,
)
from .vscdb import get, key_value_table, open_vscdb
from .vscode_dirs import (
    TRAE_PRODUCTS,
    read_project,
    root_user_dirs,
    user_dirs,
    workspace_storages,
)

SOURCE = "trae"
_DATABASE = "state.vscdb"
_ENCRYPTED = ("ModularData", "ai-agent", "database.db")
#: Keys that hold sessions; an id of the user may follow. What else they hold is reported.
_SESSION_KEYS = (
    b"memento/icube-ai-agent-storage",
    b"memento/icube-ai-chat-storage",
    b"memento/icube-ai-ng-chat-storage",
)
_HISTORY_KEY = b"icube-ai-agent-storage-input-history"
_MODELS_KEY = b"sessionRelation:modelMap"
#: Words in the keys of other values that may hold sessions.
_CHAT_WORDS = (b"chat", b"agent", b"session", b"conversation", b"icube")
#: Keys that hold secrets, or that are known to hold no sessions.
_OTHER_KEYS = (b"secret://", b"chat.ChatSessionStore", b"draft:")
#: Names of the list of sessions in a value, and of an id in a session, as readers know them.
_LISTS = ("list", "sessions", "conversations", "entries", "value", "data")
_IDS = ("sessionId", "id", "session_id", "conversationId")
_HISTORY_PART = "input-history"
#: Databases of which the sessions are kept at hand (in a temporary file) at once.
_MAX_KEPT = 4


# --------------------------------------------------------------------------- what a scan finds


@dataclass(slots=True)
class _Session:
    """A session that has messages, in one database."""

    id: str
    weight: int
    updated: str
    digest: str
    model: str | None


@dataclass(slots=True)
class _Found:
    """What one database holds. ``stubs`` are the ids of sessions without messages; ``rest`` counts,
    by key, the entries of its lists that are no sessions; ``problems`` says, by key, which values
    cannot be read."""

    sessions: dict[str, _Session] = field(default_factory=dict)
    stubs: set[str] = field(default_factory=set)
    rest: dict[str, FileRecords] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    history: str = ""  # digest of the prompts that are in no session


@dataclass(frozen=True, slots=True)
class _Place:
    """A database of a user directory."""

    product: str
    user_dir: Path
    path: Path

    @property
    def id(self) -> str:
        """The same for a copy of the home directory."""
        product = self.product.lower().replace(" ", "-")
        return f"{product}-{clean(self.path.parent.name)}"


@dataclass(frozen=True, slots=True)
class _Hints:
    """What :meth:`TraeAdapter.parse` cannot see in the session itself."""

    what: str  # "session", "history" or "rest"
    product: str = ""
    project_path: str | None = None
    model: str | None = None
    rest: tuple[int, int, int, tuple[tuple[str, str, str], ...], str] | None = None


def _digest(*parts: Any) -> str:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


# --------------------------------------------------------------------------- reading a database


def _values(db: sqlite3.Connection) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of everything that may hold sessions or prompts."""
    if not key_value_table(db, "ItemTable"):
        return
    names = [row[0] for row in db.execute("select key from ItemTable") if type(row[0]) is bytes]
    for key in sorted(set(names)):
        lower = key.lower()
        if key.startswith(_OTHER_KEYS) or not any(word in lower for word in _CHAT_WORDS):
            continue
        value = get(db, "ItemTable", key)
        if value:
            yield key, value


def _sessions_of(value: Any) -> list[tuple[str | None, Any]] | None:
    """(id, session) of the list that a value is or holds; ``None`` where there is none. The id is
    that of a map from ids to sessions."""
    for _ in range(3):
        if isinstance(value, list):
            return [(None, entry) for entry in value]
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("messages"), list) and _session_id(value) is not None:
            return [(None, value)]
        name = next((name for name in _LISTS if isinstance(value.get(name), list | dict)), None)
        if name is None:
            return None
        inner = value[name]
        if isinstance(inner, dict) and any(
            isinstance(entry, dict) and isinstance(entry.get("messages"), list)
            for entry in inner.values()
        ):
            return [(clean(id_), entry) for id_, entry in inner.items()]
        value = inner
    return None


def _session_id(session: dict[str, Any]) -> str | None:
    for name in _IDS:
        id_ = session.get(name)
        if isinstance(id_, str) and id_.strip():
            return clean(id_)
    return None


def _is_empty(value: Any) -> bool:
    """Whether a value is that of a window in which nobody chatted yet."""
    return not value or (isinstance(value, dict) and not any(value.values()))


@dataclass(slots=True)
class _Contents:
    """The decoded values of one database."""

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    stubs: set[str] = field(default_factory=set)
    rest: dict[str, FileRecords] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    history: list[Any] = field(default_factory=list)
    models: dict[str, str] = field(default_factory=dict)


def _read(db: sqlite3.Connection) -> _Contents:
    contents = _Contents()
    for key, data in _values(db):
        known = key.startswith(_SESSION_KEYS)
        name = clean(key.decode("utf-8", "replace"))
        special = key.endswith((_HISTORY_KEY, _MODELS_KEY))
        if not known and not special and (b'"messages"' not in data or b'"role"' not in data):
            continue
        values, damaged = decode(data)
        if not values:
            if known or key.endswith(_HISTORY_KEY):
                contents.problems[name] = "not valid JSON"
            continue
        value = values[0]
        if key.endswith(_HISTORY_KEY):
            contents.history += _history_entries(value)
        elif key.endswith(_MODELS_KEY):
            for id_, model in as_dict(value).items():
                _add_model(contents.models, id_, model)
        else:
            _read_sessions(name, value, known, contents)
        if damaged and known:
            contents.problems[name] = "damaged: only a part of it could be read"
    contents.stubs -= contents.sessions.keys()
    return contents


def _add_model(models: dict[str, str], id_: str, value: Any) -> None:
    if isinstance(value, dict):
        value = value.get("model") or next(iter(value.values()), None)
    model = model_name(value)
    if model is not None:
        models[clean(id_)] = model


def _history_entries(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
    return as_list(value)


def _read_sessions(key: str, value: Any, known: bool, contents: _Contents) -> None:
    """The sessions of one value. Under a key that is not ``known`` to hold any it must have them by
    its structure."""
    entries = _sessions_of(value)
    if not known and not any(_speaks(entry) for _, entry in entries or ()):
        return
    rest = FileRecords("", key)
    if entries is None:
        if not _is_empty(value):
            rest.records = 1
            rest.add_unknown(key, f"value of {key}", shape(value))
            contents.problems[key] = "a form that is not known: nothing of it is read"
        entries = []
    for number, (name, entry) in enumerate(entries):
        if not isinstance(entry, dict):
            rest.records += 1
            rest.malformed += 1
            continue
        id_ = _session_id(entry) or name
        messages = entry.get("messages")
        if id_ is None:
            rest.records += 1
            rest.malformed += 1
            rest.message = "sessions without an id are left out"
        elif isinstance(messages, list) and messages:
            other = contents.sessions.get(id_)
            if other is None or _rank(other) < _rank(entry):
                contents.sessions[id_] = entry
        elif _is_empty(messages):
            contents.stubs.add(id_)
        else:
            rest.records += 1
            rest.add_unknown(f"{key}: entry {number}", "session of an unknown form", shape(entry))
    if rest.records:
        contents.rest[key] = rest


def _speaks(entry: Any) -> bool:
    return isinstance(entry, dict) and any(map(is_message, as_list(entry.get("messages"))))


def _rank(session: dict[str, Any]) -> tuple[int, str]:
    """Of two copies of a session the one with more messages is kept, then the newer one."""
    return len(as_list(session.get("messages"))), iso_time(session.get("updatedAt")) or ""


def _json_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):  # whole numbers beyond 64 bits
        return json_text(value).encode("utf-8", "surrogatepass")


def _session_bytes(session: dict[str, Any]) -> bytes:
    data = _json_bytes(session)
    if data[:1] == b"{":
        return data
    # Something in it is nested too deeply to be written: only that message is lost.
    messages = b",".join(map(_json_bytes, as_list(session.get("messages"))))
    head = _json_bytes({name: value for name, value in session.items() if name != "messages"})
    if head[:1] != b"{":
        head = b"{}"
    return head[:-1] + (b"," if len(head) > 2 else b"") + b'"messages":[' + messages + b"]}"


def _look_into(db: sqlite3.Connection) -> _Found:
    contents = _read(db)
    found = _Found(
        stubs=contents.stubs,
        rest=contents.rest,
        problems=contents.problems,
    )
    for id_, session in contents.sessions.items():
        weight, updated = _rank(session)
        digest = _digest(_session_bytes(session))
        found.sessions[id_] = _Session(id_, weight, updated, digest, contents.models.get(id_))
    prompts, _ = _lone_prompts(contents)
    if prompts:
        found.history = _digest(_json_bytes(prompts))
    return found


def _lone_prompts(contents: _Contents) -> tuple[list[tuple[int, Any]], int]:
    """(place, prompt) of the history that no session of this database shows, and how many it does
    show."""
    told: Counter[str] = Counter()
    for session in contents.sessions.values():
        for message in as_list(session.get("messages")):
            if isinstance(message, dict) and message.get("role") == "user":
                told[as_text(message.get("content")).strip()] += 1
    lone, again = [], 0
    for place, entry in enumerate(contents.history):
        text = _prompt_text(entry).strip()
        if text and told[text] > 0:
            told[text] -= 1
            again += 1
        else:
            lone.append((place, entry))
    if not any(_prompt_text(entry) for _, entry in lone):
        return [], again
    return lone, again


def _prompt_text(entry: Any) -> str:
    if isinstance(entry, str):
        return as_text(entry)
    entry = as_dict(entry)
    text = as_text(entry.get("inputText")) or as_text(entry.get("text"))
    return text or "".join(as_text(part) for part in as_list(entry.get("parsedQuery")))


# --------------------------------------------------------------------------- the adapter


class _Kept:
    """The sessions of one database in a temporary file: its value is decoded once for all of them,
    and not kept in memory."""

    def __init__(self, stamp: Any) -> None:
        self.stamp = stamp
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            4_000_000, prefix="datasette-crystal-"
        )
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, part: str, data: bytes) -> None:
        self._places[part] = (self._file.tell(), len(data))
        self._file.write(data)

    def get(self, part: str) -> Any:
        """Raises :class:`ValueError` when it is not there (any more)."""
        if part not in self._places:
            raise ValueError("it is no longer in the database")
        place, size = self._places[part]
        self._file.seek(place)
        values, _ = decode(self._file.read(size))
        return values[0] if values else None

    def close(self) -> None:
        self._file.close()


class TraeAdapter:
    """Chats of Trae's editors."""

    name = SOURCE
    display_name = "Trae"
    places = "the user directories of Trae's editors"
    parser_version = 1

    def __init__(self) -> None:
        self._found: dict[str, tuple[Any, _Found]] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def detect(self, env: Environment) -> SourceInfo | None:
        """Which products are there, how many conversations can be read, and what is encrypted."""
        directories = _all_user_dirs(env)
        info = SourceInfo(SOURCE, [])
        ids: set[str] = set()
        times: list[int] = []
        for product, directory in directories:
            places = list(_databases(product, directory))
            encrypted = _encrypted(directory)
            if not places and encrypted is None:
                continue
            info.roots.append(directory)
            stubs: set[str] = set()
            for place in places:
                try:
                    found = self._look(place.path)
                    times.append(place.path.stat().st_mtime_ns)
                except (OSError, ValueError) as error:
                    info.unreadable.append(Unreadable(str(place.path), _reason(error)))
                    continue
                ids.update(found.sessions)
                stubs |= found.stubs
                info.unreadable += [
                    Unreadable(f"{place.path}:{key}", reason)
                    for key, reason in found.problems.items()
                ]
            if encrypted is not None:
                reason = _encrypted_reason(encrypted, len(stubs - ids))
                info.unreadable.append(Unreadable(str(encrypted), reason))
            elif stubs - ids:
                info.warnings.append(
                    f"{product}: {_counted(len(stubs - ids))} listed without text, so that there is "
                    "nothing to import"
                )
        if not info.roots:
            return None
        info.conversations = len(ids)
        if times:
            info.oldest, info.newest = iso_time(min(times) / 1e9), iso_time(max(times) / 1e9)
        return info

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        """Every session with messages, once; the prompts of histories; what is encrypted."""
        best: dict[str, list[tuple[_Session, _Place]]] = {}
        stubs: list[tuple[Path, Path, set[str]]] = []
        for product, directory in _all_user_dirs(env):
            root = str(directory)
            problems: list[OSError] = []
            listed: set[str] = set()
            for place in _databases(product, directory, problems):
                try:
                    found = self._look(place.path)
                except (OSError, ValueError) as error:
                    yield ScanProblem.of(SOURCE, place.path, error, root)
                    continue
                for key, reason in found.problems.items():
                    yield ScanProblem(SOURCE, f"{place.path}:{key}", reason, root, "unreadable")
                listed |= found.stubs
                for session in found.sessions.values():
                    best.setdefault(session.id, []).append((session, place))
                yield from _beside_sessions(place, found)
            for unlisted in problems:
                where = str(unlisted.filename or directory)
                yield ScanProblem(SOURCE, where, _reason(unlisted), root)
            encrypted = _encrypted(directory)
            if encrypted is not None:
                stubs.append((directory, encrypted, listed))
        for directory, encrypted, listed in stubs:
            # Nothing below this directory is taken for gone: it may have moved into the encrypted
            # database, and what was imported earlier stays as it is.
            reason = _encrypted_reason(encrypted, len(listed - best.keys()))
            yield ScanProblem(SOURCE, str(encrypted), reason, str(directory), "unreadable")
        for id_, copies in best.items():
            copies.sort(key=lambda copy: (copy[0].weight, copy[0].updated), reverse=True)
            meta = _session_meta(id_, copies)
            if meta is not None:
                yield meta

    def parse(self, meta: ConversationMeta) -> Parsed:
        """Reads a session, the prompts of a history, or counts what is neither."""
        hints = meta.hints
        assert isinstance(hints, _Hints)
        file = meta.files[0]
        if hints.what == "rest":
            assert hints.rest is not None
            ignored, malformed, unknown, samples, message = hints.rest
            records = FileRecords(
                file.path,
                file.part,
                ignored + malformed + unknown,
                ignored=ignored,
                malformed=malformed,
                unknown=unknown,
                samples=[UnknownRecord(*sample) for sample in samples],
                message=message or None,
            )
            return Parsed([], [records])
        value = self._values_of(Path(file.path)).get(
            _HISTORY_PART if hints.what == "history" else f"session:{file.part}"
        )
        records = FileRecords(file.path, file.part)
        conversation = ParsedConversation(
            SOURCE,
            meta.session_id,
            project_path=hints.project_path,
            tool_version=hints.product,
        )
        if hints.what == "history":
            _parse_history(as_dict(value), conversation, records)
        else:
            _parse_session(as_dict(value), hints, conversation, records)
        return Parsed([conversation] if len(conversation.messages) else [], [records])

    def close(self) -> None:
        """Forgets what was read, and the temporary files of it."""
        for kept in self._kept.values():
            kept.close()
        self._kept.clear()
        self._found.clear()

    # ------------------------------------------------------------ open databases

    def _look(self, path: Path) -> _Found:
        stamp = _stamp(path)
        known = self._found.get(str(path))
        if known is not None and known[0] == stamp:
            return known[1]
        with open_vscdb(path) as db:
            found = _look_into(db)
        self._found[str(path)] = (stamp, found)
        return found

    def _values_of(self, path: Path) -> _Kept:
        stamp = _stamp(path)
        kept = self._kept.get(str(path))
        if kept is not None and kept.stamp == stamp:
            self._kept.move_to_end(str(path))
            return kept
        if kept is not None:
            self._kept.pop(str(path)).close()
        while len(self._kept) >= _MAX_KEPT:
            self._kept.popitem(last=False)[1].close()
        with open_vscdb(path) as db:
            contents = _read(db)
        kept = self._kept[str(path)] = _Kept(stamp)
        for id_, session in contents.sessions.items():
            kept.add(f"session:{id_}", _session_bytes(session))
        prompts, again = _lone_prompts(contents)
        if prompts:
            kept.add(_HISTORY_PART, _json_bytes({"prompts": prompts, "again": again}))
        return kept


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _stamp(path: Path) -> tuple[Any, ...]:
    """Changes whenever the database does. Raises :class:`OSError`."""
    found: list[Any] = []
    for suffix in ("", "-wal", "-journal"):
        try:
            status = os.stat(f"{path}{suffix}")
        except FileNotFoundError:
            if not suffix:
                raise
            continue
        found.append(
            (suffix, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        )
    return tuple(found)


def _all_user_dirs(env: Environment) -> list[tuple[str, Path]]:
    found = user_dirs(env, TRAE_PRODUCTS)
    for root in env.roots.get(SOURCE, ()):
        found += [item for item in root_user_dirs(root, TRAE_PRODUCTS) if item not in found]
    return found


def _databases(
    product: str, directory: Path, problems: list[OSError] | None = None
) -> Iterator[_Place]:
    storages = (storage.path for storage in workspace_storages(directory, problems))
    for storage in (directory / "globalStorage", *storages):
        path = storage / _DATABASE
        try:
            if path.is_file() and not path.is_symlink():
                yield _Place(product, directory, path)
        except OSError as error:
            if problems is not None:
                problems.append(error)


def _encrypted(directory: Path) -> Path | None:
    """The database of an installation that keeps the texts where we cannot read them."""
    path = directory.parent.joinpath(*_ENCRYPTED)
    try:
        return path if path.is_file() and path.stat().st_size else None
    except OSError:
        return None


def _encrypted_reason(path: Path, sessions: int) -> str:
    try:
        with path.open("rb") as file:
            plain = file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        return _reason(error)
    if plain:
        return "a database of a form that is not known; conversations in it are not read"
    listed = f"{_counted(sessions)} listed without text: " if sessions else ""
    return f"{listed}Trae keeps the texts in this database, encrypted with a key that only it has"


def _counted(sessions: int) -> str:
    return "1 session is" if sessions == 1 else f"{sessions} sessions are"


# --------------------------------------------------------------------------- metas


def _beside_sessions(place: _Place, found: _Found) -> Iterator[ConversationMeta]:
    """The history of prompts, and what stands among the sessions and is none."""
    if found.history:
        project = read_project(place.path.parent)
        hints = _Hints("history", place.product, project.path if project is not None else None)
        try:
            file = SourceFile.at(place.path, place.user_dir, _HISTORY_PART)
        except OSError:
            return
        marker = _digest(found.history, hints)
        id_ = f"{_HISTORY_PART}-{place.id}"
        yield ConversationMeta(SOURCE, id_, (file,), marker, hints)
    for key, rest in found.rest.items():
        samples = tuple((item.where, item.type, item.sample) for item in rest.samples)
        counts = (rest.ignored, rest.malformed, rest.unknown, samples, rest.message or "")
        hints = _Hints("rest", place.product, rest=counts)
        try:
            file = SourceFile.at(place.path, place.user_dir, key)
        except OSError:
            return
        id_ = f"{key}-{place.id}"
        yield ConversationMeta(SOURCE, id_, (file,), _digest(hints), hints)


def _session_meta(id_: str, copies: list[tuple[_Session, _Place]]) -> ConversationMeta | None:
    """One session, whichever workspaces have a copy of it; the fullest is read."""
    files: list[SourceFile] = []
    for _, place in copies:
        try:
            files.append(SourceFile.at(place.path, place.user_dir, id_))
        except OSError:
            continue
    session, place = copies[0]
    if not files or files[0].path != str(place.path):
        return None
    project = read_project(place.path.parent)
    project_path = project.path if project is not None else None
    hints = _Hints("session", place.product, project_path, session.model)
    return ConversationMeta(SOURCE, id_, tuple(files), _digest(session.digest, hints), hints)


# --------------------------------------------------------------------------- conversations


def _parse_session(
    session: dict[str, Any],
    hints: _Hints,
    conversation: ParsedConversation,
    records: FileRecords,
) -> None:
    conversation.title = (as_text(session.get("title")) or as_text(session.get("name"))) or None
    if conversation.title:
        conversation.title_origin = "tool"
    conversation.started_at = iso_time(session.get("createdAt"))
    ended = iso_time(session.get("updatedAt"))
    if ended and (conversation.started_at is None or conversation.started_at <= ended):
        conversation.ended_at = ended
    parent = as_text(session.get("parentSessionId"))
    if parent and parent != conversation.session_id:
        conversation.parent_session_id = parent
    answered = add_messages(as_list(session.get("messages")), conversation.messages, records)
    conversation.model = model_name(session.get("model")) or answered or hints.model


def _parse_history(
    value: dict[str, Any], conversation: ParsedConversation, records: FileRecords
) -> None:
    """Prompts that no session shows. They have no ids: an equal one is known by its text and how
    many times it stood before."""
    conversation.kind = "prompt-history"
    conversation.fidelity = "partial"
    again = value.get("again")
    records.records = records.ignored = again if isinstance(again, int) else 0
    seen: Counter[str] = Counter()
    for place, entry in as_list(value.get("prompts")):
        records.records += 1
        text = _prompt_text(entry)
        if not isinstance(entry, dict | str):
            records.malformed += 1
            continue
        found = attachments(as_dict(entry))
        if not text and not found:
            if as_dict(entry).keys() & {"inputText", "text", "parsedQuery"} or not entry:
                records.ignored += 1
            else:
                records.add_unknown(f"prompt {place}", "prompt of an unknown form", shape(entry))
            continue
        records.kept += 1
        uid = _digest(text.encode("utf-8", "surrogatepass"))
        seen[uid] += 1
        message = ParsedMessage(
            uid if seen[uid] == 1 else f"{uid}-{seen[uid]}",
            "user",
            "prompt",
            text,
            timestamp=iso_time(as_dict(entry).get("timestamp")),
            record=place,
            attachments=found,
        )
        conversation.messages.append(message)


# --------------------------------------------------------------------------- TRAE CLI


def _cli_homes(env: Environment) -> list[Path]:
    """``$TRAECLI_HOME``, ``$TRAE_HOME/cli`` or ``~/.trae/cli``, in this order."""
    home = env.directory_variable("TRAECLI_HOME")
    if home is None:
        home = (env.directory_variable("TRAE_HOME") or env.home / ".trae") / "cli"
    return [home, *env.roots.get("trae-cli", ())]


class TraeCli(RolloutSource):
    """TRAE CLI 2.0 (TraeX): rollouts as Codex writes them."""

    def __init__(self) -> None:
        super().__init__("trae-cli", "TRAE CLI", _cli_homes)


@hookimpl
def register_adapters(register: Callable[[Adapter], None]) -> None:
    """Registers the adapters for Trae's editors and for TRAE CLI."""
    register(TraeAdapter())
    register(TraeCli())
