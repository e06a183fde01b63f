"""Whether the grades of a warehouse are those of the reference library, run by run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb

TOLERANCE = 1e-12
#: Column of the grades or metrics, and where the reference library's record has the same.
SHARED = {
    "score": ("score",),
    "invocation_accuracy": ("metrics", "invocation_accuracy"),
    "selection_accuracy": ("metrics", "selection_accuracy"),
    "tool_correctness": ("metrics", "tool_correctness_metrics", "tool_correctness"),
    "correct_tool_count": ("metrics", "tool_correctness_metrics", "correct_count"),
    "expected_tool_count": ("metrics", "tool_correctness_metrics", "total_expected"),
    "edit_distance": ("metrics", "sequence_metrics", "edit_distance"),
    "normalized_distance": ("metrics", "sequence_metrics", "normalized_distance"),
    "sequence_accuracy": ("metrics", "sequence_metrics", "sequence_accuracy"),
    "trajectory_accuracy": ("metrics", "trajectory_metrics", "trajectory_accuracy"),
    "step_match_rate": ("metrics", "trajectory_metrics", "step_match_rate"),
    "path_efficiency": ("metrics", "trajectory_metrics", "path_efficiency"),
    "trajectory_correct_count": ("metrics", "trajectory_metrics", "correct_steps"),
    "argument_precision": ("metrics", "argument_metrics", "precision"),
    "argument_recall": ("metrics", "argument_metrics", "recall"),
    "argument_f1": ("metrics", "argument_metrics", "f1"),
    "redundant_count": ("metrics", "efficiency_metrics", "redundant_count"),
    "redundant_rate": ("metrics", "efficiency_metrics", "redundant_rate"),
    "total_calls": ("metrics", "efficiency_metrics", "total_calls"),
    "identical_count": ("metrics", "efficiency_metrics", "identical_count"),
    "identical_rate": ("metrics", "efficiency_metrics", "identical_rate"),
    "error_count": ("metrics", "efficiency_metrics", "error_count"),
    "error_rate": ("metrics", "efficiency_metrics", "error_rate"),
    "retry_after_error_count": ("metrics", "efficiency_metrics", "retry_after_error_count"),
    "required_call_recall": ("metrics", "required_call_recall"),
}


def compare(warehouse: Path, sample: list[dict[str, Any]]) -> None:
    """Hold a sample of the reference library's records against the grades of a warehouse.

    Args:
        warehouse: the file; each of its runs has one grade.
        sample: records with ``run`` (task, variant, repetition), ``score`` and ``metrics``.

    Raises:
        AssertionError: a value differs by more than 1e-12, or there is nothing to compare.
        KeyError: a run of the sample is not in the warehouse.
    """
    columns = ", ".join(SHARED)
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        stored = connection.execute(
            f"select task, variant, repetition, {columns} from grades.grades"
            " inner join grades.metrics using (run_id, judgment_id, grader_version)"
            " inner join (select run_id, task, variant, repetition from evidence.runs)"
            " using (run_id)"
        ).fetchall()
    ours = {row[:3]: row[3:] for row in stored}
    assert len(ours) == len(stored), "runs are not told apart by task, variant and repetition"
    assert sample, "the reference library gave no records"
    for record in sample:
        values = ours[tuple(record["run"])]
        for (name, keys), mine in zip(SHARED.items(), values, strict=True):
            theirs: Any = record
            for key in keys:
                theirs = theirs[key]
            are_equal = (
                mine is theirs
                if mine is None or theirs is None
                else math.isclose(mine, theirs, rel_tol=0, abs_tol=TOLERANCE)
            )
            assert are_equal, f"{record['run']}: {name} is {mine}, the reference has {theirs}"
