"""How a message of Trae becomes a message of ours.

In chat mode the words stand in ``content``. In builder and SOLO mode ``content`` is empty, and
``agentTaskContent`` holds a ``proposal`` (text), ``proposalReasoningContent`` (thinking) and
``guideline.planItems``: steps, each with a thought and the tool that it used. The last one is called
``finish`` (its thought is the final answer); later builds call it ``ResponseToUser``
(``params.summary``). The readers of these shapes that exist do not agree with each other, and the
files that they saw are not public, so every shape is taken, and each text once.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import orjson

from ..model import Attachment, FileEdit, FileRecords, Messages, ParsedMessage, ParsedToolCall
from ..text import clean, first_line, iso_time, json_text
from .vscode_dirs import path_from_uri

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "agent": "assistant",
    "system": "system",
}
_FINISH = ("finish", "ResponseToUser")
_CUT_OFF = frozenset(
    ("canceled", "cancelled", "aborted", "interrupted", "stopped", "user_canceled")
)
_STATUSES = {
    "success": "ok",
    "succeeded": "ok",
    "completed": "ok",
    "finished": "ok",
    "done": "ok",
    "failed": "error",
    "failure": "error",
    "error": "error",
    "skipped": "denied",
    "rejected": "denied",
    "declined": "denied",
    "denied": "denied",
    "canceled": "interrupted",
    "cancelled": "interrupted",
    "aborted": "interrupted",
    "interrupted": "interrupted",
    "running": "pending",
    "in_progress": "pending",
    "pending": "pending",
    "unconfirmed": "pending",
}
_EDIT_ACTIONS = {
    "edit_file": "edit",
    "edit_file_fast_apply": "edit",
    "edit_file_search_replace": "edit",
    "update_file": "edit",
    "search_replace": "edit",
    "SearchReplace": "edit",
    "write_to_file": "edit",
    "write_file": "edit",
    "Write": "edit",
    "Edit": "edit",
    "create_file": "create",
    "delete_file": "delete",
    "DeleteFile": "delete",
}
_PATH_KEYS = ("file_path", "filePath", "target_file", "targetFile", "path", "file")
_INPUT_KEYS = ("params", "arguments", "args", "input", "toolParams")
_OUTPUT_KEYS = ("result", "toolResult", "output", "observation")
#: A result of these and a text holds nothing but the text.
_BESIDE_TEXT = frozenset(("status", "exit_code", "exitCode", "success", "type"))
_TEXT_KEYS = ("output", "content", "text", "stdout", "message")
_MODEL_NUMBER = re.compile(r"\d+_-_")
_MAX_IMAGE = 32 * 1024 * 1024


def as_dict(value: Any) -> dict[str, Any]:
    """``value`` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """``value`` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """``value`` where it is text that is not blank, cleaned, else nothing."""
    return clean(value) if isinstance(value, str) and value.strip() else ""


def model_name(value: Any) -> str | None:
    """The name of a model from text (``1_-_gemini-3-flash``: the number is a menu's) or from
    ``modelInfo``."""
    if isinstance(value, dict):
        for key in ("display_model_name", "displayName", "config_name", "model_name", "model"):
            if as_text(value.get(key)):
                return model_name(value[key])
        return None
    name = as_text(value).strip()
    match = _MODEL_NUMBER.match(name)
    return (name[match.end() :] if match else name) or None


def is_message(value: Any) -> bool:
    """Whether this is a message by its structure: it says who speaks, and what."""
    if not isinstance(value, dict) or _role(value) is None:
        return False
    return any(name in value for name in ("content", "agentTaskContent", "query"))


def _role(message: dict[str, Any]) -> str | None:
    role = message.get("role")
    return _ROLES.get(role) if isinstance(role, str) else None


def ordered(messages: list[Any]) -> list[tuple[int, Any]]:
    """(place in the list, message) in the order of the conversation: by ``turnIndex`` when every
    message has one, those of one turn as they stand, else as all of them stand. Times do not tell:
    an answer's may be earlier than its question's."""
    numbered = list(enumerate(messages))
    turns: dict[int, int] = {}
    for place, message in numbered:
        if isinstance(message, dict):
            turn = message.get("turnIndex")
            if isinstance(turn, bool) or not isinstance(turn, int):
                return numbered
            turns[place] = turn
    if len(turns) == len(numbered):
        numbered.sort(key=lambda item: turns[item[0]])
    return numbered


def add_messages(messages: list[Any], into: Messages, records: FileRecords) -> str | None:
    """Appends the messages of a session and counts each of them. Their uid is their place in the
    list: ``turnId`` names a turn and ``agentMessageId`` may be missing or shared. Returns the name
    of the model that answered last."""
    model: str | None = None
    for place, value in ordered(messages):
        records.records += 1
        if not isinstance(value, dict):
            records.malformed += 1
            continue
        role = _role(value)
        if role is None:
            kind = value.get("role")
            names = f"{kind!r:.60}" if isinstance(kind, str | int | None) else type(kind).__name__
            records.add_unknown(f"message {place}", f"message of role {names}", shape(value))
            continue
        message = _message(value, role, place)
        if message is None:
            records.ignored += 1
            continue
        records.kept += 1
        model = message.model or model
        into.append(message)
        into.grew(
            sum(len(call.input or "") + len(call.output or "") for call in message.tool_calls)
        )
    return model


def shape(value: Any) -> str:
    """The field names and types of an object. What an unknown record holds may be secret."""
    if not isinstance(value, dict):
        return type(value).__name__
    return ", ".join(
        f"{clean(str(name))[:40]}: {type(part).__name__}" for name, part in list(value.items())[:60]
    )


def _message(value: dict[str, Any], role: str, place: int) -> ParsedMessage | None:
    """``None`` for a message without anything in it."""
    kind = {"user": "prompt", "assistant": "reply", "system": "context"}[role]
    content = _content(value)
    message = ParsedMessage(f"{place}", role, kind, content, record=place)
    if role == "assistant":
        _add_task(message, value)
        message.model = model_name(value.get("modelInfo")) or model_name(value.get("model"))
        status = value.get("status")
        if isinstance(status, str) and status.lower() in _CUT_OFF:
            message.kind = "partial"
            for call in message.tool_calls:
                if call.status == "pending":
                    call.status = "interrupted"
    else:
        message.attachments = attachments(value)
    if not (message.content or message.thinking or message.tool_calls or message.attachments):
        return None
    message.timestamp = iso_time(value.get("timestamp")) or iso_time(value.get("createdAt"))
    return message


def _content(value: dict[str, Any]) -> str:
    """The text of ``content``; of blocks, those of ``query`` before those of ``content``, which
    may mirror it."""
    content = value.get("content")
    if isinstance(content, str):
        return as_text(content)
    return _blocks(value.get("query")) or _blocks(content)


def _blocks(blocks: Any) -> str:
    if isinstance(blocks, dict):
        blocks = [blocks]
    parts = []
    for block in as_list(blocks):
        if isinstance(block, str):
            parts.append(as_text(block))
            continue
        block = as_dict(block)
        for text in (
            block.get("text"),
            block.get("text_content"),
            block.get("content"),
            as_dict(block.get("data")).get("content"),
        ):
            if as_text(text):
                parts.append(as_text(text))
                break
    return "\n".join(part for part in parts if part)


# --------------------------------------------------------------------------- the agent's work


def _task(value: Any) -> dict[str, Any] | str:
    """``agentTaskContent`` may be an object, the same as JSON text, or plain text."""
    if isinstance(value, str):
        if value.lstrip().startswith("{"):
            try:
                decoded = orjson.loads(value)
            except (orjson.JSONDecodeError, UnicodeEncodeError):
                return as_text(value)
            if isinstance(decoded, dict) and not _TASK_FIELDS.isdisjoint(decoded):
                return decoded
        return as_text(value)
    return as_dict(value)


_TASK_FIELDS = frozenset(("proposal", "proposalReasoningContent", "guideline", "planItems"))


def _add_task(message: ParsedMessage, value: dict[str, Any]) -> None:
    """Text, thinking and tool calls of an assistant's message."""
    task = _task(value.get("agentTaskContent"))
    texts = [message.content]
    thoughts = [as_text(value.get("reasoningContent"))]
    # What is shown instead of an answer where there is none, the most telling first.
    others: list[list[str]] = [[], [], []]
    if isinstance(task, str):
        others.append([task])
    else:
        texts.append(as_text(task.get("proposal")))
        thoughts.append(as_text(task.get("proposalReasoningContent")))
        guideline = as_dict(task.get("guideline"))
        guiding = as_text(guideline.get("thought"))
        others[0].append(guiding)
        for step in as_list(guideline.get("planItems")) or as_list(task.get("planItems")):
            step = as_dict(step)
            answer = _answer(step)
            thoughts.append(as_text(step.get("reasoningContent")))
            if answer is not None:
                texts.append(answer)
                continue
            text, thought = as_text(step.get("content")), as_text(step.get("thought"))
            others[1].append(text)
            others[2].append(thought)
            thoughts += [thought, text]
            call = _call(step)
            if call is not None:
                message.tool_calls.append(call)
        thoughts.append(guiding)
    shown = set(texts)
    message.content = "\n\n".join(_each_once(texts))
    if not message.content:
        for found in others:
            if any(found):
                separator = "\n" if found is others[1] else "\n\n"
                message.content = separator.join(text for text in found if text)
                shown.update(found)
                break
    elif isinstance(task, str):
        thoughts.append(task)
    thinking = (text for text in _each_once(thoughts) if text not in shown)
    message.thinking = "\n\n".join(thinking) or None


def _each_once(texts: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for text in texts:
        if text and text not in seen:
            seen.add(text)
            yield text


def _tool(step: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a step's tool, and the object that holds its input and result."""
    info = as_dict(step.get("toolCallInfo")) or as_dict(step.get("toolCall"))
    name = as_text(info.get("name")) or as_text(info.get("toolName"))
    if name:
        return name.strip(), info
    return (as_text(step.get("toolName")) or as_text(step.get("tool"))).strip(), step


def _answer(step: dict[str, Any]) -> str | None:
    """The final answer where the step is one. A subagent's, or one that is not shown, is not."""
    name, holder = _tool(step)
    if name not in _FINISH or step.get("hide") is True or step.get("parentAgentRunIds"):
        return None
    params: Any = _first(holder, _INPUT_KEYS)
    if isinstance(params, str):
        try:
            params = orjson.loads(params)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            params = {"summary": params}
    summary = as_text(as_dict(params).get("summary"))
    thought = as_text(step.get("thought"))
    if name == "finish":
        return thought or summary or as_text(step.get("content"))
    return summary or thought or as_text(step.get("content"))


def _first(holder: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        value = holder.get(name)
        if value is not None and value != "":
            return value
    return None


def _call(step: dict[str, Any]) -> ParsedToolCall | None:
    name, holder = _tool(step)
    if not name:
        return None
    input_ = _first(holder, _INPUT_KEYS)
    if input_ is None and holder is not step:
        input_ = _first(step, _INPUT_KEYS)
    result = _first(holder, _OUTPUT_KEYS)
    if result is None and holder is not step:
        result = _first(step, _OUTPUT_KEYS)
    output, exit_code = _output(result)
    status = _status(as_dict(result).get("status"), holder.get("status"), step.get("status"))
    error = as_text(_first(holder, ("error", "errorMessage")))
    if not status:
        if error or as_dict(result).get("success") is False or exit_code:
            status = "error"
        else:
            status = "ok" if output is not None else "unknown"
    call_id = holder.get("id") or step.get("toolCallId")
    input_text, arguments = _input(input_)
    call = ParsedToolCall(
        clean(name),
        input_text,
        output if output is not None else error or None,
        clean(call_id) if isinstance(call_id, str) and call_id else None,
        status,
        exit_code,
        iso_time(step.get("startTime")) or iso_time(step.get("createdAt")),
    )
    thought = as_text(step.get("thought"))
    if input_text is None and thought:
        call.title = first_line(f"{call.name}: {first_line(thought)}")
    action = _EDIT_ACTIONS.get(name)
    path = next((as_text(arguments[key]) for key in _PATH_KEYS if as_text(arguments.get(key))), "")
    if action and path and status in ("ok", "unknown"):
        call.edits.append(FileEdit(path, action))
    return call


def _status(*values: Any) -> str:
    for value in values:
        if isinstance(value, str) and value.lower() in _STATUSES:
            return _STATUSES[value.lower()]
    return ""


def _input(value: Any) -> tuple[str | None, dict[str, Any]]:
    """A call's input as JSON text, and as an object where it is one."""
    if value is None:
        return None, {}
    if isinstance(value, str):
        try:
            decoded = orjson.loads(value)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return json_text(clean(value)), {}
        if isinstance(decoded, dict | list):
            return json_text(decoded), as_dict(decoded)
        return json_text(clean(value)), {}
    return json_text(value), as_dict(value)


def _output(result: Any) -> tuple[str | None, int | None]:
    """A call's result as text, and its exit code."""
    if result is None or isinstance(result, bool):
        return None, None
    if isinstance(result, str):
        return clean(result), None
    if not isinstance(result, dict):
        return json_text(result), None
    code = _first(result, ("exit_code", "exitCode"))
    if type(code) is not int or not -(2**31) <= code < 2**32:
        code = None
    rest = result.keys() - _BESIDE_TEXT
    if not rest:
        return None, code
    if len(rest) == 1 and (name := next(iter(rest))) in _TEXT_KEYS:
        value = result[name]
        if isinstance(value, str):
            return clean(value), code
    return json_text(result), code


# --------------------------------------------------------------------------- attachments


def attachments(value: dict[str, Any]) -> list[Attachment]:
    """Files and images that came with a prompt."""
    found: list[Attachment] = []
    for item in as_list(value.get("files")):
        name = _file_name(item)
        if name:
            found.append(Attachment("file", name))
    media = as_list(value.get("multiMedia"))
    for block in as_list(value.get("content")) + as_list(value.get("query")):
        if isinstance(block, dict) and block.get("type") in ("image", "image_url"):
            media = [*media, block]
    found += [attachment for item in media if (attachment := _image(item)) is not None]
    return found


def _file_name(item: Any) -> str:
    if isinstance(item, str):
        return first_line(clean(item), 500)
    item = as_dict(item)
    path = ""
    for key in ("file", "path", "filePath", "uri", "name"):
        path = as_text(item.get(key)) or path_from_uri(item.get(key)) or ""
        if path:
            break
    if not path:
        return ""
    start, end = item.get("start"), item.get("end")
    if type(start) is int and type(end) is int and 0 <= start <= end < 10**9:
        return f"{first_line(path, 500)}:{start}-{end}"
    return first_line(path, 500)


def _image(item: Any) -> Attachment | None:
    fields = as_dict(item)
    media_type = as_text(_first(fields, ("mimeType", "mediaType", "media_type"))) or None
    name, content = "", None
    for text in (item, *(fields.get(key) for key in ("name", "path", "url", "data", "image_url"))):
        text = as_dict(text).get("url") if isinstance(text, dict) else text
        if not isinstance(text, str) or not text:
            continue
        if text.startswith("data:"):
            kind, comma, data = text[5:].partition(";base64,")
            if comma and content is None and len(data) < _MAX_IMAGE:
                media_type = media_type or clean(kind)[:100] or None
                try:
                    content = base64.b64decode(data, validate=True)
                except (ValueError, binascii.Error):
                    content = None
        elif not name:
            name = first_line(clean(text), 500)
    if not (name or content or fields):
        return None
    return Attachment("image", name, media_type, content)
