"""What to fix first: the differences between the expected calls and those that were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolscore_pipeline.matchers import decide
from toolscore_pipeline.reports.safe import plain, short_value
from toolscore_pipeline.result import EvaluationResult

#: The kinds of issues, most pressing first.
KINDS = ("missing", "failed", "wrong-tool", "arguments", "extra", "order")

_ADVICE = {
    "missing": "Check that the agent has this tool, and that the prompt leads to it.",
    "failed": "Look at the error: the call was made, so the agent or the tool has to recover.",
    "wrong-tool": "Make the prompt or the tool descriptions tell the two tools apart.",
    "arguments": "Correct the arguments, or expect them more loosely with a matcher.",
    "extra": "Leave the call out, or list it as optional when it does no harm.",
    "order": "Ask for this order in the prompt, or give the sequence less weight.",
}
_UNDECIDED = "is unknown, for a pattern was over its time budget or a matcher raised an error"


@dataclass(frozen=True, slots=True)
class Issue:
    """One difference.

    Attributes:
        kind: one of :data:`KINDS`.
        tool: the tool it is about, made plain.
        index: the call it is about, from 0; None for a call that was never made.
        text: what is wrong, in one line, credentials redacted.
        advice: what to do about it.
    """

    kind: str
    tool: str
    index: int | None
    text: str

    @property
    def advice(self) -> str:
        """What to do about it, in one sentence."""
        return _ADVICE[self.kind]

    def to_dict(self) -> dict[str, Any]:
        """The issue as a JSON object."""
        return {
            "kind": self.kind,
            "tool": self.tool,
            "index": self.index,
            "text": self.text,
            "advice": self.advice,
        }


def find_issues(result: EvaluationResult) -> list[Issue]:
    """Every difference between the expected calls and the scored ones, most pressing first."""
    pairs = {row["position"]: row for row in result.expectations}
    left_out = set(result.grade_row["optional_call_indexes"])
    paired = {row["call_index"] for row in pairs.values() if row["call_index"] is not None}
    extra = [
        index for index in range(len(result.calls)) if index not in paired and index not in left_out
    ]
    issues: list[Issue] = []
    for position, wanted in enumerate(result.expected):
        row = pairs.get(position)
        if row is None or row["call_index"] is None:
            issues.append(_missing(result, position, pairs, extra))
            continue
        if row["is_failed"]:
            issues.append(_failed(result, row["call_index"]))
        if difference := _differences(result, wanted, row):
            tool = plain(wanted["tool"], 80)
            issues.append(Issue("arguments", tool, row["call_index"], difference))
    for index in extra:
        tool = plain(result.calls[index]["tool"], 80)
        text = f"call {index + 1} to `{tool}` was not expected"
        if _may_be_optional(result, index):
            text += f"; whether it is optional {_UNDECIDED}"
        issues.append(Issue("extra", tool, index, text))
    if not issues and result.metrics_row["edit_distance"] > 0:
        issues += _order(result, pairs)
    # Sorting is stable: within a kind the order of the calls stays.
    return sorted(issues, key=lambda issue: KINDS.index(issue.kind))


def _missing(
    result: EvaluationResult,
    position: int,
    pairs: dict[int, dict[str, Any]],
    extra: list[int],
) -> Issue:
    """An expected call that no call stands for, or the other tool that was called in its place."""
    wanted = result.expected[position]
    tool = plain(wanted["tool"], 80)
    before = [
        row["call_index"]
        for place, row in pairs.items()
        if place < position and row["call_index"] is not None
    ]
    after = [
        row["call_index"]
        for place, row in pairs.items()
        if place > position and row["call_index"] is not None
    ]
    first, last = max(before, default=-1), min(after, default=len(result.calls))
    candidates = [index for index in extra if first < index < last]
    if not candidates:
        return Issue("missing", tool, None, f"the expected call to `{tool}` was never made")
    instead = max(
        candidates,
        key=lambda index: (_likeness(wanted["args"], result.trace_calls[index]["args"]), -index),
    )
    extra.remove(instead)
    other = plain(result.calls[instead]["tool"], 80)
    return Issue("wrong-tool", tool, instead, f"`{other}` was called where `{tool}` was expected")


def _likeness(wanted: Any, given: Any) -> int:
    """How many arguments two calls share: a name counts once, an equal value once more."""
    if not isinstance(wanted, dict) or not isinstance(given, dict):
        return 0
    return sum(1 + (given[name] == value) for name, value in wanted.items() if name in given)


def _failed(result: EvaluationResult, index: int) -> Issue:
    call = result.trace_calls[index]
    tool = plain(call["tool"], 80)
    error = call["error"]
    if isinstance(error, dict):
        error = error.get("message") or error
    why = (
        f": {plain(error, 120) if isinstance(error, str) else short_value(error, 120)}"
        if error
        else ""
    )
    return Issue("failed", tool, index, f"the expected call to `{tool}` failed{why}")


def _differences(result: EvaluationResult, wanted: dict[str, Any], row: dict[str, Any]) -> str:
    """What is wrong with the arguments of a call, or an empty text."""
    call = result.trace_calls[row["call_index"]]
    tool = plain(wanted["tool"], 80)
    if row["is_checked"] and call["args_status"] in ("invalid", "not_object"):
        what = "not valid JSON" if call["args_status"] == "invalid" else "not a JSON object"
        return f"`{tool}` called with arguments that are {what}"
    if row["is_checked"] and call["args"] is None:
        return f"`{tool}` called, but its arguments were not recorded" if wanted["args"] else ""
    parts = []
    for name in row["different_args"]:
        expected, given = wanted["args"][name], call["args"][name]
        part = f"{plain(name, 40)}: expected {short_value(expected)}, got {short_value(given)}"
        if _meets(expected, given, result) is None:
            part += f"; whether that is met {_UNDECIDED}"
        parts.append(part)
    for label, names in (("missing", row["missing_args"]), ("unexpected", row["unexpected_args"])):
        if names:
            parts.append(f"{label}: {', '.join(plain(name, 40) for name in names)}")
    return f"`{tool}` called with unexpected arguments ({'; '.join(parts)})" if parts else ""


def _may_be_optional(result: EvaluationResult, index: int) -> bool:
    """Whether a call was counted only because an optional entry could not be decided."""
    call = result.trace_calls[index]
    if not isinstance(call["args"], dict) or call["args_status"] in ("invalid", "not_object"):
        return False
    for entry in result.judgment["optional"]:
        wanted = entry.get("args") or {}
        if entry["tool"] == call["tool"] and wanted.keys() <= call["args"].keys():
            met = [_meets(value, call["args"][name], result) for name, value in wanted.items()]
            if None in met and False not in met:
                return True
    return False


def _meets(expected: Any, given: Any, result: EvaluationResult) -> bool | None:
    """Whether a value meets a declared one; None when that could not be decided."""
    return decide(expected, given, strict=result.judgment["strict"])


def _order(result: EvaluationResult, pairs: dict[int, dict[str, Any]]) -> list[Issue]:
    """Expected calls that were all made, but not in the expected order."""
    latest, latest_tool, issues = -1, "", []
    for position in sorted(pairs):
        index = pairs[position]["call_index"]
        tool = plain(pairs[position]["tool"], 80)
        if index < latest:
            text = f"`{tool}` was called before `{latest_tool}`, expected after it"
            issues.append(Issue("order", tool, index, text))
        else:
            latest, latest_tool = index, tool
    return issues
