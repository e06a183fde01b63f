"""A study: every task with every arm, repeated, in a fixed order; resumable at any point."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from toolscore_pipeline.agent import processes
from toolscore_pipeline.agent.budget import LEDGER_SUFFIX, Budget, FileLedger
from toolscore_pipeline.agent.folders import fresh_folder, sweep_leftovers
from toolscore_pipeline.agent.grading import grade_row
from toolscore_pipeline.agent.guard import Guard, all_of, globs_guard, load_guard, rules_guard
from toolscore_pipeline.agent.loop import AgentRun, request_tokens, run_agent
from toolscore_pipeline.agent.mcp_client import (
    MCPClient,
    MCPServerError,
    MCPServerSpec,
    ServerInfo,
    open_client,
)
from toolscore_pipeline.agent.providers import (
    AnthropicMessagesProvider,
    Conversation,
    OpenAIResponsesProvider,
    Provider,
    ScriptedProvider,
    make_provider,
)
from toolscore_pipeline.agent.rows import RowFile, run_row
from toolscore_pipeline.agent.scrub import Scrubber, provider_keys
from toolscore_pipeline.agent.spec import RUN_DIR, AgentSpec, Arm, Cell, Task, Verify, server_in
from toolscore_pipeline.errors import InputError, SettingsError, ToolscoreError

ProviderFactory = Callable[[Arm, Task], Provider]
"""Makes the provider of a run."""

Progress = Callable[[dict[str, Any]], None]
"""Told of every row once it is written."""

OUTCOMES = ("pass", "fail", "error", "unknown")
"""The outcomes a run can have."""


class BuildError(ToolscoreError):
    """A server that is not the build the spec means to test."""


@dataclass(frozen=True, slots=True)
class BuildCheck:
    """One check of the server's build: what was checked, pass or fail, and a sentence."""

    check: str
    status: str
    detail: str


@dataclass(slots=True)
class StudyResult:
    """What an invocation of a study did.

    Attributes:
        rows: the rows written by this invocation, in the order they were written.
        planned: runs of the whole study.
        resumed: runs that were there already.
        stopped: why the study stopped early; None when it went through.
        spent_usd: what all runs of the study are counted as, this invocation's included.
        output: the file of rows; None without one.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    planned: int = 0
    resumed: int = 0
    stopped: str | None = None
    spent_usd: float = 0.0
    output: str | None = None

    def outcomes(self) -> dict[str, dict[str, int]]:
        """Runs of this invocation per arm and outcome; every outcome is a key."""
        counts: dict[str, Counter[str]] = {}
        for row in self.rows:
            counts.setdefault(row["arm_id"], Counter())[row["outcome"]] += 1
        return {arm: {name: count[name] for name in OUTCOMES} for arm, count in counts.items()}

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return {
            "planned": self.planned,
            "resumed": self.resumed,
            "written": len(self.rows),
            "remaining": self.planned - self.resumed - len(self.rows),
            "stopped": self.stopped,
            "spent_usd": self.spent_usd,
            "output": self.output,
            "outcomes": self.outcomes(),
        }


def run_study(
    spec: AgentSpec,
    output: str | Path | None = None,
    *,
    provider_factory: ProviderFactory | None = None,
    allow_unknown_price: bool = False,
    concurrency: int = 1,
    progress: Progress | None = None,
) -> StudyResult:
    """Run what is missing of a study and append one row per run.

    Args:
        spec: the study.
        output: the JSON Lines file to append to and resume from; None keeps the rows in memory.
        provider_factory: makes the provider of an arm and task; None uses the SDKs.
        allow_unknown_price: let models run whose price is not known, as the spec may say too.
        concurrency: runs of one arm at the same time; with 1 the whole study runs one by one, in
            its order. The finished file has the study's order either way.
        progress: told of every row once it is written.

    Raises:
        SettingsError: when a price is unknown and that is not allowed, or a key or package is
            missing; nothing was run then.
        BuildError: when the server is not the build the spec means.
        MCPServerError: when the server could not be started to check that.
        InputError: when the output file holds something else, or another process writes it.
    """
    if concurrency < 1:
        raise SettingsError(f"concurrency must be at least 1, got {concurrency}")
    with _locked(output):
        study = _Study(spec, output, provider_factory, allow_unknown_price, progress)
        return study.run(concurrency)


@contextmanager
def _locked(output: str | Path | None) -> Iterator[None]:
    """Hold the lock of an output file, or refuse at once when somebody else has it."""
    if output is None:
        yield
        return
    from filelock import FileLock, Timeout

    path = Path(output)
    if not path.parent.is_dir():
        raise InputError("its folder does not exist", path=path)
    lock = FileLock(f"{path}.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise InputError("another process is writing this file", path=path) from None
    try:
        yield
    finally:
        lock.release()


class _Study:
    """The state of one invocation."""

    def __init__(
        self,
        spec: AgentSpec,
        output: str | Path | None,
        provider_factory: ProviderFactory | None,
        allow_unknown_price: bool,
        progress: Progress | None,
    ) -> None:
        self.spec = spec
        self.file = None if output is None else RowFile(output)
        self.factory = provider_factory
        self.progress = progress
        self.scrubber = Scrubber(spec.server.secrets() | provider_keys())
        self.budget = Budget(spec.max_usd, allow_unknown_price or spec.allow_unknown_price)
        self.guard = build_guard(spec)
        self.result = StudyResult(output=None if output is None else str(output))
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.sdk_providers: dict[str, OpenAIResponsesProvider | AnthropicMessagesProvider] = {}

    def run(self, concurrency: int) -> StudyResult:
        sweep_leftovers()
        cells = self.spec.cells()
        rows = self.file.open() if self.file is not None else []
        done = self._finished(cells, rows)
        missing = [cell for cell in cells if cell.id not in done]
        self.result.planned, self.result.resumed = len(cells), len(cells) - len(missing)
        self._count_earlier_spending(rows)
        if missing:
            refuse_unknown_prices(self.spec, self.budget.allow_unknown_price)
            self._make_sdk_providers(missing)
            check_build_first(self.spec)
            if concurrency == 1:
                self._one_by_one(missing)
            else:
                self._side_by_side(missing, concurrency)
                if self.file is not None and self.result.rows:
                    self.file.sort()
        self.result.spent_usd = self.budget.spent_usd
        return self.result

    def _finished(self, cells: list[Cell], rows: list[dict[str, Any]]) -> set[str]:
        """The cells that have a row; a row of another study, or of a changed one, is refused."""
        known = {cell.id: cell for cell in cells}
        path = self.file.path if self.file is not None else None
        for row in rows:
            if row.get("study") != self.spec.name:
                raise InputError(
                    f"it holds runs of the study {row.get('study')!r}, "
                    f"not of {self.spec.name!r}; name another output file",
                    path=path,
                )
            cell = known.get(row["cell_id"])
            if cell is not None and row["cell_sha256"] != self.spec.cell_sha256(cell):
                raise InputError(
                    f"the run {cell.id} was made with another prompt, model, server, limit or "
                    "guard than the spec now has; name another output file",
                    path=path,
                )
        return {row["cell_id"] for row in rows}

    def _count_earlier_spending(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            counted = row.get("counted_usd")
            cost = row.get("cost_usd") if counted is None else counted
            self.budget.add_spent(Decimal(repr(cost or 0)))
        if self.file is not None:
            ledger = FileLedger(f"{self.file.path}{LEDGER_SUFFIX}")
            self.budget.add_spent(ledger.spent_without({row["run_id"] for row in rows}))
            ledger.mend()
            self.budget.ledger = ledger

    def _make_sdk_providers(self, missing: list[Cell]) -> None:
        """Make each arm's client before the first run, so that a missing key stops everything."""
        if self.factory is not None:
            return
        for arm in {cell.arm.id: cell.arm for cell in missing}.values():
            if arm.provider != "scripted":
                self.sdk_providers[arm.id] = make_provider(arm.provider, arm.model)

    def _provider(self, cell: Cell) -> Provider:
        if self.factory is not None:
            return self.factory(cell.arm, cell.task)
        if cell.arm.provider == "scripted":
            return ScriptedProvider(cell.task.script(cell.arm.id) or (), cell.arm.model)
        return self.sdk_providers[cell.arm.id]

    # --- runs -------------------------------------------------------------------------------------

    def _one_by_one(self, missing: list[Cell]) -> None:
        for cell in missing:
            if self.stop.is_set():
                return
            self._keep(cell, self._run(cell))

    def _side_by_side(self, missing: list[Cell], concurrency: int) -> None:
        """Up to ``concurrency`` runs of each arm at a time, started in the study's order."""
        waiting = list(missing)
        running: dict[Future[dict[str, Any]], Cell] = {}
        failed: list[BaseException] = []
        workers = concurrency * len({cell.arm.id for cell in missing})
        with ThreadPoolExecutor(workers, thread_name_prefix="agent-run") as pool:
            try:
                while waiting or running:
                    busy = Counter(cell.arm.id for cell in running.values())
                    for cell in list(waiting):
                        if busy[cell.arm.id] < concurrency and not self.stop.is_set():
                            waiting.remove(cell)
                            busy[cell.arm.id] += 1
                            running[pool.submit(self._run, cell)] = cell
                    if not running:
                        break
                    try:
                        done = wait(running, return_when=FIRST_COMPLETED).done
                    except KeyboardInterrupt as interrupt:
                        if failed:
                            raise
                        # What goes on was paid for: its rows are kept before this is told.
                        failed.append(interrupt)
                        self.stop.set()
                        waiting.clear()
                        continue
                    for future in done:
                        cell = running.pop(future)
                        error = future.exception()
                        if error is None:
                            self._keep(cell, future.result())
                        else:
                            failed.append(error)
                            self.stop.set()
                            waiting.clear()
            except BaseException:
                self.stop.set()
                raise
        if failed:
            raise failed[0]

    def _run(self, cell: Cell) -> dict[str, Any]:
        """The row of one run on a fresh server in a fresh folder; both are gone afterwards."""
        arm = cell.arm
        record: dict[str, Any] = self.spec.server.describe()
        run = AgentRun(price=arm.price)
        own_folder = Scrubber()
        with fresh_folder() as folder:
            own_folder.add("run_dir", str(folder), RUN_DIR)
            server = server_in(self.spec.server, folder)
            try:
                with open_client(server) as client:
                    record |= server_record(client.info)
                    record["build_check"] = self._build_check(client.info)
                    run = run_agent(
                        client,
                        self._provider(cell),
                        cell.task.prompt,
                        system=arm.system,
                        guard=self.guard,
                        budget=self.budget,
                        price=arm.price,
                        limits=self.spec.limits,
                        max_output_tokens=arm.max_output_tokens,
                        extra=arm.extra,
                        allow_tools=self.spec.allow_tools,
                        task_id=cell.task.id,
                        arm_id=arm.id,
                    )
            except MCPServerError as error:
                run = self._server_failed(run, str(error))
        row = own_folder.value(run_row(self.spec, cell, run, {**_NOTHING_TOLD, **record}))
        return cast(dict[str, Any], self.scrubber.value(row))

    @staticmethod
    def _server_failed(run: AgentRun, reason: str) -> AgentRun:
        """The run of a server that could not be started: it cost nothing."""
        if run.turns == 0 and run.price is not None and run.cost_usd is None:
            run.cost_usd = 0.0
        run.status, run.error, run.stop_reason = "error", run.error or reason, "server"
        run.ended_at = run.ended_at or run.started_at
        return run

    def _build_check(self, info: ServerInfo) -> dict[str, Any]:
        """The build checks of a run's own server.

        Raises:
            BuildError: when one fails; no model was asked then.
        """
        if self.spec.verify is None:
            return {"status": "skip", "checks": []}
        checks = check_build(self.spec.verify, info)
        refuse_build(checks)
        return {
            "status": "pass",
            "checks": [
                {"check": check.check, "status": check.status, "detail": check.detail}
                for check in checks
            ],
        }

    def _keep(self, cell: Cell, row: dict[str, Any]) -> None:
        """Judge a run, write its row, and stop the study when the budget is spent."""
        if row["status"] == "budget_stopped":
            self.stop.set()
            self.result.stopped = self.result.stopped or f"{cell.id}: {row['error']}"
            if row["usage"]["model_calls"] == 0 and not row["counted_usd"]:
                return  # nothing happened, so the cell is still to be run
        row |= self.scrubber.value(_judged(cell.task, row))
        if self.file is not None:
            self.file.append(row)
        self.result.rows.append(row)
        if self.progress is not None:
            self.progress(row)


def _judged(task: Task, row: dict[str, Any]) -> dict[str, Any]:
    """The verdict on a row; a run that cannot be graded is kept all the same, as unknown.

    The run was made and may have been paid for, and its row can be graded again at any time.
    """
    try:
        return grade_row(task, row)
    except Exception as error:
        reason = f"it could not be graded: {type(error).__name__}: {error}"
        return {
            "evaluation": None,
            "outcome": "error" if row["status"] in ("error", "budget_stopped") else "unknown",
            "outcome_reason": reason,
            "passed": None,
        }


_NOTHING_TOLD = {
    "name": None,
    "version": None,
    "protocol_version": None,
    "era": None,
    "build_check": None,
}


def server_record(info: ServerInfo) -> dict[str, Any]:
    """What a server told of itself, for a row."""
    return {
        "name": info.name,
        "version": info.version,
        "protocol_version": info.protocol_version,
        "era": info.era,
    }


def build_guard(spec: AgentSpec) -> Guard | None:
    """The guard a spec describes: its rules, its allowed tools, then its own function.

    Raises:
        SettingsError: when the spec's function cannot be imported.
    """
    guards: list[Guard] = []
    if spec.guard_rules:
        guards.append(rules_guard(spec.guard_rules))
    if spec.guard_tools:
        guards.append(globs_guard(spec.guard_tools))
    if spec.guard_python:
        guards.append(load_guard(spec.guard_python, spec.folder))
    return all_of(guards)


# --- prices ---------------------------------------------------------------------------------------


def refuse_unknown_prices(spec: AgentSpec, is_allowed: bool) -> None:
    """Refuse a study with a model whose price is unknown, unless that is allowed.

    Raises:
        SettingsError: naming the arms and models.
    """
    unknown = [f"{arm.id} ({arm.model})" for arm in spec.arms if arm.price is None]
    if unknown and not is_allowed:
        raise SettingsError(
            f"no price is known for {', '.join(unknown)}: give 'pricing' in the spec, or allow it "
            "(budget.allow_unknown_price or --allow-unknown-price), and then no budget can hold"
        )


def worst_case(
    spec: AgentSpec, cell: Cell, tools: Mapping[str, Any] | None = None
) -> Decimal | None:
    """The most a run of a cell can cost before what tools return is known; None without a price.

    Every model call is counted at its full output, each turn's output as input of the next, and the
    request as many tokens as it has bytes. Tool results, whose size nobody knows beforehand, are
    left out; the budget counts them as they come.

    Args:
        spec: the study.
        cell: the run.
        tools: further request content to count (the server's tools, when they are known).
    """
    price = cell.arm.price
    if price is None:
        return None
    if price.is_free:
        return Decimal(0)
    provider = (
        OpenAIResponsesProvider if cell.arm.provider == "openai" else (AnthropicMessagesProvider)
    )
    request = provider(None, cell.arm.model).request(
        Conversation(cell.task.prompt),
        [],
        {},
        system=cell.arm.system,
        max_output_tokens=cell.arm.max_output_tokens,
        extra=cell.arm.extra,
    )
    first = request_tokens({**request, **(tools or {})})
    output = cell.arm.max_output_tokens
    may_cache = provider.caches_by_itself or "cache_control" in str(cell.arm.extra)
    return sum(
        (
            price.worst_cost(first + turn * output, output, may_cache=may_cache)
            for turn in range(spec.limits.max_turns)
        ),
        Decimal(0),
    )


def study_worst_case(spec: AgentSpec, tools: Mapping[str, Any] | None = None) -> Decimal | None:
    """The sum of :func:`worst_case` over every run; None when a price is unknown."""
    total = Decimal(0)
    for cell in spec.cells():
        worst = worst_case(spec, cell, tools)
        if worst is None:
            return None
        total += worst
    return total


# --- builds ---------------------------------------------------------------------------------------


def check_build(verify: Verify, info: ServerInfo) -> list[BuildCheck]:
    """Hold what a server tells of itself against the build that is meant."""
    checks = []
    for name, wanted, told in (
        ("server_name", verify.server_name, info.name),
        ("server_version", verify.server_version, info.version),
    ):
        if wanted is None:
            continue
        if told is None:
            checks.append(BuildCheck(name, "fail", f"{name} is not told, expected {wanted!r}"))
        elif _is_meant(wanted, told):
            checks.append(BuildCheck(name, "pass", f"{name} {told!r} matches"))
        else:
            checks.append(BuildCheck(name, "fail", f"{name} is {told!r}, expected {wanted!r}"))
    return checks


def _is_meant(wanted: str, told: str) -> bool:
    if len(wanted) > 1 and wanted[0] == wanted[-1] == "/":
        return re.search(wanted[1:-1], told) is not None
    return wanted == told


def check_command(verify: Verify) -> BuildCheck | None:
    """Run the version command and hold its output against ``expect``; None without a command."""
    if not verify.command or verify.expect is None:
        return None
    shown = " ".join(verify.command)
    try:
        code, output, _ = processes.run_command(list(verify.command), verify.timeout)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return BuildCheck("version command", "fail", f"{shown!r} cannot be run: {reason}")
    printed = output.strip()
    if code is None:
        return BuildCheck("version command", "fail", f"{shown!r} took over {verify.timeout:g} s")
    first = printed.splitlines()[0] if printed else ""
    if code != 0:
        return BuildCheck("version command", "fail", f"{shown!r} ended with exit code {code}")
    if re.search(verify.expect, printed) is None:
        detail = f"{shown!r} printed {first[:80]!r}, expected {verify.expect!r}"
        return BuildCheck("version command", "fail", detail)
    return BuildCheck("version command", "pass", f"{shown!r} printed {first[:80]!r}")


def refuse_build(checks: list[BuildCheck]) -> None:
    """Raise when a build check failed.

    Raises:
        BuildError: naming every check that failed.
    """
    failed = [check.detail for check in checks if check.status == "fail"]
    if failed:
        raise BuildError(f"this is not the build the spec means: {'; '.join(failed)}")


def check_build_first(spec: AgentSpec) -> None:
    """Check the build before any model call, when the spec names one.

    Raises:
        BuildError: when a check fails.
        MCPServerError: when the server cannot be started.
    """
    if spec.verify is None:
        return
    command = check_command(spec.verify)
    checks = [command] if command is not None else []
    if spec.verify.server_name is not None or spec.verify.server_version is not None:
        with fresh_client(spec.server) as client:
            checks += check_build(spec.verify, client.info)
    refuse_build(checks)


@contextmanager
def fresh_client(server: MCPServerSpec) -> Iterator[MCPClient]:
    """An open client of a server in a fresh folder, which is removed afterwards."""
    with fresh_folder() as folder, open_client(server_in(server, folder)) as client:
        yield client
