"""Does every default page answer within Datasette's default limits on a large database?

Builds a database of 300,000 messages and 100,000 tool calls through the migrations, serves it in
this process with Datasette's default settings, and requests every table page, every default facet
applied, sorted pages, the second page, row pages, saved queries, the page of the database and the
index. A page fails when its status is not 200, when SQL or a facet ran into a time limit.

    python benchmarks/table_pages.py                         # build, measure, print a table
    python benchmarks/table_pages.py --database large.db     # keep the database for the next time
    python benchmarks/table_pages.py --setting suggest_facets off
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from datasette_crystal import schema, search, usage
from datasette_crystal.migrations import APPLICATION_ID, ensure_late_indexes, migrations

SOURCES = {
    "claude-code": "Claude Code",
    "codex": "Codex CLI",
    "copilot": "GitHub Copilot",
    "cursor": "Cursor",
    "trae": "Trae",
}
MODELS = [f"model-{number}" for number in range(24)]
TOOLS = ["Bash", "Read", "Edit", "exec_command", "run_in_terminal", "Grep", "Task", "apply_patch"]
TOOLS += [f"mcp__server__tool_{number}" for number in range(60)]
#: Words that the measured searches look for: about one message in ten, and one in a thousand.
COMMON, RARE = "migration", "zebra"


class Prose:
    """Made-up text whose words are as unequally frequent as those of a language."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        words = [f"w{number}" for number in range(20_000)]
        words[700], words[12_000] = COMMON, RARE
        weights = [1 / (rank + 3) for rank in range(len(words))]
        self.words = rng.choices(words, weights, k=1_000_000)

    def __call__(self, mean: int) -> str:
        """Words, ``mean`` characters on average, with a long tail as in real conversations."""
        count = int(self.rng.lognormvariate(0, 1.2) * mean / 11) + 2
        start = self.rng.randrange(len(self.words) - 1000)
        return " ".join(self.words[start : start + count])


def build(path: Path, messages: int = 300_000, calls: int = 100_000, seed: int = 1) -> None:
    """Fills a new database at ``path`` with made-up conversations."""
    rng = random.Random(seed)
    text = Prose(rng)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = off")
    connection.execute("pragma synchronous = off")
    connection.execute(f"pragma application_id = {APPLICATION_ID}")
    migrations.apply(Database(connection))
    connection.execute("begin")
    connection.executemany("insert into sources values (?, ?)", SOURCES.items())
    projects = 120
    connection.executemany(
        "insert into projects (id, name, machine, path) values (?, ?, 'laptop', ?)",
        ((i, f"project-{i}", f"/home/user/src/project-{i}") for i in range(1, projects + 1)),
    )
    connection.execute(
        "insert into import_runs values "
        "(1, '2026-11-30T00:00:00.000Z', '2026-11-30T00:05:00.000Z', '0', 'laptop', 'UTC', '{}')"
    )
    conversations = max(messages // 50, 1)
    begin = datetime(2025, 6, 1)
    starts = sorted(rng.uniform(0, 500 * 86400) for _ in range(conversations))
    sources = list(SOURCES)

    def stamp(seconds: float) -> str:
        moment = begin + timedelta(seconds=seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"

    heads = []
    for id_, start in enumerate(starts, 1):
        kind = rng.choices(["main", "subagent", "fork", "review"], [60, 35, 4, 1])[0]
        parent = rng.randrange(1, id_) if kind != "main" and id_ > 1 else None
        source = rng.choices(sources, [50, 30, 10, 8, 2])[0]
        heads.append((id_, source, kind, parent, start, rng.choice(MODELS)))
    connection.executemany(
        "insert into conversations (id, title, source, session_id, title_origin, project_id, "
        "machine, cwd, git_branch, model, kind, parent_id, started_at, ended_at, message_count, "
        "prompt_count, imported_at, updated_at) values "
        "(?, ?, ?, ?, 'first-prompt', ?, 'laptop', '/home/user', 'main', ?, ?, ?, ?, ?, 50, 4, "
        "'2026-11-30T00:00:00.000Z', '2026-11-30T00:00:00.000Z')",
        (
            (
                id_, text(40), source, f"session-{id_}", rng.randrange(1, projects + 1),
                model, kind, parent, stamp(start), stamp(start + 7200),
            )
            for id_, source, kind, parent, start, model in heads
        ),
    )  # fmt: skip

    kinds = ["prompt", "command", "reply", "partial", "context", "summary", "notification", "error"]

    def message_rows() -> Iterator[tuple[Any, ...]]:
        for id_ in range(1, messages + 1):
            conversation, position = (id_ - 1) // 50, (id_ - 1) % 50
            head = heads[min(conversation, conversations - 1)]
            kind = rng.choices(kinds, [8, 1, 80, 1, 5, 1, 3, 1])[0]
            reply = kind in ("reply", "partial")
            content = text(700)
            # one conversation in five goes on with another model
            model = MODELS[0] if head[0] % 5 == 0 and position > 25 else head[5]
            yield (
                id_, content[:120], head[1], head[0], f"uid-{id_}", position, position // 12,
                "assistant" if reply else "system" if kind == "error" else "user", kind,
                model if reply else None, stamp(head[4] + position * 60),
                int(rng.random() < 0.2), int(id_ % 3 == 0), 900 if reply else None,
                300 if reply else None, 20_000 if reply else None, len(content), content,
                text(400) if reply and rng.random() < 0.3 else None,
            )  # fmt: skip

    connection.executemany(
        "insert into messages (id, title, source, conversation_id, uid, position, turn, role, kind, "
        "model, timestamp, has_code, has_tool_use, input_tokens, output_tokens, cache_read_tokens, "
        "characters, content, thinking) values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        message_rows(),
    )
    connection.execute(
        "insert into conversation_messages (conversation_id, position, message_id, uid) "
        "select conversation_id, position, id, uid from messages"
    )
    statuses = ["ok", "error", "denied", "interrupted", "pending", "unknown"]

    def call_rows() -> Iterator[tuple[Any, ...]]:
        for id_ in range(1, calls + 1):
            message = min(id_ * 3, messages)
            head = heads[min((message - 1) // 50, conversations - 1)]
            name = rng.choices(TOOLS, [30, 20, 15, 10, 5, 5, 2, 3] + [0.2] * 60)[0]
            yield (
                id_, f"{name}: {text(50)[:100]}", name, message, head[0],
                0 if id_ * 3 <= messages else id_, f"call-{id_}",
                rng.choices(statuses, [85, 9, 2, 2, 1, 1])[0],
                rng.choice([0, 1, None]), stamp(head[4] + 30), int(rng.lognormvariate(6, 2)),
                text(400), text(3000),
            )  # fmt: skip

    connection.executemany(
        "insert into tool_calls (id, title, name, message_id, conversation_id, position, call_id, "
        "status, exit_code, started_at, duration_ms, input, output) values "
        "(?,?,?,?,?,?,?,?,?,?,?,?,?)",
        call_rows(),
    )
    paths = [f"/home/user/src/project-{i % projects + 1}/module_{i}.py" for i in range(4000)]
    connection.executemany(
        "insert into file_edits (path, action, message_id, position, conversation_id, lines_added, "
        "lines_removed, diff) select ?, ?, message_id, position, conversation_id, ?, ?, ? "
        "from tool_calls where id = ?",
        (
            (
                rng.choice(paths), rng.choices(["create", "edit", "delete", "rename"], [10, 85, 3, 2])[0],
                rng.randrange(50), rng.randrange(50), text(900), id_,
            )
            for id_ in range(1, calls + 1, 3)
        ),
    )  # fmt: skip
    connection.executemany(
        "insert into attachments (name, message_id, position, kind, media_type, size, content) "
        "values ('image', ?, 0, 'image', 'image/png', 2000, randomblob(2000))",
        ((id_,) for id_ in range(1, messages, 100)),
    )
    connection.execute(
        "insert into source_files (source, machine, root, path, size, mtime_ns, marker, "
        "parser_version, outcome) select source, 'laptop', '/home/user', '/home/user/' || "
        "session_id, 1, 1, '', 1, 'imported' from conversations"
    )
    connection.execute(
        "insert into conversation_files select c.id, f.id from conversations c "
        "join source_files f on f.path = '/home/user/' || c.session_id"
    )
    connection.execute(
        "insert into import_log (run_id, source, conversation_id, file_path, status, records, "
        "kept_records, ignored_records, unknown_records, malformed_records, created_at) "
        "select 1, source, id, '/home/user/' || session_id, "
        "case when id % 50 = 0 then 'error' else 'imported' end, 100, 60, 38, id % 30 = 0, "
        "id % 70 = 0, '2026-11-30T00:00:00.000Z' from conversations"
    )
    connection.execute(
        "insert into unknown_records (source_file_id, location, type, sample) "
        "select id, 'line 5', 'type-' || (id % 7), '{}' from source_files where id % 30 = 0"
    )
    connection.execute("commit")
    for step in (search.build_fts, ensure_late_indexes):
        connection.execute("begin")
        step(connection)
        connection.execute("commit")
    connection.execute("begin")
    usage.refresh(connection, [])
    connection.execute("pragma analysis_limit = 2000")
    connection.execute("analyze")
    connection.execute("commit")
    connection.close()


@dataclass(frozen=True)
class Page:
    """A page that was requested: its path after the database, and what came of it."""

    path: str
    milliseconds: float
    problem: str


def paths(connection: sqlite3.Connection) -> Iterator[str]:
    """Every default page: relative to the page of the database."""
    yield ""
    for name, table in (schema.TABLES | schema.VIEWS).items():
        yield f"/{name}"
        for facet in table.facets:
            for (value,) in connection.execute(
                f'select "{facet}" from "{name}" where "{facet}" is not null '
                f"group by 1 order by count(*) desc limit 2"
            ):
                yield f"/{name}?{facet}={value}"
    yield from (
        "/conversations?_sort=title",
        "/conversations?_sort_desc=message_count",
        "/messages?_sort=id",
        "/messages?_sort=timestamp",
        "/messages?kind=prompt&_sort=timestamp",
        "/messages?source=codex&kind=reply",
        "/messages?conversation_id=17",
        f"/messages?_search={COMMON}",
        f"/messages?_search={RARE}",
        "/tool_calls?_sort_desc=duration_ms",
        "/tool_calls?name=Bash&status=error",
        "/file_edits?_sort=path",
        "/transcript?conversation_id=17",
        "/transcript?conversation_id=17&state=active",
        "/file_history?path=/home/user/src/project-1/module_0.py",
        "/failed_tool_calls?name=Bash",
        "/prompts?conversation_id=17",
        "/conversations/17",
        "/messages/170",
        "/tool_calls/170",
        "/file_edits/17",
        "/projects/1",
        "/sources/codex",
    )
    values = {
        "words": COMMON,
        "part": "w1",
        "path": "module_7.py",
        "conversation_id": "17",
        "day": "2025-11-30",
    }
    for name, query in schema.QUERIES.items():
        names = re.findall(r":(\w+)", query.sql)
        yield f"/{name}?" + "&".join(f"{n}={values.get(n, '')}" for n in dict.fromkeys(names))


async def measure(path: Path, settings: dict[str, Any], immutable: bool = False) -> list[Page]:
    """Requests every page of the database at ``path``."""
    from datasette.app import Datasette

    files = {"immutables": [str(path)]} if immutable else {"files": [str(path)]}
    datasette = Datasette(**files, settings=settings)
    await datasette.invoke_startup()
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    base = f"/{path.stem}"
    wanted = ["/", *(base + suffix for suffix in paths(connection))]
    for table in ("conversations", "messages", "tool_calls", "file_edits", "import_log"):
        # the second page, as its own link says
        response = await datasette.client.get(f"{base}/{table}")
        link = re.search(r'href="[^"]*?(\?[^"]*_next=[^"]*)">Next page', response.text)
        if link:
            wanted.append(f"{base}/{table}{link[1].replace('&amp;', '&')}")
    connection.close()
    pages = []
    for url in wanted:
        started = time.perf_counter()
        response = await datasette.client.get(url, follow_redirects=True)
        took = (time.perf_counter() - started) * 1000
        problem = "" if response.status_code == 200 else f"status {response.status_code}"
        for sign in ("facets timed out", "SQL query took too long", "SQL Interrupted"):
            if sign in response.text:
                problem += f" {sign}: " + " ".join(
                    re.sub("<[^>]+>", "", response.text.split(sign)[1][:150]).split()
                )
        pages.append(Page(url, took, problem.strip()))
    return pages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--database", type=Path, help="use this file, built if it does not exist")
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--immutable", action="store_true")
    parser.add_argument("--setting", nargs=2, action="append", default=[])
    options = parser.parse_args()
    settings: dict[str, Any] = {
        name: {"on": True, "off": False}.get(value, value) for name, value in options.setting
    }
    with tempfile.TemporaryDirectory() as directory:
        path = options.database or Path(directory) / "crystal.db"
        if not path.exists():
            started = time.perf_counter()
            build(path, options.messages, options.calls)
            size = path.stat().st_size / 1e6
            print(f"built {size:,.0f} MB in {time.perf_counter() - started:,.0f} s")
        pages = asyncio.run(measure(path, settings, options.immutable))
    import datasette

    print(f"Datasette {datasette.__version__}, settings {settings or 'default'}")
    for page in sorted(pages, key=lambda page: -page.milliseconds):
        print(f"{page.milliseconds:8,.0f} ms  {page.path}  {page.problem}")
    failed = [page for page in pages if page.problem]
    print(f"{len(pages)} pages, {len(failed)} with a problem")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
