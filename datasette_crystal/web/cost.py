"""What tokens would have cost at the public prices of a model's maker.

The prices are the snapshot inside the package ``genai-prices``; nothing is fetched. A model that it
does not know has no price: none is guessed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

#: Said beside every amount that is made from these prices.
LABEL = "API list price, not your bill"

#: Names longer than this are no names of models.
_LONGEST_NAME = 200

#: What tools write before a slash when they pass a maker's model on.
_PASSED_ON_BY = frozenset(
    [
        "anthropic",
        "azure",
        "copilot",
        "deepseek",
        "github",
        "google",
        "mistral",
        "moonshotai",
        "openai",
        "x-ai",
        "xai",
    ]
)
_REGION = re.compile(r"(?:us|eu|apac|jp|au|global)\.(?=anthropic\.|amazon\.|meta\.)")
#: How hard a model is told to think changes the number of tokens, not their price. (``-fast`` does
#: change the price, and stays.)
_EFFORT = re.compile(r"(?:-(?:minimal|low|medium|high|xhigh|thinking))+$")
_CONTEXT = re.compile(r"\[\w+\]$")
_CURSORS_CLAUDE = re.compile(r"claude-(\d)(?:[.-](\d))?-(opus|sonnet|haiku)(-.*)?")


@dataclass(frozen=True)
class Rates:
    """US dollars for a million tokens of each kind."""

    input: float
    output: float
    cache_read: float
    cache_write: float

    def price(self, input: int, output: int, cache_read: int, cache_write: int) -> float:
        """US dollars for these numbers of tokens; ``input`` are those outside the cache."""
        return (
            input * self.input
            + output * self.output
            + cache_read * self.cache_read
            + cache_write * self.cache_write
        ) / 1_000_000


@functools.lru_cache(maxsize=20_000)
def rates(model: str | None, day: str) -> Rates | None:
    """The prices of a model on a day (``2026-11-30``; anything else is today), or ``None`` when it
    has none. What depends on the size of one request or the hour of the day is left out: it is the
    price of ordinary requests at noon."""
    found = _find(model) if model else None
    if found is None:
        return None
    try:
        noon = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    except ValueError:
        noon = datetime.now(timezone.utc)
    prices = found.get_prices(noon)
    input, output = _dollars(prices.input_mtok), _dollars(prices.output_mtok)
    if input is None or output is None:
        return None
    read, write = _dollars(prices.cache_read_mtok), _dollars(prices.cache_write_mtok)
    # without a price of their own, cached tokens are input as any other
    return Rates(input, output, input if read is None else read, input if write is None else write)


def list_price_usd(
    model: Any, input: Any, output: Any, cache_read: Any, cache_write: Any, time: Any
) -> float | None:
    """The SQL function of this name: US dollars for these numbers of tokens (``null`` is none) at
    the prices of ``model`` on the day that ``time``, an ISO date or time, begins with. ``None``
    where the model has no price, no number is given, or something is no number of tokens."""
    tokens = [input, output, cache_read, cache_write]
    if not isinstance(model, str) or all(number is None for number in tokens):
        return None
    if any(not isinstance(number, int | None) or abs(number or 0) > 2**53 for number in tokens):
        return None
    found = rates(model[: _LONGEST_NAME + 1], time[:10] if isinstance(time, str) else "")
    return None if found is None else found.price(*(number or 0 for number in tokens))


def _dollars(price: Any) -> float | None:
    base = getattr(price, "base", price)  # tiers are for single requests, which nobody knows here
    return None if base is None else float(base)


@functools.lru_cache(maxsize=4_096)
def _find(model: str) -> Any:
    """The entry of ``genai-prices`` for a model as a tool names it, or ``None``."""
    if len(model) > _LONGEST_NAME:
        return None
    from genai_prices import Usage, calc_price

    for name, provider in _names(model):
        try:
            return calc_price(Usage(input_tokens=0), name, provider_id=provider).model
        except (LookupError, ValueError):
            continue
    return None


def _names(model: str) -> Iterator[tuple[str, str | None]]:
    """(name, provider) under which a model may be listed: as it is, then without what tools add."""
    name = model.strip().lower()
    yield name, None
    if _REGION.match(name) or name.startswith("anthropic."):
        yield name, "aws"
        return
    maker, slash, rest = name.rpartition("/")
    if slash:
        if maker not in _PASSED_ON_BY:
            return
        name = rest
        yield name, None
    plain = _EFFORT.sub("", _CONTEXT.sub("", name.replace("@", "-")))
    if plain != name:
        yield plain, None
    written = _CURSORS_CLAUDE.fullmatch(plain)
    if written:
        version = "-".join(number for number in written.group(1, 2) if number)
        tail = written[4] or ""
        yield f"claude-{written[3]}-{version}{tail}", None
        yield f"claude-{version}-{written[3]}{tail}", None
