"""REPLICA: specification of the guarantees to the application on top of the total order.

No paper has this specification: they end at the totally ordered broadcast.
- Every submission has exactly one outcome, delivered or refused, and the outcome is true: an entry reported as
  delivered is in the order at the reported position, and a refused entry never enters the order.
- An entry is ordered at most as often as it was submitted.
- Replicas that have applied the same entries have the same state.
- A crash loses the submitters that wait for an outcome; the entries themselves may be ordered or not.
- An entry that a state machine received stays in the order, even if its process crashed at once: no other state machine
  ever receives another entry at that position.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cluster.entries import APPLICATION, Entry
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Applied, CatchUp, Crashed, Deliver, Recovered, Resolved, StateDigest, Submitted
    from cluster.names import Label, ProcessId
    from cluster.specs.total_order import TotalOrderSpec

DIGESTS = 10_000  # number of recent positions whose digests are kept
APPLIED = 100_000  # number of recent positions whose applied entries are kept


class ReplicaSpec(Spec):
    """Checks after `total_order`, whose queue it reads."""

    NAME = "REPLICA"

    def __init__(self, total_order: TotalOrderSpec) -> None:
        super().__init__()
        self.total_order = total_order
        self.waiting: dict[ProcessId, dict[int, bytes]] = {}  # by ticket
        self.open: dict[ProcessId, Counter[bytes]] = {}  # submitted, less ordered, less refused
        self.answered: dict[ProcessId, int] = {}  # the last position reported in this life
        self.caught_up: dict[ProcessId, int] = {}  # the position that p reached by a snapshot in this life
        self.resumes_at: dict[ProcessId, int] = {}  # where a recovered p continues: the state it started from
        self.digests: dict[int, str] = {}
        self.applied: dict[int, tuple[Label, Entry]] = {}  # entries that state machines received, by position
        self._ordered = 0

    def submitted_pre(self, act: Submitted, at: ProcessId) -> None:
        self.require(act.ticket not in self.waiting.get(at, {}), "submit: the ticket is new", act.ticket)

    def submitted_eff(self, act: Submitted, at: ProcessId) -> None:
        self.waiting.setdefault(at, {})[act.ticket] = act.body
        self.open.setdefault(at, Counter())[act.body] += 1

    def resolved_pre(self, act: Resolved, at: ProcessId) -> None:
        body = self.waiting.get(at, {}).get(act.ticket)
        self.require(body is not None, "resolve: the ticket is open", act.ticket)
        assert body is not None
        if not act.delivered:
            self.require(self.open[at][body] > 0, "resolve: a refused entry was not ordered", body)
        elif act.position < 0:
            self.require(at in self.caught_up, "resolve: inside a snapshot only after one", act.ticket)
        else:
            queue = self.total_order.queue
            self.require(
                act.position < self.total_order.next.get(at, 0), "resolve: delivered here before it is reported"
            )
            self.require(
                act.position > self.answered.get(at, -1),
                "resolve: one position resolves one ticket, in order",
                self.answered.get(at),
            )
            if act.position >= queue.low:
                label, entry = queue[act.position]
                self.require(
                    label.origin == at and entry == Entry(APPLICATION, body),
                    "resolve: the entry at this position is the one that was submitted",
                    label,
                    entry,
                    body,
                )

    def resolved_eff(self, act: Resolved, at: ProcessId) -> None:
        body = self.waiting[at].pop(act.ticket)
        if not act.delivered:
            self.branch("resolve: refused")
            self._close(at, body)
            self.total_order.take_back(at, Entry(APPLICATION, body))
        elif act.position < 0:
            self.branch("resolve: inside a snapshot")
        else:
            self.branch("resolve: delivered")
            self.answered[at] = act.position

    def deliver_pre(self, act: Deliver, at: ProcessId) -> None:
        if at in self.resumes_at:
            self.require(
                act.position == self.resumes_at[at],
                "deliver: after a recovery, from the snapshot of p on, or from the beginning",
                self.resumes_at[at],
            )
        if act.position >= self._ordered and act.entry.kind == APPLICATION:
            self.require(
                self.open.get(act.label.origin, Counter())[act.entry.body] > 0,
                "deliver: an entry is ordered at most as often as it was submitted, and never after it was refused",
                act.label,
            )

    def deliver_eff(self, act: Deliver, at: ProcessId) -> None:
        self.resumes_at.pop(at, None)
        if act.position >= self._ordered:
            self._ordered = act.position + 1
            if act.entry.kind == APPLICATION:
                self._close(act.label.origin, act.entry.body)

    def applied_pre(self, act: Applied, _at: ProcessId) -> None:
        known = self.applied.get(act.position)
        if known is not None:
            self.require(
                (act.label, act.entry) == known,
                "apply: at one position, all state machines get the same entry",
                *known,
            )

    def applied_eff(self, act: Applied, _at: ProcessId) -> None:
        if act.position not in self.applied:
            self.applied[act.position] = (act.label, act.entry)
            if len(self.applied) > APPLIED:
                del self.applied[next(iter(self.applied))]

    def catch_up_eff(self, act: CatchUp, at: ProcessId) -> None:
        self.caught_up[at] = act.position
        self.resumes_at.pop(at, None)

    def state_digest_pre(self, act: StateDigest, at: ProcessId) -> None:
        following = self.total_order.next.get(at, 0)
        resumed = at in self.total_order.resumed  # its own snapshot is at some earlier position
        self.require(
            act.position == following or (resumed and act.position < following),
            "digest: of exactly the entries that p has applied",
            following,
        )
        known = self.digests.get(act.position)
        if known is not None:
            self.require(act.digest == known, "digest: equal at equal positions", act.position, known)

    def state_digest_eff(self, act: StateDigest, at: ProcessId) -> None:
        if at in self.resumes_at:
            self.resumes_at[at] = act.position
        if act.position not in self.digests:
            self.digests[act.position] = act.digest
            if len(self.digests) > DIGESTS:
                del self.digests[next(iter(self.digests))]

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        self.waiting.pop(at, None)
        self.answered.pop(at, None)
        self.caught_up.pop(at, None)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self.resumes_at[at] = 0

    def _close(self, p: ProcessId, body: bytes) -> None:
        left = self.open[p]
        left[body] -= 1
        if not left[body]:
            del left[body]
