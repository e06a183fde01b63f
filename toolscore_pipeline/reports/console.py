"""The verdict on a terminal, and as plain text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from toolscore_pipeline.reports.view import Verdict

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_ISSUES = 5
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}
_SEVERITY_COLOURS = {"error": "bold red", "warning": "yellow", "unknown": "cyan"}
_STATUS_COLOURS = {"pass": "green", "fail": "bold red", "unknown": "cyan"}


def print_verdict(verdict: Verdict, console: Console) -> None:
    """Prints a verdict on a rich console; without colours and boxes when it is no terminal."""
    from rich import box
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    def say(text: str = "", style: str = "") -> None:
        # Soft: a line is wrapped by the terminal, so that it can be searched for as a whole.
        console.print(Text(text, style=style), soft_wrap=True)

    is_terminal = console.is_terminal
    table = Table(box=box.SQUARE if is_terminal else box.ASCII, title=None)
    table.add_column("Metric")
    table.add_column("Value", justify="right")
    for name, value in verdict.metrics:
        table.add_row(Text(name), Text(value))
    for name, value in verdict.about:
        say(f"{name.capitalize()}: {value}")
    console.print(table)
    colour = _COLOURS[verdict.verdict]
    if is_terminal:
        console.print(
            Panel.fit(Text(verdict.headline, style=f"bold {colour}"), border_style=colour)
        )
    else:
        say()
        say(verdict.headline)
    if verdict.required:
        say()
        say(verdict.required, "yellow")
    if verdict.issues:
        say()
        say("Top issues to fix", "bold")
        for number, issue in enumerate(verdict.issues[:SHOWN_ISSUES], 1):
            say(f"  {number}. {issue.tool}  {issue.text}")
            say(f"     {issue.advice}", "dim")
        if len(verdict.issues) > SHOWN_ISSUES:
            say(f"  and {len(verdict.issues) - SHOWN_ISSUES} more", "dim")
    if verdict.behaviour:
        say()
        say("Behavior and safety", "bold")
        for line in verdict.behaviour:
            label = Text(f"  {line.severity.upper():<8} ", style=_SEVERITY_COLOURS[line.severity])
            console.print(label.append(Text(line.text, style="default")), soft_wrap=True)
    if verdict.contract:
        say()
        for text in verdict.contract:
            say(text)
    say()
    say(verdict.evidence_line, "bold")
    for check, status, detail in verdict.checks:
        if status != "pass":
            label = Text(f"  {status:<8} ", style=_STATUS_COLOURS[status])
            console.print(label.append(Text(f"{check}: {detail}", style="default")), soft_wrap=True)
    say(verdict.coverage, "dim")
    for note in verdict.notes:
        say(f"Note: {note}", "yellow")


def verdict_text(verdict: Verdict, width: int = 120) -> str:
    """A verdict as plain text, as it is printed where there is no terminal."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(
        file=file, width=width, highlight=False, markup=False, emoji=False, no_color=True
    )
    print_verdict(verdict, console)
    return file.getvalue()
