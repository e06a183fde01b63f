"""One source at a time: a job with a partition for each source of the project, and its backfills.

The tables hold the runs of all sources, so they are no partitioned assets themselves: everything
is still materialised by one button. A partition of this job reads one source again, every document
of it, and grades its runs. What is recorded is found by its content, so a backfill that is run
twice leaves the same rows.
"""

from collections.abc import Iterable, Iterator

import dagster as dg

from toolscore_pipeline import pipeline
from toolscore_pipeline.components import (
    POOL,
    ProjectResource,
    content_version,
    failure,
    grade,
    load,
    model_key,
    project_file,
    row_metadata,
)
from toolscore_pipeline.errors import ToolscoreError
from toolscore_pipeline.plan import Model, load_plan
from toolscore_pipeline.project import load_project
from toolscore_pipeline.warehouse import Session


class SourceConfig(dg.Config):
    """Which source to work on."""

    source: str


@dg.op(pool=POOL, out=dg.Out(dg.Nothing), description="Read every document of the source again.")
def read_source(
    context: dg.OpExecutionContext, config: SourceConfig, project: ProjectResource
) -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
    """Load one source in full; what was read before and is there still stays as it is."""
    report = pipeline.BuildReport()
    try:
        opened = project.open()
        with pipeline.open_warehouse(opened).open() as session:
            load(session, opened, report, context.log, config.source, full=True)
            yield from _built(session, load_plan().layer("raw", "evidence"))
    except ToolscoreError as error:
        raise failure(error) from None
    context.log.info(
        f"{report.documents_read:,} documents read, {report.runs_added:,} runs added,"
        f" {report.runs_removed:,} removed"
    )
    yield dg.Output(None)


@dg.op(
    pool=POOL,
    ins={"after": dg.In(dg.Nothing)},
    out=dg.Out(dg.Nothing),
    description="Grade the runs of the source that have no grade yet.",
)
def grade_source(
    context: dg.OpExecutionContext, config: SourceConfig, project: ProjectResource
) -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
    """Grade what waits of one source under the contracts as they were judged last."""
    report = pipeline.BuildReport()
    try:
        opened = project.open()
        with pipeline.open_warehouse(opened).open() as session:
            grade(session, opened, report, context.log, config.source)
            yield from _built(session, load_plan().layer("grades"))
    except ToolscoreError as error:
        raise failure(error) from None
    context.log.info(f"{report.pairs_graded:,} grades made")
    yield dg.Output(None)


def _built(session: Session, models: Iterable[Model]) -> Iterator[dg.AssetMaterialization]:
    """What stands in the tables now, so that content flows on from there if it is other."""
    for model in models:
        if model.kind in ("table", "incremental"):
            yield dg.AssetMaterialization(
                asset_key=model_key(model.full_name),
                metadata=row_metadata(session.store, model),
                tags={"dagster/data_version": content_version(session.store, model)},
            )


def _is_partition_name(name: str) -> bool:
    """Whether Dagster takes a name as a partition's: not one with ``...`` or a line break."""
    try:
        dg.StaticPartitionsDefinition([name])
    except dg.DagsterInvalidDefinitionError:
        return False
    return True


@dg.definitions
def by_source() -> dg.Definitions:
    """The job ``one_source``; none for a project without sources."""
    sources = load_project(project_file()).sources
    names = [source.name for source in sources if _is_partition_name(source.name)]
    if not names:
        return dg.Definitions()

    def settings(source: str) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
        config = {"config": {"source": source}}
        return {"ops": {"read_source": config, "grade_source": config}}

    @dg.job(
        description=(
            "Read one source again in full and grade its runs; a partition for each source."
            " Launch it for some or all under Partitions. Twice is the same as once."
        ),
        config=dg.PartitionedConfig(
            partitions_def=dg.StaticPartitionsDefinition(names),
            run_config_for_partition_key_fn=settings,
        ),
        executor_def=dg.in_process_executor,
    )
    def one_source() -> None:
        grade_source(after=read_source())

    return dg.Definitions(jobs=[one_source])
