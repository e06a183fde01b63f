"""Statistics by task, against matrices, scipy, statsmodels and simulation."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_effectsize

from toolscore_pipeline.stats import TaskCounts, clustered_difference, paired_test, runs_needed
from toolscore_pipeline.stats import tasks as module

Tasks = dict[str, TaskCounts]


def load_simulations() -> ModuleType:
    """The simulations of ``bench/coverage.py``, which is no package."""
    path = Path(__file__).parent.parent / "bench" / "coverage.py"
    spec = importlib.util.spec_from_file_location("bench_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


simulations = load_simulations()


def tasks_of(variant: str, counts: Mapping[str, tuple[int, int]]) -> Tasks:
    """Passes and runs by task."""
    return {
        task: TaskCounts(variant, task, passes=passes, fails=n - passes)
        for task, (passes, n) in counts.items()
    }


def random_tasks(seed: int, count: int = 9) -> tuple[Tasks, Tasks]:
    """Two variants with unequal runs and tasks of their own."""
    chance = random.Random(seed)

    def some(variant: str, start: int) -> Tasks:
        counts = {}
        for task in range(start, start + count):
            n = chance.randint(1, 8)
            counts[f"t{task}"] = (chance.randint(0, n), n)
        return tasks_of(variant, counts)

    return some("a", 0), some("b", 3)


def matrix_cr2(a: Tasks, b: Tasks) -> tuple[float, float]:
    """CR2 standard error and Bell-McCaffrey degrees of freedom, by the book, with matrices."""
    outcomes: list[float] = []
    rows: list[list[float]] = []
    clusters: list[str] = []
    for is_b, own in ((0.0, a), (1.0, b)):
        for task, cell in own.items():
            for i in range(cell.n):
                outcomes.append(1.0 if i < cell.passes else 0.0)
                rows.append([1.0, is_b])
                clusters.append(task)
    y, x, labels = np.array(outcomes), np.array(rows), np.array(clusters)
    bread = np.linalg.inv(x.T @ x)
    hat = x @ bread @ x.T
    residuals = y - hat @ y
    identity = np.eye(len(y))
    contrast = np.array([0.0, 1.0])
    variance, vectors = 0.0, []
    for label in dict.fromkeys(clusters):
        inside = labels == label
        values, axes = np.linalg.eigh(identity[inside][:, inside] - hat[inside][:, inside])
        adjust = axes @ np.diag(values**-0.5) @ axes.T
        weights = adjust @ x[inside] @ bread @ contrast
        variance += float(weights @ residuals[inside]) ** 2
        vectors.append((identity - hat)[:, inside] @ weights)
    gram = np.array(vectors) @ np.array(vectors).T
    return float(np.sqrt(variance)), float(np.trace(gram) ** 2 / (gram**2).sum())


class TestClusteredDifference:
    @pytest.mark.parametrize("seed", range(8))
    def test_the_closed_form_equals_the_matrices(self, seed: int) -> None:
        a, b = random_tasks(seed)
        found = clustered_difference(a, b)
        assert found is not None
        error, df = matrix_cr2(a, b)
        assert found.standard_error == pytest.approx(error, rel=1e-10)
        assert found.df == pytest.approx(df, rel=1e-10)
        half = float(scipy_stats.t.ppf(0.975, df)) * error
        assert found.high - found.difference == pytest.approx(
            min(half, 1 - found.difference), rel=1e-9
        )
        assert found.clusters == 12  # t0 to t11

    def test_equal_runs_of_the_same_tasks_give_the_paired_t_interval(self) -> None:
        chance = random.Random(1)
        passes = [(chance.randint(0, 5), chance.randint(1, 5)) for _ in range(8)]
        a = tasks_of("a", {f"t{i}": (x, 5) for i, (x, _) in enumerate(passes)})
        b = tasks_of("b", {f"t{i}": (y, 5) for i, (_, y) in enumerate(passes)})
        found = clustered_difference(a, b)
        assert found is not None
        expected = scipy_stats.ttest_rel([y / 5 for _, y in passes], [x / 5 for x, _ in passes])
        interval = expected.confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-10)
        assert found.df == pytest.approx(7)

    def test_alike_runs_of_a_task_widen_the_interval_and_pairing_narrows_it(self) -> None:
        # Each task passes always or never, under either variant another half of them.
        apart = clustered_difference(
            tasks_of("a", {f"t{i}": (10 * (i % 2), 10) for i in range(10)}),
            tasks_of("b", {f"t{i}": (10 * (i < 5), 10) for i in range(10)}),
        )
        # Task difficulty differs widely, the gain is nearly the same everywhere.
        together = clustered_difference(
            tasks_of("a", {f"t{i}": (i, 20) for i in range(10)}),
            tasks_of("b", {f"t{i}": (i + 5 + i % 2, 20) for i in range(10)}),
        )
        assert apart is not None
        assert together is not None
        assert apart.design_effect is not None
        assert together.design_effect is not None
        assert apart.design_effect > 5
        assert together.design_effect < 0.2

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            ({}, {"x": (1, 2), "y": (0, 2)}),
            ({"x": (1, 2)}, {"x": (1, 2), "y": (0, 2)}),  # one task has no spread to see
            ({"x": (2, 2), "y": (3, 3)}, {"x": (2, 2), "y": (3, 3)}),  # everything passes
            ({"x": (0, 4), "y": (0, 4)}, {"x": (1, 4), "y": (1, 4)}),  # the same gain everywhere
        ],
    )
    def test_without_spread_between_tasks_there_is_no_interval(
        self, a: dict[str, tuple[int, int]], b: dict[str, tuple[int, int]]
    ) -> None:
        assert clustered_difference(tasks_of("a", a), tasks_of("b", b)) is None

    def test_bounds_stay_within_minus_1_and_1(self) -> None:
        found = clustered_difference(
            tasks_of("a", {"x": (0, 2), "y": (0, 2), "z": (1, 2)}),
            tasks_of("b", {"x": (2, 2), "y": (2, 2), "z": (2, 2)}),
        )
        assert found is not None
        assert -1 < found.low < found.difference
        assert found.high == 1.0


def brute_force(differences: Sequence[float]) -> float:
    """The share of all sign patterns with a mean at least as far from 0."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-9 for one in sums) / len(sums)


class TestPairedTest:
    @pytest.mark.parametrize(
        ("gained", "lost", "same"), [(8, 1, 3), (5, 5, 0), (0, 6, 2), (1, 0, 0)]
    )
    def test_single_runs_give_the_exact_mcnemar_test(
        self, gained: int, lost: int, same: int
    ) -> None:
        outcomes = [(0, 1)] * gained + [(1, 0)] * lost + [(1, 1)] * same
        a = tasks_of("a", {f"t{i}": (x, 1) for i, (x, _) in enumerate(outcomes)})
        b = tasks_of("b", {f"t{i}": (y, 1) for i, (_, y) in enumerate(outcomes)})
        found = paired_test(a, b)
        assert found is not None
        assert found.method == "exact McNemar"
        expected = mcnemar([[same, lost], [gained, 0]], exact=True).pvalue
        assert found.p_value == pytest.approx(expected, rel=1e-12)
        assert found.difference == pytest.approx((gained - lost) / len(outcomes))

    @pytest.mark.parametrize("seed", range(6))
    def test_repeated_runs_give_the_exact_permutation_test(self, seed: int) -> None:
        a, b = random_tasks(seed, 12)
        found = paired_test(a, b)
        assert found is not None
        assert found.method == "exact permutation"
        common = [task for task in a if task in b]
        differences = [b[task].rate - a[task].rate for task in common]
        assert found.tasks == len(common) == 9
        assert found.p_value == pytest.approx(brute_force(differences), rel=1e-12)
        expected = scipy_stats.permutation_test(
            (np.array(differences),),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
        )
        assert found.p_value == pytest.approx(min(1.0, float(expected.pvalue)), rel=1e-9)

    def test_many_tasks_are_exact_too(self) -> None:
        # 400 tasks, 240 gained and 160 lost one of two runs: a binomial test in disguise.
        a = tasks_of("a", {f"t{i}": (1, 2) for i in range(400)})
        b = tasks_of("b", {f"t{i}": (2 if i < 240 else 0, 2) for i in range(400)})
        found = paired_test(a, b)
        assert found is not None
        assert found.p_value == pytest.approx(scipy_stats.binomtest(240, 400).pvalue, rel=1e-9)

    def test_too_many_sums_are_sampled_with_a_stated_seed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a, b = random_tasks(2, 12)
        exact = paired_test(a, b)
        monkeypatch.setattr(module, "_EXACT_STEPS", 0)
        sampled, again = paired_test(a, b), paired_test(a, b)
        assert exact is not None
        assert sampled is not None
        assert sampled == again
        assert (sampled.method, sampled.seed) == ("sampled permutation", module.SEED)
        # Four standard errors of a share of 19,999 draws.
        error = 4 * (exact.p_value * (1 - exact.p_value) / module.RESAMPLES) ** 0.5
        assert sampled.p_value == pytest.approx(exact.p_value, abs=error + 1e-4)

    def test_only_common_tasks_count(self) -> None:
        a = tasks_of("a", {"x": (0, 1), "y": (0, 1), "mine": (1, 1)})
        b = tasks_of("b", {"x": (1, 1), "y": (1, 1), "other": (0, 1)})
        found = paired_test(a, b)
        assert found is not None
        assert (found.tasks, found.difference, found.p_value) == (2, 1.0, 0.5)  # 2 of 2: 2 / 2^2
        assert paired_test(tasks_of("a", {"x": (0, 1)}), tasks_of("b", {"y": (0, 1)})) is None

    def test_no_difference_anywhere_is_no_evidence(self) -> None:
        a, b = tasks_of("a", {"x": (1, 2), "y": (2, 4)}), tasks_of("b", {"x": (2, 4), "y": (1, 2)})
        found = paired_test(a, b)
        assert found is not None
        assert found.p_value == 1.0


class TestRunsNeeded:
    def test_equal_rates_need_no_number(self) -> None:
        assert runs_needed(0.5, 0.5) is None
        assert runs_needed(0.5, 0.5 + 1e-6) is None  # more than ten million

    def test_the_order_of_the_rates_does_not_matter(self) -> None:
        assert runs_needed(0.3, 0.6) == runs_needed(0.6, 0.3)

    @pytest.mark.parametrize(("rate_a", "rate_b"), [(0.5, 0.9), (0.53, 0.77), (0.9, 0.97)])
    def test_so_many_runs_call_the_difference_four_times_in_five(
        self, rate_a: float, rate_b: float
    ) -> None:
        needed = runs_needed(rate_a, rate_b)
        assert needed is not None
        assert 0.77 < simulations.call_rate(needed, rate_a, rate_b, 4000) < 0.83
        assert simulations.call_rate(needed // 2, rate_a, rate_b, 4000) < 0.6

    def test_it_takes_more_runs_than_a_test_alone(self) -> None:
        # Intervals that lie apart ask for more than p < 0.05.
        alone = NormalIndPower().solve_power(proportion_effectsize(0.7, 0.8), alpha=0.05, power=0.8)
        needed = runs_needed(0.7, 0.8)
        assert needed is not None
        assert 1.3 * alone < needed < 2.2 * alone

    def test_a_strict_alpha_asks_for_more(self) -> None:
        loose, strict = runs_needed(0.5, 0.7, 0.05), runs_needed(0.5, 0.7, 1e-6)
        assert loose is not None
        assert strict is not None
        assert strict > 2 * loose

    def test_the_exact_count_joins_the_approximation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module._runs_for_intervals.cache_clear()
        exact = runs_needed(0.70, 0.76)
        module._runs_for_intervals.cache_clear()
        monkeypatch.setattr(module, "_EXACT_BINOMIAL", 10)
        approximate = runs_needed(0.70, 0.76)
        module._runs_for_intervals.cache_clear()
        assert exact is not None
        assert approximate == pytest.approx(exact, rel=0.02)


class TestBySimulation:
    """Short runs of ``bench/coverage.py``; the bounds leave three standard errors of chance."""

    @pytest.mark.parametrize("index", [1, 5, 6])
    def test_the_clustered_interval_covers_where_the_naive_one_does_not(self, index: int) -> None:
        found = simulations.coverage(simulations.SCENARIOS[index], 1000)
        assert 0.93 <= found.clustered <= 0.97
        assert found.naive < 0.92

    @pytest.mark.parametrize("index", [3, 4])
    def test_the_naive_interval_is_too_wide_where_only_difficulty_differs(self, index: int) -> None:
        found = simulations.coverage(simulations.SCENARIOS[index], 1000)
        assert 0.93 <= found.clustered <= 0.97
        assert found.naive > 0.97

    def test_with_six_tasks_the_bootstrap_covers_too_little(self) -> None:
        assert simulations.coverage(simulations.FEW, 1000).clustered >= 0.94
        assert simulations.bootstrap_coverage(simulations.FEW, 1000) < 0.92

    @pytest.mark.parametrize("n", [10, 30, 100])
    @pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
    def test_equal_variants_are_seldom_called(self, n: int, rate: float) -> None:
        assert simulations.call_rate(n, rate, rate, 5000) < 0.02  # far below alpha = 0.05

    def test_the_verdict_is_about_these_tasks_and_the_paired_test_about_more(self) -> None:
        null = simulations.Scenario("", 10, 30, 1.5, 0.0, 1.5)
        called, paired = simulations.task_call_rates(null, 800)
        assert called > 0.10
        assert paired <= 0.065

    @pytest.mark.slow
    @pytest.mark.parametrize("scenario", simulations.SCENARIOS, ids=lambda one: one.name)
    def test_every_scenario_covers(self, scenario: object) -> None:
        assert 0.93 <= simulations.coverage(scenario, 4000).clustered <= 0.97
