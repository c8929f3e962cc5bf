"""A whole conversation as data (``.json``) and as a text to read elsewhere (``.md``)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from ..text import first_line
from .blocks import IMAGE_TYPES, family_of_kind, label_of_kind
from .pages import in_thread
from .render import strip_ansi
from .urls import conversation_url, image_url

#: Messages that are read at a time, so that no query comes near Datasette's time limit.
_CHUNK = 500

_MESSAGES_SQL = """
select cm.position, cm.message_id, cm.uid, cm.state, cm.origin, m.role, m.kind, m.model, m.turn,
  m.timestamp, m.title, m.content, m.thinking, m.input_tokens, m.output_tokens,
  m.cache_read_tokens, m.cache_write_tokens, m.reasoning_tokens, m.vote
from conversation_messages cm join messages m on m.id = cm.message_id
where cm.conversation_id = :id and cm.position >= :position
order by cm.position limit :limit
"""
_CALLS_SQL = """
select t.message_id, t.position, t.id, t.name, t.title, t.status, t.exit_code, t.started_at,
  t.duration_ms, t.call_id, t.input, t.output, t.subagent_session_id
from json_each(:ids) as wanted cross join tool_calls t on t.message_id = wanted.value
order by t.message_id, t.position
"""
_EDITS_SQL = """
select e.message_id, e.position, e.path, e.action, e.lines_added, e.lines_removed, e.diff
from json_each(:ids) as wanted cross join file_edits e on e.message_id = wanted.value
order by e.id
"""
_ATTACHMENTS_SQL = """
select a.message_id, a.id, a.name, a.kind, a.media_type, a.size, a.sha256,
  a.content is not null as kept
from json_each(:ids) as wanted cross join attachments a on a.message_id = wanted.value
order by a.message_id, a.position
"""
_CHILDREN_SQL = """
select source, session_id, title, kind from conversations
where parent_id = :id order by started_at, id
"""

_CONVERSATION_KEYS = (
    "source", "session_id", "title", "title_origin", "kind", "model", "started_at", "ended_at",
    "project", "project_path", "cwd", "git_branch", "machine", "tool_version", "prompt_count",
    "message_count", "tool_call_count", "error_count", "inherited_count", "input_tokens",
    "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd",
    "cost_origin", "fidelity", "archived", "imported_at", "updated_at", "missing_since", "id",
)  # fmt: skip


async def _messages(db: Any, id: int) -> AsyncIterator[dict[str, Any]]:
    """The messages of a conversation in order, each with its calls, edits and attachments."""
    position = -1
    while True:
        rows = (
            await db.execute(_MESSAGES_SQL, {"id": id, "position": position + 1, "limit": _CHUNK})
        ).rows
        ids = {"ids": json.dumps([row["message_id"] for row in rows])}
        calls: dict[tuple[int, int], dict[str, Any]] = {}
        by_message: dict[int, list[dict[str, Any]]] = {}
        for row in await db.execute(_CALLS_SQL, ids):
            call = dict(row) | {"edits": []}
            message_id = call.pop("message_id")
            calls[message_id, call["position"]] = call
            by_message.setdefault(message_id, []).append(call)
        for row in await db.execute(_EDITS_SQL, ids):
            owner = calls.get((row["message_id"], row["position"]))
            if owner is not None:
                edit = dict(row)
                del edit["message_id"], edit["position"]
                owner["edits"].append(edit)
        attachments: dict[int, list[dict[str, Any]]] = {}
        for row in await db.execute(_ATTACHMENTS_SQL, ids):
            attachment = dict(row)
            attachments.setdefault(attachment.pop("message_id"), []).append(attachment)
        for row in rows:
            yield dict(row) | {
                "tool_calls": by_message.get(row["message_id"], []),
                "attachments": attachments.get(row["message_id"], []),
            }
        if len(rows) < _CHUNK:
            return
        position = rows[-1]["position"]


async def as_json(datasette: Any, db: Any, row: Mapping[str, Any]) -> str:
    """The conversation, everything of it, as JSON. Tool inputs are values, not text."""
    row = dict(row)

    def link(source: str, session_id: str) -> str:
        return conversation_url(datasette, db.name, source, session_id, format=".json")

    head = {key: row[key] for key in _CONVERSATION_KEYS}
    head["parent"] = None
    if row["parent_session"]:
        head["parent"] = {
            "source": row["parent_source"],
            "session_id": row["parent_session"],
            "title": row["parent_title"],
            "url": link(row["parent_source"], row["parent_session"]),
        }
    head["children"] = [
        dict(child) | {"url": link(child["source"], child["session_id"])}
        for child in await db.execute(_CHILDREN_SQL, {"id": row["id"]})
    ]
    parts = []
    async for message in _messages(db, row["id"]):
        for call in message["tool_calls"]:
            call["input"] = _value(call["input"])
        for attachment in message["attachments"]:
            shown = attachment["kept"] and attachment["media_type"] in IMAGE_TYPES
            attachment["url"] = image_url(datasette, db.name, attachment["id"]) if shown else None
            attachment["kept"] = bool(attachment["kept"])
        parts.append(message)

    def written() -> str:
        return json.dumps({"conversation": head, "messages": parts}, ensure_ascii=False)

    return await in_thread(datasette, written)


def _value(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


async def as_markdown(db: Any, row: Mapping[str, Any]) -> str:
    """The conversation as Markdown: prompts are headings, tool calls are short blocks with their
    input, their output cut to what one reads."""
    row = dict(row)
    parts = [*_head(row)]
    async for message in _messages(db, row["id"]):
        parts.extend(_message(message))
    return "\n\n".join(parts) + "\n"


def _head(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {_inline(row['title'])}"
    facts = (
        ("Tool", row["source_name"]),
        ("Project", row["project_path"] or row["project"]),
        ("Branch", row["git_branch"]),
        ("Model", row["model"]),
        ("Began", row["started_at"]),
        ("Ended", row["ended_at"]),
        ("Session", row["session_id"]),
    )
    yield "\n".join(f"- {name}: {_inline(value)}" for name, value in facts if value)


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    label = label_of_kind(message["kind"])
    family = family_of_kind(message["kind"])
    remarks = [message["timestamp"]] if message["timestamp"] else []
    if message["state"] != "active":
        remarks.append(message["state"])
    if message["origin"] != "own":
        remarks.append("taken over from the parent")
    if family != "model":
        yield f"## {label}" + (f" ({', '.join(remarks)})" if remarks else "")
    elif message["content"] or message["thinking"]:
        yield f"### {label}" + (f" ({', '.join(remarks)})" if remarks else "")
    if message["thinking"]:
        yield "*Thinking:*"
        yield _quoted(message["thinking"])
    if message["content"]:
        if family == "harness" or message["kind"] == "shell":
            yield _fenced(strip_ansi(message["content"]))
        else:
            yield message["content"].strip("\n")
    for attachment in message["attachments"]:
        yield f"*Attached: {_inline(attachment['name'])} ({_inline(attachment['kind'])})*"
    for call in message["tool_calls"]:
        yield from _call(call)


def _call(call: Mapping[str, Any]) -> Iterator[str]:
    remarks = []
    if call["status"] not in ("ok", "unknown"):
        remarks.append(call["status"])
    if call["exit_code"]:
        remarks.append(f"exit code {call['exit_code']}")
    yield f"**{_inline(call['title'])}**" + (f" ({', '.join(remarks)})" if remarks else "")
    diffs = [edit for edit in call["edits"] if edit["diff"]]
    for edit in diffs:
        yield f"{_inline(edit['path'])} ({edit['action']}):"
        yield _fenced(edit["diff"], "diff")
    if not diffs and call["input"]:
        value = _value(call["input"])
        command = None
        if isinstance(value, dict):
            command = value.get("command", value.get("cmd"))
        if isinstance(command, str):
            yield _fenced(command, "bash")
        elif isinstance(value, str):
            yield _fenced(value)
        elif value:
            yield _fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")
    if call["output"] and not (diffs and call["status"] == "ok"):
        output = strip_ansi(call["output"]).strip("\n")
        if len(output) > 6_000:
            left_out = len(output) - 5_000
            output = f"{output[:4_000]}\n… {left_out:,} characters left out …\n{output[-1_000:]}"
        yield _fenced(output)


_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def _inline(text: str) -> str:
    """One line of text that means nothing in Markdown."""
    return _SPECIAL.sub(r"\\\1", first_line(str(text), 300))


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip("\n").split("\n"))
