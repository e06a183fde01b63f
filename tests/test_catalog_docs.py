"""The published copy documents itself, and a bare DuckDB client can use all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from toolscore_pipeline.catalog_docs import documentation_version, read_macros
from toolscore_pipeline.plan import load_plan


@pytest.fixture(scope="module")
def copy(demo: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published copy, as any client opens it: nothing of this project is registered."""
    with duckdb.connect(str(demo / "warehouse.published.duckdb"), read_only=True) as connection:
        yield connection


def column(connection: duckdb.DuckDBPyConnection, query: str) -> list[object]:
    return [row[0] for row in connection.execute(query).fetchall()]


def test_every_table_and_view_is_listed_and_no_other(copy: duckdb.DuckDBPyConnection) -> None:
    there = column(
        copy,
        "select schema_name || '.' || table_name from duckdb_tables()"
        " union all select schema_name || '.' || view_name from duckdb_views() where not internal",
    )
    listed = column(copy, "select schema_name || '.' || table_name from docs.tables")
    assert sorted(map(str, listed)) == sorted(map(str, there))
    assert len(listed) > 50


def test_every_column_is_listed_with_its_type(copy: duckdb.DuckDBPyConnection) -> None:
    there = (
        "select schema_name, table_name, column_index, column_name, lower(data_type)"
        " from duckdb_columns() where not internal and database_name = current_database()"
    )
    # DuckDB spells some types out; the documentation names them as the models do.
    listed = (
        "select schema_name, table_name, column_position, column_name,"
        " replace(column_type, 'timestamptz', 'timestamp with time zone') from docs.columns"
    )
    assert copy.execute(f"({there}) except ({listed})").fetchall() == []
    assert copy.execute(f"({listed}) except ({there})").fetchall() == []


def test_nothing_lacks_a_comment_in_the_catalog_itself(copy: duckdb.DuckDBPyConnection) -> None:
    assert column(copy, "select table_name from duckdb_tables() where comment is null") == []
    assert (
        column(copy, "select view_name from duckdb_views() where comment is null and not internal")
        == []
    )
    missing = (
        "select table_name || '.' || column_name from duckdb_columns()"
        " where coalesce(comment, '') = '' and not internal"
    )
    assert column(copy, missing) == []
    macros = "select function_name from duckdb_functions() where not internal"
    assert column(copy, f"{macros} and comment is null") == []
    assert sorted(map(str, column(copy, macros))) == sorted(macro.name for macro in read_macros())


def test_what_is_said_is_said_in_full(copy: duckdb.DuckDBPyConnection) -> None:
    assert (
        column(
            copy,
            "select table_name from docs.tables where description is null or grain is null"
            " or null_rule is null or column_count is null",
        )
        == []
    )
    assert column(copy, "select column_name from docs.columns where length(description) < 3") == []
    [(kind, grain, key, description)] = copy.execute(
        "select kind, grain, key_columns, description from docs.tables"
        " where table_name = 'findings' and schema_name = 'grades'"
    ).fetchall()
    model = load_plan()["grades.findings"]
    assert (kind, grain, description) == (model.kind, model.header["grain"], model.description)
    assert tuple(key) == model.key


def test_rows_are_counted(copy: duckdb.DuckDBPyConnection) -> None:
    counted = copy.execute(
        "select schema_name || '.' || table_name, kind, row_count from docs.tables"
    ).fetchall()
    for name, kind, count in counted:
        real = copy.execute(f"select count(*) from {name}").fetchone()
        assert real is not None
        assert count == (None if kind == "view" else real[0]), name


def test_every_example_of_a_macro_comes_out_as_written(copy: duckdb.DuckDBPyConnection) -> None:
    examples = copy.execute(
        "select macro_name, example, result from docs.macros where example is not null"
    ).fetchall()
    assert {"wilson_low", "wilson_high", "fisher_p", "mcnemar_p", "pass_hat_k"} <= {
        name for name, _, _ in examples
    }
    for name, example, result in examples:
        assert example.startswith(f"{name}(")
        [(value,)] = copy.execute(f"select {example}").fetchall()
        if re.fullmatch(r"[0-9.]+", result):
            value = f"{value:.{len(result.partition('.')[2])}f}"
        assert (str(value).lower() if isinstance(value, bool) else value) == result, example


def test_every_view_answers_without_functions_of_ours(copy: duckdb.DuckDBPyConnection) -> None:
    views = column(
        copy, "select schema_name || '.' || table_name from docs.tables where kind = 'view'"
    )
    assert {"marts.failing_runs", "marts.worst_tasks", "marts.regressions", "marts.leaks"} <= set(
        views
    )
    for view in views:
        copy.execute(f"select * from {view}").fetchall()


def test_no_view_shows_an_answer_a_result_or_a_prompt() -> None:
    telling = {
        "sentence",
        "final_answer",
        "prompt",
        "result_json",
        "args_json",
        "args_raw",
        "error_json",
    }
    for model in load_plan().layer("marts"):
        if model.kind == "view":
            assert not telling & set(model.column_names), model.full_name


def test_the_version_follows_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolscore_pipeline import catalog_docs
    from toolscore_pipeline.plan import Plan

    before = documentation_version()
    assert documentation_version(Plan(load_plan())) == before
    fewer = Plan(model for model in load_plan() if model.full_name != "marts.leaks")
    assert documentation_version(fewer) != before
    assert "leaks" not in str(catalog_docs._documents(fewer))
