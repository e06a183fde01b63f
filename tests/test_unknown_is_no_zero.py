"""Latency and cost in every output: unknown is never printed as 0, and a measured 0 is a 0."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.project_helpers import ask, make_project, rebuild, write_rows
from toolscore_pipeline import evaluate
from toolscore_pipeline.cli import main
from toolscore_pipeline.reports import (
    read_verdict,
    report_record,
    verdict_csv,
    verdict_html,
    verdict_markdown,
    verdict_text,
)

FIGURES = ("total", "mean", "min", "max")


def trace(*values: float | None) -> list[dict[str, Any]]:
    """One call for each value, which is its duration and its cost; None for neither."""
    return [
        {"tool": "save", "args": {"n": n}, "result": "ok"}
        | ({} if value is None else {"duration": value, "cost": value})
        for n, value in enumerate(values)
    ]


#: The calls, the status, the total, and how people read the duration and the cost.
KINDS: dict[str, tuple[list[dict[str, Any]], str, float | None, str, str]] = {
    "unknown": (trace(None, None), "unknown", None, "unknown", "unknown"),
    "no calls": (trace(), "unknown", None, "unknown", "unknown"),
    "partial zero": (
        trace(0.0, None),
        "partial",
        0.0,
        "0.000s (1 of 2 calls)",
        "$0.0000 (1 of 2 calls)",
    ),
    "partial": (
        trace(1.234, None, 0.0),
        "partial",
        1.234,
        "1.234s (2 of 3 calls)",
        "$1.2340 (2 of 3 calls)",
    ),
    "measured zero": (trace(0.0, 0.0), "measured", 0.0, "0.000s", "$0.0000"),
    "measured": (trace(0.5, 0.25), "measured", 0.75, "0.750s", "$0.7500"),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_reports_for_people_print_unknown_or_what_was_measured(kind: str) -> None:
    calls, _, total, duration, cost = KINDS[kind]
    verdict = read_verdict(evaluate([{"tool": "save"}], calls))
    reports = {
        "console": verdict_text(verdict),
        # Dollar signs are escaped, so that no formula begins.
        "markdown": verdict_markdown(verdict).replace("\\$", "$"),
        "html": re.sub(r"<[^>]+>", " ", verdict_html(verdict)),
    }
    for name, report in reports.items():
        lines = [re.sub(r"[\s|│]+", " ", part) for part in _labelled(report)]
        assert any(f"Duration {duration} " in line for line in lines), (name, kind)
        assert any(f"Cost {cost} " in line for line in lines), (name, kind)
        if total is None:
            assert "0.000s" not in report, name
            assert "$0.0000" not in report, name


def _labelled(report: str) -> list[str]:
    """A report as one line, for its labels and values may stand on several."""
    return [report.replace("\n", " ") + " "]


@kinds
def test_json_and_csv_hold_null_and_unknown_or_what_was_measured(kind: str) -> None:
    calls, status, total, _, _ = KINDS[kind]
    result = evaluate([{"tool": "save"}], calls)
    record = json.loads(json.dumps(report_record(result)))
    known = sum("duration" in call for call in calls)
    for group, sum_name in (("latency", "total_duration"), ("cost", "total_cost")):
        metrics = record["metrics"][f"{group}_metrics"]
        assert (metrics["status"], metrics["known_count"]) == (status, known)
        assert all((metrics[figure] is None) is (total is None) for figure in FIGURES)
        assert metrics["total"] == record["summary"][sum_name] == total
        assert record["summary"][f"{group}_status"] == status
    assert record["evidence"]["coverage"]["with_duration"] == known
    assert [call["duration"] for call in record["calls"]["actual"]] == [
        call.get("duration") for call in calls
    ]
    cells = {
        (category, metric): value
        for category, metric, value in csv.reader(io.StringIO(verdict_csv(result)))
    }
    shown = "unknown" if total is None else str(total)
    assert cells["latency_metrics", "total"] == cells["cost_metrics", "total"] == shown
    assert cells["summary", "total_duration"] == cells["summary", "total_cost"] == shown
    if total is None:
        assert {cells["cost_metrics", figure] for figure in FIGURES} == {"unknown"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project with one run of each kind, and an arm of which nothing was measured."""
    made = make_project(tmp_path_factory.mktemp("zero") / "project", 4)
    rows = [
        {
            "task_id": "one",
            "arm_id": kind,
            "repetition": 1,
            "status": "completed",
            "calls": calls,
            "final_answer": "Saved.",
            "passed": True,
            # The cost and latency of the whole run are measured on their own.
            **({} if total is None else {"cost_usd": total, "duration_s": total}),
        }
        for kind, (calls, _, total, _, _) in KINDS.items()
    ]
    write_rows(made / "runs/kinds.jsonl", rows)
    rebuild(made)
    return made


@kinds
def test_sql_holds_null_or_what_was_measured(folder: Path, kind: str) -> None:
    _, status, total, _, _ = KINDS[kind]
    for prefix, figure in (("latency", "duration_seconds"), ("cost", "cost_usd")):
        columns = ", ".join(f"{name}_{figure}" for name in FIGURES)
        [row] = ask(
            folder,
            f"select {prefix}_status, {columns} from grades.metrics"
            f" inner join evidence.runs using (run_id) where variant = '{kind}'",
        )
        assert row[0] == status
        assert row[1] == total
        assert [value is None for value in row[1:]] == [total is None] * 4
    [means] = ask(
        folder,
        "select cost_usd, latency_seconds, cost_count, latency_count from marts.variant_stats"
        f" where variant = '{kind}'",
    )
    known = 0 if total is None else 1
    assert means == (total, total, known, known)


def test_a_comparison_prints_no_zero_for_an_arm_that_measured_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written = tmp_path / "report.json"
    assert (
        main(["compare", "--runs", str(folder / "runs/kinds.jsonl"), "--json", str(written)]) == 0
    )
    variants = json.loads(written.read_text(encoding="utf-8"))["variants"]
    found = {stats["variant"]: (stats["cost"], stats["latency"]) for stats in variants}
    assert found == {kind: (total, total) for kind, (_, _, total, _, _) in KINDS.items()}
    printed = {
        cells[1]: (cells[-3], cells[-2])
        for line in capsys.readouterr().out.splitlines()
        if len(cells := [cell.strip() for cell in line.split("|")]) > 9
    }
    assert printed["unknown"] == printed["no calls"] == ("unknown", "unknown")
    assert printed["measured zero"] == ("$0", "0 s")
