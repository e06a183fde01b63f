"""Printing: what a file or an agent wrote is shown as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolscore_pipeline.api import evaluate
from toolscore_pipeline.cli import main
from toolscore_pipeline.cli.output import console, write_text
from toolscore_pipeline.errors import InputError
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


def test_an_error_repeats_no_credential_and_moves_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "AKIA" + "Q3EGRZ7K2XWP4TNV"
    contract, trace = tmp_path / "contract.json", tmp_path / "trace.json"
    contract.write_text(json.dumps({"required": [{"tool": "a", key: 1, "\x1b[2J": 2}]}))
    trace.write_text("[]")
    assert main(["eval", str(contract), str(trace)]) == 2
    shown = capsys.readouterr().err
    assert "REDACTED aws_access_key_id" in shown
    assert key not in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2


class OutOfMemoryException(Exception):
    """Named like DuckDB's."""


@pytest.mark.parametrize(
    "error", [MemoryError(), OutOfMemoryException("could not allocate 9 GB\n")]
)
def test_too_little_memory_is_one_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("toolscore_pipeline.api.evaluate_trace", fail)
    assert main(["eval", "contract.json", "trace.json"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: more memory is needed: ")
    assert shown.count("\n") == 1


@pytest.mark.parametrize("trace", ["x" * 5000, "/dev/null", "."])
def test_a_trace_that_is_no_file_is_one_sentence(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = tmp_path / "gold.json"
    contract.write_text("[]")
    assert main(["eval", str(contract), trace]) == 2
    shown = capsys.readouterr().err
    assert "no such file" in shown or "expected a file, got a" in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("target", ["/", "."])
def test_a_report_is_not_written_over_a_folder(target: str) -> None:
    with pytest.raises(InputError, match="cannot be written: it is a folder"):
        write_text(Path(target), "report")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied", "trace.json"), "trace.json: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(
    error: OSError,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("toolscore_pipeline.api.evaluate_trace", fail)
    assert main(["eval", "contract.json", "trace.json"]) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"


def test_a_reader_that_went_away_is_no_failure(tmp_path: Path) -> None:
    contract, trace = tmp_path / "gold.json", tmp_path / "trace.json"
    contract.write_text('[{"tool": "a"}]')
    trace.write_text(json.dumps([{"tool": "a", "args": {"x": "y" * 1_000_000}}]))
    command = [sys.executable, "-m", "toolscore_pipeline", "eval", str(contract), str(trace)]
    command += ["--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()  # far less than the record fits into the pipe
        _, error = process.communicate()
    assert (process.returncode, error) == (0, b"")


def test_a_picture_that_cannot_be_written_leaves_the_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolscore_pipeline.cli import compare

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    picture = tmp_path / "tasks.svg"
    picture.write_bytes(b"before")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="No space left"):
        compare._write_picture(picture, b"after")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("tasks.svg", b"before")
    ]


@pytest.mark.parametrize("arguments", [[], ["agent"]])
def test_asked_for_nothing_it_shows_its_help_and_no_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(" ".join(["Usage: toolscore", *arguments]))
    assert "Commands:" in shown.err
