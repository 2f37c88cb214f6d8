"""Statuses of messages as one member knows them, learned from the packet headers that the master writes.

Paper: Freier and Marzullo, TR 90-1141, fig. 3, `status` and `nextIn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.bulk.packets import T_MAX, Header, RecentMessage, ShortHeader, Status

if TYPE_CHECKING:
    from cluster.bulk.packets import Parameters
    from cluster.names import ProcessId

PENDING = Status.PENDING


class MessageStatuses:
    """Known statuses from `base` on. A final status never changes again. `version` counts the changes."""

    __slots__ = ("_short", "_short_heard", "base", "members", "next", "session", "slots", "version")

    def __init__(self, session: int) -> None:
        self.session = session
        self.next = 1
        self.base = 1
        self.slots: dict[int, RecentMessage] = {}
        self.members: tuple[ProcessId, ...] = ()
        self.version = 0
        self._short: ShortHeader | None = None  # of the data packets that this member sends now
        self._short_heard: ShortHeader | None = None  # the last one that was received

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
        return self._changed() if news else False

    def learn_short(self, header: ShortHeader) -> bool:
        """Merges the statuses of a data packet: decisions on messages that are known. Returns whether some were new."""
        if header is self._short_heard:
            return False
        self._short_heard = header
        news = header.next > self.next
        self.next = max(self.next, header.next)
        for at, status in enumerate(header.statuses):
            if status is Status.ACCEPTED or status is Status.REJECTED:
                known = self.slots.get(header.next - 1 - at)
                if known is not None and known.status is PENDING:
                    self.slots[header.next - 1 - at] = RecentMessage(status, known.producer)
                    news = True
        return self._changed() if news else False

    def _changed(self) -> bool:
        self.version += 1
        self._short = None
        return True

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

    def short_header(self, parameters: Parameters) -> ShortHeader:
        """The header of a data packet of this member. The same object while nothing changes."""
        if self._short is None or self._short.parameters != parameters:
            numbers = range(self.next - 1, max(0, self.next - 1 - T_MAX), -1)
            self._short = ShortHeader(self.session, self.next, tuple(map(self.status, numbers)), parameters)
        return self._short
