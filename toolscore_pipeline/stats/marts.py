"""The comparisons of a warehouse: what SQL adds up, judged by the functions of this package.

The marts ``task_stats``, ``variant_stats`` and ``variant_pairs`` are SQL. :func:`decide` takes the
first of them and makes the rows of what SQL has no functions for: clustered intervals and paired
tests, selections, protocol decisions and the reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from toolscore_pipeline.hashing import canonical_json, json_sha256
from toolscore_pipeline.stats.compare import Comparison, compare_counts
from toolscore_pipeline.stats.counting import Duplicates, TaskCounts
from toolscore_pipeline.stats.protocol import ProtocolResult, evaluate_protocol
from toolscore_pipeline.stats.select import (
    Objective,
    Selection,
    parse_objective,
    select_variant,
)

_TEXT, _WHOLE, _REAL, _TRUTH = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_INSTANT = pa.timestamp("us", tz="UTC")

SCHEMAS: dict[str, pa.Schema] = {
    "pair_tests": pa.schema(
        [
            ("comparison", _TEXT),
            ("a", _TEXT),
            ("b", _TEXT),
            ("verdict", _TEXT),
            ("clustered_low", _REAL),
            ("clustered_high", _REAL),
            ("standard_error", _REAL),
            ("degrees_of_freedom", _REAL),
            ("cluster_count", _WHOLE),
            ("design_effect", _REAL),
            ("paired_method", _TEXT),
            ("paired_task_count", _WHOLE),
            ("paired_difference", _REAL),
            ("paired_p_value", _REAL),
            ("paired_p_holm", _REAL),
            ("seed", _WHOLE),
            ("resample_count", _WHOLE),
            ("runs_needed", _WHOLE),
        ]
    ),
    "selections": pa.schema(
        [
            ("comparison", _TEXT),
            ("policy", _TEXT),
            ("variant", _TEXT),
            ("rank", _WHOLE),
            ("is_chosen", _TRUTH),
            ("is_on_pareto_front", _TRUTH),
            ("score", _REAL),
            ("unknown_objectives", pa.list_(_TEXT)),
            ("objectives_json", _TEXT),
            ("reason", _TEXT),
        ]
    ),
    "protocol_declarations": pa.schema(
        [
            ("comparison", _TEXT),
            ("protocol_sha256", _TEXT),
            ("title", _TEXT),
            ("protocol_json", _TEXT),
            ("declared_at", _INSTANT),
        ]
    ),
    "protocol_decisions": pa.schema(
        [
            ("decision_id", _TEXT),
            ("comparison", _TEXT),
            ("protocol_sha256", _TEXT),
            ("title", _TEXT),
            ("baseline", _TEXT),
            ("candidate", _TEXT),
            ("decision", _TEXT),
            ("rule_statuses", pa.list_(_TEXT)),
            ("first_run_at", _INSTANT),
            ("declared_at", _INSTANT),
            ("is_declared_late", _TRUTH),
            ("is_changed_late", _TRUTH),
            ("decided_at", _INSTANT),
            ("is_current", _TRUTH),
        ]
    ),
    "protocol_rules": pa.schema(
        [
            ("decision_id", _TEXT),
            ("comparison", _TEXT),
            ("position", _WHOLE),
            ("rule_id", _TEXT),
            ("metric", _TEXT),
            ("status", _TEXT),
            ("baseline_value", _REAL),
            ("candidate_value", _REAL),
            ("detail", _TEXT),
        ]
    ),
    "comparison_reports": pa.schema(
        [("comparison", _TEXT), ("notes", pa.list_(_TEXT)), ("report_json", _TEXT)]
    ),
}
"""The columns of each table :func:`decide` makes; ``sql/marts`` has a model of the same name."""


@dataclass(slots=True)
class ProjectComparison:
    """One comparison of a project, with what was asked of it.

    Attributes:
        name: its name in the project file.
        comparison: the variants side by side.
        selection: the variant chosen; None when no policy was given.
        protocol: the decision; None when no protocol was given.
        protocol_as_declared: the protocol document; None likewise.
        first_run_at: when the first run under each variant began; without those not recorded.
    """

    name: str
    comparison: Comparison
    selection: Selection | None
    protocol: ProtocolResult | None
    protocol_as_declared: Mapping[str, Any] | None
    first_run_at: dict[str, datetime]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report: the comparison's, with name, selection and protocol."""
        return {
            "name": self.name,
            **self.comparison.to_dict(),
            "selection": self.selection.to_dict() if self.selection else None,
            "protocol": self.protocol.to_dict() if self.protocol else None,
        }


def read_comparisons(connection: duckdb.DuckDBPyConnection) -> list[ProjectComparison]:
    """The comparisons of a warehouse, from its settings and marts.

    Reads settings.comparisons, marts.task_stats and marts.outcomes. A baseline or protocol variant
    without runs is there with none, so that nothing can be called from it.
    """
    settings = _rows(connection.sql("select * from settings.comparisons"))
    stats = _rows(
        connection.sql("select * from marts.task_stats order by comparison, variant, task")
    )
    repeats = _rows(
        connection.sql(
            "select comparison, variant, task, configuration, repetition,"
            " count(*) - 1 as extra,"
            " count(*) - count(*) filter (where outcome = first_outcome) as conflicting"
            " from (select *, max(outcome) filter (where is_counted) over"
            " (partition by comparison, variant, task, configuration, repetition)"
            " as first_outcome"
            " from marts.outcomes semi join"
            " (select comparison, variant, task, configuration, repetition from marts.outcomes"
            " where not is_counted) using"
            " (comparison, variant, task, configuration, repetition))"
            " group by all order by comparison, variant, task, configuration, repetition"
        )
    )
    return [
        _comparison(
            row,
            [one for one in stats if one["comparison"] == row["comparison"]],
            [one for one in repeats if one["comparison"] == row["comparison"]],
        )
        for row in settings
    ]


def protocol_warnings(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """By comparison, a sentence about a protocol declared or changed after its first run."""
    rows = connection.execute(
        "select comparison, is_changed_late,"
        " regexp_replace(declared_at::varchar, '\\.[0-9]+', ''),"
        " regexp_replace(first_run_at::varchar, '\\.[0-9]+', '')"
        " from marts.protocol_decisions where is_current and is_declared_late"
    ).fetchall()
    return {
        name: (
            f"The protocol was {'changed' if is_changed else 'first seen'} at {declared_at}, after "
            f"the first run it judges ({first_run_at}): its rules may have been chosen to fit."
        )
        for name, is_changed, declared_at, first_run_at in rows
    }


def decide(
    connection: duckdb.DuckDBPyConnection,
    now: datetime,
    declarations: pa.Table | None = None,
    decisions: pa.Table | None = None,
) -> dict[str, pa.Table]:
    """What the marts of a warehouse lead to, as the rows of the tables in :data:`SCHEMAS`.

    Args:
        connection: where settings.comparisons, marts.task_stats and marts.outcomes are.
        now: the instant a new protocol counts as declared and a new decision as made (aware).
        declarations, decisions: the rows so far of marts.protocol_declarations and
            marts.protocol_decisions; they are kept, and new ones come after them.

    Returns:
        Every table whole, by name. Unchanged inputs add no declaration and no decision.
    """
    found = read_comparisons(connection)
    declared = _declare(found, now, declarations.to_pylist() if declarations else [])
    decided, rules = _decide(found, now, declared, decisions.to_pylist() if decisions else [])
    rows = {
        "pair_tests": [row for one in found for row in _pair_rows(one)],
        "selections": [row for one in found for row in _selection_rows(one)],
        "protocol_declarations": declared,
        "protocol_decisions": decided,
        "protocol_rules": rules,
        "comparison_reports": [
            {
                "comparison": one.name,
                "notes": one.comparison.notes,
                "report_json": canonical_json(one.to_dict()).decode(),
            }
            for one in found
        ],
    }
    return {name: pa.Table.from_pylist(rows[name], schema=SCHEMAS[name]) for name in SCHEMAS}


def _rows(relation: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = relation.to_arrow_table().to_pylist()
    return rows


def _comparison(
    settings: Mapping[str, Any],
    stats: Sequence[Mapping[str, Any]],
    repeats: Sequence[Mapping[str, Any]],
) -> ProjectComparison:
    cells = [
        TaskCounts(
            variant=row["variant"],
            task=row["task"],
            passes=row["pass_count"],
            fails=row["fail_count"],
            errors=row["error_count"],
            unknowns=row["unknown_count"],
            cost_sum=row["cost_usd_total"],
            cost_known=row["cost_count"],
            latency_sum=row["latency_seconds_total"],
            latency_known=row["latency_count"],
        )
        for row in stats
    ]
    duplicates = [
        Duplicates(
            row["variant"], row["task"], str(row["repetition"]), row["extra"], row["conflicting"]
        )
        for row in repeats
    ]
    protocol = json.loads(settings["protocol_json"]) if settings["protocol_json"] else None
    wanted = [settings["baseline"]] if settings["baseline"] is not None else []
    if protocol is not None:
        wanted += [protocol["baseline"], protocol["candidate"]]
    comparison = compare_counts(
        cells,
        k=_or(settings["k"], 1),
        baseline=settings["baseline"],
        min_n=_or(settings["min_n"], 10),
        alpha=_or(settings["alpha"], 0.05),
        duplicates=duplicates,
        expected=wanted,
    )
    selection = None
    if settings["select_policy"] is not None:
        objectives = _objectives(settings["objectives_json"])
        selection = select_variant(comparison, settings["select_policy"], objectives)
    first_run_at: dict[str, datetime] = {}
    for row in stats:
        at = row["first_started_at"]
        if at is not None:
            first_run_at[row["variant"]] = min(at, first_run_at.get(row["variant"], at))
    return ProjectComparison(
        name=settings["comparison"],
        comparison=comparison,
        selection=selection,
        protocol=evaluate_protocol(protocol, comparison) if protocol is not None else None,
        protocol_as_declared=protocol,
        first_run_at=first_run_at,
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _objectives(text: str | None) -> list[Objective] | None:
    """Objectives declared as names, ``{"metric", "weight"}`` or a mapping of weights by metric."""
    declared = json.loads(text) if text else None
    if not declared:
        return None
    if isinstance(declared, dict):
        return [Objective(metric, weight) for metric, weight in declared.items()]
    return [parse_objective(one) if isinstance(one, str) else Objective(**one) for one in declared]


def _pair_rows(one: ProjectComparison) -> list[dict[str, Any]]:
    rows = []
    for pair in one.comparison.pairs:
        clustered, paired = pair.clustered, pair.paired
        rows.append(
            {
                "comparison": one.name,
                "a": pair.a,
                "b": pair.b,
                "verdict": pair.verdict,
                "clustered_low": clustered.low if clustered else None,
                "clustered_high": clustered.high if clustered else None,
                "standard_error": clustered.standard_error if clustered else None,
                "degrees_of_freedom": clustered.df if clustered else None,
                "cluster_count": clustered.clusters if clustered else None,
                "design_effect": clustered.design_effect if clustered else None,
                "paired_method": paired.method if paired else None,
                "paired_task_count": paired.tasks if paired else None,
                "paired_difference": paired.difference if paired else None,
                "paired_p_value": paired.p_value if paired else None,
                "paired_p_holm": paired.p_holm if paired else None,
                "seed": paired.seed if paired else None,
                "resample_count": paired.resamples if paired else None,
                "runs_needed": pair.runs_needed,
            }
        )
    return rows


def _selection_rows(one: ProjectComparison) -> list[dict[str, Any]]:
    selection = one.selection
    if selection is None:
        return []
    objectives = [{"metric": goal.metric, "weight": goal.weight} for goal in selection.objectives]
    return [
        {
            "comparison": one.name,
            "policy": selection.policy,
            "variant": variant,
            "rank": rank,
            "is_chosen": variant == selection.chosen,
            "is_on_pareto_front": variant in selection.pareto_front,
            "score": selection.scores.get(variant),
            "unknown_objectives": selection.unknown.get(variant, []),
            "objectives_json": canonical_json(objectives).decode(),
            "reason": selection.reason,
        }
        for rank, variant in enumerate(selection.ranking, start=1)
    ]


def _declare(
    found: Sequence[ProjectComparison], now: datetime, history: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Every protocol ever declared, with the instant it was first seen."""
    seen = {(row["comparison"], row["protocol_sha256"]) for row in history}
    rows = list(history)
    for one in found:
        if one.protocol is None or (one.name, one.protocol.protocol_sha256) in seen:
            continue
        rows.append(
            {
                "comparison": one.name,
                "protocol_sha256": one.protocol.protocol_sha256,
                "title": one.protocol.title,
                "protocol_json": canonical_json(one.protocol_as_declared).decode(),
                "declared_at": now,
            }
        )
    return rows


def _decide(
    found: Sequence[ProjectComparison],
    now: datetime,
    declared: Sequence[Mapping[str, Any]],
    history: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every decision ever made, the current one of each comparison marked, and its rules."""
    latest = {row["comparison"]: row["decision_id"] for row in history if row["is_current"]}
    rows = list(history)
    rules = []
    for one in found:
        result = one.protocol
        if result is None:
            continue
        decision_id = json_sha256({"comparison": one.name, **result.to_dict()})
        rules += [
            {
                "decision_id": decision_id,
                "comparison": one.name,
                "position": position,
                "rule_id": rule.id,
                "metric": rule.metric,
                "status": rule.status,
                "baseline_value": rule.baseline,
                "candidate_value": rule.candidate,
                "detail": rule.detail,
            }
            for position, rule in enumerate(result.rules)
        ]
        if latest.get(one.name) == decision_id:
            continue
        rows.append(_decision_row(one, result, decision_id, now, declared))
        latest[one.name] = decision_id
    # The last row of a comparison is its current decision, also when an earlier one came back.
    last = {row["comparison"]: index for index, row in enumerate(rows)}
    current = {one.name for one in found if one.protocol is not None}
    for index, row in enumerate(rows):
        row["is_current"] = row["comparison"] in current and last[row["comparison"]] == index
    return rows, rules


def _decision_row(
    one: ProjectComparison,
    result: ProtocolResult,
    decision_id: str,
    now: datetime,
    declared: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    own = [row for row in declared if row["comparison"] == one.name]
    declared_at = next(
        row["declared_at"] for row in own if row["protocol_sha256"] == result.protocol_sha256
    )
    begun = [
        one.first_run_at[variant]
        for variant in (result.baseline, result.candidate)
        if variant in one.first_run_at
    ]
    first_run_at = min(begun) if begun else None
    is_late = declared_at > first_run_at if first_run_at is not None else None
    replaced = any(row["declared_at"] < declared_at for row in own)
    return {
        "decision_id": decision_id,
        "comparison": one.name,
        "protocol_sha256": result.protocol_sha256,
        "title": result.title,
        "baseline": result.baseline,
        "candidate": result.candidate,
        "decision": result.decision,
        "rule_statuses": [rule.status for rule in result.rules],
        "first_run_at": first_run_at,
        "declared_at": declared_at,
        "is_declared_late": is_late,
        "is_changed_late": (is_late and replaced) if is_late is not None else None,
        "decided_at": now,
        "is_current": True,
    }
