"""The Dagster component of the project's agent studies: an asset for each."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from toolscore_pipeline.components import ProjectResource, project_file, study_key
from toolscore_pipeline.errors import ToolscoreError
from toolscore_pipeline.hashing import file_sha256
from toolscore_pipeline.project import Study, load_project
from toolscore_pipeline.studies import StudyState, find_study, look_at_study, run_project_study

CHECK = "every_run_was_made"


@dataclass
class Studies(dg.Component, dg.Resolvable):
    """The agent studies of the project file: an asset for each, which is its file of rows.

    None runs by itself: a study is materialised by hand, or by a job that selects it.

    Attributes:
        group: the group shown in the UI.
        owners: who answers for them.
    """

    group: str
    owners: list[str] = field(default_factory=list)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """One asset ``studies/<name>`` for each study."""
        studies = load_project(project_file()).studies
        return dg.Definitions(
            assets=[self._asset(study, number) for number, study in enumerate(studies)]
        )

    def _asset(self, study: Study, number: int) -> dg.AssetsDefinition:
        name, key = study.name, study_key(study)
        slug = f"study_{number}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
        check = dg.AssetCheckSpec(
            name=CHECK,
            asset=key,
            description="No run of the study is left to be made: the budget did not stop it.",
        )
        spec = dg.AssetSpec(
            key=key,
            description=(
                f"Runs of the agent study `{study.spec.name}`, one row each, in"
                f" `{study.output.name}`. What is missing is run; what is there is kept."
            ),
            group_name=self.group,
            owners=self.owners,
            kinds={"file"},
            code_version=file_sha256(study.spec)[0][:16],
        )

        @dg.multi_asset(name=slug, specs=[spec], check_specs=[check], can_subset=True, pool=slug)
        def run(
            context: dg.AssetExecutionContext, project: ProjectResource
        ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
            from toolscore_pipeline.cli.agent import progress_line

            started = time.perf_counter()
            try:
                opened = find_study(project.open(), name)
                # Whoever asks for the check alone wants to know how it stands, and to pay nothing.
                is_run = key in context.selected_asset_keys
                state = (
                    run_project_study(
                        opened, progress=lambda row: context.log.info(progress_line(row).strip())
                    )
                    if is_run
                    else look_at_study(opened)
                )
            except ToolscoreError as error:
                # One sentence that says what to mend, and no second try: a try may cost money.
                raise dg.Failure(description=str(error), allow_retries=False) from None
            context.log.info(state.sentence())
            if is_run:
                if state.sha256 is None:
                    raise dg.Failure(description=state.sentence(), allow_retries=False)
                yield dg.MaterializeResult(
                    asset_key=key,
                    metadata=_metadata(opened, state)
                    | {"seconds": round(time.perf_counter() - started, 3)},
                    data_version=dg.DataVersion(state.sha256[:16]),
                )
            if dg.AssetCheckKey(key, CHECK) in context.selected_asset_check_keys:
                yield dg.AssetCheckResult(
                    check_name=CHECK,
                    asset_key=key,
                    passed=state.remaining == 0,
                    severity=dg.AssetCheckSeverity.ERROR,
                    description=state.sentence(),
                    metadata={"runs_left": state.remaining, "spent_usd": state.spent_usd},
                )

        return run


def _metadata(study: Study, state: StudyState) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "dagster/row_count": sum(state.outcomes.values()),
        "path": dg.MetadataValue.path(str(study.output)),
        "runs": state.planned,
        "runs_made_now": state.made,
        "runs_left": state.remaining,
        "cost_usd": state.cost_usd,
        "runs_of_unknown_cost": state.unknown_costs,
        "spent_usd": state.spent_usd,
    }
    if state.max_usd is not None:
        metadata["max_usd"] = state.max_usd
    return metadata | {f"outcome_{name}": count for name, count in state.outcomes.items()}
