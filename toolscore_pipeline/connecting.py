"""Connections to DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb


def connect(path: str = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """Open a database; options as of ``duckdb.connect``."""
    connection = duckdb.connect(path, **options)
    be_quiet(connection)
    return connection


def be_quiet(connection: duckdb.DuckDBPyConnection) -> None:
    """Draw no bar of progress: DuckDB draws one on standard output, where reports go.

    It does so in a program without a file (``python -c``, a notebook) when a query is slow. A
    cursor has this setting of its own.
    """
    connection.execute("set enable_progress_bar = false")
