"""A real browser before a real Datasette: the pages are what a reader gets, with their stylesheets,
their scripts and their keys. The fixtures are a plugin of ``conftest.py``."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import CHROMIUM, call, conversation, message, store_all

from datasette_crystal.cli import make_demo
from datasette_crystal.model import Attachment, FileEdit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: (width, height) of a desk and of a phone.
DESK, PHONE = (1280, 900), (390, 844)

# --------------------------------------------------------------------------- what is served

LONG = 1500
#: Where a message of the long conversation stands that is written in Chinese.
CHINESE_AT = 1101
CHINESE = "请检查库存同步，为什么蓝牙耳机的数量不对？"


def _minute(number: int) -> str:
    day, minute = divmod(number, 1440)
    return f"2026-11-{day + 10:02d}T{minute // 60:02d}:{minute % 60:02d}:00.000Z"


def _png(width: int, height: int) -> bytes:
    """A blue picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = b"".join(b"\0" + bytes((40, 110, 170)) * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


PYTHON = '''def total(cart):
    """The price of all items."""
    # the shop counts in cents
    return sum(item["price"] * item["count"] for item in cart)  # {}
'''.format("and a comment much longer than any screen is wide " * 4)

DIFF = "@@ -1,3 +1,4 @@\n def total(cart):\n-    return 0\n+    # in cents\n+    return 1\n"


def _rich() -> list[Any]:
    """Everything that a message can be made of."""
    return [
        message(
            "u1-rich",
            "Why is the total **wrong**? See `cart.py` and the picture.",
            timestamp=_minute(0),
            attachments=[Attachment("image", "screen.png", "image/png", _png(900, 500))],
        ),
        message(
            "a1-rich",
            "It adds nothing up:\n\n```python\n" + PYTHON + "```\n\n"
            "| item | price | count | where it is stored |\n|---|---:|---:|---|\n"
            "| tea | 300 | 2 | " + "shelf " * 30 + "|\n\n"
            "1. add the prices\n2. test it\n\n> nothing is lost\n\n"
            "https://example.com/" + "a-very-long-address/" * 12,
            thinking="The function returns *nothing*.\n\n- look at the cart\n- look at the price",
            timestamp=_minute(1),
            model="opus-4",
            tool_calls=[
                call(
                    "Bash",
                    input='{"command":"pytest -q tests/test_cart.py"}',
                    output="\x1b[31m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 0.12s",
                    status="error",
                    exit_code=1,
                    started_at=_minute(1),
                    duration_ms=1234,
                ),
                call(
                    "Edit",
                    input='{"file_path":"/home/ana/shop/cart.py","old_string":"0","new_string":"1"}',
                    started_at=_minute(2),
                    edits=[FileEdit("/home/ana/shop/cart.py", "edit", 2, 1, DIFF)],
                ),
                call(
                    "TodoWrite",
                    input='{"todos":[{"content":"Add the prices","status":"completed"},'
                    '{"content":"Test it","status":"in_progress"}]}',
                    started_at=_minute(2),
                ),
                call(
                    "Task",
                    input='{"description":"Look for more","prompt":"Look for more totals"}',
                    output="There are none.",
                    started_at=_minute(2),
                    subagent_session_id="rich/agent",
                ),
                call(
                    "Bash",
                    input='{"command":"cat log"}',
                    output="\n".join(f"line {i} of the log" for i in range(3000)),
                    started_at=_minute(3),
                ),
            ],
        ),
        message("h1-rich", "The context was compacted.", role="system", kind="summary"),
        message("e1-rich", "API Error: 529 overloaded", role="system", kind="error"),
        message("u2-rich", "Then go on.", timestamp=_minute(5)),
        message("a2-rich", "A way that was left.", timestamp=_minute(6), state="abandoned"),
        message("a3-rich", "Done: the total is **right**.", timestamp=_minute(7), model="opus-4"),
    ]


def _long() -> list[Any]:
    messages = []
    for i in range(LONG):
        if i == CHINESE_AT:
            messages.append(message(f"a{i}-long", CHINESE, timestamp=_minute(i), model="opus-4"))
        elif i % 2:
            messages.append(
                message(f"a{i}-long", f"Reply number {i}.", timestamp=_minute(i), model="opus-4")
            )
        else:
            messages.append(message(f"u{i}-long", f"Question number {i}?", timestamp=_minute(i)))
    return messages


def make_tea_house(path: Path) -> None:
    """A database with a conversation of everything, one of 1,500 messages, and Chinese text."""
    agent = [
        message("t1-agent", "Look for more totals", role="user", kind="task", timestamp=_minute(2)),
        message("a1-agent", "There are none.", timestamp=_minute(3), model="haiku-4"),
    ]
    chinese = [
        message("u1-chinese", "数据迁移什么时候完成？", timestamp=_minute(3000)),
        message(
            "a1-chinese", "迁移已经**完成**，共三张表。", timestamp=_minute(3001), model="opus-4"
        ),
    ]
    store_all(
        path,
        conversation("rich", _rich(), title="The total of a cart", project_path="/home/ana/shop"),
        conversation(
            "rich/agent",
            agent,
            title="Look for more totals",
            kind="subagent",
            parent_session_id="rich",
            project_path="/home/ana/shop",
        ),
        conversation("long", _long(), title="A long talk", project_path="/home/ana/shop"),
        conversation("chinese", chinese, title="数据迁移", project_path="/home/ana/茶馆"),
    )


# --------------------------------------------------------------------------- the server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Site:
    """A Datasette that serves ``root`` ("http://127.0.0.1:8001/") until it is closed."""

    root: str
    process: subprocess.Popen[bytes]

    def url(self, path: str) -> str:
        return self.root + path.lstrip("/")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def serve(databases: list[Path], *options: str, prefix: str = "/") -> Site:
    """Starts Datasette on a free port and waits until it answers. Another process may take the
    port meanwhile, so a second and third one is tried."""
    log = databases[0].with_suffix(".log")
    for _ in range(3):
        port = _free_port()
        command = [sys.executable, "-m", "datasette", "serve", *map(str, databases)]
        command += ["-p", str(port), "--setting", "base_url", prefix, *options]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        site = Site(f"http://127.0.0.1:{port}{prefix}", process)
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(site.url("-/versions.json"), timeout=5).close()
                return site
            time.sleep(0.1)  # asked again, not hoped for
        site.close()
    raise RuntimeError("Datasette did not start: " + log.read_text(errors="replace")[-2000:])


# --------------------------------------------------------------------------- fixtures


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The sample conversations, the tea house, and a database that is none of ours."""
    folder = tmp_path_factory.mktemp("site")
    paths = [folder / "demo.db", folder / "tea house.db", folder / "plain.db"]
    make_demo(paths[0])
    make_tea_house(paths[1])
    with contextlib.closing(sqlite3.connect(paths[2])) as connection:
        connection.execute("create table messages (id integer primary key, title text)")
    return paths


@pytest.fixture(scope="session")
def site(databases: list[Path]) -> Iterator[Site]:
    with contextlib.closing(serve(databases)) as served:
        yield served


@pytest.fixture(scope="session")
def prefixed_site(databases: list[Path]) -> Iterator[Site]:
    """The same behind a base_url."""
    with contextlib.closing(serve(databases, prefix="/a/b/")) as served:
        yield served


@pytest.fixture(scope="module")  # its event loop would be in the way of the tests of other modules
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        raise RuntimeError("Chromium is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Opener:
    """Opens pages, and notes what goes wrong in them: errors of scripts and of the console, requests
    that fail or that leave the site."""

    browser: Browser
    site: Site
    problems: list[str] = field(default_factory=list)

    def __call__(
        self,
        path: str,
        size: tuple[int, int] = DESK,
        dark: bool = False,
        scripts: bool = True,
        zone: str = "UTC",
        site: Site | None = None,
    ) -> Page:
        site = site or self.site
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            timezone_id=zone,
            locale="en-GB",
            has_touch=size == PHONE,
            reduced_motion="reduce",
        )
        context.set_default_timeout(15_000)
        page = context.new_page()
        note = self.problems.append
        page.on("pageerror", lambda error: note(f"{path}: {error}"))
        page.on("console", lambda m: note(f"{path}: {m.text}") if m.type == "error" else None)
        page.on("requestfailed", lambda request: note(f"{path}: {request.url} failed"))
        page.on(
            "response", lambda r: note(f"{path}: {r.url} is {r.status}") if r.status > 399 else None
        )
        page.on(
            "request",
            lambda r: None if r.url.startswith((site.root, "data:")) else note(f"{path}: {r.url}"),
        )
        page.goto(site.url(path))
        return page


@pytest.fixture
def opener(browser: Browser, site: Site) -> Iterator[Opener]:
    """Every test that opens a page with it fails when anything goes wrong in the page."""
    made = Opener(browser, site)
    yield made
    for context in browser.contexts:
        context.close()
    assert made.problems == []
