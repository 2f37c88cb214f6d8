"""Connections of the admin port, bounded: its clients cannot use up the descriptors that the public port needs.

A connection above the limit displaces the oldest one without a request, so that probes get through a flood.
Above: `admin`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

ADMIN_CONNECTIONS_MAX = 32


class BoundedConnections:
    """Creates the protocols of new connections (a protocol factory), and closes connections above the limit."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._in_use: set[asyncio.BaseProtocol] = set()

    def __call__(self) -> asyncio.Protocol:
        asyncio.get_running_loop().call_soon(self._displace)
        return self._server()

    @contextlib.contextmanager
    def in_use(self, connection: asyncio.BaseProtocol) -> Iterator[None]:
        """A request of the connection is handled: it is not displaced."""
        self._in_use.add(connection)
        try:
            yield
        finally:
            self._in_use.discard(connection)

    def _displace(self) -> None:
        opened = [one for one in self._server.connections if one.transport and not one.transport.is_closing()]
        surplus = len(opened) + 1 - ADMIN_CONNECTIONS_MAX  # the new one is not among them yet
        if surplus > 0:
            for one in [one for one in opened if one not in self._in_use][:surplus]:
                assert one.transport is not None
                one.transport.abort()
