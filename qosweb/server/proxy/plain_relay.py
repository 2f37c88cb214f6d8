"""Fast path of a forwarded request: bytes in, bytes out, one write in each direction.

It takes requests that need no stage (`forward_head`) while an upstream server has an idle connection, the client has
not used up its share of them, and admission control lets the request in. It passes on responses with a known length.
Everything else makes a full `Relay` of it, at any moment, with `promote`: an unusual response, a failure, a client
that leaves, a request that takes long. So there is one implementation of those cases.
Neighbours: ``relay`` is the full relay; ``qosweb.server.connection.forwarding`` owns both kinds.
"""

from __future__ import annotations

import functools
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from qosweb.http.hops import client_lines
from qosweb.server.proxy.attempts import ForwardTarget, RelayClient
from qosweb.server.proxy.health import IN
from qosweb.server.proxy.relay import Relay
from qosweb.server.proxy.request_body import RequestBody
from qosweb.server.request.exchange import Exchange

if TYPE_CHECKING:
    import asyncio

    from qosweb.admission.outcomes import Hold
    from qosweb.http.upstream_heads import UpstreamHead
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.proxy.forward_head import ForwardHead
    from qosweb.server.proxy.upstream_connection import UpstreamConnection
    from qosweb.server.proxy.upstream_server import UpstreamServer

END_OF_HEAD = b"\r\n\r\n"
COPIED_MAX = 4 << 10  # shorter bodies are copied twice: that takes less time than a view of the bytes
LASTS_S = 1.0  # then a full relay enforces the time limits


@functools.lru_cache(maxsize=4096)
def _address_lines(client: str, host: str, proto: str) -> bytes:
    """Host, and the fields about a client that is no trusted proxy."""
    return b"Host: %b\r\n%b" % (host.encode(), client_lines((), client, host, proto, is_trusted=False))


class PlainClient(RelayClient, Protocol):
    """The connection of the client."""

    client: str
    proxy: str

    def on_plain_end(self, relay: PlainRelay, now: float) -> None: ...
    def on_promoted(self, relay: Relay, exchange: Exchange) -> None: ...
    def resume_exchange(self, exchange: Exchange) -> None: ...


def begin(
    context: ConnectionContext,
    known: ForwardHead,
    body: bytes,
    transport: asyncio.Transport,
    client: PlainClient,
    now: float,
) -> PlainRelay | None:
    """Send a plain request to a server. None, without effect, if it has to pass the stages.

    This is the one place where a request of this path asks for admission: to its class, and to the server.
    """
    route = known.page.route
    if context.connections.draining:
        return None
    if context.services.store.root is not None and not _is_for_server(context, known, body, now):
        return None
    server = route.only or route.pick(now)
    if server is None:
        return None
    connection = server.take_idle(client.client)
    if connection is None:
        route.undo_pick()
        return None
    hold = context.services.admission.hold(known.account, route.pool, server.name, now)
    if hold is None:
        server.give_back(connection, client.client)
        route.undo_pick()
        return None
    context.upstreams.budget.count_request(now)
    relay = PlainRelay(context, known, body, transport, client, server, connection, hold, now)
    relay.send()
    return relay


def _is_for_server(context: ConnectionContext, known: ForwardHead, body: bytes, now: float) -> bool:
    """Whether no file here takes precedence, as far as is known, and the node takes new requests."""
    if context.connections.draining:
        return False
    store = context.services.store
    return store.root is None or not known.page.may_be_file or bool(body) or store.is_absent(known.store_key, now)


def waiting_exchange(
    context: ConnectionContext, known: ForwardHead, body: bytes, client: PlainClient, now: float
) -> Exchange | None:
    """The exchange of a plain request that has to wait for a server. None if it has to pass all stages.

    It is as the stages before the look-up of a file would leave it.
    """
    if context.services.releases is not None or not _is_for_server(context, known, body, now):
        return None
    return _exchange(context, known, body, client, now)


def _exchange(
    context: ConnectionContext, known: ForwardHead, body: bytes, client: PlainClient, arrived: float
) -> Exchange:
    page, head, services = known.page, known.head, context.services
    exchange = Exchange(head, bool(body), client.client, arrived, arrived, client.resume_exchange, client.proxy)
    exchange.host, exchange.target, exchange.key = page.host, page.target, page.key
    exchange.account, exchange.outgoing = known.account, known.outgoing
    exchange.is_recorded = True  # requests with such a head are never recorded: see `Classifier.class_of_head`
    if body:
        now = services.clock.read()
        request_body = RequestBody(head, client.client, now, services.body_limits, services.small_bodies)
        request_body.feed(body, now)
        exchange.request_body = request_body
    return exchange


class PlainRelay:
    """Forwards one plain request. Calls ``client.on_plain_end`` after its last byte, unless it is promoted before."""

    __slots__ = (
        "_body",
        "_client",
        "_connection",
        "_context",
        "_head",
        "_held",
        "_left",
        "_server",
        "_transport",
        "_wire_id",
        "first_byte_at",
        "hold",
        "known",
        "number",
        "request_id",
        "rid",
        "sent",
        "started",
        "status",
    )

    def __init__(
        self,
        context: ConnectionContext,
        known: ForwardHead,
        body: bytes,
        transport: asyncio.Transport,
        client: PlainClient,
        server: UpstreamServer,
        connection: UpstreamConnection,
        hold: Hold,
        now: float,
    ) -> None:
        self.known = known
        self.hold = hold
        self.started = now
        self.status = 0  # no response yet
        self.sent = 0  # bytes of the body
        self.first_byte_at = 0.0
        self.number, self.rid = context.recorder.next_id()
        self._wire_id = self.rid.encode()
        self.request_id = ""  # that a trusted proxy gave the request
        self._context = context
        self._client = client
        self._transport = transport
        self._body = body
        self._server = server
        self._connection = connection
        self._head: UpstreamHead | None = None  # of the response, if its body has not come completely
        self._left = 0  # bytes of the response body that have not come yet
        self._held = b""  # the head of the response, until the first bytes of its body are there

    def send(self) -> None:
        """Send the request."""
        known, client, connection, server = self.known, self._client, self._connection, self._server
        outgoing, page = known.outgoing, known.page
        host = server.host_field or page.host or server.settings.authority
        if not client.proxy:
            address = _address_lines(client.client, host, self._context.proto)
        else:
            if outgoing.request_id:
                self._wire_id = outgoing.request_id
                self.request_id = outgoing.request_id.decode()
            about = client_lines(outgoing.claims, client.proxy, host, self._context.proto, is_trusted=True)
            address = b"Host: %b\r\n%b" % (host.encode(), about)
        connection.plain = self
        connection.has_answered = False
        server.requests += 1
        assert connection.transport is not None
        connection.transport.write(
            b"".join(
                (
                    page.request_line, address, outgoing.lines, b"X-Request-Id: ", self._wire_id, b"\r\n",
                    known.framing, b"\r\n", self._body,
                )
            )
        )  # fmt: skip

    # ---- the response

    def on_data(self, data: bytes) -> bool:
        """Bytes of the server. False, without effect, if they need a full relay."""
        if self.status:
            return self._on_body(data)
        end = data.find(END_OF_HEAD) + 4
        if end == 3:
            return False
        server = self._server
        begun = data[:end]
        head = server.heads.get(begun) or server.heads.read(begun)
        plain_len = head.plain_len
        body_len = 0 if self.known.page.is_head else plain_len
        came = len(data) - end
        context = self._context
        if plain_len < 0 or came > body_len or context.connections.draining:
            return False
        self.status = status = head.status
        now = perf_counter()
        clock = context.services.clock
        if now >= clock.due_at:
            clock.do_due(now)
        self.first_byte_at = now
        if server.health.state is IN:  # a plain response has no status 5xx
            server.health.note_success(now)
        else:
            server.on_response(now, status)
        class_line = self.known.account.served_line
        wire = b"%b%bX-Request-Id: %b%b%b" % (
            head.wire_without_qos if class_line else head.wire,
            class_line,
            self._wire_id,
            b"\r\n\r\n" if head.has_date else b"\r\n" + clock.date_line + b"\r\n",
            data[end:] if came < COPIED_MAX else memoryview(data)[end:],  # type: ignore[str-format]  # a view will do
        )
        left = body_len - came
        if left:
            self._left = left
            self._head = head
            if not came:
                self._held = wire
                return True
        self.sent = came
        self._transport.write(wire)
        if not left:
            self._finish(now)
        return True

    def _on_body(self, data: bytes) -> bool:
        size = len(data)
        if size > self._left:
            return False
        self.sent += size
        self._left -= size
        if self._held:
            data, self._held = self._held + data, b""
        self._transport.write(data)
        if not self._left:
            self._finish(self._context.services.clock.read())
        return True

    def on_fault(self, error: Exception) -> None:
        self._context.report_fault(error)
        self._connection.abort()
        self._transport.abort()

    def _finish(self, now: float) -> None:
        connection, client = self._connection, self._client
        connection.plain = None
        connection.is_reused = True
        self._server.give_back(connection, client.client)
        client.on_plain_end(self, now)

    # ---- the client

    def feed(self, data: bytes) -> bytes:
        """The request is complete: the bytes belong to the next one."""
        return data

    def client_paused(self) -> None:
        self._connection.pause_reading()

    def client_resumed(self) -> None:
        self._connection.resume_reading()

    def client_ended(self) -> bool:
        """The client has closed its sending side: it is most often gone."""
        return False

    def check_time(self, now: float) -> None:
        if now - self.started > LASTS_S:
            self.promote().check_time(now)

    # ---- everything else

    def promote(self) -> Relay:
        """Let a full relay continue: something about the request or its response is not plain."""
        context, known, client, connection = self._context, self.known, self._client, self._connection
        exchange = self._exchange()
        place = ForwardTarget(known.page.target.origin_form, known.page.route)
        relay = Relay(context, exchange, place, self._transport, client)
        relay.take_over(self._server, connection, self._wire_id, self.started)
        connection.continue_with(relay)
        if self._head is not None:
            connection.continue_body(self._head, self._left)
            relay.take_over_response(self.status, self.sent, self._held)
        client.on_promoted(relay, exchange)
        return relay

    def _exchange(self) -> Exchange:
        context = self._context
        exchange = _exchange(context, self.known, self._body, self._client, self.started)
        exchange.was_delayed = True
        exchange.rid = context.recorder.rid_of(self.number)
        exchange.request_id = self.request_id
        exchange.permit = context.services.admission.permit_for(self.hold)
        exchange.slot = exchange.permit if exchange.permit.queue is not None else None
        if self.status:
            exchange.first_byte_at = self.first_byte_at
            exchange.upstream_s = self.first_byte_at - self.started
        return exchange
