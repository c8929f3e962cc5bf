"""The notebooks that come with the package, and the command that writes them beside a database."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

FOLDER = Path(__file__).parent / "notebooks"
#: In the order in which one may want to read them.
NAMES = ("tour", "usage", "habits", "reading", "fidelity")
#: What they need besides this package.
NEEDED = ("pandas", "altair", "ipykernel")


def title(name: str) -> str:
    """The heading of a notebook."""
    first = _read(name)["cells"][0]["source"][0]
    return str(first).strip("# \n")


def _read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))
    return notebook


def written_for(name: str, database: str) -> str:
    """The text of a notebook (``.ipynb``) whose parameters name this database. ``database`` is a
    path as seen from the folder of the notebook."""
    notebook = _read(name)
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()):
            cell["source"] = [f"database = {json.dumps(database, ensure_ascii=False)}"]
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def write(names: Sequence[str], database: Path, force: bool = False) -> list[Path]:
    """Writes notebooks beside a database and returns their paths. Raises :class:`FileExistsError`
    when one is there already, before anything is written, unless ``force``."""
    paths = [database.parent / f"{name}.ipynb" for name in names]
    for path in paths:
        if path.exists() and not force:
            raise FileExistsError(f"{path} is there already: --force replaces it")
    for name, path in zip(names, paths, strict=True):
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            unfinished.write_text(written_for(name, database.name), "utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return paths


def missing() -> list[str]:
    """Which of the packages that the notebooks need are not installed here."""
    return [name for name in NEEDED if find_spec(name) is None]


@click.command(short_help="Notebooks that chart and explain your database.")
@click.argument("name", required=False)
@click.option(
    "-d",
    "--database",
    type=click.Path(dir_okay=False),
    default="crystal.db",
    show_default=True,
    help="The database that the notebook reads; it is written beside it.",
)
@click.option("--all", "everything", is_flag=True, help="Write all of them.")
@click.option("--force", is_flag=True, help="Replace a notebook that is there already.")
def notebook(name: str | None, database: str, everything: bool, force: bool) -> None:
    """Write the notebook NAME beside your database, ready to run in Jupyter. Without NAME: list
    them.

    \b
    Examples:
      datasette crystal notebook
      datasette crystal notebook usage
      datasette crystal notebook --all --database ~/archive/all.db
    """
    from .cli import _quoted, echo, printable, table
    from .store import StoreError, open_readonly

    if name is None and not everything:
        table([[known, title(known)] for known in NAMES])
        echo()
        echo(
            "`datasette crystal notebook tour` writes one beside crystal.db, --all writes them all."
        )
        return
    if name is not None and everything:
        raise click.UsageError("give a NAME or --all, not both")
    if name is not None and name not in NAMES:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(NAMES)}", param_hint="NAME")
    path = Path(database)
    try:
        open_readonly(path).close()
        paths = write(NAMES if name is None else [name], path, force)
    except (StoreError, OSError) as error:
        raise click.ClickException(printable(error)) from None
    for written in paths:
        echo(f"Wrote {printable(written)}")
    echo()
    lacking = missing()
    if lacking:
        echo(f"It needs {', '.join(lacking)}: pip install 'datasette-crystal[notebook]' jupyterlab")
    target = _quoted(str(paths[0] if name is not None else path.parent))
    echo(f"Now run: jupyter lab {target}")
