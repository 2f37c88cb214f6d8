"""Send order: which response sends next while all responses share one rate.

Two rules, the first before the second:

- Minimum. A response that started at ``t0`` in a channel of rate ``r`` is due to have sent (costs included) at least
  ``r (t - t0)`` at time ``t``. Of the responses that are due, the one with the earliest due time is next. Those of
  always-available classes come first, and their first URGENT_BYTES are due at once. The channels of all responses fit
  into the pipe (see `pipe_queue`), so that every response keeps its minimum, unless its class is ahead
  of its share by AHEAD_S: a class with few connections gets its share although another has many responses in service.
- Shares. What is left goes to the class with the least virtual time, round robin within the class. The virtual time of
  a class advances by ``bytes / weight`` whenever it sends, by either rule. Always-available classes come first, classes
  without weight last.

Weights depend on the classes that can send now, and on nothing that they sent before: if a class with few connections
got too little, and its weight followed what it got, it would stay there.

A response that could not send for some time, because its client did not read or its server had nothing to send, is not
due for what it missed. One that is ahead of its minimum, because the pipe was idle, is at most LEAD_S ahead: then its
minimum holds again. A class that was not ready for a moment makes up for CREDIT_S of the whole rate at most.

Pure: times are arguments. Invariant: a response is in the ring and in the heap of its class at most once each.
Derivation of virtual time: `qosweb.engine.replicated.fair_queueing`.
Above: `qosweb.server.pacing.send_pacer`, and the simulator.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush, heapreplace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # The weights of classes that can send, in parts per million, if no others can. None: always available.
    WeightsOf = Callable[["list[SendAccount]"], Sequence[int | None]]

LEAD_S = 0.25
LAG_S = 0.25
CREDIT_S = 0.2
URGENT_BYTES = 256 << 10
AHEAD_S = 0.05
RING_SPARE = 16
PPM = 1_000_000


class SendAccount(Protocol):
    """The class of a response."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...


class SendFlow:
    """A response in service, as the order of sending sees it."""

    __slots__ = ("account", "cost", "has_channel", "in_heap", "in_ring", "is_ready", "rate_bps", "ready_at", "start_s")

    def __init__(self, account: SendAccount, rate_bps: int, start_s: float) -> None:
        self.account = account
        self.rate_bps = rate_bps  # of its channel
        self.start_s = start_s  # from which its minimum counts
        self.cost = 0  # sent so far, with the fixed cost of its request
        self.has_channel = True
        self.is_ready = False  # it has bytes to send, and its client reads
        self.ready_at = 0.0  # since when, or when it last sent
        self.in_ring = False
        self.in_heap = False

    def next_cost(self, most: int) -> int:
        """The cost of the next bytes, of which there are at most ``most``."""
        raise NotImplementedError


class SendClass:
    """The responses of one class."""

    __slots__ = ("account", "due", "ready", "ring", "spare", "virtual", "weight")

    def __init__(self, account: SendAccount) -> None:
        self.account = account
        self.ring: deque[SendFlow] = deque()  # may contain responses that are no longer ready
        self.due: list[tuple[float, int, SendFlow]] = []  # a heap of those with a channel; the same
        self.ready = 0
        self.weight: int | None = 0  # while it can send: in parts per million; None: it is always available
        self.virtual = 0.0
        self.spare = 0.0  # virtual time while the class has no weight

    def drop_waiting(self) -> None:
        """Take responses that cannot send out of the ring: a class that sends by its minimum alone never turns it."""
        for one in self.ring:
            one.in_ring = one.is_ready
        self.ring = deque([one for one in self.ring if one.is_ready])


class SendOrder:
    def __init__(self, weights_of: WeightsOf) -> None:
        self.ready = 0  # responses that can send
        self.rate_bps = 1.0  # of all responses together
        self._weights_of = weights_of
        self._classes: dict[str, SendClass] = {}
        self._active: list[SendClass] = []  # the classes that can send
        self._virtual = 0.0  # the greatest virtual time at which a class sent
        self._spare = 0.0
        self._numbers = count()

    def set_ready(self, flow: SendFlow, now: float, quantum: int) -> None:
        """A response can send: it is new, or its client reads again, or there are more bytes."""
        if flow.is_ready:
            return
        flow.is_ready = True
        flow.ready_at = now
        flow.start_s = max(flow.start_s, now - flow.cost / flow.rate_bps)
        group = self._classes.get(flow.account.name)
        if group is None:
            group = self._classes[flow.account.name] = SendClass(flow.account)
        if not group.ready:
            self._active.append(group)
            self.weigh()
            credit = CREDIT_S * self.rate_bps * PPM / max(1, group.weight or 0)
            group.virtual = max(group.virtual, self._virtual - credit)
            group.spare = max(group.spare, self._spare)
        group.ready += 1
        self.ready += 1
        if not flow.in_ring:
            flow.in_ring = True
            group.ring.append(flow)
        self._expect(flow, quantum)

    def weigh(self) -> None:
        """Ask for the weights of the classes that can send: these classes or the policy may have changed."""
        active = self._active
        for group, weight in zip(active, self._weights_of([one.account for one in active]), strict=True):
            group.weight = weight

    def set_waiting(self, flow: SendFlow) -> None:
        """A response cannot send now, or has ended."""
        if not flow.is_ready:
            return
        flow.is_ready = False
        group = self._classes[flow.account.name]
        group.ready -= 1
        self.ready -= 1
        if not group.ready:
            self._active.remove(group)
            self.weigh()
        if len(group.ring) > 2 * group.ready + RING_SPARE:
            group.drop_waiting()

    def get_channel(self, flow: SendFlow, rate_bps: int, now: float, quantum: int) -> None:
        """A response that had lent its channel has one again."""
        flow.has_channel = True
        flow.rate_bps = rate_bps
        flow.start_s = now - flow.cost / rate_bps
        if flow.is_ready:
            self._expect(flow, quantum)

    def next(self, now: float, quantum: int) -> SendFlow | None:
        """The response that sends next; None if none is ready."""
        if not self.ready:
            return None
        return self._next_due(now, quantum) or self._next_by_share()

    def _next_due(self, now: float, quantum: int) -> SendFlow | None:
        best: tuple[int, float] | None = None
        chosen: SendClass | None = None
        limit = self._ahead_from
        for group in self._active:
            weight = group.weight
            if weight and group.virtual > limit:
                continue
            due_s = self._first_due(group, quantum)
            if due_s > now:
                continue
            key = 0 if weight is None else 1, due_s
            if best is None or key < best:
                best, chosen = key, group
        if chosen is None:
            return None
        flow = heappop(chosen.due)[2]
        flow.in_heap = False
        return flow

    @property
    def _ahead_from(self) -> float:
        """The virtual time from which a class is ahead of its share."""
        ready = [one for one in self._active if one.weight]
        return inf if len(ready) < 2 else min(one.virtual for one in ready) + AHEAD_S * self.rate_bps

    def _first_due(self, group: SendClass, quantum: int) -> float:
        """When the first response of a class is due. Corrects the order of those that were sent some by their share."""
        due = group.due
        while due:
            due_s, number, flow = due[0]
            if not flow.is_ready or not flow.has_channel:
                heappop(due)
                flow.in_heap = False
                continue
            really_s = self._due_s(flow, quantum)
            if really_s <= due_s:
                return due_s
            heapreplace(due, (really_s, number, flow))
        return inf

    def _next_by_share(self) -> SendFlow:
        best: tuple[int, float] | None = None
        chosen: SendClass | None = None
        for group in self._active:
            weight = group.weight
            key = (0, 0.0) if weight is None else (1, group.virtual) if weight else (2, group.spare)
            if best is None or key < best:
                best, chosen = key, group
        assert chosen is not None
        ring = chosen.ring
        while not ring[0].is_ready:
            ring.popleft().in_ring = False
        ring.rotate(-1)
        return ring[-1]

    def sent(self, flow: SendFlow, cost: int, now: float, quantum: int) -> None:
        """Charge the bytes that a response has sent."""
        flow.cost += cost
        flow.ready_at = now
        group = self._classes[flow.account.name]
        weight = group.weight
        if weight:
            self._virtual = max(self._virtual, group.virtual)
            group.virtual += cost * PPM / weight
        elif weight is not None:
            self._spare = max(self._spare, group.spare)
            group.spare += cost
        if not flow.has_channel:
            return
        on_time_s = now - flow.cost / flow.rate_bps  # had it started then, it would be exactly on time
        flow.start_s = min(max(flow.start_s, on_time_s - LAG_S), on_time_s + LEAD_S)
        if flow.is_ready:
            self._expect(flow, quantum)

    def _expect(self, flow: SendFlow, quantum: int) -> None:
        if not flow.in_heap and flow.has_channel:
            flow.in_heap = True
            due = self._classes[flow.account.name].due
            heappush(due, (self._due_s(flow, quantum), next(self._numbers), flow))

    def _due_s(self, flow: SendFlow, quantum: int) -> float:
        """When the next bytes of a response are due."""
        if flow.cost < URGENT_BYTES and self._classes[flow.account.name].weight is None:
            return 0.0
        return flow.start_s + (flow.cost + flow.next_cost(quantum)) / flow.rate_bps
