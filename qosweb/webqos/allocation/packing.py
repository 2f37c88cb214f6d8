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
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import Exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Group


def fill_under(
    ceilings: Sequence[Group], low: Sequence[int], high: Sequence[int], offsets: Sequence[int]
) -> Exact | None:
    """The exact shares between ``low`` and ``high``; None if the lower bounds alone exceed a ceiling.

    A class with an offset starts to rise when the level has reached it.
    """
    if any(sum([low[one] for one in group]) > ppm for group, ppm in ceilings):
        return None
    filling = _Filling(low, high, offsets)
    # (level at least, its denominator, classes that were stopped when it was computed, ceiling)
    waiting = [(*filling.level(*ceiling), 0, ceiling) for ceiling in ceilings]
    while True:
        waiting = [entry for entry in waiting if entry[1]]
        if not waiting:
            return filling.shares()
        first = waiting[0]
        for entry in waiting:
            if entry[0] * first[1] < first[0] * entry[1]:
                first = entry
        level, parts, known, ceiling = first
        waiting.remove(first)
        if known < len(filling.stopped):
            level, parts = filling.level(*ceiling)
            if not parts or level * first[1] > first[0] * parts:
                waiting.append((level, parts, len(filling.stopped), ceiling))
                continue
        filling.stop(ceiling[0], level, parts)


class _Filling:
    def __init__(self, low: Sequence[int], high: Sequence[int], offsets: Sequence[int]) -> None:
        self._low = low
        self._high = high
        self._offsets = offsets
        self._scale = 1
        self.stopped: dict[int, int] = {}  # in parts of the scale

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
        scale = self._scale
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
        more = parts // gcd(parts, self._scale)
        if more > 1:
            self._scale *= more
            for one in self.stopped:
                self.stopped[one] *= more
        scale = self._scale
        level *= scale // parts
        for one in group:
            if one not in self.stopped:
                here = level - self._offsets[one] * scale
                self.stopped[one] = min(max(here, self._low[one] * scale), self._high[one] * scale)

    def shares(self) -> Exact:
        scale, stopped = self._scale, self.stopped
        return Exact([stopped[one] if one in stopped else most * scale for one, most in enumerate(self._high)], scale)
