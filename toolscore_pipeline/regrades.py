"""Regrading many: the run rows of a study, and a whole warehouse.

Calls, results and final answers stay as recorded; only what is said of them is new.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from toolscore_pipeline.errors import InputError, UsageError, WarehouseError, unknown_name
from toolscore_pipeline.hashing import file_digest, json_sha256

if TYPE_CHECKING:
    import duckdb

    from toolscore_pipeline.agent.spec import Task
    from toolscore_pipeline.project import Project
    from toolscore_pipeline.result import EvaluationResult

# Grades read from a warehouse at once, to write their receipts.
_CHUNK = 1_000


# --- run rows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowRegrade:
    """One run row, graded again.

    Attributes:
        name: the row's cell, else its line.
        before: the row as it was.
        after: the row with a new ``evaluation``, ``outcome``, ``outcome_reason`` and ``passed``;
            ``regraded.from_sha256`` is the hash of the row before.
    """

    name: str
    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def score_delta(self) -> float | None:
        """New score less the previous one; None when either is missing."""
        before, after = _score(self.before), _score(self.after)
        return None if before is None or after is None else after - before


def _score(row: Mapping[str, Any]) -> float | None:
    evaluation = row.get("evaluation")
    score = evaluation.get("score") if isinstance(evaluation, dict) else None
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    return float(score)


def is_run_rows(path: str | Path) -> bool:
    """Whether a file is JSON Lines of run rows: its first line is one."""
    from toolscore_pipeline.formats.run_rows import is_row

    if Path(path).suffix.lower() not in (".jsonl", ".ndjson", ".jsonlines"):
        return False
    try:
        with open(path, "rb") as file:
            first = next((line for line in file if line.strip()), b"")
        return is_row(json.loads(first))
    except (OSError, ValueError):
        return False


def regrade_rows(
    path: str | Path,
    *,
    spec: str | Path | None = None,
    gold: str | Path | None = None,
    weights: Mapping[str, float] | None = None,
    forbidden: str | Path | None = None,
) -> list[RowRegrade]:
    """Judge every recorded run of a study again; none of them is run again.

    Args:
        path: the JSON Lines file of ``toolscore agent run``.
        spec: a study spec, whose tasks are found by id.
        gold: a gold file or contract for every row, instead of a spec.
        weights: score weights; default those of each contract.
        forbidden: a file of forbidden rules, added to those of each contract.

    Raises:
        UsageError: neither or both of ``spec`` and ``gold`` are given, or a row's task is not in
            the spec.
        InputError: a line is no run row. ContractError: the spec, gold file or rules are wrong.
    """
    from toolscore_pipeline.agent.grading import grade_rows

    if (spec is None) == (gold is None):
        raise UsageError("run rows are regraded under --spec or --gold, and only one of them")
    judge = _judge(path, spec, gold, weights, forbidden)
    against = file_digest(spec if spec is not None else str(gold))
    role = "spec" if spec is not None else "gold"
    rows = list(_read_rows(path))
    # A row of another recorder may not say how its run ended.
    pairs = [
        (judge(row, line), {"status": "completed", "stop_reason": None, **row})
        for line, row in rows
    ]
    regraded = []
    for (line, row), judged in zip(rows, grade_rows(pairs), strict=True):
        origin = {"from_sha256": json_sha256(row), f"{role}_sha256": against["sha256"]}
        name = str(row.get("cell_id") or f"line {line}")
        regraded.append(RowRegrade(name, row, {**row, **judged, "regraded": origin}))
    return regraded


def _judge(
    path: str | Path,
    spec: str | Path | None,
    gold: str | Path | None,
    weights: Mapping[str, float] | None,
    forbidden: str | Path | None,
) -> Callable[[dict[str, Any], int], Task]:
    """What finds the task that a row is held against."""
    from dataclasses import replace

    from toolscore_pipeline.agent.spec import Task, load_agent_spec
    from toolscore_pipeline.contract import (
        Contract,
        load_expected,
        load_forbidden_rules,
        normalize_weights,
    )

    rules = load_forbidden_rules(forbidden) if forbidden is not None else []
    if weights is not None:
        normalize_weights(weights)

    def adjusted(task: Task) -> Task:
        if weights is None and not rules:
            return task
        contract = task.contract or Contract()
        contract = replace(
            contract,
            forbidden=contract.forbidden + rules,
            weights=dict(weights) if weights is not None else contract.weights,
        )
        return replace(task, contract=contract)

    if gold is not None:
        expected = load_expected(gold)
        contract = expected if isinstance(expected, Contract) else Contract(required=list(expected))
        one = adjusted(
            Task(
                id="",
                prompt="",
                contract=contract,
                is_scored=bool(contract.required),
                min_score=contract.min_score,
            )
        )
        return lambda row, line: one
    tasks = {task.id: adjusted(task) for task in load_agent_spec(str(spec)).tasks}

    def find(row: dict[str, Any], line: int) -> Task:
        name = str(row.get("task_id"))
        if name not in tasks:
            raise UsageError(f"{path}:{line}: {unknown_name('task', name, tasks)}")
        return tasks[name]

    return find


def _read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with their lines, from 1."""
    from toolscore_pipeline.formats.run_rows import is_row
    from toolscore_pipeline.jsonio import strict_line

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    for line, text in enumerate(data.split(b"\n"), start=1):
        if not text.strip():
            continue
        row, _ = strict_line(text)
        if isinstance(row, InputError):
            raise InputError(row.reason, path=path, line=line, json_path=row.json_path)
        if not is_row(row):
            raise InputError("expected a run row", path=path, line=line)
        yield line, row


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write run rows as JSON Lines, aside first and then renamed; returns how many.

    Raises:
        InputError: the file cannot be written.
    """
    from toolscore_pipeline.agent.rows import row_line

    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    count = 0
    try:
        with open(aside, "wb") as file:
            for row in rows:
                file.write(row_line(row))
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
    return count


# --- a warehouse ----------------------------------------------------------------------------------


@dataclass
class WarehouseRegrade:
    """What regrading a warehouse did, or would do.

    Attributes:
        is_dry_run: whether it only tells.
        judgments_added: judgments that were new.
        pairs_rescored: pairs of run and judgment that were graded.
        runs: runs in the warehouse.
        ungraded: those of them that no contract applies to.
        changes: rows of ``marts.flips`` that this regrade made, by task, variant and run.
        exports: files written, with the number of their records.
    """

    is_dry_run: bool
    judgments_added: int = 0
    pairs_rescored: int = 0
    runs: int = 0
    ungraded: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    exports: dict[str, int] = field(default_factory=dict)

    @property
    def flip_count(self) -> int:
        """How many runs have another outcome."""
        return sum(row["is_flip"] for row in self.changes)

    def summary(self) -> str:
        """What was done, as a sentence."""
        if not self.pairs_rescored and not self.changes:
            graded = self.runs - self.ungraded
            told = f"nothing to re-score: {graded} runs are graded by what applies now"
            return f"{told}{self._ungraded()}"
        did = "would re-score" if self.is_dry_run else "re-scored"
        return (
            f"{did} {self.pairs_rescored} pairs of {self.runs} runs; {len(self.changes)} come out"
            f" otherwise, {self.flip_count} with another outcome{self._ungraded()}"
        )

    def _ungraded(self) -> str:
        return f"; no contract applies to {self.ungraded} runs" if self.ungraded else ""


def regrade_warehouse(project: Project, *, dry_run: bool = False) -> WarehouseRegrade:
    """Re-score what a changed contract, weight, rule, setting or formula concerns, and only that.

    No source is read. Old grades are kept, and ``marts.flips`` lists what changed.

    Args:
        project: the project.
        dry_run: work on a copy of the published warehouse and throw it away.

    Raises:
        WarehouseError: nothing is there to be regraded.
        ToolscoreError: a contract or a setting is wrong; what was committed stays.
    """
    from toolscore_pipeline.warehouse import Warehouse

    kept = Warehouse(project.warehouse)
    if not dry_run:
        if not kept.path.is_file():
            raise WarehouseError(f"{kept.path}: there is no warehouse yet; run toolscore build")
        return _regrade(project, project.warehouse, is_dry_run=False)
    if not kept.published.is_file():
        raise WarehouseError(
            f"{kept.published}: no warehouse has been published yet; run toolscore build"
        )
    with tempfile.TemporaryDirectory(prefix="toolscore-") as folder:
        copy = Path(folder) / project.warehouse.name
        shutil.copyfile(kept.published, copy)
        return _regrade(project, copy, is_dry_run=True)


def _regrade(project: Project, path: Path, *, is_dry_run: bool) -> WarehouseRegrade:
    from dataclasses import replace

    from toolscore_pipeline import pipeline

    report, done = pipeline.BuildReport(), WarehouseRegrade(is_dry_run)
    bindings = project.bindings()
    settings = pipeline.comparison_settings(project)
    with pipeline.open_warehouse(replace(project, warehouse=path)).open() as session:
        row = session.store.execute("select max(edition) from receipts.editions").fetchone()
        last = int(row[0] or 0) if row else 0
        pipeline.load_judgments(session, bindings, report)
        session.replace_settings({"settings.comparisons": settings})
        session.use_grader()
        pipeline.grade_pending(session, report)
        is_new = session.note_edition()
        if is_dry_run:
            if is_new:
                session.build_table("marts.flips")
        else:
            pipeline.build_marts(session, report)
            pipeline.write_exports(session, project, report)
            pipeline.publish(session, report)
        [(done.runs, done.ungraded)] = session.store.execute(
            "select count(*), count(*) filter (applicable.run_id is null) from evidence.runs"
            " left join (select distinct run_id from judgment.applicable) as applicable"
            " using (run_id)"
        ).fetchall()
        done.judgments_added = report.judgments_added
        done.pairs_rescored = report.pairs_graded
        done.exports = report.exports
        if is_new:
            done.changes = rows_of(
                session.store,
                "select * from marts.flips where edition > $1"
                " order by not is_flip, task, variant, repetition, run_id",
                [last],
            )
    return done


def rows_of(
    store: duckdb.DuckDBPyConnection, query: str, parameters: list[Any] | None = None
) -> list[dict[str, Any]]:
    """The rows of a query as dicts."""
    result = store.execute(query, parameters or [])
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


# --- receipts of a warehouse ----------------------------------------------------------------------


def results_of(
    store: duckdb.DuckDBPyConnection, grade_ids: Iterable[str]
) -> Iterator[EvaluationResult]:
    """The evaluations of stored grades, as the Python functions would return them.

    Args:
        store: a connection on which the warehouse's schemas are.
        grade_ids: the grades, in the order wanted; those that are not there are left out.
    """
    wanted = list(grade_ids)
    for start in range(0, len(wanted), _CHUNK):
        yield from _results(store, wanted[start : start + _CHUNK])


def _results(store: duckdb.DuckDBPyConnection, grade_ids: list[str]) -> Iterator[EvaluationResult]:
    from toolscore_pipeline.api import judgment_rows
    from toolscore_pipeline.result import EvaluationResult
    from toolscore_pipeline.runner import OUTPUTS, grades_by_pair

    store.register("wanted_grades", pa.table({"grade_id": pa.array(grade_ids, pa.string())}))
    try:
        pairs = store.sql(
            "select wanted.position, run_id, judgment_id, grader_version from grades.grades"
            " inner join (select grade_id, row_number() over () as position from wanted_grades)"
            " as wanted using (grade_id) semi join evidence.runs using (run_id)"
        ).to_arrow_table()
    finally:
        store.unregister("wanted_grades")
    order = sorted(pairs.to_pylist(), key=lambda row: row["position"])
    numbered = pa.table(
        {
            "pair_id": pa.array(range(len(order)), pa.int64()),
            **{
                name: pa.array([row[name] for row in order], pa.string())
                for name in ("run_id", "judgment_id", "grader_version")
            },
        }
    )
    store.register("wanted_pairs", numbered)
    try:
        rows: list[tuple[int, int, str]] = []
        for position, name in enumerate(OUTPUTS):
            rows += store.execute(
                f"select {position}, pair_id, to_json(output)::varchar from {name} as output"
                " inner join wanted_pairs using (run_id, judgment_id, grader_version)"
            ).fetchall()
        runs = {row["run_id"]: row for row in _wanted(store, "evidence.runs", "run_id")}
        calls: dict[str, list[dict[str, Any]]] = {run_id: [] for run_id in runs}
        for row in _wanted(store, "evidence.calls", "run_id", "run_id, call_index"):
            calls[row["run_id"]].append(row)
        tables = {
            name: _table(store, f"judgment.{name}", "judgment_id")
            for name in ("judgments", "combinations", "expected_calls")
        }
        patterns = store.sql("select * from judgment.patterns").to_arrow_table()
        judgments = judgment_rows({**tables, "patterns": patterns})
    finally:
        store.unregister("wanted_pairs")
    for pair, graded in zip(order, grades_by_pair(rows, len(order)), strict=True):
        judgment = judgments[pair["judgment_id"]]
        yield EvaluationResult(
            run=runs[pair["run_id"]],
            calls=calls[pair["run_id"]],
            judgment=judgment.document,
            judgment_row=judgment.row,
            expected=judgment.expected[graded["grade"]["combination_id"]],
            combinations=judgment.combinations,
            grade_row=graded["grade"],
            metrics_row=graded["metrics"],
            checks=graded["checks"],
            findings=graded["findings"],
            expectations=graded["expectations"],
        )


def _table(
    store: duckdb.DuckDBPyConnection, name: str, key: str, order: str | None = None
) -> pa.Table:
    query = f"select * from {name} semi join wanted_pairs using ({key})"
    return store.sql(f"{query} order by {order}" if order else query).to_arrow_table()


def _wanted(
    store: duckdb.DuckDBPyConnection, name: str, key: str, order: str | None = None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _table(store, name, key, order).to_pylist()
    return found


def receipts_of(
    store: duckdb.DuckDBPyConnection, project: Project, grade_ids: Iterable[str]
) -> Iterator[tuple[EvaluationResult, dict[str, Any]]]:
    """The receipts of stored grades, with paths that start from the project's folder.

    Args:
        store: a connection on which the warehouse's schemas are.
        project: its project.
        grade_ids: the grades.

    Yields:
        The evaluation and its receipt. A contract whose file changed since is left out of the
        inputs, and so is the trace of a query, which is no file.
    """
    from toolscore_pipeline.receipts import build_receipt

    grade_ids = list(grade_ids)
    store.register("wanted_grades", pa.table({"grade_id": pa.array(grade_ids, pa.string())}))
    try:
        rows = rows_of(
            store, "select * from receipts.receipts semi join wanted_grades using (grade_id)"
        )
    finally:
        store.unregister("wanted_grades")
    stored = {row["grade_id"]: row for row in rows}
    formats = {source.name: source.format for source in project.sources}
    for result in results_of(store, grade_ids):
        row = stored[result.grade_id]
        settings = {
            "format": formats.get(str(result.run["source"]), "auto"),
            "locator": row["trace_locator"],
            "run_id": row["run_id"],
        }
        inputs = {role: entry for role, entry in _inputs(row, project).items() if entry}
        yield result, build_receipt(result, inputs, settings)


def _inputs(row: Mapping[str, Any], project: Project) -> dict[str, Mapping[str, Any] | None]:
    trace = None
    if row["trace_bytes"] is not None and not row["trace_path"].startswith("query:"):
        trace = {
            "path": row["trace_path"],
            "sha256": row["trace_sha256"],
            "bytes": row["trace_bytes"],
        }
    gold = None
    if row["contract_path"] is not None:
        found = _digest_below(project.root, project.root / row["contract_path"])
        if found is not None and found["sha256"] == row["contract_file_sha256"]:
            gold = found
    grading = project.grading
    return {
        "gold": gold,
        "trace": trace,
        "forbidden": _digest_below(project.root, grading.forbidden),
        "honesty_config": _digest_below(project.root, grading.honesty),
    }


def _digest_below(root: Path, path: Path | None) -> dict[str, Any] | None:
    if path is None or not path.is_file():
        return None
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return {**file_digest(path), "path": shown}
