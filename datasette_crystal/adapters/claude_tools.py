"""What a Claude Code tool result says: output, status, file edits, answers.

A result is told twice: as the block that the model got (``tool_result``) and, in ``toolUseResult``
beside it, as the tool's own structured form. The block gives the output; the structured form gives
what the text does not say. Subagents of 2.1.332 write only the block.
"""

from __future__ import annotations

import binascii
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Attachment, FileEdit, ParsedToolCall
from ..text import clean, count, milliseconds_between

#: Tools that start a subagent (``Task`` up to 2.1.5x, ``Agent`` since).
AGENT_TOOLS = frozenset(("Task", "Agent"))
#: More of an outsourced tool output, or of an image, is not read.
MAX_OUTPUT = 16 * 1024 * 1024
MAX_ATTACHMENT = 64 * 1024 * 1024
#: A person's "no" when the record has no ``toolDenialKind`` (before 2.1.251).
_DENIED = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
)
_PERSISTED = "<persisted-output>"
_SAVED_TO = re.compile(r"saved to: *([^\r\n]{1,4096})")
_AGENT_ID = re.compile(r"\bagentId: ([\w-]{4,120})")
_EDIT_TOOLS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "Update"))


def plain(text: str) -> str:
    """``text`` without NUL (the decoder already took care of lone surrogates)."""
    return clean(text) if "\0" in text else text


# ------------------------------------------------------------------------------------ content


def block_text(block: dict[str, Any]) -> str | None:
    """The text of a content block of type ``text``, else ``None``."""
    text = block.get("text")
    return plain(text) if block.get("type") == "text" and isinstance(text, str) else None


def attachment_of(block: dict[str, Any], name: str = "") -> Attachment | None:
    """An ``image`` or ``document`` block with its bytes, where the source keeps them; ``None`` for
    any other block."""
    kind = block.get("type")
    if kind != "image" and kind != "document":
        return None
    source = block.get("source")
    title = block.get("title")
    if isinstance(title, str):
        name = plain(title)
    attachment = Attachment(kind, name)
    if not isinstance(source, dict):
        return attachment
    media_type = source.get("media_type")
    if isinstance(media_type, str):
        attachment.media_type = plain(media_type)
    data = source.get("data")
    if isinstance(data, str) and len(data) < MAX_ATTACHMENT:
        if source.get("type") == "text":
            attachment.content = data.encode("utf-8", "replace")
        else:
            try:
                attachment.content = binascii.a2b_base64(data)
            except (ValueError, UnicodeEncodeError):
                pass
    elif isinstance(source.get("url"), str) and not attachment.name:
        attachment.name = plain(source["url"])
    return attachment


def result_content(content: Any, attachments: list[Attachment]) -> str:
    """The output of a ``tool_result`` block as text. Images and documents in it are appended to
    ``attachments``; a short note stands in their place."""
    if isinstance(content, str):
        return plain(content)
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for block in content:
        if isinstance(block, str):
            parts.append(plain(block))
            continue
        if not isinstance(block, dict):
            continue
        text = block.get("text")
        if isinstance(text, str):
            parts.append(plain(text))
            continue
        attachment = attachment_of(block)
        if attachment is not None:
            attachments.append(attachment)
            parts.append(f"[{attachment.kind}]")
            continue
        for key in ("tool_name", "title", "url"):  # tool_reference, web_search_result
            if isinstance(block.get(key), str):
                parts.append(plain(block[key]))
                break
    return "\n".join(parts)


def outsourced_output(output: str, structured: Any, folder: Path) -> str | None:
    """The full text of an output that was too long for the transcript, or ``None``.

    The record then holds ``<persisted-output>`` with a preview and an absolute path of the machine
    that wrote it. Only the file name of that path is used, inside the session's own
    ``tool-results`` directory; links are not followed.
    """
    path: Any = structured.get("persistedOutputPath") if isinstance(structured, dict) else None
    if not isinstance(path, str):
        if not output.startswith(_PERSISTED):
            return None
        match = _SAVED_TO.search(output, 0, 8192)
        if match is None:
            return None
        path = match.group(1)
    name = re.split(r"[/\\]", path.strip())[-1]
    if not name or name in (".", "..") or "\0" in name or ":" in name:
        return None
    try:
        if stat.S_ISLNK(os.lstat(folder).st_mode):
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(folder / name, flags | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(MAX_OUTPUT + 1)
    except (OSError, ValueError):
        return None
    if b"\0" in data[:8192] and b"\0" in data[:64]:
        return None  # a picture or another binary
    text = clean(data[:MAX_OUTPUT].decode("utf-8", "replace"))
    if len(data) > MAX_OUTPUT:
        text += f"\n[only the first {MAX_OUTPUT} bytes were read]"
    return text if len(text) > 0 else None


# ------------------------------------------------------------------------------------ the call


def finish_call(
    call: ParsedToolCall,
    block: dict[str, Any],
    output: str,
    record: dict[str, Any],
    structured: Any,
    time: str | None,
) -> None:
    """Puts a result into ``call``: output, status, exit code, duration, file edits, subagent."""
    call.output = output
    failed = block.get("is_error") is True
    details = structured if isinstance(structured, dict) else None
    if (
        isinstance(record.get("toolDenialKind"), str)
        or output.startswith(_DENIED)
        or (failed and output.startswith("Permission to use ") and "denied" in output[:400])
    ):
        call.status = "denied"
    elif (details is not None and details.get("interrupted") is True) or (
        failed and "[Request interrupted by user" in output[:400]
    ):
        call.status = "interrupted"
    else:
        call.status = "error" if failed else "ok"
    if failed and output.startswith("Exit code "):
        call.exit_code = _number_at(output, 10)
    duration: int | None = None
    if details is not None:
        if (
            not failed
            and "stdout" in details
            and call.status == "ok"
            and not details.get("backgroundTaskId")
            and not details.get("returnCodeInterpretation")
        ):
            # a shell command that ends with another code is told as an error
            call.exit_code = 0
        duration = count(details.get("totalDurationMs"))
        if duration is None:
            duration = count(details.get("durationMs"))
        if duration is None and isinstance(details.get("durationSeconds"), int | float):
            duration = count(details["durationSeconds"] * 1000)
        agent = details.get("agentId")
        if isinstance(agent, str) and agent:
            call.subagent_session_id = "agent-" + plain(agent)
        if call.status == "ok":
            edit = _structured_edit(details)
            if edit is not None:
                call.edits.append(edit)
    if call.subagent_session_id is None and call.name in AGENT_TOOLS:
        match = _AGENT_ID.search(output[-4000:] if len(output) > 8000 else output)
        if match is not None:
            call.subagent_session_id = "agent-" + match.group(1)
    call.duration_ms = (
        duration if duration is not None else milliseconds_between(call.started_at, time)
    )


def wants_input_edits(call: ParsedToolCall) -> bool:
    """Whether the edits of a finished call can only be told from its input (subagents)."""
    return call.status == "ok" and not call.edits and call.name in _EDIT_TOOLS


def _number_at(text: str, position: int) -> int | None:
    end = position
    while end < len(text) and end < position + 6 and "0" <= text[end] <= "9":
        end += 1
    return int(text[position:end]) if end > position else None


def answers(structured: Any) -> Iterator[str]:
    """What a person answered to ``AskUserQuestion``: one text per question."""
    given = structured.get("answers") if isinstance(structured, dict) else None
    if not isinstance(given, dict):
        return
    for value in given.values():
        if isinstance(value, list):
            value = ", ".join(part for part in value if isinstance(part, str))
        if isinstance(value, str) and value.strip():
            yield plain(value)


# ------------------------------------------------------------------------------------ edits


def _structured_edit(details: dict[str, Any]) -> FileEdit | None:
    path = details.get("filePath")
    if isinstance(path, str) and "structuredPatch" in details:
        edit = FileEdit(plain(path), "create" if details.get("type") == "create" else "edit")
        content = details.get("content")
        if edit.action == "create" and isinstance(content, str):
            edit.diff, edit.lines_added, edit.lines_removed = replacement("", content)
        else:
            _read_patch(details["structuredPatch"], edit)
        return edit
    path = details.get("notebook_path")
    if isinstance(path, str):
        source = details.get("new_source")
        edit = FileEdit(plain(path), "edit")
        if isinstance(source, str):
            old = details.get("old_source")
            if details.get("edit_mode") == "insert" or isinstance(old, str):
                edit.diff, edit.lines_added, edit.lines_removed = replacement(
                    old if isinstance(old, str) else "", source
                )
        return edit
    return None


def _read_patch(patch: Any, edit: FileEdit) -> None:
    """Hunks ``{oldStart, oldLines, newStart, newLines, lines}`` as the text of a unified diff."""
    if not isinstance(patch, list):
        return
    parts: list[str] = []
    added = removed = 0
    for hunk in patch:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if not isinstance(lines, list):
            continue
        starts = [count(hunk.get(key)) or 0 for key in _HUNK_KEYS]
        parts.append("@@ -{},{} +{},{} @@".format(*starts))
        for line in lines:
            if not isinstance(line, str):
                continue
            if line[:1] == "+":
                added += 1
            elif line[:1] == "-":
                removed += 1
            parts.append(line)
    if parts:
        edit.diff = plain("\n".join(parts))
        edit.lines_added, edit.lines_removed = added, removed


_HUNK_KEYS = ("oldStart", "oldLines", "newStart", "newLines")


def replacement(old: str, new: str) -> tuple[str | None, int, int]:
    """A unified diff of one text replaced by another, with the lines added and removed. Lines that
    both begin or end with are left out; the numbers count from the replaced text, whose place in
    the file is not known. Takes time in proportion to the texts."""
    before, after = _lines(old), _lines(new)
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    gone = before[start : len(before) - end]
    come = after[start : len(after) - end]
    if not gone and not come:
        return None, 0, 0
    lines = [
        f"@@ -{start + 1 if before else 0},{len(gone)} +{start + 1 if after else 0},{len(come)} @@"
    ]
    lines.extend("-" + line for line in gone)
    lines.extend("+" + line for line in come)
    return plain("\n".join(lines)), len(come), len(gone)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def input_edits(name: str, given: Any, output: str) -> list[FileEdit]:
    """The edits that a successful call made, told from its decoded input."""
    if not isinstance(given, dict):
        return []
    path = given.get("file_path") or given.get("notebook_path")
    if not isinstance(path, str):
        return []
    edit = FileEdit(plain(path), "edit")
    if name == "Write":
        content = given.get("content")
        if output.startswith("File created") and isinstance(content, str):
            edit.action = "create"
            edit.diff, edit.lines_added, edit.lines_removed = replacement("", content)
        return [edit]
    if name == "NotebookEdit":
        return [edit]
    changes = given.get("edits") if name == "MultiEdit" else [given]
    diffs: list[str] = []
    added = removed = 0
    exact = True
    for change in changes if isinstance(changes, list) else ():
        if not isinstance(change, dict):
            continue
        old, new = change.get("old_string"), change.get("new_string")
        if isinstance(old, str) and isinstance(new, str):
            diff, plus, minus = replacement(old, new)
            if diff is not None:
                diffs.append(diff)
            added, removed = added + plus, removed + minus
            if change.get("replace_all") is True:
                exact = False  # how often is not told
            if not old:
                edit.action = "create" if output.startswith("File created") else edit.action
    if diffs:
        edit.diff = "\n".join(diffs)
        if exact:
            edit.lines_added, edit.lines_removed = added, removed
    return [edit]
