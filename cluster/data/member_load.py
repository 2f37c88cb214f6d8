"""Load of the members of a view, as one of them knows it from their reports (semantically reliable broadcast).

A member with w waiting queries that needs s seconds for each answers a new one after (w + 1) * s. A report ages: a
member that had w waiting queries t seconds ago has at least w - t / s now. Own queries on the way to a member count as
waiting, whatever it reported.
"""

from __future__ import annotations

from math import inf

REPORT_EVERY_S = 0.005
SERVICE_CHANGE = 0.1  # of the time for one query, that is worth a report
SERVICE_S = 0.001  # assumed time for a query at a member that has not reported
SERVICE_MIN_S = 1e-6
AGING = 0.1  # weight of the last query in the mean time for one


class MemberLoad:
    """The load of one member."""

    __slots__ = ("_reported_at", "_waiting", "own", "service_s")

    def __init__(self) -> None:
        self.own = 0  # own queries that it has not answered
        self.service_s = SERVICE_S
        self._waiting = 0
        self._reported_at = 0.0

    def report(self, now: float, waiting: int, service_us: int) -> None:
        self._reported_at = now
        self._waiting = waiting
        if service_us:
            self.service_s = max(SERVICE_MIN_S, service_us * 1e-6)

    def wait_s(self, now: float) -> float:
        """When it would answer one more query."""
        left = self._waiting - (now - self._reported_at) / self.service_s
        return (max(self.own, left) + 1) * self.service_s


class LoadReports:
    """Decides when this member reports its load. An old report ages by itself, so an idle member needs none."""

    __slots__ = ("_at", "_service_us", "_waiting")

    def __init__(self) -> None:
        self._at = -inf
        self._waiting = 0
        self._service_us = 0

    def is_due(self, now: float, waiting: int, service_us: int) -> bool:
        """Whether to report this load now; then it counts as reported."""
        is_same = waiting == self._waiting and abs(service_us - self._service_us) <= SERVICE_CHANGE * self._service_us
        if is_same or now < self._at + REPORT_EVERY_S:
            return False
        self._at, self._waiting, self._service_us = now, waiting, service_us
        return True


class ServiceTime:
    """Mean time for a query at this process, measured while queries wait: between the ends of two in a row."""

    __slots__ = ("_last", "mean_s")

    def __init__(self) -> None:
        self.mean_s = 0.0  # not known yet
        self._last = -1.0  # when a query ended and others were waiting; negative: none was

    def on_executed(self, now: float, *, more: bool) -> None:
        """A query begins at `now`. `more`: others wait behind it."""
        if self._last >= 0.0:
            taken = max(0.0, now - self._last)
            self.mean_s = taken if not self.mean_s else self.mean_s + AGING * (taken - self.mean_s)
        self._last = now if more else -1.0

    @property
    def mean_us(self) -> int:
        return round(self.mean_s * 1e6)
