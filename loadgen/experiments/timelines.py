"""Time series of a load: what each class received, window by window, as plot lines and CSV rows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.experiments.evidence import MOVED
from loadgen.experiments.findings import PlotLine
from loadgen.experiments.judging import bytes_served, shares, windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest

CSV_HEAD = ["witness", "from_s", "to_s", "class", "asked", "served", "denied", "failed", "bytes", "share_percent"]


def share_lines(
    rows: Sequence[ObservedRequest], classes: Sequence[str], lasting_s: float, step_s: float
) -> list[PlotLine]:
    cut = windows(0.0, lasting_s, step_s)
    found = [shares(rows, *window, classes) for window in cut]
    middles = [(begin_s + end_s) / 2 for begin_s, end_s in cut]
    return [PlotLine(name, middles, [share[name] for share in found], tone) for tone, name in enumerate(classes)]


def rate_lines(
    rows: Sequence[ObservedRequest], classes: Sequence[str], lasting_s: float, step_s: float, *, served: bool
) -> list[PlotLine]:
    """Requests per second: all by arrival time, or the served ones by completion time."""
    cut = windows(0.0, lasting_s, step_s)
    lines = []
    for tone, name in enumerate(classes):
        counts = [0] * len(cut)
        for row in rows:
            at = int((row.ended_s if served else row.asked_s) / step_s)
            if row.class_name == name and row.outcome != MOVED and 0 <= at < len(cut):
                counts[at] += not served or row.outcome == "served"
        lines.append(PlotLine(name, [sum(w) / 2 for w in cut], [c / step_s for c in counts], tone))
    return lines


def total_line(rows: Sequence[ObservedRequest], lasting_s: float, step_s: float, label: str, tone: int) -> PlotLine:
    """Megabytes per second, all classes."""
    cut = windows(0.0, lasting_s, step_s)
    rates = [sum(bytes_served(rows, *window).values()) / step_s / (1 << 20) for window in cut]
    return PlotLine(label, [sum(window) / 2 for window in cut], rates, tone)


def csv_rows(evidence: Evidence, classes: Sequence[str], step_s: float) -> list[list[str]]:
    """One row for each class, window and source; requests by end time."""
    rows = []
    for witness, seen in evidence.witnesses():
        for begin_s, end_s in windows(0.0, evidence.lasted_s, step_s):
            part = shares(seen, begin_s, end_s, classes)
            size = bytes_served(seen, begin_s, end_s)
            here = [row for row in seen if begin_s <= row.ended_s < end_s and row.outcome != MOVED]
            for name in classes:
                of_class = [row.outcome for row in here if row.class_name == name]
                counts = [of_class.count(what) for what in ("served", "denied", "failed")]
                rows.append(
                    [witness, f"{begin_s:g}", f"{end_s:g}", name, str(len(of_class)), *map(str, counts),
                     str(size.get(name, 0)), f"{part[name]:.2f}"]
                )  # fmt: skip
    return rows
