"""Every number of an evaluation as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from toolscore_pipeline.reports.safe import csv_cell
from toolscore_pipeline.reports.view import read_verdict, summary
from toolscore_pipeline.result import EvaluationResult


def verdict_csv(result: EvaluationResult) -> str:
    """An evaluation as CSV with the columns Category, Metric and Value.

    Numbers are written whole, lists and objects as JSON, what was not recorded as ``unknown``. A
    text that a spreadsheet would take for a formula starts with an apostrophe.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("Category", "Metric", "Value"))
    for category, metric, value in _rows(result):
        writer.writerow((csv_cell(category), csv_cell(metric), csv_cell(value)))
    return file.getvalue()


def _rows(result: EvaluationResult) -> Iterator[tuple[str, str, Any]]:
    verdict = read_verdict(result)
    for name, value in summary(result).items():
        if name != "weights":
            yield "summary", name, value
    for name, value in result.weights.items():
        yield "weights", name, value
    for name, value in result.metrics.items():
        if isinstance(value, dict):
            for inner, item in value.items():
                if inner != "trajectory_details":  # the calls below say it more shortly
                    yield name, inner, item
        else:
            yield "metrics", name, value
    for number, issue in enumerate(verdict.issues, 1):
        yield "issues", f"{number} {issue.kind}", issue.text
    for line in verdict.behaviour:
        yield "behavior and safety", line.severity, line.text
    for check, status, detail in verdict.checks:
        yield "evidence", check, f"{status}: {detail}"
    for row in verdict.calls:
        call = "" if row.number is None else f"call {row.number} "
        yield "calls", f"{call}{row.status}", row.actual or row.expected
