"""Studies of a project: the project file, leave to pay, Dagster's assets, the doctor."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent_helpers import FakeSDK, openai_response
from tests.project_helpers import ask
from toolscore_pipeline.agent import OpenAIResponsesProvider, load_agent_spec
from toolscore_pipeline.doctor import run_doctor
from toolscore_pipeline.errors import ContractError, SettingsError, UsageError
from toolscore_pipeline.project import Project, Study, load_project
from toolscore_pipeline.studies import (
    feeding_studies,
    find_study,
    missing_cells,
    reading_sources,
    run_project_study,
    why_refused,
)

ROOT = Path(__file__).resolve().parent.parent
OFFLINE = ROOT / "examples/agent_harness/offline.yaml"
PLAIN = str(Path(__file__).with_name("agent_servers") / "plain_server.py")

PROJECT = """\
sources: [{name: studies, path: "runs/*.jsonl"}]
contracts: ["contracts/*.yaml"]
studies: [{name: notes, spec: offline.yaml, output: runs/notes.jsonl}]
"""
# What the spec expects of its tasks, as contracts of the project.
CONTRACTS = {
    "save-a-note": {
        "required": [
            {"tool": "save_note", "args": {"title": "groceries", "body": {"$regex": "eggs.*milk"}}}
        ],
        "min_score": 0.9,
    },
    "clean-up": {
        "required": [{"tool": "list_notes"}, {"tool": "delete_note", "args": {"title": "old"}}],
        "min_score": 0.9,
    },
}


def make_offline(folder: Path) -> Path:
    """A project with the offline example as its study."""
    (folder / "contracts").mkdir(parents=True)
    for task, contract in CONTRACTS.items():
        text = yaml.safe_dump({"contract_version": 2, **contract})
        (folder / f"contracts/{task}.yaml").write_text(text, encoding="utf-8")
    shutil.copy(OFFLINE, folder / "offline.yaml")
    (folder / "toolscore.yaml").write_text(PROJECT, encoding="utf-8")
    return folder


def write_spec(folder: Path, **changes: Any) -> Path:
    """A spec of two runs of a paid model on a plain server."""
    spec = {
        "spec_version": 1,
        "name": "plain",
        "server": {"command": [sys.executable, PLAIN, "good"], "timeout": 10},
        "provider": "openai",
        "arms": [{"id": "luna", "model": "gpt-6-luna"}],
        "pricing": {"input_per_million": 10, "output_per_million": 100},
        "max_output_tokens": 100,
        "repetitions": 2,
        "budget": {"max_usd": 1.0},
        "tasks": [{"id": "t", "prompt": "Do it.", "expected": []}],
        **changes,
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return path


def paid_study(folder: Path, *, allow_paid: bool = False, **changes: Any) -> Study:
    return Study("paid", write_spec(folder, **changes), folder / "runs/paid.jsonl", allow_paid)


def fake_provider(*_: Any) -> OpenAIResponsesProvider:
    """Answers with a text at once, for 100 tokens of input and 20 of output."""
    return OpenAIResponsesProvider(FakeSDK([openai_response(("text", "Ok."))]), "gpt-6-luna")


# --- the project file -----------------------------------------------------------------------------


def load(folder: Path, text: str) -> Project:
    (folder / "toolscore.yaml").write_text(text, encoding="utf-8")
    return load_project(folder / "toolscore.yaml")


def test_a_study_is_read_with_its_paths_from_the_projects_folder(tmp_path):
    (tmp_path / "s.yaml").touch()
    project = load(
        tmp_path,
        "studies:\n"
        "  - {name: a, spec: s.yaml, output: runs/a.jsonl}\n"
        "  - {name: b, spec: s.yaml, output: b.jsonl, allow_paid: true, concurrency: 3}\n",
    )
    assert project.studies == [
        Study("a", tmp_path / "s.yaml", tmp_path / "runs/a.jsonl", False, 1),
        Study("b", tmp_path / "s.yaml", tmp_path / "b.jsonl", True, 3),
    ]
    assert find_study(project, "b") is project.studies[1]
    with pytest.raises(UsageError, match="unknown study 'aa'; did you mean 'a'"):
        find_study(project, "aa")


GOOD = "{name: a, spec: s.yaml, output: a.jsonl}"


@pytest.mark.parametrize(
    ("study", "place", "reason"),
    [
        ("{name: a, spec: s.yaml, outptu: a.jsonl}", ".outptu", "did you mean 'output'?"),
        ("{name: a, spec: s.yaml}", "", "no output here"),
        ("{spec: s.yaml, output: a.jsonl}", "", "no name here"),
        ("{name: a, spec: t.yaml, output: a.jsonl}", ".spec", "did you mean 's.yaml'?"),
        ("{name: a, spec: none/s.yaml, output: a.jsonl}", ".spec", "none/s.yaml does not exist"),
        ("{name: a, spec: s.yaml, output: runs}", ".output", "expected a file named *.jsonl"),
        ("{name: a/b, spec: s.yaml, output: a.jsonl}", ".name", "got 'a/b'"),
        ("{name: a, spec: s.yaml, output: a.jsonl, allow_paid: 1}", ".allow_paid", "true or false"),
        ("{name: a, spec: s.yaml, output: a.jsonl, concurrency: 0}", ".concurrency", "from 1"),
        ("nothing", "", "expected a mapping with name, spec, output"),
        ("null", "", "a study needs a name"),
    ],
)
def test_what_is_wrong_with_a_study_is_said_with_its_line_and_place(tmp_path, study, place, reason):
    (tmp_path / "s.yaml").touch()
    with pytest.raises(ContractError) as caught:
        load(tmp_path, f"sources: []\nstudies:\n  - {study}\n")
    found = caught.value.problems[0]
    assert (found.json_path, found.line) == (f"$.studies[0]{place}", 3)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("second", "place", "reason"),
    [
        ("{name: a, spec: s.yaml, output: b.jsonl}", ".name", "two studies are named 'a'"),
        ("{name: b, spec: s.yaml, output: ./a.jsonl}", ".output", "the study 'a' writes this file"),
    ],
)
def test_two_studies_share_neither_name_nor_file(tmp_path, second, place, reason):
    (tmp_path / "s.yaml").touch()
    with pytest.raises(ContractError) as caught:
        load(tmp_path, f"studies:\n  - {GOOD}\n  - {second}\n")
    [found] = caught.value.problems
    assert (found.json_path, found.line) == (f"$.studies[1]{place}", 3)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("runs/new/a.jsonl", True),
        ("runs/*.jsonl", False),
        ("runs/*/*.jsonl", True),
        ("runs/**/*.jsonl", True),
        ("**/a.*", True),
        ("./runs/../runs/new/?.jsonl", True),
        ("runs", True),
        ("runs/n", False),
        ("runs/*/*.json", False),
        ("**/.*", False),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_source_is_known_to_read_a_study_before_its_file_is_there(
    tmp_path, path, is_read, exists
):
    from toolscore_pipeline.errors import InputError
    from toolscore_pipeline.loading import find_files

    (tmp_path / "s.yaml").touch()
    project = load(
        tmp_path,
        f"sources: [{{name: rows, path: '{path}'}}]\n"
        "studies: [{name: a, spec: s.yaml, output: runs/new/a.jsonl}]\n",
    )
    if exists:
        # The loader itself is the judge of it.
        (tmp_path / "runs/new").mkdir(parents=True)
        (tmp_path / "runs/new/a.jsonl").write_text("{}\n")
        try:
            found = {os.path.normpath(file) for file in find_files(project.sources[0])}
        except InputError:
            found = set()
        assert (str(tmp_path / "runs/new/a.jsonl") in found) is is_read
    assert reading_sources(project, project.studies[0]) == (["rows"] if is_read else [])
    assert feeding_studies(project) == (project.studies if is_read else [])


def test_a_query_may_read_any_study(tmp_path):
    (tmp_path / "s.yaml").touch()
    (tmp_path / "q.sql").write_text("select 1")
    project = load(tmp_path, f"sources: [{{name: q, query: q.sql}}]\nstudies: [{GOOD}]\n")
    assert reading_sources(project, project.studies[0]) == []
    assert feeding_studies(project) == project.studies


# --- leave to pay ---------------------------------------------------------------------------------


def test_a_paid_study_is_refused_without_leave_and_nothing_is_run(tmp_path):
    study = paid_study(tmp_path)
    with pytest.raises(SettingsError, match=r"luna \(openai gpt-6-luna\): set its allow_paid"):
        run_project_study(study, provider_factory=fake_provider)
    assert not study.output.parent.exists()


def test_a_paid_study_without_a_budget_is_refused_even_with_leave(tmp_path):
    study = paid_study(tmp_path, allow_paid=True, budget={})
    with pytest.raises(SettingsError, match=r"without a budget: give budget.max_usd in study.yaml"):
        run_project_study(study, provider_factory=fake_provider)


def test_with_leave_the_costs_of_a_paid_study_are_summed(tmp_path):
    state = run_project_study(paid_study(tmp_path, allow_paid=True), provider_factory=fake_provider)
    assert (state.planned, state.made, state.remaining, state.stopped) == (2, 2, 0, None)
    # Each of two runs: 100 tokens at $10 and 20 at $100 a million, 0.001 + 0.002.
    assert state.cost_usd == pytest.approx(0.006)
    assert state.spent_usd == pytest.approx(0.006)
    assert state.unknown_costs == 0


def test_a_finished_paid_study_is_refused_to_nobody_for_it_calls_nothing(tmp_path):
    paid = paid_study(tmp_path, allow_paid=True)
    run_project_study(paid, provider_factory=fake_provider)
    unpaid = Study(paid.name, paid.spec, paid.output)
    state = run_project_study(unpaid)
    assert (state.made, state.remaining) == (0, 0)
    # One more repetition is one more call, which is refused again.
    write_spec(tmp_path, repetitions=3)
    spec = load_agent_spec(paid.spec)
    assert [cell.id for cell in missing_cells(unpaid, spec)] == ["t::luna::3"]
    assert "allow_paid" in (why_refused(unpaid, spec) or "")
    assert why_refused(paid, spec) is None


def test_a_line_that_was_cut_off_counts_as_missing_and_is_left_alone_by_a_look(tmp_path):
    study = paid_study(tmp_path, allow_paid=True)
    run_project_study(study, provider_factory=fake_provider)
    torn = study.output.read_bytes()[:-1]
    study.output.write_bytes(torn)
    assert len(missing_cells(study, load_agent_spec(study.spec))) == 1
    assert study.output.read_bytes() == torn


def test_a_budget_that_stops_a_study_tells_what_was_spent_and_what_is_left(tmp_path):
    # The first run may cost up to 100 x $100 a million and its request, so at most a few cents;
    # it is counted as 0.003. With that spent, a second worst case no longer fits.
    study = paid_study(tmp_path, allow_paid=True, repetitions=40, budget={"max_usd": 0.04})
    state = run_project_study(study, provider_factory=fake_provider)
    assert 0 < state.made < 40
    assert state.remaining == 40 - state.made
    assert state.stopped is not None
    assert state.spent_usd == pytest.approx(0.003 * state.made)
    assert state.spent_usd <= 0.04
    assert state.sentence() == (
        f"the budget stopped the study 'paid': ${0.003 * state.made:.4f} of $0.04 spent,"
        f" {40 - state.made} of 40 runs left"
    )


# --- Dagster --------------------------------------------------------------------------------------


def definitions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TOOLSCORE_PROJECT", str(folder / "toolscore.yaml"))
    from toolscore_pipeline import definitions

    return definitions.build()


def materialize(built: Any, keys: list[Any] | None = None) -> Any:
    import dagster as dg

    with dg.DagsterInstance.ephemeral() as instance:
        job = built.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(asset_selection=keys, instance=instance, raise_on_error=False)


def metadata_of(result: Any, key: Any) -> dict[str, Any]:
    [event] = [
        event for event in result.get_asset_materialization_events() if event.asset_key == key
    ]
    return {name: value.value for name, value in event.materialization.metadata.items()}


@pytest.mark.slow
def test_a_scripted_study_runs_once_and_its_rows_are_loaded_and_graded(tmp_path, monkeypatch):
    from dagster import AssetKey

    folder = make_offline(tmp_path / "p")
    built = definitions(folder, monkeypatch)
    key = AssetKey(["studies", "notes"])
    first = materialize(built, [key])
    assert first.success
    told = metadata_of(first, key)
    assert (told["runs"], told["runs_made_now"], told["runs_left"]) == (12, 12, 0)
    assert (told["outcome_pass"], told["outcome_fail"], told["outcome_error"]) == (6, 6, 0)
    assert (told["cost_usd"], told["runs_of_unknown_cost"]) == (0.0, 0)
    assert told["path"] == str(folder / "runs/notes.jsonl")
    written = (folder / "runs/notes.jsonl").read_bytes()
    assert written.count(b"\n") == 12
    # All of it: the study has nothing left to run, and what it wrote is loaded and graded.
    whole = materialize(built)
    assert whole.success
    assert metadata_of(whole, key)["runs_made_now"] == 0
    assert (folder / "runs/notes.jsonl").read_bytes() == written
    graded = ask(
        folder,
        "select variant, outcome, recorded_outcome, count(*) from marts.latest_grades"
        " group by all order by all",
    )
    assert graded == [("careful", "pass", "pass", 6), ("sloppy", "fail", "fail", 6)]


def test_a_full_materialisation_runs_the_study_before_the_load(tmp_path, monkeypatch):
    from dagster import AssetKey

    script = [{"calls": [{"tool": "act", "args": {}}]}, {"text": "Ok."}]
    task = {"id": "t", "prompt": "Do it.", "expected": [{"tool": "act"}], "script": script}
    write_spec(tmp_path, provider="scripted", arms=[{"id": "a"}], tasks=[task])
    (tmp_path / "toolscore.yaml").write_text(
        "sources: [{name: s, path: runs}]\n"
        "studies: [{name: plain, spec: study.yaml, output: runs/plain.jsonl}]\n"
    )
    built = definitions(tmp_path, monkeypatch)
    graph = built.resolve_asset_graph()
    study = AssetKey(["studies", "plain"])
    for name in ("runs", "calls"):
        assert study in graph.get(AssetKey(["evidence", name])).parent_keys
    # Without the study's rows the load would fail, for its folder is not there.
    assert materialize(built).success
    assert ask(tmp_path, "select count(*) from evidence.runs") == [(2,)]


def test_a_study_that_no_source_reads_holds_up_no_load(tmp_path, monkeypatch):
    from dagster import AssetKey

    folder = make_offline(tmp_path / "p")
    (folder / "toolscore.yaml").write_text(PROJECT.replace("runs/notes", "elsewhere/notes"))
    graph = definitions(folder, monkeypatch).resolve_asset_graph()
    assert graph.get(AssetKey(["studies", "notes"])).child_keys == set()


def failure_of(result: Any) -> str:
    [event] = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    failure = event.event_specific_data.user_failure_data
    return str(failure.description)


def test_a_paid_study_without_leave_fails_with_one_sentence_and_runs_nothing(tmp_path, monkeypatch):
    from dagster import AssetKey

    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-seen-anywhere")
    write_spec(tmp_path)
    (tmp_path / "toolscore.yaml").write_text(
        "studies: [{name: paid, spec: study.yaml, output: runs/paid.jsonl}]\n"
    )
    built = definitions(tmp_path, monkeypatch)
    result = materialize(built, [AssetKey(["studies", "paid"])])
    assert not result.success
    assert failure_of(result) == (
        "the study 'paid' would call paid models, luna (openai gpt-6-luna): set its allow_paid to"
        " true in the project file, or run it with `toolscore agent run`"
    )
    assert not (tmp_path / "runs").exists()
    assert "sk-not-to-be-seen" not in "".join(str(event) for event in result.all_events)


def stopped_project(folder: Path, monkeypatch: pytest.MonkeyPatch, max_usd: float) -> Any:
    """A materialised paid study of 40 runs under a budget, with a model that is not there."""
    from dagster import AssetKey

    from toolscore_pipeline.agent import study

    write_spec(folder, repetitions=40, budget={"max_usd": max_usd})
    (folder / "toolscore.yaml").write_text(
        "sources: [{name: s, path: runs}]\n"
        "studies: [{name: paid, spec: study.yaml, output: runs/paid.jsonl, allow_paid: true}]\n"
    )

    monkeypatch.setattr(study, "make_provider", fake_provider)
    return materialize(definitions(folder, monkeypatch), [AssetKey(["studies", "paid"])])


def test_rows_that_were_paid_for_flow_on_when_the_budget_stops_and_a_check_says_so(
    tmp_path, monkeypatch
):
    from dagster import AssetKey

    result = stopped_project(tmp_path, monkeypatch, 0.04)
    assert result.success
    told = metadata_of(result, AssetKey(["studies", "paid"]))
    rows = (tmp_path / "runs/paid.jsonl").read_text().splitlines()
    assert 0 < len(rows) < 40
    assert told["dagster/row_count"] == told["runs_made_now"] == len(rows)
    assert (told["runs"], told["runs_left"], told["max_usd"]) == (40, 40 - len(rows), 0.04)
    assert told["spent_usd"] == pytest.approx(sum(json.loads(row)["cost_usd"] for row in rows))
    [check] = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == ("every_run_was_made", False)
    assert "of $0.04 spent" in check.description
    assert f"{40 - len(rows)} of 40 runs left" in check.description


def test_the_check_run_on_its_own_looks_at_the_study_and_runs_nothing(tmp_path, monkeypatch):
    import dagster as dg

    key = dg.AssetKey(["studies", "paid"])
    ran = stopped_project(tmp_path, monkeypatch, 0.04)
    written = (tmp_path / "runs/paid.jsonl").read_bytes()
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions(tmp_path, monkeypatch).resolve_implicit_global_asset_job_def()
        only = {dg.AssetCheckKey(key, "every_run_was_made")}
        looked = job.get_subset(asset_selection=set(), asset_check_selection=only)
        result = looked.execute_in_process(instance=instance)
        # The asset can be asked for without its check, too.
        alone = job.get_subset(asset_selection={key}, asset_check_selection=set())
        assert alone.execute_in_process(instance=instance).get_asset_check_evaluations() == []
    assert result.get_asset_materialization_events() == []
    [check], [before] = result.get_asset_check_evaluations(), ran.get_asset_check_evaluations()
    assert not check.passed
    assert check.metadata == before.metadata
    assert (tmp_path / "runs/paid.jsonl").read_bytes() == written


def test_a_budget_that_affords_no_run_at_all_fails(tmp_path, monkeypatch):
    result = stopped_project(tmp_path, monkeypatch, 0.0001)
    assert not result.success
    assert failure_of(result) == (
        "the budget stopped the study 'paid': $0.0000 of $0.0001 spent, 40 of 40 runs left"
    )


def test_a_study_never_starts_by_itself_and_one_never_run_holds_up_no_load(tmp_path, monkeypatch):
    import dagster as dg

    folder = make_offline(tmp_path / "p")
    never = "{name: never, spec: offline.yaml, output: runs/never.jsonl}"
    (folder / "toolscore.yaml").write_text(
        PROJECT.replace("notes.jsonl}", "notes.jsonl}, " + never)
    )
    built = definitions(folder, monkeypatch)
    notes = dg.AssetKey(["studies", "notes"])
    with dg.DagsterInstance.ephemeral() as instance:
        before = dg.evaluate_automation_conditions(built, instance)
        tags = {"dagster/data_version": "rows"}
        instance.report_runless_asset_event(dg.AssetMaterialization(notes, tags=tags))
        asked = dg.evaluate_automation_conditions(built, instance, cursor=before.cursor)
    # The new rows of one study are loaded, though the other has none.
    assert asked.get_num_requested(dg.AssetKey(["evidence", "runs"])) == 1
    requested = {result.key for result in asked.results if not result.true_subset.is_empty}
    assert {key.path[0] for key in requested} >= {"raw", "evidence"}
    assert "studies" not in {key.path[0] for key in requested}


def test_the_nightly_regrade_runs_no_study(tmp_path, monkeypatch):
    folder = make_offline(tmp_path / "p")
    (folder / "toolscore.yaml").write_text(PROJECT + 'regrade: {cron: "0 5 * * *"}\n')
    built = definitions(folder, monkeypatch)
    keys = built.resolve_job_def("regrade").asset_layer.selected_asset_keys
    assert {key.path[0] for key in keys} >= {"evidence", "grades", "published"}
    assert "studies" not in {key.path[0] for key in keys}


# --- the doctor -----------------------------------------------------------------------------------


def check_of(folder: Path, name: str) -> tuple[str, str]:
    [check] = [check for check in run_doctor(project=folder) if check.name == name]
    return check.status, check.detail


def test_the_doctor_tells_of_each_study_what_is_left_and_who_reads_it(tmp_path):
    folder = make_offline(tmp_path / "p")
    assert check_of(folder, "study notes") == (
        "pass",
        "12 run(s), 12 of them still to be made; read by the source studies",
    )
    (folder / "toolscore.yaml").write_text(PROJECT.replace("runs/notes", "elsewhere/notes"))
    status, detail = check_of(folder, "study notes")
    assert status == "warn"
    assert detail.endswith("no source reads notes.jsonl, so its runs are not graded")
    (folder / "offline.yaml").write_text("nmae: x\n")
    status, detail = check_of(folder, "study notes")
    assert (status, "did you mean 'name'?" in detail) == ("fail", True)


def test_the_doctor_warns_of_a_study_that_would_be_refused(tmp_path):
    write_spec(tmp_path)
    (tmp_path / "toolscore.yaml").write_text(
        "sources: [{name: s, path: runs}]\n"
        "studies: [{name: paid, spec: study.yaml, output: runs/paid.jsonl}]\n"
    )
    status, detail = check_of(tmp_path, "study paid")
    assert (status, "set its allow_paid to true" in detail) == ("warn", True)
