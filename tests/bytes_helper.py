"""Build a project and hash all that comes of it: exported records, manifest, receipts.

A program of its own too, for another DuckDB: ``python -m tests.bytes_helper FOLDER THREADS``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import duckdb

from toolscore_pipeline.pipeline import build
from toolscore_pipeline.project import load_project
from toolscore_pipeline.receipts import write_receipt
from toolscore_pipeline.regrades import receipts_of
from toolscore_pipeline.warehouse import Warehouse


def made(folder: Path, threads: int) -> dict[str, str]:
    """The SHA-256 of every file made of a project, by name; ``duckdb`` is its version.

    Args:
        folder: the project's; receipts go into ``receipts/`` there, at the instant 0.
        threads: how many DuckDB works with.
    """
    project = load_project(folder / "toolscore.yaml")
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    build(project, threads=threads)
    with Warehouse(project.warehouse).open() as session:
        session.store.execute(f"set threads = {int(threads)}")
        ids = [
            row[0]
            for row in session.store.execute(
                "select grade_id from marts.latest_grades order by run_id"
            ).fetchall()
        ]
        for result, receipt in receipts_of(session.store, project, ids):
            target = folder / f"receipts/{result.run['run_id']}.json"
            write_receipt(target, receipt, base=folder)
    files = sorted([*(folder / "receipts").iterdir(), *(folder / "exports").iterdir()])
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    return found | {"duckdb": duckdb.__version__}


if __name__ == "__main__":
    print(json.dumps(made(Path(sys.argv[1]), int(sys.argv[2]))))
