"""Corrects measured service times of upstream servers for delays of this process's event loop.

A response is read some time after it has arrived: the loop is busy with other events. In a busy process that time
grows with the number of requests in service, as the queue of a server does. The law of the server must not take one
for the other, or it limits a fast server because its gateway is slow. So a service time ends with the last poll that
did not find the response; it is 0 if the first poll after the request found it. If the loop slept before a turn, the
response woke it, and the service time is exact.

Time is noted by events of admission control only: a turn that begins with other events seems to begin late. A service
time is then too long, as it would be without this.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

ASLEEP_S = 0.0002  # a poll that does not sleep takes less


class LoopTurns:
    """Call `note` with each event, or `service_s` with the event that ends a request's service."""

    __slots__ = ("_began", "_ended", "_loop", "_polled", "is_open")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_open = False  # an event of this turn was noted
        self._began = self._ended = 0.0  # the present turn, or the last one
        self._polled = 0.0  # the last poll that did not find the events of this turn

    def note(self, now: float) -> None:
        """An event is handled."""
        if self.is_open:
            return
        self.is_open = True
        self._polled = now if now - self._ended > ASLEEP_S else self._began
        self._began = now
        self._loop.call_soon(self._end)

    def service_s(self, since: float, now: float) -> float:
        """How long a server certainly took for a request that it got at `since`, and whose response was just read."""
        if not self.is_open:
            self.note(now)
        return self._polled - since if self._polled > since else 0.0

    def _end(self) -> None:
        """Called after the events of a turn, before the next poll."""
        self.is_open = False
        self._ended = perf_counter()
