"""Line watch: runs the line law on the connections of a node, and sets the rate of its pacer.

Every TICK_S it reads TCP_INFO of connections that have bytes under way, at most READ_MAX of them in turn, so that the
law costs no more with a thousand connections. Others are looked at in turn to find those that began to send. While the
line is held, the kernel gets little: TCP_NOTSENT_LOWAT is small on each connection that is read, until its release.
"""

from __future__ import annotations

import socket
from collections import deque
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from qosweb.engine.laws.line_rate import TICK_S, LineLaw, LineState
from qosweb.engine.laws.line_samples import ConnectionSeries, LineSampler, TcpInfo
from qosweb.server.pacing import tcp_info
from qosweb.server.pacing.socket_buffers import SYSTEM_DEFAULT, UNSENT_MAX, limit_unsent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from qosweb.server.pacing.send_pacer import SendPacer

READ_MAX = 96  # connections in one tick
SEARCHED = 32  # others in one tick, to find those that send
IDLE_TICK_S = 0.1  # while no connection sends
HELD_UNSENT = 16 << 10
REPORT_TICKS = 8


class WatchedConnection:
    """A connection that sends. Uses the descriptor of its transport, which stays the owner."""

    __slots__ = ("_is_limited", "_socket", "_transport", "_unsent_max", "series")

    def __init__(self, transport: asyncio.Transport, descriptor: int, unsent_max: int) -> None:
        self._transport = transport
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=descriptor)
        peer = transport.get_extra_info("peername")
        self.series = ConnectionSeries(peer[0] if isinstance(peer, tuple) else "")
        self._is_limited = False
        self._unsent_max = unsent_max

    @property
    def is_blocked(self) -> bool:
        return self._transport.get_write_buffer_size() > 0

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def read(self) -> TcpInfo:
        return tcp_info.read(self._socket)

    def limit(self, *, is_held: bool) -> None:
        """Let the kernel have little while the line is held, and as much as before when it is released."""
        if is_held != self._is_limited:
            self._is_limited = is_held
            limit_unsent(self._socket, HELD_UNSENT if is_held else self._unsent_max)

    def close(self) -> None:
        self._socket.detach()


class LineWatch:
    """`law` is its state. `on_rate` gets the rate when it may have changed noticeably; None: the line is not short."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pacer: SendPacer,
        transports: Callable[[], Iterable[asyncio.Transport]],
        most_bps: float,
        on_rate: Callable[[int | None], None],
    ) -> None:
        """`transports`: of all connections. `most_bps`: the rate that the operator has set; infinite: none."""
        self.law = LineLaw(most_bps)
        self._loop = loop
        self._pacer = pacer
        self._transports = transports
        self._most_bps = most_bps
        self._unsent_max = SYSTEM_DEFAULT if most_bps == inf else UNSENT_MAX  # of connections while released
        self._on_rate = on_rate
        self._sampler = LineSampler()
        self._watched: dict[asyncio.Transport, WatchedConnection] = {}
        self._turn: deque[asyncio.Transport] = deque()  # all watched connections, in the order of reading
        self._unsearched: list[asyncio.Transport] = []
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self.is_available = tcp_info.is_available()

    def start(self) -> None:
        if self.is_available:
            self._timer = self._loop.call_later(TICK_S, self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for transport in list(self._watched):
            self._forget(transport)

    def _tick(self) -> None:
        self.look()
        self._timer = self._loop.call_later(TICK_S if self._watched else IDLE_TICK_S, self._tick)

    def look(self) -> None:
        """One tick of the law."""
        law = self.law
        self._search()
        now = perf_counter()
        for _ in range(min(len(self._turn), READ_MAX)):
            self._read(self._turn.popleft(), now)
        was_released = law.state is LineState.RELEASED
        law.piece = self._pacer.mean_cost
        law.tick(now, self._sampler.take(is_starved=self._pacer.take_starved()))
        is_released = law.state is LineState.RELEASED
        if not (was_released and is_released):
            self._pacer.set_rate(min(law.rate, self._most_bps))
        self._ticks += 1
        if is_released and not was_released:
            self._on_rate(None)
        elif law.state is LineState.HOLDING and (was_released or self._ticks % REPORT_TICKS == 0):
            self._on_rate(int(law.rate))

    def _search(self) -> None:
        """Look at some more connections: watch those that have bytes under way."""
        if not self._unsearched:
            self._unsearched = list(self._transports())
        for _ in range(min(SEARCHED, len(self._unsearched))):
            transport = self._unsearched.pop()
            if transport in self._watched or transport.is_closing():
                continue
            descriptor = transport.get_extra_info("socket").fileno()
            if descriptor < 0:
                continue
            watched = WatchedConnection(transport, descriptor, self._unsent_max)
            self._watched[transport] = watched
            self._turn.append(transport)

    def _read(self, transport: asyncio.Transport, now: float) -> None:
        watched = self._watched[transport]
        if not watched.is_open:
            self._forget(transport)
            return
        try:
            info = watched.read()
        except OSError:
            self._forget(transport)
            return
        is_blocked = watched.is_blocked
        self._sampler.add(watched.series, info, now, is_blocked=is_blocked)
        if info.is_idle and not is_blocked and len(self._watched) > READ_MAX:
            self._forget(transport)
            return
        watched.limit(is_held=self.law.rate != inf)
        self._turn.append(transport)

    def _forget(self, transport: asyncio.Transport) -> None:
        self._watched.pop(transport).close()
