"""Regrading from the command line: receipts, run rows and a warehouse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.project_helpers import CONTRACT, ask, make_project, rebuild, rows, write_rows
from toolscore_pipeline import receipts
from toolscore_pipeline.cli import main
from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.project import load_project
from toolscore_pipeline.regrades import receipts_of, regrade_rows, regrade_warehouse
from toolscore_pipeline.warehouse import Warehouse

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads(
    (ROOT / "toolscore_pipeline/schemas/regrade-v1.schema.json").read_text(encoding="utf-8")
)
SEARCH_ONLY = """\
contract_version: 2
required: [{tool: search, args: {q: {$regex: "^[a-z]+$"}}}]
optional: [{tool: look}, {tool: save}]
"""
STRICTER = """\
contract_version: 2
required: [{tool: search}, {tool: save}]
optional: [{tool: look}]
weights: {required_call_recall: 1.0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The seat example with a receipt, as the current folder."""
    for name in ("gold.json", "contract.json", "trace.json"):
        shutil.copy(ROOT / "examples/contracts" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert (
        main(["eval", "gold.json", "trace.json", "--receipt", "run.receipt.json", "--quiet"]) == 0
    )
    return tmp_path


def report_of(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    return report


def test_the_seat_example_goes_from_38_to_95_percent(folder, capsys):
    arguments = ["regrade", "run.receipt.json", "--gold", "contract.json", "--json", "r.json"]
    assert main([*arguments, "--receipt-dir", "receipts"]) == 0
    line = next(s for s in capsys.readouterr().out.splitlines() if "run.receipt.json" in s)
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "run.receipt.json",
        "38.3% F",
        "95.7% A",
        "+57.4%",
    ]
    [row] = report_of(folder / "r.json")["rows"]
    assert (row["before"]["outcome"], row["after"]["outcome"]) == ("fail", "pass")
    first = receipts.load_receipt(folder / "run.receipt.json")
    second = receipts.load_receipt(folder / "receipts/run.receipt.json")
    assert second["settings"]["regraded_from"] == first["receipt_sha256"]
    assert second["inputs"]["gold"]["path"] == "../contract.json"
    assert receipts.verify_receipt(second, folder / "receipts") == []


def test_a_new_receipt_takes_the_place_of_no_other(folder):
    for name in ("one", "two"):
        (folder / name).mkdir()
        shutil.copy("run.receipt.json", f"{name}/trace.receipt.json")
        for file in ("gold.json", "trace.json"):
            shutil.copy(file, name)
    before = Path("run.receipt.json").read_bytes()
    sources = ["run.receipt.json", "one/trace.receipt.json", "two/trace.receipt.json"]
    arguments = ["--gold", "contract.json", "--receipt-dir", ".", "--json", "r.json"]
    assert main(["regrade", *sources, *arguments]) == 0
    assert Path("run.receipt.json").read_bytes() == before
    written = [row["receipt"] for row in report_of(folder / "r.json")["rows"]]
    assert written == ["run-2.receipt.json", "trace.receipt.json", "trace-2.receipt.json"]
    for path in written:
        assert receipts.verify_receipt(receipts.load_receipt(path), folder) == []


def test_a_refused_receipt_stops_no_other_and_exits_with_2(folder, capsys):
    shutil.copy("run.receipt.json", "other.receipt.json")
    broken = json.loads(Path("run.receipt.json").read_text(encoding="utf-8"))
    broken["inputs"]["gold"]["sha256"] = "0" * 64
    Path("run.receipt.json").write_text(json.dumps(broken), encoding="utf-8")
    code = main(["regrade", "run.receipt.json", "other.receipt.json", "--json", "r.json"])
    assert code == 2
    assert [row["source"] for row in report_of(folder / "r.json")["rows"]] == ["other.receipt.json"]
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in told] == ["error", "error"]
    assert "the receipt was changed" in told[0]
    assert "gold: gold.json changed" in told[1]
    assert main(["regrade", "run.receipt.json", "--no-verify", "--quiet"]) == 0
    assert capsys.readouterr().err.count("warning: run.receipt.json: ") == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["regrade"], "name a receipt"),
        (["regrade", "trace.json"], "needs a gold file"),
        (["regrade", "none.json"], "none.json: there is no such file"),
        (["regrade", "trace.json", "--spec", "x.yaml"], "--spec judges run rows"),
        (["regrade", "trace.json", "-o", "x.jsonl"], "--output takes the rows"),
        (["regrade", "trace.json", "--dry-run"], "go with --warehouse"),
        (["regrade", "--warehouse", "--gold", "gold.json"], "by the project's own contracts"),
        (["regrade", "run.receipt.json", "--weight", "recall=1"], "unknown weight"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, capsys, arguments, reason):
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


# --- run rows -------------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Run rows of two tasks, as a harness writes them."""
    made = [{"run_record_version": "1", **row} for row in rows(12)]
    write_rows(tmp_path / "runs.jsonl", made)
    (tmp_path / "search.yaml").write_text(SEARCH_ONLY, encoding="utf-8")
    return tmp_path


def test_run_rows_have_no_receipts(study, capsys):
    sources = ["regrade", str(study / "runs.jsonl"), "--gold", str(study / "search.yaml")]
    assert main([*sources, "--receipt-dir", str(study / "receipts")]) == 2
    assert "--receipt-dir goes with receipts and traces" in capsys.readouterr().err


def test_rows_keep_what_was_recorded_and_name_the_row_they_came_from(study):
    regraded = regrade_rows(study / "runs.jsonl", gold=study / "search.yaml")
    assert len(regraded) == 12
    for row in regraded:
        kept = {name: value for name, value in row.after.items() if name in row.before}
        assert kept == row.before
        assert row.after["regraded"]["from_sha256"] == json_sha256(row.before)
        assert (row.after["outcome"], row.after["passed"]) == ("pass", True)
    written = study / "new.jsonl"
    assert main(
        ["regrade", str(study / "runs.jsonl"), "--gold", str(study / "search.yaml"),
         "-o", str(written), "--quiet"]
    ) == 0  # fmt: skip
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    assert lines == [row.after for row in regraded]


def test_rows_are_judged_by_the_task_of_their_id_and_a_second_time_from_the_first(study, capsys):
    spec = {
        "spec_version": 1,
        "name": "again",
        "server": {"command": "true"},
        "arms": [{"id": "a", "provider": "scripted", "model": "m"}],
        "tasks": [
            {"id": "one", "prompt": "p", "expected": [{"tool": "search"}], "script": []},
            {"id": "two", "prompt": "p", "expected": [{"tool": "burn"}], "script": []},
        ],
    }
    (study / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    first = regrade_rows(study / "runs.jsonl", spec=study / "spec.json")
    outcomes = {row.after["task_id"]: row.after["outcome"] for row in first}
    assert outcomes["two"] == "fail"
    arguments = ["regrade", str(study / "runs.jsonl"), "--spec", str(study / "spec.json")]
    assert main([*arguments, "-o", str(study / "a.jsonl"), "--quiet"]) == 0
    again = regrade_rows(study / "a.jsonl", spec=study / "spec.json")
    assert [row.score_delta for row in again] == [0.0] * 12
    del spec["tasks"][1]  # type: ignore[attr-defined]
    (study / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    assert main(arguments) == 2
    assert "runs.jsonl:2: unknown task 'two'" in capsys.readouterr().err


def test_a_rounding_error_of_other_weights_is_no_other_result(study, capsys):
    source, gold = str(study / "runs.jsonl"), ["--gold", str(study / "search.yaml")]
    first = str(study / "first.jsonl")
    assert main(["regrade", source, *gold, "-o", first, "--weight", "argument_f1=0.7"]) == 0
    capsys.readouterr()
    other = ["--weight", "argument_f1=0.1"]
    regraded = regrade_rows(first, gold=gold[1], weights={"argument_f1": 0.1})
    changes = [abs(row.score_delta or 0.0) for row in regraded]
    # The runs met everything: only the rounding of the weights' sum tells the two apart.
    assert 0 < max(changes) < 1e-9
    assert main(["regrade", first, *gold, *other]) == 0
    assert "12 runs, 0 come out otherwise" in capsys.readouterr().out


def test_a_torn_row_is_refused_with_its_line_and_nothing_is_written(study, capsys):
    with (study / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"run_record_version": "1", "calls": [')
    target = study / "new.jsonl"
    arguments = ["regrade", str(study / "runs.jsonl"), "--gold", str(study / "search.yaml")]
    assert main([*arguments, "-o", str(target)]) == 2
    assert "runs.jsonl:13: " in capsys.readouterr().err
    assert not target.exists()


# --- a warehouse ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("built") / "p", 40)
    rebuild(folder)
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A built project of its own for each test."""
    return Path(shutil.copytree(built, tmp_path / "p"))


def test_nothing_is_regraded_when_nothing_changed(project):
    report = regrade_warehouse(load_project(project / "toolscore.yaml"))
    assert (report.pairs_rescored, report.changes) == (0, [])
    assert report.summary() == "nothing to re-score: 40 runs are graded by what applies now"
    assert ask(project, "select count(*) from marts.flips") == [(0,)]


def test_a_changed_contract_regrades_its_runs_and_lists_what_came_out_otherwise(project):
    opened = load_project(project / "toolscore.yaml")
    before = dict(ask(project, "select run_id, score from marts.latest_grades where task = 'one'"))
    (project / "contracts/one.yaml").write_text(STRICTER, encoding="utf-8")
    stored = Warehouse(opened.warehouse).published.read_bytes()
    told = regrade_warehouse(opened, dry_run=True)
    assert Warehouse(opened.warehouse).published.read_bytes() == stored
    done = regrade_warehouse(opened)
    assert told.changes == done.changes
    assert (told.pairs_rescored, done.pairs_rescored, done.judgments_added) == (20, 20, 1)
    after = dict(ask(project, "select run_id, score from marts.latest_grades where task = 'one'"))
    moved = {run_id for run_id in before if abs(before[run_id] - after[run_id]) > 1e-9}
    assert {row["run_id"] for row in done.changes} == moved
    assert moved
    # A run without the save had 0.4 + 0.3 + 0.2 * 0.5 + 0.1 = 0.9; now it has (0.9 + 0.5) / 2.
    for row in done.changes:
        assert (row["before_outcome"], row["after_outcome"], row["is_flip"]) == (
            "pass",
            "fail",
            True,
        )
        assert row["after_score"] == pytest.approx(0.7, abs=1e-12)
        assert row["cause"] == "judgment"
        assert row["moved_settings"] == ["required", "weights"]
    assert done.flip_count == len(done.changes)
    # Changing it back is one more edition, and its grades are there already.
    (project / "contracts/one.yaml").write_text(CONTRACT, encoding="utf-8")
    back = regrade_warehouse(opened)
    assert (back.pairs_rescored, len(back.changes)) == (0, len(done.changes))
    assert ask(project, "select edition, count(*) from marts.flips group by all order by all") == [
        (2, len(done.changes)),
        (3, len(done.changes)),
    ]


def test_runs_whose_contract_is_gone_are_told_of_and_are_no_flips(project):
    opened = load_project(project / "toolscore.yaml")
    (project / "contracts/one.yaml").unlink()
    expected = (
        "nothing to re-score: 20 runs are graded by what applies now;"
        " no contract applies to 20 runs"
    )
    for is_dry_run in (True, False):
        report = regrade_warehouse(opened, dry_run=is_dry_run)
        assert (report.summary(), report.changes) == (expected, [])
    assert ask(project, "select count(*) from marts.latest_grades") == [(20,)]


def test_other_formulas_regrade_every_run_and_keep_the_old_grades(project, monkeypatch):
    monkeypatch.setattr("toolscore_pipeline.warehouse.grader_version", lambda: "another")
    report = regrade_warehouse(load_project(project / "toolscore.yaml"))
    assert (report.pairs_rescored, report.changes) == (40, [])
    assert ask(project, "select count(*) from grades.grades") == [(80,)]


def test_runs_that_came_after_a_change_are_no_flips(project):
    (project / "contracts/one.yaml").write_text(STRICTER, encoding="utf-8")
    write_rows(project / "runs/second.jsonl", rows(20, seed=9, start=1000))
    rebuild(project)
    [(new,)] = ask(
        project,
        "select count(*) from marts.flips semi join"
        " (from evidence.runs where path like '%second%') using (run_id)",
    )
    assert new == 0


def test_a_stored_grade_has_the_receipt_that_an_evaluation_of_its_run_has(project):
    opened = load_project(project / "toolscore.yaml")
    with Warehouse(opened.warehouse).read() as store:
        ids = [i for (i,) in store.execute("select grade_id from receipts.receipts").fetchall()]
        made = list(receipts_of(store, opened, ids))
    assert len(made) == 40
    for result, receipt in made[:4]:
        path = project / "receipts" / f"{result.run_id[:8]}.json"
        receipts.write_receipt(path, receipt, base=project)
        regraded = receipts.regrade(path)
        assert regraded.receipt["result"] == receipt["result"]
        assert receipt["result"]["record_sha256"] == json_sha256(regraded.result.to_dict())


def test_the_command_writes_a_receipt_for_every_change(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    (project / "contracts/one.yaml").write_text(STRICTER, encoding="utf-8")
    assert main(["regrade", "--warehouse", "--dry-run", "--json", "dry.json"]) == 0
    assert "would re-score 20 pairs of 40 runs" in capsys.readouterr().out
    assert main(["regrade", "--warehouse", "--receipt-dir", "out", "--json", "r.json"]) == 0
    report = report_of(project / "r.json")
    assert report["rows"] == report_of(project / "dry.json")["rows"]
    written = sorted((project / "out").glob("*.receipt.json"))
    assert len(written) == report["flips"] > 0
    for path in written:
        assert receipts.verify_receipt(receipts.load_receipt(path), path.parent) == []
