"""``toolscore regrade``: score recorded runs again under another judgment; nothing is run again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli import EXIT_USAGE
from toolscore_pipeline.cli.output import console, table, write_json
from toolscore_pipeline.errors import ToolscoreError, UsageError

if TYPE_CHECKING:
    from toolscore_pipeline.regrades import WarehouseRegrade

# Rows of a table that are shown; the report of --json has them all.
MOST_SHOWN = 40


def command(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOURCE...", help="Receipts, traces, or run rows (JSON Lines)."),
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="The new gold list or contract; a bare trace needs one.")
    ] = None,
    spec: Annotated[
        Path | None, typer.Option(help="Run rows: a study spec with new tasks, found by their id.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            "--weight", metavar="NAME=VALUE", help="A score weight, e.g. required_call_recall=0.3."
        ),
    ] = None,
    forbidden: Annotated[
        Path | None, typer.Option(help="Rules of calls that must never be made.")
    ] = None,
    honesty: Annotated[
        Path | None, typer.Option(help="Settings of the honesty checks (JSON or YAML).")
    ] = None,
    injected: Annotated[
        Path | None,
        typer.Option(help="Faults injected into the run and instructions planted in it."),
    ] = None,
    trace_format: Annotated[
        str | None, typer.Option("-f", "--format", help="The trace format; default the receipt's.")
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option("--strict/--no-strict", help="Compare values exactly; default the receipt's."),
    ] = None,
    final_answer: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The final answer, when the trace does not hold it."),
    ] = None,
    no_verify: Annotated[
        bool,
        typer.Option("--no-verify", help="Regrade although inputs changed, and print what did."),
    ] = False,
    receipt_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the new receipts into this folder.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PATH", help="Run rows: write the new rows here."),
    ] = None,
    warehouse: Annotated[
        bool,
        typer.Option("--warehouse", help="Regrade the project's warehouse instead of sources."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With --warehouse: only say what would be re-scored."),
    ] = False,
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Write the table; - is the output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Score recorded runs again under a new contract, weights or rules; nothing is run again."""
    from toolscore_pipeline.cli.eval import parse_weights

    options: dict[str, Any] = {
        "gold": gold,
        "weights": parse_weights(weight),
        "forbidden": forbidden,
        "honesty_file": honesty,
        "injected": injected,
        "format": trace_format,
        "strict": strict,
        "final_answer": final_answer,
    }
    out = console(quiet=quiet or json_path == "-")
    if warehouse:
        given = [name for name, value in options.items() if value is not None]
        if sources or spec or output or given or no_verify:
            raise UsageError(
                "--warehouse regrades by the project's own contracts and settings: leave out"
                " sources, --output and what judges them"
            )
        _regrade_warehouse(out, project, dry_run, receipt_dir, json_path)
        return
    if dry_run or project:
        raise UsageError("--dry-run and --project go with --warehouse")
    if not sources:
        raise UsageError("name a receipt, a trace or run rows to regrade, or give --warehouse")
    rows, is_refused = _regrade_sources(
        sources, options, spec=spec, output=output, receipt_dir=receipt_dir, verify=not no_verify
    )
    _show(out, rows)
    if json_path:
        write_json(json_path, {"regrade_version": "1", "kind": "runs", "rows": rows})
    if is_refused:
        raise typer.Exit(EXIT_USAGE)


# --- receipts, traces, rows -----------------------------------------------------------------------


def _regrade_sources(
    sources: Sequence[Path],
    options: dict[str, Any],
    *,
    spec: Path | None,
    output: Path | None,
    receipt_dir: Path | None,
    verify: bool,
) -> tuple[list[dict[str, Any]], bool]:
    """The rows of the report, and whether a source was refused; that stops no other one."""
    from toolscore_pipeline.regrades import is_run_rows

    studies = [source for source in sources if is_run_rows(source)]
    if output is not None and len(studies) != 1:
        raise UsageError(f"--output takes the rows of one file of run rows, got {len(studies)}")
    if receipt_dir is not None and studies:
        raise UsageError(
            f"{studies[0]}: run rows carry their evaluations themselves: --receipt-dir goes with"
            " receipts and traces, -o with run rows"
        )
    if spec is not None and len(studies) != len(sources):
        raise UsageError("--spec judges run rows; receipts and traces take --gold")
    rows: list[dict[str, Any]] = []
    is_refused = False
    # A new receipt never takes the place of one that is regraded here, or was just written.
    taken = {source.resolve() for source in sources}
    for source in sources:
        try:
            if source in studies:
                rows += _regrade_rows(source, options, spec, output)
            else:
                rows.append(_regrade_one(source, options, receipt_dir, verify, taken))
        except ToolscoreError as error:
            for line in str(error).splitlines():
                print(f"error: {line}", file=sys.stderr)
            is_refused = True
    return rows, is_refused


def _regrade_one(
    source: Path,
    options: dict[str, Any],
    receipt_dir: Path | None,
    verify: bool,
    taken: set[Path],
) -> dict[str, Any]:
    from toolscore_pipeline.receipts import regrade, write_receipt

    regraded = regrade(source, verify=verify, **options)
    for problem in regraded.problems:
        print(f"warning: {source}: {problem}", file=sys.stderr)
    written = None
    if receipt_dir is not None:
        written = write_receipt(_free_name(receipt_dir, source, taken), regraded.receipt)
    before, after = regraded.previous, regraded.receipt["result"]
    return {
        "source": str(source),
        "run": None,
        "before": _brief(before) if before is not None else None,
        "after": _brief(after),
        "change": regraded.score_delta,
        "problems": regraded.problems,
        "receipt": str(written) if written is not None else None,
    }


def _free_name(receipt_dir: Path, source: Path, taken: set[Path]) -> Path:
    """The file of a new receipt: named like its source, with a number when that is taken."""
    stem = source.name.removesuffix(".json").removesuffix(".receipt")
    path, number = receipt_dir / f"{stem}.receipt.json", 1
    while path.resolve() in taken:
        number += 1
        path = receipt_dir / f"{stem}-{number}.receipt.json"
    taken.add(path.resolve())
    return path


def _regrade_rows(
    source: Path, options: dict[str, Any], spec: Path | None, output: Path | None
) -> list[dict[str, Any]]:
    from toolscore_pipeline.regrades import regrade_rows, write_rows

    taken = ("gold", "weights", "forbidden")
    left = [name for name, value in options.items() if value is not None and name not in taken]
    if left:
        name = left[0].removesuffix("_file").replace("_", "-")
        raise UsageError(f"{source}: run rows hold what --{name} would say; leave it out")
    regraded = regrade_rows(source, spec=spec, **{name: options[name] for name in taken})
    if output is not None:
        write_rows(output, (row.after for row in regraded))
    return [
        {
            "source": str(source),
            "run": row.name,
            "before": _brief_row(row.before),
            "after": _brief_row(row.after),
            "change": row.score_delta,
            "problems": [],
            "receipt": None,
        }
        for row in regraded
    ]


def _brief(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("score", "grade", "outcome")}


def _brief_row(row: dict[str, Any]) -> dict[str, Any]:
    evaluation = row.get("evaluation") or {}
    return {
        "score": evaluation.get("score"),
        "grade": evaluation.get("grade"),
        "outcome": row.get("outcome"),
    }


def _is_otherwise(row: dict[str, Any]) -> bool:
    """Whether a run came out otherwise; other weights move a score by a rounding error."""
    before, after, change = row["before"], row["after"], row["change"]
    if before is None or change is None:
        return bool(before != after)
    return abs(change) > 1e-9 or any(before[name] != after[name] for name in ("grade", "outcome"))


def _show(out: Any, rows: list[dict[str, Any]]) -> None:
    from toolscore_pipeline.receipts import percent, percent_change

    if not rows:
        return
    # Of many rows those are shown that came out otherwise.
    shown = rows
    if len(rows) > MOST_SHOWN:
        shown = [row for row in rows if _is_otherwise(row)][:MOST_SHOWN]
    is_study = any(row["run"] is not None for row in rows)

    def cell(state: dict[str, Any] | None) -> str:
        if state is None:
            return "-"
        text = percent(state["score"], state["grade"])
        return f"{text} {state['outcome']}" if is_study and state["outcome"] else text

    out.print(
        table(
            ("Source", "Before", "After", "Change"),
            [
                (
                    row["run"] or Path(row["source"]).name,
                    cell(row["before"]),
                    cell(row["after"]),
                    percent_change(row["change"]),
                )
                for row in shown
            ],
            title="Regrade",
        )
    )
    if is_study:
        moved = sum(_is_otherwise(row) for row in rows)
        flips = sum((row["before"] or {}).get("outcome") != row["after"]["outcome"] for row in rows)
        out.print(f"{len(rows)} runs, {moved} come out otherwise, {flips} with another outcome")
    out.print("Nothing was run again: the same traces under another judgment.")


# --- a warehouse ----------------------------------------------------------------------------------


def _regrade_warehouse(
    out: Any, project: Path | None, dry_run: bool, receipt_dir: Path | None, json_path: str | None
) -> None:
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.regrades import receipts_of, regrade_warehouse
    from toolscore_pipeline.warehouse import Warehouse

    if dry_run and receipt_dir is not None:
        raise UsageError("--dry-run makes no grades, so there are no receipts to write")
    opened = open_project(project)
    report = regrade_warehouse(opened, dry_run=dry_run)
    _show_changes(out, report)
    if receipt_dir is not None and report.changes:
        from toolscore_pipeline.receipts import write_receipt

        grade_ids = [row["after_grade_id"] for row in report.changes]
        count = 0
        with Warehouse(opened.warehouse).read() as store:
            for result, receipt in receipts_of(store, opened, grade_ids):
                name = f"{result.run_id[:16]}.receipt.json"
                write_receipt(receipt_dir / name, receipt, base=opened.root)
                count += 1
        out.print(f"{count} receipts written to {receipt_dir}")
    if json_path:
        write_json(
            json_path,
            {
                "regrade_version": "1",
                "kind": "warehouse",
                "dry_run": report.is_dry_run,
                "judgments_added": report.judgments_added,
                "pairs_rescored": report.pairs_rescored,
                "runs": report.runs,
                "flips": report.flip_count,
                "rows": report.changes,
            },
        )


def _show_changes(out: Any, report: WarehouseRegrade) -> None:
    from toolscore_pipeline.receipts import percent_change

    if report.changes:
        out.print(
            table(
                ("Task", "Variant", "Before", "After", "Change", "Why"),
                [
                    (
                        row["task"],
                        row["variant"],
                        _state(row, "before"),
                        _state(row, "after"),
                        percent_change(row["after_score"] - row["before_score"]),
                        row["reason"],
                    )
                    for row in report.changes[:MOST_SHOWN]
                ],
                title="Regrade",
            )
        )
        more = len(report.changes) - MOST_SHOWN
        if more > 0:
            out.print(f"... and {more} more")
    out.print(report.summary())


def _state(row: dict[str, Any], side: str) -> str:
    from toolscore_pipeline.receipts import percent

    return f"{percent(row[f'{side}_score'], row[f'{side}_grade'])} {row[f'{side}_outcome']}"
