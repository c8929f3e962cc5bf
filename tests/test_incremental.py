"""A file that is imported while it grows must end as if it had been imported once."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from conftest import FIXTURES, check_invariants, contents, query

from datasette_crystal import plugins
from datasette_crystal.importer import Options, run_import
from datasette_crystal.model import Environment

SOURCES = ("claude-code", "codex", "copilot")


def run(database: Path, home: Path, **options: object) -> None:
    adapters = {name: plugins.get_adapters()[name] for name in SOURCES}
    run_import(
        database,
        Environment.for_home(home),
        adapters,
        Options(min_messages=1, machine="m", **options),  # type: ignore[arg-type]
    )


def growing_files() -> list[str]:
    """Every file of the recordings that grows by lines, and the smaller ones of the real homes."""
    if FIXTURES is None:
        return []
    files = [
        *FIXTURES.glob("recordings/*/*/home/.claude/projects/**/*.jsonl"),
        *FIXTURES.glob("recordings/*/*/home/.codex/sessions/**/*.jsonl"),
        *(
            path
            for path in FIXTURES.glob("homes/home_main/**/*.jsonl")
            if path.stat().st_size < 150_000 and path.name != "session_index.jsonl"
        ),
    ]
    return sorted(str(path.relative_to(FIXTURES)) for path in files)


@pytest.mark.fixtures
@pytest.mark.parametrize("name", growing_files())
def test_growth_at_any_line_ends_as_one_import(tmp_path: Path, name: str) -> None:
    assert FIXTURES is not None
    parts = Path(name).parts
    depth = parts.index("home") + 1 if "home" in parts else 2
    source = FIXTURES.joinpath(*parts[:depth])
    home = tmp_path / "home"
    shutil.copytree(source, home, symlinks=True)
    grown = home.joinpath(*parts[depth:])
    if "home_main" in parts:  # only what has to do with this file: the home is large
        keep = grown.parent if ".claude" in parts or "chatSessions" in parts else grown
        for path in [*home.rglob("*.jsonl"), *home.rglob("*.json"), *home.rglob("*.vscdb")]:
            if path != grown and keep not in path.parents and path.name != "workspace.json":
                path.unlink()
    whole = grown.read_bytes()
    once = tmp_path / "once.db"
    run(once, home)
    lines = whole.splitlines(keepends=True)
    rnd = random.Random(name)
    cuts = sorted(rnd.sample(range(len(lines)), min(3, len(lines))))
    growing = tmp_path / "growing.db"
    for cut in cuts:
        grown.write_bytes(b"".join(lines[:cut]))
        run(growing, home)
        # and half a line, as a reader may find it
        grown.write_bytes(b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
        run(growing, home)
    grown.write_bytes(whole)
    run(growing, home)
    check_invariants(growing)
    expected, found = contents(once), contents(growing)
    for table in expected:
        assert found[table] == expected[table], table
    assert query(growing, "select count(*) from conversation_messages where state = 'gone'") == [
        (0,)
    ]
    run(growing, home, full=True)
    assert contents(growing) == expected
