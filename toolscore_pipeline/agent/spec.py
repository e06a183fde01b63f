"""The study spec: what to run, on which server, with which models, under which rules.

A spec is YAML or JSON. Reading it reports every problem at once, each with the file, the line, the
place in the document and the nearest key that would have been right.
"""

from __future__ import annotations

import math
import os
import random
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from toolscore_pipeline.agent.budget import Limits
from toolscore_pipeline.agent.mcp_client import MCPServerSpec
from toolscore_pipeline.agent.prices import FREE, Price, find_price
from toolscore_pipeline.agent.providers import PROVIDERS, RESERVED_EXTRA
from toolscore_pipeline.contract import (
    DEFAULT_MIN_SCORE,
    Contract,
    contract_from_mapping,
    load_contract,
    rules_from_json,
)
from toolscore_pipeline.documents import Document, child_path, load_document
from toolscore_pipeline.errors import ContractError, InputError, Problem, ToolscoreError, nearest
from toolscore_pipeline.hashing import json_sha256

SPEC_VERSION = 1
"""The ``spec_version`` this module reads."""

RUN_DIR = "{run_dir}"
"""Stands for the fresh folder of a run, in the server's command, env and cwd."""

# Every run of a study is listed, shuffled and priced before the first is made.
MAX_CELLS = 100_000

_SPEC_KEYS = (
    "spec_version", "name", "description", "server", "verify", "provider", "model", "system",
    "max_output_tokens", "extra", "pricing", "arms", "repetitions", "seed", "budget", "limits",
    "guard", "allow_tools", "tasks",
)  # fmt: skip
_ARM_KEYS = ("id", "provider", "model", "system", "max_output_tokens", "extra", "pricing")
_SERVER_KEYS = (
    "command", "url", "config", "name", "env", "headers", "cwd", "protocol", "timeout",
    "start_timeout",
)  # fmt: skip
_VERIFY_KEYS = ("server_name", "server_version", "command", "expect", "timeout")
_TASK_KEYS = (
    "id", "prompt", "description", "expected", "forbidden", "contract", "min_score",
    "require_completed", "script",
)  # fmt: skip
_BUDGET_KEYS = ("max_usd", "allow_unknown_price")
_LIMIT_KEYS = ("max_turns", "max_calls", "max_retries", "model_timeout")
_GUARD_KEYS = ("deny", "allow_tools", "python")
_PRICE_KEYS = (
    "input_per_million", "output_per_million", "source", "cache_read_per_million",
    "cache_write_per_million", "cache_write_1h_per_million",
)  # fmt: skip
_PROTOCOLS = ("auto", "legacy")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
T = TypeVar("T")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class SpecError(InputError):
    """A study spec that is wrong.

    Attributes:
        problems: every problem found; the message names them all.
    """

    def __init__(self, problems: list[Problem], path: str | None = None) -> None:
        self.problems = problems
        first = problems[0]
        super().__init__(first.reason, path=path, line=first.line, json_path=first.json_path)
        if len(problems) > 1:
            self.args = (str(ContractError(problems, path=path)),)


@dataclass(frozen=True, slots=True)
class Arm:
    """One model and how it is asked.

    Attributes:
        id: the arm's name.
        provider: ``openai``, ``anthropic`` or ``scripted``.
        model: the model's name.
        system: the system prompt; None for none.
        max_output_tokens: the most tokens one model call may write.
        extra: further request parameters.
        pricing: the price given in the spec; None looks the model up in the shipped table.
    """

    id: str
    provider: str
    model: str
    system: str | None = None
    max_output_tokens: int = 1024
    extra: dict[str, Any] = field(default_factory=dict)
    pricing: Price | None = None

    @property
    def price(self) -> Price | None:
        """The price runs of this arm are counted with; None when it is not known."""
        if self.provider == "scripted":
            return FREE
        return self.pricing or find_price(self.provider, self.model, self.extra)


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do, and how a run of it is judged.

    Attributes:
        id: the task's name.
        prompt: the user's request.
        contract: what a run must and must never do; None when nothing is declared.
        is_scored: whether calls were declared as expected, so that the score counts.
        min_score: the passing score, 0 to 1; 0 when no calls are expected.
        require_completed: whether every required call must have succeeded.
        scripts: the steps of scripted arms, by arm id; under ``*`` those of every other arm.
        declared: ``expected``, ``forbidden``, ``contract`` and the like as they stand in the spec.
    """

    id: str
    prompt: str
    contract: Contract | None = None
    is_scored: bool = False
    min_score: float = DEFAULT_MIN_SCORE
    require_completed: bool = True
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)

    def script(self, arm_id: str) -> list[dict[str, Any]] | None:
        """The steps of a scripted arm; None when there are none."""
        return self.scripts.get(arm_id, self.scripts.get("*"))


@dataclass(frozen=True, slots=True)
class Verify:
    """Which build is meant to be tested.

    Attributes:
        server_name: the server's name: exact, or a regular expression written ``/.../``.
        server_version: its version, in the same way.
        command: the words of a command whose output must match ``expect``; empty for none.
        expect: a regular expression searched in that output.
        timeout: seconds the command may take.
    """

    server_name: str | None = None
    server_version: str | None = None
    command: tuple[str, ...] = ()
    expect: str | None = None
    timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a study: a task, an arm and a repetition (from 1)."""

    task: Task
    arm: Arm
    repetition: int
    order: int = 0

    @property
    def id(self) -> str:
        """``task::arm::repetition``."""
        return f"{self.task.id}::{self.arm.id}::{self.repetition}"


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """A study.

    Attributes:
        name: the study's name.
        server: how to start or reach the server; :data:`RUN_DIR` is still in it.
        arms: the models, in declared order.
        tasks: the tasks, in declared order.
        repetitions: runs per task and arm.
        seed: the seed of the order.
        max_usd: the budget in US dollars; None for none.
        allow_unknown_price: whether models without a known price may run.
        limits: how long a run may go on.
        guard_rules: forbidden-call rules that deny.
        guard_tools: glob patterns of tools a call may name; empty for any.
        guard_python: ``module:function`` of a guard; None for none.
        allow_tools: glob patterns of the tools the model is offered.
        verify: the build that is meant; None when none is named.
        path: the file it came from; None when it came from memory.
        sha256: the hash of the whole spec as declared.
    """

    name: str
    server: MCPServerSpec
    arms: tuple[Arm, ...]
    tasks: tuple[Task, ...]
    repetitions: int = 1
    seed: int = 0
    max_usd: float | None = None
    allow_unknown_price: bool = False
    limits: Limits = field(default_factory=Limits)
    guard_rules: tuple[dict[str, Any], ...] = ()
    guard_tools: tuple[str, ...] = ()
    guard_python: str | None = None
    allow_tools: tuple[str, ...] = ("*",)
    verify: Verify | None = None
    path: str | None = None
    sha256: str = ""

    @property
    def folder(self) -> Path:
        """The folder relative paths of the spec start from."""
        return Path(self.path).resolve().parent if self.path else Path.cwd()

    @property
    def is_paid(self) -> bool:
        """Whether any arm asks a model that costs money, or may."""
        return any(arm.price is None or not arm.price.is_free for arm in self.arms)

    def cells(self) -> list[Cell]:
        """Every run, in the order it is made: tasks x arms x repetitions, shuffled by the seed."""
        cells = [
            Cell(task, arm, repetition)
            for task in self.tasks
            for arm in self.arms
            for repetition in range(1, self.repetitions + 1)
        ]
        random.Random(self.seed).shuffle(cells)
        return [replace(cell, order=order) for order, cell in enumerate(cells, start=1)]

    def cell_sha256(self, cell: Cell) -> str:
        """The hash of what the run of a cell depends on; its judgment is no part of it."""
        arm, task = cell.arm, cell.task
        return json_sha256(
            {
                "server": self.server.describe(),
                "protocol": self.server.protocol,
                "provider": arm.provider,
                "model": arm.model,
                "system": arm.system,
                "max_output_tokens": arm.max_output_tokens,
                "extra": arm.extra,
                "prompt": task.prompt,
                "script": task.script(arm.id) if arm.provider == "scripted" else None,
                "limits": [self.limits.max_turns, self.limits.max_calls],
                "guard": [list(self.guard_rules), list(self.guard_tools), self.guard_python],
                "allow_tools": list(self.allow_tools),
            }
        )


def server_in(server: MCPServerSpec, run_dir: Path) -> MCPServerSpec:
    """The server with the run's own folder put in for :data:`RUN_DIR`."""

    def put(text: str) -> str:
        return text.replace(RUN_DIR, str(run_dir))

    return replace(
        server,
        command=tuple(put(word) for word in server.command),
        env={name: put(value) for name, value in server.env.items()},
        cwd=None if server.cwd is None else put(server.cwd),
    )


def load_agent_spec(path: str | Path) -> AgentSpec:
    """Read a study spec (YAML or JSON).

    Raises:
        InputError: when the file cannot be read.
        SpecError: naming everything that is wrong with it, with lines.
    """
    document = load_document(path)
    return spec_from_mapping(document.value, path=document.path, document=document)


def spec_from_mapping(
    data: Any, *, path: str | None = None, document: Document | None = None
) -> AgentSpec:
    """Check and build a spec from parsed JSON; relative paths start from the folder of ``path``.

    Raises:
        SpecError: naming everything that is wrong with it.
    """
    reader = _Reader(path)
    spec = reader.spec(data)
    if reader.problems or spec is None:
        problems = document.locate(reader.problems) if document else reader.problems
        raise SpecError(problems, path)
    return spec


class _Reader:
    """Builds a spec and collects problems; a part that is wrong becomes its default."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.folder = Path(path).resolve().parent if path else Path.cwd()
        self.problems: list[Problem] = []

    # --- values -----------------------------------------------------------------------------------

    def fail(self, reason: str, place: str) -> None:
        problem = Problem(reason, place)
        if problem not in self.problems:  # arms that inherit a wrong value would repeat it
            self.problems.append(problem)

    def keys(self, value: Any, known: Sequence[str], place: str) -> dict[str, Any]:
        """The value as a mapping of known keys; an empty one when it is none."""
        if not isinstance(value, dict):
            self.fail(f"expected a mapping, got {_kind(value)}", place)
            return {}
        for key in value:
            if key not in known:
                hint = nearest(str(key), known) or f" (known: {', '.join(known)})"
                self.fail(f"unknown key {key!r}{hint}", child_path(place, str(key)))
        return value

    def text(self, data: dict[str, Any], key: str, place: str, default: Any = None) -> Any:
        value = data.get(key)
        if value is None:
            if default is _REQUIRED:
                self.fail(f"the key {key!r} is missing", place)
                return ""
            return default
        if not isinstance(value, str) or not value.strip():
            self.fail(f"expected text, got {_kind(value)}", child_path(place, key))
            return default if default is not _REQUIRED else ""
        return value

    def number(
        self,
        data: dict[str, Any],
        key: str,
        place: str,
        default: Any,
        low: float,
        *,
        high: float = math.inf,
        is_whole: bool = False,
        is_open: bool = False,
    ) -> Any:
        value = data.get(key)
        if value is None:
            return default
        kinds = (int,) if is_whole else (int, float)
        # Said so that NaN, which is neither above nor below anything, is none.
        is_within = isinstance(value, kinds) and (
            low < value <= high if is_open else low <= value <= high
        )
        if isinstance(value, bool) or not is_within or value in (math.inf, -math.inf):
            what = "a whole number" if is_whole else "a number"
            bound = f" above {low:g}" if is_open else f" of {low:g} or more"
            if high < math.inf:
                bound = f" from {low:g} to {high:g}"
            elif low == -math.inf:
                bound = ""
            shown = value if isinstance(value, (int, float)) else _kind(value)
            self.fail(f"expected {what}{bound}, got {shown}", child_path(place, key))
            return default
        return value

    def flag(self, data: dict[str, Any], key: str, place: str, default: bool) -> bool:
        value = data.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(f"expected true or false, got {_kind(value)}", child_path(place, key))
            return default
        return value

    def texts(self, data: dict[str, Any], key: str, place: str) -> tuple[str, ...] | None:
        """A list of texts; None when the key is absent."""
        value = data.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(f"expected a list of texts, got {_kind(value)}", child_path(place, key))
            return None
        return tuple(value)

    def items(self, data: dict[str, Any], key: str, place: str) -> list[tuple[Any, str]]:
        """The items of a list that must not be empty, each with its place."""
        value = data.get(key)
        if value is None:
            self.fail(f"the key {key!r} is missing", place)
            return []
        here = child_path(place, key)
        if not isinstance(value, list) or not value:
            self.fail(f"expected a list with items, got {_kind(value)}", here)
            return []
        return [(item, child_path(here, index)) for index, item in enumerate(value)]

    def pattern(self, text: str | None, place: str) -> None:
        if text is None:
            return
        try:
            re.compile(text)
        except re.error as error:
            self.fail(f"not a regular expression: {error}", place)

    def identifier(self, data: dict[str, Any], place: str, taken: set[str]) -> str:
        value = data.get("id")
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            self.fail("the key 'id' is missing or is no text", place)
            return ""
        if "::" in value:
            self.fail(f"an id must not hold '::', got {value!r}", child_path(place, "id"))
        if value in taken:
            self.fail(f"the id {value!r} is given twice", child_path(place, "id"))
        taken.add(value)
        return value

    def variables(self, text: str, place: str) -> str:
        """The text with each ``${NAME}`` replaced by that environment variable."""

        def look_up(match: re.Match[str]) -> str:
            value = os.environ.get(match.group(1))
            if value is None:
                self.fail(f"the environment variable {match.group(1)} is not set", place)
                return ""
            return value

        return _VARIABLE.sub(look_up, text)

    def command(self, value: Any, place: str) -> tuple[str, ...]:
        """The words of a command: a list of them, or one text split as a shell would."""
        if isinstance(value, str) and value.strip():
            try:
                return tuple(shlex.split(value))
            except ValueError as error:
                self.fail(f"not a command: {error}", place)
                return ()
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return tuple(value)
        self.fail(f"expected a command as text or as a list of words, got {_kind(value)}", place)
        return ()

    # --- parts ------------------------------------------------------------------------------------

    def spec(self, value: Any) -> AgentSpec | None:
        data = self.keys(value, _SPEC_KEYS, "$")
        if not data:
            if not self.problems:
                self.fail("the spec is empty", "$")
            return None
        version = data.get("spec_version")
        if version != SPEC_VERSION or isinstance(version, bool):
            got = "nothing" if version is None else repr(version)
            where = "$" if version is None else "$.spec_version"
            self.fail(f"expected spec_version {SPEC_VERSION}, got {got}", where)
        server = self.server(data)
        arms = self.arms(data)
        tasks = self.tasks(data, arms)
        budget = self.keys(data.get("budget") or {}, _BUDGET_KEYS, "$.budget")
        rules, guard_tools, guard_python = self.guard(data)
        name = self.text(data, "name", "$", _REQUIRED)
        repetitions = self.number(data, "repetitions", "$", 1, 1, is_whole=True)
        count = len(tasks) * len(arms) * repetitions
        if count > MAX_CELLS:
            self.fail(
                f"{len(tasks)} tasks, {len(arms)} arms and {repetitions:,} repetitions make"
                f" {count:,} runs; expected at most {MAX_CELLS:,}",
                "$.repetitions",
            )
        seed = self.number(data, "seed", "$", 0, -math.inf, is_whole=True)
        max_usd = self.number(budget, "max_usd", "$.budget", None, 0)
        allow_unknown_price = self.flag(budget, "allow_unknown_price", "$.budget", False)
        limits = self.limits(data)
        allow_tools = self.texts(data, "allow_tools", "$") or ("*",)
        verify = self.verify(data)
        if server is None:  # only now, so that every other problem was found as well
            return None
        return AgentSpec(
            name=name,
            server=server,
            arms=tuple(arms),
            tasks=tuple(tasks),
            repetitions=repetitions,
            seed=seed,
            max_usd=max_usd,
            allow_unknown_price=allow_unknown_price,
            limits=limits,
            guard_rules=rules,
            guard_tools=guard_tools,
            guard_python=guard_python,
            allow_tools=allow_tools,
            verify=verify,
            path=self.path,
            sha256=json_sha256(value),
        )

    def server(self, data: dict[str, Any]) -> MCPServerSpec | None:
        place = "$.server"
        if "server" not in data:
            self.fail("the key 'server' is missing", "$")
            return None
        start = len(self.problems)
        given = dict(self.keys(data["server"], _SERVER_KEYS, place))
        if "config" in given:
            given = self.server_config(given, place)
        elif "name" in given:
            self.fail("'name' goes with 'config'", child_path(place, "name"))
        ways = [key for key in ("command", "url") if given.get(key)]
        if len(ways) != 1:
            if len(self.problems) == start:
                self.fail("expected exactly one of 'command', 'url' and 'config'", place)
            return None
        command = self.command(given["command"], f"{place}.command") if "command" in ways else ()
        protocol = self.text(given, "protocol", place, "auto")
        if protocol not in _PROTOCOLS and not _DATE.fullmatch(protocol):
            self.fail(
                f"expected auto, legacy or a protocol version, got {protocol!r}",
                f"{place}.protocol",
            )
        url = self.variables(self.text(given, "url", place, ""), f"{place}.url")
        if url and not re.match(r"https?://", url):
            self.fail("expected a URL that starts with http:// or https://", f"{place}.url")
        cwd = self.text(given, "cwd", place)
        before = len(self.problems)
        env = self.mapping(given, "env", place)
        headers = self.mapping(given, "headers", place)
        if len(self.problems) > before or not (command or url):
            return None
        return MCPServerSpec(
            command=command,
            url=url,
            env=env,
            headers=headers,
            cwd=str(self.folder / cwd) if cwd and not cwd.startswith(RUN_DIR) else cwd,
            protocol=protocol,
            timeout=self.number(given, "timeout", place, 30.0, 0, is_open=True),
            start_timeout=self.number(given, "start_timeout", place, 60.0, 0, is_open=True),
        )

    def server_config(self, given: dict[str, Any], place: str) -> dict[str, Any]:
        """The entry of an MCP client's configuration file (``mcpServers``) by its name."""
        path = self.text(given, "config", place, _REQUIRED)
        name = self.text(given, "name", place)
        here = child_path(place, "config")
        try:
            config = load_document(self.folder / path).value
        except InputError as error:
            self.fail(str(error), here)
            return {}
        servers = config.get("mcpServers") if isinstance(config, dict) else None
        if not isinstance(servers, dict) or not servers:
            self.fail(f"{path} has no 'mcpServers'", here)
            return {}
        if name is None and len(servers) == 1:
            name = next(iter(servers))
        if name not in servers:
            listed = nearest(str(name), servers) or f" (known: {', '.join(servers)})"
            self.fail(f"{path} has no server {name!r}{listed}", child_path(place, "name"))
            return {}
        entry = servers[name]
        if not isinstance(entry, dict):
            self.fail(f"expected a mapping as server {name!r}, got {_kind(entry)}", here)
            return {}
        merged = {key: entry[key] for key in ("url", "env", "headers", "cwd") if key in entry}
        if "command" in entry:
            merged["command"] = [str(entry["command"]), *map(str, entry.get("args") or ())]
        own = ("env", "headers", "cwd", "protocol", "timeout", "start_timeout")
        return merged | {key: given[key] for key in own if key in given}

    def mapping(self, data: dict[str, Any], key: str, place: str) -> dict[str, str]:
        """A mapping of texts, with ``${NAME}`` replaced."""
        value = data.get(key)
        here = child_path(place, key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail(f"expected a mapping, got {_kind(value)}", here)
            return {}
        texts: dict[str, str] = {}
        for name, item in value.items():
            at = child_path(here, str(name))
            if isinstance(item, (dict, list)) or item is None:
                self.fail(f"expected text, got {_kind(item)}", at)
                continue
            shown = str(item).lower() if isinstance(item, bool) else str(item)
            texts[str(name)] = self.variables(shown, at)
        return texts

    def verify(self, data: dict[str, Any]) -> Verify | None:
        if data.get("verify") is None:
            return None
        place = "$.verify"
        given = self.keys(data["verify"], _VERIFY_KEYS, place)
        command: tuple[str, ...] = ()
        if given.get("command") is not None:
            command = self.command(given["command"], f"{place}.command")
        expect = self.text(given, "expect", place)
        self.pattern(expect, f"{place}.expect")
        if command and expect is None:
            self.fail("'command' needs 'expect'", place)
        if expect is not None and not given.get("command"):
            self.fail("'expect' needs 'command'", place)
        names = {}
        for key in ("server_name", "server_version"):
            value = self.text(given, key, place)
            names[key] = value
            if value is not None and len(value) > 1 and value[0] == value[-1] == "/":
                self.pattern(value[1:-1], child_path(place, key))
        timeout = self.number(given, "timeout", place, 60.0, 0, is_open=True)
        return Verify(names["server_name"], names["server_version"], command, expect, timeout)

    def pricing(self, value: Any, place: str) -> Price | None:
        data = self.keys(value, _PRICE_KEYS, place)
        numbers: dict[str, float | None] = {}
        for key in _PRICE_KEYS:
            if key == "source":
                continue
            if key in ("input_per_million", "output_per_million") and data.get(key) is None:
                self.fail(f"the key {key!r} is missing", place)
            numbers[key] = self.number(data, key, place, None, 0)
        source = self.text(data, "source", place, "given in the spec")
        if numbers["input_per_million"] is None or numbers["output_per_million"] is None:
            return None
        return Price(
            float(numbers["input_per_million"]),
            float(numbers["output_per_million"]),
            source,
            numbers["cache_read_per_million"],
            numbers["cache_write_per_million"],
            numbers["cache_write_1h_per_million"],
        )

    def arms(self, data: dict[str, Any]) -> list[Arm]:
        arms: list[Arm] = []
        taken: set[str] = set()
        for value, place in self.items(data, "arms", "$"):
            given = self.keys(value, _ARM_KEYS, place)
            if not given:
                continue
            arm_id = self.identifier(given, place, taken)
            merged, places = {}, {}
            for key in _ARM_KEYS[1:]:
                own = key in given
                merged[key] = given[key] if own else data.get(key)
                places[key] = place if own else "$"
            provider = self.text(merged, "provider", places["provider"])
            if provider is None:
                self.fail("the key 'provider' is missing, here and at the top of the spec", place)
            elif provider not in PROVIDERS:
                hint = nearest(provider, PROVIDERS) or f" (known: {', '.join(PROVIDERS)})"
                self.fail(
                    f"unknown provider {provider!r}{hint}",
                    child_path(places["provider"], "provider"),
                )
            default = "scripted" if provider == "scripted" else None
            model = self.text(merged, "model", places["model"], default)
            if model is None:
                self.fail("the key 'model' is missing, here and at the top of the spec", place)
            extra = merged["extra"] or {}
            extra_place = child_path(places["extra"], "extra")
            if not isinstance(extra, dict):
                self.fail(f"expected a mapping, got {_kind(extra)}", extra_place)
                extra = {}
            for key in RESERVED_EXTRA.get(provider or "", ()):
                if key in extra:
                    self.fail(f"the harness sets {key!r} itself", child_path(extra_place, key))
            pricing = None
            if merged["pricing"] is not None:
                pricing = self.pricing(merged["pricing"], child_path(places["pricing"], "pricing"))
            arms.append(
                Arm(
                    arm_id,
                    provider or "",
                    model or "",
                    self.text(merged, "system", places["system"]),
                    self.number(
                        merged,
                        "max_output_tokens",
                        places["max_output_tokens"],
                        1024,
                        1,
                        is_whole=True,
                    ),
                    extra,
                    pricing,
                )
            )
        return arms

    def limits(self, data: dict[str, Any]) -> Limits:
        place = "$.limits"
        given = self.keys(data.get("limits") or {}, _LIMIT_KEYS, place)
        base = Limits()
        return Limits(
            self.number(given, "max_turns", place, base.max_turns, 1, is_whole=True),
            self.number(given, "max_calls", place, base.max_calls, 0, is_whole=True),
            self.number(given, "max_retries", place, base.max_retries, 0, is_whole=True),
            self.number(given, "model_timeout", place, base.model_timeout, 0, is_open=True),
        )

    def guard(
        self, data: dict[str, Any]
    ) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...], str | None]:
        place = "$.guard"
        given = self.keys(data.get("guard") or {}, _GUARD_KEYS, place)
        rules: tuple[dict[str, Any], ...] = ()
        if given.get("deny") is not None:
            self.judgment(lambda: rules_from_json(given["deny"]), {"$": f"{place}.deny"})
            rules = tuple(given["deny"]) if isinstance(given["deny"], list) else ()
        python = self.text(given, "python", place)
        if python is not None and not re.fullmatch(r"[\w.]+:\w+", python):
            self.fail(f"expected module:function, got {python!r}", f"{place}.python")
        return rules, self.texts(given, "allow_tools", place) or (), python

    def tasks(self, data: dict[str, Any], arms: Iterable[Arm]) -> list[Task]:
        tasks: list[Task] = []
        taken: set[str] = set()
        for value, place in self.items(data, "tasks", "$"):
            given = self.keys(value, _TASK_KEYS, place)
            if given:
                tasks.append(self.task(given, place, taken, [*arms]))
        return tasks

    def task(self, given: dict[str, Any], place: str, taken: set[str], arms: Sequence[Arm]) -> Task:
        task_id = self.identifier(given, place, taken)
        prompt = self.text(given, "prompt", place, _REQUIRED)
        contract, is_scored = self.contract(given, place)
        default = contract.min_score if contract is not None else DEFAULT_MIN_SCORE
        if not is_scored:
            default = 0.0  # without expected calls there is nothing a score could say
        scripts = self.scripts(given, place, arms)
        for arm in arms:
            if arm.provider == "scripted" and arm.id not in scripts and "*" not in scripts:
                self.fail(f"the scripted arm {arm.id!r} needs a 'script' here", place)
        judged = ("expected", "forbidden", "contract", "min_score", "require_completed")
        return Task(
            task_id,
            prompt,
            contract,
            is_scored,
            self.number(given, "min_score", place, default, 0, high=1),
            self.flag(given, "require_completed", place, True),
            scripts,
            {key: given[key] for key in judged if given.get(key) is not None},
        )

    def contract(self, given: dict[str, Any], place: str) -> tuple[Contract | None, bool]:
        """The task's contract, and whether its score counts."""
        declared = given.get("contract")
        if declared is not None:
            for key in ("expected", "forbidden"):
                if given.get(key) is not None:
                    self.fail(f"{key!r} does not go with 'contract'", child_path(place, key))
            here = child_path(place, "contract")
            if isinstance(declared, str):
                contract = self.judgment(lambda: load_contract(self.folder / declared), {"$": here})
            else:
                contract = self.judgment(lambda: contract_from_mapping(declared), {"$": here})
            is_scored = contract is not None and bool(contract.required or contract.optional)
            return contract, is_scored
        expected, forbidden = given.get("expected"), given.get("forbidden")
        if expected is None and forbidden is None:
            return None, False
        mapping = {
            "contract_version": 2,
            "required": [] if expected is None else expected,
            "forbidden": [] if forbidden is None else forbidden,
        }
        moved = {"$.required": f"{place}.expected", "$.forbidden": f"{place}.forbidden", "$": place}
        return self.judgment(lambda: contract_from_mapping(mapping), moved), expected is not None

    def judgment(self, read: Callable[[], T], moved: Mapping[str, str]) -> T | None:
        """What ``read`` returns; its problems are moved to their places in the spec."""
        try:
            return read()
        except ContractError as error:
            for problem in error.problems:
                inside = problem.json_path or "$"
                prefix = next(start for start in moved if inside.startswith(start))
                where = moved[prefix] + inside[len(prefix) :]
                from_file = f"{error.path}: " if error.path else ""
                self.fail(f"{from_file}{problem.reason}", where)
        except ToolscoreError as error:
            self.fail(str(error), moved["$"])
        return None

    def scripts(
        self, given: dict[str, Any], place: str, arms: Sequence[Arm]
    ) -> dict[str, list[dict[str, Any]]]:
        value, here = given.get("script"), child_path(place, "script")
        if value is None:
            return {}
        if isinstance(value, list):
            return {"*": self.steps(value, here)}
        if not isinstance(value, dict):
            self.fail(
                f"expected a list of steps, or a mapping from arm to one, got {_kind(value)}", here
            )
            return {}
        known = [arm.id for arm in arms]
        scripts = {}
        for arm_id, steps in value.items():
            at = child_path(here, arm_id)
            if arm_id not in known:
                hint = nearest(arm_id, known) or f" (known: {', '.join(known)})"
                self.fail(f"there is no arm {arm_id!r}{hint}", at)
            scripts[arm_id] = self.steps(steps, at)
        return scripts

    def steps(self, value: Any, place: str) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            self.fail(f"expected a list of steps, got {_kind(value)}", place)
            return []
        for index, step in enumerate(value):
            at = child_path(place, index)
            data = self.keys(step, ("calls", "text"), at)
            if isinstance(step, dict) and not step:
                self.fail("expected 'calls' or 'text'", at)
            self.text(data, "text", at)
            calls = data.get("calls")
            if calls is None:
                continue
            if not isinstance(calls, list):
                self.fail(f"expected a list of calls, got {_kind(calls)}", child_path(at, "calls"))
                continue
            for number, call in enumerate(calls):
                call_at = child_path(child_path(at, "calls"), number)
                entry = self.keys(call, ("tool", "args"), call_at)
                if isinstance(call, dict):
                    self.text(entry, "tool", call_at, _REQUIRED)
                    if not isinstance(entry.get("args") or {}, dict):
                        self.fail(
                            f"expected a mapping, got {_kind(entry['args'])}",
                            child_path(call_at, "args"),
                        )
        return value


_REQUIRED = object()


def _kind(value: Any) -> str:
    """A word for a value in an error; never the value, which may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return "empty text" if not value.strip() else "text"
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    return "an empty mapping" if not value else "a mapping"
