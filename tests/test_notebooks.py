"""The notebooks: each runs from top to bottom, offline, and the command writes it."""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
from click.testing import CliRunner
from conftest import store_all
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from datasette_crystal.cli import crystal, make_demo
from datasette_crystal.notebook_files import FOLDER, NAMES, title, written_for

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


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_where_there_is_nothing(name: str, database: Path, tmp_path: Path) -> None:
    store_all(database)
    made = execute(name, database, tmp_path)
    assert [output for output in outputs(made) if output["output_type"] == "error"] == []


def test_a_broken_promise_is_noticed(demo: Path, tmp_path: Path) -> None:
    """The assertions say something: a database that lies fails them."""
    import sqlite3

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
