"""Which messages of a new reading are messages that are stored already?

Ids answer that where both sides have them. Between messages that are known to be the same, the rest
is aligned by role, kind and text, in order: that covers files that the tool rewrote in place under
new ids, and resumed sessions that repeat their history with new ids. Pure functions, no SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import SequenceMatcher

from .model import ParsedMessage

#: What tools write in place of a text that they removed.
REMOVED_MARKERS = (
    "[Old tool result content cleared]",
    "<persisted-output>",
)
#: Segments up to this many comparisons are aligned by longest common blocks, larger ones greedily.
_THOROUGH = 4_000_000


def signature(
    role: str,
    kind: str,
    content: str,
    thinking: str | None,
    calls: Iterable[tuple[str, str | None]],
) -> int:
    """A number that is equal for copies of one message: white space is folded, a cut-off reply is a
    reply. A message without text is known by its calls (name, input), else by its thinking."""
    if kind == "partial":
        kind = "reply"
    if content.strip():
        return hash((role, kind, " ".join(content.split())))
    calls = tuple(calls)
    if calls:
        return hash((role, kind, calls))
    return hash((role, kind, "", " ".join((thinking or "").split())))


def message_signature(message: ParsedMessage) -> int:
    """:func:`signature` of a parsed message."""
    return signature(
        message.role,
        message.kind,
        message.content,
        message.thinking,
        ((call.name, call.input) for call in message.tool_calls),
    )


def fill_gaps(
    new: Sequence[int],
    old: Sequence[int],
    new_signature: Callable[[int], Hashable],
    old_signature: Callable[[int], Hashable],
    *,
    tail: bool = True,
) -> dict[int, int]:
    """``new`` holds, for each message of a new reading, the id of the stored message that it is
    known to be, or 0; ``old`` the ids of a stored conversation in order. Returns what is found
    between common ids (before the first one too, after the last one only with ``tail``):
    index in ``new`` → id. ``old_signature`` takes an id, ``new_signature`` an index."""
    place = {id_: index for index, id_ in enumerate(old)}
    known = {id_ for id_ in new if id_}
    found: dict[int, int] = {}
    new_from = old_from = 0
    for index in range(len(new) + 1):
        if index < len(new):
            if not new[index] or new[index] not in place:
                continue
            old_to = place[new[index]]
            if old_to < old_from:
                continue  # told in another order here: no fixed point
        else:
            if not tail:
                break
            old_to = len(old)
        gap = [i for i in range(new_from, index) if not new[i]]
        if gap and old_to > old_from:
            candidates = [id_ for id_ in old[old_from:old_to] if id_ not in known]
            if candidates:
                pairs = _align(
                    [new_signature(i) for i in gap], [old_signature(id_) for id_ in candidates]
                )
                for a, b in pairs:
                    found[gap[a]] = candidates[b]
        new_from, old_from = index + 1, old_to + 1
    return found


def match_in_order(new: Sequence[Hashable], old: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of places where ``new`` is found, in order, in ``old``: each takes the earliest equal
    one after the last."""
    where: dict[Hashable, list[int]] = {}
    for index in range(len(old) - 1, -1, -1):
        where.setdefault(old[index], []).append(index)
    pairs = []
    last = -1
    for index, value in enumerate(new):
        places = where.get(value)
        while places and places[-1] <= last:
            places.pop()
        if places:
            last = places.pop()
            pairs.append((index, last))
    return pairs


def _align(new: Sequence[Hashable], old: Sequence[Hashable]) -> list[tuple[int, int]]:
    if len(new) * len(old) > _THOROUGH:
        return match_in_order(new, old)
    matcher = SequenceMatcher(None, new, old, autojunk=False)
    return [
        (a + offset, b + offset)
        for a, b, size in matcher.get_matching_blocks()
        for offset in range(size)
    ]


def is_poorer(new: str | None, old: str | None) -> bool:
    """Whether ``new`` tells less than ``old``: empty, a marker for removed text, or only its
    beginning."""
    if not old:
        return False
    if not new:
        return True
    if new == old:
        return False
    if new.startswith(REMOVED_MARKERS) and not old.startswith(REMOVED_MARKERS):
        return True
    return len(new) < len(old) and old.startswith(new)


def richer(new: str | None, old: str | None, prefer_new: bool) -> str | None:
    """The one of two texts of the same thing to keep: never the poorer, else as ``prefer_new``
    says. The same whichever was stored first, if ``prefer_new`` tells who owns the message."""
    if is_poorer(new, old):
        return old
    if is_poorer(old, new):
        return new
    return new if prefer_new else old
