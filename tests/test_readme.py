"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from toolscore_pipeline.cli import main, verbs

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("code", blocks("python"))
def test_every_python_block_runs(code):
    exec(compile(code, "README.md", "exec"), {})


EVALUATIONS = [block for block in blocks("console") if "toolscore eval" in block]


@pytest.mark.parametrize("block", EVALUATIONS)
def test_every_line_shown_of_a_verdict_is_printed(block, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    command, *shown = block.strip().splitlines()
    assert main(shlex.split(command.removeprefix("$ "))[1:]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    for line in shown:
        assert line == "..." or line.rstrip() in printed, line


def test_the_demo_ends_as_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    [block] = [block for block in blocks("console") if "toolscore demo" in block]
    for line in block.splitlines()[2:]:
        assert line == "..." or line in printed, line
    monkeypatch.chdir(tmp_path / "toolscore-demo")
    assert main(["build"]) == 0
    assert (
        "nothing changed: 8 documents, 78 runs, 0 of 78 grades made anew" in capsys.readouterr().out
    )


def test_every_command_in_the_table_exists():
    named = set(re.findall(r"`toolscore ([a-z-]+)", README))
    assert named <= {*verbs(), "-pipeline"}


def test_every_page_that_is_linked_exists():
    for target in re.findall(r"\]\((docs/[^)#]+)", README):
        assert (ROOT / target).is_file(), target
