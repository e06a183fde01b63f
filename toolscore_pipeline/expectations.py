"""Assertions for tests: what an agent must call, must not call, and how well.

::

    from toolscore_pipeline import ANY, Contains, Regex, expect

    expect(agent).on("book me a flight to Lisbon") \\
        .calls("search_flights", destination="LIS", date=ANY) \\
        .then_calls("book_flight", flight_id=Regex(r"FL-\\d+")) \\
        .does_not_call("run_shell", command=Contains("rm -rf")) \\
        .with_score(0.9) \\
        .run()
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import UsageError

if TYPE_CHECKING:
    from toolscore_pipeline.result import EvaluationResult

_TOLERANCE = 1e-9


class ToolScoreAssertionError(AssertionError):
    """An agent did not do what a test expects of it.

    Attributes:
        result: the evaluation that fell short.
    """

    def __init__(self, message: str, result: EvaluationResult) -> None:
        super().__init__(message)
        self.result = result


class Expectation:
    """What a test expects; made by :func:`expect`, each method returns the object itself."""

    def __init__(self, subject: Any) -> None:
        self._subject = subject
        self._prompt: str | None = None
        self._expected: list[dict[str, Any]] = []
        self._forbidden: list[dict[str, Any]] = []
        self._min_score = 0.9
        self._weights: dict[str, float] | None = None
        self._strict = False

    def on(self, prompt: str) -> Expectation:
        """The prompt that an agent callable is called with."""
        self._prompt = prompt
        return self

    def calls(self, tool: str, /, **args: Any) -> Expectation:
        """Expects one more call, after those declared before.

        Without arguments any arguments will do; with some, those are compared (values or matchers)
        and others count as unexpected.
        """
        self._expected.append(_call(tool, args))
        return self

    def then_calls(self, tool: str, /, **args: Any) -> Expectation:
        """The same as :meth:`calls`, for reading."""
        return self.calls(tool, **args)

    def does_not_call(self, tool: str, /, **args: Any) -> Expectation:
        """Forbids a tool, or only its calls whose arguments meet every one given here."""
        self._forbidden.append(_call(tool, args))
        return self

    def with_score(self, min_score: float) -> Expectation:
        """The composite score to reach, 0 to 1; default 0.9. It needs expected calls."""
        self._min_score = _checked_score(min_score)
        return self

    def with_weights(self, **weights: float) -> Expectation:
        """Score weights; merged with the defaults and divided by their sum."""
        self._weights = {**(self._weights or {}), **weights}
        return self

    def with_strict_args(self) -> Expectation:
        """Compares arguments by type and value, all the way down."""
        self._strict = True
        return self

    def run(self) -> EvaluationResult:
        """Calls the agent, when the subject is one, and holds what it did against the expectation.

        Returns:
            The evaluation, when everything holds.

        Raises:
            ToolScoreAssertionError: a forbidden call was made, or may have been (it could not be
                decided), or the score is too low.
            UsageError: nothing is expected, or the prompt and the subject do not fit together.
            TypeError: the agent is an async function; use :meth:`run_async`.
        """
        if not self._is_agent():
            return self._check(self._subject)
        actual = self._subject(self._prompt)
        if inspect.isawaitable(actual):
            if inspect.iscoroutine(actual):
                actual.close()
            raise TypeError("the agent is an async function: use run_async()")
        return self._check(actual)

    async def run_async(self) -> EvaluationResult:
        """The same as :meth:`run`, for async agents; others work as well."""
        if not self._is_agent():
            return self._check(self._subject)
        actual = self._subject(self._prompt)
        return self._check(await actual if inspect.isawaitable(actual) else actual)

    def _is_agent(self) -> bool:
        if not self._expected and not self._forbidden:
            raise UsageError(
                "nothing is expected: use calls(), then_calls() or does_not_call() before run()"
            )
        if not callable(self._subject):
            if self._prompt is not None:
                raise UsageError("on() gives a prompt to an agent, but the subject is a trace")
            return False
        if self._prompt is None:
            raise UsageError("the subject is an agent: give it a prompt with on() before run()")
        return True

    def _check(self, actual: Any) -> EvaluationResult:
        from toolscore_pipeline.api import evaluate

        result = evaluate(
            self._expected,
            actual,
            self._weights,
            self._strict,
            self._forbidden or None,
            min_score=self._min_score,
        )
        problems = _violations(result)
        if self._expected and result.score < self._min_score - _TOLERANCE:
            problems.append(_too_low(result, self._min_score))
        if problems:
            raise ToolScoreAssertionError(_message(problems, result), result)
        return result


def expect(subject: Any) -> Expectation:
    """Starts an expectation about an agent or a trace.

    Args:
        subject: an agent (a callable that takes the prompt and returns its calls or a response,
            sync or async), or what one returned: a list of calls, a response, any trace that can be
            read.
    """
    return Expectation(subject)


def assert_tools(
    expected: Any,
    actual: Any,
    min_score: float = 0.9,
    weights: Mapping[str, float] | None = None,
    strict: bool = False,
) -> EvaluationResult:
    """Asserts that calls reach a score.

    Args:
        expected: the expected calls, or a contract.
        actual: the calls made, or any trace that can be read.
        min_score: the score to reach, 0 to 1.
        weights: score weights; merged with the defaults and divided by their sum.
        strict: compare arguments by type and value.

    Returns:
        The evaluation.

    Raises:
        ToolScoreAssertionError: the score is lower, or a forbidden rule of the contract is broken.
        UsageError: ``min_score`` is not from 0 to 1.
    """
    from toolscore_pipeline.api import evaluate

    _checked_score(min_score)
    result = evaluate(expected, actual, weights, strict, min_score=min_score)
    problems = _violations(result)
    if result.score < min_score - _TOLERANCE:
        problems.append(_too_low(result, min_score))
    if problems:
        raise ToolScoreAssertionError(_message(problems, result), result)
    return result


def _call(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(tool, str) or not tool:
        raise UsageError(f"got {tool!r}, expected the name of a tool")
    return {"tool": tool, "args": dict(args)} if args else {"tool": tool}


def _checked_score(score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise UsageError(f"the score to reach: got {score!r}, expected a number from 0 to 1")
    return float(score)


def _violations(result: EvaluationResult) -> list[str]:
    """A sentence for each forbidden call, and for each that could not be decided."""
    from toolscore_pipeline.reports import read_verdict

    if not any(row["finding"] == "forbidden-call" for row in result.findings):
        return []
    lines = read_verdict(result).behaviour
    return [line.text for line in lines if line.finding == "forbidden-call"]


def _too_low(result: EvaluationResult, min_score: float) -> str:
    return f"the score {result.score:.3f} is below {min_score:g}"


def _message(problems: list[str], result: EvaluationResult) -> str:
    """The problems, and the calls with what is wrong about them; credentials redacted."""
    from toolscore_pipeline.reports import read_verdict

    verdict = read_verdict(result)
    lines = ["; ".join(problems)]
    if result.expected:
        lines.append(
            f"selection {result.selection_accuracy:.2f}, arguments {result.argument_f1:.2f},"
            f" sequence {result.sequence_accuracy:.2f}"
        )
        if verdict.required:
            lines.append(verdict.required)
        lines += [f"  - {issue.text}" for issue in verdict.issues]
    lines.append("calls made:" if result.calls else "no calls were made")
    made = sorted((row for row in verdict.calls if row.number), key=lambda row: row.number or 0)
    for row in made:
        lines.append(
            f"  {row.number}. {row.actual}" + (f" [{row.status}]" if result.expected else "")
        )
    return "\n".join(lines)
