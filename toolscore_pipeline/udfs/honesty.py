"""``honesty``: the verdicts of the honesty checks over one answer and its calls, as JSON."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from toolscore_pipeline.arrays import array_of
from toolscore_pipeline.honesty import (
    CHECKS,
    HonestyCall,
    HonestyConfig,
    check_honesty,
    config_from_mapping,
    injected_from_mapping,
)
from toolscore_pipeline.model import MISSING

_DEFAULTS = HonestyConfig()
# For the few answers that are judged again and again in Python; statements ask for each only once.
_CACHE = 1_024
_MAX_CACHED = 20_000


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register ``honesty(final_answer, calls_json, injected_json, honesty_json)`` on a connection.

    It returns ``{"checks": [{check, status, detail}], "findings": [{check, severity, call_index,
    tool, sentence, reason}]}`` as JSON text. ``calls_json`` is a JSON list of ``{"index", "tool",
    "args", "args_text", "result", "has_result", "is_failed", "error", "is_denied", "call_id"}``;
    NULL, or a call without a tool, means that the calls are not known, and ``[]`` that there were
    none. ``result`` and ``error`` are JSON values. A text that cannot be read makes every check
    that is on unknown, with the reason. Call it over distinct rows: it is plain Python inside.
    """
    connection.create_function(
        "honesty",
        honesty,
        ["VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR"],
        "VARCHAR",
        type=ARROW,
        null_handling=SPECIAL,
    )


def honesty(
    final_answer: pa.Array, calls_json: pa.Array, injected_json: pa.Array, honesty_json: pa.Array
) -> pa.Array:
    """One JSON document per row; never NULL."""
    columns = (final_answer, calls_json, injected_json, honesty_json)
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return array_of([_verdict(*row) for row in rows], pa.string())


def _verdict(
    final_answer: str | None, calls: str | None, injected: str | None, settings: str | None
) -> str:
    size = len(final_answer or "") + len(calls or "")
    judge = _cached if size <= _MAX_CACHED else _judge
    return judge(final_answer, calls, injected, settings)


def _judge(
    final_answer: str | None, calls: str | None, injected: str | None, settings: str | None
) -> str:
    config = _DEFAULTS
    try:
        config = _config(settings)
        known = _injected(injected)
        verdict = check_honesty(final_answer, read_calls(calls), config, known).to_dict()
    except Exception as error:  # one odd row must not stop a statement over a million
        verdict = _unreadable(config, injected, type(error).__name__)
    return orjson.dumps(verdict).decode()


_cached = lru_cache(maxsize=_CACHE)(_judge)


@lru_cache(maxsize=256)
def _config(settings: str | None) -> HonestyConfig:
    return _DEFAULTS if settings is None else config_from_mapping(orjson.loads(settings))


@lru_cache(maxsize=1024)
def _injected(injected: str | None) -> dict[str, Any] | None:
    return None if injected is None else injected_from_mapping(orjson.loads(injected))


def _unreadable(config: HonestyConfig, injected: str | None, error: str) -> dict[str, Any]:
    switches = (config.claimed_success, config.disclosure, config.escape_hatch)
    names = [name for name, is_on in zip(CHECKS, switches, strict=False) if is_on]
    if config.prompt_injection and injected is not None and '"planted"' in injected:
        names.append(CHECKS[3])
    detail = f"the evidence could not be read ({error})"
    return {
        "checks": [{"check": name, "status": "unknown", "detail": detail} for name in names],
        "findings": [],
    }


def read_calls(calls_json: str | None) -> list[HonestyCall] | None:
    """The calls of a JSON list (see :func:`register`).

    None for None, for JSON null, and where a call does not name its tool.

    Raises:
        ValueError: when the text is no JSON list of objects.
    """
    if calls_json is None:
        return None
    entries = orjson.loads(calls_json)
    if entries is None:
        return None
    if not isinstance(entries, list):
        raise ValueError("the calls are no list")
    if any(isinstance(entry, dict) and not entry.get("tool") for entry in entries):
        return None  # what was called is not known
    return [_call(position, entry) for position, entry in enumerate(entries)]


def _call(position: int, entry: Any) -> HonestyCall:
    if not isinstance(entry, dict):
        raise ValueError("a call is no object")
    get = entry.get
    index = get("index")
    has_result = get("has_result")
    if has_result is None:
        has_result = get("result") is not None
    return HonestyCall(
        index=position if index is None else int(index),
        tool=str(entry["tool"]),
        args=get("args"),
        args_text=get("args_text"),
        result=get("result") if has_result else MISSING,
        has_result=bool(has_result),
        is_failed=get("is_failed"),
        error=get("error"),
        is_denied=get("is_denied", False),
        call_id=get("call_id"),
    )
