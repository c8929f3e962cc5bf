"""Looks for secrets in a crystal database, and in the bytes of any file.

:func:`scan_database` reads every text of every table and tells where a secret stands.
:func:`scan_bytes` reads a file as nothing but bytes, in the encodings that text hides in: the last
look at what is about to be published. Nothing of Datasette is imported.
"""

from __future__ import annotations

import base64
import binascii
import functools
import io
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

from .secret_rules import RULES, Finding, Rule, canonical, find

#: Bytes that are looked at together, and how many of them again with the next ones: the longest
#: secret that is found for sure, in its longest encoding.
WINDOW = 1 << 20
OVERLAP = 1 << 16


@dataclass(frozen=True)
class Place:
    """A secret in a database: ``finding`` stands in ``column`` of the row of ``table`` with the
    primary key ``key``, which belongs to the conversation (``source``, ``session_id``) where it
    belongs to one."""

    table: str
    column: str
    key: tuple[Any, ...]
    finding: Finding
    source: str | None = None
    session_id: str | None = None
    title: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ByteFinding:
    """A secret in a file: ``kind`` of a rule, or ``known`` for one that was asked for; how many bytes
    from the start, or from where on it was looked for where it is not ``raw``; and in which encoding it stands there (``raw``, ``escaped``, ``utf-16``,
    ``base64`` or ``percent``)."""

    kind: str
    offset: int
    encoding: str
    value: str = field(repr=False)


# --- A database ----------------------------------------------------------------------------------


def scan_database(path: str | Path, rules: Sequence[Rule] = RULES) -> Iterator[Place]:
    """Every secret in every text, JSON and BLOB of a crystal database, table by table.

    The tables in which full-text search keeps its words are left out: they hold single words of the
    texts. Raises :class:`datasette_crystal.store.StoreError` where the file is no crystal database
    or can't be read.
    """
    from .store import StoreError, open_readonly

    rules = tuple(rules)
    connection = open_readonly(path)
    # a text that is no UTF-8 (of a damaged database) is read as bytes
    connection.text_factory = _text
    try:
        for table in _tables(connection):
            yield from _scan_table(connection, table, rules)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path}: {error}") from error
    finally:
        connection.close()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(connection: sqlite3.Connection) -> list[str]:
    """The tables that hold rows of their own: no views, no full-text tables, nothing of SQLite's."""
    rows = connection.execute(
        "select name, coalesce(sql, '') from sqlite_master where type = 'table' order by rowid"
    ).fetchall()
    virtual = [name for name, sql in rows if sql.lower().startswith("create virtual table")]
    shadows = tuple(f"{name}_" for name in virtual)
    endings = ("data", "idx", "content", "docsize", "config", "segments", "segdir", "stat")
    return [
        name
        for name, _ in rows
        if name not in virtual
        and not name.startswith("sqlite_")
        and not (shadows and name.startswith(shadows) and name.rpartition("_")[2] in endings)
    ]


def _scan_table(
    connection: sqlite3.Connection, table: str, rules: tuple[Rule, ...]
) -> Iterator[Place]:
    info = connection.execute(f"pragma table_info({_quoted(table)})").fetchall()
    columns = [row[1] for row in info]
    keys = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
    select = ", ".join(map(_quoted, keys)) if keys else "rowid"
    width = max(1, len(keys))
    owner = _owner(table, columns)
    rows = connection.execute(
        f"select {select}, {owner or 'null'}, {', '.join(map(_quoted, columns))} "
        f"from {_quoted(table)}"
    )
    for row in rows:
        for column, value in zip(columns, row[width + 1 :], strict=True):
            for finding in _find_in_value(value, rules):
                conversation = (
                    connection.execute(
                        "select source, session_id, title from conversations where id = ?",
                        (row[width],),
                    ).fetchone()
                    if row[width] is not None
                    else None
                )
                yield Place(
                    table, column, tuple(row[:width]), finding, *(conversation or (None,) * 3)
                )


def _owner(table: str, columns: list[str]) -> str | None:
    """SQL for the conversation that a row belongs to."""
    name = _quoted(table)
    if table == "conversations":
        return "id"
    if "conversation_id" in columns:
        return f"{name}.conversation_id"
    if "message_id" in columns:
        return f"(select m.conversation_id from messages m where m.id = {name}.message_id)"
    through = {"source_files": f"{name}.id", "unknown_records": f"{name}.source_file_id"}
    if table in through:
        return (
            "(select min(cf.conversation_id) from conversation_files cf "
            f"where cf.source_file_id = {through[table]})"
        )
    return None


def _find_in_value(value: object, rules: tuple[Rule, ...]) -> list[Finding]:
    if isinstance(value, str):
        return find(value, rules)
    if isinstance(value, bytes):
        text = _decoded(value)
        if text is not None:
            return find(text, rules)
        # a picture, an archive: only what proves itself by its form, else noise looks like passwords
        return find(value.decode("latin-1"), _certain(rules))
    return []


def _decoded(data: bytes) -> str | None:
    """The text that ``data`` is, in UTF-8 or UTF-16; ``None`` where it is none."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    head = data[:4096]
    if head[1::2].count(0) * 4 > len(head):
        return data.decode("utf-16-le", "replace")
    if head[::2].count(0) * 4 > len(head):
        return data.decode("utf-16-be", "replace")
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


# --- A file --------------------------------------------------------------------------------------

_ESCAPES = re.compile(rb"\\+(?:u([0-9a-fA-F]{4})|([nrtbf\"/']))")
_ESCAPED = {
    b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f",
    b'"': b'"', b"/": b"/", b"'": b"'",
}  # fmt: skip
_ENTITIES = re.compile(rb"&(?:amp;)?(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
#: UTF-16 of either byte order; of the little-endian one, the first character stands before it.
_UTF16 = re.compile(rb"\x00[\t\n\r\x20-\x7e](?:\x00[\t\n\r\x20-\x7e]){6,}")
#: Base64 in one piece, or in lines of at least 16 characters; the line breaks may be escaped.
_BASE64 = re.compile(
    rb"[A-Za-z0-9+/_-]{16,}(?:(?:\\+r)?(?:\\+n|\r?\n)[A-Za-z0-9+/_-]{2,}){0,100000}"
)
_BREAKS = re.compile(rb"(?:\\+r)?(?:\\+n|\r?\n)")
_URLSAFE = bytes.maketrans(b"-_", b"+/")
_PERCENT = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#\[\]-]|%[0-9A-Fa-f]{2}){8,}")


def scan_bytes(
    data: bytes | str | Path | BinaryIO,
    rules: Sequence[Rule] = RULES,
    known: Iterable[str] = (),
) -> Iterator[ByteFinding]:
    """What ``rules`` find in the bytes of a file, and every place of a ``known`` value.

    ``data`` is bytes, the path of a file, or an open binary file. It is read in overlapping windows,
    so memory does not grow with its size. Each window is looked at as it is (UTF-8), with the escapes
    of JSON and HTML undone, as UTF-16 of both byte orders, with base64 decoded from each of its four
    places, and with percent-encoding undone. The same value in the same encoding is told once for
    each window. Known values are compared exactly, and without the escapes they came with.

    The tables of a SQLite file lie in pages: a long text may be cut where a page ends. Scan the rows
    of a database with :func:`scan_database` as well.
    """
    rules = tuple(rules)
    values = _needles(known)
    for offset, window in _windows(data):
        told: set[tuple[str, str, str]] = set()
        for encoding, view in _views(window):
            for kind, value, at in _search(encoding, view, rules, values):
                if (encoding, kind, value) not in told:
                    told.add((encoding, kind, value))
                    # what was decoded has lost its place: say where the window begins
                    where = offset + at if encoding == "raw" else offset
                    yield ByteFinding(kind, where, encoding, value)


def _needles(known: Iterable[str]) -> list[tuple[str, bytes]]:
    needles: dict[bytes, str] = {}
    for value in known:
        bare = canonical(value)
        # a backslash in a secret is two in JSON, and four in JSON in JSON
        for form in (value, bare, bare.replace("\\", "\\\\"), bare.replace("\\", "\\" * 4)):
            if form:
                needles.setdefault(form.encode("utf-8", "surrogatepass"), value)
                if not form.isascii():
                    needles.setdefault(form.encode("utf-16-le", "surrogatepass"), value)
                    needles.setdefault(form.encode("utf-16-be", "surrogatepass"), value)
    return [(value, needle) for needle, value in needles.items()]


def _windows(data: bytes | str | Path | BinaryIO) -> Iterator[tuple[int, bytes]]:
    if isinstance(data, str | Path):
        with open(data, "rb") as file:
            yield from _windows(file)
        return
    source = io.BytesIO(data) if isinstance(data, bytes | bytearray) else data
    offset = 0
    kept = b""
    while True:
        fresh = source.read(WINDOW)
        if not fresh:
            return
        window = kept + fresh
        yield offset - len(kept), window
        offset += len(fresh)
        kept = window[-OVERLAP:]


def _views(window: bytes) -> Iterator[tuple[str, bytes]]:
    """What ``window`` says in each encoding."""
    yield "raw", window
    if b"\\" in window or b"&" in window:
        around = _around_escapes(window)
        plain = _ENTITIES.sub(_entity, _ESCAPES.sub(_escape, around))
        if plain != around:
            yield "escaped", plain
    if runs16 := [match.span() for match in _UTF16.finditer(window)]:
        wide = b"\n".join(
            window[begin:end].replace(b"\0", b"")
            for start, end in runs16
            for begin in (start, max(start - 1, 0))
        )
        yield "utf-16", wide
        if b"\\" in wide:
            yield "utf-16", _ESCAPES.sub(_escape, wide)
    runs64 = [
        _BREAKS.sub(b"", match.group()).translate(_URLSAFE) for match in _BASE64.finditer(window)
    ]
    for shift in range(4):
        yield "base64", b"\n".join(_decode_base64(run[shift:]) for run in runs64)
    if b"%" in window:
        words = b"\n".join(word for word in window.split() if b"%" in word)
        coded = b"\n".join(run for run in _PERCENT.findall(words) if b"%" in run)
        yield "percent", unquote_to_bytes(coded)
        yield "percent", unquote_to_bytes(coded.replace(b"+", b" "))


#: Bytes before and after an escape that a secret with the escape in it may reach, and how far away the
#: beginning and the end of a word are looked for, so that no word is cut.
_REACH = 4096


def _around_escapes(window: bytes) -> bytes:
    """The parts of ``window`` that read otherwise once their escapes are undone."""
    parts: list[bytes] = []
    done = 0
    at = -1
    while True:
        places = [window.find(sign, max(at + 1, done)) for sign in (b"\\", b"&")]
        at = min((place for place in places if place >= 0), default=-1)
        if at < 0:
            return b"\n".join(parts)
        start = max(done, at - _REACH)
        end = at
        # as far as one escape follows another
        while (
            last := max(window.rfind(sign, end + 1, end + 2 * _REACH) for sign in (b"\\", b"&"))
        ) >= 0:
            end = last
        end += _REACH
        if start > done:
            start = max(window.rfind(b" ", done, start), window.rfind(b"\n", done, start), done)
        ends = [place for sign in (b" ", b"\n") if (place := window.find(sign, end)) >= 0]
        end = min(ends, default=len(window))
        parts.append(window[start:end])
        done = end


def _decode_base64(run: bytes) -> bytes:
    whole = len(run) // 4 * 4
    rest = run[whole:]
    if len(rest) > 1:
        run, whole = run + b"=" * (4 - len(rest)), whole + 4
    try:
        return base64.b64decode(run[:whole])
    except (binascii.Error, ValueError):
        return b""


def _character(code: int) -> bytes:
    try:
        return chr(code).encode("utf-8", "replace")
    except (ValueError, OverflowError):
        return b"?"


def _escape(match: re.Match[bytes]) -> bytes:
    return _character(int(match[1], 16)) if match[1] else _ESCAPED[match[2]]


def _entity(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return _character(int(match[1]))
    return _character(int(match[2], 16)) if match[2] else _NAMED[match[3]]


def _search(
    encoding: str, view: bytes, rules: tuple[Rule, ...], values: list[tuple[str, bytes]]
) -> Iterator[tuple[str, str, int]]:
    """(kind, value, place) of what is in ``view``."""
    narrow = view.replace(b"\0", b"") if encoding == "base64" and values else view
    for value, needle in values:
        place = view.find(needle)
        if place < 0 and narrow is not view:
            place = narrow.find(needle)
        if place >= 0:
            yield "known", value, place
    if not rules:
        return
    if encoding == "base64":
        # most of it never was base64, or is a picture: the texts in it, also of UTF-16
        view = b"\n".join(_TEXTS.findall(view.replace(b"\0", b"")))
    # noise has no context: there a secret has to prove itself by its form
    sample = view[:4096]
    if len(sample.translate(None, _PRINTABLE)) * 4 > len(sample):
        rules = _certain(rules)
    # one character a byte keeps the places
    for finding in find(view.decode("latin-1"), rules):
        value = finding.value.encode("latin-1").decode("utf-8", "replace")
        yield finding.kind, value, finding.start


_TEXTS = re.compile(rb"[\t\n\r\x20-\x7e]{12,}")
_PRINTABLE = bytes((*range(9, 14), *range(32, 127)))


@functools.cache
def _certain(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if not rule.by_context)


def shown_title(title: str, values: Iterable[str]) -> str:
    """A title of a conversation with ``values`` without any secret: also where it was cut off in the
    middle of one."""
    for finding in reversed(find(title)):
        title = f"{title[: finding.start]}[{finding.kind}]{title[finding.end :]}"
    for value in sorted(values, key=len, reverse=True):
        title = title.replace(value, "[secret]")
        for length in range(min(len(value), len(title)), 3, -1):
            if title.rstrip("…").endswith(value[:length]):
                title = title.rstrip("…")[:-length] + "[secret]…"
                break
    return title
