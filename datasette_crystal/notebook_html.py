"""A conversation as HTML for the output of a notebook's cell.

It is made by what makes the conversation page, without Datasette: the same blocks, the same
sanitised Markdown, the same style sheets. A notebook has no Content-Security-Policy of ours, so the
whole of it goes through an allow-list (nh3) once more. There is no script, no id, no form, and
nothing is loaded: images are part of it. Every rule of its style begins with the class of its
outermost element.
"""

from __future__ import annotations

import base64
import functools
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .web import blocks, render
from .web import conversation as page
from .web.reader import Reader, run
from .web.transcript import rows_of, transcript

#: Bytes of images in one output.
MAX_IMAGES = 4_000_000
#: The class that the style is scoped to.
ROOT = ".crystal-nb"

# --------------------------------------------------------------------------- a conversation


class _Linker:
    """In a notebook there is nothing to link to; images become part of the output."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._left = MAX_IMAGES

    def conversation(self, source: str, session_id: str, ending: str = "") -> str:
        return ""

    def message(self, uid: str) -> str:
        return ""

    def anchor(self, uid: str) -> str:
        return ""

    def row_of(self, table: str, id: int) -> str:
        return ""

    def page(self, page: int) -> str:
        return ""

    def image(self, id: int) -> str:
        row = self._connection.execute(
            "select media_type, content from attachments where id = ?", (id,)
        ).fetchone()
        media_type = blocks.image_type(*row) if row else None
        if media_type is None or len(row[1]) > self._left:
            return ""
        self._left -= len(row[1])
        return f"data:{media_type};base64,{base64.b64encode(row[1]).decode()}"


def conversation_html(
    connection: sqlite3.Connection,
    row: Mapping[str, Any],
    start: int = 0,
    limit: int = page.PAGE_SIZE,
    only: str = "",
    search: str = "",
) -> str:
    """The messages ``start`` to ``start + limit`` of a conversation - a row of the page's query - as
    one ``<div>`` with its ``<style>``. ``only`` is one of the page's filters, and ``search`` leaves
    the messages that hold this text, marked."""
    reader = Reader(connection)
    asked = page.Request(message="", page=1, show=only, search=search, fragment=False)
    values = {"id": row["id"], "limit": page.MAX_MESSAGES}
    lines = run(reader.execute(page.LINES_SQL, values)).rows
    chosen = run(page._chosen(reader, row["id"], lines, asked))
    shown = chosen[start : start + limit]
    rows = run(rows_of(reader, shown))
    needle = re.compile(re.escape(search), re.I) if search else None
    context = blocks.Context(row["cwd"], render.Budget(page.PAGE_SECONDS), needle)
    linker = _Linker(connection)
    messages = transcript(shown, rows, context, linker)
    html = _template().render(
        conversation=row,
        runs=blocks.runs(messages, row["parent_title"] or "", ""),
        facts=page.facts(row),
        duration=blocks.duration(page._milliseconds(row)),
        start=start,
        shown=len(shown),
        count=len(chosen),
        filtered=bool(only or search),
    )
    return f"<div><style>{style()}</style>{_clean(html)}</div>"


@functools.cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader

    folder = Path(__file__).parent / "templates"
    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("crystal_notebook.html")


_TAGS = render._TAGS | {
    "article", "b", "dd", "details", "dl", "dt", "i", "img", "mark", "summary", "time", "u",
}  # fmt: skip
_ATTRIBUTES = {
    "*": {"class", "title", "aria-hidden"},
    "a": {"href"},
    "details": {"open"},
    "img": {"src", "alt"},
    "ol": {"start"},
    "pre": {"data-language", "tabindex"},
    "time": {"datetime"},
}
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")


def _clean(html: str) -> Markup:
    import nh3

    def keep(tag: str, attribute: str, value: str) -> str | None:
        if attribute == "src" and not _IMAGE.fullmatch(value):
            return None
        if attribute == "href" and not render._is_web(value):
            return None
        return value

    return Markup(
        nh3.clean(
            html,
            tags=_TAGS,
            clean_content_tags={"script", "style"},
            attributes=_ATTRIBUTES,
            attribute_filter=keep,
            url_schemes={*render._SCHEMES, "data"},
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values={"a": {"target": "_blank"}},
        )
    )


# --------------------------------------------------------------------------- style

_STATIC = Path(__file__).parent / "static"
#: Parts of the page that a notebook does not show.
_ABSENT = re.compile(
    r"\.c-(?:outline|tools|filters|filtered|search|pager|neighbours|help|columns|permalink|nav"
    r"|button|files|more|no-print|target|transcript|keys|parent|card|small|subagent|nested|notice)"
    r"(?![\w-])|:target|\b(?:header|footer|input|select|label|button|kbd|h[12])\b|section\."
)
_SCOPES = re.compile(r"(?:body)?\.crystal(?:-conversation)?(?![\w-])(?: \.c-main(?![\w-]))?")
_DARK = "(prefers-color-scheme: dark)"
_NARROW = "@media (max-width: 760px)"
#: The pages' text is 16 pixels high, that of notebooks 14; the smallest sizes need a little more.
_REM = 15


@functools.cache
def style() -> str:
    """The style of a conversation, made of the pages' own style sheets: every selector begins with
    :data:`ROOT`, dark colours stand beside the light ones, and lengths do not depend on the host."""
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    rules: list[str] = []
    narrow = ""
    for name in ("crystal-base.css", "crystal-conversation.css"):
        text = re.sub(r"/\*.*?\*/", "", (_STATIC / name).read_text("utf-8"), flags=re.S)
        for selector, body in _rules(text):
            if selector.startswith("@media") and selector.endswith(_DARK):
                for _, inner in _rules(body):
                    dark.update(_variables(inner))
            elif selector == _NARROW:
                narrow += "".join(_scoped(*rule) for rule in _rules(body))
            elif not selector.startswith("@"):
                if selector.startswith("body."):
                    light.update(_variables(body))
                rules.append(_scoped(selector, body))
    colours = ";".join(
        f"{name}:light-dark({value},{dark[name]})" if name in dark else f"{name}:{value}"
        for name, value in light.items()
    )
    own = (_STATIC / "crystal-notebook.css").read_text("utf-8")
    own = "".join(
        f"{selector}{{{_short(body)}}}"
        for selector, body in _rules(re.sub(r"/\*.*?\*/", "", own, flags=re.S))
    )
    narrow = f"@container crystal-nb (max-width: 620px){{{narrow}}}"
    return _pixels(f"{ROOT}{{{colours}}}" + "".join(rules) + own + narrow)


def _rules(text: str) -> Iterator[tuple[str, str]]:
    """(selector or at-rule, what stands in its braces) of a style sheet."""
    at = 0
    while (begin := text.find("{", at)) >= 0:
        depth, end = 1, begin + 1
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield " ".join(text[at:begin].split()), text[begin + 1 : end - 1].strip()
        at = end


def _parts(selector: str) -> Iterator[str]:
    """The selectors of a list, parted by commas outside of parentheses."""
    begin = depth = 0
    for at, character in enumerate(selector):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            yield selector[begin:at].strip()
            begin = at + 1
    yield selector[begin:].strip()


def _variables(body: str) -> dict[str, str]:
    declarations = (line.partition(":") for line in _short(body).split(";"))
    return {name: value for name, _, value in declarations if name.startswith("--")}


def _scoped(selector: str, body: str) -> str:
    """A rule of the pages for a notebook; empty where it is for what a notebook does not show."""
    kept = []
    for part in _parts(selector):
        part, count = _SCOPES.subn(ROOT, part, count=1)
        alone = re.sub(r":(?:is|not)\([^()]*\)", "", part)
        if count and part.startswith(ROOT) and not _ABSENT.search(alone):
            kept.append(part)
    declarations = [
        line
        for line in _short(body).split(";")
        # a page fills its window, a conversation in a notebook does not
        if line and not line.startswith(("--", "color-sch", "min-height:100vh"))
    ]
    return f"{','.join(kept)}{{{';'.join(declarations)}}}" if kept and declarations else ""


def _short(body: str) -> str:
    return re.sub(r"\s*([:;,])\s*", r"\1", " ".join(body.split())).strip("; ")


def _pixels(text: str) -> str:
    return re.sub(r"(?<![\w.])(\d*\.?\d+)rem\b", lambda m: f"{float(m[1]) * _REM:.4g}px", text)
