"""Run rows: one object per run, as the agent harness writes them or a query yields them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    INPUT_TOKENS,
    NAIVE_WARNING,
    OUTPUT_TOKENS,
    Detection,
    Names,
    amount,
    first_of,
    id_text,
    instant,
    integer,
    is_error_value,
)
from toolscore_pipeline.formats.plain import read_call
from toolscore_pipeline.jsonio import FLAG_SENTENCES, strict_loads
from toolscore_pipeline.model import Run

NAME = "run_rows"

TASK_KEYS = ("task_id", "task")
VARIANT_KEYS = ("arm_id", "variant", "arm", "model")
COST_KEYS = ("cost_usd", "cost")
DURATION_KEYS = ("duration_s", "latency", "duration", "seconds", "duration_seconds")
ANSWER_KEYS = ("final_answer", "final_text")
_ROW_MARKS = frozenset(
    {
        "run_record_version", "cell_id", "task_id", "arm_id", "arm", "variant", "repetition",
        "outcome", "final_answer", "final_text", "passed",
    }
)  # fmt: skip
READ_KEYS = frozenset(
    {
        "calls", "messages", "status", "outcome", "passed", "error", "model", "prompt", "usage",
        "input_tokens", "output_tokens", "started_at", "ended_at", "injected", "probes",
        "repetition", "run_record_version", *TASK_KEYS, *ANSWER_KEYS, *COST_KEYS, *DURATION_KEYS,
        "arm_id", "variant", "arm",
    }
)  # fmt: skip
OUTCOMES = Names({"pass", "fail", "error", "unknown"})


def detect(value: Any) -> Detection | None:
    """A row, a list of rows, or ``{"runs": [rows]}``."""
    if isinstance(value, dict):
        if is_row(value):
            mark = "run_record_version" if "run_record_version" in value else _marks(value)
            return Detection(NAME, 0.98, f"a run row (it has {mark!r})")
        rows = value.get("runs")
        if isinstance(rows, list) and rows and _are_rows(rows):
            return Detection(NAME, 0.9, "an object whose 'runs' are run rows")
        return None
    if isinstance(value, list) and value and all(is_row(item) for item in value):
        return Detection(NAME, 0.98, "a list of run rows")
    return None


def _marks(row: dict[str, Any]) -> str:
    return min(_ROW_MARKS.intersection(row), default="calls")


def _are_rows(rows: list[Any]) -> bool:
    return all(isinstance(row, dict) and ("calls" in row or is_row(row)) for row in rows)


def is_row(value: Any) -> bool:
    """Whether ``value`` looks like a run row."""
    if not isinstance(value, dict):
        return False
    if "run_record_version" in value:
        return True
    has_evidence = isinstance(value.get("calls"), list) or isinstance(value.get("messages"), list)
    if has_evidence:
        return not _ROW_MARKS.isdisjoint(value)
    return "status" in value and len(_ROW_MARKS.intersection(value)) >= 2


def read(value: Any) -> list[Run]:
    """One run a row."""
    if isinstance(value, dict) and not is_row(value) and isinstance(value.get("runs"), list):
        return [
            read_row(row, f"$.runs[{index}]", locator=f"$.runs[{index}]")
            for index, row in enumerate(value["runs"])
        ]
    if isinstance(value, list):
        return [
            read_row(row, f"$[{index}]", locator=f"$[{index}]") for index, row in enumerate(value)
        ]
    return [read_row(value, "$")]


def read_row(row: Any, where: str = "$", *, locator: str | None = None) -> Run:
    """The run of one row.

    Args:
        row: the row; ``calls`` or ``messages`` may be JSON text.
        where: its place in the document.
        locator: the run's locator, when the document holds more than this run.

    Raises:
        InputError: when the row is no object, or its calls or messages cannot be read.
    """
    if not isinstance(row, dict):
        raise InputError("a run row must be an object", json_path=where)
    run = _evidence(row, where)
    run.format = NAME
    run.locator = locator
    run.task = _name(first_of(row, TASK_KEYS))
    run.variant = _name(first_of(row, VARIANT_KEYS))
    run.repetition = integer(row.get("repetition"))
    run.status = id_text(row.get("status"))
    run.recorded_outcome = outcome_of(row)
    doubt = outcome_doubt(row)
    if doubt is not None:
        run.warnings.append(doubt)
    answer = first_of(row, ANSWER_KEYS)
    if answer is not None:
        run.final_answer = id_text(answer)
    if is_error_value(row.get("error")):
        run.error = _error_text(row["error"])
    if row.get("model") is not None:
        run.model = id_text(row["model"])
    if row.get("prompt") is not None:
        run.prompt = id_text(row["prompt"])
    run.cost_usd = _cost(row, run.warnings)
    run.duration_seconds = amount(first_of(row, DURATION_KEYS), "duration", run.warnings)
    _take_usage(run, row)
    _take_times(run, row)
    run.injected = _json(row.get("injected"), dict)
    run.probes = _json(row.get("probes"), list)
    if row.keys() - READ_KEYS:
        run.attributes = {key: item for key, item in row.items() if key not in READ_KEYS}
    return run


def _name(value: Any) -> str | None:
    """The name of a task or variant; a blank one names nothing."""
    text = id_text(value)
    return text if text and not text.isspace() else None


def outcome_of(row: Mapping[str, Any]) -> str | None:
    """The outcome that a row records: ``outcome``, else from its status and ``passed``.

    An ``outcome`` that is none of the four says something that cannot be read: ``passed`` does not
    stand in for it.
    """
    outcome = row.get("outcome")
    if outcome in OUTCOMES:
        return str(outcome)
    if row.get("status") == "error":
        return "error"
    if outcome is not None and outcome != "":
        return "unknown"
    passed = row.get("passed")
    return ("pass" if passed else "fail") if isinstance(passed, bool) else None


def outcome_doubt(row: Mapping[str, Any]) -> str | None:
    """What is wrong with the outcome that a row records, as a sentence; None when nothing is."""
    outcome, passed = row.get("outcome"), row.get("passed")
    if outcome is None or outcome == "":
        return None
    if outcome not in OUTCOMES:
        taken = outcome_of(row)
        return f"the outcome {repr(outcome)[:60]} is not known: the run's is taken as {taken}"
    if isinstance(passed, bool) and passed != (outcome == "pass"):
        return f"the outcome {outcome!r} contradicts 'passed': the outcome counts"
    return None


def _evidence(row: dict[str, Any], where: str) -> Run:
    calls, flags = row.get("calls"), frozenset[str]()
    if isinstance(calls, str):
        calls, flags = _parsed(calls, f"{where}.calls")
    if calls is None:
        messages = row.get("messages")
        if isinstance(messages, str):
            messages, flags = _parsed(messages, f"{where}.messages")
        run = _from_messages(messages, where) if messages is not None else Run()
    elif isinstance(calls, list):
        run = Run()
        append = run.calls.append
        for index, item in enumerate(calls):
            place = f"{where}.calls[{index}]"
            if not isinstance(item, dict):
                raise InputError("a call must be an object", json_path=place)
            append(read_call(item, place))
    else:
        raise InputError("'calls' must be a list", json_path=f"{where}.calls")
    run.warnings.extend(FLAG_SENTENCES[flag] for flag in sorted(flags))
    return run


def _parsed(text: str, where: str) -> tuple[Any, frozenset[str]]:
    try:
        return strict_loads(text)
    except InputError as error:
        raise InputError(error.reason, json_path=where) from None


def _from_messages(messages: Any, where: str) -> Run:
    """The calls of a row that keeps its conversation instead of a list of calls."""
    from toolscore_pipeline import formats

    try:
        chosen = formats.choose(messages)
        runs = list(formats.formats()[chosen.format].read(messages))
        if not runs:
            raise InputError(f"nothing to read as {chosen.format}")
    except InputError as error:
        raise InputError(error.reason, json_path=f"{where}.messages") from None
    run = runs[0]
    if len(runs) > 1:
        run.warnings.append(f"the first of {len(runs)} runs in its messages was read")
    for call in run.calls:
        if call.request_locator:
            call.request_locator = f"{where}.messages{call.request_locator[1:]}"
        if call.completion_locator:
            call.completion_locator = f"{where}.messages{call.completion_locator[1:]}"
    return run


def _error_text(error: Any) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    from toolscore_pipeline.hashing import canonical_json

    return canonical_json(error).decode()


def _cost(row: dict[str, Any], warnings: list[str]) -> float | None:
    cost = first_of(row, COST_KEYS)
    return amount(cost.get("usd") if isinstance(cost, dict) else cost, "cost", warnings)


def _take_usage(run: Run, row: dict[str, Any]) -> None:
    usage = _json(row.get("usage"), dict)
    run.usage = usage if usage is not None else run.usage
    for source in (usage or {}, row):
        if run.input_tokens is None:
            run.input_tokens = integer(first_of(source, INPUT_TOKENS))
        if run.output_tokens is None:
            run.output_tokens = integer(first_of(source, OUTPUT_TOKENS))


def _take_times(run: Run, row: dict[str, Any]) -> None:
    start, end = instant(row.get("started_at")), instant(row.get("ended_at"))
    if start is not None:
        run.started_at = start.at
    if end is not None:
        run.ended_at = end.at
    if (start is not None and start.is_naive) or (end is not None and end.is_naive):
        run.warnings.append(NAIVE_WARNING)
    if run.duration_seconds is None and start is not None and end is not None:
        elapsed = (end.nanoseconds - start.nanoseconds) / 1e9
        run.duration_seconds = elapsed if elapsed >= 0 else None


def _json(value: Any, kind: type) -> Any:
    """A field that may be JSON text; None when it is not of ``kind``."""
    if isinstance(value, str):
        try:
            value, _ = strict_loads(value)
        except InputError:
            return None
    return value if isinstance(value, kind) else None
