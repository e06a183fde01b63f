"""Watching the files of a project: what counts as a change, and when."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.project_helpers import CONTRACT, make_project, rebuild, rows, write_rows
from toolscore_pipeline import watching
from toolscore_pipeline.project import load_project
from toolscore_pipeline.watching import Glance, Look

LATER = time.time() + 1e6  # every file has settled by then


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p", 8)


def look(folder: Path, before: Glance, now: float = LATER) -> Look:
    return watching.look(load_project(folder / "toolscore.yaml"), before, now)


def test_the_first_look_finds_everything_new_and_the_second_nothing(folder):
    first = look(folder, Glance())
    assert first.changed == ("judgments", "sources")
    second = look(folder, first.glance)
    assert (second.changed, second.reason) == ((), "no name, size or time changed")
    assert second.glance == first.glance


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda f: write_rows(f / "runs/second.jsonl", rows(2, start=90)), ("sources",)),
        (lambda f: (f / "runs/first.jsonl").rename(f / "runs/other.jsonl"), ("sources",)),
        (lambda f: (f / "contracts/one.yaml").write_text(CONTRACT + "# x\n"), ("judgments",)),
        (lambda f: (f / "contracts/one.yaml").unlink(), ("judgments",)),
        (lambda f: shutil.copy(f / "contracts/one.yaml", f / "contracts/new.yaml"), ("judgments",)),
    ],
    ids=["new file", "renamed", "edited contract", "contract gone", "new contract"],
)
def test_a_change_is_told_by_its_part(folder, change, parts):
    before = look(folder, Glance()).glance
    change(folder)
    found = look(folder, before)
    assert found.changed == parts
    assert found.glance.changes == before.changes + 1


def test_a_byte_that_changed_at_the_same_size_is_found(folder):
    before = look(folder, Glance()).glance
    path = folder / "runs/first.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"tea", b"tee", 1))
    os.utime(path, (1, 1))  # a copy may set its time back
    assert look(folder, before).changed == ("sources",)


@pytest.mark.parametrize("is_built", [False, True])
def test_a_file_that_is_touched_or_written_again_as_it_was_is_no_change(folder, is_built):
    if is_built:
        rebuild(folder)
    before = look(folder, Glance()).glance
    path = folder / "runs/first.jsonl"
    path.write_bytes(path.read_bytes())
    os.utime(path, (5, 5))
    found = look(folder, before)
    assert (found.changed, found.reason) == ((), "times changed, the bytes did not")
    assert look(folder, found.glance).reason == "no name, size or time changed"


def test_a_file_that_is_being_written_is_waited_for(folder):
    before = look(folder, Glance()).glance
    path = folder / "runs/second.jsonl"
    write_rows(path, rows(2, start=90))
    written = max(path.stat().st_mtime, path.stat().st_ctime)
    waiting = look(folder, before, written + 1)
    assert (waiting.changed, waiting.reason) == ((), "files are being written")
    write_rows(path, rows(4, start=90))
    written = max(path.stat().st_mtime, path.stat().st_ctime)
    waiting = look(folder, waiting.glance, written + 1)
    assert waiting.reason == "files are being written"
    assert look(folder, waiting.glance, written + 4).changed == ("sources",)


def test_a_clock_that_is_ahead_delays_a_change_by_one_look_only(folder):
    before = look(folder, Glance()).glance
    path = folder / "runs/second.jsonl"
    write_rows(path, rows(2, start=90))
    os.utime(path, (LATER + 1000, LATER + 1000))
    waiting = look(folder, before)
    assert waiting.reason == "files are being written"
    assert look(folder, waiting.glance).changed == ("sources",)


def test_going_back_to_what_was_is_a_change_of_its_own(folder):
    first = look(folder, Glance())
    path = folder / "contracts/one.yaml"
    path.write_text(CONTRACT + "min_score: 0.5\n", encoding="utf-8")
    second = look(folder, first.glance)
    path.write_text(CONTRACT, encoding="utf-8")
    third = look(folder, second.glance)
    assert third.changed == ("judgments",)
    assert third.glance.judgments == first.glance.judgments
    assert third.glance.changes == 3


def test_a_cursor_comes_back_as_it_was_and_one_of_another_form_is_a_blank_one(folder):
    glance = look(folder, Glance()).glance
    assert Glance.read(glance.write()) == glance
    assert Glance.read(None) == Glance.read("no json") == Glance.read('{"x": 1}') == Glance()


def test_a_source_that_is_not_there_yet_is_no_error(folder):
    shutil.rmtree(folder / "runs")
    found = look(folder, Glance())
    assert found.changed == ("judgments", "sources")
