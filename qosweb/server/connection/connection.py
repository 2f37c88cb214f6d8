"""HTTP/1.1 connection: an asyncio protocol that reads requests and writes responses in request order.

Heads come one at a time from ``qosweb.server.connection.head_parser``. A plain GET of a page in memory takes the fast
path: its response is written within ``data_received``, without task or future. Every other request becomes an Exchange
and passes the stages of ``qosweb.server.pipeline``. While a request has to wait, the connection is *blocked*: bytes
that arrive are held back up to a limit, and beyond it reading is paused. So responses keep the order of requests, and a
client that sends faster than it reads only fills its own buffers.

The state of a connection follows from its attributes. The first that is set counts:

    _lingering                 all responses are sent; incoming bytes are read and discarded
    _closing                   the connection closes when all written bytes are sent
    _sender                    a response is sent from disk, or at the rate of its channel
    _write_paused              the client reads its responses too slowly
    _relay                     another server responds; ``_request_body`` is the body on its way there
    _exchange                  a request waits for the disk or for its turn
    _in_head                   a head has arrived in part
    none of them               idle; ``_blocked`` is true in all states but the last two
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import TYPE_CHECKING, cast

from qosweb.server.accesslog.recorder import TOO_MANY
from qosweb.server.connection.closing import LINGER_BYTES_MAX, Closing
from qosweb.server.connection.connections import ConnectionDecision
from qosweb.server.connection.decisions import CLIENT_SHARE, decision_lines, decision_of, denied_lines
from qosweb.server.connection.fast_path import PlainHead, read_plain
from qosweb.server.connection.head_parser import HeadParser, RejectedHead
from qosweb.server.files.file_sender import FileSender, unsent
from qosweb.server.files.files import NotServed
from qosweb.server.files.pacing import PacedSend
from qosweb.server.pipeline import proceed, restart_at_find_page
from qosweb.server.proxy.forward import ForwardTarget, Relay
from qosweb.server.proxy.request_body import CONTINUE, RequestBody
from qosweb.server.request.answers import CLOSE, KEEP_ALIVE, NO_CONNECTION_LINE, Answer, FileSpan, explain
from qosweb.server.request.exchange import Exchange, Waiting

if TYPE_CHECKING:
    import asyncio

    from qosweb.admission import Permit
    from qosweb.server.connection.context import ConnectionContext

UNREAD_MAX = 64 << 10  # bytes held back while blocked; above it reading is paused
WRITE_BUFFER_HIGH = 256 << 10
WRITE_BUFFER_LOW = 64 << 10
PROGRESS_MIN = 16 << 10  # bytes that a client has to take within the send timeout
REREADS_MAX = 3

_RETRY = [("Retry-After", "1")]
_REFUSALS = {
    ConnectionDecision.TOO_MANY_FROM_CLIENT: explain(429, "Too many connections from your address.", _RETRY),
    ConnectionDecision.FULL: explain(503, "The server has too many connections.", _RETRY),
}
_TOO_MANY_FILES = explain(503, "The server has too many files open.", _RETRY)
_TOO_MANY_FILES_TO_CLIENT = explain(429, "Too many files are being sent to your address.", _RETRY)


class HttpConnection(Closing):
    __slots__ = (
        "_clock",
        "_consuming",
        "_eof",
        "_exchange",
        "_in_head",
        "_known_heads",
        "_log_part",
        "_mark_left",
        "_reader",
        "_relay",
        "_relayed_exchange",
        "_request_body",
        "_resources",
        "_sender",
        "_sending",
        "_write_paused",
        "active_at",
    )

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context)
        self.active_at = 0.0
        self._clock = context.site.clock
        self._resources = context.site.store.resources
        self._known_heads = context.plain_heads.known
        self._reader: HeadParser | None = None
        self._log_part = ""
        self._consuming = False
        self._eof = False
        self._write_paused = False
        self._in_head = False  # a head has arrived in part
        self._exchange: Exchange | None = None  # the waiting request
        self._sender: FileSender | PacedSend | None = None
        self._sending: tuple[Exchange, Answer, bool] | None = None
        self._relay: Relay | None = None
        self._relayed_exchange: Exchange | None = None
        self._request_body: RequestBody | None = None
        self._mark_left = 0  # bytes that the client had not taken at _mark_at

    # ---- callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's transports do not derive from it
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client = peer[0] if isinstance(peer, tuple) else "unix"
        self.active_at = self._clock.read()
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)
        refusal = _REFUSALS.get(self._context.connections.enter(self))
        if refusal is not None:
            self._reject(refusal, "denied", self.active_at)

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002
        self._context.connections.leave(self)
        self._blocked = self._closing = True
        self._transport = None
        self._reader = None
        self._unread.clear()
        if self._lingering is not None:
            self._lingering.cancel()
            self._context.connections.lingering.give_back(self.client)
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            if exchange.forget is not None:
                exchange.started = self._clock.read()  # it waited until now
                exchange.forget()
            self._record(exchange, "failed", 499, 0)
        if self._relay is not None:
            self._relay.cancel()
            self._on_relay_end(None)
        if self._sender is not None:
            self._sender.close()
            self._on_sent(complete=False)

    def eof_received(self) -> bool | None:
        self._eof = True
        if self._exchange is not None and (self._exchange.wait is not None or self._exchange.waits_for_ignored_body):
            # a client that closes its side while its request is queued leaves the queue; a body cut short never ends
            return None
        busy = self._exchange is not None or self._sender is not None or bool(self._unread)
        if self._relay is not None:
            busy = self._relay.client_ended()
        if not busy or self._transport is None:
            return None
        # Half-closed: respond to pending requests, then close. TLS has no half-close.
        return True if self._transport.get_extra_info("sslcontext") is None else None

    def pause_writing(self) -> None:
        self._write_paused = True
        self._blocked = True
        if self._sender is None:
            self._mark_at = 0.0

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._relay is not None:
            self._relay.resumed()
        elif self._sender is None:
            self._unblock()
        elif self._sender.has_started:
            self._sender.pump_buffered()
        else:
            self._start_sender()

    def data_received(self, data: bytes) -> None:
        if self._blocked:
            self._hold(data)
            return
        now = perf_counter()
        if now >= self._clock.next_second_at:
            self._clock.turn(now)
        plain = self._known_heads.get(data)
        if plain is None or self._in_head or not self._log_part or not self._answer_plain(plain, now):
            self._consume(data, now)

    # ---- requests

    def _consume(self, data: bytes, now: float) -> None:
        """Handle the requests in ``data`` one by one, until the data ends or a request has to wait."""
        if (reader := self._reader) is None:
            context = self._context
            self._reader = reader = HeadParser(context.limits.head, context.loop, context.body_flow)
        self.active_at = now
        self._consuming = True
        start, size = 0, len(data)
        try:
            while start < size:
                end = reader.end_of_head(data, start)
                self._consume_head(reader, data[start:end], now)
                start = end
                if self._blocked:
                    if start < size:
                        self._hold(data[start:])
                    break
        except RejectedHead as refused:
            self._context.connections.counts.malformed += 1
            self._reject(refused.answer, "failed", now)
        except Exception as error:  # a bug here must cost no more than this connection
            self._context.report_fault(error)
            self.abort()
        finally:
            self._consuming = False

    def _consume_head(self, reader: HeadParser, piece: bytes, now: float) -> None:
        """Handle a request head or a part of one. ``piece`` has no bytes after the end of the head."""
        if self._log_part and not self._in_head:
            known = self._known_heads.get(piece)  # for pipelined heads; data_received has looked up single ones
            if known is not None and self._answer_plain(known, now):
                return
        head = reader.read(piece, now)
        self._in_head = head is None
        if head is None:
            return
        if not self._log_part:
            self._on_first_request()
        if (
            not head.has_body
            and (plain := read_plain(head.message, self._context.recorder.hosts, self._context.site.admission))
            is not None
        ):
            if head.is_single_piece:
                self._context.plain_heads.remember(piece, plain)
            if self._answer_plain(plain, now):
                return
        self._run(Exchange(head.message, head.has_body, self.client, now, now, self._resume))

    def _answer_plain(self, plain: PlainHead, now: float) -> bool:
        """The fast path. False, without effect, if the page is not in memory, not fresh, or may not start now."""
        path, host_part, accept_encoding, account = plain
        resource = self._resources.get(path)
        context = self._context
        if resource is None or now >= resource.fresh_until or context.connections.draining:
            return False
        page = resource.page_for(accept_encoding) if resource.encoded else resource.plain
        if not page.log_part or not context.site.admission.start(account):
            return False
        if page.wire_second != self._clock.second or page.wire_line is not account.served_line:
            page.set_wire(self._clock.second, self._clock.date_line, account.served_line)
        assert self._transport is not None
        if page.wire_has_body:
            self._transport.write(page.wire)
        else:
            self._transport.writelines((page.wire, page.body))  # type: ignore[arg-type]  # has a body: see prepare_plain
        self.active_at = now
        resource.recently_used = True
        context.recorder.served_plain(self._log_part, page, host_part, account, now)
        return True

    def _run(self, exchange: Exchange) -> None:
        step = proceed(exchange, self._context.site)
        if isinstance(step, Waiting):
            self._exchange = exchange
            self._blocked = True
            if exchange.waits_for_ignored_body and exchange.expects_continue and self._transport is not None:
                self._transport.write(CONTINUE)
        elif isinstance(step, ForwardTarget):
            self._forward(exchange, step)
        else:
            self._send(exchange, step)

    def _resume(self, exchange: Exchange) -> None:
        """Continue ``exchange``: its wait is over."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        self._run(exchange)
        self._unblock()

    # ---- responses of other servers

    def _forward(self, exchange: Exchange, place: ForwardTarget) -> None:
        assert self._transport is not None
        self._blocked = True
        self._mark_at = 0.0
        exchange.was_delayed = True  # its service time does not measure this node
        if exchange.has_body:
            self._request_body = RequestBody(
                exchange.message, self._clock.read(), self._pause_reading, self._resume_reading
            )
            if self._unread:  # bytes of the body that arrived while the request was queued
                held = bytes(self._unread)
                self._unread.clear()
                self._resume_reading()
                self._hold(held)
        self._relayed_exchange = exchange
        self._relay = Relay(
            self._context,
            exchange,
            place,
            self._transport,
            self._request_body,
            lambda: self._write_paused,
            self._on_relay_end,
        )

    def _on_relay_end(self, answer: Answer | None) -> None:
        """The relay has ended, or is cancelled. ``answer``: the response to send in its place.

        Another node logs the requests that it responds to under their request id, also if the client leaves. If that
        node breaks off or cannot be reached, it is unknown what it has logged: then this node logs the request under a
        new request id.
        """
        relay, exchange = self._relay, self._relayed_exchange
        if relay is None or exchange is None:
            return
        self._relay = self._request_body = self._relayed_exchange = None
        if exchange.has_body:
            self._reader = None  # the old parser expects a body
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

    # ---- responses

    def _send(self, exchange: Exchange, answer: Answer) -> None:
        assert self._transport is not None
        closes = answer.must_close or not exchange.keeps_alive or self._context.connections.draining
        last_line = CLOSE if closes else KEEP_ALIVE if exchange.wants_keep_alive_line else NO_CONNECTION_LINE
        account = self._context.site.account_of(exchange)
        head = b"".join(
            (answer.head, decision_lines(account, exchange, answer), self._clock.date_line, last_line, b"\r\n")
        )
        if exchange.is_head:
            answer = answer.without_body()
        if answer.from_disk:
            self._send_from_disk(exchange, answer, head, closes=closes)
            return
        if exchange.permit is not None and exchange.permit.rate_bps is not None:
            self._send_paced(exchange, exchange.permit, answer, head, closes=closes)
            return
        self._transport.writelines((head, *answer.body))  # type: ignore[arg-type]  # no FileSpan: not from_disk
        self._finish(exchange, answer, answer.length)
        if closes:
            self._linger()  # a body or pipelined requests may still arrive

    def _send_from_disk(self, exchange: Exchange, answer: Answer, head: bytes, *, closes: bool) -> None:
        context = self._context
        assert self._transport is not None
        if not context.open_files.has_room_for(self.client):
            self._send(exchange, _TOO_MANY_FILES if context.open_files.is_full else _TOO_MANY_FILES_TO_CLIENT)
            return
        span = next(part for part in answer.body if isinstance(part, FileSpan))
        try:
            descriptor, identity = context.site.store.root.open(span.name)
        except (NotServed, OSError):
            descriptor, identity = -1, None
        if identity != span.identity:
            if descriptor >= 0:
                os.close(descriptor)
            self._read_again(exchange)
            return
        context.open_files.take(self.client)
        if exchange.permit is not None and exchange.permit.rate_bps is not None:
            self._send_paced(exchange, exchange.permit, answer, head, closes=closes, file=descriptor)
            return
        self._blocked = True
        self._sending = exchange, answer, closes
        self._sender = FileSender(context.loop, self._transport, descriptor, (head, *answer.body), self._on_sent)
        self._mark_at = 0.0
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)  # calls resume_writing once it is empty
        else:
            self._start_sender()

    def _send_paced(
        self, exchange: Exchange, permit: Permit, answer: Answer, head: bytes, *, closes: bool, file: int = -1
    ) -> None:
        assert self._transport is not None
        assert permit.rate_bps is not None
        self._blocked = True
        self._mark_at = 0.0
        self._sending = exchange, answer, closes
        self._sender = PacedSend(
            self._context.pacer,
            self._transport,
            head,
            answer.body,
            self._on_sent,
            rate_bps=permit.rate_bps,
            fixed_bytes=permit.fixed_bytes,
            since=permit.channel_since,
            file=file,
        )
        self._sender.start()

    def _start_sender(self) -> None:
        assert self._transport is not None
        assert self._sender is not None
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)
        self._sender.start()

    def _on_sent(self, complete: bool) -> None:
        assert self._sender is not None
        assert self._sending is not None
        exchange, answer, closes = self._sending
        body_sent = max(0, self._sender.sent - (self._sender.size - answer.length))
        if isinstance(self._sender, PacedSend):
            exchange.channel_until = self._sender.until
        else:
            exchange.was_delayed = self._sender.waited
        self._sender = self._sending = None
        self._mark_at = 0.0
        if answer.from_disk:
            self._context.open_files.give_back(self.client)
        self.active_at = self._clock.read()
        if not complete:
            self._record(exchange, "failed", answer.status, body_sent)
            self.abort()
            return
        self._finish(exchange, answer, body_sent)
        if closes and answer.from_disk:
            self._close()
        elif closes:
            self._linger()
        else:
            self._unblock()

    def _read_again(self, exchange: Exchange) -> None:
        """Restart ``exchange`` at its page: the file on disk is not the version that the response was made for."""
        assert exchange.resource is not None
        self._context.site.store.invalidate(exchange.resource)
        exchange.rereads += 1
        if exchange.rereads > REREADS_MAX:
            self._send(exchange, explain(503, "The file keeps changing. Try again.", _RETRY))
        else:
            restart_at_find_page(exchange)
            self._run(exchange)

    def _finish(self, exchange: Exchange, answer: Answer, size: int) -> None:
        decision = decision_of(exchange, answer)
        if decision == "denied" and not exchange.outcome:
            self._context.site.account_of(exchange).reasons[CLIENT_SHARE] += 1
        self._record(exchange, decision, answer.status, size)
        if answer.status == 200 and exchange.page is not None:
            self._context.recorder.prepare_plain(exchange, exchange.page)

    def _record(self, exchange: Exchange, decision: str, status: int, size: int) -> None:
        permit, exchange.permit = exchange.permit, None
        if permit is not None:
            is_sample = decision == "served" and not exchange.was_delayed
            permit.close(size, channel_until=exchange.channel_until, is_sample=is_sample)
        self._context.recorder.record(exchange, self._context.site.account_of(exchange), decision, status, size)

    def _reject(self, answer: Answer, decision: str, now: float) -> None:
        assert self._transport is not None
        self._context.recorder.record_unread(self.client, decision, answer.status, answer.length, now)
        account = self._context.recorder.accounts.default
        class_line = denied_lines(account, TOO_MANY) if decision == "denied" else account.failed_line
        head = b"".join((answer.head, class_line, self._clock.date_line, CLOSE, b"\r\n"))
        self._transport.writelines((head, *answer.body))  # type: ignore[arg-type]  # no FileSpan
        self._linger()

    # ---- limits

    def _hold(self, data: bytes) -> None:
        """Hold data back while blocked, pass it on as a request body, or discard it while closing."""
        if self._transport is None:
            return
        if self._closing:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES_MAX:
                self.abort()
            return
        if self._request_body is not None and not self._request_body.is_complete:
            data = self._request_body.feed(data, self._clock.read())
        elif self._exchange is not None and self._exchange.waits_for_ignored_body:
            data = self._feed_ignored_body(self._exchange, data)
        self._unread += data
        if len(self._unread) >= UNREAD_MAX:
            self._pause_reading()

    def _feed_ignored_body(self, exchange: Exchange, data: bytes) -> bytes:
        """Returns what follows the body."""
        assert exchange.ignored_body is not None
        rest = exchange.ignored_body.feed(data)
        if exchange.ignored_body.is_over:
            self._reader = None  # its parser expects a body
            self._context.loop.call_soon(self._resume, exchange)  # not now: _consume may be running
        return rest

    def _unblock(self) -> None:
        """Continue with the data that was held back, unless the connection still has to wait."""
        if self._exchange is not None or self._sender is not None or self._write_paused or self._closing:
            return
        if self._relay is not None:
            return
        self._blocked = False
        if self._consuming:
            return
        if self._unread:
            data = bytes(self._unread)
            self._unread.clear()
            self._consume(data, self._clock.read())
        if self._blocked or self._transport is None:
            return
        if self._eof or (self._context.connections.draining and not self._in_head):
            self._close()
        elif self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

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
        elif self._relay is not None:
            late = self._relay.check_time(now, limits.send_timeout_s)
            if late is not None:
                self._relay.cancel()
                self._on_relay_end(late)
        elif self._exchange is not None:
            if self._exchange.waits_for_ignored_body:
                if now - self._exchange.arrived > limits.header_timeout_s:
                    counts.header_timeouts += 1
                    exchange, self._exchange = self._exchange, None
                    self._send(exchange, explain(408, "The request body did not arrive in time.", must_close=True))
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

    # ---- the end

    @property
    def is_idle(self) -> bool:
        return not self._blocked and not self._in_head

    def close_if_idle(self) -> None:
        if self.is_idle:
            self._close()

    def renew_log_part(self) -> None:
        """Renew the log part: its view or policy has changed."""
        if self._log_part:
            self._log_part = self._context.recorder.client_part(self.client)

    def _on_first_request(self) -> None:
        self._context.connections.on_first_request(self)
        self._log_part = self._context.recorder.client_part(self.client)
