"""Scanning a database, and the bytes of a file."""

from __future__ import annotations

import base64
import json
import sqlite3
import urllib.parse
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import call, conversation, message, store_all
from secret_samples import WORD, Maker

from datasette_crystal.cli import crystal
from datasette_crystal.scan import OVERLAP, WINDOW, scan_bytes, scan_database, shown_title
from datasette_crystal.secret_rules import RULES
from datasette_crystal.store import StoreError

TOKEN = "ghp_" + Maker(11).draw(WORD, 36)
PASSWORD = "Velvet#otter-93"


def run(*arguments: object, code: int) -> Result:
    result = CliRunner().invoke(crystal, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert TOKEN not in result.output
    assert PASSWORD not in result.output
    return result


def leaky(database: Path) -> Path:
    store_all(
        database,
        conversation(
            "s1",
            [
                message("u1", f"Use {TOKEN} for the deployment"),
                message("a1", "Done.", tool_calls=[call(output=f"DB_PASSWORD={PASSWORD}\n")]),
            ],
            title=f"Use {TOKEN} for the depl…",
        ),
        conversation("s2", [message("u2", "hello"), message("a2", "Rotate the API key.")]),
    )
    return database


def test_every_place_of_a_database_is_told(database: Path) -> None:
    places = list(scan_database(leaky(database)))
    where = {(p.table, p.column, p.finding.kind, p.source, p.session_id) for p in places}
    assert where == {
        ("conversations", "title", "github-token", "toy", "s1"),
        ("messages", "title", "github-token", "toy", "s1"),
        ("messages", "content", "github-token", "toy", "s1"),
        ("tool_calls", "output", "named-secret", "toy", "s1"),
    }
    (content,) = (p for p in places if p.column == "content")
    assert content.key == (1,)
    assert (content.finding.start, content.finding.value) == (4, TOKEN)


def text_columns(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    tables = [
        name
        for (name,) in connection.execute(
            "select name from sqlite_master where type = 'table' and name not like '%\\_fts%' escape '\\' "
            "and name not like 'messages\\_cjk%' escape '\\' and name not like 'sqlite\\_%' escape '\\'"
        )
    ]
    columns = [
        (table, column[1])
        for table in tables
        for column in connection.execute(f"pragma table_info({table})")
        if column[2].lower() in ("text", "blob")
    ]
    connection.close()
    return columns


def test_a_canary_is_found_in_every_column_of_every_table(database: Path) -> None:
    leaky(database)
    columns = text_columns(database)
    assert len(columns) > 60
    connection = sqlite3.connect(database)
    connection.execute("pragma foreign_keys = off")
    canaries = {}
    for number, (table, column) in enumerate(columns):
        value = "ghp_" + Maker(100 + number).draw(WORD, 36)
        canaries[value] = (table, column)
        names = [row[1:3] for row in connection.execute(f"pragma table_info({table})")]
        # a row of its own, whatever the columns want
        row = [value if name == column else f"x{number}" if type_.lower() in ("text", "blob") else 9000 + number
               for name, type_ in names]  # fmt: skip
        connection.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
    found = {p.finding.value: (p.table, p.column) for p in scan_database(database)}
    assert {value: found.get(value) for value in canaries} == canaries


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_attachments_are_read_as_text_where_they_are(database: Path, encoding: str) -> None:
    leaky(database)
    connection = sqlite3.connect(database)
    connection.execute(
        "insert into attachments (name, message_id, position, kind, content) values ('a', 2, 0, 'file', ?)",
        [f"DB_PASSWORD={PASSWORD}\n".encode(encoding)],
    )
    connection.commit()
    connection.close()
    (place,) = (p for p in scan_database(database) if p.table == "attachments")
    assert (place.finding.value, place.session_id) == (PASSWORD, "s1")


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("create table t (a)")
    connection.close()
    with pytest.raises(StoreError, match="something else"):
        list(scan_database(path))


# --- bytes

AWKWARD = 'pä"ss\\wort&1'


def encodings(value: str) -> dict[str, bytes]:
    once = json.dumps(value)
    forms = {
        "raw": value.encode(),
        "json": once.encode(),
        "json in json": json.dumps(once).encode(),
        "json, not escaped to ascii": json.dumps(value, ensure_ascii=False).encode(),
        "utf-16-le": f"a secret: {value}, yes".encode("utf-16-le"),
        "utf-16-be": f"a secret: {value}, yes".encode("utf-16-be"),
        "percent": b"q=" + urllib.parse.quote(value, safe="").encode() + b"&x=%20",
        "html": b"<p>" + value.replace("&", "&amp;").replace('"', "&#34;").encode(),
    }
    for shift in range(3):
        text = b"x" * shift + b"the secret " + value.encode() + b" ends here"
        forms[f"base64 {shift}"] = b'"' + base64.b64encode(text) + b'"'
        forms[f"base64url {shift}"] = b'"' + base64.urlsafe_b64encode(text).rstrip(b"=") + b'"'
        forms[f"base64 in lines {shift}"] = base64.encodebytes(text * 4)
    return forms


@pytest.mark.parametrize("form", list(encodings("x")))
def test_a_known_value_is_found_in_every_encoding(form: str) -> None:
    data = b"\x00\x01 noise " + encodings(AWKWARD)[form] + b" noise"
    assert [f.value for f in scan_bytes(data, (), [AWKWARD])][:1] == [AWKWARD], form
    assert list(scan_bytes(data, (), ["something else"])) == []


@pytest.mark.parametrize("form", list(encodings("x")))
def test_rules_find_in_every_encoding(form: str) -> None:
    data = b"\x00\x01 noise \n" + encodings(TOKEN)[form] + b"\n noise"
    assert TOKEN in {f.value for f in scan_bytes(data)}, form
    assert TOKEN in {f.value for f in scan_bytes(data, (), [TOKEN])}, form


def test_the_offset_of_what_stands_there_as_it_is() -> None:
    (finding,) = scan_bytes(b"\xff" * 1000 + b" " + TOKEN.encode())
    assert (finding.offset, finding.encoding, finding.kind) == (1001, "raw", "github-token")
    assert TOKEN not in repr(finding)


@pytest.mark.parametrize("place", [WINDOW - 20, WINDOW, WINDOW - OVERLAP - 5, 2 * WINDOW - 10])
def test_windows_overlap(tmp_path: Path, place: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b" " * place + TOKEN.encode() + b" " * WINDOW)
    assert place in {f.offset for f in scan_bytes(path)}
    assert place in {f.offset for f in scan_bytes(path, (), [TOKEN])}


def test_a_picture_is_no_secret() -> None:
    noise = Maker(12).random.randbytes(300_000)
    assert list(scan_bytes(noise)) == []
    assert list(scan_bytes(base64.b64encode(noise))) == []


# --- the command


def test_the_command_tells_where_and_not_what(database: Path) -> None:
    lines = run("scan", leaky(database), code=1).output.splitlines()
    assert lines[0].split() == ["Kind", "Secret", "Places", "Where", "Conversation"]
    assert lines[1].startswith("github-token  ghp_... (40 characters)")
    assert "toy: Use [github-token] for the depl…" in lines[1]
    assert "conversations.title, messages.title, messages.content" in lines[1]
    assert lines[2].startswith("named-secret  ... (15 characters)")
    assert "tool_calls.output" in lines[2]
    assert lines[-1].startswith("2 secrets in 4 places of 1 conversation.")


def test_as_json(database: Path) -> None:
    rows = json.loads(run("scan", leaky(database), "--json", code=1).stdout)
    assert {(row["kind"], row["table"], row["column"]) for row in rows} == {
        ("github-token", "conversations", "title"),
        ("github-token", "messages", "title"),
        ("github-token", "messages", "content"),
        ("named-secret", "tool_calls", "output"),
    }


def test_only_a_kind(database: Path) -> None:
    result = run("scan", leaky(database), "--kind", "named-secret", code=1)
    assert "github-token  " not in result.output
    assert "No secrets found." in run("scan", database, "-k", "jwt", code=0).output
    assert "'jwd' is not one of" in run("scan", database, "-k", "jwd", code=2).output


def test_no_more_lines_than_asked_for(database: Path) -> None:
    output = run("scan", leaky(database), "-n", "1", code=1).output
    assert "named-secret" not in output
    assert "1 more line: `--limit 2` shows all." in output


def test_own_rules(database: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("- {kind: greeting, pattern: hello}\n")
    output = run("scan", leaky(database), "--rules", rules, "-k", "greeting", code=1).output
    assert "greeting" in output and "toy: hello" not in output
    rules.write_text("- {kind: greeting, pattern: '('}\n")
    output = run("scan", database, "--rules", rules, code=2).output
    assert output.startswith("Error: ") and output.count("\n") == 1


def test_no_database_is_another_exit_code(tmp_path: Path) -> None:
    output = run("scan", tmp_path / "none.db", code=2).output
    assert output.startswith("Error: ") and "does not exist" in output


def test_a_title_shows_no_part_of_a_secret() -> None:
    assert shown_title(f"Set {TOKEN[:12]}…", [TOKEN]) == "Set [github-token]…"
    assert shown_title(f"password {PASSWORD}!", [PASSWORD]) == "password [secret]!"


def test_the_samples_hold_no_secrets(tmp_path: Path) -> None:
    from datasette_crystal.cli import make_demo

    make_demo(tmp_path / "demo.db")
    assert list(scan_database(tmp_path / "demo.db")) == []


def test_kinds_are_named_alike() -> None:
    assert all(rule.kind.replace("-", "").isalnum() and rule.description for rule in RULES)


@pytest.mark.parametrize("gap", [0, 100, 5_000, 20_000])
def test_escapes_far_apart_are_all_undone(gap: int) -> None:
    """Only the neighbourhood of escapes is looked at again: none of it may be missed."""
    key = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    escaped = key.replace("m", "\\u006d").replace("W", "&#87;")
    filler = "word " * (gap // 5)
    text = f"{filler}one {escaped} {filler}\\n{filler}&amp; {escaped} {filler}"
    found = [
        finding.value for finding in scan_bytes(text.encode()) if finding.encoding == "escaped"
    ]
    assert set(found) == {key}
    # and both of them are there, not one twice
    for half in (text[: len(text) // 2], text[len(text) // 2 :]):
        assert {f.value for f in scan_bytes(half.encode()) if f.encoding == "escaped"} == {key}
