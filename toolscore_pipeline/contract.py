"""Contracts v2, gold lists and forbidden rules: reading, checking and expanding them.

A gold list names the calls an agent must make. A contract (``contract_version`` 2) says more: which
calls are required, in which alternatives, which are allowed but not needed, and which must never
happen. Every function that reads one checks all of it and reports every problem at once, each with
its place and the nearest name that would have been right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

from toolscore_pipeline.documents import Document, child_path, load_document
from toolscore_pipeline.errors import ContractError, Problem, SettingsError, nearest
from toolscore_pipeline.jsonio import MAX_DEPTH
from toolscore_pipeline.matchers import (
    OPERATORS,
    decide,
    declare,
    describe,
    from_declared,
    matcher_from_json,
)

if TYPE_CHECKING:
    from toolscore_pipeline.honesty import HonestyConfig
    from toolscore_pipeline.result import EvaluationResult

__all__ = [
    "CONTRACT_SCHEMA_PATH",
    "CONTRACT_VERSION",
    "DEFAULT_MIN_SCORE",
    "DEFAULT_WEIGHTS",
    "MAX_COMBINATIONS",
    "AlternativeGroup",
    "Contract",
    "call_matches",
    "contract_from_mapping",
    "evaluate_contract",
    "gold_from_json",
    "is_contract",
    "load_contract",
    "load_expected",
    "load_forbidden_rules",
    "load_gold",
    "matcher_from_json",
    "normalize_weights",
    "rules_from_json",
    "split_optional",
]

CONTRACT_VERSION: Final = 2
"""The ``contract_version`` this module reads."""

MAX_COMBINATIONS: Final = 256
"""Combinations of alternatives a contract may have."""

DEFAULT_MIN_SCORE: Final = 0.9
"""The passing score where none is given."""

DEFAULT_WEIGHTS: Final[Mapping[str, float]] = {
    "selection_accuracy": 0.4,
    "argument_f1": 0.3,
    "sequence_accuracy": 0.2,
    "redundant_rate": 0.1,
    "required_call_recall": 0.0,
}
"""What each metric counts in the composite score; the weights sum to 1."""

CONTRACT_SCHEMA_PATH: Final = Path(__file__).with_name("schemas") / "contract-v2.schema.json"
"""The JSON Schema (draft 2020-12) of a contract file."""

SIDE_EFFECTS: Final = ("file_exists", "file_contains", "http_status", "sql_rows")
"""What a call can be expected to have left behind."""

_CONTRACT_KEYS = (
    "contract_version",
    "description",
    "task",
    "variant",
    "source",
    "required",
    "alternatives",
    "optional",
    "forbidden",
    "weights",
    "min_score",
)
_CALL_KEYS = ("tool", "args", "side_effects", "description")
_OPTIONAL_KEYS = ("tool", "args", "description")
_RULE_KEYS = ("tool", "args", "reason", "description")
_GROUP_KEYS = ("id", "alternatives", "description")
_GOLD_KEYS = ("calls", "description", "task", "variant", "source")
# A gold list is often a recorded trace with a few lines taken out. What a record holds beside the
# call itself says nothing about what is expected.
_RECORD_KEYS = frozenset(
    {"result", "error", "is_error", "duration", "cost", "timestamp", "id", "metadata"}
)

_T = TypeVar("_T")

Call = dict[str, Any]
"""An expected call: ``tool`` and optionally ``args`` (values or matchers), ``side_effects``."""


@dataclass(slots=True)
class AlternativeGroup:
    """A place in the required calls where any one of several call lists is acceptable.

    Attributes:
        id: the group's name, unique in its contract.
        options: the call lists; an empty one means that nothing is needed.
    """

    id: str
    options: list[list[Call]]


@dataclass(slots=True)
class Contract:
    """What a run must, may and must never do.

    Attributes:
        required: expected calls and groups of alternatives, in order.
        optional: calls that are neither needed nor extra.
        forbidden: rules for calls that must never happen (``tool``, ``args``, ``reason``).
        weights: score weights as declared (see :func:`normalize_weights`); None for the defaults.
        min_score: the passing score, 0 to 1.
        description: what the task is, for people; it changes no grade.
        task: the task this contract is for, or several; in a project a task may be a pattern
            (``u*``). None when the file's name says it.
        variant, source: in a project, only runs of this variant or source are judged by it.
    """

    required: list[Call | AlternativeGroup] = field(default_factory=list)
    optional: list[Call] = field(default_factory=list)
    forbidden: list[Call] = field(default_factory=list)
    weights: dict[str, float] | None = None
    min_score: float = DEFAULT_MIN_SCORE
    description: str = ""
    task: str | list[str] | None = None
    variant: str | None = None
    source: str | None = None

    @property
    def groups(self) -> list[AlternativeGroup]:
        """The groups of alternatives, in order."""
        return [entry for entry in self.required if isinstance(entry, AlternativeGroup)]

    @property
    def combination_count(self) -> int:
        """How many ways there are to pick one option of every group; 1 without groups."""
        return math.prod(len(group.options) for group in self.groups)

    def expansions(self) -> list[tuple[list[Call], dict[str, int]]]:
        """Every combination of alternatives: (required calls, {group id: option index}).

        In declaration order: the first option of every group first, the last group varying fastest.

        Raises:
            ContractError: with more than :data:`MAX_COMBINATIONS` combinations.
        """
        problem = _too_many(self.combination_count)
        if problem:
            raise ContractError([problem])
        groups = self.groups
        expanded: list[tuple[list[Call], dict[str, int]]] = []
        for picks in product(*(range(len(group.options)) for group in groups)):
            choices = {group.id: pick for group, pick in zip(groups, picks, strict=True)}
            calls: list[Call] = []
            for entry in self.required:
                if isinstance(entry, AlternativeGroup):
                    calls.extend(entry.options[choices[entry.id]])
                else:
                    calls.append(entry)
            expanded.append((calls, choices))
        return expanded


def _too_many(count: int) -> Problem | None:
    if count <= MAX_COMBINATIONS:
        return None
    return Problem(
        f"the alternatives make {count:,} combinations, expected at most {MAX_COMBINATIONS}", "$"
    )


# --- files ----------------------------------------------------------------------------------------


def load_contract(path: str | Path) -> Contract:
    """Read a contract file (JSON or YAML).

    Raises:
        InputError: when the file cannot be read.
        ContractError: naming everything that is wrong with the contract, with lines.
    """
    return _from_document(load_document(path), _contract)


def load_gold(path: str | Path) -> list[Call]:
    """Read a gold file (JSON or YAML): a list of calls, or an object with ``calls``.

    Raises:
        InputError: when the file cannot be read.
        ContractError: naming everything that is wrong with the list, with lines.
    """
    return _from_document(load_document(path), _gold)


def load_expected(path: str | Path) -> Contract | list[Call]:
    """Read whichever a file holds: a contract, or a gold list.

    Raises:
        InputError: when the file cannot be read.
        ContractError: naming everything that is wrong with it, with lines.
    """
    return expected_from_document(load_document(path))


def expected_from_document(document: Document) -> Contract | list[Call]:
    """Read whichever a parsed file holds: a contract, or a gold list.

    Raises:
        ContractError: naming everything that is wrong with it, with lines.
    """
    if is_contract(document.value):
        return _from_document(document, _contract)
    return _from_document(document, _gold)


def load_forbidden_rules(path: str | Path) -> list[Call]:
    """Read a file of forbidden rules (JSON or YAML): a list of rules.

    Raises:
        InputError: when the file cannot be read.
        ContractError: naming everything that is wrong with the rules, with lines.
    """
    return _from_document(load_document(path), _rules)


def _from_document(document: Document, read: Callable[[Any, list[Problem]], _T]) -> _T:
    problems: list[Problem] = []
    result = read(document.value, problems)
    if problems:
        raise ContractError(document.locate(problems), path=document.path)
    return result


# --- parsed JSON ----------------------------------------------------------------------------------


def is_contract(data: Any) -> TypeGuard[dict[str, Any]]:
    """Whether parsed JSON is a contract: it has ``contract_version``, or required/optional."""
    return isinstance(data, dict) and not {
        "contract_version",
        "required",
        "optional",
    }.isdisjoint(data)


def contract_from_mapping(data: Any) -> Contract:
    """Validate and build a contract from parsed JSON, or from a dict with matcher objects in it.

    Raises:
        ContractError: naming every missing or unknown key and every malformed value.
    """
    return _read(data, _contract)


def gold_from_json(data: Any) -> list[Call]:
    """Validate and build a gold list from parsed JSON: a list of calls, or ``{"calls": [...]}``.

    Raises:
        ContractError: naming everything that is wrong with the list.
    """
    return _read(data, _gold)


def rules_from_json(data: Any) -> list[Call]:
    """Validate and build forbidden rules from parsed JSON: a list of rules.

    Raises:
        ContractError: naming everything that is wrong with the rules.
    """
    return _read(data, _rules)


def _read(data: Any, read: Callable[[Any, list[Problem]], _T]) -> _T:
    problems: list[Problem] = []
    try:
        result = read(data, problems)
    except RecursionError:  # a value that holds itself, or hundreds of levels
        raise ContractError([Problem(f"nested deeper than {MAX_DEPTH} levels", "$")]) from None
    if problems:
        raise ContractError(problems)
    return result


def evaluate_contract(
    contract: Contract | dict[str, Any],
    actual: Any,
    weights: dict[str, float] | None = None,
    strict: bool = False,
    final_answer: str | None = None,
    honesty: HonestyConfig | None = None,
) -> EvaluationResult:
    """Evaluate tool calls against a contract.

    Args:
        contract: a contract, or a contract mapping.
        actual: the calls (dicts), or any raw format that ``evaluate()`` reads.
        weights: score weights; None for the contract's.
        strict: compare type and value of arguments all the way down.
        final_answer: the agent's final answer, for the honesty checks; None when unknown.
        honesty: settings of the honesty checks.

    Returns:
        The evaluation of the best combination of alternatives, with ``contract_metrics``.

    Raises:
        ContractError: when the contract is wrong.
    """
    from toolscore_pipeline import api

    return api.evaluate_contract(
        contract, actual, weights=weights, strict=strict, final_answer=final_answer, honesty=honesty
    )


# --- weights --------------------------------------------------------------------------------------


def normalize_weights(given: Mapping[str, float] | None = None) -> dict[str, float]:
    """The weights as applied: the given ones over the defaults, divided by their sum.

    Without any given (None) the defaults are applied as they stand; their sum in doubles is not
    quite 1, and dividing by it would move every score by a rounding error.

    Raises:
        SettingsError: naming the first weight that is unknown, negative or not finite, or saying
            that all of them are 0.
    """
    if given is None:
        return dict(DEFAULT_WEIGHTS)
    for problem in _weight_problems(given, ""):
        name = f"weight {problem.json_path}: " if problem.json_path else ""
        raise SettingsError(f"{name}{problem.reason}")
    merged = {**DEFAULT_WEIGHTS, **given}
    total = sum(merged.values())
    return {name: weight / total for name, weight in merged.items()}


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the doubles
        return False


def _weight_problems(given: Any, path: str) -> list[Problem]:
    if not isinstance(given, Mapping):
        return [Problem(f"got {describe(given)}, expected an object of weights", path)]
    problems = []
    for name, weight in given.items():
        place = child_path(path, str(name)) if path else str(name)
        if name not in DEFAULT_WEIGHTS:
            problems.append(_unknown("weight", name, DEFAULT_WEIGHTS, place if path else ""))
        elif isinstance(weight, bool) or not isinstance(weight, (int, float)):
            problems.append(Problem(f"got {describe(weight)}, expected a number", place))
        elif not _is_finite(weight):
            problems.append(Problem(f"got {weight!r}, expected a finite number", place))
        elif weight < 0:
            problems.append(Problem(f"got {weight!r}, expected 0 or more", place))
    if not problems:
        total = sum({**DEFAULT_WEIGHTS, **given}.values())
        if total == 0 or not math.isfinite(total):
            expected = "a weight above 0" if total == 0 else "a finite sum"
            problems.append(Problem(f"the weights sum to {total!r}, expected {expected}", path))
    return problems


# --- optional calls -------------------------------------------------------------------------------


def split_optional(
    actual: Sequence[Call],
    required: Iterable[Call],
    optional: Sequence[Call],
    strict: bool = False,
) -> tuple[list[Call], list[int]]:
    """Leave out optional calls that are not needed to fill a required call.

    Walks the calls in order. A call that matches an optional entry is left out when earlier calls
    have already filled the required calls of its tool (or the tool is not required at all);
    otherwise it is kept and fills one.

    Args:
        actual: the calls, as dicts with ``tool`` and ``args``.
        required: the required calls of one combination.
        optional: the optional entries.
        strict: compare type and value of arguments all the way down.

    Returns:
        (scored calls, indexes of the optional calls left out).
    """
    needed = Counter(call["tool"] for call in required)
    filled: Counter[Any] = Counter()
    scored: list[Call] = []
    left_out: list[int] = []
    for index, call in enumerate(actual):
        tool = call.get("tool")
        if filled[tool] >= needed[tool] and any(
            call_matches(entry, call, strict) for entry in optional
        ):
            left_out.append(index)
        else:
            filled[tool] += 1
            scored.append(call)
    return scored, left_out


def call_matches(entry: Call, call: Call, strict: bool = False) -> bool | None:
    """Whether a call is what a rule or an optional entry names: its tool and each listed argument.

    Arguments that the entry does not list may be there. None when a pattern over its time budget
    leaves the answer open.
    """
    if entry.get("tool") != call.get("tool"):
        return False
    args = call.get("args") or {}
    is_known = True
    for name, expected in (entry.get("args") or {}).items():
        met = decide(declare(expected), args[name], strict=strict) if name in args else False
        if met is False:
            return False
        is_known = is_known and met is not None
    return True if is_known else None


# --- checking -------------------------------------------------------------------------------------


def _unknown(what: str, name: Any, known: Iterable[str], path: str) -> Problem:
    names = list(known)
    hint = nearest(str(name), names) or f" (known: {', '.join(names)})"
    return Problem(f"unknown {what} {name!r}{hint}", path or None)


def _check_keys(
    value: dict[Any, Any], known: Sequence[str], path: str, problems: list[Problem]
) -> None:
    problems.extend(
        _unknown("key", key, known, child_path(path, str(key))) for key in value if key not in known
    )


def _text_or(value: Any, default: Any, path: str, problems: list[Problem]) -> Any:
    if isinstance(value, str):
        return value
    problems.append(Problem(f"got {describe(value)}, expected text", path))
    return default


def _task(value: Any, path: str, problems: list[Problem]) -> str | list[str] | None:
    if isinstance(value, list) and value and all(isinstance(name, str) and name for name in value):
        return list(value)
    if isinstance(value, str) and value:
        return value
    got = describe(value)
    problems.append(Problem(f"got {got}, expected a task's name or a list of names", path))
    return None


def _contract(data: Any, problems: list[Problem]) -> Contract:
    contract = Contract()
    if isinstance(data, Contract):
        data = _as_mapping(data)
    if not is_contract(data):
        problems.append(
            Problem(
                f"got {describe(data)}, expected a contract: an object with contract_version, "
                "required or optional",
                "$",
            )
        )
        return contract
    groups = _Groups()
    for key, value in data.items():
        place = child_path("$", str(key))
        match key:
            case "contract_version":
                if isinstance(value, bool) or value != CONTRACT_VERSION:
                    problems.append(
                        Problem(f"got {describe(value)}, expected {CONTRACT_VERSION}", place)
                    )
            case "description":
                contract.description = _text_or(value, "", place, problems)
            case "task":
                contract.task = _task(value, place, problems)
            case "variant":
                contract.variant = _text_or(value, None, place, problems)
            case "source":
                contract.source = _text_or(value, None, place, problems)
            case "optional":
                contract.optional = _calls(value, _OPTIONAL_KEYS, place, problems)
            case "forbidden":
                contract.forbidden = _calls(value, _RULE_KEYS, place, problems)
            case "weights":
                problems.extend(_weight_problems(value, place))
                contract.weights = dict(value) if isinstance(value, Mapping) else None
            case "min_score":
                if not is_share(value):
                    problems.append(
                        Problem(f"got {describe(value)}, expected a number from 0 to 1", place)
                    )
                else:
                    contract.min_score = float(value)
            case "required" | "alternatives":
                pass
            case _:
                problems.append(_unknown("key", key, _CONTRACT_KEYS, place))
    contract.required = groups.required(data.get("required", []), "$.required", problems)
    contract.required += groups.listed(data.get("alternatives", []), "$.alternatives", problems)
    too_many = _too_many(contract.combination_count)
    if too_many:
        problems.append(too_many)
    return contract


def _as_mapping(contract: Contract) -> dict[str, Any]:
    """The contract as the mapping that declares it, to have it checked."""
    mapping: dict[str, Any] = {
        "contract_version": CONTRACT_VERSION,
        "required": [
            {"id": entry.id, "alternatives": entry.options}
            if isinstance(entry, AlternativeGroup)
            else entry
            for entry in contract.required
        ],
        "optional": contract.optional,
        "forbidden": contract.forbidden,
        "min_score": contract.min_score,
        "description": contract.description,
    }
    if contract.weights is not None:
        mapping["weights"] = contract.weights
    for key in ("task", "variant", "source"):
        if getattr(contract, key) is not None:
            mapping[key] = getattr(contract, key)
    return mapping


def is_share(value: Any) -> bool:
    """Whether ``value`` is a number from 0 to 1; a boolean is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


class _Groups:
    """Reads required calls and groups, and sees to it that every group has a name of its own."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._count = 0

    def required(
        self, value: Any, path: str, problems: list[Problem]
    ) -> list[Call | AlternativeGroup]:
        entries: list[Call | AlternativeGroup] = []
        for item, place in _items(value, path, problems):
            if isinstance(item, AlternativeGroup) or (
                isinstance(item, dict) and "alternatives" in item
            ):
                entries.append(self._group(item, place, problems))
            else:
                entries.extend(_call(item, _CALL_KEYS, place, problems))
        return entries

    def listed(self, value: Any, path: str, problems: list[Problem]) -> list[AlternativeGroup]:
        groups = []
        for item, place in _items(value, path, problems):
            if isinstance(item, AlternativeGroup) or (
                isinstance(item, dict) and "alternatives" in item
            ):
                groups.append(self._group(item, place, problems))
            else:
                problems.append(
                    Problem(
                        f"got {describe(item)}, expected a group: an object with alternatives",
                        place,
                    )
                )
        return groups

    def _group(self, item: Any, path: str, problems: list[Problem]) -> AlternativeGroup:
        self._count += 1
        if isinstance(item, AlternativeGroup):
            item = {"id": item.id, "alternatives": item.options}
        _check_keys(item, _GROUP_KEYS, path, problems)
        name = item.get("id", f"group-{self._count}")
        place = child_path(path, "id") if "id" in item else path
        if not isinstance(name, str) or not name:
            problems.append(Problem(f"got {describe(name)}, expected a name as text", place))
        elif name in self._names:
            problems.append(Problem(f"the group id {name!r} is given twice", place))
        else:
            self._names.add(name)
        if "description" in item:
            _text_or(item["description"], "", child_path(path, "description"), problems)
        options_path = child_path(path, "alternatives")
        options = [
            _calls(option, _CALL_KEYS, place, problems)
            if isinstance(option, (list, tuple))
            else _call(option, _CALL_KEYS, place, problems)
            for option, place in _items(item["alternatives"], options_path, problems)
        ]
        if isinstance(item["alternatives"], (list, tuple)) and not options:
            problems.append(Problem("got no options, expected at least one", options_path))
        return AlternativeGroup(str(name), options)


def _items(value: Any, path: str, problems: list[Problem]) -> list[tuple[Any, str]]:
    if not isinstance(value, (list, tuple)):
        problems.append(Problem(f"got {describe(value)}, expected a list", path))
        return []
    return [(item, child_path(path, index)) for index, item in enumerate(value)]


def _calls(value: Any, known: Sequence[str], path: str, problems: list[Problem]) -> list[Call]:
    calls: list[Call] = []
    for item, place in _items(value, path, problems):
        calls.extend(_call(item, known, place, problems))
    return calls


def _call(
    value: Any,
    known: Sequence[str],
    path: str,
    problems: list[Problem],
    ignored: frozenset[str] = frozenset(),
) -> list[Call]:
    """The call as a list of one; empty when it is none."""
    if not isinstance(value, dict):
        problems.append(
            Problem(f"got {describe(value)}, expected a call: an object with tool", path)
        )
        return []
    call: Call = {}
    if "tool" not in value:
        hint = _other_name(value, known)
        problems.append(Problem(f"the key 'tool' is missing{hint}, expected a tool's name", path))
    for key, item in value.items():
        place = child_path(path, str(key))
        match key:
            case "tool":
                if not isinstance(item, str) or not item:
                    problems.append(Problem(f"got {describe(item)}, expected a tool's name", place))
                call["tool"] = item
            case "args":
                args = _args(item, place, problems)
                if args is not None:
                    call["args"] = args
            case "description" | "reason" if key in known:
                call[key] = _text_or(item, "", place, problems)
            case "side_effects" if key in known:
                call[key] = _side_effects(item, place, problems)
            case _ if key not in ignored:
                problems.append(_unknown("key", key, known, place))
    return [call]


def _other_name(value: dict[Any, Any], known: Sequence[str]) -> str:
    """A hint when a call names its tool under another key."""
    for key in ("name", "function", "tool_name"):
        if isinstance(value.get(key), str) and key not in known:
            return f" (got {key!r})"
    return ""


def _args(value: Any, path: str, problems: list[Problem]) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        problems.append(Problem(f"got {describe(value)}, expected an object of arguments", path))
        return None
    if len(value) == 1 and next(iter(value)) in OPERATORS:
        problems.append(
            Problem(
                "a matcher stands for the value of one argument; leave args out to accept any",
                path,
            )
        )
        return None
    args: dict[str, Any] = {}
    for name, item in value.items():
        before = len(problems)
        declared = declare(item, problems, child_path(path, str(name)))
        args[str(name)] = from_declared(declared, item) if len(problems) == before else None
    return args


def _side_effects(value: Any, path: str, problems: list[Problem]) -> dict[str, Any]:
    if not isinstance(value, dict):
        problems.append(Problem(f"got {describe(value)}, expected an object of side effects", path))
        return {}
    _check_keys(value, SIDE_EFFECTS, path, problems)
    problems.extend(
        Problem("got null, expected what to look for", child_path(path, key))
        for key in SIDE_EFFECTS
        if key in value and value[key] is None
    )
    return dict(value)


def _gold(data: Any, problems: list[Problem]) -> list[Call]:
    path = "$"
    if isinstance(data, dict):
        if "calls" not in data:
            problems.append(
                Problem(
                    "got an object without 'calls', expected a list of calls, or a contract with "
                    "contract_version, required or optional",
                    "$",
                )
            )
            return []
        _check_keys(data, _GOLD_KEYS, "$", problems)
        if "task" in data:
            _task(data["task"], "$.task", problems)
        for key in ("description", "variant", "source"):
            if key in data:
                _text_or(data[key], "", child_path("$", key), problems)
        data, path = data["calls"], "$.calls"
    calls: list[Call] = []
    for item, place in _items(data, path, problems):
        calls.extend(_call(item, _CALL_KEYS, place, problems, _RECORD_KEYS))
    return calls


def _rules(data: Any, problems: list[Problem]) -> list[Call]:
    return _calls(data, _RULE_KEYS, "$", problems)
