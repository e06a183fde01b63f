"""Dagster on a project: definitions, materialisations and checks."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance

from tests.project_helpers import PROJECT, ask, make_project, rebuild, rows, write_rows
from toolscore_pipeline.cli.ui import prepare_state
from toolscore_pipeline.plan import load_audits, load_plan
from toolscore_pipeline.project import load_project
from toolscore_pipeline.warehouse import Warehouse

ROOT = Path(__file__).resolve().parent.parent
MODULE = "toolscore_pipeline.definitions"
FRESHNESS = (
    "it_holds_every_source_file",
    "no_document_failed",
    "every_run_that_has_a_contract_is_graded",
)


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "DAGSTER_HOME": str(prepare_state(folder)),
        "TOOLSCORE_PROJECT": str(folder / "toolscore.yaml"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dagster", *arguments],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def dagster(folder: Path, *arguments: str) -> str:
    process = start(folder, *arguments)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-4000:]
    return output


def materialize(folder: Path) -> subprocess.Popen[str]:
    return start(folder, "asset", "materialize", "--select", "*", "-m", MODULE)


def make_exporting(folder: Path, count: int = 24) -> Path:
    """A project with an export."""
    make_project(folder, count)
    export = "exports: [{name: records, format: aef, path: out/records.jsonl}]\n"
    (folder / "toolscore.yaml").write_text(PROJECT + export, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_exporting(tmp_path_factory.mktemp("dagster") / "p")


def definitions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TOOLSCORE_PROJECT", str(folder / "toolscore.yaml"))
    from toolscore_pipeline import definitions

    return definitions.build()


def test_every_stored_model_is_an_asset_and_every_audit_a_check(project, monkeypatch):
    built = definitions(project, monkeypatch)
    graph = built.resolve_asset_graph()
    keys = {".".join(key.path) for key in graph.get_all_asset_keys()}
    stored = {model.full_name for model in load_plan() if model.kind != "ephemeral"}
    assert keys - stored == {"exports.records", "published.warehouse"}
    assert stored <= keys
    assert {key.name for key in graph.asset_check_keys} == {
        *(audit.name for audit in load_audits()),
        "records_have_the_hash_in_the_manifest",
        *FRESHNESS,
    }


def test_assets_carry_columns_code_versions_owners_and_their_sql(project, monkeypatch):
    graph = definitions(project, monkeypatch).resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.owners, key
        if key.path[0] in ("published", "exports"):
            continue
        model = load_plan()[".".join(key.path)]
        assert node.code_version, key
        columns = node.metadata["dagster/column_schema"].columns
        assert [column.name for column in columns] == list(model.column_names)
        assert all(column.description for column in columns)
        assert "```sql" in node.description


def test_the_assets_of_a_pair_of_layers_depend_on_each_other_as_the_sql_does(project, monkeypatch):
    from dagster import AssetKey

    graph = definitions(project, monkeypatch).resolve_asset_graph()
    grades = graph.get(AssetKey(["grades", "grades"])).parent_keys
    assert {AssetKey(["evidence", "calls"]), AssetKey(["judgment", "judgments"])} <= grades
    rates = graph.get(AssetKey(["marts", "variant_stats"])).parent_keys
    assert AssetKey(["marts", "task_stats"]) in rates


def test_the_published_copy_comes_last_and_the_exports_after_the_grades(project, monkeypatch):
    from dagster import AssetKey

    graph = definitions(project, monkeypatch).resolve_asset_graph()
    published = AssetKey(["published", "warehouse"])
    before = graph.get(published).parent_keys
    assert AssetKey(["exports", "records"]) in before
    assert graph.get(published).child_keys == set()
    marts = {key for key in graph.get_all_asset_keys() if key.path[0] == "marts"}
    assert marts <= before
    parents = graph.get(AssetKey(["exports", "records"])).parent_keys
    assert {AssetKey(["marts", "latest_grades"]), AssetKey(["evidence", "calls"])} <= parents


def test_the_definitions_are_valid_to_dagster_and_to_dg(project):
    assert "Validation successful" in dagster(project, "definitions", "validate", "-m", MODULE)
    checked = subprocess.run(
        [Path(sys.executable).with_name("dg"), "check", "defs"],
        cwd=ROOT,
        env=environment(project),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_materialising_everything_builds_the_same_as_the_command(project, tmp_path):
    output, _ = (process := materialize(project)).communicate(timeout=300)
    assert process.returncode == 0, output[-4000:]
    with DagsterInstance.from_config(str(prepare_state(project))) as instance:
        [run] = instance.get_runs(limit=1)
        assert run.is_success
        told = "\n".join(entry.message for entry in instance.all_logs(run.run_id))
    for name in (*FRESHNESS, "records_have_the_hash_in_the_manifest"):
        assert re.search(rf"Asset check '{name}' on '[a-z/]+' passed", told), name
    twin = make_exporting(tmp_path / "p")
    subprocess.run(
        [sys.executable, "-m", "toolscore_pipeline", "build", "--quiet"],
        cwd=twin,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=300,
    )
    hashes = []
    for folder in (project, twin):
        with Warehouse(load_project(folder / "toolscore.yaml").warehouse).open() as session:
            hashes.append(session.content_hashes())
    assert hashes[0] == hashes[1]
    written = [(folder / "out/records.jsonl").read_bytes() for folder in (project, twin)]
    assert written[0] == written[1]
    assert written[0].count(b"\n") == 24
    # A picture of the comparison is in the metadata of its mart.
    with contextlib.closing(sqlite_of(project)) as history:
        [(event,)] = history.execute(
            "select event from event_logs where dagster_event_type = 'ASSET_MATERIALIZATION'"
            " and asset_key = ?",
            ['["marts", "variant_stats"]'],
        ).fetchall()
    assert event.count("](data:image/png;base64,iVBORw0KGgo") >= 3


def sqlite_of(folder: Path) -> sqlite3.Connection:
    """The event log of the one run that was made in a project."""
    [file] = [
        path
        for path in (folder / ".toolscore/dagster/history").rglob("*.db")
        if re.fullmatch(r"[0-9a-f-]{36}\.db", path.name)
    ]
    return sqlite3.connect(file)


@pytest.mark.slow
def test_two_materialisations_at_once_both_succeed_and_no_reader_fails(tmp_path):
    folder = make_project(tmp_path / "p", 24)
    rebuild(folder)
    # Dagster's own history is made first: two processes that both make it are in each other's way.
    program = "import dagster; dagster.DagsterInstance.get().get_runs_count()"
    subprocess.run([sys.executable, "-c", program], env=environment(folder), check=True)
    write_rows(folder / "runs/second.jsonl", rows(12, seed=3, start=500))
    both = [materialize(folder), materialize(folder)]
    reads = 0
    while any(process.poll() is None for process in both):
        assert ask(folder, "select count(*) from grades.grades")[0][0] >= 24
        reads += 1
        time.sleep(0.1)
    for process in both:
        output = process.stdout.read() if process.stdout else ""
        assert process.returncode == 0, output[-4000:]
    assert reads > 0
    assert ask(folder, "select count(*) from grades.grades") == [(36,)]
