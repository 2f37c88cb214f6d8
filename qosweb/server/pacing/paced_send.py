"""Paced send: a response from memory or from an open file that the pacer sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.server.files.body_reader import BodyReader, ChangedWhileSending
from qosweb.server.files.file_sender import unsent
from qosweb.server.pacing.send_pacer import PacedFlow, SendPacer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.admission import Permit
    from qosweb.server.request.answers import Segment


class PacedSend(PacedFlow):
    """Sends one response. Calls ``done(complete)`` exactly once, unless closed before."""

    __slots__ = ("_body_size", "_done", "_head", "_pieces", "has_started", "sent", "size")

    def __init__(
        self,
        pacer: SendPacer,
        transport: asyncio.Transport,
        permit: Permit,
        head: bytes,
        body: tuple[Segment, ...],
        done: Callable[[bool], None],
        *,
        file: int = -1,
    ) -> None:
        """Takes ownership of the open descriptor ``file``."""
        super().__init__(pacer, transport, permit)
        self.sent = 0  # with the head
        self.has_started = False
        self._head = head
        self._pieces = BodyReader(body, file)
        self._body_size = self._pieces.left
        self.size = len(head) + self._body_size
        self._done = done

    def go_on(self, rest: BodyReader, sent: int) -> None:
        """Send the rest of a response instead, of which ``sent`` bytes were sent already. Takes ownership of it."""
        self._pieces = rest
        self.sent = sent
        self.size = sent + rest.left

    def start(self) -> None:
        """Start sending. The transport's high-water mark has to be 0, so that it tells when its buffer is empty."""
        self.has_started = True
        self._pacer.add(self)

    @property
    def progress(self) -> int:
        """Bytes that the client has acknowledged."""
        descriptor = self._transport.get_extra_info("socket").fileno()
        return self.sent - self._transport.get_write_buffer_size() - unsent(descriptor)

    def pump_buffered(self) -> None:
        """The transport's buffer is empty."""
        self._pacer.on_client_reads(self)

    def close(self) -> None:
        self._pacer.remove(self)
        self._pieces.close()

    @property
    def body_sent(self) -> int:
        return self._body_size - self._pieces.left

    @property
    def body_left(self) -> int:
        return self._pieces.left

    @property
    def has_bytes(self) -> bool:
        return True  # until its end

    def write(self, most: int) -> int:
        pieces = self._pieces
        parts: list[bytes | memoryview] = []
        cost = size = 0
        if not self.sent:
            parts.append(self._head)
            size = len(self._head)
            cost = self._permit.fixed_bytes
        try:
            while most > 0 and pieces.left:
                piece = pieces.take(most)
                parts.append(piece)
                most -= len(piece)
                cost += len(piece)
                size += len(piece)
        except (ChangedWhileSending, OSError):
            self._finish(complete=False)
            return cost
        self._transport.writelines(parts)
        self.sent += size
        if not pieces.left:
            self._finish(complete=True)
        return cost

    def _finish(self, *, complete: bool) -> None:
        self.close()
        self._done(complete)
