"""``toolscore verify``: recompute the chain from source bytes to records; name what is broken."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli import EXIT_GATE
from toolscore_pipeline.cli.output import console, table, write_json

if TYPE_CHECKING:
    from toolscore_pipeline.verify import Link

# Links that are listed one by one; the report of --json has them all.
MOST_SHOWN = 50


def command(
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="TARGET",
            help="A receipt, an export (records or manifest), a warehouse file or a project.",
        ),
    ] = None,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="Score everything again and compare every number.")
    ] = False,
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Write the report; - is the output."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Recompute the chain of hashes and report each broken link; exit code 1 when there is one."""
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.verify import STEPS, verify

    opened = open_project(project) if project is not None or target is None else None
    if target is None:
        assert opened is not None
        target = opened.root
    found = verify(target, regrade=regrade, project=opened)
    out = console(quiet=quiet or json_path == "-")
    _list(out, "broken", found.broken)
    _list(out, "unchecked", found.unchecked)
    broken = Counter(link.step for link in found.broken)
    unchecked = Counter(link.step for link in found.unchecked)
    out.print(
        table(
            ("link", "whole", "broken", "unchecked"),
            [
                (step, found.checked[step], broken[step], unchecked[step])
                for step in STEPS
                if found.checked[step] or broken[step] or unchecked[step]
            ],
        )
    )
    said = "every link checked is whole" if found.is_whole else f"{len(found.broken)} links broken"
    left = f"; {len(found.unchecked)} not checked" if found.unchecked else ""
    out.print(f"{found.target}: {said}{left}")
    if json_path:
        write_json(json_path, found.to_dict())
    if not found.is_whole:
        raise typer.Exit(EXIT_GATE)


def _list(out: Any, what: str, links: list[Link]) -> None:
    for link in links[:MOST_SHOWN]:
        out.print(f"{what}: {link}")
    if len(links) > MOST_SHOWN:
        out.print(f"... and {len(links) - MOST_SHOWN} more {what}")
