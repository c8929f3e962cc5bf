"""The result of any table page or SQL that names messages or conversations, to read: the output
format ``read`` beside JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from . import blocks, render
from .conversation import PAGE_SECONDS, TABLES, PageLinks, Request
from .defaults import is_crystal
from .integration import known_numbers
from .pages import guard, in_thread, may_see
from .pages import render as render_page
from .transcript import rows_of, transcript
from .urls import READING, READING_LIST, conversation_url

#: Messages, or conversations, on a page.
PAGE_SIZE = 50

_LINES_SQL = """
select m.id as message_id, m.conversation_id, m.position, m.uid, m.kind, m.title, m.has_tool_use,
  m.characters, m.turn, cm.state, 0 as inherited
from json_each(:ids) as wanted
cross join messages m on m.id = wanted.value
join conversation_messages cm
  on cm.conversation_id = m.conversation_id and cm.position = m.position
order by wanted.key
"""

_PROMPTS_SQL = """
select a.value as message_id, p.uid, p.title
from json_each(:ids) as a
cross join messages m on m.id = a.value
join messages p on p.id = (
  select x.id from messages x
  where x.conversation_id = m.conversation_id and x.position < m.position
    and x.position >= m.position - 500 and x.kind in ('prompt', 'command', 'shell', 'task')
  order by x.position desc limit 1
)
where m.role = 'assistant'
"""

_CONVERSATIONS_SQL = """
select c.id, c.title, c.source, c.session_id, c.kind, c.cwd, c.model, c.started_at,
  c.message_count, s.name as source_name, p.name as project
from json_each(:ids) as wanted
cross join conversations c on c.id = wanted.value
join sources s on s.id = c.source
left join projects p on p.id = c.project_id
order by wanted.key
"""

_FIRST_SQL = """
select c.value as conversation_id, m.title, substr(m.content, 1, 400) as content
from json_each(:ids) as c
cross join messages m on m.id = (
  select x.id from messages x
  where x.conversation_id = c.value and x.position < 500
    and x.kind in ('prompt', 'command', 'shell', 'task')
  order by x.position limit 1
)
"""


async def can_read(
    datasette: Any, columns: Any, rows: Any, database: str, table: str | None, request: Any
) -> bool:
    """Whether a page of Datasette offers its rows to read."""
    db = datasette.databases.get(database)
    if db is None or not is_crystal(db) or request is None:
        return False
    if not known_numbers(columns or [], rows or [], table)[1]:
        return False
    return await may_see(datasette, request.actor, database, TABLES)


async def read(
    datasette: Any,
    columns: Any,
    rows: Any,
    database: str,
    table: str | None,
    request: Any,
    data: Any = None,
) -> Any:
    """The page. What Datasette let the actor query are numbers at most: whether what they name may
    be seen is asked for here."""
    return await guard(
        datasette, database, _read(datasette, columns, rows, database, table, request, data or {})
    )


async def _read(
    datasette: Any,
    columns: Any,
    rows: Any,
    database: str,
    table: str | None,
    request: Any,
    data: Mapping[str, Any],
) -> Any:
    from datasette import Forbidden, NotFound

    db = datasette.databases.get(database)
    if db is None or not is_crystal(db):
        raise NotFound("Only the rows of crystal databases can be read")
    if not await may_see(datasette, request.actor, database, TABLES):
        raise Forbidden("You may not see the conversations")
    what, numbers = known_numbers(columns or [], rows or [], table)
    if not what:
        raise NotFound("No column of this result is called message_id or conversation_id")
    start = request.args.get("_read_from") or ""
    first = (
        min(int(start), len(numbers))
        if start.isascii() and start.isdigit() and len(start) < 9
        else 0
    )
    shown = numbers[first : first + PAGE_SIZE]
    context: dict[str, Any] = {
        "what": what,
        "count": len(numbers),
        "first": first + 1,
        "last": first + len(shown),
        "table": table,
        "back": _back(datasette, request),
        "next_url": _here(datasette, request, first + PAGE_SIZE)
        if first + PAGE_SIZE < len(numbers)
        else None,
        "previous_url": _here(datasette, request, max(0, first - PAGE_SIZE)) if first else None,
        "tab": READING if table == "conversations" else "",
        "paged": table is not None and bool(data.get("next") or request.args.get("_next")),
        "total": data.get("filtered_table_rows_count", data.get("count")),
    }
    if not context["next_url"] and table is not None and data.get("next"):
        context["next_url"] = _here(datasette, request, 0, str(data["next"]))
    if table == "conversations":
        context["filter"] = await _filter(datasette, db, request)
    if what == "message_id":
        context["groups"] = await _groups(datasette, db, shown)
    else:
        context["conversations"] = await _conversations(datasette, db, shown)
    return await render_page(datasette, request, "crystal_read.html", context, READING)


async def _groups(datasette: Any, db: Any, ids: Sequence[int]) -> list[dict[str, Any]]:
    """The messages, those of one conversation that follow each other together."""
    listed = json.dumps(ids)
    lines = (await db.execute(_LINES_SQL, {"ids": listed})).rows
    rows = await rows_of(db, lines)
    of = json.dumps(sorted({line["conversation_id"] for line in lines}))
    conversations = {row["id"]: row for row in await db.execute(_CONVERSATIONS_SQL, {"ids": of})}
    prompts = {row["message_id"]: row for row in await db.execute(_PROMPTS_SQL, {"ids": listed})}
    parts: list[tuple[Any, list[Any]]] = []
    for line in lines:
        conversation = conversations[line["conversation_id"]]
        if parts and parts[-1][0]["id"] == conversation["id"]:
            parts[-1][1].append(line)
        else:
            parts.append((conversation, [line]))
    budget = render.Budget(PAGE_SECONDS)

    def made() -> list[dict[str, Any]]:
        return [
            _group(datasette, db.name, conversation, part, rows, prompts, budget)
            for conversation, part in parts
        ]

    return await in_thread(datasette, made)


def _group(
    datasette: Any,
    database: str,
    conversation: Mapping[str, Any],
    lines: Sequence[Any],
    rows: Mapping[str, Any],
    prompts: Mapping[int, Any],
    budget: render.Budget,
) -> dict[str, Any]:
    linker = PageLinks(datasette, database, conversation, Request.of({}))
    context = blocks.Context(cwd=conversation["cwd"], budget=budget, needle=None)
    messages = transcript(lines, rows, context, linker)
    items = []
    before = None
    for line, message in zip(lines, messages, strict=True):
        message.anchor = ""  # the ids of two conversations may be the same
        prompt = prompts.get(line["message_id"])
        gap = line["position"] - before - 1 if before is not None else 0
        answers = None
        if prompt and not any(other["uid"] == prompt["uid"] for other in lines):
            answers = {"title": prompt["title"], "href": linker.message(prompt["uid"])}
        items.append(
            {
                "runs": blocks.runs([message], "", ""),
                "gap": gap if gap > 0 else 0,
                "answers": answers,
            }
        )
        before = line["position"]
    return {
        "conversation": conversation,
        "href": linker.conversation(conversation["source"], conversation["session_id"]),
        "messages": items,
    }


async def _conversations(datasette: Any, db: Any, ids: Sequence[int]) -> list[dict[str, Any]]:
    listed = json.dumps(ids)
    rows = (await db.execute(_CONVERSATIONS_SQL, {"ids": listed})).rows
    firsts = {
        row["conversation_id"]: row["content"] or row["title"]
        for row in await db.execute(_FIRST_SQL, {"ids": listed})
    }
    return [
        dict(row)
        | {
            "first": " ".join((firsts.get(row["id"]) or "").split()),
            "href": conversation_url(datasette, db.name, row["source"], row["session_id"]),
        }
        for row in rows
    ]


async def _filter(datasette: Any, db: Any, request: Any) -> dict[str, Any]:
    """What the list of conversations may be narrowed by, and what of it is chosen. Other filters of
    the address are kept."""
    from .overview import project_labels

    sources = await db.execute("select id, name from sources order by name limit 200")
    projects = await db.execute(
        "select id, name, path from projects order by name, path limit 1000"
    )
    pairs = parse_qsl(request.query_string or "", keep_blank_values=True)
    chosen = {
        column: next((value for name, value in pairs if name in (column, f"{column}__exact")), "")
        for column in ("source", "project_id")
    }
    ours = {name for column in chosen for name in (column, f"{column}__exact")}
    kept = [pair for pair in pairs if pair[0] not in {*ours, "_next", "_read_from", "_format"}]
    hidden = ("kind__notin", READING_LIST["kind__notin"])
    action = str(datasette.urls.path(_path(request)))
    given = [(column, value) for column, value in chosen.items() if value]
    return {
        "action": action,
        "kept": kept,
        "source": chosen["source"],
        "project": chosen["project_id"],
        "sources": [(row["id"], row["name"]) for row in sources],
        "projects": [
            (str(id_), name)
            for id_, name in project_labels([tuple(row) for row in projects]).items()
        ],
        "all_href": f"{action}?{urlencode([pair for pair in kept if pair != hidden] + given)}"
        if hidden in kept
        else "",
        "clear_href": f"{action}?{urlencode(kept)}" if given else "",
    }


def _here(datasette: Any, request: Any, first: int, after: str | None = None) -> str:
    """This page from another row on, or after the row of Datasette's ``_next``."""
    from datasette.utils import path_with_replaced_args

    arguments = {"_read_from": str(first) if first else None}
    if after is not None:
        arguments["_next"] = after
    path = path_with_replaced_args(request, arguments, path=_path(request))
    return str(datasette.urls.path(path))


#: What only the page to read asks for.
_OF_LIST = tuple(
    f"_{name}="
    for name in ("read_from", "format", "labels", "next", "nofacet", "nosuggest", "extra")
)


def _back(datasette: Any, request: Any) -> str:
    """The page of Datasette that has the same rows as a table."""
    path = _path(request)
    path = path[: -len(".read")] if path.endswith(".read") else path
    kept = [
        pair
        for pair in (request.query_string or "").split("&")
        if pair and not pair.startswith(_OF_LIST)
    ]
    return str(datasette.urls.path(f"{path}?{'&'.join(kept)}" if kept else path))


def _path(request: Any) -> str:
    """Without ``base_url``."""
    return str(request.scope.get("route_path") or request.path)
