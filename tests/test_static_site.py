"""A site of plain files: what it holds, where its links lead, what it refuses to overwrite, that
hostile text stays text, and, in a browser that opens it from the disk, that it reads and searches."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import socketserver
import sqlite3
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from browsing import CHINESE_AT, DESK, PHONE, _png, make_tea_house
from conftest import call, conversation, message, query, store_all
from hypothesis import given
from hypothesis import strategies as st
from test_web_render import PAYLOADS

from datasette_crystal import static_site
from datasette_crystal.cli import make_demo
from datasette_crystal.model import Attachment, Tokens
from datasette_crystal.site_index import SiteIndex, terms_of
from datasette_crystal.static_site import (
    SiteError,
    draft_of,
    folder_name,
    place_site,
    remove_remains,
    write_site,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TIME = "2026-11-03T10:00:00.000Z"


@pytest.fixture(scope="module")
def tea_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of a conversation with everything in it, one of 1,500 messages, and a Chinese one."""
    folder = tmp_path_factory.mktemp("tea")
    make_tea_house(folder / "tea.db")
    write_site(folder / "tea.db", folder / "site", title="The tea house")
    return folder / "site"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    make_demo(folder / "demo.db")
    write_site(folder / "demo.db", folder / "site")
    return folder / "site"


def files(site: Path) -> dict[str, bytes]:
    return {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


class _Page(HTMLParser):
    """The elements of a page with their attributes, and whether they stand in words of a message."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @functools.cached_property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in site.rglob("*.html")}


def small(path: Path, *messages: Any, **values: Any) -> Path:
    values.setdefault("title", "A talk")
    store_all(path, conversation(values.pop("session_id", "one"), messages, **values))
    return path


# --------------------------------------------------------------------------- what it consists of


def test_what_is_written(tea_house: Path) -> None:
    names = files(tea_house)
    assert {"index.html", "overview.html", "search.html", ".nojekyll", ".crystal-site"} < set(names)
    # 1,500 messages, 100 on a page
    long = [name for name in names if name.startswith("conversations/toy_long/")]
    assert sorted(long) == sorted(
        ["conversations/toy_long/index.html"]
        + [f"conversations/toy_long/page-{number}.html" for number in range(2, 16)]
    )
    # "rich/agent" is no name for a folder
    assert (
        len([n for n in names if re.match(r"conversations/toy_rich-agent_[0-9a-f]{20}/", n)]) == 1
    )


def test_report(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", ""), message("a2", "Bye"))
    report = write_site(tmp_path / "c.db", tmp_path / "site")
    assert (report.conversations, report.messages, report.searchable) == (1, 3, 2)
    written = files(tmp_path / "site")
    assert report.files == len(written)
    assert report.bytes == sum(map(len, written.values()))
    assert report.directory == tmp_path / "site"


def test_progress(tmp_path: Path) -> None:
    store_all(
        tmp_path / "c.db",
        conversation("a", [message("u1", "One"), message("a1", "Two")]),
        conversation("b", [message("u2", "Three"), message("a2", "Four")]),
    )
    seen: list[tuple[int, int]] = []
    write_site(tmp_path / "c.db", tmp_path / "site", progress=lambda *now: seen.append(now))
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_the_list_names_everything_newest_first(tmp_path: Path) -> None:
    store_all(
        tmp_path / "c.db",
        conversation(
            "old",
            [message("u1", "One", timestamp="2026-11-02T10:00:00.000Z"), message("a1", "Two")],
            title="The older talk",
            project_path="/home/ana/shop",
        ),
        conversation(
            "new",
            [
                message("u2", "Three", timestamp=TIME),
                message("a2", "Four", timestamp=TIME),
            ],
            title="The newer talk",
            model="opus-4",
            project_path="/home/ana/shop",
        ),
        conversation(
            "agent",
            [message("t1", "Look", kind="task"), message("a3", "Five")],
            title="A subagent",
            kind="subagent",
            parent_session_id="new",
        ),
        conversation(
            "lone",
            [message("t2", "Look", kind="task"), message("a4", "Six")],
            title="A subagent whose parent is left out",
            kind="subagent",
            parent_session_id="elsewhere",
        ),
    )
    write_site(tmp_path / "c.db", tmp_path / "site")
    index = _Page(tmp_path / "site/index.html")
    links = [a["href"] for a in index.all("a") if a.get("class") == "s-open"]
    assert links[:2] == ["conversations/toy_new/index.html", "conversations/toy_old/index.html"]
    # a subagent stands in its parent; one without a parent has no other place than the list
    assert links[2:] == ["conversations/toy_lone/index.html"]
    assert "The newer talk Toy shop opus-4 3 Nov 2026, 10:00 UTC 1 prompt, 2 messages" in index.text


def test_a_long_list_has_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_site, "LIST_SIZE", 2)
    talks = [
        conversation(f"c{n}", [message(f"u{n}", "Hi"), message(f"a{n}", "Ho")]) for n in range(5)
    ]
    store_all(tmp_path / "c.db", *talks)
    write_site(tmp_path / "c.db", tmp_path / "site")
    found = []
    for name in ("index.html", "list-2.html", "list-3.html"):
        page = _Page(tmp_path / "site" / name)
        found += [a["href"] for a in page.all("a") if a.get("class") == "s-open"]
    assert sorted(found) == [f"conversations/toy_c{n}/index.html" for n in range(5)]
    assert not (tmp_path / "site/list-4.html").exists()


def test_a_conversation_reads_as_on_the_live_page(tea_house: Path) -> None:
    page = _Page(tea_house / "conversations/toy_rich/index.html")
    assert page.text.startswith("The total of a cart · Toy · The tea house")
    for text in (
        "Why is the total wrong ? See cart.py and the picture.",
        "The function returns nothing .",
        "1 failed",
        "+ # in cents",
        "A way that was left.",
        "1 message on a branch that the user left",
        "API Error: 529 overloaded",
    ):
        assert text in page.text
    classes = {name for _, a in page.elements for name in a.get("class", "").split()}
    assert {"h-k", "d-add", "d-del", "a-fg-1", "c-todos", "c-outline", "c-run-abandoned"} <= classes


def test_pages_lead_to_each_other(tea_house: Path) -> None:
    page = _Page(tea_house / "conversations/toy_long/page-8.html")
    links = {link.get("rel"): link["href"] for link in page.all("link")}
    assert (links["prev"], links["next"]) == ("page-7.html", "page-9.html")
    assert "m-u700-long" in page.ids and "m-u800-long" not in page.ids


def test_a_permalink_names_the_page(tea_house: Path) -> None:
    page = _Page(tea_house / "conversations/toy_long/page-12.html")
    permalinks = [a["href"] for a in page.all("a") if a.get("class") == "c-permalink"]
    assert f"page-12.html#m-a{CHINESE_AT}-long" in permalinks


def test_subagent_and_parent_lead_to_each_other(tea_house: Path) -> None:
    (agent,) = (tea_house / "conversations").glob("toy_rich-agent_*")
    parent = _Page(tea_house / "conversations/toy_rich/index.html")
    assert f"../{agent.name}/index.html" in [a["href"] for a in parent.all("a")]
    child = _Page(agent / "index.html")
    assert "../toy_rich/index.html" in [a["href"] for a in child.all("a")]


def test_nothing_of_datasette_is_left(tea_house: Path) -> None:
    """No link to rows, exports or queries, and nothing that would be loaded on demand."""
    for path, page in pages(tea_house).items():
        for tag, attributes in page.elements:
            assert "data-href" not in attributes, path
            assert "/-/" not in attributes.get("href", ""), path
            assert tag != "form" or attributes["method"] == "get"


# --------------------------------------------------------------------------- links


@pytest.mark.parametrize("which", ["tea_house", "demo"])
def test_every_link_leads_somewhere(which: str, request: pytest.FixtureRequest) -> None:
    site = request.getfixturevalue(which)
    known = pages(site)
    checked = 0
    for path, page in known.items():
        for tag, attributes in page.elements:
            for name in ("href", "src", "action"):
                address = attributes.get(name)
                if address is None:
                    continue
                parts = urlsplit(address)
                if parts.scheme or parts.netloc:
                    assert (tag, name) == ("a", "href"), (path, address)
                    assert parts.scheme in ("http", "https", "mailto")
                    assert {"noopener", "noreferrer"} <= set(attributes["rel"].split())
                    continue
                assert address, (path, tag, attributes)
                assert not parts.path.startswith("/")
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                assert target.is_file() and target.is_relative_to(site), (path, address)
                if parts.fragment:
                    assert parts.fragment in known[target].ids, (path, address)
                checked += 1
        assert len(page.ids) == len(set(page.ids)), path
    assert checked > 200


def test_every_conversation_can_be_reached(demo: Path) -> None:
    """By links alone, from the list on, without a script."""
    reached: set[Path] = set()
    queue = [demo / "index.html"]
    while queue:
        path = queue.pop()
        if path in reached:
            continue
        reached.add(path)
        for a in _Page(path).all("a"):
            parts = urlsplit(a["href"])
            if not parts.scheme and parts.path.endswith(".html"):
                queue.append((path.parent / parts.path).resolve())
    assert set(demo.rglob("*.html")) == reached


# --------------------------------------------------------------------------- what is not there


def test_nothing_runs_or_loads_but_our_files(tea_house: Path) -> None:
    for path, page in pages(tea_house).items():
        policy = [m["content"] for m in page.all("meta") if "http-equiv" in m]
        assert len(policy) == 1
        directives = dict(part.strip().split(" ", 1) for part in policy[0].split(";"))
        assert directives["default-src"] == "'none'" and directives["base-uri"] == "'none'"
        assert directives["script-src"] == directives["style-src"] == "'self' file:"
        # the policy holds for what follows it only
        names = [tag for tag, _ in page.elements]
        assert max(n for n, tag in enumerate(names[:4]) if tag == "meta") < names.index("link")
        assert "style" not in names, path
        for tag, attributes in page.elements:
            assert "style" not in attributes or tag == "svg"
            assert not [name for name in attributes if name.startswith("on")], path
            if tag == "script":
                assert attributes["src"].lstrip("./").startswith("assets/")


def test_search_engines_stay_away_unless_asked(tea_house: Path, tmp_path: Path) -> None:
    robots = [m.get("content") for m in _Page(tea_house / "index.html").all("meta")]
    assert "noindex, nofollow" in robots and "no-referrer" in robots
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    write_site(tmp_path / "c.db", tmp_path / "site", indexing=True)
    assert b"noindex" not in (tmp_path / "site/index.html").read_bytes()


def test_images(tmp_path: Path) -> None:
    """What is an image by its first bytes becomes a file; a document with scripts, or what only says
    that it is an image, does not."""
    png = _png(3, 2)
    small(
        tmp_path / "c.db",
        message(
            "u1",
            "Look",
            attachments=[
                Attachment("image", "a.png", "image/png", png),
                Attachment("image", "same.png", "image/png", png),
                Attachment("image", "b.svg", "image/svg+xml", b"<svg onload='alert(1)'/>"),
                Attachment("image", "c.png", "image/png", b"<html><script>alert(1)</script>"),
                Attachment("image", "d.png", "image/png", None),
            ],
        ),
        message("a1", "I see"),
    )
    report = write_site(tmp_path / "c.db", tmp_path / "site")
    (image,) = (tmp_path / "site/images").iterdir()
    assert image.read_bytes() == png and image.suffix == ".png" and report.images == 1
    page = _Page(tmp_path / "site/conversations/toy_one/index.html")
    assert [i["src"] for i in page.all("img")] == [f"../../images/{image.name}"] * 2
    assert "b.svg" in page.text and "c.png" in page.text and "d.png" in page.text


def test_what_is_cut_says_so(tmp_path: Path) -> None:
    small(
        tmp_path / "c.db",
        message("u1", "Go"),
        message("a1", "Yes", tool_calls=[call(output="x" * 50_000)]),
    )
    write_site(tmp_path / "c.db", tmp_path / "site")
    page = _Page(tmp_path / "site/conversations/toy_one/index.html")
    assert "50,000 characters in all" in page.text


# --------------------------------------------------------------------------- names

#: What Windows takes for a device, with any ending.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)


@given(st.text(max_size=80), st.text(max_size=200))
def test_a_folder_name_is_safe(source: str, session_id: str) -> None:
    name = folder_name(source, session_id)
    assert re.fullmatch(r"[a-z0-9-]+(_[a-z0-9-]+){1,2}", name) and len(name) <= 110
    assert not _DEVICES.fullmatch(name)


_SOURCES = st.sampled_from(["a", "A", "a-b", "a_b", "codex", "..", ""])
_SESSIONS = st.text(alphabet="aAbB-_./\\:é\u0130", max_size=6)


@given(st.tuples(_SOURCES, _SESSIONS), st.tuples(_SOURCES, _SESSIONS))
def test_two_conversations_have_two_folders(one: tuple[str, str], two: tuple[str, str]) -> None:
    if one != two:
        assert folder_name(*one).casefold() != folder_name(*two).casefold()


@pytest.mark.parametrize(
    "session_id",
    ["../../etc/passwd", "..", ".", "", "CON", "a/b", "a\\b", "x" * 5000, "é", "A b", "\x00", "-a"],
)
def test_a_hostile_id_stays_in_its_folder(session_id: str, tmp_path: Path) -> None:
    name = folder_name("codex", session_id)
    assert (tmp_path / name).resolve().parent == tmp_path and name.startswith("codex_")
    assert folder_name("codex", session_id) == name


def test_an_ordinary_id_is_the_name() -> None:
    assert folder_name("codex", "0199a213-81ac") == "codex_0199a213-81ac"


def test_ids_that_differ_in_capitals(tmp_path: Path) -> None:
    store_all(
        tmp_path / "c.db",
        conversation("Talk", [message("u1", "Upper"), message("a1", "x")], title="Upper"),
        conversation("talk", [message("u2", "Lower"), message("a2", "x")], title="Lower"),
    )
    write_site(tmp_path / "c.db", tmp_path / "site")
    names = [path.name for path in (tmp_path / "site/conversations").iterdir()]
    assert len({name.casefold() for name in names}) == 2


# --------------------------------------------------------------------------- twice, and in place


def test_two_runs_write_the_same(tmp_path: Path, demo: Path) -> None:
    shutil.copy(demo.parent / "demo.db", tmp_path / "another name.db")
    write_site(tmp_path / "another name.db", tmp_path / "again")
    assert files(tmp_path / "again") == files(demo)


def test_several_processes_write_the_same(tmp_path: Path, demo: Path) -> None:
    write_site(demo.parent / "demo.db", tmp_path / "again", jobs=2)
    assert files(tmp_path / "again") == files(demo)


def test_a_site_is_written_anew(tmp_path: Path) -> None:
    """What the site consisted of goes, and what was added by hand stays."""
    small(tmp_path / "one.db", message("u1", "Hello"), message("a1", "Hi"), session_id="one")
    small(tmp_path / "two.db", message("u1", "Hello"), message("a1", "Hi"), session_id="two")
    site = tmp_path / "site"
    write_site(tmp_path / "one.db", site)
    (site / "CNAME").write_text("tea.example")
    (site / ".git").mkdir()
    (site / ".git/HEAD").write_text("ref: x")
    (site / "conversations/toy_one/notes.txt").write_text("mine")
    write_site(tmp_path / "two.db", site)
    assert (site / "CNAME").read_text() == "tea.example"
    assert (site / ".git/HEAD").read_text() == "ref: x"
    assert (site / "conversations/toy_one/notes.txt").read_text() == "mine"
    assert not (site / "conversations/toy_one/index.html").exists()
    write_site(tmp_path / "two.db", tmp_path / "fresh")
    kept = {"CNAME", ".git/HEAD", "conversations/toy_one/notes.txt"}
    after = files(site)
    assert {name: after[name] for name in after if name not in kept} == files(tmp_path / "fresh")


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    (tmp_path / "site").mkdir()
    write_site(tmp_path / "c.db", tmp_path / "site")
    assert (tmp_path / "site/index.html").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.db", "site"]


def test_folders_above_are_made(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    write_site(tmp_path / "c.db", tmp_path / "public/talks")
    assert [path.name for path in (tmp_path / "public").iterdir()] == ["talks"]


@pytest.mark.parametrize("name", ["index.html", "letters.txt", ".crystal-site", ".hidden"])
def test_anything_else_is_left_alone(name: str, tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    place = tmp_path / "mine"
    place.mkdir()
    (place / name).write_text("dear diary")
    with pytest.raises(SiteError, match="no site of datasette-crystal"):
        write_site(tmp_path / "c.db", place)
    assert files(place) == {name: b"dear diary"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.db", "mine"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(SiteError, match="is not a directory"):
        write_site(tmp_path / "c.db", tmp_path / "file")
    with pytest.raises(SiteError, match=r"Can.t write|Not a directory"):
        write_site(tmp_path / "c.db", tmp_path / "file/site")
    assert (tmp_path / "file").read_text() == "x"


def test_a_strangers_file_in_the_way(tmp_path: Path) -> None:
    """A file of the site's own name that the site did not write is not overwritten."""
    small(tmp_path / "one.db", message("u1", "Hello"), message("a1", "Hi"), session_id="one")
    site = tmp_path / "site"
    write_site(tmp_path / "one.db", site)
    small(tmp_path / "two.db", message("u1", "Hello"), message("a1", "Hi"), session_id="two")
    (site / "conversations/toy_two").mkdir()
    (site / "conversations/toy_two/index.html").write_text("mine")
    before = files(site)
    with pytest.raises(SiteError, match=r"toy_two/index\.html is no file of the site"):
        write_site(tmp_path / "two.db", site)
    assert files(site) == before


def test_a_marker_deletes_nothing_elsewhere(tmp_path: Path) -> None:
    """A list of files that names others than a site's is not believed."""
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    site = tmp_path / "site"
    write_site(tmp_path / "c.db", site)
    (tmp_path / "diary.html").write_text("mine")
    (site / "letters.txt").write_text("mine")
    (site / "conversations/mine").mkdir()
    marker = site / ".crystal-site"
    strange = [
        "../diary.html",
        str(tmp_path / "diary.html"),
        "letters.txt",
        "assets/../../diary.html",
    ]
    marker.write_text(marker.read_text() + "\n".join(strange) + "\n")
    write_site(tmp_path / "c.db", site)
    assert (tmp_path / "diary.html").exists() and (site / "letters.txt").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    site = tmp_path / "site"
    write_site(tmp_path / "c.db", site)
    shutil.rmtree(site / "assets")
    (tmp_path / "elsewhere").mkdir()
    (site / "assets").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SiteError, match="is a link"):
        write_site(tmp_path / "c.db", site)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_that_fails_leaves_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    site = tmp_path / "site"
    write_site(tmp_path / "c.db", site)
    before = files(site)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(static_site._Site, "_lists", full)
    with pytest.raises(SiteError, match="No space left on device"):
        write_site(tmp_path / "c.db", site)
    assert files(site) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.db", "site"]


class _Killed(BaseException):
    pass


def test_a_run_that_was_stopped_midway_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops while files are moved and deleted: nothing of the site before is left, into
    a site that was there and into an empty directory."""
    small(tmp_path / "one.db", message("u1", "turnips"), message("a1", "Hi"), session_id="one")
    small(tmp_path / "two.db", message("u1", "Hello"), message("a1", "Hi"), session_id="two")
    write_site(tmp_path / "two.db", tmp_path / "wanted")
    wanted = files(tmp_path / "wanted")
    real_replace, real_unlink = os.replace, Path.unlink
    place_calls = 0
    for before in ("one.db", None):
        stop_at = 0
        while True:
            site = tmp_path / f"site-{before}-{stop_at}"
            if before:
                write_site(tmp_path / before, site)
            else:
                site.mkdir()
            place_calls = 0

            def step(site: Path, path: Any, stop_at: int) -> None:
                nonlocal place_calls
                if str(path).startswith(str(site)):
                    if place_calls == stop_at:
                        raise _Killed
                    place_calls += 1

            def replace(old: Any, new: Any, site: Path = site, stop_at: int = stop_at) -> None:
                step(site, new, stop_at)
                real_replace(old, new)

            def unlink(
                path: Path, missing_ok: bool = False, site: Path = site, stop_at: int = stop_at
            ) -> None:
                step(site, path, stop_at)
                real_unlink(path, missing_ok=missing_ok)

            with monkeypatch.context() as patch:
                patch.setattr(os, "replace", replace)
                patch.setattr(Path, "unlink", unlink)
                try:
                    write_site(tmp_path / "two.db", site)
                    stopped = False
                except _Killed:
                    stopped = True
            if not stopped:
                break
            write_site(tmp_path / "two.db", site)
            assert files(site) == wanted, stop_at
            shutil.rmtree(site)
            stop_at += max(1, place_calls // 3)  # the first moves, and some of the others
        # it was stopped between the first move and the last deletion
        assert stop_at > len(wanted)


def test_what_a_killed_run_left_beside_is_deleted(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    left = [
        ".site.4711-0ca6197b.tmp",
        ".site.6c1c6dad.site",
        "..site.6c1c6dad.site.65-0ca6197b.tmp",
    ]
    mine = [".site.tmp", ".site.notes.site", ".sites.4711-0ca6197b.tmp", "site.4711-0ca6197b.tmp"]
    for name in (*left, *mine):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("turnips")
    (tmp_path / ".site.4712-0ca6197b.tmp").write_text("a file")
    write_site(tmp_path / "c.db", tmp_path / "site")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted([*mine, ".site.4712-0ca6197b.tmp", "c.db", "site"])
    assert draft_of(tmp_path / "site").name != draft_of(tmp_path / "site").name
    draft_of(tmp_path / "site").mkdir()
    remove_remains(tmp_path / "site")
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_site_is_looked_at_before_it_is_placed(tmp_path: Path) -> None:
    small(tmp_path / "c.db", message("u1", "Hello"), message("a1", "Hi"))
    place = tmp_path / "site"
    for number in (1, 2):  # into a new directory, and over the site that is there
        write_site(tmp_path / "c.db", tmp_path / "draft", title=f"Draft {number}")
        wanted = files(tmp_path / "draft")
        place_site(tmp_path / "draft", place)
        assert files(place) == wanted and not (tmp_path / "draft").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a").write_text("x")
    write_site(tmp_path / "c.db", tmp_path / "draft")
    with pytest.raises(SiteError):
        place_site(tmp_path / "draft", tmp_path / "mine")
    assert files(tmp_path / "mine") == {"a": b"x"} and (tmp_path / "draft/index.html").exists()


@pytest.mark.parametrize("content", [None, b"", b"not a database", "sqlite"])
def test_what_is_no_crystal_database(content: bytes | str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    if content == "sqlite":
        sqlite3.connect(path).execute("create table t (a)").connection.close()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(SiteError, match=r"x\.db"):
        write_site(path, tmp_path / "site")
    assert not (tmp_path / "site").exists()


# --------------------------------------------------------------------------- the index


def test_terms() -> None:
    assert terms_of("Foo_bar: Crème brûlée 42") == {"foo", "bar", "creme", "brulee", "42"}
    assert terms_of("库存同步") == {"库", "存", "同", "步", "库存", "存同", "同步"}
    assert terms_of("用pytest测") == {"用", "pytest", "测"}
    assert terms_of("e\u0301t\u00e9") == {"ete"}
    assert terms_of("x" * 100) == {"x" * 40}
    assert terms_of("-- // __ !") == set()


def _data(script: str) -> tuple[str, Any]:
    found = re.fullmatch(r"crystalData\((\"[^\"]+\"),(.*)\);\n", script, re.S)
    assert found
    return json.loads(found[1]), json.loads(found[2])


def _decoded(written: str, digits: str) -> list[int]:
    """Numbers from differences: five bits a character, the lowest first, the sixth says that more
    follow."""
    numbers, last, value, shift = [], -1, 0, 0
    for character in written:
        digit = digits.index(character)
        value += (digit % 32) << shift
        shift += 5
        if digit < 32:
            last += value + 1
            numbers.append(last)
            value = shift = 0
    return numbers


def test_the_index_holds_every_message() -> None:
    index = SiteIndex()
    words = {number: f"word{number % 7} only{number}" for number in range(3000)}
    out = []
    for number in range(3000):
        out += index.add("p", "Prompt", f"m-{number}", 1, None, words[number])
    out += index.finish()
    data = {name: _data(script)[1] for name, script in out}
    assert all(_data(script)[0] + ".js" == name for name, script in out)
    table = data["terms.js"]
    found: dict[str, list[int]] = {}
    order: list[str] = []
    for number, first in enumerate(table["terms"]):
        shard = data[f"terms-{number}.js"]
        assert shard[0] == first
        order += shard[::2]
        for term, written in zip(shard[::2], shard[1::2], strict=True):
            found[term] = _decoded(written, table["digits"])
    assert order == sorted(order) and len(table["terms"]) > 1
    assert found["word3"] == list(range(3, 3000, 7))
    assert all(found[f"only{number}"] == [number] for number in range(3000))
    texts = [entry for number in range(len(table["texts"])) for entry in data[f"texts-{number}.js"]]
    assert [entry[0] for entry in texts] == [f"m-{number}" for number in range(3000)]
    assert len(table["kinds"]) == 3000


def test_a_shard_stays_small() -> None:
    """A word that every one of many messages holds is one character each, and no shard holds much
    more than its limit."""
    index = SiteIndex()
    sizes = []
    for number in range(20_000):
        sizes += [
            len(s) for _, s in index.add("m", "Reply", f"m-{number}", 1, None, f"the {number}")
        ]
    sizes += [len(script) for name, script in index.finish() if name != "terms.js"]
    assert max(sizes) < 250_000


def test_inherited_messages_are_found_once(tmp_path: Path) -> None:
    shared = [message("u1", "Where is the samovar?"), message("a1", "In the kitchen.")]
    store_all(
        tmp_path / "c.db",
        conversation("first", shared, started_at=TIME),
        conversation(
            "fork",
            [*shared, message("u2", "Thanks")],
            kind="fork",
            parent_session_id="first",
            started_at="2026-11-04T10:00:00.000Z",
        ),
    )
    assert query(tmp_path / "c.db", "select count(*) from messages") == [(3,)]
    report = write_site(tmp_path / "c.db", tmp_path / "site")
    assert (report.messages, report.searchable) == (5, 3)


# --------------------------------------------------------------------------- in a browser


class _Reader:
    """Opens pages of a site, and notes what goes wrong in them."""

    def __init__(self, browser: Browser, root: str) -> None:
        self.browser = browser
        self.root = root
        self.problems: list[str] = []

    def open(self, path: str, **options: Any) -> Page:
        width, height = options.pop("size", DESK)
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            timezone_id="UTC",
            locale="en-GB",
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(20_000)
        page = context.new_page()
        note = self.problems.append
        page.on("pageerror", lambda error: note(f"{path}: {error}"))
        page.on("console", lambda m: note(f"{path}: {m.text}") if m.type == "error" else None)
        # what is left behind by going to the next page at once is no failure
        page.on(
            "requestfailed",
            lambda r: (
                None
                if r.failure == "net::ERR_ABORTED"
                else note(f"{path}: {r.url} failed: {r.failure}")
            ),
        )
        page.on("dialog", lambda dialog: (note(f"{path}: a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda r: None if r.url.startswith(self.root) else note(f"{path}: asks for {r.url}"),
        )
        page.goto(self.root + path)
        return page


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def served(tea_house: Path) -> Iterator[str]:
    """The tea house in a folder of a web server."""
    handler = functools.partial(_Quiet, directory=str(tea_house.parent))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{tea_house.name}/"
        server.shutdown()
        thread.join()


@pytest.fixture(params=["file", "http"])
def reader(request: pytest.FixtureRequest, browser: Browser, tea_house: Path) -> Iterator[_Reader]:
    """The tea house from the disk and from a server; whatever goes wrong in a page fails the test."""
    root = (
        tea_house.as_uri() + "/" if request.param == "file" else request.getfixturevalue("served")
    )
    made = _Reader(browser, root)
    yield made
    for context in browser.contexts:
        context.close()
    assert made.problems == []


def said(page: Page) -> str:
    """What the search says of its result, once it is there."""
    page.wait_for_function(
        "() => !['', 'Searching …'].includes(document.getElementById('x-count').textContent)"
    )
    return page.locator("#x-count").inner_text()


def _search(reader: _Reader, words: str, **more: str) -> Page:
    from urllib.parse import urlencode

    page = reader.open("search.html?" + urlencode({"q": words} | more))
    said(page)
    return page


@pytest.mark.browser
@pytest.mark.parametrize(
    ("words", "count"),
    [
        (
            "question",
            750,
        ),  # u0, u2 … u1498 - one of them is not there: see the place of the Chinese
        ("1234", 1),
        ("123*", 11),  # 123, 1230 to 1239
        ("question 1234", 1),
        ('"question number 1234"', 1),
        ('"number question"', 0),
        ("number -question -reply", 0),
        ("REPLY -number", 0),
        ("请", 1),
        ("库存", 1),
        ("库存同步", 1),
        ("步同", 0),
        ("完成", 2),
        ("迁移已经", 1),
        ("cart.py", 2),  # the prompt and the reply that edits it
        ("test_cart", 1),
        ("totals", 1),  # the task; its title is listed apart
        ("wrong nothing", 0),
        ("returns nothing", 1),  # thinking
        ("samovar", 0),
    ],
)
def test_search(browser: Browser, tea_house: Path, words: str, count: int) -> None:
    reader = _Reader(browser, tea_house.as_uri() + "/")
    page = _search(reader, words)
    if count:
        assert said(page).startswith((f"{count:,} message", f"At least {min(count, 20)}"))
        assert page.locator(".s-messages .s-hit").count() == min(count, 20)
        assert page.locator(".s-messages mark").count() > 0
    else:
        assert said(page).startswith("No message holds all of these words")
    for context in browser.contexts:
        context.close()
    assert reader.problems == []


@pytest.mark.browser
def test_a_hit_leads_to_its_message(reader: _Reader) -> None:
    page = _search(reader, "蓝牙")
    page.locator(".s-messages .s-open").click()
    page.wait_for_url(f"**/conversations/toy_long/page-12.html#m-a{CHINESE_AT}-long")
    box = page.locator(f"#m-a{CHINESE_AT}-long").bounding_box()
    assert box and 0 <= box["y"] < DESK[1]


@pytest.mark.browser
def test_search_goes_on(reader: _Reader) -> None:
    page = _search(reader, "question")
    page.get_by_role("button", name="Show more").click()
    page.locator(".s-messages .s-hit").nth(39).wait_for()
    assert page.locator(".s-messages .s-hit").count() == 40


@pytest.mark.browser
def test_search_in_one_conversation(reader: _Reader) -> None:
    page = reader.open("conversations/toy_rich/index.html")
    page.get_by_role("searchbox").fill("total")
    page.get_by_role("searchbox").press("Enter")
    page.wait_for_url("**/search.html?*")
    assert "in “The total of a cart”" in said(page)
    assert page.locator(".s-group h3").all_inner_texts() == ["The total of a cart"]


@pytest.mark.browser
def test_search_filters(reader: _Reader) -> None:
    page = _search(reader, "number", by="m")
    assert said(page).startswith("749 messages")  # one of 750 replies is in Chinese
    page.get_by_label("Messages").select_option("p")
    page.wait_for_function("() => document.getElementById('x-count').textContent.startsWith('750')")


@pytest.mark.browser
def test_the_list_is_filtered(reader: _Reader) -> None:
    page = reader.open("index.html")
    assert page.locator("#x-list > li").count() == 3
    page.get_by_label("Title").fill("迁移")
    page.wait_for_function("() => document.querySelectorAll('#x-list > li').length === 1")
    assert page.locator("#x-list .s-open").inner_text() == "数据迁移"
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => document.querySelectorAll('#x-list > li').length === 3")
    page = reader.open("index.html?project=%E8%8C%B6%E9%A6%86")
    page.wait_for_function("() => document.querySelectorAll('#x-list > li').length === 1")


@pytest.mark.browser
def test_a_day_of_the_map_leads_to_its_conversations(reader: _Reader) -> None:
    page = reader.open("overview.html")
    page.get_by_text("Table of days").click()
    page.get_by_role("link", name="12 Nov 2026").click()
    page.wait_for_url("**/index.html?from=2026-11-12&to=2026-11-12")
    page.wait_for_function("() => document.querySelectorAll('#x-list > li').length === 1")
    assert page.locator("#x-list .s-open").inner_text() == "数据迁移"


@pytest.mark.browser
@pytest.mark.parametrize("size", [DESK, PHONE])
@pytest.mark.parametrize(
    "path",
    ["index.html", "overview.html", "search.html?q=total", "conversations/toy_rich/index.html"],
)
def test_pages_fit(reader: _Reader, path: str, size: tuple[int, int]) -> None:
    page = reader.open(path, size=size)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    # the style sheets of the site are there
    assert page.evaluate("getComputedStyle(document.querySelector('.x-header')).display") == "block"
    frame = page.evaluate("getComputedStyle(document.querySelector('.x-header')).backgroundColor")
    assert frame == "rgb(39, 104, 144)"


@pytest.mark.browser
def test_keys_of_a_conversation(reader: _Reader) -> None:
    page = reader.open("conversations/toy_long/page-3.html")
    page.keyboard.press("j")
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    assert re.fullmatch(r"page-3\.html#m-u2\d\d-long", focused)


@pytest.mark.browser
def test_without_scripts(reader: _Reader) -> None:
    page = reader.open("search.html?q=total", java_script_enabled=False)
    assert "needs JavaScript" in page.locator("main").inner_text()
    page.get_by_role("link", name="All conversations").click()
    assert page.locator("#x-list .s-open").count() == 3
    assert not page.get_by_label("Title").is_visible()
    page.get_by_role("link", name="The total of a cart").click()
    reply = page.locator("[id='m-a3-rich']")
    assert reply.is_visible()
    page.locator(".c-shows").get_by_text("Prompts", exact=True).click()
    assert not reply.is_visible() and page.locator("[id='m-u2-rich']").is_visible()
    page.locator(".c-shows").get_by_text("Failures").click()
    assert page.locator("[id='m-a1-rich']").is_visible()
    assert not page.locator("[id='m-u2-rich']").is_visible()


@pytest.mark.browser
def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    """Every payload in every field, all pages opened with the policy switched off: nothing runs and
    nothing is asked for. A page with a payload that does run shows that it would be noticed."""
    payloads = [payload for payload in PAYLOADS if "\ud800" not in payload]
    everything = "\n\n".join(payloads)
    talks = []
    for number, payload in enumerate(payloads):
        talks.append(
            conversation(
                f"{payload[:60]}{number}",
                [
                    message(f"u{number}{payload[:60]}", payload, timestamp=TIME, model=payload),
                    message(
                        f"a{number}",
                        payload,
                        thinking=payload,
                        model=payload,
                        attachments=[Attachment("file", payload, payload, b"x")],
                        tool_calls=[
                            call(payload, input=json.dumps({"command": payload}), output=payload)
                        ],
                    ),
                ],
                title=payload,
                cwd=payload,
                git_branch=payload,
                project_path=f"/home/{payload}",
            )
        )
    talks.append(conversation("all", [message("u", everything), message("a", everything)]))
    store_all(tmp_path / "x.db", *talks)
    site = tmp_path / "site"
    write_site(tmp_path / "x.db", site, title=everything)
    reader = _Reader(browser, site.as_uri() + "/")
    opened = 0
    page = reader.open("index.html", bypass_csp=True)
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        page.evaluate(
            "() => { for (const d of document.querySelectorAll('details')) d.open = true }"
        )
        opened += 1
    assert opened >= len(payloads) + 3
    for words in ("alert", "script*", "1"):
        page.goto(f"{site.as_uri()}/search.html?q={words}")
        said(page)
    page.goto(f"{site.as_uri()}/index.html?title=a")
    page.wait_for_function("() => document.getElementById('x-count').textContent.includes(' of ')")
    assert reader.problems == []
    bad = site / "bad.html"
    bad.write_text("<img src=x onerror=alert(1)>")
    page.goto(bad.as_uri())
    page.wait_for_function("() => document.images[0].complete")
    assert any("a dialog" in problem for problem in reader.problems)
    page.context.close()


def test_the_overview_says_what_has_no_price(tmp_path: Path) -> None:
    said = message("a1", "x", model="nobody-knows", tokens=Tokens(200, 300, 0, 0))
    store_all(
        tmp_path / "c.db",
        conversation(
            "s",
            [message("u1", "Hi"), said],
            model="nobody-knows",
            started_at="2026-11-30T10:00:00.000Z",
        ),
    )
    write_site(tmp_path / "c.db", tmp_path / "site")
    text = (tmp_path / "site" / "overview.html").read_text(encoding="utf-8")
    assert "No list price is known for nobody-knows (500 tokens)." in text
    (page,) = (tmp_path / "site" / "conversations").glob("*/*.html")
    assert "no price for nobody-knows" in page.read_text(encoding="utf-8")
