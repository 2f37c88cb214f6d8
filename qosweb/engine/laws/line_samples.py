"""Line samples: makes the observations of the line law from TCP_INFO of the connections that have bytes under way.

A kernel's smoothed round trip lags: it is ``7/8`` old with every acknowledgement. After n acknowledgements the mean of
the fresh ones is ``old + (smoothed - old) / (1 - (7/8)^n)``. The base is the lowest round trip that any connection to
the same peer has seen, because a connection that began in a standing queue has never seen less. Connections that were
limited by their reader's window for half of their busy time say nothing of the line: only their bytes count.
Pure. Neighbours: `line_rate` is the law; `qosweb.server.pacing.tcp_info` reads the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from qosweb.engine.laws.line_rate import Line

PEERS_MAX = 4096
NO_RTT = 0xFFFF_FFFF  # the kernel has none yet
FRESH_S = 1.0  # a longer time since the last reading says nothing of now
_FRESHENING = (1.0, *(1 / (1 - (7 / 8) ** acks) for acks in range(1, 65)))


class TcpInfo(NamedTuple):
    """The fields of Linux's struct tcp_info that the law uses. Times in microseconds."""

    mss: int
    unacked: int  # segments, as the next three
    sacked: int
    lost: int
    retransmitted: int
    rtt: int
    bytes_acked: int
    segs_in: int
    notsent: int  # bytes
    min_rtt: int
    data_segs_in: int
    busy: int
    rwnd_limited: int
    bytes_sent: int
    bytes_retransmitted: int
    dsacks: int  # segments that were repeated without need

    @property
    def is_idle(self) -> bool:
        return not self.unacked and not self.notsent


class ConnectionSeries:
    """The last sample of one connection."""

    __slots__ = ("acks", "at", "busy", "delivered", "peer", "repeated", "rtt", "rwnd", "sent")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.at = 0.0  # 0: not seen yet
        self.delivered = self.busy = self.rwnd = self.sent = self.repeated = self.acks = self.rtt = 0


class LineSampler:
    """Adds up one tick: `add` for each connection, then `take`."""

    def __init__(self) -> None:
        self._bases: dict[str, int] = {}  # by peer
        self._reset()

    def _reset(self) -> None:
        self._delivered = self._sent = self._repeated = self._in_flight = self._in_kernel = 0
        self._waited_s = self._elapsed_s = 0.0
        self._is_blocked = False
        self._queues: list[tuple[int, int, int]] = []  # queue, weight, base

    def add(self, series: ConnectionSeries, info: TcpInfo, now: float, *, is_blocked: bool) -> None:
        """`is_blocked`: the connection has bytes that the kernel does not take."""
        delivered = max(series.delivered, info.bytes_acked + info.sacked * info.mss)
        repeated = info.bytes_retransmitted - info.dsacks * info.mss
        acks = info.segs_in - info.data_segs_in
        new, busy, rwnd = delivered - series.delivered, info.busy - series.busy, info.rwnd_limited - series.rwnd
        is_first, elapsed_s = not series.at, now - series.at
        if not is_first:
            self._delivered += new
            is_free = 2 * rwnd <= busy  # not limited by its reader
            if is_free:
                self._add_free(series, info, new, acks - series.acks, repeated, is_blocked=is_blocked)
            if elapsed_s < FRESH_S:
                self._waited_s += min((busy - rwnd) * 1e-6, elapsed_s)
                self._elapsed_s += elapsed_s
        series.at, series.delivered, series.acks = now, delivered, acks
        series.busy, series.rwnd, series.sent, series.repeated = info.busy, info.rwnd_limited, info.bytes_sent, repeated
        if new > 0:
            series.rtt = info.rtt

    def _add_free(
        self, series: ConnectionSeries, info: TcpInfo, new: int, acks: int, repeated: int, *, is_blocked: bool
    ) -> None:
        self._sent += info.bytes_sent - series.sent
        self._repeated += max(0, repeated - series.repeated)
        self._is_blocked |= is_blocked
        self._in_kernel += info.notsent + info.unacked * info.mss
        under_way = (info.unacked - info.sacked - info.lost + info.retransmitted) * info.mss
        self._in_flight += max(0, min(under_way, info.bytes_sent - info.bytes_acked))
        if new <= 0 or not 0 < info.min_rtt < NO_RTT:
            return
        base = min(self._bases.get(series.peer, info.min_rtt), info.min_rtt)
        if len(self._bases) >= PEERS_MAX:
            self._bases.clear()
        self._bases[series.peer] = base
        fresh = float(info.rtt)
        if series.rtt and 0 < acks < len(_FRESHENING):
            fresh = series.rtt + (info.rtt - series.rtt) * _FRESHENING[acks]
        self._queues.append((max(0, int(fresh) - base), new, base))

    def take(self, *, is_starved: bool) -> Line:
        """The observations of this tick. `is_starved`: we had bytes to send and no tokens."""
        queue_s: float | None = None
        base_s = 0.0
        if self._queues:
            weight = sum(new for _, new, _ in self._queues)
            base_s = sum(new * base for _, new, base in self._queues) / weight * 1e-6
            queue_s = _median(sorted(self._queues), weight) * 1e-6
        line = Line(
            self._delivered,
            queue_s,
            base_s,
            self._in_flight,
            self._waited_s / self._elapsed_s if self._elapsed_s else 0.0,
            self._sent,
            self._repeated,
            is_starved,
            self._is_blocked,
            self._in_kernel,
        )
        self._reset()
        return line


def _median(ordered: list[tuple[int, int, int]], weight: int) -> int:
    passed = 0
    for queue, new, _ in ordered:
        passed += new
        if 2 * passed >= weight:
            return queue
    return ordered[-1][0]
