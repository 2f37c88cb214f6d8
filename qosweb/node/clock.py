"""The node's clock: one monotonic reading per event, and everything that can be formatted once a second."""

import time

from qosweb.http.dates import format_http_date


class Clock:
    """``read()`` once per event; ``second``, ``date_line`` and ``wall`` follow from it."""

    __slots__ = ("_next_second_at", "date_line", "second", "wall_offset")

    def __init__(self) -> None:
        self._next_second_at = 0.0
        self.second = 0
        self.date_line = b""
        self.wall_offset = 0.0
        self.read()

    def read(self) -> float:
        """Seconds on the monotonic clock that durations and deadlines are measured with."""
        now = time.perf_counter()
        if now >= self._next_second_at:
            self._turn(now)
        return now

    def wall(self, at: float) -> float:
        """Seconds since 1970 at the monotonic moment ``at``."""
        return at + self.wall_offset

    def _turn(self, now: float) -> None:
        wall = time.time()
        self.wall_offset = wall - now
        self.second = int(wall)
        self._next_second_at = now + (self.second + 1 - wall)
        self.date_line = f"Date: {format_http_date(self.second)}\r\n".encode()
