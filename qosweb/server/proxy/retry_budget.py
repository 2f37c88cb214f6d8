"""Retry budget: limits retries to a part of all requests, so that failing servers do not get twice the load. Pure."""

from __future__ import annotations

from collections import deque

WINDOW_S = 10
RETRIES_PERCENT = 20
RETRIES_MIN = 10  # in a window, also with few requests


class RetryBudget:
    """Counts requests and retries by the second, over a window. Times are arguments."""

    def __init__(self) -> None:
        self.retries = 0  # so far
        self.refused = 0
        self._requests_in_window = 0
        self._retries_in_window = 0
        self._seconds: deque[list[int]] = deque()  # second, requests, retries

    def count_request(self, now: float) -> None:
        seconds = self._seconds
        current = seconds[-1] if seconds and seconds[-1][0] == int(now) else self._current(now)
        current[1] += 1
        self._requests_in_window += 1

    def try_retry(self, now: float) -> bool:
        """Whether a retry is within the budget; if so, it is counted."""
        current = self._current(now)
        allowed = max(RETRIES_MIN, self._requests_in_window * RETRIES_PERCENT // 100)
        if self._retries_in_window >= allowed:
            self.refused += 1
            return False
        current[2] += 1
        self._retries_in_window += 1
        self.retries += 1
        return True

    def _current(self, now: float) -> list[int]:
        second = int(now)
        seconds = self._seconds
        if not seconds or seconds[-1][0] != second:
            seconds.append([second, 0, 0])
            while seconds[0][0] <= second - WINDOW_S:
                _, requests, retries = seconds.popleft()
                self._requests_in_window -= requests
                self._retries_in_window -= retries
        return seconds[-1]
