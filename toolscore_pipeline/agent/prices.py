"""What models cost: a dated table of list prices, and the arithmetic of one model call.

Money is counted in :class:`decimal.Decimal` US dollars, so that sums of many small calls compare
exactly with a budget.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

PRICES_PATH = Path(__file__).with_name("prices.json")
"""The shipped price table (US dollars per million tokens), with its date and source."""

_MILLION = Decimal(1_000_000)
_DATED = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|@[\w.-]+|-latest)$")
_STANDARD = {
    "service_tier": {"auto", "default", "standard", "standard_only"},
    "speed": {"standard"},
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls, as the provider reported them.

    Attributes:
        input_tokens: every input token, cached or not.
        output_tokens: every output token, reasoning included.
        cache_read_tokens: the part of the input read from the provider's cache.
        cache_write_tokens: the part of the input written to it for the usual time.
        cache_write_1h_tokens: the part written for an hour.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that are none: a negative one would give money back to a budget."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")

    def __add__(self, other: Usage) -> Usage:
        """The sums of both."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
        )


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in US dollars per million tokens.

    Attributes:
        input_per_million: uncached input tokens.
        output_per_million: output tokens.
        source: where the price comes from, for reports.
        cache_read_per_million: cached input; None charges it as ordinary input.
        cache_write_per_million: input written to the cache; None charges it as ordinary input.
        cache_write_1h_per_million: the same for an hour; None charges it as the shorter write.
        above_input_tokens: calls with more input tokens than this cost ``above`` instead.
        above: the price of such calls.
    """

    input_per_million: float
    output_per_million: float
    source: str = ""
    cache_read_per_million: float | None = None
    cache_write_per_million: float | None = None
    cache_write_1h_per_million: float | None = None
    above_input_tokens: int | None = None
    above: Price | None = None

    def __post_init__(self) -> None:
        """Refuse prices that are negative or not finite."""
        for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h"):
            value = getattr(self, f"{name}_per_million")
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"a price must be 0 or more, got {name}_per_million={value!r}")

    @property
    def is_free(self) -> bool:
        """Whether every token costs nothing."""
        rates = (self.input_per_million, self.output_per_million, self.cache_write_per_million or 0)
        return not any(rates) and (self.above is None or self.above.is_free)

    def cost(self, usage: Usage) -> Decimal:
        """The cost in US dollars of one model call with this usage."""
        if self._is_above(usage.input_tokens) and self.above is not None:
            return self.above.cost(usage)
        write = _or(self.cache_write_per_million, self.input_per_million)
        parts = (
            (usage.cache_read_tokens, _or(self.cache_read_per_million, self.input_per_million)),
            (usage.cache_write_tokens, write),
            (usage.cache_write_1h_tokens, _or(self.cache_write_1h_per_million, write)),
        )
        plain = usage.input_tokens - sum(count for count, _ in parts)
        total = max(plain, 0) * _money(self.input_per_million)
        total += usage.output_tokens * _money(self.output_per_million)
        for count, rate in parts:
            total += count * _money(rate)
        return total / _MILLION

    def worst_cost(self, input_tokens: int, output_tokens: int, *, may_cache: bool) -> Decimal:
        """The most a call of at most so many tokens can cost, in US dollars.

        With ``may_cache`` every input token may be one that is written to the provider's cache,
        which costs more than an ordinary one.
        """
        rates = [self.input_per_million]
        if may_cache:
            rates += [self.cache_write_per_million or 0, self.cache_write_1h_per_million or 0]
        worst = (
            input_tokens * _money(max(rates)) + output_tokens * _money(self.output_per_million)
        ) / _MILLION
        if self._is_above(input_tokens) and self.above is not None:
            worst = max(
                worst, self.above.worst_cost(input_tokens, output_tokens, may_cache=may_cache)
            )
        return worst

    def _is_above(self, input_tokens: int) -> bool:
        return self.above_input_tokens is not None and input_tokens > self.above_input_tokens

    def to_dict(self) -> dict[str, Any]:
        """The price as JSON values, unset parts left out."""
        record: dict[str, Any] = {
            "input_per_million": self.input_per_million,
            "output_per_million": self.output_per_million,
            "source": self.source,
        }
        for name in ("cache_read", "cache_write", "cache_write_1h"):
            value = getattr(self, f"{name}_per_million")
            if value is not None:
                record[f"{name}_per_million"] = value
        if self.above is not None:
            record["above_input_tokens"] = self.above_input_tokens
            record["above"] = self.above.to_dict()
        return record


FREE = Price(0.0, 0.0, "scripted (free)")
"""The price of the scripted provider."""


def find_price(provider: str, model: str, extra: dict[str, Any] | None = None) -> Price | None:
    """The list price of a model, or None when the table does not hold it.

    A model name with a date, ``@version`` or ``-latest`` behind it is priced as the model itself;
    any other difference makes the price unknown. It is unknown too when ``extra`` asks for a
    service tier or speed other than the standard one, for those have prices of their own.
    """
    if provider == "scripted":
        return FREE
    for name, standard in _STANDARD.items():
        if extra and extra.get(name) is not None and extra[name] not in standard:
            return None
    table = price_table()
    models = table["models"].get(provider, {})
    entry = models.get(model) or models.get(_DATED.sub("", model))
    return None if entry is None else _from_entry(entry, f"list price of {table['as_of']}")


@cache
def price_table() -> dict[str, Any]:
    """The shipped price table: ``as_of``, ``unit``, ``source`` and ``models`` by provider."""
    table: dict[str, Any] = json.loads(PRICES_PATH.read_text(encoding="utf-8"))
    return table


def _from_entry(entry: dict[str, Any], source: str) -> Price:
    above = entry.get("above")
    return Price(
        float(entry["input"]),
        float(entry["output"]),
        source,
        entry.get("cache_read"),
        entry.get("cache_write"),
        entry.get("cache_write_1h"),
        entry.get("above_input_tokens"),
        None if above is None else _from_entry(above, source),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _money(value: float) -> Decimal:
    return Decimal(repr(value))
