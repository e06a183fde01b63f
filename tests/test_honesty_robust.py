"""No text, however odd or long, breaks the text engine or makes it slow."""

from __future__ import annotations

import sys
import time
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscore_pipeline.honesty import HonestyCall, check_honesty
from toolscore_pipeline.honesty.shell import effects
from toolscore_pipeline.honesty.text import prose

OLD = "/data/old.txt"
STATES = {"pass", "fail", "unknown"}
PIECES = st.sampled_from(
    (
        "I saved the note",
        "but it failed",
        "not",
        '"',
        "'",
        "`",
        "```",
        "\n",
        "| a | b |",
        "|---|---|",
        "- ",
        "> ",
        "0 of 3",
        "✅",
        "if",
        "?",
        ".",
        ",",
        ": ",
        "(",
        "é",
        "docs/a.md",
    )
)
SHELL = st.sampled_from(
    (
        "rm",
        "/data/old.txt",
        "'",
        '"',
        "$(",
        ")",
        "`",
        ";",
        "|",
        "&&",
        "<<EOF",
        "\n",
        "EOF",
        ">",
        "2>&1",
        "$X",
        "X=1",
        "\\",
        "xargs",
        "sh -c",
        "echo",
        "#",
        "import os",
        "os.remove(",
        "select 1",
        "curl -X DELETE",
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


def _calls(args: Any, result: Any) -> list[HonestyCall]:
    return [
        HonestyCall(0, "delete_file", args, is_failed=True, is_denied=True),
        HonestyCall(1, "bash", args, result=result, has_result=True, is_failed=False),
        HonestyCall(2, "http_request", args, is_failed=None),
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES | st.text(max_size=10), max_size=25), JSON, JSON)
def test_any_answer_and_any_call_gets_a_verdict(pieces: list[str], args: Any, result: Any) -> None:
    injected = {"faults": [{"index": 1, "kind": "error"}], "planted": [{"canary": "x1"}]}
    verdict = check_honesty(" ".join(pieces), _calls(args, result), None, injected)
    assert len(verdict.checks) == 4
    assert {check.status for check in verdict.checks} <= STATES
    for check in verdict.checks:
        assert (check.status == "fail") == bool(check.findings)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(SHELL | st.text(max_size=8), max_size=20),
    st.sampled_from(("", "shell", "python", "sql")),
)
def test_any_code_is_read(pieces: list[str], hint: str) -> None:
    for effect in effects(" ".join(pieces), hint=hint):
        assert effect.kind in {"print", "read", "write", "delete"}


LONG = {
    "words": "the note was saved and " * 8_000,
    "quotes": "'\" " * 40_000,
    "pipes": "| a " * 40_000,
    "brackets": "([" * 60_000,
    "spaces": " " * 200_000,
    "stars": "*" * 100_000,
    "digits": "1" * 150_000,
    "dots": "a." * 60_000,
    "paths": "/a" * 60_000,
    "negations": "no not never " * 10_000,
    "ticks": "`" * 100_000,
    "commas": "if a, " * 20_000,
}


@pytest.mark.parametrize("name", sorted(LONG))
def test_long_texts_take_no_more_than_a_moment(name: str) -> None:
    text = LONG[name]
    start = time.process_time()
    check_honesty(text, _calls({"path": "docs/a.md", "command": text}, text))
    assert time.process_time() - start < 5  # seconds; a runaway pattern takes minutes


LONG_CODE = {
    "a long word": "rm " + "a" * 50_000,
    "blank lines": "rm " + "\n" * 49_000 + OLD,
    "brackets": "rm " + "[" * 49_000 + " " + OLD,
    "wrappers": "env " * 12_000 + "rm " + OLD,
    "xargs": "xargs " * 8_000 + "rm " + OLD,
    "executions": "find a -exec " * 3_500 + "rm " + OLD,
}


@pytest.mark.parametrize("name", sorted(LONG_CODE))
def test_long_code_takes_no_more_than_a_moment(name: str) -> None:
    refused = HonestyCall(0, "delete_file", {"path": OLD}, is_failed=True, is_denied=True)
    start = time.process_time()
    for tool in ("bash", "python", "execute_sql", "node"):
        ran = HonestyCall(1, tool, {"code": LONG_CODE[name]}, has_result=True, is_failed=False)
        assert check_honesty("Done.", [refused, ran])["escape-hatch"].status in STATES
    assert time.process_time() - start < 5  # seconds; each took up to minutes


@pytest.mark.parametrize("word", ["A", "a_", "./", "-a.", "@a", "a+"])
def test_a_long_word_beside_a_path_is_gone_through_once(word: str) -> None:
    text = f"See a/b.txt x@y.org and {word * (30_000 // len(word))}"
    started = time.process_time()
    left = prose(text)
    assert time.process_time() - started < 1
    assert left.split()[:2] == ["See", "and"]


def _lines_run(answer: str, calls: list[HonestyCall]) -> int:
    """How many lines are run to judge an answer, each round of a loop counted."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        check_honesty(answer, calls)
    finally:
        sys.settrace(before)
    return count


def _failed(count: int) -> list[HonestyCall]:
    return [
        HonestyCall(
            at,
            "save_note",
            {"title": f"note {at} x{at}"},
            result="disk quota exceeded",
            has_result=True,
            is_failed=True,
        )
        for at in range(count)
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "I saved note {0}.",
        "I could not save the file {0}.",
        "The file docs/{0}.md was saved.",
        "Note {0} is not in docs/{0}.md.",
        "The disk is full ({0}).",
    ],
)
def test_calls_and_sentences_are_not_multiplied(sentence: str) -> None:
    def lines(count: int) -> int:
        answer = " ".join(sentence.format(at) for at in range(count))
        return _lines_run(answer, _failed(count))

    lines(1)
    few, many = lines(40), lines(160)
    assert many < 5 * few  # four times as many of both; each with each would be sixteen times
