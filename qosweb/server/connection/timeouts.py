"""Time limits of a connection: slow heads, slow readers, stalled bodies, a disk that hangs, idle clients.

There is no timer per request: the connection table calls `Timeouts.check_time` of every connection twice a second.
Neighbours: ``forwarding`` is below, ``turns`` derives from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.server.connection.forwarding import Forwarding
from qosweb.server.files.file_sender import unsent
from qosweb.server.pacing.paced_send import PacedSend
from qosweb.server.request.answers import explain

if TYPE_CHECKING:
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.connection.fast_path import PlainHead
    from qosweb.server.request.answers import Answer
    from qosweb.server.request.exchange import Exchange

PROGRESS_MIN = 16 << 10  # bytes that a client has to take within the send timeout


class Timeouts(Forwarding):
    """The part of `HttpConnection` that enforces time limits."""

    __slots__ = ("_exchange", "_in_head", "_mark_left", "_queued_plain")

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context)
        self._exchange: Exchange | None = None  # the waiting request
        self._queued_plain: PlainHead | None = None  # the plain request that waits for its turn
        self._in_head = False  # a head has arrived in part
        self._mark_left = 0  # bytes that the client had not taken at _mark_at

    def check_time(self, now: float) -> None:
        """Enforce the time limits. Called twice a second."""
        limits = self._context.limits
        counts = self._context.connections.counts
        if self._transport is None:
            return
        if self._lingering is not None:
            return
        if self._sender is not None or self._write_paused or self._closing:
            if not self._makes_progress(now):
                counts.send_timeouts += 1
                self.abort()
        elif self._queued_plain is not None:
            pass  # its lifetime ends its wait
        elif self._relay is not None:
            self._relay.check_time(now)
        elif self._exchange is not None:
            if self._exchange.waits_for_body:
                self._check_body_time(self._exchange, now)
            elif self._exchange.wait is None and now - self._exchange.started > limits.send_timeout_s:
                self._give_up_waiting(self._exchange)
        elif self._in_head:
            assert self._reader is not None
            if now - self._reader.partial_since > limits.header_timeout_s:
                counts.header_timeouts += 1
                self._reject(self._reader.too_late().answer, "failed", now)
        elif now - self.active_at > (limits.idle_timeout_s if self._log_part else limits.header_timeout_s):
            counts.idle_timeouts += 1
            self._close()

    def _check_body_time(self, exchange: Exchange, now: float) -> None:
        """Refuse a request whose body arrives too slowly."""
        limits = self._context.limits
        late: Answer | None = None
        if exchange.request_body is not None:
            exchange.request_body.check_time(now)
            late = exchange.request_body.refusal
        elif now - exchange.arrived > limits.header_timeout_s:
            late = explain(408, "The request body did not arrive in time.", must_close=True)
        if late is not None:
            self._context.connections.counts.header_timeouts += 1
            self._exchange = None
            self._send(exchange, late)

    def _give_up_waiting(self, exchange: Exchange) -> None:
        """The disk did not deliver in time: respond with 503."""
        self._exchange = None
        if exchange.forget is not None:
            exchange.forget()
        self._send(exchange, explain(503, "The page could not be read in time.", [("Retry-After", "10")]))
        self._unblock()

    def _makes_progress(self, now: float) -> bool:
        assert self._transport is not None
        if self._sender is None:
            left = self._transport.get_write_buffer_size() + unsent(self._transport.get_extra_info("socket").fileno())
        else:
            left = -self._sender.progress
            if isinstance(self._sender, PacedSend) and not self._sender.waits_for_client:
                self._mark_at = 0.0
        if not self._mark_at or self._mark_left - left >= PROGRESS_MIN:
            self._mark_at, self._mark_left = now, left
        return now - self._mark_at <= self._context.limits.send_timeout_s
