"""How time, memory and disk grow: with runs, calls, arguments, combinations, and with what is new.

``python -m bench.growth`` measures all of it, ``--only runs`` one table. Every build is of a
project of its own, in a process of its own; nothing in it repeats.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from bench import grow
from bench.processes import build, forget, in_process, write_project

RUNS = (10_000, 100_000, 1_000_000)
CALLS = {1: 60_000, 5: 12_000, 20: 3_000, 50: 1_200, 200: 300}
ARGUMENTS = {1: 10_000, 100: 10_000, 10_000: 2_000, 100_000: 400, 1_000_000: 40}
COMBINATIONS = (1, 4, 16, 64, 256)

_LISTING = """\
import glob, json, os, sys, time
started = time.perf_counter()
files = [os.stat(path) for path in glob.glob(sys.argv[1] + "/runs*.jsonl")]
print(json.dumps({"seconds": time.perf_counter() - started, "files": len(files)}))
"""


def measured(name: str, units: int, report: dict[str, Any], size: int) -> dict[str, Any]:
    """One line: what a build took, in all and for each of ``units``."""
    graded = report["seconds"]["load"] + report["seconds"]["grade"]
    return {
        "name": name,
        "input_mb": size / 1e6,
        "load_and_grade": graded,
        "whole": report["whole"],
        "microseconds_each": report["whole"] / units * 1e6,
        "peak_mb": report["peak_mb"],
        "file_mb": report["file_mb"],
    }


def one(
    folder: Path, name: str, units: int, runs: int, contracts: dict[str, Any], **options: Any
) -> dict[str, Any]:
    """Build a project of so many grown runs; its line."""
    write_project(folder, contracts)
    path = grow.write(folder / "runs.jsonl", runs, **options)
    report = build(folder)
    assert report["pairs_graded"] == report["graded"] == report["runs"]["total"], report
    line = measured(name, units, report, path.stat().st_size)
    path.unlink()
    forget(folder)
    return line


def runs(folder: Path, scale: float) -> list[dict[str, Any]]:
    """10,000 to a million runs, each of its own."""
    lines = []
    for count in (int(count * scale) for count in RUNS):
        lines.append(one(folder / f"{count}", f"{count:,} runs", count, count, grow.gold()))
    return lines


def calls(folder: Path, scale: float) -> list[dict[str, Any]]:
    """60,000 calls in runs of 1 to 200; the unit is a call."""
    return [
        one(
            folder / f"{each}",
            f"{max(1, int(count * scale)):,} runs of {each} calls",
            max(1, int(count * scale)) * each,
            max(1, int(count * scale)),
            grow.gold(),
            calls_per_run=each,
        )
        for each, count in CALLS.items()
    ]


def arguments(folder: Path, scale: float) -> list[dict[str, Any]]:
    """Arguments of 1 B to 1 MB, two calls a run; the unit is a run."""
    return [
        one(
            folder / f"{size}",
            f"{max(1, int(count * scale)):,} runs, arguments of {size:,} B",
            max(1, int(count * scale)),
            max(1, int(count * scale)),
            grow.gold(),
            calls_per_run=2,
            argument_bytes=size,
        )
        for size, count in ARGUMENTS.items()
    ]


def combinations(folder: Path, scale: float) -> list[dict[str, Any]]:
    """1 to 256 combinations; the unit is a run under one combination."""
    count = int(10_000 * scale)
    return [
        one(
            folder / f"{ways}",
            f"{count:,} runs, {ways} combinations",
            count * ways,
            count,
            {"many": grow.many_ways(ways)},
        )
        for ways in COMBINATIONS
    ]


def skew(folder: Path, scale: float) -> list[dict[str, Any]]:
    """Single runs far from all others, among a thousand usual ones; the unit is a call."""
    most, same = int(50_000 * scale), int(5_000 * scale)
    listed = [
        {"tool": "search_nodes", "args": {"query": f"Alice {number}"}} for number in range(20)
    ]
    cases = {
        f"one run of {most:,} calls": (most, grow.gold()["u02"], {}),
        f"one run that calls one tool {same:,} times, 20 expected": (same, listed, {"same": True}),
    }
    lines = []
    for number, (name, (count, gold, options)) in enumerate(cases.items()):
        place = write_project(folder / f"{number}", {"u01": gold})
        with (place / "runs.jsonl").open("wb") as file:
            for row in grow.rows(1_000, tasks=1):
                file.write(orjson.dumps(row) + b"\n")
            [long] = grow.rows(1, seed=8, tasks=1, calls_per_run=count)
            if options:
                long["calls"] = [
                    {"tool": "search_nodes", "args": {"query": f"Alice {at}"}, "result": "[]"}
                    for at in range(count)
                ]
            file.write(orjson.dumps(long | {"repetition": 10**6}) + b"\n")
        report = build(place)
        assert report["graded"] == 1_001, report
        size = (place / "runs.jsonl").stat().st_size
        lines.append(measured(name, count + 3_000, report, size))
    return lines


def increments(folder: Path, scale: float) -> list[dict[str, Any]]:
    """What comes to 100,000 runs: nothing, 1 % more, ten times 1 %, a tenth less."""
    count = int(100_000 * scale)
    few = count // 100
    write_project(folder, grow.gold())
    more = grow.rows(2 * count, seed=5)

    def write(name: str, number: int) -> Path:
        path = folder / name
        with path.open("wb") as file:
            for _, row in zip(range(number), more, strict=False):
                file.write(orjson.dumps(row) + b"\n")
        return path

    size = write("runs.jsonl", count - count // 10).stat().st_size
    tenth = write("runs-tenth.jsonl", count // 10)
    size += tenth.stat().st_size
    lines = [measured(f"{count:,} runs, first build", count, build(folder), size)]
    listing = in_process(_LISTING, str(folder))["seconds"]
    report = build(folder)
    assert report["pairs_graded"] == report["documents"]["read"] == 0, report
    lines.append(measured(f"nothing changed (listing files {listing:.4f} s)", count, report, 0))
    for number in range(10):
        size = write(f"runs-{number}.jsonl", few).stat().st_size
        report = build(folder)
        assert report["pairs_graded"] == few, report
        if number in (0, 9):
            lines.append(measured(f"1 % more, time {number + 1}", few, report, size))
    tenth.unlink()
    report = build(folder)
    assert (report["pairs_graded"], report["runs"]["removed"]) == (0, count // 10), report
    lines.append(measured("a file of a tenth deleted", count // 10, report, 0))
    # What comes and goes leaves no ever larger file behind.
    for number in range(5):
        path = write("runs-passing.jsonl", few // 2)
        build(folder)
        path.unlink()
        report = build(folder)
        assert report["runs"]["removed"] == few // 2, (number, report)
    lines.append(measured("five times something that came and went", few, report, 0))
    return lines


TABLES: dict[str, Callable[[Path, float], list[dict[str, Any]]]] = {
    "runs": runs,
    "calls": calls,
    "arguments": arguments,
    "combinations": combinations,
    "skew": skew,
    "increments": increments,
}
_HEAD = (
    "| | input MB | load and grade s | whole build s | µs each | peak MB | warehouse MB |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
)


def markdown(lines: list[dict[str, Any]]) -> str:
    """Lines as a Markdown table."""
    rows = [
        f"| {line['name']} | {line['input_mb']:,.1f} | {line['load_and_grade']:.2f} |"
        f" {line['whole']:.2f} | {line['microseconds_each']:,.0f} | {line['peak_mb']:,.0f} |"
        f" {line['file_mb']:,.0f} |"
        for line in lines
    ]
    return "\n".join([*_HEAD, *rows]) + "\n"


def measure(folder: Path, scale: float, only: str = "") -> dict[str, list[dict[str, Any]]]:
    """The lines of every table, by its name."""
    found = {}
    for name, table in TABLES.items():
        if only in ("", name):
            started = time.perf_counter()
            found[name] = table(folder / name, scale)
            print(f"\n{table.__doc__} ({time.perf_counter() - started:.0f} s)\n")
            print(markdown(found[name]), flush=True)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", choices=["", *TABLES])
    parser.add_argument("--scale", type=float, default=1.0, help="of every number of runs")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given.scale, given.only)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
