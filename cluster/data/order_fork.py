"""Lets the primary views and the data service share one view order.

The view order has one client. The fork is that client: it passes the messages of the data service to the service, and
everything else to the primary views. The primary views count their own messages only when they say how many they have
processed, so the fork translates these counts to those of the view order. The data service processes its messages at
once. So a message of the data service is acknowledged as soon as the messages before it are processed.
Above: the primary views, the data service.  Below: the view order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from cluster.messages import Expertise, Queries, ViewMessage

if TYPE_CHECKING:
    from cluster.names import ProcessId, View
    from cluster.view_order import Above as OrderClient
    from cluster.view_order import ViewOrder


class DataClient(Protocol):
    """The data service."""

    def new_view(self, view: View) -> None: ...
    def receive(self, sender: ProcessId, body: Expertise | Queries) -> None: ...
    def safe(self, sender: ProcessId, body: Expertise | Queries) -> None: ...
    def roomy(self) -> None: ...


class OrderFork:
    """The client of the view order, for the primary views and the data service."""

    __slots__ = ("_passed", "_places", "_received", "data", "order", "primary", "send")

    def __init__(self, order: ViewOrder, primary: OrderClient, data: DataClient) -> None:
        self.order = order
        self.primary = primary
        self.data = data
        self.send = order.send
        self._received = 0  # messages of this view so far
        self._places: deque[int] = deque()  # places in the order of what the primary views have not processed
        self._passed = 0  # messages of the primary views that they have processed

    # ---- for the view order

    def new_view(self, view: View) -> None:
        self._received = self._passed = 0
        self._places.clear()
        self.primary.new_view(view)
        self.data.new_view(view)

    def receive(self, sender: ProcessId, body: ViewMessage) -> None:
        self._received += 1
        if type(body) is Queries or type(body) is Expertise:
            self.data.receive(sender, body)
            self._tell_processed()
        else:
            self._places.append(self._received)
            self.primary.receive(sender, body)

    def safe(self, sender: ProcessId, body: ViewMessage) -> None:
        if type(body) is Queries or type(body) is Expertise:
            self.data.safe(sender, body)
        else:
            self.primary.safe(sender, body)

    def roomy(self) -> None:
        self.primary.roomy()
        self.data.roomy()

    # ---- for the primary views

    @property
    def has_room(self) -> bool:
        return self.order.has_room

    def processed_up_to(self, count: int) -> None:
        """The primary views have processed the first `count` of their messages in this view."""
        while self._passed < count:
            self._places.popleft()
            self._passed += 1
        self._tell_processed()

    def _tell_processed(self) -> None:
        self.order.processed_up_to(self._places[0] - 1 if self._places else self._received)
