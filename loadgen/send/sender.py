"""Sender of one worker process: sends each request when it is due and records exactly one outcome.

Open loop: nothing that a server does delays a request. If no connection is free, the request waits in line, with its
latency measured from its due time; if it waits too long, it counts as unsent. Closed loop: each client sends its next
request when it has its response, optionally after a pause, and latency is measured from the time of sending.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from typing import TYPE_CHECKING

import msgspec

from loadgen.results.outcomes import (
    CLOSED,
    FAILED,
    INTERRUPTED,
    NO_BODY,
    REDIRECT_UNSENT,
    REDIRECTED,
    TIMEOUT,
    UNSENT,
    outcome_of,
)
from loadgen.results.recorder import ResultRecorder
from loadgen.send.due_timer import make_due_timer
from loadgen.send.epoll_watcher import make_watcher
from loadgen.send.payloads import Payloads
from loadgen.send.pending_request import PendingRequest
from loadgen.send.pool import Pool, PoolLimits
from loadgen.send.redirects import RedirectNotFollowed, follow
from loadgen.send.request_bodies import Bodies
from loadgen.send.response_reader import HeadCache
from loadgen.send.spread import Spread
from loadgen.send.think_times import ThinkTimes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from loadgen.results.tally import RunTally
    from loadgen.run.messages import Job
    from loadgen.send.response_reader import ResponseHead
    from loadgen.send.targets import Target
    from loadgen.trace.request import TraceRequest

_BURST_MAX = 32  # requests sent before responses are read again
_BETWEEN_MAX = 2  # requests sent between two responses
_AWAKE_S = 50e-6  # shorter sleeps are not worth while: falling asleep and waking up take about as long
_BREATH_S = 0.01  # pause of a closed-loop client after a failure
_STOP_GRACE_S = 1.0
_POOLS_MAX = 200
_WAITING_MAX = 200_000

_monotonic = time.monotonic


class RequestSender:
    """Call ``start``, then ``sweep`` periodically, until ``finished`` is set."""

    def __init__(self, job: Job, requests: Iterator[tuple[int, TraceRequest]], tls: ssl.SSLContext) -> None:
        self._job = job
        options = self._options = job.options
        self._requests = requests
        self._tls = tls
        self._spread = Spread(job.weights)
        self._limits = PoolLimits(options.connections, options.connect_timeout_s, options.body_max)
        self._remembered = HeadCache()
        self._bodies = Bodies()
        self._watch = make_watcher(asyncio.get_running_loop())
        self._pools: dict[tuple[str, str, int], Pool] = {}
        self._target_pools = [self._pool_of(target) for target in job.targets]
        self._timer = make_due_timer(asyncio.get_running_loop(), self._on_time)
        self._start_s = 0.0
        self._next: tuple[int, TraceRequest] | None = None
        self._next_due_s = math.inf  # due time of the next request
        self._stopping = False
        self._give_up_at_s = math.inf
        self._loop = asyncio.get_running_loop()
        self._pauses = ThinkTimes(options.pause_s, random.Random(job.part))
        self.finished = asyncio.Event()
        self.in_flight = 0  # taken up, without outcome yet
        self.record = ResultRecorder(want_results=job.want_results, closed_loop=options.clients > 0)

    @property
    def waiting(self) -> int:
        return sum(len(pool.waiting) for pool in self._pools.values())

    @property
    def is_closed_loop(self) -> bool:
        return self._options.clients > 0

    def start(self, start_s: float) -> None:
        """``start_s`` is when the trace begins."""
        self._start_s = start_s
        if self.is_closed_loop:
            self._next = next(self._requests, None)
            delay_s = max(0.0, start_s - _monotonic())
            for _ in range(self._options.clients):
                self._loop.call_later(delay_s, self._pause, 0.0)
            return
        self._advance()
        if self._next is None:
            self._finish_if_done()
        else:
            self._timer.set(self._next_due_s)

    def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """Send no more requests; those in flight get ``grace_s`` to end."""
        self._give_up_at_s = _monotonic() + grace_s
        if not self._stopping:
            self._stopping = True
            self._next_due_s = math.inf
            self._timer.close()
            self._finish_if_done()

    def left_over(self) -> int:
        """Number of requests that were not taken up; reads the trace to its end."""
        if self.is_closed_loop or self._next is None:
            return 0
        return 1 + sum(1 for _ in self._requests)

    def sweep(self) -> None:
        """Enforce the timeouts."""
        now_s = _monotonic()
        if self.is_closed_loop and not self._stopping and now_s >= self._start_s + self._options.lasting_s:
            self.stop(grace_s=math.inf)  # requests in flight keep their full timeout
        if now_s > self._give_up_at_s:
            for pool in self._pools.values():
                for shot in pool.close():
                    self._end(shot, FAILED, cause=INTERRUPTED)
            return
        for pool in tuple(self._pools.values()):
            for shot in pool.overdue(now_s - self._options.send_within_s):
                self._give_up(shot)
            for shot in pool.expired(now_s - self._options.timeout_s):
                self._end(shot, FAILED, cause=TIMEOUT)

    def close(self) -> None:
        self._timer.close()
        for pool in self._pools.values():
            pool.close()
        if self._watch is not None:
            self._watch.close()

    @property
    def tally(self) -> RunTally:
        return self.record.tally

    # Callbacks of pools.

    def answered(self, shot: PendingRequest, head: ResponseHead, size: int) -> None:
        outcome = outcome_of(head.status)
        if outcome == REDIRECTED and self._options.redirects_max:
            try:
                self._follow(shot, head)
            except RedirectNotFollowed as stray:
                self._end(shot, FAILED, head, cause=str(stray))
            return
        if outcome == FAILED:
            self._end(shot, FAILED, head, size, cause=f"status {head.status}")
        else:
            self._end(shot, outcome, head, size)
        # Many responses may be read before the timer runs again, so check for due requests here.
        if self._next_due_s < math.inf and _monotonic() >= self._next_due_s:
            self._send_due(_BETWEEN_MAX)

    def failed(self, shot: PendingRequest, cause: str) -> None:
        self._end(shot, FAILED, cause=cause)

    # Stages of a request.

    def _on_time(self) -> None:
        """Take up due requests, and set the timer for the next one."""
        self._send_due(_BURST_MAX)
        if self._stopping:
            return
        if self._next is None:
            self._timer.close()
            self._finish_if_done()
        elif self._next_due_s == math.inf:
            return  # all clients wait for responses
        elif self._next_due_s - _monotonic() < _AWAKE_S:
            self._loop.call_soon(self._on_time)  # after reading responses
        else:
            self._timer.set(self._next_due_s)

    def _send_due(self, count_max: int) -> None:
        for _ in range(count_max):
            now_s = _monotonic()
            due_s = self._next_due_s
            if due_s > now_s:
                break
            if self._options.clients:
                self._pauses.end()
                self._next_due_s = self._pauses.next_s
                self._ask_again()
                continue
            upcoming = self._next
            assert upcoming is not None
            self._advance()
            self._take_up(*upcoming, due_s, now_s)

    def _advance(self) -> None:
        upcoming = self._next = next(self._requests, None)
        self._next_due_s = math.inf if upcoming is None else self._start_s + upcoming[1].t

    def _take_up(self, number: int, request: TraceRequest, due_s: float, now_s: float) -> None:
        at = self._spread.target_of(number)
        pool = self._target_pools[at]
        if request.body is msgspec.UNSET:
            shot = PendingRequest(number, request, due_s, at, pool.payloads.of(request), request.method)
        else:
            shot = self._with_body(number, request, due_s, at)
        self.record.take_up(shot, now_s)
        self.in_flight += 1
        if not shot.payload:
            self._end(shot, FAILED, cause=NO_BODY)
        elif len(pool.waiting) >= _WAITING_MAX:
            self._give_up(shot)
        else:
            shot.queued_s = due_s
            pool.submit(shot)

    def _with_body(self, number: int, request: TraceRequest, due_s: float, at: int) -> PendingRequest:
        """A request with a body; without a payload if its file cannot be read."""
        assert request.body is not msgspec.UNSET
        shot = PendingRequest(number, request, due_s, at, b"", request.method)
        with contextlib.suppress(OSError):
            shot.body = self._bodies.of(request.body)
            shot.payload = self._target_pools[at].payloads.of(request, len(shot.body))
        return shot

    def _pause(self, least_s: float) -> None:
        if not self._pauses.begin(_monotonic(), least_s):
            self._ask_again()
        elif self._pauses.next_s < self._next_due_s:
            self._next_due_s = self._pauses.next_s
            self._timer.set(self._next_due_s)

    def _ask_again(self) -> None:
        """A closed-loop client sends the next request of the trace, which repeats."""
        upcoming = self._next
        if self._stopping or upcoming is None:
            return
        self._next = next(self._requests, None)
        now_s = _monotonic()
        self._take_up(*upcoming, now_s, now_s)

    def _follow(self, shot: PendingRequest, head: ResponseHead) -> None:
        shot.redirects += 1
        step = follow(shot, head, self._job)
        target = step.target
        if _key(target) not in self._pools and len(self._pools) >= _POOLS_MAX:
            raise RedirectNotFollowed("redirects to too many servers")
        shot.url = step.url
        shot.method = step.request.method
        pool = self._pool_of(target)
        if step.request.body is msgspec.UNSET:
            shot.body = b""
        shot.payload = pool.payloads.of(step.request, len(shot.body))
        shot.queued_s = _monotonic()
        shot.arrived_s = 0.0
        shot.read_late_us = -1
        pool.submit(shot)

    def _give_up(self, shot: PendingRequest) -> None:
        if shot.redirects:
            self._end(shot, FAILED, cause=REDIRECT_UNSENT)
        elif shot.sent_s:
            self._end(shot, FAILED, cause=CLOSED)
        else:
            self._end(shot, UNSENT)

    def _end(
        self, shot: PendingRequest, outcome: str, head: ResponseHead | None = None, size: int = 0, cause: str = ""
    ) -> None:
        """The one place where a request gets its outcome."""
        self.record.end(shot, outcome, head, size, cause)
        self.in_flight -= 1
        if self._options.clients and not self._stopping:
            self._pause(_BREATH_S if outcome == FAILED else 0.0)
        elif self._next is None or self._stopping:
            self._finish_if_done()

    def _finish_if_done(self) -> None:
        if not self.in_flight and (self._next is None or self._stopping):
            self.finished.set()

    def _pool_of(self, target: Target) -> Pool:
        pool = self._pools.get(_key(target))
        if pool is None:
            pool = self._pools[_key(target)] = Pool(
                self,
                target,
                self._limits,
                Payloads(target, self._options.headers),
                self._remembered,
                self._tls,
                self._watch,
            )
        return pool


def _key(target: Target) -> tuple[str, str, int]:
    return target.scheme, target.host, target.port
