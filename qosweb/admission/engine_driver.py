"""Engine driver: runs the QoS engine on the event loop, with one timer, and broadcasts its batches.

All events within one turn of the event loop go to the group in one batch at its end. One timer wakes the engine for its
next deadline or batch. In a long turn (many requests arrive at once) `expire_overdue` ends requests in between, so that
no lifetime is exceeded. Decisions are delivered one after the other, never recursively.
Above: `gate`.  Below: `qosweb.engine`, and the group while the node is a member of one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.engine.engine import Engine
    from qosweb.engine.replicated.entries import NodeBatch

    Broadcast = Callable[[bytes, NodeBatch], bool]  # False: the group does not accept it now

TICK_EVERY_MS = 50  # requests on the fast path are counted at least this often
LONG_MS = 10  # a longer turn of the event loop checks deadlines in between


def _nothing() -> None:
    pass


class EngineDriver:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        *,
        before_turn: Callable[[], None] = _nothing,
        on_change: Callable[[], None] = _nothing,
    ) -> None:
        """`before_turn` runs before each batch; `on_change` when the set of classes that may start may have changed."""
        self.engine = engine
        self.visitors_arrived = asyncio.Event()  # set while draining, once all redirected clients have arrived
        self._before_turn = before_turn
        self._on_change = on_change
        self._broadcast: Broadcast | None = None
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._poked = False
        self._deliveries: deque[Callable[[], None]] = deque()
        self._is_delivering = False
        self._looked_ms = 0
        self._closed = False

    def now_ms(self) -> int:
        return int(perf_counter() * 1000)

    def join_group(self, broadcast: Broadcast) -> None:
        """Send batches to the group from now on. The group then calls `Engine.batch_ended` for each batch."""
        self._broadcast = broadcast

    def leave_group(self) -> None:
        self._broadcast = None

    def poke(self) -> None:
        """Schedule a run of the engine at the end of this turn of the event loop."""
        if not self._poked and not self._closed:
            self._poked = True
            self._loop.call_soon(self.turn)

    def deliver(self, callback: Callable[[], None]) -> None:
        """Call `callback` soon with a decision, not from within another such call."""
        self._deliveries.append(callback)
        self.poke()

    def accessed(self, page_sets: Iterable[int]) -> None:
        """Report to the cluster that pages of these sets were requested."""
        self.engine.now_ms = self.now_ms()
        for page_set in page_sets:
            self.engine.outbox.accessed(page_set, self.engine.time_ms)
        self.poke()

    def applied(self) -> None:
        """The engine has applied an entry of the group's order."""
        self._on_change()
        self.poke()

    def drain(self) -> None:
        """Queue no more requests here, and tell the other nodes to redirect no more clients here."""
        engine = self.engine
        engine.pipe_queue.is_draining = True
        if len(engine.machine.pipes) > 1:  # other nodes may take the requests that wait here
            engine.outbox.report = msgspec.structs.replace(engine.report, capacity_bps=0)
        self._on_change()
        self.poke()

    def _expects_visitors(self) -> bool:
        """Whether other nodes may still redirect clients here, or redirected clients are still on their way."""
        engine = self.engine
        pipes = engine.machine.pipes
        if len(pipes) < 2 or engine.me not in pipes:
            return False
        return pipes[engine.me].capacity_bps > 0 or bool(engine.pipe_queue.expected)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def turn(self) -> None:
        """Run the engine: deadlines, one batch to the group, decisions to their requests."""
        self._poked = False
        if self._closed:
            return
        now_ms = self._looked_ms = self.now_ms()
        engine = self.engine
        engine.tick(now_ms)
        self._before_turn()
        body = engine.flush(now_ms)
        if body is not None:
            batch = engine.in_flight
            assert batch is not None
            if self._broadcast is None or not self._broadcast(body, batch):
                engine.batch_ended(batch, delivered=False)
        if engine.pipe_queue.is_draining and not self._expects_visitors():
            self.visitors_arrived.set()
        self._on_change()
        self._deliver_all()
        self._arm(now_ms)

    def expire_overdue(self) -> None:
        """Check deadlines within a long turn of the event loop. Called for each request that enters."""
        now_ms = self.now_ms()
        if now_ms < self._looked_ms + LONG_MS or self._is_delivering or self._closed:
            return
        self._looked_ms = now_ms
        self.engine.tick(now_ms)
        self._deliver_all()

    def _deliver_all(self) -> None:
        self._is_delivering = True
        try:
            while self._deliveries:
                self._deliveries.popleft()()
        finally:
            self._is_delivering = False

    def _arm(self, now_ms: int) -> None:
        at_ms = min(self.engine.next_call_ms() or now_ms + TICK_EVERY_MS, now_ms + TICK_EVERY_MS)
        at_ms = max(at_ms, now_ms + 1)
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return  # waking early is cheaper than another timer with each turn
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._loop.call_later((at_ms - now_ms) / 1000, self._turn_by_timer)

    def _turn_by_timer(self) -> None:
        self._timer = None
        self.turn()
