"""Output of a forwarded response: at once, or at the rate of its channel.

A paced response is due as `qosweb.server.files.pacing` derives: with ``c`` the fixed cost of a request in bytes, its
head at ``t0 + c/R`` and its k-th byte at ``t0 + (c + k)/R``. Its bytes come from a server, which may be slower than the
channel: then the schedule moves, and one slice may follow at once, not all that was missed. What is not due yet waits
here, and reading from the server is paused beyond HELD_MAX.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from qosweb.server.files.pacing import EARLY_S, SLICE_S

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.admission import Permit
    from qosweb.server.files.pacing import SendPacer

HELD_MAX = 64 << 10


class PacedOutput:
    """Writes a response at a limited rate. Calls ``done`` after the last byte, ``drained`` when it wants more.

    Implements what `SendPacer` needs of a response.
    """

    __slots__ = (
        "_done",
        "_drained",
        "_ends",
        "_fixed",
        "_from",
        "_head",
        "_held",
        "_is_scheduled",
        "_pacer",
        "_parts",
        "_rate_bps",
        "_transport",
        "is_chunked",
        "is_closed",
        "sent",
    )

    def __init__(
        self,
        pacer: SendPacer,
        transport: asyncio.Transport,
        permit: Permit,
        drained: Callable[[], None],
        done: Callable[[], None],
    ) -> None:
        assert permit.rate_bps is not None
        self.is_closed = False
        self.is_chunked = False
        self.sent = 0  # bytes of the body
        self._pacer = pacer
        self._transport = transport
        self._drained = drained
        self._done = done
        self._rate_bps = permit.rate_bps
        self._fixed = permit.fixed_bytes
        now = perf_counter()
        self._from = now if permit.channel_since is None else max(permit.channel_since, now - SLICE_S)
        self._head = b""
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._ends = False
        self._is_scheduled = False

    @property
    def until(self) -> float:
        """When the last byte that was sent was due."""
        return self._from + (self._fixed + self.sent) / self._rate_bps

    @property
    def is_full(self) -> bool:
        return self._held > HELD_MAX

    def put(self, head: bytes, part: bytes, *, ends: bool) -> None:
        """Add the head, if it is not empty, and a part of the body."""
        self._head = self._head or head
        if part:
            self._parts.append(part)
            self._held += len(part)
        self._ends = ends
        if not self._is_scheduled:
            now = perf_counter()
            self._from = max(self._from, now - SLICE_S - (self._fixed + self.sent) / self._rate_bps)
            self._is_scheduled = True
            self._pacer.add(self)

    def close(self) -> None:
        self.is_closed = True

    def pump(self, now: float) -> float | None:
        """Send the bytes that are due. Returns the time of the next call; None if there is nothing to wait for."""
        due = int((now + EARLY_S - self._from) * self._rate_bps) - self._fixed - self.sent
        if self._transport.get_write_buffer_size():
            missed = due - int(SLICE_S * self._rate_bps)
            if missed > 0:  # the client is slow
                self._from += missed / self._rate_bps
        elif self._from + self._fixed / self._rate_bps <= now + EARLY_S:
            was_full = self.is_full
            self._write(due)
            if not self._held and self._ends:
                self._finish()
                return None
            if was_full and not self.is_full:
                self._drained()
            if not self._held:
                self._is_scheduled = False
                return None
        soon = now + 2 * EARLY_S
        last = self._from + (self._fixed + self.sent + self._held) / self._rate_bps
        return min((soon // SLICE_S + 1) * SLICE_S, max(last, soon))

    def _write(self, most: int) -> None:
        out = [self._head] if self._head else []
        self._head = b""
        piece = self._take(most)
        if piece and self.is_chunked:
            out += [b"%x\r\n" % len(piece), piece, b"\r\n"]
        elif piece:
            out.append(piece)
        if out:
            self._transport.write(b"".join(out))

    def _take(self, most: int) -> bytes:
        taken: list[bytes] = []
        while most > 0 and self._parts:
            part = self._parts.popleft()
            if len(part) > most:
                self._parts.appendleft(part[most:])
                part = part[:most]
            taken.append(part)
            most -= len(part)
        piece = b"".join(taken)
        self.sent += len(piece)
        self._held -= len(piece)
        return piece

    def _finish(self) -> None:
        self.close()
        if self.is_chunked:
            self._transport.write(b"0\r\n\r\n")
        self._done()
