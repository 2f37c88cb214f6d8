"""Upstream servers and peer nodes: routes, health checks, the retry budget, and limits of idle connections."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from qosweb.http.upstream_heads import UpstreamHeads
from qosweb.server.connection.client_share import SharedPlaces
from qosweb.server.proxy.health_check import check
from qosweb.server.proxy.retry_budget import RetryBudget
from qosweb.server.proxy.routes import Routes
from qosweb.server.proxy.upstream_server import UpstreamServer
from qosweb.upstream_settings import UpstreamSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.server.proxy.upstream_server import ServerDefaults

PEERS_MAX = 1_000  # addresses of other nodes that are remembered
WAIT_S = 10.0  # the longest wait for a connection


class StreamLimits(NamedTuple):
    """Limits of long streams: event streams, upgraded connections, and responses that outlast ``after_s``."""

    total_max: int
    after_s: float
    idle_s: float  # without a byte


class Upstreams:
    """All servers that this node forwards requests to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        me: str,
        settings: tuple[UpstreamSettings, ...],
        defaults: ServerDefaults,
        streams: StreamLimits,
        on_health: Callable[[UpstreamServer], None],
    ) -> None:
        """``me`` is the name of this node. ``on_health`` is called when a server is ejected or returns."""
        self.stream_limits = streams
        self.streams = SharedPlaces(streams.total_max, defaults.share_ppm)
        self.me = me.encode()
        self.budget = RetryBudget()
        self._loop = loop
        self._heads = UpstreamHeads(self.me)
        self._defaults = defaults
        self._peers: dict[str, UpstreamServer] = {}
        self.servers = [self._server(one, on_health) for one in settings]
        self.routes = Routes(self.servers)
        self._checks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin active health checks."""
        checked = [one for one in self.servers if one.settings.health_path is not None]
        self._checks = [asyncio.create_task(self._check_often(one), name=f"check {one.name}") for one in checked]

    def peer(self, origin: str) -> UpstreamServer:
        """Another node of the cluster."""
        server = self._peers.get(origin)
        if server is None:
            if len(self._peers) >= PEERS_MAX:
                self._peers.pop(next(iter(self._peers))).close()
            server = self._peers[origin] = self._server(UpstreamSettings(url=origin, name=origin), lambda _: None)
        return server

    @property
    def missing(self) -> str:
        """Why no request can be forwarded; empty if a server is in, or there is none at all."""
        if not self.servers or any(one.health.is_in for one in self.servers):
            return ""
        return "all upstream servers are out: " + ", ".join(f"{one.name} ({one.health.reason})" for one in self.servers)

    def sweep(self) -> None:
        for server in (*self.servers, *self._peers.values()):
            server.sweep()

    def close(self) -> None:
        for task in self._checks:
            task.cancel()
        for server in (*self.servers, *self._peers.values()):
            server.close()

    def _server(self, settings: UpstreamSettings, on_health: Callable[[UpstreamServer], None]) -> UpstreamServer:
        return UpstreamServer(self._loop, settings, self._heads, self._defaults, on_health)

    async def _check_often(self, server: UpstreamServer) -> None:
        while True:
            why = await check(server)
            server.on_check(perf_counter(), is_good=not why, why=why)
            await asyncio.sleep(server.settings.health_interval)
