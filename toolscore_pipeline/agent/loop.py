"""The agent loop: one task, one model, one server, one run."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

from toolscore_pipeline.agent.budget import Budget, Limits
from toolscore_pipeline.agent.guard import DENIED, Guard, GuardCall, GuardError, decide
from toolscore_pipeline.agent.mcp_client import MCPServerError, Tool, ToolResult
from toolscore_pipeline.agent.prices import Price, Usage, find_price
from toolscore_pipeline.agent.providers import (
    Conversation,
    Provider,
    ProviderError,
    ToolAnswer,
    ToolRequest,
    Turn,
    provider_error,
    provider_names,
)
from toolscore_pipeline.errors import SettingsError
from toolscore_pipeline.hashing import canonical_json

Status = Literal["completed", "limit_reached", "budget_stopped", "error"]
"""How a run ended."""

HIDDEN_TOKENS = 1024
"""Tokens a provider may add to a request by itself (its own instructions for using tools)."""

ITEM_TOKENS = 64
"""Tokens a provider may add around each message or result."""

MAX_WAIT_SECONDS = 60.0
"""The longest wait for a rate limit, whatever the provider asks for."""


class ToolClient(Protocol):
    """What the loop needs of a server's client."""

    def list_tools(self) -> list[Tool]:
        """The server's tools."""

    def call_tool(self, name: str, args: dict[str, Any]) -> ToolResult:
        """Call one of them."""


@dataclass(slots=True)
class CallRecord:
    """One tool call the model asked for, whether it was made or not.

    Attributes:
        id: the provider's call id.
        tool: the tool's name as the server gives it (as the model gave it, when unknown).
        provider_name: the name the model used.
        args: the arguments; ``{"raw": text}`` when they were no JSON object.
        result: the result's text, or its content blocks; None when the call was not made.
        structured: the structured content, if any.
        is_error: whether the model was told of an error; None when it was told nothing.
        error: the error's text.
        duration: wall-clock seconds of the call; None when it was not made.
        denied: whether a guard denied it.
        deny_reason: why.
        turn: the 1-based number of the model call that asked for it.
    """

    id: str
    tool: str
    provider_name: str
    args: dict[str, Any]
    result: Any = None
    structured: Any = None
    is_error: bool | None = None
    error: str | None = None
    duration: float | None = None
    denied: bool = False
    deny_reason: str | None = None
    turn: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class AgentRun:
    """What happened in one run.

    Attributes:
        run_id: an identifier of this attempt.
        status: ``completed``, ``limit_reached``, ``budget_stopped`` or ``error``.
        stop_reason: the provider's word for why the last turn ended, or the limit that was reached.
        error: what failed, for status ``error`` and ``budget_stopped``.
        calls: every call the model asked for, in order.
        final_answer: the text of the last turn when it asked for no call; None without one.
        usage: the tokens of all model calls, as reported.
        model: the model that answered, as the provider names it; None without an answer.
        turns: model calls that were answered.
        retries: waits for a rate limit.
        cost_usd: the cost in US dollars; None when the price is unknown or a call's usage is.
        counted_usd: what the run is counted as against the budget; above the cost when a call's
            usage is not known, whose worst case is then counted.
        price: the price it was counted with; None when unknown.
        started_at: when it began (aware, UTC).
        ended_at: when it ended.
        duration: wall-clock seconds.
    """

    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    status: Status = "completed"
    stop_reason: str | None = None
    error: str | None = None
    calls: list[CallRecord] = field(default_factory=list)
    final_answer: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    turns: int = 0
    retries: int = 0
    cost_usd: float | None = None
    counted_usd: float = 0.0
    price: Price | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    duration: float = 0.0

    @property
    def guard_denials(self) -> list[dict[str, Any]]:
        """The calls a guard denied: ``id``, ``tool``, ``args`` and ``reason``."""
        return [
            {"id": call.id, "tool": call.tool, "args": call.args, "reason": call.deny_reason}
            for call in self.calls
            if call.denied
        ]


def run_agent(
    client: ToolClient,
    provider: Provider,
    prompt: str,
    *,
    system: str | None = None,
    guard: Guard | None = None,
    budget: Budget | None = None,
    price: Price | None = None,
    limits: Limits | None = None,
    max_output_tokens: int = 1024,
    extra: Mapping[str, Any] | None = None,
    allow_tools: Sequence[str] = ("*",),
    task_id: str = "",
    arm_id: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> AgentRun:
    """Run one task to its end and return what happened; failures are recorded, not raised.

    Args:
        client: a started client of an MCP server.
        provider: the model.
        prompt: the user's request.
        system: the system prompt.
        guard: asked before every tool call; a denied call never reaches the server.
        budget: asked before every model call; None is no cap.
        price: the model's price; None looks it up in the shipped table.
        limits: how long the run may go on.
        max_output_tokens: the most tokens one model call may write.
        extra: further request parameters.
        allow_tools: glob patterns of the tools the model is offered.
        task_id: the task's name, for the guard.
        arm_id: the arm's name, for the guard.
        sleep: waits the given seconds (for rate limits).

    Raises:
        SettingsError: when the price is unknown and the budget does not allow that; no call was
            made then.
    """
    extra = dict(extra or {})
    price = price or find_price(provider.name, provider.model, extra)
    budget = budget or Budget()
    if price is None and not budget.allow_unknown_price:
        raise SettingsError(
            f"the price of {provider.model!r} is not known: give it a price (pricing in a spec), "
            "or allow unknown prices, and then no budget can hold for it"
        )
    loop = _Loop(
        client,
        provider,
        Conversation(prompt),
        system,
        guard,
        budget,
        limits or Limits(),
        max_output_tokens,
        extra,
        tuple(allow_tools),
        (task_id, arm_id),
        sleep,
        AgentRun(price=price),
    )
    return loop.run()


class _Stopped(Exception):
    """Ends a run with a status and the reason."""

    def __init__(self, status: Status, error: str | None, stop_reason: str | None = None) -> None:
        self.status = status
        self.error = error
        self.stop_reason = stop_reason


@dataclass(slots=True)
class _Loop:
    client: ToolClient
    provider: Provider
    conversation: Conversation
    system: str | None
    guard: Guard | None
    budget: Budget
    limits: Limits
    max_output_tokens: int
    extra: dict[str, Any]
    allow_tools: tuple[str, ...]
    names_for_guard: tuple[str, str]
    sleep: Callable[[float], None]
    record: AgentRun
    tools: dict[str, Tool] = field(default_factory=dict)
    provider_names: dict[str, str] = field(default_factory=dict)
    is_cost_known: bool = True
    cost: Decimal = Decimal(0)
    counted: Decimal = Decimal(0)
    # The input tokens of the last answered call, and the size of that call's request.
    last_input: int | None = None
    last_turns: int = 0

    def run(self) -> AgentRun:
        record, started = self.record, time.monotonic()
        try:
            self._list_tools()
            self._converse()
        except _Stopped as stopped:
            record.status, record.error = stopped.status, stopped.error
            record.stop_reason = stopped.stop_reason or record.stop_reason
        except GuardError as error:
            record.status, record.error = "error", str(error)
        except MCPServerError as error:
            record.status, record.error = "error", str(error)
        record.ended_at = datetime.now(UTC)
        record.duration = round(time.monotonic() - started, 6)
        record.counted_usd = float(self.counted)
        if record.price is not None and self.is_cost_known:
            record.cost_usd = float(self.cost)
        return record

    def _list_tools(self) -> None:
        offered = [
            tool
            for tool in self.client.list_tools()
            if any(fnmatchcase(tool.name, pattern) for pattern in self.allow_tools)
        ]
        self.provider_names = provider_names(offered)
        self.tools = {self.provider_names[tool.name]: tool for tool in offered}

    def _converse(self) -> None:
        record = self.record
        for number in range(1, self.limits.max_turns + 1):
            turn = self._ask()
            record.turns += 1
            record.model = turn.model or record.model
            record.stop_reason = turn.stop_reason
            if turn.stop in ("truncated", "refused"):
                # The arguments of a call may be cut off as well, so none is made.
                reason = f"the model's turn ended with {turn.stop_reason}"
                self._note_unmade(turn.calls, number, reason)
                record.final_answer = turn.text
                if turn.stop == "truncated":
                    raise _Stopped("limit_reached", None, "max_output_tokens")
                return
            if not turn.calls and turn.stop != "paused":
                record.final_answer = turn.text
                return
            answers = []
            for position, call in enumerate(turn.calls):
                if len(record.calls) >= self.limits.max_calls:
                    reason = f"the limit of {self.limits.max_calls} calls was reached"
                    self._note_unmade(turn.calls[position:], number, reason)
                    raise _Stopped("limit_reached", None, "max_calls")
                answers.append(self._call(call, number))
            self.conversation.turns.append((turn, tuple(answers)))
        raise _Stopped("limit_reached", None, "max_turns")

    def _note_unmade(self, requests: Sequence[ToolRequest], number: int, reason: str) -> None:
        """Record calls that were asked for and not made."""
        for request in requests:
            record = self._new_record(request, number)
            record.is_error, record.error = True, f"not made: {reason}"
            self.record.calls.append(record)

    # --- model calls ------------------------------------------------------------------------------

    def _ask(self) -> Turn:
        request = self.provider.request(
            self.conversation,
            list(self.tools.values()),
            self.provider_names,
            system=self.system,
            max_output_tokens=self.max_output_tokens,
            extra=self.extra,
        )
        worst = self._worst_case(request)
        while True:
            if not self.budget.reserve(worst, self.record.run_id):
                raise _Stopped(
                    "budget_stopped",
                    f"the next model call may cost ${worst:.6f}, and ${self.budget.spent_usd:.6f} "
                    f"of ${self.budget.max_usd} are spent",
                    "budget",
                )
            counted = worst
            try:
                turn = self._send(request)
                counted = self._count(turn, worst)
                return turn
            except ProviderError as error:
                if error.may_be_billed:
                    self.is_cost_known = False
                else:
                    counted = Decimal(0)
                if not error.is_rate_limit or self.record.retries >= self.limits.max_retries:
                    raise _Stopped("error", f"the provider failed: {error}", "provider") from None
                wait = _wait_seconds(self.record.retries, error.retry_after, self.record.run_id)
            finally:
                self.budget.settle(worst, counted, self.record.run_id)
                self.counted += counted
            self.record.retries += 1
            self.sleep(wait)

    def _send(self, request: Mapping[str, Any]) -> Turn:
        """Make the call; whatever a provider fails with, the run has a row and the study goes on.

        Raises:
            ProviderError: when it fails.
        """
        try:
            return self.provider.send(request, self.limits.model_timeout)
        except Exception as error:
            raise provider_error(error) from error

    def _worst_case(self, request: Mapping[str, Any]) -> Decimal:
        """The most the next call can cost, in US dollars; 0 when the price is unknown."""
        price = self.record.price
        if price is None or price.is_free:
            return Decimal(0)
        return price.worst_cost(
            self._most_input_tokens(request),
            self.max_output_tokens,
            may_cache=self.provider.caches_by_itself or "cache_control" in json.dumps(self.extra),
        )

    def _most_input_tokens(self, request: Mapping[str, Any]) -> int:
        """The most tokens the request can come to.

        A token is at least one byte of text, so the request's own size is a bound. Once the
        provider has told how many tokens a request was, the next one is that many and at most the
        bytes of what was added.
        """
        whole = request_tokens(request)
        if self.last_input is None:
            return whole
        added = 0
        for turn, answers in self.conversation.turns[self.last_turns :]:
            written = turn.usage.output_tokens if turn.usage is not None else 0
            added += max(written, len(canonical_json(list(turn.items))))
            added += sum(len(answer.text.encode(errors="replace")) for answer in answers)
            added += ITEM_TOKENS * (len(turn.items) + len(answers) + 1)
            added += sum(len(answer.id) for answer in answers)
        return min(whole, self.last_input + added)

    def _count(self, turn: Turn, worst: Decimal) -> Decimal:
        """What an answered call is counted as."""
        if turn.usage is None:
            self.is_cost_known = False
            return worst
        self.record.usage = self.record.usage + turn.usage
        self.last_input, self.last_turns = turn.usage.input_tokens, len(self.conversation.turns)
        if self.record.price is None:
            return Decimal(0)
        cost = self.record.price.cost(turn.usage)
        self.cost += cost
        return cost

    # --- tool calls -------------------------------------------------------------------------------

    def _new_record(self, request: ToolRequest, number: int) -> CallRecord:
        tool = self.tools.get(request.name)
        args = request.args if request.args is not None else {"raw": request.raw}
        return CallRecord(
            request.id, tool.name if tool else request.name, request.name, args, turn=number
        )

    def _call(self, request: ToolRequest, number: int) -> ToolAnswer:
        """Make one call, or say why not; the answer goes to the model."""
        record = self._new_record(request, number)
        self.record.calls.append(record)
        if request.args is None:
            return self._refuse(record, "the arguments are not a JSON object")
        if request.name not in self.tools:
            return self._refuse(record, f"there is no tool {request.name!r}")
        task_id, arm_id = self.names_for_guard
        call = GuardCall(
            record.tool, record.args, record.id, len(self.record.calls) - 1, task_id, arm_id
        )
        decision = decide(self.guard, call)
        if not decision.is_allowed:
            record.denied, record.deny_reason = True, decision.reason
            return self._refuse(record, DENIED + decision.reason)
        return self._make(record)

    def _refuse(self, record: CallRecord, reason: str) -> ToolAnswer:
        record.is_error, record.error = True, reason
        return ToolAnswer(record.id, reason, True)

    def _make(self, record: CallRecord) -> ToolAnswer:
        started = time.monotonic()
        try:
            result = self.client.call_tool(record.tool, record.args)
        except MCPServerError as error:
            record.is_error, record.error = True, str(error)
            raise
        finally:
            record.duration = round(time.monotonic() - started, 6)
        record.result, record.structured = result.result, result.structured
        record.is_error, record.error = result.is_error, result.error
        return ToolAnswer(record.id, _answer_text(result), result.is_error)


def request_tokens(request: Mapping[str, Any]) -> int:
    """The most input tokens a request can come to: its bytes, and what a provider may add."""
    return len(canonical_json(dict(request))) + HIDDEN_TOKENS


def _answer_text(result: ToolResult) -> str:
    """What the model reads of a result; content that is no text is named, not sent."""
    if result.is_error and result.error is not None:
        return result.error
    if isinstance(result.result, list):
        return "\n".join(
            str(block.get("text") or f"[{block.get('type')} {block.get('mimeType') or ''}]")
            for block in result.result
        )
    if not result.result and result.structured is not None:
        return json.dumps(result.structured, ensure_ascii=False)
    return str(result.result or "")


def _wait_seconds(retries: int, asked: float | None, run_id: str) -> float:
    """Seconds before the next try: what the provider asks for, else about 1, 2, 4 and so on."""
    if asked is not None:
        return min(asked, MAX_WAIT_SECONDS)
    spread = random.Random(f"{run_id}:{retries}").uniform(0.75, 1.25)
    return min(2.0**retries * spread, MAX_WAIT_SECONDS)
