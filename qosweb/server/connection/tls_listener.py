"""Where a client of the TLS port waits until its handshake is done.

It is counted from the moment it connects, like everybody else: sockets that never finish a handshake are limited and
displaced as silent connections are. A server that leaves accepting to the event loop hears of a TLS connection only
when its handshake is over, and cannot count what it does not know; so connections are accepted here.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from qosweb.server.connection.connection import HttpConnection
from qosweb.server.connection.connections import ConnectionDecision

if TYPE_CHECKING:
    import asyncio

    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.connection.tls import TlsFiles

ACCEPTED_AT_ONCE = 64
AFTER_FAILURE_S = 0.1


class TlsListener:
    """Accepts connections on a listening socket until closed."""

    def __init__(self, hub: ConnectionContext, tls: TlsFiles, listener: socket.socket) -> None:
        self._hub = hub
        self._tls = tls
        self._listener = listener
        self._handshakes: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """No new connections. Those whose handshake is not done yet are in the table, and end with it."""
        if self._listener.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._hub.loop.remove_reader(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        self._pause = None
        self._hub.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors, no memory: others must get their turn before the next try
                self._hub.loop.remove_reader(self._listener)
                self._pause = self._hub.loop.call_later(AFTER_FAILURE_S, self._listen)
                return
            door = TlsHandshake(accepted, peer[0], self._hub.site.clock.read())
            if self._hub.connections.enter(door) is not ConnectionDecision.WELCOME:
                accepted.close()  # without TLS there is no way to say why
                continue
            accepted.setblocking(False)
            task = self._hub.loop.create_task(self._shake_hands(door))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, door: TlsHandshake) -> None:
        try:
            await self._hub.loop.connect_accepted_socket(
                lambda: SecureConnection(self._hub, door),
                door.socket,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._hub.limits.header_timeout_s,
            )
        except (OSError, TimeoutError):  # includes every error of TLS
            self._hub.connections.counts.failed_handshakes += 1
        finally:
            self._hub.connections.leave(door)


class TlsHandshake:
    """A connection before its handshake is done, as the table of connections sees it."""

    __slots__ = ("active_at", "client", "socket")

    def __init__(self, accepted: socket.socket, client: str, now: float) -> None:
        self.client = client
        self.active_at = now
        self.socket = accepted

    @property
    def is_idle(self) -> bool:
        return True

    def check_time(self, now: float) -> None:
        """The handshake has a time limit of its own."""

    def forget_log_part(self) -> None:
        """It has none yet."""

    def close_if_idle(self) -> None:
        self.abort()

    def abort(self) -> None:
        """The handshake fails on a socket that is shut down, and that closes it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class SecureConnection(HttpConnection):
    """A connection whose handshake is done. It takes over the place of its door."""

    __slots__ = ("_door",)

    def __init__(self, hub: ConnectionContext, door: TlsHandshake) -> None:
        super().__init__(hub)
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._hub.connections.leave(self._door)
        super().connection_made(transport)
