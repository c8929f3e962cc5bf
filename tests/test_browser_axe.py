"""Accessibility, as far as a machine can tell: axe-core finds nothing to complain about on any page,
in the light and the dark, on a desk and a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import DESK, PHONE, Opener

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

TEA = "tea+house/-/crystal"
#: The pages, each with all that may stand on it.
PAGES = [
    "demo/-/crystal?by=model",
    "demo/-/crystal?source=codex&days=30",
    "demo/-/crystal/search",
    "demo/-/crystal/search?q=test&outputs=1",
    "demo/-/crystal/search?q=nowhere-to-be-found",
    "demo/-/crystal/search?q=test&in=commands",
    "-/crystal/search?q=test&sort=best",
    "demo/messages.read?_size=40",
    "demo/conversations.read",
    f"{TEA}/toy/rich",
    f"{TEA}/toy/rich~2Fagent",
    f"{TEA}/toy/long?page=12&message=u1150-long",
    f"{TEA}/toy/rich?q=total",
]
#: What is ours on pages of Datasette.
AROUND = {
    "tea+house/conversations": "td.col-title a",
    "tea+house/messages?_search=cart": ".crystal-notice",
    "tea+house/what_did_i_ask_about?words=picture": "td.col-prompt a",
}


def complaints(page: Page, part: str | None = None) -> list[str]:
    """What axe-core objects to in a page, or in the parts that a selector names."""
    # Datasette 1.0's jump menu has a property `matches`, where axe-core calls the method of all elements
    page.evaluate("document.querySelector('navigation-search')?.remove()")
    options = {"resultTypes": ["violations"]}
    found: Any = Axe().run(page, part, options)
    return [
        f"{item['impact']} {item['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for item in found.response["violations"]
        for node in item["nodes"][:3]
    ]


def unfold(page: Page) -> None:
    """Shows what is folded, subagents included: axe-core does not look at what is hidden."""
    page.evaluate(
        """async () => {
            const closed = () => [...document.querySelectorAll("main details:not([open])")];
            while (closed().length) {
                for (const details of closed()) details.open = true;
                await new Promise((done) => setTimeout(done));
            }
        }"""
    )
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe(opener: Opener, path: str, dark: bool) -> None:
    page = opener(path, dark=dark)
    unfold(page)
    assert complaints(page) == []
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert complaints(page) == []


def test_axe_on_conversations_of_every_source(opener: Opener) -> None:
    page = opener("demo/conversations.read")
    links: list[str] = page.eval_on_selector_all(
        ".s-open", "all => all.map(e => e.getAttribute('href'))"
    )
    chosen = {link.split("/")[4]: link for link in links}
    assert len(chosen) >= 5
    for link in chosen.values():
        page.goto(opener.site.url(link))
        unfold(page)
        assert complaints(page) == []


def test_axe_on_the_help(opener: Opener) -> None:
    page = opener(f"{TEA}/toy/rich", DESK)
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    assert complaints(page, "dialog") == []


@pytest.mark.parametrize(("path", "part"), AROUND.items())
def test_axe_on_what_we_add_to_datasettes_pages(opener: Opener, path: str, part: str) -> None:
    page = opener(path)
    page.locator(part).first.wait_for()
    assert complaints(page, part) == []
