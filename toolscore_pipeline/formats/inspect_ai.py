"""Inspect AI logs: JSON, or ``.eval`` archives; one run a sample and epoch."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    Conversation,
    Detection,
    Instant,
    Reply,
    amount,
    decode_arguments,
    dicts,
    id_text,
    instant,
    integer,
    is_error_value,
    new_call,
    one_text,
    read_arguments,
    text_of,
)
from toolscore_pipeline.jsonio import FLAG_SENTENCES, strict_loads
from toolscore_pipeline.model import MISSING, Call, Run

NAME = "inspect_ai"

_ATTACHMENT = "attachment://"
_VERDICTS = {"C": "pass", "I": "fail"}
#: A member of an archive larger than this is refused: unpacked it would fill the memory.
MAX_MEMBER_BYTES = 1 << 30


def detect(value: Any) -> Detection | None:
    """A log with ``eval`` and ``samples``, or one sample."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("eval"), dict) and ("samples" in value or "plan" in value):
        return Detection(NAME, 0.97, "a log with 'eval' and 'samples'")
    if {"id", "epoch", "input", "messages"} <= value.keys():
        return Detection(NAME, 0.95, "a sample with 'epoch', 'input' and 'messages'")
    return None


def read(value: Any) -> list[Run]:
    """One run for each sample; a log that failed before its samples is one run in error."""
    if not isinstance(value, dict):
        raise InputError("an Inspect log must be an object")
    if not isinstance(value.get("eval"), dict):
        return [_read_sample(value, {}, "$")]
    samples = value.get("samples")
    runs = [
        _read_sample(sample, value, f"$.samples[{index}]", locator=f"$.samples[{index}]")
        for index, sample in enumerate(samples if isinstance(samples, list) else [])
    ]
    return runs or [_without_samples(value)]


def _without_samples(log: dict[str, Any]) -> Run:
    header = log["eval"]
    run = Run(format=NAME, task=id_text(header.get("task")), model=id_text(header.get("model")))
    run.variant = run.model
    run.status = id_text(log.get("status"))
    if is_error_value(log.get("error")):
        run.status = run.recorded_outcome = "error"
        run.error = _message(log["error"])
    run.warnings.append("the log holds no samples")
    return run


def read_archive(file: Path) -> Iterator[Run | InputError]:
    """The runs of a ``.eval`` archive, sample by sample.

    Args:
        file: the archive.

    Yields:
        A run for each sample, and an error for each that cannot be read.

    Raises:
        InputError: when the archive itself cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            yield from _read_members(archive)
    except (zipfile.BadZipFile, NotImplementedError, zlib.error, EOFError) as error:
        raise InputError(f"the archive cannot be read: {error}") from None


def _read_members(archive: zipfile.ZipFile) -> Iterator[Run | InputError]:
    names = archive.namelist()
    header: dict[str, Any] = {}
    for name in ("header.json", "_journal/start.json"):
        if name in names:
            loaded, _ = _member(archive, name)
            header = loaded if isinstance(loaded, dict) else {}
            break
    samples = sorted(
        name for name in names if name.startswith("samples/") and name.endswith(".json")
    )
    for name in samples:
        try:
            sample, flags = _member(archive, name)
            run = _read_sample(sample, header, "$", locator=name)
        except InputError as error:
            yield InputError(f"{name}: {error.reason}", json_path=error.json_path)
            continue
        run.warnings.extend(FLAG_SENTENCES[flag] for flag in sorted(flags))
        yield run
    if not samples and isinstance(header.get("eval"), dict):
        yield _without_samples(header)


def _member(archive: zipfile.ZipFile, name: str) -> tuple[Any, frozenset[str]]:
    if archive.getinfo(name).file_size > MAX_MEMBER_BYTES:
        raise InputError(f"larger than {MAX_MEMBER_BYTES >> 20:,} MB")
    try:
        data = archive.read(name)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError) as error:
        raise InputError(str(error) or "it cannot be unpacked") from None
    return strict_loads(data)


def _read_sample(
    sample: Any, log: dict[str, Any], where: str, *, locator: str | None = None
) -> Run:
    if not isinstance(sample, dict):
        raise InputError("a sample must be an object", json_path=where)
    attachments = sample.get("attachments")
    if isinstance(attachments, dict) and attachments:
        sample = {
            key: item if key == "attachments" else _resolved(item, attachments)
            for key, item in sample.items()
        }
    header = log.get("eval")
    header = header if isinstance(header, dict) else {}
    talk = Conversation(NAME)
    for index, message in dicts(sample.get("messages")):
        _read_message(talk, message, f"{where}.messages[{index}]")
    run = talk.finish()
    run.locator = locator
    name = id_text(sample.get("id"))
    task = id_text(header.get("task"))
    run.task = "/".join(part for part in (task, name) if part) or None
    epoch = integer(sample.get("epoch"))
    run.repetition = epoch - 1 if epoch is not None else None
    run.model = id_text(header.get("model")) or _output_model(sample)
    run.variant = run.model
    if isinstance(sample.get("input"), str):
        run.prompt = sample["input"]
    output = sample.get("output")
    if run.final_answer is None and not run.calls and isinstance(output, dict):
        run.final_answer = id_text(output.get("completion")) or None
    _take_outcome(run, sample)
    _take_usage(run, sample)
    _take_events(run, sample)
    run.duration_seconds = amount(sample.get("total_time"), "duration", run.warnings)
    start, end = instant(sample.get("started_at")), instant(sample.get("completed_at"))
    run.started_at = start.at if start is not None else None
    run.ended_at = end.at if end is not None else None
    kept = ("scores", "target", "metadata", "uuid", "working_time")
    run.attributes = {key: sample[key] for key in kept if is_error_value(sample.get(key))} or None
    return run


def _resolved(value: Any, attachments: dict[str, Any]) -> Any:
    """``value`` with references to attachments replaced by the attached texts."""
    if isinstance(value, str):
        if value.startswith(_ATTACHMENT):
            return attachments.get(value.removeprefix(_ATTACHMENT), value)
        return value
    if isinstance(value, list):
        return [_resolved(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(item, attachments) for key, item in value.items()}
    return value


def _output_model(sample: dict[str, Any]) -> str | None:
    output = sample.get("output")
    return id_text(output.get("model")) if isinstance(output, dict) else None


def _read_message(talk: Conversation, message: dict[str, Any], where: str) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        talk.turn(None)
        if isinstance(content, str):
            talk.text(content)
        for index, part in dicts(content):
            if part.get("type") == "text":
                talk.text(part.get("text"))
            elif part.get("type") == "tool_use":
                _server_tool(talk, part, f"{where}.content[{index}]")
        for index, item in dicts(message.get("tool_calls")):
            arguments = read_arguments(item.get("arguments"))
            call = new_call(item.get("function"), arguments, executor="client")
            call.request_locator = f"{where}.tool_calls[{index}]"
            if isinstance(item.get("parse_error"), str):
                _unparsed(call, item)
            talk.call(call, item.get("id"))
    elif role == "tool":
        error = message.get("error")
        is_error = is_error_value(error)
        name = message.get("function")
        talk.reply(
            Reply(
                result=MISSING if is_error and not content else one_text(content or ""),
                is_error=is_error,
                error=error if is_error else None,
                is_failed=is_error,
                is_explicit=True,
                name=name if isinstance(name, str) else None,
                is_denied=isinstance(error, dict) and error.get("type") == "approval",
                deny_reason=_message(error) if is_error and _is_approval(error) else None,
                locator=where,
            ),
            message.get("tool_call_id"),
        )
    elif role == "user":
        talk.user(text_of(content))


def _is_approval(error: Any) -> bool:
    return isinstance(error, dict) and error.get("type") == "approval"


def _unparsed(call: Call, item: dict[str, Any]) -> None:
    """Arguments that Inspect could not parse: it keeps their text under one parameter."""
    call.warnings.append(f"arguments could not be parsed: {item['parse_error']}")
    given = item.get("arguments")
    raw = next(iter(given.values()), None) if isinstance(given, dict) else given
    if isinstance(raw, str):
        arguments = decode_arguments(raw)
        call.args_raw = raw
        call.args, call.args_status = {"raw": raw}, "invalid"
        if arguments.status == "not_object":
            call.args, call.args_status = arguments.args, "not_object"
    else:
        call.args_status = "invalid"


def _server_tool(talk: Conversation, part: dict[str, Any], where: str) -> None:
    """A tool that the provider ran, with its result in the same block."""
    raw = part.get("arguments")
    arguments = decode_arguments(raw) if isinstance(raw, str) else read_arguments(raw)
    is_mcp = part.get("tool_type") == "mcp_call"
    call = new_call(part.get("name"), arguments, executor="mcp" if is_mcp else "provider")
    call.request_locator = call.completion_locator = where
    talk.call(call, part.get("id"))
    error, result = part.get("error"), part.get("result")
    failed = is_error_value(error)
    talk.ledger.entries[-1].is_answered = True
    if failed or result is not None:
        call.result = MISSING if result is None or (failed and result == "") else result
        call.error = error if failed else None
        call.is_failed, call.outcome_basis, call.pairing = failed, "explicit", "embedded"


def _take_outcome(run: Run, sample: dict[str, Any]) -> None:
    error, limit = sample.get("error"), sample.get("limit")
    if is_error_value(error):
        run.status = run.recorded_outcome = "error"
        run.error = _message(error)
        return
    run.status = "limit_reached" if is_error_value(limit) else "completed"
    scores = sample.get("scores")
    if isinstance(scores, dict) and len(scores) == 1:
        score = next(iter(scores.values()))
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(value, str):
            run.recorded_outcome = _VERDICTS.get(value)
        elif value in (0, 1):
            run.recorded_outcome = "pass" if value else "fail"


def _message(error: Any) -> str:
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return str(error)


def _take_usage(run: Run, sample: dict[str, Any]) -> None:
    usages = sample.get("model_usage")
    if not isinstance(usages, dict) or not usages:
        return
    run.usage = usages
    for usage in usages.values():
        if isinstance(usage, dict):
            incoming = integer(usage.get("input_tokens"))
            outgoing = integer(usage.get("output_tokens"))
            if incoming is not None:
                run.input_tokens = (run.input_tokens or 0) + incoming
            if outgoing is not None:
                run.output_tokens = (run.output_tokens or 0) + outgoing
            cost = amount(usage.get("total_cost"), "cost", run.warnings)
            if cost is not None:
                run.cost_usd = (run.cost_usd or 0.0) + cost


def _take_events(run: Run, sample: dict[str, Any]) -> None:
    """Times of calls, out of the transcript's tool events."""
    by_id: dict[str, list[Call]] = {}
    for call in run.calls:
        if call.call_id is not None:
            by_id.setdefault(call.call_id, []).append(call)
    for _, event in dicts(sample.get("events")):
        if event.get("event") != "tool" or event.get("pending"):
            continue
        calls = by_id.get(str(event.get("id")))
        if not calls:
            continue
        call = calls.pop(0)
        start, end = instant(event.get("timestamp")), instant(event.get("completed"))
        call.started_at = start.at if start is not None else None
        call.ended_at = end.at if end is not None else None
        call.duration_seconds = _elapsed(start, end)


def _elapsed(start: Instant | None, end: Instant | None) -> float | None:
    if start is None or end is None or end.nanoseconds < start.nanoseconds:
        return None
    return (end.nanoseconds - start.nanoseconds) / 1e9
