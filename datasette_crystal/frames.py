"""Rows of SQLite as pandas DataFrames whose columns have the types that they mean.

SQLite knows integers, floats, texts and bytes. What a column means is told by its name, where it is
a column of crystal.db, else by its values:

=====================================  ==================================
times (``2026-11-30T21:12:43.109Z``)   ``datetime64[us, UTC]``
days (``2026-11-30``)                  ``datetime64[us]``
whole numbers                          ``Int64`` (may be missing)
other numbers                          ``float64``
flags (``archived``, ``has_code`` …)   ``boolean``
texts                                  ``string``
texts of a few kinds, where asked for  ``category``
=====================================  ==================================

So an empty result has the types of a full one, as far as its columns are known. pandas is imported
when the first frame is made.
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: Columns that hold times, flags, days.
TIMES = frozenset(
    [
        *("timestamp", "started_at", "ended_at", "imported_at", "updated_at", "created_at"),
        "missing_since",
    ]
)
FLAGS = frozenset(["archived", "has_code", "has_tool_use", "inherited"])
DAYS = frozenset(["day"])
#: Columns of few different texts.
CATEGORIES = frozenset(
    [
        *("source", "kind", "role", "model", "status", "action", "state", "fidelity"),
        *("cost_origin", "title_origin", "machine"),
    ]
)
#: What daily_usage says of a day that nobody knows.
UNDATED = "undated"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def declared_types(connection: sqlite3.Connection) -> dict[str, str]:
    """The SQL types (``integer``, ``real``, ``text``, ``blob``) of the columns of all tables and
    views, by name. A name that stands for several types has that of most tables."""
    found: dict[str, Counter[str]] = {}
    for name, type_ in connection.execute(
        "select p.name, lower(p.type) from sqlite_master m join pragma_table_info(m.name) p "
        "where m.type in ('table', 'view') and m.name not like 'messages\\_%' escape '\\'"
    ):
        if type_:
            found.setdefault(name, Counter())[type_] += 1
    return {name: types.most_common(1)[0][0] for name, types in found.items()}


def frame(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    types: Mapping[str, str],
    categories: Collection[str] = (),
) -> pd.DataFrame:
    """A DataFrame of ``rows``, whose columns are called ``names``. ``types`` are those of
    :func:`declared_types`; columns of ``categories`` become categories."""
    import pandas as pd

    _keep_mathjax_off()
    rows = list(rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    # by number: names may stand twice
    made = pd.DataFrame(
        {
            number: column(name, values, types.get(name), name in categories)
            for number, (name, values) in enumerate(zip(names, columns, strict=True))
        },
        index=pd.RangeIndex(len(rows)),
    )
    made.columns = pd.Index(names)
    return made


@functools.cache  # once: who turns it on again wants it on
def _keep_mathjax_off() -> None:
    """Tells MathJax to keep off the frames that pandas shows: ``$PATH and $HOME`` in a prompt is no
    mathematics, and ``\\href`` in it would become a link that runs JavaScript."""
    import pandas as pd

    pd.set_option("display.html.use_mathjax", False)


def column(
    name: str, values: Sequence[Any], declared: str | None = None, category: bool = False
) -> pd.Series:
    """One column of a frame, with the type that its name and its values call for."""
    import pandas as pd

    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if name in FLAGS and all(value in (0, 1) for value in present):
        flags = [None if value is None else bool(value) for value in values]
        return pd.Series(flags, dtype="boolean")
    if kinds <= {str}:
        if _are(_TIME, present) if present else name in TIMES:
            return _times(values)
        days = [value for value in present if value != UNDATED] if name in DAYS else present
        if _are(_DAY, days) if days else name in DAYS:
            return _days(values)
    if not present:
        dtype = {"integer": "Int64", "real": "float64", "text": "string"}.get(declared or "")
        made = pd.Series(values, dtype=dtype or "object")
    elif kinds == {int} and declared != "real":
        made = pd.Series(values, dtype="Int64")
    elif kinds <= {int, float}:
        made = pd.Series(values, dtype="float64")
    elif kinds == {str}:
        made = pd.Series(values, dtype="string")
    else:
        made = pd.Series(values, dtype="object")
    return made.astype("category") if category and kinds <= {str} else made


def _are(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return bool(texts) and all(pattern.fullmatch(text) for text in texts)


def _times(values: Sequence[str | None]) -> pd.Series:
    """UTC times, to the microsecond: pandas 2 would take nanoseconds, which end in 2262."""
    plain = [None if value is None else _without_zone(value) for value in values]
    return _moments(plain).dt.tz_localize("UTC")


def _without_zone(text: str) -> str | None:
    if text.endswith("Z"):
        return text[:-1]
    try:
        moment = datetime.fromisoformat(text).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=None).isoformat()


def _days(values: Sequence[str | None]) -> pd.Series:
    return _moments([None if value == UNDATED else value for value in values])


def _moments(texts: Sequence[str | None]) -> pd.Series:
    import numpy as np
    import pandas as pd

    try:
        moments = np.array(texts, dtype="datetime64[us]")
    except ValueError:  # the 31st of February looks like a day
        known = [text if text is not None and _exists(text) else None for text in texts]
        moments = np.array(known, dtype="datetime64[us]")
    return pd.Series(moments)


def _exists(text: str) -> bool:
    import numpy as np

    try:
        np.datetime64(text, "us")
    except ValueError:
        return False
    return True
