"""Contracts, gold lists and forbidden rules: what is accepted, and what errors say."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toolscore_pipeline.api import evaluate_trace
from toolscore_pipeline.contract import (
    CONTRACT_SCHEMA_PATH,
    DEFAULT_WEIGHTS,
    AlternativeGroup,
    Contract,
    call_matches,
    contract_from_mapping,
    gold_from_json,
    is_contract,
    load_contract,
    load_expected,
    load_forbidden_rules,
    load_gold,
    normalize_weights,
    rules_from_json,
    split_optional,
)
from toolscore_pipeline.documents import parse_document
from toolscore_pipeline.errors import ContractError, InputError, SettingsError
from toolscore_pipeline.judgments import compile_judgment
from toolscore_pipeline.matchers import ANY, OPERATORS, Contains, Regex, matcher_from_json

SCHEMA = json.loads(CONTRACT_SCHEMA_PATH.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def problems_of(read: Callable[[Any], Any], data: Any) -> list[tuple[str | None, str]]:
    """(JSON path, sentence) of each problem found."""
    with pytest.raises(ContractError) as caught:
        read(data)
    return [(problem.json_path, problem.reason) for problem in caught.value.problems]


# --- what is accepted ---


def test_a_contract_keeps_its_parts_in_order() -> None:
    contract = contract_from_mapping(
        {
            "contract_version": 2,
            "description": "d",
            "task": "book",
            "required": [{"tool": "a"}, {"alternatives": [[{"tool": "b"}], {"tool": "c"}, []]}],
            "alternatives": [{"id": "late", "alternatives": [{"tool": "d"}]}],
            "optional": [{"tool": "o"}],
            "forbidden": [{"tool": "f", "reason": "never"}],
            "weights": {"required_call_recall": 0.3},
            "min_score": 0.5,
        }
    )
    assert contract.required == [
        {"tool": "a"},
        AlternativeGroup("group-1", [[{"tool": "b"}], [{"tool": "c"}], []]),
        AlternativeGroup("late", [[{"tool": "d"}]]),
    ]
    assert contract.optional == [{"tool": "o"}]
    assert contract.forbidden == [{"tool": "f", "reason": "never"}]
    assert contract.weights == {"required_call_recall": 0.3}
    assert (contract.min_score, contract.description, contract.task) == (0.5, "d", "book")
    assert [group.id for group in contract.groups] == ["group-1", "late"]


def test_what_a_contract_is_for_changes_nothing_of_what_it_says() -> None:
    plain = {"contract_version": 2, "required": [{"tool": "a"}]}
    bound = plain | {"task": ["x", "y*"], "variant": "main", "source": "nightly"}
    contract = contract_from_mapping(bound)
    assert (contract.task, contract.variant, contract.source) == (["x", "y*"], "main", "nightly")
    assert contract_from_mapping(contract) == contract
    assert (
        compile_judgment(contract).judgment_id
        == compile_judgment(contract_from_mapping(plain)).judgment_id
    )
    for key, value in (("task", []), ("task", ["x", ""]), ("task", 3), ("variant", ["main"])):
        with pytest.raises(ContractError, match=rf"\$\.{key}: got "):
            contract_from_mapping(bound | {key: value})


def test_a_contract_read_from_its_own_object_is_the_same() -> None:
    contract = Contract(
        required=[
            {"tool": "a", "args": {"x": Regex("a+"), "y": [ANY]}},
            AlternativeGroup("g", [[{"tool": "b"}], []]),
        ],
        weights={"argument_f1": 1},
    )
    assert contract_from_mapping(contract) == contract


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"contract_version": 2}, True),
        ({"required": []}, True),
        ({"optional": []}, True),
        ({"forbidden": []}, False),
        ({"calls": []}, False),
        ([{"tool": "a"}], False),
        (None, False),
    ],
)
def test_a_contract_is_told_by_its_keys(data: Any, answer: bool) -> None:
    assert is_contract(data) is answer


def test_gold_lists_take_records_of_calls_and_ignore_their_outcome() -> None:
    record = {"tool": "a", "args": None, "result": 1, "error": None, "duration": 0.5, "id": "c1"}
    assert gold_from_json([record, {"tool": "b", "args": {}, "description": "d"}]) == [
        {"tool": "a"},
        {"tool": "b", "args": {}, "description": "d"},
    ]
    assert gold_from_json({"calls": [{"tool": "a"}]}) == [{"tool": "a"}]


# --- what is refused ---


def test_every_problem_is_reported_at_once_with_its_line_and_the_nearest_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "# a comment\n"
        "contract_version: 3\n"
        "descripton: x\n"
        "required:\n"
        "  - {tool: search, args: {date: {$regx: '^2026'}}}\n"
        "  - {alternatives: []}\n"
        "  - tool: ''\n"
        "optional: [get_weather]\n"
        "forbidden: [{tool: c, reson: no}]\n"
        "weights: {redundancy: 1, argument_f1: -1}\n"
        "min_score: 90\n",
        encoding="utf-8",
    )
    with pytest.raises(ContractError) as caught:
        load_contract(path)
    assert str(caught.value).splitlines() == [
        f"{path}:2: at $.contract_version: got 3, expected 2",
        f"{path}:3: at $.descripton: unknown key 'descripton'; did you mean 'description'?",
        (
            f"{path}:5: at $.required[0].args.date: unknown matcher '$regx'; did you mean "
            '\'$regex\'?; to expect this object itself write {"$literal": {"$regx": ...}}'
        ),
        f"{path}:6: at $.required[1].alternatives: got no options, expected at least one",
        f"{path}:7: at $.required[2].tool: got '', expected a tool's name",
        f"{path}:8: at $.optional[0]: got 'get_weather', expected a call: an object with tool",
        f"{path}:9: at $.forbidden[0].reson: unknown key 'reson'; did you mean 'reason'?",
        (
            f"{path}:10: at $.weights.redundancy: unknown weight 'redundancy'; did you mean "
            "'redundant_rate'?"
        ),
        f"{path}:10: at $.weights.argument_f1: got -1, expected 0 or more",
        f"{path}:11: at $.min_score: got 90, expected a number from 0 to 1",
    ]


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        ([], "$", "expected a contract"),
        ({}, "$", "expected a contract"),
        ({"required": None}, "$.required", "got null, expected a list"),
        ({"required": [{"args": {}}]}, "$.required[0]", "'tool' is missing"),
        ({"required": [{"tool": "a", "args": []}]}, "$.required[0].args", "an object of arguments"),
        (
            {"required": [{"tool": "a", "args": {"$any": True}}]},
            "$.required[0].args",
            "leave args out",
        ),
        ({"required": [{"tool": "a", "reason": "r"}]}, "$.required[0].reason", "unknown key"),
        (
            {"required": [{"tool": "a", "side_effects": {"file_exist": "x"}}]},
            "$.required[0].side_effects.file_exist",
            "did you mean 'file_exists'?",
        ),
        (
            {"required": [{"alternatives": [[{"alternatives": []}]]}]},
            "$.required[0].alternatives[0][0]",
            "'tool' is missing",
        ),
        (
            {"alternatives": [{"tool": "a"}], "required": []},
            "$.alternatives[0]",
            "expected a group",
        ),
        (
            {"required": [{"id": "g", "alternatives": [[]]}, {"id": "g", "alternatives": [[]]}]},
            "$.required[1].id",
            "the group id 'g' is given twice",
        ),
        (
            {"required": [], "weights": dict.fromkeys(DEFAULT_WEIGHTS, 0)},
            "$.weights",
            "the weights sum to 0",
        ),
        ({"required": [], "min_score": True}, "$.min_score", "got true"),
        ({"required": [], "description": 5}, "$.description", "got 5, expected text"),
    ],
)
def test_a_wrong_contract_is_refused_where_it_is_wrong(data: Any, path: str, words: str) -> None:
    found = problems_of(contract_from_mapping, data)
    assert path in [place for place, _ in found]
    assert any(words in reason for place, reason in found if place == path)


def test_more_than_256_combinations_are_refused_with_their_count() -> None:
    def pairs(count: int) -> list[dict[str, Any]]:
        return [{"alternatives": [[{"tool": "a"}], []]} for _ in range(count)]

    assert len(contract_from_mapping({"required": pairs(8)}).expansions()) == 256  # 2 ** 8
    # A prime number of combinations can only come from one group.
    many = [{"alternatives": [[{"tool": "a"}]] * 257}]
    assert problems_of(contract_from_mapping, {"required": many}) == [
        ("$", "the alternatives make 257 combinations, expected at most 256")
    ]
    unchecked = Contract(required=[AlternativeGroup("g", [[]] * 257)])
    with pytest.raises(ValueError, match="257"):
        unchecked.expansions()


def test_a_wrong_gold_list_names_the_key_that_was_meant() -> None:
    assert problems_of(gold_from_json, [{"tool": "a", "arguments": {}}]) == [
        ("$[0].arguments", "unknown key 'arguments'; did you mean 'args'?")
    ]
    (missing, _) = problems_of(gold_from_json, [{"name": "a"}])
    assert missing == ("$[0]", "the key 'tool' is missing (got 'name'), expected a tool's name")
    ((_, words),) = problems_of(gold_from_json, {"expected": []})
    assert "expected a list of calls, or a contract" in words


def test_a_wrong_rule_names_its_pattern() -> None:
    rules = [{"tool": "a", "args": {"x": {"$regex": "(("}}}, {"tool": "b"}]
    ((path, words),) = problems_of(rules_from_json, rules)
    assert path == "$[0].args.x.$regex"
    assert words.startswith("the pattern '((' is wrong: missing )")


# --- files ---


def test_files_hold_a_contract_a_gold_list_or_rules(tmp_path: Path) -> None:
    contract, gold, rules = (tmp_path / name for name in ("c.json", "g.yaml", "r.yml"))
    contract.write_text('{"required": [{"tool": "a"}]}', encoding="utf-8")
    gold.write_text("- tool: a\n  args: {on: no, day: 2026-12-01}\n", encoding="utf-8")
    rules.write_text("- {tool: a, args: {x: {$contains: rm}}}\n", encoding="utf-8")
    assert load_expected(contract) == load_contract(contract)
    assert load_expected(gold) == load_gold(gold)
    # YAML is read as it looks: neither a boolean nor a date.
    assert load_gold(gold) == [{"tool": "a", "args": {"on": "no", "day": "2026-12-01"}}]
    (rule,) = load_forbidden_rules(rules)
    assert rule["args"]["x"].matches("rm -rf")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: there is no such file"):
        load_contract(tmp_path / "none.json")


# --- expansions, weights, optional calls ---


def test_expansions_vary_the_last_group_fastest() -> None:
    contract = Contract(
        required=[
            AlternativeGroup("one", [[{"tool": "a"}], [{"tool": "b"}]]),
            {"tool": "x"},
            AlternativeGroup("two", [[], [{"tool": "c"}, {"tool": "d"}]]),
        ]
    )
    assert [
        ("".join(call["tool"] for call in calls), choices)
        for calls, choices in contract.expansions()
    ] == [
        ("ax", {"one": 0, "two": 0}),
        ("axcd", {"one": 0, "two": 1}),
        ("bx", {"one": 1, "two": 0}),
        ("bxcd", {"one": 1, "two": 1}),
    ]
    assert Contract().expansions() == [([], {})]


def test_weights_are_merged_with_the_defaults_and_divided_by_their_sum() -> None:
    assert normalize_weights() == dict(DEFAULT_WEIGHTS)
    # 0.4 + 0.3 + 0.2 + 0.1 + 1 = 2
    assert normalize_weights({"required_call_recall": 1}) == pytest.approx(
        {
            "selection_accuracy": 0.2,
            "argument_f1": 0.15,
            "sequence_accuracy": 0.1,
            "redundant_rate": 0.05,
            "required_call_recall": 0.5,
        }
    )


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"recall": 1}, "unknown weight 'recall'"),
        ({"argument_f1": -0.1}, "weight argument_f1: got -0.1, expected 0 or more"),
        ({"argument_f1": float("nan")}, "weight argument_f1: got nan, expected a finite number"),
        ({"argument_f1": 10**400}, "expected a finite number"),
        ({"argument_f1": "1"}, "weight argument_f1: got '1', expected a number"),
        ({"argument_f1": True}, "weight argument_f1: got true, expected a number"),
        (dict.fromkeys(DEFAULT_WEIGHTS, 0.0), "the weights sum to 0"),
    ],
)
def test_a_wrong_weight_is_named(weights: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        normalize_weights(weights)
    assert words in str(caught.value)


def test_optional_calls_first_fill_the_required_calls_of_their_tool() -> None:
    calls: list[dict[str, Any]] = [
        {"tool": "a", "args": {"x": 1}},
        {"tool": "w"},
        {"tool": "a", "args": {"x": 2}},
        {"tool": "a", "args": {"x": 1}},
    ]
    # a is required once. Its first call fills that; the second is not optional, the third is.
    scored, left_out = split_optional(
        calls, [{"tool": "a"}], [{"tool": "a", "args": {"x": 1}}, {"tool": "w"}]
    )
    assert left_out == [1, 3]
    assert scored == [calls[0], calls[2]]


def test_a_call_is_never_left_out_while_its_tool_is_still_needed() -> None:
    calls = [{"tool": "a", "args": {}}, {"tool": "a", "args": {}}]
    required = [{"tool": "a"}, {"tool": "a"}]
    assert split_optional(calls, required, [{"tool": "a"}]) == (calls, [])


def test_a_rule_matches_a_call_with_further_arguments() -> None:
    rule = {"tool": "sh", "args": {"cmd": Contains("rm")}}
    assert call_matches(rule, {"tool": "sh", "args": {"cmd": "rm x", "cwd": "/"}}) is True
    assert call_matches(rule, {"tool": "sh", "args": {"cwd": "rm"}}) is False
    assert call_matches({"tool": "sh"}, {"tool": "sh"}) is True
    runaway = {"tool": "sh", "args": {"cmd": {"$regex": "^(a|aa)+$"}}}
    assert call_matches(runaway, {"tool": "sh", "args": {"cmd": "a" * 5000 + "b"}}) is None


# --- the example and the pages about it ---


def test_the_flight_example_scores_what_its_page_says(root: Path) -> None:
    folder = root / "examples" / "contracts"
    gold = evaluate_trace(folder / "gold.json", folder / "trace.json")
    contract = evaluate_trace(folder / "contract.json", folder / "trace.json")
    assert (round(gold.score, 3), gold.grade) == (0.383, "F")
    assert (round(contract.score, 3), contract.grade) == (0.957, "A")
    combinations = contract.metrics["contract_metrics"]["alternatives"]["combinations"]
    assert [round(row["score"], 3) for row in combinations] == [0.59, 0.957]
    evidence = contract.to_dict()["evidence"]["counts"]
    assert evidence == {"pass": 7, "fail": 0, "unknown": 0}


def test_the_contract_on_the_page_is_the_one_of_the_example(root: Path) -> None:
    page = (root / "docs" / "contracts.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    shown = contract_from_mapping(parse_document(blocks[0], kind="yaml").value)
    example = load_contract(root / "examples" / "contracts" / "contract.json")
    example.description = ""
    assert shown == example
    assert len(rules_from_json(parse_document(blocks[1], kind="yaml").value)) == 3


def test_the_page_on_matchers_lists_all_of_them(root: Path) -> None:
    page = (root / "docs" / "matchers.md").read_text(encoding="utf-8")
    for operator in OPERATORS:
        assert f'{{"{operator}"' in page
    for form in re.findall(r'^\| `(\{"\$.*?\})` \|', page, re.MULTILINE):
        matcher_from_json(json.loads(form))


# --- the schema and the code accept the same documents ---

LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, 2, -1, 0.5, 90, "", "a", "^a+$", "string", "objct", [], {}]
)
KEYS = st.sampled_from(
    ["tool", "args", "tol", "id", "$any", "$regex", "$foo", "$literal", "x", "value", "weights"]
)


def from_schema(schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Documents that mostly conform to a part of the contract schema."""
    if "$ref" in schema:
        return from_schema(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], depth)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("format") == "regex":
        return st.sampled_from(["^a", r"\d+", "", "x|y"])
    if "then" in schema:
        branches = [from_schema({**schema["if"], **schema["then"]}, depth)]
        if schema["else"].keys() == {"additionalProperties", "items"}:  # any plain value
            branches += [LEAVES] if depth > 4 else [LEAVES, st.lists(LEAVES, max_size=2)]
        else:
            branches.append(from_schema(schema["else"], depth))
        return st.one_of(branches)
    kinds = schema.get("type", ["object" if "properties" in schema else "any"])
    strategies = [
        _of_type(kind, schema, depth) for kind in ([kinds] if isinstance(kinds, str) else kinds)
    ]
    return st.one_of(strategies)


def _later(schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    """:func:`from_schema`, called only when a value is drawn: the schema refers to itself."""
    return st.deferred(lambda: from_schema(schema, depth))


def _of_type(kind: str, schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if kind == "string":
        return st.sampled_from(["a", "b", "search"])
    if kind == "number":
        return st.sampled_from([0, 0.25, 1])
    if kind == "null":
        return st.none()
    if kind == "array":
        most = 2 if depth < 6 else 0
        items = _later(schema.get("items", {}), depth + 1)
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=max(most, 1))
    if kind == "object":
        return _object(schema, depth)
    return LEAVES


def _object(schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    known = {key: _later(part, depth + 1) for key, part in schema.get("properties", {}).items()}
    if schema.get("maxProperties") == 1:
        return st.one_of(
            [st.fixed_dictionaries({key: strategy}) for key, strategy in known.items()]
        )
    needed = {key: known[key] for key in schema.get("required", [])}
    rest = {key: strategy for key, strategy in known.items() if key not in needed}
    fixed = st.fixed_dictionaries(needed, optional=rest)
    if not isinstance(schema.get("additionalProperties"), dict) or depth > 6:
        return fixed
    values = from_schema(schema["additionalProperties"], depth + 1)
    return st.dictionaries(st.sampled_from(["x", "y", "$filter"]), values, max_size=2)


def accepts(document: Any) -> bool:
    """Whether the code accepts it; what a schema cannot say is left out of the comparison."""
    try:
        contract_from_mapping(document)
    except ContractError as error:
        beyond = ("is given twice", "combinations, expected at most")
        assume(not all(problem.reason.endswith(beyond[0]) for problem in error.problems))
        assume(not any(beyond[1] in problem.reason for problem in error.problems))
        return False
    return True


@settings(max_examples=300)
@given(from_schema(SCHEMA))
def test_documents_made_from_the_schema_are_accepted(document: Any) -> None:
    assert accepts(document) == VALIDATOR.is_valid(document)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each (container, key or index) inside a document."""
    steps = list(value.items()) if isinstance(value, dict) else []
    steps += list(enumerate(value)) if isinstance(value, list) else []
    return [(value, key) for key, _ in steps] + [
        place for _, item in steps for place in places(item)
    ]


@settings(max_examples=500)
@given(from_schema(SCHEMA), st.data())
def test_near_misses_are_refused_by_the_schema_and_the_code_alike(
    document: Any, data: st.DataObject
) -> None:
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 2))):
        spots = places(document)
        assume(spots)
        container, key = data.draw(st.sampled_from(range(len(spots))).map(spots.__getitem__))
        match data.draw(st.sampled_from(["drop", "change", "add", "rename"])):
            case "drop":
                del container[key]
            case "change":
                container[key] = data.draw(LEAVES)
            case "add" if isinstance(container, dict):
                container[data.draw(KEYS)] = data.draw(LEAVES)
            case "rename" if isinstance(container, dict):
                container[data.draw(KEYS)] = container.pop(key)
    assert accepts(document) == VALIDATOR.is_valid(document), list(VALIDATOR.iter_errors(document))


def test_the_schema_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_names_the_weights_and_their_defaults() -> None:
    weights = SCHEMA["$defs"]["weights"]["properties"]
    assert {name: part["default"] for name, part in weights.items()} == DEFAULT_WEIGHTS
