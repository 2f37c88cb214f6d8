"""Interim-atomic data service: one replica of an object that stays available on all sides of a partition.

While a view lasts, all its members apply the same operations in the same order, so the object is atomic. When a view
ends, each member applies what it has received. Members that move on together have received the same, so their states
are equal, and the lowest of them sends the state for all. States of members that come from different views are merged.

Paper: Khazan's thesis, fig. 10.7 (IADS_p), with the state transfer of Amir et al. State variables keep its names.
Departs:
- do_p(q, o) needs lt[t] >= ts of all members t, not lt[t] > ts. That is enough: everything that t sends later has a
  greater time than lt[t]. As printed, the sender of an operation would have to send its time once more, and a process
  that is alone in its view, where lt[p] is the time of its last operation, would never apply it.
- <'lt_msg', ts> is sent when an operation waits for it, not periodically: at the end of a step in which operations
  arrived whose time the sender has not passed yet in what it sent.
- States travel in chunks. Only a few are sent ahead of what all members have.
- The number of own operations in flight is limited; the others stay in `inp`.
- Operations and merged states are on disk before their response or refresh. A restarted process begins with them, in
  its singleton view, in which it sends nothing.
- A view with a member that does not have this service is entered in mode st, and nothing is sent in it.
Above: the client.  Below: the end-point, shared with the view order by `endpoint_fork`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.actions import (
    InterimApplied,
    InterimLoaded,
    InterimRefresh,
    InterimRequest,
    InterimResponse,
    InterimView,
)
from cluster.durable import InterimOperation, InterimState
from cluster.interim.state_transfer import StateSender, StatesReceived
from cluster.layer import Ejected, InterimAnswered, InterimRefreshed, Persist
from cluster.messages import InterimMessage, LtMsg, OpMsg, StMsg
from cluster.names import ProcessId, View, initial_view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.interim.endpoint_fork import EndpointFork
    from cluster.interim.shared_object import SharedObject
    from cluster.layer import Context
    from cluster.settings import Settings

NORMAL, ST = "normal", "st"
TS_MAX = 2**53  # a logical time beyond this violates the protocol


class InterimReplica:
    """IADS_p. Inputs: `request`, and from the end-point `deliver`, `view` and `block`."""

    __slots__ = (
        "_acked",
        "_announced",
        "_answer_due",
        "_journal_bytes",
        "_running",
        "_stable_step",
        "_state_bytes",
        "_ticket",
        "_unstable",
        "_waited_ts",
        "blocked",
        "context",
        "fork",
        "incapable",
        "inp",
        "lt",
        "mode",
        "myview",
        "obj",
        "ops",
        "sending",
        "settings",
        "states",
        "synced",
        "tickets",
        "wall_clock",
    )  # fmt: skip

    fork: EndpointFork

    def __init__(
        self, context: Context, settings: Settings, obj: SharedObject, wall_clock: Callable[[], float]
    ) -> None:
        self.context = context
        self.settings = settings
        self.wall_clock = wall_clock
        self.obj = obj
        self.inp: deque[tuple[int, bytes]] = deque()  # ticket and operation
        self.tickets: deque[int] = deque()  # of ops[p], in order
        self.myview: View = initial_view(context.me)
        self.lt: dict[ProcessId, int] = {context.me: 0}
        self.ops: dict[ProcessId, deque[tuple[int, bytes]]] = {context.me: deque()}
        self.blocked = True  # until there is a view to send in
        self.mode = NORMAL
        self.synced: tuple[ProcessId, ...] = (context.me,)  # SS
        self.states = StatesReceived(())  # StatesV, States_Await
        self.sending: StateSender | None = None  # send_state
        self.incapable: set[ProcessId] = set()  # processes known not to have this service
        self._announced = 0  # the greatest own logical time that was sent in this view
        self._waited_ts = 0  # the greatest time of an operation of another member in this view
        self._answer_due = False  # chunks arrived that were not acknowledged
        self._acked: dict[ProcessId, tuple[int, ...]] = {}  # `received` of the other members, as they last sent it
        self._unstable = 0  # messages since the last report of the messages that all members have
        self._stable_step = settings.stable_step
        self._ticket = 0
        self._journal_bytes = 0  # bytes of operations written since the last state
        self._state_bytes = 0  # size of that state
        self._running = False

    # ---- inputs

    def start(self, records: Sequence[InterimOperation | InterimState]) -> None:
        """Begin with the state on the disk."""
        now = self.wall_clock()
        for record in records:
            age = max(0.0, now - record.at)
            if isinstance(record, InterimState):
                self.obj.restore(record.state, age)
                self._state_bytes = len(record.state)
            else:
                self.obj.apply(record.origin, record.body, age)
                self._journal_bytes += len(record.body)
        if self.context.trace is not None:
            self.context.trace(InterimLoaded(self.obj.digest()))

    def request(self, body: bytes) -> int:
        """request_p(o). The result arrives as `InterimAnswered` with the ticket that is returned."""
        self._ticket += 1
        if self.context.trace is not None:
            self.context.trace(InterimRequest(self._ticket, body))
        self.inp.append((self._ticket, body))
        self._run()
        return self._ticket

    def block(self) -> None:
        """gcs.block_p(), answered by gcs.block_ok_p() at once."""
        self.blocked = True

    def deliver(self, sender: ProcessId, body: InterimMessage) -> None:
        """gcs.deliver_p(q, m)"""
        if type(body) is StMsg:
            self._deliver_state(sender, body)
        elif sender != self.context.me:
            assert type(body) is OpMsg or type(body) is LtMsg
            self._deliver_time(sender, body)
        self._unstable += 1
        if self._unstable >= self._stable_step:
            self._tell_stable()
        self._run()

    def _deliver_time(self, sender: ProcessId, body: OpMsg | LtMsg) -> None:
        """gcs.deliver_p(q, <'op_msg', o, ts>) and gcs.deliver_p(q, <'lt_msg', ts>)"""
        width = len(self.myview.members)
        is_op = type(body) is OpMsg
        if not self.lt[sender] + is_op <= body.ts <= TS_MAX or len(body.received) != width:
            self._eject(sender, f"a message at logical time {body.ts}, after {self.lt[sender]}")
            return
        self.lt[sender] = body.ts
        self.lt[self.context.me] = max(self.lt[self.context.me], body.ts) + 1
        if type(body) is OpMsg:
            self.ops[sender].append((body.ts, body.body))
            self._waited_ts = max(self._waited_ts, body.ts)
        self._acked[sender] = body.received
        if self.sending is not None:
            self.sending.received_by_all(self._received_by_others(self.context.me))

    def _deliver_state(self, sender: ProcessId, body: StMsg) -> None:
        """gcs.deliver_p(q, <'st_msg', set, x>)"""
        if sender != self.context.me and body.chunk + 1 < body.chunks:
            self._answer_due = True  # the sender waits for it before it sends more
        wrong = self.states.add(sender, body)
        if wrong:
            self._eject(sender, wrong)
        elif self.mode == ST and self.states.is_complete:
            self.obj.merge(self.states.in_order())
            self.states = StatesReceived(())
            self._enter_normal_mode()

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        """gcs.view_p(v, T)"""
        while (sender := self._first()) is not None:
            self._apply(sender, at_view_end=True)
        self.myview = view
        self.lt = dict.fromkeys(view.members, 0)
        self.ops = {member: deque() for member in view.members}
        self.blocked = False
        self._announced = self._waited_ts = self._unstable = 0
        self._acked.clear()
        self._answer_due = False
        self.synced = transitional if self.mode == NORMAL else tuple(p for p in self.synced if p in transitional)
        if self.context.trace is not None:
            self.context.trace(InterimView(view, self.synced))
        self.sending = None
        if len(self.synced) == len(view.members):
            self._enter_normal_mode(is_same_state=True)
        else:
            self.mode = ST
            self.states = StatesReceived(view.members)
            if self.context.me == min(self.synced):
                self.sending = StateSender(self.synced, self.obj.snapshot(), self.settings.interim_chunk_bytes)
        self._run()

    def settle(self) -> None:
        """The process has handled its input: gcs.send_p(<'lt_msg', ts>) if others wait for it."""
        if (self._answer_due or self._announced < self._waited_ts) and self._may_send:
            self._answer_due = False
            self._announced = self.lt[self.context.me]
            self.fork.send(LtMsg(self._announced, self._received()))

    # ---- local actions

    @property
    def _may_send(self) -> bool:
        return not self.blocked and not (self.incapable and self.incapable.intersection(self.myview.members))

    def _run(self) -> None:
        """Run the local actions until none is enabled. (The end-point delivers own messages while they are sent.)"""
        if self._running:
            return
        self._running = True
        while self._send_operation() or self._send_chunk() or self._do():
            pass
        self._running = False

    def _send_operation(self) -> bool:
        """gcs.send_p(<'op_msg', o, ts>)"""
        me = self.context.me
        if not self.inp or not self._may_send or len(self.tickets) >= self.settings.interim_window:
            return False
        ticket, body = self.inp.popleft()
        self.lt[me] = self._announced = ts = self.lt[me] + 1
        self.ops[me].append((ts, body))
        self.tickets.append(ticket)
        self.fork.send(OpMsg(ts, body, self._received()))
        return True

    def _send_chunk(self) -> bool:
        """gcs.send_p(<'st_msg', set, x>), one chunk of it."""
        sending = self.sending
        if sending is None or sending.is_done or not self._may_send:
            return False
        if len(sending.in_flight) >= self.settings.interim_chunks_ahead:
            return False
        sending.in_flight.append(self.fork.endpoint.last_sent + 1)
        self.fork.send(sending.next_chunk())
        return True

    def _first(self) -> ProcessId | None:
        """The sender of the first operation in the order of logical times."""
        return min((member for member, waiting in self.ops.items() if waiting), key=self._place, default=None)

    def _place(self, sender: ProcessId) -> tuple[int, ProcessId]:
        return self.ops[sender][0][0], sender

    def _do(self) -> bool:
        """do_p(q, o)"""
        sender = self._first() if self.mode == NORMAL else None
        if sender is None:
            return False
        ts = self.ops[sender][0][0]
        if any(time < ts for time in self.lt.values()):
            return False
        self._apply(sender, at_view_end=False)
        return True

    def _apply(self, sender: ProcessId, *, at_view_end: bool) -> None:
        _, body = self.ops[sender].popleft()
        result = self.obj.apply(sender, body, 0.0)
        context = self.context
        context.outbox.append(Persist(InterimOperation(sender, body, self.wall_clock())))
        if context.trace is not None:
            context.trace(InterimApplied(sender, body, at_view_end))
        self._journal_bytes += len(body)
        if sender == context.me:
            ticket = self.tickets.popleft()
            if context.trace is not None:
                context.trace(InterimResponse(ticket, repr(result)))
            context.outbox.append(InterimAnswered(ticket, result))
        if self._journal_bytes > max(self.settings.interim_journal_bytes, self._state_bytes):
            self._write_state()

    def _write_state(self) -> None:
        state = self.obj.snapshot()
        self._journal_bytes, self._state_bytes = 0, len(state)
        self.context.outbox.append(Persist(InterimState(state, self.wall_clock())))

    def _enter_normal_mode(self, *, is_same_state: bool = False) -> None:
        """Mode normal begins: refresh_p(myview.set, obj). `is_same_state`: without a state transfer."""
        self.mode = NORMAL
        if not is_same_state:
            self._write_state()
        if self.context.trace is not None:
            self.context.trace(InterimRefresh(self.myview.members, self.obj.snapshot(), self.obj.digest()))
        self.context.outbox.append(InterimRefreshed(self.myview.members))

    # ---- messages that all members have

    def _received(self) -> tuple[int, ...]:
        of = self.fork.endpoint.of
        return tuple([of[member].last_dlvrd for member in self.myview.members])

    def _received_by_others(self, sender: ProcessId) -> int:
        rank, me = self.myview.members.index(sender), self.context.me
        return min((self._acked[p][rank] if p in self._acked else 0 for p in self.myview.members if p != me), default=0)

    def _tell_stable(self) -> None:
        self._unstable = 0
        if len(self._acked) == len(self.myview.members) - 1:
            self.fork.stable_in_all(tuple(map(min, zip(self._received(), *self._acked.values(), strict=True))))

    def _eject(self, peer: ProcessId, reason: str) -> None:
        self.context.outbox.append(Ejected(peer, f"interim service: {reason}"))
