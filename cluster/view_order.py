"""Base class of the orders within one view: acknowledgements, safe indications and the send window.

Paper: De Prisco et al., PODC 1998, fig. 1 (VS). `next` and `next_safe` of fig. 1 are `delivered` and `reported_safe`
here, counted from 0. `queue[g]` does not exist as a whole: all members build the same sequence, each as far as it gets.
Departs:
- A message is safe when every member has reported that it processed the message (`processed`), which is later than its
  receipt: in a durable stack, it is on every disk.
- Acknowledgements are cumulative, and go to the senders of the acknowledged messages. When all members have a message,
  its sender learns it first and tells the others (`safe`). So a message costs two frames for each member, not one for
  each pair of members. Both are piggybacked on the messages of the order. If no message leaves while there is something
  new to acknowledge, a separate `Ack` is sent when the process has handled its input (`settle`). An `Ack` is not part
  of the view's multicast: it may arrive before its view does, and is kept for it.
- Messages without a place at the end of the view are dropped. The total order of their sender still has them.
Above: primary views.  Below: virtual synchrony; for acknowledgements, the links.

A subclass (`AdaptiveOrder`, `Sequencer`) adds four steps: `_begin` (a view starts), `_accept` (a message arrived),
`_order` (deliver the messages that have their place), `_emit` (send what is due). Every input runs them until nothing
is left to do. Reentrant inputs (the client sends while it receives; the layer below hands a process its own message
while it sends it) are queued and handled by the run in progress.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from cluster.actions import VsNewView, VsReceive, VsSafe, VsSend
from cluster.messages import Ack, Ordered, ViewMessage

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.names import ProcessId, View, ViewId
    from cluster.settings import Settings


class Above(Protocol):
    """The client of the view order: the primary views."""

    def new_view(self, view: View) -> None: ...
    def receive(self, sender: ProcessId, body: ViewMessage) -> None: ...
    def safe(self, sender: ProcessId, body: ViewMessage) -> None: ...
    def roomy(self) -> None: ...


class Below(Protocol):
    """The virtual synchrony endpoint."""

    def send(self, body: Ordered) -> None: ...
    def block_ok(self) -> None: ...
    def stable(self, counts: tuple[int, ...]) -> None: ...


class DirectLinks(Protocol):
    """The links, for acknowledgements."""

    def send(self, to: tuple[ProcessId, ...], body: Ack) -> None: ...


class ViewOrder:
    """VS_p: the part common to all orders. Members are identified by their rank in the view."""

    __slots__ = ("_busy", "_early_acks", "_passed", "_stable", "_stable_told", "_was_full", "above", "acked", "below",
                 "blocked", "consumed", "context", "delivered", "links", "members", "others", "outgoing", "owed",
                 "own_rank", "own_safe", "own_unsafe", "rank", "reported_safe", "safe_limit", "safe_received",
                 "safe_sent", "stable_step", "unsafe", "view_now", "window")  # fmt: skip

    above: Above
    below: Below
    links: DirectLinks

    def __init__(self, context: Context, settings: Settings) -> None:
        self.context = context
        self.window = settings.window
        self.stable_step = settings.stable_step
        self.view_now: View | None = None
        self.members: tuple[ProcessId, ...] = ()
        self.others: tuple[ProcessId, ...] = ()
        self.rank: dict[ProcessId, int] = {}
        self.own_rank = 0
        self.blocked = True  # until there is a view to send in
        self.outgoing: deque[ViewMessage] = deque()  # VS-GPSND took place, not sent to the layer below yet
        self.own_unsafe = 0  # own messages of this view that are not known to be safe
        self.delivered = 0  # next[p, g] - 1
        self.reported_safe = 0  # next-safe[p, g] - 1
        self.unsafe: deque[tuple[int, int, ViewMessage]] = deque()  # delivered, not safe: rank, consumed[rank], body
        self.acked: list[int] = []  # by rank: how much of the order the member has processed
        self.owed: dict[int, int] = {}  # by rank: place of its first message that was not acknowledged to it
        self.own_safe = 0  # the place of the last own message that is safe
        self.safe_sent = 0  # the value of reported_safe last sent to other members
        self.safe_received = 0  # the greatest reported_safe received from other members
        self.safe_limit = 0  # how much is safe, by acknowledgements or reports of members; reported_safe follows
        self.consumed: list[int] = []  # by rank: how many messages of the layer below the order has consumed
        self._busy = False
        self._was_full = False
        self._early_acks: dict[ProcessId, Ack] = {}  # acknowledgements of a future view, one per sender
        self._passed: deque[tuple[int, int, int]] = deque()  # consumed without a delivery: see _pass
        self._stable: list[int] = []
        self._stable_told = 0

    @property
    def has_room(self) -> bool:
        """Whether the window has room for one more message of this process."""
        return not self.blocked and self.own_unsafe < self.window

    # ---- inputs from above

    # input VS-GPSND(m)_p
    def send(self, body: ViewMessage) -> None:
        if self.view_now is None:
            return
        if self.context.trace is not None:
            self.context.trace(VsSend(body))
        if self.blocked:
            return  # dropped: in the paper it stays in pending[p, g], and the view ends without it
        self.own_unsafe += 1
        if self.own_unsafe >= self.window:
            self._was_full = True
        self.outgoing.append(body)
        if not self._busy:
            self._run()

    def processed_up_to(self, count: int) -> None:
        """The client has processed the first `count` messages of this view's order: they may be acknowledged."""
        if self.view_now is None or not self.acked[self.own_rank] < count <= self.delivered:
            return
        self.acked[self.own_rank] = count
        self._set_safe_limit()
        if not self._busy and self.safe_limit > self.reported_safe:
            self._run()

    # ---- inputs from below

    # output VS-NEWVIEW(v)_p
    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:  # noqa: ARG002
        self._enter(view)
        if self.context.trace is not None:
            self.context.trace(VsNewView(view))
        self._busy = True
        self.above.new_view(view)
        self._busy = False
        self._run()

    def block(self) -> None:
        self.blocked = True
        self.below.block_ok()

    def deliver(self, sender: ProcessId, body: Ordered) -> None:
        rank = self.rank.get(sender)
        if rank is None:
            return
        if rank != self.own_rank and (body.ack > self.acked[rank] or body.safe > self.safe_received):
            self._acknowledged(rank, body.ack, body.safe)
        self._accept(rank, body)
        if not self._busy:
            self._run()

    def ack_received(self, sender: ProcessId, ack: Ack) -> None:
        view = self.view_now
        if view is not None and ack.view_id == view.id:
            rank = self.rank.get(sender)
            if rank is None or rank == self.own_rank:
                return
            self._acknowledged(rank, ack.count, ack.safe)
            if not self._busy and self.safe_limit > self.reported_safe:
                self._run()
        elif view is None or ack.view_id > view.id:
            known = self._early_acks.get(sender)
            if known is None or (known.view_id, known.count) < (ack.view_id, ack.count):
                self._early_acks[sender] = ack

    def _acknowledged(self, rank: int, count: int, safe: int) -> None:
        if count > self.acked[rank]:
            self.acked[rank] = count
        if safe > self.safe_received:
            self.safe_received = safe
        self._set_safe_limit()

    def _set_safe_limit(self) -> None:
        """Limits what is safe to what this process has processed itself, whatever other members report."""
        limit = min(self.acked)
        self.safe_limit = limit if limit >= self.safe_received else min(self.safe_received, self.acked[self.own_rank])

    def settle(self) -> None:
        """The process has handled its input: sends acknowledgements that no message carried."""
        view = self.view_now
        if view is None or self._busy:
            return
        if self.own_safe > self.safe_sent:
            to = self.others
        elif self.owed:
            count = self.acked[self.own_rank]
            to = tuple([self.members[rank] for rank, first in self.owed.items() if first <= count])
        else:
            return
        if to:
            self.links.send(to, Ack(view.id, self._own_ack(), self.reported_safe))

    # ---- what an order adds

    def _begin(self, view_id: ViewId) -> None:
        """A view begins; `members` and `own_rank` are set."""
        raise NotImplementedError

    def _accept(self, rank: int, body: Ordered) -> None:
        """A message arrived. Invalid messages are ignored: all members receive the same ones, and ignore them alike."""
        raise NotImplementedError

    def _order(self) -> None:
        """Delivers every message that has its place in the order, by `_deliver`; consumes the others by `_pass`."""
        raise NotImplementedError

    def _emit(self) -> bool:
        """Sends `outgoing` and other due messages. Returns whether anything was sent."""
        raise NotImplementedError

    # ---- for the orders

    # internal VS-ORDER(m, q, g), then output VS-GPRCV(m)_{q,p}
    def _deliver(self, rank: int, body: ViewMessage) -> None:
        self.delivered += 1
        self.consumed[rank] = used = self.consumed[rank] + 1
        self.unsafe.append((rank, used, body))
        if rank != self.own_rank:
            self.owed.setdefault(rank, self.delivered)
        sender = self.members[rank]
        if self.context.trace is not None:
            self.context.trace(VsReceive(sender, body))
        self.above.receive(sender, body)

    def _pass(self, rank: int) -> None:
        """A message that only served the order was consumed here, before the next delivery.

        So a member that acknowledges the next delivery has consumed it as well.
        """
        self.consumed[rank] = used = self.consumed[rank] + 1
        self._passed.append((self.delivered + 1, rank, used))

    def _own_ack(self) -> int:
        """The acknowledgement that the next message carries, for all members to which one is owed."""
        count = self.acked[self.own_rank]
        if count == self.delivered:
            self.owed.clear()
        else:
            self.owed = {rank: max(first, count + 1) for rank, first in self.owed.items()}
        self.safe_sent = self.reported_safe
        return count

    # ---- the run

    def _enter(self, view: View) -> None:
        self.view_now = view
        self.members = view.members
        self.others = tuple(member for member in view.members if member != self.context.me)
        self.rank = {member: rank for rank, member in enumerate(view.members)}
        self.own_rank = self.rank[self.context.me]
        self.blocked = False
        self.outgoing.clear()
        self.own_unsafe = self.delivered = self.reported_safe = 0
        self.own_safe = self.safe_sent = self.safe_received = self.safe_limit = 0
        self.owed.clear()
        self.unsafe.clear()
        self._was_full = False
        self._passed.clear()
        count = len(view.members)
        self.acked = [0] * count
        self.consumed = [0] * count
        self._stable = [0] * count
        self._stable_told = 0
        for sender, ack in list(self._early_acks.items()):
            if ack.view_id <= view.id:
                del self._early_acks[sender]
                if ack.view_id == view.id and sender in self.rank:
                    self.acked[self.rank[sender]] = ack.count
        self._begin(view.id)

    def _run(self) -> None:
        self._busy = True
        while True:
            self._order()
            while self.safe_limit > self.reported_safe and self.unsafe:
                self._report_safe()
            if self._was_full and self.has_room:
                self._was_full = False
                self.above.roomy()
            if not self._emit():
                break
        self._busy = False

    # output VS-SAFE(m)_{q,p}
    def _report_safe(self) -> None:
        unsafe = self.unsafe
        while unsafe and self.reported_safe < self.safe_limit:
            self.reported_safe += 1
            rank, used, body = unsafe.popleft()
            self._stable[rank] = used
            if rank == self.own_rank:
                self.own_unsafe -= 1
                self.own_safe = self.reported_safe
            sender = self.members[rank]
            if self.context.trace is not None:
                self.context.trace(VsSafe(sender, body))
            self.above.safe(sender, body)
        if self.reported_safe >= self._stable_told + self.stable_step:
            self._tell_stable()

    def _tell_stable(self) -> None:
        self._stable_told = self.reported_safe
        passed = self._passed
        while passed and passed[0][0] <= self.reported_safe:
            _, rank, used = passed.popleft()
            if used > self._stable[rank]:
                self._stable[rank] = used
        self.below.stable(tuple(self._stable))
