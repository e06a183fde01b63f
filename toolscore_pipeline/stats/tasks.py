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
        low, high: the 95 % interval, cut at -1 and 1.
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


def clustered_difference(
    a: Mapping[str, TaskCounts], b: Mapping[str, TaskCounts]
) -> ClusteredDifference | None:
    """The difference of pass rates (b minus a) with a 95 % interval clustered by task.

    A least-squares fit of the outcome on the variant has two group means; its CR2 variance and
    Bell-McCaffrey degrees of freedom then have the closed form computed here.

    Returns:
        None when a variant has fewer than two tasks, or nothing varies between tasks, so that no
        spread can be estimated.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    sizes_a = {task: cell.n for task, cell in a.items()}
    sizes_b = {task: cell.n for task, cell in b.items()}
    n_a, n_b = sum(sizes_a.values()), sum(sizes_b.values())
    if not n_a or not n_b:
        return None
    rate_a = sum(cell.passes for cell in a.values()) / n_a
    rate_b = sum(cell.passes for cell in b.values()) / n_b
    variance = 0.0
    trace = trace_square = cross = 0.0
    aa = ab = bb = 0.0
    clusters = dict.fromkeys([*a, *b])
    for task in clusters:
        influence = weight = 0.0
        r_a = r_b = 0.0
        for cells, sizes, n, rate, sign in (
            (a, sizes_a, n_a, rate_a, -1.0),
            (b, sizes_b, n_b, rate_b, 1.0),
        ):
            size = sizes.get(task, 0)
            if not size:
                continue
            if size == n:  # all runs of the variant are of this task: no spread to see
                return None
            scale = sign / (n * math.sqrt(1 - size / n))
            influence += scale * (cells[task].passes - rate * size)
            weight += scale * scale * size
            r = scale * size / math.sqrt(n)
            r_a, r_b = (r, r_b) if sign < 0 else (r_a, r)
        variance += influence * influence
        # G = D - R R', one row of R per task: only its trace and that of its square are needed.
        own = r_a * r_a + r_b * r_b
        trace += weight - own
        trace_square += weight * weight
        cross += weight * own
        aa += r_a * r_a
        ab += r_a * r_b
        bb += r_b * r_b
    trace_square += aa * aa + 2 * ab * ab + bb * bb - 2 * cross
    # Identical tasks leave a sum of rounding errors, not a spread.
    if variance <= 1e-24 or trace_square <= 0:
        return None
    from scipy.special import stdtrit

    df = trace * trace / trace_square
    error = math.sqrt(variance)
    half = float(stdtrit(df, 0.975)) * error
    difference = rate_b - rate_a
    naive = rate_a * (1 - rate_a) / n_a + rate_b * (1 - rate_b) / n_b
    return ClusteredDifference(
        difference=difference,
        low=max(-1.0, difference - half),
        high=min(1.0, difference + half),
        standard_error=error,
        df=df,
        clusters=len(clusters),
        design_effect=variance / naive if naive > 0 else None,
    )


def paired_test(a: Mapping[str, TaskCounts], b: Mapping[str, TaskCounts]) -> PairedTest | None:
    """Test whether tasks both variants ran pass more often under one; None without such a task.

    With one run per task and variant this is the exact McNemar test. Otherwise the signs of the
    differences of task pass rates are flipped: under the hypothesis that the variants are alike,
    each task's difference is as likely as its opposite.
    """
    counts = [
        (a[task].passes, size, b[task].passes, other_size)
        for task in a
        if task in b and (size := a[task].n) and (other_size := b[task].n)
    ]
    if not counts:
        return None
    tasks = len(counts)
    differences = [passes_b / n_b - passes_a / n_a for passes_a, n_a, passes_b, n_b in counts]
    mean = math.fsum(differences) / tasks
    if all(n_a == 1 == n_b for _, n_a, _, n_b in counts):
        from scipy.stats import binomtest

        gained = sum(1 for difference in differences if difference > 0)
        lost = sum(1 for difference in differences if difference < 0)
        discordant = gained + lost
        p_value = float(binomtest(gained, discordant).pvalue) if discordant else 1.0
        return PairedTest("exact McNemar", tasks, mean, p_value)
    # Rates with a common denominator make the differences whole numbers: exact ties, exact sums.
    denominator = math.lcm(*{n for _, n_a, _, n_b in counts for n in (n_a, n_b)})
    units = [
        passes_b * (denominator // n_b) - passes_a * (denominator // n_a)
        for passes_a, n_a, passes_b, n_b in counts
    ]
    sizes = [abs(unit) for unit in units if unit]
    if not sizes:
        return PairedTest("exact permutation", tasks, mean, 1.0)
    divisor = math.gcd(*sizes)
    sizes = [size // divisor for size in sizes]
    observed = abs(sum(units)) // divisor
    if sum(sizes) * len(sizes) <= _EXACT_STEPS:
        return PairedTest("exact permutation", tasks, mean, _exact_sign_flips(sizes, observed))
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

    sums = _signs(len(sizes)) @ np.array(sizes, dtype=np.float64)
    scale = float(max(sizes)) * len(sizes) * 1e-12
    at_least = int((np.abs(sums) >= observed - scale).sum())
    return (at_least + 1) / (RESAMPLES + 1)


@lru_cache(maxsize=2)
def _signs(count: int) -> Any:
    import numpy as np

    generator = np.random.default_rng(SEED)
    return generator.integers(0, 2, size=(RESAMPLES, count), dtype=np.int8) * 2.0 - 1.0


def runs_needed(rate_a: float, rate_b: float, alpha: float = 0.05) -> int | None:
    """Runs per variant with which the two rates would be called distinguishable 4 times in 5.

    The rates are taken as true and runs as independent. Both tests of *distinguishable* are asked:
    that the 95 % Wilson intervals do not overlap (exact binomial power up to 2,000 runs, the
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

    bounds = [wilson_interval(passes, n) for passes in range(n + 1)]
    lows = np.array([bound[0] for bound in bounds])
    highs = np.array([bound[1] for bound in bounds])
    # The fewest passes of the better variant whose interval starts above the other's end.
    fewest = np.searchsorted(lows, highs, side="right")
    chance = np.where(fewest > n, 0.0, bdtrc(fewest - 1.0, n, high))
    return float((binom.pmf(np.arange(n + 1), n, low) * chance).sum())
