"""DVS: specification of dynamic primary views, each of which knows of the previous one.

Paper: De Prisco et al., PODC 1998, fig. 2. See `ordered_views` for the shared state, departures and choices.
Departs: v0 is the view of the process that founded the group, alone. A process keeps what it attempted and registered
over a crash (it is on its disk). A process that lost its disk never comes back under its name.

Internal choice: DVS-CREATEVIEW(v) at the first DVS-NEWVIEW(v), as in the paper's refinement. Creating a view earlier
would only add constraints: fewer views are totally registered then, and views created in between have to intersect it
too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import ClientMessage
from cluster.names import ProcessId, View, founding_view
from cluster.specs.ordered_views import OrderedViewsSpec
from cluster.specs.primary_history import PrimaryHistory, intersect

if TYPE_CHECKING:
    from cluster.actions import DvsNewView, DvsReceive, DvsRegister, DvsSafe, DvsSend


class DvsSpec(OrderedViewsSpec[ClientMessage]):
    NAME = "DVS"

    def __init__(self, founder: ProcessId) -> None:
        super().__init__()
        v0 = founding_view(founder)
        self.history = PrimaryHistory(v0)
        OrderedViewsSpec.createview_eff(self, v0)
        self.newview_eff(v0, founder)

    # internal DVS-CREATEVIEW(v)
    def createview_pre(self, v: View) -> None:
        super().createview_pre(v)
        for w in (*self.history.below(v.id), *self.history.above(v.id)):
            self.require(
                intersect(v, w),
                "createview: for all w in created, some x in TotReg is between v and w, or v.set and w.set intersect",
                w,
            )

    def createview_eff(self, v: View) -> None:
        super().createview_eff(v)
        self.history.create(v)

    # output DVS-NEWVIEW(v)_p
    def dvs_new_view_pre(self, act: DvsNewView, at: ProcessId) -> None:
        self.newview_pre(act.view, at)

    def dvs_new_view_eff(self, act: DvsNewView, at: ProcessId) -> None:
        self.newview_eff(act.view, at)
        self.history.attempt(act.view, at)

    # input DVS-REGISTER_p
    def dvs_register_eff(self, _act: DvsRegister, at: ProcessId) -> None:
        current = self.current_viewid.get(at)
        if current is None or at in self.away:
            self.branch("register: without a view, no effect")
        elif self.history.register(current, at):
            self.branch("register: the view is totally registered")

    # input DVS-GPSND(m)_p
    def dvs_send_eff(self, act: DvsSend, at: ProcessId) -> None:
        self.gpsnd_eff(act.body, at)

    # output DVS-GPRCV(m)_{p,q}
    def dvs_receive_pre(self, act: DvsReceive, at: ProcessId) -> None:
        self.gprcv_pre(act.body, act.sender, at)

    def dvs_receive_eff(self, _act: DvsReceive, at: ProcessId) -> None:
        self.gprcv_eff(at)

    # output DVS-SAFE(m)_{p,q}
    def dvs_safe_pre(self, act: DvsSafe, at: ProcessId) -> None:
        self.safe_pre(act.body, act.sender, at)

    def dvs_safe_eff(self, _act: DvsSafe, at: ProcessId) -> None:
        self.safe_eff(at)
