"""Anthropic Messages: message lists, message objects, content blocks and streamed events."""

from __future__ import annotations

from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    ABSENT_ARGUMENTS,
    Conversation,
    Detection,
    Instant,
    Names,
    Reply,
    add_usage,
    dicts,
    error_text,
    id_text,
    key_of,
    new_call,
    one_text,
    read_arguments,
    text_of,
)
from toolscore_pipeline.model import MISSING, Executor, Run

NAME = "anthropic"

_REQUESTS: dict[str, Executor] = {
    "tool_use": "client",
    "server_tool_use": "provider",
    "mcp_tool_use": "mcp",
}
_REQUEST_TYPES = Names(_REQUESTS)
_MARKS = Names(
    {*_REQUESTS, "tool_result", "mcp_tool_result", "mcp_tool_listing", "thinking",
     "redacted_thinking"}
)  # fmt: skip
_EVENTS = Names(
    {
        "message_start", "message_delta", "message_stop", "content_block_start",
        "content_block_delta", "content_block_stop", "ping",
    }
)  # fmt: skip
_ROLES = Names({"user", "assistant", "system"})


def detect(value: Any) -> Detection | None:
    """Messages with Anthropic's content blocks, a message object, blocks, or streamed events."""
    if isinstance(value, dict):
        if value.get("type") == "message" and isinstance(value.get("content"), list):
            return Detection(NAME, 0.95, "a message object")
        if isinstance(value.get("messages"), list):
            return _detect_messages(value["messages"])
        if value.get("type") in _EVENTS:
            return Detection(NAME, 0.9, f"a {value['type']!r} event")
        return _detect_messages([value]) if value.get("role") in _ROLES else None
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        if any(item.get("type") in ("message_start", "content_block_start") for item in value):
            return Detection(NAME, 0.95, "a list of streamed message events")
        if any(item.get("type") in _REQUEST_TYPES and "role" not in item for item in value):
            return Detection(NAME, 0.8, "a list of content blocks")
        if all(
            item.get("type") == "message"
            and isinstance(item.get("content"), list)
            and any(part.get("type") != "output_text" for _, part in dicts(item["content"]))
            for item in value
        ):
            return Detection(NAME, 0.9, "a list of message objects")
        return _detect_messages(value)
    return None


def _detect_messages(messages: list[Any]) -> Detection | None:
    marks = has_stop = 0
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return None
        if "tool_calls" in message or "parts" in message:
            return None
        marks += sum(is_mark(part) for _, part in dicts(message.get("content")))
        has_stop += "stop_reason" in message
    if marks:
        return Detection(NAME, 0.93, "messages with tool_use, tool_result or thinking blocks")
    return Detection(NAME, 0.85, "messages with a stop_reason") if has_stop else None


def is_mark(part: dict[str, Any]) -> bool:
    """Whether a content block is of a type that only Anthropic has."""
    kind = part.get("type")
    if kind == "tool_use":
        return "input" in part
    if kind == "tool_result":
        return "tool_use_id" in part
    return kind in _MARKS or (
        isinstance(kind, str) and kind.endswith("_tool_result") and "tool_use_id" in part
    )


def is_fragment(record: Any) -> bool:
    """One message, or one streamed event, alone on its line."""
    if not isinstance(record, dict):
        return False
    return record.get("type") in _EVENTS or (
        record.get("type") == "message" and isinstance(record.get("content"), list)
    )


def read(value: Any) -> list[Run]:
    """One run."""
    talk = Conversation(NAME)
    if isinstance(value, dict):
        if isinstance(value.get("messages"), list):
            talk.run.model = id_text(value.get("model"))
            _read_all(talk, _placed(value["messages"], "$.messages"))
            for key in ("response", "message"):
                if isinstance(value.get(key), dict):
                    read_message(talk, value[key], f"$.{key}")
        elif value.get("type") in _EVENTS:
            _read_all(talk, _merge_events([value], talk))
        else:
            read_message(talk, value, "$")
    elif isinstance(value, list):
        if any(isinstance(item, dict) and item.get("type") in _EVENTS for item in value):
            _read_all(talk, _merge_events(value, talk))
            return [talk.finish()]
        if value and all(isinstance(i, dict) and "role" not in i for i in value):
            value = [{"role": "assistant", "content": value}]
            read_message(talk, value[0], "$", content_where="$")
            return [talk.finish()]
        _read_all(talk, _placed(value, "$"))
    else:
        raise InputError("Anthropic messages must be a list or an object")
    return [talk.finish()]


def _placed(messages: list[Any], where: str) -> list[tuple[Any, str]]:
    return [(message, f"{where}[{index}]") for index, message in enumerate(messages)]


def _read_all(talk: Conversation, messages: list[tuple[Any, str]]) -> None:
    was_paused = False
    for message, place in messages:
        if not isinstance(message, dict):
            raise InputError("a message must be an object", json_path=place)
        turn = "paused" if was_paused else None
        read_message(talk, message, place, turn=turn)
        if message.get("role") == "assistant":
            was_paused = message.get("stop_reason") == "pause_turn"
            if was_paused:
                talk.turn_is("paused")


def read_message(
    talk: Conversation,
    message: dict[str, Any],
    where: str,
    *,
    turn: Any = None,
    at: Instant | None = None,
    content_where: str | None = None,
) -> None:
    """Read one message into a conversation.

    Args:
        talk: the conversation.
        message: the message, with role and content.
        where: its place in the document.
        turn: a key shared by messages of one assistant turn; None begins a turn of its own.
        at: when it was written.
        content_where: the content's place, when it is not ``where.content``.
    """
    content = message.get("content")
    place = content_where or f"{where}.content"
    if message.get("role") == "assistant":
        talk.turn(turn)
        if isinstance(content, str):
            talk.text(content)
        talk.run.model = talk.run.model or id_text(message.get("model"))
        add_usage(talk.run, message.get("usage"))
    elif message.get("role") == "user":
        talk.user(text_of(content))
    for index, part in dicts(content):
        spot = talk.places.get(id(part), f"{place}[{index}]")
        read_block(talk, part, spot, message.get("role"), at)


def read_block(
    talk: Conversation, part: dict[str, Any], where: str, role: Any, at: Instant | None = None
) -> None:
    """Read one content block into a conversation; thinking and unknown blocks are left out."""
    # The type's name alone decides: an SDK that does not know a block builds the wrong class.
    kind = part.get("type")
    if kind == "text":
        if role == "assistant":
            talk.text(part.get("text"))
    elif isinstance(kind, str) and kind in _REQUESTS:
        given = part.get("input")
        absent = talk.never_came(part, given)
        call = new_call(part.get("name"), ABSENT_ARGUMENTS if absent else read_arguments(given))
        call.request_locator = where
        call.executor = _REQUESTS[kind]
        talk.call(call, part.get("id"), at)
    elif kind in ("tool_result", "mcp_tool_result"):
        flag = part.get("is_error")
        is_error = flag if isinstance(flag, bool) else False
        content = part.get("content")
        reply = Reply(
            result="" if content is None else one_text(content),
            is_error=is_error,
            is_failed=is_error,
            is_explicit=True,
            at=at,
            locator=where,
        )
        talk.reply(reply, part.get("tool_use_id"))
    elif isinstance(kind, str) and kind.endswith("_tool_result") and "tool_use_id" in part:
        reply = _server_reply(part.get("content"))
        reply.locator, reply.at = where, at
        talk.reply(reply, part.get("tool_use_id"))


def _server_reply(content: Any) -> Reply:
    if isinstance(content, dict):
        kind = str(content.get("type", ""))
        if kind.endswith("_error") or "error_code" in content:
            return Reply(MISSING, error=content, is_failed=True, is_explicit=True)
        code = content.get("return_code")
        if isinstance(code, int) and not isinstance(code, bool):
            return Reply(content, is_failed=code != 0, is_explicit=True)
    return Reply(content, is_failed=False, is_explicit=True)


def _merge_events(events: list[Any], talk: Conversation) -> list[tuple[Any, str]]:
    """Messages out of streamed events, blocks by index; whole messages stay as they are.

    Each comes with the place where it begins; those of blocks go into ``talk.places``, and blocks
    that neither their own end nor their message's closed into ``talk.torn``. A stream's error is
    the run's.
    """
    messages: list[tuple[Any, str]] = []
    current: dict[str, Any] | None = None
    blocks: dict[Any, dict[str, Any]] = {}
    for number, event in enumerate(events):
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "error":
            talk.run.status, talk.run.error = "error", error_text(event.get("error") or event)
            continue
        if kind not in _EVENTS:
            messages.append((event, f"$[{number}]"))
            continue
        if kind == "ping":
            continue
        if kind == "message_start" or current is None:
            start = event.get("message")
            current = dict(start) if isinstance(start, dict) else {"role": "assistant"}
            content = current.get("content")
            current["content"] = list(content) if isinstance(content, list) else []
            blocks = {}
            messages.append((current, f"$[{number}]"))
        if kind == "content_block_start":
            block = event.get("content_block")
            block = dict(block) if isinstance(block, dict) else {}
            blocks[key_of(event.get("index"))] = block
            current["content"].append(block)
            talk.places[id(block)] = f"$[{number}].content_block"
            talk.torn.add(id(block))
        elif kind == "content_block_delta":
            delta = event.get("delta")
            begun = blocks.get(key_of(event.get("index")))
            if isinstance(delta, dict) and begun is not None:
                _merge_delta(begun, delta)
        elif kind == "content_block_stop":
            talk.torn.discard(id(blocks.get(key_of(event.get("index")))))
        elif kind == "message_delta":
            delta = event.get("delta")
            if isinstance(delta, dict):
                current.update({k: v for k, v in delta.items() if v is not None})
            usage = event.get("usage")
            if isinstance(usage, dict):
                # The counts of message_delta are totals, not steps.
                known = current.get("usage")
                current["usage"] = {**(known if isinstance(known, dict) else {}), **usage}
        elif kind == "message_stop":
            talk.torn.difference_update(map(id, blocks.values()))
            current = None
    return messages


def _merge_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kind = delta.get("type")
    if kind == "text_delta" and isinstance(delta.get("text"), str):
        block["text"] = str(block.get("text") or "") + delta["text"]
    elif kind == "input_json_delta" and isinstance(delta.get("partial_json"), str):
        known = block.get("input")
        block["input"] = (known if isinstance(known, str) else "") + delta["partial_json"]
