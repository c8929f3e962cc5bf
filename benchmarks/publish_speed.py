"""What publishing costs: ``python benchmarks/publish_speed.py [DB] [--jobs N]``.

CPU time of publishing all of a crystal database, or of the sample conversations where none is given,
against a floor: a plain copy of it (``vacuum into``), and reading every text of the copy once. Also MB
of text a second of CPU time, and the peak of memory of this process.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import tempfile
import time
from pathlib import Path

from datasette_crystal.cli import make_demo
from datasette_crystal.publish import COPIED, Options, publish


def cpu() -> float:
    """Seconds of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def floor(database: Path, copy: Path) -> int:
    """Copies a database, reads the copy, and returns the bytes of its texts."""
    source = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    source.execute("vacuum into ?", (str(copy),))
    source.close()
    connection = sqlite3.connect(copy)
    size = 0
    for table in COPIED:
        for row in connection.execute(f"select * from {table}"):
            size += sum(len(value) for value in row if isinstance(value, str))
    connection.close()
    return size


def measure(database: Path, directory: Path, jobs: int) -> None:
    start = cpu()
    size = floor(database, directory / "copy.db")
    least = cpu() - start
    start, clock = cpu(), time.monotonic()
    report = publish(database, directory / "out.db", None, Options(jobs=jobs))
    spent, clock = cpu() - start, time.monotonic() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{size / 1e6:.1f} MB of text; floor {least:.2f} s; publishing {spent:.2f} s "
        f"({spent / least:.0f} x floor, {size / 1e6 / spent:.1f} MB/s), "
        f"{clock:.1f} s of the clock with {jobs} processes, peak {peak:.0f} MB; "
        f"{sum(report.replaced.values()):,} replaced"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", nargs="?", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        database = arguments.database or Path(directory) / "demo.db"
        if not arguments.database:
            make_demo(database)
        measure(database, Path(directory), arguments.jobs)


if __name__ == "__main__":
    main()
