"""Publications: what is in them, and what is not."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import sqlite3
import stat
import string
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import (
    call,
    check_invariants,
    contents,
    conversation,
    file_hash,
    message,
    query,
    store_all,
)
from sqlite_utils import Database

from datasette_crystal import publish as publishing
from datasette_crystal import search
from datasette_crystal.cli import crystal
from datasette_crystal.importer import Options as ImportOptions
from datasette_crystal.importer import run_import
from datasette_crystal.migrations import APPLICATION_ID, migrations
from datasette_crystal.model import Attachment, Environment, FileEdit, Tokens
from datasette_crystal.plugins import get_adapters
from datasette_crystal.publish import Options, PublishError, Report, Selection, publish
from datasette_crystal.samples import SHOWN_HOME, sample_home, shown_at
from datasette_crystal.secret_rules import RULES, load_rules
from datasette_crystal.store import StoreError, open_for_writing

DRAW = random.Random(7)
LETTERS = string.ascii_letters + string.digits


def draw(length: int, alphabet: str = LETTERS) -> str:
    return "".join(DRAW.choices(alphabet, k=length))


PEM = (
    "-----BEGIN RSA "
    + "PRIVATE KEY-----\n"
    + "\n".join(draw(64) for _ in range(6))
    + "\n-----END RSA PRIVATE KEY-----"
)
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"4410","iat":1712}', DRAW.randbytes(32))
)
#: What must not be found: by kind, how it stands in a text, and the part that gives it away.
CANARIES = {
    "github": ("%s", "gh" + "p_" + draw(36)),
    "anthropic": ("%s", "sk-ant-" + "api03-" + draw(93) + "AA"),
    "aws": ("AWS_ACCESS_KEY_ID=%s", "AK" + "IA" + draw(16, string.ascii_uppercase + "234567")),
    "pem": ("%s", PEM),
    "jwt": ("%s", JWT),
    "database": ("postgres://app:%s@db.internal.test:5432/app", draw(18)),
    "password": ("DB_PASSWORD=%s", "kV7#rZq2!mWx9@Lp"),
    "bearer": ("Authorization: Bearer %s", draw(40)),
    "slack": (
        "%s",
        "xo" + "xb-" + draw(12, string.digits) + "-" + draw(12, string.digits) + "-" + draw(24),
    ),
    "home": ("/home/%s/shop/app.py", "wilhelmina"),
    "mac": ("/Users/%s/shop", "quillian"),
    "windows": (r"C:\Users\%s\shop", "brunhilde"),
    "folder": ("-home-%s-shop", "thaddeus"),
    "encoded": ("vscode-remote://wsl%%2Bubuntu%%2Fhome%%2F%s%%2Fshop", "peregrine"),
    "alone": ("commit by %s yesterday", "wilhelmina"),
    "email": ("mail %s now", "w.okonkwo@corp-mail.dev"),
    "host": ("wilhelmina@%s:~$ ls", "brightwater7"),
    "word": ("the %sClient", "Zeppelin"),
}
TEXT = " ; ".join(form % value for form, value in CANARIES.values())
SECRETS = {name: value for name, (_, value) in CANARIES.items()}


def forms(value: str) -> list[bytes]:
    """How a value may lie in a file."""
    plain = [value, json.dumps(value)[1:-1], value.lower()]
    encoded = [text.encode() for text in plain] + [text.encode("utf-16-le") for text in plain]
    for shift in range(3):
        code = base64.b64encode(b"x" * shift + value.encode())
        encoded.append(code[4 if shift else 0 : len(code) // 4 * 4 - 4][:40] or code)
    return [form for form in encoded if len(form) >= 8]


def found_in(data: bytes) -> list[str]:
    return sorted({name for name, value in SECRETS.items() if any(f in data for f in forms(value))})


def schema_columns() -> dict[str, list[tuple[str, str]]]:
    """(column, type) of every table of the schema, as it is."""
    connection = sqlite3.connect(":memory:")
    migrations.apply(Database(connection))
    tables = [
        name
        for (name,) in connection.execute(
            "select name from sqlite_master where type = 'table' and name not like 'messages\\_cjk%' "
            "escape '\\' and name not like '\\_sqlite%' escape '\\'"
        )
    ]
    return {
        table: [
            (row[1], row[2].lower()) for row in connection.execute(f"pragma table_info({table})")
        ]
        for table in tables
    }


def family(path: Path) -> Path:
    """A database with something in every table: a conversation with a subagent and a fork, and one of
    another project."""
    long = message(
        "u1",
        "Why does the test fail?\n```py\nx\n```",
        timestamp="2026-11-30T10:00:00.000Z",
        attachments=[
            Attachment("image", "shot.png", "image/png", b"\x89PNG\xff\x00" * 20),
            Attachment("text", "notes.txt", "text/plain", b"some notes"),
        ],
    )
    reply = message(
        "a1",
        "It reads a file that is gone.",
        thinking="Let me see.",
        model="m-1",
        timestamp="2026-11-30T10:00:05.000Z",
        tokens=Tokens(input=10, output=5),
        tool_calls=[
            call(title="Bash: ls", call_id="c1"),
            call(name="Task", input='{"prompt":"look"}', subagent_session_id="child", call_id="c2"),
            call(
                name="Edit",
                input='{"file_path":"/srv/app.py"}',
                edits=[FileEdit("/srv/app.py", "edit", 1, 1, "-a\n+b\n")],
                call_id="c3",
                status="error",
            ),
        ],
    )
    later = message("u2", "Thanks", timestamp="2026-11-30T10:01:00.000Z")
    store_all(
        path,
        conversation("one", [long, reply, later], title="The failing test", git_branch="main"),
        conversation(
            "child",
            [message("u9", "look", kind="task"), message("a9", "done 数据 here")],
            kind="subagent",
            parent_session_id="one",
        ),
        conversation(
            "fork",
            [long, reply, message("u3", "Another way"), message("a3", "Fine")],
            kind="fork",
            parent_session_id="one",
            started_at="2026-11-30T11:00:00.000Z",
        ),
        conversation(
            "other",
            [message("u5", "Something private about turnips"), message("a5", "Turnips indeed")],
            cwd="/srv/private-project",
            started_at="2026-12-01T09:00:00.000Z",
        ),
    )
    with sqlite3.connect(path) as db:
        db.execute(
            "insert into source_files values (1, 'toy', 'm1', '/r', '/r/f', '', 1, 1, 'x', 1, 'h', "
            "'imported', null, null)"
        )
        db.execute("insert into conversation_files values (1, 1)")
        db.execute("insert into resumed_sessions values ('toy', 'later', 1)")
        db.execute(
            "insert into import_log values (1, 1, 'toy', 1, '/r/f', 'imported', 'm', 1, 1, 0, 0, 0, 't')"
        )
        db.execute("insert into unknown_records values (1, 1, 'line 1', 'odd', 'sample')")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return family(tmp_path / "crystal.db")


def out_of(source: Path, selection: Selection | None = None, **options: Any) -> tuple[Path, Report]:
    out = source.with_name("out.db")
    report = publish(source, out, selection, Options(**{"force": True, **options}))
    return out, report


def session_ids(path: Path) -> list[str]:
    return [row[0] for row in query(path, "select session_id from conversations order by 1")]


# --------------------------------------------------------------------------- nothing leaks


def test_every_table_of_the_schema_is_copied_left_out_or_made_anew() -> None:
    known = [*publishing.COPIED, *publishing.LEFT_OUT, *publishing.MADE_ANEW]
    assert sorted(schema_columns()) == sorted(known)


def plant(path: Path) -> int:
    """Puts every canary into every text column of every row; JSON columns stay JSON. Returns how
    many columns have them."""
    planted = 0
    db = sqlite3.connect(path)
    for table, columns in schema_columns().items():
        for column, type_ in columns:
            if type_ != "text":
                continue
            if table == "import_runs" and column == "options":
                db.execute("update import_runs set options = ?", (json.dumps({"x": TEXT}),))
            elif table == "tool_calls" and column == "input":
                db.execute(
                    "update tool_calls set input = ?",
                    (json.dumps({"command": TEXT, TEXT: 1, "nested": json.dumps({"a": [TEXT]})}),),
                )
            elif table in ("conversations",) and column == "kind":
                db.execute("update conversations set kind = kind || ' ' || ?", (TEXT,))
            else:
                db.execute(
                    f"update {table} set {column} = coalesce({column}, '') || ' ' || ?", (TEXT,)
                )
            planted += 1
    db.execute("update attachments set content = ? where kind like 'text%'", (TEXT.encode(),))
    db.commit()
    db.close()
    return planted


@pytest.mark.parametrize("attachments", [False, True])
def test_no_canary_is_left_in_any_column(source: Path, tmp_path: Path, attachments: bool) -> None:
    assert plant(source) > 60
    before = file_hash(source)
    assert found_in(source.read_bytes()) == sorted(SECRETS)
    out, report = tmp_path / "out.db", tmp_path / "report.json"
    site = tmp_path / "site"
    arguments = ["publish", str(source), str(out), "--redact", "Zeppelin", "--report", str(report)]
    arguments += ["--attachments", "--static", str(site)] if attachments else []
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code == 0, result.output
    assert found_in(out.read_bytes()) == []
    assert found_in(result.output.encode()) == []
    assert found_in(report.read_bytes()) == []
    assert found_in((tmp_path / "metadata.yml").read_bytes()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "crystal.db",
        "metadata.yml",
        "out.db",
        "report.json",
        *(["site"] if attachments else []),
    ]
    if attachments:
        files = [file for file in site.rglob("*") if file.is_file()]
        assert len(files) > 10
        assert [file for file in files if found_in(file.read_bytes())] == []
        assert found_in("\n".join(str(file) for file in files).encode()) == []
    assert file_hash(source) == before
    for (text,) in query(out, "select input from tool_calls"):
        json.loads(text)
    # and there was something in each of the columns that are copied
    where = {item["where"] for item in json.loads(report.read_text())["replaced"]}
    for table in publishing.COPIED:
        for column, type_ in schema_columns()[table]:
            if type_ == "text" and f"{table}.{column}" not in MADE_OR_DROPPED:
                assert f"{table}.{column}" in where, (table, column)


#: Text columns whose value is made of other columns, or never copied.
MADE_OR_DROPPED = {
    "messages.title",
    "messages.uid",
    "messages.source",
    "conversations.source",
    "conversations.parent_session_id",
    "conversations.missing_since",
    "tool_calls.subagent_session_id",
    "attachments.sha256",
    "resumed_sessions.source",
    "resumed_sessions.session_id",
}


def test_title_that_was_cut_inside_of_a_secret(tmp_path: Path) -> None:
    key = SECRETS["anthropic"]
    source = tmp_path / "crystal.db"
    prompt = "Please put this key into the settings of the deployment and then try again: " + key
    store_all(source, conversation("s", [message("u1", prompt), message("a1", "No.")]))
    assert query(source, "select count(*) from messages where title like ?", f"%{key[:30]}%") == [
        (1,)
    ]
    out, _ = out_of(source)
    assert key[:24].encode() not in out.read_bytes()
    assert query(out, "select count(*) from conversations where title like '%[secret:%'") == [(1,)]


def test_secret_split_between_two_messages(tmp_path: Path) -> None:
    key = SECRETS["github"]
    source = tmp_path / "crystal.db"
    store_all(
        source,
        conversation(
            "s",
            [
                message("u1", "Show it"),
                message("a1", f"The token is {key[:22]}", kind="partial"),
                message("a2", f"{key[22:]} and that is it."),
            ],
        ),
    )
    out, _ = out_of(source)
    texts = [row[0] for row in query(out, "select content from messages order by position")]
    assert key[22:] not in texts[2] and key[:22] not in texts[1]
    assert texts[2].endswith(" and that is it.")
    assert query(out, "select characters from messages order by position") == [
        (len(text),) for text in texts
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://x.corp.dev/ws?token=%s", "//npm.corp.dev/:_authToken=%s"),
        ("//npm.corp.dev/:_authToken=%s", "client_secret: %s"),
        ("client_secret: %s", "api_key=%s"),
        ("api_key=%s", "/srv/shop/app2.py has client_secret: %s"),
        ("api_key=%s", "README names the api_key=%s"),
    ],
)
def test_two_secrets_in_two_messages_are_not_taken_for_one(
    tmp_path: Path, first: str, second: str
) -> None:
    """Only the values go; what the second message begins with is no rest of the first secret."""
    one, two = "q" + draw(30) + "7", "w" + draw(30) + "3"
    source = tmp_path / "crystal.db"
    store_all(
        source,
        conversation(
            "s", [message("u1", "Go"), message("a1", first % one), message("a2", second % two)]
        ),
    )
    out, report = out_of(source)
    assert report.published
    texts = [row[0] for row in query(out, "select content from messages order by position")][1:]
    for text, form in zip(texts, (first, second), strict=True):
        before, after = form.split("%s")
        assert text.startswith(before + "[secret:") and text.endswith("]" + after), text
    assert one.encode() not in out.read_bytes() and two.encode() not in out.read_bytes()


@pytest.mark.parametrize(
    ("kind", "rest", "taken"),
    [
        ("partial", "k7q2x", True),
        ("reply", "Kx9" + draw(12), True),
        ("reply", "k7q2x", False),
        ("partial", "Thanks", False),
    ],
)
def test_rest_of_a_secret_that_is_one_by_itself(
    tmp_path: Path, kind: str, rest: str, taken: bool
) -> None:
    """Where a reply was broken off, or where it looks like a key, what follows is the rest."""
    head = "q" + draw(20) + "7"
    source = tmp_path / "crystal.db"
    replies = [message("a1", f"api_key={head}", kind=kind), message("a2", f"{rest} is it")]
    store_all(source, conversation("s", [message("u1", "Go"), *replies]))
    out, _ = out_of(source)
    texts = [row[0] for row in query(out, "select content from messages order by position")]
    assert texts[1].startswith("api_key=[secret:")
    assert texts[2].endswith(" is it") and texts[2].startswith("[secret:" if taken else rest)


def test_title_that_reads_otherwise_than_its_text(tmp_path: Path) -> None:
    """A rule may find in a line that was cut what it does not find in the whole one."""
    source, rules = tmp_path / "crystal.db", tmp_path / "rules.yml"
    rules.write_text("- kind: ticket\n  pattern: 'INC-[0-9]{3,7}…'\n  literals: ['INC-']\n")
    # titles of messages have 120 characters, those of conversations 200
    cut = {
        number: "word " * (number // 5 - 2) + "INC-4829131 and more words " * 8
        for number in (120, 200)
    }
    for number, text in cut.items():
        assert re.search("INC-[0-9]{3,7}$", text[: number - 1])
    store_all(
        source,
        *[
            conversation(f"s{number}", [message(f"u{number}", text), message(f"a{number}", "ok")])
            for number, text in cut.items()
        ],
    )
    out, report = out_of(source, rules=(*RULES, *load_rules(rules)))
    assert report.published
    assert query(out, "select content from messages where kind = 'prompt' order by id") == [
        (text,) for text in cut.values()
    ]
    titles = query(out, "select title from messages where kind = 'prompt' order by id")
    assert "[secret:ticket:" in titles[0][0] and "INC-" not in titles[0][0]
    titles = query(out, "select title from conversations order by id")
    assert "[secret:ticket:" in titles[1][0] and "INC-48291…" not in titles[1][0]


def test_name_that_only_a_title_tells(tmp_path: Path) -> None:
    source = tmp_path / "crystal.db"
    told = {"title": "Author: Greta Vogelsang <gv@corp.dev> broke it", "title_origin": "user"}
    messages = [message("u1", "ask Greta Vogelsang"), message("a1", "ok")]
    store_all(source, conversation("s", messages, cwd="/srv/x", **told))
    out, report = out_of(source)
    assert report.published
    assert query(out, "select content, title from messages where kind = 'prompt'") == [
        ("ask user-1", "ask user-1")
    ]


@pytest.mark.parametrize("word", [None, "52e1c07f4d93"])
def test_id_that_is_a_secret(tmp_path: Path, word: str | None) -> None:
    """A text that is nothing but a UUID is looked at, too, once it is known for a key or has a word in
    it that is to be replaced."""
    key = "7c1f9a52-3be4-4d18-9a6b-52e1c07f4d93"
    source = tmp_path / "crystal.db"
    other = "0b6b2e0e-6f0a-4a53-8f7e-1d2c3b4a5968"
    texts = [message("u1", key), message("a1", "it is what you said" if word else f"API_KEY={key}")]
    store_all(source, conversation("s", [*texts, message("u2", other)]))
    out, report = out_of(source, words=(word,) if word else ())
    assert report.published
    content = [row[0] for row in query(out, "select content from messages order by position")]
    assert content[0] != key and "52e1c07f4d93" not in content[0] and content[2] == other
    assert b"52e1c07f4d93" not in out.read_bytes()


def test_text_that_is_no_utf_8(tmp_path: Path) -> None:
    source = tmp_path / "crystal.db"
    store_all(source, conversation("s", [message("u1", "hello"), message("a1", "ok")]))
    with sqlite3.connect(source) as db:
        db.execute(
            "update messages set content = cast(? as text) where kind = 'prompt'",
            (b"caf\xe9 of " + SECRETS["github"].encode(),),
        )
    out, report = out_of(source)
    assert report.published
    ((text,),) = query(out, "select content from messages where kind = 'prompt'")
    assert text.startswith("caf\ufffd of [secret:github")


def test_name_that_stands_alone_before_it_is_known(tmp_path: Path) -> None:
    source = tmp_path / "crystal.db"
    store_all(
        source,
        conversation(
            "s",
            [message("u1", "tamsin asks"), message("a1", "USER=tamsin")],
            cwd="/srv/x",
        ),
    )
    out, _ = out_of(source)
    assert query(out, "select content from messages order by position") == [
        ("user-1 asks",),
        ("USER=user-1",),
    ]


def test_what_is_not_chosen_leaves_no_trace(source: Path) -> None:
    out, report = out_of(source, Selection(conversations=("toy/one",)))
    data = out.read_bytes()
    for word in (b"urnip", b"private-project", b"other", b"Another way"):
        if word != b"other":
            assert word not in data, word
    assert session_ids(out) == ["child", "one"]
    assert query(out, "select count(*) from projects") == [(1,)]
    assert query(out, "pragma freelist_count") == [(0,)]
    for table in publishing.LEFT_OUT:
        assert query(out, f"select count(*) from {table}") == [(0,)]
    assert report.rows["conversations"] == 2 and report.conversations_in_source == 4


# --------------------------------------------------------------------------- the check


def test_finding_of_the_check_stops_the_publication(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = SECRETS["github"]
    with sqlite3.connect(source) as db:
        db.execute("update messages set content = ? where id = 1", (f"use {key}",))
    # a redactor that forgets the contents, and the titles that are made of them
    original = publishing._Texts.redact
    monkeypatch.setattr(
        publishing._Texts,
        "redact",
        lambda self, value, where: (
            value
            if where in ("messages.content", "messages.title", "conversations.title")
            else original(self, value, where)
        ),
    )
    report_file = tmp_path / "report.json"
    result = CliRunner().invoke(
        crystal,
        ["publish", str(source), str(tmp_path / "out.db"), "--report", str(report_file)],
    )
    assert result.exit_code == 1
    assert "Not published" in result.output
    assert key not in result.output and key not in report_file.read_text()
    assert json.loads(report_file.read_text())["published"] is False
    assert sorted(path.name for path in tmp_path.iterdir()) == ["crystal.db", "report.json"]


def test_picture_that_holds_a_secret_in_its_bytes_stops_the_publication(source: Path) -> None:
    with sqlite3.connect(source) as db:
        db.execute(
            "update attachments set content = ? where kind = 'image'",
            (b"\x89PNG\xff\xfe " + SECRETS["github"].encode() + b" \xff",),
        )
    out, report = out_of(source)
    assert report.published
    out.unlink()
    out, report = out_of(source, attachments=True)
    assert report.found and not report.published and not out.exists()


def leaking_site(*args: Any, **options: Any) -> Any:
    from datasette_crystal.static_site import write_site

    report = write_site(*args, **options)
    page = Path(args[1]) / "index.html"
    escaped = "".join(f"&#{ord(char)};" for char in SECRETS["github"])
    page.write_text(page.read_text("utf-8") + f"<p>{escaped}</p>", "utf-8")
    return report


def test_site_that_leaks_is_not_placed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasette_crystal.publish.site_writer", lambda: leaking_site)
    arguments = ["publish", str(source), str(tmp_path / "out.db"), "--static"]
    result = CliRunner().invoke(crystal, [*arguments, str(tmp_path / "site")])
    assert result.exit_code == 1
    assert "the site (escaped)" in result.output and "github-token" in result.output
    assert found_in(result.output.encode()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["crystal.db"]


def test_report_says_in_which_conversation_and_it_can_be_left_out(source: Path) -> None:
    picture = b"\x89PNG\xff\xfe " + SECRETS["github"].encode() + b" \xff"
    with sqlite3.connect(source) as db:
        db.execute("update attachments set content = ? where kind = 'image'", (picture,))
    out = source.with_name("out.db")
    arguments = ["publish", str(source), str(out), "--attachments"]
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code == 1 and not out.exists()
    assert "attachments.content" in result.output
    assert "In toy/one: The failing test\n" in result.output
    # the fork shows the same message
    arguments += ["-x", "one", "-x", "toy/fork"]
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code == 0, result.output
    assert session_ids(out) == ["other"]


def test_secret_that_only_the_bytes_of_the_file_show(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said where it stands, also when the check of the texts does not see it."""
    with sqlite3.connect(source) as db:
        db.execute("update messages set content = ? where id = 1", ("use " + SECRETS["github"],))
        db.execute("update conversations set title = 'By w.okonkwo@corp-mail.dev' where id = 1")
    monkeypatch.setattr(
        publishing, "_Texts", type("_Blind", (publishing._Texts,), {"harmless": lambda *_: True})
    )
    report_file = tmp_path / "report.json"
    arguments = ["publish", str(source), str(tmp_path / "out.db"), "--report", str(report_file)]
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code == 1
    assert "the file (raw)" in result.output and "messages.content" in result.output
    assert "In toy/one: By email-1@redacted.invalid\n" in result.output
    assert found_in(result.output.encode() + report_file.read_bytes()) == []


def test_value_that_is_no_secret_stays(source: Path) -> None:
    key = SECRETS["github"]
    with sqlite3.connect(source) as db:
        db.execute("update messages set content = ? where id = 1", (f"use {key}",))
    out, report = out_of(source, keep=(key,))
    assert report.published
    assert query(out, "select content from messages where id = 1") == [(f"use {key}",)]


def test_excluded_subagent_does_not_come_along(source: Path) -> None:
    out, _ = out_of(source, Selection(conversations=("one",), excluded=("toy/child",)))
    assert session_ids(out) == ["one"]
    assert query(out, "select count(*) from tool_calls where subagent_id is not null") == [(0,)]


def test_result_does_not_depend_on_the_number_of_processes(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(source)
    monkeypatch.setattr(publishing, "_is_large", lambda source: True)
    monkeypatch.setattr(publishing, "_BATCH_SIZE", 20_000)
    options: dict[str, Any] = {"words": ("Zeppelin",), "key": b"one", "attachments": True}
    out, alone = out_of(source, jobs=1, **options)
    expected = contents(out)
    out, together = out_of(source, jobs=2, **options)
    assert contents(out) == expected
    assert together.replaced == alone.replaced and together.published


@pytest.mark.parametrize(
    "text",
    [
        "%s knows",
        json.dumps({"by": "%s", "x": "a\nb"}),
        json.dumps(json.dumps({"by": "a\n%s"})),
        '{"by": "\\u0074amsin"}',
        base64.b64encode(b"a commit that was made by tamsin yesterday").decode(),
    ],
)
def test_what_is_learned_late_is_found_in_texts_that_came_before(tmp_path: Path, text: str) -> None:
    source = tmp_path / "crystal.db"
    before = message("a1", "See", tool_calls=[call(input=text.replace("%s", "tamsin"))])
    store_all(
        source,
        conversation("s", [message("u1", "Who?"), before, message("u2", "USER=tamsin")], cwd="/x"),
    )
    out, report = out_of(source)
    assert report.published
    ((kept,),) = query(out, "select input from tool_calls")
    while kept[:1] in '{"':
        kept = json.loads(kept)
        kept = kept["by"] if isinstance(kept, dict) else kept
    assert "tamsin" not in kept and ("user-1" in kept or "[secret:base64:" in kept)


def test_title_of_a_publication(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    out_of(source, static=site, title='How "we" built it')
    assert 'title: "How \\"we\\" built it"' in (tmp_path / "metadata.yml").read_text()
    assert "How &#34;we&#34; built it" in (site / "index.html").read_text("utf-8")


# --------------------------------------------------------------------------- a working database


def test_a_publication_is_one_sound_file(source: Path) -> None:
    out, report = out_of(source)
    check_invariants(out)
    assert query(out, "pragma application_id") == [(APPLICATION_ID,)]
    assert query(out, "pragma journal_mode") == [("delete",)]
    assert not list(out.parent.glob("out.db-*")) and not list(out.parent.glob(".out.db*"))
    assert report.verified and report.published and report.size == out.stat().st_size
    db = sqlite3.connect(out)
    assert search.fts_exists(db) and search.cjk_exists(db)
    assert db.execute(
        "select count(*) from messages_cjk where messages_cjk match '\"数 据\"'"
    ).fetchone() == (1,)
    db.close()


def test_without_redaction_it_is_what_an_import_of_only_these_would_have_made(
    tmp_path: Path,
) -> None:
    """Everything that is derived - counts, titles, daily figures, indexes - is right."""
    adapters = get_adapters()
    whole = tmp_path / "crystal.db"
    with sample_home() as home:
        run_import(
            whole,
            Environment.for_home(home),
            shown_at(adapters, home, SHOWN_HOME),
            ImportOptions(min_messages=1, machine="demo"),
        )
    out = tmp_path / "all.db"
    publish(whole, out, None, Options(redact=False, attachments=True))
    check_invariants(out)
    expected, got = contents(whole), contents(out)
    for table in expected:
        assert got[table] == expected[table], table

    # and of one source alone
    codex = tmp_path / "codex.db"
    with sample_home() as home:
        run_import(
            codex,
            Environment.for_home(home),
            {"codex": shown_at(adapters, home, SHOWN_HOME)["codex"]},
            ImportOptions(sources=("codex",), min_messages=1, machine="demo"),
        )
    out = tmp_path / "part.db"
    publish(whole, out, Selection(sources=("codex",)), Options(redact=False, attachments=True))
    expected, got = contents(codex), contents(out)
    for table in expected:
        assert got[table] == expected[table], table
    assert out.stat().st_size < 1.1 * codex.stat().st_size


def test_subagents_come_along_and_counts_are_those_of_the_part(source: Path) -> None:
    out, _ = out_of(source, Selection(conversations=("one",)))
    assert query(
        out,
        "select c.session_id, p.session_id from conversations c join conversations p "
        "on p.id = c.parent_id",
    ) == [("child", "one")]
    assert query(
        out, "select subagent_session_id from tool_calls where subagent_id is not null"
    ) == [("child",)]


def test_fork_without_its_parent_owns_what_it_shows(source: Path) -> None:
    out, _ = out_of(source, Selection(conversations=("fork",)))
    check_invariants(out)
    # the call of the parent started the subagent, and the fork shows that call
    assert "one" not in session_ids(out) and "fork" in session_ids(out)
    assert query(
        out,
        "select kind, message_count, inherited_count, parent_id, parent_session_id, input_tokens "
        "from conversations where session_id = 'fork'",
    ) == [("main", 4, 0, None, None, 10)]
    assert query(out, "select distinct origin from conversation_messages") == [("own",)]
    assert b"The failing test" not in out.read_bytes()


def test_no_thinking_no_output(source: Path) -> None:
    out, report = out_of(source, thinking=False, tool_output=False)
    assert query(out, "select count(*) from messages where thinking is not null") == [(0,)]
    assert query(out, "select count(*) from tool_calls where output is not null") == [(0,)]
    assert b"Let me see." not in out.read_bytes()
    assert report.left_out["thinking"] == 1 and report.left_out["tool output"] == 3


def test_attachments_are_opt_in(source: Path) -> None:
    out, _ = out_of(source)
    assert query(out, "select name, content, sha256 from attachments order by id") == [
        ("shot.png", None, None),
        ("notes.txt", None, None),
    ]
    out, _ = out_of(source, attachments=True)
    assert query(out, "select content from attachments order by id") == [
        (b"\x89PNG\xff\x00" * 20,),
        (b"some notes",),
    ]


def test_text_attachment_is_redacted_and_its_hash_is_of_what_is_there(source: Path) -> None:
    with sqlite3.connect(source) as db:
        db.execute("update attachments set content = ? where kind = 'text'", (TEXT.encode(),))
    out, _ = out_of(source, attachments=True, words=("Zeppelin",))
    assert found_in(out.read_bytes()) == []
    ((content, size, digest),) = query(
        out, "select content, size, sha256 from attachments where kind = 'text'"
    )
    assert (size, digest) == (len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), ["child", "fork", "one", "other"]),
        (Selection(conversations=("toy/other",)), ["other"]),
        (Selection(conversations=("later",)), ["child", "one"]),
        (Selection(projects=("private-project",)), ["other"]),
        (Selection(projects=("/srv/private-project",)), ["other"]),
        (Selection(sources=("toy",), since="2026-12-01"), ["other"]),
        (Selection(where="title like '%turnips%'"), ["other"]),
        (Selection(where="1 -- all"), ["child", "fork", "one", "other"]),
        (Selection(until="2026-11-30", where="kind = 'main'"), ["child", "one"]),
    ],
)
def test_selection(
    source: Path, selection: Selection, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        out, _ = out_of(source, selection)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert session_ids(out) == expected


@pytest.mark.parametrize(
    "selection",
    [
        Selection(conversations=("nope",)),
        Selection(projects=("nope",)),
        Selection(sources=("nope",)),
        Selection(since="yesterday"),
        Selection(until="2026-13-01"),
        Selection(where="nope = 1"),
        Selection(where="1); drop table messages; --"),
        Selection(where="id < 0"),
        # of unset variables of a shell
        Selection(where=""),
        Selection(since=""),
        Selection(until=" "),
        Selection(projects=("",)),
        Selection(sources=("",)),
        Selection(conversations=("",)),
        Selection(excluded=("",)),
    ],
)
def test_bad_selection_is_one_line_and_leaves_nothing(source: Path, selection: Selection) -> None:
    before = sorted(source.parent.iterdir())
    with pytest.raises(PublishError) as error:
        out_of(source, selection)
    assert "\n" not in str(error.value)
    assert sorted(source.parent.iterdir()) == before


@pytest.mark.parametrize("option", ["--static", "--report", "--rules", "--title", "--where", "-x"])
def test_option_that_says_nothing(source: Path, option: str) -> None:
    before = sorted(source.parent.iterdir())
    arguments = ["publish", str(source), str(source.with_name("out.db")), option, ""]
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code in (1, 2) and isinstance(result.exception, SystemExit)
    assert option.replace("-x", "--exclude") in result.output.splitlines()[-1]
    assert sorted(source.parent.iterdir()) == before


def test_unknown_project_names_those_there_are(tmp_path: Path) -> None:
    source = tmp_path / "crystal.db"
    store_all(
        source,
        *[
            conversation(
                f"s{number}",
                [message(f"u{number}", "hello"), message(f"a{number}", "hi")],
                cwd=f"/srv/project-{number:02}",
                started_at=f"2026-11-{number + 1:02}T10:00:00.000Z",
            )
            for number in range(12)
        ],
    )
    with pytest.raises(PublishError) as error:
        out_of(source, Selection(projects=("shop",)))
    # the last used ones
    names = ", ".join(f"project-{number:02}" for number in range(11, 1, -1))
    assert str(error.value) == f"there is no project 'shop'; there are: {names} and 2 more"


def test_two_publications_are_equal_up_to_fingerprints(source: Path) -> None:
    plant(source)
    results = []
    for key in (b"one", b"one", None):
        out, _ = out_of(source, words=("Zeppelin",), key=key)
        results.append(contents(out))
    assert results[0] == results[1] != results[2]


def test_session_ids_that_redaction_makes_equal_stay_two(tmp_path: Path) -> None:
    source = tmp_path / "crystal.db"
    texts = [message("u1", "hello"), message("a1", "hi")]
    others = [message("u2", "hello"), message("a2", "hi")]
    store_all(
        source,
        conversation("log-w@corp.dev", texts, cwd="/home/ana/x"),
        conversation("log-W@corp.dev", others, cwd="/home/ANA/x"),
    )
    out, _ = out_of(source)
    check_invariants(out)
    assert len(set(session_ids(out))) == 2
    assert query(out, "select count(distinct path) from projects") == [(2,)]
    assert b"corp.dev" not in out.read_bytes()


# --------------------------------------------------------------------------- files


def test_nothing_but_a_publication_is_overwritten(source: Path, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="itself"):
        publish(source, source, None, Options(force=True))
    other = family(tmp_path / "mine.db")
    before = file_hash(other)
    with pytest.raises(PublishError, match="--force"):
        publish(source, other)
    with pytest.raises(PublishError, match="no publication"):
        publish(source, other, None, Options(force=True))
    text = tmp_path / "text.db"
    text.write_text("precious")
    with pytest.raises(PublishError, match="no publication"):
        publish(source, text, None, Options(force=True))
    assert file_hash(other) == before and text.read_text() == "precious"
    out, _ = out_of(source)
    assert out_of(source)[1].published
    with pytest.raises(PublishError, match="--force"):
        publish(source, out)


def test_folder_that_holds_something_else_is_no_place_for_a_site(source: Path) -> None:
    """It is said before anything is published."""
    folder = source.with_name("photos")
    folder.mkdir()
    (folder / "cat.txt").write_text("meow")
    with pytest.raises(PublishError, match="no site of datasette-crystal"):
        out_of(source, static=folder)
    assert sorted(path.name for path in source.parent.iterdir()) == ["crystal.db", "photos"]


def test_dry_run_leaves_nothing(source: Path) -> None:
    before = sorted(source.parent.iterdir())
    _, report = out_of(source, dry_run=True)
    assert report.rows["conversations"] == 4 and not report.published
    assert sorted(source.parent.iterdir()) == before


def test_own_metadata_is_not_overwritten(source: Path) -> None:
    metadata = source.with_name("metadata.yml")
    _, report = out_of(source)
    assert "out.db" in metadata.read_text() and "were\n  replaced by" in metadata.read_text()
    assert report.metadata == str(metadata) and not report.notes
    metadata.write_text("title: Mine\n")
    arguments = ["publish", str(source), str(source.with_name("out.db")), "--force"]
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code == 0
    assert f"{metadata} left alone: it is not ours." in result.output
    assert f"Wrote {metadata}" not in result.output
    assert metadata.read_text() == "title: Mine\n"


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_metadata_that_cannot_be_written_does_not_stop_the_rest(source: Path, kind: str) -> None:
    metadata, out = source.with_name("metadata.yml"), source.with_name("out.db")
    if kind == "directory":
        metadata.mkdir()
    else:
        metadata.symlink_to(source.with_name("nowhere") / "m.yml")
    result = CliRunner().invoke(crystal, ["publish", str(source), str(out)])
    assert result.exit_code == 0 and f"{metadata} was not written: " in result.output
    assert f"Wrote {out}" in result.output
    check_invariants(out)


def test_metadata_does_not_say_that_it_was_redacted_when_it_was_not(source: Path) -> None:
    out_of(source, redact=False)
    text = source.with_name("metadata.yml").read_text()
    assert "Nothing was redacted." in text and "replaced" not in text


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
@pytest.mark.parametrize(
    ("umask", "redact", "expected"),
    [(0o022, True, 0o644), (0o077, True, 0o600), (0o002, True, 0o664), (0o022, False, 0o600)],
)
def test_who_may_read_a_publication(source: Path, umask: int, redact: bool, expected: int) -> None:
    before = os.umask(umask)
    try:
        out, _ = out_of(source, redact=redact)
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == expected


LEAVE_WAL = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("pragma journal_mode = wal").fetchall()
db.execute("pragma wal_autocheckpoint = 0")
db.execute("update messages set content = 'turnips again'")
db.commit()
os._exit(0)
"""


def test_what_was_to_be_written_to_the_database_before_is_not_written_to_the_new_one(
    source: Path,
) -> None:
    out, _ = out_of(source)
    subprocess.run([sys.executable, "-c", LEAVE_WAL, str(out)], check=True)
    wal = source.with_name("out.db-wal")
    assert wal.stat().st_size > 0
    out_of(source, Selection(conversations=("fork",)))
    assert not wal.exists() and not source.with_name("out.db-shm").exists()
    check_invariants(out)
    assert query(out, "select count(*) from messages where content like '%turnips%'") == [(0,)]


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_journal_of_a_database_that_is_gone(source: Path, ending: str) -> None:
    journal = source.with_name(f"out.db{ending}")
    journal.write_bytes(b"pages")
    with pytest.raises(PublishError, match=f"out.db{ending} was left .* --force deletes it"):
        publish(source, source.with_name("out.db"))
    assert journal.read_bytes() == b"pages"
    out_of(source)  # with force
    assert not journal.exists()


def test_import_into_a_publication_is_refused(source: Path, tmp_path: Path) -> None:
    out, _ = out_of(source)
    before = file_hash(out)
    with pytest.raises(StoreError, match="published"):
        open_for_writing(out)
    (tmp_path / "home").mkdir()
    with sample_home() as home:
        result = CliRunner().invoke(crystal, ["import", str(out), "--home", str(home)])
    assert result.exit_code == 1 and "published" in result.output
    assert file_hash(out) == before


def test_a_publication_can_be_published_again(source: Path, tmp_path: Path) -> None:
    plant(source)
    out, _ = out_of(source, words=("Zeppelin",))
    again = tmp_path / "again.db"
    report = publish(out, again, None, Options(words=("Zeppelin",)))
    assert report.published
    assert contents(again) == contents(out)


def test_database_that_an_import_writes_to(source: Path, tmp_path: Path) -> None:
    """One transaction sees one state, also in WAL mode with an open writer."""
    writer = sqlite3.connect(source, isolation_level=None)
    writer.execute("pragma journal_mode = wal").fetchall()
    writer.execute("begin immediate")
    writer.execute("update messages set content = 'half done' where id = 1")
    out, report = out_of(source)
    writer.execute("rollback")
    writer.close()
    assert report.published
    assert query(out, "select count(*) from messages where content = 'half done'") == [(0,)]


KILLED = """
import os, sys
from datasette_crystal import publish
real = publish._Copy._headers
def die(self):
    os._exit(9)
publish._Copy._headers = die
publish.publish(sys.argv[1], sys.argv[2])
"""


def test_killed_run_leaves_no_database_and_the_next_one_cleans_up(source: Path) -> None:
    out = source.with_name("out.db")
    code = subprocess.run([sys.executable, "-c", KILLED, str(source), str(out)]).returncode
    assert code == 9
    assert not out.exists() and list(source.parent.glob(".out.db.*"))
    assert publish(source, out).published
    assert not list(source.parent.glob(".out.db.*"))


FULL = """
import resource, signal, sys
from datasette_crystal.cli import crystal
import datasette_crystal.publish, datasette_crystal.scan
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
crystal(["publish", sys.argv[1], sys.argv[2]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("limit", [0, 50_000, 150_000])
def test_full_disk(source: Path, limit: int) -> None:
    out = source.with_name("out.db")
    done = subprocess.run(
        [sys.executable, "-B", "-c", FULL, str(source), str(out), str(limit)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and "Traceback" not in done.stderr
    assert sorted(path.name for path in source.parent.iterdir()) == ["crystal.db"]


def test_no_redact_says_so(source: Path, tmp_path: Path) -> None:
    plant(source)
    out = tmp_path / "out.db"
    result = CliRunner().invoke(crystal, ["publish", str(source), str(out), "--no-redact"])
    assert result.exit_code == 0 and "Nothing is redacted" in result.output
    assert "github" in found_in(out.read_bytes())


def test_own_word_that_the_schema_is_made_of_is_refused(source: Path) -> None:
    for word in ("messages", "toy", "ab", "user"):
        with pytest.raises(PublishError, match="--redact"):
            out_of(source, words=(word,))


def test_own_rules(source: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("- kind: ticket\n  pattern: 'INC-[0-9]{6}'\n  literals: ['INC-']\n")
    with sqlite3.connect(source) as db:
        db.execute("update messages set content = 'see INC-482913' where id = 1")
    out = tmp_path / "out.db"
    arguments = ["publish", str(source), str(out), "--rules", str(rules)]
    result = CliRunner().invoke(crystal, arguments)
    assert result.exit_code == 0, result.output
    assert b"482913" not in out.read_bytes()
    assert query(out, "select count(*) from messages where content like '%[secret:ticket:%'") == [
        (1,)
    ]


# --------------------------------------------------------------------------- in Datasette


@pytest.mark.asyncio
async def test_every_page_of_a_publication_works(source: Path) -> None:
    from datasette.app import Datasette

    out, _ = out_of(source)
    datasette = Datasette([], immutables=[str(out)])
    await datasette.invoke_startup()
    paths = [
        "/",
        "/out",
        "/out/-/crystal",
        "/out/-/crystal/search?q=test",
        "/-/crystal/search?q=test",
    ]
    names = query(
        out,
        "select name from sqlite_master where type in ('table', 'view') and name not like '%\\_fts\\_%' escape '\\' and name not like '%cjk%' and name not like 'sqlite%'",
    )
    paths += [f"/out/{name}" for (name,) in names]
    paths += [f"/out/-/crystal/toy/{session}" for session in session_ids(out)]
    paths += [f"/out/-/crystal/toy/{session}.md" for session in session_ids(out)]
    from datasette_crystal.schema import QUERIES

    paths += [f"/out/{name}" for name in QUERIES]
    for path in paths:
        response = await datasette.client.get(path, follow_redirects=True)
        assert response.status_code == 200, path
    assert os.listdir(out.parent).count("out.db-wal") == 0
