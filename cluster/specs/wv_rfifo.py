"""WV_RFIFO: specification of FIFO delivery within views: in the view of the send, in order, without gaps.

Paper: Khazan's thesis, fig. 5.1. State variables keep its names.
Departs: recovery is the delivery of the singleton view v_p (section 6.4). It is the only step back that a view can
take. The next view is greater than all before the crash, and the client sends nothing in v_p after a recovery.
No internal actions, so no guesses. Messages of a view are dropped when all its members have left it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId, View, ViewId, initial_view
from cluster.specs.past_views import PastViews
from cluster.specs.queues import Window
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Crashed, GcsDeliver, GcsSend, GcsView, Recovered
    from cluster.messages import Ordered

FORGET_EVERY = 256  # messages of one sender between two cleanups of messages that all members have


class WvRfifoSpec(Spec):
    NAME = "WV_RFIFO"

    def __init__(self) -> None:
        super().__init__()
        self.msgs: dict[ViewId, dict[ProcessId, Window[Ordered]]] = {}  # msgs[p][v], by view first
        self.last_dlvrd: dict[ProcessId, dict[ProcessId, int]] = {}  # last_dlvrd[q][p], by receiver p first
        self.current_view: dict[ProcessId, View] = {}
        self.past = PastViews()
        self.recovered: set[ProcessId] = set()

    # input send_p(m)
    def gcs_send_pre(self, _act: GcsSend, at: ProcessId) -> None:
        self.require(at not in self.recovered, "send: after a recovery the client waits for a view", self.view_of(at))

    def gcs_send_eff(self, act: GcsSend, at: ProcessId) -> None:
        view = self.view_of(at)
        sent = self.sent(at, view.id)
        sent.append(act.body)
        if sent.end % FORGET_EVERY == 0:
            sent.drop_below(min(self._has(q, at, view.id) for q in view.members))

    # output deliver_p(q, m)
    def gcs_deliver_pre(self, act: GcsDeliver, at: ProcessId) -> None:
        view = self.view_of(at)
        i = self.last_dlvrd.get(at, {}).get(act.sender, 0)
        sent = self.msgs.get(view.id, {}).get(act.sender)
        self.require(
            sent is not None and i < sent.end and (sent[i] is act.body or sent[i] == act.body),
            "deliver: m = msgs[q][current_view[p]][last_dlvrd[q][p] + 1]",
            view,
            i + 1,
            sent[i] if sent is not None and i < sent.end else None,
        )

    def gcs_deliver_eff(self, act: GcsDeliver, at: ProcessId) -> None:
        delivered = self.last_dlvrd.setdefault(at, {})
        delivered[act.sender] = delivered.get(act.sender, 0) + 1

    # output view_p(v)
    def gcs_view_pre(self, act: GcsView, at: ProcessId) -> None:
        self.require(at in act.view.members, "view: p in v.set")
        self.require(
            act.view.id > self.past.greatest.get(at, self.view_of(at).id),
            "view: v.id > current_view[p].id",
            self.view_of(at),
        )

    def gcs_view_eff(self, act: GcsView, at: ProcessId) -> None:
        self._enter(act.view, at)
        self.past.enter(at, act.view)
        self.recovered.discard(at)
        for view_id in self.past.take_ended():
            self.forget(view_id)

    def crashed_eff(self, act: Crashed, at: ProcessId) -> None:
        if act.disk_lost:
            self.past.lost.add(at)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        if at in self.current_view:
            self.recovered.add(at)
            self._enter(initial_view(at), at)

    def view_of(self, p: ProcessId) -> View:
        """current_view[p], initially v_p."""
        view = self.current_view.get(p)
        if view is None:
            view = self.current_view[p] = initial_view(p)
            self.past.know(view)
        return view

    def forget(self, view_id: ViewId) -> None:
        """Drops the view: all members have left it."""
        self.msgs.pop(view_id, None)

    def sent(self, p: ProcessId, view_id: ViewId) -> Window[Ordered]:
        """msgs[p][v], to append to."""
        senders = self.msgs.setdefault(view_id, {})
        sent = senders.get(p)
        if sent is None:
            sent = senders[p] = Window()
        return sent

    def _enter(self, view: View, at: ProcessId) -> None:
        self.current_view[at] = view
        self.last_dlvrd[at] = {}

    def _has(self, q: ProcessId, p: ProcessId, view_id: ViewId) -> int:
        """How many of p's messages in this view q will never need again."""
        if self.past.is_past(q, view_id):
            return self.msgs[view_id][p].end
        return self.last_dlvrd.get(q, {}).get(p, 0) if self.view_of(q).id == view_id else 0
