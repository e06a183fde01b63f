"""Expectations in tests: what passes, what fails, and what the failure says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolscore_pipeline import (
    ANY,
    Contains,
    Regex,
    ToolScoreAssertionError,
    assert_tools,
    expect,
)
from toolscore_pipeline.errors import SettingsError, UsageError

TRACE = [
    {"tool": "search_flights", "args": {"destination": "LIS", "date": "2026-12-14"}},
    {"tool": "book_flight", "args": {"flight_id": "FL-204"}},
]
PERFECT = pytest.approx(1.0, abs=1e-12)  # 0.4 + 0.3 + 0.2 + 0.1 is one bit less than 1
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA2cD4fG6"


def agent(prompt: str) -> list[dict[str, Any]]:
    return [{"tool": "echo", "args": {"text": prompt}}]


async def async_agent(prompt: str) -> list[dict[str, Any]]:
    await asyncio.sleep(0)
    return agent(prompt)


def test_a_trace_that_does_what_is_expected_passes() -> None:
    result = (
        expect(TRACE)
        .calls("search_flights", destination="LIS", date=ANY)
        .then_calls("book_flight", flight_id=Regex(r"FL-\d+"))
        .does_not_call("cancel_booking")
        .with_score(1.0)
        .run()
    )
    assert result.score == PERFECT


def test_an_agent_is_called_with_the_prompt() -> None:
    result = expect(agent).on("hello").calls("echo", text="hello").run()
    assert result.trace_calls[0]["args"] == {"text": "hello"}


def test_calls_without_arguments_accept_any_arguments() -> None:
    assert expect(TRACE).calls("search_flights").calls("book_flight").run().score == PERFECT


def test_calls_with_arguments_compare_them() -> None:
    with pytest.raises(ToolScoreAssertionError, match='expected "OPO", got "LIS"') as caught:
        expect(TRACE).calls("search_flights", destination="OPO", date=ANY).calls(
            "book_flight"
        ).run()
    assert (
        caught.value.result.grade == "B"
    )  # one of two arguments: 0.4 + 0.3 * 1/2 + 0.2 + 0.1 = 0.85


def test_a_wrong_order_fails() -> None:
    with pytest.raises(ToolScoreAssertionError, match="called before"):
        expect(TRACE).calls("book_flight").then_calls("search_flights").run()


def test_the_score_to_reach_can_be_lowered() -> None:
    wrong = expect(TRACE).calls("book_flight").then_calls("search_flights").with_score(0.5)
    assert 0.5 <= wrong.run().score < 0.9


def test_a_score_exactly_at_the_bound_passes() -> None:
    wanted = expect(TRACE).calls("search_flights")
    score = wanted.with_score(0).run().score
    assert wanted.with_score(score).run().score == score


def test_a_forbidden_tool_fails_whatever_the_score() -> None:
    with pytest.raises(
        ToolScoreAssertionError, match="call 2 book_flight matches forbidden rule 1"
    ):
        expect(TRACE).calls("search_flights").calls("book_flight").does_not_call(
            "book_flight"
        ).run()


def test_a_forbidden_call_with_arguments_fails_only_on_those() -> None:
    trace = [{"tool": "run_shell", "args": {"command": "ls\nrm -rf /"}}]
    expect(trace).does_not_call("run_shell", command=Contains("sudo")).run()
    with pytest.raises(ToolScoreAssertionError):
        expect(trace).does_not_call("run_shell", command=Contains("rm -rf")).run()


def test_only_forbidden_calls_check_no_score() -> None:
    assert expect(TRACE).does_not_call("cancel_booking").run().score == 0.0


def test_arguments_may_be_called_like_the_parameters() -> None:
    trace = [{"tool": "x", "args": {"tool": "t", "self": "s"}}]
    assert expect(trace).calls("x", tool="t", self="s").run().score == PERFECT
    with pytest.raises(ToolScoreAssertionError):
        expect(trace).does_not_call("x", tool="t").run()


def test_strict_arguments_tell_numbers_from_texts_of_them() -> None:
    trace = [{"tool": "x", "args": {"n": 1.0}}]
    assert expect(trace).calls("x", n=1).run().score == PERFECT
    with pytest.raises(ToolScoreAssertionError):
        expect(trace).calls("x", n=1).with_strict_args().run()


def test_weights_change_the_score() -> None:
    wanted = expect([{"tool": "a", "args": {}}]).calls("a").calls("b")
    plain = wanted.with_score(0).run().score
    # Recall 1/2 pulls the score towards itself.
    weighted = wanted.with_weights(required_call_recall=9.0).run().score
    assert abs(weighted - 0.5) < abs(plain - 0.5)
    with pytest.raises(SettingsError, match="unknown weight"):
        wanted.with_weights(speed=1.0).run()


def test_an_async_agent_runs_with_run_async_only() -> None:
    wanted = expect(async_agent).on("hi").calls("echo", text="hi")
    assert asyncio.run(wanted.run_async()).score == PERFECT
    with pytest.raises(TypeError, match="run_async"):
        wanted.run()


def test_a_plain_agent_and_a_trace_run_with_run_async_too() -> None:
    assert asyncio.run(expect(agent).on("hi").calls("echo").run_async()).score == PERFECT
    assert asyncio.run(expect(TRACE).does_not_call("x").run_async()).calls


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (lambda: expect(TRACE).run(), "nothing is expected"),
        (lambda: expect(agent).calls("echo").run(), "give it a prompt"),
        (lambda: expect(TRACE).on("hi").calls("x").run(), "the subject is a trace"),
        (lambda: expect(TRACE).calls(""), "name of a tool"),
        (lambda: expect(TRACE).with_score(1.5), "number from 0 to 1"),
        (lambda: expect(TRACE).with_score(float("nan")), "number from 0 to 1"),
        (lambda: assert_tools([], [], min_score=2), "number from 0 to 1"),
    ],
)
def test_what_does_not_fit_together_is_said(wanted: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wanted()


def test_a_failure_shows_no_credential() -> None:
    trace = [{"tool": "post", "args": {"text": TOKEN, TOKEN: 1}}]
    with pytest.raises(ToolScoreAssertionError) as caught:
        expect(trace).calls("post", text="x").does_not_call("post").run()
    assert TOKEN not in str(caught.value)
    assert "REDACTED github_token" in str(caught.value)


def test_assert_tools_returns_the_evaluation_or_fails() -> None:
    assert (
        assert_tools([{"tool": "search_flights"}, {"tool": "book_flight"}], TRACE).score == PERFECT
    )
    with pytest.raises(ToolScoreAssertionError, match=r"the score 0\.\d+ is below 0\.9"):
        assert_tools([{"tool": "other"}], TRACE)


def test_assert_tools_keeps_to_the_forbidden_rules_of_a_contract() -> None:
    contract = {
        "contract_version": 2,
        "required": [{"tool": "search_flights"}, {"tool": "book_flight"}],
        "forbidden": [{"tool": "book_flight", "reason": "look, do not book"}],
    }
    with pytest.raises(ToolScoreAssertionError, match="look, do not book"):
        assert_tools(contract, TRACE)


def test_a_test_that_fails_is_an_assertion_error() -> None:
    assert issubclass(ToolScoreAssertionError, AssertionError)
