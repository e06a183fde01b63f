"""The evaluation of one run: evidence, judgment and grade side by side, as one Python object."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from toolscore_pipeline.honesty.config import CHECKS as HONESTY_CHECKS
from toolscore_pipeline.matchers import record_value

#: The version of the record that :meth:`EvaluationResult.to_dict` makes.
RECORD_SCHEMA_VERSION = "2"
#: Its JSON Schema (draft 2020-12).
RECORD_SCHEMA_PATH = Path(__file__).parent / "schemas" / "evaluation-v2.schema.json"
_LONG_INTEGER = re.compile(r"\d{19}")

WEIGHT_COLUMNS = {
    "selection_accuracy": "weight_selection",
    "argument_f1": "weight_arguments",
    "sequence_accuracy": "weight_sequence",
    "redundant_rate": "weight_redundancy",
    "required_call_recall": "weight_recall",
}


@dataclass(frozen=True)
class EvaluationResult:
    """One run held against one judgment.

    It is made of rows: what the tables of the warehouse hold for the pair, and what the same SQL
    returns for a single run in memory. Everything below is read from them.

    Attributes:
        run: the row of ``evidence.runs``.
        calls: the rows of ``evidence.calls``, in order.
        judgment: the judgment as declared (its canonical document).
        judgment_row: the row of ``judgment.judgments``.
        expected: the expected calls of the winning combination, as declared, in order.
        combinations: the rows of ``judgment.combinations``, in order.
        grade_row, metrics_row: the rows of ``grades.grades`` and ``grades.metrics``.
        checks, findings, expectations: the rows of those tables of the ``grades`` schema.
    """

    run: dict[str, Any]
    calls: list[dict[str, Any]]
    judgment: dict[str, Any]
    judgment_row: dict[str, Any]
    expected: list[dict[str, Any]]
    combinations: list[dict[str, Any]]
    grade_row: dict[str, Any]
    metrics_row: dict[str, Any]
    checks: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    expectations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The composite score of the winning combination, 0 to 1."""
        return float(self.grade_row["score"])

    @property
    def grade(self) -> str:
        """A from 0.9, B from 0.8, C from 0.7, D from 0.6, else F."""
        return str(self.grade_row["grade"])

    @property
    def verdict(self) -> str:
        """PASS from 0.9, WARN from 0.7, else FAIL."""
        return str(self.grade_row["verdict"])

    @property
    def passed(self) -> bool:
        """Whether the score reaches the judgment's ``min_score``, within 1e-9."""
        return bool(self.grade_row["is_passed"])

    @property
    def outcome(self) -> str:
        """``pass``, ``fail``, ``error`` or ``unknown``: score, required calls, rules, honesty."""
        return str(self.grade_row["outcome"])

    @property
    def min_score(self) -> float:
        """The passing score, 0 to 1."""
        return float(self.grade_row["min_score"])

    @property
    def selection_accuracy(self) -> float:
        """Calls with an expected tool / all calls, 0 to 1."""
        return float(self.metrics_row["selection_accuracy"])

    @property
    def argument_f1(self) -> float:
        """Harmonic mean of argument precision and recall, 0 to 1."""
        return float(self.metrics_row["argument_f1"])

    @property
    def sequence_accuracy(self) -> float:
        """1 - edit distance of the tool sequences / the longer of them, 0 to 1."""
        return float(self.metrics_row["sequence_accuracy"])

    @property
    def required_call_recall(self) -> float | None:
        """Required calls made that did not fail / required calls, 0 to 1; None without any."""
        value = self.metrics_row["required_call_recall"]
        return None if value is None else float(value)

    @property
    def final_answer(self) -> str | None:
        """The final answer recorded; None when there is none."""
        value = self.run["final_answer"]
        return None if value is None else str(value)

    @property
    def weights(self) -> dict[str, float]:
        """The weights as applied: they sum to 1."""
        return {name: float(self.judgment_row[column]) for name, column in WEIGHT_COLUMNS.items()}

    @property
    def run_id(self) -> str:
        """The run's id: a SHA-256."""
        return str(self.run["run_id"])

    @property
    def evidence_sha256(self) -> str:
        """SHA-256 of what was recorded."""
        return str(self.run["evidence_sha256"])

    @property
    def judgment_id(self) -> str:
        """SHA-256 of the judgment."""
        return str(self.grade_row["judgment_id"])

    @property
    def grade_id(self) -> str:
        """SHA-256 over evidence, judgment and grader version."""
        return str(self.grade_row["grade_id"])

    @property
    def grader_version(self) -> str:
        """Hash over the formulas."""
        return str(self.grade_row["grader_version"])

    @cached_property
    def trace_calls(self) -> list[dict[str, Any]]:
        """Every call of the run, optional ones included; fields that were not recorded are None."""
        return [_call_record(row) for row in self.calls]

    @cached_property
    def scored_calls(self) -> list[dict[str, Any]]:
        """The calls that the score compared: all but the optional ones left out."""
        left_out = set(self.grade_row["optional_call_indexes"])
        return [call for index, call in enumerate(self.trace_calls) if index not in left_out]

    @cached_property
    def policy_violations(self) -> list[dict[str, Any]]:
        """The forbidden calls: ``index``, ``tool``, ``args``, ``rule`` (from 0) and ``reason``."""
        return [
            {
                "index": row["call_index"],
                "tool": row["tool"],
                "args": self.trace_calls[row["call_index"]]["args"] or {},
                "rule": row["rule_position"],
                "reason": row["reason"],
            }
            for row in self.findings
            if row["finding"] == "forbidden-call" and row["severity"] == "error"
        ]

    @cached_property
    def secrets(self) -> list[dict[str, Any]]:
        """Credentials in tool arguments.

        Each has ``index``, ``tool``, ``path``, ``kind``, a redacted ``preview`` and ``is_example``.
        """
        return [
            {
                "index": row["call_index"],
                "tool": row["tool"],
                "path": row["path"],
                "kind": row["kind"],
                "preview": row["preview"],
                "is_example": row["is_example"],
            }
            for row in self.findings
            if row["finding"] == "credential" and row["severity"] == "error"
        ]

    @cached_property
    def honesty_findings(self) -> list[dict[str, Any]]:
        """What the honesty checks found.

        Each has ``check``, ``severity``, ``index``, ``tool``, ``sentence`` and ``reason``.
        """
        known = ("forbidden-call", "credential", "failed-call", "blind-retry")
        return [
            {
                "check": row["finding"],
                "severity": row["severity"],
                "index": row["call_index"],
                "tool": row["tool"],
                "sentence": row["sentence"],
                "reason": row["reason"],
            }
            for row in self.findings
            if row["finding"] not in known
        ]

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """``checks`` (check, status, detail), ``counts`` of the three states, and ``coverage``."""
        return {
            "checks": [
                {"check": row["check_name"], "status": row["status"], "detail": row["detail"]}
                for row in self.checks
            ],
            "counts": {
                "pass": self.grade_row["pass_count"],
                "fail": self.grade_row["fail_count"],
                "unknown": self.grade_row["unknown_count"],
            },
            "coverage": {
                "calls": self.grade_row["call_count"],
                "with_outcome": self.grade_row["outcome_count"],
                "with_duration": self.grade_row["duration_count"],
                "with_cost": self.grade_row["cost_count"],
                "final_answer": "known" if self.grade_row["is_final_answer_known"] else "unknown",
            },
        }

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every metric by group, under the names of the record."""
        row = self.metrics_row
        metrics: dict[str, Any] = {
            "invocation_accuracy": row["invocation_accuracy"],
            "selection_accuracy": row["selection_accuracy"],
            "tool_correctness_metrics": {
                "tool_correctness": row["tool_correctness"],
                "expected_tools": row["expected_tools"],
                "called_tools": row["called_tools"],
                "missing_tools": row["missing_tools"],
                "extra_tools": row["extra_tools"],
                "correct_count": row["correct_tool_count"],
                "total_expected": row["expected_tool_count"],
            },
            "sequence_metrics": {
                "edit_distance": row["edit_distance"],
                "normalized_distance": row["normalized_distance"],
                "sequence_accuracy": row["sequence_accuracy"],
            },
            "trajectory_metrics": {
                "trajectory_accuracy": row["trajectory_accuracy"],
                "step_match_rate": row["step_match_rate"],
                "path_efficiency": row["path_efficiency"],
                "correct_steps": row["trajectory_correct_count"],
                "total_expected_steps": row["trajectory_expected_count"],
                "trajectory_details": self._trajectory_details(),
            },
            "argument_metrics": {
                "precision": row["argument_precision"],
                "recall": row["argument_recall"],
                "f1": row["argument_f1"],
            },
            "efficiency_metrics": {
                name: row[name]
                for name in (
                    "redundant_count",
                    "total_calls",
                    "redundant_rate",
                    "identical_count",
                    "identical_rate",
                    "error_count",
                    "error_rate",
                    "retry_after_error_count",
                )
            },
            "required_call_recall": row["required_call_recall"],
            "latency_metrics": {
                "status": row["latency_status"],
                "known_count": row["latency_known_count"],
                "total": row["total_duration_seconds"],
                "mean": row["mean_duration_seconds"],
                "min": row["min_duration_seconds"],
                "max": row["max_duration_seconds"],
            },
            "cost_metrics": {
                "status": row["cost_status"],
                "known_count": row["cost_known_count"],
                "total": row["total_cost_usd"],
                "mean": row["mean_cost_usd"],
                "min": row["min_cost_usd"],
                "max": row["max_cost_usd"],
                "per_tool": self._cost_per_tool(),
            },
            "security_metrics": {"secret_count": len(self.secrets), "secrets": self.secrets},
            "honesty_metrics": self._honesty_metrics(),
        }
        if self.judgment_row["has_forbidden_rules"]:
            metrics["policy_metrics"] = {
                "violation_count": len(self.policy_violations),
                "rule_count": self.judgment_row["forbidden_count"],
                "violations": self.policy_violations,
            }
        if self.judgment_row["is_contract"]:
            metrics["contract_metrics"] = self._contract_metrics()
        return metrics

    def _honesty_metrics(self) -> dict[str, Any]:
        states = {row["check_name"]: row["status"] for row in self.checks}
        severities = [found["severity"] for found in self.honesty_findings]
        recorded = sum(row["has_result"] or row["is_failed"] is not None for row in self.calls)
        if recorded == len(self.calls):
            results = "recorded"
        else:
            results = "partial" if recorded else "missing"
        return {
            "final_answer": self.evidence["coverage"]["final_answer"],
            "results": results,
            "checks": {name: states[name] for name in HONESTY_CHECKS if name in states},
            "error_count": severities.count("error"),
            "warning_count": severities.count("warning"),
            "findings": self.honesty_findings,
        }

    def _trajectory_details(self) -> list[dict[str, Any]]:
        if not self.expected:
            return []  # without steps to follow there is none to compare
        met = set(self.metrics_row["trajectory_met_positions"])
        details = []
        for position in range(max(len(self.expected), len(self.scored_calls))):
            wanted = self.expected[position] if position < len(self.expected) else None
            made = self.scored_calls[position] if position < len(self.scored_calls) else None
            detail = {
                "step": position + 1,
                "expected_tool": wanted["tool"] if wanted else None,
                "actual_tool": made["tool"] if made else None,
                "matches": position in met,
                "expected_args": (record_value(wanted["args"]) if wanted else None) or {},
                "actual_args": (made["args"] if made else None) or {},
            }
            if made is None:
                detail["error"] = "the run ended before this step"
            elif wanted is None:
                detail["error"] = "a step that was not expected"
            details.append(detail)
        return details

    def _cost_per_tool(self) -> dict[str, float]:
        costs: dict[str, float] = {}
        for row in self.calls:
            if row["cost_usd"] is not None:
                costs[row["tool"]] = costs.get(row["tool"], 0.0) + row["cost_usd"]
        return dict(sorted(costs.items()))

    def _contract_metrics(self) -> dict[str, Any]:
        row, chosen = self.judgment_row, orjson.loads(self.grade_row["choices_json"])
        by_group: dict[str, list[dict[str, Any]]] = {group: [] for group in chosen}
        for call in self.expected:
            if call.get("group_id") is not None:
                by_group[call["group_id"]].append(_expected_record(call))
        return {
            "contract_version": 2,
            "required": row["required_count"],
            "optional": row["optional_count"],
            "forbidden": row["forbidden_count"],
            "alternatives": {
                "chosen": {
                    group: {"option": option, "calls": by_group[group]}
                    for group, option in chosen.items()
                },
                "combinations": [
                    {"choices": orjson.loads(combination["choices_json"]), "score": score}
                    for combination, score in zip(
                        self.combinations, self.grade_row["combination_scores"], strict=True
                    )
                ],
            },
            "optional_matched": [
                {"index": index, "tool": self.calls[index]["tool"]}
                for index in self.grade_row["optional_call_indexes"]
            ],
            "min_score": self.min_score,
            "passed": self.passed,
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole evaluation as one JSON-safe record, schema version "2".

        It holds every call with its arguments as recorded, credentials included: treat it like the
        trace. What was not recorded is None, an expected matcher is its JSON form, or its repr when
        it has none, and so is any value that JSON cannot hold. The same evaluation gives the same
        record, and so the same hash, everywhere. :data:`RECORD_SCHEMA_PATH` is its JSON Schema.
        """
        return {
            "schema_version": RECORD_SCHEMA_VERSION,
            "score": self.score,
            "grade": self.grade,
            "verdict": self.verdict,
            "outcome": self.outcome,
            "weights": self.weights,
            "required_call_recall": self.required_call_recall,
            "metrics": self.metrics,
            "evidence": self.evidence,
            "findings": self.honesty_findings,
            "calls": {
                "expected": [_expected_record(call) for call in self.expected],
                "actual": self.trace_calls,
            },
            "gold_calls_count": len(self.expected),
            "trace_calls_count": len(self.calls),
            "hashes": {
                "evidence": self.evidence_sha256,
                "judgment": self.judgment_id,
                "grader": self.grader_version,
                "grade": self.grade_id,
            },
        }

    def __repr__(self) -> str:
        return (
            f"<EvaluationResult {self.score:.3f} {self.grade} {self.verdict},"
            f" {len(self.calls)} calls, {len(self.expected)} expected>"
        )


def _expected_record(call: dict[str, Any]) -> dict[str, Any]:
    return {"tool": call["tool"], "args": record_value(call["args"])}


def _call_record(row: dict[str, Any]) -> dict[str, Any]:
    started = row["started_at"]
    return {
        "id": row["call_id"],
        "tool": row["tool"],
        "args": parse_json(row["args_json"]),
        "args_status": row["args_status"],
        "result": parse_json(row["result_json"]),
        "has_result": row["has_result"],
        "is_error": row["is_error"],
        "error": parse_json(row["error_json"]),
        "is_failed": row["is_failed"],
        "denied": row["is_denied"],
        "duration": row["duration_seconds"],
        "cost": row["cost_usd"],
        "timestamp": started.isoformat() if started is not None else None,
    }


def parse_json(text: str | None) -> Any:
    """The value of a JSON column; None for NULL. Integers beyond 64 bits stay exact."""
    if text is None:
        return None
    # orjson reads long integers as doubles; the standard parser keeps every digit.
    return json.loads(text) if _LONG_INTEGER.search(text) else orjson.loads(text)
