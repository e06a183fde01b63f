"""The rules that every reader keeps: arguments, pairing, outcomes, order, final answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.formats import NO_CALLS_WARNING, detect, formats, read_value
from toolscore_pipeline.formats._common import (
    decode_arguments,
    instant,
    integer,
    number,
    reads_like_failure,
)
from toolscore_pipeline.model import MISSING, Call, Run


def one(value: Any, format: str = "auto") -> Run:
    [run] = read_value(value, format)
    return run


def only(value: Any, format: str = "auto") -> Call:
    [call] = one(value, format).calls
    return call


def chat(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return list(messages)


def asks(*calls: tuple[str | None, str, str]) -> dict[str, Any]:
    """An assistant's message of Chat Completions with calls of (id, name, arguments)."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
            for key, name, arguments in calls
        ],
    }


def answers(key: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": content}


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "args", "status"),
    [
        ('{"a": 1}', {"a": 1}, "ok"),
        ("{}", {}, "ok"),
        ("", {}, "empty"),
        (" \n", {}, "empty"),
        ('{"a": ', {"raw": '{"a": '}, "invalid"),
        ('{"a": NaN}', {"raw": '{"a": NaN}'}, "invalid"),
        ('{"a": 1e400}', {"raw": '{"a": 1e400}'}, "invalid"),
        ("[1]", {"value": [1]}, "not_object"),
        ("null", {"value": None}, "not_object"),
        ('"text"', {"value": "text"}, "not_object"),
        ('{"n": 9007199254740993}', {"n": 9007199254740993}, "ok"),
        ('{"a": "{\\"b\\": 1}"}', {"a": '{"b": 1}'}, "ok"),
    ],
)
def test_argument_text_keeps_its_status_and_its_raw_text(
    text: str, args: dict[str, Any], status: str
) -> None:
    call = only(chat(asks(("c", "t", text))))
    assert (call.args, call.args_status, call.args_raw) == (args, status, text)


def test_arguments_encoded_twice_are_decoded_twice_and_flagged() -> None:
    arguments = decode_arguments('"{\\"a\\": 1}"')
    assert (arguments.args, arguments.status) == ({"a": 1}, "ok")
    assert arguments.warnings == ("arguments: JSON encoded twice was decoded twice",)


def test_of_a_repeated_key_in_arguments_the_last_wins_and_is_flagged() -> None:
    arguments = decode_arguments('{"a": 1, "a": 2}')
    assert arguments.args == {"a": 2}
    assert "repeats a key" in arguments.warnings[0]


def test_absent_arguments_are_empty_except_in_opentelemetry() -> None:
    legacy = {"role": "assistant", "function_call": {"name": "t"}}
    gemini = {"role": "model", "parts": [{"functionCall": {"name": "t", "args": None}}]}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}
    for value in ([legacy], [gemini], [mcp], [{"tool": "t"}]):
        call = only(value)
        assert (call.args, call.args_status) == ({}, "empty")
    span = {"span_id": "1", "name": "t", "attributes": {"gen_ai.tool.name": "t"}}
    assert (only([span]).args, only([span]).args_status) == (None, "absent")


def test_free_text_tools_have_text_arguments() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    call = only(chat({"role": "assistant", "tool_calls": [custom]}))
    assert (call.args, call.args_status) == ({"raw": "select 1"}, "text")
    item = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}
    assert only([item]).args_status == "text"
    action = {"tool": "calculator", "tool_input": "1 + 1", "log": ""}
    assert (only([action]).args, only([action]).args_status) == ({"raw": "1 + 1"}, "text")


def test_a_call_without_a_name_is_kept_with_a_warning() -> None:
    call = only(chat({"role": "assistant", "tool_calls": [{"id": "c", "function": {}}]}))
    assert call.tool == ""
    assert "names no tool" in call.warnings[0]


# --- pairing --------------------------------------------------------------------------------------


def test_results_pair_by_id_whatever_the_order() -> None:
    run = one(chat(asks(("a", "x", "{}"), ("b", "y", "{}")), answers("b", "2"), answers("a", "1")))
    assert [(call.call_id, call.result, call.pairing) for call in run.calls] == [
        ("a", "1", "id"),
        ("b", "2", "id"),
    ]


def test_a_result_before_its_call_still_answers_it() -> None:
    assert only(chat(answers("a", "1"), asks(("a", "x", "{}")))).result == "1"


def test_an_id_used_again_after_its_answer_is_a_new_call() -> None:
    run = one(
        chat(asks(("a", "x", "{}")), answers("a", "1"), asks(("a", "x", "{}")), answers("a", "2"))
    )
    assert [call.result for call in run.calls] == ["1", "2"]


def test_an_id_used_again_before_its_answer_is_the_same_call_or_a_reported_conflict() -> None:
    same = one(chat(asks(("a", "x", "{}")), asks(("a", "x", "{}")), answers("a", "1")))
    assert len(same.calls) == 1
    assert same.calls[0].warnings == []
    conflict = one(chat(asks(("a", "x", "{}")), asks(("a", "x", '{"n": 1}')), answers("a", "1")))
    assert [call.args for call in conflict.calls] == [{}]
    assert "used again before its answer" in conflict.calls[0].warnings[0]


def test_of_two_different_results_the_first_wins_with_a_warning() -> None:
    call = only(chat(asks(("a", "x", "{}")), answers("a", "1"), answers("a", "2")))
    assert call.result == "1"
    assert "second, different result" in call.warnings[0]
    again = only(chat(asks(("a", "x", "{}")), answers("a", "1"), answers("a", "1")))
    assert again.warnings == []


def test_a_result_never_becomes_a_call() -> None:
    run = one(chat(asks(("a", "x", "{}")), answers("zzz", "1")))
    assert len(run.calls) == 1
    assert run.calls[0].result is MISSING
    assert "'zzz'" in run.warnings[0]


def test_without_ids_results_pair_per_name_in_order_and_say_so() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"functionCall": {"name": name, "args": {}}}

    def back(name: str, value: int) -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {"output": value}}}

    contents: list[dict[str, Any]] = [
        {"role": "model", "parts": [call("a"), call("b"), call("a")]},
        {"role": "user", "parts": [back("b", 1), back("a", 2), back("a", 3)]},
    ]
    run = one(contents)
    assert [(c.tool, c.result, c.pairing) for c in run.calls] == [
        ("a", 2, "inferred"),
        ("b", 1, "inferred"),
        ("a", 3, "inferred"),
    ]
    contents[1]["parts"].pop()
    run = one(contents)
    assert [c.result for c in run.calls] == [MISSING, 1, MISSING]
    assert "left unpaired" in run.warnings[0]


# --- outcomes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["", None, {}, [], False])
def test_an_empty_error_is_no_error(error: Any) -> None:
    call = only([{"tool": "t", "args": {}, "result": "ok", "error": error}])
    assert call.is_failed is False


def test_a_recorded_error_or_flag_is_a_failure_and_a_bare_result_is_not() -> None:
    failed = only([{"tool": "t", "args": {}, "error": {"code": 5}}])
    flagged = only([{"tool": "t", "args": {}, "is_error": True, "result": "no"}])
    bare = only([{"tool": "t", "args": {}, "result": ""}])
    unknown = only([{"tool": "t", "args": {}, "result": None}])
    assert (failed.is_failed, failed.outcome_basis) == (True, "explicit")
    assert (flagged.is_failed, flagged.outcome_basis) == (True, "explicit")
    assert (bare.is_failed, bare.outcome_basis, bare.result) == (False, "result_only", "")
    assert (unknown.is_failed, unknown.outcome_basis, unknown.result) == (None, None, MISSING)


@pytest.mark.parametrize(
    ("text", "is_suspect"),
    [
        ("missing required parameter: city", True),
        ("Error: no such file", True),
        ("ValueError: bad", True),
        ("Traceback (most recent call last):\n ...", True),
        ("failed to open the door", True),
        ("Permission denied", True),
        ('{"error": "nope"}', True),
        ('{"success": false}', True),
        ('{"status": "error"}', True),
        ("404 Not Found", True),
        ("404: Not Found", True),
        ("404 page not found\n", True),
        ("HTTP 500", True),
        ("HTTP 503: try again later", True),
        ("HTTP/1.1 502 Bad Gateway\r\nServer: nginx", True),
        ("HTTP status code: 429", True),
        ("Status: 403 Forbidden", True),
        ("500 Internal Server Error", True),
        ("503 Service Temporarily Unavailable", True),
        ("404 Client Error: Not Found for url: https://example.test/", True),
        ("<html>\n<head><title>504 Gateway Time-out</title></head>", True),
        ("Found 404 results", False),
        ("404 results", False),
        ("404", False),
        ("room 404", False),
        ("500 items, 3 of them internal", False),
        ("403 forbidden books are in the library", False),
        ("500 internal server errors were closed this year", False),
        ("HTTP 404 pages and how to design them", False),
        ("HTTP 200", False),
        ("HTTP/1.1 200 OK", False),
        ("The status 404 Not Found is explained below", False),
        ("4040 Not Found Street", False),
        ('{"errors": []}', False),
        ('{"error": null, "rows": 3}', False),
        ("0 errors, 3 warnings", False),
        ("Compiled with no errors", False),
        ("42 passed, 0 failed", False),
        ("Errors: 0", False),
        ("The book 'Trial and Error' is in stock", False),
        ("sunny", False),
        ("", False),
    ],
)
def test_failure_text_inside_a_success_is_suspected_and_stays_a_success(
    text: str, is_suspect: bool
) -> None:
    assert reads_like_failure(text) is is_suspect
    call = only([{"tool": "t", "args": {}, "result": text, "is_error": False}])
    assert (call.is_failed, call.is_soft_error_suspected) == (False, is_suspect)


def test_objects_that_read_like_failures_are_suspected_too() -> None:
    assert reads_like_failure({"error": "boom"})
    assert reads_like_failure({"success": False})
    assert reads_like_failure({"content": [{"type": "text", "text": "Error: boom"}]})
    assert not reads_like_failure({"errors": [], "rows": 1})
    assert not reads_like_failure([1, 2])


# --- numbers and instants -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "nanoseconds", "is_naive"),
    [
        (1790978944, 1790978944 * 10**9, False),
        (1790978944.25, 179097894425 * 10**7, False),
        (1790978944025, 1790978944025 * 10**6, False),
        (1790978944025450, 1790978944025450 * 10**3, False),
        ("1790978944025450633", 1790978944025450633, False),
        ("1970-01-01T00:00:01Z", 10**9, False),
        ("1970-01-01T02:00:01.000000001+02:00", 10**9 + 1, False),
        ("1970-01-01 00:00:01.5", 1_500_000_000, True),
    ],
)
def test_instants_keep_nanoseconds_and_say_when_the_zone_is_missing(
    value: Any, nanoseconds: int, is_naive: bool
) -> None:
    point = instant(value)
    assert point is not None
    assert (point.nanoseconds, point.is_naive) == (nanoseconds, is_naive)


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01T00:00:00Z", True, None, [], 10**30])
def test_what_is_no_instant_is_none(value: Any) -> None:
    assert instant(value) is None


def test_numbers_that_are_none_stay_unknown() -> None:
    numbers: list[Any] = [1, "2.5", True, None, "x", [], 10**400]
    assert [number(item) for item in numbers] == [
        1.0, 2.5, None, None, None, None, None,
    ]  # fmt: skip
    assert [integer(item) for item in (1, "2", 3.0, 3.5, True, 2**63, "x")] == [
        1, 2, 3, None, None, None, None,
    ]  # fmt: skip


# --- final answers --------------------------------------------------------------------------------


def test_the_final_answer_is_the_text_with_no_call_after_it() -> None:
    said = {"role": "assistant", "content": "Done."}
    asked = {**asks(("a", "x", "{}")), "content": "Let me look."}
    assert one(chat(asked, answers("a", "1"), said)).final_answer == "Done."
    assert one(chat(said, asked)).final_answer is None
    assert one(chat(asked)).final_answer is None
    thanked = chat(asked, answers("a", "1"), said, {"role": "user", "content": "Thanks!"})
    assert one(thanked).final_answer == "Done."


def test_a_refusal_is_an_answer() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I cannot."}
    assert one(chat(refused)).final_answer == "I cannot."


# --- detection ------------------------------------------------------------------------------------


def test_what_stands_beside_plain_calls_is_kept() -> None:
    row = {"calls": [{"tool": "t"}], "task": "a", "model": "m", "cost_usd": 0.5, "note": "x"}
    [run] = read_value(row)
    assert (run.format, run.task, run.model, run.cost_usd) == ("plain", "a", "m", 0.5)
    assert run.attributes == {"note": "x"}


def test_a_format_says_why_it_recognises_a_value() -> None:
    [hit, *_] = detect({"calls": []})
    assert (hit.format, hit.why) == ("plain", "an object with a 'calls' list")


@pytest.mark.parametrize("value", [{}, {"foo": 1}, [1], "text", None, [{"foo": 1}]])
def test_what_no_format_recognises_is_an_error_that_names_them(value: Any) -> None:
    with pytest.raises(InputError, match=r"no trace format recognises .*--format \(anthropic, "):
        read_value(value)


def test_a_tie_is_an_error_that_names_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    module = formats()["plain"]
    monkeypatch.setitem(formats(), "twin", type("Twin", (), {
        "NAME": "twin",
        "detect": staticmethod(lambda value: module.detect(value)),
    }))  # fmt: skip
    hit = module.detect({"calls": []})
    assert hit is not None
    monkeypatch.setattr(
        formats()["twin"], "detect",
        staticmethod(lambda value: type(hit)("twin", hit.confidence, "it is a twin")),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"2 trace formats fit \(plain: .*; twin: it is a twin\)"):
        read_value({"calls": []})


def test_an_unknown_format_is_told_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'gemini'"):
        read_value([], "gemni")


def test_custom_is_another_name_of_the_plain_format() -> None:
    assert one([{"tool": "t", "args": {}}], "custom").format == "plain"


@pytest.mark.parametrize("value", [[], {"calls": []}])
def test_an_empty_list_is_a_run_without_calls_and_a_warning(value: Any) -> None:
    run = one(value)
    assert (run.calls, run.warnings) == ([], [NO_CALLS_WARNING])


def test_a_text_only_chat_is_openai_with_low_confidence() -> None:
    value = chat({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"})
    [hit, *_] = detect(value)
    assert (hit.format, hit.confidence) == ("openai", 0.3)
    run = one(value)
    assert (run.prompt, run.final_answer, run.warnings) == ("Hi", "Hello", [NO_CALLS_WARNING])


def test_nan_in_a_python_value_is_refused_with_its_path() -> None:
    with pytest.raises(InputError, match=r"at \$\[0\]\.args\.x: nan is no JSON number"):
        read_value([{"tool": "t", "args": {"x": float("nan")}}])


def test_an_sdk_object_is_read_through_its_model_dump() -> None:
    class Message:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            return {
                "type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [Block()],
            }  # fmt: skip

    class Block:
        def model_dump(self) -> dict[str, Any]:
            return {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "ada"}}

    call = only(Message())
    assert (call.tool, call.args) == ("search", {"q": "ada"})


def _chat(*calls: dict[str, Any]) -> Any:
    asked = [{"id": "", "function": {"name": "t", "arguments": json.dumps(args)}} for args in calls]
    results = [{"role": "tool", "tool_call_id": "", "content": str(n)} for n in range(len(calls))]
    return [{"role": "assistant", "tool_calls": asked}, *results]


def _otel(*calls: dict[str, Any]) -> Any:
    parts = [{"type": "tool_call", "id": "", "name": "t", "arguments": args} for args in calls]
    results = [{"type": "tool_call_response", "id": "", "response": str(n)}
               for n in range(len(calls))]  # fmt: skip
    messages = [{"role": "assistant", "parts": parts}, {"role": "tool", "parts": results}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages}
    return [{"name": "chat", "trace_id": "t", "span_id": "s", "attributes": attributes}]


def _anthropic(*calls: dict[str, Any]) -> Any:
    asked = [{"type": "tool_use", "id": "", "name": "t", "input": args} for args in calls]
    results = [{"type": "tool_result", "tool_use_id": "", "content": str(n)}
               for n in range(len(calls))]  # fmt: skip
    return [{"role": "assistant", "content": asked}, {"role": "user", "content": results}]


@pytest.mark.parametrize("written", [_chat, _otel, _anthropic])
def test_an_empty_id_is_none(written: Any) -> None:
    [run] = read_value(written({"n": 1}, {"n": 2}, {"n": 2}))
    assert [(call.args, call.result, call.pairing, call.call_id) for call in run.calls] == [
        ({"n": 1}, "0", "inferred", None),
        ({"n": 2}, "1", "inferred", None),
        ({"n": 2}, "2", "inferred", None),
    ]
    assert run.warnings == []


@pytest.mark.parametrize("asked", ["mcp", "openai", "anthropic", "gemini", "otel", "run_rows"])
def test_a_trace_in_another_format_than_asked_for_is_no_run_without_calls(asked: str) -> None:
    with pytest.raises(InputError, match=f"nothing in it reads as {asked}; it looks like plain"):
        read_value([{"tool": "t", "args": {}}], asked)


@pytest.mark.parametrize("asked", ["openai", "anthropic"])
def test_a_chat_without_calls_is_read_in_the_format_asked_for(asked: str) -> None:
    [run] = read_value([{"role": "assistant", "content": "hi"}], asked)
    assert (run.format, run.final_answer, run.warnings) == (asked, "hi", [NO_CALLS_WARNING])
    assert read_value([], asked)[0].calls == []
