"""``toolscore ui`` for real: files that come flow to the exports, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.project_helpers import PROJECT, ask, make_project, rows, write_rows
from tests.ui_helpers import (
    DONE,
    ROOT,
    UiProcess,
    graphql,
    patience,
    processes_on,
    wait_for,
)

STRICTER = """\
contract_version: 2
required: [{tool: search}, {tool: save}]
optional: [{tool: look}]
weights: {required_call_recall: 1.0}
"""
EXPORT = "exports: [{name: records, format: aef, path: out/records.jsonl}]\n"


LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on InvalidSubsetError { message }
    ... on PipelineNotFoundError { message }
  }
}
"""
REPOSITORY = """
{ repositoriesOrError { ... on RepositoryConnection {
  nodes { name location { name } assetNodes { assetKey { path } } } } } }
"""
METADATA = """
query Row($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  assetMaterializations(limit: 1) { metadataEntries { label ... on IntMetadataEntry { intValue } } }
} } }
"""


class Ui(UiProcess):
    """A running ``toolscore ui`` on a project with an export."""

    def __init__(self, folder: Path) -> None:
        make_project(folder, 24)
        (folder / "toolscore.yaml").write_text(PROJECT + EXPORT, encoding="utf-8")
        self.records = folder / "out/records.jsonl"
        super().__init__(folder)

    def is_quiet(self) -> bool:
        """Whether no run is going on, now and a few looks of the sensors later."""
        if any(run["status"] not in DONE for run in self.runs()):
            return False
        before = len(self.runs())
        time.sleep(12)
        runs = self.runs()
        return len(runs) == before and all(run["status"] in DONE for run in runs)

    def count(self, query: str) -> int:
        try:
            return int(ask(self.folder, query)[0][0])
        except duckdb.Error:
            return 0

    def exported(self) -> int:
        return self.records.read_bytes().count(b"\n") if self.records.is_file() else 0


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    running = Ui(tmp_path_factory.mktemp("ui") / "p")
    try:
        wait_for("the webserver", running.is_up, 4 * patience())
        yield running
    finally:
        running.stop()


@pytest.mark.slow
def test_files_flow_to_the_exports_and_stop_where_nothing_changes(ui: Ui) -> None:
    # What is there when it starts is built without a person.
    wait_for("the first export", lambda: ui.exported() == 24, 3 * patience())

    # A file that is dropped is in the export within a minute.
    write_rows(ui.folder / "runs/second.jsonl", rows(12, seed=3, start=500))
    beside = ui.folder / "out/records.jsonl.manifest.json"
    wait_for("the record of the file dropped", lambda: ui.exported() == 36)
    # The manifest is put in place a moment after the records.
    wait_for("its manifest", lambda: json.loads(beside.read_bytes())["records"]["count"] == 36)
    manifest = json.loads(beside.read_bytes())
    assert {source["path"] for source in manifest["sources"]} == {
        "runs/first.jsonl",
        "runs/second.jsonl",
    }
    wait_for("quiet", ui.is_quiet, 3 * patience())

    # Touching files, or writing one again as it was, runs nothing.
    before = {run["runId"] for run in ui.runs()}
    for path in [*(ui.folder / "runs").iterdir(), *(ui.folder / "contracts").iterdir()]:
        path.write_bytes(path.read_bytes())
    assert ui.is_quiet()
    assert {run["runId"] for run in ui.runs()} == before

    # An edited contract makes its flips appear, and no source is read for it.
    (ui.folder / "contracts/one.yaml").write_text(STRICTER, encoding="utf-8")
    query = "select count(*) from marts.flips where is_flip and task = 'one'"
    wait_for("the flips of the contract edited", lambda: ui.count(query) > 0)
    assert ui.count("select count(*) from marts.flips where task != 'one'") == 0
    made = {
        asset["path"][0]
        for run in ui.runs()
        if run["runId"] not in before
        for asset in run["assetSelection"] or []
    }
    assert {"judgment", "grades", "marts", "published"} <= made
    assert "evidence" not in made


@pytest.mark.slow
def test_a_materialisation_launched_through_the_webserver_succeeds(ui: Ui) -> None:
    [repository] = graphql(ui.address, REPOSITORY)["repositoriesOrError"]["nodes"]
    keys = [node["assetKey"]["path"] for node in repository["assetNodes"]]
    params = {
        "selector": {
            "repositoryName": repository["name"],
            "repositoryLocationName": repository["location"]["name"],
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": path} for path in keys],
            "assetCheckSelection": [],
        },
        "mode": "default",
        "runConfigData": {},
    }
    launched = graphql(ui.address, LAUNCH, {"params": params})["launchPipelineExecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    run_id = launched["run"]["runId"]

    def status() -> str:
        return next(str(run["status"]) for run in ui.runs() if run["runId"] == run_id)

    wait_for("the run launched", lambda: status() in DONE, 5 * patience())
    assert status() == "SUCCESS"
    node = graphql(ui.address, METADATA, {"key": {"path": ["evidence", "runs"]}})[
        "assetNodeOrError"
    ]
    entries = node["assetMaterializations"][0]["metadataEntries"]
    count = {entry["label"]: entry.get("intValue") for entry in entries}["dagster/row_count"]
    assert count == ui.count("select count(*) from evidence.runs") > 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_ui_ends_with_all_its_children(ui: Ui) -> None:
    assert len(processes_on(ui.folder)) > 2  # the command, Dagster, its servers and its daemon
    ui.process.send_signal(signal.SIGTERM)
    assert ui.process.wait(60) == 0
    wait_for("the end of every child", lambda: processes_on(ui.folder) == [], 30)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", ui.port)) != 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_children_end_also_when_the_command_is_killed_outright(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from toolscore_pipeline.cli.ui import run_until_stopped\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "run_until_stopped(child, dict(os.environ), Path(sys.argv[1]))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TOOLSCORE_TEST_FOLDER": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for("the child", lambda: len(processes_on(tmp_path)) == 2)
    parent.kill()
    parent.communicate()
    wait_for("the end of the child", lambda: processes_on(tmp_path) == [], 30)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_it_ends_at_once_also_when_a_shell_started_it_in_the_background(tmp_path: Path) -> None:
    # A shell without job control has what it starts with & ignore interrupts.
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from toolscore_pipeline.cli.ui import run_until_stopped\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)']\n"
        "sys.exit(run_until_stopped(child, dict(os.environ), Path(sys.argv[1])))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TOOLSCORE_TEST_FOLDER": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "1\n"
    parent.send_signal(signal.SIGTERM)
    # The child is asked for fifteen seconds before it is told.
    assert wait_for("the end", lambda: parent.poll() is not None, 60) < 12
    parent.communicate()
    assert parent.returncode == 0
    assert processes_on(tmp_path) == []
