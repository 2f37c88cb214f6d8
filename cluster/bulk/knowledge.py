"""What a member knows of the master: the status of messages, learned from the headers of packets.

Paper: Freier and Marzullo, TR 90-1141, fig. 3, `status` and `nextIn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.bulk.packets import Header, Slot, Status

if TYPE_CHECKING:
    from cluster.bulk.packets import Parameters
    from cluster.names import ProcessId

PENDING = Status.PENDING


class Knowledge:
    """Known statuses from `base` on. A final status never changes again."""

    __slots__ = ("base", "members", "next", "session", "slots")

    def __init__(self, session: int) -> None:
        self.session = session
        self.next = 1
        self.base = 1
        self.slots: dict[int, Slot] = {}
        self.members: tuple[ProcessId, ...] = ()

    def learn(self, header: Header) -> bool:
        """Merges the statuses of a header. Returns whether something was new."""
        news = header.next > self.next
        self.next = max(self.next, header.next)
        for number, slot in header.slots():
            if number >= self.base:
                known = self.slots.get(number)
                if known is None or (known.status is PENDING and slot.status is not PENDING):
                    self.slots[number] = slot
                    news = True
        return news

    def status(self, number: int) -> Status | None:
        slot = self.slots.get(number)
        return slot.status if slot is not None else None

    def forget_below(self, base: int) -> None:
        for number in range(self.base, base):
            self.slots.pop(number, None)
        self.base = max(self.base, base)

    def header(self, parameters: Parameters, recent_max: int) -> Header:
        """The header of a packet of this member: the newest consecutive statuses that it knows."""
        recent = []
        for number in range(self.next - 1, self.next - 1 - recent_max, -1):
            slot = self.slots.get(number)
            if slot is None:
                break
            recent.append(slot)
        return Header(self.session, self.next, tuple(recent), parameters)
