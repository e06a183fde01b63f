"""``toolscore inspect``: what a trace holds, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

from toolscore_pipeline.cli import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples/traces"


def test_calls_results_answer_and_coverage_are_shown(capsys):
    assert main(["inspect", str(EXAMPLES / "openai_chat.json")]) == 0
    shown = capsys.readouterr().out
    assert "1 run, read as openai" in shown
    assert "search_orders" in shown
    assert "coverage: outcome of 4 of 4 calls, result of 4, duration of 0, cost of 0" in shown


def test_the_report_says_what_was_detected_and_keeps_unknown_null(capsys):
    assert main(["inspect", str(EXAMPLES / "openai_chat.json"), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["detected"][0]["format"] == "openai"
    assert report["detected"][0]["why"]
    [run] = report["runs"]
    assert run["cost_usd"] is None
    assert run["coverage"]["final_answer"] == "known"


def test_a_credential_is_not_printed(tmp_path, capsys):
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    path = tmp_path / "trace.json"
    call = {"tool": f"post_{key}\x1b[2J", "id": key, "args": {"key": key}, "result": [key]}
    path.write_text(json.dumps([call]), encoding="utf-8")
    for options in (["--json", "-"], []):
        assert main(["inspect", str(path), *options]) == 0
        shown = capsys.readouterr().out
        assert "REDACTED" in shown
        assert key not in shown
        assert "\x1b" not in shown


def test_records_that_cannot_be_read_are_told_of_and_the_others_are_shown(tmp_path, capsys):
    path = tmp_path / "runs.jsonl"
    good = json.dumps({"task": "t\x1b[2J", "calls": [{"tool": "search"}]})
    path.write_text(f'{good}\n{{"calls": [{{"tool"\n{good}\n"alone"\n', encoding="utf-8")
    assert main(["inspect", str(path), "--limit", "1"]) == 0
    shown = capsys.readouterr().out
    assert "2 runs, read as plain" in shown
    assert f"refused: {path}:2: not JSON: it ends early" in " ".join(shown.split())
    assert "1 more refused" in shown
    assert "task t\\x1b[2J" in shown
    assert main(["inspect", str(path), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [reject["line"] for reject in report["rejects"]] == [2, 4]
    path.write_text('"alone"\n{"calls": [\n', encoding="utf-8")
    assert main(["inspect", str(path)]) == 2


def test_a_file_that_is_no_trace_is_refused_in_a_sentence(tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text("not json", encoding="utf-8")
    assert main(["inspect", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}:")
    assert "Traceback" not in error
