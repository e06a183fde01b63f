"""Reading study specs: what they mean, and what is said when they are wrong."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from toolscore_pipeline.agent import SpecError, load_agent_spec
from toolscore_pipeline.agent.spec import server_in, spec_from_mapping


def write(tmp_path, text, name="study.yaml"):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return path


GOOD: dict[str, Any] = {
    "spec_version": 1,
    "name": "s",
    "server": {"command": "python server.py"},
    "provider": "openai",
    "model": "gpt-6-luna",
    "arms": [{"id": "a"}],
    "tasks": [{"id": "t", "prompt": "Do it.", "expected": [{"tool": "x"}]}],
}


def changed(**changes):
    return spec_from_mapping({**GOOD, **changes})


def problems(**changes):
    """What is said about a spec with these changes: place and sentence of each problem."""
    with pytest.raises(SpecError) as caught:
        changed(**changes)
    return [(problem.json_path, problem.reason) for problem in caught.value.problems]


def test_the_order_of_the_offline_study_is_the_published_one(root):
    spec = load_agent_spec(root / "examples" / "agent_harness" / "offline.yaml")
    ids = [cell.id for cell in spec.cells()]
    assert ids[:3] == ["clean-up::careful::2", "clean-up::sloppy::3", "save-a-note::sloppy::1"]
    assert len(set(ids)) == 12
    assert [cell.order for cell in spec.cells()] == list(range(1, 13))


def test_the_paid_example_reads_as_it_is_documented(root):
    spec = load_agent_spec(root / "examples" / "agent_harness" / "memory-anthropic.yaml")
    assert [arm.model for arm in spec.arms] == ["claude-haiku-5-5", "claude-sonnet-5-5"]
    assert (spec.max_usd, spec.repetitions, spec.limits.max_turns) == (2.0, 5, 8)
    assert spec.server.command[:2] == ("npx", "-y")
    assert len(spec.cells()) == 10


def test_arms_inherit_what_they_do_not_say_themselves():
    spec = changed(
        system="Be brief.",
        max_output_tokens=99,
        extra={"temperature": 0},
        pricing={"input_per_million": 1, "output_per_million": 2},
        arms=[{"id": "a"}, {"id": "b", "model": "m", "system": "Be long.", "extra": {}}],
    )
    first, second = spec.arms
    assert (first.provider, first.model, first.system) == ("openai", "gpt-6-luna", "Be brief.")
    assert (first.max_output_tokens, first.extra) == (99, {"temperature": 0})
    assert (second.model, second.system, second.extra) == ("m", "Be long.", {})
    assert second.price is not None
    assert (second.price.input_per_million, second.price.output_per_million) == (1.0, 2.0)


def test_a_spec_may_be_json(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(GOOD))
    assert load_agent_spec(path).name == "s"


def test_every_problem_is_named_with_its_line_and_the_nearest_key(tmp_path):
    path = write(
        tmp_path,
        """\
        spec_version: 1
        name: s
        server: {command: python server.py}
        provider: opnai
        model: m
        repetitons: 3
        arms:
          - {id: a}
          - {id: a, max_output_tokens: 0}
        tasks:
          - id: t
            prompt: Do it.
            expected: [{tool: x, arguments: {a: 1}}]
            min_score: 2
        """,
    )
    with pytest.raises(SpecError) as caught:
        load_agent_spec(path)
    lines = str(caught.value).splitlines()
    assert (
        f"{path}:6: at $.repetitons: unknown key 'repetitons'; did you mean 'repetitions'?" in lines
    )
    assert any(
        line.startswith(f"{path}:4: at $.provider: unknown provider 'opnai'") for line in lines
    )
    assert f"{path}:9: at $.arms[1].id: the id 'a' is given twice" in lines
    assert any(line.startswith(f"{path}:9: at $.arms[1].max_output_tokens: ") for line in lines)
    assert any(
        line.startswith(f"{path}:13: at $.tasks[0].expected[0].arguments: ") for line in lines
    )
    assert f"{path}:14: at $.tasks[0].min_score: expected a number from 0 to 1, got 2" in lines


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"repetitions": 10**9}, "$.repetitions", "expected at most 100,000"),
        ({"spec_version": 2}, "$.spec_version", "expected spec_version 1, got 2"),
        ({"server": {}}, "$.server", "exactly one of"),
        ({"server": {"command": "x", "url": "http://h"}}, "$.server", "exactly one of"),
        ({"server": {"url": "ftp://h"}}, "$.server.url", "http://"),
        ({"server": {"command": "x", "protocol": "new"}}, "$.server.protocol", "auto, legacy"),
        ({"server": {"command": 'x "y'}}, "$.server.command", "not a command"),
        ({"server": {"command": "x", "timeout": 0}}, "$.server.timeout", "above 0"),
        ({"arms": []}, "$.arms", "a list with items"),
        ({"arms": [{"id": "a::b"}]}, "$.arms[0].id", "'::'"),
        ({"tasks": [{"id": "t"}]}, "$.tasks[0]", "the key 'prompt' is missing"),
        ({"repetitions": 0}, "$.repetitions", "1 or more"),
        ({"repetitions": True}, "$.repetitions", "a whole number"),
        ({"budget": {"max_usd": -1}}, "$.budget.max_usd", "0 or more"),
        ({"budget": {"max_usd": float("nan")}}, "$.budget.max_usd", "0 or more"),
        ({"budget": {"max_usd": float("inf")}}, "$.budget.max_usd", "0 or more"),
        ({"seed": "x"}, "$.seed", "expected a whole number, got text"),
        ({"server": {}, "budget": {"max_usd": -1}}, "$.budget.max_usd", "0 or more"),
        ({"server": {}, "limits": {"max_calls": -1}}, "$.limits.max_calls", "0 or more"),
        ({"budget": {"max_eur": 1}}, "$.budget.max_eur", "max_usd"),
        ({"limits": {"max_turns": 0}}, "$.limits.max_turns", "1 or more"),
        ({"guard": {"deny": [{"tol": "x"}]}}, "$.guard.deny[0]", "tool"),
        ({"guard": {"python": "no colon"}}, "$.guard.python", "module:function"),
        ({"extra": {"model": "x"}}, "$.extra.model", "the harness sets 'model' itself"),
        ({"pricing": {"input_per_million": 1}}, "$.pricing", "output_per_million"),
        ({"verify": {"command": "x"}}, "$.verify", "'command' needs 'expect'"),
        ({"verify": {"server_version": "/(/"}}, "$.verify.server_version", "regular expression"),
        ({"provider": "scripted"}, "$.tasks[0]", "needs a 'script'"),
        ({"model": None}, "$.arms[0]", "the key 'model' is missing"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(changes, place, words):
    found = problems(**changes)
    assert any(str(where).startswith(place) and words in reason for where, reason in found), found


def test_an_expected_call_with_an_unknown_matcher_is_named_by_its_place():
    tasks = [{"id": "t", "prompt": "p", "expected": [{"tool": "x", "args": {"a": {"$regx": "b"}}}]}]
    ((place, reason),) = problems(tasks=tasks)
    assert place == "$.tasks[0].expected[0].args.a"
    assert "$regex" in reason


def test_scripts_are_lists_for_all_arms_or_by_arm():
    arms = [{"id": "a", "provider": "scripted"}, {"id": "b", "provider": "scripted"}]
    task = {"id": "t", "prompt": "p"}
    spec = changed(arms=arms, tasks=[{**task, "script": [{"text": "Hi"}]}])
    assert spec.tasks[0].script("b") == [{"text": "Hi"}]
    found = problems(arms=arms, tasks=[{**task, "script": {"a": [{"text": "Hi"}], "c": []}}])
    assert ("$.tasks[0]", "the scripted arm 'b' needs a 'script' here") in found
    assert any(place == "$.tasks[0].script.c" for place, _ in found)
    found = problems(arms=arms, tasks=[{**task, "script": [{"txt": "Hi"}, {"calls": [{}]}]}])
    assert [place for place, _ in found] == [
        "$.tasks[0].script[0].txt",
        "$.tasks[0].script[1].calls[0]",
    ]


def test_the_run_folder_is_put_into_command_env_and_cwd(tmp_path):
    spec = changed(
        server={"command": ["x", "{run_dir}/a"], "env": {"F": "{run_dir}/b"}, "cwd": "{run_dir}"}
    )
    server = server_in(spec.server, tmp_path)
    assert server.command == ("x", f"{tmp_path}/a")
    assert server.env == {"F": f"{tmp_path}/b"}
    assert server.cwd == str(tmp_path)


def test_variables_of_the_environment_are_put_in_and_a_missing_one_is_named(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "value-of-it")
    server = {"command": "x", "env": {"TOKEN": "Bearer ${MY_TOKEN}"}}
    assert changed(server=server).server.env == {"TOKEN": "Bearer value-of-it"}
    monkeypatch.delenv("MY_TOKEN")
    ((place, reason),) = problems(server=server)
    assert place == "$.server.env.TOKEN"
    assert "MY_TOKEN is not set" in reason


def test_a_server_may_come_from_a_clients_configuration_file(tmp_path):
    config = {
        "mcpServers": {"notes": {"command": "python", "args": ["-m", "x"], "env": {"A": "1"}}}
    }
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    study = {**GOOD, "server": {"config": "mcp.json", "name": "notes", "timeout": 5}}
    (tmp_path / "study.json").write_text(json.dumps(study))
    server = load_agent_spec(tmp_path / "study.json").server
    assert (server.command, server.env, server.timeout) == (("python", "-m", "x"), {"A": "1"}, 5)
    study["server"]["name"] = "note"
    (tmp_path / "study.json").write_text(json.dumps(study))
    with pytest.raises(SpecError, match="has no server 'note'; did you mean 'notes'"):
        load_agent_spec(tmp_path / "study.json")


def test_a_contract_may_be_inline_or_a_file_and_brings_its_passing_score(tmp_path):
    contract = {"contract_version": 2, "required": [{"tool": "x"}], "min_score": 0.5}
    task = {"id": "t", "prompt": "p", "contract": contract}
    assert changed(tasks=[task]).tasks[0].min_score == 0.5
    (tmp_path / "c.json").write_text(json.dumps(contract))
    study = {**GOOD, "tasks": [{**task, "contract": "c.json", "min_score": 0.7}]}
    (tmp_path / "study.json").write_text(json.dumps(study))
    read = load_agent_spec(tmp_path / "study.json").tasks[0]
    assert (read.min_score, read.is_scored) == (0.7, True)
    found = problems(tasks=[{**task, "expected": []}])
    assert ("$.tasks[0].expected", "'expected' does not go with 'contract'") in found


def test_a_task_that_only_forbids_is_not_scored():
    spec = changed(tasks=[{"id": "t", "prompt": "p", "forbidden": [{"tool": "x"}]}])
    assert (spec.tasks[0].is_scored, spec.tasks[0].min_score) == (False, 0.0)


def test_a_cells_hash_changes_with_what_it_runs_and_not_with_how_it_is_judged():
    def sha(**changes):
        spec = changed(**changes)
        return spec.cell_sha256(spec.cells()[0])

    task = GOOD["tasks"][0]
    assert sha() == sha(seed=3, repetitions=1, budget={"max_usd": 1})
    assert sha() == sha(tasks=[{**task, "expected": [{"tool": "y"}], "min_score": 0.1}])
    for change in (
        {"system": "Be brief."},
        {"model": "m2"},
        {"tasks": [{**task, "prompt": "Do it now."}]},
        {"limits": {"max_turns": 3}},
        {"guard": {"deny": [{"tool": "x"}]}},
        {"server": {"command": "python other.py"}},
    ):
        assert sha(**change) != sha(), change
