"""Checks any adapter against the contract that docs/adapters.md explains.

``check_adapter(adapter, home)`` takes a home directory with some conversations of the tool - a small
fixture of yours - and raises :class:`AssertionError` with one plain sentence about the first rule
that the adapter breaks::

    from datasette_crystal.testing import check_adapter, make_home

    def test_adapter(tmp_path):
        env = make_home(tmp_path, {".notetaker/chats/1.json": {"title": "Hello", "notes": []}})
        check_adapter(NoteTaker(), env)

It reads the home as the importer would, reads it again in another order and at another place, and
reads copies in which files were cut, emptied, filled with garbage or taken away.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn

from .adapters import Adapter
from .model import (
    CALL_STATUSES,
    CONVERSATION_KINDS,
    EDIT_ACTIONS,
    FIDELITIES,
    MESSAGE_KINDS,
    MODEL_KINDS,
    PERSON_KINDS,
    ROLES,
    STATES,
    TITLE_ORIGINS,
    Attachment,
    ConversationMeta,
    Environment,
    FileEdit,
    FileRecords,
    Messages,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Tokens,
    Unreadable,
)
from .text import iso_time

__all__ = ["check_adapter", "make_home"]

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def make_home(
    directory: Path | str, files: Mapping[str, Any], *, variables: Mapping[str, str] | None = None
) -> Environment:
    """Writes ``files`` below ``directory`` and returns the environment of that home. A file is
    given by its path with ``/`` and its content: ``str`` or ``bytes`` as they are, a ``list`` as
    JSON Lines (a ``str`` in it is a line as it is), anything else as one JSON document."""
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            data = content
        elif isinstance(content, str):
            data = content.encode()
        elif isinstance(content, list):
            lines = (
                line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
                for line in content
            )
            data = "".join(line + "\n" for line in lines).encode()
        else:
            data = json.dumps(content, ensure_ascii=False).encode()
        path.write_bytes(data)
    return Environment(home, sys.platform, dict(variables or {}), {})


def check_adapter(
    adapter: Adapter,
    env_or_home: Environment | Path | str,
    *,
    damage: bool = True,
    seed: int = 1,
    max_files: int = 12,
) -> None:
    """Raises :class:`AssertionError` when ``adapter`` breaks a rule on the home directory.

    ``damage=False`` leaves out the damaged copies, which take most of the time; at most
    ``max_files`` files are damaged, chosen by ``seed``. Nothing is written to the home.
    """
    env = env_or_home
    if not isinstance(env, Environment):
        env = Environment.for_home(Path(env))
    if not isinstance(adapter, Adapter):
        _fail(
            adapter,
            "is no adapter: it needs name, display_name, parser_version, detect, scan and parse",
        )
    check = _Check(adapter)
    check.names()
    before = _tree(env)
    info = check.detected(env)
    if info is None:
        check.fail("detect() finds nothing in the home that the kit was given")
    check.empty_home()
    metas = check.scanned(env, info)
    readings = [check.parsed(meta) for meta in metas]
    if not any(len(conversation.messages) for conversation in _conversations(readings)):
        check.fail("no message was found in the home: the kit would prove nothing")
    check.unchanged(before, _tree(env), "reading the home")
    check.same_again(env, metas, readings)
    check.unchanged(before, _tree(env), "reading the home")
    check.elsewhere(env, readings)
    if damage:
        check.damaged(env, seed, max_files)
    check.unchanged(before, _tree(env), "reading the home")


def _fail(adapter: object, message: str) -> NoReturn:
    name = getattr(adapter, "name", None) or type(adapter).__name__
    raise AssertionError(f"{name}: {message}")


def _conversations(readings: list[Parsed]) -> Iterator[ParsedConversation]:
    for reading in readings:
        yield from reading.conversations


class _Check:
    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        #: What is done to the files at the moment, for messages.
        self.state = ""

    def fail(self, message: str) -> NoReturn:
        _fail(self.adapter, message + (f" ({self.state})" if self.state else ""))

    def must(self, condition: object, message: str) -> None:
        if not condition:
            self.fail(message)

    def one_of(self, value: object, allowed: tuple[str, ...], what: str) -> None:
        if value not in allowed:
            self.fail(f"{what} {value!r} is none of {', '.join(allowed)}")

    def time(self, value: object, what: str) -> None:
        if value is not None and (not isinstance(value, str) or iso_time(value) != value):
            self.fail(f"{what} {value!r} is not as text.iso_time() gives it")

    def text(self, value: object, what: str, *, optional: bool = True) -> None:
        if value is None and optional:
            return
        if not isinstance(value, str):
            self.fail(f"{what} is {type(value).__name__}, not text")

    def number(self, value: object, what: str) -> None:
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63
        ):
            self.fail(f"{what} {value!r} is no count")

    # .. what the adapter says of itself

    def names(self) -> None:
        name = self.adapter.name
        self.must(
            isinstance(name, str) and _NAME.fullmatch(name),
            f"name {name!r} must be lower-case letters, digits and single hyphens",
        )
        display = self.adapter.display_name
        self.must(isinstance(display, str) and display.strip(), "display_name is empty")
        version = self.adapter.parser_version
        self.must(
            isinstance(version, int) and not isinstance(version, bool) and version > 0,
            f"parser_version {version!r} is no positive whole number",
        )

    # .. detect and scan

    def detected(self, env: Environment) -> SourceInfo | None:
        try:
            info = self.adapter.detect(env)
        except Exception as error:
            raise AssertionError(self._raised("detect()", error)) from error
        if info is None:
            return None
        self.must(isinstance(info, SourceInfo), "detect() gives neither a SourceInfo nor None")
        self.must(
            info.source == self.adapter.name,
            f"detect() says source {info.source!r}, the adapter's name is {self.adapter.name!r}",
        )
        self.must(
            info.roots and all(isinstance(root, Path) for root in info.roots),
            "detect() gives no roots, or such that are no Path",
        )
        self.number(info.conversations, "detect(): conversations")
        self.time(info.oldest, "detect(): oldest")
        self.time(info.newest, "detect(): newest")
        for item in info.unreadable:
            self.must(
                isinstance(item, Unreadable) and item.path and item.reason,
                "detect(): unreadable needs Unreadable(path, reason)",
            )
        for warning in info.warnings:
            self.text(warning, "detect(): a warning", optional=False)
        return info

    def empty_home(self) -> None:
        with tempfile.TemporaryDirectory(prefix="datasette-crystal-") as directory:
            env = Environment.for_home(Path(directory))
            if self.detected(env) is not None:
                self.fail("detect() finds something in an empty home; it must give None")
            if next(iter(self._scan(env)), None) is not None:
                self.fail("scan() finds something in an empty home")
            if os.listdir(directory):
                self.fail("the adapter wrote into an empty home")

    def _scan(self, env: Environment) -> list[ConversationMeta | ScanProblem]:
        try:
            return list(self.adapter.scan(env))
        except Exception as error:
            raise AssertionError(self._raised("scan()", error)) from error

    def _raised(self, what: str, error: BaseException) -> str:
        where = f" ({self.state})" if self.state else ""
        return (
            f"{self.adapter.name}: {what} raised {type(error).__name__}: {error}{where}; "
            "what cannot be read belongs into ScanProblem, SourceInfo.unreadable or FileRecords"
        )

    def scanned(self, env: Environment, info: SourceInfo | None) -> list[ConversationMeta]:
        with _opened() as opened:
            found = self._scan(env)
        roots = {os.fspath(root) for root in info.roots} if info else set()
        metas: list[ConversationMeta] = []
        seen: set[tuple[str, str]] = set()
        ids: set[str] = set()
        for item in found:
            if isinstance(item, ScanProblem):
                self.must(item.reason, "scan(): a ScanProblem without a reason")
                self.must(
                    item.source == self.adapter.name,
                    f"scan(): a ScanProblem says source {item.source!r}",
                )
                continue
            self.must(
                isinstance(item, ConversationMeta),
                f"scan() gives {type(item).__name__}, not ConversationMeta or ScanProblem",
            )
            self.must(
                item.source == self.adapter.name,
                f"scan() says source {item.source!r}, the adapter's name is {self.adapter.name!r}",
            )
            self.text(item.session_id, "scan(): session_id", optional=False)
            self.must(item.session_id, "scan(): an empty session_id")
            self.must(item.session_id not in ids, f"scan() gives session {item.session_id!r} twice")
            ids.add(item.session_id)
            self.text(item.marker, "scan(): marker", optional=False)
            self.must(
                isinstance(item.files, tuple) and item.files,
                f"scan(): session {item.session_id!r} has no tuple of files",
            )
            for file in item.files:
                self._file(file, roots)
                key = (file.path, file.part)
                self.must(key not in seen, f"scan() gives {file.path} {file.part!r} twice")
                seen.add(key)
                self.must(
                    not file.part or item.marker,
                    f"scan(): {file.part!r} is a part of {file.path} and needs a marker: size and "
                    "mtime of the file say nothing about one conversation in it",
                )
            metas.append(item)
        for meta in metas:
            for file in meta.files:
                if not file.part and os.path.realpath(file.path) in opened:
                    self.fail(f"scan() opens {file.path}: stat is enough, reading is for parse()")
        for meta in metas:
            try:
                pickle.loads(pickle.dumps(meta))
            except Exception as error:
                self.fail(f"the meta of {meta.session_id!r} cannot be pickled: {error}")
        return metas

    def _file(self, file: object, roots: set[str]) -> None:
        if not isinstance(file, SourceFile):
            self.fail("scan(): files must be SourceFile")
        self.must(file.root in roots, f"scan(): root {file.root!r} is not one of detect().roots")
        self.must(
            file.path == file.root or Path(file.root) in Path(file.path).parents,
            f"scan(): {file.path} does not lie in its root {file.root}",
        )
        try:
            status = os.stat(file.path)
        except OSError:
            self.fail(f"scan(): {file.path} is not there")
        self.must(
            (file.size, file.mtime_ns) == (status.st_size, status.st_mtime_ns),
            f"scan(): size and mtime_ns of {file.path} are not those of the file",
        )

    # .. parse

    def parsed(self, meta: ConversationMeta, *, may_raise: bool = False) -> Parsed:
        what = f"parse({meta.session_id!r})"
        try:
            parsed = self.adapter.parse(meta)
            for conversation in getattr(parsed, "conversations", ()):
                for _ in conversation.messages:
                    pass
        except (OSError, ValueError) as error:
            if may_raise:
                return Parsed([])
            raise AssertionError(self._raised(what, error)) from error
        except Exception as error:
            raise AssertionError(
                f"{self.adapter.name}: {what} raised {type(error).__name__}: {error} "
                f"({self.state or 'on the home as it is'}); only OSError and ValueError may leave it"
            ) from error
        self.must(isinstance(parsed, Parsed), f"{what} does not give a Parsed")
        for conversation in parsed.conversations:
            self._conversation(conversation, meta)
        paths = {file.path for file in meta.files}
        told = set()
        for records in parsed.files:
            self._records(records)
            told.add(records.path)
        if parsed.conversations:
            self.must(
                paths & told,
                f"{what} does not account for the records of {meta.files[0].path}",
            )
        return parsed

    def _records(self, records: object) -> None:
        if not isinstance(records, FileRecords):
            self.fail("parse(): files must be FileRecords")
        counts = (records.kept, records.ignored, records.unknown, records.malformed)
        for number in (records.records, *counts):
            self.number(number, f"records of {records.path}: count")
        self.must(
            records.records == sum(counts),
            f"records of {records.path}: {records.records} records are not kept {records.kept} + "
            f"ignored {records.ignored} + unknown {records.unknown} + malformed {records.malformed}",
        )
        self.must(
            len(records.samples) <= records.unknown,
            f"records of {records.path}: more samples than unknown records",
        )
        self.must(
            records.samples or not records.unknown,
            f"records of {records.path}: unknown records without a sample: use add_unknown()",
        )
        self.text(records.message, f"records of {records.path}: message")

    def _conversation(self, conversation: object, meta: ConversationMeta) -> None:
        if not isinstance(conversation, ParsedConversation):
            self.fail("parse(): conversations must be ParsedConversation")
        self.must(
            conversation.source == self.adapter.name,
            f"parse() says source {conversation.source!r}, the adapter's name is "
            f"{self.adapter.name!r}",
        )
        self.text(conversation.session_id, "session_id", optional=False)
        self.must(conversation.session_id, "a conversation without session_id")
        where = f"conversation {conversation.session_id!r}: "
        self.one_of(conversation.kind, CONVERSATION_KINDS, where + "kind")
        self.one_of(conversation.fidelity, FIDELITIES, where + "fidelity")
        if conversation.title is not None:
            self.one_of(conversation.title_origin, TITLE_ORIGINS, where + "title_origin")
        for field in (
            "title",
            "parent_session_id",
            "project_path",
            "cwd",
            "git_branch",
            "git_remote",
            "model",
            "tool_version",
        ):
            self.text(getattr(conversation, field), where + field)
        self.must(
            conversation.parent_session_id != conversation.session_id,
            where + "it is its own parent",
        )
        self.time(conversation.started_at, where + "started_at")
        self.time(conversation.ended_at, where + "ended_at")
        if conversation.started_at and conversation.ended_at:
            self.must(
                conversation.started_at <= conversation.ended_at,
                where + "it ends before it starts",
            )
        cost = conversation.cost_usd
        self.must(
            cost is None or (isinstance(cost, int | float) and 0 <= cost < 1e9),
            f"{where}cost_usd {cost!r} is no price",
        )
        self.must(
            isinstance(conversation.messages, Messages), where + "messages must be model.Messages"
        )
        uids: set[str] = set()
        for message in conversation.messages:
            if not isinstance(message, ParsedMessage):
                self.fail(where + "its messages must be ParsedMessage")
            self._message(message, where)
            self.must(message.uid not in uids, f"{where}uid {message.uid!r} is there twice")
            uids.add(message.uid)
            self.must(
                not message.inherited or conversation.parent_session_id,
                where + "an inherited message, but no parent_session_id",
            )

    def _message(self, message: ParsedMessage, where: str) -> None:
        self.text(message.uid, where + "uid", optional=False)
        self.must(message.uid, where + "a message without uid")
        where += f"message {message.uid!r}: "
        self.one_of(message.kind, MESSAGE_KINDS, where + "kind")
        self.one_of(message.role, ROLES, where + "role")
        self.one_of(message.state, STATES, where + "state")
        if message.kind in PERSON_KINDS:
            self.must(message.role == "user", f"{where}a {message.kind} needs role user")
        if message.kind in MODEL_KINDS:
            self.must(message.role == "assistant", f"{where}a {message.kind} needs role assistant")
        self.text(message.content, where + "content", optional=False)
        for field in ("thinking", "model", "vote"):
            self.text(getattr(message, field), where + field)
        self.time(message.timestamp, where + "timestamp")
        self.number(message.record, where + "record")
        if message.tokens is not None:
            self.must(isinstance(message.tokens, Tokens), where + "tokens must be Tokens")
            for field in ("input", "output", "cache_read", "cache_write", "reasoning"):
                self.number(getattr(message.tokens, field), f"{where}{field} tokens")
        for call in message.tool_calls:
            self._call(call, where)
        for attachment in message.attachments:
            self.must(
                isinstance(attachment, Attachment) and attachment.kind,
                where + "an attachment needs a kind",
            )
            self.text(attachment.name, where + "attachment name", optional=False)
            self.must(
                attachment.content is None or isinstance(attachment.content, bytes),
                where + "the content of an attachment must be bytes",
            )

    def _call(self, call: object, where: str) -> None:
        if not isinstance(call, ParsedToolCall):
            self.fail(where + "tool_calls must be ParsedToolCall")
        where += f"call of {call.name!r}: "
        self.text(call.name, where + "name", optional=False)
        self.must(call.name, where + "it has no name")
        self.one_of(call.status, CALL_STATUSES, where + "status")
        if call.input is not None:
            self.text(call.input, where + "input")
            try:
                json.loads(call.input.encode())
            except (ValueError, RecursionError):
                self.fail(where + "input is not JSON: use text.json_text()")
        for field in ("output", "call_id", "title", "subagent_session_id"):
            self.text(getattr(call, field), where + field)
        self.must(
            call.exit_code is None or type(call.exit_code) is int,
            f"{where}exit_code {call.exit_code!r} is no number",
        )
        self.time(call.started_at, where + "started_at")
        self.number(call.duration_ms, where + "duration_ms")
        for edit in call.edits:
            if not isinstance(edit, FileEdit):
                self.fail(where + "edits must be FileEdit")
            self.text(edit.path, where + "path of an edit", optional=False)
            self.must(edit.path, where + "an edit without path")
            self.one_of(edit.action, EDIT_ACTIONS, where + "action of an edit")
            self.number(edit.lines_added, where + "lines_added")
            self.number(edit.lines_removed, where + "lines_removed")
            self.text(edit.diff, where + "diff")

    # .. the same again

    def same_again(
        self, env: Environment, metas: list[ConversationMeta], readings: list[Parsed]
    ) -> None:
        """Scanning and parsing once more gives the same: after close(), in another order, and
        from metas that crossed a process border."""
        close = getattr(self.adapter, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:
                raise AssertionError(self._raised("close()", error)) from error
        again = self.scanned(env, self.detected(env))
        if [_identity(meta) for meta in again] != [_identity(meta) for meta in metas]:
            self.fail("a second scan() gives something else than the first")
        for meta, reading in reversed(list(zip(metas, readings, strict=True))):
            travelled = pickle.loads(pickle.dumps(meta))
            difference = _difference(_plain(reading), _plain(self.parsed(travelled)))
            if difference:
                self.fail(f"a second parse({meta.session_id!r}) gives something else: {difference}")

    def elsewhere(self, env: Environment, readings: list[Parsed]) -> None:
        """Ids do not depend on where the home lies: a copy on another machine is the same."""
        with _copy(env) as other:
            metas = self.scanned(other, self.detected(other))
            moved = [self.parsed(meta) for meta in metas]
        expected = _ids(readings)
        found = _ids(moved)
        for session, uids in expected.items():
            if session not in found:
                self.fail(f"session_id {session!r} is not stable: a copy of the home has another")
            if found[session] != uids:
                self.fail(f"the uids of {session!r} are not stable: a copy of the home has others")

    def unchanged(self, before: _Tree, after: _Tree, doing: str) -> None:
        for path in sorted(before.keys() | after.keys()):
            if path not in before:
                self.fail(f"{doing} left a new file in the source: {path}")
            if path not in after:
                self.fail(f"{doing} removed a file of the source: {path}")
            if before[path] != after[path]:
                what = "content" if before[path][2] != after[path][2] else "mtime or size"
                self.fail(f"{doing} changed the {what} of {path}")

    # .. damage

    def damaged(self, env: Environment, seed: int, max_files: int) -> None:
        """Reads copies of the home with one damaged file each."""
        chance = random.Random(seed)
        with _copy(env) as other:
            metas = self.scanned(other, self.detected(other))
            paths = sorted({file.path for meta in metas for file in meta.files})
            if len(paths) > max_files:
                paths = sorted(chance.sample(paths, max_files))
            for path in paths:
                content = Path(path).read_bytes()
                times = os.stat(path)
                for name, broken in _damages(content, chance):
                    self.state = f"{os.path.basename(path)} {name}"
                    if broken is None:
                        # it goes away between scan() and parse()
                        old = [meta for meta in metas if path in _paths(meta)]
                        os.unlink(path)
                        self._read_damaged(other, old)
                    else:
                        Path(path).write_bytes(broken)
                    self._read_damaged(other, None, path)
                    Path(path).write_bytes(content)
                    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
                self.state = ""

    def _read_damaged(
        self, env: Environment, metas: list[ConversationMeta] | None, path: str = ""
    ) -> None:
        before = _tree(env)
        if metas is None:
            info = self.detected(env)
            metas = self.scanned(env, info) if info else self._scanned_nothing(env)
            metas = [meta for meta in metas if path in _paths(meta)]
        for meta in metas:
            self.parsed(meta, may_raise=True)
        close = getattr(self.adapter, "close", None)
        if close is not None:
            close()
        self.unchanged(before, _tree(env), "reading a damaged home")

    def _scanned_nothing(self, env: Environment) -> list[ConversationMeta]:
        if any(isinstance(item, ConversationMeta) for item in self._scan(env)):
            self.fail("scan() finds conversations where detect() finds nothing")
        return []


# ------------------------------------------------------------------------------------- helpers


def _paths(meta: ConversationMeta) -> set[str]:
    return {file.path for file in meta.files}


def _damages(content: bytes, chance: random.Random) -> Iterator[tuple[str, bytes | None]]:
    """What may happen to a file: (what, its content then; ``None`` is a file that is gone)."""
    size = len(content)
    yield "is gone", None
    yield "is empty", b""
    for _ in range(3):
        place = chance.randrange(size) if size else 0
        yield f"is cut off after {place} bytes", content[:place]
    yield "begins in the middle", content[size // 3 :]
    yield "is garbage", bytes(chance.randrange(256) for _ in range(2000))
    for count in (1, 4000):
        place = chance.randrange(size) if size else 0
        yield f"has {count} NUL bytes at {place}", content[:place] + b"\0" * count + content[place:]
    spoiled = bytearray(content)
    for _ in range(min(size, 40)):
        spoiled[chance.randrange(size)] = chance.randrange(256)
    yield "has 40 wrong bytes", bytes(spoiled)
    yield "is a deep nesting", b"[" * 100_000
    odd = b'null\n[]\n7\n"text"\n{}\n{"type":null}\n{"type":7,"id":[],"message":"?"}\n'
    yield "holds odd JSON", odd
    yield "has odd JSON behind it", content + b"\n" + odd
    for text in ("null", "7", "[]", "{}", '"text"'):
        yield f"is the JSON {text}", text.encode()
    for share in (0.02, 0.2, 0.2, 0.5):
        lines = [_odd_line(line, chance, share) for line in content.split(b"\n")]
        yield f"has other values in {share:.0%} of its places", b"\n".join(lines)
        if len(lines) > 1:
            yield (
                f"is one document, with other values in {share:.0%} of its places",
                _odd_line(content, chance, share),
            )


def _odd_line(line: bytes, chance: random.Random, share: float) -> bytes:
    """JSON in which some values were replaced by values of another kind; the line as it is where
    it is not JSON."""
    try:
        return json.dumps(_odd(json.loads(line), chance, share)).encode()
    except (ValueError, RecursionError):
        return line


#: What stands where something else is expected.
_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0.5,
    10**30,
    "",
    "\0",
    "\ud800",
    "2026-11-31T25:00:00Z",
    [],
    [[]],
    [None, 7, {}],
    {},
    {"type": "text", "text": 7},
)


def _odd(value: Any, chance: random.Random, share: float) -> Any:
    if chance.random() < share:
        return chance.choice(_ODD)
    if isinstance(value, list):
        return [_odd(item, chance, share) for item in value]
    if isinstance(value, dict):
        return {key: _odd(item, chance, share) for key, item in value.items()}
    return value


def _plain(value: Any) -> Any:
    """Dataclasses and messages as comparable values."""
    if isinstance(value, Messages):
        return [_plain(message) for message in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _difference(first: Any, second: Any, path: str = "") -> str:
    """Where two plain values differ, or an empty text."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        for key in first:
            found = _difference(first[key], second[key], f"{path}.{key}" if path else str(key))
            if found:
                return found
        return ""
    if isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            return f"{path} has {len(first)} items, then {len(second)}"
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            found = _difference(one, other, f"{path}[{index}]")
            if found:
                return found
        return ""
    return "" if first == second else f"{path} is {first!r:.80}, then {second!r:.80}"


def _identity(meta: ConversationMeta) -> tuple[Any, ...]:
    return (meta.source, meta.session_id, meta.files, meta.marker)


def _ids(readings: list[Parsed]) -> dict[str, list[str]]:
    return {
        conversation.session_id: [message.uid for message in conversation.messages]
        for conversation in _conversations(readings)
    }


_Tree = dict[str, tuple[int, int, str]]


def _tree(env: Environment) -> _Tree:
    """Every file below the home and the named roots: size, mtime and a hash of its bytes."""
    tree: _Tree = {}
    tops = [env.home, *(root for roots in env.roots.values() for root in roots)]
    for top in tops:
        for folder, folders, names in os.walk(top):
            for name in [*names, *folders]:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                if os.path.isdir(path) or os.path.islink(path):
                    tree[path] = (0, 0, "")
                    continue
                data = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                tree[path] = (status.st_size, status.st_mtime_ns, data)
    return tree


@contextmanager
def _copy(env: Environment) -> Iterator[Environment]:
    """A copy of the home at another place, with variables and roots that point into it."""
    with tempfile.TemporaryDirectory(prefix="datasette-crystal-") as directory:
        home = Path(directory) / "elsewhere"
        shutil.copytree(env.home, home, symlinks=True)
        old = os.fspath(env.home)

        def moved(text: str) -> str:
            return text.replace(old, os.fspath(home))

        roots: dict[str, tuple[Path, ...]] = {}
        for source, paths in env.roots.items():
            copies = []
            for number, path in enumerate(paths):
                target = Path(moved(os.fspath(path)))
                if target == path:
                    target = Path(directory) / f"root-{source}-{number}"
                    shutil.copytree(path, target, symlinks=True)
                copies.append(target)
            roots[source] = tuple(copies)
        variables = {name: moved(value) for name, value in env.variables.items()}
        yield Environment(home, env.platform, variables, roots)


_watchers: list[set[str]] = []
_watching: list[Callable[[str, Any], None]] = []


def _watch(event: str, arguments: Any) -> None:
    # An audit hook cannot be taken away again: it is set once and does nothing without a watcher.
    if event == "open" and _watchers:
        path = arguments[0]
        if isinstance(path, str | bytes | os.PathLike):
            name = os.path.realpath(os.fsdecode(path))
            for watcher in _watchers:
                watcher.add(name)


@contextmanager
def _opened() -> Iterator[set[str]]:
    """Collects the real paths of the files that Python opens meanwhile."""
    if not _watching:
        _watching.append(_watch)
        sys.addaudithook(_watch)
    paths: set[str] = set()
    _watchers.append(paths)
    try:
        yield paths
    finally:
        _watchers.remove(paths)
