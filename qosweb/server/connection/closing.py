"""How a connection ends: at once, when everything has left, or so that the last answer arrives.

Neighbours: ``connection``, which derives from it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qosweb.server.connection.context import ConnectionContext

LINGER_S = 2.0
LINGER_BYTES_MAX = 1 << 20


class Closing(asyncio.Protocol):
    __slots__ = (
        "_blocked",
        "_closing",
        "_hub",
        "_lingered",
        "_lingering",
        "_mark_at",
        "_reading_paused",
        "_transport",
        "_unread",
        "client",
    )

    def __init__(self, hub: ConnectionContext) -> None:
        self._hub = hub
        self.client = ""
        self._transport: asyncio.Transport | None = None
        self._blocked = False
        self._closing = False
        self._reading_paused = False
        self._unread = bytearray()
        self._lingering: asyncio.TimerHandle | None = None
        self._lingered = 0
        self._mark_at = 0.0  # when the client last took enough; 0: not looked at yet

    def abort(self) -> None:
        if self._transport is not None:
            self._closing = self._blocked = True
            self._transport.abort()

    def _close(self) -> None:
        """Close when everything written has left. What still arrives is not answered."""
        if self._transport is None or self._closing:
            return
        if self._unread or self._reading_paused:
            self._linger()
            return
        self._closing = self._blocked = True
        self._mark_at = 0.0
        self._transport.close()

    def _linger(self) -> None:
        """Close so that the answer arrives: a socket closed with unread data resets, and the answer may be lost."""
        assert self._transport is not None
        self._closing = self._blocked = True
        self._unread.clear()
        lingering = self._hub.connections.lingering
        if not self._transport.can_write_eof() or not lingering.has_room_for(self.client):
            self._transport.close()
            return
        self._transport.write_eof()
        lingering.take(self.client)
        self._lingering = self._hub.loop.call_later(LINGER_S, self.abort)
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
