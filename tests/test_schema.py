"""The descriptions and saved queries are those of the real schema."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sqlite_utils import Database

from datasette_crystal import schema, search
from datasette_crystal.migrations import ensure_late_indexes, migrations

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def empty() -> sqlite3.Connection:
    """A crystal database without rows, as it stands after a first import."""
    connection = sqlite3.connect(":memory:")
    migrations.apply(Database(connection))
    search.build_fts(connection)
    ensure_late_indexes(connection)
    connection.execute("analyze")
    connection.create_function("escape_fts", 1, str)
    connection.create_function("list_price_usd", 6, lambda *_: None)
    return connection


def names(connection: sqlite3.Connection, kind: str) -> set[str]:
    rows = connection.execute("select name from sqlite_master where type = ?", (kind,))
    return {row[0] for row in rows}


def shadows(connection: sqlite3.Connection) -> set[str]:
    return {
        f"{index}_{part}"
        for index in ("messages_fts", "messages_cjk")
        for part in ("data", "idx", "docsize", "config")
    }


def test_every_table_and_view_is_described(empty: sqlite3.Connection) -> None:
    tables = names(empty, "table") - shadows(empty)
    tables = {name for name in tables if not name.startswith("sqlite_stat")}
    assert set(schema.TABLES) == tables
    assert set(schema.VIEWS) == names(empty, "view")
    for table in (schema.TABLES | schema.VIEWS).values():
        assert table.title and table.description.endswith(".")


@pytest.mark.parametrize("name", [*schema.TABLES, *schema.VIEWS])
def test_every_column_is_described(empty: sqlite3.Connection, name: str) -> None:
    columns = [row[1] for row in empty.execute(f'pragma table_info("{name}")')]
    table = (schema.TABLES | schema.VIEWS)[name]
    assert list(table.columns) == columns
    assert all(text.strip() for text in table.columns.values())
    for column in (*table.facets, table.sort, table.sort_desc, table.label):
        assert column is None or column in columns
    assert not (table.sort and table.sort_desc)


def test_every_foreign_key_leads_to_a_label(empty: sqlite3.Connection) -> None:
    for name in schema.TABLES:
        for row in empty.execute(f'pragma foreign_key_list("{name}")'):
            assert schema.TABLES[row[2]].label, f"{name}.{row[3]} leads to {row[2]}"


def test_default_facets_begin_an_index(empty: sqlite3.Connection) -> None:
    """A facet whose column begins no index reads a whole table, long texts and all."""
    for name, table in schema.TABLES.items():
        if name in ("projects", "attachments"):  # small
            continue
        first = {
            empty.execute(f'pragma index_info("{row[1]}")').fetchone()[2]
            for row in empty.execute(f'pragma index_list("{name}")')
        }
        assert set(table.facets) <= first
        assert table.sort_desc in first | {"id", None}


def test_messages_have_no_facet_by_date() -> None:
    assert schema.TABLES["messages"].facets == ("source", "kind", "role", "model")


@pytest.mark.parametrize("name", list(schema.QUERIES))
def test_saved_queries_are_valid(empty: sqlite3.Connection, name: str) -> None:
    query = schema.QUERIES[name]
    parameters = dict.fromkeys(re.findall(r":(\w+)", query.sql), "")
    columns = [column[0] for column in empty.execute(query.sql, parameters).description]
    assert len(set(columns)) == len(columns)
    assert query.title and query.description
    # each of them would be taken for the page of a table otherwise
    assert name not in schema.TABLES | schema.VIEWS
    assert re.fullmatch(r"[a-z_]+", name)


def test_docs_are_up_to_date() -> None:
    """Mend it by: python -m datasette_crystal.schema metadata.yml docs/schema.md"""
    text = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    comment, _, described = text.partition("\n")
    assert comment.startswith("<!-- Made from datasette_crystal/schema.py")
    assert described == schema.schema_markdown()
    assert (ROOT / "metadata.yml").read_text(encoding="utf-8") == schema.metadata_yaml()


def test_command_writes_both_files(tmp_path: Path) -> None:
    schema.main([str(tmp_path / "a.md"), str(tmp_path / "b.yml")])
    assert "\n# The schema of crystal.db\n" in (tmp_path / "a.md").read_text(encoding="utf-8")
    assert "databases" in yaml.safe_load((tmp_path / "b.yml").read_text(encoding="utf-8"))


def test_markdown_shows_every_column_and_foreign_key(empty: sqlite3.Connection) -> None:
    text = schema.schema_markdown()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##)", text, re.M | re.S))
    for name in schema.TABLES | schema.VIEWS:
        for row in empty.execute(f'pragma table_info("{name}")'):
            assert f"| {row[1]} | {row[2].lower()}" in sections[name]
        for row in empty.execute(f'pragma foreign_key_list("{name}")'):
            assert re.search(rf"{row[2]} \|\|--o\{{ {name} : \".*{row[3]}", text)
    for query in schema.QUERIES.values():
        assert query.sql.strip() in text


def test_metadata_yml_says_the_same_as_the_plugin() -> None:
    written = yaml.safe_load(schema.metadata_yaml("mine"))["databases"]["mine"]
    assert written == schema.database_metadata() | {"queries": schema.queries_metadata()}


def test_metadata_is_a_new_value_each_time() -> None:
    first = schema.database_metadata()
    first["tables"]["messages"]["columns"]["id"] = "changed"
    first["tables"]["messages"]["facets"].append("changed")
    second = schema.database_metadata()["tables"]["messages"]
    assert second["columns"]["id"] != "changed"
    assert second["facets"] == ["source", "kind", "role", "model"]


@pytest.mark.parametrize("module", ["schema", "importer", "store", "plugins", "cli"])
def test_importer_starts_without_datasette(module: str) -> None:
    code = f"import sys, datasette_crystal.{module}; sys.exit('datasette' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_hook_marker_is_datasettes_own() -> None:
    import datasette

    import datasette_crystal

    assert datasette_crystal.hookimpl.project_name == datasette.hookimpl.project_name
