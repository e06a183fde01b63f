"""A small project of run rows for tests of the build."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb

from toolscore_pipeline.pipeline import BuildReport, build
from toolscore_pipeline.project import load_project

CONTRACT = """\
contract_version: 2
required: [{tool: search, args: {q: {$regex: "^[a-z]+$"}}}, {tool: save}]
optional: [{tool: look}]
"""

PROJECT = """\
sources: [{name: runs, path: "runs/*.jsonl"}]
contracts: ["contracts/*.yaml"]
comparisons: [{name: arms, baseline: a, min_n: 5}]
"""


def rows(count: int, *, seed: int = 1, start: int = 0) -> list[dict[str, Any]]:
    """Run rows of two arms and two tasks, some good and some not."""
    rng = random.Random(seed)
    made = []
    for number in range(start, start + count):
        calls: list[dict[str, Any]] = [{"tool": "search", "args": {"q": "tea"}, "result": number}]
        if rng.random() < 0.4:
            calls.append({"tool": "look", "args": {}, "result": None})
        if rng.random() < 0.7:
            calls.append({"tool": "save", "args": {"id": number}, "result": "ok"})
        made.append(
            {
                "task_id": ("one", "two")[number % 2],
                "arm_id": ("a", "b")[number // 2 % 2],
                "repetition": number // 4,
                "status": "completed",
                "calls": calls,
                "final_answer": "It is done and saved for you.",
                "cost_usd": 0.001,
            }
        )
    return made


def write_rows(path: Path, made: list[dict[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")


def make_project(folder: Path, count: int = 40) -> Path:
    """A project with one file of run rows and a contract for each of their tasks."""
    (folder / "contracts").mkdir(parents=True)
    for task in ("one", "two"):
        (folder / f"contracts/{task}.yaml").write_text(CONTRACT, encoding="utf-8")
    (folder / "toolscore.yaml").write_text(PROJECT, encoding="utf-8")
    write_rows(folder / "runs/first.jsonl", rows(count))
    return folder


def rebuild(folder: Path, **options: Any) -> BuildReport:
    """Build the project of a folder."""
    return build(load_project(folder / "toolscore.yaml"), **options)


def ask(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of the published copy of a project."""
    with duckdb.connect(str(folder / "warehouse.published.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()
