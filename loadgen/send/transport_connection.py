"""Connection over the event loop's transports: for TLS, and for systems without epoll."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from loadgen.send.connection import ClientConnection

if TYPE_CHECKING:
    from loadgen.send.pool import Pool


class TransportConnection(ClientConnection, asyncio.Protocol):
    """Created by the event loop, which calls the methods of asyncio.Protocol."""

    __slots__ = ("_transport",)

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)

    def close(self) -> None:
        self.closing = True
        if self._transport is not None:
            self._transport.abort()

    def _write(self, payload: bytes, body: bytes) -> None:
        assert self._transport is not None
        self._transport.write(payload)
        if body:
            self._transport.write(body)
