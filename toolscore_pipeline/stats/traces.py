"""Traces of a folder, scored: the outcome, cost and latency of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.model import Run
from toolscore_pipeline.result import EvaluationResult

_ROUNDING = 1e-9

Scored = tuple[str, float | None, float | None]
"""A trace's outcome, cost in US dollars and latency in seconds."""


def score_traces(files: Sequence[Path], gold: str | Path, min_score: float) -> list[Scored]:
    """Score each trace file against a gold list or contract; results in the files' order.

    A file that cannot be read, or that holds another number of runs than one, is an ``error``.

    Raises:
        InputError: the gold file cannot be read, or is wrong.
    """
    from toolscore_pipeline.api import evaluate_many
    from toolscore_pipeline.contract import load_expected

    expected = load_expected(gold)
    runs = [_read(file) for file in files]
    readable = [run for run in runs if run is not None]
    results = iter(evaluate_many([(expected, run) for run in readable]))
    return [
        ("error", None, None) if run is None else _scored(run, next(results), min_score)
        for run in runs
    ]


def _read(file: Path) -> Run | None:
    from toolscore_pipeline.loading import read_file

    try:
        runs = read_file(file)
    except InputError:
        return None
    return runs[0] if len(runs) == 1 else None


def _scored(run: Run, result: EvaluationResult, min_score: float) -> Scored:
    is_honest = all(finding["severity"] != "error" for finding in result.honesty_findings)
    passed = result.score >= min_score - _ROUNDING and is_honest
    # The sum over some of the calls is not the run's: only complete totals stand in for it.
    cost, latency = run.cost_usd, run.duration_seconds
    cost_metrics = result.metrics["cost_metrics"]
    latency_metrics = result.metrics["latency_metrics"]
    if cost is None and cost_metrics["status"] == "measured":
        cost = cost_metrics["total"]
    if latency is None and latency_metrics["status"] == "measured":
        latency = latency_metrics["total"]
    return "pass" if passed else "fail", cost, latency
