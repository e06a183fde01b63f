"""The runs of a project that did not pass, and what led to that, call by call.

Which runs are shown is a fixed choice: the most telling ones of each variant. Every text is cut in
SQL to what redaction needs, so that a run of any size is read in little memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.figures import dollars, percent
from toolscore_pipeline.regrades import rows_of
from toolscore_pipeline.reports.safe import plain
from toolscore_pipeline.reports.view import finding_text

if TYPE_CHECKING:
    import duckdb

RUNS_PER_VARIANT = 5
"""Runs that did not pass, shown of each variant."""
MOST_RUNS, MOST_GROUPS = 40, 40
"""Runs and variants that are shown; the rest is counted."""
MOST_CALLS, MOST_EXPECTED, MOST_FINDINGS = 25, 15, 12
"""Calls, expected calls and findings that are listed of one run."""
LONGEST_NAME, LONGEST_VALUE = 120, 160
"""Characters shown of a name and of a value."""
READ = 4500
"""Characters read of a stored text: what is shown, and what redaction looks at beyond it."""

_MOST_ARGUMENTS = 8


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call as recorded.

    Attributes:
        number: from 1.
        tool: the tool.
        arguments: names and values, in the order of the names.
        more_arguments: arguments that are not shown.
        status: ``ok``, ``failed``, ``denied`` or ``unknown``.
        role: ``expected 2`` (the second expected call), ``optional``, ``not expected``, or empty
            for a run without a grade.
        result: how its result begins; None when none was recorded.
        error: the error or the reason of a refusal; None without.
        duration: what it took, or ``unknown``.
    """

    number: int
    tool: str
    arguments: list[tuple[str, str]]
    more_arguments: int
    status: str
    role: str
    result: str | None
    error: str | None
    duration: str


@dataclass(frozen=True, slots=True)
class ArgumentRow:
    """An argument as expected and as given; None where there is none.

    ``status`` is ``met``, ``different``, ``missing``, ``unexpected``, ``not made`` (no call stands
    for the expected one) or ``not checked``.
    """

    name: str
    expected: str | None
    given: str | None
    status: str


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """An expected call of the winning combination beside the call that stands for it."""

    number: int
    tool: str
    call: int | None
    status: str
    arguments: list[ArgumentRow]


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run that did not pass, with what led to that.

    Attributes:
        run_id: its id.
        task, variant, repetition, model, status: as recorded; ``unknown`` where not.
        outcome: ``fail``, ``error`` or ``unknown``.
        score: in per cent, with the passing score; None without a grade.
        why: the most telling reason, in a sentence.
        error, final_answer: as recorded; None when not.
        facts: names and values of what else is known.
        calls: the first calls, in order; more_calls how many are not shown.
        expected: expected calls beside those made; more_expected how many are not shown.
        checks: check, status and reason.
        findings: severity and text; more_findings how many are not shown.
        changes: how the last regrade changed its grade.
        lineage: names and hashes, from the bytes of the file to the grade.
    """

    run_id: str
    task: str
    variant: str
    repetition: str
    model: str
    status: str
    outcome: str
    score: str | None
    why: str
    error: str | None
    final_answer: str | None
    facts: list[tuple[str, str]]
    calls: list[CallLine]
    more_calls: int
    expected: list[ExpectedRow]
    more_expected: int
    checks: list[tuple[str, str, str]]
    findings: list[tuple[str, str]]
    more_findings: int
    changes: list[str]
    lineage: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs of one variant that did not pass.

    Attributes:
        comparison: the comparison; empty for runs outside of every comparison.
        variant: the variant as the comparison counts it.
        failed, errors, unknown: how many there are.
        run_ids: the most telling ones, which :attr:`ProjectReport.runs` has.
    """

    comparison: str
    variant: str
    failed: int
    errors: int
    unknown: int
    run_ids: list[str]

    @property
    def total(self) -> int:
        """All runs of the variant that did not pass."""
        return self.failed + self.errors + self.unknown


# --- which runs are shown -------------------------------------------------------------------------

# The runs that did not pass, under the variant that each comparison counts them under; those of no
# comparison under their own.
_NOT_PASSED = """
with compared as (
    select comparison, variant, run_id, task, outcome
    from marts.outcomes
    where is_counted and ($1 is null or comparison = $1)
),

alone as (
    select '' as comparison, coalesce(variant, '') as variant, run_id, coalesce(task, '') as task,
        report_runs.outcome
    from evidence.runs
    inner join report_runs using (run_id)
    where $1 is null and run_id not in (select run_id from compared)
),

not_passed as (
    select * from compared where outcome != 'pass'
    union all
    select * from alone where outcome != 'pass'
)
"""

# The most telling first: what broke a rule or told a falsehood, then failures, errors, unknowns;
# one of each task before a second one.
_CHOICE = """,

weigh as (
    select
        comparison, variant, run_id, task, not_passed.outcome, score,
        coalesce(violation_count, 0) + coalesce(credential_count, 0)
            + coalesce(honesty_error_count, 0) > 0 as is_unsafe,
        array_position(['fail', 'error', 'unknown'], not_passed.outcome) as pressing,
    from not_passed
    inner join report_runs using (run_id)
    semi join wanted_groups using (comparison, variant)
),

rank_in_task as (
    select *,
        row_number() over (
            partition by comparison, variant, task, is_unsafe, outcome
            order by score asc nulls last, run_id
        ) as task_rank,
    from weigh
)

select comparison, variant, run_id, outcome
from rank_in_task
qualify row_number() over (
    partition by comparison, variant
    order by task_rank, not is_unsafe, pressing, score asc nulls last, task, run_id
) <= $2
order by comparison, variant, row_number() over (
    partition by comparison, variant
    order by task_rank, not is_unsafe, pressing, score asc nulls last, task, run_id
)
"""


def read_groups(
    store: duckdb.DuckDBPyConnection, comparison: str | None, per_variant: int
) -> tuple[list[tuple[RunGroup, list[tuple[str, str]]]], int, int]:
    """The groups with the runs to show of each (id and outcome), and how many are left out.

    Last comes how many runs did not pass; one that several comparisons count stands in several
    groups, and is one of these.
    """
    import pyarrow as pa

    rows = rows_of(
        store,
        _NOT_PASSED + "select comparison, variant,"
        " count(*) filter (where outcome = 'fail') as failed,"
        " count(*) filter (where outcome = 'error') as errors,"
        " count(*) filter (where outcome not in ('fail', 'error')) as unknown,"
        " (select count(*) from (select distinct comparison, variant from not_passed)) as groups,"
        " (select count(distinct run_id) from not_passed) as runs,"
        " from not_passed group by comparison, variant"
        " order by comparison = '', comparison, count(*) desc, variant limit $2",
        [comparison, MOST_GROUPS],
    )
    if not rows:
        return [], 0, 0
    share = min(per_variant, max(1, MOST_RUNS // len(rows)))
    wanted = pa.table(
        {
            name: pa.array([row[name] for row in rows], pa.string())
            for name in ("comparison", "variant")
        }
    )
    store.register("wanted_groups", wanted)
    try:
        chosen = store.execute(_NOT_PASSED + _CHOICE, [comparison, share]).fetchall()
    finally:
        store.unregister("wanted_groups")
    by_group: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for own, variant, run_id, outcome in chosen:
        by_group.setdefault((own, variant), []).append((run_id, outcome))
    groups = [
        (
            RunGroup(
                comparison=plain(row["comparison"], LONGEST_NAME),
                variant=plain(row["variant"], LONGEST_NAME) or "(no name)",
                failed=row["failed"],
                errors=row["errors"],
                unknown=row["unknown"],
                run_ids=[],
            ),
            by_group.get((row["comparison"], row["variant"]), []),
        )
        for row in rows
    ]
    return groups, rows[0]["groups"] - len(rows), rows[0]["runs"]


# --- one run --------------------------------------------------------------------------------------

_STANDING = """
with standing as (
    select run_id, judgment_id, grader_version
    from report_runs
    cross join settings.grader
    where run_id in (select unnest($1::varchar[])) and judgment_id is not null
)
"""

_RUNS = f"""
{_STANDING},

contracts as (
    select judgment_id, min(path) as contract_path, min_by(sha256, path) as contract_sha256
    from judgment.bindings
    group by all
)

select
    run_id, runs.evidence_sha256, left(runs.source, {READ}) as source,
    left(runs.path, {READ}) as path, left(locator, {READ}) as locator, runs.format,
    left(task, {READ}) as task, left(variant, {READ}) as variant, repetition,
    left(model, {READ}) as model, left(status, {READ}) as status,
    left(error, {READ}) as error, left(final_answer, {READ}) as final_answer,
    cost_usd, duration_seconds, runs.call_count,
    [left(warning, {READ}) for warning in runs.warnings[:5]] as warnings,
    document_sha256,
    grades.judgment_id, grades.grader_version, grades.grade_id, grades.score, grades.grade,
    grades.min_score, left(grades.choices_json, {READ}) as choices_json,
    grades.required_count, grades.completed_count,
    left(contract_path, {READ}) as contract_path, contract_sha256,
from evidence.runs as runs
left join (select source, path, sha256 as document_sha256 from raw.documents) as documents
    using (source, path)
left join (
    select * from grades.grades semi join standing using (run_id, judgment_id, grader_version)
) as grades using (run_id)
left join contracts on grades.judgment_id = contracts.judgment_id
where run_id in (select unnest($1::varchar[]))
"""

_CALLS = f"""
{_STANDING},

positions as (
    select run_id, call_index, min(position) as position
    from grades.expectations
    semi join standing using (run_id, judgment_id, grader_version)
    where call_index is not null
    group by all
),

optional as (
    select run_id, optional_call_indexes
    from grades.grades
    semi join standing using (run_id, judgment_id, grader_version)
)

select
    run_id, call_index, left(tool, {READ}) as tool, position,
    optional.run_id is not null as is_graded,
    coalesce(list_contains(optional_call_indexes, call_index), false) as is_optional,
    [left(name, {READ}) for name in json_keys(args_json)[:{_MOST_ARGUMENTS}]] as names,
    [left(value::varchar, {READ}) for value in json_extract(args_json, '$.*')[:{_MOST_ARGUMENTS}]]
        as texts,
    len(json_keys(args_json)) as argument_count,
    has_result, left(result_json, {READ}) as result, left(error_json, {READ}) as error,
    left(deny_reason, {READ}) as deny_reason, is_failed, is_denied, duration_seconds,
from evidence.calls
left join positions using (run_id, call_index)
left join optional using (run_id)
where run_id in (select unnest($1::varchar[])) and call_index < {MOST_CALLS}
order by run_id, call_index
"""

_EXPECTED = f"""
{_STANDING},

look as (
    select
        run_id, position, expectations.tool, expectations.is_checked, expectations.call_index,
        expectations.is_failed,
        coalesce(missing_args, []) as missing,
        coalesce(different_args, []) as different,
        coalesce(unexpected_args, []) as unexpected,
        coalesce(json_keys(patterns.args_json), []) as wanted_names,
        coalesce(json_extract(patterns.args_json, '$.*'), []) as wanted,
        coalesce(json_keys(calls.args_json), []) as given_names,
        coalesce(json_extract(calls.args_json, '$.*'), []) as given,
        count(*) over (partition by run_id) as expected_count,
    from grades.expectations
    semi join standing using (run_id, judgment_id, grader_version)
    left join judgment.patterns as patterns using (pattern_id)
    left join evidence.calls as calls using (run_id, call_index)
),

name_arguments as (
    select *,
        list_concat(
            missing[:6], different[:6], unexpected[:6],
            [
                name for name in wanted_names
                if not list_contains(missing, name) and not list_contains(different, name)
            ][:{_MOST_ARGUMENTS}]
        ) as names,
    from look
    where position < {MOST_EXPECTED}
)

select
    run_id, position, left(tool, {READ}) as tool, is_checked, call_index, is_failed,
    expected_count,
    [
        {{
            'name': left(name, {READ}),
            'expected': left(wanted[list_position(wanted_names, name)]::varchar, {READ}),
            'given': left(given[list_position(given_names, name)]::varchar, {READ}),
            'status': case
                when call_index is null then 'not made'
                when list_contains(missing, name) then 'missing'
                when list_contains(different, name) then 'different'
                when list_contains(unexpected, name) then 'unexpected'
                when not is_checked then 'not checked'
                else 'met'
            end
        }} for name in names
    ] as arguments,
from name_arguments
order by run_id, position
"""

_RUN_CHECKS = f"""
{_STANDING}

select run_id, check_name, status, left(detail, {READ}) as detail
from grades.checks
semi join standing using (run_id, judgment_id, grader_version)
qualify row_number() over (partition by run_id order by check_position) <= 20
order by run_id, check_position
"""

_RUN_FINDINGS = f"""
{_STANDING}

select
    run_id, finding, severity, call_index, left(tool, {READ}) as tool, rule_position,
    left(path, {READ}) as path, kind, left(preview, {READ}) as preview,
    left(sentence, {READ}) as sentence, left(reason, {READ}) as reason,
    count(*) over (partition by run_id) as finding_count,
    row_number() over (
        partition by run_id
        order by
            array_position(['error', 'warning', 'unknown'], severity),
            call_index, finding, path, sentence
    ) as place,
from grades.findings
semi join standing using (run_id, judgment_id, grader_version)
qualify place <= {MOST_FINDINGS}
order by run_id, place
"""

_RUN_CHANGES = f"""
select run_id, before_outcome, after_outcome, before_score, after_score,
    left(reason, {READ}) as reason
from marts.flips
where is_latest and run_id in (select unnest($1::varchar[]))
order by run_id
"""


def read_runs(
    store: duckdb.DuckDBPyConnection, outcomes: Mapping[str, str]
) -> dict[str, RunDetail]:
    """The runs of some ids with all that is shown of them, in the order of the ids."""
    wanted = [list(outcomes)]
    if not outcomes:
        return {}
    rows = {row["run_id"]: row for row in rows_of(store, _RUNS, wanted)}
    parts = [
        _by_run(rows_of(store, query, wanted))
        for query in (_CALLS, _EXPECTED, _RUN_CHECKS, _RUN_FINDINGS, _RUN_CHANGES)
    ]
    return {
        run_id: _run(rows[run_id], outcome, *(part.get(run_id, []) for part in parts))
        for run_id, outcome in outcomes.items()
    }


def _by_run(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run_id"], []).append(row)
    return found


def _run(
    row: Mapping[str, Any],
    outcome: str,
    calls: list[dict[str, Any]],
    expected: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    changes: list[dict[str, Any]],
) -> RunDetail:
    is_graded = row["grade_id"] is not None
    score = None
    if is_graded:
        score = f"{percent(row['score'])} of {percent(row['min_score'])} needed"
    shown_checks = [
        (plain(check["check_name"], LONGEST_NAME), check["status"], plain(check["detail"]))
        for check in checks
    ]
    shown_findings = [(one["severity"], plain(finding_text(one), 600)) for one in findings]
    lines = [_call(one) for one in calls]
    shown_expected = [_expected(one) for one in expected]
    return RunDetail(
        run_id=row["run_id"],
        task=known(row["task"]),
        variant=known(row["variant"]),
        repetition="unknown" if row["repetition"] is None else str(row["repetition"]),
        model=known(row["model"]),
        status=known(row["status"]),
        outcome=outcome,
        score=score,
        why=_why(row, outcome, shown_checks, shown_findings, shown_expected),
        error=None if row["error"] is None else plain(row["error"]),
        final_answer=None if row["final_answer"] is None else plain(row["final_answer"]),
        facts=_facts(row),
        calls=lines,
        more_calls=max(0, (row["call_count"] or 0) - len(lines)),
        expected=shown_expected,
        more_expected=(expected[0]["expected_count"] if expected else 0) - len(expected),
        checks=shown_checks,
        findings=shown_findings,
        more_findings=(findings[0]["finding_count"] if findings else 0) - len(findings),
        changes=[
            f"{one['before_outcome']} {percent(one['before_score'])} became"
            f" {one['after_outcome']} {percent(one['after_score'])}: {plain(one['reason'] or '')}"
            for one in changes
        ],
        lineage=_run_lineage(row),
    )


def _why(
    row: Mapping[str, Any],
    outcome: str,
    checks: Sequence[tuple[str, str, str]],
    findings: Sequence[tuple[str, str]],
    expected: Sequence[ExpectedRow],
) -> str:
    """The most telling reason that a run did not pass."""
    if outcome == "error":
        return plain(f"ended in an error: {row['error'] or 'no reason was recorded'}")
    if row["grade_id"] is None:
        return "no contract applies to it; the outcome is what its record says"
    wanted = "unknown" if outcome == "unknown" else "error"
    told = [text for severity, text in findings if severity == wanted]
    if told:
        return plain(told[0])
    state = "unknown" if outcome == "unknown" else "fail"
    reasons = [f"{check}: {detail}" for check, status, detail in checks if status == state]
    if outcome == "fail":
        missed = [_missed(one) for one in expected if one.status != "met"]
        if missed:
            more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
            return plain(missed[0] + more)
        if row["score"] < row["min_score"] - 1e-9:
            reasons.append(f"scores {percent(row['score'])} of {percent(row['min_score'])} needed")
    return plain(reasons[0]) if reasons else f"the outcome is {outcome}"


def _missed(row: ExpectedRow) -> str:
    """What is wrong with an expected call, in a few words."""
    if row.status == "missing":
        return f"the expected call to {row.tool} was never made"
    if row.status == "failed":
        return f"the expected call to {row.tool} failed"
    differ = ", ".join(
        f"{one.name} {one.status}"
        for one in row.arguments
        if one.status in ("missing", "different", "unexpected")
    )
    return f"{row.tool} was called with other arguments: {differ}"


def _facts(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    seconds = row["duration_seconds"]
    facts = [
        ("model", known(row["model"])),
        ("status", known(row["status"])),
        ("calls", str(row["call_count"])),
        ("duration", "unknown" if seconds is None else f"{seconds:.3f} s"),
        ("cost", dollars(row["cost_usd"])),
    ]
    if row["grade_id"] is not None:
        needed, done = row["required_count"], row["completed_count"]
        facts.insert(0, ("grade", f"{row['grade']} ({percent(row['score'])})"))
        facts.insert(1, ("required calls", f"{done} of {needed}" if needed else "none required"))
        if row["choices_json"] not in (None, "{}"):
            facts.append(("combination that won", plain(row["choices_json"], LONGEST_VALUE)))
    facts += [("odd about it", plain(warning)) for warning in row["warnings"] or []]
    return facts


def _run_lineage(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    place = plain(f"{row['path']} {row['locator'] or ''}", 200)
    lineage = [
        ("source", plain(row["source"] or "", LONGEST_NAME)),
        ("file", f"{place} ({row['format']})"),
        ("file sha256", row["document_sha256"] or "unknown"),
        ("run_id", row["run_id"]),
        ("evidence_sha256", row["evidence_sha256"]),
    ]
    if row["grade_id"] is not None:
        lineage += [
            ("contract", plain(row["contract_path"] or "unknown", 200)),
            ("contract sha256", row["contract_sha256"] or "unknown"),
            ("judgment_id", row["judgment_id"]),
            ("grader_version", row["grader_version"]),
            ("grade_id", row["grade_id"]),
        ]
    return lineage


def _call(row: Mapping[str, Any]) -> CallLine:
    names, texts = row["names"] or [], row["texts"] or []
    failed = {True: "failed", False: "ok", None: "unknown"}[row["is_failed"]]
    error = row["deny_reason"] if row["is_denied"] else row["error"]
    seconds = row["duration_seconds"]
    if row["position"] is not None:
        role = f"expected {row['position'] + 1}"
    elif not row["is_graded"]:
        role = ""
    else:
        role = "optional" if row["is_optional"] else "not expected"
    return CallLine(
        number=row["call_index"] + 1,
        tool=plain(row["tool"] or "", 80) or "(no name)",
        arguments=[
            (plain(name, 40), plain(text or "null", LONGEST_VALUE))
            for name, text in zip(names, texts, strict=True)
        ],
        more_arguments=max(0, (row["argument_count"] or 0) - len(names)),
        status="denied" if row["is_denied"] else failed,
        role=role,
        result=plain(row["result"] or "null", LONGEST_VALUE) if row["has_result"] else None,
        error=plain(_message(error), LONGEST_VALUE) if error else None,
        duration="unknown" if seconds is None else f"{seconds:.3f} s",
    )


def _message(text: str) -> str:
    """An error as people read it: the text of a JSON string, else the JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        return str(value["message"])
    return value if isinstance(value, str) else text


def _expected(row: Mapping[str, Any]) -> ExpectedRow:
    arguments = [
        ArgumentRow(
            name=plain(one["name"], 40),
            expected=None if one["expected"] is None else plain(one["expected"], LONGEST_VALUE),
            given=None if one["given"] is None else plain(one["given"], LONGEST_VALUE),
            status=one["status"],
        )
        for one in row["arguments"]
    ]
    if row["call_index"] is None:
        status = "missing"
    elif row["is_failed"]:
        status = "failed"
    elif any(one.status in ("missing", "different", "unexpected") for one in arguments):
        status = "arguments"
    else:
        status = "met"
    return ExpectedRow(
        number=row["position"] + 1,
        tool=plain(row["tool"], 80),
        call=None if row["call_index"] is None else row["call_index"] + 1,
        status=status,
        arguments=arguments,
    )


def known(text: str | None) -> str:
    """A name made fit to be shown; ``unknown`` when it was not recorded or is empty."""
    return plain(text, LONGEST_NAME) or "unknown" if text is not None else "unknown"
