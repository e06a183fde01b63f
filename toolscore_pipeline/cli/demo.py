"""``toolscore demo``: copy the example project and build it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import console, table
from toolscore_pipeline.errors import UsageError

PACKAGE = Path(__file__).parents[1]


def example_folder(name: str) -> Path:
    """The folder of a bundled example: the checkout's when there is one, else the package's."""
    checkout = PACKAGE.parent / "examples" / name
    if (PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return PACKAGE / "_examples" / name


def command(
    folder: Annotated[Path, typer.Argument(help="Where to put the example project.")] = Path(
        "toolscore-demo"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Build a bundled example: load, grade, compare, decide and export 78 runs of two agents."""
    from toolscore_pipeline import pipeline
    from toolscore_pipeline.asking import ask
    from toolscore_pipeline.project import PROJECT_FILE, open_project
    from toolscore_pipeline.status import read_status
    from toolscore_pipeline.warehouse import Warehouse

    source = example_folder("helpdesk")
    if folder.exists() and not (folder / PROJECT_FILE).is_file():
        raise UsageError(f"{folder} exists and is no project; name another folder")
    made = ("*.duckdb", "*.wal", "exports", "reports", ".toolscore")
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*made))
    out = console(quiet=quiet)
    project = open_project(folder)
    out.print(f"building {project.file}")
    report = pipeline.build(project)
    out.print(pipeline.summary(report))
    status = read_status(project)
    out.print(
        table(
            ("source", "runs", "graded", "pass", "fail", "error", "unknown"),
            [
                [
                    row[name]
                    for name in ("source", "runs", "graded", "pass", "fail", "error", "unknown")
                ]
                for row in status["sources"]
            ],
        )
    )
    warehouse = Warehouse(project.warehouse)
    for name, verdict in ask(warehouse, "select comparison, verdict from marts.pair_tests").rows:
        out.print(f"{name}: {verdict}")
    for decision in status["decisions"]:
        out.print(f"protocol of {decision['comparison']}: {decision['decision']}")
    out.print("")
    out.print("Where to look:")
    out.print(f"  {project.published}  the warehouse, to read with any DuckDB client")
    for path in report.exports or {str(export.path): 0 for export in project.exports}:
        out.print(f"  {path}  run records, with a manifest beside them")
    out.print(f"  toolscore report --project {folder}  one page of verdicts and failing runs")
    out.print(f"  toolscore status --project {folder}")
    out.print(f'  toolscore sql --project {folder} "select * from marts.variant_stats"')
    out.print(f"  toolscore ui --project {folder}  the same as assets in Dagster")
