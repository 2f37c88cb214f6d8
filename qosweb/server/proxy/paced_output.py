"""Output of a forwarded response that the pacer sends.

The bytes come from a server. Those that the pacer has not sent yet wait here, and reading from the server is paused
beyond HELD_MAX.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from qosweb.server.pacing.send_pacer import PacedFlow

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.admission import Permit
    from qosweb.server.pacing.send_pacer import SendPacer

HELD_MAX = 64 << 10


class PacedOutput(PacedFlow):
    """Calls ``done`` after the last byte, ``drained`` when it wants more."""

    __slots__ = ("_done", "_drained", "_ends", "_head", "_held", "_parts", "is_chunked", "sent")

    def __init__(
        self,
        pacer: SendPacer,
        transport: asyncio.Transport,
        permit: Permit,
        drained: Callable[[], None],
        done: Callable[[], None],
    ) -> None:
        super().__init__(pacer, transport, permit)
        self.is_chunked = False
        self.sent = 0  # bytes of the body
        self._drained = drained
        self._done = done
        self._head = b""
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._ends = False

    @property
    def is_full(self) -> bool:
        return self._held > HELD_MAX

    def put(self, head: bytes, part: bytes, *, ends: bool) -> None:
        """Add the head, if it is not empty, and a part of the body."""
        if head and not self._head:
            self._head = head
            self._transport.set_write_buffer_limits(high=0)  # it tells when its buffer is empty
        if part:
            self._parts.append(part)
            self._held += len(part)
        self._ends = ends
        if not self.is_ready and not self.blocked_at:
            self._pacer.add(self)

    def on_client_reads(self) -> None:
        """The transport's buffer is empty."""
        self._pacer.on_client_reads(self)

    def close(self) -> None:
        self._pacer.remove(self)

    @property
    def body_sent(self) -> int:
        return self.sent

    @property
    def body_left(self) -> int:
        return self._held

    @property
    def has_bytes(self) -> bool:
        return bool(self._held or self._head or self._ends)

    def write(self, most: int) -> int:
        was_full = self.is_full
        out = [self._head] if self._head else []
        cost = self._permit.fixed_bytes if self._head else 0
        self._head = b""
        piece = self._take(most)
        if piece and self.is_chunked:
            out += [b"%x\r\n" % len(piece), piece, b"\r\n"]
        elif piece:
            out.append(piece)
        is_over = self._ends and not self._held
        if is_over and self.is_chunked:
            out.append(b"0\r\n\r\n")
        if out:
            self._transport.write(b"".join(out))
        if is_over:
            self.close()
            self._done()
        elif was_full and not self.is_full:
            self._drained()
        return cost + len(piece)

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
