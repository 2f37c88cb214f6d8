"""A process of the multicast transport: producer, consumer, coordinator and its replica of the master.

Inputs are method calls with the time; outputs are the effects that `take` returns, to be performed in order. The
replica of the master changes only through `apply`, which the runtime calls for each entry of the total order.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from cluster.bulk.consumer import Consumer
from cluster.bulk.coordinator import Coordinator
from cluster.bulk.effects import BulkContext
from cluster.bulk.message_statuses import MessageStatuses
from cluster.bulk.packets import (
    Complete,
    DataPacket,
    EmptyPacket,
    JoinConfirm,
    JoinRequest,
    Nak,
    NakDeny,
    ProgressReport,
    ShortHeader,
    TokenGrant,
    TokenRequest,
)
from cluster.bulk.producer import Producer
from cluster.bulk.repairs import Repairs

if TYPE_CHECKING:
    from cluster.bulk.effects import Effect, MessageSource, Spool
    from cluster.bulk.flow_control import FlowControl
    from cluster.bulk.master import Entry, Master
    from cluster.bulk.packets import AnyPacket
    from cluster.layer import RandomSource
    from cluster.names import ProcessId


class BulkProcess:
    """One member of the web."""

    __slots__ = ("consumer", "context", "coordinator", "producer", "repairs")

    def __init__(
        self,
        me: ProcessId,
        master: Master,
        flow: FlowControl,
        spool: Spool,
        chance: RandomSource,
        *,
        start: int = 0,
        with_state: bool = False,
    ) -> None:
        """`start`: higher than every attempt to join and every request of an earlier process of this name."""
        self.context = BulkContext(me, chance, master, MessageStatuses(master.session), flow, spool)
        self.producer = Producer(self.context, start)
        self.consumer = Consumer(self.context, start + 1, with_state=with_state)
        self.repairs = Repairs(self.context, self.consumer.complete_packets)
        self.coordinator = Coordinator(self.context)

    # ---- inputs

    def tick(self, now: float) -> None:
        self.context.now = now
        self.consumer.tick()
        self.producer.tick(is_member=self.consumer.is_member)
        self.repairs.tick()
        if self.coordinator.is_active:
            self.coordinator.tick()

    def send(self, now: float, source: MessageSource, rate_min: float = 0.0, rate_max: float = inf) -> int:
        """Rates are packets per second. A consumer slower than `rate_min` falls behind; with 0 it slows all."""
        self.context.now = now
        return self.producer.send(source, rate_min, rate_max)

    def apply(self, now: float, entry: Entry) -> None:
        """Applies the next entry of the total order."""
        context = self.context
        context.now = now
        was_active = self.coordinator.is_active
        context.master.apply(entry)
        if self.coordinator.is_active != was_active:
            self.coordinator.reset()
        if self.coordinator.is_active:
            self.coordinator.applied(entry)

    def primary_changed(self, now: float, *, is_in: bool) -> None:
        """This process entered the primary view and has all entries before it, or is in none any more."""
        self.context.now = now
        self.context.in_primary = is_in
        self.coordinator.reset()

    def state_received(self, now: float, first: int) -> None:
        """The application was given the state before message `first`."""
        self.context.now = now
        self.consumer.on_state(first)

    def received(self, now: float, sender: ProcessId, packet: AnyPacket) -> None:
        context = self.context
        context.now = now
        if packet.header.session != context.statuses.session:
            return
        header, statuses = packet.header, context.statuses
        if statuses.learn_short(header) if isinstance(header, ShortHeader) else statuses.learn(header):
            self.producer.on_status()
            self.consumer.on_status()
        self._dispatch(sender, packet)

    def _dispatch(self, sender: ProcessId, packet: AnyPacket) -> None:
        match packet:
            case DataPacket():
                self.consumer.on_data(sender, packet)
                self.coordinator.on_producer(packet.number)
            case EmptyPacket():
                self.consumer.on_empty(sender, packet)
                self.coordinator.on_producer(packet.number)
            case Nak():
                if not self.producer.on_nak(sender, packet):
                    self.repairs.on_nak(sender, packet)
            case NakDeny():
                self.consumer.on_deny(sender, packet)
                if self.coordinator.is_active:
                    self.coordinator.on_deny(sender, packet.number)
            case ProgressReport():
                self.producer.on_progress(sender, packet)
            case TokenGrant():
                self.producer.on_grant(packet)
            case JoinConfirm():
                self.consumer.on_confirm(packet)
            case TokenRequest() | JoinRequest() | Complete() if self.coordinator.is_active:
                self._for_coordinator(sender, packet)

    def _for_coordinator(self, sender: ProcessId, packet: TokenRequest | JoinRequest | Complete) -> None:
        match packet:
            case TokenRequest():
                self.coordinator.on_request(sender, packet)
            case JoinRequest():
                self.coordinator.on_join(sender, packet)
            case Complete():
                self.coordinator.on_complete(sender, packet)

    # ---- outputs

    def take(self) -> list[Effect]:
        """Returns the effects of the inputs since the last call."""
        outbox, self.context.outbox = self.context.outbox, []
        return outbox

    def next_deadline(self) -> float:
        deadline = min(self.consumer.next_deadline(), self.producer.next_deadline(), self.repairs.next_deadline())
        return min(deadline, self.coordinator.next_deadline()) if self.coordinator.is_active else deadline
