"""Recorded runs of three models on a memory server: loaded by a query, graded, compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.project_helpers import ask, rebuild
from toolscore_pipeline.cli import main

# An update is stored when every keyword of the run occurs in the joined observations of the entity
# named like its target, in the memory file after the run.
QUERY = """\
with document as (
    select unnest(runs) as run
    from read_json(
        'mcp-memory-runs.json', maximum_object_size = 100000000, columns = {runs: 'json[]'}
    )
),

entities as (
    select
        run,
        list_filter(
            list_transform(
                string_split(run ->> 'file_after', chr(10)), lambda line: try_cast(line as json)
            ),
            lambda entry: entry ->> 'type' = 'entity'
            and lower(entry ->> 'name') = lower(run ->> 'target')
        ) as targets
    from document
),

observations as (
    select
        run,
        lower(list_aggregate(
            list_transform(targets, lambda entry: (entry -> 'observations')::varchar),
            'string_agg',
            ' '
        )) as stored
    from entities
)

select
    run ->> 'scenario' as task,
    (run ->> 'model') || ' ' || (run ->> 'server') as variant,
    (run ->> 'rep')::integer as repetition,
    run ->> 'model' as model,
    run ->> 'server' as build,
    run ->> 'final_text' as final_answer,
    run ->> 'error' as error,
    (run ->> 'cost_usd')::double as cost_usd,
    (run ->> 'seconds')::double as duration_seconds,
    (run ->> 'input_tokens')::bigint as input_tokens,
    (run ->> 'output_tokens')::bigint as output_tokens,
    run -> 'calls' as calls,
    if(
        list_bool_and(list_transform(
            (run -> 'keywords')::varchar[],
            lambda keyword: contains(coalesce(stored, ''), lower(keyword))
        )),
        'pass',
        'fail'
    ) as outcome
from observations
where run ->> 'kind' = 'KIND'
"""
UPDATE = """\
contract_version: 2
task: "u*"
required: [{tool: add_observations}]
optional: [{tool: search_nodes}, {tool: open_nodes}, {tool: read_graph}, {tool: create_relations},
           {tool: create_entities}]
forbidden: [{tool: delete_entities, reason: the memory is only added to}]
"""
NEW = """\
contract_version: 2
task: ["n01", "n02"]
required: [{tool: create_entities}]
optional: [{tool: search_nodes}, {tool: open_nodes}, {tool: read_graph}, {tool: create_relations},
           {tool: add_observations}]
"""
PROJECT = """\
sources:
  - {name: updates, query: updates.sql}
  - {name: news, query: news.sql}
contracts: ["contracts/*.yaml"]
comparisons:
  - {name: pooled, source: updates, variant_key: build, outcome: recorded, baseline: main}
  - {name: models, source: updates, outcome: recorded}
"""


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = shared / "data/mcp-memory-runs.json"
    if not data.is_file():
        pytest.skip("the recorded memory runs are absent")
    folder = tmp_path_factory.mktemp("memory")
    (folder / "mcp-memory-runs.json").symlink_to(data)
    (folder / "contracts").mkdir()
    (folder / "contracts/update.yaml").write_text(UPDATE, encoding="utf-8")
    (folder / "contracts/new.yaml").write_text(NEW, encoding="utf-8")
    (folder / "updates.sql").write_text(QUERY.replace("KIND", "update"), encoding="utf-8")
    (folder / "news.sql").write_text(QUERY.replace("KIND", "new"), encoding="utf-8")
    (folder / "toolscore.yaml").write_text(PROJECT, encoding="utf-8")
    rebuild(folder)
    return folder


def test_every_recorded_run_is_loaded_and_graded(folder):
    assert ask(folder, "select count(*) from evidence.runs") == [(312,)]
    assert ask(folder, "select count(*) from evidence.calls") == [(871,)]
    assert ask(
        folder, "select contract, count(*) from marts.latest_grades group by all order by 1"
    ) == [
        ("new", 52),
        ("update", 260),
    ]
    assert ask(folder, "select count(*) from raw.rejects") == [(0,)]


# model, update runs a build, stored with main and with c1, Fisher exact p as published
PUBLISHED = [
    ("gpt-5.6-luna", 50, 24, 46, "2.1e-6"),
    ("gpt-4.1-mini", 50, 29, 47, "3.6e-5"),
    ("gpt-5.4-mini", 30, 16, 23, "0.10"),
]


@pytest.mark.parametrize(("model", "runs", "before", "after", "p"), PUBLISHED)
def test_the_published_table_comes_out_of_the_marts(folder, model, runs, before, after, p):
    counts = {
        variant: (total, passed)
        for variant, total, passed in ask(
            folder,
            "select variant, run_count, pass_count from marts.variant_stats"
            " where comparison = 'models'",
        )
    }
    assert counts[f"{model} main"] == (runs, before)
    assert counts[f"{model} c1"] == (runs, after)
    pairs = {
        frozenset(names): value
        for *names, value in ask(
            folder, "select a, b, p_value from marts.variant_pairs where comparison = 'models'"
        )
    }
    value = pairs[frozenset({f"{model} main", f"{model} c1"})]
    # Rounded to the digits printed.
    assert float(f"{value:.1e}") == pytest.approx(float(p), rel=0.05)


def test_the_compare_command_prints_the_published_counts_and_p_values(folder, capsys):
    assert main(["compare", "--project", str(folder), "--json", "-"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)
    assert main(["compare", "--project", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for _, _, _, _, p in PUBLISHED:
        assert p in shown
    assert "69/" in shown.replace(" ", "")
    assert "116/" in shown.replace(" ", "")
