"""OpenTelemetry GenAI: spans and log events, as OTLP JSON or plain mappings.

One run a trace. A call is found in a tool's span, in a model span's messages, or in both; the key
is the call's id within the trace, and where one side has none, its place among the calls of the
same tool.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    ABSENT_ARGUMENTS,
    NAIVE_WARNING,
    Arguments,
    Detection,
    Instant,
    Names,
    add_usage,
    dicts,
    first_of,
    id_text,
    instant,
    integer,
    is_error_value,
    new_call,
    one_text,
    read_arguments,
    reads_like_failure,
    text_of,
)
from toolscore_pipeline.jsonio import strict_loads
from toolscore_pipeline.model import MISSING, Call, Executor, Run

NAME = "otel"

_SPAN_KEYS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_ARGUMENT_KEYS = (
    "gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "gen_ai.tool.input", "tool_arguments",
    "ai.toolCall.args", "ai.toolCall.input", "traceloop.entity.input", "mcp.request.argument",
)  # fmt: skip
_RESULT_KEYS = (
    "gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.output", "tool_response",
    "ai.toolCall.result", "ai.toolCall.output", "traceloop.entity.output", "output.value",
)  # fmt: skip
_NAME_KEYS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_ID_KEYS = ("gen_ai.tool.call.id", "tool.id", "ai.toolCall.id", "tool_call.id")
_MODEL_OPERATIONS = Names({"chat", "text_completion", "generate_content", "completion"})
_AGENT_OPERATIONS = Names({"invoke_agent", "create_agent", "invoke_workflow"})
_GENAI_PREFIXES = (
    "gen_ai.", "mcp.", "openinference.", "llm.", "traceloop.", "ai.toolCall.", "tool.",
)  # fmt: skip


def detect(value: Any) -> Detection | None:
    """OTLP JSON, lists of spans, or ``{"spans": [...]}``."""
    if isinstance(value, dict):
        for key in _SPAN_KEYS:
            if isinstance(value.get(key), list):
                return Detection(NAME, 0.97, f"OTLP JSON with {key!r}")
        for key in ("spans", "data", "traces"):
            items = value.get(key)
            if isinstance(items, list) and items and all(_is_span(item) for item in items):
                return Detection(NAME, 0.95, f"spans under {key!r}")
        return Detection(NAME, 0.9, "a span") if _is_span(value) else None
    if isinstance(value, list) and value:
        if all(isinstance(i, dict) and any(key in i for key in _SPAN_KEYS) for i in value):
            return Detection(NAME, 0.97, "a list of OTLP exports")
        if all(_is_span(item) or _is_event(item) for item in value):
            return Detection(NAME, 0.94, "a list of spans")
    return None


def _is_span(value: Any) -> bool:
    if not isinstance(value, dict) or "role" in value:
        return False
    if any(key in value for key in _SPAN_KEYS):
        return True
    has_id = "spanId" in value or "span_id" in value
    context = value.get("context")
    has_context = isinstance(context, dict) and ("span_id" in context or "spanId" in context)
    if (has_id or has_context) and ("name" in value or "attributes" in value):
        return True
    attributes = value.get("attributes")
    if isinstance(attributes, dict):
        return any(str(key).startswith(_GENAI_PREFIXES) for key in attributes)
    return isinstance(attributes, list) and any(
        str(item.get("key")).startswith(_GENAI_PREFIXES) for _, item in dicts(attributes)
    )


def _is_event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and ("body" in value or "eventName" in value)
        and (str(_event_name(value)).startswith("gen_ai."))
    )


def _event_name(value: dict[str, Any]) -> str:
    attributes = _attributes(value.get("attributes"))
    name = first_of(value, ("eventName", "event_name"))
    return str(name or attributes.get("event.name") or value.get("name") or "")


def is_fragment(record: Any) -> bool:
    """One span, one event, or one OTLP export, alone on its line."""
    return isinstance(record, dict) and (_is_span(record) or _is_event(record))


def read(value: Any) -> list[Run]:
    """One run for each trace id, in order of first appearance."""
    traces: dict[str | None, _Trace] = {}
    for record in _records(value):
        trace = traces.setdefault(record.trace, _Trace(record.trace))
        trace.add(record)
    runs = []
    for trace in traces.values():
        run = trace.finish()
        if len(traces) > 1:
            run.locator = f"trace {trace.name}" if trace.name else "no trace id"
        runs.append(run)
    if not runs:
        raise InputError("there are no spans")
    # Traces without any GenAI span in a document that has some are other people's.
    kept = [run for run, trace in zip(runs, traces.values(), strict=True) if trace.is_genai]
    return kept or runs


# --- records --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Span:
    """One span, or one log event (``event`` is its name then)."""

    trace: str | None
    span: str | None
    parent: str | None
    name: str
    kind: str
    start: Instant | None
    end: Instant | None
    attributes: dict[str, Any]
    status: str
    message: str | None
    events: list[tuple[str, dict[str, Any], Any, str]]
    where: str
    order: int
    event: str | None = None
    body: Any = None

    @property
    def moment(self) -> int:
        """Nanoseconds to order by; untimed spans come in input order at the start."""
        return self.start.nanoseconds if self.start is not None else -1


def _records(value: Any) -> Iterator[_Span]:
    for order, (item, where, is_log) in enumerate(_find(value, "$")):
        yield _span(item, where, order, is_log=is_log)


def _find(value: Any, where: str) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Spans and log records, whatever they are wrapped in."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if not isinstance(item, (dict, list)):
                raise InputError("a span must be an object", json_path=f"{where}[{index}]")
            yield from _find(item, f"{where}[{index}]")
        return
    if not isinstance(value, dict):
        raise InputError("a span must be an object", json_path=where)
    is_wrapped = False
    for outer, middle, inner, is_log in (
        (("resourceSpans", "resource_spans"),
         ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"), ("spans",), False),
        (("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"),
         ("logRecords", "log_records"), True),
    ):  # fmt: skip
        for key in outer:
            if key not in value:
                continue
            is_wrapped = True
            for number, resource in dicts(value[key]):
                for scope_key in middle:
                    for index, scope in dicts(resource.get(scope_key)):
                        for span_key in inner:
                            place = f"{where}.{key}[{number}].{scope_key}[{index}].{span_key}"
                            for position, item in dicts(scope.get(span_key)):
                                yield item, f"{place}[{position}]", is_log
    if is_wrapped:
        return
    for key in ("spans", "data", "traces"):
        if isinstance(value.get(key), list) and "attributes" not in value:
            yield from _find(value[key], f"{where}.{key}")
            return
    yield value, where, _is_event(value)


def _any_value(value: Any) -> Any:
    """An OTLP AnyValue as a plain value; anything else as it is."""
    if not isinstance(value, dict):
        return value
    if not value:
        return None
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key in ("stringValue", "string_value", "boolValue", "bool_value"):
            return inner
        if key in ("intValue", "int_value"):
            return int(inner) if isinstance(inner, str) and re.fullmatch(r"-?\d+", inner) else inner
        if key in ("doubleValue", "double_value"):
            return inner
        if key in ("bytesValue", "bytes_value"):
            return inner
        if key in ("arrayValue", "array_value"):
            items = inner.get("values") if isinstance(inner, dict) else inner
            return [_any_value(item) for item in items] if isinstance(items, list) else []
        if key in ("kvlistValue", "kvlist_value"):
            return _attributes(inner.get("values") if isinstance(inner, dict) else inner)
    return value


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes by name, from OTLP's list or from a mapping."""
    if isinstance(value, list):
        return {
            str(item["key"]): _any_value(item.get("value"))
            for _, item in dicts(value)
            if "key" in item
        }
    if isinstance(value, dict):
        return {str(key): _any_value(item) for key, item in value.items()}
    return {}


def _hex(value: Any) -> str | None:
    """A trace or span id as lower-case hex, from hex, 0x-hex, an integer or protobuf's base64."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:x}"
    text = str(value)
    bare = text[2:] if text.lower().startswith("0x") else text
    if re.fullmatch(r"[0-9a-fA-F]+", bare) and len(bare) in (16, 32):
        return bare.lower()
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return raw.hex() if len(raw) in (8, 16) else text


_STATUS = {2: "error", "2": "error", "STATUS_CODE_ERROR": "error", "ERROR": "error",
           1: "ok", "1": "ok", "STATUS_CODE_OK": "ok", "OK": "ok"}  # fmt: skip


def _status(value: Any) -> tuple[str, str | None]:
    if isinstance(value, dict):
        code = first_of(value, ("code", "statusCode", "status_code"))
        message = first_of(value, ("message", "description"))
    else:
        code, message = value, None
    if isinstance(code, str):
        code = code.upper().removeprefix("STATUSCODE.")
    known = _STATUS.get(code, "unset") if isinstance(code, (str, int)) else "unset"
    return known, message if isinstance(message, str) and message else None


def _span(item: dict[str, Any], where: str, order: int, *, is_log: bool) -> _Span:
    context = item.get("context")
    ids = {**(context if isinstance(context, dict) else {}), **item}
    attributes = _attributes(item.get("attributes"))
    code, message = _status(item.get("status", item.get("status_code")))
    start = instant(
        first_of(
            item,
            (
                "startTimeUnixNano",
                "start_time_unix_nano",
                "startTime",
                "start_time",
                "timeUnixNano",
                "time_unix_nano",
                "timestamp",
                "observedTimeUnixNano",
            ),
        )
    )
    end = instant(first_of(item, ("endTimeUnixNano", "end_time_unix_nano", "endTime", "end_time")))
    events = []
    for index, event in dicts(item.get("events")):
        time = instant(first_of(event, ("timeUnixNano", "time_unix_nano", "timestamp", "time")))
        details = _attributes(event.get("attributes"))
        events.append((str(event.get("name", "")), details, time, f"{where}.events[{index}]"))
    return _Span(
        trace=_hex(first_of(ids, ("traceId", "trace_id"))),
        span=_hex(first_of(ids, ("spanId", "span_id"))),
        parent=_hex(first_of(item, ("parentSpanId", "parent_span_id", "parent_id", "parentId"))),
        name=str(item.get("name") or ""),
        kind=str(item.get("kind") or "").upper(),
        start=start,
        end=end,
        attributes=attributes,
        status=code,
        message=message,
        events=events,
        where=where,
        order=order,
        event=_event_name(item) if is_log else None,
        body=_any_value(item.get("body")) if is_log else None,
    )


# --- a trace --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """A call as one place shows it."""

    call: Call
    key: str | None
    moment: tuple[int, int, int]
    span: _Span | None = None


@dataclass(slots=True)
class _Answer:
    """A tool's response inside a model's messages."""

    key: str | None
    result: Any
    where: str
    name: str | None = None


@dataclass(slots=True)
class _Trace:
    name: str | None
    is_genai: bool = False
    spans: list[_Span] = field(default_factory=list)
    logs: list[_Span] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _by_id: dict[str, _Span] = field(default_factory=dict)

    def add(self, record: _Span) -> None:
        if record.event is not None:
            self.logs.append(record)
        elif record.span is not None and record.span in self._by_id:
            first = self._by_id[record.span]
            if (first.name, first.attributes, first.status, first.start, first.end) != (
                record.name, record.attributes, record.status, record.start, record.end,
            ):  # fmt: skip
                self.warnings.append(
                    f"span {record.span} stands twice with different contents; "
                    f"the first was kept, not the one at {record.where}"
                )
            return
        else:
            self.spans.append(record)
            if record.span is not None:
                self._by_id[record.span] = record
        if record.event is not None or _is_genai(record):
            self.is_genai = True

    def finish(self) -> Run:
        run = Run(format=NAME, warnings=list(self.warnings))
        spans = sorted(self.spans, key=lambda span: (span.moment, span.order))
        tools = self._tool_calls(spans)
        reader = _Messages()
        for span in spans:
            if not _is_tool(span):
                reader.span(span)
        for log in sorted(self.logs, key=lambda log: (log.moment, log.order)):
            reader.log(log)
        seen = self._join(tools, reader, bool(tools), run)
        seen.sort(key=lambda entry: entry.moment)
        run.calls = [entry.call for entry in seen]
        self._answers(seen, reader, run)
        for call in run.calls:
            if call.is_failed is False and call.result is not MISSING:
                call.is_soft_error_suspected = reads_like_failure(call.result)
        last = max((entry.moment[0] for entry in seen), default=-1)
        if reader.answer is not None and reader.answer[0] >= last:
            run.final_answer = reader.answer[1]
        run.prompt = reader.prompt
        self._about(run, spans)
        return run

    # --- tool spans -------------------------------------------------------------------------------

    def _tool_calls(self, spans: list[_Span]) -> list[_Seen]:
        found: list[_Seen] = []
        by_span: dict[str, _Seen] = {}
        by_request: dict[tuple[Any, ...], _Seen] = {}
        by_call: dict[str, _Seen] = {}
        # A client's span ends after the server's inside it, but begins before: parents come first.
        for span in spans:
            if not _is_tool(span):
                continue
            call, key = _tool_call(span)
            known = self._outer(span, call, key, by_span)
            request = _request_key(span, call)
            if known is None and request is not None and request in by_request:
                other = by_request[request]
                if other.span is not None and other.span.kind != span.kind:
                    known = other
            if known is None and key is not None:
                known = by_call.get(key)
            if known is not None:
                _merge_tool(known.call, call)
                known.key = known.key or key
            else:
                known = _Seen(call, key, (span.moment, 1, span.order), span)
                found.append(known)
            if span.span is not None:
                by_span[span.span] = known
            if request is not None:
                by_request.setdefault(request, known)
            if known.key is not None:
                by_call.setdefault(known.key, known)
        return found

    def _outer(
        self, span: _Span, call: Call, key: str | None, by_span: dict[str, _Seen]
    ) -> _Seen | None:
        """The call of an enclosing tool span of the same tool: client and server see one call."""
        parent, steps = span.parent, 0
        while parent is not None and steps < 1000:
            outer = by_span.get(parent)
            if outer is not None:
                is_same = outer.call.tool == call.tool and (
                    key is None or outer.key is None or key == outer.key
                )
                return outer if is_same else None
            above = self._by_id.get(parent)
            parent, steps = above.parent if above is not None else None, steps + 1
        return None

    # --- tool spans and messages together ---------------------------------------------------------

    def _join(
        self, tools: list[_Seen], reader: _Messages, has_tools: bool, run: Run
    ) -> list[_Seen]:
        asked = reader.asked
        if not asked and not has_tools:
            asked = reader.history
        by_key = {entry.key: entry for entry in tools if entry.key is not None}
        rest: list[_Seen] = []
        matched: set[int] = set()
        for entry in asked:
            known = by_key.get(entry.key) if entry.key is not None else None
            if known is None:
                rest.append(entry)
                continue
            matched.add(id(known))
            _merge_request(known.call, entry.call)
        seen = list(tools)
        names = dict.fromkeys(entry.call.tool for entry in rest)
        for name in names:
            requests = [entry for entry in rest if entry.call.tool == name]
            free = [
                entry for entry in tools
                if id(entry) not in matched and entry.call.tool == name
                and (entry.key is None or all(request.key is None for request in requests))
            ]  # fmt: skip
            if free and len(free) != len(requests):
                run.warnings.append(
                    f"{len(requests)} request(s) for {name!r} face {len(free)} span(s) without a "
                    "shared id; they were joined in order"
                )
            for request, entry in zip(requests, free, strict=False):
                _merge_request(entry.call, request.call)
                entry.key = entry.key or request.key
                entry.call.warnings.append("its request was found by order, not by id")
            seen.extend(requests[len(free) :])
        return seen

    def _answers(self, seen: list[_Seen], reader: _Messages, run: Run) -> None:
        """Responses inside messages, for calls whose own span has none."""
        by_key: dict[str, list[Call]] = {}
        for entry in seen:
            if entry.key is not None:
                by_key.setdefault(entry.key, []).append(entry.call)
        nameless: list[_Answer] = []
        for answer in [*reader.repeated_answers, *reader.answers]:
            if answer.key is None:
                nameless.append(answer)
                continue
            for call in by_key.get(answer.key, [])[:1]:
                if call.result is MISSING and call.is_failed is not True:
                    _apply_answer(call, answer, "id")
        for name in dict.fromkeys(answer.name for answer in nameless):
            answers = [answer for answer in nameless if answer.name == name]
            waiting = [
                entry.call for entry in seen
                if entry.key is None and entry.call.result is MISSING and not entry.call.is_failed
                and name in (None, entry.call.tool)
            ]  # fmt: skip
            if len(waiting) == len(answers):
                for call, answer in zip(waiting, answers, strict=True):
                    _apply_answer(call, answer, "inferred")
            elif waiting:
                what = f"for {name!r} " if name is not None else ""
                run.warnings.append(
                    f"{len(answers)} result(s) {what}without an id face {len(waiting)} open "
                    "call(s); they were left unpaired"
                )

    # --- the run itself ---------------------------------------------------------------------------

    def _about(self, run: Run, spans: list[_Span]) -> None:
        starts = [span.start for span in spans if span.start is not None]
        ends = [span.end for span in spans if span.end is not None]
        if starts:
            run.started_at = min(starts, key=lambda point: point.nanoseconds).at
        if ends:
            run.ended_at = max(ends, key=lambda point: point.nanoseconds).at
        if starts and ends:
            first = min(point.nanoseconds for point in starts)
            last = max(point.nanoseconds for point in ends)
            run.duration_seconds = (last - first) / 1e9 if last >= first else None
        if any(point.is_naive for point in [*starts, *ends]):
            run.warnings.append(NAIVE_WARNING)
        models = [span for span in spans if _operation(span) in _MODEL_OPERATIONS]
        counted = models or [span for span in spans if not _is_tool(span)]
        for span in counted:
            values = span.attributes
            model = first_of(
                values,
                (
                    "gen_ai.response.model",
                    "gen_ai.request.model",
                    "llm.model_name",
                    "llm.request.model",
                    "ai.model.id",
                ),
            )
            run.model = run.model or id_text(model)
            add_usage(run, _usage(values))
        roots = [span for span in spans if span.parent not in self._by_id]
        if len(roots) == 1 and roots[0].status == "error" and not _is_tool(roots[0]):
            run.status = "error"
            run.error = roots[0].message or id_text(roots[0].attributes.get("error.type"))


def _is_genai(span: _Span) -> bool:
    return any(key.startswith(_GENAI_PREFIXES) for key in span.attributes) or any(
        name.startswith("gen_ai.") for name, _, _, _ in span.events
    )


def _operation(span: _Span) -> str:
    values = span.attributes
    operation = values.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return operation
    kind = str(values.get("openinference.span.kind") or values.get("traceloop.span.kind") or "")
    request = str(values.get("llm.request.type") or "")
    if kind.upper() == "LLM" or request in ("chat", "completion"):
        return "chat"
    return "invoke_agent" if kind.upper() == "AGENT" else ""


def _is_tool(span: _Span) -> bool:
    values = span.attributes
    operation = values.get("gen_ai.operation.name")
    if operation == "execute_tool":
        return True
    method = values.get("mcp.method.name", values.get("rpc.method"))
    if "mcp.method.name" in values:
        return method == "tools/call"
    kind = values.get("openinference.span.kind") or values.get("traceloop.span.kind")
    if isinstance(kind, str):
        return kind.upper() == "TOOL"
    if "ai.toolCall.name" in values:
        return True
    return operation is None and "gen_ai.tool.name" in values


def _request_key(span: _Span, call: Call) -> tuple[Any, ...] | None:
    values = span.attributes
    request = values.get("jsonrpc.request.id", values.get("mcp.request.id"))
    if request is None or "mcp.method.name" not in values:
        return None
    return (id_text(values.get("mcp.session.id")), str(request), call.tool)


def _tool_call(span: _Span) -> tuple[Call, str | None]:
    values = span.attributes
    is_mcp = "mcp.method.name" in values
    name = first_of(values, _NAME_KEYS)
    if name is None:
        name = re.sub(r"^(?:execute_tool|tools/call|running tool:?)\s+", "", span.name)
    call = new_call(name, _span_arguments(values), request_locator=span.where)
    call.executor = "mcp" if is_mcp else _executor(values.get("gen_ai.tool.type"))
    key = id_text(first_of(values, _ID_KEYS)) or None
    call.call_id = key
    if call.call_id is None and is_mcp:
        call.call_id = id_text(values.get("jsonrpc.request.id", values.get("mcp.request.id")))
    if span.start is not None:
        call.started_at = span.start.at
    if span.end is not None:
        call.ended_at = span.end.at
    if span.start is not None and span.end is not None:
        elapsed = (span.end.nanoseconds - span.start.nanoseconds) / 1e9
        call.duration_seconds = elapsed if elapsed >= 0 else None
    if (span.start is not None and span.start.is_naive) or (
        span.end is not None and span.end.is_naive
    ):
        call.warnings.append(NAIVE_WARNING)
    result = next((values[key] for key in _RESULT_KEYS if key in values), MISSING)
    if result is not MISSING and result is not None:
        call.result = _decoded(result)
    _outcome(call, span)
    return call, key


def _executor(kind: Any) -> Executor | None:
    if kind == "function":
        return "client"
    return "provider" if kind in ("extension", "datastore") else None


def _span_arguments(values: dict[str, Any]) -> Arguments:
    for key in _ARGUMENT_KEYS:
        if key in values:
            return read_arguments(values[key], absent=ABSENT_ARGUMENTS)
    if values.get("input.value") is not None:
        arguments = read_arguments(values["input.value"])
        if arguments.status in ("ok", "empty") or "tool.parameters" not in values:
            return arguments
    if "tool.parameters" in values:
        return read_arguments(values["tool.parameters"], absent=ABSENT_ARGUMENTS)
    parts = {
        key.removeprefix("mcp.request.argument."): value
        for key, value in values.items()
        if key.startswith("mcp.request.argument.")
    }
    return Arguments(parts, "ok") if parts else ABSENT_ARGUMENTS


def _outcome(call: Call, span: _Span) -> None:
    kind = span.attributes.get("error.type")
    if is_error_value(kind) or span.status == "error":
        call.is_failed, call.outcome_basis = True, "explicit"
        call.error = span.message or _exception(span) or id_text(kind) or "the span's status"
        if kind == "tool_error":
            call.is_error = True
    elif call.result is not MISSING or span.status == "ok":
        call.is_failed, call.outcome_basis = False, "explicit"
    if call.is_failed is not None or call.result is not MISSING:
        call.pairing, call.completion_locator = "embedded", span.where


def _exception(span: _Span) -> str | None:
    for name, details, _, _ in span.events:
        if name == "exception":
            return id_text(first_of(details, ("exception.message", "exception.type")))
    return None


def _decoded(value: Any) -> Any:
    """A result that is JSON text of an object or a list as that value; any other as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            decoded, _ = strict_loads(value)
        except InputError:
            return value
        return one_text(decoded)
    return value


def _merge_tool(first: Call, second: Call) -> None:
    """Two spans of one call: what the first does not say, the second may."""
    _merge_request(first, second)
    if None not in (first.is_failed, second.is_failed) and first.is_failed != second.is_failed:
        first.warnings.append(
            f"its outcome differs at {second.request_locator}; it counts as failed"
        )
    if first.result is MISSING and second.result is not MISSING:
        first.result, first.completion_locator = second.result, second.completion_locator
        first.pairing = second.pairing
    is_news = second.is_failed is not None and first.is_failed is not True
    if is_news and (first.is_failed is None or second.is_failed):
        first.is_failed, first.outcome_basis = second.is_failed, second.outcome_basis
        first.pairing = second.pairing
        first.completion_locator = first.completion_locator or second.completion_locator
    first.error = first.error if first.error is not None else second.error
    first.is_error = first.is_error if first.is_error is not None else second.is_error
    first.duration_seconds = first.duration_seconds or second.duration_seconds
    if second.executor == "mcp":
        first.executor = "mcp"


def _merge_request(first: Call, second: Call) -> None:
    """The request as another place shows it: its id, and arguments the first place left out."""
    first.call_id = first.call_id or second.call_id
    if first.args_status == "absent" and second.args_status != "absent":
        first.args, first.args_status = second.args, second.args_status
        first.args_raw = second.args_raw
        first.warnings.extend(w for w in second.warnings if w not in first.warnings)
    elif second.args_status != "absent" and first.args != second.args:
        first.warnings.append(
            f"its arguments differ at {second.request_locator}; the first were kept"
        )
    first.executor = first.executor or second.executor


def _apply_answer(call: Call, answer: _Answer, pairing: Any) -> None:
    call.result = answer.result
    call.pairing, call.completion_locator = pairing, answer.where
    if call.is_failed is None:
        call.is_failed, call.outcome_basis = False, "result_only"


def _usage(values: dict[str, Any]) -> dict[str, Any]:
    usage: dict[str, Any] = {}
    for key, value in values.items():
        if key.startswith("gen_ai.usage."):
            usage[key.removeprefix("gen_ai.usage.")] = value
        elif key.startswith("llm.token_count."):
            name = key.removeprefix("llm.token_count.")
            usage[{"prompt": "input_tokens", "completion": "output_tokens"}.get(name, name)] = value
    renamed = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    counts = {renamed.get(key, key): value for key, value in usage.items()}
    return {
        key: number if (number := integer(value)) is not None else value
        for key, value in counts.items()
    }


# --- messages -------------------------------------------------------------------------------------


class _Messages:
    """What model spans and log events say of messages."""

    def __init__(self) -> None:
        self.asked: list[_Seen] = []
        self.history: list[_Seen] = []
        self.answers: list[_Answer] = []
        # Those without an id, which each later request repeats: of the longest request.
        self.repeated_answers: list[_Answer] = []
        self.answer: tuple[int, str] | None = None
        self.prompt: str | None = None
        self._keys: set[str] = set()
        self._history_keys: set[str] = set()
        self._nameless_inputs = 0

    def span(self, span: _Span) -> None:
        """The messages of one span, whatever era its attributes are of."""
        values = span.attributes
        for inputs, outputs in self._sides(span):
            nameless: list[_Seen] = []
            answers: list[_Answer] = []
            for message, place in inputs:
                self._input(message, place, span, nameless, answers)
            if len(answers) > len(self.repeated_answers):
                self.repeated_answers = answers
            if len(nameless) > self._nameless_inputs:
                # Each later request repeats the earlier ones: the longest holds them all.
                self.history = [e for e in self.history if e.key is not None] + nameless
                self._nameless_inputs = len(nameless)
            self._output(outputs, span)
        if (
            "output.value" in values
            and _operation(span) in _AGENT_OPERATIONS
            and not any(key.startswith("llm.output_messages") for key in values)
        ):
            text = values["output.value"]
            if isinstance(text, str) and not text.lstrip().startswith(("{", "[")):
                self._say(span, text)
        for name, details, _, place in span.events:
            self._event(name, details, details, span, place)

    def log(self, log: _Span) -> None:
        """One log event."""
        body = log.body if isinstance(log.body, dict) else {}
        self._event(str(log.event), body, log.attributes, log, log.where)

    def _sides(
        self, span: _Span
    ) -> Iterator[tuple[list[tuple[dict[str, Any], str]], list[tuple[dict[str, Any], str]]]]:
        values, where = span.attributes, f"{span.where}.attributes"
        yield (
            _listed(values.get("gen_ai.input.messages"), f"{where}.gen_ai.input.messages"),
            _listed(values.get("gen_ai.output.messages"), f"{where}.gen_ai.output.messages"),
        )
        yield (
            _indexed(values, "gen_ai.prompt", where),
            _indexed(values, "gen_ai.completion", where),
        )
        yield (
            _indexed(values, "llm.input_messages", where),
            _indexed(values, "llm.output_messages", where),
        )
        yield (
            _listed(values.get("gen_ai.prompt"), f"{where}.gen_ai.prompt"),
            _listed(values.get("gen_ai.completion"), f"{where}.gen_ai.completion"),
        )

    def _event(
        self, name: str, details: dict[str, Any], attributes: dict[str, Any], span: _Span,
        where: str,
    ) -> None:  # fmt: skip
        if name == "gen_ai.content.prompt":
            for message, place in _listed(attributes.get("gen_ai.prompt"), where):
                self._input(message, place, span, [], self.answers)
        elif name == "gen_ai.content.completion":
            self._output(_listed(attributes.get("gen_ai.completion"), where), span)
        elif name == "gen_ai.choice":
            message = _structured(details.get("message"))
            whole = message if isinstance(message, dict) else details
            self._output([({"role": "assistant", **_body(whole)}, where)], span)
        elif name in ("gen_ai.client.inference.operation.details",):
            both = {**attributes, **details}
            for message, place in _listed(both.get("gen_ai.input.messages"), where):
                self._input(message, place, span, [], self.answers)
            self._output(_listed(both.get("gen_ai.output.messages"), where), span)
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            self._input({"role": role, **_body(details)}, where, span, [], self.answers)

    # --- one message ------------------------------------------------------------------------------

    def _input(
        self,
        message: dict[str, Any],
        where: str,
        span: _Span,
        nameless: list[_Seen],
        answers: list[_Answer],
    ) -> None:
        role = message.get("role")
        if role == "user" and self.prompt is None:
            self.prompt = _message_text(message)
        for call, key in _requests(message, where):
            entry = _Seen(call, key, (span.moment, 0, span.order))
            if key is None:
                nameless.append(entry)
            elif key not in self._history_keys:
                self._history_keys.add(key)
                self.history.append(entry)
        for answer in _responses(message, where):
            if answer.key is None:
                answers.append(answer)
            elif not any(known.key == answer.key for known in self.answers):
                self.answers.append(answer)

    def _output(self, messages: list[tuple[dict[str, Any], str]], span: _Span) -> None:
        for message, where in messages:
            moment = span.end.nanoseconds if span.end is not None else span.moment
            has_calls = False
            for call, key in _requests(message, where):
                has_calls = True
                if key is not None and key in self._keys:
                    continue
                if key is not None:
                    self._keys.add(key)
                self.asked.append(_Seen(call, key, (moment, 0, span.order)))
            for answer in _responses(message, where):
                self.answers.append(answer)
            text = _message_text(message, after_calls=True)
            if has_calls and not text:
                self.answer = None
            elif text and message.get("role") in (None, "assistant", "model", "ai"):
                self._say(span, text)

    def _say(self, span: _Span, text: str) -> None:
        moment = span.end.nanoseconds if span.end is not None else span.moment
        if self.answer is None or moment >= self.answer[0]:
            self.answer = (moment, text)


def _structured(value: Any) -> Any:
    """A value that may be JSON text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return strict_loads(value)[0]
        except InputError:
            return value
    return value


def _body(value: dict[str, Any]) -> dict[str, Any]:
    return {key: _structured(item) if key == "tool_calls" else item for key, item in value.items()}


def _listed(value: Any, where: str) -> list[tuple[dict[str, Any], str]]:
    """Messages from a list, or from its JSON text; a bare text is one message."""
    value = _structured(value)
    if isinstance(value, str):
        return [({"role": None, "content": value}, where)]
    if isinstance(value, dict):
        value = value.get("messages", [value])
    return [(item, f"{where}[{index}]") for index, item in dicts(value)]


def _indexed(values: dict[str, Any], prefix: str, where: str) -> list[tuple[dict[str, Any], str]]:
    """Messages from attributes such as ``gen_ai.completion.0.tool_calls.0.name``."""
    tree: dict[int, dict[str, Any]] = {}
    for key, value in values.items():
        match = re.match(rf"{re.escape(prefix)}\.(\d+)\.(.+)", key)
        if match is None:
            continue
        message = tree.setdefault(int(match.group(1)), {})
        path = match.group(2).removeprefix("message.")
        call = re.match(r"tool_calls\.(\d+)\.(?:tool_call\.)?(.+)", path)
        content = re.match(r"contents\.(\d+)\.message_content\.(.+)", path)
        if call is not None:
            calls = message.setdefault("tool_calls", {})
            item = calls.setdefault(int(call.group(1)), {})
            item[call.group(2).removeprefix("function.")] = value
        elif content is not None:
            parts = message.setdefault("contents", {})
            parts.setdefault(int(content.group(1)), {})[content.group(2)] = value
        else:
            message[path] = value
    found = []
    for index in sorted(tree):
        message = tree[index]
        if isinstance(message.get("tool_calls"), dict):
            calls = message["tool_calls"]
            message["tool_calls"] = [calls[number] for number in sorted(calls)]
        if isinstance(message.get("contents"), dict):
            parts = message.pop("contents")
            message.setdefault("content", [parts[number] for number in sorted(parts)])
        found.append((message, f"{where}.{prefix}.{index}"))
    return found


def _requests(message: dict[str, Any], where: str) -> Iterator[tuple[Call, str | None]]:
    """The calls that a message asks for."""
    for index, part in dicts(message.get("parts")):
        kind = part.get("type")
        place = f"{where}.parts[{index}]"
        if kind == "tool_call":
            raw = part["arguments"] if "arguments" in part else part.get("args")
            arguments = read_arguments(raw, absent=ABSENT_ARGUMENTS)
            call = new_call(part.get("name"), arguments, request_locator=place, executor="client")
        elif kind == "server_tool_call":
            details = part.get("server_tool_call")
            details = details if isinstance(details, dict) else {}
            name = part.get("name") or details.get("type")
            raw = first_of(details, ("arguments", "action", "input"))
            if raw is None:
                raw = {key: item for key, item in details.items() if key != "type"} or None
            arguments = read_arguments(raw, absent=ABSENT_ARGUMENTS)
            call = new_call(name, arguments, request_locator=place, executor="provider")
        else:
            continue
        key = id_text(part.get("id")) or None
        call.call_id = key
        yield call, key
    items = _structured(message.get("tool_calls"))
    for index, item in dicts(items):
        function = item.get("function")
        function = function if isinstance(function, dict) else item
        raw = first_of(function, ("arguments", "args", "input", "parameters"))
        arguments = read_arguments(raw, absent=ABSENT_ARGUMENTS)
        call = new_call(function.get("name"), arguments, executor="client")
        call.request_locator = f"{where}.tool_calls[{index}]"
        key = id_text(first_of(item, ("id", "tool_call_id"))) or None
        call.call_id = key
        yield call, key


def _responses(message: dict[str, Any], where: str) -> Iterator[_Answer]:
    """The tool responses in a message."""
    for index, part in dicts(message.get("parts")):
        place = f"{where}.parts[{index}]"
        kind = part.get("type")
        if kind == "tool_call_response":
            result = first_of(part, ("response", "result", "content"))
        elif kind == "server_tool_call_response":
            result = part.get("server_tool_call_response")
        else:
            continue
        yield _Answer(
            id_text(part.get("id")) or None, "" if result is None else _decoded(result), place,
            id_text(part.get("name")),
        )  # fmt: skip
    if message.get("role") == "tool" and "parts" not in message:
        key = first_of(message, ("tool_call_id", "id"))
        content = message.get("content")
        result = "" if content is None else one_text(content)
        yield _Answer(id_text(key) or None, result, where, id_text(message.get("name")))


def _message_text(message: dict[str, Any], *, after_calls: bool = False) -> str | None:
    """The text of a message; ``after_calls`` leaves out what stands before its last call."""
    parts = message.get("parts")
    if isinstance(parts, list):
        texts: list[str] = []
        for _, part in dicts(parts):
            kind = part.get("type")
            text = part.get("content", part.get("text"))
            if kind == "text" and isinstance(text, str):
                texts.append(text)
            elif after_calls and kind in ("tool_call", "server_tool_call"):
                texts = []
        return "".join(texts) or None
    if after_calls and _structured(message.get("tool_calls")):
        return None
    content = _structured(message.get("content"))
    if isinstance(content, list):
        return text_of(content) or None
    content = message.get("content")
    return content if isinstance(content, str) and content else None
