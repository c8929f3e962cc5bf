"""The conversation page, its ``.json`` and ``.md`` siblings, and the images of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import blocks, cost, render
from .export import as_json, as_markdown
from .numbers import dollars
from .pages import SECURITY_HEADERS, guarded, in_thread, may_see, open_database
from .pages import render as render_page
from .transcript import Linker, outline, pager, rows_of, transcript
from .urls import CONVERSATION, anchor, conversation_url, image_url, search_url

#: All tables that the page and its siblings show something of.
TABLES = (
    "conversations",
    "messages",
    "conversation_messages",
    "tool_calls",
    "file_edits",
    "attachments",
    "projects",
    "sources",
)
#: Messages on a page.
PAGE_SIZE = 100
#: Seconds that the Markdown and code of one page may take; the rest of it is plain text then.
PAGE_SECONDS = 2.0
#: No conversation is read further.
MAX_MESSAGES = 200_000

FILTERS = {
    "": "Everything",
    "talk": "Prompts and replies",
    "prompts": "Prompts",
    "edits": "Edits",
    "failed": "Failures",
}

CONVERSATION_SQL = """
select c.*, s.name as source_name, p.name as project, p.path as project_path,
  parent.title as parent_title, parent.source as parent_source,
  parent.session_id as parent_session
from conversations c
join sources s on s.id = c.source
left join projects p on p.id = c.project_id
left join conversations parent on parent.id = c.parent_id
where c.source = :source and c.session_id = :session_id
"""

_RESUMED_SQL = """
select c.source, c.session_id
from resumed_sessions r join conversations c on c.id = r.conversation_id
where r.source = :source and r.session_id = :session_id
"""

LINES_SQL = """
select cm.position, cm.message_id, cm.uid, cm.state, m.kind, m.title, m.has_tool_use, m.characters,
  m.conversation_id <> cm.conversation_id as inherited
from conversation_messages cm join messages m on m.id = cm.message_id
where cm.conversation_id = :id
order by cm.position limit :limit
"""

_WITH_EDITS_SQL = """
select cm.position
from conversation_messages cm join file_edits e on e.message_id = cm.message_id
where cm.conversation_id = :id
"""

_WITH_FAILURES_SQL = """
select cm.position
from conversation_messages cm join tool_calls t on t.message_id = cm.message_id
where cm.conversation_id = :id and t.status in ('error', 'denied', 'interrupted')
"""

_SEARCH_SQL = r"""
select cm.position
from conversation_messages cm join messages m on m.id = cm.message_id
where cm.conversation_id = :id and (
  m.content like :like escape '\' or m.thinking like :like escape '\'
  or exists (
    select 1 from tool_calls t
    where t.message_id = m.id and (
      t.title like :like escape '\' or t.input like :like escape '\'
      or t.output like :like escape '\'
    )
  )
)
order by cm.position limit :limit
"""

CHILDREN_SQL = """
select source, session_id, title, kind, started_at, message_count
from conversations where parent_id = :id order by started_at, id limit 100
"""

FILES_SQL = """
select path, count(*) as edits, sum(lines_added) as added, sum(lines_removed) as removed,
  max(action = 'create') as created, max(action = 'delete') as deleted
from file_edits where conversation_id = :id
group by path order by path limit 300
"""

_EARLIER_SQL = """
select source, session_id, title from conversations
where (started_at, id) < (:started_at, :id) and kind <> 'subagent'
order by started_at desc, id desc limit 1
"""

_LATER_SQL = """
select source, session_id, title from conversations
where (started_at, id) > (:started_at, :id) and kind <> 'subagent'
order by started_at, id limit 1
"""

TOKENS_SQL = """
select coalesce(m.model, c.model) as model, sum(m.input_tokens) as input,
  sum(m.output_tokens) as output, sum(m.cache_read_tokens) as cache_read,
  sum(m.cache_write_tokens) as cache_write
from messages m join conversations c on c.id = m.conversation_id
where c.id = :id group by 1
"""

_IMAGE_SQL = "select media_type, content from attachments where id = :id"


@dataclass(frozen=True, slots=True)
class Request:
    """What the query string asks for. Whatever it holds, something sensible comes out."""

    message: str
    page: int
    show: str
    search: str
    fragment: bool

    @classmethod
    def of(cls, arguments: Any) -> Request:
        page = arguments.get("page") or ""
        show = arguments.get("show") or ""
        return cls(
            message=arguments.get("message") or "",
            page=int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
            show=show if show in FILTERS else "",
            search=(arguments.get("q") or "").strip()[:200],
            fragment=bool(arguments.get("fragment")),
        )

    def parameters(self, **changes: str) -> dict[str, str]:
        """The query string of a link that keeps the filters."""
        return {"show": self.show, "q": self.search} | changes


@guarded
async def conversation(datasette: Any, request: Any) -> Any:
    """``/{db}/-/crystal/{source}/{session_id}``, and the same with ``.json`` or ``.md``."""
    from datasette import NotFound, Response
    from datasette.utils import tilde_decode

    if request.method not in ("GET", "HEAD"):
        return Response.text("Method not allowed\n", status=405)
    db = await open_database(datasette, request, TABLES)
    names = {
        "source": tilde_decode(request.url_vars["source"]),
        "session_id": tilde_decode(request.url_vars["session_id"]),
    }
    ending = request.url_vars.get("format") or ""
    row = (await db.execute(CONVERSATION_SQL, names)).first()
    if row is None:
        address = await _resumed(datasette, request, db, names, ending)
        if address is None:
            raise NotFound(f"There is no conversation {names['session_id']} of {names['source']}")
        return Response.redirect(address)
    if ending == ".json":
        return Response(await as_json(datasette, db, row), content_type="application/json")
    if ending == ".md":
        return Response(await as_markdown(db, row), content_type="text/markdown; charset=utf-8")
    return await _page(datasette, request, db, dict(row))


async def _resumed(
    datasette: Any, request: Any, db: Any, names: dict[str, str], ending: str
) -> str | None:
    """Where the conversation is of which this session is a part."""
    if not await may_see(datasette, request.actor, db.name, ["resumed_sessions"]):
        return None
    row = (await db.execute(_RESUMED_SQL, names)).first()
    if row is None:
        return None
    address = conversation_url(datasette, db.name, row["source"], row["session_id"], format=ending)
    return f"{address}?{request.query_string}" if request.query_string else address


# --------------------------------------------------------------------------- the page


async def _page(datasette: Any, request: Any, db: Any, row: dict[str, Any]) -> Any:
    asked = Request.of(request.args)
    lines = (await db.execute(LINES_SQL, {"id": row["id"], "limit": MAX_MESSAGES})).rows
    chosen = await _chosen(db, row["id"], lines, asked)
    pages = max(1, -(-len(chosen) // PAGE_SIZE))
    target, known = _place_of(chosen, asked.message)
    page = target // PAGE_SIZE + 1 if known else min(max(asked.page, 1), pages)
    shown = chosen[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    page_rows = await rows_of(db, shown)

    needle = re.compile(re.escape(asked.search), re.I) if asked.search else None
    context = blocks.Context(cwd=row["cwd"], budget=render.Budget(PAGE_SECONDS), needle=needle)
    linker = PageLinks(datasette, db.name, row, asked)
    messages = await in_thread(
        datasette, transcript, shown, page_rows, context, linker, asked.message
    )
    parent_href = ""
    if row["parent_session"]:
        parent_href = linker.conversation(row["parent_source"], row["parent_session"])
    runs = blocks.runs(messages, row["parent_title"] or "", parent_href)
    view = {
        "conversation": row,
        "runs": runs,
        "page": page,
        "pages": pages,
        "count": len(chosen),
        "asked": asked,
        "href": linker.conversation(row["source"], row["session_id"]),
    }
    if asked.fragment:
        return await render_page(
            datasette, request, "_crystal_fragment.html", view | {"bare": True}, CONVERSATION
        )
    listed = None
    if row["cost_usd"] is None:
        tokens = (await db.execute(TOKENS_SQL, {"id": row["id"]})).rows
        listed = await in_thread(datasette, list_price, tokens, row)
    view |= {
        "filters": [
            {
                "label": label,
                "href": linker.page(1, show=name),
                "current": name == asked.show,
            }
            for name, label in FILTERS.items()
        ],
        "outline": outline(lines, shown, PAGE_SIZE, linker),
        "pager": pager(page, pages, linker),
        "missing": bool(asked.message) and not known,
        "facts": facts(row, listed),
        "details": details(row),
        "tables": _table_links(datasette, db.name, row),
        "files": [
            dict(file)
            | {
                "short": blocks.shorten_path(file["path"], row["cwd"]),
                "href": _table(datasette, db.name, "file_edits", path=file["path"]),
            }
            for file in await db.execute(FILES_SQL, {"id": row["id"]})
        ],
        "children": [
            dict(child) | {"href": linker.conversation(child["source"], child["session_id"])}
            for child in await db.execute(CHILDREN_SQL, {"id": row["id"]})
        ],
        "parent_href": parent_href,
        "neighbours": await neighbours(db, row, linker),
        "json_href": linker.conversation(row["source"], row["session_id"], ".json"),
        "markdown_href": linker.conversation(row["source"], row["session_id"], ".md"),
        "row_href": datasette.urls.row(db.name, "conversations", str(row["id"])),
        "project_href": _table(datasette, db.name, "conversations", project_id=row["project_id"]),
        "search_all_href": search_url(datasette, db.name, q=asked.search),
        "duration": blocks.duration(_milliseconds(row)),
        "number": blocks.number,
    }
    return await render_page(datasette, request, "crystal_conversation.html", view, CONVERSATION)


async def _chosen(db: Any, id: int, lines: Sequence[Any], asked: Request) -> list[Any]:
    """The messages that the filter and the search leave."""
    chosen = list(lines)
    if asked.show == "talk":
        chosen = [
            line
            for line in chosen
            if blocks.family_of_kind(line["kind"]) == "person"
            or (line["characters"] and blocks.family_of_kind(line["kind"]) == "model")
        ]
    elif asked.show == "prompts":
        chosen = [line for line in chosen if blocks.family_of_kind(line["kind"]) == "person"]
    elif asked.show:
        sql = _WITH_EDITS_SQL if asked.show == "edits" else _WITH_FAILURES_SQL
        found = {row[0] for row in await db.execute(sql, {"id": id})}
        failed = asked.show == "failed"
        chosen = [
            line
            for line in chosen
            if line["position"] in found or (failed and line["kind"] == "error")
        ]
    if asked.search:
        like = re.sub(r"([\\%_])", r"\\\1", asked.search)
        rows = await db.execute(_SEARCH_SQL, {"id": id, "like": f"%{like}%", "limit": MAX_MESSAGES})
        positions = {row[0] for row in rows}
        chosen = [line for line in chosen if line["position"] in positions]
    return chosen


def _place_of(lines: Sequence[Any], uid: str) -> tuple[int, bool]:
    """Where a message stands among ``lines``, and whether it does."""
    if uid:
        for place, line in enumerate(lines):
            if line["uid"] == uid:
                return place, True
    return 0, False


class PageLinks:
    """Where the links of a page of this Datasette lead."""

    def __init__(
        self, datasette: Any, database: str, row: Mapping[str, Any], asked: Request
    ) -> None:
        self.datasette = datasette
        self.database = database
        self.row = row
        self.asked = asked

    def conversation(self, source: str, session_id: str, ending: str = "") -> str:
        return conversation_url(self.datasette, self.database, source, session_id, format=ending)

    def message(self, uid: str) -> str:
        return conversation_url(
            self.datasette, self.database, self.row["source"], self.row["session_id"], uid
        )

    def page(self, page: int, **changes: str) -> str:
        parameters = self.asked.parameters(page=str(page) if page > 1 else "", **changes)
        return conversation_url(
            self.datasette,
            self.database,
            self.row["source"],
            self.row["session_id"],
            **parameters,
        )

    def row_of(self, table: str, id: int) -> str:
        return str(self.datasette.urls.row(self.database, table, str(id)))

    def image(self, id: int) -> str:
        return image_url(self.datasette, self.database, id)

    def anchor(self, uid: str) -> str:
        return anchor(uid)


async def neighbours(db: Any, row: Mapping[str, Any], linker: Linker) -> dict[str, Any]:
    """The conversations that began before and after this one."""
    found: dict[str, Any] = {"earlier": None, "later": None}
    if not row["started_at"]:
        return found
    values = {"started_at": row["started_at"], "id": row["id"]}
    for name, sql in (("earlier", _EARLIER_SQL), ("later", _LATER_SQL)):
        other = (await db.execute(sql, values)).first()
        if other is not None:
            href = linker.conversation(other["source"], other["session_id"])
            found[name] = {"title": other["title"], "href": href}
    return found


def _milliseconds(row: Mapping[str, Any]) -> int | None:
    from ..text import milliseconds_between

    return milliseconds_between(row["started_at"], row["ended_at"])


@dataclass(frozen=True, slots=True)
class Listed:
    """US dollars at the API list prices, ``None`` where no model has one, and the models with
    tokens that have none."""

    dollars: float | None
    without: tuple[str, ...]


def list_price(tokens: Sequence[Any], row: Mapping[str, Any]) -> Listed | None:
    """What the tokens of a conversation cost by the lists, each model's at its own price on the
    day the conversation began. ``tokens`` are rows of (model, input, output, cache read, cache
    write); a tool that counts whole conversations only has them in ``row``. ``None`` where no
    tokens are recorded."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    counted = [tuple(part)[:5] for part in tokens if any(tuple(part)[1:])]
    if not counted and any(row[name] for name in names):
        counted = [(row["model"], *(row[name] for name in names))]
    if not counted:
        return None
    prices = [
        (name, cost.list_price_usd(name, input, output, read, write, row["started_at"]))
        for name, input, output, read, write in counted
    ]
    known = [price for _, price in prices if price is not None]
    without = {name or "no model named" for name, price in prices if price is None}
    return Listed(sum(known) if known else None, tuple(sorted(without)))


def facts(row: Mapping[str, Any], listed: Listed | None = None) -> list[dict[str, str]]:
    """The figures of the header: what, how it is put in words, and what is to be said of it.
    ``listed`` is the price of the tokens where the tool recorded no cost."""
    read = sum(row[name] or 0 for name in ("input_tokens", "cache_write_tokens"))
    found = [
        ("Prompts", blocks.number(row["prompt_count"]), ""),
        ("Messages", blocks.number(row["message_count"]), ""),
        ("Tool calls", blocks.number(row["tool_call_count"]), ""),
    ]
    if row["error_count"]:
        found.append(("Failures", blocks.number(row["error_count"]), "c-bad"))
    if read:
        found.append(("Tokens in", blocks.number(read), ""))
    if row["cache_read_tokens"]:
        found.append(("From cache", blocks.number(row["cache_read_tokens"]), ""))
    if row["output_tokens"]:
        found.append(("Tokens out", blocks.number(row["output_tokens"]), ""))
    if row["cost_usd"] is not None:
        found.append(("Cost", dollars(row["cost_usd"]), ""))
    made = [{"label": label, "value": value, "css": css, "note": ""} for label, value, css in found]
    if listed is not None:
        without = f"no price for {', '.join(name[:60] for name in listed.without[:5])}"
        made.append(
            {
                "label": "List price",
                "value": "–" if listed.dollars is None else dollars(listed.dollars),
                "css": "",
                "note": "; ".join(
                    [cost.LABEL] * (listed.dollars is not None) + [without] * bool(listed.without)
                ),
            }
        )
    return made


_RESUME = {"claude-code": "claude --resume {}", "codex": "codex resume {}"}
_PLAIN_ID = re.compile(r"[\w-]{8,64}")


def details(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What only some want to know."""
    resume = ""
    if row["kind"] in ("main", "fork") and _PLAIN_ID.fullmatch(row["session_id"]):
        resume = _RESUME.get(row["source"], "").format(row["session_id"])
    pairs = [
        ("Session", row["session_id"]),
        ("Resume with", resume),
        ("Directory", row["cwd"]),
        ("Tool version", row["tool_version"]),
        ("Machine", row["machine"]),
        ("Kind", row["kind"] if row["kind"] != "main" else ""),
        ("Cost is from", row["cost_origin"] if row["cost_usd"] is not None else ""),
        ("Read", row["fidelity"] if row["fidelity"] != "complete" else ""),
        ("Archived", "in the tool" if row["archived"] else ""),
        ("Files gone since", row["missing_since"]),
        ("Imported", row["imported_at"]),
    ]
    return [(label, value) for label, value in pairs if value]


def _table(datasette: Any, database: str, table: str, **filters: Any) -> str:
    from urllib.parse import urlencode

    given = {f"{name}__exact": value for name, value in filters.items() if value is not None}
    return f"{datasette.urls.table(database, table)}?{urlencode(given)}"


def _table_links(datasette: Any, database: str, row: Mapping[str, Any]) -> list[tuple[str, str]]:
    links = [("This row", str(datasette.urls.row(database, "conversations", str(row["id"]))))]
    for table, label in (
        ("messages", "Messages"),
        ("tool_calls", "Tool calls"),
        ("file_edits", "File edits"),
    ):
        links.append((label, _table(datasette, database, table, conversation_id=row["id"])))
    return links


# --------------------------------------------------------------------------- images


@guarded
async def image(datasette: Any, request: Any) -> Any:
    """``/{db}/-/crystal/-/image/{id}``: an image of a message, if it is one by its first bytes. What
    the database calls it decides nothing."""
    from datasette import NotFound, Response

    if request.method not in ("GET", "HEAD"):
        return Response.text("Method not allowed\n", status=405)
    db = await open_database(datasette, request, ["attachments"])
    id = request.url_vars["id"]
    row = None
    if len(id) < 19:
        row = (await db.execute(_IMAGE_SQL, {"id": int(id)})).first()
    content = row["content"] if row is not None else None
    media_type = blocks.image_type(row["media_type"], content) if row is not None else None
    if media_type is None:
        raise NotFound(f"There is no image {id}")
    headers = SECURITY_HEADERS | {
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, max-age=3600",
        "content-disposition": "inline",
    }
    return Response(content, headers=headers, content_type=media_type)
