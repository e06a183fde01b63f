"""Which variant to take, under objectives stated beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolscore_pipeline.errors import UsageError, unknown_name
from toolscore_pipeline.stats.compare import Comparison, VariantStats

OBJECTIVE_METRICS: dict[str, bool] = {
    "pass_rate": True,
    "pass_hat_k": True,
    "cost": False,
    "latency": False,
}
"""The metrics a choice can rest on, and whether more of it is better."""

POLICIES: tuple[str, ...] = ("lexicographic", "weighted", "pareto")


@dataclass(frozen=True, slots=True)
class Objective:
    """One thing to look at when choosing.

    Attributes:
        metric: one of ``OBJECTIVE_METRICS``.
        weight: its weight under the weighted policy, at least 0; the other policies ignore it.

    Raises:
        UsageError: an unknown metric, or a weight that is negative or not finite.
    """

    metric: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.metric not in OBJECTIVE_METRICS:
            raise UsageError(unknown_name("metric", self.metric, OBJECTIVE_METRICS))
        if not math.isfinite(self.weight) or self.weight < 0:
            raise UsageError(
                f"the weight of {self.metric} must be a number of at least 0, not {self.weight}"
            )

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the metric is better."""
        return OBJECTIVE_METRICS[self.metric]

    def utility(self, stats: VariantStats) -> float:
        """The metric's value turned so that more is better; minus infinity when unknown."""
        value = stats.metric(self.metric)
        if value is None:
            return -math.inf
        return value if self.higher_is_better else -value


def parse_objective(text: str) -> Objective:
    """An objective written ``NAME`` or ``NAME=WEIGHT``.

    Raises:
        UsageError: an unknown metric, or a weight that is no number of at least 0.
    """
    name, has_weight, weight = text.partition("=")
    if not has_weight:
        return Objective(name)
    try:
        number = float(weight)
    except ValueError:
        raise UsageError(f"the weight in {text!r} is no number") from None
    return Objective(name, number)


@dataclass(slots=True)
class Selection:
    """The result of :func:`select_variant`.

    Attributes:
        chosen: the selected variant; None when there are no variants.
        policy: ``lexicographic``, ``weighted`` or ``pareto``.
        objectives: the objectives used.
        ranking: variants best first, under the policy.
        pareto_front: the variants no other dominates.
        scores: weighted scores (weighted policy only).
        unknown: per variant that has any, the objectives whose value is unknown.
        reason: why the chosen variant won.
    """

    chosen: str | None
    policy: str
    objectives: list[Objective]
    ranking: list[str]
    pareto_front: list[str]
    scores: dict[str, float]
    unknown: dict[str, list[str]]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return asdict(self)


def select_variant(
    comparison: Comparison,
    policy: str = "lexicographic",
    objectives: Sequence[Objective | str] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Selection:
    """Pick a variant.

    - ``lexicographic``: best on the first objective, ties broken by the next.
    - ``weighted``: each objective's values are scaled to [0, 1] across the variants (1 is best,
      unknown is 0; where all known values are equal each is 1), and the weighted sum is highest.
    - ``pareto``: the Pareto front; when it has several variants, the first objective breaks the
      tie, then the next.

    Ties left at the end go to the variant seen first. An unknown value counts as the worst.

    Args:
        comparison: the variants and their statistics.
        policy: one of the three above.
        objectives: metrics or :class:`Objective` in order of importance; by default pass_rate,
            pass_hat_k, cost, latency.
        weights: weights by metric, in place of the objectives' own.

    Raises:
        UsageError: an unknown policy or metric, no objective, one given twice, or weights for
            metrics that are no objectives, or all 0.
    """
    if policy not in POLICIES:
        raise UsageError(unknown_name("policy", policy, POLICIES))
    goals = _objectives(objectives, weights)
    variants = comparison.variants
    names = [stats.variant for stats in variants]
    front = pareto_front(variants, goals)
    utilities = {stats.variant: tuple(goal.utility(stats) for goal in goals) for stats in variants}
    unknown = {
        stats.variant: missing
        for stats in variants
        if (missing := [goal.metric for goal in goals if stats.metric(goal.metric) is None])
    }
    scores: dict[str, float] = {}
    # sorted() is stable, also in reverse: what ties stays in first-seen order.
    by_order = sorted(names, key=utilities.__getitem__, reverse=True)
    if policy == "weighted":
        scores = _weighted_scores(variants, goals)
        ranking = sorted(names, key=lambda name: _rounded(scores[name]), reverse=True)
    elif policy == "pareto":
        ranking = sorted(by_order, key=lambda name: name in front, reverse=True)
    else:
        ranking = by_order
    chosen = ranking[0] if ranking else None
    return Selection(
        chosen=chosen,
        policy=policy,
        objectives=goals,
        ranking=ranking,
        pareto_front=front,
        scores=scores,
        unknown=unknown,
        reason=_reason(policy, goals, ranking, front, scores, utilities, comparison),
    )


def pareto_front(
    variants: Sequence[VariantStats], objectives: Sequence[Objective | str]
) -> list[str]:
    """The variants no other dominates, in their order.

    One dominates another when it is at least as good on every objective and better on one.
    Unknown values count as the worst.

    Raises:
        UsageError: an unknown metric, or no objective.
    """
    goals = _objectives(objectives, None)
    points = {stats.variant: [goal.utility(stats) for goal in goals] for stats in variants}
    return [
        name
        for name, own in points.items()
        if not any(
            all(x >= y for x, y in zip(other, own, strict=True)) and other != own
            for other in points.values()
        )
    ]


def _objectives(
    objectives: Sequence[Objective | str] | None, weights: Mapping[str, float] | None
) -> list[Objective]:
    given = list(OBJECTIVE_METRICS) if objectives is None else list(objectives)
    goals = [goal if isinstance(goal, Objective) else Objective(goal) for goal in given]
    metrics = [goal.metric for goal in goals]
    if not goals:
        raise UsageError("a choice needs at least one objective")
    for metric in metrics:
        if metrics.count(metric) > 1:
            raise UsageError(f"the objective {metric!r} is given twice")
    if weights is not None:
        for metric in weights:
            if metric not in metrics:
                raise UsageError(unknown_name("objective to weigh", metric, metrics))
        goals = [Objective(goal.metric, weights.get(goal.metric, goal.weight)) for goal in goals]
    if all(goal.weight == 0 for goal in goals):
        raise UsageError("at least one objective needs a weight above 0")
    return goals


def _weighted_scores(
    variants: Sequence[VariantStats], goals: Sequence[Objective]
) -> dict[str, float]:
    scores = {stats.variant: 0.0 for stats in variants}
    for goal in goals:
        utilities = {stats.variant: goal.utility(stats) for stats in variants}
        known = [utility for utility in utilities.values() if utility > -math.inf]
        if not known:
            continue
        worst, best = min(known), max(known)
        for name, utility in utilities.items():
            if utility == -math.inf:
                continue
            scaled = (utility - worst) / (best - worst) if best > worst else 1.0
            scores[name] += goal.weight * scaled
    return scores


def _rounded(score: float) -> float:
    """A score without the rounding errors of its sum, so that equal sums tie."""
    return round(score, 12)


def _reason(
    policy: str,
    goals: Sequence[Objective],
    ranking: Sequence[str],
    front: Sequence[str],
    scores: Mapping[str, float],
    utilities: Mapping[str, tuple[float, ...]],
    comparison: Comparison,
) -> str:
    if not ranking:
        return "There are no variants."
    chosen = ranking[0]
    if len(ranking) == 1:
        return f"{chosen} is the only variant."
    second = ranking[1]
    if policy == "weighted":
        tie = " (a tie, decided by order)" if _same(scores[chosen], scores[second]) else ""
        return (
            f"{chosen} has the highest weighted score, {scores[chosen]:.3f} against "
            f"{scores[second]:.3f} for {second}{tie}."
        )
    if policy == "pareto" and len(front) == 1:
        return f"No other variant is as good as {chosen} on every objective: it dominates the rest."
    prefix = ""
    if policy == "pareto":
        prefix = f"{len(front)} variants are on the Pareto front; among them "
    for place, goal in enumerate(goals):
        if utilities[chosen][place] != utilities[second][place]:
            stats = comparison.by_name()
            tied = f" after a tie on {', '.join(g.metric for g in goals[:place])}" if place else ""
            return (
                f"{prefix}{chosen} is best on {goal.metric}{tied}: "
                f"{_shown(stats[chosen].metric(goal.metric))} against "
                f"{_shown(stats[second].metric(goal.metric))} for {second}."
            )
    return f"{prefix}{chosen} and {second} tie on every objective; {chosen} was seen first."


def _same(a: float, b: float) -> bool:
    return _rounded(a) == _rounded(b)


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
