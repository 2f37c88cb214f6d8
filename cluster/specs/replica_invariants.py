"""The application knows its primary view: an invariant on the joint state of the three upper layers.

No paper has it: DVS tells its client of views that begin, and not that one has ended. The stack promises its
application both. In every state, what a process was told is the current view of VS if it was attempted as a primary
view and established here, and otherwise none. (That others have left that view already, it cannot know.) One who comes
back is told when it has been delivered what was confirmed without it.
Who is told too late answers clients for a group that has gone on without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from cluster.specs.joint import Joint, ProcessState

NORMAL = "normal"


class ReplicaInvariants(Spec):
    NAME = "REPLICA-IMPL"

    def after(self, p: ProcessId, joint: Joint) -> None:
        if joint[p].replica.primary is not None:
            self.invariant_told(joint[p])
        else:
            self.invariant_not_told(joint[p])

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

    def invariant_not_told(self, state: ProcessState) -> None:
        cur, order = state.primary.cur, state.total_order
        if cur is not None and order.status == NORMAL and not order.is_behind:
            self.require(
                cur != state.primary.client_cur,
                "primary view: p was told of cur, if it is established at p and p has what is confirmed",
                cur,
            )
