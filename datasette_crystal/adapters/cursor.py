"""Cursor: the chats of the editor, in the ``state.vscdb`` of its user directory.

Where a chat lives has changed five times; all of the places may hold chats at once, and are told
apart by what is present in them:

- ``ItemTable`` of a workspace, ``workbench.panel.aichat.view.aichat.chatdata``: tabs with bubbles
  (2024);
- ``ItemTable`` of a workspace, ``composer.composerData``: ``allComposers[].conversation`` (late 2024);
- ``cursorDiskKV`` of the global database, ``composerData:<id>`` with ``conversation`` inside (early
  2025);
- the same with ``fullConversationHeadersOnly``, a list of ids, and each bubble in a row of its own,
  ``bubbleId:<composer>:<bubble>`` (since April 2025).

What a chat is called and which workspace it belongs to stands in the chat itself and in lists of
*heads*: ``allComposers`` of a workspace, the global key ``composer.composerHeaders`` (2026-06), the
table ``composerHeaders`` (since 3.12). The order of messages is that of the header list; rows that
it does not name are steps that were edited, regenerated or aborted, and are flagged as abandoned.

The rows hold secrets too (``blobEncryptionKey``; ``cursorAuth/…`` in the same table). Only named
fields are taken out of them, and no whole row is kept, not even as a sample.

Records: a chat's own row (or tab), and each of its bubbles that is there.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..hookspecs import hookimpl
from ..model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ParsedConversation,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Unreadable,
)
from ..text import clean, iso_time, json_text
from .cursor_bubbles import (
    IGNORED,
    KEPT,
    Steps,
    as_dict,
    as_list,
    as_text,
    decode_object,
    file_path,
    model_name,
)
from .jsonl import decode
from .vscdb import (
    VscdbReader,
    digest_of_keys,
    get,
    has_table,
    key_value_table,
    keys,
    next_key,
    numbered_rows,
    rows,
)
from .vscode_dirs import (
    CURSOR_PRODUCTS,
    read_project,
    root_user_dirs,
    user_dirs,
    workspace_storages,
)

SOURCE = "cursor"
_DATABASE = "state.vscdb"
_CHATDATA = "workbench.panel.aichat.view.aichat.chatdata"
_COMPOSERS = "composer.composerData"
_HEADS = "composer.composerHeaders"
_PANES = "workbench.panel.composerChatViewPane."
_PANE_VIEW = "workbench.panel.aichat.view."
_COMPOSER_KEY = b"composerData:"
_BUBBLE_KEY = b"bubbleId:"
_HEAD_COLUMNS = (
    "composerId",
    "value",
    "workspaceId",
    "createdAt",
    "lastUpdatedAt",
    "isArchived",
    "isSubagent",
)
#: Databases kept open at once.
_MAX_OPEN = 6
#: Bytes of chats of 2024 kept decoded from a value that holds many.
_MAX_CACHED = 24_000_000
#: Bytes of one chat's bubbles read at once.
_MAX_LOADED = 24_000_000


# --------------------------------------------------------------------------- what a scan finds


@dataclass(slots=True)
class _Head:
    """What the lists of chats say of one. ``own`` heads are those of the global lists."""

    name: str | None = None
    created: Any = None
    updated: Any = None
    archived: bool = False
    subagent: bool = False
    parent: str | None = None
    call_id: str | None = None
    workspace: str | None = None
    folder: str | None = None


@dataclass(slots=True)
class _Chat:
    """A chat in one of its places."""

    id: bytes
    place: str  # "composer", "bubbles", "inline" or "tab"
    weight: int  # messages, roughly: of two places with the same chat, the fuller one is read
    digest: str
    head: _Head
    children: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Database:
    """What one database holds: its chats, and its lists of chats."""

    chats: list[_Chat] = field(default_factory=list)
    heads: dict[str, _Head] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Hints:
    """What :meth:`CursorAdapter.parse` needs to find a chat again, and what it cannot see there."""

    id: bytes
    place: str
    name: str | None
    name_is_current: bool
    created: str | None
    updated: str | None
    archived: bool
    subagent: bool
    parent: str | None
    agents: tuple[tuple[str, str], ...]
    project_path: str | None


def _text_of(id_: bytes) -> str:
    return clean(id_.decode("utf-8", "replace"))


def _id_of(value: Any) -> bytes | None:
    if not isinstance(value, str) or not value:
        return None
    return value.encode("utf-8", "surrogatepass")


def _digest(*parts: Any) -> str:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


# --------------------------------------------------------------------------- looking into a database


def _look_into(db: sqlite3.Connection) -> _Database:
    found = _Database()
    try:
        if key_value_table(db, "ItemTable"):
            _read_items(db, found)
        if has_table(db, "composerHeaders", ("composerId", "value")):
            _read_heads_table(db, found)
        if key_value_table(db, "cursorDiskKV"):
            _read_composers(db, found)
            _read_lone_bubbles(db, found)
    except sqlite3.DatabaseError as error:
        # A damaged page: what was found until then is given, and nothing is taken for gone.
        found.problem = f"the database is damaged: {error}"
    return found


def _value(db: sqlite3.Connection, key: str) -> Any:
    value = get(db, "ItemTable", key)
    if not value:
        return None
    values, _ = decode(value)
    return values[0] if values else None


def _read_items(db: sqlite3.Connection, found: _Database) -> None:
    data = as_dict(_value(db, _COMPOSERS))
    for entry in as_list(data.get("allComposers")):
        entry = as_dict(entry)
        id_ = _id_of(entry.get("composerId"))
        if id_ is None:
            continue
        found.listed.append(_text_of(id_))
        head = _head(entry)
        conversation = entry.get("conversation")
        if isinstance(conversation, list) and conversation:
            digest = _digest(json_text(entry).encode("utf-8", "surrogatepass"))
            found.chats.append(_Chat(id_, "inline", len(conversation), digest, head))
        else:
            found.heads.setdefault(_text_of(id_), head)
    for id_text in as_list(data.get("selectedComposerIds")):
        if isinstance(id_text, str):
            found.listed.append(clean(id_text))
    for tab in as_list(as_dict(_value(db, _CHATDATA)).get("tabs")):
        tab = as_dict(tab)
        id_ = _id_of(tab.get("tabId"))
        bubbles = tab.get("bubbles")
        if id_ is not None and isinstance(bubbles, list) and bubbles:
            digest = _digest(json_text(tab).encode("utf-8", "surrogatepass"))
            head = _Head(
                name=as_text(tab.get("chatTitle")) or None, updated=tab.get("lastSendTime")
            )
            found.chats.append(_Chat(id_, "tab", len(bubbles), digest, head))
    for entry in as_list(as_dict(_value(db, _HEADS)).get("allComposers")):
        entry = as_dict(entry)
        id_ = _id_of(entry.get("composerId"))
        if id_ is not None:
            found.heads[_text_of(id_)] = _head(entry)
    for key, value in rows(db, "ItemTable", _PANES):
        if not key.endswith(b".hidden"):
            for view in decode_object(value) or ():
                if view.startswith(_PANE_VIEW):
                    found.listed.append(clean(view[len(_PANE_VIEW) :]))


def _read_heads_table(db: sqlite3.Connection, found: _Database) -> None:
    columns = {bytes(row[1]) for row in db.execute("pragma table_info(composerHeaders)")}
    wanted = ", ".join(name if name.encode() in columns else "null" for name in _HEAD_COLUMNS)
    for row in db.execute(f"select {wanted} from composerHeaders"):
        id_, value, workspace, created, updated, archived, subagent = row
        if not isinstance(id_, bytes) or not id_:
            continue
        head = _head(decode_object(value if isinstance(value, bytes) else None) or {})
        if isinstance(workspace, bytes) and workspace:
            head.workspace = _text_of(workspace)
        head.created = created if isinstance(created, int) else head.created
        head.updated = updated if isinstance(updated, int) else head.updated
        head.archived = bool(archived) if isinstance(archived, int) else head.archived
        head.subagent = head.subagent or subagent == 1
        found.heads[_text_of(id_)] = head


def _head(entry: dict[str, Any]) -> _Head:
    """What a head, an inline chat or a composerData row says of itself."""
    workspace = as_dict(entry.get("workspaceIdentifier"))
    agent = as_dict(entry.get("subagentInfo"))
    uri = workspace.get("uri") or workspace.get("configPath")
    parent = as_text(agent.get("parentComposerId")) or None
    return _Head(
        name=as_text(entry.get("name")).strip() or None,
        created=entry.get("createdAt"),
        updated=entry.get("lastUpdatedAt"),
        archived=entry.get("isArchived") is True,
        subagent=parent is not None,
        parent=parent,
        call_id=as_text(agent.get("toolCallId")) or None,
        workspace=as_text(workspace.get("id")) or None,
        folder=file_path(uri) if uri else None,
    )


def _read_composers(db: sqlite3.Connection, found: _Database) -> None:
    for key, value in rows(db, "cursorDiskKV", _COMPOSER_KEY):
        id_ = key[len(_COMPOSER_KEY) :]
        data = decode_object(value)
        if data is None or not id_:
            continue
        head = _head(data)
        headers = as_list(data.get("fullConversationHeadersOnly"))
        conversation = as_list(data.get("conversation"))
        count, highest, total = digest_of_keys(db, "cursorDiskKV", _bubble_prefix(id_))
        children = [
            clean(child)
            for name in ("subagentComposerIds", "subComposerIds")
            for child in as_list(data.get(name))
            if isinstance(child, str) and child
        ]
        if not (headers or conversation or count):
            continue  # an empty chat: one is made with every new window
        # A bubble that is being written may change before anything else of the chat does.
        newest = [
            get(db, "cursorDiskKV", _bubble_prefix(id_) + bubble) or b""
            for bubble, _ in _headers({"fullConversationHeadersOnly": headers[-2:]})
        ]
        digest = _digest(value or b"", count, highest, total, *newest)
        bodies = count or len(as_dict(data.get("conversationMap")))
        weight = max(len(conversation), min(len(headers), bodies), 1 if count else 0)
        found.chats.append(_Chat(id_, "composer", weight, digest, head, children))


def _read_lone_bubbles(db: sqlite3.Connection, found: _Database) -> None:
    """Bubbles whose chat has no row any more, or an unreadable one."""
    known = {chat.id for chat in found.chats if chat.place == "composer"}
    low, high = _BUBBLE_KEY, _BUBBLE_KEY[:-1] + b";"
    while (key := next_key(db, "cursorDiskKV", low, high)) is not None:
        id_, colon, _ = key[len(_BUBBLE_KEY) :].rpartition(b":")
        if not colon:
            low = key + b"\0"
            continue
        low = _BUBBLE_KEY + id_ + b";"
        if not id_ or id_ in known:
            continue
        prefix = _bubble_prefix(id_)
        if any(_is_bubble(value) for _, value in rows(db, "cursorDiskKV", prefix)):
            numbers = digest_of_keys(db, "cursorDiskKV", prefix)
            found.chats.append(_Chat(id_, "bubbles", numbers[0], _digest(*numbers), _Head()))


def _is_bubble(value: bytes | None) -> bool:
    data = decode_object(value)
    return data is not None and data.get("type") in (1, 2)


def _bubble_prefix(id_: bytes) -> bytes:
    return _BUBBLE_KEY + id_ + b":"


def _headers(data: dict[str, Any]) -> list[tuple[bytes, dict[str, Any]]]:
    """(id, header) of each message, in order, each once."""
    found: dict[bytes, dict[str, Any]] = {}
    for header in as_list(data.get("fullConversationHeadersOnly")):
        header = as_dict(header)
        id_ = _id_of(header.get("bubbleId"))
        if id_ is not None:
            found.setdefault(id_, header)
    return list(found.items())


def _has_content(db: sqlite3.Connection, id_: bytes) -> bool:
    """Whether this database holds messages of a chat, not only its head."""
    data = decode_object(get(db, "cursorDiskKV", _COMPOSER_KEY + id_)) or {}
    if as_list(data.get("conversation")) or as_dict(data.get("conversationMap")):
        return True
    return any(_is_bubble(value) for _, value in rows(db, "cursorDiskKV", _bubble_prefix(id_)))


def sessions_in_editor(env: Environment, ids: Iterable[str]) -> set[str]:
    """Which of these chats the editor's own databases hold with their messages. Raises
    :class:`OSError` when one of them cannot be read now; a damaged one holds nothing."""
    wanted = {id_: _id_of(id_) for id_ in ids}
    found: set[str] = set()

    def look(db: sqlite3.Connection) -> set[str]:
        if not key_value_table(db, "cursorDiskKV"):
            return set()
        return {id_ for id_, key in wanted.items() if key is not None and _has_content(db, key)}

    for _, directory in _all_user_dirs(env):
        path = directory / "globalStorage" / _DATABASE
        if not path.is_file():
            continue
        try:
            with VscdbReader(path) as reader:
                found |= reader.read(look)
        except ValueError:
            continue
    return found


def _all_user_dirs(env: Environment) -> list[tuple[str, Path]]:
    found = user_dirs(env, CURSOR_PRODUCTS)
    for root in env.roots.get(SOURCE, ()):
        found += [item for item in root_user_dirs(root, CURSOR_PRODUCTS) if item not in found]
    return found


# --------------------------------------------------------------------------- the adapter


class CursorAdapter:
    """Chats of the Cursor editor."""

    name = SOURCE
    display_name = "Cursor"
    places = "Cursor's user directory"
    parser_version = 1

    def __init__(self) -> None:
        self._readers: OrderedDict[str, VscdbReader] = OrderedDict()
        self._entries: OrderedDict[tuple[str, str], tuple[int, dict[bytes, bytes]]] = OrderedDict()

    def detect(self, env: Environment) -> SourceInfo | None:
        directories = _all_user_dirs(env)
        databases = [
            path
            for _, directory in directories
            for path in _databases(directory)
            if path.is_file() or path.is_symlink()
        ]
        if not databases:
            return None
        info = SourceInfo(SOURCE, [directory for _, directory in directories])
        times = []
        for path in databases:
            try:
                times.append(path.stat().st_mtime)
            except OSError as error:
                info.unreadable.append(Unreadable(str(path), error.strerror or str(error)))
        if times:
            info.oldest, info.newest = iso_time(min(times)), iso_time(max(times))
        return info

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        given: set[str] = set()
        for _, directory in _all_user_dirs(env):
            yield from self._scan_user_dir(directory, given)

    def _scan_user_dir(
        self, directory: Path, given: set[str]
    ) -> Iterator[ConversationMeta | ScanProblem]:
        root = str(directory)
        best: dict[str, tuple[_Chat, Path]] = {}
        current: dict[str, _Head] = {}
        older: dict[str, _Head] = {}
        workspaces: dict[str, str] = {}
        parents: dict[str, str] = {}
        projects: dict[str, str | None] = {}
        for path in _databases(directory):
            is_global = path.parent.name == "globalStorage"
            if not is_global:
                project = read_project(path.parent)
                projects[path.parent.name] = project.path if project is not None else None
            if path.is_symlink():
                reason = "a symbolic link, which is not followed: name its folder with --root"
                yield ScanProblem(SOURCE, str(path), reason, root)
                continue
            if not path.is_file():
                if path.exists():
                    yield ScanProblem(SOURCE, str(path), "not a regular file", root)
                continue
            try:
                found = self._reader(path).read(_look_into)
            except (OSError, ValueError) as error:
                yield ScanProblem.of(SOURCE, path, error, root)
                continue
            if found.problem is not None:
                yield ScanProblem(SOURCE, str(path), found.problem, root, "unreadable")
            (current if is_global else older).update(found.heads)
            if not is_global:
                self._close_reader(str(path))
                for id_ in [*found.listed, *(_text_of(chat.id) for chat in found.chats)]:
                    workspaces.setdefault(id_, path.parent.name)
            for chat in found.chats:
                id_ = _text_of(chat.id)
                for child in chat.children:
                    if child != id_:
                        parents.setdefault(child, id_)
                if id_ not in best or best[id_][0].weight < chat.weight:
                    best[id_] = (chat, path)
        agents = _agents(current, older, best)
        for id_, (chat, path) in best.items():
            if id_ in given:
                continue
            given.add(id_)
            head = _merged(current.get(id_), chat.head, older.get(id_))
            parent = head.parent or parents.get(id_)
            project_path = _project(head, workspaces.get(id_), projects)
            hints = _Hints(
                id=chat.id,
                place=chat.place,
                name=head.name,
                name_is_current=id_ in current,
                created=iso_time(head.created),
                updated=iso_time(head.updated),
                archived=head.archived,
                subagent=head.subagent or parent is not None,
                parent=parent,
                agents=tuple(agents.get(id_, ())),
                project_path=project_path,
            )
            try:
                status = path.stat()
            except OSError as error:
                yield ScanProblem(SOURCE, str(path), error.strerror or str(error), root)
                continue
            file = SourceFile(str(path), root, status.st_size, status.st_mtime_ns, id_)
            marker = _digest(chat.digest, hints)
            yield ConversationMeta(SOURCE, id_, (file,), marker, hints)

    def parse(self, meta: ConversationMeta) -> Parsed:
        hints = meta.hints
        assert isinstance(hints, _Hints)
        file = meta.files[0]
        return self._reader(Path(file.path)).read(
            lambda db: self._parse(db, file.path, file.part, meta.session_id, hints)
        )

    def close(self) -> None:
        """Closes what was kept open between two calls."""
        for path in list(self._readers):
            self._close_reader(path)
        self._entries.clear()

    # ------------------------------------------------------------ open databases

    def _reader(self, path: Path) -> VscdbReader:
        name = str(path)
        reader = self._readers.get(name)
        if reader is None:
            while len(self._readers) >= _MAX_OPEN:
                self._close_reader(next(iter(self._readers)))
            reader = self._readers[name] = VscdbReader(path)
        self._readers.move_to_end(name)
        return reader

    def _close_reader(self, path: str) -> None:
        reader = self._readers.pop(path, None)
        if reader is not None:
            reader.close()

    # ------------------------------------------------------------ reading a chat

    def _parse(
        self, db: sqlite3.Connection, path: str, part: str, session_id: str, hints: _Hints
    ) -> Parsed:
        records = FileRecords(path, part)
        conversation = ParsedConversation(
            SOURCE,
            session_id,
            kind="subagent" if hints.subagent else "main",
            parent_session_id=hints.parent,
            project_path=hints.project_path,
            title=hints.name,
            started_at=hints.created,
            ended_at=hints.updated,
            archived=hints.archived,
        )
        steps = Steps(
            conversation.messages,
            person_kind="task" if hints.subagent else "prompt",
            shared_uids=True,
            agents=dict(hints.agents),
        )
        if hints.place in ("composer", "bubbles"):
            _read_composer(db, hints, conversation, records, steps)
        else:
            self._read_entry(db, path, hints, conversation, records, steps)
        if conversation.title:
            conversation.title_origin = "tool"
        conversation.model = conversation.model or steps.model
        if not conversation.messages and conversation.fidelity != "metadata-only":
            return Parsed([], [records])
        return Parsed([conversation], [records])

    def _read_entry(
        self,
        db: sqlite3.Connection,
        path: str,
        hints: _Hints,
        conversation: ParsedConversation,
        records: FileRecords,
        steps: Steps,
    ) -> None:
        """A chat that is an entry of a value with many."""
        entry = decode_object(self._entry(db, path, hints))
        records.records += 1
        if entry is None:
            records.malformed += 1
            records.message = "it is no longer in the database"
            return
        records.kept += 1
        if hints.place == "tab":
            bubbles, tools = as_list(entry.get("bubbles")), {}
        else:
            bubbles, tools = as_list(entry.get("conversation")), _stored_tools(entry)
            _add_model(conversation, entry)
        _read_inline(bubbles, tools, records, steps)

    def _entry(self, db: sqlite3.Connection, path: str, hints: _Hints) -> bytes | None:
        """One entry as JSON. The value is decoded once for all of its entries."""
        cached = self._entries.get((path, hints.place))
        if cached is not None and hints.id in cached[1]:
            self._entries.move_to_end((path, hints.place))
            return cached[1].pop(hints.id)
        key, list_name, id_name = {
            "tab": (_CHATDATA, "tabs", "tabId"),
            "inline": (_COMPOSERS, "allComposers", "composerId"),
        }[hints.place]
        entries: dict[bytes, bytes] = {}
        if key_value_table(db, "ItemTable"):
            for entry in as_list(as_dict(_value(db, key)).get(list_name)):
                entry = as_dict(entry)
                id_ = _id_of(entry.get(id_name))
                if id_ is not None and (entry.get("conversation") or entry.get("bubbles")):
                    entries.setdefault(id_, json_text(entry).encode("utf-8", "surrogatepass"))
        size = sum(map(len, entries.values()))
        self._entries.pop((path, hints.place), None)
        self._entries[path, hints.place] = (size, entries)
        while len(self._entries) > 1 and (
            sum(other for other, _ in self._entries.values()) > _MAX_CACHED
        ):
            self._entries.popitem(last=False)
        return entries.pop(hints.id, None)


def _databases(directory: Path) -> Iterator[Path]:
    yield directory / "globalStorage" / _DATABASE
    for storage in workspace_storages(directory):
        yield storage.path / _DATABASE


def _merged(current: _Head | None, own: _Head, older: _Head | None) -> _Head:
    """The global lists know best, then the chat itself, then the lists of the workspaces."""
    heads = [head for head in (current, own, older) if head is not None]
    merged = _Head(archived=any(head.archived for head in heads[:2]))
    if current is not None:
        merged.archived = current.archived or own.archived
    for head in heads:
        merged.name = merged.name or head.name
        merged.created = merged.created if iso_time(merged.created) else head.created
        merged.updated = merged.updated if iso_time(merged.updated) else head.updated
        merged.subagent = merged.subagent or head.subagent
        merged.parent = merged.parent or head.parent
        merged.workspace = merged.workspace or head.workspace
        merged.folder = merged.folder or head.folder
    return merged


def _project(head: _Head, listed_by: str | None, projects: dict[str, str | None]) -> str | None:
    """The folder of a chat: of the workspace that the chat names, else what it says of that
    workspace (which may be deleted), else of a workspace that lists it."""
    if head.workspace is not None and projects.get(head.workspace):
        return projects[head.workspace]
    if head.folder:
        return head.folder
    if head.workspace is None and listed_by is not None:
        return projects.get(listed_by)
    return None


def _agents(
    current: dict[str, _Head], older: dict[str, _Head], best: dict[str, tuple[_Chat, Path]]
) -> dict[str, list[tuple[str, str]]]:
    """Of each parent: (id of the tool call, id of the subagent's chat that it started)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for id_, (chat, _) in best.items():
        for head in (current.get(id_), chat.head, older.get(id_)):
            if head is not None and head.parent and head.call_id:
                found.setdefault(head.parent, []).append((head.call_id, id_))
                break
    for pairs in found.values():
        pairs.sort()
    return found


# --------------------------------------------------------------------------- reading a chat


def _add_model(conversation: ParsedConversation, data: dict[str, Any]) -> None:
    conversation.model = model_name(as_dict(data.get("modelConfig")).get("modelName"))


def _stored_tools(data: dict[str, Any]) -> dict[str, Any]:
    """Tool calls of chats of early 2025, by bubble: JSON text within capability 15."""
    for capability in as_list(data.get("capabilities")):
        capability = as_dict(capability)
        if capability.get("type") == 15:
            value = as_dict(capability.get("data")).get("bubbleDataMap")
            if isinstance(value, str) and value:
                value = decode_object(value.encode("utf-8", "surrogatepass"))
            return as_dict(value)
    return {}


def _read_inline(
    bubbles: list[Any], tools: dict[str, Any], records: FileRecords, steps: Steps
) -> None:
    """Bubbles that stand in a list, in order."""
    for number, bubble in enumerate(bubbles):
        records.records += 1
        if not isinstance(bubble, dict):
            records.malformed += 1
            continue
        id_ = bubble.get("bubbleId") or bubble.get("id")
        uid = clean(id_) if isinstance(id_, str) else f"{number}"
        tool = tools.get(id_) if isinstance(id_, str) else None
        _count(steps.add(bubble, uid, number, tool=tool), bubble, uid, records)


def _count(outcome: str, bubble: dict[str, Any], where: str, records: FileRecords) -> None:
    if outcome == KEPT:
        records.kept += 1
    elif outcome == IGNORED:
        records.ignored += 1
    else:
        # The names of its fields tell what it is; their values may hold anything.
        names = ", ".join(sorted(clean(name)[:40] for name in bubble)[:60])
        records.add_unknown(where, f"bubble type {bubble.get('type')!r:.60}", names)


def _read_composer(
    db: sqlite3.Connection,
    hints: _Hints,
    conversation: ParsedConversation,
    records: FileRecords,
    steps: Steps,
) -> None:
    """A chat of ``cursorDiskKV``: the headers' order, then the rows that no header names."""
    value = get(db, "cursorDiskKV", _COMPOSER_KEY + hints.id)
    data = decode_object(value)
    headers: list[tuple[bytes, dict[str, Any]]] = []
    inline: list[Any] = []
    if data is not None:
        records.records += 1
        records.kept += 1
        _add_model(conversation, data)
        own = _head(data)
        if own.name and not hints.name_is_current:
            conversation.title = own.name
        headers = _headers(data)
        inline = as_list(data.get("conversation"))
    elif value:
        records.records += 1
        records.malformed += 1
    rows_of = _Rows(db, hints.id, records)
    tools = _stored_tools(data) if data is not None else {}
    if headers:
        bodies = _bodies(data or {}, inline)
        gaps = _read_rows(rows_of, headers, bodies, tools, records, steps)
        if gaps:
            conversation.fidelity = "partial"
            records.message = f"{gaps} of {len(headers)} messages are not in the database"
    elif inline:
        _read_inline(inline, tools, records, steps)
        named = [as_dict(bubble).get("bubbleId") for bubble in inline]
        rows_of.named.update(id_ for id_ in map(_id_of, named) if id_ is not None)
    steps.end_row()
    if data is None:
        conversation.fidelity = "partial"
        records.message = "its list of messages is lost: they stand in the order of writing"
    _read_others(rows_of, "active" if data is None else "abandoned", records, steps)
    if not conversation.messages and headers:
        conversation.fidelity = "metadata-only"


def _bodies(data: dict[str, Any], inline: list[Any]) -> dict[bytes, dict[str, Any]]:
    """Bubbles that stand in the chat's own row although it has a list of headers."""
    found: dict[bytes, dict[str, Any]] = {}
    for name, bubble in as_dict(data.get("conversationMap")).items():
        id_ = _id_of(name)
        if id_ is not None and isinstance(bubble, dict):
            found[id_] = bubble
    for bubble in inline:
        bubble = as_dict(bubble)
        id_ = _id_of(bubble.get("bubbleId"))
        if id_ is not None:
            found[id_] = bubble
    return found


class _Rows:
    """The rows of a chat's bubbles. They are read in one go, in the order of their keys; of a chat
    that is too large for that, each is read when it is asked for."""

    def __init__(self, db: sqlite3.Connection, chat: bytes, records: FileRecords) -> None:
        self.named: set[bytes] = set()
        self._db = db
        self._prefix = _bubble_prefix(chat)
        self._records = records
        self._loaded: dict[bytes, tuple[int, bytes | None]] = {}
        self._complete = False
        start, size = len(self._prefix), 0
        try:
            for key, rowid, value in numbered_rows(db, "cursorDiskKV", self._prefix):
                size += len(value) if value is not None else 0
                if size > _MAX_LOADED:
                    return
                self._loaded[key[start:]] = (rowid, value)
        except sqlite3.DatabaseError as error:
            if "malformed" not in str(error):
                raise
            return
        self._complete = True

    def get(self, id_: bytes) -> bytes | None:
        """The value of a bubble that a header names. One on a damaged page is counted, and costs
        only itself."""
        self.named.add(id_)
        found = self._loaded.pop(id_, None)
        if found is not None:
            return found[1]
        return None if self._complete else self._read(self._prefix + id_)

    def others(self) -> Iterator[tuple[bytes, bytes | None]]:
        """(id, value) of the rows that no header names, in the order in which they were written."""
        start = len(self._prefix)
        if self._complete:
            numbers = [(rowid, id_) for id_, (rowid, _) in self._loaded.items()]
        else:
            numbers = [
                (rowid, key[start:]) for key, rowid in keys(self._db, "cursorDiskKV", self._prefix)
            ]
        # a colon: the bubble of another chat, whose id begins with this one's
        numbers = [item for item in numbers if item[1] not in self.named and b":" not in item[1]]
        numbers.sort()
        for _, id_ in numbers:
            found = self._loaded.pop(id_, None)
            yield id_, found[1] if found is not None else self._read(self._prefix + id_)

    def _read(self, key: bytes) -> bytes | None:
        try:
            return get(self._db, "cursorDiskKV", key)
        except sqlite3.DatabaseError as error:
            if "malformed" not in str(error):
                raise
            self._records.records += 1
            self._records.malformed += 1
            return None


def _read_rows(
    rows_of: _Rows,
    headers: list[tuple[bytes, dict[str, Any]]],
    bodies: dict[bytes, dict[str, Any]],
    tools: dict[str, Any],
    records: FileRecords,
    steps: Steps,
) -> int:
    """The bubbles of the header list. Returns how many are missing."""
    gaps = 0
    for number, (id_, header) in enumerate(headers):
        value = rows_of.get(id_)
        bubble = decode_object(value)
        if bubble is not None:
            records.records += 1
        elif value and value.strip() not in (b"null", b""):
            records.records += 1
            records.malformed += 1
        if bubble is None and id_ in bodies:
            bubble = bodies[id_]
            records.records += 1
        if bubble is None:
            gaps += 1
            continue
        uid = _text_of(id_)
        tool = tools.get(uid) if tools else None
        _count(steps.add(bubble, uid, number, header=header, tool=tool), bubble, uid, records)
    return gaps


def _read_others(rows_of: _Rows, state: str, records: FileRecords, steps: Steps) -> None:
    for number, (id_, value) in enumerate(rows_of.others()):
        if not value:
            continue
        records.records += 1
        bubble = decode_object(value)
        if bubble is None:
            records.malformed += 1
            continue
        uid = _text_of(id_) or f"{number}"
        _count(steps.add(bubble, uid, number, state=state), bubble, uid, records)


@hookimpl
def register_adapters(register: Any) -> None:
    register(CursorAdapter())
