"""Claude Code session logs: JSON Lines of entries, one run a session."""

from __future__ import annotations

from collections import Counter
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats import anthropic
from toolscore_pipeline.formats._common import (
    Conversation,
    Detection,
    Instant,
    Names,
    Reply,
    add_usage,
    amount,
    dicts,
    first_of,
    id_text,
    instant,
    one_text,
    text_of,
)
from toolscore_pipeline.model import Run

NAME = "claude_code"

_KEPT = ("version", "cwd", "gitBranch")
_REFUSALS = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Permission to use ",
)
_NOTES = Names(
    {
        "summary", "system", "file-history-snapshot", "queue-operation", "progress",
        "permission-mode", "last-prompt", "custom-title", "agent-name", "attachment", "checkpoint",
        "ai-title", "pr-link", "mode", "tag",
    }
)  # fmt: skip
# The log on disk writes sessionId, the printed stream session_id.
_SESSION_KEYS = frozenset({"sessionId", "session_id"})
_MARKS = _SESSION_KEYS | {"uuid"}
# What an entry of another format beside a session's id holds.
_FOREIGN = frozenset({"role", "jsonrpc", "message", "payload", "calls", "messages", "choices"})


def detect(value: Any) -> Detection | None:
    """Entries with a session's id and a ``message`` of type user or assistant."""
    if isinstance(value, dict):
        return Detection(NAME, 0.9, "a session entry") if _is_entry(value) else None
    if isinstance(value, list) and value:
        count = sum(_is_turn(item) for item in value)
        if count and all(_is_entry(item) or _is_note(item) for item in value):
            return Detection(NAME, 0.96, f"{count} session entries with a 'sessionId'")
    return None


def _is_turn(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in ("user", "assistant")
        and isinstance(value.get("message"), dict)
        and not _MARKS.isdisjoint(value)
    )


def _is_entry(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if _is_turn(value):
        return True
    return value.get("type") in _NOTES and "jsonrpc" not in value and "role" not in value


def _is_note(value: Any) -> bool:
    """Whether ``value`` is an entry of a type that only newer versions of the tool know."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and not _SESSION_KEYS.isdisjoint(value)
        and _FOREIGN.isdisjoint(value)
    )


def is_fragment(record: Any) -> bool:
    """One entry, alone on its line."""
    return _is_entry(record) or _is_note(record)


def read(value: Any) -> list[Run]:
    """One run a session, in order of first appearance."""
    entries = [value] if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise InputError("session entries must be a list or an object")
    sessions: dict[str | None, _Session] = {}
    last: str | None = None
    unknown: Counter[str] = Counter()
    for index, entry in enumerate(entries):
        where = f"$[{index}]" if entries is value else "$"
        if not isinstance(entry, dict):
            raise InputError("a session entry must be an object", json_path=where)
        name = id_text(first_of(entry, ("sessionId", "session_id"))) or last
        if not _is_turn(entry):
            if entry.get("type") == "result" and name in sessions:
                sessions[name].result(entry)
            elif not _is_entry(entry):
                unknown[str(entry.get("type"))] += 1
            continue
        last = name
        sessions.setdefault(name, _Session(name)).entry(entry, where)
    runs = [session.finish() for session in sessions.values()]
    if len(runs) > 1:
        for run in runs:
            run.locator = f"session {(run.attributes or {}).get('session_id')}"
    if runs and unknown:
        types = ", ".join(f"{kind!r} ({count})" for kind, count in sorted(unknown.items())[:10])
        runs[0].warnings.append(f"entries of unknown types were left out: {types}")
    if not runs:
        raise InputError("the session holds no user or assistant entry")
    return runs


class _Session:
    def __init__(self, name: str | None) -> None:
        self.talk = Conversation(NAME)
        self.talk.run.attributes = {"session_id": name} if name is not None else {}
        self._uuids: set[str] = set()
        self._usages: dict[str, Any] = {}
        self._first: Instant | None = None
        self._last: Instant | None = None

    def entry(self, entry: dict[str, Any], where: str) -> None:
        """One user or assistant entry; a copy of an earlier one (same uuid) changes nothing."""
        uuid = entry.get("uuid")
        if isinstance(uuid, str):
            if uuid in self._uuids:
                return
            self._uuids.add(uuid)
        at = instant(entry.get("timestamp"))
        if at is not None:
            self._first = min(self._first or at, at, key=lambda point: point.nanoseconds)
            self._last = max(self._last or at, at, key=lambda point: point.nanoseconds)
        run = self.talk.run
        for key in _KEPT:
            if isinstance(entry.get(key), str) and run.attributes is not None:
                run.attributes.setdefault(key, entry[key])
        message = entry["message"]
        if entry["type"] == "assistant":
            self._assistant(entry, message, f"{where}.message", at)
        else:
            self._user(entry, message, f"{where}.message", at)

    def _assistant(
        self, entry: dict[str, Any], message: dict[str, Any], where: str, at: Instant | None
    ) -> None:
        run, talk = self.talk.run, self.talk
        text = text_of(message.get("content"))
        if entry.get("isApiErrorMessage") is True:
            run.error = text or "an API error"
            return
        is_side = _is_side(entry)
        name = id_text(message.get("id"))
        if not is_side:
            # Each block of one message is an entry of its own, under the message's id.
            talk.turn(name)
            if isinstance(message.get("content"), str):
                talk.text(message["content"])
            model = message.get("model")
            if isinstance(model, str) and model != "<synthetic>":
                run.model = run.model or model
        if isinstance(message.get("usage"), dict):
            self._usages[name or where] = message["usage"]
        for index, part in dicts(message.get("content")):
            place = f"{where}.content[{index}]"
            if is_side and part.get("type") == "text":
                continue
            anthropic.read_block(talk, part, place, "assistant", at)

    def _user(
        self, entry: dict[str, Any], message: dict[str, Any], where: str, at: Instant | None
    ) -> None:
        content = message.get("content")
        is_side = _is_side(entry)
        if not (is_side or entry.get("isMeta") or entry.get("isCompactSummary")):
            self.talk.user(text_of(content))
        for index, part in dicts(content):
            place = f"{where}.content[{index}]"
            if part.get("type") != "tool_result":
                continue
            text = part.get("content")
            result = "" if text is None else one_text(text)
            is_error = part.get("is_error") is True
            reply = Reply(
                result=result,
                is_error=is_error,
                is_failed=is_error,
                is_explicit=True,
                at=at,
                locator=place,
            )
            said = result if isinstance(result, str) else text_of(result) or ""
            if is_error and said.startswith(_REFUSALS):
                reply.is_denied, reply.deny_reason = True, said
            self.talk.reply(reply, part.get("tool_use_id"))

    def result(self, entry: dict[str, Any]) -> None:
        """The entry that ends a printed stream: what the session cost and how long it took."""
        run = self.talk.run
        run.cost_usd = amount(entry.get("total_cost_usd"), "cost", run.warnings)
        milliseconds = amount(entry.get("duration_ms"), "duration", run.warnings)
        if milliseconds is not None:
            run.duration_seconds = milliseconds / 1000
        if entry.get("is_error") is True:
            run.status = "error"
            run.error = run.error or id_text(first_of(entry, ("result", "subtype")))

    def finish(self) -> Run:
        for usage in self._usages.values():
            add_usage(self.talk.run, usage)
        run = self.talk.finish()
        if self._first is not None and self._last is not None:
            run.started_at, run.ended_at = self._first.at, self._last.at
            if run.duration_seconds is None:
                run.duration_seconds = (self._last.nanoseconds - self._first.nanoseconds) / 1e9
        return run


def _is_side(entry: dict[str, Any]) -> bool:
    """Whether an entry is a subagent's."""
    return entry.get("isSidechain") is True or entry.get("parent_tool_use_id") is not None
