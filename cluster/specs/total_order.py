"""TO: specification of the total order: one sequence of entries, delivered to all without gaps.

Paper: De Prisco et al., PODC 1998, section 6 (after Fekete, Lynch, Shvartsman, PODC 1997): pending[p], queue, next[p].
Departs:
- A snapshot stands for the delivery of everything below it (`CatchUp`). It can only cover entries that some process
  delivered.
- A process that kept its disk comes back at some earlier position (its snapshot) and delivers again: the same entries
  at the same positions, and without a gap. So a recovery resets next[p] to any position up to where it was.
- A crash of the submitter may lose the last entries it broadcast. Refused entries are taken back (`replica`), and a
  replica may take back a checkpoint that a later one makes obsolete.
- Entries of `NOBODY` mark the change of the primary view: all processes that establish a view put the same one at the
  same position.

Internal choice: TO-ORDER(a, p) when the first process delivers the entry. Its position is first visible there, and
another entry delivered at that position is wrong whenever it was ordered.
Two more clauses are the basis of the exactly-once rule after truncation: labels of one origin enter the order in
increasing order, and every delivered entry was confirmed by some process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.entries import CHECKPOINT, VIEW, Entry
from cluster.names import NOBODY, Label, ProcessId, ViewId
from cluster.specs.queues import LossyQueue, Window
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import (
        Broadcast,
        CatchUp,
        Confirm,
        Crashed,
        Deliver,
        DvsNewView,
        DvsRegister,
        Established,
        Recovered,
        StateDigest,
    )  # fmt: skip

REMEMBERED = 100_000  # number of recent entries kept for comparison


class TotalOrderSpec(Spec):
    NAME = "TO"

    def __init__(self, remembered: int = REMEMBERED) -> None:
        super().__init__()
        self.pending: dict[ProcessId, LossyQueue[Entry]] = {}
        self.queue: Window[tuple[Label, Entry]] = Window()
        self.next: dict[ProcessId, int] = {}
        self.resumed: set[ProcessId] = set()  # recovered processes that delivered nothing since
        self.highest: dict[ProcessId, Label] = {}  # the last label of each origin in queue
        self.confirmed: dict[ProcessId, int] = {}
        self.confirmed_by_any = 0
        self.established: dict[ViewId, int] = {}  # length of the order that its members built on
        self.current: dict[ProcessId, ViewId] = {}
        self.last_established: dict[ProcessId, ViewId] = {}
        self._remembered = remembered

    # input BCAST(a)_p
    def broadcast_eff(self, act: Broadcast, at: ProcessId) -> None:
        pending = self.pending.get(at)
        if pending is None:
            pending = self.pending[at] = LossyQueue()
        pending.put(act.entry, optional=act.entry.kind == CHECKPOINT)

    # internal TO-ORDER(a, p)
    def to_order_pre(self, label: Label, entry: Entry) -> None:
        last = self.highest.get(label.origin)
        self.require(last is None or label > last, "to-order: the labels of an origin increase", label, last)
        if label.origin == NOBODY:
            self.require(entry.kind == VIEW, "to-order: an entry without an origin is a change of view", label, entry)
            self.require(
                self.established.get(label.view_id) == self.queue.end + 1,
                "to-order: a change of view ends the order that its members built on",
                label,
                self.established.get(label.view_id),
            )
        else:
            self.require(entry.kind != VIEW, "to-order: a change of view has no origin", label)
            pending = self.pending.get(label.origin)
            taken = pending is not None and pending.take(entry)
            front = [] if taken or pending is None else pending.front()[:4]
            self.require(taken, "to-order: a is head of pending[p]", label, entry, *front)

    def to_order_eff(self, label: Label, entry: Entry) -> None:
        self.highest[label.origin] = label
        self.queue.append((label, entry))
        self.queue.drop_below(self.queue.end - self._remembered)

    # output BRCV(a)_{p,q}
    def deliver_pre(self, act: Deliver, at: ProcessId) -> None:
        i, following = act.position, self.next.get(at, 0)
        if at in self.resumed:
            self.require(i <= following, "deliver: after a recovery, at most where p was", following)
            if i < following:
                self.branch("deliver: again, after a recovery")
        else:
            self.require(i == following, "deliver: i = next[p]", following)
        self.require(i < self.confirmed_by_any, "deliver: some process confirmed the entry", self.confirmed_by_any)
        if i >= self.queue.end:
            self.to_order_pre(act.label, act.entry)
            self.to_order_eff(act.label, act.entry)
        elif i >= self.queue.low:
            self.require(self.queue[i] == (act.label, act.entry), "deliver: queue(next[p]) = (a, p)", *self.queue[i])
        else:
            self.branch("deliver: older than the kept history")

    def deliver_eff(self, act: Deliver, at: ProcessId) -> None:
        self.next[at] = act.position + 1
        self.resumed.discard(at)

    def catch_up_pre(self, act: CatchUp, at: ProcessId) -> None:
        following = self.next.get(at, 0)
        self.require(
            at in self.resumed or act.position >= following, "catch_up: never back to before next[p]", following
        )
        self.require(
            act.position <= self.queue.end, "catch_up: some process delivered all entries below", self.queue.end
        )

    def catch_up_eff(self, act: CatchUp, at: ProcessId) -> None:
        self.next[at] = act.position
        self.resumed.discard(at)

    # internal CONFIRM_p
    def confirm_pre(self, act: Confirm, at: ProcessId) -> None:
        self.require(
            act.count >= self.confirmed.get(at, 0), "confirm: nextconfirm never decreases", self.confirmed.get(at, 0)
        )

    def confirm_eff(self, act: Confirm, at: ProcessId) -> None:
        self.confirmed[at] = act.count
        self.confirmed_by_any = max(self.confirmed_by_any, act.count)

    # established[g] := true
    def established_pre(self, act: Established, at: ProcessId) -> None:
        self.require(at in act.view.members, "established: p in v.set")
        known = self.established.get(act.view.id, act.length)
        self.require(act.length == known, "established: all members build on the same order", known)
        self.require(
            act.length > self.next.get(at, 0) or at in self.resumed,
            "established: entries delivered by p are in the order",
        )

    def established_eff(self, act: Established, at: ProcessId) -> None:
        self.established[act.view.id] = act.length
        self.last_established[at] = act.view.id

    # input DVS-NEWVIEW(v)_p, output DVS-REGISTER_p (fig. 5)
    def dvs_new_view_eff(self, act: DvsNewView, at: ProcessId) -> None:
        self.current[at] = act.view.id

    def dvs_register_pre(self, _act: DvsRegister, at: ProcessId) -> None:
        current = self.current.get(at)
        self.require(
            current is not None and self.last_established.get(at) == current, "register: established[current]", current
        )

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        pending = self.pending.get(at)
        if pending is not None:
            pending.lose()
        self.confirmed.pop(at, None)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self.resumed.add(at)

    # If p crashed after a snapshot reached its disk, and before its state machine got it, it recovers beyond next[p].
    def state_digest_pre(self, act: StateDigest, at: ProcessId) -> None:
        if at in self.resumed:
            self.require(
                act.position <= self.queue.end,
                "digest: after a recovery, of entries that some process delivered",
                self.queue.end,
            )

    def state_digest_eff(self, act: StateDigest, at: ProcessId) -> None:
        if at in self.resumed and act.position > self.next.get(at, 0):
            self.branch("digest: of a snapshot that p had on its disk only")
            self.next[at] = act.position

    def take_back(self, p: ProcessId, entry: Entry) -> bool:
        """p was told that this own entry will not be delivered. False: it is in the order, or was never submitted."""
        pending = self.pending.get(p)
        return pending is not None and pending.take_back(entry)
