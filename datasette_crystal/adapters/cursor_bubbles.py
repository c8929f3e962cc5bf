"""What Cursor calls a bubble, and how bubbles become messages.

A bubble is a prompt (``type`` 1) or a piece of what the agent did (2): a text, a thought, a tool call
with its result, an error. The shapes are those of real databases from November 2024 to July 2026; a
field is taken for what it is by its own form, never by the ``_v`` of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from ..model import Attachment, FileEdit, Messages, ParsedMessage, ParsedToolCall, Tokens
from ..text import clean, count, iso_time, json_text
from .jsonl import decode
from .vscode_dirs import path_from_uri

KEPT, IGNORED, UNKNOWN = "kept", "ignored", "unknown"

_PERSON = (1, "user")  # 2024's chats write "user" and "ai"
_MODEL = (2, "ai")
#: ``capabilityType`` of the marker that stands where the history was summarised.
_COMPACTION = 22
_STATUSES = {
    "completed": "ok",
    "success": "ok",
    "error": "error",
    "failed": "error",
    "cancelled": "interrupted",
    "canceled": "interrupted",
    "aborted": "interrupted",
    "loading": "pending",
    "pending": "pending",
    "running": "pending",
}
_EDIT_TOOLS = frozenset(
    (
        "edit_file",
        "edit_file_v2",
        "search_replace",
        "write",
        "write_file",
        "create_file",
        "multiedit",
        "multi_edit",
        "edit",
        "strreplace",
        "str_replace",
        "reapply",
        "edit_notebook",
        "editnotebook",
    )
)
_DELETE_TOOLS = frozenset(("delete_file", "delete"))
_PATH_KEYS = (
    "relativeWorkspacePath",
    "target_file",
    "targetFile",
    "file_path",
    "filePath",
    "path",
    "target_notebook",
)
#: Beside these, a result of ``{"output": …}`` holds nothing but the text.
_BESIDE_OUTPUT = frozenset(
    ("output", "contents", "rejected", "exitCode", "exitCodeV2", "notInterrupted", "endedReason")
)


def as_dict(value: Any) -> dict[str, Any]:
    """``value`` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """``value`` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """``value`` where it is text, cleaned, else nothing."""
    return clean(value) if isinstance(value, str) else ""


def decode_object(value: bytes | None) -> dict[str, Any] | None:
    """The object that a stored value is; ``None`` for anything else."""
    if not value:
        return None
    try:
        decoded = orjson.loads(value)
    except orjson.JSONDecodeError:
        pass
    else:
        return decoded if isinstance(decoded, dict) else None
    values, damaged = decode(value)
    if damaged or not values or not isinstance(values[0], dict):
        return None
    return values[0]


def bubble_time(bubble: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str | None:
    """When a bubble was made, or ``None``. ``createdAt`` exists since about September 2025, later in
    the list of headers too; before, one bubble a turn has ``timingInfo``. Its ``clientStartTime``
    counts from when the window was opened and is no time."""
    created = bubble.get("createdAt")
    if created is not None:
        time = iso_time(created)
        if time is not None:
            return time
    timing = as_dict(bubble.get("timingInfo"))
    for value in (
        header.get("createdAt") if header is not None else None,
        timing.get("clientRpcSendTime"),
        timing.get("clientEndTime"),
    ):
        if value is not None:
            time = iso_time(value)
            if time is not None:
                return time
    return None


def model_name(value: Any) -> str | None:
    """A model's name; ``default`` is Cursor's word for choosing by itself."""
    return clean(value) if isinstance(value, str) and value and value != "default" else None


class Steps:
    """Appends bubbles to ``messages``, in the order in which they come. A thought, the text after it
    and the tool calls after that become one message; so does a tool call that follows an assistant's
    message. ``person_kind`` is what a prompt is (``task`` in a subagent's conversation);
    ``agents`` leads from the id of a tool call to the conversation of the subagent it started."""

    def __init__(
        self,
        messages: Messages,
        *,
        person_kind: str = "prompt",
        shared_uids: bool = False,
        agents: Mapping[str, str] | None = None,
    ) -> None:
        self.messages = messages
        self.model: str | None = None
        self._person_kind = person_kind
        self._shared = shared_uids
        self._agents = agents or {}
        self._uids: dict[str, int] = {}
        self._row: ParsedMessage | None = None
        self._asked: str | None = None
        self._spent: Tokens | None = None

    def end_row(self) -> None:
        """What follows does not join what came before."""
        self._row = None

    def add(
        self,
        bubble: dict[str, Any],
        uid: str,
        record: int,
        *,
        header: Mapping[str, Any] | None = None,
        state: str = "active",
        tool: Any = None,
    ) -> str:
        """Adds one bubble; ``tool`` is its tool call where that is stored apart. Says whether it
        was kept, holds nothing, or is of an unknown type."""
        type_ = bubble.get("type")
        if isinstance(type_, bool):
            return UNKNOWN
        if type_ in _MODEL:
            return self._add_model(bubble, uid, record, header, state, tool)
        if type_ in _PERSON:
            return self._add_person(bubble, uid, record, header, state)
        return UNKNOWN

    def _add_person(
        self,
        bubble: dict[str, Any],
        uid: str,
        record: int,
        header: Mapping[str, Any] | None,
        state: str,
    ) -> str:
        content = as_text(bubble.get("text")) or as_text(bubble.get("rawText"))
        if not content.strip():
            content = _rich_text(bubble.get("richText"))
        attachments = _attachments(bubble)
        # without words or a picture it is the input box: the open file stands there by itself
        if not content.strip() and all(item.kind != "image" for item in attachments):
            return IGNORED
        self._asked = model_name(as_dict(bubble.get("modelInfo")).get("modelName"))
        self.model = self._asked or self.model
        message = self._append(
            "user", self._person_kind, uid, bubble_time(bubble, header), record, state
        )
        message.content = content
        message.tokens = _tokens(bubble)
        message.attachments = attachments
        self.messages.grew(len(content))
        self._row = None
        return KEPT

    def _add_model(
        self,
        bubble: dict[str, Any],
        uid: str,
        record: int,
        header: Mapping[str, Any] | None,
        state: str,
        stored_tool: Any,
    ) -> str:
        text = as_text(bubble.get("text")) or as_text(bubble.get("rawText"))
        if not text or text.isspace():
            text = ""
        thinking = _thinking(bubble)
        time = bubble_time(bubble, header)
        tool = bubble.get("toolFormerData")
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
            tool = stored_tool
        call = self._call(tool, time) if isinstance(tool, dict) else None
        details = bubble.get("errorDetails")
        error = _error(details) if details else ""
        tokens = _tokens(bubble)
        if not (text or thinking or call or error):
            if tokens is None:
                return IGNORED
            # Seen in 2025: the text between two calls was one line break, and had cost its tokens.
            if self._row is not None:
                self._row.tokens = _sum(self._row.tokens, tokens)
            else:
                self._spent = _sum(self._spent, tokens)
            return KEPT
        if bubble.get("capabilityType") == _COMPACTION and not call:
            if text:
                row = self._append("system", "summary", uid, time, record, state)
                row.content = text
                self.messages.grew(len(text))
            self._row = None
            return KEPT if text else IGNORED
        if text or thinking or call:
            row = self._row_for(text, thinking, uid, time, record, state)
            if text:
                row.content = text
            if thinking:
                row.thinking = thinking
            if call is not None:
                row.tool_calls.append(call)
                self.messages.grew(len(call.input or "") + len(call.output or ""))
            if tokens is not None or self._spent is not None:
                row.tokens = _sum(_sum(row.tokens, self._spent), tokens)
                self._spent = None
            info = bubble.get("modelInfo")
            model = model_name(info.get("modelName")) if isinstance(info, dict) else None
            row.model = model or model_name(bubble.get("modelType")) or row.model or self._asked
            self.model = row.model or self.model
            self.messages.grew(len(text) + len(thinking))
            uid += ":error"
        if error:
            self._append("system", "error", uid, time, record, state).content = error
            self._row = None
        return KEPT

    def _row_for(
        self, text: str, thinking: str, uid: str, time: str | None, record: int, state: str
    ) -> ParsedMessage:
        """The message that this bubble joins, or a new one."""
        row = self._row
        if row is not None and (
            not (text or thinking)
            or (not thinking and not row.content and not row.tool_calls and row.thinking)
        ):
            row.timestamp = row.timestamp or time
            return row
        self._row = self._append("assistant", "reply", uid, time, record, state)
        return self._row

    def _append(
        self, role: str, kind: str, uid: str, time: str | None, record: int, state: str
    ) -> ParsedMessage:
        seen = self._uids.get(uid, 0)
        self._uids[uid] = seen + 1
        message = ParsedMessage(
            uid=f"{uid}#{seen + 1}" if seen else uid,
            role=role,
            kind=kind,
            timestamp=time,
            state=state,
            shared_uid=self._shared and not seen and _is_uuid(uid),
            record=record,
        )
        self.messages.append(message)
        return message

    def _call(self, tool: dict[str, Any], time: str | None) -> ParsedToolCall | None:
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            return None
        call_id = as_text(tool.get("toolCallId")) or None
        input_, arguments = _input(tool)
        result_text = tool.get("result")
        output, exit_code = _output(result_text)
        error = tool.get("error")
        status = tool.get("status")
        status = _STATUSES.get(status, "") if isinstance(status, str) else ""
        if not status:
            status = "error" if error else "ok" if output else "unknown"
        if tool.get("userDecision") == "rejected" and status != "error":
            status = "denied"
        if error and output is None:
            output = _error_text(error)
        call = ParsedToolCall(
            name=clean(name),
            input=input_,
            output=output,
            call_id=call_id,
            status=status,
            exit_code=exit_code,
            started_at=time,
        )
        call.edits = _edits(name, tool, arguments, result_text, status)
        if call_id is not None and call_id in self._agents:
            call.subagent_session_id = self._agents[call_id]
        elif name.startswith("task") and isinstance(result_text, str):
            agent = as_dict(_json(result_text)).get("agentId")
            call.subagent_session_id = as_text(agent) or None
        return call


# --------------------------------------------------------------------------- pieces of a bubble


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and text.count("-") == 4


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None


def _thinking(bubble: Mapping[str, Any]) -> str:
    value = bubble.get("thinking")
    blocks = bubble.get("allThinkingBlocks")
    if not value and not blocks:
        return ""
    if isinstance(value, dict):
        value = value.get("text")
    text = as_text(value)
    if not text.strip():
        parts = []
        for block in as_list(blocks):
            part = block if isinstance(block, str) else None
            if isinstance(block, dict):
                part = block.get("thinking") or block.get("text")
            if isinstance(part, str) and part.strip():
                parts.append(clean(part))
        text = "\n\n".join(parts)
    return text if text.strip() else ""


def _tokens(bubble: Mapping[str, Any]) -> Tokens | None:
    """Zeros mean that nothing was counted: in 2026 they stand everywhere."""
    counted = bubble.get("tokenCount")
    if not isinstance(counted, dict):
        return None
    input_, output = counted.get("inputTokens"), counted.get("outputTokens")
    if not input_ and not output:
        return None
    input_, output = count(input_), count(output)
    if not input_ and not output:
        return None
    return Tokens(input=input_, output=output)


def _sum(first: Tokens | None, second: Tokens | None) -> Tokens | None:
    if first is None or second is None:
        return first or second
    return Tokens(
        input=(first.input or 0) + (second.input or 0),
        output=(first.output or 0) + (second.output or 0),
    )


def _error(details: Any) -> str:
    """What the user was told of an error: ``errorDetails`` has a message, and since 2026 a title and
    a detail further in (its stack trace repeats both)."""
    if isinstance(details, str):
        return clean(details).strip()
    details = as_dict(details)
    inner = as_dict(as_dict(details.get("error")).get("details"))
    message = as_text(details.get("message")).strip() or as_text(details.get("error")).strip()
    title = as_text(inner.get("title")).strip()
    text = message or as_text(inner.get("detail")).strip()
    if title and title != text:
        text = f"{title}\n\n{text}" if text else title
    return text


def _error_text(error: Any) -> str | None:
    if not isinstance(error, str):
        return json_text(error)
    if error.startswith("{"):
        value = as_dict(_json(error))
        for key in ("modelVisibleErrorMessage", "clientVisibleErrorMessage"):
            if isinstance(value.get(key), str) and value[key]:
                return clean(value[key])
    return clean(error)


def _rich_text(value: Any) -> str:
    """The text of what was typed into Cursor's editor (Lexical, as JSON text)."""
    if isinstance(value, str) and value.startswith("{"):
        value = _json(value)
    root = as_dict(as_dict(value).get("root"))
    blocks = []
    for block in as_list(root.get("children"))[:10_000]:
        pieces: list[str] = []
        stack = [block]
        while stack and len(pieces) < 100_000:
            node = as_dict(stack.pop())
            if isinstance(node.get("text"), str):
                pieces.append(clean(node["text"]))
            elif node.get("type") == "linebreak":
                pieces.append("\n")
            stack.extend(reversed(as_list(node.get("children"))))
        blocks.append("".join(pieces))
    return "\n".join(blocks).strip()


def _attachments(bubble: Mapping[str, Any]) -> list[Attachment]:
    """What came with a prompt. Until 2024 it hangs on the bubble itself, later on its context."""
    found: list[Attachment] = []
    names: set[tuple[str, str]] = set()

    def add(kind: str, name: str) -> None:
        if (kind, name) not in names or not name:
            names.add((kind, name))
            found.append(Attachment(kind, name))

    for holder in (as_dict(bubble.get("context")), bubble):
        for image in as_list(holder.get("selectedImages")):
            add("image", _name(image))
        for file in as_list(holder.get("fileSelections")):
            add("file", _name(file))
        for folder in as_list(holder.get("folderSelections")):
            add("folder", _name(folder))
        for selection in as_list(holder.get("selections")):
            add("selection", _name(selection))
        for link in as_list(holder.get("externalLinks")):
            add("link", _name(link))
    if not any(attachment.kind == "image" for attachment in found):
        for image in as_list(bubble.get("images")):
            add("image", _name(image))
    return found


def _name(value: Any) -> str:
    """A name for something attached: its path or address."""
    if isinstance(value, str):
        # an image may be here as a data URL
        return clean(value) if len(value) < 2_000 and not value.startswith("data:") else ""
    value = as_dict(value)
    for key in ("path", "url", "relativePath", "name"):
        if isinstance(value.get(key), str) and value[key]:
            return clean(value[key])[:2_000]
    return (file_path(value.get("uri")) or "")[:2_000]


def file_path(uri: Any) -> str | None:
    """The path of a URI as Cursor stores it. ``fsPath`` is the path itself; ``external`` is
    percent-encoded."""
    if isinstance(uri, dict) and isinstance(uri.get("fsPath"), str) and uri["fsPath"]:
        return clean(uri["fsPath"])
    try:
        return path_from_uri(uri)
    except ValueError:
        return None


# --------------------------------------------------------------------------- tool calls


def _input(tool: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The input of a call as JSON text, and decoded. ``rawArgs`` is what the model wrote; ``params``
    what Cursor made of it, up to thirty times longer, with contents of files."""
    fallback: str | None = None
    for key in ("rawArgs", "params"):
        value = tool.get(key)
        if isinstance(value, str):
            if not value.strip() or value == "{}":
                continue
            decoded = _json(value)
            if decoded is None:  # cut off while it was streamed
                fallback = fallback or json_text(clean(value))
                continue
            return clean(value), as_dict(decoded)
        if value not in (None, {}, []):
            return json_text(value), as_dict(value)
    return fallback, {}


def _output(result: Any) -> tuple[str | None, int | None]:
    """The result of a call as text, and an exit code where it has one. A result is JSON text; one
    that is only a wrapper of the text itself is unwrapped."""
    if result is None or result == "":
        return None, None
    if not isinstance(result, str):
        return json_text(result), None
    if result.startswith(('{"output":', '{"contents":')):
        value = as_dict(_json(result))
        text = value.get("output", value.get("contents"))
        if isinstance(text, str):
            code = value.get("exitCodeV2", value.get("exitCode"))
            exit_code = code if isinstance(code, int) and not isinstance(code, bool) else None
            if all(key in _BESIDE_OUTPUT or not other for key, other in value.items()):
                return clean(text), exit_code
            return clean(result), exit_code
    return clean(result), None


def _edits(
    name: str, tool: Mapping[str, Any], arguments: dict[str, Any], result: Any, status: str
) -> list[FileEdit]:
    tool_name = name.lower()
    deletes = tool_name in _DELETE_TOOLS
    if not deletes and tool_name not in _EDIT_TOOLS:
        return []
    if status not in ("ok", "pending", "unknown"):
        return []
    path = edited_path(arguments)
    if path is None and isinstance(tool.get("params"), str):
        path = edited_path(as_dict(_json(tool["params"])))
    if path is None:
        return []
    edit = FileEdit(path, "delete" if deletes else "edit")
    if isinstance(result, str) and '"diffString"' in result:
        diff = as_dict(as_dict(_json(result)).get("diff"))
        _add_diff(edit, as_list(diff.get("chunks")))
    return [edit]


def edited_path(arguments: Mapping[str, Any]) -> str | None:
    """The file that a tool's arguments name."""
    for key in _PATH_KEYS:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return clean(value)
    return None


def edit_of_call(name: str, arguments: Mapping[str, Any]) -> list[FileEdit]:
    """The change of a file that a call asks for, going by the tool's name and arguments."""
    tool_name = name.lower()
    if tool_name not in _EDIT_TOOLS and tool_name not in _DELETE_TOOLS:
        return []
    path = edited_path(arguments)
    if path is None:
        return []
    return [FileEdit(path, "delete" if tool_name in _DELETE_TOOLS else "edit")]


def _add_diff(edit: FileEdit, chunks: list[Any]) -> None:
    """Chunks have ``diffString`` with lines of ``+ text``, ``- text`` and two spaces."""
    pieces: list[str] = []
    added = removed = 0
    for chunk in chunks:
        chunk = as_dict(chunk)
        text = chunk.get("diffString")
        if not isinstance(text, str):
            continue
        lines = clean(text).split("\n")
        if all(len(line) < 2 or line[1] == " " for line in lines):
            lines = [line[:1] + line[2:] for line in lines]
        added += sum(1 for line in lines if line[:1] == "+")
        removed += sum(1 for line in lines if line[:1] == "-")
        numbers = [
            count(chunk.get(key)) for key in ("oldStart", "oldLines", "newStart", "newLines")
        ]
        if None not in numbers:
            pieces.append("@@ -{},{} +{},{} @@".format(*numbers))
        pieces.extend(lines)
    if pieces:
        edit.diff = "\n".join(pieces)
        edit.lines_added, edit.lines_removed = added, removed
