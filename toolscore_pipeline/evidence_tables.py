"""Runs and calls as Arrow tables, with the hashes that name them.

JSON columns hold canonical text (sorted keys, no white space), so that equal values are equal text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

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
            pieces: list[str] = []
            rows: list[list[Any]] = []
            for call in run.calls:
                row, piece = _call_row(call, encode)
                rows.append(row)
                pieces.append(piece)
            usage = _text(run.usage, encode)
            injected = _text(run.injected, encode)
            probes = _text(run.probes, encode)
            content = _run_content(run, pieces, usage, injected, probes)
            evidence = sha256(content.encode("utf-8", "backslashreplace")).hexdigest()
            identity = (evidence, run.task, run.variant, run.repetition)
            ordinal = ordinals.get(identity, 0)
            ordinals[identity] = ordinal + 1
            run_id = sha256(encode([*identity, ordinal])).hexdigest()
            append_run(
                (
                    run_id, evidence, document_id, source, path, run.locator, run.format, run.task,
                    run.variant, run.repetition, run.status, run.recorded_outcome,
                    run.final_answer, run.error, run.model, run.prompt, run.cost_usd,
                    run.duration_seconds, run.input_tokens, run.output_tokens, usage,
                    run.started_at, run.ended_at, injected, probes,
                    _text(run.attributes, encode), len(rows), run.warnings,
                )
            )  # fmt: skip
            for index, row in enumerate(rows):
                row[0] = run_id
                row[1] = index
                append_call(tuple(row))

    def finish(self) -> tuple[pa.Table, pa.Table]:
        """The tables of what was added since the last time."""
        tables = _table(self._runs, RUNS_SCHEMA), _table(self._calls, CALLS_SCHEMA)
        self._start()
        return tables


def evidence_sha256(run: Run) -> str:
    """The SHA-256 that names the evidence of ``run``.

    It covers what happened (calls with everything recorded of them, final answer, status, error,
    model, prompt, usage, cost, times, injected faults, probes) as canonical JSON, fields that were
    not recorded left out. It covers neither the task, variant and repetition nor locators and
    warnings.
    """
    content = _run_content(
        run,
        [_call_row(call, canonical_json)[1] for call in run.calls],
        _text(run.usage, canonical_json),
        _text(run.injected, canonical_json),
        _text(run.probes, canonical_json),
    )
    return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()


def _text(value: Any, encode: Any) -> str | None:
    return None if value is None else encode(value).decode()


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    columns = zip(*rows, strict=True)
    arrays = []
    for column, kind in zip(columns, schema, strict=True):
        try:
            arrays.append(pa.array(column, kind.type))
        except UnicodeEncodeError:
            mended = [
                item.encode("utf-8", "backslashreplace").decode() if isinstance(item, str) else item
                for item in column
            ]
            arrays.append(pa.array(mended, kind.type))
    return pa.Table.from_arrays(arrays, schema=schema)


# The content is written key by key in sorted order, out of canonical pieces, so that no value is
# encoded twice: once for its column is enough.


def _call_row(call: Call, encode: Any) -> tuple[list[Any], str]:
    """The call's table row (run id and index still open) and its canonical content."""
    args = encode(call.args).decode() if call.args is not None else None
    has_result = call.result is not MISSING
    result = encode(call.result).decode() if has_result else None
    error = encode(call.error).decode() if call.error is not None else None
    parts: list[str] = []
    add = parts.append
    if args is not None:
        add(f'"args":{args}')
    if call.args_raw is not None:
        add(f'"args_raw":{encode(call.args_raw).decode()}')
    add(f'"args_status":"{call.args_status}"')
    if call.call_id is not None:
        add(f'"call_id":{encode(call.call_id).decode()}')
    if call.cost_usd is not None:
        add(f'"cost_usd":{call.cost_usd!r}')
    if call.deny_reason is not None:
        add(f'"deny_reason":{encode(call.deny_reason).decode()}')
    if call.duration_seconds is not None:
        add(f'"duration_seconds":{call.duration_seconds!r}')
    if call.ended_at is not None:
        add(f'"ended_at":"{_instant(call.ended_at)}"')
    if error is not None:
        add(f'"error":{error}')
    if call.executor is not None:
        add(f'"executor":"{call.executor}"')
    if call.is_denied:
        add('"is_denied":true')
    if call.is_error is not None:
        add('"is_error":true' if call.is_error else '"is_error":false')
    if call.is_failed is not None:
        add('"is_failed":true' if call.is_failed else '"is_failed":false')
    if call.outcome_basis is not None:
        add(f'"outcome_basis":"{call.outcome_basis}"')
    if result is not None:
        add(f'"result":{result}')
    if call.started_at is not None:
        add(f'"started_at":"{_instant(call.started_at)}"')
    add(f'"tool":{encode(call.tool).decode()}')
    row = [
        None, None, call.call_id, call.tool, args, call.args_status, call.args_raw, result,
        has_result, call.is_error, error, call.is_failed, call.outcome_basis, call.is_denied,
        call.deny_reason, call.duration_seconds, call.cost_usd, call.started_at, call.ended_at,
        call.executor, call.pairing, call.is_soft_error_suspected, call.request_locator,
        call.completion_locator, call.warnings,
    ]  # fmt: skip
    return row, "{" + ",".join(parts) + "}"


def _run_content(
    run: Run, calls: list[str], usage: str | None, injected: str | None, probes: str | None
) -> str:
    parts = [f'"calls":[{",".join(calls)}]']
    add = parts.append
    if run.cost_usd is not None:
        add(f'"cost_usd":{run.cost_usd!r}')
    if run.duration_seconds is not None:
        add(f'"duration_seconds":{run.duration_seconds!r}')
    if run.ended_at is not None:
        add(f'"ended_at":"{_instant(run.ended_at)}"')
    if run.error is not None:
        add(f'"error":{_string(run.error)}')
    if run.final_answer is not None:
        add(f'"final_answer":{_string(run.final_answer)}')
    if injected is not None:
        add(f'"injected":{injected}')
    if run.input_tokens is not None:
        add(f'"input_tokens":{run.input_tokens}')
    if run.model is not None:
        add(f'"model":{_string(run.model)}')
    if run.output_tokens is not None:
        add(f'"output_tokens":{run.output_tokens}')
    if probes is not None:
        add(f'"probes":{probes}')
    if run.prompt is not None:
        add(f'"prompt":{_string(run.prompt)}')
    if run.started_at is not None:
        add(f'"started_at":"{_instant(run.started_at)}"')
    if run.status is not None:
        add(f'"status":{_string(run.status)}')
    if usage is not None:
        add(f'"usage":{usage}')
    return "{" + ",".join(parts) + "}"


def _string(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except TypeError:  # a lone surrogate
        return canonical_json(text).decode()


def _instant(moment: datetime) -> str:
    return moment.isoformat()
