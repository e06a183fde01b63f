"""The Dagster components: each turns a layer of the plan into assets, checks and their steps.

A layer's assets are declared in ``assets/<layer>/defs.yaml``; what SQL says of a model (its
description, columns, dependencies, code version) comes from its file. Every step runs the same
functions as the command line.
"""

import base64
import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import duckdb
from pydantic import Field

from toolscore_pipeline import pipeline
from toolscore_pipeline.credentials import redact_secrets
from toolscore_pipeline.errors import AuditError, ToolscoreError, UsageError, unknown_name
from toolscore_pipeline.plan import (
    Audit,
    Model,
    Plan,
    grader_version,
    load_audits,
    load_plan,
)
from toolscore_pipeline.project import (
    PROJECT_FILE,
    ExportSettings,
    Project,
    Study,
    find_project,
    load_project,
)
from toolscore_pipeline.reports.safe import markdown_text, plain
from toolscore_pipeline.runner import table_hash
from toolscore_pipeline.studies import feeding_studies
from toolscore_pipeline.telling import StepProgress, advice
from toolscore_pipeline.warehouse import Session

POOL = "duckdb"
PUBLISHED = dg.AssetKey(["published", "warehouse"])
STUDIES = "studies"
# A table of at most this many rows is shown whole in the UI.
PREVIEW_ROWS = 20

Step = Callable[[Session, Project, pipeline.BuildReport, dg.AssetExecutionContext], None]


def project_file() -> Path:
    """The project file that the assets are about.

    ``TOOLSCORE_PROJECT`` names it; without that variable it is looked for upward from the current
    folder, and where there is none the example project is shown.
    """
    named = os.environ.get("TOOLSCORE_PROJECT")
    if named:
        return Path(named)
    from toolscore_pipeline.cli.demo import example_folder

    return find_project() or example_folder("helpdesk") / PROJECT_FILE


class ProjectResource(dg.ConfigurableResource[Any]):
    """The project whose warehouse the assets are about."""

    file: str

    def open(self) -> Project:
        """Read the project file."""
        from toolscore_pipeline.project import open_project

        return open_project(self.file)


class LoadConfig(dg.Config):
    """Settings of one load.

    Attributes:
        source: load only this source; empty loads all.
        full: read every document again, changed or not.
    """

    source: str = Field("", description="Load only this source; empty loads all.")
    full: bool = Field(False, description="Read every document again, changed or not.")


class GradeConfig(dg.Config):
    """Settings of one grading.

    Attributes:
        source: grade only runs of this source; empty grades all.
        contract: grade only what is held against the contract of this name; empty grades all.
        full: grade these pairs anew, also those that have a grade.
    """

    source: str = Field("", description="Grade only runs of this source; empty grades all.")
    contract: str = Field(
        "",
        description=(
            "Grade only what is held against the contract of this name (its file name without the"
            " ending); empty grades all."
        ),
    )
    full: bool = Field(
        False, description="Grade these pairs anew, also those that have a grade already."
    )


class ExportConfig(dg.Config):
    """Settings of one export.

    Attributes:
        full: write the file also where nothing has changed.
    """

    full: bool = Field(False, description="Write the file also where nothing has changed.")


def failure(error: ToolscoreError) -> dg.Failure:
    """A step that could not go on: what is wrong and what to do, instead of a stack of frames."""
    told = redact_secrets(str(error))
    return dg.Failure(description=f"{told}\n{advice(error)}", allow_retries=False)


@dataclass
class Layer(dg.Component, dg.Resolvable):
    """The stored models of one or more layers, built together by one step.

    Attributes:
        step: what is run: ``judge``, ``load``, ``grade`` and ``note`` build all the models of the
            layers at once; ``models`` builds each on its own, save those that Python decides
            together.
        layers: the layers of the plan.
        group: the group shown in the UI.
        owners: who answers for the assets.
        leave_out: full names of models that are built elsewhere.
        only: full names of the models that are built here; empty for all of the layers.
    """

    step: Literal["judge", "load", "grade", "note", "models"]
    layers: list[str]
    group: str
    owners: list[str] = field(default_factory=list)
    leave_out: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The assets and checks of the layers."""
        plan = load_plan()
        models = [
            model
            for model in plan.layer(*self.layers)
            if model.kind != "ephemeral"
            and model.full_name not in self.leave_out
            and (not self.only or model.full_name in self.only)
        ]
        if self.step == "models":
            views = [model for model in models if model.kind == "view"]
            staged = [model for model in models if pipeline.is_staged(model)]
            single = [model for model in models if model not in (*views, *staged)]
            assets = [
                self._assets(plan, [model], model.name, _build_one(model)) for model in single
            ]
            if views:
                # A view is there when the warehouse is: nothing is left to do but to look at it.
                assets.append(self._assets(plan, views, "views", _look))
            if staged:
                assets.append(self._assets(plan, staged, "decide", _decide))
        else:
            assets = [self._assets(plan, models, self.step, _STEPS[self.step])]
        return dg.Definitions(assets=assets)

    def _assets(
        self, plan: Plan, models: list[Model], name: str, step: Step
    ) -> dg.AssetsDefinition:
        audits = [a for a in load_audits() if a.guards in {model.full_name for model in models}]
        # The rows of studies are loaded, so a load that is run together with them comes after.
        loaded = feeding_studies(load_project(project_file())) if self.step == "load" else []
        after = [study_key(study) for study in loaded]
        specs = [self._spec(plan, model, models, after) for model in models]
        checks = [
            dg.AssetCheckSpec(
                name=audit.name,
                asset=model_key(audit.guards),
                description=f"{audit.description} When it fails: {audit.mend}",
                # What is further down in the same run is not made of rows that are wrong.
                blocking=audit.is_error,
            )
            for audit in audits
        ]

        def work(
            context: dg.AssetExecutionContext, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            report = pipeline.BuildReport()
            started = time.perf_counter()
            try:
                opened = project.open()
                with pipeline.open_warehouse(opened).open() as session:
                    # Whoever asks for checks alone wants to know how it stands.
                    if context.selected_asset_keys:
                        step(session, opened, report, context)
                    seconds = time.perf_counter() - started
                    yield from _results(session, models, audits, context, report, seconds)
                    context.log.info(_done(report, seconds))
            except AuditError as error:
                for audit in audits:
                    key = dg.AssetCheckKey(model_key(audit.guards), audit.name)
                    if audit.name == error.audit and key in context.selected_asset_check_keys:
                        rows = [list(row.items()) for row in error.rows]
                        yield _check_result(audit, rows, error.count)
                raise failure(error) from None
            except ToolscoreError as error:
                raise failure(error) from None

        return _with_config(self.step)(
            work,
            dg.multi_asset(
                name=f"{self.group}_{name}",
                specs=specs,
                check_specs=checks,
                can_subset=len(specs) + len(checks) > 1,
                pool=POOL,
            ),
        )

    def _spec(
        self, plan: Plan, model: Model, together: list[Model], after: list[dg.AssetKey]
    ) -> dg.AssetSpec:
        is_graded = model.layer == "grades"
        return dg.AssetSpec(
            key=model_key(model.full_name),
            deps=[model_key(name) for name in _stored_inputs(plan, model, together)] + after,
            description=_describe(model),
            group_name=self.group,
            owners=self.owners,
            kinds={"duckdb", "view" if model.kind == "view" else "table"},
            code_version=(grader_version() if is_graded else model.code_version)[:16],
            automation_condition=flow_condition(),
            metadata=_static_metadata(model),
        )


Work = Callable[
    [dg.AssetExecutionContext, ProjectResource],
    Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult],
]
Decorate = Callable[[Callable[..., Any]], dg.AssetsDefinition]


def _with_config(step: str) -> Callable[[Work, Decorate], dg.AssetsDefinition]:
    """What makes an asset of a step, with the settings that the launchpad offers for it."""

    def load(work: Work, decorate: Decorate) -> dg.AssetsDefinition:
        @decorate
        def build(
            context: dg.AssetExecutionContext, config: LoadConfig, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            yield from work(context, project)

        return build

    def grade(work: Work, decorate: Decorate) -> dg.AssetsDefinition:
        @decorate
        def build(
            context: dg.AssetExecutionContext, config: GradeConfig, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            yield from work(context, project)

        return build

    def plain(work: Work, decorate: Decorate) -> dg.AssetsDefinition:
        @decorate
        def build(
            context: dg.AssetExecutionContext, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            yield from work(context, project)

        return build

    return {"load": load, "grade": grade}.get(step, plain)


def flow_condition() -> dg.AutomationCondition[Any]:
    """Run when missing, when the formula changed or when an input's content did: not otherwise.

    An input that was built again to the same content starts nothing. What is further down comes in
    the same run as what is nearer.
    """
    changed = dg.AutomationCondition.any_deps_match(
        dg.AutomationCondition.data_version_changed() | dg.AutomationCondition.will_be_requested()
    )
    due: dg.AutomationCondition[Any] = (
        dg.AutomationCondition.newly_missing()
        | dg.AutomationCondition.code_version_changed()
        | changed
    )
    return (
        due.since_last_handled()
        # A study that was never run is nothing to wait for: its rows may be there, or never come.
        & ~dg.AutomationCondition.any_deps_missing().ignore(dg.AssetSelection.groups(STUDIES))
        & ~dg.AutomationCondition.any_deps_in_progress()
        & ~dg.AutomationCondition.in_progress()
    ).with_label("content or formula changed")


@dataclass
class Publisher(dg.Component, dg.Resolvable):
    """The published copy of the warehouse, replaced in one step.

    Attributes:
        group: the group shown in the UI.
        owners: who answers for it.
        after: layers that come first; the exports of the project do too.
    """

    group: str
    owners: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The one asset ``published/warehouse``."""
        plan = load_plan()
        upstream = [m for m in plan.layer(*self.after) if m.kind != "ephemeral"]
        exports = load_project(project_file()).exports

        @dg.asset(
            key=PUBLISHED,
            deps=[model_key(m.full_name) for m in upstream]
            + [_export_key(export) for export in exports],
            group_name=self.group,
            owners=self.owners,
            kinds={"duckdb"},
            pool=POOL,
            automation_condition=flow_condition(),
            description=(
                "A read-only copy of the warehouse for readers, replaced whole: whoever reads it"
                " never meets a half-written table nor blocks the writer."
            ),
        )
        def warehouse(
            context: dg.AssetExecutionContext, project: ProjectResource
        ) -> dg.MaterializeResult[Any]:
            report = pipeline.BuildReport()
            try:
                opened = project.open()
                with pipeline.open_warehouse(opened).open() as session:
                    version = dg.DataVersion(pipeline.marts_version(session)[:16])
                    pipeline.publish(session, report)
            except ToolscoreError as error:
                raise failure(error) from None
            size = opened.published.stat().st_size
            return dg.MaterializeResult(
                metadata={"path": dg.MetadataValue.path(str(opened.published)), "bytes": size},
                data_version=version,
            )

        return dg.Definitions(assets=[warehouse])


@dataclass
class Exports(dg.Component, dg.Resolvable):
    """The exports of the project file: an asset for each, which is a file and its manifest.

    Attributes:
        group: the group shown in the UI.
        owners: who answers for them.
    """

    group: str
    owners: list[str] = field(default_factory=list)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """One asset ``exports/<name>`` for each export."""
        plan = load_plan()
        models = plan.layer("exports")
        inputs = sorted({name for model in models for name in _stored_inputs(plan, model, [])})
        return dg.Definitions(
            assets=[
                self._asset(export, number, inputs)
                for number, export in enumerate(load_project(project_file()).exports)
            ]
        )

    def _asset(self, export: ExportSettings, number: int, inputs: list[str]) -> dg.AssetsDefinition:
        check = dg.AssetCheckSpec(
            name="records_have_the_hash_in_the_manifest",
            asset=_export_key(export),
            description=(
                "The bytes of the file are those that its manifest names. When it fails: something"
                " else has written the file; materialise the export with full: true."
            ),
        )
        spec = dg.AssetSpec(
            key=_export_key(export),
            deps=[model_key(name) for name in inputs],
            description=f"Run records of the project, in `{export.path.name}`, and their manifest.",
            group_name=self.group,
            owners=self.owners,
            kinds={"file"},
            code_version=pipeline.export_version()[:16],
            automation_condition=flow_condition(),
        )

        @dg.multi_asset(
            name=f"export_{number}_{re.sub(r'[^A-Za-z0-9_]', '_', export.name)}",
            specs=[spec],
            check_specs=[check],
            can_subset=True,
            pool=POOL,
        )
        def write(
            context: dg.AssetExecutionContext, config: ExportConfig, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            report = pipeline.BuildReport()
            started = time.perf_counter()
            try:
                if context.selected_asset_keys:
                    opened = project.open()
                    with pipeline.open_warehouse(opened).open() as session:
                        pipeline.write_exports(
                            session, opened, report, only=export.name, again=config.full
                        )
                written = pipeline.read_export(export.path)
            except ToolscoreError as error:
                raise failure(error) from None
            seconds = time.perf_counter() - started
            context.log.info(
                f"{written.count} records, {written.bytes:,} bytes in {export.path.name}"
                + (f", written in {seconds:.2f} s" if report.exports else ": unchanged")
            )
            if context.selected_asset_keys:
                yield dg.MaterializeResult(
                    asset_key=_export_key(export),
                    metadata={
                        "dagster/row_count": written.count,
                        "path": dg.MetadataValue.path(str(export.path)),
                        "bytes": written.bytes,
                        "sha256": written.sha256,
                    },
                    data_version=dg.DataVersion(written.sha256[:16]),
                )
            if context.selected_asset_check_keys:
                yield dg.AssetCheckResult(
                    check_name=check.name,
                    asset_key=_export_key(export),
                    passed=written.is_whole,
                    metadata={
                        "sha256": written.sha256,
                        "manifest_sha256": written.recorded_sha256,
                    },
                )

        return write


def study_key(study: Study) -> dg.AssetKey:
    """The key of a study's asset."""
    return dg.AssetKey([STUDIES, study.name])


def _export_key(export: ExportSettings) -> dg.AssetKey:
    return dg.AssetKey(["exports", export.name])


# --- steps ----------------------------------------------------------------------------------------


def _judge(
    session: Session, project: Project, report: pipeline.BuildReport, _: dg.AssetExecutionContext
) -> None:
    pipeline.load_judgments(session, project.bindings(), report)
    session.replace_settings({"settings.comparisons": pipeline.comparison_settings(project)})
    session.use_grader()


def _load(
    session: Session,
    project: Project,
    report: pipeline.BuildReport,
    context: dg.AssetExecutionContext,
) -> None:
    config = context.op_execution_context.op_config or {}
    load(session, project, report, context.log, config.get("source"), full=config.get("full"))


def _grade(
    session: Session,
    project: Project,
    report: pipeline.BuildReport,
    context: dg.AssetExecutionContext,
) -> None:
    config = context.op_execution_context.op_config or {}
    source, contract = config.get("source"), config.get("contract")
    grade(session, project, report, context.log, source, contract, again=config.get("full"))


def load(
    session: Session,
    project: Project,
    report: pipeline.BuildReport,
    log: dg.DagsterLogManager,
    source: str | None = None,
    *,
    full: bool | None = False,
) -> None:
    """Load one source or all, and tell the log how far it has come.

    Raises:
        UsageError: no source has this name.
    """
    if source:
        _known("source", source, [known.name for known in project.sources])
    tell = StepProgress(log.info).loaded
    pipeline.load_sources(
        session, project, report, full=bool(full), only=source or None, on_progress=tell
    )
    for problem in report.problems:
        log.warning(f"set aside: {problem}")


def grade(
    session: Session,
    project: Project,
    report: pipeline.BuildReport,
    log: dg.DagsterLogManager,
    source: str | None = None,
    contract: str | None = None,
    *,
    again: bool | None = False,
) -> None:
    """Grade what waits, of one source and one contract or of all, and tell how far it has come.

    Raises:
        UsageError: no source or contract has this name.
    """
    if source:
        _known("source", source, [known.name for known in project.sources])
    if contract:
        names = session.store.execute("select distinct name from judgment.bindings").fetchall()
        _known("contract", contract, sorted(name for (name,) in names))
    session.use_grader()
    pipeline.grade_pending(
        session,
        report,
        on_graded=StepProgress(log.info).graded,
        source=source or None,
        contract=contract or None,
        again=bool(again),
    )
    waiting = session.count_pending()
    if waiting:
        log.warning(f"{waiting:,} other pairs of run and contract still wait for their grade")


def _known(what: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise UsageError(unknown_name(what, name, names))


def _note(
    session: Session, _: Project, __: pipeline.BuildReport, context: dg.AssetExecutionContext
) -> None:
    waiting = session.count_pending()
    if waiting:
        # What a regrade changed is told from one whole grading to the next.
        context.log.warning(
            f"{waiting:,} pairs of run and contract wait for their grade; marts.flips goes on when"
            " all are graded: materialise the group grades without source and contract"
        )
    elif session.note_edition():
        context.log.info("grades are made otherwise than before; marts.flips tells what changed")


def _decide(
    session: Session, _: Project, report: pipeline.BuildReport, __: dg.AssetExecutionContext
) -> None:
    report.marts_built += pipeline.decide(session)


def _look(_: Session, __: Project, ___: pipeline.BuildReport, ____: Any) -> None:
    """Nothing to build."""


def _build_one(model: Model) -> Step:
    def step(
        session: Session, _: Project, report: pipeline.BuildReport, __: dg.AssetExecutionContext
    ) -> None:
        if model.kind == "table":
            session.build_table(model.full_name)
        report.marts_built.append(model.full_name)

    return step


_STEPS: Mapping[str, Step] = {
    "judge": _judge,
    "load": _load,
    "grade": _grade,
    "note": _note,
}


def _done(report: pipeline.BuildReport, seconds: float) -> str:
    """What a step did, how long it took and, where it can be said, how fast it was."""
    counts = {
        ("document", "read"): report.documents_read,
        ("document", "unchanged"): report.documents_unchanged,
        ("run", "added"): report.runs_added,
        ("run", "removed"): report.runs_removed,
        ("record", "set aside"): report.rejects,
        ("judgment", "added"): report.judgments_added,
        ("grade", "made"): report.pairs_graded,
        ("table", "built"): len(report.marts_built),
    }
    done = ", ".join(
        f"{pipeline.counted(count, noun)} {verb}" for (noun, verb), count in counts.items() if count
    )
    handled = max(report.runs_added, report.pairs_graded)
    rate = f", {handled / max(seconds, 1e-9):,.0f} runs a second" if handled else ""
    return f"{done or 'nothing new'} in {seconds:.2f} s{rate}"


# --- what the UI shows ----------------------------------------------------------------------------


def model_key(full_name: str) -> dg.AssetKey:
    """The asset of a model: ``layer/name``."""
    return dg.AssetKey(full_name.split("."))


def _stored_inputs(plan: Plan, model: Model, together: Iterable[Model]) -> list[str]:
    """The stored models that a model reads, through the ephemeral ones; its companions left out."""
    companions = {other.full_name for other in together}
    found: set[str] = set()
    todo, seen = list(model.depends_on), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in plan and plan[name].kind == "ephemeral":
            todo.extend(plan[name].depends_on)
        elif name in plan and name not in companions:
            found.add(name)
        elif name == "work.pairs":
            todo += ["grades.pending", "judgment.applicable"]
    return sorted(found - companions - {"grades.pending"})


def _describe(model: Model) -> str:
    facts = "\n".join(
        f"- **{key}**: {value}" for key, value in model.header.items() if key not in ("kind", "key")
    )
    return f"{model.description}\n\n{facts}\n\n```sql\n{model.query}\n```"


def _static_metadata(model: Model) -> dict[str, Any]:
    schema = dg.TableSchema(
        columns=[
            dg.TableColumn(name=column.name, type=column.type, description=column.comment)
            for column in model.columns
        ]
    )
    metadata: dict[str, Any] = {
        "dagster/column_schema": schema,
        "dagster/table_name": model.full_name,
    }
    if model.path is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # code references are marked beta
            reference = dg.LocalFileCodeReference(file_path=str(model.path), line_number=1)
            references = dg.CodeReferencesMetadataValue(code_references=[reference])
        metadata["dagster/code_references"] = references
    return metadata


def _results(
    session: Session,
    models: list[Model],
    audits: list[Audit],
    context: dg.AssetExecutionContext,
    report: pipeline.BuildReport,
    seconds: float,
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
    wanted, checks = context.selected_asset_keys, context.selected_asset_check_keys
    for model in models:
        key = model_key(model.full_name)
        if key not in wanted:
            continue
        metadata = row_metadata(session.store, model) | {"seconds": round(seconds, 3)}
        if model.full_name == "grades.grades":
            metadata["graded_now"] = report.pairs_graded
        count = metadata["dagster/row_count"]
        context.log.info(f"{model.full_name}: {count:,} {'row' if count == 1 else 'rows'}")
        yield dg.MaterializeResult(
            asset_key=key,
            metadata=metadata,
            data_version=dg.DataVersion(content_version(session.store, model)),
        )
    for audit in audits:
        if dg.AssetCheckKey(model_key(audit.guards), audit.name) in checks:
            result = session.store.execute(audit.query)
            names = [column[0] for column in result.description or []]
            rows = result.fetchall()
            shown = [list(zip(names, row, strict=True)) for row in rows[:ROWS_TOLD]]
            yield _check_result(audit, shown, len(rows))


def content_version(store: duckdb.DuckDBPyConnection, model: Model) -> str:
    """The data version of a model: a hash of its rows."""
    return hashlib.sha256(table_hash(store, model).encode()).hexdigest()[:16]


def row_metadata(store: duckdb.DuckDBPyConnection, model: Model) -> dict[str, Any]:
    """What the UI shows of a model's rows: their count, its figures, the first of a mart's."""
    row = store.execute(f"select count(*) from {model.full_name}").fetchone()
    count = int(row[0]) if row else 0
    metadata: dict[str, Any] = {"dagster/row_count": count}
    if model.layer == "marts" and model.full_name not in _PRIVATE:
        metadata["preview"] = dg.MetadataValue.md(_preview(store, model))
    if model.full_name == _DRAWN:
        metadata |= _charts(store)
    return metadata | _figures(store, model.full_name)


# Figures that the UI draws over time, by model: one row of them, or rows of a name and a number.
# A number that is unknown is left out.
_FIGURES = {
    "raw.documents": """
        select count(*) filter (where error is not null) as unreadable_documents
        from raw.documents
    """,
    "evidence.runs": """
        select 'runs of ' || source as name, count(*) as number
        from evidence.runs
        group by all order by all
    """,
    "grades.grades": """
        select
            sum(pass_count)::bigint as evidence_pass,
            sum(fail_count)::bigint as evidence_fail,
            sum(unknown_count)::bigint as evidence_unknown,
            avg(score) as mean_score,
            count(*) filter (where outcome = 'pass') / nullif(count(*), 0) as pass_rate,
        from grades.grades
        semi join settings.grader using (grader_version)
    """,
    "grades.checks": """
        select check_name || ': ' || status as name, count(*) as number
        from grades.checks
        semi join settings.grader using (grader_version)
        group by all order by all
    """,
    "marts.latest_grades": """
        select 'outcome ' || outcome as name, count(*) as number
        from marts.latest_grades
        group by all order by all
    """,
    "marts.flips": """
        select
            count(*) filter (where is_flip) as flips,
            count(*) filter (where is_flip and after_outcome = 'pass') as flips_to_pass,
            count(*) filter (where is_flip and before_outcome = 'pass') as flips_from_pass,
            count(*) as changed_grades,
        from marts.flips
        where is_latest
    """,
}


def _figures(store: duckdb.DuckDBPyConnection, full_name: str) -> dict[str, Any]:
    query = _FIGURES.get(full_name)
    if query is None:
        return {}
    result = store.execute(query)
    names = [column[0] for column in result.description or []]
    rows = result.fetchall()
    pairs = rows if names == ["name", "number"] else zip(names, rows[0], strict=True)
    return {str(name): number for name, number in pairs if number is not None}


# The mart that pictures are shown with, and of how many comparisons.
_DRAWN = "marts.variant_stats"
MOST_COMPARISONS_DRAWN = 6


def _charts(store: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Pictures of the comparisons, as Markdown; none of those that have no data."""
    from toolscore_pipeline import charts
    from toolscore_pipeline.stats.marts import read_comparisons

    drawn = {}
    for one in read_comparisons(store)[:MOST_COMPARISONS_DRAWN]:
        for name, picture in charts.all_charts(one.comparison, "png").items():
            text = base64.b64encode(picture).decode()
            drawn[f"{one.name}: {name}"] = dg.MetadataValue.md(
                f"![{name}](data:image/png;base64,{text})"
            )
    return drawn


# Marts whose rows may quote what agents or people wrote; they are not shown in asset metadata.
_PRIVATE = ("marts.comparison_reports",)


def _is_private(column: str) -> bool:
    """Whether a column holds part of a credential, or a document too long for a table."""
    return column == "preview" or column.endswith("_json")


def _preview(store: duckdb.DuckDBPyConnection, model: Model) -> str:
    shown = [f'"{name}"' for name in model.column_names if not _is_private(name)]
    # A view has an order of its own where order is its point; the rows of a table lie anyhow.
    order = "" if model.kind == "view" else "order by all "
    result = store.execute(
        f"select {', '.join(shown)} from {model.full_name} {order}limit {PREVIEW_ROWS}"
    )
    names = [column[0] for column in result.description or []]
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    for row in result.fetchall():
        lines.append(f"| {' | '.join(_cell(value) for value in row)} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    """A value as Markdown: a name out of a trace is no link, and no picture that is fetched."""
    if value is None:
        return "*unknown*"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return markdown_text(plain(text, LONGEST_CELL))


# Rows against an audit that its check shows, and the characters of a value that are.
ROWS_TOLD = 10
LONGEST_CELL = 80


def _check_result(
    audit: Audit, rows: list[list[tuple[str, Any]]], count: int
) -> dg.AssetCheckResult:
    """The result of an audit's check: why it failed, the first rows against it, what to do."""
    metadata: dict[str, Any] = {"rows_against": count}
    description = audit.description
    if count:
        told = [", ".join(f"{name} = {_cell(value)}" for name, value in row) for row in rows]
        metadata["first"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in told))
        metadata["what_to_do"] = audit.mend
        rows_are = "1 row is" if count == 1 else f"{count:,} rows are"
        description = f"{rows_are} against it: {told[0]}. {audit.mend}"
    return dg.AssetCheckResult(
        check_name=audit.name,
        asset_key=model_key(audit.guards),
        passed=not count,
        severity=dg.AssetCheckSeverity.ERROR if audit.is_error else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        description=description,
    )
