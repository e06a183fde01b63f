"""Measure the targets: this project, the reference library and a bare scan, in turn, in one run.

Every figure is a median of several; ratios are what counts, for machines differ and are shared.
``--smoke`` runs the same on few rows, to see that it runs. Results are written to
``bench/results/`` as JSON and Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from bench import agreement, grow, growth, mixed, regrades
from bench.processes import PROJECT, ROOT, build, forget, in_process, write_project

ORACLE = Path(os.environ.get("TOOLSCORE_ORACLE_PYTHON", ROOT / ".venv-oracle/bin/python"))
# So many runs of each set are held against the reference library's results.
SAMPLE = 2_000
# Calls and arguments as recorded (2.9 calls and 1 KB a run), and larger (6 calls and 6.5 KB a run).
SIZES: dict[str, dict[str, Any]] = {
    "as recorded": {},
    "larger": {"calls_per_run": 6, "argument_bytes": 400},
}
# A build of a million runs takes no more memory.
MOST_MB = 3_000


LARGE = False
LARGE_BYTES, LARGE_RUNS, LARGE_GRADED = 1_000_000_000, 1_000_000, 200_000


def main() -> None:
    """Run the benchmarks that were asked for and print their table."""
    global LARGE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few rows, one turn")
    parser.add_argument("--runs", type=int, default=10_000, help="rows of the main set")
    parser.add_argument("--turns", type=int, default=3, help="turns of each measurement")
    parser.add_argument("--only", default="", help="part of a benchmark's name")
    parser.add_argument(
        "--large",
        action="store_true",
        help="1 GB of mixed traces, 1 million exported records, regrades of 200,000 runs",
    )
    given = parser.parse_args()
    LARGE = given.large
    runs, turns = (300, 1) if given.smoke else (given.runs, given.turns)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, bench in BENCHES.items():
            if given.only in name:
                rows += bench(Path(folder) / name.replace(" ", "-"), runs, turns)
                print(line(rows[-1]), flush=True)
    report = {"machine": machine(), "runs": runs, "turns": turns, "results": rows}
    if not given.smoke:
        results = ROOT / "bench/results"
        results.mkdir(exist_ok=True)
        (results / "latest.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (results / "latest.md").write_text(markdown(report), encoding="utf-8")
    print()
    print(markdown(report))


def machine() -> dict[str, Any]:
    """What it ran on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "duckdb": duckdb.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "commit": commit.stdout.strip(),
    }


def project(folder: Path, runs: int, **options: Any) -> Path:
    """A project on freshly grown run rows, and the gold lists as one file for the reference."""
    write_project(folder, grow.gold())
    (folder / "gold.json").write_text(json.dumps(grow.gold()), encoding="utf-8")
    grow.write(folder / "runs.jsonl", runs, **options)
    return folder


def oracle(folder: Path) -> tuple[float, list[dict[str, Any]]]:
    """Seconds that the reference library takes for the rows of a project, and a sample of them."""
    files = [folder / name for name in ("runs.jsonl", "gold.json")]
    done = subprocess.run(
        [ORACLE, ROOT / "bench/reference.py", *files, str(SAMPLE)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    return float(answer["seconds"]), answer["sample"]


def scan(folder: Path) -> float:
    """Seconds that a bare DuckDB scan of the same file takes."""
    with duckdb.connect(":memory:") as connection:
        started = time.perf_counter()
        connection.execute(
            "select count(*), sum(length(calls::varchar)), sum(length(final_answer))"
            " from read_json($1, format = 'newline_delimited', columns = {task_id: 'varchar',"
            " arm_id: 'varchar', calls: 'json[]', final_answer: 'varchar', cost_usd: 'double'})",
            [str(folder / "runs.jsonl")],
        ).fetchall()
        return time.perf_counter() - started


def grading(
    folder: Path, runs: int, turns: int, *, name: str, goal: float, **options: Any
) -> list[dict[str, Any]]:
    """A JSON Lines file of run rows into a new warehouse with every table."""
    project(folder, runs, **options)
    ours, whole, theirs, bare, peaks = [], [], [], [], []
    for _ in range(turns):
        seconds_taken, sample = oracle(folder)
        theirs.append(seconds_taken)
        bare.append(scan(folder))
        forget(folder)
        report = build(folder)
        agreement.compare(folder / "warehouse.duckdb", sample)
        ours.append(report["seconds"]["load"] + report["seconds"]["grade"])
        whole.append(report["whole"])
        peaks.append(report["peak_mb"])
    return [
        row(f"{name}: load and grade", runs, ours, theirs, bare, goal, max(peaks)),
        row(f"{name}: whole build", runs, whole, theirs, bare, None, max(peaks)),
    ]


def nothing_repeats(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Every run different."""
    rows = []
    for size, options in SIZES.items():
        name = f"nothing repeats, {size}"
        rows += grading(folder / size, runs, turns, name=name, goal=8, **options)
    return rows


def realistic_repeats(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Two of three runs repeat the calls and the answer of another."""
    rows = []
    for size, options in SIZES.items():
        name = f"realistic repeats, {size}"
        rows += grading(folder / size, runs, turns, name=name, goal=20, repeat=0.67, **options)
    return rows


def regrade(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Stored evidence under changed weights, and unchanged."""
    rows = []
    for size, options in SIZES.items():
        place = project(folder / size, runs, **options)
        build(place)
        theirs, changed, unchanged = [], [], []
        for turn in range(turns):
            theirs.append(oracle(place)[0])
            (place / "toolscore.yaml").write_text(
                PROJECT + f"grading: {{weights: {{required_call_recall: 0.{turn + 1}}}}}\n",
                encoding="utf-8",
            )
            report = build(place)
            assert report["pairs_graded"] == runs
            changed.append(report["seconds"]["grade"])
            again = build(place)
            assert again["pairs_graded"] == 0
            unchanged.append(again["whole"])
        rows += [
            row(f"regrade, {size}: changed weights", runs, changed, theirs, None, 20, None),
            row(f"regrade, {size}: unchanged", runs, unchanged, theirs, None, None, None),
        ]
    return rows


def regrade_warehouse(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Regrades of a warehouse with 50 contracts; how many pairs each re-scores is asserted."""
    count = LARGE_GRADED if LARGE or runs >= 10_000 else runs
    found = regrades.measure(folder, count, turns)
    goals = {"nothing changed": 1.0}
    return [
        row(
            f"warehouse regrade: {name}, {one['pairs']:,} pairs"
            f" ({one['processor']:.2f} s of processor)",
            count,
            [one["seconds"]],
            None,
            None,
            None,
            one["peak_mb"],
            goal_seconds=goals.get(name),
        )
        for name, one in found.items()
    ]


def one_run(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """One ``evaluate()`` on a warm process, a hundred at once, and the command as a whole."""
    from toolscore_pipeline import evaluate, evaluate_many

    [sample] = grow.rows(1, calls_per_run=3)
    gold, calls = grow.gold()["u02"], sample["calls"]
    evaluate(gold, calls)
    single = [seconds(lambda: evaluate(gold, calls)) for _ in range(10 * turns)]
    hundred = [seconds(lambda: evaluate_many([(gold, calls)] * 100)) for _ in range(3 * turns)]
    examples = ROOT / "examples/contracts"
    command = [
        sys.executable, "-m", "toolscore_pipeline", "eval",
        str(examples / "contract.json"), str(examples / "trace.json"), "--quiet",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    whole = [
        seconds(lambda: subprocess.run(command, env=environment, check=True, cwd=ROOT))
        for _ in range(3 * turns)
    ]
    return [
        row("one evaluate()", 1, single, None, None, None, None, goal_seconds=0.025),
        row("evaluate_many() of 100", 100, hundred, None, None, None, None, goal_seconds=0.07),
        row("toolscore eval, whole process", 1, whole, None, None, None, None, goal_seconds=1),
    ]


def honest_answers(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """The text checks over distinct answers, one in ten beside a failed call; CPU seconds."""
    from toolscore_pipeline.udfs.honesty import _judge

    texts = []
    for sample in grow.rows(runs, seed=3):
        calls = [
            {"index": i, **call, "has_result": True, "is_failed": call["is_error"]}
            for i, call in enumerate(sample["calls"])
        ]
        texts.append((sample["final_answer"], json.dumps(calls)))
    _judge(*texts[0], None, None)
    taken = [
        cpu_seconds(lambda: [_judge(answer, calls, None, None) for answer, calls in texts])
        for _ in range(turns)
    ]
    return [
        row("honesty checks of answers, CPU", runs, taken, None, None, None, None, goal_rate=5000)
    ]


def many_combinations(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """A contract of 256 combinations."""
    write_project(folder, {"many": grow.many_ways(256)})
    grow.write(folder / "runs.jsonl", runs)
    taken, peaks = [], []
    for _ in range(turns):
        forget(folder)
        report = build(folder)
        taken.append(report["whole"])
        peaks.append(report["peak_mb"])
    return [row("256 combinations, whole build", runs, taken, None, None, None, max(peaks))]


def mixed_traces(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Traces of several formats into Arrow, beside a bare scan of the same bytes."""
    size = mixed.write(folder, LARGE_BYTES if LARGE else runs * 3_000)
    program = (
        "import json, sys, time\n"
        "from bench import peak_mb\n"
        "from pathlib import Path\n"
        "from toolscore_pipeline.loading import Source, load_documents\n"
        "started, runs, rejects = time.perf_counter(), 0, 0\n"
        "source = Source(name='mixed', path='*.json*', root=Path(sys.argv[1]))\n"
        "for batch in load_documents([source]):\n"
        "    runs += batch.runs.num_rows\n"
        "    rejects += batch.rejects.num_rows\n"
        "seconds = time.perf_counter() - started\n"
        "peak = peak_mb()\n"
        "found = {'runs': runs, 'rejects': rejects, 'seconds': seconds, 'peak_mb': peak}\n"
        "print(json.dumps(found))\n"
    )
    ours, bare, peak, count = [], [], 0.0, 0
    for _ in range(turns):
        with duckdb.connect(":memory:") as connection:
            bare.append(
                seconds(
                    lambda: connection.execute(
                        "select sum(length(content)) from read_text($1)", [f"{folder}/*.json*"]
                    ).fetchall()
                )
            )
        report = in_process(program, str(folder))
        assert report["rejects"] == 0
        ours.append(report["seconds"])
        peak, count = max(peak, report["peak_mb"]), report["runs"]
    rate = statistics.median(ours) / size * 1e9
    name = f"load {size / 1e6:,.0f} MB of mixed traces ({rate:.0f} ns a byte)"
    return [row(name, count, ours, None, bare, None, peak)]


def export_records(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Run records of a graded warehouse."""
    project(folder, runs)
    build(folder)
    copies = LARGE_RUNS // runs if LARGE else 1
    count = multiply(folder / "warehouse.duckdb", copies)
    program = (
        "import json, sys, time, duckdb\n"
        "from bench import peak_mb\n"
        "from toolscore_pipeline.export.warehouse import export_store\n"
        "store = duckdb.connect(sys.argv[1])\n"
        "started = time.perf_counter()\n"
        "export_store(store, sys.argv[2])\n"
        "seconds = time.perf_counter() - started\n"
        "peak = peak_mb()\n"
        "print(json.dumps({'seconds': seconds, 'peak_mb': peak}))\n"
    )
    taken, peak = [], 0.0
    for _ in range(1 if LARGE else turns):
        report = in_process(
            program, str(folder / "warehouse.duckdb"), str(folder / "records.jsonl")
        )
        taken.append(report["seconds"])
        peak = max(peak, report["peak_mb"])
    # Records stream: their number does not change what is held at a time.
    assert peak < 1_000, f"the export took {peak:,.0f} MB"
    return [row("export run records", count, taken, None, None, None, peak)]


def multiply(path: Path, copies: int) -> int:
    """Lay copies of every run, with its calls and grades, into a warehouse; returns the runs."""
    with duckdb.connect(str(path)) as connection:
        for name in (
            "evidence.runs",
            "evidence.calls",
            "grades.grades",
            "grades.checks",
            "grades.metrics",
            "marts.latest_grades",
        ):
            if copies > 1:
                connection.execute(
                    f"insert into {name}"
                    " select stored.* replace (stored.run_id || '-' || copy.i as run_id)"
                    f" from {name} as stored, range(1, {int(copies)}) as copy(i)"
                )
        row = connection.execute("select count(*) from evidence.runs").fetchone()
    return int(row[0]) if row else 0


def comparing(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """20 variants over 500 tasks, as SQL marts and as Python."""
    count = LARGE_RUNS if LARGE or runs >= 10_000 else 20_000
    program = (
        "import json, sys\n"
        "from bench import peak_mb\n"
        "from bench.comparisons import measure\n"
        "found = measure(int(sys.argv[1]))\n"
        "peak = peak_mb()\n"
        "print(json.dumps({'found': found, 'peak_mb': peak}))\n"
    )
    report = in_process(program, str(count))
    return [
        row(
            f"compare: {name}",
            count,
            [taken[0]],
            None,
            None,
            None,
            report["peak_mb"],
            goal_seconds=5,
        )
        for name, taken in report["found"].items()
    ]


def growing(folder: Path, runs: int, turns: int) -> list[dict[str, Any]]:
    """Builds of 10,000, 100,000 and 1,000,000 runs; see ``bench.growth`` for what else grows."""
    lines = growth.runs(folder, 1 if runs >= 10_000 else 0.001)
    assert max(line["peak_mb"] for line in lines) < MOST_MB, lines
    return [
        row(
            f"growth: {line['name']}, whole build",
            round(line["whole"] / line["microseconds_each"] * 1e6),
            [line["whole"]],
            None,
            None,
            None,
            line["peak_mb"],
        )
        for line in lines
    ]


BENCHES: dict[str, Callable[[Path, int, int], list[dict[str, Any]]]] = {
    "nothing repeats": nothing_repeats,
    "realistic repeats": realistic_repeats,
    "regrade": regrade,
    "warehouse regrade": regrade_warehouse,
    "one run": one_run,
    "honesty": honest_answers,
    "256 combinations": many_combinations,
    "mixed traces": mixed_traces,
    "export": export_records,
    "comparisons": comparing,
    "growth": growing,
}


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call: what others do on the machine does not count."""
    started = time.process_time()
    work()
    return time.process_time() - started


def row(
    name: str,
    runs: int,
    ours: list[float],
    theirs: list[float] | None,
    bare: list[float] | None,
    goal: float | None,
    peak_mb: float | None,
    *,
    goal_seconds: float | None = None,
    goal_rate: float | None = None,
) -> dict[str, Any]:
    """One line of the table: medians, rates and ratios."""
    mine = statistics.median(ours)
    return {
        "name": name,
        "runs": runs,
        "seconds": mine,
        "runs_per_second": runs / mine,
        "times_oracle": statistics.median(theirs) / mine if theirs else None,
        "times_scan": mine / statistics.median(bare) if bare else None,
        "peak_mb": peak_mb,
        "goal": (
            f"{goal:g} x the reference"
            if goal
            else f"{goal_seconds:g} s"
            if goal_seconds
            else f"{goal_rate:g} a second"
            if goal_rate
            else ""
        ),
    }


def line(entry: dict[str, Any]) -> str:
    """One result as a line of text."""
    return f"{entry['name']}: {entry['seconds']:.3f} s, {entry['runs_per_second']:,.0f} a second"


def markdown(report: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    machine_line = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    lines = [
        f"Machine: {machine_line}. Medians of {report['turns']}.",
        "",
        "| work | seconds | runs a second | x reference | x bare scan | peak MB | goal |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for entry in report["results"]:
        lines.append(
            f"| {entry['name']} | {entry['seconds']:.3f} | {entry['runs_per_second']:,.0f} |"
            f" {shown(entry['times_oracle'])} | {shown(entry['times_scan'])} |"
            f" {shown(entry['peak_mb'], 0)} | {entry['goal']} |"
        )
    return "\n".join(lines) + "\n"


def shown(value: float | None, digits: int = 1) -> str:
    """A figure, or nothing."""
    return "" if value is None else f"{value:,.{digits}f}"


if __name__ == "__main__":
    main()
