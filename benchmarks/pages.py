"""How long do the pages of the plugin take on a large database, against Datasette's own?

Builds the database of ``table_pages.py`` (300,000 messages), serves it in this process, and requests
each page several times. What counts on any machine is the ratio to Datasette's own page of
conversations, and the number of queries, which must not grow with the database.

    python benchmarks/pages.py                        # build, measure, print a table
    python benchmarks/pages.py --database large.db    # keep the database for the next time
    python benchmarks/pages.py --messages 30000       # a tenth of it: the same number of queries
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

from table_pages import build

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--database", type=Path, help="use this file, built if it does not exist")
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--times", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = options.database or Path(directory) / "crystal.db"
        if not path.exists():
            build(path, options.messages, options.messages // 3)
        results = asyncio.run(measure(path, (YARDSTICK, *OVERVIEW), options.times))
    import datasette

    yardstick = results[0].median
    print(f"Datasette {datasette.__version__}, {path.name}")
    print("  median    best  ratio  queries     size  page")
    for result in results:
        print(
            f"{result.median:5.0f} ms {result.best:4.0f} ms {result.median / yardstick:6.2f} "
            f"{result.queries:8} {result.size:8,}  {result.path}"
            + ("" if result.status == 200 else f"  status {result.status}")
        )
    sys.exit(any(result.status != 200 for result in results))


if __name__ == "__main__":
    main()
