"""``toolscore eval``: hold one trace against a gold list or a contract, and say what is wrong."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli.output import append_text, console, takes_output, write_json, write_text
from toolscore_pipeline.errors import SettingsError, UsageError, unknown_name

if TYPE_CHECKING:
    from toolscore_pipeline.result import EvaluationResult

# A score within this of the bound reaches it, as in a contract's min_score.
_TOLERANCE = 1e-9


def command(
    expected: Annotated[
        Path, typer.Argument(metavar="EXPECTED", help="The gold list or contract (JSON or YAML).")
    ],
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The recorded trace of one run.")],
    trace_format: Annotated[
        str, typer.Option("-f", "--format", help="The trace format; auto detects it.")
    ] = "auto",
    weight: Annotated[
        list[str] | None,
        typer.Option(
            "--weight", metavar="NAME=VALUE", help="A score weight, e.g. required_call_recall=0.3."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Compare type and value of arguments exactly.")
    ] = False,
    forbidden: Annotated[
        Path | None,
        typer.Option(help="Rules of calls that must never be made; added to the contract's."),
    ] = None,
    honesty: Annotated[
        Path | None, typer.Option(help="Settings of the honesty checks (JSON or YAML).")
    ] = None,
    injected: Annotated[
        Path | None,
        typer.Option(help="Faults injected into the run and instructions planted in it."),
    ] = None,
    final_answer: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The final answer, when the trace does not hold it."),
    ] = None,
    fail_on_violations: Annotated[
        bool,
        typer.Option(
            "--fail-on-violations",
            help="Exit with 1 on a forbidden call or a credential, or when that cannot be decided.",
        ),
    ] = False,
    fail_under: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Exit with 1 when the score (0 to 1) is lower."),
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write a receipt: the hashes of inputs and result."),
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", "--json", metavar="PATH", help="Write the record; - is the output."
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write a report in Markdown; - is the output."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write a report as a page; - is the output.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write every number as CSV; - is the output."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Grade a trace: score, required calls, behaviour and safety, evidence.

    Exit code 1 when a gate (--fail-under, --fail-on-violations) fails.
    """
    is_taken = takes_output(json=json_path, markdown=markdown, html=html, csv=csv)
    weights = parse_weights(weight)
    if fail_under is not None and not 0 <= fail_under <= 1:
        raise UsageError(f"--fail-under: got {fail_under:g}, expected a number from 0 to 1")
    result = _evaluate(
        expected,
        trace,
        trace_format,
        weights=weights,
        strict=strict,
        forbidden=forbidden,
        honesty=honesty,
        injected=injected,
        final_answer=final_answer,
    )

    from toolscore_pipeline import reports

    verdict = reports.read_verdict(result)
    reports.print_verdict(verdict, console(quiet=quiet or is_taken))
    if json_path:
        write_json(json_path, reports.report_record(result))
    if markdown:
        write_text(markdown, reports.verdict_markdown(verdict))
    if html:
        write_text(html, reports.verdict_html(verdict))
    if csv:
        write_text(csv, reports.verdict_csv(result))
    if job_summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_text(job_summary, reports.verdict_markdown(verdict))
    if receipt:
        _write_receipt(
            receipt,
            result,
            {
                "gold": expected,
                "trace": trace,
                "forbidden": forbidden,
                "honesty_config": honesty,
                "injected": injected,
            },
            {"format": trace_format, "strict": strict},
            final_answer,
        )
    failures = failed_gates(result, fail_under, fail_on_violations)
    for failure in failures:
        print(failure, file=sys.stderr)
    if failures:
        raise typer.Exit(1)


def _evaluate(
    expected: Path,
    trace: Path,
    trace_format: str,
    *,
    honesty: Path | None,
    injected: Path | None,
    **settings: Any,
) -> EvaluationResult:
    from toolscore_pipeline.api import evaluate_trace

    config = faults = None
    if honesty is not None:
        from toolscore_pipeline.honesty import load_honesty_config

        config = load_honesty_config(honesty)
    if injected is not None:
        from toolscore_pipeline.honesty import load_injected

        faults = load_injected(injected)
    return evaluate_trace(
        expected, trace, trace_format, honesty=config, injected=faults, **settings
    )


def parse_weights(given: list[str] | None) -> dict[str, float] | None:
    """Weights from ``NAME=VALUE`` texts; None when there are none.

    Raises:
        UsageError: a text is not of that form, or a name comes twice.
        SettingsError: a name or value is wrong.
    """
    from toolscore_pipeline.result import WEIGHT_COLUMNS

    if not given:
        return None
    weights: dict[str, float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--weight {text}: expected NAME=VALUE")
        if name not in WEIGHT_COLUMNS:
            raise SettingsError(f"--weight: {unknown_name('weight', name, WEIGHT_COLUMNS)}")
        if name in weights:
            raise UsageError(f"--weight {name} is given twice")
        try:
            weights[name] = float(value)
        except ValueError:
            raise SettingsError(f"--weight {name}: got {value!r}, expected a number") from None
    return weights


def failed_gates(
    result: EvaluationResult, fail_under: float | None, fail_on_violations: bool
) -> list[str]:
    """One sentence for each gate that fails; empty when all hold.

    A rule or scan that could not be decided fails the gate too: unknown is no pass.
    """
    failures = []
    if fail_under is not None and result.score < fail_under - _TOLERANCE:
        failures.append(f"failed: the score {result.score:.4f} is under {fail_under:g}")
    if fail_on_violations:
        violations, secrets = len(result.policy_violations), len(result.secrets)
        undecided = [
            row
            for row in result.findings
            if row["finding"] in ("forbidden-call", "credential") and row["severity"] == "unknown"
        ]
        if violations or secrets:
            failures.append(
                f"failed: {_count(violations, 'forbidden call')}"
                f" and {_count(secrets, 'credential')} in tool arguments"
            )
        elif undecided:
            failures.append(
                f"failed: {_count(len(undecided), 'rule or scan')} could not be decided"
            )
    return failures


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _write_receipt(
    path: Path,
    result: EvaluationResult,
    inputs: dict[str, str | Path | None],
    settings: dict[str, Any],
    final_answer: str | None,
) -> None:
    receipts = importlib.import_module("toolscore_pipeline.receipts")
    receipts.write_receipt(path, receipts.build_receipt(result, inputs, settings, final_answer))
