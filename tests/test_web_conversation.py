"""The conversation page: what it shows, to whom, and that nothing in it becomes markup."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import call, conversation, message, query, store_all
from datasette.app import Datasette
from test_web_render import PAYLOADS

from datasette_crystal import compat
from datasette_crystal.model import Attachment, FileEdit, Tokens
from datasette_crystal.web import blocks, render
from datasette_crystal.web.conversation import PAGE_SIZE, TABLES
from datasette_crystal.web.urls import anchor, conversation_url

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def at(minute: int) -> str:
    return f"2026-11-30T10:{minute:02d}:00.000Z"


def fill(path: Path) -> Path:
    """A conversation with what conversations have, its subagent, and a fork of it."""
    main = [
        message("u1", "Why does the **cart** lose items?", timestamp=at(0)),
        message(
            "a1",
            "The zebra pattern shows it:\n\n```python\nreturn cart[:-1]\n```",
            thinking="Perhaps the cache is stale.",
            timestamp=at(1),
            model="opus-5",
            tokens=Tokens(1_500, 20, 98_500, 0, 5),
            tool_calls=[
                call(
                    "Bash",
                    input='{"command":"pytest -x"}',
                    output="\x1b[31m1 failed\x1b[0m",
                    status="error",
                    exit_code=1,
                    duration_ms=4_000,
                ),
                call(
                    "Edit",
                    input='{"file_path":"/home/ana/shop/cart.py"}',
                    edits=[
                        FileEdit("/home/ana/shop/cart.py", "edit", 1, 1, "@@ -1 +1 @@\n-a\n+b\n")
                    ],
                ),
                call("TodoWrite", input='{"todos":[{"content":"Fix it","status":"completed"}]}'),
                call("Task", input='{"prompt":"Look"}', subagent_session_id="sub"),
            ],
        ),
        message("c1", "<system>be brief</system>", kind="context", role="user"),
        message(
            "u2",
            "Here is a picture.",
            timestamp=at(5),
            attachments=[
                Attachment("image", "shot.png", "image/png", PNG),
                Attachment("image", "drawing.svg", "image/svg+xml", SVG),
                Attachment("image", "liar.png", "image/png", SVG),
                Attachment("file", "notes.txt", "text/plain", b"notes"),
                Attachment("image", "lost.png", "image/png", None),
            ],
        ),
        message("a2", "A wrong turn.", timestamp=at(6), state="abandoned"),
        message("u3", "Taken back.", timestamp=at(7), state="rolled-back"),
        message("a3", "Done.", timestamp=at(8), model="opus-5"),
    ]
    sub = [
        message("t1", "Look", kind="task", role="user", timestamp=at(2), shared_uid=False),
        message("r1", "I looked.", role="assistant", kind="reply", timestamp=at(3)),
    ]
    copies = [
        message("u1", "Why does the **cart** lose items?", timestamp=at(0), inherited=True),
        message("f1", "Another way?", role="user", kind="prompt", timestamp=at(20)),
    ]
    store_all(
        path,
        conversation(
            "s/1 x.y", main, title="The cart", started_at=at(0), git_branch="fix/cart",
            model="opus-5", cost_usd=1.25, project_path="/home/ana/shop",
        ),
        conversation("sub", sub, kind="subagent", title="Looker", parent_session_id="s/1 x.y",
                     started_at=at(2)),
        conversation("fork", copies, kind="fork", title="The fork", parent_session_id="s/1 x.y",
                     started_at=at(20)),
    )  # fmt: skip
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "my archive.db")


async def serve(path: Path, settings: dict[str, Any] | None = None, **tables: Any) -> Datasette:
    written: dict[str, Any] = {"databases": {path.stem: {"tables": tables}}} if tables else {}
    more = {"config": json.loads(json.dumps(written))} if compat.NEW_LINE else {}
    datasette = Datasette([str(path)], metadata=written, settings=settings or {}, **more)
    await datasette.invoke_startup()
    return datasette


def address(datasette: Datasette, session_id: str = "s/1 x.y", **values: Any) -> str:
    database = next(name for name in datasette.databases if not name.startswith("_"))
    return conversation_url(datasette, database, "toy", session_id, **values)


async def html(datasette: Datasette, url: str, status: int = 200) -> str:
    response = await datasette.client.get(url)
    assert response.status_code == status
    return str(response.text)


def part(text: str, uid: str) -> str:
    """The element of a message."""
    found = re.search(rf'<article[^>]* id="{re.escape(anchor(uid))}".*?</article>', text, re.S)
    assert found, uid
    return found[0]


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", text)).strip()


# --------------------------------------------------------------------------- what it shows


@pytest.mark.asyncio
async def test_the_header(path: Path) -> None:
    datasette = await serve(path)
    assert address(datasette) == "/my+archive/-/crystal/toy/s~2F1+x~2Ey"
    text = await html(datasette, address(datasette))
    assert re.search(r"<h1>The cart</h1>", text)
    for shown in ("Toy", "shop", "fix/cart", "opus-5", "$1.25", "98,500", "8 min"):
        assert shown in text
    assert '<time datetime="2026-11-30T10:00:00.000Z" title="2026-11-30 10:00:00 UTC"' in text
    assert "1 file touched" in squeezed(text)
    assert "2 conversations came from it" in squeezed(text)
    assert '<html lang="en">' in text


@pytest.mark.asyncio
async def test_messages(path: Path) -> None:
    text = await html(await serve(path), "/my+archive/-/crystal/toy/s~2F1+x~2Ey")
    prompt = part(text, "u1")
    assert "Why does the <strong>cart</strong> lose items?" in prompt
    assert "data-prompt" in prompt and "c-person" in prompt
    reply = part(text, "a1")
    assert '<span class="h-k">return</span>' in reply
    assert re.search(r"<summary><span class=\"c-tool\">Thought</span>.*?cache is stale", reply)
    failed = re.search(r'<details class="c-call c-call-shell c-failed">.*?</details>', reply, re.S)
    assert failed
    assert "$ Shell command pytest -x 1 failed failed exit 1 4 s" in squeezed(failed[0])
    assert '<span class="a-fg-1">1 failed</span>' in failed[0]
    assert '<span class="d-del">-a' in reply and '<span class="d-add">+b' in reply
    assert '<li class="c-done">' in reply
    assert "Looker" in reply and 'data-href="/my+archive/-/crystal/toy/sub?fragment=1"' in reply
    context = part(text, "c1")
    assert "system: be brief" in squeezed(context)
    assert "&lt;system&gt;be brief&lt;/system&gt;" in context
    order = [
        text.index(f'id="{anchor(uid)}"') for uid in ("u1", "a1", "c1", "u2", "a2", "u3", "a3")
    ]
    assert order == sorted(order)


@pytest.mark.asyncio
async def test_states_are_marked(path: Path) -> None:
    datasette = await serve(path)
    text = await html(datasette, address(datasette))
    runs = re.findall(r'<details class="c-run c-run-([\w-]+)">\s*<summary>([^<]*)', text)
    assert runs == [
        ("abandoned", "1 message on a branch that the user left"),
        ("rolled-back", "1 message that the user took back"),
    ]
    fork = await html(datasette, address(datasette, "fork"))
    runs = re.findall(r'<details class="c-run c-run-([\w-]+)">\s*<summary>([^<]*)', fork)
    assert runs == [("inherited", "1 message taken over from “The cart”")]
    assert 'Fork of <a href="/my+archive/-/crystal/toy/s~2F1+x~2Ey">The cart</a>' in fork


@pytest.mark.asyncio
async def test_the_outline_lists_prompts(path: Path) -> None:
    datasette = await serve(path)
    text = await html(datasette, address(datasette))
    outline = re.search(r'<details class="c-outline".*?</details>', text, re.S)
    assert outline
    assert re.findall(r'href="#([^"]*)"', outline[0]) == ["m-u1", "m-u2", "m-u3"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "query, here",
    [("show=failed", []), ("show=edits", []), ("q=zebra", []), ("q=picture", ["m-u2"])],
)
async def test_the_outline_stays_whole_when_messages_are_left_out(
    path: Path, query: str, here: list[str]
) -> None:
    datasette = await serve(path)
    text = await html(datasette, f"{address(datasette)}?{query}")
    outline = re.search(r'<details class="c-outline".*?</details>', text, re.S)
    assert outline and "3 prompts" in outline[0]
    links = re.findall(r'href="([^"]*)"', outline[0])
    assert [link.rpartition("#")[2] for link in links] == ["m-u1", "m-u2", "m-u3"]
    # what is not on this page is on the page with all messages
    assert [link[1:] for link in links if link.startswith("#")] == here
    for link in links:
        assert link.startswith("#") or ("show=" not in link and "q=" not in link)


@pytest.mark.asyncio
async def test_neighbours(path: Path) -> None:
    datasette = await serve(path)
    text = await html(datasette, address(datasette))
    assert 'id="c-earlier"' not in text
    assert 'id="c-later" href="/my+archive/-/crystal/toy/fork"' in text  # not the subagent
    fork = await html(datasette, address(datasette, "fork"))
    assert 'id="c-earlier" href="/my+archive/-/crystal/toy/s~2F1+x~2Ey"' in fork
    assert 'id="c-later"' not in fork


@pytest.mark.asyncio
async def test_a_subagent_as_a_part_of_its_parent(path: Path) -> None:
    datasette = await serve(path)
    text = await html(datasette, f"{address(datasette, 'sub')}?fragment=1")
    assert "I looked." in text
    assert "<html" not in text and "<script" not in text
    assert ' id="' not in text  # its parent's page may have the same ids


@pytest.mark.asyncio
async def test_filters(path: Path) -> None:
    datasette = await serve(path)

    async def uids(parameters: str) -> list[str]:
        text = await html(datasette, f"{address(datasette)}?{parameters}")
        return re.findall(r'<article[^>]* id="m-(\w+)"', text)

    assert await uids("") == ["u1", "a1", "c1", "u2", "a2", "u3", "a3"]
    assert await uids("show=prompts") == ["u1", "u2", "u3"]
    assert await uids("show=talk") == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert await uids("show=edits") == ["a1"]
    assert await uids("show=failed") == ["a1"]
    assert await uids("show=nonsense") == ["u1", "a1", "c1", "u2", "a2", "u3", "a3"]
    assert await uids("q=zebra") == ["a1"]
    assert await uids("q=CACHE") == ["a1"]  # in a thought
    assert await uids("q=pytest") == ["a1"]  # in a command
    assert await uids("q=cart&show=prompts") == ["u1"]
    assert await uids("q=%25") == []
    assert await uids("q=nowhere") == []


@pytest.mark.asyncio
async def test_search_marks(path: Path) -> None:
    datasette = await serve(path)
    text = await html(datasette, f"{address(datasette)}?q=zebra")
    assert "The <mark>zebra</mark> pattern" in part(text, "a1")
    assert "1 message with “zebra”" in text
    text = await html(datasette, f"{address(datasette)}?q=1+failed")
    assert re.search(r'c-failed" open>.*?<mark>1 failed</mark>', part(text, "a1"), re.S)
    text = await html(datasette, f"{address(datasette)}?q=turn")
    assert '<details class="c-run c-run-abandoned" open>' in text


@pytest.mark.asyncio
async def test_permalinks(path: Path) -> None:
    datasette = await serve(path)
    link = address(datasette, uid="a2")
    assert link.endswith("?message=a2#m-a2")
    text = await html(datasette, link)
    assert "c-target" in part(text, "a2")
    assert '<details class="c-run c-run-abandoned" open>' in text
    assert 'href="/my+archive/-/crystal/toy/s~2F1+x~2Ey?message=a1#m-a1"' in part(text, "a1")
    text = await html(datasette, f"{address(datasette)}?message=unknown")
    assert "This conversation has no such message" in text


# --------------------------------------------------------------------------- long ones


def long_conversation(path: Path, count: int = 2 * PAGE_SIZE + 50) -> None:
    messages = [
        message(f"{'u' if number % 5 == 0 else 'a'}{number}", f"text {number}")
        for number in range(count)
    ]
    store_all(path, conversation("long", messages, title="Long", started_at=at(0)))


@pytest.mark.asyncio
async def test_pages(database: Path) -> None:
    long_conversation(database)
    datasette = await serve(database)

    async def shown(parameters: str) -> list[str]:
        text = await html(datasette, f"{address(datasette, 'long')}?{parameters}")
        return re.findall(r'<article[^>]* id="m-\w(\d+)"', text)

    assert await shown("") == [str(number) for number in range(PAGE_SIZE)]
    assert await shown("page=3") == [
        str(number) for number in range(2 * PAGE_SIZE, 2 * PAGE_SIZE + 50)
    ]
    assert await shown("page=99") == await shown("page=3")
    assert (
        await shown("page=0") == await shown("page=-1") == await shown("page=x") == await shown("")
    )
    found = await shown(f"message=a{PAGE_SIZE + 1}")
    assert found == await shown("page=2")
    text = await html(datasette, f"{address(datasette, 'long')}?page=2")
    assert re.search(r'<link rel="next" href="[^"]*\?page=3">', text)
    assert re.search(r'<link rel="prev" href="[^"]*/long">', text)
    # prompts on other pages are permalinks, which find their page
    links = re.findall(r'<li class="[^"]*"><a href="([^"]*)"', text)
    assert len(links) == 50
    assert links[0].endswith("/long?message=u0#m-u0")
    assert links[20] == f"#m-u{PAGE_SIZE}"
    # the filter stays when one turns the page
    text = await html(datasette, f"{address(datasette, 'long')}?show=talk&q=text")
    assert re.search(r'<link rel="next" href="[^"]*\?show=talk&amp;q=text&amp;page=2">', text)


@pytest.mark.asyncio
async def test_a_very_long_outline_is_cut(database: Path) -> None:
    messages = [message(f"u{number}", f"prompt {number}") for number in range(600)]
    store_all(database, conversation("long", messages, title="Long", started_at=at(0)))
    datasette = await serve(database)
    text = await html(datasette, f"{address(datasette, 'long')}?page=2")
    outline = re.search(r'<details class="c-outline".*?</details>', text, re.S)
    assert outline
    titles = re.findall(r"prompt (\d+)</a>", outline[0])
    assert titles == ["0", *map(str, range(100, 200)), "200", "300", "400", "500"]


@pytest.mark.asyncio
async def test_ten_thousand_messages(database: Path) -> None:
    """A page does not cost more because the conversation is long: only narrow rows are read for
    the other pages."""
    long_conversation(database, 10_000)
    datasette = await serve(database)
    url = f"{address(datasette, 'long')}?page=50"
    await html(datasette, url)
    started = time.process_time()
    await html(datasette, url)
    # 0.1 to 0.2 seconds on a laptop; the rest is room for a busy machine
    assert time.process_time() - started < 1


@pytest.mark.asyncio
async def test_long_texts_are_folded_and_cut(database: Path) -> None:
    output = "x" * 60_000 + "the end"
    store_all(
        database,
        conversation(
            "s",
            [
                message("u1", "line\n" * 2_000),
                message("a1", "y" * 150_000, tool_calls=[call(output=output)]),
            ],
        ),
    )
    datasette = await serve(database)
    text = await html(datasette, address(datasette, "s"))
    assert re.search(r'<details class="c-fold">\s*<summary>', part(text, "u1"))
    reply = part(text, "a1")
    assert len(reply) < 130_000
    assert re.search(r'<a href="/crystal/messages/\d+">All 150,000 characters</a>', reply)
    assert re.search(r'<a href="/crystal/tool_calls/\d+">All 60,007 characters</a>', reply)
    assert "the end</pre>" in reply


# --------------------------------------------------------------------------- siblings


@pytest.mark.asyncio
async def test_json(path: Path) -> None:
    datasette = await serve(path)
    response = await datasette.client.get(address(datasette, format=".json"))
    assert response.headers["content-type"].startswith("application/json")
    data = response.json()
    assert data["conversation"]["title"] == "The cart"
    assert data["conversation"]["session_id"] == "s/1 x.y"
    assert {child["session_id"] for child in data["conversation"]["children"]} == {"sub", "fork"}
    messages = data["messages"]
    assert [item["uid"] for item in messages] == ["u1", "a1", "c1", "u2", "a2", "u3", "a3"]
    assert messages[4]["state"] == "abandoned"
    calls = messages[1]["tool_calls"]
    assert [item["name"] for item in calls] == ["Bash", "Edit", "TodoWrite", "Task"]
    assert calls[0]["input"] == {"command": "pytest -x"}
    assert calls[0]["exit_code"] == 1
    assert calls[1]["edits"][0]["diff"] == "@@ -1 +1 @@\n-a\n+b\n"
    assert calls[3]["subagent_session_id"] == "sub"
    images = messages[3]["attachments"]
    assert [item["name"] for item in images] == [
        "shot.png",
        "drawing.svg",
        "liar.png",
        "notes.txt",
        "lost.png",
    ]
    assert images[0]["url"] and not images[1]["url"] and not images[4]["url"]
    fork = (await datasette.client.get(address(datasette, "fork", format=".json"))).json()
    assert fork["conversation"]["parent"]["session_id"] == "s/1 x.y"
    assert [item["origin"] for item in fork["messages"]] == ["copied", "own"]


@pytest.mark.asyncio
async def test_json_of_a_long_conversation(database: Path) -> None:
    long_conversation(database, 1_234)
    datasette = await serve(database)
    data = (await datasette.client.get(address(datasette, "long", format=".json"))).json()
    assert [item["content"] for item in data["messages"]] == [f"text {n}" for n in range(1_234)]


@pytest.mark.asyncio
async def test_markdown(path: Path) -> None:
    datasette = await serve(path)
    response = await datasette.client.get(address(datasette, format=".md"))
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"
    text = response.text
    assert text.startswith("# The cart\n\n- Tool: Toy\n- Project: /home/ana/shop\n")
    assert "## Prompt (2026-11-30T10:00:00.000Z)\n\nWhy does the **cart** lose items?\n" in text
    assert "*Thinking:*\n\n> Perhaps the cache is stale.\n" in text
    assert "**Bash: pytest -x** (error, exit code 1)\n\n```bash\npytest -x\n```\n" in text
    assert "```\n1 failed\n```" in text
    assert "```diff\n@@ -1 +1 @@\n-a\n+b\n```" in text
    assert "(2026-11-30T10:06:00.000Z, abandoned)\n\nA wrong turn." in text


@pytest.mark.asyncio
async def test_markdown_fences_hold_what_is_in_them(database: Path) -> None:
    output = "```\n# not a heading\n````\nx"
    store_all(database, conversation("s", [message("a1", "", tool_calls=[call(output=output)])]))
    datasette = await serve(database)
    text = (await datasette.client.get(address(datasette, "s", format=".md"))).text
    assert f"`````\n{output}\n`````" in text


# --------------------------------------------------------------------------- images


@pytest.mark.asyncio
async def test_images(path: Path) -> None:
    datasette = await serve(path)
    text = part(await html(datasette, address(datasette)), "u2")
    images = re.findall(r'<img src="([^"]*)" alt="([^"]*)"', text)
    ids = dict(query(path, "select name, id from attachments"))
    prefix = "/my+archive/-/crystal/-/image/"
    # by its media type the third is one; its first bytes say no
    assert images == [
        (f"{prefix}{ids['shot.png']}", "shot.png"),
        (f"{prefix}{ids['liar.png']}", "liar.png"),
    ]
    assert "lost.png" in text and "notes.txt" in text
    response = await datasette.client.get(f"{prefix}{ids['shot.png']}")
    assert response.status_code == 200
    assert response.content == PNG
    assert response.headers["content-type"] == "image/png"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == "default-src 'none'; sandbox"
    for name in ("drawing.svg", "liar.png", "notes.txt", "lost.png"):
        response = await datasette.client.get(f"{prefix}{ids[name]}")
        assert response.status_code == 404, name
    for id in ("0", "9999", "9" * 30):
        assert (await datasette.client.get(prefix + id)).status_code == 404


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("media_type", "start"),
    [
        ("image/png", PNG),
        ("image/jpeg", b"\xff\xd8\xff\xe0 jpeg"),
        ("image/gif", b"GIF89a gif"),
        ("image/webp", b"RIFF\x04\0\0\0WEBPVP8 "),
    ],
)
async def test_types_of_images(database: Path, media_type: str, start: bytes) -> None:
    # what the database calls it decides nothing
    named = [Attachment("image", "a", "image/png", start)]
    store_all(database, conversation("s", [message("u1", "x", attachments=named)]))
    datasette = await serve(database)
    response = await datasette.client.get("/crystal/-/crystal/-/image/1")
    assert response.headers["content-type"] == media_type


# --------------------------------------------------------------------------- permissions


@pytest.mark.asyncio
@pytest.mark.parametrize("table", TABLES)
async def test_denying_a_table_denies_the_page(path: Path, table: str) -> None:
    datasette = await serve(path, **{table: {"allow": {"id": "ana"}}})
    addresses = [address(datasette, format=ending) for ending in ("", ".json", ".md")]
    addresses += [f"{addresses[0]}?fragment=1", address(datasette, "nowhere")]
    for url in addresses:
        response = await datasette.client.get(url)
        assert response.status_code == 403
        assert "zebra" not in response.text and "The cart" not in response.text
        cookies = {"ds_actor": datasette.sign({"a": {"id": "ana"}}, "actor")}
        response = await datasette.client.get(url, cookies=cookies)
        assert response.status_code == (404 if "nowhere" in url else 200)


@pytest.mark.asyncio
async def test_denying_attachments_denies_images(path: Path) -> None:
    datasette = await serve(path, attachments={"allow": False})
    assert (await datasette.client.get("/my+archive/-/crystal/-/image/1")).status_code == 403


@pytest.mark.asyncio
async def test_what_is_not_there(path: Path, tmp_path: Path) -> None:
    import sqlite3

    sqlite3.connect(tmp_path / "other.db").execute("create table t (a)")
    datasette = Datasette([str(path), str(tmp_path / "other.db")])
    await datasette.invoke_startup()
    for url in (
        "/my+archive/-/crystal/toy/nowhere",
        "/my+archive/-/crystal/nowhere/sub",
        "/my+archive/-/crystal/toy/sub.html",
        "/other/-/crystal/toy/sub",
        "/nowhere/-/crystal/toy/sub",
        "/other/-/crystal/-/image/1",
    ):
        assert (await datasette.client.get(url)).status_code == 404, url


@pytest.mark.asyncio
async def test_headers_and_methods(path: Path) -> None:
    datasette = await serve(path)
    url = address(datasette)
    for ending in ("", ".json", ".md"):
        response = await datasette.client.get(address(datasette, format=ending))
        assert "object-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
    assert (await datasette.client.head(url)).status_code == 200
    assert (await datasette.client.head("/my+archive/-/crystal/-/image/1")).status_code == 200
    assert (await datasette.client.put(url)).status_code < 500
    for odd in (
        "page=1e9", "page=٣", "page=", "q=" + "x" * 5_000, "q=%00", "q=%ff", "q='\"<>", "show=%00",
        "message=%ff", "message=" + "x" * 5_000, "page=1&page=2", "q=[", "q=\\", "q=%25_", "&&&",
        "fragment=", "q=(?i)", "q=" + "%F0%9F%92%8E",
    ):  # fmt: skip
        assert (await datasette.client.get(f"{url}?{odd}")).status_code == 200, odd


@pytest.mark.asyncio
async def test_too_slow_is_said_plainly(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "datasette_crystal.web.conversation._SEARCH_SQL",
        "with recursive n(i) as (select 1 union all select i + 1 from n) "
        "select i from n where i < 0 and :id <> :like limit :limit",
    )
    datasette = await serve(path, settings={"sql_time_limit_ms": 200})
    response = await datasette.client.get(f"{address(datasette)}?q=a")
    assert response.status_code == 503
    assert "sql_time_limit_ms" in response.text


@pytest.mark.asyncio
async def test_base_url(path: Path) -> None:
    datasette = await serve(path, settings={"base_url": "/prefix/"})
    # the client adds the prefix by itself
    text = await html(datasette, address(datasette).removeprefix("/prefix"))
    main = text[text.index('class="c-nav"') :]
    links = re.findall(r'(?:href|src|action|data-href)="([^"]*)"', main[: main.index("<footer")])
    assert len(links) > 30
    wrong = [link for link in links if not link.startswith(("/prefix/", "#", "https://"))]
    assert wrong == []
    assert '<link rel="stylesheet" href="/prefix/-/static-plugins/datasette_crystal/' in text


@pytest.mark.asyncio
async def test_immutable(path: Path) -> None:
    datasette = Datasette(immutables=[str(path)])
    await datasette.invoke_startup()
    assert "The cart" in await html(datasette, address(datasette))


@pytest.mark.asyncio
async def test_without_threads(path: Path) -> None:
    """As in a browser (Datasette Lite)."""
    datasette = await serve(path, settings={"num_sql_threads": 0})
    assert "The cart" in await html(datasette, address(datasette))
    assert (await datasette.client.get(address(datasette, format=".json"))).status_code == 200


@pytest.mark.asyncio
async def test_a_resumed_session_leads_to_its_conversation(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("insert into resumed_sessions values ('toy', 'again/1', 1)")
    connection.commit()
    connection.close()
    datasette = await serve(path)
    first = query(path, "select session_id from conversations where id = 1")[0][0]
    for ending in ("", ".json", ".md"):
        response = await datasette.client.get(
            address(datasette, "again/1", format=ending) + "?message=a1"
        )
        assert response.status_code == 302
        assert (
            response.headers["location"] == address(datasette, first, format=ending) + "?message=a1"
        )
    datasette = await serve(path, resumed_sessions={"allow": False})
    response = await datasette.client.get(address(datasette, "again/1"))
    assert response.status_code == 404


# --------------------------------------------------------------------------- hostile content


class Page(HTMLParser):
    """Everything on a page that could do something."""

    ELEMENTS = frozenset({
        "html", "head", "title", "link", "meta", "body", "div", "nav", "ul", "ol", "li", "a", "main",
        "p", "h1", "h3", "h4", "h5", "h6", "span", "time", "dl", "dt", "dd", "details", "summary",
        "form", "label", "input", "button", "article", "pre", "code", "em", "strong", "s", "br",
        "hr", "table", "thead", "tbody", "tr", "th", "td", "blockquote", "img", "mark", "b",
        "section", "header", "footer", "script", "svg", "path", "kbd", "navigation-search",
    })  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.scripts = 0
        self.in_main = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "main":
            self.in_main = True
        if tag not in self.ELEMENTS:
            self.bad.append(tag)
        if self.in_main and tag in ("script", "svg", "meta", "link", "header", "footer"):
            self.bad.append(f"{tag} in main")
        for name, value in attrs:
            value = value or ""
            if name.startswith("on") or name in ("style", "srcdoc", "srcset", "formaction"):
                self.bad.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "data-href") and not re.match(
                r"(?i)/(?!/)|https?://|mailto:|#", value
            ):
                self.bad.append(f"{tag} {name}={value}")
            if name == "src" and not value.startswith("/"):
                self.bad.append(f"{tag} {name}={value}")
            if name == "id" and not re.fullmatch(r"[\w~+.-]*", value):
                self.bad.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "main":
            self.in_main = False


@pytest.mark.asyncio
async def test_payloads_in_every_field(database: Path) -> None:
    """Each payload in every text that a source can give, a page of ours for each of them."""
    payloads = [payload for payload in PAYLOADS if "\ud800" not in payload]
    made = []
    for number, payload in enumerate(payloads):
        json_payload = json.dumps({payload: payload, "command": payload, "file_path": payload})
        replies = [
            message(
                f"a{number}-{payload}",
                payload,
                thinking=payload,
                model=payload,
                tool_calls=[
                    call(name, title=payload, input=json_payload, output=payload, status=status,
                         call_id=payload, edits=edits)
                    for name, status, edits in (
                        ("Bash", "error", []),
                        (payload, payload, []),
                        ("Edit", "ok", [FileEdit(payload, payload, 1, 1, payload)]),
                        ("WebFetch", "ok", []),
                    )
                ],
                attachments=[Attachment(payload, payload, payload, payload.encode())],
            )
        ]  # fmt: skip
        kinds = ("prompt", "command", "shell", "task", "context", "summary", "notification",
                 "interruption", "error", "local-output", "hook", "answer", payload)  # fmt: skip
        others = [
            message(f"x{number}-{place}-{payload}", payload, kind=kind, role="user")
            for place, kind in enumerate(kinds)
        ]
        made.append(
            conversation(
                f"{number}-{payload}",
                replies + others,
                title=payload,
                git_branch=payload,
                model=payload,
                tool_version=payload,
                cwd=payload,
                project_path=payload,
                kind="fork" if number % 2 else "main",
                parent_session_id=f"{number - 1}-{payloads[number - 1]}" if number % 2 else None,
                started_at=at(number % 60),
            )
        )
    store_all(database, *made)
    datasette = await serve(database)
    for item, payload in zip(made, payloads, strict=True):
        for parameters in ("", "?q=script", "?fragment=1"):
            url = address(datasette, item.session_id) + parameters
            text = await html(datasette, url)
            page = Page()
            page.feed(text)
            page.close()
            assert page.bad == [], (payload, url)
        data = await datasette.client.get(address(datasette, item.session_id, format=".json"))
        assert data.headers["content-type"].startswith("application/json")
        assert data.json()["conversation"]["title"]
        text = (await datasette.client.get(address(datasette, item.session_id, format=".md"))).text
        assert text.startswith("# ")


@pytest.mark.asyncio
async def test_payloads_in_the_query_string(path: Path) -> None:
    datasette = await serve(path)
    from urllib.parse import urlencode

    for payload in PAYLOADS:
        if "\ud800" in payload:
            continue
        for name in ("q", "show", "page", "message"):
            text = await html(datasette, f"{address(datasette)}?{urlencode({name: payload})}")
            page = Page()
            page.feed(text)
            assert page.bad == [], (name, payload)


@pytest.mark.asyncio
async def test_equal_uids_give_one_id(database: Path) -> None:
    import sqlite3

    store_all(database, conversation("s", [message("u1", "a"), message("a1", "b")]))
    connection = sqlite3.connect(database)
    connection.execute("update conversation_messages set uid = 'same'")
    connection.commit()
    connection.close()
    text = await html(await serve(database), "/crystal/-/crystal/toy/s")
    assert text.count('id="m-same"') == 1


@pytest.mark.asyncio
async def test_a_slow_page_becomes_plain(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasette_crystal.web.conversation.PAGE_SECONDS", 0)
    render._cache.clear()
    datasette = await serve(path)
    text = part(await html(datasette, address(datasette)), "u1")
    assert '<pre class="c-plain">Why does the **cart** lose items?</pre>' in text


def test_every_kind_has_a_family() -> None:
    from datasette_crystal import model

    kinds = getattr(model, "KINDS", None) or (
        "prompt", "command", "shell", "answer", "task", "reply", "partial", "context", "summary",
        "notification", "interruption", "error", "local-output", "hook",
    )  # fmt: skip
    families = {kind: blocks.family_of_kind(kind) for kind in kinds}
    assert families["task"] == "agent"
    assert [kind for kind, family in families.items() if family == "model"] == ["reply", "partial"]


# --------------------------------------------------------------------------- what it cost


def _fact(text: str, label: str) -> tuple[str, str] | None:
    """The figure of this label, and the note below it."""
    found = re.search(
        rf"<dt>{label}</dt><dd[^>]*>([^<]*)</dd>(?:<dd class=\"c-note\">([^<]*)</dd>)?", text
    )
    return (found[1], found[2] or "") if found else None


@pytest.mark.asyncio
async def test_list_price_where_no_cost_is_recorded(tmp_path: Path) -> None:
    """Each model at its own price, said to be no bill; models without one are named."""
    # by the lists of 2026: 3 dollars for each of Sonnet, 10 for Codex
    sonnet = [
        message(f"a{i}", "x", model="claude-sonnet-4-5", tokens=Tokens(10**6, 0, 0, 0))
        for i in range(3)
    ]
    codex = message("b", "x", model="gpt-5-codex", tokens=Tokens(0, 10**6, 0, 0))
    odd = [message(f"c{i}", "x", model="nobody<knows", tokens=Tokens(5, 5, 0, 0)) for i in range(2)]
    path = tmp_path / "my archive.db"
    store_all(
        path,
        conversation("two", [sonnet[0], codex], model="gpt-5-codex", started_at=at(0)),
        conversation("odd", [sonnet[1], odd[0]], model="nobody<knows", started_at=at(1)),
        conversation("only", [odd[1]], model="nobody<knows", started_at=at(2)),
        conversation(
            "paid", [sonnet[2]], model="claude-sonnet-4-5", cost_usd=1.5, started_at=at(3)
        ),
        conversation("none", [message("none", "x")], started_at=at(4)),
    )
    datasette = await serve(path)

    async def page(name: str) -> str:
        return str((await datasette.client.get(f"/my+archive/-/crystal/toy/{name}")).text)

    label = "API list price, not your bill"
    without = "no price for nobody&lt;knows"
    assert _fact(await page("two"), "List price") == ("$13.00", label)
    assert _fact(await page("odd"), "List price") == ("$3.00", f"{label}; {without}")
    assert _fact(await page("only"), "List price") == ("–", without)
    paid = await page("paid")
    assert _fact(paid, "Cost") == ("$1.50", "") and _fact(paid, "List price") is None
    assert _fact(await page("none"), "List price") is None
