"""Grading in processes beside: the same rows, whatever becomes of the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.project_helpers import CONTRACT, make_project, rebuild
from toolscore_pipeline import pipeline, warehouse, workers
from toolscore_pipeline.errors import AuditError
from toolscore_pipeline.warehouse import Warehouse
from toolscore_pipeline.workers import Workers

ROOT = Path(__file__).resolve().parent.parent


def hashes(folder: Path) -> dict[str, str]:
    with Warehouse(folder / "warehouse.duckdb").open() as session:
        return session.content_hashes()


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(pipeline, "LEAST_CHUNK_OF_WORKER", 7)
    monkeypatch.setattr(pipeline, "MOST_CHUNK_OF_WORKER", 7)


@pytest.fixture
def local(monkeypatch):
    """The pairs that were graded in this process, though workers were to."""
    pairs: list[int] = []

    def grade(engine, inputs):
        pairs.append(inputs[workers.PAIRS].num_rows)
        return workers.grade(engine, inputs)

    monkeypatch.setattr(warehouse, "grade", grade)
    return pairs


def test_workers_make_the_rows_that_one_process_makes(tmp_path, small_chunks, local):
    alone = make_project(tmp_path / "alone", 30)
    rebuild(alone, workers=0)
    together = make_project(tmp_path / "together", 30)
    report = rebuild(together, workers=2)
    assert report.pairs_graded == report.graded == 30
    assert hashes(together) == hashes(alone)
    assert local == []
    made = [timing.rows for timing in report.timings if timing.model == "grades.grades"]
    assert made == [7] * 4 + [2]
    # A regrade reads the evidence from the file.
    for folder, count in ((alone, 0), (together, 2)):
        (folder / "contracts/one.yaml").write_text(CONTRACT + "min_score: 0.5\n", encoding="utf-8")
        told: list[int] = []
        report = rebuild(
            folder, workers=count, on_graded=lambda done, _, told=told: told.append(done)
        )
        assert report.pairs_graded == 15
        assert (told[0], told[-1]) == (0, 15)
    assert hashes(together) == hashes(alone)
    assert local == []


def test_the_chunks_of_a_worker_that_cannot_start_are_graded_here(
    tmp_path, small_chunks, local, monkeypatch
):
    alone = make_project(tmp_path / "alone", 20)
    rebuild(alone, workers=0)
    for name, program in (("none", ""), ("absent", "/nowhere/python"), ("broken", "/bin/false")):
        monkeypatch.setattr(sys, "executable", program)
        folder = make_project(tmp_path / name, 20)
        local.clear()
        assert rebuild(folder, workers=2).pairs_graded == 20
        assert local == [7, 7, 6]
        assert hashes(folder) == hashes(alone)


def test_the_chunks_of_a_worker_that_dies_are_graded_here(
    tmp_path, small_chunks, local, monkeypatch
):
    alone = make_project(tmp_path / "alone", 20)
    rebuild(alone, workers=0)
    sent = []

    def send(self, inputs):
        sent.append(inputs)
        if len(sent) == 2:
            for process in self._processes:
                process._process.kill()
        Workers.send(self, inputs)

    monkeypatch.setattr(warehouse, "Workers", type("Mortal", (Workers,), {"send": send}))
    folder = make_project(tmp_path / "p", 20)
    assert rebuild(folder, workers=2).pairs_graded == 20
    assert local
    assert hashes(folder) == hashes(alone)


def test_an_audit_that_a_workers_chunk_breaks_is_told_as_ever(tmp_path, monkeypatch):
    folder = make_project(tmp_path / "p", 20)

    def twice(self, inputs):
        pairs = inputs[workers.PAIRS]
        Workers.send(self, {**inputs, workers.PAIRS: pa.concat_tables([pairs, pairs])})

    monkeypatch.setattr(warehouse, "Workers", type("Doubling", (Workers,), {"send": twice}))
    with pytest.raises(AuditError, match=r"grades\.grades was not kept"):
        rebuild(folder, workers=1)


@pytest.mark.parametrize(
    ("pairs", "size", "is_all", "asked", "count"),
    [
        (100, 100_000, True, None, 0),
        (100, 100_000, True, 3, 3),
        (20_000, 20_000_000, True, None, 2),
        (20_000, 20_000_000, True, 0, 0),
        (100, 100_000_000, True, None, 2),  # few large ones
        (2_000, 16_000_000, True, None, 0),
        (2_000, 16_000_000, False, None, 2),  # the first of more
        (0, 16_000_000, False, None, 0),
    ],
)
def test_workers_are_taken_where_there_is_enough_to_do(
    tmp_path, monkeypatch, pairs, size, is_all, asked, count
):
    monkeypatch.setattr(pipeline, "cores", lambda: 2)
    taken: list[int] = []
    table = pa.table({"run_id": ["r"] * pairs, "judgment_id": ["j"] * pairs})
    with Warehouse(tmp_path / "w.duckdb", workers=asked).open() as session:
        monkeypatch.setattr(session, "use_workers", taken.append)
        pipeline.use_workers(session, table, size, is_all=is_all)
        monkeypatch.setattr(pipeline, "cores", lambda: 1)
        pipeline.use_workers(session, table, size, is_all=is_all)
    assert taken == [count, asked or 0]


def test_a_worker_ends_with_the_process_that_started_it(tmp_path):
    program = (
        "import time\n"
        "from toolscore_pipeline.workers import Workers\n"
        "made = Workers(1, '500MB')\n"
        "print(made._processes[0]._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    os.kill(worker, 0)  # it is there
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 30
    while _is_running(worker):
        assert time.monotonic() < until, "the worker outlived the process that started it"
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
