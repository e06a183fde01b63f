"""OpenAI Chat Completions: message lists, requests, responses and streamed chunks."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    ABSENT_ARGUMENTS,
    Conversation,
    Detection,
    Names,
    Reply,
    add_usage,
    call_key,
    dicts,
    id_text,
    instant,
    key_of,
    new_call,
    one_text,
    read_arguments,
    repeated_count,
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
        rest = [item for item in value if not _has_choices(item)]
        if not rest:
            return Detection(NAME, 0.95, "a list of objects with 'choices'")
        found = _detect_messages(rest)
        if found is not None and len(rest) < len(value):
            return Detection(NAME, 0.94, "a list of messages and objects with 'choices'")
        return found
    return None


def _has_choices(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("choices"), list)


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
        if _has_choices(value):
            return _read_responses([(value, "$")])
        if isinstance(value.get("messages"), list):
            run = read_messages(value["messages"], "$.messages")
            run.model = id_text(value.get("model"))
            add_usage(run, value.get("usage"))
            return [run]
        return [read_messages([value], "$", is_single=True)]
    if not isinstance(value, list):
        raise InputError("OpenAI messages must be a list or an object")
    if any(_has_choices(item) for item in value):
        return _read_responses([(item, f"$[{index}]") for index, item in enumerate(value)])
    return [read_messages(value, "$")]


def _read_responses(items: list[tuple[Any, str]]) -> list[Run]:
    """Responses of one conversation, and messages between them, each with its place."""
    places: dict[int, str] = {}
    torn: set[int] = set()
    steps = _merge_chunks(items, places, torn)
    count = max(len(item["choices"]) for item, _ in steps if _has_choices(item))
    runs = [_read_choice(steps, 0, places, torn)]
    if len(steps) > 1 and count > 1:
        runs[0].warnings.append(f"the first of {count} choices was read")
    elif count > 1:
        runs += [_read_choice(steps, index, places, torn) for index in range(1, count)]
        for index, run in enumerate(runs):
            run.locator = f"$.choices[{index}]"
    return runs


def _read_choice(
    steps: list[tuple[Any, str]], index: int, places: dict[int, str], torn: set[int]
) -> Run:
    talk = Conversation(NAME)
    talk.places, talk.torn = places, torn
    earlier: list[Any] = []
    answer: Any = None
    for item, where in steps:
        if not isinstance(item, dict):
            raise InputError("a message must be an object", json_path=where)
        if not _has_choices(item):
            _read_message(talk, item, where)
            continue
        known = talk.ledger.keys()
        asked = item.get("messages")
        if isinstance(asked, list):
            start = repeated_count(asked, earlier, answer, _asks)
            for place, message in dicts(asked):
                if place >= start:
                    _read_message(talk, message, f"{where}.messages[{place}]", known)
            earlier = asked
        choices = item["choices"]
        if index < len(choices) and isinstance(choices[index], dict):
            message = choices[index].get("message")
            if isinstance(message, dict):
                answer = message
                _read_message(talk, message, f"{where}.choices[{index}].message")
        run = talk.run
        run.model = run.model or id_text(item.get("model"))
        add_usage(run, item.get("usage"))
        created = instant(item.get("created"))
        if created is not None and run.started_at is None:
            run.started_at = created.at
    return talk.finish()


def _asks(message: Any) -> Any:
    """The calls that an answer asks for; None when the message is no answer."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return None
    ids = [item.get("id") for _, item in dicts(message.get("tool_calls"))]
    return message.get("function_call"), ids


def _merge_chunks(
    items: list[tuple[Any, str]], places: dict[int, str], torn: set[int]
) -> list[tuple[Any, str]]:
    """The items with the streamed chunks of each response as one response.

    The places where calls begin go into ``places``, and calls of a choice that never ended (no
    ``finish_reason``) into ``torn``.
    """
    if not any(_is_chunk(item) for item, _ in items):
        return items
    merged: list[tuple[Any, str]] = []
    stream: _Stream | None = None
    for item, where in items:
        if not _has_choices(item) or (item["choices"] and not _is_chunk(item)):
            merged.append((item, where))
            stream = None
            continue
        if stream is None or stream.is_over(item):
            stream = _Stream(places, torn)
            merged.append((stream.response, where))
        stream.add(item, where)
    return merged


def _is_chunk(item: Any) -> bool:
    return isinstance(item, dict) and any(
        isinstance(choice.get("delta"), dict) for _, choice in dicts(item.get("choices"))
    )


class _Stream:
    """The chunks of one response, merged into ``response``.

    Tool calls merge by choice, and by id or index; a new id on a used index begins a new call.
    """

    def __init__(self, places: dict[int, str], torn: set[int]) -> None:
        self.response: dict[str, Any] = {"choices": []}
        self._places = places
        self._torn = torn
        self._messages: dict[Any, dict[str, Any]] = {}
        self._at_index: dict[tuple[Any, Any], dict[str, Any]] = {}
        self._by_id: dict[tuple[Any, Any], dict[str, Any]] = {}
        self._finished: set[Any] = set()

    def is_over(self, chunk: dict[str, Any]) -> bool:
        """Whether ``chunk`` begins another response: some senders give each chunk an id."""
        known, name = self.response.get("id"), chunk.get("id")
        return bool(known and name and known != name) and any(
            key_of(choice.get("index", 0)) in self._finished
            or (isinstance(choice.get("delta"), dict) and bool(choice["delta"].get("role")))
            for _, choice in dicts(chunk.get("choices"))
        )

    def add(self, chunk: dict[str, Any], where: str) -> None:
        """Take the next chunk, which stands at ``where``."""
        for key in ("model", "created", "usage", "id"):
            if chunk.get(key) is not None:
                self.response[key] = chunk[key]
        for position, choice in dicts(chunk["choices"]):
            number = key_of(choice.get("index", 0))
            message = self._messages.get(number)
            if message is None:
                message = {"role": "assistant", "content": None}
                self._messages[number] = message
                self.response["choices"].append({"index": number, "message": message})
            if choice.get("finish_reason"):
                self._finished.add(number)
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._add_delta(number, message, delta, f"{where}.choices[{position}].delta")
            if number in self._finished:
                calls = [*message.get("tool_calls", []), message.get("function_call")]
                self._torn.difference_update(map(id, calls))

    def _add_delta(
        self, number: Any, message: dict[str, Any], delta: dict[str, Any], where: str
    ) -> None:
        for key in ("content", "refusal"):
            if isinstance(delta.get(key), str):
                message[key] = (message.get(key) or "") + delta[key]
        if isinstance(delta.get("function_call"), dict):
            legacy = message.setdefault("function_call", {})
            self._places.setdefault(id(legacy), f"{where}.function_call")
            self._torn.add(id(legacy))
            _merge_function(legacy, delta["function_call"])
        for spot, piece in dicts(delta.get("tool_calls")):
            slot, incoming = (number, key_of(piece.get("index"))), key_of(piece.get("id"))
            known = self._at_index.get(slot)
            if incoming and (known is None or known.get("id") not in (None, incoming)):
                known = self._by_id.get((number, incoming))
            if known is None:
                known = {}
                message.setdefault("tool_calls", []).append(known)
                self._places[id(known)] = f"{where}.tool_calls[{spot}]"
                self._torn.add(id(known))
            self._at_index[slot] = known
            # Some senders repeat a call's id and name on each of its pieces.
            is_repeated = incoming is not None and known.get("id") == incoming
            if incoming:
                known["id"] = incoming
                self._by_id[number, incoming] = known
            if piece.get("type"):
                known["type"] = piece["type"]
            for kind in ("function", "custom"):
                if isinstance(piece.get(kind), dict):
                    _merge_function(known.setdefault(kind, {}), piece[kind], is_repeated)


def _merge_function(
    known: dict[str, Any], piece: dict[str, Any], is_repeated: bool = False
) -> None:
    for key in ("name", "arguments", "input"):
        if isinstance(piece.get(key), str):
            if key == "name" and is_repeated and known.get(key) == piece[key]:
                continue
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


def _read_message(
    talk: Conversation,
    message: dict[str, Any],
    where: str,
    known: Container[tuple[type, Any]] = (),
) -> None:
    """Read one message; calls whose ids are among ``known`` are there already."""
    role = message.get("role")
    content = message.get("content")
    if role == "assistant":
        talk.turn(None)
        text = text_of(content)
        talk.text(text if text else message.get("refusal"))
        _read_calls(talk, message, where, known)
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


def _read_calls(
    talk: Conversation, message: dict[str, Any], where: str, known: Container[tuple[type, Any]]
) -> None:
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        raw = legacy.get("arguments")
        arguments = ABSENT_ARGUMENTS if talk.never_came(legacy, raw) else read_arguments(raw)
        place = talk.places.get(id(legacy), f"{where}.function_call")
        talk.call(new_call(legacy.get("name"), arguments, request_locator=place))
    for index, item in dicts(message.get("tool_calls")):
        place = talk.places.get(id(item), f"{where}.tool_calls[{index}]")
        key = call_key(item.get("id"))
        if key is not None and (type(key), key) in known:
            continue
        if isinstance(item.get("custom"), dict):
            custom = item["custom"]
            raw = custom.get("input")
            arguments = ABSENT_ARGUMENTS if talk.never_came(item, raw) else text_arguments(raw)
            call = new_call(custom.get("name"), arguments)
        else:
            function = item.get("function")
            function = function if isinstance(function, dict) else item
            raw = function.get("arguments")
            arguments = ABSENT_ARGUMENTS if talk.never_came(item, raw) else read_arguments(raw)
            call = new_call(function.get("name"), arguments)
        call.request_locator = place
        call.executor = "client"
        talk.call(call, key)
