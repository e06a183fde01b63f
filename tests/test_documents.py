"""JSON and YAML documents: what is read as what, what is refused, and the lines of it all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolscore_pipeline.documents import child_path, load_document, parse_document
from toolscore_pipeline.errors import InputError, Problem

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(), items, max_size=3),
    max_leaves=8,
)


def test_yaml_is_read_the_way_its_text_looks() -> None:
    text = (
        "on: no\nday: 2026-12-01\ntime: 12:30\nzip: 00501\nhex: 0x10\nyes: true\nbig: True\n"
        "nothing: ~\nempty:\nint: -7\nfloat: 1.5e3\nquoted: '5'\n2: two\nsum: 1_000\n"
    )
    assert parse_document(text, kind="yaml").value == {
        "on": "no",
        "day": "2026-12-01",
        "time": "12:30",
        "zip": "00501",
        "hex": "0x10",
        "yes": True,
        "big": "True",
        "nothing": None,
        "empty": None,
        "int": -7,
        "float": 1500.0,
        "quoted": "5",
        "2": "two",
        "sum": "1_000",
    }


def test_yaml_aliases_repeat_their_value() -> None:
    assert parse_document("a: &x [1, {b: 2}]\nc: *x", kind="yaml").value == {
        "a": [1, {"b": 2}],
        "c": [1, {"b": 2}],
    }


@given(JSON_VALUES)
def test_json_text_is_read_as_python_reads_it(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert parse_document(text).value == json.loads(text)


@given(JSON_VALUES)
def test_every_json_value_has_the_line_it_starts_on(value: Any) -> None:
    document = parse_document(json.dumps(value, indent=1))
    # With an indent every item stands on a line of its own, in order.
    line = 0

    def walk(item: Any, path: str) -> None:
        nonlocal line
        line += 1
        assert document.line_of(path) == line
        children: list[tuple[str | int, Any]] = []
        if isinstance(item, dict):
            children = list(item.items())
        elif isinstance(item, list):
            children = list(enumerate(item))
        for step, child in children:
            walk(child, child_path(path, step))
        line += bool(children)  # the closing bracket

    walk(document.value, "$")


def test_yaml_values_have_lines_too() -> None:
    document = parse_document("a:\n  - x\n  - b: 1\n    c d: 2\n", kind="yaml")
    places = ["$", "$.a", "$.a[0]", "$.a[1].b", '$.a[1]["c d"]']
    assert [document.line_of(place) for place in places] == [1, 1, 2, 3, 4]


def test_a_place_that_is_missing_has_the_line_of_what_should_hold_it() -> None:
    document = parse_document('{"a":\n {"b": 1}}')
    assert document.line_of("$.a.tool") == 1
    assert document.line_of('$.a.b["x y"][3].z') == 2


def test_problems_are_put_in_document_order() -> None:
    document = parse_document('{"a": 1,\n"b": 2,\n"c": 3}')
    located = document.locate([Problem("third", "$.c"), Problem("first", "$.a")])
    assert [(problem.reason, problem.line) for problem in located] == [("first", 1), ("third", 3)]


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ('[{"tool": "a"', "json", "f:1: the JSON ends early (expecting ',' delimiter)"),
        ('{"a":\n', "json", "f:2: the JSON ends early (expecting value)"),
        ('["a', "json", "f:1: the JSON ends early (unterminated string starting at)"),
        ("[1,\n ,2]", "json", "f:2: not JSON: expecting value at column 2"),
        ("", "json", "f:1: the document is empty"),
        ("# nothing\n", "yaml", "f:1: the document is empty"),
        ('{"a": 1,\n "a": 2}', "json", "f:2: at $.a: the key 'a' is given twice"),
        ("a: 1\nb: {c: 1, c: 2}", "yaml", "f:2: at $.b.c: the key 'c' is given twice"),
        (
            '[{"x":\n [NaN]}]',
            "json",
            (
                "f:2: at $[0].x[0]: got NaN, expected a finite number "
                "(NaN and infinities are not JSON)"
            ),
        ),
        (
            '{"x": 1e400}',
            "json",
            "f:1: at $.x: got 1e400, expected a finite number (NaN and infinities are not JSON)",
        ),
        (
            "x: .inf",
            "yaml",
            (
                "f:1: at $.x: got .inf, expected a finite number "
                "(NaN and infinities are not JSON; quote it for text)"
            ),
        ),
        ("x: !date 5", "yaml", "f:1: at $.x: unknown YAML tag '!date', expected plain values"),
        ("x: !!int a", "yaml", "f:1: at $.x: 'a' is no int"),
        (
            "x: &a [*a]",
            "yaml",
            "f:1: at $.x[0]: the alias refers to the value it stands in",
        ),
        ("[a]: 1", "yaml", "f:1: at $: expected text as a key, got a list or a mapping"),
        ("a: [1", "yaml", "f:1: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("[" * 100_000, "json", "f: nested deeper than 254 levels"),
        ("[" * 255 + "]" * 255, "json", "f: nested deeper than 254 levels"),
        ("[" * 255 + "]" * 255, "yaml", "f: nested deeper than 254 levels"),
        (
            '[1,\n{"a b": "\\ud800"}]',
            "json",
            'f:2: at $[1]["a b"]: got half a surrogate pair, expected whole characters',
        ),
        (
            "[1,\n -" + "9" * 4300 + "]",
            "json",
            "f:2: at $[1]: got an integer of 4,301 digits, expected at most 4,300",
        ),
        (
            "- 1\n- " + "9" * 5000,
            "yaml",
            "f:2: at $[1]: got an integer of 5,000 digits, expected at most 4,300",
        ),
    ],
)
def test_what_is_no_strict_document_is_refused_in_one_sentence(
    text: str, kind: Literal["json", "yaml"], sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, path="f", kind=kind)
    assert str(caught.value) == sentence


def test_aliases_that_multiply_are_refused() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InputError, match="the aliases come to more than 1,000,000 values"):
        parse_document("\n".join(levels), kind="yaml")


def test_the_suffix_or_else_the_text_tells_json_from_yaml(tmp_path: Path) -> None:
    for name, text in {
        "a.json": '{"a": 1}',
        "b.yml": "a: 1",
        "c.gold": '\ufeff{"a": 1}',
        "d": "a: 1",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert load_document(tmp_path / name).value == {"a": 1}


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{\n"a": "\xe9"}')
    for path, words in {
        tmp_path / "no.json": "there is no such file",
        tmp_path: "expected a file, got a folder",
        tmp_path / "latin.json": "expected UTF-8 text",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            load_document(path)
        assert caught.value.path == str(path)
    with pytest.raises(InputError) as caught:
        load_document(tmp_path / "latin.json")
    assert caught.value.line == 2


@given(JSON_VALUES)
def test_a_value_written_as_yaml_comes_back(value: Any) -> None:
    # Text is quoted by the writer where YAML 1.1 would read it as something else.
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=False)
    if "\x85" in text:  # a line break that the writer loses unless it escapes it
        text = yaml.safe_dump(value, default_flow_style=False)
    again = parse_document(text, kind="yaml").value if text.strip() else None
    assert _loose(again) == _loose(value)


def _loose(value: Any) -> Any:
    """Numbers as doubles, for YAML writes them its own way."""
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        return float(value) if abs(value) < 1e300 else repr(value)
    if isinstance(value, dict):
        return {key: _loose(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_loose(item) for item in value]
    return value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 200e06234ced8df28"}', "not JSON: expecting ',' delimiter"),
        ('{"a": {"b": 1, "b": 2}, x}', "not JSON: expecting property name"),
        ('{"a": {"b": 1, "b": 2},', "the JSON ends early"),
        ('{"a": [NaN, {"b": 1, "c', "the JSON ends early"),
    ],
)
def test_what_is_no_json_after_what_is_refused_is_told_as_no_json(text: str, reason: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_document(text)
    assert reason in str(refusal.value)
