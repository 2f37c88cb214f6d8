"""SELF: specification of self delivery and of the client that blocks during a view change.

A client gets all its own messages of a view before the next view, and sends nothing between block_ok and that view.
Paper: Khazan's thesis, fig. 5.4 (a modification of WV_RFIFO), the blocking client of fig. 7.1, and the precondition of
block_p of fig. 6.6. State variables keep its names.
Departs: a recovery leaves the client unblocked, and without a start_change.
No internal actions, so no guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.specs.wv_rfifo import WvRfifoSpec

if TYPE_CHECKING:
    from cluster.actions import Block, BlockOk, GcsSend, GcsView, Recovered, StartChange
    from cluster.names import ProcessId

UNBLOCKED, REQUESTED, BLOCKED = range(3)


class SelfSpec(WvRfifoSpec):
    NAME = "SELF"

    def __init__(self) -> None:
        super().__init__()
        self.block_status: dict[ProcessId, int] = {}  # initially unblocked
        self.start_change: dict[ProcessId, int] = {}  # the id; absent: none

    # output view_p(v) modifies wv_rfifo.view_p(v)
    def gcs_view_pre(self, act: GcsView, at: ProcessId) -> None:
        super().gcs_view_pre(act, at)
        sent = self.msgs.get(self.view_of(at).id, {}).get(at)
        last = sent.end if sent is not None else 0
        self.require(
            self.last_dlvrd.get(at, {}).get(at, 0) == last,
            "view: last_dlvrd[p][p] = LastIndexOf(msgs[p][current_view[p]])",
            self.last_dlvrd.get(at, {}).get(at, 0),
            last,
        )
        if last:
            self.branch("view: after own messages")

    def gcs_view_eff(self, act: GcsView, at: ProcessId) -> None:
        super().gcs_view_eff(act, at)
        self.block_status[at] = UNBLOCKED
        self.start_change.pop(at, None)

    def start_change_eff(self, act: StartChange, at: ProcessId) -> None:
        self.start_change[at] = act.cid

    # GCS: output block_p()
    def block_pre(self, _act: Block, at: ProcessId) -> None:
        self.require(at in self.start_change, "block: start_change is not bottom")
        self.require(self.block_status.get(at, UNBLOCKED) == UNBLOCKED, "block: block_status = unblocked")

    def block_eff(self, _act: Block, at: ProcessId) -> None:
        self.block_status[at] = REQUESTED

    # CLIENT: output block_ok_p()
    def block_ok_pre(self, _act: BlockOk, at: ProcessId) -> None:
        self.require(self.block_status.get(at, UNBLOCKED) == REQUESTED, "block_ok: block_status = requested")

    def block_ok_eff(self, _act: BlockOk, at: ProcessId) -> None:
        self.block_status[at] = BLOCKED

    # CLIENT: output send_p(m)
    def gcs_send_pre(self, act: GcsSend, at: ProcessId) -> None:
        super().gcs_send_pre(act, at)
        self.require(self.block_status.get(at, UNBLOCKED) != BLOCKED, "send: block_status /= blocked")

    def gcs_send_eff(self, act: GcsSend, at: ProcessId) -> None:
        super().gcs_send_eff(act, at)
        if self.block_status.get(at, UNBLOCKED) == REQUESTED:
            self.branch("send: between block and block_ok")

    def recovered_eff(self, act: Recovered, at: ProcessId) -> None:
        super().recovered_eff(act, at)
        self.block_status[at] = UNBLOCKED
        self.start_change.pop(at, None)
