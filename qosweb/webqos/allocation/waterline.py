"""How much classes hold that nothing but their own bounds binds, at any level of the water. Pure.

A class that starts to fill at level s and is full at level e holds max(0, t - s) - max(0, t - e) above its lower bound.
So two sorted lists with their running sums say what all of them hold together, by two binary searches; a class whose
bounds are equal is in both lists and cancels out.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from math import gcd
from operator import add
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


Level = tuple[int, int]  # with its denominator


class Waterline:
    """Classes between ``low`` and ``high``; one with an offset starts to rise when the level has reached it."""

    __slots__ = (
        "_high",
        "_low",
        "_offsets",
        "_raised",
        "_starts",
        "_stops",
        "_sum_starts",
        "_sum_stops",
        "least",
        "most",
    )

    def __init__(self, low: Sequence[int], high: Sequence[int], offsets: Sequence[int]) -> None:
        self._low = low
        self._high = high
        self._offsets = offsets
        self._raised = any(offsets)
        self._starts = sorted(map(add, low, offsets) if self._raised else low)
        self._stops = sorted(map(add, high, offsets) if self._raised else high)
        self._sum_starts = [0, *accumulate(self._starts)]
        self._sum_stops = [0, *accumulate(self._stops)]
        self.least = sum(low)
        self.most = sum(high)

    def move(self, start: int, stop: int, new_start: int, new_stop: int) -> None:
        """A class that starts and stops to fill at other levels than before."""
        if start != new_start:
            self._starts[bisect_right(self._starts, start) - 1] = new_start
            self._starts.sort()
            self._sum_starts = [0, *accumulate(self._starts)]
            self.least += new_start - start
        if stop != new_stop:
            self._stops[bisect_right(self._stops, stop) - 1] = new_stop
            self._stops.sort()
            self._sum_stops = [0, *accumulate(self._stops)]
            self.most += new_stop - stop

    def moved(self, low: Sequence[int], high: Sequence[int]) -> None:
        """The bounds of all after some have moved: ``whole`` needs them."""
        self._low = low
        self._high = high

    def held(self, level: int, parts: int) -> tuple[int, int]:
        """What all hold at ``level / parts``, in the same parts, and how many rise from there on."""
        whole = level // parts
        started = bisect_right(self._starts, whole)
        stopped = bisect_right(self._stops, whole)
        rising = started - stopped
        return (self.least - self._sum_starts[started] + self._sum_stops[stopped]) * parts + rising * level, rising

    def next_start(self, level: int, top: int) -> int:
        """The next level at which somebody starts to rise, or the top."""
        n = bisect_right(self._starts, level)
        return self._starts[n] if n < len(self._starts) else top

    def last_stop(self, level: int) -> int:
        """The last level, in whole numbers, at which somebody still rose; 0 if nobody did."""
        n = bisect_right(self._stops, level)
        return max(self._stops[n - 1] - 1, 0) if n else 0

    def level(self, amount: int, near: int = -1) -> tuple[int, int]:
        """A level at which all hold ``amount``, and its denominator; ``amount`` is between the sums of the bounds.

        The search begins ``near`` a level, if that is given.
        """
        starts, stops = self._starts, self._stops
        if not stops or amount >= self.most:
            return (stops[-1] if stops else 0), 1
        below, above = starts[0], stops[-1]
        guess = amount // len(stops) if near < 0 else near
        while True:
            if not below <= guess < above:
                guess = (below + above) >> 1
            held, rising = self.held(guess, 1)
            if held > amount:
                above = guess
                guess -= (held - amount) // rising + 1 if rising else above
                continue
            below = guess
            if rising:
                level = guess * rising + amount - held
                if self.held(level, rising)[0] == amount * rising:
                    return level, rising
                guess = level // rising
                if guess == below:
                    guess += 1
            elif held == amount:
                return guess, 1
            else:
                guess = above

    def whole(self, level: int) -> list[int]:
        """What each class holds at a whole level."""
        return whole_at(level, self._low, self._high, self._offsets if self._raised else ())


def whole_at(level: int, low: Sequence[int], high: Sequence[int], offsets: Sequence[int]) -> list[int]:
    """What each of some classes holds at a whole level, if nothing but its own bounds binds it."""
    # Written out: min() and max() take several times as long.
    if not any(offsets):
        return [
            least if level < least else level if level < most else most  # noqa: FURB136
            for least, most in zip(low, high, strict=True)
        ]
    heights = map(level.__sub__, offsets)
    return [
        least if here < least else here if here < most else most  # noqa: FURB136
        for least, most, here in zip(low, high, heights, strict=True)
    ]


class Found(NamedTuple):
    """The final level, and in the same parts what classes hold: right for ``coupled`` ones, and for those watched."""

    level: int
    parts: int
    amounts: Sequence[int]
    coupled: Sequence[int]
    free: Sequence[int]


class Bounds(NamedTuple):
    """For one demand: the own bounds of all classes, and what there is to divide.

    They are numbered one after the other; ``changed`` are those who ask for more or less than with the number before.
    """

    demand: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]
    capacity: int
    serial: int
    changed: Sequence[int]


def next_level(
    level: int, parts: int, missing: int, pace: int, below: tuple[int, int], above: tuple[int, int]
) -> tuple[int, int]:
    """The level at which nothing would be missing at this pace, or one about halfway if that is out of the question."""
    if pace > 0:
        guess, of = level * pace + missing, parts * pace
        if below[0] * of < guess * below[1] and guess * above[1] < above[0] * of:
            divisor = gcd(guess, of)
            return guess // divisor, of // divisor
    guess, of = below[0] * above[1] + above[0] * below[1], 2 * below[1] * above[1]
    width = above[0] * below[1] - below[0] * above[1]
    fine = (of // width).bit_length() if width < of else 0  # binary places: no more than needed to lie between the two
    return (guess << fine) // of, 1 << fine
