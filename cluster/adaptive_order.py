"""Default order within a view: each member owns slots in proportion to its send rate. There is no leader.

Paper: Chockler, Huleihel and Dolev, PODC 1998, section 4.3 (ATOM), figs. 4-6. State variables keep the paper's names.
Departs:
- A member without a message gives up its slots as soon as a message waits for them (section 5 leaves that to flow
  control). It gives up all its slots before the last message it knows of, in one null message or in the message that it
  is sending anyway. So an idle member costs one message delay and never a timeout. Total silence costs nothing.
- A member that learns of a new distribution sends something under it at once, if need be a null message of no slots. So
  a switch ends one message delay after the last member learned of it.
- The end of a view skips nothing (conditions with PendingViews): a message that would have to skip a slot is not
  delivered. VS above requires a gap-free prefix of one sequence.
- Slots are compared by their places instead of walking along the sequence. A member that moved on to a later
  distribution has its place at infinity, which is the skipping of fig. 6. When all members are there, the distribution
  changes, which is fig. 4.
Above: primary views.  Below: virtual synchrony.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.messages import Ordered, Slot, ViewMessage
from cluster.names import ViewId
from cluster.slot_weights import WeightPolicy
from cluster.slots import SlotAssignment, is_valid_distribution
from cluster.view_order import ViewOrder

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.settings import Settings

NEVER = 1 << 62  # the place of the next slot of a member that uses no more of this distribution
COUNT_MAX = 1 << 20  # slots that one message may take
BOOK_KEEPER = 0  # the rank of the book-keeper


class AdaptiveOrder(ViewOrder):
    """The order at one member (ATOM_p). At the book-keeper it also redistributes the slots (AP_p)."""

    __slots__ = ("announced", "book", "deals", "horizon", "next", "ord_deal", "ord_dist", "own_place", "pending_msgs",
                 "places", "rcvd", "send_deal", "send_dist", "seqno", "settings", "view_id")  # fmt: skip

    def __init__(self, context: Context, settings: Settings) -> None:
        super().__init__(context, settings)
        self.settings = settings
        self._begin(ViewId(0, ""))

    def _begin(self, view_id: ViewId) -> None:
        members = max(1, len(self.members))
        uniform = SlotAssignment((1,) * members, view_id, 0)
        self.view_id = view_id
        self.book = WeightPolicy(members, self.settings) if self.own_rank == BOOK_KEEPER and members > 1 else None
        self.deals: dict[int, SlotAssignment] = {0: uniform}  # current and future distributions
        # sending
        self.send_dist = 0
        self.send_deal = uniform
        self.seqno = 0  # own slots of send_dist used or given up
        self.announced = True  # whether anything was sent under send_dist
        self.own_place = uniform.place(self.own_rank, 0)  # of the next own slot under send_dist
        self.horizon = -1  # the last place under send_dist known to hold a message of another member
        # ordering
        self.ord_dist = 0
        self.ord_deal = uniform
        self.next = [0] * members  # by rank: slots of ord_dist already ordered or skipped
        self.places = [uniform.place(rank, 0) for rank in range(members)]  # by rank: place of slot next[rank]
        self.pending_msgs: list[deque[Slot]] = [deque() for _ in range(members)]
        self.rcvd = [(0, 0)] * members  # by rank: (distribution, number) of its next message, unless it switches

    # ---- receiving

    def _accept(self, rank: int, body: Ordered) -> None:
        if type(body) is not Slot:
            return
        dist, seqno, count = body.dist_id, body.seqno, body.count
        if (dist, seqno) != self.rcvd[rank] and not self._is_first_under(rank, body):
            return
        if not (1 if body.body is not None else 0) <= count <= COUNT_MAX:
            return
        self.rcvd[rank] = (dist, seqno + count)
        queue = self.pending_msgs[rank]
        is_next = not queue
        queue.append(body)
        if dist > self.send_dist:
            self._adopt(dist)
        if body.body is not None:
            if dist == self.send_dist and rank != self.own_rank:
                is_next = is_next and dist == self.ord_dist
                place = self.places[rank] if is_next else self.send_deal.place(rank, seqno)
                if place > self.horizon:
                    self.horizon = place
            if self.book is not None:
                weights = self.book.on_message(rank)
                if weights is not None:
                    dist = self.send_dist + 1
                    self.deals[dist] = SlotAssignment(weights, self.view_id, dist)
                    self._adopt(dist)

    def _is_first_under(self, rank: int, first: Slot) -> bool:
        """Whether this is a member's first message under a distribution later than its last one."""
        dist, weights = first.dist_id, first.weights
        if dist <= self.rcvd[rank][0] or first.seqno != 0 or weights is None:
            return False
        if dist not in self.deals:
            if not is_valid_distribution(weights, len(self.members)):
                return False
            self.deals[dist] = SlotAssignment(weights, self.view_id, dist)
        return self.deals[dist].weights == weights

    def _adopt(self, dist: int) -> None:
        self.send_dist = dist
        self.send_deal = self.deals[dist]
        self.seqno = 0
        self.own_place = self.send_deal.place(self.own_rank, 0)
        self.horizon = -1
        self.announced = False

    # ---- ordering

    def _order(self) -> None:
        places, pending = self.places, self.pending_msgs
        while True:
            place = min(places)
            if place == NEVER:
                self._switch()
                continue
            rank = places.index(place)
            queue = pending[rank]
            if not queue:
                return
            slot = queue[0]
            if slot.dist_id != self.ord_dist:
                places[rank] = NEVER
                continue
            queue.popleft()
            self.next[rank] = number = self.next[rank] + slot.count
            places[rank] = self.ord_deal.place(rank, number)
            if slot.body is None:
                self._pass(rank)
            else:
                self._deliver(rank, slot.body)

    def _switch(self) -> None:
        """All members have moved on: the lowest distribution with a message of any member becomes ordDist."""
        self.ord_dist = dist = min(queue[0].dist_id for queue in self.pending_msgs)
        self.ord_deal = deal = self.deals[dist]
        for old in [known for known in self.deals if known < dist]:
            del self.deals[old]
        for rank in range(len(self.members)):
            self.next[rank] = 0
            self.places[rank] = deal.place(rank, 0)

    # ---- sending

    def _emit(self) -> bool:
        if self.blocked:
            return False
        outgoing = self.outgoing
        if outgoing:
            while outgoing:
                body = outgoing.popleft()
                self._post(1 if outgoing else max(1, self._slots_due()), body)
            return True
        if self.own_place < self.horizon or not self.announced:
            self._post(self._slots_due(), None)
            return True
        return False

    def _post(self, count: int, body: ViewMessage | None) -> None:
        weights = None if self.announced else self.send_deal.weights
        self.announced = True
        seqno = self.seqno
        self.seqno = following = seqno + count
        self.own_place = self.send_deal.place(self.own_rank, following)
        self.below.send(Slot(self.send_dist, seqno, count, weights, self._own_ack(), body, self.reported_safe))

    def _slots_due(self) -> int:
        """Number of own slots before the last known message. Each unused one of them delays that message."""
        if self.own_place > self.horizon:
            return 0
        return min(COUNT_MAX, self.send_deal.before(self.own_rank, self.horizon) - self.seqno)
