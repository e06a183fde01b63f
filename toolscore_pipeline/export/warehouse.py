"""The run records of a warehouse, streamed: a batch of runs in memory at a time."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from toolscore_pipeline.connecting import connect
from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.export.manifest import expectations_of
from toolscore_pipeline.export.records import (
    build_record,
    encode_record,
    evaluation_of,
    redact_record,
)
from toolscore_pipeline.export.writing import RecordWriter
from toolscore_pipeline.plan import load_plan
from toolscore_pipeline.result import parse_json

if TYPE_CHECKING:
    from toolscore_pipeline.export.bundles import Bundle
    from toolscore_pipeline.project import Project
    from toolscore_pipeline.warehouse import Session

BATCH_RUNS = 10_000
BATCH_CALLS = 50_000
# Records handed on at a time: the dictionaries of more would weigh more than what they are made of.
_YIELDED = 500
# What DuckDB may hold while it streams; it caches less of the file then.
_MEMORY_LIMIT = "300MB"


@dataclass(frozen=True)
class Choice:
    """Which runs of a warehouse are exported; an empty list does not choose.

    Attributes:
        tasks, variants, sources: exact names.
        outcomes: ``pass``, ``fail``, ``error``, ``unknown``: of the standing grade, else recorded.
        query: a SELECT whose column ``run_id`` names the runs; None takes all.
    """

    tasks: list[str] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    query: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """What was chosen by, for the manifest; empty when every run was taken."""
        found = {
            "task": self.tasks,
            "variant": self.variants,
            "source": self.sources,
            "outcome": self.outcomes,
            "query": self.query,
        }
        return {name: value for name, value in found.items() if value}


def export_warehouse(session: Session, project: Project, path: str | Path) -> int:
    """Write the records of every run of a warehouse, with the grade that stands, and the manifest.

    Records are in order of source, task, variant, repetition and run id; the same warehouse gives
    the same bytes.

    Args:
        session: the warehouse, held open.
        project: its project, which says what is compared with what.
        path: the JSONL file; the manifest goes beside it.

    Returns:
        The number of records.

    Raises:
        InputError: the file cannot be written.
    """
    manifest = export_store(session.store, path, **project_facts(project))
    return int(manifest["records"]["count"])


def project_facts(project: Project) -> dict[str, Any]:
    """What a project says of the study: its id, and the baseline of its first comparison."""
    first = next((c for c in project.comparisons if c.variant_key in (None, "variant")), None)
    return {
        "study_id": project.root.name or "study",
        "usual_baseline": first.baseline if first else None,
        "root": project.root,
    }


def export_store(
    store: duckdb.DuckDBPyConnection,
    path: str | Path,
    *,
    choice: Choice | None = None,
    redact: bool = False,
    root: Path | None = None,
    bundle: Bundle | None = None,
    usual_baseline: str | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """Write the records of a warehouse that is open; returns the manifest.

    Args:
        store: a connection on which ``evidence``, ``grades`` and ``marts`` are the warehouse's.
        path: the JSONL file.
        choice: which runs; default all.
        redact: replace credentials by a preview.
        root: the folder that paths are written relative to, where they lie in it.
        bundle: the folder that keeps the evidence; default none is kept.
        usual_baseline: the variant the others are compared with, when ``facts`` name no
            ``baseline``; left out when no record has it.
        facts: more of what the manifest says (see ``ManifestBuilder.manifest``).
    """
    choice = choice or Choice()
    with RecordWriter(path) as writer, _no_search_for_cycles():
        for records in stream_records(store, choice, root=root, redact=redact):
            for record in records:
                writer.builder.add(record)
                if bundle is not None:
                    bundle.take(record)
            writer.write(encode_record(record) for record in records)
        names = writer.builder.variants
        facts.setdefault("baseline", usual_baseline if usual_baseline in names else None)
        others = [name for name in names if name not in (facts["baseline"], None)]
        is_pair = facts["baseline"] is not None and len(others) == 1
        facts.setdefault("candidate", others[0] if is_pair else None)
        return writer.commit(
            sizes=dict(store.execute("select sha256, bytes from raw.documents").fetchall()),
            expectations=_expectations(store),
            filters=choice.to_dict(),
            retained=bundle.keep(writer.builder) if bundle is not None else None,
            **facts,
        )


def stream_records(
    store: duckdb.DuckDBPyConnection,
    choice: Choice,
    *,
    root: Path | None = None,
    redact: bool = False,
) -> Iterator[list[dict[str, Any]]]:
    """The records of a warehouse that is open, a batch at a time, in their order."""
    with _staging(store):
        for records in _record_batches(store, choice, root):
            yield [redact_record(record) for record in records] if redact else records


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Leave the garbage collector off: records are trees, and it would walk over all of them.

    They are freed as they are let go of; looking for cycles among them takes a quarter of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def open_published(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection on a published warehouse, to export from; nothing else can be reached."""
    connection = connect()
    try:
        literal = "'" + str(path).replace("'", "''") + "'"  # ATTACH takes no parameters
        connection.execute(f"attach {literal} as published (read_only)")
        connection.execute("attach ':memory:' as staged")
        connection.execute("set enable_external_access = false")
        connection.execute("use published")
        connection.execute("set TimeZone = 'UTC'")
        connection.execute("set enable_progress_bar = false")
        yield connection
    finally:
        connection.close()


@contextmanager
def _staging(store: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A catalog in memory for the runs being exported, and a bound on what is cached meanwhile."""
    known = {
        name for (name,) in store.execute("select database_name from duckdb_databases()").fetchall()
    }
    before = _memory_limit(store)
    if "staged" not in known:
        store.execute("attach ':memory:' as staged")
    # What is pinned already may not fit under the bound; then it stays as it was.
    with suppress(duckdb.Error):
        store.execute("set memory_limit = $1", [_MEMORY_LIMIT])
    try:
        yield
    finally:
        store.execute("set memory_limit = $1", [before])
        for name in ("chosen", "numbered_batch", "record_batch"):
            store.execute(f"drop table if exists staged.main.{name}")
        if "staged" not in known:
            store.execute("detach staged")


def _memory_limit(store: duckdb.DuckDBPyConnection) -> str:
    """The limit in a form that sets it again; DuckDB shows it cut off after one decimal."""
    row = store.execute("select current_setting('memory_limit')").fetchone()
    shown = re.fullmatch(r"([\d.]+) ?([A-Za-z]+)", str(row[0]) if row else "")
    return f"{float(shown[1]) + 0.05} {shown[2]}" if shown is not None else "80%"


def _record_batches(
    store: duckdb.DuckDBPyConnection, choice: Choice, root: Path | None
) -> Iterator[list[dict[str, Any]]]:
    plan = load_plan()
    _choose(store, choice)
    order = store.sql(
        f"select position, run_id, call_count, repetition_index"
        f" from ({plan['exports.record_order'].query}) order by position"
    ).to_arrow_table()
    for batch in _batches(order):
        store.register("export_batch", batch)
        store.execute(
            "create or replace table staged.main.numbered_batch as"
            " select position, run_id, repetition_index from export_batch"
        )
        store.execute(
            "create or replace table staged.main.record_batch as select run_id from export_batch"
        )
        store.unregister("export_batch")
        calls: dict[str, list[dict[str, Any]]] = {}
        for row in _rows(store, plan["exports.record_calls"].query, "run_id, call_index"):
            calls.setdefault(row["run_id"], []).append(row)
        checks: dict[str, list[tuple[Any, Any, Any]]] = {}
        for row in _rows(store, plan["exports.record_checks"].query, "run_id, check_position"):
            entry = (row["check_name"], row["status"], row["detail"])
            checks.setdefault(row["run_id"], []).append(entry)
        rows = _rows(store, plan["exports.run_records"].query, "position")
        while some := list(islice(rows, _YIELDED)):
            yield [
                _record(row, calls.pop(row["run_id"], []), checks.pop(row["run_id"], []), root)
                for row in some
            ]


def _rows(store: duckdb.DuckDBPyConnection, query: str, order: str) -> Iterator[dict[str, Any]]:
    reader = store.sql(f"select * from ({query}) order by {order}").to_arrow_reader(2_048)
    for batch in reader:
        names = batch.schema.names
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def _batches(order: pa.Table) -> Iterator[pa.Table]:
    """Consecutive runs, at most ``BATCH_RUNS`` of them and about ``BATCH_CALLS`` calls."""
    start = calls = 0
    for index, count in enumerate(order.column("call_count").to_pylist()):
        if index > start and (index - start >= BATCH_RUNS or calls + (count or 0) > BATCH_CALLS):
            yield order.slice(start, index - start)
            start, calls = index, 0
        calls += count or 0
    if start < order.num_rows:
        yield order.slice(start)


def _record(
    row: Mapping[str, Any],
    calls: list[dict[str, Any]],
    checks: Iterable[tuple[Any, Any, Any]],
    root: Path | None,
) -> dict[str, Any]:
    kind = "run_rows" if row["format"] == "run_rows" else "trace"
    if str(row["path"]).startswith("query:"):
        kind = "query"
    line = re.match(r"line (\d+)", row["locator"] or "")
    return build_record(
        row,
        calls,
        source={
            "kind": kind,
            "path": relative_path(row["path"], root),
            "sha256": row["document_id"],
            "line": int(line[1]) if line else None,
        },
        evaluation=evaluation_of(row, checks) if row["grade_id"] is not None else None,
        outcome=row["outcome"],
        repetition_index=row["repetition_index"],
    )


def relative_path(path: str | None, root: Path | None) -> str | None:
    """A path as it stands below ``root``; outside of it, as it is."""
    if not path:
        return None
    if root is None or not os.path.isabs(path):
        return path
    found = Path(path)
    return found.relative_to(root).as_posix() if found.is_relative_to(root) else path


def _choose(store: duckdb.DuckDBPyConnection, choice: Choice) -> None:
    """Name the chosen runs in ``staged.chosen``."""
    parameters = {
        "tasks": choice.tasks,
        "variants": choice.variants,
        "sources": choice.sources,
        "outcomes": choice.outcomes,
    }
    _refuse_unknown(store, choice)
    store.execute(
        """
        create or replace table staged.main.chosen as
        select run_id
        from evidence.runs
        left join (select run_id, outcome from marts.latest_grades) using (run_id)
        where
            (len($tasks) = 0 or list_contains($tasks, task))
            and (len($variants) = 0 or list_contains($variants, variant))
            and (len($sources) = 0 or list_contains($sources, source))
            and (
                len($outcomes) = 0
                or list_contains($outcomes, coalesce(outcome, recorded_outcome, 'unknown'))
            )
        """,
        parameters,
    )
    if choice.query is None:
        return
    try:
        wanted = store.sql(choice.query).to_arrow_table()
    except duckdb.Error as error:
        raise InputError(f"the query failed: {str(error).splitlines()[0]}") from None
    if "run_id" not in wanted.column_names:
        raise InputError(
            f"the query needs a column 'run_id'; its columns are: {', '.join(wanted.column_names)}"
        )
    store.register("export_wanted", wanted.select(["run_id"]))
    store.execute(
        "delete from staged.main.chosen where run_id not in"
        " (select run_id from export_wanted where run_id is not null)"
    )
    store.unregister("export_wanted")


def _refuse_unknown(store: duckdb.DuckDBPyConnection, choice: Choice) -> None:
    from toolscore_pipeline.errors import unknown_name

    for what, column, names in (
        ("task", "task", choice.tasks),
        ("variant", "variant", choice.variants),
        ("source", "source", choice.sources),
    ):
        if not names:
            continue
        rows = store.execute(
            f"select distinct {column} from evidence.runs where {column} is not null order by 1"
        ).fetchall()
        known = [name for (name,) in rows]
        for name in names:
            if name not in known:
                raise UsageError(unknown_name(what, name, known[:50]))
    for name in choice.outcomes:
        if name not in ("pass", "fail", "error", "unknown"):
            raise UsageError(unknown_name("outcome", name, ("pass", "fail", "error", "unknown")))


def _expectations(store: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """The expected calls of each task that one judgment alone stands for."""
    rows = store.execute(
        """
        select task, any_value(contract), any_value(judgment_id), any_value(judgment_json)
        from marts.latest_grades
        inner join judgment.judgments using (judgment_id)
        where task is not null
        group by task
        having count(distinct judgment_id) = 1
        """
    ).fetchall()
    found = {}
    for task, contract, judgment_id, text in rows:
        expectations = expectations_of(parse_json(text), judgment_id)
        if expectations is not None:
            found[task] = {"contract": contract, **expectations}
    return found
