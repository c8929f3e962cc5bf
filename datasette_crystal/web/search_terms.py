"""What a person types into the search box, as terms that SQLite's full-text indexes understand.

Words, ``"phrases"``, ``prefixes*``, identifiers (``foo_bar``, ``a/b.py``), Chinese, Japanese and
Korean text of any length, and ``-exclusions``. Any text gives some list of terms: every word goes to
FTS5 as a quoted string, so none of its operators is ever reached.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..search import CJK, cjk_text

#: What is typed beyond these is left out, and the page says so.
MAX_CHARACTERS, MAX_TERMS = 1000, 24

_QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»"}
_TOKEN = re.compile(r"[^\W_]+")
_CJK_RUN = re.compile(f"[{CJK}]+")
#: A run of CJK characters with the words that touch it: what the character index holds as one.
_CJK_WORD = re.compile(
    rf"(?:[^\W_{CJK}]+(?:[-_./:][^\W_{CJK}]+)*)?[{CJK}]+(?:[^\W_]+(?:[-_./:][^\W_]+)*)?"
)
#: Where CJK characters and other text meet.
_BORDERS = re.compile(rf"(?<=[{CJK}])(?=[^{CJK}])|(?<=[^{CJK}])(?=[{CJK}])")
_BOUNDARY_BEFORE = rf"(?:(?<![^\W_])|(?<=[{CJK}]))"
_BOUNDARY_AFTER = rf"(?:(?![^\W_])|(?=[{CJK}]))"


@dataclass(frozen=True)
class Term:
    """One thing to look for. ``words`` is an FTS5 string for the word index (and for the character
    index, which holds words that touch CJK characters), ``characters`` one for the character index;
    with both, both must match. ``runs`` are its CJK characters as they are."""

    text: str
    exclude: bool = False
    words: str | None = None
    characters: str | None = None
    runs: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class Terms:
    """A parsed search: what must be there, what must not, and what was left out of the search and
    why (whole sentences)."""

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Term, ...]:
        return (*self.wanted, *self.unwanted)


def parse(text: str) -> Terms:
    """The terms of what was typed. Never fails."""
    notes = []
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS]
        notes.append(f"Only the first {MAX_CHARACTERS:,} characters were looked for.")
    found: list[Term] = []
    dropped: list[str] = []
    for piece, exclude, prefix in _pieces(_storable(text)):
        # 修复bug finds 修复 bug, too
        parts = [piece] if exclude else [part for part in _BORDERS.split(piece) if part.strip()]
        terms = [
            _term(part.strip(), exclude, prefix and part is parts[-1])
            for part in parts
            if part.strip()
        ]
        new = [term for term in terms if term is not None]
        if not new:
            dropped.append(piece)
        found += [term for term in dict.fromkeys(new) if term not in found]
    if len(found) > MAX_TERMS:
        del found[MAX_TERMS:]
        notes.append(f"Only the first {MAX_TERMS} words were looked for.")
    if dropped:
        shown = ", ".join(f"“{piece[:30]}”" for piece in dropped[:5])
        notes.append(f"{shown}: without letters or digits, so not looked for.")
    return Terms(
        tuple(term for term in found if not term.exclude),
        tuple(term for term in found if term.exclude),
        tuple(notes),
    )


def _storable(text: str) -> str:
    """Without what SQLite cannot take in a text."""
    return "".join(" " if c == "\0" or 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def _pieces(text: str) -> Iterable[tuple[str, bool, bool]]:
    """(text, is excluded, is a prefix) of each word and phrase."""
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        exclude = False
        # --force is a word; -force is not wanted
        if (
            text[at] == "-"
            and at + 1 < len(text)
            and not (text[at + 1].isspace() or text[at + 1] == "-")
        ):
            exclude = True
            at += 1
        closing = _QUOTES.get(text[at])
        if closing:
            end = next((i for i in range(at + 1, len(text)) if text[i] in closing), len(text))
            piece = text[at + 1 : end]
            at = end + 1
            prefix = text[at : at + 1] == "*"
            at += prefix
        else:
            end = at
            while end < len(text) and not text[end].isspace() and text[end] not in '"“„«':
                end += 1
            piece = text[at:end]
            at = end
            prefix = piece.endswith("*")
        if piece.strip():
            yield piece.strip(), exclude, prefix


def _term(text: str, exclude: bool, prefix: bool) -> Term | None:
    if not _TOKEN.search(text) and not _CJK_RUN.search(text):
        return None
    runs = tuple(_CJK_RUN.findall(text))
    rest = _CJK_WORD.sub(" ", text) if runs else text
    words = _quoted(rest) + ("*" if prefix else "") if _TOKEN.search(rest) else None
    cjk = cjk_text(text)
    characters = None
    if cjk:
        characters = _quoted(cjk) + ("*" if prefix and not _CJK_RUN.match(cjk[-1]) else "")
    return Term(text, exclude, words, characters, runs, _pattern(text, prefix))


def _quoted(text: str) -> str:
    """A string of FTS5's query language. What the tokenizer makes of it is one phrase."""
    return '"' + text.replace('"', " ") + '"'


# --------------------------------------------------------------------------- marks


class _Folding(dict[int, int]):
    """Lower case without diacritics, one character for one, as the word index compares."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        if code < 0x2000:
            parts = unicodedata.normalize("NFD", character)
            if all(unicodedata.combining(part) for part in parts[1:]):
                character = parts[0]
        folded = character.lower()
        self[code] = ord(folded) if len(folded) == 1 else code
        return self[code]


_folding = _Folding()


def fold(text: str) -> str:
    """``text`` as the word index compares it; it keeps its length."""
    return text.lower() if text.isascii() else text.translate(_folding)


def _pattern(text: str, prefix: bool) -> str:
    """A regular expression that finds a term in folded text."""
    tokens: list[str] = []
    for word in _TOKEN.findall(fold(text)):
        tokens += re.findall(f"[{CJK}]+|[^{CJK}]+", word)
    if not tokens:
        return "".join(map(re.escape, _CJK_RUN.findall(text)))
    parts = []
    for i, token in enumerate(tokens):
        cjk = _CJK_RUN.match(token)
        if i:
            parts.append(r"[\W_]*" if cjk or _CJK_RUN.match(tokens[i - 1]) else r"[\W_]+")
        elif not cjk:
            parts.append(_BOUNDARY_BEFORE)
        parts.append(re.escape(token))
    if not _CJK_RUN.match(tokens[-1]):
        parts.append(rf"[^\W_{CJK}]*" if prefix else _BOUNDARY_AFTER)
    return "".join(parts)


#: A passage: pieces of text, and whether each is marked.
Passage = list[tuple[str, bool]]

_SPACES = re.compile(r"\s+")

# Each of these reads a text once, whatever it holds: no repetition can match what follows it.
_FENCES = ("```", "~~~")
_LINE_MARK = re.compile(
    r"^[ \t]{0,20}(?:(?:>[ \t]?){1,5}|#{1,6}[ \t]+|([-*+])[ \t]+(?:\[[ xX]\] )?)", re.M
)
_INLINE = (
    (re.compile(r"(?<!`)(`{1,3})([^`\n]+)\1(?!`)"), r"\2"),
    (re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{1,2000}\)"), r"\1"),
    (re.compile(r"(\*\*|~~)(?=[^\s*~])([^*~\n]{1,500})(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,500})(?<=\S)\*(?![\w*])"), r"\1"),
)


def plain(text: str) -> str:
    """Markdown as words to read: without the marks of headings, lists, quotes, tables, emphasis,
    code and links. Code blocks keep what stands in them."""
    parts: list[str] = []
    lines: list[str] = []
    code = ""
    for line in text.split("\n"):
        bare = line.strip()
        if bare.startswith(_FENCES) and code in ("", bare[:3]):
            parts += lines if code else _without_marks(lines)
            lines.clear()
            code = "" if code else bare[:3]
        elif code or not bare.startswith(("|", "-", ":")):
            lines.append(line)
        elif len(bare) < 3 or bare.strip("|-: "):  # no rule, nor the line below a table's head
            cells = " · ".join(cell for cell in map(str.strip, bare.split("|")) if cell)
            lines.append(cells if bare[0] == "|" else line)
    parts += lines if code else _without_marks(lines)
    return "\n".join(parts)


def _without_marks(lines: list[str]) -> list[str]:
    text = _LINE_MARK.sub(lambda mark: "• " if mark[1] else "", "\n".join(lines))
    for pattern, words in _INLINE:
        text = pattern.sub(words, text)
    return text.split("\n") if lines else []


def read_passage(text: str, terms: Sequence[Term], width: int = 260) -> tuple[Passage, int]:
    """The :func:`passage` of a Markdown text, in plain words unless a term is found only in what
    they leave out, such as the address of a link."""
    best = passage(plain(text), terms, width)
    if best[1] < sum(bool(term.pattern) for term in terms):
        whole = passage(text, terms, width)
        return whole if whole[1] > best[1] else best
    return best


def passage(text: str, terms: Sequence[Term], width: int = 260) -> tuple[Passage, int]:
    """The ``width`` characters of ``text`` that hold most of ``terms``, with these marked, and how
    many of them it holds. White space is folded; where nothing is found it is the beginning."""
    patterns = [re.compile(term.pattern) for term in terms if term.pattern]
    folded = fold(text)
    places: list[tuple[int, int]] = []
    for number, pattern in enumerate(patterns):
        for count, match in enumerate(pattern.finditer(folded)):
            if count >= 20:
                break
            places.append((match.start(), number))
    places.sort()
    start, most = 0, 0
    for i, (at, _) in enumerate(places):
        inside = len({number for other, number in places[i:] if other < at + width * 3 // 4})
        if inside > most:
            start, most = at, inside
    begin = max(0, start - width // 4) if start > width // 4 else 0
    if begin:
        space = text.find(" ", begin, start)
        begin = space + 1 if 0 <= space - begin < 30 else begin
    # white space is folded only afterwards: read a little more than will be shown
    part = _SPACES.sub(" ", text[begin : begin + 4 * width]).strip()
    more = len(part) > width or begin + 4 * width < len(text)
    part = part[:width]
    pieces = marked(part, terms)
    if begin:
        pieces.insert(0, ("… ", False))
    if more:
        pieces.append((" …", False))
    return pieces, most


def marked(text: str, terms: Sequence[Term], parts: bool = False) -> Passage:
    """``text`` with ``terms`` marked. With ``parts``, also inside of words: titles and tool calls are
    found by parts of words."""
    wanted = [term.pattern for term in terms if term.pattern]
    if parts:
        wanted += [re.escape(fold(term.text.rstrip("*"))) for term in terms]
    patterns = "|".join(f"(?:{pattern})" for pattern in wanted if pattern)
    if not patterns:
        return [(text, False)]
    pieces: Passage = []
    end = 0
    for match in re.finditer(patterns, fold(text)):
        if match.end() > match.start() >= end:
            pieces += [
                (text[end : match.start()], False),
                (text[match.start() : match.end()], True),
            ]
            end = match.end()
    pieces.append((text[end:], False))
    return [piece for piece in pieces if piece[0]]
