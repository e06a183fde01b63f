"""``toolscore compare``: is one variant better than another, and which one to take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolscore_pipeline.cli.output import (
    column_widths,
    console,
    table,
    takes_output,
    write_bytes,
    write_json,
    write_text,
)
from toolscore_pipeline.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from toolscore_pipeline.stats import Comparison, ProtocolResult, Run, Selection
    from toolscore_pipeline.stats.marts import ProjectComparison


def command(
    runs: Annotated[
        list[str] | None,
        typer.Option("--runs", metavar="FILES", help="Run rows, JSON Lines; a file or a glob."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--traces", metavar="VARIANT=DIR", help="A folder of traces to score with --gold."
        ),
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="The gold list or contract that traces are scored with.")
    ] = None,
    variant_key: Annotated[
        str | None, typer.Option(help="The field of a run row that names its variant.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="Only run rows with this value (repeatable)."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="The k of pass^k.")] = 1,
    baseline: Annotated[
        str | None, typer.Option(help="Compare every variant with this one (default: all pairs).")
    ] = None,
    min_n: Annotated[
        int, typer.Option("--min-n", help="Runs per variant before a difference can be called.")
    ] = 10,
    alpha: Annotated[float, typer.Option(help="Significance level of the Fisher test.")] = 0.05,
    select: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="Pick a variant: lexicographic, weighted or pareto."),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=WEIGHT]",
            help="What to pick by, in order: pass_rate, pass_hat_k, cost, latency.",
        ),
    ] = None,
    protocol: Annotated[
        Path | None, typer.Option(help="Decision rules declared before the runs (JSON or YAML).")
    ] = None,
    min_score: Annotated[float, typer.Option(help="The score at which a trace passes.")] = 0.9,
    task_pattern: Annotated[
        str | None,
        typer.Option(help="Regular expression with a group 'task' for the names of trace files."),
    ] = None,
    project: Annotated[
        Path | None, typer.Option(help="The project whose comparisons to show.")
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Write the report; - is the output."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="PATH", help="Write it as Markdown.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="PATH", help="Write it as a page with pictures."),
    ] = None,
    charts: Annotated[
        Path | None, typer.Option("--charts", metavar="DIR", help="Write pictures (PNG and SVG).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Compare variants over repeated runs: rates with intervals, tests, a choice, a decision.

    With --runs or --traces these are compared; with neither, the comparisons of the project found
    upward from here are shown.
    """
    is_taken = takes_output(json=json_path, markdown=markdown, html=html)
    out = console(quiet=quiet or is_taken)
    if not runs and not traces:
        _refuse_without_runs(
            gold=gold,
            variant_key=variant_key,
            where=where,
            baseline=baseline,
            select=select,
            protocol=protocol,
        )
        found = _project_comparisons(project)
        for one in found:
            _show(out, one.name, one.comparison, one.selection, one.protocol)
        if json_path:
            write_json(json_path, {"comparisons": [one.to_dict() for one in found]})
        for one in found:
            _write_documents(
                one.name, one.comparison, one.selection, one.protocol,
                *(_numbered(path, one.name, len(found)) for path in (markdown, html, charts)),
            )  # fmt: skip
        return

    from toolscore_pipeline.stats import (
        compare_runs,
        evaluate_protocol,
        load_protocol,
        select_variant,
    )
    from toolscore_pipeline.stats.select import parse_objective

    if project is not None:
        raise UsageError(
            "--project shows a project's own comparisons: leave out --runs and --traces"
        )
    if objective and select is None:
        raise UsageError("--objective needs --select, the policy that weighs it")
    # A protocol that is wrong is told before a thousand traces are scored.
    declared = load_protocol(protocol) if protocol is not None else None
    objectives = [parse_objective(text) for text in objective] if objective else None
    everything = _collect(
        runs or [],
        traces or [],
        gold,
        variant_key,
        where=_conditions(where or []),
        min_score=min_score,
        task_pattern=task_pattern,
    )
    comparison = compare_runs(everything, k=k, baseline=baseline, min_n=min_n, alpha=alpha)
    selection = select_variant(comparison, select, objectives) if select is not None else None
    decision = evaluate_protocol(declared, comparison) if declared is not None else None
    _show(out, "Comparison", comparison, selection, decision)
    report: dict[str, Any] = comparison.to_dict()
    if selection is not None:
        report["selection"] = selection.to_dict()
    if decision is not None:
        report["protocol"] = decision.to_dict()
    if json_path:
        write_json(json_path, report)
    _write_documents("Comparison", comparison, selection, decision, markdown, html, charts)


def _refuse_without_runs(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} needs runs to compare: give --runs or --traces")


def _project_comparisons(project: Path | None) -> list[ProjectComparison]:
    """The comparisons of a project, as its warehouse was last published."""
    from toolscore_pipeline.project import open_project
    from toolscore_pipeline.stats.marts import protocol_warnings, read_comparisons
    from toolscore_pipeline.warehouse import Warehouse

    opened = open_project(project)
    connection = Warehouse(opened.warehouse).read()
    try:
        found = read_comparisons(connection)
        warnings = protocol_warnings(connection)
    finally:
        connection.close()
    for one in found:
        if one.name in warnings:
            one.comparison.notes.append(warnings[one.name])
    if not found:
        raise UsageError(
            "the project has no comparisons; add some to toolscore.yaml, or give --runs or --traces"
        )
    return found


def _collect(
    runs: Sequence[str],
    traces: Sequence[str],
    gold: Path | None,
    variant_key: str | None,
    *,
    where: dict[str, str],
    min_score: float,
    task_pattern: str | None,
) -> list[Run]:
    """The runs of every file and folder named, in the order they are named."""
    from toolscore_pipeline.stats import load_runs, runs_from_traces
    from toolscore_pipeline.stats.runs import TASK_PATTERN

    if traces and gold is None:
        raise UsageError("--traces needs --gold, the gold list or contract to score them with")
    if gold is not None and not traces:
        raise UsageError("--gold scores traces: give --traces VARIANT=DIR")
    found = load_runs(_files(runs), variant_key, where)
    for text in traces:
        variant, separator, directory = text.partition("=")
        if not separator or not variant or not directory:
            raise UsageError(f"--traces takes VARIANT=DIR, not {text!r}")
        assert gold is not None
        found += runs_from_traces(variant, directory, gold, min_score, task_pattern or TASK_PATTERN)
    if not found:
        raise UsageError("there are no runs to compare: no row of the files named counts")
    return found


def _conditions(texts: Sequence[str]) -> dict[str, str]:
    """The fields rows must have, of ``FIELD=VALUE`` texts."""
    found = {}
    for text in texts:
        field, separator, value = text.partition("=")
        if not separator or not field:
            raise UsageError(f"--where takes FIELD=VALUE, not {text!r}")
        found[field] = value
    return found


def _files(patterns: Sequence[str]) -> list[Path]:
    """The files named, globs resolved in order of name, none twice."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.exists() or not any(character in pattern for character in "*?["):
            files[path] = None
            continue
        anchor = Path(path.anchor)
        matches = sorted(anchor.glob(str(path.relative_to(anchor))))
        if not matches:
            raise InputError("no file matches the pattern", path=pattern)
        files.update(dict.fromkeys(matches))
    return list(files)


def _show(
    out: Console,
    title: str,
    comparison: Comparison,
    selection: Selection | None,
    protocol: ProtocolResult | None,
) -> None:
    """Print a comparison: the sentences first, then the tables, then what to beware of."""
    from toolscore_pipeline.stats.report import view_of

    view = view_of(title, comparison, selection, protocol, has_figures=False)
    out.print(view.name)
    for pair in view.comparison.pairs:
        out.print(f"  {pair.verdict}")
        if pair.common is not None:
            out.print(f"    on the {pair.common.tasks} task(s) both ran: {pair.common.verdict}")
    for one in (view.variants, view.pairs, view.ranking, view.rules):
        if one is not None:
            widths = column_widths(one.header, one.rows, out.width, whole=0) or column_widths(
                one.header, one.rows, out.width
            )
            out.print(table(one.header, one.rows, title=one.title, widths=widths))
            if one.left_out:
                out.print(f"and {one.left_out} more")
    if view.selection is not None:
        out.print(f"Selected: {view.selection.chosen}. {view.selection.reason}")
    if view.protocol is not None:
        decision, digest = view.protocol.decision, view.protocol.protocol_sha256
        out.print(f"Decision: {decision} (protocol {digest[:12]})")
    for note in view.notes:
        out.print(f"Note: {note}")


def _numbered(path: Path | None, name: str, count: int) -> Path | None:
    """Where one of several comparisons goes: its name stands before the suffix."""
    if path is None or count == 1:
        return path
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    return path.with_name(f"{path.stem}-{safe}{path.suffix}")


def _write_documents(
    title: str,
    comparison: Comparison,
    selection: Selection | None,
    protocol: ProtocolResult | None,
    markdown: Path | None,
    html: Path | None,
    charts: Path | None,
) -> None:
    if markdown is not None:
        from toolscore_pipeline.stats.report import to_markdown

        write_text(markdown, to_markdown(comparison, selection, protocol, title))
    if html is not None:
        from toolscore_pipeline.stats.report import to_html

        write_text(html, to_html(comparison, selection, protocol, title))
    if charts is not None:
        from toolscore_pipeline.charts import FORMATS, all_charts

        for format in FORMATS:
            for name, picture in all_charts(comparison, format).items():
                _write_picture(charts / f"{name}.{format}", picture)


def _write_picture(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
    write_bytes(path, content)
