"""Which records of a Claude Code transcript stand on a branch that the user left.

After a rewind (Esc Esc, "edit this prompt") both branches stay in one file: two prompts hang under
one parent, and only ``parentUuid`` tells them apart. This is a second reading of the file, made
only where two prompts with one parent were seen (20 of 928 files), so that the usual session needs
no index of its 500,000 lines.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Set as AbstractSet

from .jsonl import decode, read_lines

_ROOT = -1


def root_key(record: dict[str, object]) -> str | None:
    """The parent of a record that has none. A file may begin several times over (resumed, torn), so
    such prompts are versions of each other only where 2.1.332 numbers them alike."""
    position = record.get("turnPosition")
    index = position.get("promptIndex") if isinstance(position, dict) else None
    return f"root {index}" if isinstance(index, int) and index > 0 else None


def parent_of(record: dict[str, object]) -> str | None:
    """The uuid that a record follows; a compaction boundary follows its ``logicalParentUuid``."""
    parent = record.get("parentUuid")
    if not isinstance(parent, str):
        parent = record.get("logicalParentUuid")
    return parent if isinstance(parent, str) else None


def abandoned_lines(path: str, prompts: AbstractSet[int]) -> set[int]:
    """The line numbers of the records of ``path`` that only abandoned prompts lead to.

    ``prompts`` are the lines of the prompts that a person typed. Of several under one parent the one
    that leads to the live leaf is kept, else the last; the leaf is what ``last-prompt`` names, or the
    last record, whichever stands later. Parallel tool results and other forks of the chain mean
    nothing. Raises :class:`OSError`.
    """
    index: dict[int, int] = {}  # hash of a uuid -> node; a clash of 64-bit hashes is no concern
    parents = array("q")
    lines = array("q")
    siblings: dict[object, list[int]] = defaultdict(list)
    pending: list[tuple[int, int]] = []
    leaf = _ROOT
    for number, line in read_lines(path):
        if b'"uuid"' not in line and b'"leafUuid"' not in line:
            continue
        for record in decode(line)[0]:
            if not isinstance(record, dict):
                continue
            if record.get("type") == "last-prompt":
                leaf = index.get(hash(record.get("leafUuid")), leaf) if _is_id(record) else leaf
                continue
            uuid = record.get("uuid")
            if not isinstance(uuid, str) or record.get("isSidechain") is True:
                continue
            key = hash(uuid)
            if key in index:
                continue
            node = index[key] = len(parents)
            lines.append(number)
            parent = parent_of(record)
            parents.append(_ROOT if parent is None else index.get(hash(parent), _ROOT))
            if parent is not None and parents[node] == _ROOT:
                pending.append((node, hash(parent)))
            leaf = node
            if number in prompts and record.get("type") == "user":
                above: object = parent if parent is not None else root_key(record)
                if above is not None:
                    siblings[above].append(node)
    for node, key in pending:  # a parent that stands after its child
        found = index.get(key, _ROOT)
        if found != node:
            parents[node] = found
    dead_roots = _dead_roots(siblings, _path_to(leaf, parents))
    if not dead_roots:
        return set()
    return {lines[node] for node in _below(dead_roots, parents)}


def _is_id(record: dict[str, object]) -> bool:
    return isinstance(record.get("leafUuid"), str)


def _path_to(leaf: int, parents: array[int]) -> set[int]:
    path: set[int] = set()
    while leaf != _ROOT and leaf not in path:
        path.add(leaf)
        leaf = parents[leaf]
    return path


def _dead_roots(siblings: dict[object, list[int]], live: set[int]) -> set[int]:
    dead: set[int] = set()
    for nodes in siblings.values():
        if len(nodes) > 1:
            kept = [node for node in nodes if node in live] or nodes[-1:]
            dead.update(node for node in nodes if node not in kept)
    return dead


def _below(roots: set[int], parents: array[int]) -> list[int]:
    """Every node that has one of ``roots`` above it, or is one."""
    state = bytearray(len(parents))  # 0 not known, 1 alive, 2 dead, 3 being looked at
    for node in range(len(parents)):
        walked: list[int] = []
        at = node
        while at != _ROOT and state[at] == 0 and at not in roots:
            state[at] = 3
            walked.append(at)
            at = parents[at]
        dead = at != _ROOT and (at in roots or state[at] == 2)
        if dead and at in roots:
            state[at] = 2
        for passed in walked:
            state[passed] = 2 if dead else 1
    return [node for node in range(len(parents)) if state[node] == 2]
