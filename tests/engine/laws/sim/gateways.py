"""Gateways in front of one simulated server: classes in virtual-time order, lifetimes, and a limit set by a law.

Requests in service are counted over all gateways, as the replicated state machine does. What a gateway learns late is
a decision: it uses the one that has reached it. Its samples reach the law in batches, as late. Clients are in a
closed loop (the next request follows the last at once) or an open one (Poisson arrivals, lost when their lifetime
ends).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.sim.event_queue import EventQueue
from qosweb.engine.laws.service_samples import Sampler
from tests.engine.laws.sim.servers import SimRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.sim.seeded_random import SeededRandom
    from qosweb.engine.laws.knee import LimitDecision
    from qosweb.engine.laws.service_samples import SampleBatch, Tag
    from tests.engine.laws.sim.servers import Meters

    Demand = Callable[[SeededRandom], float]

EVENTS_MAX = 50_000_000
TICK_S = 0.01
BUCKET_S = 0.1
ESTIMATE_RATE = 0.05


class AnyServer(Protocol):
    """What the gateways need of a server."""

    meters: Meters

    def arrive(self, request: SimRequest) -> None: ...
    def meter(self) -> None: ...


class AnyLaw(Protocol):
    """A law that sets the limit."""

    def absorb(self, batch: SampleBatch) -> None: ...
    def tick(self, now_s: float, in_service: int) -> LimitDecision | None: ...
    def decision(self) -> LimitDecision: ...
    def restart(self) -> None: ...
    def forget_classes(self) -> None: ...


class SimClass(msgspec.Struct, frozen=True):
    """A class of requests: clients in a closed loop, or a rate in an open one."""

    weight: int
    demand: Demand
    clients: int = 0
    rate_per_s: float = 0.0


class GatewayOptions(msgspec.Struct, frozen=True):
    """What a scenario can vary."""

    gateways: int = 1
    skew: tuple[float, ...] = (1.0,)  # parts of the arrivals by gateway
    delay_s: tuple[float, float] = (0.0, 0.0)  # of decisions and samples: shortest and longest
    turnaround_s: float = 0.0003  # from the end of a request at the server to the start of the next there
    lifetime_s: float = 1.0
    timeout_s: float = 10.0


class Snapshot(msgspec.Struct, frozen=True):
    """Integrals at one time."""

    limit: int
    waiting: float
    busy: float
    places: float
    work: float


class _Waiting:
    __slots__ = ("arrived_s", "closed_loop", "gateway")

    def __init__(self, arrived_s: float, gateway: int, closed_loop: bool) -> None:
        self.arrived_s, self.gateway, self.closed_loop = arrived_s, gateway, closed_loop


class Gateways:
    """One run."""

    def __init__(self, law: AnyLaw, classes: Sequence[SimClass], chance: SeededRandom, options: GatewayOptions) -> None:
        self.law, self.classes, self.options = law, classes, options
        self.events = EventQueue(EVENTS_MAX)
        self.server: AnyServer
        self.buckets: list[Snapshot] = []
        self.slot_s = [0.0] * len(classes)  # slot time by class
        self.expired = [0] * len(classes)
        self.failed = 0
        self.in_service = 0
        self._chance = chance
        self._ejected = False
        self._samplers = [Sampler() for _ in range(options.gateways)]
        self._limits = [law.decision().limit] * options.gateways
        self._queues: list[deque[_Waiting]] = [deque() for _ in classes]
        self._virtual = [0.0] * len(classes)
        self._estimate_s = [0.01] * len(classes)
        for sampler in self._samplers:
            sampler.epoch = law.decision().epoch

    def run(self, seconds: float) -> None:
        for number, one in enumerate(self.classes):
            for _ in range(one.clients):
                gateway = self._pick_gateway()
                self.events.after(self._chance.between(0, 0.02), self._arrive, number, gateway, True)
            if one.rate_per_s:
                self._schedule_arrival(number)
        self.events.after(TICK_S, self._tick)
        self.events.after(0.0, self._take_snapshot)
        self.events.run_until(seconds)

    def eject(self, seconds: float) -> None:
        """Start nothing for a while, as health checks do with a server that does not answer."""
        self._ejected = True
        self.events.after(seconds, self._return)

    def _return(self) -> None:
        self._ejected = False
        self.law.restart()
        for gateway in range(self.options.gateways):
            self._apply(gateway, self.law.decision())

    def change_policy(self) -> None:
        """The numbers of classes change their meaning."""
        for sampler in self._samplers:
            sampler.forget_classes()
        self.law.forget_classes()

    # ---- load

    def _schedule_arrival(self, number: int) -> None:
        def arrive() -> None:
            self._arrive(number, self._pick_gateway(), False)
            self._schedule_arrival(number)

        self.events.after(self._chance.exponential(1 / self.classes[number].rate_per_s), arrive)

    def _pick_gateway(self) -> int:
        at = self._chance.random() * sum(self.options.skew)
        for gateway, part in enumerate(self.options.skew):
            at -= part
            if at < 0:
                return gateway
        return 0

    def _arrive(self, number: int, gateway: int, closed_loop: bool) -> None:
        if not self._queues[number]:
            others = [self._virtual[n] for n, queue in enumerate(self._queues) if queue]
            self._virtual[number] = max(self._virtual[number], min(others, default=0.0))
        self._queues[number].append(_Waiting(self.events.now, gateway, closed_loop))
        self._fill()

    # ---- service

    def _fill(self) -> None:
        while not self._ejected and self.in_service < max(self._limits):
            number = self._next_class()
            if number is None or self.in_service >= self._limits[self._queues[number][0].gateway]:
                return
            self._start(number, self._queues[number].popleft())

    def _next_class(self) -> int | None:
        best = None
        for number, queue in enumerate(self._queues):
            while queue and not queue[0].closed_loop and self.events.now - queue[0].arrived_s > self.options.lifetime_s:
                queue.popleft()
                self.expired[number] += 1
            if queue and (best is None or self._virtual[number] < self._virtual[best]):
                best = number
        return best

    def _start(self, number: int, waiting: _Waiting) -> None:
        self.in_service += 1
        estimate_s = self._estimate_s[number]
        self._virtual[number] += estimate_s / self.classes[number].weight
        gateway = waiting.gateway
        started_s = self.events.now
        tag = self._samplers[gateway].start(number, self.in_service, self.in_service >= self._limits[gateway])
        ended = False

        def end(succeeded: bool) -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._end(number, waiting, tag, self.events.now - started_s, estimate_s, succeeded)

        half_s = self.options.turnaround_s / 2
        request = SimRequest(
            number, self.classes[number].demand(self._chance), lambda ok: self.events.after(half_s, end, ok)
        )
        self.events.after(half_s, self.server.arrive, request)
        self.events.after(self.options.timeout_s, end, False)

    def _end(
        self, number: int, waiting: _Waiting, tag: Tag, seconds: float, estimate_s: float, succeeded: bool
    ) -> None:
        self.in_service -= 1
        self._virtual[number] += (seconds - estimate_s) / self.classes[number].weight
        self._estimate_s[number] += ESTIMATE_RATE * (seconds - self._estimate_s[number])
        self.slot_s[number] += seconds
        if succeeded:
            self._samplers[waiting.gateway].end(number, seconds, tag)
        else:
            self.failed += 1
            self._samplers[waiting.gateway].fail(number, tag)
        if waiting.closed_loop:
            self._arrive(number, waiting.gateway, True)
        self._fill()

    # ---- law

    def _delay_s(self) -> float:
        shortest, longest = self.options.delay_s
        return self._chance.between(shortest, longest) if longest else 0.0

    def _tick(self) -> None:
        for sampler in self._samplers:
            batch = sampler.take()
            delay_s = self._delay_s()
            if delay_s:
                self.events.after(delay_s, self.law.absorb, batch)
            else:
                self.law.absorb(batch)
        decision = self.law.tick(self.events.now, self.in_service)
        if decision is not None:
            for gateway in range(self.options.gateways):
                delay_s = self._delay_s()
                if delay_s:
                    self.events.after(delay_s, self._apply, gateway, decision)
                else:
                    self._apply(gateway, decision)
        self.events.after(TICK_S, self._tick)

    def _apply(self, gateway: int, decision: LimitDecision) -> None:
        if decision.epoch > self._samplers[gateway].epoch:  # not overtaken
            self._samplers[gateway].epoch = decision.epoch
            self._limits[gateway] = decision.limit
            self._fill()

    def _take_snapshot(self) -> None:
        self.server.meter()
        meters = self.server.meters
        limit = max(self._limits)
        self.buckets.append(Snapshot(limit, meters.waiting, meters.busy, meters.places, meters.work))
        self.events.after(BUCKET_S, self._take_snapshot)
