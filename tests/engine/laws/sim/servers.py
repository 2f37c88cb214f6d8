"""Simulated application servers.

- `PlacesServer`: N places with a FIFO queue; the number of places, the speed and the health change during a run.
- `SharingServer`: k cores, processor sharing; a lock can make it slower with each further request, and a part of each
  request can be I/O, which needs no core.
- `PooledServer`: one class waits for a pool of places inside, the others bypass it.

A server counts busy places and requests that wait inside over time, and the work done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cluster.sim.event_queue import EventQueue


class SimRequest(msgspec.Struct, eq=False):
    """A request with its service demand."""

    number: int  # of its class
    demand_s: float
    done: Callable[[bool], None]  # called with True if it succeeded
    io_done: bool = False


class Meters(msgspec.Struct):
    """Integrals over time."""

    waiting: float = 0.0  # requests that wait inside
    busy: float = 0.0  # places in use
    places: float = 0.0  # places there are
    work: float = 0.0  # demand of served requests


class PlacesServer:
    """N places, FIFO."""

    def __init__(self, events: EventQueue, places: int) -> None:
        self.events, self.places, self.slower = events, places, 1.0
        self.meters = Meters()
        self._busy = 0
        self._queue: deque[SimRequest] = deque()
        self._stopped_until_s = 0.0
        self._failing = False
        self._metered_s = 0.0

    def arrive(self, request: SimRequest) -> None:
        self.meter()
        if self._failing:
            self.events.after(0.005, request.done, False)
            return
        self._queue.append(request)
        self._fill()

    def set_places(self, places: int) -> None:
        self.meter()
        self.places = places
        self._fill()

    def set_slower(self, factor: float) -> None:
        self.slower = factor

    def set_failing(self, failing: bool) -> None:
        """Fail every new request at once."""
        self._failing = failing

    def stop(self, seconds: float) -> None:
        """Serve nothing for a while: a restart, or a long pause of a garbage collector."""
        self._stopped_until_s = self.events.now + seconds
        self.events.after(seconds, self._fill)

    def meter(self) -> None:
        passed_s = self.events.now - self._metered_s
        self._metered_s = self.events.now
        meters = self.meters
        meters.waiting += passed_s * len(self._queue)
        meters.busy += passed_s * min(self._busy, self.places)
        meters.places += passed_s * self.places

    def _fill(self) -> None:
        self.meter()
        while self._queue and self._busy < self.places and self.events.now >= self._stopped_until_s:
            request = self._queue.popleft()
            self._busy += 1
            self.events.after(request.demand_s * self.slower, self._end, request)

    def _end(self, request: SimRequest) -> None:
        if self.events.now < self._stopped_until_s:
            self.events.after(self._stopped_until_s - self.events.now, self._end, request)
            return
        self.meter()
        self._busy -= 1
        self.meters.work += request.demand_s
        self._fill()
        request.done(True)


class PooledServer(PlacesServer):
    """Class 1 waits for a pool inside; class 0 bypasses it."""

    def arrive(self, request: SimRequest) -> None:
        if request.number == 1:
            super().arrive(request)
        else:
            self.events.after(request.demand_s, self._pass, request)

    def _pass(self, request: SimRequest) -> None:
        self.meters.work += request.demand_s
        request.done(True)


class SharingServer:
    """k cores shared by all requests in service, in virtual time: each advances by the same amount of service."""

    def __init__(self, events: EventQueue, cores: int, lock: float = 0.0, io: float = 0.0) -> None:
        self.events, self.places, self.lock, self.io = events, cores, lock, io
        self.meters = Meters()
        self._service_s = 0.0  # that each request has received since the start
        self._running: list[tuple[float, int, SimRequest]] = []  # by the service at which each ends
        self._version = self._count = 0
        self._metered_s = 0.0

    def arrive(self, request: SimRequest) -> None:
        if self.io and not request.io_done:
            request.io_done = True
            self.events.after(request.demand_s * self.io, self.arrive, request)
            return
        self.meter()
        self._count += 1
        heappush(self._running, (self._service_s + request.demand_s * (1 - self.io), self._count, request))
        self._schedule()

    def set_places(self, places: int) -> None:
        self.meter()
        self.places = places
        self._schedule()

    def meter(self) -> None:
        passed_s = self.events.now - self._metered_s
        self._metered_s = self.events.now
        count, meters = len(self._running), self.meters
        self._service_s += passed_s * self._speed()
        meters.waiting += passed_s * max(0, count - self.places)
        meters.busy += passed_s * min(count, self.places)
        meters.places += passed_s * self.places

    def _speed(self) -> float:
        count = len(self._running)
        if not count:
            return 0.0
        return min(1.0, self.places / count) / (1 + self.lock * max(0, count - self.places))

    def _schedule(self) -> None:
        self._version += 1
        if self._running:
            version = self._version
            left_s = max(0.0, self._running[0][0] - self._service_s)
            self.events.after(left_s / self._speed(), self._end, version)

    def _end(self, version: int) -> None:
        if version != self._version:
            return
        self.meter()
        _, _, request = heappop(self._running)
        self.meters.work += request.demand_s
        self._schedule()
        request.done(True)
