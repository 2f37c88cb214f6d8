"""Master of the transport: grants tokens and decides which messages are accepted. A replicated state machine.

Paper: Freier and Marzullo, TR 90-1141, fig. 1 and section 5.2. State variables keep the paper's names. Every change is
an entry of the total order, so that a decision is ordered before any packet announces it. The lowest-ranked member of
the primary view is the coordinator: it talks to producers and consumers, and proposes entries (`coordinator`). When it
leaves the view, all pending messages are rejected, at the same place of the order everywhere.
Departs: a grant is refused unless it continues the requests of its producer, so that a repeated request gets one token.
"""

from __future__ import annotations

import msgspec

from cluster.bulk.packets import Slot, Status
from cluster.names import ProcessId

T_MAX = 8  # messages whose status is in a header; the most tokens at a time (t_max of section 5.1)


class Grant(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Give the next number to message `request` of this producer."""

    producer: ProcessId
    request: int


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=2):
    number: int


class Reject(msgspec.Struct, frozen=True, array_like=True, tag=3):
    number: int


class Join(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """This process is a member from the next message on."""

    member: ProcessId
    attempt: int


class Leave(msgspec.Struct, frozen=True, array_like=True, tag=5):
    member: ProcessId


class PrimaryView(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The primary view changed. Its members are in rank order."""

    members: tuple[ProcessId, ...]


Entry = Grant | Accept | Reject | Join | Leave | PrimaryView


class Master:
    """State of the master, equal at every replica at the same position of the order.

    Invariants: `recent` has at most T_MAX slots, newest first; the oldest of T_MAX slots is decided before another is
    added; a slot changes from pending to accepted or rejected, once.
    """

    __slots__ = ("coordinator", "granted", "joined", "members", "next", "primary", "recent", "session", "t_cur")

    def __init__(self, session: int, t_cur: int = 2) -> None:
        self.session = session
        self.t_cur = t_cur  # the most tokens outstanding now, 1 .. T_MAX
        self.next = 1  # the number of the next message
        self.recent: list[Slot] = []
        self.granted: dict[ProcessId, tuple[int, int]] = {}  # producer: its last request, and the number it got
        self.joined: dict[ProcessId, tuple[int, int]] = {}  # member: its last attempt to join, and its first message
        self.members: tuple[ProcessId, ...] = ()
        self.primary: tuple[ProcessId, ...] = ()
        self.coordinator: ProcessId | None = None

    def apply(self, entry: Entry) -> None:
        match entry:
            case Grant(producer, request):
                self._grant(producer, request)
            case Accept(number):
                self._decide(number, Status.ACCEPTED)
            case Reject(number):
                self._decide(number, Status.REJECTED)
            case Join(member, attempt):
                self._join(member, attempt)
            case Leave(member):
                self._leave(member)
            case PrimaryView(members):
                self._change_view(members)

    def can_grant(self, producer: ProcessId, request: int) -> bool:
        """Whether a token may be granted now: a new request of a member, and a free token."""
        pending = sum(slot.status is Status.PENDING for slot in self.recent)
        is_new = request > self.granted.get(producer, (0, 0))[0]
        oldest_decided = len(self.recent) < T_MAX or self.recent[-1].status is not Status.PENDING
        return producer in self.members and is_new and pending < self.t_cur and oldest_decided

    def status(self, number: int) -> Status | None:
        """The status of a recent message; None if it was never granted or is too old."""
        at = self.next - 1 - number
        return self.recent[at].status if 0 <= at < len(self.recent) else None

    def voters(self, number: int) -> set[ProcessId]:
        """The members of the primary view that receive this message: a majority of them has to have it."""
        return {p for p in self.primary if p in self.members and self.joined[p][1] <= number}

    def pending(self) -> list[tuple[int, ProcessId]]:
        """The undecided messages and their producers, oldest first."""
        slots = [(self.next - 1 - at, slot) for at, slot in enumerate(self.recent)]
        return [(number, slot.producer) for number, slot in reversed(slots) if slot.status is Status.PENDING]

    def _grant(self, producer: ProcessId, request: int) -> None:
        if self.can_grant(producer, request):
            self.recent.insert(0, Slot(Status.PENDING, producer))
            del self.recent[T_MAX:]
            self.granted[producer] = (request, self.next)
            self.next += 1

    def _decide(self, number: int, status: Status) -> None:
        if self.status(number) is Status.PENDING:
            at = self.next - 1 - number
            self.recent[at] = Slot(status, self.recent[at].producer)

    def _join(self, member: ProcessId, attempt: int) -> None:
        if attempt > self.joined.get(member, (0, 0))[0]:
            for other in [other for other in self.members if other.name == member.name and other != member]:
                self._leave(other)  # an earlier incarnation of the same process
            if member not in self.members:
                self.members = (*self.members, member)
            self.joined[member] = (attempt, self.next)

    def _leave(self, member: ProcessId) -> None:
        self.members = tuple(other for other in self.members if other != member)
        self.granted.pop(member, None)
        self.joined.pop(member, None)
        for number, producer in self.pending():
            if producer == member:
                self._decide(number, Status.REJECTED)

    def _change_view(self, members: tuple[ProcessId, ...]) -> None:
        self.primary = members
        coordinator = min(members, default=None)
        if coordinator != self.coordinator:
            self.coordinator = coordinator
            for number, _ in self.pending():
                self._decide(number, Status.REJECTED)
