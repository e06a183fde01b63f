"""Runs the tests of the SQL models: `tests/sql/<layer>/<model>.yaml`, see tests/sql/README.md."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from toolscore_pipeline.errors import nearest
from toolscore_pipeline.plan import LAYERS, Audit, Model, Plan, load_audits, load_plan
from toolscore_pipeline.runner import (
    INPUT_LAYERS,
    create_schemas,
    create_table,
    prepare_connection,
)

FOLDER = Path(__file__).parent / "sql"
RELATIVE_TOLERANCE = 1e-12

Row = Mapping[str, Any]


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which naming a key twice is an error: two tests of one name would hide one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.YAMLError(f"{', '.join(map(str, twice))} twice, {node.start_mark}")
        return super().construct_mapping(node, deep)


def read_tests(path: Path) -> dict[str, Any]:
    """The document of one test file."""
    with path.open(encoding="utf-8") as file:
        document: dict[str, Any] = yaml.load(file, UniqueKeyLoader)
    return document


def test_cases() -> Iterator[Any]:
    """One pytest parameter per test of every file."""
    for path in sorted(FOLDER.glob("*/*.yaml")):
        model = f"{path.parent.name}.{path.stem}"
        for name, case in read_tests(path).items():
            if name != "model":
                yield pytest.param(model, case, id=f"{model}-{name}")


test_cases.__test__ = False  # type: ignore[attr-defined]
CASES = list(test_cases())


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection like the engine's, in which every relation, views too, is an empty table."""
    with duckdb.connect(":memory:") as connection:
        prepare_connection(connection)
        create_schemas(connection, [*LAYERS, "staged"])
        plan = load_plan()
        for model in plan:
            connection.execute(create_table(model))
        for name, fields in source_tables(plan).items():
            connection.execute(f"create table {name} ({fields})")
        yield connection


@pytest.fixture
def empty(database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same connection inside a transaction that is undone afterwards."""
    database.execute("begin")
    yield database
    database.execute("rollback")


def source_tables(plan: Plan) -> dict[str, str]:
    """The columns, as text, of the relations that no file makes.

    They are the pairs to grade, and what Python stages. A staged table has the columns of the model
    that takes it in; one that only chooses rows may have any column of the layer it is read in.
    """
    found: dict[str, dict[str, str]] = {
        "work.pairs": {"pair_id": "bigint", "run_id": "varchar", "judgment_id": "varchar"}
    }
    for model in plan:
        for name in model.depends_on:
            if name.startswith("staged."):
                readers = [model] if model.layer in INPUT_LAYERS else plan.layer(model.layer)
                fields = found.setdefault(name, {})
                fields.update((c.name, c.type) for reader in readers for c in reader.columns)
    return {
        name: ", ".join(f"{column} {kind}" for column, kind in fields.items())
        for name, fields in found.items()
    }


def column_types(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The type of each column of a table, by name."""
    schema, name = table.split(".")
    rows = connection.execute(
        "select column_name, data_type from duckdb_columns()"
        " where schema_name = $1 and table_name = $2 order by column_index",
        [schema, name],
    ).fetchall()
    require(bool(rows), f"no model and no source is called {table!r}")
    return dict(rows)


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Row]) -> None:
    """Add rows to a table; columns that a row leaves out are null."""
    types = column_types(connection, table)
    for row in rows:
        for name in row:
            require(name in types, f"{table} has no column {name!r}{nearest(name, types)}")
        if not row:
            continue
        values = [as_parameter(value, types[name]) for name, value in row.items()]
        casts = ", ".join(f"${i}::{types[name]}" for i, name in enumerate(row, start=1))
        connection.execute(f"insert into {table} ({', '.join(row)}) select {casts}", values)


def as_parameter(value: Any, column_type: str) -> Any:
    """A YAML value as DuckDB takes it: a list or mapping for a text column as canonical JSON."""
    if column_type == "VARCHAR" and isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return value


def find_subject(name: str) -> Model | Audit:
    """The model, or the audit for a name in the layer ``audits``."""
    layer, _, short_name = name.partition(".")
    if layer != "audits":
        return load_plan()[name]
    found = [audit for audit in load_audits() if audit.name == short_name]
    require(bool(found), f"no audit is called {short_name!r}")
    return found[0]


def cte_query(query: str, cte: str) -> str:
    """A query up to its final SELECT, and then all of one CTE."""
    lines = query.splitlines()
    last = max(i for i, line in enumerate(lines) if line.startswith("select"))
    return "\n".join([*lines[:last], f"select * from {cte}"])


def fetch(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[Row]]:
    """The column names and the rows of a query."""
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description or []]
    return names, [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def same(expected: Any, actual: Any) -> bool:
    """Whether a value is the expected one; a float may differ by one part in 10 to the 12th."""
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(actual, (datetime, date)):
        return same_instant(expected, actual)
    if isinstance(expected, (int, float)) and isinstance(actual, (int, float, Decimal)):
        if isinstance(actual, int) and isinstance(expected, int):
            return expected == actual
        return math.isclose(expected, float(actual), rel_tol=RELATIVE_TOLERANCE, abs_tol=0)
    if isinstance(expected, (list, dict)) and isinstance(actual, str):
        return same(expected, json.loads(actual))
    if isinstance(expected, list) and isinstance(actual, (list, tuple)):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            same(expected[k], actual[k]) for k in actual
        )
    return bool(type(expected) is type(actual) and expected == actual)


def same_instant(expected: Any, actual: date) -> bool:
    """Whether a date or time of day is the expected one, given as such or as ISO 8601 text."""
    if isinstance(expected, str):
        expected = type(actual).fromisoformat(expected)
    if isinstance(expected, datetime) and isinstance(actual, datetime):
        # YAML drops the offset of "...Z" only after it has turned the time into UTC.
        return expected.replace(tzinfo=None) == actual.replace(tzinfo=None)
    return bool(expected == actual)


def difference(expected: Sequence[Row], names: list[str], actual: Sequence[Row]) -> str:
    """A description of the rows missing from and extra in a result, in no order; empty when equal.

    Only the columns that some expected row names are compared; a row that leaves one out expects
    null there.
    """
    compared = list(dict.fromkeys(name for row in expected for name in row)) or names
    unknown = [name for name in compared if name not in names]
    if unknown:
        return f"no column {unknown[0]!r} in the result{nearest(unknown[0], names)}"
    extra = [{name: row[name] for name in compared} for row in actual]
    missing = []
    for row in expected:
        wanted = {name: row.get(name) for name in compared}
        found = next(
            (i for i, have in enumerate(extra) if all(same(wanted[n], have[n]) for n in compared)),
            None,
        )
        if found is None:
            missing.append(wanted)
        else:
            extra.pop(found)
    lines = [f"- expected {row}" for row in missing] + [f"+ got      {row}" for row in extra]
    return "\n".join(lines)


def require(condition: bool, message: str) -> None:
    """Fail with a message and no traceback, for it is about a YAML or SQL file, not this one."""
    if not condition:
        pytest.fail(message, pytrace=False)


@pytest.mark.parametrize(("model", "case"), CASES)
def test_model(empty: duckdb.DuckDBPyConnection, model: str, case: dict[str, Any]) -> None:
    """The model, or audit, makes the expected rows of the given ones."""
    unknown = sorted(case.keys() - {"given", "expect", "expect_ctes"})
    require(not unknown, f"unknown key {unknown}: a test has given, expect and expect_ctes")
    require("expect" in case or "expect_ctes" in case, "the test expects nothing")
    subject = find_subject(model)
    for table, rows in (case.get("given") or {}).items():
        known = ", ".join(subject.depends_on)
        require(table in subject.depends_on, f"{model} does not read {table}, only {known}")
        insert(empty, table, rows)
    for cte, rows in (case.get("expect_ctes") or {}).items():
        problems = difference(rows, *fetch(empty, cte_query(subject.query, cte)))
        require(not problems, f"{model}, CTE {cte}:\n{problems}")
    if "expect" in case:
        problems = difference(case["expect"], *fetch(empty, subject.query))
        require(not problems, f"{model}:\n{problems}")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_test_file_names_the_model_it_lies_beside(path: Path) -> None:
    assert read_tests(path)["model"] == f"{path.parent.name}.{path.stem}"


@pytest.mark.parametrize("model", list(load_plan()), ids=lambda model: model.full_name)
def test_query_yields_the_declared_columns(empty: duckdb.DuckDBPyConnection, model: Model) -> None:
    described = empty.execute(f"describe {model.query}").fetchall()
    declared = column_types(empty, model.full_name)
    assert {row[0]: row[1] for row in described} == declared


class TestTheRunnerItself:
    """A runner that calls everything equal would make every model test worthless."""

    def test_a_wrong_value_a_missing_row_and_an_extra_row_are_told(self) -> None:
        expected = [{"id": "a", "x": 1.0}, {"id": "b", "x": 2.0}]
        assert (
            difference(expected, ["id", "x"], [{"id": "b", "x": 2.0}, {"id": "a", "x": 1.0}]) == ""
        )
        wrong = difference(expected, ["id", "x"], [{"id": "a", "x": 1.0}, {"id": "b", "x": 2.1}])
        assert wrong == "- expected {'id': 'b', 'x': 2.0}\n+ got      {'id': 'b', 'x': 2.1}"
        assert difference(expected, ["id", "x"], [{"id": "a", "x": 1.0}]).startswith("- expected")
        assert difference([], ["id"], [{"id": "a"}]) == "+ got      {'id': 'a'}"
        assert "did you mean 'id'" in difference([{"idd": 1}], ["id"], [])

    def test_equal_rows_are_counted(self) -> None:
        row = {"id": "a"}
        assert difference([row, row], ["id"], [row]) == "- expected {'id': 'a'}"

    @pytest.mark.parametrize(
        ("expected", "actual"),
        [
            (None, 0),
            (0, None),
            (None, False),
            (True, 1),
            (1, True),
            ("1", 1),
            (0.0, 1e-300),
            (1.0, 1.0 + 1e-11),
            ([1], [1, 2]),
            ({"a": 1}, {"a": None}),
            ({"a": 1}, '{"a":2}'),
            (2**53, 2**53 + 1),
        ],
    )
    def test_these_values_differ(self, expected: Any, actual: Any) -> None:
        assert not same(expected, actual)

    @pytest.mark.parametrize(
        ("expected", "actual"),
        [
            (None, None),
            (0.1 + 0.2, 0.3),
            (1, 1.0),
            (0.25, Decimal("0.25")),
            ([1, None], (1, None)),
            ({"a": [True]}, '{"a": [true]}'),
            ("2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5)),  # noqa: DTZ001
        ],
    )
    def test_these_values_are_the_same(self, expected: Any, actual: Any) -> None:
        assert same(expected, actual)
