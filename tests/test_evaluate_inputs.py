"""What evaluate() is given besides traces: refused in one sentence, or kept whole."""

from __future__ import annotations

from typing import Any

import pytest

from toolscore_pipeline.api import evaluate, single_run
from toolscore_pipeline.errors import ToolscoreError

CALLS = [{"tool": "a", "args": {"x": "1"}, "result": 1}]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"final_answer": b"Done."}, "final_answer: got b'Done.', expected text"),
        ({"injected": ["error"]}, "at $: injected faults must be an object"),
        ({"injected": {"fault": []}}, "unknown key 'fault'"),
    ],
)
def test_wrong_additions_to_a_run_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ToolscoreError) as caught:
        single_run(CALLS, **settings)
    assert sentence in str(caught.value)


def test_calls_that_hold_themselves_are_refused() -> None:
    args: dict[str, Any] = {}
    args["x"] = args
    with pytest.raises(ToolscoreError, match="nested deeper than 254 levels"):
        single_run([{"tool": "a", "args": args}])


def test_an_object_that_is_no_trace_is_named_without_its_credentials() -> None:
    key = "AKIA" + "Q3EGRZ7K2XWP4TNV"
    with pytest.raises(ToolscoreError, match="REDACTED aws_access_key_id") as caught:
        single_run({key: 1})
    assert key not in str(caught.value)


@pytest.mark.parametrize("error", ["", None, {}, [], False, 0, 0.0])
def test_an_empty_error_is_none(error: Any) -> None:
    metrics = evaluate([{"tool": "a"}], [{"tool": "a", "error": error, "result": 1}]).metrics
    assert metrics["efficiency_metrics"]["error_count"] == 0
    assert metrics["required_call_recall"] == 1.0


@pytest.mark.parametrize("error", [" ", "0", 1, [0], {"code": 0}])
def test_any_other_error_is_one(error: Any) -> None:
    metrics = evaluate([{"tool": "a"}], [{"tool": "a", "error": error, "result": 1}]).metrics
    assert metrics["efficiency_metrics"]["error_count"] == 1


def test_half_a_surrogate_pair_in_python_calls_is_graded_as_its_escape() -> None:
    calls = [{"tool": "a", "args": {"x": "\ud800", "\udfff": 1}, "result": "\ud800"}]
    result = evaluate([{"tool": "a", "args": {"x": "\\ud800", "\\udfff": 1}}], calls)
    assert result.argument_f1 == 1.0
    assert result.trace_calls[0]["result"] == "\\ud800"


def test_a_rule_over_arguments_that_were_not_recorded_leaves_the_outcome_open() -> None:
    # Spans hold arguments only when that is switched on.
    span = {
        "name": "execute_tool shell",
        "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell"},
        "status": {"code": 1},
    }
    rule = {"tool": "shell", "args": {"command": {"$regex": "rm -rf"}}}
    result = evaluate([{"tool": "shell"}], [span], forbidden=[rule])
    assert (result.passed, result.outcome) == (True, "unknown")
    assert evaluate([{"tool": "shell"}], [span]).outcome == "pass"


def test_a_required_call_without_an_outcome_is_not_completed_for_certain() -> None:
    calls = [{"tool": "a", "args": {}}]
    assert evaluate([{"tool": "a"}], calls, require_completed=True).outcome == "unknown"
    calls[0]["result"] = "done"
    assert evaluate([{"tool": "a"}], calls, require_completed=True).outcome == "pass"


def test_rules_alone_pass_a_run_that_breaks_none() -> None:
    contract = {"contract_version": 2, "required": [], "forbidden": [{"tool": "rm"}]}
    assert evaluate(contract, [{"tool": "ls", "result": "x"}]).outcome == "pass"
    assert evaluate(contract, [{"tool": "rm", "result": "x"}]).outcome == "fail"
