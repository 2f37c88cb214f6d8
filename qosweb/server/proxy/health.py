"""Health of one upstream server: when it is out, for how long, and with which part of its weight it returns. Pure.

Out: a connection error twice in a row, FAILURES_MAX errors of any kind in a row, a timeout without any response since
the request was sent (the server hangs), or CHECKS_MAX active checks in a row that failed.
Back: after BACKOFF_S, doubled with every ejection that follows soon after a return, one request at a time is tried.
With active checks, CHECKS_MAX of them have to succeed in a row instead.
Cluster: a server that the other nodes have voted out is out here, too (`hold`), although this node has no evidence
against it. Requests are tried as after an ejection; if they succeed, the node votes for the server.
Slow start: after its return a server gets its weight back over SLOW_START_S, from a tenth on: a cold cache must not
throw it out again.

Times are arguments, in seconds on one monotonic clock.
"""

from __future__ import annotations

import enum

from qosweb.engine.replicated.upstreams import Vote

FAILURES_MAX = 5
UNREACHABLE_MAX = 2
CHECKS_MAX = 2
BACKOFF_S = 1.0
BACKOFF_MAX_S = 60.0
SLOW_START_S = 10.0
SETTLED_S = 60.0  # after this time in service the next back-off is short again
START_SHARE = 0.1
EVIDENCE_S = 10.0  # how long a response counts as evidence of health


class Failure(enum.Enum):
    """Why a request failed at a server."""

    UNREACHABLE = "connection errors"
    TIMEOUT = "timeouts"
    ERROR = "consecutive responses 5xx"


class HealthState(enum.Enum):
    IN = "in"
    OUT = "out"
    TRIAL = "trial"  # one request at a time


IN = HealthState.IN  # a module name, because access to enum members is slow


class ServerHealth:
    def __init__(self, *, is_checked: bool, evidence_s: float = EVIDENCE_S) -> None:
        """``is_checked``: active checks tell when the server is back. ``evidence_s``: how long a vote for it lasts."""
        self.state = HealthState.IN
        self.reason = ""  # why it is out
        self.ejections = 0
        self._is_checked = is_checked
        self._evidence_s = evidence_s
        self._is_held = False  # out by the votes of other nodes
        self._is_faulty = False  # out by evidence of this node
        self._failures = 0  # in a row
        self._unreachable = 0
        self._check_failures = 0
        self._check_successes = 0
        self._responded_at = float("-inf")
        self._good_at = float("-inf")
        self._until = 0.0  # out until then
        self._since = float("-inf")  # in service since then
        self._backoff_s = BACKOFF_S

    @property
    def is_trial(self) -> bool:
        return self.state is HealthState.TRIAL

    @property
    def is_in(self) -> bool:
        return self.state is HealthState.IN

    def vote(self, now: float) -> Vote:
        """This node's own evidence."""
        if self._is_faulty:
            return Vote.OUT
        return Vote.HEALTHY if now - self._good_at < self._evidence_s else Vote.UNKNOWN

    def hold(self, why: str, now: float) -> None:
        """The other nodes have voted the server out."""
        if not self._is_held:
            self._is_held = True
            if self.is_in:
                self._eject(why, now)

    def release(self, now: float) -> None:
        """The votes no longer hold the server out."""
        if self._is_held:
            self._is_held = False
            if not self._is_faulty:
                self._return(now)

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
        """A good response came from a server that is in: `on_response`, in short."""
        self._responded_at = self._good_at = now
        self._unreachable = self._failures = 0

    def on_response(self, now: float, *, is_error: bool) -> None:
        """A response came; ``is_error``: with status 5xx."""
        self._responded_at = now
        self._unreachable = 0
        if is_error:
            self._failed(Failure.ERROR, now, most=FAILURES_MAX)
            return
        self._failures = 0
        self.may_serve(0, now)  # if no other server is left, requests come here although it is out
        self._on_good(now, is_proof=self.is_trial)

    def on_failure(self, failure: Failure, sent_at: float, now: float, detail: str = "") -> None:
        """A request that was sent at ``sent_at`` got no response. ``detail`` says more than ``failure``."""
        if failure is Failure.UNREACHABLE:
            self._unreachable += 1
        is_hanging = failure is Failure.TIMEOUT and self._responded_at < sent_at
        is_unreachable = self._unreachable >= UNREACHABLE_MAX
        self._failed(failure, now, most=1 if is_hanging or is_unreachable else FAILURES_MAX, detail=detail)

    def on_check(self, now: float, *, is_good: bool, why: str = "") -> None:
        """An active check ended."""
        if is_good:
            self._check_failures = 0
            self._check_successes += 1
            self._on_good(now, is_proof=self._check_successes >= CHECKS_MAX)
            return
        self._check_successes = 0
        self._check_failures += 1
        if self._check_failures >= CHECKS_MAX and not self._is_faulty:
            self._is_faulty = True
            self._eject(f"health checks: {why}", now)

    def _on_good(self, now: float, *, is_proof: bool) -> None:
        """The server works; ``is_proof``: although it was out."""
        self._good_at = now
        if is_proof and not self.is_in:
            self._is_faulty = False
            if not self._is_held:
                self._return(now)

    def _failed(self, failure: Failure, now: float, *, most: int, detail: str = "") -> None:
        self._failures += 1
        if self.state is HealthState.TRIAL or (self.is_in and self._failures >= most):
            self._is_faulty = True
            self._eject(f"{failure.value} ({detail})" if detail else failure.value, now)

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
