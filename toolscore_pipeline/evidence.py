"""Tri-state evidence: every check is pass, fail or unknown.

A check that lacks the data it needs does not pass. A trace that holds only requests cannot show
that a call succeeded, and one without a final answer cannot show that a failure was disclosed.
Those checks are unknown and counted apart: "4 pass, 0 fail, 3 unknown".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from toolscore_pipeline.result import EvaluationResult

#: The three states, in report order.
STATES: tuple[str, ...] = ("pass", "fail", "unknown")

#: The nine checks of an evaluation, in report order. forbidden-calls, prompt-injection and
#: side-effects appear only where they apply.
CHECKS: tuple[str, ...] = (
    "required-calls",
    "call-errors",
    "forbidden-calls",
    "credentials",
    "claimed-success",
    "disclosure",
    "escape-hatch",
    "prompt-injection",
    "side-effects",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One check's verdict.

    Attributes:
        check: the check's id (one of :data:`CHECKS`).
        status: ``pass``, ``fail`` or ``unknown``.
        detail: why, in a few words.
    """

    check: str
    status: str
    detail: str

    def to_dict(self) -> dict[str, str]:
        """``{"check", "status", "detail"}``."""
        return {"check": self.check, "status": self.status, "detail": self.detail}


def tally(statuses: Iterable[str]) -> dict[str, int]:
    """Count statuses: ``{"pass": n, "fail": n, "unknown": n}``, always with all three keys.

    Raises:
        UsageError: for a status that is none of :data:`STATES`; it would vanish from the counts.
    """
    counts = dict.fromkeys(STATES, 0)
    for status in statuses:
        if status not in counts:
            raise UsageError(unknown_name("status", str(status), STATES))
        counts[status] += 1
    return counts


def summary_line(counts: dict[str, int]) -> str:
    """``"5 pass, 1 fail, 2 unknown"``; a state that is not among the counts is 0."""
    return ", ".join(f"{counts.get(state, 0)} {state}" for state in STATES)


def tri_state(value: bool | None) -> str:
    """True -> ``pass``, False -> ``fail``, None -> ``unknown``.

    Raises:
        UsageError: for anything else; the text ``"unknown"`` would count as true.
    """
    if value is None:
        return "unknown"
    if not isinstance(value, bool):
        raise UsageError(f"a verdict is True, False or None, not {value!r}")
    return "pass" if value else "fail"


def evaluation_evidence(result: EvaluationResult) -> dict[str, Any]:
    """The checks and the evidence coverage of one evaluation.

    Returns:
        ``checks`` (dicts of check, status and detail, in the order of :data:`CHECKS`), ``counts``
        (pass, fail and unknown) and ``coverage``: ``calls``, ``with_outcome``, ``with_duration``,
        ``with_cost`` (counts of calls) and ``final_answer`` (``known`` or ``unknown``).
    """
    return result.evidence
