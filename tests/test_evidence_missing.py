"""Less evidence never helps: no check moves to a pass when something was not recorded."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence_cases import CASES, CONTRACT, rows
from tests.project_helpers import make_project, rebuild, write_rows
from tests.test_honesty_properties import CASES as HONESTY_CASES
from toolscore_pipeline.api import Grader
from toolscore_pipeline.evidence import CHECKS
from toolscore_pipeline.formats.run_rows import read_row
from toolscore_pipeline.honesty import HonestyCall
from toolscore_pipeline.judgments import compile_judgment
from toolscore_pipeline.model import MISSING, Call, Run
from toolscore_pipeline.project import load_project
from toolscore_pipeline.runner import Engine
from toolscore_pipeline.warehouse import Warehouse

JUDGMENT_TABLES = (
    "judgments",
    "combinations",
    "expected_calls",
    "optional_calls",
    "forbidden_rules",
    "patterns",
    "pattern_args",
    "side_effects",
)
# Without its keys a row is none of anything, and what was injected is not evidence of the run but
# what a tester did to it: without it there is no fault to disclose and nothing to be followed.
KEPT = {"run_id", "call_index", "injected_json"}

Statuses = dict[tuple[str, str], str]


def assert_never_better(before: Statuses, after: Statuses, what: object) -> None:
    """No verdict is missing, and none is a pass that was none before."""
    assert after.keys() == before.keys(), what
    better = {
        place: (status, after[place])
        for place, status in before.items()
        if status != "pass" and after[place] == "pass"
    }
    assert not better, (what, better)


# --- NULLs in SQL ---------------------------------------------------------------------------------


class Store:
    """The evidence and judgments of a graded warehouse, loaded into an engine."""

    def __init__(self, folder: Path) -> None:
        make_project(folder, 8)
        write_rows(folder / "runs/cases.jsonl", rows())
        (folder / "contracts/any.yaml").write_text(CONTRACT + "task: '*'\n", encoding="utf-8")
        rebuild(folder)
        project = load_project(folder / "toolscore.yaml")
        self.engine = Engine(threads=1)
        with Warehouse(project.warehouse).read() as warehouse:
            tables = {
                name: warehouse.execute(f"select * from {name}").to_arrow_table()
                for name in (
                    "evidence.runs",
                    "evidence.calls",
                    "grades.checks",
                    *(f"judgment.{name}" for name in JUDGMENT_TABLES),
                )
            }
        self.graded = {
            (f"{row['run_id']} {row['judgment_id']}", row["check_name"]): row["status"]
            for row in tables["grades.checks"].to_pylist()
        }
        self.pairs = pairs = sorted(
            {(row["run_id"], row["judgment_id"]) for row in tables["grades.checks"].to_pylist()}
        )
        self.tables = tables
        for name in ("evidence.runs", "evidence.calls"):
            self.engine.fill(name, tables[name])
        for name in JUDGMENT_TABLES:
            self.engine.fill(f"judgment.{name}", tables[f"judgment.{name}"])
        self.engine.set_pairs(
            pa.table({"run_id": [run for run, _ in pairs], "judgment_id": [j for _, j in pairs]})
        )

    def statuses(self) -> Statuses:
        """The status of every check of every pair, graded now."""
        return {
            (f"{run_id} {judgment_id}", check["check_name"]): check["status"]
            for (run_id, judgment_id), graded in zip(
                self.pairs, self.engine.grade_few(), strict=True
            )
            for check in graded["checks"]
        }

    def without(self, table: str, *columns: str) -> Statuses:
        """The same with every value of some columns of a table set to NULL."""
        rows = self.tables[table]
        for column in columns:
            at = rows.schema.get_field_index(column)
            kind = rows.schema.field(at)
            rows = rows.set_column(at, kind, pa.nulls(len(rows), kind.type))
        self.engine.fill(table, rows)
        try:
            return self.statuses()
        finally:
            self.engine.fill(table, self.tables[table])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("missing") / "project")


def test_the_cases_show_every_check_in_every_state_it_has(store: Store) -> None:
    before = store.statuses()
    assert before == store.graded
    assert {name for _, name in before} == set(CHECKS)
    seen = Counter((name, status) for (_, name), status in before.items())
    for name in CHECKS:
        assert seen[name, "pass"], name
        assert seen[name, "fail"], name


@pytest.mark.parametrize("table", ["evidence.runs", "evidence.calls"])
def test_a_null_in_any_column_never_makes_a_check_pass_and_loses_no_verdict(
    store: Store, table: str
) -> None:
    columns = [name for name in store.tables[table].column_names if name not in KEPT]
    assert len(columns) > 20
    for column in columns:
        assert_never_better(store.graded, store.without(table, column), column)


def test_nulls_in_all_columns_at_once_leave_nothing_that_needs_evidence_passed(
    store: Store,
) -> None:
    for table in ("evidence.runs", "evidence.calls"):
        columns = [name for name in store.tables[table].column_names if name not in KEPT]
        assert_never_better(store.graded, store.without(table, *columns), table)
    columns = [
        name
        for name in store.tables["evidence.calls"].column_names
        if name not in KEPT | {"tool", "args_status"}
    ]
    with_calls = {row["run_id"] for row in store.tables["evidence.calls"].to_pylist()}
    passed = {
        name
        for (place, name), status in store.without("evidence.calls", *columns).items()
        if status == "pass" and place.split()[0] in with_calls
    }
    # A rule against a tool needs no arguments, an answer that claims nothing claims nothing false,
    # without code nothing was bypassed, and a side effect is seen where it happened.
    assert passed <= {"forbidden-calls", "claimed-success", "escape-hatch", "side-effects"}


# --- parts of a trace -----------------------------------------------------------------------------

REMOVALS: dict[str, dict[str, Any]] = {
    "arguments": {"args": None, "args_status": "absent", "args_raw": None},
    "result": {"result": MISSING},
    "error flag": {"is_error": None, "is_failed": None, "outcome_basis": None},
    "error": {"error": None},
    "denial": {"is_denied": None, "deny_reason": None},
    "deny reason": {"deny_reason": None},
    "duration": {"duration_seconds": None},
    "cost": {"cost_usd": None},
    "id": {"call_id": None},
    "times": {"started_at": None, "ended_at": None},
    "outcome": {
        "result": MISSING,
        "is_error": None,
        "error": None,
        "is_failed": None,
        "outcome_basis": None,
        "is_denied": None,
        "deny_reason": None,
    },
}
RUN_REMOVALS: dict[str, dict[str, Any]] = {
    "final answer": {"final_answer": None},
    "probes": {"probes": None},
    "status": {"status": None},
    "error": {"error": None},
    "model": {"model": None},
    "prompt": {"prompt": None},
    "usage": {"usage": None, "input_tokens": None, "output_tokens": None},
    "cost": {"cost_usd": None},
    "duration": {"duration_seconds": None},
    "times": {"started_at": None, "ended_at": None},
}
RUNS = dict(zip(CASES, (read_row(row) for row in rows()), strict=True))
JUDGMENT = compile_judgment(yaml.safe_load(CONTRACT))
GRADER = Grader()


def _recorded(answer: str | None, calls: list[HonestyCall], injected: Any) -> Run:
    """A case of the honesty tests as a run."""
    return Run(
        calls=[
            Call(
                tool=call.tool,
                args=call.args,
                args_status="absent" if call.args is None else "ok",
                args_raw=call.args_text,
                result=call.result if call.has_result else MISSING,
                is_error=call.is_failed,
                error=call.error,
                is_failed=call.outcome,
                is_denied=bool(call.is_denied),
            )
            for call in calls
        ],
        final_answer=answer,
        injected=injected,
    )


MORE_RUNS = [*RUNS.values(), *(_recorded(*case) for case in HONESTY_CASES)]

Removal = tuple[int | None, str]


def statuses(runs: list[Run]) -> list[Statuses]:
    return [
        {(str(at), check["check_name"]): check["status"] for check in result.checks}
        for at, result in enumerate(GRADER.grade(runs, [JUDGMENT] * len(runs)))
    ]


def places(run: Run) -> list[Removal]:
    """Everything that can be taken from a run: (call, part), or (None, part of the run)."""
    parts: list[Removal] = [(None, name) for name in RUN_REMOVALS]
    return parts + [(at, name) for at in range(len(run.calls)) for name in REMOVALS]


def remove(run: Run, removal: Removal) -> Run:
    """The run without that part; the calls themselves stay, and so does what was planted."""
    at, name = removal
    if at is None:
        return dataclasses.replace(run, **RUN_REMOVALS[name])
    calls: list[Call] = list(run.calls)
    calls[at] = dataclasses.replace(calls[at], **REMOVALS[name])
    return dataclasses.replace(run, calls=calls)


def _single_removals() -> Iterator[tuple[str, Removal]]:
    for name, run in RUNS.items():
        for removal in places(run):
            yield name, removal


def test_taking_any_one_part_of_a_trace_never_makes_a_check_pass() -> None:
    before = dict(zip(RUNS, statuses(list(RUNS.values())), strict=True))
    tried = list(_single_removals())
    after = statuses([remove(RUNS[name], removal) for name, removal in tried])
    for number, ((name, removal), found) in enumerate(zip(tried, after, strict=True)):
        expected = {(str(number), check): state for (_, check), state in before[name].items()}
        assert_never_better(expected, found, (name, removal))


@settings(max_examples=15)
@given(st.data())
def test_taking_several_parts_of_a_trace_never_makes_a_check_pass(data: st.DataObject) -> None:
    # Many chains at a time, for grading a hundred runs costs little more than grading one.
    chains: list[list[Run]] = []
    tried: list[tuple[int, list[Removal]]] = []
    for number in data.draw(st.lists(st.integers(0, len(MORE_RUNS) - 1), min_size=12, max_size=12)):
        run = MORE_RUNS[number]
        drawn = data.draw(st.lists(st.sampled_from(places(run)), min_size=2, max_size=6))
        chain = [run]
        for removal in drawn:
            chain.append(remove(chain[-1], removal))
        chains.append(chain)
        tried.append((number, drawn))
    found = iter(statuses([run for chain in chains for run in chain]))
    for chain, what in zip(chains, tried, strict=True):
        # Step by step: what is already poor may not look better when it gets poorer.
        steps = [{check: state for (_, check), state in next(found).items()} for _ in chain]
        for poorer, richer in zip(steps[1:], steps, strict=False):
            assert_never_better(
                {("", check): state for check, state in richer.items()},
                {("", check): state for check, state in poorer.items()},
                what,
            )
