"""Grading in processes of their own, beside the one that holds the warehouse.

Much of grading is Python or works on too few rows for a second thread, so one process leaves cores
idle. A worker is a process with an :class:`~toolscore_pipeline.runner.Engine` in memory: it is sent
what one chunk of pairs is graded from, as Arrow streams through a pipe, and sends back the rows of
the grades. It opens no file, and ends with the process that started it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import IO, Any

import duckdb
import pyarrow as pa

from toolscore_pipeline.connecting import connect
from toolscore_pipeline.honesty import language
from toolscore_pipeline.runner import OUTPUTS, Engine, Timing

#: The process that sends work reads, stores and publishes: it cannot keep more of them busy.
MOST = 4
# What one chunk is graded from: work.pairs is no model, so it has no entry in the plan.
PAIRS = "work.pairs"
# How often a worker is started, should it be lost: not for ever where none can live.
_STARTS = 3
# Rows of one Arrow batch: the texts of a column in it must stay below 2 GB.
_BATCH_ROWS = 2_048
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from toolscore_pipeline.workers import work; work(json.loads(sys.argv[2]))"
)
# What can go wrong with a process at the other end of a pipe, whatever ended it.
_LOST = (OSError, ValueError, EOFError, pa.ArrowException)

Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Graded:
    """What became of one chunk.

    Attributes:
        inputs: what was sent.
        outputs: the rows of the grades, by model; None when the worker failed or was lost, and the
            chunk is to be graded by whoever asks.
        timings: what each model cost there.
    """

    inputs: Tables
    outputs: Tables | None
    timings: list[Timing]


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that grade chunks, and what was sent to them and is not back yet.

    Chunks come back in the order in which they were sent, whoever is done first.

    Args:
        count: how many processes.
        memory_limit: what DuckDB may take in each.
        is_profiled: note the memory and temporary files of each model too.
    """

    def __init__(self, count: int, memory_limit: str, *, is_profiled: bool = False) -> None:
        self.count = count
        settings = {
            "threads": 1,
            "memory_limit": memory_limit,
            "is_profiled": is_profiled,
        }
        self._processes = [_Process(settings) for _ in range(count)]
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(count, "toolscore-worker")
        self._sent: deque[tuple[Tables, Future[tuple[Tables, list[Timing]] | None]]] = deque()

    def send(self, inputs: Tables) -> None:
        """Have a chunk graded: the input tables by name, and the pairs."""
        self._sent.append((inputs, self._threads.submit(self._grade, inputs)))

    def take(self, *, everything: bool = False) -> Iterator[Graded]:
        """What is back, waiting for it while more was sent than there are processes.

        Args:
            everything: wait for all that was sent.
        """
        while self._sent and (
            everything or len(self._sent) > self.count or self._sent[0][1].done()
        ):
            inputs, future = self._sent.popleft()
            outputs, timings = future.result() or (None, [])
            yield Graded(inputs, outputs, timings)

    def _grade(self, inputs: Tables) -> tuple[Tables, list[Timing]] | None:
        process = self._idle.get()
        try:
            return process.grade(inputs)
        finally:
            self._idle.put(process)

    def close(self) -> None:
        """End the processes; what is not back is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.close()
        self._threads.shutdown()


class _Process:
    """One worker, seen from the process that sends."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings, self._starts_left = settings, _STARTS
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def _start(self) -> None:
        if not (sys.executable and self._starts_left):
            return
        self._starts_left -= 1
        with suppress(OSError):  # no more processes may be started: its chunks come back ungraded
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path), json.dumps(self._settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # What goes wrong there is said when the chunk is graded here.
                stderr=subprocess.DEVNULL,
            )

    def grade(self, inputs: Tables) -> tuple[Tables, list[Timing]] | None:
        """Grade one chunk; None when the process is lost. The next chunk gets a new one."""
        if self._process is None:
            self._start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            _write(process.stdin, {}, inputs)
            head, outputs = _read(process.stdout)
        except _LOST:
            self.end()
            return None
        return outputs, [Timing(*timing) for timing in head["timings"]]

    def close(self) -> None:
        """End the process for good."""
        self._starts_left = 0
        self.end()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was still to be written to it
                    pipe.close()


# --- in the worker --------------------------------------------------------------------------------


def work(settings: Mapping[str, Any]) -> None:
    """Grade what comes on standard input until it ends.

    Args:
        settings: ``threads``, ``memory_limit`` and ``is_profiled``.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    reading, writing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that is printed may come between
    config = {name: settings[name] for name in ("threads", "memory_limit")}
    language.load_ahead()  # among so many answers there is one that only the identifier tells
    engine = Engine(connection=connect(config=config))
    if settings["is_profiled"]:
        engine.profile()
    with suppress(*_LOST):
        while True:
            _, inputs = _read(reading)
            engine.timings.clear()
            outputs = grade(engine, inputs)
            del inputs
            timings = [astuple(timing) for timing in engine.timings]
            _write(writing, {"timings": timings}, outputs)
            del outputs


def grade(engine: Engine, inputs: Tables) -> Tables:
    """Grade one chunk.

    Args:
        engine: where it is done; the rows of its input tables are replaced.
        inputs: the rows of what it is graded from, by table, the pairs among them.

    Returns:
        The rows of every model of ``OUTPUTS``, by name.
    """
    for name, rows in inputs.items():
        if name == PAIRS:
            engine.set_pairs(rows)
        else:
            engine.fill(name, rows)
    engine.build(OUTPUTS)
    tables = {name: arrow_rows(engine.connection, f"from {name}") for name in OUTPUTS}
    for name in OUTPUTS:
        engine.connection.execute(f"drop table {name}")
    return tables


def arrow_rows(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """The rows of a query as an Arrow table, in batches whose texts stay below 2 GB."""
    return connection.sql(query).to_arrow_reader(_BATCH_ROWS).read_all()


# --- through the pipe -----------------------------------------------------------------------------


def _write(file: IO[bytes], head: Mapping[str, Any], tables: Tables) -> None:
    file.write(json.dumps({**head, "tables": list(tables)}).encode() + b"\n")
    for table in tables.values():
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    file.flush()


def _read(file: IO[bytes]) -> tuple[dict[str, Any], Tables]:
    line = file.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    head: dict[str, Any] = json.loads(line)
    return head, {name: pa.ipc.open_stream(file).read_all() for name in head["tables"]}
