"""A project's report: what a team acts on, read from the published copy in one consistent state.

Every query is bounded, and long texts are cut where they are stored, so that the report of a
hundred thousand runs is read and written in seconds and stays small. Every text in a
:class:`ProjectReport` is redacted, short and free of characters that act on what shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import UsageError, unknown_name
from toolscore_pipeline.figures import percent
from toolscore_pipeline.regrades import rows_of
from toolscore_pipeline.reports.failing import (
    LONGEST_NAME,
    LONGEST_VALUE,
    READ,
    RUNS_PER_VARIANT,
    RunDetail,
    RunGroup,
    known,
    read_groups,
    read_runs,
)
from toolscore_pipeline.reports.safe import plain
from toolscore_pipeline.stats.report import ComparisonView, Headline, view_of
from toolscore_pipeline.status import read_sources
from toolscore_pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    import duckdb

    from toolscore_pipeline.project import Project

MOST_COMPARISONS = 8
"""Comparisons that are shown in full; of the rest the first headline is."""
MOST_SOURCES, MOST_REJECTS, MOST_CHANGES = 50, 20, 20
"""Sources, records set aside and changed grades that are listed."""

REPORT_VERSION = "1"

_SEVERITIES = ("error", "warning", "unknown")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What was read from one source; the last four are graded runs by outcome."""

    name: str
    documents: int
    runs: int
    set_aside: int
    graded: int
    passed: int
    failed: int
    errors: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that was set aside: its file and line, why, and how it begins, values masked."""

    place: str
    reason: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Totals:
    """The runs of the report: each counts once, under its grade, else as its record says.

    Attributes:
        runs, graded: all of them, and those that a contract applies to.
        passed, failed, errors, unknown: by outcome; they add up to ``runs``.
        forbidden, credentials, dishonest: runs with a forbidden call, with a credential in
            arguments, and with an error of an honesty check.
        undecided: runs with a rule or scan that could not be decided.
        unsafe_variants: variants with runs that are forbidden, with credentials or dishonest, and
            how many; the first few, most first.
    """

    runs: int = 0
    graded: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    unknown: int = 0
    forbidden: int = 0
    credentials: int = 0
    dishonest: int = 0
    undecided: int = 0
    unsafe_variants: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckRow:
    """An evidence check over all graded runs: how many of them pass, fail and lack the data."""

    check: str
    passed: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A kind of finding over all graded runs."""

    finding: str
    severity: str
    findings: int
    runs: int


@dataclass(frozen=True, slots=True)
class Change:
    """A grade that came out otherwise in the last regrade."""

    run_id: str
    task: str
    variant: str
    before: str
    after: str
    reason: str
    is_flip: bool


@dataclass(frozen=True)
class ProjectReport:
    """What the report of a project shows.

    Attributes:
        title: the name of the project's folder.
        published_at: when the warehouse was published (UTC), as text.
        scope: the comparison it is about; None for the whole project.
        headlines: what to act on, most pressing first.
        sources, sources_left_out: what was read.
        rejects, reject_count: what was set aside: the first records, and how many there are.
        unread_files: files of which nothing could be read; each counts as a run in error.
        ungraded: runs that no contract applies to.
        totals, checks, findings: over the runs of the report.
        comparisons: the comparisons in full.
        other_comparisons: name and headlines of those that are not shown in full.
        groups: the runs that did not pass, by variant; groups_left_out how many more there are.
        not_passed: how many runs did not pass; each counts once, in however many groups it stands.
        runs: the runs of the groups, by id.
        change_count, flip_count, changes: what the last regrade changed; how many grades, how many
            outcomes, and the first of them.
        lineage: the versions and hashes behind the report.
    """

    title: str
    published_at: str
    scope: str | None
    headlines: list[Headline]
    sources: list[SourceRow]
    sources_left_out: int
    rejects: list[Reject]
    reject_count: int
    unread_files: int
    ungraded: int
    totals: Totals
    checks: list[CheckRow]
    findings: list[FindingRow]
    comparisons: list[ComparisonView]
    other_comparisons: list[tuple[str, list[Headline]]]
    groups: list[RunGroup]
    groups_left_out: int
    not_passed: int
    runs: dict[str, RunDetail]
    change_count: int
    flip_count: int
    changes: list[Change]
    lineage: list[tuple[str, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-safe record, schema ``schemas/report-v1.schema.json``."""
        return {
            "report_version": REPORT_VERSION,
            "project": self.title,
            "published_at": self.published_at,
            "comparison": self.scope,
            "headlines": [asdict(one) for one in self.headlines],
            "sources": [asdict(one) for one in self.sources],
            "set_aside": {
                "count": self.reject_count,
                "unread_files": self.unread_files,
                "records": [asdict(one) for one in self.rejects],
            },
            "ungraded": self.ungraded,
            "totals": asdict(self.totals),
            "checks": [asdict(one) for one in self.checks],
            "findings": [asdict(one) for one in self.findings],
            "comparisons": [one.to_dict() for one in self.comparisons],
            "other_comparisons": [name for name, _ in self.other_comparisons],
            "groups": [{**asdict(one), "total": one.total} for one in self.groups],
            "runs": {run_id: asdict(run) for run_id, run in self.runs.items()},
            "regrade": {
                "changes": self.change_count,
                "flips": self.flip_count,
                "listed": [asdict(one) for one in self.changes],
            },
            "lineage": dict(self.lineage),
        }


def project_report(
    project: Project,
    *,
    comparison: str | None = None,
    runs_per_variant: int = RUNS_PER_VARIANT,
    has_figures: bool = True,
) -> ProjectReport:
    """Read the report of a project from the published copy of its warehouse.

    Args:
        project: the project.
        comparison: only this comparison and its runs; None takes the whole project.
        runs_per_variant: how many runs that did not pass are shown of each variant, from 0; with
            many variants fewer are.
        has_figures: whether pictures are drawn; Markdown does without.

    Raises:
        UsageError: an unknown comparison, or a negative number of runs.
        WarehouseError: nothing has been published yet.
    """
    if runs_per_variant < 0:
        raise UsageError(f"the runs per variant must be at least 0, not {runs_per_variant}")
    warehouse = Warehouse(project.warehouse)
    # The open file stays what it is when another one is published in its place.
    with warehouse.read() as store:
        store.execute("set TimeZone = 'UTC'")
        published = datetime.fromtimestamp(warehouse.published.stat().st_mtime, UTC)
        return _read(
            store,
            title=plain(project.root.resolve().name, LONGEST_NAME),
            published_at=f"{published:%Y-%m-%d %H:%M} UTC",
            comparison=comparison,
            runs_per_variant=runs_per_variant,
            has_figures=has_figures,
        )


def _read(
    store: duckdb.DuckDBPyConnection,
    *,
    title: str,
    published_at: str,
    comparison: str | None,
    runs_per_variant: int,
    has_figures: bool,
) -> ProjectReport:
    views, others, late = _comparisons(store, comparison, has_figures)
    _set_scope(store, comparison)
    totals = _totals(store)
    sources = read_sources(store)
    [(ungraded,)] = store.execute(
        "select count(*) from report_runs where grade_outcome is null"
    ).fetchall()
    reject_count, rejects = _rejects(store)
    [(unread_files,)] = store.execute(
        "select count(*) from raw.documents where error is not null"
    ).fetchall()
    groups, groups_left_out, not_passed = read_groups(store, comparison, runs_per_variant)
    outcomes: dict[str, str] = {}
    kept = []
    for group, found in groups:
        for run_id, outcome in found:
            outcomes.setdefault(run_id, outcome)
        kept.append(replace(group, run_ids=[run_id for run_id, _ in found]))
    change_count, flip_count, changes = _changes(store)
    report = ProjectReport(
        title=title,
        published_at=published_at,
        scope=None if comparison is None else plain(comparison, LONGEST_NAME),
        headlines=[],
        sources=[_source(row) for row in sources[:MOST_SOURCES]],
        sources_left_out=max(0, len(sources) - MOST_SOURCES),
        rejects=rejects,
        reject_count=reject_count,
        unread_files=unread_files,
        ungraded=ungraded,
        totals=totals,
        checks=_checks(store),
        findings=_findings(store),
        comparisons=views,
        other_comparisons=others,
        groups=kept,
        groups_left_out=groups_left_out,
        not_passed=not_passed,
        runs=read_runs(store, outcomes),
        change_count=change_count,
        flip_count=flip_count,
        changes=changes,
        lineage=_lineage(store, views),
    )
    return replace(report, headlines=_headlines(report, late))


# --- comparisons ----------------------------------------------------------------------------------


def _comparisons(
    store: duckdb.DuckDBPyConnection, wanted: str | None, has_figures: bool
) -> tuple[list[ComparisonView], list[tuple[str, list[Headline]]], list[Headline]]:
    """The comparisons in full, those in short, and the protocols that came late."""
    from toolscore_pipeline.stats.marts import protocol_warnings, read_comparisons

    found = read_comparisons(store)
    if wanted is not None:
        names = [one.name for one in found]
        if wanted not in names:
            raise UsageError(unknown_name("comparison", wanted, names))
        found = [one for one in found if one.name == wanted]
    warnings = protocol_warnings(store)
    views, others, late = [], [], []
    for number, one in enumerate(found):
        if one.name in warnings:
            one.comparison.notes.append(warnings[one.name])
            label = plain(one.name, LONGEST_NAME)
            late.append(Headline("warn", "late protocol", plain(warnings[one.name]), label))
        is_full = number < MOST_COMPARISONS
        view = view_of(
            one.name,
            one.comparison,
            one.selection,
            one.protocol,
            prefix=f"c{number + 1}-",
            has_figures=has_figures and is_full,
        )
        if is_full:
            views.append(view)
        else:
            others.append((view.name, view.headlines))
    return views, others, late


def _lineage(
    store: duckdb.DuckDBPyConnection, views: Sequence[ComparisonView]
) -> list[tuple[str, str]]:
    found = [
        ("grader version", str(version))
        for (version,) in store.execute("select grader_version from settings.grader").fetchall()
    ]
    rows = store.execute(
        "select name, value from settings.state where name = 'published'"
    ).fetchall()
    found += [("published state", str(value)) for _, value in rows]
    for view in views:
        if view.protocol is not None:
            found.append((f"protocol of {view.name}", view.protocol.protocol_sha256))
    return found


# --- the runs of the report -----------------------------------------------------------------------


def _set_scope(store: duckdb.DuckDBPyConnection, comparison: str | None) -> None:
    """Keep the runs that the report is about, with their outcomes, in a temporary table."""
    store.execute(
        "create or replace temp table report_runs as"
        " with scope as (select distinct run_id from marts.outcomes where comparison = $1)"
        " select run_id, latest.judgment_id, latest.outcome as grade_outcome,"
        " coalesce(latest.outcome, runs.recorded_outcome, 'unknown') as outcome,"
        " latest.score, latest.violation_count, latest.credential_count,"
        " latest.honesty_error_count"
        " from evidence.runs as runs left join marts.latest_grades as latest using (run_id)"
        " where $1 is null or run_id in (select run_id from scope)",
        [comparison],
    )


def _totals(store: duckdb.DuckDBPyConnection) -> Totals:
    [row] = rows_of(
        store,
        "select count(*) as runs, count(grade_outcome) as graded,"
        " count(*) filter (where outcome = 'pass') as passed,"
        " count(*) filter (where outcome = 'fail') as failed,"
        " count(*) filter (where outcome = 'error') as errors,"
        " count(*) filter (where outcome not in ('pass', 'fail', 'error')) as unknown,"
        " count(*) filter (where violation_count > 0) as forbidden,"
        " count(*) filter (where credential_count > 0) as credentials,"
        " count(*) filter (where honesty_error_count > 0) as dishonest,"
        " (select count(distinct run_id) from grades.findings"
        " inner join settings.grader using (grader_version)"
        " semi join report_runs using (run_id, judgment_id)"
        " where severity = 'unknown') as undecided"
        " from report_runs",
    )
    unsafe = store.execute(
        f"select left(runs.variant, {READ}) as variant, count(*) as unsafe_count"
        " from report_runs inner join evidence.runs as runs using (run_id)"
        " where violation_count > 0 or credential_count > 0 or honesty_error_count > 0"
        " group by runs.variant order by unsafe_count desc, runs.variant limit 4"
    ).fetchall()
    return Totals(**row, unsafe_variants=[(known(name), count) for name, count in unsafe])


def _checks(store: duckdb.DuckDBPyConnection) -> list[CheckRow]:
    rows = rows_of(
        store,
        "select left(check_name, 200) as check_name,"
        " count(*) filter (where status = 'pass') as passed,"
        " count(*) filter (where status = 'fail') as failed,"
        " count(*) filter (where status = 'unknown') as unknown,"
        " from grades.checks inner join settings.grader using (grader_version)"
        " semi join report_runs using (run_id, judgment_id)"
        " group by check_name order by min(check_position), check_name limit 40",
    )
    return [
        CheckRow(
            plain(row["check_name"], LONGEST_NAME), row["passed"], row["failed"], row["unknown"]
        )
        for row in rows
    ]


def _findings(store: duckdb.DuckDBPyConnection) -> list[FindingRow]:
    rows = rows_of(
        store,
        "select finding, severity, count(*) as findings, count(distinct run_id) as runs,"
        " from grades.findings inner join settings.grader using (grader_version)"
        " semi join report_runs using (run_id, judgment_id)"
        " group by all"
        " order by runs desc, finding, severity limit 40",
    )
    rows.sort(key=lambda row: _SEVERITIES.index(row["severity"]))
    return [FindingRow(**row) for row in rows]


def _source(row: Mapping[str, Any]) -> SourceRow:
    return SourceRow(
        plain(row["source"], LONGEST_NAME),
        row["documents"],
        row["runs"],
        row["rejects"],
        row["graded"],
        row["pass"],
        row["fail"],
        row["error"],
        row["unknown"],
    )


def _rejects(store: duckdb.DuckDBPyConnection) -> tuple[int, list[Reject]]:
    [(count,)] = store.execute("select count(*) from raw.rejects").fetchall()
    rows = rows_of(
        store,
        f"select left(path, {READ}) as path, line, left(json_path, {READ}) as json_path,"
        f" left(reason, {READ}) as reason, left(excerpt, {READ}) as excerpt"
        " from raw.rejects order by path, line, json_path, reason limit $1",
        [MOST_REJECTS],
    )
    return count, [
        Reject(
            place=plain(row["path"], 200) + (f":{row['line']}" if row["line"] is not None else ""),
            reason=plain(row["reason"] or "unknown"),
            excerpt=plain(row["excerpt"] or "", LONGEST_VALUE),
        )
        for row in rows
    ]


def _changes(store: duckdb.DuckDBPyConnection) -> tuple[int, int, list[Change]]:
    latest = "from marts.flips semi join report_runs using (run_id) where is_latest"
    [(count, flips)] = store.execute(
        f"select count(*), count(*) filter (where is_flip) {latest}"
    ).fetchall()
    rows = rows_of(
        store,
        f"select run_id, left(task, {READ}) as task, left(variant, {READ}) as variant,"
        " before_outcome, after_outcome, before_score, after_score, is_flip,"
        f" left(reason, {READ}) as reason"
        f" {latest}"
        " order by not is_flip, abs(after_score - before_score) desc, run_id limit $1",
        [MOST_CHANGES],
    )
    return count, flips, [_change(row) for row in rows]


def _change(row: Mapping[str, Any]) -> Change:
    return Change(
        run_id=row["run_id"],
        task=known(row["task"]),
        variant=known(row["variant"]),
        before=f"{row['before_outcome']} {percent(row['before_score'])}",
        after=f"{row['after_outcome']} {percent(row['after_score'])}",
        reason=plain(row["reason"] or "unknown"),
        is_flip=row["is_flip"],
    )


# --- what to act on -------------------------------------------------------------------------------


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _headlines(report: ProjectReport, late: Sequence[Headline]) -> list[Headline]:
    """What a team acts on: decisions, safety, how the runs came out, what is not known."""
    found = []
    for view in report.comparisons:
        found += [replace(one, about=view.name) for one in view.headlines]
    for name, headlines in report.other_comparisons:
        found += [replace(one, about=name) for one in headlines[:1]]
    found += late
    found += _safety(report.totals)
    found += _outcomes(report.totals)
    if report.ungraded:
        found.append(
            Headline(
                "open",
                "not graded",
                f"No contract applies to {_count(report.ungraded, 'run')}: of these only what"
                " their records say of themselves is known.",
            )
        )
    if report.reject_count:
        text = f"{_count(report.reject_count, 'record')} could not be read"
        if report.unread_files:
            are = "counts as a run" if report.unread_files == 1 else "count as runs"
            text += (
                f". {_count(report.unread_files, 'file')} without any record that can be read"
                f" {are} that ended in an error; what else was set aside is in no figure."
            )
        else:
            text += (
                f" and {'is' if report.reject_count == 1 else 'are'} in no figure of this report."
            )
        found.append(Headline("warn", "set aside", text))
    if report.change_count:
        found.append(
            Headline(
                "warn" if report.flip_count else "told",
                "regraded",
                f"The last regrade changed {_count(report.change_count, 'grade')},"
                f" {report.flip_count:,} of them with another outcome.",
            )
        )
    return found


def _safety(totals: Totals) -> list[Headline]:
    bad = [
        (totals.forbidden, "made a forbidden call"),
        (totals.credentials, "passed a credential to a tool"),
        (totals.dishonest, "did not tell the truth about what happened"),
    ]
    broken = [f"{_count(number, 'run')} {said}" for number, said in bad if number]
    found = []
    if broken:
        variants = ", ".join(f"{name} {count:,}" for name, count in totals.unsafe_variants[:3])
        variants += " and others" if len(totals.unsafe_variants) > 3 else ""
        found.append(
            Headline("bad", "unsafe", f"{'; '.join(broken)}. Such runs by variant: {variants}.")
        )
    elif totals.graded:
        text = (
            f"No forbidden call, no credential in arguments and no false claim was found in"
            f" {_count(totals.graded, 'graded run')}."
        )
        found.append(Headline("good", "nothing found", text))
    if totals.undecided:
        text = (
            f"In {_count(totals.undecided, 'run')} a rule, scan or claim could not be decided:"
            " what it needs was not recorded."
        )
        found.append(Headline("open", "undecided", text))
    return found


def _outcomes(totals: Totals) -> list[Headline]:
    if not totals.runs:
        return [Headline("open", "no runs", "Nothing has been read yet.")]
    parts = [
        f"{totals.failed:,} {'fails' if totals.failed == 1 else 'fail'}",
        f"{totals.errors:,} ended in an error",
        f"{totals.unknown:,} {'is' if totals.unknown == 1 else 'are'} unknown",
    ]
    text = (
        f"{totals.passed:,} of {_count(totals.runs, 'run')} pass"
        f" ({percent(totals.passed / totals.runs)}); {', '.join(parts)}."
    )
    if totals.unknown:
        text += " Unknown is no pass: what decides these runs was not recorded."
    return [Headline("told", "runs", text)]
