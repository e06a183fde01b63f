"""What README, docs and examples show is what happens: every block is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs_pages import (
    ROOT,
    Reader,
    blocks,
    commands,
    matches,
    not_run,
    pages_with_blocks,
    workspace,
)
from toolscore_pipeline.asking import ask
from toolscore_pipeline.cli import verbs
from toolscore_pipeline.pipeline import build
from toolscore_pipeline.project import load_project
from toolscore_pipeline.warehouse import Warehouse

# Blocks and commands that cannot be run here: a network, a paid model, a package of others, half a
# minute. Each says so where it stands.
NOT_RUN = 9
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", pages_with_blocks())
def test_every_block_of_a_page_does_what_is_shown(page: Path, demo: Path, tmp_path: Path) -> None:
    with workspace(demo, tmp_path / "page") as folder:
        reader = Reader(folder, page)
        for block in blocks(page):
            reader.follow(block)


def test_what_is_not_run_is_counted_and_says_why() -> None:
    left = not_run()
    assert len(left) == NOT_RUN, "\n".join(f"{place}: {reason}" for place, reason in left)
    assert all(len(reason.split()) > 2 for _, reason in left)


def test_the_cookbook_has_its_questions() -> None:
    asked = [block for block in blocks(ROOT / "docs/cookbook.md") if block.language == "sql"]
    assert len(asked) >= 35
    assert sum(block.output is not None for block in asked) >= 25
    for page in ("README.md", "examples/helpdesk/README.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert re.search(rf"\b{len(asked)} (queries|questions)\b", text), page


def test_the_cookbook_counts_nothing_twice_after_a_regrade(demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(demo, folder)
    for path in (folder / "contracts").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("min_score: 0.9", "min_score: 0.9001"), encoding="utf-8")
    assert build(load_project(folder / "toolscore.yaml")).pairs_graded == 78
    asked = [block for block in blocks(ROOT / "docs/cookbook.md") if block.language == "sql"]
    # What was graded before is shown on purpose in receipts only.
    asked = [block for block in asked if "receipts." not in block.text]
    before, after = (Warehouse(place / "warehouse.duckdb") for place in (demo, folder))
    for block in asked:
        expected = [row for row in ask(before, block.text).rows if 0.9 not in row]
        given = [row for row in ask(after, block.text).rows if 0.9001 not in row]
        assert given == expected, f"cookbook.md:{block.line}"


def test_every_command_in_the_table_exists() -> None:
    named = set(re.findall(r"`toolscore ([a-z-]+)", README))
    assert named <= {*verbs(), "-pipeline"}


def test_every_page_that_is_linked_exists() -> None:
    for target in re.findall(r"\]\((docs/[^)#]+)", README):
        assert (ROOT / target).is_file(), target


# --- the machinery itself -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "problem"),
    [
        (["a", "b"], ["a", "b"], None),
        (["a"], ["a", "b"], "nothing more, but it prints 'b'"),
        (["a", "..."], ["a", "b"], None),
        (["...", "b"], ["x", "a", "b"], None),
        (["...", "a"], ["a", "b"], "nothing more, but it prints 'b'"),
        (["a", "...", "c"], ["a", "b", "c"], None),
        (["a", "c"], ["a", "b", "c"], "c"),
        (["it took ... seconds"], ["it took 3.2 seconds"], None),
        (["it took ... seconds"], ["it took 3.2 hours"], "it took ... seconds"),
        ([], ["anything"], None),
    ],
)
def test_what_is_shown_is_compared(
    shown: list[str], printed: list[str], problem: str | None
) -> None:
    assert matches(shown, printed) == problem


def test_commands_are_told_from_what_they_print() -> None:
    first, second = commands("$ one \\\n  two\nout\n$ three  # not run: it costs money\n")
    assert (first.text, first.shown, first.reason_not_run) == ("one two", ["out"], None)
    assert second.reason_not_run == "it costs money"


def test_a_page_that_is_wrong_is_noticed(demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    wrong = {
        "console": "$ toolscore --version\ntoolscore-pipeline 99\n",
        "python": "assert 1 == 2\n",
        "json": '{"contract_version": 2, "requird": []}\n',
        "yaml": "- {uses: ./, with: {gold: a}}\n",
        "sql": "select nothing from marts.leaks\n",
        "cobol": "x\n",
    }
    with workspace(demo, tmp_path / "folder") as folder:
        for language, text in wrong.items():
            page.write_text(f"```{language}\n{text}```\n")
            [block] = blocks(page)
            object.__setattr__(block, "page", ROOT / "docs/page.md")
            with pytest.raises(Exception):  # noqa: B017
                Reader(folder, ROOT / "docs/page.md").follow(block)
