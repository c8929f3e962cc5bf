"""What an import costs, as ratios of one run: ``python benchmarks/import_cost.py [--home DIR]``.

The floor does the least that any importer in Python must do with the same files: decode every line,
put the text of messages and tool calls into two tables in one transaction, and build a word index of
the messages. It keeps no order of steps, resolves no copies, and forgets usage, edits, images and
whatever it does not know. Every case runs in a process of its own; CPU is user + system time of that
process, the best of ``--runs``. Without ``--home`` a synthetic home is made.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

WORDS = [
    "file",
    "function",
    "error",
    "test",
    "return",
    "value",
    "import",
    "class",
    "server",
    "query",
    "index",
    "table",
    "order",
]


def make_home(home: Path, sessions: int, turns: int) -> None:
    """A home directory with Claude Code and Codex sessions of ordinary shape and size."""
    rnd = random.Random(7)

    def prose(low: int, high: int) -> str:
        return " ".join(
            rnd.choice(WORDS) + str(rnd.randrange(999)) for _ in range(rnd.randrange(low, high))
        )

    def stamp(n: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_780_000_000 + n))

    for number in range(sessions):
        session = f"00000000-0000-4000-8000-{number:012d}"
        claude = home / f".claude/projects/-home-ana-shop{number % 9}"
        codex = home / f".codex/sessions/2026/05/{number % 28 + 1:02d}"
        claude.mkdir(parents=True, exist_ok=True)
        codex.mkdir(parents=True, exist_ok=True)
        base = {"sessionId": session, "cwd": f"/home/ana/shop{number % 9}", "version": "2.1.0"}
        with open(claude / f"{session}.jsonl", "wb") as file:
            parent = None
            for turn in range(turns):
                clock = number * 5000 + turn * 60
                for kind, message in (
                    ("user", {"role": "user", "content": prose(5, 60)}),
                    ("assistant", _assistant(session, turn, "thinking", prose(20, 200))),
                    ("assistant", _assistant(session, turn, "text", prose(10, 150))),
                    ("assistant", _assistant(session, turn, "tool_use", prose(5, 40))),
                    ("user", {"role": "user", "content": [{"type": "tool_result",
                     "tool_use_id": f"t{session}{turn}", "content": prose(20, 1500)}]}),
                ):  # fmt: skip
                    uuid = f"{session[:-12]}{rnd.getrandbits(48):012x}"
                    record = {"parentUuid": parent, "isSidechain": False, **base, "type": kind,
                              "message": message, "uuid": uuid, "timestamp": stamp(clock)}  # fmt: skip
                    file.write(orjson.dumps(record) + b"\n")
                    parent = uuid
        if number % 4:
            continue
        with open(codex / f"rollout-2026-05-01T00-00-00-{session}.jsonl", "wb") as file:
            lines: list[tuple[str, dict]] = [
                ("session_meta", {"id": session, "cwd": base["cwd"], "cli_version": "0.80.0"})
            ]
            for turn in range(turns):
                ask, answer = prose(5, 60), prose(10, 150)
                lines += [
                    ("response_item", _item("user", "input_text", ask)),
                    ("event_msg", {"type": "user_message", "message": ask}),
                    ("response_item", {"type": "function_call", "name": "shell_command",
                     "arguments": json.dumps({"command": prose(3, 20)}), "call_id": f"c{turn}"}),
                    ("response_item", {"type": "function_call_output", "call_id": f"c{turn}",
                     "output": "Exit code: 0\nWall time: 1 seconds\nOutput:\n" + prose(20, 1500)}),
                    ("event_msg", {"type": "agent_message", "message": answer}),
                    ("response_item", _item("assistant", "output_text", answer)),
                ]  # fmt: skip
            for n, (kind, payload) in enumerate(lines):
                file.write(
                    orjson.dumps(
                        {
                            "timestamp": stamp(number * 5000 + n * 10),
                            "type": kind,
                            "payload": payload,
                        }
                    )
                    + b"\n"
                )


def _assistant(session: str, turn: int, kind: str, text: str) -> dict:
    block: dict = {"type": kind, kind: text}
    if kind == "tool_use":
        block = {
            "type": kind,
            "id": f"t{session}{turn}",
            "name": "Bash",
            "input": {"command": text},
        }
    return {"id": f"m{session}{turn}", "role": "assistant", "model": "claude-x", "content": [block],
            "usage": {"input_tokens": 5, "output_tokens": 50}}  # fmt: skip


def _item(role: str, kind: str, text: str) -> dict:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def floor(home: Path, database: Path) -> None:
    """The least work: see the top of this file."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.executescript(
        "pragma journal_mode = wal; pragma synchronous = normal;"
        "create table messages (id integer primary key, conversation integer, role, time, content);"
        "create table tool_calls (id integer primary key, conversation integer, name, input, output)"
    )
    connection.execute("begin")
    files = sorted([*home.glob(".claude/projects/**/*.jsonl"), *home.glob(".codex/**/*.jsonl")])
    for number, path in enumerate(files):
        messages, calls = [], {}
        with open(path, "rb") as file:
            for line in file:
                record = orjson.loads(line)
                body = record.get("message") or record.get("payload") or {}
                content = body.get("content")
                when = record.get("timestamp")
                if body.get("type") in ("function_call", "custom_tool_call"):
                    given = body.get("arguments") or body.get("input")
                    calls[body.get("call_id")] = [number, body.get("name"), given, None]
                elif body.get("type") in ("function_call_output", "custom_tool_call_output"):
                    if body.get("call_id") in calls:
                        calls[body["call_id"]][3] = str(body.get("output"))
                elif isinstance(content, str):
                    messages.append((number, body.get("role"), when, content))
                elif isinstance(content, list):
                    for block in content:
                        kind = block.get("type")
                        if kind == "tool_use":
                            given = orjson.dumps(block["input"]).decode()
                            calls[block["id"]] = [number, block["name"], given, None]
                        elif kind == "tool_result":
                            if block["tool_use_id"] in calls:
                                output = block.get("content")
                                calls[block["tool_use_id"]][3] = (
                                    output if isinstance(output, str) else str(output)
                                )
                        elif block.get("text") or block.get("thinking"):
                            text = block.get("text") or block.get("thinking")
                            messages.append((number, body.get("role"), when, text))
        connection.executemany(
            "insert into messages (conversation, role, time, content) values (?, ?, ?, ?)", messages
        )
        connection.executemany(
            "insert into tool_calls (conversation, name, input, output) values (?, ?, ?, ?)",
            calls.values(),
        )
    for statement in (
        "create index m1 on messages (conversation)",
        "create index m2 on messages (time)",
        "create index t1 on tool_calls (conversation)",
        "create index t2 on tool_calls (name)",
        "create virtual table fts using fts5(content, content='messages', content_rowid='id')",
        "insert into fts(fts) values ('rebuild')",
        "commit",
        "pragma wal_checkpoint(truncate)",
    ):
        connection.execute(statement)
    connection.close()


def measure(command: list[str]) -> tuple[float, float]:
    """(CPU seconds, peak MB) of a command. POSIX only."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--home", type=Path, help="a home directory instead of a synthetic one")
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--floor", nargs=2, type=Path, metavar=("HOME", "DB"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.floor:
        floor(*options.floor)
        return
    work = Path(tempfile.mkdtemp(prefix="crystal-bench-"))
    try:
        home = options.home
        if home is None:
            home = work / "home"
            make_home(home, options.sessions, options.turns)
        files = [*home.glob(".claude/projects/**/*.jsonl"), *home.glob(".codex/**/*.jsonl")]
        size = sum(path.stat().st_size for path in files) / 1e6
        run = [sys.executable, "-m", "datasette_crystal"]
        cases: dict[str, list[tuple[float, float]]] = {}
        for n in range(options.runs):
            database = work / f"{n}.db"
            importing = [*run, "import", str(database), "--home", str(home), "-q"]
            flooring = [sys.executable, __file__, "--floor", str(home), str(work / f"floor{n}.db")]
            for name, command in (
                ("start of the command", [*run, "--help"]),
                ("floor", flooring),
                ("first import", importing),
                ("import of nothing new", importing),
            ):
                cases.setdefault(name, []).append(measure(command))
        print(f"{len(files)} files, {size:.0f} MB, best of {options.runs}\n")
        print("| case | CPU s | x floor | peak MB |\n|---|---|---|---|")
        best = {name: min(runs) for name, runs in cases.items()}
        for name, (cpu, peak) in best.items():
            print(f"| {name} | {cpu:.2f} | {cpu / best['floor'][0]:.2f} | {peak:.0f} |")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
