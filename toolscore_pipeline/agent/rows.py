"""The run row, and the file of rows that a study appends to and resumes from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolscore_pipeline.agent.loop import AgentRun
from toolscore_pipeline.agent.spec import AgentSpec, Cell
from toolscore_pipeline.errors import InputError

RUN_RECORD_VERSION = "1"
"""The version of the row's layout."""

RUN_ROW_SCHEMA_PATH = Path(__file__).parents[1] / "schemas" / "run-row-v1.schema.json"
"""The JSON Schema (draft 2020-12) of a row."""


def run_row(
    spec: AgentSpec, cell: Cell, run: AgentRun, server: Mapping[str, Any]
) -> dict[str, Any]:
    """The row of a run, before it is judged."""
    return {
        "run_record_version": RUN_RECORD_VERSION,
        "cell_id": cell.id,
        "task_id": cell.task.id,
        "arm_id": cell.arm.id,
        "repetition": cell.repetition,
        "order": cell.order,
        "seed": spec.seed,
        "study": spec.name,
        "run_id": run.run_id,
        "spec_sha256": spec.sha256,
        "cell_sha256": spec.cell_sha256(cell),
        "provider": cell.arm.provider,
        "model": cell.arm.model,
        "answered_by": run.model,
        "system": cell.arm.system,
        "prompt": cell.task.prompt,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "error": run.error,
        "calls": [call.to_dict() for call in run.calls],
        "guard_denials": run.guard_denials,
        "final_answer": run.final_answer,
        "usage": {
            **asdict(run.usage),
            "model_calls": run.turns,
            "rate_limit_waits": run.retries,
        },
        "cost_usd": run.cost_usd,
        "counted_usd": run.counted_usd,
        "price": None if run.price is None else run.price.to_dict(),
        "server": dict(server),
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at is not None else None,
        "duration_s": run.duration,
    }


def row_line(row: Mapping[str, Any]) -> bytes:
    """The row as one line of strict JSON."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_nan(row), ensure_ascii=False, allow_nan=False)
    # A lone surrogate has no UTF-8 form; its escape is the same JSON text.
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


def _without_nan(value: Any) -> Any:
    """The value with NaN and infinities, which are not JSON, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return value


class RowFile:
    """A JSON Lines file of rows, each on disk before the next run begins."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def open(self) -> list[dict[str, Any]]:
        """The rows already there; a last line that was cut off is removed.

        Raises:
            InputError: on a line that is no run row, naming file and line, or two rows of a cell.
        """
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            # A row is complete once its line is; what stands behind the last line end is half one.
            os.truncate(self.path, whole)
        rows: list[dict[str, Any]] = []
        seen: dict[str, int] = {}
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            if not line.strip():
                continue
            row = _row(line)
            if row is None:
                raise InputError(
                    "expected a run row of the agent harness; name another output file",
                    path=self.path,
                    line=number,
                )
            if row["cell_id"] in seen:
                raise InputError(
                    f"the run {row['cell_id']} is there already, in line {seen[row['cell_id']]}",
                    path=self.path,
                    line=number,
                )
            seen[row["cell_id"]] = number
            rows.append(row)
        return rows

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row; it is on disk when this returns."""
        is_new = not self.path.exists()
        with self.path.open("ab") as file:
            file.write(row_line(row))
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            _sync_folder(self.path.parent)

    def sort(self) -> None:
        """Put the rows into the order of their study, in one step that cannot be half done."""
        lines = [line for line in self.path.read_bytes().splitlines(keepends=True) if line.strip()]
        ordered = sorted(lines, key=lambda line: int(json.loads(line)["order"]))
        if ordered == lines:
            return
        side = self.path.with_name(f"{self.path.name}.sorted")
        with side.open("wb") as file:
            file.writelines(ordered)
            file.flush()
            os.fsync(file.fileno())
        side.replace(self.path)
        _sync_folder(self.path.parent)


def _row(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None when it is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or row.get("run_record_version") != RUN_RECORD_VERSION:
        return None
    needed = {"cell_id": str, "run_id": str, "cell_sha256": str, "order": int}
    is_whole = all(isinstance(row.get(key), kind) for key, kind in needed.items())
    return row if is_whole else None


def _sync_folder(folder: Path) -> None:
    """Have the folder's own entries on disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
