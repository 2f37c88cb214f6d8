"""Upstream server: a bounded pool of connections to it, the requests that wait for one, and its health.

A request takes a *place*, of which one client gets only a part. With a place it gets an idle connection, the last used
first, or waits until one is free or a new one is connected. Requests without a place wait, one queue for each client;
free places go to the clients in turn. Only connecting needs a task.
Above: `qosweb.server.proxy.relay` (relay).  Below: `qosweb.server.proxy.upstream_connection`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from qosweb.errors import UsageError
from qosweb.server.connection.client_share import SharedPlaces, client_key
from qosweb.server.proxy.connect_error import describe
from qosweb.server.proxy.health import EVIDENCE_S, IN, ServerHealth
from qosweb.server.proxy.upstream_connection import UpstreamConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.http.upstream_heads import UpstreamHeads
    from qosweb.server.proxy.health import Failure
    from qosweb.server.proxy.relay import Relay
    from qosweb.upstream_settings import UpstreamSettings

KEPT_S = 15.0  # keep-alive of an idle connection; shorter than most servers' timeout


class ServerDefaults(NamedTuple):
    """Settings of servers that have none of their own."""

    connect_s: float
    first_byte_s: float  # until the response begins
    idle_s: float  # between two bytes of it
    connections: int
    share_ppm: int  # of the places, for one client


class UpstreamServer:
    """One server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: UpstreamSettings,
        heads: UpstreamHeads,
        defaults: ServerDefaults,
        on_health: Callable[[UpstreamServer], None],
    ) -> None:
        """``on_health`` is called when the server is ejected or returns."""
        self.settings = settings
        self.name = settings.name
        self.heads = heads
        self.host_field = settings.host  # to send in place of the client's; empty or None: the client's
        self.connect_s = settings.connect or defaults.connect_s
        self.first_byte_s = settings.first_byte or defaults.first_byte_s
        self.idle_s = settings.idle or defaults.idle_s
        self.connections_max = settings.connections or defaults.connections
        self.slots = min(settings.slots or self.connections_max, self.connections_max)  # requests at a time
        self.places = SharedPlaces(self.slots, defaults.share_ppm)
        self.health = ServerHealth(
            is_checked=settings.health_path is not None, evidence_s=max(EVIDENCE_S, 2 * settings.health_interval)
        )
        self.in_service = 0  # requests that are here or wait
        self.requests = 0
        self.failures = 0
        self._on_health = on_health
        self._loop = loop
        self.host, self.port = _host_and_port(settings)
        self.tls = _tls_context(settings)
        self.server_name = (settings.server_name or self.host) if self.tls is not None else None
        self._idle: dict[UpstreamConnection, None] = {}  # last used last
        self._all: set[UpstreamConnection] = set()
        self._streams: set[UpstreamConnection] = set()  # of long streams
        self._connecting: dict[Relay, asyncio.Task[None]] = {}  # by the request that began it; any may use it
        self._next: dict[Relay, None] = {}  # requests with a place that wait for a connection
        self._queues: OrderedDict[str, dict[Relay, None]] = OrderedDict()  # requests without a place, by client

    @property
    def connections(self) -> int:
        return len(self._all) + len(self._connecting)

    @property
    def waiting(self) -> int:
        return len(self._next) + sum(map(len, self._queues.values()))

    # ---- requests

    def may_serve(self, now: float) -> bool:
        return self.health.may_serve(self.in_service, now)

    def load(self, now: float) -> float:
        """Requests in service for its weight, with one more."""
        return (self.in_service + 1) / (self.settings.weight * self.health.share(now))

    def on_response(self, now: float, status: int) -> None:
        health = self.health
        was_in = health.state is IN
        if was_in and status < 500:
            health.note_success(now)
            return
        if status >= 500:
            self.failures += 1
        health.on_response(now, is_error=status >= 500)
        self._note_change(was_in=was_in)

    def on_failure(self, failure: Failure, sent_at: float, now: float, detail: str = "") -> None:
        was_in = self.health.is_in
        self.failures += 1
        self.health.on_failure(failure, sent_at, now, detail)
        self._note_change(was_in=was_in)

    def on_check(self, now: float, *, is_good: bool, why: str) -> None:
        was_in = self.health.is_in
        self.health.on_check(now, is_good=is_good, why=why)
        self._note_change(was_in=was_in)

    def follow_votes(self, now: float, why_out: str) -> None:
        """The votes of the other nodes hold this server out for this reason, or do not if it is empty."""
        was_in = self.health.is_in
        if why_out:
            self.health.hold(why_out, now)
        else:
            self.health.release(now)
        self._note_change(was_in=was_in)

    def _note_change(self, *, was_in: bool) -> None:
        if self.health.is_in is not was_in:
            self._on_health(self)
            if was_in:
                for connection in list(self._idle):
                    self._drop(connection)
                self._loop.call_soon(self._move_waiting)

    def _move_waiting(self) -> None:
        """The server is out: requests that wait for it may go to another one."""
        waiting = [*self._next, *(relay for queue in self._queues.values() for relay in queue)]
        for relay in waiting:
            relay.on_server_out()

    def enter(self, relay: Relay, *, fresh: bool = False) -> None:
        """``relay`` wants a connection, a new one if ``fresh``: `on_connection` or `on_unreachable` of it follow."""
        self.in_service += 1
        self.requests += 1
        client = relay.exchange.client
        if self._queues or not self.places.has_room_for(client):
            self._queues.setdefault(client_key(client), {})[relay] = None
            self._admit()
            return
        self.places.take(client)
        relay.has_place = True
        self._serve(relay, fresh=fresh)

    def take_idle(self, client: str) -> UpstreamConnection | None:
        """A place and an idle connection for a request of ``client``; None if it has to wait, or the server is out.

        Requests that wait without a place do not matter: their clients have used up their shares.
        """
        if not self._idle or self.health.state is not IN or not self.places.try_take(client):
            return None
        self.in_service += 1
        return self._idle.popitem()[0]

    def give_back(self, connection: UpstreamConnection, client: str) -> None:
        """Undo `take_idle`: the response is complete, or nothing was sent."""
        self.in_service -= 1
        self.places.give_back(client)
        if connection.transport is None or connection.must_close or connection.is_write_paused:
            connection.abort()
        else:
            if connection.is_read_paused:
                connection.resume_reading()
            if self._next:
                self._put(connection)
            else:
                connection.idle_since = self._loop.time()
                self._idle[connection] = None
        if self._queues:
            self._admit()

    def is_short_of(self, *, has_place: bool) -> bool:
        """Whether a request waits because its client has its share of the connections. ``has_place``: it has one."""
        return not has_place and not self.places.is_full

    def leave(self, relay: Relay, connection: UpstreamConnection | None, *, reusable: bool) -> None:
        """``relay`` is over, or tries again. Its connection is kept if ``reusable``."""
        self.in_service -= 1
        if relay.has_place:
            relay.has_place = False
            self.places.give_back(relay.exchange.client)
            self._next.pop(relay, None)
        else:
            key = client_key(relay.exchange.client)
            queue = self._queues.get(key)
            if queue is not None:
                queue.pop(relay, None)
                if not queue:
                    del self._queues[key]
        if connection is not None:
            connection.relay = None
            if reusable and connection.is_reusable:
                connection.is_reused = True
                connection.resume_reading()
                self._put(connection)
            else:
                connection.abort()
        if self._queues:
            self._admit()

    def detach(self, relay: Relay, connection: UpstreamConnection) -> None:
        """``relay`` has become a long stream: it no longer counts here, nor does its connection."""
        self.in_service -= 1
        relay.has_place = False
        self.places.give_back(relay.exchange.client)
        connection.must_close = True
        self._all.discard(connection)
        self._streams.add(connection)
        self._admit()
        self._connect_more()

    def _serve(self, relay: Relay, *, fresh: bool = False) -> None:
        if self._idle and not fresh:
            connection, _ = self._idle.popitem()
            connection.begin(relay)
            relay.on_connection(connection)
            return
        self._next[relay] = None
        if self.connections >= self.connections_max and self._idle:
            self._drop(next(iter(self._idle)))
        self._connect_for(relay)

    def _put(self, connection: UpstreamConnection) -> None:
        """``connection`` is free."""
        if self._next:
            relay = next(iter(self._next))
            del self._next[relay]
            connection.begin(relay)
            relay.on_connection(connection)
        else:
            connection.idle_since = self._loop.time()
            self._idle[connection] = None

    def _admit(self) -> None:
        """Give free places to the clients that wait, in turn."""
        for key in list(self._queues):
            queue = self._queues.get(key)
            if queue is None:
                continue
            if self.places.is_full:
                return
            relay = next(iter(queue))
            if self.places.has_room_for(relay.exchange.client):
                del queue[relay]
                if queue:
                    self._queues.move_to_end(key)
                else:
                    del self._queues[key]
                self.places.take(relay.exchange.client)
                relay.has_place = True
                self._serve(relay)

    # ---- connections

    async def _connect(self, relay: Relay) -> None:
        try:
            async with asyncio.timeout(self.connect_s):
                _, connection = await self._loop.create_connection(
                    lambda: UpstreamConnection(self),
                    self.host,
                    self.port,
                    ssl=self.tls,
                    server_hostname=self.server_name,
                )
        except OSError as error:  # TimeoutError and ssl.SSLError are OSErrors
            del self._connecting[relay]
            if relay in self._next:
                del self._next[relay]
                relay.on_unreachable(describe(error))
            self._connect_more()
            return
        del self._connecting[relay]
        if connection.transport is None:  # lost already
            self._connect_more()
        else:
            self._all.add(connection)
            self._put(connection)

    def on_lost(self, connection: UpstreamConnection) -> None:
        self._all.discard(connection)
        self._streams.discard(connection)
        self._idle.pop(connection, None)
        self._connect_more()

    def _connect_more(self) -> None:
        """Connect for a request that waits although there is room for another connection."""
        if len(self._connecting) < len(self._next) and self.connections < self.connections_max:
            relay = next((one for one in self._next if one not in self._connecting), None)
            if relay is not None:
                self._connect_for(relay)

    def _connect_for(self, relay: Relay) -> None:
        if self.connections < self.connections_max and relay not in self._connecting:
            self._connecting[relay] = self._loop.create_task(self._connect(relay), name="connect")

    def _drop(self, connection: UpstreamConnection) -> None:
        del self._idle[connection]
        self._all.discard(connection)
        connection.abort()

    def sweep(self) -> None:
        """Close connections that have been idle for too long."""
        before = self._loop.time() - KEPT_S
        for connection in [one for one in self._idle if one.idle_since < before]:
            self._drop(connection)

    def close(self) -> None:
        for task in self._connecting.values():
            task.cancel()
        for connection in [*self._all, *self._streams]:
            connection.abort()


def _host_and_port(settings: UpstreamSettings) -> tuple[str, int]:
    authority = settings.authority
    host, _, port = ("", "", "") if authority.endswith("]") else authority.rpartition(":")
    default = 443 if settings.is_secure else 80
    return (host or authority).strip("[]"), int(port) if host else default


def _tls_context(settings: UpstreamSettings) -> ssl.SSLContext | None:
    if not settings.is_secure:
        return None
    try:
        context = ssl.create_default_context(cafile=None if settings.ca is None else str(settings.ca))
    except (OSError, ValueError) as error:
        raise UsageError(f"upstream {settings.name}: ca {settings.ca}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context
