"""What people read: the verdict of one evaluation, and the report of a project.

The forms of a verdict are made from one :class:`~toolscore_pipeline.reports.view.Verdict`, those of
a project from one :class:`~toolscore_pipeline.reports.project.ProjectReport` (which
:func:`~toolscore_pipeline.reports.project.project_report` reads). Their texts are redacted and free
of control characters already; a form escapes them for its own medium. What was not recorded is
shown as ``unknown``, never as 0.
"""

from __future__ import annotations

from toolscore_pipeline.reports.console import print_verdict, verdict_text
from toolscore_pipeline.reports.csv import verdict_csv
from toolscore_pipeline.reports.html import project_html, verdict_html
from toolscore_pipeline.reports.issues import Issue, find_issues
from toolscore_pipeline.reports.markdown import project_markdown, verdict_markdown
from toolscore_pipeline.reports.view import Verdict, read_verdict, report_record, summary

__all__ = [
    "Issue",
    "Verdict",
    "find_issues",
    "print_verdict",
    "project_html",
    "project_markdown",
    "read_verdict",
    "report_record",
    "summary",
    "verdict_csv",
    "verdict_html",
    "verdict_markdown",
    "verdict_text",
]
