"""``datasette_crystal.notebook``: frames with the right types, searches, and conversations that show
themselves."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Set
from datetime import date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hostile_database
import pandas as pd
import pytest
from conftest import call, conversation, message, store_all
from test_web_render import PAYLOADS

from datasette_crystal import frames, notebook, notebook_html
from datasette_crystal.cli import make_demo
from datasette_crystal.model import Attachment, FileEdit, Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MONDAY, TUESDAY = "2026-11-02T09:00:00.250Z", "2026-11-03T10:30:00.000Z"


@pytest.fixture
def small(database: Path) -> Path:
    """A conversation of Monday with a fork of Tuesday, which repeats its first two messages, and a
    subagent."""
    first = [
        message("u1", "Why does the lock time out?", timestamp=MONDAY),
        message(
            "a1",
            "Because foo_bar waits. `select` it.",
            thinking="The lock is held too long.",
            model="claude-sonnet-4-5",
            timestamp=MONDAY,
            tokens=Tokens(input=1_000_000, output=1_000_000, cache_read=0, cache_write=0),
            tool_calls=[
                call(
                    "Edit",
                    status="ok",
                    edits=[
                        FileEdit("/home/ana/shop/cart.py", "edit", 2, 1, "@@ -1 +1 @@\n-a\n+b\n")
                    ],
                ),
                call("Bash", status="error", exit_code=2, duration_ms=1500, started_at=MONDAY),
            ],
        ),
        message("u2", "数据库为什么慢？", timestamp=TUESDAY),
        message("a2", "No index.", timestamp=TUESDAY, model="toy-1"),
    ]
    store_all(
        database,
        conversation("one", first, title="Locks", started_at=MONDAY),
        conversation(
            "two",
            [*first[:2], message("u3", "Try another way", timestamp=TUESDAY)],
            kind="fork",
            parent_session_id="one",
            started_at=TUESDAY,
        ),
        conversation(
            "three",
            [message("a9", "Done.", timestamp=TUESDAY)],
            kind="subagent",
            parent_session_id="one",
            cwd="/home/ana/other",
            cost_usd=0.25,
        ),
    )
    return database


# --------------------------------------------------------------------------- importing and opening


def test_importing_it_imports_neither_datasette_nor_pandas(small: Path) -> None:
    script = f"""
import sys
from datasette_crystal import notebook
print(sorted({{"datasette", "pandas", "numpy", "altair", "sqlite_utils"}} & set(sys.modules)))
crystal = notebook.open({str(small)!r})
repr(crystal), len(crystal.conversation("one").markdown()), crystal.conversation("one")._repr_html_()
crystal.search("lock"), crystal.usage(), crystal.tables()
print(sorted({{"datasette", "pandas", "altair"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[]", "['pandas']"]


def test_a_file_that_is_none_of_ours_is_named_in_one_line(tmp_path: Path) -> None:
    text, empty, other = tmp_path / "text.db", tmp_path / "empty.db", tmp_path / "other.db"
    text.write_text("no database at all, but long enough to look for a header" * 20)
    empty.touch()
    with sqlite3.connect(other) as connection:
        connection.execute("create table messages (id integer)")
    connection.close()
    for path, why in (
        (tmp_path / "missing.db", "does not exist"),
        (text, "not a database"),
        (empty, "is empty"),
        (other, "something else"),
        (tmp_path, "does not exist"),
    ):
        with pytest.raises(notebook.CrystalError, match=why) as raised:
            notebook.open(path)
        assert "\n" not in str(raised.value)
    assert empty.stat().st_size == 0


def test_a_database_of_a_newer_version_is_refused(small: Path) -> None:
    with sqlite3.connect(small) as connection:
        connection.execute(
            "insert into _sqlite_migrations (migration_set, name, applied_at) "
            "values ('crystal', 'm999_later', '2027-01-01')"
        )
    connection.close()
    with pytest.raises(notebook.CrystalError, match="newer version"):
        notebook.open(small)


def test_it_is_closed_by_with_and_nothing_can_be_written(small: Path) -> None:
    before = small.read_bytes()
    with notebook.open(str(small)) as crystal:
        with pytest.raises(notebook.CrystalError, match="readonly"):
            crystal.sql("delete from messages")
        with pytest.raises(notebook.CrystalError, match="gives no rows"):
            crystal.sql("begin")
        with pytest.raises(notebook.CrystalError, match="no such table"):
            crystal.sql("select * from nowhere")
    with pytest.raises(notebook.CrystalError, match="closed"):
        crystal.conversations()
    assert "closed" in repr(crystal)
    assert small.read_bytes() == before


def test_it_reads_while_an_import_writes(small: Path) -> None:
    crystal = notebook.open(small)
    assert len(crystal.messages()) == 6
    writer = sqlite3.connect(small, isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("begin immediate")
    writer.execute("delete from tool_calls")
    assert len(crystal.tool_calls()) == 2  # what is not committed is not there
    writer.execute("commit")
    assert len(crystal.tool_calls()) == 0
    assert len(notebook.open(small).tool_calls()) == 0
    writer.close()


def test_a_file_in_wal_mode_is_read_where_nothing_can_be_written_beside_it(small: Path) -> None:
    with sqlite3.connect(small) as connection:
        connection.execute("pragma journal_mode = wal")
    connection.close()
    (small.parent / f"{small.name}-shm").mkdir()  # stands in for a folder without write permission
    assert len(notebook.open(small).messages()) == 6


# --------------------------------------------------------------------------- frames

TYPES = {
    "id": "Int64",
    "title": "string",
    "source": "category",
    "kind": "category",
    "started_at": "datetime64[us, UTC]",
    "timestamp": "datetime64[us, UTC]",
    "missing_since": "datetime64[us, UTC]",
    "day": "datetime64[us]",
    "archived": "boolean",
    "has_code": "boolean",
    "has_tool_use": "boolean",
    "prompt_count": "Int64",
    "input_tokens": "Int64",
    "output_tokens": "Int64",
    "exit_code": "Int64",
    "lines_added": "Int64",
    "cost_usd": "float64",
    "content": "string",
    "path": "string",
    "status": "category",
}


@pytest.mark.parametrize("empty", [False, True])
def test_columns_have_the_type_of_what_they_mean(small: Path, empty: bool) -> None:
    crystal = notebook.open(small)
    none: Any = {"project": "nobody"} if empty else {}
    made = [
        crystal.conversations(**none),
        crystal.messages(**none),
        crystal.tool_calls(**none, text=True),
        crystal.file_edits(**none, text=True),
        crystal.usage(**none),
        crystal.search("lock", **none),
    ]
    checked = set()
    for frame in made:
        assert frame.empty is empty
        for column in frame.columns:
            if column in TYPES:
                assert str(frame[column].dtype) == TYPES[column], column
                checked.add(column)
    assert checked == set(TYPES)


def test_values_are_those_of_the_database(small: Path) -> None:
    crystal = notebook.open(small)
    talks = crystal.conversations().set_index("session_id")
    assert list(talks["kind"].astype(str)[["one", "two", "three"]]) == ["main", "fork", "subagent"]
    assert talks["started_at"]["one"] == pd.Timestamp(MONDAY)
    assert talks["project"]["three"] == "other"
    assert talks["inherited_count"]["two"] == 2
    assert talks["parent_id"]["two"] == talks["id"]["one"]
    assert pd.isna(talks["parent_id"]["one"])
    assert talks["cost_usd"]["three"] == 0.25
    # newest first; what a fork repeats is there once
    messages = crystal.messages()
    assert sorted(messages["uid"]) == ["a1", "a2", "a9", "u1", "u2", "u3"]
    assert messages["timestamp"].is_monotonic_decreasing
    bash = crystal.tool_calls(name="Bash").iloc[0]
    assert (bash["status"], bash["exit_code"], bash["duration_ms"]) == ("error", 2, 1500)
    edit = crystal.file_edits(path="shop/cart.py", text=True).iloc[0]
    assert (edit["tool"], edit["lines_added"], edit["diff"][:2]) == ("Edit", 2, "@@")
    assert "output" not in crystal.tool_calls() and "content" not in crystal.messages(text=False)


def test_filters(small: Path) -> None:
    crystal = notebook.open(small)

    def sessions(**filters: Any) -> set[str]:
        return set(crystal.conversations(**filters)["session_id"])

    assert sessions(kind="main") == {"one"}
    assert sessions(kind=["main", "fork"]) == {"one", "two"}
    assert sessions(project="shop") == {"one", "two"}
    assert sessions(project="/home/ana/other") == {"three"}
    assert sessions(since="2026-11-03") == {"two", "three"}
    assert sessions(until="2026-11-02") == {"one"}  # the whole day
    assert sessions(until=date(2026, 11, 2)) == {"one"}
    assert sessions(since=datetime(2026, 11, 2, 9, 0, 0, 251_000)) == {"two", "three"}
    assert sessions(since=pd.Timestamp("2026-11-02T10:00:00.250+01:00")) == {"one", "two", "three"}
    assert sessions(until="2026-11-02T08:59:00Z") == set()
    assert len(crystal.conversations(limit=2)) == 2
    assert len(crystal.messages(conversation=crystal.conversation("two").id)) == 1
    assert set(crystal.messages(kind="prompt", role="user")["uid"]) == {"u1", "u2", "u3"}
    for wrong in ("yesterday", "2026-13-01", "20261130"):
        with pytest.raises(ValueError, match="is a day"):
            crystal.conversations(since=wrong)
    with pytest.raises(ValueError, match="limit"):
        crystal.messages(limit=-1)
    with pytest.raises(TypeError):
        crystal.conversations(source=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "filters", "known"),
    [
        ("conversations", {"source": "codx"}, "'codex'"),
        ("conversations", {"source": ["toy", "codx"]}, "'toy'"),
        ("conversations", {"kind": "man"}, "'main'"),
        ("messages", {"source": "codx"}, "'toy'"),
        ("messages", {"kind": "promt"}, "'prompt'"),
        ("messages", {"role": "users"}, "'user'"),
        ("tool_calls", {"status": "failed"}, "'error'"),
        ("tool_calls", {"source": "codx"}, "'toy'"),
        ("file_edits", {"action": "remove"}, "'delete'"),
        ("file_edits", {"source": "codx"}, "'toy'"),
        ("usage", {"source": "codx"}, "'toy'"),
        ("search", {"text": "lock", "source": "codx"}, "'toy'"),
        ("search", {"text": "lock", "kind": "promt"}, "'prompt'"),
        ("conversation", {"id": "one", "source": "codx"}, "'toy'"),
    ],
)
def test_what_does_not_exist_is_no_empty_answer(
    small: Path, method: str, filters: dict[str, Any], known: str
) -> None:
    ask = getattr(notebook.open(small), method)
    with pytest.raises(ValueError, match=known) as raised:
        ask(**filters)
    (name,) = set(filters) - {"text", "id"}
    wrong = filters[name] if isinstance(filters[name], str) else filters[name][-1]
    assert str(raised.value).startswith(f"{name} is ")
    assert str(raised.value).endswith(f", not {wrong!r}")


def test_what_exists_elsewhere_is_an_empty_answer(small: Path) -> None:
    crystal = notebook.open(small)
    assert crystal.conversations(source="codex").empty  # an importer, of which nothing is here
    assert crystal.messages(kind="hook").empty
    with sqlite3.connect(small) as connection:  # of a newer importer, say
        connection.execute("update messages set kind = 'dream' where uid = 'u3'")
    connection.close()
    assert list(crystal.messages(kind="dream")["uid"]) == ["u3"]


def test_any_sql(small: Path) -> None:
    crystal = notebook.open(small)
    frame = crystal.sql(
        "select max(timestamp) as newest, count(*) as n, avg(position) as mean, 'a' as a, "
        "sum(has_code) as has_code, x'00' as bytes, null as nil, 1 as a, date(timestamp) as d "
        "from messages where kind = :kind and timestamp >= :since",
        kind="prompt",
        since=pd.Timestamp(MONDAY),
    )
    assert list(frame.columns) == [
        "newest",
        "n",
        "mean",
        "a",
        "has_code",
        "bytes",
        "nil",
        "a",
        "d",
    ]
    assert [str(dtype) for dtype in frame.dtypes] == [
        *("datetime64[us, UTC]", "Int64", "float64", "string", "boolean", "object", "object"),
        *("Int64", "datetime64[us]"),
    ]
    assert frame["n"][0] == 3
    numbers = crystal.sql("select value from json_each(:list)", list="[1, 2]")
    assert list(numbers["value"]) == [1, 2]
    # no flag any more
    sums = crystal.sql("select 2 as has_code")
    assert str(sums["has_code"].dtype) == "Int64"
    # types of the table also where there is no row
    nothing = crystal.sql("select id, timestamp, content, has_code from messages where 0")
    assert [str(dtype) for dtype in nothing.dtypes] == [
        *("Int64", "datetime64[us, UTC]", "string", "boolean")
    ]


def test_times_that_are_none_and_times_far_away() -> None:
    column = frames.column(
        "timestamp",
        ["2026-02-31T00:00:00Z", None, "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z"],
    )
    assert column.isna().tolist() == [True, True, False, False]
    assert column[2].year == 9999
    zoned = frames.column("x", ["2026-11-30T01:00:00+02:00"])
    assert zoned[0] == pd.Timestamp("2026-11-29T23:00:00Z")
    days = frames.column("day", ["undated", "2026-11-30"])
    assert days.isna().tolist() == [True, False]
    # a text that only looks like a time here and there is a text
    assert str(frames.column("timestamp", ["2026-11-30T01:00:00Z", "later"]).dtype) == "string"
    assert str(frames.column("n", [2**63 - 1, -(2**63)]).dtype) == "Int64"
    assert str(frames.column("n", [1, "a", None]).dtype) == "object"


def test_usage_says_where_a_cost_is_from(small: Path) -> None:
    usage = notebook.open(small).usage()
    priced = usage[usage["model"] == "claude-sonnet-4-5"].iloc[0]
    # a million tokens in and out: 3 and 15 dollars by Anthropic's list of 2025
    assert priced["cost_usd"] == pytest.approx(18.0)
    assert priced["cost_origin"] == "API list price, not your bill"
    recorded = usage[usage["cost_origin"] == "recorded"]
    assert recorded["cost_usd"].sum() == 0.25
    unknown = usage[usage["model"] == "toy-1"]
    assert unknown["cost_usd"].isna().all() and unknown["cost_origin"].isna().all()
    assert usage["output_tokens"].sum() == 1_000_000
    assert usage["day"].dt.strftime("%Y").eq("2026").all()
    assert len(notebook.open(small).usage(since="2026-11-05")) == 0


def test_conversations_have_a_list_price(small: Path) -> None:
    crystal = notebook.open(small)
    talks = crystal.conversations().set_index("session_id")
    assert str(talks["list_price_usd"].dtype) == "float64"
    # "one" owns the million tokens in and out: 3 and 15 dollars; its other model has no price
    assert talks["list_price_usd"]["one"] == pytest.approx(18.0)
    assert pd.isna(talks["cost_usd"]["one"])
    # what a fork repeats is not its own; where no tokens are recorded nothing is 0 dollars
    assert pd.isna(talks["list_price_usd"]["two"])
    assert pd.isna(talks["list_price_usd"]["three"]) and talks["cost_usd"]["three"] == 0.25
    most = crystal.conversations().nlargest(10, "list_price_usd")
    assert list(most["session_id"])[:1] == ["one"]
    assert str(crystal.conversations(limit=0)["list_price_usd"].dtype) == "float64"


def test_each_model_of_a_conversation_has_its_own_price(database: Path) -> None:
    million = Tokens(input=1_000_000, output=0, cache_read=0, cache_write=0)
    models = ("claude-sonnet-4-5", "claude-haiku-4-5", "toy-1")
    store_all(
        database,
        conversation(
            "x",
            [
                message(f"a{number}", "Yes", model=model, timestamp=MONDAY, tokens=million)
                for number, model in enumerate(models)
            ],
        ),
    )
    # by Anthropic's list of 2025, 3 dollars and 1; nobody knows that of toy-1
    prices = notebook.open(database).conversations()["list_price_usd"]
    assert list(prices) == [pytest.approx(4.0)]


def test_what_there_is(small: Path) -> None:
    crystal = notebook.open(small)
    tables = crystal.tables().set_index("name")
    assert tables["rows"]["messages"] == 6
    assert tables["type"]["transcript"] == "view" and pd.isna(tables["rows"]["transcript"])
    assert tables["description"].notna().all()
    columns = crystal.columns("messages").set_index("column")
    assert columns["type"]["turn"] == "integer"
    assert columns["meaning"].notna().all()
    with pytest.raises(notebook.CrystalError, match="no table 'mesages'"):
        crystal.columns("mesages")
    assert "3 conversations, 6 messages of Toy; 2026-11-02 to 2026-11-03" in repr(crystal)


def test_help_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    for thing in (notebook.Crystal, notebook.Conversation, notebook.open, notebook.use_charts):
        help(thing)
        assert ">>>" in capsys.readouterr().out
    for method in vars(notebook.Crystal) | vars(notebook.Conversation):
        if not method.startswith("_") and callable(getattr(notebook.Crystal, method, None)):
            assert getattr(notebook.Crystal, method).__doc__, method


# --------------------------------------------------------------------------- search


def test_search(small: Path) -> None:
    crystal = notebook.open(small)

    def uids(text: str, **filters: Any) -> set[str]:
        ids = crystal.search(text, **filters)["message_id"]
        messages = crystal.messages().set_index("id")["uid"]
        return {messages[id] for id in ids}

    assert uids("lock") == {"u1", "a1"}
    assert uids('"lock time"') == {"u1"}
    assert uids("lock -foo_bar") == {"u1"}
    assert uids("foo_bar") == {"a1"}
    assert uids("wait*") == {"a1"}
    assert uids("库") == {"u2"}
    assert uids("数据库") == {"u2"}
    assert uids("据数") == set()
    assert uids("lock", place="thinking") == {"a1"}
    assert uids("lock", place="prompts") == {"u1"}
    assert uids("lock", kind="reply", since="2026-11-02", until="2026-11-02") == {"a1"}
    assert uids("lock", project="nobody") == set()
    assert len(crystal.search("lock", limit=1)) == 1
    assert uids("lock", best=True) == {"u1", "a1"}
    hit = crystal.search("lock", place="prompts").iloc[0]
    assert hit["passage"] == "Why does the lock time out?"
    assert hit["conversation"] == "Locks"
    with pytest.raises(ValueError, match="place is"):
        crystal.search("lock", place="titles")


@pytest.mark.parametrize(
    "text", ["", " ", '"', "*", "-", "AND OR NOT", "a:b^2", "(", "\0", "\ud800"]
)
def test_nothing_that_one_may_type_fails(small: Path, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for best in (False, True):
            assert notebook.open(small).search(text, best=best).empty


def test_what_was_left_out_of_a_search_is_said(small: Path) -> None:
    with pytest.warns(UserWarning, match="not looked for"):
        notebook.open(small).search("lock ---")


# --------------------------------------------------------------------------- a conversation


def test_a_conversation_is_found_by_number_and_by_session(small: Path) -> None:
    crystal = notebook.open(small)
    one = crystal.conversation("one")
    assert crystal.conversation(one.id).title == "Locks"
    assert crystal.conversation(str(one.id)).session_id == "one"
    number = crystal.conversations(kind="main")["id"][0]  # as numpy and pandas give it
    assert crystal.conversation(number).session_id == "one"
    assert (one.source, one.project) == ("toy", "shop")
    for wrong in ("nowhere", 99, "1" * 30):
        with pytest.raises(notebook.CrystalError, match="there is no conversation"):
            crystal.conversation(wrong)


def test_the_same_session_of_two_sources(database: Path) -> None:
    store_all(
        database,
        conversation("x", [message("u1", "a")], title="A"),
        conversation("x", [message("u1", "b")], title="B", source="other"),
    )
    crystal = notebook.open(database)
    with pytest.raises(notebook.CrystalError, match="source='other' or 'toy'"):
        crystal.conversation("x")
    assert crystal.conversation("x", source="other").title == "B"


def test_a_fork_shows_what_it_took_over(small: Path) -> None:
    frame = notebook.open(small).conversation("two").to_frame()
    assert list(frame["content"])[2] == "Try another way"
    assert list(frame["inherited"]) == [True, True, False]
    assert str(frame["inherited"].dtype) == "boolean"
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"


def test_a_conversation_as_text(small: Path) -> None:
    one = notebook.open(small).conversation("one")
    assert str(one) == one.markdown()
    assert str(one).startswith("# Locks\n")
    assert "Why does the lock time out?" in str(one) and "```diff\n@@ -1 +1 @@" in str(one)
    assert repr(one).startswith("<Conversation") and "\n" not in repr(one)
    assert not hasattr(one, "_repr_markdown_")  # a front end may take the HTML in it for its own
    assert list(one.tool_calls()["name"]) == ["Edit", "Bash"]
    assert list(one.file_edits(text=True)["diff"]) == ["@@ -1 +1 @@\n-a\n+b\n"]


def test_a_part_of_a_conversation(small: Path) -> None:
    one = notebook.open(small).conversation("one")

    def texts(**options: Any) -> list[str]:
        html = one.show(**options)._repr_html_()
        return re.findall(r'<div class="c-prose"><p>(\w+)', html)

    assert texts() == ["Why", "The", "Because", "数据库为什么慢", "No"]
    assert texts(start=2) == ["数据库为什么慢", "No"]
    assert texts(limit=1) == ["Why"]
    assert texts(only="prompts") == ["Why", "数据库为什么慢"]
    assert texts(only="edits") == ["The", "Because"]
    assert "<mark>lock</mark>" in one.show(search="LOCK")._repr_html_()
    assert "Nothing to show" in one.show(search="nothing like that")._repr_html_()
    assert "1 to 1 of 4. The next: <code>.show(start=1)</code>" in one.show(limit=1)._repr_html_()
    for wrong in ({"only": "all"}, {"start": -1}, {"limit": 0}):
        with pytest.raises(ValueError):
            one.show(**wrong)


def test_a_conversation_is_shown_where_an_event_loop_runs(small: Path) -> None:
    import asyncio

    async def cell() -> str:
        crystal = notebook.open(small)
        crystal.search("lock")
        return crystal.conversation("one")._repr_html_()

    assert "Because" in asyncio.run(cell())


def test_images_are_part_of_the_output_when_they_are_images(database: Path) -> None:
    images = [
        Attachment("image", "pixel.png", "image/png", hostile_database.PIXEL),
        Attachment("image", "drawing.svg", "image/svg+xml", b"<svg onload='alert(1)'/>"),
        Attachment("image", "page.png", "image/png", b"<html>"),
        Attachment("image", "big.png", "image/png", hostile_database.PIXEL + bytes(5_000_000)),
    ]
    store_all(database, conversation("x", [message("u1", "Look", attachments=images)]))
    html = notebook.open(database).conversation("x")._repr_html_()
    assert re.findall(r'<img src="([^"]{22})[^"]*" alt="([^"]+)"', html) == [
        ("data:image/png;base64,", "pixel.png")
    ]
    assert all(name in html for name in ("drawing.svg", "page.png", "big.png"))


# --------------------------------------------------------------------------- style


def test_no_rule_of_the_style_reaches_beyond_the_conversation() -> None:
    style = notebook_html.style()
    assert len(style) < 30_000
    assert style.count("{") == style.count("}")
    assert "url(" not in style and "@import" not in style and "<" not in style
    flat = re.sub(r"@container[^{]*\{(.*)\}\}$", r"\1}", style)
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", flat)
    assert len(selectors) > 100
    for selector in selectors:
        alone = re.sub(r"\((?:[^()]|\([^()]*\))*\)", "", selector)  # commas within do not part
        for part in alone.split(","):
            assert re.match(r"(:is )?\.crystal-nb(?![\w-])", part.strip()), selector


def test_the_style_knows_the_classes_of_a_conversation() -> None:
    style = notebook_html.style()
    for name in (
        "c-message",
        "c-prose",
        "c-call",
        "c-diff",
        "d-add",
        "d-del",
        "c-output",
        "c-code",
    ):
        assert f".{name}" in style, name
    # each colour of the pages has its dark one
    assert re.search(r"--c-text:light-dark\(#[0-9a-f]{6},#[0-9a-f]{6}\)", style)
    assert "rem" not in re.sub(r"[a-z-]*rem[a-z-]+|[a-z-]+rem\b", "", style)


def test_a_conversation_is_as_high_as_what_it_says() -> None:
    assert not re.search(r"(?<!max-)height:\s*[\d.]+[ds]?v[hwb]\b", notebook_html.style())


# --------------------------------------------------------------------------- tables


def test_a_table_is_its_frame_in_whole_texts() -> None:
    frame = pd.DataFrame(
        {
            "name": pd.Series(["a" * 500, None, "c"], dtype="string"),
            "calls": pd.Series([1234567, None, 3], dtype="Int64"),
            "usd": [0.5, float("nan"), 1234.0],
            "last": pd.to_datetime(["2026-11-30T21:12:43Z", None, None]),
            "share": [0.25, 1 / 3, 2.0],
            "list_usd": [0.004, 1234.5, 0.0],
            "message_id": [12345, 2, 3],
        }
    )
    shown = notebook.table(frame, {"usd": "€{:,.1f}"}, missing="?")
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", shown._repr_html_())
    assert cells == [
        *("name", "calls", "usd", "last", "share", "list_usd", "message_id"),
        *("a" * 500, "1,234,567", "€0.5", "2026-11-30 21:12", "0.25", "&lt; $0.01", "12345"),
        *("?", "?", "?", "?", "0.333333", "$1,234.50", "2"),
        *("c", "3", "€1,234.0", "?", "2", "$0.00", "3"),
    ]
    assert repr(shown) == str(frame)
    assert "… and 2 more rows" in notebook.table(frame, limit=1)._repr_html_()
    assert "more row" not in notebook.table(frame, limit=3)._repr_html_()
    named = frame.set_index("name")[["calls"]].rename_axis("who")
    assert re.findall(r"<th [^>]*>([^<]*)", notebook.table(named)._repr_html_()) == ["who", "calls"]
    empty = notebook.table(frame.head(0))._repr_html_()
    assert "<td" not in empty and "No rows" in empty and "No rows" not in shown._repr_html_()
    with pytest.raises(ValueError, match="no column 'cals'"):
        notebook.table(frame, {"cals": "{:,}"})


# --------------------------------------------------------------------------- hostile text


def test_frames_and_tables_are_text(small: Path) -> None:
    notebook.open(small).conversations()  # MathJax keeps off from here on
    tags = {"table", "thead", "tbody", "tr", "th", "td", "div", "style", "p"}
    for payload in [*hostile_database.NOTEBOOK_PAYLOADS, *PAYLOADS]:
        payload = payload.encode("utf-8", "replace").decode()
        frame = pd.DataFrame(
            {
                payload: [payload, payload * 40],
                "n": [1, 2],
                f"{payload}2": [[payload], {payload: 1}],
            },
            index=pd.Index([payload, "x"], name=payload),
        )
        frame.columns.name = payload
        for shown in (frame, notebook.table(frame, {"n": "{:,}"}), notebook.table(frame.head(1))):
            html = str(shown._repr_html_())  # type: ignore[operator]
            audit = Audit(tags, styles=True)
            audit.feed(html)
            assert audit.bad == [], payload
            assert "tex2jax_ignore" in html  # pandas 2 knows no other


class Audit(HTMLParser):
    """What could act: tags and attributes that the output of a conversation never has."""

    def __init__(
        self, tags: Set[str] = notebook_html._TAGS | {"style"}, styles: bool = False
    ) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.tags = tags
        #: Tables say how their cells are aligned.
        self.styles = styles

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in self.tags:
            self.bad.append(tag)
        for name, value in attributes:
            aligned = self.styles and re.fullmatch(
                r"text-align: (left|right);?( min-width: 18em)?", value or ""
            )
            if name == "style" and aligned:
                continue
            if name.startswith("on") or name in ("style", "id", "name", "srcdoc", "srcset"):
                self.bad.append(f"{tag} {name}")
            if name.startswith("data-") and name != "data-language":
                self.bad.append(f"{tag} {name}")
            if name == "href" and not re.match(r"(https?|mailto):", value or "", re.I):
                self.bad.append(f"{tag} {name}={value}")
            if name == "src" and not (value or "").startswith("data:image/png;base64,"):
                self.bad.append(f"{tag} {name}={value}")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    hostile_database.make(path, [*hostile_database.NOTEBOOK_PAYLOADS, *PAYLOADS])
    return path


def test_hostile_text_makes_no_element_that_acts(hostile: Path) -> None:
    conversation = notebook.open(hostile).conversation("hostile")
    html = conversation.show(limit=1000)._repr_html_()
    audit = Audit()
    audit.feed(html)
    assert audit.bad == []
    assert html.count("<style>") == html.count("</style>") == 1
    # it is all there, as text
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10
    # MathJax is told to keep off
    assert 'class="crystal-nb tex2jax_ignore mathjax_ignore"' in html


@pytest.mark.browser
def test_hostile_text_does_nothing_in_a_browser(hostile: Path, browser: Browser) -> None:
    html = notebook.open(hostile).conversation("hostile").show(limit=1000)._repr_html_()
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.set_content("<!doctype html><body><main id=outside>outside</main><div id=cell></div>")
    outside = "() => JSON.stringify(getComputedStyle(document.getElementById('outside')))"
    before = page.evaluate(outside)
    # a notebook runs what stands in scripts of an output, as innerHTML alone would not
    page.evaluate(
        """html => {
          const cell = document.getElementById('cell');
          cell.append(document.createRange().createContextualFragment(html));
          for (const fold of cell.querySelectorAll('details')) fold.open = true;
          for (const part of cell.querySelectorAll('*')) {
            for (const name of ['mouseover', 'focus', 'toggle', 'error', 'load'])
              part.dispatchEvent(new Event(name));
          }
        }""",
        html,
    )
    page.wait_for_function(
        "() => [...document.images].every(image => image.complete && image.naturalWidth)"
    )
    assert page.evaluate("() => document.scripts.length") == 0
    assert dialogs == []
    assert [url for url in asked if not url.startswith(("data:", "about:"))] == []
    assert page.evaluate(outside) == before
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("attribute", "system", "dark"),
    [
        ("", "light", False),
        ("", "dark", True),
        ('data-jp-theme-light="true"', "dark", False),
        ('data-jp-theme-light="false"', "light", True),
        ('class="vscode-dark"', "light", True),
    ],
)
def test_the_colours_are_those_of_the_notebook(
    browser: Browser, tmp_path: Path, attribute: str, system: Any, dark: bool
) -> None:
    make_demo(tmp_path / "demo.db")
    html = notebook.open(tmp_path / "demo.db").conversation(1)._repr_html_()
    page = browser.new_page(color_scheme=system)
    page.set_content(f"<!doctype html><body {attribute}>{html}</body>")
    lightness = page.evaluate(
        "() => { const root = getComputedStyle(document.querySelector('.crystal-nb'));"
        "return [root.backgroundColor, root.color].map("
        "colour => colour.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)) }"
    )
    assert (lightness[0] < lightness[1]) is dark
    page.close()
