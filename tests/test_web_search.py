"""The search page: what it finds, what it shows to whom, and that nothing typed is an error."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from conftest import call, conversation, message, store_all
from datasette.app import Datasette
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_crystal import compat
from datasette_crystal.model import FileEdit
from datasette_crystal.web import search_page
from datasette_crystal.web.search_page import MORE_TABLES, PLACES, TABLES, Form, look
from datasette_crystal.web.search_terms import (
    MAX_TERMS,
    marked,
    parse,
    passage,
    plain,
    read_passage,
)

#: How many arbitrary searches are tried; 10,000 before a release.
SEARCHES = int(os.environ.get("CRYSTAL_SEARCHES", "300"))


def at(minute: int) -> str:
    return f"2026-11-30T10:{minute:02d}:00.000Z"


def fill(path: Path) -> Path:
    main = [
        message("u1", "Why does foo_bar in src/a/b.py lose items?", timestamp=at(0)),
        message(
            "a1",
            "The Zebra pattern, naïve as it is, shows it. Don't use a multi-agent here.",
            thinking="perhaps the cache is stale",
            timestamp=at(1),
            model="opus",
            tool_calls=[
                call(
                    "Bash",
                    input='{"command":"pytest -x tests/test_cart.py"}',
                    output="1 failed: walrus expected",
                    status="error",
                    exit_code=1,
                    started_at=at(1),
                ),
                call(
                    "Edit", started_at=at(2), edits=[FileEdit("/home/ana/shop/cart.py", "edit", 1)]
                ),
            ],
        ),
        message("u2", "请用pytest测试数据迁移，然后修复 cart", timestamp=at(4)),
        message("a2", "好。", timestamp=at(5), model="opus"),
    ]
    other = [
        message("u1", "Zebra crossing: a quick question", timestamp="2026-11-20T10:00:00.000Z"),
        message("a1", "The quick answer about zebras", timestamp="2026-11-20T10:01:00.000Z"),
    ]
    store_all(
        path,
        conversation("main/1", main, title="Cart bug", source="toy", project_path="/home/ana/shop"),
        conversation("other", other, title="Roads", source="game", project_path="/home/ana/road"),
    )
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("data") / "my archive.db")


async def serve(*paths: Path, time_limit: int = 1000, **databases: Any) -> Datasette:
    written = {"databases": databases}
    more = {"config": json.loads(json.dumps(written))} if compat.NEW_LINE else {}
    settings = {"base_url": "/prefix/", "sql_time_limit_ms": time_limit}
    datasette = Datasette(
        [str(path) for path in paths], metadata=written, settings=settings, **more
    )
    await datasette.invoke_startup()
    return datasette


PAGE = "/my~20archive/-/crystal/search"


async def get(datasette: Datasette, path: str = PAGE, **parameters: str) -> Any:
    return await datasette.client.get(f"{path}?{urlencode(parameters)}".rstrip("?"))


async def follow(datasette: Datasette, link: str) -> Any:
    """A link of a page, as a browser behind the proxy would ask for it."""
    link = re.sub("^https?://[^/]+", "", link)
    assert link.startswith("/prefix/")
    return await datasette.client.get(link.removeprefix("/prefix"))


async def found(datasette: Datasette, **parameters: str) -> list[str]:
    """uid@source of the messages found."""
    data = (await get(datasette, PAGE + ".json", **parameters)).json()
    assert data["ok"]
    return [hit["uid"] + "@" + hit["source"] for hit in data["messages"]]


# --------------------------------------------------------------------------- what is found


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("zebra", ["a1@toy", "u1@game"]),
        ("ZEBRA", ["a1@toy", "u1@game"]),
        ("zebra*", ["a1@toy", "a1@game", "u1@game"]),
        ("zebra -crossing", ["a1@toy"]),
        ('zebra* -"quick answer"', ["a1@toy", "u1@game"]),
        ('"zebra pattern"', ["a1@toy"]),
        ('"pattern zebra"', []),
        ("“zebra pattern”", ["a1@toy"]),
        ("zebra cache", ["a1@toy"]),
        ("foo_bar", ["u1@toy"]),
        ("bar_foo", []),
        ("a/b.py", ["u1@toy"]),
        ("don't", ["a1@toy"]),
        ("multi-agent", ["a1@toy"]),
        ("naive", ["a1@toy"]),
        ("测", ["u2@toy"]),
        ("迁移", ["u2@toy"]),
        ("数据迁移", ["u2@toy"]),
        ("迁据", []),
        ("移然", []),
        ("pytest", ["u2@toy"]),
        ("pytest*", ["u2@toy"]),
        ("用pytest测试", ["u2@toy"]),
        ("修复cart", ["u2@toy"]),
        ("迁移 cart", ["u2@toy"]),
        ("迁移 zebra", []),
        ("迁移 -cart", []),
        ("cart -迁移", []),
        ("好", ["a2@toy"]),
        ("zebra OR crossing", []),
        ("zebra !!!", ["a1@toy", "u1@game"]),
        ("zebra AND", []),
        ("content:zebra", []),
    ],
)
async def test_what_is_found(path: Path, typed: str, expected: list[str]) -> None:
    datasette = await serve(path)
    assert await found(datasette, q=typed) == expected
    assert sorted(await found(datasette, q=typed, sort="best")) == sorted(expected)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"source": "toy"}, ["a1@toy"]),
        ({"project": "road"}, ["u1@game", "a1@game"]),
        ({"project": "/home/ana/road"}, ["u1@game", "a1@game"]),
        ({"kind": "prompt"}, ["u1@game"]),
        ({"role": "assistant"}, ["a1@toy", "a1@game"]),
        ({"tool": "Bash"}, ["a1@toy"]),
        ({"file": "shop/cart"}, ["a1@toy"]),
        ({"file": "c_rt"}, []),
        ({"since": "2026-11-21"}, ["a1@toy"]),
        ({"until": "2026-11-20"}, ["u1@game", "a1@game"]),
        ({"since": "2026-11-20", "until": "2026-11-20"}, ["u1@game", "a1@game"]),
        ({"since": "yesterday"}, ["a1@toy", "a1@game", "u1@game"]),
        ({"in": "prompts"}, ["u1@game"]),
        ({"in": "replies"}, ["a1@toy", "a1@game"]),
        ({"in": "thinking"}, []),
        ({"in": "nonsense", "page": "x", "size": "-1"}, ["a1@toy", "a1@game", "u1@game"]),
    ],
)
async def test_filters(path: Path, chosen: dict[str, str], expected: list[str]) -> None:
    assert sorted(await found(await serve(path), q="zebra*", **chosen)) == sorted(expected)


@pytest.mark.asyncio
async def test_thinking_and_titles_and_tool_calls(path: Path) -> None:
    datasette = await serve(path)
    assert await found(datasette, q="stale", **{"in": "thinking"}) == ["a1@toy"]
    assert await found(datasette, q="stale", **{"in": "replies"}) == []
    data = (await get(datasette, PAGE + ".json", q="cart")).json()
    assert [hit["title"] for hit in data["titles"]] == ["Cart bug"]
    assert [hit["name"] for hit in data["tool_calls"]] == ["Bash"]
    data = (await get(datasette, PAGE + ".json", q="walrus")).json()
    assert data["tool_calls"] == data["messages"] == data["titles"] == []
    data = (await get(datasette, PAGE + ".json", q="walrus", outputs="1")).json()
    assert [hit["name"] for hit in data["tool_calls"]] == ["Bash"]
    assert {"text": "walrus", "marked": True} in data["tool_calls"][0]["output"]
    # nothing typed: what was chosen is listed
    assert await found(datasette, source="game") == ["a1@game", "u1@game"]
    assert await found(datasette, q="-zebra") == ["a2@toy", "u2@toy", "u1@toy", "a1@game"]
    assert await found(datasette) == await found(datasette, q="???") == []


@pytest.mark.asyncio
async def test_hits_open_the_message(path: Path) -> None:
    datasette = await serve(path)
    text = (await get(datasette, q="zebra pattern")).text
    href = "/prefix/my+archive/-/crystal/toy/main~2F1?message=a1#m-a1"
    assert f'class="s-open" href="{href}"' in text
    assert "The <mark>Zebra</mark> <mark>pattern</mark>, naïve" in text
    opened = await follow(datasette, href.split("#")[0])
    assert opened.status_code == 200
    assert 'id="m-a1"' in opened.text


@pytest.mark.asyncio
async def test_counts_are_links(path: Path) -> None:
    datasette = await serve(path)
    data = (await get(datasette, PAGE + ".json", q="zebra*")).json()
    assert data["total"] == 3
    assert {(s["label"], s["count"]) for s in data["sources"]} == {("Toy", 1), ("Game", 2)}
    assert {(k["name"], k["count"]) for k in data["kinds"]} == {("reply", 2), ("prompt", 1)}
    # with a source chosen the others still say what they would give
    data = (await get(datasette, PAGE + ".json", q="zebra*", source="toy")).json()
    assert data["total"] == 1
    assert {(s["label"], s["count"]) for s in data["sources"]} == {("Toy", 1), ("Game", 2)}
    assert {(k["name"], k["count"]) for k in data["kinds"]} == {("reply", 1)}
    for link in data["sources"]:
        shown = await follow(datasette, link["href"])
        assert shown.status_code == 200


@pytest.mark.asyncio
async def test_pages(tmp_path: Path) -> None:
    messages = [message(f"u{i}", f"walrus {i}", timestamp=at(i)) for i in range(7)]
    store_all(tmp_path / "my archive.db", conversation("s", messages))
    datasette = await serve(tmp_path / "my archive.db")
    for sort in ("", "best"):
        url: str | None = f"/prefix{PAGE}.json?q=walrus&size=3&sort={sort}"
        uids: list[str] = []
        pages = 0
        while url:
            data = (await follow(datasette, url)).json()
            uids += [hit["uid"] for hit in data["messages"]]
            url = data["next_url"]
            pages += 1
        assert pages == 3
        assert sorted(uids) == [f"u{i}" for i in range(7)]
        if not sort:
            assert uids == [f"u{i}" for i in reversed(range(7))]
    # tool calls of one time go on by id
    messages = [
        message("u0", "go"),
        message("a0", "", tool_calls=[call(input=f'{{"command":"walrus {i}"}}') for i in range(5)]),
    ]
    store_all(tmp_path / "my archive.db", conversation("t", messages))
    first = (
        await get(datasette, PAGE + ".json", q="walrus", size="2", **{"in": "commands"})
    ).json()
    assert [hit["title"] for hit in first["tool_calls"]] == ["Bash: walrus 4", "Bash: walrus 3"]
    second = await follow(datasette, first["next_url"])
    assert [hit["title"] for hit in second.json()["tool_calls"]] == [
        "Bash: walrus 2",
        "Bash: walrus 1",
    ]


@pytest.mark.asyncio
async def test_tool_calls_are_found_newest_first(tmp_path: Path) -> None:
    """By their times, whatever was imported first; those without a time last; each once."""
    times = [at(5), at(50), None, at(20), None, at(50), at(1)]
    calls = [
        call(
            input=f'{{"command":"walrus {i}"}}',
            started_at=time,
            status="error" if i in (0, 4) else "denied" if i == 3 else "ok",
        )
        for i, time in enumerate(times)
    ]
    path = tmp_path / "my archive.db"
    store_all(path, conversation("t", [message("u", "go"), message("a", "", tool_calls=calls)]))
    datasette = await serve(path)
    expected = ["5", "1", "3", "0", "6", "4", "2"]

    async def walk(**parameters: str) -> list[str]:
        url = f"{PAGE}.json?{urlencode({'q': 'walrus', 'in': 'commands'} | parameters)}"
        titles: list[str] = []
        for _ in range(9):
            data = (await datasette.client.get(url)).json()
            titles += [hit["title"].split()[-1] for hit in data["tool_calls"]]
            if not data["next_url"]:
                break
            url = re.sub("^.*?/prefix", "", data["next_url"])
        return titles

    for size in ("1", "2", "3", "7", "50"):
        assert await walk(size=size) == expected
    assert await walk(size="2", failed="1") == ["3", "0", "4"]
    page = (await get(datasette, q="walrus", **{"in": "commands"})).text
    assert re.search(r">7</span> tool calls, newest first", page)
    link = re.search(r'<a href="([^"]+)">Failures only</a>', page)
    assert link
    failures = (await follow(datasette, unescape(link[1]))).text
    assert re.search(r">3</span> tool calls, newest first", failures)
    assert '<input type="hidden" name="failed" value="1">' in failures
    assert (
        "tool calls, newest"
        not in (await get(datasette, q="walrus", size="2", **{"in": "commands"})).text
    )


@pytest.mark.asyncio
async def test_how_many_tool_calls_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the time is up between those with a time and those without, the rest is a page on."""
    calls = [call(input='{"command":"walrus"}', started_at=time) for time in (at(1), at(2), None)]
    path = tmp_path / "my archive.db"
    store_all(path, conversation("t", [message("u", "go"), message("a", "", tool_calls=calls)]))
    datasette = await serve(path)
    clock = iter([0.0, 0.0])
    monkeypatch.setattr(
        "datasette_crystal.web.search_page.time",
        SimpleNamespace(monotonic=lambda: next(clock, 1e9)),
    )
    data = (await get(datasette, PAGE + ".json", q="walrus", **{"in": "commands"})).json()
    assert data["notes"] == ["Looked through the newest 2 of 3 tool calls."]
    assert len(data["tool_calls"]) == 2
    monkeypatch.undo()
    rest = (await follow(datasette, data["next_url"])).json()
    assert len(rest["tool_calls"]) == 1 and rest["next_url"] is None


@pytest.mark.asyncio
async def test_nothing_is_said_of_words_and_of_a_word(path: Path) -> None:
    datasette = await serve(path)
    assert "No message holds this." in (await get(datasette, q="nowheretobefound")).text
    several = (await get(datasette, q="nowhere tobefound")).text
    assert "No message holds all of these words." in several


@pytest.mark.asyncio
async def test_several_databases(path: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.db"
    store_all(
        second,
        conversation("s", [message("u1", "zebra of today", timestamp=at(50)), message("a1", "x")]),
    )
    other = tmp_path / "plain.db"
    import sqlite3

    sqlite3.connect(other).execute("create table messages (content text)")
    datasette = await serve(path, second, other)
    data = (await get(datasette, "/-/crystal/search.json", q="zebra")).json()
    assert [(hit["database"], hit["uid"]) for hit in data["messages"]] == [
        ("second", "u1"),
        ("my archive", "a1"),
        ("my archive", "u1"),
    ]
    assert data["total"] == 3
    text = (await get(datasette, "/-/crystal/search", q="zebra", sort="best")).text
    assert "/prefix/second/-/crystal/toy/s?message=u1#m-u1" in text
    paged = [
        (await get(datasette, "/-/crystal/search.json", q="zebra", size="1", page=str(p))).json()
        for p in (1, 2, 3, 4)
    ]
    assert [len(page["messages"]) for page in paged] == [1, 1, 1, 0]
    assert [bool(page["next_url"]) for page in paged] == [True, True, False, False]
    # of a denied one nothing is said, not even its name
    denied = {"second": {"tables": {"messages": {"allow": False}}}}
    datasette = await serve(path, second, **denied)
    response = await get(datasette, "/-/crystal/search.json", q="zebra")
    assert "second" not in response.text
    assert response.json()["total"] == 2
    both = denied | {"my archive": {"allow": False}}
    datasette = await serve(path, second, **both)
    assert (await get(datasette, "/-/crystal/search", q="zebra")).status_code == 403
    datasette = await serve(other)
    assert (await get(datasette, "/-/crystal/search", q="zebra")).status_code == 404


# --------------------------------------------------------------------------- permissions


@pytest.mark.asyncio
@pytest.mark.parametrize("table", TABLES)
async def test_denied_with_any_of_its_tables(path: Path, table: str) -> None:
    datasette = await serve(path, **{"my archive": {"tables": {table: {"allow": False}}}})
    for url in (PAGE, PAGE + ".json", "/-/crystal/search"):
        response = await get(datasette, url, q="zebra")
        assert response.status_code == 403
        assert "pattern" not in response.text


@pytest.mark.asyncio
@pytest.mark.parametrize("table", MORE_TABLES)
async def test_what_may_be_left_out_is_left_out(path: Path, table: str) -> None:
    datasette = await serve(path, **{"my archive": {"tables": {table: {"allow": False}}}})
    if table == "tool_calls":
        for parameters in ({}, {"in": "commands"}, {"outputs": "1"}):
            data = (await get(datasette, PAGE + ".json", q="pytest", **parameters)).json()
            assert data["tool_calls"] == []
        assert ">Bash<" not in (await get(datasette)).text
        # a filter must not tell either
        assert await found(datasette, q="zebra", tool="Bash") == await found(datasette, q="zebra")
        assert await found(datasette, q="zebra", tool="No") == await found(datasette, q="zebra")
    else:
        assert await found(datasette, q="zebra", file="cart") == await found(datasette, q="zebra")
        assert await found(datasette, q="zebra", file="no") == await found(datasette, q="zebra")


# --------------------------------------------------------------------------- nothing is an error

HOSTILE = [
    '"',
    '""',
    '"""',
    "'",
    "*",
    "-",
    "--",
    '-"',
    "NEAR(",
    "NEAR(a b, 2)",
    "AND",
    "OR OR",
    "NOT",
    "a NOT",
    "content:x",
    "{content}:x",
    "^a",
    "a + b",
    "(",
    ")",
    "\0",
    "a\0b",
    "x' or 1=1 --",
    "%",
    "_",
    "\\",
    "[a",
    "😀",
    "\u202e",
    "\ufeff",
    "é" * 3000,
    "a " * 5000,
    '"a" ' * 5000,
    "a" * 1_000_000,
    "测" * 100_000,
    "-a " * 3000,
    "a*" * 2000,
]


@pytest.mark.asyncio
@pytest.mark.parametrize("typed", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_search_is_an_error(path: Path, typed: str) -> None:
    datasette = await serve(path)
    db = datasette.databases["my archive"]
    terms = parse(typed)
    for place in PLACES:
        for sort in ("", "best"):
            form = Form(q=typed, place=place, sort=sort, outputs=place == "commands")
            result = await look(datasette, db.name, db, form, terms, None)
            assert "too much" not in "".join(result.notes)
    short = typed[:5000]  # the client takes no longer addresses
    for parameters in ({}, {"sort": "best", "in": "thinking"}, {"in": "commands", "outputs": "1"}):
        response = await get(datasette, q=short, **parameters)
        assert response.status_code == 200, response.text[:500]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "name",
    [
        "in",
        "source",
        "project",
        "kind",
        "role",
        "tool",
        "file",
        "since",
        "until",
        "outputs",
        "sort",
        "page",
        "size",
        "before",
        "failed",
    ],
)
async def test_no_parameter_is_an_error(path: Path, name: str) -> None:
    datasette = await serve(path)
    for value in (
        "",
        "\0",
        "99999999999999999999",
        "-1",
        "٣",
        "%",
        "'\"<b>",
        "2026-13-45",
        "x" * 9000,
    ):
        for url in (PAGE, PAGE + ".json"):
            response = await get(datasette, url, q="zebra", **{name: value})
            assert response.status_code == 200, (name, value)
            assert "<b>" not in response.text or url != PAGE
    for query in ("q=%ff%fe", "q", "&&&", "q=a&q=b", "q=%00", "%00=%00"):
        assert (await datasette.client.get(f"{PAGE}?{query}")).status_code == 200


#: Pieces that mean something to FTS5, to SQL, to our own parser, or that are hard to cut.
PIECES = [
    *"\"'`*-(){}[]:+^,;%_\\/ \t\n\0\ud800é\u0301ｱ𠀀1用“”„«»\u202e\u2066\u200d\ufeff\uffff",
    *("zebra", "zebra*", "NEAR(", "NEAR/2", "AND", " OR ", "NOT ", "col:", "content:", "-zebra"),
    *("迁移", "数据", "한국", "foo_bar", "a/b.py", "rank", "rowid", "messages_fts"),
    *("' or 1=1 --", '"; drop table messages; --', "union select 1", "/*", "char(0)", "x'00'"),
    *(
        "😀",
        "👨‍👩‍👧",
        "مرحبا",
        "שלום",
        "{content thinking}:",
        "^zebra",
        "zebra + cart",
        "%00",
        "&q=",
        "#",
    ),
]
SEARCHED = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=st.characters(min_codepoint=0x2E80, max_codepoint=0x10FFFF), max_size=20),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.builds(lambda piece, times: piece * times, st.sampled_from(PIECES), st.integers(2, 2000)),
)


def test_arbitrary_searches(path: Path) -> None:
    """Whatever is typed, the page answers, and all its queries together take less than Datasette's
    time limit for one: in processor time, which a busy machine does not stretch."""
    import asyncio
    from urllib.parse import quote

    loop = asyncio.new_event_loop()
    datasette = loop.run_until_complete(serve(path, time_limit=20_000))

    @settings(
        max_examples=SEARCHES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        typed=SEARCHED,
        place=st.sampled_from(["", "prompts", "replies", "thinking", "titles", "commands"]),
        more=st.sampled_from(["", "&sort=best", "&outputs=1", "&sort=best&outputs=1", "&size=100"]),
        ending=st.sampled_from(["", "", ".json"]),
    )
    def search(typed: str, place: str, more: str, ending: str) -> None:
        asked = quote(typed.encode("utf-8", "surrogatepass"), safe="")[:12_000]
        began = time.process_time()
        response = loop.run_until_complete(
            datasette.client.get(f"{PAGE}{ending}?q={asked}&in={place}{more}")
        )
        assert response.status_code == 200
        assert "within the time limit" not in response.text
        assert time.process_time() - began < 1

    try:
        search()
    finally:
        loop.close()


@pytest.mark.asyncio
async def test_methods(path: Path) -> None:
    datasette = await serve(path)
    assert (await datasette.client.head(PAGE)).status_code == 200
    for method in ("PUT", "DELETE", "PATCH"):
        assert (await datasette.client.request(method, PAGE)).status_code in (403, 405)


# --------------------------------------------------------------------------- hostile content


@pytest.mark.asyncio
async def test_content_is_text(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\"'<script>alert(1)</script>{{7*7}}"
    messages = [
        message(f"u{evil}", f"zebra {evil}", timestamp=at(1), model=evil),
        message(
            f"a{evil}",
            "",
            thinking=f"zebra {evil}",
            model=evil,
            tool_calls=[
                call(
                    f"T{evil}",
                    input=json.dumps({"command": f"zebra {evil}"}),
                    output=f"zebra {evil}",
                )
            ],
        ),
    ]
    store_all(
        tmp_path / "my archive.db",
        conversation(evil, messages, title=f"zebra {evil}", source=evil, project_path=f"/{evil}"),
    )
    datasette = await serve(tmp_path / "my archive.db")
    for parameters in (
        {"q": "zebra", "outputs": "1"},
        {"q": evil, "project": evil, "tool": evil, "file": evil, "source": evil, "kind": evil},
        {"q": "zebra", "in": "titles"},
        {"q": "zebra", "in": "commands"},
    ):
        response = await get(datasette, **parameters)
        assert response.status_code == 200
        assert "<img" not in response.text
        assert "<script>alert" not in response.text
        assert 'onerror=alert(1)"' not in response.text.replace("&gt;", ">")
        assert "49" not in re.sub(r"[0-9]{3,}", "", response.text.split("crystal-main")[1])
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "object-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.asyncio
async def test_calls_of_several_databases_keep_the_order_of_each(tmp_path: Path) -> None:
    """The newest first; calls without a time last, the ones stored later before the others."""
    times = {"one": [1, None, 5], "two": [3, None]}  # oldest first, as they are stored
    for name, minutes in times.items():
        calls = [
            call("Bash", title=f"walrus {name} {n}", started_at=None if m is None else at(m))
            for n, m in enumerate(minutes)
        ]
        messages = [message("u1", "go"), message("a1", "gone", tool_calls=calls)]
        store_all(tmp_path / f"{name}.db", conversation(name, messages, source=name))
    datasette = await serve(tmp_path / "one.db", tmp_path / "two.db")

    async def titles(page: str) -> list[str]:
        data = (await get(datasette, page, q="walrus", **{"in": "commands"})).json()
        return [hit["title"].removeprefix("walrus ") for hit in data["tool_calls"]]

    assert await titles("/one/-/crystal/search.json") == ["one 2", "one 0", "one 1"]
    assert await titles("/two/-/crystal/search.json") == ["two 0", "two 1"]
    assert await titles("/-/crystal/search.json") == ["one 2", "two 0", "one 0", "one 1", "two 1"]


@pytest.mark.asyncio
async def test_databases_are_searched_side_by_side(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_all(tmp_path / "second.db", conversation("s", [message("u1", "x"), message("a1", "y")]))
    datasette = await serve(path, tmp_path / "second.db")
    inside: list[str] = []
    both = asyncio.Event()

    async def wait_for_the_other(ds: Any, name: str, *more: Any) -> Any:
        inside.append(name)
        if len(inside) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 10)
        return await look(ds, name, *more)

    monkeypatch.setattr(search_page, "look", wait_for_the_other)
    assert (await get(datasette, "/-/crystal/search.json", q="zebra")).status_code == 200
    assert sorted(inside) == ["my archive", "second"]


# --------------------------------------------------------------------------- terms and passages


def test_terms() -> None:
    terms = parse('zebra -"not this" --force pre* "a "b" -x')
    assert [term.text for term in terms.wanted] == ["zebra", "--force", "pre*", "a", "b", "-x"]
    assert [term.text for term in terms.unwanted] == ["not this"]
    assert [term.text for term in parse("a -b -c").unwanted] == ["b", "c"]
    assert parse("").wanted == parse("  \n ").wanted == ()
    assert len(parse(" ".join(f"w{i}" for i in range(90))).wanted) == MAX_TERMS
    assert "first" in parse("a " * 5000).notes[0]
    assert "=>" in parse("=> zebra").notes[0]


@pytest.mark.parametrize(
    ("text", "typed", "expected"),
    [
        ("a Zebra!", "zebra", ["Zebra"]),
        ("zebras", "zebra", []),
        ("zebras", "zebra*", ["zebras"]),
        ("foo-bar foo_bar foobar", "foo_bar", ["foo-bar", "foo_bar"]),
        ("Déjà vu", "deja", ["Déjà"]),
        ("用pytest测试", "pytest", ["pytest"]),
        ("数据迁移", "迁移", ["迁移"]),
        ("修复 cart", "修复cart", ["修复", "cart"]),
        ("don't and dont", "don't", ["don't"]),
        ("İstanbul ŞEHIR", "sehir", ["ŞEHIR"]),
    ],
)
def test_marks(text: str, typed: str, expected: list[str]) -> None:
    pieces = marked(text, parse(typed).wanted)
    assert [piece for piece, mark in pieces if mark] == expected
    assert "".join(piece for piece, _ in pieces) == text


@pytest.mark.parametrize(
    ("text", "typed", "expected"),
    [
        ("Is there the code?", "the", ["the", "the"]),
        ("pytest -q tests/", "TEST", ["test", "test"]),
        ("a.b(c) abbc", "a.b(c", ["a.b(c"]),
        ("数据迁移", "据迁", ["据迁"]),
        ("migration", "migr*", ["migration"]),
    ],
)
def test_marks_in_titles(text: str, typed: str, expected: list[str]) -> None:
    pieces = marked(text, parse(typed).wanted, parts=True)
    assert [piece for piece, mark in pieces if mark] == expected
    assert "".join(piece for piece, _ in pieces) == text


def test_passage_is_where_most_words_are() -> None:
    text = "alpha. " + "filler " * 300 + "here alpha and\n\nbeta stand. " + "filler " * 300
    pieces, most = passage(text, parse("alpha beta").wanted)
    assert most == 2
    shown = "".join(piece for piece, _ in pieces)
    assert shown.startswith("… ") and shown.endswith(" …")
    assert "here alpha and beta stand." in shown
    assert len(shown) < 300
    assert passage("nothing", parse("alpha").wanted) == ([("nothing", False)], 0)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# Head\n\n> a quote", "Head\n\na quote"),
        ("- **Roscoff**: late\n* [x] done", "• Roscoff: late\n• done"),
        ("the `foo_bar` of *one* ~~two~~", "the foo_bar of one two"),
        ("迁移已经**完成**了", "迁移已经完成了"),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", "a · b\n1 · 2"),
        ("see [the page](https://example.com/a) and ![it](b.png)", "see the page and it"),
        # identifiers and sums are no marks, nor is anything in a code block
        ("__init__ and foo_bar, 2*3*4, -x", "__init__ and foo_bar, 2*3*4, -x"),
        ("```python\n# f(**a, **b)\n```\n---\nend", "# f(**a, **b)\nend"),
        ("~~~\n```\n**a**\n~~~", "```\n**a**"),
    ],
)
def test_passages_read_without_marks(markdown: str, expected: str) -> None:
    assert plain(markdown) == expected


def test_a_passage_keeps_the_marks_where_the_words_stand_in_them() -> None:
    text = "**see** [the page](https://example.com/zebra)"
    assert read_passage(text, parse("page").wanted)[0] == [("see the ", False), ("page", True)]
    assert ("zebra", True) in read_passage(text, parse("zebra").wanted)[0]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80), st.text(max_size=30))
def test_marks_never_change_the_text(text: str, typed: str) -> None:
    pieces = marked(text, parse(typed).wanted)
    assert "".join(piece for piece, _ in pieces) == text


def test_hostile_texts_are_not_slow() -> None:
    terms = parse('"a b c d e f" a* "x y" zebra* 测试').wanted
    for text in (
        "a ",
        "a",
        "a_",
        "测",
        " ",
        "`",
        "`a",
        "**",
        "**a ",
        "*a",
        "[a](",
        ">",
        "|\n",
        "~~a",
    ):
        text = text * (50_000 // len(text))
        started = time.perf_counter()
        read_passage(text, terms)
        assert time.perf_counter() - started < 1
