"""How many tokens each model call of a rollout took, each counted once."""

from __future__ import annotations

from typing import Any

from ..model import Tokens
from ..text import count

#: Tokens sent, read from the cache, written to it, answered, thought.
Usage = tuple[int, int, int, int, int]


class UsageMeter:
    """Reads the running totals of ``token_count`` events, and the exact ``token_usage_record`` of
    each response where there is one (0.160 on).

    Totals are told again after each step (28 % of all events): what counts is their change.
    ``continues`` says that the thread refers to another one's history, whose total it goes on from.
    """

    def __init__(self) -> None:
        self.continues = False
        self.recorded_in_turn = False
        self.total: Usage | None = None
        self.restarted = False
        self.response_id = ""

    def spent(self, event: dict[str, Any], *, counts: bool, answered: bool) -> Usage | None:
        """What a ``token_count`` event adds. ``counts`` is false for copied records; ``answered``
        says whether the model gave something since the last call that was booked."""
        info = event.get("info")
        if not isinstance(info, dict):
            # the first event of a session; 0.47 starts from zero again when it resumes a thread
            self.restarted = True
            return None
        total, last = (
            usage_of(info.get("total_token_usage")),
            usage_of(info.get("last_token_usage")),
        )
        if total is None:
            return None
        before, self.total = self.total, total
        restarted, self.restarted = self.restarted, False
        if not counts or self.recorded_in_turn:
            return None
        if last is not None and not any(last):
            last = None
        if before is None:
            if self.continues and not answered:
                return None
            return last or total
        if restarted and total == last:
            return last
        if total == before:
            return None
        if any(new < old for new, old in zip(total, before, strict=True)):
            return last  # after a compaction or a fork
        sent, cached, cache_write, output, reasoning = (
            new - old for new, old in zip(total, before, strict=True)
        )
        return sent, cached, cache_write, output, reasoning

    def recorded(self, record: dict[str, Any], *, counts: bool) -> Usage | None:
        """What a ``token_usage_record`` adds: exact, and so the totals of its turn do not count."""
        usage = usage_of(record.get("usage"))
        if usage is None or not counts:
            return None
        response_id = record.get("response_id")
        if isinstance(response_id, str) and response_id:
            if response_id == self.response_id:
                return None
            self.response_id = response_id
        self.recorded_in_turn = True
        return usage


def usage_of(value: object) -> Usage | None:
    """The token numbers of a usage object, or ``None`` when it is none."""
    if not isinstance(value, dict):
        return None
    return (
        count(value.get("input_tokens")) or 0,
        count(value.get("cached_input_tokens")) or 0,
        count(value.get("cache_write_input_tokens")) or 0,
        count(value.get("output_tokens")) or 0,
        count(value.get("reasoning_output_tokens")) or 0,
    )


def tokens_of(usage: Usage) -> Tokens:
    """``input_tokens`` holds what was read from the cache and written to it; our ``input`` does
    not."""
    sent, cached, cache_write, output, reasoning = usage
    new = max(sent - cached, 0)
    return Tokens(max(new - cache_write, 0), output, cached, cache_write or None, reasoning)


def add_tokens(tokens: Tokens, more: Tokens) -> None:
    """Adds ``more`` to ``tokens``."""
    tokens.input = (tokens.input or 0) + (more.input or 0)
    tokens.output = (tokens.output or 0) + (more.output or 0)
    tokens.cache_read = (tokens.cache_read or 0) + (more.cache_read or 0)
    if tokens.cache_write or more.cache_write:
        tokens.cache_write = (tokens.cache_write or 0) + (more.cache_write or 0)
    tokens.reasoning = (tokens.reasoning or 0) + (more.reasoning or 0)
