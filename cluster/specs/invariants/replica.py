"""Invariant: the application knows its primary view. Reads the joint state of the three upper layers.

No paper has this invariant: DVS tells its client when a view begins, but not when one has ended. This stack guarantees
both to its application. In every state, the view that the application was told is the current view of VS if it was
attempted as a primary view and established here, and otherwise none. (A process cannot know that other members have
already left that view.) A process that comes back is told when everything confirmed before the view has been delivered
to it. If it is told too late, it answers clients for a group that has continued without it. If it is told too early, it
answers without the group's decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import Summary
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import DvsNewView, DvsSend
    from cluster.names import ProcessId, View, ViewId
    from cluster.specs.invariants.joint import Joint
    from cluster.stack import Process

NORMAL = "normal"


class ReplicaInvariants(Spec):
    NAME = "REPLICA-IMPL"

    def __init__(self) -> None:
        super().__init__()
        self.attempted: dict[ProcessId, ViewId] = {}
        self.confirmed: dict[ViewId, int] = {}  # positions confirmed before the view, by its members' summaries
        self._told: dict[ProcessId, View] = {}  # at the last check

    # ---- the trace

    def dvs_new_view_eff(self, act: DvsNewView, at: ProcessId) -> None:
        self.attempted[at] = act.view.id

    def dvs_send_eff(self, act: DvsSend, at: ProcessId) -> None:
        if isinstance(act.body, Summary) and at in self.attempted:
            view_id = self.attempted[at]
            self.confirmed[view_id] = max(act.body.next_confirm, self.confirmed.get(view_id, 0))

    # ---- the state

    def judge_again(self) -> None:
        self._told.clear()

    def after(self, p: ProcessId, joint: Joint) -> None:
        told = joint[p].replica.primary
        if told is None:
            self._told.pop(p, None)
            self.invariant_not_told(joint[p])
            return
        self.invariant_told(joint[p])
        if self._told.get(p) != told:
            self._told[p] = told
            self.invariant_caught_up(joint[p], told)

    def invariant_told(self, state: Process) -> None:
        told, order = state.replica.primary, state.total_order
        self.require(
            told == state.primary.cur == state.primary.client_cur,
            "primary view: the view reported to p is cur and client-cur",
            told,
            state.primary.cur,
            state.primary.client_cur,
        )
        self.require(
            order.status == NORMAL and order.current == told,
            "primary view: the view reported to p is established at p",
            told,
            order.current,
            order.status,
        )

    def invariant_caught_up(self, state: Process, told: View) -> None:
        confirmed = self.confirmed.get(told.id, 0)
        self.require(
            state.total_order.next_report >= confirmed,
            "primary view: p delivered all entries confirmed before the view reported to p",
            told,
            state.total_order.next_report,
            confirmed,
        )

    def invariant_not_told(self, state: Process) -> None:
        cur, order = state.primary.cur, state.total_order
        if cur is not None and order.status == NORMAL and order.next_report == order.next_confirm:
            self.require(
                cur != state.primary.client_cur,
                "primary view: cur was reported to p, if it is established at p and p delivered all confirmed entries",
                cur,
            )
