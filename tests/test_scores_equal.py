"""The engine against the reference library, and against the plain reference on contracts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.generated_cases import contract_case, gold_case, random_weights
from tests.oracle_bridge import ask_oracle
from tests.reference import reference_evaluate
from tests.test_reference import differences
from toolscore_pipeline.api import evaluate_many

# A smaller seed makes no simpler cases.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
COMPARED = ("score", "grade", "required_call_recall", "weights", "metrics")


def compare(cases: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """Grade cases of one strictness and one set of weights, and compare what both sides report."""
    results = evaluate_many(
        [(case["expected"], case["actual"]) for case in cases],
        weights=cases[0].get("weights"),
        strict=cases[0]["strict"],
    )
    for case, result, expected in zip(cases, results, theirs, strict=True):
        record = result.to_dict()
        for each in (record, expected):
            each["metrics"]["trajectory_metrics"].pop("trajectory_details", None)  # sentences
        ours = {key: record[key] for key in COMPARED}
        assert differences(ours, {key: expected[key] for key in COMPARED}) == [], case


@pytest.mark.oracle
@settings(max_examples=20, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32), strict=st.booleans(), most=st.sampled_from([3, 5, 9]))
def test_every_metric_equals_the_reference_library(
    oracle_python: Path, seed: int, strict: bool, most: int
) -> None:
    random = Random(seed)
    settings = {"strict": strict, "weights": random_weights(random)}
    cases = [{**gold_case(random, most), **settings} for _ in range(250)]  # 20 times 250 are 5,000
    compare(cases, ask_oracle(oracle_python, cases))


@settings(max_examples=12, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32), strict=st.booleans())
def test_contracts_score_as_the_plain_reference_does(seed: int, strict: bool) -> None:
    random = Random(seed)
    cases = [{**contract_case(random), "strict": strict} for _ in range(60)]
    references = [reference_evaluate(**case) for case in cases]
    compare(cases, references)
    results = evaluate_many([(case["expected"], case["actual"]) for case in cases], strict=strict)
    for case, result, reference in zip(cases, results, references, strict=True):
        metrics = result.to_dict()["metrics"]["contract_metrics"]
        alternatives = metrics["alternatives"]
        assert [row["choices"] for row in alternatives["combinations"]] == [
            row["choices"] for row in reference["combinations"]
        ]
        for ours, theirs in zip(
            alternatives["combinations"], reference["combinations"], strict=True
        ):
            assert ours["score"] == pytest.approx(theirs["score"], rel=0, abs=1e-12), case
        assert {
            group: chosen["option"] for group, chosen in alternatives["chosen"].items()
        } == reference["chosen"], case
        left_out = next(
            row["optional_matched"]
            for row in reference["combinations"]
            if row["choices"] == reference["chosen"]
        )
        assert [row["index"] for row in metrics["optional_matched"]] == left_out, case
        assert metrics["passed"] is reference["passed"]


@settings(max_examples=6, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_declaration_changes_no_score(seed: int) -> None:
    random = Random(seed)
    cases = [contract_case(random) for _ in range(40)]
    shuffled = [shuffle(random, case["expected"]) for case in cases]
    one, other = (
        evaluate_many(
            [(contract, case["actual"]) for contract, case in zip(each, cases, strict=True)]
        )
        for each in ([case["expected"] for case in cases], shuffled)
    )
    for case, first, second in zip(cases, one, other, strict=True):
        assert first.score == second.score, case
        scores = [
            sorted(
                row["score"]
                for row in result.to_dict()["metrics"]["contract_metrics"]["alternatives"][
                    "combinations"
                ]
            )
            for result in (first, second)
        ]
        assert scores[0] == scores[1], case


def shuffle(random: Random, contract: dict[str, Any]) -> dict[str, Any]:
    """The contract with its keys, options, optional entries and arguments in another order."""

    def mix(items: Any) -> list[Any]:
        listed = list(items)
        random.shuffle(listed)
        return listed

    def call(one: dict[str, Any]) -> dict[str, Any]:
        args = one.get("args")
        return {**one, "args": None if args is None else dict(mix(args.items()))}

    required = [
        {"alternatives": mix([call(each) for each in option] for option in entry["alternatives"])}
        if "alternatives" in entry
        else call(entry)
        for entry in contract["required"]
    ]
    mixed = {**contract, "required": required, "optional": mix(map(call, contract["optional"]))}
    return dict(mix(mixed.items()))
