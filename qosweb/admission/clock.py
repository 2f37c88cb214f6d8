"""Server clock: one monotonic reading per event, and date texts that are formatted once a second."""

import time

from qosweb.http.dates import format_http_date

THOUSANDTHS = tuple(f"{number:03}" for number in range(1000))


class Clock:
    """Read it once per event. ``second``, ``second_text`` and ``date_line`` belong to the latest reading.

    On the fast path the caller reads ``time.perf_counter()`` itself and calls ``turn`` only when
    ``next_second_at`` is reached; ``read`` does the same in one call.
    """

    __slots__ = ("_wall_offset", "date_line", "next_second_at", "second", "second_text")

    def __init__(self) -> None:
        self.turn(time.perf_counter())

    def read(self) -> float:
        """Seconds on the monotonic clock that durations and deadlines are measured with."""
        now = time.perf_counter()
        if now >= self.next_second_at:
            self.turn(now)
        return now

    def turn(self, now: float) -> None:
        """Start a new second: format its texts."""
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
