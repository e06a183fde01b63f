"""A comparison as a document: Markdown for a pull request, HTML with pictures for a reader.

:func:`view_of` reads a comparison once for all documents: every name and sentence in the view is
redacted, short, and free of characters that act on what shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from toolscore_pipeline.figures import dollars, percent, percent_range, seconds
from toolscore_pipeline.reports.safe import markdown_text, plain
from toolscore_pipeline.stats.compare import METHODS, Comparison, PairComparison, VariantStats
from toolscore_pipeline.stats.counting import TaskCounts
from toolscore_pipeline.stats.numbers import format_p
from toolscore_pipeline.stats.protocol import ProtocolResult
from toolscore_pipeline.stats.runs import OUTCOMES
from toolscore_pipeline.stats.select import Selection

MOST_VARIANTS, MOST_PAIRS, MOST_NOTES = 60, 60, 40
"""Rows of the tables of a page; what is left out is counted."""
MOST_DRAWN, MOST_COLUMNS, MOST_TASKS = 24, 12, 40
"""Variants of a picture; columns and rows of the table of tasks."""
LEVEL_NAMES = (
    "none passed",
    "under 50%",
    "50 to 75%",
    "75 to 90%",
    "90% and more",
    "all passed",
)
"""What each level of a heat map means."""

_LEVELS = (0.5, 0.75, 0.9)
_MOST_MOVED_TABLES = 6
_MOST_VERDICTS = 3
_LONGEST_NAME, _LONGEST_SENTENCE = 120, 1000


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of texts; the columns from ``numbers_from`` on hold numbers.

    Attributes:
        badge: the column whose words are states (pass, fail, unknown); None without one.
        left_out: rows that are not shown.
    """

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers_from: int = 1
    badge: int | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence to act on.

    Attributes:
        tone: ``good``, ``bad``, ``warn``, ``open`` for what is not known, or ``told``.
        label: the verdict in a word or two.
        text: the sentence.
        about: what it is about, for a document that holds several; empty without.
    """

    tone: str
    label: str
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """The runs of a task under a variant; ``level`` is 0 (none passed) to 5 (all passed)."""

    passes: int
    runs: int
    level: int

    @property
    def share(self) -> str:
        """The share that passed, without a digit behind the point."""
        return percent(self.passes / self.runs, 0)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Pass rates by task and variant; a cell is None where a variant did not run the task."""

    variants: list[str]
    rows: list[tuple[str, list[HeatCell | None]]]
    task_count: int
    variant_count: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture: its name in ``charts.CHARTS``, what it shows, and an ``svg`` element."""

    name: str
    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """What a document shows of a comparison.

    Attributes:
        name: what the comparison is called.
        comparison, selection, protocol: as computed, with names made fit to be shown.
        headlines: what to act on.
        variants: the table of variants.
        pairs: the table of pairs; None without a pair.
        ranking: the table of a selection; None without one.
        rules: the table of a protocol's rules; None without one.
        moved: for each pair, the tasks that moved most.
        common: for each pair whose tasks differ, the verdict on the common ones.
        heat: pass rates by task and variant; None without runs.
        figures: the pictures.
        notes: what to beware of.
        methods: how each figure was computed.
    """

    name: str
    comparison: Comparison
    selection: Selection | None
    protocol: ProtocolResult | None
    headlines: list[Headline]
    variants: Table
    pairs: Table | None
    ranking: Table | None
    rules: Table | None
    moved: list[Table] = field(default_factory=list)
    common: list[str] = field(default_factory=list)
    heat: HeatMap | None = None
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    methods: list[tuple[str, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe report; of the tasks it has those of the heat map."""
        record = self.comparison.to_dict()
        del record["tasks"]
        return {
            "name": self.name,
            "headlines": [asdict(one) for one in self.headlines],
            **record,
            "selection": self.selection.to_dict() if self.selection else None,
            "protocol": self.protocol.to_dict() if self.protocol else None,
            "heat_map": asdict(self.heat) if self.heat else None,
        }


def view_of(
    name: str,
    comparison: Comparison,
    selection: Selection | None = None,
    protocol: ProtocolResult | None = None,
    *,
    prefix: str = "",
    has_figures: bool = True,
) -> ComparisonView:
    """Everything that the documents of a comparison show.

    Args:
        name: what it is called.
        comparison, selection, protocol: what was computed.
        prefix: what the ids of pictures begin with, so that two comparisons fit one page.
        has_figures: whether pictures are drawn.
    """
    names = _Names()
    pair_count = len(comparison.pairs)
    comparison = _shown_comparison(comparison, names)
    selection = _shown_selection(selection, names)
    protocol = _shown_protocol(protocol, names)
    moved = [pair for pair in comparison.pairs if pair.moved]
    return ComparisonView(
        name=plain(name, _LONGEST_NAME),
        comparison=comparison,
        selection=selection,
        protocol=protocol,
        headlines=_headlines(comparison, selection, protocol, pair_count),
        variants=_cut(variants_table(comparison), MOST_VARIANTS),
        pairs=_cut(pairs_table(comparison), MOST_PAIRS) if comparison.pairs else None,
        ranking=_cut(selection_table(selection), MOST_VARIANTS) if selection else None,
        rules=_cut(protocol_table(protocol), MOST_PAIRS) if protocol else None,
        moved=[moved_table(pair) for pair in moved[:_MOST_MOVED_TABLES]],
        common=[
            f"On the {pair.common.tasks} task(s) both {pair.a} and {pair.b} ran:"
            f" {pair.common.verdict}"
            for pair in comparison.pairs[:MOST_PAIRS]
            if pair.common is not None
        ],
        heat=heat_map(comparison),
        figures=_figures(comparison, prefix) if has_figures else [],
        notes=_cut_list(comparison.notes, MOST_NOTES),
        methods=_methods(comparison, protocol),
    )


class _Names:
    """Names from runs made fit to be shown; two that look alike then get numbers."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._taken: set[str] = set()
        self._changed: list[tuple[str, str]] = []

    def __call__(self, name: str) -> str:
        if name not in self._shown:
            shown = own = plain(name, _LONGEST_NAME)
            count = 2
            while shown in self._taken:
                shown, count = f"{own} ({count})", count + 1
            self._taken.add(shown)
            self._shown[name] = shown
            if name and shown != name:
                self._changed.append((name, shown))
        return self._shown[name]

    def sentence(self, text: str) -> str:
        """A sentence that may hold such names: a long name would hide what comes after it."""
        for name, shown in sorted(self._changed, key=lambda pair: -len(pair[0])):
            text = text.replace(name, shown)
        return plain(text, _LONGEST_SENTENCE)


def _shown_comparison(comparison: Comparison, names: _Names) -> Comparison:
    variants = [replace(one, variant=names(one.variant)) for one in comparison.variants]
    tasks = _Names()
    cells = [
        replace(cell, variant=names(cell.variant), task=tasks(cell.task))
        for cell in comparison.task_counts
    ]
    pairs = [
        replace(
            pair,
            a=names(pair.a),
            b=names(pair.b),
            verdict=names.sentence(pair.verdict),
            moved=[replace(change, task=tasks(change.task)) for change in pair.moved],
            common=pair.common
            and replace(
                pair.common,
                only_a=[tasks(task) for task in pair.common.only_a[:MOST_TASKS]],
                only_b=[tasks(task) for task in pair.common.only_b[:MOST_TASKS]],
                verdict=names.sentence(pair.common.verdict),
            ),
        )
        for pair in comparison.pairs[:MOST_PAIRS]
    ]
    notes = [tasks.sentence(names.sentence(note)) for note in comparison.notes[: MOST_NOTES + 1]]
    if left_out := len(comparison.pairs) - len(pairs):
        notes.insert(0, f"{left_out} more pairs were compared than are shown here.")
    return replace(
        comparison,
        variants=variants,
        pairs=pairs,
        baseline=None if comparison.baseline is None else names(comparison.baseline),
        duplicates=[
            replace(
                one,
                variant=names(one.variant),
                task=tasks(one.task),
                identity=plain(one.identity, _LONGEST_NAME),
            )
            for one in comparison.duplicates[:MOST_NOTES]
        ],
        task_counts=cells,
        notes=notes,
    )


def _shown_selection(selection: Selection | None, names: _Names) -> Selection | None:
    return selection and replace(
        selection,
        chosen=None if selection.chosen is None else names(selection.chosen),
        ranking=[names(name) for name in selection.ranking],
        pareto_front=[names(name) for name in selection.pareto_front],
        scores={names(name): score for name, score in selection.scores.items()},
        unknown={names(name): metrics for name, metrics in selection.unknown.items()},
        reason=names.sentence(selection.reason),
    )


def _shown_protocol(protocol: ProtocolResult | None, names: _Names) -> ProtocolResult | None:
    return protocol and replace(
        protocol,
        title=plain(protocol.title, _LONGEST_NAME),
        baseline=names(protocol.baseline),
        candidate=names(protocol.candidate),
        rules=[
            replace(rule, id=plain(rule.id, _LONGEST_NAME), detail=names.sentence(rule.detail))
            for rule in protocol.rules
        ],
    )


def _headlines(
    comparison: Comparison,
    selection: Selection | None,
    protocol: ProtocolResult | None,
    pair_count: int,
) -> list[Headline]:
    """The decision first, then what the pairs show, then what was selected."""
    found = []
    if protocol is not None:
        found.append(_decision(protocol))
    for pair in comparison.pairs[:_MOST_VERDICTS]:
        if not pair.distinguishable or pair.difference is None:
            found.append(Headline("open", "not told apart", pair.verdict))
        elif pair.difference > 0:
            found.append(Headline("good", "better", pair.verdict))
        else:
            found.append(Headline("bad", "worse", pair.verdict))
    if pair_count > _MOST_VERDICTS:
        shown = min(pair_count, MOST_PAIRS)
        text = (
            f"{pair_count:,} pairs were compared; the table of pairs has"
            f" {'all' if shown == pair_count else shown} of them."
        )
        found.append(Headline("told", "more pairs", text))
    if selection is not None:
        found.append(Headline("told", "selected", selection.reason))
    if not comparison.pairs:
        names = ", ".join(stats.variant for stats in comparison.variants[:_MOST_VERDICTS])
        text = f"There are runs of one variant only: {names}." if names else "There are no runs."
        found.append(Headline("open", "nothing to compare", text))
    return found


def _decision(protocol: ProtocolResult) -> Headline:
    title = f" “{protocol.title}”" if protocol.title else ""
    who = f"{protocol.candidate} instead of {protocol.baseline}"
    if protocol.decision == "adopt":
        count = len(protocol.rules)
        text = f"{who}: every rule of the protocol{title} passed ({count} of {count})."
        return Headline("good", "adopt", text)
    state = "fail" if protocol.decision == "reject" else "unknown"
    rules = [rule for rule in protocol.rules if rule.status == state]
    said = "failed" if state == "fail" else "cannot be decided"
    reasons = " ".join(f"{rule.id}: {rule.detail}" for rule in rules[:_MOST_VERDICTS])
    more = len(rules) - _MOST_VERDICTS
    reasons += f" And {more} more." if more > 0 else ""
    number = "1 rule" if len(rules) == 1 else f"{len(rules)} rules"
    text = plain(f"{who}: {number} of the protocol{title} {said}. {reasons}", _LONGEST_SENTENCE)
    return Headline("bad" if state == "fail" else "open", protocol.decision, text)


def heat_map(comparison: Comparison) -> HeatMap | None:
    """Pass rates by task and variant; of many tasks those on which the variants differ most."""
    from toolscore_pipeline.charts import tasks_that_differ

    ran = [stats.variant for stats in comparison.variants if stats.n]
    by_variant = {name: comparison.tasks_of(name) for name in ran[:MOST_COLUMNS]}
    tasks, count = tasks_that_differ(list(by_variant.values()), MOST_TASKS)
    if not tasks:
        return None
    return HeatMap(
        variants=list(by_variant),
        rows=[
            (task, [_heat_cell(own[task]) if task in own else None for own in by_variant.values()])
            for task in tasks
        ],
        task_count=count,
        variant_count=len(ran),
    )


def _heat_cell(cell: TaskCounts) -> HeatCell:
    level = 1 + sum(cell.rate >= bound for bound in _LEVELS)
    level = 0 if not cell.passes else 5 if cell.passes == cell.n else level
    return HeatCell(cell.passes, cell.n, level)


def _figures(comparison: Comparison, prefix: str) -> list[Figure]:
    from toolscore_pipeline.charts import CHARTS, TITLES, has_data, inline_svg

    drawn = comparison.variants[:MOST_DRAWN]
    names = {stats.variant for stats in drawn}
    shown = replace(
        comparison,
        variants=drawn,
        task_counts=[cell for cell in comparison.task_counts if cell.variant in names],
    )
    more = len(comparison.variants) - len(drawn)
    figures = []
    for name, chart in CHARTS.items():
        # The table of tasks says in text what that picture draws.
        if name == "tasks" or not has_data(shown, name):
            continue
        title = TITLES[name] + (f", {more} variants left out" if more else "")
        svg = inline_svg(chart(shown, "svg"), f"{prefix}{name}", title, _described(shown, name))
        figures.append(Figure(name, title, svg))
    return figures


def _described(comparison: Comparison, name: str) -> str:
    """A picture in words."""
    parts = []
    for stats in comparison.variants:
        low, high = stats.interval
        rate = percent(stats.pass_rate)
        if name == "pass-rates":
            said = f"{rate}, interval {percent_range(low, high)}"
        elif name == "cost":
            said = f"{dollars(stats.cost)} at {rate}"
        else:
            curve = comparison.pass_hat_curve(stats.variant, 10)
            known = [(k, value) for k, value in enumerate(curve, 1) if value is not None]
            said = ", ".join(f"k {k}: {percent(value)}" for k, value in known) or "unknown"
        parts.append(f"{stats.variant}: {said}")
    return "; ".join(parts) + "."


def _methods(comparison: Comparison, protocol: ProtocolResult | None) -> list[tuple[str, str]]:
    methods = [*METHODS.items(), ("settings", _settings(comparison))]
    if protocol is not None:
        methods.append(("protocol hash", protocol.protocol_sha256))
    return methods


def _cut(table: Table, most: int) -> Table:
    return replace(table, rows=table.rows[:most], left_out=max(0, len(table.rows) - most))


def _cut_list(texts: list[str], most: int) -> list[str]:
    more = len(texts) - most
    return texts if more <= 0 else [*texts[:most], "And more."]


def variants_table(comparison: Comparison) -> Table:
    """One row per variant: rate, interval, pass^k, outcomes, cost, latency."""
    return Table(
        "Variants",
        (
            "variant",
            "pass rate",
            "95% interval",
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
            "by task, 95%",
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
        badge=2,
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
    view = view_of(title, comparison, selection, protocol, has_figures=False)
    lines = [f"# {_cell(view.name)}", ""]
    lines += [f"- {_cell(pair.verdict)}" for pair in view.comparison.pairs]
    if view.selection is not None:
        chosen = view.selection.chosen or "nothing"
        lines.append(f"- Selected: {_cell(chosen)}. {_cell(view.selection.reason)}")
    if view.protocol is not None:
        lines.append(f"- Protocol: **{view.protocol.decision}**")
    for table in (view.variants, view.pairs, view.ranking, view.rules, *view.moved):
        if table is not None:
            lines += ["", f"## {_cell(table.title)}", "", *markdown_table(table)]
    for sentence in view.common:
        lines += ["", _cell(sentence)]
    if view.notes:
        lines += ["", "## Notes", "", *(f"- {_cell(note)}" for note in view.notes)]
    lines += ["", "## How it was computed", ""]
    lines += [f"- {_cell(name)}: {_cell(method)}" for name, method in view.methods]
    return "\n".join(lines) + "\n"


def to_html(
    comparison: Comparison,
    selection: Selection | None = None,
    protocol: ProtocolResult | None = None,
    title: str = "Comparison",
) -> str:
    """The comparison as one HTML page with its pictures inside; it loads nothing from elsewhere."""
    from toolscore_pipeline.reports.html import render

    view = view_of(title, comparison, selection, protocol)
    return render("comparison.html", view=view, level_names=LEVEL_NAMES)


def _variant_row(stats: VariantStats) -> tuple[str, ...]:
    low, high = stats.interval
    return (
        stats.variant,
        percent(stats.pass_rate),
        percent_range(low, high),
        percent(stats.pass_hat_k),
        str(stats.n),
        "/".join(str(stats.counts[outcome]) for outcome in OUTCOMES),
        str(stats.tasks),
        dollars(stats.cost),
        seconds(stats.latency),
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


def markdown_table(table: Table) -> Iterable[str]:
    """The lines of a table in Markdown."""
    yield _markdown_row(table.header)
    yield _markdown_row(
        ["---" if column < table.numbers_from else "---:" for column in range(len(table.header))],
        escape=False,
    )
    for row in table.rows:
        yield _markdown_row(row)
    if table.left_out:
        yield ""
        yield f"And {table.left_out} more."


def _markdown_row(cells: Sequence[str], escape: bool = True) -> str:
    return "| " + " | ".join(_cell(cell) if escape else cell for cell in cells) + " |"


def _cell(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return markdown_text(plain(text, _LONGEST_SENTENCE))
