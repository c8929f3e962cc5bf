"""How Datasette's own pages lead to ours, for whom, and rows that open as a page to read."""

from __future__ import annotations

import json
import re
import sqlite3
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import call, conversation, message, query, store_all
from datasette.app import Datasette

from datasette_crystal import compat
from datasette_crystal.model import FileEdit
from datasette_crystal.web.conversation import TABLES as READ_TABLES
from datasette_crystal.web.integration import known_numbers

EVIL = "<img src=x onerror=alert(1)>\"'"


def at(minute: int) -> str:
    return f"2026-11-30T10:{minute:02d}:00.000Z"


def fill(path: Path) -> Path:
    shared = [
        message("u1", "Why does the cart lose items?", timestamp=at(0)),
        message(
            "a1",
            "The zebra pattern shows it.",
            timestamp=at(1),
            model="opus",
            tool_calls=[
                call(
                    "Bash",
                    input='{"command":"pytest -x"}',
                    output="1 failed",
                    status="error",
                    started_at=at(1),
                ),
                call("Edit", started_at=at(2), edits=[FileEdit("/home/ana/cart.py", "edit", 1)]),
            ],
        ),
        message("u2", "Then mend it", timestamp=at(3)),
        message("a2", "Mended.", timestamp=at(4), model="opus"),
    ]
    store_all(
        path,
        conversation("main/1", shared, title="Cart bug", project_path="/home/ana/shop"),
        conversation(
            "evil",
            [message("u1", EVIL, timestamp=at(9)), message("a1", f"**{EVIL}**")],
            title=EVIL,
            project_path="/home/ana/shop",
        ),
    )
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("data") / "my archive.db")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Somebody else's database with the same names."""
    connection = sqlite3.connect(tmp_path / "plain.db")
    connection.executescript(
        "create table messages (id integer primary key, title text, message_id integer, "
        "conversation_id integer); insert into messages values (1, 'mine', 1, 1)"
    )
    connection.close()
    return tmp_path / "plain.db"


async def serve(*paths: Path, base_url: str = "/prefix/", **databases: Any) -> Datasette:
    written = {"databases": databases}
    more = {"config": json.loads(json.dumps(written))} if compat.NEW_LINE else {}
    datasette = Datasette(
        [str(path) for path in paths], metadata=written, settings={"base_url": base_url}, **more
    )
    await datasette.invoke_startup()
    return datasette


async def get(datasette: Datasette, url: str, actor: str | None = None) -> Any:
    cookies = {"ds_actor": datasette.sign({"a": {"id": actor}}, "actor")} if actor else None
    return await datasette.client.get(url, cookies=cookies)


async def follow(datasette: Datasette, link: str) -> Any:
    assert link.startswith("/prefix/"), link
    # 0.65 doubles it in the links to other formats when the path that it is asked for has it
    link = unescape(link).removeprefix("/prefix").removeprefix("/prefix")
    response = await datasette.client.get(link)
    if response.status_code == 302:
        return await follow(datasette, response.headers["location"].split("#")[0])
    return response


def cells(page: str, column: str) -> list[str]:
    """The cells of a column of a table page."""
    return [
        cell.strip()
        for cell in re.findall(rf'<td class="col-{column}[^"]*"[^>]*>(.*?)</td>', page, re.S)
    ]


def sql(text: str, format: str = "") -> str:
    base = "/my~20archive/-/query" if compat.NEW_LINE else "/my~20archive"
    return f"{base}{format}?sql={quote(text)}"


OPEN = "/prefix/my+archive/-/crystal/open"
MAIN = "/prefix/my+archive/-/crystal/toy/main~2F1"

# --------------------------------------------------------------------------- cells


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("url", "column", "expected"),
    [
        ("/my~20archive/conversations?id=1", "title", f'<a href="{MAIN}">Cart bug</a>'),
        ("/my~20archive/conversations?id=1&_col=title", "title", "Cart bug</a>"),
        ("/my~20archive/messages?id=2", "title", f'<a href="{OPEN}?message=2">The zebra'),
        (
            "/my~20archive/tool_calls?id=1",
            "title",
            f'<a href="{OPEN}?message=2">Bash: pytest -x</a>',
        ),
        (
            "/my~20archive/prompts?message_id=1",
            "conversation",
            f'<a href="{OPEN}?conversation=1">Cart',
        ),
        ("/my~20archive/prompts?message_id=1", "message_id", f'<a href="{OPEN}?message=1">1</a>'),
        (
            "/my~20archive/failed_tool_calls",
            "title",
            f'<a href="{OPEN}?message=2">Bash: pytest -x</a>',
        ),
        (
            "/my~20archive/transcript?message_id=2",
            "title",
            f'<a href="{OPEN}?message=2&amp;conversation=1">The zebra',
        ),
        ("/my~20archive/failed_commands", "command", f'<a href="{OPEN}?message=2">Bash: pytest'),
        ("/my~20archive/failed_commands", "conversation", f'<a href="{OPEN}?conversation=1">Cart'),
        (sql("select title, 2 as message_id from messages where id = 2"), "title", "message=2"),
        (
            sql("select title, 1 as conversation_id from messages where id = 2"),
            "title",
            "conversation=1",
        ),
        (sql("select title, source, session_id from conversations where id = 1"), "title", MAIN),
        (sql("select message_id from tool_calls limit 1"), "message_id", f"{OPEN}?message=2"),
        (
            "/my~20archive/what_did_i_ask_about?words=cart",
            "prompt",
            f'<a href="{OPEN}?message=1">Why does the cart lose items?</a>',
        ),
        (
            "/my~20archive/answers_that_mention?words=zebra",
            "passage",
            f'<a href="{OPEN}?message=2">The »zebra«',
        ),
        # a prompt is shown whole; its first line is the link
        (
            sql("select 'One\n<two>' as prompt, 2 as message_id"),
            "prompt",
            f'<a href="{OPEN}?message=2">One</a>\n&lt;two&gt;',
        ),
    ],
)
async def test_cells_link(path: Path, url: str, column: str, expected: str) -> None:
    datasette = await serve(path)
    response = await get(datasette, url)
    assert response.status_code == 200
    found = cells(response.text, column)
    assert expected in found[0]
    link = re.search('href="([^"]+)"', found[0])
    assert link
    opened = await follow(datasette, link[1])
    assert opened.status_code == 200
    assert "Cart bug" in opened.text


@pytest.mark.asyncio
async def test_cells_that_do_not_link(path: Path, plain: Path) -> None:
    datasette = await serve(path, plain)
    for url, column in (
        ("/plain/messages", "title"),
        ("/plain/messages", "message_id"),
        (sql("select title from messages where id = 2"), "title"),
        (sql("select 'x' as title, 'y' as message_id, -1 as conversation_id"), "title"),
        (sql("select x'00' as title, 2 as message_id"), "title"),
        (sql("select null as title, 2 as message_id"), "title"),
    ):
        response = await get(datasette, url)
        assert response.status_code == 200
        assert "crystal/open" not in cells(response.text, column)[0]


@pytest.mark.asyncio
async def test_titles_are_escaped(path: Path) -> None:
    datasette = await serve(path)
    for url in (
        "/my~20archive/conversations",
        "/my~20archive/messages",
        "/my~20archive/prompts",
        "/my~20archive/conversations.read",
        "/my~20archive/messages.read",
    ):
        text = (await get(datasette, url)).text
        assert "&lt;img src=x" in text
        assert "<img" not in text


@pytest.mark.asyncio
async def test_a_table_page_asks_nothing_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasette_crystal.web import integration

    datasette = await serve(path)
    db = datasette.databases["my archive"]
    asked: list[str] = []
    execute = db.execute

    async def counted(sql: str, *arguments: Any, **more: Any) -> Any:
        asked.append(sql)
        return await execute(sql, *arguments, **more)

    await get(datasette, "/my~20archive/messages")
    db.execute = counted
    await get(datasette, "/my~20archive/messages")
    with_links = len(asked)
    monkeypatch.setattr(integration, "cell", lambda *_: None)
    asked.clear()
    await get(datasette, "/my~20archive/messages")
    assert len(asked) == with_links > 0


# --------------------------------------------------------------------------- by number


@pytest.mark.asyncio
async def test_open_by_number(path: Path) -> None:
    datasette = await serve(path)
    base = "/my~20archive/-/crystal/open"
    for arguments, expected in (
        ("conversation=1", MAIN),
        ("message=2", f"{MAIN}?message=a1#m-a1"),
        ("message=2&conversation=1", f"{MAIN}?message=a1#m-a1"),
        ("message=2&conversation=2", f"{MAIN}?message=a1#m-a1"),
    ):
        response = await get(datasette, f"{base}?{arguments}")
        assert (response.status_code, response.headers["location"]) == (302, expected)
    for arguments in ("", "message=99", "conversation=-1", "message=x", "message=" + "9" * 30):
        assert (await get(datasette, f"{base}?{arguments}")).status_code == 404
    for table in ("messages", "conversations"):
        denied = await serve(path, **{"my archive": {"tables": {table: {"allow": False}}}})
        response = await get(denied, f"{base}?conversation=1")
        assert response.status_code == 403
        assert "main" not in response.headers.get("location", "")


@pytest.mark.asyncio
async def test_a_taken_over_message_opens_where_it_is_shown(tmp_path: Path) -> None:
    first = [message("u1", "one"), message("a1", "two"), message("u2", "three")]
    store_all(
        tmp_path / "my archive.db",
        conversation("a-parent", first),
        conversation(
            "b-fork", [*first, message("u3", "four")], kind="fork", parent_session_id="a-parent"
        ),
    )
    fork, shared = query(
        tmp_path / "my archive.db",
        "select cm.conversation_id, cm.message_id from conversation_messages cm "
        "join messages m on m.id = cm.message_id where m.conversation_id <> cm.conversation_id",
    )[0]
    datasette = await serve(tmp_path / "my archive.db")
    base = "/my~20archive/-/crystal/open"
    both = await get(datasette, f"{base}?message={shared}&conversation={fork}")
    assert "/toy/b-fork?message=" in both.headers["location"]
    alone = await get(datasette, f"{base}?message={shared}")
    assert "/toy/a-parent?message=" in alone.headers["location"]


# --------------------------------------------------------------------------- rows to read


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "url",
    [
        "/my~20archive/messages{}?conversation_id=1",
        "/my~20archive/tool_calls{}?conversation_id=1",
        "/my~20archive/file_edits{}?conversation_id=1",
        "/my~20archive/prompts{}?conversation_id=1",
        "/my~20archive/transcript{}?conversation_id=1",
        "/my~20archive/conversations{}?id=1",
        "/my~20archive/failed_commands{}?part=",
        sql("select message_id from tool_calls", "{}"),
        sql("select 1 as conversation_id", "{}"),
    ],
)
async def test_rows_to_read(path: Path, url: str) -> None:
    datasette = await serve(path)
    page = await get(datasette, url.format(""))
    link = re.search('<a href="([^"]+)">read</a>', page.text)
    assert link
    for response in (await follow(datasette, link[1]), await get(datasette, url.format(".read"))):
        assert response.status_code == 200
        assert "Cart bug" in response.text
        assert f'href="{MAIN}' in response.text
        assert response.headers["x-content-type-options"] == "nosniff"
        back = re.search('<a href="([^"]+)">(?:As a table|Table with facets)</a>', response.text)
        assert back
        assert (await follow(datasette, back[1])).status_code == 200


@pytest.mark.asyncio
async def test_order_gaps_and_prompts(path: Path) -> None:
    datasette = await serve(path)
    text = (
        await get(
            datasette,
            sql(
                "select id as message_id from messages where id in (2, 4) order by id desc", ".read"
            ),
        )
    ).text
    text = text[text.index("crystal-main") :]
    assert text.index("Mended.") < text.index("The zebra pattern shows it.")
    assert "Answers <a" in text
    assert text.index("Then mend it") < text.index("Mended.")
    text = (
        await get(
            datasette, sql("select id as message_id from messages where id in (1, 4)", ".read")
        )
    ).text
    assert "2 messages between" in text
    # a message that is named twice is shown once
    text = (await get(datasette, sql("select 2 as message_id union all select 2", ".read"))).text
    assert "<h1>1 message</h1>" in text
    text = (await get(datasette, sql("select 12345 as message_id", ".read"))).text
    assert "<h1>1 message</h1>" in text


@pytest.mark.asyncio
async def test_many_rows_are_paged(tmp_path: Path) -> None:
    store_all(
        tmp_path / "my archive.db",
        conversation("s", [message(f"u{i}", f"prompt number {i}.") for i in range(120)]),
    )
    datasette = await serve(tmp_path / "my archive.db")
    link = "/prefix" + sql("select id as message_id from messages", ".read")
    seen: list[str] = []
    for _ in range(3):
        text = (await follow(datasette, link)).text
        seen += re.findall(r"prompt number (\d+)\.</p>", text)
        following = re.search('rel="next" href="([^"]+)"', text)
        if not following:
            break
        link = following[1]
    assert seen == [str(i) for i in range(120)]
    for start in ("-1", "x", "99999", "9" * 30):
        response = await get(
            datasette, sql("select 1 as message_id", ".read") + f"&_read_from={start}"
        )
        assert response.status_code == 200


@pytest.mark.asyncio
async def test_nothing_to_read(path: Path, plain: Path) -> None:
    datasette = await serve(path, plain)
    for url in ("/my~20archive/sources", "/my~20archive/projects", "/plain/messages"):
        assert ">read</a>" not in (await get(datasette, url)).text
        assert (await get(datasette, f"{url}.read")).status_code == 404
    assert (await get(datasette, sql("select 1 as one", ".read"))).status_code == 404


@pytest.mark.asyncio
@pytest.mark.parametrize("table", READ_TABLES)
async def test_reading_asks_for_every_table(path: Path, table: str) -> None:
    datasette = await serve(path, **{"my archive": {"tables": {table: {"allow": {"id": "root"}}}}})
    urls = [sql("select 2 as message_id"), sql("select 1 as conversation_id")]
    if table != "messages":
        urls.append("/my~20archive/messages")
    for url in urls:
        page = await get(datasette, url)
        assert page.status_code == 200
        assert ">read</a>" not in page.text
        path_, _, arguments = url.partition("?")
        response = await get(datasette, f"{path_}.read?{arguments}")
        assert response.status_code == 403
        assert "zebra pattern" not in response.text
    assert ">read</a>" in (await get(datasette, urls[0], actor="root")).text


def test_known_numbers() -> None:
    assert known_numbers(["message_id"], [[3], [1], [3], [None], ["x"], [True], [-1]], None) == (
        "message_id",
        [3, 1],
    )
    labelled = [{"id": 7, "conversation_id": {"value": 2, "label": "x"}}]
    assert known_numbers(["id", "conversation_id"], labelled, "tool_calls") == (
        "conversation_id",
        [2],
    )
    assert known_numbers(["id", "conversation_id"], labelled, "messages") == ("message_id", [7])
    assert known_numbers(["id"], [[7]], None) == ("", [])


# --------------------------------------------------------------------------- menus and actions


@pytest.mark.asyncio
async def test_menus_and_actions(path: Path, plain: Path) -> None:
    datasette = await serve(path, plain)
    overview = 'href="/prefix/my+archive/-/crystal"'
    search = 'href="/prefix/my+archive/-/crystal/search'
    home = (await get(datasette, "/")).text
    assert overview in home and search in home
    assert overview in (await get(datasette, "/my~20archive")).text
    assert (
        f"{search}?q=zebra&amp;source=toy"
        in (await get(datasette, "/my~20archive/messages?_search=zebra&source=toy")).text
    )
    others = (await get(datasette, "/plain")).text
    assert "Overview of the conversations" not in others
    if compat.NEW_LINE:
        row = (await get(datasette, "/my~20archive/messages/2")).text
        assert 'href="/prefix/my+archive/-/crystal/open?message=2"' in row
        row = (await get(datasette, "/my~20archive/conversations/1")).text
        assert 'href="/prefix/my+archive/-/crystal/open?conversation=1"' in row


@pytest.mark.asyncio
@pytest.mark.parametrize("table", ["messages", "conversations", "sources", "projects"])
async def test_menus_offer_only_what_may_be_opened(path: Path, table: str) -> None:
    datasette = await serve(path, **{"my archive": {"tables": {table: {"allow": {"id": "root"}}}}})
    for url in ("/", "/my~20archive", "/my~20archive/tool_calls", "/my~20archive/tool_calls/1"):
        assert "/-/crystal/search" not in (await get(datasette, url)).text
        assert 'my+archive/-/crystal"' not in (await get(datasette, url)).text
    root = (await get(datasette, "/", actor="root")).text
    assert "/-/crystal/search" in root


@pytest.mark.asyncio
async def test_every_menu_entry_opens(path: Path, tmp_path: Path) -> None:
    second = fill(tmp_path / "second.db")
    datasette = await serve(path, second)
    for url in ("/", "/second", "/second/messages", "/second/prompts"):
        text = (await get(datasette, url)).text
        links = set(re.findall(r'href="(/prefix/[^"]*-/crystal[^"]*)"', text))
        assert links
        for link in links:
            assert (await follow(datasette, link)).status_code == 200


@pytest.mark.asyncio
async def test_search_box_leads_to_our_search(path: Path) -> None:
    datasette = await serve(path)
    searched = (await get(datasette, "/my~20archive/messages?_search=数据")).text
    plain = (await get(datasette, "/my~20archive/messages")).text
    if compat.NEW_LINE:
        assert "crystal-notice" in searched
        assert f"/prefix/my+archive/-/crystal/search?q={quote('数据')}" in searched
        assert "crystal-notice" not in plain
    else:
        assert "crystal-table.js" in searched
        assert "crystal-table.js" not in plain


# --------------------------------------------------------------------------- the jump menu of 1.0


async def jump(datasette: Datasette, typed: str, actor: str | None = None) -> list[dict[str, Any]]:
    found = (await get(datasette, f"/-/jump.json?q={quote(typed)}", actor)).json()["matches"]
    assert isinstance(found, list)
    return found


@pytest.mark.asyncio
async def test_jump(path: Path) -> None:
    if not compat.NEW_LINE:
        assert (await get(await serve(path), "/-/jump.json?q=cart")).status_code == 404
        return
    datasette = await serve(path)
    titles = {item["name"]: item["url"] for item in await jump(datasette, "cart")}
    assert (await follow(datasette, titles["Cart bug"])).status_code == 200
    assert "Cart bug" not in {item["name"] for item in await jump(datasette, "")}
    assert "Search conversations" in {item["name"] for item in await jump(datasette, "")}
    for typed in ("%", "_a", "'", '"', "\\", "\0", "x" * 5000, "<b>"):
        assert isinstance(await jump(datasette, typed), list)
    for table in READ_TABLES:
        denied = await serve(path, **{"my archive": {"tables": {table: {"allow": {"id": "root"}}}}})
        assert "Cart bug" not in {item["name"] for item in await jump(denied, "cart")}
        assert "Cart bug" in {item["name"] for item in await jump(denied, "cart", "root")}
    for whole in ({"allow": {"id": "root"}},):
        denied = await serve(path, **{"my archive": whole})
        assert await jump(denied, "conversations") == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "url",
    [
        "/my~20archive/-/crystal",
        "/my~20archive/-/crystal/search?q=cart&outputs=1&in=commands",
        "/-/crystal/search?q=cart",
        "/my~20archive/messages.read",
        "/my~20archive/conversations.read",
        "/my~20archive/-/crystal/toy/evil",
    ],
)
async def test_no_page_needs_threads(path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Datasette Lite, which runs in a browser, has none."""
    datasette = Datasette([str(path)], settings={"num_sql_threads": 0})
    await datasette.invoke_startup()

    def refuse(*_: Any) -> None:
        raise RuntimeError("no threads here")

    monkeypatch.setattr("asyncio.to_thread", refuse)
    response = await datasette.client.get(url)
    assert response.status_code == 200, response.text[:500]


@pytest.mark.asyncio
async def test_the_page_of_a_row_leads_to_its_conversation(path: Path) -> None:
    datasette = await serve(path)
    for row in ("messages/2", "tool_calls/1", "file_edits/1"):
        text = (await get(datasette, f"/my~20archive/{row}")).text
        links = [unescape(href) for href in re.findall(r'href="([^"]+)"', text)]
        # 1.0 shows its title there, and links it to its row
        way = "/conversations/1" if compat.NEW_LINE else "/-/crystal/open?conversation=1"
        found = [href for href in links if href.endswith(way)]
        assert found, row
        assert "Cart bug" in (await follow(datasette, found[0])).text
    # in a table, Datasette links it to the row by its title
    text = (await get(datasette, "/my~20archive/tool_calls?_nofacet=1&_labels=on")).text
    assert "open?conversation=1" not in cells(text, "conversation_id")[0]


# --------------------------------------------------------------------------- the reading list


@pytest.mark.asyncio
async def test_the_way_from_datasettes_pages(path: Path) -> None:
    datasette = await serve(path)
    # 0.65 has no place for it on the list of databases
    for page in ["my~20archive", *([""] if compat.NEW_LINE else [])]:
        text = (await datasette.client.get(f"/{page}")).text
        line = re.search(r'<span class="crystal-ways">(.*?)</span>', text)
        assert line, page
        links = [unescape(href) for href in re.findall('href="([^"]+)"', line[1])]
        assert [re.sub(r"\?.*", "", href) for href in links] == [
            "/prefix/my+archive/-/crystal",
            "/prefix/my+archive/-/crystal/search",
            "/prefix/my+archive/conversations.read",
        ]
        for link in links:
            assert (await follow(datasette, link)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("table", READ_TABLES)
async def test_no_way_to_what_may_not_be_seen(path: Path, table: str) -> None:
    datasette = await serve(path, **{"my archive": {"tables": {table: {"allow": {"id": "root"}}}}})
    for page in ("/", "/my~20archive"):
        assert "crystal-ways" not in (await get(datasette, page)).text


@pytest.mark.asyncio
async def test_a_description_of_the_user_stays(path: Path) -> None:
    datasette = await serve(path, **{"my archive": {"description": "My own words"}})
    text = (await get(datasette, "/my~20archive")).text
    assert "My own words" in text
    # 1.0 has a place of its own for the way
    assert ("crystal-ways" in text) is compat.NEW_LINE


@pytest.mark.asyncio
async def test_the_tab_leads_to_the_reading_list(tmp_path: Path) -> None:
    """The newest first, page by page, filters kept, with the way to the table."""
    store_all(
        tmp_path / "my archive.db",
        *(
            conversation(f"s{i}", [message(f"u{i}", f"Prompt {i}")], title=f"Talk {i}",
                         started_at=at(i % 60) if i < 60 else f"2026-11-30T11:{i - 60:02d}:00.000Z",
                         project_path="/home/ana/shop" if i % 2 else "/home/ana/tea")
            for i in range(70)
        ),
        conversation("sub", [message("us", "Look")], title="Talk 71", kind="subagent",
                     parent_session_id="s1", started_at=at(0)),
    )  # fmt: skip
    datasette = await serve(tmp_path / "my archive.db")
    text = (await get(datasette, "/my~20archive/-/crystal")).text
    tabs = text[text.index('<nav class="c-nav"') :]
    link = re.search(r'<li><a href="([^"]+)">Conversations</a></li>', tabs)
    assert link
    pages = []
    href: str | None = unescape(link[1])
    while href:
        text = (await follow(datasette, href)).text
        assert f'<a href="{link[1]}" aria-current="page">Conversations</a>' in text
        assert "<h1>70 conversations</h1>" in text
        pages.append(re.findall(r'class="s-open" href="[^"]+">Talk (\d+)<', text))
        following = re.search('rel="next" href="([^"]+)"', text)
        href = unescape(following[1]) if following else None
    assert [len(page) for page in pages] == [50, 20]
    assert [int(n) for page in pages for n in page] == list(range(69, -1, -1))
    table = re.search(r'<a href="([^"]+)">Table with facets</a>', text)
    assert table
    assert (await follow(datasette, unescape(table[1]))).status_code == 200
    assert "kind__notin=subagent" in unescape(table[1])
    everything = re.search(r'<a href="([^"]+)">With subagents and lists of prompts</a>', text)
    assert everything
    assert "<h1>71 conversations</h1>" in (await follow(datasette, unescape(everything[1]))).text


@pytest.mark.asyncio
async def test_the_reading_list_is_narrowed(path: Path) -> None:
    datasette = await serve(path)
    url = "/my~20archive/conversations.read"
    text = (await get(datasette, f"{url}?title__contains=Cart&source=toy&_next=&_nofacet=1")).text
    assert "<h1>1 conversation</h1>" in text or "<h1>1 conversation" in text
    form = re.search(r'<form class="r-filter.*?</form>', text, re.S)
    assert form and '<option value="toy" selected>' in form[0]
    hidden = dict(re.findall('type="hidden" name="([^"]+)" value="([^"]*)"', form[0]))
    assert hidden == {"title__contains": "Cart", "_nofacet": "1"}
    for given, count in (("source=toy", 2), ("project_id=1", 2), ("source=&project_id=", 0)):
        text = (await get(datasette, f"{url}?{given}")).text
        assert text.count('class="s-open"') == count or given.endswith("=")
    assert "No conversation is like this." in (await get(datasette, f"{url}?source=none")).text


@pytest.mark.asyncio
async def test_times_say_utc_in_one_format(path: Path) -> None:
    """Everywhere the same element: the script of the pages makes it the reader's own time."""
    datasette = await serve(path)
    for url in (
        "/my~20archive/-/crystal/search?q=zebra",
        "/my~20archive/conversations.read",
        "/my~20archive/messages.read",
        "/my~20archive/-/crystal/toy/main~2F1",
    ):
        text = (await get(datasette, url)).text
        assert "crystal-time.js" in text
        times = re.findall(r"<time .*?</time>", text)
        assert times, url
        for element in times:
            assert re.fullmatch(
                r'<time datetime="2026-11-30T10:(\d\d):00.000Z" title="2026-11-30 10:\1:00 UTC" '
                r'data-time="(?:long">30 Nov 2026, 10:\1 UTC|short">10:\1<span class="c-sr"> UTC</span>)'
                "</time>",
                element,
            ), element
