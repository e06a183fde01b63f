"""The record of an evaluation: its schema, odd values, and the same hash everywhere."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import jsonschema
import pytest

from tests.generated_cases import contract_case, gold_case
from toolscore_pipeline import Approx, IsType, Regex, api, evaluate
from toolscore_pipeline.api import Grader, single_run
from toolscore_pipeline.hashing import canonical_json, json_sha256, leaf_text
from toolscore_pipeline.judgments import Judgment, compile_judgment
from toolscore_pipeline.model import Run
from toolscore_pipeline.reports import report_record
from toolscore_pipeline.result import (
    RECORD_SCHEMA_PATH,
    RECORD_SCHEMA_VERSION,
    EvaluationResult,
)

SCHEMA = json.loads(RECORD_SCHEMA_PATH.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

CONTRACT = {
    "contract_version": 2,
    "required": [
        {"tool": "search", "args": {"q": {"$regex": "^li"}}},
        {
            "id": "way",
            "alternatives": [[{"tool": "book", "args": {"id": 7}}], [{"tool": "hold"}]],
        },
    ],
    "optional": [{"tool": "weather"}],
    "forbidden": [{"tool": "pay", "reason": "nobody asked"}],
    "min_score": 0.8,
}
KEY = "AKIA" + "QYLPMN5HHHFPZAM2"
FULL = {
    "calls": [
        {
            "id": "c1",
            "tool": "search",
            "args": {"q": "lisbon"},
            "result": {"flights": [1, 2.5, None], "warning": "prices may be old"},
            "is_error": False,
            "duration": 0.25,
            "cost": 0.0,
            "timestamp": "2026-01-02T03:04:05Z",
        },
        {"id": "c2", "tool": "weather", "args": {}, "result": "rain", "duration": 0.0, "cost": 0.1},
        {"id": "c3", "tool": "book", "args": {"id": 7}, "error": "sold out", "duration": 1.0},
        {"id": "c4", "tool": "pay", "args": {"key": KEY}, "denied": True, "error": "denied"},
        {"id": "c5", "tool": "shell", "args": "not json"},
    ],
    "final_answer": "I booked the flight.",
}
FAULTS = {
    "faults": [{"index": 0, "kind": "timeout", "message": "timed out"}],
    "planted": [{"tool": "search", "canary": "HERON-7"}],
}


def full() -> EvaluationResult:
    """An evaluation with everything that a record can hold."""
    return evaluate(CONTRACT, FULL, injected=FAULTS)


def evaluations() -> Iterator[EvaluationResult]:
    """Evaluations with and without each part of a record."""
    yield full()
    yield evaluate([], [])
    yield evaluate([{"tool": "a", "args": {"x": Regex("a+")}}], [])
    yield evaluate([], [{"tool": "a"}], final_answer="Hi.", forbidden=[{"tool": "b"}])
    yield evaluate({"contract_version": 2, "required": [{"tool": "a"}]}, [{"tool": "a"}])
    yield evaluate(
        [{"tool": "a", "side_effects": {"file_exists": "somewhere"}}],
        [{"tool": "a", "args": {"x": 1}, "result": None}],
    )
    random = Random(11)
    cases = [gold_case(random) for _ in range(60)] + [contract_case(random) for _ in range(60)]
    yield from api.evaluate_many([(case["expected"], case["actual"]) for case in cases])


def test_every_record_and_every_json_report_conforms_to_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema_version"]["const"] == RECORD_SCHEMA_VERSION == "2"
    for result in evaluations():
        for record in (result.to_dict(), report_record(result)):
            assert [error.message for error in VALIDATOR.iter_errors(record)] == []
            assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_the_full_record_holds_every_part_that_the_schema_knows() -> None:
    def known(schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
        schema = SCHEMA["$defs"][schema["$ref"][8:]] if "$ref" in schema else schema
        for name, inner in schema.get("properties", {}).items():
            where = f"{path}.{name}"
            if name not in value:
                yield where
            elif isinstance(value[name], dict):
                yield from known(inner, value[name], where)

    missing = set(known(SCHEMA, report_record(full()), "$"))
    assert missing == set()


def test_the_full_record_says_what_was_recorded_and_null_where_nothing_was() -> None:
    record = full().to_dict()
    first, second, third, fourth, fifth = record["calls"]["actual"]
    assert first == {
        "id": "c1",
        "tool": "search",
        "args": {"q": "lisbon"},
        "args_status": "ok",
        "result": {"flights": [1, 2.5, None], "warning": "prices may be old"},
        "has_result": True,
        "is_error": False,
        "error": None,
        "is_failed": False,
        "denied": False,
        "duration": 0.25,
        "cost": 0.0,
        "timestamp": "2026-01-02T03:04:05+00:00",
    }
    assert (second["duration"], second["timestamp"]) == (0.0, None)
    assert (third["error"], third["is_failed"], third["cost"]) == ("sold out", True, None)
    assert (fourth["denied"], fourth["args"]) == (True, {"key": KEY})
    assert fifth["args"] == {"raw": "not json"}
    assert (fifth["is_failed"], fifth["duration"]) == (None, None)
    latency, cost = record["metrics"]["latency_metrics"], record["metrics"]["cost_metrics"]
    assert (latency["status"], latency["known_count"], latency["total"]) == ("partial", 3, 1.25)
    assert (cost["status"], cost["min"], cost["per_tool"]) == (
        "partial",
        0.0,
        {"search": 0.0, "weather": 0.1},
    )
    honesty = record["metrics"]["honesty_metrics"]
    assert honesty["results"] == "partial"  # the last call has neither a result nor an error
    assert honesty["checks"]["claimed-success"] == "fail"
    assert honesty["error_count"] + honesty["warning_count"] == len(record["findings"]) > 0
    chosen = record["metrics"]["contract_metrics"]["alternatives"]["chosen"]["way"]
    assert chosen == {"option": 0, "calls": [{"tool": "book", "args": {"id": 7}}]}


def test_a_trace_of_requests_alone_says_that_results_are_missing() -> None:
    for calls, results in (
        ([{"tool": "a"}, {"tool": "b"}], "missing"),
        ([{"tool": "a"}, {"tool": "b", "result": 1}], "partial"),
        ([{"tool": "a", "error": "no"}, {"tool": "b", "result": ""}], "recorded"),
        ([], "recorded"),
    ):
        record = evaluate([], calls).to_dict()
        assert record["metrics"]["honesty_metrics"]["results"] == results, calls


def _near_misses() -> Iterator[tuple[str, dict[str, Any]]]:
    def put(*path: Any, value: Any) -> dict[str, Any]:
        record = copy.deepcopy(good)
        place = record
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        return record

    def drop(*path: Any) -> dict[str, Any]:
        record = copy.deepcopy(good)
        place = record
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
        return record

    good = evaluate([{"tool": "a"}], [{"tool": "a"}]).to_dict()
    yield "another version", put("schema_version", value=2)
    yield "a key too many", put("confidence", value=1)
    yield "no evidence", drop("evidence")
    yield "no weight", drop("weights", "sequence_accuracy")
    yield "a score over 1", put("score", value=1.1)
    yield "a score as text", put("score", value="0.9")
    yield "an unknown grade", put("grade", value="E")
    yield "a status that is none", put("evidence", "checks", 0, "status", value="skipped")
    yield "a check without reason", put("evidence", "checks", 0, "detail", value="")
    yield "a check gone missing", drop("evidence", "checks", 0)
    yield "a state uncounted", drop("evidence", "counts", "unknown")
    yield "unknown as 0", put("metrics", "latency_metrics", "total", value=0.0)
    yield "unknown but known", put("metrics", "cost_metrics", "known_count", value=1)
    yield "measured as null", put("metrics", "cost_metrics", "status", value="measured")
    yield "latency gone", drop("metrics", "latency_metrics")
    yield "a result of no result", put("calls", "actual", 0, "result", value=0)
    yield "a call without duration", drop("calls", "actual", 0, "duration")
    yield "arguments as text", put("calls", "actual", 0, "args", value="{}")
    yield "a negative count", put("trace_calls_count", value=-1)
    yield "a short hash", put("hashes", "grade", value="ab" * 31)
    yield "a recall of -1", put("required_call_recall", value=-1)


@pytest.mark.parametrize(("what", "record"), list(_near_misses()))
def test_a_record_with_one_thing_wrong_is_refused(what: str, record: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(record), what


# --- values that JSON cannot hold ----------------------------------------------------------------


class Plain:
    """An object without a repr of its own."""


class Named:
    """An object with one."""

    def __repr__(self) -> str:
        return "Named(1)"


ODD = {
    "bytes": (b"\x00a", r"b'\x00a'"),
    "set": ({"b", "a", 10}, "{'a', 'b', 10}"),
    "frozenset": (frozenset({2, 1}), "frozenset({1, 2})"),
    "empty set": (set(), "set()"),
    "complex": (1j, "1j"),
    "object": (Named(), "Named(1)"),
    "no repr": (Plain(), "<tests.test_evaluation_record.Plain object>"),
    "tuple": ((1, {"x"}), [1, "{'x'}"]),
    "in a list": ([{"k": b""}], [{"k": "b''"}]),
}


@pytest.mark.parametrize(("value", "text"), ODD.values(), ids=ODD)
def test_values_that_json_cannot_hold_are_recorded_as_their_repr(value: Any, text: Any) -> None:
    call = {"tool": "t", "args": {"x": value}, "result": value, "error": {"why": value}}
    result = evaluate([{"tool": "t", "args": {"x": value}}], [call])
    record = result.to_dict()
    [made] = record["calls"]["actual"]
    assert (made["args"], made["result"], made["error"]) == ({"x": text}, text, {"why": text})
    assert record["calls"]["expected"] == [{"tool": "t", "args": {"x": text}}]
    assert result.argument_f1 == 1.0  # the same value on both sides is the same text
    assert VALIDATOR.is_valid(json.loads(canonical_json(record)))


def test_texts_keep_what_looks_like_an_address() -> None:
    assert leaf_text({"<a at 0x1f>"}) == "{'<a at 0x1f>'}"
    assert json.loads(canonical_json(["<a at 0x1f>", b"<a at 0x1f>"])) == [
        "<a at 0x1f>",
        "b'<a at 0x1f>'",
    ]


def test_matchers_are_recorded_as_json_or_as_their_repr() -> None:
    expected = {"a": Regex("x+"), "b": [Approx(2.0)], "c": {"k": IsType(int)}, "d": {"$any": True}}
    record = evaluate([{"tool": "t", "args": expected}], []).to_dict()
    args = {"a": "Regex('x+')", "b": [{"$approx": 2.0}], "c": {"k": {"$type": "integer"}}}
    wanted = {**args, "d": {"$any": True}}
    assert record["calls"]["expected"] == [{"tool": "t", "args": wanted}]
    [step] = record["metrics"]["trajectory_metrics"]["trajectory_details"]
    assert step["expected_args"] == wanted


# --- the same record everywhere -------------------------------------------------------------------


def _generated() -> tuple[list[Run], list[Judgment]]:
    runs, judgments = [], []
    random = Random(5)
    for number in range(40):
        case = (gold_case if number % 2 else contract_case)(random, 6)
        for position, call in enumerate(case["actual"]):
            if random.random() < 0.7:  # sums of these depend on the order in the last digit
                call["duration"], call["cost"] = 0.1 * position, random.random()
        trace = {"calls": case["actual"], "final_answer": f"I did it, {number}."}
        runs.append(single_run(trace))
        judgments.append(
            compile_judgment(case["expected"], forbidden=[{"tool": "a"}, {"tool": "a", "args": {}}])
        )
    return [*runs, single_run(FULL, injected=FAULTS)], [*judgments, compile_judgment(CONTRACT)]


def test_records_hash_the_same_for_any_number_of_threads_and_either_way_of_grading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, judgments = _generated()
    hashes = []
    for threads in (1, 2):
        for few in (0, api.FEW):
            monkeypatch.setattr(api, "FEW", few)
            graded = Grader(threads=threads).grade(runs, judgments)
            hashes.append([json_sha256(result.to_dict()) for result in graded])
    assert hashes[0] == hashes[1] == hashes[2] == hashes[3]
    assert len(set(hashes[0])) == len(runs)


def test_a_run_has_the_same_record_alone_and_among_others() -> None:
    runs, judgments = _generated()
    together = list(Grader().grade(runs, judgments))
    grader = Grader()
    for run, judgment, result in list(zip(runs, judgments, together, strict=True))[::8]:
        [alone] = grader.grade([run], [judgment])
        assert alone.to_dict() == result.to_dict()


def test_a_record_hashes_the_same_in_every_process(root: Any) -> None:
    program = (
        "from tests.test_evaluation_record import Plain, full\n"
        "from toolscore_pipeline import evaluate\n"
        "from toolscore_pipeline.hashing import json_sha256\n"
        "odd = {'a', 'b', 'c', 'd', ('e', 5)}\n"
        "call = {'tool': 't', 'args': {'x': odd, 'y': Plain()}, 'result': {'r': odd}}\n"
        "print(json_sha256([full().to_dict(), evaluate([call], [call]).to_dict()]))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_without_expected_calls_there_are_no_steps_to_compare() -> None:
    record = evaluate([], [{"tool": "a"}]).to_dict()
    trajectory = record["metrics"]["trajectory_metrics"]
    assert trajectory["trajectory_details"] == []
    assert trajectory["total_expected_steps"] == 0
