"""Lets datasette-crystal read the chats of Notetaker: one JSON file each, in ~/.notetaker/chats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from datasette_crystal.adapters import Adapter
from datasette_crystal.hookspecs import hookimpl
from datasette_crystal.model import (
    ConversationMeta,
    Environment,
    FileRecords,
    Parsed,
    ParsedConversation,
    ParsedMessage,
    ParsedToolCall,
    ScanProblem,
    SourceFile,
    SourceInfo,
    Tokens,
)
from datasette_crystal.text import count, iso_time, json_text


class Notetaker:
    name = "notetaker"
    display_name = "Notetaker"
    parser_version = 1

    def detect(self, env: Environment) -> SourceInfo | None:
        roots = _roots(env)
        if not roots:
            return None
        return SourceInfo(self.name, roots, sum(1 for root in roots for _ in _chats(root)))

    def scan(self, env: Environment) -> Iterator[ConversationMeta | ScanProblem]:
        seen: set[str] = set()
        for root in _roots(env):
            for path in _chats(root):
                if path.stem in seen:  # the same chat below two roots
                    continue
                seen.add(path.stem)
                try:
                    file = SourceFile.at(path, root)
                except OSError as error:
                    yield ScanProblem(self.name, str(path), str(error), str(root))
                else:
                    yield ConversationMeta(self.name, path.stem, (file,))

    def parse(self, meta: ConversationMeta) -> Parsed:
        path = meta.files[0].path
        # ValueError, also for deep nesting, becomes a row in the import log
        chat = orjson.loads(Path(path).read_bytes())
        if not isinstance(chat, dict) or not isinstance(chat.get("entries"), list):
            raise ValueError("not a chat of Notetaker")
        records = FileRecords(path)
        conversation = ParsedConversation(
            self.name,
            meta.session_id,
            title=_text(chat, "title"),
            title_origin="tool",
            project_path=_text(chat, "folder"),
            tool_version=_text(chat, "version"),
        )
        uids: set[str] = set()
        for number, entry in enumerate(chat["entries"]):
            records.records += 1
            if not isinstance(entry, dict):
                records.malformed += 1
                continue
            who = entry.get("who")
            if who == "star":  # a mark that the reader set, no text
                records.ignored += 1
                continue
            if who not in ("me", "quill"):
                records.add_unknown(f"entry {number}", str(who), json_text(entry))
                continue
            uid = _text(entry, "id") or f"#{number}"
            while uid in uids:
                uid += "+"
            uids.add(uid)
            conversation.messages.append(_message(entry, uid, number))
            records.kept += 1
        return Parsed([conversation], [records])


def _message(entry: dict[str, Any], uid: str, number: int) -> ParsedMessage:
    mine = entry.get("who") == "me"
    message = ParsedMessage(
        uid,
        "user" if mine else "assistant",
        "prompt" if mine else "reply",
        content=_text(entry, "text") or "",
        thinking=_text(entry, "thoughts"),
        timestamp=iso_time(entry.get("at")),
        model=_text(entry, "model"),
        record=number,
    )
    words = entry.get("tokens")
    if isinstance(words, dict):
        message.tokens = Tokens(count(words.get("in")), count(words.get("out")))
    tools = entry.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            call = ParsedToolCall(_text(tool, "name") or "tool", json_text(tool.get("input")))
            call.output = _text(tool, "output")
            if isinstance(tool.get("ok"), bool):
                call.status = "ok" if tool["ok"] else "error"
            message.tool_calls.append(call)
    return message


def _text(record: dict[str, Any], key: str) -> str | None:
    """The text at ``key``; anything that is no text is ``None``."""
    value = record.get(key)
    return value if isinstance(value, str) and value else None


def _roots(env: Environment) -> list[Path]:
    home = env.directory_variable("NOTETAKER_HOME") or env.home / ".notetaker"
    return [path for path in (home, *env.roots.get("notetaker", ())) if path.is_dir()]


def _chats(root: Path) -> Iterator[Path]:
    yield from sorted((root / "chats").glob("*.json"))


@hookimpl
def register_adapters(register: Callable[[Adapter], None]) -> None:
    register(Notetaker())
