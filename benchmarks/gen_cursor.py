"""Generates a home directory with an N-GB Cursor database, or lets one of its chats grow.

    python benchmarks/gen_cursor.py HOME --gb 2 [--wal]
    python benchmarks/gen_cursor.py HOME --grow

The mix of rows follows a public report of a 2.75 GB database (90,260 bubbles of 11 KB, 857 chats of
90 KB, 103,131 blobs of 10 KB, checkpoints). Written in the way of Cursor: rows come as they are made,
so that one chat's rows lie between those of others. The same arguments give the same database.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import time
import uuid
from pathlib import Path

WORDS = (  # noqa: SIM905
    "the a of to and file function returns value test error reads writes index table when then "
    "because change import module class option default cursor query page view build run fails "
    "fixed added removed check loop cache key range order row message"
).split()
EMPTY_LISTS = (  # noqa: SIM905
    "approximateLintErrors lints codebaseContextChunks commits pullRequests attachedCodeChunks "
    "assistantSuggestedDiffs gitDiffs interpreterResults images attachedFolders relevantFiles "
    "toolResults notepads capabilities multiFileLinterErrors diffHistories recentLocationsHistory "
    "recentlyViewedFiles fileDiffTrajectories docsReferences webReferences humanChanges "
    "cursorRules contextPieces editTrailContexts allThinkingBlocks diffsSinceLastApply "
    "deletedFiles supportedTools consoleLogs knowledgeItems externalLinks projectLayouts todos"
).split()
START = 1_780_000_000_000


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pool = [
            " ".join(self.random.choice(WORDS) for _ in range(60)) + "." for _ in range(2_000)
        ]

    def id(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def text(self, size: int) -> str:
        pieces: list[str] = []
        while size > 0:
            pieces.append(self.random.choice(self.pool))
            size -= len(pieces[-1]) + 2
        return "\n\n".join(pieces)

    def bubble(self, number: int, moment: int) -> dict[str, object]:
        person = number % 8 == 0
        bubble: dict[str, object] = {
            "_v": 3,
            "type": 1 if person else 2,
            **{name: [] for name in EMPTY_LISTS},
            "bubbleId": self.id(),
            "text": "",
            "tokenCount": {"inputTokens": 0, "outputTokens": 0},
            "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment / 1000)),
        }
        if person:
            bubble["text"] = self.text(300)
            bubble["richText"] = json.dumps({"root": {"children": [{"text": bubble["text"]}]}})
            bubble["context"] = {"fileSelections": [], "mentions": {}, "notes": self.text(6_000)}
        elif number % 8 == 1:
            bubble["thinking"] = {"text": self.text(1_500), "signature": self.text(400)}
        elif number % 2 == 0:
            bubble["text"] = self.text(2_000)
            bubble["codeBlocks"] = [{"content": self.text(6_000), "languageId": "python"}]
        else:
            arguments = json.dumps({"target_file": f"src/file{number}.py", "limit": 200})
            bubble["capabilityType"] = 15
            bubble["toolFormerData"] = {
                "tool": 5,
                "name": "read_file",
                "toolCallId": f"call_{number}",
                "status": "completed",
                "rawArgs": arguments,
                "params": arguments,
                "result": json.dumps({"contents": self.text(18_000)}),
            }
        return bubble

    def composer(
        self, id_: str, number: int, headers: list[dict[str, object]]
    ) -> dict[str, object]:
        return {
            "_v": 16,
            "composerId": id_,
            "name": f"Chat {number}",
            "createdAt": START + number * 3_600_000,
            "lastUpdatedAt": START + number * 3_600_000 + len(headers) * 1_000,
            "fullConversationHeadersOnly": headers,
            "conversationMap": {},
            "codeBlockData": {"file:///src/app.py": [{"note": self.text(70_000)}]},
            "blobEncryptionKey": "SECRET-BLOB-KEY",
        }


def database_path(home: Path) -> Path:
    return home / ".config/Cursor/User/globalStorage/state.vscdb"


def connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma synchronous = off")
    for table in ("ItemTable", "cursorDiskKV"):
        db.execute(
            f"create table if not exists {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
        )
    return db


def generate(home: Path, size: int, wal: bool, seed: int) -> None:
    path = database_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    db = connect(path)
    if wal:
        db.execute("pragma journal_mode = wal")
    make = Generator(seed)
    put = "insert into cursorDiskKV values (?, ?)"
    number = bubbles = written = 0
    while written < size:
        # some chats at a time, their rows interleaved as when several are used in one day
        chats = [(make.id(), number + n, []) for n in range(5)]
        number += len(chats)
        db.execute("begin")
        for position in range(make.random.randrange(60, 150)):
            for id_, chat, headers in chats:
                bubble = make.bubble(position, START + chat * 3_600_000 + position * 1_000)
                headers.append({"bubbleId": bubble["bubbleId"], "type": bubble["type"]})
                value = json.dumps(bubble)
                db.execute(put, (f"bubbleId:{id_}:{bubble['bubbleId']}", value))
                blob = make.text(10_500)
                db.execute(put, (f"agentKv:blob:{make.random.getrandbits(256):064x}", blob))
                written += len(value) + len(blob)
                bubbles += 1
                if position % 16 == 0:
                    note = make.text(26_000)
                    db.execute(put, (f"checkpointId:{id_}:{make.id()}", note))
                    written += len(note)
        for id_, chat, headers in chats:
            value = json.dumps(make.composer(id_, chat, headers))
            db.execute(put, (f"composerData:{id_}", value))
            written += len(value)
        db.execute("commit")
    db.close()
    print(f"{path}: {path.stat().st_size / 1e9:.2f} GB, {number} chats, {bubbles} bubbles")


def grow(home: Path, seed: int) -> None:
    """Adds two bubbles to the first chat. The connection is not closed cleanly, so that in WAL mode
    they stay in the ``-wal``, as while the editor runs."""
    db = connect(database_path(home))
    db.execute("pragma wal_autocheckpoint = 0")
    make = Generator(seed + int(time.time() * 1000))
    key, value = db.execute(
        "select key, value from cursorDiskKV where key >= 'composerData:' and key < 'composerData;' "
        "order by key limit 1"
    ).fetchone()
    data = json.loads(value)
    db.execute("begin")
    for number in (8, 10):
        bubble = make.bubble(number, data["lastUpdatedAt"] + number * 1_000)
        data["fullConversationHeadersOnly"].append(
            {"bubbleId": bubble["bubbleId"], "type": bubble["type"]}
        )
        db.execute(
            "insert into cursorDiskKV values (?, ?)",
            (f"bubbleId:{data['composerId']}:{bubble['bubbleId']}", json.dumps(bubble)),
        )
    data["lastUpdatedAt"] += 20_000
    db.execute("insert into cursorDiskKV values (?, ?)", (key, json.dumps(data)))
    db.execute("commit")
    print(f"{key}: {len(data['fullConversationHeadersOnly'])} bubbles", flush=True)
    import os

    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("home", type=Path)
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--wal", action="store_true", help="in WAL mode, as Cursor since 2026")
    parser.add_argument("--grow", action="store_true", help="add two bubbles to one chat")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.grow:
        grow(options.home, options.seed)
    else:
        generate(options.home, int(options.gb * 1e9), options.wal, options.seed)


if __name__ == "__main__":
    main()
