"""The folders of runs: what a killed process leaves is swept, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_agent_study import study
from toolscore_pipeline.agent import run_study
from toolscore_pipeline.agent.folders import fresh_folder, sweep_leftovers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders have no locks there")

LIFE = """
import sys, time
from toolscore_pipeline.agent.folders import fresh_folder
with fresh_folder() as folder:
    (folder / "note").write_text("kept")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def life(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process in a run, and the folder of it."""
    process = subprocess.Popen(
        [sys.executable, "-c", LIFE],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_the_folder_of_a_killed_process_is_swept(life, temporary):
    process, folder = life
    kill(process)
    assert (folder / "note").exists()
    sweep_leftovers()
    assert list(temporary.iterdir()) == []


def test_a_study_sweeps_what_was_left(life):
    process, folder = life
    kill(process)
    assert run_study(study()).outcomes()["a"]["pass"] == 4
    assert not folder.exists()


def test_the_folder_of_a_living_process_is_never_swept(life, temporary):
    process, folder = life
    with fresh_folder() as own:
        sweep_leftovers()
        assert own.is_dir()
    assert not own.exists()
    # In another container its number may be nobody's here.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    elsewhere = folder.rename(temporary / f"toolscore-run-{gone.pid}-elsewhere")
    sweep_leftovers()
    assert (elsewhere / "note").exists()
    kill(process)
    sweep_leftovers()
    assert not elsewhere.exists()


def test_what_is_no_folder_of_a_run_is_left_alone(temporary):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    target = temporary / "mine"
    target.mkdir()
    (target / "work").write_text("a day's")
    (temporary / f"toolscore-run-{gone.pid}-link").symlink_to(target)
    (temporary / f"toolscore-run-{gone.pid}-file").write_text("x")
    (temporary / "toolscore-run-notes").mkdir()
    (temporary / f"toolscore-run-{'9' * 30}-x").mkdir()
    before = sorted(temporary.rglob("*"))
    sweep_leftovers()
    assert sorted(temporary.rglob("*")) == before
