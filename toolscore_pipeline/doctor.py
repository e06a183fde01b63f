"""Preflight: everything that can be checked before a paid call, and nothing that is paid.

Each check is ``pass``, ``warn``, ``fail``, ``unknown`` or ``skip``. Keys are looked at by name
only: whether a variable is set, never what it holds.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolscore_pipeline.errors import ToolscoreError

if TYPE_CHECKING:
    from toolscore_pipeline.agent.mcp_client import MCPServerSpec
    from toolscore_pipeline.agent.spec import AgentSpec, Verify
    from toolscore_pipeline.project import Binding, Project

Status = Literal["pass", "warn", "fail", "unknown", "skip"]
"""What a check can come to."""

STATUSES: tuple[Status, ...] = ("pass", "warn", "fail", "unknown", "skip")
"""The states, as reports list them."""

REPORT_VERSION = "1"
"""The version of the JSON report's layout."""

MIN_PYTHON = (3, 11)
"""The oldest Python this package runs on."""

MIN_FREE_BYTES = 1 << 30
"""Below this much free space on the warehouse's disk the doctor warns."""

_WORST_FIRST: tuple[Status, ...] = ("fail", "warn", "unknown", "pass", "skip")


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One preflight check.

    Attributes:
        name: what was checked.
        status: ``pass``, ``warn``, ``fail``, ``unknown`` or ``skip``.
        detail: a sentence about it.
    """

    name: str
    status: Status
    detail: str


def run_doctor(
    spec_path: str | Path | None = None,
    contract_path: str | Path | None = None,
    server: MCPServerSpec | None = None,
    keys: list[str] | None = None,
    allow_unknown_price: bool = False,
    start_server: bool = True,
    project: str | Path | None = None,
) -> list[DoctorCheck]:
    """Run the preflight checks; nothing is raised, what goes wrong is a check that fails.

    Args:
        spec_path: an agent spec to check: packages, keys, prices, budget, server and build.
        contract_path: a contract or gold file to check.
        server: a server to start and list, when there is no spec.
        keys: more environment variable names that must be set.
        allow_unknown_price: as for ``toolscore agent run``.
        start_server: start servers and run version commands; False checks only files and keys.
        project: a project file (or its folder) whose sources, contracts, bindings, warehouse and
            disk to check too.

    Returns:
        The checks, in the order they ran.
    """
    checks = [_python(), _package()]
    spec = None
    if spec_path is not None:
        spec, check = _read_spec(spec_path)
        checks.append(check)
    if spec is not None:
        checks += _spec_checks(spec, allow_unknown_price)
    checks += [_key(name) for name in keys or ()]
    if contract_path is not None:
        checks.append(_contract(contract_path))
    if spec is not None:
        checks += _spec_server(spec, start_server)
    elif server is not None:
        if start_server:
            checks += check_server(server, timeout=server.start_timeout)
        else:
            checks.append(DoctorCheck("server", "skip", "not started"))
    if project is not None:
        checks += _project(project)
    return checks


def doctor_report(checks: list[DoctorCheck]) -> dict[str, Any]:
    """A JSON-safe report: ``checks``, ``counts`` of every status, and the ``worst`` status."""
    counts = Counter(check.status for check in checks)
    return {
        "doctor_version": REPORT_VERSION,
        "checks": [
            {"name": check.name, "status": check.status, "detail": check.detail} for check in checks
        ],
        "counts": {status: counts[status] for status in STATUSES},
        "worst": next((status for status in _WORST_FIRST if counts[status]), "skip"),
    }


def check_server(
    spec: MCPServerSpec, verify: Verify | None = None, timeout: float = 30.0
) -> list[DoctorCheck]:
    """Start a server, list its tools and check its build; nothing else is called.

    Args:
        spec: the server.
        verify: the build that is meant; None checks no build.
        timeout: seconds until it must have answered first.
    """
    from dataclasses import replace

    checks, _ = _start(replace(spec, start_timeout=timeout), verify)
    return checks


def _start(
    spec: MCPServerSpec, verify: Verify | None
) -> tuple[list[DoctorCheck], list[dict[str, Any]]]:
    """The checks of a server, and its tools as a model would be told of them."""
    from toolscore_pipeline.agent.study import check_build, fresh_client

    try:
        with fresh_client(spec) as client:
            tools, info = client.list_tools(), client.info
    except ToolscoreError as error:
        return [DoctorCheck("server", "fail", str(error))], []
    name = " ".join(part for part in (info.name, info.version) if part) or "a server without a name"
    where = "started" if spec.command else "answered"
    checks = [
        DoctorCheck(
            "server",
            "pass" if tools else "warn",
            f"{name} {where}; {len(tools)} tool(s); MCP {info.protocol_version}",
        )
    ]
    if verify is not None and (verify.server_name or verify.server_version):
        builds = check_build(verify, info)
        is_meant = all(build.status == "pass" for build in builds)
        details = "; ".join(build.detail for build in builds)
        checks.append(DoctorCheck("build", "pass" if is_meant else "fail", details))
    offered = [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        for tool in tools
    ]
    return checks, offered


# --- this installation ----------------------------------------------------------------------------


def _python() -> DoctorCheck:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info >= MIN_PYTHON:
        return DoctorCheck("python", "pass", f"Python {version}")
    wanted = ".".join(str(part) for part in MIN_PYTHON)
    return DoctorCheck("python", "fail", f"Python {version}, needs {wanted} or newer")


def _package() -> DoctorCheck:
    try:
        version = metadata.version("toolscore-pipeline")
    except metadata.PackageNotFoundError:
        return DoctorCheck("toolscore", "warn", "run from a checkout that is not installed")
    return DoctorCheck("toolscore", "pass", f"toolscore-pipeline {version}")


def _key(name: str) -> DoctorCheck:
    is_set = bool(os.environ.get(name))
    return DoctorCheck(f"key {name}", "pass" if is_set else "fail", "set" if is_set else "not set")


def _module(name: str) -> DoctorCheck:
    check = f"package {name}"
    if importlib.util.find_spec(name) is None:
        return DoctorCheck(check, "fail", 'missing: pip install "toolscore-pipeline[agent]"')
    try:
        return DoctorCheck(check, "pass", f"{name} {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        return DoctorCheck(check, "unknown", "importable, but its version is not known")


# --- a contract -----------------------------------------------------------------------------------


def _contract(path: str | Path) -> DoctorCheck:
    from toolscore_pipeline.contract import Contract, load_expected

    try:
        expected = load_expected(path)
        if not isinstance(expected, Contract):
            return DoctorCheck(
                "contract", "pass", f"{path}: a gold list of {len(expected)} call(s)"
            )
        combinations = len(expected.expansions())
    except ToolscoreError as error:
        return DoctorCheck("contract", "fail", str(error))
    return DoctorCheck(
        "contract",
        "pass",
        f"{path}: {len(expected.required)} required, {len(expected.optional)} optional, "
        f"{len(expected.forbidden)} forbidden; {combinations} combination(s)",
    )


# --- a study --------------------------------------------------------------------------------------


def _read_spec(path: str | Path) -> tuple[AgentSpec | None, DoctorCheck]:
    from toolscore_pipeline.agent.spec import load_agent_spec

    try:
        spec = load_agent_spec(path)
    except ToolscoreError as error:
        return None, DoctorCheck("spec", "fail", str(error))
    runs = len(spec.tasks) * len(spec.arms) * spec.repetitions
    detail = (
        f"{spec.name}: {len(spec.tasks)} task(s) x {len(spec.arms)} arm(s) x "
        f"{spec.repetitions} repetition(s) = {runs} run(s)"
    )
    return spec, DoctorCheck("spec", "pass", detail)


def _spec_checks(spec: AgentSpec, allow_unknown_price: bool) -> list[DoctorCheck]:
    """Packages, keys, prices, the guard, and tasks nothing is expected of."""
    from toolscore_pipeline.agent.scrub import KEY_NAMES
    from toolscore_pipeline.agent.study import build_guard

    providers = list(dict.fromkeys(arm.provider for arm in spec.arms))
    paid = [name for name in providers if name in KEY_NAMES]
    checks = [_module(name) for name in ("mcp", *paid)]
    checks += [_key(KEY_NAMES[name]) for name in paid]
    if spec.guard_python is not None:
        try:
            build_guard(spec)
            checks.append(DoctorCheck("guard", "pass", f"{spec.guard_python} can be imported"))
        except ToolscoreError as error:
            checks.append(DoctorCheck("guard", "fail", str(error)))
    is_allowed = allow_unknown_price or spec.allow_unknown_price
    for arm in spec.arms:
        price = arm.price
        name = f"price {arm.id}"
        if price is None:
            status: Status = "warn" if is_allowed else "fail"
            detail = f"{arm.model}: no known price; no budget can hold for it"
            checks.append(DoctorCheck(name, status, detail))
        else:
            rates = f"${price.input_per_million:g} in / ${price.output_per_million:g} out per 1M"
            checks.append(DoctorCheck(name, "pass", f"{arm.model}: {rates} ({price.source})"))
    idle = [task.id for task in spec.tasks if task.contract is None]
    if idle:
        detail = f"nothing is expected of {', '.join(idle)}: their outcome will be unknown"
        checks.append(DoctorCheck("tasks", "warn", detail))
    return checks


def _spec_server(spec: AgentSpec, start_server: bool) -> list[DoctorCheck]:
    """The budget, the version command, the server and its build."""
    from toolscore_pipeline.agent.study import check_command

    if not start_server:
        return [
            _budget(spec, []),
            DoctorCheck("server", "skip", "not started, and no version command was run"),
        ]
    server_checks, tools = _start(spec.server, spec.verify)
    checks = [_budget(spec, tools)]
    command = check_command(spec.verify) if spec.verify is not None else None
    if command is not None:
        status: Status = "pass" if command.status == "pass" else "fail"
        checks.append(DoctorCheck(command.check, status, command.detail))
    return checks + server_checks


def _budget(spec: AgentSpec, tools: list[dict[str, Any]]) -> DoctorCheck:
    from toolscore_pipeline.agent.study import study_worst_case

    runs = len(spec.tasks) * len(spec.arms) * spec.repetitions
    worst = study_worst_case(spec, {"tools": tools} if tools else None)
    cap = "none" if spec.max_usd is None else f"{spec.max_usd}"
    if worst is None:
        detail = f"{runs} run(s); worst case unknown, a price is missing (max_usd {cap})"
        return DoctorCheck("budget", "unknown", detail)
    detail = f"{runs} run(s); worst case ${float(worst):.4f} (max_usd {cap})"
    if spec.max_usd is None and worst:
        return DoctorCheck("budget", "warn", f"{detail}: nothing caps the spending")
    if spec.max_usd is not None and float(worst) > spec.max_usd:
        return DoctorCheck("budget", "warn", f"{detail}: the budget may stop the study")
    return DoctorCheck("budget", "pass", detail)


# --- a project ------------------------------------------------------------------------------------


def _project(path: str | Path) -> list[DoctorCheck]:
    """The project file, its sources, contracts and bindings, the warehouse, Dagster, the disk."""
    from toolscore_pipeline.project import open_project

    try:
        project = open_project(path)
    except ToolscoreError as error:
        return [DoctorCheck("project", "fail", str(error))]
    checks = [DoctorCheck("project", "pass", str(project.file))]
    checks += _sources(project)
    checks += _studies(project)
    checks.append(_module("dagster"))
    try:
        bindings = project.bindings()
    except ToolscoreError as error:
        checks.append(DoctorCheck("contracts", "fail", str(error)))
    else:
        status: Status = "pass" if bindings else "warn"
        files = len({binding.path for binding in bindings})
        detail = f"{files} file(s), {len(bindings)} binding(s)" if bindings else "none is named"
        checks.append(DoctorCheck("contracts", status, detail))
        checks += _warehouse(project, bindings)
    checks.append(_disk(project))
    return checks


def _sources(project: Project) -> list[DoctorCheck]:
    from toolscore_pipeline.loading import find_files

    if not project.sources:
        return [DoctorCheck("sources", "warn", "none is named")]
    checks = []
    for source in project.sources:
        name = f"source {source.name}"
        if source.query is not None:
            checks.append(DoctorCheck(name, "unknown", "a query, which was not run"))
            continue
        try:
            count = len(find_files(source))
        except ToolscoreError as error:
            checks.append(DoctorCheck(name, "fail", str(error)))
            continue
        status: Status = "pass" if count else "warn"
        checks.append(DoctorCheck(name, status, f"{count} file(s) at {source.path}"))
    return checks


def _studies(project: Project) -> list[DoctorCheck]:
    """Whether each study can be read and may run, and whether a source reads its rows."""
    from toolscore_pipeline.agent.spec import load_agent_spec
    from toolscore_pipeline.studies import missing_cells, reading_sources, why_refused

    has_queries = any(source.query is not None for source in project.sources)
    checks = []
    for study in project.studies:
        name = f"study {study.name}"
        try:
            spec = load_agent_spec(study.spec)
        except ToolscoreError as error:
            checks.append(DoctorCheck(name, "fail", str(error)))
            continue
        left = len(missing_cells(study, spec))
        detail = f"{len(spec.cells())} run(s), {left} of them still to be made"
        refusal = why_refused(study, spec)
        readers = reading_sources(project, study)
        status: Status = "pass"
        if refusal is not None:
            status, detail = "warn", f"{detail}; {refusal}"
        if readers:
            detail = f"{detail}; read by the source {', '.join(readers)}"
        elif has_queries:
            detail = f"{detail}; read by no source's path, perhaps by a query"
            status = "unknown" if status == "pass" else status
        else:
            status = "warn"
            detail = f"{detail}; no source reads {study.output.name}, so its runs are not graded"
        checks.append(DoctorCheck(name, status, detail))
    return checks


def _warehouse(project: Project, bindings: Iterable[Binding]) -> list[DoctorCheck]:
    """Whether the warehouse can be read, contracts that no run meets, runs without a contract."""
    from toolscore_pipeline.warehouse import Warehouse

    if not project.published.is_file():
        return [
            DoctorCheck("warehouse", "skip", "not built yet"),
            DoctorCheck("bindings", "unknown", "no runs are loaded yet"),
        ]
    try:
        connection = Warehouse(project.warehouse).read()
        try:
            groups = connection.execute(
                "select task, variant, source, count(*) from evidence.runs group by all"
            ).fetchall()
        finally:
            connection.close()
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return [DoctorCheck("warehouse", "fail", f"{project.published}: {reason}")]
    bindings = list(bindings)
    unmet = sorted(
        {
            binding.name
            for binding in bindings
            if not any(_binds(binding, *group[:3]) for group in groups)
        }
    )
    orphans = sum(
        group[3] for group in groups if not any(_binds(item, *group[:3]) for item in bindings)
    )
    runs = sum(group[3] for group in groups)
    checks = [DoctorCheck("warehouse", "pass", f"{runs} run(s)")]
    if unmet:
        checks.append(DoctorCheck("bindings", "warn", f"no run meets {', '.join(unmet)}"))
    else:
        checks.append(DoctorCheck("bindings", "pass", "every contract has runs"))
    if orphans:
        checks.append(DoctorCheck("graded runs", "warn", f"{orphans} run(s) have no contract"))
    return checks


def _binds(binding: Binding, task: str | None, variant: str | None, source: str | None) -> bool:
    """Whether a binding applies to runs of this task, variant and source."""
    if binding.task is not None and binding.task != task:
        return False
    pattern = binding.task_pattern
    if pattern is not None and (task is None or re.fullmatch(pattern, task) is None):
        return False
    is_variant = binding.variant is None or binding.variant == variant
    return is_variant and (binding.source is None or binding.source == source)


def _disk(project: Project) -> DoctorCheck:
    """Whether there is room for the warehouse and the copy that is made of it."""
    free = shutil.disk_usage(project.root).free
    size = project.warehouse.stat().st_size if project.warehouse.is_file() else 0
    wanted = max(MIN_FREE_BYTES, 3 * size)
    detail = f"{free / (1 << 30):.1f} GiB free"
    if free >= wanted:
        return DoctorCheck("disk", "pass", detail)
    return DoctorCheck("disk", "warn", f"{detail}, {wanted / (1 << 30):.1f} GiB are wanted")
