"""Agent studies of a project: what is left of one, whether it may run, and how it stands.

A study runs as ``toolscore agent run`` does: what has a row is never run again. Models that cost
money are called only where the project says so, and only under a budget.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import SettingsError, UsageError, unknown_name
from toolscore_pipeline.hashing import file_sha256
from toolscore_pipeline.loading import Source

if TYPE_CHECKING:
    from toolscore_pipeline.agent.spec import AgentSpec, Arm, Cell, Task
    from toolscore_pipeline.agent.study import Progress, ProviderFactory, StudyResult
    from toolscore_pipeline.project import Project, Study

FREE_PROVIDER = "scripted"
"""The provider that calls no model."""


@dataclass(frozen=True, slots=True)
class StudyState:
    """How a study stands after it was run.

    Attributes:
        name: the study's name in the project.
        planned: runs of the whole study.
        made: runs made just now.
        remaining: runs that are still to be made.
        outcomes: how many rows of the file have each outcome; every outcome is a key.
        cost_usd: the sum of the costs that are known, in US dollars.
        unknown_costs: rows whose cost is not known, and is not in that sum.
        spent_usd: what all runs are counted as against the budget, in US dollars: a call whose bill
            is not known counts as its worst case.
        max_usd: the budget; None for none.
        stopped: why the budget stopped the study; None when it did not.
        sha256: the hash of the file of rows; None when there is none.
    """

    name: str
    planned: int
    made: int
    remaining: int
    outcomes: dict[str, int]
    cost_usd: float
    unknown_costs: int
    spent_usd: float
    max_usd: float | None
    stopped: str | None
    sha256: str | None

    def sentence(self) -> str:
        """What came of it, in one sentence."""
        cap = "" if self.max_usd is None else f" of ${self.max_usd:g}"
        spent = f"${self.spent_usd:.4f}{cap} spent"
        if self.stopped is not None:
            return (
                f"the budget stopped the study {self.name!r}: {spent}, {self.remaining} of"
                f" {self.planned} runs left"
            )
        return (
            f"the study {self.name!r}: {self.made} runs made now, {self.remaining} of"
            f" {self.planned} left, {spent}"
        )


def find_study(project: Project, name: str) -> Study:
    """The study of a project by its name.

    Raises:
        UsageError: there is none.
    """
    for study in project.studies:
        if study.name == name:
            return study
    names = [study.name for study in project.studies]
    raise UsageError(unknown_name("study", name, names))


def run_project_study(
    study: Study,
    *,
    progress: Progress | None = None,
    provider_factory: ProviderFactory | None = None,
) -> StudyState:
    """Run what is missing of a study and say how it stands.

    Args:
        study: the study.
        progress: told of every row once it is written.
        provider_factory: makes the provider of a paid arm and task; None uses the SDKs.

    Raises:
        SettingsError: it would call a paid model without leave or without a budget, or a price,
            key or package is missing; nothing was run then.
        BuildError, MCPServerError: the server is not the build that is meant, or does not start.
        InputError: the spec is wrong, or the file of rows holds something else or is being written.
    """
    from toolscore_pipeline.agent.spec import load_agent_spec
    from toolscore_pipeline.agent.study import run_study

    spec = load_agent_spec(study.spec)
    refusal = why_refused(study, spec)
    if refusal is not None:
        raise SettingsError(refusal)
    study.output.parent.mkdir(parents=True, exist_ok=True)
    result = run_study(
        spec,
        study.output,
        provider_factory=provider_factory if study.allow_paid else _only_scripted,
        concurrency=study.concurrency,
        progress=progress,
    )
    return _state(study, spec, result)


def look_at_study(study: Study) -> StudyState:
    """How a study stands; nothing is run.

    Raises:
        InputError: the spec is wrong, or the ledger of what was spent cannot be read.
    """
    from toolscore_pipeline.agent.budget import LEDGER_SUFFIX, FileLedger
    from toolscore_pipeline.agent.spec import load_agent_spec
    from toolscore_pipeline.agent.study import StudyResult

    spec = load_agent_spec(study.spec)
    rows = _rows(study.output)
    ledger = FileLedger(f"{study.output}{LEDGER_SUFFIX}")
    spent = float(ledger.spent_without({str(row.get("run_id")) for row in rows}))
    for row in rows:
        counted = row.get("counted_usd")
        spent += (row.get("cost_usd") if counted is None else counted) or 0
    return _state(study, spec, StudyResult(planned=len(spec.cells()), spent_usd=spent))


def missing_cells(study: Study, spec: AgentSpec) -> list[Cell]:
    """The runs of a study that have no row yet; the file of rows is only looked at."""
    done = {row.get("cell_id") for row in _rows(study.output)}
    return [cell for cell in spec.cells() if cell.id not in done]


def why_refused(study: Study, spec: AgentSpec) -> str | None:
    """Why a study may not run what is missing of it, in one sentence; None when it may.

    What is finished is never refused, for it calls nothing.
    """
    paid = {
        cell.arm.id: f"{cell.arm.id} ({cell.arm.provider} {cell.arm.model})"
        for cell in missing_cells(study, spec)
        if cell.arm.provider != FREE_PROVIDER
    }
    if not paid:
        return None
    arms = ", ".join(paid.values())
    if not study.allow_paid:
        return (
            f"the study {study.name!r} would call paid models, {arms}: set its allow_paid to true"
            " in the project file, or run it with `toolscore agent run`"
        )
    if spec.max_usd is None:
        return (
            f"the study {study.name!r} would call paid models, {arms}, without a budget: give"
            f" budget.max_usd in {study.spec.name}"
        )
    return None


def _only_scripted(arm: Arm, task: Task) -> Any:
    """The provider of a study that may not pay: no other can be made."""
    from toolscore_pipeline.agent.providers import ScriptedProvider

    if arm.provider != FREE_PROVIDER:
        raise SettingsError(f"the arm {arm.id} calls a paid model, which is not allowed here")
    return ScriptedProvider(task.script(arm.id) or (), arm.model)


def _state(study: Study, spec: AgentSpec, result: StudyResult) -> StudyState:
    from toolscore_pipeline.agent.study import OUTCOMES

    rows = _rows(study.output)
    outcomes = Counter(row.get("outcome") for row in rows)
    costs = [row.get("cost_usd") for row in rows]
    known = [cost for cost in costs if cost is not None]
    return StudyState(
        name=study.name,
        planned=result.planned,
        made=len(result.rows),
        remaining=len(missing_cells(study, spec)),
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES},
        cost_usd=sum(known),
        unknown_costs=len(costs) - len(known),
        spent_usd=result.spent_usd,
        max_usd=spec.max_usd,
        stopped=result.stopped,
        sha256=file_sha256(study.output)[0] if study.output.is_file() else None,
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that are whole; what is wrong with others is said when the study runs."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


# --- what reads the rows --------------------------------------------------------------------------


def reading_sources(project: Project, study: Study) -> list[str]:
    """The names of the project's sources whose path takes in the study's file, there or not yet.

    Queries are left out: what they read is not known.
    """
    return [source.name for source in project.sources if _takes_in(source, study.output)]


def feeding_studies(project: Project) -> list[Study]:
    """The studies whose rows a load of the project reads, or may read through a query."""
    has_queries = any(source.query is not None for source in project.sources)
    return [study for study in project.studies if has_queries or reading_sources(project, study)]


def _takes_in(source: Source, file: Path) -> bool:
    """Whether a source reads a file of rows of this name: by its path, its folder or its glob."""
    if source.path is None:
        return False
    wanted = Path(os.path.normpath(file))
    place = Path(os.path.normpath((source.root or Path()) / source.path))
    if place == wanted:
        return True
    if has_magic(source.path) and not place.exists():
        return _matches(wanted.parts, place.parts)
    return wanted.is_relative_to(place) and not wanted.name.startswith(".")


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches a glob part by part, as :func:`glob.glob` finds files."""
    if not pattern:
        return not parts
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        for skipped in range(len(parts) + 1):
            if any(part.startswith(".") for part in parts[:skipped]):
                return False
            if _matches(parts[skipped:], rest):
                return True
        return False
    if not parts or (parts[0].startswith(".") and not first.startswith(".")):
        return False
    return fnmatchcase(parts[0], first) and _matches(parts[1:], rest)
