"""Scan, skip what is unchanged, parse, store: batch by batch."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from . import __version__, usage
from .adapters import Adapter
from .model import (
    MODEL_KINDS,
    PERSON_KINDS,
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ParsedConversation,
    ScanProblem,
    SourceFile,
)
from .store import (
    KnownFile,
    Store,
    StoreError,
    close_at_rest,
    known_files,
    needs_finish,
    open_for_writing,
    open_readonly,
)
from .text import clean, first_line, iso_time, json_text

#: A batch is committed when it holds this much source text, or this many conversations.
BATCH_BYTES = 16_000_000
BATCH_CONVERSATIONS = 200
DEFAULT_MIN_MESSAGES = 2


@dataclass
class Options:
    """What to import. ``since`` is a day (``2026-11-30``) or an ISO time: files that were last
    written before it are left alone. ``full`` reads unchanged files again. ``min_messages``: skip
    conversations with fewer prompts and replies. ``machine`` is the name under which files and
    projects are kept."""

    sources: tuple[str, ...] = ()
    since: str | None = None
    full: bool = False
    min_messages: int = DEFAULT_MIN_MESSAGES
    machine: str = ""
    dry_run: bool = False


@dataclass
class SourceReport:
    """What an import did for one source. ``new``, ``updated`` and ``unchanged`` are numbers of
    conversations; ``skipped`` counts conversations that are too short (``short`` of them) and files
    without any;
    ``errors`` (they are tried again every time), ``unreadable`` (damaged, encrypted or of another
    kind) and ``missing`` are numbers of files, and so is ``to_read``, for a dry run. ``away`` are
    directories that were imported from once and are not there now; ``other_machines`` says how many
    of the conversations came from another machine first."""

    name: str
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    short: int = 0
    errors: int = 0
    unreadable: int = 0
    missing: int = 0
    malformed_records: int = 0
    unknown_records: int = 0
    to_read: int = 0
    away: list[str] = field(default_factory=list)
    other_machines: dict[str, int] = field(default_factory=dict)


@dataclass
class Report:
    """The outcome of :func:`run_import`. ``problems`` are plain lines, one for each file that could
    not be read, ``new_problems`` those of them that the last import did not meet."""

    sources: dict[str, SourceReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    new_problems: list[str] = field(default_factory=list)
    changed: bool = False

    @property
    def errors(self) -> int:
        return sum(source.errors for source in self.sources.values())


#: Called with (conversations done, conversations to do, bytes just done).
Progress = Callable[[int, int, int], None]


def utc_now() -> str:
    """The present moment as ISO 8601 UTC text with milliseconds."""
    text = iso_time(datetime.now(timezone.utc).isoformat())
    assert text
    return text


@dataclass
class _Plan:
    """What a scan found: conversations to read, and files that are gone."""

    todo: list[tuple[Adapter, ConversationMeta]] = field(default_factory=list)
    problems: list[ScanProblem] = field(default_factory=list)
    unchanged: dict[str, set[int]] = field(default_factory=dict)  # conversations, by source
    missing: list[KnownFile] = field(default_factory=list)
    back: list[KnownFile] = field(default_factory=list)


def run_import(
    database: str | Path,
    env: Environment,
    adapters: Mapping[str, Adapter],
    options: Options,
    progress: Progress | None = None,
) -> Report:
    """Brings ``database`` up to date with the files that ``adapters`` find in ``env``; creates it
    when it is not there. Nothing is written when nothing is new.

    Raises :class:`~.store.StoreError` when the database cannot be used or written; whatever was
    committed until then stays. Files that cannot be read become lines of the report and rows of
    ``import_log``.
    """
    database = Path(database)
    since_ns = parse_since(options.since)
    report = Report()
    known: dict[tuple[str, str], KnownFile] = {}
    unfinished = False
    logged: dict[tuple[str, str], tuple[str, str | None]] = {}
    if database.exists() and database.stat().st_size:
        try:
            connection = _open_for_reading(database)
            if connection is not None:
                try:
                    known = known_files(connection, options.machine)
                    unfinished = needs_finish(connection)
                    logged = _last_outcomes(connection)
                finally:
                    connection.close()
        except sqlite3.OperationalError as error:
            if "no such column" not in str(error) and "no such table" not in str(error):
                raise StoreError(f"{database}: {error}") from error
            # an older schema is brought up to date below; a damaged one is refused there
            unfinished = True
    plan = _Plan()
    try:
        for adapter in adapters.values():
            report.sources[adapter.name] = SourceReport(adapter.display_name)
            _scan(adapter, env, options, since_ns, known, plan, report)
        if options.dry_run:
            for adapter, meta in plan.todo:
                report.sources[adapter.name].to_read += len(meta.files)
            for problem in plan.problems:
                _add_problem(report, problem, True)
            _count(
                report, {n: dict.fromkeys(ids, "unchanged") for n, ids in plan.unchanged.items()}
            )
            return report
        _try_failed_again(plan, known, logged, report)
        news = [
            problem
            for problem in plan.problems
            if logged.get((problem.source, clean(problem.path)))
            != (problem.status, _log_message(problem.reason))
        ]
        if not (plan.todo or plan.missing or plan.back or news or unfinished):
            for problem in plan.problems:
                _add_problem(report, problem, False)
            _count(
                report, {n: dict.fromkeys(ids, "unchanged") for n, ids in plan.unchanged.items()}
            )
            return report
        connection = open_for_writing(database)
        try:
            _write(connection, adapters, options, plan, known, report, progress)
        finally:
            close_at_rest(connection)
    except sqlite3.Error as error:
        raise StoreError(f"{database}: {error}") from error
    finally:
        for adapter in adapters.values():
            close = getattr(adapter, "close", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    close()
    return report


def _try_failed_again(
    plan: _Plan,
    known: Mapping[tuple[str, str], KnownFile],
    logged: Mapping[tuple[str, str], tuple[str, str | None]],
    report: Report,
) -> None:
    """Files that failed last time and have not changed are tried before anything is written: if they
    fail as they did, there is nothing new to write."""
    again = []
    for adapter, meta in plan.todo:
        files = _cleaned(meta.files)
        before = known.get((files[0].path, files[0].part))
        if (
            before is not None
            and before.outcome == "error"
            and (before.size, before.mtime_ns) == (files[0].size, files[0].mtime_ns)
        ):
            try:
                adapter.parse(meta)
            except Exception as error:
                problem = ScanProblem.of(adapter.name, _log_path(files[0]), error)
                reason = _log_message(problem.reason) or type(error).__name__
                if logged.get((adapter.name, problem.path)) == (problem.status, reason):
                    _add_problem(report, replace(problem, reason=reason), False)
                    continue
        again.append((adapter, meta))
    plan.todo = again


def _open_for_reading(database: Path) -> sqlite3.Connection | None:
    """The database without writing to it, or ``None`` when it has no tables yet (a first import was
    killed)."""
    connection = open_readonly(database)
    if connection.execute("select count(*) from sqlite_master").fetchone()[0]:
        return connection
    connection.close()
    return None


def _last_outcomes(connection: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, str | None]]:
    """(source, path) → (status, message) of the files that could not be read last time."""
    return {
        (source, path): (status, message)
        for source, path, status, message in connection.execute(
            "select source, file_path, status, message from import_log where id in ("
            "select max(id) from import_log group by source, file_path) "
            "and status in ('error', 'unreadable')"
        )
    }


def _log_message(reason: str) -> str:
    return clean(first_line(reason, 500))


def parse_since(since: str | None) -> int | None:
    """A day or ISO time as nanoseconds since 1970; a day begins in the local zone. Raises
    :class:`~.store.StoreError`."""
    if since is None:
        return None
    try:
        moment = datetime.fromisoformat(since[:-1] + "+00:00" if since.endswith("Z") else since)
    except ValueError:
        raise StoreError(f"--since wants a day such as 2026-11-30, not {since!r}") from None
    return int(moment.timestamp() * 1e9)  # without a zone: a local day


def _cleaned(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Files under the names that the database can hold."""
    return [
        SourceFile(clean(f.path), clean(f.root), f.size, f.mtime_ns, clean(f.part)) for f in files
    ]


def _scan(
    adapter: Adapter,
    env: Environment,
    options: Options,
    since_ns: int | None,
    known: Mapping[tuple[str, str], KnownFile],
    plan: _Plan,
    report: Report,
) -> None:
    """Adds to ``plan`` what there is to do for one source."""
    seen: set[tuple[str, str]] = set()
    roots: set[str] = set()
    broken_roots: set[str] = set()
    whole = since_ns is None
    try:
        info = adapter.detect(env)
        _note_away(adapter, known, report)
        if info is None:
            return
        roots.update(clean(str(root)) for root in info.roots)
        for found in adapter.scan(env):
            if isinstance(found, ScanProblem):
                found = replace(found, path=str(found.path or ""), reason=str(found.reason))
                plan.problems.append(found)
                if found.root:
                    broken_roots.add(clean(found.root))
                else:
                    whole = False
                continue
            problem = _check_meta(adapter, found)
            if problem is not None:
                plan.problems.append(problem)
                whole = False
                continue
            files = _cleaned(found.files)
            seen.update((file.path, file.part) for file in files)
            roots.update(file.root for file in files)
            if since_ns is not None and max(file.mtime_ns for file in files) < since_ns:
                continue
            before = [known.get((file.path, file.part)) for file in files]
            if not options.full and _is_unchanged(adapter, found, files, before, options):
                ids = {id_ for file in before if file for id_ in file.conversations}
                plan.unchanged.setdefault(adapter.name, set()).update(ids)
                if any(file and file.outcome == "unreadable" for file in before):
                    report.sources[adapter.name].unreadable += 1
                elif any(
                    file and (file.outcome == "skipped" or file.skipped_below is not None)
                    for file in before
                ):
                    report.sources[adapter.name].skipped += 1
                    report.sources[adapter.name].short += any(
                        file and file.skipped_below is not None for file in before
                    )
                plan.back += [file for file in before if file and file.missing_since]
            else:
                plan.todo.append((adapter, found))
    except Exception as error:
        # whatever an adapter raises costs one source
        reason = f"cannot be searched: {first_line(str(error)) or type(error).__name__}"
        plan.problems.append(ScanProblem(adapter.name, "", reason))
        whole = False
    if not whole:
        return
    for (path, part), file in known.items():
        if (
            file.source == adapter.name
            and file.missing_since is None
            and (path, part) not in seen
            and file.root in roots
            and file.root not in broken_roots
            and (part or not os.path.exists(path))
        ):
            plan.missing.append(file)
            report.sources[adapter.name].missing += 1


def _check_meta(adapter: Adapter, meta: object) -> ScanProblem | None:
    """What is wrong with something that an adapter gave for a conversation, if anything is."""
    if (
        not isinstance(meta, ConversationMeta)
        or not all(isinstance(text, str) for text in (meta.source, meta.session_id, meta.marker))
        or not meta.files
        or not all(
            isinstance(file, SourceFile)
            and all(isinstance(text, str) for text in (file.path, file.root, file.part))
            and isinstance(file.size, int)
            and isinstance(file.mtime_ns, int)
            and max(abs(file.size), abs(file.mtime_ns)) < 2**63
            for file in meta.files
        )
    ):
        return ScanProblem(adapter.name, "", f"the adapter gave an odd conversation: {meta!r:.200}")
    return None


def _note_away(
    adapter: Adapter, known: Mapping[tuple[str, str], KnownFile], report: Report
) -> None:
    """Directories that this source was imported from and that are not there now: an unmounted disk
    marks nothing as missing, but is worth a word."""
    roots: dict[str, set[int]] = {}
    for file in known.values():
        if file.source == adapter.name and file.missing_since is None:
            roots.setdefault(file.root, set()).update(file.conversations)
    for root, conversations in roots.items():
        if conversations and not os.path.exists(root):
            report.sources[adapter.name].away.append(
                f"{root} is not there; its {len(conversations)} conversations stay"
            )


def _is_unchanged(
    adapter: Adapter,
    meta: ConversationMeta,
    files: list[SourceFile],
    before: list[KnownFile | None],
    options: Options,
) -> bool:
    marker = clean(meta.marker)
    for file, known in zip(files, before, strict=True):
        if (
            known is None
            or known.parser_version != adapter.parser_version
            or known.marker != marker
            # what failed is tried again every time
            or known.outcome == "error"
            or (known.skipped_below is not None and options.min_messages < known.skipped_below)
        ):
            return False
        # size and time of a shared database change with every conversation in it: there the
        # conversation's own marker decides
        if (known.size, known.mtime_ns) != (file.size, file.mtime_ns) and not (
            file.part and marker
        ):
            return False
    return True


def _add_problem(report: Report, problem: ScanProblem, is_new: bool) -> None:
    line = f"{problem.path or problem.source}: {problem.reason}"
    report.problems.append(line)
    if is_new:
        report.new_problems.append(line)
    source = report.sources.get(problem.source)
    if source is not None:
        if problem.status == "unreadable":
            source.unreadable += 1
        else:
            source.errors += 1


def _write(
    connection: sqlite3.Connection,
    adapters: Mapping[str, Adapter],
    options: Options,
    plan: _Plan,
    known: Mapping[tuple[str, str], KnownFile],
    report: Report,
    progress: Progress | None,
) -> None:
    store = Store(connection, options.machine, utc_now)
    run_options = json_text(
        {
            "sources": options.sources,
            "since": options.since,
            "full": options.full,
            "min_messages": options.min_messages,
        }
    )
    # oldest first: a fork or a resumed copy comes after what it repeats
    todo = sorted(
        plan.todo, key=lambda item: (max(f.mtime_ns for f in item[1].files), item[1].session_id)
    )
    sources = {adapter.name for adapter, _ in todo} | {p.source for p in plan.problems}

    def begin() -> None:
        store.start_run(__version__, usage.local_zone(), run_options)
        for name in sources & set(adapters):
            store.add_source(name, adapters[name].display_name)

    with store.transaction():
        begin()
        for problem in plan.problems:
            is_new = store.log(problem.source, problem.path, problem.status, problem.reason)
            _add_problem(report, problem, is_new)
        store.mark_missing(plan.missing)
        store.mark_back(plan.back)
    outcomes: dict[str, dict[int, str]] = {
        name: dict.fromkeys(ids, "unchanged") for name, ids in plan.unchanged.items()
    }
    done = 0
    while done < len(todo):
        size = conversations = 0
        with store.transaction():
            while done < len(todo) and size < BATCH_BYTES and conversations < BATCH_CONVERSATIONS:
                adapter, meta = todo[done]
                length = 0 if meta.files[0].part else sum(file.size for file in meta.files)
                _import_one(store, adapter, meta, known, options, report, outcomes)
                size += length
                conversations += 1
                done += 1
                if progress is not None:
                    progress(done, len(todo), length)
    store.finish()
    report.changed = True
    _count(report, outcomes)


def _count(report: Report, outcomes: Mapping[str, Mapping[int, str]]) -> None:
    """Puts the numbers of conversations into the report: each counts once, however many files it is
    made of."""
    for name, found in outcomes.items():
        source = report.sources[name]
        source.new = sum(outcome == "imported" for outcome in found.values())
        source.updated = sum(outcome == "updated" for outcome in found.values())
        source.unchanged = sum(outcome == "unchanged" for outcome in found.values())


#: What SQLite says of single values; anything else that it says (disk full, locked, corrupt) ends
#: the run.
_BAD_VALUES = (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


def _import_one(
    store: Store,
    adapter: Adapter,
    meta: ConversationMeta,
    known: Mapping[tuple[str, str], KnownFile],
    options: Options,
    report: Report,
    outcomes: dict[str, dict[int, str]],
) -> None:
    """Reads one conversation and stores it with its log row: both, or nothing but the row."""
    source = report.sources[adapter.name]
    files = _cleaned(meta.files)
    try:
        parsed = adapter.parse(meta)
    except Exception as error:
        # whatever an adapter raises - also one that we did not write - costs one conversation
        _fail(store, adapter, meta, files, report, error)
        return
    try:
        with store.savepoint():
            results = _store(store, adapter, meta, files, parsed, known, options)
    except Exception as error:
        if isinstance(error, sqlite3.Error) and not isinstance(error, _BAD_VALUES):
            raise
        # what cannot be stored today cannot be stored tomorrow
        reason = f"cannot be stored: {first_line(str(error)) or type(error).__name__}"
        _fail(store, adapter, meta, files, report, ValueError(reason))
        return
    so_far = outcomes.setdefault(adapter.name, {})
    for id_, outcome in results:
        if id_ is None:
            source.skipped += 1
            source.short += 1
        # what was imported in this run stays new, whatever another file of it adds
        elif so_far.get(id_, "unchanged") == "unchanged":
            so_far[id_] = outcome
            machine = store.other_machine(id_)
            if machine is not None:
                source.other_machines[machine] = source.other_machines.get(machine, 0) + 1
    if not results and not _is_understood(parsed):
        source.skipped += 1
    for records in parsed.files:
        source.malformed_records += records.malformed
        source.unknown_records += records.unknown


def _fail(
    store: Store,
    adapter: Adapter,
    meta: ConversationMeta,
    files: list[SourceFile],
    report: Report,
    error: Exception,
) -> None:
    problem = ScanProblem.of(adapter.name, files[0].path, error)
    reason = first_line(problem.reason) or type(error).__name__
    with contextlib.suppress(OverflowError):
        store.record_file(
            meta.source,
            files[0],
            marker=meta.marker,
            parser_version=adapter.parser_version,
            outcome=problem.status,
        )
    is_new = store.log(meta.source, _log_path(files[0]), problem.status, reason)
    _add_problem(report, replace(problem, path=_log_path(files[0]), reason=reason), is_new)


def _log_path(file: SourceFile) -> str:
    """The name of a file in the log: a conversation inside a database has rows of its own."""
    return f"{file.path}#{file.part}" if file.part else file.path


def _is_understood(parsed: Parsed) -> bool:
    """Whether a file that gave no conversation is known to hold none, every record of it."""
    return bool(parsed.files) and not any(
        records.malformed or records.unknown for records in parsed.files
    )


#: So much of a file's beginning, and of its end as it was, tells whether it only grew.
_BOUNDARY = 4096


def _boundary_hash(path: str, size: int) -> str | None:
    """A hash of the first bytes of a file and of the last ones before ``size``."""
    try:
        with open(path, "rb") as file:
            first = file.read(min(_BOUNDARY, size))
            file.seek(max(size - _BOUNDARY, 0))
            last = file.read(min(_BOUNDARY, size))
    except OSError:
        return None
    if len(last) < min(_BOUNDARY, size):
        return None  # it shrank meanwhile
    return hashlib.blake2b(first + last, digest_size=16).hexdigest()


def _has_grown(file: SourceFile, known: KnownFile | None) -> bool:
    """Whether a file begins with what it held at the last import."""
    return (
        known is not None
        and known.boundary_hash is not None
        and file.size >= known.size
        and _boundary_hash(file.path, known.size) == known.boundary_hash
    )


def is_short(conversation: ParsedConversation, min_messages: int) -> bool:
    """Whether a conversation has fewer prompts and replies than ``min_messages``. Prompts of a
    lost transcript are kept whatever their number."""
    if conversation.kind == "prompt-history":
        return not conversation.messages
    found = 0
    for message in conversation.messages:
        if message.kind in PERSON_KINDS or message.kind in MODEL_KINDS or message.kind == "task":
            found += 1
            if found >= min_messages:
                return False
    return found < max(min_messages, 1)


def _store(
    store: Store,
    adapter: Adapter,
    meta: ConversationMeta,
    files: list[SourceFile],
    parsed: Parsed,
    known: Mapping[tuple[str, str], KnownFile],
    options: Options,
) -> list[tuple[int | None, str]]:
    """Stores what one meta gave. Returns id (``None``: not stored) and outcome of each
    conversation."""
    grown = all(_has_grown(file, known.get((file.path, file.part))) for file in files)
    results: list[tuple[int | None, str]] = []
    for conversation in parsed.conversations:
        stored = store.conversation_id(conversation.source, conversation.session_id)
        if stored and conversation.kind == "prompt-history" and stored[1] != "prompt-history":
            continue  # the transcript itself is here, its prompts with it
        if stored is None and is_short(conversation, options.min_messages):
            results.append((None, "skipped"))
            continue
        partial = stored is not None and store.has_other_files(stored[0], files)
        results.append(store.store_conversation(conversation, grown, partial))
    outcomes = {outcome for _, outcome in results}
    ids = [id_ for id_, _ in results if id_ is not None]
    skipped = "skipped" in outcomes
    for status in ("imported", "updated", "unchanged", "skipped"):
        if status in outcomes:
            break
    else:
        status = "skipped"
    message = None
    if not parsed.conversations:
        message = "no conversation in it"
    elif skipped and status == "skipped":
        message = f"fewer than {options.min_messages} prompts and replies"
    understood = not results and _is_understood(parsed)
    records = {(clean(item.path), clean(item.part)): item for item in parsed.files}
    for file in files:
        file_id = store.record_file(
            meta.source,
            file,
            marker=meta.marker,
            parser_version=adapter.parser_version,
            outcome="imported" if ids else "understood" if understood else "skipped",
            skipped_below=options.min_messages if skipped else None,
            boundary_hash=None if file.part else _boundary_hash(file.path, file.size),
        )
        for id_ in ids:
            store.link_file(id_, file_id)
        counted: FileRecords | None = records.get((file.path, file.part)) or records.get(
            (file.path, "")
        )
        store.log(
            meta.source,
            _log_path(file),
            "updated" if status == "unchanged" else status,
            message,
            ids[0] if ids else None,
            counted,
            file_id,
        )
    return results
