"""The small study that the tests of exports share: two tasks, two arms, two repetitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"

CONTRACT = """
contract_version: 2
task: save
required: [{tool: save_note, args: {title: groceries}}]
"""


def rows() -> list[dict[str, Any]]:
    """Run rows: six runs, for the arm `sloppy` has only one repetition of each task."""
    made = []
    for task in ("save", "clean"):
        for arm, repetition in (("careful", 1), ("careful", 2), ("sloppy", 1)):
            made.append(row(task, arm, repetition))
    return made


def row(task: str, arm: str, repetition: int) -> dict[str, Any]:
    """One run row, as the agent harness writes it."""
    title = "groceries" if arm == "careful" else "shopping"
    saves = {
        "id": f"{task}-{arm}-{repetition}",
        "tool": "save_note",
        "args": {"title": title},
        "result": {"saved": True, "count": repetition},
        "is_error": False,
        "duration": 0.25,
    }
    deletes = {
        "id": f"{task}-{arm}-{repetition}-d",
        "tool": "delete_note",
        "args": {"title": "old"},
        "denied": True,
        "deny_reason": "this study never deletes",
        "is_error": True,
        "error": "denied by the harness guard: this study never deletes",
    }
    lists = {"tool": "list_notes", "args": {}}  # no id, no result
    return {
        "run_record_version": "1",
        "cell_id": f"{task}::{arm}::{repetition}",
        "task_id": task,
        "arm_id": arm,
        "repetition": repetition,
        "study": "notes",
        "provider": "scripted",
        "model": f"model-{arm}",
        "system": "You keep notes.",
        "prompt": f"Please {task}.",
        "status": "completed",
        "calls": [saves] if task == "save" else [deletes, lists],
        "final_answer": f"{arm} did {task}.",
        "usage": {"input_tokens": 100 + repetition, "output_tokens": 10},
        "cost_usd": 0.1 + 0.2 if arm == "careful" else None,  # 0.30000000000000004
        "server": {"transport": "stdio", "name": "notes", "version": "1.2"},
        "started_at": "2026-01-02T03:04:05+02:00",
        "ended_at": "2026-01-02T03:04:07.5+02:00",
        "duration_s": 2.5,
        "outcome": "pass" if arm == "careful" else "fail",
    }


def write_rows(path: Path, found: list[dict[str, Any]] | None = None) -> Path:
    """Write run rows as JSON Lines."""
    lines = [json.dumps(item) for item in (rows() if found is None else found)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_project(folder: Path) -> Path:
    """A project on the study's run rows, with a contract for the task `save`."""
    (folder / "runs").mkdir(parents=True)
    (folder / "contracts").mkdir()
    write_rows(folder / "runs" / "notes.jsonl")
    (folder / "contracts" / "save.yaml").write_text(CONTRACT, encoding="utf-8")
    (folder / "toolscore.yaml").write_text(
        "sources: [{name: notes, path: runs/*.jsonl}]\n"
        "contracts: [{path: 'contracts/*.yaml'}]\n"
        "comparisons: [{name: arms, baseline: careful}]\n"
        "exports: [{name: aef, format: aef, path: out/records.jsonl}]\n",
        encoding="utf-8",
    )
    return folder


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
