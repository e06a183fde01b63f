"""Canonical JSON and the hashes made of it.

Evidence, judgments, grades, receipts and exports are all named by the SHA-256 of their canonical
JSON: keys sorted, no white space, UTF-8, numbers as Python prints them, leaves that JSON cannot
hold as their ``repr`` (see :func:`leaf_text`).
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import orjson

# orjson writes 1e-7 and 0.00001 where Python writes 1e-07 and 1e-05. What looks so may be such a
# number (or only text), and then the slow, plain encoder decides.
_EXPONENT = re.compile(rb"\de-\d(?!\d)|0\.0000")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
_CHUNK = 1 << 20


def canonical_json(value: Any) -> bytes:
    """``value`` as canonical JSON bytes: sorted keys, no white space, UTF-8.

    Tuples become lists and non-string keys become strings, as in ``json.dumps``; any other leaf
    that JSON cannot hold, NaN and infinities among them, is written as its ``repr``.
    """
    try:
        fast = orjson.dumps(value, option=_FAST)
    except (TypeError, ValueError, RecursionError):
        return _slow_json(value)
    if b"null" in fast or _EXPONENT.search(fast):  # orjson writes NaN as null
        return _slow_json(value)
    return fast


def canonical_json_strict(value: Any) -> bytes:
    """The same bytes as :func:`canonical_json`, faster, for a value that came out of strict JSON.

    Args:
        value: objects with text keys, lists, texts, finite numbers, booleans and None only.
    """
    try:
        fast = orjson.dumps(value, option=_FAST)
    except (TypeError, ValueError, RecursionError):
        return _slow_json(value)
    if (b"e-" in fast or b"0.0000" in fast) and _EXPONENT.search(fast):
        return _slow_json(value)
    return fast


_FAST = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def _slow_json(value: Any) -> bytes:
    text = json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=leaf_text
    )
    # A lone surrogate has no UTF-8 form; its escape keeps the text readable and the hash stable.
    return text.encode("utf-8", errors="backslashreplace")


def _plain(value: Any) -> Any:
    """``value`` with every leaf and key in a form ``json.dumps`` sorts and writes one way only."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else _key(key): _plain(item) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return repr(value)
    return value


def _key(key: Any) -> str:
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    return leaf_text(key)


def leaf_text(value: Any) -> str:
    """The ``repr`` of a value that JSON cannot hold, the same in every process.

    The items of a set come in order, and the address that Python prints of an object without a
    ``repr`` of its own is left out: both would otherwise change from one process to the next.
    """
    if isinstance(value, (set, frozenset)) and value:
        items = ", ".join(sorted(map(leaf_text, value)))
        return f"frozenset({{{items}}})" if isinstance(value, frozenset) else f"{{{items}}}"
    text = repr(value)
    return text if isinstance(value, (str, bytes, bytearray)) else _ADDRESS.sub("", text)


def json_sha256(value: Any) -> str:
    """The SHA-256 of ``value`` as canonical JSON (see :func:`canonical_json`), in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def file_sha256(path: str | Path) -> tuple[str, int]:
    """The SHA-256 of a file's bytes, in hexadecimal, and their count; reads it in pieces."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def file_digest(path: str | Path) -> dict[str, Any]:
    """``{"path", "sha256", "bytes"}`` of a file: its path as given, hash and size of its bytes."""
    sha256, size = file_sha256(path)
    return {"path": str(path), "sha256": sha256, "bytes": size}
