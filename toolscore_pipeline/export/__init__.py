"""Exports: one neutral, versioned run record per run, with a manifest, for evaluation frameworks.

::

    from toolscore_pipeline.export import export_records, write_export

    records = export_records(["runs.jsonl"])
    write_export("records.jsonl", records, ["runs.jsonl"])

``export_warehouse`` streams the records of a whole warehouse.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.export.bundles import Bundle, Evidence
from toolscore_pipeline.export.inputs import export_records, record_from_run
from toolscore_pipeline.export.records import (
    SCHEMA_NAME,
    SCHEMA_VERSION,
    encode_record,
    record_sha256,
)
from toolscore_pipeline.export.validation import (
    MANIFEST_SCHEMA_PATH,
    SCHEMA_PATH,
    validate_manifest,
    validate_record,
)
from toolscore_pipeline.export.warehouse import Choice, export_warehouse
from toolscore_pipeline.export.writing import RecordWriter, manifest_path
from toolscore_pipeline.hashing import file_sha256

__all__ = [
    "MANIFEST_SCHEMA_PATH",
    "SCHEMA_NAME",
    "SCHEMA_PATH",
    "SCHEMA_VERSION",
    "Bundle",
    "Choice",
    "Evidence",
    "export_records",
    "export_warehouse",
    "manifest_path",
    "record_from_run",
    "record_sha256",
    "validate_manifest",
    "validate_record",
    "write_export",
]


def write_export(
    path: str | Path,
    records: Iterable[dict[str, Any]],
    inputs: Iterable[str | Path],
    *,
    bundle: Bundle | None = None,
    **facts: Any,
) -> tuple[Path, Path]:
    """Write records as JSONL and a manifest next to it.

    Both are written aside and renamed, the records first: what is there is always whole.

    Args:
        path: the JSONL file.
        records: the records, as :func:`export_records` gives them.
        inputs: the files they were made from; their sizes go into the manifest.
        bundle: the folder that keeps the sources' bytes; default none are kept.
        facts: more of what the manifest says (``study_id``, ``question``, ``baseline``,
            ``candidate``, ``wall_time_seconds``, ``expectations``).

    Returns:
        (the JSONL file, the manifest).

    Raises:
        InputError: a record that is there twice, or a file that cannot be written.
    """
    sizes = {}
    for item in inputs:
        if Path(item).is_file():
            sha256, size = file_sha256(item)
            sizes[sha256] = size
    seen: set[str] = set()
    with RecordWriter(path) as writer:
        for record in records:
            if record["record_id"] in seen:
                raise InputError(f"the record {record['record_id']} is there twice", path=path)
            seen.add(record["record_id"])
            writer.builder.add(record)
            writer.write([encode_record(record)])
            if bundle is not None:
                bundle.take(record)
        retained = bundle.keep(writer.builder) if bundle is not None else None
        writer.commit(sizes=sizes, retained=retained, **facts)
    return Path(path), manifest_path(path)
