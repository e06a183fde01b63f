"""``match_value``: whether an argument value meets a declared value with matchers in it."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from toolscore_pipeline.arrays import array_of
from toolscore_pipeline.matchers import decide_json


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register ``match_value(matcher_json, value_json, is_strict)`` on a connection.

    It is true or false, or NULL when a pattern was over its time budget. An absent value (NULL)
    meets nothing. Call it over distinct pairs: it is plain Python inside.
    """
    connection.create_function(
        "match_value",
        match_value,
        ["VARCHAR", "VARCHAR", "BOOLEAN"],
        "BOOLEAN",
        type=ARROW,
        null_handling=SPECIAL,
    )


def match_value(matcher_json: pa.Array, value_json: pa.Array, is_strict: pa.Array) -> pa.Array:
    """One answer per row; NULL where the row has no matcher or no answer is known."""
    rows = zip(matcher_json.to_pylist(), value_json.to_pylist(), is_strict.to_pylist(), strict=True)
    return array_of([_answer(*row) for row in rows], pa.bool_())


def _answer(
    matcher_json: str | None, value_json: str | None, is_strict: bool | None
) -> bool | None:
    if matcher_json is None:
        return None
    if value_json is None:
        return False
    try:
        return decide_json(matcher_json, value_json, bool(is_strict))
    except (json.JSONDecodeError, RecursionError):
        return None
