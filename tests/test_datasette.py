"""Datasette opens a crystal database well by itself: whatever it is called, in both lines."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import NOW, call, conversation, message, query, store_all
from datasette import hookimpl
from datasette.app import Datasette

from datasette_crystal import compat, schema
from datasette_crystal.model import (
    Attachment,
    FileEdit,
    FileRecords,
    SourceFile,
    Tokens,
)
from datasette_crystal.store import Store, close_at_rest, open_for_writing
from datasette_crystal.web.defaults import defaults_for
from datasette_crystal.web.permissions import dependencies_of

ROOT = Path(__file__).parent.parent


def html_escape(text: str) -> str:
    return text.replace("'", "&#39;")


def at(minute: int) -> str:
    return f"2026-11-30T10:{minute:02d}:00.000Z"


def fill(path: Path) -> Path:
    """A small database: a conversation, its subagent, a fork of it, and files that went wrong."""
    edit = FileEdit("/home/ana/shop/cart.py", "edit", 2, 1, "+a")
    main = [
        message("u1", "Why does the cart lose items?", timestamp=at(0)),
        message(
            "a1",
            "The zebra pattern shows it.",
            thinking="perhaps the cache",
            timestamp=at(1),
            model="opus",
            tokens=Tokens(100, 20, 1000, 50, 5),
            tool_calls=[
                call(
                    "Bash",
                    input='{"command":"pytest -x"}',
                    output="1 failed",
                    status="error",
                    exit_code=1,
                    started_at=at(1),
                    duration_ms=4000,
                ),
                call("Edit", started_at=at(2), duration_ms=10, edits=[edit]),
                call("Task", started_at=at(2), subagent_session_id="sub"),
                call("Bash", status="denied", started_at=at(3)),
                *(call("Read", started_at=at(3), duration_ms=5) for _ in range(10)),
            ],
            attachments=[Attachment("image", "shot.png", "image/png", b"png")],
        ),
        message("u2", "/review the cart 数据迁移", kind="command", timestamp=at(4)),
        message("a2", "Done.", timestamp=at(5), model="opus", tokens=Tokens(10, 2)),
    ]
    store_all(
        path,
        conversation("main", main, title="Cart bug", model="opus", project_path="/home/ana/shop"),
        conversation(
            "sub",
            [
                message("t1", "Look for it", role="user", kind="task", timestamp=at(2)),
                message("a3", "Found it", timestamp=at(3), model="haiku"),
            ],
            title="Look for it",
            kind="subagent",
            model="haiku",
            parent_session_id="main",
            project_path="/home/ana/shop",
        ),
    )
    connection = open_for_writing(path)
    store = Store(connection, "m1", lambda: NOW)
    with store.transaction():
        store.start_run("0", "UTC", "{}")
        read = FileRecords("/home/ana/.toy/main", records=5, kept=3)
        read.add_unknown("line 3", "hologram", '{"type":"hologram"}')
        read.malformed = 1
        file = SourceFile("/home/ana/.toy/main", "/home/ana/.toy", 10, 20)
        id_ = store.record_file("toy", file, marker="", parser_version=1, outcome="imported")
        store.link_file(1, id_)
        store.log("toy", file.path, "imported", None, 1, read, id_)
        store.log("toy", "/home/ana/.toy/broken", "error", "not a database")
        connection.execute(
            "update conversations set missing_since = ? where session_id = 'sub'", (NOW,)
        )
    store.finish()
    close_at_rest(connection)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("data") / "my archive.db")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Somebody else's database, with a table of the same name."""
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("create table messages (id integer primary key, kind text, source text)")
    connection.execute("insert into messages values (1, 'a', 'b')")
    connection.execute("create view prompts as select * from messages")
    connection.commit()
    connection.close()
    return tmp_path / "other.db"


async def serve(*paths: Path, immutable: bool = False, **databases: Any) -> Datasette:
    """Datasette over these files; ``databases`` is what the user wrote in both metadata.yml and
    datasette.yml."""
    written = {"databases": json.loads(json.dumps(databases))}
    files = {"immutables" if immutable else "files": [str(path) for path in paths]}
    more = {"config": json.loads(json.dumps(written))} if compat.NEW_LINE else {}
    datasette = Datasette(**files, metadata=written, **more)
    await datasette.invoke_startup()
    return datasette


async def get(datasette: Datasette, url: str, actor: Any = None) -> Any:
    cookies = {"ds_actor": datasette.sign({"a": actor}, "actor")} if actor else None
    return await datasette.client.get(url, cookies=cookies, follow_redirects=True)


async def html(datasette: Datasette, url: str) -> str:
    response = await get(datasette, url)
    assert response.status_code == 200, response.text
    return str(response.text)


async def rows(datasette: Datasette, url: str) -> list[dict[str, Any]]:
    path, _, arguments = url.partition("?")
    path = path.removesuffix(".json") + ".json"
    response = await get(datasette, f"{path}?{arguments}&_shape=array")
    assert response.status_code == 200, response.text
    found = response.json()
    assert isinstance(found, list)
    return found


def facets_of(page: str) -> set[str]:
    return set(re.findall(r'id="facet-([a-z_]+)"', page))


ARCHIVE = "/my~20archive"


@pytest.mark.asyncio
async def test_plugin_is_installed() -> None:
    datasette = Datasette(memory=True)
    response = await datasette.client.get("/-/plugins.json")
    plugins = response.json()
    if isinstance(plugins, dict):
        plugins = plugins["plugins"]
    assert "datasette-crystal" in {plugin["name"] for plugin in plugins}


# --------------------------------------------------------------------------- texts and settings


@pytest.mark.asyncio
@pytest.mark.parametrize("immutable", [False, True])
async def test_tables_are_described(path: Path, immutable: bool) -> None:
    datasette = await serve(path, immutable=immutable)
    assert f"<h1>{schema.TITLE}" in await html(datasette, ARCHIVE)
    for name, table in (schema.TABLES | schema.VIEWS).items():
        text = await html(datasette, f"{ARCHIVE}/{name}")
        assert re.search(rf"<h1[^>]*>{table.title}\b", text)
        assert html_escape(table.description.split(":")[0]) in text
        for column in table.columns:
            assert f"<dt>{column}</dt>" in text


@pytest.mark.asyncio
async def test_facets_order_and_size(path: Path) -> None:
    datasette = await serve(path)
    expected = {
        "conversations": (["source", "project_id", "kind", "model"], "started_at"),
        "messages": (["source", "kind", "role", "model"], "timestamp"),
        "tool_calls": (["name", "status"], "started_at"),
        "file_edits": (["action"], "id"),
        "import_log": (["status", "source"], "id"),
    }
    for name, (facets, order) in expected.items():
        text = await html(datasette, f"{ARCHIVE}/{name}?_nosuggest=1")
        assert facets_of(text) == set(facets)
        found = [row[order] for row in await rows(datasette, f"{ARCHIVE}/{name}")]
        assert found == sorted(found, key=lambda value: (value or "", value), reverse=True)
    assert len(await rows(datasette, f"{ARCHIVE}/messages")) == 6
    connection = sqlite3.connect(path)
    assert connection.execute("select count(*) from tool_calls").fetchone() == (14,)
    connection.close()


@pytest.mark.asyncio
async def test_page_size(tmp_path: Path) -> None:
    texts = [message(f"u{number}", f"prompt {number}") for number in range(60)]
    store_all(tmp_path / "a.db", conversation("one", texts))
    datasette = await serve(tmp_path / "a.db")
    text = await html(datasette, "/a/messages")
    assert len(re.findall(r'<td class="col-id', text)) == 50


@pytest.mark.asyncio
async def test_every_foreign_key_shows_a_label(path: Path) -> None:
    datasette = await serve(path)
    seen = set()
    for name in schema.TABLES:
        keys = query(path, f'pragma foreign_key_list("{name}")')
        compound = {key[0] for key in keys if key[1] > 0}
        leads = {key[3]: key[2] for key in keys if key[0] not in compound}
        if not leads:
            continue
        for row in await rows(datasette, f"{ARCHIVE}/{name}?_labels=on"):
            for column, other in leads.items():
                if row[column] is None:
                    continue
                shown = row[column]
                assert isinstance(shown, dict), f"{name}.{column} shows {shown}"
                key = next(iter(schema.TABLES[other].columns))
                label = {
                    "sources": "name",
                    "projects": "name",
                    "conversations": "title",
                    "messages": "title",
                    "tool_calls": "title",
                    "source_files": "path",
                    "import_runs": "started_at",
                }[other]
                sql = f"select {label} from {other} where {key} = ?"
                assert query(path, sql, shown["value"]) == [(shown["label"],)]
                seen.add((name, column))
    assert seen >= {
        ("conversations", "source"),
        ("conversations", "project_id"),
        ("conversations", "parent_id"),
        ("messages", "conversation_id"),
        ("tool_calls", "message_id"),
        ("tool_calls", "subagent_id"),
        ("file_edits", "message_id"),
        ("attachments", "message_id"),
        ("daily_usage", "project_id"),
        ("import_log", "run_id"),
        ("unknown_records", "source_file_id"),
    }


@pytest.mark.asyncio
async def test_plumbing_is_hidden(path: Path) -> None:
    datasette = await serve(path)
    response = await get(datasette, f"{ARCHIVE}.json")
    shown = {table["name"] for table in response.json()["tables"] if not table["hidden"]}
    assert shown == {
        "sources",
        "projects",
        "conversations",
        "messages",
        "tool_calls",
        "file_edits",
        "attachments",
        "daily_usage",
        "import_log",
    }
    assert {"resumed_sessions", "source_files", "messages_cjk_data"} <= {
        table["name"] for table in (await all_tables(datasette)) if table["hidden"]
    }


async def all_tables(datasette: Datasette) -> list[dict[str, Any]]:
    found = (await get(datasette, f"{ARCHIVE}.json?_show_hidden=1")).json()["tables"]
    assert isinstance(found, list)
    return found


@pytest.mark.asyncio
async def test_messages_have_a_search_box(path: Path) -> None:
    datasette = await serve(path)
    found = await rows(datasette, f"{ARCHIVE}/messages?_search=zebra")
    assert [row["uid"] for row in found] == ["a1"]
    # what the model thought is found too
    found = await rows(datasette, f"{ARCHIVE}/messages?_search=cache")
    assert [row["uid"] for row in found] == ["a1"]


@pytest.mark.asyncio
async def test_what_the_user_wrote_wins(path: Path) -> None:
    mine = {
        "title": "Ours",
        "tables": {
            "messages": {
                "title": "Said",
                "facets": ["role"],
                "sort": "position",
                "columns": {"uid": "The mark."},
            },
            "conversations": {"description_html": "<em>All</em> of them", "size": 1},
            "source_files": {"hidden": False},
        },
        "queries": {"tokens_by_day": {"sql": "select 'my own' as mine"}},
    }
    datasette = await serve(path, **{"my archive": mine})
    text = await html(datasette, ARCHIVE)
    assert "<h1>Ours" in text and schema.DESCRIPTION.split(";")[0] in text
    text = await html(datasette, f"{ARCHIVE}/messages?_nosuggest=1")
    assert re.search("<h1[^>]*>Said", text)
    assert facets_of(text) == {"role"}
    assert "<dd>The mark.</dd>" in text
    assert f"<dd>{schema.TABLES['messages'].columns['role']}</dd>" in text
    positions = [row["position"] for row in await rows(datasette, f"{ARCHIVE}/messages")]
    assert positions == sorted(positions)
    text = await html(datasette, f"{ARCHIVE}/conversations?_nosuggest=1")
    assert "<em>All</em> of them" in text
    assert schema.TABLES["conversations"].description[:40] not in text
    assert len(re.findall(r'<td class="col-id', text)) == 1
    tables = (await get(datasette, f"{ARCHIVE}.json")).json()["tables"]
    assert [table["hidden"] for table in tables if table["name"] == "source_files"] == [False]
    assert await rows(datasette, f"{ARCHIVE}/tokens_by_day.json") == [{"mine": "my own"}]
    assert len(await rows(datasette, f"{ARCHIVE}/most_edited_files.json")) == 1


def test_what_is_left_open() -> None:
    assert defaults_for(None) == schema.database_metadata()
    gaps = defaults_for({"title": "x", "tables": {"prompts": {"sort": "kind"}, "mine": {}}})
    assert "title" not in gaps and gaps["description"] == schema.DESCRIPTION
    assert "sort_desc" not in gaps["tables"]["prompts"]
    assert gaps["tables"]["prompts"]["size"] == 50
    assert "mine" not in gaps["tables"]


@pytest.mark.asyncio
async def test_other_databases_are_left_alone(path: Path, plain: Path) -> None:
    datasette = await serve(path, plain)
    text = await html(datasette, "/other/messages?_nosuggest=1")
    assert re.search("<h1[^>]*>messages", text)
    assert "facet-info" not in text and "<dt>kind</dt>" not in text
    assert schema.TITLE not in await html(datasette, "/other")
    assert (await get(datasette, "/other/tokens_by_day")).status_code == 404
    assert (await get(datasette, "/other/prompts")).status_code == 200


@pytest.mark.asyncio
async def test_two_archives_at_once(path: Path, tmp_path: Path) -> None:
    store_all(tmp_path / "b.db", conversation("one", [message("u1", "hello")]))
    datasette = await serve(
        path, tmp_path / "b.db", **{"b": {"tables": {"messages": {"title": "Of b"}}}}
    )
    assert re.search("<h1[^>]*>Of b", await html(datasette, "/b/messages"))
    assert re.search("<h1[^>]*>Messages", await html(datasette, f"{ARCHIVE}/messages"))
    assert len(await rows(datasette, "/b/most_edited_files.json")) == 0
    assert len(await rows(datasette, f"{ARCHIVE}/most_edited_files.json")) == 1


@pytest.mark.asyncio
async def test_database_attached_later(path: Path) -> None:
    from datasette.database import Database

    datasette = await serve()
    datasette.add_database(Database(datasette, path=str(path), is_mutable=True), name="late")
    text = await html(datasette, "/late/messages?_nosuggest=1")
    assert re.search("<h1[^>]*>Messages", text)
    assert facets_of(text) == {"source", "kind", "role", "model"}
    assert len(await rows(datasette, "/late/most_edited_files.json")) == 1


@pytest.mark.asyncio
async def test_database_filled_while_it_is_served(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "new.db").execute("vacuum").connection.close()
    datasette = await serve(tmp_path / "new.db")
    assert schema.TITLE not in await html(datasette, "/new")
    fill(tmp_path / "new.db")
    text = await html(datasette, "/new/messages?_nosuggest=1")
    assert re.search("<h1[^>]*>Messages", text)
    assert 'id="facet-kind"' in text


@pytest.mark.asyncio
async def test_configuration_of_the_caller_is_not_changed(path: Path) -> None:
    written = {"databases": {"my archive": {"tables": {"messages": {"size": 7}}}}}
    before = json.loads(json.dumps(written))
    more = {"config": written} if compat.NEW_LINE else {}
    datasette = Datasette([str(path)], metadata=written, **more)
    await datasette.invoke_startup()
    await html(datasette, f"{ARCHIVE}/messages")
    assert written == before


@pytest.mark.asyncio
async def test_restart_changes_nothing(path: Path, tmp_path: Path) -> None:
    """Datasette 1.0 may keep what it was told in a file; 0.65 keeps nothing."""
    more = {"internal": str(tmp_path / "internal.db")} if compat.NEW_LINE else {}
    texts = []
    for _ in range(2):
        datasette = Datasette([str(path)], **more)
        await datasette.invoke_startup()
        text = await html(datasette, f"{ARCHIVE}/conversations?_nosuggest=1")
        texts.append(re.sub(r"Queries took [\d.]+ms|20\d\d\S+", "", text))
        assert len(await rows(datasette, f"{ARCHIVE}/most_edited_files.json")) == 1
    assert texts[0] == texts[1]


@pytest.mark.asyncio
async def test_metadata_yml_works_without_the_plugin(path: Path, tmp_path: Path) -> None:
    from datasette.plugins import pm

    import datasette_crystal

    (tmp_path / "crystal.db").write_bytes(path.read_bytes())
    written = yaml.safe_load((ROOT / "metadata.yml").read_text(encoding="utf-8"))
    plugin = next(p for p in pm.get_plugins() if p is datasette_crystal)
    name = pm.get_name(plugin)
    pm.unregister(plugin)
    try:
        datasette = await serve(tmp_path / "crystal.db", **written["databases"])
        text = await html(datasette, "/crystal/messages?_nosuggest=1")
        assert re.search("<h1[^>]*>Messages", text)
        assert facets_of(text) == {"source", "kind", "role", "model"}
        assert len(await rows(datasette, "/crystal/most_edited_files.json")) == 1
    finally:
        pm.register(plugin, name)


# --------------------------------------------------------------------------- saved queries

#: parameters, and some of the first row, or of the row that is told by the number
ANSWERS: dict[str, tuple[dict[str, str], int, dict[str, Any]]] = {
    "what_did_i_ask_about": (
        {"words": "cart items"},
        1,
        {"prompt": "Why does the cart lose items?", "conversation": "Cart bug", "project": "shop"},
    ),
    "what_did_i_ask_in_characters": (
        {"characters": "迁移"},
        1,
        {"prompt": "/review the cart 数据迁移", "conversation": "Cart bug", "project": "shop"},
    ),
    "answers_that_mention": (
        {"words": "zebra"},
        1,
        {"passage": "The »zebra« pattern shows it.", "model": "opus", "message_id": 2},
    ),
    "prompts_of_a_day": (
        {"day": "2026-11-30"},
        2,
        {"prompt": "Why does the cart lose items?", "conversation": "Cart bug"},
    ),
    "read_a_conversation": (
        {"conversation_id": "1"},
        4,
        {"position": 0, "kind": "prompt", "content": "Why does the cart lose items?"},
    ),
    "subagents_of_a_conversation": (
        {"conversation_id": "1"},
        2,
        {"generation": 0, "title": "Cart bug"},
    ),
    "which_conversations_cost_most": (
        {"source": "toy"},
        1,
        # nobody lists a model that is only called opus
        {"title": "Cart bug", "recorded_usd": None, "list_price_usd": None, "output_tokens": 22},
    ),
    "longest_conversations": (
        {"source": "toy"},
        2,
        {"title": "Cart bug", "message_count": 4, "tool_call_count": 14, "hours": 0.1},
    ),
    "tokens_by_project_and_model": (
        {"since": ""},
        2,
        {
            "project": "shop",
            "model": "opus",
            "prompts": 2,
            "input_tokens": 110,
            "output_tokens": 22,
        },
    ),
    "tokens_by_day": (
        {"source": "toy"},
        1,
        {"conversations": 2, "prompts": 2, "tool_calls": 14, "cache_read_tokens": 1000},
    ),
    "failed_commands": (
        {"part": "PYTEST"},
        1,
        {"command": "Bash: pytest -x", "exit_code": 1, "output_start": "1 failed"},
    ),
    "tools_and_how_often_they_fail": ({}, 1, {"name": "Read", "calls": 10, "errors": 0}),
    "slowest_tool_calls": ({}, 12, {"seconds": 4.0, "title": "Bash: pytest -x"}),
    "what_i_stopped": ({}, 1, {"status": "denied", "title": "Bash: ls"}),
    "history_of_a_file": (
        {"path": "cart.py"},
        1,
        {"path": "/home/ana/shop/cart.py", "tool": "Edit", "lines_added": 2, "diff": "+a"},
    ),
    "most_edited_files": ({}, 1, {"path": "/home/ana/shop/cart.py", "edits": 1}),
    "kept_after_the_tool_deleted_it": ({}, 1, {"title": "Look for it", "project": "shop"}),
    "what_could_not_be_read": (
        {},
        2,
        {"file_path": "/home/ana/.toy/broken", "message": "not a database", "status": "error"},
    ),
    "unknown_records_by_type": (
        {},
        1,
        {"type": "hologram", "samples": 1, "in_file": "/home/ana/.toy/main"},
    ),
}


def test_every_saved_query_has_an_answer_here() -> None:
    assert set(ANSWERS) == set(schema.QUERIES)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", list(schema.QUERIES))
async def test_saved_query(path: Path, name: str) -> None:
    datasette = await serve(path)
    parameters, count, first = ANSWERS[name]
    arguments = "&".join(f"{key}={value.replace(' ', '+')}" for key, value in parameters.items())
    found = await rows(datasette, f"{ARCHIVE}/{name}.json?{arguments}")
    assert len(found) == count
    assert {key: found[0][key] for key in first} == first
    page = await html(datasette, f"{ARCHIVE}/{name}?{arguments}")
    query = schema.QUERIES[name]
    assert html_escape(query.title) in page
    assert html_escape(query.description.split(":")[0]) in page
    # opened by its link, before anything was filled in
    assert (await get(datasette, f"{ARCHIVE}/{name}")).status_code == 200


@pytest.mark.asyncio
async def test_the_passage_is_where_the_words_are(path: Path) -> None:
    """In the text, or in what the model thought."""
    datasette = await serve(path)
    found = await rows(datasette, f"{ARCHIVE}/answers_that_mention.json?words=perhaps")
    assert ["»perhaps« the cache" in row["passage"] for row in found] == [True]


@pytest.mark.asyncio
async def test_saved_queries_are_listed(path: Path) -> None:
    datasette = await serve(path)
    # the page of a database in 1.0 lists the first five, and links to a list of all
    url = f"{ARCHIVE}/-/queries.json" if compat.NEW_LINE else f"{ARCHIVE}.json"
    listed = {item["name"] for item in (await get(datasette, url)).json()["queries"]}
    assert listed == set(schema.QUERIES)


@pytest.mark.asyncio
@pytest.mark.parametrize("words", ['"', "a AND", "foo-bar", "NEAR(", "*", "'; drop table x --"])
async def test_searching_queries_take_any_words(path: Path, words: str) -> None:
    from urllib.parse import quote_plus

    datasette = await serve(path)
    for name in ("what_did_i_ask_about", "answers_that_mention"):
        assert await rows(datasette, f"{ARCHIVE}/{name}.json?words={quote_plus(words)}") == []


# --------------------------------------------------------------------------- permissions

FTS_PARTS = [f"messages_fts{part}" for part in ("", "_data", "_idx", "_docsize", "_config")]
#: Datasette 1.0 itself shows the parts of an index over another table to nobody.
ALWAYS_DENIED = FTS_PARTS[1:] if compat.NEW_LINE else []
CJK_PARTS = [f"messages_cjk{part}" for part in ("", "_data", "_idx", "_docsize", "_config")]

#: what must not be seen by those who may not see a table
MADE_OF: dict[str, list[str]] = {
    "messages": [*FTS_PARTS, *CJK_PARTS, "transcript", "prompts", "file_history"],
    "conversations": ["prompts", "failed_tool_calls", "file_history"],
    "projects": ["prompts", "failed_tool_calls", "file_history"],
    "tool_calls": ["transcript", "failed_tool_calls", "file_history", "tool_stats"],
    "file_edits": ["file_history"],
    "conversation_messages": ["transcript"],
    "sources": ["import_health"],
    "import_log": ["import_health"],
    "source_files": ["import_health"],
}
QUERIES_OF: dict[str, list[str]] = {
    "messages": [
        "what_did_i_ask_about",
        "what_did_i_ask_in_characters",
        "answers_that_mention",
        "prompts_of_a_day",
        "read_a_conversation",
        "history_of_a_file",
    ],
    "tool_calls": [
        "read_a_conversation",
        "subagents_of_a_conversation",
        "failed_commands",
        "tools_and_how_often_they_fail",
        "slowest_tool_calls",
        "what_i_stopped",
        "history_of_a_file",
    ],
    "daily_usage": ["tokens_by_project_and_model", "tokens_by_day"],
    "file_edits": ["history_of_a_file", "most_edited_files"],
    "import_log": ["what_could_not_be_read"],
    "unknown_records": ["unknown_records_by_type"],
    "source_files": ["unknown_records_by_type"],
}
ROOT_ONLY = {"id": "root"}


def denying(table: str, **more: Any) -> dict[str, Any]:
    tables = {table: {"allow": ROOT_ONLY}} | more
    return {"my archive": {"tables": tables}}


@pytest.mark.asyncio
@pytest.mark.parametrize("table", list(MADE_OF))
async def test_what_is_made_of_a_table_is_denied_with_it(path: Path, table: str) -> None:
    datasette = await serve(path, **denying(table))
    existing = [
        row[0] for row in query(path, "select name from sqlite_master where type = 'table'")
    ]
    others = [*existing, *schema.VIEWS]
    for name in others:
        if name.startswith("sqlite_"):
            continue
        wanted = 403 if name in (table, *MADE_OF[table], *ALWAYS_DENIED) else 200
        for suffix in ("", ".json"):
            status = (await get(datasette, f"{ARCHIVE}/{name}{suffix}")).status_code
            assert status == wanted, f"{name}{suffix} with {table} denied"
        if wanted == 403:
            status = (await get(datasette, f"{ARCHIVE}/{name}", {"id": "root"})).status_code
            assert status == (403 if name in ALWAYS_DENIED else 200), f"{name} for root"


@pytest.mark.asyncio
async def test_rows_and_names_are_denied_too(path: Path) -> None:
    datasette = await serve(path, **denying("messages"))
    for name in ("messages/1", "messages_fts_data/1", "messages_fts/1", "Messages_FTS_Data"):
        assert (await get(datasette, f"{ARCHIVE}/{name}")).status_code in (403, 404)
    response = await get(datasette, f"{ARCHIVE}.json?_show_hidden=1")
    listed = {table["name"] for table in response.json()["tables"]}
    listed |= {view["name"] for view in response.json()["views"]}
    assert "conversations" in listed and "tool_stats" in listed
    assert not listed & {"messages", *MADE_OF["messages"]}


@pytest.mark.asyncio
async def test_statistics_may_quote_any_table(path: Path) -> None:
    """sqlite_stat4, where SQLite writes it, samples the values of every index."""
    datasette = await serve(path, **denying("attachments"))
    assert (await get(datasette, f"{ARCHIVE}/sqlite_stat1")).status_code == 403


@pytest.mark.asyncio
@pytest.mark.parametrize("table", list(QUERIES_OF))
async def test_saved_queries_are_denied_with_their_tables(path: Path, table: str) -> None:
    datasette = await serve(path, **denying(table))
    for name, (parameters, count, _) in ANSWERS.items():
        arguments = "&".join(f"{key}={value}" for key, value in parameters.items())
        for suffix in ("", ".json"):
            url = f"{ARCHIVE}/{name}{suffix}?{arguments}"
            status = (await get(datasette, url)).status_code
            # every query that shows conversations or projects goes on working
            assert status == (403 if name in QUERIES_OF[table] else 200), name
        if name in QUERIES_OF[table]:
            found = await get(datasette, f"{ARCHIVE}/{name}.json?{arguments}", {"id": "root"})
            assert len(found.json()["rows"]) == count
    url = f"{ARCHIVE}/-/queries.json" if compat.NEW_LINE else f"{ARCHIVE}.json"
    listed = {item["name"] for item in (await get(datasette, url)).json()["queries"]}
    assert listed == set(schema.QUERIES) - set(QUERIES_OF[table])


@pytest.mark.asyncio
async def test_allowing_the_index_does_not_open_it(path: Path) -> None:
    datasette = await serve(
        path, **denying("messages", messages_fts={"allow": True}, prompts={"allow": True})
    )
    for name in ("messages_fts", "prompts"):
        assert (await get(datasette, f"{ARCHIVE}/{name}")).status_code == 403


class Generous:
    """A plugin that lets everybody see everything."""

    __name__ = "generous"

    @hookimpl
    def permission_allowed(self, action: str) -> bool | None:
        return True if action == "view-query" else None

    @hookimpl
    def permission_resources_sql(self, action: str) -> Any:
        if action != "view-query":
            return None
        from datasette.permissions import PermissionSQL

        return PermissionSQL(
            sql="select database_name as parent, name as child, 1 as allow, 'all' as reason "
            "from queries"
        )


@pytest.mark.asyncio
async def test_other_plugins_do_not_open_it(path: Path) -> None:
    from datasette.plugins import pm

    generous = Generous()
    pm.register(generous)
    try:
        datasette = await serve(path, **denying("daily_usage"))
        assert (await get(datasette, f"{ARCHIVE}/tokens_by_day")).status_code == 403
        assert (await get(datasette, f"{ARCHIVE}/most_edited_files")).status_code == 200
    finally:
        pm.unregister(generous)


@pytest.mark.asyncio
async def test_denying_the_index_denies_its_parts(path: Path) -> None:
    datasette = await serve(path, **denying("messages_fts"))
    for name in FTS_PARTS:
        assert (await get(datasette, f"{ARCHIVE}/{name}")).status_code == 403
    assert (await get(datasette, f"{ARCHIVE}/messages")).status_code == 200
    assert (await get(datasette, f"{ARCHIVE}/messages_cjk")).status_code == 200


@pytest.mark.asyncio
async def test_denied_rows_are_not_quoted_as_labels(path: Path) -> None:
    datasette = await serve(path, **denying("messages"))
    text = await html(datasette, f"{ARCHIVE}/tool_calls")
    assert "zebra" not in text and "Cart bug" in text
    for row in await rows(datasette, f"{ARCHIVE}/tool_calls?_labels=on"):
        shown = row["message_id"]
        assert shown == 2 or str(shown["label"]) == "2"


@pytest.mark.asyncio
async def test_a_query_of_the_users_own_is_theirs(path: Path) -> None:
    """The user, who wrote it, answers for it: Datasette's own rule."""
    mine = denying("daily_usage")
    mine["my archive"]["queries"] = {"tokens_by_day": {"sql": "select 1 as one"}}
    datasette = await serve(path, **mine)
    assert (await get(datasette, f"{ARCHIVE}/tokens_by_day")).status_code == 200


ALLOWS: list[Any] = [None, True, False, {"id": "ana"}, {"id": "*"}, {"unauthenticated": True}]


@pytest.mark.asyncio
@pytest.mark.parametrize("database", ALLOWS, ids=str)
@pytest.mark.parametrize("table", ALLOWS, ids=str)
async def test_allowed_agrees_with_the_pages(path: Path, database: Any, table: Any) -> None:
    written: dict[str, Any] = {"tables": {"messages": {}}}
    if database is not None:
        written["allow"] = database
    if table is not None:
        written["tables"]["messages"]["allow"] = table
    datasette = await serve(path, **{"my archive": written})
    for actor in (None, {"id": "ana"}, {"id": "eve"}):
        for name in ("messages", "conversations", "prompts", "messages_cjk_data"):
            status = (await get(datasette, f"{ARCHIVE}/{name}", actor)).status_code
            may = await compat.allowed(datasette, actor, "view-table", "my archive", name)
            assert may == (status == 200), (actor, name)
        status = (await get(datasette, ARCHIVE, actor)).status_code
        may = await compat.allowed(datasette, actor, "view-database", "my archive")
        assert may == (status == 200), actor
        # whoever may see what is made of it may see it
        if await compat.allowed(datasette, actor, "view-table", "my archive", "prompts"):
            assert await compat.allowed(datasette, actor, "view-table", "my archive", "messages")


@pytest.mark.asyncio
async def test_allowed_knows_about_sql(path: Path) -> None:
    datasette = await serve(path, **{"my archive": {"allow_sql": {"id": "ana"}}})
    assert await compat.allowed(datasette, {"id": "ana"}, "execute-sql", "my archive")
    assert not await compat.allowed(datasette, None, "execute-sql", "my archive")
    assert await compat.allowed(datasette, None, "view-instance")
    datasette = await serve(path, **{"my archive": {"allow": {"id": "ana"}}})
    assert await compat.allowed(datasette, {"id": "ana"}, "execute-sql", "my archive")
    assert not await compat.allowed(datasette, None, "execute-sql", "my archive")


@pytest.mark.asyncio
async def test_other_databases_keep_their_permissions(path: Path, plain: Path) -> None:
    datasette = await serve(path, plain, other={"tables": {"messages": {"allow": False}}})
    assert (await get(datasette, "/other/messages")).status_code == 403
    assert (await get(datasette, f"{ARCHIVE}/messages")).status_code == 200
    assert (await get(datasette, f"{ARCHIVE}/prompts")).status_code == 200


@pytest.mark.asyncio
async def test_many_questions_at_once(path: Path) -> None:
    """Each is answered for its own actor."""
    datasette = await serve(path, **denying("messages"))
    urls = [f"{ARCHIVE}/{name}" for name in ("prompts", "messages_fts", "tool_stats")] * 5
    actors = [None, {"id": "root"}]
    asked = [(url, actor) for url in urls for actor in actors]
    statuses = await asyncio.gather(*(get(datasette, url, actor) for url, actor in asked))
    for (url, actor), response in zip(asked, statuses, strict=True):
        assert response.status_code == (200 if actor or url.endswith("tool_stats") else 403)


def schema_rows(script: str) -> list[tuple[str, str, str | None]]:
    connection = sqlite3.connect(":memory:")
    connection.create_function("mine", 1, str)
    connection.executescript(script)
    found = connection.execute("select type, name, sql from sqlite_master").fetchall()
    connection.close()
    return found


def test_what_users_add_is_understood() -> None:
    found = dependencies_of(
        schema_rows(
            """
            create table a (x, y); create table b (x, y); create table c (x);
            create virtual table a_fts using fts5(x, content=[a]);
            create virtual table a_words using fts5vocab(a_fts, row);
            create virtual table own using fts5(text);
            create virtual table b_old using fts4(x, content="b");
            create view one as select x from a;
            create view two as select one.x, (select count(*) from b) as n from one;
            create view found as select * from a_fts join c;
            create view "odd ""name" as select 1 as x;
            create view strange as select mine(x) from c;
            create index cx on c (x); analyze;
            """
        )
    ).tables
    assert found["a_fts"] == {"a"}
    assert found["a_fts_data"] == {"a_fts", "a"}
    assert found["a_words"] == {"a_fts", "a"}
    assert "own" not in found and found["own_content"] == {"own"}
    assert found["b_old"] == {"b"} and found["b_old_segments"] == {"b_old", "b"}
    assert found["one"] == {"a"}
    assert found["two"] >= {"a", "b"} and not found["two"] & {"c", "a_fts"}
    assert found["found"] == {"a_fts", "a", "c"}
    assert found['odd "name'] == set()
    # a function that only the user's own connection has
    assert found["strange"] >= {"a", "b", "c"}
    assert found["sqlite_stat1"] >= {"a", "b", "c"}
    assert not found.keys() & {"a", "b", "c"}


@pytest.mark.asyncio
async def test_index_that_a_user_added_is_denied_with_its_table(path: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_bytes(path.read_bytes())
    datasette = await serve(
        tmp_path / "copy.db", copy={"tables": {"tool_calls": {"allow": ROOT_ONLY}}}
    )
    assert (await get(datasette, "/copy/tool_calls")).status_code == 403
    connection = sqlite3.connect(tmp_path / "copy.db")
    connection.executescript(
        "create virtual table outputs using fts5(output, content='tool_calls', content_rowid='id');"
        "insert into outputs(outputs) values ('rebuild');"
        "create view loud as select upper(output) as output from tool_calls;"
    )
    connection.close()
    for name in ("outputs", "outputs_data", "loud"):
        response = await get(datasette, f"/copy/{name}")
        assert response.status_code == 403, name
    assert (await get(datasette, "/copy/loud", {"id": "root"})).status_code == 200


# --------------------------------------------------------------------------- speed


@pytest.mark.asyncio
async def test_every_default_page_answers(tmp_path: Path) -> None:
    """A short form of benchmarks/table_pages.py, which does it with 300,000 messages."""
    spec = importlib.util.spec_from_file_location("table_pages", ROOT / "benchmarks/table_pages.py")
    assert spec and spec.loader
    benchmark = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["table_pages"] = benchmark
    spec.loader.exec_module(benchmark)
    benchmark.build(tmp_path / "crystal.db", messages=3000, calls=1000)
    pages = await benchmark.measure(tmp_path / "crystal.db", {})
    assert [page for page in pages if page.problem] == []
    assert {f"/crystal/{name}" for name in schema.TABLES | schema.VIEWS} <= {
        page.path for page in pages
    }
    # the import log, of 60 rows, has one page only
    assert sum("_next=" in page.path for page in pages) == 4
