"""Regrades of a warehouse: nothing changed, one of 50 contracts edited, tried only, a source gone.

`python -m bench.regrades --runs 200000` measures this alone. How many pairs were graded again is
asserted: a regrade that does more than it has to fails here, whatever its time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import orjson

from bench import grow
from bench.processes import in_process, write_project

CONTRACTS = 50
PROJECT = """\
sources:
  - {name: runs, path: "runs/*.jsonl"}
contracts: ["contracts/*.json"]
"""
PROGRAM = """\
import json, sys, time
from bench import peak_mb
from toolscore_pipeline.pipeline import build
from toolscore_pipeline.project import open_project
from toolscore_pipeline.regrades import regrade_warehouse
project = open_project(sys.argv[1])
started, worked = time.perf_counter(), time.process_time()
if sys.argv[2] == "build":
    report = build(project)
    found = {"pairs": report.pairs_graded, "removed": report.runs_removed, "changes": 0}
else:
    report = regrade_warehouse(project, dry_run=sys.argv[2] == "dry-run")
    found = {"pairs": report.pairs_rescored, "removed": 0, "changes": len(report.changes)}
found["seconds"] = time.perf_counter() - started
found["processor"] = time.process_time() - worked
print(json.dumps(found | {"peak_mb": peak_mb()}))
"""


def make(folder: Path, runs: int) -> None:
    """A project of 50 tasks with a contract each, and a fifth of the runs in a file apart."""
    write_project(folder, {}, PROJECT)
    (folder / "runs").mkdir()
    for number in range(CONTRACTS):
        edit(folder, number, ["search_nodes"])
    most, few = folder / "runs/most.jsonl", folder / "runs/few.jsonl"
    with most.open("wb") as more, few.open("wb") as fewer:
        for number, row in enumerate(grow.rows(runs)):
            row |= {"task_id": f"t{number % CONTRACTS:02}", "repetition": number // CONTRACTS}
            (fewer if is_few(number) else more).write(orjson.dumps(row) + b"\n")


def is_few(number: int) -> bool:
    """Whether a run is in the smaller file, the one that is deleted: one of five of each task."""
    return number // CONTRACTS % 5 == 4


def edit(folder: Path, number: int, tools: list[str]) -> None:
    """Write one contract: a call of each of these tools and one other."""
    gold = [{"tool": tool} for tool in (*tools, "add_observations")]
    path = folder / f"contracts/t{number:02}.json"
    path.write_text(json.dumps(gold), encoding="utf-8")


def run(folder: Path, what: str) -> dict[str, Any]:
    """Build or regrade in a process of its own; seconds count from after its start-up."""
    return in_process(PROGRAM, str(folder), what)


def measure(folder: Path, runs: int, turns: int) -> dict[str, dict[str, Any]]:
    """What each kind of regrade takes, by name.

    Each has ``seconds`` and ``processor`` (medians, in seconds), ``pairs`` and ``peak_mb``.

    Args:
        folder: an empty folder for the project.
        runs: how many runs; a multiple of 250 spreads them evenly.
        turns: how often each is measured; the source can go only once.
    """
    make(folder, runs)
    own = sum(number % CONTRACTS == 7 for number in range(runs))
    few = sum(map(is_few, range(runs)))
    first = run(folder, "build")
    assert first["pairs"] == runs, first
    taken: dict[str, list[dict[str, Any]]] = {"first build": [first]}
    for turn in range(turns):
        unchanged = run(folder, "regrade")
        assert (unchanged["pairs"], unchanged["changes"]) == (0, 0), unchanged
        # What others do on the machine does not count against it.
        assert unchanged["processor"] < 1, unchanged
        edit(folder, 7, ["create_relations"] * (turn + 1))
        tried = run(folder, "dry-run")
        edited = run(folder, "regrade")
        # Tried first, and all the same still to be done; then done.
        assert tried["pairs"] == edited["pairs"] == own, (tried, edited)
        assert 0 < tried["changes"] == edited["changes"] <= own, (tried, edited)
        for name, found in (
            ("nothing changed", unchanged),
            ("one of 50 contracts edited, dry run", tried),
            ("one of 50 contracts edited", edited),
        ):
            taken.setdefault(name, []).append(found)
    (folder / "runs/few.jsonl").unlink()
    gone = run(folder, "build")
    assert (gone["pairs"], gone["removed"]) == (0, few), gone
    taken["a file of a fifth deleted, build"] = [gone]
    return {
        name: {
            "seconds": statistics.median(found["seconds"] for found in each),
            "processor": statistics.median(found["processor"] for found in each),
            "pairs": each[0]["pairs"],
            "peak_mb": max(found["peak_mb"] for found in each),
        }
        for name, each in taken.items()
    }


def main() -> None:
    """Print what each kind of regrade takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, found in measure(Path(folder) / "p", given.runs, given.turns).items():
            print(
                f"{name:40} {found['seconds']:8.2f} s, processor {found['processor']:8.2f} s"
                f" {found['pairs']:9,} pairs {found['peak_mb']:7,.0f} MB"
            )


if __name__ == "__main__":
    main()
