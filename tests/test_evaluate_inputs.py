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


def test_half_a_surrogate_pair_in_python_calls_is_graded_as_its_escape() -> None:
    calls = [{"tool": "a", "args": {"x": "\ud800", "\udfff": 1}, "result": "\ud800"}]
    result = evaluate([{"tool": "a", "args": {"x": "\\ud800", "\\udfff": 1}}], calls)
    assert result.argument_f1 == 1.0
    assert result.trace_calls[0]["result"] == "\\ud800"
