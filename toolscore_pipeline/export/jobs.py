"""One export from the command line: what is read, how it is chosen, and what it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from toolscore_pipeline.errors import UsageError, WarehouseError, unknown_name
from toolscore_pipeline.export.bundles import Bundle
from toolscore_pipeline.export.inputs import export_records
from toolscore_pipeline.export.manifest import expectations_of
from toolscore_pipeline.export.otel import otlp_lines
from toolscore_pipeline.export.records import finished, redact_record
from toolscore_pipeline.export.warehouse import (
    Choice,
    export_store,
    open_published,
    project_facts,
    stream_records,
)
from toolscore_pipeline.export.writing import RecordWriter, manifest_path


@dataclass(frozen=True)
class Job:
    """What to export, and as what (the options of ``toolscore export``)."""

    format: str
    output: Path
    inputs: list[str] = field(default_factory=list)
    gold: Path | None = None
    variants: list[str] = field(default_factory=list)
    min_score: float = 0.9
    tasks: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    query: str | None = None
    redact: bool = False
    bundle: Path | None = None
    table: str | None = None
    partition: list[str] = field(default_factory=list)
    project: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def run_job(job: Job) -> dict[str, Any]:
    """Do an export; returns ``format``, ``path``, ``count`` and, for run records, the manifest's.

    Raises:
        UsageError: options that do not go together, or a name nobody knows.
        InputError: an input that cannot be read, or a file that cannot be written.
    """
    if job.inputs:
        return _export_files(job)
    return _export_project(job)


def _refuse_sources(job: Job, paths: Iterable[str | None], root: Path | None = None) -> None:
    """Refuse an output that would take the place of what the records are made from."""
    target = job.output.resolve()
    for path in paths:
        if path and ((root or Path()) / path).resolve() == target:
            raise UsageError(f"{job.output}: the records are made from this file; write another")


# --- files ----------------------------------------------------------------------------------------


def _export_files(job: Job) -> dict[str, Any]:
    if job.table or job.query or job.sources or job.project:
        raise UsageError(
            "--table, --query, --source and --project choose from a warehouse: leave out the inputs"
        )
    if len(job.variants) > 1:
        raise UsageError("with inputs, --variant names the one variant of their traces")
    records = export_records(
        job.inputs,
        gold=job.gold,
        variant=job.variants[0] if job.variants else "",
        min_score=job.min_score,
    )
    _refuse_sources(job, [*job.inputs, *(record["source"]["path"] for record in records)])
    for what, key, names in (("task", "task_id", job.tasks), ("outcome", "outcome", job.outcomes)):
        known = sorted({str(record[key]) for record in records})
        for name in names:
            if name not in known:
                raise UsageError(unknown_name(what, name, known))
        if names:
            records = [record for record in records if record[key] in names]
    if job.redact:
        records = [finished(redact_record(record)) for record in records]
    if job.format != "aef":
        return _write_other(job, iter([records]))
    from toolscore_pipeline.export import write_export

    expectations = _gold_expectations(job.gold, records) if job.gold else None
    bundle = Bundle(job.bundle) if job.bundle else None
    write_export(
        job.output, records, job.inputs, bundle=bundle, expectations=expectations, **job.facts
    )
    return _report(job, len(records))


def _gold_expectations(gold: Path, records: list[dict[str, Any]]) -> dict[str, Any] | None:
    from toolscore_pipeline.contract import load_expected
    from toolscore_pipeline.judgments import compile_judgment
    from toolscore_pipeline.result import parse_json

    judgment = compile_judgment(load_expected(gold))
    found = expectations_of(parse_json(judgment.judgment_json), judgment.judgment_id)
    if found is None:
        return None
    entry = {"contract": gold.name.split(".")[0], **found}
    return {record["task_id"] or "": entry for record in records}


# --- the warehouse --------------------------------------------------------------------------------


def _export_project(job: Job) -> dict[str, Any]:
    from toolscore_pipeline.project import open_project

    if job.gold is not None:
        raise UsageError("--gold grades traces: name them, or leave it out to export the warehouse")
    project = open_project(job.project)
    if not project.published.is_file():
        raise WarehouseError(
            f"{project.published}: no warehouse has been published yet; run toolscore build"
        )
    choice = Choice(
        tasks=job.tasks,
        variants=job.variants,
        sources=job.sources,
        outcomes=job.outcomes,
        query=job.query,
    )
    with open_published(project.published) as store:
        named = "select path from raw.documents where ends_with(path, $1)"
        paths = store.execute(named, [job.output.name]).fetchall()
        _refuse_sources(job, [path for (path,) in paths], project.root)
        if job.table is not None:
            return _write_table(job, store, job.table)
        if job.format != "aef":
            batches = stream_records(store, choice, root=project.root, redact=job.redact)
            return _write_other(job, batches)
        facts = {**project_facts(project), **job.facts}
        bundle = Bundle(job.bundle, project.root) if job.bundle else None
        manifest = export_store(
            store, job.output, choice=choice, redact=job.redact, bundle=bundle, **facts
        )
    return _report(job, int(manifest["records"]["count"]))


def _write_table(job: Job, store: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    from toolscore_pipeline.export.tables import table_reader, write_parquet

    if job.tasks or job.variants or job.sources or job.outcomes or job.query:
        raise UsageError("--table writes a table whole: leave out what chooses runs")
    if job.redact:
        raise UsageError("--table writes a table as it is: --redact goes with the run records")
    reader = table_reader(store, name)
    count = write_parquet(job.output, reader, reader.schema, job.partition)
    return _report(job, count)


# --- other formats --------------------------------------------------------------------------------


def _write_other(job: Job, batches: Iterator[list[dict[str, Any]]]) -> dict[str, Any]:
    if job.format == "parquet":
        from toolscore_pipeline.export.tables import (
            RECORDS_SCHEMA,
            record_batches,
            write_parquet,
        )

        names = {"task": "task_id"}  # as everywhere else
        columns = [names.get(name, name) for name in job.partition or ["variant"]]
        count = write_parquet(job.output, record_batches(batches), RECORDS_SCHEMA, columns)
        return _report(job, count)
    from toolscore_pipeline import __version__

    records = (finished(record) for batch in batches for record in batch)
    count = 0
    with RecordWriter(job.output) as writer:
        for line, events in otlp_lines(records, version=__version__):
            writer.write([line])
            count += events
        writer.commit_alone()
    return _report(job, count)


def _report(job: Job, count: int) -> dict[str, Any]:
    report: dict[str, Any] = {"format": job.format, "path": str(job.output), "count": count}
    if job.format == "aef":
        report["manifest"] = str(manifest_path(job.output))
    return report
