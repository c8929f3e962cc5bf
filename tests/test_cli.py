"""The commands, as a user meets them."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from conftest import file_hash, query

from datasette_crystal import plugins
from datasette_crystal.cli import crystal, printable
from datasette_crystal.schema import TABLES

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
SESSION = "11111111-2222-4333-8444-555555555555"


def line(kind: str, number: int, content: object, **values: object) -> str:
    message: dict[str, object] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"msg_{number}", "model": "claude-x", "usage": {"output_tokens": 7}}
    return json.dumps(
        {
            "type": kind,
            "uuid": f"00000000-0000-4000-8000-{number:012d}",
            "parentUuid": None if number == 1 else f"00000000-0000-4000-8000-{number - 1:012d}",
            "sessionId": SESSION,
            "timestamp": f"2026-11-30T10:00:{number:02d}.000Z",
            "cwd": "/home/ana/shop",
            "version": "2.1.0",
            "message": message,
            **values,
        }
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with one Claude Code session of four messages and one malformed line."""
    folder = tmp_path / "home" / ".claude" / "projects" / "-home-ana-shop"
    folder.mkdir(parents=True)
    lines = [
        line("user", 1, "Add a test"),
        line("assistant", 2, [{"type": "text", "text": "Done."}]),
        '{"type":"user","message":{"content":"torn',
        line("user", 3, "Thanks"),
        line("assistant", 4, [{"type": "text", "text": "Welcome."}]),
    ]
    (folder / f"{SESSION}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "home"


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(crystal, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_import_tells_what_it_did(home: Path, tmp_path: Path) -> None:
    database = tmp_path / "my crystal.db"
    output = run("import", database, "--home", home).output
    assert "Source       New  Updated  Unchanged  Skipped  Errors" in output
    assert "Claude Code    1        0          0        0       0" in output
    assert "1 malformed record: `datasette crystal log" in output
    assert f"Now run: datasette '{database}'" in output  # as one may paste it
    assert query(database, "select count(*), sum(output_tokens) from messages") == [(4, 14)]
    before = file_hash(database)
    output = run("import", database, "--home", home).output
    assert "Claude Code    0        0          1        0       0" in output
    assert f"{database} is up to date." in output
    assert file_hash(database) == before


def test_import_as_json(home: Path, tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    report = json.loads(run("import", database, "--home", home, "--json").output)
    assert report["database"] == str(database) and report["changed"] is True
    assert report["sources"]["claude-code"]["new"] == 1
    assert report["sources"]["claude-code"]["malformed_records"] == 1
    assert report["problems"] == []


def test_quiet_says_nothing(home: Path, tmp_path: Path) -> None:
    assert run("import", tmp_path / "c.db", "--home", home, "-q").output == ""


def test_only_the_sources_that_are_asked_for(home: Path, tmp_path: Path) -> None:
    output = run("import", tmp_path / "c.db", "--home", home, "-s", "codex").output
    assert "No conversations found" in output
    output = run("import", tmp_path / "c.db", "--home", home, "-s", "nonsense", code=2).output
    assert "claude-code" in output


def test_a_root_beside_the_home(home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    root = f"claude-code={home / '.claude'}"
    output = run("import", tmp_path / "c.db", "--home", empty, "--root", root).output
    assert "Claude Code    1" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--home", "/no/such/home"], "does not exist"),
        (["--root", "codex"], "codex=/path/to/directory"),
        (["--root", "codex=/no/such/place"], "does not exist"),
        (["--since", "yesterday"], "2026-11-30"),
        (["--min-messages", "few"], "few"),
    ],
)
def test_wrong_usage_is_explained(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(crystal, ["import", str(tmp_path / "c.db"), *arguments])
    assert result.exit_code in (1, 2) and said in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "c.db").exists()


def test_a_file_that_is_no_crystal_database(home: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database\n" * 100)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("create table mine (id)")
    connection.close()
    for path in (notes, other):
        before = path.read_bytes()
        for command in (["import", path, "--home", home], ["log", path]):
            output = run(*command, code=1).output
            assert output.startswith("Error: ") and output.count("\n") == 1
        assert path.read_bytes() == before
    assert run("log", tmp_path / "absent.db", code=1).output.startswith("Error: ")


def test_what_cannot_be_opened_gives_exit_code_1(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = plugins.get_adapters()["claude-code"]

    def refuse(meta: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(adapter), "parse", lambda self, meta: refuse(meta))
    result = run("import", tmp_path / "c.db", "--home", home, code=1)
    assert "Permission denied" in result.output
    assert "Claude Code    0        0          0        0       1" in result.output


def test_sources(home: Path) -> None:
    output = run("sources", "--home", home).output
    assert "Claude Code" in output and str(home / ".claude") in output and "30 days" in output
    found = json.loads(run("sources", "--home", home, "--json").output)
    assert found["claude-code"]["conversations"] == 1
    assert found["codex"] is None


def test_log(home: Path, tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    run("import", database, "--home", home)
    output = run("log", database).output
    assert f"{SESSION}.jsonl" in output
    rows = json.loads(run("log", database, "--json").output)
    assert [(row["status"], row["records"], row["malformed_records"]) for row in rows] == [
        ("imported", 5, 1)
    ]


def test_log_tells_what_was_unknown_and_puts_failures_first(home: Path, tmp_path: Path) -> None:
    session = next(home.rglob("*.jsonl"))
    with open(session, "a") as file:
        file.write('{"type":"hologram","uuid":"x"}\n')
    (session.with_name("22222222-2222-4333-8444-555555555555.jsonl")).write_text('{"torn')
    database = tmp_path / "c.db"
    run("import", database, "--home", home)
    output = run("log", database).output
    assert "hologram" in output and "line 6" in output
    output = run("log", database, "-n", 1).output
    assert "1 more file: `--limit 2` shows all." in output
    run("log", database, "-n", 0, code=2)


def test_nothing_found_is_said_as_it_is(home: Path, tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    run("import", database, "--home", home)
    output = run("import", database, "--home", home, "--since", "2100-01-01").output
    assert "Nothing was written since 2100-01-01." in output and "demo" not in output
    output = run("import", database, "--home", home, "--root", "foo=/", code=2).output
    assert "claude-code" in output
    output = run("import", database, "--home", home, "--dry-run", "--full").output
    assert "Claude Code: 1 file to read." in output


def test_demo_and_schema(tmp_path: Path) -> None:
    database = tmp_path / "demo.db"
    assert "sample conversations" in run("demo", database).output
    assert query(database, "select count(*) from conversations where kind = 'main'")[0][0] >= 5
    assert "there already" in run("demo", database, code=1).output
    text = run("schema").output
    assert all(name in text for name in TABLES)
    statements = run("schema", "--sql").output
    assert "conversation_messages" in statements
    connection = sqlite3.connect(":memory:")
    connection.executescript(statements)


def test_nothing_from_outside_reaches_the_terminal() -> None:
    assert (
        printable("a\x1b[2Jb\nc\u202ed")
        == "a\N{REPLACEMENT CHARACTER}[2Jb c\N{REPLACEMENT CHARACTER}d"
    )


def test_every_command_is_documented() -> None:
    for name, command in crystal.commands.items():
        assert command.help, name
        assert f"datasette crystal {name}" in README, f"{name} is not in the README"
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.name} has no help"


def test_every_option_of_import_is_documented() -> None:
    for parameter in crystal.commands["import"].params:
        if isinstance(parameter, click.Option):
            long = next(option for option in parameter.opts if option.startswith("--"))
            assert long in README, f"{long} is not in the README"


def test_sqlite_utils_has_the_same_import(home: Path, tmp_path: Path) -> None:
    from datasette_crystal.sqlite_utils_plugin import register_commands

    group = click.Group("sqlite-utils")
    register_commands(group)
    result = CliRunner().invoke(
        group, ["crystal-import", str(tmp_path / "c.db"), "--home", str(home)]
    )
    assert result.exit_code == 0 and "Claude Code    1" in result.output


def test_another_encoding_does_no_harm(home: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    session = next(home.rglob("*.jsonl"))
    session.rename(session.with_name("数据.jsonl"))
    session.with_name("数据.jsonl").write_text('{"broken')
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    command = [sys.executable, "-m", "datasette_crystal"]
    database = str(tmp_path / "c.db")
    for arguments in (["import", database, "--home", str(home)], ["log", database]):
        result = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, env=environment, check=True
        )
        assert "Traceback" not in result.stderr


def test_serve_says_that_the_port_is_in_use_before_it_imports(tmp_path: Path) -> None:
    import socket

    database = tmp_path / "crystal.db"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = CliRunner().invoke(crystal, ["serve", str(database), "--port", str(port)])
    assert result.exit_code == 1
    assert f"port {port} is in use" in result.output
    assert not database.exists()


def test_serve_opens_the_overview_once_the_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket
    import threading
    import webbrowser

    import datasette.cli

    from datasette_crystal.cli import make_demo

    opened: list[str] = []
    done = threading.Event()
    serving = threading.Event()

    def browse(address: str) -> None:
        opened.append(f"{address} {serving.is_set()}")
        done.set()

    def listen(arguments: list[str], **_: object) -> None:
        assert "--open" not in arguments
        with socket.socket() as server:
            server.bind(("127.0.0.1", int(arguments[arguments.index("--port") + 1])))
            serving.set()
            server.listen()
            assert done.wait(30)

    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(datasette.cli.cli, "main", listen)
    monkeypatch.setenv("HOME", str(tmp_path))
    database = tmp_path / "my archive.db"
    make_demo(database)
    result = CliRunner().invoke(crystal, ["serve", str(database), "--port", "0"])
    assert result.exception is None, result.output
    assert len(opened) == 1
    address, _, answered = opened[0].rpartition(" ")
    # Datasette's way to write a space in a path
    assert address.startswith("http://127.0.0.1:") and address.endswith("/my+archive/-/crystal")
    assert ":0/" not in address and answered == "True"
    assert f"The overview: {address}" in result.output


def test_what_was_skipped_is_said_and_why(home: Path, tmp_path: Path) -> None:
    projects = home / ".claude" / "projects" / "-home-ana-shop"
    for number in (1, 2):
        record = line("user", 1, "only a prompt", sessionId=SESSION.replace("1111", f"222{number}"))
        name = SESSION.replace("1111", f"222{number}")
        (projects / f"{name}.jsonl").write_text(record + "\n", encoding="utf-8")
    (projects / "33333333-2222-4333-8444-555555555555.jsonl").write_text("{}\n", encoding="utf-8")
    database = tmp_path / "crystal.db"
    for _ in range(2):  # and again, where nothing is read
        output = run("import", database, "--home", home).output
        assert (
            "2 conversations skipped, with fewer than 2 prompts and replies: `--min-messages 1` "
            "brings them in." in output
        )
        assert "1 file skipped, with no conversation in it." in output
    output = run("import", database, "--home", home, "--min-messages", "1").output
    assert "conversations skipped" not in output
    assert "1 file skipped, with no conversation in it." in output
