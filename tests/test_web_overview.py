"""The overview: its figures add up, its links lead to the rows behind them, and nothing leaks."""

from __future__ import annotations

import html as html_module
import itertools
import json
import re
import socket
import sqlite3
from dataclasses import replace
from datetime import date, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import call, conversation, message, store_all
from datasette.app import Datasette

from datasette_crystal import compat
from datasette_crystal.model import FileEdit, Tokens
from datasette_crystal.usage import local_zone
from datasette_crystal.web import charts, cost, overview

ROOT_ONLY = {"id": "root"}
PAGE = "/my+archive/-/crystal"


async def serve(
    *paths: Path, settings: Any = None, immutable: bool = False, **databases: Any
) -> Any:
    written = {"databases": json.loads(json.dumps(databases))}
    files = {"immutables" if immutable else "files": [str(path) for path in paths]}
    more = {"config": json.loads(json.dumps(written))} if compat.NEW_LINE else {}
    datasette = Datasette(**files, metadata=written, settings=settings or {}, **more)
    await datasette.invoke_startup()
    return datasette


async def text_of(datasette: Any, url: str) -> str:
    response = await datasette.client.get(url)
    assert response.status_code == 200, response.text
    return str(response.text)


def figures(text: str) -> dict[str, str]:
    """What the cards say: label → number."""
    return {
        label: html_module.unescape(value)
        for label, value in re.findall(
            r'class="c-o-label">([^<]*)</span>\s*<span class="c-o-value"[^>]*>([^<]*)<', text
        )
    }


def card(text: str, label: str) -> str:
    """Where the card of this label leads."""
    found = re.search(rf'<a href="([^"]*)">\s*<span class="c-o-label">{label}<', text)
    assert found
    return html_module.unescape(found[1])


def links(text: str) -> set[str]:
    return {html_module.unescape(href) for href in re.findall(r'<a [^>]*?href="([^"]*)"', text)}


async def count(datasette: Any, url: str) -> int:
    """How many rows a table page shows."""
    path, _, query = url.partition("?")
    found = (await datasette.client.get(f"{path}.json?{query}&_shape=array&_size=max")).json()
    assert isinstance(found, list), found
    return len(found)


def noon(day: int, minute: int = 0) -> str:
    return f"2026-11-{day:02d}T12:{minute:02d}:00.000Z"


SONNET, CODEX = "claude-sonnet-4-5-20250929", "gpt-5-codex"


def fill(path: Path) -> Path:
    """Two tools, two projects, three days; one cost that the tool recorded, one model without a
    price, a subagent, and a history of prompts only."""
    million = 1_000_000
    edits = [FileEdit("/home/ana/shop/cart.py", "edit", 5, 2, "+a")]
    store_all(
        path,
        conversation(
            "s1",
            [
                message("u1", "Why?", timestamp=noon(10)),
                message(
                    "a1",
                    "Because.",
                    timestamp=noon(10, 1),
                    model=SONNET,
                    tokens=Tokens(million, million, million, million),
                    tool_calls=[
                        call("Bash", status="error", started_at=noon(10, 1)),
                        call("Bash", started_at=noon(10, 1)),
                        call("Edit", started_at=noon(10, 2), edits=edits),
                    ],
                ),
                message("u2", "/review", kind="command", timestamp=noon(12)),
                message(
                    "a2", "Fine.", timestamp=noon(12, 1), model="riddle-1", tokens=Tokens(7, 5)
                ),
            ],
            title="Cart bug",
            model=SONNET,
            source="claude-code",
            started_at=noon(10),
        ),
        conversation(
            "s2",
            [
                message("u3", "Paid for", timestamp=noon(12)),
                message(
                    "a3",
                    "Yes",
                    timestamp=noon(12, 1),
                    model=SONNET,
                    tokens=Tokens(million, million, 0, 0),
                ),
            ],
            title="Recorded",
            model=SONNET,
            source="claude-code",
            cost_usd=2.5,
            started_at=noon(12),
        ),
        conversation(
            "sub",
            [
                message("t1", "Look", role="user", kind="task", timestamp=noon(10, 1)),
                message("a4", "Found", timestamp=noon(10, 2), model=SONNET),
            ],
            title="A subagent",
            kind="subagent",
            model=SONNET,
            source="claude-code",
            parent_session_id="s1",
            started_at=noon(10, 1),
        ),
        conversation(
            "s3",
            [
                message("u5", "Ask codex", timestamp=noon(20)),
                message(
                    "a5",
                    "Here",
                    timestamp=noon(20, 1),
                    model=CODEX,
                    tokens=Tokens(million, million, million, None),
                    tool_calls=[call("shell", started_at=noon(20, 1))],
                ),
            ],
            title="Docs",
            model=CODEX,
            source="codex",
            cwd="/home/ana/docs",
            started_at=noon(20),
        ),
        conversation(
            "h1",
            [message("u9", "only a prompt", timestamp=noon(12))],
            title="History",
            kind="prompt-history",
            source="claude-code",
            started_at=noon(12),
        ),
    )
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("data") / "my archive.db")


# --------------------------------------------------------------------------- figures


@pytest.mark.asyncio
async def test_figures(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE)
    shown = figures(text)
    # Sonnet 4.5: 3 + 15 + 0.30 + 3.75 dollars for a million tokens of each kind; Codex, at the price
    # of GPT-5: 1.25 + 10 + 0.125; and 2.50 that the tool recorded, whose tokens count no second time
    assert shown == {
        "Conversations": "4",
        "Prompts": "4",
        "Replies": "5",
        "Tool calls": "4",
        "Tokens": "9 M",
        "Cost": "$35.92",
    }
    assert "1 of them subagents" in text
    assert "API list price, not your bill" in text and "$2.50 recorded" in text
    assert "riddle-1</a> (12 tokens)" in text  # no price is guessed
    assert "1 more conversation</a>" in text  # the history
    assert "Days are those of <b>UTC</b>" in text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "query, expected",
    [
        ("source=codex", ("1", "1", "1", "1", "3 M", "$11.38")),
        ("from=2026-11-12&to=2026-11-12", ("1", "2", "2", "0", "2 M", "$2.50")),
        ("to=2026-11-11", ("2", "1", "2", "3", "4 M", "$22.05")),
        ("from=2026-11-13", ("1", "1", "1", "1", "3 M", "$11.38")),
        # backwards is what was meant
        ("from=2026-11-12&to=2026-11-10", ("3", "3", "4", "3", "6 M", "$24.55")),
        # counted from the last day on which anything happened
        ("days=7", ("1", "1", "1", "1", "3 M", "$11.38")),
        ("days=11", ("4", "4", "5", "4", "9 M", "$35.92")),
        # what cannot be understood is left out
        ("from=yesterday", ("4", "4", "5", "4", "9 M", "$35.92")),
    ],
)
async def test_filters(path: Path, query: str, expected: tuple[str, ...]) -> None:
    datasette = await serve(path)
    assert tuple(figures(await text_of(datasette, f"{PAGE}?{query}")).values()) == expected


@pytest.mark.asyncio
async def test_project_filter(path: Path) -> None:
    datasette = await serve(path)
    connection = sqlite3.connect(path)
    [(project,)] = connection.execute("select id from projects where name = 'docs'").fetchall()
    connection.close()
    text = await text_of(datasette, f"{PAGE}?project={project}")
    assert figures(text)["Tokens"] == "3 M"
    assert "Docs</a>" in text and "Cart bug" not in text and "cart.py" not in text
    assert f'<option value="{project}" selected>docs</option>' in text


QUERIES = ["", "?source=claude-code", "?from=2026-11-10&to=2026-11-12", "?days=1", "?project=1"]


@pytest.mark.asyncio
@pytest.mark.parametrize("query", QUERIES)
async def test_figures_lead_to_their_rows(path: Path, query: str) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE + query)
    shown = figures(text)
    for label in ("Conversations", "Prompts", "Replies", "Tool calls"):
        assert await count(datasette, card(text, label)) == int(shown[label]), label


def labelled(text: str, label: str) -> str:
    """Where the link of these words leads."""
    found = re.search(rf'href="([^"]*)">{label}</a>', text)
    assert found
    return html_module.unescape(found[1])


@pytest.mark.asyncio
@pytest.mark.parametrize("query", QUERIES[1:])
async def test_all_tools_and_files_are_those_of_the_filters(path: Path, query: str) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE + query)
    tools = labelled(text, "All tools")
    assert "_facet=name" in tools
    assert await count(datasette, tools) == int(figures(text)["Tool calls"])
    part = text[text.index('id="o-files"') : text.index('id="o-projects"')]
    edits = sum(map(int, re.findall(r"</th>\s*<td>(\d+)</td>", part)))
    files = labelled(text, "All files")
    assert "_facet=path" in files
    assert await count(datasette, files) == edits


@pytest.mark.asyncio
async def test_all_tools_and_files_without_filters(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE)
    assert "/tool_stats?" in labelled(text, "All tools")
    assert labelled(text, "All files").endswith("/most_edited_files")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "query", [*QUERIES, "?by=project", "?by=model&source=codex&from=2020-01-01"]
)
@pytest.mark.parametrize("prefix", ["/", "/somewhere/"])
async def test_links_work(path: Path, query: str, prefix: str) -> None:
    datasette = await serve(path, settings={"base_url": prefix})
    text = await text_of(datasette, PAGE + query)  # the client puts the prefix before it
    found = links(text)
    assert len(found) >= 30
    for href in found:
        if href.startswith("https://datasette.io"):
            continue  # Datasette's own footer
        assert href.startswith(prefix), href
        if "/-/crystal/" in href:
            continue  # pages that have tests of their own
        address = "/" + href.removeprefix(prefix)
        response = await datasette.client.get(address, follow_redirects=True)
        assert response.status_code == 200, href
        assert "SQL Interrupted" not in response.text and "no such column" not in response.text, (
            href
        )


@pytest.mark.asyncio
async def test_lists(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE)
    newest = re.findall(r'class="c-o-main" href="([^"]*)">([^<]*)<', text)
    # main conversations, newest first; subagents stand under their parents
    assert newest == [
        (f"{PAGE}/codex/s3", "Docs"),
        (f"{PAGE}/claude-code/s2", "Recorded"),
        (f"{PAGE}/claude-code/s1", "Cart bug"),
    ]
    tools = text[text.index('id="o-tools"') : text.index('id="o-files"')]
    assert re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', tools) == ["Bash", "Edit", "shell"]
    assert "50.0 %" in tools
    files = text[text.index('id="o-files"') : text.index('id="o-projects"')]
    assert "cart.py" in files and "+5" in files and "−2" in files


@pytest.mark.asyncio
async def test_days_link_to_their_messages(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE)
    found = re.search(
        r'<a href="([^"]*)" tabindex="-1"><rect class="c-h\d"[^>]*><title>10 Nov 2026: 1 prompt, '
        r"2 replies, 3 tool calls</title>",
        text,
    )
    assert found
    # two of the conversation, two of its subagent
    assert await count(datasette, html_module.unescape(found[1])) == 4
    # the same is in the table, for those who see no picture
    assert re.search(r">10 Nov 2026</a></th><td>1</td><td>2</td><td>3</td>", text)


@pytest.mark.asyncio
async def test_charts_by_each_dimension(path: Path) -> None:
    datasette = await serve(path)
    for by, names in {
        "source": ["Claude-Code", "Codex"],
        "project": ["shop", "docs"],
        "model": [SONNET, CODEX, "riddle-1"],
    }.items():
        text = await text_of(datasette, f"{PAGE}?by={by}")
        legend = text[text.index('aria-label="Legend"') : text.index('<figure class="c-card')]
        assert [re.sub("<[^>]*>", "", part).strip() for part in legend.split("</svg>")[1:]] == names
        assert text.count("<figure") == 4
    for by in ("colour", "", "source'"):
        assert "Over time" in await text_of(datasette, f"{PAGE}?by={by}")


# --------------------------------------------------------------------------- small databases


@pytest.mark.asyncio
async def test_an_empty_database(tmp_path: Path) -> None:
    store_all(tmp_path / "empty.db")
    datasette = await serve(tmp_path / "empty.db")
    for query in ("", "?days=7", "?from=2026-01-01&source=x&project=3"):
        text = await text_of(datasette, f"/empty/-/crystal{query}")
        assert "Nothing here yet" in text and "datasette crystal import empty.db" in text


@pytest.mark.asyncio
async def test_a_selection_of_nothing(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, f"{PAGE}?from=2019-01-01&to=2019-02-01")
    assert "Nothing in this selection" in text and "Show everything" in text


@pytest.mark.asyncio
async def test_no_dates_and_wrong_dates(tmp_path: Path) -> None:
    store_all(
        tmp_path / "crystal.db",
        conversation("s1", [message("u1", "a"), message("a1", "b")]),
        conversation("s2", [message("u2", "c", timestamp="1970-01-01T12:00:00.000Z")]),
        conversation("s3", [message("u3", "d", timestamp="9999-12-31T12:00:00.000Z")]),
    )
    datasette = await serve(tmp_path / "crystal.db")
    text = await text_of(datasette, "/crystal/-/crystal")
    assert figures(text)["Prompts"] == "3"
    assert "4 prompts and replies have no date that can be right" in text
    for query in ("?days=30", "?from=0001-01-01&to=9999-12-31", "?by=model&to=1970-01-01"):
        await text_of(datasette, f"/crystal/-/crystal{query}")


@pytest.mark.asyncio
async def test_a_single_day(tmp_path: Path) -> None:
    store_all(tmp_path / "crystal.db", conversation("s1", [message("u1", "a", timestamp=noon(20))]))
    datasette = await serve(tmp_path / "crystal.db")
    text = await text_of(datasette, "/crystal/-/crystal")
    assert "20 Nov 2026 ·" in text
    assert '1 <span class="c-quiet">of 365</span>' in text
    # a bar among fourteen days, not a wall
    assert 'viewBox="0 0 140 1000"' in text


# --------------------------------------------------------------------------- robustness

ODD = [
    "from=", "from=2026-13-01", "from=2026-02-30", "from=20261110", "to=%00", "to=9999-99-99",
    "from=0001-01-01", "to=0001-01-01", "from=9999-12-31", "to=9999-12-31", "days=0", "days=-1",
    "days=1e9", "days=99999999999999999999", "days=%D9%A3", "project=-1", "project=abc",
    "project=9223372036854775807", "project=99999999999999999999", "project=1%3Bdrop",
    "source=%27%20or%201%3D1--", "source=%00", "source=%ED%A0%80", "source=" + "x" * 3000,
    "by=%00", "by=project&by=model", "from=2026-11-10&from=x", "unknown=1", "_where=1", "%F0%9F=1",
]  # fmt: skip


@pytest.mark.asyncio
@pytest.mark.parametrize("query", ODD)
async def test_odd_parameters(path: Path, query: str) -> None:
    datasette = await serve(path)
    assert (await datasette.client.get(f"{PAGE}?{query}")).status_code == 200


@pytest.mark.asyncio
async def test_methods_and_other_databases(path: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("create table conversations (id)")
    connection.close()
    datasette = await serve(path, tmp_path / "other.db")
    assert (await datasette.client.get("/other/-/crystal")).status_code == 404
    assert (await datasette.client.get("/nothing/-/crystal")).status_code == 404
    head = await datasette.client.request("HEAD", PAGE)
    assert head.status_code == 200
    response = await datasette.client.get(PAGE)
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in response.headers["content-security-policy"]
    immutable = await serve(path, immutable=True)
    assert figures(await text_of(immutable, PAGE))["Prompts"] == "4"


HOSTILE = "\"><img src=x onerror=alert(1)><svg/onload=alert(2)>' {{ 7*7 }} javascript:alert(3)"


@pytest.mark.asyncio
async def test_hostile_words(tmp_path: Path) -> None:
    def hostile(name: str) -> str:
        return f"{name}{HOSTILE}"

    store_all(
        tmp_path / "crystal.db",
        *(
            conversation(
                hostile(f"session{number}"),
                [
                    message(f"u{number}", hostile("prompt"), timestamp=noon(number)),
                    message(
                        f"a{number}",
                        hostile("reply"),
                        timestamp=noon(number, 1),
                        model=hostile("model"),
                        tokens=Tokens(10, 10),
                        tool_calls=[
                            call(
                                hostile("tool"),
                                status="error",
                                started_at=noon(number, 1),
                                edits=[FileEdit(hostile("/path/"), "edit", 1, 1, "")],
                            )
                        ],
                    ),
                ],
                title=hostile("title"),
                model=hostile("model"),
                source=hostile("source"),
                cwd=hostile(f"/home/{number}/"),
                started_at=noon(number),
            )
            for number in range(1, 9)
        ),
    )
    datasette = await serve(tmp_path / "crystal.db")
    for query in ("", "?by=project", "?by=model", "?days=7"):
        text = await text_of(datasette, f"/crystal/-/crystal{query}")
        assert (
            "<img" not in text and "<svg/" not in text and "49" not in re.findall(r"\b49\b", text)
        )
        for word in ("title", "tool", "source"):
            assert f"{word}&#34;&gt;&lt;img src=x" in text, word
        assert all(not href.strip().lower().startswith("javascript") for href in links(text))
        # nothing of ours is inline, and no attribute was broken out of
        for tag, attributes in elements(text[text.index("<main") : text.index("</main>")]):
            assert tag not in ("script", "style", "img", "iframe"), tag
            assert not [name for name in attributes if name.startswith("on") or name == "style"]


def elements(text: str) -> list[tuple[str, list[str]]]:
    """Every element as a browser reads it: its name, and the names of its attributes."""
    found: list[tuple[str, list[str]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, [name for name, _ in attrs]))

    Reader().feed(text)
    assert len(found) > 100
    return found


@pytest.mark.asyncio
async def test_endless_names(tmp_path: Path) -> None:
    store_all(
        tmp_path / "crystal.db",
        conversation(
            "s" * 2000,
            [
                message("u1", "a", timestamp=noon(1)),
                message(
                    "a1",
                    "b",
                    timestamp=noon(1),
                    model="m" * 300_000,
                    tokens=Tokens(1, 1),
                    tool_calls=[
                        call("t" * 300_000, edits=[FileEdit("/f" * 150_000, "edit", 1, 1, "")])
                    ],
                ),
            ],
            title="x" * 5000,
            cwd="/p" * 150_000,
        ),
    )
    datasette = await serve(tmp_path / "crystal.db")
    for query in ("", "?by=model", "?by=project"):
        assert len(await text_of(datasette, f"/crystal/-/crystal{query}")) < 150_000


# --------------------------------------------------------------------------- permissions


def denying(table: str) -> dict[str, Any]:
    return {"my archive": {"tables": {table: {"allow": ROOT_ONLY}}}}


@pytest.mark.asyncio
@pytest.mark.parametrize("table", overview.TABLES)
async def test_needed_tables_are_asked_for(path: Path, table: str) -> None:
    datasette = await serve(path, **denying(table))
    response = await datasette.client.get(PAGE)
    assert response.status_code == 403
    assert "Cart bug" not in response.text and "shop" not in response.text


@pytest.mark.asyncio
@pytest.mark.parametrize("table", ["file_edits", "file_history"])
async def test_without_files(path: Path, table: str) -> None:
    text = await text_of(await serve(path, **denying(table)), PAGE)
    assert "cart.py" not in text and "Most edited files" not in text and "Cart bug" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("table", ["import_log", "source_files", "import_health"])
async def test_without_import_health(path: Path, table: str) -> None:
    text = await text_of(await serve(path, **denying(table)), PAGE)
    assert "Import health" not in text and "Cart bug" in text


@pytest.mark.asyncio
async def test_without_import_runs(path: Path) -> None:
    text = await text_of(await serve(path, **denying("import_runs")), PAGE)
    assert "last import" not in text and "the time zone of the machine that imported" in text
    assert "<b>UTC</b>" not in text


@pytest.mark.asyncio
async def test_database_and_instance(path: Path) -> None:
    datasette = await serve(path, **{"my archive": {"allow": ROOT_ONLY}})
    assert (await datasette.client.get(PAGE)).status_code == 403


@pytest.mark.asyncio
@pytest.mark.parametrize("query", QUERIES)
async def test_links_for_those_who_may_not_write_sql(path: Path, query: str) -> None:
    datasette = await serve(path, **{"my archive": {"allow_sql": ROOT_ONLY}})
    text = await text_of(datasette, PAGE + query)
    for href in links(text):
        if href.startswith("https://datasette.io") or "/-/crystal/" in href:
            continue
        response = await datasette.client.get(href, follow_redirects=True)
        assert response.status_code == 200, href


# --------------------------------------------------------------------------- cost


@pytest.mark.parametrize(
    "model, price",
    [
        ("claude-sonnet-4-5-20250929", (3, 15, 0.3, 3.75)),
        ("claude-sonnet-4-5-20250929[1m]", (3, 15, 0.3, 3.75)),
        ("claude-sonnet-4-5@20250929", (3, 15, 0.3, 3.75)),
        ("claude-opus-4-1-20250805", (15, 75, 1.5, 18.75)),
        ("anthropic/claude-sonnet-4", (3, 15, 0.3, 3.75)),
        ("copilot/claude-sonnet-4.5", (3, 15, 0.3, 3.75)),
        ("claude-4.5-sonnet-thinking", (3, 15, 0.3, 3.75)),  # as Cursor writes it
        ("gpt-5-codex", (1.25, 10, 0.125, 1.25)),  # no price for writing: input as any other
        ("gpt-5-codex-high", (1.25, 10, 0.125, 1.25)),
        ("copilot/gpt-4.1", (2, 8, 0.5, 2)),
        ("GPT-5", (1.25, 10, 0.125, 1.25)),
    ],
)
def test_list_prices(model: str, price: tuple[float, ...]) -> None:
    """As the makers published them at the end of 2025."""
    assert cost.rates(model, "2025-11-30") == cost.Rates(*price)


@pytest.mark.parametrize(
    "model",
    [
        None,
        "",
        "auto",
        "copilot/auto",
        "default",
        "<synthetic>",
        "somebody/gpt-5",
        "gpt-5-fast",
        "m" * 10**6,
    ],
)
def test_no_price_is_guessed(model: str | None) -> None:
    assert cost.rates(model, "2025-11-30") is None


def test_prices_of_a_day() -> None:
    # OpenAI lowered the price of o3 on 10 June 2025
    before, after = cost.rates("o3", "2025-06-01"), cost.rates("o3", "2025-06-20")
    assert before and after and (before.input, after.input) == (10, 2)
    assert cost.rates("o3", "undated") is not None


def test_price() -> None:
    assert cost.Rates(3, 15, 0.3, 3.75).price(1000, 100, 10_000, 2000) == pytest.approx(
        0.003 + 0.0015 + 0.003 + 0.0075
    )


@pytest.mark.parametrize(
    "arguments, price",
    [
        # Sonnet 4.5: 3, 15, 0.30 and 3.75 dollars for a million tokens of each kind
        (("claude-sonnet-4-5", 10**6, 10**6, 10**6, 10**6, "2025-11-30T10:00:00.000Z"), 22.05),
        (("claude-sonnet-4-5", 10**6, None, None, None, None), 3.0),
        (("claude-sonnet-4-5", None, None, None, None, "2025-11-30"), None),
        (("a-model-of-tomorrow", 10**6, 10**6, 0, 0, "2025-11-30"), None),
        ((None, 10**6, 10**6, 0, 0, "2025-11-30"), None),
        ((b"gpt-5", "many", 1.5, b"x", 2**62, 7), None),
        (("gpt-5", 2**62, 0, 0, 0, "2025-11-30"), None),
    ],
)
def test_list_price_of_tokens(arguments: tuple[Any, ...], price: float | None) -> None:
    assert cost.list_price_usd(*arguments) == (None if price is None else pytest.approx(price))


@pytest.mark.asyncio
async def test_which_conversations_cost_most(tmp_path: Path) -> None:
    """A recorded cost counts as it is, else the list price; what has no price comes last."""
    rich = message("a1", "x", model=CODEX, tokens=Tokens(10**6, 10**6, 0, 0))  # 1.25 + 10
    poor = message("poor", "x", model=SONNET, tokens=Tokens(10**6, 0, 0, 0))  # 3
    told = message("told", "x", model=SONNET, tokens=Tokens(10**6, 10**6, 0, 0))
    odd = message("odd", "x", model="nobody-knows", tokens=Tokens(10**9, 10**9, 0, 0))
    at = {"started_at": noon(10)}
    path = tmp_path / "my archive.db"
    store_all(
        path,
        conversation("poor", [poor], title="poor", model=SONNET, **at),
        conversation("rich", [rich], title="rich", model=CODEX, **at),
        conversation("odd", [odd], title="odd", model="nobody-knows", **at),
        conversation("told", [told], title="told", model=SONNET, cost_usd=4.5, **at),
        conversation("none", [message("none", "x")], title="none", **at),
    )
    datasette = await serve(path)
    url = "/my+archive/which_conversations_cost_most.json?source=&_shape=array"
    found = (await datasette.client.get(url)).json()
    assert [(row["title"], row["recorded_usd"], row["list_price_usd"]) for row in found] == [
        ("rich", None, 11.25),
        ("told", 4.5, 18.0),
        ("poor", None, 3.0),
        ("odd", None, None),
    ]


def test_prices_come_from_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    cost.rates.cache_clear()
    cost._find.cache_clear()
    assert cost.rates("claude-sonnet-4-5-20250929", "2025-11-30") is not None
    assert cost.rates("a-model-of-tomorrow", "2025-11-30") is None


# --------------------------------------------------------------------------- shapes


def test_buckets_cover_every_day_once() -> None:
    first, last = date(2024, 2, 27), date(2026, 11, 30)
    for unit in ("day", "week", "month", "year"):
        spans = charts.buckets(first, last, unit)
        assert spans[0].first == first and spans[-1].last == last
        assert all((b.first - a.last).days == 1 for a, b in itertools.pairwise(spans))
    assert charts.unit_for(first, first) == "day"
    assert charts.unit_for(date(2026, 1, 1), date(2026, 12, 31)) == "week"
    assert charts.unit_for(date(2023, 1, 1), date(2026, 12, 31)) == "month"
    assert charts.unit_for(date(1990, 1, 1), date(2026, 12, 31)) == "year"


def test_stacked_bars() -> None:
    spans = charts.buckets(date(2026, 11, 1), date(2026, 11, 20), "day")
    low, high = [0.0] * 20, [0.0] * 20
    low[4], high[4], high[19] = 30, 70, 50
    chart = charts.stacked(spans, ["low", "high"], [low, high], overview.whole)
    # 100 is the top of the axis: 300 units of blue from the ground, 700 of orange on it
    assert chart.layers == [
        (0, "M41 1000h8v-300h-8z"),
        (1, "M41 700h8v-700h-8zM191 1000h8v-500h-8z"),
    ]
    assert [tick.label for tick in chart.y_ticks] == ["50", "100"]
    assert [bar.text for bar in chart.bars] == [
        "5 Nov 2026: 100\nlow: 30\nhigh: 70",
        "20 Nov 2026: 50\nhigh: 50",
    ]
    # newest first, without the days of nothing
    assert [(row[0].label, row[1], row[2]) for row in chart.rows] == [
        ("20 Nov 2026", ["0", "50"], "50"),
        ("5 Nov 2026", ["30", "70"], "100"),
    ]
    assert chart.total == 150 and chart.width == 200


def test_nothing_to_draw() -> None:
    spans = charts.buckets(date(2026, 11, 1), date(2026, 11, 3), "day")
    chart = charts.stacked(spans, ["a"], [[0, 0, 0]], overview.whole)
    assert chart.layers == chart.bars == chart.rows == chart.y_ticks == []
    assert charts.stacked([], [], [], overview.whole).bars == []


def test_heat_map() -> None:
    counts = {date(2026, 11, day): day for day in range(2, 10)}
    drawn = charts.heat_map(counts, date(2026, 1, 1), date(2026, 11, 20))
    levels = {cell.day: cell.level for cell in drawn.cells}
    assert len(drawn.cells) == 324  # from New Year's Day to the last day
    # eight days, two in each quarter
    assert [levels[date(2026, 11, day)] for day in range(1, 11)] == [0, 1, 1, 2, 2, 3, 3, 4, 4, 0]
    monday, sunday = date(2026, 11, 2), date(2026, 11, 8)
    places = {cell.day: (cell.x, cell.y) for cell in drawn.cells}
    assert places[monday][0] == places[sunday][0]
    assert places[sunday][1] - places[monday][1] == 6 * charts.STEP
    # never more than a year
    long = charts.heat_map(counts, date(2020, 1, 1), date(2026, 11, 20))
    assert len({cell.x for cell in long.cells}) == 53


@pytest.mark.parametrize(
    "zone, start, end",
    [
        ("UTC (+00:00)", "2026-11-09T00:00:00.000Z", "2026-11-11T00:00:00.000Z"),
        ("CET (+01:00)", "2026-11-08T23:00:00.000Z", "2026-11-10T23:00:00.000Z"),
        ("IST (+05:30)", "2026-11-08T18:30:00.000Z", "2026-11-10T18:30:00.000Z"),
        ("EST (-05:00)", "2026-11-09T05:00:00.000Z", "2026-11-11T05:00:00.000Z"),
        ("nonsense (+99:99)", "2026-11-09T00:00:00.000Z", "2026-11-11T00:00:00.000Z"),
    ],
)
def test_days_of_a_zone(zone: str, start: str, end: str) -> None:
    if (
        zone != local_zone()
    ):  # else this machine's summer time decides, which is tested nowhere else
        assert overview.utc_range(date(2026, 11, 9), date(2026, 11, 10), zone) == (start, end)
    assert overview.fixed_offset("") == timezone.utc
    assert overview.local_time("2026-11-09T23:30:00.000Z", "X (+01:00)") == "10 Nov 2026, 00:30"
    assert overview.local_time(None, zone) == overview.local_time("soon", zone) == ""


def test_the_ends_of_time() -> None:
    for zone in ("UTC (+00:00)", "CET (+01:00)", "EST (-05:00)", local_zone()):
        start, end = overview.utc_range(date.min, date.max, zone)
        assert start[4] == end[4] == "-" and start < end


@pytest.mark.parametrize(
    "number, text",
    [
        (0, "0"),
        (1234, "1,234"),
        (123_456, "123 K"),
        (1_250_000, "1.2 M"),
        (10_000_000, "10 M"),
        (5.2e9, "5.2 B"),
    ],
)
def test_short_numbers(number: float, text: str) -> None:
    assert overview.short(number) == text


def test_dollars_and_percent() -> None:
    assert [overview.dollars(n) for n in (0, 0.004, 3.5, 1234.5, 12345.6)] == [
        "$0.00", "< $0.01", "$3.50", "$1,234.50", "$12,346",
    ]  # fmt: skip
    assert [overview.percent(*n) for n in ((0, 10), (1, 3), (1, 10_000), (10, 10), (1, 0))] == [
        "0 %", "33.3 %", "< 0.1 %", "100 %", "0 %",
    ]  # fmt: skip


# --------------------------------------------------------------------------- what is said beside


@pytest.mark.parametrize(
    "sources, numbers",
    [
        (["codex", "claude-code"], [2, 1]),
        (["claude-code", "codex"], [1, 2]),
        (["cursor", "a-tool", "copilot", "trae"], [3, 5, 0, 4]),
        (["one", "two", "codex"], [5, 4, 2]),
        (["trae-cli", "cursor-cli", "one", "trae"], [7, 6, 5, 4]),
    ],
)
def test_a_source_keeps_its_colour(sources: list[str], numbers: list[int]) -> None:
    assert overview.source_colours(sources) == numbers


def test_colours_of_sources_are_those_of_the_stylesheets() -> None:
    static = Path(overview.__file__).parent.parent / "static"
    for name in ("crystal-conversation.css", "crystal-site.css"):
        rules = re.findall(
            r"\.c-source-([\w-]+)::before \{\s*background: var\(--c-series-(\d)\)",
            (static / name).read_text(encoding="utf-8"),
        )
        assert {source: int(number) - 1 for source, number in rules} == overview.SOURCE_COLOURS


@pytest.mark.asyncio
async def test_charts_and_legend_have_the_colours_of_the_sources(path: Path) -> None:
    datasette = await serve(path)
    for query in ("", "?source=codex", "?from=2026-11-20"):
        text = await text_of(datasette, PAGE + query)
        legend = re.findall(r'<rect class="c-s(\d)"[^>]*/></svg>\s*(?:<a [^>]*>)?([^<]+)<', text)
        assert legend
        for number, name in legend:
            assert {"claude-code": "2", "codex": "3"}[name.strip().lower()] == number, query
        drawn = set(re.findall(r'<path class="c-s(\d)"', text))
        assert drawn <= {number for number, _ in legend} and drawn


@pytest.mark.asyncio
async def test_days_are_counted_back_from_the_newest_and_that_is_said(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, f"{PAGE}?days=7")
    newest = date(2026, 11, 20)
    assert ("days to 20 Nov 2026, the newest here" in text) is (newest < date.today())
    page = overview.Page(
        None,
        None,
        overview.Filters(),
        newest,
        newest,
        newest + timedelta(days=1),
        {},  # type: ignore[arg-type]
    )
    assert page.counted_to() is None
    assert replace(page, latest=newest + timedelta(days=2)).counted_to() == "20 Nov 2026"


@pytest.mark.asyncio
async def test_lists_of_prompts_are_said_beside_the_conversations(path: Path) -> None:
    datasette = await serve(path)
    text = await text_of(datasette, PAGE)
    assert "1 of them subagents, and 1 list of prompts whose conversation is gone" in text
    text = await text_of(datasette, f"{PAGE}?source=codex")
    assert "whose conversation is gone" not in text


@pytest.mark.asyncio
async def test_undated_tokens_come_last(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "my archive.db"
    copy.write_bytes(path.read_bytes())
    connection = sqlite3.connect(copy)
    connection.execute("update daily_usage set day = 'undated' where day = '2026-11-12'")
    connection.commit()
    connection.close()
    datasette = await serve(copy)
    url = "/my+archive/tokens_by_day.json?source=&_shape=array"
    days = [row["day"] for row in (await datasette.client.get(url)).json()]
    assert days == ["2026-11-20", "2026-11-10", "undated"]
