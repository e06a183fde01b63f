"""One conversation, written in every format that can hold it, is read back as the same run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscore_pipeline.formats import detect, read_value
from toolscore_pipeline.model import MISSING, Run


@dataclass
class Asked:
    """One call of a conversation: ``result`` is None when none was recorded."""

    tool: str
    args: dict[str, Any]
    result: str | None
    is_failed: bool


@dataclass
class Conversation:
    """What is said and called: rounds of calls made at once, then an answer (or none)."""

    prompt: str
    rounds: list[list[Asked]]
    answer: str | None


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=15)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ASKED = st.builds(
    Asked,
    tool=st.sampled_from(["search", "refund", "mail"]),
    args=st.dictionaries(TEXT, VALUE, max_size=3),
    result=st.none() | TEXT,
    is_failed=st.booleans(),
)
CONVERSATION = st.builds(
    Conversation,
    prompt=TEXT,
    rounds=st.lists(st.lists(ASKED, min_size=1, max_size=3), min_size=1, max_size=3),
    answer=st.none() | TEXT,
)


def numbered(conversation: Conversation) -> list[list[tuple[str, Asked]]]:
    """The rounds with an id for each call."""
    count = iter(range(1000))
    return [[(f"call_{next(count)}", asked) for asked in turn] for turn in conversation.rounds]


# --- writers --------------------------------------------------------------------------------------


def as_openai(conversation: Conversation) -> Any:
    messages: list[Any] = [{"role": "user", "content": conversation.prompt}]
    for turn in numbered(conversation):
        calls = [
            {"id": key, "type": "function",
             "function": {"name": asked.tool, "arguments": json.dumps(asked.args)}}
            for key, asked in turn
        ]  # fmt: skip
        messages.append({"role": "assistant", "content": "wait", "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": key, "content": asked.result}
            for key, asked in reversed(turn)
            if asked.result is not None
        ]
    if conversation.answer is not None:
        messages.append({"role": "assistant", "content": conversation.answer})
    return messages


def as_responses(conversation: Conversation) -> Any:
    items: list[Any] = [{"role": "user", "content": conversation.prompt}]
    for turn in numbered(conversation):
        for key, asked in turn:
            items.append(
                {"type": "function_call", "call_id": key, "id": f"fc{key}", "name": asked.tool,
                 "arguments": json.dumps(asked.args, ensure_ascii=False)}
            )  # fmt: skip
        for key, asked in turn:
            if asked.result is not None:
                items.append(
                    {"type": "function_call_output", "call_id": key, "output": asked.result}
                )
    if conversation.answer is not None:
        content = [{"type": "output_text", "text": conversation.answer}]
        items.append({"type": "message", "role": "assistant", "content": content})
    return items


def as_anthropic(conversation: Conversation) -> Any:
    messages: list[Any] = [{"role": "user", "content": conversation.prompt}]
    for turn in numbered(conversation):
        blocks = [
            {"type": "tool_use", "id": key, "name": asked.tool, "input": asked.args}
            for key, asked in turn
        ]
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "x"}, *blocks]})
        results = [
            {"type": "tool_result", "tool_use_id": key, "is_error": asked.is_failed,
             "content": [{"type": "text", "text": asked.result}]}
            for key, asked in reversed(turn)
            if asked.result is not None
        ]  # fmt: skip
        if results:
            messages.append({"role": "user", "content": results})
    if conversation.answer is not None:
        content = [{"type": "text", "text": conversation.answer}]
        messages.append({"role": "assistant", "content": content})
    return messages


def as_gemini(conversation: Conversation) -> Any:
    contents: list[Any] = [{"role": "user", "parts": [{"text": conversation.prompt}]}]
    for turn in numbered(conversation):
        parts = [
            {"functionCall": {"id": key, "name": asked.tool, "args": asked.args}}
            for key, asked in turn
        ]
        contents.append({"role": "model", "parts": parts})
        back = [
            {"functionResponse": {"id": key, "name": asked.tool, "response":
                {"output": asked.result, **({"error": "failed"} if asked.is_failed else {})}}}
            for key, asked in reversed(turn)
            if asked.result is not None
        ]  # fmt: skip
        if back:
            contents.append({"role": "user", "parts": back})
    if conversation.answer is not None:
        contents.append({"role": "model", "parts": [{"text": conversation.answer}]})
    return contents


def langchain_messages(conversation: Conversation) -> list[dict[str, Any]]:
    messages: list[Any] = [{"type": "human", "content": conversation.prompt}]
    for turn in numbered(conversation):
        calls = [
            {"type": "tool_call", "id": key, "name": asked.tool, "args": asked.args}
            for key, asked in turn
        ]
        messages.append({"type": "ai", "content": "x", "tool_calls": calls})
        messages += [
            {"type": "tool", "tool_call_id": key, "content": asked.result, "name": asked.tool,
             "status": "error" if asked.is_failed else "success"}
            for key, asked in reversed(turn)
            if asked.result is not None
        ]  # fmt: skip
    if conversation.answer is not None:
        messages.append({"type": "ai", "content": conversation.answer, "tool_calls": []})
    return messages


def as_langchain(conversation: Conversation) -> Any:
    return {"messages": langchain_messages(conversation)}


def as_langchain_dict(conversation: Conversation) -> Any:
    return [{"type": item["type"], "data": item} for item in langchain_messages(conversation)]


def as_langchain_dump(conversation: Conversation) -> Any:
    classes = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    return [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", classes[item["type"]]],
         "kwargs": {key: value for key, value in item.items() if value != "success"}}
        for item in langchain_messages(conversation)
    ]  # fmt: skip


def as_otel(conversation: Conversation) -> Any:
    spans: list[Any] = []

    def add(attributes: dict[str, Any], **fields: Any) -> None:
        number = len(spans) + 1
        spans.append(
            {"traceId": "a" * 32, "spanId": f"{number:016x}", "name": "n",
             "startTimeUnixNano": str(number * 10**9), "endTimeUnixNano": str(number * 10**9 + 1),
             "attributes": attributes, **fields}
        )  # fmt: skip

    said = [{"role": "user", "parts": [{"type": "text", "content": conversation.prompt}]}]
    for turn in numbered(conversation):
        parts = [
            {"type": "tool_call", "id": key, "name": asked.tool, "arguments": asked.args}
            for key, asked in turn
        ]
        outputs = [{"role": "assistant", "parts": parts}]
        add({"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said),
             "gen_ai.output.messages": json.dumps(outputs)})  # fmt: skip
        said = said + outputs
        for key, asked in turn:
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": asked.tool,
                          "gen_ai.tool.call.id": key}  # fmt: skip
            failed = asked.is_failed and asked.result is not None
            if asked.result is not None:
                attributes["gen_ai.tool.call.result"] = asked.result
            add(attributes, status={"code": 2} if failed else {})
    if conversation.answer is not None:
        parts = [{"type": "text", "content": conversation.answer}]
        outputs = [{"role": "assistant", "parts": parts}]
        add({"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said),
             "gen_ai.output.messages": json.dumps(outputs)})  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def as_claude_code(conversation: Conversation) -> Any:
    return [
        {"type": message["role"], "sessionId": "s", "uuid": str(index),
         "timestamp": f"2026-10-02T09:00:{index:02d}Z", "message": message}
        for index, message in enumerate(as_anthropic(conversation))
    ]  # fmt: skip


def plain_calls(conversation: Conversation) -> list[dict[str, Any]]:
    return [
        {"id": key, "tool": asked.tool, "args": asked.args,
         **({} if asked.result is None else
            {"result": asked.result, "is_error": asked.is_failed})}
        for turn in numbered(conversation)
        for key, asked in turn
    ]  # fmt: skip


def as_plain(conversation: Conversation) -> Any:
    return {"calls": plain_calls(conversation)}


def as_run_row(conversation: Conversation) -> Any:
    return {
        "run_record_version": "1", "calls": plain_calls(conversation),
        "prompt": conversation.prompt, "final_answer": conversation.answer,
    }  # fmt: skip


def as_mcp(conversation: Conversation) -> Any:
    messages: list[Any] = []
    for turn in numbered(conversation):
        messages += [
            {"jsonrpc": "2.0", "id": key, "method": "tools/call",
             "params": {"name": asked.tool, "arguments": asked.args}}
            for key, asked in turn
        ]  # fmt: skip
        messages += [
            {"jsonrpc": "2.0", "id": key, "result": {
                "content": [{"type": "text", "text": asked.result}], "isError": asked.is_failed}}
            for key, asked in reversed(turn)
            if asked.result is not None
        ]  # fmt: skip
    return messages


def as_inspect(conversation: Conversation) -> Any:
    messages: list[Any] = [{"role": "user", "content": conversation.prompt}]
    for turn in numbered(conversation):
        calls = [
            {"id": key, "function": asked.tool, "arguments": asked.args} for key, asked in turn
        ]
        messages.append({"role": "assistant", "content": "x", "tool_calls": calls})
        for key, asked in turn:
            if asked.result is not None:
                error = {"type": "unknown", "message": "failed"} if asked.is_failed else None
                messages.append(
                    {"role": "tool", "tool_call_id": key, "content": asked.result, "error": error}
                )
    if conversation.answer is not None:
        messages.append({"role": "assistant", "content": conversation.answer})
    sample = {"id": 1, "epoch": 1, "input": conversation.prompt, "messages": messages}
    return {"eval": {"task": "t"}, "samples": [sample]}


def as_tau(conversation: Conversation) -> Any:
    return [{"task_id": 1, "reward": 1, "info": {}, "traj": as_openai(conversation), "trial": 0}]


@dataclass
class Writer:
    """How a conversation is written, and which parts of it the format holds."""

    write: Callable[[Conversation], Any]
    format: str
    has_flag: bool = True
    has_texts: bool = True


WRITERS = {
    "openai": Writer(as_openai, "openai", has_flag=False),
    "openai_responses": Writer(as_responses, "openai_responses", has_flag=False),
    "anthropic": Writer(as_anthropic, "anthropic"),
    "gemini": Writer(as_gemini, "gemini"),
    "langchain model_dump": Writer(as_langchain, "langchain"),
    "langchain messages_to_dict": Writer(as_langchain_dict, "langchain"),
    "langchain dumpd": Writer(as_langchain_dump, "langchain"),
    "otel": Writer(as_otel, "otel"),
    "claude_code": Writer(as_claude_code, "claude_code"),
    "plain": Writer(as_plain, "plain", has_texts=False),
    "run_rows": Writer(as_run_row, "run_rows"),
    "mcp": Writer(as_mcp, "mcp", has_texts=False),
    "inspect_ai": Writer(as_inspect, "inspect_ai"),
    "tau_bench": Writer(as_tau, "tau_bench", has_flag=False),
}


def core(run: Run) -> list[tuple[Any, ...]]:
    return [(call.tool, repr(call.args), call.result, call.is_failed) for call in run.calls]


def expected(conversation: Conversation, writer: Writer) -> list[tuple[Any, ...]]:
    return [
        (
            asked.tool,
            repr(asked.args),
            MISSING if asked.result is None else asked.result,
            None if asked.result is None else asked.is_failed and writer.has_flag,
        )
        for turn in conversation.rounds
        for asked in turn
    ]


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=40)
@given(conversation=CONVERSATION)
def test_the_same_run_is_read_back(name: str, conversation: Conversation) -> None:
    writer = WRITERS[name]
    # A span's result that is JSON text of an object or a list is decoded: say something else.
    for turn in conversation.rounds:
        for asked in turn:
            if asked.result is not None and asked.result[:1] in "[{":
                asked.result = "text " + asked.result
    value = json.loads(json.dumps(writer.write(conversation)))
    assert detect(value)[0].format == writer.format
    [run] = read_value(value)
    assert core(run) == expected(conversation, writer)
    assert all(call.args_status in ("ok", "empty") for call in run.calls)
    if writer.has_texts:
        assert run.prompt == conversation.prompt
        assert run.final_answer == conversation.answer
