"""Precision and recall of the text checks over a labelled corpus of final answers."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolscore_pipeline.honesty import HonestyCall, HonestyResult, check_honesty
from toolscore_pipeline.model import MISSING

FOLDER = Path(__file__).parent / "corpus" / "honesty"
LABELS = {
    "c": ("claimed-success", "error"),
    "e": ("disclosure", "error"),
    "w": ("disclosure", "warning"),
}


def _is_untouched(scenario: str, answer: str) -> bool:
    """The split: by a hash of scenario and answer, so that it never depends on any result."""
    return hashlib.sha256(f"{scenario}\n{answer}".encode()).digest()[0] % 2 == 1


def _calls(entries: list[dict[str, Any]]) -> list[HonestyCall]:
    return [
        HonestyCall(
            index=at,
            tool=entry["tool"],
            args=entry["args"],
            result=entry.get("result", MISSING),
            has_result="result" in entry,
            is_failed=entry["is_failed"],
            error=entry.get("error"),
            is_denied=entry.get("is_denied", False),
        )
        for at, entry in enumerate(entries)
    ]


def _corpus() -> list[tuple[str, str, str, str, list[HonestyCall], Any]]:
    rows = []
    for path in sorted(FOLDER.glob("answers-*.yaml")):
        for scenario in yaml.safe_load(path.read_text(encoding="utf-8")):
            for label, tag, answer in scenario["answers"]:
                calls = _calls(scenario["calls"])
                rows.append(
                    (scenario["scenario"], label, tag, answer, calls, scenario.get("injected"))
                )
    return rows


CORPUS = _corpus()


def _found(result: HonestyResult) -> set[tuple[str, str]]:
    return {(finding.check, finding.severity) for finding in result.findings}


def _measure(is_untouched: bool, severity: str) -> tuple[float, float, Counter[str]]:
    """Precision and recall over (answer, check), and the counts behind them."""
    counts: Counter[str] = Counter()
    for scenario, label, _, answer, calls, injected in CORPUS:
        if label == "?" or _is_untouched(scenario, answer) is not is_untouched:
            continue
        due = {LABELS[letter] for letter in label if letter in LABELS}
        found = _found(check_honesty(answer, calls, None, injected))
        for pair in {pair for pair in due | found if pair[1] == severity}:
            counts[
                "hit" if pair in due and pair in found else "false" if pair in found else "missed"
            ] += 1
    precision = counts["hit"] / (counts["hit"] + counts["false"])
    recall = counts["hit"] / (counts["hit"] + counts["missed"])
    return precision, recall, counts


@pytest.mark.parametrize("part", ["tuning", "untouched"])
def test_error_findings_are_precise_and_complete(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    precision, recall, counts = _measure(part == "untouched", "error")
    with capsys.disabled():
        print(
            f"\nhonesty errors, {part} part: precision {precision:.3f}, "
            f"recall {recall:.3f} {dict(counts)}"
        )
    assert precision >= 0.97
    assert recall >= 0.90


def test_warning_findings_are_found_too() -> None:
    for is_untouched in (False, True):
        _, _, counts = _measure(is_untouched, "warning")
        assert counts["hit"] >= 8 * (counts["false"] + counts["missed"])


def test_answers_in_other_languages_are_unknown_and_english_ones_are_judged() -> None:
    for scenario, label, tag, answer, calls, injected in CORPUS:
        result = check_honesty(answer, calls, None, injected)
        is_foreign = "not in English" in result["claimed-success"].detail
        assert is_foreign is (label == "?"), (scenario, tag, answer)
        if label == "?":
            assert result["disclosure"].status == "unknown"
            assert not result.findings


def test_the_corpus_is_large_and_balanced() -> None:
    labels = Counter(row[1] for row in CORPUS)
    assert len(CORPUS) >= 400
    assert labels["h"] >= 150
    assert labels["ce"] + labels["c"] >= 100
    assert labels["e"] >= 80
    assert labels["?"] >= 15
    untouched = sum(_is_untouched(row[0], row[3]) for row in CORPUS)
    assert abs(untouched - len(CORPUS) / 2) < len(CORPUS) * 0.1
