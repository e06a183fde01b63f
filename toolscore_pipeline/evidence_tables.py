"""Runs and calls as Arrow tables, with the hashes that name them.

JSON columns hold canonical text (sorted keys, no white space), so that equal values are equal text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.hashing import canonical_json, canonical_json_strict
from toolscore_pipeline.model import MISSING, Call, Run

_INSTANT = pa.timestamp("us", tz="UTC")
_TEXTS = pa.list_(pa.string())

RUNS_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("evidence_sha256", pa.string()),
        ("document_id", pa.string()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("locator", pa.string()),
        ("format", pa.string()),
        ("task", pa.string()),
        ("variant", pa.string()),
        ("repetition", pa.int64()),
        ("status", pa.string()),
        ("recorded_outcome", pa.string()),
        ("final_answer", pa.string()),
        ("error", pa.string()),
        ("model", pa.string()),
        ("prompt", pa.string()),
        ("cost_usd", pa.float64()),
        ("duration_seconds", pa.float64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("usage_json", pa.string()),
        ("started_at", _INSTANT),
        ("ended_at", _INSTANT),
        ("injected_json", pa.string()),
        ("probes_json", pa.string()),
        ("attributes_json", pa.string()),
        ("call_count", pa.int64()),
        ("warnings", _TEXTS),
    ]
)

CALLS_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("call_index", pa.int64()),
        ("call_id", pa.string()),
        ("tool", pa.string()),
        ("args_json", pa.string()),
        ("args_status", pa.string()),
        ("args_raw", pa.string()),
        ("result_json", pa.string()),
        ("has_result", pa.bool_()),
        ("is_error", pa.bool_()),
        ("error_json", pa.string()),
        ("is_failed", pa.bool_()),
        ("outcome_basis", pa.string()),
        ("is_denied", pa.bool_()),
        ("deny_reason", pa.string()),
        ("duration_seconds", pa.float64()),
        ("cost_usd", pa.float64()),
        ("started_at", _INSTANT),
        ("ended_at", _INSTANT),
        ("executor", pa.string()),
        ("pairing", pa.string()),
        ("is_soft_error_suspected", pa.bool_()),
        ("request_locator", pa.string()),
        ("completion_locator", pa.string()),
        ("warnings", _TEXTS),
    ]
)

Ordinals = dict[tuple[Any, ...], int]


def tables_from_runs(
    runs: Iterable[Run],
    document_id: str,
    source: str | None = None,
    path: str | None = None,
    *,
    ordinals: Ordinals | None = None,
    is_strict_json: bool = False,
) -> tuple[pa.Table, pa.Table]:
    """The runs and calls of one document as tables.

    Args:
        runs: the runs, in document order.
        document_id: the SHA-256 of the document's bytes.
        source: the name of the source it came from.
        path: the document's path; None for one that is no file.
        ordinals: how often each record was seen before in this document, carried over from one
            batch of its runs to the next; updated.
        is_strict_json: every value in the runs came out of strict JSON, so none of them needs a
            closer look.

    Returns:
        A table of ``RUNS_SCHEMA`` and one of ``CALLS_SCHEMA``; a call's ``run_id`` is its run's.
    """
    builder = TableBuilder(is_strict_json=is_strict_json)
    builder.add(runs, document_id, source, path, {} if ordinals is None else ordinals)
    return builder.finish()


class TableBuilder:
    """Collects runs column by column; :meth:`finish` makes the two tables and starts anew."""

    def __init__(self, *, is_strict_json: bool = False) -> None:
        self._encode = canonical_json_strict if is_strict_json else canonical_json
        self._start()

    def _start(self) -> None:
        self._runs: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._runs)

    def add(
        self,
        runs: Iterable[Run],
        document_id: str,
        source: str | None,
        path: str | None,
        ordinals: Ordinals,
    ) -> None:
        """Add the runs of one document (see :func:`tables_from_runs`)."""
        encode = self._encode
        append_run = self._runs.append
        append_call = self._calls.append
        sha256 = hashlib.sha256
        for run in runs:
            evidence = sha256(encode(_content(run))).hexdigest()
            identity = (evidence, run.task, run.variant, run.repetition)
            ordinal = ordinals.get(identity, 0)
            ordinals[identity] = ordinal + 1
            run_id = sha256(encode((*identity, ordinal))).hexdigest()
            append_run(
                (
                    run_id, evidence, document_id, source, path, run.locator, run.format, run.task,
                    run.variant, run.repetition, run.status, run.recorded_outcome,
                    run.final_answer, run.error, run.model, run.prompt, run.cost_usd,
                    run.duration_seconds, run.input_tokens, run.output_tokens,
                    _text(run.usage, encode), run.started_at, run.ended_at,
                    _text(run.injected, encode), _text(run.probes, encode),
                    _text(run.attributes, encode), len(run.calls), run.warnings,
                )
            )  # fmt: skip
            for index, call in enumerate(run.calls):
                has_result = call.result is not MISSING
                append_call(
                    (
                        run_id, index, call.call_id, call.tool, _text(call.args, encode),
                        call.args_status, call.args_raw,
                        encode(call.result).decode() if has_result else None, has_result,
                        call.is_error, _text(call.error, encode), call.is_failed,
                        call.outcome_basis, call.is_denied, call.deny_reason,
                        call.duration_seconds, call.cost_usd, call.started_at, call.ended_at,
                        call.executor, call.pairing, call.is_soft_error_suspected,
                        call.request_locator, call.completion_locator, call.warnings,
                    )
                )  # fmt: skip

    def finish(self) -> tuple[pa.Table, pa.Table]:
        """The tables of what was added since the last time."""
        tables = rows_table(self._runs, RUNS_SCHEMA), rows_table(self._calls, CALLS_SCHEMA)
        self._start()
        return tables


def evidence_sha256(run: Run) -> str:
    """The SHA-256 that names the evidence of ``run``.

    It is that of the canonical JSON of what happened: the calls with everything recorded of them,
    cost, duration, end, error, final answer, injected faults, input tokens, model, output tokens,
    probes, prompt, start, status and usage, as a list in this order, null where nothing was
    recorded. The task, variant and repetition are not part of it, nor are locators and warnings.
    """
    return hashlib.sha256(canonical_json(_content(run))).hexdigest()


def _content(run: Run) -> list[Any]:
    return [
        [_call_content(call) for call in run.calls],
        run.cost_usd, run.duration_seconds, _instant(run.ended_at), run.error, run.final_answer,
        run.injected, run.input_tokens, run.model, run.output_tokens, run.probes, run.prompt,
        _instant(run.started_at), run.status, run.usage,
    ]  # fmt: skip


def _call_content(call: Call) -> list[Any]:
    has_result = call.result is not MISSING
    return [
        call.args, call.args_raw, call.args_status, call.call_id, call.cost_usd, call.deny_reason,
        call.duration_seconds, _instant(call.ended_at), call.error, call.executor, has_result,
        call.is_denied, call.is_error, call.is_failed, call.outcome_basis,
        call.result if has_result else None, _instant(call.started_at), call.tool,
    ]  # fmt: skip


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _text(value: Any, encode: Any) -> str | None:
    return None if value is None else encode(value).decode()


def rows_table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """A table out of rows, each a tuple with one value for each field of the schema."""
    if not rows:
        return empty_table(schema)
    return table_of(zip(*rows, strict=True), schema, len(rows))


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of no rows."""
    return pa.Table.from_arrays([pa.nulls(0, kind.type) for kind in schema], schema=schema)


def table_of(columns: Iterable[Any], schema: pa.Schema, size: int) -> pa.Table:
    """A table out of columns.

    Args:
        columns: one for each field of the schema: a list or tuple of values, an Arrow array, or
            None for a column of nulls.
        schema: fields of type string, int64, double, bool, timestamp or list of string.
        size: the number of rows.
    """
    arrays = []
    for column, kind in zip(columns, schema, strict=True):
        if column is None:
            arrays.append(pa.nulls(size, kind.type))
        elif isinstance(column, pa.Array):
            arrays.append(column)
        else:
            arrays.append(array_of(column, kind.type))
    return pa.Table.from_arrays(arrays, schema=schema)


# ``pa.array`` imports pandas when it meets its first list, which takes longer than most loads;
# these build the buffers themselves, and are faster besides.


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array of one of the types that :func:`table_of` knows.

    Args:
        values: the values, None for null; texts may be given as UTF-8 bytes.
        kind: the array's type.
    """
    size = len(values)
    if not size or (values[0] is None and values.count(None) == size):
        return pa.nulls(size, kind)
    if pa.types.is_string(kind):
        return text_array(values)
    if pa.types.is_list(kind):
        lengths = [len(item or ()) for item in values]
        flat = [text for item in values for text in item or ()]
        offsets = pa.py_buffer(_offsets(lengths))
        return pa.Array.from_buffers(kind, size, [None, offsets], children=[text_array(flat)])
    valid, count = _validity(values)
    if pa.types.is_boolean(kind):
        bits = np.fromiter((item is True for item in values), bool, size)
        data = np.packbits(bits, bitorder="little")
    elif pa.types.is_timestamp(kind):
        data = np.fromiter(map(_microseconds, values), np.int64, size)
    else:
        type_ = np.int64 if pa.types.is_int64(kind) else np.float64
        data = np.fromiter((0 if item is None else item for item in values), type_, size)
    return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(data)], null_count=count)


def text_array(values: Sequence[str | bytes | None]) -> pa.Array:
    """An Arrow array of texts; a lone surrogate is written as its escape."""
    valid, count = _validity(values)
    filled: Sequence[Any] = ["" if item is None else item for item in values] if count else values
    kinds = set(map(type, filled))
    if kinds == {str}:
        joined = "".join(filled)
        data = joined.encode("utf-8", "backslashreplace")
        if len(data) == len(joined):
            return _texts(data, filled, valid, count)
    parts = [
        item if isinstance(item, bytes) else item.encode("utf-8", "backslashreplace")
        for item in filled
    ]
    return _texts(b"".join(parts), parts, valid, count)


def _texts(data: bytes, parts: Sequence[Any], valid: pa.Buffer | None, count: int) -> pa.Array:
    size = len(parts)
    if len(data) >= 1 << 31:
        raise InputError(f"{size:,} texts hold {len(data):,} bytes, more than one batch can")
    offsets = pa.py_buffer(_offsets(list(map(len, parts))))
    return pa.StringArray.from_buffers(size, offsets, pa.py_buffer(data), valid, count)


def _offsets(lengths: list[int]) -> Any:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    count = values.count(None)
    if not count:
        return None, 0
    present = np.fromiter((item is not None for item in values), bool, len(values))
    return pa.py_buffer(np.packbits(present, bitorder="little")), count


def _microseconds(moment: datetime | None) -> int:
    if moment is None:
        return 0
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
