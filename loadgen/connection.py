"""One connection: writes prepared requests, reads their answers, one at a time.

A request is written at once: the event loop's own streams collect what is written until the end of the turn, in which
other answers are read meanwhile, and the time until then would count as the server's.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, cast

from loadgen.answers import AnswerReader, BadAnswer
from loadgen.outcomes import CLOSED, CUT_OFF, RESET

if TYPE_CHECKING:
    from loadgen.pool import Pool
    from loadgen.shot import Shot

_monotonic = time.monotonic


class Connection(asyncio.Protocol):
    """Belongs to a pool. Free until ``send``; free again when the pool is told of the end of the shot."""

    __slots__ = ("_file", "_pool", "_reader", "_transport", "closing", "sent_at_s", "shot", "uses")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reader = AnswerReader(pool.remembered, pool.body_max)
        self._transport: asyncio.WriteTransport | None = None
        self._file = -1  # of the socket, as long as it can be written to past the transport
        self.shot: Shot | None = None
        self.sent_at_s = 0.0
        self.uses = 0
        self.closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        if transport.get_extra_info("sslcontext") is None:
            self._file = transport.get_extra_info("socket").fileno()

    def send(self, shot: Shot) -> None:
        self.shot = shot
        self.uses += 1
        self._reader.begin(no_body=shot.method == "HEAD")
        now_s = self.sent_at_s = _monotonic()
        if shot.sent_s == 0.0:
            shot.sent_s = now_s
        payload, body = shot.payload, shot.body
        written = 0
        if self._file >= 0:
            try:
                written = os.writev(self._file, (payload, body)) if body else os.write(self._file, payload)
            except OSError:
                written = 0  # the transport meets it too, and tells
            if written == len(payload) + len(body):
                return
            self._file = -1  # what is sent later has to wait behind the rest
        assert self._transport is not None
        if written < len(payload):
            self._transport.write(payload[written:])
        if body:
            self._transport.write(memoryview(body)[max(0, written - len(payload)) :])

    def data_received(self, data: bytes) -> None:
        shot = self.shot
        if shot is None:
            if not self.closing:
                self._pool.counts.unasked += 1
                self.close()
            return
        reader = self._reader
        try:
            complete = reader.feed(data)
        except BadAnswer as error:
            self.shot = None
            self.close()
            self._pool.failed(shot, f"bad answer: {error}")
            return
        if complete:
            head = reader.head
            assert head is not None
            self.shot = None
            if reader.surplus:
                self._pool.counts.unasked += 1
                self.close()
            elif head.keeps_alive:
                self._pool.release(self)
            else:
                self.close()
            self._pool.answered(shot, head, reader.body)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self._file = -1  # the number may be another file's soon
        self._pool.lost(self)
        shot = self.shot
        if shot is None:
            return
        self.shot = None
        reader = self._reader
        if exc is None and reader.feed_end():
            assert reader.head is not None
            self._pool.answered(shot, reader.head, reader.body)
        elif reader.started:
            self._pool.failed(shot, CUT_OFF if exc is None else f"{RESET} within the answer")
        elif self.uses > 1 and shot.may_retry:
            self._pool.retry(shot)
        else:
            self._pool.failed(shot, CLOSED if exc is None else RESET)

    def abandon(self) -> Shot | None:
        """Close at once, and hand back the shot that was on its way."""
        shot, self.shot = self.shot, None
        self.close()
        return shot

    def close(self) -> None:
        """Nothing that still comes on it is of interest."""
        self.closing = True
        self._file = -1
        if self._transport is not None:
            self._transport.abort()
