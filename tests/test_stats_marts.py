"""The macros against scipy, the comparison marts against Python, and decisions over time."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from scipy import stats as scipy_stats

from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.plan import load_plan, sql_root
from toolscore_pipeline.runner import create_schemas, create_table, prepare_connection
from toolscore_pipeline.stats import (
    Comparison,
    Run,
    compare_runs,
    fisher_exact,
    odds_ratio,
    pass_hat_k,
    wilson_interval,
)
from toolscore_pipeline.stats.marts import SCHEMAS, decide, read_comparisons

START = datetime(2026, 1, 1, tzinfo=UTC)
HUGE = 10**7


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A bare DuckDB with nothing but the file of macros."""
    with duckdb.connect() as connection:
        connection.execute((sql_root() / "macros" / "statistics.sql").read_text(encoding="utf-8"))
        yield connection


def evaluate(
    connection: duckdb.DuckDBPyConnection, expression: str, rows: Sequence[tuple[int, ...]]
) -> list[Any]:
    """The expression over columns a, b, c, d for each row."""
    columns = {
        name: pa.array([row[i] for row in rows], pa.int64())
        for i, name in enumerate("abcd"[: len(rows[0])])
    }
    connection.register("given", pa.table({**columns, "line": range(len(rows))}))
    found = connection.execute(f"select {expression} from given order by line").fetchall()
    return [row[0] for row in found]


TABLES = [
    (a, row_a - a, c, row_b - c)
    for row_a in range(7)
    for row_b in range(7)
    for a in range(row_a + 1)
    for c in range(row_b + 1)
]


class TestMacros:
    def test_wilson_bounds_agree_with_python(self, plain: duckdb.DuckDBPyConnection) -> None:
        rows = [(x, n) for n in (0, 1, 2, 9, 100, HUGE) for x in {0, n // 3, max(n - 1, 0), n}]
        bounds = [wilson_interval(*row) for row in rows]
        lows, highs = [b[0] for b in bounds], [b[1] for b in bounds]
        assert evaluate(plain, "wilson_low(a, b)", rows) == pytest.approx(
            lows, rel=1e-12, abs=1e-16
        )
        assert evaluate(plain, "wilson_high(a, b)", rows) == pytest.approx(highs, rel=1e-12)
        assert evaluate(plain, "wilson_low(a, b)", [(0, 5), (0, HUGE)]) == [0.0, 0.0]
        assert evaluate(plain, "wilson_high(a, b)", [(5, 5), (HUGE, HUGE)]) == [1.0, 1.0]

    def test_fisher_agrees_with_scipy_on_every_small_table(
        self, plain: duckdb.DuckDBPyConnection
    ) -> None:
        found = evaluate(plain, "fisher_p(a, b, c, d)", TABLES)
        assert found == pytest.approx([fisher_exact(*table) for table in TABLES], rel=1e-12)

    def test_fisher_agrees_with_scipy_on_large_tables(
        self, plain: duckdb.DuckDBPyConnection
    ) -> None:
        chance = random.Random(2)
        tables = []
        for _ in range(300):
            rows = chance.choice([(50, 50), (1000, 1000), (200, 777), (30, 5000)])
            a, c = (chance.randint(0, row) for row in rows)
            tables.append((a, rows[0] - a, c, rows[1] - c))
        expected = [fisher_exact(*table) for table in tables]
        found = evaluate(plain, "fisher_p(a, b, c, d)", tables)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-290)

    def test_fisher_keeps_six_digits_with_ten_million_runs(
        self, plain: duckdb.DuckDBPyConnection
    ) -> None:
        half = HUGE // 2
        tables = [
            (half, half, half + 3000, half - 3000),
            (5, HUGE - 5, 30, HUGE - 30),
            (HUGE - 10_000, 10_000, HUGE - 9_500, 9_500),
            (0, HUGE, 1, HUGE - 1),
            (HUGE, 0, 0, HUGE),
        ]
        expected = [fisher_exact(*table) for table in tables]
        found = evaluate(plain, "fisher_p(a, b, c, d)", tables)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-290)

    def test_pass_hat_k_agrees_with_exact_arithmetic(
        self, plain: duckdb.DuckDBPyConnection
    ) -> None:
        rows = [(c, n, k) for n in range(9) for c in range(n + 1) for k in range(1, 10)]
        rows += [(HUGE - 1000, HUGE, 10), (3, HUGE, 3)]
        found = evaluate(plain, "pass_hat_k(a, b, c)", rows)
        for value, row in zip(found, rows, strict=True):
            expected = pass_hat_k(*row)
            assert (value is None) == (expected is None), row
            assert value is None or value == pytest.approx(expected, rel=1e-12), row

    def test_mcnemar_agrees_with_the_binomial_test(self, plain: duckdb.DuckDBPyConnection) -> None:
        rows = [(b, c) for b in range(9) for c in range(9)] + [(500, 430), (0, 1000), (9000, 9300)]
        expected = [
            scipy_stats.binomtest(b, b + c).pvalue if b + c else 1.0 for b, c in rows
        ]  # fmt: skip
        found = evaluate(plain, "mcnemar_p(a, b)", rows)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-290)

    def test_odds_ratios_and_overlaps_agree_with_python(
        self, plain: duckdb.DuckDBPyConnection
    ) -> None:
        assert evaluate(plain, "odds_ratio(a, b, c, d)", TABLES) == [odds_ratio(*t) for t in TABLES]
        rows = [(x, 20, y, 30) for x in range(21) for y in range(31)]
        found = evaluate(plain, "wilson_overlap(a, b, c, d)", rows)
        for is_overlapping, (x, n, y, m) in zip(found, rows, strict=True):
            (low_a, high_a), (low_b, high_b) = wilson_interval(x, n), wilson_interval(y, m)
            assert is_overlapping == (low_a <= high_b and low_b <= high_a)

    @pytest.mark.parametrize(
        "expression",
        [
            "wilson_low(null, 5)", "wilson_high(6, 5)", "wilson_low(-1, 5)", "pass_hat_k(1, 2, 0)",
            "pass_hat_k(null, 2, 1)", "fisher_p(1, null, 2, 3)", "fisher_p(-1, 2, 3, 4)",
            "mcnemar_p(null, 1)", "odds_ratio(1, 0, 2, 3)", "odds_ratio(1, null, 2, 3)",
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_null(
        self, plain: duckdb.DuckDBPyConnection, expression: str
    ) -> None:
        assert plain.execute(f"select {expression}").fetchone() == (None,)

    def test_a_key_with_any_characters_has_a_json_pointer(
        self, plain: duckdb.DuckDBPyConnection
    ) -> None:
        for key in ("a/b~c", "$x", 'a.b["c"]', "é", "~1"):
            found = plain.execute(
                "select json_extract_string($1::json, json_pointer($2))",
                [json.dumps({key: "here"}), key],
            ).fetchone()
            assert found == ("here",), key


MARTS = ("outcomes", "task_stats", "variant_stats", "task_changes", "variant_pairs")


@pytest.fixture
def store() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the inputs of the comparison marts, empty."""
    with duckdb.connect() as connection:
        prepare_connection(connection)
        create_schemas(connection)
        plan = load_plan()
        for name in ("evidence.runs", "marts.latest_grades", "settings.comparisons"):
            connection.execute(create_table(plan[name]))
        yield connection


def insert(store: duckdb.DuckDBPyConnection, table: str, **fields: Any) -> None:
    names = ", ".join(fields)
    marks = ", ".join("?" for _ in fields)
    store.execute(f"insert into {table} ({names}) values ({marks})", list(fields.values()))


def build(store: duckdb.DuckDBPyConnection) -> None:
    plan = load_plan()
    for name in MARTS:
        store.execute(f"create or replace table marts.{name} as {plan[f'marts.{name}'].query}")


def compare_settings(store: duckdb.DuckDBPyConnection, **fields: Any) -> None:
    store.execute("truncate settings.comparisons")
    defaults = {"comparison": "c", "k": 2, "min_n": 10, "alpha": 0.05, "outcome_basis": "graded"}
    insert(store, "settings.comparisons", **{**defaults, **fields})


def add_runs(store: duckdb.DuckDBPyConnection, runs: list[Run]) -> None:
    for index, run in enumerate(runs):
        insert(
            store,
            "evidence.runs",
            run_id=f"r{index}",
            variant=run.variant,
            task=run.task,
            repetition=run.repetition,
            recorded_outcome=run.outcome,
            cost_usd=run.cost,
            duration_seconds=run.latency,
            started_at=START + timedelta(seconds=index),
        )


def rows_of(store: duckdb.DuckDBPyConnection, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.sql(f"from {table}").to_arrow_table().to_pylist()
    return rows


def random_runs(seed: int) -> list[Run]:
    """Uneven runs of three variants, some recorded twice, some without cost."""
    chance = random.Random(seed)
    return [
        Run(
            variant=f"v{chance.randrange(3)}",
            task=f"t{chance.randrange(6)}",
            outcome=chance.choice(["pass", "pass", "fail", "error", "unknown"]),
            cost=chance.choice([None, chance.randrange(100) / 1000]),
            latency=chance.choice([None, chance.randrange(90) / 10]),
            repetition=chance.choice([None, chance.randrange(30)]),
        )
        for _ in range(200)
    ]


class TestMartsEqualPython:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("baseline", [None, "v1"])
    def test_variants_and_pairs_are_the_same(
        self, store: duckdb.DuckDBPyConnection, seed: int, baseline: str | None
    ) -> None:
        runs = random_runs(seed)
        add_runs(store, runs)
        compare_settings(store, baseline=baseline)
        build(store)
        # SQL orders variants by name.
        expected = compare_runs(sorted(runs, key=lambda run: run.variant), 2, baseline)
        self.check_variants(store, expected)
        self.check_pairs(store, expected)

    def check_variants(self, store: duckdb.DuckDBPyConnection, expected: Comparison) -> None:
        found = {row["variant"]: row for row in rows_of(store, "marts.variant_stats")}
        assert set(found) == set(expected.by_name())
        for name, stats in expected.by_name().items():
            row = found[name]
            counts = {word: row[f"{word}_count"] for word in ("pass", "fail", "error", "unknown")}
            assert (row["run_count"], counts) == (stats.n, stats.counts)
            assert (row["task_count"], row["short_task_count"]) == (stats.tasks, stats.tasks_short)
            assert row["pass_rate"] == stats.pass_rate
            interval = (row["pass_rate_low"], row["pass_rate_high"])
            assert interval == pytest.approx(stats.interval, rel=1e-12)
            assert row["pass_hat_k"] == pytest.approx(stats.pass_hat_k, rel=1e-12)
            assert row["cost_usd"] == pytest.approx(stats.cost, rel=1e-12)
            assert row["latency_seconds"] == pytest.approx(stats.latency, rel=1e-12)
            assert (row["cost_count"], row["latency_count"]) == (
                stats.cost_known, stats.latency_known,
            )  # fmt: skip

    def check_pairs(self, store: duckdb.DuckDBPyConnection, expected: Comparison) -> None:
        found = {(row["a"], row["b"]): row for row in rows_of(store, "marts.variant_pairs")}
        assert len(found) == len(expected.pairs)
        for pair in expected.pairs:
            row = found[pair.a, pair.b]
            assert row["difference"] == pytest.approx(pair.difference, rel=1e-12)
            assert row["p_value"] == pytest.approx(pair.p_value, rel=1e-10)
            assert row["p_holm"] == pytest.approx(pair.p_holm, rel=1e-10)
            assert row["odds_ratio"] == pytest.approx(pair.odds_ratio, rel=1e-12)
            assert row["is_overlapping"] == pair.overlap
            assert row["is_distinguishable"] == pair.distinguishable
            assert (row["improved_task_count"], row["worsened_task_count"]) == (
                pair.improved, pair.worsened,
            )  # fmt: skip
            common = pair.common
            assert (row["common_p_value"] is None) == (common is None)
            if common is not None:
                assert row["common_p_value"] == pytest.approx(common.p_value, rel=1e-10)
                assert row["common_difference"] == pytest.approx(common.difference, rel=1e-9)
                assert row["only_a_task_count"] == len(common.only_a)

    def test_a_warehouse_comparison_equals_one_made_of_its_runs(
        self, store: duckdb.DuckDBPyConnection
    ) -> None:
        runs = [run for run in random_runs(9) if run.cost is not None and run.latency is not None]
        runs.sort(key=lambda run: (run.variant, run.task))
        add_runs(store, runs)
        compare_settings(store, baseline="v0", k=3)
        build(store)
        [found] = read_comparisons(store)
        expected = compare_runs(runs, 3, "v0")
        report, wanted = found.comparison.to_dict(), expected.to_dict()
        for one in (report, wanted):
            one["duplicates"].sort(
                key=lambda row: (row["variant"], row["task"], int(row["identity"]))
            )
            one["notes"] = [note.split("(first:")[0] for note in one["notes"]]
        approximate_costs(report)
        approximate_costs(wanted)
        assert report == wanted


def approximate_costs(report: dict[str, Any]) -> None:
    """Round means, which SQL adds up as decimals and Python as doubles."""
    for row in report["variants"] + report["tasks"]:
        for name in ("cost", "latency"):
            row[name] = None if row[name] is None else round(row[name], 9)


class TestOutcomes:
    def grade(self, store: duckdb.DuckDBPyConnection, run_id: str, outcome: str) -> None:
        insert(store, "marts.latest_grades", run_id=run_id, outcome=outcome)

    def outcomes(self, store: duckdb.DuckDBPyConnection, **settings: Any) -> dict[str, str]:
        compare_settings(store, **settings)
        build(store)
        return {row["run_id"]: row["outcome"] for row in rows_of(store, "marts.outcomes")}

    def test_a_grade_goes_before_the_recorded_outcome_unless_that_is_asked_for(
        self, store: duckdb.DuckDBPyConnection
    ) -> None:
        add_runs(store, [Run("a", "t", "pass"), Run("a", "t", "fail"), Run("a", "t", "odd")])
        self.grade(store, "r0", "fail")
        assert self.outcomes(store) == {"r0": "fail", "r1": "fail", "r2": "unknown"}
        assert self.outcomes(store, outcome_basis="recorded") == {
            "r0": "pass", "r1": "fail", "r2": "unknown",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("key", "variants"),
        [(None, ["main"]), ("model", ["m"]), ("server", ["s1"]), ("a/b", ["slash"]), ("none", [])],
    )
    def test_the_variant_key_names_the_variant(
        self, store: duckdb.DuckDBPyConnection, key: str | None, variants: list[str]
    ) -> None:
        insert(
            store,
            "evidence.runs",
            run_id="r",
            variant="main",
            model="m",
            attributes_json='{"server":"s1","a/b":"slash"}',
        )
        compare_settings(store, variant_key=key)
        build(store)
        assert [row["variant"] for row in rows_of(store, "marts.outcomes")] == variants

    def test_a_source_narrows_a_comparison_down(self, store: duckdb.DuckDBPyConnection) -> None:
        for source in ("one", "two"):
            insert(store, "evidence.runs", run_id=source, variant="a", source=source)
        assert list(self.outcomes(store, source="two")) == ["two"]
        assert set(self.outcomes(store)) == {"one", "two"}


PROTOCOL = {
    "protocol_version": 1,
    "title": "Adopt b",
    "baseline": "a",
    "candidate": "b",
    "min_runs": 10,
    "rules": [{"id": "better", "metric": "pass_rate", "expect": "candidate_better"}],
}
NEXT = {**PROTOCOL, "min_runs": 5}


class TestDecide:
    """A store through several builds, each with its own clock."""

    @pytest.fixture(autouse=True)
    def setup(self, store: duckdb.DuckDBPyConnection) -> None:
        self.store = store
        self.history: dict[str, pa.Table] = {}

    def step(self, protocol: dict[str, Any] | None, day: int, **settings: Any) -> dict[str, Any]:
        text = json.dumps(protocol) if protocol else None
        compare_settings(self.store, protocol_json=text, baseline="a", **settings)
        build(self.store)
        tables = decide(
            self.store,
            START + timedelta(days=day),
            self.history.get("protocol_declarations"),
            self.history.get("protocol_decisions"),
        )
        self.history = tables
        return {name: table.to_pylist() for name, table in tables.items()}

    def add(self, a: int, b: int, n: int = 20) -> None:
        self.store.execute("truncate evidence.runs")
        runs = [Run("a", f"t{i % 4}", "pass" if i < a else "fail") for i in range(n)]
        runs += [Run("b", f"t{i % 4}", "pass" if i < b else "fail") for i in range(n)]
        add_runs(self.store, runs)

    def test_every_table_has_a_model_of_the_same_columns(self) -> None:
        plan = load_plan()
        for name, schema in SCHEMAS.items():
            assert plan[f"marts.{name}"].column_names == tuple(schema.names)

    def test_a_protocol_declared_before_the_runs_is_not_flagged(self) -> None:
        tables = self.step(PROTOCOL, day=-1)
        assert [row["decision"] for row in tables["protocol_decisions"]] == ["undecided"]
        self.add(5, 19)
        tables = self.step(PROTOCOL, day=1)
        assert [row["decision"] for row in tables["protocol_decisions"]] == ["undecided", "adopt"]
        current = tables["protocol_decisions"][-1]
        assert current["is_current"]
        assert current["protocol_sha256"] == json_sha256(PROTOCOL)
        assert (current["is_declared_late"], current["is_changed_late"]) == (False, False)
        assert current["first_run_at"] == START
        assert current["declared_at"] == START - timedelta(days=1)
        assert current["rule_statuses"] == ["pass"]

    def test_the_same_inputs_add_nothing(self) -> None:
        self.add(5, 19)
        first = self.step(PROTOCOL, day=1)
        again = self.step(PROTOCOL, day=2)
        assert again == first

    def test_a_protocol_changed_after_the_first_run_is_flagged(self) -> None:
        self.step(PROTOCOL, day=-1)
        self.add(5, 19)
        tables = self.step(NEXT, day=1)
        current = tables["protocol_decisions"][-1]
        assert (current["is_declared_late"], current["is_changed_late"]) == (True, True)
        assert len(tables["protocol_declarations"]) == 2
        assert [row["is_current"] for row in tables["protocol_decisions"]] == [False, True]

    def test_a_first_protocol_after_the_runs_is_late_but_changed_nothing(self) -> None:
        self.add(5, 19)
        [row] = self.step(PROTOCOL, day=1)["protocol_decisions"]
        assert (row["is_declared_late"], row["is_changed_late"]) == (True, False)

    def test_a_decision_that_comes_back_is_a_new_one(self) -> None:
        for day, passes in enumerate((19, 5, 19), start=1):
            self.add(5, passes)
            tables = self.step(PROTOCOL, day=day)
        decisions = [row["decision"] for row in tables["protocol_decisions"]]
        assert decisions == ["adopt", "reject", "adopt"]
        assert [row["is_current"] for row in tables["protocol_decisions"]] == [False, False, True]

    def test_a_protocol_taken_away_leaves_its_history_and_no_current_decision(self) -> None:
        self.add(5, 19)
        self.step(PROTOCOL, day=1)
        tables = self.step(None, day=2)
        assert [row["is_current"] for row in tables["protocol_decisions"]] == [False]
        assert tables["protocol_rules"] == []

    def test_selections_tests_and_reports_come_out(self) -> None:
        self.add(5, 19)
        tables = self.step(
            None, day=1, select_policy="weighted", objectives_json='["pass_rate=2","cost"]'
        )
        chosen = {row["variant"]: row for row in tables["selections"]}
        # Scaled pass rate 1 and 0 with weight 2; no cost is known, which is the worst: 0.
        assert (chosen["b"]["score"], chosen["a"]["score"]) == (2.0, 0.0)
        assert [chosen[name]["rank"] for name in "ba"] == [1, 2]
        assert chosen["b"]["unknown_objectives"] == ["cost"]
        [test] = tables["pair_tests"]
        assert test["verdict"].startswith("b passes more often than a")
        assert test["paired_method"] == "exact permutation"
        assert math.isclose(test["paired_difference"], 0.7)
        [report] = tables["comparison_reports"]
        assert json.loads(report["report_json"])["selection"]["chosen"] == "b"

    def test_duplicates_reach_the_notes(self) -> None:
        runs = [Run("a", "t", outcome, repetition=0) for outcome in ("pass", "fail", "pass")]
        add_runs(self.store, [*runs, Run("b", "t", "pass", repetition=0)])
        compare_settings(self.store)
        build(self.store)
        [found] = read_comparisons(self.store)
        [record] = found.comparison.duplicates
        assert (record.identity, record.extra, record.conflicting) == ("0", 2, 1)
        assert found.comparison.by_name()["a"].counts["pass"] == 1
