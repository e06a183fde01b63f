"""``toolscore sql``: questions to the published copy of a project's warehouse."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli.output import column_widths, console, table
from toolscore_pipeline.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from toolscore_pipeline.asking import Answer

FORMATS = ("table", "csv", "json")
_LONGEST_CELL = 2000
_SHORTEST_SECRET = 16


def command(
    query: Annotated[
        str | None,
        typer.Argument(help="One SELECT; - reads it from standard input, none opens a prompt."),
    ] = None,
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="table, csv or json.")] = "table",
    limit: Annotated[int, typer.Option(min=0, help="The most rows to print; 0 prints all.")] = 1000,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.001, help="How long a query may run; 60, or no limit with --unsafe."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="What a query may use; 2GB, or no limit with --unsafe.")
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Let queries reach files, extensions and other databases, and show credentials.",
        ),
    ] = False,
) -> None:
    """Ask the warehouse a question in SQL, or many of them at a prompt."""
    from toolscore_pipeline import asking
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.warehouse import Warehouse

    if format not in FORMATS:
        raise UsageError(unknown_name("format", format, FORMATS))
    if memory is not None and asking.size_in_bytes(memory) is None:
        raise UsageError(f"--memory: expected a size such as 500MB or 2GB, got {memory!r}")
    opened = open_project(project)
    warehouse = Warehouse(opened.warehouse)
    if not unsafe:
        seconds = 60.0 if seconds is None else seconds
        memory = memory or asking.MEMORY
    else:
        print(
            "unsafe: queries reach files, extensions and other databases; credentials are shown",
            file=sys.stderr,
        )

    def answer(text: str) -> Answer:
        with asking.bounded_memory(None if unsafe else memory):
            return asking.ask(
                warehouse,
                text,
                limit=limit or None,
                seconds=seconds,
                memory=memory,
                is_unsafe=unsafe,
                on_stuck=lambda: _give_up(seconds),
            )

    def show(text: str) -> None:
        show_answer(answer(text), format, is_unsafe=unsafe)

    if query is None and sys.stdin.isatty():
        from toolscore_pipeline.cli._prompt import run_prompt

        run_prompt(warehouse, show, folder=opened.file.parent)
        return
    if query in (None, "-"):
        query = sys.stdin.read()
        if not query.strip():
            raise UsageError("expected a query on standard input, got nothing")
    show(query)


def show_answer(answer: Answer, format: str, *, is_unsafe: bool = False) -> None:
    """Print an answer as table, CSV or JSON; credentials are redacted unless it is unsafe.

    NULL is ``NULL`` in a table, an empty field in CSV and ``null`` in JSON. Lists and structs are
    JSON in all three. A table that is too wide is printed row by row.
    """
    clean: Callable[[Any], Any] = (lambda value: value) if is_unsafe else _redacted
    columns = [clean(name) for name in answer.columns]
    rows = [[clean(value) for value in row] for row in answer.rows]
    if format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_field(value) for value in row] for row in rows)
    elif format == "json":
        names = _distinct(columns)
        told = [dict(zip(names, map(_plain, row), strict=True)) for row in rows]
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        out = console()
        columns = [_cell(name) for name in columns]
        cells = [[_cell(value) for value in row] for row in rows]
        widths = column_widths(columns, cells, out.width)
        if widths is not None:
            out.print(table(columns, cells, null="NULL", widths=widths))
        elif not rows:
            out.print(", ".join(columns))
        else:
            for number, row in enumerate(cells, start=1):
                out.print(f"row {number}")
                out.print(table(("column", "value"), zip(columns, row, strict=True), null="NULL"))
        count = f"{len(rows)} row" + ("" if len(rows) == 1 else "s")
        out.print(count + (", cut off by --limit" if answer.is_cut else ""))


def _redacted(value: Any) -> Any:
    """A value whose texts show no credential, however deep they lie."""
    from toolscore_pipeline.credentials import redact_secrets

    if isinstance(value, str):
        return redact_secrets(value) if len(value) >= _SHORTEST_SECRET else value
    if isinstance(value, bytes):
        return _redacted(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, (list, tuple)):
        return [_redacted(part) for part in value]
    if isinstance(value, dict):
        return {_redacted(name): _redacted(part) for name, part in value.items()}
    return value


def _cell(value: Any) -> Any:
    """A value for a table: a number or NULL as it is, a text that cannot act on the terminal."""
    from toolscore_pipeline.reports.safe import spell_out

    value = _field(value)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    text = str(value)
    text = text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
    return "\n".join(spell_out(line) for line in text.split("\n"))


def _field(value: Any) -> Any:
    """A value for a field of CSV or a table: a list or struct as JSON."""
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(_plain(value), ensure_ascii=False)
    return value if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> Any:
    """A value as JSON knows it, however deep; what it has no form for is a text."""
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Decimal) and Decimal(repr(float(value))) == value:
        return float(value) if value % 1 else int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float)) or value is None else str(value)


def _distinct(columns: list[str]) -> list[str]:
    """Column names of which none is twice, with a number behind as DuckDB itself does it."""
    made: list[str] = []
    for name in columns:
        number, tried = 0, name
        while tried in made or (number and tried in columns):
            number += 1
            tried = f"{name}_{number}"
        made.append(tried)
    return made


def _give_up(seconds: float | None) -> None:
    """End the process: the query heeds no interruption, and nothing else can stop it."""
    sys.stdout.flush()
    print(
        f"error: the query ran longer than {seconds or 0:g} seconds and could not be interrupted;"
        " the command was ended",
        file=sys.stderr,
        flush=True,
    )
    os._exit(2)
