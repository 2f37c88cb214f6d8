"""Fixed-sequencer total order within a view: the simple alternative to the adaptive order.

Paper: none of its own; the sequencer based protocols that the ATOP paper mentions (PODC 1998, section 1.2.1).
The lowest-ranked member of the view is the sequencer. It places all messages. Its own messages are placed where they
stand in its stream. For messages of other members it multicasts `Sequence`, at the end of the input that brought them.
Above: primary views.  Below: virtual synchrony.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.messages import Ordered, Plain, Sequence, ViewMessage
from cluster.names import ViewId
from cluster.view_order import ViewOrder

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.settings import Settings

SEQUENCER = 0  # the rank of the sequencer
USED_UP = -1  # marker in `placed`: here the next `Sequence` message began


class Sequencer(ViewOrder):
    """The member of rank 0 decides the order; all members, the sequencer included, follow its stream."""

    __slots__ = ("pending", "placed", "unplaced")

    def __init__(self, context: Context, settings: Settings) -> None:
        super().__init__(context, settings)
        self._begin(ViewId(0, ""))

    def _begin(self, view_id: ViewId) -> None:  # noqa: ARG002
        self.pending: list[deque[ViewMessage]] = [deque() for _ in self.members]
        self.placed: deque[int] = deque()  # rank for each next place: the sequencer's stream, unrolled
        self.unplaced: list[int] = []  # at the sequencer: ranks of received messages without a place

    def _accept(self, rank: int, body: Ordered) -> None:
        if type(body) is Plain:
            self.pending[rank].append(body.body)
            if rank == SEQUENCER:
                self.placed.append(rank)
            elif self.own_rank == SEQUENCER:
                self.unplaced.append(rank)
        elif type(body) is Sequence and rank == SEQUENCER:
            if any(not SEQUENCER < sender < len(self.members) for sender in body.senders):
                return
            self.placed.append(USED_UP)
            self.placed.extend(body.senders)

    def _order(self) -> None:
        placed, pending = self.placed, self.pending
        while placed:
            rank = placed[0]
            if rank == USED_UP:
                placed.popleft()
                self._pass(SEQUENCER)
            elif pending[rank]:
                placed.popleft()
                self._deliver(rank, pending[rank].popleft())
            else:
                return

    def _emit(self) -> bool:
        if self.blocked:
            return False
        sent = False
        if self.unplaced:
            senders = tuple(self.unplaced)
            self.unplaced.clear()
            self.below.send(Sequence(self._own_ack(), senders, self.reported_safe))
            sent = True
        while self.outgoing:
            self.below.send(Plain(self._own_ack(), self.outgoing.popleft(), self.reported_safe))
            sent = True
        return sent
