"""Parquet: any table of the warehouse, or the run records as flat rows, partitioned by columns."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from toolscore_pipeline.errors import InputError, UsageError, unknown_name
from toolscore_pipeline.export.records import encode_record

_TEXTS = (
    "record_id", "task_id", "variant", "status", "outcome", "outcome_basis", "model", "contract",
    "grade", "verdict", "final_answer", "started_at", "ended_at", "cost_usd", "source_path",
    "source_sha256", "evidence_sha256", "record_sha256", "record_json",
)  # fmt: skip
RECORDS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("repetition", pa.int64()),
        ("repetition_index", pa.int64()),
        ("score", pa.float64()),
        ("is_passed", pa.bool_()),
        ("duration_seconds", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("call_count", pa.int64()),
        ("outcome_count", pa.int64()),
        ("unknown_count", pa.int64()),
    ]
)
"""The columns of run records as Parquet: the facts most asked for, and the whole record as JSON.

``cost_usd`` is decimal text, exact; the instants are RFC 3339 text.
"""

_LAYERS = ("evidence", "grades", "judgment", "marts", "raw", "settings")


def record_batches(batches: Iterable[list[dict[str, Any]]]) -> Iterator[pa.RecordBatch]:
    """Run records as Arrow batches of ``RECORDS_SCHEMA``."""
    for records in batches:
        yield pa.RecordBatch.from_pylist([_flat(record) for record in records], RECORDS_SCHEMA)


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    line = encode_record(record)
    evaluation: Mapping[str, Any] = record["evaluation"] or {}
    coverage = record["coverage"]
    return {
        "record_id": record["record_id"],
        "task_id": record["task_id"],
        "variant": record["variant"],
        "status": record["status"],
        "outcome": record["outcome"],
        "outcome_basis": record["outcome_basis"],
        "model": record["agent"]["model"],
        "contract": evaluation.get("contract"),
        "grade": evaluation.get("grade"),
        "verdict": evaluation.get("verdict"),
        "final_answer": record["final_answer"]["value"],
        "started_at": record["started_at"],
        "ended_at": record["ended_at"],
        "cost_usd": record["cost"]["value"],
        "source_path": record["source"]["path"],
        "source_sha256": record["source"]["sha256"],
        "evidence_sha256": record["hashes"]["evidence_sha256"],
        "record_sha256": line.split(b'"record_sha256":"', 1)[1][:64].decode(),
        "record_json": line.decode(),
        "repetition": record["repetition"],
        "repetition_index": record["repetition_index"],
        "score": evaluation.get("score"),
        "is_passed": evaluation.get("passed"),
        "duration_seconds": record["duration_seconds"],
        "input_tokens": record["usage"]["input_tokens"]["value"],
        "output_tokens": record["usage"]["output_tokens"]["value"],
        "call_count": coverage["calls"],
        "outcome_count": coverage["with_outcome"],
        "unknown_count": len(coverage["unknown"]),
    }


def table_reader(store: duckdb.DuckDBPyConnection, name: str) -> pa.RecordBatchReader:
    """The rows of a table of the warehouse, in batches, in a fixed order.

    Raises:
        UsageError: there is no table of that name.
    """
    rows = store.execute(
        "select schema_name || '.' || table_name from duckdb_tables()"
        " where database_name = current_database() and list_contains($1, schema_name) order by 1",
        [list(_LAYERS)],
    ).fetchall()
    known = [full_name for (full_name,) in rows]
    if name not in known:
        full = [full_name for full_name in known if full_name.split(".")[1] == name]
        if len(full) != 1:
            raise UsageError(unknown_name("table", name, known))
        name = full[0]
    # The name is one of the catalog's own by now.
    return store.sql(f"select * from {name} order by all").to_arrow_reader(20_000)


def write_parquet(
    folder: str | Path,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    partition: Sequence[str] = (),
) -> int:
    """Write a folder of Parquet files, one below ``column=value`` folders per partition.

    The folder is written aside and put in place whole; an older one of the same name is replaced
    when it holds Parquet files only.

    Returns:
        The number of rows.

    Raises:
        UsageError: a partition column that is not there.
        InputError: the folder cannot be written, or holds other files.
    """
    import pyarrow.dataset as dataset

    for column in partition:
        if column not in schema.names:
            raise UsageError(unknown_name("column", column, schema.names))
    target = Path(folder)
    _refuse_foreign(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}.new")
    count = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            count += batch.num_rows
            yield batch

    fields = [schema.field(column) for column in partition]
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        dataset.write_dataset(
            pa.RecordBatchReader.from_batches(schema, counted()),
            aside,
            format="parquet",
            partitioning=dataset.partitioning(pa.schema(fields), flavor="hive") if fields else None,
            max_partitions=100_000,
            use_threads=False,
            existing_data_behavior="overwrite_or_ignore",
        )
        if target.exists():
            shutil.rmtree(target)
        aside.replace(target)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=folder) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return count


def _refuse_foreign(target: Path) -> None:
    if not target.exists():
        return
    if target.is_file():
        raise InputError("expected a folder to write, got a file", path=target)
    for file in target.rglob("*"):
        if file.is_file() and file.suffix != ".parquet":
            raise InputError(
                f"the folder holds {file.name}, which is no Parquet file; name another one",
                path=target,
            )
