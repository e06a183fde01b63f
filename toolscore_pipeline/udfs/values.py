"""``normalise_value`` and ``lenient_key``: texts that are equal when the JSON values are."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from toolscore_pipeline import matchers


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register ``normalise_value(value_json)`` and ``lenient_key(value_json)`` on a connection.

    ``normalise_value`` is the plain key: numbers by value at any depth (1.0 as 1, exactly), keys
    sorted, no white space. ``lenient_key`` also trims a value that is a text itself, of the 29
    characters that Python's ``strip`` knows. Both give a text that is no JSON back as it is.
    """
    for name, function in (
        ("normalise_value", normalise_value),
        ("lenient_key", lenient_key),
    ):
        connection.create_function(
            name, function, ["VARCHAR"], "VARCHAR", type=ARROW, null_handling=SPECIAL
        )


def normalise_value(value_json: pa.Array) -> pa.Array:
    """The plain key of each JSON text; NULL for NULL."""
    return _each(matchers.plain_key, value_json)


def lenient_key(value_json: pa.Array) -> pa.Array:
    """The lenient key of each JSON text; NULL for NULL."""
    return _each(matchers.lenient_key, value_json)


def _each(function: Callable[[str], str], texts: pa.Array) -> pa.Array:
    return pa.array([_safe(function, text) for text in texts.to_pylist()], pa.string())


def _safe(function: Callable[[str], str], text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return function(text)
    except (ValueError, RecursionError):
        return text
