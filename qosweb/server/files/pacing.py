"""Pacing: sends a response at no more than the rate R of its channel.

From: QOS.md, "Pipes, channels, resource model": a channel delivers at its own rate and is held for as long as that
takes. With ``c`` the fixed cost of a request in bytes, a response that starts at ``t0`` may send its head at
``t0 + c/R``, its k-th byte of body at ``t0 + (c + k)/R``, and ends with its last byte: a channel is held for
``(c + size)/R``, also by a response without a body.

One timer serves all paced responses; there is no task per response. Due bytes are sent in slices, at ticks that all
responses share. The last slice is sent when the last byte is due, to the millisecond; ``until`` is the exact time, so
that the next request in the channel can start there. The schedule is absolute: a late tick sends everything that became
due meanwhile, so delays of the event loop cost no bandwidth. A slow client moves the schedule instead: nothing is
written while earlier bytes still wait in the transport, and once they are sent, one slice may follow at once, not all
that was missed.

"Sent" means handed to the transport, as everywhere in the server. The connection enforces the time limits.
Neighbours: ``qosweb.server.connection.connection`` starts and ends it; ``qosweb.server.files.body_reader`` reads the
bytes.
"""

from __future__ import annotations

import heapq
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from qosweb.server.files.body_reader import BodyReader, ChangedWhileSending
from qosweb.server.files.file_sender import unsent

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.server.request.answers import Segment

SLICE_S = 0.010
EARLY_S = 0.000_5  # half the resolution of the event loop's timers
SLICE_BYTES_MAX = 4 << 20  # in one slice, even if it is late
PIECE_BYTES_MAX = 256 << 10


class PacedSend:
    """Sends one response at a limited rate. Calls ``done(complete)`` exactly once, unless closed before."""

    __slots__ = (
        "_body_size",
        "_done",
        "_fixed",
        "_from",
        "_head",
        "_pacer",
        "_pieces",
        "_rate_bps",
        "_transport",
        "has_started",
        "is_closed",
        "sent",
        "size",
    )

    def __init__(
        self,
        pacer: SendPacer,
        transport: asyncio.Transport,
        head: bytes,
        body: tuple[Segment, ...],
        done: Callable[[bool], None],
        *,
        rate_bps: int,
        fixed_bytes: int = 0,
        since: float | None = None,
        file: int = -1,
    ) -> None:
        """Takes ownership of the open descriptor ``file``. ``since``: when the channel became free; None: now."""
        if rate_bps < 1 or fixed_bytes < 0:
            raise ValueError(f"invalid channel: {rate_bps} bytes per second, a fixed cost of {fixed_bytes} bytes")
        self.sent = 0
        self.has_started = False
        self.is_closed = False
        self._pacer = pacer
        self._transport = transport
        self._head = head
        self._pieces = BodyReader(body, file)
        self.size = len(head) + self._pieces.left
        self._body_size = self._pieces.left
        self._done = done
        self._rate_bps = rate_bps
        self._fixed = fixed_bytes
        now = perf_counter()
        self._from = now if since is None else max(since, now - SLICE_S)

    def start(self) -> None:
        self.has_started = True
        self._pacer.add(self)

    @property
    def until(self) -> float:
        """When the last byte is due."""
        return self._from + (self._fixed + self.size - len(self._head)) / self._rate_bps

    @property
    def progress(self) -> int:
        """Bytes that the client has acknowledged."""
        descriptor = self._transport.get_extra_info("socket").fileno()
        return self.sent - self._transport.get_write_buffer_size() - unsent(descriptor)

    @property
    def waits_for_client(self) -> bool:
        """Whether the client, not the channel, limits the rate: the kernel's send buffer is full.

        Bytes in the kernel do not tell: in a slow channel there are always a few bytes without acknowledgement.
        """
        return self._transport.get_write_buffer_size() > 0

    def pump_buffered(self) -> None:
        """Does nothing: the next tick notices that the transport has room again."""

    def close(self) -> None:
        self.is_closed = True
        self._pieces.close()

    def pump(self, now: float) -> float | None:
        """Send the bytes that are due. Returns the time of the next call; None after the last byte."""
        due = int((now + EARLY_S - self._from) * self._rate_bps) - self._fixed
        pieces = self._pieces
        body_sent = self._body_size - pieces.left
        if self._transport.get_write_buffer_size():
            missed = due - body_sent - int(SLICE_S * self._rate_bps)
            if missed > 0:
                self._from += missed / self._rate_bps
        elif due >= 0:
            try:
                self._hand_over(min(due - body_sent, SLICE_BYTES_MAX))
            except (ChangedWhileSending, OSError):
                self._finish(complete=False)
                return None
            if not pieces.left:
                self._finish(complete=True)
                return None
        soon = now + 2 * EARLY_S  # not earlier: the current tick covers everything due within EARLY_S
        return min((soon // SLICE_S + 1) * SLICE_S, max(self.until, soon))

    def _hand_over(self, most: int) -> None:
        parts: list[bytes | memoryview] = []
        size = len(self._head) if not self.sent else 0
        if size:
            parts.append(self._head)
        while most > 0 and self._pieces.left:
            piece = self._pieces.take(min(most, PIECE_BYTES_MAX))
            parts.append(piece)
            size += len(piece)
            most -= len(piece)
        if parts:
            self._transport.writelines(parts)
            self.sent += size

    def _finish(self, *, complete: bool) -> None:
        self.close()
        self._done(complete)


class PacedResponse(Protocol):
    """What the pacer needs of a response."""

    is_closed: bool

    def pump(self, now: float) -> float | None: ...


class SendPacer:
    """The timer of all paced responses. Its heap has one entry per response, due within one slice."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, PacedResponse]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._ringing = False

    def __len__(self) -> int:
        return sum(not send.is_closed for _, _, send in self._heap)

    def add(self, send: PacedResponse) -> None:
        self._turn(send, perf_counter())
        if not self._ringing:
            self._arm()

    def _turn(self, send: PacedResponse, now: float) -> None:
        again_at = send.pump(now)
        if again_at is not None:
            heapq.heappush(self._heap, (again_at, next(self._numbers), send))

    def _ring(self) -> None:
        self._timer = None
        self._ringing = True
        now = perf_counter()
        try:
            while self._heap and self._heap[0][0] <= now + EARLY_S:
                send = heapq.heappop(self._heap)[2]
                if not send.is_closed:
                    self._turn(send, now)
        finally:  # a bug in one response must not stop the others
            self._ringing = False
            self._arm()

    def _arm(self) -> None:
        if not self._heap:
            return
        at = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(at - perf_counter(), 2 * EARLY_S), self._ring)
