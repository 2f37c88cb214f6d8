"""Charts of the findings as inline SVG."""

from __future__ import annotations

import io
import math
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from qosweb.analytics.report.terminal import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.tables import OutcomeCounts

COLOURS = ("#2b6f9e", "#d98c2b", "#4f8f4f", "#b4472e", "#7a5ea8", "#8c6d4f", "#c76a9a", "#6f7f8c", "#a3a33c", "#3ca3a3")
CLASSES_MAX = 10
POINTS_MAX = 2_000
HOLE = 1.5  # a larger distance of two points, in usual distances, is a gap


def pictures(findings: Findings) -> list[tuple[str, str]]:
    """Titles and SVG texts of all charts."""
    by_class = _by_class(findings)
    if not by_class:
        return []
    window_s = findings.limits.window_s
    waited = {name: [row for row in rows if row.wait_ms] for name, rows in by_class.items()}
    requests = _lines(
        by_class, window_s, "requests per second", lambda row: row.served / window_s, lambda row: row.asked / window_s
    )
    return [
        ("Share of the bytes served, by class", _shares(by_class, window_s)),
        ("Requests: demand (dashed) and served, by class", requests),
        ("Capacity: known and used", _capacity(findings)),
        ("Waiting time, 99th percentile, by class", _lines(waited, window_s, "ms", lambda row: row.wait_ms[-1])),
    ]


def _by_class(findings: Findings) -> dict[str, list[OutcomeCounts]]:
    """The largest classes, each with its windows in order."""
    found: dict[str, list[OutcomeCounts]] = {}
    for row in findings.table:
        if row.window_s is not None and row.name is not None and row.node is None:
            found.setdefault(row.name, []).append(row)
    largest = sorted(found, key=lambda name: -sum(row.asked for row in found[name]))[:CLASSES_MAX]
    every = 1 + max((len(rows) for rows in found.values()), default=0) // POINTS_MAX
    return {name: found[name][::every] for name in sorted(largest)}


def broken(when: Sequence[float], values: Sequence[float], window_s: int) -> tuple[list[float], list[float]]:
    """Inserts a gap where a class had no requests, so that no line is drawn across unknown values.

    If there are too many windows to draw all, the usual distance is that of the drawn ones.
    """
    steps = [after - before for before, after in pairwise(when)]
    usual_s = max(float(window_s), median(steps)) if steps else float(window_s)
    at: list[float] = []
    drawn: list[float] = []
    for moment, value in zip(when, values, strict=True):
        if at and moment - at[-1] > HOLE * usual_s:
            at.append(at[-1] + usual_s)
            drawn.append(math.nan)
        at.append(moment)
        drawn.append(value)
    return at, drawn


def _shares(by_class: dict[str, list[OutcomeCounts]], window_s: int) -> str:
    totals: dict[int | None, int] = {}
    for rows in by_class.values():
        for row in rows:
            totals[row.window_s] = totals.get(row.window_s, 0) + row.sent_bytes
    return _lines(by_class, window_s, "% of the bytes", lambda row: 100 * row.sent_bytes / (totals[row.window_s] or 1))


def _lines(
    by_class: dict[str, list[OutcomeCounts]],
    window_s: int,
    unit: str,
    value: Callable[[OutcomeCounts], float],
    dashed: Callable[[OutcomeCounts], float] | None = None,
) -> str:
    """A chart with a line for each class, and optionally a dashed line beside it."""
    figure, axes = _figure(unit)
    for colour, (name, rows) in zip(COLOURS, by_class.items(), strict=False):
        when, marker = [float(row.window_s or 0) for row in rows], "o" if len(rows) < 3 else ""
        if dashed:
            axes.plot(*broken(when, list(map(dashed, rows)), window_s), color=colour, linewidth=0.9, linestyle="--")
        values = broken(when, list(map(value, rows)), window_s)
        axes.plot(*values, color=colour, label=name, linewidth=1.6, marker=marker)
    return _svg(figure, axes)


def _capacity(findings: Findings) -> str:
    figure, axes = _figure("million bytes per second")
    rows = findings.capacity[:: 1 + len(findings.capacity) // POINTS_MAX]
    when = [float(row.window_s) for row in rows]
    served = broken(when, [row.served_bps / 1e6 for row in rows], findings.limits.window_s)
    axes.fill_between(*served, color="#d7e3ec", label="served")
    known = [(at, row.known_bps / 1e6) for at, row in zip(when, rows, strict=True) if row.known_bps is not None]
    if known:
        axes.step([at for at, _ in known], [bps for _, bps in known], color="#b4472e", where="post", label="known")
    return _svg(figure, axes)


def _figure(unit: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 3), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.set_ylabel(unit)
    return figure, axes


def _svg(figure: Figure, axes: Axes) -> str:
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at_s, _: clock(at_s).split()[1]))
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    return text[text.index("<svg") :]
