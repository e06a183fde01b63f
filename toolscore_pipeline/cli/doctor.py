"""``toolscore doctor``: check everything before a paid call."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from toolscore_pipeline.cli import EXIT_GATE
from toolscore_pipeline.cli.output import console, table, write_json


def command(
    spec: Annotated[Path | None, typer.Option(help="An agent spec to check.")] = None,
    contract: Annotated[Path | None, typer.Option(help="A contract or gold file to check.")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="CMD|URL", help="A server to start or reach and list.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A variable that must be set.")
    ] = None,
    project: Annotated[
        Path | None, typer.Option(help="A project file; the one found upward is the default.")
    ] = None,
    allow_unknown_price: Annotated[
        bool, typer.Option(help="Let models without a known price pass, as agent run would.")
    ] = False,
    start_server: Annotated[
        bool, typer.Option("--start-server/--no-start-server", help="Start the server.")
    ] = True,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Write a report; - is the output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Check files, packages, keys, prices, servers and the project; exit code 1 on a failure."""
    from toolscore_pipeline.agent.mcp_client import MCPServerSpec
    from toolscore_pipeline.doctor import doctor_report, run_doctor
    from toolscore_pipeline.project import find_project

    target = None
    if server is not None:
        is_url = server.startswith(("http://", "https://"))
        target = MCPServerSpec(url=server) if is_url else MCPServerSpec(tuple(shlex.split(server)))
    checks = run_doctor(
        spec,
        contract,
        target,
        keys=key,
        allow_unknown_price=allow_unknown_price,
        start_server=start_server,
        project=project or find_project(),
    )
    report = doctor_report(checks)
    out = console(quiet=quiet or json_path == "-")
    out.print(
        table(
            ("Check", "Status", "Detail"),
            [(check.name, check.status, check.detail) for check in checks],
            title="Doctor",
        )
    )
    out.print(", ".join(f"{count} {status}" for status, count in report["counts"].items() if count))
    if json_path:
        write_json(json_path, report)
    if report["counts"]["fail"]:
        raise typer.Exit(EXIT_GATE)
