"""The documentation of statistics names every macro and shows protocols as they are."""

from __future__ import annotations

from pathlib import Path

import duckdb

from toolscore_pipeline.plan import sql_root
from toolscore_pipeline.stats import load_protocol

DOCS = Path(__file__).parent.parent / "docs"


def test_every_macro_of_statistics_is_documented_or_a_step_of_one_that_is() -> None:
    with duckdb.connect() as connection:
        connection.execute((sql_root() / "macros" / "statistics.sql").read_text(encoding="utf-8"))
        macros = connection.execute(
            "select distinct function_name, macro_definition from duckdb_functions()"
            " where function_type = 'macro' and not internal"
        ).fetchall()
    text = (DOCS / "statistics.md").read_text(encoding="utf-8") + " ".join(d for _, d in macros)
    marts = "\n".join(file.read_text() for file in (sql_root() / "marts").glob("*.sql"))
    assert macros
    assert [name for name, _ in macros if f"{name}(" not in text + marts] == []


def test_the_example_protocols_are_right_and_shown_as_they_are() -> None:
    folder = DOCS.parent / "examples" / "protocols"
    files = sorted(file for file in folder.iterdir() if file.suffix != ".md")
    assert [load_protocol(file)["protocol_version"] for file in files] == [1, 1]
    declared = (folder / "adopt-cheaper-model.yaml").read_text(encoding="utf-8")
    shown = declared.split("\n", 1)[1]  # without its comment
    assert shown in (DOCS / "comparing.md").read_text(encoding="utf-8")
