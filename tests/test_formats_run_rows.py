"""Run rows: the plain reader, and the fast path that must read the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscore_pipeline import jsonio
from toolscore_pipeline.errors import InputError
from toolscore_pipeline.evidence_tables import TableBuilder
from toolscore_pipeline.formats import NO_CALLS_WARNING, read_value, run_rows
from toolscore_pipeline.formats._fast_rows import RowTables
from toolscore_pipeline.loading import rows_to_runs
from toolscore_pipeline.model import MISSING

MEMORY_RUNS = Path(__file__).parents[2] / "shared" / "data" / "mcp-memory-runs.json"


def harness_row(**changes: Any) -> dict[str, Any]:
    """A row as the agent harness writes it."""
    return {
        "run_record_version": "1",
        "cell_id": "save-a-note::careful::1",
        "task_id": "save-a-note",
        "arm_id": "careful",
        "repetition": 1,
        "order": 4,
        "seed": 7,
        "status": "completed",
        "calls": [
            {
                "id": "call_1",
                "tool": "create_note",
                "provider_name": "create_note",
                "args": {"title": "groceries", "body": "milk"},
                "result": "Created note 1",
                "structured": None,
                "is_error": False,
                "error": None,
                "duration": 0.25,
                "denied": False,
                "deny_reason": None,
            },
            {
                "id": "call_2",
                "tool": "delete_note",
                "provider_name": "delete_note",
                "args": {"title": "old"},
                "result": "denied by the harness guard: read-only study",
                "structured": None,
                "is_error": True,
                "error": None,
                "duration": None,
                "denied": True,
                "deny_reason": "read-only study",
            },
        ],
        "guard_denials": [],
        "final_answer": "Saved.",
        "usage": {"input_tokens": 120, "output_tokens": 30},
        "cost_usd": 0.0125,
        "outcome": "pass",
        "passed": True,
        **changes,
    }


def test_a_harness_row_keeps_everything_it_records() -> None:
    [run] = read_value(harness_row(duration=1.5, model="claude-haiku"))
    assert (run.task, run.variant, run.repetition) == ("save-a-note", "careful", 1)
    assert (run.status, run.recorded_outcome, run.final_answer) == ("completed", "pass", "Saved.")
    assert (run.cost_usd, run.duration_seconds) == (0.0125, 1.5)
    assert (run.input_tokens, run.output_tokens) == (120, 30)
    assert run.model == "claude-haiku"
    assert run.attributes is not None
    assert run.attributes["cell_id"] == "save-a-note::careful::1"
    created, deleted = run.calls
    assert (created.call_id, created.tool, created.result) == (
        "call_1",
        "create_note",
        "Created note 1",
    )
    assert created.is_failed is False
    assert created.outcome_basis == "explicit"
    assert created.duration_seconds == 0.25
    assert (deleted.is_denied, deleted.deny_reason) == (True, "read-only study")
    assert deleted.is_failed is True


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"outcome": "fail", "passed": True}, "fail"),
        ({"outcome": None, "status": "error", "passed": True}, "error"),
        ({"outcome": None, "passed": True}, "pass"),
        ({"outcome": None, "passed": False}, "fail"),
        ({"outcome": None, "passed": None}, None),
        ({"outcome": "ok", "passed": True}, "unknown"),
        ({"outcome": "ok", "status": "error", "passed": True}, "error"),
        ({"outcome": "", "passed": True}, "pass"),
    ],
)
def test_the_outcome_is_the_rows_own_else_its_status_else_passed(
    row: dict[str, Any], outcome: str | None
) -> None:
    [run] = read_value(harness_row(**row))
    assert run.recorded_outcome == outcome


@pytest.mark.parametrize(
    ("row", "warnings"),
    [
        ({"outcome": "ok", "passed": True},
         ["the outcome 'ok' is not known: the run's is taken as unknown"]),
        ({"outcome": "pass", "passed": False},
         ["the outcome 'pass' contradicts 'passed': the outcome counts"]),
        ({"outcome": "pass", "passed": True}, []),
        ({"outcome": "unknown", "passed": None}, []),
    ],
)  # fmt: skip
def test_an_outcome_in_doubt_is_a_warning(row: dict[str, Any], warnings: list[str]) -> None:
    [run] = read_value(harness_row(**row))
    assert run.warnings == warnings


def test_variant_task_cost_and_latency_have_the_synonyms_of_the_seeds() -> None:
    row = {
        "task": "t", "arm": "b", "model": "m", "calls": [], "cost": {"usd": 0.5},
        "latency": 3, "final_text": "done", "repetition": 0,
    }  # fmt: skip
    [run] = read_value(row)
    assert (run.task, run.variant, run.model) == ("t", "b", "m")
    assert (run.cost_usd, run.duration_seconds, run.final_answer) == (0.5, 3.0, "done")
    [by_model] = read_value({"task": "t", "model": "m", "calls": [], "outcome": "pass"})
    assert by_model.variant == "m"


def test_a_blank_name_names_nothing() -> None:
    [run] = read_value({"task": " ", "variant": "", "model": "m", "calls": []})
    assert (run.task, run.variant, run.model) == (None, None, "m")


def test_a_negative_cost_or_time_is_unknown_and_said_to_be() -> None:
    row = {
        "task": "t", "variant": "v", "cost_usd": -0.5, "duration_s": "-3",
        "calls": [{"tool": "a", "args": {}, "duration": -1, "cost": 0}],
    }  # fmt: skip
    [run] = read_value(row)
    assert (run.cost_usd, run.duration_seconds) == (None, None)
    assert (run.calls[0].duration_seconds, run.calls[0].cost_usd) == (None, 0.0)
    assert "a negative cost is no cost: it is taken as unknown" in run.warnings
    assert "a negative duration is no duration: it is taken as unknown" in run.warnings
    assert run.calls[0].warnings == ["a negative duration is no duration: it is taken as unknown"]


def test_a_structured_result_stands_in_for_a_missing_text() -> None:
    [run] = read_value(
        harness_row(calls=[{"tool": "t", "args": {}, "result": None, "structured": {"n": 1}}])
    )
    assert run.calls[0].result == {"n": 1}


def test_a_row_with_messages_is_read_through_their_own_format() -> None:
    messages = [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "w", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
    ]
    [run] = read_value({"task_id": "w", "variant": "v", "messages": messages})
    assert run.format == "run_rows"
    assert (run.task, run.variant, run.prompt, run.final_answer) == ("w", "v", "weather?", "Sunny.")
    assert run.calls[0].result == "sunny"
    assert run.calls[0].request_locator == "$.messages[1].tool_calls[0]"


def test_rows_of_a_query_may_hold_their_calls_as_json_text() -> None:
    rows: list[dict[str, Any]] = [
        {"task": "a", "variant": "x", "calls": '[{"tool": "t", "args": {"n": 9007199254740993}}]'},
        {"task": "b", "variant": "x", "calls": ['{"tool": "t", "args": {"n": 2}}'], "extra": 1.5},
    ]
    first, second = rows_to_runs(rows)
    assert first.calls[0].args == {"n": 9007199254740993}
    assert second.calls[0].args == {"n": 2}
    assert second.attributes == {"extra": 1.5}


def test_a_query_without_calls_or_messages_is_told_which_column_is_missing() -> None:
    with pytest.raises(InputError, match=r"'calls'.*'messages'; the columns are: outcome, task"):
        rows_to_runs([{"task": "a", "outcome": "pass"}])


def test_a_row_without_calls_is_a_run_with_a_warning() -> None:
    [run] = read_value(harness_row(calls=[]))
    assert run.calls == []
    assert run.warnings == [NO_CALLS_WARNING]


# --- the fast path --------------------------------------------------------------------------------


def plain_tables(lines: list[bytes], last: Sequence[int] = ()) -> tuple[list[Any], list[Any]]:
    """The tables that the plain reader and the builder make of lines of JSON.

    Some lines, by index, are read after the others: of rows that say the same, the ordinals that
    tell them apart go by the order of reading.
    """
    builder = TableBuilder(is_strict_json=True)
    ordinals: dict[Any, int] = {}
    for number, line in sorted(enumerate(lines, start=1), key=lambda item: item[0] - 1 in last):
        value, _ = jsonio.strict_loads(line)
        run = run_rows.read_row(value, locator=f"line {number}")
        if not run.calls and run.status != "error":
            run.warnings.append(NO_CALLS_WARNING)
        builder.add([run], "d", "s", "p", ordinals)
    runs, calls = builder.finish()
    return runs.to_pylist(), calls.to_pylist()


def assert_same(lines: list[bytes], *, is_fast: bool | None = None) -> None:
    """The fast path reads what it takes as the plain reader does."""
    tables = RowTables()
    ordinals: dict[Any, int] = {}
    count, left = tables.add(b"\n".join(lines) + b"\n", 1, ordinals, document=("d", "s", "p"))
    if is_fast is not None:
        assert (count == len(lines)) is is_fast
    runs, calls = tables.finish()
    taken = [line for number, line in enumerate(lines) if number not in set(left)]
    if count == 0:
        assert runs.num_rows == calls.num_rows == 0
        return
    expected_runs, expected_calls = plain_tables(lines, left)
    names = {f"line {number + 1}" for number, _ in enumerate(lines) if number not in set(left)}
    expected_runs = [run for run in expected_runs if run["locator"] in names]
    kept = {run["run_id"] for run in expected_runs}
    assert runs.to_pylist() == expected_runs
    assert calls.to_pylist() == [call for call in expected_calls if call["run_id"] in kept]
    assert len(taken) == count


def test_the_fast_path_reads_harness_rows_as_the_plain_reader_does() -> None:
    rows = [harness_row(), harness_row(), harness_row(calls=[], status="error", error="timeout")]
    rows.append(harness_row(final_answer="Zoë saved it ✓", cost_usd=1, duration=2))
    rows.append(harness_row(calls=[{"tool": "t", "args": {"b": [1, {"z": 0, "a": None}], "a": 1}}]))
    rows.append(harness_row(calls=[{"tool": "t", "args": {}, "result": {"error": "nope"}}]))
    rows.append(harness_row(calls=[{"tool": "t", "args": {}, "result": "Error: no such note"}]))
    rows.append(harness_row(calls=[{"tool": "t", "args": {}, "error": "boom", "result": "x"}]))
    assert_same([json.dumps(row).encode() for row in rows], is_fast=True)


@pytest.mark.parametrize("text", ["404 Not Found", "HTTP 503: try later", "status code: 500", "ok"])
def test_the_fast_path_suspects_what_the_plain_reader_does(text: str) -> None:
    calls = [{"tool": "t", "args": {}, "result": text}]
    assert_same([json.dumps(harness_row(calls=calls)).encode()], is_fast=True)


def test_identical_rows_are_different_runs() -> None:
    line = json.dumps(harness_row()).encode()
    tables = RowTables()
    tables.add(line + b"\n" + line + b"\n", 1, {}, document=("d", "s", "p"))
    first, second = tables.finish()[0].to_pylist()
    assert first["evidence_sha256"] == second["evidence_sha256"]
    assert first["run_id"] != second["run_id"]


@pytest.mark.parametrize(
    "odd",
    [
        '{"run_record_version":"1","calls":[],"task_id":"a","task_id":"b"}',
        '{"run_record_version":"1","calls":[{"tool":"t","args":{"n":1,"n":2}}]}',
        '{"run_record_version":"1","calls":[],"note":"\\u003a","note":"::"}',
        '{"run_record_version":"1","calls":[{"tool":"t","args":{"n":18446744073709551616}}]}',
        '{"run_record_version":"1","calls":[{"tool":"t","args":{"n":1e-7}}]}',
        '{"run_record_version":"1","calls":[],"cost_usd":0.00001}',
        '{"run_record_version":"1","calls":[],"note":{"n":0.00001}}',
        '{"run_record_version":"1","calls":[],"note":-99999999999999999999}',
        '{"run_record_version":"1","calls":[{"tool":"t","args":{},"result":1e-9}]}',
        '{"run_record_version":"1","calls":[],"cost_usd":-0.5}',
        '{"run_record_version":"1","calls":[],"task_id":"","arm_id":"v"}',
        '{"run_record_version":"1","calls":[],"task_id":"t","arm_id":"\\u2003 "}',
        '{"run_record_version":"1","calls":[{"tool":"t","args":{},"duration":-1}]}',
        '{"run_record_version":"1","calls":[],"outcome":"ok","passed":true}',
        '{"run_record_version":"1","calls":[],"outcome":"fail","passed":true}',
    ],
)
def test_what_the_fast_parser_reads_otherwise_is_left_to_the_plain_reader(odd: str) -> None:
    assert_same([json.dumps(harness_row()).encode(), odd.encode()], is_fast=False)
    tables = RowTables()
    _, left = tables.add(odd.encode() + b"\n", 1, {}, document=("d", "s", "p"))
    assert left == [0]


def test_rows_of_another_shape_are_left_and_the_others_read() -> None:
    lines = [
        json.dumps(harness_row()).encode(),
        b"{broken",
        b"",
        json.dumps(harness_row(calls=[{"name": "t", "input": {}}])).encode(),
        json.dumps(harness_row(calls=[{"tool": "t", "args": "{}"}])).encode(),
        b"[1, 2]",
        json.dumps(harness_row(task_id=7)).encode(),
        json.dumps(harness_row()).encode(),
    ]
    tables = RowTables()
    count, left = tables.add(b"\n".join(lines), 1, {}, document=("d", "s", "p"))
    assert count == 2
    assert left == [1, 3, 4, 5, 6]
    assert [run["locator"] for run in tables.finish()[0].to_pylist()] == ["line 1", "line 8"]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
)
TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["Error: missing required parameter", "failed to open", "a:b", "ünïcode: ✓", ""]
)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CALLS = st.fixed_dictionaries(
    {"tool": st.sampled_from(["a", "b", "search"]), "args": st.dictionaries(TEXTS, VALUES)},
    optional={
        "id": st.none() | TEXTS,
        "result": VALUES,
        "structured": VALUES,
        "is_error": st.none() | st.booleans(),
        "error": st.none() | TEXTS,
        "denied": st.booleans(),
        "deny_reason": st.none() | TEXTS,
        "duration": st.none() | st.floats(0, 100) | st.integers(0, 9),
        "provider_name": st.none() | TEXTS,
    },
)
ROWS = st.fixed_dictionaries(
    {"run_record_version": st.just("1"), "calls": st.lists(CALLS, max_size=4)},
    optional={
        "task_id": st.none() | TEXTS,
        "task": TEXTS,
        "arm_id": TEXTS,
        "model": st.none() | TEXTS,
        "repetition": st.integers(0, 5),
        "status": st.sampled_from(["completed", "error"]),
        "error": st.none() | TEXTS,
        "final_answer": st.none() | TEXTS,
        "usage": st.none() | st.dictionaries(TEXTS, VALUES, max_size=2),
        "cost_usd": st.none() | st.floats(0, 10),
        "duration": st.integers(0, 10),
        "outcome": st.sampled_from(["pass", "fail", None, "ok"]),
        "passed": st.sampled_from([True, False, None]),
        "note": VALUES,
        "other": VALUES,
    },
)


@settings(max_examples=150)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_the_fast_path_never_differs_from_the_plain_reader(rows: list[dict[str, Any]]) -> None:
    assert_same([json.dumps(row).encode() for row in rows])


def test_most_generated_rows_take_the_fast_path() -> None:
    taken = []

    @settings(max_examples=100, database=None, derandomize=True)
    @given(ROWS)
    def collect(row: dict[str, Any]) -> None:
        tables = RowTables()
        count, _ = tables.add(json.dumps(row).encode(), 1, {}, document=("d", "s", "p"))
        taken.append(count)

    collect()
    assert sum(taken) > len(taken) / 3


def test_the_recorded_memory_runs_take_the_fast_path() -> None:
    if not MEMORY_RUNS.exists():
        pytest.skip(f"{MEMORY_RUNS.name} is not beside this checkout")
    document = json.loads(MEMORY_RUNS.read_bytes())
    lines = [json.dumps(row).encode() for row in document["runs"]]
    assert_same(lines, is_fast=True)
    runs = read_value(document)
    assert len(runs) == 312
    assert sum(len(run.calls) for run in runs) == 871
    assert all(call.result is not MISSING for run in runs for call in run.calls)


def test_a_row_whose_messages_are_several_runs_says_that_one_was_read() -> None:
    spans = [
        {"name": "execute_tool t", "trace_id": key * 32, "span_id": key * 16,
         "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}}
        for key in "12"
    ]  # fmt: skip
    run = run_rows.read_row({"task_id": "a", "variant": "v", "messages": spans})
    assert len(run.calls) == 1
    assert "the first of 2 runs in its messages was read" in run.warnings
