"""The manifest beside an export: what was studied, the records' sources, and the records' hash."""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import UsageError, unknown_name
from toolscore_pipeline.export.records import SCHEMA_NAME, SCHEMA_VERSION
from toolscore_pipeline.hashing import json_sha256

MANIFEST_SCHEMA = "toolscore.run-record-manifest"
COST_CATEGORIES = ("model",)
_MOST_LISTED = 20


@functools.cache
def producer() -> dict[str, str]:
    """Who wrote an export: name, version, and a revision that changes with the code behind it."""
    from toolscore_pipeline import __version__

    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for file in [
        *sorted(folder.glob("*.py")),
        folder.parent / "schemas" / "run-record-v1.schema.json",
    ]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return {
        "name": "toolscore-pipeline",
        "version": __version__,
        "revision": f"{__version__}+{digest.hexdigest()[:16]}",
    }


class ManifestBuilder:
    """Collects, record by record, what the manifest says; keeps variants and tasks, no records."""

    def __init__(self) -> None:
        self.count = 0
        self.repetitions = 0
        self.longest_seconds = 0.0
        self.outcomes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.is_redacted = False
        self._sources: dict[tuple[Any, ...], int] = {}
        self._tasks: dict[str | None, _Distinct] = {}
        self._variants: dict[str | None, dict[str, _Distinct]] = {}
        self._studies: Counter[str] = Counter()

    def add(self, record: Mapping[str, Any]) -> None:
        """Take note of a record."""
        self.count += 1
        self.repetitions = max(self.repetitions, record["repetition_index"] + 1)
        self.outcomes[record["outcome"]] += 1
        self.statuses[record["status"]] += 1
        self.is_redacted = self.is_redacted or record["redaction"]["applied"]
        self.longest_seconds = max(self.longest_seconds, record["duration_seconds"] or 0.0)
        source = record["source"]
        key = (source["sha256"], source["path"] or "", source["kind"], source["name"] or "")
        self._sources[key] = self._sources.get(key, 0) + 1
        task = self._tasks.setdefault(record["task_id"], _Distinct())
        task.add(record["prompt"])
        agent = record["agent"]
        variant = self._variants.setdefault(
            record["variant"],
            {name: _Distinct() for name in ("model", "provider", "system", "server")},
        )
        for name, values in variant.items():
            value = agent[name]
            if isinstance(value, dict):
                value = (value["name"], value["version"])
            values.add(value)
        if agent["study"]:
            self._studies[agent["study"]] += 1

    @property
    def variants(self) -> list[str | None]:
        """The variants seen, sorted."""
        return sorted(self._variants, key=_none_first)

    @property
    def sources(self) -> list[tuple[str, str, str]]:
        """The documents that records came from: SHA-256, path and kind, each document once."""
        found: dict[str, tuple[str, str, str]] = {}
        for sha256, path, kind, _ in sorted(self._sources, key=lambda key: (key[3], key[1])):
            found.setdefault(sha256, (sha256, path, kind))
        return list(found.values())

    def manifest(
        self,
        *,
        file: Mapping[str, Any],
        sizes: Mapping[str, int] | None = None,
        study_id: str | None = None,
        question: str | None = None,
        baseline: str | None = None,
        candidate: str | None = None,
        wall_time_seconds: float | None = None,
        expectations: Mapping[str, Any] | None = None,
        retained: Mapping[str, Mapping[str, Any]] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The manifest.

        Args:
            file: ``name``, ``sha256``, ``bytes`` of the records' file.
            sizes: bytes of a source by its SHA-256, where known.
            study_id, question: what was studied; default the study that the records name.
            baseline, candidate: the variants to compare; default none.
            wall_time_seconds: the limit that was declared for a run; default the longest run's
                seconds, rounded up, and labelled so.
            expectations: the expected calls of a task, by task.
            retained: copies kept beside the records, by the SHA-256 of their source.
            filters: what the runs were chosen by.

        Raises:
            UsageError: a variant to compare that no record has, or a limit that is none.
        """
        self._check_comparison(baseline, candidate)
        if wall_time_seconds is not None and not 0 < wall_time_seconds < math.inf:
            raise UsageError(f"wall time: got {wall_time_seconds}, expected seconds above 0")
        study_id, question = (study_id or "").strip(), (question or "").strip()
        sizes, retained = sizes or {}, retained or {}
        variants = [self._variant(name) for name in sorted(self._variants, key=_none_first)]
        tasks = [
            self._task(name, (expectations or {}).get(name or ""))
            for name in sorted(self._tasks, key=_none_first)
        ]
        sources = [
            {
                "sha256": sha256,
                "path": path or None,
                "kind": kind,
                "name": name or None,
                "bytes": sizes.get(sha256),
                "media_type": media_type(path),
                "records": count,
            }
            for (sha256, path, kind, name), count in sorted(self._sources.items(), key=_by_path)
        ]
        names = list(self._studies)
        manifest = {
            "schema": MANIFEST_SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "producer": producer(),
            "records": {
                "file": file["name"],
                "sha256": file["sha256"],
                "bytes": file["bytes"],
                "count": self.count,
                "schema": SCHEMA_NAME,
                "schema_version": SCHEMA_VERSION,
            },
            "study": {
                "id": study_id or (names[0] if len(names) == 1 else Path(file["name"]).stem),
                "question": question or "How do the variants do on the tasks?",
                "question_basis": "declared" if question else "default",
                "repetitions": self.repetitions,
                "cost_categories": list(COST_CATEGORIES),
                "limit": (
                    {"wall_time_seconds": wall_time_seconds, "basis": "declared"}
                    if wall_time_seconds is not None
                    else {
                        "wall_time_seconds": max(1, math.ceil(self.longest_seconds)),
                        "basis": "not declared: the longest recorded run, rounded up to a second",
                    }
                ),
            },
            "comparison": {"baseline": baseline, "candidate": candidate},
            "variants": variants,
            "tasks": tasks,
            "sources": sources,
            "artifacts": [
                {"sha256": sha256, **entry} for sha256, entry in sorted(retained.items())
            ],
            "filters": dict(filters or {}),
            "outcomes": {
                name: self.outcomes[name] for name in ("pass", "fail", "error", "unknown")
            },
            "statuses": dict(sorted(self.statuses.items())),
            "redaction": {"applied": self.is_redacted},
        }
        # A manifest proves its records; this proves the manifest.
        return {**manifest, "manifest_sha256": json_sha256(manifest)}

    def _check_comparison(self, baseline: str | None, candidate: str | None) -> None:
        known = [name for name in self.variants if name is not None]
        for name in (baseline, candidate):
            if name is not None and name not in known:
                raise UsageError(unknown_name("variant", name, known))
        if baseline is not None and baseline == candidate:
            raise UsageError(f"baseline and candidate are the same variant {baseline!r}")

    def _variant(self, name: str | None) -> dict[str, Any]:
        found = self._variants[name]
        components = []
        for model in found["model"].values():
            components.append({"kind": "model", "name": model, "revision": None})
        for server, version in found["server"].values():
            if server:
                components.append({"kind": "tool", "name": server, "revision": version})
        for system in found["system"].values():
            components.append(
                {"kind": "prompt", "name": "system", "revision": json_sha256(system)[:16]}
            )
        providers = found["provider"].values()
        return {
            "id": name,
            "backend": {
                "name": providers[0] if len(providers) == 1 else "recorded runs",
                "revision": None,
            },
            "components": components,
            "settings": {"providers": providers, "systems": found["system"].values()},
        }

    def _task(self, name: str | None, expectations: Any) -> dict[str, Any]:
        prompts = self._tasks[name].values()
        inputs = {"prompt": prompts[0] if len(prompts) == 1 else None}
        return {
            "id": name,
            "inputs": inputs,
            "inputs_basis": (
                "recorded"
                if len(prompts) == 1
                else "not recorded"
                if not prompts
                else "the prompt differs from run to run"
            ),
            "inputs_sha256": json_sha256(inputs),
            "expectations": expectations,
        }


class _Distinct:
    """Distinct values in the order they came, up to a limit; nulls do not count."""

    def __init__(self) -> None:
        self._values: dict[Any, None] = {}

    def add(self, value: Any) -> None:
        if value is not None and len(self._values) < _MOST_LISTED:
            self._values.setdefault(value)

    def values(self) -> list[Any]:
        """The values, sorted."""
        return sorted(self._values, key=str)


def _none_first(value: str | None) -> tuple[bool, str]:
    return value is not None, value or ""


def _by_path(item: tuple[tuple[Any, ...], int]) -> tuple[Any, ...]:
    (sha256, path, kind, name), _ = item
    return name, path, kind, sha256


def media_type(path: str | None) -> str:
    """The media type of a source, by its name."""
    text = (path or "").lower()
    for suffix, kind in (
        (".gz", "application/gzip"),
        (".zst", "application/zstd"),
        (".parquet", "application/vnd.apache.parquet"),
        (".eval", "application/zip"),
        (".jsonl", "application/x-ndjson"),
        (".ndjson", "application/x-ndjson"),
        (".json", "application/json"),
    ):
        if text.endswith(suffix):
            return kind
    return "application/octet-stream"


def expectations_of(judgment: Mapping[str, Any], judgment_id: str) -> dict[str, Any] | None:
    """The expected calls of a judgment, where a plain list of calls can say them; else None.

    Alternatives, matchers and optional calls cannot be said in a list.
    """
    if judgment.get("optional"):
        return None
    calls: Iterable[Any] = judgment.get("required") or ()
    listed = []
    for call in calls:
        if "tool" not in call or _has_matcher(call.get("args")):
            return None
        listed.append({"tool": call["tool"], "args": call.get("args")})
    return {"revision": judgment_id, "calls": listed}


def _has_matcher(value: Any) -> bool:
    if isinstance(value, dict):
        return any(str(key).startswith("$") for key in value) or any(
            map(_has_matcher, value.values())
        )
    return isinstance(value, list) and any(map(_has_matcher, value))
