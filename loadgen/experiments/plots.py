"""Plots findings as a PNG file with one or more panels, using matplotlib, which is an optional dependency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.experiments.findings import Bars

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from loadgen.experiments.findings import Panel

COLOURS = ("#2b6f9e", "#d98c2b", "#4f8f4f", "#b4472e", "#7a5ea8", "#8c6d4f", "#6f7f8c", "#c76a9a")
_HEADROOM = 1.12
_NUMBER = 0.05  # fraction of the longest bar: shorter parts have no room for a number
_EDGE = 0.1  # margin in inches, so that no legend touches the border
_NEAR = 0.12  # fraction of the width: labels of closer marks would overlap


def draw(panels: Sequence[Panel | Bars], target: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(8.4, 3.3 * len(panels)), layout=ConstrainedLayoutEngine(w_pad=_EDGE, h_pad=_EDGE))
    FigureCanvasAgg(figure)
    for at, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, at + 1)
        if isinstance(panel, Bars):
            _draw_bars(axes, panel)
        else:
            _draw(axes, panel)
    figure.savefig(target, format="png", dpi=110)


def _draw(axes: Axes, panel: Panel) -> None:
    for height, tone in panel.levels:
        axes.axhline(height, color=_colour(tone), linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)
    for line in panel.lines:
        style = "--" if line.dashed else "-"
        marker = "o" if len(line.xs) <= 40 and not line.dashed else ""
        axes.plot(
            line.xs, line.ys, label=line.label, color=_colour(line.tone), linewidth=1.6, linestyle=style,
            marker=marker, markersize=3.5,
        )  # fmt: skip
    top = max([*(y for line in panel.lines for y in line.ys), *(height for height, _ in panel.levels), 1e-9])
    axes.set_ylim(0, top * (_HEADROOM + 0.1 if panel.marks else _HEADROOM))
    _mark(axes, panel)
    if panel.log_x:
        axes.set_xscale("log")
        xs = sorted({x for line in panel.lines for x in line.xs})
        axes.set_xticks(xs, [f"{x:g}" for x in xs])
        axes.minorticks_off()
    axes.set_title(panel.title, fontsize=10, loc="left")
    axes.set_xlabel(panel.x_label, fontsize=9)
    axes.set_ylabel(panel.y_label, fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5, frameon=False)


def _draw_bars(axes: Axes, bars: Bars) -> None:
    """Draw the bars, the first on top, with numbers in parts that are long enough."""
    places = [float(-at) for at in range(len(bars.names))]
    begins = [0.0] * len(bars.names)
    longest = max([sum(values) for values in zip(*(one.values for one in bars.stacks), strict=True)] or [1.0])
    for stack in bars.stacks:
        axes.barh(places, stack.values, left=begins, height=0.62, color=_colour(stack.tone), label=stack.label)
        for place, begin, value in zip(places, begins, stack.values, strict=True):
            if value > _NUMBER * longest:
                axes.text(begin + value / 2, place, f"{value:.0f}", ha="center", va="center", fontsize=8, color="white")
        begins = [begin + value for begin, value in zip(begins, stack.values, strict=True)]
    for length, what in bars.levels:
        axes.axvline(length, color="#333", linewidth=0.9, linestyle=(0, (4, 3)), label=what)
    axes.set_yticks(places, bars.names)
    axes.set_title(bars.title, fontsize=10, loc="left")
    axes.set_xlabel(bars.x_label, fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5, frameon=False)


def _mark(axes: Axes, panel: Panel) -> None:
    """Draw the marks as lines with labels; a label that would overlap the previous one goes a line lower."""
    left, right = axes.get_xlim()
    before, lower = left - right, 0
    for mark in sorted(panel.marks, key=lambda mark: mark.x):
        lower = lower + 1 if mark.x - before < _NEAR * (right - left) else 0
        before = mark.x
        axes.axvline(mark.x, color="#999", linewidth=0.9)
        axes.annotate(
            mark.text, (mark.x, 1), (3, -3 - 11 * lower), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=8, color="#555",
        )  # fmt: skip


def _colour(tone: int) -> str:
    return COLOURS[tone % len(COLOURS)]
