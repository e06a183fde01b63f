"""``is_english``: whether a final answer is in English, for answers that need no other reading."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from duckdb.func import ARROW

from toolscore_pipeline.arrays import array_of


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register ``is_english(answer varchar) -> boolean`` on a connection.

    It is the language test of the honesty checks. Call it over distinct answers.
    """
    connection.create_function("is_english", is_english, ["VARCHAR"], "BOOLEAN", type=ARROW)


def is_english(answers: pa.Array) -> pa.Array:
    """One answer per row."""
    from toolscore_pipeline.honesty import language
    from toolscore_pipeline.honesty.text import prose

    return array_of([language.is_english(prose(text)) for text in answers.to_pylist()], pa.bool_())
