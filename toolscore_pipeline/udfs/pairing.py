"""SQL functions ``assign_calls`` and ``sequence_distance``, over distinct problems."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import ARROW

from toolscore_pipeline import pairing
from toolscore_pipeline.arrays import array_of

_CHOICES = pa.list_(pa.int32())


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Add ``assign_calls(integer[], integer)`` and ``sequence_distance(bigint[], bigint[])``."""
    connection.create_function(
        "assign_calls", _assign_calls, ["INTEGER[]", "INTEGER"], "INTEGER[]", type=ARROW
    )
    connection.create_function(
        "sequence_distance", _sequence_distance, ["BIGINT[]", "BIGINT[]"], "INTEGER", type=ARROW
    )


def _assign_calls(weights: Any, column_counts: Any) -> pa.Array:
    problems = zip(weights.to_pylist(), column_counts.to_pylist(), strict=True)
    return array_of([pairing.assign_calls(*problem) for problem in problems], _CHOICES)


def _sequence_distance(expected: Any, called: Any) -> pa.Array:
    couples = zip(expected.to_pylist(), called.to_pylist(), strict=True)
    return array_of([pairing.sequence_distance(*couple) for couple in couples], pa.int32())
