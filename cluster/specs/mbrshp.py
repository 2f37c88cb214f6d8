"""MBRSHP: specification of the membership service at each process.

Paper: Khazan's thesis, fig. 4.2. State variables keep its names.
Departs: the thesis's service outlives its clients; here it is a part of each process, and a crash interrupts it. Its
guarantees hold over a crash: ids go on increasing. A crash only loses the view formation in progress, so a recovered
process needs a new start_change, with an id that no synchronisation message of its earlier life carries (ids may be
used again while no other process saw them). One clause is added to the thesis: a process proposes one set in an epoch,
and a view consists of processes that proposed the same set, so different views of one epoch are disjoint.
No internal actions, so no guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import SyncMsg
from cluster.names import ProcessId, View, ViewId, initial_view
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import LinkSend, MembershipView, Recovered, StartChange


EPOCHS_KEPT = 64


class MbrshpSpec(Spec):
    NAME = "MBRSHP"

    def __init__(self) -> None:
        super().__init__()
        self.mbrshp_view: dict[ProcessId, View] = {}
        self.start_change: dict[ProcessId, tuple[int, tuple[ProcessId, ...]]] = {}
        self.cid_seen: dict[ProcessId, int] = {}  # the greatest id that other processes may have seen
        self.recovered: set[ProcessId] = set()  # recovered processes without a start_change since
        self.views: dict[int, dict[ViewId, View]] = {}  # by epoch

    # output start_change_p(cid, set)
    def start_change_pre(self, act: StartChange, at: ProcessId) -> None:
        last_cid, _ = self.start_change.get(at, (0, ()))
        self.require(
            act.cid > self._mbrshp_view(at).start_id(at),
            "start_change: cid > mbrshp_view[p].startId(p)",
            self._mbrshp_view(at),
        )
        self.require(act.cid >= last_cid, "start_change: cid >= start_change[p].id", last_cid)
        self.require(at in act.members, "start_change: p in set")
        if at in self.recovered:
            self.require(
                act.cid > self.cid_seen.get(at, 0),
                "start_change: after a recovery, no other process has seen cid",
                self.cid_seen.get(at, 0),
            )

    def start_change_eff(self, act: StartChange, at: ProcessId) -> None:
        if self.start_change.get(at, (0, ()))[0] == act.cid:
            self.branch("start_change: the last id again")
        self.start_change[at] = (act.cid, act.members)
        self.recovered.discard(at)

    # output view_p(v)
    def membership_view_pre(self, act: MembershipView, at: ProcessId) -> None:
        v, last = act.view, self._mbrshp_view(at)
        cid, members = self.start_change.get(at, (0, ()))
        self.require(at in v.members, "view: p in v.set")
        self.require(v.id > last.id, "view: v.id > mbrshp_view[p].id", last)
        self.require(set(v.members) <= set(members), "view: v.set is a subset of start_change[p].set", members)
        self.require(v.start_id(at) == cid, "view: v.startId(p) = start_change[p].id", cid)
        self.require(
            v.start_id(at) > last.start_id(at), "view: v.startId(p) > mbrshp_view[p].startId(p)", last.start_id(at)
        )

        for other in self.views.get(v.id.epoch, {}).values():
            if other.id != v.id:
                self.require(
                    not set(other.members).intersection(v.members),
                    "view: views of one epoch have no member in common",
                    other,
                )

    def membership_view_eff(self, act: MembershipView, at: ProcessId) -> None:
        self.views.setdefault(act.view.id.epoch, {})[act.view.id] = act.view
        if len(self.views) > EPOCHS_KEPT:
            del self.views[min(self.views)]
        if len(act.view.members) < len(self.start_change[at][1]):
            self.branch("view: smaller than the start_change announced")
        self.mbrshp_view[at] = act.view

    # not an action of this automaton: it shows which ids other processes have seen
    def link_send_eff(self, act: LinkSend, at: ProcessId) -> None:
        if isinstance(act.body, SyncMsg):
            self.cid_seen[at] = max(self.cid_seen.get(at, 0), act.body.cid)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        last_cid, _ = self.start_change.get(at, (0, ()))
        self.start_change[at] = (last_cid, ())
        self.recovered.add(at)

    def _mbrshp_view(self, p: ProcessId) -> View:
        view = self.mbrshp_view.get(p)
        if view is None:
            view = self.mbrshp_view[p] = initial_view(p)
        return view
