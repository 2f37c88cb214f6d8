"""Paced sending of a simulated node: responses share the pipe as `qosweb.server.pacing` divides it.

The node sends one quantum after the other at the rate of its pipe. `SendOrder` says which response is next: a response
that is alone gets the whole pipe, and the others get what their classes' weights give them. Clients always read.
Above: clients.  Below: `engine.local.send_order`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.engine.local.active_weights import ActiveWeights
from qosweb.engine.local.send_order import SendAccount, SendFlow, SendOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.sim.event_queue import EventQueue
    from qosweb.engine.sim.host import Host

QUANTUM_S = 0.004


class SimAccount(NamedTuple):
    name: str
    number: int


class SimFlow(SendFlow):
    """A response of a simulated node."""

    __slots__ = ("done", "left")

    def __init__(
        self, account: SendAccount, cost: int, rate_bps: int, start_s: float, done: Callable[[], None]
    ) -> None:
        super().__init__(account, rate_bps, start_s)
        self.left = cost
        self.done = done

    def next_cost(self, most: int) -> int:
        return min(most, self.left)


class PacedSending:
    """The pipe of one node process."""

    def __init__(self, events: EventQueue, host: Host) -> None:
        self._events = events
        self._host = host
        self._weights = ActiveWeights()
        self._order = SendOrder(self._weights_of)
        self._free_at = 0.0  # when the pipe has sent what it was given
        self._is_armed = False

    def send(self, name: str, number: int, cost: int, rate_bps: int, done: Callable[[], None]) -> None:
        """Send a response, and call `done` at its end."""
        now = self._events.now
        flow = SimFlow(SimAccount(name, number), cost, rate_bps, now, done)
        self._order.set_ready(flow, now, self._quantum)
        self._arm()

    @property
    def _rate_bps(self) -> int:
        return max(1, self._host.engine.report.capacity_bps)

    @property
    def _quantum(self) -> int:
        return max(1, int(self._rate_bps * QUANTUM_S))

    def _weights_of(self, accounts: Sequence[SendAccount]) -> Sequence[int | None]:
        bound = self._host.engine.machine.scheduler.bound
        return self._weights.of(tuple([one.number for one in accounts]), bound)

    def _arm(self) -> None:
        if self._order.ready and not self._is_armed:
            self._is_armed = True
            self._events.at(max(self._events.now, self._free_at), self._send_next)

    def _send_next(self) -> None:
        """Give the pipe the next quantum; what ends with it has ended when the pipe has sent it."""
        self._is_armed = False
        now, order, quantum = self._events.now, self._order, self._quantum
        order.rate_bps = self._rate_bps
        flow = order.next(now, quantum)
        if not isinstance(flow, SimFlow):
            return
        size = flow.next_cost(quantum)
        flow.left -= size
        order.sent(flow, size, now, quantum)
        self._free_at = now + size / self._rate_bps
        if not flow.left:
            order.set_waiting(flow)
            self._events.at(self._free_at, flow.done)
        self._arm()
