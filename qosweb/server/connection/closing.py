"""Closing of connections: abort, graceful close, or lingering close so that the last response arrives.

Neighbours: ``sending`` derives from it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qosweb.server.connection.context import ConnectionContext

LINGER_S = 2.0
LINGER_BYTES_MAX = 1 << 20


class Closing(asyncio.Protocol):
    """The part of `HttpConnection` that pauses reading and closes."""

    __slots__ = (
        "_blocked",
        "_closing",
        "_context",
        "_lingered",
        "_lingering",
        "_mark_at",
        "_reading_paused",
        "_transport",
        "_unread",
        "client",
        "proxy",
    )

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self.client = ""  # the address that connected, or that which a trusted proxy names for the current request
        self.proxy = ""  # the address of the trusted proxy that connected, if it is one
        self._transport: asyncio.Transport | None = None
        self._blocked = False
        self._closing = False
        self._reading_paused = False
        self._unread = bytearray()
        self._lingering: asyncio.TimerHandle | None = None
        self._lingered = 0
        self._mark_at = 0.0  # when the client last made enough progress; 0: not measured yet

    @property
    def transport(self) -> asyncio.Transport | None:
        """None once the connection is lost."""
        return self._transport

    def abort(self) -> None:
        if self._transport is not None:
            self._closing = self._blocked = True
            self._transport.abort()

    def _close(self) -> None:
        """Close after all written bytes are sent. Bytes that still arrive get no response."""
        if self._transport is None or self._closing:
            return
        if self._unread or self._reading_paused:
            self._linger()
            return
        self._closing = self._blocked = True
        self._mark_at = 0.0
        self._transport.close()

    def _linger(self) -> None:
        """Lingering close: send FIN, then read and discard. Closing a socket with unread data sends a reset, which
        may destroy the response on its way."""
        assert self._transport is not None
        self._closing = self._blocked = True
        self._unread.clear()
        lingering = self._context.connections.lingering
        if not self._transport.can_write_eof() or not lingering.has_room_for(self.client):
            self._transport.close()
            return
        self._transport.write_eof()
        lingering.take(self.client)
        self._lingering = self._context.loop.call_later(LINGER_S, self.abort)
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
