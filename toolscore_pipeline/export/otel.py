"""Evaluations as OpenTelemetry GenAI events, for backends that take OTLP logs.

One ``gen_ai.evaluation.result`` event per score of a run, as the GenAI semantic conventions name
them. A run is no span here, so the events carry the run's identity as attributes of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

EVENT_NAME = "gen_ai.evaluation.result"


def otlp_lines(
    records: Iterable[Mapping[str, Any]], *, version: str
) -> Iterator[tuple[bytes, int]]:
    """OTLP JSON export requests, one line per record, each with the number of its events.

    Args:
        records: run records as plain JSON values.
        version: the version of this package, for the instrumentation scope.
    """
    for record in records:
        events = list(log_records(record))
        request = {
            "resourceLogs": [
                {
                    "resource": {"attributes": _attributes({"service.name": "toolscore-pipeline"})},
                    "scopeLogs": [
                        {
                            "scope": {"name": "toolscore_pipeline.export", "version": version},
                            "logRecords": events,
                        }
                    ],
                }
            ]
        }
        yield orjson.dumps(request, option=orjson.OPT_SORT_KEYS), len(events)


def log_records(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of one run: its outcome, its score, and one for each evidence check.

    A value that is not known has no score attribute; an unknown check has the label ``unknown``.
    """
    evaluation = record["evaluation"]
    yield _event(record, "toolscore.outcome", label=record["outcome"])
    if evaluation is None:
        return
    if evaluation["score"] is not None:
        yield _event(
            record,
            "toolscore.score",
            value=evaluation["score"],
            label=evaluation["grade"],
            more={
                "toolscore.verdict": evaluation["verdict"],
                "toolscore.contract": evaluation["contract"],
                "toolscore.judgment.sha256": evaluation["judgment_sha256"],
                "toolscore.grade.sha256": evaluation["grade_sha256"],
                "toolscore.grader.version": evaluation["grader_version"],
            },
        )
    for check in evaluation["evidence"]["checks"]:
        yield _event(
            record,
            f"toolscore.check.{check['check']}",
            label=check["status"],
            explanation=check["detail"],
        )


def _event(
    record: Mapping[str, Any],
    name: str,
    *,
    value: float | None = None,
    label: str | None = None,
    explanation: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    attributes = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": value,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": explanation,
        "gen_ai.request.model": record["agent"]["model"],
        "gen_ai.response.model": record["agent"]["answered_by"],
        "gen_ai.provider.name": record["agent"]["provider"],
        "toolscore.run.id": record["run_id"],
        "toolscore.record.sha256": record["hashes"]["record_sha256"],
        "toolscore.task.id": record["task_id"],
        "toolscore.variant": record["variant"],
        "toolscore.repetition": record["repetition_index"],
        **(more or {}),
    }
    event: dict[str, Any] = {
        "eventName": EVENT_NAME,
        "severityNumber": 9,
        "severityText": "INFO",
        "attributes": _attributes(attributes),
    }
    at = record["ended_at"] or record["started_at"]
    if at is not None:
        event["timeUnixNano"] = _nanoseconds(at)
    return event


def _nanoseconds(text: str) -> str:
    moment = datetime.fromisoformat(text)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return str(seconds * 1_000_000_000 + moment.microsecond * 1000)


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": _any_value(value)}
        for key, value in values.items()
        if value is not None
    ]


def _any_value(value: Any) -> dict[str, Any]:
    """OTLP's AnyValue; integers are texts in its JSON form."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value}
