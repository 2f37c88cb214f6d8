"""Lets the view order and the interim service share one virtual synchrony end-point.

The end-point has one client. The fork is that client: it passes the messages of the interim service to the service, and
everything else to the view order. It answers `block` for both. The view order counts its own messages only when it says
which of them all members have, so the fork translates these counts to those of the end-point.
Above: the view order, the interim service.  Below: the end-point.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from cluster.messages import InterimMessage, LtMsg, OpMsg, Ordered, StMsg

if TYPE_CHECKING:
    from cluster.endpoint import Endpoint
    from cluster.fifo_multicast import EndpointClient
    from cluster.names import ProcessId, View

INTERIM = frozenset((OpMsg, LtMsg, StMsg))


class InterimClient(Protocol):
    """The interim service. It answers `block` at once: it sends nothing from then until the next view."""

    def deliver(self, sender: ProcessId, body: InterimMessage) -> None: ...
    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None: ...
    def block(self) -> None: ...


class EndpointFork:
    """The client of the end-point, for the view order and the interim service."""

    __slots__ = ("_passed", "_places", "_to_order", "endpoint", "interim", "order", "send")

    def __init__(self, endpoint: Endpoint, order: EndpointClient, interim: InterimClient) -> None:
        self.endpoint = endpoint
        self.order = order
        self.interim = interim
        self.send = endpoint.send
        self._to_order = order.deliver
        # By sender: where messages of the interim service are among its messages, without the first `passed` ones
        self._places: dict[ProcessId, deque[int]] = {}
        self._passed: dict[ProcessId, int] = {}

    # ---- for the end-point

    def deliver(self, sender: ProcessId, body: Ordered) -> None:
        if type(body) in INTERIM:
            self._places.setdefault(sender, deque()).append(self.endpoint.of[sender].last_dlvrd)
            self.interim.deliver(sender, body)  # type: ignore[arg-type]
        else:
            self._to_order(sender, body)

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        self._places.clear()
        self._passed.clear()
        self.order.view(view, transitional)
        self.interim.view(view, transitional)

    def block(self) -> None:
        self.interim.block()
        self.order.block()

    # ---- for the view order

    def block_ok(self) -> None:
        self.endpoint.block_ok()

    def stable(self, counts: tuple[int, ...]) -> None:
        """All members have the first counts[i] messages that the view order of the i-th member sent."""
        members = self.endpoint.current_view.members
        self._drop(
            tuple(
                self._index_of(count, member) if member in self._places else count
                for member, count in zip(members, counts, strict=True)
            )
        )

    def _index_of(self, count: int, sender: ProcessId) -> int:
        """The place of the count-th message of the view order among all messages of its sender."""
        index = count + self._passed.get(sender, 0)
        if not count:
            return 0
        for place in self._places[sender]:
            if place > index:
                break
            index += 1
        return index

    # ---- for the interim service

    def stable_in_all(self, counts: tuple[int, ...]) -> None:
        """All members have the first counts[i] messages of the i-th member, of any kind."""
        self._drop(counts)

    def _drop(self, counts: tuple[int, ...]) -> None:
        self.endpoint.stable(counts)
        for member, count in zip(self.endpoint.current_view.members, counts, strict=True):
            places = self._places.get(member)
            while places and places[0] <= count:
                places.popleft()
                self._passed[member] = self._passed.get(member, 0) + 1
