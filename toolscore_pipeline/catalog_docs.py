"""The documentation that a published warehouse carries in itself: the schema ``docs``.

``docs.tables``, ``docs.columns`` and ``docs.macros`` are made from the plan and the macro files, so
they cannot lag behind them. They are written while the copy is made, into it and not into the
warehouse, and cost a few milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from toolscore_pipeline.arrays import text_table
from toolscore_pipeline.plan import Column, Model, Plan, load_plan, macro_files
from toolscore_pipeline.runner import staged

SCHEMA = "docs"
_CATALOG = "{catalog}"
_MACRO = re.compile(
    r"^(?P<comments>(?:--[^\n]*\n)+)"
    r"create or replace macro (?P<name>[a-z_0-9]+)\((?P<parameters>[^)]*)\)",
    re.MULTILINE,
)
_EXAMPLE = re.compile(r"^example: (?P<call>.+) is (?P<result>\S+)$")


@dataclass(frozen=True, slots=True)
class Macro:
    """One macro of ``sql/macros``.

    Attributes:
        name: its name; every macro stands in the schema ``main``.
        parameters: the names of its parameters.
        description: the comment above it.
        example: a call of it; None for a step that only other macros use.
        result: what that call gives, numbers rounded.
        file: the file it stands in, without its ending.
    """

    name: str
    parameters: tuple[str, ...]
    description: str
    example: str | None
    result: str | None
    file: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of the published copy that no model file makes, and its documentation."""

    schema: str
    name: str
    description: str
    grain: str
    null_rule: str
    columns: tuple[Column, ...]


STATE = Relation(
    "settings",
    "state",
    "Remarks that a build leaves for the next one.",
    "one row per remark",
    "never",
    (
        Column("name", "varchar", "what the remark is about"),
        Column("value", "varchar", "what it says: a count or a hash"),
    ),
)
TABLES = Relation(
    SCHEMA,
    "tables",
    "Every table and view of this copy, in the order of the data.",
    "one row per table or view",
    "key_columns of what is made anew; row_count of views, whose rows are made when asked for",
    (
        Column("schema_name", "varchar", "the schema, which is the layer it belongs to"),
        Column("table_name", "varchar", "the table or view"),
        Column(
            "kind", "varchar", "table (made anew by a build), incremental (rows are added) or view"
        ),
        Column("description", "varchar", "what it holds"),
        Column("grain", "varchar", "what one row is"),
        Column("null_rule", "varchar", "which columns can be null, and when"),
        Column("key_columns", "varchar[]", "what tells its rows, or groups of rows, apart"),
        Column("column_count", "integer", "how many columns it has"),
        Column("row_count", "bigint", "how many rows it had when this copy was made"),
    ),
)
COLUMNS = Relation(
    SCHEMA,
    "columns",
    "Every column of every table and view of this copy.",
    "one row per column",
    "never",
    (
        Column("schema_name", "varchar", "the schema of its table"),
        Column("table_name", "varchar", "its table or view"),
        Column("column_position", "integer", "its place, from 1"),
        Column("column_name", "varchar", "the column"),
        Column("column_type", "varchar", "its DuckDB type"),
        Column("description", "varchar", "what it holds"),
    ),
)
MACROS = Relation(
    SCHEMA,
    "macros",
    "Every function that this copy brings along.",
    "one row per macro",
    "example and result for those that are steps of others",
    (
        Column("macro_name", "varchar", "its name"),
        Column("parameters", "varchar[]", "names of its parameters"),
        Column("description", "varchar", "what it gives"),
        Column("example", "varchar", "a call of it"),
        Column("result", "varchar", "what that call gives, numbers rounded"),
        Column("topic", "varchar", "statistics, or what else it is about"),
    ),
)
OWN = (STATE, TABLES, COLUMNS, MACROS)


def read_macros(root: Path | None = None) -> list[Macro]:
    """Every macro with the comment above it, in the order of the files.

    A comment's last lines may be ``example: CALL is RESULT``.
    """
    macros = []
    for path in macro_files(root):
        for match in _MACRO.finditer(path.read_text(encoding="utf-8")):
            sentences, example, result = [], None, None
            for line in match["comments"].splitlines():
                content = line.removeprefix("--").strip()
                if shown := _EXAMPLE.match(content):
                    example, result = shown["call"], shown["result"]
                else:
                    sentences.append(content)
            parameters = tuple(name.strip() for name in match["parameters"].split(","))
            macros.append(
                Macro(match["name"], parameters, " ".join(sentences), example, result, path.stem)
            )
    return macros


def stored_models(plan: Plan) -> list[Model]:
    """The models that a warehouse stores, tables and views, in build order."""
    return [model for model in plan if model.kind != "ephemeral"]


@dataclass(frozen=True, slots=True)
class _Documents:
    """What is to be written: rows of the three tables, and the statements that set comments."""

    tables: tuple[dict[str, Any], ...]
    columns: tuple[dict[str, Any], ...]
    macros: tuple[dict[str, Any], ...]
    comments: str


@cache
def _documents(plan: Plan) -> _Documents:
    tables: list[dict[str, Any]] = []
    columns: list[dict[str, Any]] = []
    entries: list[Model | Relation] = [*stored_models(plan), *OWN]
    for entry in entries:
        if isinstance(entry, Model):
            schema, kind, key = entry.layer, entry.kind, list(entry.key) or None
            grain, null_rule = entry.header.get("grain"), entry.header.get("null")
        else:
            schema, kind, key = entry.schema, "table", None
            grain, null_rule = entry.grain, entry.null_rule
        place = {"schema_name": schema, "table_name": entry.name}
        tables.append(
            place
            | {"kind": kind, "description": entry.description, "grain": grain}
            | {"null_rule": null_rule, "key_columns": key, "column_count": len(entry.columns)}
        )
        columns += [
            place
            | {"column_position": position, "column_name": column.name}
            | {"column_type": column.type, "description": column.comment}
            for position, column in enumerate(entry.columns, start=1)
        ]
    macros = [
        {"macro_name": macro.name, "parameters": macro.parameters, "topic": macro.file}
        | {"description": macro.description, "example": macro.example, "result": macro.result}
        for macro in read_macros()
    ]
    return _Documents(tuple(tables), tuple(columns), tuple(macros), "; ".join(_comments()))


def documentation_version(plan: Plan | None = None) -> str:
    """A hash of all that the schema ``docs`` says but the counts of rows."""
    told = _documents(plan or load_plan())
    texts = [json.dumps(told.tables), json.dumps(told.columns), json.dumps(told.macros)]
    return hashlib.sha256("\n".join([*texts, told.comments]).encode()).hexdigest()


def write_documentation(
    connection: duckdb.DuckDBPyConnection, catalog: str, plan: Plan | None = None
) -> None:
    """Make the schema ``docs`` in an attached database, and comment on what has no comment yet.

    Args:
        connection: where the database is attached, for writing; not within a transaction.
        catalog: the name it is attached as.
        plan: the models it holds.
    """
    told = _documents(plan or load_plan())
    tables_of = "select database_name, schema_name, table_name from duckdb_tables()"
    names = [row[1:] for row in connection.execute(tables_of).fetchall() if row[0] == catalog]
    counts: dict[tuple[str, str], int] = {
        (schema, table): _count(connection, f'{catalog}."{schema}"."{table}"')
        for schema, table in names
    }
    own = {"tables": len(told.tables), "columns": len(told.columns), "macros": len(told.macros)}
    counts |= {(SCHEMA, name): count for name, count in own.items()}
    tables = [
        row | {"row_count": counts.get((row["schema_name"], row["table_name"]))}
        for row in told.tables
    ]
    connection.execute("begin")
    try:
        connection.execute(f"create schema if not exists {catalog}.{SCHEMA}")
        for relation, rows in ((TABLES, tables), (COLUMNS, told.columns), (MACROS, told.macros)):
            fields = ", ".join(f"row.{c.name}::{c.type} as {c.name}" for c in relation.columns)
            with staged(connection, text_table({"document": [json.dumps(rows)]})) as document:
                connection.execute(
                    f"create or replace table {catalog}.{SCHEMA}.{relation.name} as select {fields}"
                    f" from (select unnest(from_json(document, '{_shape(relation.columns)}'))"
                    f" as row from {document})"
                )
        connection.execute(told.comments.replace(_CATALOG, catalog))
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"select count(*) from {table}").fetchone()
    return int(row[0]) if row else 0


def _shape(columns: Iterable[Column]) -> str:
    """The structure of a JSON list of rows, as ``from_json`` takes it."""
    fields: dict[str, Any] = {
        column.name: [column.type[:-2]] if column.type.endswith("[]") else column.type
        for column in columns
    }
    return json.dumps([fields])


def _comments() -> Iterator[str]:
    """The statements that comment on what model files do not; the catalog's name is left open."""
    # COMMENT takes no parameters; the texts are the project's own, quoted all the same.
    for relation in OWN:
        name = f"{_CATALOG}.{relation.schema}.{relation.name}"
        yield f"comment on table {name} is {_literal(relation.description)}"
        for column in relation.columns:
            yield f"comment on column {name}.{column.name} is {_literal(column.comment)}"
    for macro in read_macros():
        yield f"comment on macro {_CATALOG}.main.{macro.name} is {_literal(macro.description)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
