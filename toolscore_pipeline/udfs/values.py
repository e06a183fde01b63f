"""``value_keys``: for a JSON text, three texts that are equal when the values are."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
from duckdb.func import ARROW

from toolscore_pipeline import matchers
from toolscore_pipeline.arrays import array_of


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register ``value_keys(value_json) -> varchar[]``: the strict, plain and lenient key.

    See :func:`toolscore_pipeline.matchers.value_keys` for what each of them holds equal. A text
    that is no JSON is its own key in all three.
    """
    connection.create_function("value_keys", value_keys, ["VARCHAR"], "VARCHAR[]", type=ARROW)


def value_keys(value_json: pa.Array) -> pa.Array:
    """The three keys of each JSON text."""
    return array_of([_keys(text) for text in value_json.to_pylist()], pa.list_(pa.string()))


def _keys(text: str) -> list[str]:
    try:
        return list(matchers.value_keys(json.loads(text)))
    except (ValueError, RecursionError):
        return [text, text, text]
