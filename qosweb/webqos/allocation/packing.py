"""Max-min shares under ceilings that overlap as they like: progressive filling, exact. Pure.

All classes rise together from their lower bounds. The first ceiling to be reached stops all its classes; the others go
on. The level at which a ceiling is reached is known from its own classes alone, as long as none of them is stopped by
another one; when one is, that level can only rise. So what was computed once is a lower limit, and is computed again
only when it is the least of all.

So where classes stop depends on nothing but demands and ceilings, and a component of this kind needs no shapes.

Amounts are counted in parts of a common denominator, which grows when a level needs it: exact, and several times as
fast as fractions.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.active_sets import FAR, Piece
from qosweb.webqos.allocation.groups import Exact, picker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.component import Component
    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.waterline import Bounds, Level

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
    """A component that is bound by ceilings alone: where each class stops depends on the demands, not on the level.

    ``yielding`` is the same for any rules; it is needed when lower bounds alone exceed a ceiling.
    """

    def __init__(self, offsets: Sequence[int], ceilings: Sequence[Group], yielding: Component) -> None:
        self.classes = sorted({one for group, _ in ceilings for one in group})
        place = {one: k for k, one in enumerate(self.classes)}
        self._offsets = [offsets[one] for one in self.classes]
        self._ceilings = [(tuple(place[one] for one in group), ppm) for group, ppm in ceilings]
        self._over = ceilings_over(self._ceilings)
        self._own = picker(self.classes)
        self._yielding = yielding
        self._yields = False  # do lower bounds alone exceed a ceiling?
        self._serial = -1
        self._low: Sequence[int] = ()
        self._high: Sequence[int] = ()
        self._first: list[Level] = []  # the levels at which the ceilings would be reached one by one
        self._to_renew: set[int] = set()  # those of which are not true any more
        self._stops: Sequence[int] = ()  # where each class stops, in parts of the scale
        self._scale = 1

    def take(self, bounds: Bounds) -> None:
        """The demands are now these."""
        if self._serial == bounds.serial:
            return
        self._serial = bounds.serial
        own = self._own
        low, high = own(bounds.low), own(bounds.high)
        if low == self._low and high == self._high and not self._yields:
            return
        changed = [
            k
            for k, (least, least_before, most, most_before) in enumerate(
                zip(low, self._low or low, high, self._high or high, strict=True)
            )
            if most != most_before or least != least_before
        ]
        self._to_renew.update([c for k in changed for c in self._over[k]])
        keeps = bool(self._stops) and not self._yields and all(self._stays(k, low[k], high[k]) for k in changed)
        if low != self._low:
            self._yields = any(sum([low[k] for k in group]) > ppm for group, ppm in self._ceilings)
        self._low, self._high = low, high
        if self._yields:
            self._yielding.take(bounds)
        elif not keeps:
            self._fill()

    def _stays(self, k: int, least: int, most: int) -> bool:
        """A class has other bounds now: is it certain that all stop where they did?

        It is if it was, and is, stopped before it is full.
        """
        stop = self._stops[k]
        return least == self._low[k] and stop < most * self._scale and stop < self._high[k] * self._scale

    def _fill(self) -> None:
        filling = _Filling(self._low, self._high, self._offsets, self._ceilings, self._over)
        if not self._first:
            self._first = [filling.level(c) for c in range(len(self._ceilings))]
        for c in self._to_renew:
            self._first[c] = filling.level(c)
        self._to_renew.clear()
        filling.fill(self._first)
        self._stops, self._scale = filling.shares()

    def guess(self, level: int) -> Piece:
        return self._yielding.guess(level) if self._yields else self.piece(level, 1)

    def piece(self, level: int, parts: int) -> Piece:
        """What they hold at ``level / parts``, and how far that goes."""
        if self._yields:
            return self._yielding.piece(level, parts)
        scale = self._scale
        here = level * scale
        above = FAR
        below = 0
        base: list[int] = []
        slope: list[int] = []
        for stop, least, offset in zip(self._stops, self._low, self._offsets, strict=True):
            offset *= scale
            least = least * scale + offset
            stop += offset
            if here < least * parts:
                base.append(least - offset)
                slope.append(0)
                if least < above:
                    above = least
            elif here >= stop * parts:
                base.append(stop - offset)
                slope.append(0)
                if stop > below:
                    below = stop
            else:
                base.append(-offset)
                slope.append(scale)
                if stop < above:
                    above = stop
                if least > below:
                    below = least
        return Piece((below, scale), (above, scale), base, slope, scale, sum(base), sum(slope))


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
