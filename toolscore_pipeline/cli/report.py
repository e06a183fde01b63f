"""``toolscore report``: a project's report for people, as one page or as Markdown."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import append_text, console, takes_output, write_json, write_text
from toolscore_pipeline.errors import UsageError, unknown_name

FORMATS = {"html": "report.html", "markdown": "report.md"}
"""The forms of a report, and the file that each is written to by default."""


def command(
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="PATH", help="Where to write it; - is standard output."
        ),
    ] = None,
    comparison: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this comparison and its runs.")
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="html or markdown.")] = "html",
    runs: Annotated[int, typer.Option(help="Runs that did not pass, shown of each variant.")] = 5,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Write it as JSON too; - is output."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Report on a project: verdicts, comparisons, failing runs call by call, hashes.

    Reads the published warehouse and writes one page that loads nothing and runs nothing.
    """
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.reports import project_html, project_markdown
    from toolscore_pipeline.reports.project import project_report

    if format not in FORMATS:
        raise UsageError(unknown_name("format", format, FORMATS))
    is_taken = takes_output(output=output, json=json_path)
    found = project_report(
        open_project(project),
        comparison=comparison,
        runs_per_variant=runs,
        has_figures=format == "html",
    )
    is_html = format == "html"
    text = project_html(found) if is_html else project_markdown(found)
    out = console(quiet=quiet or is_taken)
    if output == "-":
        sys.stdout.write(text)
    else:
        path = Path(output or FORMATS[format])
        write_text(path, text)
        for one in found.headlines:
            about = f"{one.about}: " if one.about else ""
            out.print(f"{one.label:<14} {about}{one.text}", soft_wrap=True)
        out.print(f"{path}: {len(text.encode()):,} bytes")
    if json_path:
        write_json(json_path, found.to_dict())
    if job_summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_text(job_summary, project_markdown(found))
