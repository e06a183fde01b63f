"""`toolscore sql`: answers in three forms, and no way out of the published copy."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import cast

import duckdb
import pyarrow as pa
import pytest

from toolscore_pipeline.asking import MEMORY, ask, size_in_bytes
from toolscore_pipeline.cli import main
from toolscore_pipeline.errors import InputError, WarehouseError
from toolscore_pipeline.warehouse import Warehouse

SECRET = "what no query may read"
KEY = "AKIA" + "Q3EGRZ7K2XWP4TNV"


@pytest.fixture(scope="module")
def folder(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of its own with the example's published copy, and files beside it."""
    made = tmp_path_factory.mktemp("asked")
    shutil.copy(demo / "warehouse.published.duckdb", made)
    (made / "toolscore.yaml").write_text("sources: []\n")
    (made / "secret.csv").write_text(f"text\n{SECRET}\n")
    (made / "queries.sql").write_text("select 1")
    with duckdb.connect(str(made / "other.duckdb")) as other:
        other.execute("create table t as select 'what no query may read' as text")
    return made


@pytest.fixture
def warehouse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.chdir(folder)
    return Warehouse(folder / "warehouse.duckdb")


def state(folder: Path) -> dict[str, str]:
    """Every file below a folder with the hash of its bytes."""
    return {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- what is refused ------------------------------------------------------------------------------

WRITES = [
    "insert into settings.state values ('a', 'b')",
    "update settings.state set value = 'b'",
    "delete from settings.state",
    "truncate settings.state",
    "drop table settings.state",
    "create table t as select 1",
    "create temp table t as select 1",
    "create temp view v as select 1",
    "create macro f(x) as x",
    "create schema s",
    "create sequence s",
    "create type t as varchar",
    "create secret s (type s3)",
    "alter table settings.state rename to s",
    "comment on table settings.state is 'x'",
    "merge into settings.state using (select 1) as s on true when matched then delete",
    "with x as (insert into settings.state values ('a', 'b') returning *) select * from x",
    "with x as (delete from settings.state returning *) select * from x",
    "explain analyze insert into settings.state values ('a', 'b')",
    "explain create temp table t as select 1",
    "explain copy settings.state to 'out.csv'",
    "explain (format json) select 1",
    "vacuum",
    "analyze",
    "checkpoint",
    "force checkpoint",
    "select * from checkpoint()",
    "select * from force_checkpoint()",
    "begin",
    "commit",
]
FILES = [
    "copy settings.state to 'out.csv'",
    "copy (select 1) to 'out.parquet' (format parquet)",
    "copy settings.state from 'secret.csv'",
    'copy from database "warehouse.published" to other',
    "export database 'out'",
    "import database 'out'",
    "select * from 'secret.csv'",
    'select * from "secret.csv"',
    "from 'secret.csv'",
    "describe 'secret.csv'",
    "summarize 'secret.csv'",
    "select * from read_csv('secret.csv')",
    "select * from read_csv_auto(['secret.csv'])",
    "select * from read_text('secret.csv')",
    "select * from read_blob('secret.csv')",
    "select * from read_json('secret.csv')",
    "select * from read_ndjson_objects('secret.csv')",
    "select * from read_parquet('secret.csv')",
    "select * from parquet_metadata('secret.csv')",
    "select * from read_duckdb('other.duckdb')",
    "select * from sniff_csv('secret.csv')",
    "select * from glob('*')",
    "select * from system.main.glob('*')",
    "select * from (select * from glob('*'))",
    "select (select count(*) from glob('*'))",
    "select 1 where exists (from read_text('secret.csv'))",
    "with a as (from read_text('secret.csv')) from a",
    "select 1 union all select content from read_text('secret.csv')",
    "select * from range(1), lateral (select * from read_text('secret.csv'))",
    "explain analyze select * from read_text('secret.csv')",
    "/* explain */ explain -- x\n analyze select * from read_text('secret.csv')",
    "select * from query('from read_text(''secret.csv'')')",
    "select * from query_table('secret.csv')",
    "select * from json_execute_serialized_sql(json_serialize_sql('select 42'))",
    "pragma json_execute_serialized_sql('x')",
    "select * from 'https://example.invalid/x.csv'",
    "select * from read_csv('https://example.invalid/x.csv')",
    "attach 'other.duckdb' as other",
    "attach ':memory:' as other",
    "select * from 'other.duckdb'",
    "select * from other.t",
    'detach "warehouse.published"',
    "use memory",
    ".read queries.sql",
]
PROCESS = [
    "install httpfs",
    "load httpfs",
    "load 'secret.csv'",
    "force install httpfs from community",
    "update extensions",
    "set enable_external_access = true",
    "set global enable_external_access = true",
    "reset enable_external_access",
    "set lock_configuration = false",
    "set memory_limit = '64GB'",
    "set threads = 64",
    "set temp_directory = 'out'",
    "set allowed_directories = ['.']",
    "set variable a = 1",
    "set python_enable_replacements = true",
    "pragma enable_external_access = true",
    "pragma memory_limit = '64GB'",
    "pragma enable_profiling = 'json'",
    "call pragma_version()",
    "call enable_logging('QueryLog', storage = 'file', storage_path = 'out')",
    "select * from enable_logging(storage => 'file', storage_path => 'out')",
    "select * from enable_profiling(save_location => 'out.json')",
    "select * from disable_logging()",
    "select * from truncate_duckdb_logs()",
    "select * from duckdb_logs()",
    "select write_log('x')",
    "select main.write_log('x')",
    "select getenv('HOME')",
    "select * from duckdb_secrets()",
    "select * from duckdb_settings()",
    "select * from which_secret('s3://x', 's3')",
    "select * from arrow_scan(0, 0, 0)",
    "select * from pandas_scan(0)",
    "select * from python_map_function(0)",
    "select * from from_substrait('x')",
    "select * from sql_auto_complete('sel')",
    "select * from seq_scan('settings.state')",
    "prepare p as select 1",
    "execute p",
    "deallocate p",
    "pivot settings.state on name",
    "select 1; select 2",
    "select 1; drop table settings.state",
    "",
    ";",
    "-- nothing",
    "select",
    "selec 1",
    "\x00",
]  # fmt: skip


@pytest.mark.parametrize("query", [*WRITES, *FILES, *PROCESS])
def test_a_way_out_is_refused_in_a_sentence_and_leaves_no_trace(
    query: str, warehouse: Warehouse, folder: Path
) -> None:
    before = state(folder)
    with pytest.raises(InputError) as refused:
        ask(warehouse, query, seconds=20)
    assert SECRET not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert state(folder) == before


def test_variables_of_this_program_are_no_tables(warehouse: Warehouse) -> None:
    held = pa.table({"text": [SECRET]})
    with duckdb.connect() as other:
        assert other.execute("select text from held").fetchall() == [(SECRET,)]
    with pytest.raises(InputError, match="held does not exist"):
        ask(warehouse, "select text from held")
    assert held.num_rows == 1


def test_the_walls_hold_each_on_its_own(warehouse: Warehouse, monkeypatch) -> None:
    """Without the look into the statement, DuckDB's own settings refuse files and settings."""
    from toolscore_pipeline import asking

    monkeypatch.setattr(
        asking, "_check", lambda connection, query: connection.extract_statements(query)[0]
    )
    for query in (
        "select * from read_text('secret.csv')",
        "select * from 'secret.csv'",
        "copy settings.state to 'out.csv'",
        "attach 'other.duckdb' as other",
        "install httpfs",
        "set enable_external_access = true",
        "set memory_limit = '64GB'",
        "insert into settings.state values ('a', 'b')",
    ):
        with pytest.raises(InputError):
            ask(warehouse, query)


# --- what is answered -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "select 1;",
        "from marts.variant_stats",
        "table settings.grader",
        "values (1), (2)",
        "with a as (select 1 as x) select * from a",
        "describe marts.leaks",
        "summarize marts.variant_stats",
        "show all tables",
        "explain select 1",
        "EXPLAIN ANALYZE select count(*) from evidence.runs",
        "select * from range(3)",
        "select unnest([1, 2])",
        "select * from unnest([1, 2])",
        "select wilson_low(1, 2), fisher_p(1, 2, 3, 4)",
        "select * from json_each('{\"a\": 1}')",
        "select * from duckdb_tables()",
        "select * from information_schema.tables",
        "from (pivot marts.latest_grades on outcome in ('pass') using count(*) group by task)",
        "select * from docs.tables",
    ],
)
def test_a_question_is_answered(query: str, warehouse: Warehouse) -> None:
    answer = ask(warehouse, query)
    assert answer.rows
    assert len(answer.columns) == len(answer.rows[0])


def test_the_newest_copy_is_asked_and_none_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="run toolscore build"):
        ask(Warehouse(tmp_path / "w.duckdb"), "select 1")


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from range(100000000000)",
        "select count(*) from range(1000000) as a, range(1000000) as b",
        "with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r",
        "select max(hash(a, b)) from grades.checks a, grades.checks b, grades.checks c",
    ],
)
def test_a_query_that_runs_too_long_is_stopped(query: str, warehouse: Warehouse) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match=r"ran longer than 0\.2 seconds and was stopped"):
        ask(warehouse, query, seconds=0.2)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "query",
    [
        "select array_agg(range) from range(1000000000)",
        "select string_agg(repeat('x', 1000000), '') from range(100000)",
        "select a.range, b.range from range(100000) as a, range(100000) as b order by random()",
    ],
)
def test_a_query_that_takes_too_much_memory_is_stopped(query: str, warehouse: Warehouse) -> None:
    with pytest.raises(InputError, match="needs more memory than 100MB"):
        ask(warehouse, query, memory="100MB", seconds=60)


def test_rows_beyond_the_limit_are_not_even_made(warehouse: Warehouse) -> None:
    answer = ask(warehouse, "select * from range(1000000000000)", limit=5, seconds=5)
    assert (len(answer.rows), answer.is_cut) == (5, True)
    assert not ask(warehouse, "select * from range(5)", limit=5).is_cut
    assert len(ask(warehouse, "select * from range(5000)", limit=None).rows) == 5000


def run(folder: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolscore_pipeline", "sql", "--project", str(folder), *arguments],
        input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_a_query_that_heeds_no_interruption_ends_the_command(folder: Path) -> None:
    started = time.monotonic()
    done = run(
        folder, "--seconds", "0.2", "select levenshtein(repeat('ab', 90000), repeat('ba', 90000))"
    )
    assert done.returncode == 2
    # DuckDB 1 does not heed here; DuckDB 2 does.
    assert re.fullmatch(
        r"error: the query ran longer than 0\.2 seconds and"
        r" (was stopped|could not be interrupted; the command was ended)\n",
        done.stderr,
    )
    assert time.monotonic() - started < 30


def test_whoever_heeds_no_interruption_is_given_up_on_once(monkeypatch) -> None:
    from toolscore_pipeline import asking

    class Deaf:
        interrupted = 0

        def interrupt(self) -> None:
            self.interrupted += 1

    monkeypatch.setattr(asking, "_GRACE_SECONDS", 0.2)
    deaf, given_up = Deaf(), []
    with asking._watch(cast("duckdb.DuckDBPyConnection", deaf), 0.05, lambda: given_up.append(1)):
        time.sleep(1.0)
    assert given_up == [1]
    assert deaf.interrupted > 1
    with asking._watch(cast("duckdb.DuckDBPyConnection", deaf), 30, lambda: given_up.append(2)):
        pass
    assert given_up == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is bounded on Linux only")
def test_one_value_beyond_all_memory_is_refused(folder: Path) -> None:
    done = run(folder, "--memory", "200MB", "select list_sum(range(4000000000))")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the query needs more memory than 200MB" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is bounded on Linux only")
def test_rows_beyond_all_memory_are_refused_in_a_sentence(folder: Path) -> None:
    done = run(folder, "--memory", "100MB", "--limit", "0", "from range(100000000)")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the rows need more memory than 100MB; ask for fewer of them\n"


@pytest.mark.parametrize(
    ("size", "count"),
    [("2GB", 2_000_000_000), ("1.5 kib", 1536), ("7MiB", 7 * 2**20), ("many", None), ("5", None)],
)
def test_sizes(size: str, count: int | None) -> None:
    assert size_in_bytes(size) == count
    assert size_in_bytes(MEMORY) == 2_000_000_000


# --- the command ----------------------------------------------------------------------------------

ROWS = "select * from (values (1, 'a', null), (2, 'b', [1, 2])) as t(n, text, list)"


def test_a_table_csv_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--project", str(folder), ROWS]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "+-------------------+",
        "| n | text | list   |",
        "|---+------+--------|",
        "| 1 | a    | NULL   |",
        "| 2 | b    | [1, 2] |",
        "+-------------------+",
        "2 rows",
    ]
    assert main(["sql", "--project", str(folder), "--format", "csv", ROWS]) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["n", "text", "list"],
        ["1", "a", ""],
        ["2", "b", "[1, 2]"],
    ]
    assert main(["sql", "--project", str(folder), "-f", "json", ROWS]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"n": 1, "text": "a", "list": None},
        {"n": 2, "text": "b", "list": [1, 2]},
    ]


VALUES = """
    select 1.5 as n, 2 as n, 3 as n_1, 'inf'::double as most,
        [timestamp '2026-01-02', null] as times, {'rate': 0.5, 'none': null} as struct,
        map {date '2026-01-02': 1} as days, true as is_so
"""


def test_every_kind_of_value_is_told_whole(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "--project", str(folder), "-f", "json", VALUES]) == 0
    told = capsys.readouterr().out
    [row] = json.loads(told, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert row == {
        "n": 1.5,
        "n_2": 2,
        "n_1": 3,
        "most": "inf",
        "times": ["2026-01-02 00:00:00", None],
        "struct": {"rate": 0.5, "none": None},
        "days": {"2026-01-02": 1},
        "is_so": True,
    }
    assert main(["sql", "--project", str(folder), "-f", "csv", VALUES]) == 0
    [names, values] = csv.reader(io.StringIO(capsys.readouterr().out))
    assert names == ["n", "n", "n_1", "most", "times", "struct", "days", "is_so"]
    assert values[:4] == ["1.5", "2", "3", "inf"]
    assert [json.loads(value) for value in values[4:7]] == [
        row["times"],
        row["struct"],
        row["days"],
    ]


def test_a_number_stands_right_beside_null(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "select * from (values (1.5), (null), (100)) as t(n)"
    assert main(["sql", "--project", str(folder), query]) == 0
    assert capsys.readouterr().out.splitlines()[3:6] == ["|  1.5 |", "| NULL |", "|  100 |"]


def test_no_number_and_no_name_is_broken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = "select *, repeat('word ', 40) as text, 0.123456789 as a_rate from range(2) as t(n)"
    assert main(["sql", "--project", str(folder), wide]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {len(line) for line in lines[:-1]} == {120}
    assert [line.split()[-2] for line in lines if "0.123456789" in line] == ["0.123456789"] * 2
    # What cannot stand side by side stands one below the other.
    assert main(["sql", "--project", str(folder), "from marts.variant_stats order by variant"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "row 1"
    assert [line.split()[1] for line in lines if "pass_rate_high" in line] == ["pass_rate_high"] * 2
    assert "row 2" in lines
    assert lines[-1] == "2 rows"
    assert main(["sql", "--project", str(folder), "from marts.variant_stats limit 0"]) == 0
    assert capsys.readouterr().out.startswith("comparison, variant, run_count")


def test_a_query_comes_through_a_pipe(folder: Path) -> None:
    for arguments in ((), ("-",)):
        done = run(folder, *arguments, "--format", "csv", given="select 1 as one;\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, "one\n1\n", "")
    nothing = run(folder, given="\n")
    assert nothing.returncode == 2
    assert "got nothing" in nothing.stderr


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_credentials_and_control_characters_do_not_reach_the_terminal(
    format: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = (
        f"select 'it is {KEY}' as a, ['{KEY}'] as b, {{'c': '{KEY}'}} as c, chr(27) || '[2J' as d,"
        f' 1 as "{KEY}", 2 as "\x1b[2J"'
    )
    assert main(["sql", "--project", str(folder), "-f", format, query]) == 0
    shown = capsys.readouterr().out
    assert KEY not in shown
    assert shown.count("AKIA…NV") == 4
    if format != "csv":
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "tabel", "select 1"], "did you mean 'table'"),
        (["--memory", "much", "select 1"], "a size such as 500MB"),
        (["select * from marts.leak"], "Did you mean"),
        (["drop table settings.state"], "expected a SELECT, got DROP"),
        (["pivot marts.leaks on variant using count(*)"], "a PIVOT names its values here"),
        (["select * from glob('*')"], "the function glob is out of reach; --unsafe lifts this"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "--project", str(folder), *arguments]) == 2
    shown = capsys.readouterr()
    assert (shown.out, len(shown.err.splitlines())) == ("", 1)
    assert message in shown.err


def test_unsafe_lifts_the_walls_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = state(folder)
    unsafe = ["sql", "--unsafe", "--format", "csv"]
    assert main([*unsafe, "select content from read_text('queries.sql')"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "content\nselect 1\n"
    assert shown.err.startswith("unsafe: queries reach files")
    assert main([*unsafe, "attach 'other.duckdb' as o (read_only); select text from o.t"]) == 0
    assert capsys.readouterr().out == f"text\n{SECRET}\n"
    assert main([*unsafe, f"select '{KEY}' as a"]) == 0
    assert KEY in capsys.readouterr().out
    # The published copy itself stays as it is.
    assert main([*unsafe, "delete from settings.state"]) == 2
    assert "read-only" in capsys.readouterr().err
    assert state(folder) == before
