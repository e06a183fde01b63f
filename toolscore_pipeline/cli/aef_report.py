"""``toolscore aef-report``: import an export into Agent Eval Flow and write its reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import console, table, write_json

NAME = "aef-report"


def command(
    export: Annotated[Path, typer.Argument(help="The records, their manifest or their folder.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where to write.")],
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Write a report; - is the output."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Import run records into Agent Eval Flow, evaluate them there and write its reports."""
    from toolscore_pipeline.aef import write_report

    out = console(quiet=quiet or json_path == "-")
    report = write_report(export, output)
    out.print(
        table(
            ("Planned", "Completed", "Failed", "Unobserved", "Accepted"),
            [
                [
                    report[name]
                    for name in ("planned", "completed", "failed", "unobserved", "accepted")
                ]
            ],
            title="Agent Eval Flow",
        )
    )
    if not report["toolscore"]:
        out.print("its Toolscore evaluator took no part: its package or expected calls are missing")
    out.print(f"report: {report['report']}")
    if json_path:
        write_json(json_path, report)
