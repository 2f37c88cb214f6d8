"""What a member knows of the master: the status of messages, learned from the headers of packets.

Paper: Freier and Marzullo, TR 90-1141, fig. 3, `status` and `nextIn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.bulk.packets import T_MAX, Header, RecentMessage, Status

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
        self.slots: dict[int, RecentMessage] = {}
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

    def is_lost(self, number: int) -> bool:
        """Whether this member missed the final status of a message: headers no longer have it."""
        return number < self.next - T_MAX and self.status(number) in (None, PENDING)

    def forget_below(self, base: int) -> None:
        """Drops statuses below `base`, but none that a header still has: a producer may wait for it."""
        base = min(base, self.next - T_MAX)
        for number in range(self.base, base):
            self.slots.pop(number, None)
        self.base = max(self.base, base)

    def header(self, parameters: Parameters) -> Header:
        """The header of a packet of this member: the newest consecutive statuses that it knows."""
        recent = []
        for number in range(self.next - 1, self.next - 1 - T_MAX, -1):
            slot = self.slots.get(number)
            if slot is None:
                break
            recent.append(slot)
        return Header(self.session, self.next, tuple(recent), parameters)
