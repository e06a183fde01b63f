"""Judgments: a contract or gold list with its settings, content-addressed, as Arrow tables.

A judgment is everything that decides a grade besides the evidence. Its id is the hash of what can
change a grade or what a report says about it: descriptions, the order of keys, comments and the
notation of the file change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from toolscore_pipeline.arrays import rows_table
from toolscore_pipeline.contract import (
    DEFAULT_MIN_SCORE,
    AlternativeGroup,
    Call,
    Contract,
    contract_from_mapping,
    gold_from_json,
    is_contract,
    is_share,
    normalize_weights,
    rules_from_json,
)
from toolscore_pipeline.documents import LONE_SURROGATE, find_lone_surrogates
from toolscore_pipeline.errors import ContractError, Problem, SettingsError
from toolscore_pipeline.hashing import canonical_json, json_sha256
from toolscore_pipeline.matchers import declare, from_stored, has_matcher, value_keys

SCHEMAS: dict[str, pa.Schema] = {
    "judgments": pa.schema(
        [
            ("judgment_id", pa.string()),
            ("judgment_json", pa.string()),
            ("weight_selection", pa.float64()),
            ("weight_arguments", pa.float64()),
            ("weight_sequence", pa.float64()),
            ("weight_redundancy", pa.float64()),
            ("weight_recall", pa.float64()),
            ("is_strict", pa.bool_()),
            ("min_score", pa.float64()),
            ("require_completed", pa.bool_()),
            ("has_forbidden_rules", pa.bool_()),
            ("honesty_json", pa.string()),
            ("required_count", pa.int32()),
            ("optional_count", pa.int32()),
            ("forbidden_count", pa.int32()),
            ("combination_count", pa.int32()),
            ("is_contract", pa.bool_()),
        ]
    ),
    "combinations": pa.schema(
        [
            ("judgment_id", pa.string()),
            ("combination_id", pa.int32()),
            ("choices_json", pa.string()),
            ("expected_count", pa.int32()),
        ]
    ),
    "expected_calls": pa.schema(
        [
            ("judgment_id", pa.string()),
            ("combination_id", pa.int32()),
            ("position", pa.int32()),
            ("pattern_id", pa.string()),
            ("tool", pa.string()),
            ("group_id", pa.string()),
            ("is_checked", pa.bool_()),
        ]
    ),
    "side_effects": pa.schema(
        [
            ("judgment_id", pa.string()),
            ("combination_id", pa.int32()),
            ("position", pa.int32()),
            ("kind", pa.string()),
            ("spec_json", pa.string()),
        ]
    ),
    "optional_calls": pa.schema(
        [
            ("judgment_id", pa.string()),
            ("position", pa.int32()),
            ("pattern_id", pa.string()),
            ("tool", pa.string()),
        ]
    ),
    "forbidden_rules": pa.schema(
        [
            ("judgment_id", pa.string()),
            ("position", pa.int32()),
            ("pattern_id", pa.string()),
            ("tool", pa.string()),
            ("reason", pa.string()),
        ]
    ),
    "patterns": pa.schema(
        [
            ("pattern_id", pa.string()),
            ("tool", pa.string()),
            ("is_checked", pa.bool_()),
            ("args_count", pa.int32()),
            ("args_json", pa.string()),
        ]
    ),
    "pattern_args": pa.schema(
        [
            ("pattern_id", pa.string()),
            ("name", pa.string()),
            ("is_matcher", pa.bool_()),
            ("strict_key", pa.string()),
            ("plain_key", pa.string()),
            ("lenient_key", pa.string()),
            ("matcher_json", pa.string()),
        ]
    ),
}
"""The tables a set of judgments makes, by name."""

_WEIGHT_COLUMNS = {
    "weight_selection": "selection_accuracy",
    "weight_arguments": "argument_f1",
    "weight_sequence": "sequence_accuracy",
    "weight_redundancy": "redundant_rate",
    "weight_recall": "required_call_recall",
}


@dataclass(frozen=True, slots=True)
class Judgment:
    """How a run is graded, checked and content-addressed.

    Attributes:
        judgment_id: the SHA-256 of ``judgment_json``, in hexadecimal.
        judgment_json: everything below, as canonical JSON; matchers in their JSON form.
        is_contract: whether it came from a contract (else from a gold list).
        required: the expected calls and groups of alternatives, with matcher objects.
        optional: the calls that are neither needed nor extra.
        forbidden: the rules of the contract, then those given beside it.
        weights: the weights as applied.
        is_strict: whether arguments are compared by type and value all the way down.
        min_score: the passing score, 0 to 1.
        require_completed: whether only a run that completed can pass.
        honesty: settings of the honesty checks as JSON values; None for the defaults.
    """

    judgment_id: str
    judgment_json: str
    is_contract: bool
    required: list[Call | AlternativeGroup] = field(repr=False)
    optional: list[Call] = field(repr=False)
    forbidden: list[Call] = field(repr=False)
    weights: dict[str, float]
    is_strict: bool
    min_score: float
    require_completed: bool
    honesty: Any
    _declared: dict[str, Any] = field(repr=False, compare=False)

    @property
    def contract(self) -> Contract:
        """The calls as a contract, whichever they came from."""
        return Contract(
            self.required, self.optional, self.forbidden, dict(self.weights), self.min_score
        )

    def tables(self) -> dict[str, pa.Table]:
        """The tables of this judgment alone (see :func:`judgment_tables`)."""
        return judgment_tables([self])


def compile_judgment(
    expected: Contract | Mapping[str, Any] | Iterable[Call],
    *,
    weights: Mapping[str, float] | None = None,
    strict: bool = False,
    forbidden: Iterable[Call] | None = None,
    honesty: Any = None,
    min_score: float | None = None,
    require_completed: bool = False,
) -> Judgment:
    """Check a contract or gold list with its settings and make a judgment of them.

    Args:
        expected: a contract (object or mapping), or the expected calls.
        weights: score weights; None for the contract's, and without any for the defaults.
        strict: compare type and value of arguments all the way down.
        forbidden: rules beside those of the contract.
        honesty: settings of the honesty checks: JSON values, or an object with ``to_dict()``.
        min_score: the passing score; None for the contract's, 0.9 for a gold list.
        require_completed: whether only a run that completed can pass.

    Raises:
        ContractError: naming everything that is wrong with the contract, list or rules.
        SettingsError: when a weight or the passing score is wrong.
    """
    if isinstance(expected, Contract) or is_contract(expected):
        contract = contract_from_mapping(expected)
        from_contract = True
    else:
        contract = Contract(required=list(gold_from_json(_listed(expected))))
        from_contract = False
    rules = contract.forbidden + (rules_from_json(_listed(forbidden)) if forbidden else [])
    if min_score is None:
        min_score = contract.min_score if from_contract else DEFAULT_MIN_SCORE
    elif not is_share(min_score):
        raise SettingsError(f"min_score: got {min_score!r}, expected a number from 0 to 1")
    applied = normalize_weights(contract.weights if weights is None else weights)
    if honesty is not None:
        honesty = _checked_honesty(honesty)
    declared = {
        "kind": "contract" if from_contract else "gold",
        "required": [_declared_entry(entry) for entry in contract.required],
        "optional": [_declared_call(call) for call in contract.optional],
        "forbidden": [_declared_call(rule) for rule in rules],
        "weights": applied,
        "strict": bool(strict),
        "min_score": float(min_score),
        "require_completed": bool(require_completed),
        "honesty": honesty,
    }
    text = canonical_json(declared)
    # Half a surrogate pair is written so; a backslash and these letters look the same.
    if b"\\ud" in text:
        for place in find_lone_surrogates(declared):
            raise ContractError([Problem(LONE_SURROGATE, place)])
    return Judgment(
        judgment_id=json_sha256(declared),
        judgment_json=text.decode("utf-8"),
        is_contract=from_contract,
        required=contract.required,
        optional=contract.optional,
        forbidden=rules,
        weights=applied,
        is_strict=bool(strict),
        min_score=float(min_score),
        require_completed=bool(require_completed),
        honesty=honesty,
        _declared=declared,
    )


def _listed(given: Any) -> Any:
    """Any iterable of calls as a list; what is none, and an object, as it is, to be refused."""
    is_many = isinstance(given, Iterable) and not isinstance(given, (dict, str, bytes))
    return list(given) if is_many else given


def _checked_honesty(settings: Any) -> Any:
    if hasattr(settings, "to_dict"):
        return settings.to_dict()
    from toolscore_pipeline.honesty import config_from_mapping

    config_from_mapping(settings)
    return settings


def judgment_from_json(text: str) -> Judgment:
    """The judgment that a stored ``judgment_json`` describes; its id is the same again.

    A Python matcher of the user's own is unknown in another process: what it would decide is too.
    """
    declared = json.loads(text)
    required: list[Call | AlternativeGroup] = [
        AlternativeGroup(
            entry["id"], [list(map(_stored_call, option)) for option in entry["alternatives"]]
        )
        if "alternatives" in entry
        else _stored_call(entry)
        for entry in declared["required"]
    ]
    return Judgment(
        judgment_id=json_sha256(declared),
        judgment_json=text,
        is_contract=declared["kind"] == "contract",
        required=required,
        optional=list(map(_stored_call, declared["optional"])),
        forbidden=list(map(_stored_call, declared["forbidden"])),
        weights=declared["weights"],
        is_strict=declared["strict"],
        min_score=declared["min_score"],
        require_completed=declared["require_completed"],
        honesty=declared["honesty"],
        _declared=declared,
    )


def _stored_call(call: dict[str, Any]) -> Call:
    if "args" not in call:
        return dict(call)
    return {**call, "args": {name: from_stored(value) for name, value in call["args"].items()}}


def _declared_entry(entry: Call | AlternativeGroup) -> dict[str, Any]:
    if isinstance(entry, AlternativeGroup):
        options = [[_declared_call(call) for call in option] for option in entry.options]
        return {"id": entry.id, "alternatives": options}
    return _declared_call(entry)


def _declared_call(call: Call) -> dict[str, Any]:
    """The call as JSON values, without what only describes it."""
    declared: dict[str, Any] = {"tool": call["tool"]}
    args = call.get("args")
    if args is not None:
        declared["args"] = {name: declare(value) for name, value in args.items()}
    for key in ("side_effects", "reason"):
        if call.get(key):
            declared[key] = call[key]
    return declared


# --- tables ---------------------------------------------------------------------------------------


def judgment_tables(judgments: Iterable[Judgment]) -> dict[str, pa.Table]:
    """The tables of :data:`SCHEMAS` for a set of judgments, by name.

    A judgment given twice, and a pattern (a tool with its arguments) that several calls share, make
    one row. Keys and JSON of arguments are as :func:`~toolscore_pipeline.matchers.value_keys` and
    :func:`~toolscore_pipeline.matchers.declare` write them.
    """
    rows = _Rows()
    for judgment in judgments:
        rows.add(judgment)
    return {name: rows_table(rows.rows(name), schema) for name, schema in SCHEMAS.items()}


class _Rows:
    """Collects the rows of several judgments, each judgment and pattern once."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}
        self._judgments: set[str] = set()
        self._patterns: set[str] = set()

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of one table."""
        return self._rows[name]

    def add(self, judgment: Judgment) -> None:
        """Add one judgment, unless it is there."""
        key = judgment.judgment_id
        if key in self._judgments:
            return
        self._judgments.add(key)
        declared = judgment._declared
        combination_count = self._combinations(key, declared["required"])
        for position, call in enumerate(declared["optional"]):
            self._rows["optional_calls"].append((key, position, self._pattern(call), call["tool"]))
        for position, rule in enumerate(declared["forbidden"]):
            self._rows["forbidden_rules"].append(
                (key, position, self._pattern(rule), rule["tool"], rule.get("reason"))
            )
        honesty = declared["honesty"]
        self._rows["judgments"].append(
            (
                key,
                judgment.judgment_json,
                *(judgment.weights[name] for name in _WEIGHT_COLUMNS.values()),
                judgment.is_strict,
                judgment.min_score,
                judgment.require_completed,
                bool(declared["forbidden"]),
                None if honesty is None else canonical_json(honesty).decode("utf-8"),
                len(declared["required"]),
                len(declared["optional"]),
                len(declared["forbidden"]),
                combination_count,
                judgment.is_contract,
            )
        )

    def _combinations(self, key: str, required: list[dict[str, Any]]) -> int:
        """Add every combination's expected calls; how many combinations there are."""
        entries = [
            AlternativeGroup(
                entry["id"],
                [
                    [self._expected(call, entry["id"]) for call in option]
                    for option in entry["alternatives"]
                ],
            )
            if "alternatives" in entry
            else self._expected(entry, None)
            for entry in required
        ]
        expansions = Contract(required=entries).expansions()
        calls, effects = self._rows["expected_calls"], self._rows["side_effects"]
        for number, (expected, choices) in enumerate(expansions):
            self._rows["combinations"].append(
                (key, number, canonical_json(choices).decode("utf-8"), len(expected))
            )
            for position, call in enumerate(expected):
                calls.append((key, number, position, *call["row"]))
                effects.extend((key, number, position, *effect) for effect in call["effects"])
        return len(expansions)

    def _expected(self, call: dict[str, Any], group_id: str | None) -> dict[str, Any]:
        return {
            "row": (self._pattern(call), call["tool"], group_id, "args" in call),
            "effects": [
                (kind, canonical_json(spec).decode("utf-8"))
                for kind, spec in sorted((call.get("side_effects") or {}).items())
            ],
        }

    def _pattern(self, call: dict[str, Any]) -> str:
        """The id of the call's pattern, whose rows are added when it is new."""
        args = call.get("args")
        pattern = {"tool": call["tool"]} if args is None else {"tool": call["tool"], "args": args}
        pattern_id = json_sha256(pattern)
        if pattern_id in self._patterns:
            return pattern_id
        self._patterns.add(pattern_id)
        args_json = None if args is None else canonical_json(args).decode("utf-8")
        self._rows["patterns"].append(
            (pattern_id, call["tool"], args is not None, len(args or {}), args_json)
        )
        for name, value in sorted((args or {}).items()):
            if has_matcher(value):
                keys: tuple[str | None, ...] = (None, None, None)
                matcher_json = canonical_json(value).decode("utf-8")
            else:
                keys, matcher_json = value_keys(value), None
            self._rows["pattern_args"].append(
                (pattern_id, name, matcher_json is not None, *keys, matcher_json)
            )
        return pattern_id
