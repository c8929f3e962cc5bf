"""Writes the sample home directory: ``python -m datasette_crystal.samples.build DIRECTORY``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from . import stories
from .writers import Claude, Codex, Record, compact, dump, iso, utc, uuid4, uuid7


def files() -> dict[str, str]:
    """The text of every file of the sample home, by its path."""
    payments, payments_fork = stories.idempotent_payments()
    agents = stories.two_agents()
    sessions = [
        stories.off_by_a_cent(),
        stories.rate_limit(),
        stories.slow_night(),
        agents[0],
        stories.sinking_frog(),
        stories.spanish_search(),
        payments,
        payments_fork,
        stories.broken_save(),
    ]
    result = {}
    for session in sessions:
        result[f"{_project(session.cwd)}/{session.session}.jsonl"] = dump(session.records)
    for agent, kind, about, call in zip(
        agents[1:],
        ("Explore", "general-purpose"),
        ("List scheduled jobs", "Check for idempotence"),
        agents[0].call_ids(),
        strict=False,
    ):
        path = f"{_project(agent.cwd)}/{agent.session}/subagents/agent-{agent.agent}"
        result[path + ".jsonl"] = dump(agent.records)
        meta = {"agentType": kind, "description": about, "toolUseId": call, "spawnDepth": 1}
        result[path + ".meta.json"] = compact(meta)
    result[".claude/history.jsonl"] = dump([*_claude_history(sessions)])

    gaps, gaps_fork = stories.gaps()
    levels, check = stories.level_names()
    typos = stories.typos()
    threads = [stories.small_image(), gaps, gaps_fork, levels, check, stories.hooks()]
    for thread in threads:
        folder = f".codex/sessions/{thread.start:%Y/%m/%d}"
        result[f"{folder}/{thread.file_name}"] = dump(thread.records)
    result[f".codex/archived_sessions/{typos.file_name}"] = dump(typos.records)
    result[".codex/history.jsonl"] = dump([*_codex_history([*threads, typos])])
    names = [
        (gaps, "Find silent gauges"),
        (gaps, "Silent periods of gauges"),
        (levels, "Names for ten levels"),
        (threads[-1], "Load test for payment hooks"),
    ]
    result[".codex/session_index.jsonl"] = dump(
        [
            {"id": thread.id, "thread_name": name, "updated_at": iso(thread.clock)}
            for thread, name in names
        ]
    )
    return result


def _project(cwd: str) -> str:
    return ".claude/projects/" + re.sub(r"[^A-Za-z0-9]", "-", cwd)


def _claude_history(sessions: list[Claude]) -> list[Record]:
    """Every typed prompt; the first ones are of a session whose transcript is gone: Claude Code
    deletes them after 30 days."""
    gone = [
        ("2026-09-28 16:02", "How do I see which index a query of Postgres uses?"),
        ("2026-09-28 16:09", "/model opus"),
        ("2026-09-28 16:20", "And why does it ignore my index on lower(email)?"),
    ]
    lines: list[Record] = [
        {
            "display": text,
            "pastedContents": {},
            "timestamp": round(utc(time).timestamp() * 1000),
            "project": stories.API,
            "sessionId": uuid4("claude", "gone"),
        }
        for time, text in gone
    ]
    for session in sessions:
        lines += session.history
    return sorted(lines, key=lambda line: line["timestamp"])


def _codex_history(threads: list[Codex]) -> list[Record]:
    start = utc("2026-09-30 12:00")
    lines: list[Record] = [
        {
            "session_id": uuid7(start, "codex", "gone"),
            "ts": int(start.timestamp()),
            "text": "Explain the difference between a fixture and a factory in our tests",
        }
    ]
    for thread in threads:
        lines += thread.history
    return sorted(lines, key=lambda line: line["ts"])


def write(home: Path) -> None:
    """Writes the sample home into ``home``."""
    for name, text in files().items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
