"""``toolscore agent run``: run a study of an agent spec."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli import EXIT_BUDGET
from toolscore_pipeline.cli.output import console, table, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from toolscore_pipeline.agent.spec import AgentSpec, Arm

app = typer.Typer(no_args_is_help=True, help="Run agents on MCP servers and record what they do.")


@app.callback()
def group() -> None:
    """Run agents on MCP servers and record what they do."""


@app.command("run")
def run(
    spec: Annotated[Path, typer.Argument(help="The study spec (YAML or JSON).")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="JSON Lines file of rows; resumed when it exists."),
    ] = Path("runs.jsonl"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs, prices and worst-case costs.")
    ] = False,
    allow_unknown_price: Annotated[
        bool, typer.Option(help="Let models run whose price is not known; no budget holds then.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Runs of one arm at the same time.")] = 1,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Write a report; - is the output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Run what is missing of a study; exit code 3 when the budget stops it."""
    from toolscore_pipeline.agent.spec import load_agent_spec
    from toolscore_pipeline.agent.study import OUTCOMES, refuse_unknown_prices, run_study

    out = console(quiet=quiet or json_path == "-")
    study = load_agent_spec(spec)
    print_plan(out, study)
    if dry_run:
        report = plan_report(study)
        out.print(
            table(
                ("#", "Run", "Worst case"),
                [
                    (cell["order"], cell["cell_id"], _usd(cell["worst_case_usd"]))
                    for cell in report["cells"]
                ],
                title="Runs",
            )
        )
        if json_path:
            write_json(json_path, report)
        refuse_unknown_prices(study, allow_unknown_price or study.allow_unknown_price)
        return
    result = run_study(
        study,
        output,
        allow_unknown_price=allow_unknown_price,
        concurrency=concurrency,
        progress=lambda row: out.print(progress_line(row), soft_wrap=True),
    )
    if result.resumed:
        out.print(f"  {result.resumed} run(s) were there already, in {output}")
    outcomes = result.outcomes()
    out.print(
        table(
            ("Arm", *OUTCOMES),
            [
                (arm.id, *(outcomes.get(arm.id, {}).get(name, 0) for name in OUTCOMES))
                for arm in study.arms
            ],
            title="Outcomes (this invocation)",
        )
    )
    if json_path:
        write_json(json_path, {"study": study.name, **result.to_dict()})
    if result.stopped is not None:
        print(f"stopped by the budget: {result.stopped}", file=sys.stderr)
        raise typer.Exit(EXIT_BUDGET)


def print_plan(out: Console, study: AgentSpec) -> None:
    """Print what a study is about to do and the most it can cost."""
    from toolscore_pipeline.agent.study import study_worst_case

    tasks, arms = len(study.tasks), len(study.arms)
    out.print(
        f"{study.name}: {tasks} task(s) x {arms} arm(s) x {study.repetitions} repetition(s) = "
        f"{tasks * arms * study.repetitions} run(s), seed {study.seed}"
    )
    for arm in study.arms:
        out.print(f"  arm {arm.id}: {arm.provider} {arm.model}, {price_text(arm)}")
    worst = study_worst_case(study)
    cap = "none" if study.max_usd is None else f"{study.max_usd}"
    out.print(
        f"  worst case {_usd(None if worst is None else float(worst))} "
        f"(max_turns {study.limits.max_turns}, budget max_usd {cap})"
    )


def price_text(arm: Arm) -> str:
    """The price of an arm in words."""
    price = arm.price
    if price is None:
        return "price unknown"
    return f"price ${price.input_per_million}/{price.output_per_million} per 1M ({price.source})"


def plan_report(study: AgentSpec) -> dict[str, Any]:
    """The report of a dry run: every run in its order, with the most it can cost."""
    from toolscore_pipeline.agent.study import study_worst_case, worst_case

    total = study_worst_case(study)
    cells = []
    for cell in study.cells():
        worst = worst_case(study, cell)
        cells.append(
            {
                "order": cell.order,
                "cell_id": cell.id,
                "provider": cell.arm.provider,
                "model": cell.arm.model,
                "worst_case_usd": None if worst is None else float(worst),
            }
        )
    return {
        "study": study.name,
        "planned": len(cells),
        "seed": study.seed,
        "max_usd": study.max_usd,
        "worst_case_usd": None if total is None else float(total),
        "cells": cells,
    }


def progress_line(row: dict[str, Any]) -> str:
    """One line about a run that has ended."""
    parts = [row["status"], f"{len(row['calls'])} call(s)"]
    if row["guard_denials"]:
        parts.append(f"{len(row['guard_denials'])} denied")
    parts.append(_usd(row["cost_usd"]))
    line = f"{row['order']:>5}. {row['cell_id']}: {row['outcome']} ({', '.join(parts)})"
    return line if row["error"] is None else f"{line}: {row['error']}"


def _usd(amount: float | None) -> str:
    return "cost unknown" if amount is None else f"${amount:.4f}"
