"""Receipts and regrading of single traces: what they hold, refuse, and leave the same."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from toolscore_pipeline import api, receipts
from toolscore_pipeline.errors import InputError, ReceiptMismatchError, UsageError
from toolscore_pipeline.hashing import file_digest, json_sha256
from toolscore_pipeline.loading import read_file
from toolscore_pipeline.verify import verify

EXAMPLES = Path(__file__).resolve().parent.parent / "examples/contracts"
MOMENT = datetime(2026, 12, 1, 5, 0, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The seat example in a folder of its own."""
    for name in ("gold.json", "contract.json", "trace.json"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    return tmp_path


def make_receipt(folder: Path, **options: Any) -> Path:
    """Evaluate the trace against the gold list and write the receipt."""
    names = {"gold": folder / "gold.json", "trace": folder / "trace.json"}
    result = api.evaluate_trace(names["gold"], names["trace"], **options)
    receipt = receipts.build_receipt(result, names, created_at=MOMENT)
    return receipts.write_receipt(folder / "receipts/run.receipt.json", receipt)


def test_a_receipt_has_the_hashes_of_inputs_settings_and_result(folder):
    receipt = receipts.load_receipt(make_receipt(folder))
    assert list(receipt) == [
        "kind", "receipt_version", "toolscore_version", "created_at", "inputs", "settings",
        "contract_sha256", "result", "receipt_sha256",
    ]  # fmt: skip
    assert (receipt["kind"], receipt["receipt_version"]) == ("toolscore.evaluation", "1")
    gold = file_digest(folder / "gold.json")
    assert receipt["inputs"]["gold"] == {**gold, "path": "../gold.json"}
    declared = json.loads((folder / "gold.json").read_text(encoding="utf-8"))
    calls = [{"tool": call["tool"], "args": call["args"]} for call in declared]
    assert receipt["contract_sha256"] == json_sha256(calls)
    result = api.evaluate_trace(folder / "gold.json", folder / "trace.json")
    assert receipt["result"]["score"] == result.score
    assert receipt["result"]["record_sha256"] == json_sha256(result.to_dict())
    sealed = {name: value for name, value in receipt.items() if name != "receipt_sha256"}
    assert receipt["receipt_sha256"] == json_sha256(sealed)
    jsonschema.validate(receipt, json.loads(receipts.SCHEMA_PATH.read_text(encoding="utf-8")))


def test_the_same_evaluation_gives_the_same_bytes_at_the_same_moment(folder, monkeypatch):
    first = make_receipt(folder).read_bytes()
    assert make_receipt(folder).read_bytes() == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(MOMENT.timestamp())))
    result = api.evaluate_trace(folder / "gold.json", folder / "trace.json")
    names = {"gold": folder / "gold.json", "trace": folder / "trace.json"}
    again = receipts.build_receipt(result, names)
    path = receipts.write_receipt(folder / "receipts/again.json", again)
    assert path.read_bytes() == first


def test_a_receipt_holds_no_text_of_answer_arguments_or_results(folder):
    answer = "I reserved seat 12A for Margarethe."
    result = api.evaluate_trace(folder / "gold.json", folder / "trace.json", final_answer=answer)
    receipt = receipts.build_receipt(result, {"trace": folder / "trace.json"}, None, answer)
    text = receipts.encode_receipt(receipt).decode()
    assert "Margarethe" not in text
    assert "LIS" not in text
    digest = hashlib.sha256(answer.encode()).hexdigest()
    assert receipt["settings"]["final_answer_sha256"] == digest


def test_a_folder_that_is_moved_with_its_receipt_still_checks_out(folder, tmp_path_factory):
    make_receipt(folder)
    moved = tmp_path_factory.mktemp("moved") / "elsewhere"
    shutil.move(folder, moved)
    path = moved / "receipts/run.receipt.json"
    assert receipts.verify_receipt(receipts.load_receipt(path), path.parent) == []


def test_a_folder_that_is_a_link_and_a_way_through_one_lead_to_the_same_files(folder):
    (folder / "far/away").mkdir(parents=True)
    shutil.copy(folder / "gold.json", folder / "far/gold.json")
    (folder / "far/trace.json").write_text("[]", encoding="utf-8")
    (folder / "receipts").symlink_to("far/away")
    path = make_receipt(folder)
    assert receipts.verify_receipt(receipts.load_receipt(path), path.parent) == []
    # Through the link, .. is the folder above the one it leads to.
    trace = folder / "receipts/../trace.json"
    receipt = receipts.build_receipt(
        api.evaluate_trace(folder / "gold.json", trace), {"trace": trace}, created_at=MOMENT
    )
    path = receipts.write_receipt(folder / "run.receipt.json", receipt)
    written = receipts.load_receipt(path)
    assert written["inputs"]["trace"]["path"] == "far/trace.json"
    assert receipts.verify_receipt(written, path.parent) == []
    # A link below the folder is kept as it is named, so that both can be moved together.
    (folder / "link.json").symlink_to("trace.json")
    receipt = receipts.build_receipt(
        api.evaluate_trace(folder / "gold.json", folder / "link.json"),
        {"trace": folder / "link.json"},
    )
    written = receipts.load_receipt(receipts.write_receipt(path, receipt))
    assert written["inputs"]["trace"]["path"] == "link.json"


def test_a_link_to_a_receipt_may_lie_anywhere(folder, tmp_path_factory):
    path = make_receipt(folder)
    link = tmp_path_factory.mktemp("links") / "latest.json"
    link.symlink_to(path)
    plain, linked = receipts.regrade(path), receipts.regrade(link)
    assert linked.problems == []
    assert linked.result.to_dict() == plain.result.to_dict()
    assert verify(link).is_whole
    [run] = read_file(link)
    assert [call.tool for call in run.calls] == [call["tool"] for call in plain.result.calls]
    (folder / "trace.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ReceiptMismatchError):
        receipts.regrade(link)


def test_links_into_a_store_lead_on_from_the_links(folder, tmp_path_factory):
    make_receipt(folder)
    store, laid = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("laid")
    for number, name in enumerate(("gold.json", "trace.json", "receipts/run.receipt.json")):
        (laid / name).parent.mkdir(exist_ok=True)
        kept = shutil.move(folder / name, store / f"{number}")
        (laid / name).symlink_to(kept)
    link = laid / "receipts/run.receipt.json"
    assert receipts.regrade(link).problems == []
    assert verify(link).is_whole
    assert len(read_file(link)) == 1


def test_every_problem_is_told_and_not_only_the_first(folder):
    path = make_receipt(folder)
    (folder / "gold.json").write_bytes((folder / "gold.json").read_bytes() + b" ")
    (folder / "trace.json").unlink()
    receipt = receipts.load_receipt(path)
    receipt["result"]["score"] = 0.99
    problems = receipts.verify_receipt(receipt, path.parent)
    assert [problem.split()[0] for problem in problems] == ["the", "gold:", "trace:"]
    assert "the receipt was changed" in problems[0]
    assert "is not there" in problems[2]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda r: r.pop("settings"), "'settings' is a required property"),
        (lambda r: r["result"].update(score="1"), "$.result.score"),
        (lambda r: r["inputs"]["gold"].update(sha256="0"), "$.inputs.gold.sha256"),
        (lambda r: r.update(extra=1), "extra"),
    ],
)
def test_a_receipt_of_another_form_is_told_by_its_place(
    folder: Path, change: Callable[[dict[str, Any]], object], place: str
) -> None:
    receipt = receipts.load_receipt(make_receipt(folder))
    change(receipt)
    [problem] = receipts.verify_receipt(receipt, folder / "receipts")
    assert place in problem


def test_what_is_no_receipt_is_refused(folder):
    with pytest.raises(ValueError, match="not a receipt"):
        receipts.load_receipt(folder / "gold.json")
    (folder / "new.json").write_text(
        json.dumps({"kind": receipts.KIND, "receipt_version": "2"}), encoding="utf-8"
    )
    with pytest.raises(InputError, match="expected receipt_version '1', got '2'"):
        receipts.load_receipt(folder / "new.json")


def test_regrading_the_seat_example_against_its_contract_gains_57_points(folder):
    regraded = receipts.regrade(make_receipt(folder), gold=folder / "contract.json")
    assert regraded.previous is not None
    assert receipts.percent(regraded.previous["score"], regraded.previous["grade"]) == "38.3% F"
    assert receipts.percent(regraded.result.score, regraded.result.grade) == "95.7% A"
    # 0.9571428... - 0.3833333... = 0.5738095...
    assert regraded.score_delta == pytest.approx(0.573809523809524, abs=1e-15)
    source = receipts.load_receipt(folder / "receipts/run.receipt.json")
    assert regraded.receipt["settings"]["regraded_from"] == source["receipt_sha256"]
    written = receipts.write_receipt(folder / "new/second.json", regraded.receipt)
    assert receipts.verify_receipt(receipts.load_receipt(written), written.parent) == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": {"required_call_recall": 0.3}},
        {"weights": {"selection_accuracy": 0.1, "argument_f1": 0.7}},
        {"strict": True},
    ],
    ids=str,
)
def test_regrading_without_a_change_gives_the_same_result_block(folder, options):
    path = make_receipt(folder, **options)
    regraded = receipts.regrade(path)
    assert regraded.receipt["result"] == receipts.load_receipt(path)["result"]
    assert regraded.score_delta == 0
    assert regraded.problems == []


def test_new_weights_take_the_place_of_the_old(folder):
    path = make_receipt(folder, weights={"required_call_recall": 0.5})
    regraded = receipts.regrade(path, weights={"required_call_recall": 1.0})
    expected = api.evaluate_trace(
        folder / "gold.json", folder / "trace.json", weights={"required_call_recall": 1.0}
    )
    assert regraded.receipt["result"]["judgment_sha256"] == expected.judgment_id


def test_weights_that_a_new_contract_declares_count_before_those_of_the_receipt(folder):
    contract = json.loads((folder / "contract.json").read_text(encoding="utf-8"))
    contract["weights"] = {"required_call_recall": 1.0}
    (folder / "weighted.json").write_text(json.dumps(contract), encoding="utf-8")
    regraded = receipts.regrade(make_receipt(folder), gold=folder / "weighted.json")
    assert regraded.result.weights["required_call_recall"] == 0.5  # 1 of 2 in all


def test_changed_inputs_are_refused_with_every_problem_unless_asked_not_to(folder):
    path = make_receipt(folder)
    for name in ("gold.json", "trace.json"):
        (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    with pytest.raises(ReceiptMismatchError) as caught:
        receipts.regrade(path)
    lines = str(caught.value).splitlines()
    assert [("gold" in line, "trace" in line) for line in lines] == [(True, False), (False, True)]
    assert isinstance(caught.value, ValueError)
    regraded = receipts.regrade(path, verify=False)
    assert len(regraded.problems) == 2
    assert regraded.score_delta == 0


def test_an_input_that_is_replaced_may_have_changed(folder):
    path = make_receipt(folder)
    (folder / "gold.json").unlink()
    assert receipts.regrade(path, gold=folder / "contract.json").problems == []


def test_a_final_answer_from_outside_has_to_be_given_again(folder):
    names = {"gold": folder / "gold.json", "trace": folder / "trace.json"}
    answer = "I reserved the seat."
    result = api.evaluate_trace(names["gold"], names["trace"], final_answer=answer)
    path = receipts.write_receipt(
        folder / "a.json", receipts.build_receipt(result, names, None, answer)
    )
    with pytest.raises(ReceiptMismatchError, match="given from outside"):
        receipts.regrade(path)
    with pytest.raises(ReceiptMismatchError, match="not the one that was evaluated"):
        receipts.regrade(path, final_answer="Another.")
    regraded = receipts.regrade(path, final_answer=answer)
    assert regraded.receipt["result"] == receipts.load_receipt(path)["result"]


def test_rules_honesty_and_faults_of_the_receipt_apply_again(folder):
    (folder / "rules.json").write_text('[{"tool": "get_weather"}]', encoding="utf-8")
    (folder / "faults.json").write_text(
        '{"faults": [{"tool": "get_weather", "kind": "error", "message": "down"}]}',
        encoding="utf-8",
    )
    from toolscore_pipeline.honesty import load_injected

    names = {
        "gold": folder / "gold.json",
        "trace": folder / "trace.json",
        "forbidden": folder / "rules.json",
        "injected": folder / "faults.json",
    }
    result = api.evaluate_trace(
        names["gold"],
        names["trace"],
        forbidden=names["forbidden"],
        injected=load_injected(names["injected"]),
    )
    path = receipts.write_receipt(folder / "b.json", receipts.build_receipt(result, names))
    regraded = receipts.regrade(path)
    assert regraded.receipt["result"] == receipts.load_receipt(path)["result"]
    assert [finding["tool"] for finding in regraded.result.policy_violations] == ["get_weather"]


def test_a_side_effect_is_looked_for_once_and_its_finding_kept(folder):
    gold = [{"tool": "search_flights", "side_effects": {"file_exists": str(folder / "made.txt")}}]
    (folder / "gold.json").write_text(json.dumps(gold), encoding="utf-8")
    (folder / "made.txt").write_text("here", encoding="utf-8")
    path = make_receipt(folder)
    (folder / "made.txt").unlink()
    regraded = receipts.regrade(path)
    found = {check["check"]: check["status"] for check in regraded.result.evidence["checks"]}
    assert found["side-effects"] == "pass"
    assert regraded.receipt["result"] == receipts.load_receipt(path)["result"]


def test_a_bare_trace_needs_a_gold_file_and_has_nothing_before(folder):
    with pytest.raises(UsageError, match="needs a gold file"):
        receipts.regrade(folder / "trace.json")
    regraded = receipts.regrade(folder / "trace.json", gold=folder / "contract.json")
    assert regraded.previous is None
    assert regraded.score_delta is None
    assert regraded.result.grade == "A"
