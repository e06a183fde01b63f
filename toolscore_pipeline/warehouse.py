"""The warehouse: one DuckDB file with every run, judgment and grade, and its published copy.

One process writes at a time. A :class:`Session` holds the file open for one piece of work; whoever
comes second waits, and is told so when the wait was in vain. What is computed is computed in an
in-memory catalog beside the file and added in short transactions, so a process that dies leaves the
last committed state and the next build goes on from there. Readers never open the file itself but
the published copy, which is replaced whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from toolscore_pipeline.arrays import array_of, text_table
from toolscore_pipeline.catalog_docs import write_documentation
from toolscore_pipeline.connecting import connect
from toolscore_pipeline.errors import WarehouseError, WarehouseLockedError
from toolscore_pipeline.plan import Model, Plan, grader_version, load_plan
from toolscore_pipeline.runner import (
    INPUT_LAYERS,
    OUTPUTS,
    Engine,
    Timing,
    apply_comments,
    create_macros,
    create_schemas,
    create_table,
    insert_arrow,
    make_table,
    prepare_session,
    run_audits,
    staged,
    table_hash,
    watch_memory,
)

LOCK_SECONDS = 60.0
SCRATCH = "scratch"
# The columns that say where the rows of a pair lie in a table: the first and the last of them.
PLACES = {
    "evidence.runs": ("run_place", "run_place"),
    "evidence.calls": ("first_call", "last_call"),
}
# What DuckDB may keep of the file and of former chunks when it begins with the next.
KEPT_IN_MEMORY = "800MB"
# The published copy is a copy of the file, unless more than this share of its blocks is unused.
MOST_HOLES = 0.25
NO_WAY_OUT = {"enable_external_access": "false"}
# What DuckDB says when a disk is full, a folder read-only or a quota reached.
_REFUSALS = (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException)
_REFUSAL_MESSAGE = re.compile(
    r"could not write|cannot open file|no space|file too large|read-only|permission denied"
    r"|checkpoint|invalidated",
    re.IGNORECASE,
)
_LOCK_MESSAGE = re.compile(r"lock on file|being used by another process", re.IGNORECASE)


class Warehouse:
    """A warehouse file.

    Args:
        path: the DuckDB file; it is made when it is first written.
        plan: the models; default the project's own.
        lock_seconds: how long to wait for another process that holds the file.
        threads: DuckDB threads; default all cores.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        plan: Plan | None = None,
        lock_seconds: float = LOCK_SECONDS,
        threads: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.plan = plan or load_plan()
        self.lock_seconds = lock_seconds
        self.threads = threads

    @property
    def published(self) -> Path:
        """The read-only copy that readers open."""
        return self.path.with_name(f"{self.path.stem}.published.duckdb")

    @contextmanager
    def open(self) -> Iterator[Session]:
        """Hold the file for writing.

        Raises:
            WarehouseLockedError: another process held it for the whole wait.
            WarehouseError: the file is no warehouse or cannot be made, or the disk refused to take
                more while it was held.
        """
        connection = self._connect()
        try:
            yield Session(self, connection)
        except _REFUSALS as error:
            if not _REFUSAL_MESSAGE.search(str(error)):
                raise
            raise WarehouseError(
                f"{self.path}: {_first_sentence(str(error))}; what was committed before stays"
            ) from None
        finally:
            with suppress(duckdb.Error):  # its last checkpoint may fail on a full disk too
                connection.close()

    def published_state(self, name: str) -> str | None:
        """A remark that stands in the published copy; None when there is none, or no copy."""
        if not self.published.is_file():
            return None
        literal = "'" + str(self.published).replace("'", "''") + "'"
        try:
            with connect() as connection:
                connection.execute(f"attach {literal} as published (read_only)")
                rows = connection.execute("select name, value from published.settings.state")
                return dict(rows.fetchall()).get(name)
        except duckdb.Error:
            return None

    def read(self, config: Mapping[str, str] = NO_WAY_OUT) -> duckdb.DuckDBPyConnection:
        """A read-only connection to the published copy; by default with external access off.

        Args:
            config: DuckDB's settings.

        Raises:
            WarehouseError: nothing has been published yet.
        """
        if not self.published.is_file():
            raise WarehouseError(
                f"{self.published}: no warehouse has been published yet; run toolscore build"
            )
        return connect(str(self.published), read_only=True, config=dict(config))

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WarehouseError(f"{self.path}: cannot make its folder: {error.strerror}") from None
        # What is not folded into the file yet is held in memory, unpacked.
        config: dict[str, Any] = {"checkpoint_threshold": "128MB"}
        if self.threads:
            config["threads"] = self.threads
        started, pause = time.monotonic(), 0.05
        while True:
            try:
                return connect(str(self.path), config=config)
            except duckdb.Error as error:
                message = str(error)
                if not _LOCK_MESSAGE.search(message):
                    raise WarehouseError(f"{self.path}: {_first_sentence(message)}") from None
                if time.monotonic() - started >= self.lock_seconds:
                    holder = re.search(r"PID (\d+)", message)
                    who = f"process {holder[1]}" if holder else "another process"
                    raise WarehouseLockedError(
                        f"{self.path}: {who} holds the warehouse and did not let go within"
                        f" {self.lock_seconds:g} seconds; end it or try again later"
                    ) from None
                time.sleep(pause)
                pause = min(pause * 1.5, 1.0)


class Session:
    """The warehouse held open for writing, with an engine in memory beside it.

    Attributes:
        store: a cursor on the warehouse file.
        engine: the engine, whose tables are in memory.
    """

    def __init__(self, warehouse: Warehouse, connection: duckdb.DuckDBPyConnection) -> None:
        self.warehouse = warehouse
        self.plan = warehouse.plan
        self._connection = connection
        self.store = connection.cursor()
        row = self.store.execute(
            "select current_database(), current_setting('memory_limit')"
        ).fetchone()
        catalog, self._memory_limit = map(str, row or ("", "80%"))
        self.catalog = '"' + catalog.replace('"', '""') + '"'
        prepare_session(self.store)
        self._prepare_store()
        self._engine: Engine | None = None
        self._timings: list[Timing] = []
        self._is_profiled = False

    @property
    def engine(self) -> Engine:
        """The engine; made when it is first needed."""
        if self._engine is None:
            cursor = self._connection.cursor()
            cursor.execute(f"attach if not exists ':memory:' as {SCRATCH}")
            cursor.execute(f"use {SCRATCH}")
            self._engine = Engine(self.plan, connection=cursor)
            if self._is_profiled:
                self._engine.profile()
        return self._engine

    def profile(self) -> None:
        """Watch what each model costs in memory and temporary files too, from now on."""
        self._is_profiled = True
        watch_memory(self.store)
        if self._engine is not None:
            self._engine.profile()

    @property
    def timings(self) -> list[Timing]:
        """What each table made so far cost, those of grades first."""
        return [*(self._engine.timings if self._engine else ()), *self._timings]

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction on the warehouse: all of it is kept, or nothing."""
        self.store.execute("begin")
        try:
            yield self.store
        except BaseException:
            self.store.execute("rollback")
            raise
        self.store.execute("commit")

    def _prepare_store(self) -> None:
        """Make the schemas, tables and views that are missing; remake those whose shape changed."""
        stored = self.plan.layer(*INPUT_LAYERS, "grades", "marts", "exports", "receipts")
        with self.transaction() as store:
            create_schemas(
                store,
                (
                    "settings",
                    "raw",
                    "evidence",
                    "judgment",
                    "grades",
                    "receipts",
                    "marts",
                    "exports",
                ),
            )
            create_macros(store)
            store.execute("create table if not exists settings.state (name varchar, value varchar)")
            known = _columns_of(store)
            # Views are made again when any model is other than when they were made.
            version = hashlib.sha256("".join(m.query for m in self.plan).encode()).hexdigest()
            are_views_current = self.state("views", store) == version
            if not are_views_current:
                self.set_state("views", version, store)
            for model in stored:
                if model.kind == "ephemeral":
                    continue
                columns = known.get(model.full_name)
                if model.kind == "view":
                    if are_views_current and columns == list(model.column_names):
                        continue
                    store.execute(f"create or replace view {model.full_name} as {model.query}")
                elif columns is None:
                    store.execute(create_table(model))
                elif columns != list(model.column_names):
                    _reshape(store, model, columns)
                else:
                    continue
                apply_comments(store, model)

    # --- inputs ---------------------------------------------------------------------------------

    def replace_settings(self, tables: dict[str, pa.Table]) -> bool:
        """Replace small input tables whole (settings, bindings); True when any of them changed."""
        changed = False
        for full_name, rows in tables.items():
            model = self.plan[full_name]
            before = table_hash(self.store, model)
            with self.transaction() as store:
                store.execute(f"delete from {full_name}")
                insert_arrow(store, model, rows)
                if table_hash(store, model) != before:
                    changed = True
                    self._touch(store)
        return changed

    def add_judgments(self, tables: dict[str, pa.Table]) -> int:
        """Add the judgments that are not there yet, with all their rows; returns how many were."""
        rows = self.store.execute("select judgment_id from judgment.judgments").fetchall()
        known = {judgment_id for (judgment_id,) in rows}
        judgments = tables["judgments"].column("judgment_id").to_pylist()
        fresh = [judgment_id for judgment_id in judgments if judgment_id not in known]
        if not fresh:
            return 0
        patterns = self.store.execute("select pattern_id from judgment.patterns").fetchall()
        known_patterns = {pattern_id for (pattern_id,) in patterns}
        with self.transaction() as store:
            for name, table in tables.items():
                by_pattern = name in ("patterns", "pattern_args")
                key = "pattern_id" if by_pattern else "judgment_id"
                skip = known_patterns if by_pattern else known
                keep = [value not in skip for value in table.column(key).to_pylist()]
                insert_arrow(
                    store, self.plan[f"judgment.{name}"], table.filter(array_of(keep, pa.bool_()))
                )
            self._touch(store)
        return len(fresh)

    # --- grading --------------------------------------------------------------------------------

    def use_grader(self, version: str | None = None) -> bool:
        """Note the grader version that grades are made with; True when it is not that of before."""
        rows = text_table({"grader_version": [version or grader_version()]})
        return self.replace_settings({"settings.grader": rows})

    def count_pending(self) -> int:
        """How many pairs are still to be graded."""
        row = self.store.execute("select count(*) from grades.pending").fetchone()
        return int(row[0]) if row else 0

    def place_pairs(self, pairs: pa.Table) -> pa.Table:
        """The same pairs in the order of their runs in the file, with the places of their rows.

        Chunks of them lie together, so that each reads its own part of the file and not all of it.
        """
        with staged(self.store, pairs) as rows:
            return self.store.sql(
                f"""
                with pairs as materialized (select run_id, judgment_id from {rows}),
                places as (
                    select run_id, min(rowid) as first_call, max(rowid) as last_call
                    from evidence.calls semi join pairs using (run_id)
                    group by run_id
                )
                select run_id, judgment_id, runs.rowid as run_place, first_call, last_call
                from pairs
                inner join evidence.runs using (run_id)
                left join places using (run_id)
                order by run_place, judgment_id
                """
            ).to_arrow_table()

    def stage_pairs(self, pairs: pa.Table, *, with_evidence: bool = True) -> None:
        """Bring the runs, calls and judgments of some pairs from the file into the engine.

        Args:
            pairs: run_id and judgment_id; with the columns of :meth:`place_pairs` only that part of
                the file is read where their runs are.
            with_evidence: whether to bring runs and calls; else those are graded that are in the
                engine already.
        """
        engine = self.engine
        engine.set_pairs(pairs)
        connection = engine.connection
        for name, key in (
            ("evidence.runs", "run_id"),
            ("evidence.calls", "run_id"),
            ("judgment.judgments", "judgment_id"),
            ("judgment.combinations", "judgment_id"),
            ("judgment.expected_calls", "judgment_id"),
            ("judgment.optional_calls", "judgment_id"),
            ("judgment.forbidden_rules", "judgment_id"),
            ("judgment.side_effects", "judgment_id"),
        ):
            if name.startswith("evidence.") and not with_evidence:
                continue
            connection.execute(f"truncate {name}")
            connection.execute(
                f"insert into {name} select * from {self.catalog}.{name} as stored"
                f" semi join work.pairs using ({key}) where {_is_near(name, pairs)}"
            )
        for name in ("judgment.patterns", "judgment.pattern_args", "settings.grader"):
            connection.execute(f"truncate {name}")
            connection.execute(f"insert into {name} select * from {self.catalog}.{name}")

    def grade_staged(self) -> int:
        """Grade the pairs staged in the engine and keep the rows; returns how many pairs."""
        engine = self.engine
        engine.build(OUTPUTS)
        row = engine.connection.execute("select count(*) from grades.grades").fetchone()
        with self.transaction() as store:
            for name in OUTPUTS:
                columns = ", ".join(self.plan[name].column_names)
                store.execute(
                    f"insert into {name} ({columns}) select {columns} from {SCRATCH}.{name}"
                )
            self._touch(store)
        for name in OUTPUTS:
            engine.connection.execute(f"drop table {name}")
        self._let_go()
        return int(row[0]) if row else 0

    def free_engine(self) -> None:
        """Drop the evidence that is in the engine: marts and exports read the file."""
        if self._engine is not None:
            for name in ("evidence.runs", "evidence.calls", "work.pairs"):
                self._engine.connection.execute(f"truncate {name}")
            self._let_go()

    def _let_go(self) -> None:
        """Have DuckDB forget what it has read or written of the file, beyond ``KEPT_IN_MEMORY``.

        It would keep everything, up to most of the machine's memory.
        """
        with suppress(duckdb.OutOfMemoryException):  # as much as could be is gone
            self.store.execute(f"set memory_limit = '{KEPT_IN_MEMORY}'")
        # Not by a reset: DuckDB 1.5 then shows the limit of before and keeps this one.
        self.store.execute(f"set memory_limit = '{self._memory_limit}'")

    def note_edition(self) -> bool:
        """Remember what every grade is made with now; True when it is other than at the last call.

        To be called when nothing is pending. What a regrade changed is told from one edition to the
        next, so the first one has nothing before it.
        """
        store = self.store
        columns = "judgment_id, name, task, task_pattern, variant, source"
        last = "(select coalesce(max(edition), 0) from receipts.editions)"
        [(has_former,)] = store.execute(f"select {last} > 0").fetchall()
        versions = store.execute(
            "select grader_version, grader_version in"
            f" (select grader_version from receipts.editions where edition = {last})"
            " from settings.grader"
        ).fetchall()
        now = store.execute(f"select {columns} from judgment.bindings").fetchall()
        before = store.execute(
            f"select {columns} from receipts.edition_bindings where edition = {last}"
        ).fetchall()
        if not versions or (versions[0][1] and set(now) == set(before)) or not (now or has_former):
            return False
        with self.transaction():
            store.execute(
                f"insert into receipts.editions select {last} + 1, grader_version"
                " from settings.grader"
            )
            # The last edition is the new one by now.
            store.execute(
                "insert into receipts.edition_bindings"
                f" select distinct {last}::integer, {columns} from judgment.bindings"
            )
            self._touch(store)
        return True

    # --- marts ----------------------------------------------------------------------------------

    def build_table(self, full_name: str, rows: pa.Table | None = None) -> int:
        """Build one table of the file anew: new rows, audits, then the swap, in one transaction.

        Args:
            full_name: the model.
            rows: its rows, for a model that Python computes; None runs its query.

        Returns:
            The number of rows.

        Raises:
            AuditError: its rows broke an audit; the old table stays.
        """
        model = self.plan[full_name]
        with self.transaction() as store:
            if rows is None:
                self._timings.append(make_table(store, model, is_profiled=self._is_profiled))
            else:
                store.execute(f"drop table if exists {full_name}")
                store.execute(create_table(model))
                insert_arrow(store, model, rows)
            run_audits(store, [full_name])
            apply_comments(store, model)
            row = store.execute(f"select count(*) from {full_name}").fetchone()
        return int(row[0]) if row else 0

    # --- state ----------------------------------------------------------------------------------

    def _touch(self, store: duckdb.DuckDBPyConnection) -> None:
        """Count one more change of what marts are made from, in the transaction that made it."""
        value = int(self.state("inputs", store) or 0) + 1
        self.set_state("inputs", str(value), store)

    def state(self, name: str, store: duckdb.DuckDBPyConnection | None = None) -> str | None:
        """A remark of a former build, by name; None when there is none."""
        # The few there are, not the one: DuckDB 1.5 imports pandas with the first parameter that it
        # is given, which takes longer than to find that nothing has changed.
        rows = (store or self.store).execute("select name, value from settings.state").fetchall()
        return dict(rows).get(name)

    def set_state(
        self, name: str, value: str, store: duckdb.DuckDBPyConnection | None = None
    ) -> None:
        """Leave a remark for the next build."""
        store = store or self.store
        remark = text_table({"name": [name], "value": [value]})
        with staged(store, remark) as rows:
            store.execute(f"delete from settings.state where name in (select name from {rows})")
        with staged(store, remark) as rows:
            store.execute(f"insert into settings.state select name, value from {rows}")

    def content_hashes(self) -> dict[str, str]:
        """A hash of every stored table's content, by full name (see :func:`runner.table_hash`)."""
        return {
            model.full_name: table_hash(self.store, model)
            for model in self.plan
            if model.kind in ("table", "incremental")
        }

    def publish(self) -> Path:
        """Write the read-only copy beside the file and put it in place in one step."""
        target = self.warehouse.published
        aside = target.with_name(f".{target.name}.{os.getpid()}.new")
        _remove(aside)
        try:
            is_copied = self._copy_file(aside)
            # ATTACH takes no parameters: the path is a quoted literal.
            literal = "'" + str(aside).replace("'", "''") + "'"
            self.store.execute(f"attach {literal} as published")
            try:
                if not is_copied:
                    self.store.execute(f"copy from database {self.catalog} to published")
                write_documentation(self.store, "published", self.plan)
            finally:
                self.store.execute("detach published")
            _sync(aside)
            os.replace(aside, target)
        finally:
            _remove(aside)
        return target

    def _copy_file(self, aside: Path) -> bool:
        """Copy the file as it is; False when its rows are better written anew.

        That is when much of it is holes, left by rows that are gone, or when there is no ``cp``.
        """
        copy = shutil.which("cp")
        if copy is None:
            return False
        self.store.execute("force checkpoint")  # all of it in the file, nothing in the log
        row = self.store.execute(
            "select free_blocks, total_blocks from pragma_database_size()"
            " where database_name = current_database()"
        ).fetchone()
        if row is None or row[0] > MOST_HOLES * row[1]:
            return False
        # In a process of its own: DuckDB's lock on the file ends when this process closes the file
        # anywhere.
        done = subprocess.run(
            [copy, "--", str(self.warehouse.path), str(aside)], stderr=subprocess.DEVNULL
        )
        if done.returncode:
            _remove(aside)
        return done.returncode == 0


def _is_near(name: str, pairs: pa.Table) -> str:
    """A condition that holds for all rows of a table which belong to some placed pairs."""
    first, last = PLACES.get(name, ("", ""))
    if first not in pairs.column_names:
        return "true"
    low = min((row for row in pairs.column(first).to_pylist() if row is not None), default=1)
    high = max((row for row in pairs.column(last).to_pylist() if row is not None), default=0)
    return f"stored.rowid between {low:d} and {high:d}"


def sweep_leftovers(warehouse: Path) -> None:
    """Remove the half-written copies of processes that are no more."""
    for path in warehouse.parent.glob(f".{warehouse.stem}.published.duckdb.*.new*"):
        pid = re.search(r"\.(\d+)\.new", path.name)
        if pid and not _is_alive(int(pid[1])):
            _remove(path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove(path: Path) -> None:
    for name in (path, path.with_name(path.name + ".wal")):
        name.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _columns_of(store: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for schema, table, column in store.execute(
        "select schema_name, table_name, column_name from duckdb_columns()"
        " where database_name = current_database() and not internal order by column_index"
    ).fetchall():
        columns.setdefault(f"{schema}.{table}", []).append(column)
    return columns


def _reshape(store: duckdb.DuckDBPyConnection, model: Model, columns: list[str]) -> None:
    """Give a stored table the columns its model has now; rows keep the values of those left."""
    kept = [
        f"{column.name}::{column.type} as {column.name}"
        if column.name in columns
        else f"null::{column.type} as {column.name}"
        for column in model.columns
    ]
    store.execute(
        f"create or replace table {model.full_name} as"
        f" select {', '.join(kept)} from {model.full_name}"
    )


def _first_sentence(message: str) -> str:
    return re.sub(r"^(?:\w+ Error: )+", "", message.strip().splitlines()[0])
