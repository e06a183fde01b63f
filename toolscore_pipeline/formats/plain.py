"""The plain format: a list of calls, or ``{"calls": [...]}``."""

from __future__ import annotations

from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    EMPTY_ARGUMENTS,
    NAIVE_WARNING,
    Arguments,
    Detection,
    amount,
    first_of,
    id_text,
    instant,
    is_error_value,
    new_call,
    read_arguments,
    reads_like_failure,
    tool_name,
)
from toolscore_pipeline.model import MISSING, Call, Run

NAME = "plain"

TOOL_KEYS = ("tool", "tool_name", "name", "function")
ARGUMENT_KEYS = ("args", "arguments", "input", "parameters")
RESULT_KEYS = ("result", "output")
DURATION_KEYS = ("duration", "duration_s", "duration_seconds", "elapsed", "seconds")
_MISNAMED = {"type", "role", "jsonrpc", "traceId", "trace_id", "span_id", "spanId", "messages"}


def detect(value: Any) -> Detection | None:
    """A list of objects with a tool's name, or an object whose ``calls`` is a list."""
    if isinstance(value, dict):
        if isinstance(value.get("calls"), list):
            return Detection(NAME, 0.8, "an object with a 'calls' list")
        if is_call(value):
            return Detection(NAME, 0.5, "one object with a tool's name")
        return None
    if isinstance(value, list):
        if not value:
            return Detection(NAME, 0.3, "an empty list")
        if all(is_call(item) for item in value):
            return Detection(NAME, 0.7, "a list of objects with a tool's name")
    return None


def is_call(value: Any) -> bool:
    """Whether ``value`` looks like one call of the plain format."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("tool"), str):
        return "role" not in value and "messages" not in value and "calls" not in value
    if not _MISNAMED.isdisjoint(value):
        return False
    name = first_of(value, TOOL_KEYS)
    return isinstance(name, str) and any(key in value for key in ARGUMENT_KEYS)


def is_fragment(record: Any) -> bool:
    """One call, alone on its line."""
    return is_call(record)


def read(value: Any) -> list[Run]:
    """One run; a call that names no tool is kept under an empty name, with a warning."""
    if isinstance(value, dict) and "calls" not in value:
        return [Run(calls=[read_call(value, "$")], format=NAME)]
    if isinstance(value, dict):
        from toolscore_pipeline.formats import run_rows  # which reads its calls with this module

        if not isinstance(value["calls"], list):
            raise InputError("'calls' is no list", json_path="$.calls")
        run = run_rows.read_row(value)
        run.format = NAME
        return [run]
    if not isinstance(value, list):
        raise InputError("calls must be a list or an object with 'calls'")
    run = Run(format=NAME)
    for index, item in enumerate(value):
        where = f"$[{index}]"
        if not isinstance(item, dict):
            raise InputError("a call must be an object", json_path=where)
        run.calls.append(read_call(item, where))
    return [run]


def read_call(item: dict[str, Any], where: str) -> Call:
    """One call from an object of the plain format.

    Args:
        item: the object.
        where: its place in the document.
    """
    arguments = EMPTY_ARGUMENTS
    for key in ARGUMENT_KEYS:
        if key in item:
            arguments = read_arguments(item[key])
            break
    function = item.get("function")
    name = first_of(item, TOOL_KEYS)
    if isinstance(function, dict) and name is function:
        name = function.get("name")
        arguments = read_arguments(function.get("arguments"))
    return finish_call(item, name, arguments, where)


def finish_call(item: dict[str, Any], name: Any, arguments: Arguments, where: str) -> Call:
    """The call with its result, error, times and cost from the same object."""
    call = new_call(tool_name(name), arguments, request_locator=where)
    call.call_id = id_text(first_of(item, ("id", "call_id", "tool_call_id")))
    result = first_of(item, RESULT_KEYS)
    if result is None:
        result = first_of(item, ("structured", "structured_content", "structuredContent"))
    if result is not None:
        call.result = result
    flag = item.get("is_error", item.get("isError"))
    call.is_error = flag if isinstance(flag, bool) else None
    error = item.get("error")
    if is_error_value(error):
        call.error = error
        call.is_failed, call.outcome_basis = True, "explicit"
    elif call.is_error is not None:
        call.is_failed, call.outcome_basis = call.is_error, "explicit"
    elif result is not None:
        call.is_failed = False
        call.outcome_basis = "explicit" if "error" in item else "result_only"
    if call.is_failed is not None:
        call.pairing = "embedded"
        call.completion_locator = where
        if call.is_failed is False and call.result is not MISSING:
            call.is_soft_error_suspected = reads_like_failure(call.result)
    if item.get("denied") is True or item.get("is_denied") is True:
        call.is_denied = True
        call.deny_reason = id_text(item.get("deny_reason"))
    call.duration_seconds = amount(first_of(item, DURATION_KEYS), "duration", call.warnings)
    call.cost_usd = amount(first_of(item, ("cost_usd", "cost")), "cost", call.warnings)
    _take_times(call, item)
    return call


def _take_times(call: Call, item: dict[str, Any]) -> None:
    start = instant(first_of(item, ("started_at", "start_time", "timestamp", "time")))
    end = instant(first_of(item, ("ended_at", "end_time")))
    if start is not None:
        call.started_at = start.at
    if end is not None:
        call.ended_at = end.at
    if (start is not None and start.is_naive) or (end is not None and end.is_naive):
        call.warnings.append(NAIVE_WARNING)
    if call.duration_seconds is None and start is not None and end is not None:
        elapsed = (end.nanoseconds - start.nanoseconds) / 1e9
        call.duration_seconds = elapsed if elapsed >= 0 else None
