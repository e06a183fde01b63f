"""Evaluation receipts: the run is in the trace that a receipt names, and its hash proves it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import InputError, ReceiptMismatchError
from toolscore_pipeline.formats._common import Detection, id_text
from toolscore_pipeline.hashing import file_digest
from toolscore_pipeline.jsonio import strict_loads
from toolscore_pipeline.model import Run

NAME = "receipts"

KIND = "toolscore.evaluation"
READS_FILES = True


def detect(value: Any) -> Detection | None:
    """An object whose ``kind`` is ``toolscore.evaluation``."""
    if isinstance(value, dict) and value.get("kind") == KIND:
        return Detection(NAME, 0.99, f"kind {KIND!r}")
    return None


def read(value: Any, file: Path | None = None) -> list[Run]:
    """The runs in the trace that the receipt names.

    Args:
        value: the receipt.
        file: the receipt's file; its trace is looked for from the current folder and from there.

    Raises:
        ReceiptMismatchError: when the trace's bytes are not those that were evaluated.
        InputError: when the receipt names no trace, or the trace cannot be found or read.
    """
    from toolscore_pipeline import formats

    inputs = value.get("inputs") if isinstance(value, dict) else None
    trace = inputs.get("trace") if isinstance(inputs, dict) else None
    if not isinstance(trace, dict) or not isinstance(trace.get("path"), str):
        raise InputError("the receipt names no trace", json_path="$.inputs.trace.path")
    found = trace_file(trace, file)
    if found is None:
        raise InputError(
            f"the receipt's trace {trace['path']!r} does not exist",
            json_path="$.inputs.trace.path",
        )
    try:
        digest = file_digest(found)
        data = found.read_bytes()
    except OSError as error:
        reason = f"the receipt's trace cannot be read: {error.strerror}"
        raise InputError(reason, json_path="$.inputs.trace.path") from None
    if digest["sha256"] != trace.get("sha256"):
        raise ReceiptMismatchError(
            f"the receipt's trace {trace['path']!r} changed since it was evaluated",
            json_path="$.inputs.trace.sha256",
        )
    parsed, _ = strict_loads(data)
    settings = value.get("settings")
    name = id_text(settings.get("format")) if isinstance(settings, dict) else None
    known = {*formats.formats(), *formats.ALIASES}
    runs = formats.read_value(
        parsed, name if name in known else formats.AUTO, is_strict_json=True, file=found
    )
    for run in runs:
        run.attributes = {
            **(run.attributes or {}),
            "receipt_sha256": value.get("receipt_sha256"),
            "trace_sha256": digest["sha256"],
            "result": value.get("result"),
        }
    return runs


def trace_file(trace: Mapping[str, Any], file: Path | None) -> Path | None:
    """The trace that a receipt names; None when it is not there.

    Args:
        trace: its ``path`` and ``sha256`` in the receipt.
        file: the receipt's file. The trace is looked for from the current folder, from the
            receipt's, and beside the receipt by its hash, as an export keeps it.
    """
    named, sha256 = Path(trace["path"]), str(trace.get("sha256"))
    places = [named]
    for base in folders_of(file) if file is not None else ():
        if not named.is_absolute():
            places += [base / named, base / named.name]
        if _HASH.fullmatch(sha256):
            places += sorted(base.glob(f"{sha256}*"))
    return next((place for place in places if place.is_file()), None)


def folders_of(file: Path) -> list[Path]:
    """The folders that relative paths in a file may start from, the likeliest first.

    They start from the folder of the file itself, wherever a link to it lies. Tools that keep data
    in a store lay a link for every file; then they lead on from the link.
    """
    return [file.resolve().parent, file.parent] if file.is_symlink() else [file.parent]


_HASH = re.compile(r"[0-9a-f]{64}")
