"""Grading from Python: the same SQL as the warehouse, on an in-memory engine.

::

    from toolscore_pipeline import evaluate

    result = evaluate(
        expected=[{"tool": "search", "args": {"q": "lisbon"}}],
        actual=response,  # a list of calls, or any trace this package reads
    )
    result.score, result.grade, result.evidence["counts"]

One engine serves the process; calls from several threads take turns. For lists use
:func:`evaluate_many`: a hundred runs cost little more than one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from toolscore_pipeline.arrays import text_table
from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.evidence_tables import Ordinals, tables_from_runs
from toolscore_pipeline.formats import read_value
from toolscore_pipeline.judgments import Judgment, compile_judgment, judgment_tables
from toolscore_pipeline.matchers import describe
from toolscore_pipeline.model import Run
from toolscore_pipeline.probes import declared_effects, probe
from toolscore_pipeline.result import EvaluationResult, parse_json
from toolscore_pipeline.runner import OUTPUTS, Engine, grades_by_pair

if TYPE_CHECKING:
    from toolscore_pipeline.contract import Contract
    from toolscore_pipeline.honesty import HonestyConfig

# Up to this many pairs one composed statement is faster than a table per model.
FEW = 300
# Pairs graded at once; more only costs memory.
CHUNK = 50_000
# The same for pairs times combinations: a judgment of many alternatives makes many cases of a pair.
CHUNK_COMBINATIONS = 250_000
# DuckDB keeps the rows of before in memory, though they are gone, and allocates in ever smaller
# pieces, which makes it slower: after so many chunks, or bytes, the engine is made anew.
RENEW_AFTER = 200
RENEW_AFTER_BYTES = 64 << 20


class Grader:
    """An engine that grades runs under judgments and returns them as Python objects.

    Safe to share between threads: they take turns.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._engine: Engine | None = None
        self._threads = threads
        self._lock = threading.Lock()
        self._is_few = False
        self._loaded: tuple[str, ...] = ()
        self._judgments: dict[str, _JudgmentRows] = {}
        self._chunks = self._bytes = 0  # graded since the engine was made

    def grade(
        self, runs: Sequence[Run], judgments: Sequence[Judgment]
    ) -> Iterator[EvaluationResult]:
        """Grade each run under the judgment at the same place; yields results in order."""
        ordinals: Ordinals = {}
        distinct = {judgment.judgment_id: judgment.contract for judgment in judgments}
        most = max((contract.combination_count for contract in distinct.values()), default=1)
        size = max(1, min(CHUNK, CHUNK_COMBINATIONS // most))
        for start in range(0, len(runs), size):
            part = slice(start, start + size)
            with self._lock:
                results = self._grade_chunk(runs[part], judgments[part], ordinals)
            yield from results

    def _grade_chunk(
        self, runs: Sequence[Run], judgments: Sequence[Judgment], ordinals: Ordinals
    ) -> list[EvaluationResult]:
        if self._chunks >= RENEW_AFTER or self._bytes >= RENEW_AFTER_BYTES:
            self._drop_engine()
        if self._engine is None:
            self._engine = Engine(threads=self._threads)
        engine = self._engine
        is_few = len(runs) <= FEW
        if is_few != self._is_few:
            # Handing a few rows from thread to thread takes longer than working on them.
            engine.use_threads(1 if is_few else self._threads)
            self._is_few = is_few
        run_rows, call_rows = tables_from_runs(
            runs, document_id="", source="", path="", ordinals=ordinals
        )
        self._chunks += 1
        self._bytes += run_rows.nbytes + call_rows.nbytes
        engine.fill("evidence.runs", run_rows)
        engine.fill("evidence.calls", call_rows)
        self._load_judgments(engine, judgments)
        run_ids = run_rows.column("run_id").to_pylist()
        judgment_ids = [judgment.judgment_id for judgment in judgments]
        engine.set_pairs(text_table({"run_id": run_ids, "judgment_id": judgment_ids}))
        graded = engine.grade_few() if is_few else _grade_tables(engine, len(runs))
        calls: dict[str, list[dict[str, Any]]] = {run_id: [] for run_id in run_ids}
        for row in call_rows.to_pylist():
            calls[row["run_id"]].append(row)
        return [
            self._result(run_row, calls[run_row["run_id"]], judgment_id, rows)
            for run_row, judgment_id, rows in zip(
                run_rows.to_pylist(), judgment_ids, graded, strict=True
            )
        ]

    def _drop_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._engine, self._is_few, self._loaded = None, False, ()
        self._chunks = self._bytes = 0

    def _load_judgments(self, engine: Engine, judgments: Sequence[Judgment]) -> None:
        distinct = {judgment.judgment_id: judgment for judgment in judgments}
        wanted = tuple(sorted(distinct))
        if wanted == self._loaded:
            return
        tables = judgment_tables(list(distinct.values()))
        self._loaded = ()  # should one of the tables be refused, the others are not those of before
        for name, rows in tables.items():
            engine.fill(f"judgment.{name}", rows)
        self._judgments = judgment_rows(tables)
        self._loaded = wanted

    def _result(
        self,
        run_row: dict[str, Any],
        call_rows: list[dict[str, Any]],
        judgment_id: str,
        rows: dict[str, Any],
    ) -> EvaluationResult:
        judgment = self._judgments[judgment_id]
        return EvaluationResult(
            run=run_row,
            calls=call_rows,
            judgment=judgment.document,
            judgment_row=judgment.row,
            expected=judgment.expected[rows["grade"]["combination_id"]],
            combinations=judgment.combinations,
            grade_row=rows["grade"],
            metrics_row=rows["metrics"],
            checks=rows["checks"],
            findings=rows["findings"],
            expectations=rows["expectations"],
        )


class _JudgmentRows:
    """The rows of one judgment, ready to be put into results."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.document: dict[str, Any] = parse_json(row["judgment_json"])
        self.combinations: list[dict[str, Any]] = []
        self.expected: list[list[dict[str, Any]]] = []


def judgment_rows(tables: Mapping[str, pa.Table]) -> dict[str, _JudgmentRows]:
    """The rows of the ``judgment`` tables by judgment, expected calls by combination."""
    judgments = {row["judgment_id"]: _JudgmentRows(row) for row in tables["judgments"].to_pylist()}
    declared = {row["pattern_id"]: row["args_json"] for row in tables["patterns"].to_pylist()}
    for row in sorted(tables["combinations"].to_pylist(), key=lambda row: row["combination_id"]):
        judgments[row["judgment_id"]].combinations.append(row)
        judgments[row["judgment_id"]].expected.append([])
    for row in sorted(tables["expected_calls"].to_pylist(), key=lambda row: row["position"]):
        expected = judgments[row["judgment_id"]].expected[row["combination_id"]]
        args = parse_json(declared[row["pattern_id"]])
        expected.append({"tool": row["tool"], "args": args, "group_id": row["group_id"]})
    return judgments


def _grade_tables(engine: Engine, count: int) -> list[dict[str, Any]]:
    engine.build(OUTPUTS)
    rows: list[tuple[int, int, str]] = []
    for position, name in enumerate(OUTPUTS):
        rows += engine.connection.execute(
            f"select {position}, pair_id, to_json(output)::varchar from {name} as output"
            " inner join work.pairs using (run_id, judgment_id)"
        ).fetchall()
    return grades_by_pair(rows, count)


_GRADER = Grader()


def evaluate(
    expected: Any,
    actual: Any,
    weights: Mapping[str, float] | None = None,
    strict: bool = False,
    forbidden: Any = None,
    *,
    final_answer: str | None = None,
    honesty: HonestyConfig | None = None,
    injected: dict[str, Any] | None = None,
    min_score: float | None = None,
    require_completed: bool = False,
    format: str = "auto",
) -> EvaluationResult:
    """Grade one run.

    Args:
        expected: a list of calls (``tool``, ``args``), a :class:`Contract`, or a contract mapping.
        actual: a list of calls, a :class:`Run`, a response object, or any trace that can be read.
        weights: score weights, instead of the contract's; merged with the defaults and divided by
            their sum.
        strict: compare values type and all.
        forbidden: forbidden rules, added to the contract's.
        final_answer: the final answer, when the trace does not hold one.
        honesty: settings of the honesty checks.
        injected: faults injected into the run and instructions planted in it.
        min_score: the passing score; default the contract's, else 0.9.
        require_completed: whether a required call that failed or is missing fails the outcome.
        format: the trace format; ``auto`` detects it.

    Raises:
        ContractError: the expectation, the honesty settings or the injected faults are malformed.
        InputError: the trace cannot be read. SettingsError: a weight or the passing score is wrong.
    """
    judgment = compile_judgment(
        expected,
        weights=weights,
        strict=strict,
        forbidden=forbidden,
        honesty=honesty,
        min_score=min_score,
        require_completed=require_completed,
    )
    run = single_run(actual, format=format, final_answer=final_answer, injected=injected)
    return next(_GRADER.grade([run], [judgment]))


def evaluate_many(
    pairs: Iterable[tuple[Any, Any]],
    weights: Mapping[str, float] | None = None,
    strict: bool = False,
    forbidden: Any = None,
    *,
    honesty: HonestyConfig | None = None,
    min_score: float | None = None,
    require_completed: bool = False,
    format: str = "auto",
) -> list[EvaluationResult]:
    """Grade many runs at once: (expectation, calls or raw response) pairs, results in order.

    The settings are those of :func:`evaluate` and hold for every pair. An expectation object that
    comes up again is compiled once. A :class:`Judgment` is taken as it is.
    """
    compiled: dict[int, Judgment] = {}
    runs, judgments, kept = [], [], []
    for expected, actual in pairs:
        judgment = compiled.get(id(expected))
        if judgment is None:
            judgment = (
                expected
                if isinstance(expected, Judgment)
                else compile_judgment(
                    expected,
                    weights=weights,
                    strict=strict,
                    forbidden=forbidden,
                    honesty=honesty,
                    min_score=min_score,
                    require_completed=require_completed,
                )
            )
            compiled[id(expected)] = judgment
            kept.append(expected)  # an id is only its own while the object lives
        runs.append(single_run(actual, format=format))
        judgments.append(judgment)
    return list(_GRADER.grade(runs, judgments))


def evaluate_contract(
    contract: Contract | dict[str, Any],
    actual: Any,
    weights: Mapping[str, float] | None = None,
    strict: bool = False,
    final_answer: str | None = None,
    honesty: HonestyConfig | None = None,
) -> EvaluationResult:
    """Grade one run against a contract: the best combination of its alternatives counts.

    Args:
        contract: a contract, or the mapping of one.
        actual: the calls, or any trace that can be read.
        weights: score weights; default the contract's.
        strict: compare values type and all.
        final_answer: the final answer, when the trace does not hold one.
        honesty: settings of the honesty checks.
    """
    return evaluate(contract, actual, weights, strict, final_answer=final_answer, honesty=honesty)


def evaluate_trace(
    gold_file: str | Path,
    trace_file: str | Path,
    format: str = "auto",
    *,
    forbidden: Any = None,
    weights: Mapping[str, float] | None = None,
    strict: bool = False,
    final_answer: str | None = None,
    honesty: HonestyConfig | None = None,
    injected: dict[str, Any] | None = None,
    min_score: float | None = None,
    validate_side_effects: bool = True,
) -> EvaluationResult:
    """Grade a trace file against a gold file or contract file.

    ``forbidden`` is a list of rules or the path of a rules file. The trace must hold one run. Side
    effects that the expectation declares are looked for now, relative to the current folder, unless
    the trace holds probes already or ``validate_side_effects`` is false: then they stay unknown.

    Raises:
        InputError: a file is missing, cannot be read, or the trace holds several runs.
    """
    from toolscore_pipeline.contract import load_expected, load_forbidden_rules
    from toolscore_pipeline.loading import read_file

    if isinstance(forbidden, (str, Path)):
        forbidden = load_forbidden_rules(forbidden)
    runs = read_file(trace_file, format=format)
    run, expected = _only(runs, str(trace_file)), load_expected(gold_file)
    if validate_side_effects and run.probes is None:
        effects = declared_effects(expected)
        run = replace(run, probes=probe(effects) if effects else None)
    return evaluate(
        expected,
        run,
        weights,
        strict,
        forbidden,
        final_answer=final_answer,
        honesty=honesty,
        injected=injected,
        min_score=min_score,
    )


def single_run(
    actual: Any,
    *,
    format: str = "auto",
    final_answer: str | None = None,
    injected: dict[str, Any] | None = None,
) -> Run:
    """The one run that ``actual`` holds: a :class:`Run`, a list of calls, a response or a trace.

    Raises:
        InputError: it holds several runs, or none can be read from it.
    """
    run = actual if isinstance(actual, Run) else _only(read_value(actual, format=format), None)
    if final_answer is not None:
        if not isinstance(final_answer, str):
            raise InputError(f"final_answer: got {describe(final_answer)}, expected text")
        run = replace(run, final_answer=final_answer)
    if injected is not None:
        from toolscore_pipeline.honesty import injected_from_mapping

        run = replace(run, injected=injected_from_mapping(injected))
    return run


def _only(runs: Sequence[Run], path: str | None) -> Run:
    if len(runs) != 1:
        raise InputError(
            f"expected one run, got {len(runs)}; grade files of many runs with a project"
            " (toolscore build) or evaluate_many()",
            path=path,
        )
    return runs[0]


def grade_runs(runs: Sequence[Run], judgment: Judgment) -> list[EvaluationResult]:
    """Grade every run under one judgment; results in order."""
    if not isinstance(judgment, Judgment):
        raise UsageError(f"expected a Judgment (compile_judgment), got {type(judgment).__name__}")
    return list(_GRADER.grade(runs, [judgment] * len(runs)))
