"""How long reading a Cursor database takes, beside the least that it could take.

    python benchmarks/read_cursor.py HOME floor      range reads of every chat and orjson, no more
    python benchmarks/read_cursor.py HOME adapter    scan and parse of every chat
    python benchmarks/read_cursor.py HOME scan       what an import of nothing new does

Each prints seconds and the peak of memory. Run them in turn, the first time to warm the file cache.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import sys
import time
from pathlib import Path

import orjson

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from datasette_crystal.adapters.cursor import CursorAdapter
from datasette_crystal.model import ConversationMeta, Environment


def floor(home: Path) -> tuple[int, int]:
    path = home / ".config/Cursor/User/globalStorage/state.vscdb"
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    db.text_factory = bytes
    chats = bubbles = 0
    composers = db.execute(
        "select key, value from cursorDiskKV where key >= 'composerData:' and key < 'composerData;'"
    )
    for key, value in composers:
        orjson.loads(value)
        id_ = key[len("composerData:") :].decode()
        chats += 1
        for (bubble,) in db.execute(
            "select value from cursorDiskKV where key >= ? and key < ?",
            (f"bubbleId:{id_}:", f"bubbleId:{id_};"),
        ):
            orjson.loads(bubble)
            bubbles += 1
    return chats, bubbles


def adapter(home: Path, parse: bool) -> tuple[int, int]:
    source = CursorAdapter()
    chats = messages = 0
    metas = [
        meta
        for meta in source.scan(Environment.for_home(home))
        if isinstance(meta, ConversationMeta)
    ]
    for meta in metas:
        chats += 1
        if parse:
            for conversation in source.parse(meta).conversations:
                messages += sum(1 for _ in conversation.messages)
    source.close()
    return chats, messages


def main() -> None:
    home, what = Path(sys.argv[1]).resolve(), sys.argv[2]
    start = time.perf_counter()
    if what == "floor":
        chats, rows = floor(home)
    else:
        chats, rows = adapter(home, what == "adapter")
    seconds = time.perf_counter() - start
    print(f"cpu {time.process_time():.2f} s", end=" ")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {seconds:.2f} s, {peak:.0f} MB, {chats} chats, {rows} rows")


if __name__ == "__main__":
    main()
