"""A home directory of the imaginary tool that the example adapter reads."""

from pathlib import Path
from typing import Any

from datasette_crystal.model import Environment
from datasette_crystal.testing import make_home

CHAT: dict[str, Any] = {
    "title": "Names for a boat",
    "folder": "/home/dev/boat",
    "version": "3.1",
    "entries": [
        {"id": "a1", "who": "me", "at": "2026-11-01T10:00:00Z", "text": "A name for a small boat?"},
        {
            "id": "a2",
            "who": "quill",
            "at": 1793527205,
            "model": "quill-2",
            "text": "*Heron*.",
            "thoughts": "Short, and easy to paint.",
            "tokens": {"in": 120, "out": 9},
            "tools": [
                {"name": "lookup", "input": {"word": "heron"}, "output": "a bird", "ok": True},
                {
                    "name": "lookup",
                    "input": {"word": "xyzzy"},
                    "output": "no such word",
                    "ok": False,
                },
            ],
        },
        {"who": "star"},
        {"who": "me", "at": "2026-11-01T10:02:00+01:00", "text": "Другое? 还有吗？"},
        {"id": "a4", "who": "quill", "text": "*Sanderling*."},
        {"who": "printer", "text": "a record that the adapter does not know"},
    ],
}


def notetaker_home(directory: Path) -> Environment:
    second = {"title": "Empty", "entries": [{"id": "b1", "who": "me", "text": "Hello"}]}
    return make_home(
        directory,
        {".notetaker/chats/boat.json": CHAT, ".notetaker/chats/empty.json": second},
    )
