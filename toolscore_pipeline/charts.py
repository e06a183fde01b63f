"""Pictures of a comparison, as PNG or SVG bytes.

The same comparison gives the same bytes: no dates, no random ids. Nothing here touches the state of
an interactive matplotlib session, and variant names are drawn as they stand, ``$`` included.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolscore_pipeline.errors import UsageError, unknown_name
from toolscore_pipeline.reports.safe import plain
from toolscore_pipeline.stats import Comparison, TaskCounts, VariantStats, pareto_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")

_INK, _MUTED, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
# Told apart by people who see colours differently, and by line style where lines cross.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_DASHES = ("-", "--", "-.", ":")
TASKS_DRAWN = 40
_LABEL_LENGTH = 40
_STYLE: Any = {
    "svg.hashsalt": "toolscore",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "figure.dpi": 100,
}


def forest_plot(comparison: Comparison, format: str = "svg") -> bytes:
    """Pass rates with their 95% Wilson intervals, one row per variant, the baseline's rate dashed.

    Args:
        comparison: what to draw.
        format: ``png`` or ``svg``.

    Raises:
        UsageError: an unknown format, or no variants.
    """
    variants = _variants(comparison)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        rows = range(len(variants) - 1, -1, -1)
        for row, stats in zip(rows, variants, strict=True):
            low, high = stats.interval
            axes.plot([low, high], [row, row], color=_COLOURS[0], linewidth=2)
            if stats.pass_rate is not None:
                axes.plot(stats.pass_rate, row, "o", color=_COLOURS[0], markersize=7)
            text = "no runs" if not stats.n else f"{stats.counts['pass']} of {stats.n}"
            axes.text(1.02, row, text, va="center", color=_MUTED)
        for stats in variants:
            if stats.variant == comparison.baseline and stats.pass_rate is not None:
                axes.axvline(stats.pass_rate, color=_MUTED, linestyle="--", linewidth=1)
        axes.set_yticks(list(rows), [_label(stats.variant) for stats in variants])
        axes.set_ylim(-0.6, len(variants) - 0.4)
        _share_axis(axes, "x")
        axes.set_title("Pass rate with 95% Wilson interval")

    return _render(draw, format, 7.5, 1.2 + 0.4 * len(variants))


def pass_hat_plot(comparison: Comparison, format: str = "svg", k_max: int | None = None) -> bytes:
    """The mean pass^k of each variant by k: how fast reliability falls when all k runs must pass.

    Args:
        comparison: what to draw.
        format: ``png`` or ``svg``.
        k_max: the last k; None takes the most any task has runs for, at most 10.

    Raises:
        UsageError: an unknown format, no variants, or a ``k_max`` below 1.
    """
    variants = _variants(comparison)
    if k_max is None:
        k_max = min(10, max((cell.n for cell in comparison.task_counts), default=1))
    if k_max < 1:
        raise UsageError(f"k_max must be at least 1, not {k_max}")
    last_k = max(k_max, 1)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, stats in enumerate(variants):
            points = [
                (k, value)
                for k, value in enumerate(comparison.pass_hat_curve(stats.variant, last_k), start=1)
                if value is not None
            ]
            axes.plot(
                [k for k, _ in points],
                [value for _, value in points],
                color=_COLOURS[index % len(_COLOURS)],
                linestyle=_DASHES[index // len(_COLOURS) % len(_DASHES)],
                marker="o",
                markersize=4,
                label=_label(stats.variant),
            )
        _share_axis(axes, "y")
        axes.set_xticks(range(1, last_k + 1))
        axes.set_xlim(0.7, last_k + 0.3)
        axes.set_xlabel("k")
        axes.set_title("pass^k: chance that k runs of a task all pass, mean over tasks")
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return _render(draw, format, 7.5, 4.0)


def cost_plot(comparison: Comparison, format: str = "svg") -> bytes:
    """Mean cost of a run against pass rate, with the Pareto front of the two.

    A variant without a known cost is named below the picture, not drawn.

    Raises:
        UsageError: an unknown format, or no variant with a known cost.
    """
    variants = _variants(comparison)
    drawn = [
        (stats, stats.cost, stats.pass_rate)
        for stats in variants
        if stats.cost is not None and stats.pass_rate is not None
    ]
    if not drawn:
        raise UsageError("no variant has a known cost to draw")
    front = set(pareto_front([stats for stats, _, _ in drawn], ["pass_rate", "cost"]))

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        best = sorted((cost, rate) for stats, cost, rate in drawn if stats.variant in front)
        axes.plot(
            [cost for cost, _ in best],
            [rate for _, rate in best],
            color=_COLOURS[1],
            linewidth=1.5,
            drawstyle="steps-post",
        )
        by_cost = sorted(drawn, key=lambda point: point[1])
        for index, (stats, cost, rate) in enumerate(by_cost):
            is_best = stats.variant in front
            colour, marker = (_COLOURS[1], "D") if is_best else (_COLOURS[0], "o")
            axes.plot([cost, cost], stats.interval, color=colour, linewidth=1, alpha=0.5)
            axes.plot(cost, rate, marker, color=colour, markersize=7)
            # Neighbours' names go above and below in turn, so that they seldom cover each other.
            offset = (7, -14 if index % 2 else 5)
            axes.annotate(
                _label(stats.variant), (cost, rate), xytext=offset, textcoords="offset points"
            )
        _share_axis(axes, "y")
        axes.set_xlim(left=0)
        axes.margins(x=0.15)
        axes.set_xlabel("mean cost of a run, US dollars")
        axes.set_ylabel("pass rate")
        axes.set_title("Cost against pass rate; diamonds are on the Pareto front")
        missing = [_label(stats.variant) for stats in variants if stats.cost is None]
        if missing:
            figure.text(
                0.01, -0.01, f"without a known cost: {', '.join(missing)}", va="top", color=_MUTED
            )

    return _render(draw, format, 7.5, 4.2)


def heat_map(comparison: Comparison, format: str = "svg") -> bytes:
    """The pass rate of each task under each variant.

    Of more than 40 tasks, the 40 on which the variants differ most. A task that a variant did not
    run stays blank.

    Raises:
        UsageError: an unknown format, or no runs.
    """
    variants = [stats for stats in _variants(comparison) if stats.n]
    by_variant = {stats.variant: comparison.tasks_of(stats.variant) for stats in variants}
    tasks, everything = tasks_that_differ(list(by_variant.values()), TASKS_DRAWN)
    if not tasks:
        raise UsageError("there are no runs to draw")

    def draw(figure: Figure) -> None:
        import numpy as np

        axes = figure.add_subplot()
        shares = np.full((len(tasks), len(variants)), np.nan)
        for column, own in enumerate(by_variant.values()):
            for row, task in enumerate(tasks):
                if task in own:
                    shares[row, column] = own[task].rate
        image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        if len(variants) <= 12:
            for column, own in enumerate(by_variant.values()):
                for row, task in enumerate(tasks):
                    if task in own:
                        dark = own[task].rate < 0.5
                        axes.text(
                            column,
                            row,
                            f"{own[task].passes}/{own[task].n}",
                            ha="center",
                            va="center",
                            color="white" if dark else "black",
                            fontsize=8,
                        )
        labels = [_label(stats.variant) for stats in variants]
        axes.set_xticks(range(len(variants)), labels, rotation=30, ha="right")
        axes.set_yticks(range(len(tasks)), [_label(task) for task in tasks])
        figure.colorbar(image, ax=axes, label="pass rate")
        shown = (
            "" if len(tasks) == everything else f", {len(tasks)} of {everything} that differ most"
        )
        axes.set_title(f"Pass rate by task and variant{shown}")

    width = min(16.0, 4.0 + 0.9 * len(variants))
    return _render(draw, format, width, 1.8 + 0.28 * len(tasks))


CHARTS: dict[str, Callable[[Comparison, str], bytes]] = {
    "pass-rates": forest_plot,
    "pass-hat-k": pass_hat_plot,
    "cost": cost_plot,
    "tasks": heat_map,
}
"""Every picture by name."""

TITLES: dict[str, str] = {
    "pass-rates": "Pass rates with 95% intervals",
    "pass-hat-k": "pass^k by k",
    "cost": "Cost against pass rate",
    "tasks": "Pass rate by task and variant",
}


def all_charts(comparison: Comparison, format: str = "svg") -> dict[str, bytes]:
    """Every picture that the comparison has the data for, by name.

    Raises:
        UsageError: an unknown format.
    """
    _check_format(format)
    return {
        name: chart(comparison, format)
        for name, chart in CHARTS.items()
        if has_data(comparison, name)
    }


def has_data(comparison: Comparison, name: str) -> bool:
    """Whether the comparison has the data for a picture."""
    has_cost = any(stats.cost is not None for stats in comparison.variants)
    return any(stats.n for stats in comparison.variants) and (name != "cost" or has_cost)


def inline_svg(picture: bytes, prefix: str, title: str, description: str) -> str:
    """A picture as an ``svg`` element of an HTML page, named for people who do not see it.

    Its ids begin with ``prefix``, its inks become the custom properties ``--ink``, ``--muted``,
    ``--line`` and ``--card`` of the page, and it fits the width it is given.
    """
    from xml.etree import ElementTree

    root = ElementTree.fromstring(picture)
    for element in list(root):
        if element.tag.endswith(("}metadata", "}defs")) and not element.findall(".//*[@id]"):
            root.remove(element)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name, value in list(element.attrib.items()):
            if name.startswith("{"):
                del element.attrib[name]
            text = re.sub(r"\s+", " ", value)
            text = re.sub(r"(^|url\()#", rf"\1#{prefix}-", text) if "#" in text else text
            element.attrib[name.rpartition("}")[2]] = text
        if "id" in element.attrib:
            element.attrib["id"] = f"{prefix}-{element.attrib['id']}"
        if style := element.attrib.get("style"):
            style = re.sub(r"font-family:[^;]*;? ?", "", style)
            for ink, name in _PAGE_INKS.items():
                style = style.replace(ink, f"var({name})")
            element.attrib["style"] = style
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib |= {
        "viewBox": box,
        "role": "img",
        "aria-labelledby": f"{prefix}-title {prefix}-desc",
        "style": f"max-width: {float(box.split()[2]):.0f}pt",
    }
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        said = ElementTree.Element(name, {"id": f"{prefix}-{name}"})
        said.text = text
        root.insert(place, said)
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


_PAGE_INKS = {_INK: "--ink", _MUTED: "--muted", _GRID: "--line", "#ffffff": "--card"}


def _variants(comparison: Comparison) -> list[VariantStats]:
    if not comparison.variants:
        raise UsageError("there are no variants to draw")
    return comparison.variants


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise UsageError(unknown_name("picture format", format, FORMATS))


def _render(draw: Callable[[Figure], None], format: str, width: float, height: float) -> bytes:
    _check_format(format)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.style import context

    buffer = io.BytesIO()
    # The default style keeps a user's own matplotlibrc out of the picture.
    with context("default"), rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        metadata: dict[str, Any] = {"Date": None, "Creator": None} if format == "svg" else {}
        if format == "png":
            metadata = {"Software": None}
        figure.savefig(buffer, format=format, metadata=metadata, bbox_inches="tight")
    return buffer.getvalue()


def _share_axis(axes: Axes, which: str) -> None:
    """Make one axis a share from 0 to 100%."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xlim if which == "x" else axes.set_ylim)(-0.02, 1.02)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    axis.grid(visible=True)


def _label(name: str) -> str:
    return plain(name, _LABEL_LENGTH) or "(no name)"


def tasks_that_differ(
    by_variant: Sequence[Mapping[str, TaskCounts]], most: int
) -> tuple[list[str], int]:
    """The tasks to show, and how many there are.

    All of them in first-seen order, or, of more than ``most``, by name those whose pass rates
    differ most between the variants.
    """
    tasks = list(dict.fromkeys(task for own in by_variant for task in own))
    if len(tasks) <= most:
        return tasks, len(tasks)
    by_spread = sorted(tasks, key=lambda task: (-_spread(by_variant, task), task))
    return sorted(by_spread[:most]), len(tasks)


def _spread(by_variant: Iterable[Mapping[str, TaskCounts]], task: str) -> float:
    rates = [own[task].rate for own in by_variant if task in own]
    return max(rates) - min(rates)
