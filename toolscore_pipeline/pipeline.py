"""Building a warehouse: load, judge, grade, compare, export, publish. Each step is safe to repeat.

The command line runs the steps one after the other; Dagster runs each as an asset of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from toolscore_pipeline.arrays import array_of, rows_table, text_table
from toolscore_pipeline.catalog_docs import documentation_version
from toolscore_pipeline.errors import InputError
from toolscore_pipeline.hashing import canonical_json, file_sha256, json_sha256
from toolscore_pipeline.judgments import judgment_tables
from toolscore_pipeline.loading import Batch, Known, Progress, load_documents
from toolscore_pipeline.plan import Model
from toolscore_pipeline.project import Binding, Project, objectives_json
from toolscore_pipeline.runner import OUTPUTS, Timing, insert_arrow, run_audits, staged
from toolscore_pipeline.warehouse import SCRATCH, Session, Warehouse, sweep_leftovers

CHUNK_PAIRS = 50_000
# Pairs times combinations scored at once: a judgment of many alternatives gets smaller chunks.
CHUNK_COMBINATIONS = 500_000
# Among so many answers there is one whose language only the identifier tells.
MANY_ANSWERS = 50

Say = Callable[[str], None]

_COMPARISONS_SCHEMA = pa.schema(
    [
        ("comparison", pa.string()),
        ("source", pa.string()),
        ("variant_key", pa.string()),
        ("baseline", pa.string()),
        ("k", pa.int64()),
        ("min_n", pa.int64()),
        ("alpha", pa.float64()),
        ("outcome_basis", pa.string()),
        ("select_policy", pa.string()),
        ("objectives_json", pa.string()),
        ("protocol_json", pa.string()),
        ("protocol_path", pa.string()),
    ]
)


@dataclass
class BuildReport:
    """What a build did.

    Attributes:
        documents_read, documents_unchanged, documents_removed: files and queries, by what became
            of them.
        runs_added, runs_removed: runs that came and went.
        rejects: records set aside in the documents read now.
        judgments_added: judgments that were new.
        pairs_graded: pairs of run and judgment that were graded.
        runs, graded: runs in the warehouse, and those with a current grade.
        marts_built: marts that were rebuilt.
        exports: files written, with the number of their records.
        published: whether the read-only copy was replaced.
        seconds: wall-clock seconds of each step.
        problems: files that could not be read, one sentence each.
        timings: what each table that was made cost; memory and temporary files when asked for.
    """

    documents_read: int = 0
    documents_unchanged: int = 0
    documents_removed: int = 0
    runs_added: int = 0
    runs_removed: int = 0
    rejects: int = 0
    judgments_added: int = 0
    pairs_graded: int = 0
    runs: int = 0
    graded: int = 0
    marts_built: list[str] = field(default_factory=list)
    exports: dict[str, int] = field(default_factory=dict)
    published: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return {
            "documents": {
                "read": self.documents_read,
                "unchanged": self.documents_unchanged,
                "removed": self.documents_removed,
            },
            "runs": {"added": self.runs_added, "removed": self.runs_removed, "total": self.runs},
            "rejects": self.rejects,
            "judgments_added": self.judgments_added,
            "pairs_graded": self.pairs_graded,
            "graded": self.graded,
            "marts_built": self.marts_built,
            "exports": self.exports,
            "published": self.published,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "problems": self.problems,
            "models": [
                {
                    "model": t.model,
                    "rows": t.rows,
                    "seconds": round(t.seconds, 4),
                    "peak_mb": None if t.peak_mb is None else round(t.peak_mb, 1),
                    "spill_mb": None if t.spill_mb is None else round(t.spill_mb, 1),
                }
                for t in self.timings
            ],
        }


def build(
    project: Project,
    *,
    full: bool = False,
    say: Say | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_graded: Callable[[int, int], None] | None = None,
    lock_seconds: float | None = None,
    threads: int | None = None,
    profile: bool = False,
) -> BuildReport:
    """Bring a project's warehouse, exports and published copy up to date.

    Args:
        project: the project.
        full: read every source again, whatever its size and time say.
        say: told what is being done, a sentence at a time.
        on_progress: called as files are read.
        on_graded: called with the pairs graded and the pairs in all.
        lock_seconds: how long to wait for another process; default a minute.
        threads: DuckDB threads; default all cores.
        profile: note the memory and temporary files of each model too.

    Raises:
        ToolscoreError: an input, a contract or a setting is wrong; what was committed stays.
    """
    report = BuildReport()
    warehouse = open_warehouse(project, lock_seconds=lock_seconds, threads=threads)
    bindings = project.bindings()
    settings = comparison_settings(project)
    with warehouse.open() as session:
        if profile:
            session.profile()
        with _timed(report, "judge"):
            load_judgments(session, bindings, report)
            session.replace_settings({"settings.comparisons": settings})
            session.use_grader()
        with _timed(report, "load"):
            load_sources(session, project, report, full=full, on_progress=on_progress, grade=True)
        with _timed(report, "grade"):
            grade_pending(session, report, on_graded=on_graded)
            session.note_edition()
            session.free_engine()
        with _timed(report, "marts"):
            build_marts(session, report)
        with _timed(report, "export"):
            write_exports(session, project, report)
        count_runs(session, report)
        with _timed(report, "publish"):
            publish(session, report)
        report.timings = session.timings
    if say:
        say(summary(report))
    return report


def open_warehouse(
    project: Project, *, lock_seconds: float | None = None, threads: int | None = None
) -> Warehouse:
    """The warehouse of a project, with the leftovers of processes that died swept away."""
    sweep_leftovers(project.warehouse)
    options: dict[str, Any] = {} if lock_seconds is None else {"lock_seconds": lock_seconds}
    return Warehouse(project.warehouse, threads=threads, **options)


def summary(report: BuildReport) -> str:
    """One sentence on what a build did."""
    if not (
        report.documents_read
        or report.documents_removed
        or report.pairs_graded
        or report.judgments_added
        or report.marts_built  # a contract or comparison that went changes what there is to see
    ):
        return (
            f"nothing changed: {counted(report.documents_unchanged, 'document')},"
            f" {counted(report.runs, 'run')}, 0 of {report.graded} grades made anew"
        )
    return (
        f"{counted(report.documents_read, 'document')} read,"
        f" {counted(report.runs_added, 'run')} added, {report.runs_removed} removed,"
        f" {counted(report.rejects, 'record')} set aside;"
        f" {counted(report.pairs_graded, 'grade')} made, {report.graded} in all"
    )


def counted(count: int, noun: str) -> str:
    """A count with its noun: ``1 run``, ``2 runs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class _timed:
    def __init__(self, report: BuildReport, step: str) -> None:
        self.report, self.step = report, step

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.report.seconds[self.step] = time.perf_counter() - self.started


# --- judgments and settings -----------------------------------------------------------------------


def load_judgments(session: Session, bindings: Iterable[Binding], report: BuildReport) -> None:
    """Add the judgments of a project and say which runs each applies to."""
    bindings = list(bindings)
    distinct = {binding.judgment.judgment_id: binding.judgment for binding in bindings}
    tables = judgment_tables(list(distinct.values()))
    report.judgments_added = session.add_judgments(tables)
    rows = [
        {
            "judgment_id": binding.judgment.judgment_id,
            "name": binding.name,
            "task": binding.task,
            "task_pattern": binding.task_pattern,
            "variant": binding.variant,
            "source": binding.source,
            "path": binding.path,
            "sha256": binding.sha256,
        }
        for binding in bindings
    ]
    session.replace_settings(
        {"judgment.bindings": _text_table(rows, session.plan["judgment.bindings"])}
    )


def comparison_settings(project: Project) -> pa.Table:
    """The rows of ``settings.comparisons``: one per comparison of the project file."""
    rows: list[dict[str, Any]] = []
    for comparison in project.comparisons:
        protocol = None
        if comparison.protocol:
            from toolscore_pipeline.stats import load_protocol

            protocol = load_protocol(comparison.protocol)
        row = {
            "comparison": comparison.name,
            "source": comparison.source,
            "variant_key": comparison.variant_key,
            "baseline": comparison.baseline,
            "k": comparison.k,
            "min_n": comparison.min_n,
            "alpha": comparison.alpha,
            "outcome_basis": comparison.outcome,
            "select_policy": comparison.select,
            "objectives_json": objectives_json(comparison),
            "protocol_json": canonical_json(protocol).decode() if protocol is not None else None,
            "protocol_path": (
                comparison.protocol.relative_to(project.root).as_posix()
                if comparison.protocol and comparison.protocol.is_relative_to(project.root)
                else None
            ),
        }
        rows.append(row)
    names = _COMPARISONS_SCHEMA.names
    return rows_table([tuple(row[name] for name in names) for row in rows], _COMPARISONS_SCHEMA)


def _text_table(rows: list[dict[str, Any]], model: Model) -> pa.Table:
    return text_table({name: [row[name] for row in rows] for name in model.column_names})


# --- loading --------------------------------------------------------------------------------------


def load_sources(
    session: Session,
    project: Project,
    report: BuildReport,
    *,
    full: bool = False,
    only: str | None = None,
    grade: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Load what is new or changed in the sources of a project, and drop what is gone.

    Args:
        session: the warehouse, held open.
        project: the project.
        report: counts are added to it.
        full: read every document again.
        only: the name of one source; default all.
        grade: grade the runs of each batch while they are still in memory.
        on_progress: called as files are read.
    """
    sources = [source for source in project.sources if only in (None, source.name)]
    rows = session.store.execute(
        "select path, bytes, modified_ns, sha256, loader_version from raw.documents"
    ).fetchall()
    known = {} if full else {path: Known(*values) for path, *values in rows}
    if grade and not known:
        load_ahead()
    row = session.store.execute("select count(*) from evidence.runs").fetchone()
    loader = _Loader(session, report, has_runs=bool(row and row[0]), grade=grade)
    for batch in load_documents(sources, known, on_progress):
        loader.take(batch)
    loader.drop_missing([source.name for source in sources], is_whole=only is None)


def load_ahead() -> None:
    """Have the language identifier loaded while runs are read, for it will be asked."""
    from toolscore_pipeline.honesty import language

    language.load_ahead()


class _Loader:
    """Adds batches to the warehouse: each in one transaction, new runs only."""

    def __init__(
        self, session: Session, report: BuildReport, *, has_runs: bool, grade: bool
    ) -> None:
        self.session, self.report = session, report
        self.has_runs, self.grade = has_runs, grade
        self.found: set[str] = set()
        self.started: set[str] = set()
        self.connection: duckdb.DuckDBPyConnection = session.engine.connection
        self.connection.execute("create or replace table work.seen (path varchar, run_id varchar)")

    def take(self, batch: Batch) -> None:
        """Add one batch."""
        session, connection = self.session, self.connection
        self.found.update(batch.unchanged)
        self.report.documents_unchanged += len(batch.unchanged) + len(batch.touched)
        paths = batch.documents.column("path").to_pylist()
        self.found.update(paths)
        touched = set(batch.touched)
        finished = [path for path in paths if path not in touched]
        self.report.documents_read += len(finished)
        self.report.rejects += batch.rejects.num_rows
        self._note_problems(batch)
        if not (paths or batch.runs.num_rows or batch.rejects.num_rows):
            return
        if self.grade and batch.runs.num_rows >= MANY_ANSWERS:
            load_ahead()
        session.engine.fill("evidence.runs", batch.runs)
        session.engine.fill("evidence.calls", batch.calls)
        connection.execute("insert into work.seen select path, run_id from evidence.runs")
        self._keep_one_of_each()
        run_audits(connection, ["evidence.runs", "evidence.calls"])
        self._leave_out_known()
        with session.transaction() as store:
            added = self._insert_runs(store)
            self._insert_documents(store, batch, paths)
            removed = (
                sum(self._remove_unseen(store, path) for path in finished) if self.has_runs else 0
            )
            if added or removed or paths:
                session._touch(store)
        self.report.runs_added += added
        self.report.runs_removed += removed
        if self.grade and added:
            self._grade_added()

    def _keep_one_of_each(self) -> None:
        """Keep a run once when two documents of the batch hold the same bytes."""
        row = self.connection.execute(
            "select count(*) - count(distinct run_id) from evidence.runs"
        ).fetchone()
        if not row or not row[0]:
            return
        for name, key in (("runs", "run_id"), ("calls", "run_id, call_index")):
            self.connection.execute(
                f"delete from evidence.{name} where rowid not in"
                f" (select min(rowid) from evidence.{name} group by {key})"
            )

    def _leave_out_known(self) -> None:
        """Keep in the engine only runs that the warehouse does not have, each once."""
        connection, catalog = self.connection, self.session.catalog
        connection.execute(
            f"""
            create or replace table work.known as
            select run_id from evidence.runs semi join {catalog}.evidence.runs using (run_id)
            """
            if self.has_runs
            else "create or replace table work.known (run_id varchar)"
        )
        row = connection.execute("select count(*) from work.known").fetchone()
        if row and row[0]:
            for name in ("evidence.runs", "evidence.calls"):
                connection.execute(
                    f"delete from {name} where run_id in (select run_id from work.known)"
                )

    def _insert_runs(self, store: duckdb.DuckDBPyConnection) -> int:
        counts = [
            store.execute(f"insert into {name} select * from {SCRATCH}.{name}").fetchone()
            for name in ("evidence.runs", "evidence.calls")
        ]
        return int(counts[0][0]) if counts[0] else 0

    def _insert_documents(
        self, store: duckdb.DuckDBPyConnection, batch: Batch, paths: list[str]
    ) -> None:
        touched = set(batch.touched)
        is_read = array_of([path not in touched for path in paths], pa.bool_())
        read = batch.documents.filter(is_read)
        with staged(store, read) as rows:
            store.execute(f"delete from raw.documents where path in (select path from {rows})")
        if touched:
            # The same bytes at another time: what was read of them stays as it is.
            with staged(store, batch.documents) as rows:
                store.execute(
                    f"update raw.documents set modified_ns = {rows}.modified_ns"
                    f" from {rows} where documents.path = {rows}.path"
                )
        insert_arrow(store, self.session.plan["raw.documents"], read)
        begun = {*batch.rejects.column("path").to_pylist(), *paths} - self.started - touched
        self.started |= begun
        with staged(store, text_table({"path": sorted(begun)})) as rows:
            store.execute(f"delete from raw.rejects where path in (select path from {rows})")
        insert_arrow(store, self.session.plan["raw.rejects"], batch.rejects)

    def _remove_unseen(self, store: duckdb.DuckDBPyConnection, path: str) -> int:
        """Remove the runs that a document held before and holds no more."""
        gone = f"""
            select run_id from evidence.runs where path = $1
            except select run_id from {SCRATCH}.work.seen where path = $1
        """
        store.execute(f"delete from evidence.calls where run_id in ({gone})", [path])
        row = store.execute(
            f"delete from evidence.runs where run_id in ({gone})", [path]
        ).fetchone()
        return int(row[0]) if row else 0

    def _grade_added(self) -> None:
        session, connection = self.session, self.connection
        bindings = session.store.execute("select count(*) from judgment.bindings").fetchone()
        if not bindings or not bindings[0]:
            return
        for name in ("judgment.bindings", "settings.grader"):
            connection.execute(f"truncate {name}")
            connection.execute(f"insert into {name} select * from {session.catalog}.{name}")
        pairs = connection.sql(
            f"""
            select run_id, judgment_id
            from judgment.applicable
            anti join (
                select run_id, judgment_id
                from {session.catalog}.grades.grades
                semi join evidence.runs using (run_id)
                inner join settings.grader using (grader_version)
            ) using (run_id, judgment_id)
            """
        ).to_arrow_table()
        for part in chunks(session, pairs):
            session.stage_pairs(part, with_evidence=False)
            self.report.pairs_graded += session.grade_staged()

    def _note_problems(self, batch: Batch) -> None:
        rejects = batch.rejects.select(["path", "line", "reason"]).slice(0, 20).to_pylist()
        told = {row["path"] for row in rejects}
        for row in batch.documents.select(["path", "error"]).to_pylist():
            if row["error"] and row["path"] not in told:
                self.report.problems.append(row["error"])
        for row in rejects:
            place = f"{row['path']}:{row['line']}" if row["line"] is not None else row["path"]
            self.report.problems.append(f"{place}: {row['reason']}")

    def drop_missing(self, sources: list[str], *, is_whole: bool) -> None:
        """Remove the documents that no source holds any more, with the runs only they held."""
        session = self.session
        rows = session.store.execute("select path, source, sha256 from raw.documents").fetchall()
        gone = [
            (path, sha256)
            for path, source, sha256 in rows
            if path not in self.found and (is_whole or source in sources)
        ]
        if not gone:
            return
        missing = {path for path, _ in gone}
        elsewhere = {sha256: (path, source) for path, source, sha256 in rows if path not in missing}
        with session.transaction() as store:
            for path, sha256 in gone:
                if sha256 in elsewhere:  # the same bytes stand at another path: the runs move there
                    store.execute(
                        "update evidence.runs set path = $1, source = $2 where path = $3",
                        [*elsewhere[sha256], path],
                    )
                self.report.runs_removed += self._remove_all(store, path)
                store.execute("delete from raw.documents where path = $1", [path])
                store.execute("delete from raw.rejects where path = $1", [path])
            session._touch(store)
        self.report.documents_removed += len(gone)

    def _remove_all(self, store: duckdb.DuckDBPyConnection, path: str) -> int:
        store.execute(
            "delete from evidence.calls"
            " where run_id in (select run_id from evidence.runs where path = $1)",
            [path],
        )
        row = store.execute("delete from evidence.runs where path = $1", [path]).fetchone()
        return int(row[0]) if row else 0


# --- grading --------------------------------------------------------------------------------------


def grade_pending(
    session: Session,
    report: BuildReport,
    *,
    on_graded: Callable[[int, int], None] | None = None,
    source: str | None = None,
    contract: str | None = None,
    again: bool = False,
) -> None:
    """Grade every pair that has no grade under the current formulas, a chunk at a time.

    Args:
        session: the warehouse, held open.
        report: counts are added to it.
        on_graded: called with the pairs graded and the pairs in all, first with none graded.
        source: only runs of this source; default all.
        contract: only what is held against the contract of this name; default all.
        again: drop the grades that these pairs have under the current formulas, and make them anew.
            When it is broken off, what is missing is made by the next build.
    """
    wanted, names = "true", {}
    if source is not None:
        wanted += " and run_id in (select run_id from evidence.runs where source = $source)"
        names["source"] = source
    if contract is not None:
        wanted += (
            " and judgment_id in (select judgment_id from judgment.bindings where name = $contract)"
        )
        names["contract"] = contract
    if again:
        with session.transaction() as store:
            for name in OUTPUTS:
                store.execute(
                    f"delete from {name}"
                    " where grader_version in (select grader_version from settings.grader)"
                    " and (run_id, judgment_id) in"
                    f" (select (run_id, judgment_id) from judgment.applicable where {wanted})",
                    names,
                )
            session._touch(store)
    pairs = session.store.sql(
        f"select run_id, judgment_id from grades.pending where {wanted}", params=names
    ).to_arrow_table()
    if not pairs.num_rows:
        return
    done = 0
    if on_graded:
        on_graded(done, pairs.num_rows)
    for part in chunks(session, session.place_pairs(pairs)):
        session.stage_pairs(part)
        report.pairs_graded += session.grade_staged()
        done += part.num_rows
        if on_graded:
            on_graded(done, pairs.num_rows)


def chunks(session: Session, pairs: pa.Table) -> Iterator[pa.Table]:
    """Cut pairs (run_id, judgment_id) so that each piece is graded within bounded memory."""
    counts = dict(
        session.store.execute(
            "select judgment_id, combination_count from judgment.judgments"
            " where combination_count > 1"
        ).fetchall()
    )
    size = CHUNK_PAIRS
    if counts and pairs.num_rows:
        present = {row["values"] for row in pairs["judgment_id"].value_counts().to_pylist()}
        most = max((counts.get(judgment_id, 1) for judgment_id in present), default=1)
        size = max(1, min(size, CHUNK_COMBINATIONS // most))
    for start in range(0, pairs.num_rows, size):
        yield pairs.slice(start, size)


# --- marts, exports, publishing -------------------------------------------------------------------


def marts(session: Session) -> list[Model]:
    """The tables that SQL rebuilds from the rest, in order."""
    return [
        model
        for model in session.plan.layer("marts")
        if model.kind == "table" and not is_staged(model)
    ]


def is_staged(model: Model) -> bool:
    """Whether a model's rows come from Python instead of from other models."""
    return any(name.startswith("staged.") for name in model.depends_on)


def marts_version(session: Session) -> str:
    """What the marts should be made from: a hash of the count of changes and the formulas."""
    code = [f"{model.full_name} {model.code_version}" for model in session.plan.layer("marts")]
    return json_sha256([session.state("inputs"), *code])


def build_marts(session: Session, report: BuildReport) -> None:
    """Rebuild every mart, unless nothing they are made from has changed."""
    version = marts_version(session)
    if session.state("marts") == version:
        return
    for model in marts(session):
        session.build_table(model.full_name)
        report.marts_built.append(model.full_name)
    report.marts_built += decide(session)
    with session.transaction() as store:
        session.set_state("marts", version, store)


def decide(session: Session) -> list[str]:
    """Compute the marts that Python decides: tests, selections, protocol decisions.

    Returns their names.

    Declarations of protocols and decisions made before are kept: they are a history.
    """
    from toolscore_pipeline.stats import marts as decisions

    history = {
        name: session.store.sql(f"select * from marts.{name}").to_arrow_table()
        for name in ("protocol_declarations", "protocol_decisions")
    }
    tables = decisions.decide(
        session.store,
        datetime.now(UTC),
        history["protocol_declarations"],
        history["protocol_decisions"],
    )
    for name, rows in tables.items():
        session.build_table(f"marts.{name}", rows)
    return [f"marts.{name}" for name in tables]


def write_exports(
    session: Session,
    project: Project,
    report: BuildReport,
    *,
    only: str | None = None,
    again: bool = False,
) -> None:
    """Write every export whose records have changed, or whose files are not as they were written.

    What the files hold is not read for that: their sizes and times tell.

    Args:
        session: the warehouse, held open.
        project: the project.
        report: the files written are added to it.
        only: the name of one export; default all.
        again: write the files also where nothing has changed.
    """
    exports = [export for export in project.exports if only in (None, export.name)]
    if not exports:
        return
    from toolscore_pipeline.export import export_warehouse

    version = json_sha256([marts_version(session), session.state("inputs"), export_version()])
    for export in exports:
        state = f"export {export.name}"
        if not again and session.state(state) == _as_written(version, export.path):
            continue
        report.exports[str(export.path)] = export_warehouse(session, project, export.path)
        with session.transaction() as store:
            session.set_state(state, _as_written(version, export.path), store)


def _as_written(version: str, path: Path) -> str:
    """What an export is of, with the size and time of its two files; 0 where one is missing."""
    from toolscore_pipeline.export import manifest_path

    facts = [version]
    for file in (path, manifest_path(path)):
        try:
            stat = file.stat()
            facts.append(f"{stat.st_size}@{stat.st_mtime_ns}")
        except OSError:
            facts.append("0")
    return " ".join(facts)


def export_version() -> str:
    """A hash over the formulas and the code that decide what an export holds."""
    from toolscore_pipeline.export.manifest import producer
    from toolscore_pipeline.plan import load_plan

    code = [f"{model.full_name} {model.code_version}" for model in load_plan().layer("exports")]
    return json_sha256([producer(), *code])


@dataclass(frozen=True, slots=True)
class WrittenExport:
    """An export as it lies on disk.

    Attributes:
        count: its records, by its manifest.
        bytes: the size of the records' file.
        sha256: the SHA-256 of that file.
        recorded_sha256: the one that its manifest names.
    """

    count: int
    bytes: int
    sha256: str
    recorded_sha256: str

    @property
    def is_whole(self) -> bool:
        """Whether the file is the one that its manifest was written for."""
        return self.sha256 == self.recorded_sha256


def read_export(path: Path) -> WrittenExport:
    """What lies at the path of an export.

    Raises:
        InputError: the file or its manifest cannot be read.
    """
    from toolscore_pipeline.export import manifest_path

    manifest = manifest_path(path)
    try:
        records = json.loads(manifest.read_bytes())["records"]
        sha256, size = file_sha256(path)
        return WrittenExport(int(records["count"]), size, sha256, str(records["sha256"]))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=error.filename) from None
    except (ValueError, KeyError, TypeError):
        raise InputError("it is no manifest of run records", path=manifest) from None


def publish(session: Session, report: BuildReport) -> None:
    """Replace the published copy, unless it is already the newest."""
    version = json_sha256(
        [marts_version(session), session.state("inputs"), documentation_version(session.plan)]
    )
    # The copy itself says what it is of: the warehouse only says what was meant to be published.
    if session.warehouse.published_state("published") == version:
        return
    with session.transaction() as store:
        session.set_state("published", version, store)
    session.publish()
    report.published = True


def count_runs(session: Session, report: BuildReport) -> None:
    """Fill in the totals of the report."""
    row = session.store.execute(
        "select (select count(*) from evidence.runs), (select count(*) from marts.latest_grades)"
    ).fetchone()
    report.runs, report.graded = (int(row[0]), int(row[1])) if row else (0, 0)
