"""Large content to all members of a cluster: sent once, delivered by all in one order, or by none.

    bulk = await Bulk.join(Options(name="b", key=key, listen=("127.0.0.1:0",), contacts=("127.0.0.1:7000",)), spool)
    outcome = await bulk.send(chunks)             # an async iterable of bytes, of any length
    async for message in bulk.deliveries(): ...   # the same messages in the same order at every member

Datagrams go to the UDP port with the number of the member's (first) TCP port, or to a multicast group. The master is
replicated by a `Replica`, made for it or shared with other state (`share`); in a minority nothing is sent or delivered
until the partition ends.
Below: `cluster.runtime.bulk`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from cluster.bulk.effects import Outcome
from cluster.runtime.api.replica import Replica
from cluster.runtime.bulk.driver import BulkDriver
from cluster.runtime.bulk.events import BulkClosed, BulkGap, BulkMessage, ReceiveProgress, SendProgress
from cluster.runtime.bulk.master_machine import MasterMachine
from cluster.runtime.bulk.order import SharedOrder
from cluster.runtime.bulk.spool import PACKET_LEN, DiskSpool, OutgoingFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable
    from pathlib import Path

    from cluster.bulk.producer import Outgoing
    from cluster.names import ProcessId
    from cluster.runtime.api.options import Options
    from cluster.runtime.bulk.endpoint import MulticastGroup

UNREAD_MAX = 64  # messages that the application has not taken; beyond that this member takes no data
SENDS_MAX = 2  # messages of this member under way; the content of others is not read yet
LEAVE_S = 30.0  # the longest that a leaving member answers NAKs
PROGRESS_S = 0.1  # between two reports of progress
AHEAD_MAX = 16 * 1024 * 1024  # bytes of content that are read before the network has taken them

__all__ = ["Bulk", "BulkClosed", "BulkGap", "BulkMessage", "ReceiveProgress", "SendProgress"]

log = logging.getLogger("cluster.bulk")


class Bulk:
    """A member. Made by `found` or `join`."""

    def __init__(
        self,
        order: SharedOrder,
        machine: MasterMachine,
        spool: DiskSpool,
        key: bytes,
        cluster: str,
        *,
        owns_group: bool,
    ) -> None:
        self.replica = order.replica
        self._owns_group = owns_group
        self._spool = spool
        self._driver = BulkDriver(key, cluster, order, machine, spool, self)
        self._process = self._driver.process
        self._loop = asyncio.get_running_loop()
        self._outcomes: dict[int, asyncio.Future[Outcome]] = {}
        self._everywhere: dict[int, asyncio.Future[None]] = {}  # of requests whose sender waits for all members
        self._resolved: dict[int, OutgoingFile] = {}  # content that consumers may still ask for, by message number
        self._sources: dict[int, OutgoingFile] = {}  # content without an outcome, by request
        self._turns = asyncio.Semaphore(SENDS_MAX)
        self._unread: deque[BulkMessage | BulkGap] = deque()
        self._news = asyncio.Event()
        self._drained = asyncio.Event()  # nobody needs content of this member any more
        self._drained.set()
        self._missed = False
        self._joined: asyncio.Future[int] = self._loop.create_future()
        self._closed = False
        self.error: Exception | None = None  # why this member stopped
        self._leaving: asyncio.Future[None] | None = None

    # ---- start

    @classmethod
    async def found(cls, options: Options, spool: Path, multicast: MulticastGroup | None = None) -> Bulk:
        """Found a cluster with this member alone."""
        return await cls._begin(options, spool, multicast, Replica.found)

    @classmethod
    async def join(cls, options: Options, spool: Path, multicast: MulticastGroup | None = None) -> Bulk:
        """Join a cluster. `spool`: a directory of this member for messages under way."""
        return await cls._begin(options, spool, multicast, Replica.join)

    @classmethod
    async def share(
        cls, order: SharedOrder, machine: MasterMachine, spool: Path, multicast: MulticastGroup | None = None
    ) -> Bulk:
        """Join the web of a running replica, whose state machine passes the entries of `order` to `machine`.

        Only one at a time. `close` leaves the web and not the group. Raises CannotListen, ValueError, OSError.
        """
        if multicast is not None:
            multicast.validate()
        options = order.replica.options
        bulk = cls(order, machine, DiskSpool(spool), options.key, options.cluster, owns_group=False)
        return await bulk._start(multicast)

    @classmethod
    async def _begin(
        cls, options: Options, spool: Path, multicast: MulticastGroup | None, begin: Callable[..., object]
    ) -> Bulk:
        if multicast is not None:
            multicast.validate()
        machine = MasterMachine(options.cluster)
        store = DiskSpool(spool)
        replica: Replica = await begin(options, machine)  # type: ignore[misc]
        bulk = cls(SharedOrder(replica), machine, store, options.key, options.cluster, owns_group=True)
        return await bulk._start(multicast)

    async def _start(self, multicast: MulticastGroup | None) -> Bulk:
        try:
            await self._driver.start(multicast)
        except BaseException:
            await self.close()
            raise
        return self

    async def joined(self) -> int:
        """Wait until this process is a member. Returns the number of the first message that it can receive.

        A message that was begun earlier does not reach it. Raises BulkClosed.
        """
        return await asyncio.shield(self._joined)

    # ---- sending

    async def send(
        self,
        content: AsyncIterable[bytes],
        on_progress: Callable[[SendProgress], None] | None = None,
        *,
        min_rate: float = 0.0,
        max_rate: float = inf,
    ) -> Outcome:
        """Send a message. Returns its outcome: unknown if this member was cut off meanwhile.

        Content is read as fast as the network takes it, and stays in the spool until no member needs it.
        `min_rate`: bytes per second. With 0 a slow consumer slows all, and `send` returns when all members have it.
        Otherwise a consumer that cannot keep up with this rate falls behind, and joins again if it misses the message;
        `send` returns when the message is accepted. `max_rate`: bytes per second of content, at most.
        """
        async with self._turns:
            if self._closed:
                raise BulkClosed("this member was closed")
            source = OutgoingFile(self._spool.directory / f"{time.monotonic_ns()}.out")
            request = self._process.send(self._loop.time(), source, min_rate / PACKET_LEN, max_rate / PACKET_LEN)
            message = self._process.producer.find(request)
            assert message is not None  # it waits for a token
            self._sources[request] = source
            self._drained.clear()
            decided: asyncio.Future[Outcome] = self._loop.create_future()
            self._outcomes[request] = decided
            if not min_rate:
                self._everywhere[request] = self._loop.create_future()
            watch = asyncio.ensure_future(self._watch(message, source, on_progress)) if on_progress else None
            try:
                await self._read(content, source, message, decided)
                outcome = await decided
                if outcome is Outcome.ACCEPTED and not min_rate:
                    await self._everywhere[request]
            except BaseException:
                self._abandon(request)
                raise
            finally:
                self._everywhere.pop(request, None)
                if watch is not None:
                    watch.cancel()
            if on_progress is not None:
                self._report(message, source, on_progress)
            return outcome

    async def _read(
        self, content: AsyncIterable[bytes], source: OutgoingFile, message: Outgoing, decided: asyncio.Future[Outcome]
    ) -> None:
        """Reads the content to the spool, not faster than the network takes it."""
        self._driver.run()
        async for chunk in content:
            source.append(chunk)
            while not decided.done() and source.size - message.sent * PACKET_LEN > AHEAD_MAX:
                await asyncio.wait([decided], timeout=self._driver.flow.heartbeat_s)
            if decided.done():
                return
        source.is_ended = True
        self._driver.run()

    def _abandon(self, request: int) -> None:
        """The content could not be read, or the caller gave up."""
        self._process.producer.abandon(request)
        self._driver.soon()
        self._outcomes.pop(request, None)
        source = self._sources.pop(request, None)
        if source is not None:
            source.remove()
        self._remove_sent()

    async def _watch(
        self, message: Outgoing, source: OutgoingFile, on_progress: Callable[[SendProgress], None]
    ) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            self._report(message, source, on_progress)

    def _report(self, message: Outgoing, source: OutgoingFile, on_progress: Callable[[SendProgress], None]) -> None:
        size = source.size
        received = self._process.producer.received(message)
        receivers = {name: size if has is None else min(size, has * PACKET_LEN) for name, has in received.items()}
        sent = min(size, message.sent * PACKET_LEN)
        on_progress(SendProgress(size, source.is_ended, sent, receivers, self.repeated, self.naks_received))

    # ---- receiving

    async def deliveries(self) -> AsyncIterator[BulkMessage | BulkGap]:
        """Yields messages in the order of their numbers. The application removes the files, or moves them."""
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self._closed:
                return
            self._news.clear()
            await self._news.wait()

    @property
    def receiving(self) -> list[ReceiveProgress]:
        """The messages that are under way to this member."""
        return [
            ReceiveProgress(
                number, message.producer, message.arrived * PACKET_LEN,
                self._spool.read(number, 0) if message.arrived and not message.gaps.is_missing(0) else b"",
            )
            for number, message in self._process.consumer.incoming.items()
        ]  # fmt: skip

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The members as of the last message that was delivered here."""
        return self._process.context.statuses.members if self._process.consumer.is_member else ()

    @property
    def naks(self) -> int:
        """NAKs that this member sent."""
        return self._process.consumer.naks

    @property
    def naks_received(self) -> int:
        return self._process.producer.naks

    @property
    def sent_bytes(self) -> int:
        """Bytes of the datagrams that this member sent, without the headers of UDP and IP."""
        return self._driver.endpoint.sent_bytes if self._driver.endpoint is not None else 0

    @property
    def repeated(self) -> int:
        """Packets that this member sent again."""
        return self._process.producer.repeated + self._process.repairs.sent

    @property
    def backlog(self) -> int:
        """Messages that the cluster has accepted and the application has not taken. 0 while this is no member."""
        return self._driver.backlog + len(self._unread)

    # ---- for the driver

    @property
    def has_room(self) -> bool:
        return len(self._unread) < UNREAD_MAX

    def on_delivered(self, number: int, producer: ProcessId) -> None:
        self._put(BulkMessage(number, producer, *self._spool.deliver(number)))

    def on_resolved(self, request: int, number: int, outcome: Outcome) -> None:
        self._resolved[number] = self._sources.pop(request)
        _resolve(self._outcomes.pop(request), outcome)

    def on_everywhere(self, request: int) -> None:
        _resolve(self._everywhere.get(request), None)

    def on_missed(self, reason: str) -> None:
        self._missed = True
        log.warning("this member joins again: %s", reason)

    def on_joined(self, first: int) -> None:
        _resolve(self._joined, first + 1)
        if self._missed:
            self._missed = False
            self._put(BulkGap(first))

    def on_turn(self) -> None:
        self._remove_sent()

    def on_failed(self, error: Exception) -> None:
        self.error = error
        self._stop()
        if self._owns_group:
            self._leaving = asyncio.ensure_future(self.replica.close())  # so that senders do not wait for this member

    def _put(self, event: BulkMessage | BulkGap) -> None:
        self._unread.append(event)
        self._news.set()

    def _remove_sent(self) -> None:
        retained = self._process.producer.retained
        for number in [number for number in self._resolved if number not in retained]:
            self._resolved.pop(number).remove()
        if not self._resolved and not self._sources:
            self._drained.set()

    # ---- stop

    async def __aenter__(self) -> Bulk:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def leave(self) -> None:
        """Leave the cluster for good, when members no longer ask for packets of the messages that were sent here."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._drained.wait()
        if self._owns_group:
            await self.replica.leave()
        await self.close()

    async def close(self) -> None:
        """Stop. Messages under way are rejected or, if enough members have them, accepted."""
        self._stop()
        if self._leaving is not None:
            await self._leaving
        if self._owns_group:
            await self.replica.close()
        for source in (*self._sources.values(), *self._resolved.values()):
            source.remove()
        self._sources.clear()
        self._resolved.clear()
        self._spool.close()

    def _stop(self) -> None:
        if not self._closed and not self._owns_group:
            self._driver.announce_departure()
        self._closed = True
        self._news.set()
        self._drained.set()
        self._driver.stop()
        futures: list[asyncio.Future[Any]] = [*self._outcomes.values(), *self._everywhere.values()]
        for future in futures:
            _reject(future, "this member was closed before all members had the message")
        _reject(self._joined, "this member was closed before it had joined")


def _resolve(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any], reason: str) -> None:
    if not future.done():
        future.set_exception(BulkClosed(reason))
        future.exception()  # a future that nobody waits for yet is no error
