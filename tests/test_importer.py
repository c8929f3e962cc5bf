"""Scanning, skipping, logging, and what happens when sources vanish or fail."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from conftest import (
    ToyAdapter,
    call,
    check_invariants,
    contents,
    conversation,
    file_hash,
    message,
    query,
    shown,
    store_all,
)

from datasette_crystal import importer
from datasette_crystal.importer import Options, Report, run_import
from datasette_crystal.model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ScanProblem,
    SourceFile,
    Tokens,
)
from datasette_crystal.store import Store, StoreError, open_for_writing


def chat(session: str, *texts: str):
    return conversation(
        session,
        [message(("u" if i % 2 == 0 else "a") + f"{session}-{i}", t) for i, t in enumerate(texts)],
    )


def run(database: Path, toy: ToyAdapter, **options: object) -> Report:
    options.setdefault("machine", "m1")
    return run_import(
        database, Environment.for_home(toy.root.parent), {toy.name: toy}, Options(**options)
    )


def numbers(report: Report) -> tuple[int, ...]:
    source = report.sources["toy"]
    return (source.new, source.updated, source.unchanged, source.skipped, source.errors)


def test_nothing_new_changes_no_byte(database: Path, toy: ToyAdapter) -> None:
    for i in range(5):
        toy.put(chat(f"s{i}", "ask", "say"))
    assert numbers(run(database, toy)) == (5, 0, 0, 0, 0)
    before = file_hash(database), database.stat().st_mtime_ns
    toy.parsed.clear()
    report = run(database, toy)
    assert numbers(report) == (0, 0, 5, 0, 0) and not report.changed
    assert toy.parsed == []
    assert (file_hash(database), database.stat().st_mtime_ns) == before
    check_invariants(database)


def test_only_what_changed_is_read_again(database: Path, toy: ToyAdapter) -> None:
    for i in range(3):
        toy.put(chat(f"s{i}", "ask", "say"))
    run(database, toy)
    toy.parsed.clear()
    toy.put(chat("s1", "ask", "say", "more", "yes"))
    assert numbers(run(database, toy)) == (0, 1, 2, 0, 0)
    assert toy.parsed == ["s1"]
    toy.parsed.clear()
    assert numbers(run(database, toy, full=True)) == (0, 0, 3, 0, 0)
    assert sorted(toy.parsed) == ["s0", "s1", "s2"]
    toy.parsed.clear()
    toy.parser_version = 2
    assert numbers(run(database, toy)) == (0, 0, 3, 0, 0)
    assert sorted(toy.parsed) == ["s0", "s1", "s2"]
    assert run(database, toy).changed is False


def test_short_conversations_are_skipped_until_asked_for(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("long", "ask", "say"))
    toy.put(chat("short", "ask"))
    assert numbers(run(database, toy)) == (1, 0, 0, 1, 0)
    toy.parsed.clear()
    assert numbers(run(database, toy)) == (0, 0, 1, 1, 0)
    assert toy.parsed == []
    assert numbers(run(database, toy, min_messages=1)) == (1, 0, 1, 0, 0)
    assert toy.parsed == ["short"]
    # what is in stays up to date, also when short ones are skipped again
    toy.put(conversation("short", [message("ushort-0", "ask")], title="Named", title_origin="user"))
    assert numbers(run(database, toy)) == (0, 1, 1, 0, 0)
    assert query(database, "select title from conversations where session_id = 'short'") == [
        ("Named",)
    ]


def test_a_broken_file_stops_nothing_and_is_tried_again(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s0", "ask", "say"))
    bad = toy.put(chat("s1", "ask", "say"))
    toy.put(chat("s2", "ask", "say"))
    toy.conversations["s1"] = RuntimeError("not what it\nshould be")
    report = run(database, toy)
    assert numbers(report) == (2, 0, 0, 0, 1)
    assert report.problems == [f"{bad}: not what it"]
    log = "select status, message from import_log where file_path like '%s1.toy'"
    assert query(database, log) == [("error", "not what it")]
    # the same failure again is no news
    before = query(database, "select count(*) from import_log")
    assert numbers(run(database, toy)) == (0, 0, 2, 0, 1)
    assert query(database, "select count(*) from import_log") == before
    toy.conversations["s1"] = chat("s1", "ask", "say")
    assert numbers(run(database, toy)) == (1, 0, 2, 0, 0)
    assert query(database, log) == [("error", "not what it"), ("imported", None)]


def test_what_is_no_conversation_is_reported_and_not_tried_again(
    database: Path, toy: ToyAdapter
) -> None:
    toy.put(chat("s0", "ask", "say"))
    bad = toy.put(chat("s1", "ask", "say"))
    toy.conversations["s1"] = ValueError("encrypted")
    report = run(database, toy)
    assert (numbers(report), report.sources["toy"].unreadable) == ((1, 0, 0, 0, 0), 1)
    assert report.problems == [f"{bad}: encrypted"]
    assert query(database, "select status, message from import_log where status <> 'imported'") == [
        ("unreadable", "encrypted")
    ]
    toy.parsed.clear()
    report = run(database, toy)
    assert (numbers(report), report.sources["toy"].unreadable) == ((0, 0, 1, 0, 0), 1)
    assert toy.parsed == []
    toy.parser_version = 2  # a newer adapter may know better
    run(database, toy)
    assert toy.parsed.count("s1") == 1


def test_a_failing_reread_keeps_what_is_stored(database: Path, toy: ToyAdapter) -> None:
    path = toy.put(chat("s1", "ask", "say"))
    run(database, toy)
    path.write_text("damaged")
    toy.conversations["s1"] = OSError(5, "Input/output error")
    assert run(database, toy).problems == [f"{path}: Input/output error"]
    assert [row[:2] for row in shown(database, "s1")] == [("ask", "active"), ("say", "active")]
    assert query(database, "select missing_since from conversations") == [(None,)]


def test_impossible_values_cost_one_conversation(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s0", "ask", "say"))
    toy.put(conversation("s1", [message("u1", "x"), message("a1", "y", model=["not", "text"])]))
    toy.put(
        conversation("s2", [message("u1", "x"), message("a1", tool_calls=[call(exit_code=2**70)])])
    )
    report = run(database, toy)
    assert (numbers(report), report.sources["toy"].unreadable) == ((1, 0, 0, 0, 0), 2)
    assert query(database, "select session_id from conversations") == [("s0",)]
    check_invariants(database)


def test_deleted_files_are_marked_and_nothing_is_lost(database: Path, toy: ToyAdapter) -> None:
    paths = [toy.put(chat(f"s{i}", "ask", "say")) for i in range(3)]
    run(database, toy)
    messages = query(database, "select * from messages")
    kept = paths[0].read_bytes(), paths[0].stat().st_mtime_ns
    paths[0].unlink()
    report = run(database, toy)
    assert report.sources["toy"].missing == 1
    missing = "select session_id from conversations where missing_since is not null"
    assert query(database, missing) == [("s0",)]
    assert query(database, "select * from messages") == messages
    before = file_hash(database)
    assert run(database, toy).changed is False
    assert file_hash(database) == before
    # it comes back as it was: a restored backup
    paths[0].write_bytes(kept[0])
    os.utime(paths[0], ns=(kept[1], kept[1]))
    run(database, toy)
    assert query(database, missing) == []
    assert query(database, "select * from messages") == messages
    # all of them
    for path in paths:
        path.unlink()
    run(database, toy)
    assert len(query(database, missing)) == 3


def test_an_absent_or_unreadable_root_marks_nothing(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s0", "ask", "say"))
    toy.put(chat("s1", "ask", "say"))
    run(database, toy)
    missing = "select count(*) from conversations where missing_since is not null"
    shutil.move(toy.root, toy.root.with_name("away"))
    run(database, toy)
    assert query(database, missing) == [(0,)]
    shutil.move(toy.root.with_name("away"), toy.root)
    (toy.root / "s0.toy").unlink()
    scan = toy.scan
    toy.scan = lambda env: iter(  # type: ignore[method-assign]
        [*scan(env), ScanProblem("toy", str(toy.root), "permission denied", str(toy.root))]
    )
    report = run(database, toy)
    assert query(database, missing) == [(0,)]
    assert report.problems == [f"{toy.root}: permission denied"]
    assert query(database, "select status, message from import_log order by id desc limit 1") == [
        ("error", "permission denied")
    ]
    before = file_hash(database)
    run(database, toy)
    assert file_hash(database) == before
    toy.scan = scan  # type: ignore[method-assign]
    run(database, toy, since="2000-01-01")
    assert query(database, missing) == [(0,)], "a filtered run cannot tell what is missing"
    run(database, toy)
    assert query(database, missing) == [(1,)]


def test_two_machines_do_not_mark_each_other(database: Path, tmp_path: Path) -> None:
    one, two = ToyAdapter(tmp_path / "one"), ToyAdapter(tmp_path / "two")
    one.put(chat("s1", "ask", "say"))
    two.put(chat("s2", "ask", "say"))
    run(database, one, machine="desk")
    run(database, two, machine="laptop")
    run(database, one, machine="desk")
    # the same path on another machine is another file
    run(database, one, machine="laptop")
    assert query(database, "select count(*) from source_files where missing_since is not null") == [
        (0,)
    ]
    assert query(database, "select machine, count(*) from source_files group by 1 order by 1") == [
        ("desk", 1),
        ("laptop", 2),
    ]
    assert query(database, "select count(*) from messages") == [(4,)]


def test_the_same_home_under_another_name(database: Path, toy: ToyAdapter) -> None:
    """A forgotten --machine makes no projects and no conversations."""
    toy.put(chat("s1", "ask", "say"))
    run(database, toy, machine="desk")
    report = run(database, toy, machine="laptop")
    assert report.sources["toy"].other_machines == {"desk": 1}
    assert numbers(report) == (0, 0, 1, 0, 0)
    assert query(database, "select machine from projects") == [("desk",)]
    assert query(database, "select machine from conversations") == [("desk",)]


def test_conversations_count_once_however_many_files_they_have(
    database: Path, toy: ToyAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of one conversation, one file of two, one of none."""
    for name in ("a", "b", "c", "d"):
        toy.put(chat(name, "ask", "say"))
    given = {"a": ["one"], "b": ["one"], "c": ["two", "three"], "d": []}

    def parse(meta):
        return Parsed([chat(name, "ask", "say") for name in given[meta.session_id]])

    monkeypatch.setattr(toy, "parse", parse)
    assert numbers(run(database, toy)) == (3, 0, 0, 1, 0)
    assert numbers(run(database, toy)) == (0, 0, 3, 1, 0)
    assert numbers(run(database, toy, full=True)) == (0, 0, 3, 1, 0)


def test_a_directory_that_is_gone_is_worth_a_word(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s0", "ask", "say"))
    run(database, toy)
    shutil.rmtree(toy.root)
    report = run(database, toy)
    assert report.sources["toy"].away == [f"{toy.root} is not there; its 1 conversations stay"]
    assert not report.changed


def test_each_conversation_of_a_database_has_log_rows_of_its_own(
    database: Path, toy: ToyAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = toy.put(chat("s0", "ask", "say"))
    status = path.stat()

    def scan(env):
        for part in ("x", "y"):
            file = SourceFile(str(path), str(toy.root), status.st_size, status.st_mtime_ns, part)
            yield ConversationMeta("toy", part, (file,), "1")

    def parse(meta):
        malformed = 3 if meta.session_id == "x" else 0
        records = FileRecords(str(path), meta.session_id, 4, 4 - malformed, malformed=malformed)
        return Parsed([chat(meta.session_id, "ask", "say")] * (malformed == 0), [records])

    monkeypatch.setattr(toy, "scan", scan)
    monkeypatch.setattr(toy, "parse", parse)
    run(database, toy)
    assert query(
        database, "select file_path, status, malformed_records from import_log order by file_path"
    ) == [(f"{path}#x", "skipped", 3), (f"{path}#y", "imported", 0)]
    assert query(database, "select malformed_records, records from import_health") == [(3, 8)]


class Odd(ToyAdapter):
    """Adapters that we did not write may do anything."""

    name = "odd"
    display_name = "Odd"
    how = ""

    def detect(self, env):
        if self.how == "detect":
            raise KeyError("composerId")
        return super().detect(env)

    def scan(self, env):
        if self.how == "scan":
            raise TypeError("x")
        if self.how == "meta":
            yield "no meta"
        if self.how == "size":
            file = SourceFile(str(self.root / "x"), str(self.root), 2**64, 2**63)
            yield ConversationMeta("odd", "s", (file,))
        if self.how == "problem":
            yield ScanProblem("odd", None, None)  # type: ignore[arg-type]
        for meta in super().scan(env):
            yield ConversationMeta("odd", meta.session_id, meta.files)

    def parse(self, meta):
        if self.how == "parse":
            raise RecursionError("deep")
        if self.how == "lazy":

            class Lazy(list):
                def __iter__(self):
                    raise RuntimeError("lazy")

            item = conversation("z", [], source="odd")
            item.messages = Lazy()  # type: ignore[assignment]
            return Parsed([item])
        return Parsed([])

    def close(self):
        if self.how == "close":
            raise RuntimeError("close")


@pytest.mark.parametrize(
    "how", ["detect", "scan", "meta", "size", "problem", "parse", "lazy", "close"]
)
def test_an_adapter_that_misbehaves_costs_only_its_own_source(
    database: Path, tmp_path: Path, toy: ToyAdapter, how: str
) -> None:
    toy.put(chat("s1", "ask", "say"))
    odd = Odd(tmp_path / "odd")
    odd.how = how
    (odd.root / "x.toy").write_text("x")
    env = Environment.for_home(tmp_path)
    report = run_import(database, env, {"odd": odd, "toy": toy}, Options(machine="m"))
    assert report.sources["toy"].new == 1
    problems = [line for line in report.problems if "\n" in line or not line]
    assert problems == [] and bool(report.problems) == (how != "close")
    check_invariants(database)


def test_impossible_token_counts_are_not_known(database: Path, toy: ToyAdapter) -> None:
    huge = Tokens(2**63 - 1, -5, 2**53, 10**12, 7)
    toy.put(conversation("s1", [message("u1", "x"), message("a1", "y", tokens=huge)]))
    toy.put(conversation("s2", [message("u2", "x"), message("a2", "y", tokens=huge)]))
    assert numbers(run(database, toy)) == (2, 0, 0, 0, 0)
    assert query(
        database, "select input_tokens, output_tokens, reasoning_tokens from daily_usage"
    ) == [(None, None, 14)]


def test_a_file_that_fails_as_before_changes_no_byte(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s0", "ask", "say"))
    toy.put(chat("s1", "ask", "say"))
    toy.conversations["s1"] = PermissionError(13, "Permission denied")
    run(database, toy)
    before = file_hash(database)
    report = run(database, toy)
    assert numbers(report)[-1] == 1 and report.new_problems == [] and not report.changed
    assert file_hash(database) == before


@pytest.mark.parametrize("table", ["import_log", "source_files", "messages", "import_runs"])
def test_a_database_that_lost_a_table_is_refused_in_one_line(
    database: Path, toy: ToyAdapter, table: str
) -> None:
    toy.put(chat("s1", "ask", "say"))
    run(database, toy)
    connection = sqlite3.connect(database)
    connection.execute("pragma writable_schema = on")
    connection.execute("drop view if exists import_health")
    connection.execute(f"delete from sqlite_master where tbl_name = '{table}'")
    connection.commit()
    connection.close()
    toy.put(chat("s2", "ask", "say"))
    with pytest.raises(StoreError) as refused:
        run(database, toy)
    assert table in str(refused.value) and "\n" not in str(refused.value)


def test_the_index_of_cjk_characters_is_built_again(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s1", "数据迁移", "say"))
    run(database, toy)
    connection = sqlite3.connect(database)
    connection.execute("drop table messages_cjk")
    connection.commit()
    connection.close()
    run(database, toy)
    assert query(database, "select rowid from messages_cjk where messages_cjk match '\"迁 移\"'")


def test_a_copy_of_an_older_state_takes_nothing_away(
    database: Path, toy: ToyAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files give one conversation, one of them an older state of it."""
    for name in ("live", "copy"):
        toy.put(chat(name, "ask", "say"))
    states = {"live": ("ask", "say", "more", "yes"), "copy": ("ask", "say")}
    monkeypatch.setattr(toy, "parse", lambda meta: Parsed([chat("s1", *states[meta.session_id])]))
    for options in ({}, {"full": True}, {"full": True}):
        run(database, toy, **options)
        assert [row[:2] for row in shown(database, "s1")] == [
            (text, "active") for text in states["live"]
        ]


def test_since_leaves_older_files_alone(database: Path, toy: ToyAdapter) -> None:
    old = toy.put(chat("old", "ask", "say"))
    os.utime(old, (1_600_000_000, 1_600_000_000))
    toy.put(chat("new", "ask", "say"))
    assert numbers(run(database, toy, since="2021-01-01")) == (1, 0, 0, 0, 0)
    with pytest.raises(StoreError, match="--since"):
        run(database, toy, since="yesterday")


def test_a_dry_run_writes_nothing(database: Path, toy: ToyAdapter) -> None:
    toy.put(chat("s1", "ask", "say"))
    assert run(database, toy, dry_run=True).sources["toy"].to_read == 1
    assert not database.exists() and toy.parsed == []
    run(database, toy)
    toy.put(chat("s1", "ask", "say", "more"))
    toy.put(chat("s2", "ask", "say", "more"))
    before = file_hash(database)
    assert run(database, toy, dry_run=True).sources["toy"].to_read == 2
    assert file_hash(database) == before


def test_records_of_every_file_are_logged(
    database: Path, toy: ToyAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = toy.put(chat("s1", "ask", "say"))
    records = FileRecords(str(path), records=9, kept=5, ignored=1, malformed=1)
    records.add_unknown("line 3", "future", '{"type":"future"}')
    records.add_unknown("line 4", "future", '{"type":"future"}')
    parse = toy.parse
    monkeypatch.setattr(toy, "parse", lambda meta: Parsed(parse(meta).conversations, [records]))
    report = run(database, toy)
    assert report.sources["toy"].unknown_records == 2
    assert report.sources["toy"].malformed_records == 1
    assert query(
        database,
        "select records, kept_records, ignored_records, unknown_records, malformed_records, "
        "status from import_log",
    ) == [(9, 5, 1, 2, 1, "imported")]
    assert query(database, "select location, type, sample from unknown_records order by id") == [
        ("line 3", "future", '{"type":"future"}'),
        ("line 4", "future", '{"type":"future"}'),
    ]
    assert query(
        database,
        "select files, records, kept_records, unknown_records, failed_files from import_health",
    ) == [(1, 9, 5, 2, 0)]
    # reading it again does not add them up
    run(database, toy, full=True)
    assert query(database, "select count(*) from unknown_records") == [(2,)]
    assert query(database, "select records from import_health") == [(9,)]


@pytest.mark.parametrize("where", ["transaction", "finish"])
def test_a_killed_import_is_completed_by_the_next(
    database: Path, tmp_path: Path, toy: ToyAdapter, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    class Killed(BaseException):
        pass

    monkeypatch.setattr(importer, "BATCH_CONVERSATIONS", 2)
    for i in range(5):
        toy.put(chat(f"s{i}", "ask 数据", "say"))
    reference = tmp_path / "reference.db"
    run(reference, toy)
    done = []
    original = Store.store_conversation

    def dying(self, parsed, *more):
        if where == "transaction" and len(done) == 3:
            raise Killed
        done.append(parsed.session_id)
        return original(self, parsed, *more)

    def dying_finish(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "store_conversation", dying)
        if where == "finish":
            patch.setattr(Store, "finish", dying_finish)
        with pytest.raises(Killed):
            run(database, toy)
    assert query(database, "select count(*) from conversations") == [
        (2 if where == "transaction" else 5,)
    ]
    assert run(database, toy).changed
    assert contents(database) == contents(reference)
    # the killed run has no end, the one that completed it has
    assert query(database, "select ended_at is null from import_runs order by id") == [(1,), (0,)]
    check_invariants(database)
    before = file_hash(database)
    run(database, toy)
    assert file_hash(database) == before


def test_a_database_that_another_one_is_reading(database: Path, toy: ToyAdapter) -> None:
    """A reader with an open transaction keeps what it sees; the import goes on."""
    toy.put(chat("s0", "ask", "say"))
    run(database, toy)
    reader = sqlite3.connect(database)
    reader.execute("begin")
    assert reader.execute("select count(*) from messages").fetchone() == (2,)
    # the database is at rest in rollback mode: going to WAL needs the reader to be done
    reader.execute("commit")
    toy.put(chat("s1", "ask", "say"))
    run(database, toy)
    assert reader.execute("select count(*) from messages").fetchone() == (4,)
    reader.close()
    toy.put(chat("s2", "ask", "say"))
    run(database, toy)
    assert query(database, "select count(*) from messages") == [(6,)]
    check_invariants(database)


def test_several_imports_at_once_take_turns(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH_CONVERSATIONS", 3)
    toys = [ToyAdapter(tmp_path / "home") for _ in range(3)]
    for toy in toys:
        for i in range(20):
            toy.put(chat(f"s{i}", "ask", "say", "more", "yes"))
    failures: list[BaseException] = []

    def work(toy: ToyAdapter) -> None:
        try:
            run(database, toy)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(toy,)) for toy in toys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert query(database, "select count(*) from messages") == [(80,)]
    check_invariants(database)


def test_the_import_knows_nothing_of_datasette() -> None:
    import subprocess
    import sys

    code = (
        "import sys, datasette_crystal.importer, datasette_crystal.sqlite_utils_plugin, "
        "datasette_crystal.plugins as p; p.get_adapters(); print('datasette' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "False"


def test_a_store_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error:
        open_for_writing(tmp_path / "no" / "such" / "directory.db")
    assert "\n" not in str(error.value)


def test_conversations_of_one_machine_stay_apart_by_source(database: Path) -> None:
    store_all(
        database,
        chat("s1", "ask", "say"),
        conversation("s1", [message("us1-0", "ask"), message("as1-1", "say")], source="other"),
    )
    assert query(database, "select count(*) from messages") == [(4,)]
