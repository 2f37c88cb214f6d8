"""Relay: forwards one request to an upstream server or to another node, and passes its response back.

Request and response are streamed with bounded buffers: the request body is read from the client as fast as the server
takes it, the response from the server as fast as the client, or its channel, takes it. Heads are written anew; field
values pass as bytes. If the response ends too early, the connection to the client is broken off, so that the client
notices. If the client leaves, the connection to the server is closed.

A relay has no task: it reacts to the events of two connections. The connection of the client owns it, enforces time
limits (`check_time`), and cancels it.
Neighbours: ``attempts`` is below, and has the rules for failures; ``upstream_server`` has the connections;
``plain_relay`` is the fast path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.http.hops import outgoing_fields
from qosweb.server.proxy import upstream
from qosweb.server.proxy.attempts import RETRY, RelayAttempts
from qosweb.server.proxy.health import Failure
from qosweb.server.proxy.paced_output import PacedOutput
from qosweb.server.proxy.request_body import CONTINUE, HELD_MAX
from qosweb.server.request.answers import CLOSE, KEEP_ALIVE, NO_CONNECTION_LINE, Answer, explain

if TYPE_CHECKING:
    import asyncio

    from qosweb.http.upstream_heads import UpstreamHead
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.proxy.attempts import ForwardTarget, RelayClient
    from qosweb.server.proxy.request_body import RequestBody
    from qosweb.server.proxy.upstream_connection import UpstreamConnection
    from qosweb.server.proxy.upstream_server import UpstreamServer
    from qosweb.server.request.exchange import Exchange


class Relay(RelayAttempts):
    """Forwards one request. Calls ``client.on_relay_end`` exactly once, unless it is cancelled before.

    ``on_relay_end(answer)``: nothing was sent to the client yet; the connection is to send ``answer``.
    ``on_relay_end(None)``: a response was sent. ``status`` and ``sent`` describe it, ``is_complete`` tells whether it
    is complete, and ``closes`` whether the connection has to close after it.
    """

    __slots__ = (
        "_chunked",
        "_held",
        "_output",
        "_taken_at",
        "closes",
        "is_tunnel",
    )

    def __init__(
        self,
        context: ConnectionContext,
        exchange: Exchange,
        place: ForwardTarget,
        transport: asyncio.Transport,
        client: RelayClient,
    ) -> None:
        super().__init__(context, exchange, place, transport, client)
        self.closes = False
        self.is_tunnel = False  # the server has switched protocols: bytes pass as they come
        self._output: PacedOutput | None = None
        self._taken_at = self._active_at  # when the server last took bytes of the request body
        self._held = b""  # the head of the response, until the first bytes of its body are there
        self._chunked = False

    def start(self) -> None:
        exchange, context = self.exchange, self._context
        head = exchange.head
        outgoing = exchange.outgoing
        if outgoing is None:
            outgoing = outgoing_fields(head, me=context.upstreams.me)
            exchange.outgoing = outgoing
        if outgoing.is_loop:
            self._end(explain(508, f"Forwarding loop: the request has passed {context.name} before."))
            return
        route = self.place.route
        if route is None:
            server: UpstreamServer | None = context.upstreams.peer(self.place.origin)
        else:
            context.upstreams.budget.count_request(self._active_at)
            server = route.granted(exchange.permit, self._active_at, is_repeatable=self._may_repeat())
        assert server is not None
        if exchange.rid is None:
            exchange.rid = context.recorder.next_rid()
        self._rid = str(exchange.rid).encode()
        if exchange.proxy and not exchange.is_from_node and outgoing.request_id:
            self._rid = outgoing.request_id
            exchange.request_id = self._rid.decode()
        body = self.body
        if head.upgrades and (head.value("upgrade") or "").lower() == "websocket" and body is None:
            self.wants_upgrade = True
        if body is not None and not body.is_complete:
            body.start(self._active_at)
            if exchange.expects_continue and not body.is_continued:
                self._transport.write(CONTINUE)
        permit = exchange.permit
        if permit is not None and permit.rate_bps is not None:
            assert context.pacer is not None
            self._output = PacedOutput(context.pacer, self._transport, permit, self._on_drained, self._on_paced_end)
        self._enter(server)

    def take_over_response(self, status: int, sent: int, held: bytes) -> None:
        """Its response has begun: ``sent`` bytes of the body are written; ``held``: the head, if it is not."""
        self.status = status
        self.sent = self.received = sent
        self._held = held
        self._active_at = self._context.services.clock.read()

    # ---- the client

    def feed(self, data: bytes) -> bytes:
        """Add bytes of the request body. Returns the bytes after its end."""
        body = self.body
        if self.is_tunnel and self._upstream is not None and self._upstream.transport is not None:
            self._active_at = self._context.services.clock.read()
            self._upstream.transport.write(data)
            return b""
        if body is None or body.is_complete:
            return data
        now = self._context.services.clock.read()
        rest = body.feed(data, now)
        if body.refusal is not None:
            self._refuse_body(body.refusal)
        elif self._upstream is not None:
            self._send_body(body, now)
        elif body.held > HELD_MAX:
            self._pause_client(body, now)
        return rest

    def client_resumed(self) -> None:
        """The client takes more bytes."""
        if self._output is not None:
            self._output.on_client_reads()
        if self._upstream is not None and (self._output is None or not self._output.is_full):
            self._upstream.resume_reading()

    def client_paused(self) -> None:
        if self._upstream is not None:
            self._upstream.pause_reading()

    def client_ended(self) -> bool:
        """The client has closed its sending side. Returns whether it still gets a response.

        After a complete request it is most often gone, so the relay ends. A client that closed within its body gets an
        error.
        """
        body = self.body
        if body is None or body.is_complete:
            return False
        body.refuse(400, "The body is malformed: it ended too early.")
        assert body.refusal is not None
        self._context.loop.call_soon(self._refuse_body, body.refusal)
        return True

    def check_time(self, now: float) -> None:
        """Enforce the time limits of both sides."""
        body, server, upstream_connection = self.body, self._server, self._upstream
        if server is None or self._over:
            return
        limits = self._context.upstreams.stream_limits
        if self.is_stream:
            if now - self._active_at > limits.idle_s:
                self._fail(None)
            return
        if self.status != 499 and self._output is None and now - self.exchange.started > limits.after_s:
            self._become_stream()
        if body is not None and not body.is_complete:
            body.check_time(now)
            if body.refusal is not None:
                self._refuse_body(body.refusal)
                return
        if upstream_connection is None:
            if now - self._waits_since > upstream.WAIT_S:
                self._end(self._waited_too_long(server))
        elif body is not None and (not body.is_complete or upstream_connection.is_write_paused):
            if upstream_connection.is_write_paused and now - self._taken_at > server.idle_s:
                self._fail(explain(504, "The upstream server did not read the request body in time.", must_close=True))
        elif self.status == 499:
            if now - self._active_at > server.first_byte_s:
                self._on_failure(Failure.TIMEOUT, explain(504, "The upstream server did not respond in time."))
        elif now - self._active_at > server.idle_s and (self._output is None or not self._output.is_full):
            self._fail(None)

    # ---- the request

    def on_connection(self, connection: UpstreamConnection) -> None:
        """``connection`` is for this request: send it."""
        self._upstream = connection
        self._sends += 1
        assert connection.transport is not None
        self._active_at = self._taken_at = now = self._context.services.clock.read()
        body = self.body
        if body is None:
            connection.transport.write(self._request)
            return
        connection.transport.write(b"".join((self._request, *body.take())))
        if not body.is_complete and not connection.is_write_paused:
            self._resume_client(body, now)

    def _send_body(self, body: RequestBody, now: float) -> None:
        assert self._upstream is not None
        assert self._upstream.transport is not None
        parts = body.take()
        if parts:
            self._upstream.transport.write(b"".join(parts))
            if not self._upstream.is_write_paused:
                self._taken_at = now
        self._active_at = now

    def on_server_paused(self) -> None:
        """The server does not take the request body as fast as it comes."""
        if self.is_tunnel:
            self._client.pause_reading()
        elif self.body is not None and not self.body.is_complete:
            self._pause_client(self.body, self._context.services.clock.read())

    def on_server_resumed(self) -> None:
        self._taken_at = self._active_at = now = self._context.services.clock.read()
        if self.is_tunnel:
            self._client.resume_reading()
        elif self.body is not None and not self.body.is_complete:
            self._resume_client(self.body, now)

    def _pause_client(self, body: RequestBody, now: float) -> None:
        body.on_paused(now)
        self._client.pause_reading()

    def _resume_client(self, body: RequestBody, now: float) -> None:
        body.on_resumed(now)
        self._client.resume_reading()

    def _refuse_body(self, answer: Answer) -> None:
        self._fail(answer)

    # ---- the response

    def on_interim(self, head: UpstreamHead) -> None:
        """A response 1xx. 100 Continue is not passed on: this node has answered the expectation."""
        is_http_1_1 = self.exchange.head.is_http_1_1
        if head.status != 100 and is_http_1_1 and self._output is None and not self._client.is_write_paused:
            self._transport.write(head.wire + b"\r\n")

    def on_head(self, head: UpstreamHead, *, has_body: bool) -> None:
        exchange, context = self.exchange, self._context
        asked, body = exchange.head, self.body
        if head.is_event_stream and has_body and self._output is None and not self._become_stream():
            self._fail(explain(503, "The server has too many long streams.", RETRY))
            return
        if head.links and exchange.target is not None:
            context.services.admission.accounts.classifier.note_links(
                exchange.host, exchange.target.path, [*head.links]
            )
        framing = b""
        if has_body and head.length is None:
            if asked.is_http_1_1:
                self._chunked = True
                framing = b"Transfer-Encoding: chunked\r\n"
            else:
                self.closes = True  # the end of the connection marks the end of the body
        self.closes |= asked.must_close or asked.upgrades or context.connections.draining
        self.closes |= body is not None and not body.is_complete
        class_line, wire = b"", head.wire  # a node of the cluster has named the class
        if not self.place.peer:
            account = context.services.account_of(exchange)
            class_line = account.failed_line if head.status >= 500 else account.served_line
            if class_line:
                wire = head.wire_without_qos
        stays = KEEP_ALIVE if exchange.wants_keep_alive_line else NO_CONNECTION_LINE
        self.status = head.status
        exchange.first_byte_at = now = context.services.clock.read()
        exchange.upstream_s = now - self._asked_at
        exchange.note_cost(head)
        if self._server is not None:
            self._server.on_response(self._active_at, head.status)
        self._held = b"".join(
            (
                wire,
                framing,
                class_line,
                b"X-Request-Id: %b\r\n" % self._rid,
                b"" if head.has_date else context.services.clock.date_line,
                CLOSE if self.closes else stays,
                b"\r\n",
            )
        )
        if self._output is not None:
            self._output.is_chunked = self._chunked

    def on_body(self, part: bytes, *, ends: bool) -> None:
        """A part of the response body, after which it ends or not."""
        self._active_at = self._context.services.clock.read()
        self.received += len(part)
        head, self._held = self._held, b""
        if self._output is not None:
            self._output.put(head, part, ends=ends)
            if ends:
                self.exchange.leave_server(self.status, self.received)
                self._release(reusable=True)
            elif self._output.is_full and self._upstream is not None:
                self._upstream.pause_reading()
            return
        self.sent += len(part)
        if not self._chunked:
            self._transport.write(head + part if head else part)
        else:
            size = b"%x\r\n" % len(part) if part else b""
            end = b"\r\n" if part else b""
            last = b"0\r\n\r\n" if ends else b""
            self._transport.write(b"".join((head, size, part, end, last)))
        if ends:
            self._complete()

    # ---- long streams

    def on_upgrade(self, head: UpstreamHead, data: bytes) -> None:
        """The server has switched protocols. ``data`` are its first bytes after that."""
        context, exchange = self._context, self.exchange
        if not self._become_stream():
            self._fail(explain(503, "The server has too many long streams.", RETRY))
            return
        account = context.services.account_of(exchange)
        self.is_tunnel = self.closes = True
        self.status = head.status
        exchange.first_byte_at = self._active_at
        exchange.upstream_s = self._active_at - self._asked_at
        lines = b"X-Request-Id: %b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" % self._rid
        wire = head.wire if self.place.peer else head.wire_without_qos + account.served_line
        self._output = None
        self._transport.write(b"".join((wire, lines, data)))
        self.sent += len(data)
        self._client.resume_reading()

    def on_tunnel_data(self, data: bytes) -> None:
        self._active_at = self._context.services.clock.read()
        self.sent += len(data)
        self._transport.write(data)

    def on_tunnel_end(self) -> None:
        """The server has closed its side."""
        if not self._over:
            self._complete()

    def _become_stream(self) -> bool:
        """Free the places of ordinary requests: the channel and the connection. False: there are too many streams."""
        context, exchange, client = self._context, self.exchange, self.exchange.client
        server, connection = self._server, self._upstream
        if self.is_stream or server is None or connection is None:
            return self.is_stream
        self._active_at = context.services.clock.read()
        if not context.upstreams.streams.has_room_for(client):
            return False
        context.upstreams.streams.take(client)
        self.is_stream = True
        server.detach(self, connection)
        permit, exchange.permit = exchange.permit, None
        if permit is not None:
            permit.close(self.sent, is_sample=False)
        context.services.account_of(exchange).streams += 1
        return True

    def _on_drained(self) -> None:
        """The paced output wants more."""
        self.client_resumed()

    def _on_paced_end(self) -> None:
        assert self._output is not None
        self.sent = self._output.sent
        self._complete()

    def _wait_at(self, server: UpstreamServer, *, fresh: bool) -> None:
        server.enter(self, fresh=fresh)

    def _leave(self, server: UpstreamServer, connection: UpstreamConnection | None, *, reusable: bool) -> None:
        server.leave(self, connection, reusable=reusable)

    def _stop_output(self) -> None:
        if self._output is not None:
            self._output.close()
            self.sent = self._output.sent

    def _complete(self) -> None:
        self.is_complete = True
        self._close(reusable=True)
        self._client.on_relay_end(None)
