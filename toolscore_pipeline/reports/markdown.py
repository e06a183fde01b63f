"""The verdict in Markdown, for pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolscore_pipeline.reports.safe import markdown_text as text
from toolscore_pipeline.reports.view import Verdict

if TYPE_CHECKING:
    from toolscore_pipeline.reports.failing import RunDetail
    from toolscore_pipeline.reports.project import ProjectReport
    from toolscore_pipeline.stats.report import ComparisonView

_SIGNS = {"PASS": "🟢", "WARN": "🟡", "FAIL": "🔴"}
_TONES = {"good": "🟢", "warn": "🟡", "bad": "🔴", "open": "⚪", "told": "🔵"}
# What fits a comment on a pull request.
_MOST_COMPARISONS, _MOST_ROWS, _MOST_RUNS, _MOST_EXPECTED = 4, 12, 10, 5
_MOST_CHARACTERS = 60_000


def verdict_markdown(verdict: Verdict, title: str = "Toolscore") -> str:
    """A verdict as GitHub-flavoured Markdown; ends with a newline."""
    lines = [f"# {text(title)}", "", f"{_SIGNS[verdict.verdict]} **{verdict.headline}**", ""]
    lines += [f"- {name.capitalize()}: {text(value)}" for name, value in verdict.about]
    if verdict.about:
        lines.append("")
    lines += _table(("Metric", "Value"), verdict.metrics, align=("---", "---:"))
    if verdict.required:
        lines += [text(verdict.required), ""]
    if verdict.issues:
        lines += ["## Top issues to fix", ""]
        for number, issue in enumerate(verdict.issues, 1):
            lines.append(f"{number}. **{text(issue.tool)}** {text(issue.text)}. {issue.advice}")
        lines.append("")
    lines += ["## Behavior and safety", ""]
    lines += [f"- **{line.severity.upper()}** {text(line.text)}" for line in verdict.behaviour]
    if not verdict.behaviour:
        lines.append("Nothing found.")
    lines.append("")
    if verdict.contract:
        lines += ["## Contract", "", *(f"- {text(line)}" for line in verdict.contract), ""]
    lines += ["## Evidence", "", verdict.evidence_line, ""]
    lines += _table(("Check", "Status", "Detail"), verdict.checks)
    lines += [text(verdict.coverage), ""]
    lines += ["<details><summary>Calls</summary>", ""]
    lines += _table(
        ("Call", "Expected", "Made", "Status", "Duration"),
        [
            (
                "" if row.number is None else str(row.number),
                row.expected or "",
                row.actual or "",
                row.status,
                row.duration,
            )
            for row in verdict.calls
        ],
    )
    lines += ["</details>", ""]
    if verdict.notes:
        lines += ["## Notes on the trace", "", *(f"- {text(note)}" for note in verdict.notes), ""]
    hashes = ", ".join(f"{name} `{value[:12]}`" for name, value in verdict.hashes.items())
    lines += [f"<sub>{hashes}</sub>", ""]
    return "\n".join(lines)


def project_markdown(report: ProjectReport, title: str | None = None) -> str:
    """A project's report in short, for a pull request or a job summary; ends with a newline.

    It fits a comment: what would make it longer than that is left out, and said to be.
    """
    parts = [[f"# {text(title or f'Toolscore report: {report.title}')}", ""]]
    for one in report.headlines:
        about = f" ({text(one.about)})" if one.about else ""
        parts.append([f"- {_TONES[one.tone]} **{text(one.label)}**{about} {text(one.text)}"])
    parts.append([""])
    parts += [_comparison(view) for view in report.comparisons[:_MOST_COMPARISONS]]
    if len(report.comparisons) > _MOST_COMPARISONS or report.other_comparisons:
        parts.append(["Further comparisons stand in the page of the report.", ""])
    if report.runs:
        shown = min(len(report.runs), _MOST_RUNS)
        told = f"{shown} of {report.not_passed} that did not pass."
        parts.append(["## Runs to look at", "", told, ""])
        parts += [_run(run) for run in list(report.runs.values())[:_MOST_RUNS]]
    if report.rejects:
        rows = [(one.place, one.reason) for one in report.rejects[:_MOST_ROWS]]
        parts.append(["## Set aside", "", *_table(("Record", "Reason"), rows)])
    hashes = ", ".join(f"{text(name)} `{value[:12]}`" for name, value in report.lineage)
    return _fitting(parts) + f"<sub>published {report.published_at}; {hashes}</sub>\n"


def _fitting(parts: Iterable[list[str]]) -> str:
    """The parts that fit a comment, in order."""
    kept, room, left_out = [], _MOST_CHARACTERS, 0
    for lines in parts:
        part = "".join(f"{line}\n" for line in lines)
        if len(part) > room:
            left_out += 1
            continue
        kept.append(part)
        room -= len(part)
    if left_out:
        kept.append(f"\n{left_out} parts are too long for a comment; the page has them.\n\n")
    return "".join(kept)


def _comparison(view: ComparisonView) -> list[str]:
    """The variants of a comparison, its rules and what to beware of."""
    lines = [f"## {text(view.name)}", ""]
    for table in (view.variants, view.rules):
        if table is not None:
            align = tuple(
                "---:" if column >= table.numbers_from else "---"
                for column in range(len(table.header))
            )
            lines += _table(table.header, table.rows[:_MOST_ROWS], align)
            if more := table.left_out + max(0, len(table.rows) - _MOST_ROWS):
                lines += [f"And {more} more.", ""]
    if view.notes:
        lines += [f"- {text(note)}" for note in view.notes[:_MOST_ROWS]]
        lines.append("")
    return lines


def _run(run: RunDetail) -> list[str]:
    """A run folded away: why it did not pass, and the expected calls that were not met."""
    name = f"{run.outcome}: {run.task}, {run.variant}, repetition {run.repetition}"
    lines = [f"<details><summary>{text(name)}: {text(run.why)}</summary>", ""]
    missed = [
        (
            str(row.number),
            row.tool,
            "" if row.call is None else f"call {row.call}",
            row.status,
            "; ".join(
                f"{one.name}: expected {one.expected or 'nothing'}, got {one.given or 'nothing'}"
                for one in row.arguments
                if one.status in ("different", "missing", "unexpected")
            ),
        )
        for row in run.expected
        if row.status != "met"
    ]
    if missed:
        header = ("Expected", "Tool", "Made", "Status", "Arguments")
        lines += _table(header, missed[:_MOST_EXPECTED])
    lines += [f"- **{severity.upper()}** {text(said)}" for severity, said in run.findings]
    hashes = ", ".join(f"{name} `{value[:12]}`" for name, value in run.lineage if len(value) == 64)
    return [*lines, "", f"<sub>{hashes}</sub>", "", "</details>", ""]


def _table(
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    align: tuple[str, ...] | None = None,
) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join(align or ('---',) * len(columns))} |"]
    lines += [f"| {' | '.join(text(cell) for cell in row)} |" for row in rows]
    return [*lines, ""]
