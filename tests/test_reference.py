"""The reference implementation of ``tests/reference.py`` against the reference library."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.generated_cases import contract_case, gold_case
from tests.oracle_bridge import ask_oracle
from tests.reference import pair_calls, reference_evaluate


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two records differ by more than 1e-12; keys that only one of them has do not count."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            found
            for key in ours.keys() & theirs.keys()
            for found in differences(ours[key], theirs[key], f"{path}.{key}")
        ]
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return [] if math.isclose(ours, theirs, rel_tol=0, abs_tol=1e-12) else [path]
    return [] if ours == theirs else [path]


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(4))
def test_every_metric_equals_the_reference_library(oracle_python: Path, seed: int) -> None:
    random = Random(seed)
    cases = [gold_case(random) for _ in range(1500)]
    for case, theirs in zip(cases, ask_oracle(oracle_python, cases), strict=True):
        ours = reference_evaluate(**case)
        assert differences(ours, theirs) == [], case


def test_of_two_equally_good_expected_calls_the_earlier_is_left_over() -> None:
    expected = [{"tool": "a", "args": {"x": 1}}, {"tool": "a", "args": {"x": 1, "y": 2}}]
    assert pair_calls(expected, [{"tool": "a", "args": {"x": 1}}], strict=False) == [(1, 0)]


def test_the_contract_of_the_flight_example_picks_the_seat() -> None:
    case = flight_case()
    gold = reference_evaluate(case["gold"], case["calls"])
    contract = reference_evaluate(case["contract"], case["calls"])
    # Against the gold list 1 of 3 calls has an expected tool; its pair has 1 of 2 given arguments
    # right, and 2 are expected: F1 0.5. Distance 2 of 3; 2 of 3 calls are redundant:
    # 0.4/3 + 0.3*0.5 + 0.2/3 + 0.1/3 = 0.38333.
    assert gold["score"] == pytest.approx(0.4 / 3 + 0.15 + 0.2 / 3 + 0.1 / 3)
    assert gold["grade"] == "F"
    # With reserve_seat 3 of 3 expected and 3 of 4 given arguments are right, F1 6/7; all else is 1:
    # 0.4 + 0.3 * 6/7 + 0.2 + 0.1. With book_flight 1 of 2 calls has an expected tool, 2 of 3
    # expected and 2 of 2 given arguments are right (F1 0.8), 1 of 2 steps and 1 of 2 calls is off:
    # 0.2 + 0.24 + 0.1 + 0.05.
    assert [each["score"] for each in contract["combinations"]] == [
        pytest.approx(0.59),
        pytest.approx(0.7 + 0.3 * 6 / 7),
    ]
    assert contract["chosen"] == {"book": 1}
    assert contract["combinations"][1]["optional_matched"] == [1]
    assert (contract["grade"], contract["passed"]) == ("A", True)


def flight_case() -> dict[str, Any]:
    """The example of the contracts page, in Python."""
    flight = {"flight_id": {"$regex": r"^FL-\d+$"}}
    search = {"tool": "search_flights", "args": {"destination": "LIS"}}
    return {
        "gold": [search, {"tool": "book_flight", "args": {"flight_id": "FL-204"}}],
        "contract": {
            "contract_version": 2,
            "required": [
                {
                    "tool": "search_flights",
                    "args": {"destination": "LIS", "date": {"$regex": "^2026-12-"}},
                },
                {
                    "id": "book",
                    "alternatives": [
                        [{"tool": "book_flight", "args": flight}],
                        [{"tool": "reserve_seat", "args": flight}],
                    ],
                },
            ],
            "optional": [{"tool": "get_weather"}],
            "forbidden": [{"tool": "cancel_booking", "reason": "never cancel a booking"}],
            "min_score": 0.9,
        },
        "calls": [
            {"tool": "search_flights", "args": {"destination": "LIS", "date": "2026-12-14"}},
            {"tool": "get_weather", "args": {"city": "Lisbon"}},
            {"tool": "reserve_seat", "args": {"flight_id": "FL-204", "seat": "14C"}},
        ],
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_contract_scores_no_less_than_any_of_its_combinations(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        result = reference_evaluate(**contract_case(random, most=4))
        scores = [combination["score"] for combination in result["combinations"]]
        winner = scores.index(max(scores))
        assert result["score"] == max(scores)
        assert result["chosen"] == result["combinations"][winner]["choices"]
