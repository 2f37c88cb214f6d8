"""Where the engine runs: its timer, its way to the others, and the exchanges that it resumes.

What happens within one turn of the event loop is told together, at its end. There is one timer, for the next deadline
or the next batch. A turn may be long, if a crowd comes at once: who waits is then looked at in between, too, so that no
lifetime is exceeded for it. Exchanges are resumed one after the other, never from within each other.
Above: `qos_gate`.  Below: `qosweb.engine`, and the group if there is one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.admission.clock import Clock
    from qosweb.engine.engine import Engine
    from qosweb.engine.replicated.entries import NodeBatch
    from qosweb.server.request.exchange import Exchange

TICK_EVERY_MS = 50  # plain requests are counted at least so often
LONG_MS = 10  # a turn of the event loop that takes longer


class EngineDriver:
    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Engine, clock: Clock) -> None:
        self.engine = engine
        self.clock = clock
        self.changed: Callable[[], None] = lambda: None  # who may start at once has changed
        self.count_plain: Callable[[], None] = lambda: None
        self.broadcast: Callable[[bytes, NodeBatch], bool] | None = None  # to the group
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._poked = False
        self._resumed: deque[Exchange] = deque()
        self._is_resuming = False
        self._looked_ms = 0
        self._closed = False
        self.all_came = asyncio.Event()  # of those who were sent to a node that is to stop

    def now_ms(self) -> int:
        return int(perf_counter() * 1000)

    def poke(self) -> None:
        """Something has happened: look at the end of this turn whether anybody has to be told."""
        if not self._poked and not self._closed:
            self._poked = True
            self._loop.call_soon(self.turn)

    def resume(self, exchange: Exchange) -> None:
        self._resumed.append(exchange)
        self.poke()

    def accessed(self, page_sets: Iterable[int]) -> None:
        self.engine.now_ms = self.now_ms()
        for page_set in page_sets:
            self.engine.outbox.accessed(page_set, self.engine.time_ms)
        self.poke()

    def applied(self) -> None:
        """The machine has applied an entry of the order."""
        self.changed()
        self.poke()

    def drain(self) -> None:
        """Nothing new is to wait here, and nothing is to be sent here."""
        engine = self.engine
        engine.admission.is_draining = True
        if len(engine.machine.pipes) > 1:  # others may take who waits here
            engine.outbox.report = msgspec.structs.replace(engine.report, capacity_bps=0)
        self.changed()
        self.poke()

    def _awaits_visitors(self) -> bool:
        """The others may still send clients here, or have sent some who have not come yet, and soon come too late."""
        engine = self.engine
        pipes = engine.machine.pipes
        if len(pipes) < 2 or engine.me not in pipes:
            return False
        return pipes[engine.me].capacity_bps > 0 or bool(engine.admission.expected)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def turn(self) -> None:
        self._poked = False
        if self._closed:
            return
        now_ms = self._looked_ms = self.now_ms()
        engine = self.engine
        engine.tick(now_ms)
        self.count_plain()
        body = engine.flush(now_ms)
        if body is not None:
            batch = engine.in_flight
            assert batch is not None
            if self.broadcast is None or not self.broadcast(body, batch):
                engine.ended(batch, delivered=False)
        if engine.admission.is_draining and not self._awaits_visitors():
            self.all_came.set()
        self.changed()
        self._resume_all()
        self._arm(now_ms)

    def look(self) -> None:
        """A request has come, perhaps the last of many in this turn of the loop: deadlines do not wait for its end."""
        now_ms = self.now_ms()
        if now_ms < self._looked_ms + LONG_MS or self._is_resuming or self._closed:
            return
        self._looked_ms = now_ms
        self.engine.tick(now_ms)
        self._resume_all()

    def _resume_all(self) -> None:
        self._is_resuming = True
        try:
            while self._resumed:
                exchange = self._resumed.popleft()
                exchange.resume(exchange)
        finally:
            self._is_resuming = False

    def _arm(self, now_ms: int) -> None:
        at_ms = min(self.engine.next_call_ms() or now_ms + TICK_EVERY_MS, now_ms + TICK_EVERY_MS)
        at_ms = max(at_ms, now_ms + 1)
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return  # an early look is cheaper than another timer with each turn
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._loop.call_later((at_ms - now_ms) / 1000, self._turn_by_timer)

    def _turn_by_timer(self) -> None:
        self._timer = None
        self.turn()
