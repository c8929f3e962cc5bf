"""The overview of a crystal database: figures, an activity map, charts over time, tools, files,
projects and the health of the import. All of it comes from ``daily_usage`` and from indexes, and
every number leads to the rows that it was made of.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from functools import cached_property, partial
from typing import Any
from urllib.parse import urlencode

from .. import model
from . import charts, cost
from .numbers import dollars, percent, short, whole
from .pages import guarded, in_thread, may_see, open_database, render
from .urls import OVERVIEW, conversation_url, overview_url

#: Everything that the page cannot do without, and what its optional parts are made of.
TABLES = (
    "sources",
    "projects",
    "conversations",
    "messages",
    "tool_calls",
    "daily_usage",
)
FILES = ("file_edits", "file_history")
HEALTH = ("import_health", "import_log", "source_files")

PRESETS = (7, 30, 90)
DIMENSIONS = {"source": "source", "project": "project", "model": "model"}
MEASURES = ("conversations", "prompts", "tokens", "cost")

#: Days before this one are a wrong clock's: they count, and are not drawn.
FIRST_DAY = date(2020, 1, 1)
#: The colours of the tools, which ``c-source-…`` of the stylesheets have, too.
SOURCE_COLOURS = {
    "copilot": 0,
    "claude-code": 1,
    "codex": 2,
    "cursor": 3,
    "trae": 4,
    "cursor-cli": 6,
    "trae-cli": 7,
}
#: Series of a chart; what is left is the last one, "other".
_SERIES = 5
_MOST_ROWS = 400_000
_MOST_PROJECTS = 1_000
#: Names longer than this make no link: no server takes it.
_LONGEST = 1_000
_OFFSET = re.compile(r"\(([+-])(\d\d):(\d\d)\)")


# --------------------------------------------------------------------------- filters


@dataclass(frozen=True)
class Filters:
    """What the address asks for. ``since`` and ``until`` are the first and last day, or ``None``."""

    since: date | None = None
    until: date | None = None
    days: int | None = None
    source: str = ""
    project: int | None = None
    by: str = "source"

    @property
    def narrowed(self) -> bool:
        return bool(self.since or self.until or self.source or self.project is not None)

    def parameters(self, **changes: Any) -> dict[str, str]:
        """The query string of these filters with changes; ``None`` takes one away."""
        given: dict[str, Any] = {
            "days": self.days,
            "from": None if self.days else self.since,
            "to": None if self.days else self.until,
            "source": self.source,
            "project": self.project,
            "by": None if self.by == "source" else self.by,
        } | changes
        return {name: str(value) for name, value in given.items() if value not in (None, "")}


def read_filters(arguments: Mapping[str, str], newest: date | None) -> tuple[Filters, list[str]]:
    """The filters of an address, and what in it could not be understood. ``days`` counts back from
    ``newest``, the last day on which anything happened: an archive stays readable."""
    problems: list[str] = []

    def day(name: str) -> date | None:
        text = arguments.get(name, "").strip()
        if not text:
            return None
        try:
            if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
                raise ValueError
            return date.fromisoformat(text)
        except ValueError:
            problems.append(f"“{text[:40]}” is not a date such as 2026-11-30.")
            return None

    def number(name: str, most: int) -> int | None:
        text = arguments.get(name, "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19 and 0 <= int(text) <= most):
            problems.append(f"“{text[:40]}” is not a number for {name}.")
            return None
        return int(text)

    since, until = day("from"), day("to")
    if since and until and since > until:
        since, until = until, since
    days = number("days", 36_500) or None
    if since or until:
        days = None
    elif days:
        until = newest
        since = (
            newest - timedelta(days=min(days, (newest - date.min).days + 1) - 1) if newest else None
        )
    by = arguments.get("by", "source")
    return (
        Filters(
            since,
            until,
            days,
            arguments.get("source", "")[:200],
            number("project", 2**62),
            by if by in DIMENSIONS else "source",
        ),
        problems,
    )


# --------------------------------------------------------------------------- time zone


def utc_range(first: date, last: date, zone: str) -> tuple[str, str]:
    """When the days from ``first`` to ``last`` begin and end, in UTC. ``zone`` is
    ``import_runs.timezone``; where this machine keeps the same one, its summer time is known too."""

    def moment(day: date) -> str:
        midnight = datetime(day.year, day.month, day.day)
        try:
            utc = (
                midnight.astimezone() if same else midnight.replace(tzinfo=fixed_offset(zone))
            ).astimezone(timezone.utc)
        except (OverflowError, ValueError, OSError):
            utc = midnight
        return utc.strftime("%Y-%m-%dT%H:%M:%S.000Z").zfill(24)

    from ..usage import local_zone

    same = zone == local_zone()
    after = last + timedelta(days=1) if last < date.max else last
    return moment(first), moment(after)


def fixed_offset(zone: str) -> timezone:
    """The offset in a zone such as ``CET (+01:00)``; UTC when there is none."""
    found = _OFFSET.search(zone)
    if not found:
        return timezone.utc
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return (
        timezone(offset if found[1] == "+" else -offset)
        if offset < timedelta(hours=24)
        else timezone.utc
    )


def local_time(timestamp: str | None, zone: str) -> str:
    """A UTC time of the database as people of that zone read it: ``3 Nov 2026, 14:05``."""
    from ..usage import local_zone

    try:
        moment = datetime.fromisoformat((timestamp or "").replace("Z", "+00:00"))
        there = (
            moment.astimezone() if zone == local_zone() else moment.astimezone(fixed_offset(zone))
        )
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{charts.day_text(there.date())}, {there:%H:%M}"


def clip(text: str, most: int = 80) -> str:
    """A text of one line, at most so long."""
    text = " ".join(text[: 2 * most].split())
    return text if len(text) <= most else text[: most - 1] + "…"


# --------------------------------------------------------------------------- adding up


@dataclass
class Sums:
    """What rows of ``daily_usage`` add up to. Costs are dollars: ``recorded`` by the tools,
    ``priced`` from their tokens; ``unpriced`` are tokens of models without a price."""

    conversations: int = 0
    prompts: int = 0
    replies: int = 0
    tool_calls: int = 0
    errors: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    recorded: float = 0.0
    priced: float = 0.0
    unpriced: int = 0
    counted: bool = False
    last: str = ""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def cost(self) -> float:
        return self.recorded + self.priced

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> Sums:
        """Adds up rows that are in the order of the attributes."""
        if not rows:
            return cls()
        columns = list(zip(*rows, strict=True))
        sums: list[Any] = [sum(column) for column in columns[:-2]]
        sums += [any(columns[-2]), max(columns[-1])]
        return cls(*sums)


USAGE = """
select day, source, project_id, model, conversations, prompts, replies, tool_calls, errors,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, cost_origin
from daily_usage
{where}
limit :most
"""


@dataclass
class Added:
    """Rows of ``daily_usage``, added up in every way that the page shows."""

    total: Sums = field(default_factory=Sums)
    by_source: dict[Any, Sums] = field(default_factory=dict)
    by_project: dict[Any, Sums] = field(default_factory=dict)
    by_model: dict[Any, Sums] = field(default_factory=dict)
    #: (day, value of the dimension) → conversations, prompts, tokens, cost
    cells: dict[tuple[date, Any], list[float]] = field(default_factory=dict)
    #: day → prompts, replies, tool calls
    days: dict[date, list[int]] = field(default_factory=dict)
    #: prompts and replies of days that cannot be drawn
    undrawn: int = 0


def add_up(rows: Iterable[Sequence[Any]], by: str, latest: date) -> Added:
    """Adds up rows of :data:`USAGE`. Tokens of conversations whose cost the tool recorded are not
    priced again."""
    added = Added()
    dimension = {"source": 0, "project": 1, "model": 2}[by]
    # (source, project, model) → a row of Sums; thousands of days make few of them
    wholes: dict[tuple[Any, ...], list[Any]] = {}
    days: dict[str, date | None] = {}
    for row in rows:
        text, source, project, name, began, prompts, replies, calls, errors = row[:9]
        input, output, read, write = row[9] or 0, row[10] or 0, row[11] or 0, row[12] or 0
        if text not in days:
            days[text] = _drawable(text, latest)
        day = days[text]
        tokens = input + output + read + write
        listed, unpriced = 0.0, 0
        if tokens and row[14] != "recorded":
            rates = cost.rates(name, text)
            if rates is None:
                unpriced = tokens
            else:
                listed = rates.price(input, output, read, write)
        key = (source, project, name)
        whole_ = wholes.get(key)
        if whole_ is None:
            whole_ = wholes[key] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, False, ""]
        whole_[0] += began
        whole_[1] += prompts
        whole_[2] += replies
        whole_[3] += calls
        whole_[4] += errors
        whole_[5] += input
        whole_[6] += output
        whole_[7] += read
        whole_[8] += write
        whole_[9] += row[13] or 0.0
        whole_[10] += listed
        whole_[11] += unpriced
        whole_[12] = whole_[12] or row[9] is not None or row[10] is not None
        if day is None:
            added.undrawn += prompts + replies
            continue
        if text > whole_[13]:
            whole_[13] = text
        cell = added.cells.get((day, key[dimension]))
        if cell is None:
            cell = added.cells[day, key[dimension]] = [0, 0, 0, 0.0]
        cell[0] += began
        cell[1] += prompts
        cell[2] += tokens
        cell[3] += listed + (row[13] or 0.0)
        counts = added.days.get(day)
        if counts is None:
            counts = added.days[day] = [0, 0, 0]
        counts[0] += prompts
        counts[1] += replies
        counts[2] += calls
    added.total = Sums.of(list(wholes.values()))
    added.by_source = _grouped(wholes, 0)
    added.by_project = _grouped(wholes, 1)
    added.by_model = _grouped(wholes, 2)
    return added


def _grouped(wholes: Mapping[tuple[Any, ...], list[Any]], part: int) -> dict[Any, Sums]:
    groups: dict[Any, list[list[Any]]] = defaultdict(list)
    for key, row in wholes.items():
        groups[key[part]].append(row)
    return {value: Sums.of(rows) for value, rows in groups.items()}


def _drawable(text: str, latest: date) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_DAY <= day <= latest else None


# --------------------------------------------------------------------------- queries

NEWEST = """
select c.title, c.source, c.session_id, c.project_id, c.model, c.kind, c.started_at,
  c.prompt_count, c.message_count, c.tool_call_count
from conversations c
where c.kind not in ('subagent', 'prompt-history'){where}
order by c.started_at desc
limit 12
"""

KINDS = """
select kind, count(*) from conversations c where 1{where} group by kind limit 50
"""

TOOLS = """
select name, count(*), sum(status = 'error'), sum(status in ('ok', 'error')), 0
from tool_calls
group by name
order by 2 desc, name
limit 10
"""

#: "cross join" fixes the order: from the conversations that the filters leave to what they hold.
TOOLS_OF = """
select t.name, count(*), sum(t.status = 'error'), sum(t.status in ('ok', 'error')),
  sum(t.started_at is null)
from conversations c
cross join tool_calls t on t.conversation_id = c.id
where 1{where}
group by t.name
order by 2 desc, t.name
limit 10
"""

FILES_EDITED = """
with most as (
  select path from file_edits group by path order by count(*) desc, path limit 10
)
select e.path, count(*), sum(e.lines_added), sum(e.lines_removed)
from most join file_edits e on e.path = most.path
group by e.path
order by 2 desc, e.path
"""

FILES_EDITED_IN = """
select e.path, count(*), sum(e.lines_added), sum(e.lines_removed)
from conversations c
cross join file_edits e on e.conversation_id = c.id
{messages}
where 1{where}
group by e.path
order by 2 desc, e.path
limit 10
"""

HEALTH_OF = """
select source, name, files, missing_files, failed_files, records, kept_records, ignored_records,
  unknown_records, malformed_records
from import_health
where files > 0 or records > 0
order by files desc
limit 50
"""


@dataclass(frozen=True)
class Scope:
    """The filters as conditions on tables, for SQL and for Datasette's own pages."""

    filters: Filters
    start: str | None
    end: str | None
    project_name: str | None
    may_sql: bool

    def values(self) -> dict[str, Any]:
        return {
            "source": self.filters.source,
            "project": self.filters.project,
            "start": self.start,
            "end": self.end,
            "since": str(self.filters.since or ""),
            "until": str(self.filters.until or ""),
            "most": _MOST_ROWS,
        }

    def where(self, time: str | None, source: str | None, project: str | None) -> str:
        """``and …`` for the filters that are set, on these columns."""
        parts = []
        if time and self.start:
            parts.append(f"{time} >= :start")
        if time and self.end:
            parts.append(f"{time} < :end")
        if source and self.filters.source:
            parts.append(f"{source} = :source")
        if project and self.filters.project is not None:
            parts.append(f"{project} = :project")
        return "".join(f" and {part}" for part in parts)

    def usage_where(self) -> str:
        parts = []
        if self.filters.since:
            parts.append("day >= :since")
        if self.filters.until:
            parts.append("day <= :until")
        if self.filters.source:
            parts.append("source = :source")
        if self.filters.project is not None:
            parts.append("project_id = :project")
        return "where " + " and ".join(parts) if parts else ""

    def times(self, column: str) -> dict[str, str]:
        found = {}
        if self.start:
            found[f"{column}__gte"] = self.start
        if self.end:
            found[f"{column}__lt"] = self.end
        return found

    def days(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.filters.since:
            found["day__gte"] = self.filters.since
        if self.filters.until:
            found["day__lte"] = self.filters.until
        return found | self.source() | self.project()

    def source(self) -> dict[str, Any]:
        return {"source": self.filters.source} if self.filters.source else {}

    def project(self) -> dict[str, Any]:
        if self.filters.project is None:
            return {}
        return {"project_id": self.filters.project}

    def names(self) -> dict[str, Any]:
        """Source and project as the views name them."""
        name = {"project": self.project_name} if self.project_name is not None else {}
        return self.source() | name

    def conversations_where(self, source: bool, histories: bool = False) -> dict[str, str]:
        """For tables that know only their conversation; needs the right to write SQL. With
        ``histories``, prompts of which only a history is left are kept out, as daily_usage does."""
        parts = []
        if histories:
            parts.append("kind <> 'prompt-history'")
        if source and self.filters.source:
            quoted = self.filters.source.replace("'", "''")
            parts.append(f"source = '{quoted}'")
        if self.filters.project is not None:
            parts.append(f"project_id = {self.filters.project}")
        if not parts or not self.may_sql:
            return {}
        return {
            "_where": "conversation_id in (select id from conversations where "
            + " and ".join(parts)
            + ")"
        }


# --------------------------------------------------------------------------- the page


@dataclass(frozen=True)
class Links:
    """Addresses that the page leads to."""

    datasette: Any
    database: str
    scope: Scope
    zone: str

    def table(self, name: str, /, *groups: Mapping[str, Any], **more: Any) -> str:
        """A table or view of Datasette with these filters."""
        values: dict[str, Any] = {}
        for group in (*groups, more):
            values |= group
        values["_nosuggest"] = "1"  # suggesting facets would take two seconds
        return f"{self.datasette.urls.table(self.database, name)}?{urlencode(values)}"

    def query(self, name: str, table: str, **values: Any) -> str:
        """A saved query with its parameters; for those who may not run SQL, ``table`` instead."""
        if not self.scope.may_sql:
            return self.table(table)
        path = self.datasette.urls.query(self.database, name)
        return f"{path}?{urlencode(values)}" if values else str(path)

    def here(self, **changes: Any) -> str:
        """This page with other filters."""
        return overview_url(
            self.datasette, self.database, **self.scope.filters.parameters(**changes)
        )

    def period(self, first: date, last: date) -> str:
        """This page for some days."""
        return self.here(**{"days": None, "from": first, "to": last})

    def messages_of(self, day: date) -> str:
        """The messages of a day. A project is no column of theirs: then it is this page."""
        if self.scope.filters.project is not None and not self.scope.may_sql:
            return self.period(day, day)
        start, end = utc_range(day, day, self.zone)
        times = f"&timestamp__gte={start}&timestamp__lt={end}".replace(":", "%3A")
        return self.all_messages + times

    @cached_property
    def all_messages(self) -> str:
        where = self.scope.conversations_where(source=False)
        return self.table("messages", self.scope.source(), where, _sort="timestamp")

    def usage(self, **more: Any) -> str:
        """The rows of daily_usage that a figure adds up."""
        return self.table("daily_usage", self.scope.days(), more)


async def _overview(datasette: Any, request: Any) -> Any:
    from ..compat import allowed

    db = await open_database(datasette, request, TABLES)
    see = partial(may_see, datasette, request.actor, db.name)
    may_files, may_health, may_runs = [await see(t) for t in (FILES, HEALTH, ("import_runs",))]
    today = date.today()
    first_run, days, sources, projects = await asyncio.gather(
        _rows(db, "select timezone, started_at, version from import_runs order by id desc limit 1")
        if may_runs
        else _none(),
        _rows(
            db,
            "select (select min(day) from daily_usage where day >= :first), "
            "(select max(day) from daily_usage where day <= :last)",
            {"first": str(FIRST_DAY), "last": str(today + timedelta(days=1))},
        ),
        _rows(db, "select id, name from sources order by name limit 200"),
        _rows(
            db,
            "select id, name, path from projects order by name, path limit :most",
            {"most": _MOST_PROJECTS},
        ),
    )
    run = first_run[0] if first_run else None
    zone = run[0] if run else "UTC"
    oldest, newest = (_drawable(day or "", today + timedelta(days=1)) for day in days[0])
    filters, problems = read_filters(_arguments(request), newest)
    labels = Labels({row[0]: row[1] for row in sources}, project_labels(projects))
    start = utc_range(filters.since, filters.since, zone)[0] if filters.since else None
    end = utc_range(filters.until, filters.until, zone)[1] if filters.until else None
    project_name = next((row[1] for row in projects if row[0] == filters.project), None)
    if filters.project is not None and project_name is None:
        project_name = await _project_name(db, filters.project)
    may_sql = await allowed(datasette, request.actor, "execute-sql", db.name)
    scope = Scope(filters, start, end, project_name, may_sql)
    usage, kinds, newest_conversations, tools, files, health = await asyncio.gather(
        _rows(db, USAGE.format(where=scope.usage_where()), scope.values()),
        _rows(
            db,
            KINDS.format(where=scope.where("c.started_at", "c.source", "c.project_id")),
            scope.values(),
        ),
        _rows(
            db,
            NEWEST.format(where=scope.where("c.started_at", "c.source", "c.project_id")),
            scope.values(),
        ),
        _rows(db, _tools_sql(scope), scope.values()),
        _rows(db, _files_sql(scope), scope.values()) if may_files else _none(),
        _rows(db, HEALTH_OF) if may_health else _none(),
    )
    links = Links(datasette, db.name, scope, zone)
    page = Page(links, labels, filters, oldest, newest, today + timedelta(days=1), dict(kinds))
    context = await in_thread(
        datasette, page.context, usage, newest_conversations, tools, files, health
    )
    context |= {
        "problems": problems,
        "zone": zone if run else None,
        "last_import": local_time(run[1], zone) if run else None,
        "version": run[2] if run else None,
        "may_files": may_files,
        "may_health": may_health,
        "command": f"datasette crystal import {db.name}.db",
    }
    return await render(datasette, request, "crystal_overview.html", context, OVERVIEW)


#: ``/{db}/-/crystal``
overview = guarded(_overview)


def _arguments(request: Any) -> dict[str, str]:
    """The first value of each parameter, without what no text can be."""
    return {
        name: (request.args.get(name) or "").replace("\x00", "")
        for name in ("from", "to", "days", "source", "project", "by")
    }


async def _rows(db: Any, sql: str, values: Mapping[str, Any] | None = None) -> list[Any]:
    return list((await db.execute(sql, values or {})).rows)


async def _none() -> list[Any]:
    return []


async def _project_name(db: Any, project: int) -> str | None:
    rows = await _rows(db, "select name from projects where id = :id", {"id": project})
    return rows[0][0] if rows else None


def _tools_sql(scope: Scope) -> str:
    if not scope.filters.narrowed:
        return TOOLS
    # some tools record no time of a call: it goes by its conversation's, as in daily_usage
    time = "coalesce(t.started_at, c.started_at)"
    return TOOLS_OF.format(
        where=_still_going(scope) + scope.where(time, "c.source", "c.project_id")
    )


def _files_sql(scope: Scope) -> str:
    if not scope.filters.narrowed:
        return FILES_EDITED
    timed = bool(scope.start or scope.end)
    return FILES_EDITED_IN.format(
        messages="cross join messages m on m.id = e.message_id" if timed else "",
        where=_still_going(scope)
        + scope.where("coalesce(m.timestamp, c.started_at)", "c.source", "c.project_id"),
    )


def _still_going(scope: Scope) -> str:
    """Leaves out the conversations that were over before the period, without a look at their rows."""
    return " and c.ended_at >= :start" if scope.start else ""


def project_labels(rows: Iterable[Sequence[Any]]) -> dict[int, str]:
    """Names of projects; those that share one are told apart by their paths."""
    rows = list(rows)
    times: dict[str, int] = defaultdict(int)
    for row in rows:
        times[row[1]] += 1
    return {
        row[0]: clip(row[1])
        if times[row[1]] == 1
        else f"{clip(row[1])} ({'…' if len(row[2]) > 60 else ''}{clip(row[2][-60:])})"
        for row in rows
    }


@dataclass(frozen=True)
class Labels:
    """What people call sources and projects."""

    sources: dict[str, str]
    projects: dict[int, str]

    def of(self, dimension: str, value: Any) -> str:
        if dimension == "source":
            return clip(self.sources.get(value, str(value)))
        if dimension == "project":
            if value is None:
                return "no project"
            return self.projects.get(value, f"project {value}")
        return "no model named" if value is None else clip(str(value))


@dataclass(frozen=True)
class Page:
    """Turns rows into what the template shows."""

    links: Links
    labels: Labels
    filters: Filters
    oldest: date | None
    newest: date | None
    latest: date
    kinds: dict[str, int]

    def context(
        self,
        usage: Sequence[Any],
        newest: Sequence[Any],
        tools: Sequence[Any],
        files: Sequence[Any],
        health: Sequence[Any],
    ) -> dict[str, Any]:
        added = add_up(usage, self.filters.by, self.latest)
        first, last = self._range(added)
        total = added.total
        return {
            "filters": self.filters,
            "here": self.links.here,
            "empty": not self.newest and not usage and not self.kinds,
            "nothing": not usage,
            "truncated": len(usage) >= _MOST_ROWS,
            "undrawn": added.undrawn,
            "undrawn_href": self.links.table(
                "daily_usage", {"day__not": ""}, self.links.scope.source(), _sort_desc="day"
            ),
            "period": (charts.day_text(first), charts.day_text(last)) if first and last else None,
            "presets": self._presets(),
            "counted_to": self.counted_to(),
            "source_options": sorted(self.labels.sources.items(), key=lambda item: item[1].lower()),
            "project_options": sorted(
                self.labels.projects.items(), key=lambda item: item[1].lower()
            ),
            "figures": self._figures(total),
            "heat": self._heat(added, first, last),
            "years": self._years(),
            "dimensions": [
                {"name": name, "href": self.links.here(by=name), "current": name == self.filters.by}
                for name in DIMENSIONS
            ],
            **self._charts(added, first, last),
            "cost_label": cost.LABEL,
            "total": total,
            "models": self._models(added),
            "unpriced": self._unpriced(added),
            "costly_href": self.links.query(
                "which_conversations_cost_most", "conversations", source=self.filters.source
            ),
            "without_tokens": sorted(
                self.labels.of("source", source)
                for source, sums in added.by_source.items()
                if not sums.counted and sums.replies
            ),
            "tools": self._tools(tools),
            "untimed_calls": bool(self.links.scope.start or self.links.scope.end)
            and any(row[4] for row in tools),
            "tools_href": self._all_tools(),
            "files": self._files(files),
            "files_href": self._all_files(),
            "newest": [self._conversation(row) for row in newest],
            "newest_href": self.links.table(
                "conversations",
                self.links.scope.times("started_at"),
                self.links.scope.source(),
                self.links.scope.project(),
                kind__notin="subagent,prompt-history",
                _sort_desc="started_at",
            ),
            "projects": self._projects(added),
            "projects_href": self.links.table("projects"),
            "more_projects": max(0, len(added.by_project) - 10),
            "health": self._health(health),
            "health_href": self.links.table("import_health"),
            "lost_href": self.links.query("what_could_not_be_read", "import_log"),
            "unknown_href": self.links.query("unknown_records_by_type", "import_log"),
            "histories": self.kinds.get("prompt-history", 0),
            "histories_href": self.links.table(
                "conversations", self.links.scope.source(), kind="prompt-history"
            ),
        }

    def _range(self, added: Added) -> tuple[date | None, date | None]:
        """The days that are drawn."""
        if self.filters.since or self.filters.until:
            first = self.filters.since or self.oldest or self.filters.until
            last = self.filters.until or self.newest or self.filters.since
            assert first and last
            first, last = max(first, FIRST_DAY), min(last, self.latest)
        elif added.days:
            first, last = min(added.days), max(added.days)
        else:
            return None, None
        return (first, last) if first <= last else (None, None)

    def counted_to(self) -> str | None:
        """The newest day, which "7 days" counts back from, where that is not today."""
        if not self.newest or self.newest >= self.latest - timedelta(days=1):
            return None
        return charts.day_text(self.newest)

    def _presets(self) -> list[dict[str, Any]]:
        cleared = {"from": None, "to": None}
        found = [
            {
                "label": f"{days} days",
                "href": self.links.here(days=days, **cleared),
                "current": self.filters.days == days,
            }
            for days in PRESETS
        ]
        found.append(
            {
                "label": "All",
                "href": self.links.here(days=None, **cleared),
                "current": not (self.filters.since or self.filters.until or self.filters.days),
            }
        )
        return found

    def _years(self) -> list[dict[str, Any]]:
        if not self.oldest or not self.newest or self.newest - self.oldest < timedelta(days=365):
            return []
        years = range(self.newest.year, self.oldest.year - 1, -1)
        return [
            {
                "label": str(year),
                "href": self.links.period(date(year, 1, 1), date(year, 12, 31)),
                "current": (self.filters.since, self.filters.until)
                == (date(year, 1, 1), date(year, 12, 31)),
            }
            for year in years
        ]

    def _figures(self, total: Sums) -> list[dict[str, Any]]:
        links, scope = self.links, self.links.scope
        subagents = self.kinds.get("subagent", 0)
        histories = self.kinds.get("prompt-history", 0)
        beside = [f"{whole(subagents)} of them subagents"] if subagents else []
        if histories:
            lists = "1 list" if histories == 1 else f"{whole(histories)} lists"
            beside.append(f"and {lists} of prompts whose conversation is gone")
        kinds = {"kind__not": "prompt-history"}
        cost_note = cost.LABEL
        if total.recorded and not total.priced:
            cost_note = "recorded by the tools"
        elif total.recorded:
            cost_note = f"{dollars(total.recorded)} recorded, the rest {cost.LABEL}"
        has_cost = bool(total.cost or (total.tokens and not total.unpriced))
        return [
            {
                "label": "Conversations",
                "value": total.conversations,
                "note": ", ".join(beside),
                "href": links.table(
                    "conversations",
                    scope.times("started_at"),
                    scope.source(),
                    scope.project(),
                    kinds,
                    _sort_desc="started_at",
                ),
            },
            {
                "label": "Prompts",
                "value": total.prompts,
                "note": "that a person typed",
                "href": self._messages(model.PROMPT_KINDS),
            },
            {
                "label": "Replies",
                "value": total.replies,
                "note": "of the models",
                "href": self._messages(model.MODEL_KINDS, characters__gt=0),
            },
            {
                "label": "Tool calls",
                "value": total.tool_calls,
                "note": _count(total.errors, "failure", "failures")
                if total.errors
                else "no failures",
                "href": self._calls(),
            },
            {
                "label": "Tokens",
                "value": total.tokens,
                "text": short(total.tokens) if total.counted else "–",
                "note": f"{short(total.output)} written by the models"
                if total.counted
                else "not recorded",
                "href": links.usage(_sort_desc="day"),
            },
            {
                "label": "Cost",
                "value": total.cost,
                "text": dollars(total.cost) if has_cost else "–",
                "note": cost_note if has_cost else "no prices for these tokens",
                "href": links.query(
                    "tokens_by_project_and_model",
                    "daily_usage",
                    since=str(self.filters.since or ""),
                )
                if not (self.filters.until or scope.source() or scope.project())
                else links.usage(_sort_desc="day"),
            },
        ]

    def _messages(self, kinds: Iterable[str], **more: Any) -> str:
        scope = self.links.scope
        if self.filters.project is not None and not scope.may_sql:
            return self.links.usage()
        return self.links.table(
            "messages",
            scope.times("timestamp"),
            scope.source(),
            scope.conversations_where(
                source=False, histories=bool(self.kinds.get("prompt-history"))
            ),
            more,
            kind__in=",".join(sorted(kinds)),
            _sort_desc="timestamp",
        )

    def _calls(self, name: str | None = None) -> str:
        scope = self.links.scope
        where = scope.conversations_where(source=True)
        if not where and (scope.source() or scope.project()):
            return self.links.usage()
        named = {} if name is None else {"name": name}
        return self.links.table(
            "tool_calls", scope.times("started_at"), where, named, _sort_desc="started_at"
        )

    def _all_tools(self) -> str:
        """The tools of this selection: of everything there is a view, else the calls, by name."""
        scope = self.links.scope
        if not scope.filters.narrowed:
            return self.links.table("tool_stats", _sort_desc="calls")
        where = scope.conversations_where(source=True)
        if not where and (scope.source() or scope.project()):
            return self.links.usage()
        times = scope.times("started_at")
        return self.links.table("tool_calls", times, where, _facet="name", _sort_desc="started_at")

    def _all_files(self) -> str:
        """The edited files of this selection: of everything a saved query, else the edits, by
        file."""
        scope = self.links.scope
        if not scope.filters.narrowed:
            return self.links.query("most_edited_files", "file_edits")
        times = scope.times("timestamp")
        return self.links.table(
            "file_history", times, scope.names(), _facet="path", _sort_desc="timestamp"
        )

    def _heat(self, added: Added, first: date | None, last: date | None) -> dict[str, Any] | None:
        if not first or not last:
            return None
        counts = {day: prompts + replies for day, (prompts, replies, _) in added.days.items()}
        # a short range still looks like a calendar
        begin = first if self.filters.since else min(first, last - timedelta(weeks=52))
        drawn = charts.heat_map(counts, begin, last)
        cells = []
        for cell in drawn.cells:
            prompts, replies, calls = added.days.get(cell.day, (0, 0, 0))
            words = (
                f"{_count(prompts, 'prompt', 'prompts')}, {_count(replies, 'reply', 'replies')}, "
                f"{_count(calls, 'tool call', 'tool calls')}"
                if prompts or replies or calls
                else "nothing"
            )
            cells.append(
                {
                    "x": cell.x,
                    "y": cell.y,
                    "level": cell.level,
                    "day": charts.day_text(cell.day),
                    "text": f"{charts.day_text(cell.day)}: {words}",
                    "href": self.links.messages_of(cell.day) if cell.count else None,
                    "counts": (prompts, replies, calls),
                }
            )
        active = {day: n for day, n in counts.items() if drawn.first <= day <= drawn.last and n}
        busiest = max(active, key=lambda day: (active[day], day), default=None)
        return {
            "chart": drawn,
            "cells": cells,
            "active": len(active),
            "days": (drawn.last - drawn.first).days + 1,
            "first": charts.day_text(drawn.first),
            "last": charts.day_text(drawn.last),
            "busiest": busiest
            and {
                "day": charts.day_text(busiest),
                "count": active[busiest],
                "href": self.links.messages_of(busiest),
            },
            "streak": _longest_streak(active),
            "href": self.links.query("tokens_by_day", "daily_usage", source=self.filters.source)
            if self.filters.project is None
            else self.links.usage(_sort_desc="day"),
            "table_href": self.links.usage(_sort_desc="day"),
        }

    def _charts(self, added: Added, first: date | None, last: date | None) -> dict[str, Any]:
        if not first or not last:
            return {"charts": [], "legend": []}
        by = self.filters.by
        sums = {"source": added.by_source, "project": added.by_project, "model": added.by_model}[by]
        ranked = sorted(
            sums, key=lambda value: (-sums[value].prompts - sums[value].replies, str(value))
        )
        ranked = [v for v in ranked if sums[v].prompts + sums[v].replies + sums[v].tokens] or ranked
        shown = ranked if len(ranked) <= _SERIES + 1 else ranked[:_SERIES]
        series = {value: number for number, value in enumerate(shown)}
        names = [self.labels.of(by, value) for value in shown]
        if len(shown) < len(ranked):
            names.append(f"{len(ranked) - len(shown)} others")
        if not self.filters.since and not self.filters.until:
            first = min(first, last - timedelta(days=13))  # a single day is not a chart
        unit = charts.unit_for(first, last)
        spans = charts.buckets(first, last, unit)
        place = {charts.start_of(span.first, unit): index for index, span in enumerate(spans)}
        grids = [[[0.0] * len(spans) for _ in names] for _ in MEASURES]
        for (day, value), cell in added.cells.items():
            index = place.get(charts.start_of(day, unit))
            if index is None:
                continue
            row = series.get(value, len(names) - 1)
            for measure, amount in enumerate(cell):
                grids[measure][row][index] += amount
        hrefs = {span: self._span(span, unit) for span in spans}
        found = []
        colours = source_colours(shown) if by == "source" else list(range(len(shown)))
        colours += [n for n in range(_SERIES + 1) if n not in colours][: len(names) - len(shown)]
        for name, grid in zip(MEASURES, grids, strict=True):
            write = dollars if name == "cost" else short
            drawn = charts.stacked(spans, names, grid, write)
            drawn = replace(
                drawn, layers=[(colours[number], path) for number, path in drawn.layers]
            )
            found.append(
                {
                    "name": name,
                    "title": name.capitalize(),
                    "chart": drawn,
                    "total": write(drawn.total),
                    "bars": [(bar, hrefs[bar.bucket]) for bar in drawn.bars],
                    "rows": [
                        (bucket.label, hrefs[bucket], parts, sum_)
                        for bucket, parts, sum_ in drawn.rows
                    ],
                    "href": self.links.usage(_sort_desc="day"),
                    "note": cost.LABEL if name == "cost" else "",
                }
            )
        legend = [
            {"name": name, "number": colours[number], "href": self._legend_link(by, shown, number)}
            for number, name in enumerate(names)
        ]
        return {"charts": found, "legend": legend, "unit": unit, "series": names}

    def _span(self, bucket: charts.Bucket, unit: str) -> str:
        if unit == "day":
            return self.links.messages_of(bucket.first)
        return self.links.period(bucket.first, bucket.last)

    def _legend_link(self, by: str, shown: Sequence[Any], number: int) -> str | None:
        if number >= len(shown):
            return None
        value = shown[number]
        if by == "model":
            return self._usage_of_model(value)
        if value is None:
            return None
        return self.links.here(**{by: value})

    def _usage_of_model(self, name: str | None) -> str | None:
        if name and len(name) > _LONGEST:
            return None
        named = {"model__isnull": "1"} if name is None else {"model": name}
        return self.links.table("daily_usage", self.links.scope.days(), named, _sort_desc="day")

    def _models(self, added: Added) -> list[dict[str, Any]]:
        costly = sorted(
            ((name, sums) for name, sums in added.by_model.items() if sums.tokens or sums.cost),
            key=lambda item: (-item[1].cost, -item[1].tokens, str(item[0])),
        )
        return [
            {
                "name": self.labels.of("model", name),
                "href": self._usage_of_model(name),
                "tokens": [
                    short(n) for n in (sums.input, sums.cache_write, sums.cache_read, sums.output)
                ],
                "listed": dollars(sums.priced) if sums.priced else "",
                "recorded": dollars(sums.recorded) if sums.recorded else "",
            }
            for name, sums in costly[:10]
        ]

    def _unpriced(self, added: Added) -> list[dict[str, Any]]:
        without = sorted(
            ((name, sums) for name, sums in added.by_model.items() if sums.unpriced),
            key=lambda item: (-item[1].unpriced, str(item[0])),
        )
        return [
            {
                "name": self.labels.of("model", name),
                "tokens": short(sums.unpriced),
                "href": self._usage_of_model(name),
            }
            for name, sums in without[:30]
        ]

    def _tools(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        most = max((row[1] for row in rows), default=1)
        scope = self.links.scope
        return [
            {
                "name": clip(name),
                "calls": whole(calls),
                "share": max(1, round(100 * calls / most)),
                "failed_share": round(100 * failed / most, 1),
                "failed": whole(failed) if failed else "",
                "rate": percent(failed, judged) if judged else "",
                "bad": judged >= 10 and failed / judged >= 0.15,
                "href": self._calls(name) if len(name) <= _LONGEST else None,
                "failed_href": self.links.table(
                    "failed_tool_calls",
                    scope.times("started_at"),
                    scope.names(),
                    name=name,
                    status="error",
                    _sort_desc="started_at",
                ),
            }
            for name, calls, failed, judged, _ in rows
        ]

    def _files(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        scope = self.links.scope
        found = []
        for path, edits, lines_added, removed in rows:
            cut = max(path.rfind("/"), path.rfind("\\")) + 1
            found.append(
                {
                    "folder": ("…" if cut > 100 else "") + path[:cut][-100:],
                    "name": clip(path[cut:] or path[-80:]),
                    "edits": whole(edits),
                    "added": whole(lines_added) if lines_added else "",
                    "removed": whole(removed) if removed else "",
                    "href": self.links.table(
                        "file_history",
                        scope.times("timestamp"),
                        scope.names(),
                        path=path,
                        _sort_desc="timestamp",
                    )
                    if len(path) <= _LONGEST
                    else None,
                }
            )
        return found

    def _conversation(self, row: Sequence[Any]) -> dict[str, Any]:
        title, source, session_id, project, model_, kind, started, prompts, messages, calls = row
        return {
            "title": clip(title, 200) or "Untitled",
            "href": conversation_url(self.links.datasette, self.links.database, source, session_id),
            "source": self.labels.of("source", source),
            "project": self.labels.of("project", project) if project is not None else "",
            "project_href": self.links.here(project=project) if project is not None else "",
            "model": clip(model_ or ""),
            "kind": kind if kind != "main" else "",
            "started": started,
            "when": local_time(started, self.links.zone),
            "counts": ", ".join(
                _count(number, one, many)
                for number, one, many in (
                    (prompts, "prompt", "prompts"),
                    (messages, "message", "messages"),
                    (calls, "tool call", "tool calls"),
                )
                if number
            ),
        }

    def _projects(self, added: Added) -> list[dict[str, Any]]:
        ranked = sorted(
            added.by_project.items(),
            key=lambda item: (-item[1].prompts, -item[1].conversations, str(item[0])),
        )[:10]
        most = max((sums.prompts for _, sums in ranked), default=0) or 1
        return [
            {
                "name": self.labels.of("project", project),
                "href": self.links.here(project=project) if project is not None else None,
                "rows_href": self.links.table(
                    "conversations",
                    self.links.scope.times("started_at"),
                    self.links.scope.source(),
                    {"project_id__isnull": "1"} if project is None else {"project_id": project},
                    kind__not="prompt-history",
                    _sort_desc="started_at",
                ),
                "conversations": whole(sums.conversations),
                "prompts": whole(sums.prompts),
                "share": round(100 * sums.prompts / most),
                "calls": whole(sums.tool_calls),
                "tokens": short(sums.tokens) if sums.counted else "",
                "last": charts.day_text(date.fromisoformat(sums.last))
                if _drawable(sums.last, self.latest)
                else "",
            }
            for project, sums in ranked
        ]

    def _health(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        found = []
        for source, name, files, missing, failed, records, kept, ignored, unknown, broken in rows:
            found.append(
                {
                    "name": name,
                    "href": self.links.table("import_log", source=source, _sort_desc="id"),
                    "failed_href": self.links.table(
                        "import_log", source=source, status__in="error,unreadable", _sort_desc="id"
                    ),
                    "missing_href": self.links.table(
                        "source_files", source=source, missing_since__notnull="1"
                    ),
                    "unknown_href": self.links.table(
                        "import_log", source=source, unknown_records__gt=0, _sort_desc="id"
                    ),
                    "broken_href": self.links.table(
                        "import_log", source=source, malformed_records__gt=0, _sort_desc="id"
                    ),
                    "files": whole(files or 0),
                    "missing": missing or 0,
                    "failed": failed or 0,
                    "records": whole(records or 0),
                    "kept": whole(kept or 0),
                    "ignored": whole(ignored or 0),
                    "unknown": unknown or 0,
                    "broken": broken or 0,
                }
            )
        return found


def source_colours(sources: Sequence[str]) -> list[int]:
    """Numbers of the series colours, from 0, for the sources of a chart: the same source has the
    same one everywhere (as ``c-source-…`` in the stylesheets); others get what is left."""
    free = [n for n in range(_SERIES, -1, -1) if n not in map(SOURCE_COLOURS.get, sources)]
    return [
        SOURCE_COLOURS[source] if source in SOURCE_COLOURS else (free.pop(0) if free else _SERIES)
        for source in sources
    ]


def _count(number: int, one: str, many: str) -> str:
    return f"{whole(number)} {one if number == 1 else many}"


def _longest_streak(days: Iterable[date]) -> int:
    longest = run = 0
    before = None
    for day in sorted(days):
        run = run + 1 if before and day - before == timedelta(days=1) else 1
        longest, before = max(longest, run), day
    return longest
