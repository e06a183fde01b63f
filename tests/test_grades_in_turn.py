"""Grades of one process do not depend on what it graded before."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from tests.generated_cases import gold_case
from toolscore_pipeline import api
from toolscore_pipeline.judgments import compile_judgment
from toolscore_pipeline.runner import Engine

SHORT = [{"tool": "list_notes"}]
LONG = [{"tool": "save_note", "args": {"title": "groceries", "body": {"$regex": "eggs.*milk"}}}]


def test_a_longer_text_after_shorter_ones_is_graded_whole():
    # The plan is made once; statistics of the first run's short texts must not bind the second.
    first = api.evaluate(SHORT, [{"tool": "list_notes", "args": {}, "result": "x"}])
    args = {"title": "note", "body": "eggs and milk"}
    second = api.evaluate(LONG, [{"tool": "save_note", "args": args, "result": "saved"}])
    assert first.score == 0.4 + 0.3 + 0.2 + 0.1
    # One of two arguments is right: 0.4 + 0.3 * 0.5 + 0.2 + 0.1.
    assert abs(second.score - 0.85) < 1e-12


def test_a_run_without_calls_has_a_redundant_rate_of_zero():
    result = api.evaluate(SHORT, [])
    assert result.metrics["efficiency_metrics"]["redundant_rate"] == 0.0
    # Nothing selected, no argument, no sequence, and nothing redundant: 0.1 * (1 - 0).
    assert abs(result.score - 0.1) < 1e-12


def test_a_judgment_that_fails_to_load_does_not_spoil_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grader, run = api.Grader(threads=1), api.single_run([{"tool": "list_notes", "result": "x"}])
    short, long = compile_judgment(SHORT), compile_judgment(LONG)
    fill = Engine.fill

    def refuse(engine: Engine, name: str, rows: pa.Table) -> None:
        if name == "judgment.patterns":
            raise OSError("no")
        fill(engine, name, rows)

    before = next(grader.grade([run], [short])).to_dict()
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "fill", refuse)
        with pytest.raises(OSError, match="no"):
            next(grader.grade([run], [long]))
    # Half of the other judgment's tables are loaded by now.
    assert next(grader.grade([run], [short])).to_dict() == before


def test_a_kept_plan_grades_every_batch_as_a_table_per_model_does(monkeypatch):
    # A filter that one execution left in the kept plan hid rows of the next, once in some hundred
    # batches; these seeds showed it.
    random = Random(1)
    batches = []
    for _ in range(4):
        cases = [gold_case(random, 9) for _ in range(120)]
        runs = [api.single_run(case["actual"]) for case in cases]
        batches.append((runs, [compile_judgment(case["expected"]) for case in cases]))

    def graded(grader, batch):
        rows = [(r.grade_row, r.metrics_row, r.expectations) for r in grader.grade(*batch)]
        return [repr(row) for row in rows]

    monkeypatch.setattr(api, "FEW", 0)
    by_tables = [graded(api.Grader(threads=1), batch) for batch in batches]
    monkeypatch.setattr(api, "FEW", 300)
    grader = api.Grader(threads=2)
    for turn in range(12):
        assert graded(grader, batches[turn % 4]) == by_tables[turn % 4]


@pytest.mark.parametrize(("limit", "value"), [("RENEW_AFTER", 5), ("RENEW_AFTER_BYTES", 1_000_000)])
def test_a_process_that_grades_on_and_on_keeps_no_more_than_the_last_runs(
    monkeypatch, limit, value
):
    monkeypatch.setattr(api, limit, value)
    grader, judgment = api.Grader(threads=1), compile_judgment(SHORT)
    kept, scores = [], []
    for number in range(12):
        run = api.single_run([{"tool": "list_notes", "result": f"{number}" * 200_000}])
        scores.append(next(grader.grade([run], [judgment])).score)
        assert grader._engine is not None
        [[rows]] = grader._engine.connection.execute(
            "select estimated_size from duckdb_tables() where table_name = 'calls'"
        ).fetchall()
        kept.append(rows)  # those that are gone and still held count among them
    assert max(kept) == 5
    assert len(set(scores)) == 1


def test_many_combinations_are_graded_in_small_chunks_with_the_same_grades(monkeypatch):
    group = {"alternatives": [[{"tool": tool}] for tool in "abcd"]}
    judgment = compile_judgment({"contract_version": 2, "required": [group, group]})
    calls = [[{"tool": tool, "result": 1}, {"tool": "b", "result": 1}] for tool in "aabca"]
    runs = [api.single_run(each) for each in calls]
    whole = [result.to_dict() for result in api.grade_runs(runs, judgment)]
    sizes = []
    grade_chunk = api.Grader._grade_chunk

    def note(self, runs, judgments, ordinals):
        sizes.append(len(runs))
        return grade_chunk(self, runs, judgments, ordinals)

    monkeypatch.setattr(api.Grader, "_grade_chunk", note)
    monkeypatch.setattr(api, "CHUNK_COMBINATIONS", 40)  # 4 times 4 combinations: two runs at once
    results = api.grade_runs(runs, judgment)
    assert sizes == [2, 2, 1]
    assert [result.to_dict() for result in results] == whole
    assert len({result.run_id for result in results}) == 5  # three of them are equal
