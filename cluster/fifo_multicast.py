"""Reliable FIFO multicast within a view: the base class of the end-point.

Paper: Khazan's thesis, fig. 6.2 (WV_RFIFO_p). State variables keep the thesis' names. Variables that the thesis has
"for all q" are in one record per process, `of[q]`.
Departs: views are compared by their ids (equal ids are equal views). A message queue is kept for the current view, and
for the last view that its sender announced if that one is later. Messages that all members have are dropped (`stable`,
6.4).
Above: the view order.  Below: links and membership.

A child automaton adds preconditions (`deliver_limit`, `view_pre`), effects (`view_eff`) and actions (`local_actions`),
and never writes its parent's variables. All actions that an input enables run before the input returns. If an input
arrives while actions run (the client sends during a delivery), the run in progress also handles its consequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.actions import GcsDeliver, GcsSend, GcsView
from cluster.messages import AppMsg, FwdMsg, Ordered, Payload, SyncMsg, ViewMsg
from cluster.names import ProcessId, View, initial_view

if TYPE_CHECKING:
    from cluster.layer import Context

AHEAD_MAX = 100_000  # forwarded messages further than this beyond the first gap are discarded


class EndpointClient(Protocol):
    """The user of the end-point: the view order."""

    def deliver(self, sender: ProcessId, body: Ordered) -> None: ...
    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None: ...
    def block(self) -> None: ...


class LinkCarrier(Protocol):
    """The part of the links that the end-point uses."""

    def send(self, to: tuple[ProcessId, ...], body: Payload) -> None: ...
    def reliable(self, members: tuple[ProcessId, ...]) -> None: ...


class MessageQueue:
    """msgs[q][v]: messages 1, 2, ... of one sender in one view, without the dropped ones at the beginning."""

    __slots__ = ("ahead", "dropped", "items", "prefix")

    def __init__(self) -> None:
        self.dropped = 0
        self.items: list[Ordered] = []
        self.prefix = 0  # LongestPrefixOf: number of messages before the first gap
        self.ahead: dict[int, Ordered] = {}  # forwarded messages beyond a gap

    def __getitem__(self, index: int) -> Ordered:
        return self.items[index - self.dropped - 1]

    def append(self, body: Ordered) -> None:
        self.items.append(body)
        self.prefix += 1
        while self.ahead and self.prefix + 1 in self.ahead:
            self.items.append(self.ahead.pop(self.prefix + 1))
            self.prefix += 1

    def put(self, index: int, body: Ordered) -> None:
        if index == self.prefix + 1:
            self.append(body)
        elif self.prefix < index <= self.prefix + AHEAD_MAX:
            self.ahead[index] = body

    def drop(self, count: int) -> None:
        if count > self.dropped:
            del self.items[: count - self.dropped]
            self.dropped = count


class SenderState:
    """The state kept for one sender q."""

    __slots__ = ("into", "last_dlvrd", "last_rcvd", "later", "msgs", "view_msg")

    def __init__(self, process: ProcessId) -> None:
        self.view_msg: View = initial_view(process)
        self.last_rcvd = 0
        self.last_dlvrd = 0
        self.msgs = MessageQueue()  # msgs[q][current_view]
        self.later: MessageQueue | None = None  # msgs[q][view_msg[q]] while that is a later view
        self.into: MessageQueue | None = None  # the queue for its next app_msg: msgs, later or None


class FifoMulticast:
    """Sends in FIFO order and delivers in the view of the send (WV_RFIFO_p)."""

    __slots__ = (
        "_again", "_own", "_running", "above", "context", "current_view", "last_sent", "links", "mbrshp_view", "of",
        "others", "reliable_set",
    )  # fmt: skip

    links: LinkCarrier
    above: EndpointClient

    def __init__(self, context: Context) -> None:
        self.context = context
        self.current_view = self.mbrshp_view = initial_view(context.me)
        self.reliable_set: tuple[ProcessId, ...] = (context.me,)
        self.last_sent = 0
        self._own = SenderState(context.me)
        self.of: dict[ProcessId, SenderState] = {context.me: self._own}
        self.others: tuple[ProcessId, ...] = ()  # current_view.set - {p}
        self._running = False  # local actions are being run
        self._again = False  # an input arrived while they ran

    # ---- inputs

    def send(self, body: Ordered) -> None:
        """Multicasts in the view: send_p(m), and co_rfifo.send_p(set, <'app_msg', m>) which it enables."""
        if self.context.trace is not None:
            self.context.trace(GcsSend(body))
        own = self._own
        own.msgs.append(body)
        self.last_sent += 1
        if self.others:
            self.links.send(self.others, AppMsg(body))
        if not self._running:
            self._running = True
            self._deliver_from(self.context.me, own)
            self._running = False
            if self._again or self.mbrshp_view is not self.current_view:
                self.run()

    def link_deliver(self, sender: ProcessId, body: Payload) -> None:
        """Handles a message that the links deliver: co_rfifo.deliver_{q,p}(m)."""
        if type(body) is AppMsg:
            source = self.of.get(sender)
            if source is None or source.into is None:
                return  # of a past view, or of a view without this process
            queue = source.into
            source.last_rcvd += 1
            if source.last_rcvd > queue.prefix:
                queue.put(source.last_rcvd, body.body)
            if queue is source.msgs:
                self._run_delivery(sender, source)
        elif type(body) is ViewMsg:
            self._view_msg(sender, body.view)
        elif type(body) is FwdMsg:
            source = self.of.get(body.origin)
            if source is not None and body.view_id == self.current_view.id and body.index > source.msgs.prefix:
                source.msgs.put(body.index, body.body)
                self._run_delivery(body.origin, source)
        elif type(body) is SyncMsg:
            self.sync_received(sender, body)

    def sync_received(self, sender: ProcessId, sync: SyncMsg) -> None:
        """Hook for the child automaton."""

    def _view_msg(self, sender: ProcessId, view: View) -> None:
        source = self.of.get(sender)
        if view.id <= (self.current_view.id if source is None else source.view_msg.id) or sender not in view.members:
            return
        if source is None:
            source = self.of[sender] = SenderState(sender)
        source.view_msg = view
        source.last_rcvd = 0
        source.later = None
        if view.id == self.current_view.id:
            source.into = source.msgs
        elif view.id > self.current_view.id and self.context.me in view.members:
            source.into = source.later = MessageQueue()
        else:
            source.into = None

    def membership_view(self, view: View) -> None:
        """mbrshp.view_p(v)"""
        self.mbrshp_view = view
        self.run()

    def stable(self, counts: tuple[int, ...]) -> None:
        """Drops messages that every member has: the first counts[i] messages of the i-th member need no forwarding."""
        for member, count in zip(self.current_view.members, counts, strict=True):
            source = self.of[member]
            source.msgs.drop(min(count, source.last_dlvrd))

    # ---- local actions

    def run(self) -> None:
        """Runs the locally controlled actions until none is enabled."""
        self._again = True
        if self._running:
            return
        self._running = True
        try:
            while self._again:
                self._again = False
                self.local_actions()
                for member in self.current_view.members:
                    self._deliver_from(member, self.of[member])
                if self.view_pre():
                    self._view()
                    self._again = True
        finally:
            self._running = False

    def local_actions(self) -> None:
        """Hook: the child's own actions, without the inherited ones."""

    def _run_delivery(self, sender: ProcessId, source: SenderState) -> None:
        """Runs the actions that an arrived message enables: usually only its delivery."""
        if self._running:
            self._again = True
            return
        self._running = True
        self._deliver_from(sender, source)
        own = self._own
        if own.last_dlvrd < own.msgs.prefix:
            self._deliver_from(self.context.me, own)
        self._running = False
        if self._again or self.mbrshp_view is not self.current_view:
            self.run()

    def deliver_limit(self, sender: ProcessId, source: SenderState) -> int:  # noqa: ARG002
        """How many messages of this sender may be delivered in the current view, as far as known now."""
        return source.msgs.prefix

    def _deliver_from(self, sender: ProcessId, source: SenderState) -> None:
        """deliver_p(q, m), as often as it is enabled."""
        queue, trace, deliver = source.msgs, self.context.trace, self.above.deliver
        limit = self.deliver_limit(sender, source)
        while source.last_dlvrd < limit:
            source.last_dlvrd = index = source.last_dlvrd + 1
            body = queue.items[index - queue.dropped - 1]
            if trace is not None:
                trace(GcsDeliver(sender, body))
            deliver(sender, body)
            if index == limit != queue.prefix:  # the client sent during the delivery, or a cut limits it
                limit = self.deliver_limit(sender, source)

    def view_pre(self) -> bool:
        return self.mbrshp_view.id != self.current_view.id

    def transitional(self) -> tuple[ProcessId, ...]:
        """T, for the view that is about to be delivered. This automaton knows nothing about T."""
        return ()

    def _view(self) -> None:
        """Installs the next view: view_p(v, T).

        Then co_rfifo.reliable_p(set) and the view_msg, before the client can send in v.
        """
        view, transitional = self.mbrshp_view, self.transitional()
        if self.context.trace is not None:
            self.context.trace(GcsView(view, transitional))
        self.view_eff(view)
        self.ask_reliable()
        self._own.view_msg = view
        if self.others:
            self.links.send(self.others, ViewMsg(view))
        self.above.view(view, transitional)

    def view_eff(self, view: View) -> None:
        before, self.of = self.of, {}
        self.current_view = view
        self.last_sent = 0
        for process in (*view.members, *before):
            source = before.get(process) or SenderState(process)
            if process in self.of or (process not in view.members and source.view_msg.id <= view.id):
                continue
            self.of[process] = source
            source.last_dlvrd = 0
            if source.view_msg.id == view.id and source.later is not None:
                source.msgs, source.later = source.later, None
            else:
                source.msgs = MessageQueue()
                source.into = source.later if source.view_msg.id > view.id else None
        self._own = self.of[self.context.me]
        self.others = tuple(member for member in view.members if member != self.context.me)

    def wanted_reliable(self) -> tuple[ProcessId, ...]:
        """The peers to which links are kept: the set of co_rfifo.reliable_p(set).

        The child adds members while a view is being formed.
        """
        return self.current_view.members

    def ask_reliable(self) -> None:
        wanted = self.wanted_reliable()
        if wanted != self.reliable_set:
            self.reliable_set = wanted
            self.links.reliable(wanted)
