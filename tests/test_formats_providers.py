"""Rules of single formats: Responses, Anthropic, Gemini, LangChain, MCP."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from toolscore_pipeline.formats import detect, is_fragment, read_value
from toolscore_pipeline.model import MISSING, Call, Run


def one(value: Any, format: str = "auto") -> Run:
    [run] = read_value(value, format)
    return run


def only(value: Any, format: str = "auto") -> Call:
    [call] = one(value, format).calls
    return call


def outcome(call: Call) -> tuple[bool | None, str | None]:
    return call.is_failed, call.outcome_basis


# --- OpenAI Chat ----------------------------------------------------------------------------------


def chunk(*pieces: dict[str, Any]) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"tool_calls": list(pieces)}}],
    }


def piece(index: int, arguments: str, key: str | None = None, name: str | None = None) -> Any:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"index": index, "function": function, **({"id": key} if key else {})}


def test_streamed_chunks_merge_by_index_and_a_new_id_begins_a_new_call() -> None:
    run = one(
        [
            chunk(piece(0, '{"a"', "c1", "x"), piece(1, "{", "c2", "y")),
            chunk(piece(1, "}"), piece(0, ": 1}")),
            chunk(piece(0, "{}", "c3", "z")),
        ]
    )
    assert [(call.call_id, call.tool, call.args) for call in run.calls] == [
        ("c1", "x", {"a": 1}),
        ("c2", "y", {}),
        ("c3", "z", {}),
    ]


def test_pieces_with_an_id_go_to_its_call_whatever_their_index() -> None:
    run = one(
        [
            chunk(piece(0, '{"a"', "c1", "x")),
            chunk(piece(0, "{", "c2", "y")),
            chunk(piece(0, ": 1}", "c1", "x")),
            chunk(piece(0, "}", "c2", "y")),
        ]
    )
    assert [(call.call_id, call.tool, call.args) for call in run.calls] == [
        ("c1", "x", {"a": 1}),
        ("c2", "y", {}),
    ]
    assert not any(call.warnings for call in run.calls)


def test_a_chunked_call_whose_arguments_never_came_has_none() -> None:
    def statuses(*chunks: dict[str, Any]) -> list[Any]:
        return [(call.args, call.args_status) for call in one(list(chunks)).calls]

    def ended(delta: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls"}
        return {"object": "chat.completion.chunk", "choices": [choice]}

    asked = chunk(piece(0, "", "c1", "x"))
    assert statuses(asked) == [(None, "absent")]
    assert statuses(asked, chunk(piece(0, "{}"))) == [({}, "ok")]
    assert statuses(asked, ended({})) == [({}, "empty")]
    assert statuses(ended(asked["choices"][0]["delta"])) == [({}, "empty")]
    legacy = {"index": 0, "delta": {"function_call": {"name": "t", "arguments": ""}}}
    assert statuses({"choices": [legacy]}) == [(None, "absent")]
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "t", "input": ""}}
    assert statuses(chunk(custom)) == [(None, "absent")]


def test_each_stream_of_chunks_is_a_response_of_its_own() -> None:
    def delta(name: str, content: str, **fields: Any) -> dict[str, Any]:
        return {"id": name, "choices": [{"index": 0, "delta": {"content": content, **fields}}]}

    asked = {"id": "r1", **chunk(piece(0, "{}", "c1", "x"))}
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    first = [delta("r1", "let me see", role="assistant"), asked, {"id": "r1", **usage}]
    second = [delta("r2", "do", role="assistant"), delta("r2", "ne"), {"id": "r2", **usage}]
    result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    for items, answer in ((first + second, MISSING), ([*first, result, *second], "1")):
        run = one(items)
        assert [(call.call_id, call.result) for call in run.calls] == [("c1", answer)]
        assert (run.final_answer, run.input_tokens) == ("done", 10)
    # An id for each chunk is no new response as long as the role is not named again.
    run = one([delta("r1", "do", role="assistant"), delta("r2", "ne")])
    assert run.final_answer == "done"


@pytest.mark.parametrize("has_ids", [True, False])
def test_requests_that_repeat_what_was_said_add_nothing(has_ids: bool) -> None:
    def asking(name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": "{}"}
        if not has_ids:
            return {"role": "assistant", "function_call": function}
        return {"role": "assistant", "tool_calls": [{"id": f"c{name}", "function": function}]}

    def answered(name: str) -> dict[str, Any]:
        if not has_ids:
            return {"role": "function", "name": name, "content": f"of {name}"}
        return {"role": "tool", "tool_call_id": f"c{name}", "content": f"of {name}"}

    go, done = {"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}
    said: list[dict[str, Any]] = [go]
    log = []
    for message, following in (
        (asking("x"), answered("x")), (asking("y"), answered("y")), (done, go),
    ):  # fmt: skip
        log.append({"messages": list(said), "choices": [{"message": {**message, "refusal": None}}]})
        said += [message, following]
    run = one(log)
    assert [(call.tool, call.result) for call in run.calls] == [("x", "of x"), ("y", "of y")]
    assert run.final_answer == "done"


def test_only_the_first_choice_of_a_conversation_is_read_and_that_is_said() -> None:
    response = {"choices": [{"message": {"role": "assistant", "content": text}} for text in "AB"]}
    run = one([response, response])
    assert (run.final_answer, run.warnings[0]) == ("A", "the first of 2 choices was read")


def test_a_choice_is_a_run_of_its_own() -> None:
    message = {"role": "assistant", "content": "A"}
    response = {"choices": [{"message": message}, {"message": {**message, "content": "B"}}]}
    runs = read_value(response)
    assert [(run.final_answer, run.locator) for run in runs] == [
        ("A", "$.choices[0]"),
        ("B", "$.choices[1]"),
    ]


def test_chat_has_no_error_flag_so_a_result_is_all_there_is() -> None:
    call = only(
        [
            {"role": "assistant", "function_call": {"name": "x", "arguments": "{}"}},
            {"role": "function", "name": "x", "content": ""},
        ]
    )
    assert outcome(call) == (False, "result_only")
    assert (call.result, call.pairing, call.is_error) == ("", "inferred", None)


# --- OpenAI Responses -----------------------------------------------------------------------------


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "i1", **fields}


@pytest.mark.parametrize(
    ("value", "tool", "args", "failed"),
    [
        (item("web_search_call", status="completed", action={"type": "search", "query": "a"}),
         "web_search", {"type": "search", "query": "a"}, False),
        (item("file_search_call", status="failed", queries=["a"]),
         "file_search", {"queries": ["a"]}, True),
        (item("code_interpreter_call", status="incomplete", code="1", outputs=None),
         "code_interpreter", {"code": "1"}, True),
        (item("code_interpreter_call", status="in_progress", code="1"),
         "code_interpreter", {"code": "1"}, None),
        (item("image_generation_call", status="completed", result="aGk="),
         "image_generation", None, False),
        (item("mcp_call", name="t", arguments="{}", output="", status="completed"),
         "t", {}, False),
        (item("mcp_call", name="t", arguments="{}", error={"type": "http_error", "code": 500}),
         "t", {}, True),
    ],
)  # fmt: skip
def test_built_in_tools_are_calls_named_by_their_type(
    value: dict[str, Any], tool: str, args: Any, failed: bool | None
) -> None:
    call = only([value])
    assert (call.tool, call.args, call.is_failed) == (tool, args, failed)
    assert call.executor == ("mcp" if value["type"] == "mcp_call" else "provider")


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ([{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}], False),
        ([{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}], True),
        ([{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}], True),
    ],
)
def test_a_shell_that_exits_otherwise_than_0_failed(result: Any, failed: bool) -> None:
    call = only(
        [
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["x"]}},
            {"type": "shell_call_output", "call_id": "s", "output": result},
        ]
    )
    assert outcome(call) == (failed, "explicit")


def test_a_local_shells_output_is_found_by_the_items_id() -> None:
    call = only(
        [
            {"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"command": ["x"]}},
            {"type": "local_shell_call_output", "id": "ls", "output": '{"exit_code": 3}'},
        ]
    )
    assert outcome(call) == (True, "explicit")


def test_an_incomplete_function_call_and_one_without_output_are_unknown() -> None:
    for status in ("incomplete", "completed"):
        call = only([item("function_call", call_id="c", name="t", arguments="{", status=status)])
        assert outcome(call) == (None, None)


def test_a_refused_approval_is_one_denied_call_and_other_approvals_are_none() -> None:
    request = {"type": "mcp_approval_request", "id": "r", "name": "drop", "arguments": "{}"}
    answer = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": False}
    later = item("function_call", call_id="c", name="t", arguments="{}")
    run = one([request, later, answer])
    assert [(call.tool, call.is_denied) for call in run.calls] == [("drop", True), ("t", False)]
    assert one([request, later, {**answer, "approve": True}]).calls[0].tool == "t"


def test_the_phase_beats_the_position_of_the_final_answer() -> None:
    def said(text: str, phase: str | None = None) -> dict[str, Any]:
        return {
            "type": "message", "role": "assistant", "phase": phase,
            "content": [{"type": "output_text", "text": text}],
        }  # fmt: skip

    call = item("function_call", call_id="c", name="t", arguments="{}")
    assert one([said("yes", "final_answer"), call, said("hm", "commentary")]).final_answer == "yes"
    assert one([call, said("a"), said("b")]).final_answer == "ab"
    assert one([said("a"), call]).final_answer is None


def test_an_input_that_repeats_earlier_items_adds_nothing() -> None:
    call = item("function_call", call_id="c", name="t", arguments="{}")
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}
    exchanges = [
        {"input": [{"role": "user", "content": "go"}], "output": [call], "object": "response"},
        {"input": [call, output], "output": [], "object": "response"},
        {"input": [call, output], "output": [], "object": "response"},
    ]
    run = one(exchanges)
    assert [(call.tool, call.result) for call in run.calls] == [("t", "1")]
    assert run.prompt == "go"


def test_streamed_deltas_are_keyed_by_item_id() -> None:
    def added(key: str, index: int) -> dict[str, Any]:
        made = {"type": "function_call", "id": key, "call_id": f"c{key}", "name": key}
        return {"type": "response.output_item.added", "output_index": index, "item": made}

    def delta(key: str, text: str) -> dict[str, Any]:
        return {"type": "response.function_call_arguments.delta", "item_id": key, "delta": text}

    run = one([added("b", 1), added("a", 0), delta("b", "{}"), delta("a", '{"x"'), delta("a", ":")])
    assert [(call.call_id, call.args, call.args_status) for call in run.calls] == [
        ("ca", {"raw": '{"x":'}, "invalid"),
        ("cb", {}, "ok"),
    ]


@pytest.mark.parametrize(
    ("item", "ended"),
    [
        ({"type": "function_call", "call_id": "c", "arguments": ""}, ({}, "empty")),
        ({"type": "mcp_call", "server_label": "s", "arguments": ""}, ({}, "empty")),
        ({"type": "custom_tool_call", "call_id": "c", "input": ""}, ({"raw": ""}, "text")),
        ({"type": "code_interpreter_call", "code": ""}, ({"code": ""}, "ok")),
    ],
)
def test_an_item_whose_arguments_never_came_has_none(item: dict[str, Any], ended: Any) -> None:
    item = {"id": "i", "name": "t", **item}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}

    def statuses(*events: dict[str, Any]) -> list[Any]:
        return [(call.args, call.args_status) for call in one(list(events)).calls]

    assert statuses(added) == [(None, "absent")]
    assert statuses(added, {**added, "type": "response.output_item.done"}) == [ended]
    completed = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    assert statuses(added, completed) == [ended]
    assert statuses({**item, "status": "in_progress"})[0][1] == "absent"


def streamed(key: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one response with these items."""
    begun = {"object": "response", "id": key, "status": "in_progress", "output": []}
    return [
        {"type": "response.created", "response": begun},
        *({"type": "response.output_item.done", "output_index": index, "item": item}
          for index, item in enumerate(items)),
        {"type": "response.completed",
         "response": {**begun, "status": "completed", "output": list(items),
                      "usage": {"input_tokens": 5, "output_tokens": 2}}},
    ]  # fmt: skip


def test_each_stream_of_a_file_is_a_response_of_its_own() -> None:
    asked = {"type": "function_call", "id": "i", "call_id": "c", "name": "t", "arguments": "{}"}
    text = [{"type": "output_text", "text": "done"}]
    said = {"type": "message", "id": "m", "role": "assistant", "content": text}
    run = one(streamed("r1", asked) + streamed("r2", said))
    assert [(call.call_id, call.request_locator) for call in run.calls] == [
        ("c", "$[2].response.output[0]")
    ]
    assert (run.final_answer, run.input_tokens, run.warnings) == ("done", 10, [])
    torn = streamed("r1", asked)[:2]
    answered = [*torn, {"type": "function_call_output", "call_id": "c", "output": "1"}]
    run = one(answered + streamed("r2", said))
    assert [(call.result, call.request_locator) for call in run.calls] == [("1", "$[1].item")]
    assert (run.final_answer, run.warnings) == ("done", [])


def test_a_stream_tells_of_errors_and_of_calls_that_failed() -> None:
    asked = {"type": "mcp_call", "id": "m", "name": "t", "server_label": "s", "arguments": "{}"}
    run = one(
        [
            streamed("r")[0],
            {"type": "response.output_item.added", "output_index": 0, "item": asked},
            {"type": "keepalive", "sequence_number": 3},
            {"type": "response.mcp_call.failed", "item_id": "m", "output_index": 0},
            {"type": "error", "code": "server_error", "message": "try again"},
        ]
    )
    assert [outcome(call) for call in run.calls] == [(True, "explicit")]
    assert (run.status, run.error) == ("error", "server_error: try again")


def test_a_failed_response_is_a_run_in_error() -> None:
    error = {"code": "server_error", "message": "try again"}
    run = one({"object": "response", "status": "failed", "error": error, "output": []})
    assert (run.status, run.error) == ("error", "server_error: try again")


# --- Anthropic ------------------------------------------------------------------------------------


def assistant(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **fields}


def used(key: str, name: str = "t", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": name, "input": {}, **fields}


@pytest.mark.parametrize(
    ("content", "failed", "has_result"),
    [
        ({"type": "web_search_tool_result_error", "error_code": "unavailable"}, True, False),
        ({"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 1},
         True, True),
        ({"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0},
         False, True),
        ([{"type": "web_search_result", "title": "x", "url": "u"}], False, True),
    ],
)  # fmt: skip
def test_server_tool_results_fail_by_error_objects_and_return_codes(
    content: Any, failed: bool, has_result: bool
) -> None:
    call = only(
        [
            assistant(
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": content},
            )
        ]
    )
    assert outcome(call) == (failed, "explicit")
    assert (call.result is not MISSING) is has_result
    assert call.executor == "provider"


def test_is_error_tells_and_a_result_without_content_is_recorded() -> None:
    def result(**fields: Any) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", **fields}]}

    assert outcome(only([assistant(used("a")), result(is_error=True)])) == (True, "explicit")
    empty = only([assistant(used("a")), result()])
    assert (outcome(empty), empty.result) == ((False, "explicit"), "")


def test_mcp_blocks_are_read_by_their_type_and_listings_are_no_calls() -> None:
    run = one(
        [
            assistant(
                {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": "t"}]},
                {"type": "mcp_tool_use", "id": "m", "name": "t", "server_name": "s", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": "1"},
            )
        ]
    )
    assert [(call.tool, call.executor, call.result) for call in run.calls] == [("t", "mcp", "1")]


def test_a_paused_turn_goes_on_in_the_next_message() -> None:
    text = {"type": "text", "text": "one "}
    paused = assistant(text, stop_reason="pause_turn")
    ended = assistant({"type": "text", "text": "two"}, stop_reason="end_turn")
    assert one([paused, ended]).final_answer == "one two"
    assert one([{**paused, "stop_reason": "end_turn"}, ended]).final_answer == "two"


def test_a_stream_holds_pings_and_errors_and_what_follows_keeps_its_place() -> None:
    answer = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    events = [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": used("a")},
        {"type": "message_stop"},
        {"role": "user", "content": [answer]},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    run = one(events)
    [call] = run.calls
    assert (call.request_locator, call.completion_locator) == (
        "$[2].content_block",
        "$[4].content[0]",
    )
    assert (run.status, run.error) == ("error", "overloaded_error: Overloaded")
    assert all(is_fragment(event) for event in events)


def begun(key: str, index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": used(key, **fields)}


def test_a_call_whose_input_never_came_has_none() -> None:
    empty = {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": ""}}  # fmt: skip
    stop = {"type": "content_block_stop", "index": 1}

    def statuses(*events: dict[str, Any]) -> list[Any]:
        return [(call.args, call.args_status) for call in one(list(events)).calls]

    given = begun("a", 0, input={"x": 1})
    assert statuses(given, begun("b", 1)) == [({"x": 1}, "ok"), (None, "absent")]
    assert statuses(given, begun("b", 1), empty) == [({"x": 1}, "ok"), (None, "absent")]
    assert statuses(begun("b", 1), stop) == [({}, "ok")]
    assert statuses(begun("b", 1), empty, stop) == [({}, "empty")]
    assert statuses(begun("b", 1), {"type": "message_stop"}) == [({}, "ok")]


def test_a_cut_off_stream_leaves_invalid_arguments() -> None:
    run = one(
        [
            {"type": "content_block_start", "index": 0, "content_block": used("a")},
            {"type": "content_block_start", "index": 1, "content_block": used("b")},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "input_json_delta", "partial_json": '{"x": '}},
            {"type": "content_block_stop", "index": 1},
        ]
    )  # fmt: skip
    assert [(call.call_id, call.args_status) for call in run.calls] == [
        ("a", "invalid"),
        ("b", "ok"),
    ]


def test_thinking_is_not_read() -> None:
    thought = {"type": "thinking", "thinking": "secret", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "secret"}
    run = one([assistant(thought, hidden, {"type": "text", "text": "Hi"}, stop_reason="end_turn")])
    assert run.final_answer == "Hi"
    assert "secret" not in repr(run)


# --- Gemini ---------------------------------------------------------------------------------------


def test_gemini_ids_pair_and_error_output_or_the_whole_are_told_apart() -> None:
    def call(key: str) -> dict[str, Any]:
        return {"functionCall": {"id": key, "name": "t", "args": {}}}

    def back(key: str, response: Any) -> dict[str, Any]:
        return {"functionResponse": {"id": key, "name": "t", "response": response}}

    run = one(
        [
            {"role": "model", "parts": [call("1"), call("2"), call("3")]},
            {"role": "user", "parts": [
                back("3", {"rows": 1}), back("1", {"output": 5}), back("2", {"error": "no"}),
            ]},
        ]
    )  # fmt: skip
    assert [(c.result, c.error, c.is_failed) for c in run.calls] == [
        (5, None, False),
        (MISSING, "no", True),
        ({"rows": 1}, None, False),
    ]


@pytest.mark.parametrize(
    ("result", "failed"),
    [("OUTCOME_OK", False), ("OUTCOME_FAILED", True), ("OUTCOME_DEADLINE_EXCEEDED", True)],
)
def test_gemini_code_execution_is_a_provider_call(result: str, failed: bool) -> None:
    parts = [
        {"executable_code": {"code": "1", "language": "PYTHON"}},
        {"code_execution_result": {"outcome": result, "output": "x"}},
    ]
    call = only({"candidates": [{"content": {"role": "model", "parts": parts}}]})
    assert (call.tool, call.args, call.executor) == ("code_execution", {"code": "1"}, "provider")
    assert outcome(call) == (failed, "explicit")


def test_gemini_requests_that_repeat_what_was_said_add_nothing() -> None:
    def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
        return {"role": role, "parts": list(parts)}

    go = said("user", {"text": "go"})
    asked = [{"functionCall": {"name": "x", "args": {"n": n}}} for n in (1, 2)]
    given = said("user", *[{"functionResponse": {"name": "x", "response": {"output": n}}}
                           for n in (1, 2)])  # fmt: skip
    history = [go, said("model", *asked), given]
    run = one(
        [
            {"contents": [go], "candidates": [{"content": {"parts": asked[:1]}}]},
            {"candidates": [{"content": {"parts": asked[1:]}}]},
            {"contents": history, "candidates": [{"content": {"parts": asked[:1]}}]},
            {"contents": [*history, said("model", asked[0]), said("user", given["parts"][0])],
             "candidates": [{"content": {"parts": [{"text": "done"}]}}]},
        ]
    )  # fmt: skip
    assert [(call.args, call.result) for call in run.calls] == [
        ({"n": 1}, 1),
        ({"n": 2}, 2),
        ({"n": 1}, 1),
    ]
    assert (run.final_answer, run.warnings) == ("done", [])


def test_what_one_gemini_part_holds_is_read_in_its_order() -> None:
    names = ["toolCall", "functionCall", "executableCode"]
    item = {"name": "t", "toolType": "x", "code": "1", "args": {}}
    for order in (names, names[::-1]):
        run = one([{"role": "model", "parts": [dict.fromkeys(order, item)]}])
        places = [f"$[0].parts[0].{name}" for name in order]
        assert [call.request_locator for call in run.calls] == places


def test_gemini_streamed_arguments_are_put_in_their_places() -> None:
    def part(pieces: list[Any], goes_on: bool, **fields: Any) -> dict[str, Any]:
        inner = {"partialArgs": pieces, "willContinue": goes_on, **fields}
        return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": inner}]}}]}

    call = only(
        [
            part([{"jsonPath": "$.a.b[0]", "stringValue": "x"}], True, name="t", id="1"),
            part([{"jsonPath": "$.a.b[0]", "stringValue": "y"}], True),
            part([{"jsonPath": "$['k k']", "boolValue": True}], True),
            part([{"jsonPath": "$.n", "nullValue": "NULL_VALUE"}], False),
        ]
    )
    assert call.args == {"a": {"b": ["xy"]}, "k k": True, "n": None}


def test_a_gemini_stream_writes_into_no_other_call_and_not_into_the_document() -> None:
    def part(**inner: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": inner}]}}]}

    pieces = [{"jsonPath": "$.a", "numberValue": 1}]
    bare = [part(name="t", willContinue=True), part(partialArgs=pieces)]
    assert only(bare).args == {"a": 1}
    assert only([part(name="t")]).args == {}

    begun = [part(name="t", args={"b": {"c": 2}}, willContinue=True),
             part(partialArgs=[*pieces, {"jsonPath": "$.b.d", "numberValue": 3}])]  # fmt: skip
    before = copy.deepcopy(begun)
    call = one(begun, "gemini").calls[0]
    assert (call.args, call.args_status) == ({"a": 1, "b": {"c": 2, "d": 3}}, "ok")
    assert begun == before


def test_a_gemini_stream_that_breaks_off_leaves_no_whole_arguments() -> None:
    def part(reason: str | None = None, **inner: Any) -> dict[str, Any]:
        said = {"role": "model", "parts": [{"functionCall": inner}]}
        return {"candidates": [{"content": said, "finishReason": reason}]}

    pieces = [{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}]
    torn = only([part(name="t", willContinue=True)])
    assert (torn.args, torn.args_status) == (None, "absent")
    assert "the trace ends before its arguments do" in torn.warnings
    torn = only([part(name="t", partialArgs=pieces, willContinue=True)])
    assert (torn.args, torn.args_status) == ({"a": "x"}, "invalid")
    whole = only([part("STOP", name="t", partialArgs=pieces, willContinue=True)])
    assert (whole.args, whole.args_status, whole.warnings) == ({"a": "x"}, "ok", [])
    closed = only([part(name="t", partialArgs=pieces, willContinue=True), part()])
    assert (closed.args, closed.args_status, closed.warnings) == ({"a": "x"}, "ok", [])


def test_a_malformed_gemini_call_is_a_warning() -> None:
    run = one({"candidates": [{"content": {"parts": []},
                               "finishReason": "MALFORMED_FUNCTION_CALL"}]})  # fmt: skip
    assert run.warnings[0] == "the model stopped with MALFORMED_FUNCTION_CALL"


# --- LangChain ------------------------------------------------------------------------------------


def ai(**fields: Any) -> dict[str, Any]:
    return {"type": "ai", "content": "", **fields}


def listed(key: str, name: str = "t", args: Any = None) -> dict[str, Any]:
    return {"name": name, "args": args or {}, "id": key, "type": "tool_call"}


def test_one_call_in_content_and_tool_calls_is_one_call() -> None:
    content = [{"type": "tool_use", "id": "a", "name": "t", "input": {}}]
    assert only([ai(content=content, tool_calls=[listed("a")])]).warnings == []


def test_an_invalid_call_is_unknown_alone_and_failed_when_answered() -> None:
    message = ai(invalid_tool_calls=[{"name": "t", "args": "{", "id": "a", "error": "bad"}])
    alone = only([message])
    assert (alone.args_status, outcome(alone)) == ("invalid", (None, None))
    answer = {"type": "tool", "content": "bad arguments", "tool_call_id": "a", "status": "success"}
    assert outcome(only([message, answer])) == (True, "explicit")


def test_a_tool_message_without_a_status_is_a_success() -> None:
    for answer, failed in (({}, False), ({"status": "error"}, True)):
        message = {"type": "tool", "content": "1", "tool_call_id": "a", **answer}
        assert outcome(only([ai(tool_calls=[listed("a")]), message])) == (failed, "explicit")


@pytest.mark.parametrize("key", ["", None])
def test_langchain_calls_without_ids_are_those_of_the_list(key: Any) -> None:
    content = [{"type": "tool_use", "id": key, "name": "t", "input": {"n": n}} for n in (1, 2)]
    listed = [{"type": "tool_call", "id": key, "name": "t", "args": {"n": n}} for n in (1, 2)]
    run = one([{"type": "ai", "content": content, "tool_calls": listed}])
    assert [call.args for call in run.calls] == [{"n": 1}, {"n": 2}]
    run = one([{"type": "ai", "content": content, "tool_calls": []}], "langchain")
    assert [call.args for call in run.calls] == [{"n": 1}, {"n": 2}]


def test_chunks_are_merged_before_anything_is_read() -> None:
    def bit(args: str, index: int, key: str | None = None) -> dict[str, Any]:
        shown = [listed(key)] if key else []
        bits = [{"name": "t" if key else None, "args": args, "id": key, "index": index}]
        return {
            "type": "AIMessageChunk", "content": "", "id": "r", "tool_calls": shown,
            "tool_call_chunks": bits,
        }  # fmt: skip

    run = one([bit('{"x"', 0, "a"), bit(": 1}", 0), bit("{}", 0, "b")])
    assert [(call.call_id, call.args) for call in run.calls] == [("a", {"x": 1}), ("b", {})]
    # A call stands where its first piece does.
    assert [call.request_locator for call in run.calls] == [
        "$[0].tool_call_chunks[0]",
        "$[2].tool_call_chunks[0]",
    ]


def test_whole_calls_and_content_of_later_chunks_stand_in_their_own_chunk() -> None:
    def bit(**given: Any) -> dict[str, Any]:
        return {"type": "AIMessageChunk", "content": [], "id": "r", **given}

    server = {"type": "server_tool_call", "id": "s", "name": "web_search", "args": {}}
    run = one(
        [
            bit(content=[{"type": "text", "text": "Wait."}]),
            bit(content=[{"type": "text", "text": "So."}, server]),
            bit(tool_calls=[listed("a")]),
        ]
    )
    assert [(call.tool, call.request_locator) for call in run.calls] == [
        ("web_search", "$[1].content[1]"),
        ("t", "$[2].tool_calls[0]"),
    ]


def test_a_stream_of_states_counts_each_message_once() -> None:
    first = ai(id="m1", tool_calls=[listed("a")])
    answer = {"type": "tool", "content": "1", "tool_call_id": "a", "id": "m2"}
    states = [{"messages": [first]}, {"messages": [first, answer]}]
    assert [call.result for call in one(states).calls] == ["1"]
    updates = [{"agent": {"messages": [first]}}, {"tools": {"messages": [answer]}}]
    assert [call.result for call in one(updates).calls] == ["1"]


def test_server_tool_blocks_of_v1_content_are_provider_calls() -> None:
    content = [
        {"type": "server_tool_call", "id": "s", "name": "web_search", "args": {"q": "a"}},
        {"type": "server_tool_result", "tool_call_id": "s", "status": "error"},
        {"type": "text", "text": "Sorry."},
    ]
    run = one([ai(content=content)])
    assert [(c.tool, c.executor, c.is_failed) for c in run.calls] == [
        ("web_search", "provider", True)
    ]
    assert run.final_answer == "Sorry."


def test_raw_argument_text_in_additional_kwargs_is_kept() -> None:
    raw = {"id": "a", "function": {"name": "t", "arguments": '{"x": 1}'}}
    extra = {"tool_calls": [raw]}
    call = only([ai(tool_calls=[listed("a", args={"x": 1})], additional_kwargs=extra)])
    assert (call.args, call.args_raw) == ({"x": 1}, '{"x": 1}')
    old = only([ai(additional_kwargs=extra)])
    assert (old.args, old.args_raw) == ({"x": 1}, '{"x": 1}')


# --- MCP ------------------------------------------------------------------------------------------


def call_of(key: Any, name: str = "t", **params: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0", "id": key, "method": "tools/call",
        "params": {"name": name, "arguments": {}, **params},
    }  # fmt: skip


def result_of(key: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "result": result}


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


def test_ids_compare_by_type_first_and_0_is_an_id() -> None:
    run = one([call_of(0), call_of("0"), result_of("0", content=text("b")),
               result_of(0, content=text("a"))])  # fmt: skip
    assert [call.result for call in run.calls] == ["a", "b"]
    assert only([call_of(0), result_of("0", content=text("a"))]).result == "a"


@pytest.mark.parametrize("flag", ["isError", "is_error"])
@pytest.mark.parametrize(
    "body", [{"content": text("no")}, {"structuredContent": {"e": 1}}, {}], ids=str
)
def test_is_error_fails_a_call_with_or_without_content(flag: str, body: dict[str, Any]) -> None:
    call = only([call_of(1), result_of(1, **{flag: True}, **body)])
    assert outcome(call) == (True, "explicit")
    fine = only([call_of(1), result_of(1, **body)])
    assert outcome(fine) == (False, "explicit")


def test_an_error_without_an_id_answers_only_the_one_open_request() -> None:
    error = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "parse error"}}
    alone = only([call_of(1), error])
    assert (alone.is_failed, alone.pairing) == (True, "inferred")
    run = one([call_of(1), call_of(2), error])
    assert [call.is_failed for call in run.calls] == [None, None]
    assert "2 open requests" in run.warnings[0]


def test_an_input_required_result_is_interim_and_its_retry_the_same_call() -> None:
    asked = result_of(1, resultType="input_required", requestState="s")
    retry = call_of(2, inputResponses=[{}], requestState="s")
    call = only([call_of(1), asked, retry, result_of(2, content=text("done"))])
    assert (call.call_id, call.result, call.is_failed) == ("1", "done", False)
    state_alone = call_of(2, requestState="s")
    call = only([call_of(1), asked, state_alone, result_of(2, content=text("done"))])
    assert (call.call_id, call.result) == ("1", "done")
    another = one([call_of(1), asked, call_of(2, requestState="t"), result_of(2)])
    assert [call.is_failed for call in another.calls] == [None, False]
    waiting = only([call_of(1), asked])
    assert outcome(waiting) == (None, None)
    assert "never given" in waiting.warnings[0]


def test_a_request_sent_again_is_a_second_attempt() -> None:
    run = one([call_of(1), call_of(2), result_of(2, content=text("x"))])
    assert [call.is_failed for call in run.calls] == [None, False]


def test_a_call_without_an_id_was_attempted_all_the_same() -> None:
    nameless = {key: value for key, value in call_of(1).items() if key != "id"}
    run = one([nameless, call_of(1), result_of(1, content=text("x"))])
    assert [(call.call_id, call.is_failed) for call in run.calls] == [(None, None), ("1", False)]
    assert "without an id" in run.calls[0].warnings[0]


def test_server_requests_have_ids_of_their_own() -> None:
    elicit = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}}
    run = one([elicit, call_of(1), result_of(1, action="accept"), result_of(1, content=text("x"))])
    assert [call.result for call in run.calls] == ["x"]


def test_a_tasks_result_is_the_one_fetched_later() -> None:
    fetch = {"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": "k"}}
    started = result_of(1, task={"taskId": "k", "status": "working"})
    call = only([call_of(1), started, fetch, result_of(2, content=text("x"))])
    assert (call.call_id, call.result) == ("1", "x")
    status = {"jsonrpc": "2.0", "method": "notifications/tasks/status",
              "params": {"taskId": "k", "status": "failed"}}  # fmt: skip
    assert only([call_of(1), started, status]).is_failed is True


def test_listings_are_no_calls_and_a_null_structured_content_is_kept() -> None:
    listing = [{"jsonrpc": "2.0", "id": 9, "method": "tools/list"}, result_of(9, tools=[{}])]
    call = only([*listing, call_of(1), result_of(1, content=[], structuredContent=None)])
    assert call.result == {"content": [], "structuredContent": None}
    dumped = only([call_of(1), result_of(1, content=text("x"), structured_content=None)])
    assert dumped.result == "x"


def test_envelopes_give_times_and_sessions() -> None:
    def sent(second: int, session: str, message: dict[str, Any]) -> dict[str, Any]:
        stamp = f"2026-10-02T09:00:{second:02d}Z"
        return {"timestamp": stamp, "sessionId": session, "message": message}

    runs = read_value(
        [
            sent(1, "a", call_of(1)), sent(2, "b", call_of(1)),
            sent(3, "b", result_of(1, content=text("b"))),
            sent(5, "a", result_of(1, content=text("a"))),
        ]
    )  # fmt: skip
    assert [(run.calls[0].result, run.calls[0].duration_seconds) for run in runs] == [
        ("a", 4.0),
        ("b", 1.0),
    ]


def test_every_provider_format_is_detected_as_itself() -> None:
    values = {
        "openai_responses": [item("function_call", call_id="c", name="t", arguments="{}")],
        "anthropic": [assistant(used("a"))],
        "gemini": [{"role": "model", "parts": [{"functionCall": {"name": "t"}}]}],
        "langchain": [ai(tool_calls=[listed("a")])],
        "mcp": [call_of(1)],
    }
    assert {name: detect(value)[0].format for name, value in values.items()} == {
        name: name for name in values
    }
