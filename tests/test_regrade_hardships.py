"""Regrades that are killed, that meet each other, or that the disk refuses: nothing is lost."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project_helpers import ask, make_project, rebuild
from toolscore_pipeline.cli import main
from toolscore_pipeline.verify import verify
from toolscore_pipeline.warehouse import Warehouse

ROOT = Path(__file__).resolve().parent.parent
STRICTER = """\
contract_version: 2
required: [{tool: search}, {tool: save}]
optional: [{tool: look}]
weights: {required_call_recall: 1.0}
"""


def hashes(folder: Path) -> dict[str, str]:
    with Warehouse(folder / "warehouse.duckdb").open() as session:
        return session.content_hashes()


def start(folder: Path, before: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "toolscore_pipeline", "regrade", "--warehouse"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


def limit_files(size: int) -> None:
    """Let no file of this process grow beyond a size in bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project whose contract was edited after."""
    folder = make_project(tmp_path_factory.mktemp("built") / "p", 300)
    rebuild(folder)
    (folder / "contracts/one.yaml").write_text(STRICTER, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def expected(
    edited: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], float]:
    """The content after an undisturbed regrade, and the seconds it took."""
    folder = Path(shutil.copytree(edited, tmp_path_factory.mktemp("whole") / "p"))
    started = time.monotonic()
    process = start(folder)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "re-scored 150 pairs of 300 runs" in output
    return hashes(folder), time.monotonic() - started


@pytest.fixture
def project(edited: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(edited, tmp_path / "p"))


@pytest.mark.slow
def test_a_regrade_killed_at_any_moment_is_completed_by_the_next(edited, expected, tmp_path):
    content, seconds = expected
    rng = random.Random(8)
    for attempt in range(3):
        folder = Path(shutil.copytree(edited, tmp_path / str(attempt)))
        process = start(folder)
        time.sleep(rng.uniform(0.3, 1) * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert ask(folder, "select count(*) from marts.latest_grades") == [(300,)]
        again = start(folder)
        _, errors = again.communicate(timeout=300)
        assert again.returncode == 0, errors
        assert hashes(folder) == content
    assert verify(folder).is_whole


@pytest.mark.slow
def test_two_regrades_at_once_both_succeed_and_one_of_them_does_the_work(project, expected):
    both = [start(project), start(project)]
    told = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert sorted("nothing to re-score" in output for output, _ in told) == [False, True]
    assert hashes(project) == expected[0]


@pytest.mark.slow
def test_a_disk_that_takes_no_more_is_told_in_a_sentence_and_loses_nothing(project, expected):
    size = (project / "warehouse.duckdb").stat().st_size
    # Too little for the first commit, for the grades, and for the published copy.
    for limit in (50_000, 400_000, size - 100_000):
        process = start(project, functools.partial(limit_files, limit))
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 2, errors
        assert len(errors.splitlines()) == 1
        assert errors.startswith(f"error: {project / 'warehouse.duckdb'}: ")
        assert errors.endswith("what was committed before stays\n")
        assert ask(project, "select count(*) from marts.latest_grades") == [(300,)]
        left = [path.name for path in project.iterdir() if ".new" in path.name]
        assert left == []
    process = start(project)
    assert process.communicate(timeout=300)[1] == ""
    assert hashes(project) == expected[0]
    assert verify(project).is_whole


# A file system of its own in memory, which nothing outside of the process sees.
ON_A_SMALL_DISK = """
mount -t tmpfs -o size="$SIZE" none "$DISK" && cp -a "$PROJECT/." "$DISK" || exit 99
cd "$DISK"
"$PYTHON" -m toolscore_pipeline regrade --warehouse
code=$?
cp -a "$DISK/." "$AFTER" || exit 98
exit $code
"""


@pytest.mark.slow
@pytest.mark.parametrize("spare", [60_000, 500_000])
def test_a_full_disk_is_told_in_a_sentence_and_loses_nothing(project, expected, tmp_path, spare):
    disk, after = tmp_path / "disk", tmp_path / "after"
    disk.mkdir()
    after.mkdir()
    blocks = sum(-(-path.stat().st_size // 4096) + 1 for path in project.rglob("*"))
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK],
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTHON": sys.executable, "SIZE": str(blocks * 4096 + spare)}
        | {"DISK": str(disk), "PROJECT": str(project), "AFTER": str(after)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in (1, 99) and "toolscore" not in done.stderr:
        pytest.skip(f"no file system can be made here: {done.stderr.strip()}")
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"error: {disk / 'warehouse.duckdb'}: ")
    assert done.stderr.endswith("what was committed before stays\n")
    assert ask(after, "select count(*) from marts.latest_grades") == [(300,)]
    process = start(after)
    assert process.communicate(timeout=300)[1] == ""
    assert hashes(after) == expected[0]


def test_receipts_that_cannot_be_written_are_told_and_the_regrade_stays(
    project, expected, capsys, monkeypatch
):
    monkeypatch.chdir(project)
    (project / "taken").write_text("a file, not a folder", encoding="utf-8")
    assert main(["regrade", "--warehouse", "--receipt-dir", "taken"]) == 2
    assert "taken" in capsys.readouterr().err
    assert hashes(project) == expected[0]


def obey_permissions() -> None:
    """Let the root user be refused too, by what the files' modes say; for nobody else."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    drop_from_bounding_set = 24
    for capability in (1, 2, 3):  # overriding modes to write and to read, and changing modes
        if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "the capability cannot be dropped")


def make_read_only(project: Path, what: str) -> list[Path]:
    """Take the right to write from the folder, from the warehouse, or from both."""
    paths = {
        "folder": [project],
        "warehouse": [project / "warehouse.duckdb"],
        "both": [project, project / "warehouse.duckdb"],
    }[what]
    for path in paths:
        path.chmod(0o555)
    return paths


@pytest.mark.skipif(sys.platform != "linux" and os.geteuid() == 0, reason="root needs Linux here")
@pytest.mark.parametrize("what", ["folder", "warehouse", "both"])
def test_what_is_read_only_is_told_in_a_sentence_and_nothing_is_lost(project, expected, what):
    before = {path.name: path.read_bytes() for path in project.glob("warehouse*")}
    locked = make_read_only(project, what)
    try:
        process = start(project, obey_permissions)
        _, errors = process.communicate(timeout=300)
    finally:
        for path in locked:
            path.chmod(0o755)
    assert process.returncode == 2, errors
    assert len(errors.splitlines()) == 1
    assert errors.startswith(f"error: {project / 'warehouse.duckdb'}: ")
    assert {path.name: path.read_bytes() for path in project.glob("warehouse*")} == before
    process = start(project)
    assert process.communicate(timeout=300)[1] == ""
    assert hashes(project) == expected[0]
