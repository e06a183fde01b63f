"""Contract scoring in plain Python, slow and obvious, to compare the SQL with.

Every number is computed for every combination of alternatives from its definition, with no shared
code but the readers of contracts and the comparison of single values. Pairing tries every way.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

from toolscore_pipeline.contract import (
    Contract,
    contract_from_mapping,
    gold_from_json,
    is_contract,
    normalize_weights,
    split_optional,
)
from toolscore_pipeline.matchers import declare, has_matcher, matches

Call = dict[str, Any]


def reference_evaluate(
    expected: Contract | dict[str, Any] | list[Call],
    actual: list[Call],
    weights: dict[str, float] | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """The evaluation of ``actual`` under a contract or gold list.

    Returns:
        ``score``, ``grade``, ``verdict``, ``weights``, ``required_call_recall`` and ``metrics`` of
        the winning combination, ``combinations`` (each with its ``choices``, ``score``, ``metrics``
        and ``optional_matched``), and ``chosen`` (the winner's choices).
    """
    contract = (
        contract_from_mapping(expected)
        if isinstance(expected, Contract) or is_contract(expected)
        else Contract(required=list(gold_from_json(expected)))
    )
    applied = normalize_weights(contract.weights if weights is None else weights)
    combinations: list[dict[str, Any]] = []
    for required, choices in contract.expansions():
        scored, left_out = split_optional(actual, required, contract.optional, strict)
        metrics = score_metrics(required, scored, strict)
        combinations.append(
            {
                "choices": choices,
                "score": composite(metrics, applied),
                "metrics": metrics,
                "optional_matched": left_out,
            }
        )
    best = max(combinations, key=lambda combination: combination["score"])  # the first of equals
    return {
        "score": best["score"],
        "grade": letter(best["score"]),
        "verdict": verdict(best["score"]),
        "passed": best["score"] >= contract.min_score - 1e-9,
        "weights": applied,
        "required_call_recall": best["metrics"]["required_call_recall"],
        "metrics": best["metrics"],
        "chosen": best["choices"],
        "combinations": combinations,
    }


def composite(metrics: dict[str, Any], weights: dict[str, float]) -> float:
    """The weighted sum, in the one order that makes the same double everywhere."""
    recall = metrics["required_call_recall"]
    return float(
        weights["selection_accuracy"] * metrics["selection_accuracy"]
        + weights["argument_f1"] * metrics["argument_metrics"]["f1"]
        + weights["sequence_accuracy"] * metrics["sequence_metrics"]["sequence_accuracy"]
        + weights["redundant_rate"] * (1 - metrics["efficiency_metrics"]["redundant_rate"])
        + weights["required_call_recall"] * (1.0 if recall is None else recall)
    )


def letter(score: float) -> str:
    """The grade of a raw score."""
    for least, grade in ((0.9, "A"), (0.8, "B"), (0.7, "C"), (0.6, "D")):
        if score >= least:
            return grade
    return "F"


def verdict(score: float) -> str:
    """PASS, WARN or FAIL."""
    return "PASS" if score >= 0.9 else "WARN" if score >= 0.7 else "FAIL"


def score_metrics(expected: list[Call], actual: list[Call], strict: bool) -> dict[str, Any]:
    """Every score metric of one list of scored calls against one list of expected calls."""
    return {
        "selection_accuracy": selection_accuracy(expected, actual),
        "invocation_accuracy": invocation_accuracy(expected, actual),
        "tool_correctness_metrics": tool_correctness(expected, actual),
        "sequence_metrics": sequence(expected, actual),
        "argument_metrics": arguments(expected, actual, strict),
        "trajectory_metrics": trajectory(expected, actual, strict),
        "efficiency_metrics": efficiency(expected, actual),
        "required_call_recall": required_call_recall(expected, actual),
    }


def tools(calls: list[Call]) -> list[str]:
    """The tool names, in order."""
    return [call["tool"] for call in calls]


def selection_accuracy(expected: list[Call], actual: list[Call]) -> float:
    """Calls to an expected tool / all calls."""
    if not actual:
        return 0.0 if expected else 1.0
    return sum(tool in tools(expected) for tool in tools(actual)) / len(actual)


def invocation_accuracy(expected: list[Call], actual: list[Call]) -> float:
    """Hits less half of the wrong and the missed, per expected tool."""
    wanted, called = set(tools(expected)), set(tools(actual))
    if not wanted or not called:
        return 1.0 if wanted == called else 0.0
    hits = len(wanted & called)
    wrong, missed = len(called - wanted), len(wanted - called)
    return max(0.0, min(1.0, (hits - 0.5 * (wrong + missed)) / len(wanted)))


def tool_correctness(expected: list[Call], actual: list[Call]) -> dict[str, Any]:
    """Expected tools that were called at all, as a share."""
    wanted, called = set(tools(expected)), set(tools(actual))
    share = len(wanted & called) / len(wanted) if wanted else (0.0 if called else 1.0)
    return {
        "tool_correctness": share,
        "expected_tools": sorted(wanted),
        "called_tools": sorted(called),
        "missing_tools": sorted(wanted - called),
        "extra_tools": sorted(called - wanted),
        "correct_count": len(wanted & called),
        "total_expected": len(wanted),
    }


def sequence(expected: list[Call], actual: list[Call]) -> dict[str, float]:
    """The edit distance of the tool sequences, by the textbook table."""
    one, other = tools(expected), tools(actual)
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, row = row, [i]
        for j, right in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right)))
    normalized = row[-1] / max(len(one), len(other), 1)
    return {
        "edit_distance": float(row[-1]),
        "normalized_distance": normalized,
        "sequence_accuracy": 1.0 - normalized,
    }


def correct_arguments(expected: Call, actual: Call, strict: bool) -> int:
    """How many expected arguments the call has right."""
    given = actual.get("args") or {}
    return sum(
        name in given and matches(value, given[name], strict) is True
        for name, value in (expected.get("args") or {}).items()
    )


def pair_calls(expected: list[Call], actual: list[Call], strict: bool) -> list[tuple[int, int]]:
    """The pairs (expected index, actual index): most pairs, then most correct arguments.

    Among equally good ways the first is taken: expected calls in order, each staying alone if it
    can, else with the lowest call. So one call that two expected ones want goes to the later.
    """
    pairs: list[tuple[int, int]] = []
    for tool in dict.fromkeys(tools(expected)):
        wanted = [i for i, call in enumerate(expected) if call["tool"] == tool]
        called = [j for j, call in enumerate(actual) if call["tool"] == tool]
        weights = {
            (i, j): correct_arguments(expected[i], actual[j], strict)
            for i in wanted
            for j in called
        }
        best: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
        for way in ways(wanted, called):
            value = (len(way), sum(weights[pair] for pair in way))
            if best is None or value > best[0]:
                best = (value, way)
        pairs += best[1] if best else []
    return pairs


def ways(wanted: list[int], called: list[int]) -> list[list[tuple[int, int]]]:
    """Every way of pairing, in order: the first expected call alone, then with each call."""
    if not wanted:
        return [[]]
    first, rest = wanted[0], wanted[1:]
    found = ways(rest, called)
    for call in called:
        left = [other for other in called if other != call]
        found += [[(first, call), *way] for way in ways(rest, left)]
    return found


def arguments(expected: list[Call], actual: list[Call], strict: bool) -> dict[str, float]:
    """Precision, recall and F1 over the arguments of paired calls."""
    if not expected or not actual:
        both = 1.0 if not expected and not actual else 0.0
        return {"precision": both, "recall": both, "f1": both}
    correct = expected_count = actual_count = 0
    is_vacuous = False
    pairs = dict(pair_calls(expected, actual, strict))
    for index, call in enumerate(expected):
        args = call.get("args")
        if index not in pairs:
            expected_count += len(args or {})
            continue
        given = actual[pairs[index]].get("args") or {}
        if args is None:
            is_vacuous = True
            continue
        is_vacuous = is_vacuous or (not args and not given)
        correct += correct_arguments(call, actual[pairs[index]], strict)
        expected_count += len(args)
        actual_count += len(given)
    if not expected_count and not actual_count:
        value = 1.0 if is_vacuous else 0.0
        return {"precision": value, "recall": value, "f1": value}
    precision = correct / actual_count if actual_count else 0.0
    recall = correct / expected_count if expected_count else 0.0
    total = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / total if total else 0.0,
    }


def has_failed(call: Call) -> bool:
    """Whether the record says that the call failed."""
    return call.get("is_error") is True or bool(call.get("error"))


def same_call(one: Call, other: Call) -> bool:
    """Whether two calls have the same tool and the same arguments, as text."""
    return canonical(one) == canonical(other)


def canonical(call: Call) -> str:
    """The tool and the arguments as one text."""
    return json.dumps([call["tool"], call.get("args") or {}], sort_keys=True)


def efficiency(expected: list[Call], actual: list[Call]) -> dict[str, Any]:
    """Redundant, identical, failed and blindly repeated calls."""
    surplus = Counter(tools(actual)) - Counter(tools(expected))
    size = len(actual)
    redundant = sum(surplus.values())
    identical = size - len({canonical(call) for call in actual})
    errors = sum(map(has_failed, actual))
    return {
        "redundant_count": redundant,
        "total_calls": size,
        "redundant_rate": redundant / size if size else 0.0,
        "identical_count": identical,
        "identical_rate": identical / size if size else 0.0,
        "error_count": errors,
        "error_rate": errors / size if size else 0.0,
        "retry_after_error_count": sum(
            has_failed(before) and same_call(before, call) for before, call in pairwise(actual)
        ),
    }


def required_call_recall(expected: list[Call], actual: list[Call]) -> float | None:
    """Expected calls that have a call of their own which did not fail, as a share."""
    if not expected:
        return None
    succeeded = Counter(tools([call for call in actual if not has_failed(call)]))
    return sum((Counter(tools(expected)) & succeeded).values()) / len(expected)


def trajectory(expected: list[Call], actual: list[Call], strict: bool) -> dict[str, Any]:
    """Steps that are right in their place, and the length of the path."""
    steps = sum(
        one["tool"] == other["tool"] and has_plain_arguments(one, other, strict)
        for one, other in zip(expected, actual, strict=False)
    )
    rate = steps / len(expected) if expected else (0.0 if actual else 1.0)
    path = 1.0
    if expected:
        path = min(1.0, len(expected) / len(actual)) if actual else 0.0
    return {
        "trajectory_accuracy": rate * path,
        "step_match_rate": rate,
        "path_efficiency": path,
        "correct_steps": steps,
        "total_expected_steps": len(expected),
    }


def has_plain_arguments(expected: Call, actual: Call, strict: bool) -> bool:
    """Whether every expected argument is equal: by value, never trimmed, in strict mode too.

    A matcher decides as it does for the argument metrics.
    """
    given = actual.get("args") or {}
    for name, value in (expected.get("args") or {}).items():
        if name not in given:
            return False
        if has_matcher(declare(value)):
            is_met = matches(value, given[name], strict)
        else:
            is_met = matches([value], [given[name]])  # one level down nothing is trimmed
        if not is_met:
            return False
    return True
