"""Result files of tau-bench and tau2-bench: one run a trial."""

from __future__ import annotations

from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.formats._common import (
    NAIVE_WARNING,
    Conversation,
    Detection,
    Names,
    Reply,
    add_usage,
    amount,
    dicts,
    id_text,
    instant,
    integer,
    is_error_value,
    new_call,
    number,
    one_text,
    read_arguments,
    text_of,
)
from toolscore_pipeline.formats.openai import read_messages
from toolscore_pipeline.model import Run

NAME = "tau_bench"

# A reward is a sum of checks; the benchmark's own predicate for success is "1, to a millionth".
_TOLERANCE = 1e-6
_LIMITS = Names({"max_steps", "too_many_errors", "timeout"})


def detect(value: Any) -> Detection | None:
    """A list of trials with ``traj`` and ``reward``, or an object with ``simulations``."""
    if isinstance(value, dict):
        simulations = value.get("simulations")
        if isinstance(simulations, list) and ("tasks" in value or "info" in value):
            return Detection(NAME, 0.97, "tau2-bench results with 'simulations'")
        if _is_trial(value) or _is_simulation(value):
            return Detection(NAME, 0.985, "one trial of a result file")
        return None
    if isinstance(value, list) and value and all(_is_trial(item) for item in value):
        return Detection(NAME, 0.985, "tau-bench trials with 'traj' and 'reward'")
    return None


def _is_trial(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("traj"), list) and "reward" in value


def _is_simulation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("messages"), list)
        and "reward_info" in value
        and "task_id" in value
    )


def read(value: Any) -> list[Run]:
    """One run for each trial."""
    if isinstance(value, list):
        return [
            _read_trial(trial, f"$[{index}]", f"$[{index}]") for index, trial in enumerate(value)
        ]
    if not isinstance(value, dict):
        raise InputError("tau-bench results must be a list or an object")
    if _is_trial(value):
        return [_read_trial(value, "$", None)]
    if _is_simulation(value):
        return [_read_simulation(value, None, "$", None)]
    info = value.get("info")
    agent = info.get("agent_info") if isinstance(info, dict) else None
    model = id_text(agent.get("llm")) if isinstance(agent, dict) else None
    simulations = value.get("simulations")
    return [
        _read_simulation(item, model, f"$.simulations[{index}]", f"$.simulations[{index}]")
        for index, item in enumerate(simulations if isinstance(simulations, list) else [])
    ]


def _read_trial(trial: Any, where: str, locator: str | None) -> Run:
    if not _is_trial(trial):
        raise InputError("a trial needs 'traj' and 'reward'", json_path=where)
    run = read_messages(trial["traj"], f"{where}.traj")
    run.format, run.locator = NAME, locator
    run.task = id_text(trial.get("task_id"))
    run.repetition = integer(trial.get("trial"))
    info = trial.get("info")
    info = info if isinstance(info, dict) else {}
    if is_error_value(info.get("error")):
        run.status = run.recorded_outcome = "error"
        run.error = id_text(info["error"])
    else:
        run.recorded_outcome = outcome_of(trial.get("reward"))
    run.attributes = {
        key: item for key, item in trial.items() if key not in ("traj", "task_id", "trial")
    }
    return run


def outcome_of(reward: Any) -> str | None:
    """``pass`` for a reward of 1, ``fail`` for any other number; None when there is none."""
    value = number(reward)
    if value is None:
        return None
    return "pass" if abs(value - 1.0) <= _TOLERANCE else "fail"


def _read_simulation(item: Any, model: str | None, where: str, locator: str | None) -> Run:
    if not isinstance(item, dict):
        raise InputError("a simulation must be an object", json_path=where)
    talk = Conversation(NAME)
    user_calls = 0
    for index, message in dicts(item.get("messages")):
        user_calls += _read_message(talk, message, f"{where}.messages[{index}]")
    run = talk.finish()
    run.locator = locator
    if user_calls:
        run.warnings.append(f"{user_calls} call(s) of the simulated user are not the agent's")
    run.task = id_text(item.get("task_id"))
    run.repetition = integer(item.get("trial"))
    run.model = run.variant = model
    reason = id_text(item.get("termination_reason"))
    run.status = "limit_reached" if reason in _LIMITS else "completed" if reason else None
    rewards = item.get("reward_info")
    run.recorded_outcome = outcome_of(rewards.get("reward")) if isinstance(rewards, dict) else None
    if reason is not None and reason.endswith("_error") and reason not in _LIMITS:
        run.status, run.error = "error", reason
    run.duration_seconds = amount(item.get("duration"), "duration", run.warnings)
    costs = [amount(item.get(key), "cost", run.warnings) for key in ("agent_cost", "user_cost")]
    known = [cost for cost in costs if cost is not None]
    run.cost_usd = sum(known) if known and costs[0] is not None else None
    start, end = instant(item.get("start_time")), instant(item.get("end_time"))
    run.started_at = start.at if start is not None else None
    run.ended_at = end.at if end is not None else None
    if any(point is not None and point.is_naive for point in (start, end)):
        run.warnings.append(NAIVE_WARNING)
    kept = ("id", "reward_info", "termination_reason", "agent_cost", "user_cost", "seed")
    run.attributes = {key: item[key] for key in kept if item.get(key) is not None}
    return run


def _read_message(talk: Conversation, message: dict[str, Any], where: str) -> int:
    """Read one message; the number of calls that the simulated user made in it."""
    role, content = message.get("role"), message.get("content")
    at = instant(message.get("timestamp"))
    if role == "assistant":
        talk.turn(None)
        talk.text(text_of(content))
        add_usage(talk.run, message.get("usage"))
        for index, item in dicts(message.get("tool_calls")):
            arguments = read_arguments(item.get("arguments"))
            call = new_call(item.get("name"), arguments, executor="client")
            call.request_locator = f"{where}.tool_calls[{index}]"
            talk.call(call, item.get("id"), at)
    elif role == "user":
        talk.user(text_of(content))
        return len(list(dicts(message.get("tool_calls"))))
    elif role == "tool":
        messages = message.get("tool_messages")
        for index, part in dicts(messages):
            _read_message(talk, part, f"{where}.tool_messages[{index}]")
        if messages is None and message.get("requestor") != "user":
            is_error = message.get("error") is True
            talk.reply(
                Reply(
                    result="" if content is None else one_text(content),
                    is_error=is_error,
                    is_failed=is_error,
                    is_explicit="error" in message,
                    at=at,
                    locator=where,
                ),
                message.get("id"),
            )
    return 0
