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
from qosweb.webqos.allocation.rising import Rising
from qosweb.webqos.allocation.waterline import Found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Group

FINE = 20
NEVER = 1 << 200  # above the key of every level


def fill_under(
    ceilings: Sequence[Group], low: Sequence[int], high: Sequence[int], offsets: Sequence[int]
) -> Exact | None:
    """The exact shares between ``low`` and ``high``; None if the lower bounds alone exceed a ceiling.

    A class with an offset starts to rise when the level has reached it.
    """
    if any(sum([low[one] for one in group]) > ppm for group, ppm in ceilings):
        return None
    filling = _Filling(low, high, offsets, ceilings, ceilings_over(ceilings))
    filling.fill([filling.level(c) for c in range(len(ceilings))])
    return filling.shares()


def ceilings_over(ceilings: Sequence[Group]) -> dict[int, list[int]]:
    """For each class, the numbers of its ceilings."""
    found: dict[int, list[int]] = {}
    for c, (group, _) in enumerate(ceilings):
        for one in group:
            found.setdefault(one, []).append(c)
    return found


class Packing:
    """Ceilings that overlap, of some of the classes."""

    def __init__(self, offsets: Sequence[int], ceilings: Sequence[Group]) -> None:
        self._all_offsets = offsets
        self._all_ceilings = ceilings
        self.classes = sorted({one for group, _ in ceilings for one in group})
        place = {one: k for k, one in enumerate(self.classes)}
        self._offsets = [offsets[one] for one in self.classes]
        self._ceilings = [(tuple(place[one] for one in group), ppm) for group, ppm in ceilings]
        self._over = ceilings_over(self._ceilings)
        self._low: Sequence[int] = ()
        self._high: Sequence[int] = ()
        self._stops: Sequence[int] = ()  # where each class stops, in parts of the scale
        self._scale = 1
        self._rising: Rising | None = None

    def begin(self, demand: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        """How they fill; if lower bounds alone exceed a ceiling and have to yield, how they rise."""
        self._rising = None
        if any(sum([low[k] for k in group]) > ppm for group, ppm in self._ceilings):
            self._rising = Rising(self._all_offsets, (), self._all_ceilings, (), frozenset())
            self._rising.begin(demand, low, high)
            return
        self._low, self._high = low, high
        filling = _Filling(low, high, self._offsets, self._ceilings, self._over)
        filling.fill([filling.level(c) for c in range(len(self._ceilings))])
        self._stops, self._scale = filling.shares()

    def stand(self, level: int, parts: int) -> tuple[Found, tuple[int, int]] | None:
        """What they hold at ``level / parts``, and what all gain per level."""
        if self._rising is not None:
            return self._rising.stand(level, parts)
        finer = self._scale // gcd(self._scale, parts)
        level, parts = level * finer, parts * finer
        to_stops = parts // self._scale
        pace = 0
        amounts: dict[int, int] = {}
        for one, stop, least, offset in zip(self.classes, self._stops, self._low, self._offsets, strict=True):
            here, limit = level - offset * parts, stop * to_stops
            if here < least * parts:
                here = least * parts
            elif here >= limit:
                here = limit
            else:
                pace += 1
            amounts[one] = here
        return Found(level, parts, amounts), (pace, 1)


class _Filling:
    """``over`` are the numbers of the ceilings of each class."""

    def __init__(
        self,
        low: Sequence[int],
        high: Sequence[int],
        offsets: Sequence[int],
        ceilings: Sequence[Group],
        over: dict[int, list[int]],
    ) -> None:
        self._low = low
        self._high = high
        self._offsets = offsets
        self._ceilings = ceilings
        self._over = over
        self.scale = 1
        self.stopped: dict[int, int] = {}  # in parts of the scale

    def fill(self, first: Sequence[tuple[int, int]]) -> None:
        """Stop the classes of each ceiling where it is reached, the lowest first.

        ``first`` are the levels at which each would be reached if there were no other: none is reached sooner.
        """
        levels = [*first]
        keys = [_key(*level) for level in levels]
        stale = [False] * len(levels)
        while True:
            least = min(keys, default=NEVER)
            if least == NEVER:
                return
            c = keys.index(least)
            if keys.count(least) > 1:  # nearly the same, or the same
                for other in range(c + 1, len(keys)):
                    if keys[other] == least and levels[other][0] * levels[c][1] < levels[c][0] * levels[other][1]:
                        c = other
            if stale[c]:
                stale[c] = False
                levels[c] = self.level(c)
                keys[c] = _key(*levels[c])
                continue
            keys[c] = NEVER
            for one in self.stop(self._ceilings[c][0], *levels[c]):
                for other in self._over[one]:
                    stale[other] = True

    def level(self, c: int) -> tuple[int, int]:
        """The level at which a ceiling is reached, and its denominator: 0 if it never is."""
        low, high, offsets, stopped = self._low, self._high, self._offsets, self.stopped
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

    def stop(self, group: tuple[int, ...], level: int, parts: int) -> list[int]:
        """These classes stay where they are at the level of ``level / parts``. Which of them rose up to now?"""
        divisor = gcd(level, parts)
        level, parts = level // divisor, parts // divisor
        more = parts // gcd(parts, self.scale)
        if more > 1:
            self.scale *= more
            self.stopped = {one: amount * more for one, amount in self.stopped.items()}
        scale, stopped = self.scale, self.stopped
        level *= scale // parts
        rising = [one for one in group if one not in stopped]
        for one in rising:
            here = level - self._offsets[one] * scale
            if here < self._low[one] * scale:
                stopped[one] = self._low[one] * scale
            elif here > self._high[one] * scale:
                stopped[one] = self._high[one] * scale
            else:
                stopped[one] = here
        return rising

    def shares(self) -> Exact:
        scale, stopped = self.scale, self.stopped
        return Exact([stopped[one] if one in stopped else most * scale for one, most in enumerate(self._high)], scale)


def _key(level: int, parts: int) -> int:
    """Never greater for a lower level: whole numbers are compared sooner than fractions."""
    return (level << FINE) // parts if parts else NEVER
