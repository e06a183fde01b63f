"""Run records into Agent Eval Flow: a study made from an export's manifest, and an importer.

::

    from agent_eval_flow import EvaluationPipeline, RunSet
    from toolscore_pipeline.aef import RunRecordImporter, study_from_export

    study = study_from_export("records.jsonl")
    runs = RunSet.import_from("records.jsonl", plan=study.plan(), importer=RunRecordImporter())
    result = EvaluationPipeline(study=study, evaluators={}).eval(runs=runs)

The plan is a full cross product of variants, tasks and repetitions, so a run that was never
recorded stays in it as unobserved. Everything edited, duplicated, outside the plan or of another
schema is refused with Agent Eval Flow's own ``CaptureValidationError``. Needs the extra ``aef``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.export import manifest_path, validate_manifest, validate_record
from toolscore_pipeline.export.bundles import Evidence
from toolscore_pipeline.export.manifest import producer
from toolscore_pipeline.export.records import SCHEMA_NAME, SCHEMA_VERSION
from toolscore_pipeline.hashing import file_sha256, json_sha256
from toolscore_pipeline.jsonio import strict_loads

SUPPORTED_VERSION = "0.6.0"
BOUNDARY = "toolscore.run"
"""The boundary of the tool traces: every call of a run, seen by whoever recorded it."""
CHANNEL = "toolscore"
"""The channel of the grades that come with the records."""
UNNAMED = "unnamed"
"""What a variant or task without a name is called in a plan, which needs one."""

# What a record says that Agent Eval Flow has no slot for.
OMITTED = (
    "attributes", "completed_calls[].completed_at", "completed_calls[].cost",
    "completed_calls[].duration_seconds", "completed_calls[].pairing", "duration_seconds",
    "evaluation.evidence.checks[].detail", "requested_calls[].arguments_raw",
    "requested_calls[].executor", "requested_calls[].requested_at", "usage.recorded", "warnings",
)  # fmt: skip
# The grades of a record as metrics: name, type, role, and how a result is summed up.
_METRICS = (
    ("outcome", "text", "quality", None),
    ("passed", "bool", "quality", "rate"),
    ("score", "float", "quality", "mean"),
    ("failed_calls", "int", "diagnostic", "sum"),
    ("checks_passed", "int", "diagnostic", "sum"),
    ("checks_failed", "int", "diagnostic", "sum"),
    ("checks_unknown", "int", "diagnostic", "sum"),
    ("duration_seconds", "float", "resource", "mean"),
)


def load_aef() -> Any:
    """The package ``agent_eval_flow``.

    Raises:
        UsageError: it is not installed, or another version is.
    """
    import importlib

    try:
        package = importlib.import_module("agent_eval_flow")
    except ImportError:
        raise UsageError(
            "Agent Eval Flow is not installed: pip install 'toolscore-pipeline[aef]'"
        ) from None
    if package.__version__ != SUPPORTED_VERSION:
        raise UsageError(
            f"Agent Eval Flow {package.__version__} is installed; run records are imported into"
            f" {SUPPORTED_VERSION}: pip install 'toolscore-pipeline[aef]'"
        )
    return package


def read_manifest(source: str | Path) -> dict[str, Any]:
    """The manifest of an export, given its records' file, its manifest, or the folder of a bundle.

    Raises:
        InputError: there is none, it is none of ours, or it was changed.
    """
    path = find_records(source)
    file = manifest_path(path)
    try:
        data = file.read_bytes()
        value, flags = strict_loads(data)
        if "lone_surrogate" in flags:  # its hash is of the text as it was
            value = json.loads(data)
    except FileNotFoundError:
        raise InputError("there is no manifest of these records", path=file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from None
    except InputError as error:
        raise InputError(error.reason, path=file) from None
    problems = validate_manifest(value)
    if problems:
        raise InputError("; ".join(problems[:5]), path=file)
    found: dict[str, Any] = value
    sealed = {name: item for name, item in found.items() if name != "manifest_sha256"}
    if found["manifest_sha256"] != json_sha256(sealed):
        raise InputError("the manifest was changed since it was written", path=file)
    return found


def find_records(source: str | Path) -> Path:
    """The records' file of an export, given it, its manifest, or the folder it lies in alone.

    Raises:
        InputError: there is no such file, or the folder holds several exports.
    """
    path = Path(source)
    if path.is_dir():
        found = sorted(path.glob("*.manifest.json"))
        if len(found) != 1:
            raise InputError(f"expected one export in the folder, found {len(found)}", path=path)
        path = found[0]
    if path.name.endswith(".manifest.json"):
        path = path.with_name(path.name.removesuffix(".manifest.json"))
    if not path.is_file():
        raise InputError("there is no such file", path=path)
    return path


# --- the study ------------------------------------------------------------------------------------


def study_from_export(manifest: Mapping[str, Any] | str | Path, *, toolscore: bool = False) -> Any:
    """The study that an export is the record of.

    Args:
        manifest: the manifest of an export, or where it or its records lie.
        toolscore: add the metrics of Agent Eval Flow's own Toolscore evaluator, for tasks whose
            expected calls the manifest names.

    Returns:
        An ``agent_eval_flow.Study``: tasks with their inputs, variants as candidates, the
        repetitions and the limit of the manifest, the grades of the records as metrics, and a
        contrast when the manifest names a baseline and a candidate.

    Raises:
        InputError: the manifest cannot be read, or names no task.
        UsageError: Agent Eval Flow is not installed.
    """
    o = load_aef()
    if not isinstance(manifest, Mapping):
        manifest = read_manifest(manifest)
    if not manifest["tasks"]:
        raise InputError("the export holds no runs, so there is nothing to study")
    study = manifest["study"]
    prefix = study["id"].strip() or "study"
    metrics = [
        o.MetricSpec(
            id=f"toolscore.{name}",
            source=o.NativeGradeSource(channel=CHANNEL, native_metric=name),
            output_type=kind,
            role=role,
        )
        for name, kind, role, _ in _METRICS
    ]
    dataset = _dataset(o, manifest, prefix)
    if toolscore and dataset.references:
        from importlib import import_module

        tools = import_module("agent_eval_flow.evaluation.toolscore")
        metrics += tools.toolscore_metrics(boundary=BOUNDARY)
    summaries = [
        o.SummarySpec(id=f"toolscore.{name}.{reducer}", metric=f"toolscore.{name}", reducer=reducer)
        for name, _, _, reducer in _METRICS
        if reducer is not None
    ]
    summaries += [
        o.SummarySpec(id="run.completed.rate", metric="run.completed", reducer="rate"),
        o.SummarySpec(id="run.cost_usd.sum", metric="run.cost_usd", reducer="sum"),
        o.SummarySpec(id="run.input_tokens.sum", metric="run.input_tokens", reducer="sum"),
        o.SummarySpec(id="run.output_tokens.sum", metric="run.output_tokens", reducer="sum"),
    ]
    comparison = manifest["comparison"]
    contrasts: tuple[Any, ...] = ()
    if comparison["baseline"] and comparison["candidate"]:
        contrasts = (
            o.Contrast(
                id="baseline",
                baseline=comparison["baseline"],
                challenger=comparison["candidate"],
                metrics=("toolscore.passed", "toolscore.score"),
            ),
        )
    names = _names(variant["id"] for variant in manifest["variants"])
    candidates = [_candidate(o, names, variant) for variant in manifest["variants"]]
    return o.Study(
        id=prefix,
        project_id=prefix,
        question=study["question"],
        dataset=dataset,
        candidates={candidate.id: candidate for candidate in candidates},
        suite=o.EvalSuite(
            id="toolscore.run-records",
            version=SCHEMA_VERSION,
            metrics=tuple(metrics),
            summaries=tuple(summaries),
            acceptance=o.AcceptanceRule(
                all_of=(o.Threshold(metric="toolscore.passed", op="==", value=True),)
            ),
        ),
        execution=o.ExecutionPolicy(
            budget=o.Budget(wall_time_s=float(study["limit"]["wall_time_seconds"])),
            cost_scope=tuple(study["cost_categories"]),
            repetitions=study["repetitions"],
            order_seed=None,
        ),
        contrasts=contrasts,
    )


def _dataset(o: Any, manifest: Mapping[str, Any], prefix: str) -> Any:
    units, contracts = [], []
    names = _names(task["id"] for task in manifest["tasks"])
    for task in manifest["tasks"]:
        name = names[task["id"]]
        units.append(
            {"task_id": name, "inputs": task["inputs"], "inputs_basis": task["inputs_basis"]}
        )
        expected = task["expectations"]
        if expected is not None:
            contracts.append(
                {
                    "task_id": name,
                    "contract": {
                        "schema_version": "1",
                        "id": expected["contract"] or name,
                        "revision": expected["revision"],
                        "calls": tuple(expected["calls"]),
                    },
                }
            )
    references = {}
    if contracts:
        references["tool_expectations"] = o.DataTable(
            rows=tuple(contracts),
            key=("task_id",),
            schema={"task_id": "str", "contract": "json"},
        )
    return o.EvalDataset(
        id=f"{prefix}.tasks",
        units=o.DataTable(
            rows=tuple(units),
            key=("task_id",),
            schema={"task_id": "str", "inputs": "json", "inputs_basis": "str"},
        ),
        unit_key=("task_id",),
        input_columns={"units": ("task_id", "inputs")},
        references=references,
    )


def _candidate(o: Any, names: Mapping[str | None, str], variant: Mapping[str, Any]) -> Any:
    components = {}
    for component in variant["components"]:
        name = base = component["kind"]
        number = 1
        while name in components:
            number += 1
            name = f"{base}-{number}"
        components[name] = o.ComponentSpec(
            kind=component["kind"],
            ref=o.VersionRef(name=component["name"], revision=component["revision"]),
        )
    backend = variant["backend"]
    return o.Candidate(
        id=names[variant["id"]],
        backend=o.VersionRef(name=backend["name"], revision=backend["revision"]),
        components=components,
        # Two variants may have been recorded with the same components; their names tell them apart.
        settings={**variant["settings"], "variant": variant["id"]},
    )


def _names(ids: Iterable[str | None]) -> dict[str | None, str]:
    """What variants or tasks are called in a plan: their ids, and a name of its own for none."""
    known = set(ids)
    names: dict[str | None, str] = {name: name for name in known if name is not None}
    if None in known:
        free, number = UNNAMED, 1
        while free in known:
            number += 1
            free = f"{UNNAMED}-{number}"
        names[None] = free
    return names


# --- the importer ---------------------------------------------------------------------------------


class RunRecordImporter:
    """Imports run records: ``RunSet.import_from(path, plan=plan, importer=RunRecordImporter())``.

    Calls become a tool trace of boundary :data:`BOUNDARY`, whose evidence opens the kept source
    when there is one, else the line of the record itself. Grades come along as retained native
    grades on the channel :data:`CHANNEL`: nothing is graded again.

    Attributes:
        ref: the importer's name and revision.
    """

    def __init__(self) -> None:
        o = load_aef()
        self.ref = o.VersionRef(
            name="toolscore-pipeline.run-records", revision=producer()["revision"]
        )

    def read(self, source: Path, *, plan: Any) -> Any:
        """Read an export into an ``ImportedCapture``.

        Args:
            source: the records' file; its manifest lies beside it.
            plan: the plan the runs belong to.

        Raises:
            CaptureValidationError: of Agent Eval Flow, with a sentence: the export was edited, a
                record is there twice, is outside the plan, has another schema or contradicts
                itself.
        """
        o = load_aef()
        try:
            manifest = read_manifest(source)
            _check_manifest(source, manifest)
        except InputError as error:
            raise _refused(o, "manifest", str(error)) from None
        if tuple(manifest["study"]["cost_categories"]) != tuple(plan.execution.cost_scope):
            raise _refused(
                o,
                "manifest.study.cost_categories",
                f"the records cost {', '.join(manifest['study']['cost_categories'])}, the plan"
                f" counts {', '.join(plan.execution.cost_scope)}",
            )
        mapper = _Mapper(o, self.ref, Path(source), manifest, plan)
        for line, record in _records(o, Path(source)):
            mapper.add(line, record)
        return mapper.capture()


def _refused(o: Any, path: str, message: str) -> Exception:
    issue = o.ValidationIssue(path=path, message=message, severity="error")
    error: Exception = o.CaptureValidationError(o.ValidationReport(issues=(issue,)))
    return error


def _check_manifest(source: Path, manifest: Mapping[str, Any]) -> None:
    """Hold an export's bytes against its manifest."""
    records = manifest["records"]
    schema = (records["schema"], records["schema_version"])
    expected, count = records["sha256"], records["count"]
    if schema != (SCHEMA_NAME, SCHEMA_VERSION):
        raise InputError(
            f"expected records of {SCHEMA_NAME} {SCHEMA_VERSION!r}, got {schema[0]} {schema[1]!r}",
            path=manifest_path(source),
        )
    sha256, _ = file_sha256(source)
    if sha256 != expected:
        raise InputError("the records were changed since they were exported", path=source)
    lines = sum(1 for line in Path(source).read_bytes().split(b"\n") if line.strip())
    if lines != count:
        raise InputError(
            f"the manifest counts {count} records, the file holds {lines}", path=source
        )
    problems = Evidence(Path(source).parent, manifest).problems()
    if problems:
        raise InputError("; ".join(problems))


def _records(o: Any, source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every record with its line; a record that is wrong is refused with all its problems."""
    for number, line in enumerate(source.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record, flags = strict_loads(line)
            if (
                "lone_surrogate" in flags
            ):  # they were made readable; the hashes are of what they were
                record = json.loads(line)
        except InputError as error:
            raise _refused(o, f"line {number}", error.reason) from None
        problems = validate_record(record)
        if problems:
            raise _refused(o, f"line {number}", "; ".join(problems[:5]))
        yield number, record


class _Mapper:
    """Maps records onto the runs of a plan."""

    def __init__(
        self, o: Any, ref: Any, source: Path, manifest: Mapping[str, Any], plan: Any
    ) -> None:
        from importlib import import_module

        self.o, self.ref, self.plan, self.manifest = o, ref, plan, manifest
        self.tools = import_module("agent_eval_flow.objects.tool_trace")
        self.evidence = Evidence(source.parent.resolve(), manifest)
        self.assignments = {
            (item.candidate_id, item.unit["task_id"], item.repetition): item.id
            for item in plan.assignments
        }
        self.variants = _names(variant["id"] for variant in manifest["variants"])
        self.tasks = _names(task["id"] for task in manifest["tasks"])
        self.seen: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        self.runs: list[Any] = []
        self.issues: list[Any] = []
        self.grades: dict[tuple[str, str], list[tuple[Any, Mapping[str, Any]]]] = {}
        self.records_file = o.ArtifactRef(
            uri=source.resolve().as_uri(),
            media_type="application/x-ndjson",
            sha256=manifest["records"]["sha256"],
        )
        self.artifacts = {
            entry["sha256"]: o.ArtifactRef(
                uri=path.as_uri(), media_type=entry["media_type"], sha256=entry["file_sha256"]
            )
            for entry in manifest["artifacts"]
            if (path := self.evidence.path(entry["sha256"])) is not None
        }
        for item in manifest["sources"]:
            self.artifacts.setdefault(item["sha256"], None)

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Map one record."""
        record_id = record["record_id"]
        if record_id in self.seen:
            raise _refused(
                self.o, f"line {line}", f"the record stands in line {self.seen[record_id]} already"
            )
        self.seen[record_id] = line
        variant, task = record["variant"], record["task_id"]
        key = (
            self.variants.get(variant, str(variant)),
            self.tasks.get(task, str(task)),
            record["repetition_index"],
        )
        assignment = self.assignments.get(key)
        if assignment is None:
            raise _refused(self.o, f"line {line}", self._outside(key))
        if assignment in self.taken:
            raise _refused(
                self.o,
                f"line {line}",
                f"the run of variant {key[0]!r}, task {key[1]!r}, repetition {key[2]} stands in"
                f" line {self.taken[assignment]} already",
            )
        self.taken[assignment] = line
        if record["source"]["sha256"] not in self.artifacts:
            raise _refused(self.o, f"line {line}", "its source is none that the manifest names")
        try:
            self.runs.append(self._run(line, record, assignment))
        except ValueError as error:  # an invariant of Agent Eval Flow's records
            raise _refused(self.o, f"line {line}", _sentence(error)) from None
        self._grade(line, record)

    def _outside(self, key: tuple[str, str, int]) -> str:
        variant, task, repetition = key
        variants = {item.candidate_id for item in self.plan.assignments}
        tasks = {item.unit["task_id"] for item in self.plan.assignments}
        if variant not in variants:
            return f"the variant {variant!r} is not in the plan"
        if task not in tasks:
            return f"the task {task!r} is not in the plan"
        count = self.plan.execution.repetitions
        return f"repetition {repetition} is not in the plan, which has {count}"

    def capture(self) -> Any:
        """Everything that was added, as Agent Eval Flow takes it."""
        o = self.o
        bundles = tuple(
            self._bundle(number, key, rows)
            for number, (key, rows) in enumerate(sorted(self.grades.items()))
        )
        return o.ImportedCapture(
            runs=tuple(self.runs),
            grading_inventory_complete=o.Observation(
                value=True, status="observed", reason="the records bring every grade with them"
            ),
            native_grades=bundles,
            projections=(self._projection(),),
        )

    def _projection(self) -> Any:
        o = self.o
        return o.ProjectionReport(
            mapper=self.ref,
            source_format=o.VersionRef(name=SCHEMA_NAME, revision=SCHEMA_VERSION),
            sources=(self.records_file, *(ref for ref in self.artifacts.values() if ref)),
            omitted_fields=OMITTED,
            issues=tuple(self.issues),
        )

    def _note(self, line: int, where: str, message: str) -> None:
        self.issues.append(
            self.o.ValidationIssue(path=f"line {line} {where}", message=message, severity="warning")
        )

    # --- runs -------------------------------------------------------------------------------------

    def _run(self, line: int, record: Mapping[str, Any], assignment: str) -> Any:
        o = self.o
        answer = record["final_answer"]
        started, ended = self._times(line, "$", record)
        scope = tuple(self.plan.execution.cost_scope)
        was_run = record["status"] not in ("not_run", "unobserved")
        inventory = record["execution_inventory"]
        here = self._record_ref(line, "$")
        error = None
        if record["error"] is not None:
            text = self._text(line, "$.error", record["error"])
            error = o.ErrorRecord(
                code=record["status_recorded"] or record["status"], message=text or "no message"
            )
        available = answer["state"] == "available" and was_run
        return o.Run(
            id=record["record_id"],
            assignment_id=assignment,
            status=record["status"],
            cost_scope=scope,
            output=self._clean(line, "$.final_answer.value", answer["value"])
            if available
            else None,
            output_state="available" if available else answer["state"] if was_run else "unknown",
            output_sources=(answer["execution_id"],) if available else (),
            artifacts=self._artifacts(record),
            executions=tuple(
                self._execution(line, index, item, scope)
                for index, item in enumerate(record["executions"] if was_run else ())
            ),
            started_at=started,
            ended_at=ended,
            environment=self._unknown("the record does not describe the environment"),
            execution_inventory_complete=(
                self._unknown(inventory["basis"])
                if inventory["complete"] is None or not was_run
                else o.Observation(
                    value=inventory["complete"],
                    status="observed",
                    reason=inventory["basis"],
                    evidence=(here,),
                )
            ),
            native_refs={
                "record_sha256": record["hashes"]["record_sha256"],
                "evidence_sha256": record["hashes"]["evidence_sha256"],
                "source_sha256": record["hashes"]["source_sha256"],
                "final_answer_sha256": record["hashes"]["final_answer_sha256"] or "",
                "record_line": str(line),
            },
            events=self._events(line, record) if was_run else (),
            error=error,
        )

    def _artifacts(self, record: Mapping[str, Any]) -> dict[str, Any]:
        kept = self.artifacts[record["source"]["sha256"]]
        return {"records": self.records_file, **({"source": kept} if kept is not None else {})}

    def _times(
        self, line: int, where: str, item: Mapping[str, Any]
    ) -> tuple[datetime | None, datetime | None]:
        """Start and end; neither, when the clock ran backwards between them."""
        started, ended = _instant(item["started_at"]), _instant(item["ended_at"])
        if started is not None and ended is not None and ended < started:
            self._note(line, f"{where}.ended_at", "it ended before it began; both times left out")
            return None, None
        return started, ended

    def _execution(
        self, line: int, index: int, item: Mapping[str, Any], scope: tuple[str, ...]
    ) -> Any:
        o = self.o
        resources = item["resources"]
        started, ended = self._times(line, f"$.executions[{index}]", item)
        return o.Execution(
            id=item["id"],
            slot="main",
            retry_index=item["retry_index"],
            parent_id=item["parent_id"],
            status=item["status"],
            role=item["role"],
            started_at=started,
            ended_at=ended,
            effective_config=self._unknown("the record does not hold the effective configuration"),
            resources=o.Resources(
                cost_usd=self._observation(resources["cost_usd"], Decimal),
                cost_scope=scope,
                input_tokens=self._observation(resources["input_tokens"], int),
                output_tokens=self._observation(resources["output_tokens"], int),
                human_minutes=self._unknown("human time is not recorded"),
            ),
        )

    def _unknown(self, reason: str) -> Any:
        return self.o.Observation(value=None, status="unknown", reason=reason)

    def _observation(self, found: Mapping[str, Any], kind: type) -> Any:
        value = None if found["value"] is None else kind(found["value"])
        return self.o.Observation(value=value, status=found["status"], reason=found["reason"])

    # --- calls ------------------------------------------------------------------------------------

    def _events(self, line: int, record: Mapping[str, Any]) -> tuple[Any, ...]:
        o = self.o
        calls = tuple(
            self._call(line, index, requested, completed)
            for index, (requested, completed) in enumerate(
                zip(record["requested_calls"], record["completed_calls"], strict=True)
            )
        )
        coverage = record["coverage"]
        requests, results = coverage["requests"], coverage["results"]
        reason = f"requests: {requests['basis']}; results: {results['basis']}"
        here = self._record_ref(line, "$.coverage")
        trace = self.tools.ToolTrace(
            collector=self.ref,
            boundary=BOUNDARY,
            scope=f"every tool call of the run as recorded ({record['format']})",
            coverage=(
                self._unknown(reason)
                if requests["complete"] is None
                else o.Observation(
                    value=requests["complete"],
                    status="observed",
                    reason=reason,
                    evidence=(here,),
                )
            ),
            calls=calls,
        )
        execution = record["executions"][0]["id"]
        return (trace.to_event(id=f"tools-{record['record_id']}", execution_id=execution),)

    def _call(
        self, line: int, index: int, requested: Mapping[str, Any], completed: Mapping[str, Any]
    ) -> Any:
        where = f"$.requested_calls[{index}]"
        arguments = requested["arguments"]
        if requested["is_redacted"]:
            arguments = None
            self._note(line, where, "the arguments were redacted, so they are not evidence")
        elif requested["arguments_status"] in ("invalid", "not_object"):
            arguments = None
            self._note(line, where, "the arguments are no JSON object")
        status, result = completed["status"], completed["result"]
        place = completed["source"]
        if status == "denied":
            self._note(line, where, "the call was denied; there is no such completion")
            status, place = "error", place or requested["source"]
            if not completed["has_result"] and completed["error"] is None:
                result = {"denied": True, "reason": requested["deny_reason"]}
        if status == "error" and result is None:
            result = completed["error"]
        evidence: tuple[Any, ...] = ()
        if status != "unknown":
            # An outcome that the format states without a result is evidence at the request's place.
            at = f"$.completed_calls[{index}]"
            evidence = (self._place(line, at, place or requested["source"]),)
        if completed["is_redacted"] and status != "unknown":
            self._note(line, f"$.completed_calls[{index}]", "the result was redacted")
            result = None
        return self.tools.ToolRequest(
            call_id=requested["call_id"],
            execution_id=requested["execution_id"],
            tool=self._text(line, f"{where}.tool", requested["tool"]),
            arguments=self._clean(line, f"{where}.arguments", arguments),
            evidence=(self._place(line, where, requested["source"]),),
            completion=status,
            result=(
                self._clean(line, f"$.completed_calls[{index}].result", result)
                if status != "unknown"
                else None
            ),
            result_evidence=evidence,
        )

    def _place(self, line: int, where: str, source: Mapping[str, Any]) -> Any:
        """Where something can be opened: in the kept source, else in the records' file."""
        kept = self.artifacts.get(source["artifact"])
        if kept is None:
            return self._record_ref(line, where)
        return self.o.EvidenceRef(
            artifact=kept, locator=source["locator"] or "$", description="the source as recorded"
        )

    def _record_ref(self, line: int, where: str) -> Any:
        return self.o.EvidenceRef(
            artifact=self.records_file,
            locator=f"line {line} {where}",
            description="the run record",
        )

    def _clean(self, line: int, where: str, value: Any) -> Any:
        """The value without lone surrogates, which pass here and fail when the result is saved."""
        if isinstance(value, str):
            return self._text(line, where, value)
        if isinstance(value, dict):
            return {
                self._text(line, where, key): self._clean(line, where, item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return tuple(self._clean(line, where, item) for item in value)
        return value

    def _text(self, line: int, where: str, text: str) -> str:
        if text.isascii():
            return text
        clean = text.encode("utf-8", "replace").decode()
        if clean != text:
            self._note(line, where, "lone surrogates were replaced by question marks")
        return clean

    # --- grades -----------------------------------------------------------------------------------

    def _grade(self, line: int, record: Mapping[str, Any]) -> None:
        evaluation = record["evaluation"] or {}
        key = (evaluation.get("basis") or "none", evaluation.get("grader_version") or "")
        self.grades.setdefault(key, []).append((line, record))

    def _bundle(
        self, number: int, key: tuple[str, str], rows: list[tuple[Any, Mapping[str, Any]]]
    ) -> Any:
        o = self.o
        from importlib import import_module

        zero = import_module("agent_eval_flow.objects.values").zero_resources
        basis, version = key
        activity = o.EvaluationActivity(
            id=f"toolscore-grading-{number}",
            evaluator=o.VersionRef(
                name=f"toolscore-pipeline.grader.{basis}", revision=version or None
            ),
            config_fingerprint=version or None,
            run_ids=tuple(record["record_id"] for _, record in rows),
            status="completed",
            phase="post_run",
            resources=zero(tuple(self.plan.execution.cost_scope)),
        )
        grades = []
        for line, record in rows:
            for name, value, reason in _grades(record):
                known = value is not None
                grades.append(
                    o.NativeGrade(
                        id=f"{record['record_id']}.{name}",
                        run_id=record["record_id"],
                        native_metric=name,
                        activity_id=activity.id,
                        value=value,
                        status="ok" if known else "missing",
                        basis="observed" if known else None,
                        reason=reason,
                        evidence=(self._record_ref(line, "$.evaluation"),),
                    )
                )
        return o.NativeGradeBundle(
            id=f"toolscore-grades-{number}",
            channel=CHANNEL,
            projection=self._projection(),
            grades=tuple(grades),
            activities=(activity,),
        )


def _grades(record: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """(metric, value or None, why) of everything a record says about how the run did."""
    outcome, basis = record["outcome"], record["outcome_basis"]
    why = {
        "graded": "the outcome of the grade",
        "recorded": "the outcome that the record names itself",
        "none": "neither graded nor judged by its recorder",
    }[basis]
    yield "outcome", outcome, why
    yield (
        "passed",
        {"pass": True, "fail": False, "error": False}.get(outcome),
        f"{why}: {outcome}",
    )
    evaluation = record["evaluation"]
    contract = (evaluation or {}).get("contract")
    none = "the run was not graded"
    score = (evaluation or {}).get("score")
    yield (
        "score",
        None if score is None else float(score),
        none if score is None else f"composite score{f' under {contract}' if contract else ''}",
    )
    failed = sum(call["status"] in ("error", "denied") for call in record["completed_calls"])
    unknown = sum(call["status"] == "unknown" for call in record["completed_calls"])
    yield (
        "failed_calls",
        None if unknown else failed,
        f"{unknown} calls have no recorded outcome"
        if unknown
        else "calls that failed or were denied",
    )
    counts = evaluation["evidence"]["counts"] if evaluation is not None else None
    for name, status in (
        ("checks_passed", "pass"),
        ("checks_failed", "fail"),
        ("checks_unknown", "unknown"),
    ):
        yield (
            name,
            None if counts is None else counts[status],
            none if counts is None else f"evidence checks: {status}",
        )
    seconds = record["duration_seconds"]
    yield (
        "duration_seconds",
        None if seconds is None else float(seconds),
        "no duration was recorded" if seconds is None else "wall-clock seconds as recorded",
    )


def _sentence(error: ValueError) -> str:
    """What an invariant of Agent Eval Flow says, without the address of pydantic's manual."""
    found = getattr(error, "errors", None)
    details = found() if callable(found) else ()
    return "; ".join(str(item["msg"]) for item in details[:3]) or str(error)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# --- the report -----------------------------------------------------------------------------------


def write_report(source: str | Path, folder: str | Path) -> dict[str, Any]:
    """Import an export, evaluate it with Agent Eval Flow, and write its reports into a folder.

    The folder holds ``study/`` and ``result/`` (Agent Eval Flow's manifests) and ``report/``
    (``report.html``, ``tools.html``, ``tools.json`` and the evidence they link to). The report
    folder can be moved as a whole. Nothing is run and nothing is graded again, but for the
    Toolscore evaluator, when its pinned package is installed and the manifest names expected calls.

    Args:
        source: the records' file, its manifest, or the folder of a bundle.
        folder: where to write.

    Returns:
        What was done: ``runs``, ``planned``, ``unobserved``, ``accepted``, ``result_id``,
        ``toolscore`` (whether that evaluator took part), and the paths.

    Raises:
        InputError: the export cannot be read or was refused, with Agent Eval Flow's sentence.
        UsageError: Agent Eval Flow is not installed.
    """
    o = load_aef()
    records = find_records(source)
    manifest = read_manifest(records)
    evaluators, is_scored = _toolscore(Path(folder))
    is_scored = is_scored and any(task["expectations"] for task in manifest["tasks"])
    target = Path(folder)
    try:
        study = study_from_export(manifest, toolscore=is_scored)
        runs = o.RunSet.import_from(records, plan=study.plan(), importer=RunRecordImporter())
        result = o.EvaluationPipeline(study=study, evaluators=evaluators if is_scored else {}).eval(
            runs=runs
        )
        study.save(target / "study")
        result.save(target / "result")
        report = result.report(target / "report" / "report.html", tools=True)
    except o.AgentEvalFlowError as error:
        raise InputError(f"Agent Eval Flow refused the export: {error}", path=records) from error
    coverage = runs.coverage()
    return {
        "runs": manifest["records"]["count"],
        "planned": coverage.planned,
        "completed": coverage.completed,
        "failed": coverage.failed,
        "unobserved": coverage.unavailable,
        "accepted": sum(score.acceptance == "pass" for score in result.task_scores),
        "toolscore": is_scored,
        "result_id": result.id,
        "report": str(report),
        "result": str(target / "result" / "manifest.json"),
        "study": str(target / "study" / "manifest.json"),
    }


def _toolscore(folder: Path) -> tuple[dict[str, Any], bool]:
    """Agent Eval Flow's Toolscore evaluator, and whether the package it is pinned to is there."""
    from importlib import import_module, metadata

    tools = import_module("agent_eval_flow.evaluation.toolscore")
    try:
        version = metadata.version("tool-scorer")
    except metadata.PackageNotFoundError:
        return {}, False
    if version != tools.SUPPORTED_VERSION:
        return {}, False
    cache = import_module("agent_eval_flow.storage.artifacts").ArtifactCache(folder / "receipts")
    evaluator = tools.ToolscoreEvaluator(artifacts=cache)
    return {evaluator.ref.name: evaluator}, True
