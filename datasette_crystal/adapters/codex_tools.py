"""What Codex's tools answered, which files they changed, and the images that came with it.

Facts about the shapes: Codex 0.20 to 0.171, recorded and real session files.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from ..model import Attachment, FileEdit
from ..text import count, json_text
from .jsonl import decode

#: How a plain answer begins that the harness gave instead of the tool (compared in lower case).
_FAILURES = (
    "unsupported call",
    "unsupported custom tool call",
    "failed to parse",
    "failed in sandbox",
    "failed for",
    "failed:",
    "failure:",
    "apply_patch verification failed",
    "apply_patch handler received",
    "execution error",
    "exec_command failed",
    "write_stdin failed",
    "unknown process id",
    "unknown function",
    "unable to locate image",
    "unable to process image",
    "unable to read image",
    "error:",
    "err:",
    "tool call error",
    "tool error",
    "codex could not",
    "collab spawn failed",
    "collab tool failed",
    "agent with id",
    "sandbox error",
)
_DENIALS = (
    "exec command rejected by user",
    "patch rejected by user",
    "rejected by user",
    "rejected(",
    "user rejected",
    "user cancelled mcp tool call",
    "approval denied",
    "command rejected",
)
_INTERRUPTIONS = ("aborted by user", "aborted", "interrupted by user", "command aborted")
#: An output's header (exit code, wall time) ends within this many characters.
_HEADER = 800
_HEADER_STARTS = ("Exit code: ", "Chunk ID: ", "Wall time", "Script ", "Total output lines")


@dataclass(slots=True)
class Outcome:
    """What a tool call gave: ``text`` as the model got it, and what could be read out of it."""

    text: str
    status: str = "ok"
    exit_code: int | None = None
    duration_ms: int | None = None
    images: list[Attachment] = field(default_factory=list)


def read_output(value: object) -> Outcome:
    """The ``output`` of a function_call_output or custom_tool_call_output. It was seen as

    - ``{"output": ..., "metadata": {"exit_code", "duration_seconds"}}`` in a string (0.20 - 0.80),
    - ``Exit code: 0\\nWall time: 0.1 seconds\\nOutput:\\n...`` (0.80 - 0.171),
    - ``Chunk ID: ...\\nWall time: ...\\nProcess exited with code 0\\n...Output:\\n...`` (0.104 on),
    - a list of ``input_text`` and ``input_image`` parts (``exec``, view_image; 0.144 on),
    - any other text, which is the answer itself.
    """
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, list):
        return _read_parts(value)
    if isinstance(value, dict):
        outcome = read_output(value.get("content", value.get("output", "")))
        if value.get("success") is False and outcome.status == "ok":
            outcome.status = "error"
        return outcome
    return Outcome("" if value is None else json_text(value))


def _read_text(text: str) -> Outcome:
    first = text[:1]
    if first == "{" and text.startswith(('{"output":', '{"metadata":')):
        outcome = _read_json_output(text)
        if outcome is not None:
            return outcome
    elif text.startswith(_HEADER_STARTS):
        return _read_header(text)
    return Outcome(text, _plain_status(text))


def _read_json_output(text: str) -> Outcome | None:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        values, damaged = decode(text.encode("utf-8", "replace"))
        if damaged or len(values) != 1:
            return None
        value = values[0]
    if not isinstance(value, dict) or not isinstance(value.get("output"), str):
        return None
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return Outcome(value["output"], _plain_status(value["output"]))
    exit_code = whole_number(metadata.get("exit_code"))
    return Outcome(
        value["output"],
        "error" if exit_code else "ok",
        exit_code,
        _milliseconds(metadata.get("duration_seconds")),
    )


def _read_header(text: str) -> Outcome:
    end = text.find("Output:\n", 0, _HEADER)
    outcome = Outcome(text)
    for line in text[: end if end >= 0 else _HEADER].splitlines():
        if line.startswith("Exit code: "):
            outcome.exit_code = _leading_number(line[11:])
        elif line.startswith("Process exited with code "):
            outcome.exit_code = _leading_number(line[25:])
        elif line.startswith("Wall time"):
            words = line[9:].lstrip(": ").split(" ", 1)
            try:
                outcome.duration_ms = _milliseconds(float(words[0]))
            except ValueError:
                pass
        elif line.startswith(("Script failed", "Script error", "Script terminated")):
            outcome.status = "error"
    if outcome.exit_code:
        outcome.status = "error"
    return outcome


def _read_parts(parts: list[Any]) -> Outcome:
    texts: list[str] = []
    images: list[Attachment] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            if isinstance(text, str):
                texts.append(text)
            elif (image := image_of(part)) is not None:
                images.append(image)
                texts.append("[image]")
    if not texts:
        return Outcome("", images=images)
    outcome = _read_text(texts[0])
    if len(texts) > 1:
        outcome.text = "\n".join(text.rstrip("\n") for text in texts)
    outcome.images = images
    return outcome


def _plain_status(text: str) -> str:
    start = text[:80].lstrip().lower()
    if start.startswith(_INTERRUPTIONS):
        return "interrupted"
    if start.startswith(_DENIALS):
        return "denied"
    return "error" if start.startswith(_FAILURES) else "ok"


def whole_number(value: object) -> int | None:
    """``value`` where it is an integer that a database can hold (an exit code), else ``None``."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return value
    return None


def _leading_number(text: str) -> int | None:
    digits = text.split(maxsplit=1)[0] if text.strip() else ""
    try:
        return whole_number(int(digits[:12]))
    except ValueError:
        return None


def _milliseconds(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return count(round(seconds * 1000)) if 0 <= seconds < 1e9 else None


def duration_ms(value: object) -> int | None:
    """A duration as events give it: ``{"secs": 0, "nanos": 6830000}``."""
    if not isinstance(value, dict):
        return None
    seconds, nanos = value.get("secs"), value.get("nanos")
    if whole_number(seconds) is None or whole_number(nanos) is None:
        return None
    return _milliseconds(int(seconds) + int(nanos) / 1e9)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- images


def image_of(part: dict[Any, Any], name: str = "") -> Attachment | None:
    """The image that a content part holds (``input_image``, ``image``), or ``None``."""
    if part.get("type") not in ("input_image", "image", "output_image"):
        return None
    url = part.get("image_url", part.get("url"))
    if isinstance(url, dict):
        url = url.get("url")
    return image_at(url, name) if isinstance(url, str) else None


def image_at(url: str, name: str = "") -> Attachment:
    """An image by its URL; a ``data:`` URL is decoded, any other is kept as the name."""
    if not url.startswith("data:"):
        return Attachment("image", name or url[:500])
    header, comma, data = url[5:].partition(",")
    media_type = header.split(";", 1)[0] or None
    content: bytes | None = None
    if comma and ";base64" in header:
        try:
            content = base64.b64decode(data)
        except (binascii.Error, ValueError):
            content = None
    return Attachment("image", name, media_type, content)


# --------------------------------------------------------------------------- file edits


def patch_in(value: object) -> str | None:
    """The patch in a tool's decoded input: of apply_patch itself (text, or ``{"input": text}``) or
    of a shell command that pipes it there (``apply_patch <<'EOF'``)."""
    if isinstance(value, str):
        start = value.find("*** Begin Patch")
        if start < 0:
            return None
        before = value[:start]
        if not before.strip() or "apply_patch" in before or "applypatch" in before:
            return value[start:]
        return None
    if isinstance(value, dict):
        for key in ("input", "patch", "command", "cmd"):
            if (found := patch_in(value.get(key))) is not None:
                return found
    elif isinstance(value, list):
        for word in value:
            if isinstance(word, str) and (found := patch_in(word)) is not None:
                return found
    return None


def edits_of_patch(patch: str) -> list[FileEdit]:
    """The file edits of an apply_patch text. Its hunks have no line numbers."""
    edits: list[FileEdit] = []
    body: list[str] = []
    current: FileEdit | None = None

    def finish() -> None:
        if current is not None:
            _finish_edit(current, body)
            edits.append(current)
        body.clear()

    for line in patch.split("\n"):
        line = line.removesuffix("\r")
        if not line.startswith("*** "):
            if current is not None:
                body.append(line)
            continue
        if line.startswith("*** End Patch"):
            break
        if line.startswith("*** Move to: ") and current is not None:
            current.path, current.action = line[13:].strip(), "rename"
            continue
        action = _patch_action(line)
        if action is not None:
            finish()
            current = FileEdit(line.split(": ", 1)[1].strip(), action)
    finish()
    return edits


def _patch_action(line: str) -> str | None:
    if line.startswith("*** Update File: "):
        return "edit"
    if line.startswith("*** Add File: "):
        return "create"
    return "delete" if line.startswith("*** Delete File: ") else None


def _finish_edit(edit: FileEdit, body: list[str]) -> None:
    while body and not body[-1]:
        body.pop()
    if edit.action == "delete":
        return
    edit.lines_added, edit.lines_removed = _counted(body)
    if edit.action == "create":
        body.insert(0, f"@@ -0,0 +1,{edit.lines_added} @@")
    if body:
        edit.diff = "\n".join(body)


def _counted(lines: list[str]) -> tuple[int, int]:
    added = sum(1 for line in lines if line.startswith("+"))
    return added, sum(1 for line in lines if line.startswith("-"))


def edits_of_changes(changes: object) -> list[FileEdit]:
    """The file edits of a FileChange item (0.148 on) or a patch_apply_end event: ``{path: {"type":
    "add" | "update" | "delete", "content" | "unified_diff", "move_path"}}``; older events wrote
    ``{path: {"update": {...}}}``."""
    if not isinstance(changes, dict):
        return []
    return [edit for path, change in changes.items() for edit in _edits_of_change(path, change)]


def _edits_of_change(path: str, change: object) -> Iterator[FileEdit]:
    if not isinstance(change, dict) or not change:
        return
    kind = change.get("type")
    if not isinstance(kind, str):
        kind = next(iter(change))
        inner = change[kind]
        change = inner if isinstance(inner, dict) else {}
    content, diff, target = (
        part if isinstance(part, str) else None
        for part in (change.get("content"), change.get("unified_diff"), change.get("move_path"))
    )
    if kind == "update":
        lines = diff.splitlines() if diff else []
        edit = FileEdit(target or path, "rename" if target else "edit", diff=diff)
        if diff is not None:
            edit.lines_added, edit.lines_removed = _counted(lines)
        yield edit
    elif kind in ("add", "delete"):
        edit = FileEdit(path, "create" if kind == "add" else "delete")
        if content is not None:
            lines = content.splitlines()
            if kind == "add":
                edit.lines_added, edit.lines_removed = len(lines), 0
                head, sign = f"@@ -0,0 +1,{len(lines)} @@", "+"
            else:
                edit.lines_added, edit.lines_removed = 0, len(lines)
                head, sign = f"@@ -1,{len(lines)} +0,0 @@", "-"
            edit.diff = "\n".join([head, *(sign + line for line in lines)])
        yield edit
