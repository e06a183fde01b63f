"""Is this a run record, and is it the one that was written?"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from toolscore_pipeline.export.manifest import MANIFEST_SCHEMA
from toolscore_pipeline.export.records import SCHEMA_NAME, SCHEMA_VERSION, record_sha256
from toolscore_pipeline.hashing import canonical_json, json_sha256

SCHEMA_PATH = Path(__file__).parents[1] / "schemas" / "run-record-v1.schema.json"
"""The JSON Schema (draft 2020-12) of a run record."""


MANIFEST_SCHEMA_PATH = SCHEMA_PATH.with_name("run-record-manifest-v1.schema.json")
"""The JSON Schema (draft 2020-12) of an export's manifest."""


@functools.cache
def _validator(path: Path) -> Any:
    import jsonschema

    schema = json.loads(path.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _schema_problems(path: Path, value: Any) -> list[str]:
    errors = sorted(
        _validator(path).iter_errors(value), key=lambda error: list(map(str, error.path))
    )
    return [f"at {error.json_path}: {_short(error.message)}" for error in errors]


def validate_manifest(manifest: Any) -> list[str]:
    """Check an export's manifest against its JSON Schema.

    Returns:
        The problems, one sentence each with its place; empty when it conforms.
    """
    if not isinstance(manifest, dict):
        return [f"a manifest must be an object, got {type(manifest).__name__}"]
    name, version = manifest.get("schema"), manifest.get("schema_version")
    if (name, version) != (MANIFEST_SCHEMA, SCHEMA_VERSION):
        return [f"expected schema {MANIFEST_SCHEMA} {SCHEMA_VERSION!r}, got {name} {version!r}"]
    return _schema_problems(MANIFEST_SCHEMA_PATH, manifest)


def validate_record(record: Any) -> list[str]:
    """Check a record against the shipped JSON Schema, its own hashes and its own correlations.

    Returns:
        The problems, one sentence each with its place; empty when the record conforms.
    """
    if not isinstance(record, dict):
        return [f"a record must be an object, got {type(record).__name__}"]
    name, version = record.get("schema"), record.get("schema_version")
    if (name, version) != (SCHEMA_NAME, SCHEMA_VERSION):
        return [f"expected schema {SCHEMA_NAME} {SCHEMA_VERSION!r}, got {name} {version!r}"]
    found = _schema_problems(SCHEMA_PATH, record)
    if found:
        return found
    problems = _hash_problems(record) + _call_problems(record)
    written = record["hashes"]["record_sha256"]
    computed = record_sha256(record)
    if written != computed:
        problems.append(
            f"the record was changed: hashes.record_sha256 is {written[:12]}..., its content has"
            f" {computed[:12]}..."
        )
    return problems


def _short(message: str) -> str:
    """A validator's sentence without the value it quotes at length, which may be a secret."""
    if len(message) <= 120:
        return message
    return f"{message[:40]} ... {message[-60:]}"


def _hash_problems(record: dict[str, Any]) -> list[str]:
    """Values without the hash beside them; redacted values have the hash of what they were."""
    problems = []
    answer, hashes = record["final_answer"], record["hashes"]
    changed = set(record["redaction"]["fields"])

    def check(where: str, actual: str | None, expected: str | None) -> None:
        if actual != expected:
            problems.append(f"at $.{where}: the value does not have the hash it is given")

    if not answer["is_redacted"]:
        check("final_answer.sha256", _sha256(answer["value"]), answer["sha256"])
    check("hashes.final_answer_sha256", hashes["final_answer_sha256"], answer["sha256"])
    if "prompt" not in changed:
        check("hashes.prompt_sha256", hashes["prompt_sha256"], _sha256(record["prompt"]))
    check("hashes.source_sha256", hashes["source_sha256"], record["source"]["sha256"])
    for index, call in enumerate(record["requested_calls"]):
        if not call["is_redacted"]:
            arguments = call["arguments"]
            made = None if arguments is None else json_sha256(arguments)
            check(f"requested_calls[{index}].arguments_sha256", made, call["arguments_sha256"])
    for index, call in enumerate(record["completed_calls"]):
        if call["has_result"] and not call["is_redacted"]:
            made = hashlib.sha256(canonical_json(call["result"])).hexdigest()
            check(f"completed_calls[{index}].result_sha256", made, call["result_sha256"])
    return problems


def _sha256(text: str | None) -> str | None:
    if text is None:
        return None
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _call_problems(record: dict[str, Any]) -> list[str]:
    """Requests and completions that do not belong together."""
    problems = []
    requested = [call["call_id"] for call in record["requested_calls"]]
    completed = [call["call_id"] for call in record["completed_calls"]]
    for name, ids in (("requested_calls", requested), ("completed_calls", completed)):
        for call_id in sorted({call_id for call_id in ids if ids.count(call_id) > 1}):
            problems.append(f"at $.{name}: the call id {call_id!r} stands there twice")
    for call_id in sorted(set(completed) - set(requested)):
        problems.append(f"at $.completed_calls: nothing requested the call {call_id!r}")
    for call_id in sorted(set(requested) - set(completed)):
        problems.append(f"at $.requested_calls: the call {call_id!r} has no completion")
    if not problems and requested != completed:
        problems.append(
            "at $.completed_calls: the calls stand in another order than their requests"
        )
    executions = {execution["id"] for execution in record["executions"]}
    for name in ("requested_calls", "completed_calls"):
        for call in record[name]:
            if call["execution_id"] not in executions:
                problems.append(
                    f"at $.{name}: the call {call['call_id']!r} belongs to an execution that is not"
                    " there"
                )
    for index, call in enumerate(record["requested_calls"]):
        if call["index"] != index:
            problems.append(
                f"at $.requested_calls[{index}].index: expected {index}, got {call['index']}"
            )
    if record["coverage"]["calls"] != len(requested):
        problems.append("at $.coverage.calls: it is not the number of calls requested")
    outcomes = sum(call["status"] != "unknown" for call in record["completed_calls"])
    if record["coverage"]["with_outcome"] != outcomes:
        problems.append("at $.coverage.with_outcome: it is not the number of calls with an outcome")
    if record["coverage"]["results"]["complete"] and outcomes < len(requested):
        problems.append("at $.coverage.results: complete, although a call has no outcome")
    return problems
