"""Numbers, comparisons, selections and protocols, against scipy, statsmodels and fractions."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from toolscore_pipeline.errors import ContractError, InputError
from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.stats import (
    OBJECTIVE_METRICS,
    Comparison,
    Objective,
    Run,
    TaskCounts,
    VariantStats,
    compare_counts,
    compare_runs,
    evaluate_protocol,
    fisher_exact,
    format_p,
    holm,
    load_protocol,
    load_runs,
    odds_ratio,
    pareto_front,
    pass_hat_k,
    run_from_row,
    select_variant,
    wilson_interval,
)

HUGE = 10**7


def exact_fisher(a: int, b: int, c: int, d: int) -> float:
    """The same p-value in whole numbers: no rounding before the last step."""
    row_a, row_b, passed = a + b, c + d, a + c
    low, high = max(0, passed - row_b), min(row_a, passed)
    weights = [math.comb(row_a, x) * math.comb(row_b, passed - x) for x in range(low, high + 1)]
    observed = weights[a - low]
    return float(Fraction(sum(w for w in weights if w <= observed), sum(weights)))


class TestWilson:
    @pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 130, 10**4, HUGE])
    def test_agrees_with_statsmodels(self, n: int) -> None:
        for passes in {0, 1, n // 3, n // 2, n - 1, n}:
            low, high = proportion_confint(passes, n, method="wilson")
            assert wilson_interval(passes, n) == pytest.approx((low, high), rel=1e-12, abs=1e-15)

    @pytest.mark.parametrize("n", [1, 7, 333, HUGE])
    def test_the_ends_are_exactly_0_and_1(self, n: int) -> None:
        assert wilson_interval(0, n)[0] == 0.0
        assert wilson_interval(n, n)[1] == 1.0
        assert 0 < wilson_interval(0, n)[1] < 1
        assert 0 < wilson_interval(n, n)[0] < 1

    def test_nothing_is_known_without_runs(self) -> None:
        assert wilson_interval(0, 0) == (0.0, 1.0)

    def test_another_quantile_gives_another_confidence(self) -> None:
        low, high = proportion_confint(7, 20, alpha=0.1, method="wilson")
        z = float(scipy_stats.norm.ppf(0.95))
        assert wilson_interval(7, 20, z) == pytest.approx((low, high), rel=1e-12)

    @pytest.mark.parametrize(("passes", "n"), [(-1, 5), (6, 5), (0, -1)])
    def test_impossible_counts_are_refused(self, passes: int, n: int) -> None:
        with pytest.raises(ValueError):
            wilson_interval(passes, n)

    @pytest.mark.parametrize("z", [-1.96, math.nan, math.inf])
    def test_an_impossible_quantile_is_refused(self, z: float) -> None:
        with pytest.raises(ValueError, match="quantile"):
            wilson_interval(3, 10, z)


class TestFisher:
    def test_equals_exact_arithmetic_on_every_small_table(self) -> None:
        for row_a, row_b in itertools.product(range(8), repeat=2):
            for a, c in itertools.product(range(row_a + 1), range(row_b + 1)):
                table = (a, row_a - a, c, row_b - c)
                assert fisher_exact(*table) == pytest.approx(exact_fisher(*table), rel=1e-12), table

    def test_equals_exact_arithmetic_on_larger_tables_with_ties(self) -> None:
        chance = random.Random(3)
        for _ in range(150):
            row = chance.randint(20, 300)  # equal rows have mirrored, equally likely tables
            a, c = chance.randint(0, row), chance.randint(0, row)
            table = (a, row - a, c, row - c)
            assert fisher_exact(*table) == pytest.approx(exact_fisher(*table), rel=1e-11), table

    @pytest.mark.parametrize(
        "table", [(0, 0, 3, 4), (3, 4, 0, 0), (0, 5, 0, 7), (5, 0, 7, 0), (0, 0, 0, 0)]
    )
    def test_an_empty_margin_leaves_one_table_only(self, table: tuple[int, ...]) -> None:
        assert fisher_exact(*table) == 1.0

    def test_ten_million_runs_agree_with_the_normal_approximation(self) -> None:
        # z = 2 sd apart: two-sided 0.0455; the exact test differs by its discreteness only.
        half = HUGE // 2
        shift = round(2 * math.sqrt(2 * HUGE * 0.25))
        assert fisher_exact(half, half, half + shift, half - shift) == pytest.approx(0.0455, 5e-3)

    def test_it_is_symmetric_in_rows_and_columns(self) -> None:
        p = fisher_exact(3, 14, 9, 5)
        assert fisher_exact(9, 5, 3, 14) == pytest.approx(p, rel=1e-12)
        assert fisher_exact(14, 3, 5, 9) == pytest.approx(p, rel=1e-12)

    def test_a_negative_count_is_refused(self) -> None:
        with pytest.raises(ValueError):
            fisher_exact(-1, 2, 3, 4)


class TestPassHatK:
    def test_is_the_share_of_subsets_that_pass_counted_by_hand(self) -> None:
        for n in range(7):
            for passes in range(n + 1):
                runs = [True] * passes + [False] * (n - passes)
                for k in range(1, n + 1):
                    subsets = list(itertools.combinations(runs, k))
                    share = Fraction(sum(all(one) for one in subsets), len(subsets))
                    assert pass_hat_k(passes, n, k) == float(share)

    def test_unknown_with_fewer_than_k_runs(self) -> None:
        assert pass_hat_k(2, 2, 3) is None
        assert pass_hat_k(0, 0, 1) is None

    def test_zero_with_fewer_than_k_passes(self) -> None:
        assert pass_hat_k(2, 10, 3) == 0.0

    def test_huge_counts_are_exact(self) -> None:
        passes, k = HUGE - 1000, 10
        exact = Fraction(1)
        for i in range(k):
            exact *= Fraction(passes - i, HUGE - i)
        assert pass_hat_k(passes, HUGE, k) == float(exact)

    def test_a_huge_k_keeps_ten_digits(self) -> None:
        exact = Fraction(math.comb(9_990, 5_000), math.comb(10_000, 5_000))
        assert pass_hat_k(9_990, 10_000, 5_000) == pytest.approx(float(exact), rel=1e-10)

    @pytest.mark.parametrize("k", [0, -1])
    def test_k_below_1_is_refused(self, k: int) -> None:
        with pytest.raises(ValueError):
            pass_hat_k(1, 2, k)


class TestSmallHelpers:
    def test_holm_agrees_with_statsmodels(self) -> None:
        chance = random.Random(5)
        for size in (1, 2, 5, 40):
            values = [chance.random() ** 3 for _ in range(size)]
            values[-1] = values[0]  # a tie
            expected = multipletests(values, method="holm")[1]
            assert holm(values) == pytest.approx(list(expected), rel=1e-12)
        assert holm([]) == []

    def test_odds_ratio_is_undefined_where_it_divides_by_zero(self) -> None:
        assert odds_ratio(6, 2, 3, 4) == 4.0  # 6 * 4 / (2 * 3)
        assert odds_ratio(6, 0, 3, 4) is None
        assert odds_ratio(6, 2, 0, 4) is None

    @pytest.mark.parametrize(
        ("p", "text"),
        [
            (2.1234e-6, "2.1e-6"),
            (3.56e-5, "3.6e-5"),
            (0.1003, "0.10"),
            (0.0456, "0.046"),
            (0.00151, "0.0015"),
            (1.0, "1.0"),
            (0.9996, "1.0"),
            (0.996, "1.0"),
            (0.994, "0.99"),
            (0.00099999, "0.0010"),
            (1e-12, "1.0e-12"),
            (0.0, "< 1e-300"),
        ],
    )
    def test_p_values_print_two_digits(self, p: float, text: str) -> None:
        assert format_p(p) == text


def runs_of(variant: str, outcomes: str, task: str = "t", **fields: Any) -> list[Run]:
    """One run per letter: p(ass), f(ail), e(rror), u(nknown)."""
    words = {"p": "pass", "f": "fail", "e": "error", "u": "unknown"}
    return [Run(variant, task, words[letter], **fields) for letter in outcomes]


class TestCompareRuns:
    def test_errors_and_unknowns_stay_in_every_denominator(self) -> None:
        comparison = compare_runs(runs_of("a", "ppfeu" * 2), k=2)
        stats = comparison.variants[0]
        assert (stats.n, stats.pass_rate) == (10, 0.4)
        assert stats.counts == {"pass": 4, "fail": 2, "error": 2, "unknown": 2}
        assert stats.interval == wilson_interval(4, 10)
        assert stats.pass_hat_k == pytest.approx(6 / 45)  # C(4,2) / C(10,2)

    def test_pass_hat_k_is_the_mean_over_tasks_with_k_runs(self) -> None:
        runs = [*runs_of("a", "ppp", "x"), *runs_of("a", "ppf", "y"), *runs_of("a", "p", "z")]
        stats = compare_runs(runs, k=2).variants[0]
        assert stats.pass_hat_k == pytest.approx((1 + 1 / 3) / 2)
        assert (stats.tasks, stats.tasks_short) == (3, 1)
        assert compare_runs(runs, k=4).variants[0].pass_hat_k is None

    def test_cost_and_latency_are_means_of_the_known(self) -> None:
        runs = [Run("a", "t", "pass", 1.0, 3.0), Run("a", "t", "pass", 2.0), Run("a", "t", "fail")]
        stats = compare_runs(runs).variants[0]
        assert (stats.cost, stats.cost_known) == (1.5, 2)
        assert (stats.latency, stats.latency_known) == (3.0, 1)
        unknown = compare_runs(runs_of("a", "p")).variants[0]
        assert (unknown.cost, unknown.latency, unknown.cost_known) == (None, None, 0)

    def test_a_clear_difference_is_distinguishable_and_signed(self) -> None:
        comparison = compare_runs(runs_of("a", "p" * 5 + "f" * 15) + runs_of("b", "p" * 19 + "f"))
        pair = comparison.pairs[0]
        assert (pair.a, pair.b, pair.distinguishable) == ("a", "b", True)
        assert pair.difference == pytest.approx(0.7)  # 19/20 - 5/20
        assert pair.p_value == pytest.approx(exact_fisher(5, 15, 19, 1), rel=1e-12)
        assert pair.verdict.startswith("b passes more often than a (95.0% against 25.0%;")
        swapped = compare_runs(runs_of("b", "p" * 19 + "f") + runs_of("a", "p" * 5 + "f" * 15))
        assert swapped.pairs[0].difference == pytest.approx(-0.7)
        assert swapped.pairs[0].verdict.startswith("b passes more often than a")

    @pytest.mark.parametrize(
        ("a", "b", "min_n", "alpha", "failed"),
        [
            # 5 of 20 against 19 of 20: only the number of runs is missing.
            ("p" * 5 + "f" * 15, "p" * 19 + "f", 21, 0.05, ["fewer than 21 runs"]),
            # p = 1.5e-5 is not below 1e-5, yet the intervals lie apart.
            ("p" * 5 + "f" * 15, "p" * 19 + "f", 10, 1e-6, ["is not below 1e-06"]),
            # 24 of 50 against 35 of 50: p = 0.04, the intervals overlap.
            ("p" * 24 + "f" * 26, "p" * 35 + "f" * 15, 10, 0.05, ["intervals overlap"]),
            ("pf", "pp", 10, 0.05, ["fewer than 10", "is not below 0.05", "intervals overlap"]),
        ],
    )
    def test_the_verdict_says_which_of_the_three_failed(
        self, a: str, b: str, min_n: int, alpha: float, failed: list[str]
    ) -> None:
        pair = compare_runs(runs_of("a", a) + runs_of("b", b), min_n=min_n, alpha=alpha).pairs[0]
        assert not pair.distinguishable
        assert pair.verdict.startswith("a and b are not distinguishable:")
        everything = ["fewer than", "is not below", "intervals overlap"]
        for reason in everything:
            assert (reason in pair.verdict) == any(reason in one for one in failed), pair.verdict

    def test_pairs_are_all_or_those_with_the_baseline_in_first_seen_order(self) -> None:
        runs = runs_of("c", "p") + runs_of("a", "p") + runs_of("b", "p")
        assert [(p.a, p.b) for p in compare_runs(runs).pairs] == [
            ("c", "a"), ("c", "b"), ("a", "b"),
        ]  # fmt: skip
        against = compare_runs(runs, baseline="a")
        assert [(p.a, p.b) for p in against.pairs] == [("a", "c"), ("a", "b")]
        assert list(against.by_name()) == ["c", "a", "b"]

    def test_an_unknown_baseline_is_refused_with_the_nearest_name(self) -> None:
        with pytest.raises(ValueError, match="did you mean 'main'"):
            compare_runs(runs_of("main", "p"), baseline="mian")

    @pytest.mark.parametrize(
        "settings", [{"k": 0}, {"alpha": 0}, {"alpha": 1.0}, {"alpha": math.nan}, {"min_n": -1}]
    )
    def test_settings_out_of_range_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            compare_runs(runs_of("a", "p"), **settings)

    def test_no_runs_give_an_empty_comparison(self) -> None:
        comparison = compare_runs([])
        assert (comparison.variants, comparison.pairs) == ([], [])

    def test_an_outcome_nobody_knows_is_refused(self) -> None:
        with pytest.raises(ValueError, match="unknown outcome 'passed'"):
            compare_runs([Run("a", "t", "passed")])

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
    def test_an_amount_that_is_none_is_refused_and_never_averaged(self, value: float) -> None:
        with pytest.raises(ValueError, match="the cost of a run of 't' under 'a'"):
            compare_runs([Run("a", "t", "pass", cost=value)])
        with pytest.raises(ValueError, match="the latency of a run of 't' under 'a'"):
            compare_runs([Run("a", "t", "pass", latency=value)])

    def test_several_pairs_are_adjusted_and_a_single_one_is_not(self) -> None:
        runs = (
            runs_of("a", "p" * 9 + "f") + runs_of("b", "p" * 3 + "f" * 7) + runs_of("c", "pf" * 5)
        )
        pairs = compare_runs(runs).pairs
        assert [p.p_holm for p in pairs] == pytest.approx(holm([p.p_value for p in pairs]))
        assert compare_runs(runs, baseline="a").pairs[0].p_holm is not None
        assert compare_runs(runs[:20]).pairs[0].p_holm is None

    def test_the_report_is_json_and_names_its_estimators(self) -> None:
        runs = runs_of("a", "pf", "x") + runs_of("b", "pp", "x") + runs_of("b", "f", "y")
        report = compare_runs(runs, k=2).to_dict()
        assert json.loads(json.dumps(report, allow_nan=False)) == report
        assert "CR2" in report["methods"]["clustered"]
        assert report["pairs"][0]["common"]["only_b"] == ["y"]
        assert report["tasks"][0]["pass_rate"] == 0.5


class TestPopulation:
    def test_a_repetition_listed_twice_counts_once_and_is_reported(self) -> None:
        runs = [
            Run("a", "t", "pass", repetition=0),
            Run("a", "t", "fail", repetition=0),
            Run("a", "t", "pass", repetition=0),
            Run("a", "t", "pass", repetition=1),
            Run("b", "t", "pass", repetition=0),
        ]
        comparison = compare_runs(runs)
        assert comparison.by_name()["a"].counts == {"pass": 2, "fail": 0, "error": 0, "unknown": 0}
        [record] = comparison.duplicates
        assert (record.task, record.identity, record.extra, record.conflicting) == ("t", "0", 2, 1)
        assert any("2 duplicate record(s) of 1 run(s)" in note for note in comparison.notes)

    def test_the_same_repetition_of_two_models_is_two_runs(self) -> None:
        rows = [
            {"variant": "main", "model": model, "task": "t", "repetition": 0, "passed": True}
            for model in ("m1", "m2", "m2")
        ]
        comparison = compare_runs([run_from_row(row) for row in rows])
        assert comparison.variants[0].n == 2
        assert comparison.duplicates[0].extra == 1

    def test_run_ids_tell_runs_apart_where_repetitions_are_not_recorded(self) -> None:
        runs = [Run("a", "t", "pass", run_id=name) for name in ("x", "y", "x", "")]
        assert (
            compare_runs([*runs, Run("a", "t", "pass")]).variants[0].n == 4
        )  # x, y and two unnamed

    def test_different_tasks_are_told_and_compared_on_the_common_ones(self) -> None:
        runs = [
            *runs_of("a", "p" * 10, "shared"),
            *runs_of("a", "f" * 10, "old"),
            *runs_of("b", "p" * 10, "shared"),
            *runs_of("b", "p" * 10, "new"),
        ]
        comparison = compare_runs(runs)
        pair = comparison.pairs[0]
        assert pair.difference == 0.5
        assert pair.common is not None
        assert (pair.common.tasks, pair.common.only_a, pair.common.only_b) == (1, ["old"], ["new"])
        assert (pair.common.difference, pair.common.p_value) == (0.0, 1.0)
        assert any("1 of 3 tasks were run by all" in note for note in comparison.notes)
        same = compare_runs(runs_of("a", "pf", "x") + runs_of("b", "pf", "x"))
        assert same.pairs[0].common is None

    def test_uneven_repetitions_missing_costs_and_few_runs_are_told(self) -> None:
        runs = [Run("a", "t", "pass", 1.0, 1.0)] * 3 + [Run("b", "t", "fail", None, 1.0)]
        notes = compare_runs(runs, k=2).notes
        assert any("1 task(s) were run unequally often" in note for note in notes)
        assert any(note.startswith("b: cost is known for 0 of 1") for note in notes)
        assert any(note.startswith("a has 3 run(s), fewer than 10") for note in notes)
        assert any("1 of 1 task(s) have fewer than 2 run(s)" in note for note in notes)
        assert not any(note.startswith("a: cost") for note in notes)

    def test_clean_runs_have_nothing_to_tell(self) -> None:
        runs = [
            Run(variant, f"t{task}", "pass" if (task + i) % 3 else "fail", 1.0, 1.0, repetition=i)
            for variant in "ab"
            for task in range(8)
            for i in range(3)
        ]
        assert compare_runs(runs).notes == []

    def test_tasks_that_moved_come_largest_first(self) -> None:
        runs = [
            *runs_of("a", "pppp", "down"), *runs_of("b", "ffpp", "down"),
            *runs_of("a", "ffff", "up"), *runs_of("b", "pppf", "up"),
            *runs_of("a", "pf", "same"), *runs_of("b", "pf", "same"),
        ]  # fmt: skip
        pair = compare_runs(runs).pairs[0]
        assert [(c.task, c.difference) for c in pair.moved] == [("up", 0.75), ("down", -0.5)]
        assert (pair.improved, pair.worsened, pair.unchanged) == (1, 1, 1)

    def test_counts_give_the_same_comparison_as_the_runs_they_add_up(self) -> None:
        chance = random.Random(11)
        runs = [
            Run(
                f"v{chance.randrange(3)}",
                f"t{chance.randrange(5)}",
                chance.choice(["pass", "fail", "error", "unknown"]),
                chance.choice([None, chance.random()]),
            )
            for _ in range(300)
        ]
        comparison = compare_runs(runs, k=3, baseline="v1")
        again = compare_counts(comparison.task_counts, k=3, baseline="v1")
        assert again.to_dict() == comparison.to_dict()

    def test_expected_variants_are_there_without_runs_and_nothing_is_called(self) -> None:
        cells = [TaskCounts("b", "t", passes=20)]
        comparison = compare_counts(cells, baseline="a", expected=["a"])
        pair = comparison.pairs[0]
        assert comparison.by_name()["a"].interval == (0.0, 1.0)
        assert (pair.difference, pair.distinguishable, pair.runs_needed) == (None, False, None)
        assert "a has 0" in pair.verdict


class TestRunRows:
    @pytest.mark.parametrize(
        ("row", "variant"),
        [
            ({"arm_id": "x", "variant": "y", "arm": "z", "model": "m"}, "x"),
            ({"variant": "y", "arm": "z", "model": "m"}, "y"),
            ({"arm": "z", "model": "m"}, "z"),
            ({"model": "m"}, "m"),
            ({"arm_id": None, "model": "m"}, "m"),
            ({"variant": {"id": "v1", "name": "first"}}, "v1"),
        ],
    )
    def test_the_variant_is_the_first_name_given(self, row: dict[str, Any], variant: str) -> None:
        assert run_from_row(row).variant == variant

    def test_a_variant_key_goes_before_all_and_must_be_there(self) -> None:
        assert run_from_row({"arm_id": "x", "temperature": 0.5}, "temperature").variant == "0.5"
        with pytest.raises(ValueError, match="'server'"):
            run_from_row({"arm_id": "x"}, "server")

    @pytest.mark.parametrize(
        ("row", "outcome"),
        [
            ({"outcome": "pass", "status": "error"}, "pass"),
            ({"status": "error", "passed": True}, "error"),
            ({"passed": True}, "pass"),
            ({"passed": False, "status": "completed"}, "fail"),
            ({"passed": None}, "unknown"),
            ({"passed": 1}, "unknown"),
            ({"outcome": "PASSED", "passed": False}, "unknown"),
            ({"outcome": "ok", "passed": True}, "unknown"),
            ({"outcome": ["pass"], "passed": True}, "unknown"),
            ({"outcome": "ok", "status": "error"}, "error"),
            ({"outcome": "", "passed": True}, "pass"),
            ({}, "unknown"),
        ],
    )
    def test_the_outcome_is_recorded_or_derived(self, row: dict[str, Any], outcome: str) -> None:
        assert run_from_row({"arm": "a", **row}).outcome == outcome

    def test_an_outcome_in_doubt_is_noted(self) -> None:
        rows: list[dict[str, Any]] = [
            {"arm": "a", "outcome": "ok", "passed": True},
            {"arm": "a", "outcome": "pass"},
        ]
        comparison = compare_runs([run_from_row(row) for row in rows])
        assert comparison.notes[0] == (
            "1 record(s) are in doubt about their outcome, the first: the outcome 'ok' is not"
            " known: the run's is taken as unknown."
        )

    @pytest.mark.parametrize(
        ("row", "cost", "latency"),
        [
            ({"cost_usd": 0, "cost": 5, "duration_s": 2}, 0.0, 2.0),
            ({"cost": {"usd": 0.25}, "latency": 1.5}, 0.25, 1.5),
            ({"cost": {"usd": None}, "duration": 3}, None, 3.0),
            ({"cost": {"usd": "0.001"}}, 0.001, None),
            ({"cost": -1, "latency": True}, None, None),
            ({"cost": 1e400, "duration": math.nan}, None, None),
            ({"cost": 10**400, "duration": 10**400}, None, None),
            ({}, None, None),
        ],
    )
    def test_cost_and_latency_are_numbers_or_unknown(
        self, row: dict[str, Any], cost: float | None, latency: float | None
    ) -> None:
        run = run_from_row({"arm": "a", **row})
        assert (run.cost, run.latency) == (cost, latency)

    def test_a_row_without_variant_is_refused(self) -> None:
        with pytest.raises(ValueError, match="names no variant"):
            run_from_row({"task": "t"})

    def test_a_row_that_is_no_object_is_refused(self) -> None:
        with pytest.raises(ValueError, match="a row is an object, not a list"):
            run_from_row([1])  # type: ignore[arg-type]

    def test_a_byte_order_mark_is_skipped(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.jsonl"
        file.write_bytes(b'\xef\xbb\xbf{"arm": "a"}\r\n{"arm": "b"}\r\n')
        assert [run.variant for run in load_runs([file])] == ["a", "b"]

    def test_lines_are_read_in_order_and_blank_ones_skipped(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.jsonl"
        file.write_text('{"arm": "a", "task_id": "x"}\n\n  \n{"arm": "b", "task": "y"}\n')
        assert [(run.variant, run.task) for run in load_runs([file, file])] == [
            ("a", "x"), ("b", "y"), ("a", "x"), ("b", "y"),
        ]  # fmt: skip

    @pytest.mark.parametrize("suffix", [".gz", ".zst"])
    def test_compressed_files_are_read(self, tmp_path: Path, suffix: str) -> None:
        import pyarrow as pa

        file = tmp_path / f"runs.jsonl{suffix}"
        kind = {".gz": "gzip", ".zst": "zstd"}[suffix]
        with pa.output_stream(str(file), compression=kind) as stream:
            stream.write(b'{"arm": "a"}\n{"arm": "b"}\n')
        assert [run.variant for run in load_runs([file])] == ["a", "b"]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('{"arm": "a"}\n[1]\n', r"runs.jsonl:2: expected a JSON object, got a list"),
            ('{"arm": "a"}\n{"arm": \n', r"runs.jsonl:2: the line is not JSON"),
            ('{"arm": "a", "cost": NaN}\n', r"runs.jsonl:1: the line is not JSON"),
            ('\n{"task": "t"}\n', r"runs.jsonl:2: the row names no variant"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path: Path, text: str, reason: str) -> None:
        file = tmp_path / "runs.jsonl"
        file.write_text(text)
        with pytest.raises(ValueError, match=reason):
            load_runs([file])

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"none\.jsonl: there is no such file"):
            load_runs([tmp_path / "none.jsonl"])


def stats_of(variant: str, rate: float, cost: float | None, latency: float | None) -> VariantStats:
    passes = round(rate * 20)
    counts = {"pass": passes, "fail": 20 - passes, "error": 0, "unknown": 0}
    interval = wilson_interval(passes, 20)
    return VariantStats(
        variant, 20, counts, rate, interval, rate, 1, 1, 0, cost, 20, latency, 20
    )  # fmt: skip


def comparison_of(*variants: VariantStats) -> Comparison:
    return Comparison(list(variants), [], k=1, min_n=10, alpha=0.05)


class TestSelection:
    cheap = stats_of("cheap", 0.7, 0.01, 5.0)
    good = stats_of("good", 0.9, 0.05, 5.0)
    slow = stats_of("slow", 0.9, 0.05, 9.0)
    dark = stats_of("dark", 0.8, None, 1.0)

    def test_metrics_know_their_direction(self) -> None:
        assert OBJECTIVE_METRICS == {
            "pass_rate": True, "pass_hat_k": True, "cost": False, "latency": False,
        }  # fmt: skip

    def test_lexicographic_breaks_ties_by_the_next_objective(self) -> None:
        comparison = comparison_of(self.slow, self.cheap, self.good)
        selection = select_variant(comparison, "lexicographic", ["pass_rate", "latency"])
        assert selection.ranking == ["good", "slow", "cheap"]
        assert selection.chosen == "good"
        assert selection.reason == (
            "good is best on latency after a tie on pass_rate: 5 against 9 for slow."
        )

    def test_what_ties_to_the_end_stays_in_first_seen_order(self) -> None:
        comparison = comparison_of(self.slow, self.good)
        selection = select_variant(comparison, "lexicographic", ["cost"])
        assert selection.ranking == ["slow", "good"]
        assert "slow was seen first" in selection.reason

    def test_weighted_scales_each_objective_across_the_variants(self) -> None:
        comparison = comparison_of(self.cheap, self.dark, self.good)
        selection = select_variant(
            comparison, "weighted", ["pass_rate", "cost"], {"pass_rate": 1.0, "cost": 3.0}
        )
        # Scaled pass rates: 0, 0.5, 1; scaled costs: 1, unknown = 0, 0.
        assert selection.scores == pytest.approx({"cheap": 3.0, "dark": 0.5, "good": 1.0})
        assert selection.ranking == ["cheap", "good", "dark"]
        assert selection.unknown == {"dark": ["cost"]}
        assert [goal.weight for goal in selection.objectives] == [1.0, 3.0]

    def test_where_all_are_equal_each_is_best(self) -> None:
        selection = select_variant(comparison_of(self.good, self.slow), "weighted", ["cost"])
        assert selection.scores == {"good": 1.0, "slow": 1.0}

    def test_the_pareto_front_leaves_out_the_dominated(self) -> None:
        variants = [self.cheap, self.good, self.slow, self.dark]
        assert pareto_front(variants, ["pass_rate", "cost"]) == ["cheap", "good", "slow"]
        assert pareto_front(variants, ["pass_rate", "cost", "latency"]) == ["cheap", "good", "dark"]
        selection = select_variant(
            comparison_of(*variants), "pareto", ["cost", "pass_rate", "latency"]
        )
        assert selection.pareto_front == ["cheap", "good", "dark"]
        # The first objective breaks the tie on the front; slow is off it, though cheaper than dark.
        assert selection.ranking == ["cheap", "good", "dark", "slow"]

    def test_unknown_is_the_worst(self) -> None:
        assert pareto_front([self.dark, stats_of("other", 0.8, 99.0, 1.0)], ["cost"]) == ["other"]
        ranking = select_variant(comparison_of(self.dark, self.good), objectives=["cost"]).ranking
        assert ranking == ["good", "dark"]

    def test_no_variant_means_none_is_chosen(self) -> None:
        selection = select_variant(comparison_of())
        assert (selection.chosen, selection.ranking, selection.pareto_front) == (None, [], [])

    @pytest.mark.parametrize(
        "arguments",
        [
            {"policy": "best"},
            {"objectives": ["pass_rat"]},
            {"objectives": []},
            {"objectives": ["cost", "cost"]},
            {"objectives": ["cost"], "weights": {"latency": 1.0}},
            {"policy": "weighted", "weights": dict.fromkeys(OBJECTIVE_METRICS, 0.0)},
            {"weights": {"cost": -1.0}},
            {"weights": {"cost": math.inf}},
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            select_variant(comparison_of(self.good), **arguments)

    def test_the_report_is_json(self) -> None:
        selection = select_variant(
            comparison_of(self.good, self.dark), "weighted", [Objective("cost", 2)]
        )
        assert json.loads(json.dumps(selection.to_dict()))["objectives"] == [
            {"metric": "cost", "weight": 2}
        ]


def protocol(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "protocol_version": 1,
        "title": "Adopt b",
        "baseline": "a",
        "candidate": "b",
        "rules": list(rules),
        **fields,
    }


BETTER = {"id": "better", "metric": "pass_rate", "expect": "candidate_better"}


class TestProtocol:
    clear = comparison_of(stats_of("a", 0.25, 1.0, 5.0), stats_of("b", 0.95, 1.2, None))

    def decide(self, *rules: dict[str, Any], **fields: Any) -> tuple[str, list[str]]:
        result = evaluate_protocol(protocol(*rules, **fields), self.clear)
        return result.decision, [rule.status for rule in result.rules]

    def test_a_pass_rate_must_be_distinguishable_to_be_better(self) -> None:
        assert self.decide(BETTER) == ("adopt", ["pass"])
        near = comparison_of(stats_of("a", 0.7, 1.0, 1.0), stats_of("b", 0.8, 1.0, 1.0))
        result = evaluate_protocol(protocol(BETTER), near)
        assert result.decision == "reject"
        assert "not distinguishable" in result.rules[0].detail
        # The other way round it is distinguishable, and worse.
        turned = comparison_of(stats_of("a", 0.95, 1.0, 1.0), stats_of("b", 0.25, 1.0, 1.0))
        assert evaluate_protocol(protocol(BETTER), turned).decision == "reject"

    def test_the_protocols_own_alpha_is_used(self) -> None:
        # 5 of 20 against 19 of 20: p = 1.0e-5
        assert self.decide(BETTER, alpha=1e-6)[0] == "reject"

    @pytest.mark.parametrize(
        ("rule", "status"),
        [
            ({"expect": "not_worse"}, "fail"),  # 1.2 against 1.0 dollars
            (
                {"expect": "not_worse", "tolerance": 0.2},
                "pass",
            ),  # 1.2 - 1.0 in doubles is 0.19999...
            ({"expect": "not_worse", "tolerance": 0.1}, "fail"),
            ({"expect": "candidate_better"}, "fail"),
            ({"max": 1.2}, "pass"),
            ({"max": 1.19}, "fail"),
            ({"min": 1.2, "max": 3}, "pass"),
            ({"min": 1.3, "max": 3}, "fail"),
        ],
    )
    def test_costs_are_better_when_lower(self, rule: dict[str, Any], status: str) -> None:
        assert self.decide({"id": "r", "metric": "cost", **rule})[1] == [status]

    def test_better_means_by_more_than_the_tolerance(self) -> None:
        comparison = comparison_of(stats_of("a", 0.5, 0.9, 1), stats_of("b", 0.5, 0.85, 1))
        rule = {"id": "r", "metric": "cost", "expect": "candidate_better"}
        for tolerance, status in ((0.04, "pass"), (0.05, "fail"), (0.06, "fail")):
            result = evaluate_protocol(protocol({**rule, "tolerance": tolerance}), comparison)
            assert result.rules[0].status == status, tolerance

    def test_an_unknown_metric_never_passes(self) -> None:
        rule = {"id": "fast", "metric": "latency", "expect": "not_worse", "tolerance": 100}
        assert self.decide(BETTER, rule) == ("undecided", ["pass", "unknown"])
        bound = {"id": "fast", "metric": "latency", "max": 100}
        assert self.decide(bound) == ("undecided", ["unknown"])

    def test_a_failed_rule_rejects_whatever_is_unknown(self) -> None:
        unknown = {"id": "fast", "metric": "latency", "max": 1}
        fails = {"id": "cheap", "metric": "cost", "max": 0.5}
        assert self.decide(unknown, fails)[0] == "reject"

    def test_too_few_runs_make_every_rule_unknown(self) -> None:
        bound = {"id": "good", "metric": "pass_rate", "min": 0.9}
        assert self.decide(BETTER, bound, min_runs=20)[1] == ["pass", "pass"]
        assert self.decide(BETTER, bound, min_runs=21)[1] == ["unknown", "unknown"]
        self.clear.min_n = 30
        try:
            assert self.decide(BETTER) == ("undecided", ["unknown"])
            assert self.decide(BETTER, min_runs=5)[0] == "adopt"
        finally:
            self.clear.min_n = 10

    def test_the_hash_is_of_the_protocol_as_declared(self) -> None:
        declared = protocol(BETTER)
        result = evaluate_protocol(declared, self.clear)
        assert result.protocol_sha256 == json_sha256(declared)
        assert result.protocol_sha256 != json_sha256({**declared, "alpha": 0.05})

    def test_unknown_variants_are_refused(self) -> None:
        with pytest.raises(ValueError, match="unknown candidate variant 'c'"):
            evaluate_protocol(protocol(BETTER, candidate="c"), self.clear)

    @pytest.mark.parametrize(
        ("change", "path", "reason"),
        [
            ({"protocol_version": 2}, "$.protocol_version", "must be 1"),
            ({"protocol_version": True}, "$.protocol_version", "must be 1"),
            ({"rule": []}, "$.rule", "did you mean 'rules'"),
            ({"alpha": 5}, "$.alpha", "between 0 and 1"),
            ({"min_runs": 2.5}, "$.min_runs", "whole number"),
            ({"rules": []}, "$.rules", "at least one"),
            ({"candidate": "a"}, "$.candidate", "same variant"),
            ({"baseline": 3}, "$.baseline", "name a variant"),
            ({"rules": [{**BETTER, "metric": "speed"}]}, "$.rules[0].metric", "unknown metric"),
            ({"rules": [{**BETTER, "expects": 1}]}, "$.rules[0].expects", "did you mean 'expect'"),
            (
                {"rules": [{**BETTER, "expect": "better"}]},
                "$.rules[0].expect",
                "unknown expectation",
            ),
            ({"rules": [{**BETTER, "min": 1}]}, "$.rules[0]", "not both"),
            ({"rules": [{"id": "x", "metric": "cost"}]}, "$.rules[0]", "needs expect, min or max"),
            ({"rules": [BETTER, BETTER]}, "$.rules[1].id", "used twice"),
            ({"rules": [{**BETTER, "tolerance": -1}]}, "$.rules[0].tolerance", "at least 0"),
            (
                {"rules": [{"id": "x", "metric": "cost", "min": 2, "max": 1}]},
                "$.rules[0].min",
                "above",
            ),
            ({"rules": ["better"]}, "$.rules[0]", "an object"),
        ],
    )
    def test_each_mistake_is_told_with_its_place(
        self, change: dict[str, Any], path: str, reason: str
    ) -> None:
        with pytest.raises(ContractError) as caught:
            evaluate_protocol({**protocol(BETTER), **change}, self.clear)
        [problem] = caught.value.problems
        assert problem.json_path == path
        assert reason in problem.reason

    def test_every_mistake_of_a_file_is_told_with_its_line(self, tmp_path: Path) -> None:
        file = tmp_path / "adopt.yaml"
        file.write_text(
            "protocol_version: 1\nbaseline: a\ncandidate: b\nalpha: 2\n"
            "rules:\n  - {id: x, metric: speed, expect: not_worse}\n"
        )
        with pytest.raises(ContractError) as caught:
            load_protocol(file)
        assert [problem.line for problem in caught.value.problems] == [4, 6]
        assert f"{file}:6: at $.rules[0].metric: unknown metric 'speed'" in str(caught.value)

    def test_json_and_yaml_give_the_same_protocol_and_hash(self, tmp_path: Path) -> None:
        declared = protocol(BETTER)
        (tmp_path / "p.json").write_text(json.dumps(declared))
        (tmp_path / "p.yaml").write_text(
            "protocol_version: 1\ntitle: Adopt b\nbaseline: a\ncandidate: b\n"
            "rules:\n- id: better\n  metric: pass_rate\n  expect: candidate_better\n"
        )
        assert load_protocol(tmp_path / "p.json") == load_protocol(tmp_path / "p.yaml") == declared

    def test_the_result_is_json(self) -> None:
        result = evaluate_protocol(protocol(BETTER), self.clear)
        assert json.loads(json.dumps(result.to_dict()))["rules"][0]["status"] == "pass"


def test_importing_the_statistics_loads_no_scipy() -> None:
    code = (
        "import sys, toolscore_pipeline.stats, toolscore_pipeline.charts;"
        "print([m for m in ('scipy', 'numpy', 'matplotlib', 'statsmodels') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
