"""Files that say which faults were injected into a run and what was planted in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolscore_pipeline.documents import Document, load_document
from toolscore_pipeline.errors import ContractError, Problem, nearest, unknown_name

FAULT_KINDS: tuple[str, ...] = ("error", "warning", "timeout", "truncated")
_PLACES = ("call_id", "index", "tool")
_FAULT_KEYS = (*_PLACES, "kind", "message")
_PLANTED_KEYS = ("tool", "canary", "instruction")


def load_injected(path: str | Path) -> dict[str, Any]:
    """An injected-fault file (JSON or YAML), checked: ``{"faults": [...], "planted": [...]}``.

    Raises:
        InputError: when the file cannot be read or parsed.
        ContractError: as :func:`injected_from_mapping`.
    """
    document = load_document(path)
    return injected_from_mapping(document.value, path=path, document=document)


def injected_from_mapping(
    data: Any, *, path: str | Path | None = None, document: Document | None = None
) -> dict[str, Any]:
    """Parsed faults and plantings, checked and with both lists present.

    A fault names its call by ``call_id`` (text), ``index`` (0-based) or ``tool``, has a ``kind``
    (error, warning, timeout, truncated; error when left out) and may have a ``message``. A planting
    has a ``canary``, an ``instruction`` (tool and args) or both, and the ``tool`` whose result
    carried it (None: unknown, so any call may have followed it).

    Raises:
        ContractError: naming every problem.
    """
    problems: list[Problem] = []
    if not isinstance(data, Mapping):
        raise ContractError([Problem("injected faults must be an object", "$")], path=path)
    _keys(data, ("faults", "planted"), "$", problems)
    faults = _each(data, "faults", problems, _fault)
    planted = _each(data, "planted", problems, _planting)
    if problems:
        located = document.locate(problems) if document is not None else problems
        raise ContractError(located, path=path)
    return {"faults": faults, "planted": planted}


def _keys(
    data: Mapping[Any, Any], known: tuple[str, ...], where: str, problems: list[Problem]
) -> None:
    for key in data:
        if key not in known:
            problems.append(Problem(unknown_name("key", str(key), known), f"{where}.{key}"))


def _each(
    data: Mapping[Any, Any], name: str, problems: list[Problem], check: Any
) -> list[dict[str, Any]]:
    entries = data.get(name)
    if entries is None:
        return []
    if not isinstance(entries, list):
        problems.append(Problem("must be a list", f"$.{name}"))
        return []
    good = []
    for at, entry in enumerate(entries):
        where = f"$.{name}[{at}]"
        if not isinstance(entry, Mapping):
            problems.append(Problem("must be an object", where))
        else:
            good.append(check(entry, where, problems))
    return good


def _text(entry: Mapping[Any, Any], key: str, where: str, problems: list[Problem]) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        problems.append(Problem("must be a text that is not empty", f"{where}.{key}"))
        return None
    return value


def _fault(entry: Mapping[Any, Any], where: str, problems: list[Problem]) -> dict[str, Any]:
    _keys(entry, _FAULT_KEYS, where, problems)
    given = [key for key in _PLACES if entry.get(key) is not None]
    if len(given) != 1:
        problems.append(
            Problem(f"needs exactly one of call_id, index and tool, got {len(given)}", where)
        )
    fault: dict[str, Any] = {}
    for key in ("call_id", "tool", "message"):
        value = _text(entry, key, where, problems)
        if value is not None:
            fault[key] = value
    index = entry.get("index")
    if index is not None:
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            problems.append(Problem("must be an integer of at least 0", f"{where}.index"))
        else:
            fault["index"] = index
    kind = entry.get("kind", "error")
    if kind not in FAULT_KINDS:
        hint = nearest(kind, FAULT_KINDS) if isinstance(kind, str) else ""
        problems.append(
            Problem(f"must be one of {', '.join(FAULT_KINDS)}, got {kind!r}{hint}", f"{where}.kind")
        )
    fault["kind"] = kind
    return fault


def _planting(entry: Mapping[Any, Any], where: str, problems: list[Problem]) -> dict[str, Any]:
    _keys(entry, _PLANTED_KEYS, where, problems)
    planting: dict[str, Any] = {}
    for key in ("tool", "canary"):
        value = _text(entry, key, where, problems)
        if value is not None:
            planting[key] = value
    instruction = entry.get("instruction")
    if instruction is not None:
        inside = f"{where}.instruction"
        if not isinstance(instruction, Mapping):
            problems.append(Problem("must be an object", inside))
        else:
            _keys(instruction, ("tool", "args"), inside, problems)
            tool = _text(instruction, "tool", inside, problems)
            args = instruction.get("args")
            if tool is None and not any(p.json_path == f"{inside}.tool" for p in problems):
                problems.append(Problem("is missing", f"{inside}.tool"))
            if args is not None and not isinstance(args, Mapping):
                problems.append(Problem("must be an object", f"{inside}.args"))
            planting["instruction"] = {
                "tool": tool,
                "args": dict(args) if isinstance(args, Mapping) else None,
            }
    if entry.get("canary") is None and instruction is None:
        problems.append(Problem("needs a canary, an instruction or both", where))
    return planting
