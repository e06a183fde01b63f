"""Run records in the real Agent Eval Flow, with the network off."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.export_cases import SECRET, read_lines, row, rows, write_project, write_rows
from toolscore_pipeline.export import (
    Bundle,
    Evidence,
    export_records,
    record_from_run,
    write_export,
)
from toolscore_pipeline.export.records import encode_record, plain, redact_record
from toolscore_pipeline.hashing import file_sha256, json_sha256

aef = pytest.importorskip(
    "agent_eval_flow", reason="Agent Eval Flow is not installed: pip install '.[aef]'"
)

from toolscore_pipeline.aef import (  # noqa: E402 - it needs the package
    BOUNDARY,
    RunRecordImporter,
    read_manifest,
    study_from_export,
    write_report,
)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def network_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection is a failure."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def bundle(folder: Path, found: list[dict[str, Any]] | None = None, **facts: Any) -> Path:
    """An export of the small study with its source kept; returns the records' file."""
    folder.mkdir(parents=True, exist_ok=True)
    source = write_rows(folder / "source.jsonl", found)
    made, kept = export_records([source]), folder / "bundle"
    path, _ = write_export(kept / "records.jsonl", made, [source], bundle=Bundle(kept), **facts)
    return path


def imported(path: Path, plan: Any = None) -> Any:
    plan = plan or study_from_export(path).plan()
    return aef.RunSet.import_from(path, plan=plan, importer=RunRecordImporter())


def by_record(runs: Any) -> dict[str, Any]:
    return {run.id: run for run in runs.runs if run.status != "unobserved"}


def trace_of(run: Any) -> Any:
    from agent_eval_flow.objects.tool_trace import trace_for_run

    return trace_for_run(run, BOUNDARY)


def kept_value(evidence: Evidence, manifest: dict[str, Any], ref: Any) -> Any:
    """What an evidence reference opens: the kept source, or the records' file."""
    for entry in manifest["artifacts"]:
        if entry["file_sha256"] == ref.artifact.sha256:
            return evidence.open(entry["sha256"], ref.locator)
    raise AssertionError("the evidence is none that was kept")


def test_run_for_run_and_call_for_call_nothing_is_lost(tmp_path: Path) -> None:
    path = bundle(tmp_path)
    records = {record["record_id"]: record for record in read_lines(path)}
    runs = by_record(imported(path))
    assert runs.keys() == records.keys()
    manifest = read_manifest(path)
    evidence = Evidence(path.parent, manifest)
    for record_id, record in records.items():
        run = runs[record_id]
        assert run.status == record["status"]
        assert run.output == record["final_answer"]["value"]
        assert run.output_state == "available"
        assert run.started_at.isoformat() == record["started_at"]
        cost = run.resources().cost_usd
        if record["cost"]["value"] is None:
            assert (cost.status, cost.value) == ("unknown", None)
        else:
            assert cost.value == Decimal(record["cost"]["value"])
        assert run.resources().input_tokens.value == record["usage"]["input_tokens"]["value"]
        assert run.native_refs["record_sha256"] == record["hashes"]["record_sha256"]
        trace = trace_of(run)
        assert [call.call_id for call in trace.calls] == [
            call["call_id"] for call in record["requested_calls"]
        ]
        for call, requested, completed in zip(
            trace.calls, record["requested_calls"], record["completed_calls"], strict=True
        ):
            assert (call.tool, dict(call.arguments)) == (requested["tool"], requested["arguments"])
            opened = kept_value(evidence, manifest, call.evidence[0])
            assert (opened["tool"], opened["args"]) == (requested["tool"], requested["arguments"])
            expected = {"completed": "completed", "denied": "error", "unknown": "unknown"}
            assert call.completion == expected[completed["status"]]
            if completed["status"] == "completed":
                assert call.result == completed["result"]
                opened = kept_value(evidence, manifest, call.result_evidence[0])
                assert opened["result"] == completed["result"]
            if completed["status"] == "unknown":
                assert call.result is None
                assert call.result_evidence == ()


def test_a_planned_run_without_a_record_is_unobserved(tmp_path: Path) -> None:
    # 2 variants x 2 tasks x 2 repetitions = 8 planned; sloppy has one repetition of each: 6 runs.
    runs = imported(bundle(tmp_path))
    assert len(runs.runs) == 8
    coverage = runs.coverage()
    assert (coverage.planned, coverage.completed, coverage.unavailable) == (8, 6, 2)


def test_runs_without_a_variant_are_told_from_one_that_is_called_unnamed(tmp_path: Path) -> None:
    names = [None, "unnamed", "unnamed-2"]
    found = [row("t", str(name), 1) | {"arm_id": name} for name in names]
    for made, task in zip(found, [None, "unnamed", "t"], strict=True):
        made["task_id"] = task
    path = bundle(tmp_path, found)
    plan = study_from_export(path).plan()
    runs = by_record(imported(path, plan))
    assigned = {item.id: (item.candidate_id, item.unit["task_id"]) for item in plan.assignments}
    for record in read_lines(path):
        expected = (record["variant"] or "unnamed-3", record["task_id"] or "unnamed-2")
        assert assigned[runs[record["record_id"]].assignment_id] == expected


def test_grades_come_along_and_unknowns_stay_missing(tmp_path: Path) -> None:
    path = bundle(tmp_path)
    study = study_from_export(path)
    result = aef.EvaluationPipeline(study=study, evaluators={}).eval(runs=imported(path))
    rows_of = {(m.run_id, m.metric): m for m in result.measurements}
    for record in read_lines(path):
        outcome = rows_of[record["record_id"], "toolscore.outcome"]
        assert outcome.value == record["outcome"]
        score = rows_of[record["record_id"], "toolscore.score"]
        assert (score.status, score.value) == ("missing", None)  # nothing was graded
        failed = rows_of[record["record_id"], "toolscore.failed_calls"]
        # A run of the task clean has a call without an outcome: how many failed is not known.
        known = record["task_id"] == "save"
        assert (failed.status, failed.value) == (("ok", 0) if known else ("missing", None))
    decisions = [score.acceptance for score in result.task_scores]
    # careful passes 4 runs, sloppy fails 2, two were not observed.
    assert sorted(decisions) == ["fail"] * 2 + ["pass"] * 4 + ["unknown"] * 2


def test_the_study_is_the_manifests(tmp_path: Path) -> None:
    path = bundle(tmp_path, baseline="careful", candidate="sloppy", wall_time_seconds=60)
    study = study_from_export(path)
    assert study.execution.budget.wall_time_s == 60.0
    assert study.execution.cost_scope == ("model",)
    assert set(study.candidates) == {"careful", "sloppy"}
    assert study.candidates["careful"].components["tool"].ref.revision == "1.2"
    assert [dict(row)["task_id"] for row in study.dataset.units.rows] == ["clean", "save"]
    assert dict(study.dataset.units.rows[1])["inputs"] == {"prompt": "Please save."}
    assert (study.contrasts[0].baseline, study.contrasts[0].challenger) == ("careful", "sloppy")
    assert study.fingerprint() == study_from_export(read_manifest(path)).fingerprint()


def test_expected_calls_become_references(tmp_path: Path) -> None:
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    project = write_project(tmp_path / "notes-project")
    build(open_project(project), threads=1)
    path = project / "out" / "records.jsonl"
    study = study_from_export(path)
    (row_of_save,) = study.dataset.references["tool_expectations"].rows
    assert row_of_save["task_id"] == "save"
    (call,) = row_of_save["contract"]["calls"]
    assert (call["tool"], dict(call["args"])) == ("save_note", {"title": "groceries"})
    result = aef.EvaluationPipeline(study=study, evaluators={}).eval(runs=imported(path))
    scores = {
        m.run_id: m.value for m in result.measurements if m.metric == "toolscore.score" and m.value
    }
    graded = {r["record_id"]: r["evaluation"]["score"] for r in read_lines(path) if r["evaluation"]}
    assert scores == graded
    assert len(graded) == 3


def test_without_a_kept_source_evidence_is_the_record_itself(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "source.jsonl")
    path, _ = write_export(tmp_path / "r.jsonl", export_records([source]), [source])
    lines = path.read_text(encoding="utf-8").splitlines()
    for run in by_record(imported(path)).values():
        for index, call in enumerate(trace_of(run).calls):
            (ref,) = call.evidence
            assert ref.artifact.sha256 == file_sha256(path)[0]
            _, number, where = ref.locator.split(" ")
            assert where == f"$.requested_calls[{index}]"
            assert json.loads(lines[int(number) - 1])["record_id"] == run.id


def test_the_projection_names_what_has_no_slot(tmp_path: Path) -> None:
    (projection,) = imported(bundle(tmp_path)).projections
    assert "completed_calls[].duration_seconds" in projection.omitted_fields
    denied = [issue for issue in projection.issues if "denied" in issue.message]
    assert len(denied) == 3  # one in each run of the task clean


def test_reports_list_every_run_and_their_folder_can_be_moved(tmp_path: Path) -> None:
    import re

    path = bundle(tmp_path)
    report = write_report(path, tmp_path / "out")
    assert (report["planned"], report["completed"], report["accepted"]) == (8, 6, 4)
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "out" / "report", moved)
    shutil.rmtree(path.parent)  # the links must not lead back to the export
    html = (moved / "report.html").read_text(encoding="utf-8")
    tools = (moved / "tools.html").read_text(encoding="utf-8")
    for record in export_records([tmp_path / "source.jsonl"]):
        assert record["record_id"] in html
        assert record["record_id"] in tools
    links = {link.split("#")[0] for link in re.findall(r'href="([^"]*)"', html + tools)} - {""}
    assert any(link.startswith("evidence/") for link in links)
    assert [link for link in links if not (moved / link).is_file()] == []


def test_saved_manifests_conform_to_agent_eval_flows_own_schemas(tmp_path: Path) -> None:
    from agent_eval_flow.storage.codec import json_schema

    path = bundle(tmp_path)
    write_report(path, tmp_path / "out")
    for kind, folder in (("study", "study"), ("evaluation_result", "result")):
        document = json.loads((tmp_path / "out" / folder / "manifest.json").read_text("utf-8"))
        jsonschema.validate(document, json_schema(kind))
    loaded = aef.EvaluationResult.load(tmp_path / "out" / "result")
    assert len(loaded.runs.runs) == 8


# --- what is refused, and what changes exactly the number it should ------------------------------


def rewrite(path: Path, records: list[dict[str, Any]], *, rehash: bool) -> Path:
    """Put other records in place; with `rehash` the record hashes and the manifest agree again."""
    lines = []
    for record in records:
        lines.append(encode_record(record) if rehash else json.dumps(record).encode())
    path.write_bytes(b"\n".join(lines) + b"\n")
    if rehash:
        resign(path, count=len(records))
    return path


def resign(path: Path, **changes: Any) -> None:
    """Make the manifest agree with the records' bytes, and with itself."""
    manifest = read_manifest(path)
    manifest["records"] |= {"sha256": file_sha256(path)[0], **changes}
    seal(path, manifest)


def seal(path: Path, manifest: dict[str, Any]) -> None:
    manifest.pop("manifest_sha256")
    manifest["manifest_sha256"] = json_sha256(manifest)
    path.with_name(f"{path.name}.manifest.json").write_text(json.dumps(manifest), "utf-8")


def change_record(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        records = read_lines(path)
        change(records[0])
        rewrite(path, records, rehash=True)

    return apply


def edit_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"groceries", b"shopping"))


def edit_without_rehash(path: Path) -> None:
    edit_bytes(path)
    resign(path)


def edit_source(path: Path) -> None:
    (kept,) = (path.parent / "artifacts").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"groceries", b"shopping"))


def remove_source(path: Path) -> None:
    (kept,) = (path.parent / "artifacts").iterdir()
    kept.unlink()


def remove_manifest(path: Path) -> None:
    path.with_name(f"{path.name}.manifest.json").unlink()


def duplicate_record(path: Path) -> None:
    records = read_lines(path)
    rewrite(path, [*records, records[0]], rehash=True)


def same_cell_twice(path: Path) -> None:
    records = read_lines(path)
    twin = json.loads(json.dumps(records[0]))
    twin["record_id"] = twin["run_id"] = "f" * 64
    rewrite(path, [*records, twin], rehash=True)


def drop_line(path: Path) -> None:
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[1:]) + b"\n")


def other_schema(path: Path) -> None:
    resign(path, schema_version="2")


def no_json(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'{"agent"', b'{"agent', 1))
    resign(path)


def drop_record(path: Path) -> None:
    """One record less, as if it had never been there, but for the count of the manifest."""
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[1:]) + b"\n")
    resign(path)


def edit_manifest(path: Path) -> None:
    beside = path.with_name(f"{path.name}.manifest.json")
    beside.write_bytes(beside.read_bytes().replace(b"Please save.", b"Please burn."))


def spoil_manifest(key: str, value: Any) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        beside = path.with_name(f"{path.name}.manifest.json")
        manifest = json.loads(beside.read_text("utf-8")) | {key: value}
        beside.write_text(json.dumps(manifest), "utf-8")

    return apply


def orphan(record: dict[str, Any]) -> None:
    record["completed_calls"][0]["call_id"] = "nobody"


def twice(record: dict[str, Any]) -> None:
    for name in ("requested_calls", "completed_calls"):
        record[name] = [*record[name], {**record[name][0], "index": 1}]
    record["coverage"] |= {"calls": 2, "with_outcome": 2}


def other_source(record: dict[str, Any]) -> None:
    record["source"]["sha256"] = record["hashes"]["source_sha256"] = "0" * 64


REFUSED = [
    ("edited bytes", edit_bytes, "the records were changed"),
    ("edited record", edit_without_rehash, "does not have the hash it is given"),
    ("edited source", edit_source, "the kept source was changed"),
    ("missing source", remove_source, "the kept source is gone"),
    ("missing manifest", remove_manifest, "no manifest"),
    ("missing line", drop_line, "the records were changed"),
    ("missing record", drop_record, "the manifest counts 6 records, the file holds 5"),
    ("edited manifest", edit_manifest, "the manifest was changed since it was written"),
    ("duplicate record", duplicate_record, "stands in line 1 already"),
    ("same run twice", same_cell_twice, "stands in line 1 already"),
    ("other schema", other_schema, "expected records of toolscore.run-record '1'"),
    ("other manifest", spoil_manifest("schema_version", "2"), "expected schema"),
    ("manifest without study", spoil_manifest("study", None), "$.study"),
    ("no JSON", no_json, "line 1"),
    ("orphan result", change_record(orphan), "nothing requested the call 'nobody'"),
    ("duplicate call id", change_record(twice), "stands there twice"),
    ("unknown variant", change_record(lambda r: r.update(variant="x")), "'x' is not in the plan"),
    ("unknown task", change_record(lambda r: r.update(task_id="x")), "'x' is not in the plan"),
    (
        "repetition outside",
        change_record(lambda r: r.update(repetition_index=7)),
        "repetition 7 is not in the plan",
    ),
    ("bad status", change_record(lambda r: r.update(status="done")), "$.status"),
    (
        "naive time",
        change_record(lambda r: r.update(started_at="2026-01-02T03:04:05")),
        "$.started_at",
    ),
    ("missing key", change_record(lambda r: r.pop("coverage")), "'coverage' is a required"),
    (
        "unknown source",
        change_record(other_source),
        "its source is none that the manifest names",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "sentence"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_was_tampered_with_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    path = bundle(tmp_path)
    plan = study_from_export(path).plan()
    spoil(path)
    with pytest.raises(aef.CaptureValidationError) as refusal:
        imported(path, plan)
    assert sentence in str(refusal.value)


def test_other_cost_categories_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    path = bundle(tmp_path)
    study = study_from_export(path)
    other = replace(study, execution=replace(study.execution, cost_scope=("model", "tools")))
    with pytest.raises(aef.CaptureValidationError, match="the plan counts model, tools"):
        imported(path, other.plan())


def measured(path: Path) -> dict[str, Any]:
    """Everything measured of an export, by task, variant and repetition."""
    study = study_from_export(path)
    runs = imported(path)
    result = aef.EvaluationPipeline(study=study, evaluators={}).eval(runs=runs)
    cells = {a.id: (a.unit["task_id"], a.candidate_id, a.repetition) for a in runs.plan.assignments}
    names = {run.id: cells[run.assignment_id] for run in runs.runs}
    return {
        f"{'/'.join(map(str, names[m.run_id]))}/{m.metric}": (m.status, m.value)
        for m in result.measurements
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_a_missing_run_changes_its_own_cells_only(tmp_path: Path) -> None:
    before = measured(bundle(tmp_path / "a"))
    after = measured(
        bundle(tmp_path / "b", [r for r in rows() if r["cell_id"] != "save::careful::2"])
    )
    assert {name.rsplit("/", 1)[0] for name in changed(before, after)} == {"save/careful/1"}
    assert after["save/careful/1/run.completed"] == ("missing", None)


def test_a_call_without_an_outcome_changes_the_count_of_failures_only(tmp_path: Path) -> None:
    found = rows()
    before = measured(bundle(tmp_path / "a", found))
    partial = json.loads(json.dumps(found))
    del partial[0]["calls"][0]["result"], partial[0]["calls"][0]["is_error"]
    after = measured(bundle(tmp_path / "b", partial))
    assert changed(before, after) == {"save/careful/0/toolscore.failed_calls"}
    assert after["save/careful/0/toolscore.failed_calls"] == ("missing", None)


def test_redacted_arguments_are_no_evidence(tmp_path: Path) -> None:
    found = [row("save", "careful", 1)]
    found[0]["calls"][0]["args"] = {"token": SECRET}
    source = write_rows(tmp_path / "source.jsonl", found)
    made = [plain(redact_record(record)) for record in export_records([source])]
    path, _ = write_export(tmp_path / "r.jsonl", made, [source])
    assert SECRET not in path.read_text("utf-8")
    runs = imported(path)
    (call,) = trace_of(runs.runs[0]).calls
    assert call.arguments is None
    assert "redacted" in runs.projections[0].issues[0].message


def test_a_trace_does_not_say_whether_its_costs_are_all(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"calls": [{"tool": "a", "args": {}, "result": "ok"}]}))
    path, _ = write_export(tmp_path / "r.jsonl", export_records([trace], variant="v"), [trace])
    (run,) = imported(path).runs
    assert run.execution_inventory_complete.status == "unknown"
    assert run.resources().input_tokens.status == "unknown"
    assert run.output_state == "unknown"


def test_lone_surrogates_do_not_break_the_saved_result(tmp_path: Path) -> None:
    found = [row("save", "careful", 1)]
    found[0]["calls"][0]["args"] = {"title": "odd \ud800"}
    source = write_rows(tmp_path / "source.jsonl", found)
    place = {"kind": "run_rows", "path": "source.jsonl", "sha256": file_sha256(source)[0]}
    made = record_from_run(found[0], place) | {"repetition_index": 0}
    path, _ = write_export(tmp_path / "r.jsonl", [made], [source])
    report = write_report(path, tmp_path / "out")
    assert report["runs"] == 1
    runs = aef.EvaluationResult.load(tmp_path / "out" / "result").runs
    (call,) = trace_of(runs.runs[0]).calls
    assert call.arguments["title"] == "odd ?"
    assert "lone surrogates" in runs.projections[0].issues[0].message


def test_a_time_that_runs_backwards_is_no_time(tmp_path: Path) -> None:
    path = bundle(tmp_path, [{**row("save", "careful", 1), "ended_at": "2020-01-01T00:00:00Z"}])
    runs = imported(path)
    (run,) = runs.runs
    assert (run.started_at, run.ended_at) == (None, None)
    assert run.executions[0].ended_at is None
    assert "before it began" in runs.projections[0].issues[0].message


# Agent Eval Flow's Toolscore evaluator wants a package that would get in the way of the reference
# library; its environment has it, and any connection fails there as it does here.
IN_ITS_OWN = """
import json, socket, sys
def refuse(*_, **__):
    raise AssertionError("a connection was attempted")
socket.socket.connect = socket.create_connection = refuse
from toolscore_pipeline.aef import write_report
print(json.dumps(write_report(sys.argv[1], sys.argv[2])))
"""


@pytest.fixture(scope="session")
def evaluator_python() -> Path:
    """The Python that has the evaluator's package (`make aef-oracle`); skips without it.

    The variable TOOLSCORE_AEF_PYTHON names another one.
    """
    own = ROOT / ".venv-aef-oracle/bin/python"
    python = Path(os.environ.get("TOOLSCORE_AEF_PYTHON", own))
    if not python.is_file():
        pytest.skip("the evaluator's package is not installed; run `make aef-oracle`")
    return python


def report_with_evaluator(python: Path, path: Path, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-c", IN_ITS_OWN, path, folder],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["toolscore"], "the evaluator took no part"
    return report


def test_the_toolscore_evaluator_scores_the_imported_calls(
    tmp_path: Path, evaluator_python: Path
) -> None:
    expected = {"contract": "save", "revision": "1", "calls": [
        {"tool": "save_note", "args": {"title": "groceries"}}]}  # fmt: skip
    path = bundle(tmp_path, expectations={"save": expected})
    report_with_evaluator(evaluator_python, path, tmp_path / "out")
    result = aef.EvaluationResult.load(tmp_path / "out" / "result")
    f1 = {
        m.run_id: (m.status, m.value)
        for m in result.measurements
        if m.metric == "tools.argument_f1"
    }
    for record in read_lines(path):
        if record["task_id"] == "clean":
            assert f1[record["record_id"]] == ("missing", None)  # no expected calls
        else:
            right = record["variant"] == "careful"
            assert f1[record["record_id"]] == ("ok", 1.0 if right else 0.0)


def tools_of(python: Path, path: Path, folder: Path) -> dict[str, tuple[str, Any]]:
    """What the Toolscore evaluator measured, by record and metric."""
    report_with_evaluator(python, path, folder)
    result = aef.EvaluationResult.load(folder / "result")
    records = {record["record_id"] for record in read_lines(path)}  # not those never observed
    return {
        f"{m.run_id} {m.metric}": (m.status, m.value)
        for m in result.measurements
        if m.metric.startswith("tools.") and m.run_id in records
    }


def partial(record: dict[str, Any]) -> None:
    for name in ("requests", "results"):
        record["coverage"][name] = {"complete": False, "basis": "the recorder dropped calls"}


def wrong_argument(record: dict[str, Any]) -> None:
    call = record["requested_calls"][0]
    call["arguments"] = {"title": "else"}
    call["arguments_sha256"] = json_sha256(call["arguments"])


@pytest.mark.parametrize(
    ("change", "metrics"),
    [
        # Without complete requests nothing of the run is scored: all eight are missing.
        (partial, {"argument_f1", "identical_rate", "invocation_accuracy", "redundant_rate",
                   "required_call_recall", "score", "selection_accuracy", "sequence_accuracy"}),
        # A wrong value moves what looks at values, and nothing else.
        (wrong_argument, {"argument_f1", "score"}),
    ],
)  # fmt: skip
def test_the_toolscore_evaluator_sees_exactly_what_was_changed(
    tmp_path: Path,
    evaluator_python: Path,
    change: Callable[[dict[str, Any]], Any],
    metrics: set[str],
) -> None:
    expected = {"contract": "save", "revision": "1", "calls": [
        {"tool": "save_note", "args": {"title": "groceries"}}]}  # fmt: skip
    path = bundle(tmp_path, expectations={"save": expected})
    before = tools_of(evaluator_python, path, tmp_path / "a")
    first = read_lines(path)[0]["record_id"]
    change_record(change)(path)
    after = tools_of(evaluator_python, path, tmp_path / "b")
    assert changed(before, after) == {f"{first} tools.{name}" for name in metrics}


# --- the shared runs -----------------------------------------------------------------------------

MEMORY = """
select
    run->>'scenario' as task,
    (run->>'model') || '/' || (run->>'server') as variant,
    (run->>'rep')::integer as repetition,
    run->>'model' as model,
    run->>'server' as server,
    run->>'final_text' as final_answer,
    run->>'error' as error,
    (run->>'cost_usd')::double as cost_usd,
    (run->>'seconds')::double as duration_seconds,
    (run->>'input_tokens')::bigint as input_tokens,
    (run->>'output_tokens')::bigint as output_tokens,
    run->'calls' as calls
from (
    select unnest(runs) as run
    from read_json('memory.json', maximum_object_size = 100000000, columns = {runs: 'json[]'})
)
"""


@pytest.mark.slow
def test_the_recorded_memory_runs_come_through_whole(shared: Path, tmp_path: Path) -> None:
    from toolscore_pipeline.cli import main
    from toolscore_pipeline.pipeline import build
    from toolscore_pipeline.project import open_project

    data = shared / "data" / "mcp-memory-runs.json"
    shutil.copyfile(data, tmp_path / "memory.json")
    (tmp_path / "memory.sql").write_text(MEMORY)
    (tmp_path / "toolscore.yaml").write_text("sources: [{name: memory, query: memory.sql}]\n")
    build(open_project(tmp_path))
    folder = tmp_path / "bundle"
    assert main(["export", "--project", str(tmp_path), "--bundle", str(folder), "--quiet"]) == 0
    path = folder / "records.jsonl"
    recorded = json.loads(data.read_text("utf-8"))["runs"]
    runs = imported(path)
    imported_runs = by_record(runs)
    assert len(imported_runs) == len(recorded)
    cells = {a.id: (a.candidate_id, a.unit["task_id"], a.repetition) for a in runs.plan.assignments}
    found = {cells[run.assignment_id]: run for run in imported_runs.values()}
    manifest = read_manifest(path)
    evidence = Evidence(folder, manifest)
    for item in recorded:
        run = found[f"{item['model']}/{item['server']}", item["scenario"], item["rep"]]
        assert run.output == item["final_text"]
        assert run.resources().cost_usd.value == Decimal(repr(item["cost_usd"]))
        assert run.resources().input_tokens.value == item["input_tokens"]
        calls = trace_of(run).calls
        assert len(calls) == len(item["calls"])
        for call, original in zip(calls, item["calls"], strict=True):
            name = original.get("tool") or original.get("name")
            assert call.tool == name
            assert kept_value(evidence, manifest, call.evidence[0])["tool"] == name


def test_the_offline_study_comes_through_whole(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the Model Context Protocol package is not installed")
    from toolscore_pipeline.agent import load_agent_spec, run_study

    spec = Path(__file__).parents[1] / "examples" / "agent_harness" / "offline.yaml"
    source = tmp_path / "runs.jsonl"
    run_study(load_agent_spec(spec), output=source)
    found = read_lines(source)
    kept = tmp_path / "bundle"
    path, _ = write_export(
        kept / "records.jsonl", export_records([source]), [source], bundle=Bundle(kept)
    )
    runs = imported(path)
    cells = {a.id: (a.unit["task_id"], a.candidate_id, a.repetition) for a in runs.plan.assignments}
    by_cell = {cells[run.assignment_id]: run for run in runs.runs}
    assert len(by_cell) == len(found) == 12
    manifest = read_manifest(path)
    evidence = Evidence(kept, manifest)
    for item in found:
        run = by_cell[item["task_id"], item["arm_id"], item["repetition"] - 1]
        assert run.output == item["final_answer"]
        assert run.resources().cost_usd.value == 0  # a scripted model is free
        assert run.started_at.isoformat() == item["started_at"]
        calls = trace_of(run).calls
        assert [call.call_id for call in calls] == [call["id"] for call in item["calls"]]
        for call, original in zip(calls, item["calls"], strict=True):
            assert call.arguments == original["args"]
            assert call.completion == ("error" if original["denied"] else "completed")
            opened = kept_value(evidence, manifest, call.evidence[0])
            assert opened["id"] == original["id"]
    study = study_from_export(path)
    result = aef.EvaluationPipeline(study=study, evaluators={}).eval(runs=runs)
    outcomes = {m.run_id: m.value for m in result.measurements if m.metric == "toolscore.outcome"}
    assert sorted(outcomes.values()) == ["fail"] * 6 + ["pass"] * 6
