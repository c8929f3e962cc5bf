"""Where the shapes of a chart go. Numbers in, numbers out: the markup is in the template
``_crystal_charts.html``, where Jinja escapes every word.

A chart of bars is drawn in two layers, so that it fits any width without a script: bars in a box
that stretches (``viewBox`` of :data:`SLOT` units a bar), words beside them placed by percentages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

#: Width of a bar with its gap, width of the bar, and height of the chart, in units of its viewBox.
SLOT, BAR, HEIGHT = 10, 8, 1000
#: A chart of fewer bars is as wide as one of so many: one bar is not a wall.
_FEWEST_SLOTS = 12

#: Room that a word on the axis takes on a telephone, in percent.
_WORD = 19

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def day_text(day: date) -> str:
    """``3 Nov 2026``, in any locale."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


@dataclass(frozen=True)
class Bucket:
    """The days that one bar stands for, both included."""

    first: date
    last: date
    label: str


@dataclass(frozen=True)
class Tick:
    """A word on an axis: at a percentage (``x``) or a height in viewBox units (``y``)."""

    label: str
    x: float = 0
    y: float = 0
    anchor: str = "start"


@dataclass(frozen=True)
class Bar:
    """Where the pointer finds a bar, and what it says there."""

    x: int
    bucket: Bucket
    total: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Stacked bars: ``layers`` are (series number, path), ``rows`` the table behind it."""

    width: int
    layers: list[tuple[int, str]]
    bars: list[Bar]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    rows: list[tuple[Bucket, list[str], str]]
    total: float


def unit_for(first: date, last: date) -> str:
    """``day``, ``week``, ``month`` or ``year``: what a bar should stand for in a range of days."""
    days = (last - first).days + 1
    return "day" if days <= 92 else "week" if days <= 560 else "month" if days <= 3660 else "year"


def start_of(day: date, unit: str) -> date:
    """The first day of the week (Monday), month or year that a day is in."""
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    if unit == "year":
        return day.replace(month=1, day=1)
    return day


def buckets(first: date, last: date, unit: str) -> list[Bucket]:
    """Every bucket of a range in order, also those in which nothing happened. The ends of the range
    are those of its first and last bucket."""
    found = []
    start = start_of(first, unit)
    while start <= last:
        if unit == "day":
            end, label = start, day_text(start)
        elif unit == "week":
            end = start + timedelta(days=6)
            label = f"week of {day_text(start)}"
        elif unit == "month":
            end = (start + timedelta(days=31)).replace(day=1) - timedelta(days=1)
            label = f"{_MONTHS[start.month - 1]} {start.year}"
        else:
            end, label = start.replace(month=12, day=31), str(start.year)
        found.append(Bucket(max(start, first), min(end, last), label))
        start = end + timedelta(days=1)
    return found


def stacked(
    spans: Sequence[Bucket],
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    write: Callable[[float], str],
) -> Chart:
    """Bars for ``values[series][bucket]``, each series on top of those before it; ``write`` makes a
    number readable."""
    totals = [sum(column) for column in zip(*values, strict=True)] if values else [0.0] * len(spans)
    top = _round_up(max(totals, default=0))
    # an axis of counts that ends at 1 has no half
    parts_of_axis = (0.5, 1) if write(top / 2) not in (write(0), write(top)) else (1,)
    slots = max(len(spans), _FEWEST_SLOTS)
    margin = (slots - len(spans)) // 2
    heights = [0] * len(spans)
    layers = []
    for number, series in enumerate(values):
        path = []
        for index, value in enumerate(series):
            if value <= 0:
                continue
            # what is there can be seen, however small
            height = max(round(value / top * HEIGHT), 6 if not heights[index] else 1)
            x = (margin + index) * SLOT + (SLOT - BAR) // 2
            path.append(f"M{x} {HEIGHT - heights[index]}h{BAR}v{-height}h{-BAR}z")
            heights[index] += height
        if path:
            layers.append((number, "".join(path)))
    bars, rows = [], []
    for index, bucket in enumerate(spans):
        if totals[index] <= 0:
            continue
        parts = [series[index] for series in values]
        words = [
            f"{name}: {write(part)}" for name, part in zip(names, parts, strict=True) if part > 0
        ]
        text = f"{bucket.label}: {write(totals[index])}"
        bars.append(
            Bar(
                (margin + index) * SLOT,
                bucket,
                totals[index],
                "\n".join([text, *words] if len(values) > 1 else [text]),
            )
        )
        rows.append((bucket, [write(part) for part in parts], write(totals[index])))
    return Chart(
        slots * SLOT,
        layers,
        bars,
        _x_ticks(spans, slots, margin),
        [Tick(write(top * part), y=HEIGHT * (1 - part)) for part in parts_of_axis if any(totals)],
        rows[::-1],
        sum(totals),
    )


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 6, 8 or 10 times a power of ten: the top of an axis, whose half is round
    as well."""
    if value <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10, 20) if step * power >= value)


def _x_ticks(spans: Sequence[Bucket], slots: int, margin: int) -> list[Tick]:
    marks: list[tuple[int, str]] = []
    days = (spans[-1].last - spans[0].first).days if spans else 0
    if days <= 31:
        marks = [(i, f"{b.first.day} {_MONTHS[b.first.month - 1]}") for i, b in enumerate(spans)]
    else:
        before = None
        for index, bucket in enumerate(spans):
            now = (bucket.first.year, bucket.first.month if days <= 1100 else 1)
            if now != before:
                month = f"{_MONTHS[now[1] - 1]} " if days <= 1100 else ""
                # a week that begins in one month is mostly in it; the very first may be cut
                marks.append((index, f"{month}{now[0]}"))
            before = now
    step = max(1, math.ceil(len(marks) / 5))
    ticks: list[Tick] = []
    taken = 0.0
    for index, label in marks[::step]:
        x = (margin + index) / slots * 100
        at_end = x > 100 - _WORD
        begins = x - _WORD if at_end else x
        if begins >= taken:  # no word over another one
            ticks.append(Tick(label, x=round(x, 2), anchor="end" if at_end else "start"))
            taken = begins + _WORD
    return ticks


# --------------------------------------------------------------------------- heat map


@dataclass(frozen=True)
class Cell:
    """A day of the heat map: where it is, how dark (0 to 4), and whether it lies in the range."""

    x: int
    y: int
    day: date
    level: int
    count: int


@dataclass(frozen=True)
class HeatMap:
    """A year of days in columns of weeks, Monday on top."""

    width: int
    height: int
    cells: list[Cell]
    months: list[tuple[int, str]]
    weekdays: list[tuple[int, str]]
    first: date
    last: date


CELL, STEP = 11, 14
_LEFT, _TOP = 30, 18


def heat_map(counts: dict[date, int], first: date, last: date) -> HeatMap:
    """The days from ``first`` to ``last`` (at most 53 weeks: the newest), coloured by quarters of
    the days on which anything happened."""
    first = max(first, start_of(last, "week") - timedelta(weeks=52))
    active = sorted(n for day, n in counts.items() if first <= day <= last and n > 0)
    limits = [active[(len(active) - 1) * part // 4] for part in (1, 2, 3)] if active else []
    if len(set(active)) == 1:
        limits = [0, 0, active[0]]
    start = start_of(first, "week")
    cells: list[Cell] = []
    months: list[tuple[int, str]] = []
    day = first
    while day <= last:
        week = (day - start).days // 7
        x = _LEFT + week * STEP
        count = counts.get(day, 0)
        level = 1 + sum(count > limit for limit in limits) if count > 0 else 0
        cells.append(Cell(x, _TOP + day.weekday() * STEP, day, level, count))
        if day.day == 1 or day == first:
            # no word for the rest of a month that ends at once
            if months and x - months[-1][0] < 2 * STEP:
                months.pop()
            months.append((x, _MONTHS[day.month - 1]))
        day += timedelta(days=1)
    weeks = (last - start).days // 7 + 1
    return HeatMap(
        _LEFT + (weeks + 1) * STEP,
        _TOP + 7 * STEP,
        cells,
        months,
        [
            (_TOP + row * STEP + CELL - 2, name)
            for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"))
        ],
        first,
        last,
    )
