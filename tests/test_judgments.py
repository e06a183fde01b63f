"""Judgments: what their id covers, and the tables they make."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest

from toolscore_pipeline.contract import Contract, contract_from_mapping
from toolscore_pipeline.errors import ContractError, SettingsError
from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.judgments import (
    SCHEMAS,
    Judgment,
    compile_judgment,
    judgment_from_json,
    judgment_tables,
)
from toolscore_pipeline.matchers import ANY, Contains, IsType, Matcher, Regex

CONTRACT: dict[str, Any] = {
    "contract_version": 2,
    "required": [
        {"tool": "search", "args": {"q": "x ", "limit": 5.0}},
        {"id": "book", "alternatives": [[{"tool": "book"}, {"tool": "pay"}], {"tool": "reserve"}]},
    ],
    "optional": [{"tool": "weather"}],
    "forbidden": [{"tool": "cancel", "reason": "never"}],
    "weights": {"required_call_recall": 1},
    "min_score": 0.5,
}


def rows(judgment: Judgment, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of one of a judgment's tables."""
    return [
        tuple(row[column] for column in columns) for row in judgment.tables()[table].to_pylist()
    ]


# --- what the id covers ---


def changed(path: list[str | int], value: Any) -> dict[str, Any]:
    """The contract with one place changed."""
    contract = copy.deepcopy(CONTRACT)
    target: Any = contract
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return contract


@pytest.mark.parametrize(
    "same",
    [
        dict(reversed(CONTRACT.items())),
        changed(["description"], "told to people"),
        changed(["task"], "booking"),
        changed(["required", 0, "description"], "looks for flights"),
        changed(["required", 0, "args"], {"limit": 5.0, "q": "x "}),
        changed(["required", 1, "alternatives", 1], [{"tool": "reserve", "args": None}]),
        changed(["weights"], {"required_call_recall": 1, "selection_accuracy": 0.4}),
        {
            **CONTRACT,
            "required": CONTRACT["required"][:1],
            "alternatives": CONTRACT["required"][1:],
        },
    ],
)
def test_what_changes_no_grade_leaves_the_id_alone(same: dict[str, Any]) -> None:
    assert compile_judgment(same).judgment_id == compile_judgment(CONTRACT).judgment_id


@pytest.mark.parametrize(
    "other",
    [
        changed(["min_score"], 0.6),
        changed(["weights"], {"required_call_recall": 2}),
        changed(["required", 0, "args", "limit"], 5),  # strict mode tells them apart
        changed(["required", 0, "side_effects"], {"file_exists": "a"}),
        changed(["required", 1, "id"], "pay"),
        changed(["forbidden", 0, "reason"], "ever"),
        changed(["optional"], []),
    ],
)
def test_what_changes_a_grade_or_its_report_changes_the_id(other: dict[str, Any]) -> None:
    assert compile_judgment(other).judgment_id != compile_judgment(CONTRACT).judgment_id


def test_settings_change_the_id() -> None:
    judgments = [
        compile_judgment(CONTRACT),
        compile_judgment(CONTRACT, strict=True),
        compile_judgment(CONTRACT, forbidden=[{"tool": "rm"}]),
        compile_judgment(CONTRACT, honesty={"disclosure": False}),
        compile_judgment(CONTRACT, require_completed=True),
        compile_judgment(CONTRACT["required"][:1]),
        compile_judgment({"required": CONTRACT["required"][:1]}),  # a contract, not a gold list
    ]
    assert len({judgment.judgment_id for judgment in judgments}) == len(judgments)


def test_the_id_is_the_hash_of_the_stored_json() -> None:
    for judgment in (compile_judgment(CONTRACT, strict=True), compile_judgment([{"tool": "a"}])):
        assert judgment.judgment_id == json_sha256(json.loads(judgment.judgment_json))
        again = judgment_from_json(judgment.judgment_json)
        assert again.judgment_id == judgment.judgment_id
        assert again.tables() == judgment.tables()
        assert again.contract.combination_count == judgment.contract.combination_count


# --- the tables ---


def test_a_judgment_row_holds_weights_as_applied_and_counts_of_entries() -> None:
    (row,) = (
        compile_judgment(CONTRACT, forbidden=[{"tool": "rm"}]).tables()["judgments"].to_pylist()
    )
    # 0.4 + 0.3 + 0.2 + 0.1 + 1 = 2
    assert [row[name] for name in row if name.startswith("weight_")] == pytest.approx(
        [0.2, 0.15, 0.1, 0.05, 0.5]
    )
    assert (row["required_count"], row["optional_count"], row["forbidden_count"]) == (2, 1, 2)
    assert (row["combination_count"], row["is_contract"], row["is_strict"]) == (2, True, False)
    assert (row["min_score"], row["has_forbidden_rules"], row["honesty_json"]) == (0.5, True, None)


def test_every_combination_lists_its_expected_calls() -> None:
    judgment = compile_judgment(CONTRACT)
    assert rows(judgment, "combinations", "combination_id", "choices_json", "expected_count") == [
        (0, '{"book":0}', 3),
        (1, '{"book":1}', 2),
    ]
    columns = ("combination_id", "position", "tool", "group_id", "is_checked")
    assert rows(judgment, "expected_calls", *columns) == [
        (0, 0, "search", None, True),
        (0, 1, "book", "book", False),
        (0, 2, "pay", "book", False),
        (1, 0, "search", None, True),
        (1, 1, "reserve", "book", False),
    ]
    assert rows(judgment, "optional_calls", "position", "tool") == [(0, "weather")]
    assert rows(judgment, "forbidden_rules", "position", "tool", "reason") == [
        (0, "cancel", "never")
    ]


def test_patterns_hold_keys_of_values_and_json_of_matchers() -> None:
    judgment = compile_judgment(
        [
            {"tool": "a", "args": {"n": 5.0, "s": " x ", "m": {"k": [{"$any": True}]}}},
            {"tool": "a"},
            {"tool": "a", "args": {}},
            {"tool": "a"},
        ]
    )
    columns = ("tool", "is_checked", "args_count", "args_json")
    assert rows(judgment, "patterns", *columns) == [
        ("a", True, 3, '{"m":{"k":[{"$any":true}]},"n":5.0,"s":" x "}'),
        ("a", False, 0, None),  # not checked, and used twice
        ("a", True, 0, "{}"),
    ]
    keys = ("strict_key", "plain_key", "lenient_key")
    assert rows(judgment, "pattern_args", "name", "is_matcher", *keys, "matcher_json") == [
        ("m", True, None, None, None, '{"k":[{"$any":true}]}'),
        ("n", False, "5.0", "5", "5", None),
        ("s", False, '" x "', '" x "', '"x"', None),
    ]


def test_judgments_and_patterns_that_are_shared_make_one_row() -> None:
    one, other = compile_judgment(CONTRACT), compile_judgment(CONTRACT, strict=True)
    tables = judgment_tables([one, other, compile_judgment(CONTRACT)])
    assert tables["judgments"].num_rows == 2
    assert tables["combinations"].num_rows == 4
    patterns = tables["patterns"]["pattern_id"].to_pylist()
    assert len(patterns) == len(set(patterns)) == 6  # search, book, pay, reserve, weather, cancel


def test_no_judgments_make_empty_tables_with_their_columns() -> None:
    tables = judgment_tables([])
    assert {name: table.schema for name, table in tables.items()} == SCHEMAS
    assert not any(table.num_rows for table in tables.values())


def test_an_empty_gold_list_has_one_empty_combination() -> None:
    judgment = compile_judgment([])
    assert rows(judgment, "combinations", "choices_json", "expected_count") == [("{}", 0)]
    assert judgment.min_score == 0.9


def test_python_matchers_make_the_same_judgment_each_time() -> None:
    def build() -> Judgment:
        return compile_judgment([{"tool": "a", "args": {"x": Regex("b", 2), "y": [ANY]}}])

    assert build().judgment_id == build().judgment_id
    same = compile_judgment([{"tool": "a", "args": {"x": Contains("b")}}])
    assert (
        same.judgment_id
        == compile_judgment([{"tool": "a", "args": {"x": {"$contains": "b"}}}]).judgment_id
    )


def test_a_stored_judgment_compiles_to_itself_again() -> None:
    args = {
        "x": {"$one_of": [Regex("a", 2), IsType(float)]},
        "y": [{"k": {"$contains": {"$regex": "b"}}}],
        "z": {"$literal": {"$regex": "("}},
    }
    judgment = compile_judgment({"required": [{"tool": "a", "args": args}], "weights": {}})
    stored = judgment_from_json(judgment.judgment_json)
    assert compile_judgment(stored.contract, weights={}).judgment_id == judgment.judgment_id
    (call,) = stored.required
    assert isinstance(call, dict)
    assert call["args"]["x"].matches("A")
    assert not call["args"]["x"].matches(1)


def test_a_stored_matcher_of_another_process_keeps_its_name() -> None:
    text = compile_judgment([{"tool": "a", "args": {"x": ANY}}]).judgment_json.replace(
        '{"$any":true}', '{"$python":{"key":"Gone()","repr":"Gone()"}}'
    )
    stored = judgment_from_json(text)
    again = compile_judgment([call for call in stored.required if isinstance(call, dict)])
    assert again.judgment_id == stored.judgment_id
    assert repr(stored.required) == "[{'args': {'x': Gone()}, 'tool': 'a'}]"


def test_two_matchers_of_ones_own_make_two_patterns() -> None:
    class Same(Matcher):
        def __repr__(self) -> str:
            return "Same()"

        def matches(self, value: object) -> bool:
            return True

    judgment = compile_judgment([{"tool": "a", "args": {"x": Same()}} for _ in range(2)])
    assert judgment.tables()["patterns"].num_rows == 2


# --- what is refused ---


def test_wrong_parts_are_refused() -> None:
    with pytest.raises(ContractError, match="unknown key 'argz'"):
        compile_judgment([{"tool": "a", "argz": {}}])
    with pytest.raises(ContractError, match="unknown key 'optionl'"):
        compile_judgment({"required": [], "optionl": []})
    with pytest.raises(ContractError, match="'tool' is missing"):
        compile_judgment([], forbidden=[{}])
    with pytest.raises(SettingsError, match="unknown weight"):
        compile_judgment([], weights={"recall": 1})
    with pytest.raises(SettingsError, match="min_score: got 90"):
        compile_judgment([], min_score=90)
    with pytest.raises(ContractError, match="'tool' is missing"):
        compile_judgment(Contract(required=[{}]))


def test_given_weights_and_score_replace_those_of_the_contract() -> None:
    judgment = compile_judgment(CONTRACT, weights={}, min_score=1)
    assert judgment.weights["required_call_recall"] == 0
    assert judgment.min_score == 1


# --- cost ---


def test_a_small_gold_list_compiles_in_a_moment() -> None:
    gold = [{"tool": f"t{n}", "args": {"x": n, "y": "text"}} for n in range(5)]
    compile_judgment(gold).tables()
    took = []
    for _ in range(20):
        started = time.perf_counter()
        compile_judgment(gold)
        took.append(time.perf_counter() - started)
    assert min(took) < 0.002


def test_fifty_contracts_of_256_combinations_compile_in_seconds() -> None:
    groups = [
        {"alternatives": [[{"tool": f"a{n}", "args": {"x": n}}], {"tool": f"b{n}"}]}
        for n in range(8)
    ]
    contract = contract_from_mapping({"required": groups})
    started = time.perf_counter()
    judgments = [compile_judgment(contract, min_score=n / 100) for n in range(50)]
    tables = judgment_tables(judgments)
    assert time.perf_counter() - started < 10
    assert tables["expected_calls"].num_rows == 50 * 256 * 8
    assert tables["patterns"].num_rows == 16


@pytest.mark.parametrize(
    ("expected", "settings", "sentence"),
    [
        (None, {}, "at $: got null, expected a list"),
        ([{"tool": "a\ud800"}], {}, "at $.required[0].tool: got half a surrogate pair"),
        ([{"tool": "a", "args": {"x": ["\udfff"]}}], {}, "at $.required[0].args.x[0]: got half"),
        ([], {"forbidden": 5}, "at $: got 5, expected a list"),
        ([], {"min_score": "0.9"}, "min_score: got '0.9', expected a number from 0 to 1"),
        ([], {"honesty": "off"}, "at $: honesty settings must be an object, got str"),
        ([], {"honesty": {"disclosre": False}}, "unknown honesty setting 'disclosre'; did you"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(
    expected: Any, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ContractError, SettingsError)) as caught:
        compile_judgment(expected, **settings)
    assert sentence in str(caught.value)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ContractError, match="nested deeper than 254 levels"):
        compile_judgment([{"tool": "a", "args": {"x": endless}}])


def test_the_letters_of_an_escape_are_text_like_any_other() -> None:
    judgment = compile_judgment([{"tool": "a", "args": {"x": "\\ud800"}}])
    assert rows(judgment, "pattern_args", "lenient_key") == [('"\\\\ud800"',)]
