"""Reading a database that another process holds open: every committed row, nothing changed."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from datasette_crystal.adapters import vscdb
from datasette_crystal.adapters.vscdb import (
    VscdbBusy,
    VscdbReader,
    digest_of_keys,
    get,
    has_table,
    key_value_table,
    keys,
    next_key,
    numbered_rows,
    open_snapshot,
    open_vscdb,
    rows,
    sweep_leftovers,
)

TABLE = "create table ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"

#: Writes 150 committed rows in some state, says READY, then does what it is told line by line.
WRITER = r"""
import sqlite3, sys
path, state = sys.argv[1:3]
db = sqlite3.connect(path, isolation_level=None, timeout=0)
db.execute("pragma busy_timeout = 0")
if "exclusive-mode" in state:
    db.execute("pragma locking_mode = exclusive")
db.execute("pragma journal_mode = " + ("wal" if state.startswith("wal") else "delete"))
db.execute("pragma wal_autocheckpoint = 0")
db.execute("create table ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
def put(first, last):
    db.executemany("insert into ItemTable values (?, ?)",
                   [("k%04d" % i, "v" * 300) for i in range(first, last)])
db.execute("begin"); put(0, 100); db.execute("commit")
if state.startswith("wal"):
    db.execute("pragma wal_checkpoint(truncate)")
db.execute("begin"); put(100, 150); db.execute("update ItemTable set value = 'new' where key = 'k0001'")
db.execute("commit")
if "open-transaction" in state:
    db.execute("begin immediate"); put(150, 160)
if "exclusive-transaction" in state:
    db.execute("begin exclusive"); put(150, 160)
if "hot-journal" in state:  # a large transaction, partly in the main file already
    db.execute("pragma cache_size = 5"); db.execute("begin immediate")
    db.execute("update ItemTable set value = zeroblob(300)"); put(150, 400)
    db.execute("delete from ItemTable where key < 'k0090'")
if "closed" in state:
    db.close()
print("READY", flush=True)
for line in sys.stdin:
    try:
        if db.in_transaction:
            db.execute("commit")
        put(900, 905)
        db.execute("pragma wal_checkpoint(passive)")
        print("OK", flush=True)
    except sqlite3.Error as error:
        print("FAILED", error, flush=True)
"""

#: state: is the writer killed, which files are removed
STATES = {
    "wal": (False, ()),
    "wal-open-transaction": (False, ()),
    "wal-exclusive-mode": (False, ()),
    "wal-killed": (True, ()),
    "wal-killed-without-shm": (True, ("-shm",)),
    "wal-closed": (False, ()),
    "delete": (False, ()),
    "delete-open-transaction": (False, ()),
    "delete-exclusive-transaction": (False, ()),
    "delete-exclusive-mode": (False, ()),
    "delete-hot-journal-killed": (True, ()),
}


class Writer:
    def __init__(self, path: Path, state: str) -> None:
        killed, removed = STATES[state]
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "READY"
        self.alive = not killed and "closed" not in state
        if killed:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for suffix in removed:
            os.unlink(str(path) + suffix)

    def write(self) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("write\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Callable[[str], Writer]]:
    started: list[Writer] = []

    def start(state: str) -> Writer:
        started.append(Writer(tmp_path / "source" / "state.vscdb", state))
        return started[-1]

    (tmp_path / "source").mkdir()
    yield start
    for item in started:
        item.end()
    os.chmod(tmp_path / "source", 0o755)


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private copies go."""
    directory = tmp_path / "private"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def tree(directory: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in sorted(directory.iterdir()):
        status = path.stat()
        found[path.name] = (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            status.st_size,
            status.st_mtime_ns,
            status.st_mode,
        )
    return found


def content(db: sqlite3.Connection) -> tuple[int, bytes]:
    count = db.execute("select count(*) from ItemTable").fetchone()[0]
    value = get(db, "ItemTable", "k0001")
    assert value is not None
    return count, value


def make(path: Path, values: dict[str | bytes, object], size: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute(TABLE)
    db.executemany(
        "insert into ItemTable values (cast(? as text), ?)",
        [(key.encode() if isinstance(key, str) else key, value) for key, value in values.items()],
    )
    if size:
        db.execute("insert into ItemTable values ('zz', zeroblob(?))", (size,))
    db.commit()
    db.close()
    return path


def age(path: Path) -> None:
    """As if it had been written a minute ago."""
    then = time.time() - 60
    os.utime(path, (then, then))


# --------------------------------------------------------------------------- states of a live database


@pytest.mark.parametrize("in_place", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("read_only", [False, True], ids=["", "read-only"])
@pytest.mark.parametrize("state", STATES)
def test_every_committed_row_is_seen_and_nothing_changes(
    tmp_path: Path,
    writer: Callable[[str], Writer],
    private: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    read_only: bool,
    in_place: bool,
) -> None:
    if in_place:
        monkeypatch.setattr(vscdb, "COPY_LIMIT", 0)
    process = writer(state)
    source = tmp_path / "source"
    if read_only:
        for path in source.iterdir():
            os.chmod(path, 0o444)
        os.chmod(source, 0o555)
    before = tree(source)
    with open_vscdb(source / "state.vscdb") as db:
        assert content(db) == (150, b"new")
    assert tree(source) == before
    assert list(private.iterdir()) == []
    if process.alive:
        assert process.write() == "OK"


def test_growth_inside_the_wal_is_seen(tmp_path: Path, writer: Callable[[str], Writer]) -> None:
    process = writer("wal")
    path = tmp_path / "source" / "state.vscdb"
    main = tree(path.parent)["state.vscdb"]
    with VscdbReader(path) as reader:
        assert reader.read(content) == (150, b"new")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma wal_autocheckpoint = 0")
    db.execute("insert into ItemTable values ('k9999', 'x')")
    assert tree(path.parent)["state.vscdb"] == main
    with VscdbReader(path) as reader:
        assert reader.read(content) == (151, b"new")
    db.close()
    process.end()


RACER = r"""
import os, sqlite3, sys, time
path, mode, stop, pause = sys.argv[1:5]
db = sqlite3.connect(path, isolation_level=None, timeout=0)
db.execute("pragma busy_timeout = 0")
db.execute("pragma journal_mode = " + mode)
db.execute("pragma synchronous = off"); db.execute("pragma wal_autocheckpoint = 20")
db.execute("create table ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
db.execute("begin")
for i in range(300): db.execute("insert into ItemTable values (?, ?)", ("pad%d" % i, b"p" * 3000))
db.execute("insert into ItemTable values ('n', '0')"); db.execute("commit")
print("READY", flush=True)
n = busy = 0
while not os.path.exists(stop):
    try:
        db.execute("begin immediate")
        db.execute("insert into ItemTable values (?, ?)", ("a%06d" % n, b"z" * 200))
        db.execute("insert into ItemTable values (?, ?)", ("pad%d" % (n % 300), os.urandom(3000)))
        db.execute("insert into ItemTable values (?, ?)", ("b%06d" % n, b"z" * 5000))
        db.execute("insert into ItemTable values ('n', ?)", (str(n + 1),))
        db.execute("commit"); n += 1
    except sqlite3.OperationalError:
        busy += 1
        if db.in_transaction: db.execute("rollback")
    time.sleep(float(pause))
print(n, busy, db.execute("pragma integrity_check").fetchone()[0], flush=True)
"""


@pytest.mark.parametrize("in_place", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_snapshots_are_whole_and_the_writer_is_never_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, in_place: bool
) -> None:
    if in_place:
        monkeypatch.setattr(vscdb, "COPY_LIMIT", 0)
    path, stop = tmp_path / "state.vscdb", tmp_path / "stop"
    process = subprocess.Popen(
        [sys.executable, "-c", RACER, str(path), mode, str(stop), "0.05"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline().strip() == "READY"

    def look(db: sqlite3.Connection) -> tuple[object, ...]:
        check = db.execute("pragma integrity_check").fetchone()[0]
        numbers = [digest_of_keys(db, "ItemTable", prefix)[0] for prefix in ("a0", "b0")]
        return check, numbers, int(get(db, "ItemTable", "n") or b"-1")

    end = time.monotonic() + 2
    snapshots, seen = 0, 0
    while time.monotonic() < end:
        try:
            with VscdbReader(path, deadline=5) as reader:
                check, numbers, total = reader.read(look)
        except VscdbBusy:
            continue
        assert check in (b"ok", "ok")
        assert numbers == [total, total]
        assert isinstance(total, int) and total >= seen, "an older state than was seen before"
        seen = total
        snapshots += 1
    stop.touch()
    commits, busy, check = process.stdout.readline().split()
    process.communicate()
    assert (busy, check) == ("0", "ok")
    assert snapshots > 3
    assert int(commits) > 3


def test_what_was_read_of_a_large_database_that_changed_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vscdb, "COPY_LIMIT", 0)
    path = make(tmp_path / "state.vscdb", {"k0001": "old"})
    age(path)
    other = sqlite3.connect(path, isolation_level=None)
    answers = []

    def look(db: sqlite3.Connection) -> bytes | None:
        answers.append(get(db, "ItemTable", "k0001"))
        if len(answers) == 1:
            other.execute("insert into ItemTable values ('k0001', 'new')")
        return answers[-1]

    with VscdbReader(path) as reader:
        assert reader.read(look) == b"new"
    assert answers == [b"old", b"new"]

    age(path)
    with pytest.raises(VscdbBusy), open_vscdb(path):
        other.execute("insert into ItemTable values ('k0001', 'newer')")
    other.close()


def test_a_database_that_never_rests_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: Path
) -> None:
    path = make(tmp_path / "state.vscdb", {"a": "b"})
    looks = iter(range(1_000_000))
    real = vscdb._look

    def restless(name: str) -> vscdb._Look:
        look = real(name)
        return vscdb._Look(
            (*look.main[:2], next(looks), 0), look.counter, look.wal_mode, b"", 0, None
        )

    monkeypatch.setattr(vscdb, "_look", restless)
    start = time.monotonic()
    with pytest.raises(VscdbBusy):
        open_snapshot(path, deadline=0.3)
    assert time.monotonic() - start < 5
    assert list(private.iterdir()) == []


def test_no_room_for_a_copy_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "state.vscdb", {"a": "b"})
    usage = vscdb.shutil._ntuple_diskusage(1, 1, 0)  # type: ignore[attr-defined]
    monkeypatch.setattr(vscdb.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(VscdbBusy, match="no room"):
        open_snapshot(path)


# --------------------------------------------------------------------------- private copies


def test_copies_are_private_and_deleted_after_errors(
    tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "state.vscdb", {"k0001": "x"})
    modes = []
    real = vscdb._recover

    def recover(target: str, *, check: bool) -> None:
        modes.append(
            (os.stat(target).st_mode & 0o777, os.stat(Path(target).parent).st_mode & 0o777)
        )
        real(target, check=check)

    monkeypatch.setattr(vscdb, "_recover", recover)
    old = os.umask(0)
    try:
        with pytest.raises(RuntimeError), open_vscdb(path) as db:
            assert content(db) == (1, b"x")
            raise RuntimeError
    finally:
        os.umask(old)
    if os.name != "nt":
        assert modes == [(0o600, 0o700)]
    assert list(private.iterdir()) == []
    with pytest.raises(ValueError):
        open_snapshot(make_garbage(tmp_path))
    assert list(private.iterdir()) == []


def make_garbage(tmp_path: Path) -> Path:
    path = make(tmp_path / "garbage.vscdb", {str(n): "x" * 500 for n in range(100)})
    data = bytearray(path.read_bytes())
    data[100:8192] = os.urandom(8092)
    path.write_bytes(data)
    age(path)
    return path


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_copies_of_a_killed_run_are_swept(tmp_path: Path, private: Path) -> None:
    path = make(tmp_path / "state.vscdb", {"a": "b"})
    code = (
        "import sys, tempfile, time; tempfile.tempdir = sys.argv[2]\n"
        "from datasette_crystal.adapters import vscdb\n"
        "def wait(target, *, check): print('COPIED', flush=True); time.sleep(60)\n"
        "vscdb._recover = wait\n"
        "vscdb.open_snapshot(sys.argv[1])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(private)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline().strip() == "COPIED"
    (private / "something-else").mkdir()
    assert sweep_leftovers() == 0, "its owner is alive"
    assert len(list(private.iterdir())) == 2
    process.kill()
    process.communicate()
    assert sweep_leftovers() == 1
    assert [item.name for item in private.iterdir()] == ["something-else"]


# --------------------------------------------------------------------------- what is no database


@pytest.mark.parametrize(
    "data", [b"", b"hello" * 1000, b"SQLite format 3\0" + b"\0" * 50, os.urandom(5000)]
)
def test_what_is_no_database_is_a_value_error_of_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "state.vscdb"
    path.write_bytes(data)
    with pytest.raises(ValueError) as caught:
        open_snapshot(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == data


def test_missing_and_odd_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_snapshot(tmp_path / "nothing")
    with pytest.raises(ValueError, match="regular"):
        open_snapshot(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="regular"):
            open_snapshot(tmp_path / "pipe")


def test_names_are_quoted(tmp_path: Path) -> None:
    directory = tmp_path / "q?mode=rwc&x#%41 ü"
    path = make(directory / "state.vscdb", {"k0001": "x"})
    with open_vscdb(path) as db:
        assert content(db) == (1, b"x")
    assert [item.name for item in directory.iterdir()] == ["state.vscdb"]
    assert [item.name for item in tmp_path.iterdir()] == [directory.name]


def test_endless_views_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.vscdb"
    db = sqlite3.connect(path)
    db.execute(
        "create view ItemTable as with recursive r(x) as (select 1 union all select x + 1 from r) "
        "select 'k' as key, x as value from r"
    )
    db.commit()
    db.close()
    monkeypatch.setattr(vscdb, "STATEMENT_SECONDS", 0.2)
    with open_vscdb(path) as db:
        assert not has_table(db, "ItemTable")
        assert not key_value_table(db, "ItemTable")
    with pytest.raises(ValueError, match="interrupted"), open_vscdb(path) as db:
        db.execute("select count(*) from ItemTable").fetchone()


def test_virtual_tables_and_odd_columns_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    db = sqlite3.connect(path)
    db.execute("create table other (a, b)")
    db.execute("create virtual table words using fts5(key, value)")
    db.execute(TABLE)
    db.commit()
    db.close()
    with open_vscdb(path) as db:
        assert not key_value_table(db, "other")
        assert not key_value_table(db, "words")
        assert not key_value_table(db, "nothing")
        assert key_value_table(db, "ItemTable")


def test_the_connection_cannot_write(tmp_path: Path) -> None:
    path = make(tmp_path / "state.vscdb", {"a": "b"})
    with pytest.raises(ValueError), open_vscdb(path) as db:
        db.execute("delete from ItemTable")


# --------------------------------------------------------------------------- rows


def test_rows_are_read_by_exact_bytes(tmp_path: Path) -> None:
    path = make(
        tmp_path / "state.vscdb",
        {
            "b:a_c:1": "one",
            "b:a_c:2": b"two",
            "b:a_c:3": None,
            "b:a_c:4": 5,
            "b:aXc:1": "not a wildcard",
            "b:A_c:1": "not the same case",
            "b:a_c": "no colon",
            b"b:a_c:\xff\xfe": "no UTF-8",
            "b:a_c\n:1": "new line",
        },
    )
    db = sqlite3.connect(path)
    db.execute("insert into ItemTable values (NULL, 'no key')")
    db.execute("insert into ItemTable values (7, 'a number')")
    db.execute("insert into ItemTable values ('b:a_c:1', 'again')")  # written anew: a new rowid
    db.commit()
    db.close()
    with open_vscdb(path) as db:
        wanted = [
            (b"b:a_c:1", b"again"),
            (b"b:a_c:2", b"two"),
            (b"b:a_c:3", None),
            (b"b:a_c:4", None),
            (b"b:a_c:\xff\xfe", b"no UTF-8"),
        ]
        assert list(rows(db, "ItemTable", "b:a_c:")) == wanted
        assert [
            (key, value) for key, _, value in numbered_rows(db, "ItemTable", b"b:a_c:")
        ] == wanted
        assert [key for key, _ in keys(db, "ItemTable", "b:a_c:")] == [key for key, _ in wanted]
        numbers = dict(keys(db, "ItemTable", "b:a_c:"))
        assert max(numbers, key=lambda key: numbers[key]) == b"b:a_c:1"
        assert digest_of_keys(db, "ItemTable", "b:a_c:") == (
            5,
            max(numbers.values()),
            sum(numbers.values()),
        )
        assert digest_of_keys(db, "ItemTable", "nothing:") == (0, 0, 0)
        assert get(db, "ItemTable", "b:a_c:2") == b"two"
        assert get(db, "ItemTable", b"b:a_c:\xff\xfe") == b"no UTF-8"
        assert get(db, "ItemTable", "b:a_c:3") is None
        assert get(db, "ItemTable", "b:a_c:4") is None
        assert get(db, "ItemTable", "missing") is None
        assert next_key(db, "ItemTable", b"b:a_c:2", b"b;") == b"b:a_c:2"
        assert next_key(db, "ItemTable", b"b:a_c;", b"b;") is None


def test_range_reads_use_the_index(tmp_path: Path) -> None:
    path = make(tmp_path / "state.vscdb", {"a": "b"})
    with open_vscdb(path) as db:
        plan = db.execute(
            "explain query plan select key, value from ItemTable where key >= cast(? as text) "
            "and key < cast(? as text) order by key",
            (b"a", b"b"),
        ).fetchall()
    text = b" ".join(row[3] for row in plan).decode()
    assert "SEARCH" in text and "SCAN" not in text and "TEMP B-TREE" not in text
