"""Attempts of a relay: which server gets the request, and what happens if that server fails.

A request is sent at most twice, and to at most ATTEMPTS_MAX servers or connections in all. It is sent again only while
no byte of a response has come, within its lifetime and the retry budget, and if it was never sent or is idempotent with
a body that is still in memory. A connection that was used before and is lost may have been closed while it was idle:
then the request is sent to the same server on a new one, which the budget does not count. Otherwise the client gets an
error, or, within a response, a broken connection.
Neighbours: ``relay`` derives from it and moves the bytes; ``upstream_server`` has the connections; ``routes`` chooses
the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from qosweb.http.hops import client_lines
from qosweb.http.request_heads import CONTENT_LENGTH
from qosweb.server.proxy.health import Failure
from qosweb.server.request.answers import Answer, explain

if TYPE_CHECKING:
    import asyncio

    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.proxy.connect_error import ConnectError
    from qosweb.server.proxy.request_body import RequestBody
    from qosweb.server.proxy.routes import Route
    from qosweb.server.proxy.upstream_connection import UpstreamConnection
    from qosweb.server.proxy.upstream_server import UpstreamServer
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


class RelayAttempts:
    """The part of `Relay` that finds a server and handles failures."""

    __slots__ = (
        "_active_at",
        "_asked_at",
        "_attempts",
        "_client",
        "_context",
        "_over",
        "_request",
        "_rid",
        "_sends",
        "_server",
        "_transport",
        "_upstream",
        "_waits_since",
        "body",
        "exchange",
        "has_place",
        "is_complete",
        "is_stream",
        "place",
        "received",
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
        self.received = 0  # the same from the server
        self.is_complete = False
        self.has_place = False  # at the server, see `UpstreamServer`
        self.is_stream = False  # a long stream, in a pool of its own
        self.wants_upgrade = False
        self._context = context
        self._transport = transport
        self._client = client
        self._server: UpstreamServer | None = None
        self._waits_since = 0.0
        self._upstream: UpstreamConnection | None = None
        self._active_at = context.services.clock.read()  # when the server last did something
        self._asked_at = self._active_at
        self._request = b""
        self._rid = b""
        self._attempts = self._sends = 0  # sends: how often it was sent, at least in part
        self._over = False

    def on_connection(self, connection: UpstreamConnection) -> None:
        """``connection`` is for this request: send it."""
        raise NotImplementedError

    def _wait_at(self, server: UpstreamServer, *, fresh: bool) -> None:
        """Wait for a connection to ``server``."""
        raise NotImplementedError

    def _leave(self, server: UpstreamServer, connection: UpstreamConnection | None, *, reusable: bool) -> None:
        """Wait at ``server`` no longer, or give its connection back."""
        raise NotImplementedError

    def _stop_output(self) -> None:
        """Write nothing more to the client."""
        raise NotImplementedError

    # ---- a server

    def _enter(self, server: UpstreamServer, *, fresh: bool = False) -> None:
        self._server = server
        self._request = self._head_for(server)
        self._attempts += 1
        self._waits_since = self._active_at
        self._wait_at(server, fresh=fresh)

    def take_over(self, server: UpstreamServer, connection: UpstreamConnection, rid: bytes, sent_at: float) -> None:
        """Continue a request that was sent on ``connection``."""
        self._server, self._upstream = server, connection
        self._rid = rid
        self._asked_at = self._active_at = sent_at
        self._attempts = self._sends = 1
        self.has_place = True

    def _head_for(self, server: UpstreamServer) -> bytes:
        """The head of the request for ``server``."""
        exchange, settings, body = self.exchange, server.settings, self.body
        outgoing = exchange.outgoing
        assert outgoing is not None
        host = settings.host or exchange.host or settings.authority
        proto = "https" if self._context.services.is_secure else "http"
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

    def cancel(self) -> None:
        """The client has closed its connection."""
        self.exchange.withdraw()
        self._close(reusable=False)

    def _waited_too_long(self, server: UpstreamServer) -> Answer:
        if server.is_short_of(has_place=self.has_place):
            return explain(429, "Too many requests from your address wait for the upstream server.", RETRY)
        return explain(503, "No connection to the upstream server in time.", RETRY)

    # ---- failures

    def on_unreachable(self, error: ConnectError) -> None:
        self._on_failure(Failure.UNREACHABLE, explain(502, error.text), was_sent=False, detail=error.detail)

    def on_server_out(self) -> None:
        """The server for which this request waits is out."""
        if self._upstream is None and not self._over:
            self._try_another(was_sent=False)

    def on_lost(self, connection: UpstreamConnection) -> None:
        """The connection to the server was closed within the response, or before it."""
        is_stale = connection.is_reused and not connection.has_answered  # it was perhaps closed while it was idle
        if is_stale and self._may_repeat() and self._may_try(self._context.services.clock.read()):
            server = self._server
            assert server is not None
            self._release(reusable=False)
            self._enter(server, fresh=True)
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
        now = self._context.services.clock.read()
        server.on_failure(failure, self._active_at, now, detail)
        if self.place.peer:
            lost = f"The node {self.place.peer}, which was to serve this request, cannot be reached."
            self._fail(explain(503, lost, RETRY))
        elif not self._try_another(was_sent=was_sent):
            self._fail(answer)

    def _try_another(self, *, was_sent: bool) -> bool:
        """Send the request to another server, within its lifetime and the retry budget. It is sent at most twice."""
        context, route, server = self._context, self.place.route, self._server
        now = context.services.clock.read()
        if route is None or self.status != 499 or not self._may_try(now):
            return False
        if was_sent and not self._may_repeat():
            return False
        another = route.pick(now, server)
        if another is None or not context.upstreams.budget.try_retry(now):
            return False
        self._release(reusable=False)
        self._active_at = now
        self._enter(another)
        return True

    def _may_try(self, now: float) -> bool:
        """Whether attempts are left, and time of the lifetime."""
        services = self._context.services
        lifetime_s = services.admission.lifetime_s(services.account_of(self.exchange))
        return self._attempts < ATTEMPTS_MAX and (lifetime_s is None or now - self.exchange.arrived <= lifetime_s)

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
            self.exchange.upstream_s = self._context.services.clock.read() - self._asked_at
        self._close(reusable=False)
        self._client.on_relay_end(answer)

    def _close(self, *, reusable: bool) -> None:
        self._over = True
        self.exchange.leave_server(self.status if self.is_complete else 0, self.received)
        self._stop_output()
        self._release(reusable=reusable)

    def _release(self, *, reusable: bool) -> None:
        """Leave the server. Its connection may serve others if the request was sent completely."""
        server, connection = self._server, self._upstream
        self._server = self._upstream = None
        if self.is_stream and server is not None:
            self._context.upstreams.streams.give_back(self.exchange.client)
            self._context.services.account_of(self.exchange).streams -= 1
            if connection is not None:
                connection.abort()
        elif server is not None:
            if self.body is not None and not self.body.is_complete:
                reusable = False
            self._leave(server, connection, reusable=reusable)
