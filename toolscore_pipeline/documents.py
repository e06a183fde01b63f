"""JSON and YAML documents read strictly, with the line of every value kept.

Contracts, gold lists, rules and other files that people write come through here. What JSON cannot
hold (NaN, infinities, a key given twice) is refused with its place, and YAML is read the way its
text looks: ``on``, ``no``, dates, times and numbers with leading zeros stay text, only ``true`` and
``false`` are booleans.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import yaml

from toolscore_pipeline.errors import InputError, Problem
from toolscore_pipeline.jsonio import MAX_DEPTH, depth

Kind = Literal["json", "yaml"]
"""The two notations a document can be written in."""

YAML_SUFFIXES = frozenset({".yaml", ".yml"})
JSON_SUFFIXES = frozenset({".json"})

MAX_YAML_NODES = 1_000_000
"""Values a YAML document may come to once its aliases are followed."""

LONE_SURROGATE = "got half a surrogate pair, expected whole characters"
"""What is wrong with a text such as ``"\\ud800"``."""

MAX_DIGITS = 4300
"""Digits an integer may have; Python converts no more."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$-]*")
_LAST_STEP = re.compile(r"(\.[A-Za-z_$][\w$-]*|\[\d+\]|\[\"(?:[^\"\\]|\\.)*\"\])$")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_JSON_SPACE = re.compile(r"[ \t\n\r]*")
_JSON_SCALAR = re.compile(r"[^\s,\]}]+")
_NOT_FINITE = "NaN and infinities are not JSON"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    Attributes:
        value: the document as JSON values.
        path: the file it came from; None for text without one.
        kind: ``json`` or ``yaml``.
    """

    value: Any
    path: str | None
    kind: Kind
    _find_lines: Callable[[], dict[str, int]] = field(repr=False, compare=False)

    def line_of(self, json_path: str) -> int | None:
        """The 1-based line where ``json_path`` (``$.required[1].args``) stands.

        A place that is not in the document, such as a missing key, has the line of the nearest
        container that is; None when not even the root is known.
        """
        lines = self._find_lines()
        while json_path not in lines:
            shorter = _LAST_STEP.sub("", json_path)
            if shorter == json_path:
                return None
            json_path = shorter
        return lines[json_path]

    def locate(self, problems: list[Problem]) -> list[Problem]:
        """The problems in document order, each with the line of its JSON path filled in."""
        located = []
        for problem in problems:
            line, where = problem.line, problem.json_path
            if line is None and where is not None:
                line = self.line_of(where)
            located.append(Problem(problem.reason, where, line))
        return sorted(located, key=lambda problem: problem.line or 0)


def child_path(path: str, step: str | int) -> str:
    """The JSON path of a member (by key) or an item (by index) of the value at ``path``."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _PLAIN_KEY.fullmatch(step):
        return f"{path}.{step}"
    return f"{path}[{json.dumps(step, ensure_ascii=False)}]"


def find_lone_surrogates(value: Any, path: str = "$") -> Iterator[str]:
    """The JSON paths of the texts, and of objects with keys, that hold half a surrogate pair."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from find_lone_surrogates(key, path)
            yield from find_lone_surrogates(item, child_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_lone_surrogates(item, child_path(path, index))


def load_document(path: str | Path) -> Document:
    """Read a JSON or YAML file (by its suffix; any other suffix is read as what it looks like).

    Raises:
        InputError: when the file is missing or unreadable, is not UTF-8, or is no strict JSON or
            YAML; the error names the file and, where there is one, the line.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("expected a file, got a folder", path=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("expected UTF-8 text", path=path, line=line) from None
    suffix = file.suffix.lower()
    if suffix in YAML_SUFFIXES:
        return parse_document(text, path=path, kind="yaml")
    if suffix in JSON_SUFFIXES or text.lstrip()[:1] in ("{", "["):
        return parse_document(text, path=path, kind="json")
    return parse_document(text, path=path, kind="yaml")


def parse_document(text: str, *, path: str | Path | None = None, kind: Kind = "json") -> Document:
    """Parse the text of a document; ``path`` is only what errors call it.

    Raises:
        InputError: as :func:`load_document` does.
    """
    if not text.strip():
        raise InputError("the document is empty", path=path, line=1)
    too_deep = InputError(f"nested deeper than {MAX_DEPTH} levels", path=path)
    try:
        document = _parse_yaml(text, path) if kind == "yaml" else _parse_json(text, path)
    except RecursionError:
        raise too_deep from None
    if depth(document.value) > MAX_DEPTH:
        raise too_deep
    for place in find_lone_surrogates(document.value):
        line = document.line_of(place)
        raise InputError(LONE_SURROGATE, path=path, line=line, json_path=place)
    return document


class _Refused(Exception):
    """Raised inside the JSON parser, which knows no places, to have the text scanned for one."""


def _parse_json(text: str, path: str | Path | None) -> Document:
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise _not_json(error, text, path) from None
    except _Refused:
        try:  # the parser stopped there: what comes after may be no JSON at all
            json.loads(text, parse_int=str, parse_float=str)
        except json.JSONDecodeError as error:
            raise _not_json(error, text, path) from None
        problem = _JsonPlaces(text).refusals[0]
        raise InputError(
            problem.reason, path=path, line=problem.line, json_path=problem.json_path
        ) from None
    lines: dict[str, int] = {}

    def find_lines() -> dict[str, int]:
        if not lines:
            lines.update(_JsonPlaces(text).lines)
        return lines

    return Document(value, _text_path(path), "json", find_lines)


def _not_json(error: json.JSONDecodeError, text: str, path: str | Path | None) -> InputError:
    detail = error.msg[:1].lower() + error.msg[1:]
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        reason = f"the JSON ends early ({detail})"
    else:
        reason = f"not JSON: {detail} at column {error.colno}"
    return InputError(reason, path=path, line=error.lineno)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused
    return value


def _refuse(_: str) -> NoReturn:
    raise _Refused


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Refused
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _Refused
    return int(text)


class _JsonPlaces:
    """The line of every value of a JSON text, and what a strict reader refuses in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[str, int] = {}
        self.refusals: list[Problem] = []
        self._line, self._counted = 1, 0
        self._value(0, "$", None)

    def _line_at(self, position: int) -> int:
        # Positions only grow, so each stretch of text is counted once.
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def _skip(self, position: int) -> int:
        found = _JSON_SPACE.match(self.text, position)
        return found.end() if found else position

    def _value(self, position: int, path: str, line: int | None) -> int:
        """Note the value that starts at ``position`` and return where it ends."""
        position = self._skip(position)
        self.lines[path] = self._line_at(position) if line is None else line
        opening = self.text[position]
        if opening == "{":
            return self._object(position + 1, path)
        if opening == "[":
            return self._array(position + 1, path)
        token = (_JSON_STRING if opening == '"' else _JSON_SCALAR).match(self.text, position)
        end = token.end() if token else len(self.text)
        reason = None if opening == '"' else _refusal(self.text[position:end])
        if reason:
            self.refusals.append(Problem(reason, path, self._line_at(position)))
        return end

    def _object(self, position: int, path: str) -> int:
        seen: set[str] = set()
        position = self._skip(position)
        while self.text[position] != "}":
            token = _JSON_STRING.match(self.text, position)
            if token is None:
                return len(self.text)
            key, line = json.loads(token.group(), strict=False), self._line_at(position)
            if key in seen:
                self.refusals.append(
                    Problem(f"the key {key!r} is given twice", child_path(path, key), line)
                )
            seen.add(key)
            position = self._skip(token.end()) + 1  # past the colon
            position = self._skip(self._value(position, child_path(path, key), line))
            if self.text[position] == ",":
                position = self._skip(position + 1)
        return position + 1

    def _array(self, position: int, path: str) -> int:
        index = 0
        position = self._skip(position)
        while self.text[position] != "]":
            position = self._skip(self._value(position, child_path(path, index), None))
            index += 1
            if self.text[position] == ",":
                position = self._skip(position + 1)
        return position + 1


def _too_long(integer: str) -> str:
    return f"got an integer of {len(integer):,} digits, expected at most {MAX_DIGITS:,}"


def _refusal(token: str) -> str | None:
    """Why a strict reader refuses a bare word; None for the numbers and names of JSON."""
    if token.lstrip("-").isdigit():
        return _too_long(token) if len(token) > MAX_DIGITS else None
    if token in ("true", "false", "null") or math.isfinite(float(token)):
        return None
    return f"got {token}, expected a finite number ({_NOT_FINITE})"


class _YamlLoader(yaml.SafeLoader):
    """A YAML composer that takes only JSON's own scalars for anything but text."""


_YamlLoader.yaml_implicit_resolvers = {}
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_BOOL, _NULL = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"
_STR = "tag:yaml.org,2002:str"
for _tag, _pattern, _starts in (
    (_NULL, r"^(?:null|~|)$", ["n", "~", ""]),
    (_BOOL, r"^(?:true|false)$", ["t", "f"]),
    (_INT, r"^-?(?:0|[1-9][0-9]*)$", list("-0123456789")),
    (_FLOAT, r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", list("-0123456789")),
    (_FLOAT, r"^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$", list("-+.")),
):
    _YamlLoader.add_implicit_resolver(_tag, re.compile(_pattern), _starts)


def _parse_yaml(text: str, path: str | Path | None) -> Document:
    try:
        node = yaml.compose(text, Loader=_YamlLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        reason = error.problem or error.context or "cannot be parsed"
        raise InputError(f"not YAML: {reason}", path=path, line=line) from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", path=path) from None
    if node is None:
        raise InputError("the document is empty", path=path, line=1)
    reader = _YamlReader(path)
    value = reader.read(node, "$", None)
    return Document(value, _text_path(path), "yaml", lambda: reader.lines)


class _YamlReader:
    """Builds JSON values from composed YAML nodes and notes the line of each."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = path
        self.lines: dict[str, int] = {}
        self._open: set[Hashable] = set()
        self._count = 0

    def _error(self, reason: str, node: yaml.Node, json_path: str) -> InputError:
        return InputError(
            reason, path=self.path, line=node.start_mark.line + 1, json_path=json_path
        )

    def read(self, node: yaml.Node, json_path: str, key: yaml.Node | None) -> Any:
        """The value of ``node``; ``key`` is the node of the key it stands under, if any."""
        self.lines[json_path] = (key or node).start_mark.line + 1
        self._count += 1
        if self._count > MAX_YAML_NODES:
            raise self._error(
                f"the aliases come to more than {MAX_YAML_NODES:,} values", node, json_path
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, json_path)
        if id(node) in self._open:
            raise self._error("the alias refers to the value it stands in", node, json_path)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
                return [
                    self.read(item, child_path(json_path, index), None)
                    for index, item in enumerate(node.value)
                ]
            if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
                return self._mapping(node, json_path)
        finally:
            self._open.discard(id(node))
        raise self._error(f"unknown YAML tag {node.tag!r}, expected plain values", node, json_path)

    def _mapping(self, node: yaml.MappingNode, json_path: str) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(
                    "expected text as a key, got a list or a mapping", key_node, json_path
                )
            key = str(key_node.value)
            place = child_path(json_path, key)
            if key in value:
                raise self._error(f"the key {key!r} is given twice", key_node, place)
            value[key] = self.read(value_node, place, key_node)
        return value

    def _scalar(self, node: yaml.ScalarNode, json_path: str) -> Any:
        text = str(node.value)
        if node.tag == _STR:
            return text
        if node.tag == _INT and len(text) > MAX_DIGITS:
            raise self._error(_too_long(text), node, json_path)
        try:
            if node.tag == _NULL:
                return None
            if node.tag == _BOOL:
                return {"true": True, "false": False}[text]
            if node.tag == _INT:
                return int(text)
            if node.tag == _FLOAT:
                number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
                if math.isfinite(number):
                    return number
        except (KeyError, ValueError):
            kind = node.tag.rpartition(":")[2]
            raise self._error(f"{text!r} is no {kind}", node, json_path) from None
        if node.tag == _FLOAT:
            raise self._error(
                f"got {text}, expected a finite number ({_NOT_FINITE}; quote it for text)",
                node,
                json_path,
            )
        raise self._error(f"unknown YAML tag {node.tag!r}, expected plain values", node, json_path)


def _text_path(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
