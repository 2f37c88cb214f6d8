"""VS: specification of view synchrony: an agreed message order in each view, with safe indications.

Paper: De Prisco et al., PODC 1998, fig. 1. See `ordered_views` for the state, the departures and the choices.
Departs: no process has a view before it is given one (the paper starts the members of v0 in v0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import ViewMessage
from cluster.specs.ordered_views import OrderedViewsSpec

if TYPE_CHECKING:
    from cluster.actions import VsNewView, VsReceive, VsSafe, VsSend
    from cluster.names import ProcessId


class VsSpec(OrderedViewsSpec[ViewMessage]):
    NAME = "VS"

    # output VS-NEWVIEW(v)_p
    def vs_new_view_pre(self, act: VsNewView, at: ProcessId) -> None:
        self.newview_pre(act.view, at)

    def vs_new_view_eff(self, act: VsNewView, at: ProcessId) -> None:
        self.newview_eff(act.view, at)

    # input VS-GPSND(m)_p
    def vs_send_eff(self, act: VsSend, at: ProcessId) -> None:
        self.gpsnd_eff(act.body, at)

    # output VS-GPRCV(m)_{p,q}
    def vs_receive_pre(self, act: VsReceive, at: ProcessId) -> None:
        self.gprcv_pre(act.body, act.sender, at)

    def vs_receive_eff(self, _act: VsReceive, at: ProcessId) -> None:
        self.gprcv_eff(at)

    # output VS-SAFE(m)_{p,q}
    def vs_safe_pre(self, act: VsSafe, at: ProcessId) -> None:
        self.safe_pre(act.body, act.sender, at)

    def vs_safe_eff(self, _act: VsSafe, at: ProcessId) -> None:
        self.safe_eff(at)
