"""Max-min shares under ceilings that overlap as they like: progressive filling, exact. Pure.

All classes rise together from their lower bounds. The first ceiling to be reached stops all its classes; the others go
on. The level at which a ceiling is reached is known from its own classes alone, as long as none of them is stopped by
another one, so only those that share a class with the ceiling just reached are looked at again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.general import Group


def fill_under(
    ceilings: Sequence[Group], low: Sequence[int], high: Sequence[int], offsets: Sequence[int]
) -> list[Fraction] | None:
    """The exact shares between ``low`` and ``high``; None if the lower bounds alone exceed a ceiling.

    A class with an offset starts to rise when the level has reached it.
    """
    over: list[list[int]] = [[] for _ in low]
    for bound, (group, ppm) in enumerate(ceilings):
        if sum([low[one] for one in group]) > ppm:
            return None
        for one in group:
            over[one].append(bound)
    stopped: dict[int, Fraction] = {}
    reached = {bound: _level(*ceilings[bound], low, high, offsets, stopped) for bound in range(len(ceilings))}
    while True:
        level, bound = min(
            ((level, bound) for bound, level in reached.items() if level is not None), default=(None, -1)
        )
        if level is None:
            break
        del reached[bound]
        again: set[int] = set()
        for one in ceilings[bound][0]:
            if one not in stopped:
                stopped[one] = min(max(level - offsets[one], Fraction(low[one])), Fraction(high[one]))
                again.update(over[one])
        for other in again:
            if other in reached:
                reached[other] = _level(*ceilings[other], low, high, offsets, stopped)
    return [stopped[one] if one in stopped else Fraction(most) for one, most in enumerate(high)]


def _level(
    group: tuple[int, ...],
    ppm: int,
    low: Sequence[int],
    high: Sequence[int],
    offsets: Sequence[int],
    stopped: dict[int, Fraction],
) -> Fraction | None:
    """The level at which these classes hold ``ppm`` together; None if they never do."""
    room: Fraction | int = ppm
    marks: list[tuple[int, int]] = []
    for one in group:
        if one in stopped:
            room -= stopped[one]
        else:
            room -= low[one]
            if low[one] < high[one]:
                marks.append((low[one] + offsets[one], 1))
                marks.append((high[one] + offsets[one], -1))
    marks.sort()
    level = rising = 0
    for mark, change in marks:
        step = (mark - level) * rising
        if step > room:
            break
        room -= step
        level = mark
        rising += change
    else:
        return None
    return level + Fraction(room) / rising
