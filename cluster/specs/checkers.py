"""Runs all specifications of the stack over one trace.

    checkers = Checkers(founder)
    checkers.observe(process, action, now)     # every action: raises Violation with the steps before it
    checkers.after(process, joint)             # after every input that it handled; joint: the processes that are up
    checkers.at_end(joint, digests)            # after all faults, when the run is at rest: invariants and liveness
    checkers.timing.judge(last_ge, members, detection=..., latency=..., block_time=...)   # after a last group event
    checkers.coverage()                        # specification -> clause -> how often

A trace must be cut where a crash cuts the process: an action belongs to it only if all effects that the process had put
into its outbox before the action took place. The specifications check what happened, and actions that a crash undid did
not happen. The exceptions are `Applied` and `Restored`: input of a state machine belongs to the trace at once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.specs.co_rfifo import CoRfifoSpec
from cluster.specs.dvs import DvsSpec
from cluster.specs.invariants.dvs import DvsInvariants
from cluster.specs.invariants.gcs import GcsInvariants
from cluster.specs.invariants.replica import ReplicaInvariants
from cluster.specs.invariants.total_order import TotalOrderInvariants
from cluster.specs.liveness import LivenessSpec
from cluster.specs.mbrshp import MbrshpSpec
from cluster.specs.replica import ReplicaSpec
from cluster.specs.self_delivery import SelfSpec
from cluster.specs.spec import ACTIONS, Spec, TraceStep, Violation
from cluster.specs.timing import TimingSpec
from cluster.specs.total_order import TotalOrderSpec
from cluster.specs.trans_set import TransSetSpec
from cluster.specs.vs import VsSpec
from cluster.specs.vs_rfifo import VsRfifoSpec
from cluster.specs.world import WorldSpec
from cluster.specs.wv_rfifo import WvRfifoSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.actions import Action
    from cluster.names import ProcessId
    from cluster.specs.invariants.joint import Joint

STEPS_KEPT = 400  # recent steps kept for violation reports
STEPS_SHOWN = 15  # steps shown with a violation: only those known to its specification


def all_specs(founder: ProcessId) -> list[Spec]:
    """All specifications, bottom to top: the lowest layer that shows a fault reports it. Invariants come last."""
    links, client, total_order, dvs = CoRfifoSpec(), SelfSpec(), TotalOrderSpec(), DvsInvariants(founder)
    return [
        WorldSpec(),
        links,
        MbrshpSpec(),
        WvRfifoSpec(),
        VsRfifoSpec(),
        TransSetSpec(),
        client,
        VsSpec(),
        DvsSpec(founder),
        total_order,
        ReplicaSpec(total_order),
        GcsInvariants(links, client),
        dvs,
        TotalOrderInvariants(dvs),
        ReplicaInvariants(),
    ]


class Checkers:
    """Checks one trace against all specifications."""

    def __init__(self, founder: ProcessId, specs: list[Spec] | None = None) -> None:
        self.specs = all_specs(founder) if specs is None else specs
        self.count = 0
        self.timing = TimingSpec()
        self._stepped: set[ProcessId] = set()  # processes that took a step since their last check
        self._liveness = self._make_liveness()
        self._invariants = [spec for spec in self.specs if type(spec).after is not Spec.after]
        self._steps: deque[tuple[int, float, ProcessId, Action]] = deque(maxlen=STEPS_KEPT)
        self._by_action: dict[type[Action], list[Spec]] = {
            kind: [spec for spec in self.specs if kind in spec.actions or isinstance(spec, WorldSpec)]
            for kind in ACTIONS.values()
        }

    def observe(self, at: ProcessId, action: Action, now: float = 0.0) -> None:
        self.count += 1
        try:
            for spec in self._by_action[type(action)]:
                spec.observe(at, action)
        except Violation as violation:
            violation.step = TraceStep(self.count, now, at, action)
            violation.before = self.last_steps(violation.spec)
            raise
        self._steps.append((self.count, now, at, action))
        self._stepped.add(at)
        self.timing.watch(at, action, now)

    def after(self, p: ProcessId, joint: Joint) -> None:
        """Checks the state of p, which has just handled an input and whose actions were all observed.

        The states of other processes may be ahead of the trace (a fault may strike in the middle of a step), so they
        are not checked. Nothing is missed, since a state changes by its own inputs only. An input without an action is
        not checked either.
        """
        if p in self._stepped:
            self._stepped.discard(p)
            self._judge(p, joint)

    def after_all(self, joint: Joint) -> None:
        """Checks the states of all processes from scratch. Only valid when no process is in the middle of a step."""
        for spec in self._invariants:
            spec.judge_again()
        for p in sorted(joint):
            self._judge(p, joint)

    def _judge(self, p: ProcessId, joint: Joint) -> None:
        try:
            for spec in self._invariants:
                spec.after(p, joint)
        except Violation as violation:
            violation.at = p
            violation.before = self.last_steps("")
            raise

    def at_end(self, joint: Joint, digests: Mapping[ProcessId, str] | None = None) -> None:
        """Checks the end of a run at rest. `joint`: all processes that are up, `digests`: of their machines."""
        self.after_all(joint)
        if self._liveness is not None:
            self._liveness.judge_end(joint, digests)

    def _make_liveness(self) -> LivenessSpec | None:
        found = {type(spec): spec for spec in self.specs}
        client, total_order, replica = found.get(SelfSpec), found.get(TotalOrderSpec), found.get(ReplicaSpec)
        if client is None or total_order is None or replica is None:
            return None
        assert isinstance(client, SelfSpec)
        assert isinstance(total_order, TotalOrderSpec)
        assert isinstance(replica, ReplicaSpec)
        return LivenessSpec(client, total_order, replica)

    def last_steps(self, name: str) -> tuple[TraceStep, ...]:
        """The last steps that the specification of this name knows; all steps, if there is none of this name."""
        known = next((spec.actions for spec in self.specs if name == spec.NAME), None)
        steps = [TraceStep(*step) for step in self._steps if known is None or isinstance(step[3], known)]
        return tuple(steps[-STEPS_SHOWN:])

    def coverage(self) -> dict[str, dict[str, int]]:
        ends = (self.timing, self._liveness) if self._liveness is not None else (self.timing,)
        return {spec.NAME: dict(spec.coverage) for spec in (*self.specs, *ends)}
