"""Comparing a million runs: the marts in SQL and the functions in Python.

``python bench/comparisons.py [RUNS]`` prints seconds and peak memory of each part.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import duckdb

from bench import peak_mb
from toolscore_pipeline.plan import load_plan
from toolscore_pipeline.runner import create_schemas, create_table, prepare_connection
from toolscore_pipeline.stats import Run, compare_runs
from toolscore_pipeline.stats.marts import decide

MARTS = ("outcomes", "task_stats", "variant_stats", "task_changes", "variant_pairs")
VARIANTS, TASKS, K = 20, 500, 10


def make_store(runs: int) -> duckdb.DuckDBPyConnection:
    """A connection with ``runs`` graded runs of 20 variants on 500 tasks, and one comparison."""
    connection = duckdb.connect()
    prepare_connection(connection)
    create_schemas(connection)
    plan = load_plan()
    for name in ("evidence.runs", "marts.latest_grades", "settings.comparisons"):
        connection.execute(create_table(plan[name]))
    connection.execute(
        "insert into evidence.runs by name"
        " select sha256(i::varchar) as run_id, 'variant-' || (i % $1) as variant,"
        " 'task-' || ((i // $1) % $2) as task, i // ($1 * $2) as repetition,"
        " 'model-' || (i % 3) as model, 0.001 * (i % 7) as cost_usd,"
        " 1.5 + (i % 11) as duration_seconds,"
        " timestamptz '2026-01-01' + to_seconds(i) as started_at, 'rows.jsonl' as path,"
        " 'line ' || i as locator"
        " from range($3) as t(i)",
        [VARIANTS, TASKS, runs],
    )
    connection.execute(
        "insert into marts.latest_grades by name select run_id, case"
        " when hash(run_id) % 10 < 6 then 'pass' when hash(run_id) % 10 < 9 then 'fail'"
        " else 'error' end as outcome from evidence.runs"
    )
    connection.execute(
        "insert into settings.comparisons by name select 'all' as comparison, $1 as k,"
        " 10 as min_n, 0.05 as alpha, 'graded' as outcome_basis, 'weighted' as select_policy",
        [K],
    )
    return connection


@contextmanager
def timed(name: str, seconds: dict[str, tuple[float, float]]) -> Iterator[None]:
    """Note wall-clock and processor seconds of what is inside."""
    wall, processor = time.perf_counter(), time.process_time()
    yield
    seconds[name] = (time.perf_counter() - wall, time.process_time() - processor)


def measure(runs: int) -> dict[str, tuple[float, float]]:
    """Wall-clock and processor seconds of each part, by name."""
    seconds: dict[str, tuple[float, float]] = {}
    with make_store(runs) as store:
        plan = load_plan()
        for name in MARTS:
            query = plan[f"marts.{name}"].query
            with timed(f"marts.{name}", seconds):
                store.execute(f"create or replace table marts.{name} as {query}")
        with timed("decide (190 pairs: intervals, tests, reports)", seconds):
            decide(store, datetime.now(UTC))
    chance = random.Random(1)
    rows = [
        Run(
            f"variant-{i % VARIANTS}",
            f"task-{i // VARIANTS % TASKS}",
            chance.choice(("pass", "pass", "fail", "error")),
            0.001,
            2.0,
            repetition=i // (VARIANTS * TASKS),
        )
        for i in range(runs)
    ]
    with timed("compare_runs, baseline (Python objects)", seconds):
        compare_runs(rows, k=K, baseline="variant-0")
    return seconds


def main(runs: int = 1_000_000) -> None:
    """Print what comparing so many runs takes."""
    found = measure(runs)
    print(f"{runs:,} runs, {VARIANTS} variants, {TASKS} tasks, pass^{K}")
    marts = [found[f"marts.{name}"] for name in MARTS]
    found["the SQL marts together"] = (sum(one[0] for one in marts), sum(one[1] for one in marts))
    for name, (wall, processor) in found.items():
        print(f"  {name:48} {wall:6.2f} s, processor {processor:6.2f} s")
    peak = peak_mb()
    print(f"  peak memory of all of it {peak:,.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
