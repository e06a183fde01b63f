"""Model providers behind one shape: a request is built, sent, and read back as a turn.

Providers keep no state. The conversation is a list of neutral messages, each assistant message with
the provider's own items in it, so that nothing the provider sent (reasoning, signatures) is lost
when it is sent back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from toolscore_pipeline.agent.mcp_client import Tool
from toolscore_pipeline.agent.prices import Usage
from toolscore_pipeline.agent.scrub import KEY_NAMES
from toolscore_pipeline.credentials import redact_secrets
from toolscore_pipeline.errors import SettingsError

RESERVED_EXTRA = {
    "openai": (
        "background", "conversation", "input", "instructions", "max_output_tokens", "model",
        "previous_response_id", "prompt", "stream", "tools",
    ),
    "anthropic": ("container", "max_tokens", "messages", "model", "stream", "system", "tools"),
    "scripted": (),
}  # fmt: skip
"""Request parameters the harness sets itself, which ``extra`` must not hold."""

PROVIDERS = tuple(RESERVED_EXTRA)
"""The names of the providers."""

Stop = Literal["done", "calls", "truncated", "refused", "paused"]
"""Why a turn ended: a final answer, tool calls, the output limit, a refusal, or a pause after
which the same conversation is to be sent again."""

_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call the model asks for.

    Attributes:
        id: the provider's call id.
        name: the tool's name as the model knows it.
        args: the arguments; None when they are no JSON object.
        raw: the arguments as text, when they are no JSON object.
    """

    id: str
    name: str
    args: dict[str, Any] | None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one model call came back with.

    Attributes:
        text: the assistant's text; None when there is none.
        calls: the tool calls asked for.
        stop: why it ended.
        items: the provider's own output items, to be sent back as they are.
        usage: the tokens; None when the provider did not report them.
        stop_reason: the provider's own word for why it ended.
        model: the model that answered, as the provider names it.
    """

    text: str | None
    calls: tuple[ToolRequest, ...] = ()
    stop: Stop = "done"
    items: tuple[dict[str, Any], ...] = ()
    usage: Usage | None = None
    stop_reason: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to one tool call, as text for the model."""

    id: str
    text: str
    is_error: bool


@dataclass(slots=True)
class Conversation:
    """The user's request and everything since: turns, each with the answers to its calls."""

    prompt: str
    turns: list[tuple[Turn, tuple[ToolAnswer, ...]]] = field(default_factory=list)


class ProviderError(Exception):
    """A model call that failed.

    Attributes:
        is_rate_limit: the provider took no request now and asks to wait.
        retry_after: the seconds it asks to wait; None when it does not say.
        may_be_billed: whether the provider may have worked on the request all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        is_rate_limit: bool = False,
        retry_after: float | None = None,
        may_be_billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_rate_limit = is_rate_limit
        self.retry_after = retry_after
        self.may_be_billed = may_be_billed


class Provider(Protocol):
    """What the loop needs of a provider."""

    name: str
    model: str
    caches_by_itself: bool

    def request(
        self,
        conversation: Conversation,
        tools: Sequence[Tool],
        names: Mapping[str, str],
        *,
        system: str | None,
        max_output_tokens: int,
        extra: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The parameters of the next model call; ``names`` has the model's name of each tool."""

    def send(self, request: Mapping[str, Any], timeout: float) -> Turn:
        """Make the call.

        Raises:
            ProviderError: when it fails.
        """


class OpenAIResponsesProvider:
    """The OpenAI Responses API.

    Args:
        client: an ``openai.OpenAI``, or anything with ``responses.create``.
        model: the model's name.
    """

    name = "openai"
    caches_by_itself = True

    def __init__(self, client: Any, model: str) -> None:
        self.client = client
        self.model = model

    def request(
        self,
        conversation: Conversation,
        tools: Sequence[Tool],
        names: Mapping[str, str],
        *,
        system: str | None,
        max_output_tokens: int,
        extra: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The parameters of the next ``responses.create``; see :class:`Provider`."""
        items: list[dict[str, Any]] = [{"role": "user", "content": conversation.prompt}]
        for turn, answers in conversation.turns:
            items += turn.items
            items += [
                {"type": "function_call_output", "call_id": answer.id, "output": answer.text}
                for answer in answers
            ]
        request: dict[str, Any] = {
            **extra,
            "model": self.model,
            "input": items,
            "max_output_tokens": max_output_tokens,
        }
        if system is not None:
            request["instructions"] = system
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "name": names[tool.name],
                    "description": tool.description,
                    "parameters": tool.input_schema,
                    "strict": False,
                }
                for tool in tools
            ]
        return request

    def send(self, request: Mapping[str, Any], timeout: float) -> Turn:
        """Make the call; see :class:`Provider`."""
        try:
            response = _without_retries(self.client, timeout).responses.create(**request)
        except Exception as error:
            raise provider_error(error) from None
        return _read(self._turn, response)

    def _turn(self, response: Any) -> Turn:
        status = getattr(response, "status", None)
        if status in ("failed", "cancelled"):
            failure = getattr(response, "error", None)
            detail = f": {failure.code}: {failure.message}" if failure is not None else ""
            raise ProviderError(f"the response is {status}{detail}", may_be_billed=True)
        texts: list[str] = []
        calls: list[ToolRequest] = []
        is_refused = False
        for item in response.output:
            if item.type == "message":
                for part in item.content:
                    is_refused |= part.type == "refusal"
                    texts.append(part.refusal if part.type == "refusal" else part.text)
            elif item.type == "function_call":
                args, raw = parse_arguments(item.arguments)
                calls.append(ToolRequest(item.call_id, item.name, args, raw))
        reason, stop = status, "calls" if calls else "done"
        if status == "incomplete":
            details = getattr(response, "incomplete_details", None)
            reason = (details.reason if details is not None else None) or "incomplete"
            stop = "refused" if reason == "content_filter" else "truncated"
        elif is_refused and not calls:
            reason, stop = "refusal", "refused"
        usage = getattr(response, "usage", None)
        return Turn(
            "\n".join(texts) if texts else None,
            tuple(calls),
            stop,  # type: ignore[arg-type]
            tuple(_plain(item) for item in response.output),
            _usage_or_none(_openai_usage, usage),
            reason,
            getattr(response, "model", None),
        )


class AnthropicMessagesProvider:
    """The Anthropic Messages API.

    Args:
        client: an ``anthropic.Anthropic``, or anything with ``messages.create``.
        model: the model's name.
    """

    name = "anthropic"
    caches_by_itself = False

    def __init__(self, client: Any, model: str) -> None:
        self.client = client
        self.model = model

    def request(
        self,
        conversation: Conversation,
        tools: Sequence[Tool],
        names: Mapping[str, str],
        *,
        system: str | None,
        max_output_tokens: int,
        extra: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The parameters of the next ``messages.create``; see :class:`Provider`."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": conversation.prompt}]
        for turn, answers in conversation.turns:
            messages.append({"role": "assistant", "content": list(turn.items)})
            if answers:
                messages.append(
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": answer.id,
                                "content": answer.text,
                                "is_error": answer.is_error,
                            }
                            for answer in answers
                        ],
                    }
                )
        request: dict[str, Any] = {
            **extra,
            "model": self.model,
            "messages": messages,
            "max_tokens": max_output_tokens,
        }
        if system is not None:
            request["system"] = system
        if tools:
            request["tools"] = [
                {
                    "name": names[tool.name],
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                }
                for tool in tools
            ]
        return request

    def send(self, request: Mapping[str, Any], timeout: float) -> Turn:
        """Make the call; see :class:`Provider`."""
        try:
            message = _without_retries(self.client, timeout).messages.create(**request)
        except Exception as error:
            raise provider_error(error) from None
        return _read(self._turn, message)

    def _turn(self, message: Any) -> Turn:
        texts = [block.text for block in message.content if block.type == "text"]
        calls = []
        for block in message.content:
            if block.type == "tool_use":
                is_object = isinstance(block.input, dict) and _is_finite(block.input)
                args = block.input if is_object else None
                raw = None if args is not None else json.dumps(block.input)
                calls.append(ToolRequest(block.id, block.name, args, raw))
        reason = message.stop_reason
        stop: Stop = "calls" if calls else "done"
        if reason in ("max_tokens", "model_context_window_exceeded"):
            stop = "truncated"
        elif reason == "refusal":
            stop = "refused"
        elif reason == "pause_turn" and not calls:
            stop = "paused"
        usage = getattr(message, "usage", None)
        return Turn(
            "\n".join(texts) if texts else None,
            tuple(calls),
            stop,
            tuple(_plain(block) for block in message.content),
            _usage_or_none(_anthropic_usage, usage),
            reason,
            getattr(message, "model", None),
        )


class ScriptedProvider:
    """Replays fixed steps instead of asking a model; free, and the same every time.

    Args:
        steps: mappings with ``calls`` (a list of ``{"tool", "args"}``), ``text``, or both. A step
            without calls is the final answer; after the last step the answer is empty.
        model: the name it goes by.
    """

    name = "scripted"
    caches_by_itself = False

    def __init__(self, steps: Sequence[Mapping[str, Any]], model: str = "scripted") -> None:
        self.steps = tuple(steps)
        self.model = model

    def request(
        self,
        conversation: Conversation,
        tools: Sequence[Tool],
        names: Mapping[str, str],
        *,
        system: str | None,
        max_output_tokens: int,
        extra: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The number of the step to replay, and the model's name of each tool."""
        return {"step": len(conversation.turns), "names": dict(names)}

    def send(self, request: Mapping[str, Any], timeout: float) -> Turn:
        """Replay one step."""
        number = int(request["step"])
        step = self.steps[number] if number < len(self.steps) else {}
        names = request["names"]
        calls = tuple(
            ToolRequest(
                f"call-{number + 1}-{position}",
                names.get(call["tool"], call["tool"]),
                dict(call.get("args") or {}),
            )
            for position, call in enumerate(step.get("calls") or (), start=1)
        )
        return Turn(
            step.get("text"),
            calls,
            "calls" if calls else "done",
            usage=Usage(),
            stop_reason="calls" if calls else "end",
            model=self.model,
        )


def make_provider(name: str, model: str) -> OpenAIResponsesProvider | AnthropicMessagesProvider:
    """A provider with its SDK's own client, which reads its key from the environment.

    Raises:
        SettingsError: when the SDK or the key is missing, or the name is no provider of models.
    """
    key = KEY_NAMES.get(name)
    if key is None:
        raise SettingsError(f"{name!r} is no provider of models")
    try:
        if name == "openai":
            import openai as sdk
        else:
            import anthropic as sdk  # type: ignore[no-redef]
    except ImportError:
        raise SettingsError(
            f'the {name} package is missing: pip install "toolscore-pipeline[agent]"'
        ) from None
    if not os.environ.get(key):
        raise SettingsError(f"the key {key} is not set in the environment")
    if name == "openai":
        return OpenAIResponsesProvider(sdk.OpenAI(), model)
    return AnthropicMessagesProvider(sdk.Anthropic(), model)  # type: ignore[attr-defined]


def provider_names(tools: Sequence[Tool]) -> dict[str, str]:
    """The name a model is given for each tool.

    Providers take letters, digits, ``_`` and ``-``, at most 64; other characters become ``_``, and
    a number keeps names apart that would become the same.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for tool in tools:
        base = _NAME_CHARACTER.sub("_", tool.name)[:_NAME_LENGTH] or "tool"
        name, number = base, 2
        while name in taken:
            suffix = f"_{number}"
            name, number = base[: _NAME_LENGTH - len(suffix)] + suffix, number + 1
        taken.add(name)
        names[tool.name] = name
    return names


def parse_arguments(text: str | None) -> tuple[dict[str, Any] | None, str | None]:
    """Arguments out of their JSON text: ``(args, None)``, or ``(None, text)`` when no object."""
    if text is None or not text.strip():
        return {}, None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None, text
    return (value, None) if isinstance(value, dict) and _is_finite(value) else (None, text)


def _is_finite(value: Any) -> bool:
    """Whether a value can be written as JSON: NaN and infinities, also of 1e999, cannot."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def provider_error(error: Exception) -> ProviderError:
    """What an exception of an SDK (or of a fake of one) means; keys are kept out of its text."""
    if isinstance(error, ProviderError):
        return error
    status = getattr(error, "status_code", None)
    kind = type(error).__name__
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    detail = inner if isinstance(inner, Mapping) else {}
    code = str(detail.get("code") or detail.get("type") or "")
    if status is None:
        # No answer was read: refused, cut off or timed out. The request may have got through.
        return ProviderError(f"{kind}: {_first_line(error)}", may_be_billed=True)
    words = [f"HTTP {status}", *([code] if code else [])]
    # An answer about a wrong key quotes parts of it.
    if status not in (401, 403):
        words.append(redact_secrets(str(detail.get("message") or _first_line(error))))
    return ProviderError(
        f"{kind}: {': '.join(words)}",
        is_rate_limit=status == 429 and code != "insufficient_quota",
        retry_after=_retry_after(error),
    )


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name) or "") * unit
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return redact_secrets(text.splitlines()[0]) if text else "no details"


def _read(turn: Callable[[Any], Turn], answer: Any) -> Turn:
    """An answer as a turn.

    Raises:
        ProviderError: when it has another shape than the provider's answers.
    """
    try:
        return turn(answer)
    except (AttributeError, TypeError, ValueError) as error:
        raise ProviderError(
            f"the answer has an unexpected shape ({type(error).__name__})", may_be_billed=True
        ) from None


def _without_retries(client: Any, timeout: float) -> Any:
    """The SDK's client with its own retries off: each would spend outside the budget's sight."""
    with_options = getattr(client, "with_options", None)
    return client if with_options is None else with_options(max_retries=0, timeout=timeout)


def _plain(item: Any) -> dict[str, Any]:
    """An output item as the JSON object that may be sent back."""
    if isinstance(item, Mapping):
        return dict(item)
    plain: dict[str, Any] = item.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return plain


def _usage_or_none(read: Callable[[Any], Usage], usage: Any) -> Usage | None:
    """The usage an answer reports; None where it reports none, or what cannot be a usage."""
    if usage is None:
        return None
    try:
        return read(usage)
    except (AttributeError, TypeError, ValueError):
        return None


def _openai_usage(usage: Any) -> Usage:
    details = getattr(usage, "input_tokens_details", None)
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=getattr(details, "cached_tokens", 0) or 0,
        cache_write_tokens=getattr(details, "cache_write_tokens", 0) or 0,
    )


def _anthropic_usage(usage: Any) -> Usage:
    read = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    creation = getattr(usage, "cache_creation", None)
    hour = (getattr(creation, "ephemeral_1h_input_tokens", 0) or 0) if creation else 0
    return Usage(
        # The provider counts only the uncached part as input_tokens.
        input_tokens=usage.input_tokens + read + written,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written - hour,
        cache_write_1h_tokens=hour,
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)
