"""A comparison as a document: Markdown for a pull request, HTML with pictures for a reader."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolscore_pipeline.stats.compare import METHODS, Comparison, PairComparison, VariantStats
from toolscore_pipeline.stats.numbers import format_p, format_rate
from toolscore_pipeline.stats.protocol import ProtocolResult
from toolscore_pipeline.stats.runs import OUTCOMES
from toolscore_pipeline.stats.select import Selection


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of texts; the columns from ``numbers_from`` on hold numbers."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers_from: int = 1


def variants_table(comparison: Comparison) -> Table:
    """One row per variant: rate, interval, pass^k, outcomes, cost, latency."""
    return Table(
        "Variants",
        (
            "variant",
            "pass rate",
            "95 % interval",
            f"pass^{comparison.k}",
            "runs",
            "pass/fail/error/unknown",
            "tasks",
            "cost",
            "latency",
        ),
        [_variant_row(stats) for stats in comparison.variants],
    )


def pairs_table(comparison: Comparison) -> Table:
    """One row per pair: difference, tests over runs and over tasks, what moved."""
    return Table(
        "Pairs",
        (
            "pair",
            "difference",
            "Fisher p",
            "Holm p",
            "distinguishable",
            "by task, 95 %",
            "paired p",
            "up/down/same",
            "runs needed",
        ),
        [_pair_row(pair) for pair in comparison.pairs],
    )


def moved_table(pair: PairComparison) -> Table:
    """The tasks that moved most between two variants."""
    return Table(
        f"Tasks that moved most, {pair.a} to {pair.b}",
        ("task", pair.a, pair.b, "difference"),
        [
            (
                change.task,
                f"{change.passes_a}/{change.n_a}",
                f"{change.passes_b}/{change.n_b}",
                points(change.difference),
            )
            for change in pair.moved
        ],
    )


def selection_table(selection: Selection) -> Table:
    """The ranking of a selection."""
    return Table(
        f"Selection ({selection.policy})",
        ("rank", "variant", "on the Pareto front", "score", "unknown objectives"),
        [
            (
                str(rank),
                name,
                "yes" if name in selection.pareto_front else "no",
                f"{selection.scores[name]:.3f}" if name in selection.scores else "",
                ", ".join(selection.unknown.get(name, [])),
            )
            for rank, name in enumerate(selection.ranking, start=1)
        ],
        numbers_from=5,
    )


def protocol_table(protocol: ProtocolResult) -> Table:
    """Each rule of a protocol and what the runs say to it."""
    return Table(
        f"Protocol: {protocol.title}" if protocol.title else "Protocol",
        ("rule", "metric", "status", "detail"),
        [(rule.id, rule.metric, rule.status, rule.detail) for rule in protocol.rules],
        numbers_from=4,
    )


def points(difference: float | None) -> str:
    """A difference of shares in percentage points, with its sign."""
    return "unknown" if difference is None else f"{100 * difference:+.1f}"


def to_markdown(
    comparison: Comparison,
    selection: Selection | None = None,
    protocol: ProtocolResult | None = None,
    title: str = "Comparison",
) -> str:
    """The comparison as GitHub-flavoured Markdown."""
    lines = [f"# {_cell(title)}", ""]
    for pair in comparison.pairs:
        lines.append(f"- {_cell(pair.verdict)}")
    if selection is not None:
        lines.append(
            f"- Selected: {_cell(selection.chosen or 'nothing')}. {_cell(selection.reason)}"
        )
    if protocol is not None:
        lines.append(f"- Protocol: **{protocol.decision}**")
    for table in _tables(comparison, selection, protocol):
        lines += ["", f"## {_cell(table.title)}", "", *_markdown_table(table)]
    for pair in comparison.pairs:
        if pair.common is not None:
            lines += [
                "",
                f"On the {pair.common.tasks} task(s) both ran: {_cell(pair.common.verdict)}",
            ]
    if comparison.notes:
        lines += ["", "## Notes", "", *(f"- {_cell(note)}" for note in comparison.notes)]
    lines += ["", "## How it was computed", ""]
    lines += [f"- {name}: {method}" for name, method in METHODS.items()]
    lines.append(f"- {_settings(comparison)}")
    if protocol is not None:
        lines.append(f"- protocol hash: {protocol.protocol_sha256}")
    return "\n".join(lines) + "\n"


def to_html(
    comparison: Comparison,
    selection: Selection | None = None,
    protocol: ProtocolResult | None = None,
    title: str = "Comparison",
) -> str:
    """The comparison as one HTML page with its pictures inside; it loads nothing from elsewhere."""
    from toolscore_pipeline.charts import TITLES, all_charts

    text = html.escape
    parts = [f"<h1>{text(title)}</h1>"]
    parts.append(_html_list(pair.verdict for pair in comparison.pairs))
    if selection is not None:
        chosen = text(selection.chosen or "nothing")
        parts.append(f"<p>Selected: <strong>{chosen}</strong>. {text(selection.reason)}</p>")
    if protocol is not None:
        decision = protocol.decision
        parts.append(f'<p>Protocol: <strong class="{decision}">{decision}</strong></p>')
    tables = _tables(comparison, selection, protocol)
    parts += [_html_table(tables[0])]
    for name, picture in all_charts(comparison, "svg").items():
        svg = picture.decode()
        # What stands before the root element (XML declaration, document type) has no place in HTML.
        parts.append(
            f"<figure>{svg[svg.index('<svg') :]}<figcaption>{TITLES[name]}</figcaption></figure>"
        )
    parts += [_html_table(table) for table in tables[1:]]
    for pair in comparison.pairs:
        if pair.common is not None:
            parts.append(
                f"<p>On the {pair.common.tasks} task(s) both ran: {text(pair.common.verdict)}</p>"
            )
    if comparison.notes:
        parts += ["<h2>Notes</h2>", _html_list(comparison.notes)]
    methods = [f"{name}: {method}" for name, method in METHODS.items()]
    methods.append(_settings(comparison))
    if protocol is not None:
        methods.append(f"protocol hash: {protocol.protocol_sha256}")
    parts += ["<h2>How it was computed</h2>", _html_list(methods)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin-bottom: 1rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #e4e7eb; text-align: left; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #7b8794; } .adopt { color: #00704f; } .reject { color: #b42318; }
"""


def _tables(
    comparison: Comparison, selection: Selection | None, protocol: ProtocolResult | None
) -> list[Table]:
    tables = [variants_table(comparison)]
    if comparison.pairs:
        tables.append(pairs_table(comparison))
    if selection is not None:
        tables.append(selection_table(selection))
    if protocol is not None:
        tables.append(protocol_table(protocol))
    return tables + [moved_table(pair) for pair in comparison.pairs if pair.moved]


def _variant_row(stats: VariantStats) -> tuple[str, ...]:
    low, high = stats.interval
    return (
        stats.variant,
        format_rate(stats.pass_rate),
        f"{100 * low:.1f} to {100 * high:.1f} %",
        format_rate(stats.pass_hat_k),
        str(stats.n),
        "/".join(str(stats.counts[outcome]) for outcome in OUTCOMES),
        str(stats.tasks),
        "unknown" if stats.cost is None else f"${stats.cost:.4g}",
        "unknown" if stats.latency is None else f"{stats.latency:.3g} s",
    )


def _pair_row(pair: PairComparison) -> tuple[str, ...]:
    clustered, paired = pair.clustered, pair.paired
    return (
        f"{pair.a} → {pair.b}",
        points(pair.difference),
        format_p(pair.p_value),
        format_p(pair.p_holm) if pair.p_holm is not None else "",
        "yes" if pair.distinguishable else "no",
        f"{points(clustered.low)} to {points(clustered.high)}" if clustered else "not estimable",
        format_p(paired.p_value) if paired else "no common task",
        f"{pair.improved}/{pair.worsened}/{pair.unchanged}",
        "" if pair.runs_needed is None else str(pair.runs_needed),
    )


def _settings(comparison: Comparison) -> str:
    against = "all pairs" if comparison.baseline is None else f"baseline {comparison.baseline}"
    return (
        f"settings: k {comparison.k}, min_n {comparison.min_n}, alpha {comparison.alpha:g}, "
        f"{against}"
    )


def _markdown_table(table: Table) -> Iterable[str]:
    yield _markdown_row(table.header)
    yield _markdown_row(
        ["---" if column < table.numbers_from else "---:" for column in range(len(table.header))],
        escape=False,
    )
    for row in table.rows:
        yield _markdown_row(row)


def _markdown_row(cells: Sequence[str], escape: bool = True) -> str:
    return "| " + " | ".join(_cell(cell) if escape else cell for cell in cells) + " |"


_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|"})


def _cell(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return " ".join(text.translate(_MARKDOWN).split())


def _html_table(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return (
            "<tr>"
            + "".join(
                f"<{tag}{' class=number' if column >= table.numbers_from else ''}>"
                f"{html.escape(cell)}</{tag}>"
                for column, cell in enumerate(cells)
            )
            + "</tr>"
        )

    rows = "\n".join(row("td", cells) for cells in table.rows)
    return (
        f"<h2>{html.escape(table.title)}</h2>\n"
        f"<table>\n<thead>{row('th', table.header)}</thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _html_list(items: Iterable[str]) -> str:
    entries = "".join(f"<li>{html.escape(item)}</li>" for item in items)
    return f"<ul>{entries}</ul>" if entries else ""
