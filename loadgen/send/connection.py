"""Base of a client connection: one request and its response at a time. Subclasses transport the bytes.

A request is written at once. The event loop's own streams collect writes until the end of the loop iteration, in which
other responses are read, and that delay would count as the server's.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from loadgen.results.outcomes import CLOSED, CUT_OFF, RESET
from loadgen.send.kernel_timestamps import buffered_s
from loadgen.send.response_reader import BadResponse, ResponseReader

if TYPE_CHECKING:
    from loadgen.send.kernel_timestamps import Ancillary
    from loadgen.send.pending_request import PendingRequest
    from loadgen.send.pool import Pool

_monotonic = time.monotonic
_time_of_day = time.time
_NO_STAMP: Ancillary = []


class ClientConnection:
    """A connection of a pool. Free until ``send``, and again when the pool is told that the request ended."""

    __slots__ = ("_pool", "_reader", "closing", "sent_at_s", "shot", "uses")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reader = ResponseReader(pool.remembered, pool.body_max)
        self.shot: PendingRequest | None = None
        self.sent_at_s = 0.0
        self.uses = 0
        self.closing = False

    def send(self, shot: PendingRequest) -> None:
        self.shot = shot
        self.uses += 1
        self._reader.begin(no_body=shot.method == "HEAD")
        now_s = self.sent_at_s = _monotonic()
        if shot.sent_s == 0.0:
            shot.sent_s = now_s
        self._write(shot.payload, shot.body)

    def abandon(self) -> PendingRequest | None:
        """Close at once, and return the request in flight."""
        shot, self.shot = self.shot, None
        self.close()
        return shot

    def close(self) -> None:
        """Close the connection, discard further data, and tell the pool."""
        raise NotImplementedError

    def _write(self, payload: bytes, body: bytes) -> None:
        """Write now, or as soon as the peer accepts data. Errors are reported later."""
        raise NotImplementedError

    def _received(self, data: bytes, ancillary: Ancillary = _NO_STAMP) -> None:
        shot = self.shot
        if shot is None:
            if not self.closing:
                self._pool.counts.unasked += 1
                self.close()
            return
        reader = self._reader
        try:
            complete = reader.feed(data)
        except BadResponse as error:
            self.shot = None
            self.close()
            self._pool.failed(shot, f"bad answer: {error}")
            return
        if complete:
            # In this order: if the process is preempted between the two, the response seems late, never early.
            time_of_day = _time_of_day()
            now_s = shot.arrived_s = _monotonic()
            buffered_for_s = buffered_s(ancillary, time_of_day, now_s - self.sent_at_s)
            if buffered_for_s is not None:
                shot.arrived_s -= buffered_for_s
                shot.read_late_us = int(buffered_for_s * 1e6)
            head, size = reader.head, reader.body
            assert head is not None
            self.shot = None
            if reader.surplus:
                self._pool.counts.unasked += 1
                self.close()
            elif head.keeps_alive:
                self._pool.release(self)
            else:
                self.close()
            self._pool.answered(shot, head, size)

    def _lost(self, error: Exception | None) -> None:
        """The peer closed the connection, or it failed."""
        self.closing = True
        self._pool.lost(self)
        shot = self.shot
        if shot is None:
            return
        self.shot = None
        reader = self._reader
        if error is None and reader.feed_end():
            assert reader.head is not None
            self._pool.answered(shot, reader.head, reader.body)
        elif reader.started:
            self._pool.failed(shot, CUT_OFF if error is None else f"{RESET} within the answer")
        elif self.uses > 1 and shot.may_retry:
            self._pool.retry(shot)
        else:
            self._pool.failed(shot, CLOSED if error is None else RESET)
