"""Mixed traces in any size: run rows, chat logs of two providers, OpenTelemetry spans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench import grow

SPANS_PER_FILE = 2_000


def write(folder: Path, size: int) -> int:
    """Write about ``size`` bytes of traces, a third of each kind; returns the bytes written."""
    folder.mkdir(parents=True, exist_ok=True)
    share = size // 3
    written = _lines(folder / "rows.jsonl", grow.rows(10**9, seed=1), share)
    written += _lines(folder / "chats.jsonl", _chats(), share)
    number = 0
    spans = _traces()
    while written < size:
        batch = [span for _ in range(SPANS_PER_FILE // 4) for span in next(spans)]
        document = {"resourceSpans": [{"scopeSpans": [{"spans": batch}]}]}
        written += (folder / f"spans-{number}.json").write_bytes(orjson.dumps(document))
        number += 1
    return written


def _lines(path: Path, records: Iterator[dict[str, Any]], size: int) -> int:
    written = 0
    with path.open("wb") as file:
        for record in records:
            written += file.write(orjson.dumps(record) + b"\n")
            if written >= size:
                break
    return written


def _chats() -> Iterator[dict[str, Any]]:
    for number, row in enumerate(grow.rows(10**9, seed=2)):
        make = _openai if number % 2 else _anthropic
        yield {"messages": [{"role": "user", "content": "Please note this."}, *make(row, number)]}


def _openai(row: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(row["calls"]):
        call_id = f"call_{number}_{index}"
        function = {"name": call["tool"], "arguments": orjson.dumps(call["args"]).decode()}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": call_id, "content": call["result"]}
    yield {"role": "assistant", "content": row["final_answer"]}


def _anthropic(row: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(row["calls"]):
        call_id = f"toolu_{number}_{index}"
        use = {"type": "tool_use", "id": call_id, "name": call["tool"], "input": call["args"]}
        yield {"role": "assistant", "content": [use]}
        result = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": call["result"],
            "is_error": call["is_error"],
        }
        yield {"role": "user", "content": [result]}
    yield {"role": "assistant", "content": [{"type": "text", "text": row["final_answer"]}]}


def _traces() -> Iterator[list[dict[str, Any]]]:
    for number, row in enumerate(grow.rows(10**9, seed=3)):
        started = 1_790_000_000_000_000_000 + number * 10**9
        yield [
            {
                "traceId": f"{number:032x}",
                "spanId": f"{number * 64 + index:016x}",
                "name": f"execute_tool {call['tool']}",
                "startTimeUnixNano": str(started + index * 10**6),
                "endTimeUnixNano": str(started + index * 10**6 + 5 * 10**5),
                "attributes": [
                    {"key": key, "value": {"stringValue": value}}
                    for key, value in (
                        ("gen_ai.operation.name", "execute_tool"),
                        ("gen_ai.tool.name", call["tool"]),
                        ("gen_ai.tool.call.id", f"c{number}-{index}"),
                        ("gen_ai.tool.call.arguments", orjson.dumps(call["args"]).decode()),
                        ("gen_ai.tool.call.result", call["result"]),
                    )
                ],
                "status": {"code": 2} if call["is_error"] else {},
            }
            for index, call in enumerate(row["calls"])
        ]
