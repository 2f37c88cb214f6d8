"""INTERIM-LIVENESS: in a stable view, the interim service stabilises and answers. Checked at the end of a run.

Paper: Khazan's thesis, property 10.1.1 (stabilisation) and theorem 10.2.5 (eventual response). Property 10.1.2, interim
atomicity, is AO: a run goes on with requests after it has stabilised, and AO follows them.
In no paper: an operation that was answered by a process that still has its disk is in the final state of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.interim.replica import NORMAL
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import InterimRefresh
    from cluster.names import ProcessId
    from cluster.specs.eo_fifo_ds import EoFifoDsSpec
    from cluster.specs.invariants.interim import InterimInvariants
    from cluster.specs.invariants.joint import Joint


class InterimLivenessSpec(Spec):
    NAME = "INTERIM-LIVENESS"

    def __init__(self, service: EoFifoDsSpec, views: InterimInvariants) -> None:
        super().__init__()
        self.service = service
        self.views = views
        self._stable: dict[ProcessId, InterimRefresh] = {}  # the final refreshes

    def judge_end(self, joint: Joint) -> None:
        """`joint`: all processes that are up, connected, in one stable view and at rest."""
        members = tuple(sorted(joint))
        for p in members:
            self.invariant_refresh(p, members, joint)
            self.invariant_answers(p, joint)
        self._stable = {p: self.views.refreshes[p] for p in members}

    def judge_stayed(self, joint: Joint) -> None:
        """The same view is still stable, and clients have made requests since `judge_end`."""
        for p in joint:
            self.invariant_stayed(p)
            self.invariant_answers(p, joint)

    def invariant_refresh(self, p: ProcessId, members: tuple[ProcessId, ...], joint: Joint) -> None:
        last, state = self.views.refreshes.get(p), joint[p].interim
        assert state is not None
        self.require(
            state.mode == NORMAL and last is not None and last.members == members,
            "10.1.1: refresh_p(set, base_state) occurs at every client of the stable set",
            p,
            state.mode,
            last,
        )

    def invariant_answers(self, p: ProcessId, joint: Joint) -> None:
        waiting = self.service.ops.get(p, ())
        self.require(not waiting, "10.2.5: every request has a response", p, *waiting)
        first = self.service.replica(min(joint))
        self.require(self.service.replica(p).digest() == first.digest(), "the replicas of the stable set are equal", p)
        lost = [body for body in self.service.answered.get(p, ()) if body not in first]
        self.require(not lost, "answered operations of processes with their disks are in the final state", p, *lost)

    def invariant_stayed(self, p: ProcessId) -> None:
        self.require(self.views.refreshes[p] is self._stable.get(p), "10.1.1: no refresh_p follows the final one", p)
