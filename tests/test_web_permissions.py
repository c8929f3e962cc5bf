"""No page shows anything of a table that may not be seen: every table bears a word of its own, each
is denied in turn, and every page that still answers is searched for its word."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from conftest import call, conversation, message, store_all
from datasette.app import Datasette

from datasette_crystal import compat, schema
from datasette_crystal.model import Attachment, FileEdit

PNG = b"\x89PNG\r\n\x1a\n rest"
NOBODY: dict[str, Any] | None = None
ROOT = {"id": "root"}

#: The texts of each table that a reader could learn something from, and that are no keys.
TEXTS = {
    "sources": ["name"],
    "projects": ["name", "path", "remote"],
    "conversations": ["title", "model", "git_branch", "cwd", "tool_version", "machine"],
    "messages": ["title", "model", "content", "thinking"],
    "conversation_messages": ["uid"],
    "tool_calls": ["title", "name", "input", "output"],
    "file_edits": ["path", "diff"],
    "attachments": ["name"],
    "daily_usage": ["model"],
    "source_files": ["path", "root"],
    "import_runs": ["version", "machine"],
    "import_log": ["message", "file_path"],
    "unknown_records": ["type", "sample"],
    "resumed_sessions": ["session_id"],
}


def word(table: str) -> str:
    """What stands in every text of a table, and nowhere else."""
    return f"canary{table.replace('_', '')}"


def fill(path: Path) -> Path:
    replies = [
        message(
            "a1",
            "because of zebras",
            thinking="hm",
            timestamp="2026-11-30T10:01:00.000Z",
            tool_calls=[
                call("Bash", output="no", status="error", exit_code=1,
                     started_at="2026-11-30T10:02:00.000Z"),
                call("Edit", edits=[FileEdit("cart.py", "edit", 1, 1, "@@ -1 +1 @@\n-a\n+b\n")]),
                call("Agent", subagent_session_id="child"),
            ],
        )
    ]  # fmt: skip
    prompt = message(
        "u1",
        "why?",
        timestamp="2026-11-30T10:00:00.000Z",
        attachments=[Attachment("image", "shot.png", "image/png", PNG)],
    )
    child = [message("u9", "look"), message("a9", "found")]
    store_all(
        path,
        conversation("s1", [prompt, *replies], title="Cart", project_path="/home/ana/shop"),
        conversation("child", child, title="Look", kind="subagent", parent_session_id="s1"),
    )
    with closing(sqlite3.connect(path)) as db, db:
        run = db.execute("select max(id) from import_runs").fetchone()[0]
        db.execute(
            "insert into source_files (source, machine, root, path, part, size, mtime_ns, marker, "
            "parser_version, outcome) "
            "values ('toy', 'm1', '/r', '/r/a', '', 1, 1, '', 1, 'error')"
        )
        file = db.execute("select max(id) from source_files").fetchone()[0]
        db.execute(
            "insert into import_log (run_id, source, file_path, status, message, created_at) "
            "values (?, 'toy', '/r/a', 'error', 'x', '2026-11-30T10:00:00.000Z')",
            [run],
        )
        db.execute(
            "insert into unknown_records (source_file_id, location, type, sample) "
            "values (?, '1', 't', 's')",
            [file],
        )
        db.execute("insert into resumed_sessions values ('toy', 'again', 1)")
        for table, columns in TEXTS.items():
            number = {"conversation_messages": "position", "resumed_sessions": "1"}
            for column in columns:
                unique = column in ("uid", "path", "name", "session_id")
                text = f"'{word(table)}'" + (f" || {number.get(table, 'id')}" if unique else "")
                db.execute(f"update {table} set {column} = {text}")
        db.execute("insert into messages_fts (messages_fts) values ('rebuild')")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("data") / "my archive.db")


async def serve(
    *paths: Path, top: dict[str, Any] | None = None, immutable: bool = False, **more: Any
) -> Datasette:
    written = {"databases": more.pop("databases", {})} | (top or {})
    if compat.NEW_LINE:
        more["config"] = written
    files = [str(path) for path in paths]
    datasette = Datasette(
        [] if immutable else files, immutables=files if immutable else [], metadata=written, **more
    )
    if compat.NEW_LINE:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    return datasette


def cookies(datasette: Datasette, actor: dict[str, Any] | None) -> dict[str, str]:
    return {"ds_actor": datasette.sign({"a": actor}, "actor")} if actor else {}


async def get(datasette: Datasette, url: str, actor: dict[str, Any] | None = NOBODY) -> Any:
    return await datasette.client.get(url, cookies=cookies(datasette, actor))


DB = "/my~20archive"


def pages(path: Path) -> list[str]:
    """Every page that could show something of the database. SQL is not among them: whoever may
    write it may read every table."""
    with closing(sqlite3.connect(path)) as db:
        names = [
            row[0]
            for row in db.execute(
                "select name from sqlite_master where type in ('table', 'view') "
                "and name not like 'sqlite\\_%' escape '\\' "
                "and name not like 'messages\\_%\\_%' escape '\\'"
            )
        ]
    ours = [
        f"{DB}/-/crystal",
        f"{DB}/-/crystal?source=toy&by=model",
        f"{DB}/-/crystal/search",
        f"{DB}/-/crystal/search?q=canary*&outputs=1",
        f"{DB}/-/crystal/search?q=canary&in=titles",
        f"{DB}/-/crystal/search?q=canary&in=commands&outputs=1",
        f"{DB}/-/crystal/search?q=canary*&in=thinking&sort=best",
        f"{DB}/-/crystal/search?q=canary*&file=canary&tool=canary",
        f"{DB}/-/crystal/search.json?q=canary*&outputs=1",
        "/-/crystal/search?q=canary*",
        "/-/crystal/search.json?q=canary*",
        f"{DB}/-/crystal/toy/s1",
        f"{DB}/-/crystal/toy/s1?q=canary",
        f"{DB}/-/crystal/toy/s1?fragment=1",
        f"{DB}/-/crystal/toy/s1?show=edits",
        f"{DB}/-/crystal/toy/s1.json",
        f"{DB}/-/crystal/toy/s1.md",
        f"{DB}/-/crystal/toy/child",
        f"{DB}/-/crystal/toy/canaryresumedsessions1",
        f"{DB}/-/crystal/toy/nowhere",
        f"{DB}/-/crystal/open?conversation=1",
        f"{DB}/-/crystal/open?message=2",
        f"{DB}/-/crystal/open?message=2&conversation=1",
        f"{DB}/-/crystal/-/image/1",
        "/",
        "/-/databases.json",
        DB,
        f"{DB}.json",
    ]
    if compat.NEW_LINE:
        ours += ["/-/jump.json", "/-/jump.json?q=canary", "/-/jump.json?q=canaryconv"]
    for name in names:
        ours += [f"{DB}/{name}.json?_labels=on", f"{DB}/{name}.read"]
    for name in ("conversations", "messages", "tool_calls", "import_log", "messages_fts"):
        ours += [f"{DB}/{name}", f"{DB}/{name}/1", f"{DB}/{name}.csv"]
    ours += [
        f"{DB}/messages?_search=canary*",
        f"{DB}/messages?_facet=source&_facet=conversation_id",
    ]
    for name, saved in schema.QUERIES.items():
        given = "&".join(f"{key}=canary" for key in set(re.findall(r":(\w+)", saved.sql)))
        ours += [f"{DB}/{name}.json?{given}", f"{DB}/{name}.read?{given}"]
    return ours


async def leaks(datasette: Datasette, urls: list[str], words: list[str], actor: Any) -> list[str]:
    """Pages that show one of ``words``, and pages that fail."""
    found = []
    for url in urls:
        response = await get(datasette, url, actor)
        if response.status_code >= 500:
            found.append(f"{response.status_code} {url}")
        shown = response.text + str(response.headers.get("location", ""))
        # what was asked for may be said again
        found += [
            f"{one} on {response.status_code} {url}"
            for one in words
            if one in shown and one not in url
        ]
    return found


# --------------------------------------------------------------------------- each table in turn


@pytest.mark.asyncio
async def test_every_word_is_shown_to_those_who_may_see_it(path: Path) -> None:
    """Or nothing of what follows would mean anything."""
    datasette = await serve(path)
    shown = ""
    for url in pages(path):
        response = await get(datasette, url)
        assert response.status_code in (200, 302, 404), url
        if "/-/crystal" in url or ".read" in url:
            shown += response.text
    # of what else there is, the overview shows numbers
    numbers = {"unknown_records", "resumed_sessions", "import_log", "import_runs", "source_files"}
    for table in set(TEXTS) - numbers:
        assert word(table) in shown, table


@pytest.mark.asyncio
@pytest.mark.parametrize("table", list(TEXTS))
async def test_no_page_shows_a_denied_table(path: Path, table: str) -> None:
    denied = {"my archive": {"tables": {table: {"allow": ROOT}}}}
    datasette = await serve(path, databases=denied)
    urls = pages(path)
    assert await leaks(datasette, urls, [word(table)], NOBODY) == []
    assert await leaks(datasette, urls[:30], [word(table)], {"id": "eve"}) == []
    # root sees what the others do not
    response = await get(datasette, f"{DB}/{table}.json", ROOT)
    assert response.status_code == 200 and word(table) in response.text


CLOSED: dict[str, dict[str, Any]] = {
    "database": {"databases": {"my archive": {"allow": ROOT}}},
    "database, to nobody": {"databases": {"my archive": {"allow": False}}},
    "instance": {"top": {"allow": ROOT}},
    "all tables": {
        "databases": {
            "my archive": {"tables": {table: {"allow": False} for table in schema.TABLES}}
        }
    },
}
if compat.NEW_LINE:
    CLOSED["denied by default"] = {"default_deny": True}


@pytest.mark.asyncio
@pytest.mark.parametrize("closed", list(CLOSED))
@pytest.mark.parametrize(("immutable", "base_url"), [(False, "/prefix/"), (True, "/")])
async def test_no_page_shows_a_closed_database(
    path: Path, closed: str, immutable: bool, base_url: str
) -> None:
    datasette = await serve(
        path, immutable=immutable, settings={"base_url": base_url}, **CLOSED[closed]
    )
    words = [word(table) for table in TEXTS]
    urls = [url for url in pages(path) if "/-/" in url or ".read" in url or url in ("/", DB)]
    assert await leaks(datasette, urls, words, NOBODY) == []
    for url in urls:
        if "/-/crystal" in url:
            status = (await get(datasette, url)).status_code
            assert status in (403, 404), url


@pytest.mark.asyncio
async def test_pages_open_with_their_tables(path: Path) -> None:
    """The same rule from the other side: who may see every table may see every page."""
    datasette = await serve(path, databases={"my archive": {"allow": ROOT, "allow_sql": False}})
    for url in pages(path):
        response = await get(datasette, url, ROOT)
        assert response.status_code in (200, 302, 404) or "/-/crystal" not in url, url


@pytest.mark.asyncio
async def test_results_of_sql_are_read_only_by_those_who_may_see_conversations(path: Path) -> None:
    """Numbers are all that SQL gives to the reading view; what they name is asked for again."""
    for table in ("messages", "tool_calls", "attachments", "projects"):
        denied = {"my archive": {"tables": {table: {"allow": ROOT}}}}
        datasette = await serve(path, databases=denied)
        page = f"{DB}/-/query.read" if compat.NEW_LINE else f"{DB}.read"
        for sql in ("select 2 as message_id", "select 1 as conversation_id", "select 1 as id"):
            url = f"{page}?sql={quote_plus(sql)}"
            assert await leaks(datasette, [url], [word(name) for name in TEXTS], NOBODY) == []
            assert (await get(datasette, url)).status_code in (403, 404)


# --------------------------------------------------------------------------- several databases


@pytest.mark.asyncio
@pytest.mark.parametrize("crossdb", [False, True])
@pytest.mark.parametrize("what", ["database", "messages", "tool_calls"])
async def test_two_databases_one_of_them_denied(
    path: Path, tmp_path: Path, crossdb: bool, what: str
) -> None:
    other = tmp_path / "open.db"
    store_all(
        other, conversation("s2", [message("u1", "canary in the open"), message("a1", "yes")])
    )
    closed = {"allow": ROOT} if what == "database" else {"tables": {what: {"allow": ROOT}}}
    datasette = await serve(path, other, databases={"my archive": closed}, crossdb=crossdb)
    secret = [word(what)] if what != "database" else [word(table) for table in TEXTS]
    urls = [
        *[url for url in pages(path) if "/-/" in url or ".read" in url or url in ("/", DB)],
        "/open/-/crystal",
        "/open/-/crystal/search?q=canary*",
        "/open/-/crystal/toy/s2",
        "/open",
        "/-/crystal/search?q=canary*&in=titles",
        "/-/crystal/search?q=canary*&in=commands&outputs=1",
    ]
    assert await leaks(datasette, urls, secret, NOBODY) == []
    everywhere = (await get(datasette, "/-/crystal/search.json?q=canary*")).json()
    databases = {hit["database"] for hit in everywhere["messages"]}
    assert databases == ({"open", "my archive"} if what == "tool_calls" else {"open"})
    everywhere = (await get(datasette, "/-/crystal/search.json?q=canary*", ROOT)).json()
    assert {hit["database"] for hit in everywhere["messages"]} == {"open", "my archive"}


# --------------------------------------------------------------------------- nothing is written


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_no_page_takes_anything(path: Path, method: str) -> None:
    datasette = await serve(path)
    before = path.read_bytes()
    for url in pages(path):
        if "/-/crystal" not in url:
            continue
        response = await datasette.client.request(
            method,
            url,
            cookies=cookies(datasette, ROOT),
            headers={"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
        )
        assert response.status_code in (403, 404, 405), (method, url)
        assert "canary" not in response.text.replace(url, ""), (method, url)
    assert path.read_bytes() == before
