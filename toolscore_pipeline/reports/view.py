"""What a report shows, read from an evaluation once for all reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolscore_pipeline.figures import dollars, percent
from toolscore_pipeline.reports.issues import Issue, find_issues
from toolscore_pipeline.reports.safe import call_text, plain
from toolscore_pipeline.result import EvaluationResult

_SEVERITIES = ("error", "warning", "unknown")
_SHOWN_NOTES = 10


@dataclass(frozen=True, slots=True)
class Line:
    """One line of behaviour and safety.

    Attributes:
        finding: ``forbidden-call``, ``credential``, ``failed-call``, ``blind-retry``, or the
            honesty check that found it.
        severity: ``error``, ``warning``, or ``unknown`` for what could not be decided.
        text: what was found, credentials redacted.
    """

    finding: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class CallRow:
    """An expected call beside the call that stands for it; either may be missing.

    Attributes:
        expected: the expected call as text, or None.
        actual: the call made as text, or None.
        number: the call's number, from 1, or None.
        status: ``met``, ``failed``, ``arguments``, ``wrong tool``, ``missing``, ``extra`` or
            ``optional``.
        duration: what it took, as text.
    """

    expected: str | None
    actual: str | None
    number: int | None
    status: str
    duration: str


@dataclass(frozen=True)
class Verdict:
    """What a report shows. Every text is redacted and free of control characters.

    Attributes:
        score, grade, verdict, outcome: as in the evaluation.
        about: what was graded (task, variant, model), as name and text; empty when not recorded.
        metrics: name and value, as text.
        required: the line about required calls; None when all were completed or none was required.
        issues: what to fix, most pressing first.
        behaviour: errors, then warnings, then what is unknown.
        evidence: counts of pass, fail and unknown.
        checks: check, status and detail.
        coverage: one line.
        contract: lines about alternatives and optional calls; empty for a gold list.
        calls: expected beside made calls.
        notes: what was odd about the trace.
        hashes: name and hash.
    """

    score: float
    grade: str
    verdict: str
    outcome: str
    about: list[tuple[str, str]]
    metrics: list[tuple[str, str]]
    required: str | None
    issues: list[Issue]
    behaviour: list[Line]
    evidence: dict[str, int]
    checks: list[tuple[str, str, str]]
    coverage: str
    contract: list[str]
    calls: list[CallRow]
    notes: list[str]
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def percent(self) -> str:
        """The score in per cent, one digit behind the point."""
        return percent(self.score)

    @property
    def headline(self) -> str:
        """``Grade C   WARN (74.0%)``."""
        return f"Grade {self.grade}   {self.verdict} ({self.percent})"

    @property
    def evidence_line(self) -> str:
        """``Evidence: 4 pass, 0 fail, 3 unknown``."""
        counts = ", ".join(
            f"{self.evidence[state]} {state}" for state in ("pass", "fail", "unknown")
        )
        return f"Evidence: {counts}"


def read_verdict(result: EvaluationResult) -> Verdict:
    """Everything that the reports of an evaluation show."""
    coverage = result.evidence["coverage"]
    count = coverage["calls"]
    issues = find_issues(result)
    return Verdict(
        score=result.score,
        grade=result.grade,
        verdict=result.verdict,
        outcome=result.outcome,
        about=[
            (name, plain(str(result.run[name]), 120))
            for name in ("task", "variant", "model")
            if result.run[name] is not None
        ],
        metrics=_metrics(result),
        required=_required(result),
        issues=issues,
        behaviour=_behaviour(result),
        evidence=dict(result.evidence["counts"]),
        checks=[
            (check["check"], check["status"], plain(check["detail"]))
            for check in result.evidence["checks"]
        ],
        coverage=(
            f"Coverage: outcome of {coverage['with_outcome']} of {count} calls, duration of"
            f" {coverage['with_duration']}, cost of {coverage['with_cost']};"
            f" final answer {coverage['final_answer']}"
        ),
        contract=_contract(result),
        calls=_calls(result, issues),
        notes=_notes(result),
        hashes={
            "evidence": result.evidence_sha256,
            "judgment": result.judgment_id,
            "grader": result.grader_version,
            "grade": result.grade_id,
        },
    )


def summary(result: EvaluationResult) -> dict[str, Any]:
    """The verdict in a few numbers, for scripts; null where nothing was recorded or required."""
    latency, cost = result.metrics["latency_metrics"], result.metrics["cost_metrics"]
    return {
        "gold_calls_count": len(result.expected),
        "trace_calls_count": len(result.calls),
        "score": result.score,
        "grade": result.grade,
        "verdict": result.verdict,
        "outcome": result.outcome,
        "passed": result.passed,
        "weights": result.weights,
        "required_call_recall": result.required_call_recall,
        "failed_calls": result.grade_row["failed_call_count"],
        "policy_violations": len(result.policy_violations),
        "secrets": len(result.secrets),
        "latency_status": latency["status"],
        "total_duration": latency["total"],
        "cost_status": cost["status"],
        "total_cost": cost["total"],
    }


def report_record(result: EvaluationResult) -> dict[str, Any]:
    """The JSON report: the whole record, and beside it ``summary`` and ``issues``.

    It holds the calls as recorded, credentials included: treat it like the trace.
    """
    return {
        **result.to_dict(),
        "summary": summary(result),
        "issues": [issue.to_dict() for issue in find_issues(result)],
    }


def _metrics(result: EvaluationResult) -> list[tuple[str, str]]:
    row, grade = result.metrics_row, result.grade_row
    latency, cost = result.metrics["latency_metrics"], result.metrics["cost_metrics"]
    total, outcomes = len(result.calls), grade["outcome_count"]
    if not total:
        failed = "0 of 0 calls"
    elif not outcomes and not grade["failed_call_count"]:
        failed = "unknown"
    else:
        failed = f"{grade['failed_call_count']} of {total} calls"
        failed += f" ({total - outcomes} unknown)" if outcomes < total else ""
    required = result.required_call_recall
    return [
        ("Overall score", percent(result.score)),
        ("Selection accuracy", percent(result.selection_accuracy)),
        ("Argument F1", percent(result.argument_f1)),
        ("Sequence accuracy", percent(result.sequence_accuracy)),
        ("Redundant calls", f"{row['redundant_count']} ({percent(row['redundant_rate'])})"),
        (
            "Required calls completed",
            "none required"
            if required is None
            else f"{grade['completed_count']} of {grade['required_count']} ({percent(required)})",
        ),
        ("Failed calls", failed),
        ("Identical calls", str(row["identical_count"])),
        ("Duration", _measure(latency, total, lambda amount: f"{amount:.3f}s")),
        ("Cost", _measure(cost, total, _cost)),
    ]


def _cost(amount: float) -> str:
    """To a hundredth of a cent, and no less exactly than a small amount needs."""
    return f"${amount:.4f}" if amount == 0 or 0.001 <= amount < 1000 else dollars(amount)


def _measure(metrics: dict[str, Any], calls: int, form: Callable[[float], str]) -> str:
    """``unknown``, ``0.000s``, or ``1.234s (3 of 5 calls)`` when only some calls have the value."""
    if metrics["total"] is None:
        return "unknown"
    text = form(metrics["total"])
    if metrics["status"] == "partial":
        text += f" ({metrics['known_count']} of {calls} calls)"
    return text


def _required(result: EvaluationResult) -> str | None:
    recall, row = result.required_call_recall, result.grade_row
    if recall is None or recall >= 1:
        return None
    weight = result.weights["required_call_recall"]
    part = f"{percent(weight)} of the score" if weight else "not part of the default score"
    return (
        f"Required calls completed: {row['completed_count']} of {row['required_count']}"
        f" (missing or failed; {part})"
    )


def _behaviour(result: EvaluationResult) -> list[Line]:
    lines: list[Line] = []
    failed: Counter[str] = Counter()
    retries = 0
    for row in result.findings:
        if row["finding"] == "failed-call":
            failed[plain(row["tool"], 80)] += 1
        elif row["finding"] == "blind-retry":
            retries += 1
        else:
            lines.append(Line(row["finding"], row["severity"], finding_text(row)))
    if failed:
        tools = ", ".join(
            f"{tool} x{count}" if count > 1 else tool for tool, count in failed.most_common()
        )
        text = f"{failed.total()} of {len(result.calls)} tool calls failed ({tools})"
        lines.append(Line("failed-call", "warning", text))
    if retries:
        what = "1 call repeats" if retries == 1 else f"{retries} calls repeat"
        lines.append(
            Line("blind-retry", "warning", f"{what} a failed call with the same arguments")
        )
    return sorted(lines, key=lambda line: _SEVERITIES.index(line.severity))


# Findings whose reason goes on about the final answer.
_ABOUT_THE_ANSWER = ("claimed-success", "disclosure")


def finding_text(row: Mapping[str, Any]) -> str:
    """A row of ``grades.findings`` in one line, redacted."""
    call = ""
    if row["call_index"] is not None:
        call = f"call {row['call_index'] + 1} {plain(row['tool'] or '', 80)} "
    reason = plain(row["reason"] or "")
    is_unknown = row["severity"] == "unknown"
    if row["finding"] == "forbidden-call":
        verb = "may match" if is_unknown else "matches"
        text = f"{call}{verb} forbidden rule {row['rule_position'] + 1}"
        return f"{text}: {reason}" if reason else text
    if row["finding"] == "credential":
        if is_unknown:
            return f"{call}holds more text than is scanned for credentials"
        path = plain(row["path"] or "", 120)
        place = f"in '{path}'" if path else "in its arguments"
        return f"{call}passes a credential ({row['kind']}) {place}: {plain(row['preview'], 60)}"
    if row["finding"] == "failed-call":
        return f"failed-call: {call}failed"
    if row["finding"] in _ABOUT_THE_ANSWER:
        call = "the answer "
    elif reason.startswith("call "):
        call = ""  # the reason names its call itself
    text = f"{row['finding']}: {call}{reason}"
    return f"{text} — “{plain(row['sentence'], 200)}”" if row["sentence"] else text


def _contract(result: EvaluationResult) -> list[str]:
    if not result.judgment_row["is_contract"]:
        return []
    metrics = result.metrics["contract_metrics"]
    lines = []
    for group, chosen in metrics["alternatives"]["chosen"].items():
        calls = ", ".join(call_text(call["tool"], call["args"]) for call in chosen["calls"])
        option = f"option {chosen['option'] + 1}" + (f": {calls}" if calls else ": nothing needed")
        lines.append(f"Alternative {plain(group, 80)}: {option}")
    scores = [combination["score"] for combination in metrics["alternatives"]["combinations"]]
    if len(scores) > 1:
        others = sorted(scores, reverse=True)
        others.remove(max(scores))
        shown = ", ".join(f"{score:.3f}" for score in others[:5])
        shown += f" and {len(others) - 5} more" if len(others) > 5 else ""
        lines.append(f"Best of {len(scores)} combinations: {max(scores):.3f} (others: {shown})")
    for call in metrics["optional_matched"]:
        tool = plain(call["tool"], 80)
        lines.append(f"Optional, left out of the score: call {call['index'] + 1} {tool}")
    state = "reached" if metrics["passed"] else "not reached"
    lines.append(f"Passing score {percent(metrics['min_score'])}: {state}")
    return lines


def _calls(result: EvaluationResult, issues: list[Issue]) -> list[CallRow]:
    wrong = {issue.index for issue in issues if issue.kind == "wrong-tool"}
    differing = {issue.index for issue in issues if issue.kind == "arguments"}
    pairs = {row["position"]: row["call_index"] for row in result.expectations}
    rows: list[CallRow] = []
    shown: set[int] = set()
    for position, wanted in enumerate(result.expected):
        expected = call_text(wanted["tool"], wanted["args"])
        index = pairs.get(position)
        if index is None:
            rows.append(CallRow(expected, None, None, "missing", ""))
            continue
        shown.add(index)
        is_failed = result.trace_calls[index]["is_failed"]
        status = "failed" if is_failed else "arguments" if index in differing else "met"
        rows.append(_call_row(result, index, expected, status))
    left_out = set(result.grade_row["optional_call_indexes"])
    for index in range(len(result.calls)):
        if index not in shown:
            status = (
                "optional" if index in left_out else "wrong tool" if index in wrong else "extra"
            )
            rows.append(_call_row(result, index, None, status))
    return rows


def _call_row(result: EvaluationResult, index: int, expected: str | None, status: str) -> CallRow:
    call = result.trace_calls[index]
    duration = "unknown" if call["duration"] is None else f"{call['duration']:.3f}s"
    return CallRow(expected, call_text(call["tool"], call["args"]), index + 1, status, duration)


def _notes(result: EvaluationResult) -> list[str]:
    notes = [plain(warning) for warning in result.run["warnings"] or []]
    for index, call in enumerate(result.calls):
        name = f"call {index + 1} {plain(call['tool'], 80)}"
        notes += [f"{name}: {plain(warning)}" for warning in call["warnings"] or []]
    if len(notes) > _SHOWN_NOTES:
        more = len(notes) - _SHOWN_NOTES
        notes = [*notes[:_SHOWN_NOTES], f"and {more} more"]
    return notes
