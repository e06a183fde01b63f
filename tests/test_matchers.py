"""Comparing argument values: three equalities, matchers, and the time budget of patterns."""

from __future__ import annotations

import json
import re
import time
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscore_pipeline import matchers
from toolscore_pipeline.errors import ContractError
from toolscore_pipeline.hashing import canonical_json
from toolscore_pipeline.matchers import (
    ANY,
    OVERRUN_LIMIT,
    PATTERN_BUDGET_SECONDS,
    Approx,
    Contains,
    IsType,
    Matcher,
    OneOf,
    Regex,
    decide,
    declare,
    has_matcher,
    matcher_from_json,
    matches,
    pattern_problem,
    record_value,
    value_keys,
)
from toolscore_pipeline.udfs import matchers as matcher_functions
from toolscore_pipeline.udfs import values as value_functions

RUNAWAY = "^(a|aa)+$"
NEAR_MISS = "a" * 5000 + "b"

VALUES_MACROS = Path(__file__).resolve().parent.parent / "sql/macros/values.sql"
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 10**30]),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, float(2**53), 1e30]),
    st.sampled_from(["", "a", " a", "a\u2003", "1", "\x1fa", "true"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda items: (
        st.lists(items, max_size=2) | st.dictionaries(st.sampled_from("ab"), items, max_size=2)
    ),
    max_leaves=4,
)


# --- plain values ---


@pytest.mark.parametrize(
    ("expected", "actual", "lenient", "strict"),
    [
        (1, 1.0, True, False),
        (1, True, False, False),
        (0, False, False, False),
        (0.0, -0.0, True, True),
        ("5", 5, False, False),
        (" a", "a\n", True, False),
        ("a\u2003", "a", True, False),
        ("a", "A", False, False),
        (["a "], ["a"], False, False),  # trimmed at the top only
        ([1, {"k": 2}], [1.0, {"k": 2.0}], True, False),
        ([True], [1], False, False),
        (None, None, True, True),
        (None, "", False, False),
        ({"a": 1}, {"a": 1, "b": 2}, False, False),
        ([1, 2], [2, 1], False, False),
        (2**53 + 1, float(2**53), False, False),  # equal as doubles only
        (10**30, 1e30, False, False),  # 1e30 is 1000000000000000019884624838656
        (2**53, float(2**53), True, False),
    ],
)
def test_values_are_equal_leniently_or_strictly(
    expected: Any, actual: Any, lenient: bool, strict: bool
) -> None:
    assert matches(expected, actual) is lenient
    assert matches(expected, actual, strict=True) is strict


@given(VALUES, VALUES)
def test_keys_are_equal_exactly_when_values_are(one: Any, other: Any) -> None:
    strict, plain, lenient = (
        mine == theirs for mine, theirs in zip(value_keys(one), value_keys(other), strict=True)
    )
    assert strict is matches(one, other, strict=True)
    assert plain is matches([one], [other])  # one level down nothing is trimmed
    assert lenient is matches(one, other)


@given(st.characters())
def test_trimming_knows_exactly_the_characters_that_python_strips(char: str) -> None:
    assert (value_keys(f"{char}a")[2] == value_keys("a")[2]) is (char.strip() == "")


# --- matchers ---


@pytest.mark.parametrize(
    ("expected", "actual", "answer"),
    [
        ({"$regex": "^FL-"}, "FL-204", True),
        ({"$regex": "204"}, "FL-204", True),  # found anywhere
        ({"$regex": "^204"}, "FL-204", False),
        ({"$regex": "^b"}, "a\nb", False),
        ({"$regex": "rm -rf"}, ["sudo", "rm", "-rf", "/"], True),
        ({"$regex": r'^a 1 null \["b"\]$'}, ["a", 1, None, ["b"]], True),
        ({"$regex": "^5$"}, 5, True),
        ({"$regex": "^true$"}, True, True),
        ({"$regex": '"k":1'}, {"k": 1}, True),
        ({"$regex": '"k": 1'}, {"k": 1}, True),
        ({"$regex": ""}, None, False),
        ({"$contains": "b"}, "abc", True),
        ({"$contains": "b"}, ["a", " b "], True),  # an item, leniently
        ({"$contains": 1}, [1.0], True),
        ({"$contains": 1}, [True], False),
        ({"$contains": {"k": 1}}, [{"k": 1.0}], True),
        ({"$contains": {"$regex": "^b"}}, ["a", "bc"], True),
        ({"$contains": "k"}, {"k": 0}, True),
        ({"$contains": "5"}, 5, False),
        ({"$contains": 5}, "5", False),
        ({"$one_of": ["a", 1]}, 1.0, True),
        ({"$one_of": ["a", 1]}, "a ", True),
        ({"$one_of": ["a", {"$type": "null"}]}, None, True),
        ({"$one_of": []}, None, False),
        ({"$any": True}, None, True),
        ({"$type": "integer"}, 3, True),
        ({"$type": "integer"}, 3.0, False),
        ({"$type": "number"}, 3.0, True),
        ({"$type": "number"}, 3, True),
        ({"$type": "number"}, True, False),
        ({"$type": "integer"}, True, False),
        ({"$type": ["string", "null"]}, None, True),
        ({"$type": "object"}, {}, True),
        ({"$type": "array"}, [], True),
        ({"$approx": 3.0}, 3.0000029, True),  # 2.9e-6 <= 1e-6 * 3
        ({"$approx": 3.0}, 3.0000031, False),
        ({"$approx": {"value": 10, "rel": 0.01}}, 10.1, True),
        ({"$approx": {"value": 0, "abs": 0.5}}, -0.5, True),
        ({"$approx": 0}, 1e-9, False),  # nothing is relatively close to 0
        ({"$approx": 1}, True, False),
        ({"$approx": 1}, "1", False),
        ({"$approx": {"value": 10**400, "rel": 0, "abs": 1}}, 10**400 + 1, True),
        ({"$approx": {"value": 10**400, "rel": 0, "abs": 1}}, 10**400 + 2, False),
        ({"$approx": 0.5}, 10**400, False),
        ({"$approx": 10**400}, 10**400 + 1, True),
        ({"$literal": {"$regex": "a"}}, {"$regex": "a"}, True),
        ({"$literal": {"$regex": "a"}}, "a", False),
        ({"$literal": "a"}, " a", True),
        ({"$regex": "a", "flags": "i"}, {"$regex": "a", "flags": "i"}, True),  # two keys: a value
        ({"a": {"$regex": "x"}, "b": 1}, {"a": "x", "b": 1.0}, True),
        ({"a": {"$any": True}}, {}, False),  # the key must be there
        ([{"$type": "string"}, {"$any": True}], ["a", 1], True),
        ([{"$any": True}], [1, 2], False),
    ],
)
def test_matchers_match(expected: Any, actual: Any, answer: bool) -> None:
    assert matches(expected, actual) is answer


def test_strict_mode_reaches_into_matchers() -> None:
    assert matches({"$one_of": [1]}, 1.0, strict=True) is False
    assert matches({"$contains": "b"}, ["b "], strict=True) is False
    assert matches({"$one_of": [1]}, 1, strict=True) is True


@pytest.mark.parametrize(
    ("value", "path", "sentence"),
    [
        (
            {"$regx": "a"},
            "$",
            "unknown matcher '$regx'; did you mean '$regex'?; to expect this object itself write {",
        ),
        ({"a": [{"$regex": "("}]}, "$.a[0].$regex", "the pattern '(' is wrong: missing ), "),
        ({"$regex": 3}, "$.$regex", "got 3, expected a pattern as text"),
        ({"$one_of": "abc"}, "$.$one_of", "got 'abc', expected a list of values"),
        ({"$one_of": [{"$type": "text"}]}, "$.$one_of[0].$type", "unknown type 'text' (known: "),
        ({"$type": "strin"}, "$.$type", "unknown type 'strin'; did you mean 'string'?"),
        ({"$type": []}, "$.$type", "got an empty list, expected at least one type"),
        ({"$any": False}, "$.$any", "got false, expected true"),
        ({"$approx": "3"}, "$.$approx", "got '3', expected a number or an object with a value"),
        ({"$approx": {"rel": 1}}, "$.$approx", "the key 'value' is missing"),
        ({"$approx": {"value": 1, "abs": -1}}, "$.$approx.abs", "got -1, expected a tolerance of"),
        ({"$approx": {"value": 1, "real": 1}}, "$.$approx.real", "unknown key 'real'; did you"),
        (float("inf"), "$", "got inf, expected a finite number"),
    ],
)
def test_a_malformed_matcher_is_refused_where_it_stands(
    value: Any, path: str, sentence: str
) -> None:
    with pytest.raises(ContractError) as caught:
        matcher_from_json(value)
    (problem,) = caught.value.problems
    assert problem.json_path == path
    assert problem.reason.startswith(sentence)


# --- Python matchers ---


class Even(Matcher):
    """A matcher of the user's own."""

    def matches(self, value: object) -> bool:
        return isinstance(value, int) and value % 2 == 0


class Broken(Matcher):
    """A matcher that raises."""

    def matches(self, value: object) -> bool:
        raise RuntimeError("no")


def test_python_matchers_match() -> None:
    assert Regex("FL-.*").matches("FL-1")
    assert not Regex("FL").matches("FL-1")  # the whole text
    assert not Regex("5").matches(5)  # text only
    assert not Regex("a.b").matches("a\nb")
    assert Regex("a.b", re.DOTALL).matches("a\nb")
    assert Regex(re.compile("ab", re.IGNORECASE)).matches("AB")
    assert ANY.matches(None)
    assert Approx(3, abs=1).matches(4)
    assert not Approx(1).matches(True)
    assert Contains("k").matches({"k": 1})
    assert OneOf("a", Regex("b+"), 3).matches("bb")
    assert OneOf(1).matches(1.0)
    assert not OneOf(1).matches(True)
    assert IsType(int, str).matches(3)
    assert not IsType(int).matches(True)
    assert IsType(float).matches(3.0)
    assert not IsType(float).matches(3)
    assert [Regex("a"), {"x": ANY}] == ["a", {"x": 1}]


def test_python_matchers_say_what_they_are() -> None:
    shown: list[Matcher] = [
        Regex("a"),
        Regex("a", 2),
        ANY,
        Approx(3.0),
        Approx(3, rel=0.1),
        Approx(3, abs=1),
    ]
    shown += [Contains("x"), OneOf("a", 1), IsType(int, str), Even()]
    assert [repr(matcher) for matcher in shown] == [
        "Regex('a')",
        "Regex('a', flags=2)",
        "ANY",
        "Approx(3.0)",
        "Approx(3, rel=0.1)",
        "Approx(3, abs=1)",
        "Contains('x')",
        "OneOf(['a', 1])",
        "IsType(int, str)",
        "Even()",
    ]


def test_records_hold_a_matcher_as_json_or_else_as_its_repr() -> None:
    value = {"a": Regex("x", 2), "b": [Contains("y")], "c": matcher_from_json({"$regex": "z"})}
    record = {"a": "Regex('x', flags=2)", "b": [{"$contains": "y"}], "c": {"$regex": "z"}}
    assert record_value(value) == record
    assert record_value(declare(value)) == record


def test_python_matchers_survive_their_way_through_json() -> None:
    for matcher, value in [(Regex("b+"), "bb"), (IsType(float), 3.0), (Even(), 4)]:
        declared = json.loads(json.dumps(declare({"x": [OneOf(matcher)]})))
        assert has_matcher(declared)
        assert decide(declared, {"x": [value]}) is True
        assert decide(declared, {"x": ["no"]}) is False


def test_two_matchers_of_ones_own_are_never_taken_for_each_other() -> None:
    class Same(Matcher):
        def __init__(self, answer: bool) -> None:
            self.answer = answer

        def __repr__(self) -> str:
            return "Same()"

        def matches(self, value: object) -> bool:
            return self.answer

    yes, no = declare(Same(True)), declare(Same(False))
    assert yes != no
    assert (decide(yes, 1), decide(no, 1)) == (True, False)


def test_a_matcher_that_raises_or_is_not_of_this_process_is_unknown() -> None:
    assert matches(Broken(), 1) is None
    assert decide({"$python": {"repr": "Gone()", "key": "Gone()"}}, 1) is None


def test_wrong_python_matchers_are_refused_when_they_are_made() -> None:
    with pytest.raises(ContractError, match="the pattern '\\(' is wrong"):
        Regex("(")
    with pytest.raises(ContractError, match="expected a tolerance of 0 or more"):
        Approx(1, rel=-1)
    with pytest.raises(TypeError, match="expected one or more types"):
        IsType()


# --- the time budget ---


def test_a_pattern_that_runs_away_is_unknown_within_its_budget() -> None:
    started = time.process_time()
    assert matches({"$regex": RUNAWAY}, NEAR_MISS) is None
    assert time.process_time() - started < 10 * PATTERN_BUDGET_SECONDS


def test_a_near_miss_of_nested_repeats_never_passes_and_ends_within_the_budget() -> None:
    # How far the engine gets in its time depends on the machine: unknown or no, but never yes.
    started = time.process_time()
    assert matches({"$regex": "^(a+)+$"}, "a" * 20_000 + "b") in (None, False)
    assert time.process_time() - started < 10 * PATTERN_BUDGET_SECONDS


def test_several_patterns_share_the_budget_of_one_value() -> None:
    many = {"$one_of": [{"$regex": f"^(a|aa)+{n}$"} for n in range(50)]}
    started = time.process_time()
    assert matches(many, NEAR_MISS) is None
    assert time.process_time() - started < 10 * PATTERN_BUDGET_SECONDS  # not 50 budgets


def test_unknown_never_passes_and_never_hides_what_is_certain() -> None:
    runaway = {"$regex": "^(a|aa)*$"}
    assert matches([runaway, 1], [NEAR_MISS, 2]) is False  # the second item is certainly wrong
    assert matches([runaway, 1], [NEAR_MISS, 1]) is None
    assert matches({"$one_of": [runaway, {"$any": True}]}, NEAR_MISS) is True
    assert matches({"$contains": runaway}, ["x", NEAR_MISS]) is None


def test_a_pattern_that_keeps_running_away_gets_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matchers, "_overruns", {})
    pattern = {"$regex": "^(a|aa)+$"}
    values = ["a" * 3000 + f"b{n}" for n in range(OVERRUN_LIMIT + 100)]
    for value in values[:OVERRUN_LIMIT]:
        assert matches(pattern, value) is None
    started = time.process_time()
    assert {matches(pattern, value) for value in values[OVERRUN_LIMIT:]} == {None}
    assert time.process_time() - started < 40 * PATTERN_BUDGET_SECONDS  # not 100 budgets
    assert matches(pattern, "aaa") is True  # a quick answer is still given


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{e}", "a{e}"),  # a fuzzy match in the engine that keeps time
        ("a{2}b{x", "aab{x"),
        ("[[:alpha:]]+", ":]"),  # a set of "[:alph" and a bracket, not a class
        ("[[]", "["),
        ("[]]{", "]{"),
        ("(?x) a [ #] b  # a comment with [ in it \n c", "a#bc"),
        ("(?#[)a{", "a{"),
        (r"\{e}", "{e}"),
        ("a{,2}$", "aa"),
        ("[a||b]", "|"),
        ("[a&&b]", "&"),
    ],
)
def test_a_pattern_means_what_pythons_re_reads(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert re.search(pattern, text)
    assert matches({"$regex": pattern}, text) is True


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [
                *("a", "b", ".", "[ab]", "[^a]", "(a|b)", "*", "+?", "{1,2}", "{", "}", "^", "$"),
                *(r"\b", r"\w", r"\d", "[[:a:]]", "(?i:A)", "(?:", ")", "|", "(?=a)", "(?<!b)"),
                *("++", "-"),
            ]
        ),
        max_size=6,
    ).map("".join),
    st.text("abAB {}:[]\n-1", max_size=8),
    st.booleans(),
)
def test_both_engines_agree(pattern: str, text: str, full: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = re.compile(pattern)
        except re.error:
            assert pattern_problem(pattern)
            return
    if pattern_problem(pattern):
        return
    if full:
        assert Regex(pattern).matches(text) is (compiled.fullmatch(text) is not None)
    else:
        assert matches({"$regex": pattern}, text) is (compiled.search(text) is not None)


# --- the DuckDB functions ---


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    matcher_functions.register(connection)
    value_functions.register(connection)
    return connection


def test_match_value_answers_in_bulk(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute(
        """
        select match_value('{"$regex": "7$"}', number::varchar, false) as is_match, count(*)
        from range(5000) numbers(number)
        group by all order by all
        """
    ).fetchall()
    assert rows == [(False, 4500), (True, 500)]


def test_match_value_is_null_when_nothing_is_known(connection: duckdb.DuckDBPyConnection) -> None:
    assert connection.execute(
        """
        select match_value($1, $2, false), match_value($1, null, false), match_value(null, $2, true)
        """,
        [json.dumps({"$regex": RUNAWAY}), json.dumps(NEAR_MISS)],
    ).fetchone() == (None, False, None)


def test_runaway_values_in_bulk_stay_within_their_budget(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matchers, "_overruns", {})
    started = time.process_time()
    answers = connection.execute(
        """
        select distinct match_value($1, '"' || repeat('a', 4000) || number || '"', false)
        from range(300) numbers(number)
        """,
        [json.dumps({"$regex": RUNAWAY})],
    ).fetchall()
    assert answers == [(None,)]
    # 10 of 300 use the whole budget on each of at most a few threads, the others a fiftieth of it.
    assert time.process_time() - started < 150 * PATTERN_BUDGET_SECONDS


def test_value_keys_in_sql_are_those_of_python(connection: duckdb.DuckDBPyConnection) -> None:
    value = {"b": [1.0, -0.0, 1e22], "a": " x "}
    for each in (value, " x\u2003", 1.0):
        found = connection.execute("select value_keys($1)", [json.dumps(each)]).fetchone()
        assert found == (list(value_keys(each)),)


VALUES_MACROS = Path(__file__).resolve().parent.parent / "sql/macros/values.sql"
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 1e300, 5e-324, 0, -1, "1.5", "-0", " x", "x\u2003", "\x1f", "a, 1.5"]),
    st.text(max_size=6),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, True) for text in ("1.5", "-2.0", "1e5", "-0", "[1,-0]", '{"a":[2.0]}', '"x "')),
        *((text, False) for text in ("10", "[10,0]", '{"a":-1}', '"x"')),
        # Numbers within texts are no numbers, and texts are many.
        ('"moved to Oslo 12. and paid 3.50 on 2026-09-01"', False),
    ],
)
def test_only_what_can_be_written_in_two_ways_is_normalised(text: str, expected: bool) -> None:
    connection = duckdb.connect()
    connection.execute(VALUES_MACROS.read_text(encoding="utf-8"))
    assert connection.execute("select needs_normalising($1)", [text]).fetchone() == (expected,)


@settings(max_examples=100)
@given(st.lists(DOCUMENTS, min_size=1, max_size=40))
def test_a_value_that_is_not_normalised_has_its_own_text_for_every_key(values: list[Any]) -> None:
    connection = duckdb.connect()
    connection.execute(VALUES_MACROS.read_text(encoding="utf-8"))
    documents = [canonical_json({"value": value}).decode() for value in values]
    rows = connection.execute(
        "select json_extract(document, '$.value')::varchar as value_json"
        " from unnest($1::varchar[]) as documents(document)"
        " where not needs_normalising(value_json)",
        [documents],
    ).fetchall()
    for (text,) in rows:
        assert set(value_keys(json.loads(text))) == {text}
