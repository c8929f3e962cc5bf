"""What the pages of the plugin share: which database, who may see it, and how an answer is sent."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from .defaults import is_crystal
from .urls import (
    OVERVIEW,
    READING,
    SEARCH,
    overview_url,
    reading_url,
    search_all_url,
    search_url,
    static_url,
)

#: Sent with every page of ours. Datasette's own templates have inline scripts, so scripts cannot be
#: limited further; escaping is what keeps hostile text harmless, this is the second wall.
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # who may see a page is asked for every reader
    "cache-control": "private",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
}

Result = TypeVar("Result")
View = Callable[[Any, Any], Awaitable[Any]]


async def open_database(datasette: Any, request: Any, tables: Iterable[str]) -> Any:
    """The crystal database that the route names, after asking Datasette whether the actor may see
    every one of ``tables`` (all that the page shows anything of). Raises ``NotFound`` where there is
    no such crystal database and ``Forbidden`` where a table may not be seen."""
    from datasette import Forbidden, NotFound
    from datasette.utils import tilde_decode

    from ..compat import allowed

    name = tilde_decode(request.url_vars["database"])
    db = datasette.databases.get(name)
    if db is None or not is_crystal(db):
        raise NotFound(f"There is no crystal database {name}")
    for table in tables:
        if not await allowed(datasette, request.actor, "view-table", name, table):
            raise Forbidden(f"You may not see {table}")
    return db


async def may_see(datasette: Any, actor: Any, database: str, tables: Iterable[str]) -> bool:
    """Whether ``actor`` may see all of ``tables``: asked by menus, links and jump entries."""
    from ..compat import allowed

    for table in tables:
        if not await allowed(datasette, actor, "view-table", database, table):
            return False
    return True


async def in_thread(datasette: Any, function: Callable[..., Result], *arguments: Any) -> Result:
    """What ``function`` returns, off the event loop. Where Datasette has no threads (in a browser, as
    Datasette Lite), it is called here and now."""
    if not datasette.setting("num_sql_threads"):
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def guarded(view: View) -> View:
    """A view whose answers carry our headers, and which says so plainly when SQLite took longer than
    Datasette's time limit (``sql_time_limit_ms``), or when the database is not as we make them."""

    @functools.wraps(view)
    async def wrapped(datasette: Any, request: Any) -> Any:
        from datasette import Response
        from datasette.utils import tilde_decode

        if request.method not in ("GET", "HEAD"):
            return with_headers(Response.text("Nothing can be written here.\n", status=405))
        database = tilde_decode(request.url_vars.get("database") or "")
        return await guard(datasette, database, view(datasette, request))

    return wrapped


async def guard(datasette: Any, database: str | None, answer: Awaitable[Any]) -> Any:
    """``answer`` as :func:`guarded` says, for a page of a database."""
    from datasette import Response
    from datasette.database import QueryInterrupted
    from datasette.views.base import DatasetteError

    try:
        response = await answer
    except QueryInterrupted:
        response = Response.text(
            "This took longer than the time limit of this Datasette (sql_time_limit_ms).\n",
            status=503,
        )
    except foreign_errors() as error:
        problem = await foreign(datasette.databases.get(database), error)
        if problem is None:
            raise
        raise DatasetteError(problem, title="These pages cannot show it", status=500) from error
    return with_headers(response)


def with_headers(response: Any) -> Any:
    """A response with our headers, but for those that it has already."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


# --------------------------------------------------------------------------- foreign databases


def foreign_errors() -> tuple[type[Exception], ...]:
    """What a view may raise because of a database that somebody else wrote."""
    from datasette.utils.sqlite import sqlite3

    return (
        sqlite3.DatabaseError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        LookupError,
    )


async def foreign(db: Any, error: Exception) -> str | None:
    """Why a page of a database failed with ``error``, in a sentence, if it is the database's fault:
    tables or columns are missing, or hold values of another type than they say. ``None`` where it
    is as we make them: then the fault is ours."""
    from datasette.utils.sqlite import sqlite3

    if db is None:
        return None
    if isinstance(error, sqlite3.DatabaseError):
        # not what passes, such as "database is locked"
        if not re.match("no such|malformed|database disk image|file is not", str(error)):
            return None
        return (
            f"{db.name} is not as datasette-crystal makes its databases: {error}. An import brings "
            "one of an earlier version up to date."
        )
    column = await _odd_column(db)
    return f"{db.name} holds values of a wrong type in {column}." if column else None


_TYPES = {
    "TEXT": "typeof({0}) not in ('text', 'null')",
    "INTEGER": "typeof({0}) not in ('integer', 'null')",
    "REAL": "(typeof({0}) not in ('real', 'integer', 'null') or abs({0}) > 1e15)",
    "BLOB": "typeof({0}) not in ('blob', 'null')",
}


async def _odd_column(db: Any) -> str | None:
    """A column of our tables that holds values of another type than it says. No table of ours is
    strict: SQLite takes anything."""
    from datasette.utils import escape_sqlite
    from datasette.utils.sqlite import sqlite3

    from ..schema import TABLES

    try:
        for table in TABLES:
            tests = {
                row["name"]: _TYPES[row["type"]].format(escape_sqlite(row["name"]))
                for row in (await db.execute(f"pragma table_info({table})")).rows
                if row["type"] in _TYPES
            }
            for name, test in tests.items():
                if (await db.execute(f"select 1 from {table} where {test} limit 1")).rows:
                    return f"{table}.{name}"
    except sqlite3.Error:
        pass
    return None


async def render(
    datasette: Any, request: Any, template: str, context: dict[str, Any], view_name: str
) -> Any:
    """An HTML answer from a template of the plugin, which finds in ``crystal`` the database of the
    route, the pages to go to, and ``static(name)``: the address of a file of the plugin. ``tab`` in
    ``context`` is the page that it belongs to, if not ``view_name``."""
    from datasette import Response
    from datasette.utils import tilde_decode

    database = tilde_decode(request.url_vars.get("database") or "") or None
    links = [(SEARCH, "Search", search_all_url(datasette))]
    if database is not None:
        from .conversation import TABLES as read

        conversations = datasette.urls.table(database, "conversations")
        if await may_see(datasette, request.actor, database, read):
            conversations = reading_url(datasette, database)
        links = [
            (OVERVIEW, "Overview", overview_url(datasette, database)),
            (SEARCH, "Search", search_url(datasette, database)),
            (READING, "Conversations", conversations),
            ("", "All tables", datasette.urls.database(database)),
        ]
    frame = {
        "database": database,
        "nav": [
            {"label": label, "href": href, "current": name == context.get("tab", view_name)}
            for name, label, href in links
        ],
        "static": functools.partial(static_url, datasette),
    }
    html = await datasette.render_template(
        template, {"crystal": frame} | context, request=request, view_name=view_name
    )
    # 0.65 does not say what language its pages are in; screen readers need it
    return Response.html(html.replace("<html>", '<html lang="en">', 1))
