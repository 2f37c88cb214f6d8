"""TLS listener: accepts connections itself, so that connection limits also cover unfinished TLS handshakes.

A connection counts from its accept. Sockets that never finish their handshake are limited and displaced like other
connections without a request. asyncio's own server would announce a TLS connection only after its handshake, too late
to count it.
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

    def __init__(self, context: ConnectionContext, tls: TlsFiles, listener: socket.socket) -> None:
        self._context = context
        self._tls = tls
        self._listener = listener
        self._handshakes: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Accept no more connections. The connection table ends those that are still in their handshake."""
        if self._listener.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._context.loop.remove_reader(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        self._pause = None
        self._context.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # out of descriptors or memory: pause, so that other work can free some
                self._context.loop.remove_reader(self._listener)
                self._pause = self._context.loop.call_later(AFTER_FAILURE_S, self._listen)
                return
            handshake = TlsHandshake(accepted, peer[0], self._context.site.clock.read())
            if self._context.connections.enter(handshake) is not ConnectionDecision.ACCEPTED:
                accepted.close()  # no response is possible before the handshake
                continue
            accepted.setblocking(False)
            task = self._context.loop.create_task(self._run_handshake(handshake))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _run_handshake(self, handshake: TlsHandshake) -> None:
        try:
            await self._context.loop.connect_accepted_socket(
                lambda: SecureConnection(self._context, handshake),
                handshake.socket,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._context.limits.header_timeout_s,
            )
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError
            self._context.connections.counts.failed_handshakes += 1
        finally:
            self._context.connections.leave(handshake)


class TlsHandshake:
    """A connection during its TLS handshake; an entry of the connection table."""

    __slots__ = ("active_at", "client", "socket")

    def __init__(self, accepted: socket.socket, client: str, now: float) -> None:
        self.client = client
        self.active_at = now
        self.socket = accepted

    @property
    def is_idle(self) -> bool:
        return True

    def check_time(self, now: float) -> None:
        """Does nothing: the handshake has its own time limit."""

    def renew_log_part(self) -> None:
        """Does nothing: there is no log part before the first request."""

    def renew_blocked(self) -> None:
        """Does nothing: the list is looked at when the connection is made."""

    def close_if_idle(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Shut the socket down; the handshake then fails and closes it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class SecureConnection(HttpConnection):
    """An HTTP connection over TLS. It replaces its `TlsHandshake` in the connection table."""

    __slots__ = ("_handshake",)

    def __init__(self, context: ConnectionContext, handshake: TlsHandshake) -> None:
        super().__init__(context)
        self._handshake = handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._context.connections.leave(self._handshake)
        super().connection_made(transport)
