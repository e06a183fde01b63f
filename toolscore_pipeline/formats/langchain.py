"""LangChain and LangGraph: the four dumps of messages, state dumps, and legacy agent actions."""

from __future__ import annotations

from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    Arguments,
    Conversation,
    Detection,
    Reply,
    add_usage,
    call_key,
    decode_arguments,
    dicts,
    id_text,
    key_of,
    new_call,
    one_text,
    read_arguments,
    text_arguments,
    text_of,
)
from toolscore_pipeline.model import MISSING, Call, Run

NAME = "langchain"

_TYPES = {
    "ai": "ai", "AIMessage": "ai", "AIMessageChunk": "ai",
    "human": "human", "HumanMessage": "human", "HumanMessageChunk": "human",
    "tool": "tool", "ToolMessage": "tool", "ToolMessageChunk": "tool",
    "function": "function", "FunctionMessage": "function", "FunctionMessageChunk": "function",
    "system": "system", "SystemMessage": "system", "SystemMessageChunk": "system",
    "chat": "chat", "ChatMessage": "chat", "ChatMessageChunk": "chat",
    "remove": "remove", "RemoveMessage": "remove",
}  # fmt: skip
_ROLE_TYPES = {"assistant": "ai", "user": "human", "tool": "tool"}


def detect(value: Any) -> Detection | None:
    """Message dumps, a state with ``messages``, stream updates, or agent actions."""
    if isinstance(value, dict):
        if _flat(value) is not None:
            return Detection(NAME, 0.85, "a LangChain message")
        for path, messages in _states(value):
            if messages and all(_flat(item) is not None for item in messages):
                return Detection(NAME, 0.94, f"LangChain messages under {path}")
        steps = value.get("intermediate_steps")
        if isinstance(steps, list):
            return Detection(NAME, 0.9, "an agent's 'intermediate_steps'")
        return Detection(NAME, 0.85, "an agent action") if _action(value) is not None else None
    if isinstance(value, list) and value:
        if all(_flat(item) is not None for item in value):
            return Detection(NAME, 0.94, "a list of LangChain messages")
        if all(_is_step(item) for item in value):
            return Detection(NAME, 0.9, "a list of agent actions")
        if all(isinstance(item, dict) and any(_states(item)) for item in value) and all(
            _flat(message) is not None
            for item in value
            for _, messages in _states(item)
            for message in messages
        ):
            return Detection(NAME, 0.9, "a list of LangGraph states")
    return None


def is_fragment(record: Any) -> bool:
    """One message, one agent action, or one stream update, alone on its line."""
    if not isinstance(record, dict) or isinstance(record.get("messages"), list):
        return False
    return _flat(record) is not None or _action(record) is not None


def read(value: Any) -> list[Run]:
    """One run."""
    reader = _Reader()
    if isinstance(value, dict):
        reader.document(value, "$")
    elif isinstance(value, list):
        if value and all(_is_step(item) for item in value):
            reader.steps(value, "$")
        else:
            reader.messages(value, "$")
    else:
        raise InputError("LangChain messages must be a list or an object")
    return [reader.finish()]


def _states(value: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """The message lists of a state, of a state snapshot, or of an update per node."""
    found = []
    if isinstance(value.get("messages"), list):
        found.append((".messages", value["messages"]))
        return found
    for key, part in value.items():
        if isinstance(part, dict):
            if isinstance(part.get("messages"), list):
                found.append((f".{key}.messages", part["messages"]))
            elif _flat(part.get("messages")) is not None:
                found.append((f".{key}", [part["messages"]]))
    return found


def _flat(message: Any) -> dict[str, Any] | None:
    """A message as a flat object whose ``type`` is LangChain's short name; None for others."""
    if not isinstance(message, dict):
        return None
    kind = message.get("type")
    if not isinstance(kind, str):
        return None
    if kind == "constructor" and isinstance(message.get("kwargs"), dict):
        names = message.get("id")
        name = names[-1] if isinstance(names, list) and names else None
        if not isinstance(name, str) or name not in _TYPES:
            return None
        return {**message["kwargs"], "type": _TYPES[name], "is_chunk": "Chunk" in name}
    if kind not in _TYPES or ("role" in message and kind != "chat"):
        return None
    if isinstance(message.get("data"), dict):
        return {**message["data"], "type": _TYPES[kind], "is_chunk": "Chunk" in kind}
    if "content" in message or kind == "remove":
        return {**message, "type": _TYPES[kind], "is_chunk": "Chunk" in kind}
    return None


def _action(value: Any) -> dict[str, Any] | None:
    """A legacy agent action as an object with ``tool`` and ``tool_input``; None for others."""
    if not isinstance(value, dict):
        return None
    action: dict[str, Any] = value
    if value.get("type") == "constructor" and isinstance(value.get("kwargs"), dict):
        action = value["kwargs"]
    if isinstance(action.get("tool"), str) and "tool_input" in action:
        return action
    return None


def _is_step(item: Any) -> bool:
    if isinstance(item, list):
        return len(item) == 2 and _action(item[0]) is not None
    return _action(item) is not None or (
        isinstance(item, dict) and _action(item.get("action")) is not None
    )


class _Reader:
    def __init__(self) -> None:
        self.talk = Conversation(NAME)
        self._attempts: dict[str, Call] = {}
        self._answer: str | None = None
        # Where what was merged from chunks began, by the object's identity.
        self._places: dict[int, str] = {}

    def document(self, value: dict[str, Any], where: str) -> None:
        flat = _flat(value)
        if flat is not None:
            self.messages([value], where, is_single=True)
            return
        steps = value.get("intermediate_steps")
        if isinstance(steps, list):
            self.talk.user(id_text(value.get("input")))
            self.steps(steps, f"{where}.intermediate_steps")
            if isinstance(value.get("output"), str):
                self._answer = value["output"]
            return
        if _action(value) is not None:
            self.steps([value], where, is_single=True)
            return
        states = _states(value)
        if not states:
            raise InputError("no LangChain messages here", json_path=where)
        for path, messages in states:
            self.messages(messages, f"{where}{path}")

    def messages(self, items: list[Any], where: str, *, is_single: bool = False) -> None:
        flats: list[tuple[dict[str, Any], str]] = []
        for index, item in enumerate(items):
            place = where if is_single else f"{where}[{index}]"
            flat = _flat(item)
            if flat is None:
                states = _states(item) if isinstance(item, dict) else []
                if not states:
                    raise InputError("not a LangChain message", json_path=place)
                for path, messages in states:
                    for number, message in enumerate(messages):
                        inner = _flat(message)
                        if inner is None:
                            raise InputError("not a LangChain message", json_path=place)
                        flats.append((inner, f"{place}{path}[{number}]"))
                continue
            flats.append((flat, place))
        seen: set[str] = set()
        for message, place in _merge_chunks(flats, self._places):
            # States of a stream repeat the messages so far; a message's id tells.
            name = message.get("id")
            if isinstance(name, str) and name and message.get("type") != "tool":
                if name in seen:
                    continue
                seen.add(name)
            self._message(message, place)

    def _message(self, message: dict[str, Any], where: str) -> None:
        kind = message["type"]
        if kind == "chat":
            kind = _ROLE_TYPES.get(str(message.get("role")), "chat")
        content = message.get("content")
        if kind == "human":
            self.talk.user(text_of(content))
        elif kind == "ai":
            self._ai(message, where)
        elif kind == "tool":
            self._tool(message, where)
        elif kind == "function":
            name = message.get("name")
            self.talk.reply(
                Reply(
                    result="" if content is None else one_text(content),
                    name=name if isinstance(name, str) else None,
                    locator=where,
                )
            )

    # --- the assistant's messages -----------------------------------------------------------------

    def _ai(self, message: dict[str, Any], where: str) -> None:
        talk = self.talk
        talk.turn(None)
        metadata = message.get("response_metadata")
        if isinstance(metadata, dict):
            name = metadata.get("model_name") or metadata.get("model")
            talk.run.model = talk.run.model or id_text(name)
        add_usage(talk.run, message.get("usage_metadata"))
        extra = message.get("additional_kwargs")
        extra = extra if isinstance(extra, dict) else {}
        raws = {
            item["id"]: item["function"].get("arguments")
            for _, item in dicts(extra.get("tool_calls"))
            if isinstance(item.get("function"), dict) and isinstance(item.get("id"), (str, int))
        }
        # By id; under None one of those without an id, should there be any.
        listed = {
            call_key(item.get("id")): (item, self._place(item, f"{where}.{key}[{index}]"), key)
            for key in ("tool_calls", "invalid_tool_calls")
            for index, item in dicts(message.get(key))
        }
        done: set[Any] = set()
        content = message.get("content")
        if isinstance(content, str):
            talk.text(content)
        for index, part in enumerate(content) if isinstance(content, list) else ():
            place = self._place(part, f"{where}.content[{index}]")
            self._part(part, place, listed, raws, done)
        count = 0
        for key in ("tool_calls", "invalid_tool_calls"):
            for index, item in dicts(message.get(key)):
                count += 1
                name = call_key(item.get("id"))
                if name is None or name not in done:
                    place = self._place(item, f"{where}.{key}[{index}]")
                    self._listed(item, place, key, raws)
        if not count and not done:
            self._from_extra(extra, where)

    def _place(self, item: Any, place: str) -> str:
        """Where an item stands: in the chunk that began it, when it was merged from several."""
        return self._places.get(id(item), place)

    def _part(
        self,
        part: Any,
        where: str,
        listed: dict[Any, tuple[dict[str, Any], str, str]],
        raws: dict[Any, Any],
        done: set[Any],
    ) -> None:
        if isinstance(part, str):
            self.talk.text(part)
            return
        if not isinstance(part, dict):
            return
        kind = part.get("type")
        if kind in ("text", "output_text"):
            self.talk.text(part.get("text"))
        elif kind in ("tool_use", "tool_call", "invalid_tool_call", "function_call"):
            key = call_key(part.get("call_id") if kind == "function_call" else part.get("id"))
            if key is None and None in listed:
                return  # nothing but the list tells calls without ids apart
            if key in listed:
                item, place, field = listed[key]
                self._listed(item, place, field, raws)
            else:
                args = part.get("input", part.get("args", part.get("arguments")))
                item = {"name": part.get("name"), "args": args, "id": key}
                field = "invalid_tool_calls" if kind == "invalid_tool_call" else "tool_calls"
                self._listed(item, where, field, raws)
            if key is not None:
                done.add(key)
        elif kind in ("server_tool_call", "server_tool_use"):
            args = read_arguments(part.get("args", part.get("input")))
            call = new_call(part.get("name"), args, executor="provider", request_locator=where)
            self.talk.call(call, part.get("id"))
            done.add(key_of(part.get("id")))
        elif kind == "server_tool_result":
            output = part.get("output")
            is_error = part.get("status") == "error"
            self.talk.reply(
                Reply(
                    result=MISSING if output is None else output,
                    is_error=is_error,
                    is_failed=is_error,
                    is_explicit=True,
                    locator=where,
                ),
                part.get("tool_call_id"),
            )
        elif isinstance(kind, str) and kind.endswith("_tool_result") and "tool_use_id" in part:
            from toolscore_pipeline.formats import anthropic

            anthropic.read_block(self.talk, part, where, "assistant")

    def _listed(self, item: dict[str, Any], where: str, field: str, raws: dict[Any, Any]) -> None:
        key = call_key(item.get("id"))
        raw = raws.get(key) if key is not None else None
        arguments = read_arguments(item.get("args"))
        if isinstance(raw, str) and arguments.status in ("ok", "empty"):
            again = decode_arguments(raw)
            arguments = Arguments(
                arguments.args, again.status if again.status == "empty" else arguments.status, raw
            )
        call = new_call(item.get("name"), arguments, executor="client", request_locator=where)
        if field == "invalid_tool_calls":
            if item.get("error"):
                call.warnings.append(f"invalid tool call: {item['error']}")
            else:
                call.warnings.append("invalid tool call: attempted, not executed")
        kept = self.talk.call(call, key)
        if field == "invalid_tool_calls" and key is not None:
            self._attempts[str(key)] = kept

    def _from_extra(self, extra: dict[str, Any], where: str) -> None:
        """Calls of old dumps, which keep only the provider's own form."""
        for index, item in dicts(extra.get("tool_calls")):
            function = item.get("function")
            if isinstance(function, dict):
                arguments = read_arguments(function.get("arguments"))
                place = f"{where}.additional_kwargs.tool_calls[{index}]"
                call = new_call(function.get("name"), arguments, executor="client")
                call.request_locator = place
                self.talk.call(call, item.get("id"))
        function = extra.get("function_call")
        if isinstance(function, dict):
            arguments = read_arguments(function.get("arguments"))
            call = new_call(function.get("name"), arguments, executor="client")
            call.request_locator = f"{where}.additional_kwargs.function_call"
            self.talk.call(call)

    def _tool(self, message: dict[str, Any], where: str) -> None:
        key = message.get("tool_call_id")
        is_error = message.get("status") == "error" or (
            key is not None and str(key) in self._attempts
        )
        content = message.get("content")
        name = message.get("name")
        self.talk.reply(
            Reply(
                result="" if content is None else one_text(content),
                is_error=is_error,
                is_failed=is_error,
                is_explicit=True,
                name=name if isinstance(name, str) and name else None,
                locator=where,
            ),
            key,
        )

    # --- agent actions ----------------------------------------------------------------------------

    def steps(self, items: list[Any], where: str, *, is_single: bool = False) -> None:
        """Legacy agent actions, alone or with what was observed."""
        for index, item in enumerate(items):
            place = where if is_single else f"{where}[{index}]"
            observed: Any = MISSING
            if isinstance(item, list) and len(item) == 2:
                action, observed, spot = _action(item[0]), item[1], f"{place}[0]"
            elif isinstance(item, dict) and _action(item.get("action")) is not None:
                action, spot = _action(item["action"]), f"{place}.action"
                observed = item.get("observation", MISSING)
            else:
                action, spot = _action(item), place
            if action is None:
                raise InputError("not an agent action", json_path=place)
            given = action["tool_input"]
            arguments = text_arguments(given) if isinstance(given, str) else read_arguments(given)
            call = new_call(action["tool"], arguments, executor="client", request_locator=spot)
            self.talk.call(call)
            if observed is not MISSING and observed is not None:
                call.result = observed
                call.is_failed, call.outcome_basis = False, "result_only"
                call.pairing, call.completion_locator = "embedded", place
                self.talk.ledger.entries[-1].is_answered = True

    def finish(self) -> Run:
        run = self.talk.finish()
        if self._answer is not None:
            run.final_answer = self._answer
        return run


def _merge_chunks(
    items: list[tuple[dict[str, Any], str]], places: dict[int, str]
) -> list[tuple[dict[str, Any], str]]:
    """Chunks of one message as one message; whole messages stay as they are.

    The places where calls and parts of the content begin go into ``places``.
    """
    merged: list[tuple[dict[str, Any], str]] = []
    slots: dict[Any, dict[str, Any]] = {}
    is_open = False
    for message, where in items:
        if not message.get("is_chunk") or message["type"] not in ("ai", "human"):
            merged.append((message, where))
            is_open = False
            continue
        last = merged[-1][0] if merged else None
        name = message.get("id")
        goes_on = (
            is_open
            and last is not None
            and last["type"] == message["type"]
            and (name is None or last.get("id") is None or name == last.get("id"))
        )
        if not goes_on:
            slots = {}
            start = dict(message)
            start["content"] = [] if isinstance(message.get("content"), list) else ""
            start["tool_calls"], start["invalid_tool_calls"] = [], []
            start["usage_metadata"] = None
            # Its raw calls are pieces too; the chunks' own list is what gets merged.
            start["additional_kwargs"] = {}
            merged.append((start, where))
            is_open = True
        whole = merged[-1][0]
        if whole.get("id") is None:
            whole["id"] = name
        content = message.get("content")
        for spot, part in enumerate(content) if isinstance(content, list) else ():
            if isinstance(part, dict):
                places[id(part)] = f"{where}.content[{spot}]"
        _add_content(whole, content)
        if isinstance(message.get("usage_metadata"), dict):
            whole["usage_metadata"] = message["usage_metadata"]
        metadata = message.get("response_metadata")
        if isinstance(metadata, dict) and metadata:
            known = whole.get("response_metadata")
            whole["response_metadata"] = {**(known if isinstance(known, dict) else {}), **metadata}
        pieces = list(dicts(message.get("tool_call_chunks")))
        for spot, piece in pieces:
            _add_piece(whole, slots, piece, f"{where}.tool_call_chunks[{spot}]", places)
        if not pieces:
            for spot, call in dicts(message.get("tool_calls")):
                places[id(call)] = f"{where}.tool_calls[{spot}]"
                whole["tool_calls"].append(call)
    return merged


def _add_content(whole: dict[str, Any], content: Any) -> None:
    known = whole["content"]
    if isinstance(content, str) and isinstance(known, str):
        whole["content"] = known + content
    elif isinstance(content, (str, list)) and content:
        left = [known] if isinstance(known, str) and known else known or []
        right = [content] if isinstance(content, str) else content
        # The pieces of a call's input inside the content are in the call chunks as well.
        whole["content"] = [*left, *(part for part in right if not _is_call_piece(part))]


def _is_call_piece(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in (
        "tool_use", "input_json_delta", "tool_call_chunk", "tool_call",
    )  # fmt: skip


def _add_piece(
    whole: dict[str, Any],
    slots: dict[Any, dict[str, Any]],
    piece: dict[str, Any],
    where: str,
    places: dict[int, str],
) -> None:
    index, name = key_of(piece.get("index")), piece.get("id")
    known = slots.get(index)
    if known is None or (name and known.get("id") and name != known["id"]):
        known = {"name": None, "args": None, "id": None}
        slots[index] = known
        whole["tool_calls"].append(known)
        places[id(known)] = where
    if name:
        known["id"] = name
    if isinstance(piece.get("name"), str):
        known["name"] = (known["name"] or "") + piece["name"]
    if isinstance(piece.get("args"), str):
        known["args"] = (known["args"] or "") + piece["args"]
