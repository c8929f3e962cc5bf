"""What the README shows must work on the database that a new user gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import query

from datasette_crystal.cli import make_demo

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("demo") / "demo.db"
    assert make_demo(database) > 0
    return database


def test_the_readme_shows_queries() -> None:
    assert len(QUERIES) >= 5


@pytest.mark.parametrize("sql", QUERIES)
def test_every_query_finds_something_in_the_demo(demo: Path, sql: str) -> None:
    assert query(demo, sql)


def test_every_picture_is_there() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (Path(__file__).parent.parent / picture).stat().st_size > 10_000, picture


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(((?!https?:)[^)#]+)\)", README):
        assert (Path(__file__).parent.parent / target).exists(), target
