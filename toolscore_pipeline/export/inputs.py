"""Run records of files: run rows of agent studies, traces and receipts, without a warehouse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from toolscore_pipeline.errors import InputError, ReceiptMismatchError
from toolscore_pipeline.export.records import build_record, evaluation_of, finished

if TYPE_CHECKING:
    from toolscore_pipeline.judgments import Judgment


def export_records(
    inputs: Iterable[str | Path],
    gold: str | Path | None = None,
    variant: str = "",
    min_score: float = 0.9,
) -> list[dict[str, Any]]:
    """Run records for agent-run JSONL files, trace files and receipts.

    Args:
        inputs: run-row files of ``toolscore agent run``, trace files (any supported format, also a
            folder or a glob), or receipts of ``toolscore eval --receipt``.
        gold: a gold file or contract for traces. Receipts carry their own; run rows keep the
            evaluation that they brought along.
        variant: the variant of traces and receipts that name none.
        min_score: the passing score of traces, where the contract names none.

    Returns:
        The records as plain JSON values, in input order. A run that is there twice has one record.

    Raises:
        InputError: an input, or one record of it, that cannot be read.
        ReceiptMismatchError: a receipt that was changed, or one of whose files was.
    """
    from toolscore_pipeline.receipts import is_receipt

    records: list[dict[str, Any]] = []
    seen: set[str] = set()
    judgment: Judgment | None = None
    for item in inputs:
        if Path(item).suffix == ".json" and is_receipt(item):
            found = _of_receipt(Path(item), variant)
        else:
            if gold is not None and judgment is None:
                judgment = _judgment(gold, min_score)
            name = Path(gold).name.split(".")[0] if gold is not None else None
            found = _of_documents(str(item), judgment, name, variant)
        for record in found:
            if record["record_id"] not in seen:
                seen.add(record["record_id"])
                records.append(record)
    number_repetitions(records)
    return [finished(record) for record in records]


def record_from_run(row: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """The run record of one row of ``toolscore agent run``.

    Args:
        row: the row.
        source: ``kind``, ``path``, ``sha256`` and ``line`` of where it came from.

    Returns:
        The record as plain JSON values, with its hash.

    Raises:
        InputError: the row is no run row, or its calls cannot be read.
    """
    from toolscore_pipeline.evidence_tables import tables_from_runs
    from toolscore_pipeline.formats.run_rows import read_row

    line = source.get("line")
    run = read_row(row, locator=f"line {line}" if line is not None else None)
    runs, calls = tables_from_runs([run], source["sha256"], None, source.get("path"))
    facts = {
        "kind": _KINDS.get(str(source.get("kind")), "run_rows"),
        "path": source.get("path"),
        "sha256": source["sha256"],
        "line": line,
    }
    return finished(build_record(runs.to_pylist()[0], calls.to_pylist(), source=facts))


_KINDS = {kind: kind for kind in ("run_rows", "trace", "receipt", "query")}


def number_repetitions(records: Sequence[dict[str, Any]]) -> None:
    """Give each record its place among the runs of its task and variant, from 0.

    Recorded numbers are kept, less the lowest, where they tell all runs apart and leave no wide
    gaps; otherwise the order of the records counts.
    """
    if not records:
        return
    groups = Counter((record["task_id"], record["variant"]) for record in records)
    numbers = [record["repetition"] for record in records]
    places = {(r["task_id"], r["variant"], r["repetition"]) for r in records}
    known = [number for number in numbers if number is not None]
    if len(known) == len(records) == len(places) and max(known) - min(known) < 2 * max(
        groups.values()
    ):
        for record in records:
            record["repetition_index"] = record["repetition"] - min(known)
        return
    seen: Counter[tuple[Any, Any]] = Counter()
    ordered = sorted(records, key=lambda r: (r["repetition"] is None, r["repetition"] or 0))
    for record in ordered:
        key = (record["task_id"], record["variant"])
        record["repetition_index"] = seen[key]
        seen[key] += 1


def _of_documents(
    path: str, judgment: Judgment | None, contract: str | None, variant: str
) -> list[dict[str, Any]]:
    """The records of a file, folder or glob."""
    from toolscore_pipeline.loading import Source, load_documents

    records = []
    for batch in load_documents([Source("", path)]):
        for document in batch.documents.to_pylist():
            if document["error"]:
                raise InputError(_bare(document["error"], document["path"]), path=document["path"])
        for reject in batch.rejects.to_pylist():
            raise InputError(
                reject["reason"],
                path=reject["path"],
                line=reject["line"],
                json_path=reject["json_path"],
            )
        rows = batch.runs.to_pylist()
        calls: dict[str, list[dict[str, Any]]] = {}
        for call in batch.calls.to_pylist():
            calls.setdefault(call["run_id"], []).append(call)
        grades = _grade(batch.runs, batch.calls, judgment, contract) if judgment else {}
        for row in rows:
            is_row = row["format"] == "run_rows"
            if row["variant"] is None and variant:
                row["variant"] = variant
            line = re.match(r"line (\d+)", row["locator"] or "")
            grade = None if is_row else grades.get(row["run_id"])
            records.append(
                build_record(
                    row,
                    calls.get(row["run_id"], []),
                    source={
                        "kind": "run_rows" if is_row else "trace",
                        "path": row["path"],
                        "sha256": row["document_id"],
                        "line": int(line[1]) if line else None,
                    },
                    evaluation=grade[0] if grade else None,
                    outcome=grade[1] if grade else None,
                )
            )
    return records


def _bare(error: str, path: str) -> str:
    return error.removeprefix(f"{path}: ")


def _grade(
    runs: pa.Table, calls: pa.Table, judgment: Judgment, contract: str | None
) -> dict[str, tuple[dict[str, Any], str]]:
    """The evaluation and outcome of every run, by run id."""
    from toolscore_pipeline.judgments import judgment_tables
    from toolscore_pipeline.runner import OUTPUTS, Engine

    if not runs.num_rows:
        return {}
    with Engine() as engine:
        engine.fill("evidence.runs", runs)
        engine.fill("evidence.calls", calls)
        for name, rows in judgment_tables([judgment]).items():
            engine.fill(f"judgment.{name}", rows)
        ids = runs.column("run_id").unique()
        judgments = pa.array([judgment.judgment_id] * len(ids), pa.string())
        engine.set_pairs(pa.table({"run_id": ids, "judgment_id": judgments}))
        engine.build(OUTPUTS)
        checks: dict[str, list[tuple[Any, Any, Any]]] = {}
        for run_id, *check in engine.connection.execute(
            "select run_id, check_name, status, detail from grades.checks"
            " order by run_id, check_position"
        ).fetchall():
            checks.setdefault(run_id, []).append((check[0], check[1], check[2]))
        rows = engine.connection.sql("select * from grades.grades").to_arrow_table().to_pylist()
    return {
        row["run_id"]: (
            evaluation_of({**row, "contract": contract}, checks.get(row["run_id"], [])),
            row["outcome"],
        )
        for row in rows
    }


def _judgment(gold: str | Path, min_score: float) -> Judgment:
    from toolscore_pipeline.contract import load_expected
    from toolscore_pipeline.judgments import compile_judgment

    expected = load_expected(gold)
    is_list = isinstance(expected, list)
    return compile_judgment(expected, min_score=min_score if is_list else None)


# --- receipts -------------------------------------------------------------------------------------


def _of_receipt(path: Path, variant: str) -> list[dict[str, Any]]:
    """The record of a receipt's trace, graded again as the receipt says."""
    from toolscore_pipeline.api import grade_runs
    from toolscore_pipeline.loading import DEFAULT_TASK_PATTERN, stem_of
    from toolscore_pipeline.receipts import folder_of, inputs_of, load_receipt, verify_receipt

    receipt = load_receipt(path)
    problems = verify_receipt(receipt, folder_of(path, receipt))
    if not problems and receipt["settings"].get("final_answer_sha256") is not None:
        problem = "the evaluation had a final answer given from outside"
        problems = [f"{problem}, which a receipt does not hold; export its trace"]
    if problems:
        raise ReceiptMismatchError("; ".join(problems), path=path)
    inputs = inputs_of(receipt, folder_of(path, receipt))
    trace, gold = inputs.files["trace"], inputs.files["gold"]
    result = grade_runs([inputs.run], inputs.judgment)[0]
    run = dict(result.run)
    if run["task"] is None:
        named = re.search(DEFAULT_TASK_PATTERN, stem_of(trace))
        run["task"] = named["task"] if named is not None else None
    if run["variant"] is None and variant:
        run["variant"] = variant
    checks = [(check["check_name"], check["status"], check["detail"]) for check in result.checks]
    return [
        build_record(
            run,
            result.calls,
            source={
                "kind": "receipt",
                "path": str(trace),
                "sha256": receipt["inputs"]["trace"]["sha256"],
            },
            evaluation=evaluation_of(
                {**result.grade_row, "contract": gold.name.split(".")[0]}, checks
            ),
            outcome=result.outcome,
        )
    ]
