"""Guards: functions that allow or deny a tool call before it reaches the server."""

from __future__ import annotations

import fnmatch
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import SettingsError

DENIED = "denied by the harness guard: "
"""What the model is told about a denied call, before the reason."""


@dataclass(frozen=True, slots=True)
class GuardCall:
    """The call a guard decides about.

    Attributes:
        tool: the tool's name as the server gives it.
        args: the arguments.
        id: the provider's call id.
        index: the 0-based position of the call in its run.
        task_id: the task; empty outside a study.
        arm_id: the arm; empty outside a study.
    """

    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    index: int = 0
    task_id: str = ""
    arm_id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A guard's answer: whether the call may be made, and if not, why."""

    is_allowed: bool
    reason: str = ""


Guard = Callable[[GuardCall], "Decision | None"]
"""A guard; None means that the call is allowed."""


class GuardError(Exception):
    """A guard that failed or answered with something that is no decision."""


def allow() -> Decision:
    """Let the call go to the server."""
    return Decision(True)


def deny(reason: str) -> Decision:
    """Keep the call from the server; the model is told ``reason``."""
    return Decision(False, reason)


def decide(guard: Guard | None, call: GuardCall) -> Decision:
    """Ask a guard about a call.

    Raises:
        GuardError: when the guard raises or returns something that is no decision; the call must
            then not be made.
    """
    if guard is None:
        return allow()
    try:
        answer = guard(call)
    except Exception as error:
        raise GuardError(f"the guard failed on {call.tool}: {type(error).__name__}") from error
    if answer is None:
        return allow()
    if not isinstance(answer, Decision):
        raise GuardError(
            f"the guard answered {call.tool} with a {type(answer).__name__}, "
            "expected allow(), deny(reason) or None"
        )
    return answer


def rules_guard(rules: Sequence[Any]) -> Guard:
    """A guard that denies the calls forbidden rules describe.

    Args:
        rules: rules as in a contract's ``forbidden``: ``tool``, ``args`` (values or matchers) and
            ``reason``. A rule that cannot be decided in time denies too.

    Raises:
        ContractError: when a rule is wrong.
    """
    from toolscore_pipeline.contract import call_matches, rules_from_json

    parsed = rules_from_json(list(rules))

    def guard(call: GuardCall) -> Decision | None:
        for number, rule in enumerate(parsed, start=1):
            answer = call_matches(rule, {"tool": call.tool, "args": call.args})
            if answer is None:
                return deny(f"forbidden rule {number} could not be decided in time")
            if answer:
                return deny(rule.get("reason") or f"forbidden rule {number}")
        return None

    return guard


def globs_guard(patterns: Sequence[str]) -> Guard:
    """A guard that denies every tool whose name matches none of the glob patterns."""

    def guard(call: GuardCall) -> Decision | None:
        if any(fnmatch.fnmatchcase(call.tool, pattern) for pattern in patterns):
            return None
        return deny(f"{call.tool} is not among the allowed tools")

    return guard


def all_of(guards: Sequence[Guard]) -> Guard | None:
    """A guard that asks each in turn; the first denial stands. None without guards."""
    if not guards:
        return None

    def guard(call: GuardCall) -> Decision | None:
        for each in guards:
            decision = decide(each, call)
            if not decision.is_allowed:
                return decision
        return None

    return guard


def load_guard(name: str, folder: str | Path) -> Guard:
    """Import a guard by ``module:function``; modules beside the spec are found first.

    Raises:
        SettingsError: when there is no such module or function.
    """
    module_name, _, function = name.partition(":")
    if not module_name or not function:
        raise SettingsError(f"guard.python: expected module:function, got {name!r}")
    sys.path.insert(0, str(Path(folder).resolve()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise SettingsError(
            f"guard.python: the module {module_name!r} cannot be imported "
            f"({type(error).__name__}: {error})"
        ) from error
    finally:
        sys.path.pop(0)
    found = getattr(module, function, None)
    if not callable(found):
        raise SettingsError(f"guard.python: {module_name!r} has no function {function!r}")
    guard: Guard = found
    return guard
