"""Verifying receipts, exports and warehouses: what is whole, and what no change gets past."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import jsonschema
import pytest

from tests.project_helpers import CONTRACT, PROJECT, make_project, rebuild
from toolscore_pipeline import receipts
from toolscore_pipeline.cli import main
from toolscore_pipeline.errors import UsageError
from toolscore_pipeline.project import Project, load_project
from toolscore_pipeline.verify import (
    Verification,
    verify,
    verify_export,
    verify_receipt_file,
    verify_seal,
)

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads(
    (ROOT / "toolscore_pipeline/schemas/verify-v1.schema.json").read_text(encoding="utf-8")
)
EXPORT = "exports: [{name: records, format: aef, path: out/records.jsonl}]\n"


def make(folder: Path, count: int) -> Path:
    make_project(folder, count)
    (folder / "toolscore.yaml").write_text(PROJECT + EXPORT, encoding="utf-8")
    rebuild(folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("built") / "p", 8)


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A built project of its own for each test."""
    return Path(shutil.copytree(built, tmp_path / "p"))


def broken(found: Verification) -> list[str]:
    jsonschema.validate(found.to_dict(), SCHEMA)
    return [str(link) for link in found.broken]


def flipped(path: Path, position: int, original: bytes) -> None:
    """Change one bit of one byte of a file."""
    data = bytearray(original)
    data[position] ^= 1 << (position % 7)
    path.write_bytes(bytes(data))


# --- receipts -------------------------------------------------------------------------------------


@pytest.fixture
def receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("gold.json", "contract.json", "trace.json"):
        shutil.copy(ROOT / "examples/contracts" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert (
        main(["eval", "gold.json", "trace.json", "--receipt", "run.receipt.json", "--quiet"]) == 0
    )
    return tmp_path / "run.receipt.json"


def test_a_receipt_that_checks_out_is_whole_and_scores_the_same_again(receipt):
    found = verify(receipt, regrade=True)
    assert (broken(found), found.unchecked) == ([], [])
    assert found.to_dict()["checked"] == {
        "source": 2, "evidence": 1, "judgment": 2, "grade": 1, "receipt": 1, "file": 1,
    }  # fmt: skip


def test_every_single_byte_change_of_a_receipt_is_caught(receipt):
    original = receipt.read_bytes()
    for position in range(len(original)):
        flipped(receipt, position, original)
        assert not verify_receipt_file(receipt).is_whole, position
    receipt.write_bytes(original)
    assert verify_receipt_file(receipt).is_whole


@pytest.mark.parametrize("name", ["gold.json", "trace.json"])
def test_every_single_byte_change_of_an_input_is_caught(receipt, name):
    path = receipt.parent / name
    original = path.read_bytes()
    role = name.removesuffix(".json")
    for position in range(len(original)):
        flipped(path, position, original)
        found = verify_receipt_file(receipt)
        assert [link.subject for link in found.broken] == [role], position


@pytest.mark.parametrize(
    ("name", "value", "step"),
    [
        ("score", 0.5, "grade"),
        ("record_sha256", "0" * 64, "grade"),
        ("evidence_sha256", "0" * 64, "evidence"),
        ("judgment_sha256", "0" * 64, "judgment"),
    ],
)
def test_a_receipt_forged_with_hashes_of_its_own_is_caught_by_what_it_claims(
    receipt, name, value, step
):
    forged = receipts.load_receipt(receipt)
    result = forged["result"]
    result[name] = value
    result["grade_sha256"] = receipts.grade_sha256(
        result["evidence_sha256"], result["judgment_sha256"], result["grader_version"]
    )
    del forged["receipt_sha256"]
    forged["receipt_sha256"] = receipts.json_sha256(forged)
    receipt.write_bytes(receipts.encode_receipt(forged))
    assert {link.step for link in verify(receipt, regrade=True).broken} >= {step}


def test_a_grade_by_other_formulas_is_not_taken_for_checked(receipt, monkeypatch):
    monkeypatch.setattr("toolscore_pipeline.plan.grader_version", lambda: "another")
    found = verify(receipt, regrade=True)
    assert found.is_whole
    assert [str(link) for link in found.unchecked] == [
        "grade run.receipt.json: it was made by other formulas than these"
    ]


# --- exports --------------------------------------------------------------------------------------


def test_an_export_is_whole_from_its_sources_to_its_manifest(project):
    found = verify(project / "out/records.jsonl", regrade=True)
    assert (broken(found), found.unchecked) == ([], [])
    checked = found.to_dict()["checked"]
    # One file; eight runs, each with evidence, a record, its grade's hash and its grade again.
    assert (checked["source"], checked["evidence"], checked["record"]) == (1, 8, 8)
    assert checked["grade"] == 16
    by_manifest = verify(project / "out/records.jsonl.manifest.json", regrade=True)
    assert by_manifest.to_dict()["checked"] == checked
    assert verify(project / "out", regrade=True).to_dict()["checked"] == checked


def test_every_single_byte_change_of_records_or_manifest_is_caught(tmp_path):
    folder = make(tmp_path / "p", 1)
    for name in ("records.jsonl", "records.jsonl.manifest.json"):
        path = folder / "out" / name
        original = path.read_bytes()
        for position in range(len(original)):
            flipped(path, position, original)
            assert not verify_seal(path).is_whole, (name, position)
        for position in random.Random(3).sample(range(len(original)), 25):
            flipped(path, position, original)
            assert not verify_export(path).is_whole, (name, position)
        path.write_bytes(original)
    assert verify(folder / "out/records.jsonl").is_whole


def reordered(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:-1], "its records are not those of"),
        (lambda lines: [*lines, lines[0]], "the same record stands in line 1"),
        (reordered, "it is not the file that"),
        (lambda lines: [*lines[:-1], lines[-1][:-20]], "ends in the middle of a line"),
    ],
    ids=["dropped", "duplicated", "reordered", "truncated"],
)
def test_a_line_that_is_dropped_duplicated_moved_or_cut_is_caught(
    project: Path, change: Callable[[list[bytes]], list[bytes]], words: str
) -> None:
    path = project / "out/records.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert any(words in sentence for sentence in broken(verify(path)))


def test_texts_that_are_no_unicode_verify_as_they_were_written(tmp_path):
    folder = make(tmp_path / "p", 2)
    path = folder / "runs/first.jsonl"
    path.write_bytes(path.read_bytes().replace(b"It is done", b"It is \\ud800 done"))
    rebuild(folder)
    records = folder / "out/records.jsonl"
    assert rb"\ud800" in records.read_bytes()
    assert broken(verify(records, regrade=True)) == []
    flipped(records, records.read_bytes().index(rb"\ud800") + 5, records.read_bytes())
    assert not verify(records).is_whole


def test_a_record_forged_with_a_hash_of_its_own_is_caught_by_its_source(project):
    from toolscore_pipeline.export import write_export
    from toolscore_pipeline.export.records import finished

    path = project / "out/records.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["cost"]["usd"] = 0.5
    lines[1]["evaluation"]["score"] = 0.123
    write_export(path, [finished(line) for line in lines], [])
    told = broken(verify(path, regrade=True))
    assert any("the source says otherwise of cost" in sentence for sentence in told)
    assert any("graded again it has another score" in sentence for sentence in told)
    assert len(told) == 2


@pytest.mark.parametrize("name", ["runs/first.jsonl", "out/records.jsonl"])
def test_random_bytes_and_lines_of_larger_files_are_caught(project, name):
    path = project / name
    original = path.read_bytes()
    lines = original.splitlines(keepends=True)
    rng = random.Random(5)
    others = [
        b"".join(lines[:-1]),
        original[:-1],
        b"".join([*lines, lines[-1]]),
        b"".join(reordered(lines)),
        original + b"\n",
        b"",
    ]
    for position in rng.sample(range(len(original)), 8):
        data = bytearray(original)
        data[position] ^= 1 << rng.randrange(8)
        others.append(bytes(data))
    export = project / "out/records.jsonl"
    for data in others:
        path.write_bytes(data)
        found = verify_seal(export) if path == export else verify_export(export, opened(project))
        assert not found.is_whole
        if path != export:
            assert [(link.step, link.subject) for link in found.broken] == [("source", name)]


def opened(folder: Path) -> Project:
    return load_project(folder / "toolscore.yaml")


def test_a_source_that_changed_or_is_gone_is_named(project):
    source = project / "runs/first.jsonl"
    original = source.read_bytes()
    flipped(source, 40, original)
    told = broken(verify(project / "out/records.jsonl"))
    assert told == ["source runs/first.jsonl: its bytes are others than recorded"]
    source.unlink()
    told = broken(verify(project / "out/records.jsonl"))
    assert told == ["source runs/first.jsonl: the file is not here"]


def test_without_a_project_what_needs_one_is_unchecked_and_not_whole_by_default(
    project, tmp_path_factory
):
    away = tmp_path_factory.mktemp("away")
    for name in ("records.jsonl", "records.jsonl.manifest.json"):
        shutil.copy(project / "out" / name, away / name)
    found = verify(away / "records.jsonl", regrade=True)
    assert found.is_whole
    assert {link.step for link in found.unchecked} == {"source", "judgment"}


# --- warehouses -----------------------------------------------------------------------------------


def test_a_warehouse_is_whole_from_its_sources_to_its_exports(project):
    found = verify(project, regrade=True)
    assert (broken(found), found.unchecked) == ([], [])
    assert set(found.checked) >= {
        "source", "evidence", "judgment", "grade", "edition", "mart", "published", "record",
    }  # fmt: skip


# Changes that do not hide each other, and the link that each breaks.
CHANGES = [
    ("update grades.grades set score = 0.5 where rowid = 0", "grade", "other grades"),
    ("insert into grades.checks from grades.checks limit 1", "grade", "other checks"),
    ("update evidence.runs set cost_usd = 1 where rowid = 3", "evidence", "says otherwise"),
    ("delete from evidence.calls where rowid = 0", "evidence", "some of its calls are missing"),
    (
        "update judgment.pattern_args set lenient_key = 'x' where rowid = 0",
        "judgment",
        "rows are not what they are made from",
    ),
    ("update marts.variant_stats set run_count = 1", "mart", "not what its query gives"),
    ("update receipts.editions set grader_version = 'x'", "edition", "otherwise than it says"),
    ("delete from raw.documents", "source", "it was not read yet"),
]


def test_every_row_that_was_changed_is_named_with_its_link(project):
    with duckdb.connect(str(project / "warehouse.duckdb")) as connection:
        for statement, _, _ in CHANGES:
            connection.execute(statement)
    found = verify(project / "warehouse.duckdb", regrade=True)
    for _, step, words in CHANGES:
        links = [*found.broken, *found.unchecked]
        assert any(link.step == step and words in link.reason for link in links), (step, words)


def test_a_warehouse_alone_is_held_against_its_published_copy(project, tmp_path_factory):
    away = tmp_path_factory.mktemp("away")
    for name in ("warehouse.duckdb", "warehouse.published.duckdb"):
        shutil.copy(project / name, away / name)
    found = verify(away / "warehouse.duckdb")
    assert broken(found) == []
    assert [str(link) for link in found.unchecked] == [
        "source warehouse.duckdb: no project says where its sources are"
    ]
    with duckdb.connect(str(away / "warehouse.duckdb")) as connection:
        connection.execute("update grades.metrics set step_match_rate = 0.125 where rowid = 0")
    told = broken(verify(away / "warehouse.duckdb"))
    assert told == ["published grades.metrics: the published copy has other rows"]


def test_a_view_that_tells_otherwise_than_its_model_is_named(project):
    with duckdb.connect(str(project / "warehouse.duckdb")) as connection:
        names = [row[0] for row in connection.execute("describe receipts.receipts").fetchall()]
        kept = ", ".join("1.0 as score" if name == "score" else name for name in names)
        (query,) = connection.execute(
            "select sql from duckdb_views() where view_name = 'receipts'"
        ).fetchall()[0]
        body = query.split(" AS ", 1)[1].rstrip(";")
        connection.execute(
            f"create or replace view receipts.receipts as select {kept} from ({body})"
        )
        connection.execute("create or replace view grades.pending as from grades.metrics")
    told = broken(verify(project))
    assert "mart receipts.receipts: the view is not that of its model" in told
    assert "mart grades.pending: the view is not that of its model" in told


def test_what_cannot_be_made_again_is_broken_and_no_error(project):
    with duckdb.connect(str(project / "warehouse.duckdb")) as connection:
        connection.execute("update settings.comparisons set k = -3, objectives_json = '[secret'")
        connection.execute("update judgment.judgments set judgment_json = '{secret'")
    told = broken(verify(project, regrade=True))
    assert any("it cannot be made again from what is stored" in sentence for sentence in told)
    assert not any("secret" in sentence for sentence in told)


def test_a_run_that_is_gone_from_the_warehouse_is_missed(project):
    with duckdb.connect(str(project / "warehouse.duckdb")) as connection:
        connection.execute("delete from evidence.runs where rowid = 0")
    told = broken(verify(project / "warehouse.duckdb"))
    assert "evidence 1 runs: they are in the sources and not stored" in told


def test_a_contract_or_source_that_changed_since_is_named(project):
    (project / "contracts/one.yaml").write_text(CONTRACT + "min_score: 0.5\n", encoding="utf-8")
    flipped(project / "runs/first.jsonl", 30, (project / "runs/first.jsonl").read_bytes())
    told = broken(verify(project))
    assert "judgment contracts/one.yaml: the contract changed since it was read" in told
    assert "source runs/first.jsonl: its bytes are others than those that were read" in told


def test_the_command_exits_with_1_for_a_broken_link_and_writes_the_report(
    project, capsys, monkeypatch
):
    monkeypatch.chdir(project)
    assert main(["verify", "out/records.jsonl"]) == 0
    assert "every link checked is whole" in capsys.readouterr().out
    (project / "runs/first.jsonl").unlink()
    assert main(["verify", "out/records.jsonl", "--json", "v.json"]) == 1
    report = json.loads((project / "v.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    assert [link["step"] for link in report["broken"]] == ["source"]
    assert "broken: source runs/first.jsonl: the file is not here" in capsys.readouterr().out
    assert main(["verify", "nowhere.json"]) == 2
    with pytest.raises(UsageError, match="expected a receipt"):
        verify(project / "runs")


# --- why ------------------------------------------------------------------------------------------


def test_why_tells_the_chain_of_a_run_and_its_terms_add_up(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    assert main(["why", "runs/first.jsonl:3", "--json", "w.json", "--receipt", "r.json"]) == 0
    told = capsys.readouterr().out
    chain = json.loads((project / "w.json").read_text(encoding="utf-8"))
    assert sum(term["adds"] for term in chain["grade"]["terms"]) == pytest.approx(
        chain["grade"]["score"], abs=1e-12
    )
    for name in ("run", "source", "evidence", "judgment", "grader", "grade", "expected", "check"):
        assert any(line.startswith(name) for line in told.splitlines()), name
    assert chain["source"]["locator"] == "line 3"
    assert main(["why", chain["run"]["run_id"][:10], "--quiet"]) == 0
    assert main(["why", chain["grade"]["sha256"][:10], "--quiet"]) == 0
    assert verify(project / "r.json", regrade=True).is_whole
    assert main(["why", "runs/first.jsonl"]) == 2
    assert "names 8 runs; say which" in capsys.readouterr().err
    assert main(["why", "ffff"]) == 2
    assert "no run is named 'ffff'" in capsys.readouterr().err
