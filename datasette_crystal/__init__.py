"""Keep the conversations of your AI coding tools in one SQLite file, and read them with Datasette.

Here are the hooks of the Datasette plugin, and nothing else: each imports what it needs when it is
called, so that the importer and the notebooks start without Datasette.
"""

from collections.abc import Awaitable
from typing import Any

import pluggy

__version__ = "0.1a0"

# `from datasette import hookimpl` is this very marker, and imports all of Datasette: a second.
hookimpl = pluggy.HookimplMarker("datasette")


@hookimpl
def register_commands(cli: Any) -> None:
    from .cli import crystal

    cli.add_command(crystal)


@hookimpl
def startup(datasette: Any) -> Awaitable[None]:
    from .compat import apply_defaults

    return apply_defaults(datasette)


@hookimpl
def prepare_connection(conn: Any) -> None:
    """The SQL functions of our saved queries."""

    def list_price_usd(*arguments: Any) -> float | None:
        from .web.cost import list_price_usd

        return list_price_usd(*arguments)

    conn.create_function("list_price_usd", 6, list_price_usd)


@hookimpl
def extra_css_urls(datasette: Any, database: str | None) -> list[str]:
    from .web.defaults import is_crystal

    db = datasette.databases.get(database)
    if db is None or not is_crystal(db):
        return []
    return [datasette.urls.static_plugins("datasette_crystal", "crystal.css")]


@hookimpl
def get_metadata(datasette: Any, database: str | None) -> dict[str, Any]:
    """Datasette 0.65 only."""
    from .compat import metadata

    return metadata(datasette, database)


@hookimpl
def canned_queries(datasette: Any, database: str) -> dict[str, Any]:
    """Datasette 0.65 only."""
    from .compat import canned_queries

    return canned_queries(datasette, database)


@hookimpl(trylast=True)  # the last word counts
def permission_allowed(
    datasette: Any, actor: Any, action: str, resource: Any
) -> Awaitable[bool | None] | None:
    """Datasette 0.65 only."""
    if action not in ("view-table", "view-query"):
        return None
    from .compat import permission_allowed

    return permission_allowed(datasette, actor, action, resource)


@hookimpl
def permission_resources_sql(datasette: Any, actor: Any, action: str) -> Awaitable[Any] | None:
    """Datasette 1.0 only."""
    if action not in ("view-table", "view-query"):
        return None
    from .compat import permission_rules

    return permission_rules(datasette, actor, action)


@hookimpl
def register_routes() -> list[tuple[str, Any]]:
    from .web.routes import routes

    return routes()


@hookimpl
def register_output_renderer(datasette: Any) -> dict[str, Any]:
    from .web.reading import can_read, read

    return {"extension": "read", "render": read, "can_render": can_read}


@hookimpl
def render_cell(
    row: Any, value: Any, column: str, table: str | None, database: str, datasette: Any
) -> Any:
    from .web.integration import cell

    return cell(row, value, column, table, database, datasette)


@hookimpl
def menu_links(datasette: Any, actor: Any) -> Awaitable[list[dict[str, str]]]:
    from .web.integration import menu_links

    return menu_links(datasette, actor)


@hookimpl
def database_actions(datasette: Any, actor: Any, database: str) -> Awaitable[list[dict[str, str]]]:
    from .web.integration import database_actions

    return database_actions(datasette, actor, database)


@hookimpl
def table_actions(
    datasette: Any, actor: Any, database: str, table: str, request: Any
) -> Awaitable[list[dict[str, str]]]:
    from .web.integration import table_actions

    return table_actions(datasette, actor, database, table, request)


@hookimpl
def extra_js_urls(
    datasette: Any, request: Any, database: str | None, table: str | None
) -> list[dict[str, Any]]:
    from .web.integration import notice_script

    return notice_script(datasette, request, database, table)


@hookimpl
def view_actions(
    datasette: Any, actor: Any, database: str, view: str, request: Any
) -> Awaitable[list[dict[str, str]]]:
    """Datasette 1.0 only."""
    from .web.integration import table_actions

    return table_actions(datasette, actor, database, view, request)


@hookimpl
def row_actions(
    datasette: Any, actor: Any, database: str, table: str, row: Any
) -> Awaitable[list[dict[str, str]]]:
    """Datasette 1.0 only."""
    from .web.integration import row_actions

    return row_actions(datasette, actor, database, table, row)


@hookimpl
def homepage_actions(datasette: Any, actor: Any) -> Awaitable[list[dict[str, str]]]:
    """Datasette 1.0 only."""
    from .web.integration import menu_links

    return menu_links(datasette, actor)


@hookimpl
def top_table(datasette: Any, request: Any, database: str, table: str) -> Awaitable[Any]:
    """Datasette 1.0 only."""
    from .web.integration import search_notice

    return search_notice(datasette, request, database, table)


@hookimpl
def top_database(datasette: Any, request: Any, database: str) -> Awaitable[Any]:
    """Datasette 1.0 only."""
    from .web.integration import ways_in

    return ways_in(datasette, request.actor, [database])


@hookimpl
def top_homepage(datasette: Any, request: Any) -> Awaitable[Any]:
    """Datasette 1.0 only."""
    from .web.integration import ways_in

    return ways_in(datasette, request.actor, list(datasette.databases))


@hookimpl
def jump_items_sql(datasette: Any, actor: Any, request: Any) -> Awaitable[list[Any]]:
    """Datasette 1.0 only."""
    from .web.integration import jump_items

    return jump_items(datasette, actor, request)
