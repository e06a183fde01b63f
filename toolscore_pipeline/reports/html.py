"""Pages of HTML that load nothing and run nothing: a verdict, a comparison, a project.

The templates share one base, one style sheet and one set of partials. Whatever they print is
escaped, and what acts on what shows it (controls, direction marks) is spelled out, also where a
reader of rows forgot to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.reports.safe import spell_out
from toolscore_pipeline.reports.view import Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

    from toolscore_pipeline.reports.project import ProjectReport

MOST_RUN_CHARACTERS = 2_500_000
"""Characters that the runs of a project's page may take together; further runs are counted."""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return spell_out(value) if is_text else value

    return Environment(
        loader=PackageLoader("toolscore_pipeline"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """A page made from one of the package's templates; every value is escaped.

    Pictures (``svg`` elements of :func:`toolscore_pipeline.charts.inline_svg`) are the only markup
    that is taken as it stands.
    """
    return _environment().get_template(template).render(**values)


def verdict_html(verdict: Verdict, title: str = "Toolscore") -> str:
    """A verdict as a complete page; every text from the trace is escaped."""
    return render("verdict.html", verdict=verdict, title=title)


def project_html(report: ProjectReport) -> str:
    """A project's report as a complete page, under 5 MB whatever the project holds.

    A run that two comparisons name is shown once. Runs beyond :data:`MOST_RUN_CHARACTERS` are left
    out from the end and counted with those that were not chosen.
    """
    from markupsafe import Markup

    from toolscore_pipeline.stats.report import LEVEL_NAMES

    room, rendered = MOST_RUN_CHARACTERS, {}
    for run_id, run in report.runs.items():
        text = render("_run.html", run=run)
        room -= len(text.encode())
        if room < 0:
            break
        rendered[run_id] = Markup(text)
    return render("project.html", report=report, rendered=rendered, level_names=LEVEL_NAMES)
