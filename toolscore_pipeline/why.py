"""Why a run has its grade: the chain from its bytes to the record, and how the score is made up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import UsageError
from toolscore_pipeline.regrades import results_of, rows_of
from toolscore_pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    import duckdb

    from toolscore_pipeline.project import Project
    from toolscore_pipeline.result import EvaluationResult

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d+)")
_MOST_NAMED = 8

# The terms of the composite score, in the order in which they are added.
_TERMS = (
    ("selection_accuracy", "selection_accuracy"),
    ("argument_f1", "argument_f1"),
    ("sequence_accuracy", "sequence_accuracy"),
    ("redundant_rate", "redundant_rate"),
    ("required_call_recall", "required_call_recall"),
)


def explain(project: Project, run: str) -> dict[str, Any]:
    """The chain of the grade that stands for a run, JSON-safe, from the published copy.

    Args:
        project: the project.
        run: the beginning of a run's or grade's id (four characters or more), a document's path
            when it holds one run, or ``path:line``.

    Returns:
        ``run``, ``source``, ``evidence``, ``judgment``, ``grader``, ``grade`` (with the ``terms``
        of the score), ``expectations``, ``checks``, ``findings``, ``flips`` and ``other_grades``.

    Raises:
        UsageError: no run, or several, are meant; or the run has no grade.
        WarehouseError: nothing has been published yet.
    """
    with Warehouse(project.warehouse).read() as store:
        found = _find(store, run)
        receipts = rows_of(
            store, "select * from receipts.receipts where run_id = $1", [found["run_id"]]
        )
        standing = [row for row in receipts if row["is_standing"]]
        if not standing:
            raise UsageError(
                f"the run {found['run_id'][:12]} ({found['path']}) has no grade: no contract"
                " applies to it"
            )
        row = standing[0]
        [result] = list(results_of(store, [row["grade_id"]]))
        flips = rows_of(
            store,
            "select edition, before_outcome, after_outcome, before_score, after_score, reason"
            " from marts.flips where run_id = $1 order by edition",
            [found["run_id"]],
        )
    others = [
        {name: other[name] for name in ("grade_id", "judgment_id", "grader_version", "score")}
        for other in receipts
        if other["grade_id"] != row["grade_id"]
    ]
    return {
        "run": {
            name: result.run[name]
            for name in ("run_id", "task", "variant", "repetition", "status", "recorded_outcome")
        },
        "source": {
            "name": result.run["source"],
            "path": row["trace_path"],
            "locator": row["trace_locator"],
            "sha256": row["trace_sha256"],
            "bytes": row["trace_bytes"],
            "format": row["format"],
        },
        "evidence": {"sha256": result.evidence_sha256, "calls": len(result.calls)},
        "judgment": {
            "sha256": result.judgment_id,
            "contract": row["contract"],
            "path": row["contract_path"],
            "file_sha256": row["contract_file_sha256"],
            "choices": result.grade_row["choices_json"],
        },
        "grader": {"version": result.grader_version},
        "grade": {
            "sha256": result.grade_id,
            "score": result.score,
            "grade": result.grade,
            "verdict": result.verdict,
            "outcome": result.outcome,
            "min_score": result.min_score,
            "terms": _terms(result),
        },
        "expectations": [_expectation(row) for row in result.expectations],
        "checks": result.evidence["checks"],
        "findings": [
            {
                name: finding[name]
                for name in ("finding", "severity", "call_index", "tool", "reason")
            }
            for finding in result.findings
        ],
        "flips": flips,
        "other_grades": others,
    }


def _find(store: duckdb.DuckDBPyConnection, run: str) -> dict[str, Any]:
    place = _PLACE.fullmatch(run)
    found: list[dict[str, Any]] = []
    if place is not None:
        found = rows_of(
            store,
            "select run_id, path, locator from evidence.runs where path = $1 and locator = $2",
            [place["path"], f"line {place['line']}"],
        )
    if not found:
        found = rows_of(
            store,
            "select run_id, path, locator from evidence.runs where path = $1 order by run_id",
            [run],
        )
    if not found and re.fullmatch(r"[0-9a-f]{4,64}", run):
        found = rows_of(
            store,
            "select run_id, path, locator from evidence.runs where starts_with(run_id, $1)"
            " or run_id in (select run_id from grades.grades where starts_with(grade_id, $1))"
            " order by run_id",
            [run],
        )
    if not found:
        raise UsageError(
            f"no run is named {run!r}; give the beginning of its id, or its file and line"
            " (runs.jsonl:3)"
        )
    if len(found) > 1:
        names = ", ".join(row["run_id"][:12] for row in found[:_MOST_NAMED])
        raise UsageError(f"{run!r} names {len(found)} runs; say which: {names}")
    return found[0]


def _terms(result: EvaluationResult) -> list[dict[str, Any]]:
    """What each metric adds to the score: weight times value."""
    terms = []
    for weight_name, metric in _TERMS:
        weight, value = result.weights[weight_name], result.metrics_row[metric]
        counted = 1.0 if value is None else float(value)
        if metric == "redundant_rate":
            counted = 1.0 - float(value)
        terms.append({"metric": metric, "value": value, "weight": weight, "adds": weight * counted})
    return terms


def _expectation(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: row[name]
        for name in (
            "position", "tool", "is_checked", "call_index", "is_failed", "missing_args",
            "different_args", "unexpected_args",
        )
    }  # fmt: skip


def chain_lines(found: Mapping[str, Any]) -> list[str]:
    """The chain for people, a line each."""
    run, source, judgment = found["run"], found["source"], found["judgment"]
    grade = found["grade"]
    place = f"{source['path']} {source['locator'] or ''}".strip()
    where = judgment["path"] or "a contract that is bound no more"
    file_hash = f", sha256 {judgment['file_sha256'][:12]}" if judgment["file_sha256"] else ""
    read = f"{source['format']}; {source['bytes']} bytes, sha256 {source['sha256'][:12]}"
    came = f"{grade['outcome']} (passes from {grade['min_score']:g})"
    lines = [
        f"run       {run['run_id']}",
        f"          task {run['task']}, variant {run['variant']}, repetition {run['repetition']}",
        f"source    {place} ({read})",
        f"evidence  {found['evidence']['sha256'][:12]}: {found['evidence']['calls']} calls",
        f"judgment  {judgment['sha256'][:12]}: {where}{file_hash}",
    ]
    if judgment["choices"] not in (None, "{}"):
        lines.append(f"          the combination that won: {judgment['choices']}")
    lines += [
        f"grader    {found['grader']['version'][:12]}",
        f"grade     {grade['sha256'][:12]}: {grade['score']:.4f} {grade['grade']}, {came}",
    ]
    for term in grade["terms"]:
        value = "unknown" if term["value"] is None else f"{term['value']:.3f}"
        counted = f"1 - {value}" if term["metric"] == "redundant_rate" else value
        lines.append(
            f"          {term['adds']:.4f} = {term['weight']:.3f} x {counted} {term['metric']}"
        )
    lines += [_expectation_line(row) for row in found["expectations"]]
    lines += [
        f"check     {row['check']}: {row['status']} ({row['detail']})" for row in found["checks"]
    ]
    for row in found["findings"]:
        call = "" if row["call_index"] is None else f" at call {row['call_index'] + 1}"
        lines.append(
            f"finding   {row['finding']} ({row['severity']}){call}: {row['reason'] or '-'}"
        )
    for row in found["flips"]:
        lines.append(
            f"before    edition {row['edition']}: {row['before_score']:.4f}"
            f" {row['before_outcome']} became {row['after_score']:.4f} {row['after_outcome']}:"
            f" {row['reason']}"
        )
    return lines


def _expectation_line(row: Mapping[str, Any]) -> str:
    name = f"expected  {row['position'] + 1}. {row['tool']}"
    if row["call_index"] is None:
        return f"{name}: no call stands for it"
    said = [f"call {row['call_index'] + 1}{', which failed' if row['is_failed'] else ''}"]
    if not row["is_checked"]:
        said.append("arguments not checked")
    for key, words in (
        ("missing_args", "missing"),
        ("different_args", "different"),
        ("unexpected_args", "not expected"),
    ):
        if row[key]:
            said.append(f"{words}: {', '.join(row[key])}")
    return f"{name}: {'; '.join(said)}"
