"""GitHub Copilot in VS Code: the chat sessions that the editor keeps in its user directory.

A session is a file ``<sessionId>.json`` (whole, version 1 to 3) or, since VS Code 1.109,
``<sessionId>.jsonl`` (a mutation log, see :mod:`.mutationlog`) in
``workspaceStorage/<id>/chatSessions``, in ``globalStorage/emptyWindowChatSessions`` for windows
without a folder, or for a moment in ``globalStorage/transferredChatSessions``. Until early 2025
sessions were a list under the key ``interactive.sessions`` of ``state.vscdb``. ``Chat: Export…``
writes files without a session id; they are read only where the user names their place
(``--root copilot=…``). The index of sessions (``chat.ChatSessionStore.index``) lists neither all of
them nor only existing ones: it gives titles, nothing else.

What a session holds, and how it becomes messages, is the business of :mod:`.copilot_session`.

Records: the values of a ``.jsonl``; of a ``.json``, or of a session in a database, the session
itself and each of its requests; and any part of an answer whose kind is not known.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from ..hookspecs import hookimpl
from ..model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Unreadable,
)
from ..text import clean, count, first_line, iso_time, json_text
from .copilot_session import build_conversation, slim_request
from .jsonl import decode, open_lines, read_lines, regular_files
from .mutationlog import Refused, Replay
from .vscdb import DEADLINE, get, key_value_table, open_vscdb
from .vscode_dirs import (
    CURSOR_PRODUCTS,
    VSCODE_PRODUCTS,
    Project,
    read_project,
    root_user_dirs,
    user_dirs,
    workspace_storages,
)

SOURCE = "copilot"
#: Cursor's fork still has VS Code's own chat, for which Copilot can be installed.
PRODUCTS = (*VSCODE_PRODUCTS, *CURSOR_PRODUCTS)
#: Folders of globalStorage that hold sessions.
_GLOBAL_FOLDERS = ("emptyWindowChatSessions", "transferredChatSessions")
_DATABASE = "state.vscdb"
_OLD_KEY = "interactive.sessions"
_INDEX_KEY = "chat.ChatSessionStore.index"
#: How much of a file that the user's folder holds is looked at to tell whether it is a chat.
_SNIFFED = 16_384
_UUID = re.compile(r"[0-9a-zA-Z]{8}(?:-[0-9a-zA-Z]{4}){3}-[0-9a-zA-Z]{12}")

#: Log entries about these keys of a session are kept / hold nothing of the conversation (what was
#: typed but not sent, what is queued, how the view looks).
_SESSION_KEPT = frozenset(
    (
        "requests",
        "customTitle",
        "computedTitle",
        "sessionId",
        "creationDate",
        "version",
        "lastMessageDate",
        "workingDirectory",
        "repoData",
    )
)
_SESSION_IGNORED = frozenset(
    (
        "inputState",
        "pendingRequests",
        "responderUsername",
        "requesterUsername",
        "responderAvatarIconUri",
        "requesterAvatarIconUri",
        "initialLocation",
        "isImported",
        "hasPendingEdits",
        "attachments",
        "mode",
        "inputText",
        "selections",
        "contrib",
        "selectedModel",
        "permissionLevel",
        "isNew",
        "agentSessionType",
    )
)
_REQUEST_KEPT = frozenset(
    (
        "response",
        "result",
        "modelState",
        "completionTokens",
        "vote",
        "message",
        "variableData",
        "timestamp",
        "modelId",
        "agent",
        "isCanceled",
        "slashCommand",
        "requestId",
        "responseId",
        "responseErrorDetails",
        "confirmation",
        "isHidden",
        "shouldBeRemovedOnSend",
        "isSystemInitiated",
        "systemInitiatedLabel",
        "hiddenFromTranscript",
        "requestHiddenFromTranscript",
    )
)
_REQUEST_IGNORED = frozenset(
    (
        "followups",
        "responseMarkdownInfo",
        "elapsedMs",
        "promptTokens",
        "promptTokenDetails",
        "copilotCredits",
        "modelTotals",
        "editedFileEvents",
        "contentReferences",
        "codeCitations",
        "timeSpentWaiting",
        "usedContext",
        "voteDownReason",
        "modeInfo",
        "attempt",
        "locationData",
        "terminalExecutionId",
        "origin",
        "responseTimestamp",
        "workingDirectory",
        "outputBuffer",
    )
)
#: The commonest noise by far: the draft in the input box, written at every pause in typing, with
#: pasted images as arrays of numbers. It is not even decoded.
_DRAFT = b'{"kind":1,"k":["inputState"'


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a session is: ``path`` is a log, a flat file or a database; ``other`` the flat file
    beside a log; ``storage`` the workspace storage that it belongs to."""

    kind: str
    path: str
    other: str = ""
    storage: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """One copy of a session: the newest of the best rank is the one that is read."""

    rank: tuple[int, int, int]
    meta: ConversationMeta


class CopilotAdapter:
    """Reads the chats of GitHub Copilot in every edition of VS Code."""

    name = SOURCE
    display_name = "GitHub Copilot (VS Code)"
    places = "the user directories of VS Code, Insiders and VSCodium"
    parser_version = 1

    def detect(self, env: Environment) -> SourceInfo | None:
        """The user directories that hold chats, and how many; see
        :meth:`datasette_crystal.adapters.Adapter.detect`."""
        metas: list[ConversationMeta] = []
        unreadable: list[Unreadable] = []
        for found in self.scan(env):
            if isinstance(found, ScanProblem):
                unreadable.append(Unreadable(found.path, found.reason))
            else:
                metas.append(found)
        if not metas and not unreadable:
            return None
        times = [file.mtime_ns for meta in metas for file in meta.files if file.mtime_ns]
        return SourceInfo(
            SOURCE,
            [Path(root) for root in dict.fromkeys(meta.files[0].root for meta in metas)],
            len(metas),
            iso_time(min(times) / 1e9) if times else None,
            iso_time(max(times) / 1e9) if times else None,
            unreadable,
        )

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        """Every session once, whichever folders hold copies of it: opening a folder as part of a
        workspace copies its sessions and leaves the originals behind (microsoft/vscode#331572)."""
        best: dict[str, _Found] = {}
        for found in _find_all(env):
            if isinstance(found, ScanProblem):
                yield found
                continue
            known = best.get(found.meta.session_id)
            if known is None or found.rank > known.rank:
                best[found.meta.session_id] = found
        for session_id in sorted(best):
            yield best[session_id].meta

    def parse(self, meta: ConversationMeta) -> Parsed:
        """Reads one session. Raises :class:`OSError` or :class:`ValueError` when its file cannot be
        read or holds no session."""
        place = meta.hints
        if not isinstance(place, _Place):
            raise ValueError("not a conversation of this adapter")
        if place.kind == "database":
            return _parse_stored(meta, place)
        if place.kind == "log":
            return _parse_log(meta, place)
        records = FileRecords(place.path)
        session, whole = _read_flat(place.path, records)
        return _parsed(meta, place, session, _flat_requests(session), [records], whole)


@hookimpl
def register_adapters(register: Any) -> None:
    """Registers the adapter."""
    register(CopilotAdapter())


# --------------------------------------------------------------------------- finding sessions


def _find_all(env: Environment) -> Iterator[_Found | ScanProblem]:
    for product, user_dir in user_dirs(env, PRODUCTS):
        yield from _find_in_user_dir(product, user_dir)
    for root in env.roots.get(SOURCE, ()):
        directories = root_user_dirs(root, PRODUCTS)
        for product, user_dir in directories:
            yield from _find_in_user_dir(product, user_dir)
        if not directories:
            yield from _find_loose(root)


def _find_in_user_dir(product: str, user_dir: Path) -> Iterator[_Found | ScanProblem]:
    problems: list[OSError] = []
    for storage in workspace_storages(user_dir, problems):
        yield from _find_in_folder(storage.path / "chatSessions", user_dir, storage.path, problems)
        if product in VSCODE_PRODUCTS:
            yield from _find_stored(storage.path, user_dir)
    global_storage = user_dir / "globalStorage"
    for folder in _GLOBAL_FOLDERS:
        yield from _find_in_folder(global_storage / folder, user_dir, global_storage, problems)
    if product in VSCODE_PRODUCTS:
        yield from _find_stored(global_storage, user_dir)
    for error in problems:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            yield ScanProblem(
                SOURCE, str(error.filename or user_dir), error.strerror or str(error), str(user_dir)
            )


def _find_in_folder(
    folder: Path, root: Path, storage: Path, problems: list[OSError]
) -> Iterator[_Found]:
    """The sessions of one folder; where a session has a log and a flat file, the log is it, as VS
    Code reads it, and the flat file is what is left when the log is damaged."""
    logs: dict[str, Path] = {}
    flats: dict[str, Path] = {}
    for entry in regular_files(folder, deep=False, problems=problems):
        stem, _, extension = entry.name.rpartition(".")
        if stem and extension in ("json", "jsonl"):
            (logs if extension == "jsonl" else flats)[stem] = Path(entry.path)
    for session_id in sorted(logs.keys() | flats.keys()):
        found = _found(
            clean(session_id), logs.get(session_id), flats.get(session_id), root, storage
        )
        if found is not None:
            yield found


def _found(
    session_id: str, log: Path | None, flat: Path | None, root: Path, storage: Path | None
) -> _Found | None:
    paths = [path for path in (log, flat) if path is not None]
    try:
        files = tuple(SourceFile.at(path, root) for path in paths)
    except OSError:  # it vanished just now
        return None
    place = _Place(
        "log" if log is not None else "flat",
        str(paths[0]),
        str(flat) if log is not None and flat is not None else "",
        str(storage) if storage is not None else "",
    )
    rank = 2 if storage is not None else 1
    return _Found(
        (rank, files[0].mtime_ns, files[0].size),
        ConversationMeta(SOURCE, session_id, files, "", place),
    )


def _find_loose(root: Path) -> Iterator[_Found | ScanProblem]:
    """Chats in a file or folder that the user named: exports, copies of session files."""
    problems: list[OSError] = []
    paths = [root]
    try:
        if root.is_dir():
            paths = [
                Path(entry.path)
                for entry in regular_files(root, problems=problems)
                if entry.name.endswith((".json", ".jsonl"))
            ]
    except OSError as error:
        problems.append(error)
    for path in paths:
        try:
            status = path.stat()
            session_id = _loose_session_id(str(path), status.st_size, status.st_mtime_ns)
        except (OSError, ValueError) as error:
            yield ScanProblem.of(SOURCE, path, error, str(root))
            continue
        if session_id is None:
            continue
        log = path if path.name.endswith(".jsonl") else None
        found = _found(
            session_id,
            log,
            None if log else path,
            root if root != path else path.parent,
            path.parent.parent if path.parent.name == "chatSessions" else None,
        )
        if found is not None:
            yield found
    for problem in problems:
        yield ScanProblem(SOURCE, str(problem.filename or root), str(problem), str(root))


@lru_cache(maxsize=4096)
def _loose_session_id(path: str, size: int, mtime_ns: int) -> str | None:
    """The id of the chat in a file, or ``None`` when it is none. An export has none of its own: its
    first request, which is the same in a later export of the same chat, gives it one. (``size`` and
    ``mtime_ns`` make a changed file another one.)"""
    with open_lines(path) as file:
        head = file.read(_SNIFFED)
    if b'"requests"' not in head and b'"initialLocation"' not in head and b'"kind"' not in head:
        return None
    stem = Path(path).name.rpartition(".")[0]
    if path.endswith(".jsonl"):
        values, _ = decode(next(read_lines(path), (0, b""))[1])
        session = _unwrapped(values[0]) if values else None
    else:
        try:
            session, _ = _read_flat(path, FileRecords(path))
        except ValueError:
            return None
    if session is None:
        return None
    own = session.get("sessionId")
    if isinstance(own, str) and own:
        return clean(own)
    if _UUID.fullmatch(stem):
        return stem
    for request in _flat_requests(session):
        identifier = request[0].get("requestId") if isinstance(request[0], dict) else None
        if isinstance(identifier, str) and identifier:
            return (
                "export-" + hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()[:32]
            )
    return "export-" + hashlib.sha256(head).hexdigest()[:32]


# --------------------------------------------------------------------------- reading files


def _read_flat(path: str, records: FileRecords) -> tuple[dict[str, Any], bool]:
    """The session of a flat file, counted into ``records``, and whether it is whole: of a file that
    ends early, the requests that are complete are read. Raises :class:`ValueError`."""
    with open_lines(path) as file:
        data = file.read()
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    whole = True
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        values, broken = decode(data)
        value = values[0] if values else None
        if value is None or (broken and _unwrapped(value) is None):
            value, whole = _salvaged(data), False
    session = _unwrapped(value)
    if session is None:
        raise ValueError("not a chat session" if data.strip(b"\0 \t\r\n") else "the file is empty")
    _count_flat(session, records)
    if not whole:
        records.records += 1
        records.malformed += 1
        records.message = "the file ends early: only its complete requests were read"
    return session, whole


def _unwrapped(value: Any) -> dict[str, Any] | None:
    """The session in a decoded value: itself, or what an initial log entry wraps."""
    if isinstance(value, dict) and value.get("kind") == 0 and isinstance(value.get("v"), dict):
        value = value["v"]
    if isinstance(value, dict) and isinstance(value.get("requests"), list):
        return value
    if isinstance(value, dict) and "sessionId" in value and "creationDate" in value:
        return value
    return None


def _salvaged(data: bytes) -> dict[str, Any] | None:
    """What can be read of a session whose JSON ends early."""
    text = data.decode("utf-8", "replace")
    start = re.search(r'"requests"\s*:\s*\[', text[:65_536])
    if start is None:
        return None
    decoder = json.JSONDecoder()
    requests: list[Any] = []
    position = start.end()
    try:
        while True:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if position >= len(text) or text[position] != "{":
                break
            start_of_request = position
            _, position = decoder.raw_decode(text, position)
            requests += decode(text[start_of_request:position].encode())[0]
    except (ValueError, RecursionError, MemoryError):
        pass
    if not requests:
        return None
    session: dict[str, Any] = {"requests": requests}
    try:
        before, _ = decoder.raw_decode(text[: start.start()].rstrip().rstrip(",") + "}")
        session |= {key: item for key, item in before.items() if key != "requests"}
    except (ValueError, RecursionError, AttributeError):
        pass
    return session


def _count_flat(session: dict[str, Any], records: FileRecords) -> None:
    records.records += 1
    records.kept += 1
    for request, _ in _flat_requests(session):
        records.records += 1
        if isinstance(request, dict):
            records.kept += 1
        else:
            records.malformed += 1


def _flat_requests(session: dict[str, Any]) -> list[tuple[Any, bool]]:
    requests = session.get("requests")
    return [(request, False) for request in requests] if isinstance(requests, list) else []


def _parse_log(meta: ConversationMeta, place: _Place) -> Parsed:
    records = FileRecords(place.path)
    replay = Replay(slim_request)
    refused = 0
    for number, line in read_lines(place.path):
        if line.startswith(_DRAFT) and line.endswith(b"}"):
            records.records += 1
            records.ignored += 1
            continue
        values, broken = decode(line.lstrip(b"\xef\xbb\xbf") if line[:1] == b"\xef" else line)
        if broken:
            records.records += 1
            records.malformed += 1
        for value in values:
            refused += _apply(replay, value, records, f"line {number + 1}", line)
    if refused:
        records.message = f"{refused} log entries could not be applied"
    session = replay.state if isinstance(replay.state, dict) else None
    requests = list(replay.requests())
    files = [records]
    whole = refused == 0
    if place.other:
        flat_records = FileRecords(place.other)
        flat: dict[str, Any] | None = None
        try:
            flat, _ = _read_flat(place.other, flat_records)
        except (OSError, ValueError) as error:
            flat_records.message = str(error)
        if flat is not None and not any(isinstance(request, dict) for request, _ in requests):
            # The log lost its beginning or never had a request (microsoft/vscode#317478).
            session, requests = flat, _flat_requests(flat)
        else:  # the log is the newer one, and holds all of it
            flat_records.ignored += flat_records.kept
            flat_records.kept = 0
        files.append(flat_records)
    if session is None:
        raise ValueError("the log has no initial entry" if records.records else "the file is empty")
    return _parsed(meta, place, session, requests, files, whole)


def _apply(replay: Replay, value: Any, records: FileRecords, where: str, line: bytes) -> int:
    """Applies one value of a log and counts it; 1 when it could not be applied."""
    records.records += 1
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(value, dict) and "kind" not in value and _unwrapped(value) is not None:
        value = {"kind": 0, "v": value}  # a flat session in a file named .jsonl
        kind = 0
    elif isinstance(value, dict) and (type(kind) is not int or kind not in (0, 1, 2, 3)):
        records.add_unknown(where, f"kind {kind!r}"[:100], line[:2000].decode("utf-8", "replace"))
        return 0
    try:
        replay.apply(value)
    except Refused:
        records.malformed += 1
        return 1
    path = value.get("k") or ()
    outcome = _about(path) if kind else "kept"
    if outcome == "kept":
        records.kept += 1
    elif outcome == "ignored":
        records.ignored += 1
    else:
        records.add_unknown(where, outcome, line[:2000].decode("utf-8", "replace"))
    return 0


def _about(path: Any) -> str:
    """Whether an entry for ``path`` is kept or ignored; else the name of a key that is new."""
    if not path:
        return "ignored"
    first = path[0]
    if first == "requests":
        if len(path) < 3 or path[2] in _REQUEST_KEPT:
            return "kept"
        return "ignored" if path[2] in _REQUEST_IGNORED else f"requests.#.{path[2]}"[:100]
    if not isinstance(first, str):
        return f"key {first!r}"[:100]
    if first in _SESSION_KEPT:
        return "kept"
    return "ignored" if first in _SESSION_IGNORED else first[:100]


def _parsed(
    meta: ConversationMeta,
    place: _Place,
    session: dict[str, Any],
    requests: list[tuple[Any, bool]],
    files: list[FileRecords],
    whole: bool,
) -> Parsed:
    conversation = build_conversation(SOURCE, meta.session_id, session, requests, files[0])
    storage = Path(place.storage) if place.storage else None
    project: Project | None = read_project(storage) if storage is not None else None
    if project is not None:
        conversation.project_path = project.path
    if conversation.title_origin in (None, "first-prompt") and storage is not None:
        title = _index_title(storage / _DATABASE, meta.session_id)
        if title:
            conversation.title, conversation.title_origin = title, "tool"
    if not whole:
        conversation.fidelity = "partial"
    return Parsed([conversation], files)


# --------------------------------------------------------------------------- reading databases


def _find_stored(storage: Path, root: Path) -> Iterator[_Found | ScanProblem]:
    """Sessions of before chatSessions, in the database of a workspace storage. Their marker is their
    content: the database itself changes all the time."""
    database = storage / _DATABASE
    try:
        if not _mentions(database, _OLD_KEY.encode()):
            _check_header(database)
            return
        sessions = _stored_sessions(*_state_of(database))
    except FileNotFoundError:
        return
    except (OSError, ValueError, sqlite3.Error) as error:
        yield ScanProblem.of(SOURCE, database, error, str(root))
        return
    for session_id, (date, data) in sessions.items():
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        file = SourceFile(str(database), str(root), len(data), date * 1_000_000, session_id)
        place = _Place("database", str(database), "", str(storage))
        meta = ConversationMeta(SOURCE, session_id, (file,), digest, place)
        yield _Found((0, date, len(data)), meta)


def _check_header(database: Path) -> None:
    """Raises :class:`ValueError` where the file is no SQLite database (an empty one is)."""
    with open_lines(database) as file:
        if file.read(16) not in (b"", b"SQLite format 3\0"):
            raise ValueError("not a SQLite database, or an encrypted one")


def _mentions(database: Path, key: bytes) -> bool:
    """Whether the key is anywhere in the database's files: short keys stand in a row of SQLite as
    they are, so that what does not mention it need not be opened."""
    found = False
    for path in (database, Path(f"{database}-wal")):
        try:
            with open_lines(path) as file:
                tail = b""
                while not found and (chunk := file.read(1 << 20)):
                    found = key in tail + chunk
                    tail = chunk[-len(key) :]
        except FileNotFoundError:
            if path is database:
                raise
    return found


def _state_of(database: Path) -> tuple[str, int, int, int, int]:
    """What tells one state of a database from another."""
    status = database.stat()
    try:
        wal = Path(f"{database}-wal").stat()
        return str(database), status.st_size, status.st_mtime_ns, wal.st_size, wal.st_mtime_ns
    except OSError:
        return str(database), status.st_size, status.st_mtime_ns, 0, 0


@lru_cache(maxsize=2)
def _stored_sessions(database: str, *state: int) -> dict[str, tuple[int, bytes]]:
    """The sessions under the old key: date in milliseconds and JSON by session id."""
    sessions: dict[str, tuple[int, bytes]] = {}
    value = _item(database, _OLD_KEY)
    for session in value if isinstance(value, list) else []:
        if not isinstance(session, dict) or not isinstance(session.get("requests"), list):
            continue
        data = json_text(session).encode("utf-8", "replace")
        own = session.get("sessionId")
        if isinstance(own, str) and own:
            session_id = clean(own)
        else:
            session_id = "stored-" + hashlib.sha256(data).hexdigest()[:32]
        date = count(session.get("lastMessageDate")) or count(session.get("creationDate")) or 0
        sessions[session_id] = (min(date, 2**42), data)
    return sessions


def _item(database: str, key: str, deadline: float = DEADLINE) -> Any:
    """The decoded value of a key of ItemTable, or ``None``."""
    with open_vscdb(database, deadline=deadline) as connection:
        if not key_value_table(connection, "ItemTable"):
            return None
        data = get(connection, "ItemTable", key)
    values, _ = decode(data) if data else ([], False)
    return values[0] if values else None


def _index_title(database: Path, session_id: str) -> str | None:
    """The title that the editor's index gives a session."""
    try:
        state = _state_of(database)
    except (OSError, ValueError):
        return None
    return _index_titles(*state).get(session_id)


@lru_cache(maxsize=8)
def _index_titles(database: str, *state: int) -> dict[str, str]:
    """Titles by session id; none when the database cannot be read, which is not worth waiting for."""
    try:
        value = _item(database, _INDEX_KEY, deadline=1.0)
    except (OSError, ValueError, sqlite3.Error):
        return {}
    titles: dict[str, str] = {}
    entries = value.get("entries") if isinstance(value, dict) else None
    for session_id, entry in (entries if isinstance(entries, dict) else {}).items():
        title = entry.get("title") if isinstance(entry, dict) else None
        if isinstance(title, str) and title.strip():
            titles[session_id] = first_line(clean(title))
    return titles


def _parse_stored(meta: ConversationMeta, place: _Place) -> Parsed:
    stored = _stored_sessions(*_state_of(Path(place.path))).get(meta.session_id)
    if stored is None:
        raise ValueError("the session is no longer in the database")
    session = orjson.loads(stored[1])
    records = FileRecords(place.path, meta.session_id)
    _count_flat(session, records)
    return _parsed(meta, place, session, _flat_requests(session), [records], True)
