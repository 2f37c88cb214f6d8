"""HTTP/1.1 connection: an asyncio protocol that reads requests and writes responses in request order.

Heads come one at a time from ``qosweb.server.connection.head_parser``. A plain GET of a page in memory takes the fast
path: its response is written within ``data_received``, without task or future. A plain request for an upstream server
is forwarded at once (``forwarding``). Every other request becomes an Exchange and passes the stages of
``qosweb.server.pipeline``. While a request has to wait, the connection is *blocked*: bytes that arrive are held back up
to a limit, and beyond it reading is paused. So responses keep the order of requests, and a client that sends faster
than it reads only fills its own buffers.

One class per concern, each derived from the one before it: ``closing``, ``sending``, ``forwarding``, ``timeouts``,
``turns``, and reading here.

The state of a connection follows from its attributes. The first that is set counts:

    _lingering                 all responses are sent; incoming bytes are read and discarded
    _closing                   the connection closes when all written bytes are sent
    _sender                    a response is sent from disk, or by the pacer
    _write_paused              the client reads its responses too slowly
    _relay                     another server responds
    _exchange                  a request waits for its body, for the disk or for admission
    _queued_plain              a plain request waits for its turn, as the processor is full
    _in_head                   a head has arrived in part
    none of them               idle; ``_blocked`` is true in all states but the last two
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, cast

from qosweb.admission.processor_queue import TURN_COST
from qosweb.http.forwarded import peer_address
from qosweb.http.known_heads import HEAD_LEN_MAX
from qosweb.http.request_heads import BadRequestHead
from qosweb.server.connection.closing import LINGER_BYTES_MAX
from qosweb.server.connection.connections import ConnectionDecision
from qosweb.server.connection.fast_path import PlainHead, read_plain
from qosweb.server.connection.head_parser import END_OF_HEAD, HeadParser, RejectedHead
from qosweb.server.connection.sending import RETRY, WRITE_BUFFER_HIGH, WRITE_BUFFER_LOW
from qosweb.server.connection.turns import Turns
from qosweb.server.pipeline import proceed
from qosweb.server.proxy.attempts import ForwardTarget
from qosweb.server.proxy.request_body import CONTINUE
from qosweb.server.request.answers import explain
from qosweb.server.request.exchange import Exchange, Waiting

if TYPE_CHECKING:
    import asyncio

    from qosweb.http.request_heads import RequestHead
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.connection.listener import Opening
    from qosweb.server.proxy.forward_head import ForwardHead

UNREAD_MAX = 64 << 10  # bytes held back while blocked; above it reading is paused

_NO_HEADS: dict[bytes, PlainHead] = {}  # of clients that are perhaps blocked: the pipeline decides
_NO_FORWARD_HEADS: dict[bytes, ForwardHead] = {}
_REFUSALS = {
    ConnectionDecision.TOO_MANY_FROM_CLIENT: explain(429, "Too many connections from your address.", RETRY),
    ConnectionDecision.FULL: explain(503, "The server has too many connections.", RETRY),
}


class HttpConnection(Turns):
    """Reads requests; `Turns`, `Timeouts`, `Forwarding`, `Sending` and `Closing` are its other parts."""

    __slots__ = (
        "_consuming", "_forward_heads", "_has_only_files", "_has_only_servers", "_known_heads", "_opening", "_resources"
    )  # fmt: skip

    def __init__(self, context: ConnectionContext, opening: Opening | None = None) -> None:
        """``opening``: the connection until now, if the node's `Listener` has accepted it."""
        super().__init__(context)
        self._opening = opening
        self._known_heads = context.plain_heads.known
        self._forward_heads = context.forward_heads.known
        self._resources = context.services.store.resources
        self._has_only_files = False  # no request of this client is for an upstream server
        self._has_only_servers = False  # every request of this client is for an upstream server
        self._consuming = False

    # ---- callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's transports do not derive from it
        self._transport = transport
        connections, opening = self._context.connections, self._opening
        if opening is None:
            peer = transport.get_extra_info("peername")
            self.client = peer_address(peer[0]) if isinstance(peer, tuple) else "unix"
        else:
            self.client = opening.client
        if is_proxy := self.client in self._context.trusted:
            self.proxy = self.client
        self.active_at = self._clock.read()
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)
        self.block_list_changed()
        if opening is None:
            decision = connections.enter(self, is_exempt=is_proxy)
        else:
            decision = connections.replace(opening, self, is_exempt=is_proxy)
            self._opening = None
        refusal = _REFUSALS.get(decision)
        if refusal is not None:
            self._reject(refusal, "denied", self.active_at)

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002
        self._context.connections.leave(self)
        self._blocked = self._closing = True
        self._transport = None
        self._reader = None
        self._unread.clear()
        self._leave_turns()
        if self._lingering is not None:
            self._lingering.cancel()
            self._context.connections.lingering.give_back(self.client)
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            if exchange.forget is not None:
                exchange.started = self._clock.read()  # it waited until now
                exchange.forget()
            self._record(exchange, "failed", 499, 0)
        self._cancel_relay()
        if self._sender is not None:
            self._sender.close()
            self._on_sent(complete=False)

    def eof_received(self) -> bool | None:
        self._eof = True
        exchange = self._exchange
        if exchange is not None and exchange.waits_for_body and exchange.request_body is not None:
            exchange.request_body.refuse(400, "The body is malformed: it ended too early.")
            self._context.loop.call_soon(self.resume_exchange, exchange)
        elif exchange is not None and (exchange.wait is not None or exchange.waits_for_body):
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
        if self._relay is not None:
            self._relay.client_paused()
        if self._sender is None:
            self._mark_at = 0.0

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._relay is not None:
            self._relay.client_resumed()
        elif self._sender is None:
            self._unblock()
        elif self._sender.has_started:
            self._sender.pump_buffered()
        else:
            self._start_sender()

    def data_received(self, data: bytes) -> None:
        if self._blocked:
            self._hold_back(data)
            return
        now = perf_counter()
        if now >= self._clock.due_at:
            self._clock.do_due(now)
        if self._log_part and not self._in_head:
            if self._has_only_servers:
                known = self._forward_heads.get(data) if len(data) <= HEAD_LEN_MAX else None
                if self._forward_new(data, now) if known is None else self._forward_plain(known, data, len(data), now):
                    return
            elif (plain := self._known_heads.get(data)) is not None:
                processor = self._processor
                if processor is not None and processor.queues_all and self._wait_for_turn(plain, now):
                    return
                if self._answer_plain(plain, now):
                    return
            elif self._has_only_files:
                if self._answer_new(data, now):
                    return
            elif (known := self._forward_heads.get(data)) is not None and self._forward_plain(
                known, data, len(data), now
            ):
                return
        self._consume(data, now)

    # ---- requests

    def _consume(self, data: bytes, now: float) -> None:
        """Handle the requests in ``data`` one by one, until the data ends or a request has to wait."""
        if (reader := self._reader) is None:
            context = self._context
            self._reader = reader = HeadParser(context.limits.head, context.request_heads)
        self.active_at = now
        self._consuming = True
        start, size = 0, len(data)
        try:
            while start < size:
                end = reader.end_of_head(data, start)
                start = self._consume_head(reader, data, start, end, now)
                if self._blocked:
                    if start < size:
                        self._hold_back(data[start:])
                    break
        except RejectedHead as refused:
            self._context.connections.counts.malformed += 1
            self._reject(refused.answer, "failed", now)
        except Exception as error:  # a bug here must cost no more than this connection
            self._context.report_fault(error)
            self.abort()
        finally:
            self._consuming = False

    def _consume_head(self, reader: HeadParser, data: bytes, start: int, end: int, now: float) -> int:
        """Handle a request head, or a part of one. Returns where the next one begins, or the body of this one."""
        piece = data[start:end]
        context = self._context
        if self._log_part and not self._in_head:
            known = self._known_heads.get(piece)  # for pipelined heads; data_received has looked up single ones
            if known is not None and (self._wait_for_turn(known, now) or self._answer_plain(known, now)):
                return end
            forward = self._forward_heads.get(piece)
            if forward is not None and (after := self._forward_plain(forward, data, end, now, may_wait=True)):
                return after
        is_single_piece = not self._in_head
        head = reader.read(piece, now)
        self._in_head = head is None
        if head is None:
            return end
        if not self._log_part:
            self._on_new_client(head, piece if is_single_piece else b"")
        if self._known_heads is not _NO_HEADS:
            has_files = context.services.store.root is not None
            if has_files and (plain := self._read_plain(head, piece)) is not None:
                if is_single_piece:
                    context.plain_heads.remember(piece, plain)
                if (is_single_piece and self._wait_for_turn(plain, now)) or self._answer_plain(plain, now):
                    return end
            if context.services.routes is not None and (forward := context.forward_heads.read(head)) is not None:
                if is_single_piece:
                    context.forward_heads.remember(piece, forward)
                if after := self._forward_plain(forward, data, end, now, may_wait=True):
                    return after
        self._run(Exchange(head, head.has_body, self.client, now, now, self.resume_exchange, self.proxy))
        return end

    def _forward_new(self, data: bytes, now: float) -> bool:
        """Forward a plain request that begins ``data``, as `_consume` would. False, without effect: it has to.

        ``data`` is no known head, but may be one with a body.
        """
        context = self._context
        end = data.find(END_OF_HEAD) + len(END_OF_HEAD)
        if not len(END_OF_HEAD) < end <= context.limits.head.request_line:
            return False
        piece = data[:end]
        try:
            forward = self._forward_heads.get(piece) if end < len(data) else None
            if forward is None:
                forward = context.forward_heads.read(context.request_heads.read(piece))
                if forward is None:
                    return False
                context.forward_heads.remember(piece, forward)
            after = self._forward_plain(forward, data, end, now)
        except BadRequestHead:
            return False
        except Exception as error:  # a bug here must cost no more than this connection
            context.report_fault(error)
            self.abort()
            return True
        if not after:
            return False
        self.active_at = now
        if after < len(data):
            self._hold_back(data[after:])
        return True

    def _answer_new(self, data: bytes, now: float) -> bool:
        """Answer a plain request that is all of ``data``, as `_consume` would. False, without effect: it has to.

        ``data`` is no known head.
        """
        context, processor = self._context, self._processor
        size = len(data)
        if data.find(END_OF_HEAD) + len(END_OF_HEAD) != size or size > context.limits.head.request_line:
            return False
        if processor is not None and processor.queues_all:
            return False
        try:
            plain = self._read_plain(context.request_heads.read(data), data)
            if plain is None or not self._answer_plain(plain, now):
                return False
            context.plain_heads.remember(data, plain)
        except BadRequestHead:
            return False
        except Exception as error:  # a bug here must cost no more than this connection
            context.report_fault(error)
            self.abort()
        return True

    def _read_plain(self, head: RequestHead, data: bytes) -> PlainHead | None:
        context = self._context
        return read_plain(head, data, context.recorder, context.services.admission, context.services.releases)

    def _answer_plain(self, plain: PlainHead, now: float, arrived: float | None = None) -> int:
        key, host_part, accept_encoding, account, _ = plain
        resource = self._resources.get(key)
        context = self._context
        if resource is None or now >= resource.fresh_until or context.connections.draining:
            return 0
        page = resource.page_for(accept_encoding) if resource.encoded else resource.plain
        admission = context.services.admission
        if not page.log_part or not (admission.start if arrived is None else admission.start_in_turn)(
            account, page.size
        ):
            return 0
        if page.wire_second != self._clock.second or page.wire_line is not account.served_line:
            page.set_wire(self._clock.second, self._clock.date_line, account.served_line, account.quoted)
        assert self._transport is not None
        if page.wire_has_body:
            self._transport.write(page.wire)
        else:
            self._transport.writelines((page.wire, page.body))  # type: ignore[arg-type]  # has a body: see prepare_plain
        self.active_at = now
        resource.recently_used = True
        if arrived is None:
            context.recorder.served_plain(self._log_part, page, host_part, account, now)
        else:
            context.recorder.in_turn.append((self._log_part, page, host_part, account, arrived))
        return TURN_COST + page.size

    def _run(self, exchange: Exchange) -> None:
        step = proceed(exchange, self._context.services)
        if exchange.is_from_node:
            self._context.connections.exempt(self)
        if isinstance(step, Waiting):
            self._exchange = exchange
            self._blocked = True
            if exchange.waits_for_body and exchange.expects_continue and self._transport is not None:
                self._transport.write(CONTINUE)
                if exchange.request_body is not None:
                    exchange.request_body.is_continued = True
        elif isinstance(step, ForwardTarget):
            self._forward(exchange, step)
        else:
            self._send(exchange, step)

    def resume_exchange(self, exchange: Exchange) -> None:
        """Continue ``exchange``: its wait is over."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        self._run(exchange)
        self._unblock()

    # ---- bytes that arrive while blocked

    def _hold_back(self, data: bytes) -> None:
        """Hold data back while blocked, pass it on as a request body, or discard it while closing."""
        if self._transport is None:
            return
        if self._closing:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES_MAX:
                self.abort()
            return
        if self._relay is not None:
            data = self._relay.feed(data)
        elif self._exchange is not None and self._exchange.waits_for_body:
            data = self._feed_body(self._exchange, data)
        self._unread += data
        if len(self._unread) >= UNREAD_MAX:
            self.pause_reading()

    def _feed_body(self, exchange: Exchange, data: bytes) -> bytes:
        """Returns the bytes after the body."""
        if exchange.request_body is not None:
            rest = exchange.request_body.feed(data, self._clock.read())
        else:
            assert exchange.ignored_body is not None
            rest = exchange.ignored_body.feed(data)
        if not exchange.waits_for_body:
            self._context.loop.call_soon(self.resume_exchange, exchange)  # not now: _consume may be running
        return rest

    def _end_plain(self) -> None:
        is_waiting = self._unread or self._eof or self._reading_paused or self._write_paused or self._consuming
        if is_waiting or self._context.connections.draining:
            self._unblock()
        else:  # nothing else can block: it would have made a full relay of this one
            self._blocked = self._closing

    def _unblock(self) -> None:
        """Continue with the data that was held back, unless the connection still has to wait."""
        if self._exchange is not None or self._sender is not None or self._write_paused or self._closing:
            return
        if self._relay is not None or self._queued_plain is not None:
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

    def block_list_changed(self) -> None:
        """The block list has changed: a client on it does not get the fast path, which does not look at the list."""
        context = self._context
        is_affected = bool(context.services.blocks) and context.services.blocks.affects(self.client)
        self._known_heads = _NO_HEADS if is_affected else context.plain_heads.known
        self._forward_heads = _NO_FORWARD_HEADS if is_affected else context.forward_heads.known
        services = context.services
        has_files, has_servers = services.store.root is not None, services.routes is not None
        self._has_only_files = has_files and not has_servers and not is_affected
        self._has_only_servers = has_servers and not has_files and not is_affected

    def _on_new_client(self, head: RequestHead, piece: bytes) -> None:  # noqa: ARG002
        """The client is known: of the first request, or of the next one from a proxy. ``piece``: its complete head."""
        self._context.connections.on_first_request(self)
        self._log_part = self._context.recorder.client_part(self.client)
