"""The single numbers a comparison is made of: intervals, tests and estimates of one table."""

from __future__ import annotations

import math

from toolscore_pipeline.errors import UsageError

Z_95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution: what a two-sided 95% interval uses."""

_EXACT_K = 256


def wilson_interval(successes: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """The Wilson score interval of a proportion.

    Args:
        successes: how many of the trials succeeded, from 0 to ``n``.
        n: the trials; 0 gives ``(0.0, 1.0)``, for nothing is known.
        z: the normal quantile (1.96 for 95%).

    Returns:
        ``(lower, upper)`` in [0, 1]; exactly 0 without a success, exactly 1 without a failure.

    Raises:
        UsageError: counts that are negative, more successes than trials, or a quantile that is no
            finite number of at least 0.
    """
    _check_counts(successes, n)
    if not 0 <= z < math.inf:
        raise UsageError(f"the quantile z must be a finite number of at least 0, not {z!r}")
    if n == 0:
        return 0.0, 1.0
    rate = successes / n
    shrink = 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # In exact arithmetic the ends are 0 and 1; in doubles they miss by a rounding error.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def fisher_exact(a: int, b: int, c: int, d: int) -> float:
    """The two-sided p-value of Fisher's exact test for the table ``[[a, b], [c, d]]``.

    Rows are variants, columns pass and not pass. The p-value sums the probabilities of every table
    with the same margins that is no more likely than the one observed. A table with an empty row
    or column can only be as it is: its p-value is 1.

    Returns:
        The p-value in [0, 1]; 0.0 where it is below the smallest double.

    Raises:
        UsageError: a negative count.
    """
    if min(a, b, c, d) < 0:
        raise UsageError(f"counts cannot be negative: {a}, {b}, {c}, {d}")
    if 0 in (a + b, c + d, a + c, b + d):
        return 1.0
    import numpy as np
    from scipy.stats import fisher_exact as scipy_fisher

    return min(1.0, float(scipy_fisher(np.array([[a, b], [c, d]])).pvalue))


def odds_ratio(a: int, b: int, c: int, d: int) -> float | None:
    """The sample odds ratio ``a d / (b c)`` of the table ``[[a, b], [c, d]]``.

    None where ``b`` or ``c`` is 0, for it is then infinite or undefined.
    """
    return (a * d) / (b * c) if b and c else None


def pass_hat_k(passes: int, n: int, k: int) -> float | None:
    """The unbiased estimate of the probability that ``k`` runs of one task all pass.

    ``C(passes, k) / C(n, k)``: of all ways to take k of the n runs, the share with passes only.

    Returns:
        A number in [0, 1], or None when ``n < k``: there are not enough runs to say.

    Raises:
        UsageError: counts that are negative, more passes than runs, or a ``k`` below 1.
    """
    _check_counts(passes, n)
    if k < 1:
        raise UsageError(f"the k of pass^k must be at least 1, not {k}")
    if n < k:
        return None
    if passes < k:
        return 0.0
    if k <= _EXACT_K:
        return math.comb(passes, k) / math.comb(n, k)  # exact integers, rounded once
    return math.exp(math.fsum(math.log((passes - i) / (n - i)) for i in range(k)))


def holm(p_values: list[float]) -> list[float]:
    """Holm's adjustment of p-values, in their order: each says what the family allows it to say.

    Calling every adjusted value below alpha keeps the chance of even one false call below alpha.
    """
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def format_p(p_value: float) -> str:
    """A p-value with two significant digits, as reports print it: ``0.10``, ``2.1e-6``."""
    if p_value <= 0:
        return "< 1e-300"
    text = f"{p_value:.1e}"
    mantissa, exponent = text.split("e")
    if int(exponent) < -3:
        return f"{mantissa}e{int(exponent)}"
    return f"{float(text):.{1 - int(exponent)}f}"


def _check_counts(successes: int, n: int) -> None:
    if n < 0 or successes < 0:
        raise UsageError(f"counts cannot be negative: {successes} of {n}")
    if successes > n:
        raise UsageError(f"{successes} of {n} is more successes than trials")
