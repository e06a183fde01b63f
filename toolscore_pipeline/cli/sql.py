"""``toolscore sql``: a read-only question to the published copy of a project's warehouse."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from toolscore_pipeline.cli.output import console, table
from toolscore_pipeline.errors import UsageError, unknown_name

FORMATS = ("table", "csv", "json")


def command(
    query: Annotated[str, typer.Argument(help="The question, as one SELECT.")],
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="table, csv or json.")] = "table",
    limit: Annotated[int, typer.Option(help="The most rows to print; 0 prints all.")] = 1000,
    seconds: Annotated[float, typer.Option(help="How long a query may run.")] = 60.0,
) -> None:
    """Ask the warehouse a question in SQL."""
    from toolscore_pipeline.asking import ask
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.warehouse import Warehouse

    if format not in FORMATS:
        raise UsageError(unknown_name("format", format, FORMATS))
    opened = open_project(project)
    answer = ask(Warehouse(opened.warehouse), query, limit=limit or None, seconds=seconds)
    if format == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    elif format == "json":
        rows = [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows]
        print(json.dumps(rows, indent=2, ensure_ascii=False, default=str))
    else:
        out = console()
        out.print(table(answer.columns, answer.rows))
        out.print(f"{len(answer.rows)} rows" + (", cut off by --limit" if answer.is_cut else ""))


def _plain(value: Any) -> Any:
    return (
        value
        if isinstance(value, (str, int, float, bool, list, dict)) or value is None
        else str(value)
    )
