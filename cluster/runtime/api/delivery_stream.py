"""Default state machine: queues deliveries for an async iterator.

Above: group.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from cluster.names import ProcessId, View

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Delivery(msgspec.Struct, frozen=True):
    """An entry at its position of the total order."""

    position: int
    origin: ProcessId
    body: bytes


class PrimaryView(msgspec.Struct, frozen=True):
    """A new primary view begins at this position of the order."""

    position: int
    view: View


class Skipped(msgspec.Struct, frozen=True):
    """Entries below `position` were ordered before this process joined, or while it was away too long."""

    position: int


class FellBehind(Exception):
    """The consumer read deliveries too slowly and the queue is full."""


Event = Delivery | PrimaryView | Skipped


class DeliveryStream:
    """Implements `cluster.replica.StateMachine`. Its state is the next position."""

    __slots__ = ("_events", "_len_max", "_overrun", "_position", "_wake", "closed")

    def __init__(self, len_max: int) -> None:
        self._len_max = len_max
        self._events: deque[Event] = deque()
        self._position = 0
        self._overrun = False
        self._wake: asyncio.Future[None] | None = None
        self.closed = False

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        self._put(Delivery(position, origin, body))
        self._position = position + 1
        return None

    def view_changed(self, position: int, view: View) -> None:
        self._put(PrimaryView(position, view))
        self._position = position + 1

    def snapshot(self) -> bytes:
        return b"%d" % self._position

    def restore(self, state: bytes) -> None:
        self._position = int(state)
        self._put(Skipped(self._position))

    def close(self) -> None:
        self.closed = True
        self._ring()

    def _put(self, event: Event) -> None:
        if len(self._events) >= self._len_max:
            self._overrun = True
            self._events.clear()
        if not self._overrun:
            self._events.append(event)
        if self._wake is not None:
            self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        self._wake = None

    async def take(self) -> AsyncIterator[Event]:
        """Yield events until the group closes. Only one consumer at a time."""
        while True:
            while self._events:
                yield self._events.popleft()
            if self._overrun:
                raise FellBehind(f"more than {self._len_max} deliveries are unread; read them as fast as they arrive")
            if self.closed:
                return
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
