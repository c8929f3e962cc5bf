"""The search page, of one crystal database and of all of them: what is typed and chosen becomes a
few bounded queries, and what they find becomes passages with marks and links."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from .defaults import crystal_databases
from .pages import (
    foreign,
    foreign_errors,
    guarded,
    in_thread,
    may_see,
    open_database,
    render,
)
from .search_terms import Passage, Term, Terms, marked, parse, passage, read_passage
from .urls import SEARCH, conversation_url, search_all_url, search_url

#: The page shows something of each of these, and of these where the actor may see them.
TABLES = ("conversations", "messages", "projects", "sources")
MORE_TABLES = ("tool_calls", "file_edits")

#: Where to look.
PLACES = {
    "": "Everything",
    "prompts": "Prompts",
    "replies": "Replies",
    "thinking": "Thinking",
    "titles": "Titles",
    "commands": "Tool calls",
}
KINDS = {
    "prompt": "Prompt",
    "command": "Command",
    "shell": "Shell",
    "answer": "Answer",
    "task": "Task",
    "reply": "Reply",
    "partial": "Cut-off reply",
    "context": "Context",
    "summary": "Summary",
    "notification": "Notification",
    "interruption": "Interruption",
    "error": "Error",
    "local-output": "Local output",
    "hook": "Hook",
}
_PLACE_SQL = {
    "prompts": "m.kind in ('prompt', 'command', 'shell', 'answer')",
    "replies": "m.kind in ('reply', 'partial')",
    "thinking": "m.thinking is not null",
}
_PLACE_COLUMN = {"prompts": "content", "replies": "content", "thinking": "thinking"}

PAGE_SIZE, MAX_SIZE, MAX_PAGE, MAX_PAGE_OF_ALL = 25, 100, 200, 10
#: With more matches than this it is quicker to walk all messages by time than to sort the matches.
_MANY = 5000
#: Passages are looked for in the beginning of a text.
_TEXT = 50_000
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Form:
    """What was typed and chosen on the page."""

    q: str = ""
    place: str = ""
    source: str = ""
    project: str = ""
    kind: str = ""
    role: str = ""
    tool: str = ""
    file: str = ""
    since: str = ""
    until: str = ""
    outputs: bool = False
    failed: bool = False
    sort: str = ""
    page: int = 1
    size: int = PAGE_SIZE
    before: int | None = None

    #: Names in a query string that differ from ours.
    NAMES = {"place": "in"}  # noqa: RUF012
    FILTERS = ("source", "project", "kind", "role", "tool", "file", "since", "until")

    @classmethod
    def of(cls, args: Any) -> Form:
        """From the query string. What makes no sense is left out."""

        def text(name: str, limit: int = 300) -> str:
            value = (args.get(name) or "").replace("\0", "").strip()[:limit]
            return value.encode("utf-8", "replace").decode()

        def number(name: str, default: int, most: int) -> int:
            value = args.get(name) or ""
            if value.isascii() and value.isdigit() and len(value) < 19:
                return min(max(int(value), 1), most)
            return default

        day = lambda name: text(name) if _DAY.fullmatch(text(name)) else ""  # noqa: E731
        return cls(
            q=(args.get("q") or "").strip(),
            place=text("in") if text("in") in PLACES else "",
            source=text("source"),
            project=text("project", 2000),
            kind=text("kind"),
            role=text("role"),
            tool=text("tool"),
            file=text("file", 2000),
            since=day("since"),
            until=day("until"),
            outputs=text("outputs") == "1",
            failed=text("failed") == "1",
            sort="best" if text("sort") == "best" else "",
            page=number("page", 1, MAX_PAGE),
            size=number("size", PAGE_SIZE, MAX_SIZE),
            before=number("before", 0, 2**62) or None,
        )

    def parameters(self, **changes: Any) -> dict[str, str]:
        """The query string of this form with other values for some of its fields; a change of
        anything but the page leads to the first page."""
        form = replace(self, **({"page": 1, "before": None} | changes))
        found = {}
        for name in ("q", "place", *self.FILTERS, "sort"):
            value = getattr(form, name)
            if value:
                found[self.NAMES.get(name, name)] = value[:1000]
        for name in ("outputs", "failed"):
            if getattr(form, name):
                found[name] = "1"
        if form.page > 1:
            found["page"] = str(form.page)
        if form.size != PAGE_SIZE:
            found["size"] = str(form.size)
        if form.before:
            found["before"] = str(form.before)
        return found

    @property
    def filtered(self) -> bool:
        return any(getattr(self, name) for name in self.FILTERS)


@dataclass
class Found:
    """What one database gave. ``counts`` is {(source, kind): messages}, ``None`` when counting took
    too long."""

    database: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    more: bool = False
    titles: list[dict[str, Any]] = field(default_factory=list)
    more_titles: bool = False
    calls: list[dict[str, Any]] = field(default_factory=list)
    more_calls: bool = False
    #: How many calls there are, where all were looked at.
    total_calls: int | None = None
    before: int | None = None
    counts: dict[tuple[str, str], int] | None = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    projects: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# --------------------------------------------------------------------------- SQL


@dataclass
class Where:
    """Conditions with their parameters."""

    conditions: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    def add(self, condition: str, **parameters: Any) -> None:
        self.conditions.append(condition)
        self.parameters.update(parameters)

    def sql(self, word: str = "where") -> str:
        return f"{word} {' and '.join(self.conditions)}" if self.conditions else ""


async def _ask(db: Any, sql: str, parameters: Mapping[str, Any], limit: float | None = None) -> Any:
    """The rows of a query, which is cut off after ``limit`` milliseconds."""
    extra = {} if limit is None else {"custom_time_limit": max(1, int(limit))}
    return (await db.execute(sql, dict(parameters), **extra)).rows


async def _indexes(db: Any) -> set[str]:
    """Which of the full-text indexes exist: the word index comes with the first import's end."""
    rows = await _ask(
        db,
        "select name from sqlite_master where name in ('messages_fts', 'messages_cjk')",
        {},
    )
    return {row[0] for row in rows}


async def _touching(db: Any, terms: Terms, indexes: set[str]) -> set[Term]:
    """The terms whose words stand somewhere in the character index: they touch CJK characters
    there, where the word index takes both for one word."""
    asked = [term for term in terms.all if term.words]
    if not asked or "messages_cjk" not in indexes:
        return set()
    sql = ", ".join(
        f"exists (select 1 from messages_cjk where messages_cjk match :t{i})"
        for i in range(len(asked))
    )
    parameters = {f"t{i}": term.words for i, term in enumerate(asked)}
    row = (await _ask(db, f"select {sql}", parameters))[0]
    return {term for term, found in zip(asked, row, strict=True) if found}


def _text_conditions(
    terms: Terms, touching: set[Term], column: str | None, walk: bool
) -> tuple[Where, tuple[str, str] | None]:
    """Conditions on ``m`` that hold where the terms match, and the (index, expression) that may
    rank the matches, if there is one. ``walk`` keeps SQLite from beginning with the matches."""
    where = Where()
    scope = f"{{{column}}} : " if column else ""
    joint = [t for t in terms.wanted if t.words and not t.characters and t not in touching]
    m_id = "+m.id" if walk else "m.id"
    rank = None
    if joint:
        expression = " AND ".join(str(term.words) for term in joint)
        rank = ("messages_fts", f"{scope}({expression})")
        where.add(
            f"{m_id} in (select rowid from messages_fts where messages_fts match :words)",
            words=rank[1],
        )
    for i, term in enumerate(terms.all):
        if term in joint and not term.exclude:
            continue
        parts = []
        if term.words:
            where.parameters[f"w{i}"] = f"{scope}({term.words})"
            part = f"select rowid from messages_fts where messages_fts match :w{i}"
            if term in touching:
                where.parameters[f"c{i}"] = term.words
                part += f" union select rowid from messages_cjk where messages_cjk match :c{i}"
            parts.append(f"{m_id} in ({part})")
        if term.characters:
            where.parameters[f"r{i}"] = term.characters
            parts.append(
                f"{m_id} in (select rowid from messages_cjk where messages_cjk match :r{i})"
            )
            if rank is None and not term.exclude:
                rank = ("messages_cjk", term.characters)
            if column:  # the character index does not know of columns
                for j, run in enumerate(term.runs):
                    where.parameters[f"r{i}_{j}"] = run
                    parts.append(f"instr(m.{column}, :r{i}_{j})")
        joined = " and ".join(parts)
        where.conditions.append(f"not ({joined})" if term.exclude else joined)
    return where, rank


def _filters(form: Form, skip: Iterable[str] = ()) -> Where:
    """Conditions on ``m`` for what was chosen."""
    where = Where()
    if form.place in _PLACE_SQL:
        where.add(_PLACE_SQL[form.place])
    for name in ("source", "kind", "role"):
        if getattr(form, name) and name not in skip:
            where.add(f"m.{name} = :{name}", **{name: getattr(form, name)})
    if form.project:
        where.add(
            "m.conversation_id in (select c.id from conversations c where c.project_id in "
            "(select id from projects where name = :project or path = :project))",
            project=form.project,
        )
    if form.since:
        where.add("m.timestamp >= :since", since=form.since)
    if form.until:
        where.add("m.timestamp < :until", until=_after(form.until))
    if form.tool:
        where.add(
            "m.id in (select message_id from tool_calls where name = :tool)",
            tool=form.tool,
        )
    if form.file:
        where.add(
            "m.id in (select message_id from file_edits where path like :file escape '\\')",
            file=_like(form.file),
        )
    return where


def _after(day: str) -> str:
    """Later than every time of a day, earlier than the next day."""
    return f"{day}T~"


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _like_terms(where: Where, terms: Terms, *columns: str) -> None:
    """Adds that each wanted term stands in one of ``columns``, and no unwanted one."""
    for i, term in enumerate(terms.all):
        either = " or ".join(f"{column} like :l{i} escape '\\'" for column in columns)
        where.add(
            f"not coalesce(({either}), 0)" if term.exclude else f"({either})",
            **{f"l{i}": _like(term.text.rstrip("*"))},
        )


# --------------------------------------------------------------------------- looking


@dataclass(frozen=True)
class Look:
    """One search in one database."""

    datasette: Any
    database: str
    db: Any
    form: Form
    terms: Terms
    calls: bool
    edits: bool

    @property
    def limit(self) -> int:
        return int(self.datasette.setting("sql_time_limit_ms"))


_TOO_LONG = (
    "This matches too much to be found within the time limit of this Datasette. "
    "Add a word, a filter, or take a * away."
)


async def look(
    datasette: Any, database: str, db: Any, form: Form, terms: Terms, actor: Any
) -> Found:
    """Searches one database, as far as ``actor`` may see it."""
    calls = await may_see(datasette, actor, database, ["tool_calls"])
    edits = await may_see(datasette, actor, database, ["file_edits"])
    form = replace(form, tool=form.tool if calls else "", file=form.file if edits else "")
    this = Look(datasette, database, db, form, terms, calls, edits)
    found = Found(database)
    await _choices(this, found)
    asked = bool(terms.wanted or form.filtered or form.place or terms.unwanted)
    if not asked:
        return found
    first = form.page == 1
    if form.place in ("", "titles") and (form.place or (first and terms.wanted)):
        await _titles(this, found)
    if calls and (form.place == "commands" or (not form.place and first and terms.wanted)):
        await _calls(this, found)
    if form.place not in ("titles", "commands"):
        await _messages(this, found)
    return found


async def _choices(this: Look, found: Found) -> None:
    """What the filters offer."""
    found.sources = {
        row[0]: row[1] for row in await _ask(this.db, "select id, name from sources limit 50", {})
    }
    found.projects = [
        row[0]
        for row in await _ask(
            this.db, "select distinct name from projects order by name limit 300", {}
        )
    ]
    if this.calls:
        try:
            rows = await _ask(
                this.db,
                "select name from tool_calls group by name order by count(*) desc limit 80",
                {},
            )
        except _interrupted():
            rows = []
        found.tools = sorted(row[0] for row in rows)


def _interrupted() -> type[Exception]:
    from datasette.database import QueryInterrupted

    error: type[Exception] = QueryInterrupted
    return error


async def _many(db: Any, terms: Terms, touching: set[Term], column: str | None) -> bool:
    """Whether so many messages match that walking all of them by time is quicker than looking up
    the matches."""
    _, rank = _text_conditions(terms, touching, column, walk=False)
    if rank is None:
        return True
    index, expression = rank
    sql = f"select 1 from {index} where {index} match :expression limit 1 offset {_MANY}"
    return bool(await _ask(db, sql, {"expression": expression}))


async def _messages(this: Look, found: Found) -> None:
    form, db = this.form, this.db
    indexes = await _indexes(db)
    if "messages_fts" not in indexes and this.terms.all:
        found.notes.append("The word index is made at the end of the first import.")
        return
    column = _PLACE_COLUMN.get(form.place)
    touching, many = set[Term](), False
    try:
        touching = await _touching(db, this.terms, indexes)
        many = await _many(db, this.terms, touching, column)
        counted, _ = _text_conditions(this.terms, touching, column, many)
        filters = _filters(form, skip=("source", "kind"))
        both = Where(
            counted.conditions + filters.conditions, counted.parameters | filters.parameters
        )
        rows = await _ask(
            db,
            "select m.source, m.kind, count(*) from messages m "
            f"{both.sql()} group by m.source, m.kind",
            both.parameters,
        )
        found.counts = {(row[0], row[1]): row[2] for row in rows}
    except _interrupted():
        found.counts = None
    total = None if found.counts is None else _total(found.counts, form)
    if total == 0:
        return
    # what could not be counted may still be found, but is not waited for as long again
    patience = this.limit / 2 if total is None else None
    walk = many and form.sort != "best"
    text, rank = _text_conditions(this.terms, touching, column, walk)
    filters = _filters(form)
    parameters = text.parameters | filters.parameters
    parameters |= {"limit": form.size + 1, "offset": (form.page - 1) * form.size}
    if form.sort == "best" and rank is None and this.terms.wanted:
        found.notes.append("Newest first: these words cannot be ranked.")
    if form.sort == "best" and rank is not None:
        index, parameters["rank"] = rank
        ranked = Where(text.conditions + filters.conditions)
        if ":words" in (text.conditions or [""])[0]:
            ranked.conditions.pop(0)  # the join asks for it
        sql = (
            f"select m.id from {index} cross join messages m on m.id = {index}.rowid "
            f"where {index} match :rank {ranked.sql('and')} "
            f"order by {index}.rank limit :limit offset :offset"
        )
    else:
        where = Where(text.conditions + filters.conditions)
        sql = (
            f"select m.id from messages m {where.sql()} "
            "order by m.timestamp desc, m.id limit :limit offset :offset"
        )
    try:
        ids = [row[0] for row in await _ask(db, sql, parameters, patience)]
    except _interrupted():
        found.notes.append(_TOO_LONG)
        return
    found.more = len(ids) > form.size and form.page < MAX_PAGE
    rows = await _ask(
        db,
        "select m.id, m.title, m.kind, m.role, m.source, m.model, m.timestamp, m.uid, "
        "m.characters, c.title as conversation, c.session_id, c.source as conversation_source, "
        "c.kind as conversation_kind, c.id as conversation_id, p.name as project, "
        f"substr(m.content, 1, {_TEXT}) as content, substr(m.thinking, 1, {_TEXT}) as thinking "
        "from json_each(:ids) i cross join messages m on m.id = i.value "
        "join conversations c on c.id = m.conversation_id "
        "left join projects p on p.id = c.project_id order by i.key",
        {"ids": str(ids[: form.size])},
    )
    hits = [dict(row) for row in rows]
    found.messages = await in_thread(this.datasette, _message_hits, this, hits)


def _total(counts: Mapping[tuple[str, str], int], form: Form) -> int:
    return sum(
        count
        for (source, kind), count in counts.items()
        if form.source in ("", source) and form.kind in ("", kind)
    )


def _message_hits(this: Look, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    hits = []
    for row in rows:
        content, thinking = row.pop("content") or "", row.pop("thinking") or ""
        where, best = "content", read_passage(content or row["title"], this.terms.wanted)
        if thinking and this.form.place not in ("prompts", "replies"):
            other = read_passage(thinking, this.terms.wanted)
            if other[1] > best[1] or this.form.place == "thinking" or not content:
                where, best = "thinking", other
        hits.append(
            _place(this, row)
            | {
                "passage": best[0],
                "where": where,
                "further_down": bool(
                    this.terms.wanted and not best[1] and row["characters"] > _TEXT
                ),
                "label": KINDS.get(row["kind"], row["kind"]),
                "url": conversation_url(
                    this.datasette,
                    this.database,
                    row["conversation_source"],
                    row["session_id"],
                    uid=row["uid"],
                ),
            }
        )
    return hits


def _place(this: Look, row: dict[str, Any]) -> dict[str, Any]:
    """What every hit says of its conversation."""
    return row | {
        "database": this.database,
        "conversation_url": conversation_url(
            this.datasette, this.database, row["conversation_source"], row["session_id"]
        ),
    }


async def _titles(this: Look, found: Found) -> None:
    form = this.form
    if form.kind or form.role or form.tool or form.file:
        return
    where = Where()
    _like_terms(where, this.terms, "c.title")
    if form.source:
        where.add("c.source = :source", source=form.source)
    _project_and_days(where, form, "c.started_at")
    only = form.place == "titles"
    size = form.size if only else 3
    parameters = where.parameters | {
        "limit": size + 1,
        "offset": (form.page - 1) * form.size if only else 0,
    }
    try:
        rows = await _ask(
            this.db,
            "select c.id as conversation_id, c.title, c.source, c.source as conversation_source, "
            "c.session_id, c.kind as conversation_kind, c.model, c.started_at as timestamp, "
            "c.prompt_count, c.message_count, p.name as project from conversations c "
            f"left join projects p on p.id = c.project_id {where.sql()} "
            "order by c.started_at desc, c.id limit :limit offset :offset",
            parameters,
        )
    except _interrupted():
        found.notes.append("Titles: " + _TOO_LONG)
        return
    found.more_titles = len(rows) > size
    found.titles = [
        _place(this, dict(row)) | {"passage": marked(row["title"][:300], this.terms.wanted, True)}
        for row in rows[:size]
    ]
    for hit in found.titles:
        hit["url"] = hit["conversation_url"]


def _project_and_days(where: Where, form: Form, column: str) -> None:
    if form.project:
        where.add("(p.name = :project or p.path = :project)", project=form.project)
    if form.since:
        where.add(f"{column} >= :since", since=form.since)
    if form.until:
        where.add(f"{column} < :until", until=_after(form.until))


async def _calls(this: Look, found: Found) -> None:
    """Tool calls, the newest first and those without a time last, a range of them after the other
    until there are enough or the time is up: there is no index of their texts."""
    form = this.form
    if form.kind or form.role or form.file:
        return
    only = form.place == "commands"
    size = form.size if only else 3
    where = Where()
    _like_terms(where, this.terms, "t.title", *(["t.output"] if form.outputs else []))
    if form.source:
        where.add("c.source = :source", source=form.source)
    if form.tool:
        where.add("t.name = :tool", tool=form.tool)
    if form.failed:
        where.add("t.status in ('error', 'denied', 'interrupted')")
    _project_and_days(where, form, "t.started_at")
    sql = (
        "select t.id, t.title, t.name, t.status, t.exit_code, t.started_at as timestamp, "
        "t.duration_ms, m.uid, c.id as conversation_id, c.title as conversation, c.session_id, "
        "c.source, c.source as conversation_source, c.kind as conversation_kind, "
        "p.name as project from tool_calls t "
        "cross join conversations c on c.id = t.conversation_id "
        "left join projects p on p.id = c.project_id join messages m on m.id = t.message_id "
        f"where {{range}} {where.sql('and')} "
        "order by t.started_at desc, t.id desc limit :limit"
    )
    total = (await _ask(this.db, "select count(*) from tool_calls", {}))[0][0]
    place = await _place_of_call(this.db, form.before)
    looked = 0
    # a part of Datasette's limit: other queries want to run, too
    until = time.monotonic() + this.limit / 1000 * (0.8 if only else 0.3)
    step = 1000 if form.outputs else 5000
    rows: list[Any] = []
    while place is not None and len(rows) <= size and (left := until - time.monotonic()) > 0:
        try:
            end = await _place_after(this.db, place, step, left * 1000)
            range_, bounds = _between(place, end)
            parameters = where.parameters | bounds | {"limit": size + 1 - len(rows)}
            rows += await _ask(this.db, sql.format(range=range_), parameters, left * 1000)
        except _interrupted():
            if step <= 50:
                break
            step //= 4
            continue
        place = end
        looked += step
        if place == _UNTIMED:  # there were fewer than a step left
            looked = (await _ask(this.db, "select count(started_at) from tool_calls", {}))[0][0]
        step = min(step * 2, 50_000)
    found.more_calls = len(rows) > size
    if found.more_calls:
        found.before = rows[size - 1]["id"]
    elif place is not None:
        found.before = place[1]
        if only:
            newest = "" if form.before else "the newest "
            found.notes.append(f"Looked through {newest}{looked:,} of {total:,} tool calls.")
    elif not form.before:
        found.total_calls = len(rows)
    rows = rows[:size]
    outputs = await _output_parts(this, [row["id"] for row in rows]) if form.outputs else {}
    found.calls = [
        _place(this, dict(row))
        | {
            "passage": marked(row["title"], this.terms.wanted, True),
            "output": outputs.get(row["id"]),
            "url": conversation_url(
                this.datasette,
                this.database,
                row["conversation_source"],
                row["session_id"],
                uid=row["uid"],
            ),
        }
        for row in rows
    ]


#: Where a walk through the tool calls stands: after the one of (time or ``None``, id).
_Place = tuple[str | None, int]
_BEGINNING: _Place = ("~", 0)  # later than every time
_UNTIMED: _Place = (None, 10**17)  # before the first of those without a time


async def _place_of_call(db: Any, before: int | None) -> _Place | None:
    """Where the call of this number stands; ``None`` where there is no such call."""
    if before is None:
        return _BEGINNING
    if before == _UNTIMED[1]:
        return _UNTIMED
    row = (await _ask(db, "select started_at, id from tool_calls where id = :id", {"id": before}))[
        :1
    ]
    return (row[0][0], row[0][1]) if row else None


def _between(start: _Place, end: _Place | None) -> tuple[str, dict[str, Any]]:
    """The condition of the calls after ``start`` up to ``end``, or to the last one of those with a
    time (``start`` has one) or of those without."""
    if start[0] is None:
        condition = "t.started_at is null and t.id < :start_id"
        values: dict[str, Any] = {"start_id": start[1]}
    else:
        condition = "(t.started_at, t.id) < (:start, :start_id)"
        values = {"start": start[0], "start_id": start[1]}
    if end is not None and end[0] == start[0] is None:
        condition += " and t.id >= :end_id"
        values["end_id"] = end[1]
    elif end is not None and end[0] is not None:
        condition += " and (t.started_at, t.id) >= (:end, :end_id)"
        values |= {"end": end[0], "end_id": end[1]}
    return condition, values


async def _place_after(db: Any, start: _Place, step: int, limit: float) -> _Place | None:
    """Where a walk stands ``step`` calls after ``start``, from the index alone; after the last call
    with a time begin those without. ``None``: at the end of all."""
    condition, values = _between(start, None)
    rows = await _ask(
        db,
        f"select t.started_at, t.id from tool_calls t where {condition} "
        "order by t.started_at desc, t.id desc limit 1 offset :step",
        values | {"step": step - 1},
        limit,
    )
    if rows:
        return (rows[0][0], rows[0][1])
    untimed = await _ask(db, "select 1 from tool_calls where started_at is null limit 1", {}, limit)
    return _UNTIMED if start[0] is not None and untimed else None


async def _output_parts(this: Look, ids: list[int]) -> dict[int, Passage]:
    """The part of each call's output where a term stands."""
    if not this.terms.wanted or not ids:
        return {}
    rows = await _ask(
        this.db,
        f"select id, substr(output, 1, {4 * _TEXT}) from tool_calls "
        "where id in (select value from json_each(:ids))",
        {"ids": str(ids)},
    )

    def parts() -> dict[int, Passage]:
        found = {row[0]: passage(row[1] or "", this.terms.wanted) for row in rows}
        return {id_: part for id_, (part, most) in found.items() if most}

    return await in_thread(this.datasette, parts)


# --------------------------------------------------------------------------- pages


@guarded
async def search(datasette: Any, request: Any) -> Any:
    """``/{db}/-/crystal/search``, and with ``.json``."""
    db = await open_database(datasette, request, TABLES)
    form = Form.of(request.args)
    terms = await in_thread(datasette, parse, form.q)
    found = await look(datasette, db.name, db, form, terms, request.actor)
    return await _answer(datasette, request, form, terms, [found], db.name)


@guarded
async def search_all(datasette: Any, request: Any) -> Any:
    """``/-/crystal/search``: all crystal databases that the actor may see."""
    from datasette import Forbidden, NotFound

    databases = list(crystal_databases(datasette))
    visible = [
        (name, db)
        for name, db in databases
        if await may_see(datasette, request.actor, name, TABLES)
    ]
    if not visible:
        raise (
            Forbidden("You may not see any crystal database")
            if databases
            else NotFound("There is no crystal database")
        )
    form = Form.of(request.args)
    terms = await in_thread(datasette, parse, form.q)
    # the page is cut from what all of them have up to it
    form = replace(form, page=min(form.page, MAX_PAGE_OF_ALL), size=min(form.size, 50))
    deep = replace(form, page=1, size=form.page * form.size + 1)
    # as many at once as Datasette runs queries: more would only wait, and their time would pass
    turn = asyncio.Semaphore(max(1, datasette.setting("num_sql_threads")))

    async def look_into(name: str, db: Any) -> Found:
        async with turn:
            try:
                return await look(datasette, name, db, deep, terms, request.actor)
            except foreign_errors() as error:
                problem = await foreign(db, error)
                if problem is None:
                    raise
                return Found(name, notes=[problem])  # the others are searched all the same

    every = await asyncio.gather(*(look_into(name, db) for name, db in visible))
    return await _answer(datasette, request, form, terms, every)


async def _answer(
    datasette: Any,
    request: Any,
    form: Form,
    terms: Terms,
    every: list[Found],
    database: str | None = None,
) -> Any:
    from datasette import Response

    merged = every[0] if database else _merge(form, every)

    def url(format: str = "", **changes: Any) -> str:
        parameters = form.parameters(**changes)
        if database is None:
            return search_all_url(datasette, format=format, **parameters)
        return search_url(datasette, database, format=format, **parameters)

    further: dict[str, Any] = {}
    if merged.more or (form.place == "titles" and merged.more_titles):
        further = {"page": form.page + 1}
    elif form.place == "commands" and merged.before and database:
        further = {"before": merged.before}
    counts = _counts(merged, form, url)
    notes = list(dict.fromkeys([*terms.notes, *merged.notes]))
    if request.url_vars.get("format"):
        return Response.json(
            {
                "ok": True,
                "query": form.q[:1000],
                "notes": notes,
                "total": counts["total"],
                "sources": counts["sources"],
                "kinds": counts["kinds"],
                "titles": _plain(merged.titles),
                "messages": _plain(merged.messages),
                "tool_calls": _plain(merged.calls),
                "next_url": datasette.absolute_url(request, url(".json", **further))
                if further
                else None,
            }
        )
    context = {
        "form": form,
        "terms": terms,
        "found": merged,
        "database": database,
        "groups": _groups(merged.messages),
        "counts": counts,
        "notes": notes,
        "places": [
            {"label": label, "href": url(place=place), "current": form.place == place}
            for place, label in PLACES.items()
            if place != "commands" or merged.tools or merged.calls
        ],
        "kinds": KINDS,
        "url": url,
        "action": search_url(datasette, database) if database else search_all_url(datasette),
        "next_url": url(**further) if further else None,
        "previous_url": url(page=form.page - 1) if form.page > 1 else None,
        "table_url": _table_url(datasette, database, form, terms) if database else None,
        "databases": [
            {
                "name": found.database,
                "total": None if found.counts is None else _total(found.counts, form),
                "href": search_url(datasette, found.database, **form.parameters()),
            }
            for found in every
        ]
        if database is None
        else [],
        "all_url": search_all_url(datasette, **form.parameters())
        if database and await _see_several(datasette, request.actor)
        else None,
        "asked": bool(form.q or form.filtered or form.place),
    }
    return await render(datasette, request, "crystal_search.html", context, SEARCH)


async def _see_several(datasette: Any, actor: Any) -> bool:
    """Whether there is more than one database to search."""
    names = [name for name, _ in crystal_databases(datasette)]
    if len(names) < 2:
        return False
    return sum([await may_see(datasette, actor, name, TABLES) for name in names]) > 1


def _merge(form: Form, every: list[Found]) -> Found:
    """One page from what several databases gave."""
    merged = Found("")
    merged.counts = Counter()
    for found in every:
        merged.messages += found.messages
        merged.titles += found.titles
        merged.sources |= found.sources
        merged.projects = sorted({*merged.projects, *found.projects})
        merged.tools = sorted({*merged.tools, *found.tools})
        merged.notes += [f"{found.database}: {note}" for note in found.notes]
        if found.counts is None or merged.counts is None:
            merged.counts = None
        else:
            merged.counts.update(found.counts)

    def newest(hit: dict[str, Any]) -> str:
        return hit["timestamp"] or ""

    merged.titles.sort(key=newest, reverse=True)
    # stable, so that each database keeps its own order; calls without a time stand at its end
    merged.calls = sorted((hit for found in every for hit in found.calls), key=newest, reverse=True)
    if form.sort == "best":  # ranks of different indexes say nothing to each other: take turns
        turns = [list(found.messages) for found in every]
        longest = max(map(len, turns))
        merged.messages = [turn[i] for i in range(longest) for turn in turns if i < len(turn)]
    else:
        merged.messages.sort(key=newest, reverse=True)
    start, end = (form.page - 1) * form.size, form.page * form.size
    merged.more = len(merged.messages) > end and form.page < MAX_PAGE_OF_ALL
    merged.messages = merged.messages[start:end]
    if form.place == "titles":
        merged.more_titles = len(merged.titles) > end and form.page < MAX_PAGE_OF_ALL
        merged.titles = merged.titles[start:end]
    else:
        merged.titles = merged.titles[:5]
    if all(found.total_calls is not None for found in every):
        merged.total_calls = len(merged.calls)
    merged.calls = merged.calls[: form.size if form.place == "commands" else 5]
    return merged


def _counts(found: Found, form: Form, url: Any) -> dict[str, Any]:
    """How many messages each source and kind has, with links that choose them."""
    counts = found.counts
    if counts is None:
        return {"total": None, "sources": [], "kinds": []}
    sources: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for (source, kind), count in counts.items():
        if form.kind in ("", kind):
            sources[source] += count
        if form.source in ("", source):
            kinds[kind] += count
    return {
        "total": _total(counts, form),
        "sources": [
            {
                "name": source,
                "label": found.sources.get(source, source),
                "count": count,
                "current": form.source == source,
                "href": url(source="" if form.source == source else source),
            }
            for source, count in sources.most_common(20)
        ],
        "kinds": [
            {
                "name": kind,
                "label": KINDS.get(kind, kind),
                "count": count,
                "current": form.kind == kind,
                "href": url(kind="" if form.kind == kind else kind),
            }
            for kind, count in kinds.most_common(20)
        ],
    }


def _groups(hits: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Hits of one conversation that follow each other, together."""
    groups: list[list[dict[str, Any]]] = []
    for hit in hits:
        key = (hit["database"], hit["conversation_id"])
        if groups and (groups[-1][0]["database"], groups[-1][0]["conversation_id"]) == key:
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return groups


def _table_url(datasette: Any, database: str | None, form: Form, terms: Terms) -> str | None:
    """Datasette's own page of the same messages, where its search box can find them: words only."""
    if form.place in ("titles", "commands") or form.project or form.tool or form.file:
        return None
    if terms.unwanted or any(term.characters or not term.words for term in terms.wanted):
        return None
    parameters = {
        "_search": " ".join(str(term.words) for term in terms.wanted).replace("*", ""),
        "source": form.source,
        "kind": form.kind,
        "role": form.role,
        "timestamp__gte": form.since,
        "timestamp__lt": _after(form.until) if form.until else "",
        "_nosuggest": "1",
    }
    given = urlencode({name: value for name, value in parameters.items() if value})
    return f"{datasette.urls.table(database, 'messages')}?{given}"


def _plain(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hits for JSON: a passage is a list of {text, marked}."""
    return [
        {
            name: [{"text": text, "marked": mark} for text, mark in value]
            if name in ("passage", "output") and value
            else value
            for name, value in hit.items()
            if name != "conversation_source"
        }
        for hit in hits
    ]
