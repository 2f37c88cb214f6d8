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

from qosweb.webqos.allocation.groups import Exact, picker
from qosweb.webqos.allocation.rising import Rising
from qosweb.webqos.allocation.waterline import LOOKS_MAX, Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.rising import RisingCourse
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
    """Ceilings that overlap, of some of the classes."""

    def __init__(self, offsets: Sequence[int], ceilings: Sequence[Group]) -> None:
        self._offsets = offsets
        self._ceilings = ceilings
        self.classes = sorted({one for group, _ in ceilings for one in group})
        self._over = ceilings_over(ceilings)
        self._own = picker(self.classes)
        self._low_of = [picker(group) for group, _ in ceilings]
        self._asked: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        self._first: list[tuple[int, int]] = []  # the levels at which the ceilings would be reached one by one
        self._too_low = False  # do lower bounds alone exceed a ceiling?
        self._to_renew: set[int] = set()  # those of which are not true any more
        self._course: PackingCourse | RisingCourse | None = None
        self._bounds: Bounds | None = None

    def begin(self, demand: Sequence[int], bounds: Bounds) -> PackingCourse | RisingCourse | None:
        """How they fill; if lower bounds alone exceed a ceiling and have to yield, how they rise."""
        if self._bounds is bounds:
            return self._course
        self._bounds = bounds
        low, high = bounds.low, bounds.high
        asked = self._own(low), self._own(high)
        course = self._course
        if course is not None and self._asked == asked:
            return course
        before, self._asked = self._asked, asked
        changed = [
            one
            for one, least_before, most_before, least, most in zip(self.classes, *before, *asked, strict=False)
            if most != most_before or least != least_before
        ]
        self._to_renew.update([c for one in changed for c in self._over[one]])
        if isinstance(course, PackingCourse) and course.keep([(one, low[one], high[one]) for one in changed]):
            return course
        if asked[0] != before[0]:
            self._too_low = any(sum(own(low)) > ppm for own, (_, ppm) in zip(self._low_of, self._ceilings, strict=True))
        if self._too_low:
            self._course = Rising(self._offsets, (), self._ceilings, (), frozenset()).begin(demand, bounds)
            return self._course
        filling = _Filling(low, high, self._offsets, self._ceilings, self._over)
        if not self._first:
            self._first = [filling.level(c) for c in range(len(self._ceilings))]
        else:
            for c in self._to_renew:
                self._first[c] = filling.level(c)
        self._to_renew.clear()
        filling.fill(self._first)
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
        self._place = {stop[0]: k for k, stop in enumerate(stops)}
        self._stood: dict[Level, PackingStanding] = {}

    def keep(self, changes: Iterable[tuple[int, int, int]]) -> bool:
        """Classes have other bounds now, from below and from above: is their course the same?

        It is if each was, and is, stopped before it was full.
        """
        stops, scale = self._stops, self._scale
        new: list[tuple[int, tuple[int, int, int, int, int]]] = []
        for one, least, most in changes:
            k = self._place.get(one)
            if k is None:
                return False
            _, stop, least_before, most_before, offset = stops[k]
            if least != least_before or stop >= most * scale or stop >= most_before * scale:
                return False
            new.append((k, (one, stop, least, most, offset)))
        for k, entry in new:
            stops[k] = entry
        self._stood.clear()
        return True

    def look(self, level: int, parts: int) -> PackingStanding:
        """Everything at ``level / parts``; what was looked at lately is not computed again."""
        found = self._stood.get((level, parts))
        if found is None:
            if len(self._stood) >= LOOKS_MAX:
                self._stood.clear()
            found = self._stood[level, parts] = self.stand(level, parts)
        return found

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
