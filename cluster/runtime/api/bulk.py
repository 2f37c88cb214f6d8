"""Large content to all members of a cluster: sent once, delivered by all in one order, or by none.

    bulk = await Bulk.join(Options(name="b", key=key, listen=("127.0.0.1:0",), contacts=("127.0.0.1:7000",)), spool)
    outcome = await bulk.send(chunks)             # an async iterable of bytes, of any length
    async for message in bulk.deliveries(): ...   # the same messages in the same order at every member

Datagrams go to the UDP port with the number of the member's (first) TCP port, or to a multicast group. The master is
replicated by a `Replica`; in a minority nothing is sent or delivered until the partition ends.
Below: `cluster.bulk.process`, replica, `cluster.runtime.bulk`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.bulk.effects import (
    ROOM_MAX,
    DeliverMessage,
    Discard,
    Joined,
    MessageResolved,
    MissedMessages,
    Multicast,
    Outcome,
    Propose,
    ReceivedByAll,
    SendTo,
)
from cluster.bulk.flow_control import FlowControl
from cluster.bulk.packets import DataPacket
from cluster.bulk.process import BulkProcess
from cluster.names import ProcessId
from cluster.runtime.api.group import Full, NotDelivered
from cluster.runtime.api.replica import Replica
from cluster.runtime.bulk.datagrams import DatagramCodec
from cluster.runtime.bulk.endpoint import DatagramEndpoint, MulticastGroup
from cluster.runtime.bulk.master_machine import MasterMachine
from cluster.runtime.bulk.spool import PACKET_LEN, DiskSpool, OutgoingFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

    from cluster.bulk.effects import Effect
    from cluster.bulk.master import Entry
    from cluster.bulk.packets import AnyPacket
    from cluster.names import View
    from cluster.runtime.api.options import Options

UNREAD_MAX = 64  # messages that the application has not taken; beyond that this member takes no data
SENDS_MAX = 2  # messages of this member under way; the content of others is not read yet
LEAVE_S = 30.0  # the longest that a leaving member answers NAKs
PROGRESS_S = 0.1  # between two reports of progress
AHEAD_MAX = 16 * 1024 * 1024  # bytes of content that are read before the network has taken them

log = logging.getLogger("cluster.bulk")
_encode = msgspec.msgpack.Encoder().encode


class BulkMessage(msgspec.Struct, frozen=True):
    """A delivered message: a file that belongs to the application from now on."""

    number: int  # its place in the order, the same at every member; numbers of rejected messages are missing
    producer: ProcessId
    path: Path
    size: int


class BulkGap(msgspec.Struct, frozen=True):
    """This member missed messages: it was too slow or cut off. It continues with message `first`."""

    first: int


class SendProgress(msgspec.Struct, frozen=True):
    """How far a message is that this member sends. All but the last two are bytes."""

    size: int  # content that was read so far
    is_ended: bool  # that is all of it
    sent: int  # sent at least once
    receivers: dict[str, int]  # by the name of the member: received, as far as it told
    repeated: int  # packets that this member has sent again
    naks: int  # NAKs that this member has got


class ReceiveProgress(msgspec.Struct, frozen=True):
    """How far a message is that this member receives."""

    number: int
    producer: ProcessId
    received: int  # bytes
    begin: bytes  # the first packet, if it is there


class BulkClosed(Exception):
    """The member was closed before the outcome of a message was known."""


class Bulk:
    """A member. Made by `found` or `join`."""

    def __init__(self, options: Options, replica: Replica, machine: MasterMachine, spool: DiskSpool) -> None:
        self.replica = replica
        start = time.time_ns() // 1_000_000
        self.flow = FlowControl()
        self._spool = spool
        self._process = BulkProcess(replica.me, machine.master, self.flow, spool, random.Random(), start=start)
        self.codec = DatagramCodec(options.key, options.cluster, machine.master.session, replica.me, start)
        self.endpoint: DatagramEndpoint | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._local: deque[AnyPacket] = deque()  # packets of this process to itself
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
        self._closed = False
        self.error: Exception | None = None  # why this member stopped
        self._leaving: asyncio.Future[None] | None = None
        machine.apply_entry = self._apply
        replica.on_primary(self._on_primary)
        if replica.primary is not None:
            self._on_primary(replica.primary)

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
    async def _begin(
        cls, options: Options, spool: Path, multicast: MulticastGroup | None, begin: Callable[..., object]
    ) -> Bulk:
        if multicast is not None:
            multicast.validate()
        machine = MasterMachine(options.cluster)
        store = DiskSpool(spool)
        replica: Replica = await begin(options, machine)  # type: ignore[misc]
        bulk = cls(options, replica, machine, store)
        try:
            address = replica.addresses[0]
            bulk.endpoint = await DatagramEndpoint.listen(address, multicast, bulk._on_datagrams, bulk._run)
            bulk._process.context.room = min(ROOM_MAX, bulk.endpoint.room)
        except BaseException:
            await bulk.close()
            raise
        bulk._run()
        return bulk

    # ---- sending

    async def send(
        self,
        content: AsyncIterable[bytes],
        on_progress: Callable[[SendProgress], None] | None = None,
        *,
        min_rate: float = 0.0,
        max_rate: float = inf,
    ) -> Outcome:
        """Send a message. Returns what became of it: unknown if this member was cut off meanwhile.

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
            self._sources[request] = source
            self._drained.clear()
            decided: asyncio.Future[Outcome] = self._loop.create_future()
            self._outcomes[request] = decided
            if not min_rate:
                self._everywhere[request] = self._loop.create_future()
            watch = asyncio.ensure_future(self._watch(request, source, on_progress)) if on_progress else None
            try:
                await self._read(content, source, request, decided)
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
                self._report(request, source, on_progress)
            return outcome

    async def _read(
        self, content: AsyncIterable[bytes], source: OutgoingFile, request: int, decided: asyncio.Future[Outcome]
    ) -> None:
        """Reads the content to the spool, not faster than the network takes it."""
        self._run()
        async for chunk in content:
            source.append(chunk)
            while not decided.done() and source.size - self._sent(request) > AHEAD_MAX:
                await asyncio.wait([decided], timeout=self.flow.heartbeat_s)
            if decided.done():
                return
        source.is_ended = True
        self._run()

    def _sent(self, request: int) -> int:
        message = self._process.producer.find(request)
        return message.sent * PACKET_LEN if message is not None else 0

    def _abandon(self, request: int) -> None:
        """The content could not be read, or the caller gave up."""
        self._process.producer.abandon(request)
        self._soon()
        self._outcomes.pop(request, None)
        source = self._sources.pop(request, None)
        if source is not None:
            source.remove()
        self._remove_sent()

    async def _watch(self, request: int, source: OutgoingFile, on_progress: Callable[[SendProgress], None]) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            self._report(request, source, on_progress)

    def _report(self, request: int, source: OutgoingFile, on_progress: Callable[[SendProgress], None]) -> None:
        message, size = self._process.producer.find(request), source.size
        receivers = {}
        if message is not None:
            for member, packets in message.progress.items():
                receivers[member.name] = size if member in message.complete else min(size, packets * PACKET_LEN)
        sent = size if message is None else min(size, message.sent * PACKET_LEN)
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
        return self._process.context.knowledge.members if self._process.consumer.is_member else ()

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
        return self.endpoint.sent_bytes if self.endpoint is not None else 0

    @property
    def repeated(self) -> int:
        """Packets that this member sent again."""
        return self._process.producer.repeated

    # ---- inputs of the automata

    def _apply(self, entry: Entry) -> None:
        self._process.apply(self._loop.time(), entry)
        self._soon()

    def _on_primary(self, view: View | None) -> None:
        if self.replica.me != self._process.context.me:
            self._fail(RuntimeError(f"the replica began again as {self.replica.me}: start this member again"))
            return
        self._process.primary_changed(self._loop.time(), is_in=view is not None)
        self._soon()

    def _on_datagrams(self, datagrams: list[bytes]) -> None:
        if self._closed:
            return
        now, me = self._loop.time(), self.replica.me
        try:
            for datagram in datagrams:
                opened = self.codec.open(datagram)
                if opened is None or opened[0] == me:  # a multicast comes back to its sender
                    continue
                sender, packet = opened
                if not isinstance(packet, DataPacket) or self._takes(packet):
                    self._process.received(now, sender, packet)
            self._perform()
        except OSError as error:
            self._fail(error)
        else:
            self._set_timer()

    def _takes(self, packet: DataPacket) -> bool:
        """Whether there is room for a packet. All packets but the last have the same length."""
        has_length = len(packet.payload) == PACKET_LEN or (packet.is_end and len(packet.payload) < PACKET_LEN)
        return has_length and len(self._unread) < UNREAD_MAX

    def _soon(self) -> None:
        """Perform effects in the next turn of the loop: the caller is inside the replica."""
        if not self._closed and self.endpoint is not None:
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        if self._closed:
            return
        flow, endpoint = self.flow, self.endpoint
        flow.is_blocked = endpoint is not None and endpoint.is_blocked
        flow.was_blocked |= flow.is_blocked
        try:
            self._process.tick(self._loop.time())
            self._perform()
            self._remove_sent()
        except OSError as error:
            self._fail(error)
        else:
            self._set_timer()

    def _fail(self, error: Exception) -> None:
        """The spool cannot be written or read, or the replica has another identity: this member stops."""
        log.critical("this member stops: %s", error)
        self.error = error
        self._stop()
        self._leaving = asyncio.ensure_future(self.replica.close())  # so that senders do not wait for this member

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._process.next_deadline()
        self._timer = None if deadline == inf else self._loop.call_at(deadline, self._run)

    # ---- effects

    def _perform(self) -> None:
        while True:
            batch: list[bytes] = []  # consecutive multicasts, which leave together
            self._spool.flush()
            for effect in self._process.take():
                if type(effect) is Multicast:
                    self._local.append(effect.packet)
                    batch.append(self.codec.seal(effect.packet))
                else:
                    self._perform_one(effect)
            if batch and self.endpoint is not None:
                self.endpoint.multicast(batch, self._addresses(self._peers()))
            if not self._local:
                return
            for number, message in self._process.producer.retained.items():
                if isinstance(message.source, OutgoingFile):
                    self._spool.adopt(number, message.source)
            while self._local:
                self._process.received(self._loop.time(), self.replica.me, self._local.popleft())

    def _perform_one(self, effect: Effect) -> None:
        assert self.endpoint is not None
        match effect:
            case SendTo(to, packet):
                if to == self.replica.me:
                    self._local.append(packet)
                else:
                    self.endpoint.send([self.codec.seal(packet)], self._addresses([to.name]))
            case Propose(entry):
                try:
                    self.replica.submit_nowait(_encode(entry))
                except (Full, NotDelivered) as error:
                    log.debug("%s was not submitted and will be repeated: %s", entry, error)
            case DeliverMessage(number, producer):
                self._put(BulkMessage(number, producer, *self._spool.deliver(number)))
            case Discard(number):
                self._spool.discard(number)
            case MessageResolved(request, number, outcome):
                self._resolved[number] = self._sources.pop(request)
                _resolve(self._outcomes.pop(request), outcome)
            case ReceivedByAll(request):
                _resolve(self._everywhere.get(request), None)
            case MissedMessages(reason):
                self._missed = True
                log.warning("this member joins again: %s", reason)
            case Joined(first):
                if self._missed:
                    self._missed = False
                    self._put(BulkGap(first))
            case _:
                pass

    def _peers(self) -> list[str]:
        """The members of the web and of the primary view, without this one."""
        master, members = self._process.context.master, self._process.context.knowledge.members
        names = dict.fromkeys(member.name for member in (*members, *master.primary, *master.members))
        names.pop(self.replica.me.name, None)
        return list(names)

    def _addresses(self, names: list[str]) -> list[str]:
        book = self.replica.group.driver.transport.book
        return [book[name][0] for name in names if book[name]]

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
        await self.replica.leave()
        await self.close()

    async def close(self) -> None:
        """Stop. Messages under way are rejected or, if enough members have them, accepted."""
        self._stop()
        if self._leaving is not None:
            await self._leaving
        await self.replica.close()
        for source in (*self._sources.values(), *self._resolved.values()):
            source.remove()
        self._sources.clear()
        self._resolved.clear()
        self._spool.close()

    def _stop(self) -> None:
        self._closed = True
        self._news.set()
        self._drained.set()
        if self._timer is not None:
            self._timer.cancel()
        if self.endpoint is not None:
            self.endpoint.close()
        futures: list[asyncio.Future[Any]] = [*self._outcomes.values(), *self._everywhere.values()]
        for future in futures:
            if not future.done():
                future.set_exception(BulkClosed("this member was closed before all members had the message"))
                future.exception()  # a future that nobody waits for yet is no error


def _resolve(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.done():
        future.set_result(value)
