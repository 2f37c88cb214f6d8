"""LIVENESS: checks the final state of a run, after its faults have ended and it has come to rest.

Papers: Khazan's thesis, properties 5.2.1 and 5.2.2 (a view that MBRSHP gave last to all its members is delivered, and
so is every message sent in it). For the primary views and the total order the papers guarantee no liveness, but this
stack does: one primary view of all processes that are up, where the rules allow one; an outcome for every submission;
all replicas equal.
The rules allow a primary view to the processes that are up if they are a quorum of the latest view that any of them
knows to be totally registered, and of each view that any of them knows to have been attempted since.

A function of the final states and of the histories that the other specifications keep of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.specs.invariants.joint import order_length
from cluster.specs.primary_history import is_quorum
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.names import ProcessId, View
    from cluster.specs.invariants.joint import Joint
    from cluster.specs.replica import ReplicaSpec
    from cluster.specs.self_delivery import SelfSpec
    from cluster.specs.total_order import TotalOrderSpec

NORMAL = "normal"


def is_primary_allowed(joint: Joint) -> bool:
    """Whether all processes that are up may form a primary view together."""
    acts = [process.primary.act for process in joint.values() if process.primary.act is not None]
    if not acts:
        return False
    act = max(acts, key=lambda view: view.id)
    attempted = [view for process in joint.values() for view in process.primary.amb.values() if view.id > act.id]
    return all(is_quorum(joint, view) for view in (act, *attempted))


class LivenessSpec(Spec):
    NAME = "LIVENESS"

    def __init__(self, client: SelfSpec, total_order: TotalOrderSpec, replica: ReplicaSpec) -> None:
        super().__init__()
        self.client = client
        self.total_order = total_order
        self.replica = replica

    def judge_end(self, joint: Joint, digests: Mapping[ProcessId, str] | None = None) -> None:
        """`joint`: all processes that are up, all of them connected. `digests`: of their state machines."""
        if not joint:
            return
        view = self.invariant_view(joint)
        self.invariant_messages(view)
        if is_primary_allowed(joint):
            self.invariant_primary(view, joint)
            self.invariant_order(joint)
            self.invariant_replicas(joint, digests or {})
        else:
            self.invariant_no_primary()

    def invariant_view(self, joint: Joint) -> View:
        running = tuple(sorted(joint))
        view = joint[running[0]].endpoint.mbrshp_view
        for p in running:
            state = joint[p].endpoint
            self.require(
                state.mbrshp_view == view and view.members == running,
                "5.2.1: MBRSHP gave all running processes one view of exactly them",
                p,
                state.mbrshp_view,
                running,
            )
            self.require(state.current_view == view, "5.2.2: the stable view is delivered", p, state.current_view)
        return view

    def invariant_messages(self, view: View) -> None:
        for p, sent in self.client.msgs.get(view.id, {}).items():
            for q in view.members:
                delivered = self.client.last_dlvrd.get(q, {}).get(p, 0)
                self.require(
                    delivered == sent.end,
                    "5.2.2: every message sent in the stable view is delivered to all its members",
                    p,
                    q,
                    delivered,
                    sent.end,
                )

    def invariant_primary(self, view: View, joint: Joint) -> None:
        for p, process in joint.items():
            self.require(
                process.primary.client_cur == view,
                "the view of all running processes is primary, if the rules allow it",
                p,
                process.primary.client_cur,
            )
            self.require(
                process.total_order.status == NORMAL and process.total_order.high_primary == view.id,
                "all members have established the primary view",
                p,
                process.total_order.status,
                process.total_order.high_primary,
            )

            self.require(
                process.primary.act == view,
                "all members know that the primary view is totally registered",
                p,
                process.primary.act,
            )

    def invariant_order(self, joint: Joint) -> None:
        length = max(order_length(process.total_order) for process in joint.values())
        for p, process in joint.items():
            self.require(
                order_length(process.total_order) == process.total_order.next_confirm == length,
                "all ordered entries are confirmed by all processes",
                p,
                process.total_order.next_confirm,
                length,
            )
            self.require(
                self.total_order.next.get(p, 0) == length,
                "all confirmed entries are delivered by all processes",
                p,
                self.total_order.next.get(p, 0),
                length,
            )

    def invariant_replicas(self, joint: Joint, digests: Mapping[ProcessId, str]) -> None:
        for p in joint:
            self.require(
                not self.replica.waiting.get(p),
                "every submission has an outcome",
                p,
                sorted(self.replica.waiting.get(p, ())),
            )
        for p, digest in digests.items():
            self.require(digest == next(iter(digests.values())), "all replicas have the same state", p, digest)

    def invariant_no_primary(self) -> None:
        self.branch("the rules allow no primary view any more")
