"""Amounts as reports print them: no measured amount becomes a zero, and none has an exponent."""

from __future__ import annotations

from decimal import Decimal


def dollars(amount: float | None) -> str:
    """US dollars with four digits, large ones to the cent: ``$0.000339``, ``$12,345.67``."""
    return "unknown" if amount is None else f"${_fixed(amount, 4)}"


def seconds(amount: float | None) -> str:
    """Seconds with three digits: ``0.0012 s``, ``3.21 s``, ``4,500 s``."""
    return "unknown" if amount is None else f"{_fixed(amount, 3)} s"


def percent(share: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """A share of 1 in per cent: ``58.3%``, or ``+57.4%`` for a change."""
    if share is None:
        return "unknown"
    return f"{100 * share:{'+' if signed else ''}.{digits}f}%"


def percent_range(low: float, high: float) -> str:
    """An interval of shares in per cent: ``42.2 to 72.9%``."""
    return f"{percent(low).removesuffix('%')} to {percent(high)}"


def _fixed(amount: float, digits: int) -> str:
    """An amount with so many significant digits; from a thousand on with two or none behind."""
    if abs(amount) >= 1000:
        return f"{amount:,.{2 if digits > 3 else 0}f}"
    return f"{Decimal(f'{amount:.{digits}g}'):f}"
