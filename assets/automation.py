"""What runs without a person: new files, content that flows on, the nightly regrade, freshness."""

from datetime import UTC, datetime

import dagster as dg

from toolscore_pipeline.components import (
    PUBLISHED,
    STUDIES,
    ProjectResource,
    failure,
    project_file,
)
from toolscore_pipeline.errors import ToolscoreError
from toolscore_pipeline.project import load_project
from toolscore_pipeline.reports.safe import markdown_text, plain
from toolscore_pipeline.warehouse import Warehouse
from toolscore_pipeline.watching import (
    JUDGMENTS,
    SOURCES,
    Glance,
    known_hashes,
    look,
    watched_files,
)

# The assets that are made from files themselves; all others follow from their content.
FIRST = {
    SOURCES: dg.AssetSelection.groups("evidence"),
    JUDGMENTS: dg.AssetSelection.groups("judgments"),
}
SECONDS_BETWEEN_LOOKS = 5
LONGEST_TOLD = 1000


@dg.sensor(
    target=FIRST[SOURCES] | FIRST[JUDGMENTS],
    minimum_interval_seconds=SECONDS_BETWEEN_LOOKS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def changed_files(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Load what is new in the source folders, and judge anew when a contract or setting changed.

    It waits until files have settled, and goes by their bytes: a file that was only touched, or
    written again as it was, starts nothing.
    """
    try:
        found = look(project.open(), Glance.read(context.cursor))
    except ToolscoreError as error:
        # A project file that is being edited is looked at again next time.
        return dg.SkipReason(str(error))
    cursor = found.glance.write()
    if not found.changed:
        return dg.SensorResult(skip_reason=dg.SkipReason(found.reason), cursor=cursor)
    graph = context.repository_def.asset_graph if context.repository_def else None
    keys = [
        key
        for part in found.changed
        for key in (FIRST[part].resolve(graph) if graph is not None else ())
    ]
    request = dg.RunRequest(
        run_key=f"{found.glance.changes}-{found.glance.sources[:12]}{found.glance.judgments[:12]}",
        asset_selection=sorted(keys),
        tags={"toolscore/changed": " ".join(found.changed)},
    )
    return dg.SensorResult(run_requests=[request], cursor=cursor)


# Content that changed flows on by the condition of each asset, as far as it changes something.
content_flow = dg.AutomationConditionSensorDefinition(
    "content_flow",
    target=dg.AssetSelection.all(),
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
)


@dg.multi_asset_check(
    specs=[
        dg.AssetCheckSpec(
            "it_holds_every_source_file",
            asset=PUBLISHED,
            description="Every file of the sources was read as it is now.",
            automation_condition=dg.AutomationCondition.cron_tick_passed("7 * * * *"),
        ),
        dg.AssetCheckSpec(
            "no_document_failed",
            asset=PUBLISHED,
            description="Every document that it names could be read.",
            automation_condition=dg.AutomationCondition.cron_tick_passed("7 * * * *"),
        ),
        dg.AssetCheckSpec(
            "every_run_that_has_a_contract_is_graded",
            asset=PUBLISHED,
            description="No pair of run and judgment waits for a grade.",
            automation_condition=dg.AutomationCondition.cron_tick_passed("7 * * * *"),
        ),
    ],
    can_subset=False,
)
def freshness(context: dg.AssetCheckExecutionContext, project: ProjectResource):  # type: ignore[no-untyped-def]
    """Hold the published copy against the files, so that a load that failed is seen."""
    try:
        opened = project.open()
        known = known_hashes(opened.published)
        connection = Warehouse(opened.warehouse).read()
    except ToolscoreError as error:
        raise failure(error) from None
    read = {path: (size, modified) for path, size, modified in known}
    stale = [
        file.shown
        for file in watched_files(opened)
        if file.part == SOURCES and read.get(file.shown) != (file.bytes, file.modified_ns)
    ]
    changed = datetime.fromtimestamp(opened.published.stat().st_mtime, UTC)
    with connection:
        failed = connection.execute(
            "select path, error from raw.documents where error is not null order by path"
        ).fetchall()
        pending = connection.execute("select count(*) from grades.pending").fetchone()
    waiting = int(pending[0]) if pending else 0
    for name, count, first, mend in (
        (
            "it_holds_every_source_file",
            len(stale),
            stale[:10],
            "Materialise everything, or look why the last load failed.",
        ),
        (
            "no_document_failed",
            len(failed),
            [error for _, error in failed[:10]],
            "Mend the document, or take it out of its source.",
        ),
        (
            "every_run_that_has_a_contract_is_graded",
            waiting,
            [f"{waiting:,} pairs of run and contract"][:waiting],
            "Materialise the group grades and what follows from it.",
        ),
    ):
        told = plain("; ".join(first), LONGEST_TOLD)
        yield dg.AssetCheckResult(
            asset_key=PUBLISHED,
            check_name=name,
            passed=not count,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={
                "count": count,
                "first": told,
                "published_at": changed.isoformat(timespec="seconds"),
            }
            | ({"what_to_do": mend} if count else {}),
            # The UI shows it as Markdown.
            description=f"{markdown_text(told)}. {mend}" if count else None,
        )


@dg.definitions
def automation() -> dg.Definitions:
    """All of it, with the nightly regrade of a project that asks for one.

    A regrade leaves alone what is graded already, and runs no study.
    """
    schedules = []
    cron = load_project(project_file()).regrade_cron
    if cron is not None:
        job = dg.define_asset_job(
            "regrade",
            selection=dg.AssetSelection.all() - dg.AssetSelection.groups(STUDIES),
            description="Load, grade, compare, export.",
        )
        schedules.append(
            dg.ScheduleDefinition(
                name="nightly_regrade",
                job=job,
                cron_schedule=cron,
                default_status=dg.DefaultScheduleStatus.RUNNING,
            )
        )
    return dg.Definitions(
        asset_checks=[freshness],
        schedules=schedules,
        sensors=[changed_files, content_flow],
    )
