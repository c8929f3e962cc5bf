"""``daily_usage``: what happened on each day, kept ready so that charts need not add up messages.

Days are those of the local time zone of the machine that imports (its name is kept in
``import_runs.timezone``). A message without a time counts on the day its conversation began, or as
``undated``. A message without a model - a prompt - counts for the model of its conversation, and a
conversation counts once, on the day it began: so every column adds up to the whole. Conversations
whose cost the tool recorded have rows of their own (``cost_origin``), so that nobody adds a price of
their tokens to it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from .model import MODEL_KINDS, PROMPT_KINDS

_TOKENS = "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"
_COUNTS = ("prompts", "replies", "tool_calls", "errors", *_TOKENS, "reasoning_tokens")
#: More changed days than this are cheaper rebuilt with all the others.
_MANY_DAYS = 120


def local_zone() -> str:
    """The name of the local time zone, with its present offset: ``CET (+01:00)``."""
    now = datetime.now().astimezone()
    return f"{now.tzname()} ({now.isoformat()[-6:]})"


def _kinds(kinds: Iterable[str]) -> str:
    return ",".join(f"'{kind}'" for kind in kinds)


def _select(messages: str, conversations: str) -> str:
    """The rows of daily_usage for the messages and conversations that the conditions leave."""
    tokens = ", ".join(f"sum(m.{name}) as {name}" for name in (*_TOKENS, "reasoning_tokens"))
    none = ", ".join(f"null as {name}" for name in (*_TOKENS, "reasoning_tokens"))
    day = "coalesce(date(coalesce(m.timestamp, c.started_at), 'localtime'), 'undated')"
    group = (
        f"{day} as day, c.source, c.project_id, coalesce(m.model, c.model) as model, c.cost_origin"
    )
    live = "c.kind <> 'prompt-history'"
    return f"""
    select day, source, project_id, model, sum(conversations),
      {", ".join(f"sum({name})" for name in ("prompts", "replies", "tool_calls", "errors"))},
      {", ".join(f"sum({name})" for name in (*_TOKENS, "reasoning_tokens"))}, sum(cost_usd),
      cost_origin
    from (
      select {group}, 0 as conversations, sum(m.kind in ({_kinds(PROMPT_KINDS)})) as prompts,
        sum(m.kind in ({_kinds(MODEL_KINDS)}) and m.characters > 0) as replies, 0 as tool_calls,
        sum(m.kind = 'error') as errors, {tokens}, null as cost_usd
      from messages m join conversations c on c.id = m.conversation_id
      where {live} and {messages} group by 1, 2, 3, 4, 5
      union all
      select {group}, 0, 0, 0, count(*), sum(t.status = 'error'), {none}, null
      from messages m join conversations c on c.id = m.conversation_id
      join tool_calls t on t.message_id = m.id
      where m.has_tool_use and {live} and {messages} group by 1, 2, 3, 4, 5
      union all
      select coalesce(date(c.started_at, 'localtime'), 'undated'), c.source, c.project_id, c.model,
        c.cost_origin, count(*), 0, 0, 0, 0, {none}, sum(c.cost_usd)
      from conversations c
      where {live} and {conversations} group by 1, 2, 3, 4, 5
    ) group by day, source, project_id, model, cost_origin
    """


def refresh(
    connection: sqlite3.Connection,
    conversation_ids: Iterable[int],
    old_starts: Iterable[str | None] = (),
) -> None:
    """Brings ``daily_usage`` up to date after these conversations changed; ``old_starts`` are times
    at which some of them were thought to begin before. An empty table is built anew. Runs in the
    caller's transaction."""
    empty = connection.execute("select 1 from daily_usage limit 1").fetchone() is None
    days = set() if empty else _days_of(connection, conversation_ids)
    for start in old_starts:
        days.add(
            connection.execute(
                "select coalesce(date(?, 'localtime'), 'undated')", (start,)
            ).fetchone()[0]
        )
    if empty or _zone_changed(connection) or len(days) > _MANY_DAYS:
        connection.execute("delete from daily_usage")
        connection.execute("insert into daily_usage " + _select("1", "1"))
        return
    for day in sorted(days):
        connection.execute("delete from daily_usage where day = ?", (day,))
        if day == "undated":
            connection.execute(
                "insert into daily_usage "
                + _select(
                    "m.timestamp is null and c.started_at is null",
                    "c.started_at is null",
                )
            )
            continue
        start, end = _utc_range(day)
        # two index ranges: messages with a time of their own, and those that go by their
        # conversation's
        connection.execute(
            "insert into daily_usage "
            + _select(
                "m.id in (select id from messages where timestamp >= :start and timestamp < :end "
                "union all select u.id from messages u join conversations d "
                "on d.id = u.conversation_id where u.timestamp is null "
                "and d.started_at >= :start and d.started_at < :end)",
                "c.started_at >= :start and c.started_at < :end",
            ),
            {"start": start, "end": end},
        )


def _days_of(connection: sqlite3.Connection, ids: Iterable[int]) -> set[str]:
    days: set[str] = set()
    for id_ in ids:
        days.update(
            row[0]
            for row in connection.execute(
                "select distinct coalesce(date(coalesce(m.timestamp, c.started_at), 'localtime'), "
                "'undated') from messages m join conversations c on c.id = m.conversation_id "
                "where c.id = :id union "
                "select coalesce(date(started_at, 'localtime'), 'undated') from conversations "
                "where id = :id",
                {"id": id_},
            )
        )
    return days


def _zone_changed(connection: sqlite3.Connection) -> bool:
    names = [
        row[0].partition(" ")[0]
        for row in connection.execute("select timezone from import_runs order by id desc limit 2")
    ]
    return len(names) == 2 and names[0] != names[1]


def _utc_range(day: str) -> tuple[str, str]:
    start = datetime.fromisoformat(day)
    return tuple(  # type: ignore[return-value]
        moment.astimezone().astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        for moment in (start, start + timedelta(days=1))
    )
