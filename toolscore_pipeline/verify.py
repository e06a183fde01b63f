"""Verification: recompute the chain of hashes from source bytes to records; name what is broken.

A chain has links: the bytes of a *source*, the *evidence* read from them, the *judgment* of a
contract file, the *grade* that joins both under some formulas, the *record* or *receipt* that tells
it, the *manifest* or *file* that seals it, and in a warehouse the stored *mart*. Whatever cannot be
recomputed here is said to be unchecked, with the reason: it is never taken for whole.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from toolscore_pipeline.connecting import connect
from toolscore_pipeline.errors import InputError, ToolscoreError, UsageError
from toolscore_pipeline.hashing import canonical_json, file_sha256, json_sha256

if TYPE_CHECKING:
    import pyarrow as pa

    from toolscore_pipeline.plan import Model
    from toolscore_pipeline.project import Project
    from toolscore_pipeline.receipts import Inputs

STEPS = (
    "source",
    "evidence",
    "judgment",
    "grade",
    "record",
    "receipt",
    "manifest",
    "file",
    "edition",
    "mart",
    "published",
)
# Broken links that are spelled out for one step and reason; the rest of them is counted.
MOST_LISTED = 50


@dataclass(frozen=True, slots=True)
class Link:
    """A link that is broken, or that could not be checked.

    Attributes:
        step: which kind of link (see ``STEPS``).
        subject: the file, run, record or table.
        reason: what is wrong, or why it could not be checked.
    """

    step: str
    subject: str
    reason: str

    def __str__(self) -> str:
        """``step subject: reason``."""
        return f"{self.step} {self.subject}: {self.reason}"


@dataclass
class Verification:
    """What verifying one target found.

    Attributes:
        target: what was verified.
        kind: ``receipt``, ``export`` or ``warehouse``.
        checked: how many links held, by step.
        broken: every broken link, in the order of the chain.
        unchecked: what could not be recomputed, and why.
    """

    target: str
    kind: str
    checked: Counter[str] = field(default_factory=Counter)
    broken: list[Link] = field(default_factory=list)
    unchecked: list[Link] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether no link is broken."""
        return not self.broken

    def holds(self, step: str, count: int = 1) -> None:
        """Count links that hold."""
        self.checked[step] += count

    def breaks(self, step: str, subject: str, reason: str) -> None:
        """Note a broken link."""
        self.broken.append(Link(step, subject, reason))

    def skips(self, step: str, subject: str, reason: str) -> None:
        """Note a link that cannot be checked."""
        self.unchecked.append(Link(step, subject, reason))

    def decide(self, step: str, subject: str, reason: str | None) -> bool:
        """Note a link as held (no reason) or broken; True when it holds."""
        if reason is None:
            self.holds(step)
            return True
        self.breaks(step, subject, reason)
        return False

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report."""
        return {
            "verify_version": "1",
            "target": self.target,
            "kind": self.kind,
            "whole": self.is_whole,
            "checked": {step: self.checked[step] for step in STEPS if self.checked[step]},
            "broken": [_as_dict(link) for link in _in_order(self.broken)],
            "unchecked": [_as_dict(link) for link in _in_order(self.unchecked)],
        }


def _as_dict(link: Link) -> dict[str, str]:
    return {"step": link.step, "subject": link.subject, "reason": link.reason}


def _in_order(links: Iterable[Link]) -> list[Link]:
    return sorted(links, key=lambda link: STEPS.index(link.step))


def verify(
    target: str | Path, *, regrade: bool = False, project: Project | None = None
) -> Verification:
    """Verify a receipt, an export or a warehouse.

    Args:
        target: a receipt; the records' file or the manifest of an export, or the folder it lies in
            alone; a warehouse file, a project file or a project's folder.
        regrade: re-score too, and compare every number.
        project: the project; default the one found upward from the target.

    Raises:
        UsageError: there is nothing to verify at the target.
    """
    from toolscore_pipeline.project import PROJECT_FILE, find_project, load_project
    from toolscore_pipeline.receipts import is_receipt

    path = Path(target)
    if not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")
    if project is None:
        found = find_project(path if path.is_dir() else path.parent)
        project = load_project(found) if found is not None else None
    if path.is_dir() and not (path / PROJECT_FILE).is_file():
        manifests = sorted(path.glob("*.manifest.json"))
        if len(manifests) == 1:  # a bundle, or another folder with one export
            return verify_export(manifests[0], project, regrade=regrade)
    if path.is_dir() or path.name == PROJECT_FILE or path.suffix == ".duckdb":
        if path.is_dir() and (project is None or not (path / PROJECT_FILE).is_file()):
            raise UsageError(f"{path}: expected a receipt, an export, a warehouse or a project")
        file = path if path.suffix == ".duckdb" else None
        return verify_warehouse(project, file, regrade=regrade)
    if is_receipt(path):
        return verify_receipt_file(path, regrade=regrade)
    return verify_export(path, project, regrade=regrade)


# --- receipts -------------------------------------------------------------------------------------


def verify_receipt_file(path: str | Path, *, regrade: bool = False) -> Verification:
    """Verify a receipt file, the files it names, and what follows from them.

    Args:
        path: the receipt.
        regrade: score the trace again and compare every number.
    """
    from toolscore_pipeline.receipts import (
        encode_receipt,
        folder_of,
        load_receipt,
        verify_receipt,
    )

    path = Path(path)
    found = Verification(str(path), "receipt")
    try:
        receipt = load_receipt(path)
        data = path.read_bytes()
    except (InputError, OSError) as error:
        found.breaks("receipt", path.name, getattr(error, "reason", None) or str(error))
        return found
    problems = verify_receipt(receipt, folder_of(path, receipt))
    roles = {f"{role}:": role for role in receipt.get("inputs") or {}}
    for problem in problems:
        role = roles.get(problem.split(" ", 1)[0])
        found.breaks("source" if role else "receipt", role or path.name, problem)
    if not any(link.step == "receipt" for link in found.broken):
        found.holds("receipt")
        reason = _difference(encode_receipt(receipt), data)
        found.decide("file", path.name, reason)
        found.holds("source", sum(1 for _ in roles) - len(found.broken) + bool(reason))
    if not problems:
        _verify_result(found, receipt, path, regrade=regrade)
    return found


def _difference(expected: bytes, actual: bytes) -> str | None:
    """Where a file is not as this package writes it; None when it is."""
    if expected == actual:
        return None
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b),
        min(len(expected), len(actual)),
    )
    return f"it is not as it was written: byte {at}, line {actual[:at].count(10) + 1}"


def _verify_result(
    found: Verification, receipt: Mapping[str, Any], path: Path, *, regrade: bool
) -> None:
    """Hold the result block against what the inputs give now."""
    from toolscore_pipeline.evidence_tables import evidence_sha256
    from toolscore_pipeline.receipts import contract_sha256, folder_of, inputs_of

    result = receipt["result"]
    if not {"trace", "gold"} <= receipt["inputs"].keys():
        found.skips("evidence", path.name, "the receipt names no trace or no gold file")
        return
    try:
        inputs = inputs_of(receipt, folder_of(path, receipt))
    except ToolscoreError as error:
        found.breaks("evidence", path.name, str(error))
        return
    has_answer = "final_answer_sha256" in receipt["settings"]
    if has_answer:
        found.skips("evidence", path.name, "a final answer was given from outside the trace")
    else:
        same = evidence_sha256(inputs.run) == result["evidence_sha256"]
        found.decide("evidence", path.name, None if same else "the trace holds other evidence")
    judgment = json.loads(inputs.judgment.judgment_json)
    same = contract_sha256(judgment) == receipt["contract_sha256"]
    found.decide("judgment", path.name, None if same else "the gold file expects other calls")
    same = inputs.judgment.judgment_id == result["judgment_sha256"]
    found.decide("judgment", path.name, None if same else "gold file and settings judge otherwise")
    if regrade and not has_answer:
        _rescore(found, receipt, inputs, path)


def _rescore(found: Verification, receipt: Mapping[str, Any], inputs: Inputs, path: Path) -> None:
    from toolscore_pipeline.api import grade_runs
    from toolscore_pipeline.plan import grader_version
    from toolscore_pipeline.receipts import build_receipt

    before = receipt["result"]
    if before["grader_version"] != grader_version():
        found.skips("grade", path.name, "it was made by other formulas than these")
        return
    result = grade_runs([inputs.run], inputs.judgment)[0]
    now = build_receipt(result)["result"]
    moved = [name for name in before if before[name] != now[name]]
    found.decide(
        "grade", path.name, f"scored again it has another {', '.join(moved)}" if moved else None
    )


# --- exports --------------------------------------------------------------------------------------


def verify_export(
    path: str | Path, project: Project | None = None, *, regrade: bool = False
) -> Verification:
    """Verify the records of an export, their manifest, and the sources that both name.

    Args:
        path: the records' file or its manifest.
        project: the project whose sources and contracts they were made from; None leaves what
            needs them unchecked.
        regrade: grade the sources again and compare every number.
    """
    path = _records_path(Path(path))
    found = Verification(str(path), "export")
    manifest = _verify_manifest(found, path)
    records = list(_verify_records(found, path, manifest))
    if manifest is not None:
        _verify_totals(found, path, manifest, records)
        _verify_kept(found, path, manifest)
    _verify_sources(found, path, manifest, records, project, regrade=regrade)
    return found


def verify_seal(path: str | Path) -> Verification:
    """Verify only that an export's bytes are those that were written: the manifest, then the file.

    Args:
        path: the records' file or its manifest.
    """
    path = _records_path(Path(path))
    found = Verification(str(path), "export")
    _verify_manifest(found, path)
    return found


def _records_path(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".manifest.json"))


def _verify_manifest(found: Verification, path: Path) -> dict[str, Any] | None:
    """The manifest when it is whole in itself and names the bytes of the records."""
    from toolscore_pipeline.export import manifest_path, validate_manifest
    from toolscore_pipeline.jsonio import strict_loads

    file = manifest_path(path)
    try:
        data = file.read_bytes()
        manifest, flags = strict_loads(data)
        if "lone_surrogate" in flags:  # the hash is of the text as it was
            manifest = json.loads(data)
    except OSError as error:
        found.breaks("manifest", file.name, f"it cannot be read: {error.strerror}")
        return None
    except InputError as error:
        found.breaks("manifest", file.name, error.reason)
        return None
    problems = validate_manifest(manifest)
    for problem in problems:
        found.breaks("manifest", file.name, problem)
    if problems:
        return None
    sealed = {name: value for name, value in manifest.items() if name != "manifest_sha256"}
    is_sealed = manifest["manifest_sha256"] == json_sha256(sealed)
    found.decide("manifest", file.name, None if is_sealed else "it was changed")
    text = json.dumps(manifest, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    found.decide("file", file.name, _difference(text.encode("utf-8", "backslashreplace"), data))
    try:
        sha256, size = file_sha256(path)
    except OSError as error:
        found.breaks("file", path.name, f"it cannot be read: {error.strerror}")
        return dict(manifest)
    named = manifest["records"]
    same = (sha256, size, path.name) == (named["sha256"], named["bytes"], named["file"])
    reason = None if same else f"it is not the file that {file.name} names: its bytes are others"
    found.decide("file", path.name, reason)
    return dict(manifest)


def _verify_records(
    found: Verification, path: Path, manifest: Mapping[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """The records that are whole in themselves."""
    from toolscore_pipeline.export import validate_record
    from toolscore_pipeline.export.records import encode_record
    from toolscore_pipeline.jsonio import strict_line
    from toolscore_pipeline.receipts import grade_sha256

    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return
    if lines.pop() != b"":
        found.breaks("file", path.name, "it ends in the middle of a line")
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        subject = f"{path.name}:{number}"
        record, flags = strict_line(line)
        if "lone_surrogate" in flags:  # the hashes are of the text as it was
            record = json.loads(line)
        if isinstance(record, InputError):
            found.breaks("record", subject, record.reason)
            continue
        problems = validate_record(record)
        for problem in problems:
            found.breaks("record", subject, problem)
        if problems:
            continue
        if (first := seen.setdefault(record["record_id"], number)) != number:
            found.breaks("record", subject, f"the same record stands in line {first}")
            continue
        if not found.decide("record", subject, _difference(encode_record(record), line)):
            continue
        evaluation = record["evaluation"]
        if evaluation and evaluation["basis"] == "graded":
            named = grade_sha256(
                record["hashes"]["evidence_sha256"],
                evaluation["judgment_sha256"],
                evaluation["grader_version"],
            )
            same = named == evaluation["grade_sha256"]
            found.decide("grade", subject, None if same else "its hash is that of other parts")
        yield record


def _verify_totals(
    found: Verification,
    path: Path,
    manifest: Mapping[str, Any],
    records: list[dict[str, Any]],
) -> None:
    outcomes = Counter(record["outcome"] for record in records)
    sources = Counter(record["source"]["sha256"] for record in records)
    named: Counter[str] = Counter()
    for source in manifest["sources"]:
        named[source["sha256"]] += source["records"]
    for what, expected, actual in (
        ("records", manifest["records"]["count"], len(records)),
        ("outcomes", manifest["outcomes"], {k: outcomes[k] for k in manifest["outcomes"]}),
        ("sources", dict(named), dict(sources)),
    ):
        reason = None if expected == actual else f"its {what} are not those of {path.name}"
        found.decide("manifest", f"{path.name}.manifest.json", reason)


def _verify_kept(found: Verification, path: Path, manifest: Mapping[str, Any]) -> None:
    """Hold the files of a bundle against what the manifest says of each."""
    from toolscore_pipeline.export.bundles import Evidence

    problems = dict(
        problem.split(": ", 1) for problem in Evidence(path.parent, manifest).problems()
    )
    for entry in manifest["artifacts"]:
        found.decide("file", entry["file"], problems.get(entry["file"]))


def _verify_sources(
    found: Verification,
    path: Path,
    manifest: Mapping[str, Any] | None,
    records: list[dict[str, Any]],
    project: Project | None,
    *,
    regrade: bool,
) -> None:
    """Open the sources of records, read them again, and grade them again when asked to."""
    judgments = _judgments_of(project) if project is not None else {}
    by_source: dict[tuple[str, str | None, str], list[dict[str, Any]]] = {}
    for record in records:
        source = record["source"]
        key = (source["sha256"], source["path"], source["kind"])
        by_source.setdefault(key, []).append(record)
    for (sha256, shown, kind), group in by_source.items():
        name = shown or f"{sha256[:12]}..."
        if kind == "query":
            found.skips("source", name, "a query has no bytes of its own")
            continue
        file = _find_source(path, manifest, sha256, shown, project)
        if file is None:
            reason = "the file is not here"
            if project is not None:
                found.breaks("source", name, reason)
            else:
                found.skips("source", name, reason)
            continue
        is_same = file_sha256(file)[0] == sha256
        if found.decide("source", name, None if is_same else "its bytes are others than recorded"):
            _verify_evidence(found, file, group, judgments, regrade=regrade)
    _verify_judgments(found, path, records, judgments, project)


def _find_source(
    path: Path,
    manifest: Mapping[str, Any] | None,
    sha256: str,
    shown: str | None,
    project: Project | None,
) -> Path | None:
    """The file of a source: the copy kept with the export, else where the project has it."""
    for entry in (manifest or {}).get("artifacts", ()):
        kept = path.parent / str(entry["file"])
        if entry["sha256"] == sha256 and entry["kind"] == "source" and kept.is_file():
            return kept
    if shown is None:
        return None
    roots = [project.root] if project is not None else []
    for root in (*roots, path.parent, Path()):
        if (root / shown).is_file():
            return root / shown
    return None


def _verify_evidence(
    found: Verification,
    file: Path,
    records: list[dict[str, Any]],
    judgments: Mapping[str, str],
    *,
    regrade: bool,
) -> None:
    """Read a source again and hold its records against what stands in it."""
    from toolscore_pipeline.loading import Source, load_documents

    runs: dict[tuple[str | None, str], dict[str, Any]] = {}
    calls: dict[str, list[dict[str, Any]]] = {}
    # A kept copy has another name; the format is in the bytes all the same.
    for batch in load_documents([Source("", str(file))]):
        for row in batch.runs.to_pylist():
            runs[row["locator"], row["evidence_sha256"]] = row
        for row in batch.calls.to_pylist():
            calls.setdefault(row["run_id"], []).append(row)
    graded: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for record in records:
        key = (record["source"]["locator"], record["hashes"]["evidence_sha256"])
        subject = f"{record['source']['path']} {record['source']['locator'] or ''}".strip()
        run = runs.get(key)
        if run is None:
            found.breaks("evidence", subject, "the record's evidence does not stand there")
            continue
        moved = _moved_parts(record, run, calls.get(run["run_id"], []))
        reason = f"the source says otherwise of {', '.join(moved)}" if moved else None
        if found.decide("evidence", subject, reason):
            graded.append((record, run))
    if regrade:
        _rescore_records(found, graded, calls, judgments)


_EVIDENCE_PARTS = (
    "completed_calls",
    "cost",
    "duration_seconds",
    "ended_at",
    "error",
    "final_answer",
    "prompt",
    "requested_calls",
    "started_at",
    "status",
    "usage",
    "format",
)


def _moved_parts(
    record: Mapping[str, Any], run: Mapping[str, Any], calls: list[dict[str, Any]]
) -> list[str]:
    """The parts of a record that are others when it is made again; redacted ones are left out."""
    from toolscore_pipeline.export.records import build_record, finished

    again = finished(
        build_record({**run, "run_id": record["run_id"]}, calls, source=record["source"])
    )
    redacted = {field.split("[")[0].split(".")[0] for field in record["redaction"]["fields"]}
    return [n for n in _EVIDENCE_PARTS if n not in redacted and record[n] != again[n]]


def _judgments_of(project: Project) -> dict[str, str]:
    """The judgments that a project has now or had before, as canonical JSON, by id."""
    found: dict[str, str] = {}
    if project.published.is_file():
        with connect(str(project.published), read_only=True) as connection:
            rows = connection.execute(
                "select judgment_id, judgment_json from judgment.judgments"
            ).fetchall()
        found.update(rows)
    for binding in project.bindings():
        found[binding.judgment.judgment_id] = binding.judgment.judgment_json
    return found


def _verify_judgments(
    found: Verification,
    path: Path,
    records: list[dict[str, Any]],
    judgments: Mapping[str, str],
    project: Project | None,
) -> None:
    named = {
        record["evaluation"]["judgment_sha256"]: record["evaluation"]["contract"]
        for record in records
        if record["evaluation"] and record["evaluation"]["basis"] == "graded"
    }
    for judgment_id, contract in sorted(named.items()):
        subject = f"{contract or 'judgment'} {judgment_id[:12]}..."
        text = judgments.get(judgment_id)
        if text is not None:
            same = json_sha256(json.loads(text)) == judgment_id
            found.decide("judgment", subject, None if same else "its stored form has another hash")
        elif project is not None:
            found.breaks("judgment", subject, "no contract of the project judges so")
        else:
            found.skips("judgment", subject, "no project says what it was")


def _rescore_records(
    found: Verification,
    graded: list[tuple[dict[str, Any], dict[str, Any]]],
    calls: Mapping[str, list[dict[str, Any]]],
    judgments: Mapping[str, str],
) -> None:
    """Grade runs again under the judgments that their records name."""
    import pyarrow as pa

    from toolscore_pipeline.evidence_tables import CALLS_SCHEMA, RUNS_SCHEMA
    from toolscore_pipeline.export.records import evaluation_of
    from toolscore_pipeline.judgments import judgment_from_json, judgment_tables
    from toolscore_pipeline.plan import grader_version
    from toolscore_pipeline.runner import OUTPUTS, Engine

    todo = []
    for record, run in graded:
        evaluation = record["evaluation"]
        if not evaluation or evaluation["basis"] != "graded":
            continue
        if evaluation["grader_version"] != grader_version():
            found.skips("grade", record["run_id"][:12], "it was made by other formulas than these")
        elif evaluation["judgment_sha256"] in judgments:
            todo.append((record, run))
    if not todo:
        return
    with Engine() as engine:
        rows = {run["run_id"]: run for _, run in todo}
        engine.fill("evidence.runs", pa.Table.from_pylist(list(rows.values()), RUNS_SCHEMA))
        made = [call for run_id in rows for call in calls.get(run_id, [])]
        engine.fill("evidence.calls", pa.Table.from_pylist(made, CALLS_SCHEMA))
        ids = {record["evaluation"]["judgment_sha256"] for record, _ in todo}
        compiled = [judgment_from_json(judgments[judgment_id]) for judgment_id in sorted(ids)]
        for name, table in judgment_tables(compiled).items():
            engine.fill(f"judgment.{name}", table)
        pairs = {(run["run_id"], r["evaluation"]["judgment_sha256"]) for r, run in todo}
        columns = [list(column) for column in zip(*sorted(pairs), strict=True)]
        engine.set_pairs(pa.table({"run_id": columns[0], "judgment_id": columns[1]}))
        engine.build(OUTPUTS)
        grades = {
            (row["run_id"], row["judgment_id"]): row
            for row in engine.connection.sql("from grades.grades").to_arrow_table().to_pylist()
        }
        checks: dict[tuple[str, str], list[tuple[Any, Any, Any]]] = {}
        for run_id, judgment_id, *check in engine.connection.execute(
            "select run_id, judgment_id, check_name, status, detail from grades.checks"
            " order by run_id, judgment_id, check_position"
        ).fetchall():
            checks.setdefault((run_id, judgment_id), []).append((check[0], check[1], check[2]))
    for record, run in todo:
        before = record["evaluation"]
        key = (run["run_id"], before["judgment_sha256"])
        now = evaluation_of({**grades[key], "contract": before["contract"]}, checks.get(key, ()))
        moved = [name for name in now if before.get(name) != now[name]]
        if record["outcome"] != grades[key]["outcome"]:
            moved.append("outcome")
        reason = f"graded again it has another {', '.join(moved)}" if moved else None
        found.decide("grade", record["run_id"][:12], reason)


# --- warehouses -----------------------------------------------------------------------------------


def verify_warehouse(
    project: Project | None, file: str | Path | None = None, *, regrade: bool = False
) -> Verification:
    """Verify every table of a warehouse against its sources, its contracts and itself.

    Args:
        project: the project; None leaves what needs sources and contracts unchecked.
        file: the warehouse file; default the project's.
        regrade: grade every stored run again and compare every number.

    Raises:
        UsageError: neither a project nor a file is named, or there is no such file.
        WarehouseError: the file cannot be opened.
    """
    from toolscore_pipeline.warehouse import Warehouse

    if file is None:
        if project is None:
            raise UsageError("name a warehouse file or a project")
        file = project.warehouse
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{path}: there is no warehouse yet; run toolscore build")
    found = Verification(str(path), "warehouse")
    with _Store(path) as store:
        if not store.check_shape(found):
            return found
        if project is None:
            found.skips("source", path.name, "no project says where its sources are")
        else:
            _verify_documents(found, store, project)
            _verify_bindings(found, store, project)
        _verify_stored_judgments(found, store)
        _verify_grades(found, store)
        if regrade:
            with _again(found, "grade", path.name):
                _rescore_warehouse(found, store)
        _verify_editions(found, store)
        _verify_marts(found, store)
        _verify_views(found, store)
        _verify_published(found, store, Warehouse(path).published)
    if project is not None and path == project.warehouse:
        for export in project.exports:
            if export.path.is_file():
                part = verify_export(export.path, project)
                found.checked.update(part.checked)
                found.broken += part.broken
                found.unchecked += part.unchecked
    return found


@contextmanager
def _again(found: Verification, step: str, subject: str) -> Iterator[None]:
    """Take what cannot be made again, since something stored is no longer what it was, as broken.

    The reason names no value: what is stored may be secret.
    """
    try:
        yield
    except (duckdb.Error, ToolscoreError, ValueError, LookupError, TypeError, AttributeError):
        found.breaks(step, subject, "it cannot be made again from what is stored")


LOCK_SECONDS = 60.0


class _Store:
    """A warehouse attached read-only, beside an engine in memory."""

    def __init__(self, path: Path) -> None:
        from toolscore_pipeline.runner import Engine

        self.engine = Engine()
        self.plan = self.engine.plan
        self.connection = self.engine.connection
        self.connection.execute("set preserve_insertion_order = true")
        self._attach(path)

    def _attach(self, path: Path) -> None:
        from toolscore_pipeline.errors import WarehouseError

        # ATTACH takes no parameters: the path is a quoted literal.
        literal = "'" + str(path).replace("'", "''") + "'"
        started = time.monotonic()
        while True:
            try:
                self.connection.execute(f"attach {literal} as stored (read_only)")
                return
            except duckdb.Error as error:
                message = str(error).strip().splitlines()[0]
                is_locked = "lock on file" in message
                if not is_locked or time.monotonic() - started > LOCK_SECONDS:
                    raise WarehouseError(f"{path}: {message}") from None
                time.sleep(0.2)

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def rows(self, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.connection.execute(query, parameters or []).fetchall()

    def inside(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query whose tables are those of the warehouse."""
        self.connection.execute("use stored")
        try:
            return self.rows(query)
        finally:
            self.connection.execute("use memory")

    @contextmanager
    def attached(self, file: Path, name: str, options: str = "") -> Iterator[None]:
        """Another file beside it, which may be used and is let go of after."""
        literal = "'" + str(file).replace("'", "''") + "'"  # ATTACH takes no parameters
        self.connection.execute(f"attach {literal} as {name}{options}")
        try:
            yield
        finally:
            self.connection.execute("use memory")
            self.connection.execute(f"detach {name}")

    def definitions(self, catalog: str) -> dict[str, str]:
        """The views and macros of a catalog without white space, by kind and name."""
        rows = self.rows(
            """
            select 'view ' || schema_name || '.' || view_name, sql
            from duckdb_views() where database_name = $1 and not internal
            union all
            select
                'macro ' || function_name,
                string_agg(
                    parameters::varchar || macro_definition,
                    ';' order by parameters::varchar || macro_definition
                )
            from duckdb_functions()
            where database_name = $1 and not internal and macro_definition is not null
            group by function_name
            """,
            [catalog],
        )
        return {name: "".join(text.split()) for name, text in rows}

    def check_shape(self, found: Verification) -> bool:
        """Whether every stored table is there with its columns."""
        columns: dict[str, list[str]] = {}
        for schema, table, column in self.rows(
            "select schema_name, table_name, column_name from duckdb_columns()"
            " where database_name = 'stored' and not internal order by column_index"
        ):
            columns.setdefault(f"{schema}.{table}", []).append(column)
        is_whole = True
        for model in self.plan:
            if model.kind not in ("table", "incremental") or model.layer == "work":
                continue
            actual = columns.get(model.full_name)
            if actual != list(model.column_names):
                what = "is missing" if actual is None else "has other columns than its model"
                found.breaks("mart", model.full_name, f"the table {what}; run toolscore build")
                is_whole = False
        return is_whole

    def differences(
        self, left: str, right: str, columns: Iterable[str], key: str, limit: int = MOST_LISTED
    ) -> list[str]:
        """Keys of the rows of one relation that the other does not have in the same form."""
        listed = ", ".join(f'"{name}"' for name in columns)
        return [
            str(row[0])
            for row in self.rows(
                f"select distinct {key} from (select {listed} from {left}"
                f" except all select {listed} from {right}) order by all limit {int(limit)}"
            )
        ]


def _verify_documents(found: Verification, store: _Store, project: Project) -> None:
    """Hash the sources, read them again, and hold every stored row of them against that."""
    from toolscore_pipeline.loading import load_documents

    connection = store.connection
    connection.execute("create or replace table work.met_runs (run_id varchar)")
    connection.execute(
        "create or replace table work.met_calls (run_id varchar, call_index integer)"
    )
    connection.execute("create or replace table work.seen_runs (run_id varchar)")
    connection.execute(
        "create or replace table work.seen_documents as from stored.raw.documents limit 0"
    )
    connection.execute(
        "create or replace table work.seen_rejects as from stored.raw.rejects limit 0"
    )
    sources = [s for s in project.sources if s.query is not None or _has_files(s)]
    for batch in load_documents(sources):
        _compare_batch(store, batch)
    documents = store.plan["raw.documents"]
    timeless = [n for n in documents.column_names if n not in ("modified_ns", "loader_version")]
    other_readers = store.rows(
        "select count(*) from stored.raw.documents as stored inner join work.seen_documents as seen"
        " using (path) where stored.loader_version != seen.loader_version"
    )[0][0]
    if other_readers:
        found.skips(
            "source", f"{other_readers} documents", "another version of the loader read them"
        )
    stored = dict(store.rows("select path, sha256 from stored.raw.documents"))
    again = dict(store.rows("select path, sha256 from work.seen_documents"))
    for path, sha256 in stored.items():
        if path not in again:
            found.breaks("source", path, "the document is gone")
        elif again[path] != sha256:
            found.breaks("source", path, "its bytes are others than those that were read")
        else:
            found.holds("source")
    for path in sorted(again.keys() - stored.keys()):
        found.skips("source", path, "it was not read yet; run toolscore build")
    changed = {path for path in stored if again.get(path) != stored[path]}
    for path in store.differences("stored.raw.documents", "work.seen_documents", timeless, "path"):
        if path not in changed:
            found.breaks("source", path, "what is stored of the document is not what it says")
    rejects = store.plan["raw.rejects"].column_names
    for path in {
        *store.differences("stored.raw.rejects", "work.seen_rejects", rejects, "path"),
        *store.differences("work.seen_rejects", "stored.raw.rejects", rejects, "path"),
    }:
        if path not in changed and path in stored:
            found.breaks("source", path, "the records set aside are not those it holds")
    for path, count in store.rows(
        "select path, count(*) from stored.evidence.runs"
        " anti join stored.raw.documents using (path) group by all order by all"
    ):
        found.breaks("source", str(path), f"{count} runs were read from it, and it is not listed")
    _report_evidence(found, store, changed)


def _has_files(source: Any) -> bool:
    from toolscore_pipeline.loading import find_files

    try:
        return bool(find_files(source))
    except InputError:
        return False


def _compare_batch(store: _Store, batch: Any) -> None:
    """Note the stored rows that a batch, read now, has in the very same form."""
    from toolscore_pipeline.runner import insert_arrow

    connection, engine, plan = store.connection, store.engine, store.plan
    engine.fill("evidence.runs", batch.runs)
    engine.fill("evidence.calls", batch.calls)
    runs = ", ".join(plan["evidence.runs"].column_names)
    calls = ", ".join(plan["evidence.calls"].column_names)
    connection.execute("insert into work.seen_runs select run_id from evidence.runs")
    connection.execute(
        f"insert into work.met_runs select run_id from (select {runs} from evidence.runs"
        f" intersect select {runs} from stored.evidence.runs"
        " semi join evidence.runs using (run_id))"
    )
    connection.execute(
        f"insert into work.met_calls select run_id, call_index from (select {calls}"
        f" from evidence.calls intersect select {calls} from stored.evidence.calls"
        " semi join evidence.runs using (run_id))"
    )
    connection.execute("use memory")
    for name, rows in (("documents", batch.documents), ("rejects", batch.rejects)):
        model = replace(plan[f"raw.{name}"], layer="work", name=f"seen_{name}")
        insert_arrow(connection, model, rows)


def _report_evidence(found: Verification, store: _Store, changed: set[str]) -> None:
    """Say which stored runs and calls their sources do not hold, and which runs are missing."""
    held = store.rows("select count(distinct run_id) from work.met_runs")[0][0]
    for run_id, path, locator in store.rows(
        "select run_id, path, locator from stored.evidence.runs"
        " anti join work.met_runs using (run_id) order by all"
    ):
        if path not in changed:
            found.breaks("evidence", _run(run_id, path, locator), "its source says otherwise")
    for run_id, path, locator, count in store.rows(
        "select run_id, path, locator, count(*) from stored.evidence.calls"
        " anti join work.met_calls using (run_id, call_index)"
        " left join (select run_id, path, locator from stored.evidence.runs) using (run_id)"
        " group by all order by all"
    ):
        if path not in changed:
            found.breaks(
                "evidence",
                _run(run_id, path, locator),
                f"its source says otherwise of {count} calls",
            )
    for run_id, path, locator in store.rows(
        "select run_id, path, locator from stored.evidence.runs inner join ("
        " select run_id from stored.evidence.runs left join (select run_id, count(*) as there"
        " from stored.evidence.calls group by all) using (run_id)"
        " where coalesce(there, 0) != call_count) using (run_id) order by all"
    ):
        found.breaks("evidence", _run(run_id, path, locator), "some of its calls are missing")
    for name, keys in (("run", "run_id"), ("call", "run_id, call_index")):
        for run_id, *_ in store.rows(
            f"select {keys} from stored.evidence.{name}s group by all having count(*) > 1"
            " order by all"
        ):
            found.breaks("evidence", str(run_id)[:12], f"the same {name} is there twice")
    unread = store.rows(
        "select count(distinct run_id) from work.seen_runs"
        " anti join stored.evidence.runs using (run_id)"
    )[0][0]
    if unread and not changed:
        known = store.rows(
            "select count(*) from work.seen_documents anti join stored.raw.documents using (path)"
        )[0][0]
        if not known:
            found.breaks("evidence", f"{unread} runs", "they are in the sources and not stored")
    found.holds("evidence", int(held))


def _run(run_id: str, path: str | None, locator: str | None) -> str:
    return f"{run_id[:12]} ({' '.join(part for part in (path, locator) if part)})"


def _verify_bindings(found: Verification, store: _Store, project: Project) -> None:
    """Hold the bindings and settings against the files of the project."""
    from toolscore_pipeline.pipeline import comparison_settings

    try:
        bindings = project.bindings()
        comparisons = comparison_settings(project)
    except ToolscoreError as error:
        found.breaks("judgment", project.file.name, str(error).splitlines()[0])
        return
    now: Counter[tuple[Any, ...]] = Counter(
        (
            b.judgment.judgment_id,
            b.name,
            b.task,
            b.task_pattern,
            b.variant,
            b.source,
            b.path,
            b.sha256,
        )
        for b in bindings
    )
    stored = Counter(
        store.rows(
            "select judgment_id, name, task, task_pattern, variant, source, path, sha256"
            " from stored.judgment.bindings"
        )
    )
    for row in sorted((stored - now) + (now - stored), key=repr):
        what = "changed since it was read" if stored[row] else "is not bound as it is now"
        found.breaks("judgment", str(row[6]), f"the contract {what}")
    found.holds("judgment", (now & stored).total())
    from toolscore_pipeline.runner import insert_arrow

    model = store.plan["settings.comparisons"]
    store.connection.execute("truncate settings.comparisons")
    insert_arrow(store.connection, model, comparisons)
    _same_rows(
        found, store, "judgment", "settings.comparisons", "stored.settings.comparisons",
        "settings.comparisons", model.column_names,
    )  # fmt: skip


def _same_rows(
    found: Verification,
    store: _Store,
    step: str,
    subject: str,
    left: str,
    right: str,
    columns: Iterable[str],
) -> None:
    """Whether two relations have the same rows, each as often."""
    listed = ", ".join(f'"{name}"' for name in columns)
    count = store.rows(
        f"select (select count(*) from (select {listed} from {left} except all"
        f" select {listed} from {right})) + (select count(*) from (select {listed} from {right}"
        f" except all select {listed} from {left}))"
    )[0][0]
    reason = f"{count} rows are not what they are made from" if count else None
    found.decide(step, subject, reason)


def _verify_stored_judgments(found: Verification, store: _Store) -> None:
    """Compile every stored judgment again and compare all that is stored of it."""
    from toolscore_pipeline.judgments import Judgment, judgment_from_json, judgment_tables
    from toolscore_pipeline.runner import insert_arrow

    judgments: list[Judgment] = []
    seen: set[str] = set()
    for judgment_id, text in store.rows(
        "select judgment_id, judgment_json from stored.judgment.judgments order by judgment_id"
    ):
        subject = str(judgment_id)[:12]
        if judgment_id in seen:
            found.breaks("judgment", subject, "the same judgment is there twice")
            continue
        seen.add(judgment_id)
        try:
            judgment = judgment_from_json(text)
        except (ToolscoreError, ValueError, LookupError, TypeError, AttributeError):
            found.breaks("judgment", subject, "its stored form cannot be read")
            continue
        # What is stored is the canonical text itself, not only something that means the same.
        same = (judgment.judgment_id, judgment.judgment_json) == (judgment_id, text)
        if found.decide("judgment", subject, None if same else "its stored form has another hash"):
            judgments.append(judgment)
    for name, rows in judgment_tables(judgments).items():
        model = store.plan[f"judgment.{name}"]
        store.connection.execute(f"truncate {model.full_name}")
        insert_arrow(store.connection, model, rows)
        _same_rows(
            found, store, "judgment", model.full_name, f"stored.{model.full_name}",
            model.full_name, model.column_names,
        )  # fmt: skip


def _verify_grades(found: Verification, store: _Store) -> None:
    """Hold every grade against the hashes it joins, and its parts against each other."""
    total = store.rows("select count(*) from stored.grades.grades")[0][0]
    wrong = store.rows(
        """
        select run_id, judgment_id from stored.grades.grades
        where grade_id is distinct from sha256(
            '{"evidence":"' || evidence_sha256 || '","grader":"' || grader_version
            || '","judgment":"' || judgment_id || '"}'
        )
        """
    )
    for run_id, _ in wrong:
        found.breaks("grade", str(run_id)[:12], "its hash is that of other parts")
    for (run_id,) in store.rows(
        "select grades.run_id from stored.grades.grades as grades"
        " inner join stored.evidence.runs as runs using (run_id)"
        " where grades.evidence_sha256 is distinct from runs.evidence_sha256 order by all"
    ):
        found.breaks("grade", str(run_id)[:12], "it is a grade of other evidence")
    for (run_id,) in store.rows(
        "select run_id from stored.grades.grades anti join stored.judgment.judgments"
        " using (judgment_id) order by all"
    ):
        found.breaks("grade", str(run_id)[:12], "the judgment it names is not there")
    keys = "run_id, judgment_id, grader_version"
    for name in ("metrics", "checks", "findings", "expectations"):
        for run_id, _, _ in store.rows(
            f"select distinct {keys} from stored.grades.{name}"
            f" anti join stored.grades.grades using ({keys}) order by all"
        ):
            found.breaks("grade", str(run_id)[:12], f"it has {name} and no grade")
    for (run_id,) in store.rows(
        f"select run_id from (select {keys} from stored.grades.grades group by all"
        " having count(*) > 1) order by all"
    ):
        found.breaks("grade", str(run_id)[:12], "the same grade is there twice")
    for (run_id,) in store.rows(
        f"select grades.run_id from stored.grades.grades as grades left join ("
        f" select {keys}, count(*) as there from stored.grades.metrics group by all)"
        f" using ({keys}) where there is distinct from 1 order by all"
    ):
        found.breaks("grade", str(run_id)[:12], "its metrics are not there once")
    for (run_id,) in store.rows(
        f"select grades.run_id from stored.grades.grades as grades left join (select {keys},"
        " count(*) filter (where status = 'pass') as passes,"
        " count(*) filter (where status = 'fail') as fails,"
        " count(*) filter (where status = 'unknown') as unknowns,"
        f" count(*) as total from stored.grades.checks group by all) using ({keys})"
        " where (pass_count, fail_count, unknown_count, pass_count + fail_count + unknown_count)"
        " is distinct from (passes, fails, unknowns, total) order by all"
    ):
        found.breaks("grade", str(run_id)[:12], "its checks are not those that it counts")
    found.holds("grade", int(total) - len(wrong))
    pending = store.inside("select count(*) from grades.pending")[0][0]
    if pending:
        found.skips("grade", f"{pending} pairs", "they are not graded yet; run toolscore build")


def _rescore_warehouse(found: Verification, store: _Store) -> None:
    """Grade every stored run again, a chunk at a time, and compare every number."""
    from toolscore_pipeline.pipeline import CHUNK_PAIRS
    from toolscore_pipeline.plan import grader_version
    from toolscore_pipeline.runner import OUTPUTS

    connection, engine = store.connection, store.engine
    version = grader_version()
    others = store.rows(
        "select count(*) from stored.grades.grades where grader_version != $1", [version]
    )[0][0]
    if others:
        found.skips("grade", f"{others} grades", "they were made by other formulas than these")
    pairs: pa.Table = connection.sql(
        "select run_id, judgment_id from stored.grades.grades semi join stored.evidence.runs"
        " using (run_id) semi join stored.judgment.judgments using (judgment_id)"
        " where grader_version = $1 order by all",
        params=[version],
    ).to_arrow_table()
    connection.execute("truncate settings.grader")
    connection.execute("insert into settings.grader values ($1)", [version])
    for start in range(0, pairs.num_rows, CHUNK_PAIRS):
        engine.set_pairs(pairs.slice(start, CHUNK_PAIRS))
        for name, key in (
            ("evidence.runs", "run_id"),
            ("evidence.calls", "run_id"),
            *((f"judgment.{name}", "judgment_id") for name in _JUDGMENT_TABLES),
        ):
            connection.execute(f"truncate {name}")
            connection.execute(
                f"insert into {name} select * from stored.{name} semi join work.pairs using ({key})"
            )
        for name in ("judgment.patterns", "judgment.pattern_args"):
            connection.execute(f"truncate {name}")
            connection.execute(f"insert into {name} select * from stored.{name}")
        engine.build(OUTPUTS)
        _compare_outputs(found, store, version)


_JUDGMENT_TABLES = (
    "judgments",
    "combinations",
    "expected_calls",
    "optional_calls",
    "forbidden_rules",
    "side_effects",
)


def _compare_outputs(found: Verification, store: _Store, version: str) -> None:
    from toolscore_pipeline.runner import OUTPUTS

    for name in OUTPUTS:
        _compare_output(found, store, version, name)


def _compare_output(found: Verification, store: _Store, version: str, name: str) -> None:
    """Hold what is stored of the pairs just graded against what the engine made of them."""
    columns = ", ".join(f'"{column}"' for column in store.plan[name].column_names)
    stored = (
        f"(select {columns} from stored.{name} semi join work.pairs using (run_id, judgment_id)"
        f" where grader_version = '{version}')"
    )
    moved = store.rows(
        f"select distinct run_id from (({stored} except all select {columns} from {name})"
        f" union all (select {columns} from {name} except all {stored})) order by all"
    )
    for (run_id,) in moved:
        found.breaks("grade", str(run_id)[:12], f"graded again it has other {name.split('.')[1]}")
    found.holds("grade", not moved)


def _verify_editions(found: Verification, store: _Store) -> None:
    """Hold the newest edition against what grades are made with now."""
    columns = "judgment_id, name, task, task_pattern, variant, source"
    newest = (
        f"(select {columns} from stored.receipts.edition_bindings"
        " where edition = (select max(edition) from stored.receipts.editions))"
    )
    bound = f"(select distinct {columns} from stored.judgment.bindings)"
    rows = store.rows(
        f"""
        select
            (select list(edition order by edition) from stored.receipts.editions),
            (select count(*) from (
                ({bound} except all {newest}) union all ({newest} except all {bound})
            )),
            (select count(*) from stored.settings.grader anti join (
                from stored.receipts.editions
                where edition = (select max(edition) from stored.receipts.editions)
            ) using (grader_version)),
            (select count(*) from stored.settings.grader),
            (select count(*) from stored.receipts.edition_bindings
                anti join stored.receipts.editions using (edition)),
            (select count(*) - count(distinct bound) from stored.receipts.edition_bindings as bound)
        """
    )
    editions, bindings, versions, graders, strays, doubles = rows[0]
    if graders != 1:
        found.breaks("edition", "settings.grader", f"expected one grader version, got {graders}")
    if strays:
        found.breaks("edition", "receipts.edition_bindings", f"{strays} are of no edition")
    if doubles:
        found.breaks("edition", "receipts.edition_bindings", f"{doubles} are there twice")
    if editions and list(editions) != list(range(1, len(editions) + 1)):
        found.breaks("edition", "receipts.editions", "they are not numbered from 1")
    elif editions and (bindings or versions):
        found.breaks("edition", f"{editions[-1]}", "grades are made otherwise than it says")
    else:
        found.holds("edition")
    lost = store.rows(
        "select count(*) from stored.receipts.edition_bindings"
        " anti join stored.judgment.judgments using (judgment_id)"
    )[0][0]
    if lost:
        found.breaks("edition", "receipts.edition_bindings", f"{lost} name no stored judgment")


def _verify_marts(found: Verification, store: _Store) -> None:
    """Make every mart again from what is stored, and compare."""
    from toolscore_pipeline.pipeline import is_staged

    for model in store.plan.layer("marts"):
        if model.kind == "table" and not is_staged(model):
            with _again(found, "mart", model.full_name):
                _verify_mart(found, store, model)
    with _again(found, "mart", "marts.comparison_reports"):
        _verify_decisions(found, store)


def _verify_mart(found: Verification, store: _Store, model: Model) -> None:
    """Make a mart again and compare."""
    columns = ", ".join(f'"{name}"' for name in model.column_names)
    count = store.inside(
        f"with made as materialized (select {columns} from ({model.query})),"
        f" kept as (select {columns} from {model.full_name})"
        " select (select count(*) from (from made except all from kept))"
        " + (select count(*) from (from kept except all from made))"
    )[0][0]
    found.decide(
        "mart",
        model.full_name,
        f"{count} rows are not what its query gives" if count else None,
    )


def _verify_decisions(found: Verification, store: _Store) -> None:
    """Decide again what Python decides, from the history that is kept, and compare."""
    from datetime import UTC, datetime

    from toolscore_pipeline.runner import insert_arrow
    from toolscore_pipeline.stats import marts as decisions

    connection = store.connection
    connection.execute("use stored")
    try:
        history = {
            name: connection.sql(f"select * from marts.{name}").to_arrow_table()
            for name in ("protocol_declarations", "protocol_decisions")
        }
        tables = decisions.decide(
            connection,
            datetime.now(UTC),
            history["protocol_declarations"],
            history["protocol_decisions"],
        )
    finally:
        connection.execute("use memory")
    for name, rows in tables.items():
        model = replace(store.plan[f"marts.{name}"], layer="work", name=f"made_{name}")
        fields = ", ".join(f"{column.name} {column.type}" for column in model.columns)
        connection.execute(f"create or replace table {model.full_name} ({fields})")
        insert_arrow(connection, model, rows)
        _same_rows(
            found, store, "mart", f"marts.{name}", f"stored.marts.{name}", model.full_name,
            model.column_names,
        )  # fmt: skip
    _verify_declarations(found, store)
    _verify_standing_decisions(found, store, tables)


def _verify_declarations(found: Verification, store: _Store) -> None:
    """Hold every protocol ever declared against its hash."""
    for comparison, sha256, title, text in store.rows(
        "select comparison, protocol_sha256, title, protocol_json"
        " from stored.marts.protocol_declarations order by all"
    ):
        try:
            protocol = json.loads(text)
            same = (json_sha256(protocol), protocol.get("title", "")) == (sha256, title or "")
            same = same and canonical_json(protocol) == text.encode()
        except (ValueError, TypeError, AttributeError):
            same = False
        reason = None if same else "the protocol declared is not the one whose hash it has"
        found.decide("mart", f"marts.protocol_declarations {comparison}", reason)
    for (comparison,) in store.rows(
        "select comparison from stored.marts.protocol_declarations"
        " group by comparison, protocol_sha256 having count(*) > 1 order by all"
    ):
        reason = "the same protocol is declared twice"
        found.breaks("mart", f"marts.protocol_declarations {comparison}", reason)


# What a decision says apart from instants, which stay those of when it was made.
_DECIDED = (
    "decision_id",
    "comparison",
    "protocol_sha256",
    "title",
    "baseline",
    "candidate",
    "decision",
    "rule_statuses",
)


def _verify_standing_decisions(
    found: Verification, store: _Store, tables: Mapping[str, pa.Table]
) -> None:
    """Hold the decisions that stand against those made now, and all against their declarations."""
    from datetime import UTC, datetime

    from toolscore_pipeline.stats import marts as decisions

    connection = store.connection
    connection.execute("use stored")
    try:
        declared = tables["protocol_declarations"]
        anew = decisions.decide(connection, datetime.now(UTC), declared, None)
    finally:
        connection.execute("use memory")
    listed = ", ".join(_DECIDED)
    standing = set()
    for row in anew["protocol_decisions"].select(list(_DECIDED)).to_pylist():
        standing.add(tuple(map(_hashable, row.values())))
    stored = [
        tuple(map(_hashable, row))
        for row in store.rows(
            f"select {listed} from stored.marts.protocol_decisions where is_current"
        )
    ]
    for decision in sorted(set(stored) ^ standing, key=repr):
        reason = "the decision that stands is not the one that its runs lead to"
        found.breaks("mart", f"marts.protocol_decisions {decision[1]}", reason)
    for (comparison,) in store.rows(
        """
        select comparison
        from stored.marts.protocol_decisions as decided
        left join stored.marts.protocol_declarations as declared
            using (comparison, protocol_sha256)
        where
            decided.declared_at is distinct from declared.declared_at
            or decided.title is distinct from declared.title
            or decided.baseline is distinct from (declared.protocol_json->>'$.baseline')
            or decided.candidate is distinct from (declared.protocol_json->>'$.candidate')
            or decided.is_declared_late
                is distinct from (decided.declared_at > decided.first_run_at)
            or decided.is_changed_late is distinct from (
                case
                    when decided.is_declared_late is not null
                    then decided.is_declared_late and exists (
                        from stored.marts.protocol_declarations as earlier
                        where
                            earlier.comparison = decided.comparison
                            and earlier.declared_at < decided.declared_at
                    )
                end
            )
            or decided.decided_at is null
        union all
        select comparison
        from stored.marts.protocol_decisions
        group by comparison, decision_id, decided_at having count(*) > 1
        order by all
        """
    ):
        reason = "a decision does not agree with what was declared"
        found.breaks("mart", f"marts.protocol_decisions {comparison}", reason)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _verify_views(found: Verification, store: _Store) -> None:
    """Hold stored views and macros against their files: rows may be whole and a view tell lies."""
    there = store.definitions("stored")
    views = [model for model in store.plan if model.kind == "view"]
    made = _definitions_made_now(store, views)
    for model in views:
        name = f"view {model.full_name}"
        if name not in there:
            found.skips("mart", model.full_name, "the view is missing; run toolscore build")
            continue
        same = there[name] == made[name] or _has_same_rows(store, model)
        reason = None if same else "the view is not that of its model"
        found.decide("mart", model.full_name, reason)
    for name in sorted(name for name in made if name.startswith("macro ")):
        if name in there:
            if there[name] == made[name]:
                found.holds("mart")
            else:  # versions of DuckDB write them differently; the next build makes them anew
                found.skips("mart", name, "it is written otherwise than in sql/macros")


def _has_same_rows(store: _Store, model: Model) -> bool:
    """Whether a stored view gives what its model gives; for queries that are written otherwise."""
    columns = ", ".join(f'"{name}"' for name in model.column_names)
    try:
        moved = store.inside(
            f"with made as materialized (select {columns} from ({model.query})),"
            f" kept as materialized (select {columns} from {model.full_name})"
            " select (select count(*) from (from made except all from kept))"
            " + (select count(*) from (from kept except all from made))"
        )
    except duckdb.Error:  # it has other columns, or cannot be read at all
        return False
    return not moved[0][0]


def _definitions_made_now(store: _Store, views: Iterable[Model]) -> dict[str, str]:
    """Views and macros of the files, as DuckDB shows them once they have been in a file."""
    from toolscore_pipeline.runner import create_macros, create_schemas, create_table

    connection = store.connection
    with tempfile.TemporaryDirectory(prefix="toolscore-") as folder:
        file = Path(folder) / "made.duckdb"
        with store.attached(file, "made"):
            connection.execute("use made")
            connection.execute("begin")
            create_schemas(connection, sorted({model.layer for model in store.plan}))
            create_macros(connection)
            for model in store.plan:
                if model.kind in ("table", "incremental"):
                    connection.execute(create_table(model))
            for model in views:
                connection.execute(f"create view {model.full_name} as {model.query}")
            connection.execute("commit")
        with store.attached(file, "made", " (read_only)"):
            return store.definitions("made")


def _verify_published(found: Verification, store: _Store, published: Path) -> None:
    """Hold the published copy against the warehouse, table by table."""
    if not published.is_file():
        found.skips("published", published.name, "nothing has been published yet")
        return
    from toolscore_pipeline.runner import table_hash

    stored = [m for m in store.plan if m.kind in ("table", "incremental") and m.layer != "work"]
    store.connection.execute("use stored")
    try:
        expected = {model.full_name: table_hash(store.connection, model) for model in stored}
    finally:
        store.connection.execute("use memory")
    try:
        with connect(str(published), read_only=True) as copy:
            for model in stored:
                same = table_hash(copy, model) == expected[model.full_name]
                reason = None if same else "the published copy has other rows"
                found.decide("published", model.full_name, reason)
    except duckdb.Error as error:
        message = str(error).strip().splitlines()[0]
        found.breaks("published", published.name, f"it cannot be read: {message}")
