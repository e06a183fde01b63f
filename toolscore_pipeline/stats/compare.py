"""Variants side by side: rates with intervals, pass^k, cost, latency, and which differences hold.

Every run counts, also the errors and the unknowns: they are in each denominator, and only a
``pass`` is a success. Two variants are *distinguishable* when both have at least ``min_n`` runs,
Fisher's exact test gives p < alpha, and their 95% Wilson intervals do not overlap; the verdict
says which of the three failed. What looks at tasks (clustered interval, paired test, common tasks,
runs needed) stands beside that verdict and never replaces it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from toolscore_pipeline.errors import UsageError, unknown_name
from toolscore_pipeline.figures import percent
from toolscore_pipeline.stats.counting import Duplicates, TaskCounts, add_up
from toolscore_pipeline.stats.numbers import (
    fisher_exact,
    format_p,
    holm,
    odds_ratio,
    pass_hat_k,
    wilson_interval,
)
from toolscore_pipeline.stats.runs import Run
from toolscore_pipeline.stats.tasks import (
    ClusteredDifference,
    PairedTest,
    align_tasks,
    clustered_from,
    paired_from,
    runs_needed,
)

METHODS: dict[str, str] = {
    "interval": "Wilson score interval, 95%",
    "p_value": "Fisher's exact test, two-sided, over runs",
    "distinguishable": "both variants have min_n runs, p < alpha and the intervals do not overlap",
    "pass_hat_k": "mean over tasks with at least k runs of C(passes, k) / C(runs, k)",
    "clustered": "difference of pass rates over runs, CR2 standard error clustered by task, "
    "Student t with Bell-McCaffrey degrees of freedom, 95%",
    "paired": "over tasks both variants ran: exact McNemar for one run each, else a two-sided "
    "sign-flip permutation test of the mean difference of task pass rates",
    "p_holm": "Holm's adjustment over the pairs of this comparison",
    "runs_needed": "runs per variant for 80% power to call the observed rates distinguishable, "
    "as if runs were independent",
}
"""The estimator behind each number of a report."""

_MOVED_LISTED = 20
_FEW_DF = 4


@dataclass(slots=True)
class VariantStats:
    """The summary of one variant.

    Attributes:
        variant: the variant.
        n: its runs.
        counts: runs per outcome (``pass``, ``fail``, ``error``, ``unknown``).
        pass_rate: passes / n, 0 to 1; None with no runs.
        interval: the 95% Wilson interval of the pass rate.
        pass_hat_k: the mean pass^k over tasks with at least k runs; None when there is none.
        k: the k used.
        tasks: tasks seen.
        tasks_short: tasks with fewer than k runs, left out of pass^k.
        cost: mean cost in US dollars of the runs that have one; None when none has.
        cost_known: runs with a cost.
        latency: mean wall-clock seconds of the runs that have one; None when none has.
        latency_known: runs with a latency.
    """

    variant: str
    n: int
    counts: dict[str, int]
    pass_rate: float | None
    interval: tuple[float, float]
    pass_hat_k: float | None
    k: int
    tasks: int
    tasks_short: int
    cost: float | None
    cost_known: int
    latency: float | None
    latency_known: int

    def metric(self, name: str) -> float | None:
        """The value of one of ``OBJECTIVE_METRICS``; None when unknown.

        Raises:
            UsageError: a name that is none of them.
        """
        if name not in _METRICS:
            raise UsageError(unknown_name("metric", name, _METRICS))
        value: float | None = getattr(self, name)
        return value

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return {**asdict(self), "interval": list(self.interval)}


_METRICS = ("pass_rate", "pass_hat_k", "cost", "latency")


@dataclass(slots=True)
class TaskChange:
    """How one task's pass rate moved from variant a to variant b (shares, 0 to 1)."""

    task: str
    passes_a: int
    n_a: int
    passes_b: int
    n_b: int
    difference: float


@dataclass(slots=True)
class CommonTasks:
    """The same comparison over the tasks both variants ran, when their tasks differ.

    Attributes:
        tasks: how many tasks both ran.
        only_a, only_b: the tasks only one of them ran, by name.
        n_a, passes_a, n_b, passes_b: runs and passes on the common tasks.
        difference: pass rate of b minus that of a on them; None without a common task.
        p_value, overlap, distinguishable, verdict: as in :class:`PairComparison`.
    """

    tasks: int
    only_a: list[str]
    only_b: list[str]
    n_a: int
    passes_a: int
    n_b: int
    passes_b: int
    difference: float | None
    p_value: float
    overlap: bool
    distinguishable: bool
    verdict: str


@dataclass(slots=True)
class PairComparison:
    """Two variants side by side.

    Attributes:
        a: the first variant (the baseline, where there is one).
        b: the second variant.
        difference: pass_rate(b) - pass_rate(a), -1 to 1; None when either has no runs.
        p_value: two-sided Fisher exact p-value over runs.
        overlap: whether the 95% Wilson intervals overlap.
        distinguishable: whether both have min_n runs, p < alpha and the intervals do not overlap.
        verdict: a sentence for reports.
        odds_ratio: sample odds ratio of passing, b against a; None where undefined or infinite.
        p_holm: the p-value after Holm's adjustment over all pairs; None with a single pair.
        clustered: the difference with an interval that allows for runs of one task being alike;
            None when there are too few tasks or no variation to tell.
        paired: the test over tasks both variants ran; None without a common task.
        runs_needed: runs per variant to call the observed rates distinguishable with 80% power;
            None when the rates are equal or unknown.
        common: the comparison over common tasks; None when both ran the same tasks.
        improved, worsened, unchanged: common tasks whose pass rate rose, fell, stayed.
        moved: the tasks that moved most, largest first (at most 20;
            :meth:`Comparison.task_changes` has them all).
    """

    a: str
    b: str
    difference: float | None
    p_value: float
    overlap: bool
    distinguishable: bool
    verdict: str
    odds_ratio: float | None = None
    p_holm: float | None = None
    clustered: ClusteredDifference | None = None
    paired: PairedTest | None = None
    runs_needed: int | None = None
    common: CommonTasks | None = None
    improved: int | None = None
    worsened: int | None = None
    unchanged: int | None = None
    moved: list[TaskChange] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return asdict(self)


@dataclass(slots=True)
class Comparison:
    """The result of :func:`compare_runs`.

    Attributes:
        variants: per-variant statistics, in first-seen order.
        pairs: each variant against the baseline, or all pairs.
        k: the k of pass^k.
        min_n: runs needed per variant before a difference can be called.
        alpha: significance level.
        notes: what a reader must know before believing the numbers, as sentences.
        baseline: the variant the others are compared with; None when all pairs are.
        duplicates: runs recorded more than once, counted once.
        task_counts: the runs added up per variant and task.
    """

    variants: list[VariantStats]
    pairs: list[PairComparison]
    k: int
    min_n: int
    alpha: float
    notes: list[str] = field(default_factory=list)
    baseline: str | None = None
    duplicates: list[Duplicates] = field(default_factory=list)
    task_counts: list[TaskCounts] = field(default_factory=list)

    def by_name(self) -> dict[str, VariantStats]:
        """Statistics by variant name."""
        return {stats.variant: stats for stats in self.variants}

    def tasks_of(self, variant: str) -> dict[str, TaskCounts]:
        """The added-up runs of one variant by task, in first-seen order."""
        return {cell.task: cell for cell in self.task_counts if cell.variant == variant}

    def task_changes(self, a: str, b: str) -> list[TaskChange]:
        """How each task both variants ran moved from ``a`` to ``b``, largest change first."""
        return task_changes(self.tasks_of(a), self.tasks_of(b))

    def pass_hat_curve(self, variant: str, k_max: int = 10) -> list[float | None]:
        """The mean pass^k of a variant for k from 1 to ``k_max``; None where no task has k runs."""
        cells = list(self.tasks_of(variant).values())
        return [mean_pass_hat(cells, k)[0] for k in range(1, k_max + 1)]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return {
            "k": self.k,
            "min_n": self.min_n,
            "alpha": self.alpha,
            "baseline": self.baseline,
            "variants": [stats.to_dict() for stats in self.variants],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "tasks": [_task_record(cell, self.k) for cell in self.task_counts],
            "duplicates": [asdict(duplicates) for duplicates in self.duplicates],
            "methods": dict(METHODS),
            "notes": list(self.notes),
        }


def compare_runs(
    runs: list[Run],
    k: int = 1,
    baseline: str | None = None,
    min_n: int = 10,
    alpha: float = 0.05,
) -> Comparison:
    """Compare variants over repeated runs.

    A run recorded twice (same variant, task and repetition; without repetitions, the same run
    identifier) counts once, as first recorded, and is reported.

    Args:
        runs: every run, of every variant.
        k: the k of pass^k, at least 1.
        baseline: compare every variant with this one; None compares all pairs.
        min_n: runs per variant needed before a difference can be called.
        alpha: significance level of the Fisher test, between 0 and 1.

    Raises:
        UsageError: a baseline that is none of the variants, an outcome that is none of
            ``OUTCOMES``, a cost or latency that is no finite number of at least 0, or a k,
            min_n or alpha out of range.
    """
    cells, duplicates = add_up(runs)
    comparison = compare_counts(cells, k, baseline, min_n, alpha, duplicates)
    doubts = [run.doubt for run in runs if run.doubt]
    if doubts:
        comparison.notes.insert(
            0, f"{len(doubts)} record(s) are in doubt about their outcome, the first: {doubts[0]}."
        )
    return comparison


def compare_counts(
    cells: Sequence[TaskCounts],
    k: int = 1,
    baseline: str | None = None,
    min_n: int = 10,
    alpha: float = 0.05,
    duplicates: list[Duplicates] | None = None,
    expected: Iterable[str] = (),
) -> Comparison:
    """Compare variants from runs already added up per variant and task; see :func:`compare_runs`.

    ``cells`` holds each (variant, task) once. Variants come out in the order they first appear in,
    after those ``expected``, which are there even without a run.
    """
    _check_settings(k, min_n, alpha)
    by_variant: dict[str, dict[str, TaskCounts]] = {name: {} for name in expected}
    for cell in cells:
        by_variant.setdefault(cell.variant, {})[cell.task] = cell
    if baseline is not None and baseline not in by_variant:
        raise UsageError(unknown_name("baseline variant", baseline, by_variant))
    variants = [_variant_stats(name, list(own.values()), k) for name, own in by_variant.items()]
    stats = {one.variant: one for one in variants}
    if baseline is None:
        names = list(combinations(by_variant, 2))
    else:
        names = [(baseline, name) for name in by_variant if name != baseline]
    pairs = [
        _pair(stats[a], stats[b], by_variant[a], by_variant[b], min_n, alpha) for a, b in names
    ]
    _adjust(pairs)
    return Comparison(
        variants=variants,
        pairs=pairs,
        k=k,
        min_n=min_n,
        alpha=alpha,
        notes=_notes(variants, by_variant, pairs, duplicates or [], k, min_n),
        baseline=baseline,
        duplicates=duplicates or [],
        task_counts=list(cells),
    )


def mean_pass_hat(cells: Iterable[TaskCounts], k: int) -> tuple[float | None, int]:
    """The mean pass^k over tasks with at least ``k`` runs (None without one), and how many lack."""
    values: list[float] = []
    short = 0
    for cell in cells:
        value = pass_hat_k(cell.passes, cell.n, k)
        if value is None:
            short += 1
        else:
            values.append(value)
    return (math.fsum(values) / len(values) if values else None), short


def _check_settings(k: int, min_n: int, alpha: float) -> None:
    if k < 1:
        raise UsageError(f"the k of pass^k must be at least 1, not {k}")
    if min_n < 0:
        raise UsageError(f"min_n cannot be negative, but is {min_n}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, not at {alpha}")


def _variant_stats(name: str, cells: list[TaskCounts], k: int) -> VariantStats:
    counts = {
        "pass": sum(cell.passes for cell in cells),
        "fail": sum(cell.fails for cell in cells),
        "error": sum(cell.errors for cell in cells),
        "unknown": sum(cell.unknowns for cell in cells),
    }
    n = sum(counts.values())
    mean_k, short = mean_pass_hat(cells, k)
    cost_known = sum(cell.cost_known for cell in cells)
    latency_known = sum(cell.latency_known for cell in cells)
    return VariantStats(
        variant=name,
        n=n,
        counts=counts,
        pass_rate=counts["pass"] / n if n else None,
        interval=wilson_interval(counts["pass"], n),
        pass_hat_k=mean_k,
        k=k,
        tasks=len(cells),
        tasks_short=short,
        cost=math.fsum(cell.cost_sum for cell in cells) / cost_known if cost_known else None,
        cost_known=cost_known,
        latency=(
            math.fsum(cell.latency_sum for cell in cells) / latency_known if latency_known else None
        ),
        latency_known=latency_known,
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """The seeds' verdict on one difference."""

    difference: float | None
    p_value: float
    overlap: bool
    distinguishable: bool
    verdict: str


def call_difference(
    a: str, b: str, passes_a: int, n_a: int, passes_b: int, n_b: int, min_n: int, alpha: float
) -> _Call:
    """Whether two pass rates are distinguishable, and the sentence that says why (not)."""
    low_a, high_a = wilson_interval(passes_a, n_a)
    low_b, high_b = wilson_interval(passes_b, n_b)
    overlap = low_a <= high_b and low_b <= high_a
    p_value = fisher_exact(passes_a, n_a - passes_a, passes_b, n_b - passes_b)
    short = [f"{name} has {n}" for name, n in ((a, n_a), (b, n_b)) if n < min_n]
    difference = passes_b / n_b - passes_a / n_a if n_a and n_b else None
    p_text = f"Fisher p = {format_p(p_value)}" if p_value else "Fisher p < 1e-300"
    failed = []
    if short:
        failed.append(f"fewer than {min_n} runs ({', '.join(short)})")
    if p_value >= alpha:
        failed.append(f"{p_text} is not below {alpha:g}")
    if overlap:
        failed.append("the 95% intervals overlap")
    if failed or difference is None:
        reasons = "; ".join(failed) or "a variant has no runs"
        return _Call(
            difference, p_value, overlap, False, f"{a} and {b} are not distinguishable: {reasons}."
        )
    better, worse = (b, a) if difference > 0 else (a, b)
    rates = sorted((passes_a / n_a, passes_b / n_b), reverse=True)
    verdict = (
        f"{better} passes more often than {worse} "
        f"({percent(rates[0])} against {percent(rates[1])}; {p_text}, "
        "the 95% intervals do not overlap)."
    )
    return _Call(difference, p_value, overlap, True, verdict)


def _pair(
    a: VariantStats,
    b: VariantStats,
    tasks_a: dict[str, TaskCounts],
    tasks_b: dict[str, TaskCounts],
    min_n: int,
    alpha: float,
) -> PairComparison:
    passes_a, passes_b = a.counts["pass"], b.counts["pass"]
    call = call_difference(a.variant, b.variant, passes_a, a.n, passes_b, b.n, min_n, alpha)
    aligned = align_tasks(tasks_a, tasks_b)
    common = (aligned.n_a > 0) & (aligned.n_b > 0)
    # In whole numbers, so that equal rates of unequal counts are equal.
    moves = (aligned.passes_b * aligned.n_a - aligned.passes_a * aligned.n_b)[common]
    improved, worsened = int((moves > 0).sum()), int((moves < 0).sum())
    rates_known = a.pass_rate is not None and b.pass_rate is not None
    return PairComparison(
        a=a.variant,
        b=b.variant,
        difference=call.difference,
        p_value=call.p_value,
        overlap=call.overlap,
        distinguishable=call.distinguishable,
        verdict=call.verdict,
        odds_ratio=odds_ratio(passes_b, b.n - passes_b, passes_a, a.n - passes_a),
        clustered=clustered_from(aligned),
        paired=paired_from(aligned),
        runs_needed=(runs_needed(passes_a / a.n, passes_b / b.n, alpha) if rates_known else None),
        common=_common_tasks(a.variant, b.variant, tasks_a, tasks_b, min_n, alpha),
        improved=improved,
        worsened=worsened,
        unchanged=int(common.sum()) - improved - worsened,
        moved=_most_moved(tasks_a, tasks_b),
    )


def task_changes(a: dict[str, TaskCounts], b: dict[str, TaskCounts]) -> list[TaskChange]:
    """How each task both variants ran moved from ``a`` to ``b``: largest change first."""
    return [_change(a[task], b[task]) for _, task in sorted(_moves(a, b))]


def _most_moved(a: dict[str, TaskCounts], b: dict[str, TaskCounts]) -> list[TaskChange]:
    most = heapq.nsmallest(_MOVED_LISTED, _moves(a, b))
    return [_change(a[task], b[task]) for size, task in most if size]


def _moves(a: dict[str, TaskCounts], b: dict[str, TaskCounts]) -> list[tuple[float, str]]:
    """Minus the size of the change, and the task, of each task both variants ran."""
    return [(-abs(b[task].rate - cell.rate), task) for task, cell in a.items() if task in b]


def _change(old: TaskCounts, new: TaskCounts) -> TaskChange:
    return TaskChange(old.task, old.passes, old.n, new.passes, new.n, new.rate - old.rate)


def _common_tasks(
    a: str,
    b: str,
    tasks_a: dict[str, TaskCounts],
    tasks_b: dict[str, TaskCounts],
    min_n: int,
    alpha: float,
) -> CommonTasks | None:
    common = [task for task in tasks_a if task in tasks_b]
    if len(common) == len(tasks_a) == len(tasks_b):
        return None
    n_a, n_b = sum(tasks_a[task].n for task in common), sum(tasks_b[task].n for task in common)
    passes_a = sum(tasks_a[task].passes for task in common)
    passes_b = sum(tasks_b[task].passes for task in common)
    call = call_difference(a, b, passes_a, n_a, passes_b, n_b, min_n, alpha)
    return CommonTasks(
        tasks=len(common),
        only_a=sorted(tasks_a.keys() - tasks_b.keys()),
        only_b=sorted(tasks_b.keys() - tasks_a.keys()),
        n_a=n_a,
        passes_a=passes_a,
        n_b=n_b,
        passes_b=passes_b,
        difference=call.difference,
        p_value=call.p_value,
        overlap=call.overlap,
        distinguishable=call.distinguishable,
        verdict=call.verdict,
    )


def _adjust(pairs: list[PairComparison]) -> None:
    """Add Holm's adjustment where more than one pair is compared."""
    if len(pairs) < 2:
        return
    for pair, adjusted in zip(pairs, holm([pair.p_value for pair in pairs]), strict=True):
        pair.p_holm = adjusted
    tests = [pair.paired for pair in pairs if pair.paired is not None]
    if len(tests) > 1:
        for test, adjusted in zip(tests, holm([test.p_value for test in tests]), strict=True):
            test.p_holm = adjusted


def _notes(
    variants: list[VariantStats],
    by_variant: dict[str, dict[str, TaskCounts]],
    pairs: list[PairComparison],
    duplicates: list[Duplicates],
    k: int,
    min_n: int,
) -> list[str]:
    notes = []
    if duplicates:
        extra = sum(record.extra for record in duplicates)
        conflicting = sum(record.conflicting for record in duplicates)
        first = duplicates[0]
        notes.append(
            f"{extra} duplicate record(s) of {len(duplicates)} run(s) were not counted, "
            f"{conflicting} of them with another outcome than the one counted (first: "
            f"{first.task} under {first.variant}, {first.identity})."
        )
    for stats in variants:
        if stats.n < min_n:
            notes.append(
                f"{stats.variant} has {stats.n} run(s), fewer than {min_n}: "
                "no difference from it can be called."
            )
    notes += _task_notes(by_variant)
    for stats in variants:
        if stats.tasks_short:
            notes.append(
                f"{stats.variant}: {stats.tasks_short} of {stats.tasks} task(s) have fewer than "
                f"{k} run(s) and are left out of pass^{k}."
            )
        for name, known in (("cost", stats.cost_known), ("latency", stats.latency_known)):
            if known < stats.n:
                notes.append(
                    f"{stats.variant}: {name} is known for {known} of {stats.n} runs; "
                    + ("the mean is over these." if known else "there is no mean.")
                )
        lost = stats.counts["error"] + stats.counts["unknown"]
        if lost:
            notes.append(
                f"{stats.variant}: {stats.counts['error']} error(s) and "
                f"{stats.counts['unknown']} unknown(s) count as runs that did not pass."
            )
    few = [pair for pair in pairs if pair.clustered and pair.clustered.df < _FEW_DF]
    if few:
        notes.append(
            f"The clustered intervals of {len(few)} pair(s) rest on fewer than {_FEW_DF} degrees "
            "of freedom: take them as a sign, not a measure."
        )
    if len(pairs) > 1:
        notes.append(
            f"{len(pairs)} pairs were compared: judge them by the Holm-adjusted p-values, for some "
            "unadjusted ones fall below alpha by chance."
        )
    return notes


def _task_notes(by_variant: dict[str, dict[str, TaskCounts]]) -> list[str]:
    everything = set().union(*by_variant.values()) if by_variant else set()
    shared = everything.intersection(*by_variant.values()) if by_variant else set()
    notes = []
    if everything != shared:
        notes.append(
            f"The variants ran different tasks: {len(shared)} of {len(everything)} tasks were run "
            "by all; the pairs also carry a comparison over the tasks both ran."
        )
    uneven = [task for task in shared if len({own[task].n for own in by_variant.values()}) > 1]
    if uneven:
        notes.append(
            f"{len(uneven)} task(s) were run unequally often by the variants (such as "
            f"{min(uneven)}): a rate over runs weighs them differently."
        )
    return notes


def _task_record(cell: TaskCounts, k: int) -> dict[str, Any]:
    low, high = wilson_interval(cell.passes, cell.n)
    return {
        "variant": cell.variant,
        "task": cell.task,
        "n": cell.n,
        "counts": {
            "pass": cell.passes,
            "fail": cell.fails,
            "error": cell.errors,
            "unknown": cell.unknowns,
        },
        "pass_rate": cell.rate if cell.n else None,
        "interval": [low, high],
        "pass_hat_k": pass_hat_k(cell.passes, cell.n, k),
        "cost": cell.cost_sum / cell.cost_known if cell.cost_known else None,
        "latency": cell.latency_sum / cell.latency_known if cell.latency_known else None,
    }
