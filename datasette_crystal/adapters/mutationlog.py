"""Replaying the mutation log that VS Code writes a chat session as (``chatSessions/<id>.jsonl``,
since 1.109).

Each line is one change of a JSON value; ``k`` is a path of object keys and array indexes:

====  ==================  ==========================================================================
kind  shape               effect
====  ==================  ==========================================================================
0     ``{v}``             the value becomes ``v`` (on any line; compaction rewrites the file so)
1     ``{k, v?}``         sets what the path names; without ``v`` it is removed
2     ``{k, v?, i?}``     the array at the path is cut to ``i`` entries, then ``v`` is appended
3     ``{k}``             removes what the path names; an array element becomes null
====  ==================  ==========================================================================

What VS Code would refuse with the whole session - an entry before any kind 0, a path through
something that is not there - is refused here as one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

#: How far an index may lie beyond the end of an array. VS Code fills the gap with undefined; an
#: index of 10**12 is a damaged line, not a wish for a terabyte.
MAX_GAP = 16


class Refused(ValueError):
    """An entry that cannot be applied, and why."""


class _Row:
    """A request that the session has or had, in the order of the log."""

    __slots__ = ("before", "live", "request")

    def __init__(self, request: Any) -> None:
        self.request = request
        self.live = True
        self.before: list[_Row] = []  # what stood in this place earlier


class Replay:
    """The session that the entries applied so far amount to: ``state``, which is ``None`` before
    the first kind 0. Requests that an entry took away are remembered, see :meth:`requests`.
    ``slim`` is called with every request as it arrives, to drop at once what nobody reads."""

    def __init__(self, slim: Callable[[Any], None] = lambda request: None) -> None:
        self.state: Any = None
        self._slim = slim
        self._rows: list[_Row] = []
        self._live: list[_Row] = []  # parallel to state["requests"]
        self._dead: dict[str, _Row] = {}  # the last version of requests taken away, by requestId

    def apply(self, entry: Any) -> None:
        """Applies one decoded line. Raises :class:`Refused`, and then nothing has changed."""
        if not isinstance(entry, dict):
            raise Refused("not an object")
        kind = entry.get("kind")
        if kind == 0 and type(kind) is int:
            self._reset(entry.get("v"))
            return
        if type(kind) is not int or kind not in (1, 2, 3):
            raise Refused("unknown kind")
        if self.state is None:
            raise Refused("no initial entry before it")
        path = entry.get("k")
        if not isinstance(path, list):
            raise Refused("no path")
        if not path:
            if kind == 2:
                raise Refused("no array at the path")
            return
        if path[0] == "requests" and len(path) <= 2 and isinstance(self.state, dict):
            self._change_requests(kind, path, entry)
            return
        parent = _walk(self.state, path[:-1])
        if kind == 2:
            _push(parent, path[-1], entry)
        elif kind == 1 and "v" in entry:
            _set(parent, path[-1], entry["v"])
            if path[0] == "requests" and len(path) == 3:
                self._slim(self._live_request(path[1]))
        else:
            _remove(parent, path[-1])

    def requests(self) -> Iterator[tuple[Any, bool]]:
        """Every request that the session has or once had, with whether it was taken away, in the
        order of the conversation: what was taken away stands before what came in its place. A
        request that came back (by its ``requestId``) is given once, as it is now."""
        for row in self._rows:
            for older in row.before:
                if older.request is not None:
                    yield older.request, True
            if row.request is not None:
                yield row.request, not row.live

    # ------------------------------------------------------------------- the list of requests

    def _reset(self, value: Any) -> None:
        self.state = value
        requests = value.get("requests") if isinstance(value, dict) else None
        self._replace(requests if isinstance(requests, list) else [])

    def _replace(self, requests: list[Any]) -> None:
        """The whole list is another one: what it no longer holds keeps its place."""
        for row in self._live:
            self._take_away(row)
        old, self._rows, self._live = self._rows, [], []
        places = {
            identifier: place
            for place, row in enumerate(old)
            if (identifier := _request_id(row.request)) is not None
        }
        cursor = 0
        for request in requests:
            identifier = _request_id(request)
            place = places.get(identifier, -1) if identifier is not None else -1
            if place >= cursor:
                self._rows += old[cursor : place + 1]
                cursor = place + 1
            self._add(request)
        self._rows += old[cursor:]
        self._rows = [row for row in self._rows if row.live or row.request or row.before]

    def _add(self, request: Any) -> None:
        row = _Row(request)
        self._came_back(_request_id(request))
        self._slim(request)
        self._rows.append(row)
        self._live.append(row)

    def _came_back(self, identifier: str | None) -> None:
        older = self._dead.pop(identifier, None) if identifier is not None else None
        if older is not None:
            older.request = None

    def _take_away(self, row: _Row) -> None:
        row.live = False
        identifier = _request_id(row.request)
        if identifier is not None:
            older = self._dead.get(identifier)
            if older is not None and older is not row:
                older.request = None
            self._dead[identifier] = row

    def _live_request(self, index: Any) -> Any:
        if type(index) is int and 0 <= index < len(self._live):
            return self._live[index].request
        return None

    def _change_requests(self, kind: int, path: list[Any], entry: dict[str, Any]) -> None:
        if len(path) == 1:
            if kind == 2:
                self._push_requests(entry)
                return
            value = entry.get("v") if kind == 1 else None
            if kind == 1 and "v" in entry:
                self.state["requests"] = value
            else:
                self.state.pop("requests", None)
            self._replace(value if isinstance(value, list) else [])
            return
        requests = self.state.get("requests")
        if not isinstance(requests, list):
            raise Refused("no parent at the path")
        value = entry.get("v") if kind == 1 else None
        index = path[1]
        if kind == 2:  # a request is an object, never an array
            raise Refused("no array at the path")
        if kind == 1 and "v" in entry:
            _set(requests, index, value)
        else:
            _remove(requests, index)
            if index >= len(self._live):
                return
        while len(self._live) <= index:
            self._add(None)
        row = self._live[index]
        identifier = _request_id(value)
        if row.request is not None and (
            identifier is None or identifier != _request_id(row.request)
        ):
            older = _Row(row.request)
            row.before.append(older)
            self._take_away(older)
        row.request = value
        self._came_back(identifier)
        self._slim(value)

    def _push_requests(self, entry: dict[str, Any]) -> None:
        requests = self.state.get("requests")
        if requests is not None and not isinstance(requests, list):
            raise Refused("no array at the path")
        values, cut = _push_arguments(entry, len(requests or ()))
        if requests is None:
            requests = self.state["requests"] = []
        if cut is not None:
            for row in reversed(self._live[cut:]):
                self._take_away(row)
            del self._live[cut:]
            del requests[cut:]
            while len(requests) < cut:
                requests.append(None)
                self._add(None)
        requests += values
        for value in values:
            self._add(value)


def _request_id(request: Any) -> str | None:
    identifier = request.get("requestId") if isinstance(request, dict) else None
    return identifier if isinstance(identifier, str) and identifier else None


# --------------------------------------------------------------------------- any other value


def _walk(value: Any, path: list[Any]) -> Any:
    for key in path:
        if isinstance(value, dict):
            value = value.get(_key(key))
        elif isinstance(value, list) and type(key) is int and 0 <= key < len(value):
            value = value[key]
        else:
            raise Refused("no parent at the path")
    if not isinstance(value, dict | list):
        raise Refused("no parent at the path")
    return value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    raise Refused("neither a key nor an index")


def _index(key: Any, length: int) -> int:
    if type(key) is not int or key < 0 or key > length + MAX_GAP:
        raise Refused("index out of range")
    return key


def _set(parent: Any, key: Any, value: Any) -> None:
    if isinstance(parent, dict):
        parent[_key(key)] = value
        return
    index = _index(key, len(parent))
    while len(parent) <= index:
        parent.append(None)
    parent[index] = value


def _remove(parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        parent.pop(_key(key), None)
        return
    index = _index(key, len(parent))
    if index < len(parent):
        parent[index] = None


def _push(parent: Any, key: Any, entry: dict[str, Any]) -> None:
    if isinstance(parent, dict):
        array = parent.get(_key(key))
    else:
        index = _index(key, len(parent))
        array = parent[index] if index < len(parent) else None
    if array is not None and not isinstance(array, list):
        raise Refused("no array at the path")
    values, cut = _push_arguments(entry, len(array or ()))
    if array is None:
        array = []
        _set(parent, key, array)
    if cut is not None:
        del array[cut:]
        array += [None] * (cut - len(array))
    array += values


def _push_arguments(entry: dict[str, Any], length: int) -> tuple[list[Any], int | None]:
    values = entry.get("v")
    if values is None:
        values = []
    if not isinstance(values, list):
        raise Refused("what is appended is not an array")
    cut = entry.get("i")
    return values, None if cut is None else _index(cut, length)
