"""MCP sessions: JSON-RPC messages, 2025-06-18 to 2026-07-28, bare or in a log's envelopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    Detection,
    Instant,
    Ledger,
    Reply,
    either,
    first_of,
    id_text,
    instant,
    key_of,
    new_call,
    one_text,
    read_arguments,
)
from toolscore_pipeline.model import MISSING, Call, Run

NAME = "mcp"

_ENVELOPES = ("message", "payload", "data", "jsonrpc_message", "body", "frame")
_SERVER_METHODS = ("sampling/", "elicitation/", "roots/")
_SESSION_KEYS = ("sessionId", "session_id", "mcp-session-id", "Mcp-Session-Id", "session")
_TIME_KEYS = ("timestamp", "ts", "time", "at")
_DIRECTION_KEYS = ("direction", "dir", "from", "sender", "source")


def detect(value: Any) -> Detection | None:
    """JSON-RPC messages, in a list or under ``messages``, bare or in envelopes."""
    if isinstance(value, dict):
        for key in ("messages", "session", "log", "entries"):
            if isinstance(value.get(key), list) and _count(value[key]):
                return Detection(NAME, 0.95, f"JSON-RPC messages under {key!r}")
        return Detection(NAME, 0.9, "a JSON-RPC message") if _message(value) else None
    if isinstance(value, list) and value:
        count = _count(value)
        if 2 * count >= len(value) and count:
            return Detection(NAME, 0.95, f"a list with {count} JSON-RPC message(s)")
    return None


def _count(items: list[Any]) -> int:
    return sum(
        _count(item) > 0 if isinstance(item, list) else _message(item) is not None for item in items
    )


def _message(item: Any) -> dict[str, Any] | None:
    """The JSON-RPC message of a record, bare or in an envelope; None when there is none."""
    if not isinstance(item, dict):
        return None
    if item.get("jsonrpc") == "2.0":
        return item
    for key in _ENVELOPES:
        inner = item.get(key)
        if isinstance(inner, dict) and inner.get("jsonrpc") == "2.0":
            return inner
    return None


def is_fragment(record: Any) -> bool:
    """One message, bare or in an envelope, alone on its line."""
    return _message(record) is not None


def read(value: Any) -> list[Run]:
    """One run for each session that the envelopes name; one when they name none."""
    where = "$"
    if isinstance(value, dict):
        for key in ("messages", "session", "log", "entries"):
            if isinstance(value.get(key), list):
                value, where = value[key], f"$.{key}"
                break
        else:
            value = [value]
            return [_finish(reader) for reader in _readers(value, "$", is_single=True)]
    if not isinstance(value, list):
        raise InputError("MCP messages must be a list or an object")
    return [_finish(reader) for reader in _readers(value, where)]


def _readers(items: list[Any], where: str, *, is_single: bool = False) -> list[_Session]:
    sessions: dict[str | None, _Session] = {}
    for item, place in _flatten(items, where, is_single=is_single):
        message = _message(item)
        name = id_text(first_of(item, _SESSION_KEYS)) if message is not item else None
        session = sessions.setdefault(name, _Session(name))
        if message is None:
            session.skipped += 1
            continue
        at = None if message is item else instant(first_of(item, _TIME_KEYS))
        session.message(message, place, at, _direction(item) if message is not item else None)
    # Records without a session (a client's own notes) belong to no session of their own.
    named = [session for session in sessions.values() if session.name is not None]
    if named and None in sessions and not sessions[None].ledger.entries:
        del sessions[None]
    return list(sessions.values()) or [_Session(None)]


def _flatten(
    items: list[Any], where: str, *, is_single: bool = False
) -> Iterator[tuple[dict[str, Any], str]]:
    for index, item in enumerate(items):
        place = where if is_single else f"{where}[{index}]"
        if isinstance(item, list):
            yield from _flatten(item, place)
        elif isinstance(item, dict):
            yield item, place
        else:
            raise InputError("a message must be an object", json_path=place)


def _direction(item: dict[str, Any]) -> str | None:
    """``client`` or ``server``: who sent the message; None when the envelope does not say."""
    text = str(first_of(item, _DIRECTION_KEYS) or "").lower().replace(" ", "")
    if text in ("client", "out", "outgoing", "send", "sent", "request", "client->server",
                "client-to-server", "client_to_server", "c2s", "tx"):  # fmt: skip
        return "client"
    if text in ("server", "in", "incoming", "recv", "received", "response", "server->client",
                "server-to-client", "server_to_client", "s2c", "rx"):  # fmt: skip
        return "server"
    return None


@dataclass(slots=True)
class _Open:
    """A request whose answer is awaited."""

    key: Any
    method: str
    call: Call | None
    at: Instant | None
    root: Any = None


@dataclass(slots=True)
class _Session:
    """One session while it is read. Ids live apart by direction."""

    name: str | None
    ledger: Ledger = field(default_factory=Ledger)
    skipped: int = 0
    _open: list[_Open] = field(default_factory=list)
    _waiting: list[tuple[_Open, Any]] = field(default_factory=list)
    _tasks: dict[str, _Open] = field(default_factory=dict)
    _states: dict[str, dict[str, Any]] = field(default_factory=dict)
    _count: int = 0

    def message(
        self, message: dict[str, Any], where: str, at: Instant | None, direction: str | None
    ) -> None:
        method = message.get("method")
        if isinstance(method, str):
            if message.get("id") is not None:
                self._request(message, method, where, at, direction)
            elif method == "tools/call":
                params = message.get("params")
                call = self._new(params if isinstance(params, dict) else {}, where)
                call.warnings.append("it was sent without an id, so nothing can answer it")
                self.ledger.call(call, None, at)
            else:
                self._notification(message, method)
        elif "result" in message or "error" in message:
            self._response(message, where, at, direction)

    def _request(
        self,
        message: dict[str, Any],
        method: str,
        where: str,
        at: Instant | None,
        direction: str | None,
    ) -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        key = message["id"]
        if method == "tools/call":
            self._call(params, key, where, at)
        elif method == "tasks/result" and str(params.get("taskId")) in self._tasks:
            task = self._tasks[str(params["taskId"])]
            self._open.append(_Open(key, "tools/call", task.call, task.at, task.root))
        elif method == "tasks/get":
            self._open.append(_Open(key, method, None, at, str(params.get("taskId"))))
        else:
            is_server = method.startswith(_SERVER_METHODS) or direction == "server"
            kind = method if not is_server else f"server:{method}"
            self._open.append(_Open(key, kind, None, at))

    def _call(self, params: dict[str, Any], key: Any, where: str, at: Instant | None) -> None:
        name = params.get("name")
        answers = either(params, "inputResponses", "input_responses")
        state = either(params, "requestState", "request_state")
        if answers is not None or state is not None:
            for index, (waiting, asked) in enumerate(self._waiting):
                call = waiting.call
                is_same = asked == state or (asked is None and answers is not None)
                if call is not None and call.tool == name and is_same:
                    del self._waiting[index]
                    call.warnings.append(f"request {str(key)!r} at {where} goes on with it")
                    alias = _Open(key, "tools/call", call, waiting.at, waiting.root)
                    self._open.append(alias)
                    return
        for known in self._open:
            if known.method == "tools/call" and _is_same_id(known.key, key):
                # Used again before its answer: the ledger reports a conflict, or sees one call.
                self.ledger.call(self._new(params, where), known.root, at)
                return
        self._count += 1
        call = self._new(params, where)
        root = (self._count, key_of(key))
        kept = self.ledger.call(call, root, at)
        kept.call_id = id_text(key)
        self._open.append(_Open(key, "tools/call", kept, at, root))

    @staticmethod
    def _new(params: dict[str, Any], where: str) -> Call:
        return new_call(
            params.get("name"),
            read_arguments(params.get("arguments")),
            executor="mcp",
            request_locator=where,
        )

    def _notification(self, message: dict[str, Any], method: str) -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "notifications/cancelled":
            for known in self._open:
                if known.call is not None and _is_same_id(known.key, params.get("requestId")):
                    reason = params.get("reason")
                    known.call.warnings.append(
                        "it was cancelled" + (f": {reason}" if isinstance(reason, str) else "")
                    )
        elif method == "notifications/tasks/status" and "taskId" in params:
            self._states[str(params["taskId"])] = params

    def _response(
        self, message: dict[str, Any], where: str, at: Instant | None, direction: str | None
    ) -> None:
        key = message.get("id")
        if key is None:
            opened = [known for known in self._open if known.call is not None]
            if len(self._open) == 1 and opened:
                self._answer(opened[0], message, where, at, is_inferred=True)
            elif opened:
                self.ledger.warnings.append(
                    f"an error without an id at {where} faces {len(self._open)} open requests"
                )
            return
        found = self._find(key, message, direction)
        if found is None:
            self.ledger.warnings.append(
                f"the result for id {str(key)!r} at {where} answers no open request"
            )
            return
        if found.method == "tasks/get":
            self._open.remove(found)
            if isinstance(message.get("result"), dict):
                self._states[str(found.root)] = message["result"]
            return
        if found.call is None:
            self._open.remove(found)
            return
        self._answer(found, message, where, at)

    def _find(self, key: Any, message: dict[str, Any], direction: str | None) -> _Open | None:
        exact = [known for known in self._open if _is_same_id(known.key, key)]
        fitting = exact or [known for known in self._open if str(known.key) == str(key)]
        if len(fitting) < 2:
            return fitting[0] if fitting else None
        from_client = direction == "client" or (
            direction is None and _is_client_answer(message.get("result"))
        )
        for known in fitting:
            if known.method.startswith("server:") == from_client:
                return known
        return fitting[0]

    def _answer(
        self,
        found: _Open,
        message: dict[str, Any],
        where: str,
        at: Instant | None,
        *,
        is_inferred: bool = False,
    ) -> None:
        self._open.remove(found)
        reply = Reply(is_explicit=True, at=at, locator=where)
        if message.get("error") is not None:
            reply.error, reply.is_failed = message["error"], True
        else:
            result = message.get("result")
            if isinstance(result, dict):
                kind = either(result, "resultType", "result_type")
                if kind == "input_required":
                    state = either(result, "requestState", "request_state")
                    self._waiting.append((found, state))
                    return
                task = result.get("task")
                if isinstance(task, dict) and "taskId" in task and "content" not in result:
                    self._tasks[str(task["taskId"])] = found
                    self._states.setdefault(str(task["taskId"]), task)
                    return
                flag = either(result, "isError", "is_error")
                reply.is_error = flag if isinstance(flag, bool) else False
                reply.is_failed = reply.is_error
            reply.result = _result(result)
        self.ledger.reply(reply, found.root)
        if is_inferred and found.call is not None:
            found.call.pairing = "inferred"

    def settle(self) -> list[Call]:
        """The calls; a task that ended without its result being fetched has at least a state."""
        for name, opened in self._tasks.items():
            call, state = opened.call, self._states.get(name, {})
            if call is None or call.is_failed is not None or call.result is not MISSING:
                continue
            if state.get("status") == "failed":
                call.is_failed, call.outcome_basis = True, "explicit"
                call.error = state.get("statusMessage") or "the task failed"
        for waiting, _ in self._waiting:
            if waiting.call is not None:
                waiting.call.warnings.append("input was required and never given")
        return self.ledger.settle()


def _is_same_id(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)


def _is_client_answer(result: Any) -> bool:
    """Whether a result is one that clients give: of sampling, elicitation or roots."""
    if not isinstance(result, dict):
        return False
    return "roots" in result or "action" in result or ("role" in result and "model" in result)


def _result(result: Any) -> Any:
    """What a tool gave: its text when that is all, else the result as it stands."""
    if not isinstance(result, dict):
        return result
    content = result.get("content")
    # A null structuredContent is a value; in a Python dump, which writes null for all that is not
    # set (``_meta`` too, which is never null on the wire), it is none.
    structured = either(result, "structuredContent", "structured_content", default=MISSING)
    is_dump = "structured_content" in result or result.get("_meta", MISSING) is None
    if structured is None and is_dump:
        structured = MISSING
    if structured is MISSING and isinstance(content, list):
        text = one_text(content)
        if isinstance(text, str):
            return text
    return result


def _finish(session: _Session) -> Run:
    run = Run(format=NAME, calls=session.settle())
    run.warnings.extend(session.ledger.warnings)
    if session.name is not None:
        run.attributes = {"session_id": session.name}
    if session.skipped:
        run.warnings.append(f"{session.skipped} record(s) are no JSON-RPC messages")
    starts = [call.started_at for call in run.calls if call.started_at is not None]
    ends = [call.ended_at for call in run.calls if call.ended_at is not None]
    run.started_at = min(starts, default=None)
    run.ended_at = max(ends, default=None)
    return run
