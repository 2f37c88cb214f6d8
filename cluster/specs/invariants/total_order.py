"""Invariants 6.1 to 6.3 of TO-IMPL, and that all processes confirm one sequence that is never lost.

Paper: De Prisco et al., PODC 1998, section 6.2; allstate and allconfirm after Fekete, Lynch and Shvartsman (1997).
allstate consists of the states of the processes and the summaries they sent. buildorder[p, g] is the order that p had
built in g when it went on to a later view, according to its summary there.
Departs:
- Orders begin at a base, and summaries leave out confirmed entries. Below the base all orders are the same:
  "allconfirm" checks that position by position, so that 6.3 only has to check the rest.
- 6.3 is evaluated for the longest sigma of each v: the common part of the orders that all processes that left v had
  built there. For the views before the last KEPT it follows from those after them.
- "confirm" has no number in the paper: CONFIRM_p needs a safe indication, so all members of the view hold the entry.
  "durable" is the same for crashed processes: they acknowledged the entry, so it was on their disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import Summary
from cluster.specs.invariants.joint import label_at, order_length
from cluster.specs.queues import Window
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import CatchUp, Confirm, DvsNewView, DvsSend, Established, Recovered
    from cluster.names import Label, ProcessId, View, ViewId
    from cluster.specs.invariants.dvs import DvsInvariants
    from cluster.specs.invariants.joint import Joint
    from cluster.total_order import TotalOrder

KEPT = 16  # views whose sigma is remembered
REMEMBERED = 100_000  # confirmed labels


class Sigma:
    """The common part of the orders built in a view by all processes that left it: labels from a position on."""

    __slots__ = ("labels", "start")

    def __init__(self, start: int, labels: list[Label]) -> None:
        self.start = start
        self.labels = labels

    @property
    def end(self) -> int:
        return self.start + len(self.labels)

    def meet(self, start: int, labels: list[Label]) -> None:
        """Cuts sigma to its common part with this order. Everything below `start` is confirmed, and so the same."""
        end = start + len(labels)
        i = max(start, self.start)
        while i < min(self.end, end) and self.labels[i - self.start] == labels[i - start]:
            i += 1
        del self.labels[max(0, i - self.start) :]


class TotalOrderInvariants(Spec):
    """Follows the trace after `dvs`, whose history it reads."""

    NAME = "TO-IMPL"

    def __init__(self, dvs: DvsInvariants) -> None:
        super().__init__()
        self.dvs = dvs
        self.established: dict[ViewId, set[ProcessId]] = {}
        self.sigma: dict[ViewId, Sigma | None] = {}  # None: a member left the view without having established it
        self.high: dict[ProcessId, ViewId | None] = {}  # as last judged
        self.high_max: ViewId | None = None
        self.confirmed: Window[Label] = Window()
        self._confirm_end = 0  # entries that some process has confirmed
        self._confirmed_in: dict[int, View | None] = {}  # the view of that process, until the entry is checked
        self._judged: dict[ProcessId, int] = {}  # number of confirmed labels of p already compared
        self._built: set[ProcessId] = set()  # processes that established a view since their last check
        self._bound: dict[ProcessId, int] = {}  # number of positions confirmed in views with p as a member
        self._recovered: set[ProcessId] = set()  # since it was last judged
        self._next_confirm: dict[ProcessId, int] = {}  # as last judged, in this life

    # ---- the trace

    def dvs_new_view_eff(self, _act: DvsNewView, _at: ProcessId) -> None:
        if self.high_max is not None:
            self.invariant_6_2(self.high_max)

    def dvs_send_eff(self, act: DvsSend, at: ProcessId) -> None:
        if isinstance(act.body, Summary) and at in self.dvs.client_cur:
            self.invariant_6_1(act.body.high_primary)
            self._left(act.body, self.dvs.client_cur[at], at)

    def established_eff(self, act: Established, at: ProcessId) -> None:
        self.established.setdefault(act.view.id, set()).add(at)
        self._judged.pop(at, None)
        self._built.add(at)

    def catch_up_eff(self, _act: CatchUp, at: ProcessId) -> None:
        self._judged.pop(at, None)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self._judged.pop(at, None)
        self.high.pop(at, None)
        self._next_confirm.pop(at, None)
        self._recovered.add(at)

    def _left(self, summary: Summary, going_to: ViewId, p: ProcessId) -> None:
        """p goes on to a later view: the orders it had built in earlier views are final."""
        labels = [label for label, _ in summary.tail]
        for v in self.dvs.history.latest(KEPT):
            if v.id >= going_to or p not in v.members:
                continue
            if p not in self.established.get(v.id, ()) and v.id.epoch > 0:
                self.sigma[v.id] = None
            elif summary.high_primary == v.id:
                known = self.sigma.setdefault(v.id, Sigma(summary.next_confirm, list(labels)))
                if known is not None:
                    known.meet(summary.next_confirm, labels)
            elif summary.high_primary is None or summary.high_primary < v.id:
                self.sigma[v.id] = None  # a crash lost the established view before it became visible
        for old in sorted(self.sigma)[:-KEPT]:
            del self.sigma[old]

    def confirm_eff(self, act: Confirm, at: ProcessId) -> None:
        """Notes the view in which an entry is confirmed first. The state of that process may be checked later."""
        view = self.dvs.history.views.get(self.dvs.client_cur[at]) if at in self.dvs.client_cur else None
        for i in range(self._confirm_end, act.count):
            self._confirmed_in[i] = view
        self._confirm_end = max(self._confirm_end, act.count)

    # ---- the state

    def judge_again(self) -> None:
        self._judged.clear()
        self.high.clear()

    def after(self, p: ProcessId, joint: Joint) -> None:
        state = joint[p].total_order
        if state.high_primary != self.high.get(p):
            self.high[p] = state.high_primary
            self.invariant_6_1(state.high_primary)
        if p in self._built:
            self._built.discard(p)
            self.invariant_6_3(state)
        if p in self._recovered:
            self._recovered.discard(p)
            self.invariant_durable(p, state)
        if state.next_confirm != self._next_confirm.get(p):
            self.invariant_next_confirm(p, state.next_confirm)
        if state.next_confirm > self._judged.get(p, 0):
            self.invariant_allconfirm(p, state, joint)
            self._judged[p] = state.next_confirm

    def invariant_next_confirm(self, p: ProcessId, next_confirm: int) -> None:
        before = self._next_confirm.get(p, 0)
        self.require(next_confirm >= before, "allconfirm: nextconfirm_p never decreases", before, next_confirm)
        self._next_confirm[p] = next_confirm

    def invariant_6_1(self, high: ViewId | None) -> None:
        if high is None:
            return
        w = self.dvs.history.views.get(high)
        self.require(
            w is not None and self.dvs.history.is_tot_att(high),
            "6.1: x in allstate: x.high is a created view that all its members attempted",
            high,
            w,
        )
        if self.high_max is None or high > self.high_max:
            self.high_max = high
        self.invariant_6_2(high)

    def invariant_6_2(self, high: ViewId) -> None:
        for v in self.dvs.active.values():
            self.require(
                v.id >= high, "6.2: x in allstate, x.high > v.id: some p in v.set has current.id > v.id", high, v
            )

    def invariant_6_3(self, state: TotalOrder) -> None:
        """Checks the order that was just built."""
        if state.high_primary is None:
            return
        for view_id, sigma in self.sigma.items():
            if sigma is None or view_id >= state.high_primary or not self._was_established(view_id):
                continue
            missing = next(
                (
                    i
                    for i in range(max(sigma.start, state.base), sigma.end)
                    if label_at(state, i) != sigma.labels[i - sigma.start]
                ),
                None,
            )
            self.require(
                missing is None,
                "6.3: the order that all processes leaving v had built there is in every order built on a later view",
                view_id,
                missing,
                sigma.labels,
            )

    def _was_established(self, view_id: ViewId) -> bool:
        """For every p in v.set: if current.id_p > v.id then established[v.id]_p."""
        established = self.established.get(view_id, set())
        current = self.dvs.client_cur
        members = self.dvs.history.views[view_id].members
        return view_id.epoch == 0 or all(p in established or current.get(p, view_id) <= view_id for p in members)

    def invariant_allconfirm(self, p: ProcessId, state: TotalOrder, joint: Joint) -> None:
        start = max(self._judged.get(p, 0), state.base)
        view = self.dvs.history.views.get(state.high_primary) if state.high_primary is not None else None
        if start > self.confirmed.end:
            self.confirmed = Window()
            self.confirmed.low = start
        for i in range(max(start, self.confirmed.low), state.next_confirm):
            label = label_at(state, i)
            self.require(label is not None, "allconfirm: confirmed entries are in the order", i)
            assert label is not None
            if i < self.confirmed.end:
                self.require(
                    label == self.confirmed[i],
                    "allconfirm: confirmed orders are prefixes of one another",
                    i,
                    label,
                    self.confirmed[i],
                )
            else:
                self.confirmed.append(label)
                self.invariant_confirm(i, label, self._confirmed_in.pop(i, view), joint)
        self.confirmed.drop_below(self.confirmed.end - REMEMBERED)

    def invariant_confirm(self, i: int, label: Label, view: View | None, joint: Joint) -> None:
        for q in view.members if view is not None else ():
            self._bound[q] = max(i + 1, self._bound.get(q, 0))
            if q in joint:
                state = joint[q].total_order
                self.require(
                    i < order_length(state) and (i < state.base or label_at(state, i) == label),
                    "confirm: all members of the view have the label there",
                    q,
                    i,
                    label,
                    label_at(state, i),
                )

    def invariant_durable(self, p: ProcessId, state: TotalOrder) -> None:
        """Checks a process that came back from its disk."""
        bound = self._bound.get(p, 0)
        missing = next(
            (
                i
                for i in range(max(state.base, self.confirmed.low), min(bound, self.confirmed.end))
                if label_at(state, i) != self.confirmed[i]
            ),
            None,
        )
        self.require(missing is None, "durable: entries confirmed in a view of p are on the disk of p", missing, bound)
