"""Questions to the published copy: read-only, without a way out of the file, within limits.

What keeps a question in are several walls, each of which would do for most attempts:

- the database is opened read-only, without access to files, other databases or extensions, without
  room to spill to disk, and with its settings locked;
- a question is one SELECT (or DESCRIBE, SUMMARIZE, SHOW, EXPLAIN of one), by DuckDB's own parser;
- a table function is one of a few that only compute, so that none that changes the process
  (logging, checkpoints, profiles) or runs other text is within reach;
- time, memory and rows are limited.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.warehouse import Warehouse

MEMORY = "2GB"
# What must not leave the file: set when the database is opened, before anything can run.
_CONFIG: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
_TABLE_FUNCTIONS = frozenset(
    "unnest range generate_series repeat json_each json_tree test_all_types pragma_version"
    " pragma_table_info pragma_show duckdb_columns duckdb_constraints duckdb_databases"
    " duckdb_functions duckdb_keywords duckdb_schemas duckdb_tables duckdb_types"
    " duckdb_views".split()
)
_FUNCTIONS_REFUSED = frozenset(("getenv", "write_log"))
_EXPLAIN = re.compile(r"\s*explain\s+(?:analyze\s+)?", re.IGNORECASE)
_COMMENT = re.compile(r"\s*(?:--[^\n]*(?:\n|$)|/\*.*?\*/)", re.DOTALL)
_PIVOT = re.compile(r"\bpivot(?:_wider)?\b", re.IGNORECASE)
_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one question may take.

    Attributes:
        rows: the most rows returned; None returns all.
        seconds: how long it may run; None for as long as it takes.
        memory: what DuckDB may use, as DuckDB writes sizes; None leaves DuckDB's own limit.
    """

    rows: int | None = 1000
    seconds: float | None = 60.0
    memory: str | None = MEMORY


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
    warehouse: Warehouse,
    query: str,
    *,
    limit: int | None = 1000,
    seconds: float | None = 60.0,
    memory: str | None = MEMORY,
    is_unsafe: bool = False,
    on_stuck: Callable[[], None] | None = None,
) -> Answer:
    """Run one SELECT on the published copy.

    Args:
        warehouse: whose published copy is asked.
        query: one statement.
        limit: the most rows returned; None returns all.
        seconds: how long the query may run; None for as long as it takes.
        memory: what DuckDB may use, such as ``2GB``; None leaves DuckDB's own limit.
        is_unsafe: lift the walls: any statements, files, extensions and other databases. The
            published copy itself is still opened read-only.
        on_stuck: called, from another thread, when a query does not heed its interruption: DuckDB
            looks for one between rows only, and some functions take long for a single row.

    Raises:
        WarehouseError: nothing has been published yet.
        InputError: the query is wrong, is not one SELECT, or took more than it may.
    """
    limits = Limits(limit, seconds, memory)
    try:
        with _open(warehouse, limits, is_unsafe=is_unsafe) as connection:
            statements = (
                connection.extract_statements(query) if is_unsafe else [_check(connection, query)]
            )
            if not statements:
                raise InputError("expected a statement, got none")
            with _watch(connection, limits.seconds, on_stuck):
                for statement in statements:
                    result = connection.execute(statement)
                return _fetch(result, limits.rows)
    except duckdb.InterruptException:
        raise InputError(f"the query ran longer than {seconds:g} seconds and was stopped") from None
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"the query needs more memory than {memory or 'there is'}: {_message(str(error))}"
        ) from None
    except duckdb.Error as error:
        raise InputError(_message(str(error))) from None
    except (MemoryError, RuntimeError) as error:
        # Rows that do not fit: DuckDB's client says so as "Could not allocate tuple object!".
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, MemoryError):
            raise
        raise InputError(
            f"the rows need more memory than {memory or 'there is'}; ask for fewer of them"
        ) from None


@contextmanager
def _open(
    warehouse: Warehouse, limits: Limits, *, is_unsafe: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    config = {} if is_unsafe else dict(_CONFIG)
    if limits.memory:
        config["memory_limit"] = limits.memory
    with warehouse.read(config) as connection:
        connection.execute("set TimeZone = 'UTC'")
        if not is_unsafe:
            connection.execute("set lock_configuration = true")
        yield connection


def _check(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """The one statement of a query that may be run.

    Raises:
        InputError: it is none, several, no SELECT, or calls what is out of reach.
    """
    statements = connection.extract_statements(query)
    kinds = [_kind(one) for one in statements]
    if kinds in (["CREATE", "SELECT"], ["MULTI"]) and _PIVOT.search(query):
        # DuckDB makes several statements of it: the first asks which values there are.
        raise InputError("a PIVOT names its values here: pivot ... on column in ('a', 'b')")
    if len(statements) != 1:
        raise InputError(f"expected one statement, got {len(statements)}")
    [statement] = statements
    text, kind = statement.query, _kind(statement)
    if kind == "EXPLAIN":
        text = _without_explain(text)
        inner = connection.extract_statements(text) if text else []
        kind = _kind(inner[0]) if len(inner) == 1 else kind
    if kind != "SELECT":
        raise InputError(f"expected a SELECT, got {kind}; the published copy is read-only")
    row = connection.execute("select json_serialize_sql($1)", [text]).fetchone()
    tree = json.loads(row[0] if row else "{}")
    if tree.get("error", True):
        # A PRAGMA passes for a SELECT; it cannot be looked into.
        raise InputError("expected a SELECT that can be looked into, such as no PRAGMA")
    for name in _out_of_reach(tree):
        raise InputError(f"the function {name} is out of reach; --unsafe lifts this")
    return statement


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # DuckDB knows kinds that its Python client has no name for
        return "another statement"


def _without_explain(text: str) -> str:
    while match := _COMMENT.match(text):
        text = text[match.end() :]
    match = _EXPLAIN.match(text)
    return text[match.end() :] if match else ""


def _out_of_reach(tree: Any) -> Iterator[str]:
    """Names of functions in a parsed statement that may not be called."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, dict):
            todo.extend(node.values())
            name = str(node.get("function_name", "")).lower()
            if name in _FUNCTIONS_REFUSED:
                yield name
            if node.get("type") == "TABLE_FUNCTION":
                called = node.get("function")
                called = called.get("function_name", "") if isinstance(called, dict) else ""
                if str(called).lower() not in _TABLE_FUNCTIONS:
                    yield str(called) or "of a table"


@contextmanager
def _watch(
    connection: duckdb.DuckDBPyConnection,
    seconds: float | None,
    on_stuck: Callable[[], None] | None,
) -> Iterator[None]:
    """Interrupt what runs longer than it may, again and again until it heeds."""
    if seconds is None:
        yield
        return
    done = threading.Event()

    def stop() -> None:
        if done.wait(seconds):
            return
        waited = 0.0
        while not done.is_set():
            connection.interrupt()
            if done.wait(0.05):
                return
            waited += 0.05
            if waited >= _GRACE_SECONDS and on_stuck is not None:
                on_stuck()
                return

    watcher = threading.Thread(target=stop, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(1.0)


def _fetch(result: duckdb.DuckDBPyConnection, limit: int | None) -> Answer:
    columns = [column[0] for column in result.description or []]
    rows = result.fetchall() if limit is None else result.fetchmany(limit + 1)
    is_cut = limit is not None and len(rows) > limit
    return Answer(columns, rows[:limit] if is_cut else rows, is_cut)


@contextmanager
def bounded_memory(memory: str | None) -> Iterator[None]:
    """Bound what the whole process may take, where the system can.

    DuckDB's own limit leaves out the values inside a row: one list or text may take more.

    Args:
        memory: the limit of DuckDB, such as ``2GB``; the process may take that much three times
            over, and what threads reserve. None bounds nothing.
    """
    size = size_in_bytes(memory) if memory else None
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        size = None
    if size is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = taken + 3 * size + (os.cpu_count() or 1) * 2**28
    if any(bound not in (resource.RLIM_INFINITY, -1) and bound < wanted for bound in (soft, hard)):
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def size_in_bytes(size: str) -> int | None:
    """A size such as ``500MB`` or ``2GiB`` in bytes; None when it is no size."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(i?)b?\s*", size.lower())
    if not match:
        return None
    power = "kmgt".index(match[2]) + 1
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


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
