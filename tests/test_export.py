"""Run records, their manifest, and the other ways out of a warehouse."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export_cases import SECRET, read_lines, row, rows, write_project, write_rows
from toolscore_pipeline.cli import main
from toolscore_pipeline.errors import InputError, ReceiptMismatchError, UsageError
from toolscore_pipeline.export import (
    SCHEMA_PATH,
    SCHEMA_VERSION,
    Bundle,
    Evidence,
    export_records,
    manifest_path,
    record_from_run,
    record_sha256,
    validate_manifest,
    validate_record,
    write_export,
)
from toolscore_pipeline.export.inputs import number_repetitions
from toolscore_pipeline.export.otel import log_records
from toolscore_pipeline.export.records import call_ids, full_locator, redact_record, run_status
from toolscore_pipeline.hashing import canonical_json, json_sha256
from toolscore_pipeline.verify import verify_export

SOURCE = {"kind": "run_rows", "path": "runs.jsonl", "sha256": "5" * 64, "line": 3}


def record(task: str = "save", arm: str = "careful", repetition: int = 1, **changes: Any) -> Any:
    return record_from_run({**row(task, arm, repetition), **changes}, SOURCE)


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- the record ----------------------------------------------------------------------------------


def test_a_record_conforms_to_a_schema_that_is_itself_valid() -> None:
    schema = load(SCHEMA_PATH)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema_version"]["const"] == SCHEMA_VERSION == "1"
    for task in ("save", "clean"):
        assert validate_record(record(task)) == []


def test_a_record_says_who_ran_what_and_how_it_ended() -> None:
    made = record("save", "careful", 2)
    assert (made["task_id"], made["variant"], made["repetition"]) == ("save", "careful", 2)
    assert (made["status"], made["status_basis"]) == ("completed", "recorded")
    assert (made["outcome"], made["outcome_basis"]) == ("pass", "recorded")
    assert made["agent"]["server"] == {"name": "notes", "version": "1.2"}
    assert made["source"]["line"] == 3
    # 03:04:05 at +02:00 is 01:04:05 UTC.
    assert made["started_at"] == "2026-01-02T01:04:05+00:00"
    assert made["final_answer"] == {
        "state": "available",
        "value": "careful did save.",
        "sha256": sha256(b"careful did save."),
        "execution_id": made["executions"][0]["id"],
        "is_redacted": False,
        "reason": None,
    }


def test_requests_and_completions_are_correlated_and_denied_calls_are_among_them() -> None:
    made = record("clean")
    denied, listed = made["requested_calls"]
    assert (denied["call_id"], denied["call_id_source"]) == ("clean-careful-1-d", "recorded")
    assert (listed["call_id"], listed["call_id_source"]) == ("call-2", "synthesized")
    assert [call["call_id"] for call in made["completed_calls"]] == ["clean-careful-1-d", "call-2"]
    assert (denied["denied"], denied["deny_reason"]) == (True, "this study never deletes")
    assert [call["status"] for call in made["completed_calls"]] == ["denied", "unknown"]
    assert denied["source"]["locator"] == "line 3 $.calls[0]"
    assert made["completed_calls"][0]["source"]["locator"] == "line 3 $.calls[0]"
    assert made["completed_calls"][1]["source"] is None  # nothing came back
    assert denied["arguments_sha256"] == sha256(b'{"title":"old"}')


def test_what_was_not_recorded_is_null_and_listed() -> None:
    made = record("clean", "sloppy", final_answer=None, started_at=None)
    assert made["cost"] == {
        "usd": None,
        "status": "unknown",
        "value": None,
        "reason": "no cost was recorded",
    }
    assert made["final_answer"]["state"] == "unknown"
    coverage = made["coverage"]
    # Two calls: one denied (an outcome), one without anything; neither has a duration or a cost.
    assert (coverage["calls"], coverage["with_outcome"], coverage["with_duration"]) == (2, 1, 0)
    assert coverage["results"]["complete"] is False
    assert coverage["requests"]["complete"] is True
    assert {"final_answer", "cost", "started_at", "completed_calls[1].status"} <= set(
        coverage["unknown"]
    )
    assert "ended_at" not in coverage["unknown"]
    assert validate_record(made) == []


def test_costs_are_exact_decimal_text() -> None:
    # The double of 0.1 + 0.2, in the shortest decimals that stand for it.
    assert record()["cost"]["value"] == "0.30000000000000004"
    assert record(cost_usd=1e-7)["cost"]["value"] == "0.0000001"
    assert record(cost_usd=0)["cost"] == {
        "usd": 0.0,
        "status": "observed",
        "value": "0.0",
        "reason": None,
    }


def test_a_recorded_zero_cost_is_not_unknown() -> None:
    assert "cost" not in record(cost_usd=0)["coverage"]["unknown"]


@pytest.mark.parametrize(
    ("status", "error", "outcome", "expected"),
    [
        ("completed", None, "fail", ("completed", "recorded")),
        ("limit_reached", None, None, ("agent_error", "recorded")),
        ("budget_stopped", None, None, ("cancelled", "recorded")),
        ("error", "boom", "error", ("infrastructure_error", "recorded")),
        ("Timed-Out", None, None, ("timed_out", "recorded")),
        (None, "boom", None, ("infrastructure_error", "inferred")),
        (None, None, "error", ("infrastructure_error", "inferred")),
        (None, None, None, ("completed", "inferred")),
        ("whatever", None, "pass", ("completed", "inferred")),
    ],
)
def test_a_recorders_word_is_mapped_to_the_closed_vocabulary(
    status: str | None, error: str | None, outcome: str | None, expected: tuple[str, str]
) -> None:
    assert run_status({"status": status, "error": error, "recorded_outcome": outcome}) == expected


def test_call_ids_are_unique_whatever_was_recorded() -> None:
    assert call_ids(["a", None, "a", "call-2", "a#2"]) == [
        ("a", "recorded"),
        ("call-2'", "synthesized"),  # call-2 is a recorded id
        ("a#2'", "disambiguated"),
        ("call-2", "recorded"),
        ("a#2", "recorded"),
    ]


@given(st.lists(st.sampled_from(["a", "a#2", "call-1", "call-2", "", " ", None]), max_size=8))
def test_no_two_calls_share_an_id(recorded: list[str | None]) -> None:
    ids = [call_id for call_id, _ in call_ids(recorded)]
    assert len(set(ids)) == len(recorded)


@pytest.mark.parametrize(
    ("run", "call", "expected"),
    [
        ("line 7", "$.calls[1]", "line 7 $.calls[1]"),
        ("line 7 $[0]", "$[0].calls[1]", "line 7 $[0].calls[1]"),
        ("row 2", "$.calls[0]", "row 2 $.calls[0]"),
        ("$.runs[3]", "$.runs[3].calls[1]", "$.runs[3].calls[1]"),
        (None, "line 9 $.tool_calls[0]", "line 9 $.tool_calls[0]"),
        (None, "$[0]", "$[0]"),
        ("line 7", None, "line 7"),
        (None, None, None),
    ],
)
def test_a_locator_stands_for_itself(
    run: str | None, call: str | None, expected: str | None
) -> None:
    assert full_locator(run, call) == expected


def test_numbers_and_texts_survive_the_way_into_a_record() -> None:
    arguments = {"small": 1e-7, "big": 2**70, "text": "é\ud800", "ten": 1e22, "f": 0.00001}
    made = record(calls=[{"tool": "t", "args": arguments, "result": [None, True, 1.0]}])
    assert made["requested_calls"][0]["arguments"] == arguments
    assert made["requested_calls"][0]["arguments_sha256"] == json_sha256(arguments)
    assert made["completed_calls"][0]["result_sha256"] == sha256(b"[null,true,1.0]")
    assert validate_record(made) == []


# --- validation ----------------------------------------------------------------------------------


def mutations() -> Iterator[tuple[str, Callable[[Any], Any], str]]:
    """(name, what is changed, a part of the sentence)."""

    def put(*path: Any) -> Callable[[Any], Any]:
        *keys, last, value = path

        def change(made: Any) -> Any:
            holder = made
            for key in keys:
                holder = holder[key]
            holder[last] = value
            return made

        return change

    def drop(*path: Any) -> Callable[[Any], Any]:
        *keys, last = path

        def change(made: Any) -> Any:
            holder = made
            for key in keys:
                holder = holder[key]
            del holder[last]
            return made

        return change

    yield "outcome", put("outcome", "fail"), "the record was changed"
    yield "answer", put("final_answer", "value", "all done"), "final_answer.sha256"
    yield "argument", put("requested_calls", 0, "arguments", "title", "x"), "arguments_sha256"
    yield "result", put("completed_calls", 0, "result", 1), "result_sha256"
    yield "prompt", put("prompt", "another"), "prompt_sha256"
    yield "record hash", put("hashes", "record_sha256", "0" * 64), "the record was changed"
    yield "source hash", put("source", "sha256", "0" * 64), "source_sha256"
    yield "orphan result", put("completed_calls", 0, "call_id", "z"), "nothing requested"
    yield "no completion", drop("completed_calls", 0), "no completion"
    yield "order", lambda m: m["completed_calls"].reverse() or m, "another order"
    yield "execution", put("requested_calls", 0, "execution_id", "z"), "an execution that is not"
    yield "index", put("requested_calls", 1, "index", 5), "expected 1, got 5"
    yield "missing key", drop("requested_calls", 0, "tool"), "'tool' is a required property"
    yield "unknown key", put("extra", 1), "'extra' was unexpected"
    yield "bad status", put("status", "finished"), "$.status"
    yield "naive time", put("started_at", "2026-01-02T03:04:05"), "$.started_at"
    yield "number as cost", put("cost", "value", 0.1), "$.cost"
    yield "zero for unknown", put("cost", "status", "unknown"), "$.cost"
    yield "negative tokens", put("usage", "input_tokens", "value", -1), "$.usage.input_tokens"
    yield "score above 1", put("evaluation", {"score": 2}), "$.evaluation"
    yield "coverage count", put("coverage", "with_outcome", 0), "with_outcome"
    yield "schema", put("schema_version", "2"), "expected schema toolscore.run-record '1'"
    yield "no object", lambda m: [m], "must be an object"


CASES = list(mutations())


@pytest.mark.parametrize(("change", "sentence"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_every_change_of_a_record_is_found(change: Callable[[Any], Any], sentence: str) -> None:
    made = record(calls=[*row("save", "careful", 1)["calls"], {"tool": "t", "result": "x"}])
    assert validate_record(made) == []
    problems = validate_record(change(copy.deepcopy(made)))
    assert any(sentence in problem for problem in problems), problems


def test_a_call_id_that_stands_there_twice_is_found() -> None:
    made = record("clean")
    for name in ("requested_calls", "completed_calls"):
        made[name][1]["call_id"] = made[name][0]["call_id"]
    assert any("stands there twice" in problem for problem in validate_record(made))


def test_the_hash_of_a_record_is_that_of_its_canonical_json_without_it() -> None:
    made = record()
    written = made["hashes"].pop("record_sha256")
    assert written == sha256(canonical_json(made)) == record_sha256(made)


# --- redaction -----------------------------------------------------------------------------------


def test_redaction_replaces_credentials_and_says_so() -> None:
    call = {"tool": "t", "args": {"token": SECRET, "n": 1}, "result": f"used {SECRET}"}
    clean = {"tool": "u", "args": {"n": 2}, "result": "ok"}
    made = record(calls=[call, clean], final_answer=f"I used {SECRET}.")
    before = copy.deepcopy(made)
    made = redact_record(made)
    made["hashes"]["record_sha256"] = record_sha256(made)
    assert SECRET not in json.dumps(made)
    assert made["redaction"] == {
        "applied": True,
        "fields": [
            "final_answer.value",
            "requested_calls[0].arguments",
            "completed_calls[0].result",
        ],
    }
    assert [call["is_redacted"] for call in made["requested_calls"]] == [True, False]
    # The hashes stay those of what was recorded.
    assert (
        made["requested_calls"][0]["arguments_sha256"]
        == before["requested_calls"][0]["arguments_sha256"]
    )
    assert validate_record(made) == []


# --- files ---------------------------------------------------------------------------------------


def test_records_of_run_rows_are_in_input_order_with_repetitions_from_zero(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl")
    made = export_records([path, path])  # the same file twice adds nothing
    assert [(r["task_id"], r["variant"], r["repetition_index"]) for r in made] == [
        ("save", "careful", 0),
        ("save", "careful", 1),
        ("save", "sloppy", 0),
        ("clean", "careful", 0),
        ("clean", "careful", 1),
        ("clean", "sloppy", 0),
    ]
    assert [validate_record(r) for r in made] == [[]] * 6
    assert made[4]["source"] == {
        "kind": "run_rows",
        "path": str(path),
        "sha256": sha256(path.read_bytes()),
        "name": None,
        "locator": "line 5",
        "line": 5,
    }


def test_one_row_gives_the_same_record_alone_and_in_its_file(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl")
    source = {"kind": "run_rows", "path": str(path), "sha256": sha256(path.read_bytes()), "line": 1}
    alone = record_from_run(rows()[0], source)
    inside = export_records([path])[0]
    for made in (alone, inside):
        made.pop("repetition_index")  # alone it is the recorded repetition, 1
        made["hashes"].pop("record_sha256")
    assert alone == inside


def test_traces_are_graded_with_gold(tmp_path: Path) -> None:
    trace = tmp_path / "book-1.json"
    trace.write_text(json.dumps([{"tool": "a", "args": {"x": 1}, "result": "ok"}]))
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps([{"tool": "a", "args": {"x": 1}}, {"tool": "b"}]))
    (made,) = export_records([trace], gold=gold, variant="v1")
    assert (made["task_id"], made["variant"], made["source"]["kind"]) == ("book", "v1", "trace")
    evaluation = made["evaluation"]
    # selection 1, F1 1 (both pairs match; b adds no arguments), sequence 1 - 1/2, no redundancy:
    # 0.4 + 0.3 + 0.2 * 0.5 + 0.1 = 0.9, as doubles a little less, within the tolerance of passing.
    assert evaluation["score"] == pytest.approx(0.9, abs=1e-12)
    assert (evaluation["contract"], evaluation["basis"]) == ("gold", "graded")
    assert made["outcome_basis"] == "graded"
    (harder,) = export_records([trace], gold=gold, variant="v1", min_score=0.95)
    assert harder["outcome"] == "fail"
    (bare,) = export_records([trace])
    assert (bare["evaluation"], bare["outcome"], bare["outcome_basis"]) == (None, "unknown", "none")


def write_receipt_of(folder: Path) -> Path:
    from toolscore_pipeline.api import evaluate_trace
    from toolscore_pipeline.receipts import build_receipt, write_receipt

    trace, gold = folder / "book.json", folder / "gold.json"
    trace.write_text(json.dumps([{"tool": "a", "args": {}, "result": "ok"}, {"tool": "b"}]))
    gold.write_text(json.dumps([{"tool": "a", "args": {}}]))
    result = evaluate_trace(gold, trace, weights={"selection_accuracy": 1.0})
    receipt = build_receipt(result, {"trace": trace, "gold": gold})
    return write_receipt(folder / "run.receipt.json", receipt)


def test_a_receipt_gives_the_record_of_its_trace_graded_as_it_says(tmp_path: Path) -> None:
    receipt = write_receipt_of(tmp_path)
    (made,) = export_records([receipt], variant="v")
    assert (made["task_id"], made["variant"], made["source"]["kind"]) == ("book", "v", "receipt")
    assert made["source"]["sha256"] == sha256((tmp_path / "book.json").read_bytes())
    result = load(receipt)["result"]
    assert made["evaluation"]["score"] == result["score"]
    assert made["evaluation"]["grade_sha256"] == result["grade_sha256"]
    assert validate_record(made) == []


def test_a_receipt_whose_trace_changed_is_refused(tmp_path: Path) -> None:
    receipt = write_receipt_of(tmp_path)
    (tmp_path / "book.json").write_text("[]")
    with pytest.raises(ReceiptMismatchError, match=r"trace: .*book\.json has 2 bytes"):
        export_records([receipt])


def test_a_receipt_that_does_not_hold_the_final_answer_is_refused(tmp_path: Path) -> None:
    from toolscore_pipeline.api import evaluate_trace
    from toolscore_pipeline.receipts import build_receipt, write_receipt

    paths = {"gold": tmp_path / "gold.json", "trace": tmp_path / "book.json"}
    write_receipt_of(tmp_path)
    result = evaluate_trace(paths["gold"], paths["trace"], final_answer="It is booked.")
    receipt = build_receipt(result, paths, final_answer="It is booked.")
    path = write_receipt(tmp_path / "other.receipt.json", receipt)
    with pytest.raises(ReceiptMismatchError, match="had a final answer given from outside"):
        export_records([path])


def test_inputs_that_cannot_be_read_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        export_records([tmp_path / "missing.jsonl"])
    early = tmp_path / "early.json"
    early.write_text('[{"tool": "a"')
    with pytest.raises(InputError, match=r"early\.json"):
        export_records([early])
    mixed = write_rows(tmp_path / "mixed.jsonl")
    mixed.write_text(mixed.read_text() + '{"tool": NaN}\n')
    with pytest.raises(InputError, match=r"mixed\.jsonl:7"):
        export_records([mixed])


def number(*found: tuple[str, int | None]) -> list[int]:
    records = [
        {"task_id": task, "variant": "v", "repetition": repetition} for task, repetition in found
    ]
    number_repetitions(records)
    return [int(str(item["repetition_index"])) for item in records]


def test_repetitions_are_numbered_as_the_warehouse_numbers_them() -> None:
    # The cases of tests/sql/exports/record_order.yaml.
    assert number(("t", 1), ("u", 1), ("t", 2)) == [0, 0, 1]
    assert number(("t", 4), ("t", 4), ("u", 9)) == [0, 1, 0]  # a clash
    assert number(("t", None), ("t", 7)) == [1, 0]
    assert number(("t", 20260101), ("t", 20260201)) == [0, 1]  # too far apart
    assert number() == []


# --- the manifest --------------------------------------------------------------------------------


def test_the_manifest_describes_the_study(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "runs.jsonl")
    path, beside = write_export(
        tmp_path / "out" / "records.jsonl", export_records([source]), [source], baseline="careful"
    )
    manifest = load(beside)
    assert validate_manifest(manifest) == []
    assert validate_manifest({**manifest, "study": None})
    assert beside == manifest_path(path)
    assert manifest["records"] == {
        "file": "records.jsonl",
        "sha256": sha256(path.read_bytes()),
        "bytes": path.stat().st_size,
        "count": 6,
        "schema": "toolscore.run-record",
        "schema_version": "1",
    }
    assert manifest["study"] == {
        "id": "notes",
        "question": "How do the variants do on the tasks?",
        "question_basis": "default",
        "repetitions": 2,
        "cost_categories": ["model"],
        "limit": {
            "wall_time_seconds": 3,  # 2.5 seconds, rounded up
            "basis": "not declared: the longest recorded run, rounded up to a second",
        },
    }
    assert [task["id"] for task in manifest["tasks"]] == ["clean", "save"]
    assert manifest["tasks"][1]["inputs"] == {"prompt": "Please save."}
    careful = manifest["variants"][0]
    assert careful["backend"]["name"] == "scripted"
    assert [(c["kind"], c["name"], c["revision"]) for c in careful["components"][:2]] == [
        ("model", "model-careful", None),
        ("tool", "notes", "1.2"),
    ]
    assert manifest["comparison"]["baseline"] == "careful"
    (only,) = manifest["sources"]
    assert (only["sha256"], only["bytes"], only["records"]) == (
        sha256(source.read_bytes()),
        source.stat().st_size,
        6,
    )
    assert manifest["outcomes"] == {"pass": 4, "fail": 2, "error": 0, "unknown": 0}


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "runs.jsonl")
    pairs = [
        write_export(tmp_path / name / "r.jsonl", export_records([source]), [source])
        for name in ("a", "b")
    ]
    assert pairs[0][0].read_bytes() == pairs[1][0].read_bytes()
    assert pairs[0][1].read_bytes() == pairs[1][1].read_bytes()
    for line, made in zip(
        pairs[0][0].read_bytes().splitlines(), export_records([source]), strict=True
    ):
        assert line == canonical_json(made)


def test_an_export_that_is_interrupted_leaves_the_old_one_whole(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "runs.jsonl")
    path, beside = write_export(tmp_path / "r.jsonl", export_records([source])[:2], [source])
    before = path.read_bytes(), beside.read_bytes()

    def broken() -> Iterator[dict[str, Any]]:
        yield export_records([source])[3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_export(path, broken(), [source])
    assert (path.read_bytes(), beside.read_bytes()) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "r.jsonl",
        "r.jsonl.manifest.json",
        "runs.jsonl",
    ]


def test_a_record_is_written_once(tmp_path: Path) -> None:
    made = record()
    with pytest.raises(InputError, match="is there twice"):
        write_export(tmp_path / "r.jsonl", [made, made], [])
    assert not (tmp_path / "r.jsonl").exists()


# --- bundles -------------------------------------------------------------------------------------


def assert_locators_open(evidence: Evidence, made: dict[str, Any]) -> None:
    for call in made["requested_calls"]:
        value = evidence.open(call["source"]["artifact"], call["source"]["locator"])
        found = value.get("function", value)
        assert call["tool"] in (found.get("tool"), found.get("name"))
    for call in made["completed_calls"]:
        if call["source"] is not None and call["has_result"]:
            value = evidence.open(call["source"]["artifact"], call["source"]["locator"])
            assert call["result"] in (value.get("result"), value.get("content"))


def test_every_locator_opens_the_kept_source_at_its_call(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "runs.jsonl")
    messages = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"x": 1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
    ]
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(messages))
    bundle = tmp_path / "bundle"
    made = export_records([source, chat])
    _, beside = write_export(bundle / "r.jsonl", made, [source, chat], bundle=Bundle(bundle))
    evidence = Evidence(bundle, load(beside))
    assert evidence.problems() == []
    for item in made:
        assert_locators_open(evidence, item)
    kept = bundle / "artifacts" / f"{sha256(source.read_bytes())}.jsonl"
    assert kept.read_bytes() == source.read_bytes()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert evidence.problems() == [f"artifacts/{kept.name}: the kept source was changed"]
    with pytest.raises(InputError, match="nothing stands at"):
        evidence.open(sha256(chat.read_bytes()), "$[9]")


def test_a_source_that_changed_is_not_kept_as_if_it_had_not(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "runs.jsonl")
    made = export_records([source])
    source.write_text(source.read_text().replace("groceries", "else"))
    with pytest.raises(InputError, match="changed since its runs were read"):
        write_export(tmp_path / "b" / "r.jsonl", made, [], bundle=Bundle(tmp_path / "b"))
    assert not (tmp_path / "b" / "r.jsonl").exists()


# --- the warehouse -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has been built."""
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    folder = write_project(tmp_path_factory.mktemp("export") / "notes-project")
    build(open_project(folder), threads=1)
    return folder


def run(project: Path, output: Path, *options: str) -> int:
    return main(["export", "--project", str(project), "-o", str(output), "--quiet", *options])


def test_a_build_writes_its_exports_in_order_and_the_command_the_same_bytes(
    project: Path, tmp_path: Path
) -> None:
    built = project / "out" / "records.jsonl"
    made = read_lines(built)
    assert [(r["task_id"], r["variant"], r["repetition"]) for r in made] == [
        ("clean", "careful", 1),
        ("clean", "careful", 2),
        ("clean", "sloppy", 1),
        ("save", "careful", 1),
        ("save", "careful", 2),
        ("save", "sloppy", 1),
    ]
    assert [validate_record(r) for r in made] == [[]] * 6
    assert run(project, tmp_path / "records.jsonl") == 0
    assert (tmp_path / "records.jsonl").read_bytes() == built.read_bytes()
    assert (
        manifest_path(tmp_path / "records.jsonl").read_bytes() == manifest_path(built).read_bytes()
    )


def test_a_build_writes_an_export_again_whose_manifest_is_gone(project: Path) -> None:
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    manifest = project / "out/records.jsonl.manifest.json"
    data = manifest.read_bytes()
    manifest.unlink()
    build(open_project(project), threads=1)
    assert manifest.read_bytes() == data


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.manifest.json"])
def test_a_build_writes_an_export_again_that_was_changed(project: Path, name: str) -> None:
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    build(open_project(project), threads=1)
    file, times = project / "out" / name, []
    data = file.read_bytes()
    # Cut; then edited to the same length.
    for changed in (data[:-100], data.replace(b"save", b"gave")):
        file.write_bytes(changed)
        report = build(open_project(project), threads=1)
        assert list(report.exports) == [str(project / "out/records.jsonl")]
        assert file.read_bytes() == data
        times.append(file.stat().st_mtime_ns)
    assert build(open_project(project), threads=1).exports == {}
    assert file.stat().st_mtime_ns == times[-1]


def test_records_of_a_warehouse_carry_the_standing_grade(project: Path) -> None:
    made = {(r["task_id"], r["variant"]): r for r in read_lines(project / "out/records.jsonl")}
    graded = made["save", "sloppy"]
    assert graded["evaluation"]["contract"] == "save"
    # save_note with another title: selection, sequence and redundancy are right, no argument is:
    # 0.4 + 0.3 * 0 + 0.2 + 0.1 = 0.7
    assert graded["evaluation"]["score"] == pytest.approx(0.7, abs=1e-12)
    assert (graded["outcome"], graded["outcome_basis"]) == ("fail", "graded")
    assert graded["evaluation"]["evidence"]["counts"]["pass"] >= 2
    ungraded = made["clean", "careful"]
    assert ungraded["evaluation"] is None
    assert (ungraded["outcome"], ungraded["outcome_basis"]) == ("pass", "recorded")


def test_a_warehouse_and_its_file_give_the_same_evidence(project: Path) -> None:
    def evidence(found: list[dict[str, Any]]) -> dict[str, Any]:
        return {r["record_id"]: (r["requested_calls"], r["completed_calls"]) for r in found}

    stored = read_lines(project / "out/records.jsonl")
    assert evidence(stored) == evidence(export_records([project / "runs/notes.jsonl"]))
    assert {r["source"]["path"] for r in stored} == {"runs/notes.jsonl"}  # below the project


def test_the_manifest_of_a_project_names_its_comparison_and_expected_calls(project: Path) -> None:
    manifest = load(project / "out/records.jsonl.manifest.json")
    assert validate_manifest(manifest) == []
    assert manifest["comparison"] == {"baseline": "careful", "candidate": "sloppy"}
    save = manifest["tasks"][1]
    assert save["expectations"]["contract"] == "save"
    assert save["expectations"]["calls"] == [{"tool": "save_note", "args": {"title": "groceries"}}]
    assert manifest["tasks"][0]["expectations"] is None
    assert manifest["sources"][0]["bytes"] == (project / "runs/notes.jsonl").stat().st_size


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--task", "save"], 3),
        (["--task", "save", "--task", "clean", "--variant", "sloppy"], 2),
        (["--outcome", "fail"], 2),
        (["--source", "notes"], 6),
        (["--query", "select run_id from evidence.runs where cost_usd is null"], 2),
    ],
)
def test_runs_are_chosen(project: Path, tmp_path: Path, options: list[str], count: int) -> None:
    assert run(project, tmp_path / "r.jsonl", *options) == 0
    assert len(read_lines(tmp_path / "r.jsonl")) == count
    assert load(manifest_path(tmp_path / "r.jsonl"))["filters"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--task", "saev"], "unknown task 'saev'; did you mean 'save'?"),
        (["--outcome", "passed"], "unknown outcome 'passed'; did you mean 'pass'?"),
        (["--format", "xml"], "unknown export format 'xml'"),
        (["--query", "select 1 as x"], "the query needs a column 'run_id'"),
        (["--query", "select run_id from nowhere"], "the query failed"),
        (["--query", "select content as run_id from read_text('*')"], "the query failed"),
        (["--redact", "--bundle", "b"], "--bundle keeps sources as they are"),
        (["--gold", "g.json"], "--gold grades traces"),
        (["--table", "x"], "go with --format parquet"),
        (["--format", "parquet", "--table", "nope"], "unknown table 'nope'"),
        (["--format", "parquet", "--partition", "varient"], "did you mean 'variant'?"),
        (["--baseline", "slopy"], "unknown variant 'slopy'; did you mean 'sloppy'?"),
        (["--candidate", "x"], "unknown variant 'x' (known: careful, sloppy)"),
        (["--baseline", "sloppy", "--candidate", "sloppy"], "are the same variant 'sloppy'"),
        (["--wall-time", "0"], "wall time: got 0.0, expected seconds above 0"),
        (["--wall-time", "nan"], "wall time: got nan, expected seconds above 0"),
    ],
)
def test_wrong_options_give_one_sentence(
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    sentence: str,
) -> None:
    assert run(project, tmp_path / "r.jsonl", *options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize("format", ["aef", "otel"])
def test_an_export_never_takes_the_place_of_its_sources(
    project: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    source = next((project / "runs").glob("*.jsonl"))
    data = source.read_bytes()
    assert run(project, source, "--format", format, "--task", "clean") == 2
    folder = ["export", str(source.parent), "-o", str(source), "--format", format]
    assert main(folder) == 2
    assert capsys.readouterr().err.count("the records are made from this file") == 2
    assert source.read_bytes() == data


def test_a_batch_boundary_changes_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolscore_pipeline.export.warehouse.BATCH_CALLS", 1)
    assert run(project, tmp_path / "r.jsonl") == 0
    assert (tmp_path / "r.jsonl").read_bytes() == (project / "out/records.jsonl").read_bytes()


def test_an_export_leaves_the_connection_as_it_was(project: Path, tmp_path: Path) -> None:
    from toolscore_pipeline.export.warehouse import export_store, open_published

    def state(store: Any) -> Any:
        return (
            store.execute("select current_setting('memory_limit')").fetchall(),
            store.execute(
                "select database_name, table_name from duckdb_tables() order by all"
            ).fetchall(),
        )

    with open_published(project / "warehouse.published.duckdb") as store:
        before = state(store)
        manifest = export_store(store, tmp_path / "r.jsonl", wall_time_seconds=9.5)
        assert state(store) == before
    assert manifest["study"]["limit"] == {"wall_time_seconds": 9.5, "basis": "declared"}


def test_a_query_source_is_kept_as_what_it_yielded(tmp_path: Path) -> None:
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    (tmp_path / "q.sql").write_text(
        "select 't' as task, 'v' as variant, 0 as repetition, 'done' as final_answer,"
        """ '[{"tool": "a", "args": {"x": 1}, "result": "ok"}]' as calls"""
    )
    (tmp_path / "toolscore.yaml").write_text("sources: [{name: q, query: q.sql}]\n")
    build(open_project(tmp_path), threads=1)
    code = main(["export", "--project", str(tmp_path), "--bundle", str(tmp_path / "b"), "--quiet"])
    assert code == 0
    (made,) = read_lines(tmp_path / "b/records.jsonl")
    assert made["source"]["kind"] == "query"
    evidence = Evidence(tmp_path / "b", load(tmp_path / "b/records.jsonl.manifest.json"))
    place = made["requested_calls"][0]["source"]
    assert evidence.open(place["artifact"], place["locator"]) == {
        "tool": "a",
        "args": {"x": 1},
        "result": "ok",
    }
    # Of what a query yielded nothing but the kept bytes is there: they are held, every one.
    [entry] = load(tmp_path / "b/records.jsonl.manifest.json")["artifacts"]
    kept = tmp_path / "b" / entry["file"]
    data = kept.read_bytes()
    assert verify_export(kept.parent.parent / "records.jsonl").is_whole
    for position in range(0, len(data), 7):
        kept.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        broken = verify_export(tmp_path / "b/records.jsonl").broken
        assert [str(link) for link in broken] == [
            f"file {entry['file']}: the kept source was changed"
        ]
    kept.unlink()
    [link] = verify_export(tmp_path / "b/records.jsonl").broken
    assert str(link) == f"file {entry['file']}: the kept source is gone"


# --- other formats -------------------------------------------------------------------------------


def test_run_records_as_parquet_are_partitioned_and_whole(project: Path, tmp_path: Path) -> None:
    import pyarrow.dataset as dataset

    options = ["--format", "parquet", "--partition", "task", "--partition", "variant"]
    assert run(project, tmp_path / "lake", *options) == 0
    lake = tmp_path / "lake"
    assert sorted(path.relative_to(lake).as_posix() for path in lake.glob("*/*")) == [
        "task_id=clean/variant=careful",
        "task_id=clean/variant=sloppy",
        "task_id=save/variant=careful",
        "task_id=save/variant=sloppy",
    ]  # fmt: skip
    table = dataset.dataset(tmp_path / "lake", partitioning="hive").to_table()
    found = {r["record_id"]: r for r in table.to_pylist()}
    for made in read_lines(project / "out/records.jsonl"):
        flat = found[made["record_id"]]
        assert json.loads(flat["record_json"]) == made
        assert flat["record_sha256"] == made["hashes"]["record_sha256"]
        assert flat["cost_usd"] == made["cost"]["value"]
    # Written again, it is replaced; a folder with anything else in it is left alone.
    assert run(project, tmp_path / "lake", *options) == 0
    (tmp_path / "lake" / "mine.txt").write_text("x")
    assert run(project, tmp_path / "lake", *options) == 2


def test_any_table_of_the_warehouse_as_parquet(project: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    options = ["--format", "parquet", "--table", "latest_grades", "--partition", "variant"]
    assert run(project, tmp_path / "grades", *options) == 0
    assert parquet.read_table(tmp_path / "grades").num_rows == 3  # the runs of the task save


def test_evaluations_as_opentelemetry_events(project: Path, tmp_path: Path) -> None:
    assert run(project, tmp_path / "e.jsonl", "--format", "otel") == 0
    lines = read_lines(tmp_path / "e.jsonl")
    assert len(lines) == 6
    events = lines[5]["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    attributes = [{a["key"]: a["value"] for a in event["attributes"]} for event in events]
    assert {event["eventName"] for event in events} == {"gen_ai.evaluation.result"}
    names = [a["gen_ai.evaluation.name"]["stringValue"] for a in attributes]
    assert names[:3] == ["toolscore.outcome", "toolscore.score", "toolscore.check.required-calls"]
    assert attributes[1]["gen_ai.evaluation.score.value"] == {"doubleValue": pytest.approx(0.7)}
    assert attributes[1]["gen_ai.evaluation.score.label"] == {"stringValue": "C"}
    assert "gen_ai.evaluation.score.value" not in attributes[0]  # an outcome is no number
    # 2026-01-02T01:04:07.5Z
    assert events[0]["timeUnixNano"] == "1767315847500000000"
    assert attributes[0]["toolscore.repetition"] == {"intValue": "0"}


def test_an_ungraded_run_has_one_event_and_no_made_up_time() -> None:
    made = record(started_at=None, ended_at=None)
    (event,) = log_records(made)
    assert "timeUnixNano" not in event


def test_inputs_and_warehouse_options_do_not_mix(tmp_path: Path) -> None:
    from toolscore_pipeline.export.jobs import Job, run_job

    source = write_rows(tmp_path / "runs.jsonl")
    with pytest.raises(UsageError, match="leave out the inputs"):
        run_job(Job("aef", tmp_path / "o.jsonl", inputs=[str(source)], query="select 1"))
    report = run_job(Job("aef", tmp_path / "o.jsonl", inputs=[str(source)], outcomes=["fail"]))
    assert report["count"] == 2


# --- every trace format --------------------------------------------------------------------------

TRACES = Path(__file__).parents[1] / "examples" / "traces"
# Calls that their providers give a type and no name.
NAMELESS = {"code_execution": "executableCode"}


def text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def assert_calls_stand_where_they_say(evidence: Evidence, made: dict[str, Any]) -> int:
    """Every locator opens a value that holds the tool and arguments, or the result, of its call."""
    for call in made["requested_calls"]:
        place = call["source"]
        opened = text_of(evidence.open(place["artifact"], place["locator"]))
        tool = call["tool"]
        names = (f'"{tool}"', f'"{tool}_call"')
        is_nameless = tool in NAMELESS and NAMELESS[tool] in place["locator"]
        assert any(name in opened for name in names) or is_nameless, (place, opened)
    for call in made["completed_calls"]:
        place = call["source"]
        if place is None:
            continue
        opened = text_of(evidence.open(place["artifact"], place["locator"]))
        result = text_of(call["result"])
        # As a value, as text inside a text, as text beside other text, or kept aside.
        forms = (result, text_of(result)[1:-1], result[1:-1])
        is_there = any(form in opened for form in forms) or '"attachment://' in opened
        assert is_there or not call["has_result"], (place, opened)
    return len(made["requested_calls"])


@pytest.mark.parametrize(
    "path",
    # The example of a receipt is cut short, which an export refuses; it is opened below.
    [path for path in sorted(TRACES.glob("*")) if path.name != "receipt.json"],
    ids=lambda path: path.name,
)
def test_records_of_every_format_conform_and_their_locators_open(
    path: Path, tmp_path: Path
) -> None:
    made = export_records([path])
    _, beside = write_export(tmp_path / "r.jsonl", made, [path], bundle=Bundle(tmp_path))
    evidence = Evidence(tmp_path, load(beside))
    assert [validate_record(item) for item in made] == [[]] * len(made)
    assert sum(assert_calls_stand_where_they_say(evidence, item) for item in made) > 0


def test_locators_of_every_format_open_through_a_warehouse(tmp_path: Path) -> None:
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    project, kept = tmp_path / "p", tmp_path / "kept"
    shutil.copytree(TRACES, project / "traces")
    (project / "toolscore.yaml").write_text('sources: [{name: all, path: "traces/*"}]\n')
    build(open_project(project), threads=1)
    code = main(["export", "--project", str(project), "--bundle", str(kept), "--quiet"])
    assert code == 0
    evidence = Evidence(kept, load(kept / "records.jsonl.manifest.json"))
    assert evidence.problems() == []
    made = read_lines(kept / "records.jsonl")
    # The log of Inspect stands there in two forms, which hold one and the same run.
    names = {path.name for path in TRACES.iterdir()} - {"inspect_ai.json"}
    assert {item["source"]["path"] for item in made} == {f"traces/{name}" for name in names}
    for item in made:
        assert validate_record(item) == []
        assert_calls_stand_where_they_say(evidence, item)
    # The calls of a receipt stand in the trace that it names.
    (receipt,) = [item for item in made if item["source"]["path"] == "traces/receipt.json"]
    trace = sha256((TRACES / "plain.json").read_bytes())
    assert {call["source"]["artifact"] for call in receipt["requested_calls"]} == {trace}
    assert receipt["source"]["sha256"] == sha256((TRACES / "receipt.json").read_bytes())
    # What is kept is enough to read every record again.
    shutil.rmtree(project)
    found = verify_export(kept / "records.jsonl")
    assert (found.broken, found.unchecked) == ([], [])
    assert found.checked["evidence"] == len(made)
