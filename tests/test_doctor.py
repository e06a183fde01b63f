"""The doctor: what it finds, and that it pays and shows nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from toolscore_pipeline import doctor
from toolscore_pipeline.agent import MCPServerSpec
from toolscore_pipeline.agent.spec import Verify
from toolscore_pipeline.cli import main
from toolscore_pipeline.doctor import DoctorCheck, check_server, doctor_report, run_doctor

PLAIN = str(Path(__file__).with_name("agent_servers") / "plain_server.py")
SCHEMAS = Path(doctor.__file__).with_name("schemas")
KEY = "sk-proj-Zx9DoctorKey0123456789abc"


def write_spec(tmp_path, **changes):
    spec: dict[str, Any] = {
        "spec_version": 1,
        "name": "s",
        "server": {"command": [sys.executable, PLAIN]},
        "verify": {"server_name": "plain-server", "command": "echo 1.2", "expect": "^1"},
        "provider": "openai",
        "model": "gpt-6-luna",
        "arms": [{"id": "a"}],
        "repetitions": 2,
        "budget": {"max_usd": 1.0},
        "tasks": [{"id": "t", "prompt": "Do it.", "expected": [{"tool": "act"}]}],
        **changes,
    }
    path = tmp_path / "study.json"
    path.write_text(json.dumps(spec))
    return path


def by_name(checks):
    return {check.name: check for check in checks}


def statuses(checks):
    return {check.name: check.status for check in checks}


def test_a_study_that_is_ready_passes_every_check_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    checks = run_doctor(write_spec(tmp_path))
    names = [check.name for check in checks if check.name != "toolscore"]
    assert names == [
        "python", "spec", "package mcp", "package openai", "key OPENAI_API_KEY", "price a",
        "budget", "version command", "server", "build",
    ]  # fmt: skip
    assert {check.status for check in checks if check.name != "toolscore"} == {"pass"}
    found = by_name(checks)
    assert found["spec"].detail == "s: 1 task(s) x 1 arm(s) x 2 repetition(s) = 2 run(s)"
    assert found["price a"].detail.startswith("gpt-6-luna: $0.1 in / $0.5 out per 1M (list price")
    assert found["server"].detail == "plain-server 0.1 started; 2 tool(s); MCP 2025-11-25"
    assert found["version command"].detail == "'echo 1.2' printed '1.2'"
    assert found["build"].detail == "server_name 'plain-server' matches"
    assert found["key OPENAI_API_KEY"].detail == "set"


def test_keys_are_looked_at_by_name_only(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    path = write_spec(tmp_path)
    report = tmp_path / "report.json"
    arguments = ["doctor", "--spec", str(path), "--key", "NO_SUCH_KEY", "--json", str(report)]
    assert main(arguments) == 1
    printed = capfd.readouterr()
    told = json.loads(report.read_text())
    jsonschema.validate(told, json.loads((SCHEMAS / "doctor-v1.schema.json").read_text()))
    assert told["worst"] == "fail"
    failed = [check for check in told["checks"] if check["status"] == "fail"]
    assert failed == [{"name": "key NO_SUCH_KEY", "status": "fail", "detail": "not set"}]
    assert KEY not in printed.out + printed.err + report.read_text()


def test_a_missing_package_fails_with_what_to_install(tmp_path, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "openai" else find(name)
    )
    checks = by_name(run_doctor(write_spec(tmp_path), start_server=False))
    assert checks["package openai"].status == "fail"
    assert checks["package openai"].detail == 'missing: pip install "toolscore-pipeline[agent]"'


def test_an_unknown_price_fails_or_warns_where_it_is_allowed(tmp_path):
    path = write_spec(tmp_path, model="my-own-model")
    found = statuses(run_doctor(path, start_server=False))
    assert (found["price a"], found["budget"]) == ("fail", "unknown")
    found = statuses(run_doctor(path, start_server=False, allow_unknown_price=True))
    assert found["price a"] == "warn"


@pytest.mark.parametrize(
    ("budget", "status", "words"),
    [
        ({}, "warn", "nothing caps"),
        ({"max_usd": 0.0001}, "warn", "may stop"),
        ({"max_usd": 1}, "pass", "$"),
    ],
)
def test_the_budget_is_held_against_the_worst_case(tmp_path, budget, status, words):
    check = by_name(run_doctor(write_spec(tmp_path, budget=budget), start_server=False))["budget"]
    assert check.status == status
    assert words in check.detail


def test_the_servers_tools_count_in_the_worst_case(tmp_path):
    path = write_spec(tmp_path)

    def worst(start):
        detail = by_name(run_doctor(path, start_server=start))["budget"].detail
        return float(detail.partition("$")[2].partition(" ")[0])

    assert worst(True) > worst(False)


def test_a_spec_that_is_wrong_fails_and_nothing_is_started(tmp_path):
    path = write_spec(tmp_path, repetitons=3)
    checks = run_doctor(path)
    assert statuses(checks)["spec"] == "fail"
    assert "did you mean 'repetitions'?" in by_name(checks)["spec"].detail
    assert "server" not in statuses(checks)


def test_without_starting_the_server_it_is_skipped(tmp_path):
    assert statuses(run_doctor(write_spec(tmp_path), start_server=False))["server"] == "skip"


def test_a_server_that_fails_and_a_build_that_is_another_fail():
    refused = MCPServerSpec(command=(sys.executable, PLAIN, "refuse"))
    (check,) = check_server(refused, timeout=20)
    assert (check.name, check.status) == ("server", "fail")
    assert "refused: no licence" in check.detail
    good = MCPServerSpec(command=(sys.executable, PLAIN))
    server, build = check_server(good, Verify(server_version="9.9"), timeout=20)
    assert (server.status, build.status) == ("pass", "fail")
    assert build.detail == "server_version is '0.1', expected '9.9'"


def test_a_task_of_which_nothing_is_expected_warns(tmp_path):
    path = write_spec(tmp_path, tasks=[{"id": "t", "prompt": "Do it."}])
    check = by_name(run_doctor(path, start_server=False))["tasks"]
    assert (check.status, "t: their outcome will be unknown" in check.detail) == ("warn", True)


def test_a_contract_is_counted_with_its_combinations(tmp_path):
    path = tmp_path / "contract.json"
    options = [[{"tool": "a"}], [{"tool": "b"}]]
    contract = {
        "contract_version": 2,
        "required": [{"tool": "x"}, {"alternatives": options}, {"alternatives": [*options, []]}],
        "optional": [{"tool": "y"}],
        "forbidden": [{"tool": "z"}],
    }
    path.write_text(json.dumps(contract))
    check = by_name(run_doctor(contract_path=path))["contract"]
    # Two options times three.
    assert check.detail.endswith("3 required, 1 optional, 1 forbidden; 6 combination(s)")
    path.write_text('[{"tool": "a"}]')
    assert by_name(run_doctor(contract_path=path))["contract"].detail.endswith(
        "a gold list of 1 call(s)"
    )
    path.write_text('{"contract_version": 2, "requird": []}')
    check = by_name(run_doctor(contract_path=path))["contract"]
    assert (check.status, "'required'" in check.detail) == ("fail", True)


def test_the_report_counts_every_status_and_names_the_worst():
    checks = [
        DoctorCheck("a", "pass", ""),
        DoctorCheck("b", "warn", ""),
        DoctorCheck("c", "skip", ""),
    ]
    report = doctor_report(checks)
    assert report["counts"] == {"pass": 1, "warn": 1, "fail": 0, "unknown": 0, "skip": 1}
    assert report["worst"] == "warn"


def test_a_server_given_on_the_command_line_is_started_and_listed(tmp_path, capsys):
    assert main(["doctor", "--server", f"{sys.executable} {PLAIN}"]) == 0
    assert "plain-server 0.1 started; 2 tool(s)" in capsys.readouterr().out


# --- projects -------------------------------------------------------------------------------------


def write_project(tmp_path):
    (tmp_path / "traces" / "main").mkdir(parents=True)
    for name in ("t1_1", "t1_2", "other_1"):
        call = {"tool": "act", "args": {}, "result": f"done {name}", "is_error": False}
        (tmp_path / "traces" / "main" / f"{name}.json").write_text(json.dumps([call]))
    (tmp_path / "contracts").mkdir()
    for name in ("t1", "t9"):
        contract = {"contract_version": 2, "required": [{"tool": "act"}]}
        (tmp_path / "contracts" / f"{name}.json").write_text(json.dumps(contract))
    (tmp_path / "toolscore.yaml").write_text(
        "warehouse: warehouse.duckdb\n"
        'sources: [{name: nightly, path: "traces/**/*.json", variant: "{parent}"}]\n'
        'contracts: [{path: "contracts/*.json"}]\n'
    )
    return tmp_path / "toolscore.yaml"


def test_a_project_that_was_not_built_has_unknown_bindings(tmp_path):
    checks = run_doctor(project=write_project(tmp_path))
    found = by_name(checks)
    assert found["source nightly"].detail == "3 file(s) at traces/**/*.json"
    assert found["contracts"].detail == "2 file(s), 2 binding(s)"
    assert (found["warehouse"].status, found["bindings"].status) == ("skip", "unknown")
    assert found["package dagster"].status == "pass"
    assert found["disk"].status in ("pass", "warn")


def test_a_built_project_names_contracts_without_runs_and_counts_runs_without_contracts(tmp_path):
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import load_project

    path = write_project(tmp_path)
    build(load_project(path))
    found = by_name(run_doctor(project=path))
    assert found["warehouse"].detail == "3 run(s)"
    assert (found["bindings"].status, found["bindings"].detail) == ("warn", "no run meets t9")
    assert found["graded runs"].detail == "1 run(s) have no contract"


def test_a_project_file_that_is_wrong_is_the_only_thing_said_of_the_project(tmp_path):
    (tmp_path / "toolscore.yaml").write_text("sorces: []\n")
    checks = run_doctor(project=tmp_path)
    assert checks[-1].name == "project"
    assert "did you mean 'sources'?" in checks[-1].detail


def test_a_source_without_files_warns(tmp_path):
    path = write_project(tmp_path)
    path.write_text("sources: [{name: none, path: nothing/*.json}]\n")
    assert by_name(run_doctor(project=path))["source none"].status in ("warn", "fail")
