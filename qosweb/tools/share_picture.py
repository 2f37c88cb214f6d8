"""Draws shares as a bar chart (PNG): one bar per class, its bounds marked, its demand behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from qosweb.errors import UsageError
from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos import ClassShare

ROWS_MAX = 80
INK, PALE, MARK, ALWAYS = "#2b6f9e", "#d7e3ec", "#b4472e", "#4f8f4f"


def draw(rows: Sequence[ClassShare], target: str, title: str) -> None:
    """Write a PNG file. Raises UsageError if it cannot be written."""
    shown = list(rows[:ROWS_MAX])
    figure = Figure(figsize=(8, 1.2 + 0.32 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(shown))
    axes.barh(places, [row.demand_ppm * 100 / PPM for row in shown], color=PALE, height=0.7, label="asked for")
    colours = [ALWAYS if row.always else INK for row in shown]
    axes.barh(places, [row.share_ppm * 100 / PPM for row in shown], color=colours, height=0.45, label="gets")
    for place, row in zip(places, shown, strict=True):
        for bound, marker in ((row.floor_ppm, ">"), (row.ceiling_ppm, "<")):
            if bound is not None:
                axes.plot([bound * 100 / PPM], [place], marker=marker, color=MARK, markersize=7, linestyle="none")
        suffix = " always" if row.always else ""
        axes.annotate(
            f"{row.share_ppm * 100 / PPM:.3g}%{suffix}", (row.share_ppm * 100 / PPM, place), (4, 0),
            textcoords="offset points", va="center", fontsize=8,
        )  # fmt: skip
    axes.set_yticks(list(places), [row.name for row in shown], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 105)
    axes.set_xlabel("% of the capacity    (> lower bound, < upper bound, pale: asked for)")
    axes.set_title(Path(title).name, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(target, format="png", dpi=120)
    except OSError as error:
        raise UsageError(f"--png {target}: {error.strerror}") from None
