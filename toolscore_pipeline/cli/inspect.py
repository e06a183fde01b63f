"""``toolscore inspect``: what is read from a trace, and what it does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from toolscore_pipeline.cli.output import console, table, write_json
from toolscore_pipeline.credentials import redact_value
from toolscore_pipeline.figures import percent
from toolscore_pipeline.model import MISSING, Call, Run
from toolscore_pipeline.reports.safe import plain

_WIDTH = 60
_LONGEST = 16 << 20


def command(
    file: Annotated[Path, typer.Argument(help="A trace file, run rows, or any other document.")],
    format: Annotated[
        str, typer.Option("--format", "-f", help="The trace format; auto detects it.")
    ] = "auto",
    limit: Annotated[int, typer.Option(help="The most runs to show; 0 shows all.")] = 5,
    json_path: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON; - is standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Show the format of a trace, its calls, results and answer, and what was odd about it."""
    from toolscore_pipeline.loading import read_readable

    runs, refused = read_readable(file, format=format)
    report: dict[str, Any] = {
        "file": str(file),
        "runs": [describe_run(run) for run in runs],
        "rejects": [
            {"line": error.line, "json_path": error.json_path, "reason": error.reason}
            for error in refused
        ],
    }
    out = console(quiet=quiet or json_path == "-")
    formats = ", ".join(sorted({run.format for run in runs}))
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    out.print(f"{file}: {count}, read as {formats}")
    report["detected"] = _detections(file)
    for found in report["detected"]:
        out.print(f"  {found['format']} ({percent(found['confidence'], 0)}): {found['why']}")
    shown = report["runs"][: limit or None]
    for number, run in enumerate(shown, start=1):
        _print_run(out, run, number if len(runs) > 1 else None)
    if len(shown) < len(runs):
        out.print(f"... and {len(runs) - len(shown)} more; --limit 0 shows all")
    for error in refused[: limit or None]:
        out.print(f"refused: {plain(str(error))}")
    if limit and len(refused) > limit:
        out.print(f"... and {len(refused) - limit} more refused; --limit 0 shows all")
    if json_path:
        write_json(json_path, report)


def _detections(file: Path) -> list[dict[str, Any]]:
    """What every format says of a whole JSON document; nothing for line by line or packed files."""
    from toolscore_pipeline import formats, jsonio
    from toolscore_pipeline.errors import InputError

    if file.stat().st_size > _LONGEST:
        return []
    try:
        value, _ = jsonio.strict_loads(file.read_bytes())
    except InputError:
        return []
    found = sorted(formats.detect(value), key=lambda each: -each.confidence)
    return [
        {"format": each.format, "confidence": each.confidence, "why": each.why} for each in found
    ]


def describe_run(run: Run) -> dict[str, Any]:
    """A JSON-safe account of one run, credentials redacted; what it does not hold is None."""
    calls = [_describe_call(index, call) for index, call in enumerate(run.calls)]
    account: dict[str, Any] = {
        "format": run.format,
        "locator": run.locator,
        "task": run.task,
        "variant": run.variant,
        "repetition": run.repetition,
        "status": run.status,
        "model": run.model,
        "final_answer": run.final_answer,
        "cost_usd": run.cost_usd,
        "duration_seconds": run.duration_seconds,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "calls": calls,
        "coverage": {
            "calls": len(calls),
            "with_outcome": sum(call.is_failed is not None for call in run.calls),
            "with_result": sum(call.result is not MISSING for call in run.calls),
            "with_duration": sum(call.duration_seconds is not None for call in run.calls),
            "with_cost": sum(call.cost_usd is not None for call in run.calls),
            "final_answer": "unknown" if run.final_answer is None else "known",
        },
        "warnings": run.warnings,
    }
    redacted: dict[str, Any] = redact_value(account)
    return redacted


def _describe_call(index: int, call: Call) -> dict[str, Any]:
    return {
        "index": index,
        "id": call.call_id,
        "tool": call.tool,
        "args": call.args,
        "args_status": call.args_status,
        "result": None if call.result is MISSING else call.result,
        "has_result": call.result is not MISSING,
        "outcome": {None: "unknown", True: "failed", False: "succeeded"}[call.is_failed],
        "outcome_basis": call.outcome_basis,
        "denied": call.is_denied,
        "executor": call.executor,
        "pairing": call.pairing,
        "suspected_soft_error": call.is_soft_error_suspected,
        "request_locator": call.request_locator,
        "completion_locator": call.completion_locator,
        "warnings": call.warnings,
    }


def _print_run(out: Any, run: dict[str, Any], number: int | None) -> None:
    names = [
        f"{key} {run[key]}"
        for key in ("task", "variant", "repetition", "model", "status")
        if run[key] is not None
    ]
    heading = [f"run {number}"] if number is not None else []
    if run["locator"]:
        heading.append(f"at {run['locator']}")
    if heading or names:
        out.print("  ".join(map(plain, [*heading, *names])))
    out.print(
        table(
            ("call", "tool", "arguments", "outcome", "result"),
            [
                (
                    call["index"] + 1,
                    _cut(call["tool"]),
                    _short(call["args"]) + _flag(call),
                    "denied" if call["denied"] else call["outcome"],
                    _short(call["result"]) if call["has_result"] else "not recorded",
                )
                for call in run["calls"]
            ],
        )
    )
    answer = run["final_answer"]
    out.print(f"final answer: {'not recorded' if answer is None else _cut(answer)}")
    held = run["coverage"]
    out.print(
        f"coverage: outcome of {held['with_outcome']} of {held['calls']} calls, result of"
        f" {held['with_result']}, duration of {held['with_duration']}, cost of {held['with_cost']}"
    )
    for warning in [*run["warnings"], *(w for call in run["calls"] for w in call["warnings"])]:
        out.print(f"warning: {plain(warning)}")


def _flag(call: dict[str, Any]) -> str:
    status = call["args_status"]
    return "" if status in ("ok", "empty") else f" ({status.replace('_', ' ')})"


def _short(value: Any) -> str:
    return "" if value is None else _cut(json.dumps(value, ensure_ascii=False, default=repr))


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
