"""The verdict in Markdown, for pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Iterable

from toolscore_pipeline.reports.safe import markdown_text as text
from toolscore_pipeline.reports.view import Verdict

_SIGNS = {"PASS": "🟢", "WARN": "🟡", "FAIL": "🔴"}


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


def _table(
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    align: tuple[str, ...] | None = None,
) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join(align or ('---',) * len(columns))} |"]
    lines += [f"| {' | '.join(text(cell) for cell in row)} |" for row in rows]
    return [*lines, ""]
