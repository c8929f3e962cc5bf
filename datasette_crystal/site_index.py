"""The search of a static site: an index of words that a browser reads in small pieces.

A page opened from a disk may load nothing but scripts, so every piece is a script that hands over
data. Terms are kept in their order, cut into shards, and a table of the first term of each says
where to look: a word needs one shard, a prefix a few that follow each other. A term is a word in
lower case without diacritics, or one or two characters of Chinese, Japanese or Korean text. The
messages that hold it are numbers, the newest conversation's first, as differences, five bits a
character. The texts themselves are in shards of their own, of which a page of results needs a few.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .search import CJK
from .text import clean
from .web.search_terms import fold

#: Characters of a message that are searched, and that are kept to show and to compare phrases with.
MAX_INDEXED, MAX_TEXT = 40_000, 3_000
#: A longer word is found by its beginning.
MAX_WORD = 40
#: Characters of a shard of terms, and of texts. A term that every message holds has its own.
TERM_SHARD, TEXT_SHARD = 48_000, 96_000

_PIECE = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+")
_IS_CJK = re.compile(f"[{CJK}]")
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def terms_of(text: str) -> set[str]:
    """The terms that a text is found by."""
    found: set[str] = set()
    for piece in set(_PIECE.findall(fold(unicodedata.normalize("NFC", text)))):
        if _IS_CJK.match(piece):
            found.update(piece)
            found.update(piece[i : i + 2] for i in range(len(piece) - 1))
        else:
            found.add(piece[:MAX_WORD])
    return found


@dataclass(slots=True)
class _Postings:
    """Numbers of messages, ascending, as the text that the browser decodes."""

    last: int = -1
    written: bytearray = field(default_factory=bytearray)

    def add(self, number: int) -> None:
        difference = number - self.last - 1
        self.last = number
        while difference >= 32:
            self.written.append(ord(_DIGITS[32 + difference % 32]))
            difference //= 32
        self.written.append(ord(_DIGITS[difference]))


class SiteIndex:
    """Takes the messages of a site one by one, in the order in which results are shown."""

    def __init__(self) -> None:
        self.count = 0
        self._postings: dict[str, _Postings] = {}
        self._texts: list[list[Any]] = []
        self._room = TEXT_SHARD
        self._first_texts: list[int] = []
        self._kinds: list[str] = []

    def add(
        self, kind: str, label: str, anchor: str, page: int, timestamp: str | None, text: str
    ) -> list[tuple[str, str]]:
        """A message: ``kind`` is a letter (p a person's words, m the model's, o others'), ``label``
        what it is called, ``anchor`` and ``page`` its place in the conversation. Returns the files that are complete now."""
        text = clean(text)
        for term in terms_of(text[:MAX_INDEXED]):
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = _Postings()
            postings.add(self.count)
        shown = " ".join(text[: 2 * MAX_TEXT].split())
        whole = len(text) <= 2 * MAX_TEXT and len(shown) <= MAX_TEXT
        shown = shown[:MAX_TEXT]
        if not self._texts:
            self._first_texts.append(self.count)
        self._texts.append([anchor, page, timestamp or "", label, int(whole), shown])
        self._kinds.append(kind)
        self.count += 1
        self._room -= len(shown) + 60
        return self._flush() if self._room <= 0 else []

    def _flush(self) -> list[tuple[str, str]]:
        if not self._texts:
            return []
        name = f"texts-{len(self._first_texts) - 1}"
        files = [(f"{name}.js", data_script(name, self._texts))]
        self._texts = []
        self._room = TEXT_SHARD
        return files

    def finish(self) -> Iterator[tuple[str, str]]:
        """(name, content) of the files that are left: the last texts, the terms, and ``terms.js``,
        the table of all."""
        yield from self._flush()
        firsts: list[str] = []
        shard: list[str] = []
        room = TERM_SHARD
        # in the order in which JavaScript compares texts
        for term in sorted(self._postings, key=lambda term: term.encode("utf-16-be")):
            postings = self._postings[term].written.decode("ascii")
            if shard and len(postings) > room:
                yield _terms_file(len(firsts) - 1, shard)
                shard, room = [], TERM_SHARD
            if not shard:
                firsts.append(term)
            shard += [term, postings]
            room -= len(postings) + len(term) + 6
        if shard:
            yield _terms_file(len(firsts) - 1, shard)
        table = {
            "cjk": CJK,
            "longest": MAX_WORD,
            "digits": _DIGITS,
            "terms": firsts,
            "texts": self._first_texts,
            "kinds": "".join(self._kinds),
        }
        yield "terms.js", data_script("terms", table)


def _terms_file(number: int, shard: list[str]) -> tuple[str, str]:
    return f"terms-{number}.js", data_script(f"terms-{number}", shard)


def data_script(name: str, data: Any) -> str:
    """A script that hands over data."""
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"crystalData({json.dumps(name)},{written});\n"
