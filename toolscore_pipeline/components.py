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

from toolscore_pipeline import pipeline
from toolscore_pipeline.errors import ToolscoreError
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
from toolscore_pipeline.runner import table_hash
from toolscore_pipeline.studies import feeding_studies
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

    source: str = ""
    full: bool = False


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
            single = [model for model in models if not pipeline.is_staged(model)]
            staged = [model for model in models if pipeline.is_staged(model)]
            assets = [
                self._assets(plan, [model], model.name, _build_one(model)) for model in single
            ]
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
                name=audit.name, asset=_key(audit.guards), description=audit.description
            )
            for audit in audits
        ]

        @dg.multi_asset(
            name=f"{self.group}_{name}",
            specs=specs,
            check_specs=checks,
            can_subset=len(specs) + len(checks) > 1,
            pool=POOL,
        )
        def build(
            context: dg.AssetExecutionContext, config: LoadConfig, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            opened = project.open()
            report = pipeline.BuildReport()
            started = time.perf_counter()
            try:
                with pipeline.open_warehouse(opened).open() as session:
                    step(session, opened, report, context)
                    seconds = time.perf_counter() - started
                    yield from _results(session, models, audits, context, seconds)
                    context.log.info(_done(report, seconds))
            except ToolscoreError as error:
                # One sentence that says what to mend, instead of a stack of frames.
                raise dg.Failure(description=str(error), allow_retries=False) from None

        return build

    def _spec(
        self, plan: Plan, model: Model, together: list[Model], after: list[dg.AssetKey]
    ) -> dg.AssetSpec:
        is_graded = model.layer == "grades"
        return dg.AssetSpec(
            key=_key(model.full_name),
            deps=[_key(name) for name in _stored_inputs(plan, model, together)] + after,
            description=_describe(model),
            group_name=self.group,
            owners=self.owners,
            kinds={"duckdb", "view" if model.kind == "view" else "table"},
            code_version=(grader_version() if is_graded else model.code_version)[:16],
            automation_condition=flow_condition(),
            metadata=_static_metadata(model),
        )


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
            deps=[_key(m.full_name) for m in upstream]
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
            opened = project.open()
            report = pipeline.BuildReport()
            try:
                with pipeline.open_warehouse(opened).open() as session:
                    version = dg.DataVersion(pipeline.marts_version(session)[:16])
                    pipeline.publish(session, report)
            except ToolscoreError as error:
                raise dg.Failure(description=str(error), allow_retries=False) from None
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
            description="The bytes of the file are those that its manifest names.",
        )
        spec = dg.AssetSpec(
            key=_export_key(export),
            deps=[_key(name) for name in inputs],
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
            context: dg.AssetExecutionContext, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            opened = project.open()
            report = pipeline.BuildReport()
            started = time.perf_counter()
            try:
                with pipeline.open_warehouse(opened).open() as session:
                    pipeline.write_exports(session, opened, report, only=export.name)
                written = pipeline.read_export(export.path)
            except ToolscoreError as error:
                raise dg.Failure(description=str(error), allow_retries=False) from None
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
    only = config.get("source") or None
    if only is not None:
        from toolscore_pipeline.errors import UsageError, unknown_name

        names = [source.name for source in project.sources]
        if only not in names:
            raise UsageError(unknown_name("source", only, names))
    pipeline.load_sources(session, project, report, full=bool(config.get("full")), only=only)
    for problem in report.problems:
        context.log.warning(f"set aside: {problem}")


def _grade(
    session: Session,
    project: Project,
    report: pipeline.BuildReport,
    context: dg.AssetExecutionContext,
) -> None:
    session.use_grader()
    started = time.perf_counter()

    def tell(done: int, total: int) -> None:
        rate = done / max(time.perf_counter() - started, 1e-9)
        context.log.info(f"graded {done} of {total} pairs, {rate:,.0f} a second")

    pipeline.grade_pending(session, report, on_graded=tell)


def _note(
    session: Session, _: Project, __: pipeline.BuildReport, context: dg.AssetExecutionContext
) -> None:
    if session.note_edition():
        context.log.info("grades are made otherwise than before; marts.flips tells what changed")


def _decide(
    session: Session, _: Project, report: pipeline.BuildReport, __: dg.AssetExecutionContext
) -> None:
    report.marts_built += pipeline.decide(session)


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
        "documents read": report.documents_read,
        "unchanged": report.documents_unchanged,
        "runs added": report.runs_added,
        "runs removed": report.runs_removed,
        "records set aside": report.rejects,
        "judgments added": report.judgments_added,
        "grades made": report.pairs_graded,
        "tables built": len(report.marts_built),
    }
    done = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    handled = max(report.runs_added, report.pairs_graded)
    rate = f", {handled / max(seconds, 1e-9):,.0f} runs a second" if handled else ""
    return f"{done or 'nothing new'} in {seconds:.2f} s{rate}"


# --- what the UI shows ----------------------------------------------------------------------------


def _key(full_name: str) -> dg.AssetKey:
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
    seconds: float,
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
    wanted, checks = context.selected_asset_keys, context.selected_asset_check_keys
    for model in models:
        key = _key(model.full_name)
        if key not in wanted:
            continue
        metadata = _row_metadata(session.store, model) | {"seconds": round(seconds, 3)}
        context.log.info(f"{model.full_name}: {metadata['dagster/row_count']} rows")
        yield dg.MaterializeResult(
            asset_key=key,
            metadata=metadata,
            data_version=dg.DataVersion(_content_version(session.store, model)),
        )
    for audit in audits:
        if dg.AssetCheckKey(_key(audit.guards), audit.name) in checks:
            yield _check_result(session.store, audit)


def _content_version(store: duckdb.DuckDBPyConnection, model: Model) -> str:
    return hashlib.sha256(table_hash(store, model).encode()).hexdigest()[:16]


def _row_metadata(store: duckdb.DuckDBPyConnection, model: Model) -> dict[str, Any]:
    row = store.execute(f"select count(*) from {model.full_name}").fetchone()
    count = int(row[0]) if row else 0
    metadata: dict[str, Any] = {"dagster/row_count": count}
    if model.layer == "marts" and model.full_name not in _PRIVATE:
        metadata["preview"] = dg.MetadataValue.md(_preview(store, model))
    if model.full_name == _DRAWN:
        metadata |= _charts(store)
    if model.full_name == "grades.grades":
        totals = store.execute(
            "select sum(pass_count), sum(fail_count), sum(unknown_count), avg(score),"
            " count(*) filter (where outcome = 'pass') / count(*) from grades.grades"
            " semi join settings.grader using (grader_version)"
        ).fetchone()
        if totals and totals[0] is not None:
            metadata |= {
                "evidence_pass": int(totals[0]),
                "evidence_fail": int(totals[1]),
                "evidence_unknown": int(totals[2]),
                "mean_score": float(totals[3]),
                "pass_rate": float(totals[4]),
            }
    return metadata


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


def _preview(store: duckdb.DuckDBPyConnection, model: Model) -> str:
    result = store.execute(f"select * from {model.full_name} limit {PREVIEW_ROWS}")
    names = [column[0] for column in result.description or []]
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    for row in result.fetchall():
        lines.append(f"| {' | '.join(_cell(value) for value in row)} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "*unknown*"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")[:80]


def _check_result(store: duckdb.DuckDBPyConnection, audit: Audit) -> dg.AssetCheckResult:
    result = store.execute(audit.query)
    names = [column[0] for column in result.description or []]
    rows = result.fetchall()
    metadata: dict[str, Any] = {"rows_against": len(rows)}
    if rows:
        shown = [
            ", ".join(f"{n} = {_cell(v)}" for n, v in zip(names, row, strict=True))
            for row in rows[:10]
        ]
        metadata["first"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in shown))
    return dg.AssetCheckResult(
        check_name=audit.name,
        asset_key=_key(audit.guards),
        passed=not rows,
        severity=dg.AssetCheckSeverity.ERROR if audit.is_error else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        description=audit.description,
    )
