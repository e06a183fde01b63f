"""Runs and calls as Arrow tables, with the hashes that name them.

JSON columns hold canonical text (sorted keys, no white space), so that equal values are equal text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from toolscore_pipeline.arrays import rows_table
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
