"""Invariants of the interim service: synchronised replicas have equal states, and a merge joins the right ones.

Paper: Khazan's thesis, lemmas 10.2.2 to 10.2.4 and corollary 10.2.1. obj_p^v is the state of the replica of p when it
enters v, after all operations of the view before; base_obj_p^v is its state when mode normal begins in v.
Departs: the thesis states 10.2.4 for views that all members receive. Here a member that has not entered v yet, or
crashed before, is represented by those it was synchronised with, who sent the state for it.
In no paper: the object of the process is in the state that follows from the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.specs.atomic_object import past_views
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import InterimRefresh, InterimView, Recovered
    from cluster.names import ProcessId, View, ViewId
    from cluster.specs.eo_fifo_ds import EoFifoDsSpec
    from cluster.specs.invariants.joint import Joint


class Entered(NamedTuple):
    """A replica as it entered a view: SS_p^v and obj_p^v."""

    synced: tuple[ProcessId, ...]
    state: bytes
    digest: str


class InterimInvariants(Spec):
    """Follows the trace after `service`, whose replicas it reads."""

    NAME = "IADS"

    def __init__(self, service: EoFifoDsSpec) -> None:
        super().__init__()
        self.service = service
        self.entered: dict[ViewId, dict[ProcessId, Entered]] = {}
        self.view: dict[ProcessId, View] = {}
        self.is_normal: dict[ProcessId, bool] = {}
        self.refreshes: dict[ProcessId, InterimRefresh] = {}  # the last refresh of each process

    # ---- the trace

    def interim_view_eff(self, act: InterimView, at: ProcessId) -> None:
        v = act.view
        if not self.is_normal.get(at, True):
            self.branch("view: it interrupts a state transfer")
        self.is_normal[at] = False
        self.view[at] = v
        obj = self.service.replica(at)
        mine = Entered(act.synced, obj.snapshot(), obj.digest())
        self.require(
            at in mine.synced and set(mine.synced).issubset(v.members), "10.2.1(1): p in SS_p^v, a subset of v.set"
        )
        others = self.entered.setdefault(v.id, {})
        for q, other in others.items():
            if set(mine.synced) & set(other.synced):
                self.require(
                    mine.synced == other.synced,
                    "10.2.1(2): SS_p^v and SS_q^v are equal or disjoint",
                    q,
                    mine.synced,
                    other.synced,
                )
                self.require(
                    mine.digest == other.digest,
                    "10.2.3: q in SS_p^v implies obj_q^v = obj_p^v",
                    q,
                    mine.digest,
                    other.digest,
                )
        others[at] = mine
        for old in past_views(self.entered, (one.id for one in self.view.values())):
            del self.entered[old]

    def interim_refresh_pre(self, act: InterimRefresh, at: ProcessId) -> None:
        v = self.view[at]
        self.require(act.members == v.members, "refresh: with the members of the view", v)
        if self.entered[v.id][at].synced == v.members:
            self.branch("refresh: without a state transfer")
        else:
            self.branch("refresh: after a state transfer")
        entered = self.entered[v.id].values()
        represented = {p for one in entered for p in one.synced}
        self.require(
            represented == set(v.members), "10.2.4: the state of every member is in the merge", sorted(represented)
        )
        merged = self.service.make_object()
        merged.merge([one.state for one in entered])
        self.require(
            merged.digest() == act.digest,
            "10.2.4: base_obj_p^v = merge({<q, obj_q^v> : q in v.set})",
            merged.digest(),
        )

    def interim_refresh_eff(self, act: InterimRefresh, at: ProcessId) -> None:
        self.is_normal[at] = True
        self.refreshes[at] = act

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self.is_normal.pop(at, None)

    # ---- the state

    def after(self, p: ProcessId, joint: Joint) -> None:
        state = joint[p].interim
        if state is not None:
            self.invariant_object(p, state.obj.digest())

    def invariant_object(self, p: ProcessId, digest: str) -> None:
        expected = self.service.replica(p).digest()
        self.require(digest == expected, "the object is in the state that follows from the trace", digest, expected)
