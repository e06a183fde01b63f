"""Statistics, selection and protocols: is one variant better than another, and by which rule.

``load_runs`` or ``runs_from_traces`` give runs, ``compare_runs`` a :class:`Comparison`,
``select_variant`` a choice under stated objectives, and ``evaluate_protocol`` a decision by rules
declared before the runs. What each number means is told in ``docs/statistics.md``.
"""

from __future__ import annotations

from toolscore_pipeline.stats.compare import (
    METHODS,
    CommonTasks,
    Comparison,
    PairComparison,
    TaskChange,
    VariantStats,
    compare_counts,
    compare_runs,
)
from toolscore_pipeline.stats.counting import Duplicates, TaskCounts, add_up
from toolscore_pipeline.stats.numbers import (
    fisher_exact,
    format_p,
    holm,
    odds_ratio,
    pass_hat_k,
    wilson_interval,
)
from toolscore_pipeline.stats.protocol import (
    ProtocolResult,
    RuleOutcome,
    evaluate_protocol,
    load_protocol,
    protocol_problems,
)
from toolscore_pipeline.stats.runs import (
    OUTCOMES,
    Run,
    load_runs,
    run_from_row,
    runs_from_traces,
)
from toolscore_pipeline.stats.select import (
    OBJECTIVE_METRICS,
    POLICIES,
    Objective,
    Selection,
    pareto_front,
    select_variant,
)
from toolscore_pipeline.stats.tasks import (
    ClusteredDifference,
    PairedTest,
    clustered_difference,
    paired_test,
    runs_needed,
)

__all__ = [
    "METHODS",
    "OBJECTIVE_METRICS",
    "OUTCOMES",
    "POLICIES",
    "ClusteredDifference",
    "CommonTasks",
    "Comparison",
    "Duplicates",
    "Objective",
    "PairComparison",
    "PairedTest",
    "ProtocolResult",
    "RuleOutcome",
    "Run",
    "Selection",
    "TaskChange",
    "TaskCounts",
    "VariantStats",
    "add_up",
    "clustered_difference",
    "compare_counts",
    "compare_runs",
    "evaluate_protocol",
    "fisher_exact",
    "format_p",
    "holm",
    "load_protocol",
    "load_runs",
    "odds_ratio",
    "paired_test",
    "pareto_front",
    "pass_hat_k",
    "protocol_problems",
    "run_from_row",
    "runs_from_traces",
    "runs_needed",
    "select_variant",
    "wilson_interval",
]
