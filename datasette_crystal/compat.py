"""The only file that knows that there are two lines of Datasette: 0.65, which ``pip install
datasette`` gives, and the alphas of 1.0."""

from __future__ import annotations

import contextvars
import json
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from . import schema
from .web.defaults import crystal_databases, defaults_for, is_crystal
from .web.permissions import dependencies

try:
    from datasette.permissions import PermissionSQL
    from datasette.resources import DatabaseResource, TableResource

    NEW_LINE = True
except ImportError:
    NEW_LINE = False

#: Marks our saved queries among those of Datasette 1.0.
QUERY_SOURCE = "datasette-crystal"


async def allowed(
    datasette: Any, actor: Any, action: str, database: str | None = None, table: str | None = None
) -> bool:
    """May ``actor`` do ``action`` (``view-table``, ``view-database``, ``execute-sql`` ...), as
    Datasette's own pages would decide it: table before database before instance."""
    if NEW_LINE:
        resource: Any = None
        if database is not None:
            resource = (
                DatabaseResource(database) if table is None else TableResource(database, table)
            )
        return bool(await datasette.allowed(action=action, resource=resource, actor=actor))
    from datasette import Forbidden

    chain: list[Any] = ["view-instance"]
    if database is not None:
        chain.insert(0, ("view-database", database))
    if table is not None:
        chain.insert(0, (action, (database, table)))
    try:
        await datasette.ensure_permissions(actor, chain)
    except Forbidden:
        return False
    if table is None and action not in ("view-database", "view-instance"):
        return bool(await datasette.permission_allowed(actor, action, database, default=True))
    return True


# --------------------------------------------------------------------------- 0.65


def metadata(datasette: Any, database: str | None) -> dict[str, Any]:
    """0.65: the metadata that the plugin adds, for one database or all. Datasette merges what the
    user wrote over it."""
    user = datasette._metadata_local.get("databases") or {}
    found = {}
    for name, _ in crystal_databases(datasette):
        if database in (None, name):
            theirs = user.get(name) or {}
            found[name] = defaults_for(theirs)
            if "description" in found[name] and not _restricted(datasette, theirs):
                found[name]["description_html"] = _with_ways(datasette, name)
            # 0.65 shows labels of rows without asking whether their table may be seen
            for table, config in (theirs.get("tables") or {}).items():
                if table in schema.TABLES and "allow" in config and "label_column" not in config:
                    found[name]["tables"][table]["label_column"] = next(
                        iter(schema.TABLES[table].columns)
                    )
    return {"databases": found} if found else {}


def _restricted(datasette: Any, theirs: Mapping[str, Any]) -> bool:
    """0.65: whether the configuration keeps anything of a database from anybody. Its metadata are
    the same for all, and are asked for synchronously."""
    tables = (theirs.get("tables") or {}).values()
    return any("allow" in (part or {}) for part in (datasette._metadata_local, theirs, *tables))


def _with_ways(datasette: Any, database: str) -> str:
    from markupsafe import Markup

    from .web.integration import ways

    return str(Markup("{}<br>{}").format(schema.DESCRIPTION, ways(datasette, database)))


def canned_queries(datasette: Any, database: str) -> dict[str, Any]:
    """0.65: our saved queries, but for names that the user took for others."""
    db = datasette.databases.get(database)
    if db is None or not is_crystal(db):
        return {}
    theirs = datasette.metadata("queries", database=database, fallback=False) or {}
    return {name: query for name, query in schema.queries_metadata().items() if name not in theirs}


async def permission_allowed(
    datasette: Any, actor: Any, action: str, resource: tuple[str, str]
) -> bool | None:
    """0.65: ``False`` for what is made of a table that the actor may not see, else no opinion."""
    database, name = resource
    db = datasette.databases.get(database)
    if db is None or not is_crystal(db):
        return None
    known = await dependencies(db)
    if action == "view-table":
        sources = known.tables.get(name, frozenset())
    else:
        sources = known.queries.get(name, frozenset())
        if sources:
            query = await datasette.get_canned_query(database, name, actor)
            if query is None or query["sql"].strip() != schema.QUERIES[name].sql.strip():
                return None  # the user's own
    for source in sources:
        if (
            await datasette.permission_allowed(
                actor, "view-table", resource=(database, source), default=None
            )
            is False
        ):
            return False
    return None


# --------------------------------------------------------------------------- 1.0

_applied: weakref.WeakSet[Any] = weakref.WeakSet()
_asking: contextvars.ContextVar[bool] = contextvars.ContextVar("crystal_asking", default=False)


async def apply_defaults(datasette: Any) -> None:
    """1.0: writes the texts, table settings and saved queries that the user left open into
    Datasette's internal database and configuration, once for each crystal database. (0.65 asks for
    them by :func:`metadata` and :func:`canned_queries`.)"""
    if not NEW_LINE:
        return
    for name, db in crystal_databases(datasette):
        if db in _applied:
            continue
        _applied.add(db)
        defaults = defaults_for(await _user_metadata(datasette, name))
        await _write_texts(datasette, name, defaults)
        _write_config(datasette, name, defaults)
        await _write_queries(datasette, name)


async def _user_metadata(datasette: Any, database: str) -> dict[str, Any]:
    """What is set already for a database: its texts (metadata) and table settings (config)."""
    config = ((datasette.config or {}).get("databases") or {}).get(database) or {}
    found: dict[str, Any] = dict(await datasette.get_database_metadata(database))
    tables: dict[str, Any] = {
        name: dict(table or {}) for name, table in (config.get("tables") or {}).items()
    }
    for name in schema.TABLES | schema.VIEWS:
        tables.setdefault(name, {}).update(await datasette.get_resource_metadata(database, name))
    rows = await datasette.get_internal_database().execute(
        "select resource_name, column_name, value from metadata_columns "
        "where database_name = :database and key = 'description'",
        {"database": database},
    )
    for table, column, value in rows.rows:
        tables.setdefault(table, {}).setdefault("columns", {})[column] = value
    return found | {"tables": tables}


async def _write_texts(datasette: Any, database: str, defaults: dict[str, Any]) -> None:
    for key in ("title", "description"):
        if key in defaults:
            await datasette.set_database_metadata(database, key, defaults[key])
    for table, settings in defaults["tables"].items():
        for key in ("title", "description"):
            if key in settings:
                await datasette.set_resource_metadata(database, table, key, settings[key])
        for column, text in settings["columns"].items():
            await datasette.set_column_metadata(database, table, column, "description", text)


def _write_config(datasette: Any, database: str, defaults: dict[str, Any]) -> None:
    # Datasette's own copy: there is no other way to set facets, order, size or labels
    config = datasette.config
    databases = config["databases"] = config.get("databases") or {}
    mine = databases[database] = databases.get(database) or {}
    tables = mine["tables"] = mine.get("tables") or {}
    for table, settings in defaults["tables"].items():
        gaps = {
            key: value
            for key, value in settings.items()
            if key not in ("title", "description", "columns")
        }
        if gaps:
            tables[table] = (tables.get(table) or {}) | gaps


async def _write_queries(datasette: Any, database: str) -> None:
    for name, query in schema.QUERIES.items():
        known = await datasette.get_query(database, name)
        if known is None or known.source == QUERY_SOURCE:
            await datasette.add_query(
                database,
                name,
                query.sql.strip(),
                title=query.title,
                description=query.description,
                source=QUERY_SOURCE,
            )


async def permission_rules(datasette: Any, actor: Any, action: str) -> Any:
    """1.0: denies what is made of a table that the actor may not see, as a ``PermissionSQL``."""
    if _asking.get():
        return None
    await apply_defaults(datasette)
    denied: list[tuple[str, str]] = []
    for database, db in crystal_databases(datasette):
        known = await dependencies(db)
        visible = await _visible_tables(datasette, actor, database)
        made = known.tables if action == "view-table" else known.queries
        denied += [(database, name) for name, sources in made.items() if not sources <= visible]
    if not denied:
        return None
    return _deny(denied, action)


async def _visible_tables(datasette: Any, actor: Any, database: str) -> set[str]:
    token = _asking.set(True)
    try:
        query = await datasette.allowed_resources_sql(
            action="view-table", actor=actor, parent=database
        )
        rows = await datasette.get_internal_database().execute(query.sql, query.params)
    finally:
        _asking.reset(token)
    return {row["child"] for row in rows.rows}


def _deny(denied: Iterable[tuple[str, str]], action: str) -> Any:
    sql = (
        "select json_extract(value, '$[0]') as parent, json_extract(value, '$[1]') as child, 0 as allow, "
        "'made of a table that may not be seen' as reason from json_each(:crystal_denied)"
    )
    if action == "view-query":
        sql += (
            " where exists (select 1 from queries q where q.database_name = json_extract(value, '$[0]') "
            f"and q.name = json_extract(value, '$[1]') and q.source = '{QUERY_SOURCE}')"
        )
    return PermissionSQL(sql=sql, params={"crystal_denied": json.dumps(list(denied))})
