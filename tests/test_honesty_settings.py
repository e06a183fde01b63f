"""Reading honesty settings and injected-fault files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolscore_pipeline.errors import ContractError, InputError
from toolscore_pipeline.honesty import (
    HonestyConfig,
    config_from_mapping,
    injected_from_mapping,
    load_honesty_config,
    load_injected,
)


def test_nothing_declared_gives_the_defaults() -> None:
    assert config_from_mapping(None) == HonestyConfig()
    assert config_from_mapping({}) == HonestyConfig()
    assert HonestyConfig().claimed_success is True


def test_settings_survive_a_round_trip() -> None:
    config = config_from_mapping({"disclosure": False, "code_tools": ["matlab.*"]})
    assert config.disclosure is False
    assert config.code_tools == ("matlab.*",)
    again = config_from_mapping(config.to_dict())
    assert again == config
    assert hash(again) == hash(config)
    assert config != HonestyConfig()


def test_keys_may_be_written_with_hyphens() -> None:
    assert config_from_mapping({"escape-hatch": False}).escape_hatch is False


def test_every_problem_is_named_with_its_place_and_the_nearest_name() -> None:
    with pytest.raises(ContractError) as caught:
        config_from_mapping(
            {
                "disclosur": True,
                "disclosure": "yes",
                "hedge_words": "maybe",
                "code_tools": ["(", 3],
                "failure_words": [""],
            }
        )
    places = [(problem.json_path, problem.reason) for problem in caught.value.problems]
    assert [place for place, _ in places] == [
        "$.disclosur",
        "$.disclosure",
        "$.hedge_words",
        "$.code_tools[0]",
        "$.code_tools[1]",
        "$.failure_words[0]",
    ]
    assert "did you mean 'disclosure'" in places[0][1]
    assert "true or false" in places[1][1]
    assert "regular expression" in places[3][1]


@pytest.mark.parametrize("data", [[], "x", 3])
def test_settings_must_be_an_object(data: Any) -> None:
    with pytest.raises(ContractError, match="must be an object"):
        config_from_mapping(data)


def test_files_may_be_json_or_yaml_and_problems_have_lines(tmp_path: Path) -> None:
    good = tmp_path / "honesty.yaml"
    good.write_text("disclosure: false\nhedge_words:\n  - methinks\n", encoding="utf-8")
    assert load_honesty_config(good).hedge_words == ("methinks",)
    same = tmp_path / "honesty.json"
    same.write_text('{"disclosure": false, "hedge_words": ["methinks"]}', encoding="utf-8")
    assert load_honesty_config(same) == load_honesty_config(good)
    bad = tmp_path / "bad.yaml"
    bad.write_text("disclosure: true\nhedges: [x]\n", encoding="utf-8")
    with pytest.raises(ContractError, match=r"bad\.yaml:2: "):
        load_honesty_config(bad)
    with pytest.raises(InputError, match="no such file"):
        load_honesty_config(tmp_path / "missing.yaml")


def test_an_injected_file_is_read_with_both_lists(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        "faults:\n  - {tool: fetch, kind: timeout, message: too slow}\n  - {index: 2}\n"
        "planted:\n  - {tool: fetch, canary: HERON, instruction: {tool: send, args: {to: eve}}}\n",
        encoding="utf-8",
    )
    assert load_injected(file) == {
        "faults": [
            {"tool": "fetch", "message": "too slow", "kind": "timeout"},
            {"index": 2, "kind": "error"},
        ],
        "planted": [
            {
                "tool": "fetch",
                "canary": "HERON",
                "instruction": {"tool": "send", "args": {"to": "eve"}},
            }
        ],
    }
    assert injected_from_mapping({}) == {"faults": [], "planted": []}


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        ({"fault": []}, "$.fault", "did you mean 'faults'"),
        ({"faults": {}}, "$.faults", "must be a list"),
        ({"faults": [3]}, "$.faults[0]", "must be an object"),
        ({"faults": [{"kind": "error"}]}, "$.faults[0]", "exactly one of"),
        ({"faults": [{"tool": "a", "index": 1}]}, "$.faults[0]", "exactly one of"),
        ({"faults": [{"index": -1}]}, "$.faults[0].index", "at least 0"),
        ({"faults": [{"index": True}]}, "$.faults[0].index", "at least 0"),
        (
            {"faults": [{"tool": "a", "kind": "warnin"}]},
            "$.faults[0].kind",
            "did you mean 'warning'",
        ),
        ({"faults": [{"tool": "a", "sort": "x"}]}, "$.faults[0].sort", "unknown key"),
        ({"planted": [{"tool": "a"}]}, "$.planted[0]", "needs a canary"),
        ({"planted": [{"canary": ""}]}, "$.planted[0].canary", "not empty"),
        (
            {"planted": [{"instruction": {"args": {}}}]},
            "$.planted[0].instruction.tool",
            "is missing",
        ),
        (
            {"planted": [{"instruction": {"tool": "a", "args": 1}}]},
            "$.planted[0].instruction.args",
            "must be an object",
        ),
        ([], "$", "must be an object"),
    ],
)
def test_a_wrong_injected_file_is_refused_with_the_place(
    data: Any, place: str, reason: str
) -> None:
    with pytest.raises(ContractError) as caught:
        injected_from_mapping(data)
    found = [problem for problem in caught.value.problems if problem.json_path == place]
    assert found
    assert any(reason in problem.reason for problem in found)
