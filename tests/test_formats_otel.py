"""OpenTelemetry GenAI: every era of attributes, one call seen several times, outcomes, order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats import read_value
from toolscore_pipeline.model import MISSING, Call, Run

START = 1_790_978_944_000_000_000


def span(number: int, name: str = "t", **attributes: Any) -> dict[str, Any]:
    """A span from second ``number`` on, for half a second; double underscores are dots."""
    fields = {key: attributes.pop(key) for key in ("parent", "status", "kind", "events", "trace")
              if key in attributes}  # fmt: skip
    return {
        "trace_id": fields.get("trace", "1" * 32),
        "span_id": f"{number:016x}",
        "parent_span_id": f"{fields['parent']:016x}" if "parent" in fields else None,
        "name": name,
        "kind": fields.get("kind", "INTERNAL"),
        "start_time": START + number * 10**9,
        "end_time": START + number * 10**9 + 5 * 10**8,
        "status": fields.get("status", {}),
        "events": fields.get("events", []),
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
    }


def tool(number: int, name: str = "t", key: str | None = None, **more: Any) -> dict[str, Any]:
    extra = {"gen_ai__tool__call__id": key} if key else {}
    return span(number, gen_ai__operation__name="execute_tool", gen_ai__tool__name=name,
                **extra, **more)  # fmt: skip


def model(number: int, inputs: Any = None, outputs: Any = None, **more: Any) -> dict[str, Any]:
    if inputs is not None:
        more["gen_ai__input__messages"] = json.dumps(inputs)
    if outputs is not None:
        more["gen_ai__output__messages"] = json.dumps(outputs)
    return span(number, gen_ai__operation__name="chat", gen_ai__request__model="m", **more)


def asks(*calls: tuple[str | None, str]) -> list[dict[str, Any]]:
    parts: list[Any] = [
        {"type": "tool_call", "id": key, "name": name, "arguments": {}} for key, name in calls
    ]
    return [{"role": "assistant", "parts": parts}]


def says(text: str, role: str = "assistant") -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]}]


def one(value: Any) -> Run:
    [run] = read_value(value)
    return run


def only(value: Any) -> Call:
    [call] = one(value).calls
    return call


# --- outcomes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "failed", "error"),
    [
        ({"error__type": "timeout"}, True, "timeout"),
        ({"status": {"code": 2, "message": "boom"}}, True, "boom"),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, True, "the span's status"),
        ({"status": {"status_code": "ERROR"}}, True, "the span's status"),
        ({"status": {"code": 1}}, False, None),
        ({"gen_ai__tool__call__result": "x"}, False, None),
        ({}, None, None),
    ],
)
def test_error_type_or_an_error_status_fails_and_an_unset_status_is_unknown(
    changes: dict[str, Any], failed: bool | None, error: str | None
) -> None:
    call = only([tool(1, **changes)])
    assert (call.is_failed, call.error) == (failed, error)
    assert call.outcome_basis == (None if failed is None else "explicit")


def test_the_exception_event_says_what_went_wrong() -> None:
    event = {"name": "exception", "attributes": {"exception.message": "no such order"}}
    call = only([tool(1, error__type="ValueError", events=[event])])
    assert call.error == "no such order"


# --- arguments and results ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": {"q": 1}},
        {"gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": '{"q": 1}'},
        {"gen_ai.tool.name": "t", "tool_arguments": '{"q": 1}', "tool_response": "x"},
        {"gen_ai.tool.name": "t", "gen_ai.tool.input": '{"q": 1}'},
        {"ai.toolCall.name": "t", "ai.toolCall.args": '{"q": 1}'},
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "t",
         "traceloop.entity.input": '{"q": 1}'},
        {"openinference.span.kind": "TOOL", "tool.name": "t", "input.value": '{"q": 1}',
         "tool.parameters": '{"type": "object"}'},
        {"openinference.span.kind": "TOOL", "tool.name": "t", "tool.parameters": '{"q": 1}'},
    ],
)  # fmt: skip
def test_arguments_are_found_under_every_name_in_the_wild(attributes: dict[str, Any]) -> None:
    call = only([{"trace_id": "a", "span_id": "b", "name": "n", "attributes": attributes}])
    assert (call.tool, call.args) == ("t", {"q": 1})


def test_any_values_of_otlp_are_read() -> None:
    def value(kind: str, inner: Any) -> dict[str, Any]:
        return {kind: inner}

    args = value("kvlistValue", {"values": [
        {"key": "i", "value": value("intValue", "9007199254740993")},
        {"key": "d", "value": value("doubleValue", 1.5)},
        {"key": "b", "value": value("boolValue", True)},
        {"key": "l", "value": value("arrayValue", {"values": [value("stringValue", "x")]})},
        {"key": "n", "value": {}},
    ]})  # fmt: skip
    attributes = [
        {"key": "gen_ai.tool.name", "value": value("stringValue", "t")},
        {"key": "gen_ai.tool.call.arguments", "value": args},
    ]
    spans = [{"traceId": "a", "spanId": "b", "name": "x", "attributes": attributes}]
    call = only({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert call.args == {"i": 9007199254740993, "d": 1.5, "b": True, "l": ["x"], "n": None}


# --- one call seen several times ------------------------------------------------------------------


def test_a_model_span_and_a_tool_span_of_one_id_are_one_call() -> None:
    call = only([model(1, outputs=asks(("c", "t"))), tool(2, key="c", error__type="x")])
    assert (call.call_id, call.args, call.args_status, call.is_failed) == ("c", {}, "ok", True)
    assert call.warnings == []


def test_without_a_shared_id_requests_and_spans_join_in_order_with_a_warning() -> None:
    run = one([model(1, outputs=asks(("c1", "t"), ("c2", "t"))), tool(2), tool(3)])
    assert [(call.call_id, call.duration_seconds) for call in run.calls] == [
        ("c1", 0.5),
        ("c2", 0.5),
    ]
    assert all("by order" in call.warnings[0] for call in run.calls)


def test_two_equal_calls_with_their_own_ids_are_two_calls() -> None:
    run = one([model(1, outputs=asks(("c1", "t"), ("c2", "t")))])
    assert [call.call_id for call in run.calls] == ["c1", "c2"]


def test_client_and_server_spans_of_one_request_are_one_call() -> None:
    def mcp(number: int, kind: str, session: str = "s", **more: Any) -> dict[str, Any]:
        return span(
            number, mcp__method__name="tools/call", gen_ai__tool__name="t",
            jsonrpc__request__id="7", mcp__session__id=session, kind=kind, **more,
        )  # fmt: skip

    call = only([mcp(1, "CLIENT"), mcp(2, "SERVER", gen_ai__tool__call__result="x")])
    assert (call.call_id, call.executor, call.result) == ("7", "mcp", "x")
    assert len(one([mcp(1, "CLIENT"), mcp(2, "SERVER", session="other")]).calls) == 2
    listing = span(3, mcp__method__name="tools/list", jsonrpc__request__id="8")
    assert len(one([mcp(1, "CLIENT"), listing]).calls) == 1


def test_a_tool_span_inside_one_of_the_same_tool_is_that_call_and_of_another_is_not() -> None:
    inner = span(2, mcp__method__name="tools/call", gen_ai__tool__name="t", parent=1)
    assert only([tool(1, key="c"), inner]).executor == "mcp"
    run = one([tool(1, name="agent", key="c"), tool(2, name="t", key="d", parent=1)])
    assert [call.tool for call in run.calls] == ["agent", "t"]


def test_a_span_exported_twice_changes_nothing_and_a_different_copy_is_reported() -> None:
    assert one([tool(1, key="c"), tool(1, key="c")]).calls == one([tool(1, key="c")]).calls
    run = one([tool(1, key="c"), tool(1, key="c", error__type="x")])
    assert [call.is_failed for call in run.calls] == [None]
    assert "stands twice" in run.warnings[0]


def test_history_repeated_in_later_inputs_is_not_counted_again() -> None:
    user = says("go", "user")
    answer = [{"role": "tool", "parts": [
        {"type": "tool_call_response", "id": "c", "response": {"n": 1}}]}]  # fmt: skip
    history = user + asks(("c", "t")) + answer
    run = one(
        [
            model(1, user, asks(("c", "t"))),
            model(2, history, asks(("d", "t"))),
            model(3, history + asks(("d", "t")), says("done")),
        ]
    )
    assert [(call.call_id, call.result) for call in run.calls] == [("c", {"n": 1}), ("d", MISSING)]
    assert (run.prompt, run.final_answer) == ("go", "done")
    assert run.calls[0].outcome_basis == "result_only"


def test_results_without_ids_pair_in_order_and_are_left_alone_when_counts_differ() -> None:
    def answers(*results: str) -> list[dict[str, Any]]:
        return [{"role": "tool", "parts": [{"type": "tool_call_response", "response": result}]}
                for result in results]  # fmt: skip

    first, second = asks((None, "t")), asks((None, "t"))
    spans = [
        model(1, None, first),
        model(2, first + answers("1"), second),
        model(3, first + answers("1") + second + answers("2"), says("done", "assistant")),
    ]
    run = one(spans)
    assert [(call.result, call.pairing) for call in run.calls] == [
        ("1", "inferred"),
        ("2", "inferred"),
    ]
    run = one(spans[:2])
    assert [call.result for call in run.calls] == [MISSING, MISSING]
    assert "1 result(s) without an id face 2 open call(s)" in run.warnings[0]


def test_spans_of_one_call_that_disagree_are_reported() -> None:
    call = only([tool(1, key="a", error__type="timeout"),
                 tool(2, key="a", gen_ai__tool__call__result="ok")])  # fmt: skip
    assert call.is_failed is True
    assert "its outcome differs" in call.warnings[0]


def test_inputs_alone_still_tell_of_calls() -> None:
    answer = [{"role": "tool", "parts": [
        {"type": "tool_call_response", "id": "c", "response": "x"}]}]  # fmt: skip
    assert only([model(1, asks(("c", "t")) + answer)]).result == "x"


def test_server_tool_calls_are_the_providers() -> None:
    parts = [
        {"type": "server_tool_call", "id": "s", "name": "web_search",
         "server_tool_call": {"type": "web_search", "query": "a"}},
        {"type": "server_tool_call_response", "id": "s",
         "server_tool_call_response": {"type": "web_search", "hits": 2}},
    ]  # fmt: skip
    call = only([model(1, outputs=[{"role": "assistant", "parts": parts}])])
    assert (call.tool, call.args, call.executor) == ("web_search", {"query": "a"}, "provider")
    assert call.result == {"type": "web_search", "hits": 2}


# --- order, time, runs ----------------------------------------------------------------------------


def test_calls_are_in_order_of_their_start_to_the_nanosecond() -> None:
    first, second = tool(1, name="late"), tool(2, name="early")
    first["start_time"], second["start_time"] = START + 2, START + 1
    assert [call.tool for call in one([first, second]).calls] == ["early", "late"]
    second["start_time"] = START + 2
    assert [call.tool for call in one([first, second]).calls] == ["late", "early"]


def test_durations_are_exact_and_a_time_without_a_zone_is_flagged() -> None:
    spans = [
        {
            **tool(1),
            "start_time": "2026-10-02T09:00:00.000000001",
            "end_time": "2026-10-02T09:00:00.1",
        }
    ]
    call = only(spans)
    assert call.duration_seconds == pytest.approx(0.099999999, abs=1e-15)
    assert "without a zone" in call.warnings[0]


def test_each_trace_is_a_run_and_traces_without_genai_are_left_out() -> None:
    runs = read_value(
        [tool(1, trace="a" * 32), tool(2, trace="b" * 32), span(3, trace="c" * 32, http__route="/")]
    )
    assert [run.locator for run in runs] == ["trace " + "a" * 32, "trace " + "b" * 32]


def test_the_answer_before_a_later_call_is_no_final_answer() -> None:
    assert one([model(1, outputs=says("wait")), tool(2)]).final_answer is None
    assert one([tool(1), model(2, outputs=says("done"))]).final_answer == "done"


def test_only_model_spans_count_tokens() -> None:
    usage: dict[str, Any] = {"gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 5}
    agent = span(1, gen_ai__operation__name="invoke_agent", **usage)
    run = one([agent, model(2, **usage), model(3, gen_ai__usage__prompt_tokens="7")])
    assert (run.input_tokens, run.output_tokens, run.model) == (17, 5, "m")


def test_a_root_span_in_error_is_a_run_in_error_and_a_tools_error_is_not() -> None:
    bad = {"code": 2, "message": "out of memory"}
    root = span(1, gen_ai__operation__name="invoke_agent", status=bad)
    assert (one([root, tool(2, parent=1)]).status, one([root]).error) == ("error", "out of memory")
    assert one([tool(1, status=bad)]).status is None


def test_a_file_without_spans_is_refused() -> None:
    with pytest.raises(InputError, match="no spans"):
        read_value({"resourceSpans": []})
