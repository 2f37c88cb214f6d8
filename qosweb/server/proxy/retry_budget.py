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
        self._seconds: deque[list[int]] = deque()  # second, requests, retries
        self._now = [0, 0, 0]  # the last of them
        self._ends_at = float("-inf")  # of its second

    def count_request(self, now: float) -> None:
        if now >= self._ends_at:
            self._begin(int(now))
        self._now[1] += 1

    def try_retry(self, now: float) -> bool:
        """Whether a retry is within the budget; if so, it is counted."""
        if now >= self._ends_at:
            self._begin(int(now))
        allowed = max(RETRIES_MIN, sum(one[1] for one in self._seconds) * RETRIES_PERCENT // 100)
        if sum(one[2] for one in self._seconds) >= allowed:
            self.refused += 1
            return False
        self._now[2] += 1
        self.retries += 1
        return True

    def _begin(self, second: int) -> None:
        self._now = [second, 0, 0]
        self._ends_at = second + 1
        self._seconds.append(self._now)
        while self._seconds[0][0] <= second - WINDOW_S:
            self._seconds.popleft()
