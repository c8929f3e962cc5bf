"""How long do the pages of the plugin take on a large database, against Datasette's own?

Builds the databases of ``table_pages.py`` (1,000 and 10,000 conversations of 50 messages), adds a
conversation of 100 messages and one of 10,000 with Markdown, code, edits and tool output, serves
them in this process, and requests each page several times. What counts on any machine is the ratio
to Datasette's own page of conversations, and the number of queries, which must not grow with the
database.

    python benchmarks/pages.py                        # build, measure, print a table for each size
    python benchmarks/pages.py --conversations 300    # one database of this size
    python benchmarks/pages.py --keep DIRECTORY       # keep the databases for the next time
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from table_pages import COMMON, RARE, build

from datasette_crystal.model import Messages, ParsedConversation, ParsedMessage, ParsedToolCall
from datasette_crystal.store import Store, close_at_rest, open_for_writing

#: What everything is compared with: Datasette's own list of conversations.
YARDSTICK = "/conversations?_nosuggest=1"
OVERVIEW = (
    "/-/crystal",
    "/-/crystal?by=project",
    "/-/crystal?by=model",
    "/-/crystal?days=30",
    "/-/crystal?days=90&source=codex",
    "/-/crystal?source=claude-code&by=model",
    "/-/crystal?project=7",
    "/-/crystal?from=2025-11-01&to=2025-11-01",
)
TABLES = (
    "/messages?_nosuggest=1&_facet=kind&_facet=source",
    "/tool_calls?_nosuggest=1&_facet=name&_facet=status",
)
SEARCH = (
    f"/-/crystal/search?q={RARE}",
    f"/-/crystal/search?q={COMMON}",
    f"/-/crystal/search?q={COMMON}&sort=new",
    f"/-/crystal/search?q={COMMON}&source=codex&role=assistant",
    '/-/crystal/search?q="w1+w2"',
    "/-/crystal/search?q=w12*",
    "/-/crystal/search?q=src/app.py",
    "/-/crystal/search?q=%E4%BF%AE",
)
#: The messages of the two conversations that are read.
SHORT, LONG = 100, 10_000


def conversation_paths() -> tuple[str, ...]:
    short, long = (f"/-/crystal/claude-code/of-{count}" for count in (SHORT, LONG))
    return (
        short,
        long,
        f"{long}?page=50",
        f"{long}?message=u{LONG // 2}",
        f"{long}?q=cart_5001",
        f"{long}?show=prompts",
        f"{long}?show=edits",
        f"{short}.md",
        f"{short}.json",
        f"{long}.md",
    )


_REPLY = """The total of `cart_{0}` ignores the discount. I changed **two** places:

1. `src/cart.py` adds up the totals of the lines
2. `tests/test_cart.py` names the case

```python
def total(lines: list[Line]) -> Decimal:
    return sum((line.price * line.count for line in lines), Decimal(0)) - {0}
```

| file | lines |
|---|---:|
| src/cart.py | {0} |
"""


def _message(number: int) -> ParsedMessage:
    """Every tenth is a prompt; the others are replies, of which each second calls a tool."""
    if number % 10 == 0:
        return ParsedMessage(
            uid=f"u{number}",
            role="user",
            kind="prompt",
            content=f"Mend the totals of cart {number}, 修复。",
        )
    message = ParsedMessage(
        uid=f"u{number}", role="assistant", kind="reply", content=_REPLY.format(number)
    )
    if number % 4 == 1:
        command = f'{{"command": "pytest -q tests/test_cart_{number}.py"}}'
        output = "\x1b[32m" + "tests/test_cart.py ....\n" * 40 + "\x1b[0m4 passed"
        message.tool_calls.append(
            ParsedToolCall(name="Bash", input=command, output=output, status="ok")
        )
    elif number % 4 == 3:
        edit = (
            '{"file_path": "/home/user/src/cart.py", "old_string": "a = 1", "new_string": "a = 2"}'
        )
        message.tool_calls.append(ParsedToolCall(name="Edit", input=edit, output="", status="ok"))
    return message


def add_conversations(path: Path) -> None:
    """The two conversations that are read, stored as an import stores them."""
    connection = open_for_writing(path)
    store = Store(connection, "laptop", lambda: "2026-11-30T12:00:00.000Z")
    with store.transaction():
        store.start_run("0", "UTC", "{}")
        for count in (SHORT, LONG):
            messages = Messages(_message(number) for number in range(count))
            store.store_conversation(
                ParsedConversation(
                    source="claude-code",
                    session_id=f"of-{count}",
                    messages=messages,
                    cwd="/home/user/src",
                    started_at="2025-11-02T10:00:00.000Z",
                )
            )
    store.finish()
    close_at_rest(connection)


@dataclass(frozen=True)
class Result:
    """A page: milliseconds (median and best), queries, and characters of the answer."""

    path: str
    status: int
    median: float
    best: float
    queries: int
    size: int


async def measure(database: Path, paths: tuple[str, ...], times: int) -> list[Result]:
    """Requests every path ``times`` times after one that does not count."""
    from datasette.app import Datasette
    from datasette.database import Database

    queries = 0
    execute = Database.execute

    async def counted(self: Any, *args: Any, **values: Any) -> Any:
        nonlocal queries
        queries += self.name == database.stem
        return await execute(self, *args, **values)

    Database.execute = counted
    try:
        datasette = Datasette([str(database)])
        await datasette.invoke_startup()
        results = []
        for path in paths:
            spent = []
            for number in range(times + 1):
                queries = 0
                started = time.perf_counter()
                response = await datasette.client.get(f"/{database.stem}{path}")
                if number:
                    spent.append((time.perf_counter() - started) * 1000)
            results.append(
                Result(
                    path,
                    response.status_code,
                    statistics.median(spent),
                    min(spent),
                    queries,
                    len(response.text),
                )
            )
        return results
    finally:
        Database.execute = execute


def show(path: Path, results: list[Result]) -> None:
    import datasette

    yardstick = results[0].median
    print(f"Datasette {datasette.__version__}, {path.stem}, {path.stat().st_size >> 20} MB")
    print("  median    best  ratio  queries     size  page")
    for result in results:
        print(
            f"{result.median:5.0f} ms {result.best:4.0f} ms {result.median / yardstick:6.2f} "
            f"{result.queries:8} {result.size:8,}  {result.path}"
            + ("" if result.status == 200 else f"  status {result.status}")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where databases are kept")
    parser.add_argument("--conversations", type=int, action="append", metavar="NUMBER")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", default="", help="only pages whose address has this text")
    options = parser.parse_args()
    pages = (*OVERVIEW, *TABLES, *SEARCH, *conversation_paths())
    wanted = (YARDSTICK, *(page for page in pages if options.only in page))
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or Path(temporary)
        for count in options.conversations or (1_000, 10_000):
            path = directory / f"crystal-{count}.db"
            if not path.exists():
                directory.mkdir(parents=True, exist_ok=True)
                build(path, count * 50, count * 50 // 3)
                add_conversations(path)
            results = asyncio.run(measure(path, wanted, options.times))
            show(path, results)
            failed |= any(result.status != 200 for result in results)
    sys.exit(failed)


if __name__ == "__main__":
    main()
