"""Upstream servers and peer nodes: finds the server for a request, and enforces time limits of idle connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.http.upstream_heads import UpstreamHeads
from qosweb.server.proxy.server import Server, ServerTimeouts

if TYPE_CHECKING:
    import asyncio

CONNECT_S = 5.0
SERVERS_MAX = 1_000  # addresses of other nodes that are remembered
WAIT_S = 2 * CONNECT_S  # the longest wait for a connection


class Upstreams:
    """All servers that this node forwards requests to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        me: str,
        *,
        timeout_s: float,
        connections_max: int,
        share_ppm: int,
    ) -> None:
        """``timeout_s``: how long a server may send nothing. ``share_ppm``: one client's part of the connections."""
        self.me = me.encode()
        self._loop = loop
        self._heads = UpstreamHeads(self.me)
        self._timeouts = ServerTimeouts(CONNECT_S, timeout_s, timeout_s)
        self._connections_max = connections_max
        self._share_ppm = share_ppm
        self._servers: dict[str, Server] = {}

    def server_at(self, origin: str) -> Server:
        server = self._servers.get(origin)
        if server is None:
            if len(self._servers) >= SERVERS_MAX:
                self._servers.pop(next(iter(self._servers))).close()
            server = self._servers[origin] = Server(
                self._loop,
                origin,
                self._heads,
                self._timeouts,
                connections_max=self._connections_max,
                share_ppm=self._share_ppm,
            )
        return server

    def sweep(self) -> None:
        for server in self._servers.values():
            server.sweep()

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
