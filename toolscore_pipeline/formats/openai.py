"""OpenAI Chat Completions: message lists, requests, responses and streamed chunks."""

from __future__ import annotations

from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    EMPTY_ARGUMENTS,
    Conversation,
    Detection,
    Names,
    Reply,
    add_usage,
    decode_arguments,
    dicts,
    id_text,
    instant,
    key_of,
    new_call,
    one_text,
    read_arguments,
    text_arguments,
    text_of,
)
from toolscore_pipeline.model import Run

NAME = "openai"

_ROLES = Names({"system", "developer", "user", "assistant", "tool", "function"})
_FOREIGN_BLOCKS = Names(
    {
        "tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "mcp_tool_result",
        "thinking", "redacted_thinking", "tool_call", "tool_call_response", "server_tool_call",
    }
)  # fmt: skip


def detect(value: Any) -> Detection | None:
    """Messages with ``tool_calls`` or ``function_call``, ``choices``; less surely, plain chat."""
    if isinstance(value, dict):
        if isinstance(value.get("choices"), list):
            return Detection(NAME, 0.95, "an object with 'choices'")
        if isinstance(value.get("messages"), list):
            return _detect_messages(value["messages"])
        if value.get("role") in _ROLES:
            return _detect_messages([value])
        return None
    if isinstance(value, list) and value:
        if all(isinstance(item, dict) and isinstance(item.get("choices"), list) for item in value):
            return Detection(NAME, 0.95, "a list of objects with 'choices'")
        return _detect_messages(value)
    return None


def _detect_messages(messages: list[Any]) -> Detection | None:
    marks = 0
    for message in messages:
        if not isinstance(message, dict):
            return None
        role = message.get("role")
        if role not in _ROLES or "parts" in message:
            return None
        if message.get("tool_calls") or message.get("function_call"):
            marks += 1
        if role == "tool" and "tool_call_id" in message:
            marks += 1
        if role == "function":
            marks += 1
        content = message.get("content")
        if isinstance(content, list) and any(
            isinstance(part, dict) and part.get("type") in _FOREIGN_BLOCKS for part in content
        ):
            return None
    if marks:
        return Detection(NAME, 0.9, "messages with tool calls")
    return Detection(NAME, 0.3, "chat messages without tool calls") if messages else None


def is_fragment(record: Any) -> bool:
    """One message, or one streamed chunk, alone on its line."""
    if not isinstance(record, dict):
        return False
    if record.get("object") == "chat.completion.chunk":
        return True
    return isinstance(record.get("role"), str) and not isinstance(record.get("messages"), list)


def read(value: Any) -> list[Run]:
    """One run; one run for each choice of a response that holds several."""
    if isinstance(value, dict):
        if isinstance(value.get("choices"), list):
            return _read_responses([value], "$", is_list=False)
        if isinstance(value.get("messages"), list):
            run = read_messages(value["messages"], "$.messages")
            run.model = id_text(value.get("model"))
            add_usage(run, value.get("usage"))
            return [run]
        return [read_messages([value], "$", is_single=True)]
    if not isinstance(value, list):
        raise InputError("OpenAI messages must be a list or an object")
    if value and all(isinstance(i, dict) and isinstance(i.get("choices"), list) for i in value):
        return _read_responses(value, "$", is_list=True)
    return [read_messages(value, "$")]


def _read_responses(responses: list[Any], where: str, *, is_list: bool) -> list[Run]:
    """Responses of one conversation; chunks of one response are merged before anything is read."""
    places: dict[int, str] = {}
    merged = _merge_chunks(responses, where if is_list else None, places)
    if merged is not None:
        responses, is_list = merged, False
    count = max((len(response["choices"]) for response in responses), default=0)
    if len(responses) > 1 or count <= 1:
        return [_read_choice(responses, 0, where, places, is_list=is_list)]
    runs = []
    for index in range(count):
        run = _read_choice(responses, index, where, places, is_list=is_list)
        run.locator = f"$.choices[{index}]"
        runs.append(run)
    return runs


def _read_choice(
    responses: list[Any], index: int, where: str, places: dict[int, str], *, is_list: bool
) -> Run:
    talk = Conversation(NAME)
    talk.places = places
    for number, response in enumerate(responses):
        prefix = f"{where}[{number}]" if is_list else where
        for place, message in dicts(response.get("messages")):
            _read_message(talk, message, f"{prefix}.messages[{place}]")
        choices = response["choices"]
        if index < len(choices) and isinstance(choices[index], dict):
            message = choices[index].get("message")
            if isinstance(message, dict):
                _read_message(talk, message, f"{prefix}.choices[{index}].message")
        run = talk.run
        run.model = run.model or id_text(response.get("model"))
        add_usage(run, response.get("usage"))
        created = instant(response.get("created"))
        if created is not None and run.started_at is None:
            run.started_at = created.at
    return talk.finish()


def _merge_chunks(
    responses: list[Any], where: str | None, places: dict[int, str]
) -> list[Any] | None:
    """One response out of streamed chunks; None when there are none.

    Tool calls merge by choice and index; a new id on a used index begins a new call. The places
    where calls begin go into ``places``.
    """
    if not any(
        isinstance(choice.get("delta"), dict)
        for response in responses
        for _, choice in dicts(response.get("choices"))
    ):
        return None
    messages: dict[Any, dict[str, Any]] = {}
    current: dict[tuple[Any, Any], dict[str, Any]] = {}
    whole: dict[str, Any] = {"choices": []}
    for order, response in enumerate(responses):
        for key in ("model", "created", "usage", "id"):
            if response.get(key) is not None:
                whole[key] = response[key]
        for position, choice in dicts(response.get("choices")):
            number = key_of(choice.get("index", 0))
            message = messages.setdefault(number, {"role": "assistant", "content": None})
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            for key in ("content", "refusal"):
                if isinstance(delta.get(key), str):
                    message[key] = (message.get(key) or "") + delta[key]
            if isinstance(delta.get("function_call"), dict):
                _merge_function(message.setdefault("function_call", {}), delta["function_call"])
            for spot, piece in dicts(delta.get("tool_calls")):
                slot = (number, key_of(piece.get("index")))
                known = current.get(slot)
                incoming = piece.get("id")
                if known is None or (incoming and known.get("id") and incoming != known["id"]):
                    known = {}
                    current[slot] = known
                    message.setdefault("tool_calls", []).append(known)
                    prefix = "$" if where is None else f"{where}[{order}]"
                    places[id(known)] = f"{prefix}.choices[{position}].delta.tool_calls[{spot}]"
                if incoming:
                    known["id"] = incoming
                if piece.get("type"):
                    known["type"] = piece["type"]
                for kind in ("function", "custom"):
                    if isinstance(piece.get(kind), dict):
                        _merge_function(known.setdefault(kind, {}), piece[kind])
    whole["choices"] = [{"index": key, "message": messages[key]} for key in messages]
    return [whole]


def _merge_function(known: dict[str, Any], piece: dict[str, Any]) -> None:
    for key in ("name", "arguments", "input"):
        if isinstance(piece.get(key), str):
            known[key] = known.get(key, "") + piece[key]


def read_messages(messages: list[Any], where: str, *, is_single: bool = False) -> Run:
    """A run from Chat Completions messages.

    Args:
        messages: the messages.
        where: the list's place in the document.
        is_single: ``where`` is the place of the only message itself.
    """
    talk = Conversation(NAME)
    for index, message in enumerate(messages):
        place = where if is_single else f"{where}[{index}]"
        if not isinstance(message, dict):
            raise InputError("a message must be an object", json_path=place)
        _read_message(talk, message, place)
    return talk.finish()


def _read_message(talk: Conversation, message: dict[str, Any], where: str) -> None:
    role = message.get("role")
    content = message.get("content")
    if role == "assistant":
        talk.turn(None)
        text = text_of(content)
        talk.text(text if text else message.get("refusal"))
        _read_calls(talk, message, where)
    elif role == "tool" or role == "function":
        name = message.get("name")
        talk.reply(
            Reply(
                result="" if content is None else one_text(content),
                name=name if isinstance(name, str) else None,
                locator=where,
            ),
            message.get("tool_call_id") if role == "tool" else None,
        )
    elif role == "user":
        talk.user(text_of(content))


def _read_calls(talk: Conversation, message: dict[str, Any], where: str) -> None:
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        arguments = read_arguments(legacy.get("arguments"))
        talk.call(new_call(legacy.get("name"), arguments, request_locator=f"{where}.function_call"))
    for index, item in dicts(message.get("tool_calls")):
        place = talk.places.get(id(item), f"{where}.tool_calls[{index}]")
        if isinstance(item.get("custom"), dict):
            custom = item["custom"]
            call = new_call(custom.get("name"), text_arguments(custom.get("input")))
        else:
            function = item.get("function")
            function = function if isinstance(function, dict) else item
            raw = function.get("arguments")
            arguments = (
                decode_arguments(raw)
                if isinstance(raw, str)
                else read_arguments(raw, absent=EMPTY_ARGUMENTS)
            )
            call = new_call(function.get("name"), arguments)
        call.request_locator = place
        call.executor = "client"
        talk.call(call, item.get("id"))
