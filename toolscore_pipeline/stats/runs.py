"""The runs a comparison is made from, and where they are read from."""

from __future__ import annotations

import codecs
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.formats.run_rows import outcome_doubt, outcome_of

OUTCOMES: tuple[str, ...] = ("pass", "fail", "error", "unknown")
"""The outcomes of a run, in report order."""

TASK_PATTERN = r"^(?P<task>.+?)(?:[-_.]r?\d+)?$"
"""How a file's stem names its task: the stem without a trailing repetition (``-3``, ``_r3``)."""

VARIANT_KEYS = ("arm_id", "variant", "arm", "model")
TASK_KEYS = ("task_id", "task")
RUN_ID_KEYS = ("run_id", "record_id", "cell_id", "id")
COST_KEYS = ("cost_usd", "cost")
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

LATENCY_KEYS = ("duration_s", "latency", "duration", "duration_seconds", "latency_seconds")


@dataclass(slots=True)
class Run:
    """One run of one task under one variant.

    Attributes:
        variant: the variant (arm, model, configuration).
        task: the task.
        outcome: ``pass``, ``fail``, ``error`` or ``unknown``.
        cost: cost in US dollars; None when unknown.
        latency: wall-clock seconds; None when unknown.
        run_id: an identifier for reports; empty when the run has none.
        repetition: the how manieth run of the task; None when not recorded.
        configuration: what else the record names as run (its arm and model), so that repetition 0
            of two models pooled under one variant are two runs.
        doubt: what is wrong with the outcome as recorded, as a sentence; empty when nothing is.
    """

    variant: str
    task: str
    outcome: str
    cost: float | None = None
    latency: float | None = None
    run_id: str = ""
    repetition: int | str | None = None
    configuration: str = ""
    doubt: str = ""

    @property
    def identity(self) -> tuple[str | int, ...] | None:
        """What two records of the same run have in common; None when nothing tells.

        The repetition where it is recorded, else the run's identifier.
        """
        if self.repetition is not None:
            return self.variant, self.task, self.configuration, self.repetition
        if self.run_id:
            return self.variant, self.task, self.run_id
        return None


def run_from_row(row: Mapping[str, Any], variant_key: str | None = None) -> Run:
    """Read a run from a row: a run of the agent harness, an exported record, or one of your own.

    The variant is ``row[variant_key]``, else ``arm_id``, ``variant``, ``arm`` or ``model``; the
    task ``task_id`` or ``task``. The outcome is ``outcome``, else derived: status ``error`` is an
    error, ``passed`` true or false a pass or a fail, anything else unknown. An ``outcome`` that is
    none of ``OUTCOMES`` is unknown, whatever ``passed`` says. Cost is ``cost_usd`` or
    ``cost`` (a number, or ``{"usd": ...}``); latency ``duration_s``, ``latency`` or ``duration``.
    A cost or latency that is no finite number of at least 0 is unknown.

    Raises:
        UsageError: the row is no mapping, or names no variant.
    """
    if not isinstance(row, Mapping):
        raise UsageError(f"a row is an object, not {_json_kind(row)}")
    variant = _variant(row, variant_key)
    task = _first(row, TASK_KEYS)
    run_id = _first(row, RUN_ID_KEYS)
    repetition = row.get("repetition")
    return Run(
        variant=variant,
        task=_name(task) or "",
        outcome=outcome_of(row) or "unknown",
        cost=_number(_first(row, COST_KEYS), "usd"),
        latency=_number(_first(row, LATENCY_KEYS), "seconds"),
        run_id=_name(run_id) or "",
        repetition=repetition if isinstance(repetition, (int, str)) else None,
        configuration="/".join(filter(None, (_name(row.get(key)) for key in VARIANT_KEYS))),
        doubt=outcome_doubt(row) or "",
    )


def load_runs(
    paths: Iterable[str | Path],
    variant_key: str | None = None,
    where: Mapping[str, str] | None = None,
) -> list[Run]:
    """Read runs from JSON Lines files: one JSON object per line, blank lines skipped.

    Files may be gzip- or zstd-compressed when their name ends in ``.gz`` or ``.zst``.

    Args:
        paths: the files.
        variant_key: the field that names a run's variant.
        where: the fields a row must have, as text, to be read; None reads every row.

    Raises:
        InputError: a file that cannot be read, or a line that is no JSON object or names no
            variant, with file and line.
    """
    runs: list[Run] = []
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        for number, row in _rows(Path(path)):
            if any(_name(row.get(key)) != value for key, value in (where or {}).items()):
                continue
            try:
                runs.append(run_from_row(row, variant_key))
            except UsageError as error:
                raise InputError(str(error), path=path, line=number) from None
    return runs


def runs_from_traces(
    variant: str,
    directory: str | Path,
    gold: str | Path,
    min_score: float = 0.9,
    task_pattern: str = TASK_PATTERN,
) -> list[Run]:
    """Score every ``*.json`` trace of a directory against a gold list or a contract.

    A trace passes when its score is at least ``min_score`` and it has no error-severity honesty
    finding. A trace that cannot be read is an error: it stays in the population.

    Args:
        variant: the variant these traces belong to.
        directory: the folder of trace files; folders inside it are not read, nor is the gold
            list where it lies among them.
        gold: the gold list or contract.
        min_score: the passing score, 0 to 1.
        task_pattern: a regular expression with a group named ``task``, applied to each file's stem;
            a stem it does not match is its own task.

    Returns:
        One run per trace file, sorted by file name.

    Raises:
        InputError: no such directory, or no trace in it.
        UsageError: a pattern that is wrong or has no group ``task``.
    """
    from toolscore_pipeline.stats.traces import score_traces

    pattern = _task_pattern(task_pattern)
    folder = Path(directory)
    if not folder.is_dir():
        raise InputError("there is no such folder of traces", path=folder)
    own = Path(gold).resolve()
    files = [file for file in folder.glob("*.json") if file.resolve() != own]
    files.sort(key=lambda file: file.name)
    if not files:
        raise InputError("the folder holds no *.json trace", path=folder)
    runs = []
    for file, (outcome, cost, latency) in zip(
        files, score_traces(files, gold, min_score), strict=True
    ):
        match = pattern.search(file.stem)
        task = match["task"] if match else file.stem
        runs.append(Run(variant, task, outcome, cost, latency, run_id=file.name))
    return runs


def _task_pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"the task pattern is no regular expression: {error}") from None
    if "task" not in pattern.groupindex:
        raise UsageError("the task pattern has no group named 'task', such as (?P<task>.+)")
    return pattern


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file and the lines they stand on, from 1."""
    import orjson

    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if not line.strip():
                    continue
                try:
                    row = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise InputError(
                        f"the line is not JSON ({error.msg})", path=path, line=number
                    ) from None
                if not isinstance(row, dict):
                    kind = _json_kind(row)
                    raise InputError(f"expected a JSON object, got {kind}", path=path, line=number)
                yield number, row
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(reason or str(error), path=path) from None


def _open(path: Path) -> IO[bytes]:
    compression = _COMPRESSIONS.get(path.suffix.lower())
    if compression is None:
        return path.open("rb")
    import pyarrow as pa

    return io.BufferedReader(pa.input_stream(str(path), compression=compression))


def _json_kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "true or false", str: "a string", list: "a list"}
    return kinds.get(type(value), "a number")


def _variant(row: Mapping[str, Any], variant_key: str | None) -> str:
    if variant_key is not None:
        name = _name(row.get(variant_key))
        if name is None:
            raise UsageError(f"the row has no {variant_key!r} to name its variant")
        return name
    for key in VARIANT_KEYS:
        name = _name(row.get(key))
        if name is not None:
            return name
    raise UsageError(f"the row names no variant (none of {', '.join(VARIANT_KEYS)})")


def _name(value: Any) -> str | None:
    """A value as a name: text as it stands, other values as JSON, null and empty text as None.

    The variant and model of an exported record are objects; their ``id`` or ``name`` names them.
    """
    if isinstance(value, Mapping):
        value = value.get("id", value.get("name"))
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _first(row: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((row[key] for key in keys if row.get(key) is not None), None)


def _number(value: Any, key: str) -> float | None:
    """A finite number of at least 0, or None; an exported record holds it under ``key``."""
    if isinstance(value, Mapping):
        value = value.get(key, value.get("value"))
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all doubles
        return None
    return number if math.isfinite(number) and number >= 0 else None
