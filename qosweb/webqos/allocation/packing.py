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
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.waterline import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.waterline import Bounds

STEPS_MAX = 60  # in the search for the level


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


def fill_within(ceilings: Sequence[Group], bounds: Bounds, offsets: Sequence[int]) -> Found | None:
    """The same for few ceilings and many classes, with the capacity of ``bounds``."""
    low, high, line, capacity = bounds
    if any(sum([low[one] for one in group]) > ppm for group, ppm in ceilings):
        return None
    filling = _Filling(low, high, offsets)
    filling.fill(ceilings)
    caps = [(one, cap, low[one], high[one], offsets[one]) for one, cap in filling.stopped.items()]
    lost = sum([most * filling.scale - cap for _, cap, _, most, _ in caps])
    enough = (line.most - capacity) * filling.scale <= lost
    level, parts = (max(offsets) + PPM, 1) if enough else line.level(min(capacity, line.most))
    below, above = (-1, 1), (max(offsets) + PPM + 1, 1)
    for _ in range(STEPS_MAX):
        finer = filling.scale // gcd(filling.scale, parts)
        level, parts = level * finer, parts * finer
        to_caps = parts // filling.scale
        whole = level // parts
        others = pace = 0
        amounts: dict[int, int] = {}
        for one, cap, least, most, offset in caps:
            here = whole - offset
            if here < least:
                amounts[one] = least * parts
                continue
            own = most * parts if here >= most else level - offset * parts
            cap *= to_caps
            if own < cap:
                amounts[one] = own
            else:
                others -= own - cap
                pace -= here < most
                amounts[one] = cap
        missing = capacity * parts - line.held(level, parts)[0] - others
        if enough or not missing:
            return Found(level, parts, amounts)
        if missing > 0:
            below = level, parts
        else:
            above = level, parts
        level, parts = line.level_beside(capacity, level, parts, others, pace, 1, below, above)
    return None


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
