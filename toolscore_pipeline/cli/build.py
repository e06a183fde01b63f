"""``toolscore build``: bring a project's warehouse, exports and published copy up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli.output import console, table, write_json

if TYPE_CHECKING:
    from toolscore_pipeline.pipeline import BuildReport
    from toolscore_pipeline.runner import Timing


def command(
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read every source again, changed or not.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show rows, seconds and memory of every model.")
    ] = False,
    lock_seconds: Annotated[
        float, typer.Option(help="How long to wait for another process that holds the warehouse.")
    ] = 60.0,
    json_path: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON; - is standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Load, grade, compare, export and publish everything that is new or changed."""
    from toolscore_pipeline import pipeline
    from toolscore_pipeline.project import open_project

    out = console(quiet=quiet or json_path == "-")
    opened = open_project(project)
    with _Progress(out) as progress:
        report = pipeline.build(
            opened,
            full=full,
            on_progress=progress.reading,
            on_graded=progress.grading,
            lock_seconds=lock_seconds,
            profile=profile,
        )
    out.print(pipeline.summary(report))
    for problem in report.problems:
        out.print(f"set aside: {problem}")
    for path, count in report.exports.items():
        out.print(f"exported {count} run records to {path}")
    if profile:
        out.print(_profile(report))
    out.print(f"warehouse {opened.warehouse}")
    out.print(f"to read   {opened.published}")
    if json_path:
        write_json(json_path, report.to_dict())


def _profile(report: BuildReport) -> Any:
    """A table of the steps, then of the models, the slowest first; chunks of one are added up."""
    by_model: dict[str, list[Timing]] = {}
    for timing in report.timings:
        by_model.setdefault(timing.model, []).append(timing)
    models = [
        (
            name,
            sum(timing.rows for timing in each),
            sum(timing.seconds for timing in each),
            max(timing.peak_mb or 0 for timing in each),
            max(timing.spill_mb or 0 for timing in each),
        )
        for name, each in by_model.items()
    ]
    models.sort(key=lambda model: -model[2])
    return table(
        ("step or model", "rows", "seconds", "peak MB", "spilled MB"),
        [
            *(
                (name, None, f"{seconds:.3f}", None, None)
                for name, seconds in report.seconds.items()
            ),
            *(
                (name, rows, f"{seconds:.3f}", f"{peak:,.0f}", f"{spill:,.0f}")
                for name, rows, seconds, peak, spill in models
            ),
        ],
    )


class _Progress:
    """Progress bars on a terminal; nothing elsewhere."""

    def __init__(self, out: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=out,
            transient=True,
            disable=not out.is_terminal or out.quiet,
        )
        self._reading = self._bars.add_task("reading", total=None)
        self._grading: Any = None

    def __enter__(self) -> _Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def reading(self, progress: Any) -> None:
        """Show how many files have been read."""
        self._bars.update(self._reading, total=progress.file_count, completed=progress.files_done)

    def grading(self, done: int, total: int) -> None:
        """Show how many pairs have been graded."""
        if self._grading is None:
            self._grading = self._bars.add_task("grading", total=total)
        self._bars.update(self._grading, total=total, completed=done)
