"""When does an actual argument value meet an expected one?

Three modes of plain equality (see :func:`value_keys`), the matchers that may stand anywhere inside
an expected value, as JSON (``{"$regex": "^FL-"}``) or as Python objects (``Regex("FL-.*")``), and a
time budget per value, over which the answer is *unknown* instead of a hang.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import regex

from toolscore_pipeline.documents import child_path
from toolscore_pipeline.errors import ContractError, Problem, nearest
from toolscore_pipeline.hashing import canonical_json, leaf_text

PATTERN_BUDGET_SECONDS: Final = 0.1
"""Seconds that all patterns of one expected value together may spend on one actual value."""

OVERRUN_LIMIT: Final = 10
"""How often a pattern may use up its budget before its later values get the short one."""

SHORT_BUDGET_SECONDS: Final = 0.002
"""Seconds per value for a pattern that ran away :data:`OVERRUN_LIMIT` times in this process."""

OPERATORS: Final = ("$regex", "$contains", "$one_of", "$any", "$type", "$approx", "$literal")
"""The matchers that JSON can hold, each the only key of its object."""

JSON_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null")
"""The names ``$type`` knows."""

_PYTHON = "$python"
"""The key under which a Python matcher without a JSON form travels; never accepted in a file."""


# --- plain values ---------------------------------------------------------------------------------


def value_keys(value: Any) -> tuple[str, str, str]:
    """The value's ``(strict, plain, lenient)`` texts: equal text means equal value in that mode.

    strict: type and value (1 and 1.0 differ). plain: numbers compare by value at any depth, exactly
    (1 is 1.0, integers beyond 2**53 keep every digit), a boolean is never a number. lenient: plain,
    and white space around the value is ignored when it is a text itself (not inside containers).
    """
    strict = _text(_positive_zeros(value))
    if isinstance(value, str):
        return strict, strict, _text(value.strip())
    plain = _text(_exact_numbers(value))
    return strict, plain, plain


def _text(value: Any) -> str:
    return canonical_json(value).decode("utf-8", errors="replace")


def _exact_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _exact_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact_numbers(item) for item in value]
    return value


def _positive_zeros(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0  # -0.0 + 0.0 is 0.0, and equal values need equal texts
    if isinstance(value, dict):
        return {key: _positive_zeros(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_positive_zeros(item) for item in value]
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same_scalar(expected: Any, actual: Any, strict: bool, top: bool) -> bool:
    if _is_number(expected) and _is_number(actual):
        return bool(expected == actual) and (not strict or type(expected) is type(actual))
    if isinstance(expected, str) and isinstance(actual, str):
        return expected == actual or (top and not strict and expected.strip() == actual.strip())
    return type(expected) is type(actual) and bool(expected == actual)


# --- Python matchers ------------------------------------------------------------------------------


class Matcher(ABC):
    """An expectation that is more than one value; give it wherever a value may stand.

    Subclass it and define :meth:`matches` for a condition of your own. ``matcher == value`` asks
    the same question.
    """

    @abstractmethod
    def matches(self, value: object) -> bool:
        """Whether ``value`` meets the expectation.

        Args:
            value: the actual argument, as JSON values (dict, list, str, int, float, bool, None).
        """

    def json_form(self) -> Any:
        """The same matcher as JSON; None when JSON has no form for it."""
        return None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Matcher):
            return self is other or (type(self) is type(other) and repr(self) == repr(other))
        return self.matches(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class _JsonMatcher(Matcher):
    """A matcher that is decided through its declared JSON."""

    def _declared(self) -> Any:
        return declare(self)

    def matches(self, value: object) -> bool:
        """Whether ``value`` meets the expectation; an answer over the time budget counts as no."""
        return decide(self._declared(), value, strict=False) is True


class Regex(_JsonMatcher):
    """A text that the pattern matches from its first to its last character.

    Args:
        pattern: a pattern of Python's ``re``; a compiled one brings its flags.
        flags: flags of ``re``, such as ``re.DOTALL``.

    Raises:
        ContractError: when the pattern is wrong.
    """

    def __init__(self, pattern: str | re.Pattern[str], flags: int = 0) -> None:
        if isinstance(pattern, re.Pattern):
            flags = int(flags) | (pattern.flags & ~re.UNICODE)
            pattern = pattern.pattern
        problem = pattern_problem(pattern, int(flags))
        if problem:
            raise ContractError([Problem(problem)])
        self.pattern = pattern
        self.flags = int(flags)

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r}{f', flags={self.flags}' if self.flags else ''})"


class _Any(_JsonMatcher):
    """Any value at all, null among them; the argument must be there."""

    def json_form(self) -> Any:
        """The same matcher as JSON."""
        return {"$any": True}

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""Matches any value, null among them; the argument must be there."""


class Approx(_JsonMatcher):
    """A number (not a boolean) with ``|actual - value| <= max(rel * |value|, abs)``.

    Args:
        value: the expected number.
        rel: relative tolerance, 0 or more.
        abs: absolute tolerance, 0 or more.

    Raises:
        ContractError: when a number is missing, negative where it must not be, or not finite.
    """

    def __init__(self, value: float, rel: float = 1e-6, abs: float = 0.0) -> None:
        self.value, self.rel, self.abs = value, rel, abs
        problems = list(_approx_problems({"value": value, "rel": rel, "abs": abs}, "$"))
        if problems:
            raise ContractError([Problem(problem.reason) for problem in problems])

    def json_form(self) -> Any:
        """The same matcher as JSON, in its shortest form."""
        if self.rel == 1e-6 and self.abs == 0:
            return {"$approx": self.value}
        return {"$approx": {"value": self.value, "rel": self.rel, "abs": self.abs}}

    def __repr__(self) -> str:
        rel = f", rel={self.rel!r}" if self.rel != 1e-6 else ""
        return f"Approx({self.value!r}{rel}{f', abs={self.abs!r}' if self.abs else ''})"


class Contains(_JsonMatcher):
    """A text with ``item`` in it, a list holding it, or an object with that key."""

    def __init__(self, item: object) -> None:
        self.item = item

    def json_form(self) -> Any:
        """The same matcher as JSON."""
        return {"$contains": self.item}

    def __repr__(self) -> str:
        return f"Contains({self.item!r})"


class OneOf(_JsonMatcher):
    """Any one of ``values``, which may be matchers themselves."""

    def __init__(self, *values: object) -> None:
        self.values = list(values)

    def json_form(self) -> Any:
        """The same matcher as JSON."""
        return {"$one_of": self.values}

    def __repr__(self) -> str:
        return f"OneOf({self.values!r})"


class IsType(_JsonMatcher):
    """An instance of one of the Python types; a boolean is no ``int`` here.

    Raises:
        TypeError: without a type, or with something that is none.
    """

    def __init__(self, *types: type) -> None:
        if not types or not all(isinstance(item, type) for item in types):
            raise TypeError("IsType expected one or more types, such as IsType(int)")
        self.types = types

    def json_form(self) -> Any:
        """The same matcher as JSON; None when a type has no JSON name of its own."""
        names = [_TYPE_NAMES.get(item) for item in self.types]
        if None in names:
            return None
        return {"$type": names[0] if len(names) == 1 else names}

    def __repr__(self) -> str:
        return f"IsType({', '.join(item.__name__ for item in self.types)})"


# A JSON integer is a number too, so IsType(float), which 3 does not meet, has no JSON form.
_TYPE_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}


class JsonMatcher(_JsonMatcher):
    """A matcher as a file wrote it (``{"$regex": ...}``), checked and ready to match."""

    def __init__(self, form: dict[str, Any]) -> None:
        self.form = form

    def json_form(self) -> Any:
        """The same matcher as JSON."""
        return self.form

    def __repr__(self) -> str:
        return repr(self.form)


def matcher_from_json(value: Any) -> Any:
    """``value`` with each ``$`` operator in it, at any depth, turned into a matcher object.

    Args:
        value: a JSON value, such as an argument of an expected call.

    Raises:
        ContractError: naming every malformed operator and its place inside ``value``.
    """
    problems: list[Problem] = []
    declared = declare(value, problems)
    if problems:
        raise ContractError(problems)
    return from_declared(declared, value)


def from_declared(declared: Any, value: Any) -> Any:
    """The checked form of ``value`` with matcher objects in it; Python matchers stay themselves.

    Args:
        declared: what :func:`declare` made of ``value``.
        value: the value as it was given.
    """
    if isinstance(value, Matcher):
        return value
    if isinstance(declared, dict):
        if _operator(declared) is not None:
            return JsonMatcher(value)
        return {str(key): from_declared(declared[str(key)], item) for key, item in value.items()}
    if isinstance(declared, list):
        return [from_declared(one, item) for one, item in zip(declared, value, strict=True)]
    return declared


def from_stored(declared: Any) -> Any:
    """A declared value, as it was stored, with matcher objects in it.

    A matcher of someone's own that is not of this process meets nothing certain: it is unknown.
    """
    if isinstance(declared, dict):
        operator = _operator(declared)
        if operator == _PYTHON:
            return _restored(declared[_PYTHON])
        if operator == "$literal":
            return JsonMatcher(declared)
        stored = {key: from_stored(item) for key, item in declared.items()}
        return stored if operator is None else JsonMatcher(stored)
    if isinstance(declared, list):
        return [from_stored(item) for item in declared]
    return declared


def _restored(body: dict[str, Any]) -> Matcher:
    if "fullmatch" in body:
        return Regex(body["fullmatch"], body["flags"])
    if "types" in body:
        return IsType(*(_PYTHON_TYPES[name] for name in body["types"]))
    return _registry.get(body["key"]) or _Unresolved(body)


class _Unresolved(_JsonMatcher):
    """A matcher of another process, of which only the name is known."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body

    def __repr__(self) -> str:
        return str(self.body["repr"])


def record_value(value: Any) -> Any:
    """``value`` for a record that people and programs read: matchers as JSON, or as their repr."""
    if isinstance(value, Matcher):
        form = value.json_form()
        return repr(value) if form is None else record_value(form)
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get(_PYTHON), dict):
            return value[_PYTHON].get("repr")
        return {key: record_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [record_value(item) for item in value]
    return value


# --- declared values: checked, as JSON ------------------------------------------------------------


def declare(value: Any, problems: list[Problem] | None = None, path: str = "$") -> Any:
    """The expected value as checked JSON: matchers in their JSON form, tuples as lists.

    A Python matcher without a JSON form becomes ``{"$python": {...}}``, which :func:`decide`
    understands: anywhere for the matchers of this module, in this process for your own.

    Args:
        value: the expected value.
        problems: gets a :class:`Problem` for each thing that is wrong.
        path: where the value stands, for the problems.

    Raises:
        ContractError: when something is wrong and no ``problems`` list was given.
    """
    found: list[Problem] = [] if problems is None else problems
    declared = _declare(value, found, path)
    if problems is None and found:
        raise ContractError(found)
    return declared


def has_matcher(declared: Any) -> bool:
    """Whether a declared value (see :func:`declare`) holds a matcher, at any depth."""
    if isinstance(declared, dict):
        return _operator(declared) is not None or any(map(has_matcher, declared.values()))
    return isinstance(declared, list) and any(map(has_matcher, declared))


def _operator(value: dict[str, Any]) -> str | None:
    """The ``$`` key of a one-key object; None for any other object."""
    if len(value) == 1:
        (key,) = value
        if isinstance(key, str) and key.startswith("$"):
            return key
    return None


def _declare(value: Any, problems: list[Problem], path: str) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            problems.append(Problem(f"got {value!r}, expected a finite number", path))
        return value
    if isinstance(value, Matcher):
        return _declare_python(value, problems, path)
    if isinstance(value, dict):
        operator = _operator(value)
        if operator is not None:
            return _declare_operator(operator, value[operator], problems, path)
        return {
            key if isinstance(key, str) else str(key): _declare(
                item, problems, child_path(path, str(key))
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            _declare(item, problems, child_path(path, index)) for index, item in enumerate(value)
        ]
    return leaf_text(value)  # as records and hashes write what JSON cannot hold


def _declare_operator(name: str, operand: Any, problems: list[Problem], path: str) -> Any:
    here = child_path(path, name)
    if name == "$literal":
        return {name: _literal(operand, problems, here)}
    if name not in OPERATORS:
        problems.append(
            Problem(
                f"unknown matcher {name!r}{nearest(name, OPERATORS) or _known(OPERATORS)}; "
                f'to expect this object itself write {{"$literal": {{"{name}": ...}}}}',
                path,
            )
        )
        return {name: operand}
    check = _CHECKS.get(name)
    if check:
        problems.extend(check(operand, here))
        return {name: list(operand) if isinstance(operand, tuple) else operand}
    if name == "$one_of" and not isinstance(operand, (list, tuple)):
        problems.append(Problem(f"got {describe(operand)}, expected a list of values", here))
    return {name: _declare(operand, problems, here)}


def _known(names: Iterable[str]) -> str:
    return f" (known: {', '.join(names)})"


def _literal(value: Any, problems: list[Problem], path: str) -> Any:
    """A value without matchers in it: objects with a ``$`` key stand for themselves."""
    if isinstance(value, Matcher):
        problems.append(Problem(f"got the matcher {value!r}, expected a plain value", path))
        return None
    if isinstance(value, dict):
        return {
            str(key): _literal(item, problems, child_path(path, str(key)))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            _literal(item, problems, child_path(path, index)) for index, item in enumerate(value)
        ]
    return _declare(value, problems, path)


def describe(value: Any) -> str:
    """A short name for a value that stands where something else was expected, for errors."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return repr(value)


def _regex_problems(operand: Any, path: str) -> Iterator[Problem]:
    if not isinstance(operand, str):
        yield Problem(f"got {describe(operand)}, expected a pattern as text", path)
    elif problem := pattern_problem(operand):
        yield Problem(problem, path)


def _any_problems(operand: Any, path: str) -> Iterator[Problem]:
    if operand is not True:
        yield Problem(f"got {describe(operand)}, expected true", path)


def _type_problems(operand: Any, path: str) -> Iterator[Problem]:
    names = operand if isinstance(operand, (list, tuple)) else [operand]
    if not names:
        yield Problem("got an empty list, expected at least one type", path)
    for index, name in enumerate(names):
        place = child_path(path, index) if isinstance(operand, (list, tuple)) else path
        if not isinstance(name, str):
            yield Problem(
                f"got {describe(name)}, expected the name of a type{_known(JSON_TYPES)}", place
            )
        elif name not in JSON_TYPES:
            yield Problem(
                f"unknown type {name!r}{nearest(name, JSON_TYPES) or _known(JSON_TYPES)}", place
            )


_APPROX_KEYS = ("value", "rel", "abs")


def _approx_problems(operand: Any, path: str) -> Iterator[Problem]:
    if not isinstance(operand, dict):
        if not _is_number(operand):
            yield Problem(
                f"got {describe(operand)}, expected a number or an object with a value", path
            )
        elif isinstance(operand, float) and not math.isfinite(operand):
            yield Problem(f"got {operand!r}, expected a finite number", path)
        return
    if "value" not in operand:
        yield Problem("the key 'value' is missing, expected the number to be close to", path)
    for key, number in operand.items():
        place = child_path(path, str(key))
        if key not in _APPROX_KEYS:
            yield Problem(
                f"unknown key {key!r}{nearest(str(key), _APPROX_KEYS) or _known(_APPROX_KEYS)}",
                place,
            )
        elif not _is_number(number):
            yield Problem(f"got {describe(number)}, expected a number", place)
        elif isinstance(number, float) and not math.isfinite(number):
            yield Problem(f"got {number!r}, expected a finite number", place)
        elif key != "value" and number < 0:
            yield Problem(f"got {number!r}, expected a tolerance of 0 or more", place)


_CHECKS: dict[str, Callable[[Any, str], Iterator[Problem]]] = {
    "$regex": _regex_problems,
    "$any": _any_problems,
    "$type": _type_problems,
    "$approx": _approx_problems,
}


# --- Python matchers on their way through JSON ----------------------------------------------------

_REGISTRY_LIMIT = 10_000
_registry: OrderedDict[str, Matcher] = OrderedDict()
_registry_lock = threading.Lock()


def _declare_python(matcher: Matcher, problems: list[Problem], path: str) -> Any:
    form = matcher.json_form()
    if form is not None:
        return _declare(form, problems, path)
    body: dict[str, Any] = {"repr": repr(matcher)}
    if isinstance(matcher, _Unresolved):
        body = matcher.body
    elif type(matcher) is Regex:
        body |= {"fullmatch": matcher.pattern, "flags": matcher.flags}
    elif type(matcher) is IsType and all(kind in _PYTHON_TYPES.values() for kind in matcher.types):
        body["types"] = [kind.__name__ for kind in matcher.types]
    else:
        body["key"] = _register(matcher)
    return {_PYTHON: body}


_PYTHON_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (str, int, float, bool, list, dict, type(None))
}


def _register(matcher: Matcher) -> str:
    """A key for the matcher in this process: its repr, numbered when another one has that repr."""
    with _registry_lock:
        number, key = 0, repr(matcher)
        while key in _registry and _registry[key] is not matcher:
            number += 1
            key = f"{matcher!r}#{number}"
        _registry[key] = matcher
        _registry.move_to_end(key)
        if len(_registry) > _REGISTRY_LIMIT:
            _registry.popitem(last=False)
        return key


# --- deciding -------------------------------------------------------------------------------------


def matches(expected: Any, actual: Any, strict: bool = False) -> bool | None:
    """Whether an actual argument value meets the expected one; None when a pattern ran away.

    Args:
        expected: a value, with matchers anywhere in it.
        actual: the recorded value (JSON values).
        strict: compare type and value all the way down, text without trimming.

    Raises:
        ContractError: when a matcher in ``expected`` is malformed.
    """
    return decide(declare(expected), actual, strict=strict)


def decide(declared: Any, actual: Any, *, strict: bool = False) -> bool | None:
    """:func:`matches` for a value that :func:`declare` has checked."""
    return _decide(declared, actual, strict, True, _Budget())


@lru_cache(maxsize=4096)
def _parsed(matcher_json: str) -> Any:
    return json.loads(matcher_json)


def decide_json(matcher_json: str, value_json: str, strict: bool) -> bool | None:
    """:func:`decide` for texts: a declared value and an actual one, both as JSON."""
    return decide(_parsed(matcher_json), json.loads(value_json), strict=strict)


class _Budget:
    """The time that the patterns of one comparison may still use."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = PATTERN_BUDGET_SECONDS


def _all(answers: Iterable[bool | None]) -> bool | None:
    """False if one is False, else None if one is unknown, else True."""
    known = True
    for answer in answers:
        if answer is False:
            return False
        known = known and answer is not None
    return True if known else None


def _any_of(answers: Iterable[bool | None]) -> bool | None:
    """True if one is True, else None if one is unknown, else False."""
    known = True
    for answer in answers:
        if answer:
            return True
        known = known and answer is not None
    return False if known else None


def _decide(expected: Any, actual: Any, strict: bool, top: bool, budget: _Budget) -> bool | None:
    if isinstance(expected, dict):
        operator = _operator(expected)
        if operator is not None:
            return _apply(operator, expected[operator], actual, strict, top, budget)
        if not isinstance(actual, dict) or expected.keys() != actual.keys():
            return False
        return _all(
            _decide(item, actual[key], strict, False, budget) for key, item in expected.items()
        )
    if isinstance(expected, list):
        if not isinstance(actual, (list, tuple)) or len(expected) != len(actual):
            return False
        return _all(
            _decide(one, other, strict, False, budget)
            for one, other in zip(expected, actual, strict=True)
        )
    return _same_scalar(expected, actual, strict, top)


def _apply(
    operator: str, operand: Any, actual: Any, strict: bool, top: bool, budget: _Budget
) -> bool | None:
    match operator:
        case "$regex":
            return _searches(operand, actual, budget)
        case "$contains":
            return _contains(operand, actual, strict, budget)
        case "$one_of":
            return _any_of(_decide(item, actual, strict, top, budget) for item in operand)
        case "$any":
            return True
        case "$type":
            names = operand if isinstance(operand, list) else [operand]
            return any(_has_type(name, actual) for name in names)
        case "$approx":
            return _is_close(operand, actual)
        case "$literal":
            return _same_literal(operand, actual, strict, top)
        case _:
            return _python(operand, actual, budget)


def _searches(pattern: str, actual: Any, budget: _Budget) -> bool | None:
    if actual is None:
        return False
    if isinstance(actual, str):
        return _run(pattern, 0, False, actual, budget)
    if isinstance(actual, (list, tuple)):
        joined = " ".join(item if isinstance(item, str) else _text(item) for item in actual)
        return _run(pattern, 0, False, joined, budget)
    compact = _text(actual)
    if not isinstance(actual, dict):
        return _run(pattern, 0, False, compact, budget)
    # People write patterns for either way of spacing JSON.
    spaced = json.dumps(json.loads(compact), ensure_ascii=False)
    return _any_of(_run(pattern, 0, False, text, budget) for text in (compact, spaced))


def _contains(item: Any, actual: Any, strict: bool, budget: _Budget) -> bool | None:
    if isinstance(actual, str):
        return isinstance(item, str) and item in actual
    if isinstance(actual, dict):
        return isinstance(item, str) and item in actual
    if isinstance(actual, (list, tuple)):
        return _any_of(_decide(item, one, strict, True, budget) for one in actual)
    return False


def _has_type(name: str, actual: Any) -> bool:
    match name:
        case "string":
            return isinstance(actual, str)
        case "integer":
            return isinstance(actual, int) and not isinstance(actual, bool)
        case "number":
            return _is_number(actual)
        case "boolean":
            return isinstance(actual, bool)
        case "array":
            return isinstance(actual, (list, tuple))
        case "object":
            return isinstance(actual, dict)
        case _:
            return actual is None


def _is_close(operand: Any, actual: Any) -> bool:
    if not _is_number(actual):
        return False
    value, rel, bound = operand, 1e-6, 0.0
    if isinstance(operand, dict):
        value, rel, bound = operand["value"], operand.get("rel", rel), operand.get("abs", bound)
    try:
        return bool(abs(actual - value) <= max(rel * abs(value), bound))
    except OverflowError:  # an integer too large for a double, next to a double
        exact = [Fraction(number) for number in (actual, value, rel, bound)]
        return abs(exact[0] - exact[1]) <= max(exact[2] * abs(exact[1]), exact[3])


def _same_literal(expected: Any, actual: Any, strict: bool, top: bool) -> bool:
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and expected.keys() == actual.keys()
            and all(
                _same_literal(item, actual[key], strict, False) for key, item in expected.items()
            )
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, (list, tuple))
            and len(expected) == len(actual)
            and all(
                _same_literal(one, other, strict, False)
                for one, other in zip(expected, actual, strict=True)
            )
        )
    return _same_scalar(expected, actual, strict, top)


def _python(body: Any, actual: Any, budget: _Budget) -> bool | None:
    """Decide a Python matcher; unknown when it is one of another process, or raises."""
    if "fullmatch" in body:
        if not isinstance(actual, str):
            return False
        return _run(body["fullmatch"], body["flags"], True, actual, budget)
    if "types" in body:
        kinds = tuple(_PYTHON_TYPES[name] for name in body["types"])
        if isinstance(actual, bool):
            return bool in kinds
        return isinstance(actual, kinds)
    matcher = _registry.get(body.get("key"))
    if matcher is None:
        return None
    try:
        return bool(matcher.matches(actual))
    except Exception:  # someone else's code must not end a bulk grade
        return None


# --- patterns with a time budget ------------------------------------------------------------------

# The ``regex`` engine takes a time-out, which Python's own ``re`` does not. Where the two read a
# pattern differently it is rewritten first, so that ``re`` decides what a pattern means.
_FLAGS = {
    re.IGNORECASE: regex.IGNORECASE,
    re.MULTILINE: regex.MULTILINE,
    re.DOTALL: regex.DOTALL,
    re.VERBOSE: regex.VERBOSE,
    re.ASCII: regex.ASCII,
}
_overruns: dict[tuple[str, int], int] = {}
_QUANTIFIER = re.compile(r"\{(?:\d+(?:,\d*)?|,\d*)\}")
_VERBOSE_INLINE = re.compile(r"\(\?[aiLmsu]*x")


@lru_cache(maxsize=4096)
def pattern_problem(pattern: str, flags: int = 0) -> str | None:
    """What is wrong with a pattern, as a sentence that names it; None for a good one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern, flags)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        return f"the pattern {pattern!r} is wrong: {error}"
    try:
        _engine(pattern, flags)
    except (regex.error, ValueError, KeyError, RecursionError) as error:
        return f"the pattern {pattern!r} cannot be run with a time budget: {error}"
    return None


@lru_cache(maxsize=4096)
def _engine(pattern: str, flags: int) -> Any:
    translated = 0
    for ours, theirs in _FLAGS.items():
        if flags & ours:
            translated |= theirs
    return regex.compile(_as_re_reads(pattern, bool(flags & re.VERBOSE)), translated | regex.V0)


def _as_re_reads(pattern: str, verbose: bool) -> str:
    """The pattern with the characters escaped that only ``regex`` gives a meaning.

    ``{`` that begins no quantifier is a fuzzy match there, and ``[`` inside a set may begin a POSIX
    class; in ``re`` both are plain characters.
    """
    verbose = verbose or bool(_VERBOSE_INLINE.search(pattern))
    out: list[str] = []
    position, set_start = 0, -1
    while position < len(pattern):
        char = pattern[position]
        end = position + 1
        if char == "\\":
            end = position + 2
        elif set_start >= 0:
            if char == "]" and position > set_start:
                set_start = -1
            elif char == "[":
                out.append("\\")
        elif char == "[":
            set_start = end + 1 if pattern[end : end + 1] == "^" else end
        elif char == "(" and pattern.startswith("(?#", position):
            end = pattern.find(")", position) + 1 or len(pattern)
        elif char == "#" and verbose:
            end = pattern.find("\n", position) + 1 or len(pattern)
        elif char == "{":
            quantifier = _QUANTIFIER.match(pattern, position)
            if quantifier:
                end = quantifier.end()
            else:
                out.append("\\")
        out.append(pattern[position:end])
        position = end
    return "".join(out)


def _run(pattern: str, flags: int, full: bool, text: str, budget: _Budget) -> bool | None:
    if budget.left <= 0:
        return None
    engine = _engine(pattern, flags)
    name = (pattern, flags)
    limit = budget.left
    if _overruns and _overruns.get(name, 0) >= OVERRUN_LIMIT:
        limit = min(limit, SHORT_BUDGET_SECONDS)
    started = time.perf_counter()
    try:
        found = (engine.fullmatch if full else engine.search)(text, timeout=limit)
    except TimeoutError:
        _overruns[name] = _overruns.get(name, 0) + 1
        budget.left = 0.0
        return None
    except MemoryError:
        return None
    budget.left -= time.perf_counter() - started
    return found is not None
