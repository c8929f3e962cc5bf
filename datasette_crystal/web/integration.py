"""What makes Datasette's own pages lead to ours: cells that link, menus, actions, the jump menu.

Cells link by the numbers that a row has, through ``/{db}/-/crystal/open``, so that no table page
costs a query more. Every entry is offered only to those who may open what it leads to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from ..schema import TABLES, VIEWS
from .defaults import crystal_databases, is_crystal
from .pages import guarded, may_see, open_database
from .urls import (
    conversation_url,
    open_url,
    overview_url,
    reading_url,
    search_all_url,
    search_url,
)

Link = dict[str, str]

# --------------------------------------------------------------------------- cells

#: Columns whose cells may link, whatever the table.
_CELLS = frozenset(
    {"title", "command", "conversation", "conversation_id", "message_id", "prompt", "passage"}
)
#: Titles are cut: a link over many lines is hard to read, and a cell may hold anything.
_LENGTH = 300
#: What Datasette shows of a long cell.
_MOST = 2048


def cell(
    row: Any, value: Any, column: str, table: str | None, database: str, datasette: Any
) -> Markup | None:
    """The link that a cell of a table page, or of the result of any SQL, becomes."""
    if column not in _CELLS or value in (None, "") or isinstance(value, bytes | dict):
        return None
    db = datasette.databases.get(database)
    if db is None or not is_crystal(db):
        return None
    if table is not None and table not in TABLES and table not in VIEWS:
        return None
    address = _address(_Row(row), column, table, database, datasette)
    if address is None:
        return None
    text = str(value)
    if column == "prompt":  # whole, as it stands in a table: its first line is the link
        text = text.strip()
        line, _, rest = text[:_MOST].partition("\n")
        rest = line[_LENGTH:] + ("\n" + rest if rest else "") + ("…" if len(text) > _MOST else "")
        return Markup('<a href="{}">{}</a>{}').format(address, line[:_LENGTH], rest)
    if len(text) > _LENGTH:
        text = text[: _LENGTH - 1] + "…"
    return Markup('<a href="{}">{}</a>').format(address, text)


class _Row:
    """A row of Datasette: in table pages, foreign keys are {value, label}."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.columns = set(row.keys())

    def number(self, column: str) -> int | None:
        value = self.get(column)
        return value if isinstance(value, int) and 0 < value < 2**62 else None

    def get(self, column: str) -> Any:
        if column not in self.columns:
            return None
        value = self.row[column]
        return value["value"] if isinstance(value, dict) else value


def _address(
    row: _Row, column: str, table: str | None, database: str, datasette: Any
) -> str | None:
    conversation = row.number("id" if table == "conversations" else "conversation_id")
    message = row.number("id" if table == "messages" else "message_id")
    if table == "conversations" or (table is None and column == "title" and message is None):
        source, session_id = row.get("source"), row.get("session_id")
        if isinstance(source, str) and isinstance(session_id, str):
            return conversation_url(datasette, database, source, session_id)
    if column in ("conversation", "conversation_id") or message is None:
        if conversation is None:
            return None
        return open_url(datasette, database, conversation=conversation)
    ids = {"message": message}
    if table == "transcript" and conversation:  # a message that it may have taken over
        ids["conversation"] = conversation
    return open_url(datasette, database, **ids)


@guarded
async def open_by_number(datasette: Any, request: Any) -> Any:
    """``/{db}/-/crystal/open?message=170`` or ``?conversation=17``: leads to the page with the
    lasting address. With both, to the message as this conversation shows it."""
    from datasette import NotFound, Response

    db = await open_database(datasette, request, ("conversations", "messages"))
    message, conversation = (
        _number(request.args.get(name)) for name in ("message", "conversation")
    )
    row = None
    if (
        message
        and conversation
        and await may_see(datasette, request.actor, db.name, ["conversation_messages"])
    ):
        row = (
            await db.execute(
                "select c.source, c.session_id, cm.uid from conversation_messages cm "
                "join conversations c on c.id = cm.conversation_id "
                "where cm.message_id = :message and cm.conversation_id = :conversation",
                {"message": message, "conversation": conversation},
            )
        ).first()
    if message and row is None:
        row = (
            await db.execute(
                "select c.source, c.session_id, m.uid from messages m "
                "join conversations c on c.id = m.conversation_id where m.id = :message",
                {"message": message},
            )
        ).first()
    elif conversation and row is None:
        row = (
            await db.execute(
                "select source, session_id, null as uid from conversations where id = :id",
                {"id": conversation},
            )
        ).first()
    if row is None:
        raise NotFound("There is no such conversation or message")
    return Response.redirect(
        conversation_url(datasette, db.name, row["source"], row["session_id"], uid=row["uid"])
    )


def _number(text: str | None) -> int | None:
    text = text or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


# --------------------------------------------------------------------------- menus and actions


async def may_search(datasette: Any, actor: Any, database: str) -> bool:
    """Whether ``actor`` may see the search page of a database."""
    from .search_page import TABLES as tables

    return await may_see(datasette, actor, database, tables)


async def may_overview(datasette: Any, actor: Any, database: str) -> bool:
    """Whether ``actor`` may see the overview of a database."""
    from .overview import TABLES as tables

    return await may_see(datasette, actor, database, tables)


async def may_read(datasette: Any, actor: Any, database: str) -> bool:
    """Whether ``actor`` may see the conversations of a database."""
    from .conversation import TABLES as tables

    return await may_see(datasette, actor, database, tables)


async def menu_links(datasette: Any, actor: Any) -> list[Link]:
    """Entries of Datasette's menu: the overview of each crystal database, and the search."""
    databases = [name for name, _ in crystal_databases(datasette)]
    overviews = [name for name in databases if await may_overview(datasette, actor, name)]
    searches = [name for name in databases if await may_search(datasette, actor, name)]
    links = [
        {
            "href": overview_url(datasette, name),
            "label": f"Conversations: {name}" if len(databases) > 1 else "Conversations",
        }
        for name in overviews[:10]
    ]
    if len(searches) == 1:
        links.append({"href": search_url(datasette, searches[0]), "label": "Search conversations"})
    elif searches:
        links.append({"href": search_all_url(datasette), "label": "Search conversations"})
    return links


def ways(datasette: Any, database: str) -> Markup:
    """A line with links to our pages of a database."""
    links = Markup(" · ").join(
        Markup('<a href="{}">{}</a>').format(href, label)
        for href, label in (
            (overview_url(datasette, database), "Overview"),
            (search_url(datasette, database), "Search"),
            (reading_url(datasette, database), "Conversations"),
        )
    )
    return Markup('<span class="crystal-ways">To read: {}</span>').format(links)


async def ways_in(datasette: Any, actor: Any, databases: Iterable[str]) -> Markup | None:
    """What stands above the page of a database and the list of them (1.0)."""
    lines = []
    for name in databases:
        db = datasette.databases.get(name)
        if db is None or not is_crystal(db):
            continue
        if not await may_overview(datasette, actor, name):
            continue
        if await may_read(datasette, actor, name):
            lines.append((name, ways(datasette, name)))
    if not lines:
        return None
    return Markup("").join(
        Markup('<p class="crystal-notice">{}{}</p>').format(
            Markup("<strong>{}</strong> ").format(name) if len(lines) > 1 else "", line
        )
        for name, line in lines[:20]
    )


async def database_actions(datasette: Any, actor: Any, database: str) -> list[Link]:
    """Actions of the page of a database."""
    db = datasette.databases.get(database)
    if db is None or not is_crystal(db):
        return []
    links = []
    if await may_overview(datasette, actor, database):
        links.append(
            {
                "href": overview_url(datasette, database),
                "label": "Overview of the conversations",
                "description": "Activity, projects, models, tokens, tools",
            }
        )
    return links + await _search_action(datasette, actor, database)


async def _search_action(
    datasette: Any, actor: Any, database: str, **parameters: str
) -> list[Link]:
    if not await may_search(datasette, actor, database):
        return []
    return [
        {
            "href": search_url(datasette, database, **parameters),
            "label": "Search conversations",
            "description": "Prompts, replies, thinking, titles and tool calls",
        }
    ]


async def table_actions(
    datasette: Any, actor: Any, database: str, table: str, request: Any
) -> list[Link]:
    """Actions of the page of a table or view of ours: the search, with what is filtered there."""
    db = datasette.databases.get(database)
    known = TABLES.get(table) or VIEWS.get(table)
    if db is None or not is_crystal(db) or known is None or known.hidden:
        return []
    parameters = {}
    if request is not None and table in ("conversations", "messages"):
        for name, ours in (("_search", "q"), ("source", "source"), ("kind", "kind")):
            value = request.args.get(name)
            if value and (name != "kind" or table == "messages"):
                parameters[ours] = value[:1000]
    return await _search_action(datasette, actor, database, **parameters)


async def row_actions(
    datasette: Any, actor: Any, database: str, table: str, row: Any
) -> list[Link]:
    """Actions of the page of a row (1.0): what it belongs to, to read."""
    db = datasette.databases.get(database)
    if db is None or not is_crystal(db) or row is None:
        return []
    found = _Row(row)
    ids = {
        "conversation": found.number("id" if table == "conversations" else "conversation_id"),
        "message": found.number("id" if table == "messages" else "message_id"),
    }
    if table not in TABLES or not any(ids.values()):
        return []
    if not await may_read(datasette, actor, database):
        return []
    given = {name: id_ for name, id_ in ids.items() if id_ is not None}
    if "message" in given:
        given.pop("conversation", None)
    return [
        {
            "href": open_url(datasette, database, **given),
            "label": "Read in its conversation" if "message" in given else "Read the conversation",
        }
    ]


async def jump_items(datasette: Any, actor: Any, request: Any) -> list[Any]:
    """Items of the jump menu (1.0): our pages, and conversations by title once something is typed.
    The menu shows whatever it is given, so permissions are asked for here."""
    from datasette.jump import JumpSQL

    items = []
    typed = (request.args.get("q") or "").replace("\0", "").strip()[:200] if request else ""
    for link in await menu_links(datasette, actor):
        items.append(
            JumpSQL.menu_item(
                label=link["label"], url=link["href"], description="Conversations with AI tools"
            )
        )
    if len(typed) < 2:
        return items
    for database, _ in crystal_databases(datasette):
        if not await may_read(datasette, actor, database):
            continue
        items.append(
            JumpSQL(
                sql=(
                    "select 'conversation' as type, title as label, "
                    "source || coalesce(' · ' || substr(started_at, 1, 10), '') as description, "
                    ":open || id as url, title as search_text, null as display_name "
                    "from (select * from conversations where title like :typed escape '\\' "
                    "order by started_at desc limit 20)"
                ),
                params={
                    "open": open_url(datasette, database) + "?conversation=",
                    "typed": _like(typed),
                },
                database=database,
            )
        )
    return items


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


# --------------------------------------------------------------------------- Datasette's search


async def search_notice(datasette: Any, request: Any, database: str, table: str) -> Markup | None:
    """What stands above the messages table while its own search box is used: the way to our search
    with the same words (1.0)."""
    address = await notice_url(datasette, request, database, table)
    if address is None:
        return None
    return Markup(
        '<p class="crystal-notice">Datasette’s box looks for whole words in messages. '
        '<a href="{}">Search conversations</a> finds parts of Chinese, Japanese and Korean text, '
        "titles and tool calls, too.</p>"
    ).format(address)


async def notice_url(datasette: Any, request: Any, database: str, table: str) -> str | None:
    """Where the notice leads, or ``None`` where there is nothing to say."""
    db = datasette.databases.get(database)
    if db is None or table != "messages" or request is None or not is_crystal(db):
        return None
    typed = request.args.get("_search")
    if not typed or not await may_search(datasette, request.actor, database):
        return None
    return search_url(datasette, database, q=typed[:1000])


def notice_script(
    datasette: Any, request: Any, database: str | None, table: str | None
) -> list[dict[str, Any]]:
    """0.65, whose table pages have no place for a notice: the script that makes one."""
    from ..compat import NEW_LINE
    from .urls import static_url

    db = datasette.databases.get(database)
    if NEW_LINE or db is None or table != "messages" or request is None or not is_crystal(db):
        return []
    if not request.args.get("_search"):
        return []
    return [{"url": static_url(datasette, "crystal-table.js"), "module": True}]


def known_numbers(
    columns: Iterable[str], rows: Iterable[Any], table: str | None
) -> tuple[str, list[int]]:
    """What the rows of a result name: ``("message_id", numbers)``, ``("conversation_id", numbers)``
    or ``("", [])``; each once, in order."""
    names = list(columns)
    column, what = "", ""
    if table == "messages" and "id" in names:
        column, what = "id", "message_id"
    elif "message_id" in names:
        column = what = "message_id"
    elif table == "conversations" and "id" in names:
        column, what = "id", "conversation_id"
    elif "conversation_id" in names:
        column = what = "conversation_id"
    if not column:
        return "", []
    place = names.index(column)
    found: dict[int, None] = {}
    for row in rows:
        value = row[column] if isinstance(row, Mapping) else row[place]
        if isinstance(value, Mapping):
            value = value.get("value")
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**62:
            found[value] = None
    return what, list(found)
