"""Capacity over time, and the capacity that each class would have needed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.analytics.read.tables import OutcomeCounts
    from qosweb.analytics.read.timeline import Timeline


class WindowCapacity(NamedTuple):
    """``known_bps`` is from event lines; ``served_bps`` is what was served, a lower bound of the capacity."""

    window_s: int
    served_bps: float
    known_bps: int | None


class ClassNeed(NamedTuple):
    """Capacity that would have served all requests of a class: on average, and in its busiest window."""

    name: str
    mean_bps: float
    peak_bps: float
    served_bps: float


def capacity(table: Iterable[OutcomeCounts], timeline: Timeline, window_s: int) -> list[WindowCapacity]:
    sums: dict[int, int] = {}
    for row in table:
        if row.window_s is not None and row.name is not None and row.node is None:
            sums[row.window_s] = sums.get(row.window_s, 0) + row.sent_bytes
    found = []
    for at, sent in sorted(sums.items()):
        known = timeline.capacity(at, at + window_s)
        found.append(WindowCapacity(at, sent / window_s, None if known is None else known[0]))
    return found


def needs(table: Iterable[OutcomeCounts], window_s: int) -> list[ClassNeed]:
    """The need of each class. A request that was not served counts with the mean response size of its class."""
    by_class: dict[str, list[OutcomeCounts]] = {}
    for row in table:
        if row.window_s is not None and row.name is not None and row.node is None:
            by_class.setdefault(row.name, []).append(row)
    all_windows = [row.window_s for rows in by_class.values() for row in rows if row.window_s is not None]
    if not all_windows:
        return []
    seconds = max(all_windows) - min(all_windows) + window_s
    found = []
    for name, rows in sorted(by_class.items()):
        served, sent = sum(row.served for row in rows), sum(row.sent_bytes for row in rows)
        size = sent / served if served else 0.0
        demands = [row.sent_bytes + size * (row.denied + row.expired + row.gave_up) for row in rows]
        found.append(ClassNeed(name, sum(demands) / seconds, max(demands) / window_s, sent / seconds))
    return found
