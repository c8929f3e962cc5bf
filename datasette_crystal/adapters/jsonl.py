"""Reading JSON Lines files that other programs write, crash while writing, and still hold open."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

from ..text import clean

#: A longer line is counted as malformed. Nothing of a conversation was seen above 64 MB.
MAX_LINE = 256 * 1024 * 1024


def open_lines(path: str | Path) -> IO[bytes]:
    """Opens a ``.jsonl`` file, or one that Codex compressed (``.jsonl.zst``), for reading lines.
    Raises :class:`OSError`; a file that is not a regular one (a named pipe would block for ever)
    raises it too."""
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    try:
        if not os.path.isfile(descriptor if os.name != "nt" else path):
            raise OSError("not a regular file")
        raw = os.fdopen(descriptor, "rb", buffering=1 << 20)
    except BaseException:
        os.close(descriptor)
        raise
    if str(path).endswith(".zst"):
        reader = zstandard.ZstdDecompressor().stream_reader(
            raw, read_across_frames=True, closefd=True
        )
        return io.BufferedReader(reader, 1 << 20)
    return raw


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, numbered from 0 as they stand in the file, without
    their line end. A byte order mark at the start is dropped. Raises :class:`OSError`; a damaged
    compressed file ends where it is damaged, with a line that is not JSON."""
    with open_lines(path) as file:
        number = -1
        while True:
            try:
                line = file.readline(MAX_LINE)
            except zstandard.ZstdError:
                yield number + 1, b"\0damaged zstd frame"
                return
            if not line:
                return
            number += 1
            if number == 0 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
                yield number, b"\0line too long"
                continue
            line = line.strip()
            if line:
                yield number, line


def decode(line: bytes) -> tuple[list[Any], bool]:
    """The JSON values on one line - one, or several where an appender glued records together - and
    whether anything of the line is malformed. Never raises."""
    try:
        return [orjson.loads(line)], False
    except orjson.JSONDecodeError:
        pass  # not here: the error holds a copy of the line
    return _decode_tolerantly(line)


#: What a JSON value begins with, NaN and Infinity included.
_BEGINS = frozenset(b'{["-0123456789tfnNI')


def _decode_tolerantly(line: bytes) -> tuple[list[Any], bool]:
    # orjson refuses lone surrogates, NaN, numbers beyond 64 bits and invalid UTF-8: the standard
    # library takes them. Lines filled with NUL bytes are what a crash leaves behind.
    line = line.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf").lstrip()
    if not line or line[0] not in _BEGINS:
        return [], True
    text = line.decode("utf-8", "replace")
    values: list[Any] = []
    position = 0
    decoder = json.JSONDecoder()
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            values.append(_scrub(value))
            while position < len(text) and text[position] in " \t\r\n\0":
                position += 1
    except (ValueError, RecursionError, MemoryError):
        return values, True
    return values, not values


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _scrub(item) for key, item in value.items()}
    return value


def regular_files(
    directory: Path, *, deep: bool = True, problems: list[OSError] | None = None
) -> Iterator[os.DirEntry[str]]:
    """Every regular file below ``directory``, sorted by name within each folder. Symbolic links
    below it are not followed: they lead out of the tool's folder, or in circles. A directory that
    cannot be listed is appended to ``problems``."""
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if problems is not None:
            problems.append(error)
        return
    for entry in listed:
        try:
            if entry.is_symlink():
                continue
            if entry.is_file(follow_symlinks=False):
                yield entry
            elif deep and entry.is_dir(follow_symlinks=False):
                yield from regular_files(Path(entry.path), problems=problems)
        except OSError as error:
            if problems is not None:
                problems.append(error)
