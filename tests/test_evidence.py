"""The three states and how they are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from toolscore_pipeline.errors import UsageError
from toolscore_pipeline.evidence import (
    CHECKS,
    STATES,
    Check,
    evaluation_evidence,
    summary_line,
    tally,
    tri_state,
)


def test_states_and_checks_have_a_fixed_order() -> None:
    assert STATES == ("pass", "fail", "unknown")
    assert CHECKS == (
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


def test_a_tally_has_all_three_states_and_loses_none() -> None:
    assert tally([]) == {"pass": 0, "fail": 0, "unknown": 0}
    counts = tally(["pass", "unknown", "pass", "fail", "unknown", "unknown"])
    assert counts == {"pass": 2, "fail": 1, "unknown": 3}  # 2 + 1 + 3 = 6 statuses
    assert list(counts) == list(STATES)


def test_a_status_that_is_none_of_the_three_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'pass'"):
        tally(["pass", "passs"])


def test_the_summary_line_names_every_state_and_its_count() -> None:
    assert summary_line({"pass": 7, "fail": 0, "unknown": 0}) == "7 pass, 0 fail, 0 unknown"
    assert summary_line({"fail": 2}) == "0 pass, 2 fail, 0 unknown"


@pytest.mark.parametrize(("value", "state"), [(True, "pass"), (False, "fail"), (None, "unknown")])
def test_none_is_unknown_and_never_a_pass(value: bool | None, state: str) -> None:
    assert tri_state(value) == state


@pytest.mark.parametrize("value", ["unknown", "fail", 1, 0, [], 0.5])
def test_what_is_no_verdict_never_becomes_a_pass_or_a_fail(value):
    with pytest.raises(ValueError, match="True, False or None"):
        tri_state(value)


def test_a_check_is_its_id_its_status_and_a_reason() -> None:
    check = Check("disclosure", "unknown", "no final answer")
    assert check.to_dict() == {
        "check": "disclosure",
        "status": "unknown",
        "detail": "no final answer",
    }
    assert check == Check("disclosure", "unknown", "no final answer")


def test_the_evidence_of_an_evaluation_is_the_one_it_holds() -> None:
    evidence = {"checks": [], "counts": tally([]), "coverage": {}}
    result = cast(Any, SimpleNamespace(evidence=evidence))
    assert evaluation_evidence(result) is evidence
