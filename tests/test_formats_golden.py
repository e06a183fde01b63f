"""Every example trace is read into exactly what its golden file holds.

The golden files are frozen readings, one for each version of a format that has an example. With
TOOLSCORE_WRITE_GOLDEN=1 they are written anew, to be read over before they are kept.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolscore_pipeline import formats
from toolscore_pipeline.loading import Source, load_documents

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples" / "traces").iterdir())
GOLDEN = ROOT / "tests" / "golden" / "traces"
_HASHES = ("run_id", "evidence_sha256", "document_id", "source", "path")


def reading(file: Path) -> dict[str, Any]:
    """What is read from one file, without hashes and without empty fields."""
    runs: list[dict[str, Any]] = []
    rejects: list[Any] = []
    for batch in load_documents([Source("examples", str(file))]):
        calls = batch.calls.to_pylist()
        for run in batch.runs.to_pylist():
            run["calls"] = [short(call) for call in calls if call["run_id"] == run["run_id"]]
            runs.append(short(run))
        rejects.extend(short(reject) for reject in batch.rejects.to_pylist())
    return {"runs": runs, "rejects": rejects}


def short(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key not in _HASHES}
    return {
        key: value.isoformat() if hasattr(value, "isoformat") else value
        for key, value in kept.items()
        if value is not None and value != [] and value != ""
    }


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_example_reads_as_its_golden_file_says(file: Path) -> None:
    golden = GOLDEN / f"{file.name}.json"
    found = reading(file)
    if os.environ.get("TOOLSCORE_WRITE_GOLDEN"):
        golden.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(golden.read_text())


def test_every_golden_file_has_its_example() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{file.name}.json" for file in EXAMPLES}


def test_every_format_has_an_example_and_a_page() -> None:
    read = {run["format"] for file in EXAMPLES for run in reading(file)["runs"]}
    assert read | {"receipts"} == set(formats.formats())
    pages = {page.stem for page in (ROOT / "docs" / "formats").glob("*.md")}
    assert set(formats.formats()) <= pages


def test_loading_an_example_twice_gives_the_same_ids() -> None:
    file = ROOT / "examples" / "traces" / "run_rows.jsonl"
    ids = [
        [run["run_id"] for batch in load_documents([Source("s", str(file))])
         for run in batch.runs.to_pylist()]
        for _ in range(2)
    ]  # fmt: skip
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3
