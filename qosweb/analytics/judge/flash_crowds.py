"""Flash crowd detection: finds bursts of requests for a class, and the classes that were served less meanwhile. Pure.

The usual load of a class is the median of the windows in which it had requests: load after idleness is no flash crowd.
A flash crowd is a run of consecutive windows with at least ``FACTOR`` times the usual load. A class paid for the crowd
if a smaller part of its requests was served during the crowd than outside it.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.analytics.read.tables import OutcomeCounts

FACTOR = 3.0
REQUESTS_MIN = 30
PAID = 0.02  # a class paid if the served part of its requests fell by more than this


class DetectedCrowd(NamedTuple):
    name: str
    begin_s: int
    end_s: int
    factor: float
    paid: tuple[tuple[str, float, float], ...]  # class, part served outside the crowd, part served during it


def find_crowds(table: Iterable[OutcomeCounts], window_s: int) -> list[DetectedCrowd]:
    by_class: dict[str, dict[int, OutcomeCounts]] = {}
    for row in table:
        if row.window_s is not None and row.name is not None and row.node is None:
            by_class.setdefault(row.name, {})[row.window_s] = row
    windows = sorted({at for rows in by_class.values() for at in rows})
    if len(windows) < 3:
        return []
    found = []
    for name, rows in sorted(by_class.items()):
        counts = {at: rows[at].asked for at in sorted(rows) if rows[at].asked}
        usual = max(1.0, median(counts.values() or [0]))
        high = [at for at, count in counts.items() if count >= max(FACTOR * usual, REQUESTS_MIN)]
        for begin_s, end_s in _runs(high, window_s):
            inside = range(begin_s, end_s, window_s)
            factor = max(counts[at] for at in inside) / usual
            found.append(DetectedCrowd(name, begin_s, end_s, factor, _paid(by_class, set(inside))))
    return found


def _runs(at: list[int], window_s: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for one in at:
        if runs and runs[-1][1] == one:
            runs[-1] = runs[-1][0], one + window_s
        else:
            runs.append((one, one + window_s))
    return runs


def _paid(by_class: dict[str, dict[int, OutcomeCounts]], inside: set[int]) -> tuple[tuple[str, float, float], ...]:
    paid = []
    for name, rows in sorted(by_class.items()):
        parts = []
        for chosen in ([at for at in rows if at not in inside], [at for at in rows if at in inside]):
            asked = sum(rows[at].asked for at in chosen)
            parts.append(sum(rows[at].served for at in chosen) / asked if asked else None)
        outside, meanwhile = parts
        if outside is not None and meanwhile is not None and outside - meanwhile > PAID:
            paid.append((name, outside, meanwhile))
    return tuple(paid)
