"""AB: specification of the multicast transport. Members deliver one sequence of accepted messages.

Paper: Freier and Marzullo, TR 90-1141, appendix: AB-1, AB-2, L1 to L3, I1 and I2. `a0` and `r0` are the messages that
the master accepted and rejected, in its ordered state; M, A and R are kept for each member. Changes of the membership
are accepted messages (section 5.3).
Departs: a member that joins by message `first` delivers from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.bulk.packets import T_MAX, Status
from cluster.specs.spec import Violation

if TYPE_CHECKING:
    from cluster.bulk.master import Master
    from cluster.names import ProcessId


class MemberHistory:
    """The messages that a member delivered and marked since it joined last."""

    __slots__ = ("accepted", "delivered", "first", "rejected")

    def __init__(self, first: int) -> None:
        self.first = first
        self.delivered: list[int] = []  # M
        self.accepted: set[int] = set()  # A
        self.rejected: set[int] = set()  # R


class AtomicMulticastSpec:
    """Checks every step of a run. Raises `Violation` at the first step that the specification does not allow."""

    NAME = "AB"

    def __init__(self) -> None:
        self.sent: dict[int, tuple[ProcessId, bytes]] = {}
        self.holders: dict[int, ProcessId] = {}
        self.tokens: dict[tuple[ProcessId, int, int], int] = {}  # by holder, the message it joined by, and request
        self.attempts: dict[str, int] = {}  # of the present members, by name
        self.coordinator: ProcessId | None = None
        self.a0: set[int] = set()
        self.r0: set[int] = set()
        self.webs: dict[int, tuple[ProcessId, ...]] = {}  # the members after each message that changes them
        self.states: dict[int, list[int]] = {}  # the state of the application at each of these messages
        self.histories: dict[ProcessId, MemberHistory] = {}

    def require(self, holds: bool, clause: str, *details: object) -> None:
        if not holds:
            raise Violation(self.NAME, clause, details)

    # ---- the master

    def ordered(self, master: Master) -> None:
        """The ordered state of the master, after each entry."""
        if master.coordinator != self.coordinator:
            self.coordinator = master.coordinator
            self.require(
                not master.pending(), "section 5.2: a new coordinator rejects what is pending", self.coordinator
            )
        self._members_and_tokens(master)
        is_pending = len(master.recent) == T_MAX and master.recent[-1].status is Status.PENDING
        self.require(not is_pending, "section 3.2: the earliest of the t messages is accepted or rejected", master.next)
        for at, slot in enumerate(master.recent):
            number = master.next - 1 - at
            holder = self.holders.setdefault(number, slot.producer)
            self.require(holder == slot.producer, "a token has one holder", number)
            if slot.status is Status.REJECTED:
                self.r0.add(number)
            elif slot.status is not Status.PENDING:
                self.a0.add(number)
                if slot.status is not Status.ACCEPTED:
                    self.webs.setdefault(number, master.members)
            self.require(not (number in self.a0 and number in self.r0), "L2 at the master: a decision is final", number)

    def _members_and_tokens(self, master: Master) -> None:
        """A process that was removed is forgotten: when it joins again, it may get a token for the same request."""
        attempts = {member.name: joined.attempt for member, joined in master.joined.items()}
        replaced = [name for name, attempt in attempts.items() if attempt < self.attempts.get(name, attempt)]
        self.require(not replaced, "an earlier process does not replace a later one that is a member", replaced)
        self.attempts = attempts
        for producer, (request, number) in master.granted.items():
            first = master.joined[producer].first
            granted = self.tokens.setdefault((producer, first, request), number)
            self.require(granted == number, "a request of a member gets one token", producer, request, number)

    def send(self, producer: ProcessId, number: int, content: bytes) -> None:
        self.require(self.holders.get(number) == producer, "a producer sends under its own token", producer, number)
        self.sent[number] = (producer, content)

    def accept(self, number: int, having: int, voters: int) -> None:
        """The master was told to accept a message that `having` of the `voters` have."""
        if number in self.a0:
            self.require(2 * having > voters, "an accepted message survives the crash of a minority", number, having)

    # ---- members

    def join(self, member: ProcessId, first: int) -> None:
        self.histories[member] = MemberHistory(first)

    def learn(self, member: ProcessId, number: int, status: Status) -> None:
        """The member marked a message as accepted or rejected, or (which it must not) as pending again."""
        history = self.histories.get(member)
        if history is None or number < history.first:
            return
        self.require(status is not Status.PENDING, "L2: a mark is final", member, number)
        is_rejected = status is Status.REJECTED
        (history.rejected if is_rejected else history.accepted).add(number)
        self.require(
            number in (self.r0 if is_rejected else self.a0),
            "I1: a member marks only what the master has decided", member, number, status,
        )  # fmt: skip
        self.require(not (number in history.accepted and number in history.rejected), "L2: one status", member, number)

    def deliver(self, member: ProcessId, number: int, content: bytes) -> None:
        self._next(member, number)
        sent = self.sent.get(number, (None, None))[1]
        self.require(sent == content, "the content is what its producer sent", member, number)

    def change_members(
        self, member: ProcessId, number: int, members: tuple[ProcessId, ...], state: list[int] | None
    ) -> None:
        """The member delivered a change of the membership. `state`: what its application has, if that is shared."""
        self._next(member, number)
        self.require(self.webs.get(number) == members, "section 5.3: members agree on the membership", member, number)
        if state is not None:
            known = self.states.setdefault(number, list(state))
            self.require(known == state, "fig. 6: a joining process has the state of the others", member, number)

    def _next(self, member: ProcessId, number: int) -> None:
        self.require(member in self.histories, "only members deliver", member, number)
        history = self.histories[member]
        last = history.delivered[-1] if history.delivered else history.first - 1
        self.require(number > last, "L1 and L3: numbers increase, nothing is delivered twice", member, number, last)
        skipped = [m for m in range(last + 1, number) if m not in history.rejected]
        self.require(not skipped, "L3: what a member skips it has marked as rejected", member, number, skipped)
        self.require(number in self.a0, "AB-1: only accepted messages are delivered", member, number)
        lost = [m for m in range(last + 1, number) if m in self.a0]
        self.require(not lost, "I2: no accepted message is passed over", member, number, lost)
        history.delivered.append(number)

    def discard(self, member: ProcessId, number: int, *, is_recent: bool) -> None:
        """A member drops a message that it reported as complete. `is_recent`: others may still have to be repaired."""
        self.require(
            number in self.r0 or not is_recent, "a member keeps what it reported as complete", member, number
        )  # fmt: skip

    def bounded(self, member: ProcessId, messages: int, limit: int) -> None:
        """Checks how many messages a member holds at the same time."""
        self.require(messages <= limit, "the memory of a member is bounded", member, messages)

    # ---- outcomes and liveness

    def resolved(self, producer: ProcessId, number: int, status: Status) -> None:
        """A producer learned the outcome of its message."""
        decided = self.a0 if status is Status.ACCEPTED else self.r0
        self.require(number in decided, "a producer learns what the master decided", producer, number, status)

    def received_by_all(self, producer: ProcessId, number: int, without: list[ProcessId]) -> None:
        """A producer was told that all members delivered its message. `without`: those that did not."""
        self.require(not without, "a sender that waits for all members waits for all", producer, number, without)

    def at_rest(self, member: ProcessId) -> None:
        """After the faults: a connected member has delivered everything that was accepted since it joined."""
        history = self.histories.get(member)
        self.require(history is not None, "AB-2: a connected process is a member", member)
        if history is not None:
            missing = [n for n in self.a0 if n >= history.first and n not in history.delivered]
            self.require(not missing, "AB-2: a connected member delivers every accepted message", member, missing[:5])
