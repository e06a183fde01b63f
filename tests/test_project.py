"""The project file: what is wrong with it is told with its place before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project_helpers import make_project
from toolscore_pipeline.errors import ContractError
from toolscore_pipeline.project import load_project


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sources: [{name: a, path: x, format: jsn}]", "$.sources[0]: unknown trace format 'jsn'"),
        ("sources: [{name: a, path: x, task: '('}]", "$.sources[0]: task pattern '(' is no"),
        ("sources: [{name: a, path: x, variant: '{x}'}]", "$.sources[0]: variant pattern '{x}'"),
        (
            "comparisons: [{name: a, objectives: [cost, cots]}]",
            "$.comparisons[0].objectives[1]: unknown metric 'cots'; did you mean 'cost'?",
        ),
        ("comparisons: [{name: a, alpha: 0}]", "$.comparisons[0].alpha: expected a number between"),
        ("comparisons: [{name: a}, {name: a}]", "$.comparisons: two comparisons are named 'a'"),
        ("exports: [{path: x}, {path: y}]", "$.exports: two exports are named 'aef'"),
        ("exports: [{name: 'a b', path: x}]", "$.exports[0].name: expected a name of letters"),
        ("regrade: {cron: '99 5 * * *'}", "$.regrade.cron: expected the five fields of a cron"),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "toolscore.yaml"
    file.write_text(f"warehouse: w.duckdb\n{text}\n", encoding="utf-8")
    with pytest.raises(ContractError) as caught:
        load_project(file)
    assert str(caught.value).startswith(f"{file}:2: at {sentence}")


@pytest.mark.parametrize(
    ("cron", "is_one"),
    [
        ("0 5 * * *", True),
        ("*/15 8-18/2 1,15 JAN-mar mon-fri", True),
        ("59 23 31 12 7", True),
        ("60 * * * *", False),
        ("* 24 * * *", False),
        ("* * 0 * *", False),
        ("* * * 13 *", False),
        ("* * * * mom", False),
        ("*/0 * * * *", False),
        ("5-1 * * * *", False),
        ("1,, * * * *", False),
        ("* * * *", False),
        ("² * * * *", False),
    ],
)
def test_a_schedule_is_what_dagster_takes(tmp_path: Path, cron: str, is_one: bool) -> None:
    from dagster._utils.schedules import is_valid_cron_schedule

    file = tmp_path / "toolscore.yaml"
    file.write_text(f"regrade: {{cron: '{cron}'}}\n", encoding="utf-8")
    if is_one:
        assert is_valid_cron_schedule(cron)
        assert load_project(file).regrade_cron == cron
    else:
        with pytest.raises(ContractError, match="a cron schedule"):
            load_project(file)


def test_contracts_and_gold_lists_say_which_runs_they_are_for(tmp_path: Path) -> None:
    (tmp_path / "toolscore.yaml").write_text("contracts: [gold.json, both.yaml, plain.json]\n")
    (tmp_path / "gold.json").write_text('{"calls": [{"tool": "a"}], "task": "x", "variant": "v"}')
    (tmp_path / "both.yaml").write_text("task: [y, 'z*']\nsource: s\nrequired: [{tool: a}]\n")
    (tmp_path / "plain.json").write_text('[{"tool": "a"}]')
    found = [
        (binding.task, binding.task_pattern is not None, binding.variant, binding.source)
        for binding in load_project(tmp_path / "toolscore.yaml").bindings()
    ]
    assert found == [
        ("x", False, "v", None),
        ("y", False, None, "s"),
        (None, True, None, "s"),
        ("plain", False, None, None),
    ]


def test_a_contract_keeps_its_own_passing_score(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "a[1]")  # the name of the folder is no pattern
    settings = folder / "toolscore.yaml"
    settings.write_text(settings.read_text() + "grading: {min_score: 0.5}\n", encoding="utf-8")
    one = folder / "contracts/one.yaml"
    one.write_text(one.read_text() + "min_score: 0.7\n", encoding="utf-8")
    scores = {
        binding.task: binding.judgment.min_score for binding in load_project(settings).bindings()
    }
    assert scores == {"one": 0.7, "two": 0.5}
