"""How the pages write numbers: one way for all of them."""

from __future__ import annotations


def whole(value: float) -> str:
    """``12,345``."""
    return f"{round(value):,}"


def short(value: float) -> str:
    """``12,345``, ``123 K``, ``1.2 M``: three digits are enough where there is little room."""
    for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if value >= limit:
            scaled = value / limit
            text = f"{scaled:.1f}" if scaled < 100 else f"{scaled:,.0f}"
            return f"{text.removesuffix('.0')} {unit}"
    return f"{value / 1e3:,.0f} K" if value >= 100_000 else whole(value)


def dollars(value: float) -> str:
    """``$1,234.50``; what is less than a cent says so."""
    if 0 < value < 0.01:
        return "< $0.01"
    return f"${value:,.2f}" if value < 10_000 else f"${value:,.0f}"


def percent(part: float, whole_: float) -> str:
    if not whole_ or not part:
        return "0 %"
    share = 100 * part / whole_
    return f"{share:.1f} %" if 0.05 <= share < 99.95 else "< 0.1 %" if share < 1 else "100 %"
