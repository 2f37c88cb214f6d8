"""Virtual synchrony: members that move together to a new view delivered the same messages before it.

Members that move together from one view to the next deliver the same messages in the first.
Paper: Khazan's thesis, figs. 6.4 and 6.5 (VS_RFIFO+TS_p), with the second forwarding strategy of section 6.2.
Departs: only the last sync_msg of each process is kept (6.4: earlier ones belong to obsolete views), and the one before
it if its sender has moved on to a view that this process may still be moving to. A sync_msg names its view by id, and
its cut is a tuple in member order of that view.
Above: the view order.  Below: links and membership.

When a change begins, each end-point announces in one message which view it is in and how many messages of each member
it will deliver there (its cut). End-points that announced the same view and move to the same next view deliver the
union of their cuts, and forward to each other the messages that only some of them have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.fifo_multicast import FifoMulticast, SenderState
from cluster.layer import Ejected
from cluster.messages import FwdMsg, SyncMsg

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.names import ProcessId, View


class VirtualSynchrony(FifoMulticast):
    """Adds the agreement on the messages that are delivered before a view change (VS_RFIFO+TS_p)."""

    __slots__ = ("forwarded_set", "limits", "start_change_now", "sync_before", "sync_msg", "sync_set")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.start_change_now: tuple[int, tuple[ProcessId, ...]] | None = None  # start_change of the thesis
        self.sync_msg: dict[ProcessId, SyncMsg] = {}
        self.sync_before: dict[ProcessId, SyncMsg] = {}  # the previous sync_msg of senders that have moved on
        self.sync_set: tuple[ProcessId, ...] = ()
        self.forwarded_set: set[tuple[ProcessId, ProcessId, int]] = set()  # (receiver, sender, index) in current_view
        self.limits: dict[ProcessId, int] | None = None  # delivery limits by sender; None: no cut applies yet

    # ---- inputs

    def start_change(self, cid: int, members: tuple[ProcessId, ...]) -> None:
        """mbrshp.start_change_p(cid, set)"""
        if self.start_change_now is not None and self.start_change_now[0] == cid:
            self.sync_set = tuple(member for member in self.sync_set if member in members)
        else:
            self.sync_set = ()
        self.start_change_now = (cid, members)
        self.run()

    def sync_received(self, sender: ProcessId, sync: SyncMsg) -> None:
        """Handles a member's cut for the view change: co_rfifo.deliver_{q,p}(<'sync_msg', cid, v, cut>)."""
        super().sync_received(sender, sync)
        if sync.view_id == self.current_view.id and not self._is_possible_cut(sync):
            self.context.outbox.append(Ejected(sender, f"impossible cut of {self.current_view}"))
            return
        known = self.sync_msg.get(sender)
        if known is None or sync.cid > known.cid:
            if known is not None:
                self._keep_previous(sender, known, sync)
            self.sync_msg[sender] = sync
            self.run()

    def _keep_previous(self, sender: ProcessId, known: SyncMsg, sync: SyncMsg) -> None:
        """Keeps the sender's previous sync_msg if the sender has changed its view: it shows how it got there."""
        has_moved = known.view_id != sync.view_id
        if (has_moved or self._awaits(sender, known)) and not self._awaits(sender, self.sync_before.get(sender)):
            self.sync_before[sender] = known

    def _awaits(self, sender: ProcessId, sync: SyncMsg | None) -> bool:
        """Whether the view that this process is moving to needs this sync_msg of the sender."""
        view = self.mbrshp_view
        return (
            sync is not None
            and view.id > self.current_view.id
            and sender in view.members
            and sync.cid == view.start_id(sender)
        )

    def _is_possible_cut(self, sync: SyncMsg) -> bool:
        """Whether the cut has a number for each member, and for this process no more messages than it sent."""
        members = self.current_view.members
        if len(sync.cut) != len(members) or min(sync.cut) < 0:
            return False
        return sync.cut[members.index(self.context.me)] <= self.last_sent

    # ---- local actions

    def local_actions(self) -> None:
        super().local_actions()
        self.ask_reliable()
        if self.set_cut_pre():
            self._set_cut()
        self._send_sync()
        self._set_limits()
        self._forward()

    def wanted_reliable(self) -> tuple[ProcessId, ...]:
        members = super().wanted_reliable()
        if self.start_change_now is None:
            return members
        return tuple(sorted({*members, *self.start_change_now[1]}))

    def _has_own_sync(self) -> bool:
        """start_change != bottom and sync_msg[p][start_change.id] != bottom"""
        own = self.sync_msg.get(self.context.me)
        return self.start_change_now is not None and own is not None and own.cid == self.start_change_now[0]

    def set_cut_pre(self) -> bool:
        return self.start_change_now is not None and not self._has_own_sync()

    def _set_cut(self) -> None:
        assert self.start_change_now is not None
        cut = tuple(self.of[member].msgs.prefix for member in self.current_view.members)
        self.sync_msg[self.context.me] = SyncMsg(self.start_change_now[0], self.current_view.id, cut)
        self.sync_set = (self.context.me,)

    def _send_sync(self) -> None:
        """Sends the own cut for the view change: co_rfifo.send_p(set, <'sync_msg', cid, v, cut>)."""
        if self.start_change_now is None or not self._has_own_sync():
            return
        members = self.start_change_now[1]
        missing = tuple(member for member in members if member not in self.sync_set)
        if missing:
            self.sync_set = members
            self.links.send(missing, self.sync_msg[self.context.me])

    # ---- the cut

    def _view_is_due(self) -> bool:
        """v.startId(p) = start_change.id, and the own sync_msg for it was sent."""
        return (
            self.start_change_now is not None
            and self.mbrshp_view.id > self.current_view.id
            and self.mbrshp_view.start_id(self.context.me) == self.start_change_now[0]
            and self._has_own_sync()
        )

    def _right_syncs(self) -> dict[ProcessId, SyncMsg]:
        """The available sync_msg[q][v.startId(q)] of all q in both views; v is the membership's view."""
        found: dict[ProcessId, SyncMsg] = {}
        view, ours = self.mbrshp_view, self.current_view.members
        for member, start_id in zip(view.members, view.start_ids, strict=True):
            sync = self.sync_msg.get(member)
            if sync is not None and sync.cid > start_id:
                sync = self.sync_before.get(member)
            if member in ours and sync is not None and sync.cid == start_id:
                found[member] = sync
        return found

    def _moving_along(self) -> dict[ProcessId, SyncMsg]:
        """The sync_msgs of `_right_syncs` that were sent in the current view: of the known members of T."""
        width = len(self.current_view.members)
        return {
            member: sync
            for member, sync in self._right_syncs().items()
            if sync.view_id == self.current_view.id and len(sync.cut) == width
        }

    def _has_all_syncs(self) -> bool:
        """Whether all sync_msgs of `_right_syncs` are there: T and the cut are known."""
        common = [member for member in self.mbrshp_view.members if member in self.current_view.members]
        return len(self._right_syncs()) == len(common)

    def _set_limits(self) -> None:
        if not self._has_own_sync():
            self.limits = None
        elif not self._view_is_due():
            self.limits = dict(zip(self.current_view.members, self.sync_msg[self.context.me].cut, strict=True))
        else:
            cuts = [sync.cut for sync in self._moving_along().values()]
            self.limits = dict(zip(self.current_view.members, map(max, zip(*cuts, strict=True)), strict=True))

    def deliver_limit(self, sender: ProcessId, source: SenderState) -> int:
        limit = source.msgs.prefix  # the parent's limit, inlined for speed
        return limit if self.limits is None else min(limit, self.limits[sender])

    def _forward(self) -> None:
        """co_rfifo.send_p(set, <'fwd_msg', r, v, m, i>): forwards messages of senders outside T that members of T lack.

        The lowest member of T that has a message forwards it.
        """
        if not self._view_is_due() or not self._has_all_syncs():
            return
        me, along = self.context.me, self._moving_along()
        for rank, origin in enumerate(self.current_view.members):
            if origin in along:
                continue  # this sender sends to all of T itself
            cuts = {member: sync.cut[rank] for member, sync in along.items()}
            lower = max((cut for member, cut in cuts.items() if member < me), default=0)
            # dropped messages have reached all members, some of them after their cuts
            least = max(min(cuts.values()), self.of[origin].msgs.dropped)
            for index in range(max(lower, least) + 1, cuts[me] + 1):
                lacking = tuple(
                    member
                    for member, cut in cuts.items()
                    if cut < index and (member, origin, index) not in self.forwarded_set
                )
                if lacking:
                    self.forwarded_set.update((member, origin, index) for member in lacking)
                    body = self.of[origin].msgs[index]
                    self.links.send(lacking, FwdMsg(origin, self.current_view.id, body, index))

    # ---- the view

    def view_pre(self) -> bool:
        if not super().view_pre() or not self._view_is_due() or not self._has_all_syncs():
            return False
        assert self.limits is not None
        return (
            all(member in self.sync_set for member in self.mbrshp_view.members)
            and self.last_sent >= self.limits[self.context.me]
            and all(self.of[member].last_dlvrd == limit for member, limit in self.limits.items())
        )

    def transitional(self) -> tuple[ProcessId, ...]:
        return tuple(self._moving_along())

    def view_eff(self, view: View) -> None:
        super().view_eff(view)
        self.start_change_now = None
        self.sync_set = ()
        self.limits = None
        self.forwarded_set.clear()
        start_id = view.start_id(self.context.me)
        self.sync_msg = {member: sync for member, sync in self.sync_msg.items() if sync.cid > start_id}
        self.sync_before = {member: sync for member, sync in self.sync_before.items() if sync.cid > start_id}
