"""Writes the samples: ``python -m datasette_crystal.samples.build datasette_crystal/samples``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from . import editor_stories, stories
from .databases import Database
from .editor_writers import (
    ITEM_TABLE,
    Copilot,
    cursor_databases,
    storage_path,
    trae_database,
    workspace_json,
)
from .writers import Claude, Codex, Record, compact, dump, iso, utc, uuid4, uuid7


def files() -> dict[str, str]:
    """The text of every file of the sample home, by its path. (Its databases: :func:`databases`.)"""
    return {**_agents_files(), **_editors_files()}


def _agents_files() -> dict[str, str]:
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
        stories.forty_parsers(),
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


def _editors_files() -> dict[str, str]:
    result = {}
    for product, folders in (
        ("Code", (stories.GAME, stories.BOOK)),
        ("Cursor", (stories.TIDES, stories.API)),
        ("Trae", (stories.GAME,)),
    ):
        for folder in folders:
            result[f"{storage_path(product, folder)}/workspace.json"] = workspace_json(folder)
    for session in _copilot():
        result[_copilot_path(session)] = session.text()
    store, meta = editor_stories.release_notes().store()
    result[store.path.replace("store.db", "meta.json")] = meta
    chat, child = editor_stories.dead_code()
    transcripts = f"{chat.project}/agent-transcripts/{chat.chat}"
    result[f"{transcripts}/{chat.chat}.jsonl"] = dump(chat.transcript())
    result[f"{transcripts}/subagents/{child.chat}.jsonl"] = dump(child.transcript())
    thread = editor_stories.sprite_sheet()
    folder = f".trae/cli/sessions/{thread.start:%Y/%m/%d}"
    result[f"{folder}/{thread.file_name}"] = dump(thread.records)
    return result


def databases() -> list[Database]:
    """The databases of the sample home."""
    sessions = [session for session in _copilot() if session.cwd == stories.GAME]
    entries = {
        session.session: {
            "sessionId": session.session,
            "title": session.title,
            "lastMessageDate": session.now,
            "initialLocation": "panel",
            "isEmpty": False,
        }
        for session in sessions
    }
    build, chat, typed = editor_stories.water_sound()
    return [
        Database(
            f"{storage_path('Code', stories.GAME)}/state.vscdb",
            "code-moss-hop",
            {ITEM_TABLE: [("chat.ChatSessionStore.index", {"version": 1, "entries": entries})]},
        ),
        *cursor_databases([*editor_stories.tide_chart(), editor_stories.stock_alert()]),
        editor_stories.release_notes().store()[0],
        trae_database("Trae", stories.GAME, [build, chat], typed),
    ]


def _copilot() -> list[Copilot]:
    return [
        editor_stories.level_editor(),
        editor_stories.link_check(),
        editor_stories.empty_window(),
    ]


def _copilot_path(session: Copilot) -> str:
    folder = f"{storage_path('Code', session.cwd)}/chatSessions"
    if session.cwd == "/home/dev":
        folder = ".config/Code/User/globalStorage/emptyWindowChatSessions"
    return f"{folder}/{session.session}.{'jsonl' if session.log else 'json'}"


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


def write(samples: Path) -> None:
    """Writes what ships: the files into ``samples/home``, the databases as JSON into
    ``samples/databases``."""
    for name, text in files().items():
        path = samples / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    for database in databases():
        path = samples / "databases" / f"{database.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(database.text().encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
