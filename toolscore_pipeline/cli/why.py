"""``toolscore why``: the chain of one grade, from the bytes of its run to its score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli.output import console, write_json


def command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The beginning of a run's or grade's id, a file, or file:line."
        ),
    ],
    project: Annotated[
        Path | None, typer.Option(help="The project's folder or toolscore.yaml.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the receipt of the grade.")
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Write the chain; - is the output."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Say where a run's grade comes from: source, evidence, judgment, formulas and terms."""
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.why import chain_lines, explain

    opened = open_project(project)
    found = explain(opened, run)
    out = console(quiet=quiet or json_path == "-")
    for line in chain_lines(found):
        out.print(line, soft_wrap=True)
    if receipt is not None:
        from toolscore_pipeline.receipts import write_receipt
        from toolscore_pipeline.regrades import receipts_of
        from toolscore_pipeline.warehouse import Warehouse

        with Warehouse(opened.warehouse).read() as store:
            [(_, made)] = list(receipts_of(store, opened, [found["grade"]["sha256"]]))
        out.print(f"receipt   {write_receipt(receipt, made, base=opened.root)}")
    if json_path:
        write_json(json_path, found)
