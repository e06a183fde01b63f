"""The plan: what a model file says of itself, and the order inferred from the queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolscore_pipeline.plan import (
    LAYERS,
    Plan,
    PlanError,
    grader_version,
    load_audits,
    load_plan,
    parse_dependencies,
    read_model,
    sql_hash,
)

MODEL = """\
-- Counts the runs.
-- kind: table
-- grain: one row
-- null: never
with runs as (
    select run_id from evidence.runs  -- not from raw.documents
)

select
    count(*)::bigint as run_count,  -- how many
    'from raw.rejects'::varchar as note,  -- a text
from runs
"""


def write(folder: Path, layer: str, name: str, text: str) -> Path:
    path = folder / layer / f"{name}.sql"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_model_file_tells_its_sentence_columns_and_inputs(tmp_path):
    model = read_model(write(tmp_path, "marts", "counts", MODEL))
    assert (model.full_name, model.kind, model.description) == (
        "marts.counts",
        "table",
        "Counts the runs.",
    )
    assert [(c.name, c.type, c.comment) for c in model.columns] == [
        ("run_count", "bigint", "how many"),
        ("note", "varchar", "a text"),
    ]
    assert model.depends_on == ("evidence.runs",)


def test_the_quick_reading_of_inputs_agrees_with_the_parser_on_every_file():
    for model in load_plan():
        if model.path is not None:
            named = {
                name
                for name in model.depends_on
                if f"{name}," in f"{model.header.get('after', '')},"
            }
            assert set(parse_dependencies(model.query)) == set(model.depends_on) - named, (
                model.full_name
            )
    for audit in load_audits():
        assert parse_dependencies(audit.query) == audit.depends_on, audit.name


def test_every_model_comes_after_what_it_reads():
    seen: set[str] = set()
    plan = load_plan()
    for model in plan:
        assert {name for name in model.depends_on if name in plan} <= seen, model.full_name
        seen.add(model.full_name)


def test_data_flows_one_way_through_the_layers():
    order = {layer: position for position, layer in enumerate(LAYERS)}
    for model in load_plan():
        for name in model.depends_on:
            layer = name.split(".")[0]
            if layer in order:
                assert order[layer] <= order[model.layer], f"{model.full_name} reads {name}"


def test_a_comment_does_not_change_the_code_version_and_a_formula_does():
    assert sql_hash(MODEL) == sql_hash(MODEL.replace("how many", "the number"))
    assert sql_hash(MODEL) != sql_hash(MODEL.replace("count(*)", "count(run_id)"))


def test_the_grader_version_is_stable_within_a_process():
    grader_version.cache_clear()
    first = grader_version()
    grader_version.cache_clear()
    assert grader_version() == first


def test_models_in_a_ring_are_refused_by_name(tmp_path):
    one = read_model(write(tmp_path, "marts", "one", MODEL.replace("evidence.runs", "marts.two")))
    two = read_model(write(tmp_path, "marts", "two", MODEL.replace("evidence.runs", "marts.one")))
    with pytest.raises(PlanError, match=r"marts\.one -> marts\.two -> marts\.one"):
        Plan([one, two])


def test_an_unknown_kind_is_refused_with_the_nearest(tmp_path):
    path = write(tmp_path, "marts", "odd", MODEL.replace("kind: table", "kind: tabel"))
    with pytest.raises(PlanError, match="did you mean 'table'"):
        read_model(path)
