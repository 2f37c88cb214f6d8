"""Group communication end-point: FIFO multicast, virtual synchrony and self delivery. Top of three classes.

The third automaton of the group communication end-point; with its two parents it is the complete end-point.
Paper: Khazan's thesis, fig. 6.6 (GCS_p = VS_RFIFO+TS+SD_p).
Departs: nothing.
Above: the view order, which answers `block` with `block_ok` and sends nothing from then until the next view.
Below: links and membership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import Block, BlockOk
from cluster.virtual_synchrony import VirtualSynchrony

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.messages import Ordered
    from cluster.names import View

UNBLOCKED = "unblocked"
REQUESTED = "requested"
BLOCKED = "blocked"


class Endpoint(VirtualSynchrony):
    """The whole end-point of one process (GCS_p)."""

    __slots__ = ("block_status",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.block_status = UNBLOCKED

    def send(self, body: Ordered) -> None:
        if self.block_status == BLOCKED:
            raise RuntimeError("the client sent a message after block_ok and before the next view")
        VirtualSynchrony.send(self, body)  # the same as super(), but faster

    def block_ok(self) -> None:
        """block_ok_p()"""
        if self.block_status != REQUESTED:
            raise RuntimeError(f"unexpected block_ok in status {self.block_status}")
        if self.context.trace is not None:
            self.context.trace(BlockOk())
        self.block_status = BLOCKED
        self.run()

    def local_actions(self) -> None:
        if self.start_change_now is not None and self.block_status == UNBLOCKED:
            self.block_status = REQUESTED
            if self.context.trace is not None:
                self.context.trace(Block())
            self.above.block()
        super().local_actions()

    def set_cut_pre(self) -> bool:
        return self.block_status == BLOCKED and super().set_cut_pre()

    def view_eff(self, view: View) -> None:
        super().view_eff(view)
        self.block_status = UNBLOCKED
