"""A connection over the event loop's transports: for TLS, and where the loop has to watch sockets itself."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, cast

from loadgen.send.connection import ClientConnection

if TYPE_CHECKING:
    from loadgen.send.pool import Pool


class TransportConnection(ClientConnection, asyncio.Protocol):
    """Made by the loop, which tells it the rest."""

    __slots__ = ("_file", "_transport")

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._transport: asyncio.WriteTransport | None = None
        self._file = -1  # of the socket, as long as it can be written to past the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        if transport.get_extra_info("sslcontext") is None:
            self._file = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._file = -1  # the number may be another file's soon
        self._lost(exc)

    def close(self) -> None:
        self.closing = True
        self._file = -1
        if self._transport is not None:
            self._transport.abort()

    def _write(self, payload: bytes, body: bytes) -> None:
        written = 0
        if self._file >= 0:
            try:
                written = os.writev(self._file, (payload, body)) if body else os.write(self._file, payload)
            except OSError:
                written = 0  # the transport meets it too, and tells
            if written == len(payload) + len(body):
                return
            self._file = -1  # what is sent later has to wait behind the rest
        assert self._transport is not None
        if written < len(payload):
            self._transport.write(payload[written:])
        if body:
            self._transport.write(memoryview(body)[max(0, written - len(payload)) :])
