"""The verdict on one run, by the same engine that grades everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.agent.spec import Task
from toolscore_pipeline.contract import Contract

if TYPE_CHECKING:
    from toolscore_pipeline.result import EvaluationResult


def grade_row(task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
    """The ``evaluation``, ``outcome``, ``outcome_reason`` and ``passed`` of a run row.

    Args:
        task: the task, with what it expects.
        row: the row so far: its calls, status and final answer.

    Returns:
        ``evaluation`` (score and grade are None when the task expects no calls), ``outcome``
        (``pass``, ``fail``, ``error`` or ``unknown``), ``outcome_reason`` (a sentence) and
        ``passed`` (true for a pass, false for a fail, None otherwise).
    """
    return next(grade_rows([(task, row)]))


def grade_rows(pairs: Iterable[tuple[Task, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """What :func:`grade_row` returns, for many rows at once; one task object is compiled once.

    Args:
        pairs: the task and the row of each, in order.
    """
    from toolscore_pipeline import api
    from toolscore_pipeline.formats.run_rows import read_row
    from toolscore_pipeline.judgments import Judgment, compile_judgment

    compiled: dict[int, Judgment] = {}
    kept = list(pairs)
    for task, _ in kept:
        if id(task) not in compiled:
            compiled[id(task)] = compile_judgment(
                task.contract or Contract(),
                min_score=task.min_score,
                require_completed=task.require_completed,
            )
    results = api.evaluate_many((compiled[id(task)], read_row(dict(row))) for task, row in kept)
    for (task, row), result in zip(kept, results, strict=True):
        yield _verdict(task, row, result)


def _verdict(task: Task, row: Mapping[str, Any], result: EvaluationResult) -> dict[str, Any]:
    outcome = result.outcome
    if outcome == "pass" and row["status"] != "completed":
        outcome = "fail"
    record = result.to_dict()
    findings = [finding for finding in result.honesty_findings if finding["severity"] == "error"]
    evaluation = {
        "score": result.score if task.is_scored else None,
        "grade": result.grade if task.is_scored else None,
        "min_score": task.min_score,
        "require_completed": task.require_completed,
        "weights": record["weights"],
        "required_call_recall": result.required_call_recall,
        "honesty": result.honesty_findings,
        "policy": result.policy_violations,
        "credentials": result.secrets,
        "evidence": record["evidence"],
        "hashes": record["hashes"],
    }
    return {
        "evaluation": evaluation,
        "outcome": outcome,
        "outcome_reason": _reason(task, row, outcome, result, findings),
        "passed": {"pass": True, "fail": False}.get(outcome),
    }


def _reason(
    task: Task, row: Mapping[str, Any], outcome: str, result: Any, findings: list[dict[str, Any]]
) -> str:
    """Why a run has its outcome, as one sentence; the first reason that holds."""
    if outcome == "error":
        return f"the run did not end by itself ({row['status']})"
    if outcome == "unknown" and task.contract is None:
        return "the task declares no expected or forbidden calls"
    if outcome == "unknown":
        return _open_question(result)
    if outcome == "pass":
        return "the run completed and met everything the task asks for"
    if findings:
        return f"{findings[0]['check']}: {findings[0]['reason']}"
    if result.policy_violations:
        return f"a forbidden call to {result.policy_violations[0]['tool']} was requested"
    if not result.passed:
        return f"the score {result.score:.3f} is below {task.min_score:g}"
    if row["status"] != "completed":
        return f"the run did not complete ({row['status']}: {row['stop_reason']})"
    return "a required call is missing or failed"


def _open_question(result: Any) -> str:
    """What was not recorded or decided, so that the run is neither a pass nor a fail."""
    for check in result.evidence["checks"]:
        if check["check"] in ("required-calls", "forbidden-calls") and check["status"] == "unknown":
            return f"{check['check']}: {check['detail']}"
    return "the task declares no expected or forbidden calls"
