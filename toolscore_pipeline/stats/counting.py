"""Runs added up per variant and task: all that a comparison needs to know of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from toolscore_pipeline.errors import UsageError, unknown_name
from toolscore_pipeline.stats.runs import OUTCOMES, Run


@dataclass(slots=True)
class TaskCounts:
    """The runs of one task under one variant, added up.

    Attributes:
        variant, task: which runs these are.
        passes, fails, errors, unknowns: runs per outcome.
        cost_sum, latency_sum: totals over the runs that have a value (US dollars, seconds).
        cost_known, latency_known: how many runs have one.
    """

    variant: str
    task: str
    passes: int = 0
    fails: int = 0
    errors: int = 0
    unknowns: int = 0
    cost_sum: float = 0.0
    cost_known: int = 0
    latency_sum: float = 0.0
    latency_known: int = 0

    @property
    def n(self) -> int:
        """All runs, whatever their outcome."""
        return self.passes + self.fails + self.errors + self.unknowns

    @property
    def rate(self) -> float:
        """Passes over all runs, 0 to 1; 0 without runs."""
        return self.passes / self.n if self.n else 0.0


@dataclass(slots=True)
class Duplicates:
    """A run recorded more than once; it counts once, as first recorded.

    Attributes:
        variant, task: which run this is.
        identity: the repetition or the run identifier that was recorded again.
        extra: how many further records were left out.
        conflicting: how many of these have another outcome than the one counted.
    """

    variant: str
    task: str
    identity: str
    extra: int = 0
    conflicting: int = 0


def add_up(runs: Iterable[Run]) -> tuple[list[TaskCounts], list[Duplicates]]:
    """Add runs up per variant and task, in first-seen order, counting each recorded run once.

    Raises:
        UsageError: an outcome that is none of ``OUTCOMES``, or a cost or latency that is no finite
            number of at least 0.
    """
    outcomes: dict[tuple[str, str], dict[str, int]] = {}
    costs: dict[tuple[str, str], list[float]] = {}
    latencies: dict[tuple[str, str], list[float]] = {}
    counted: dict[tuple[str | int, ...], str] = {}
    duplicates: dict[tuple[str | int, ...], Duplicates] = {}
    for run in runs:
        identity = run.identity
        if identity is not None:
            first = counted.get(identity)
            if first is not None:
                record = duplicates.setdefault(
                    identity, Duplicates(run.variant, run.task, str(identity[-1]))
                )
                record.extra += 1
                record.conflicting += first != run.outcome
                continue
            counted[identity] = run.outcome
        key = (run.variant, run.task)
        counts = outcomes.get(key)
        if counts is None:
            counts = outcomes[key] = dict.fromkeys(OUTCOMES, 0)
            costs[key], latencies[key] = [], []
        try:
            counts[run.outcome] += 1
        except KeyError:
            raise UsageError(unknown_name("outcome", run.outcome, OUTCOMES)) from None
        if run.cost is not None:
            if not 0 <= run.cost < math.inf:
                raise _no_amount("cost", run.cost, run)
            costs[key].append(run.cost)
        if run.latency is not None:
            if not 0 <= run.latency < math.inf:
                raise _no_amount("latency", run.latency, run)
            latencies[key].append(run.latency)
    cells = [
        TaskCounts(
            variant=key[0],
            task=key[1],
            passes=counts["pass"],
            fails=counts["fail"],
            errors=counts["error"],
            unknowns=counts["unknown"],
            cost_sum=math.fsum(costs[key]),
            cost_known=len(costs[key]),
            latency_sum=math.fsum(latencies[key]),
            latency_known=len(latencies[key]),
        )
        for key, counts in outcomes.items()
    ]
    return cells, list(duplicates.values())


def _no_amount(name: str, value: float, run: Run) -> UsageError:
    return UsageError(
        f"the {name} of a run of {run.task!r} under {run.variant!r} must be a finite number of "
        f"at least 0, or None when it is unknown, not {value!r}"
    )
