"""Objects of the providers' SDKs, as ``evaluate(expected, response)`` gets them."""

from __future__ import annotations

from typing import Any

import pytest

from toolscore_pipeline.formats import read_value

CHAT = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": {
            "role": "assistant", "content": None, "refusal": None, "tool_calls": [
                {"id": "c", "type": "function",
                 "function": {"name": "t", "arguments": '{"n": 9007199254740993}'}}]}}
    ],
}  # fmt: skip
RESPONSE = {
    "id": "r", "object": "response", "created_at": 1.0, "model": "m", "status": "completed",
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    "output": [
        {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": "{}",
         "status": "completed"},
        {"type": "web_search_call", "id": "w", "status": "completed",
         "action": {"type": "search", "query": "a"}},
    ],
}  # fmt: skip
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 2},
    "content": [
        {"type": "text", "text": "Looking.", "citations": None},
        {"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}},
        {"type": "mcp_tool_use", "id": "b", "name": "u", "server_name": "s", "input": {}},
    ],
}  # fmt: skip


def calls_of(value: Any) -> list[tuple[str | None, str, Any]]:
    [run] = read_value(value)
    return [(call.call_id, call.tool, call.args) for call in run.calls]


def test_openai_objects_are_read() -> None:
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    completion = chat.ChatCompletion.model_validate(CHAT)
    assert calls_of(completion) == [("c", "t", {"n": 9007199254740993})]
    history = [{"role": "user", "content": "go"}, completion.choices[0].message]
    assert calls_of(history) == [("c", "t", {"n": 9007199254740993})]
    response = responses.Response.model_validate(RESPONSE)
    assert [call[:2] for call in calls_of(response)] == [("c", "t"), ("w", "web_search")]


def test_anthropic_objects_are_read_even_those_built_as_another_class() -> None:
    types = pytest.importorskip("anthropic.types")
    models = pytest.importorskip("anthropic._models")
    message = models.construct_type(value=MESSAGE, type_=types.Message)
    assert [block.type for block in message.content] == ["text", "tool_use", "mcp_tool_use"]
    assert calls_of(message) == [("a", "t", {"x": 1}), ("b", "u", {})]
    history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": message.content}]
    assert calls_of(history) == [("a", "t", {"x": 1}), ("b", "u", {})]


@pytest.mark.parametrize("by_alias", [True, False])
def test_mcp_results_are_read_under_both_spellings(by_alias: bool) -> None:
    types = pytest.importorskip("mcp.types")
    result = types.CallToolResult(content=[types.TextContent(type="text", text="no")], isError=True)
    dumped = result.model_dump(mode="json", by_alias=by_alias)
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}
    [run] = read_value([request, {"jsonrpc": "2.0", "id": 1, "result": dumped}])
    assert (run.calls[0].is_failed, run.calls[0].result) == (True, "no")
