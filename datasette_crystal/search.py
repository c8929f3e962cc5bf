"""Full text: an index of words and an index of CJK characters, kept in step with ``messages``.

``messages_fts`` is an external content table, so Datasette offers a search box on ``messages``. It
is built at the end of the first import (four times as fast as row by row) and kept up to date from
then on. unicode61 takes a run of Chinese, Japanese or Korean text for one word, together with the
Latin words that touch it, so characters of those scripts and such words are indexed again in
``messages_cjk``, separated by spaces, where two adjacent characters are found as a phrase. Tool
outputs are not indexed: they would cost four times the whole import.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

#: Han, kana, hangul, and the marks between them, as part of a character class.
CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9d"
    "\U00020000-\U0003ffff"
)
_CJK_RUN = re.compile(f"[{CJK}]+")

#: Words and identifiers that touch such a run, after it and before it: 用pytest测试. Bounded, since
#: anything may stand there.
_AFTER = re.compile(r"[^\W_]+(?:[-_./:][^\W_]+)*")
_BEFORE = re.compile(r"[^\W_]+(?:[-_./:][^\W_]+)*\Z")
_NEAR = 80

#: messages_fts covers these columns of messages.
FTS_COLUMNS = ("content", "thinking")


def fts_exists(connection: sqlite3.Connection) -> bool:
    """Whether the word index was built (at the end of the first import)."""
    return (
        connection.execute(
            "select 1 from sqlite_master where name = 'messages_fts' and type = 'table'"
        ).fetchone()
        is not None
    )


def build_fts(connection: sqlite3.Connection) -> None:
    """Builds the word index over all messages. Runs in the caller's transaction."""
    connection.execute(
        # content="messages" in double quotes: Datasette looks for just that to offer its search box
        "create virtual table messages_fts using fts5(content, thinking, "
        'content="messages", content_rowid="id", tokenize="unicode61 remove_diacritics 2")'
    )
    # fewer, larger segments while building: a tenth less CPU
    connection.execute("insert into messages_fts(messages_fts, rank) values ('hashsize', 33554432)")
    connection.execute("insert into messages_fts(messages_fts) values ('rebuild')")
    connection.execute("insert into messages_fts(messages_fts, rank) values ('hashsize', 1048576)")


def cjk_exists(connection: sqlite3.Connection) -> bool:
    """Whether the index of CJK characters is there (it comes with the schema)."""
    return (
        connection.execute("select 1 from sqlite_master where name = 'messages_cjk'").fetchone()
        is not None
    )


def build_cjk(connection: sqlite3.Connection) -> None:
    """Builds the index of CJK characters again, over all messages."""
    connection.execute("create virtual table messages_cjk using fts5(text, content='')")
    rows = connection.execute("select id, content, thinking from messages")
    while batch := rows.fetchmany(1000):
        add_texts(connection, batch, words=False)


def cjk_text(*texts: str | None) -> str | None:
    """The CJK characters of some texts, separated by spaces, with the words that touch them;
    ``None`` when there are none. What stands apart is parted by an ``x``, so that a phrase never
    reaches over other text."""
    parts: list[str] = []
    for text in texts:
        if not text or text.isascii():
            continue
        end = None
        for run in _CJK_RUN.finditer(text):
            if end is None:
                gap, after = text[max(0, run.start() - _NEAR) : run.start()], None
            else:
                gap = text[end : run.start()]
                after = _AFTER.match(gap, 0, _NEAR)
            if after:
                parts.append(after[0])
            if not after or after.end() < len(gap):
                parts.append("x")
                before = _BEFORE.search(gap, max(0, len(gap) - _NEAR))
                if before:
                    parts.append(before[0])
            parts.append(" ".join(run[0]))
            end = run.end()
        if end is not None:
            after = _AFTER.match(text, end, end + _NEAR)
            if after:
                parts.append(after[0])
    if not parts:
        return None
    return " ".join(parts[1:] if parts[0] == "x" else parts)


Texts = tuple[int, str, "str | None"]  # message id, content, thinking


def add_texts(connection: sqlite3.Connection, rows: Iterable[Texts], words: bool) -> None:
    """Indexes messages that were inserted. ``words`` says whether the word index exists."""
    rows = list(rows)
    if words:
        connection.executemany(
            "insert into messages_fts (rowid, content, thinking) values (?, ?, ?)", rows
        )
    cjk = [(id_, text) for id_, *texts in rows if (text := cjk_text(*texts))]
    if cjk:
        connection.executemany("insert into messages_cjk (rowid, text) values (?, ?)", cjk)


def remove_texts(connection: sqlite3.Connection, rows: Iterable[Texts], words: bool) -> None:
    """Takes messages out of the indexes, given the very texts that were indexed. Call it before the
    rows of ``messages`` change."""
    rows = list(rows)
    if words:
        connection.executemany(
            "insert into messages_fts (messages_fts, rowid, content, thinking) "
            "values ('delete', ?, ?, ?)",
            rows,
        )
    cjk = [(id_, text) for id_, *texts in rows if (text := cjk_text(*texts))]
    if cjk:
        connection.executemany(
            "insert into messages_cjk (messages_cjk, rowid, text) values ('delete', ?, ?)", cjk
        )
