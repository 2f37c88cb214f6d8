"""Connection pool of one process to one server: a maximum size, reuse, new connections when requests wait."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from loadgen.results.outcomes import CLOSED
from loadgen.send.connect_errors import cause_of
from loadgen.send.socket_connection import SocketConnection
from loadgen.send.transport_connection import TransportConnection

if TYPE_CHECKING:
    import ssl

    from loadgen.results.tally import RunTally
    from loadgen.send.connection import ClientConnection
    from loadgen.send.epoll_watcher import EpollWatcher
    from loadgen.send.payloads import Payloads
    from loadgen.send.pending_request import PendingRequest
    from loadgen.send.response_reader import HeadCache, ResponseHead
    from loadgen.send.targets import Target


class PoolLimits(NamedTuple):
    connections: int
    connect_timeout_s: float
    body_max: int


class PoolOwner(Protocol):
    """Receives the outcomes of requests."""

    @property
    def tally(self) -> RunTally: ...

    def answered(self, shot: PendingRequest, head: ResponseHead, size: int) -> None: ...

    def failed(self, shot: PendingRequest, cause: str) -> None: ...


class Pool:
    """Requests wait in one queue; the first free connection takes the first request."""

    def __init__(
        self,
        owner: PoolOwner,
        target: Target,
        limits: PoolLimits,
        payloads: Payloads,
        remembered: HeadCache,
        tls: ssl.SSLContext,
        watch: EpollWatcher | None,
    ) -> None:
        self._owner = owner
        self._target = target
        self._limits = limits
        self._tls = tls if target.scheme == "https" else None
        self._watch = watch if self._tls is None else None
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._idle: list[ClientConnection] = []
        self._open: set[ClientConnection] = set()
        self.payloads = payloads
        self.remembered = remembered
        self.body_max = limits.body_max
        self.waiting: deque[PendingRequest] = deque()
        self.closed = False
        self.answered = owner.answered
        self.failed = owner.failed

    @property
    def counts(self) -> RunTally:
        return self._owner.tally

    def submit(self, shot: PendingRequest) -> None:
        """Send a request now if a connection is free, else as soon as one is."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if not connection.closing:
                connection.send(shot)
                return
        self.waiting.append(shot)
        self._open_for_waiting()

    def release(self, connection: ClientConnection) -> None:
        """A connection is free."""
        if self.waiting:
            connection.send(self.waiting.popleft())
        else:
            self._idle.append(connection)

    def retry(self, shot: PendingRequest) -> None:
        """The server closed a reused connection just as the request was sent: send it again, before all others."""
        shot.retries += 1
        shot.queued_s = time.monotonic()
        self.waiting.appendleft(shot)
        self._open_for_waiting()

    def lost(self, connection: ClientConnection) -> None:
        self._open.discard(connection)  # the idle list drops it later
        self._open_for_waiting()

    def overdue(self, queued_before_s: float) -> list[PendingRequest]:
        """Take requests out of the queue that have waited since before ``queued_before_s``."""
        found = []
        while self.waiting and self.waiting[0].queued_s < queued_before_s:
            found.append(self.waiting.popleft())
        return found

    def expired(self, sent_before_s: float) -> list[PendingRequest]:
        """Give up requests sent before ``sent_before_s`` that have no complete response."""
        late = [c for c in self._open if c.shot is not None and c.sent_at_s < sent_before_s]
        return [shot for connection in late if (shot := connection.abandon()) is not None]

    def close(self) -> list[PendingRequest]:
        """Close everything. Returns the requests that were in flight or waiting."""
        self.closed = True
        left = [shot for c in tuple(self._open) if (shot := c.abandon()) is not None]
        for task in self._opening:
            task.cancel()
        left += self.waiting
        self.waiting.clear()
        return left

    def _open_for_waiting(self) -> None:
        while (
            not self.closed
            and len(self._opening) < len(self.waiting)
            and len(self._opening) + len(self._open) < self._limits.connections
        ):
            task = self._loop.create_task(self._connect())
            self._opening.add(task)

    async def _connect(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        cause = ""
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                connection = await self._new_connection()
        except (OSError, EOFError, ValueError) as error:
            cause = cause_of(error)
        finally:
            self._opening.discard(task)
        if cause:
            self._owner.tally.connections_failed += 1
            if self.waiting:
                self._owner.failed(self.waiting.popleft(), cause)
            self._open_for_waiting()
            return
        self._owner.tally.connections += 1
        if connection.closing:  # the server has closed it already
            if self.waiting:
                self._owner.failed(self.waiting.popleft(), CLOSED)
            self._open_for_waiting()
        elif self.closed:
            connection.close()
        else:
            self._open.add(connection)
            self.release(connection)

    async def _new_connection(self) -> ClientConnection:
        target = self._target
        if self._watch is not None:
            return SocketConnection(self, self._watch, await self._watch.connect(target.address, target.port))
        _, connection = await self._loop.create_connection(
            lambda: TransportConnection(self),
            target.address,
            target.port,
            ssl=self._tls,
            server_hostname=target.host if self._tls else None,
        )
        return connection
