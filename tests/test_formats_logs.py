"""Logs that whole tools write: Claude Code, Inspect, tau-bench; and receipts."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from toolscore_pipeline.errors import InputError, ReceiptMismatchError
from toolscore_pipeline.formats import is_fragment, read_value
from toolscore_pipeline.formats.inspect_ai import read_archive
from toolscore_pipeline.model import MISSING, Run


def one(value: Any, **options: Any) -> Run:
    [run] = read_value(value, **options)
    return run


# --- Claude Code ----------------------------------------------------------------------------------


def entry(number: int, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **fields.pop("message", {})}
    return {
        "type": kind, "uuid": f"u{number}", "sessionId": "s", "message": message,
        "timestamp": f"2026-10-02T09:00:{number:02d}Z", **fields,
    }  # fmt: skip


def used(key: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": "Bash", "input": {"command": "ls"}}


def given(key: str, content: str = "x", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": content, **fields}


def test_a_session_repeats_nothing_that_has_the_same_uuid() -> None:
    lines = [entry(1, "user", "go"), entry(2, "assistant", [used("a")])]
    lines += [entry(3, "user", [given("a")])]
    run = one([*lines, *lines])
    assert [(call.result, call.duration_seconds) for call in run.calls] == [("x", 1.0)]


def test_usage_counts_once_for_each_message() -> None:
    message = {"id": "m1", "usage": {"input_tokens": 10, "output_tokens": 3}}
    later = {"id": "m1", "usage": {"input_tokens": 10, "output_tokens": 9}}
    run = one(
        [
            entry(1, "assistant", [{"type": "text", "text": "a"}], message=message),
            entry(2, "assistant", [used("a")], message=later),
        ]
    )
    assert (run.input_tokens, run.output_tokens) == (10, 9)


def test_a_refusal_by_the_user_is_a_denied_call() -> None:
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    run = one(
        [entry(1, "assistant", [used("a")]), entry(2, "user", [given("a", refusal, is_error=True)])]
    )
    assert (run.calls[0].is_denied, run.calls[0].deny_reason) == (True, refusal)


def test_side_chains_add_calls_and_no_answers() -> None:
    run = one(
        [
            entry(1, "assistant", [{"type": "text", "text": "Done."}], message={"id": "m1"}),
            entry(2, "assistant", [{"type": "text", "text": "sub"}, used("b")], isSidechain=True,
                  message={"id": "m2"}),
        ]
    )  # fmt: skip
    assert len(run.calls) == 1
    assert run.final_answer is None  # a call came after it


def test_entries_of_unknown_types_are_left_out_and_named() -> None:
    note = {"type": "hologram", "sessionId": "s", "data": {}}
    run = one([entry(1, "assistant", [used("a")]), note, note])
    assert len(run.calls) == 1
    assert run.warnings == ["entries of unknown types were left out: 'hologram' (2)"]
    assert is_fragment(note)
    assert not is_fragment({"type": "x", "sessionId": "s", "calls": []})


def test_a_printed_stream_ends_with_its_cost() -> None:
    def printed(kind: str, content: Any, parent: str | None = None) -> dict[str, Any]:
        message = {"role": kind, "content": content}
        return {"type": kind, "message": message, "parent_tool_use_id": parent, "session_id": "s"}

    text = {"type": "text", "text": "done"}
    run = one(
        [
            {"type": "system", "subtype": "init", "session_id": "s", "tools": []},
            printed("assistant", [used("a")]),
            printed("assistant", [{**text, "text": "aside"}], parent="a"),
            printed("user", [given("a")]),
            printed("assistant", [text]),
            {"type": "result", "subtype": "success", "session_id": "s", "is_error": False,
             "result": "done", "total_cost_usd": 0.25, "duration_ms": 1500},
        ]
    )  # fmt: skip
    assert [call.result for call in run.calls] == ["x"]
    assert (run.final_answer, run.cost_usd, run.duration_seconds) == ("done", 0.25, 1.5)
    assert (run.status, run.warnings) == (None, [])


def test_each_session_is_a_run() -> None:
    runs = read_value([entry(1, "user", "a"), {**entry(2, "user", "b"), "sessionId": "t"}])
    assert [(run.prompt, run.locator) for run in runs] == [("a", "session s"), ("b", "session t")]


# --- Inspect --------------------------------------------------------------------------------------


def sample(**fields: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "",
         "tool_calls": [{"id": "a", "function": "t", "arguments": {"x": 1}}]},
        {"role": "tool", "tool_call_id": "a", "function": "t", "content": "1"},
        {"role": "assistant", "content": "done"},
    ]  # fmt: skip
    return {"id": 7, "epoch": 2, "input": "go", "messages": messages, **fields}


def log(*samples: dict[str, Any]) -> dict[str, Any]:
    return {"eval": {"task": "k", "model": "m"}, "plan": {}, "samples": list(samples)}


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ({"match": {"value": "C"}}, "pass"),
        ({"match": {"value": "I"}}, "fail"),
        ({"match": {"value": 1.0}}, "pass"),
        ({"match": {"value": 0}}, "fail"),
        ({"match": {"value": 0.5}}, None),
        ({"match": {"value": "C"}, "other": {"value": "C"}}, None),
        (None, None),
    ],
)
def test_only_one_clear_score_is_an_outcome(scores: Any, outcome: str | None) -> None:
    run = one(log(sample(scores=scores)))
    assert run.recorded_outcome == outcome
    assert (run.task, run.variant, run.repetition) == ("k/7", "m", 1)
    assert run.final_answer == "done"


def test_a_tools_error_an_approval_and_a_limit_are_read() -> None:
    record = sample(limit={"type": "token", "limit": 10})
    record["messages"][2]["error"] = {"type": "approval", "message": "not today"}
    run = one(log(record))
    assert run.status == "limit_reached"
    call = run.calls[0]
    assert (call.is_failed, call.is_denied, call.deny_reason) == (True, True, "not today")


def test_arguments_that_inspect_could_not_parse_are_invalid() -> None:
    record = sample()
    record["messages"][1]["tool_calls"][0] = {
        "id": "a", "function": "t", "arguments": {"x": '{"x": '}, "parse_error": "bad",
    }  # fmt: skip
    call = one(log(record)).calls[0]
    assert (call.args, call.args_status, call.args_raw) == ({"raw": '{"x": '}, "invalid", '{"x": ')


def test_attachments_are_put_back() -> None:
    record = sample(attachments={"h": "the long result"})
    record["messages"][2]["content"] = "attachment://h"
    assert one(log(record)).calls[0].result == "the long result"


def test_a_log_that_failed_before_its_samples_is_a_run_in_error() -> None:
    run = one({**log(), "status": "error", "error": {"message": "no key"}})
    assert (run.status, run.recorded_outcome, run.error) == ("error", "error", "no key")


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (log(sample()) | {"samples": [sample(), None]}, "$.samples[1]"),
        ({"simulations": [7], "info": {}}, "$.simulations[0]"),
    ],
)
def test_a_record_that_is_no_object_is_refused_by_its_place(document: Any, place: str) -> None:
    with pytest.raises(InputError) as caught:
        read_value(document)
    assert caught.value.json_path == place


def test_a_bad_sample_of_an_archive_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "log.eval"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "k"}}))
        archive.writestr("samples/1.json", json.dumps(sample()))
        archive.writestr("samples/2.json", '{"id": NaN}')
        archive.writestr("samples/3.json", "[]")
    first, second, third = read_archive(file)
    assert isinstance(first, Run)
    assert first.locator == "samples/1.json"
    assert isinstance(second, InputError)
    assert "samples/2.json: not JSON: NaN" in str(second)
    assert isinstance(third, InputError)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log.eval"
    file.write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(InputError, match="the archive cannot be read"):
        list(read_archive(file))


# --- tau-bench ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reward", "outcome"), [(1, "pass"), (0.9999999, "pass"), (0.5, "fail"), (0, "fail")]
)
def test_only_a_reward_of_one_is_a_success(reward: float, outcome: str) -> None:
    trial = {"task_id": 4, "reward": reward, "info": {}, "traj": [], "trial": 2}
    run = one([trial])
    assert (run.task, run.repetition, run.recorded_outcome) == ("4", 2, outcome)


def test_a_trial_that_crashed_is_an_error() -> None:
    run = one([{"task_id": 4, "reward": 0, "info": {"error": "boom"}, "traj": [], "trial": 0}])
    assert (run.status, run.recorded_outcome, run.error) == ("error", "error", "boom")


def test_the_simulated_users_calls_are_not_the_agents() -> None:
    call = {"id": "u", "name": "check", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "user", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": "u", "content": "ok", "requestor": "user", "error": False},
    ]
    run = one({"simulations": [{"task_id": "1", "messages": messages, "reward_info": {}}],
               "tasks": []})  # fmt: skip
    assert run.calls == []
    assert "1 call(s) of the simulated user" in run.warnings[0]


# --- receipts -------------------------------------------------------------------------------------


def receipt(path: str, data: bytes) -> dict[str, Any]:
    trace = {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return {"kind": "toolscore.evaluation", "inputs": {"trace": trace}, "settings": {}}


def test_a_receipt_reads_the_trace_it_vouches_for(tmp_path: Path) -> None:
    data = b'[{"tool": "t", "args": {}}]'
    (tmp_path / "trace.json").write_bytes(data)
    run = one(receipt("trace.json", data), file=tmp_path / "run.receipt.json")
    assert [call.tool for call in run.calls] == ["t"]
    assert run.calls[0].result is MISSING


def test_a_changed_or_missing_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(b"[]")
    with pytest.raises(ReceiptMismatchError, match="changed since"):
        one(receipt("trace.json", b"[ ]"), file=tmp_path / "run.receipt.json")
    with pytest.raises(InputError, match="does not exist"):
        one(receipt("gone.json", b"[]"), file=tmp_path / "run.receipt.json")
