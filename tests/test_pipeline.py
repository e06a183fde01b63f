"""Building a warehouse: what is added, what is left alone, and what a death in between leaves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from tests.project_helpers import CONTRACT, ask, make_project, rebuild, rows, write_rows
from toolscore_pipeline import api, pipeline, warehouse
from toolscore_pipeline.contract import load_contract
from toolscore_pipeline.errors import (
    ContractError,
    InputError,
    WarehouseError,
    WarehouseLockedError,
)
from toolscore_pipeline.project import load_project
from toolscore_pipeline.verify import verify
from toolscore_pipeline.warehouse import Warehouse

ROOT = Path(__file__).resolve().parent.parent


def hashes(folder: Path) -> dict[str, str]:
    with Warehouse(folder / "warehouse.duckdb").open() as session:
        return session.content_hashes()


def test_a_build_loads_grades_and_publishes_every_run(tmp_path):
    folder = make_project(tmp_path / "p", 40)
    report = rebuild(folder)
    assert (report.runs_added, report.pairs_graded, report.runs, report.graded) == (40,) * 4
    assert report.published
    assert ask(folder, "select count(*) from evidence.calls") == [
        (sum(len(row["calls"]) for row in rows(40)),)
    ]


def test_the_warehouse_and_the_python_api_give_the_same_scores(tmp_path):
    folder = make_project(tmp_path / "p", 60)
    rebuild(folder)
    contract = load_contract(folder / "contracts/one.yaml")
    made = rows(60)
    expected = api.evaluate_many([(contract, row["calls"]) for row in made])
    stored = dict(
        ask(
            folder,
            "select replace(locator, 'line ', '')::integer, score"
            " from marts.latest_grades order by 1",
        )
    )
    assert len(stored) == 60
    assert {number + 1: result.score for number, result in enumerate(expected)} == stored


def test_a_second_build_of_unchanged_inputs_grades_nothing_and_says_so(tmp_path):
    folder = make_project(tmp_path / "p")
    rebuild(folder)
    before = hashes(folder)
    said: list[str] = []
    report = rebuild(folder, say=said.append)
    assert (report.pairs_graded, report.runs_added, report.marts_built, report.published) == (
        0,
        0,
        [],
        False,
    )
    assert said == ["nothing changed: 1 document, 40 runs, 0 of 40 grades made anew"]
    assert hashes(folder) == before


def test_a_contract_that_went_is_a_change_although_nothing_is_graded(tmp_path):
    folder = make_project(tmp_path / "p")
    rebuild(folder)
    (folder / "contracts/two.yaml").unlink()
    said: list[str] = []
    report = rebuild(folder, say=said.append)
    assert (report.pairs_graded, report.graded) == (0, 20)
    assert said == [
        "0 documents read, 0 runs added, 0 removed, 0 records set aside; 0 grades made, 20 in all"
    ]


def test_new_rows_are_graded_and_old_ones_keep_their_grades(tmp_path):
    folder = make_project(tmp_path / "p")
    rebuild(folder)
    old = set(ask(folder, "select run_id, grade_id from grades.grades"))
    write_rows(folder / "runs/first.jsonl", rows(40) + rows(10, start=40))
    report = rebuild(folder)
    assert (report.runs_added, report.runs_removed, report.pairs_graded) == (10, 0, 10)
    assert old < set(ask(folder, "select run_id, grade_id from grades.grades"))


def test_a_changed_contract_regrades_its_own_task_only(tmp_path):
    folder = make_project(tmp_path / "p")
    rebuild(folder)
    (folder / "contracts/one.yaml").write_text(CONTRACT + "min_score: 0.5\n", encoding="utf-8")
    report = rebuild(folder)
    assert (report.judgments_added, report.pairs_graded) == (1, 20)
    # The old grades stay beside the new ones; the marts show the new.
    assert ask(folder, "select count(*) from grades.grades") == [(60,)]
    assert ask(folder, "select count(*) from marts.latest_grades") == [(40,)]


def test_a_comment_in_a_contract_changes_nothing(tmp_path):
    folder = make_project(tmp_path / "p")
    rebuild(folder)
    (folder / "contracts/one.yaml").write_text("# a remark\n" + CONTRACT, encoding="utf-8")
    report = rebuild(folder)
    assert (report.judgments_added, report.pairs_graded) == (0, 0)


def test_a_file_that_is_gone_takes_its_runs_with_it_and_a_moved_one_keeps_them(tmp_path):
    folder = make_project(tmp_path / "p")
    write_rows(folder / "runs/second.jsonl", rows(8, seed=2, start=100))
    rebuild(folder)
    (folder / "runs/second.jsonl").rename(folder / "runs/third.jsonl")
    moved = rebuild(folder)
    assert (moved.runs, moved.pairs_graded) == (48, 0)
    assert ask(folder, "select count(*) from evidence.runs where path like '%third.jsonl'") == [
        (8,)
    ]
    (folder / "runs/third.jsonl").unlink()
    gone = rebuild(folder)
    assert (gone.runs, gone.runs_removed, gone.pairs_graded) == (40, 8, 0)


def test_the_same_file_twice_adds_nothing(tmp_path):
    folder = make_project(tmp_path / "p")
    rebuild(folder)
    (folder / "runs/copy.jsonl").write_bytes((folder / "runs/first.jsonl").read_bytes())
    report = rebuild(folder)
    assert (report.runs, report.runs_added) == (40, 0)


def test_two_files_with_the_same_bytes_are_one_in_the_first_build_too(tmp_path):
    folder = make_project(tmp_path / "p", 12)
    (folder / "runs/copy.jsonl").write_bytes((folder / "runs/first.jsonl").read_bytes())
    report = rebuild(folder)
    assert (report.runs, report.runs_added, report.pairs_graded) == (12, 12, 12)
    (folder / "runs/first.jsonl").unlink()
    assert rebuild(folder).runs == 12


def test_a_file_that_is_touched_keeps_all_that_was_read_of_it(tmp_path):
    folder = make_project(tmp_path / "p", 12)
    with (folder / "runs/first.jsonl").open("a", encoding="utf-8") as file:
        file.write("{torn\n")
    (folder / "runs/bad.jsonl").write_bytes(b"\xff\xfe\x00nonsense")
    rebuild(folder)
    kept = "select * exclude (modified_ns) from raw.documents order by path"
    times = "select modified_ns from raw.documents order by path"
    before, rejects = ask(folder, kept), ask(folder, "select * from raw.rejects order by all")
    for number, name in enumerate(("bad", "first")):
        os.utime(folder / f"runs/{name}.jsonl", ns=(number + 1, number + 1))
    assert rebuild(folder).documents_read == 0
    assert ask(folder, kept) == before
    assert ask(folder, "select * from raw.rejects order by all") == rejects
    assert ask(folder, times) == [(1,), (2,)]
    assert verify(load_project(folder / "toolscore.yaml").root).is_whole


def test_a_run_that_hit_its_limit_does_not_pass(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    made = rows(8, seed=4)
    for row in made:
        row["status"] = "limit_reached"
    write_rows(folder / "runs/first.jsonl", made)
    rebuild(folder)
    assert ask(folder, "select distinct outcome from marts.latest_grades") == [("fail",)]


def test_a_bad_record_is_set_aside_and_the_others_load(tmp_path):
    folder = make_project(tmp_path / "p", 12)
    path = folder / "runs/first.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] = '{"task_id": "one", "calls": ['
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = rebuild(folder)
    assert (report.runs_added, report.rejects) == (11, 1)
    [(line, reason)] = ask(folder, "select line, reason from raw.rejects")
    assert line == 5
    assert reason
    assert any("first.jsonl:5" in problem for problem in report.problems)


def test_a_file_that_cannot_be_read_stays_in_the_population_as_an_error(tmp_path):
    folder = make_project(tmp_path / "p", 8)
    (folder / "runs/torn.jsonl").write_bytes(b"\xff\xfe\x00nonsense")
    report = rebuild(folder)
    # Its place is named once, and so is the file.
    assert [problem.split(": ")[0] for problem in report.problems] == ["runs/torn.jsonl:1"]
    assert ask(
        folder, "select count(*) from evidence.runs where status = 'error' and path like '%torn%'"
    ) == [(1,)]
    assert ask(folder, "select count(*) from evidence.runs where status = 'completed'") == [(8,)]


@pytest.mark.parametrize("size", [1, 7])
def test_results_depend_on_no_number_of_threads_nor_chunks_nor_shared_cases(
    tmp_path, monkeypatch, size
):
    def cases(report):
        return sum(timing.rows for timing in report.timings if timing.model == "work.cases")

    first, second = make_project(tmp_path / "p", 24), make_project(tmp_path / "q", 24)
    together = cases(rebuild(first, threads=1))
    monkeypatch.setattr(pipeline, "CHUNK_PAIRS", size)
    apart = cases(rebuild(second, threads=2))
    # Runs that no formula tells apart are scored once, a pair at a time each on its own.
    assert together < 12
    assert apart == 24 if size == 1 else together < apart < 24
    for name in ("grades.grades", "grades.metrics", "grades.checks", "marts.variant_stats"):
        assert sorted(map(repr, ask(first, f"select * from {name}"))) == sorted(
            map(repr, ask(second, f"select * from {name}"))
        )


def test_a_regrade_in_chunks_reads_each_chunks_part_of_the_file(tmp_path, monkeypatch):
    whole, parts = make_project(tmp_path / "whole", 60), make_project(tmp_path / "parts", 60)
    for folder in (whole, parts):
        # Runs without calls among them, and two contracts for half of the runs.
        others = rows(20, seed=2, start=60)
        for number, row in enumerate(others):
            row["calls"] = row["calls"] if number % 3 else []
        write_rows(folder / "runs/second.jsonl", others)
        (folder / "contracts/all.yaml").write_text(CONTRACT + 'task: "o*"\n', encoding="utf-8")
        rebuild(folder)
        for name, more in (("one", "min_score: 0.5\n"), ("all", 'task: "o*"\nmin_score: 0.6\n')):
            (folder / f"contracts/{name}.yaml").write_text(CONTRACT + more, encoding="utf-8")
    rebuild(whole)
    monkeypatch.setattr(pipeline, "CHUNK_PAIRS", 7)
    spans: list[int] = []
    is_near = warehouse._is_near

    def note(name, pairs):
        condition = is_near(name, pairs)
        if name == "evidence.runs":
            low, high = map(int, condition.removeprefix("stored.rowid between ").split(" and "))
            spans.append(high - low + 1)
        return condition

    monkeypatch.setattr(warehouse, "_is_near", note)
    assert rebuild(parts).pairs_graded == 80
    assert hashes(parts) == hashes(whole)
    # Seven pairs are at most seven runs of "one", every second in the file.
    assert len(spans) == 12
    assert max(spans) <= 14


@pytest.mark.slow
def test_a_build_killed_at_any_moment_is_completed_by_the_next(tmp_path):
    reference = make_project(tmp_path / "reference", 400)
    started = time.monotonic()
    rebuild(reference)
    seconds = time.monotonic() - started
    expected = hashes(reference)
    rng = random.Random(5)
    for attempt in range(6):
        folder = make_project(tmp_path / f"killed-{attempt}", 400)
        process = subprocess.Popen(
            [sys.executable, "-m", "toolscore_pipeline", "build", "--quiet"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0.3, seconds + 2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (folder / "warehouse.duckdb").is_file():
            with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
                connection.execute("select count(*) from duckdb_tables()").fetchall()
        rebuild(folder)
        assert hashes(folder) == expected
        left = [path.name for path in folder.iterdir() if path.name.endswith(".new")]
        assert left == []


def test_a_warehouse_held_by_another_process_is_waited_for_and_then_named(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    rebuild(folder)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-uc",
            "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held'); sys.stdin.read()",
            str(folder / "warehouse.duckdb"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(
            WarehouseLockedError, match=rf"process {holder.pid} holds the warehouse"
        ):
            rebuild(folder, lock_seconds=0.3)
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    assert rebuild(folder, lock_seconds=5).pairs_graded == 0


def test_a_file_that_is_no_warehouse_is_refused_in_a_sentence(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    (folder / "warehouse.duckdb").write_bytes(b"not a database at all" * 1000)
    with pytest.raises(WarehouseError) as caught:
        rebuild(folder)
    assert str(folder / "warehouse.duckdb") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reader_of_the_published_copy_never_fails_while_it_is_replaced(tmp_path):
    folder = make_project(tmp_path / "p", 20)
    rebuild(folder)
    program = (
        "import duckdb, sys, time\n"
        "end, count = time.monotonic() + float(sys.argv[2]), 0\n"
        "while time.monotonic() < end:\n"
        "    with duckdb.connect(sys.argv[1], read_only=True) as c:\n"
        "        assert c.execute('select count(*) from grades.grades').fetchone()[0] >= 20\n"
        "    count += 1\n"
        "print(count)\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", program, str(folder / "warehouse.published.duckdb"), "6"],
        stdout=subprocess.PIPE,
        text=True,
    )
    for number in range(4):
        write_rows(folder / f"runs/more-{number}.jsonl", rows(4, start=1000 + 10 * number))
        rebuild(folder)
    output, _ = reader.communicate()
    assert reader.returncode == 0
    assert int(output) > 3


def test_no_connection_draws_a_bar_of_progress(tmp_path):
    # A program without a file is taken for one at a terminal, and would draw bars into its output.
    folder = make_project(tmp_path / "p", 4)
    rebuild(folder)
    program = (
        "import sys\n"
        "from toolscore_pipeline.runner import Engine\n"
        "from toolscore_pipeline.warehouse import Warehouse\n"
        "warehouse = Warehouse(sys.argv[1])\n"
        "asked = \"select current_setting('enable_progress_bar')\"\n"
        "with warehouse.open() as session, Engine() as engine, warehouse.read() as reader:\n"
        "    for one in (session.store, session.engine.connection, engine.connection, reader):\n"
        "        print(one.execute(asked).fetchone()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "warehouse.duckdb")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False"] * 4


def test_publishing_keeps_the_hold_on_the_file(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    rebuild(folder)
    program = "import duckdb, sys; duckdb.connect(sys.argv[1])"
    with Warehouse(folder / "warehouse.duckdb").open() as session:
        session.publish()
        other = subprocess.run(
            [sys.executable, "-c", program, str(folder / "warehouse.duckdb")],
            capture_output=True,
            text=True,
        )
        assert "Could not set lock on file" in other.stderr
        session.set_state("still", "writing")
    assert Warehouse(folder / "warehouse.duckdb").published_state("still") is None


@pytest.mark.parametrize("way", ["copied", "full of holes", "no cp"])
def test_the_published_copy_is_the_same_however_it_is_written(tmp_path, monkeypatch, way):
    folder = make_project(tmp_path / "p", 12)
    rebuild(folder)
    if way == "no cp":
        monkeypatch.setattr("shutil.which", lambda name: None)
    with Warehouse(folder / "warehouse.duckdb").open() as session:
        if way == "full of holes":
            session.store.execute(
                "create table raw.ballast as select i, md5(i::varchar) from range(300000) r(i)"
            )
            session.store.execute("force checkpoint")
            session.store.execute("drop table raw.ballast")
        session.set_state("published", way)
        session.publish()
        expected = session.content_hashes()
    # The next session works on the copy: it holds what the warehouse holds.
    (folder / "warehouse.published.duckdb").rename(tmp_path / "copy.duckdb")
    with Warehouse(tmp_path / "copy.duckdb").open() as session:
        assert session.content_hashes() == expected
        assert session.state("published") == way
    grown = (folder / "warehouse.duckdb").stat().st_size
    if way == "full of holes":
        assert (tmp_path / "copy.duckdb").stat().st_size < 0.8 * grown


BAD_PROJECTS = {
    "unknown key": ("sorces: []\n", r"toolscore\.yaml:1: at \$\.sorces: .*did you mean 'sources'"),
    "two kinds of source": (
        "sources:\n  - {name: x, path: a, query: b.sql}\n",
        r"toolscore\.yaml:2: .*a path or a query, and only one",
    ),
    "unknown weight": (
        "grading: {weights: {required_call_recal: 0.3}}\n",
        r"toolscore\.yaml:1: .*required_call_recall",
    ),
    "negative weight": ("grading: {weights: {argument_f1: -1}}\n", r"toolscore\.yaml:1: .*-1"),
    "missing query": (
        "sources: [{name: x, query: nope.sql}]\n",
        r"cannot read the query file nope\.sql: No such file",
    ),
    "SQL where a file is meant": (
        'sources: [{name: x, query: "select 1"}]\n',
        r"cannot read the query file select 1: .*; 'query' names a file with the SQL in it",
    ),
    "bad cron": ("regrade: {cron: daily}\n", r"five fields of a cron schedule, .*got 'daily'"),
}


@pytest.mark.parametrize(("text", "message"), BAD_PROJECTS.values(), ids=BAD_PROJECTS)
def test_a_wrong_project_file_is_refused_with_line_and_name(tmp_path, text, message):
    (tmp_path / "toolscore.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ContractError, match=message):
        load_project(tmp_path / "toolscore.yaml")


def test_every_problem_of_a_project_file_is_told_at_once(tmp_path):
    (tmp_path / "toolscore.yaml").write_text("sorces: []\nexport: []\n", encoding="utf-8")
    with pytest.raises(ContractError) as caught:
        load_project(tmp_path / "toolscore.yaml")
    assert [problem.line for problem in caught.value.problems] == [1, 2]


def test_a_query_source_without_calls_is_refused_by_the_name_of_the_column(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    (folder / "lake.sql").write_text("select 'one' as task, 1 as x", encoding="utf-8")
    (folder / "toolscore.yaml").write_text(
        'sources: [{name: lake, query: lake.sql}]\ncontracts: ["contracts/*.yaml"]\n',
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=r"'calls'"):
        rebuild(folder)


def test_a_query_source_that_selects_nothing_is_refused(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    (folder / "lake.sql").write_text("create table t as select 1 as x", encoding="utf-8")
    (folder / "toolscore.yaml").write_text(
        'sources: [{name: lake, query: lake.sql}]\ncontracts: ["contracts/*.yaml"]\n',
        encoding="utf-8",
    )
    # DuckDB 2 answers such a statement with a count, which is no run.
    with pytest.raises(InputError, match=r"'lake' is no SELECT|the columns are: Count"):
        rebuild(folder)


def test_a_query_source_loads_rows_and_keeps_other_columns(tmp_path):
    folder = make_project(tmp_path / "p", 4)
    calls = json.dumps([{"tool": "search", "args": {"q": "tea"}}, {"tool": "save", "args": {}}])
    (folder / "lake.sql").write_text(
        f"select 'one' as task, 'v' as variant, i as repetition, '{calls}' as calls,"
        " 'red' as colour from range(3) as r(i)",
        encoding="utf-8",
    )
    (folder / "toolscore.yaml").write_text(
        'sources: [{name: lake, query: lake.sql}]\ncontracts: ["contracts/*.yaml"]\n',
        encoding="utf-8",
    )
    assert rebuild(folder).runs_added == 3
    assert ask(
        folder, "select distinct attributes_json ->> 'colour', variant from evidence.runs"
    ) == [("red", "v")]
    again = rebuild(folder)
    assert (again.runs_added, again.runs_removed, again.pairs_graded) == (0, 0, 0)


def test_a_judgment_of_many_combinations_is_graded_in_smaller_chunks(tmp_path, monkeypatch):
    folder = make_project(tmp_path / "p", 20)
    options = "[[{tool: search}], [{tool: save}]]"
    groups = ", ".join(f"{{id: g{number}, alternatives: {options}}}" for number in range(4))
    (folder / "contracts/one.yaml").write_text(
        f"contract_version: 2\nrequired: [{groups}]\n", encoding="utf-8"
    )
    rebuild(folder)
    whole = sorted(map(repr, ask(folder, "select * from grades.grades")))
    assert ask(folder, "select distinct len(combination_scores) from grades.grades order by 1") == [
        (1,),
        (16,),
    ]
    (folder / "warehouse.duckdb").unlink()
    sizes: list[int] = []
    cut = pipeline.chunks

    def noted(session, pairs):
        for part in cut(session, pairs):
            sizes.append(part.num_rows)
            yield part

    monkeypatch.setattr(pipeline, "CHUNK_COMBINATIONS", 64)
    monkeypatch.setattr(pipeline, "chunks", noted)
    rebuild(folder)
    assert max(sizes) == 4  # 64 / 16 combinations
    assert sorted(map(repr, ask(folder, "select * from grades.grades"))) == whole


def test_a_profile_names_every_table_that_was_made_with_its_memory(tmp_path):
    project = load_project(make_project(tmp_path) / "toolscore.yaml")
    timings = {timing.model: timing for timing in pipeline.build(project, profile=True).timings}
    assert {"work.cases", "grades.grades", "marts.latest_grades"} <= timings.keys()
    assert all((timing.peak_mb or 0) > 0 and timing.spill_mb == 0 for timing in timings.values())
    (tmp_path / "p2").mkdir()
    other = load_project(make_project(tmp_path / "p2") / "toolscore.yaml")
    assert {timing.peak_mb for timing in pipeline.build(other).timings} == {None}


def test_memory_that_is_let_go_takes_no_row_and_leaves_the_limit_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(warehouse, "KEPT_IN_MEMORY", "1MB")  # less than can be let go
    folder = make_project(tmp_path)
    with Warehouse(tmp_path / "other.duckdb").open() as session:
        before = memory_limit(session)
        session.free_engine()
        session.engine.connection.execute("create table work.big as from range(1_000_000) as t(i)")
        session.free_engine()
        session.free_engine()
        assert memory_limit(session) == pytest.approx(before, abs=0.11)  # as it is shown
        kept = session.engine.connection.execute("select count(*), sum(i) from work.big").fetchall()
        assert kept == [(1_000_000, 499_999_500_000)]
    rebuild(folder)
    (tmp_path / "usual").mkdir()
    monkeypatch.undo()
    assert hashes(folder) == hashes(make_and_build(tmp_path / "usual"))


def test_what_was_read_of_the_file_is_let_go(tmp_path, monkeypatch):
    def held(session):
        [[held]] = session.store.execute(
            "select sum(memory_usage_bytes) from duckdb_memory() where tag = 'BASE_TABLE'"
        ).fetchall()
        return held

    with Warehouse(tmp_path / "warehouse.duckdb").open() as session:
        session.store.execute(
            "create table settings.big as select md5(i::varchar) as t from range(500_000) as r(i)"
        )
        session.store.execute("checkpoint")
        session.store.execute("select max(t) from settings.big").fetchall()
        assert held(session) > 8_000_000
        monkeypatch.setattr(warehouse, "KEPT_IN_MEMORY", "2MB")
        assert session.engine.timings == []  # there is one, to be freed
        session.free_engine()
        assert held(session) < 8_000_000


def memory_limit(session: warehouse.Session) -> float:
    [[shown]] = session.store.execute("select current_setting('memory_limit')").fetchall()
    size, unit = shown.split()
    assert unit == "GiB"
    return float(size)


def make_and_build(folder: Path) -> Path:
    made = make_project(folder)
    rebuild(made)
    return made


def test_to_find_that_nothing_has_changed_pandas_is_not_imported(tmp_path):
    # DuckDB imports it with the first parameter that it is given, which takes longer than the rest.
    folder = make_project(tmp_path / "p", 4)
    rebuild(folder)
    program = (
        "import sys\n"
        "from toolscore_pipeline.pipeline import build\n"
        "from toolscore_pipeline.project import open_project\n"
        "report = build(open_project(sys.argv[1]))\n"
        "print(report.documents_unchanged, report.pairs_graded, 'pandas' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "0", "False"]
