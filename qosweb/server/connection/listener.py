"""Listener for connections that begin with a PROXY header, a TLS handshake, or both: accepts them itself.

A connection counts from its accept. Sockets that never finish their header or handshake are limited and displaced like
other connections without a request. asyncio's own server would announce a TLS connection only after its handshake, too
late to count it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from qosweb.http.forwarded import peer_address
from qosweb.server.connection.connections import ConnectionDecision
from qosweb.server.connection.proxy_protocol import BadProxyHeader, NoHeader, read_source
from qosweb.server.process.console import log_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.server.connection.connection import HttpConnection
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.connection.tls import TlsFiles

ACCEPTED_AT_ONCE = 64
AFTER_FAILURE_S = 0.1
LOG_EVERY_S = 10.0  # bad PROXY headers cost a client nothing: their messages must not fill the log


class Listener:
    """Accepts connections on a listening socket until closed."""

    def __init__(
        self,
        context: ConnectionContext,
        listener: socket.socket,
        create: Callable[[ConnectionContext, Opening], HttpConnection],
        *,
        tls: TlsFiles | None,
        has_proxy_headers: bool,
    ) -> None:
        """``has_proxy_headers``: connections begin with a PROXY header; if proxies are known, only those of proxies."""
        self._context = context
        self._listener = listener
        self._create = create
        self._tls = tls
        self._has_proxy_headers = has_proxy_headers
        self._openings: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._next_log_at = 0.0
        self._listen()

    def close(self) -> None:
        """Accept no more connections. The connection table ends those that are not open yet."""
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
        trusted = self._context.trusted
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # out of descriptors or memory: pause, so that other work can free some
                self._context.loop.remove_reader(self._listener)
                self._pause = self._context.loop.call_later(AFTER_FAILURE_S, self._listen)
                return
            opening = Opening(accepted, peer_address(peer[0]), self._context.services.clock.read())
            is_proxy = opening.client in trusted
            opening.has_proxy_header = self._has_proxy_headers and (is_proxy or not trusted)
            is_exempt = is_proxy or opening.has_proxy_header
            if self._context.connections.enter(opening, is_exempt=is_exempt) is not ConnectionDecision.ACCEPTED:
                accepted.close()  # no response is possible yet
                continue
            accepted.setblocking(False)
            task = self._context.loop.create_task(self._open(opening))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)

    async def _open(self, opening: Opening) -> None:
        try:
            if not opening.has_proxy_header or await self._learn_client(opening):
                await self._hand_over(opening)
            else:
                opening.socket.close()
        finally:
            self._context.connections.leave(opening)

    async def _learn_client(self, opening: Opening) -> bool:
        """Read the PROXY header. False: the connection has to close."""
        context, counts = self._context, self._context.connections.counts
        try:
            async with asyncio.timeout(context.limits.header_timeout_s):
                source = await read_source(context.loop, opening.socket)
        except BadProxyHeader as bad:
            counts.bad_proxy_headers += 1
            self._log_bad_header(opening.client, str(bad))
            return False
        except TimeoutError:
            counts.header_timeouts += 1
            return False
        except (NoHeader, OSError):
            return False
        if source is not None:
            opening.client = source
        if self._tls is None:
            return True  # if the client has too many connections, it gets a response
        return context.connections.replace(opening, opening, is_exempt=opening.client in context.trusted) is (
            ConnectionDecision.ACCEPTED
        )

    async def _hand_over(self, opening: Opening) -> None:
        """Create the connection, after the TLS handshake if there is one."""
        context = self._context
        try:
            await context.loop.connect_accepted_socket(
                lambda: self._create(context, opening),
                opening.socket,
                ssl=None if self._tls is None else self._tls.context,
                ssl_handshake_timeout=None if self._tls is None else context.limits.header_timeout_s,
            )
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError
            context.connections.counts.failed_handshakes += 1

    def _log_bad_header(self, peer: str, reason: str) -> None:
        now = self._context.loop.time()
        if now >= self._next_log_at:
            self._next_log_at = now + LOG_EVERY_S
            count = self._context.connections.counts.bad_proxy_headers
            log_message(f"a connection from {peer} was closed: {reason} (--proxy-protocol; {count} so far)")


class Opening:
    """A connection before its first request can be read; an entry of the connection table."""

    __slots__ = ("active_at", "client", "has_proxy_header", "socket")

    def __init__(self, accepted: socket.socket, client: str, now: float) -> None:
        self.client = client  # the peer's address, until its PROXY header says another one
        self.active_at = now
        self.has_proxy_header = False
        self.socket = accepted

    @property
    def is_idle(self) -> bool:
        return True

    @property
    def transport(self) -> None:
        """There is none yet."""
        return None

    def check_time(self, now: float) -> None:
        """Does nothing: header and handshake have their own time limits."""

    def renew_log_part(self) -> None:
        """Does nothing: there is no log part before the first request."""

    def block_list_changed(self) -> None:
        """Does nothing: the list is looked at when the connection is made."""

    def pace_rest(self) -> None:
        """Does nothing: there is no response."""

    def close_if_idle(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Shut the socket down; header or handshake then fails, and the socket is closed."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
