"""A run and its calls, as every trace format is read into.

A field that the format does not hold is ``None``: never 0, never an empty text. These objects are
evidence; nothing here knows of contracts or scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

ArgsStatus = Literal["ok", "empty", "invalid", "not_object", "text", "absent"]
OutcomeBasis = Literal["explicit", "result_only"]
Executor = Literal["client", "provider", "mcp"]
Pairing = Literal["id", "inferred", "embedded", "none"]


class _Missing:
    """The type of :data:`MISSING`, for a result not recorded (a recorded null is ``None``)."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()


@dataclass(slots=True)
class Call:
    """One tool call.

    Attributes:
        tool: the tool's name.
        args: the arguments as an object; ``{"raw": text}`` for text that is no JSON (and for free
            text tools), ``{"value": x}`` for JSON that is no object; None when not recorded.
        args_status: ``ok``, ``empty`` (no arguments were given where the format says so),
            ``invalid`` (text that is not strict JSON), ``not_object``, ``text`` (a free-text tool)
            or ``absent`` (the format left the arguments out).
        args_raw: the arguments' own text, when the format holds text.
        call_id: the provider's call id or the JSON-RPC request id, as text.
        result: what came back; MISSING when nothing was recorded.
        is_error: the format's own error flag; None when it has none.
        error: the error recorded (text or object); None when there is none.
        is_failed: whether the call failed; None when its outcome was not recorded.
        outcome_basis: ``explicit`` when the format tells success from failure, ``result_only`` when
            a result without any error flag is all there is; None without an outcome.
        is_denied: whether a guard or a person refused the call.
        deny_reason: why it was refused.
        duration_seconds: wall-clock seconds of the call.
        cost_usd: cost of the call in US dollars.
        started_at: when the call was requested (aware, UTC).
        ended_at: when its result came (aware, UTC).
        executor: who runs the tool: ``client``, ``provider`` (server-side tools) or ``mcp``.
        pairing: how the result was found: by ``id``, ``inferred`` from order, ``embedded`` in the
            call's own record, or ``none``.
        is_soft_error_suspected: a recorded success whose text reads like a failure.
        request_locator: where in the document the request stands (``$[3].tool_calls[0]``).
        completion_locator: where its result stands.
        warnings: what was odd about it, as sentences.
    """

    tool: str
    args: dict[str, Any] | None = None
    args_status: ArgsStatus = "ok"
    args_raw: str | None = None
    call_id: str | None = None
    result: Any = MISSING
    is_error: bool | None = None
    error: Any = None
    is_failed: bool | None = None
    outcome_basis: OutcomeBasis | None = None
    is_denied: bool = False
    deny_reason: str | None = None
    duration_seconds: float | None = None
    cost_usd: float | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    executor: Executor | None = None
    pairing: Pairing = "none"
    is_soft_error_suspected: bool = False
    request_locator: str | None = None
    completion_locator: str | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """One task done once under one variant, as recorded.

    Attributes:
        calls: the tool calls, in the order they were requested.
        format: the trace format it was read from.
        task, variant, repetition: what was run, under which arm, and the how manieth time, as
            recorded; None when the record does not say.
        status: the recorder's own status (``completed``, ``error``, ``limit_reached``, ...).
        recorded_outcome: ``pass``, ``fail``, ``error`` or ``unknown``, if the record judges itself.
        final_answer: the last assistant text with no call after it; None when not recorded.
        error: why the run failed, when it did.
        model: the model's name.
        prompt: the user's request, when recorded.
        cost_usd: cost of the whole run in US dollars.
        duration_seconds: wall-clock seconds of the whole run.
        input_tokens, output_tokens: token totals.
        usage: the usage record as it stands.
        started_at, ended_at: instants (aware, UTC).
        injected: faults injected into the run and instructions planted in it, when recorded.
        probes: side effects probed on the machine that had them, when recorded.
        attributes: any other fields of the record (a query source's extra columns, for one).
        locator: where in the document the run stands (``line 7``, ``$.runs[3]``); None when the
            run is the whole document.
        warnings: what was odd about it, as sentences.
    """

    calls: list[Call] = field(default_factory=list)
    format: str = "plain"
    task: str | None = None
    variant: str | None = None
    repetition: int | None = None
    status: str | None = None
    recorded_outcome: str | None = None
    final_answer: str | None = None
    error: str | None = None
    model: str | None = None
    prompt: str | None = None
    cost_usd: float | None = None
    duration_seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    usage: dict[str, Any] | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    injected: dict[str, Any] | None = None
    probes: list[dict[str, Any]] | None = None
    attributes: dict[str, Any] | None = None
    locator: str | None = None
    warnings: list[str] = field(default_factory=list)
