"""Small helpers about times, titles and text that adapters and the store share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

import orjson

_PLAIN_TIME = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z"
)
_FRACTION = re.compile(r"\.(\d+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_OLDEST, _NEWEST = 1990, 2200


def iso_time(value: object) -> str | None:
    """A time as ISO 8601 UTC text with milliseconds: ``2026-11-30T21:12:43.109Z``.

    Takes ISO text with any offset (without one it is UTC) or a number: seconds since 1970, or
    milliseconds where it is too large for seconds. What is no time, or lies outside the years 1990
    to 2200, gives ``None``.
    """
    if isinstance(value, str):
        if len(value) == 24 and _PLAIN_TIME.fullmatch(value) and "1990" <= value[:4] < "2200":
            return value
        text = value.strip()
        if text[-1:] in ("Z", "z"):
            text = text[:-1] + "+00:00"
        # Python 3.10 takes fractions of 3 or 6 digits only
        text = _FRACTION.sub(lambda match: "." + match.group(1)[:6].ljust(6, "0"), text, count=1)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        try:
            moment = moment.astimezone(timezone.utc)
        except (OverflowError, ValueError):
            return None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value != value or not 0 < value < 1e14:
            return None
        seconds = value / 1000 if value > 1e11 else value
        moment = _EPOCH + timedelta(milliseconds=round(seconds * 1000))
    else:
        return None
    if not _OLDEST <= moment.year < _NEWEST:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def milliseconds_between(start: str | None, end: str | None) -> int | None:
    """Milliseconds from one :func:`iso_time` to another; ``None`` when one is missing or no time,
    or the second is earlier."""
    if not start or not end or end < start:
        return None
    try:
        first = datetime.fromisoformat(start[:-1])
        return round((datetime.fromisoformat(end[:-1]) - first).total_seconds() * 1000)
    except ValueError:
        return None


#: No model call had a trillion tokens; sums of what is less fit into SQLite's integers.
_MOST = 10**12


def count(value: object) -> int | None:
    """``value`` where it is a plausible count (a token number, a size), else ``None``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value == value and abs(value) < _MOST:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < _MOST else None


def clean(text: str) -> str:
    """Text that SQLite can hold and show: no lone surrogates, no NUL."""
    if "\0" in text:
        text = text.replace("\0", "\N{SYMBOL FOR NULL}")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_text(value: object) -> str:
    """``value`` as compact JSON text; what is nested a thousand levels deep becomes a remark."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        import json

        try:
            return clean(json.dumps(value, ensure_ascii=False, default=str))
        except RecursionError:
            return '"(nested too deeply to be written as JSON)"'


def json_start(value: object, limit: int = 2000) -> str:
    """The first ``limit`` characters of :func:`json_text`, without writing what follows: a record
    may be as large as memory allows."""
    return json_text(_shortened(value, limit, 0))[:limit]


def _shortened(value: object, limit: int, depth: int) -> object:
    # each item and each character makes at least one character of JSON
    if isinstance(value, str):
        return value[:limit]
    if depth > 200:
        return None
    if isinstance(value, list):
        return [_shortened(item, limit, depth + 1) for item in value[:limit]]
    if isinstance(value, dict):
        some = islice(value.items(), limit)
        return {key[:limit]: _shortened(item, limit, depth + 1) for key, item in some}
    return value


def first_line(text: str, limit: int = 120) -> str:
    """The first line of ``text`` that is not blank, with white space folded, cut at ``limit``
    characters (never inside one)."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        line = " ".join(text[start : min(end, start + 4 * limit)].split())
        if line:
            return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
        start = end + 1
    return ""


#: Keys of a tool's input that say what it does, the most telling first.
_TELLING = (
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "target_file",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "message",
    "task",
    "skill",
    "name",
    "explanation",
    "plan",
)


def tool_title(name: str, input_: object) -> str:
    """One readable line for a tool call: its name and the most telling part of its input, which is
    the decoded JSON (``Bash: ls -la``)."""
    detail = _tool_detail(input_)
    return first_line(f"{name}: {detail}" if detail else name) or "tool"


def _tool_detail(value: object) -> str:
    if isinstance(value, str):
        return first_line(value)
    if isinstance(value, Mapping):
        for key in _TELLING:
            part = value.get(key)
            if isinstance(part, list) and part and all(isinstance(word, str) for word in part):
                # ["bash", "-lc", "ls -la"]: the script says it all
                if len(part) == 3 and part[1] in ("-c", "-lc"):
                    return first_line(part[2])
                return first_line(" ".join(part))
            if isinstance(part, str) and part.strip():
                return first_line(part)
        for part in value.values():
            if isinstance(part, str) and part.strip():
                return first_line(part)
    if isinstance(value, list) and value:
        return _tool_detail(value[0])
    return ""


def tool_title_from_json(name: str, input_: str | None) -> str:
    """:func:`tool_title` for input that is still JSON text."""
    value: Any = None
    if input_:
        try:
            value = orjson.loads(input_)
        except orjson.JSONDecodeError:
            value = input_
    return tool_title(name, value)
