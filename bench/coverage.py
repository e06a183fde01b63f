"""Simulations behind the claims on intervals and verdicts: ``python bench/coverage.py``.

Runs are drawn from a model with tasks of different difficulty, on which a change may work
differently well; what the intervals and verdicts then say is compared with the truth drawn from.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

from toolscore_pipeline.stats import (
    TaskCounts,
    clustered_difference,
    fisher_exact,
    paired_test,
    runs_needed,
    wilson_interval,
)
from toolscore_pipeline.stats.numbers import Z_95


@dataclass(frozen=True)
class Scenario:
    """How tasks and runs are drawn.

    Attributes:
        name: what it stands for.
        tasks: tasks each variant runs.
        runs: runs per task; with ``is_uneven`` the mean of 1 to 2 runs - 1.
        difficulty: standard deviation of task difficulty, in logits.
        effect: how much variant b is better, in logits.
        spread: standard deviation of that effect between tasks, in logits.
        is_uneven: whether tasks are run unequally often.
        only: the share of tasks that only one of the variants ran.
    """

    name: str
    tasks: int
    runs: int
    difficulty: float = 1.5
    effect: float = 0.7
    spread: float = 1.0
    is_uneven: bool = False
    only: float = 0.0


SCENARIOS = (
    Scenario("6 tasks, 10 runs each, the effect differs by task", 6, 10),
    Scenario("12 tasks, 20 runs each, the effect differs by task", 12, 20),
    Scenario("30 tasks, 10 runs each, the effect differs by task", 30, 10),
    Scenario("30 tasks, 3 runs each, same effect on every task", 30, 3, 2.0, 0.7, 0.0),
    Scenario("12 tasks, 5 runs each, no effect at all", 12, 5, 2.0, 0.0, 0.0),
    Scenario("20 tasks, 1 to 9 runs each", 20, 5, is_uneven=True),
    Scenario("30 tasks, a third of them run by one variant only", 30, 5, only=1 / 3),
    Scenario("100 tasks, 10 runs each, the effect differs by task", 100, 10),
)
FEW = Scenario("6 tasks, 3 runs each, same effect on every task", 6, 3, 1.0, 0.7, 0.0)


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the true difference, and how often there was none.

    Attributes:
        clustered, naive: share of simulations whose interval held the truth.
        undefined: share without a clustered interval.
    """

    clustered: float
    naive: float
    undefined: float


def draw(
    scenario: Scenario, generator: np.random.Generator
) -> tuple[dict[str, TaskCounts], dict[str, TaskCounts]]:
    """The added-up runs of variants a and b by task, in one simulated study."""
    base = generator.normal(0, scenario.difficulty, scenario.tasks)
    shift = scenario.effect + generator.normal(0, scenario.spread, scenario.tasks)
    alone = round(scenario.tasks * scenario.only)
    variants = []
    for name, rates in (("a", expit(base)), ("b", expit(base + shift))):
        sizes = np.full(scenario.tasks, scenario.runs)
        if scenario.is_uneven:
            sizes = generator.integers(1, 2 * scenario.runs, scenario.tasks)
        passes = generator.binomial(sizes, rates)
        ran = range(scenario.tasks - alone) if name == "a" else range(alone, scenario.tasks)
        variants.append(
            {
                str(task): TaskCounts(
                    name,
                    str(task),
                    passes=int(passes[task]),
                    fails=int(sizes[task] - passes[task]),
                )
                for task in ran
            }
        )
    return variants[0], variants[1]


def true_difference(scenario: Scenario, seed: int = 0) -> float:
    """The mean difference of pass rates over all tasks that could have been drawn."""
    generator = np.random.default_rng(seed)
    base = generator.normal(0, scenario.difficulty, 1_000_000)
    shift = scenario.effect + generator.normal(0, scenario.spread, 1_000_000)
    return float((expit(base + shift) - expit(base)).mean())


def coverage(scenario: Scenario, studies: int, seed: int = 1) -> Coverage:
    """How often the intervals of ``studies`` simulated studies hold the true difference."""
    generator = np.random.default_rng(seed)
    truth = true_difference(scenario)
    clustered = naive = undefined = 0
    for _ in range(studies):
        a, b = draw(scenario, generator)
        found = clustered_difference(a, b)
        if found is None:
            undefined += 1
            continue
        clustered += found.low <= truth <= found.high
        error = 0.0
        for own in (a, b):
            n = sum(cell.n for cell in own.values())
            rate = sum(cell.passes for cell in own.values()) / n
            error += rate * (1 - rate) / n
        naive += abs(found.difference - truth) <= Z_95 * math.sqrt(error)
    defined = studies - undefined
    return Coverage(clustered / defined, naive / defined, undefined / studies)


def bootstrap_interval(
    a: dict[str, TaskCounts], b: dict[str, TaskCounts], resamples: int = 399
) -> tuple[float, float] | None:
    """The studentised cluster bootstrap: the candidate that was not taken. For the same tasks."""
    tasks = len(a)
    counts = np.array([[a[t].passes, a[t].n, b[t].passes, b[t].n] for t in a], dtype=float)

    def estimate(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        passes_a, n_a, passes_b, n_b = (weights @ counts).T
        rate_a, rate_b = passes_a / n_a, passes_b / n_b
        influence = (counts[:, 2] - rate_b[:, None] * counts[:, 3]) / n_b[:, None]
        influence -= (counts[:, 0] - rate_a[:, None] * counts[:, 1]) / n_a[:, None]
        variance = (weights * influence**2).sum(axis=1) * tasks / (tasks - 1)
        return rate_b - rate_a, np.sqrt(variance)

    generator = np.random.default_rng(5)
    difference, error = (float(value[0]) for value in estimate(np.ones((1, tasks))))
    drawn, errors = estimate(
        generator.multinomial(tasks, [1 / tasks] * tasks, resamples).astype(float)
    )
    usable = errors > 1e-9
    if error < 1e-9 or usable.sum() < resamples / 2:
        return None
    low, high = np.quantile((drawn[usable] - difference) / errors[usable], [0.025, 0.975])
    return difference - float(high) * error, difference - float(low) * error


def bootstrap_coverage(scenario: Scenario, studies: int, seed: int = 1) -> float:
    """How often the studentised cluster bootstrap holds the true difference."""
    generator = np.random.default_rng(seed)
    truth = true_difference(scenario)
    found = [bootstrap_interval(*draw(scenario, generator)) for _ in range(studies)]
    return float(np.mean([one[0] <= truth <= one[1] for one in found if one is not None]))


@cache
def is_distinguishable(passes_a: int, passes_b: int, n: int, alpha: float = 0.05) -> bool:
    """The verdict on two variants of ``n`` runs each."""
    low_a, high_a = wilson_interval(passes_a, n)
    low_b, high_b = wilson_interval(passes_b, n)
    apart = low_a > high_b or low_b > high_a
    return apart and fisher_exact(passes_a, n - passes_a, passes_b, n - passes_b) < alpha


def call_rate(n: int, rate_a: float, rate_b: float, studies: int, seed: int = 2) -> float:
    """How often two variants of these true rates are called distinguishable."""
    generator = np.random.default_rng(seed)
    a = generator.binomial(n, rate_a, studies)
    b = generator.binomial(n, rate_b, studies)
    return float(
        np.mean([is_distinguishable(int(x), int(y), n) for x, y in zip(a, b, strict=True)])
    )


def task_call_rates(
    scenario: Scenario, studies: int, alpha: float = 0.05, seed: int = 3
) -> tuple[float, float]:
    """How often a scenario is called: by the verdict over runs, by the paired test over tasks."""
    generator = np.random.default_rng(seed)
    called = paired = 0
    for _ in range(studies):
        a, b = draw(scenario, generator)
        n = sum(cell.n for cell in a.values())
        passes = [sum(cell.passes for cell in own.values()) for own in (a, b)]
        called += is_distinguishable(passes[0], passes[1], n, alpha)
        test = paired_test(a, b)
        paired += test is not None and test.p_value < alpha
    return called / studies, paired / studies


def main(studies: int = 4000) -> None:
    """Print every simulation."""
    print(f"95 % intervals of the difference, {studies} simulated studies each")
    for scenario in SCENARIOS:
        found = coverage(scenario, studies)
        print(
            f"  {scenario.name:52} clustered {found.clustered:.1%}  naive {found.naive:.1%}"
            f"  undefined {found.undefined:.1%}"
        )
    few, bootstrap = coverage(FEW, studies), bootstrap_coverage(FEW, studies)
    print(
        f"  {FEW.name:52} clustered {few.clustered:.1%}  naive {few.naive:.1%}"
        f"  studentised cluster bootstrap {bootstrap:.1%}"
    )
    print("false calls of two equal variants, alpha 5 %")
    for n in (10, 30, 100, 300):
        rates = [call_rate(n, rate, rate, studies * 5) for rate in (0.1, 0.5, 0.9)]
        print(f"  {n:4} runs each: " + "  ".join(f"{rate:.2%}" for rate in rates))
    null = Scenario("", 10, 30, 1.5, 0.0, 1.5)
    called, paired = task_call_rates(null, studies)
    print(
        "equal over all tasks, but different on each of the 10 tasks run 30 times:"
        f" called {called:.1%}, paired test {paired:.1%}"
    )
    print("power at the number of runs said to be needed, asked for 80 %")
    for rate_a, rate_b in ((0.5, 0.9), (0.53, 0.77), (0.7, 0.8), (0.02, 0.1), (0.9, 0.97)):
        needed = runs_needed(rate_a, rate_b)
        assert needed is not None
        power = call_rate(needed, rate_a, rate_b, studies * 2)
        print(f"  {rate_a:.2f} against {rate_b:.2f}: {needed} runs each, power {power:.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
