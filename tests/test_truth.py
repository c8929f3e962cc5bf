"""Compares what an import stored with what is independently known of the homes in the fixtures
folder: recorded sessions of real clients, and anonymised real ones. Every home is imported once;
every field is a test of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import FIXTURES, contents, file_hash, query
from truth import (
    FIELDS,
    Found,
    Home,
    Totals,
    check_conversations,
    check_totals,
    compare_tokens,
    load_homes,
    pair,
    read,
    table_totals,
)

from datasette_crystal.adapters import Adapter
from datasette_crystal.importer import Options, run_import
from datasette_crystal.model import Environment
from datasette_crystal.plugins import get_adapters

pytestmark = pytest.mark.fixtures

#: The sources that are compared. A new one needs no more than its name here.
SOURCES = ("claude-code", "codex", "copilot", "cursor", "cursor-cli", "trae")

#: Directories that a source is imported from only when the user names them.
NAMED_ROOTS = {"copilot": "Documents"}

#: (home, session, field) → why the truth is not asked there. Only what ``expected.json`` calls
#: optional or ambiguous, or what ``truth.json`` cannot know: the client did not write it.
EXEMPT: dict[tuple[str, str, str], str] = {
    ("home_cursor_real_1", "6b4c3d09-b30f-4bf8-862f-39b6307657f7", "call_errors"): "the output "
    'says {"rejected":true}: the user refused the command; the truth knows only its status',
    ("home_trae_1", "6dc5ef639051da622320b2fa", "thinking"): "the thought of a step, which the "
    "truth does not list, is kept as thinking",
    **{
        (f"claude-1.0.35/{scenario}", "A", "git_branch"): "this version writes no branch"
        for scenario in ("resume_fork", "tricky_text", "tui_basic")
    },
    **{
        (
            f"claude-2.1.20/{scenario}",
            session,
            "tokens_out",
        ): "this version writes the count of the first piece of an answer and never the last one"
        for scenario, id_ in (
            ("tricky_text", "1e34047e-9c6d-4be4-ae54-508131e0a590"),
            ("tui_compact", "26ede753-e69c-4749-9feb-573af93efabd"),
            ("tui_rewind", "7e64ecd0-8f0f-46fd-87df-b5781798072b"),
        )
        for session in (id_, "claude-code")
    },
    **{
        (f"codex-0.20.0/{scenario}", id_, field): f"a bare rollout holds no {what}"
        for scenario, id_ in (
            ("images", "9850b1e1-b592-473c-8d2d-72e970c27f04"),
            ("tools", "be65f8a8-fecd-445e-a525-2bb774135464"),
            ("tui_main", "c0c4e7f7-4f0c-44e1-8e9c-ace74ca686ef"),
            ("tui_main", "86fdf1bf-7560-477b-8605-c259c5bcb5a3"),
        )
        for field, what in (
            ("tokens_in", "token counts"),
            ("tokens_out", "token counts"),
            ("project", "directory"),
            ("models", "model"),
            ("version", "version"),
        )
    },
    **{
        (f"codex-0.20.0/{scenario}", "codex", side): "a bare rollout holds no token counts"
        for scenario in ("images", "tools", "tui_main")
        for side in ("tokens_in", "tokens_out")
    },
    **{
        ("codex-0.20.0/images", "9850b1e1-b592-473c-8d2d-72e970c27f04", field): "the client sent "
        'the image as a turn of its own, the words after it: "turn started by the client itself; '
        'last input began: What is this?"'
        for field in ("prompts", "attachments", "order")
    },
    **{
        (f"codex-{version}/tui_main", id_, "title"): "this version knows no /rename and sent the "
        'name to the model: "last input began: My thread ümlaut"'
        for version, id_ in (
            ("0.20.0", "c0c4e7f7-4f0c-44e1-8e9c-ace74ca686ef"),
            ("0.47.0", "01a22e67-845e-7fd2-9407-5ae339348920"),
        )
    },
    (
        "codex-0.20.0/tui_main",
        "c0c4e7f7-4f0c-44e1-8e9c-ace74ca686ef",
        "harness",
    ): "a bare rollout has no mark of an interruption",
    (
        "home_main",
        "c1df48ed-4126-4b9d-8fd9-5a2af22590b5",
        "title",
    ): '"title: the last custom-title is harness text; the next in rank is also acceptable"',
    (
        "home_main",
        "17638b69-22e4-5fc8-a2c5-87bb9d7777ee",
        "title",
    ): '"first prompt" of a fork, and "11 records copied: keep, flag or drop; if dropped only line '
    '> last copied line counts": the first prompt that is its own',
    (
        "home_cursor_1",
        "0d3dceab-022d-5381-a03d-da786f1f3c5d",
        "calls",
    ): "the id of the call that is expected stands in no file of the home",
    (
        "home_main",
        "491c9427-a8fa-4e0e-b0e5-8535825227e1",
        "parent",
    ): '"records also carry [another session id]", "6 message ids also lie in another file of this '
    'home (resume/fork copy)"',
}

HOMES = {home.name: home for home in load_homes(FIXTURES, SOURCES)} if FIXTURES else {}


def adapters() -> dict[str, Adapter]:
    registered = get_adapters()
    return {name: registered[name] for name in SOURCES}


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Relative path → (size, mtime_ns, content) of everything in a directory."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = "directory"
        found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns, content)
    return found


def copy(source: Path, target: Path) -> None:
    """A copy that may be changed, in the place of what was there."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("expected.json"))
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        if not folder.stat().st_mode & stat.S_IWUSR:
            folder.chmod(folder.stat().st_mode | stat.S_IRWXU)


def import_home(database: Path, home: Path, machine: str = "m1") -> list[str]:
    """Imports everything of a home; returns what could not be read."""
    roots = {
        source: (home / folder,)
        for source, folder in NAMED_ROOTS.items()
        if (home / folder).is_dir()
    }
    options = Options(min_messages=1, machine=machine)
    env = Environment(home, "linux", {}, roots)
    return run_import(database, env, adapters(), options).problems


@dataclass
class Imported:
    """A home after its import: what the database holds, paired with the truth (``left`` is what no
    truth speaks of), what it held after each state, and what the import and a second one changed
    (nothing, it is hoped)."""

    home: Home
    folder: Path
    database: Path
    pairs: dict[str, Found | None]
    left: list[Found]
    after: list[list[Found]]
    problems: list[str]
    changed_sources: list[str]
    changed_database: bool


Import = Callable[[str], Imported]


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Import:
    """Imports a home once, whatever the number of tests that look at it."""
    cache: dict[str, Imported] = {}

    def get(name: str) -> Imported:
        if name not in cache:
            cache[name] = _import(HOMES[name], tmp_path_factory.mktemp("home"))
        return cache[name]

    return get


def _import(home: Home, folder: Path) -> Imported:
    place, database = folder / "home", folder / "crystal.db"
    after, problems, changed = [], [], set()
    for state in home.states:
        copy(state, place)
        before = snapshot(place)
        problems += import_home(database, place)
        now = snapshot(place)
        changed |= {
            path for path in before.keys() | now.keys() if before.get(path) != now.get(path)
        }
        after.append(read(database) if database.exists() else [])
    first = file_hash(database) if database.exists() else ""
    import_home(database, place)
    second = file_hash(database) if database.exists() else ""
    pairs, left = pair(home, after[-1])
    return Imported(
        home, place, database, pairs, left, after, problems, sorted(changed), first != second
    )


def faults(one: Imported, field: str, session: str | None = None) -> dict[str, list[str]]:
    """Session → what is wrong with a field of it, of one session or of all."""
    found: dict[str, list[str]] = {}
    for truth in one.home.conversations:
        if session not in (None, truth.key) or not FIELDS[field].known(truth):
            continue
        conversation = one.pairs[truth.key]
        if conversation is None:
            found[truth.key] = ["the conversation is lost"]
            continue
        problems = FIELDS[field].check(one.home, truth, conversation)
        if problems:
            found[truth.key] = problems
    return found


def token_faults(one: Imported, source: str, side: str) -> list[str]:
    tokens = table_totals(one.database, source).tokens
    return compare_tokens(source, side, one.home.tokens[source], tokens)


def _fields() -> list[tuple[str, str]]:
    return [
        (name, field)
        for name, home in HOMES.items()
        for field in FIELDS
        if any(FIELDS[field].known(truth) for truth in home.conversations)
    ]


@pytest.mark.parametrize(("name", "field"), _fields())
def test_field(imported: Import, name: str, field: str) -> None:
    wrong = faults(imported(name), field)
    assert {key: lines for key, lines in wrong.items() if (name, key, field) not in EXEMPT} == {}


@pytest.mark.parametrize("name", HOMES)
def test_conversations(imported: Import, name: str) -> None:
    one = imported(name)
    assert check_conversations(one.home, one.pairs, one.left) == []


@pytest.mark.parametrize("side", ["tokens_in", "tokens_out"])
@pytest.mark.parametrize(
    ("name", "source"), [(name, source) for name in HOMES for source in HOMES[name].tokens]
)
def test_tokens_of_the_whole_home(imported: Import, name: str, source: str, side: str) -> None:
    wrong = token_faults(imported(name), source, side)
    assert wrong == [] or (name, source, side) in EXEMPT, wrong


@pytest.mark.parametrize(
    ("name", "source"), [(n, source) for n in HOMES for source in sorted(HOMES[n].sources())]
)
def test_everything_is_counted_once(imported: Import, name: str, source: str) -> None:
    one = imported(name)
    totals: Totals = table_totals(one.database, source)
    assert check_totals(one.home, source, totals) == []


@pytest.mark.parametrize("name", [name for name, home in HOMES.items() if home.files])
def test_every_record_is_accounted_for(imported: Import, name: str) -> None:
    one = imported(name)
    wrong = []
    for file in one.home.files:
        rows = query(
            one.database,
            "select records, malformed_records, unknown_records, kept_records + ignored_records "
            "+ unknown_records + malformed_records from import_log where id = "
            "(select max(id) from import_log where file_path = ?)",
            str(one.folder / file.path),
        )
        expected = (file.lines, file.malformed, file.unknown, file.lines)
        if rows != [expected]:
            wrong.append(f"{file.path}: {expected} expected, {rows} found")
        types = {
            type_
            for (type_,) in query(
                one.database,
                "select u.type from unknown_records u join source_files f "
                "on f.id = u.source_file_id where f.path = ?",
                str(one.folder / file.path),
            )
        }
        if types != file.unknown_types:
            wrong.append(f"{file.path}: {file.unknown_types} are unknown, not {types}")
    assert wrong == []


@pytest.mark.parametrize("name", HOMES)
def test_only_what_is_encrypted_is_unreadable(imported: Import, name: str) -> None:
    one = imported(name)
    assert bool(one.problems) == bool(one.home.history_only), one.problems


@pytest.mark.parametrize("name", HOMES)
def test_sources_stay_untouched(imported: Import, name: str) -> None:
    assert imported(name).changed_sources == []


@pytest.mark.parametrize("name", HOMES)
def test_a_second_import_changes_no_byte(imported: Import, name: str) -> None:
    assert not imported(name).changed_database


@pytest.mark.parametrize("name", [name for name, home in HOMES.items() if len(home.states) > 1])
def test_every_message_keeps_its_row(imported: Import, name: str) -> None:
    """The tool rewrote its files between two imports: nothing doubled, moved or gone, and another
    content only where the truth has the new one and no longer the old one."""
    one = imported(name)
    before, after = (
        {
            (found.session_id, row.message_id): row.content
            for found in state
            for row in found.rows
            if row.state != "gone"
        }
        for state in one.after
    )
    assert before
    assert before.keys() <= after.keys()
    said = {
        text.text
        for truth in one.home.conversations
        for text in (*truth.prompts, *(part for reply in truth.replies for part in reply))
    }
    for key, content in before.items():
        assert after[key] == content or (after[key] in said and content not in said)
    assert query(one.database, "select * from source_files where missing_since is not null") == []


@pytest.mark.parametrize(("name", "session", "field"), [key for key in EXEMPT if key[0] in HOMES])
def test_an_exemption_is_needed(imported: Import, name: str, session: str, field: str) -> None:
    one = imported(name)
    wrong: object
    if session in SOURCES:
        wrong = token_faults(one, session, field)
    else:
        wrong = faults(one, field, session)
    assert wrong, f"no longer needed: {EXEMPT[name, session, field]}"


# ------------------------------------------------------------------------------- many homes at once


def test_any_order_gives_the_same_content(tmp_path: Path) -> None:
    """Every home into one database, then the other way round and with the files' ages turned round,
    so that forks and subagents come before their parents."""
    names = list(HOMES)
    databases = []
    for backwards in (False, True):
        database = tmp_path / f"{backwards}.db"
        for number, name in enumerate(reversed(names) if backwards else names):
            place = tmp_path / name.replace("/", "_")
            for state in HOMES[name].states:
                copy(state, place)
                if backwards:
                    _turn_ages(place)
                import_home(database, place)
            assert number < 3 or database.stat().st_size
        databases.append(contents(database))
    known = sum(len(home.conversations) for home in HOMES.values())
    counted = "select count(*) from conversations where kind <> 'prompt-history'"
    assert query(database, counted) == [(known,)]
    for table, rows in databases[0].items():
        assert databases[1][table] == rows, table


def _turn_ages(folder: Path) -> None:
    """Gives each file an age in the reverse order of names: children and copies, whose times are
    alike in the fixtures, become older than their parents."""
    files = sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True)
    for number, path in enumerate(files):
        os.utime(path, ns=(0, 1_600_000_000_000_000_000 + number * 1_000_000_000))


def _missing(database: Path) -> list[str]:
    return [
        path
        for (path,) in query(
            database, "select path from source_files where missing_since is not null"
        )
    ]


def test_two_machines_do_not_mark_each_other_missing(tmp_path: Path) -> None:
    """Two machines have their homes at the same place, as /home/dev is."""
    database, place = tmp_path / "crystal.db", tmp_path / "home"
    names = ["claude-2.1.332/basic", "codex-0.171.0/archive", "home_main"]
    for machine, name in enumerate(names):
        copy(HOMES[name].states[0], place)
        assert import_home(database, place, f"m{machine}") == []
    assert _missing(database) == []
    with sqlite3.connect(database) as connection:
        gone = connection.execute(
            "select count(*) from conversations where missing_since is not null"
        ).fetchone()
    assert gone == (0,)
    # the same home on the machine of another one would be missing everything
    import_home(database, place, "m0")
    assert len(_missing(database)) == len(HOMES[names[0]].files)
