"""Fakes for the tests of the agent harness, made of the SDKs' own response types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from toolscore_pipeline.agent.mcp_client import MCPServerError, Tool, ToolResult

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


class FakeServer:
    """A server's client in memory: two tools, and a record of the calls that reached it."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], ToolResult] | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answer = answer or (lambda tool, args: ToolResult(f"{tool} done"))

    def list_tools(self) -> list[Tool]:
        return [
            Tool("save_note", "Save a note.", SCHEMA),
            Tool("delete_note", "Delete a note.", SCHEMA),
        ]

    def call_tool(self, name: str, args: dict[str, Any]) -> ToolResult:
        self.calls.append((name, args))
        return self.answer(name, args)


class DeadServer(FakeServer):
    """A server that goes away at its first call."""

    def call_tool(self, name: str, args: dict[str, Any]) -> ToolResult:
        raise MCPServerError(f"the MCP server went away during {name}")


def openai_response(
    *parts: tuple[str, Any],
    usage: tuple[int, int] | None = (100, 20),
    status: str = "completed",
    cached: int = 0,
    written: int = 0,
    incomplete: str | None = None,
    error: tuple[str, str] | None = None,
) -> Any:
    """A Responses API response of ``("text" | "refusal" | "call" | "reasoning", ...)`` parts."""
    from openai.types.responses import Response

    output: list[dict[str, Any]] = []
    for number, (kind, value) in enumerate(parts):
        if kind == "call":
            name, arguments = value
            output.append(
                {
                    "type": "function_call",
                    "id": f"fc_{number}",
                    "call_id": f"call_{number}",
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                    "status": "completed",
                }
            )
        elif kind == "reasoning":
            output.append({"type": "reasoning", "id": f"rs_{number}", "summary": []})
        else:
            part: dict[str, Any] = {"type": "output_text", "text": value, "annotations": []}
            if kind == "refusal":
                part = {"type": "refusal", "refusal": value}
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            output.append(message | {"status": "completed", "content": [part]})
    data: dict[str, Any] = {
        "id": "resp_1",
        "created_at": 1.0,
        "object": "response",
        "model": "gpt-6-luna-2026-09-01",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": status,
    }
    if usage is not None:
        data["usage"] = {
            "input_tokens": usage[0],
            "output_tokens": usage[1],
            "total_tokens": sum(usage),
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    if incomplete is not None:
        data["incomplete_details"] = {"reason": incomplete}
    if error is not None:
        data["error"] = {"code": error[0], "message": error[1]}
    return Response.model_validate(data)


def anthropic_message(
    *parts: tuple[str, Any],
    usage: tuple[int, int] = (100, 20),
    stop: str | None = None,
    read: int = 0,
    written: int = 0,
    hour: int = 0,
) -> Any:
    """A Messages API message of ``("text" | "call", ...)`` parts."""
    from anthropic.types import Message

    content: list[dict[str, Any]] = []
    for number, (kind, value) in enumerate(parts):
        if kind == "call":
            name, arguments = value
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": name}
            content.append(block | {"input": arguments})
        else:
            content.append({"type": "text", "text": value})
    has_calls = any(kind == "call" for kind, _ in parts)
    return Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-5-5",
            "content": content,
            "stop_reason": stop or ("tool_use" if has_calls else "end_turn"),
            "usage": {
                "input_tokens": usage[0],
                "output_tokens": usage[1],
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "cache_creation": {
                    "ephemeral_1h_input_tokens": hour,
                    "ephemeral_5m_input_tokens": written - hour,
                },
            },
        }
    )


class FakeSDK:
    """Stands in for both SDK clients: hands out the given replies, or raises them, in order.

    A function among the replies is called with the request. The last reply is used again when they
    run out.
    """

    def __init__(self, replies: Iterable[Any]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.responses = SimpleNamespace(create=self.create)
        self.messages = SimpleNamespace(create=self.create)

    def create(self, **request: Any) -> Any:
        self.requests.append(json.loads(json.dumps(request)))
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        return reply


def sdk_error(module: Any, kind: str, status: int, body: Any = None, **headers: str) -> Exception:
    """An error of an SDK as it raises it for an HTTP answer."""
    import httpx2

    response = httpx2.Response(
        status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        request=httpx2.Request("POST", "https://example.test/v1"),
    )
    error: Exception = getattr(module, kind)(f"Error code: {status}", response=response, body=body)
    return error
