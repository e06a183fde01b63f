"""Questions to the published copy: read-only, without a way out of the file, within limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import duckdb

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.warehouse import Warehouse

MEMORY_LIMIT = "4GB"


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query.

    Attributes:
        columns: the column names.
        rows: the rows, as tuples.
        is_cut: whether there were more rows than the limit.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    is_cut: bool


def ask(
    warehouse: Warehouse, query: str, *, limit: int | None = 1000, seconds: float = 60.0
) -> Answer:
    """Run one SELECT on the published copy.

    The connection is read-only, has no access to files, extensions or other databases, and its
    settings are locked.

    Args:
        warehouse: whose published copy is asked.
        query: one statement.
        limit: the most rows returned; None returns all.
        seconds: how long the query may run.

    Raises:
        WarehouseError: nothing has been published yet.
        InputError: the query is wrong, is not one SELECT, or ran longer than it may.
    """
    connection = warehouse.read()
    try:
        connection.execute("set memory_limit = '" + MEMORY_LIMIT + "'")
        connection.execute("set lock_configuration = true")
        return _ask(connection, query, limit, seconds)
    except duckdb.InterruptException:
        raise InputError(f"the query ran longer than {seconds:g} seconds and was stopped") from None
    except duckdb.Error as error:
        raise InputError(_message(str(error))) from None
    finally:
        connection.close()


def _ask(
    connection: duckdb.DuckDBPyConnection, query: str, limit: int | None, seconds: float
) -> Answer:
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise InputError(f"expected one statement, got {len(statements)}")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise InputError(
            f"expected a SELECT, got {statements[0].type.name}; the published copy is read-only"
        )
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    try:
        result = connection.execute(statements[0])
        columns = [column[0] for column in result.description or []]
        rows = result.fetchall() if limit is None else result.fetchmany(limit + 1)
    finally:
        timer.cancel()
    is_cut = limit is not None and len(rows) > limit
    return Answer(columns, rows[:limit] if is_cut else rows, is_cut)


def _message(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    hint = next(
        (
            f" ({line.strip()})"
            for line in lines[1:]
            if "Did you mean" in line or "Candidate" in line
        ),
        "",
    )
    return lines[0] + hint
