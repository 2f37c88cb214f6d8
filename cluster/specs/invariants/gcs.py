"""Invariants of the virtual synchrony end-points, and that no obsolete view is delivered.

Paper: Khazan's thesis, 7.1.1 to 7.1.3, 7.2.1, 7.3.1, 7.3.2, 7.4.1 to 7.4.3, 8.1.1, and lemma 8.2.1(1).
Departs: where the thesis compares the states of two processes, one of them may have crashed or have dropped state that
it no longer needs. So 7.1.2 compares with what the sender's client sent (the history that WV_RFIFO keeps), and 7.2.1
with the synchronisation message that the process sent under that id. 7.3.1 includes the additions of its proof; the id
that MBRSHP gave last outlives a crash. The rules of section 6.4 on what an end-point may drop have no number there;
they are checked too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.messages import FwdMsg, SyncMsg
from cluster.specs.self_delivery import BLOCKED, REQUESTED, UNBLOCKED
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import GcsView, LinkDeliver, LinkSend, MembershipView, Recovered, StartChange
    from cluster.endpoint import Endpoint
    from cluster.fifo_multicast import MessageQueue
    from cluster.messages import Ordered
    from cluster.names import ProcessId, View, ViewId
    from cluster.specs.co_rfifo import CoRfifoSpec
    from cluster.specs.invariants.joint import Joint
    from cluster.specs.self_delivery import SelfSpec

SYNCS_KEPT = 16  # synchronisation messages kept per process
STATUS = {"unblocked": UNBLOCKED, "requested": REQUESTED, "blocked": BLOCKED}


class GcsInvariants(Spec):
    """Follows the trace after `links` and `client`, whose histories it reads."""

    NAME = "GCS"

    def __init__(self, links: CoRfifoSpec, client: SelfSpec) -> None:
        super().__init__()
        self.links = links
        self.client = client
        self.sync_msg: dict[ProcessId, dict[int, SyncMsg]] = {}  # sync_msg[p][cid] at p, as p sent it
        self.start_change: dict[ProcessId, int] = {}  # start_change[p].id of MBRSHP, in any life
        self.mbrshp_view: dict[ProcessId, View | None] = {}  # None: a start_change followed
        self._compared: dict[tuple[ProcessId, ProcessId, bool], tuple[ViewId, int]] = {}  # receiver, sender, later
        self._dropped: dict[ProcessId, tuple[int, ...]] = {}

    # ---- the trace

    def start_change_eff(self, act: StartChange, at: ProcessId) -> None:
        self.start_change[at] = act.cid
        self.mbrshp_view[at] = None

    def membership_view_eff(self, act: MembershipView, at: ProcessId) -> None:
        self.mbrshp_view[at] = act.view

    def gcs_view_eff(self, act: GcsView, at: ProcessId) -> None:
        self.require(
            self.mbrshp_view.get(at) == act.view,
            "8.2.1: a view is delivered only if it is the last of MBRSHP, and no start_change came since",
            self.mbrshp_view.get(at),
        )

    def link_send_eff(self, act: LinkSend, at: ProcessId) -> None:
        if isinstance(act.body, SyncMsg):
            sent = self.sync_msg.setdefault(at, {})
            known = sent.setdefault(act.body.cid, act.body)
            self.require(known == act.body, "7.2.1: one synchronisation message for one start-change id", known)
            if len(sent) > SYNCS_KEPT:
                del sent[min(sent)]

    def link_deliver_eff(self, act: LinkDeliver, _at: ProcessId) -> None:
        if isinstance(act.body, FwdMsg):
            self.invariant_forwarded(act.body)

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self.mbrshp_view[at] = None
        for whose in [whose for whose in self._compared if whose[0] == at]:
            del self._compared[whose]

    # ---- the state

    def judge_again(self) -> None:
        self._compared.clear()
        self._dropped.clear()

    def after(self, p: ProcessId, joint: Joint) -> None:
        state = joint[p].endpoint
        self.invariant_views(p, state)
        self.invariant_sync(p, state)
        for q, source in state.of.items():
            if source.msgs.prefix > source.msgs.dropped:
                self._compare((p, q, False), state.current_view.id, source.msgs)
            if source.later is not None and source.later.prefix:
                self._compare((p, q, True), source.view_msg.id, source.later)

        dropped = tuple(state.of[q].msgs.dropped for q in state.current_view.members)
        if any(dropped) and self._dropped.get(p) != dropped:
            self._dropped[p] = dropped
            self.invariant_dropped(state, dropped, joint)

    def invariant_dropped(self, state: Endpoint, dropped: tuple[int, ...], joint: Joint) -> None:
        v = state.current_view
        for r in v.members:
            if r in joint and joint[r].endpoint.current_view.id == v.id:
                sources = joint[r].endpoint.of
                lacking = [q for q, count in zip(v.members, dropped, strict=True) if sources[q].msgs.prefix < count]
                self.require(not lacking, "6.4: dropped messages were received by all members of the view", r, *lacking)

    def invariant_views(self, p: ProcessId, state: Endpoint) -> None:
        self.require(p in state.mbrshp_view.members, "7.1.1: p in mbrshp_view.set", state.mbrshp_view)
        self.require(p in state.current_view.members, "7.1.1: p in current_view.set", state.current_view)
        if state.of[p].view_msg.id == state.current_view.id:
            reliable_set = self.links.reliable_set.get(p, frozenset((p,)))
            self.require(
                reliable_set.issuperset(state.current_view.members),
                "7.1.3: view_msg[p] = current_view only if current_view.set is a subset of reliable_set",
                state.current_view,
                sorted(reliable_set),
            )

    def invariant_sync(self, p: ProcessId, state: Endpoint) -> None:
        self.require(
            STATUS[state.block_status] == self.client.block_status.get(p, UNBLOCKED),
            "7.4.1: the end-point and its client have the same block_status",
            state.block_status,
        )
        for q, sync in (*state.sync_msg.items(), *state.sync_before.items()):
            if q != p and sync.cid in self.sync_msg.get(q, ()):
                self.require(
                    sync == self.sync_msg[q][sync.cid], "7.2.1: sync_msg[q][cid] is the same at p and at q", q, sync
                )
        own = state.sync_msg.get(p)
        self.invariant_start_change(p, own, state)
        if state.start_change_now is None or own is None or own.cid != state.start_change_now[0]:
            return
        self.require(
            own.view_id == state.current_view.id, "7.3.2: sync_msg[p][start_change.id].view = current_view", own
        )
        self.require(
            STATUS[state.block_status] == BLOCKED, "7.4.2: sync_msg[p][start_change.id] only while blocked", own
        )
        self.require(
            own.cut[state.current_view.members.index(p)] == state.of[p].msgs.prefix,
            "7.4.3: sync_msg[p][start_change.id].cut(p) = LastIndexOf(msgs[p][current_view])",
            own,
            state.of[p].msgs.prefix,
        )
        self.invariant_cut(p, own, state)

    def invariant_start_change(self, p: ProcessId, own: SyncMsg | None, state: Endpoint) -> None:
        given = self.start_change.get(p, 0)
        if own is not None:
            self.require(
                own.cid <= given, "7.3.1: id > MBRSHP.start_change[p].id only if sync_msg[p][id] = bottom", given, own
            )
        if state.start_change_now is not None:
            self.require(
                state.start_change_now[0] == given,
                "7.3.1: start_change of p, if there is one, has the id of MBRSHP.start_change[p]",
                given,
                state.start_change_now,
            )

    def invariant_cut(self, p: ProcessId, own: SyncMsg, state: Endpoint) -> None:
        """Holds while p has a synchronisation message in flight."""
        v, next_view = state.current_view, state.mbrshp_view
        if next_view.start_id(p) == own.cid:
            cuts = [
                sync.cut
                for q, start_id in zip(next_view.members, next_view.start_ids, strict=True)
                for sync in (state.sync_msg.get(q), state.sync_before.get(q))
                if sync is not None and sync.cid == start_id and sync.view_id == v.id
            ]
        else:
            cuts = [own.cut]
        for rank, q in enumerate(v.members):
            committed = max(cut[rank] for cut in cuts)
            self.require(
                state.of[q].last_dlvrd <= committed,
                "8.1.1: no more is delivered than a synchronisation message of the transitional set commits to",
                q,
                state.of[q].last_dlvrd,
                committed,
            )

    def invariant_forwarded(self, body: FwdMsg) -> None:
        self.invariant_message(body.origin, body.view_id, body.index, body.body)

    def invariant_message(self, sender: ProcessId, view_id: ViewId, index: int, body: Ordered) -> None:
        sent = self.client.msgs.get(view_id, {}).get(sender)
        if view_id not in self.client.msgs or (sent is not None and index <= sent.low):
            return  # too old: no longer kept
        self.require(
            sent is not None and index <= sent.end and sent[index - 1] == body,
            "7.1.2: msgs[q][v][i] is what q sent as the i-th message in v",
            sender,
            view_id,
            index,
            body,
        )

    def _compare(self, whose: tuple[ProcessId, ProcessId, bool], view_id: ViewId, queue: MessageQueue) -> None:
        """Compares the messages that arrived since the last check."""
        known, done = self._compared.get(whose, (view_id, 0))
        done = max(done if known == view_id else 0, queue.dropped)
        if done < queue.prefix:
            for index in range(done + 1, queue.prefix + 1):
                self.invariant_message(whose[1], view_id, index, queue[index])
            self._compared[whose] = (view_id, queue.prefix)
