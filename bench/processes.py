"""Work in a process of its own: its time counts from after start-up, its memory is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: What a project of the benchmarks says.
PROJECT = 'sources: [{name: runs, path: "runs*.jsonl"}]\ncontracts: ["contracts/*.json"]\n'

_BUILD = """\
import json, os, sys, time
from bench import peak_mb
from toolscore_pipeline.pipeline import build
from toolscore_pipeline.project import open_project
project = open_project(sys.argv[1])
started = time.perf_counter()
report = build(project).to_dict()
report["whole"] = time.perf_counter() - started
report["peak_mb"] = peak_mb()
report["file_mb"] = os.path.getsize(project.warehouse) / 1e6
print(json.dumps(report))
"""


def in_process(program: str, *arguments: str) -> dict[str, Any]:
    """Run a program in a process of its own; the JSON that it prints last."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def build(folder: Path) -> dict[str, Any]:
    """Build the project in a folder.

    Returns the report of the build, with ``whole`` (seconds), ``peak_mb`` and ``file_mb`` (the
    warehouse's).
    """
    return in_process(_BUILD, str(folder))


def write_project(folder: Path, contracts: dict[str, Any], text: str = PROJECT) -> Path:
    """A project file and its contracts (name to document); returns the folder."""
    (folder / "contracts").mkdir(parents=True)
    (folder / "toolscore.yaml").write_text(text, encoding="utf-8")
    for name, document in contracts.items():
        (folder / f"contracts/{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def forget(folder: Path) -> None:
    """Remove the warehouse of a project and its published copy."""
    for path in folder.glob("warehouse*"):
        path.unlink()
