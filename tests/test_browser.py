"""What a reader does, in a real browser: reading, folding, jumping, searching, by mouse and by keys,
on a desk and a phone, in the light and the dark, on paper, and without scripts.

Every page that is opened must be free of errors, failed requests and requests to anywhere else (see
:class:`browsing.Opener`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from browsing import CHINESE, CHINESE_AT, LONG, PHONE, Opener, Site

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

TEA = "tea+house/-/crystal"
RICH, LONG_TALK = f"{TEA}/toy/rich", f"{TEA}/toy/long"

#: Every kind of page of ours, and what its main heading says.
PAGES = {
    "demo/-/crystal": "Overview",
    "demo/-/crystal?by=project&days=30": "Overview",
    "demo/-/crystal/search": "Search the conversations",
    "demo/-/crystal/search?q=cart": "Search the conversations",
    "demo/-/crystal/search?q=nowhere-to-be-found": "Search the conversations",
    "demo/-/crystal/search?q=test&in=commands&outputs=1": "Search the conversations",
    "-/crystal/search?q=test": "Search the conversations",
    "demo/messages.read?kind=prompt": "messages",
    "demo/conversations.read": "conversations",
    RICH: "The total of a cart",
    f"{RICH}~2Fagent": "Look for more totals",
    f"{LONG_TALK}?page=8": "A long talk",
    f"{TEA}/toy/chinese": "数据迁移",
    f"{LONG_TALK}?q=nothing-like-it": "A long talk",
}


def message(page: Page, uid: str) -> Locator:
    """A message of a conversation by its id."""
    return page.locator(f'article[id="m-{uid}"]')


def in_view(locator: Locator) -> bool:
    """Whether an element begins within the window."""
    box = locator.bounding_box()
    size = locator.page.viewport_size
    return bool(box and size and -1 <= box["y"] < size["height"] and box["height"] > 0)


def follow(link: Locator) -> None:
    """Clicks, and waits for the page that this leads to."""
    with link.page.expect_navigation():
        link.click()


def style(locator: Locator, name: str) -> str:
    return str(locator.evaluate("(element, name) => getComputedStyle(element)[name]", name))


def colour(text: str) -> tuple[float, float, float]:
    """Red, green and blue from 0 to 1 of what the browser says of a colour."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", text)]
    assert len(numbers) >= 3 and (len(numbers) < 4 or numbers[3] == 1), text
    most = 1 if text.startswith("color(") else 255
    return numbers[0] / most, numbers[1] / most, numbers[2] / most


def luminance(text: str) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour(text)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def url_of(page: Page) -> str:
    return page.url.split("/", 3)[3]


# --------------------------------------------------------------------------- every page


@pytest.mark.parametrize(("path", "heading"), PAGES.items())
def test_every_page_on_a_phone_and_a_desk(opener: Opener, path: str, heading: str) -> None:
    page = opener(path, PHONE)
    assert heading in page.locator("h1").first.inner_text()
    for width in (PHONE[0], 760, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} scrolls sideways at {width} pixels: {wide}"
    assert page.locator("html").get_attribute("lang") == "en"
    # where a link of the page leads, the keyboard can follow, and sees where it is
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert style(focused, "outlineStyle") != "none"


def test_contrast_and_colours_in_the_dark(opener: Opener) -> None:
    seen = []
    for dark in (False, True):
        page = opener(RICH, dark=dark)
        body = page.locator("body")
        paper, ink = style(body, "backgroundColor"), style(body, "color")
        prompt = style(message(page, "u1-rich").locator(".c-body"), "backgroundColor")
        assert contrast(paper, ink) >= 7
        assert contrast(prompt, style(message(page, "u1-rich").locator("p").first, "color")) >= 7
        code = page.locator("pre.c-code").first
        for token in code.locator("span").all():
            assert contrast(style(code, "backgroundColor"), style(token, "color")) >= 4.5
        seen.append((luminance(paper), luminance(prompt)))
    assert min(seen[0]) > 0.7 and max(seen[1]) < 0.1


# --------------------------------------------------------------------------- reading


def test_reading(opener: Opener) -> None:
    page = opener(RICH)
    prompt, reply = message(page, "u1-rich"), message(page, "a1-rich")
    # a prompt stands out: on a ground of its own, with a bar
    grounds = [style(m.locator("> .c-body"), "backgroundColor") for m in (prompt, reply)]
    assert grounds[0] != grounds[1]
    assert style(prompt.locator("> .c-body"), "borderLeftWidth") == "3px"
    assert style(reply.locator("> .c-body"), "borderLeftWidth") == "0px"
    assert prompt.locator("strong").inner_text() == "wrong"
    # lines of prose are easy to read: no more than 46 rem
    assert reply.locator(".c-prose p").first.bounding_box()["width"] <= 46 * 16  # type: ignore[index]
    code = reply.locator("pre.c-code").first
    colours = {style(span, "color") for span in code.locator("span").all()}
    assert len(colours - {style(code, "color")}) >= 4
    # the picture has come
    assert prompt.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)")
    diff = reply.locator(".d-add").first
    assert diff.is_visible() and diff.inner_text().strip() == "+    # in cents"
    assert reply.locator("table td").first.inner_text() == "tea"


def test_fold_and_unfold(opener: Opener) -> None:
    page = opener(RICH)
    call = page.locator("details.c-call", has_text="pytest -q")
    output = call.locator("pre.c-output")
    assert call.locator("summary").first.inner_text().split("\n")[-3:] == [
        "failed",
        "exit 1",
        "1.2 s",
    ]
    assert not output.is_visible()
    call.locator("summary").first.click()
    assert output.is_visible()
    red = output.locator(".a-fg-1")
    assert red.inner_text() == "1 failed"
    assert style(red, "color") != style(output, "color")
    call.locator("summary").first.click()
    assert not output.is_visible()
    thought = page.locator("details.c-thinking")
    assert not thought.locator("li").first.is_visible()
    page.get_by_role("button", name="Unfold all").click()
    assert output.is_visible() and thought.locator("li").first.is_visible()
    assert message(page, "a2-rich").is_visible()
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert not output.is_visible() and not thought.locator("li").first.is_visible()


def test_a_subagent_unfolds_in_place(opener: Opener) -> None:
    page = opener(RICH)
    page.locator("details.c-call-agent > summary").click()
    page.locator("details.c-subagent > summary").click()
    inside = page.locator("details.c-subagent article")
    inside.first.wait_for()
    assert [m.inner_text().split("\n")[-1] for m in inside.all()] == [
        "Look for more totals",
        "There are none.",
    ]
    follow(page.get_by_role("link", name="Open this conversation"))
    assert page.locator("h1").inner_text() == "Look for more totals"
    follow(page.locator(".c-parent a"))
    assert page.locator("h1").inner_text() == "The total of a cart"


def test_times_are_those_of_the_reader(opener: Opener) -> None:
    page = opener(RICH, zone="Asia/Tokyo")
    assert message(page, "u1-rich").locator("time").inner_text() == "09:00"
    assert page.locator(".c-line time").inner_text() == "10 Nov 2026, 09:00"


def test_the_outline_leads_to_prompts(opener: Opener) -> None:
    page = opener(RICH)
    entries = page.locator("#c-outline a")
    assert entries.count() == 2
    assert page.locator("#c-outline summary").inner_text() == "Outline 2 prompts"
    follow(entries.nth(1))
    assert page.url.endswith("#m-u2-rich")
    assert in_view(message(page, "u2-rich"))
    page.wait_for_selector('#c-outline a[aria-current="location"]')
    # of a long conversation: those of this page, and the first of every other
    page = opener(f"{LONG_TALK}?page=3")
    entries = page.locator("#c-outline a")
    assert entries.count() == 50 + 14
    assert page.locator("#c-outline summary").inner_text() == "Outline prompts of this page"
    entry = page.locator("#c-outline li", has_text="page 12").locator("a")
    assert "Question number 1100?" in entry.inner_text()
    follow(entry)
    assert in_view(message(page, "u1100-long"))
    assert page.locator('.c-pager [aria-current="page"]').first.inner_text() == "12"


def test_permalinks(opener: Opener) -> None:
    uid = "u1150-long"  # in the middle of the 12th page
    page = opener(f"{LONG_TALK}?page=12")
    follow(message(page, uid).locator(".c-permalink"))
    address = url_of(page)
    assert f"message={uid}" in address
    page = opener(address)
    target = page.locator("article.c-target")
    assert target.count() == 1 and target.get_attribute("id") == f"m-{uid}"
    assert in_view(target)
    assert style(target.locator("> .c-body"), "outlineStyle") == "solid"
    # what is folded away unfolds for it
    page = opener(f"{RICH}?message=a2-rich#m-a2-rich")
    assert in_view(message(page, "a2-rich"))
    page = opener(f"{RICH}?message=never")
    assert page.get_by_text("This conversation has no such message").is_visible()


def test_filters(opener: Opener) -> None:
    page = opener(RICH)

    def shown(label: str) -> list[str]:
        follow(page.locator(".c-filters").get_by_role("link", name=label, exact=True))
        current = page.locator(".c-filters [aria-current]")
        assert current.inner_text() == label
        found = page.locator("#c-transcript article").all()
        return [str(m.get_attribute("id")).removeprefix("m-").removesuffix("-rich") for m in found]

    assert shown("Prompts") == ["u1", "u2"]
    assert shown("Prompts and replies") == ["u1", "a1", "u2", "a2", "a3"]
    assert shown("Edits") == ["a1"]
    assert shown("Failures") == ["a1", "e1"]
    assert shown("Everything") == ["u1", "a1", "h1", "e1", "u2", "a2", "a3"]


def test_search_within_a_conversation(opener: Opener) -> None:
    page = opener(LONG_TALK)
    page.get_by_label("Search in this conversation").fill("number 77")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=number*")
    # 77 and 770 to 779
    assert page.get_by_text("11 messages with “number 77”").is_visible()
    assert page.locator("#c-transcript article").count() == 11
    assert {mark.inner_text() for mark in page.locator("mark").all()} == {"number 77"}
    follow(message(page, "u776-long").locator(".c-permalink"))
    page.wait_for_url("**message=u776-long*")
    assert in_view(message(page, "u776-long"))
    assert page.locator("#c-transcript article").count() == 100


# --------------------------------------------------------------------------- searching


def test_from_chinese_words_to_the_message(opener: Opener) -> None:
    page = opener(f"{TEA}/search")
    box = page.get_by_label("Words to look for")
    assert box.evaluate("box => box === document.activeElement")
    box.fill("库存")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=*")
    hit = page.locator(".s-messages .s-open")
    assert hit.count() == 1
    assert hit.locator("mark").inner_text() == "库存"
    follow(hit)
    target = page.locator("article.c-target")
    assert target.get_attribute("id") == f"m-a{CHINESE_AT}-long"
    assert target.locator(".c-prose").inner_text() == CHINESE
    assert in_view(target)


def test_passages_have_no_marks_of_markdown(opener: Opener) -> None:
    page = opener(f"{TEA}/search?q=迁移")
    text = "".join(page.locator(".s-messages .s-passage").all_inner_texts())
    assert "迁移已经完成" in text and "**" not in text


def test_search_filters_by_kind_and_source(opener: Opener) -> None:
    page = opener("demo/-/crystal/search?q=test")
    total = int(page.locator("#s-messages .c-number").inner_text())
    kinds = page.get_by_role("navigation", name="By kind")
    label, count = kinds.get_by_role("link", name="Prompt").inner_text().split()
    assert 0 < int(count) < total
    follow(kinds.get_by_role("link", name=label))
    page.wait_for_url("**kind=prompt*")
    assert page.locator("#s-messages .c-number").inner_text() == count
    labels = page.locator(".s-messages .s-label").all_inner_texts()
    assert labels == ["Prompt"] * int(count)
    assert page.get_by_label("Kind of message").input_value() == "prompt"
    page.get_by_label("Source").select_option("codex")
    follow(page.get_by_role("button", name="Apply"))
    page.wait_for_url("**source=codex*")
    # what was left empty is not in the address
    assert "role=" not in page.url and "since=" not in page.url
    follow(page.get_by_role("link", name="Clear filters"))
    page.wait_for_url(lambda url: "kind=" not in url)
    assert int(page.locator("#s-messages .c-number").inner_text()) == total


def test_keys_of_the_search(opener: Opener) -> None:
    page = opener("demo/-/crystal/search?q=cart")
    box = page.get_by_label("Words to look for")
    focused = "element => element === document.activeElement"
    assert not box.evaluate(focused)
    page.keyboard.press("/")
    assert box.evaluate(focused)
    page.keyboard.type("s")  # typed, and no key of ours: it replaces what was there
    assert box.input_value() == "s"
    page.keyboard.press("Escape")
    hits = page.locator(".s-open")
    assert hits.nth(0).evaluate(focused)
    page.keyboard.press("j")
    assert hits.nth(1).evaluate(focused)
    page.keyboard.press("k")
    assert hits.nth(0).evaluate(focused)
    page.keyboard.press("Enter")
    page.wait_for_url("**message=*")
    assert in_view(page.locator("article.c-target"))


# --------------------------------------------------------------------------- keys


def test_keys_of_a_conversation(opener: Opener) -> None:
    page = opener(f"{LONG_TALK}?page=2")

    def top() -> str:
        """The message at the upper edge of the window."""
        return str(
            page.evaluate(
                "[...document.querySelectorAll('[data-prompt]')].find("
                "m => m.getBoundingClientRect().top > -2).id"
            )
        )

    page.keyboard.press("j")
    assert top() == "m-u100-long"
    page.keyboard.press("j")
    assert top() == "m-u102-long" and in_view(message(page, "u102-long"))
    page.keyboard.press("k")
    assert top() == "m-u100-long"
    # beyond the ends of the page lie the other pages
    page.keyboard.press("k")
    page.wait_for_url(re.compile(r"/long$"))
    message(page, "u98-long").locator(".c-permalink").focus()
    page.keyboard.press("j")
    page.wait_for_url("**page=2")
    # in a box keys are letters
    page.keyboard.press("s")
    page.keyboard.type("jk?")
    assert page.get_by_label("Search in this conversation").input_value() == "jk?"
    assert "page=2" in page.url


def test_keys_reach_the_last_prompts_of_a_page(opener: Opener) -> None:
    """Which the window shows without being able to scroll to them."""
    page = opener(RICH)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.evaluate("document.activeElement.blur()")
    focused = "m => m.contains(document.activeElement)"
    for uid in ("u1-rich", "u2-rich", "u2-rich"):
        page.keyboard.press("j")
        assert message(page, uid).evaluate(focused)
    page.keyboard.press("k")
    assert message(page, "u1-rich").evaluate(focused)


def test_a_click_elsewhere_folds_nothing(opener: Opener) -> None:
    """Datasette 0.65 closes everything that a click is outside of."""
    page = opener(RICH)
    opened = "all => all.filter(e => e.open).length"
    before = page.locator("main details").evaluate_all(opened)
    page.locator("details.c-thinking > summary").click()
    page.locator("h1").click()
    page.locator(".not-footer > header").click()
    assert page.locator("main details").evaluate_all(opened) == before + 1
    # its own menu still closes
    menu = page.locator("header details")
    menu.locator("summary").click()
    assert menu.get_attribute("open") is not None
    page.locator("h1").click()
    assert menu.get_attribute("open") is None
    page = opener("demo/-/crystal/search?q=cart")
    page.locator(".s-filters summary").click()
    page.get_by_label("Project").click()
    page.locator("body").click(position={"x": 5, "y": 700})
    assert page.get_by_label("Project").is_visible()
    page = opener("demo/-/crystal")
    page.locator(".c-o-data summary").nth(0).click()
    page.locator(".c-o-data summary").nth(1).click()
    assert page.locator(".c-o-data[open]").count() == 2


def test_help(opener: Opener) -> None:
    page = opener(RICH)
    dialog = page.get_by_role("dialog", name="Keys")
    assert not dialog.is_visible()
    page.keyboard.press("?")
    assert dialog.is_visible()
    keys = dialog.locator("kbd").all_inner_texts()
    assert keys == ["j", "k", "n", "p", "s", "e", "?"]
    page.keyboard.press("n")  # behind a dialog nothing moves
    assert url_of(page) == RICH
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.get_by_role("button", name="Keys").click()
    assert dialog.is_visible()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()
    page.keyboard.press("e")
    assert page.locator("details.c-thinking li").first.is_visible()


def test_the_conversations_before_and_after(opener: Opener) -> None:
    page = opener(RICH)
    # the subagent is no neighbour, it stands within
    page.keyboard.press("n")
    page.wait_for_url(f"**/{LONG_TALK}")
    page.keyboard.press("n")
    page.wait_for_url("**/chinese")
    page.keyboard.press("n")  # the last one
    assert page.locator("#c-later").count() == 0
    page.keyboard.press("p")
    page.wait_for_url(f"**/{LONG_TALK}")
    follow(page.locator("#c-earlier"))
    page.wait_for_url(f"**/{RICH}")
    assert page.locator("h1").inner_text() == "The total of a cart"


# --------------------------------------------------------------------------- phone, paper, no scripts


def test_reading_on_a_phone(opener: Opener) -> None:
    page = opener(RICH, PHONE)
    outline = page.locator("#c-outline")
    assert not outline.locator("a").first.is_visible()
    outline.locator("summary").tap()
    outline.locator("a").nth(1).tap()
    assert in_view(message(page, "u2-rich"))
    assert not outline.locator("a").first.is_visible()  # out of the way again
    call = page.locator("details.c-call", has_text="pytest -q")
    call.locator("summary").first.tap()
    assert call.locator("pre.c-output").is_visible()
    # long lines of code scroll in their own box
    code = page.locator("pre.c-code").first
    assert (
        code.evaluate("e => e.scrollWidth > e.clientWidth") and style(code, "overflowX") == "auto"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


@pytest.mark.parametrize("path", PAGES)
def test_without_scripts(opener: Opener, path: str) -> None:
    page = opener(path, scripts=False)
    assert page.locator("h1").first.is_visible() or "search" in path
    assert page.locator("main").inner_text().strip()
    # nothing that only a script could work
    assert page.locator("main button:not([type=submit])").count() == 0


def test_everything_works_without_scripts(opener: Opener) -> None:
    page = opener(RICH, scripts=False)
    call = page.locator("details.c-call", has_text="pytest -q")
    assert not call.locator("pre.c-output").is_visible()
    call.locator("summary").first.click()
    assert call.locator("pre.c-output").is_visible()
    assert page.locator("#c-outline a").first.is_visible()
    page.locator("details.c-call-agent > summary").click()
    page.locator("details.c-subagent > summary").click()
    follow(page.get_by_role("link", name="Open the subagent’s conversation"))
    assert page.locator("h1").inner_text() == "Look for more totals"
    page.goto(opener.site.url(LONG_TALK))
    follow(page.locator(".c-pager").first.get_by_role("link", name="Later"))
    assert message(page, "u100-long").is_visible()
    page.get_by_label("Search in this conversation").fill("number 1499")
    follow(page.get_by_role("button", name="Search"))
    assert page.locator("#c-transcript article").count() == 1
    page.goto(opener.site.url(f"{TEA}/search"))
    page.get_by_label("Words to look for").fill("数据")
    follow(page.get_by_role("button", name="Search"))
    follow(page.locator(".s-messages .s-open").first)
    assert in_view(page.locator("article.c-target"))
    page.goto(opener.site.url("demo/-/crystal"))
    page.locator(".c-o-data summary").first.click()
    assert page.locator(".c-o-data table").first.is_visible()
    page.get_by_label("Source").select_option("codex")
    follow(page.get_by_role("button", name="Apply"))
    assert page.locator(".c-o-list p").first.inner_text().count("Codex CLI") == 1


@pytest.mark.parametrize("dark", [False, True])
def test_on_paper(opener: Opener, dark: bool) -> None:
    page = opener(RICH, dark=dark)
    page.emulate_media(media="print")
    for gone in (".c-nav", ".c-tools", ".c-outline", ".c-more", ".c-neighbours", "body > footer"):
        assert not page.locator(gone).is_visible(), gone
    assert not page.locator(".not-footer > header").is_visible()
    # black on white, also for those who read in the dark
    body = page.locator("body")
    assert style(body, "backgroundColor") == "rgb(255, 255, 255)"
    assert contrast(style(body, "backgroundColor"), style(body, "color")) > 12
    # whole lines of code, and what was taken back or over; a folded call stays the line that tells
    code = page.locator("pre.c-code").first
    assert code.evaluate("e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight")
    assert page.get_by_text("A way that was left.").is_visible()
    call = page.locator("details.c-call", has_text="pytest -q")
    assert call.locator("summary").first.is_visible()
    assert not call.locator("pre.c-output").is_visible()
    if not dark:
        assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("path", ["demo/-/crystal", "demo/-/crystal/search?q=cart"])
def test_other_pages_on_paper(opener: Opener, path: str) -> None:
    page = opener(path, (794, 1123), dark=True)
    page.emulate_media(media="print")
    assert not page.locator(".c-nav").is_visible()
    assert not page.locator("form").first.is_visible()
    assert style(page.locator("body"), "backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 794


# --------------------------------------------------------------------------- Datasette around us


def test_a_walk_behind_a_base_url(opener: Opener, prefixed_site: Site) -> None:
    page = opener("demo/-/crystal", site=prefixed_site)

    def inside() -> None:
        links: list[str] = page.eval_on_selector_all(
            ".c-main a, .c-nav a, .c-main form",
            "all => all.map(e => new URL(e.getAttribute('href') || e.getAttribute('action'), location).href)",
        )
        assert links
        assert all(link.startswith(prefixed_site.root) for link in links), links

    inside()
    follow(page.locator(".c-nav").get_by_role("link", name="Search"))
    page.get_by_label("Words to look for").fill("cart")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=cart*")
    inside()
    follow(page.locator(".s-messages .s-open").first)
    assert in_view(page.locator("article.c-target"))
    inside()
    page.goto(prefixed_site.url(RICH))
    image = page.locator("article img").first
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 900
    page.locator("details.c-call-agent > summary").click()
    page.locator("details.c-subagent > summary").click()
    page.locator("details.c-subagent article").first.wait_for()
    page.goto(prefixed_site.url("tea+house/messages?_search=cart"))
    follow(page.locator(".crystal-notice a"))
    page.wait_for_url("**/search?q=cart")
    assert page.locator(".s-messages mark").first.inner_text() == "cart"


def test_tables_lead_to_the_conversations(opener: Opener) -> None:
    page = opener("tea+house/conversations")
    follow(page.locator("td.col-title a", has_text="The total of a cart"))
    assert page.locator("h1").inner_text() == "The total of a cart"
    page = opener(f"tea+house/messages?uid=a{CHINESE_AT}-long")
    follow(page.locator("td.col-title a"))
    assert in_view(page.locator("article.c-target"))
    page = opener("tea+house/what_did_i_ask_about?words=picture")
    follow(page.locator("td.col-prompt a"))
    assert page.locator("article.c-target").get_attribute("id") == "m-u1-rich"
    page = opener("tea+house/messages?kind=prompt&_search=picture")
    follow(page.get_by_role("link", name="read", exact=True))
    assert page.locator("h1").inner_text() == "1 message"
    assert page.locator("article.c-person").count() == 1


def test_from_the_overview_to_the_rows(opener: Opener) -> None:
    page = opener("demo/-/crystal")
    follow(page.locator(".c-o-list a.c-o-main").first)
    assert page.locator("#c-transcript article").count() > 0
    page.go_back()
    figure = page.locator(".c-o-figures a", has_text=re.compile(r"^\s*Prompts"))
    count = figure.locator(".c-o-value").inner_text()
    follow(figure)
    assert page.get_by_role("heading", name=re.compile(rf"^{count} rows")).count() == 1
    page.go_back()
    follow(page.get_by_role("link", name="by model"))
    page.wait_for_url("**by=model*")
    assert "claude" in page.locator(".c-o-legend").inner_text()


def test_a_database_that_is_not_ours_has_nothing_of_us(opener: Opener) -> None:
    page = opener("plain/messages")
    assert page.locator("link[href*=crystal], script[src*=crystal], .crystal-notice").count() == 0


def test_the_long_conversation_has_every_message_once(opener: Opener) -> None:
    page = opener(f"{LONG_TALK}?page={LONG // 100}")
    found: list[Any] = page.eval_on_selector_all(
        "#c-transcript article", "all => all.map(e => e.id)"
    )
    assert found == [f"m-{'a' if i % 2 else 'u'}{i}-long" for i in range(LONG - 100, LONG)]
    assert page.locator('link[rel="next"]').count() == 0
