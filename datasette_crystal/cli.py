"""The ``datasette crystal`` commands, thin over the library."""

from __future__ import annotations

import os
import platform
import re
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from .model import Environment

DEFAULT_DATABASE = "crystal.db"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: object) -> str:
    """Text that does nothing to a terminal: file names and titles come from elsewhere."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text)).replace("\n", " ")


def echo(text: str = "", err: bool = False) -> None:
    """Prints a line, also where the terminal cannot show all of its characters."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), err=err)


def table(rows: list[list[Any]], right: set[int] | None = None) -> None:
    """Prints rows as aligned columns; the first row is the heading."""
    right = right or set()
    texts = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))]
    for row in texts:
        line = "  ".join(
            cell.rjust(widths[i]) if i in right else cell.ljust(widths[i])
            for i, cell in enumerate(row)
        )
        echo(line.rstrip())


def _parse_roots(values: tuple[str, ...]) -> dict[str, tuple[Path, ...]]:
    roots: dict[str, tuple[Path, ...]] = {}
    for value in values:
        source, separator, directory = value.partition("=")
        if not separator or not source or not directory:
            raise click.BadParameter(
                f"{value!r} should look like codex=/path/to/directory", param_hint="--root"
            )
        path = Path(directory).expanduser()
        if not path.exists():
            raise click.BadParameter(f"{directory} does not exist", param_hint="--root")
        roots[source] = (*roots.get(source, ()), path)
    return roots


def _environment(home: str | None, roots: tuple[str, ...]) -> Environment:
    parsed = _parse_roots(roots)
    if home is None:
        return Environment.current(parsed)
    return Environment.for_home(Path(home).absolute(), parsed)


def _adapters(sources: tuple[str, ...]) -> dict[str, Any]:
    from .plugins import get_adapters

    adapters = get_adapters()
    for source in sources:
        if source not in adapters:
            raise click.BadParameter(
                f"{source!r} is not one of {', '.join(sorted(adapters))}", param_hint="--source"
            )
    return {name: adapters[name] for name in adapters if not sources or name in sources}


_database_argument = click.argument(
    "database", type=click.Path(dir_okay=False), default=DEFAULT_DATABASE
)


def _where_options(command: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "-s",
                "--source",
                "sources",
                multiple=True,
                metavar="SOURCE",
                help="Only this source, such as claude-code or codex. May be repeated.",
            ),
            click.option(
                "--home",
                type=click.Path(exists=True, file_okay=False),
                metavar="DIR",
                help="Look in this home directory instead of your own: a backup, or one copied "
                "from another machine.",
            ),
            click.option(
                "--root",
                "roots",
                multiple=True,
                metavar="SOURCE=DIR",
                help="Also look for SOURCE in this directory, such as codex=/mnt/old/.codex. "
                "May be repeated.",
            ),
        )
    ):
        command = option(command)
    return command


@click.group(name="crystal")
def crystal() -> None:
    """Keep the conversations of your AI coding tools in one SQLite file.

    \b
    datasette crystal import        read them into crystal.db (again and again)
    datasette crystal.db            browse, search and query them
    datasette crystal sources       what is on this machine
    datasette crystal scan          look for secrets in the database
    datasette crystal demo          a database of sample conversations to look at
    datasette crystal serve         import what is new, and open it in the browser
    """


def import_options(command: Any) -> Any:
    """The arguments of ``datasette crystal import`` and ``sqlite-utils crystal-import``."""
    decorators: list[Any] = [
        _database_argument,
        _where_options,
        click.option(
            "--since",
            metavar="DATE",
            help="Only files that were written on or after this day (2026-11-30) or ISO time.",
        ),
        click.option("--full", is_flag=True, help="Read files again that have not changed."),
        click.option(
            "--min-messages",
            type=click.IntRange(min=0),
            default=2,
            show_default=True,
            metavar="N",
            help="Skip conversations with fewer prompts and replies than this.",
        ),
        click.option(
            "--machine",
            metavar="NAME",
            help="Name of the machine that the files come from.  [default: this one's]",
        ),
        click.option(
            "--dry-run", is_flag=True, help="Only tell what would be read; write nothing."
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing but problems."),
        click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON."),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@crystal.command(name="import", short_help="Read the conversations on this machine.")
@import_options
def import_command(**options: Any) -> None:
    """Read the conversations on this machine into DATABASE (crystal.db unless given).

    Files that have not changed are skipped, so run it as often as you like: what was imported stays,
    also after a tool has deleted its own files. The tools' files are only ever read.

    \b
    Examples:
      datasette crystal import
      datasette crystal import all.db --source codex --min-messages 1
      datasette crystal import all.db --home /mnt/laptop/home/ana --machine laptop

    The exit code is 1 when something could not be opened that another try might open (the rest is
    imported all the same); damaged, encrypted and foreign files are only reported.
    """
    import_conversations(**options)


def import_conversations(
    database: str,
    sources: tuple[str, ...],
    home: str | None,
    roots: tuple[str, ...],
    since: str | None,
    full: bool,
    min_messages: int,
    machine: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """The body of both import commands. Raises :class:`click.ClickException` or exits with 1."""
    from .importer import Options, parse_since, run_import
    from .store import StoreError

    adapters = _adapters(sources)
    env = _environment(home, roots)
    unknown = set(env.roots) - set(_adapters(()))
    if unknown:
        raise click.BadParameter(
            f"{unknown.pop()!r} is not one of {', '.join(sorted(_adapters(())))}",
            param_hint="--root",
        )
    if machine is not None and not machine.strip():
        raise click.BadParameter("wants a name", param_hint="--machine")
    if since is not None:
        try:
            parse_since(since)
        except StoreError as error:
            raise click.BadParameter(str(error), param_hint="--since") from None
    options = Options(
        sources=tuple(sources),
        since=since,
        full=full,
        min_messages=min_messages,
        machine=machine or platform.node() or "unknown",
        dry_run=dry_run,
    )
    bar = _ProgressBar() if not quiet and not as_json and sys.stderr.isatty() else None
    try:
        report = run_import(database, env, adapters, options, bar.update if bar else None)
    except (StoreError, OSError) as error:
        raise click.ClickException(printable(error)) from None
    except KeyboardInterrupt:
        if bar:
            bar.close()
            bar = None
        echo(err=True)
        echo("Stopped. What was read so far is stored; run it again to go on.", err=True)
        raise SystemExit(130) from None
    finally:
        if bar:
            bar.close()
    # what cannot be read is no news every night
    for problem in report.new_problems if quiet else report.problems:
        echo(printable(problem), err=True)
    if as_json:
        _print_json(report, database, dry_run)
    elif not quiet:
        _print_report(report, database, min_messages, dry_run, since=since)
    if report.errors:
        sys.exit(1)


class _ProgressBar:
    """Conversations read, on standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._done = 0

    def update(self, done: int, total: int, size: int) -> None:
        if self._bar is None:
            self._bar = click.progressbar(
                length=total, label="Importing conversations", file=sys.stderr
            )
            self._bar.__enter__()
        self._bar.update(done - self._done)
        self._done = done

    def close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


def _print_json(report: Any, database: str, dry_run: bool) -> None:
    import json
    from dataclasses import asdict

    click.echo(
        json.dumps(
            {
                "database": database,
                "dry_run": dry_run,
                "changed": report.changed,
                "sources": {name: asdict(source) for name, source in report.sources.items()},
                "problems": [printable(problem) for problem in report.problems],
            },
            indent=2,
        )
    )


def _print_report(
    report: Any,
    database: str,
    min_messages: int,
    dry_run: bool,
    next_step: bool = True,
    since: str | None = None,
) -> None:
    fields = ["new", "updated", "unchanged", "skipped", "errors"]
    if any(source.unreadable for source in report.sources.values()):
        fields.append("unreadable")
    found = [
        source
        for source in report.sources.values()
        if any(getattr(source, name) for name in [*fields, "missing", "to_read"])
    ]
    for source in report.sources.values():
        for line in source.away:
            echo(printable(f"{source.name}: {line}."))
    if not found:
        if since:
            echo(f"Nothing was written since {since}.")
        elif not any(source.away for source in report.sources.values()):
            echo("No conversations found. `datasette crystal sources` tells where it looks.")
            if next_step:
                echo("`datasette crystal demo` makes a database of sample conversations.")
        return
    if dry_run:
        for source in found:
            echo(f"{source.name}: {_number(source.to_read, 'file')} to read.")
        echo()
        echo("Nothing was written (--dry-run).")
        return
    rows: list[list[Any]] = [["Source", *(name.capitalize() for name in fields)]]
    rows += [[source.name, *(getattr(source, name) for name in fields)] for source in found]
    if len(found) > 1:
        rows.append(["Total", *(sum(getattr(source, name) for source in found) for name in fields)])
    table(rows, right=set(range(1, len(fields) + 1)))
    skipped = sum(source.skipped for source in found)
    missing = sum(source.missing for source in found)
    malformed = sum(source.malformed_records for source in found)
    unknown = sum(source.unknown_records for source in found)
    unread = report.errors + sum(source.unreadable for source in found)
    notes = []
    short = sum(source.short for source in found)
    if short and min_messages > 1:
        notes.append(
            f"{_number(short, 'conversation')} skipped, with fewer than {min_messages} prompts and "
            "replies: `--min-messages 1` brings them in."
        )
    elif short:
        notes.append(f"{_number(short, 'conversation')} skipped, without any prompt or reply.")
    if skipped > short:
        notes.append(f"{_number(skipped - short, 'file')} skipped, with no conversation in it.")
    if missing:
        notes.append(
            f"{_number(missing, 'file')} deleted by the tool since the last import; the history stays."
        )
    for machine in sorted({name for source in found for name in source.other_machines}):
        number = sum(source.other_machines.get(machine, 0) for source in found)
        notes.append(
            f"{_number(number, 'conversation')} of these came from the machine {machine!r} before, "
            "and stay its own."
        )
    log_command = f"`datasette crystal log {_quoted(database)}`"
    if malformed or unknown:
        parts = [
            _number(number, f"{what} record")
            for number, what in ((malformed, "malformed"), (unknown, "unknown"))
            if number
        ]
        notes.append(f"{' and '.join(parts)}: {log_command}")
    if unread:
        notes.append(f"{_number(unread, 'file')} could not be read: {log_command}")
    if notes:
        echo()
    for note in notes:
        echo(printable(note))
    if report.changed and next_step:
        echo()
        echo(f"Now run: datasette {_quoted(database)}")
    elif not report.changed:
        echo()
        echo(f"{printable(database)} is up to date.")


def _number(number: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _quoted(path: str) -> str:
    """A path as one may paste it into a shell."""
    import shlex

    if sys.platform == "win32":
        return f'"{path}"' if " " in path else path
    return printable(shlex.quote(path)) if not path.isascii() or " " in path else printable(path)


@crystal.command(short_help="What is on this machine, and what can't be read.")
@_where_options
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def sources(
    sources: tuple[str, ...], home: str | None, roots: tuple[str, ...], as_json: bool
) -> None:
    """What is on this machine: where, how many conversations, and what can't be read and why."""
    env = _environment(home, roots)
    found: list[tuple[str, str, Any, str]] = []
    for name, adapter in _adapters(sources).items():
        try:
            info = adapter.detect(env)
            if info is not None and info.conversations is None:
                info.conversations = _count_conversations(adapter, env)
            found.append((name, adapter.display_name, info, ""))
        except (OSError, ValueError) as broken:
            found.append((name, adapter.display_name, None, str(broken)))
    if as_json:
        import json

        click.echo(
            json.dumps(
                {
                    name: None
                    if info is None
                    else {
                        "name": display,
                        "roots": [str(root) for root in info.roots],
                        "conversations": info.conversations,
                        "oldest": info.oldest,
                        "newest": info.newest,
                        "unreadable": [
                            {"path": item.path, "reason": item.reason} for item in info.unreadable
                        ],
                        "warnings": info.warnings,
                    }
                    for name, display, info, _ in found
                },
                indent=2,
            )
        )
        return
    rows: list[list[Any]] = [["Source", "Conversations", "Oldest file", "Newest file", "Where"]]
    for name, display, info, error in found:
        if info is None:
            places = getattr(_adapters(())[name], "places", "")
            where = f"cannot be searched: {error}" if error else "not found"
            rows.append([display, "-", "", "", f"{where} in {places}" if places else where])
            continue
        for index, root in enumerate(info.roots or [Path()]):
            first = index == 0
            rows.append(
                [
                    display if first else "",
                    ("?" if info.conversations is None else info.conversations) if first else "",
                    _local_day(info.oldest) if first else "",
                    _local_day(info.newest) if first else "",
                    root,
                ]
            )
    table(rows, right={1})
    for _, display, info, _ in found:
        if info is None:
            continue
        for warning in info.warnings:
            echo()
            echo(printable(warning))
        for item in info.unreadable:
            echo()
            echo(printable(f"{display}: {item.path} can't be read: {item.reason}"))


def _count_conversations(adapter: Any, env: Environment) -> int:
    from .model import ConversationMeta

    try:
        return sum(isinstance(item, ConversationMeta) for item in adapter.scan(env))
    finally:
        close = getattr(adapter, "close", None)
        if close is not None:
            close()


def _local_day(time: str | None) -> str:
    if not time:
        return ""
    moment = datetime.fromisoformat(time[:-1] + "+00:00" if time.endswith("Z") else time)
    return moment.astimezone().strftime("%Y-%m-%d")


@crystal.command(short_help="What the imports met: failures, skipped files, unknown records.")
@_database_argument
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many files.",
)
@click.option("--all", "everything", is_flag=True, help="Also files that were imported whole.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def log(database: str, limit: int, everything: bool, as_json: bool) -> None:
    """What the imports of DATABASE met: files that failed, were skipped, or hold records that are
    malformed or of an unknown type. The newest outcome of each file: failures first, then newest
    first."""
    from .store import StoreError, open_readonly

    try:
        connection = open_readonly(database)
    except StoreError as error:
        raise click.ClickException(printable(error)) from None
    columns = (
        "l.created_at, s.name, l.status, l.file_path, l.message, l.records, l.kept_records, "
        "l.ignored_records, l.unknown_records, l.malformed_records"
    )
    telling = "l.status not in ('imported', 'updated') or l.unknown_records > 0 or l.malformed_records > 0"
    select = (
        "from import_log l join sources s on s.id = l.source where l.id in "
        f"(select max(id) from import_log group by source, file_path) and ({telling} or :all)"
    )
    rows = connection.execute(
        f"select {columns} {select} order by l.status not in ('error', 'unreadable'), l.id desc "
        "limit :limit",
        {"all": everything, "limit": limit},
    ).fetchall()
    total = connection.execute(f"select count(*) {select}", {"all": everything}).fetchone()[0]
    unknown = dict(
        connection.execute(
            "select f.path || case f.part when '' then '' else '#' || f.part end, "
            "group_concat(u.location || ': ' || u.type, '; ') from unknown_records u "
            "join source_files f on f.id = u.source_file_id group by f.id"
        ).fetchall()
    )
    connection.close()
    names = [name.partition(".")[2] for name in columns.split(", ")]
    names[1] = "source"
    if as_json:
        import json

        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return
    if not rows:
        echo("No imports yet." if everything else "Nothing to tell: every file was read whole.")
        return
    output: list[list[Any]] = [
        ["When", "Source", "Status", "Records", "Unknown", "Malformed", "File"]
    ]
    for row in rows:
        why = row[4] or unknown.get(row[3]) or ""
        output.append(
            [
                _local_time(row[0]),
                *row[1:3],
                *("" if value is None else value for value in (row[5], row[8], row[9])),
                f"{row[3]}{': ' + why if why else ''}",
            ]
        )
    table(output, right={3, 4, 5})
    if total > len(rows):
        echo()
        echo(f"{_number(total - len(rows), 'more file')}: `--limit {total}` shows all.")


def _local_time(time: str) -> str:
    """A stored time in the local zone, to the minute."""
    return datetime.fromisoformat(time[:-1] + "+00:00").astimezone().strftime("%Y-%m-%d %H:%M")


class _ScanFailed(click.ClickException):
    """No answer: told apart from "there are secrets", which is 1."""

    exit_code = 2


@crystal.command(short_help="Look for secrets in a database.")
@_database_argument
@click.option(
    "--rules",
    "rules_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Rules of your own in YAML or JSON, besides the built-in ones.",
)
@click.option(
    "-k", "--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind. May be repeated."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every place as JSON, without a limit.")
def scan(
    database: str, rules_file: str | None, kinds: tuple[str, ...], limit: int, as_json: bool
) -> None:
    """Look for secrets in DATABASE (crystal.db unless given): keys, tokens, passwords and private
    keys, in every text of every table. No secret is printed: only its kind, where it stands, its
    length and, of a long one, its first four characters.

    The exit code is 0 when nothing was found, 1 when something was, and 2 when DATABASE or the rules
    can't be read.
    """
    from .scan import scan_database
    from .secret_rules import RULES, RuleError, load_rules
    from .store import StoreError

    rules = RULES
    try:
        if rules_file is not None:
            rules = (*load_rules(rules_file), *RULES)
    except RuleError as error:
        raise _ScanFailed(printable(error)) from None
    known = sorted({rule.kind for rule in rules})
    for kind in kinds:
        if kind not in known:
            raise click.BadParameter(
                f"{kind!r} is not one of {', '.join(known)}", param_hint="--kind"
            )
    try:
        places = [
            place
            for place in scan_database(database, rules)
            if not kinds or place.finding.kind in kinds
        ]
    except StoreError as error:
        raise _ScanFailed(printable(error)) from None
    _print_places(places, limit, as_json)
    if places:
        sys.exit(1)


def _print_places(places: list[Any], limit: int, as_json: bool) -> None:
    from .scan import shown_title

    values: dict[tuple[Any, Any], set[str]] = {}
    for place in places:
        values.setdefault((place.source, place.session_id), set()).add(place.finding.value)

    def title(place: Any) -> str:
        return shown_title(place.title or "", values[place.source, place.session_id])

    if as_json:
        import json

        shown = [
            {
                "kind": place.finding.kind,
                "table": place.table,
                "column": place.column,
                "key": list(place.key),
                "start": place.finding.start,
                "end": place.finding.end,
                "preview": place.finding.preview,
                "source": place.source,
                "session_id": place.session_id,
                "title": title(place) if place.title is not None else None,
            }
            for place in places
        ]
        click.echo(json.dumps(shown, indent=2))
        return
    if not places:
        echo("No secrets found.")
        return
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for place in places:
        key = (place.finding.kind, place.finding.value, place.source, place.session_id)
        groups.setdefault(key, []).append(place)
    rows: list[list[Any]] = [["Kind", "Secret", "Places", "Where", "Conversation"]]
    for key, group in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        first = group[0]
        where = ", ".join(dict.fromkeys(f"{place.table}.{place.column}" for place in group))
        conversation = f"{first.source}: {title(first)[:60]}" if first.source else ""
        rows.append([key[0], first.finding.preview, len(group), where, conversation])
    table(rows[: limit + 1], right={2})
    echo()
    if len(rows) - 1 > limit:
        echo(f"{_number(len(rows) - 1 - limit, 'more line')}: `--limit {len(rows) - 1}` shows all.")
    secrets = len({(kind, value) for kind, value, _, _ in groups})
    sessions = len({key[2:] for key in groups if key[2] is not None})
    echo(
        f"{_number(secrets, 'secret')} in {_number(len(places), 'place')} of "
        f"{_number(sessions, 'conversation')}. Whoever gets this file gets them."
    )


@crystal.command(short_help="A database of sample conversations to look at.")
@click.argument("database", type=click.Path(dir_okay=False), default="demo.db")
def demo(database: str) -> None:
    """Make DATABASE (demo.db unless given) from the sample conversations that come with
    datasette-crystal: every feature, to look at before you import your own."""
    path = Path(database)
    if path.exists() and path.stat().st_size:
        raise click.ClickException(
            f"{printable(database)} is there already: open it with `datasette {_quoted(database)}`, "
            "or name another file"
        )
    echo(f"{make_demo(path)} sample conversations in {printable(database)}.")
    echo()
    echo(f"Now run: datasette {_quoted(database)}")


def make_demo(path: Path) -> int:
    """Imports the sample conversations into ``path``; returns how many there are."""
    from .importer import Options, run_import
    from .samples import SHOWN_HOME, sample_home, shown_at
    from .store import StoreError

    try:
        with sample_home() as home:
            report = run_import(
                path,
                Environment.for_home(home),
                shown_at(_adapters(()), home, SHOWN_HOME),
                Options(min_messages=1, machine="demo"),
            )
    except (StoreError, OSError) as error:
        raise click.ClickException(printable(error)) from None
    return sum(source.new + source.unchanged for source in report.sources.values())


@crystal.command(short_help="Import what is new, then open it in Datasette.")
@_database_argument
@click.option(
    "-p",
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="Port of the web server.",
)
@click.option("--open/--no-open", "open_browser", default=True, help="Open the browser, or don't.")
@click.option("--get", "get_path", metavar="PATH", help="Print this page instead of serving.")
def serve(database: str, port: int, open_browser: bool, get_path: str | None) -> None:
    """Import what is new into DATABASE (crystal.db unless given), then open it in Datasette. On a
    machine without any conversations it shows the sample conversations, in demo.db.

    For anything else that Datasette can do, run `datasette crystal.db` with its own options.
    """
    from datasette.cli import cli as datasette_cli

    from .importer import Options, run_import
    from .store import StoreError

    port = port or _free_port()
    if not get_path and not _is_free(port):
        raise click.ClickException(
            f"port {port} is in use, perhaps by a Datasette that runs already; "
            f"choose another: --port {port + 1 if port < 65535 else 8001}"
        )
    try:
        report = run_import(
            database,
            _environment(None, ()),
            _adapters(()),
            Options(machine=platform.node() or "unknown"),
        )
    except (StoreError, OSError) as error:
        raise click.ClickException(printable(error)) from None
    for problem in report.problems:
        echo(printable(problem), err=True)
    if not get_path:
        _print_report(report, database, Options.min_messages, dry_run=False, next_step=False)
    if not _has_conversations(database):
        database = "demo.db"
        number = make_demo(Path(database))
        if not get_path:
            echo(f"Here are {number} sample conversations instead ({database}).")
    arguments = ["serve", database, "--port", str(port)]
    for setting, value in (("suggest_facets", "off"), ("truncate_cells_html", "400")):
        arguments += ["--setting", setting, value]
    if get_path:
        arguments += ["--get", get_path]
    else:
        address = f"http://127.0.0.1:{port}{_overview_path(database)}"
        echo(f"The overview: {address}")
        if open_browser:
            threading.Thread(target=_open_once_served, args=(port, address), daemon=True).start()
    datasette_cli.main(arguments, standalone_mode=False)


def _overview_path(database: str) -> str:
    """The path of the overview of a database file that Datasette serves."""
    from datasette.utils import tilde_encode

    return f"/{tilde_encode(Path(database).stem)}/-/crystal"


def _open_once_served(port: int, address: str) -> None:
    """Opens the browser once the server answers. Datasette's own ``--open`` knows of its own pages
    only, and opens before it serves."""
    import socket
    import time
    import webbrowser

    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            webbrowser.open(address)
            return


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        if os.name == "posix":  # as the server does; elsewhere it means something else
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _has_conversations(database: str) -> bool:
    from .store import StoreError, open_readonly

    try:
        connection = open_readonly(database)
    except StoreError:
        return False
    try:
        tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
        return bool(tables and connection.execute("select 1 from conversations limit 1").fetchone())
    finally:
        connection.close()


@crystal.command(short_help="The tables and columns, and what they mean.")
@click.option("--sql", is_flag=True, help="Print the create statements instead.")
def schema(sql: bool) -> None:
    """The tables and columns of a crystal database, and what they mean."""
    if sql:
        import sqlite3

        from sqlite_utils import Database

        from .migrations import ensure_late_indexes, migrations

        connection = sqlite3.connect(":memory:")
        migrations.apply(Database(connection))
        ensure_late_indexes(connection)
        # not the tables that SQLite's full-text search keeps for itself
        for (statement,) in connection.execute(
            "select sql from sqlite_master where sql is not null "
            "and name not like 'messages\\_cjk\\_%' escape '\\'"
        ):
            echo(f"{statement};")
        return
    from .schema import schema_markdown

    echo(schema_markdown())


def _register() -> None:
    """Adds the commands that have files of their own."""
    from .publish_cli import publish_command

    crystal.add_command(publish_command)

    from .notebook_files import notebook

    crystal.add_command(notebook)


_register()
