"""Codex CLI, its editor extension and its desktop app: threads as rollout files below
``~/.codex``.

Other tools write the same files elsewhere; :class:`RolloutSource` reads them under any name.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..hookspecs import hookimpl
from ..model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Messages,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Unreadable,
)
from ..text import iso_time, json_text
from . import Adapter
from .codex_index import Thread, read_names, read_prompts, read_state, state_database
from .codex_rollout import Reading, RolloutReader
from .jsonl import regular_files

_ROLLOUT = re.compile(
    r"rollout-(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)-"
    r"(?P<thread>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
    r"(?:_(?P<revision>[^.]*))?"
)


@dataclass(frozen=True)
class Rollout:
    """A rollout file as its name and ``stat`` tell."""

    file: SourceFile
    thread_id: str
    order: tuple[str, str]
    archived: bool
    stem: str
    compressed: bool


@dataclass(frozen=True)
class Hints:
    """What :meth:`RolloutSource.scan` knows and parsing needs. ``files`` are the rollouts of the
    thread, oldest first, with a short name for each; ``prompts`` those of a thread whose rollout
    is gone."""

    thread_id: str
    files: tuple[tuple[str, str], ...] = ()
    live: str = ""
    title: str | None = None
    archived: bool = False
    parent: str | None = None
    prompts: tuple[tuple[str | None, str], ...] = ()


class RolloutSource:
    """An adapter for a tool that writes Codex rollouts. ``homes`` gives the directories that hold
    ``sessions`` and ``archived_sessions`` (or are such a directory), for an environment."""

    parser_version = 1
    places = ""

    def __init__(
        self,
        name: str,
        display_name: str,
        homes: Callable[[Environment], list[Path]],
        state_home: Callable[[Environment], Path | None] = lambda env: None,
    ) -> None:
        self.name = name
        self.display_name = display_name
        self._homes = homes
        self._state_home = state_home

    def detect(self, env: Environment) -> SourceInfo | None:
        """Which directories of the tool are there, and how many threads they hold."""
        roots: list[Path] = []
        threads: set[str] = set()
        times: list[int] = []
        unreadable: list[Unreadable] = []
        for home in existing(self._homes(env)):
            problems: list[OSError] = []
            rollouts = list(find_rollouts(home, problems))
            traces = rollouts or problems or (home / "history.jsonl").is_file()
            if not traces and not (home / "sessions").is_dir():
                continue
            roots.append(home)
            threads.update(rollout.thread_id for rollout in rollouts)
            times += [rollout.file.mtime_ns for rollout in rollouts]
            unreadable += [_unreadable(problem, home) for problem in problems]
        if not roots:
            return None
        return SourceInfo(
            self.name,
            roots,
            len(threads),
            iso_time(min(times) / 1e9) if times else None,
            iso_time(max(times) / 1e9) if times else None,
            unreadable,
        )

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        """Every thread that has a rollout, then those of which only the prompts are left."""
        threads: dict[str, list[Rollout]] = {}
        index: dict[str, Thread] = {}
        histories: list[tuple[Path, Path]] = []
        for home in existing(self._homes(env)):
            problems: list[OSError] = []
            for rollout in find_rollouts(home, problems):
                threads.setdefault(rollout.thread_id, []).append(rollout)
            for problem in problems:
                found = _unreadable(problem, home)
                yield ScanProblem(self.name, found.path, found.reason, str(home))
            for thread_id, thread in self._read_index(env, home, problems := []).items():
                index.setdefault(thread_id, thread)
            for problem in problems:
                found = _unreadable(problem, home)
                yield ScanProblem(self.name, found.path, found.reason)
            history = home / "history.jsonl"
            if history.is_file():
                histories.append((history, home))
        for thread_id, rollouts in threads.items():
            yield self._meta(thread_id, rollouts, index.get(thread_id, Thread()))
        for history, home in histories:
            yield from self._prompt_histories(history, home, threads, index)

    def _read_index(
        self, env: Environment, home: Path, problems: list[OSError]
    ) -> dict[str, Thread]:
        index: dict[str, Thread] = {}
        database = state_database(self._state_home(env), home)
        if database is not None:
            try:
                index = read_state(database)
            except (OSError, sqlite3.Error) as error:
                problems.append(OSError(0, f"thread index: {error}", str(database)))
        names = home / "session_index.jsonl"
        if names.is_file():
            try:
                for thread_id, name in read_names(names).items():
                    thread = index.setdefault(thread_id, Thread())
                    thread.title = thread.title or name
            except OSError as error:
                problems.append(error)
        return index

    def _meta(self, thread_id: str, rollouts: list[Rollout], thread: Thread) -> ConversationMeta:
        chosen = without_copies(rollouts)
        live = chosen[-1]
        for rollout in chosen:
            if thread.live_file and thread.live_file.startswith(rollout.stem + ".jsonl"):
                live = rollout
        archived = live.archived or thread.archived
        files = tuple(
            (rollout.file.path, rollout.order[1] or rollout.order[0]) for rollout in chosen
        )
        hints = Hints(thread_id, files, live.file.path, thread.title, archived, thread.parent)
        marker = json_text(
            [thread.title, live.stem if len(chosen) > 1 else "", archived, thread.parent]
        )
        others = tuple(rollout.file for rollout in chosen if rollout is not live)
        return ConversationMeta(self.name, thread_id, (live.file, *others), marker, hints)

    def _prompt_histories(
        self,
        history: Path,
        home: Path,
        threads: dict[str, list[Rollout]],
        index: dict[str, Thread],
    ) -> Iterator[ConversationMeta | ScanProblem]:
        try:
            file = SourceFile.at(history, home)
            sessions = read_prompts(history, threads)
        except OSError as error:
            yield ScanProblem(self.name, str(history), str(error))
            return
        for session_id, prompts in sessions.items():
            threads[session_id] = []  # a second home may have the same history
            title = index.get(session_id, Thread()).title
            yield ConversationMeta(
                self.name,
                session_id,
                (replace(file, part=session_id),),
                json_text([title, len(prompts), prompts[-1][0]]),
                Hints(session_id, title=title, prompts=tuple(prompts)),
            )

    def parse(self, meta: ConversationMeta) -> Parsed:
        """Reads a thread: one file, or several when the user went back to an earlier prompt."""
        hints = meta.hints
        if not isinstance(hints, Hints):
            hints = Hints(meta.session_id, tuple((file.path, file.path) for file in meta.files))
        if hints.prompts:
            return _parse_prompts(self.name, hints, meta.files[0])
        readings: list[Reading] = []
        names: list[str] = []
        failed: list[FileRecords] = []
        live = 0
        for path, name in hints.files:
            rewound = "_" in Path(path).name.removeprefix("rollout-")
            try:
                reader = RolloutReader(self.name, path, hints.thread_id, rewound=rewound)
                reading = reader.read()
            except OSError as error:
                if path == hints.live or len(hints.files) == 1:
                    raise
                failed.append(FileRecords(path, message=f"cannot be read: {error}"))
                continue
            if path == hints.live:
                live = len(readings)
            readings.append(reading)
            names.append(name)
        reading = readings[live]
        conversation = reading.conversation
        if len(readings) > 1:
            merge_rewound(readings, live, names)
        if hints.title:
            conversation.title, conversation.title_origin = hints.title, "tool"
        conversation.archived = hints.archived
        if hints.parent and conversation.parent_session_id is None and conversation.kind == "main":
            conversation.kind, conversation.parent_session_id = "subagent", hints.parent
        files = [item.records for item in readings] + failed
        if not len(conversation.messages) and not reading.has_meta:
            return Parsed([], files)
        return Parsed([conversation], files)


class Codex(RolloutSource):
    """``$CODEX_HOME`` or ``~/.codex``; the thread index may lie in ``$CODEX_SQLITE_HOME``."""

    places = "~/.codex, $CODEX_HOME"

    def __init__(self) -> None:
        super().__init__(
            "codex",
            "Codex CLI",
            lambda env: [
                env.directory_variable("CODEX_HOME") or env.home / ".codex",
                *env.roots.get("codex", ()),
            ],
            lambda env: env.directory_variable("CODEX_SQLITE_HOME"),
        )


@hookimpl
def register_adapters(register: Callable[[Adapter], None]) -> None:
    """Registers the adapter for Codex."""
    register(Codex())


# --------------------------------------------------------------------------- files


def existing(homes: list[Path]) -> list[Path]:
    """The directories of ``homes`` that are there, each once."""
    found: list[Path] = []
    seen: set[str] = set()
    for home in homes:
        try:
            key = os.path.realpath(home)
            if key not in seen and home.is_dir():
                seen.add(key)
                found.append(home)
        except OSError:
            continue
    return found


def find_rollouts(home: Path, problems: list[OSError]) -> Iterator[Rollout]:
    """The rollout files of one home; of a directory without ``sessions`` and
    ``archived_sessions``, those anywhere below it."""
    places = [
        (home / "sessions", False),
        (home / "archived_sessions", True),
    ]
    places = [place for place in places if place[0].is_dir()]
    if not places:
        if (home / "history.jsonl").exists() or (home / "config.toml").exists():
            return
        places = [(home, home.name == "archived_sessions")]
    for directory, archived in places:
        for entry in regular_files(directory, problems=problems):
            rollout = _rollout(entry, home, archived)
            if rollout is not None:
                yield rollout


def _rollout(entry: os.DirEntry[str], home: Path, archived: bool) -> Rollout | None:
    name = entry.name
    if not name.startswith("rollout-"):
        return None
    compressed = name.endswith(".jsonl.zst")
    if not compressed and not name.endswith(".jsonl"):
        return None
    stem = name[: -len(".jsonl.zst" if compressed else ".jsonl")]
    match = _ROLLOUT.fullmatch(stem)
    if match:
        thread_id = match["thread"].lower()
        order = (match["time"], match["revision"] or "")
    else:
        thread_id, order = stem.removeprefix("rollout-") or stem, (stem, "")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    file = SourceFile(entry.path, str(home), status.st_size, status.st_mtime_ns)
    return Rollout(file, thread_id, order, archived, stem, compressed)


def without_copies(rollouts: list[Rollout]) -> list[Rollout]:
    """The files of one thread, oldest first. Of a file that is there twice - while Codex compresses
    or archives it, or in two homes - the plain one that is not archived."""
    best: dict[str, Rollout] = {}
    for rollout in rollouts:
        other = best.get(rollout.stem)
        if other is None or (rollout.compressed, rollout.archived) < (
            other.compressed,
            other.archived,
        ):
            best[rollout.stem] = rollout
    return sorted(best.values(), key=lambda rollout: rollout.order)


def _unreadable(error: OSError, home: Path) -> Unreadable:
    return Unreadable(str(error.filename or home), error.strerror or str(error))


# --------------------------------------------------------------------------- threads


def _parse_prompts(source: str, hints: Hints, file: SourceFile) -> Parsed:
    """A thread of which only ``history.jsonl`` still knows."""
    conversation = ParsedConversation(
        source,
        hints.thread_id,
        "prompt-history",
        hints.title,
        "tool" if hints.title else None,
        fidelity="partial",
    )
    for number, (time, text) in enumerate(hints.prompts):
        kind = (
            "shell" if text[:1] == "!" and len(text) > 1 and text[1] not in " \n![=" else "prompt"
        )
        conversation.messages.append(
            ParsedMessage(f"history-{number}", "user", kind, text, timestamp=time, record=number)
        )
    total = len(hints.prompts)
    return Parsed([conversation], [FileRecords(file.path, file.part, total, total)])


def merge_rewound(readings: list[Reading], live: int, names: list[str]) -> None:
    """When the user goes back to an earlier prompt, Codex (0.160 on) starts another file of the
    same thread. All become one conversation, that of the live file; what it left is a branch that
    the user abandoned. The live file refers by ``history_base`` to the records of the older one that
    are still valid; if it does not, it may hold a copy of them.

    ``readings`` are in the order in which the files were begun; ``names`` tell them apart.
    """
    conversation = readings[live].conversation
    limits = _valid_until(readings, live)
    others = [index for index in range(len(readings)) if index != live]
    copies = 0
    if readings[live].base is None:
        copies = max(
            _common_start(readings[index].conversation.messages, conversation.messages)
            for index in others
        )
    merged = Messages()
    taken: set[str] = set()

    def add(index: int, message: ParsedMessage) -> None:
        if not message.shared_uid and index:
            message.uid = f"{names[index]}:{message.uid}"
        if message.uid not in taken:
            taken.add(message.uid)
            merged.append(message)
            merged.grew(
                sum(len(call.input or "") + len(call.output or "") for call in message.tool_calls)
            )

    def add_others(indexes: list[int], skip: int) -> None:
        for index in indexes:
            limit = limits[index] or 0
            for number, message in enumerate(readings[index].conversation.messages):
                if number < skip or (skip and message.uid in live_uids):
                    continue
                if (message.record or 0) >= limit and message.state == "active":
                    message.state = "abandoned"
                add(index, message)

    live_uids: set[str] = set()
    if copies:
        live_uids = {m.uid for m in conversation.messages if m.shared_uid}
    else:
        add_others([index for index in others if index < live], 0)
    for number, message in enumerate(conversation.messages):
        if copies and number == copies:
            add_others(others, copies)
        add(live, message)
    if copies >= len(conversation.messages) > 0:
        add_others(others, copies)
    elif not copies:
        add_others([index for index in others if index > live], 0)
    for index in others:
        started = readings[index].conversation.started_at
        if started and (conversation.started_at is None or started < conversation.started_at):
            conversation.started_at = started
    conversation.messages = merged


def _valid_until(readings: list[Reading], live: int) -> list[int | None]:
    """For each file the ordinal before which its records are still valid (None: all of them)."""
    limits: list[int | None] = [0] * len(readings)
    limits[live] = None
    thread_id = readings[live].conversation.session_id
    base = readings[live].base
    index = live
    end: int | None = None
    while base is not None and base[0] == thread_id and index > 0:
        end = base[1] if end is None else min(end, base[1])
        index -= 1
        limits[index] = end
        base = readings[index].base
    return limits


def _common_start(messages: Messages, others: Messages) -> int:
    """How many messages at the start are the same in both."""
    number = 0
    for message, other in zip(messages, others, strict=False):
        if (message.role, message.kind, message.content) != (other.role, other.kind, other.content):
            break
        number += 1
    return number
