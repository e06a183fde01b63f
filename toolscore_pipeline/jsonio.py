"""Strict JSON: read fast, refuse what is not JSON, and say where.

Values come back exactly: integers of any size stay integers, and of two equal keys in one object
the last wins and is flagged. NaN, infinities, numbers too large for a double, text after the value
and a document that ends early are refused with line, column and reason. A lone surrogate has no
UTF-8 form and is kept as the six characters of its escape, flagged.

orjson does the work wherever it is exact. Where the bytes might hold something that it reads
otherwise (an integer beyond 64 bits becomes a double, a repeated key vanishes), cheap checks notice
and a plain parser decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from toolscore_pipeline.errors import InputError

#: What :func:`strict_loads` may report about a value.
DUPLICATE_KEYS = "duplicate_keys"
LONE_SURROGATE = "lone_surrogate"
BYTE_ORDER_MARK = "byte_order_mark"

#: A sentence for each flag.
FLAG_SENTENCES = {
    DUPLICATE_KEYS: "an object repeats a key; the last value was taken",
    LONE_SURROGATE: "a lone surrogate was kept as its escape",
    BYTE_ORDER_MARK: "a byte order mark was skipped",
}

#: Objects and lists nested deeper than this are refused: no tool writes them, and writers,
#: databases and viewers further down would fail on them one by one. orjson's writer has this limit.
MAX_DEPTH = 254

Flags = frozenset[str]
NO_FLAGS: Flags = frozenset()

_BOM = b"\xef\xbb\xbf"
_SMALL = 1 << 16
_SLICE = 1 << 18
# orjson reads integers up to 19 digits exactly, save negative ones of 19 digits that pass 2**63.
_LONG_INTEGER = re.compile(rb"-\d{19}|\d{20}")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def strict_loads(data: bytes | str) -> tuple[Any, Flags]:
    """The value of one JSON document and what was odd about it.

    Args:
        data: UTF-8 bytes, or text.

    Returns:
        The value, and the flags among ``duplicate_keys``, ``lone_surrogate`` and
        ``byte_order_mark`` that apply (most often none).

    Raises:
        InputError: when the data is not strict JSON, or nests deeper than ``MAX_DEPTH``.
    """
    if isinstance(data, str):
        try:
            raw = data.encode()
        except UnicodeEncodeError:
            return _plain_loads(data)
    else:
        raw = data
    try:
        value = orjson.loads(raw)
    except ValueError:
        return _careful_loads(raw)
    if type(value) in _SIMPLE and len(raw) < _SMALL and not _LONG_INTEGER.search(raw):
        return value, NO_FLAGS
    if _is_exact(raw, value):
        return value, NO_FLAGS
    return _careful_loads(raw)


_SIMPLE = (str, int, float, bool, type(None))


def strict_lines(chunk: bytes) -> list[tuple[int, Any, Flags]]:
    """The values of a chunk of JSON Lines.

    Args:
        chunk: whole lines, in UTF-8.

    Returns:
        One entry for each line that is not blank: its 0-based number within the chunk, its value
        (or the :class:`InputError` that says why it has none) and its flags.
    """
    lines = chunk.split(b"\n")
    values: list[tuple[int, Any, Flags]] = []
    is_all_fast = True
    loads = orjson.loads
    for number, line in enumerate(lines):
        try:
            values.append((number, loads(line), NO_FLAGS))
        except ValueError:
            if line.strip(b" \t\r\n"):
                is_all_fast = False
                values.append((number, line, NO_FLAGS))
    if is_all_fast and _is_exact(chunk, [value for _, value, _ in values]):
        return values
    return [(number, *strict_line(lines[number])) for number, _, _ in values]


def strict_line(line: bytes) -> tuple[Any, Flags]:
    """The value of one line, or the :class:`InputError` that says why it has none; its flags."""
    try:
        return strict_loads(line)
    except InputError as error:
        return error, NO_FLAGS


def _is_exact(raw: bytes, value: Any) -> bool:
    """Whether orjson's ``value`` is certainly what ``raw`` says; False means "look closer".

    Every key brings one colon, so a key that was repeated leaves fewer colons in the value written
    again than there are in the bytes; a colon in a text stands in both, unless it was escaped.
    """
    try:
        again = orjson.dumps(value)
    except (TypeError, ValueError):  # nested too deeply for the writer, so too deeply for us
        return False
    if len(raw) < _SMALL:
        if raw.count(b":") != again.count(b":") or b"\\u003" in raw:
            return False
        return not _LONG_INTEGER.search(raw)
    if count_colons(raw) != count_colons(again) or b"\\u003" in raw:
        return False
    return not has_long_integer(raw)


def depth(value: Any) -> int:
    """How many objects and lists deep ``value`` goes; 0 for a text, number, true, false or null."""
    deepest, level = 0, [value]
    while True:
        below: list[Any] = []
        is_open = False
        for item in level:
            if isinstance(item, dict):
                is_open = True
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                is_open = True
                below.extend(item)
        if not is_open:
            return deepest
        deepest, level = deepest + 1, below


def count_colons(raw: bytes) -> int:
    """How many colons stand in ``raw``."""
    import numpy as np

    array = np.frombuffer(raw, dtype=np.uint8)
    return sum(
        int(np.count_nonzero(array[start : start + _SLICE] == 58))
        for start in range(0, len(array), _SLICE)
    )


def has_long_integer(raw: bytes) -> bool:
    """Whether ``_LONG_INTEGER`` matches, by looking at every ninth byte.

    Nineteen digits in a row cover two bytes in succession whose positions are multiples of nine.
    """
    import numpy as np

    array = np.frombuffer(raw, dtype=np.uint8)
    sample = (array[::9] - 48) < 10
    positions = (sample[:-1] & sample[1:]).nonzero()[0] * 9
    for step in range(1, 9):
        positions = positions[(array[positions + step] - 48) < 10]
    return any(
        _LONG_INTEGER.search(raw, max(0, position - 20), position + 30)
        for position in positions.tolist()
    )


def _careful_loads(raw: bytes) -> tuple[Any, Flags]:
    is_marked = raw.startswith(_BOM)
    try:
        text = raw[3 if is_marked else 0 :].decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        reason = f"not JSON: byte 0x{raw[error.start]:02x} is not UTF-8 {_at(line, column)}"
        raise InputError(reason) from None
    value, flags = _plain_loads(text)
    return value, flags | {BYTE_ORDER_MARK} if is_marked else flags


def _plain_loads(text: str) -> tuple[Any, Flags]:
    flags: set[str] = set()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) < len(items):
            flags.add(DUPLICATE_KEYS)
        return result

    try:
        value = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_constant=_refuse,
            parse_float=_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        is_early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        what = "it ends early" if is_early and text.strip() else _message(error.msg)
        if not text.strip():
            what = "there is no value"
        reason = f"not JSON: {what} {_at(error.lineno, error.colno)}"
        raise InputError(reason) from None
    except _NotStrictError as error:
        line, column = _find_token(text, error.token)
        raise InputError(f"not JSON: {error.reason} {_at(line, column)}") from None
    except RecursionError:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels") from None
    if depth(value) > MAX_DEPTH:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels")
    if "\\ud" in text or "\\uD" in text or _SURROGATE.search(text):
        value, is_mended = without_surrogates(value)
        if is_mended:
            flags.add(LONE_SURROGATE)
    return value, frozenset(flags)


def _at(line: int, column: int) -> str:
    return f"at line {line}, column {column}"


def _message(text: str) -> str:
    return text[0].lower() + text[1:].removesuffix(" at")


class _NotStrictError(Exception):
    def __init__(self, token: str, reason: str) -> None:
        self.token = token
        self.reason = reason


def _refuse(token: str) -> NoReturn:
    raise _NotStrictError(token, f"{token} is no JSON number")


def _float(token: str) -> float:
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise _NotStrictError(token, f"{token[:40]} is too large for a number")
    return value


def _integer(token: str) -> int:
    try:
        return int(token)
    except ValueError:
        raise _NotStrictError(token, f"an integer of {len(token):,} digits") from None


def _find_token(text: str, token: str) -> tuple[int, int]:
    for match in _TOKEN.finditer(text):
        if match.group() == token:
            start = match.start()
            return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    return 1, 1


def without_surrogates(value: Any) -> tuple[Any, bool]:
    """JSON values with each lone surrogate as its escape, and whether there was one."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            return value.encode("utf-8", "backslashreplace").decode(), True
        return value, False
    if isinstance(value, dict):
        pairs = {
            without_surrogates(key)[0]: without_surrogates(item) for key, item in value.items()
        }
        is_mended = any(mended for _, mended in pairs.values()) or any(
            isinstance(key, str) and _SURROGATE.search(key) for key in value
        )
        return {key: item for key, (item, _) in pairs.items()}, is_mended
    if isinstance(value, list):
        items = [without_surrogates(item) for item in value]
        return [item for item, _ in items], any(mended for _, mended in items)
    return value, False


def find_non_json(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Places in a Python value that JSON has no number for.

    Args:
        value: anything; only NaN and infinities are reported.
        path: where ``value`` stands.

    Yields:
        The JSON path and what stands there (``nan``, ``inf`` or ``-inf``).
    """
    stack = [(path, value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, float):
            if item != item or item in (float("inf"), float("-inf")):
                yield where, repr(item)
        elif isinstance(item, dict):
            stack.extend((f"{where}.{key}", child) for key, child in item.items())
        elif isinstance(item, (list, tuple)):
            stack.extend((f"{where}[{index}]", child) for index, child in enumerate(item))
