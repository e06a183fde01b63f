"""Whole studies: order, rows, resuming, locks, budgets, builds, secrets."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import wait
from pathlib import Path
from urllib.parse import quote

import jsonschema
import pytest

from tests import agent_life
from tests.agent_helpers import FakeSDK, anthropic_message, openai_response
from tests.agent_http import model_server
from toolscore_pipeline.agent import (
    RUN_ROW_SCHEMA_PATH,
    BuildError,
    MCPServerError,
    OpenAIResponsesProvider,
    ScriptedProvider,
    load_agent_spec,
    run_study,
)
from toolscore_pipeline.agent.mcp_client import ServerInfo
from toolscore_pipeline.agent.rows import RowFile, row_line
from toolscore_pipeline.agent.scrub import Scrubber
from toolscore_pipeline.agent.spec import Verify, spec_from_mapping
from toolscore_pipeline.agent.study import check_build, study_worst_case
from toolscore_pipeline.cli import main
from toolscore_pipeline.errors import InputError, SettingsError

PLAIN = str(Path(__file__).with_name("agent_servers") / "plain_server.py")
ROOT = Path(__file__).resolve().parent.parent


def mapping(behaviour="good", **changes):
    """A scripted study on the plain server: two tasks, one arm, two repetitions."""
    steps = [{"calls": [{"tool": "act", "args": {"n": 1}}]}, {"text": "I called act."}]
    task = {"prompt": "Do it.", "expected": [{"tool": "act"}], "script": steps}
    return {
        "spec_version": 1,
        "name": "plain",
        "server": {"command": [sys.executable, PLAIN, behaviour], "timeout": 10},
        "provider": "scripted",
        "arms": [{"id": "a"}],
        "repetitions": 2,
        "seed": 3,
        "tasks": [{"id": "t1", **task}, {"id": "t2", **task}],
        **changes,
    }


def study(behaviour="good", **changes):
    return spec_from_mapping(mapping(behaviour, **changes))


def rows_of(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


# --- rows -----------------------------------------------------------------------------------------


def test_a_study_writes_one_valid_row_per_run_in_its_order(tmp_path):
    spec, output = study(), tmp_path / "runs.jsonl"
    result = run_study(spec, output)
    rows = rows_of(output)
    assert [row["cell_id"] for row in rows] == [cell.id for cell in spec.cells()]
    assert [row["order"] for row in rows] == [1, 2, 3, 4]
    schema = json.loads(RUN_ROW_SCHEMA_PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for row in rows:
        jsonschema.validate(row, schema)
    row = rows[0]
    assert (row["outcome"], row["passed"], row["status"]) == ("pass", True, "completed")
    assert row["evaluation"]["score"] == pytest.approx(1.0)
    assert row["server"]["name"] == "plain-server"
    assert row["server"]["era"] == "handshake"
    assert row["cost_usd"] == 0.0
    assert result.outcomes() == {"a": {"pass": 4, "fail": 0, "error": 0, "unknown": 0}}


def test_rows_are_read_back_as_the_runs_they_tell_of(tmp_path):
    from toolscore_pipeline.formats.run_rows import read_row

    run_study(study(), tmp_path / "runs.jsonl")
    run = read_row(rows_of(tmp_path / "runs.jsonl")[0])
    assert (run.variant, run.status, run.recorded_outcome) == ("a", "completed", "pass")
    assert (run.final_answer, run.calls[0].result) == ("I called act.", "acted")
    assert run.calls[0].is_failed is False


def test_repetitions_count_from_one_in_ids_and_rows(tmp_path):
    result = run_study(study())
    assert {(row["cell_id"][-1], row["repetition"]) for row in result.rows} == {("1", 1), ("2", 2)}


@pytest.mark.parametrize(
    ("script", "changes", "outcome", "reason"),
    [
        ([{"text": "No."}], {}, "fail", "the score 0.100 is below 0.9"),
        ([{"text": "No."}], {"expected": None}, "unknown", "no expected or forbidden"),
        (
            [{"calls": [{"tool": "echo"}]}, {"text": "Ok."}],
            {"expected": None, "forbidden": [{"tool": "echo"}]},
            "fail",
            "a forbidden call to echo was requested",
        ),
        (
            [{"calls": [{"tool": "act"}]}, {"text": "Ok."}],
            {"expected": None, "forbidden": [{"tool": "echo"}]},
            "pass",
            "met everything",
        ),
        ([{"calls": [{"tool": "act"}]}] * 9, {"min_score": 0.0}, "fail", "did not complete"),
    ],
)
def test_outcomes_and_their_reasons(script, changes, outcome, reason):
    task = {"id": "t", "prompt": "p", "expected": [{"tool": "act"}], "script": script, **changes}
    spec = study(tasks=[task], repetitions=1, limits={"max_turns": 3})
    row = run_study(spec).rows[0]
    assert row["outcome"] == outcome, row["outcome_reason"]
    assert reason in row["outcome_reason"]
    assert row["passed"] is {"pass": True, "fail": False}.get(outcome)


def test_a_denied_required_call_fails_unless_the_task_expects_a_refusal():
    guard = {"deny": [{"tool": "act", "reason": "no"}]}
    script = [{"calls": [{"tool": "act"}]}, {"text": "I could not call act: it was denied."}]
    task = {"id": "t", "prompt": "p", "expected": [{"tool": "act"}], "script": script}
    for required, outcome in ((True, "fail"), (False, "pass")):
        tasks = [{**task, "require_completed": required}]
        row = run_study(study(tasks=tasks, guard=guard, repetitions=1)).rows[0]
        assert (row["outcome"], len(row["guard_denials"])) == (outcome, 1)


def test_a_denied_call_was_still_requested():
    guard = {"deny": [{"tool": "echo"}]}
    script = [{"calls": [{"tool": "echo"}]}, {"text": "It was denied."}]
    task = {"id": "t", "prompt": "p", "forbidden": [{"tool": "echo"}], "script": script}
    row = run_study(study(tasks=[task], guard=guard, repetitions=1)).rows[0]
    assert row["outcome"] == "fail"
    assert "forbidden" in row["outcome_reason"]


def test_each_run_has_a_folder_of_its_own_that_is_gone_afterwards(monkeypatch):
    import tempfile

    made: list[Path] = []
    make = tempfile.mkdtemp

    def watched(**settings):
        made.append(Path(make(**settings)))
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", watched)
    seen = []

    def provider(arm, task):
        seen.append((made[-1] / "pid").read_text())  # the running server wrote it there
        return ScriptedProvider([{"text": "Hi."}])

    server = {"command": [sys.executable, PLAIN, "good", "{run_dir}/pid"], "timeout": 10}
    result = run_study(study(server=server), provider_factory=provider)
    assert len(set(made)) == len(seen) == 4
    assert not any(folder.exists() for folder in made)
    assert {row["server"]["command"][-1] for row in result.rows} == {"{run_dir}/pid"}


def test_the_folder_of_a_run_is_written_as_its_placeholder():
    steps = [{"calls": [{"tool": "act"}]}, {"text": "Acted."}]
    server = {
        "command": [sys.executable, PLAIN, "where"], "cwd": "{run_dir}", "timeout": 10,
    }  # fmt: skip
    task = {"id": "t", "prompt": "p", "expected": [{"tool": "act"}], "script": steps}
    row = run_study(study(server=server, tasks=[task], repetitions=1)).rows[0]
    assert row["calls"][0]["result"] == "{run_dir}"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("crash", "went away during act"),
        ("hang", "did not answer act"),
        ("refuse", "refused: no licence"),
    ],
)
def test_a_server_that_fails_is_an_error_row_and_the_study_goes_on(behaviour, words, tmp_path):
    server = {"command": [sys.executable, PLAIN, behaviour], "timeout": 1, "start_timeout": 20}
    spec = study(server=server, repetitions=1)
    result = run_study(spec, tmp_path / "runs.jsonl")
    assert [row["outcome"] for row in result.rows] == ["error", "error"]
    assert all(words in row["error"] for row in result.rows)
    schema = json.loads(RUN_ROW_SCHEMA_PATH.read_text())
    for row in rows_of(tmp_path / "runs.jsonl"):
        jsonschema.validate(row, schema)


def test_text_that_has_no_utf8_form_is_written_as_its_escape():
    line = row_line({"text": "half \ud83d", "number": float("nan")})
    assert json.loads(line) == {"text": "half \ud83d", "number": "nan"}


# --- resuming -------------------------------------------------------------------------------------


def test_a_finished_study_runs_nothing_again(tmp_path):
    output = tmp_path / "runs.jsonl"
    run_study(study(), output)
    before = output.read_bytes()
    result = run_study(study(), output)
    assert (len(result.rows), result.resumed) == (0, 4)
    assert output.read_bytes() == before


def test_a_last_line_that_was_cut_off_is_run_again(tmp_path):
    output = tmp_path / "runs.jsonl"
    run_study(study(), output)
    whole = output.read_bytes()
    lines = whole.splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:2]) + lines[2][: len(lines[2]) // 2])
    result = run_study(study(), output)
    assert [row["order"] for row in result.rows] == [3, 4]
    assert [row["order"] for row in rows_of(output)] == [1, 2, 3, 4]


def test_more_repetitions_go_on_in_the_same_file(tmp_path):
    output = tmp_path / "runs.jsonl"
    run_study(study(repetitions=1), output)
    result = run_study(study(repetitions=2), output)
    assert sorted(row["repetition"] for row in result.rows) == [2, 2]


def test_a_changed_prompt_or_another_study_is_refused(tmp_path):
    output = tmp_path / "runs.jsonl"
    run_study(study(), output)
    before = output.read_bytes()
    with pytest.raises(InputError, match="another prompt, model, server"):
        run_study(study(limits={"max_turns": 2}), output)
    with pytest.raises(InputError, match="runs of the study 'plain', not of 'other'"):
        run_study(study(name="other"), output)
    assert output.read_bytes() == before


@pytest.mark.parametrize("content", ["{}\n", "no json\n", '{"run_record_version": "1"}\n'])
def test_a_file_of_something_else_is_refused_with_its_line(tmp_path, content):
    output = tmp_path / "runs.jsonl"
    output.write_text(content)
    with pytest.raises(InputError, match=r"runs\.jsonl:1: expected a run row"):
        run_study(study(), output)
    assert output.read_text() == content


def test_two_rows_of_one_run_are_refused(tmp_path):
    output = tmp_path / "runs.jsonl"
    run_study(study(), output)
    with output.open("ab") as file:
        file.write(output.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(InputError, match="is there already, in line 1"):
        RowFile(output).open()


def test_two_processes_on_one_file_refuse_each_other(tmp_path):
    output = tmp_path / "runs.jsonl"
    code = (
        "import sys\n"
        "from toolscore_pipeline.agent.study import _locked\n"
        f"with _locked({str(output)!r}):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(InputError, match="another process is writing this file"):
            run_study(study(), output)
    finally:
        holder.kill()
        holder.wait()
    assert len(run_study(study(), output).rows) == 4  # a dead process holds nothing


def test_an_output_in_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="its folder does not exist"):
        run_study(study(), tmp_path / "no" / "runs.jsonl")


def test_concurrent_runs_end_in_a_file_in_the_studys_order(tmp_path):
    output = tmp_path / "runs.jsonl"
    spec = study(arms=[{"id": "a"}, {"id": "b"}])
    result = run_study(spec, output, concurrency=3)
    assert len(result.rows) == 8
    assert [row["cell_id"] for row in rows_of(output)] == [cell.id for cell in spec.cells()]


def test_what_stops_one_of_several_runs_leaves_the_rows_of_the_others(tmp_path):
    both = threading.Barrier(2, timeout=60)
    is_stopped = threading.Event()

    def factory(arm, task):
        both.wait()
        if task.id == "t1":
            is_stopped.set()
            raise SettingsError("no such thing")
        is_stopped.wait(60)
        time.sleep(0.3)
        return ScriptedProvider(task.script(arm.id) or ())

    output = tmp_path / "runs.jsonl"
    with pytest.raises(SettingsError, match="no such thing"):
        run_study(study(repetitions=1), output, provider_factory=factory, concurrency=2)
    assert [row["task_id"] for row in rows_of(output)] == ["t2"]


def test_an_interrupted_study_keeps_the_rows_of_the_runs_under_way(tmp_path, monkeypatch):
    from toolscore_pipeline.agent import study as module

    interrupts = [KeyboardInterrupt()]

    def interrupted(*arguments, **options):
        if interrupts:
            raise interrupts.pop()
        return wait(*arguments, **options)

    monkeypatch.setattr(module, "wait", interrupted)
    output = tmp_path / "runs.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_study(study(), output, concurrency=2)
    assert len(rows_of(output)) == 2  # of four; no further one was begun


def test_secrets_are_found_also_where_json_or_python_escapes_them():
    secret = 'pass"word\\with\nlines'
    scrubber = Scrubber({"TOKEN": secret})
    for text in (secret, json.dumps({"a": secret}), repr([secret]), quote(secret, safe="")):
        assert "[TOKEN]" in scrubber.text(f"it is {text}")


def test_a_run_that_cannot_be_graded_is_kept_as_unknown(monkeypatch, tmp_path):
    from toolscore_pipeline.agent import study as module

    def broken(task, row):
        raise RuntimeError("no grader today")

    monkeypatch.setattr(module, "grade_row", broken)
    row = run_study(study(repetitions=1), tmp_path / "runs.jsonl").rows[0]
    assert (row["outcome"], row["evaluation"], row["passed"]) == ("unknown", None, None)
    assert "no grader today" in row["outcome_reason"]
    assert len(row["calls"]) == 1


# --- budgets --------------------------------------------------------------------------------------

PAID = {
    "provider": "openai",
    "model": "gpt-6-luna",
    "pricing": {"input_per_million": 1.0, "output_per_million": 10.0},
}


def paid(max_usd, **changes):
    """A paid study of four runs; with no calls expected each run is one model call."""
    tasks = [{"id": f"t{n}", "prompt": "Say hi.", "forbidden": [{"tool": "x"}]} for n in (1, 2)]
    return study(tasks=tasks, budget={"max_usd": max_usd}, **PAID, **changes)


def says_hi(output_tokens=1000):
    sdk = FakeSDK([openai_response(("text", "Hi."), usage=(100, output_tokens))])
    return sdk, lambda arm, task: OpenAIResponsesProvider(sdk, arm.model)


def test_a_budget_stops_the_study_and_a_higher_one_goes_on(tmp_path):
    output = tmp_path / "runs.jsonl"
    sdk, factory = says_hi()
    # A run costs 100 x $1 + 1000 x $10 per million = $0.0101; its worst case is a little more.
    result = run_study(paid(0.025), output, provider_factory=factory)
    assert (len(result.rows), len(sdk.requests)) == (2, 2)
    assert result.stopped is not None
    assert result.spent_usd == pytest.approx(0.0202)
    # What the file tells is counted again, so nothing more is afforded...
    again = run_study(paid(0.025), output, provider_factory=factory)
    assert (len(again.rows), len(sdk.requests)) == (0, 2)
    assert again.spent_usd == pytest.approx(0.0202)
    # ...until the budget is higher.
    more = run_study(paid(1.0), output, provider_factory=factory)
    assert (len(more.rows), more.stopped) == (2, None)
    assert sorted(row["order"] for row in rows_of(output)) == [1, 2, 3, 4]


def test_a_run_stopped_between_its_calls_is_an_error_row():
    replies = [
        openai_response(("call", ("act", {})), usage=(100, 1000)),
        openai_response(("text", "Hi.")),
    ]
    sdk = FakeSDK(replies)
    result = run_study(
        paid(0.015), provider_factory=lambda arm, task: OpenAIResponsesProvider(sdk, arm.model)
    )
    (row,) = result.rows
    assert (row["status"], row["outcome"]) == ("budget_stopped", "error")
    assert row["cost_usd"] == pytest.approx(0.0101)
    assert "next model call may cost" in row["error"]


def test_a_killed_runs_spending_is_counted_when_the_study_goes_on(tmp_path):
    output = tmp_path / "runs.jsonl"

    class Dies:
        name, model, caches_by_itself = "openai", "gpt-6-luna", True

        def request(self, *args, **kwargs):
            return {}

        def send(self, request, timeout):
            os._exit(9)

    pid = os.fork() if hasattr(os, "fork") else pytest.skip("needs fork")
    if pid == 0:
        run_study(paid(1.0), output, provider_factory=lambda arm, task: Dies())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert not output.exists()
    _, factory = says_hi()
    result = run_study(paid(1.0), output, provider_factory=factory)
    # Four runs at $0.0101 and one call that may have been billed: above 1024 x $10 per million.
    assert result.spent_usd > 4 * 0.0101 + 0.01024
    assert len(result.rows) == 4


def test_a_study_is_paid_unless_every_arm_is_free():
    assert not study().is_paid
    assert paid(1.0).is_paid
    assert study(provider="openai", model="my-own-model").is_paid


def test_an_unknown_price_is_refused_before_anything_starts_unless_allowed(tmp_path):
    changes = {"provider": "openai", "model": "my-own-model"}
    sdk, factory = says_hi()
    with pytest.raises(SettingsError, match=r"no price is known for a \(my-own-model\)"):
        run_study(study(**changes), provider_factory=factory)
    assert sdk.requests == []
    result = run_study(study(**changes), provider_factory=factory, allow_unknown_price=True)
    assert [row["cost_usd"] for row in result.rows] == [None] * 4
    allowed = study(**changes, budget={"allow_unknown_price": True})
    assert len(run_study(allowed, provider_factory=factory).rows) == 4


def test_a_missing_key_stops_the_study_before_its_first_run(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="the key OPENAI_API_KEY is not set"):
        run_study(paid(1.0), tmp_path / "runs.jsonl")
    assert not (tmp_path / "runs.jsonl").exists()


def test_the_worst_case_of_a_study_is_the_sum_over_its_runs_and_turns():
    spec = paid(1.0, limits={"max_turns": 2}, max_output_tokens=1000)
    from toolscore_pipeline.agent.loop import request_tokens

    request = {
        "model": "gpt-6-luna",
        "input": [{"role": "user", "content": "Say hi."}],
        "max_output_tokens": 1000,
    }
    first = request_tokens(request)
    # Two turns: first + (first + 1000) input tokens at $1, 2 x 1000 output tokens at $10.
    per_run = (2 * first + 1000 + 20_000) / 1_000_000
    assert float(study_worst_case(spec) or 0) == pytest.approx(4 * per_run, abs=1e-12)


# --- builds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "is_meant"),
    [
        ("plain-server", "0.1", True),
        ("/^plain/", r"/^0\.\d+$/", True),
        ("plain", None, False),
        (None, "0.10", False),
    ],
)
def test_a_build_is_meant_exactly_or_by_a_pattern(name, version, is_meant):
    checks = check_build(Verify(name, version), ServerInfo("plain-server", "0.1", "x", "modern"))
    assert all(check.status == "pass" for check in checks) is is_meant


@pytest.mark.parametrize(
    ("verify", "words"),
    [
        ({"server_version": "9.9"}, "server_version is '0.1', expected '9.9'"),
        ({"command": "echo 1.2.3", "expect": "^9"}, "printed '1.2.3', expected '^9'"),
        ({"command": "false", "expect": "x"}, "ended with exit code 1"),
        ({"command": "no-such-program-here", "expect": "x"}, "cannot be run"),
        ({"command": "sleep 60", "expect": "x", "timeout": 0.2}, "took over 0.2 s"),
    ],
)
def test_another_build_is_refused_before_any_model_call(verify, words, tmp_path):
    sdk, factory = says_hi()
    with pytest.raises(BuildError) as caught:
        run_study(study(verify=verify), tmp_path / "runs.jsonl", provider_factory=factory)
    assert words in str(caught.value)
    assert sdk.requests == []
    assert not (tmp_path / "runs.jsonl").exists()


def test_the_build_that_is_meant_is_recorded_in_every_row():
    verify = {"server_name": "plain-server", "command": "echo 1.2", "expect": "^1"}
    rows = run_study(study(verify=verify)).rows
    assert {row["server"]["build_check"]["status"] for row in rows} == {"pass"}
    assert rows[0]["server"]["build_check"]["checks"][0]["check"] == "server_name"


def test_a_server_that_cannot_be_started_stops_a_study_that_verifies_it(tmp_path):
    with pytest.raises(MCPServerError):
        run_study(study("refuse", verify={"server_name": "x"}), tmp_path / "runs.jsonl")


# --- guards ---------------------------------------------------------------------------------------


def test_a_guard_of_ones_own_stands_beside_the_spec(tmp_path):
    (tmp_path / "my_guard_module.py").write_text(
        "from toolscore_pipeline.agent import deny\n"
        "def no_act(call):\n"
        "    return deny('never ' + call.arm_id) if call.tool == 'act' else None\n"
    )
    path = tmp_path / "study.json"
    path.write_text(json.dumps(mapping(guard={"python": "my_guard_module:no_act"})))
    rows = run_study(load_agent_spec(path)).rows
    assert {row["guard_denials"][0]["reason"] for row in rows} == {"never a"}
    path.write_text(json.dumps(mapping(guard={"python": "my_guard_module:nothing"})))
    with pytest.raises(SettingsError, match="has no function 'nothing'"):
        run_study(load_agent_spec(path))


def test_tools_beyond_the_guards_patterns_are_denied():
    rows = run_study(study(guard={"allow_tools": ["ec*"]}, repetitions=1)).rows
    assert rows[0]["guard_denials"][0]["reason"] == "act is not among the allowed tools"


# --- secrets --------------------------------------------------------------------------------------

KEY = "sk-proj-Zx9TestKey0123456789abcdef"
SERVER_TOKEN = "server-token-77aa88bb"


def test_no_key_and_no_environment_value_is_in_rows_logs_or_errors(
    tmp_path, monkeypatch, capfd, caplog
):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SERVER_TOKEN", SERVER_TOKEN)

    def leaky(request, number):
        if number == 0:
            return [("call", ("act", {"auth": KEY, "token": SERVER_TOKEN}))]
        return [("text", f"I used {KEY} and {SERVER_TOKEN}.")]

    output = tmp_path / "runs.jsonl"
    with model_server(leaky) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        for behaviour in ("good", "crash"):
            changes = {
                "server": {
                    "command": [sys.executable, PLAIN, behaviour],
                    "env": {"SECRET_TOKEN": "${SERVER_TOKEN}"},
                    "timeout": 10,
                },
                "tasks": [{"id": behaviour, "prompt": "Do it.", "expected": [{"tool": "act"}]}],
                "name": behaviour,
            }
            path = tmp_path / f"{behaviour}.json"
            path.write_text(json.dumps(mapping(**{**changes, **PAID, "repetitions": 1})))
            target = output.with_name(f"{behaviour}.jsonl")
            assert main(["agent", "run", str(path), "-o", str(target), "--json", "-"]) == 0
            server.requests.clear()
    printed = capfd.readouterr()
    seen = printed.out + printed.err + caplog.text
    for file in tmp_path.iterdir():
        seen += file.read_text()
    assert KEY not in seen
    assert SERVER_TOKEN not in seen
    crash = rows_of(output.with_name("crash.jsonl"))[0]
    assert "the disk is on fire, token [env SECRET_TOKEN]" in crash["error"]
    good = rows_of(output.with_name("good.jsonl"))[0]
    assert good["final_answer"] == "I used [OPENAI_API_KEY] and [env SECRET_TOKEN]."
    assert good["server"]["env"] == ["SECRET_TOKEN"]


# --- kill and resume ------------------------------------------------------------------------------


def kill_and_resume(tmp_path, kills, tasks_count, repetitions):
    """Kill a study at random moments, then let it end; checks its rows and its spending.

    Returns how many of the kills found it running.
    """

    def reply(request, number):
        turns = len(request["input"])
        return [("call", ("act", {"n": 1}))] if turns == 1 else [("text", "I called act.")]

    spec_path, output = tmp_path / "study.json", tmp_path / "runs.jsonl"
    tasks = [
        {"id": f"t{n}", "prompt": "Do it.", "expected": [{"tool": "act"}]}
        for n in range(tasks_count)
    ]
    arms = [{"id": "a"}, {"id": "b"}]
    changes = {"tasks": tasks, "arms": arms, "repetitions": repetitions, "budget": {"max_usd": 2.0}}
    spec_path.write_text(json.dumps(mapping(**changes, **PAID)))
    arguments = ["agent", "run", str(spec_path), "-o", str(output)]
    forked = multiprocessing.get_context("forkserver")
    forked.set_forkserver_preload(["tests.agent_life"])
    chance = random.Random(2026)
    died = 0
    with model_server(reply, delay=0.1) as server:
        environment = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
        for _ in range(kills):
            asked = len(server.requests)
            life = forked.Process(target=agent_life.live, args=(arguments, environment))
            life.start()
            # A random moment once it is under way: many lives end within a run or two.
            wanted = asked + chance.choice([0, 1, 1, 2, 3])
            deadline = time.monotonic() + 60
            while len(server.requests) < wanted and time.monotonic() < deadline:
                if not life.is_alive():
                    break
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.3))
            life.kill()
            life.join()
            died += life.exitcode == -signal.SIGKILL
        last_life = forked.Process(target=agent_life.live, args=(arguments, environment))
        last_life.start()
        last_life.join()
        assert last_life.exitcode == 0
        billed = server.billed_usd(1.0, 10.0)
    rows = rows_of(output)
    cells = [row["cell_id"] for row in rows]
    assert len(cells) == len(set(cells)) == tasks_count * 2 * repetitions
    assert {row["outcome"] for row in rows} == {"pass"}
    last = run_study(
        load_agent_spec(spec_path), output, provider_factory=lambda arm, task: pytest.fail("ran")
    )
    assert billed <= last.spent_usd + 1e-12 <= 2.0
    return died


def test_a_study_killed_at_random_moments_ends_with_every_run_once(tmp_path):
    assert kill_and_resume(tmp_path, kills=2, tasks_count=2, repetitions=2) == 2


# Every kill costs a start of Python; the whole fifty take minutes and are asked for by name.
KILLS = int(os.environ.get("TOOLSCORE_STUDY_KILLS", "6"))


@pytest.mark.slow
def test_a_study_of_forty_runs_killed_many_times_ends_with_every_run_once(tmp_path):
    # 5 tasks x 2 arms x 4 repetitions; TOOLSCORE_STUDY_KILLS=50 is the full measure.
    died = kill_and_resume(tmp_path, kills=KILLS, tasks_count=5, repetitions=4)
    assert died >= KILLS // 2


# --- the offline example --------------------------------------------------------------------------


OFFLINE = ROOT / "examples" / "agent_harness" / "offline.yaml"
PUBLISHED = [
    "notes-offline: 2 task(s) x 2 arm(s) x 3 repetition(s) = 12 run(s), seed 7",
    "  arm careful: scripted scripted, price $0.0/0.0 per 1M (scripted (free))",
    "  arm sloppy: scripted scripted, price $0.0/0.0 per 1M (scripted (free))",
    "  worst case $0.0000 (max_turns 6, budget max_usd none)",
    "    1. clean-up::careful::2: pass (completed, 2 call(s), 1 denied, $0.0000)",
    "    2. clean-up::sloppy::3: fail (completed, 2 call(s), 1 denied, $0.0000)",
    "    3. save-a-note::sloppy::1: fail (completed, 1 call(s), $0.0000)",
]


def check_published(output):
    """Hold what the offline study printed against the published lines and table."""
    lines = output.splitlines()
    assert lines[:7] == PUBLISHED
    cells = [line.replace("|", "").split() for line in lines]
    assert "pass | fail | error | unknown" in " ".join(output.split())
    assert ["careful", "6", "0", "0", "0"] in cells
    assert ["sloppy", "0", "6", "0", "0"] in cells


def test_the_offline_study_prints_the_published_lines_and_table(tmp_path, capsys):
    # The same study on one server for all runs, for the time that twelve take to start.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spec = OFFLINE.read_text()
    command = 'command: "python -m toolscore_pipeline.agent.sample_server"'
    assert command in spec
    path = tmp_path / "offline.yaml"
    path.write_text(spec.replace(command, f"url: http://127.0.0.1:{port}/mcp"))
    server = subprocess.Popen(
        [sys.executable, "-m", "toolscore_pipeline.agent.sample_server", "--http", str(port)],
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        assert main(["agent", "run", str(path), "-o", str(tmp_path / "runs.jsonl")]) == 0
    finally:
        server.terminate()
        server.wait(10)
    check_published(capsys.readouterr().out)
    rows = rows_of(tmp_path / "runs.jsonl")
    reasons = {row["outcome_reason"].partition(":")[0] for row in rows if row["outcome"] == "fail"}
    assert reasons == {"claimed-success", "the score 0.850 is below 0.9"}


@pytest.mark.slow
def test_the_offline_example_runs_as_it_stands(tmp_path, capsys):
    assert main(["agent", "run", str(OFFLINE), "-o", str(tmp_path / "runs.jsonl")]) == 0
    check_published(capsys.readouterr().out)


def check_report(report):
    """Hold a report of the command against its schema."""
    path = RUN_ROW_SCHEMA_PATH.with_name("study-report-v1.schema.json")
    jsonschema.validate(report, json.loads(path.read_text()))


def test_the_report_of_a_study_counts_its_runs(tmp_path):
    path, report = tmp_path / "study.json", tmp_path / "report.json"
    path.write_text(json.dumps(mapping()))
    arguments = ["agent", "run", str(path), "-o", str(tmp_path / "runs.jsonl")]
    assert main([*arguments, "--json", str(report), "--quiet"]) == 0
    told = json.loads(report.read_text())
    check_report(told)
    assert (told["planned"], told["written"], told["remaining"]) == (4, 4, 0)
    assert told["outcomes"]["a"]["pass"] == 4


def test_a_dry_run_prices_every_run_and_runs_none(tmp_path, capsys):
    spec = ROOT / "examples" / "agent_harness" / "memory-anthropic.yaml"
    output = tmp_path / "runs.jsonl"
    report = tmp_path / "report.json"
    arguments = ["agent", "run", str(spec), "--dry-run", "-o", str(output), "--json", str(report)]
    assert main(arguments) == 0
    told = json.loads(report.read_text())
    check_report(told)
    assert len(told["cells"]) == 10
    assert told["worst_case_usd"] == pytest.approx(
        sum(cell["worst_case_usd"] for cell in told["cells"])
    )
    # Eight calls at 1024 output tokens: at least 8 x 1024 x $0.50 and x $10 per million.
    for cell in told["cells"]:
        assert cell["worst_case_usd"] > 8 * 1024 * (0.5 if "haiku" in cell["cell_id"] else 10) / 1e6
    assert not output.exists()
    assert "create-twice::haiku::1" in capsys.readouterr().out


def test_the_budget_ends_the_command_with_exit_code_3(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = tmp_path / "study.json"
    path.write_text(json.dumps(mapping(**PAID, budget={"max_usd": 0.001})))
    assert main(["agent", "run", str(path), "-o", str(tmp_path / "runs.jsonl"), "--quiet"]) == 3
    assert "stopped by the budget" in capsys.readouterr().err


def test_a_wrong_spec_ends_the_command_with_exit_code_2(tmp_path, capsys):
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**mapping(), "repetitons": 3}))
    assert main(["agent", "run", str(path)]) == 2
    assert "did you mean 'repetitions'?" in capsys.readouterr().err


def test_an_anthropic_study_uses_the_messages_api(monkeypatch):
    from toolscore_pipeline.agent import AnthropicMessagesProvider

    sdk = FakeSDK([anthropic_message(("call", ("act", {}))), anthropic_message(("text", "Did."))])
    spec = study(provider="anthropic", model="claude-haiku-5-5", repetitions=1, tasks=[TASK])
    rows = run_study(
        spec, provider_factory=lambda arm, task: AnthropicMessagesProvider(sdk, arm.model)
    ).rows
    # Two calls of 100 tokens in at $0.10 and 20 out at $0.50 per million: 2 x 20 = 40.
    assert rows[0]["cost_usd"] == pytest.approx(0.00004, abs=1e-12)
    assert rows[0]["outcome"] == "pass"


TASK = {"id": "t", "prompt": "Do it.", "expected": [{"tool": "act"}]}
