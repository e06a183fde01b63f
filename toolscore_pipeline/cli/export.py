"""``toolscore export``: run records, Parquet or OpenTelemetry events, of files or a warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from toolscore_pipeline.cli.output import console, write_json
from toolscore_pipeline.errors import UsageError, unknown_name

_FORMATS = {"aef": "records.jsonl", "otel": "evaluations.otlp.jsonl", "parquet": "parquet"}


def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Run rows, traces, receipts. Without any: the project's warehouse."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help="aef (run records), parquet or otel.")
    ] = "aef",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file (parquet: the folder) to write.")
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="The gold list or contract that traces are graded with.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="With inputs: the variant of traces. Without: only these variants."),
    ] = None,
    min_score: Annotated[
        float, typer.Option(help="The score at which a trace passes under a gold list.")
    ] = 0.9,
    task: Annotated[list[str] | None, typer.Option(help="Only runs of these tasks.")] = None,
    source: Annotated[list[str] | None, typer.Option(help="Only runs of these sources.")] = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="Only runs with these outcomes.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="SELECT", help="Only the runs whose run_id this query yields."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace credentials by short previews.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write into this folder and keep the sources' bytes."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Parquet: a table of the warehouse instead of the run records."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="Parquet: the columns to partition by (default: variant)."),
    ] = None,
    study: Annotated[str | None, typer.Option(help="The study's name in the manifest.")] = None,
    question: Annotated[str | None, typer.Option(help="What the study asks.")] = None,
    baseline: Annotated[str | None, typer.Option(help="The variant to compare with.")] = None,
    candidate: Annotated[str | None, typer.Option(help="The variant that is compared.")] = None,
    wall_time: Annotated[
        float | None, typer.Option(help="The seconds that a run was allowed to take.")
    ] = None,
    project: Annotated[Path | None, typer.Option(help="The project file or its folder.")] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Write a report; - is the output."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Export run records for evaluation frameworks, Parquet, or OpenTelemetry events."""
    from toolscore_pipeline.export.jobs import Job, run_job

    if format not in _FORMATS:
        raise UsageError(unknown_name("export format", format, _FORMATS))
    if bundle is not None and (redact or format != "aef"):
        raise UsageError(
            "--bundle keeps sources as they are, so it goes with --format aef and not with --redact"
        )
    if format != "parquet" and (table or partition):
        raise UsageError("--table and --partition go with --format parquet")
    target = output or Path(_FORMATS[format])
    if bundle is not None:
        target = bundle / target.name
    out = console(quiet=quiet or json_path == "-")
    report: dict[str, Any] = run_job(
        Job(
            format=format,
            output=target,
            inputs=list(inputs or []),
            gold=gold,
            variants=list(variant or []),
            min_score=min_score,
            tasks=list(task or []),
            sources=list(source or []),
            outcomes=list(outcome or []),
            query=query,
            redact=redact,
            bundle=bundle,
            table=table,
            partition=list(partition or []),
            project=project,
            facts={
                name: value
                for name, value in (
                    ("study_id", study),
                    ("question", question),
                    ("baseline", baseline),
                    ("candidate", candidate),
                    ("wall_time_seconds", wall_time),
                )
                if value is not None
            },
        )
    )
    what = "rows" if format == "parquet" else "events" if format == "otel" else "records"
    out.print(f"{report['count']} {what} written to {report['path']}")
    if report.get("manifest"):
        out.print(f"manifest: {report['manifest']}")
    if json_path:
        write_json(json_path, report)
