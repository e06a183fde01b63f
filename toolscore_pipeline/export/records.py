"""One run as one neutral, versioned record: what was asked for, what came back, what is unknown.

A record is made of the rows of ``evidence.runs`` and ``evidence.calls`` and, when there is one, of
a grade. Requests and completions stand apart and are correlated by ``call_id``. What was not
recorded is null and named in ``coverage.unknown``; values have the hash of what they were made of.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson

from toolscore_pipeline.hashing import canonical_json, json_sha256
from toolscore_pipeline.result import parse_json

SCHEMA_NAME = "toolscore.run-record"
SCHEMA_VERSION = "1"

STATUSES = (
    "not_run", "unobserved", "running", "awaiting_input", "paused", "completed", "agent_error",
    "timed_out", "infrastructure_error", "cancelled",
)  # fmt: skip
"""The closed vocabulary of a record's status."""

# A recorder's word for how a run ended, in the closed vocabulary.
_STATUS_WORDS = {
    "completed": ("complete", "completed", "done", "finished", "ok", "succeeded", "success"),
    "agent_error": ("agent_error", "failed", "failure", "incomplete", "limit_reached", "max_turns"),
    "timed_out": ("timed_out", "timeout"),
    "infrastructure_error": ("crashed", "error", "errored", "infrastructure_error"),
    "cancelled": ("aborted", "budget_stopped", "canceled", "cancelled", "interrupted", "stopped"),
    "running": ("in_progress", "running"),
    "awaiting_input": ("awaiting_input", "input_required", "requires_action"),
    "paused": ("paused",),
    "not_run": ("not_run", "queued", "skipped"),
    "unobserved": ("unobserved",),
}  # fmt: skip
_STATUS_OF = {word: status for status, words in _STATUS_WORDS.items() for word in words}

# Formats whose records list every call that the model asked for, and why.
_COMPLETE_REQUESTS = {
    "run_rows": "the run row lists every call of the run",
    "plain": "the trace is the list of the run's calls",
    "openai": "the conversation holds every call that the model asked for",
    "openai_responses": "the response items hold every call that the model asked for",
    "anthropic": "the conversation holds every call that the model asked for",
    "gemini": "the conversation holds every call that the model asked for",
    "langchain": "the messages hold every call that the model asked for",
}
# Fields of a run row that have a place of their own in the record, or belong to the harness alone.
_PLACED = frozenset(
    {
        "cell_id", "cell_sha256", "counted_usd", "evaluation", "guard_denials", "order",
        "outcome_reason", "price", "provider", "run_id", "seed", "server", "spec_sha256", "study",
        "system", "answered_by", "stop_reason",
    }
)  # fmt: skip
_LONGEST_ATTRIBUTE = 200

Row = Mapping[str, Any]


class Json:
    """A value known by its canonical JSON text: it goes into a record without being parsed."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text."""
        return hashlib.sha256(self.text.encode("utf-8", "backslashreplace")).hexdigest()

    @property
    def value(self) -> Any:
        """The value itself."""
        try:
            return parse_json(self.text)
        except ValueError:  # an escaped lone surrogate, which only the standard parser takes
            return json.loads(self.text)


def build_record(
    run: Row,
    calls: Sequence[Row],
    *,
    source: Row,
    evaluation: Row | None = None,
    outcome: str | None = None,
    repetition_index: int | None = None,
) -> dict[str, Any]:
    """The record of one run, with :class:`Json` values and without ``hashes.record_sha256``.

    Args:
        run: its row of ``evidence.runs``.
        calls: its rows of ``evidence.calls``, by index.
        source: ``kind``, ``path`` and ``sha256`` of the document, and ``line`` when it has lines.
        evaluation: what the standing grade says; None without one.
        outcome: the outcome of that grade; None takes the one that the record itself names.
        repetition_index: the place among the runs of its task and variant, from 0; None takes the
            recorded repetition, or 0.
    """
    run_id = run["run_id"]
    execution_id = f"run-{run_id}"
    attributes = parse_json(run["attributes_json"]) or {}
    # The calls of a receipt stand in the trace that it names.
    artifact = _trace_of_receipt(attributes) or source["sha256"]
    ids = call_ids(call["call_id"] for call in calls)
    requested, completed, unknown = [], [], []
    for call, (call_id, id_source) in zip(calls, ids, strict=True):
        index = call["call_index"]
        requested.append(_requested(run, call, call_id, id_source, execution_id, artifact))
        done = _completed(run, call, call_id, execution_id, artifact)
        completed.append(done)
        if done["status"] == "unknown":
            unknown.append(f"completed_calls[{index}].status")
        if not call["has_result"]:
            unknown.append(f"completed_calls[{index}].result")
        if call["duration_seconds"] is None:
            unknown.append(f"completed_calls[{index}].duration_seconds")
        if call["cost_usd"] is None:
            unknown.append(f"completed_calls[{index}].cost")
    answer = _answer(run, execution_id)
    usage = {
        "input_tokens": _observation(run["input_tokens"], "input tokens were"),
        "output_tokens": _observation(run["output_tokens"], "output tokens were"),
    }
    cost = _observation(_decimal(run["cost_usd"]), "cost was")
    status, status_basis = run_status(run)
    unknown += [
        name
        for name, is_known in (
            ("final_answer", answer["state"] == "available"),
            ("cost", run["cost_usd"] is not None),
            ("usage.input_tokens", run["input_tokens"] is not None),
            ("usage.output_tokens", run["output_tokens"] is not None),
            ("duration_seconds", run["duration_seconds"] is not None),
            ("started_at", run["started_at"] is not None),
            ("ended_at", run["ended_at"] is not None),
            ("task_id", run["task"] is not None),
            ("variant", run["variant"] is not None),
            ("prompt", run["prompt"] is not None),
        )
        if not is_known
    ]
    if evaluation is None:
        evaluation = recorded_evaluation(attributes.get("evaluation"))
    if outcome is not None:
        outcome_basis = "graded"
    else:
        outcome = run["recorded_outcome"]
        outcome_basis = "none" if outcome is None else "recorded"
    if repetition_index is None:
        repetition_index = max(run["repetition"] or 0, 0)
    is_whole_run = run["format"] == "run_rows"
    return {
        "agent": _agent(run, attributes),
        "attributes": {
            name: value
            for name, value in attributes.items()
            if name not in _PLACED and _is_short(value)
        },
        "completed_calls": completed,
        "cost": {"usd": run["cost_usd"], **cost},
        "coverage": _coverage(run, calls, answer, unknown),
        "duration_seconds": run["duration_seconds"],
        "ended_at": _instant(run["ended_at"]),
        "error": run["error"],
        "evaluation": evaluation,
        "executions": [
            {
                "id": execution_id,
                "parent_id": None,
                "role": "main",
                "retry_index": 0,
                "status": status,
                "kind": "aggregate",
                "resources": {"cost_usd": cost, **usage},
                "started_at": _instant(run["started_at"]),
                "ended_at": _instant(run["ended_at"]),
            }
        ],
        "execution_inventory": (
            {"complete": True, "basis": "the run row holds the totals of the whole run"}
            if is_whole_run
            else {
                "complete": None,
                "basis": "a trace does not say whether it holds every model call of the run",
            }
        ),
        "final_answer": answer,
        "format": run["format"],
        "hashes": {
            "evidence_sha256": run["evidence_sha256"],
            "final_answer_sha256": answer["sha256"],
            "prompt_sha256": _text_sha256(run["prompt"]),
            "source_sha256": source["sha256"],
        },
        "outcome": outcome or "unknown",
        "outcome_basis": outcome_basis,
        "prompt": run["prompt"],
        "record_id": run_id,
        "redaction": {"applied": False, "fields": []},
        "repetition": run["repetition"],
        "repetition_index": repetition_index,
        "requested_calls": requested,
        "run_id": run_id,
        "schema": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "source": {
            "kind": source["kind"],
            "path": source["path"],
            "sha256": source["sha256"],
            "name": run["source"] or None,
            "locator": run["locator"],
            "line": source.get("line"),
        },
        "started_at": _instant(run["started_at"]),
        "status": status,
        "status_basis": status_basis,
        "status_recorded": run["status"],
        "task_id": run["task"],
        "usage": usage | {"recorded": _json(run["usage_json"])},
        "variant": run["variant"],
        "warnings": list(run["warnings"] or ()),
    }


def call_ids(recorded: Iterable[str | None]) -> list[tuple[str, str]]:
    """An id of its own for every call of a run, and where it comes from.

    Returns:
        ``(id, source)`` by call: ``recorded``; ``synthesized`` (``call-<n>``, n from 1) for a call
        without an id; ``disambiguated`` (``<id>#<n>``) for one whose id another call has already.
    """
    given = list(recorded)
    taken = {call_id for call_id in given if call_id}
    seen: Counter[str] = Counter()
    ids: list[tuple[str, str]] = []
    for number, call_id in enumerate(given, start=1):
        if call_id and call_id.strip():
            seen[call_id] += 1
            if seen[call_id] == 1:
                ids.append((call_id, "recorded"))
                continue
            base, source = f"{call_id}#{seen[call_id]}", "disambiguated"
        else:
            base, source = f"call-{number}", "synthesized"
        name = base
        while name in taken:
            name += "'"
        taken.add(name)
        ids.append((name, source))
    return ids


def run_status(run: Row) -> tuple[str, str]:
    """How a run ended, in the closed vocabulary, and on what that rests.

    Returns:
        The status, and ``recorded`` (the recorder's own word) or ``inferred`` (from the error, the
        outcome or the fact that the record is there).
    """
    word = str(run["status"] or "").strip().lower().replace(" ", "_").replace("-", "_")
    if word in _STATUS_OF:
        return _STATUS_OF[word], "recorded"
    if run["error"] is not None or run["recorded_outcome"] == "error":
        return "infrastructure_error", "inferred"
    return "completed", "inferred"


def full_locator(run_locator: str | None, locator: str | None) -> str | None:
    """Where in its document a call stands.

    ``line 7 $.calls[1]``, ``row 7 $.calls[1]``, ``$.runs[3].calls[1]``, or a member of an archive,
    ``samples/one.json $.messages[2]``.
    """
    if locator is None:
        return run_locator
    if run_locator is None or run_locator[0] == "$" or locator[:1] != "$":
        return locator
    unit, _, rest = run_locator.partition(" ")
    if unit in ("line", "row"):
        return f"{unit} {rest.partition(' ')[0]} {locator}"
    return f"{run_locator} {locator}" if run_locator.endswith(".json") else locator


def recorded_evaluation(found: Any) -> dict[str, Any] | None:
    """The evaluation that a run row brings with it, in the form of a record; None without one."""
    if not isinstance(found, dict):
        return None
    evidence = found.get("evidence")
    evidence = evidence if isinstance(evidence, dict) else {}
    hashes = found.get("hashes")
    hashes = hashes if isinstance(hashes, dict) else {}
    score = found.get("score")
    return evaluation_of(
        {
            "contract": None,
            "judgment_id": hashes.get("judgment"),
            "grade_id": hashes.get("grade"),
            "grader_version": hashes.get("grader"),
            "score": score if isinstance(score, (int, float)) else None,
            "grade": found.get("grade"),
            "verdict": found.get("verdict"),
            "min_score": found.get("min_score"),
            "is_passed": found.get("passed"),
            **{f"{name}_count": _size(found.get(key)) for name, key in _RECORDED_COUNTS.items()},
        },
        [
            (check.get("check"), check.get("status"), check.get("detail"))
            for check in evidence.get("checks", [])
            if isinstance(check, dict)
        ],
        basis="recorded",
    )


_RECORDED_COUNTS = {"violation": "policy", "credential": "credentials"}


def _size(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def evaluation_of(
    row: Row, checks: Iterable[tuple[Any, Any, Any]], *, basis: str = "graded"
) -> dict[str, Any]:
    """The evaluation of a record: of a row with the grade's columns and (check, status, detail)."""
    listed = [
        {"check": name, "status": status, "detail": detail} for name, status, detail in checks
    ]
    counts = Counter(check["status"] for check in listed)
    return {
        "basis": basis,
        "contract": row["contract"],
        "judgment_sha256": row["judgment_id"],
        "grade_sha256": row["grade_id"],
        "grader_version": row["grader_version"],
        "score": row["score"],
        "grade": row["grade"],
        "verdict": row["verdict"],
        "min_score": row["min_score"],
        "passed": row["is_passed"],
        "evidence": {
            "checks": listed,
            "counts": {status: counts[status] for status in ("pass", "fail", "unknown")},
        },
        "findings": {
            "forbidden_calls": row.get("violation_count"),
            "credentials": row.get("credential_count"),
            "failed_calls": row.get("failed_call_count"),
            "blind_retries": row.get("blind_retry_count"),
            "honesty_errors": row.get("honesty_error_count"),
        },
    }


# --- parts ----------------------------------------------------------------------------------------


def _requested(
    run: Row, call: Row, call_id: str, id_source: str, execution_id: str, artifact: str
) -> dict[str, Any]:
    arguments = _json(call["args_json"])
    return {
        "call_id": call_id,
        "call_id_source": id_source,
        "index": call["call_index"],
        "execution_id": execution_id,
        "tool": call["tool"],
        "executor": call["executor"],
        "arguments": arguments,
        "arguments_status": call["args_status"],
        "arguments_raw": call["args_raw"],
        "arguments_sha256": arguments.sha256 if arguments is not None else None,
        "is_redacted": False,
        "denied": call["is_denied"],
        "deny_reason": call["deny_reason"],
        "requested_at": _instant(call["started_at"]),
        "source": {
            "artifact": artifact,
            "locator": full_locator(run["locator"], call["request_locator"]),
        },
    }


def _completed(
    run: Row, call: Row, call_id: str, execution_id: str, artifact: str
) -> dict[str, Any]:
    failed = call["is_failed"]
    if call["is_denied"]:
        status = "denied"
    elif failed is None:
        status = "unknown"
    else:
        status = "error" if failed else "completed"
    has_result = call["has_result"]
    result = _json(call["result_json"]) if has_result else None
    is_answered = has_result or call["error_json"] is not None
    return {
        "call_id": call_id,
        "index": call["call_index"],
        "execution_id": execution_id,
        "status": status,
        "outcome_basis": call["outcome_basis"],
        "is_error": call["is_error"],
        "has_result": has_result,
        "result": result,
        "result_sha256": result.sha256 if result is not None else None,
        "error": _json(call["error_json"]),
        "duration_seconds": call["duration_seconds"],
        "cost": _observation(_decimal(call["cost_usd"]), "cost of the call was"),
        "completed_at": _instant(call["ended_at"]),
        "pairing": call["pairing"],
        "is_redacted": False,
        "source": (
            {
                "artifact": artifact,
                "locator": full_locator(run["locator"], call["completion_locator"]),
            }
            if is_answered
            else None
        ),
    }


def _answer(run: Row, execution_id: str) -> dict[str, Any]:
    value = run["final_answer"]
    if value is None:
        return {
            "state": "unknown", "value": None, "sha256": None, "execution_id": None,
            "is_redacted": False, "reason": "no final answer was recorded",
        }  # fmt: skip
    return {
        "state": "available", "value": value, "sha256": _text_sha256(value),
        "execution_id": execution_id, "is_redacted": False, "reason": None,
    }  # fmt: skip


def _coverage(run: Row, calls: Sequence[Row], answer: Row, unknown: list[str]) -> dict[str, Any]:
    count = len(calls)
    outcomes = sum(call["is_failed"] is not None or call["is_denied"] for call in calls)
    basis = _COMPLETE_REQUESTS.get(run["format"])
    requests: dict[str, Any]
    if run["status"] == "error" and not calls and run["format"] != "run_rows":
        requests = {"complete": None, "basis": "the document could not be read"}
    elif basis is not None:
        requests = {"complete": True, "basis": basis}
    else:
        requests = {
            "complete": None,
            "basis": f"the format {run['format']} does not say whether every call was recorded",
        }
    if outcomes < count:
        results: dict[str, Any] = {
            "complete": False,
            "basis": f"{count - outcomes} of {count} calls have no recorded outcome",
        }
    else:
        results = {
            "complete": requests["complete"],
            "basis": (
                "every call has a recorded outcome"
                if requests["complete"]
                else "every call listed has a recorded outcome, but calls may be missing"
            ),
        }
    return {
        "calls": count,
        "with_result": sum(call["has_result"] for call in calls),
        "with_outcome": outcomes,
        "with_duration": sum(call["duration_seconds"] is not None for call in calls),
        "with_cost": sum(call["cost_usd"] is not None for call in calls),
        "final_answer": "known" if answer["state"] == "available" else "unknown",
        "requests": requests,
        "results": results,
        "unknown": unknown,
    }


def _agent(run: Row, attributes: Row) -> dict[str, Any]:
    server = attributes.get("server")
    if isinstance(server, str):
        server = {"name": server, "version": None}
    elif isinstance(server, dict):
        server = {"name": _text(server.get("name")), "version": _text(server.get("version"))}
    else:
        server = None
    return {
        "model": run["model"],
        "answered_by": _text(attributes.get("answered_by")),
        "provider": _text(attributes.get("provider")),
        "system": _text(attributes.get("system")),
        "server": server,
        "study": _text(attributes.get("study")),
    }


_HASH = re.compile(r"[0-9a-f]{64}")


def _trace_of_receipt(attributes: Row) -> str | None:
    """The SHA-256 of the trace that a run was read from by way of a receipt."""
    trace = attributes.get("trace_sha256")
    if "receipt_sha256" not in attributes or not isinstance(trace, str):
        return None
    return trace if _HASH.fullmatch(trace) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_ATTRIBUTE
    return value is None or isinstance(value, (bool, int, float))


def _json(text: str | None) -> Json | None:
    return None if text is None else Json(text)


def _observation(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {"status": "unknown", "value": None, "reason": f"no {what} recorded"}
    return {"status": "observed", "value": value, "reason": None}


def _decimal(value: float | None) -> str | None:
    """A double as the shortest decimal text that stands for it, without an exponent."""
    return None if value is None else format(Decimal(repr(float(value))), "f")


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _text_sha256(text: str | None) -> str | None:
    if text is None:
        return None
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


# --- redaction ------------------------------------------------------------------------------------


def redact_record(record: dict[str, Any]) -> dict[str, Any]:
    """The record with every credential replaced by a short preview, and said so in ``redaction``.

    Hashes stay those of what was recorded. A call whose arguments or result were changed is marked
    ``is_redacted``: its values are not evidence of what was sent any more.
    """
    from toolscore_pipeline.credentials import redact_value

    fields: list[str] = []

    def redact(holder: dict[str, Any], keys: tuple[str, ...], where: str) -> bool:
        changed = False
        for key in keys:
            value = holder[key]
            if value is None:
                continue
            plain = value.value if isinstance(value, Json) else value
            clean = redact_value(plain)
            if clean == plain:
                continue
            holder[key] = Json(canonical_json(clean).decode()) if isinstance(value, Json) else clean
            fields.append(f"{where}{key}")
            changed = True
        return changed

    redact(record, ("error", "prompt", "attributes", "warnings"), "")
    redact(record["agent"], ("system",), "agent.")
    redact(record["usage"], ("recorded",), "usage.")
    record["final_answer"]["is_redacted"] = redact(
        record["final_answer"], ("value",), "final_answer."
    )
    for name, keys in (
        ("requested_calls", ("arguments", "arguments_raw", "deny_reason")),
        ("completed_calls", ("result", "error")),
    ):
        for index, call in enumerate(record[name]):
            call["is_redacted"] = redact(call, keys, f"{name}[{index}].")
    if record["evaluation"] is not None:
        redact(record["evaluation"], ("evidence",), "evaluation.")
    record["redaction"] = {"applied": True, "fields": fields}
    return record


# --- encoding -------------------------------------------------------------------------------------

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
# orjson writes 1e-7 and 0.00001 where canonical JSON has 1e-07 and 1e-05. The pattern begins with
# what is rare: a search for a digit first takes twenty times as long.
_ONE_DIGIT_EXPONENT = re.compile(rb"e-\d(?!\d)")


def encode_record(record: dict[str, Any]) -> bytes:
    """The record as canonical JSON with its own hash in ``hashes.record_sha256``.

    The hash is the SHA-256 of the record's canonical JSON without that key.
    """
    before = {name: value for name, value in record.items() if name < "hashes"}
    after = {name: value for name, value in record.items() if name > "hashes"}
    hashes = {name: value for name, value in record["hashes"].items() if name != "record_sha256"}
    head, tail = _encode(before)[:-1], _encode(after)[1:]
    digest = hashlib.sha256(head)
    for part in (b',"hashes":', _encode(hashes), b",", tail):
        digest.update(part)
    sealed = _encode({**hashes, "record_sha256": digest.hexdigest()})
    return b"".join((head, b',"hashes":', sealed, b",", tail))


def _encode(value: Any) -> bytes:
    try:
        fast = orjson.dumps(value, default=_fragment, option=_OPTIONS)
    except TypeError:
        return canonical_json(plain(value))
    return canonical_json(plain(value)) if _may_have_odd_number(fast) else fast


def _may_have_odd_number(text: bytes) -> bool:
    """Whether JSON text may hold a number that canonical JSON writes otherwise."""
    if b"0.0000" in text:
        return True
    return b"e-" in text and any(
        text[match.start() - 1 : match.start()].isdigit()
        for match in _ONE_DIGIT_EXPONENT.finditer(text)
    )


def _fragment(value: Any) -> Any:
    if isinstance(value, Json):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} is not JSON")


def plain(value: Any) -> Any:
    """``value`` with every :class:`Json` replaced by the value it stands for."""
    if isinstance(value, Json):
        return value.value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def finished(record: dict[str, Any]) -> dict[str, Any]:
    """The record as plain JSON values, with its own hash."""
    record = plain(record)
    record["hashes"] = {**record["hashes"], "record_sha256": record_sha256(record)}
    return record


def record_sha256(record: Mapping[str, Any]) -> str:
    """The hash that a record should have: over its canonical JSON without ``record_sha256``."""
    hashes = {k: v for k, v in record.get("hashes", {}).items() if k != "record_sha256"}
    return json_sha256({**record, "hashes": hashes})
