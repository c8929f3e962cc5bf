"""The messages of a conversation, as every page that shows some makes them: on a Datasette, or as
files. What differs is where links lead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import blocks, render

#: Prompts in the outline; of longer conversations it shows those of this page, and the other pages.
OUTLINE_SIZE = 250
#: Tool calls, edits and attachments of a page.
MAX_CALLS = 3_000

_MESSAGES_SQL = """
select m.id, m.title, m.kind, m.timestamp, m.role, m.model, m.characters, m.input_tokens,
  m.output_tokens, m.cache_read_tokens, m.cache_write_tokens,
  substr(m.content, 1, :most) as content, length(m.content) as length,
  substr(m.thinking, 1, :most) as thinking
from json_each(:ids) as wanted cross join messages m on m.id = wanted.value
"""

_CALLS_SQL = """
select t.id, t.title, t.name, t.status, t.exit_code, t.duration_ms, t.message_id, t.position,
  t.subagent_id, substr(t.input, 1, :most) as input, substr(t.output, 1, :head) as output,
  length(t.output) as output_length,
  case when length(t.output) > :head then substr(t.output, -:tail) end as output_end
from json_each(:ids) as wanted cross join tool_calls t on t.message_id = wanted.value
order by t.message_id, t.position limit :limit
"""

_EDITS_SQL = """
select e.path, e.action, e.message_id, e.position, e.lines_added, e.lines_removed,
  substr(e.diff, 1, :head) as diff, length(e.diff) as diff_length
from json_each(:ids) as wanted cross join file_edits e on e.message_id = wanted.value
order by e.id limit :limit
"""

_ATTACHMENTS_SQL = """
select a.id, a.name, a.message_id, a.kind, a.media_type, a.size, a.content is not null as kept
from json_each(:ids) as wanted cross join attachments a on a.message_id = wanted.value
order by a.message_id, a.position limit :limit
"""

_SUBAGENTS_SQL = """
select c.id, c.title, c.source, c.session_id, c.message_count, c.tool_call_count, c.model
from json_each(:ids) as wanted cross join conversations c on c.id = wanted.value
"""


class Linker(Protocol):
    """Where links lead. An empty address makes no link."""

    def conversation(self, source: str, session_id: str, ending: str = "") -> str:
        """A conversation, or with ``ending`` its sibling ``.json`` or ``.md``."""
        ...

    def message(self, uid: str) -> str:
        """The place of a message of this conversation."""
        ...

    def anchor(self, uid: str) -> str:
        """The id of a message's element on its page."""
        ...

    def page(self, page: int) -> str:
        """A page of this conversation, counted from 1."""
        ...

    def row_of(self, table: str, id: int) -> str:
        """A row of the database."""
        ...

    def image(self, id: int) -> str:
        """The image that the attachment of this id is."""
        ...


async def rows_of(db: Any, shown: Sequence[Any]) -> dict[str, Any]:
    """The rows of all tables that belong to the messages of one page."""
    ids = json.dumps([line["message_id"] for line in shown])
    messages = await db.execute(_MESSAGES_SQL, {"ids": ids, "most": render.MAX_MARKDOWN})
    has_calls = json.dumps([line["message_id"] for line in shown if line["has_tool_use"]])
    calls = (
        await db.execute(
            _CALLS_SQL,
            {
                "ids": has_calls,
                "most": blocks.MAX_INPUT,
                "head": blocks.HEAD + blocks.TAIL,
                "tail": blocks.TAIL,
                "limit": MAX_CALLS,
            },
        )
    ).rows
    edits = (
        await db.execute(
            _EDITS_SQL, {"ids": has_calls, "head": 4 * blocks.HEAD, "limit": MAX_CALLS}
        )
    ).rows
    attachments = (await db.execute(_ATTACHMENTS_SQL, {"ids": ids, "limit": MAX_CALLS})).rows
    agents = json.dumps([call["subagent_id"] for call in calls if call["subagent_id"]])
    return {
        "messages": {row["id"]: row for row in messages},
        "calls": _grouped(calls),
        "edits": _grouped(edits),
        "attachments": _grouped(attachments),
        "subagents": {row["id"]: row for row in await db.execute(_SUBAGENTS_SQL, {"ids": agents})},
    }


def _grouped(rows: Sequence[Any]) -> dict[int, list[Any]]:
    grouped: dict[int, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row["message_id"], []).append(row)
    return grouped


def transcript(
    shown: Sequence[Any],
    rows: Mapping[str, Any],
    context: blocks.Context,
    linker: Linker,
    target: str = "",
) -> list[blocks.Message]:
    """The messages of a page, from their lines and :func:`rows_of` these. ``target`` is the uid of
    the message that a link led to. Run it in a thread: this is where the time goes."""
    made = []
    seen: set[str] = set()
    model = ""
    for line in shown:
        row = rows["messages"][line["message_id"]]
        message = _message(line, row, rows, context, linker)
        message.target = bool(target) and line["uid"] == target
        if line["uid"] in seen:
            message.anchor = ""  # an id may stand once on a page
        seen.add(line["uid"])
        if message.family == "model":
            message.model = "" if row["model"] == model else row["model"] or ""
            model = row["model"] or model
        made.append(message)
    return made


def _message(
    line: Any, row: Any, rows: Mapping[str, Any], context: blocks.Context, linker: Linker
) -> blocks.Message:
    kind = row["kind"]
    html, summary, folded, note = blocks.message_body(
        kind, row["title"], row["content"] or "", row["length"] or 0, context
    )
    thinking = row["thinking"] or ""
    edits: dict[int, list[Any]] = {}
    for edit in rows["edits"].get(row["id"], ()):
        edits.setdefault(edit["position"], []).append(edit)
    calls = []
    for call_row in rows["calls"].get(row["id"], ()):
        subagent = rows["subagents"].get(call_row["subagent_id"])
        if subagent is not None:
            href = linker.conversation(subagent["source"], subagent["session_id"])
            subagent = dict(subagent) | {"href": href}
        call = blocks.call(call_row, edits.get(call_row["position"], []), context, subagent)
        call.href = linker.row_of("tool_calls", call_row["id"])
        calls.append(call)
    return blocks.Message(
        position=line["position"],
        uid=line["uid"],
        anchor=linker.anchor(line["uid"]),
        permalink=linker.message(line["uid"]),
        row_href=linker.row_of("messages", row["id"]),
        kind=kind,
        family=blocks.family_of_kind(kind),
        label=blocks.label_of_kind(kind),
        state=line["state"],
        inherited=bool(line["inherited"]),
        timestamp=row["timestamp"],
        model=row["model"] or "",
        html=html,
        summary=summary,
        folded=folded,
        thinking=context.mark(render.markdown(thinking, context.budget)) if thinking else html[:0],
        thinking_summary=context.mark_text(blocks.thinking_line(thinking)),
        calls=calls,
        attachments=[
            _attachment(attachment, linker) for attachment in rows["attachments"].get(row["id"], ())
        ],
        tokens=blocks.tokens(row),
        open=context.finds(row["content"], thinking),
        note=note,
    )


def _attachment(row: Any, linker: Linker) -> blocks.Attachment:
    is_image = row["kept"] and row["media_type"] in blocks.IMAGE_TYPES
    return blocks.Attachment(
        name=row["name"],
        kind=row["kind"],
        size=blocks.size(row["size"]),
        href=linker.row_of("attachments", row["id"]),
        image=linker.image(row["id"]) if is_image else "",
    )


def outline(
    lines: Sequence[Any], shown: Sequence[Any], page_size: int, linker: Linker
) -> list[dict[str, Any]]:
    """The prompts among ``lines`` as links, to their place on this page where they are ``shown``,
    else to the page that has them; of very many those of this page, and of every other page the
    first."""
    prompts = [
        (place, line)
        for place, line in enumerate(lines)
        if line["kind"] in ("prompt", "command", "shell", "answer", "task")
    ]
    entries: list[dict[str, Any]] = []
    all_of_them = len(prompts) <= OUTLINE_SIZE
    pages_seen: set[int] = set()
    positions = {line["position"] for line in shown}
    for place, line in prompts:
        here = line["position"] in positions
        page = place // page_size
        if not here and not all_of_them:
            if page in pages_seen or len(pages_seen) > OUTLINE_SIZE:
                continue
            pages_seen.add(page)
        href = f"#{linker.anchor(line['uid'])}" if here else linker.message(line["uid"])
        entries.append(
            {
                "title": line["title"],
                "kind": line["kind"],
                "href": href,
                "here": here,
                "css": line["state"] if line["state"] != "active" else "",
                "inherited": bool(line["inherited"]),
                "page": page + 1 if not here and not all_of_them else 0,
            }
        )
    return entries


def pager(page: int, pages: int, linker: Linker) -> dict[str, Any]:
    """The links from one page to the others."""
    numbers = sorted({1, 2, page - 1, page, page + 1, pages - 1, pages} & set(range(1, pages + 1)))
    links: list[dict[str, Any]] = []
    for before, number in zip([0, *numbers], numbers, strict=False):
        links.append(
            {
                "number": number,
                "href": linker.page(number),
                "current": number == page,
                "gap": number - before > 1,
            }
        )
    return {
        "links": links if pages > 1 else [],
        "previous": linker.page(page - 1) if page > 1 else "",
        "next": linker.page(page + 1) if page < pages else "",
    }
