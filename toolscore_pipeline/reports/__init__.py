"""The verdict of one evaluation as people read it: console, Markdown, HTML and CSV.

Every report is made from one :class:`~toolscore_pipeline.reports.view.Verdict`, whose texts are
redacted and free of control characters already; a report escapes them for its own medium. What was
not recorded is shown as ``unknown``, never as 0.
"""

from __future__ import annotations

from toolscore_pipeline.reports.console import print_verdict, verdict_text
from toolscore_pipeline.reports.csv import verdict_csv
from toolscore_pipeline.reports.html import verdict_html
from toolscore_pipeline.reports.issues import Issue, find_issues
from toolscore_pipeline.reports.markdown import verdict_markdown
from toolscore_pipeline.reports.view import Verdict, read_verdict, report_record, summary

__all__ = [
    "Issue",
    "Verdict",
    "find_issues",
    "print_verdict",
    "read_verdict",
    "report_record",
    "summary",
    "verdict_csv",
    "verdict_html",
    "verdict_markdown",
    "verdict_text",
]
