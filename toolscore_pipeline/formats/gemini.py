"""Gemini: contents, requests, responses, streamed chunks; camelCase or snake_case."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    Conversation,
    Detection,
    Names,
    Reply,
    add_usage,
    dicts,
    either,
    id_text,
    instant,
    is_error_value,
    new_call,
    read_arguments,
    repeated_count,
)
from toolscore_pipeline.model import MISSING, Call, Run

NAME = "gemini"

_PART_KEYS = Names(
    {
        "functionCall", "function_call", "functionResponse", "function_response",
        "executableCode", "executable_code", "codeExecutionResult", "code_execution_result",
        "toolCall", "tool_call", "toolResponse", "tool_response",
    }
)  # fmt: skip
_BAD_FINISHES = Names(
    {
        "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE",
    }
)  # fmt: skip
_CODE_TOOL = "code_execution"


def detect(value: Any) -> Detection | None:
    """Contents with ``parts``, a response with ``candidates``, or a list of either."""
    if isinstance(value, dict):
        if isinstance(value.get("candidates"), list):
            return Detection(NAME, 0.95, "a response with 'candidates'")
        if isinstance(value.get("contents"), list) and _are_contents(value["contents"]):
            return Detection(NAME, 0.95, "a request with 'contents'")
        if isinstance(value.get("parts"), list) and _is_content(value):
            return Detection(NAME, 0.85, "a content with 'parts'")
        return None
    if isinstance(value, list) and value:
        if all(isinstance(item, dict) and "candidates" in item for item in value):
            return Detection(NAME, 0.95, "a list of responses with 'candidates'")
        if _are_contents(value):
            return Detection(NAME, 0.9, "a list of contents with 'parts'")
        if all(
            isinstance(item, dict)
            and ("candidates" in item or "contents" in item or _is_content(item))
            for item in value
        ):
            return Detection(NAME, 0.85, "a list of contents and responses")
    return None


def _are_contents(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and _is_content(item) for item in items) and bool(items)


def _is_content(item: dict[str, Any]) -> bool:
    parts = item.get("parts")
    if not isinstance(parts, list) or "content" in item:
        return False
    # OpenTelemetry's parts have a "type"; Gemini's never do.
    return all(isinstance(part, dict) and "type" not in part for part in parts)


def is_fragment(record: Any) -> bool:
    """One content, or one response (streamed chunks are such), alone on its line."""
    if not isinstance(record, dict):
        return False
    return "candidates" in record or ("parts" in record and _is_content(record))


def read(value: Any) -> list[Run]:
    """One run."""
    reader = _Reader()
    if isinstance(value, dict):
        reader.document(value, "$")
    elif isinstance(value, list):
        previous = None
        for index, item in enumerate(value):
            where = f"$[{index}]"
            if not isinstance(item, dict):
                raise InputError("a content must be an object", json_path=where)
            if "candidates" in item or "contents" in item:
                name = either(item, "responseId", "response_id")
                is_chunk = index > 0 and "candidates" in item and name == previous
                reader.document(item, where, is_chunk=is_chunk)
                previous = name
            else:
                reader.content(item, where)
    else:
        raise InputError("Gemini contents must be a list or an object")
    return [reader.finish()]


class _Reader:
    def __init__(self) -> None:
        self.talk = Conversation(NAME)
        self._turn = 0
        self._streamed: Call | None = None
        self._interim: dict[Any, list[Any]] = {}
        self._usage: Any = None
        self._earlier: list[Any] = []
        self._said: dict[str, Any] | None = None

    def document(self, value: dict[str, Any], where: str, *, is_chunk: bool = False) -> None:
        """A request, a response, or both in one object; ``is_chunk`` goes on with the last turn."""
        run = self.talk.run
        history = "automaticFunctionCallingHistory"
        for key in ("contents", history, "automatic_function_calling_history"):
            asked = value.get(key)
            if isinstance(asked, list):
                start = repeated_count(asked, self._earlier, self._said, _asks)
                for index, content in dicts(asked):
                    if index >= start:
                        self.content(content, f"{where}.{key}[{index}]")
                self._earlier, self._said = asked, None
        response = value.get("response")
        if "candidates" not in value and isinstance(response, dict):
            value, where = dict(response), f"{where}.response"
        candidates = value.get("candidates")
        if isinstance(candidates, list) and len(candidates) > 1:
            run.warnings.append(f"the first of {len(candidates)} candidates was read")
        for index, candidate in list(dicts(candidates))[:1]:
            place = f"{where}.candidates[{index}]"
            said = candidate.get("content")
            if isinstance(said, dict):
                role = said.get("role") or "model"
                said = {**said, "role": role}
                self.content(said, f"{place}.content", is_chunk=is_chunk)
                before = self._said["parts"] if is_chunk and self._said is not None else []
                parts = said.get("parts")
                self._said = {**said, "parts": before + (parts if isinstance(parts, list) else [])}
            reason = str(either(candidate, "finishReason", "finish_reason", default=""))
            if reason == "STOP":
                self._streamed = None  # some senders leave out the empty call that closes one
            if reason in _BAD_FINISHES:
                message = either(candidate, "finishMessage", "finish_message")
                run.warnings.append(
                    f"the model stopped with {reason}" + (f": {message}" if message else "")
                )
        run.model = id_text(either(value, "modelVersion", "model_version")) or run.model
        run.model = run.model or id_text(value.get("model"))
        created = instant(either(value, "createTime", "create_time"))
        if created is not None and run.started_at is None:
            run.started_at = created.at
        usage = either(value, "usageMetadata", "usage_metadata")
        if not is_chunk and self._usage is not None:
            add_usage(run, self._usage)
            self._usage = None
        if isinstance(usage, dict):  # each chunk of a stream repeats the total so far
            self._usage = usage

    def content(self, content: dict[str, Any], where: str, *, is_chunk: bool = False) -> None:
        """One content: the parts of one role."""
        role = content.get("role")
        if role == "model":
            if not is_chunk:
                self._turn += 1
            self.talk.turn(self._turn)
        texts = []
        for index, part in dicts(content.get("parts")):
            place = f"{where}.parts[{index}]"
            text = part.get("text")
            if isinstance(text, str):
                if role == "model" and not part.get("thought"):
                    self.talk.text(text)
                elif role in (None, "user"):
                    texts.append(text)
            for key, item in part.items():
                if key in _PART_KEYS and isinstance(item, dict):
                    self._part(key, item, place)
        self.talk.user("".join(texts))

    def _part(self, key: str, item: dict[str, Any], where: str) -> None:
        place = f"{where}.{key}"
        if key in ("functionCall", "function_call"):
            self._function_call(item, place)
        elif key in ("functionResponse", "function_response"):
            self._function_response(item, place)
        elif key in ("executableCode", "executable_code"):
            arguments = read_arguments({"code": item.get("code")})
            call = new_call(_CODE_TOOL, arguments, executor="provider", request_locator=place)
            self.talk.call(call, item.get("id"))
        elif key in ("codeExecutionResult", "code_execution_result"):
            outcome = str(item.get("outcome"))
            self.talk.reply(
                Reply(
                    result=item["output"] if item.get("output") is not None else "",
                    is_failed=outcome != "OUTCOME_OK",
                    is_explicit=True,
                    error=None if outcome == "OUTCOME_OK" else outcome,
                    name=_CODE_TOOL,
                    locator=place,
                ),
                item.get("id"),
            )
        elif key in ("toolCall", "tool_call"):
            name = either(item, "toolType", "tool_type")
            call = new_call(name, read_arguments(item.get("args")), executor="provider")
            call.request_locator = place
            self.talk.call(call, item.get("id"))
        else:
            name = id_text(either(item, "toolType", "tool_type"))
            self.talk.reply(_reply(item.get("response"), name, place), item.get("id"))

    def _function_call(self, item: dict[str, Any], where: str) -> None:
        pieces = either(item, "partialArgs", "partial_args")
        goes_on = either(item, "willContinue", "will_continue") is True
        if self._streamed is not None and item.get("name") in (None, ""):
            _merge_partial(self._streamed, pieces)
            if not goes_on:
                self._streamed = None
            return
        if not item.get("name") and not pieces and item.get("args") is None:
            return  # the empty call that closes a stream
        call = new_call(item.get("name"), read_arguments(item.get("args")), executor="client")
        call.request_locator = where
        if pieces or goes_on:
            # Pieces are written into a copy: the document is the caller's.
            call.args = deepcopy(call.args)
            _merge_partial(call, pieces)
        self._streamed = call if goes_on else None
        self.talk.call(call, item.get("id"))

    def _function_response(self, item: dict[str, Any], where: str) -> None:
        key, name = item.get("id"), id_text(item.get("name"))
        reply = _reply(item.get("response"), name, where)
        parts = item.get("parts")
        if isinstance(parts, list) and parts:
            reply.result = {"output": reply.result or None, "parts": parts}
        slot = key if key is not None else name
        if either(item, "willContinue", "will_continue") is True:
            self._interim.setdefault(slot, []).append(reply.result)
            return
        earlier = self._interim.pop(slot, None)
        if earlier:
            reply.result = [*earlier, reply.result] if reply.result is not MISSING else earlier
        self.talk.reply(reply, key)

    def finish(self) -> Run:
        if self._streamed is not None:
            _break_off(self._streamed)
        add_usage(self.talk.run, self._usage)
        for slot in self._interim:
            self.talk.run.warnings.append(f"the result for {slot!r} never ended")
        return self.talk.finish()


def _asks(content: Any) -> Any:
    """The calls that an answer asks for; None when the content is no answer."""
    if not isinstance(content, dict) or content.get("role") != "model":
        return None
    calls = [
        either(part, "functionCall", "function_call") for _, part in dicts(content.get("parts"))
    ]
    return [(call.get("name"), call.get("args")) for _, call in dicts(calls)]


def _reply(response: Any, name: str | None, where: str) -> Reply:
    """``output`` is the result and ``error`` the failure; with neither, the whole is the result."""
    reply = Reply(is_explicit=True, name=name, locator=where)
    if not isinstance(response, dict):
        reply.result = "" if response is None else response
        reply.is_explicit = False
        return reply
    if is_error_value(response.get("error")):
        reply.error, reply.is_failed = response["error"], True
        if "output" in response:
            reply.result = response["output"]
        return reply
    reply.result = response.get("output", response)
    return reply


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")


def _merge_partial(call: Call, pieces: Any) -> None:
    """Put streamed argument pieces in their places; texts at one place are joined."""
    args = call.args if call.args is not None else {}
    call.args = args
    if call.args_status == "empty" and pieces:
        call.args_status = "ok"
    for _, piece in dicts(pieces):
        path = either(piece, "jsonPath", "json_path")
        value, is_text = _piece_value(piece)
        steps: list[str | int] = [
            int(index) if index else name or single or double
            for name, index, single, double in _STEP.findall(str(path))
        ]
        if not steps or not _put(args, steps, value, is_text=is_text):
            call.warnings.append(f"a piece of its arguments has no place ({path})")


def _break_off(call: Call) -> None:
    """The stream ended inside a call's arguments: what came of them is not the whole."""
    if call.args:
        call.args_status = "invalid"
    else:
        call.args, call.args_status = None, "absent"
    call.warnings.append("the trace ends before its arguments do")


def _piece_value(piece: dict[str, Any]) -> tuple[Any, bool]:
    for key in ("stringValue", "string_value"):
        if key in piece:
            return piece[key], True
    for key in ("numberValue", "number_value", "boolValue", "bool_value"):
        if key in piece:
            return piece[key], False
    is_null = "nullValue" in piece or "null_value" in piece
    return None if is_null else "", not is_null


def _put(target: Any, steps: list[str | int], value: Any, *, is_text: bool) -> bool:
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int) != isinstance(target, list):
            return False
        if isinstance(step, int):
            if step > len(target):
                return False
            if step == len(target):
                target.append(None)
        known = target[step] if isinstance(step, int) else target.get(step)
        if following is None:
            joined = is_text and isinstance(known, str) and isinstance(value, str)
            target[step] = known + value if joined else value
            return True
        if known is None:
            known = [] if isinstance(following, int) else {}
            target[step] = known
        target = known
    return False
