"""Max-min shares under ceilings that overlap in any way: progressive filling, exact. Pure.

All classes rise together from their lower bounds. The first ceiling that is reached stops all its classes; the others
continue. The level at which a ceiling is reached follows from its own classes alone, as long as no other ceiling has
stopped one of them; after that it can only be higher. So a computed level is a lower limit, and is computed again only
when it is the least of all.

Amounts are integers over a common denominator, which grows when a level needs it: several times as fast as fractions.
"""

from __future__ import annotations

from fractions import Fraction
from heapq import heapify, heappop, heappush
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

    A class with an offset starts to rise when the level has reached the offset.
    """
    if any(sum([low[one] for one in group]) > ppm for group, ppm in ceilings):
        return None
    filling = _PackingFill(ceilings, low, high, offsets)
    filling.fill()
    return filling.shares()


class _PackingFill:
    def __init__(
        self, ceilings: Sequence[Group], low: Sequence[int], high: Sequence[int], offsets: Sequence[int]
    ) -> None:
        self._ceilings = ceilings
        self._low = low
        self._high = high
        self._offsets = offsets
        self._over: dict[int, list[int]] = {}  # for each class, the numbers of its ceilings
        for c, (group, _) in enumerate(ceilings):
            for one in group:
                self._over.setdefault(one, []).append(c)
        self._scale = 1
        self._stopped: dict[int, int] = {}  # share of each stopped class, in parts of the scale

    def fill(self) -> None:
        """Stops the classes of each ceiling where it is reached, the lowest first."""
        levels = [(level, c) for c in range(len(self._ceilings)) if (level := self._level(c)) is not None]
        heapify(levels)
        stale = [False] * len(self._ceilings)
        while levels:
            level, c = heappop(levels)
            if stale[c]:
                stale[c] = False
                later = self._level(c)
                if later is not None:
                    heappush(levels, (later, c))
                continue
            for one in self._stop(self._ceilings[c][0], level):
                for other in self._over[one]:
                    stale[other] = True

    def _level(self, c: int) -> Fraction | None:
        """The level at which a ceiling is reached; None if it is never reached."""
        low, high, offsets, stopped = self._low, self._high, self._offsets, self._stopped
        group, ppm = self._ceilings[c]
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
                return Fraction(level * rising * scale + room, rising * scale)
            room -= step
            level = mark
            rising += change
        return None

    def _stop(self, group: tuple[int, ...], at: Fraction) -> list[int]:
        """Stops these classes at a level; returns those that rose until now."""
        more = at.denominator // gcd(at.denominator, self._scale)
        if more > 1:
            self._scale *= more
            self._stopped = {one: amount * more for one, amount in self._stopped.items()}
        scale, stopped = self._scale, self._stopped
        level = at.numerator * (scale // at.denominator)
        rising = [one for one in group if one not in stopped]
        for one in rising:
            here = level - self._offsets[one] * scale
            stopped[one] = min(max(here, self._low[one] * scale), self._high[one] * scale)
        return rising

    def shares(self) -> Exact:
        scale, stopped = self._scale, self._stopped
        return Exact([stopped[one] if one in stopped else most * scale for one, most in enumerate(self._high)], scale)
