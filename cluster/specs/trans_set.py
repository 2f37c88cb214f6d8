"""TRANS_SET: specification of transitional sets: a view comes with the members that move into it together.

Paper: Khazan's thesis, fig. 5.3. State variables keep its names.
Departs: a recovery makes v_p the current view (section 6.4).

Internal choice: set_prev_view_q(v), by which q commits itself to deliver v, if at all, from the view it is in then. The
checker does not choose. Each view_p(v, T) from a view w states for every q in both views that prev_view[q][v] = w (q in
T) or that it is another view (q not in T); q itself states it when it delivers v. A trace is allowed exactly if some
prev_view agrees with all these statements, so the checker keeps the statements for each q and rejects the first
contradiction. A q that never delivers v only has to have been in w: it can have committed itself there and gone no
further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId, View, ViewId, initial_view
from cluster.specs.past_views import PastViews
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Crashed, GcsView, Recovered


class TransSetSpec(Spec):
    NAME = "TRANS_SET"

    def __init__(self) -> None:
        super().__init__()
        self.current_view: dict[ProcessId, View] = {}
        self.prev_view: dict[ViewId, dict[ProcessId, ViewId]] = {}  # prev_view[q][v] as far as stated, by v first
        self.not_prev_view: dict[ViewId, dict[ProcessId, set[ViewId]]] = {}  # the values that were excluded
        self.been_in: dict[ViewId, set[ProcessId]] = {}  # processes that were ever in the view
        self.past = PastViews()

    # output view_p(v, T)
    def gcs_view_pre(self, act: GcsView, at: ProcessId) -> None:
        v, current = act.view, self._current_view(at)
        both = [q for q in current.members if q in v.members]
        prev_view = self.prev_view.setdefault(v.id, {})
        not_prev_view = self.not_prev_view.setdefault(v.id, {})
        said = prev_view.get(at, current.id)
        self.require(
            said == current.id and current.id not in not_prev_view.get(at, ()),
            "view: prev_view[p][v] = current_view[p], as stated by earlier deliveries of v",
            current,
            said,
        )
        self.require(at in act.transitional, "view: p in T, for prev_view[p][v] = current_view[p]")
        self.require(
            set(act.transitional) <= set(both), "view: T is a subset of v.set and current_view[p].set", current
        )
        for q in both:
            if q in act.transitional:
                self.require(
                    prev_view.get(q, current.id) == current.id and current.id not in not_prev_view.get(q, ()),
                    "view: q in T only if prev_view[q][v] = current_view[p]",
                    q,
                    prev_view.get(q),
                )
                self.require(
                    q in self.been_in.get(current.id, ()) or q == at,
                    "view: q in T only if q was in current_view[p]",
                    q,
                )
            else:
                self.require(
                    prev_view.get(q) != current.id, "view: q not in T only if prev_view[q][v] /= current_view[p]", q
                )

    def gcs_view_eff(self, act: GcsView, at: ProcessId) -> None:
        v, current = act.view, self._current_view(at)
        for q in current.members:
            if q in act.transitional:
                self.prev_view[v.id][q] = current.id
            elif q in v.members:
                self.branch("view: q in both views moves from another view")
                self.not_prev_view[v.id].setdefault(q, set()).add(current.id)
        self.current_view[at] = v
        self.been_in.setdefault(v.id, set()).add(at)
        self.past.enter(at, v)
        for view_id in self.past.take_ended():
            for known in (self.prev_view, self.not_prev_view, self.been_in):
                known.pop(view_id, None)

    def crashed_eff(self, act: Crashed, at: ProcessId) -> None:
        if act.disk_lost:
            self.past.lost.add(at)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        if at in self.current_view:
            self.current_view[at] = initial_view(at)

    def _current_view(self, p: ProcessId) -> View:
        view = self.current_view.get(p)
        if view is None:
            view = self.current_view[p] = initial_view(p)
        return view
