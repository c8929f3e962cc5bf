"""What looking for secrets costs: ``python benchmarks/scan_speed.py [DB] [--hostile]``.

MB of text a second (CPU time) over the messages, tool calls and diffs of a crystal database, or of
the sample conversations where none is given. ``--hostile`` also takes the time for 0.1 MB of every
text that the tests use to make the rules slow, and for 1 and 2 MB of the slowest.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from datasette_crystal.cli import make_demo
from datasette_crystal.secret_rules import find

COLUMNS = (
    ("messages", "content"),
    ("messages", "thinking"),
    ("tool_calls", "input"),
    ("tool_calls", "output"),
    ("file_edits", "diff"),
)


def texts(path: Path) -> Iterator[str]:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    for table, column in COLUMNS:
        rows = connection.execute(f"select {column} from {table} where {column} <> ''")
        yield from (text for (text,) in rows if isinstance(text, str))
    connection.close()


def seconds(text: str) -> float:
    start = time.process_time()
    find(text)
    return time.process_time() - start


def measure(path: Path) -> None:
    size = spent = number = findings = 0.0
    for text in texts(path):
        start = time.process_time()
        findings += len(find(text))
        spent += time.process_time() - start
        size += len(text.encode("utf-8", "replace"))
        number += 1
    print(f"{number:.0f} texts, {size / 1e6:.1f} MB, {findings:.0f} findings: ", end="")
    print(f"{spent:.1f} s, {size / 1e6 / spent:.1f} MB/s")


def hostile() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from test_secret_rules import adversarial

    short = adversarial(100_000)
    times = sorted(((seconds(text), unit) for unit, text in short.items()), reverse=True)
    print(f"\n{len(times)} texts of 0.1 MB: {sum(spent for spent, _ in times):.1f} s. The slowest:")
    print("repeated         0.1 MB    1 MB    2 MB  2 MB / 1 MB")
    long, longer = adversarial(1_000_000), adversarial(2_000_000)
    for spent, unit in times[:6]:
        once, twice = seconds(long[unit]), seconds(longer[unit])
        print(f"{unit[:14]!r:16} {spent:6.2f}  {once:6.2f}  {twice:6.2f}  {twice / once:11.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", nargs="?", type=Path)
    parser.add_argument("--hostile", action="store_true")
    arguments = parser.parse_args()
    if arguments.database:
        measure(arguments.database)
    else:
        with tempfile.TemporaryDirectory() as directory:
            make_demo(Path(directory) / "demo.db")
            measure(Path(directory) / "demo.db")
    if arguments.hostile:
        hostile()


if __name__ == "__main__":
    main()
