"""Untrusted text made into HTML: Markdown, code, terminal output, diffs, search marks.

All HTML of the plugin that is not written by an autoescaping template comes from here. Markdown is
parsed with HTML switched off, and what comes out goes through an allow-list (nh3) all the same.
Everything else is escaped text in ``<span>`` elements with classes of ours. No function here raises
because of what a text holds, and none takes long: lengths are capped, and a :class:`Budget` stops
what a hostile text makes slow.
"""

from __future__ import annotations

import functools
import hashlib
import html
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ..text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: Longer texts are shown as they are.
MAX_MARKDOWN = 100_000
#: Longer code blocks have no colours. Lexers take time that grows with the square of hostile text.
MAX_HIGHLIGHT = 8_000
#: The same for lexers that are slower at it.
MAX_SLOW_HIGHLIGHT = 1_000
#: A table's lines times its columns: short rows are filled up, so a small text could be a huge table.
MAX_CELLS = 20_000
#: Seconds that one text may take.
MAX_SECONDS = 0.5

_TAGS = {
    "a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "div",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "pre": {"data-language", "tabindex"},
    "span": {"title"},
}
_CLASSES = {
    "pre": {"c-code"},
    "p": {"c-code-name"},
    "div": {"c-table"},
    "td": {"c-right", "c-center"},
    "th": {"c-right", "c-center"},
    "span": {"c-ref", "h-c", "h-k", "h-s", "h-n", "h-f", "h-b", "h-i", "h-d", "h-h", "c-task"},
}
_SCHEMES = {"http", "https", "mailto"}


class TooSlow(Exception):
    """A text takes too long, or is nested too deeply."""


#: Processor time of this thread, where there is such a clock: a busy machine makes no text slow.
_clock = getattr(time, "thread_time", time.monotonic)


class Budget:
    """Seconds of processor time that rendering may take, from its first use on and in that thread.
    Shared by the texts of a page: when they are over, the rest of the page is plain text."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None

    def _ends(self) -> float:
        if self._end is None:
            self._end = _clock() + self._seconds
        return self._end

    @property
    def over(self) -> bool:
        return bool(self._ends() < _clock())

    def check(self, limit: float = float("inf")) -> None:
        """Raises :class:`TooSlow` when this budget, or the earlier ``limit``, is over."""
        if _clock() > min(self._ends(), limit):
            raise TooSlow


# --------------------------------------------------------------------------- plain text


def plain(text: str) -> Markup:
    """Text as it is, in a ``<pre>`` that wraps."""
    return Markup('<pre class="c-plain">{}</pre>').format(_printable(text))


#: Control characters but tab and newline.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _printable(text: str) -> str:
    return _CONTROL.sub("", clean(text).replace("\r\n", "\n").replace("\r", "\n"))


# --------------------------------------------------------------------------- Markdown


def markdown(text: str, budget: Budget | None = None, *, breaks: bool = False) -> Markup:
    """Markdown as safe HTML. With ``breaks`` a single line break is one, as people type them.
    Images become links: nothing is loaded from elsewhere."""
    if not text.strip():
        return Markup("")
    if len(text) > MAX_MARKDOWN:
        return plain(text)
    key = _key(b"markdown-breaks" if breaks else b"markdown", text)
    known = _cache.get(key)
    if known is not None:
        return known
    budget = budget or Budget(MAX_SECONDS)
    if budget.over:
        return plain(text)
    try:
        return _cache.put(key, _markdown(text, budget, breaks))
    except (TooSlow, RecursionError):
        return plain(text)


def _markdown(text: str, budget: Budget, breaks: bool) -> Markup:
    import nh3

    parser = _parser(breaks, _cells(text) <= MAX_CELLS)
    env: dict[str, Any] = {"budget": budget, "limit": _clock() + MAX_SECONDS, "links": []}
    rendered = parser.render(_printable(text), env)
    return Markup(
        nh3.clean(
            rendered,
            tags=_TAGS,
            clean_content_tags={"script", "style"},
            attributes=_ATTRIBUTES,
            allowed_classes=_CLASSES,
            url_schemes=_SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


_DELIMITER_ROW = re.compile(r"^[ \t>*+\-|:\d.)]*\|[ \t>*+\-|:]*$", re.M)


def _cells(text: str) -> int:
    """An upper bound of the cells of all tables in a text."""
    if "|" not in text:
        return 0
    columns = [row.count("|") + 1 for row in _DELIMITER_ROW.findall(text)]
    return max(columns, default=0) * text.count("\n")


#: Blocks that are nested deeper would be left out by the parser.
_MAX_NESTING = 60


@functools.cache
def _parser(breaks: bool, tables: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": breaks, "maxNesting": _MAX_NESTING})
    parser.enable("strikethrough")
    # [ERROR]: failed would be taken for the target of a link, and not be shown
    parser.disable("reference")
    if tables:
        parser.enable("table")
    # asked at every place of the text, so that no construct can run away
    parser.block.ruler.before("code", "budget", _check_block)
    parser.inline.ruler.before("text", "budget", _check_inline)
    rules: dict[str, Callable[..., str]] = {
        "text": _render_text,
        "image": _render_image,
        "link_open": _render_link_open,
        "link_close": _render_link_close,
        "list_item_open": _render_item,
        "fence": _render_code,
        "code_block": _render_code,
        "heading_open": _render_heading,
        "heading_close": _render_heading,
        "th_open": _render_cell,
        "td_open": _render_cell,
        "table_open": lambda *_: '<div class="c-table"><table>',
        "table_close": lambda *_: "</table></div>",
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


def _check_block(state: Any, start: int, end: int, silent: bool) -> bool:
    if state.level >= _MAX_NESTING - 4:
        raise TooSlow
    state.env["budget"].check(state.env["limit"])
    return False


def _check_inline(state: Any, silent: bool) -> bool:
    state.env["budget"].check(state.env["limit"])
    return False


#: A web address in running text: up to white space, quotes, brackets, or CJK punctuation.
_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\^{}\[\]\u3000-\u303f\uff00-\uff0f\uff1a-\uff1f“”‘’]+")


def _render_text(renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    content = tokens[index].content
    if env.pop("item", False) and index == 0:
        for written, box in (("[ ] ", "\u2610 "), ("[x] ", "\u2611 "), ("[X] ", "\u2611 ")):
            if content.startswith(written):
                content = box + content[4:]
    if env["links"] or "://" not in content:
        return html.escape(content)
    parts = []
    position = 0
    for match in _ADDRESS.finditer(content):
        address = match[0].rstrip(".,;:!?*_~")
        if address.endswith(")") and "(" not in address:
            address = address[:-1]
        parts.append(html.escape(content[position : match.start()]))
        parts.append(f'<a href="{html.escape(address)}">{html.escape(address)}</a>')
        position = match.start() + len(address)
    parts.append(html.escape(content[position:]))
    return "".join(parts)


def _render_item(renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    env["item"] = True
    return "<li>"


def _render_image(renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    label = html.escape(token.content or "image")
    source = str(token.attrs.get("src", ""))
    if env["links"] or not _is_web(source):
        return f'<span class="c-ref" title="{html.escape(source)}">{label}</span>'
    return f'<a href="{html.escape(source)}">{label}</a>'


def _is_web(address: str) -> bool:
    return address.partition(":")[0].lower() in _SCHEMES


def _render_link_open(
    renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any
) -> str:
    # What leads nowhere from here, such as src/app.py, keeps its target as a title
    href = str(tokens[index].attrs.get("href", ""))
    web = _is_web(href)
    env["links"].append("a" if web else "span")
    if web:
        return f'<a href="{html.escape(href)}">'
    return f'<span class="c-ref" title="{html.escape(href)}">'


def _render_link_close(
    renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any
) -> str:
    return f"</{env['links'].pop()}>"


def _render_heading(
    renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any
) -> str:
    # h1 and h2 are the page's own
    level = min(int(tokens[index].tag[1]) + 2, 6)
    return f"<h{level}>" if tokens[index].nesting == 1 else f"</h{level}>\n"


def _render_cell(renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    style = str(tokens[index].attrs.get("style", ""))
    align = style.rpartition(":")[2]
    name = f' class="c-{align}"' if align in ("right", "center") else ""
    return f"<{tokens[index].tag}{name}>"


def _render_code(renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    env["budget"].check(env["limit"])
    token = tokens[index]
    info = token.info.strip()
    if not info or _LANGUAGE.fullmatch(info):
        return str(code(token.content, info, env["budget"]))
    # More than the name of a language, such as 12:20:src/app.py: it stands above the code
    first = info.split()[0]
    language = first if _LANGUAGE.fullmatch(first) else language_of(first)
    name = f'<p class="c-code-name">{html.escape(info)}</p>'
    return name + str(code(token.content, language, env["budget"]))


# --------------------------------------------------------------------------- code

#: Names of languages in code blocks -> lexers of Pygments that stay quick on hostile text.
_LEXERS = {
    name: lexer
    for lexer, names in {
        "bash": "bash sh shell zsh fish",
        "c": "c h",
        "cpp": "cpp c++ cc hpp",
        "csharp": "csharp cs c#",
        "css": "css scss",
        "diff": "diff patch udiff",
        "docker": "dockerfile docker",
        "go": "go golang",
        "html": "html htm vue svelte",
        "javascript": "javascript js mjs cjs node",
        "json": "json jsonc json5 jsonl",
        "kotlin": "kotlin kt",
        "markdown": "markdown md",
        "php": "php",
        "powershell": "powershell ps1 pwsh",
        "python": "python py python3 pyi",
        "ruby": "ruby rb",
        "rust": "rust rs",
        "scala": "scala",
        "sql": "sql sqlite postgres postgresql mysql",
        "swift": "swift",
        "toml": "toml",
        "typescript": "typescript ts tsx jsx",
        "xml": "xml svg",
        "java": "java",
        "yaml": "yaml yml",
        "ini": "ini cfg conf",
    }.items()
    for name in names.split()
}
_SLOW_LEXERS = {"java", "yaml", "ini"}
_LANGUAGE = re.compile(r"[\w+#.\-]{1,24}")

#: File endings that are not names of languages above.
_ENDINGS = {"containerfile": "docker", "bats": "bash", "psql": "sql"}


def language_of(path: str) -> str:
    """The language of a file, as a code block would name it; empty where it is not known."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    ending = name.rpartition(".")[2]
    ending = _ENDINGS.get(ending, ending)
    return ending if ending in _LEXERS else ""


def code(text: str, language: str = "", budget: Budget | None = None) -> Markup:
    """A block of code, with colours where the language is known and the text is short."""
    text = _printable(text)
    label = language.lower() if _LANGUAGE.fullmatch(language) else ""
    inner = highlight(text, label, budget)
    return Markup('<pre class="c-code" tabindex="0"{}><code>{}</code></pre>').format(
        Markup(' data-language="{}"').format(label) if label else "", inner
    )


def highlight(text: str, language: str, budget: Budget | None = None) -> Markup:
    """Code as ``<span>`` elements, for a ``<pre>``."""
    name = _LEXERS.get(language.lower())
    longest = MAX_SLOW_HIGHLIGHT if name in _SLOW_LEXERS else MAX_HIGHLIGHT
    if name is None or len(text) > longest:
        return escape(text)
    key = _key(f"code-{name}".encode(), text)
    known = _cache.get(key)
    if known is not None:
        return known
    budget = budget or Budget(MAX_SECONDS)
    try:
        budget.check()
        return _cache.put(key, Markup("").join(_spans(name, text, budget)))
    except TooSlow:
        return escape(text)


def _spans(name: str, text: str, budget: Budget) -> Iterator[Markup]:
    lexer = _lexer(name)
    limit = _clock() + MAX_SECONDS
    run, run_class = "", ""
    for number, (kind, value) in enumerate(lexer.get_tokens(text)):
        if number % 64 == 0:
            budget.check(limit)
        css = _token_class(kind)
        if css != run_class:
            yield _span(run, run_class)
            run, run_class = "", css
        run += value
    yield _span(run, run_class)


def _span(text: str, css: str) -> Markup:
    if not css or not text:
        return escape(text)
    return Markup('<span class="{}">{}</span>').format(css, text)


@functools.cache
def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name, stripnl=False, ensurenl=False)


@functools.cache
def _token_class(kind: Any) -> str:
    """Few colours: what a token is for, not what it is."""
    from pygments import token

    for family, css in (
        (token.Comment, "h-c"),
        (token.Keyword.Constant, "h-n"),
        (token.Keyword, "h-k"),
        (token.Operator.Word, "h-k"),
        (token.String, "h-s"),
        (token.Number, "h-n"),
        (token.Name.Function, "h-f"),
        (token.Name.Class, "h-f"),
        (token.Name.Tag, "h-k"),
        (token.Name.Builtin, "h-b"),
        (token.Name.Decorator, "h-b"),
        (token.Name.Attribute, "h-f"),
        (token.Generic.Inserted, "h-i"),
        (token.Generic.Deleted, "h-d"),
        (token.Generic.Heading, "h-h"),
        (token.Generic.Subheading, "h-h"),
    ):
        if kind in family:
            return css
    return ""


# --------------------------------------------------------------------------- diffs


def diff(text: str) -> Markup:
    """A unified diff, one coloured line for each of its lines."""
    lines = _printable(text).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    parts = []
    in_hunk = False
    for line in lines:
        start = line[:1]
        if line.startswith("@@"):
            css, in_hunk = "d-hunk", True
        elif not in_hunk and line.startswith(("--- ", "+++ ", "diff ", "index ", "*** ")):
            css = "d-file"
        elif start == "+":
            css = "d-add"
        elif start == "-":
            css = "d-del"
        elif line.startswith("\\ "):
            css = "d-note"
        else:
            css = ""
        if css:
            parts.append(Markup('<span class="{}">{}</span>').format(css, line + "\n"))
        else:
            parts.append(Markup("<span>{}</span>").format(line + "\n"))
    return Markup('<pre class="c-diff" tabindex="0"><code>{}</code></pre>').format(
        Markup("").join(parts)
    )


# --------------------------------------------------------------------------- terminal output

#: Escape sequences of terminals: CSI; OSC, DCS and their like up to their end; two characters.
#: Every part stops at the next escape, so no text makes this slow.
_ESCAPE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])?"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b([0-?]*)[ -/]*([@-~])?"
)
_MAX_SGR = 32


def ansi(text: str) -> Markup:
    """Output of a terminal. Colours and weights (SGR) become classes, all other sequences are
    dropped, and of a line that was written over stays what was written last."""
    text = text.replace("\r\n", "\n")
    if "\x1b" not in text and "\x9b" not in text:
        return escape(_clean_line(text))
    style = _Style()
    parts = []
    position = 0
    for match in _ESCAPE.finditer(text):
        if match.start() > position:
            parts.append(style.span(text[position : match.start()]))
        position = match.end()
        final = match[2] or match[4]
        if final == "m":
            style.apply(match[1] or match[3] or "")
    parts.append(style.span(text[position:]))
    return Markup("").join(parts)


def strip_ansi(text: str) -> str:
    """The text without any escape sequences."""
    return _clean_line(_ESCAPE.sub("", text.replace("\r\n", "\n")))


def _clean_line(text: str) -> str:
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("", text)


class _Style:
    """What the SGR sequences so far say of the text to come."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.colours: dict[str, str] = {}

    def span(self, text: str) -> Markup:
        text = _clean_line(text)
        names = sorted(self.flags) + sorted(self.colours.values())
        if not names or not text:
            return escape(text)
        return Markup('<span class="{}">{}</span>').format(" ".join(names), text)

    def apply(self, parameters: str) -> None:
        codes = [
            int(part) if part.isdigit() and len(part) < 4 else 0
            for part in parameters.replace(":", ";").split(";")[:_MAX_SGR]
        ]
        while codes:
            number = codes.pop(0)
            if number == 0:
                self.flags.clear()
                self.colours.clear()
            elif number in _SGR_ON:
                self.flags.add(_SGR_ON[number])
            elif number in _SGR_OFF:
                self.flags -= _SGR_OFF[number]
            elif number in (39, 49):
                self.colours.pop("fg" if number == 39 else "bg", None)
            elif number in (38, 48):
                self._extended("fg" if number == 38 else "bg", codes)
            else:
                for first, ground, offset in _SGR_COLOURS:
                    if first <= number < first + 8:
                        self.colours[ground] = f"a-{ground}-{number - first + offset}"

    def _extended(self, ground: str, codes: list[int]) -> None:
        kind = codes.pop(0) if codes else 0
        if kind == 5 and codes:
            self.colours[ground] = f"a-{ground}-{_of_256(codes.pop(0))}"
        elif kind == 2 and len(codes) >= 3:
            red, green, blue = codes.pop(0), codes.pop(0), codes.pop(0)
            self.colours[ground] = f"a-{ground}-{_nearest(red, green, blue)}"


_SGR_ON = {
    1: "a-bold",
    2: "a-dim",
    3: "a-italic",
    4: "a-underline",
    7: "a-inverse",
    9: "a-strike",
}
_SGR_OFF = {
    22: {"a-bold", "a-dim"},
    23: {"a-italic"},
    24: {"a-underline"},
    27: {"a-inverse"},
    29: {"a-strike"},
}
_SGR_COLOURS = ((30, "fg", 0), (90, "fg", 8), (40, "bg", 0), (100, "bg", 8))
#: The sixteen colours of a terminal, to which all others are brought: each of ours can be read on
#: light and on dark.
_SIXTEEN = (
    (0, 0, 0), (170, 0, 0), (0, 170, 0), (170, 85, 0),
    (0, 0, 170), (170, 0, 170), (0, 170, 170), (170, 170, 170),
    (85, 85, 85), (255, 85, 85), (85, 255, 85), (255, 255, 85),
    (85, 85, 255), (255, 85, 255), (85, 255, 255), (255, 255, 255),
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _nearest(red: int, green: int, blue: int) -> int:
    def distance(number: int) -> int:
        r, g, b = _SIXTEEN[number]
        return (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2

    return min(range(16), key=distance)


def _of_256(number: int) -> int:
    if number < 16:
        return number
    if number < 232:
        number -= 16
        steps = (0, 95, 135, 175, 215, 255)
        return _nearest(steps[number // 36 % 6], steps[number // 6 % 6], steps[number % 6])
    grey = 8 + 10 * (number - 232)
    return _nearest(grey, grey, grey)


# --------------------------------------------------------------------------- search marks

_TAG_OR_TEXT = re.compile(r'(<(?:[^<>"]|"[^"]*")*>)')


def mark(markup: Markup, needle: re.Pattern[str] | None) -> Markup:
    """HTML that was made here, with every match of ``needle`` in its text in a ``<mark>``."""
    if needle is None or not markup:
        return markup
    parts = _TAG_OR_TEXT.split(str(markup))
    for number in range(0, len(parts), 2):  # text stands between the tags
        if parts[number]:
            parts[number] = str(mark_text(html.unescape(parts[number]), needle))
    return Markup("".join(parts))


def mark_text(text: str, needle: re.Pattern[str] | None) -> Markup:
    """Plain text, escaped, with every match of ``needle`` in a ``<mark>``."""
    if needle is None:
        return escape(text)
    parts = []
    position = 0
    for match in needle.finditer(text):
        if match.end() > match.start():
            parts.append(escape(text[position : match.start()]))
            parts.append(Markup("<mark>{}</mark>").format(match[0]))
            position = match.end()
    parts.append(escape(text[position:]))
    return Markup("").join(parts)


# --------------------------------------------------------------------------- what was rendered


class _Cache:
    """What was rendered lately, by the hash of the text it was made of."""

    def __init__(self, characters: int) -> None:
        self.room = characters
        self.used = 0
        self.entries: OrderedDict[bytes, Markup] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, key: bytes) -> Markup | None:
        with self.lock:
            found = self.entries.get(key)
            if found is not None:
                self.entries.move_to_end(key)
            return found

    def put(self, key: bytes, value: Markup) -> Markup:
        with self.lock:
            if key not in self.entries and len(value) <= self.room // 8:
                self.entries[key] = value
                self.used += len(value)
                while self.used > self.room:
                    self.used -= len(self.entries.popitem(last=False)[1])
        return value

    def clear(self) -> None:
        with self.lock:
            self.entries.clear()
            self.used = 0


_cache = _Cache(16_000_000)


def _key(kind: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=kind).digest()
