"""VS_RFIFO: specification of virtual synchrony: members that change views together delivered the same messages.

Paper: Khazan's thesis, fig. 5.2, a modification of WV_RFIFO. State variables keep its names.
Departs: a recovery delivers v_p without a cut (section 6.4): no other process ever moves into v_p.

Internal choice: set_cut(v, v', c), once for each pair of views, with any c. The checker sets the cut when the first
process moves from v to v', to what that process has delivered. No other cut would have allowed that step, and no
earlier step depends on it, so no other guess could have allowed more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.specs.wv_rfifo import WvRfifoSpec

if TYPE_CHECKING:
    from cluster.actions import GcsView
    from cluster.names import ProcessId, ViewId


class VsRfifoSpec(WvRfifoSpec):
    NAME = "VS_RFIFO"

    def __init__(self) -> None:
        super().__init__()
        self.cut: dict[ViewId, dict[ViewId, dict[ProcessId, int]]] = {}  # cut[v][v'], by v' first

    # output view_p(v) modifies wv_rfifo.view_p(v)
    def gcs_view_pre(self, act: GcsView, at: ProcessId) -> None:
        super().gcs_view_pre(act, at)
        current = self.view_of(at)
        delivered = self.last_dlvrd.get(at, {})
        cut = self.cut.setdefault(act.view.id, {}).get(current.id)
        if cut is None:  # set_cut(current_view[p], v, last_dlvrd[.][p])
            self.branch("set_cut: by the first process that moves from v to v'")
            self.cut[act.view.id][current.id] = dict(delivered)
        else:
            self.require(
                delivered == cut,
                "view: for all q, last_dlvrd[q][p] = cut[current_view[p]][v](q)",
                current,
                tuple(delivered.get(q, 0) for q in current.members),
                tuple(cut.get(q, 0) for q in current.members),
            )

    def forget(self, view_id: ViewId) -> None:
        super().forget(view_id)
        self.cut.pop(view_id, None)
