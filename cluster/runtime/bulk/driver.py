"""Drives the automata of one member: datagrams, the total order and timers in, effects out to sockets, spool and order.

Effects for the application go to a `BulkListener`.
Above: `cluster.Bulk`.  Below: `cluster.bulk.process`, datagrams, spool, order.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.bulk.effects import (
    ROOM_MAX,
    DeliverMessage,
    Discard,
    Joined,
    MessageResolved,
    MissedMessages,
    Multicast,
    Propose,
    ReceivedByAll,
    SendTo,
)
from cluster.bulk.flow_control import FlowControl
from cluster.bulk.master import RemoveMember
from cluster.bulk.packets import DataPacket, Status
from cluster.bulk.process import BulkProcess
from cluster.runtime.api.group import Full, NotDelivered
from cluster.runtime.bulk.datagrams import DatagramCodec
from cluster.runtime.bulk.endpoint import DatagramEndpoint
from cluster.runtime.bulk.spool import PACKET_LEN, OutgoingFile

if TYPE_CHECKING:
    from cluster.bulk.effects import Effect, Outcome
    from cluster.bulk.master import Entry
    from cluster.bulk.packets import AnyPacket
    from cluster.names import ProcessId, View
    from cluster.runtime.bulk.endpoint import MulticastGroup
    from cluster.runtime.bulk.master_machine import MasterMachine
    from cluster.runtime.bulk.order import SharedOrder
    from cluster.runtime.bulk.spool import DiskSpool

log = logging.getLogger("cluster.bulk")
_encode = msgspec.msgpack.Encoder().encode


class BulkListener(Protocol):
    """Callbacks of the driver to the application's side of the member."""

    @property
    def has_room(self) -> bool:
        """Whether the application can be given another message."""

    def on_delivered(self, number: int, producer: ProcessId) -> None: ...
    def on_resolved(self, request: int, number: int, outcome: Outcome) -> None: ...
    def on_everywhere(self, request: int) -> None: ...
    def on_missed(self, reason: str) -> None: ...
    def on_joined(self, first: int) -> None: ...
    def on_turn(self) -> None: ...
    def on_failed(self, error: Exception) -> None: ...


class BulkDriver:
    """The running automata of a member, from `start` to `stop`."""

    def __init__(
        self, key: bytes, cluster: str, order: SharedOrder, machine: MasterMachine, spool: DiskSpool,
        listener: BulkListener,
    ) -> None:  # fmt: skip
        start = time.time_ns() // 1_000_000
        self.me = order.me
        self.flow = FlowControl()
        self.process = BulkProcess(self.me, machine.master, self.flow, spool, random.Random(), start=start)
        self.codec = DatagramCodec(key, cluster, machine.master.session, self.me, start)
        self.endpoint: DatagramEndpoint | None = None
        self.is_stopped = False
        self._order = order
        self._machine = machine
        self._spool = spool
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._local: deque[AnyPacket] = deque()  # packets of this process to itself
        machine.apply_entry = self._apply
        order.follow(self._on_primary)

    async def start(self, multicast: MulticastGroup | None) -> None:
        """Raises CannotListen."""
        self.endpoint = await DatagramEndpoint.listen(self._order.address, multicast, self._on_datagrams, self.run)
        self.process.context.room = min(ROOM_MAX, self.endpoint.room)
        self.run()

    def stop(self) -> None:
        if self.is_stopped:
            return
        self.is_stopped = True
        self._order.follow(None)
        self._machine.apply_entry = self._machine.master.apply
        if self._timer is not None:
            self._timer.cancel()
        if self.endpoint is not None:
            self.endpoint.close()

    def announce_departure(self) -> None:
        """Removes this process from the web. Its group remains: otherwise others would wait for this process."""
        joined = self._machine.master.joined.get(self.me)
        if joined is not None:
            self._submit(RemoveMember(self.me, joined.first))

    @property
    def backlog(self) -> int:
        """Messages that the cluster has accepted and this member has not delivered; 0 if it is no member."""
        consumer, master = self.process.consumer, self._machine.master
        if not consumer.is_member:
            return 0
        return sum(master.status(number) is Status.ACCEPTED for number in range(consumer.next_out, master.next))

    # ---- inputs of the automata

    def _apply(self, entry: Entry) -> None:
        self.process.apply(self._loop.time(), entry)
        self.soon()

    def _on_primary(self, view: View | None) -> None:
        if self._order.me != self.me:
            self._fail(RuntimeError(f"the replica began again as {self._order.me}: start this member again"))
            return
        self.process.primary_changed(self._loop.time(), is_in=view is not None)
        self.soon()

    def _on_datagrams(self, datagrams: list[bytes]) -> None:
        if self.is_stopped:
            return
        now, me = self._loop.time(), self.me
        try:
            for datagram in datagrams:
                opened = self.codec.open(datagram)
                if opened is None or opened[0] == me:  # a multicast comes back to its sender
                    continue
                sender, packet = opened
                if not isinstance(packet, DataPacket) or self._takes(packet):
                    self.process.received(now, sender, packet)
            self._perform()
        except OSError as error:
            self._fail(error)
        else:
            self._set_timer()

    def _takes(self, packet: DataPacket) -> bool:
        """Whether there is room for a packet. All packets but the last have the same length."""
        has_length = len(packet.payload) == PACKET_LEN or (packet.is_end and len(packet.payload) < PACKET_LEN)
        return has_length and self._listener.has_room

    def soon(self) -> None:
        """Perform effects in the next turn of the loop: the caller is inside the replica."""
        if not self.is_stopped and self.endpoint is not None:
            self._loop.call_soon(self.run)

    def run(self) -> None:
        if self.is_stopped:
            return
        flow, endpoint = self.flow, self.endpoint
        flow.is_blocked = endpoint is not None and endpoint.is_blocked
        flow.was_blocked |= flow.is_blocked
        try:
            self.process.tick(self._loop.time())
            self._perform()
            self._listener.on_turn()
        except OSError as error:
            self._fail(error)
        else:
            self._set_timer()

    def _fail(self, error: Exception) -> None:
        """The spool cannot be written or read, or the replica has another identity: this member stops."""
        log.critical("this member stops: %s", error)
        self.stop()
        self._listener.on_failed(error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.process.next_deadline()
        self._timer = None if deadline == inf else self._loop.call_at(deadline, self.run)

    # ---- effects

    def _perform(self) -> None:
        while True:
            batch: list[bytes] = []  # consecutive multicasts, which leave together
            self._spool.flush()
            for effect in self.process.take():
                if type(effect) is Multicast:
                    self._local.append(effect.packet)
                    batch.append(self.codec.seal(effect.packet))
                else:
                    self._perform_one(effect)
            if batch and self.endpoint is not None:
                self.endpoint.multicast(batch, self._addresses(self._peers()))
            if not self._local:
                return
            for number, message in self.process.producer.retained.items():
                if isinstance(message.source, OutgoingFile):
                    self._spool.adopt(number, message.source)
            while self._local:
                self.process.received(self._loop.time(), self.me, self._local.popleft())

    def _perform_one(self, effect: Effect) -> None:
        assert self.endpoint is not None
        match effect:
            case SendTo(to, packet):
                if to == self.me:
                    self._local.append(packet)
                else:
                    self.endpoint.send([self.codec.seal(packet)], self._addresses([to.name]))
            case Propose(entry):
                self._submit(entry)
            case DeliverMessage(number, producer):
                self._listener.on_delivered(number, producer)
            case Discard(number):
                self._spool.discard(number)
            case MessageResolved(request, number, outcome):
                self._listener.on_resolved(request, number, outcome)
            case ReceivedByAll(request):
                self._listener.on_everywhere(request)
            case MissedMessages(reason):
                self._listener.on_missed(reason)
            case Joined(first):
                self._listener.on_joined(first)
            case _:
                pass

    def _submit(self, entry: Entry) -> None:
        try:
            self._order.submit(_encode(entry))
        except (Full, NotDelivered) as error:
            log.debug("%s was not submitted and will be repeated: %s", entry, error)

    def _peers(self) -> list[str]:
        """The members of the web and of the primary view, without this one."""
        master, members = self.process.context.master, self.process.context.statuses.members
        names = dict.fromkeys(member.name for member in (*members, *master.primary, *master.members))
        names.pop(self.me.name, None)
        return list(names)

    def _addresses(self, names: list[str]) -> list[str]:
        return [address for name in names if (address := self._order.address_of(name)) is not None]
