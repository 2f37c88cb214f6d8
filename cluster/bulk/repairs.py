"""Repairs: a member that has a complete message resends packets of it to members that ask for them, or denies.

The producer of an accepted message may be gone, and a member that was cut off may miss most of the message. So packets
wait in a queue, and leave at a steady rate of PACE packets per heartbeat, or the window of this process if that is
smaller. An overrun of the receiver would not be noticed: it does not count losses among repairs.
"""

from __future__ import annotations

from itertools import islice
from math import ceil, inf
from typing import TYPE_CHECKING

from cluster.bulk.packets import NAK_RANGES_MAX, DataPacket, EmptyPacket, NakDeny

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.bulk.effects import BulkContext
    from cluster.bulk.packets import Nak
    from cluster.names import ProcessId

PACE = 64  # packets per heartbeat
SLICES = 8  # they leave in this many bursts
QUEUE_MAX = 4096  # packets that wait


class Repairs:
    """Packets that other members asked this member for."""

    __slots__ = ("_complete_packets", "_context", "_due_at", "_queue", "sent")

    def __init__(self, context: BulkContext, complete_packets: Callable[[int], int | None]) -> None:
        """`complete_packets`: the number of packets of a message if this process has all of them, else None."""
        self._context = context
        self._complete_packets = complete_packets
        self._queue: dict[tuple[ProcessId, int, int], None] = {}  # (to, message, packet), in the order of the NAKs
        self._due_at = -inf  # when the next burst leaves
        self.sent = 0  # packets

    def on_nak(self, sender: ProcessId, nak: Nak) -> None:
        header = self._context.statuses.header(self._context.flow.parameters)
        packets = self._complete_packets(nak.number)
        if packets is None:
            self._context.send(sender, NakDeny(header, nak.number))
            return
        self._context.send(sender, EmptyPacket(header, nak.number, packets, True))  # first: it names this process
        for first, end in nak.ranges[:NAK_RANGES_MAX]:
            for packet in range(first, min(end, packets)):
                if len(self._queue) >= QUEUE_MAX:
                    return
                self._queue[sender, nak.number, packet] = None

    def tick(self) -> None:
        context, flow = self._context, self._context.flow
        if not self._queue or context.now < self._due_at:
            return
        self._due_at = context.now + flow.heartbeat_s / SLICES
        if flow.is_blocked:
            return
        header = context.statuses.short_header(flow.parameters)
        for key in list(islice(self._queue, ceil(min(PACE, flow.window) / SLICES))):
            del self._queue[key]
            to, number, packet = key
            packets = self._complete_packets(number)
            if packets is not None:  # else it was discarded meanwhile
                is_end = packet == packets - 1
                payload = context.spool.read(number, packet)
                context.send(to, DataPacket(header, number, packet, is_end, payload))
                self.sent += 1

    def next_deadline(self) -> float:
        return self._due_at if self._queue else inf
