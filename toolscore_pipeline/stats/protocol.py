"""Decision rules declared before the runs, and what the runs say to them.

A protocol is a JSON or YAML document::

    protocol_version: 1
    title: Adopt the concise tool descriptions
    baseline: main
    candidate: concise
    alpha: 0.05
    min_runs: 30
    rules:
      - {id: passes-more, metric: pass_rate, expect: candidate_better}
      - {id: not-dearer, metric: cost, expect: not_worse, tolerance: 0.002}
      - {id: good-enough, metric: pass_hat_k, min: 0.6}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import ContractError, Problem, UsageError, unknown_name
from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.stats.compare import Comparison, VariantStats, call_difference
from toolscore_pipeline.stats.select import OBJECTIVE_METRICS

PROTOCOL_KEYS = (
    "protocol_version",
    "title",
    "baseline",
    "candidate",
    "alpha",
    "min_runs",
    "rules",
)
RULE_KEYS = ("id", "metric", "expect", "tolerance", "min", "max")
EXPECTATIONS = ("candidate_better", "not_worse")

_ROUNDING = 1e-9
"""A bound met but for the rounding of doubles (0.9 - 0.05 against 0.85) is met."""


@dataclass(slots=True)
class RuleOutcome:
    """What the runs say to one rule.

    Attributes:
        id: the rule's id.
        metric: the metric it looks at.
        status: ``pass``, ``fail`` or ``unknown``.
        baseline, candidate: the metric's values; None when unknown.
        detail: why, in a sentence.
    """

    id: str
    metric: str
    status: str
    baseline: float | None
    candidate: float | None
    detail: str


@dataclass(slots=True)
class ProtocolResult:
    """The result of :func:`evaluate_protocol`.

    Attributes:
        title: the protocol's title.
        protocol_sha256: hash of the protocol as declared (record it before the runs).
        baseline: the baseline variant.
        candidate: the candidate variant.
        rules: each rule's outcome, in declared order.
        decision: ``adopt`` (every rule passed), ``reject`` (a rule failed) or ``undecided`` (a rule
            is unknown and none failed).
    """

    title: str
    protocol_sha256: str
    baseline: str
    candidate: str
    rules: list[RuleOutcome]
    decision: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return asdict(self)


def load_protocol(path: str | Path) -> dict[str, Any]:
    """Read a protocol file, JSON or YAML, and check it.

    Returns:
        The protocol as declared, nothing added to it.

    Raises:
        InputError: a file that cannot be read.
        ContractError: a protocol that is wrong, with every problem and its place.
    """
    from toolscore_pipeline.documents import load_document

    document = load_document(path)
    problems = [
        Problem(problem.reason, problem.json_path, document.line_of(problem.json_path or "$"))
        for problem in protocol_problems(document.value)
    ]
    if problems:
        raise ContractError(problems, path=path)
    protocol: dict[str, Any] = document.value
    return protocol


def evaluate_protocol(protocol: Mapping[str, Any], comparison: Comparison) -> ProtocolResult:
    """Evaluate decision rules declared before the runs.

    Each rule has an id, a metric and either ``expect`` or bounds:

    - ``expect: candidate_better``: the candidate is better than the baseline by more than
      ``tolerance`` (0 by default); for pass_rate it must also be distinguishable, by the Fisher
      test at the protocol's alpha and by the intervals.
    - ``expect: not_worse``: the candidate is not worse by more than ``tolerance``.
    - ``min`` and ``max``: bounds on the candidate's value, themselves allowed.

    A rule whose metric is unknown for a variant it looks at is unknown; so is every rule while
    either variant has fewer than ``min_runs`` runs (by default the comparison's min_n). An unknown
    rule is never a pass.

    Raises:
        ContractError: unknown keys or metrics, or rules that are wrong, with every problem.
        UsageError: a variant that is not in the comparison.
    """
    problems = protocol_problems(protocol)
    if problems:
        raise ContractError(problems)
    stats = comparison.by_name()
    for role in ("baseline", "candidate"):
        if protocol[role] not in stats:
            raise UsageError(unknown_name(f"{role} variant", protocol[role], stats))
    baseline, candidate = stats[protocol["baseline"]], stats[protocol["candidate"]]
    min_runs = protocol.get("min_runs", comparison.min_n)
    alpha = protocol.get("alpha", 0.05)
    rules = [_outcome(rule, baseline, candidate, min_runs, alpha) for rule in protocol["rules"]]
    states = {rule.status for rule in rules}
    decision = "reject" if "fail" in states else "undecided" if "unknown" in states else "adopt"
    return ProtocolResult(
        title=protocol.get("title", ""),
        protocol_sha256=json_sha256(protocol),
        baseline=baseline.variant,
        candidate=candidate.variant,
        rules=rules,
        decision=decision,
    )


def protocol_problems(protocol: Any) -> list[Problem]:
    """Everything wrong with a protocol, in document order; empty for a good one."""
    if not isinstance(protocol, Mapping):
        return [Problem("a protocol is an object with baseline, candidate and rules", "$")]
    problems = _unknown_keys(protocol, PROTOCOL_KEYS, "$")
    if protocol.get("protocol_version") != 1 or isinstance(protocol["protocol_version"], bool):
        got = protocol.get("protocol_version", "nothing")
        problems.append(
            Problem(f"protocol_version must be 1, but is {got!r}", "$.protocol_version")
        )
    if not isinstance(protocol.get("title", ""), str):
        problems.append(Problem("the title must be text", "$.title"))
    for role in ("baseline", "candidate"):
        if not isinstance(protocol.get(role), str) or not protocol[role]:
            problems.append(Problem(f"{role} must name a variant", f"$.{role}"))
    if protocol.get("baseline") == protocol.get("candidate") and protocol.get("baseline"):
        problems.append(Problem("baseline and candidate are the same variant", "$.candidate"))
    if "alpha" in protocol and not (_is_number(protocol["alpha"]) and 0 < protocol["alpha"] < 1):
        problems.append(Problem("alpha must be a number between 0 and 1", "$.alpha"))
    min_runs = protocol.get("min_runs", 0)
    if not isinstance(min_runs, int) or isinstance(min_runs, bool) or min_runs < 0:
        problems.append(Problem("min_runs must be a whole number of at least 0", "$.min_runs"))
    rules = protocol.get("rules")
    if not isinstance(rules, list) or not rules:
        return [*problems, Problem("rules must be a list of at least one rule", "$.rules")]
    ids: set[str] = set()
    for index, rule in enumerate(rules):
        problems += _rule_problems(rule, f"$.rules[{index}]", ids)
    return problems


def _rule_problems(rule: Any, path: str, ids: set[str]) -> list[Problem]:
    if not isinstance(rule, Mapping):
        return [Problem("a rule is an object with id, metric and a condition", path)]
    problems = _unknown_keys(rule, RULE_KEYS, path)
    name = rule.get("id")
    if not isinstance(name, str) or not name:
        problems.append(Problem("the rule needs an id", f"{path}.id"))
    elif name in ids:
        problems.append(Problem(f"the rule id {name!r} is used twice", f"{path}.id"))
    else:
        ids.add(name)
    metric = rule.get("metric")
    if not isinstance(metric, str) or metric not in OBJECTIVE_METRICS:
        problems.append(
            Problem(unknown_name("metric", str(metric), OBJECTIVE_METRICS), f"{path}.metric")
        )
    bounds = [key for key in ("min", "max") if key in rule]
    if "expect" in rule and bounds:
        problems.append(Problem("a rule has either expect or min and max, not both", path))
    elif "expect" not in rule and not bounds:
        problems.append(Problem("the rule needs expect, min or max", path))
    if "expect" in rule and rule["expect"] not in EXPECTATIONS:
        reason = unknown_name("expectation", str(rule["expect"]), EXPECTATIONS)
        problems.append(Problem(reason, f"{path}.expect"))
    for key in bounds:
        if not _is_number(rule[key]):
            problems.append(Problem(f"{key} must be a finite number", f"{path}.{key}"))
    is_range = len(bounds) == 2 and all(_is_number(rule[key]) for key in bounds)
    if is_range and rule["min"] > rule["max"]:
        problems.append(Problem("min is above max: no value can pass", f"{path}.min"))
    if "tolerance" in rule:
        if not _is_number(rule["tolerance"]) or rule["tolerance"] < 0:
            problems.append(
                Problem("tolerance must be a finite number of at least 0", f"{path}.tolerance")
            )
        elif bounds:
            problems.append(Problem("tolerance goes with expect only", f"{path}.tolerance"))
    return problems


def _unknown_keys(value: Mapping[str, Any], known: tuple[str, ...], path: str) -> list[Problem]:
    return [
        Problem(unknown_name("key", str(key), known), f"{path}.{key}")
        for key in value
        if key not in known
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _outcome(
    rule: Mapping[str, Any],
    baseline: VariantStats,
    candidate: VariantStats,
    min_runs: int,
    alpha: float,
) -> RuleOutcome:
    metric = rule["metric"]
    old, new = baseline.metric(metric), candidate.metric(metric)

    def outcome(status: str, detail: str) -> RuleOutcome:
        return RuleOutcome(rule["id"], metric, status, old, new, detail)

    short = [
        f"{stats.variant} has {stats.n} of {min_runs} runs"
        for stats in (baseline, candidate)
        if stats.n < min_runs
    ]
    if short:
        return outcome("unknown", f"Too few runs: {', '.join(short)}.")
    looked_at = (baseline, candidate) if "expect" in rule else (candidate,)
    missing = [stats.variant for stats in looked_at if stats.metric(metric) is None]
    if missing:
        return outcome("unknown", f"{metric} is unknown for {' and '.join(missing)}.")
    check = _bounds if "expect" not in rule else _EXPECT[rule["expect"]]
    passed, detail = check(rule, baseline, candidate, alpha)
    return outcome("pass" if passed else "fail", detail)


def _bounds(
    rule: Mapping[str, Any], baseline: VariantStats, candidate: VariantStats, alpha: float
) -> tuple[bool, str]:
    value = _value(candidate, rule["metric"])
    low, high = rule.get("min", -math.inf), rule.get("max", math.inf)
    passed = low - _ROUNDING <= value <= high + _ROUNDING
    bounds = " and ".join(
        f"{word} {rule[key]:g}"
        for key, word in (("min", "at least"), ("max", "at most"))
        if key in rule
    )
    return passed, f"{rule['metric']} of {candidate.variant} is {value:.4g}; asked: {bounds}."


def _not_worse(
    rule: Mapping[str, Any], baseline: VariantStats, candidate: VariantStats, alpha: float
) -> tuple[bool, str]:
    gain, tolerance = _gain(rule["metric"], baseline, candidate), rule.get("tolerance", 0)
    return gain >= -tolerance - _ROUNDING, _gain_text(rule, baseline, candidate, gain, tolerance)


def _candidate_better(
    rule: Mapping[str, Any], baseline: VariantStats, candidate: VariantStats, alpha: float
) -> tuple[bool, str]:
    gain, tolerance = _gain(rule["metric"], baseline, candidate), rule.get("tolerance", 0)
    better = gain > tolerance + _ROUNDING
    if rule["metric"] != "pass_rate":
        return better, _gain_text(rule, baseline, candidate, gain, tolerance)
    # The runs suffice already: only the test and the intervals are asked here.
    call = call_difference(
        baseline.variant,
        candidate.variant,
        baseline.counts["pass"],
        baseline.n,
        candidate.counts["pass"],
        candidate.n,
        0,
        alpha,
    )
    if call.distinguishable and not better:
        return False, _gain_text(rule, baseline, candidate, gain, tolerance)
    return call.distinguishable and better, call.verdict


_Check = Callable[[Mapping[str, Any], VariantStats, VariantStats, float], tuple[bool, str]]
_EXPECT: dict[str, _Check] = {"candidate_better": _candidate_better, "not_worse": _not_worse}


def _value(stats: VariantStats, metric: str) -> float:
    value = stats.metric(metric)
    assert value is not None  # unknown values were answered before any rule is checked
    return value


def _gain(metric: str, baseline: VariantStats, candidate: VariantStats) -> float:
    """How much better the candidate is: positive is better, whichever way the metric runs."""
    difference = _value(candidate, metric) - _value(baseline, metric)
    return difference if OBJECTIVE_METRICS[metric] else -difference


def _gain_text(
    rule: Mapping[str, Any],
    baseline: VariantStats,
    candidate: VariantStats,
    gain: float,
    tolerance: float,
) -> str:
    metric = rule["metric"]
    old, new = _value(baseline, metric), _value(candidate, metric)
    word = "better" if gain > 0 else "worse"
    moved = f"{abs(gain):.4g} {word}" if gain else "the same"
    return (
        f"{metric} is {new:.4g} for {candidate.variant} and {old:.4g} for {baseline.variant}: "
        f"{moved}, with a tolerance of {tolerance:g}."
    )
