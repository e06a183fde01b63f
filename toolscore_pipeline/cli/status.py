"""``toolscore status``: what a project's warehouse holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import console, table, write_json


def command(
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON; - is standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Show documents, runs, grades and decisions, as last published."""
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.status import read_status

    opened = open_project(project)
    report = read_status(opened)
    out = console(quiet=quiet or json_path == "-")
    out.print(f"project   {report['project']}")
    out.print(f"warehouse {report['warehouse']} ({report['bytes']:,} bytes)")
    out.print(
        table(
            (
                "source", "documents", "runs", "set aside", "graded",
                "pass", "fail", "error", "unknown",
            ),
            [
                (
                    row["source"], row["documents"], row["runs"], row["rejects"], row["graded"],
                    row["pass"], row["fail"], row["error"], row["unknown"],
                )
                for row in report["sources"]
            ],
            title="Sources",
        )
    )  # fmt: skip
    if report["contracts"]:
        out.print(
            table(
                ("contract", "runs", "mean score", "pass rate"),
                [
                    (row["contract"], row["runs"], row["mean_score"], row["pass_rate"])
                    for row in report["contracts"]
                ],
                title="Contracts",
            )
        )
    for row in report["decisions"]:
        out.print(f"{row['comparison']}: {row['decision']}")
    for line in report["notes"]:
        out.print(f"note: {line}")
    if json_path:
        write_json(json_path, report)
