"""Think times: when the clients of a closed loop send their next request. Pure.

Pauses are random, and end at a whole millisecond of the clock, as those of wrk do, so that both tools load a server
alike. They do not use the event loop's timers, which fire only after all available responses have been read: the more
responses, the more clients would then send at once, and the generator itself would cause a queue at the server.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadgen.trace.page_mix import Dice

_TICKS_PER_S = 1000


class ThinkTimes:
    """Pauses of all idle clients. ``next_s`` is when the first pause ends."""

    def __init__(self, mean_s: float, dice: Dice) -> None:
        self._mean_s = mean_s
        self._dice = dice
        self._ends: list[int] = []  # a heap of ticks
        self.next_s = math.inf

    def begin(self, now_s: float, least_s: float) -> bool:
        """A client pauses for at least ``least_s``. Returns False if it does not pause at all."""
        pause_s = max(least_s, -math.log(1.0 - self._dice.random()) * self._mean_s) if self._mean_s else least_s
        ticks = round(pause_s * _TICKS_PER_S)
        if not ticks:
            return False
        heapq.heappush(self._ends, int(now_s * _TICKS_PER_S) + ticks)
        self.next_s = self._ends[0] / _TICKS_PER_S
        return True

    def end(self) -> None:
        """The first pause has ended."""
        heapq.heappop(self._ends)
        self.next_s = self._ends[0] / _TICKS_PER_S if self._ends else math.inf
