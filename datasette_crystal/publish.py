"""Writes a part of a crystal database as a new one that can be shown to others: redacted, complete
in itself, without a trace of the rest, and checked byte by byte before it is there at all.

The source is read in one transaction and never written to, so an import may run meanwhile. The new
database is built under another name beside its place and moved there when everything is done.
Imports nothing of Datasette.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import re
import secrets
import shutil
import sqlite3
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from . import search, usage
from .migrations import APPLICATION_ID, ensure_late_indexes, migrations
from .model import Attachment, ParsedMessage, ParsedToolCall
from .redact import PLACEHOLDER, News, Redactor, State, digest, is_placeholder, users_in
from .redact_jobs import Jobs, LeftToYou, Redacted
from .scan import scan_bytes
from .secret_rules import RULES, Rule
from .store import (
    Store,
    StoreError,
    is_crystal,
    is_publication,
    message_title,
    open_readonly,
    project_name,
)
from .text import first_line, tool_title_from_json

#: Tables of which the chosen part is copied, and those of which nothing is: they tell of files and
#: imports on the machine. Every table of the schema is in one of these, or is made anew.
COPIED = (
    "messages",
    "tool_calls",
    "file_edits",
    "attachments",
    "conversation_messages",
    "sources",
    "projects",
    "conversations",
    "resumed_sessions",
)
LEFT_OUT = ("source_files", "conversation_files", "import_log", "unknown_records")
MADE_ANEW = ("daily_usage", "import_runs")

_BATCH = 500
_BATCH_SIZE = 400_000
#: Ids and times, in which there is nothing to redact unless it is known for a secret or a word.
_HARMLESS = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,12}Z|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{1,5}|"
)
_IN_AN_ID = re.compile(r"[0-9a-f-]{1,36}")
_IN_A_KEY = re.compile(r"[A-Za-z0-9_+/=-]")
#: What is left of a secret that was cut in two.
_PART = re.compile(r"[A-Za-z0-9_+/.~%!#$^&*-]+={0,2}")
_MARK = "# Written by `datasette crystal publish`"


class PublishError(Exception):
    """Nothing was published; the message is one plain line for the user."""


@dataclass(frozen=True)
class Selection:
    """Which conversations: all those that every given option fits. ``conversations`` are session
    ids, ``source/session-id`` or numbers; ``projects`` names or paths; ``since`` and ``until`` days
    (the last one included) or ISO times of the beginning; ``where`` is SQL about the columns of
    ``conversations``. Subagents of what is chosen come along, except ``excluded`` ones."""

    conversations: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    where: str | None = None
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Options:
    """What of the conversations, and how it is redacted. ``words`` are replaced wherever they stand,
    ``keep`` are names and values that stay. ``key`` makes fingerprints that are the same in several
    publications; a random one unless given. ``static``: also write the conversations as a static
    site into this directory, ``title`` is what the publication is called. ``jobs`` processes do the
    work; more than one only in a program that can be started anew in each of them, see
    :mod:`multiprocessing`. The result does not depend on how many there are."""

    thinking: bool = True
    tool_output: bool = True
    attachments: bool = False
    redact: bool = True
    rules: Sequence[Rule] = RULES
    words: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    key: bytes | None = None
    dry_run: bool = False
    force: bool = False
    static: Path | None = None
    title: str | None = None
    jobs: int = 1


@dataclass
class Report:
    """What was published, and what was replaced in it: ``replaced[where, kind]`` with ``where`` such
    as ``messages.content``. ``found`` is what the check of the result met, as (where, kind) and how
    often: when there is any, nothing was published; ``conversations`` says in which conversations
    (``source/session-id`` of the source, or its number where the id itself was redacted), and
    ``titles`` what these are called, redacted. ``notes`` are lines about files beside the database
    that were not written. No values anywhere."""

    rows: dict[str, int] = field(default_factory=dict)
    conversations_in_source: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    replaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    conversations: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    verified: bool = False
    published: bool = False
    size: int = 0
    seconds: float = 0.0
    metadata: str | None = None
    notes: list[str] = field(default_factory=list)
    static_files: int = 0

    def as_json(self) -> dict[str, Any]:
        """The report as it is written by ``--report``."""
        return {
            "published": self.published,
            "verified": self.verified,
            "size": self.size,
            "seconds": round(self.seconds, 1),
            "rows": self.rows,
            "conversations_in_source": self.conversations_in_source,
            "left_out": self.left_out,
            "notes": self.notes,
            "replaced": [
                {"where": where, "kind": kind, "count": count}
                for (where, kind), count in sorted(self.replaced.items())
            ],
            "found_by_the_check": [
                {
                    "where": where,
                    "kind": kind,
                    "count": count,
                    "conversations": self.conversations.get((where, kind), []),
                }
                for (where, kind), count in sorted(self.found.items())
            ],
        }


Progress = Callable[[str], None]


def publish(
    database: str | Path,
    out: str | Path,
    selection: Selection | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Report:
    """Writes the chosen part of ``database`` to ``out``, with ``metadata.yml`` beside it, and returns
    what was done. With findings in ``report.found`` nothing was written. Raises
    :class:`PublishError`."""
    started = time.monotonic()
    database, out = Path(database), Path(out)
    selection, options = selection or Selection(), options or Options()
    progress = progress or (lambda step: None)
    _check_place(database, out, options)
    if options.static is not None:
        _check_site(options.static, options)
    try:
        source = open_readonly(database)
    except StoreError as error:
        raise PublishError(str(error)) from None
    report = Report()
    try:
        source.isolation_level = None
        # a text that is no UTF-8 (of a damaged database) is published as what can be read of it
        source.text_factory = _text
        if not source.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise PublishError(f"{database} is empty; `datasette crystal import` fills it")
        if migrations.pending(Database(source)):
            raise PublishError(
                f"{database} was written by an older version; `datasette crystal import` brings it "
                "up to date"
            )
        _remove_remains(out)
        build, final = (
            out.with_name(f".{out.name}.{secrets.token_hex(4)}.{part}")
            for part in ("build", "part")
        )
        site: Path | None = None
        jobs: Jobs | None = None
        try:
            progress("Choosing")
            source.execute("begin")
            report.conversations_in_source = source.execute(
                "select count(*) from conversations"
            ).fetchone()[0]
            _choose(source, selection)
            _choose_messages(source)
            redactor = _redactor(source, options) if options.redact else None
            if redactor is not None:
                jobs = Jobs(redactor, options.jobs if _is_large(source) else 1)
            _write(source, build, final, redactor, jobs, options, report, progress)
            report.size = final.stat().st_size
            if redactor is not None and jobs is not None:
                report.replaced = +redactor.counts
                progress("Checking")
                _verify(source, final, redactor, jobs, report)
                report.verified = not report.found
            source.execute("rollback")
            report.seconds = time.monotonic() - started
            if not report.found and options.static is not None:
                progress("Writing the site")
                site = _write_site(final, jobs, options, report)
            if report.found or options.dry_run:
                return report
            # a copy that was not redacted is for nobody else
            final.chmod(_usual_mode(build) if options.redact else 0o600)
            _sync(final)
            _remove_journals(out)
            os.replace(final, out)
            report.published = True
            if site is not None and options.static is not None:
                _place_site(site, options.static, out)
            _write_metadata(out, options, report)
        finally:
            if jobs is not None:
                jobs.close()
            if site is not None:
                shutil.rmtree(site, ignore_errors=True)
            for path in (build, final):
                for ending in ("", "-journal", "-wal", "-shm"):
                    with contextlib.suppress(OSError):
                        Path(f"{path}{ending}").unlink()
    except sqlite3.Error as error:
        raise PublishError(f"{out} cannot be written: {error}") from error
    except BrokenExecutor:
        raise PublishError("a process that helped was killed; nothing was published") from None
    except OSError as error:
        raise PublishError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        source.close()
    return report


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# --------------------------------------------------------------------------- places


def _check_site(site: Path, options: Options) -> None:
    from .static_site import SiteError, check_place, remove_remains

    place = site.resolve()
    if not place.parent.is_dir():
        raise PublishError(f"the directory {place.parent} does not exist")
    if place.is_dir() and any(place.iterdir()) and not options.force and not options.dry_run:
        raise PublishError(f"{site} is not empty; --force brings a site there up to date")
    try:
        if not options.dry_run:
            check_place(place)
        remove_remains(place)
    except (SiteError, OSError) as error:
        raise PublishError(str(error)) from None


def _check_place(database: Path, out: Path, options: Options) -> None:
    if not out.absolute().parent.is_dir():
        raise PublishError(f"the directory {out.absolute().parent} does not exist")
    if out.is_dir():
        raise PublishError(f"{out} is a directory; name a file")
    if not out.exists() and not out.is_symlink():
        for journal in _journals(out):
            if os.path.lexists(journal) and not options.force and not options.dry_run:
                raise PublishError(
                    f"{journal} was left by a database that is gone; --force deletes it"
                )
        return
    with contextlib.suppress(OSError):
        if database.exists() and out.samefile(database):
            raise PublishError(f"{out} is the database itself; name another file")
    if options.dry_run:
        return
    if not options.force:
        raise PublishError(f"{out} exists; --force overwrites it")
    if not _may_be_replaced(out):
        raise PublishError(f"{out} is no publication; delete it yourself, or name another file")


def _may_be_replaced(out: Path) -> bool:
    """Whether a file is what an earlier publication wrote: nothing else is ever overwritten."""
    if not out.is_file() or out.stat().st_size == 0:
        return out.is_file()
    try:
        connection = sqlite3.connect(out.absolute().as_uri() + "?mode=ro", uri=True)
        try:
            return is_crystal(connection) and is_publication(connection)
        finally:
            connection.close()
    except sqlite3.Error:
        return False


def _journals(out: Path) -> list[Path]:
    """Where SQLite keeps what is still to be written to a database, or taken back from it."""
    return [Path(f"{out}{ending}") for ending in ("-journal", "-wal", "-shm")]


def _remove_journals(out: Path) -> None:
    """What was to be written to the database before must not be written to the new one."""
    for journal in _journals(out):
        journal.unlink(missing_ok=True)


def _usual_mode(path: Path) -> int:
    """The mode of a new file at ``path``, which is deleted: there is no other way to ask for the
    umask without setting it."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
        path.unlink()


def _remove_remains(out: Path) -> None:
    """What a publication that was killed left."""
    prefix = f".{out.name}."
    for path in out.absolute().parent.iterdir():
        if path.name.startswith(prefix) and re.fullmatch(
            r"[0-9a-f]{8}\.(?:build|part)(?:-journal|-wal|-shm)?", path.name[len(prefix) :]
        ):
            with contextlib.suppress(OSError):
                path.unlink()


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


# --------------------------------------------------------------------------- choosing


def _moment(value: str, option: str, end: bool = False) -> str:
    """A local day or ISO time as the database writes times; the end of a day for ``end``."""
    try:
        moment = datetime.fromisoformat(value[:-1] + "+00:00" if value[-1:] == "Z" else value)
        if end and len(value) == 10:
            moment += timedelta(days=1)
        moment = moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise PublishError(f"{option} wants a day such as 2026-11-30, not {value!r}") from None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _check_selection(selection: Selection) -> None:
    """An option that is given and says nothing, as that of an unset variable of a shell, would choose
    everything."""
    for option, values in (
        ("--conversation", selection.conversations),
        ("--project", selection.projects),
        ("--source", selection.sources),
        ("--since", (selection.since,)),
        ("--until", (selection.until,)),
        ("--where", (selection.where,)),
        ("--exclude", selection.excluded),
    ):
        if any(value is not None and not value.strip() for value in values):
            raise PublishError(f"{option} is empty; leave it out to choose without it")


def _choose(source: sqlite3.Connection, selection: Selection) -> None:
    """Fills ``temp.chosen`` (new id, id): the conversations, in the order of their ids."""
    _check_selection(selection)
    conditions = ["1"]
    values: dict[str, Any] = {}
    if selection.conversations:
        named = [_named(source, name) for name in selection.conversations]
        conditions.append(f"c.id in ({','.join(map(str, named))})")
    else:
        # subagents come with their parents
        conditions.append("(c.kind <> 'subagent' or c.parent_id is null)")
    for number, name in enumerate(selection.projects):
        if not source.execute(
            "select 1 from projects where name = ? or path = ?", (name, name)
        ).fetchone():
            names = [
                row[0]
                for row in source.execute(
                    "select p.name from projects p join conversations c on c.project_id = p.id "
                    "group by p.name order by max(c.started_at) desc, p.name"
                )
            ]
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            raise PublishError(
                f"there is no project {name!r}; there are: {', '.join(names[:10])}{more}"
                if names
                else f"there is no project {name!r}, nor any other"
            )
        values[f"project{number}"] = name
    if selection.projects:
        given = ",".join(f":project{number}" for number in range(len(selection.projects)))
        conditions.append(
            f"c.project_id in (select id from projects where name in ({given}) or path in ({given}))"
        )
    for number, name in enumerate(selection.sources):
        if not source.execute("select 1 from sources where id = ?", (name,)).fetchone():
            known = ", ".join(
                row[0] for row in source.execute("select id from sources order by id")
            )
            raise PublishError(f"there is no source {name!r}; there are: {known}")
        values[f"source{number}"] = name
    if selection.sources:
        conditions.append(
            f"c.source in ({','.join(f':source{n}' for n in range(len(selection.sources)))})"
        )
    if selection.since is not None:
        values["since"] = _moment(selection.since, "--since")
        conditions.append("c.started_at >= :since")
    if selection.until is not None:
        values["until"] = _moment(selection.until, "--until", end=True)
        conditions.append("c.started_at < :until")
    ids = {
        row[0]
        for row in source.execute(
            f"select c.id from conversations c where {' and '.join(conditions)}", values
        )
    }
    if selection.where is not None:
        # on its own, so that nothing in it can reach the other conditions
        try:
            ids &= {
                row[0]
                for row in source.execute(
                    f"select id from conversations where (\n{selection.where}\n)"
                )
            }
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise PublishError(f"--where is no SQL condition: {error}") from None
    excluded = {_named(source, name) for name in selection.excluded}
    ids -= excluded
    if not ids:
        raise PublishError("no conversation fits; nothing was published")
    source.execute("create temp table chosen (new integer primary key, id integer unique)")
    source.executemany(
        "insert or ignore into temp.chosen (id) values (?)", [(id_,) for id_ in sorted(ids)]
    )
    source.execute("create temp table excluded (id integer primary key)")
    source.executemany("insert into temp.excluded values (?)", [(id_,) for id_ in excluded])
    source.execute(
        """
        with recursive family(id) as (
          select id from temp.chosen
          union
          select child.id from family join conversations child on child.parent_id = family.id
          where child.kind = 'subagent' and child.id not in (select id from temp.excluded)
          union
          select t.subagent_id from family join tool_calls t on t.conversation_id = family.id
          join conversations s on s.id = t.subagent_id
          where s.kind = 'subagent' and s.id not in (select id from temp.excluded)
        )
        insert or ignore into temp.chosen (id) select id from family order by id
        """
    )


def _named(source: sqlite3.Connection, name: str) -> int:
    rows = source.execute(
        "select id from conversations where session_id = :name or source || '/' || session_id = :name "
        "union select conversation_id from resumed_sessions "
        "where session_id = :name or source || '/' || session_id = :name "
        "union select id from conversations where cast(id as text) = :name",
        {"name": name},
    ).fetchall()
    if not rows:
        raise PublishError(f"there is no conversation {name!r}; give SOURCE/SESSION-ID")
    if len(rows) > 1:
        raise PublishError(f"several conversations are called {name!r}; give SOURCE/SESSION-ID")
    return int(rows[0][0])


def _choose_messages(source: sqlite3.Connection) -> None:
    """Fills ``temp.shown``: the messages that the chosen conversations show, each with its owner
    among them. A message whose owner is not published belongs to the earliest one that shows it."""
    source.execute(
        "create temp table shown (new integer primary key, id integer unique, owner integer, "
        "uid text, position integer)"
    )
    source.execute(
        """
        insert into temp.shown (id, owner, uid, position)
        select m.id, o.new, m.uid, m.position from messages m
        left join temp.chosen o on o.id = m.conversation_id
        where m.id in (select cm.message_id from conversation_messages cm
          join temp.chosen c on c.id = cm.conversation_id)
          or m.conversation_id in (select id from temp.chosen)
        order by m.id
        """
    )
    for (id_,) in source.execute("select id from temp.shown where owner is null").fetchall():
        source.execute(
            "update temp.shown set (owner, uid, position) = ("
            "select ch.new, cm.uid, cm.position from conversation_messages cm "
            "join temp.chosen ch on ch.id = cm.conversation_id "
            "join conversations c on c.id = cm.conversation_id where cm.message_id = :id "
            "order by cm.origin = 'referred', coalesce(c.started_at, '9'), c.session_id limit 1) "
            "where id = :id",
            {"id": id_},
        )


# --------------------------------------------------------------------------- redacting rows


class _Texts:
    """Redacts values on their way from one database to the other."""

    def __init__(self, redactor: Redactor | None) -> None:
        self.redactor = redactor
        #: What is to be taken out, and may be part of an id.
        self.in_ids: list[str] = []
        self.look_again()
        #: What other processes made of texts that are on their way.
        self.ready: dict[str, Redacted] = {}

    def look_again(self) -> None:
        """What was learned meanwhile may be an id, or a part of one."""
        if self.redactor is not None:
            values = [value.lower() for value in self.redactor.values]
            self.in_ids = [value for value in values if _IN_AN_ID.fullmatch(value)]

    def harmless(self, value: str) -> bool:
        """Whether there is nothing to redact in a text that is nothing but an id or a time."""
        return bool(_HARMLESS.fullmatch(value)) and not any(part in value for part in self.in_ids)

    def redact(self, value: Any, where: str) -> Any:
        redactor = self.redactor
        if not isinstance(value, str) or redactor is None or self.harmless(value):
            return value
        result = self.ready.get(value, (LeftToYou(),))[0]
        if isinstance(result, LeftToYou):
            return redactor.redact(value, where)
        if result is None:
            return value
        for kind, count in result[1].items():
            redactor.counts[where, kind] += count
        return result[0]

    def blob(self, value: Any, where: str, again: bool = False) -> Any:
        """Bytes that are a text are redacted as one; others - pictures - stay as they are."""
        if not isinstance(value, bytes) or self.redactor is None:
            return value
        text, encoding = _text_of(value)
        if text is None:
            return value
        redact = self.redactor.again if again else self.redactor.redact
        return redact(text, where).encode(encoding, "surrogatepass")


def _text_of(value: bytes) -> tuple[str | None, str]:
    """The text that bytes are, if they are one, and its encoding."""
    wide = value[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-16",) if wide else ("utf-8",):
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode(encoding), encoding
    return None, ""


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})")]


def _insert(target: sqlite3.Connection, table: str, rows: Iterable[dict[str, Any]]) -> int:
    number = 0
    columns = _columns(target, table)
    statement = (
        f"insert into {table} ({','.join(columns)}) values ({','.join(':' + c for c in columns)})"
    )
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append({column: row.get(column) for column in columns})
        number += 1
        if len(batch) == _BATCH:
            target.executemany(statement, batch)
            batch.clear()
    target.executemany(statement, batch)
    return number


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows in portions of some hundred kilobytes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += 100 + sum(len(value) for value in row.values() if isinstance(value, str))
        if size > _BATCH_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _rows(source: sqlite3.Connection, sql: str, *values: Any) -> Iterator[dict[str, Any]]:
    cursor = source.execute(sql, values)
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def _is_large(source: sqlite3.Connection) -> bool:
    """Whether there is more to do than to start processes for it."""
    return bool(
        source.execute(
            "select total(length(content)) + total(length(thinking)) + (select "
            "total(length(input)) + total(length(output)) from tool_calls where message_id in "
            "(select id from temp.shown)) from messages where id in (select id from temp.shown)"
        ).fetchone()[0]
        > 4_000_000
    )


def _write(
    source: sqlite3.Connection,
    build: Path,
    final: Path,
    redactor: Redactor | None,
    jobs: Jobs | None,
    options: Options,
    report: Report,
    progress: Progress,
) -> None:
    """Builds the new database at ``build`` and writes it, compacted, to ``final``."""
    os.close(os.open(build, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    target = sqlite3.connect(build, isolation_level=None)
    try:
        target.execute("pragma journal_mode = off").fetchall()
        target.execute("pragma synchronous = off")
        target.execute("pragma foreign_keys = off")
        target.execute("pragma cache_size = -65536")
        target.execute(f"pragma application_id = {APPLICATION_ID}")
        migrations.apply(Database(target))
        if target.in_transaction:
            target.execute("commit")
        target.execute("begin")
        progress("Copying")
        _Copy(source, target, redactor, jobs, options, report, progress).run()
        target.execute("commit")
        progress("Compacting")
        os.close(os.open(final, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        target.execute("vacuum into ?", (str(final),))
    finally:
        target.close()
    check = sqlite3.connect(final, isolation_level=None)
    try:
        check.execute("pragma journal_mode = delete").fetchall()
        problems = check.execute("pragma foreign_key_check").fetchall()
        state = check.execute("pragma quick_check").fetchone()[0]
        if state != "ok" or problems or not is_crystal(check):
            raise PublishError("the new database is not sound; nothing was published")
    finally:
        check.close()


def _redactor(source: sqlite3.Connection, options: Options) -> Redactor:
    """Knows the names that stand in the paths of the database and in its machine column: first those
    of what is published, the most frequent first."""
    users: Counter[str] = Counter()
    for (path,) in source.execute(
        "select p.path from projects p join conversations c on c.project_id = p.id "
        "join temp.chosen ch on ch.id = c.id union all "
        "select c.cwd from conversations c join temp.chosen ch on ch.id = c.id"
    ):
        users.update(users_in(path or ""))
    names = [name for name, _ in sorted(users.items(), key=lambda item: (-item[1], item[0]))]
    for (path,) in source.execute(
        "select path from projects union select cwd from conversations union select root "
        "from source_files union select path from file_edits where path like '%/home/%' "
        "or path like '%users%'"
    ):
        names += users_in(path or "")
    hosts = [
        row[0]
        for row in source.execute(
            "select c.machine from conversations c join temp.chosen ch on ch.id = c.id "
            "where c.machine <> '' group by 1 order by count(*) desc, 1"
        )
    ]
    hosts += [
        row[0]
        for row in source.execute(
            "select machine from projects union select machine from source_files "
            "union select machine from import_runs where machine <> 'published' order by 1"
        )
        if row[0]
    ]
    # what an earlier publication left of a name is no name
    names, hosts = (
        [name for name in found if not PLACEHOLDER.search(name)] for found in (names, hosts)
    )
    _check_words(source, options.words)
    return Redactor(
        options.rules,
        users=dict.fromkeys(names),
        hosts=dict.fromkeys(hosts),
        words=options.words,
        keep=options.keep,
        key=options.key,
    )


def _check_words(source: sqlite3.Connection, words: Iterable[str]) -> None:
    """A word that the database itself is made of cannot be taken out of it."""
    schema = "\n".join(row[0] or "" for row in source.execute("select sql from sqlite_master"))
    sources = " ".join(
        name
        for row in source.execute("select id, name from sources")
        for name in row
        if re.fullmatch(r"[\w ()-]{1,30}", name)
    )
    own = f"{schema} {sources} secret user host email redacted invalid published".lower()
    for word in words:
        if len(word.strip()) < 3:
            raise PublishError(f"--redact wants words of three characters or more, not {word!r}")
        if word.lower() in own:
            raise PublishError(
                f"--redact {word}: the names of tables, columns, sources or placeholders have this in "
                "them; give a longer word"
            )


def _goes_on(end: str, start: str, after: str, whole: bool) -> bool:
    """Whether ``start``, with which a text begins before ``after``, can be the rest of a secret that
    began with ``end``, the last thing in the text before. ``whole``: that is a secret by itself."""
    if end.startswith("-----BEGIN"):
        return "-----END" in start
    if " " in end or not _PART.fullmatch(start):
        return False
    if after[:1] in (":", "="):
        return False  # the name of something, as "api_key" or "https" is
    if not whole and after[:1] == "@":
        return True  # a password in an address
    if start.startswith(("/", ".", "~")) or ("." in start and not end.startswith("eyJ")):
        return False  # a path, the name of a file or of a host
    digit, lower, upper = (
        any(map(test, start)) for test in (str.isdigit, str.islower, str.isupper)
    )
    if whole or "/" in start:
        return len(start) >= 8 and digit and lower and upper
    return digit or (lower and upper and not start.istitle())


class _Copy:
    """Copies the chosen rows. Long texts come first: they teach the names and secrets that the short
    columns are then redacted with."""

    def __init__(
        self,
        source: sqlite3.Connection,
        target: sqlite3.Connection,
        redactor: Redactor | None,
        jobs: Jobs | None,
        options: Options,
        report: Report,
        progress: Progress,
    ) -> None:
        self.source = source
        self.target = target
        self.redactor = redactor
        self.jobs = jobs
        self.texts = _Texts(redactor)
        self.options = options
        self.report = report
        self.progress = progress
        self.chosen = dict(source.execute("select id, new from temp.chosen"))
        #: What was known before the first row was read, and is known to those who help.
        self.start: State | None = None
        self.packed = b""
        #: Texts that hold others in base64, by digest.
        self.encoded: set[bytes] = set()
        self.store = Store(source, "", lambda: "")  # asked for titles only
        self.cuts: dict[int, list[tuple[str, str, bool]]] = {}

    def run(self) -> None:
        rows = self.report.rows
        self._find_cuts()
        if self.redactor is not None:
            self.start = self.redactor.state()
            self.packed = pickle.dumps(self.start)
        for table, read in (
            ("messages", self._messages),
            ("tool_calls", self._calls),
            ("file_edits", self._edits),
            ("attachments", self._attachments),
        ):
            rows[table] = _insert(self.target, table, read())
        for _ in range(4):
            self.progress("Looking for names again")
            self._again()
            counts = Counter() if self.redactor is None else self.redactor.counts.copy()
            self.progress("Finishing")
            self._headers()
            self._titles()
            if self.redactor is None or self.start is None or not self.redactor.news(self.start):
                break
            # A title taught something: once more, and what was counted is counted once.
            self.redactor.counts = counts
        self._derived()

    def _row(self, row: dict[str, Any], table: str, leave: Sequence[str] = ()) -> dict[str, Any]:
        """A row with every text redacted."""
        return {
            name: value if name in leave else self.texts.redact(value, f"{table}.{name}")
            for name, value in row.items()
        }

    def _redacted(
        self, rows: Iterable[dict[str, Any]], table: str, leave: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Rows with every text redacted, in their order. Of most texts that is done ahead."""
        if self.jobs is None:
            yield from rows
            return
        waiting: deque[tuple[list[dict[str, Any]], list[str], Future[list[Redacted]]]] = deque()
        for batch in _batches(rows):
            texts = {
                value: None
                for row in batch
                for name, value in row.items()
                if name not in leave and isinstance(value, str) and not self.texts.harmless(value)
            }
            waiting.append((batch, list(texts), self.jobs.redact(self.packed, list(texts))))
            if len(waiting) > 2 * self.jobs.jobs:
                yield from self._collected(*waiting.popleft(), table, leave)
        while waiting:
            yield from self._collected(*waiting.popleft(), table, leave)

    def _collected(
        self,
        batch: list[dict[str, Any]],
        texts: list[str],
        results: Future[list[Redacted]],
        table: str,
        leave: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        assert self.redactor is not None
        self.texts.ready = dict(zip(texts, results.result(), strict=True))
        for text, (new, searched, encoded) in self.texts.ready.items():
            if searched:
                self.redactor.clean.add(digest(text))
            if encoded and not isinstance(new, LeftToYou):
                self.encoded.add(digest(text if new is None else new[0]))
        for row in batch:
            yield self._row(row, table, leave)
        self.texts.ready = {}

    # ----------------------------------------------------------------- the long texts

    def _messages(self) -> Iterator[dict[str, Any]]:
        leave = ("uid", "new_uid", "source")
        for row in self._redacted(self._message_rows(), "messages", leave):
            row["characters"] = len(row["content"])
            yield row

    def _message_rows(self) -> Iterator[dict[str, Any]]:
        dropped = self.report.left_out
        for row in _rows(
            self.source,
            "select m.*, s.new as new_id, s.owner, s.uid as new_uid, s.position as new_position "
            "from temp.shown s join messages m on m.id = s.id order by s.new",
        ):
            row |= {
                "id": row["new_id"],
                "conversation_id": row["owner"],
                "uid": row["new_uid"],
                "position": row["new_position"],
                "title": "",  # made of the redacted text
            }
            if row["thinking"] and not self.options.thinking:
                row["thinking"] = None
                dropped["thinking"] = dropped.get("thinking", 0) + 1
            if row["content"] and row["kind"] == "local-output" and not self.options.tool_output:
                row["content"] = ""
                dropped["tool output"] = dropped.get("tool output", 0) + 1
            if row["id"] in self.cuts:
                row["content"] = self._without_cuts(row["id"], row["content"])
            yield row

    def _calls(self) -> Iterator[dict[str, Any]]:
        for row in self._redacted(self._call_rows(), "tool_calls", ("source",)):
            if row.pop("made"):
                row["title"] = tool_title_from_json(row["name"], row["input"])
            yield row

    def _call_rows(self) -> Iterator[dict[str, Any]]:
        dropped = self.report.left_out
        for number, row in enumerate(
            _rows(
                self.source,
                "select t.*, s.new as new_message, s.owner, (select c.source from conversations c "
                "where c.id = t.conversation_id) as source from tool_calls t join temp.shown s "
                "on s.id = t.message_id order by t.id",
            ),
            1,
        ):
            if row["output"] is not None and not self.options.tool_output:
                row["output"] = None
                dropped["tool output"] = dropped.get("tool output", 0) + 1
            made = row["title"] == tool_title_from_json(row["name"], row["input"])
            child = self.chosen.get(row["subagent_id"])
            row |= {
                "id": number,
                "message_id": row["new_message"],
                "conversation_id": row["owner"],
                "subagent_id": child,
            }
            if made:
                row["title"] = ""
            # resolved to the child's own id when all names are known
            row["subagent_session_id"] = None
            yield row | {"made": made}

    def _edits(self) -> Iterator[dict[str, Any]]:
        return self._redacted(self._edit_rows(), "file_edits")

    def _edit_rows(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(
            _rows(
                self.source,
                "select e.*, s.new as new_message, s.owner from file_edits e join temp.shown s "
                "on s.id = e.message_id order by e.id",
            ),
            1,
        ):
            row |= {
                "id": number,
                "message_id": row["new_message"],
                "conversation_id": row["owner"],
            }
            yield row

    def _attachments(self) -> Iterator[dict[str, Any]]:
        dropped = self.report.left_out
        for number, row in enumerate(
            _rows(
                self.source,
                "select a.*, s.new as new_message from attachments a join temp.shown s "
                "on s.id = a.message_id order by a.id",
            ),
            1,
        ):
            row |= {"id": number, "message_id": row["new_message"]}
            if row["content"] is not None and not self.options.attachments:
                row["content"] = None
                dropped["attachments"] = dropped.get("attachments", 0) + 1
            content = self.texts.blob(row["content"], "attachments.content")
            if content != row["content"]:
                row["size"] = len(content)
            row["sha256"] = None
            row = self._row(row, "attachments")
            # without the content no hash either: it would tell which of the files one knows it was
            digest = None if content is None else hashlib.sha256(content).hexdigest()
            yield row | {"content": content, "sha256": digest}

    def _find_cuts(self) -> None:
        """A secret may be cut in two by the end of one message and the beginning of the next, as
        when a stream broke off: remembers what to take out of which message."""
        redactor = self.texts.redactor
        if redactor is None:
            return
        last: tuple[int, tuple[int, str], str, str] | None = None
        for id_, owner, role, kind, head, tail in self.source.execute(
            "select s.new, s.owner, m.role, m.kind, substr(m.content, 1, 200), substr(m.content, -200) "
            "from temp.shown s join messages m on m.id = s.id where m.content <> '' "
            "order by s.owner, s.position"
        ):
            if last is not None and last[1] == (owner, role):
                before = last[2]
                # where a sentence ends there is a full stop or a space
                if _IN_A_KEY.match(before, len(before) - 1) and _IN_A_KEY.match(head):
                    for finding in redactor.findings(before + head):
                        if not finding.start < len(before) < finding.end:
                            continue
                        end = before[finding.start :]
                        start = head[: finding.end - len(before)]
                        # said to be broken off, it may go on in any case
                        whole = last[3] != "partial" and any(
                            found.end == len(before) for found in redactor.findings(before)
                        )
                        if _goes_on(end, start, head[len(start) :], whole):
                            placeholder = redactor.learn(finding.value, finding.kind)
                            self.cuts.setdefault(last[0], []).append((end, placeholder, True))
                            self.cuts.setdefault(id_, []).append((start, placeholder, False))
            last = (id_, (owner, role), tail, kind)

    def _without_cuts(self, id_: int, content: str) -> str:
        assert self.texts.redactor is not None
        for piece, placeholder, at_end in self.cuts.get(id_, ()):
            if at_end and content.endswith(piece):
                content = content[: len(content) - len(piece)] + placeholder
            elif not at_end and content.startswith(piece):
                content = placeholder + content[len(piece) :]
            else:
                continue
            self.texts.redactor.counts["messages.content", placeholder.split(":")[1]] += 1
        return content

    def _again(self) -> None:
        """Names and secrets that were learned late, in the texts that may have them."""
        redactor = self.redactor
        if redactor is None or self.start is None:
            return
        start = self.start
        for _ in range(4):  # what is learned here may stand elsewhere
            news = redactor.news(start)
            if not news:
                return
            start = self.start = redactor.state()
            self.texts.look_again()
            for table in ("messages", "tool_calls", "file_edits", "attachments"):
                self._again_in(table, news)

    def _again_in(self, table: str, news: News) -> None:
        redactor = self.redactor
        assert redactor is not None
        names = [
            name for name in _columns(self.target, table) if name not in ("uid", "source", "sha256")
        ]

        def again(value: Any, name: str) -> Any:
            if isinstance(value, bytes):
                return self.texts.blob(value, f"{table}.{name}", again=True)
            if not isinstance(value, str) or self.texts.harmless(value):
                return value
            if not news.may_be_in(value) and digest(value) not in self.encoded:
                return value
            return redactor.again(value, f"{table}.{name}")

        at = 0
        while True:
            batch = self.target.execute(
                f"select {','.join(names)} from {table} where id > ? order by id limit {_BATCH}",
                (at,),
            ).fetchall()
            if not batch:
                return
            at = batch[-1][0]
            for values in batch:
                row = dict(zip(names, values, strict=True))
                new = {name: again(value, name) for name, value in row.items()}
                changed = {name: value for name, value in new.items() if value != row[name]}
                if not changed:
                    continue
                if table == "tool_calls" and row["title"] == tool_title_from_json(
                    row["name"], row["input"]
                ):
                    changed["title"] = tool_title_from_json(new["name"], new["input"])
                if table == "messages":
                    changed["characters"] = len(new["content"])
                if table == "attachments" and "content" in changed:
                    changed["size"] = len(new["content"])
                    changed["sha256"] = hashlib.sha256(new["content"]).hexdigest()
                self.target.execute(
                    f"update {table} set {','.join(f'{n} = :{n}' for n in changed)} where id = :id",
                    changed | {"id": row["id"]},
                )

    # ----------------------------------------------------------------- the short rows

    def _headers(self) -> None:
        """Sources, projects, conversations and which messages they show."""
        rows = self.report.rows
        self.texts.look_again()
        for table in (
            "resumed_sessions",
            "conversation_messages",
            "conversations",
            "projects",
            "sources",
        ):
            self.target.execute(f"delete from {table}")
        sources: dict[str, str] = {}
        taken: set[str] = set()
        for id_, _ in self.source.execute(
            "select s.id, s.name from sources s where s.id in (select c.source from conversations c "
            "join temp.chosen ch on ch.id = c.id) order by s.id"
        ):
            sources[id_] = _unique(self.texts.redact(id_, "sources.id"), taken)
        names: set[str] = set()
        rows["sources"] = _insert(
            self.target,
            "sources",
            [
                {
                    "id": sources[row["id"]],
                    "name": _unique(self.texts.redact(row["name"], "sources.name"), names),
                }
                for row in _rows(self.source, "select * from sources order by id")
                if row["id"] in sources
            ],
        )
        for old, new in sources.items():
            if old != new:
                self.target.execute("update messages set source = ? where source = ?", (new, old))
        projects = self._projects()
        sessions = self._sessions(sources)
        conversations = [
            self._conversation(row, sources, projects, sessions)
            for row in _rows(
                self.source,
                "select c.*, ch.new as new_id from conversations c join temp.chosen ch "
                "on ch.id = c.id order by ch.new",
            )
        ]
        rows["conversations"] = _insert(self.target, "conversations", conversations)
        rows["resumed_sessions"] = _insert(
            self.target,
            "resumed_sessions",
            [
                {
                    "source": sources[row["source"]],
                    "session_id": sessions[row["source"], row["session_id"]],
                    "conversation_id": self.chosen[row["conversation_id"]],
                }
                for row in _rows(self.source, "select * from resumed_sessions order by session_id")
                if row["conversation_id"] in self.chosen
            ],
        )
        rows["conversation_messages"] = _insert(self.target, "conversation_messages", self._links())
        # what a message is called in the conversation that owns it
        self.target.execute(
            "update messages set uid = (select cm.uid from conversation_messages cm where "
            "cm.conversation_id = messages.conversation_id and cm.position = messages.position)"
        )
        self.target.execute(
            "update tool_calls set subagent_session_id = (select c.session_id from conversations c "
            "where c.id = tool_calls.subagent_id) where subagent_id is not null"
        )

    def _links(self) -> Iterator[dict[str, Any]]:
        for row in _rows(
            self.source,
            "select cm.*, ch.new as conversation, s.new as message, s.owner from "
            "conversation_messages cm join temp.chosen ch on ch.id = cm.conversation_id "
            "join temp.shown s on s.id = cm.message_id order by ch.new, cm.position",
        ):
            row["conversation_id"] = row["conversation"]
            row["message_id"] = row["message"]
            row = self._row(row, "conversation_messages")
            if row["owner"] == row["conversation_id"]:
                row["origin"] = "own"
            yield row

    def _projects(self) -> dict[int, int]:
        new: dict[int, int] = {}
        taken: set[str] = set()
        projects = []
        for number, row in enumerate(
            _rows(
                self.source,
                "select * from projects where id in (select c.project_id from conversations c "
                "join temp.chosen ch on ch.id = c.id) order by id",
            ),
            1,
        ):
            new[row["id"]] = number
            named = row["name"] == project_name(row["path"])
            row = self._row(row, "projects")
            row["machine"] = self._machine(row["machine"])
            row["path"] = _unique(row["path"], taken, row["machine"])
            if named:
                row["name"] = project_name(row["path"])
            projects.append(row | {"id": number})
        self.report.rows["projects"] = _insert(self.target, "projects", projects)
        return new

    def _machine(self, machine: str | None) -> str | None:
        """The machine column holds a host name for certain, whatever it looks like."""
        redactor = self.texts.redactor
        if not machine or redactor is None or PLACEHOLDER.fullmatch(machine):
            return machine
        if PLACEHOLDER.search(machine):
            return machine
        return redactor.add_host(machine)

    def _sessions(self, sources: dict[str, str]) -> dict[tuple[str, str], str]:
        """The id of every published session by (source, id): redacted, and still unique."""
        sessions: dict[tuple[str, str], str] = {}
        taken: set[str] = set()
        for source, session in self.source.execute(
            "select c.source, c.session_id from conversations c join temp.chosen ch on ch.id = c.id "
            "union all select r.source, r.session_id from resumed_sessions r join temp.chosen ch "
            "on ch.id = r.conversation_id order by 1, 2"
        ):
            if (source, session) not in sessions:
                sessions[source, session] = _unique(
                    self.texts.redact(session, "conversations.session_id"), taken, sources[source]
                )
        return sessions

    def _conversation(
        self,
        row: dict[str, Any],
        sources: dict[str, str],
        projects: dict[int, int],
        sessions: dict[tuple[str, str], str],
    ) -> dict[str, Any]:
        source = row["source"]
        parent = sessions.get((source, row["parent_session_id"] or ""))
        fixed = {
            "id": row["new_id"],
            "source": sources[source],
            "session_id": sessions[source, row["session_id"]],
            "project_id": projects.get(row["project_id"]),
            "parent_id": self.chosen.get(row["parent_id"]),
            "parent_session_id": parent,
            "inherits_until": row["inherits_until"] if parent else None,
            "missing_since": None,
        }
        if row["kind"] == "fork" and fixed["parent_id"] is None:
            fixed["kind"] = "main"  # nothing tells of what it went on from
        if row["title"] == self.store.default_title(row["id"]) and row["title_origin"] not in (
            "user",
            "tool",
            "summary",
        ):
            fixed["title"] = ""
        row = self._row(row | {"session_id": "", "parent_session_id": None}, "conversations")
        row["machine"] = self._machine(row["machine"])
        return row | fixed

    # ----------------------------------------------------------------- what is made of the rest

    def _titles(self) -> None:
        """Titles are made of the redacted texts, by the rules of the import: a title that was cut in
        the middle of a secret would not be recognised."""
        self.packed = b"" if self.redactor is None else pickle.dumps(self.redactor.state())
        titles = self.target.execute("select id, name, title from tool_calls").fetchall()
        self._set_titles("tool_calls", [(id_, title, name) for id_, name, title in titles])
        updates = []
        for id_, kind, content, thinking in self.target.execute(
            "select id, kind, content, substr(thinking, 1, 2000) from messages"
        ):
            message = ParsedMessage(uid="", role="", kind=kind, content=content, thinking=thinking)
            title = message_title(message) if content else ""
            if not content or not title or title == f"[{kind}]":
                message.tool_calls = [
                    ParsedToolCall(name=name, input=input_, title=title)
                    for name, input_, title in self.target.execute(
                        "select name, input, title from tool_calls where message_id = ? "
                        "order by position limit 1",
                        (id_,),
                    )
                ]
                message.attachments = [
                    Attachment(kind=kind_, name=name)
                    for kind_, name in self.target.execute(
                        "select kind, name from attachments where message_id = ? "
                        "order by position limit 1",
                        (id_,),
                    )
                ]
                title = message_title(message)
            updates.append((id_, title, f"[{kind}]"))
        self.target.executemany(
            "update messages set title = ? where id = ?",
            [(title, id_) for id_, title, _ in updates],
        )
        self._set_titles("messages", updates)
        store = Store(self.target, "", lambda: "")
        updates = []
        for id_, title in self.target.execute("select id, title from conversations").fetchall():
            if not title:
                store.refresh_title(id_)
            store.refresh_counts(id_)
        titles = self.target.execute("select id, title from conversations").fetchall()
        self._set_titles("conversations", [(*title, "(untitled)") for title in titles])

    def _set_titles(self, table: str, titles: list[tuple[int, str, str]]) -> None:
        """Redacts titles (id, title, another one): a line that was cut out of a redacted text may read
        otherwise by itself."""
        redactor = self.redactor
        if redactor is None:
            return
        rows: Iterable[dict[str, Any]] = (
            {"id": id_, "title": title, "old": title, "other": other}
            for id_, title, other in titles
        )
        for row in self._redacted(rows, table, leave=("old", "other")):
            title = row["title"]
            if title == row["old"]:
                continue
            if redactor.findings(title) or redactor.redact(title) != title:
                title = row["other"]  # what the check would not let pass
            self.target.execute(f"update {table} set title = ? where id = ?", (title, row["id"]))

    def _derived(self) -> None:
        """Indexes, full text, daily figures, and the one row that says where all this is from."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self.target.execute(
            "insert into import_runs (started_at, ended_at, version, machine, timezone, options) "
            "values (:now, :now, :version, 'published', :zone, :options)",
            {
                "now": now,
                "version": _version(),
                "zone": usage.local_zone(),
                "options": json.dumps({"published": True, "redacted": self.options.redact}),
            },
        )
        search.build_fts(self.target)
        self.target.execute("drop table messages_cjk")
        search.build_cjk(self.target)
        ensure_late_indexes(self.target)
        usage.refresh(self.target, ())
        self.report.rows["daily_usage"] = self.target.execute(
            "select count(*) from daily_usage"
        ).fetchone()[0]
        self.target.execute("pragma analysis_limit = 2000")
        self.target.execute("analyze")


def _unique(value: str, taken: set[str], scope: str = "") -> str:
    """A value that no other one of its scope has: redaction may have made two equal."""
    result, number = value, 1
    while f"{scope}\0{result}" in taken:
        number += 1
        result = f"{value}-{number}"
    taken.add(f"{scope}\0{result}")
    return result


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("datasette-crystal")
    except PackageNotFoundError:
        return "unknown"


# --------------------------------------------------------------------------- the check


def _verify(
    source: sqlite3.Connection, path: Path, redactor: Redactor, jobs: Jobs, report: Report
) -> None:
    """Looks for secrets and for everything that was replaced in the bytes of the new file, and in its
    texts, where a long one is not cut by the end of a page."""
    packed = pickle.dumps(redactor.state())
    harmless = _Texts(redactor).harmless
    in_bytes = list(jobs.scan([path]))
    connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True)
    chosen = {
        new: (source_, session, old, title)
        for new, source_, session, old, title in source.execute(
            "select ch.new, c.source, c.session_id, c.id, c.title from temp.chosen ch "
            "join conversations c on c.id = ch.id"
        )
    }
    owners = {
        "conversations": "t.id",
        "attachments": "(select m.conversation_id from messages m where m.id = t.message_id)",
    }
    waiting: deque[tuple[list[tuple[str, Any]], Future[list[list[str]]]]] = deque()

    def collect() -> None:
        places, results = waiting.popleft()
        for (where, conversation), kinds in zip(places, results.result(), strict=True):
            for kind in kinds:
                _add_found(report, redactor, where, kind, chosen.get(conversation))

    try:
        for table in (*COPIED, "import_runs"):
            names = _columns(connection, table)
            owner = owners.get(table) or (
                "t.conversation_id" if "conversation_id" in names else "null"
            )
            for batch in _batches(
                _rows(connection, f"select t.*, {owner} as its_conversation from {table} t")
            ):
                places: list[tuple[str, Any]] = []
                texts: list[tuple[str, bool]] = []
                seen: set[tuple[str, str]] = set()
                for row in batch:
                    conversation = row["its_conversation"]
                    for name in names:
                        value, where = row[name], f"{table}.{name}"
                        if isinstance(value, bytes):
                            for kind in _in_blob(value, redactor):
                                _add_found(report, redactor, where, kind, chosen.get(conversation))
                            value = _text_of(value)[0]
                        if not isinstance(value, str) or (name, value) in seen or harmless(value):
                            continue
                        seen.add((name, value))
                        places.append((where, conversation))
                        texts.append((value, not redactor.is_clean(value)))
                waiting.append((places, jobs.check(packed, texts)))
                if len(waiting) > 2 * jobs.jobs:
                    collect()
        while waiting:
            collect()
        in_texts = bool(report.found)
        for part in in_bytes:
            for encoding, kind in part.result():
                _add_found(report, redactor, f"the file ({encoding})", kind)
        if report.found and not in_texts:
            for where, conversation, data in _all_bytes(connection, owners):
                for kind in _in_blob(data, redactor):
                    _add_found(report, redactor, where, kind, chosen.get(conversation))
    finally:
        connection.close()


def _all_bytes(
    connection: sqlite3.Connection, owners: dict[str, str]
) -> Iterator[tuple[str, Any, bytes]]:
    """(where, conversation, bytes) of every value: to say in which one something is that was only
    found in the bytes of the file."""
    for table in COPIED:
        names = _columns(connection, table)
        owner = owners.get(table) or ("t.conversation_id" if "conversation_id" in names else "null")
        for row in _rows(connection, f"select t.*, {owner} as its_conversation from {table} t"):
            for name in names:
                value = row[name]
                if isinstance(value, (str, bytes)) and len(value) >= 8:
                    data = (
                        value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
                    )
                    yield f"{table}.{name}", row["its_conversation"], data


def _in_blob(value: bytes, redactor: Redactor) -> Iterator[str]:
    for finding in scan_bytes(value, redactor.rules, known=redactor.values):
        if not is_placeholder(finding.value) and not redactor.keeps_bytes(finding.value):
            yield finding.kind


def _add_found(
    report: Report,
    redactor: Redactor,
    where: str,
    kind: str,
    conversation: tuple[str, str, int, str] | None = None,
) -> None:
    report.found[where, kind] += 1
    if conversation is None:
        return
    source, session, number, title = conversation
    name = f"{source}/{session}"
    if redactor.redact(name) != name:
        name = str(number)
    if name not in report.titles:
        title = first_line(redactor.redact(title), 60)
        report.titles[name] = "" if redactor.findings(title) else title
    names = report.conversations.setdefault((where, kind), [])
    if name not in names:
        names.append(name)


def _write_site(path: Path, jobs: Jobs | None, options: Options, report: Report) -> Path | None:
    """Writes the static site beside its place and checks the bytes of every file of it."""
    from .static_site import SiteError, draft_of

    assert options.static is not None
    write_site = site_writer()
    site = draft_of(options.static.resolve())
    try:
        report.static_files = write_site(
            path, site, title=options.title, jobs=jobs.jobs if jobs else options.jobs
        ).files
        if jobs is not None:
            files = [file for file in sorted(site.rglob("*")) if file.is_file()]
            for part in list(jobs.scan(files)):
                for encoding, kind in part.result():
                    report.found[f"the site ({encoding})", kind] += 1
            report.verified = not report.found
    except SiteError as error:
        shutil.rmtree(site, ignore_errors=True)
        raise PublishError(str(error)) from None
    except BaseException:
        shutil.rmtree(site, ignore_errors=True)
        raise
    return site


def site_writer() -> Callable[..., Any]:
    """The function that writes a static site; only here does anything of Datasette come in."""
    from .static_site import write_site

    return write_site


def _place_site(site: Path, place: Path, database: Path) -> None:
    """Moves a checked site to its place; where a site is already, that one is brought up to date."""
    from .static_site import SiteError, place_site

    try:
        place_site(site, place)
    except SiteError as error:
        raise PublishError(f"{database} was published, but not the site: {error}") from None


# --------------------------------------------------------------------------- metadata.yml


def metadata_text(name: str, title: str | None = None, redacted: bool = True) -> str:
    """What is written beside the new database: a start for its own ``metadata.yml``."""
    replaced = (
        "Names, paths and secrets were\n"
        "  replaced by placeholders: user-1, host-1, [secret:kind:fingerprint]."
        if redacted
        else "Nothing was redacted."
    )
    return f"""{_MARK}: a start for your own; it is not overwritten once you take this line away.
#
#   datasette {name}.db -m metadata.yml
#
# The plugin brings descriptions, facets and saved queries; this file adds what readers should know.
# Everybody who can open the database can read all of it:
# * allow_sql: true lets readers write SQL of their own. The database holds nothing but what you
#   published, so that is safe; with false they have the pages, tables and saved queries.
#   Datasette 1.0 takes allow_sql in datasette.yml (-c), Datasette 0.65 takes it here.
# * `--setting allow_download off` takes the link to the file away. Datasette serves the file only
#   when it is opened with -i, as published instances do. Datasette Lite downloads it in any case.
# * `--cors` lets pages of other sites read it: Datasette Lite needs that of the server that the
#   file lies on.
title: {json.dumps(title or "Conversations with AI coding tools", ensure_ascii=False)}
description: >-
  A selection of conversations, published with datasette-crystal. {replaced}
databases:
  {json.dumps(name)}:
    allow_sql: true
"""


def _write_metadata(out: Path, options: Options, report: Report) -> None:
    """Writes ``metadata.yml`` beside ``out``, unless there is one that is not ours. The database is in
    its place by then, so a file that can't be written is a note in the report."""
    path = out.with_name("metadata.yml")
    try:
        if os.path.lexists(path) and not path.read_text("utf-8", "replace").startswith(_MARK):
            report.notes.append(
                f"{path} left alone: it is not ours. Publish into a folder of its own to get one."
            )
            return
        path.write_text(metadata_text(out.stem, options.title, options.redact), encoding="utf-8")
        report.metadata = str(path)
    except OSError as error:
        report.notes.append(f"{path} was not written: {error.strerror or error}")
