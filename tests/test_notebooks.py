"""The notebooks: each runs from top to bottom, offline, and the command writes it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sqlite3
import sys
import uuid
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hostile_database
import jupytext
import nbformat
import pytest
from click.testing import CliRunner
from conftest import store_all
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from test_notebook import Audit
from test_web_render import PAYLOADS

from datasette_crystal.cli import crystal, make_demo
from datasette_crystal.notebook_files import FOLDER, NAMES, title, written_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHARTS = {"tour": 2, "usage": 3, "habits": 6, "reading": 1, "fidelity": 2}


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notebooks") / "demo.db"
    make_demo(path)
    return path


def execute(name: str, database: Path, folder: Path) -> Any:
    """Runs a notebook as it is written beside a database, with the Python that runs the tests:
    whichever kernels are installed on this machine do not matter."""
    kernels = folder / "kernels" / "python3"
    kernels.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "Python 3", "language": "python"})
    )
    specs = KernelSpecManager(kernel_dirs=[str(kernels.parent)], ensure_native_kernel=False)
    made = nbformat.reads(written_for(name, database.name), as_version=4)
    resources = {"metadata": {"path": str(database.parent)}}
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
    NotebookClient(made, km=manager, timeout=120, resources=resources).execute()
    return made


def run_here(name: str, database: Path) -> list[dict[str, Any]]:
    """What the cells of a notebook show, by data type. Run in this process, which is quicker than a
    kernel; what they show is made by the same methods."""
    import pandas as pd

    variables: dict[str, Any] = {}
    shown = []
    with pd.option_context("display.max_colwidth", 50):
        for cell in nbformat.reads(written_for(name, str(database)), as_version=4).cells:
            if cell.cell_type != "code":
                continue
            code = ast.parse(cell.source)
            last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
            exec(compile(code, name, "exec"), variables)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), variables)
                shown.append(_bundle(value))
    return shown


def _bundle(shown: Any) -> dict[str, Any]:
    """What Jupyter asks a value for."""
    if hasattr(shown, "_repr_mimebundle_"):
        made = shown._repr_mimebundle_()
        return dict(made[0] if isinstance(made, tuple) else made)
    html = shown._repr_html_() if hasattr(shown, "_repr_html_") else None
    return {"text/plain": repr(shown)} | ({"text/html": html} if html else {})


def outputs(made: Any) -> list[dict[str, Any]]:
    return [output for cell in made.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_on_the_demo(name: str, demo: Path, tmp_path: Path) -> None:
    made = execute(name, demo, tmp_path)
    assert "assert " in made.cells[-1].source, "it ends in assertions"
    shown = [output["data"] for output in outputs(made) if "data" in output]
    charts = [data["application/vnd.vegalite.v5+json"] for data in shown if "application/vnd.vegalite.v5+json" in data]  # fmt: skip
    assert len(charts) == CHARTS[name]
    for chart in charts:
        title = chart["title"]
        assert title["text"] if isinstance(title, dict) else title
        assert any(chart["datasets"].values()), "it has something to show"
        assert '"tooltip"' in json.dumps(chart)
    # nothing is loaded from elsewhere: no script, no address but what names a schema or is a link
    for output in outputs(made):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr", output.get("text")
        text = json.dumps({key: value for key, value in output.items() if key != "metadata"})
        assert "<script" not in text and "cdn." not in text and "@import" not in text
        for data in [output.get("data", {})]:
            html = "".join(data.get("text/html", ""))
            assert (
                re.findall(r"""(?:src|srcset|data|poster)\s*=\s*["']?(?:https?:)?//""", html) == []
            )
            assert re.findall(r"""url\(|<(?:link|iframe|object|embed|base|meta)\b""", html) == []
            for kind, value in data.items():
                if kind.startswith("application/"):
                    addresses = re.findall(r"https?://[^\s\"\\]+", json.dumps(value))
                    assert set(addresses) <= {"https://vega.github.io/schema/vega-lite/v5.json"}


# Altair says that a column without a value has no type; there is nothing to draw either
@pytest.mark.filterwarnings("ignore:I don't know how to infer vegalite type from 'empty'")
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_where_there_is_nothing(name: str, database: Path) -> None:
    store_all(database)
    assert run_here(name, database)


def test_a_broken_promise_is_noticed(demo: Path, tmp_path: Path) -> None:
    """The assertions say something: a database that lies fails them."""
    from nbclient.exceptions import CellExecutionError

    path = tmp_path / "lies.db"
    for name, lie in (
        ("tour", "update conversations set message_count = message_count + 1 where id = 1"),
        (
            "usage",
            "update daily_usage set output_tokens = output_tokens + 1 where output_tokens > 0",
        ),
        ("habits", "update conversations set prompt_count = prompt_count + 1 where id = 1"),
        ("fidelity", "update import_log set records = records + 1"),
    ):
        shutil.copy(demo, path)
        with sqlite3.connect(path) as connection:
            connection.execute(lie)
        connection.close()
        with pytest.raises(CellExecutionError, match="AssertionError"):
            execute(name, path, tmp_path / name)


def test_both_forms_of_a_notebook_say_the_same() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(NAMES)
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)
    for name in NAMES:
        text, made = (jupytext.read(FOLDER / f"{name}{end}") for end in (".py", ".ipynb"))
        cells = [
            [(cell.cell_type, cell.source, cell.metadata.get("tags")) for cell in notebook.cells]
            for notebook in (text, made)
        ]
        assert cells[0] == cells[1], f"jupytext --sync datasette_crystal/notebooks/{name}.py"
        nbformat.validate(made)
        assert [
            cell for cell in made.cells if cell.get("outputs") or cell.get("execution_count")
        ] == []
        assert made.metadata["kernelspec"]["name"] == "python3"
        assert "crystal.db" in made.cells[1].source and made.cells[1].metadata["tags"] == [
            "parameters"
        ]


# --------------------------------------------------------------------------- hostile text

VEGA = "application/vnd.vegalite.v5+json"
TITLE = """<img src=x onerror="document.title='hacked'"> hello"""
TAG = "<observed_from_primary_session>"
#: What a table is made of, by pandas or by us.
TABLE = {"table", "thead", "tbody", "tr", "th", "td", "div", "style", "p"}


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    hostile_database.make_for_notebooks(path, [TITLE, TAG, *PAYLOADS])
    return path


@pytest.fixture(scope="session")
def hostile_outputs(hostile: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: run_here(name, hostile) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_its_output_is_made_of_what_a_conversation_holds(
    name: str, hostile_outputs: dict[str, list[dict[str, Any]]]
) -> None:
    shown = [output["text/html"] for output in hostile_outputs[name] if "text/html" in output]
    assert len(shown) > 2
    assert "&lt;img src=x onerror=" in "".join(shown), "the hostile text is there"
    for html in shown:
        audit = Audit() if 'class="crystal-nb' in html else Audit(TABLE, styles=True)
        audit.feed(html)
        assert audit.bad == []
        assert html.count("<style") == html.count("</style>") <= 1
        assert "tex2jax_ignore" in html  # pandas 2 knows no other


def test_what_looks_like_a_tag_can_be_read(
    hostile_outputs: dict[str, list[dict[str, Any]]],
) -> None:
    for name in ("tour", "reading"):
        html = "".join(output.get("text/html", "") for output in hostile_outputs[name])
        assert escape(TAG) in html and TAG not in html


@pytest.mark.parametrize("name", NAMES)
def test_its_charts_take_what_a_conversation_holds_as_data_only(
    name: str, hostile_outputs: dict[str, list[dict[str, Any]]]
) -> None:
    charts = [output[VEGA] for output in hostile_outputs[name] if VEGA in output]
    assert len(charts) == CHARTS[name]

    def look(part: Any, of: str = "") -> None:
        if isinstance(part, list):
            for one in part:
                look(one, of)
        elif isinstance(part, dict):
            # a link, an image, a tooltip's image: Vega makes elements of those
            assert not {"href", "url", "image"} & set(part)
            for key, value in part.items():
                look(value, key)
        elif isinstance(part, str) and of != "sort":  # an order of names
            assert not re.search(r"[<{}`\\]|alert|evil|image|href", part), (of, part)

    for chart in charts:
        chart = {key: value for key, value in chart.items() if key not in ("datasets", "$schema")}
        assert set(chart.pop("data")) == {"name"}
        look(chart)


@pytest.mark.browser
def test_hostile_text_in_notebooks_does_nothing_in_a_browser(
    hostile_outputs: dict[str, list[dict[str, Any]]], browser: Browser
) -> None:
    """The page is what an export to HTML makes of the outputs."""
    html = "".join(
        output.get("text/html") or f"<pre>{escape(output.get('text/plain', ''))}</pre>"
        for outputs in hostile_outputs.values()
        for output in outputs
    )
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.set_content(f"<!doctype html><title>Notebook</title><body>{html}<i id=end></i>")
    page.evaluate(
        """() => {
          for (const part of document.querySelectorAll('body *'))
            for (const name of ['mouseover', 'focus', 'toggle', 'error', 'load'])
              part.dispatchEvent(new Event(name));
        }"""
    )
    assert page.locator("body > #end").count() == 1, "what was opened in an output is closed in it"
    assert page.title() == "Notebook"
    assert page.locator("script, iframe, form, object, embed, svg, math, base, link").count() == 0
    assert dialogs == []
    assert [url for url in asked if not url.startswith(("data:", "about:"))] == []
    context.close()


def test_no_notebook_uses_what_does_not_escape() -> None:
    for name in NAMES:
        text = (FOLDER / f"{name}.py").read_text("utf-8")
        assert not re.search(r"\.style\b|to_html|\bHTML\(|render_links|_repr_markdown_", text), name


# --------------------------------------------------------------------------- the command


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(crystal, ["notebook", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_they_are_listed() -> None:
    code, text = run()
    assert code == 0
    for name in NAMES:
        assert re.search(rf"^{name} +{re.escape(title(name))}$", text, re.M)


def test_one_is_written_beside_the_database(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(demo, tmp_path / "crystal.db")
    code, text = run("usage")
    assert (code, text) == (0, "Wrote usage.ipynb\n\nNow run: jupyter lab usage.ipynb\n")
    made = nbformat.read(tmp_path / "usage.ipynb", as_version=4)
    assert made.cells[1].source == 'database = "crystal.db"'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["crystal.db", "usage.ipynb"]


def test_a_name_that_needs_quotes(demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    database = folder / 'my "old" talks.db'
    shutil.copy(demo, database)
    code, text = run("tour", "--database", str(database))
    assert code == 0 and f"jupyter lab '{folder}/tour.ipynb'" in text
    made = nbformat.read(folder / "tour.ipynb", as_version=4)
    found: dict[str, Any] = {}
    exec(made.cells[1].source, found)
    assert found["database"] == database.name


def test_nothing_is_overwritten_unasked(demo: Path, tmp_path: Path) -> None:
    database = tmp_path / "crystal.db"
    shutil.copy(demo, database)
    mine = tmp_path / "habits.ipynb"
    mark = uuid.uuid4().hex
    mine.write_text(mark)
    for arguments in (["habits"], ["--all"]):
        code, text = run(*arguments, "-d", str(database))
        assert code == 1 and "habits.ipynb is there already: --force replaces it" in text
        assert text.count("\n") == 1
        assert mine.read_text() == mark
        assert len(list(tmp_path.iterdir())) == 2  # not even the others
    code, text = run("--all", "--force", "-d", str(database))
    assert code == 0 and text.count("Wrote ") == len(NAMES)
    assert mark not in mine.read_text()


def test_wrong_arguments_give_one_line(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.db")
    assert run("tour", "-d", missing)[0] == 1
    assert "does not exist" in run("tour", "-d", missing)[1]
    assert run("turo")[0] == 2 and "not one of tour, usage" in run("turo")[1]
    assert run("tour", "--all")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_it_says_what_is_not_installed(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasette_crystal.notebook_files as files

    monkeypatch.setattr(files, "find_spec", lambda name: None if name == "altair" else object())
    database = tmp_path / "crystal.db"
    shutil.copy(demo, database)
    text = run("tour", "-d", str(database))[1]
    assert "It needs altair: pip install 'datasette-crystal[notebook]' jupyterlab" in text
