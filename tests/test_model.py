"""The list of messages that moves to a file when it grows large."""

from __future__ import annotations

import pytest
from conftest import call, message

from datasette_crystal.model import Messages


@pytest.mark.parametrize("limit", [10_000, 200_000, 10**9])
@pytest.mark.parametrize("size", [10, 5_000])
def test_a_long_list_reads_back_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, limit: int, size: int
) -> None:
    monkeypatch.setattr(Messages, "limit", limit)
    monkeypatch.setattr(Messages, "window", 100)
    messages = Messages()
    late = None
    for i in range(1500):
        item = message(f"u{i}", str(i) + "x" * size)
        if i == 3:
            item.tool_calls = [call(output=None, status="pending")]
            late = item.tool_calls[0]
        assert messages.append(item) == i
        if i == 1400:
            # results and states may come long after
            assert late is not None
            late.output, late.status = "late", "ok"
            messages.mark(5, "abandoned")
            messages.mark(1399, "rolled-back")
    for _ in range(2):
        read = list(messages)
        assert [m.uid for m in read] == [f"u{i}" for i in range(1500)]
        assert all(m.content == str(i) + "x" * size for i, m in enumerate(read))
        assert (read[3].tool_calls[0].output, read[3].tool_calls[0].status) == ("late", "ok")
        assert [(i, m.state) for i, m in enumerate(read) if m.state != "active"] == [
            (5, "abandoned"),
            (1399, "rolled-back"),
        ]
    assert len(messages) == 1500
    assert messages[-1].uid == "u1499"


def test_huge_messages_leave_memory_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Messages, "limit", 1_000_000)
    messages = Messages()
    for i in range(200):
        messages.append(message(f"u{i}", "x" * 100_000))
    assert len(messages._live) <= 65
    assert sum(len(m.content) for m in messages) == 20_000_000
