"""The adapter kit passes a good adapter and names the rule that a bad one breaks."""

import dataclasses
import importlib.util
import itertools
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from notetaker import notetaker_home

from datasette_crystal.model import (
    Attachment,
    ConversationMeta,
    Environment,
    FileEdit,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Tokens,
    Unreadable,
)
from datasette_crystal.plugins import get_adapters
from datasette_crystal.samples import HOME
from datasette_crystal.testing import check_adapter, make_home


def _example() -> Any:
    path = Path(__file__).parent / "example_adapter" / "crystal_notetaker.py"
    spec = importlib.util.spec_from_file_location("crystal_notetaker_example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Notetaker


Notetaker = _example()


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return notetaker_home(tmp_path / "home")


def test_good_adapter_passes(env: Environment) -> None:
    check_adapter(Notetaker(), env)
    check_adapter(Notetaker(), env.home)
    check_adapter(Notetaker(), str(env.home), damage=False)


@pytest.mark.parametrize("name", ("claude-code", "codex"))
def test_built_in_adapters_pass(name: str) -> None:
    check_adapter(get_adapters()[name], HOME, max_files=30)


def test_variables_and_named_roots_are_checked_too(tmp_path: Path) -> None:
    notetaker_home(tmp_path / "one")
    env = Environment(
        tmp_path / "home",
        variables={"NOTETAKER_HOME": str(tmp_path / "home" / "notes")},
        roots={"notetaker": (tmp_path / "one" / ".notetaker",)},
    )
    (tmp_path / "home").mkdir()
    check_adapter(Notetaker(), env)


def test_make_home_writes_what_it_is_given(tmp_path: Path) -> None:
    env = make_home(
        tmp_path / "home",
        {"a/b.json": {"ü": 1}, "a/c.jsonl": [{"x": 1}, "torn {"], "t.txt": "text", "b": b"\0"},
        variables={"TOOL_HOME": "~/a"},
    )
    assert env.home == tmp_path / "home"
    assert (env.home / "a" / "b.json").read_bytes() == '{"ü": 1}'.encode()
    assert (env.home / "a" / "c.jsonl").read_bytes() == b'{"x": 1}\ntorn {\n'
    assert (env.home / "t.txt").read_bytes() == b"text"
    assert (env.home / "b").read_bytes() == b"\0"
    assert env.directory_variable("TOOL_HOME") == env.home / "a"


# ------------------------------------------------------------------------------ broken adapters

BROKEN: dict[str, tuple[Callable[[], Any], str]] = {}


def broken(message: str) -> Callable[[Any], Any]:
    """Notes an adapter (a class, or a function that gives one) and what the kit must say."""

    def note(make: Any) -> Any:
        BROKEN[make.__name__] = (make, message)
        return make

    return note


def with_attribute(**attributes: Any) -> Any:
    return type("Changed", (Notetaker,), attributes)()


def with_scan(change: Callable[[list[Any]], list[Any]]) -> Any:
    class Changed(Notetaker):  # type: ignore[misc,valid-type]
        def scan(self, env: Environment) -> Iterator[Any]:
            yield from change(list(super().scan(env)))

    return Changed()


def with_info(change: Callable[[SourceInfo], Any]) -> Any:
    class Changed(Notetaker):  # type: ignore[misc,valid-type]
        def detect(self, env: Environment) -> Any:
            info = super().detect(env)
            return info and change(info)

    return Changed()


def with_parsed(change: Callable[[Parsed], Any]) -> Any:
    class Changed(Notetaker):  # type: ignore[misc,valid-type]
        def parse(self, meta: ConversationMeta) -> Any:
            return change(super().parse(meta))

    return Changed()


def with_conversation(change: Callable[[ParsedConversation], Any]) -> Any:
    def changed(parsed: Parsed) -> Parsed:
        for conversation in parsed.conversations:
            change(conversation)
        return parsed

    return with_parsed(changed)


def with_first_message(**fields: Any) -> Any:
    def change(conversation: ParsedConversation) -> None:
        for name, value in fields.items():
            setattr(conversation.messages[0], name, value)

    return with_conversation(change)


def with_call(**fields: Any) -> Any:
    def change(conversation: ParsedConversation) -> None:
        for message in conversation.messages:
            for call in message.tool_calls:
                for name, value in fields.items():
                    setattr(call, name, value)

    return with_conversation(change)


def with_records(**fields: Any) -> Any:
    def change(parsed: Parsed) -> Parsed:
        for name, value in fields.items():
            setattr(parsed.files[0], name, value)
        return parsed

    return with_parsed(change)


def raising(method: str, error: BaseException) -> Any:
    def fails(self: Any, *arguments: Any) -> Any:
        raise error

    return type("Changed", (Notetaker,), {method: fails})()


class Stranger:
    """Looks like a message as far as model.Messages asks."""

    content = ""
    thinking = None


SIMPLE: list[tuple[str, Callable[[], Any], str]] = [
    ("no adapter", lambda: object(), "is no adapter"),
    ("name", lambda: with_attribute(name="Note Taker"), "name 'Note Taker' must be"),
    ("display_name", lambda: with_attribute(display_name=" "), "display_name is empty"),
    ("parser_version", lambda: with_attribute(parser_version=0), "parser_version 0"),
    # detect
    ("detect raises", lambda: raising("detect", OSError("gone")), "detect() raised OSError: gone"),
    ("detect gives no info", lambda: with_info(lambda info: True), "neither a SourceInfo nor None"),
    ("other source", lambda: with_info(lambda i: replace(i, source="x")), "says source 'x'"),
    ("no roots", lambda: with_info(lambda i: replace(i, roots=[])), "gives no roots"),
    ("text root", lambda: with_info(lambda i: replace(i, roots=["/"])), "that are no Path"),
    ("count", lambda: with_info(lambda i: replace(i, conversations=-1)), "-1 is no count"),
    ("oldest", lambda: with_info(lambda i: replace(i, oldest="2026-11-01")), "oldest '2026-11-01'"),
    (
        "unreadable",
        lambda: with_info(lambda i: replace(i, unreadable=[Unreadable("x", "")])),
        "unreadable needs",
    ),
    ("warning", lambda: with_info(lambda i: replace(i, warnings=[7])), "a warning is int"),
    # scan
    ("scan raises", lambda: raising("scan", KeyError("x")), "scan() raised KeyError"),
    ("scan gives text", lambda: with_scan(lambda m: ["x"] if m else m), "scan() gives str"),
    (
        "scan source",
        lambda: with_scan(lambda m: [replace(x, source="x") for x in m]),
        "scan() says source 'x'",
    ),
    (
        "problem source",
        lambda: with_scan(lambda m: [*m, ScanProblem("x", "", "why")] if m else m),
        "a ScanProblem says source 'x'",
    ),
    (
        "problem reason",
        lambda: with_scan(lambda m: [*m, ScanProblem("notetaker", "", "")] if m else m),
        "without a reason",
    ),
    ("twice", lambda: with_scan(lambda m: [*m, *m]), "gives session 'boat' twice"),
    (
        "file twice",
        lambda: with_scan(lambda m: [*m, *(replace(x, session_id=x.session_id + "2") for x in m)]),
        "boat.json '' twice",
    ),
    (
        "empty session",
        lambda: with_scan(lambda m: [replace(x, session_id="") for x in m]),
        "an empty session_id",
    ),
    (
        "no files",
        lambda: with_scan(lambda m: [replace(x, files=()) for x in m]),
        "no tuple of files",
    ),
    (
        "root",
        lambda: with_scan(
            lambda m: [replace(x, files=(replace(x.files[0], root="/"),)) for x in m]
        ),
        "root '/' is not one of detect().roots",
    ),
    (
        "size",
        lambda: with_scan(lambda m: [replace(x, files=(replace(x.files[0], size=1),)) for x in m]),
        "are not those of the file",
    ),
    (
        "part without marker",
        lambda: with_scan(
            lambda m: [replace(x, files=(replace(x.files[0], part="p"),)) for x in m]
        ),
        "needs a marker",
    ),
    (
        "hints cannot be pickled",
        lambda: with_scan(lambda m: [replace(x, hints=lambda: 0) for x in m]),
        "cannot be pickled",
    ),
    # parse
    (
        "parse raises",
        lambda: raising("parse", KeyError("id")),
        "raised KeyError: 'id' (on the home",
    ),
    ("parse always fails", lambda: raising("parse", ValueError("no")), "raised ValueError: no"),
    ("parse gives none", lambda: with_parsed(lambda p: None), "does not give a Parsed"),
    (
        "records not told",
        lambda: with_parsed(lambda p: Parsed(p.conversations)),
        "does not account for the records of",
    ),
    ("records do not add up", lambda: with_records(kept=3), "are not kept 3 + ignored"),
    ("negative records", lambda: with_records(malformed=-1, records=5), "count -1 is no count"),
    ("no sample", lambda: with_records(samples=[]), "unknown records without a sample"),
    (
        "conversation source",
        lambda: with_conversation(lambda c: setattr(c, "source", "x")),
        "parse() says source 'x'",
    ),
    (
        "kind",
        lambda: with_conversation(lambda c: setattr(c, "kind", "chat")),
        "kind 'chat' is none",
    ),
    (
        "fidelity",
        lambda: with_conversation(lambda c: setattr(c, "fidelity", "good")),
        "fidelity 'good'",
    ),
    (
        "title origin",
        lambda: with_conversation(lambda c: setattr(c, "title_origin", "x")),
        "title_origin 'x'",
    ),
    (
        "title",
        lambda: with_conversation(lambda c: setattr(c, "title", 7)),
        "title is int, not text",
    ),
    (
        "start",
        lambda: with_conversation(lambda c: setattr(c, "started_at", "2026-11-01T10:00:00Z")),
        "started_at '2026-11-01T10:00:00Z' is not as text.iso_time() gives it",
    ),
    (
        "end before start",
        lambda: with_conversation(
            lambda c: (
                setattr(c, "started_at", "2026-11-02T00:00:00.000Z"),
                setattr(c, "ended_at", "2026-11-01T00:00:00.000Z"),
            )
        ),
        "ends before it starts",
    ),
    (
        "own parent",
        lambda: with_conversation(lambda c: setattr(c, "parent_session_id", c.session_id)),
        "its own parent",
    ),
    ("price", lambda: with_conversation(lambda c: setattr(c, "cost_usd", -1)), "is no price"),
    (
        "list of messages",
        lambda: with_conversation(lambda c: setattr(c, "messages", list(c.messages))),
        "must be model.Messages",
    ),
    (
        "no message",
        lambda: with_conversation(lambda c: c.messages.append(Stranger())),  # type: ignore[arg-type]
        "must be ParsedMessage",
    ),
    ("empty uid", lambda: with_first_message(uid=""), "a message without uid"),
    (
        "uid twice",
        lambda: with_conversation(
            lambda c: c.messages.append(ParsedMessage(c.messages[0].uid, "user", "prompt"))
        ),
        "uid 'a1' is there twice",
    ),
    ("message kind", lambda: with_first_message(kind="question"), "kind 'question' is none of"),
    ("role", lambda: with_first_message(role="human"), "role 'human' is none of"),
    ("state", lambda: with_first_message(state="new"), "state 'new' is none of"),
    ("person", lambda: with_first_message(role="assistant"), "a prompt needs role user"),
    ("model", lambda: with_first_message(kind="reply"), "a reply needs role assistant"),
    ("content", lambda: with_first_message(content=None), "content is NoneType"),
    ("time", lambda: with_first_message(timestamp="today"), "timestamp 'today'"),
    ("record", lambda: with_first_message(record=-1), "record -1"),
    ("tokens", lambda: with_first_message(tokens=Tokens(input=-5)), "input tokens -5"),
    ("tokens type", lambda: with_first_message(tokens={"in": 5}), "must be Tokens"),
    ("inherited", lambda: with_first_message(inherited=True), "but no parent_session_id"),
    ("attachment", lambda: with_first_message(attachments=[Attachment("")]), "needs a kind"),
    (
        "attachment text",
        lambda: with_first_message(attachments=[Attachment("text", content="x")]),  # type: ignore[arg-type]
        "must be bytes",
    ),
    ("call name", lambda: with_call(name=""), "it has no name"),
    ("call status", lambda: with_call(status="fine"), "status 'fine' is none of"),
    ("surrogates", lambda: with_call(input='"\ud800"'), "input is not JSON"),
    ("call input", lambda: with_call(input="{'a': 1}"), "input is not JSON"),
    ("call output", lambda: with_call(output={"a": 1}), "output is dict"),
    ("exit code", lambda: with_call(exit_code="0"), "exit_code '0'"),
    ("duration", lambda: with_call(duration_ms=1.5), "duration_ms 1.5"),
    ("edit action", lambda: with_call(edits=[FileEdit("a", "modify")]), "action of an edit"),
    ("edit path", lambda: with_call(edits=[FileEdit("")]), "an edit without path"),
    ("edit lines", lambda: with_call(edits=[FileEdit("a", lines_added=-1)]), "lines_added -1"),
]


@broken("finds nothing in the home")
class FindsNothing(Notetaker):  # type: ignore[misc,valid-type]
    def detect(self, env: Environment) -> None:
        return None


@broken("finds something in an empty home; it must give None")
class AlwaysThere(Notetaker):  # type: ignore[misc,valid-type]
    def detect(self, env: Environment) -> SourceInfo:
        return SourceInfo("notetaker", [env.home / ".notetaker"])


@broken("wrote into an empty home")
class MakesItsFolder(Notetaker):  # type: ignore[misc,valid-type]
    def scan(self, env: Environment) -> Iterator[Any]:
        found = list(super().scan(env))
        if not found:
            (env.home / ".notetaker").mkdir(exist_ok=True)
        return iter(found)


@broken("no message was found")
class DropsAll(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        super().parse(meta)
        return Parsed([])


@broken("opens")
class ReadsInScan(Notetaker):  # type: ignore[misc,valid-type]
    def scan(self, env: Environment) -> Iterator[Any]:
        for meta in super().scan(env):
            title = Path(meta.files[0].path).read_bytes()[:20]
            yield replace(meta, marker=title.hex())


@broken("is not there")
class InventsFiles(Notetaker):  # type: ignore[misc,valid-type]
    def scan(self, env: Environment) -> Iterator[Any]:
        for meta in super().scan(env):
            file = meta.files[0]
            other = SourceFile(file.path + ".old", file.root, 1, 1)
            yield replace(meta, files=(file, other))


@broken("does not lie in its root")
class ReadsElsewhere(Notetaker):  # type: ignore[misc,valid-type]
    def scan(self, env: Environment) -> Iterator[Any]:
        for meta in super().scan(env):
            other = SourceFile.at(Path(__file__), Path(meta.files[0].root))
            yield replace(meta, files=(*meta.files, other))
            return


@broken("a second scan() gives something else")
class ScansAtRandom(Notetaker):  # type: ignore[misc,valid-type]
    numbers = itertools.count()

    def scan(self, env: Environment) -> Iterator[Any]:
        for meta in super().scan(env):
            yield replace(meta, marker=str(next(self.numbers)))


@broken("conversations[0].title is 'Empty', then 'Empty 2'")
class RemembersTitles(Notetaker):  # type: ignore[misc,valid-type]
    """Keeps state between conversations."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}

    def parse(self, meta: ConversationMeta) -> Parsed:
        parsed = super().parse(meta)
        number = self.count[meta.session_id] = self.count.get(meta.session_id, 0) + 1
        if number > 1:
            parsed.conversations[0].title += f" {number}"
        return parsed


@broken("gives something else: conversations[0].messages has")
class ForgetsRepeats(Notetaker):  # type: ignore[misc,valid-type]
    """Keeps what it has seen, as if one reading were all there is."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def parse(self, meta: ConversationMeta) -> Parsed:
        parsed = super().parse(meta)
        conversation = parsed.conversations[0]
        fresh = [m for m in conversation.messages if (meta.session_id, m.uid) not in self.seen]
        self.seen.update((meta.session_id, message.uid) for message in fresh)
        conversation.messages = type(conversation.messages)(fresh)
        return parsed


@broken("the uids of 'boat' are not stable")
class UidsOfThePlace(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        parsed = super().parse(meta)
        for message in parsed.conversations[0].messages:
            message.uid = f"{meta.files[0].path}:{message.uid}"
        return parsed


@broken("session_id '/")
class SessionsOfThePlace(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        parsed = super().parse(meta)
        parsed.conversations[0].session_id = meta.files[0].path
        return parsed


@broken("left a new file in the source")
class LeavesALock(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        Path(meta.files[0].path + ".lock").write_text("")
        return super().parse(meta)


@broken("changed the mtime or size of")
class Touches(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        # on the last reading of the home only
        self.readings = getattr(self, "readings", 0) + 1
        if self.readings == 4:
            os.utime(meta.files[0].path, (1, 1))
        return super().parse(meta)


@broken("removed a file of the source")
class CleansUp(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        parsed = super().parse(meta)
        self.readings = getattr(self, "readings", 0) + 1
        if self.readings == 4:
            os.unlink(meta.files[0].path)
        return parsed


@broken("raised AttributeError")
class TrustsTheFile(Notetaker):  # type: ignore[misc,valid-type]
    """Takes every document for an object."""

    def parse(self, meta: ConversationMeta) -> Parsed:
        import orjson

        orjson.loads(Path(meta.files[0].path).read_bytes()).get("entries")
        return super().parse(meta)


@broken("raised RecursionError")
class RecursesDeep(Notetaker):  # type: ignore[misc,valid-type]
    def parse(self, meta: ConversationMeta) -> Parsed:
        data = Path(meta.files[0].path).read_bytes()
        if data.startswith(b"[[[["):
            raise RecursionError("maximum recursion depth exceeded")
        return super().parse(meta)


@broken("is not there")
class CachesTheScan(Notetaker):  # type: ignore[misc,valid-type]
    """Gives the metas of the first scan for ever."""

    def __init__(self) -> None:
        self.metas: dict[Path, list[Any]] = {}

    def scan(self, env: Environment) -> Iterator[Any]:
        if env.home not in self.metas:
            self.metas[env.home] = list(super().scan(env))
        return iter(self.metas[env.home])


@broken("a second scan() gives something else than the first")
class DiesOfClose(Notetaker):  # type: ignore[misc,valid-type]
    closed = False

    def close(self) -> None:
        self.closed = True

    def scan(self, env: Environment) -> Iterator[Any]:
        return iter(()) if self.closed else super().scan(env)


@broken("close() raised RuntimeError")
class CannotClose(Notetaker):  # type: ignore[misc,valid-type]
    def close(self) -> None:
        raise RuntimeError("nothing is open")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_adapter_is_told(env: Environment, name: str) -> None:
    make, message = BROKEN[name]
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_adapter(make(), env)


@pytest.mark.parametrize(
    ("make", "message"), [case[1:] for case in SIMPLE], ids=[case[0] for case in SIMPLE]
)
def test_broken_rule_is_told(env: Environment, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_adapter(make(), env, damage=False)


def test_messages_name_the_adapter(env: Environment) -> None:
    with pytest.raises(AssertionError, match=r"^notetaker: "):
        check_adapter(with_first_message(role="human"), env)


# ----------------------------------------------------------------------------- shared databases


class InDatabase:
    """Several conversations in one SQLite file, opened once and closed by close()."""

    name = "in-database"
    display_name = "In a database"
    parser_version = 1
    mode = "?mode=ro&immutable=1"

    def __init__(self) -> None:
        self.open: dict[str, sqlite3.Connection] = {}

    def _path(self, env: Environment) -> Path:
        return env.home / ".tool" / "chats.db"

    def _rows(self, path: str, sql: str, *values: str) -> list[tuple[Any, ...]]:
        if path not in self.open:
            uri = Path(path).as_uri() + self.mode
            self.open[path] = sqlite3.connect(uri, uri=True)
        try:
            return self.open[path].execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def detect(self, env: Environment) -> SourceInfo | None:
        path = self._path(env)
        return SourceInfo(self.name, [path.parent]) if path.is_file() else None

    def scan(self, env: Environment) -> Iterator[Any]:
        path = self._path(env)
        if not path.is_file():
            return
        file = SourceFile.at(path, path.parent)
        try:
            rows = self._rows(file.path, "select id, changed from chats order by id")
        except OSError as error:
            yield ScanProblem(self.name, file.path, str(error), file.root)
            return
        for id_, changed in rows:
            yield ConversationMeta(
                self.name, str(id_), (replace(file, part=str(id_)),), str(changed)
            )

    def parse(self, meta: ConversationMeta) -> Parsed:
        from datasette_crystal.model import FileRecords

        file = meta.files[0]
        conversation = ParsedConversation(self.name, meta.session_id)
        rows = self._rows(file.path, "select rowid, text from notes where chat = ?", file.part)
        for rowid, text in rows:
            content = text if isinstance(text, str) else ""
            conversation.messages.append(
                ParsedMessage(f"n{rowid}", "user", "prompt", content.replace("\0", "?"))
            )
        records = FileRecords(file.path, file.part, len(rows), len(rows))
        return Parsed([conversation], [records])

    def close(self) -> None:
        while self.open:
            self.open.popitem()[1].close()


@pytest.fixture
def database_home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / ".tool").mkdir(parents=True)
    connection = sqlite3.connect(home / ".tool" / "chats.db")
    connection.executescript(
        "create table chats (id text, changed integer);"
        "create table notes (chat text, text text);"
        "insert into chats values ('a', 1), ('b', 2);"
        "insert into notes values ('a', 'Hello'), ('b', 'Hi'), ('a', 'Bye');"
    )
    connection.close()
    return home


def test_conversations_in_one_database(database_home: Path) -> None:
    check_adapter(InDatabase(), database_home)


def test_database_opened_for_writing_is_told(database_home: Path) -> None:
    class Writes(InDatabase):
        mode = "?mode=rw"

        def parse(self, meta: ConversationMeta) -> Parsed:
            parsed = super().parse(meta)
            connection = self.open[meta.files[0].path]
            connection.execute("pragma journal_mode=wal")
            connection.execute("pragma user_version=7")
            return parsed

    adapter = Writes()
    try:
        with pytest.raises(AssertionError, match=r"chats\.db"):
            check_adapter(adapter, database_home)
    finally:
        adapter.close()


def test_database_error_that_escapes_is_told(database_home: Path) -> None:
    class Leaks(InDatabase):
        def parse(self, meta: ConversationMeta) -> Parsed:
            parsed = super().parse(meta)
            if not dataclasses.is_dataclass(meta) or not len(parsed.conversations[0].messages):
                raise sqlite3.DatabaseError("malformed")
            path = meta.files[0].path
            if Path(path).stat().st_size != meta.files[0].size:
                raise sqlite3.DatabaseError("malformed")
            return parsed

        def _rows(self, path: str, sql: str, *values: str) -> list[tuple[Any, ...]]:
            try:
                return super()._rows(path, sql, *values)
            except OSError as error:
                if "notes" in sql:
                    raise sqlite3.DatabaseError("malformed") from error
                raise

    adapter = Leaks()
    try:
        with pytest.raises(AssertionError, match="raised DatabaseError: malformed"):
            check_adapter(adapter, database_home)
    finally:
        adapter.close()
