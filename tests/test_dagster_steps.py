"""The steps under Dagster, in this process: settings, backfills, figures, and what failures say."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from tests.project_helpers import CONTRACT, PROJECT, make_project, rows, write_rows
from toolscore_pipeline import pipeline
from toolscore_pipeline.errors import (
    AuditError,
    ContractError,
    InputError,
    Problem,
    SettingsError,
    ToolscoreError,
    UsageError,
    WarehouseError,
    WarehouseLockedError,
)
from toolscore_pipeline.loading import Progress
from toolscore_pipeline.plan import load_audits
from toolscore_pipeline.project import load_project
from toolscore_pipeline.telling import StepProgress, advice, duration
from toolscore_pipeline.warehouse import Warehouse

TWO_SOURCES = PROJECT.replace(
    'sources: [{name: runs, path: "runs/*.jsonl"}]',
    'sources: [{name: first, path: "runs/first.jsonl"}, {name: second, path: "runs/second.jsonl"}]',
)
EXPORT = "exports: [{name: records, format: aef, path: out/records.jsonl}]\n"


class Steps:
    """A project under Dagster, run in this process on a history of its own."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.folder, self.instance = folder, instance
        from toolscore_pipeline import definitions

        self.definitions = definitions.build()

    def run(self, *keys: str, config: dict[str, dict[str, Any]] | None = None) -> Any:
        """Materialise assets (all when none is named), with the settings of steps by name."""
        settings = {"ops": {name: {"config": values} for name, values in (config or {}).items()}}
        return self.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            run_config=settings,
            asset_selection=[dg.AssetKey(key.split("/")) for key in keys] or None,
            instance=self.instance,
            raise_on_error=False,
        )

    def said(self, result: Any) -> list[str]:
        """What the steps of a run told their log."""
        return [entry.user_message for entry in self.instance.all_logs(result.run_id)]

    def hashes(self) -> dict[str, str]:
        with Warehouse(load_project(self.folder / "toolscore.yaml").warehouse).open() as session:
            return session.content_hashes()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "warehouse.duckdb")) as connection:
            return connection.execute(sql).fetchall()


def metadata(result: Any, key: str) -> dict[str, Any]:
    """What a run says of an asset, by name."""
    [event] = [
        event.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(key.split("/"))
    ]
    return {name: value.value for name, value in event.metadata.items()}


def failed(result: Any) -> str:
    """The sentence that the one step that failed ended with."""
    assert not result.success
    [event] = [event for event in result.all_events if event.is_step_failure]
    return str(event.step_failure_data.user_failure_data.description)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    folder = make_project(tmp_path_factory.mktemp("steps") / "p", 24)
    (folder / "toolscore.yaml").write_text(TWO_SOURCES + EXPORT, encoding="utf-8")
    # Two contracts that are the same would be one judgment.
    (folder / "contracts/two.yaml").write_text(CONTRACT + "min_score: 0.5\n", encoding="utf-8")
    write_rows(folder / "runs/second.jsonl", rows(12, seed=3, start=500))
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("TOOLSCORE_PROJECT", str(folder / "toolscore.yaml"))
        made = Steps(folder, stack.enter_context(dg.DagsterInstance.ephemeral()))
        result = made.run()
        assert result.success
        assert all(check.passed for check in result.get_asset_check_evaluations())
        yield made


def test_a_backfill_run_twice_leaves_the_same_rows(steps: Steps) -> None:
    job = steps.definitions.resolve_job_def("one_source")
    assert job.partitions_def is not None
    assert job.partitions_def.get_partition_keys() == ["first", "second"]
    before = steps.hashes()
    for _ in range(2):
        for source in ("second", "first"):
            result = job.execute_in_process(partition_key=source, instance=steps.instance)
            assert result.success
            assert steps.hashes() == before
    # What was taken away comes back by the backfill of its source, and by no other.
    steps.query("delete from grades.grades")
    steps.query("delete from evidence.runs where source = 'second'")
    steps.query("delete from evidence.calls where run_id not in (select run_id from evidence.runs)")
    for name in ("metrics", "checks", "findings", "expectations"):
        steps.query(f"delete from grades.{name}")
    job.execute_in_process(partition_key="second", instance=steps.instance)
    counts = "select source, count(*) from evidence.runs inner join grades.grades using (run_id)"
    assert steps.query(f"{counts} group by all") == [("second", 12)]
    result = job.execute_in_process(partition_key="first", instance=steps.instance)
    assert steps.hashes() == before
    [grades] = [
        event.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(["grades", "grades"])
    ]
    # As the asset's own step would say it, so that nothing flows on from it.
    assert grades.metadata["dagster/row_count"].value == 36
    [own] = [
        event.materialization
        for event in steps.run("grades/grades").get_asset_materialization_events()
    ]
    assert own.tags["dagster/data_version"] in (grades.tags or {}).values()


def test_one_contract_and_one_source_are_graded_alone(steps: Steps) -> None:
    before = steps.hashes()
    result = steps.run("grades/grades", config={"grades_grade": {"contract": "one", "full": True}})
    assert metadata(result, "grades/grades")["graded_now"] == 18
    result = steps.run(
        "grades/grades",
        config={"grades_grade": {"contract": "two", "source": "second", "full": True}},
    )
    assert metadata(result, "grades/grades")["graded_now"] == 6
    assert metadata(steps.run("grades/grades"), "grades/grades")["graded_now"] == 0
    assert steps.hashes() == before


def test_names_nobody_knows_are_told_with_the_nearest(steps: Steps) -> None:
    told = failed(steps.run("grades/grades", config={"grades_grade": {"contract": "onne"}}))
    assert told == (
        "unknown contract 'onne'; did you mean 'one'?\n"
        "Change the settings in the launchpad and launch again."
    )
    told = failed(steps.run("evidence/runs", config={"evidence_load": {"source": "secnd"}}))
    assert told.startswith("unknown source 'secnd'; did you mean 'second'?\n")


def test_one_source_is_loaded_alone_and_in_full(steps: Steps) -> None:
    result = steps.run(
        "evidence/runs", config={"evidence_load": {"source": "second", "full": True}}
    )
    assert result.success
    [line] = [line for line in steps.said(result) if "document read" in line]
    assert line.startswith("1 document read in ")
    told = metadata(result, "evidence/runs")
    assert (told["runs of first"], told["runs of second"]) == (24, 12)


def test_figures_of_flips_and_evidence_are_numbers(steps: Steps) -> None:
    contract = steps.folder / "contracts/one.yaml"
    contract.write_text(CONTRACT.replace('"^[a-z]+$"', '"^[A-Z]+$"'), encoding="utf-8")
    try:
        # Graded in part, nothing is said to have changed yet.
        assert steps.run("judgment/judgments", "judgment/bindings").success
        part = {"contract": "one", "source": "first"}
        result = steps.run(
            "grades/grades", "receipts/editions", "marts/flips", config={"grades_grade": part}
        )
        assert metadata(result, "marts/flips")["changed_grades"] == 0
        said = steps.said(result)
        assert "6 other pairs of run and contract still wait for their grade" in said
        assert any(line.startswith("6 pairs of run and contract wait") for line in said)
        result = steps.run()
        said = steps.said(result)
        assert "6 pairs of run and contract to grade" in said
        [line] = [line for line in said if line.startswith("graded 6 of 6 pairs")]
        assert line.endswith(" a second; nothing remains")
    finally:
        contract.write_text(CONTRACT, encoding="utf-8")
    flips = metadata(result, "marts/flips")
    [row] = steps.query(
        "select count(*) filter (where is_flip),"
        " count(*) filter (where is_flip and after_outcome = 'pass'), count(*) from marts.flips"
    )
    assert (flips["flips"], flips["flips_to_pass"], flips["changed_grades"]) == row
    assert flips["flips_from_pass"] == flips["flips"] > 0
    grades = metadata(result, "grades/grades")
    sums = steps.query(
        "select sum(pass_count)::int, sum(fail_count)::int, sum(unknown_count)::int"
        " from grades.grades"
    )
    states = ("pass", "fail", "unknown")
    assert tuple(grades[f"evidence_{state}"] for state in states) == sums[0]
    checks = metadata(result, "grades/checks")
    assert checks["required-calls: pass"] + checks["required-calls: fail"] > 0
    assert steps.run().success


def test_an_audit_that_fails_shows_its_rows_and_what_to_do(steps: Steps) -> None:
    steps.query("create table kept as from evidence.calls")
    try:
        steps.query("delete from evidence.calls where call_index = 1")
        before = steps.hashes()
        job = steps.definitions.resolve_implicit_global_asset_job_def()
        key = dg.AssetCheckKey(dg.AssetKey(["evidence", "calls"]), "calls_are_complete")
        alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
        result = alone.execute_in_process(instance=steps.instance, raise_on_error=False)
        [check] = result.get_asset_check_evaluations()
        assert steps.hashes() == before  # asking changes nothing
    finally:
        steps.query("delete from evidence.calls")
        steps.query("insert into evidence.calls from kept")
        steps.query("drop table kept")
    assert not check.passed
    assert check.blocking
    [(several,)] = steps.query("select count(*) from evidence.runs where call_count > 1")
    assert check.metadata["rows_against"].value == several > 0
    assert "run_id = " in str(check.metadata["first"].value)
    [audit] = [audit for audit in load_audits() if audit.name == "calls_are_complete"]
    assert check.metadata["what_to_do"].value == audit.mend
    assert str(check.description).endswith(audit.mend)


def test_rows_that_an_audit_refuses_fail_its_check_and_the_step(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AuditError(
            "marts.variant_stats was not kept: 1 rows against the audit rates_are_in_range",
            audit="rates_are_in_range",
            count=1,
            rows=[{"comparison": "arms", "variant": "a", "pass_rate": 1.5}],
            mend="Look at the formula.",
        )

    monkeypatch.setattr("toolscore_pipeline.warehouse.Session.build_table", refuse)
    result = steps.run("marts/variant_stats")
    assert failed(result) == (
        "marts.variant_stats was not kept: 1 rows against the audit rates_are_in_range\n"
        "The table is as it was before. Look at the formula."
    )
    [check] = result.get_asset_check_evaluations()
    assert check.check_name == "rates_are_in_range"
    assert not check.passed
    assert "comparison = arms, variant = a, pass_rate = 1.5" in str(check.description)


def test_names_out_of_traces_do_nothing_in_the_ui(steps: Steps) -> None:
    picture = "![x](http://elsewhere.example/x.png)"
    key = "AKIA" + "Z2J7Q4W8E3R6T1Y5"
    odd = rows(3, seed=9, start=900)
    for row, name in zip(odd, (picture, "<b>*a* | b</b>", f"{'long ' * 15}{key}"), strict=True):
        row |= {"task_id": name, "arm_id": name}
    file = steps.folder / "runs/second.jsonl"
    before = file.read_text(encoding="utf-8")
    write_rows(file, [json.loads(line) for line in before.splitlines()] + odd)
    try:
        result = steps.run()
        preview = metadata(result, "marts/variant_stats")["preview"]
        checks = {one.check_name: one for one in result.get_asset_check_evaluations()}
    finally:
        file.write_text(before, encoding="utf-8")
        assert steps.run().success
    # In the order of its first columns; what is cut off has been blacked out before.
    variants = [line.split(" | ")[1] for line in preview.splitlines()[2:]]
    assert variants == [
        r"!\[x\](http&#58;//elsewhere.example/x.png)",
        r"&lt;b>\*a\* \| b&lt;/b>",
        "a",
        "b",
        rf"{'long ' * 15}\[RED…",
    ]
    check = checks["every_run_has_a_contract"]
    assert not check.passed
    for shown in (str(check.description), str(check.metadata["first"].value)):
        assert r"task = !\[x\](http&#58;//elsewhere.example/x.png)" in shown
        assert key[:4] not in shown


def test_an_export_that_was_tampered_with_is_written_again(steps: Steps) -> None:
    records = steps.folder / "out/records.jsonl"
    assert steps.run("exports/records").success
    whole = records.read_bytes()
    records.write_bytes(whole[:-100])
    assert not pipeline.read_export(records).is_whole
    [check] = steps.run("exports/records").get_asset_check_evaluations()
    assert check.passed
    assert records.read_bytes() == whole
    time = records.stat().st_mtime_ns
    result = steps.run("exports/records", config={"export_0_records": {"full": True}})
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
    assert records.read_bytes() == whole
    assert records.stat().st_mtime_ns > time


def test_progress_tells_how_much_how_fast_and_what_remains() -> None:
    said: list[str] = []
    now = 0.0
    progress = StepProgress(said.append, clock=lambda: now)
    progress.graded(0, 120_000)
    now = 10.0
    progress.graded(50_000, 120_000)
    now = 24.0
    progress.graded(120_000, 120_000)
    assert said == [
        "120,000 pairs of run and contract to grade",
        "graded 50,000 of 120,000 pairs of run and contract, 5,000 a second; about 14 s remaining",
        "graded 120,000 of 120,000 pairs of run and contract, 5,000 a second; nothing remains",
    ]


def test_progress_of_a_load_is_a_line_every_few_seconds() -> None:
    said: list[str] = []
    now = 0.0
    progress = StepProgress(said.append, clock=lambda: now)
    for now in (0.5, 2.5, 3.0, 10.0):
        progress.loaded(Progress("a", 1_200, int(now * 10), 100_000_000, int(now * 1e6), 7))
    assert said == [
        "25 of 1,200 files, 2.5 of 100.0 MB, 7 runs; about 1 min 38 s remaining",
        "100 of 1,200 files, 10.0 of 100.0 MB, 7 runs; about 1 min 30 s remaining",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (ContractError([Problem("a key")], path="c.yaml"), "Mend the file and save it"),
        (AuditError("rows", mend="Do this."), "Do this."),
        (WarehouseLockedError("held"), "other process has ended"),
        (WarehouseError("full"), "room on the disk"),
        (SettingsError("a weight"), "reload the definitions"),
        (UsageError("a name"), "launchpad"),
        (InputError("no JSON"), "take it out of the project"),
        (ToolscoreError("else"), "materialise again"),
    ],
)
def test_every_kind_of_error_has_an_advice_of_its_own(error: ToolscoreError, word: str) -> None:
    assert word in advice(error)
