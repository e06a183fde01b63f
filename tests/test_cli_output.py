"""Printing: what a file or an agent wrote is shown as it is."""

from __future__ import annotations

import pytest

from toolscore_pipeline.api import evaluate
from toolscore_pipeline.cli.output import console
from toolscore_pipeline.reports import read_verdict
from toolscore_pipeline.reports.console import verdict_text


@pytest.mark.parametrize("columns", ["", "wide", "0", "-1", "80"])
def test_texts_are_printed_letter_by_letter(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    console().print("set aside: query:a: [red]no[/red] :smile: 12")
    assert capsys.readouterr().out == "set aside: query:a: [red]no[/red] :smile: 12\n"


def test_names_in_a_verdict_are_no_emoji() -> None:
    result = evaluate([{"tool": "mcp:a:find"}], [{"tool": "mcp:b:find", "args": {}}])
    text = verdict_text(read_verdict(result))
    assert "mcp:a:find" in text
    assert "mcp:b:find" in text
