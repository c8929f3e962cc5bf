"""Makes the pictures of the README from the demo database, with Chromium and Playwright:

    pip install playwright && python docs/take_screenshots.py [/usr/bin/chromium]

Needs this package installed, with Datasette 1.0 (its table pages are in the pictures).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

from datasette_crystal.cli import make_demo

IMAGES = Path(__file__).parent / "images"
#: name: (path, height of the window)
PICTURES = {
    "overview": ("/demo/-/crystal", 900),
    "conversation": (
        "/demo/-/crystal/claude-code/527d1a98-efce-435e-ad7d-c6f0f580d612",
        900,
    ),
    "search": ("/demo/-/crystal/search?q=lock", 900),
    "conversations": ("/demo/conversations", 1000),
    "messages": ("/demo/messages?kind=prompt", 1000),
    "query": ("/demo/tools_and_how_often_they_fail", 900),
}


def main() -> None:
    chromium = sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/chromium"
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        database = Path(folder) / "demo.db"
        make_demo(database)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        settings = ["--setting", "suggest_facets", "off", "--setting", "truncate_cells_html", "400"]
        server = subprocess.Popen(
            [sys.executable, "-m", "datasette", "serve", str(database), "-p", str(port), *settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        base = f"http://127.0.0.1:{port}"
        try:
            _wait_for(base)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=chromium, args=["--no-sandbox"]
                )
                for name, (path, height) in PICTURES.items():
                    page = browser.new_page(viewport={"width": 1280, "height": height})
                    response = page.goto(base + path)
                    assert response is not None and response.status == 200, path
                    page.wait_for_timeout(300)
                    page.screenshot(path=str(IMAGES / f"{name}.png"))
                    page.close()
                browser.close()
        finally:
            server.terminate()
            server.wait()


def _wait_for(url: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url)
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main()
