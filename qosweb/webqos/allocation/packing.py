"""Max-min shares under ceilings that overlap as they like: progressive filling, exact. Pure.

All classes rise together from their lower bounds. The first ceiling to be reached stops all its classes; the others go
on. The level at which a ceiling is reached is known from its own classes alone, as long as none of them is stopped by
another one; when one is, that level can only rise. So what was computed once is a lower limit, and is computed again
only when it is the least of all.

Amounts are counted in parts of a common denominator, which grows when a level needs it: exact, and several times as
fast as fractions.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from qosweb.webqos.allocation.groups import Exact
from qosweb.webqos.allocation.rising import Rising
from qosweb.webqos.allocation.waterline import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.rising import RisingCourse
    from qosweb.webqos.allocation.waterline import Bounds


def fill_under(
    ceilings: Sequence[Group], low: Sequence[int], high: Sequence[int], offsets: Sequence[int]
) -> Exact | None:
    """The exact shares between ``low`` and ``high``; None if the lower bounds alone exceed a ceiling.

    A class with an offset starts to rise when the level has reached it.
    """
    if any(sum([low[one] for one in group]) > ppm for group, ppm in ceilings):
        return None
    filling = _Filling(low, high, offsets)
    filling.fill(ceilings)
    return filling.shares()


class Packing:
    """Ceilings that overlap, of some of the classes."""

    def __init__(self, offsets: Sequence[int], ceilings: Sequence[Group]) -> None:
        self._offsets = offsets
        self._ceilings = ceilings
        self.classes = sorted({one for group, _ in ceilings for one in group})
        self._asked: list[tuple[int, int]] = []
        self._course: PackingCourse | RisingCourse | None = None
        self._bounds: Bounds | None = None

    def begin(self, demand: Sequence[int], bounds: Bounds) -> PackingCourse | RisingCourse | None:
        """How they fill; if lower bounds alone exceed a ceiling and have to yield, how they rise."""
        if self._bounds is bounds:
            return self._course
        self._bounds = bounds
        low, high = bounds.low, bounds.high
        asked = [(low[one], high[one]) for one in self.classes]
        if self._course is not None and self._asked == asked:
            return self._course
        self._asked = asked
        if any(sum([low[one] for one in group]) > ppm for group, ppm in self._ceilings):
            self._course = Rising(self._offsets, (), self._ceilings, (), frozenset()).begin(demand, bounds)
            return self._course
        filling = _Filling(low, high, self._offsets)
        filling.fill(self._ceilings)
        stops = [(one, stop, low[one], high[one], self._offsets[one]) for one, stop in filling.stopped.items()]
        self._course = PackingCourse(stops, filling.scale)
        return self._course


class PackingStanding(NamedTuple):
    """How the classes stand at a level, in its parts."""

    level: int
    parts: int
    beyond: int
    beyond_pace: int
    unit: int
    amounts: dict[int, int]


class PackingCourse:
    """Where each class stops, in parts of a scale, with its own bounds and its offset."""

    def __init__(self, stops: list[tuple[int, int, int, int, int]], scale: int) -> None:
        self._stops = stops
        self._scale = scale

    def stand(self, level: int, parts: int) -> PackingStanding:
        """Everything at ``level / parts``."""
        finer = self._scale // gcd(self._scale, parts)
        level, parts = level * finer, parts * finer
        to_stops = parts // self._scale
        whole = level // parts
        beyond = pace = 0
        amounts: dict[int, int] = {}
        for one, stop, least, most, offset in self._stops:
            here = whole - offset
            if here < least:
                amounts[one] = least * parts
                continue
            own = most * parts if here >= most else level - offset * parts
            limit = stop * to_stops
            if own < limit:
                amounts[one] = own
            else:
                beyond -= own - limit
                pace -= here < most
                amounts[one] = limit
        return PackingStanding(level, parts, beyond, pace, 1, amounts)

    def advance(self, standing: PackingStanding) -> PackingStanding:
        """All has acted already."""
        return standing

    def found(self, standing: PackingStanding) -> Found:
        return Found(standing.level, standing.parts, standing.amounts)


class _Filling:
    def __init__(self, low: Sequence[int], high: Sequence[int], offsets: Sequence[int]) -> None:
        self._low = low
        self._high = high
        self._offsets = offsets
        self.scale = 1
        self.stopped: dict[int, int] = {}  # in parts of the scale

    def fill(self, ceilings: Iterable[Group]) -> None:
        """Stop the classes of each ceiling where it is reached."""
        # (level at least, its denominator, classes that were stopped when it was computed, ceiling)
        waiting = [(*self.level(*ceiling), 0, ceiling) for ceiling in ceilings]
        while True:
            waiting = [entry for entry in waiting if entry[1]]
            if not waiting:
                return
            first = waiting[0]
            for entry in waiting:
                if entry[0] * first[1] < first[0] * entry[1]:
                    first = entry
            level, parts, known, ceiling = first
            waiting.remove(first)
            if known < len(self.stopped):
                level, parts = self.level(*ceiling)
                if not parts or level * first[1] > first[0] * parts:
                    waiting.append((level, parts, len(self.stopped), ceiling))
                    continue
            self.stop(ceiling[0], level, parts)

    def level(self, group: tuple[int, ...], ppm: int) -> tuple[int, int]:
        """The level at which these classes hold ``ppm`` together, and its denominator: 0 if they never do."""
        low, high, offsets, stopped = self._low, self._high, self._offsets, self.stopped
        room = 0
        marks: list[tuple[int, int]] = []
        for one in group:
            if one in stopped:
                room -= stopped[one]
            else:
                least, most = low[one], high[one]
                ppm -= least
                if least < most:
                    offset = offsets[one]
                    marks.append((least + offset, 1))
                    marks.append((most + offset, -1))
        marks.sort()
        scale = self.scale
        room += ppm * scale
        level = rising = 0
        for mark, change in marks:
            step = (mark - level) * rising * scale
            if step > room:
                return level * rising * scale + room, rising * scale
            room -= step
            level = mark
            rising += change
        return 0, 0

    def stop(self, group: tuple[int, ...], level: int, parts: int) -> None:
        """These classes stay where they are at the level of ``level / parts``."""
        divisor = gcd(level, parts)
        level, parts = level // divisor, parts // divisor
        more = parts // gcd(parts, self.scale)
        if more > 1:
            self.scale *= more
            for one in self.stopped:
                self.stopped[one] *= more
        scale = self.scale
        level *= scale // parts
        for one in group:
            if one not in self.stopped:
                here = level - self._offsets[one] * scale
                self.stopped[one] = min(max(here, self._low[one] * scale), self._high[one] * scale)

    def shares(self) -> Exact:
        scale, stopped = self.scale, self.stopped
        return Exact([stopped[one] if one in stopped else most * scale for one, most in enumerate(self._high)], scale)
