"""The application knows its primary view: an invariant on the joint state of the three upper layers.

No paper has it: DVS tells its client of views that begin, and not that one has ended. The stack promises its
application both. In every state, what a process was told is the current view of VS if it was attempted as a primary
view and established here, and otherwise none. (That others have left that view already, it cannot know.) One who comes
back is told when it has been delivered what was confirmed before the view.
Who is told too late answers clients for a group that has gone on without it; who is told too early, without what the
group has decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import Summary
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import DvsNewView, DvsSend
    from cluster.names import ProcessId, View, ViewId
    from cluster.specs.invariants.joint import Joint, ProcessState

NORMAL = "normal"


class ReplicaInvariants(Spec):
    NAME = "REPLICA-IMPL"

    def __init__(self) -> None:
        super().__init__()
        self.attempted: dict[ProcessId, ViewId] = {}
        self.confirmed: dict[ViewId, int] = {}  # before the view, by all that its members said in it
        self._told: dict[ProcessId, View] = {}  # as last judged

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

    def invariant_told(self, state: ProcessState) -> None:
        told, order = state.replica.primary, state.total_order
        self.require(
            told == state.primary.cur == state.primary.client_cur,
            "primary view: the one that p was told of is cur and client-cur",
            told,
            state.primary.cur,
            state.primary.client_cur,
        )
        self.require(
            order.status == NORMAL and order.current == told,
            "primary view: the one that p was told of is established at p",
            told,
            order.current,
            order.status,
        )

    def invariant_caught_up(self, state: ProcessState, told: View) -> None:
        confirmed = self.confirmed.get(told.id, 0)
        self.require(
            state.total_order.next_report >= confirmed,
            "primary view: p was delivered what was confirmed before the one that it is told of",
            told,
            state.total_order.next_report,
            confirmed,
        )

    def invariant_not_told(self, state: ProcessState) -> None:
        cur, order = state.primary.cur, state.total_order
        if cur is not None and order.status == NORMAL and order.next_report == order.next_confirm:
            self.require(
                cur != state.primary.client_cur,
                "primary view: p was told of cur, if it is established at p and p was delivered what is confirmed",
                cur,
            )
