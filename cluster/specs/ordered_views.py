"""Shared base of VS and DVS: one message sequence per view, of which every member receives a prefix.

Paper: De Prisco et al., PODC 1998, figs. 1 and 2. State variables keep its names; positions count from 0.
Departs: a crash ends the view for the process: it receives nothing more in it, though received messages stay received
(next[r, g] is what SAFE depends on). Ids given to a process increase over its crashes too.

Internal choices.
ORDER(m, p, g): the checker orders a message when the first member receives it. The place of a message in queue[g] is
first visible there. Ordering it later is impossible and earlier has no advantage: no other guess could have allowed
more.
CREATEVIEW(v): the checker creates a view when the first process is given it, since a view that exists longer only adds
constraints for later views. Views of VS may be created in any order, which allows the same traces (section 3).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from cluster.specs.past_views import PastViews
from cluster.specs.queues import Window
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Crashed, Recovered
    from cluster.names import ProcessId, View, ViewId

M = TypeVar("M")

FORGET_EVERY = 256  # messages of one view between two cleanups of messages that all members have


class ViewSequence(Generic[M]):
    """queue[g], and pending[p, g], next[p, g], next-safe[p, g] for all p."""

    __slots__ = ("next", "next_safe", "pending", "queue", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.queue: Window[tuple[M, ProcessId]] = Window()
        self.pending: dict[ProcessId, deque[M]] = {p: deque() for p in view.members}
        self.next: dict[ProcessId, int] = dict.fromkeys(view.members, 0)
        self.next_safe: dict[ProcessId, int] = dict.fromkeys(view.members, 0)


class OrderedViewsSpec(Spec, Generic[M]):
    def __init__(self) -> None:
        super().__init__()
        self.created: dict[ViewId, View] = {}
        self.current_viewid: dict[ProcessId, ViewId] = {}  # absent: bottom
        self.sequences: dict[ViewId, ViewSequence[M]] = {}
        self.away: set[ProcessId] = set()  # crashed processes that were given no view since
        self.past = PastViews()

    # internal CREATEVIEW(v)
    def createview_pre(self, v: View) -> None:
        self.require(v.id not in self.created, "createview: for all w in created, v.id /= w.id", self.created.get(v.id))

    def createview_eff(self, v: View) -> None:
        self.created[v.id] = v
        self.sequences[v.id] = ViewSequence(v)
        self.past.know(v)

    # output NEWVIEW(v)_p
    def newview_pre(self, v: View, at: ProcessId) -> None:
        self.require(at in v.members, "newview: p in v.set")
        if self.created.get(v.id) != v:
            self.createview_pre(v)
            self.createview_eff(v)
        current = self.current_viewid.get(at)
        self.require(current is None or v.id > current, "newview: v.id > current-viewid[p]", current)

    def newview_eff(self, v: View, at: ProcessId) -> None:
        self.current_viewid[at] = v.id
        self.away.discard(at)
        self.past.enter(at, v)
        for view_id in self.past.take_ended():
            self.sequences.pop(view_id, None)

    # input GPSND(m)_p
    def gpsnd_eff(self, m: M, at: ProcessId) -> None:
        sequence = self._sequence_of(at)
        if sequence is None:
            self.branch("gpsnd: without a view, no effect")
        else:
            sequence.pending[at].append(m)

    # output GPRCV(m)_{p,q}, and internal ORDER(m, p, g) before the first
    def gprcv_pre(self, m: M, sender: ProcessId, at: ProcessId) -> None:
        sequence = self._sequence_of(at)
        self.require(sequence is not None, "gprcv: g = current-viewid[q] is not bottom")
        assert sequence is not None
        i = sequence.next[at]
        if i == sequence.queue.end:
            self.require(
                bool(sequence.pending.get(sender)) and _same(sequence.pending[sender][0], m),
                "order: m is head of pending[p, g]",
                sequence.view,
                sequence.pending.get(sender, deque())[0] if sequence.pending.get(sender) else None,
            )
            sequence.queue.append((sequence.pending[sender].popleft(), sender))
        else:
            ordered, origin = sequence.queue[i]
            self.require(
                origin == sender and _same(ordered, m),
                "gprcv: queue[g](next[q, g]) = (m, p)",
                sequence.view,
                origin,
                ordered,
            )

    def gprcv_eff(self, at: ProcessId) -> None:
        sequence = self.sequences[self.current_viewid[at]]
        sequence.next[at] += 1
        if sequence.next[at] % FORGET_EVERY == 0:
            self._forget_below(sequence)

    # output SAFE(m)_{p,q}
    def safe_pre(self, m: M, sender: ProcessId, at: ProcessId) -> None:
        sequence = self._sequence_of(at)
        self.require(sequence is not None, "safe: g = current-viewid[q] is not bottom")
        assert sequence is not None
        i = sequence.next_safe[at]
        known = i < sequence.queue.end
        self.require(
            known and sequence.queue[i][1] == sender and _same(sequence.queue[i][0], m),
            "safe: queue[g](next-safe[q, g]) = (m, p)",
            sequence.view,
            sequence.queue[i] if known else None,
        )
        missing = [r for r, following in sequence.next.items() if following <= i]
        self.require(not missing, "safe: for all r in P, next[r, g] > next-safe[q, g]", sequence.view, *missing)

    def safe_eff(self, at: ProcessId) -> None:
        self.sequences[self.current_viewid[at]].next_safe[at] += 1

    def crashed_eff(self, act: Crashed, at: ProcessId) -> None:
        self.away.add(at)
        if act.disk_lost:
            self.past.lost.add(at)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        if at in self.current_viewid:
            self.away.add(at)

    def _sequence_of(self, p: ProcessId) -> ViewSequence[M] | None:
        current = self.current_viewid.get(p)
        if current is None or p in self.away:
            return None
        return self.sequences[current]

    def _forget_below(self, sequence: ViewSequence[M]) -> None:
        view_id = sequence.view.id
        asked = [
            min(sequence.next[r], sequence.next_safe[r])
            for r in sequence.view.members
            if not self.past.is_past(r, view_id) and not (r in self.away and self.current_viewid.get(r) == view_id)
        ]
        sequence.queue.drop_below(min(asked))


def _same(one: object, other: object) -> bool:
    return one is other or one == other
