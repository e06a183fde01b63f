"""The engine: an in-memory DuckDB that runs the plan on whatever is staged in it.

It is the one place where scores are computed. For many runs each model becomes a table; for a few
the same models are composed into one prepared statement, so that planning is paid once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from toolscore_pipeline import udfs
from toolscore_pipeline.arrays import text_table
from toolscore_pipeline.connecting import be_quiet, connect
from toolscore_pipeline.errors import AuditError
from toolscore_pipeline.plan import (
    LAYERS,
    Model,
    Plan,
    grader_version,
    load_audits,
    load_plan,
    macro_files,
    strip_comments,
)

# What a grade consists of: the models whose rows are kept.
OUTPUTS = (
    "grades.grades",
    "grades.metrics",
    "grades.checks",
    "grades.findings",
    "grades.expectations",
)
METRICS = "grades.metrics"
# The columns of a metric that say what it is of.
METRIC_KEYS = ("pair_id", "case_id", "combination_id")
INPUT_LAYERS = ("settings", "raw", "evidence", "judgment")
# What a kept plan must not be made with: conclusions from the statistics of the rows it was planned
# for, and filters that one execution leaves in the plan for the next.
UNSAFE_IN_KEPT_PLANS = "statistics_propagation,compressed_materialization,join_filter_pushdown"


@dataclass(frozen=True, slots=True)
class Timing:
    """What making one model's table cost.

    Attributes:
        model: its full name.
        rows: the rows it has.
        seconds: wall-clock seconds.
        peak_mb: the most memory that DuckDB held meanwhile, other tables included; None unless it
            was watched.
        spill_mb: the most it had in temporary files; None unless it was watched.
    """

    model: str
    rows: int
    seconds: float
    peak_mb: float | None = None
    spill_mb: float | None = None


class Engine:
    """One in-memory DuckDB with the project's schemas, macros and functions.

    Not for use by several threads at once: each holds the tables of one chunk of pairs.
    """

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        threads: int | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self.plan = plan or load_plan()
        self.timings: list[Timing] = []
        self.is_profiled = False
        self.connection = connection or connect()
        if threads:
            self.use_threads(threads)
        prepare_connection(self.connection)
        create_schemas(self.connection)
        for model in self.plan.layer(*INPUT_LAYERS):
            if model.kind == "view":
                self.connection.execute(
                    f"create or replace view {model.full_name} as {model.query}"
                )
            else:
                self.connection.execute(create_table(model))
        self.connection.execute(
            "create table work.pairs (pair_id bigint, run_id varchar, judgment_id varchar)"
        )
        # Not as a parameter: DuckDB 1.5 imports pandas with the first one that it is given.
        self.fill("settings.grader", text_table({"grader_version": [grader_version()]}))
        self._grade_statement: str | None = None

    def close(self) -> None:
        """Close the connection; the tables are gone with it."""
        self.connection.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def use_threads(self, threads: int | None) -> None:
        """Work on so many threads from now on; None is one for each core."""
        self.connection.execute(
            "set threads to " + str(int(threads)) if threads else "reset threads"
        )

    def profile(self) -> None:
        """Watch memory and temporary files too, from now on."""
        self.is_profiled = True
        watch_memory(self.connection)

    def fill(self, full_name: str, rows: pa.Table) -> None:
        """Replace the rows of an input table by those of an Arrow table with the same columns."""
        columns = ", ".join(
            f"{column.name}::{column.type}" for column in self.plan[full_name].columns
        )
        self.connection.execute(f"truncate {full_name}")
        # DuckDB finds the variable by its name, in half the time that registering it takes.
        staged_rows = rows.__arrow_c_stream__()  # noqa: F841
        self.connection.execute(f"insert into {full_name} select {columns} from staged_rows")

    def set_pairs(self, pairs: pa.Table) -> None:
        """Replace the pairs to grade: columns run_id and judgment_id, one row per pair.

        Pairs are numbered in the order of the rows.
        """
        self.connection.execute("truncate work.pairs")
        staged_pairs = pairs.__arrow_c_stream__()  # noqa: F841
        self.connection.execute(
            "insert into work.pairs"
            " select row_number() over () - 1, run_id, judgment_id from staged_pairs"
        )

    def build(
        self,
        targets: Iterable[str] = OUTPUTS,
        *,
        keep: bool = False,
        on_model: Callable[[Timing], None] | None = None,
    ) -> None:
        """Make a table of every model the targets need, in order, and hold them against the audits.

        Args:
            targets: full names of the models wanted.
            keep: keep the ephemeral tables too (to look at them); else each is dropped after its
                last use.
            on_model: called with what each model cost.

        Raises:
            AuditError: rows of a target broke an audit.
        """
        wanted = set(targets)
        models = [m for m in self.plan.upstream(wanted) if m.layer not in INPUT_LAYERS]
        last_use = {name: i for i, model in enumerate(models) for name in model.depends_on}
        for index, model in enumerate(models):
            timing = make_table(self.connection, model, is_profiled=self.is_profiled)
            self.timings.append(timing)
            if on_model:
                on_model(timing)
            if keep:
                continue
            for spent in models[: index + 1]:
                if last_use.get(spent.full_name, index) == index and spent.full_name not in wanted:
                    self.connection.execute(f"drop table if exists {spent.full_name}")
        run_audits(self.connection, wanted)

    def grade_few(self) -> list[dict[str, Any]]:
        """Grade the pairs in one prepared statement and return what it found.

        Returns:
            One dict per pair, in order: ``grade`` and ``metrics`` (a row each), ``checks``,
            ``findings`` and ``expectations`` (lists of rows), keyed by column name.
        """
        # A prepared plan outlives the rows it was made for. What the optimizer concludes from
        # their statistics (how long a text can be, that a column has no NULL) would be wrong for
        # the next.
        self.connection.execute(f"set disabled_optimizers = '{UNSAFE_IN_KEPT_PLANS}'")
        try:
            if self._grade_statement is None:
                self._grade_statement = self.compose()
                self.connection.execute(f"prepare grade_few as {self._grade_statement}")
            rows = self.connection.execute("execute grade_few").fetchall()
        finally:
            self.connection.execute("reset disabled_optimizers")
        pairs = self.connection.execute("select run_id, judgment_id, pair_id from work.pairs")
        pair_ids = {
            (run_id, judgment_id): pair_id for run_id, judgment_id, pair_id in pairs.fetchall()
        }
        results = grades_by_pair(rows, len(pair_ids), pair_ids)
        columns = self.plan[METRICS].column_names
        for result in results:
            whole = {**result["grade"], **result["metrics"]}
            result["metrics"] = {name: whole[name] for name in columns}
        return results

    def compose(self, targets: Iterable[str] = OUTPUTS) -> str:
        """One SELECT that makes all the targets at once, every model a materialised CTE.

        Its rows are (position of the target, pair_id, the row as JSON); where the row itself names
        its run and judgment, pair_id is NULL. A join of a few rows costs what its columns cost, so
        ``grades.metrics`` comes in parts, a row of each metric: side by side already, its sixty
        columns would be carried through a dozen joins.
        """
        models = [
            model
            for model in self.plan.upstream(targets)
            if model.layer not in INPUT_LAYERS and model.full_name != METRICS
        ]
        names = {model.full_name: model.full_name.replace(".", "__") for model in models}
        pattern = re.compile(r"\b(" + "|".join(re.escape(name) for name in names) + r")\b")
        parts = []
        for model in models:
            query = pattern.sub(lambda match: names[match[1]], strip_comments(model.query))
            parts.append(f"{names[model.full_name]} as materialized ({query})")
        outputs = []
        for position, name in enumerate(targets):
            if name == METRICS:
                of_cases, of_pairs = self._metric_parts(names)
                outputs.append(
                    f"select {position} as target, pair_id, row_json from ({of_cases}) as metrics"
                    f" inner join {names['scores.winners']} using (case_id, combination_id)"
                    f" inner join {names['work.pair_cases']} using (case_id)"
                )
                outputs += [f"select {position} as target, {part}" for part in of_pairs]
            else:
                outputs.append(
                    f"select {position} as target, null::bigint as pair_id,"
                    f" to_json(output)::varchar as row_json from {names[name]} as output"
                )
        return "with " + ", ".join(parts) + " " + " union all ".join(outputs)

    def _metric_parts(self, names: Mapping[str, str]) -> tuple[str, list[str]]:
        """The rows of metrics as JSON: a SELECT for those of cases, and one for each of pairs."""
        of_cases, of_pairs = [], []
        for metric in self.plan.layer("metrics"):
            keys = [name for name in metric.column_names if name in METRIC_KEYS]
            own = [name for name in metric.column_names if name not in METRIC_KEYS]
            part = (
                f"{', '.join(keys)}, to_json(struct_pack({', '.join(own)}))::varchar as row_json"
                f" from {names[metric.full_name]}"
            )
            if "pair_id" in keys:
                of_pairs.append(part)
            else:
                of_cases.append(f"select {part}")
        return " union all ".join(of_cases), of_pairs


def prepare_session(connection: duckdb.DuckDBPyConnection) -> None:
    """Set what the models rely on and each connection has for itself: UTC, and no bar."""
    be_quiet(connection)
    connection.execute("set TimeZone = 'UTC'")


def prepare_connection(connection: duckdb.DuckDBPyConnection) -> None:
    """Set what the models rely on: UTC, the macros and the functions."""
    prepare_session(connection)
    connection.execute("set preserve_insertion_order = true")
    udfs.register_all(connection)
    create_macros(connection)


def create_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every macro of ``sql/macros`` in the current catalog."""
    for path in macro_files():
        connection.execute(path.read_text(encoding="utf-8"))


def create_schemas(connection: duckdb.DuckDBPyConnection, layers: Iterable[str] = LAYERS) -> None:
    """Create the schema of every layer in the current catalog."""
    for layer in layers:
        connection.execute(f"create schema if not exists {layer}")


def make_table(
    connection: duckdb.DuckDBPyConnection, model: Model, *, is_profiled: bool = False
) -> Timing:
    """Make a model's table from its query, in place of the one that is there.

    Args:
        connection: where the model's inputs are.
        model: the model.
        is_profiled: read what :func:`watch_memory` has the connection note.
    """
    started = time.perf_counter()
    row = connection.execute(
        f"create or replace table {model.full_name} as {model.query}"
    ).fetchone()
    seconds = time.perf_counter() - started
    rows = int(row[0]) if row else 0
    if not is_profiled:
        return Timing(model.full_name, rows, seconds)
    noted = orjson.loads(connection.get_profiling_information("json"))
    # DuckDB 2 has them in a part of their own.
    system = noted.get("system", noted)
    prefix = "" if "system" in noted else "system_"
    peaks = (system[f"{prefix}peak_buffer_memory"], system[f"{prefix}peak_temp_dir_size"])
    return Timing(model.full_name, rows, seconds, *(bytes_held / 1e6 for bytes_held in peaks))


def watch_memory(connection: duckdb.DuckDBPyConnection) -> None:
    """Have a connection note the most memory and temporary files of each statement."""
    connection.execute("pragma enable_profiling = 'no_output'")
    is_newer = connection.execute(
        "select count(*) from duckdb_settings() where name = 'tracked_metrics'"
    ).fetchone() != (0,)
    connection.execute(
        "set tracked_metrics = ['system.*']"
        if is_newer  # DuckDB 2
        else "set custom_profiling_settings ="
        """ '{"SYSTEM_PEAK_BUFFER_MEMORY": "true", "SYSTEM_PEAK_TEMP_DIR_SIZE": "true"}'"""
    )


def create_table(model: Model, prefix: str = "") -> str:
    """The statement that makes a model's empty table, without keys or constraints."""
    columns = ", ".join(f"{column.name} {column.type}" for column in model.columns)
    return f"create table if not exists {prefix}{model.full_name} ({columns})"


def comment_statements(model: Model) -> Iterable[tuple[str, str]]:
    """Pairs of a ``comment on ... is`` prefix and the text it sets, for table and columns."""
    kind = "view" if model.kind == "view" else "table"
    yield f"comment on {kind} {model.full_name} is ", model.description
    for column in model.columns:
        yield f"comment on column {model.full_name}.{column.name} is ", column.comment


def apply_comments(connection: duckdb.DuckDBPyConnection, model: Model) -> None:
    """Document a model's table and columns in the catalog, from its file."""
    for statement, text in comment_statements(model):
        # COMMENT takes no parameters; the text is the project's own, quoted all the same.
        connection.execute(statement + "'" + text.replace("'", "''") + "'")


def insert_arrow(connection: duckdb.DuckDBPyConnection, model: Model, rows: pa.Table) -> None:
    """Add Arrow rows to a model's table, each column cast to the model's type."""
    columns = ", ".join(f"{column.name}::{column.type}" for column in model.columns)
    with staged(connection, rows) as name:
        connection.execute(f"insert into {model.full_name} select {columns} from {name}")


@contextmanager
def staged(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[str]:
    """An Arrow table as a relation that one statement reads; yields its name."""
    # As a stream: a table would have pyarrow.dataset imported and, with it, pandas.
    connection.register("staged_rows", rows.__arrow_c_stream__())
    try:
        yield "staged_rows"
    finally:
        connection.unregister("staged_rows")


def run_audits(connection: duckdb.DuckDBPyConnection, built: Iterable[str]) -> None:
    """Hold freshly built relations against the audits that guard them and read only what is there.

    Warnings are left to those who show them; here only errors count.

    Raises:
        AuditError: an audit returned rows; says which and how many.
    """
    names = set(built)
    for audit in load_audits():
        if not audit.is_error or audit.guards not in names:
            continue
        if not all(
            name in names or name.split(".")[0] in INPUT_LAYERS for name in audit.depends_on
        ):
            continue
        rows = connection.execute(audit.query).fetchall()
        if rows:
            columns = [column[0] for column in connection.description or []]
            raise AuditError(
                f"{audit.guards} was not kept: {len(rows)} rows against the audit {audit.name}"
                f" ({audit.description})",
                audit=audit.name,
                count=len(rows),
                rows=[dict(zip(columns, row, strict=True)) for row in rows[:10]],
                mend=audit.mend,
            )


def table_hash(connection: duckdb.DuckDBPyConnection, model: Model, where: str = "") -> str:
    """A hash of a table's content that does not depend on the order of its rows.

    The count of its rows and the sums of the halves of each row's MD5; columns that only tell when
    something was done (``*_at`` of a build, ``modified_ns``, ``build_id``) are left out.
    """
    columns = [
        column.name
        for column in model.columns
        if column.name not in ("modified_ns", "build_id", "recorded_at", "built_at")
    ]
    packed = ", ".join(f'"{name}" := "{name}"' for name in columns)
    row = connection.execute(
        f"""
        with digests as (
            select md5_number(struct_pack({packed})::varchar) as digest
            from {model.full_name} {where}
        )
        select
            count(*),
            sum((digest >> 64)::hugeint),
            sum((digest & 18446744073709551615::uhugeint)::hugeint)
        from digests
        """
    ).fetchone()
    return "-".join(str(value or 0) for value in (row or (0, 0, 0)))


def grades_by_pair(
    rows: Iterable[tuple[int, int | None, str]],
    count: int,
    pair_ids: Mapping[tuple[str, str], int] | None = None,
) -> list[dict[str, Any]]:
    """Sort the rows of the composed statement by pair (see :meth:`Engine.compose`).

    Args:
        rows: position of the target, pair_id, and the row as JSON.
        count: the number of pairs.
        pair_ids: the pair of a run and a judgment, for rows without a pair_id.
    """
    results: list[dict[str, Any]] = [
        {"checks": [], "findings": [], "expectations": []} for _ in range(count)
    ]
    names = ("grade", "metrics", "checks", "findings", "expectations")
    for target, pair_id, text in rows:
        row: dict[str, Any] = orjson.loads(text)
        if pair_id is None:
            pair_id = (pair_ids or {})[row["run_id"], row["judgment_id"]]
        if target < 2:
            # The metrics come whole, or in parts.
            results[pair_id].setdefault(names[target], {}).update(row)
        else:
            results[pair_id][names[target]].append(row)
    for result in results:
        result["checks"].sort(key=lambda row: row["check_position"])
        result["expectations"].sort(key=lambda row: row["position"])
        result["findings"].sort(key=_finding_order)
    return results


def _finding_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """By call, then by all that tells two findings of one call apart.

    The engine returns rows in any order, and the record of an evaluation must not depend on it.
    """
    rest = ("path", "kind", "preview", "sentence", "reason")
    return (
        row["call_index"] is None,
        row["call_index"] or 0,
        row["finding"],
        -1 if row["rule_position"] is None else row["rule_position"],
        *(row[name] or "" for name in rest),
    )
