"""Health of one upstream server: when it is out, for how long, and with which part of its weight it returns. Pure.

Out: a connection error twice in a row, FAILURES_MAX errors of any kind in a row, a timeout without any response since
the request was sent (the server hangs), or CHECKS_MAX active checks in a row that failed.
Back: after BACKOFF_S, doubled with every ejection that follows soon after a return, one request at a time is tried.
With active checks, CHECKS_MAX of them have to succeed in a row instead.
Slow start: after its return a server gets its weight back over SLOW_START_S, from a tenth on: a cold cache must not
throw it out again.

Times are arguments, in seconds on one monotonic clock.
"""

from __future__ import annotations

import enum

FAILURES_MAX = 5
UNREACHABLE_MAX = 2
CHECKS_MAX = 2
BACKOFF_S = 1.0
BACKOFF_MAX_S = 60.0
SLOW_START_S = 10.0
SETTLED_S = 60.0  # after this time in service the next back-off is short again
START_SHARE = 0.1


class Failure(enum.Enum):
    """Why a request failed at a server."""

    UNREACHABLE = "connection errors"
    TIMEOUT = "timeouts"
    ERROR = "consecutive responses 5xx"


class HealthState(enum.Enum):
    IN = "in"
    OUT = "out"
    TRIAL = "trial"  # one request at a time


class ServerHealth:
    def __init__(self, *, is_checked: bool) -> None:
        """``is_checked``: active checks tell when the server is back."""
        self.state = HealthState.IN
        self.reason = ""  # why it is out
        self.ejections = 0
        self._is_checked = is_checked
        self._failures = 0  # in a row
        self._unreachable = 0
        self._check_failures = 0
        self._check_successes = 0
        self._responded_at = float("-inf")
        self._until = 0.0  # out until then
        self._since = float("-inf")  # in service since then
        self._backoff_s = BACKOFF_S

    @property
    def is_trial(self) -> bool:
        return self.state is HealthState.TRIAL

    @property
    def is_in(self) -> bool:
        return self.state is HealthState.IN

    def share(self, now: float) -> float:
        """The part of its weight that counts now."""
        if self.state is not HealthState.IN:
            return START_SHARE
        return min(1.0, max(START_SHARE, (now - self._since) / SLOW_START_S))

    def may_serve(self, in_service: int, now: float) -> bool:
        """Whether the server may get another request."""
        if self.state is HealthState.OUT and not self._is_checked and now >= self._until:
            self.state = HealthState.TRIAL
        return self.state is HealthState.IN or (self.state is HealthState.TRIAL and not in_service)

    def note_success(self, now: float) -> None:
        """A good response came from a server that is in."""
        self._responded_at = now
        self._unreachable = self._failures = 0

    def on_response(self, now: float, *, is_error: bool) -> None:
        """A response came; ``is_error``: with status 5xx."""
        self._responded_at = now
        self._unreachable = 0
        if is_error:
            self._failed(Failure.ERROR, now, most=FAILURES_MAX)
            return
        self._failures = 0
        if self.state is HealthState.TRIAL:
            self._return(now)

    def on_failure(self, failure: Failure, sent_at: float, now: float) -> None:
        """A request that was sent at ``sent_at`` got no response."""
        if failure is Failure.UNREACHABLE:
            self._unreachable += 1
        is_hanging = failure is Failure.TIMEOUT and self._responded_at < sent_at
        is_unreachable = self._unreachable >= UNREACHABLE_MAX
        self._failed(failure, now, most=1 if is_hanging or is_unreachable else FAILURES_MAX)

    def on_check(self, now: float, *, is_good: bool, why: str = "") -> None:
        """An active check ended."""
        if is_good:
            self._check_failures = 0
            self._check_successes += 1
            if not self.is_in and self._check_successes >= CHECKS_MAX:
                self._return(now)
            return
        self._check_successes = 0
        self._check_failures += 1
        if self._check_failures >= CHECKS_MAX and self.is_in:
            self._eject(f"health checks: {why}", now)

    def _failed(self, failure: Failure, now: float, *, most: int) -> None:
        self._failures += 1
        if self.state is HealthState.TRIAL or (self.is_in and self._failures >= most):
            self._eject(failure.value, now)

    def _eject(self, reason: str, now: float) -> None:
        if self.is_in and now - self._since > SETTLED_S:
            self._backoff_s = BACKOFF_S
        self.state = HealthState.OUT
        self.reason = reason
        self.ejections += 1
        self._until = now + self._backoff_s
        self._backoff_s = min(BACKOFF_MAX_S, 2 * self._backoff_s)
        self._check_successes = 0

    def _return(self, now: float) -> None:
        self.state = HealthState.IN
        self.reason = ""
        self._since = now
        self._failures = self._unreachable = self._check_failures = 0
