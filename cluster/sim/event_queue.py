"""Virtual-time event queue. Events with equal times run in the order in which they were scheduled."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class TooManyEvents(Exception):
    """The run exceeded its event limit, for example because two processes message each other without end."""


class EventQueue:
    """The clock and the pending events of a world."""

    __slots__ = ("_asked", "_heap", "handled", "handled_max", "now")

    def __init__(self, handled_max: int = 500_000) -> None:
        self.now = 0.0
        self.handled = 0
        self.handled_max = handled_max
        self._asked = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule the action at `time`, or after the events that are due already if `time` has passed."""
        self._asked += 1
        heappush(self._heap, (max(self.now, time), self._asked, action, arguments))

    def after(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay, action, *arguments)

    def step(self) -> None:
        """Run the next event."""
        if self._heap:
            self.handled += 1
            self.now, _, action, arguments = heappop(self._heap)
            action(*arguments)

    def run_until(self, time: float) -> None:
        """Run all events up to `time`, then set the clock to it."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            self.handled += 1
            if self.handled > self.handled_max:
                raise TooManyEvents(f"more than {self.handled_max} events by {self.now:.3f} s")
            self.now, _, action, arguments = heappop(heap)
            action(*arguments)
        self.now = max(self.now, time)
