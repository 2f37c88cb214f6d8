"""Send pacer: sends all responses of a node together at one rate R. Clients that can receive more use idle capacity.

A token bucket: tokens come at R bytes per second, each byte of a body and the fixed cost of each request takes one, and
bytes are sent while there are tokens. A send may take more tokens than there are, by one quantum. Idle time saves up
IDLE_S of tokens, which bounds the burst after it. While responses wait for tokens, the schedule is absolute: a late
timer finds all tokens that came meanwhile, up to LATE_S, so that delays of the event loop cost no bandwidth.

`SendOrder` says which response is next. A response whose client does not read leaves the order until its transport has
room again, so that others use the capacity at once. If that lasts for LENT_AFTER_S, it also lends its channel, and
holds no more than its connection and one quantum in a buffer. When its client reads again, the response is sent from
idle capacity. If there is none for STARVED_S, it asks for a channel again.

One timer, no task per response. Small responses skip all this while no response waits (`try_send`).
"Sent" means handed to the transport, as everywhere in the server. The connection enforces the time limits.
Neighbours: `paced_send` and `qosweb.server.proxy.paced_output` are the responses; `qosweb.admission` has the channels.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from qosweb.engine.local.send_order import SendFlow, SendOrder

if TYPE_CHECKING:
    import asyncio

    from qosweb.admission import Permit
    from qosweb.engine.local.send_order import WeightsOf

UNLIMITED_BPS = 1e12
IDLE_S = 0.010
LATE_S = 0.250
TIMER_S = 0.001  # resolution of the event loop's timers
QUANTUM_S = 0.004
QUANTUM_MIN = 2 * 1460  # two TCP segments
QUANTUM_MAX = 64 << 10
ALONE_QUANTUM = 256 << 10  # for a response that is the only one
TURN_BYTES = 4 << 20  # sent in one turn of the event loop at most
LENT_AFTER_S = 0.1
STARVED_S = 0.05
MEAN_OF = 4  # weight of the mean cost, in sends
RECLAIMED_AT_ONCE = 32


class PacedFlow(SendFlow):
    """A response that the pacer sends. Subclasses write the bytes."""

    __slots__ = ("_pacer", "_permit", "_transport", "blocked_at", "is_closed")

    def __init__(self, pacer: SendPacer, transport: asyncio.Transport, permit: Permit) -> None:
        assert permit.rate_bps is not None
        super().__init__(permit.account, permit.rate_bps, perf_counter())
        self.is_closed = False
        self.blocked_at = 0.0  # when its client stopped to read; 0: it reads
        self._pacer = pacer
        self._transport = transport
        self._permit = permit

    @property
    def body_sent(self) -> int:
        """Bytes of the body that were sent."""
        raise NotImplementedError

    @property
    def body_left(self) -> int:
        """Bytes of the body that are still to be sent, as far as known."""
        raise NotImplementedError

    @property
    def has_bytes(self) -> bool:
        """Whether there is something to send now."""
        raise NotImplementedError

    def write(self, most: int) -> int:
        """Send up to ``most`` bytes of the body. Returns the cost. May end the response."""
        raise NotImplementedError

    @property
    def waits_for_client(self) -> bool:
        """Whether the client, not the capacity, limits the rate: the kernel's send buffer is full.

        Bytes in the kernel do not tell: at a low rate there are always a few bytes without acknowledgement.
        """
        return self._transport.get_write_buffer_size() > 0

    def next_cost(self, most: int) -> int:
        fixed = 0 if self.cost else self._permit.fixed_bytes
        return fixed + min(most, self.body_left)

    def lend_channel(self) -> None:
        self.has_channel = False
        self._permit.lend(self.body_sent)

    def reclaim_channel(self) -> int | None:
        """The rate of its new channel; None if it gets none."""
        return self._permit.rate_bps if self._permit.reclaim(self.body_left) else None


class SendPacer:
    """Sends the responses of a node. Implements `qosweb.admission.gate.SendThrottle`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rate_bps: float,
        weights_of: WeightsOf,
    ) -> None:
        """``rate_bps`` infinite: responses are not limited until `set_rate` says so."""
        self._loop = loop
        self._order = SendOrder(weights_of)
        self.is_limited = False
        self._rate = UNLIMITED_BPS
        self._was_starved = False
        self._quantum = QUANTUM_MIN
        self.mean_cost = float(QUANTUM_MIN)  # of recent sends
        self._tokens = self._at = 0.0
        self._blocked: deque[tuple[float, PacedFlow]] = deque()  # with the time since which, and in this order
        self._returned: deque[tuple[float, PacedFlow]] = deque()  # the same for flows that want their channel back
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._is_pumping = False
        self._is_backlogged = False  # responses waited for tokens after the last turn
        self.set_rate(rate_bps)

    def set_rate(self, rate_bps: float) -> None:
        """Change the rate, from now on; infinite: no limit."""
        self._refill(perf_counter())
        self.is_limited = rate_bps < UNLIMITED_BPS
        self._rate = min(float(rate_bps), UNLIMITED_BPS)
        self._order.rate_bps = self._rate
        self._tokens = min(self._tokens, self._rate * IDLE_S)
        self._quantum = min(max(int(self._rate * QUANTUM_S), QUANTUM_MIN), QUANTUM_MAX)

    def take_starved(self) -> bool:
        """Whether responses waited for tokens since the last call."""
        was_starved, self._was_starved = self._was_starved, False
        return was_starved

    def try_send(self, cost: int) -> bool:
        if self._order.ready or cost > ALONE_QUANTUM:
            return False
        self._refill(perf_counter())
        if cost > self._tokens:
            return False
        self._tokens -= cost
        return True

    @property
    def rate_bps(self) -> float:
        return self._rate

    def take_idle(self, most: int) -> int:
        """Take up to ``most`` tokens if no response waits for them. Returns how many."""
        if self._order.ready:
            return 0
        self._refill(perf_counter())
        size = max(0, min(most, int(self._tokens)))
        self._tokens -= size
        return size

    def charge(self, cost: int) -> None:
        """Take tokens although responses may wait for them."""
        self._tokens -= cost

    def add(self, flow: PacedFlow) -> None:
        """A response has something to send."""
        now = perf_counter()
        if flow.waits_for_client:
            self._block(flow, now)
        else:
            self._set_ready(flow, now)
        self._pump(now)

    def on_client_reads(self, flow: PacedFlow) -> None:
        """The transport of a blocked response has room again."""
        if flow.blocked_at and not flow.is_closed:
            flow.blocked_at = 0.0
            if flow.has_bytes:
                now = perf_counter()
                self._set_ready(flow, now)
                self._pump(now)

    def remove(self, flow: PacedFlow) -> None:
        """A response has ended, or its connection is lost."""
        flow.is_closed = True
        self._order.set_waiting(flow)

    def _set_ready(self, flow: PacedFlow, now: float) -> None:
        self._order.set_ready(flow, now, self._quantum)
        if not flow.has_channel:
            self._returned.append((now, flow))

    def _block(self, flow: PacedFlow, now: float) -> None:
        flow.blocked_at = now
        self._order.set_waiting(flow)
        if flow.has_channel:
            self._blocked.append((now, flow))

    def _refill(self, now: float) -> None:
        most = self._rate * (LATE_S if self._is_backlogged else IDLE_S)
        tokens = self._tokens + (now - self._at) * self._rate
        self._tokens = min(tokens, max(most, 2 * self._quantum))
        self._at = now

    def _pump(self, now: float) -> None:
        """Send while there are tokens."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            self._refill(now)
            self._move_channels(now)
            self._order.weigh()
            left = TURN_BYTES
            order = self._order
            while self._tokens > 0 and left > 0:
                quantum = self._quantum
                flow = order.next(now, quantum)
                if flow is None:
                    break
                assert isinstance(flow, PacedFlow)
                size = quantum if order.ready > 1 else min(ALONE_QUANTUM, max(quantum, int(self._tokens)))
                left -= self._send(flow, size, now)
        finally:  # a bug in one response must not stop the others
            self._is_backlogged = self._order.ready > 0
            self._was_starved |= self._is_backlogged
            self._is_pumping = False
            self._arm()

    def _send(self, flow: PacedFlow, size: int, now: float) -> int:
        cost = flow.write(size)
        self._tokens -= cost
        self.mean_cost += (cost - self.mean_cost) / MEAN_OF
        self._order.sent(flow, cost, now, self._quantum)
        if flow.is_closed:
            pass
        elif flow.waits_for_client:
            self._block(flow, now)
        elif not flow.has_bytes:
            self._order.set_waiting(flow)
        return cost

    def _move_channels(self, now: float) -> None:
        """Take channels from responses that do not use them; give them to those that want one again."""
        blocked, returned = self._blocked, self._returned
        while blocked and blocked[0][0] + LENT_AFTER_S <= now:
            since, flow = blocked.popleft()
            if flow.blocked_at == since and not flow.is_closed:
                flow.lend_channel()
        for _ in range(min(len(returned), RECLAIMED_AT_ONCE)):
            if returned[0][0] + STARVED_S > now:
                break
            _, flow = returned.popleft()
            if flow.is_closed or flow.has_channel or not flow.is_ready:
                continue
            is_starved = flow.ready_at + STARVED_S <= now
            if is_starved and (rate_bps := flow.reclaim_channel()) is not None:
                self._order.get_channel(flow, rate_bps, now, self._quantum)
            else:
                returned.append((now, flow))

    def _arm(self) -> None:
        """Set the timer for the next tokens, or the next change of channels."""
        at: float | None = None
        if self._order.ready:
            wanted = min(self._quantum, self.mean_cost)  # small responses go one by one, each in its order
            at = self._at + (wanted - self._tokens) / self._rate
        for waiting, after_s in ((self._blocked, LENT_AFTER_S), (self._returned, STARVED_S)):
            if waiting and (at is None or waiting[0][0] + after_s < at):
                at = waiting[0][0] + after_s
        if at is None:
            return
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(at - perf_counter(), TIMER_S), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._pump(perf_counter())
