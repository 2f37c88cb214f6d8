"""TIMING: bounds on the duration of a view change, once the network is stable.

Paper: Khazan's thesis, ch. 9. `detection` is the time until all members have noticed the last group event, `latency`
the maximum message delay, and `block_time` the time that a client takes to answer block:
- assumption 9.4.1: start_change within detection of the last group event;
- assumption 9.4.2: the view of MBRSHP within one latency of the last start_change;
- corollary 9.3.2: the view is delivered when MBRSHP has it, or block_time and one latency after the last start_change;
- corollary 9.5.1: so it is delivered within detection + latency + block_time of the last group event.
The thesis assumes the first two of its membership service; here they are checked as well.
Departs: with the second forwarding strategy (6.2) a message that has to be forwarded leaves when all sync messages are
there, so a view change with forwarding may take one latency more.
The bounds apply only to views that all members see alike: the caller checks after the last group event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import GcsView, LinkSend, MembershipView, StartChange
from cluster.messages import FwdMsg
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.actions import Action
    from cluster.names import ProcessId, View

ROUNDING = 1e-9  # tolerance for floating-point sums of times


class TimingSpec(Spec):
    NAME = "TIMING"

    def __init__(self) -> None:
        super().__init__()
        self.mstart: dict[ProcessId, float] = {}  # time of the last start_change
        self.mview: dict[ProcessId, tuple[View, float]] = {}
        self.gcview: dict[ProcessId, tuple[View, float]] = {}
        self.forwarded = -1.0  # time of the last forwarded message

    def watch(self, at: ProcessId, action: Action, now: float) -> None:
        if type(action) is StartChange:
            self.mstart[at] = now
        elif type(action) is MembershipView:
            self.mview[at] = (action.view, now)
        elif type(action) is LinkSend and type(action.body) is FwdMsg:
            self.forwarded = now
        elif type(action) is GcsView:
            self.gcview[at] = (action.view, now)

    def judge(
        self, last_ge: float, members: Iterable[ProcessId], *, detection: float, latency: float, block_time: float
    ) -> float:
        """Checks the bounds after the last group event, which left these members. Returns how long the view took."""
        all_members = tuple(sorted(members))
        self.invariant_same_view(all_members)
        last_mstart = max(self.mstart[p] for p in all_members)
        forwarding = self.invariant_forwarding(last_ge, latency)
        for p in all_members:
            self.invariant_bounds(p, last_ge, last_mstart, detection, latency, block_time + forwarding)
        return max(self.gcview[p][1] for p in all_members) - last_ge

    def invariant_same_view(self, all_members: tuple[ProcessId, ...]) -> None:
        views = {self.gcview[p][0].id if p in self.gcview else None for p in all_members}
        self.require(
            len(views) == 1 and None not in views, "all processes have the same last view", *sorted(map(str, views))
        )
        view, _ = self.gcview[all_members[0]]
        self.require(view.members == all_members, "the view has exactly these members", view, all_members)

    def invariant_forwarding(self, last_ge: float, latency: float) -> float:
        if self.forwarded < last_ge:
            return 0.0
        self.branch("9.3.2: one latency more, because a message was forwarded")
        return latency

    def invariant_bounds(
        self, p: ProcessId, last_ge: float, last_mstart: float, detection: float, latency: float, block_time: float
    ) -> None:
        mview, gcview = self.mview[p][1], self.gcview[p][1]
        self.require(
            self.mstart[p] <= last_ge + detection + ROUNDING,
            "9.4.1: T[mstart_p] <= T[last-ge] + detection",
            self.mstart[p] - last_ge,
            detection,
        )
        self.require(
            mview <= last_mstart + latency + ROUNDING,
            "9.4.2: T[mview_p] <= T[last-mstart] + latency",
            mview - last_mstart,
            latency,
        )
        self.require(
            gcview <= max(mview, last_mstart + block_time + latency) + ROUNDING,
            "9.3.2: T[gcview_p] <= max(T[mview_p], T[last-mstart] + c + latency)",
            gcview - last_mstart,
            block_time + latency,
        )
        self.require(
            gcview <= last_ge + detection + latency + block_time + ROUNDING,
            "9.5.1: T[gcview_p] <= T[last-ge] + detection + latency + c",
            gcview - last_ge,
            detection + latency + block_time,
        )
