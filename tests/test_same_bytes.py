"""The same inputs give the same receipts, records and manifests, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.bytes_helper import made
from tests.project_helpers import rebuild
from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.receipts import load_receipt

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
# The folder is the study's id when nothing else is: it is the same everywhere.
NAME = "study"


def project(folder: Path, *, backwards: bool = False) -> Path:
    """The example project with traces of every format, its files written in either order."""
    shutil.copytree(EXAMPLES / "helpdesk", folder, ignore=shutil.ignore_patterns("traces", "runs"))
    files = [
        *(path for path in (EXAMPLES / "helpdesk").glob("*/**/*.json*")),
        *(EXAMPLES / "traces").iterdir(),
    ]
    for path in sorted(files, reverse=backwards):
        is_format = path.parent == EXAMPLES / "traces"
        name = Path("formats") / path.name if is_format else path.relative_to(EXAMPLES / "helpdesk")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl" and not is_format:  # a part of the longer ones is enough
            lines = path.read_bytes().splitlines(keepends=True)
            (folder / name).write_bytes(b"".join(lines[::3]))
        else:
            shutil.copyfile(path, folder / name)
    text = (folder / "toolscore.yaml").read_text(encoding="utf-8")
    more = 'sources:\n  - {name: formats, path: "formats/*"}\n'
    (folder / "toolscore.yaml").write_text(text.replace("sources:\n", more), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("first") / NAME)


@pytest.fixture(scope="module")
def expected(first: Path) -> dict[str, str]:
    return made(first, threads=1)


def test_there_is_something_to_compare(first, expected):
    lines = (first / "exports/records.jsonl").read_bytes().splitlines()
    assert len(lines) > 60
    assert len({json.loads(line)["format"] for line in lines}) >= 12
    receipts = [name for name in expected if name.startswith("receipts/")]
    assert len(receipts) >= 30
    assert set(expected) - set(receipts) == {
        "duckdb",
        "exports/records.jsonl",
        "exports/records.jsonl.manifest.json",
    }


def test_two_threads_and_files_written_in_another_order_change_no_byte(expected, tmp_path):
    assert made(project(tmp_path / NAME, backwards=True), threads=2) == expected


def test_files_that_come_one_after_another_change_no_byte(expected, tmp_path):
    folder = project(tmp_path / NAME)
    files = sorted([*(folder / "runs").iterdir(), *(folder / "formats").iterdir()])
    first = {files[-1], files[0]}
    apart = [(path, tmp_path / f"{number}") for number, path in enumerate(files)]
    for path, away in apart:
        if path not in first:
            path.rename(away)
    # The last names come first, a third of them at a time.
    waiting = [(path, away) for path, away in reversed(apart) if path not in first]
    for start in range(0, len(waiting), len(waiting) // 3 + 1):
        rebuild(folder, threads=2)
        for path, away in waiting[start : start + len(waiting) // 3 + 1]:
            away.rename(path)
    assert made(folder, threads=2) == expected


def test_the_moment_is_one_field_and_its_hash(first, expected, monkeypatch):
    path = next((first / "receipts").iterdir())
    receipt = load_receipt(path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    from toolscore_pipeline import receipts

    again = receipts.regrade(path).receipt
    moved = {name for name in receipt if receipt[name] != again[name]}
    # Regraded, it names what it came from; the inputs' paths start from here and not from there.
    assert moved == {"created_at", "settings", "inputs", "receipt_sha256"}
    assert again["created_at"] == "1970-01-02T00:00:00+00:00"
    sealed = {name: value for name, value in receipt.items() if name != "receipt_sha256"}
    assert receipt["receipt_sha256"] == json_sha256(sealed)


def other_python() -> Path:
    """The Python of this project with DuckDB 2 when this one has 1.5, and the other way round."""
    is_two = duckdb.__version__.startswith("2.")
    return ROOT / (".venv" if is_two else ".venv-duckdb2") / "bin/python"


def test_the_other_duckdb_gives_the_same_bytes(expected, tmp_path):
    python = other_python()
    if not python.is_file():
        pytest.skip("the other DuckDB is not installed; run `make test-duckdb2`")
    folder = project(tmp_path / NAME)
    done = subprocess.run(
        [python, "-m", "tests.bytes_helper", folder, "2"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    versions = {found.pop("duckdb")[:2], expected["duckdb"][:2]}
    assert versions == {"1.", "2."}
    assert found == {name: value for name, value in expected.items() if name != "duckdb"}
