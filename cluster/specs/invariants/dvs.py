"""Invariants 3.1, 4.1, 4.2 and 5.1 to 5.6 of VS, DVS and DVS-IMPL.

Paper: De Prisco et al., PODC 1998, sections 3 to 5. History variables (attempted, reg, info-sent, TotReg) are rebuilt
from the trace; cur, client-cur, act and amb are read from the processes.
Departs:
- A majority of w includes the half of w with its lowest-ranked member; `act` is bottom for a process that joined.
- 5.1 applies to the last view that q was given in any of its lives: a crash loses cur, and ids increase all the same.
- 5.2(3) as printed (w.id <= client-cur.id for all w in use) does not hold: an info message brings views that others
  attempted while p was elsewhere, before p attempts anything. The proofs use, and this module evaluates, w.id <=
  cur.id, and w.id < cur.id as long as p has not attempted cur.
- 5.3(1) as printed does not hold for the view g itself once p has attempted it; evaluated for w.id < g.
4.1 is 5.6 here, since a view is created when it is first attempted.

Invariants that only a certain step can break are evaluated at that step. The others are evaluated on a process that
took a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import Info
from cluster.names import founding_view
from cluster.specs.primary_history import PrimaryHistory, intersect, is_quorum
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Crashed, DvsNewView, DvsRegister, VsNewView, VsReceive, VsSend
    from cluster.names import ProcessId, View, ViewId
    from cluster.primary import PrimaryViews
    from cluster.specs.invariants.joint import Joint

ATTEMPTED_KEPT = 64  # attempted views kept per process; older ones cannot change any more


class DvsInvariants(Spec):
    NAME = "DVS-IMPL"

    def __init__(self, founder: ProcessId) -> None:
        super().__init__()
        v0 = founding_view(founder)
        self.history = PrimaryHistory(v0)
        self.created: dict[ViewId, View] = {v0.id: v0}  # of VS
        self.cur: dict[ProcessId, ViewId] = {founder: v0.id}  # the last view of VS, in any life
        self.client_cur: dict[ProcessId, ViewId] = {founder: v0.id}  # current-viewid[p] of DVS, in any life
        self.attempted: dict[ProcessId, dict[ViewId, View]] = {founder: {v0.id: v0}}
        self.info_rcvd: dict[ProcessId, list[Info]] = {}  # of the current view
        self.away: set[ProcessId] = set()  # crashed processes that attempted nothing since
        self.active: dict[ViewId, View] = {v0.id: v0}  # created views that no member has left for a later one
        self.tot_att_max = v0.id
        self._judged: dict[ProcessId, object] = {}  # the state of p at its last check

    # ---- the trace

    def vs_new_view_eff(self, act: VsNewView, at: ProcessId) -> None:
        v = act.view
        self.require(self.created.setdefault(v.id, v) == v, "3.1: v.id = v'.id only if v = v'", self.created[v.id])
        self.cur[at] = max(v.id, self.cur.get(at, v.id))
        self.info_rcvd[at] = []

    def vs_send_eff(self, act: VsSend, at: ProcessId) -> None:
        if isinstance(act.body, Info):
            self.invariant_info_sent(act.body, self.cur[at], at)

    def vs_receive_eff(self, act: VsReceive, at: ProcessId) -> None:
        if isinstance(act.body, Info):
            self.info_rcvd.setdefault(at, []).append(act.body)

    def dvs_new_view_eff(self, act: DvsNewView, at: ProcessId) -> None:
        v = act.view
        is_new = v.id not in self.history.views
        self.history.attempt(v, at)
        attempted = self.attempted.setdefault(at, {})
        attempted[v.id] = v
        if len(attempted) > ATTEMPTED_KEPT:
            del attempted[min(attempted)]
        self.client_cur[at] = max(v.id, self.client_cur.get(at, v.id))
        self.away.discard(at)
        for w in [w for w in self.active.values() if w.id < v.id and at in w.members]:
            del self.active[w.id]
        if is_new and not any(self.client_cur.get(p, v.id) > v.id for p in v.members):
            self.active[v.id] = v
        if self.history.is_tot_att(v.id):
            self.tot_att_max = max(self.tot_att_max, v.id)
        self.invariant_attempted(v, at)
        self.invariant_4_2()

    def dvs_register_eff(self, _act: DvsRegister, at: ProcessId) -> None:
        current = self.client_cur.get(at)
        if current is not None and at not in self.away and self.history.register(current, at):
            w = self.history.views[current]
            for v in self.history.above(w.id):
                self.invariant_5_5(v, w)

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        self.away.add(at)
        self.info_rcvd.pop(at, None)

    # ---- invariants of each step

    def invariant_info_sent(self, info: Info, g: ViewId, p: ProcessId) -> None:
        x = info.act
        if x is not None:
            self.require(self._is_tot_reg(x), "5.2(4): info-sent = (x, X): x in TotReg", x)
        for w in info.amb:
            self.require(x is None or x.id < w.id, "5.2(5): info-sent = (x, X), w in X: x.id < w.id", x, w)
        for w in (*info.amb, *((x,) if x is not None else ())):
            self.require(w.id < g, "5.2(6): info-sent[g] = (x, X), w in X or w = x: w.id < g", g, w)
        for w in self.attempted.get(p, {}).values():
            if w.id < g:
                self.require(
                    w == x or w in info.amb or (x is not None and w.id < x.id),
                    "5.3(1): info-sent[g] = (x, X), w attempted before g: w in X or w = x or w.id < x.id",
                    w,
                    x,
                )

    def invariant_attempted(self, v: View, at: ProcessId) -> None:
        behind = [q for q in v.members if q not in self.cur or self.cur[q] < v.id]
        self.require(not behind, "5.1: v attempted, q in v.set: cur.id_q >= v.id", v, *behind)
        for w in self.history.below(v.id):
            self.invariant_5_6(v, w)
            if any(q in v.members for q in self.history.attempted[w.id]):
                self.require(
                    is_quorum(v.members, w), "5.4: v has a majority of each w that a member of v attempted before", v, w
                )
        for w in self.history.above(v.id):
            self.invariant_5_6(v, w)
            if at in w.members:
                self.require(
                    is_quorum(w.members, v), "5.4: a later view has a majority of v, if a member of it attempts v", w, v
                )
        latest = self.history.latest_tot_reg_below(v.id)
        if latest is not None:
            self.invariant_5_5(v, latest)

    def invariant_5_5(self, v: View, w: View) -> None:
        self.require(is_quorum(v.members, w), "5.5: v attempted has a majority of the last w in TotReg before it", v, w)

    def invariant_5_6(self, v: View, w: View) -> None:
        self.require(intersect(v, w), "5.6 and 4.1: views with none of TotReg between them intersect", v, w)

    def invariant_4_2(self) -> None:
        for v in self.active.values():
            self.require(
                v.id >= self.tot_att_max,
                "4.2: w in TotAtt, v.id < w.id: some p in v.set has current-viewid > v.id",
                v,
                self.tot_att_max,
            )

    # ---- invariants of each state

    def judge_again(self) -> None:
        self._judged.clear()

    def after(self, p: ProcessId, joint: Joint) -> None:
        state = joint[p].primary
        seen = (state.cur, state.client_cur, state.act, tuple(state.amb), len(self.info_rcvd.get(p, ())))
        if self._judged.get(p) != seen:
            self.invariant_use(p, state)
            self._judged[p] = seen

    def invariant_use(self, p: ProcessId, state: PrimaryViews) -> None:
        act, amb, cur = state.act, state.amb, state.cur
        if act is not None:
            self.require(self._is_tot_reg(act), "5.2(1): act_p in TotReg", act)
        for w in amb.values():
            self.require(act is None or act.id < w.id, "5.2(2): w in amb: act.id < w.id", act, w)
        if cur is not None:
            for w in (*amb.values(), *((act,) if act is not None else ())):
                self.require(
                    w.id < cur.id or (w.id == cur.id and state.client_cur == cur),
                    "5.2(3): w in use: w.id <= cur.id, and w.id < cur.id until cur is attempted",
                    cur,
                    w,
                )
        for info in self.info_rcvd.get(p, ()):
            for w in (*info.amb, *((info.act,) if info.act is not None else ())):
                self.require(
                    w == act or w.id in amb or (act is not None and w.id < act.id),
                    "5.3(2): info-rcvd = (x, X), w in X or w = x: w in use or w.id < act.id",
                    act,
                    w,
                )

    def _is_tot_reg(self, v: View) -> bool:
        return self.history.views.get(v.id) == v and self.history.is_tot_reg(v.id)
