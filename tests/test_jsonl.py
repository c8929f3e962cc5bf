"""Lines of JSON as programs leave them, and the beginning of large values."""

from __future__ import annotations

import json
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_crystal.adapters import jsonl
from datasette_crystal.adapters.jsonl import decode
from datasette_crystal.text import json_start, json_text

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@pytest.mark.parametrize(
    ("line", "values", "malformed"),
    [
        (b'{"a":1}', [{"a": 1}], False),
        (b'{"a":1}{"b":2}', [{"a": 1}, {"b": 2}], False),
        (b'\0\0\0{"a":1}', [{"a": 1}], False),
        (b'\xef\xbb\xbf{"a":1}', [{"a": 1}], False),
        (b'{"a":NaN}{"b"', [{"a": pytest.approx(float("nan"), nan_ok=True)}], True),
        (b"-Infinity", [float("-inf")], False),
        (b'"\\ud800"', ["\N{REPLACEMENT CHARACTER}"], False),
        (b'{"a":', [], True),
        (b"xyz", [], True),
        (b"\0\0", [], True),
        (b"\xff\xfe{", [], True),
    ],
)
def test_lines(line: bytes, values: list[Any], malformed: bool) -> None:
    assert decode(line) == (values, malformed)


@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_line(line: bytes) -> None:
    values, malformed = decode(line)
    assert values or malformed


@given(JSON)
def test_whatever_is_json_is_decoded(value: Any) -> None:
    assert decode(b"\0" + json.dumps(value).encode()) == ([value], False)


def test_the_error_of_a_malformed_line_is_gone_while_it_is_decoded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It holds a copy of the line."""
    seen = []

    def tolerantly(line: bytes) -> tuple[list[Any], bool]:
        seen.append(sys.exc_info()[1])
        return [], True

    monkeypatch.setattr(jsonl, "_decode_tolerantly", tolerantly)
    assert jsonl.decode(b"xyz") == ([], True)
    assert seen == [None]


@given(JSON, st.integers(1, 60))
def test_the_start_of_json_is_that_of_the_whole(value: Any, limit: int) -> None:
    assert json_start(value, limit) == json_text(value)[:limit]


def test_the_start_of_a_large_value_writes_no_more_than_that() -> None:
    value = {"type": "x", "text": "y" * 5_000_000, "items": ["z"] * 1_000_000}
    tracemalloc.start()
    try:
        assert json_start(value, 30) == '{"type":"x","text":"yyyyyyyyyy'
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_the_start_of_a_deep_value() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert json_start(value, 100) == "[" * 100
