"""Reading an SQLite database that an editor holds open (``state.vscdb``), without touching it.

What is given is a consistent snapshot with every committed row, also those that are only in the
``-wal`` file. The writer never sees SQLITE_BUSY because of us, and no byte, mtime or file of the
source changes. How that is done depends on what is there:

- *copy*: small databases, those with a journal to roll back, and those that are locked: main file
  and ``-wal`` or ``-journal`` (never ``-shm``) are copied to a private directory, between two looks
  that prove that nothing moved; SQLite recovers the copy.
- *live*: a large database in WAL mode with rows in its ``-wal``: opened with ``mode=ro`` and
  ``readonly_shm=1``, read within one read transaction at a time. Readers do not block writers
  there, and a read-only ``-shm`` keeps its bytes.
- *still*: a large database that nobody is writing: opened with ``immutable=1``, which takes no
  lock; what was read counts only when a second look shows that nothing was written meanwhile.

In rollback mode a live database is never opened without ``immutable=1``: a reader's lock there makes
the editor's next write fail (seen as crashes of Cursor in public reports).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

Result = TypeVar("Result")

#: Up to this size a database is copied, which takes milliseconds. Larger ones are read in place.
COPY_LIMIT = 64 * 1024 * 1024
#: Seconds to wait for a writer to come to a rest.
DEADLINE = 10.0
#: Seconds that one statement may take: against views that never end.
STATEMENT_SECONDS = 60.0
_MAGIC = b"SQLite format 3\0"
_PREFIX = "datasette-crystal-vscdb-"
#: File times are taken from a clock that ticks every few milliseconds: a file that was written
#: within this time may be written again without a new mtime.
_TICK_NS = 20_000_000


class VscdbBusy(OSError):
    """No consistent snapshot could be had in time. Try again in the next run; keep what is known."""


class _Changed(Exception):
    """The source was written while it was read."""


# --------------------------------------------------------------------------- looking


@dataclass(frozen=True)
class _Look:
    """What can be seen of a database without opening it with SQLite."""

    main: tuple[int, int, int, int]  # inode, size, mtime, ctime
    counter: bytes  # the change counter: every transaction in rollback mode begins by raising it
    wal_mode: bool
    wal_header: bytes  # with the salts of this generation; empty without frames
    wal_size: int
    journal: tuple[int, int, int] | None  # inode, size, mtime of a journal that is not finished

    @property
    def size(self) -> int:
        return self.main[1] + self.wal_size

    @property
    def modified_ns(self) -> int:
        return self.main[2]


def _read_start(path: str, count: int) -> bytes:
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        return file.read(count) or b""


def _side_file(path: str, count: int) -> tuple[os.stat_result, bytes] | None:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return None
        return status, _read_start(path, count)
    except FileNotFoundError:
        return None


def _look(path: str) -> _Look:
    """Raises :class:`OSError`, and :class:`ValueError` for what is no database."""
    # The order matters: a transaction first creates its journal, then raises the counter, then
    # writes. Without a journal *after* the counter was read, none of it was running.
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file")
    header = _read_start(path, 100)
    if not header:
        raise ValueError("an empty file, not a database")
    if not header.startswith(_MAGIC) or len(header) < 100:
        raise ValueError("not a SQLite database, or an encrypted one")
    wal = _side_file(path + "-wal", 32)
    journal = _side_file(path + "-journal", 28)
    frames = wal is not None and wal[0].st_size > 32 and len(wal[1]) == 32
    # A journal that was truncated, or whose header was zeroed, is finished.
    running = journal is not None and any(journal[1])
    return _Look(
        (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
        header[24:28],
        header[18] == 2 or header[19] == 2,
        wal[1] if wal is not None and frames else b"",
        wal[0].st_size if wal is not None and frames else 0,
        (journal[0].st_ino, journal[0].st_size, journal[0].st_mtime_ns)
        if journal is not None and running
        else None,
    )


def _same_source(before: _Look, after: _Look) -> bool:
    """Whether what was read between two looks at the main file (and its journal) is consistent."""
    return (
        before.main == after.main
        and before.counter == after.counter
        and before.wal_mode == after.wal_mode
        and before.journal == after.journal
    )


def _same_for_copy(before: _Look, after: _Look) -> bool:
    """Whether main file and ``-wal``, copied in this order between two looks, fit together. With
    frames in the ``-wal`` the main file may change meanwhile: only a checkpoint writes to it, and
    all that it writes is in the frames, as long as they are of the same generation."""
    if before.wal_mode and before.wal_header:
        return (
            after.wal_mode
            and after.wal_header == before.wal_header
            and after.wal_size >= before.wal_size
        )
    return _same_source(before, after) and after.wal_header == before.wal_header


# --------------------------------------------------------------------------- connections


class _Connection(sqlite3.Connection):
    """A connection whose statements each have a deadline."""

    clock: list[float]

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self.clock[0] = time.monotonic() + STATEMENT_SECONDS
        return super().execute(*arguments)


def _connect(path: str, parameters: str) -> _Connection:
    """Opens a database and reads its schema. With ``parameters`` it is opened for reading."""
    connection = sqlite3.connect(
        Path(path).absolute().as_uri() + parameters,
        uri=True,
        timeout=0.5,
        isolation_level=None,
        check_same_thread=False,
        factory=_Connection,
    )
    clock = connection.clock = [time.monotonic() + STATEMENT_SECONDS]
    connection.set_progress_handler(lambda: time.monotonic() > clock[0], 20_000)
    try:
        for pragma in ("trusted_schema = off", "cell_size_check = on", "cache_size = -4000"):
            connection.execute(f"pragma {pragma}")
        if parameters:
            connection.execute("pragma query_only = on")
            # Text comes as bytes: what an editor wrote need not be valid UTF-8.
            connection.text_factory = bytes
        connection.execute("select count(*) from sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


# --------------------------------------------------------------------------- private copies


class _PrivateDirectory:
    """A directory that only this user can read, and that a later run removes when this one is
    killed: a lock on the file in it dies with its holder."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self._lock: IO[bytes] = open(os.path.join(self.path, "lock"), "wb")  # noqa: SIM115
        _try_lock(self._lock)

    def remove(self) -> None:
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _try_lock(file: IO[bytes]) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: an open file cannot be removed, which is as good as a lock
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep_leftovers() -> int:
    """Removes private copies that a killed run left behind; returns how many."""
    removed = 0
    try:
        with os.scandir(tempfile.gettempdir()) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    except OSError:
        return 0
    for path in found:
        try:
            status = os.lstat(path)
            mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            if not mine or not stat.S_ISDIR(status.st_mode):
                continue
            lock = os.path.join(path, "lock")
            if os.path.exists(lock):
                if os.name == "nt":
                    os.unlink(lock)
                else:
                    with open(lock, "rb") as file:
                        if not _try_lock(file):
                            continue
            elif time.time() - status.st_mtime < 60:
                continue  # being made
            shutil.rmtree(path, ignore_errors=True)
            removed += 1
        except OSError:
            continue
    return removed


_swept = False


def _sweep_once() -> None:
    global _swept
    if not _swept:
        _swept = True
        sweep_leftovers()


def _copy_file(source: str, target: str) -> None:
    descriptor = os.open(
        target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
    )
    with os.fdopen(descriptor, "wb", buffering=0) as output, open(source, "rb", 0) as input_:
        if hasattr(os, "copy_file_range"):
            # Shares the blocks where the file system can.
            try:
                while os.copy_file_range(input_.fileno(), output.fileno(), 1 << 30):
                    pass
                return
            except OSError:
                input_.seek(output.seek(0, os.SEEK_END))
        shutil.copyfileobj(input_, output, 1 << 20)


def _copy_set(path: str, look: _Look, directory: str) -> str:
    target = os.path.join(directory, "copy.db")
    for suffix in ("", "-wal", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target + suffix)
    _copy_file(path, target)
    for suffix, wanted in (("-wal", look.wal_header), ("-journal", look.journal)):
        if wanted:
            with contextlib.suppress(FileNotFoundError):
                _copy_file(path + suffix, target + suffix)
    return target


def _recover(target: str, *, check: bool) -> None:
    """Lets SQLite roll back or check-point a copy, so that all of it is in the main file."""
    connection = _connect(target, "")
    try:
        connection.execute("pragma journal_mode = delete").fetchone()
        if check:
            answer = connection.execute("pragma quick_check(1)").fetchone()
            if answer is None or answer[0] != "ok":
                raise sqlite3.DatabaseError(f"quick_check: {answer and answer[0]}")
    finally:
        connection.close()


def _open_copy(path: str, until: float) -> tuple[_Connection, _PrivateDirectory | None]:
    _sweep_once()
    directory = _PrivateDirectory()
    try:
        target = _consistent_copy(path, directory.path, until)
        connection = _connect(target, "?mode=ro&immutable=1")
    except BaseException:
        directory.remove()
        raise
    if os.name == "nt":
        return connection, directory
    # The open file lives on without a name: nothing is left behind however this process ends.
    directory.remove()
    return connection, None


def _consistent_copy(path: str, directory: str, until: float) -> str:
    damage: sqlite3.Error | None = None
    damaged = attempt = 0
    previous: _Look | None = None
    while True:
        attempt += 1
        look = _look(path)
        # A journal of a transaction that is under way is gone in a moment; one that does not move
        # is hot, or belongs to a transaction that is held open.
        if look.journal is None or (previous is not None and _same_source(previous, look)):
            _check_room(look.size, directory)
            target = _copy_set(path, look, directory)
            if _same_for_copy(look, _look(path)):
                recent = abs(time.time_ns() - look.modified_ns) < 5_000_000_000
                try:
                    _recover(target, check=recent and damaged < 2 and look.size <= COPY_LIMIT)
                    return target
                except sqlite3.Error as error:
                    damage = error
                    damaged += 1
                    if damaged > 2:
                        raise
        if time.monotonic() > until:
            if damage is not None:
                raise damage
            raise VscdbBusy(f"{path} is being written all the time")
        previous = look
        time.sleep(min(0.002 * attempt, 0.1))


def _check_room(size: int, directory: str) -> None:
    free = shutil.disk_usage(directory).free
    if free < 2 * size + (16 << 20):
        raise VscdbBusy(
            f"it needs a private copy ({size >> 20} MB), for which there is no room in "
            f"{os.path.dirname(directory)}"
        )


# --------------------------------------------------------------------------- snapshots


class Snapshot:
    """An open database. ``db`` is a read-only connection that gives text as bytes; ``way`` is
    ``copy``, ``live`` or ``still`` (see the module). Read within :meth:`reading`."""

    def __init__(
        self,
        path: str,
        db: sqlite3.Connection,
        way: str,
        look: _Look | None = None,
        directory: _PrivateDirectory | None = None,
    ) -> None:
        self.path = path
        self.db = db
        self.way = way
        self._look = look
        self._directory = directory

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """What is read within the block belongs together. Raises :class:`_Changed` at the end when
        it does not, because the source was written meanwhile."""
        if self.way == "live":
            self.db.execute("begin")
            try:
                yield self.db
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self.db.execute("rollback")
            return
        try:
            yield self.db
        except (sqlite3.Error, ValueError) as error:
            if not self._unchanged():
                raise _Changed from error
            raise
        if not self._unchanged():
            raise _Changed

    def _unchanged(self) -> bool:
        if self._look is None:
            return True
        try:
            return _same_source(self._look, _look(self.path))
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        self.db.close()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None


def open_snapshot(
    path: str | Path, *, deadline: float = DEADLINE, prefer_copy: bool = False
) -> Snapshot:
    """Opens a database in the way that fits it. Raises :class:`VscdbBusy` when it cannot be had in
    time, :class:`OSError` when it cannot be read, :class:`ValueError` when it is no database or a
    damaged one (the message is one plain line)."""
    name = os.fspath(path)
    until = time.monotonic() + deadline
    try:
        return _open_snapshot(name, until, prefer_copy)
    except sqlite3.Error as error:
        raise _plain(error) from error


def _plain(error: sqlite3.Error) -> ValueError | VscdbBusy:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "locked" in text or "busy" in text:
        return VscdbBusy(f"the database is locked ({text})")
    return ValueError(f"the database cannot be read: {text}")


def _open_snapshot(path: str, until: float, prefer_copy: bool) -> Snapshot:
    look = _look(path)
    small = look.size <= COPY_LIMIT
    if not small and not prefer_copy:
        snapshot = _open_live(path, look) if look.wal_header else _open_still(path, until)
        if snapshot is not None:
            return snapshot
    if look.wal_header:
        # A writer that check-points all the time can outrun a copy, but not a reader.
        with contextlib.suppress(VscdbBusy):
            connection, directory = _open_copy(path, min(until, time.monotonic() + 1))
            return Snapshot(path, connection, "copy", None, directory)
        snapshot = _open_live(path, look)
        if snapshot is not None:
            return snapshot
    connection, directory = _open_copy(path, until)
    return Snapshot(path, connection, "copy", None, directory)


def _open_live(path: str, look: _Look) -> Snapshot | None:
    # Without an existing -shm, or with none but stale frames, SQLite would have to make files.
    if not look.wal_mode or not os.path.exists(path + "-shm"):
        return None
    try:
        return Snapshot(path, _connect(path, "?mode=ro&readonly_shm=1"), "live")
    except sqlite3.Error:
        return None


def _open_still(path: str, until: float) -> Snapshot | None:
    patience = min(until, time.monotonic() + 2)
    while True:
        look = _look(path)
        if look.wal_header:
            return _open_live(path, look)
        settled = abs(time.time_ns() - look.modified_ns) > _TICK_NS
        if settled and look.journal is None:
            break
        if time.monotonic() > patience:
            return None
        time.sleep(0.01)
    try:
        connection = _connect(path, "?mode=ro&immutable=1")
    except sqlite3.Error:
        if _same_source(look, _look(path)):
            raise
        return None
    return Snapshot(path, connection, "still", look)


@contextlib.contextmanager
def open_vscdb(path: str | Path, *, deadline: float = DEADLINE) -> Iterator[sqlite3.Connection]:
    """``with open_vscdb(path) as db``: a read-only connection to a consistent snapshot; text comes
    as bytes. Raises as :func:`open_snapshot` does; errors of SQLite within the block become
    :class:`ValueError`. A large database that was written meanwhile ends in :class:`VscdbBusy`:
    forget what was read."""
    snapshot = open_snapshot(path, deadline=deadline)
    try:
        with snapshot.reading() as db:
            yield db
    except _Changed as error:
        raise VscdbBusy(f"{path} was written while it was read") from error
    except sqlite3.Error as error:
        raise _plain(error) from error
    finally:
        snapshot.close()


class VscdbReader:
    """Reads one database several times, with as little opening as possible::

    with VscdbReader(path) as reader:
        answer = reader.read(lambda db: db.execute("select …").fetchall())
    """

    def __init__(self, path: str | Path, *, deadline: float = DEADLINE) -> None:
        self.path = os.fspath(path)
        self._deadline = deadline
        self._snapshot: Snapshot | None = None

    def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """``work(db)`` on a consistent snapshot. It may be called several times: when the source is
        written meanwhile, what it gave is forgotten. Raises as :func:`open_vscdb` does."""
        for attempt in range(6):
            if self._snapshot is None:
                self._snapshot = open_snapshot(
                    self.path, deadline=self._deadline, prefer_copy=attempt > 3
                )
            try:
                with self._snapshot.reading() as db:
                    return work(db)
            except _Changed:
                self.close()
            except sqlite3.Error as error:
                raise _plain(error) from error
        raise VscdbBusy(f"{self.path} is being written all the time")

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def __enter__(self) -> VscdbReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


# --------------------------------------------------------------------------- reading rows
#
# Keys are compared byte by byte, by index: "like" would fold case, treat "_" as a wildcard, and read
# the whole table (6 s for 10 conversations of a 2 GB database, against 0.08 s by range).


def has_table(db: sqlite3.Connection, table: str, columns: tuple[str, ...] = ()) -> bool:
    """Whether there is an ordinary table of this name (views and virtual tables run code that the
    file brings along) that has all of ``columns``."""
    row = db.execute(
        "select sql from sqlite_master where type = 'table' and name = ?", (table,)
    ).fetchone()
    if row is None or not isinstance(row[0], bytes):
        return False
    if not row[0].lstrip().upper().startswith(b"CREATE TABLE"):
        return False
    found = {
        bytes(row[1]).decode("utf-8", "replace")
        for row in db.execute(f'pragma table_info("{table}")')
    }
    return found.issuperset(columns)


def key_value_table(db: sqlite3.Connection, table: str) -> bool:
    """Whether ``table`` is one of VS Code's tables of (key, value)."""
    return has_table(db, table, ("key", "value"))


def as_bytes(value: Any) -> bytes | None:
    """A value as bytes, whether it is stored as TEXT or BLOB; ``None`` for NULL and numbers."""
    return value if isinstance(value, bytes) else None


def get(db: sqlite3.Connection, table: str, key: str | bytes) -> bytes | None:
    """The value of a key; ``None`` where it is missing, NULL or a number."""
    row = db.execute(
        f'select value from "{table}" where key = cast(? as text)', (_key(key),)
    ).fetchone()
    return as_bytes(row[0]) if row is not None else None


def rows(
    db: sqlite3.Connection, table: str, prefix: str | bytes
) -> Iterator[tuple[bytes, bytes | None]]:
    """(key, value) of every key that begins with ``prefix``, in the order of the keys, one row in
    memory at a time."""
    low, high = _range(prefix)
    for key, value in db.execute(
        f'select key, value from "{table}" where key >= cast(? as text) '
        "and key < cast(? as text) order by key",
        (low, high),
    ):
        if isinstance(key, bytes):
            yield key, as_bytes(value)


def numbered_rows(
    db: sqlite3.Connection, table: str, prefix: str | bytes
) -> Iterator[tuple[bytes, int, bytes | None]]:
    """As :func:`rows`, with each row's rowid between key and value: higher ones were written
    later."""
    for key, rowid, value in db.execute(
        f'select key, rowid, value from "{table}" where key >= cast(? as text) '
        "and key < cast(? as text) order by key",
        _range(prefix),
    ):
        if isinstance(key, bytes):
            yield key, rowid, value if isinstance(value, bytes) else None


def keys(db: sqlite3.Connection, table: str, prefix: str | bytes) -> Iterator[tuple[bytes, int]]:
    """(key, rowid) of every key that begins with ``prefix``, from the index alone."""
    for key, rowid in db.execute(
        f'select key, rowid from "{table}" where key >= cast(? as text) '
        "and key < cast(? as text) order by key",
        _range(prefix),
    ):
        if isinstance(key, bytes):
            yield key, rowid


def digest_of_keys(db: sqlite3.Connection, table: str, prefix: str | bytes) -> tuple[int, int, int]:
    """Number, highest and sum of the rowids of the keys that begin with ``prefix``, from the index
    alone. A row that is replaced gets a new rowid (``UNIQUE ON CONFLICT REPLACE``), so that this
    changes with every row that is written anew."""
    low, high = _range(prefix)
    count, highest, total = db.execute(
        f'select count(*), max(rowid), total(rowid) from "{table}" where key >= cast(? as text) '
        "and key < cast(? as text)",
        (low, high),
    ).fetchone()
    return count, highest or 0, int(total)


def next_key(db: sqlite3.Connection, table: str, low: bytes, high: bytes) -> bytes | None:
    """The first key from ``low`` up to, not including, ``high``."""
    row = db.execute(
        f'select key from "{table}" where key >= cast(? as text) and key < cast(? as text) '
        "order by key limit 1",
        (low, high),
    ).fetchone()
    return as_bytes(row[0]) if row is not None else None


def _key(key: str | bytes) -> bytes:
    return key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")


def _range(prefix: str | bytes) -> tuple[bytes, bytes]:
    low = _key(prefix)
    return low, low[:-1] + bytes([low[-1] + 1])
