"""Strict JSON: exact values, refusals with a place, and the fast path that must never be seen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.hashing import canonical_json, canonical_json_strict
from toolscore_pipeline.jsonio import (
    BYTE_ORDER_MARK,
    DUPLICATE_KEYS,
    LONE_SURROGATE,
    MAX_DEPTH,
    depth,
    find_non_json,
    strict_lines,
    strict_loads,
)

PAD = " " * (1 << 16)  # documents beyond this size take the vectorised checks


@pytest.mark.parametrize("pad", ["", PAD])
@pytest.mark.parametrize(
    "number",
    [0, -1, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**19, -(10**18) - 1, 10**400, 1.5, -0.0],
)
def test_numbers_come_back_exactly(number: Any, pad: str) -> None:
    value, flags = strict_loads(f'{{"n": {number}, "pad": "{pad}"}}')
    assert value["n"] == number
    assert type(value["n"]) is type(number)
    assert not flags


@pytest.mark.parametrize("pad", ["", PAD])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a" : 1, "a"\t: 2}', {"a": 2}),
        ('{"a": 1, "\\u0061": 2}', {"a": 2}),
        ('[{"b": {"a": 1, "a": 2}}]', [{"b": {"a": 2}}]),
        # Two colons hidden in escapes make up for the dropped "a": of the repeated key.
        ('{"a": 1, "x": "\\u003a", "a": 2}', {"a": 2, "x": ":"}),
        ('{"a": "::", "a": 2, "x": "\\u003a\\u003A\\u003a"}', {"a": 2, "x": ":::"}),
    ],
)
def test_of_two_equal_keys_the_last_wins_and_is_flagged(text: str, value: Any, pad: str) -> None:
    assert strict_loads(text + pad) == (value, {DUPLICATE_KEYS})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": NaN}', "NaN is no JSON number at line 1, column 7"),
        ("[1,\n -Infinity]", "-Infinity is no JSON number at line 2, column 2"),
        ('["NaN", 1e400]', "1e400 is too large for a number at line 1, column 9"),
        ('{"a": [1, 2', "it ends early at line 1, column 12"),
        ('{"a": "b', "it ends early at line 1, column 7"),
        ('{"a": 1} x', "extra data at line 1, column 10"),
        ("[1,]", "not JSON"),
        ("", "there is no value"),
        ("  \n", "there is no value"),
        ("{'a': 1}", "at line 1, column 2"),
        ('"\t"', "invalid control character at line 1, column 2"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        strict_loads(text)
    assert place in str(caught.value)


def test_bytes_that_are_not_utf8_are_refused_with_their_place() -> None:
    with pytest.raises(InputError, match=r"byte 0xff is not UTF-8 at line 2, column 6"):
        strict_loads(b'{"a":\n"abcd\xff"}')


def test_an_integer_too_long_for_python_is_refused() -> None:
    with pytest.raises(InputError, match="an integer of 5,000 digits"):
        strict_loads("9" * 5000)


def test_a_lone_surrogate_is_kept_as_its_escape() -> None:
    value, flags = strict_loads('{"a\\ud800": ["x\\udfff", "\\ud83d\\ude00"]}')
    assert value == {"a\\ud800": ["x\\udfff", "😀"]}
    assert flags == {LONE_SURROGATE}


def test_a_byte_order_mark_is_skipped_and_flagged() -> None:
    assert strict_loads(b'\xef\xbb\xbf{"a": 1}') == ({"a": 1}, {BYTE_ORDER_MARK})


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_ten_thousand_levels_are_refused_and_the_limit_is_read(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    with pytest.raises(InputError, match=f"nested deeper than {MAX_DEPTH} levels"):
        strict_loads(opening * 10_000 + ("1" if opening != "[" else "") + closing * 10_000)
    for levels, is_read in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False)):
        text = opening * levels + "1" + closing * levels
        if is_read:
            assert depth(strict_loads(text)[0]) == levels
        else:
            with pytest.raises(InputError):
                strict_loads(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


SEPARATORS = st.sampled_from([(",", ":"), (", ", " : ")])


@given(JSON, st.sampled_from([None, 1]), st.booleans(), SEPARATORS)
def test_any_value_is_read_as_the_plain_parser_reads_it(
    value: Any, indent: int | None, is_ascii: bool, separators: tuple[str, str]
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, separators=separators)
    read, _ = strict_loads(text)
    assert repr(read) == repr(json.loads(text))


@given(st.lists(JSON, max_size=5))
def test_lines_are_read_as_the_documents_they_are(values: list[Any]) -> None:
    chunk = b"\r\n".join(json.dumps(value).encode() for value in values) + b"\n\n"
    lines = strict_lines(chunk)
    assert [number for number, _, _ in lines] == list(range(len(values)))
    assert repr([value for _, value, _ in lines]) == repr(values)


def test_one_bad_line_leaves_the_others_alone() -> None:
    chunk = b'{"a": 1}\n{"a": NaN}\n\n{"a": 1, "a": 2}\n{"a": 18446744073709551617}'
    first, second, third, fourth = strict_lines(chunk)
    assert first == (0, {"a": 1}, frozenset())
    assert second[0] == 1
    assert isinstance(second[1], InputError)
    assert third == (3, {"a": 2}, {DUPLICATE_KEYS})
    assert fourth == (4, {"a": 2**64 + 1}, frozenset())


@given(JSON)
def test_the_fast_canonical_text_is_the_canonical_text(value: Any) -> None:
    assert canonical_json_strict(value) == canonical_json(value)


def test_non_json_numbers_are_found_with_their_path() -> None:
    value = {"a": [1, float("nan")], "b": (float("-inf"),)}
    assert sorted(find_non_json(value)) == [("$.a[1]", "nan"), ("$.b[0]", "-inf")]
