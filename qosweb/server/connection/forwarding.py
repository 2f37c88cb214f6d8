"""Forwarding of a connection's requests: starts a relay to another server and acts on its end.

Neighbours: ``sending`` is below, ``timeouts`` derives from it; ``qosweb.server.proxy.relay`` moves the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.server.connection.sending import WRITE_BUFFER_HIGH, WRITE_BUFFER_LOW, Sending
from qosweb.server.pipeline import LOOK_UP_FILE
from qosweb.server.proxy.plain_relay import PlainRelay, begin, waiting_exchange
from qosweb.server.proxy.relay import Relay

if TYPE_CHECKING:
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.connection.head_parser import HeadParser
    from qosweb.server.proxy.attempts import ForwardTarget
    from qosweb.server.proxy.forward_head import ForwardHead
    from qosweb.server.request.answers import Answer
    from qosweb.server.request.exchange import Exchange


class Forwarding(Sending):
    """The part of `HttpConnection` that lets another server respond to a request."""

    __slots__ = ("_log_part", "_reader", "_relay", "_relayed_exchange", "_write_paused")

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context)
        self._reader: HeadParser | None = None
        self._relay: Relay | PlainRelay | None = None
        self._relayed_exchange: Exchange | None = None
        self._write_paused = False
        self._log_part = ""  # the client's part of a log line, once it has sent a request

    def resume_exchange(self, exchange: Exchange) -> None:
        """Continue ``exchange``: its wait is over."""
        raise NotImplementedError

    def _hold_back(self, data: bytes) -> None:
        """Hold data back while blocked, pass it on as a request body, or discard it while closing."""
        raise NotImplementedError

    def _end_plain(self) -> None:
        """`_unblock` after a plain relay."""
        raise NotImplementedError

    @property
    def is_write_paused(self) -> bool:
        return self._write_paused

    def _forward(self, exchange: Exchange, place: ForwardTarget) -> None:
        assert self._transport is not None
        self._blocked = True
        self._mark_at = 0.0
        exchange.was_delayed = True  # its service time does not measure this node
        self._relayed_exchange = exchange
        self._relay = relay = Relay(self._context, exchange, place, self._transport, self)
        relay.start()
        if self._relay is relay and exchange.has_unread_body and self._unread:
            held = bytes(self._unread)  # bytes of the body that arrived while the request was queued
            self._unread.clear()
            self.resume_reading()
            self._hold_back(held)

    # ---- the fast path

    def _forward_plain(self, known: ForwardHead, data: bytes, start: int, now: float, *, may_wait: bool = False) -> int:
        """Forward a plain request, whose body begins at ``start``. Returns its end; 0, without effect: not possible.

        ``may_wait``: if it cannot start at once, let it pass only the stages in which it may have to wait.
        """
        assert self._transport is not None
        body = b""
        end = start + known.length
        if known.length:
            if end > len(data):
                return 0
            body = data[start:end]
        relay = begin(self._context, known, body, self._transport, self, now)
        if relay is None:
            exchange = waiting_exchange(self._context, known, body, self, now) if may_wait else None
            if exchange is None:
                return 0
            exchange.stage = LOOK_UP_FILE
            self._run(exchange)
            return end
        self._relay = relay
        self._blocked = True
        self._mark_at = 0.0
        return end

    def on_plain_end(self, relay: PlainRelay, now: float) -> None:
        """The response is written."""
        context = self._context
        self._relay = None
        context.services.admission.release(relay.hold, relay.sent, now)
        context.recorder.relayed(self._log_part, relay, now)
        self.active_at = now
        self._end_plain()

    def on_promoted(self, relay: Relay, exchange: Exchange) -> None:
        """``relay`` continues a request that was plain until now."""
        self._relay, self._relayed_exchange = relay, exchange

    def _cancel_relay(self) -> None:
        """The client has closed its connection."""
        relay = self._relay
        if isinstance(relay, PlainRelay):
            relay = relay.promote()
        if relay is not None:
            relay.cancel()
            self.on_relay_end(None)

    # ---- every other request

    def on_relay_end(self, answer: Answer | None) -> None:
        """The relay has ended, or is cancelled. ``answer``: the response to send in its place.

        Another node logs the requests that it responds to under their request id, also if the client leaves. If that
        node breaks off or cannot be reached, it is unknown what it has logged: then this node logs the request under a
        new request id.
        """
        relay, exchange = self._relay, self._relayed_exchange
        if not isinstance(relay, Relay) or exchange is None:
            return
        self._relay = self._relayed_exchange = None
        if exchange.permit is not None and exchange.permit.rate_bps is not None and self._transport is not None:
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)
        self.active_at = self._clock.read()
        client_left = answer is None and self._transport is None
        if relay.place.peer and not relay.is_complete and not client_left:
            exchange.rid = None
        if answer is not None:
            exchange.outcome = ""  # the other server did not respond
            self._send(exchange, answer)
            self._unblock()
        elif relay.is_complete:
            decision = "forwarded" if relay.place.peer else "failed" if relay.status >= 500 else "served"
            self._record(exchange, decision, relay.status, relay.sent)
            if relay.closes:
                self._linger()
            else:
                self._unblock()
        elif relay.place.peer and client_left:
            self._record(exchange, "forwarded", relay.status, relay.sent)
        else:
            self._record(exchange, "failed", relay.status, relay.sent)
            self.abort()
