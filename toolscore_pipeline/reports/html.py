"""The verdict as one page of HTML that loads nothing and runs nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from toolscore_pipeline.reports.view import Verdict

if TYPE_CHECKING:
    from jinja2 import Template


@lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("toolscore_pipeline"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("verdict.html")


def verdict_html(verdict: Verdict, title: str = "Toolscore") -> str:
    """A verdict as a complete page; every text from the trace is escaped."""
    return _template().render(verdict=verdict, title=title)
