"""What somebody else wrote, or asks for: foreign databases, values of wrong types, odd addresses,
huge texts. Every page answers, and says plainly where it cannot."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import call, conversation, message, store_all
from datasette.app import Datasette

from datasette_crystal.migrations import APPLICATION_ID
from datasette_crystal.model import Attachment, FileEdit
from datasette_crystal.text import milliseconds_between

PNG = b"\x89PNG\r\n\x1a\n rest"
PAGES = [
    "/{}/-/crystal",
    "/{}/-/crystal?by=model&from=2026-01-01",
    "/{}/-/crystal/toy/s1",
    "/{}/-/crystal/toy/s1?q=a",
    "/{}/-/crystal/toy/s1?show=failed",
    "/{}/-/crystal/toy/s1?fragment=1",
    "/{}/-/crystal/toy/s1.json",
    "/{}/-/crystal/toy/s1.md",
    "/{}/-/crystal/search",
    "/{}/-/crystal/search?q=zebra",
    "/{}/-/crystal/search?q=z*&outputs=1&sort=best",
    "/{}/-/crystal/search?kind=prompt",
    "/{}/-/crystal/search?in=titles&q=t",
    "/{}/-/crystal/search?in=commands&q=l",
    "/{}/-/crystal/search.json?kind=reply",
    "/{}/-/crystal/open?conversation=1",
    "/{}/-/crystal/open?message=1",
    "/{}/-/crystal/-/image/1",
    "/{}/messages.read",
    "/{}/conversations.read",
    "/{}/tool_calls.read",
]
OTHERS = ["/", "/-/crystal/search?q=zebra", "/{}", "/{}/messages", "/{}/conversations"]


def fill(path: Path) -> None:
    edit = FileEdit("p", "edit", 1, 1, "@@ -1 +1 @@\n-a\n+b\n")
    started = "2026-11-30T10:00:00.000Z"
    replies = message(
        "a1",
        "b",
        thinking="c",
        timestamp=started,
        tool_calls=[
            call("Bash", status="error", exit_code=1, duration_ms=5, edits=[edit]),
            call("TodoWrite", input='{"todos": [{"content": "x"}]}'),
            call("Agent", subagent_session_id="c"),
        ],
    )
    image = Attachment("image", "x", "image/png", PNG)
    store_all(
        path,
        conversation(
            "s1",
            [message("u1", "a zebra", timestamp=started, attachments=[image]), replies],
            title="T",
            project_path="/p",
            started_at=started,
        ),
        conversation(
            "c", [message("u8", "x"), message("a8", "y")], kind="subagent", parent_session_id="s1"
        ),
    )


async def serve(*paths: Path, **more: Any) -> Datasette:
    datasette = Datasette([str(path) for path in paths], **more)
    await datasette.invoke_startup()
    return datasette


async def answers(path: Path) -> list[tuple[str, int, str]]:
    datasette = await serve(path)
    found = []
    for page in [*PAGES, *OTHERS]:
        response = await datasette.client.get(page.format(path.stem))
        found.append((page, response.status_code, response.text))
    return found


# --------------------------------------------------------------------------- foreign databases


def only_the_mark(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute("create table cats (name)")


def without(table: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        fill(path)
        with closing(sqlite3.connect(path)) as db:
            for (view,) in db.execute(
                "select name from sqlite_master where type = 'view'"
            ).fetchall():
                db.execute(f"drop view {view}")
            db.execute(f"drop table {table}")
            db.commit()

    return make


def with_a_view(path: Path) -> None:
    fill(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("alter table tool_calls rename to calls")
        db.execute("create view tool_calls as select * from calls")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "make",
    [only_the_mark, *(without(t) for t in ("sources", "messages", "file_edits", "import_runs"))],
    ids=["only the mark", "no sources", "no messages", "no file_edits", "no import_runs"],
)
async def test_missing_tables_are_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "odd.db")
    failed = 0
    for page, status, text in await answers(tmp_path / "odd.db"):
        if status == 500:
            assert "not as datasette-crystal makes its databases: no such table" in text, page
            assert page in PAGES
            failed += 1
        else:  # 400 is what Datasette's own page of the table says
            assert status in (200, 302, 404) or (status == 400 and "/-/" not in page), page
    assert failed


@pytest.mark.asyncio
async def test_a_view_in_place_of_a_table_will_do(tmp_path: Path) -> None:
    with_a_view(tmp_path / "odd.db")
    for page, status, _ in await answers(tmp_path / "odd.db"):
        assert status in (200, 302), page


@pytest.mark.asyncio
async def test_other_databases_are_searched_all_the_same(tmp_path: Path) -> None:
    without("tool_calls")(tmp_path / "odd.db")
    only_the_mark(tmp_path / "odder.db")
    fill(tmp_path / "good.db")
    datasette = await serve(*(tmp_path / f"{name}.db" for name in ("odd", "odder", "good")))
    response = await datasette.client.get("/-/crystal/search.json?q=zebra")
    assert response.status_code == 200
    data = response.json()
    assert [hit["database"] for hit in data["messages"]] == ["good"]
    assert any("odder: odder is not as" in note for note in data["notes"])


#: No column of ours is strict: what of it may be anything?
VALUES = {
    "bytes": b"\xff\x00<b>",
    "a huge number": 2**62,
    "a negative number": -1,
    "a huge real": 1e308,
    "null": None,
    "text": "<script>alert(1)</script>",
    "digits": "9" * 400,
    "nothing": "",
}


@pytest.mark.asyncio
@pytest.mark.parametrize("value", list(VALUES))
async def test_any_value_in_every_column(tmp_path: Path, value: str) -> None:
    path = tmp_path / "odd.db"
    fill(path)
    keep = {("conversations", "source"), ("conversations", "session_id"),
            ("conversation_messages", "position"), ("messages", "position")}  # fmt: skip
    changed = 0
    with closing(sqlite3.connect(path)) as db, db:
        tables = [
            row[0]
            for row in db.execute(
                "select name from sqlite_master where type = 'table' and sql like 'create table%' "
                "and name not like 'sqlite%' and name not like 'messages\\_%' escape '\\' "
                "and name <> '_sqlite_migrations'"
            )
        ]
        for table in tables:
            for _, column, type_, _, _, key in db.execute(f"pragma table_info({table})").fetchall():
                reference = column.endswith("_id") and type_ == "INTEGER"
                if key or reference or (table, column) in keep:
                    continue
                try:
                    db.execute(f"update {table} set {column} = ?", [VALUES[value]])
                    changed += 1
                except sqlite3.IntegrityError:
                    pass  # not null
    assert changed > 60
    for page, status, text in await answers(path):
        if status == 500:
            assert "odd holds values of a wrong type in " in text, (page, text[-2000:])
            assert page in PAGES
        else:
            assert status in (200, 302, 404), page
        assert "<script>alert" not in text or page.endswith((".json", ".md", "kind=reply")), page
    if value in ("null", "a negative number"):
        # of the right types, so shown
        assert all(status != 500 for _, status, _ in await answers(path))


@pytest.mark.asyncio
async def test_a_fault_of_ours_is_not_called_the_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "good.db")
    datasette = await serve(tmp_path / "good.db")

    def fail(*_: Any) -> Any:
        raise TypeError("ours")

    monkeypatch.setattr("datasette_crystal.web.search_page.parse", fail)
    response = await datasette.client.get("/good/-/crystal/search?q=a")
    assert response.status_code == 500
    assert "ours" in response.text and "wrong type" not in response.text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "is_its_fault"),
    [
        ("no such table: messages", True),
        ("no such column: m.uid", True),
        ("database disk image is malformed", True),
        ("database is locked", False),
        ("disk I/O error", False),
    ],
)
async def test_what_passes_is_not_called_the_databases(
    tmp_path: Path, text: str, is_its_fault: bool
) -> None:
    from datasette.utils.sqlite import sqlite3 as sqlite

    from datasette_crystal.web.pages import foreign

    fill(tmp_path / "good.db")
    datasette = await serve(tmp_path / "good.db")
    problem = await foreign(datasette.databases["good"], sqlite.OperationalError(text))
    assert (problem is not None) == is_its_fault
    assert problem is None or text in problem


def test_no_time_gives_no_duration() -> None:
    good = "2026-11-30T10:00:00.000Z"
    assert milliseconds_between(good, "2026-11-30T10:00:01.500Z") == 1500
    for odd in ("-1", "4611686018427387904", "1.0e+308", "x", "￿", "2026-13-01T00:00:00.000Z"):
        assert milliseconds_between(odd, "￿￿") is None
        assert milliseconds_between(good, "9" + odd) is None


# --------------------------------------------------------------------------- odd addresses

PREFIX = "/good/-/crystal"
ADDRESSES = [
    "/toy/s1/../../../..",
    "/toy/..%2f..%2f..%2fetc%2fpasswd",
    "/toy/~2E~2E~2F~2E~2E~2Fetc~2Fpasswd",
    "/toy/~00",
    "/toy/%00",
    "/toy/~",
    "/toy/~G1",
    "/toy/~ED~A0~80",
    "/toy/~FF",
    "/toy/%FF",
    "/toy/s1%0d%0aSet-Cookie:%20a=b",
    "/toy/s1.json.md",
    "/toy/s1.md/",
    "/toy/s1.svg",
    "/toy/" + "a" * 60_000,
    "/toy/%E2%80%AE",
    "/~/~",
    "/-/image/1.svg",
    "/-/image/-1",
    "/-/image/1e3",
    "/-/image/" + "9" * 400,
    "/-/image/%D9%A1",
    "/-/image/..%2f1",
    "/open",
    "/open?message=1e3&conversation=-1",
    "/open?message=" + "9" * 400,
    "/open?message=1&message=2&conversation=%00",
    "/open?conversation=//evil.example",
    "/toy/s1?page=" + "9" * 5000,
    "/toy/s1?page=-1",
    "/toy/s1?message=" + "%0d%0a" * 500,
    "/toy/s1.md?page=9",
    "/search?page=" + "9" * 5000 + "&size=" + "9" * 5000,
    "/search?q=zebra&page=200&size=100&before=" + "9" * 18,
    "/search.json?q=%ED%A0%80",
    "?from=99999-01-01&to=-1&days=" + "9" * 5000,
    "?from=0001-01-01&to=9999-12-31",
    "?days=2.5&source=%00&project=" + "9" * 400,
]


@pytest.mark.asyncio
async def test_odd_addresses(tmp_path: Path) -> None:
    fill(tmp_path / "good.db")
    datasette = await serve(tmp_path / "good.db")
    for address in ADDRESSES:
        response = await datasette.client.get(PREFIX + address)
        assert response.status_code in (200, 302, 404), address[:100]
        assert "set-cookie" not in response.headers, address[:100]
        location = response.headers.get("location", "/")
        assert location.startswith("/") and not location.startswith(("//", "/\\")), address[:100]
        assert "root:" not in response.text
    for database in ("..", "~2E~2E~2Fgood", "good~00", "%00", "~", "_internal", "_memory"):
        response = await datasette.client.get(f"/{database}/-/crystal/toy/s1")
        # Datasette leads to its own way of writing an address
        assert response.status_code in (302, 403, 404), database
        assert response.headers.get("location", "/x")[1] not in "/\\"


IDS = [
    "x\r\nset-cookie: a=b",
    'x"; filename="evil.html',
    "//evil.example/",
    "/\\evil.example",
    "http://evil.example",
    "..",
    "../../../x",
    ".json",
    "x.md",
    "~2F",
    "%2e%2e%2f",
    "a b+c&d=e#f?g",
    "\u202egnp.exe",
    "日本語",
    " ",
]


@pytest.mark.asyncio
@pytest.mark.parametrize("id_", IDS)
async def test_every_id_has_its_own_address(tmp_path: Path, id_: str) -> None:
    """And nothing of it becomes a header, or leads elsewhere."""
    title = f"{id_}\r\nx: y"
    store_all(
        tmp_path / "good.db",
        conversation(id_, [message(id_, "a zebra"), message("a1", "b")], title=title),
        conversation("plain", [message("u1", "c"), message("a1", "d")]),
    )
    datasette = await serve(tmp_path / "good.db")
    opened = await datasette.client.get("/good/-/crystal/open?message=1")
    assert opened.status_code == 302
    location = opened.headers["location"]
    assert location.startswith("/good/-/crystal/toy/")
    page = location.partition("?")[0]
    for ending in ("", ".json", ".md"):
        response = await datasette.client.get(page + ending)
        assert response.status_code == 200 and "a zebra" in response.text
        assert {"x", "set-cookie"}.isdisjoint(response.headers)
        assert "content-disposition" not in response.headers
    assert (await datasette.client.get(page + ".json")).json()["conversation"]["session_id"] == id_


# --------------------------------------------------------------------------- headers


@pytest.mark.asyncio
async def test_no_shared_cache_keeps_a_page(tmp_path: Path) -> None:
    fill(tmp_path / "good.db")
    datasette = await serve(tmp_path / "good.db")
    for page in PAGES:
        response = await datasette.client.get(page.format("good"))
        assert response.headers["cache-control"].startswith("private"), page
        assert response.headers["x-content-type-options"] == "nosniff", page
        assert response.headers["x-frame-options"] == "DENY", page
        # Datasette 1.0 adds a stricter one to results; the last one counts
        assert response.headers["referrer-policy"] in ("same-origin", "same-origin, no-referrer")
        policy = response.headers["content-security-policy"]
        assert "default-src 'self'" in policy or policy == "default-src 'none'; sandbox", page
        kind = response.headers["content-type"].partition(";")[0]
        if "image" in page:
            assert kind == "image/png"
        elif ".json" in page:
            assert kind == "application/json"
        elif ".md" in page:
            assert kind == "text/markdown"
        elif "open?" not in page:
            assert kind == "text/html", page


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "content",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<html><script>alert(1)</script>",
        b"GIF8<script>alert(1)</script>",
        b"\xef\xbb\xbf<svg onload=alert(1)>",
        b"%PDF-1.7",
        b"",
        b"RIFF<script>",
        b" \x89PNG\r\n\x1a\n",
    ],
)
async def test_documents_are_no_images(tmp_path: Path, content: bytes) -> None:
    names = ("image/png", "image/svg+xml", "text/html", "image/gif", "application/pdf")
    images = [Attachment("image", "x", name, content) for name in names]
    store_all(
        tmp_path / "good.db",
        conversation("s", [message("u1", "x", attachments=images), message("a1", "y")]),
    )
    datasette = await serve(tmp_path / "good.db")
    for number in range(1, len(names) + 1):
        response = await datasette.client.get(f"/good/-/crystal/-/image/{number}")
        assert response.status_code == 404, names[number - 1]


# --------------------------------------------------------------------------- huge texts

NEST = "> " * 100_000 + "x"
HUGE = {
    "10 MB": "x <b>word</b> " * 700_000,
    "a table of 50,000 rows": "|a|b|c|\n|-|-|-|\n" + "|x|y|z|\n" * 50_000,
    "100,000 quotes deep": NEST,
    "2,000 lists deep": "\n".join("  " * depth + "- x" for depth in range(2000)),
    "100,000 brackets": "[" * 100_000,
    "emphasis": "*a_" * 33_000,
    "a slow lexer": "```java\n" + "/*" * 4000 + "\n```",
    "escapes": "\x1b[31m" * 500_000,
    "returns": "\r" * 1_000_000,
}
#: Processor seconds of this process: a busy machine makes no page slow.
MOST_SECONDS = 6.0


@pytest.mark.asyncio
@pytest.mark.parametrize("name", list(HUGE))
async def test_huge_texts(tmp_path: Path, name: str) -> None:
    text = HUGE[name]
    deep = "[" * 200_000
    calls = [
        call("Bash", input=json.dumps({"command": text}), output=text),
        call("WebFetch", input=deep, output=deep),
        call("Grep", input='{"a":' * 50_000, output='{"a":' * 50_000),
    ]
    store_all(
        tmp_path / "good.db",
        conversation(
            "s",
            [
                message("u1", text),
                message("a1", text, thinking=text, tool_calls=calls),
                message("x1", text, kind="local-output"),
            ],
            title=text[:100_000],
            cwd="/d" * 50_000,
        ),
    )
    datasette = await serve(tmp_path / "good.db", settings={"sql_time_limit_ms": 30_000})
    exports = ("/toy/s.md", "/toy/s.json") if name == "10 MB" else ()
    for page in ("/toy/s", "/toy/s?q=word", "/search?q=word", *exports):
        began = time.process_time()
        response = await datasette.client.get(f"/good/-/crystal{page}")
        assert response.status_code == 200, page
        assert time.process_time() - began < MOST_SECONDS, page
        if not page.endswith((".md", ".json")):
            assert len(response.content) < 3_000_000, page
    for page in ("/messages.read", "/conversations.read"):
        began = time.process_time()
        assert (await datasette.client.get(f"/good{page}")).status_code == 200, page
        assert time.process_time() - began < MOST_SECONDS, page
