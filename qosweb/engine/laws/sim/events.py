"""A virtual clock and its event queue."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class VirtualTime:
    """Calls in order of their times; equal times in order of their scheduling."""

    __slots__ = ("_count", "_heap", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (self.now_s + delay_s, self._count, call))

    def run(self, until_s: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            self.now_s, _, call = heappop(heap)
            call()
        self.now_s = until_s
