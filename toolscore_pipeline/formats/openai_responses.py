"""OpenAI Responses: response objects, item lists, requests with their input, streamed events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    ABSENT_ARGUMENTS,
    Arguments,
    Conversation,
    Detection,
    Entry,
    Names,
    Reply,
    add_usage,
    apply_reply,
    decode_arguments,
    dicts,
    error_text,
    id_text,
    instant,
    is_error_value,
    new_call,
    one_text,
    read_arguments,
    text_arguments,
    text_of,
)
from toolscore_pipeline.jsonio import strict_loads
from toolscore_pipeline.model import MISSING, Call, Run

NAME = "openai_responses"

_CALL_TYPES = Names(
    {
        "function_call", "custom_tool_call", "mcp_call", "code_interpreter_call",
        "web_search_call", "file_search_call", "shell_call", "local_shell_call",
        "apply_patch_call", "computer_call", "tool_search_call", "image_generation_call",
        "program",
    }
)  # fmt: skip
_OUTPUT_TYPES = Names(
    {
        "function_call_output", "custom_tool_call_output", "shell_call_output",
        "local_shell_call_output", "apply_patch_call_output", "computer_call_output",
        "tool_search_output", "program_output",
    }
)  # fmt: skip
_OTHER_TYPES = Names(
    {
        "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "reasoning",
        "compaction", "additional_tools", "item_reference",
    }
)  # fmt: skip
_ITEM_TYPES = Names({*_CALL_TYPES, *_OUTPUT_TYPES, *_OTHER_TYPES})
_SERVER_TYPES = Names(
    {"code_interpreter_call", "web_search_call", "file_search_call", "image_generation_call"}
)


def detect(value: Any) -> Detection | None:
    """A response object, a list of them, a list of items, or streamed ``response.*`` events."""
    if isinstance(value, dict):
        if _is_event(value):
            return Detection(NAME, 0.9, "a 'response.*' event")
        if _has_response(value):
            return Detection(NAME, 0.95, "a response object with 'output' items")
        if value.get("type") in _ITEM_TYPES:
            return Detection(NAME, 0.85, f"an item of type {value['type']!r}")
        if isinstance(value.get("input"), list) and _count_items(value["input"]):
            return Detection(NAME, 0.9, "an 'input' list with Responses items")
        return None
    if isinstance(value, list) and value:
        if all(isinstance(item, dict) and _is_event(item) for item in value):
            return Detection(NAME, 0.95, "a list of 'response.*' events")
        if any(isinstance(item, dict) and _has_response(item) for item in value):
            return Detection(NAME, 0.95, "a list with response objects")
        count = _count_items(value)
        if count:
            return Detection(NAME, 0.92, f"a list with {count} Responses item(s)")
    return None


def _is_response(value: dict[str, Any]) -> bool:
    if value.get("object") == "response":
        return True
    output = value.get("output")
    return (
        isinstance(output, list)
        and bool(output)
        and all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in output)
        and any(item["type"] in _ITEM_TYPES or item["type"] == "message" for item in output)
    )


def _has_response(value: dict[str, Any]) -> bool:
    """Whether ``value`` is a response, or a request together with its response."""
    response = value.get("response")
    return _is_response(value) or (isinstance(response, dict) and _is_response(response))


def _is_event(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and (
        kind.startswith("response.") or kind in ("error", "keepalive")
    )


def _count_items(items: list[Any]) -> int:
    return sum(isinstance(item, dict) and item.get("type") in _ITEM_TYPES for item in items)


def is_fragment(record: Any) -> bool:
    """One item or one streamed event, alone on its line."""
    if not isinstance(record, dict):
        return False
    return record.get("type") in _ITEM_TYPES or (
        _is_event(record) and record.get("object") != "response"
    )


def read(value: Any) -> list[Run]:
    """One run: the items of every response, in order."""
    reader = _Reader()
    if isinstance(value, dict):
        if _is_event(value):
            value = [value]
        else:
            reader.document(value, "$")
            return [reader.finish()]
    if not isinstance(value, list):
        raise InputError("Responses items must be a list or an object")
    stream = _Stream(reader.talk)
    for index, item in enumerate(value):
        where = f"$[{index}]"
        if not isinstance(item, dict):
            raise InputError("an item must be an object", json_path=where)
        is_event = _is_event(item)
        if stream.is_open and (not is_event or stream.is_over(item)):
            reader.document(*stream.merged())
            stream = _Stream(reader.talk)
        if is_event:
            stream.add(item, where)
        elif _has_response(item) or isinstance(item.get("input"), list):
            reader.document(item, where)
        else:
            reader.item(item, where)
    if stream.is_open:
        reader.document(*stream.merged())
    return [reader.finish()]


class _Reader:
    def __init__(self) -> None:
        self.talk = Conversation(NAME)
        self._final: str | None = None
        self._approvals: dict[str, tuple[dict[str, Any], str, Entry | None]] = {}
        self._ids: dict[str, Any] = {}
        self._seen: set[tuple[str, str]] = set()
        self._shells: list[Call] = []

    def document(self, value: dict[str, Any], where: str) -> None:
        """A response object, or a request with its input and, perhaps, its output."""
        run = self.talk.run
        if isinstance(value.get("input"), str):
            self.talk.user(value["input"])
        items = value.get("input")
        if isinstance(items, list):
            for index, item in dicts(items):
                key = _item_key(item)
                if key is None or key not in self._seen:
                    self.item(item, f"{where}.input[{index}]")
        response = value.get("response")
        if isinstance(response, dict) and "output" not in value:
            value, where = response, f"{where}.response"
        self._turn()
        created = instant(value.get("created_at"))
        if created is not None and run.started_at is None:
            run.started_at = created.at
        for index, item in dicts(value.get("output")):
            self.item(item, self.talk.places.get(id(item), f"{where}.output[{index}]"))
        run.model = id_text(value.get("model")) or run.model
        add_usage(run, value.get("usage"))
        status = value.get("status")
        if isinstance(status, str):
            run.status = "error" if status == "failed" else status
        error = value.get("error")
        if is_error_value(error):
            run.error = error_text(error)
        elif isinstance(value.get("incomplete_details"), dict):
            run.warnings.append(f"incomplete: {value['incomplete_details'].get('reason')}")

    def _turn(self) -> None:
        self._final = None
        self.talk.turn(None)

    def item(self, item: dict[str, Any], where: str) -> None:
        """One item of input or output."""
        key = _item_key(item)
        if key is not None:
            self._seen.add(key)
        kind = item.get("type")
        if kind is None and "role" in item:
            kind = "message"
        if kind == "message":
            self._message(item)
        elif isinstance(kind, str) and kind in _READERS:
            _READERS[kind](self, item, where)
        elif kind in _OUTPUT_TYPES:
            self._output(item, where)
        elif isinstance(kind, str) and kind.endswith("_call") and "id" in item:
            call = self._server(item, where, kind.removesuffix("_call"), _any_arguments(item))
            call.warnings.append(f"an item of the unknown type {kind!r} was read as a call")
        elif kind not in _OTHER_TYPES:
            self.talk.run.warnings.append(f"an item of the unknown type {kind!r} at {where}")

    def _message(self, item: dict[str, Any]) -> None:
        role = item.get("role")
        content = item.get("content")
        if role == "user":
            self.talk.user(text_of(content))
            self._turn()
            return
        if role != "assistant":
            return
        texts = [text_of(content) or ""]
        for _, part in dicts(content):
            if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
                texts.append(part["refusal"])
        text = "".join(texts)
        phase = item.get("phase")
        if phase == "commentary":
            return
        self.talk.text(text)
        if phase == "final_answer":
            self._final = (self._final or "") + text

    # --- calls ------------------------------------------------------------------------------------

    def _ask(self, call: Call, item: dict[str, Any], where: str) -> Call:
        call.request_locator = where
        key = item.get("call_id")
        if key in (None, ""):
            key = item.get("id")
        elif isinstance(item.get("id"), str):
            self._ids[item["id"]] = key
        return self.talk.call(call, key)

    def _never_came(self, item: dict[str, Any], given: Any) -> bool:
        """Whether nothing came of arguments that were still being written."""
        is_unfinished = item.get("status") in ("in_progress", "incomplete")
        return self.talk.never_came(item, given, is_torn=is_unfinished)

    def function_call(self, item: dict[str, Any], where: str) -> None:
        raw = item.get("arguments")
        arguments = ABSENT_ARGUMENTS if self._never_came(item, raw) else read_arguments(raw)
        call = new_call(item.get("name"), arguments, executor="client")
        if item.get("status") == "incomplete":
            call.warnings.append("the request is incomplete")
        self._ask(call, item, where)

    def custom_tool_call(self, item: dict[str, Any], where: str) -> None:
        raw = item.get("input")
        arguments = ABSENT_ARGUMENTS if self._never_came(item, raw) else text_arguments(raw)
        self._ask(new_call(item.get("name"), arguments, executor="client"), item, where)

    def client_call(self, item: dict[str, Any], where: str) -> None:
        """A built-in tool that the client runs: its output is an item of its own."""
        kind = str(item["type"]).removesuffix("_call")
        call = new_call(kind, _any_arguments(item), executor="client")
        if kind == "tool_search":
            call.executor = "client" if item.get("execution") == "client" else "provider"
        elif kind == "program":
            call.executor = "provider"
        call = self._ask(call, item, where)
        if kind in ("shell", "local_shell"):
            self._shells.append(call)
        if item.get("status") == "failed":
            call.is_failed, call.outcome_basis = True, "explicit"

    def mcp_call(self, item: dict[str, Any], where: str) -> None:
        raw = item.get("arguments")
        arguments = ABSENT_ARGUMENTS if self._never_came(item, raw) else read_arguments(raw)
        call = new_call(item.get("name"), arguments, executor="mcp")
        self._embedded(call, item, where, item.get("output"), is_error_value(item.get("error")))
        if is_error_value(item.get("error")):
            call.error = item["error"]

    def server_call(self, item: dict[str, Any], where: str) -> None:
        """A built-in tool that the provider runs: everything is in the one item."""
        kind = str(item["type"]).removesuffix("_call")
        absent = kind == "code_interpreter" and self._never_came(item, item.get("code"))
        arguments = ABSENT_ARGUMENTS if absent else _any_arguments(item)
        self._server(item, where, kind, arguments)

    def _server(self, item: dict[str, Any], where: str, tool: str, arguments: Arguments) -> Call:
        call = new_call(tool, arguments, executor="provider")
        result = next(
            (item[key] for key in ("outputs", "results", "result") if item.get(key) is not None),
            None,
        )
        self._embedded(call, item, where, result, is_error_value(item.get("error")))
        if is_error_value(item.get("error")):
            call.error = item["error"]
        return call

    def _embedded(
        self, call: Call, item: dict[str, Any], where: str, result: Any, has_error: bool
    ) -> None:
        call.request_locator = where
        call.call_id = id_text(item.get("id"))
        known = len(self.talk.ledger.entries)
        kept = self.talk.call(call, item.get("id"))
        if kept is not call and len(self.talk.ledger.entries) == known:
            return
        status = item.get("status")
        reply = Reply(result=MISSING if result is None else result, is_explicit=True, locator=where)
        if has_error or status in ("failed", "incomplete"):
            reply.is_failed = True
        elif status == "completed" or result is not None:
            reply.is_explicit = True
        else:
            return
        self.talk.ledger.entries[-1].is_answered = True
        apply_reply(call, reply, "embedded")

    # --- outputs ----------------------------------------------------------------------------------

    def _output(self, item: dict[str, Any], where: str) -> None:
        kind = item["type"]
        output = next(
            (item[key] for key in ("output", "result", "tools") if item.get(key) is not None), None
        )
        reply = Reply(result="" if output is None else one_text(output), locator=where)
        name = item.get("name")
        reply.name = name if isinstance(name, str) else None
        status = item.get("status")
        if kind in ("shell_call_output", "local_shell_call_output"):
            code = _exit_failed(output)
            if code is not None:
                reply.is_failed, reply.is_explicit = code, True
        if kind == "apply_patch_call_output" and status in ("completed", "failed"):
            reply.is_failed, reply.is_explicit = status == "failed", True
        elif status in ("failed", "incomplete"):
            reply.is_failed, reply.is_explicit = True, True
        if is_error_value(item.get("error")):
            reply.error, reply.is_failed, reply.is_explicit = item["error"], True, True
        key = item.get("call_id")
        if key is None and isinstance(item.get("id"), str):
            if kind == "local_shell_call_output":
                key = self._ids.get(item["id"])
                if key is None and any(call.call_id == item["id"] for call in self._shells):
                    key = item["id"]
            else:
                key = self._ids.get(item["id"])
        if key is None and reply.name is None and kind != "function_call_output":
            reply.name = kind.removesuffix("_output").removesuffix("_call")
        self.talk.reply(reply, key)

    # --- approvals --------------------------------------------------------------------------------

    def approval_request(self, item: dict[str, Any], where: str) -> None:
        if isinstance(item.get("id"), str):
            before = self.talk.ledger.entries[-1:]
            self._approvals[item["id"]] = (item, where, before[0] if before else None)

    def approval_response(self, item: dict[str, Any], where: str) -> None:
        """A refused approval is one denied call; a granted one is followed by the call itself."""
        if item.get("approve") is not False:
            return
        known = self._approvals.get(str(item.get("approval_request_id")))
        if known is None:
            self.talk.run.warnings.append(f"the approval at {where} answers no recorded request")
            return
        request, asked, before = known
        call = new_call(request.get("name"), read_arguments(request.get("arguments")))
        call.executor = "mcp"
        call.request_locator = asked
        call.completion_locator = where
        call.is_denied = True
        call.deny_reason = id_text(item.get("reason"))
        call.pairing = "id"
        self.talk.call(call, request.get("id"))
        # It stands where it was asked for, not where it was refused.
        entries = self.talk.ledger.entries
        entry = entries.pop()
        entry.is_answered = True
        entries.insert(entries.index(before) + 1 if before is not None else 0, entry)

    def finish(self) -> Run:
        run = self.talk.finish()
        if self._final is not None:
            run.final_answer = self._final
        return run


_ItemReader = Callable[[_Reader, dict[str, Any], str], None]
_READERS: dict[Any, _ItemReader] = {
    "function_call": _Reader.function_call,
    "custom_tool_call": _Reader.custom_tool_call,
    "mcp_call": _Reader.mcp_call,
    "mcp_approval_request": _Reader.approval_request,
    "mcp_approval_response": _Reader.approval_response,
    **dict.fromkeys(_SERVER_TYPES, _Reader.server_call),
    **dict.fromkeys(
        (
            "shell_call", "local_shell_call", "apply_patch_call", "computer_call",
            "tool_search_call", "program",
        ),
        _Reader.client_call,
    ),
}  # fmt: skip


def _item_key(item: dict[str, Any]) -> tuple[str, str] | None:
    """What makes an item the same one when a later request repeats it."""
    kind = item.get("type")
    name = item.get("call_id") or item.get("id")
    return (str(kind), str(name)) if isinstance(kind, str) and name else None


def _any_arguments(item: dict[str, Any]) -> Arguments:
    """The arguments of a built-in tool: its action or operation, its code, or its queries."""
    for key in ("action", "operation"):
        if isinstance(item.get(key), dict):
            return Arguments(item[key], "ok")
    if isinstance(item.get("actions"), list):
        return Arguments({"actions": item["actions"]}, "ok")
    if isinstance(item.get("code"), str):
        return Arguments({"code": item["code"]}, "ok")
    if isinstance(item.get("queries"), list):
        return Arguments({"queries": item["queries"]}, "ok")
    if "arguments" in item:
        raw = item["arguments"]
        return decode_arguments(raw) if isinstance(raw, str) else read_arguments(raw)
    if "input" in item:
        return read_arguments(item["input"])
    return ABSENT_ARGUMENTS


def _exit_failed(output: Any) -> bool | None:
    """Whether a shell's output tells of a failure; None when it does not say."""
    if isinstance(output, list):
        outcomes = [part["outcome"] for _, part in dicts(output) if "outcome" in part]
        outcomes = [outcome for outcome in outcomes if isinstance(outcome, dict)]
        if not outcomes:
            return None
        return any(
            outcome.get("type") == "timeout" or outcome.get("exit_code") not in (0, None)
            for outcome in outcomes
        )
    if isinstance(output, str):
        try:
            output, _ = strict_loads(output)
        except InputError:
            return None
    if isinstance(output, dict):
        metadata = output.get("metadata")
        code = output.get(
            "exit_code", (metadata or {}).get("exit_code") if isinstance(metadata, dict) else None
        )
        if isinstance(code, int) and not isinstance(code, bool):
            return code != 0
    return None


class _Stream:
    """The events of one streamed response, merged into that response.

    Deltas are merged by item id; a finished item replaces what its deltas gave. The places where
    items begin go into ``talk.places``, and items that never ended into ``talk.torn``.
    """

    def __init__(self, talk: Conversation) -> None:
        self.is_open = False
        self._talk = talk
        self._where = "$"
        self._response: dict[str, Any] = {}
        self._items: dict[str, dict[str, Any]] = {}
        self._order: dict[str, int] = {}
        self._finished: set[str] = set()
        self._written: set[str] = set()

    def is_over(self, event: dict[str, Any]) -> bool:
        """Whether ``event`` belongs to a response after this one."""
        response = event.get("response")
        if event["type"] == "response.created":
            return True
        name = response.get("id") if isinstance(response, dict) else None
        known = self._response.get("id")
        return name is not None and known is not None and name != known

    def add(self, event: dict[str, Any], where: str) -> None:
        """Take the next event, which stands at ``where``."""
        self.is_open = True
        kind = event["type"]
        if isinstance(event.get("response"), dict):
            said = {key: item for key, item in event["response"].items() if item is not None}
            self._response.update(said)
            if said.get("output"):
                self._where = f"{where}.response"
        elif kind == "error":
            self._response["status"] = "failed"
            self._response["error"] = event.get("error") or event
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if isinstance(event.get("item"), dict):
                self._item(event, event["item"], f"{where}.item")
        else:
            name = str(event.get("item_id", ""))
            if name in self._items and name not in self._finished:
                _merge_delta(self._items[name], kind, event)
                if kind.rpartition(".")[2] in ("done", "completed", "failed"):
                    self._written.add(name)

    def _item(self, event: dict[str, Any], item: dict[str, Any], where: str) -> None:
        index, count = event.get("output_index"), len(self._items)
        name = str(item.get("id") or f"#{index if index is not None else count}")
        self._order.setdefault(name, index if isinstance(index, int) else 1_000_000 + count)
        known = self._items.get(name)
        if event["type"].endswith("done"):
            if known is not None:
                where = self._talk.places[id(known)]
            self._items[name] = item
            self._finished.add(name)
        elif known is None:
            self._items[name] = item = dict(item)
            if isinstance(item.get("content"), list):  # deltas are written into its parts
                item["content"] = [
                    dict(part) if isinstance(part, dict) else part for part in item["content"]
                ]
        self._talk.places[id(self._items[name])] = where

    def merged(self) -> tuple[dict[str, Any], str]:
        """The response, and the place of its list of items when the stream came to its end."""
        response = {"object": "response", **self._response}
        if not isinstance(response.get("output"), list) or not response["output"]:
            names = sorted(self._items, key=lambda name: self._order[name])
            response["output"] = [self._items[name] for name in names]
            if response.get("status") != "completed":
                ended = self._finished | self._written
                self._talk.torn.update(id(self._items[name]) for name in names if name not in ended)
        return response, self._where


_DELTA_FIELDS = {
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.code_interpreter_call_code": "code",
}


def _merge_delta(item: dict[str, Any], kind: str, event: dict[str, Any]) -> None:
    base, _, step = kind.rpartition(".")
    field = _DELTA_FIELDS.get(base)
    if base.endswith("_call") and step in ("completed", "failed"):
        item["status"] = step
    elif field is not None:
        if step == "delta" and isinstance(event.get("delta"), str):
            known = item.get(field)
            item[field] = (known if isinstance(known, str) else "") + event["delta"]
        elif step == "done" and isinstance(event.get(field), str):
            item[field] = event[field]
    elif base == "response.output_text" and step == "delta":
        content = item.get("content")
        if not isinstance(content, list):
            content = item["content"] = []
        index = event.get("content_index")
        spot = index if isinstance(index, int) and 0 <= index <= len(content) else len(content)
        if spot == len(content):
            content.append({"type": "output_text", "text": ""})
        part = content[spot]
        if isinstance(part, dict):
            part["text"] = str(part.get("text") or "") + str(event.get("delta", ""))
