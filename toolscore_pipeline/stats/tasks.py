"""What can be said of a difference when runs of one task are alike.

Ten runs of one task are not ten independent looks at a variant: they pass or fail together. The
functions here treat the task as the unit. They take the added-up runs of two variants by task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolscore_pipeline.stats.counting import TaskCounts
from toolscore_pipeline.stats.numbers import Z_95, wilson_interval

SEED = 20260101
"""The seed of the sampled permutation test, so that a report comes out the same twice."""

RESAMPLES = 19_999
"""Sign flips drawn where counting all of them would be too many."""

POWER = 0.8
MAX_RUNS_NEEDED = 10_000_000
_EXACT_STEPS = 20_000_000
_EXACT_BINOMIAL = 2_000


@dataclass(slots=True)
class ClusteredDifference:
    """The difference of two pass rates with an interval that treats tasks as the unit.

    Attributes:
        difference: pass rate of b minus that of a, over all runs.
        low, high: the 95% interval, cut at -1 and 1.
        standard_error: the CR2 standard error, clustered by task.
        df: the Bell-McCaffrey degrees of freedom of the t quantile.
        clusters: the tasks, of either variant.
        design_effect: its variance over that of independent runs; None where that is 0. Above 1
            the runs say less than their number suggests, below 1 pairing by task helps.
        method: the estimator, in words.
    """

    difference: float
    low: float
    high: float
    standard_error: float
    df: float
    clusters: int
    design_effect: float | None
    method: str = "CR2 by task, Student t with Bell-McCaffrey degrees of freedom"


@dataclass(slots=True)
class PairedTest:
    """A test of two variants over the tasks both ran, each task weighing the same.

    Attributes:
        method: ``exact McNemar`` (one run per task and variant), ``exact permutation`` or
            ``sampled permutation`` of the signs of the task differences.
        tasks: tasks both ran.
        difference: the mean over these tasks of pass rate of b minus that of a.
        p_value: the two-sided p-value.
        p_holm: the p-value after Holm's adjustment over all pairs; None with a single pair.
        seed, resamples: of the sampled test; None for the exact ones.
    """

    method: str
    tasks: int
    difference: float
    p_value: float
    p_holm: float | None = None
    seed: int | None = None
    resamples: int | None = None


@dataclass(frozen=True, slots=True)
class AlignedTasks:
    """The added-up runs of two variants, side by side: one place per task of either.

    Attributes:
        tasks: the tasks' names.
        passes_a, n_a, passes_b, n_b: whole-number arrays; 0 runs where a variant did not run one.
    """

    tasks: list[str]
    passes_a: Any
    n_a: Any
    passes_b: Any
    n_b: Any


def align_tasks(a: Mapping[str, TaskCounts], b: Mapping[str, TaskCounts]) -> AlignedTasks:
    """Put the tasks of two variants side by side, those of ``a`` first."""
    import numpy as np

    tasks = list(dict.fromkeys([*a, *b]))
    none = TaskCounts("", "")
    cells_a = [a.get(task, none) for task in tasks]
    cells_b = [b.get(task, none) for task in tasks]
    return AlignedTasks(
        tasks,
        np.array([cell.passes for cell in cells_a], dtype=np.int64),
        np.array([cell.n for cell in cells_a], dtype=np.int64),
        np.array([cell.passes for cell in cells_b], dtype=np.int64),
        np.array([cell.n for cell in cells_b], dtype=np.int64),
    )


def clustered_difference(
    a: Mapping[str, TaskCounts], b: Mapping[str, TaskCounts]
) -> ClusteredDifference | None:
    """The difference of pass rates (b minus a) with a 95% interval clustered by task.

    Returns:
        None when a variant has fewer than two tasks, or nothing varies between tasks, so that no
        spread can be estimated.
    """
    return clustered_from(align_tasks(a, b))


def clustered_from(pair: AlignedTasks) -> ClusteredDifference | None:
    """:func:`clustered_difference` of tasks that are side by side already.

    A least-squares fit of the outcome on the variant has two group means; its CR2 variance and
    Bell-McCaffrey degrees of freedom then have the closed form computed here.
    """
    import numpy as np
    from scipy.special import stdtrit

    total_a, total_b = int(pair.n_a.sum()), int(pair.n_b.sum())
    # All runs of a variant in one task, or none at all: no spread to see.
    if not total_a or not total_b or pair.n_a.max() == total_a or pair.n_b.max() == total_b:
        return None
    rate_a, rate_b = int(pair.passes_a.sum()) / total_a, int(pair.passes_b.sum()) / total_b
    scale_a = -1 / (total_a * np.sqrt(1 - pair.n_a / total_a))
    scale_b = 1 / (total_b * np.sqrt(1 - pair.n_b / total_b))
    influence = scale_a * (pair.passes_a - rate_a * pair.n_a)
    influence += scale_b * (pair.passes_b - rate_b * pair.n_b)
    variance = float(influence @ influence)
    # The influences have the covariance D - R R' with D diagonal and one row of R per task; the
    # degrees of freedom need only its trace and that of its square.
    weight = scale_a**2 * pair.n_a + scale_b**2 * pair.n_b
    rows = np.column_stack(
        (scale_a * pair.n_a / math.sqrt(total_a), scale_b * pair.n_b / math.sqrt(total_b))
    )
    own = (rows**2).sum(axis=1)
    trace = float((weight - own).sum())
    trace_square = float(weight @ weight - 2 * (weight @ own) + ((rows.T @ rows) ** 2).sum())
    # Identical tasks leave a sum of rounding errors, not a spread.
    if variance <= 1e-24 or trace_square <= 0:
        return None
    df = trace * trace / trace_square
    error = math.sqrt(variance)
    half = float(stdtrit(df, 0.975)) * error
    difference = rate_b - rate_a
    naive = rate_a * (1 - rate_a) / total_a + rate_b * (1 - rate_b) / total_b
    return ClusteredDifference(
        difference=difference,
        low=max(-1.0, difference - half),
        high=min(1.0, difference + half),
        standard_error=error,
        df=df,
        clusters=len(pair.tasks),
        design_effect=variance / naive if naive > 0 else None,
    )


def paired_test(a: Mapping[str, TaskCounts], b: Mapping[str, TaskCounts]) -> PairedTest | None:
    """Test whether tasks both variants ran pass more often under one; None without such a task.

    With one run per task and variant this is the exact McNemar test. Otherwise the signs of the
    differences of task pass rates are flipped: under the hypothesis that the variants are alike,
    each task's difference is as likely as its opposite.
    """
    return paired_from(align_tasks(a, b))


def paired_from(pair: AlignedTasks) -> PairedTest | None:
    """:func:`paired_test` of tasks that are side by side already."""
    common = (pair.n_a > 0) & (pair.n_b > 0)
    tasks = int(common.sum())
    if not tasks:
        return None
    passes_a, n_a = pair.passes_a[common], pair.n_a[common]
    passes_b, n_b = pair.passes_b[common], pair.n_b[common]
    mean = math.fsum(passes_b / n_b - passes_a / n_a) / tasks
    if (n_a == 1).all() and (n_b == 1).all():
        from scipy.stats import binomtest

        gained, lost = int((passes_b > passes_a).sum()), int((passes_b < passes_a).sum())
        discordant = gained + lost
        p_value = float(binomtest(gained, discordant).pvalue) if discordant else 1.0
        return PairedTest("exact McNemar", tasks, mean, p_value)
    # Rates with a common denominator make the differences whole numbers: exact ties, exact sums.
    # Python's own, for a common denominator may be longer than any machine word.
    counts = [column.tolist() for column in (passes_a, n_a, passes_b, n_b)]
    denominator = math.lcm(*{*counts[1], *counts[3]})
    units = [
        y * (denominator // m) - x * (denominator // n) for x, n, y, m in zip(*counts, strict=True)
    ]
    sizes = [abs(unit) for unit in units if unit]
    if not sizes:
        return PairedTest("exact permutation", tasks, mean, 1.0)
    divisor = math.gcd(*sizes)
    sizes = [size // divisor for size in sizes]
    observed = abs(sum(units)) // divisor
    if sum(sizes) * len(sizes) <= _EXACT_STEPS:
        p_value = _exact_sign_flips(sizes, observed)
        return PairedTest("exact permutation", tasks, mean, p_value)
    p_value = _sampled_sign_flips(sizes, observed)
    return PairedTest("sampled permutation", tasks, mean, p_value, seed=SEED, resamples=RESAMPLES)


def _exact_sign_flips(sizes: list[int], observed: int) -> float:
    """P(|sum of the sizes with random signs| >= observed), by adding one size at a time."""
    import numpy as np

    total = sum(sizes)
    # chance[i] is the probability that the sizes with a plus sign sum to i.
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    reached = 0
    for size in sizes:
        chance[size : reached + size + 1] += chance[: reached + 1].copy()
        chance[: reached + size + 1] *= 0.5
        reached += size
    # The signed sum is 2 i - total.
    signed = np.abs(2 * np.arange(total + 1) - total)
    return min(1.0, float(chance[signed >= observed].sum()))


def _sampled_sign_flips(sizes: list[int], observed: int) -> float:
    import numpy as np

    # Divided by the largest, for whole numbers this long may be past any double.
    largest = max(sizes)
    shares = np.array([size / largest for size in sizes])
    sums = np.abs(_signs(len(sizes)) @ shares)
    at_least = int((sums >= observed / largest - 1e-12 * len(sizes)).sum())
    return (at_least + 1) / (RESAMPLES + 1)


@lru_cache(maxsize=2)
def _signs(count: int) -> Any:
    import numpy as np

    generator = np.random.default_rng(SEED)
    return generator.integers(0, 2, size=(RESAMPLES, count), dtype=np.int8) * 2.0 - 1.0


def runs_needed(rate_a: float, rate_b: float, alpha: float = 0.05) -> int | None:
    """Runs per variant with which the two rates would be called distinguishable 4 times in 5.

    The rates are taken as true and runs as independent. Both tests of *distinguishable* are asked:
    that the 95% Wilson intervals do not overlap (exact binomial power up to 2,000 runs, the
    normal approximation above), and that Fisher's p is below ``alpha`` (Casagrande, Pike and
    Smith's formula); the larger number is the answer.

    Returns:
        None for equal rates, and where more than 10 million runs would be needed.
    """
    if rate_a == rate_b:
        return None
    low, high = sorted((rate_a, rate_b))
    needed = max(_runs_for_intervals(low, high), _runs_for_fisher(low, high, alpha))
    return needed if needed <= MAX_RUNS_NEEDED else None


def _runs_for_fisher(low: float, high: float, alpha: float) -> int:
    from scipy.special import ndtri

    z_alpha, z_power = float(ndtri(1 - alpha / 2)), float(ndtri(POWER))
    gap, mean = high - low, (low + high) / 2
    spread = z_alpha * math.sqrt(2 * mean * (1 - mean)) + z_power * math.sqrt(
        low * (1 - low) + high * (1 - high)
    )
    plain = (spread / gap) ** 2
    return math.ceil(plain / 4 * (1 + math.sqrt(1 + 4 / (plain * gap))) ** 2)


@lru_cache(maxsize=4096)
def _runs_for_intervals(low: float, high: float) -> int:
    from scipy.special import ndtri

    deviations = math.sqrt(low * (1 - low)) + math.sqrt(high * (1 - high))
    variance = low * (1 - low) + high * (1 - high)
    estimate = ((Z_95 * deviations + float(ndtri(POWER)) * math.sqrt(variance)) / (high - low)) ** 2
    if estimate > _EXACT_BINOMIAL:
        return math.ceil(estimate) if estimate < 1e15 else MAX_RUNS_NEEDED + 1
    # The estimate is close: bracket the answer from there, then halve the bracket.
    below, above = 1, max(2, math.ceil(estimate * 1.1) + 2)
    while _interval_power(low, high, above) < POWER:
        below, above = above, above * 2
    likely = int(estimate * 0.9) - 2
    if below < likely < above and _interval_power(low, high, likely) < POWER:
        below = likely
    while above - below > 1:
        middle = (below + above) // 2
        if _interval_power(low, high, middle) < POWER:
            below = middle
        else:
            above = middle
    return above


def _interval_power(low: float, high: float, n: int) -> float:
    """The chance that ``n`` runs each of two variants with these rates give separate intervals."""
    import numpy as np
    from scipy.special import bdtrc
    from scipy.stats import binom

    lows, highs = _bounds(n)
    # Passes of the worse variant further than 9 deviations from its mean add nothing.
    reach = 9 * math.sqrt(n * low * (1 - low)) + 10
    first, last = max(0, int(n * low - reach)), min(n, int(n * low + reach))
    passes = np.arange(first, last + 1)
    # The fewest passes of the better variant whose interval starts above the other's end.
    fewest = np.searchsorted(lows, highs[passes], side="right")
    chance = np.where(fewest > n, 0.0, bdtrc(fewest - 1.0, n, high))
    return float((binom.pmf(passes, n, low) * chance).sum())


@lru_cache(maxsize=256)
def _bounds(n: int) -> tuple[Any, Any]:
    """The Wilson bounds of 0 to ``n`` passes in ``n`` runs."""
    import numpy as np

    bounds = np.array([wilson_interval(passes, n) for passes in range(n + 1)])
    return bounds[:, 0].copy(), bounds[:, 1].copy()
