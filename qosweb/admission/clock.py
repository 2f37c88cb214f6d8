"""Server clock: one monotonic reading per event, and date texts that are formatted once a second."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from qosweb.http.dates import format_http_date

if TYPE_CHECKING:
    from collections.abc import Callable

THOUSANDTHS = tuple(f"{number:03}" for number in range(1000))


class Clock:
    """Read it once per event. ``second``, ``second_text`` and ``date_line`` belong to the latest reading.

    On the fast path the caller reads ``time.perf_counter()`` itself and calls ``do_due`` only when ``due_at`` is
    reached; ``read`` does the same in one call. So a check that is due every few milliseconds costs a request nothing:
    `watch`.
    """

    __slots__ = ("_check", "_wall_offset", "date_line", "due_at", "next_second_at", "second", "second_text")

    def __init__(self) -> None:
        self._check: Callable[[float], float] | None = None
        self.next_second_at = -inf
        self.do_due(time.perf_counter())

    def watch(self, check: Callable[[float], float]) -> None:
        """Call ``check`` with the time at the next reading. It returns the time from which the
        next reading calls it again."""
        self._check = check
        self.due_at = -inf

    def read(self) -> float:
        """Seconds on the monotonic clock that durations and deadlines are measured with."""
        now = time.perf_counter()
        if now >= self.due_at:
            self.do_due(now)
        return now

    def do_due(self, now: float) -> None:
        """Do the periodic work: begin a new second, call the check."""
        if now >= self.next_second_at:
            self._begin_second(now)
        self.due_at = self.next_second_at if self._check is None else min(self.next_second_at, self._check(now))

    def _begin_second(self, now: float) -> None:
        wall = time.time()
        self._wall_offset = wall - now
        self.second = int(wall)
        self.second_text = f"{self.second}."
        self.next_second_at = now + (self.second + 1 - wall)
        self.date_line = f"Date: {format_http_date(self.second)}\r\n".encode()

    def wall(self, at: float) -> float:
        """Seconds since 1970 at the monotonic moment ``at``."""
        return at + self._wall_offset

    def wall_text(self, at: float) -> str:
        """``wall(at)`` with three decimals, cheap for a moment of the current second."""
        left_ms = int((self.next_second_at - at) * 1000)
        if 0 <= left_ms < 1000:
            return self.second_text + THOUSANDTHS[999 - left_ms]
        return f"{self.wall(at):.3f}"
