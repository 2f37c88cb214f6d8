"""Master of the transport: grants tokens and decides which messages are accepted. A replicated state machine.

Paper: Freier and Marzullo, TR 90-1141, fig. 1 and section 5. State variables keep the paper's names. Every change is
an entry of the total order, so that a decision is ordered before any packet announces it. The lowest-ranked member of
the primary view is the coordinator: it talks to producers and consumers, and proposes entries (`coordinator`). When it
leaves the view, all pending messages are rejected, at the same place of the order everywhere.
Departs: a grant is refused unless it continues the requests of its producer, so that a repeated request gets one token.
A process joins by a message of its own: the number of that message separates the state that it is given from the
messages that it receives, so that tokens are granted meanwhile (fig. 6 stops them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.bulk.packets import T_MAX, RecentMessage, Status
from cluster.names import ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable

RAISE_AFTER = 4  # accepted messages in a row that used the last token, before there is one token more


class Grant(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Give the next number to message `request` of this producer."""

    producer: ProcessId
    request: int


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Accept this message if `holders`, the members that have all of its packets, are a majority now.

    Void unless the primary view is still number `view`: a holder that was away may have restarted without the packets.
    """

    number: int
    holders: tuple[ProcessId, ...]
    view: int


class Reject(msgspec.Struct, frozen=True, array_like=True, tag=3):
    number: int


class AddMember(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """This process is a member from the next message on."""

    member: ProcessId
    attempt: int
    with_state: bool


class MarkReady(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The process that joined by this message has the state before it."""

    member: ProcessId
    first: int


class RemoveMember(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Remove this process, if it has not joined again since message `first`."""

    member: ProcessId
    first: int


class ChangeView(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The primary view changed. Its members are in rank order."""

    members: tuple[ProcessId, ...]


Entry = Grant | Accept | Reject | AddMember | MarkReady | RemoveMember | ChangeView


class MemberRecord(msgspec.Struct, frozen=True, array_like=True):
    """How a process became a member."""

    attempt: int
    first: int  # the message by which it joined
    members: tuple[ProcessId, ...]  # after that message
    giver: ProcessId | None  # gives it the state
    is_ready: bool  # it has the state


class Master:
    """State of the master, equal at every replica at the same position of the order.

    Invariants: `recent` has at most T_MAX slots, newest first; the oldest of T_MAX slots is decided; a slot changes
    from pending to accepted or rejected, once.
    """

    __slots__ = ("coordinator", "granted", "joined", "next", "primary", "recent", "session", "streak", "t_cur",
                 "views")  # fmt: skip

    def __init__(self, session: int) -> None:
        self.session = session
        self.t_cur = 2  # the most tokens outstanding now, 1 .. T_MAX - 1
        self.streak = 0  # accepted messages in a row that used the last token
        self.next = 1  # the number of the next message
        self.recent: list[RecentMessage] = []
        self.granted: dict[ProcessId, tuple[int, int]] = {}  # producer: its last request, and the number it got
        self.joined: dict[ProcessId, MemberRecord] = {}  # in the order of joining
        self.primary: tuple[ProcessId, ...] = ()
        self.views = 0  # primary views so far
        self.coordinator: ProcessId | None = None

    @property
    def members(self) -> tuple[ProcessId, ...]:
        return tuple(self.joined)

    def apply(self, entry: Entry) -> None:
        match entry:
            case Grant(producer, request):
                self._grant(producer, request)
            case Accept(number, holders, view):
                if view == self.views and self.can_accept(number, holders):
                    self._decide(number, Status.ACCEPTED)
            case Reject(number):
                self._decide(number, Status.REJECTED)
            case AddMember(member, attempt, with_state):
                self._join(member, attempt, with_state=with_state)
            case MarkReady(member, first):
                self._ready(member, first)
            case RemoveMember(member, first):
                self._leave(member, first)
            case ChangeView(members):
                self._change_view(members)

    # ---- what is allowed

    def can_grant(self, producer: ProcessId, request: int) -> bool:
        """Whether a token may be granted now: a new request of a member, and a free token."""
        is_new = request > self.granted.get(producer, (0, 0))[0]
        return producer in self.joined and is_new and len(self.pending()) < self.t_cur and self._has_room()

    def can_accept(self, number: int, holders: Iterable[ProcessId]) -> bool:
        """Whether the message has enough copies: it survives the crash of any minority."""
        voters = self.voters(number)
        return 2 * len(voters.intersection(holders)) > len(voters)

    def can_join(self, member: ProcessId, attempt: int, *, with_state: bool) -> bool:
        """Whether the process may join now: with the state only if a member can give it, or no member has it."""
        is_new = all(attempt > one.attempt for p, one in self.joined.items() if p.name == member.name)
        able = not with_state or self._giver(member) is not None or not self._holders(member)
        return is_new and able and self._has_room()

    def status(self, number: int) -> Status | None:
        """The status of a recent message; None if it was never granted or is too old."""
        at = self.next - 1 - number
        return self.recent[at].status if 0 <= at < len(self.recent) else None

    def voters(self, number: int) -> set[ProcessId]:
        """The members of the primary view that receive this message: a majority of them has to have it."""
        joined = ((p, self.joined.get(p)) for p in self.primary)
        return {p for p, one in joined if one is not None and one.is_ready and one.first <= number}

    def pending(self) -> list[tuple[int, ProcessId]]:
        """The undecided messages and their producers, oldest first."""
        slots = [(self.next - 1 - at, slot) for at, slot in enumerate(self.recent)]
        return [(number, slot.producer) for number, slot in reversed(slots) if slot.status is Status.PENDING]

    def _has_room(self) -> bool:
        """Fig. 1: status(t - 1) is not pending. So a decision is in the headers at least until the next grant."""
        at = T_MAX - 2
        return len(self.recent) <= at or self.recent[at].status is not Status.PENDING

    def _holders(self, member: ProcessId) -> list[ProcessId]:
        """The members that have the state, without `member` and its earlier incarnations."""
        return [p for p, one in self.joined.items() if one.is_ready and p.name != member.name]

    def _giver(self, member: ProcessId) -> ProcessId | None:
        return min((p for p in self._holders(member) if p in self.primary), default=None)

    # ---- transitions

    def _add(self, slot: RecentMessage) -> None:
        self.recent.insert(0, slot)
        del self.recent[T_MAX:]
        self.next += 1

    def _grant(self, producer: ProcessId, request: int) -> None:
        if self.can_grant(producer, request):
            self.granted[producer] = (request, self.next)
            self._add(RecentMessage(Status.PENDING, producer))

    def _decide(self, number: int, status: Status) -> None:
        if self.status(number) is Status.PENDING:
            self._adapt_tokens(status)
            at = self.next - 1 - number
            self.recent[at] = RecentMessage(status, self.recent[at].producer)

    def _adapt_tokens(self, status: Status) -> None:
        """Section 5.1: a token more while all are used and nothing fails; half of them after a failure."""
        if status is Status.REJECTED:
            self.t_cur, self.streak = max(1, self.t_cur // 2), 0
        elif len(self.pending()) >= self.t_cur:
            self.streak += 1
            if self.streak >= RAISE_AFTER:
                self.t_cur, self.streak = min(T_MAX - 1, self.t_cur + 1), 0

    def _join(self, member: ProcessId, attempt: int, *, with_state: bool) -> None:
        if not self.can_join(member, attempt, with_state=with_state):
            self._receives_no_more(member, attempt)
            return
        giver = self._giver(member) if with_state else None
        is_founder = with_state and giver is None
        for other in [p for p in self.joined if p != member and (is_founder or p.name == member.name)]:
            self._remove(other)
        self.joined.pop(member, None)
        members = (*self.joined, member)
        self.joined[member] = MemberRecord(attempt, self.next, members, giver, is_ready=giver is None)
        self._add(RecentMessage(Status.FOUNDED if is_founder else Status.JOINED, member, giver))

    def _receives_no_more(self, member: ProcessId, attempt: int) -> None:
        """A member that wants to join again has no vote meanwhile: the decision it waits for may need its vote."""
        joined = self.joined.get(member)
        if joined is not None and attempt > joined.attempt:
            self.joined[member] = msgspec.structs.replace(joined, is_ready=False)

    def _ready(self, member: ProcessId, first: int) -> None:
        joined = self.joined.get(member)
        if joined is not None and joined.first == first:
            self.joined[member] = msgspec.structs.replace(joined, is_ready=True)

    def _leave(self, member: ProcessId, first: int) -> None:
        joined = self.joined.get(member)
        if joined is not None and joined.first == first and self._has_room():
            self._remove(member)
            self._add(RecentMessage(Status.LEFT, member))

    def _remove(self, member: ProcessId) -> None:
        del self.joined[member]
        self.granted.pop(member, None)
        for number, producer in self.pending():
            if producer == member:
                self._decide(number, Status.REJECTED)

    def _change_view(self, members: tuple[ProcessId, ...]) -> None:
        self.primary = members
        self.views += 1
        coordinator = min(members, default=None)
        if coordinator != self.coordinator:
            self.coordinator = coordinator
            for number, _ in self.pending():
                self._decide(number, Status.REJECTED)
