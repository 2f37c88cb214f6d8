"""Relay: forwards one request to an upstream server or to another node, and passes its response back.

Request and response are streamed with bounded buffers: the request body is read from the client as fast as the server
takes it, the response from the server as fast as the client, or its channel, takes it. Heads are written anew; field
values pass as bytes. If the response ends too early, the connection to the client is broken off, so that the client
notices. If the client leaves, the connection to the server is closed.

A relay has no task: it reacts to the events of two connections. The connection of the client owns it, enforces time
limits (`check_time`), and cancels it.
Neighbours: ``qosweb.server.proxy.server`` has the connections, ``qosweb.http.hops`` the header fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from qosweb.http.hops import client_lines, outgoing_fields
from qosweb.http.request_heads import CONTENT_LENGTH
from qosweb.server.proxy import upstream
from qosweb.server.proxy.health import Failure
from qosweb.server.proxy.paced_output import PacedOutput
from qosweb.server.proxy.request_body import CONTINUE, HELD_MAX
from qosweb.server.request.answers import CLOSE, KEEP_ALIVE, NO_CONNECTION_LINE, Answer, explain

if TYPE_CHECKING:
    import asyncio

    from qosweb.http.upstream_heads import UpstreamHead
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.proxy.connect_error import ConnectError
    from qosweb.server.proxy.request_body import RequestBody
    from qosweb.server.proxy.routes import Route
    from qosweb.server.proxy.server import UpstreamServer
    from qosweb.server.proxy.upstream_connection import UpstreamConnection
    from qosweb.server.request.exchange import Exchange

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})  # RFC 9110 section 9.2.2
ATTEMPTS_MAX = 3  # servers or connections that are tried
RETRY = [("Retry-After", "1")]


class ForwardTarget(NamedTuple):
    """The server that responds to a request instead of this node."""

    target: str
    route: Route | None = None  # the upstream servers that may respond
    origin: str = ""  # otherwise a node of the cluster: http://host:port
    peer: str = ""  # its name


class RelayClient(Protocol):
    """The connection of the client."""

    @property
    def is_write_paused(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def on_relay_end(self, answer: Answer | None) -> None: ...


class Relay:
    """Forwards one request. Calls ``client.on_relay_end`` exactly once, unless it is cancelled before.

    ``on_relay_end(answer)``: nothing was sent to the client yet; the connection is to send ``answer``.
    ``on_relay_end(None)``: a response was sent. ``status`` and ``sent`` describe it, ``is_complete`` tells whether it
    is complete, and ``closes`` whether the connection has to close after it.
    """

    __slots__ = (
        "_active_at",
        "_asked_at",
        "_attempts",
        "_chunked",
        "_client",
        "_context",
        "_held",
        "_output",
        "_over",
        "_request",
        "_rid",
        "_sends",
        "_server",
        "_taken_at",
        "_transport",
        "_upstream",
        "_waits_since",
        "body",
        "closes",
        "exchange",
        "has_place",
        "is_complete",
        "is_stream",
        "is_tunnel",
        "place",
        "sent",
        "status",
        "wants_upgrade",
    )

    def __init__(
        self,
        context: ConnectionContext,
        exchange: Exchange,
        place: ForwardTarget,
        transport: asyncio.Transport,
        client: RelayClient,
    ) -> None:
        self.place = place
        self.exchange = exchange
        self.body: RequestBody | None = exchange.request_body
        self.status = 499  # no response yet
        self.sent = 0  # bytes of the body
        self.is_complete = False
        self.closes = False
        self.has_place = False  # at the server, see `UpstreamServer`
        self.is_stream = False  # a long stream, in a pool of its own
        self.is_tunnel = False  # the server has switched protocols: bytes pass as they come
        self.wants_upgrade = False
        self._context = context
        self._transport = transport
        self._client = client
        self._server: UpstreamServer | None = None
        self._waits_since = 0.0
        self._upstream: UpstreamConnection | None = None
        self._output: PacedOutput | None = None
        self._active_at = context.site.clock.read()  # when the server last did something
        self._asked_at = self._active_at
        self._taken_at = self._active_at  # when the server last took bytes of the request body
        self._request = b""
        self._rid = b""
        self._held = b""  # the head of the response, until the first bytes of its body are there
        self._chunked = False
        self._attempts = self._sends = 0  # sends: how often it was sent, at least in part
        self._over = False

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

    def take_over(self, server: UpstreamServer, connection: UpstreamConnection, rid: bytes, sent_at: float) -> None:
        """Continue a request that was sent on ``connection``."""
        self._server, self._upstream = server, connection
        self._rid = rid
        self._asked_at = self._active_at = self._taken_at = sent_at
        self._attempts = self._sends = 1
        self.has_place = True

    def take_over_response(self, status: int, sent: int, held: bytes) -> None:
        """Its response has begun: ``sent`` bytes of the body are written; ``held``: the head, if it is not."""
        self.status = status
        self.sent = sent
        self._held = held
        self._active_at = self._context.site.clock.read()

    def _head_for(self, server: UpstreamServer) -> bytes:
        """The head of the request for ``server``."""
        exchange, settings, body = self.exchange, server.settings, self.body
        outgoing = exchange.outgoing
        assert outgoing is not None
        host = settings.host or exchange.host or settings.authority
        proto = "https" if self._context.site.is_secure else "http"
        framing = b""
        if body is not None:
            length = body.length
            framing = b"Transfer-Encoding: chunked\r\n" if length is None else b"Content-Length: %d\r\n" % length
        elif exchange.head.bits & CONTENT_LENGTH:
            framing = b"Content-Length: 0\r\n"
        elif self.wants_upgrade:
            framing = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b%bX-Request-Id: %b\r\n%b\r\n" % (
            exchange.head.method.encode(),
            self.place.target.encode(),
            host.encode(),
            client_lines(
                outgoing.claims if exchange.proxy else (),
                exchange.proxy or exchange.client,
                host,
                proto,
                is_trusted=bool(exchange.proxy),
            ),
            outgoing.lines,
            self._rid,
            framing,
        )

    def _enter(self, server: UpstreamServer, *, fresh: bool = False) -> None:
        self._server = server
        self._request = self._head_for(server)
        self._attempts += 1
        self._waits_since = self._active_at
        server.enter(self, fresh=fresh)

    def cancel(self) -> None:
        """The client is gone."""
        self._close(reusable=False)

    # ---- the client

    def feed(self, data: bytes) -> bytes:
        """Add bytes of the request body. Returns the bytes after its end."""
        body = self.body
        if self.is_tunnel and self._upstream is not None and self._upstream.transport is not None:
            self._active_at = self._context.site.clock.read()
            self._upstream.transport.write(data)
            return b""
        if body is None or body.is_complete:
            return data
        now = self._context.site.clock.read()
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

    def _waited_too_long(self, server: UpstreamServer) -> Answer:
        if server.is_short_of(self):
            return explain(429, "Too many requests from your address wait for the upstream server.", RETRY)
        return explain(503, "No connection to the upstream server in time.", RETRY)

    # ---- the request

    def on_connection(self, connection: UpstreamConnection) -> None:
        """``connection`` is for this request: send it."""
        self._upstream = connection
        self._sends += 1
        assert connection.transport is not None
        self._active_at = self._taken_at = now = self._context.site.clock.read()
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
            self._pause_client(self.body, self._context.site.clock.read())

    def on_server_resumed(self) -> None:
        self._taken_at = self._active_at = now = self._context.site.clock.read()
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
            context.site.admission.accounts.classifier.note_links(exchange.host, exchange.target.path, [*head.links])
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
            account = context.site.account_of(exchange)
            class_line = account.failed_line if head.status >= 500 else account.served_line
            if class_line:
                wire = head.wire_without_qos
        stays = KEEP_ALIVE if exchange.wants_keep_alive_line else NO_CONNECTION_LINE
        self.status = head.status
        exchange.first_byte_at = now = context.site.clock.read()
        exchange.upstream_s = now - self._asked_at
        if self._server is not None:
            self._server.on_response(self._active_at, head.status)
        self._held = b"".join(
            (
                wire,
                framing,
                class_line,
                b"X-Request-Id: %b\r\n" % self._rid,
                b"" if head.has_date else context.site.clock.date_line,
                CLOSE if self.closes else stays,
                b"\r\n",
            )
        )
        if self._output is not None:
            self._output.is_chunked = self._chunked

    def on_body(self, part: bytes, *, ends: bool) -> None:
        """A part of the response body, after which it ends or not."""
        self._active_at = self._context.site.clock.read()
        head, self._held = self._held, b""
        if self._output is not None:
            self._output.put(head, part, ends=ends)
            if ends:
                self.exchange.leave_server(self.status)
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
        account = context.site.account_of(exchange)
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
        self._active_at = self._context.site.clock.read()
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
        self._active_at = context.site.clock.read()
        if not context.upstreams.streams.has_room_for(client):
            return False
        context.upstreams.streams.take(client)
        self.is_stream = True
        server.detach(self, connection)
        permit, exchange.permit = exchange.permit, None
        if permit is not None:
            permit.close(self.sent, is_sample=False)
        context.site.account_of(exchange).streams += 1
        return True

    def _on_drained(self) -> None:
        """The paced output wants more."""
        self.client_resumed()

    def _on_paced_end(self) -> None:
        assert self._output is not None
        self.sent = self._output.sent
        self._complete()

    def _complete(self) -> None:
        self.is_complete = True
        self._close(reusable=True)
        self._client.on_relay_end(None)

    # ---- failures

    def on_unreachable(self, error: ConnectError) -> None:
        self._on_failure(Failure.UNREACHABLE, explain(502, error.text), was_sent=False, detail=error.detail)

    def on_server_out(self) -> None:
        """The server for which this request waits is out."""
        if self._upstream is None and not self._over:
            self._try_another(was_sent=False)

    def on_lost(self, connection: UpstreamConnection) -> None:
        """The connection to the server was closed within the response, or before it."""
        if connection.is_reused and not connection.has_answered and self._may_repeat():  # closed while it was idle
            server, route = self._server, self.place.route
            assert server is not None
            another = None if route is None else route.pick(self._context.site.clock.read(), server)
            self._release(reusable=False)
            self._enter(another or server, fresh=True)
        elif connection.has_answered:
            self._on_failure(Failure.UNREACHABLE, explain(502, "The upstream server broke the connection off."))
        else:
            why = "The upstream server closed the connection without a response."
            self._on_failure(Failure.UNREACHABLE, explain(502, why))

    def on_bad_response(self, why: str) -> None:
        self._fail(explain(502, f"The response of the upstream server cannot be forwarded: {why}."))

    def on_fault(self, error: Exception) -> None:
        self._context.report_fault(error)
        self._close(reusable=False)
        self._transport.abort()

    def _on_failure(self, failure: Failure, answer: Answer, *, was_sent: bool = True, detail: str = "") -> None:
        """The server did not respond: ask another one if that is allowed, else send ``answer``."""
        server = self._server
        if server is None or self._over:
            return
        now = self._context.site.clock.read()
        server.on_failure(failure, self._active_at, now, detail)
        if self.place.peer:
            lost = f"The node {self.place.peer}, which was to serve this request, cannot be reached."
            self._fail(explain(503, lost, RETRY))
        elif not self._try_another(was_sent=was_sent):
            self._fail(answer)

    def _try_another(self, *, was_sent: bool) -> bool:
        """Send the request to another server, within its lifetime and the retry budget. It is sent at most twice."""
        context, route, server = self._context, self.place.route, self._server
        now = context.site.clock.read()
        if route is None or self.status != 499 or self._attempts >= ATTEMPTS_MAX:
            return False
        if was_sent and not self._may_repeat():
            return False
        account = context.site.account_of(self.exchange)
        lifetime_s = context.site.admission.lifetime_s(account)
        if lifetime_s is not None and now - self.exchange.arrived > lifetime_s:
            return False
        another = route.pick(now, server)
        if another is None or not context.upstreams.budget.try_retry(now):
            return False
        self._release(reusable=False)
        self._active_at = now
        self._enter(another)
        return True

    def _may_repeat(self) -> bool:
        """Whether the request may be sent a second time."""
        if self._sends >= 2 or self._over or self.exchange.method not in IDEMPOTENT:
            return False
        return self.body is None or self.body.is_small

    def _fail(self, answer: Answer | None) -> None:
        """End without a complete response. ``answer`` is for a client that has got nothing yet."""
        self._end(answer if self.status == 499 else None)

    def _end(self, answer: Answer | None) -> None:
        if self._over:
            return
        if self.exchange.upstream_s is None:
            self.exchange.upstream_s = self._context.site.clock.read() - self._asked_at
        self._close(reusable=False)
        if self._output is not None:
            self.sent = self._output.sent
        self._client.on_relay_end(answer)

    def _close(self, *, reusable: bool) -> None:
        self._over = True
        self.exchange.leave_server(self.status if self.is_complete else 0)
        if self._output is not None:
            self._output.close()
        self._release(reusable=reusable)

    def _release(self, *, reusable: bool) -> None:
        """Leave the server. Its connection may serve others if the request was sent completely."""
        server, connection = self._server, self._upstream
        self._server = self._upstream = None
        if self.is_stream and server is not None:
            self._context.upstreams.streams.give_back(self.exchange.client)
            self._context.site.account_of(self.exchange).streams -= 1
            if connection is not None:
                connection.abort()
        elif server is not None:
            if self.body is not None and not self.body.is_complete:
                reusable = False
            server.leave(self, connection, reusable=reusable)
