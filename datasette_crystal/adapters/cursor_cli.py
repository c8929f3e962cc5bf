"""Cursor's command line agent (``cursor-agent``): ``~/.cursor``, or ``$CURSOR_CONFIG_DIR``.

- ``chats/<hash of the folder>/<id>/store.db`` holds a chat as the model saw it: ``blobs`` (id, data)
  by content, and ``meta`` whose row ``0`` is JSON in hexadecimal with ``latestRootBlobId``. The root
  lists the digests of the messages in order; blobs that it does not reach belong to branches that
  were left. ``meta.json`` beside it has the folder and the times.
- ``projects/<folder>/agent-transcripts/<id>.jsonl``, or ``<id>/<id>.jsonl`` with
  ``<id>/subagents/<child>.jsonl``, is a poorer copy: no ids, no times, no results of tools.

Each chat is given once: not at all when the editor's own database holds it (see :mod:`.cursor`), from
``store.db`` where there is one, else from the transcript.

Records: of a store, the blobs that its root reaches; of a transcript, its lines.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..hookspecs import hookimpl
from ..model import (
    Attachment,
    ConversationMeta,
    Environment,
    FileRecords,
    Messages,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    ScanProblem,
    SourceFile,
    SourceInfo,
)
from ..text import clean, first_line, iso_time, json_text
from .cursor import sessions_in_editor
from .cursor_bubbles import as_dict, as_text, decode_object, edit_of_call, model_name
from .jsonl import decode, read_lines, regular_files
from .vscdb import as_bytes, has_table, open_vscdb

SOURCE = "cursor-cli"
_QUERY = "<user_query>"
_QUERY_END = "</user_query>"
_TIMESTAMP = re.compile(r"<timestamp>([^<]{1,100})</timestamp>\s*")
#: What the client puts before a prompt begins with one of these.
_PREAMBLES = (
    "<user_info>",
    "<git_status>",
    "<rules>",
    "<project_layout>",
    "<system_reminder>",
    "<system-reminder>",
    "<attached_files>",
    "<open_and_recently_viewed_files>",
    "<agent_transcripts>",
    "<agent_skills>",
    "<mcp_instructions>",
    "<additional_data>",
)
_WORKSPACE = re.compile(r"^Workspace Path: ?(\S[^\n]{0,2000})$", re.MULTILINE)
_MAX_IMAGE = 20_000_000
_MAX_DEPTH = 40
#: Bytes of the digest that is the id of a blob.
_DIGEST = 32


@dataclass(frozen=True, slots=True)
class _Hints:
    """``kind`` is ``store`` or ``transcript``; ``transcript`` is read when a store cannot be."""

    kind: str
    transcript: str | None = None
    parent: str | None = None


# --------------------------------------------------------------------------- the adapter


class CursorCliAdapter:
    """Chats of Cursor's command line agent."""

    name = SOURCE
    display_name = "Cursor CLI"
    places = "~/.cursor, $CURSOR_CONFIG_DIR"
    parser_version = 1

    def detect(self, env: Environment) -> SourceInfo | None:
        times: list[float] = []
        roots: list[Path] = []
        number = 0
        for root in _roots(env):
            roots += [root / "chats", root / "projects"]
            transcripts = [path for path, _ in _transcripts(root, []).values()]
            for path in [*_stores(root).values(), *transcripts]:
                try:
                    times.append(path.stat().st_mtime)
                except OSError:
                    continue
                number += 1
        if not number:
            return None
        info = SourceInfo(SOURCE, [root for root in roots if root.is_dir()])
        info.oldest, info.newest = iso_time(min(times)), iso_time(max(times))
        return info

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        given: set[str] = set()
        for root in _roots(env):
            problems: list[OSError] = []
            stores = _stores(root)
            transcripts = _transcripts(root, problems)
            for problem in problems:
                yield ScanProblem(
                    SOURCE,
                    str(problem.filename or root / "projects"),
                    problem.strerror or str(problem),
                    str(root / "projects"),
                )
            try:
                given |= sessions_in_editor(env, (stores.keys() | transcripts.keys()) - given)
            except OSError as error:
                # Whether the editor has them is not known now: better once, later, than twice.
                reason = f"the editor's database cannot be read now: {error}"
                for folder in ("chats", "projects"):
                    yield ScanProblem(SOURCE, str(root / folder), reason, str(root / folder))
                continue
            for id_, store in stores.items():
                if id_ in given:
                    continue
                transcript = transcripts.get(id_)
                meta = _store_meta(root, id_, store, transcript[0] if transcript else None)
                if meta is not None:
                    given.add(id_)
                    yield meta
            for id_, (path, parent) in transcripts.items():
                if id_ in given:
                    continue
                try:
                    file = SourceFile.at(path, root / "projects")
                except OSError:
                    continue  # it was just deleted
                given.add(id_)
                yield ConversationMeta(
                    SOURCE, id_, (file,), "", _Hints("transcript", parent=parent)
                )

    def parse(self, meta: ConversationMeta) -> Parsed:
        hints = meta.hints
        assert isinstance(hints, _Hints)
        path = Path(meta.files[0].path)
        if hints.kind == "transcript":
            return _parse_transcript(path, meta.session_id, hints.parent)
        parsed = _parse_store(path, meta.session_id)
        unreadable = parsed.conversations and parsed.conversations[0].fidelity == "unreadable"
        if unreadable and hints.transcript is not None:
            try:
                other = _parse_transcript(Path(hints.transcript), meta.session_id, None)
            except OSError:
                return parsed
            if other.conversations:
                return Parsed(other.conversations, parsed.files + other.files)
        return parsed


def _roots(env: Environment) -> list[Path]:
    found = [env.directory_variable("CURSOR_CONFIG_DIR") or env.home / ".cursor"]
    for root in env.roots.get(SOURCE, ()):
        for candidate in (root, root / ".cursor"):
            if (candidate / "chats").is_dir() or (candidate / "projects").is_dir():
                found.append(candidate)
    return list(dict.fromkeys(found))


def _folders(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(
                Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def _stores(root: Path) -> dict[str, Path]:
    """id → store.db"""
    found: dict[str, Path] = {}
    for folder in _folders(root / "chats"):
        for chat in _folders(folder):
            path = chat / "store.db"
            if path.is_file() and not path.is_symlink():
                found.setdefault(clean(chat.name), path)
    return found


def _transcripts(root: Path, problems: list[OSError]) -> dict[str, tuple[Path, str | None]]:
    """id → (transcript, id of the chat whose subagent it is)"""
    found: dict[str, tuple[Path, str | None]] = {}
    for project in _folders(root / "projects"):
        folder = project / "agent-transcripts"
        if not folder.is_dir():
            continue
        for entry in regular_files(folder, problems=problems):
            path = Path(entry.path)
            if path.suffix != ".jsonl":
                continue
            parent = path.parent.parent.name if path.parent.name == "subagents" else None
            found.setdefault(clean(path.stem), (path, clean(parent) if parent else None))
    return found


def _store_meta(
    root: Path, id_: str, store: Path, transcript: Path | None
) -> ConversationMeta | None:
    try:
        file = SourceFile.at(store, root / "chats")
    except OSError:
        return None
    # Rows that are only in the -wal, and what meta.json says, change the chat without its file.
    beside = []
    for path in (store.with_name("store.db-wal"), store.with_name("meta.json")):
        try:
            status = path.stat()
            beside.append((status.st_size, status.st_mtime_ns))
        except OSError:
            beside.append((0, 0))
    marker = hashlib.blake2b(repr(beside).encode(), digest_size=16).hexdigest()
    hints = _Hints("store", transcript=str(transcript) if transcript is not None else None)
    return ConversationMeta(SOURCE, id_, (file,), marker, hints)


# --------------------------------------------------------------------------- store.db


def _parse_store(path: Path, session_id: str) -> Parsed:
    records = FileRecords(str(path))
    conversation = ParsedConversation(SOURCE, session_id)
    beside = _meta_json(path.with_name("meta.json"))
    with open_vscdb(path) as db:
        if not has_table(db, "blobs", ("id", "data")) or not has_table(
            db, "meta", ("key", "value")
        ):
            raise ValueError("not a chat store: it has no tables of blobs and meta")
        meta = _store_head(db)
        _describe(conversation, {**beside, **meta})
        _read_store(db, meta, conversation, records)
    if not conversation.messages:
        if not records.unknown:
            return Parsed([], [records])
        conversation.fidelity = "unreadable"
        records.message = "its messages cannot be read: they may be encrypted"
    return Parsed([conversation], [records])


def _meta_json(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return decode_object(file.read(1_000_000)) or {}
    except OSError:
        return {}


def _store_head(db: sqlite3.Connection) -> dict[str, Any]:
    """Row ``0`` of ``meta``. It holds ``blobEncryptionKey`` too: only named fields are used."""
    row = db.execute("select value from meta where key = '0'").fetchone()
    value = as_bytes(row[0]) if row is not None else None
    if value is None:
        return {}
    if not value.lstrip().startswith(b"{"):
        try:
            value = binascii.unhexlify(value.strip())
        except (binascii.Error, ValueError):
            return {}
    return decode_object(value) or {}


def _describe(conversation: ParsedConversation, facts: dict[str, Any]) -> None:
    title = as_text(facts.get("title")).strip() or as_text(facts.get("name")).strip()
    if title:
        conversation.title, conversation.title_origin = title, "tool"
    folder = as_text(facts.get("cwd")) or None
    conversation.cwd = conversation.project_path = folder
    conversation.model = model_name(facts.get("lastUsedModel"))
    conversation.started_at = iso_time(facts.get("createdAt")) or iso_time(facts.get("createdAtMs"))
    conversation.ended_at = iso_time(facts.get("updatedAtMs")) or iso_time(facts.get("updatedAt"))


def _read_store(
    db: sqlite3.Connection,
    meta: dict[str, Any],
    conversation: ParsedConversation,
    records: FileRecords,
) -> None:
    root_id = as_text(meta.get("latestRootBlobId"))
    root = _blob(db, root_id)
    if root is None:
        if root_id:
            records.message = "its latest state is not in the store"
        return
    records.records += 1
    records.kept += 1
    builder = _Builder(conversation, records)
    for name, message, time in _messages_of(db, root, records):
        builder.add(message, name, time)
    builder.finish()
    if conversation.cwd is None:
        # field 9 of the root is the folder where it has one
        for field, value in _fields(root):
            if field == 9 and isinstance(value, bytes) and value[:1] in (b"/", b"\\"):
                conversation.cwd = conversation.project_path = _utf8(value)
                break
        else:
            conversation.cwd = conversation.project_path = builder.folder


def _utf8(value: bytes) -> str:
    return clean(value.decode("utf-8", "replace"))


def _blob(db: sqlite3.Connection, id_: str) -> bytes | None:
    row = db.execute("select data from blobs where id = ?", (id_,)).fetchone()
    return as_bytes(row[0]) if row is not None else None


def _messages_of(
    db: sqlite3.Connection, root: bytes, records: FileRecords
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """(id, message, time) of each message that a root reaches, in order. Usually the root lists
    their digests as field 1. In newer ones field 8 lists turns, which are messages of their own
    with the agent's message as JSON in field 4 and its time in field 26."""
    fields = list(_fields(root))
    direct = [
        value
        for field, value in fields
        if field == 1 and isinstance(value, bytes) and len(value) == _DIGEST
    ]
    if direct:
        for digest in direct:
            yield from _message(db, digest, records)
        return
    for position, (field, value) in enumerate(fields):
        if field == 8 and isinstance(value, bytes):
            yield from _turn(db, value, f"turn-{position}", records, 0)


def _message(
    db: sqlite3.Connection, digest: bytes, records: FileRecords
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    name = digest.hex()
    data = _blob(db, name)
    if data is None:
        return
    records.records += 1
    message = decode_object(data) if data.lstrip()[:1] == b"{" else None
    if message is None:
        records.add_unknown(name, "blob that is no message", f"{len(data)} bytes")
    elif not isinstance(message.get("role"), str):
        records.add_unknown(name, "message without a role", ", ".join(sorted(message)[:30]))
    else:
        yield name, message, None


def _turn(
    db: sqlite3.Connection, data: bytes, name: str, records: FileRecords, depth: int
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    if depth > _MAX_DEPTH:
        return
    if len(data) == _DIGEST:
        name = data.hex()
        found = _blob(db, name)
        if found is None:
            return
        data = found
    if data.lstrip()[:1] == b"{":
        message = decode_object(data)
        if message is not None and isinstance(message.get("role"), str):
            records.records += 1
            yield name, message, None
        return
    fields = list(_fields(data))
    time = next((iso_time(value) for field, value in fields if field == 26), None)
    for position, (_, value) in enumerate(fields):
        if not isinstance(value, bytes) or not value:
            continue
        part = f"{name}.{position}"
        for id_, message, own_time in _turn(db, value, part, records, depth + 1):
            yield id_, message, own_time or time


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of the fields of a protobuf message; ends where it is none."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        field, wire = tag >> 3, tag & 7
        if position < 0 or field == 0:
            return
        if wire == 0:
            value, position = _varint(data, position)
            if position < 0:
                return
            yield field, value
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
        elif wire == 2:
            length, position = _varint(data, position)
            if position < 0 or position + length > end:
                return
            yield field, data[position : position + length]
            position += length
        else:
            return


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    return 0, -1


# --------------------------------------------------------------------------- messages


class _Builder:
    """Turns messages of the model's interface (``role`` and ``content``) into ours."""

    def __init__(self, conversation: ParsedConversation, records: FileRecords) -> None:
        self._messages: Messages = conversation.messages
        self._records = records
        self._person_kind = "task" if conversation.kind == "subagent" else "prompt"
        self._calls: dict[str, ParsedToolCall] = {}
        self._pending: list[ParsedToolCall] = []
        self._times = 0
        self._uids: dict[str, int] = {}
        self.folder: str | None = None

    def add(self, message: dict[str, Any], name: str, time: str | None = None) -> None:
        """Adds a message and counts its record, which the caller has counted as one."""
        role = message.get("role")
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        before = len(self._messages)
        if role == "user":
            self._add_user(parts, name, time)
            kept = len(self._messages) > before
        elif role == "assistant":
            self._add_assistant(parts, name, time)
            kept = len(self._messages) > before
        elif role == "tool":
            kept = self._add_results(parts)
        elif role == "system":
            kept = False  # the client's own instructions, the same in every chat
        else:
            self._records.add_unknown(name, f"role {role!r:.60}", ", ".join(sorted(message)[:30]))
            return
        if kept:
            self._records.kept += 1
        else:
            self._records.ignored += 1

    def finish(self) -> None:
        """Calls whose result is not there will not get one."""
        for call in self._pending:
            if call.status == "pending":
                call.status = "unknown"

    def add_error(self, text: str, name: str) -> None:
        self._append("system", "error", name, None, text)

    def _append(
        self, role: str, kind: str, name: str, time: str | None, content: str = ""
    ) -> ParsedMessage:
        seen = self._uids.get(name, 0)
        self._uids[name] = seen + 1
        message = ParsedMessage(
            # A blob's id is that of its content: the same words twice have one.
            uid=f"{name}#{seen + 1}" if seen else name,
            role=role,
            kind=kind,
            content=content,
            timestamp=time,
            record=len(self._messages),
        )
        self._messages.append(message)
        return message

    def _add_user(self, parts: list[Any], name: str, time: str | None) -> None:
        contexts: list[str] = []
        prompts: list[str] = []
        attachments: list[Attachment] = []
        for part in parts:
            text = part if isinstance(part, str) else as_dict(part).get("text")
            if isinstance(text, str):
                context, prompt, told = _split_prompt(clean(text))
                time = told or time
                contexts += [context] if context.strip() else []
                prompts += [prompt] if prompt is not None and prompt.strip() else []
            elif as_dict(part).get("type") in ("image", "file"):
                attachments.append(_attachment(as_dict(part)))
        if contexts:
            text = "\n\n".join(contexts)
            match = _WORKSPACE.search(text, 0, 20_000)
            if match and self.folder is None:
                self.folder = match.group(1).strip()
            self._append("user", "context", f"{name}:context" if prompts else name, time, text)
        if prompts or attachments:
            prompt = "\n\n".join(prompts)
            self._append("user", self._person_kind, name, time, prompt).attachments = attachments

    def _add_assistant(self, parts: list[Any], name: str, time: str | None) -> None:
        row: ParsedMessage | None = None

        def new_row() -> ParsedMessage:
            return self._append("assistant", "reply", name, time)

        for part in parts:
            if isinstance(part, str):
                part = {"type": "text", "text": part}
            part = as_dict(part)
            kind = part.get("type")
            if kind == "text":
                text = as_text(part.get("text"))
                if not text.strip():
                    continue
                if row is None or row.content or row.tool_calls:
                    row = new_row()
                row.content = text
                self._messages.grew(len(text))
            elif kind in ("reasoning", "thinking"):
                text = as_text(part.get("text")) or as_text(part.get("thinking"))
                if not text.strip() or text.strip() == "[REDACTED]":
                    continue
                if row is None or row.content or row.tool_calls:
                    row = new_row()
                row.thinking = f"{row.thinking}\n\n{text}" if row.thinking else text
                self._messages.grew(len(text))
            elif kind in ("tool-call", "tool_use"):
                if row is None:
                    row = new_row()
                call = _call(part)
                row.tool_calls.append(call)
                self._messages.grew(len(call.input or ""))
                self._pending.append(call)
                if call.call_id is not None:
                    self._calls[call.call_id] = call

    def _add_results(self, parts: list[Any]) -> bool:
        kept = False
        for part in parts:
            part = as_dict(part)
            call = self._calls.pop(as_text(part.get("toolCallId")), None)
            if call is None:
                continue
            kept = True
            result = part.get("result", part.get("output"))
            call.output = _result_text(result)
            self._messages.grew(len(call.output))
            failed = part.get("isError") is True or part.get("is_error") is True
            if isinstance(result, dict) and str(result.get("type")).startswith("error"):
                failed = True
            call.status = "error" if failed else "ok"
        return kept


def _split_prompt(text: str) -> tuple[str, str | None, str | None]:
    """What the client put around a prompt, the prompt itself (``None`` where the whole is the
    client's), and the time that it noted."""
    time: str | None = None
    start, end = text.find(_QUERY), text.rfind(_QUERY_END)
    if 0 <= start < end:
        around = text[:start] + text[end + len(_QUERY_END) :]
        match = _TIMESTAMP.search(around)
        if match:
            time = iso_time(match.group(1))
            around = around[: match.start()] + around[match.end() :]
        prompt = text[start + len(_QUERY) : end]
        return around.strip(), prompt.removeprefix("\n").removesuffix("\n"), time
    if text.lstrip().startswith(_PREAMBLES):
        return text, None, None
    return "", text, None


def _call(part: dict[str, Any]) -> ParsedToolCall:
    arguments = part.get("args", part.get("input"))
    if isinstance(arguments, str):
        values, damaged = decode(arguments.encode("utf-8", "surrogatepass"))
        arguments = values[0] if values and not damaged else arguments
    name = as_text(part.get("toolName")) or as_text(part.get("name")) or "tool"
    call = ParsedToolCall(
        name,
        input=json_text(arguments) if arguments is not None else None,
        call_id=as_text(part.get("toolCallId")) or as_text(part.get("id")) or None,
    )
    call.edits = edit_of_call(name, as_dict(arguments))
    return call


def _result_text(result: Any) -> str:
    if isinstance(result, str):
        return clean(result)
    if isinstance(result, dict) and isinstance(result.get("value"), str):
        return clean(result["value"])
    if isinstance(result, list):
        texts = [as_dict(part).get("text") for part in result]
        if texts and all(isinstance(text, str) for text in texts):
            return clean("\n".join(str(text) for text in texts))
    return "" if result is None else json_text(result)


def _attachment(part: dict[str, Any]) -> Attachment:
    media_type = as_text(part.get("mimeType")) or as_text(part.get("mediaType")) or None
    name = as_text(part.get("filename"))
    data = part.get("image", part.get("data"))
    content: bytes | None = None
    if isinstance(data, str) and len(data) < _MAX_IMAGE:
        if data.startswith("data:"):
            data = data.partition(",")[2]
        if data.startswith(("http://", "https://", "file:")):
            name = name or clean(data)[:2_000]
        else:
            try:
                content = base64.b64decode(data, validate=True) or None
            except (binascii.Error, ValueError):
                content = None
    kind = "image" if part.get("type") == "image" else "file"
    return Attachment(kind, name, media_type, content)


# --------------------------------------------------------------------------- transcripts


def _parse_transcript(path: Path, session_id: str, parent: str | None) -> Parsed:
    records = FileRecords(str(path))
    conversation = ParsedConversation(
        SOURCE,
        session_id,
        kind="subagent" if parent else "main",
        parent_session_id=parent,
        fidelity="partial",
    )
    builder = _Builder(conversation, records)
    for number, line in read_lines(path):
        values, damaged = decode(line)
        if damaged:
            records.records += 1
            records.malformed += 1
        for index, value in enumerate(values):
            name = f"{session_id}:{number}" if not index else f"{session_id}:{number}.{index}"
            records.records += 1
            if not isinstance(value, dict):
                records.malformed += 1
                continue
            message = value.get("message")
            if isinstance(value.get("role"), str) and isinstance(message, dict | str | list):
                content = message.get("content") if isinstance(message, dict) else message
                builder.add({"role": value["role"], "content": content}, name)
            elif value.get("type") == "error":
                text = _error_line(value)
                if text:
                    builder.add_error(text, name)
                    records.kept += 1
                else:
                    records.ignored += 1
            elif value.get("type") == "turn_ended":
                records.ignored += 1
            else:
                kind = value.get("type", value.get("role"))
                names = ", ".join(sorted(clean(key)[:40] for key in value)[:30])
                records.add_unknown(f"line {number + 1}", f"{kind!r:.60}", names)
    builder.finish()
    conversation.cwd = conversation.project_path = builder.folder
    has_words = any(message.kind != "error" for message in conversation.messages)
    return Parsed([conversation] if has_words else [], [records])


def _error_line(value: dict[str, Any]) -> str:
    for key in ("message", "error"):
        inner = value.get(key)
        if isinstance(inner, dict):
            inner = inner.get("message")
        if isinstance(inner, str) and inner.strip():
            return clean(inner)
    return first_line(as_text(value.get("text")), 2_000)


@hookimpl
def register_adapters(register: Any) -> None:
    register(CursorCliAdapter())
