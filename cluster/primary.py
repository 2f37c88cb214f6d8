"""Primary views: decides which partition may continue, by a majority of the previous primary view.

Paper: De Prisco et al., PODC 1998, fig. 3 (VS-TO-DVS). State variables keep the paper's names.
Departs:
- A majority of w includes the half of w that holds its lowest-ranked member (dynamic linear voting). Any two such
  quorums of w intersect, and the proof of invariant 5.5 needs nothing else of a majority.
- `act` may be None: for a process that joined and has not learned of a primary view. It follows other members. A view
  in which no member knows a primary view is never attempted.
- A view is attempted after the infos of all members, the own info included, arrived through the order of the view. So
  all members decide from the same infos, and client messages cannot arrive before the view was attempted: nothing is
  buffered.
- A client message for a view that has ended is dropped at once (the paper keeps it in a queue that is never emptied).
- `processed` tells the view order below how many of its messages this layer and the layers above have processed. Only
  those are acknowledged.
Above: total order.  Below: view order (VS).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from cluster.actions import DvsNewView, DvsReceive, DvsRegister, DvsSafe, DvsSend
from cluster.durable import Image, Primaries
from cluster.layer import Context, Ejected, Persist
from cluster.messages import ClientMessage, Expertise, Info, Queries, Registered, ViewMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.names import ProcessId, View, ViewId


class Above(Protocol):
    def new_view(self, view: View) -> None: ...
    def is_expected(self, sender: ProcessId, body: ClientMessage) -> bool: ...
    def receive(self, sender: ProcessId, body: ClientMessage) -> None: ...
    def safe(self, sender: ProcessId, body: ClientMessage) -> None: ...
    def primary_lost(self) -> None: ...
    def roomy(self) -> None: ...


class Below(Protocol):
    @property
    def has_room(self) -> bool: ...
    def send(self, body: ViewMessage) -> None: ...
    def processed_up_to(self, count: int) -> None: ...


def is_quorum(members: Iterable[ProcessId], view: View) -> bool:
    """Whether these members may decide for `view`: more than half of it, or half with its lowest-ranked member."""
    present = set(members)
    common = sum(member in present for member in view.members)
    return 2 * common > len(view.members) or (2 * common == len(view.members) and view.members[0] in present)


class PrimaryViews:
    """Passes on the views that are primary, and the messages in them (VS-TO-DVS_p)."""

    __slots__ = ("_ignored", "_on_disk", "_received", "_unprocessed", "above", "act", "amb", "below", "client_cur",
                 "context", "cur", "info_rcvd", "rcvd_rgst")  # fmt: skip

    above: Above
    below: Below

    def __init__(self, context: Context, image: Image) -> None:
        self.context = context
        self.cur: View | None = None
        self.client_cur: View | None = None
        self.act = image.act  # "active": the last view known to be registered by all its members
        self.amb: dict[ViewId, View] = {view.id: view for view in image.amb}  # "ambiguous": attempted after it
        self.info_rcvd: set[ProcessId] = set()  # members whose info for cur arrived; its contents are in act and amb
        self.rcvd_rgst: set[ProcessId] = set()
        self._on_disk = (self.act, tuple(sorted(self.amb)))
        self._received = 0  # number of messages of cur's order so far
        self._ignored: list[ViewMessage] = []  # invalid messages, until they are safe
        self._unprocessed: deque[int] = deque()  # client messages not processed yet, by place in the order

    @property
    def use(self) -> list[View]:
        """The views that a new primary view needs a quorum of: `act` and `amb`."""
        return ([self.act] if self.act is not None else []) + list(self.amb.values())

    @property
    def is_primary(self) -> bool:
        """Whether the current view was attempted as a primary view."""
        return self.cur is not None and self.cur is self.client_cur

    @property
    def has_room(self) -> bool:
        return self.below.has_room

    # input VS-NEWVIEW(v)_p
    def new_view(self, view: View) -> None:
        lost = self.is_primary
        self.cur = view
        self.info_rcvd.clear()
        self.rcvd_rgst.clear()
        self._received = 0
        self._unprocessed.clear()
        self._ignored.clear()
        if lost:
            self.above.primary_lost()
        self._persist()
        self.below.send(Info(self.act, tuple(self.amb[view_id] for view_id in sorted(self.amb))))

    # input VS-GPRCV(m)_{q,p}
    def receive(self, sender: ProcessId, body: ViewMessage) -> None:
        self._received += 1
        if type(body) is Info:
            self._info(sender, body)
            self._tell_processed()
        elif type(body) is Registered:
            self._registered(sender)
            self._tell_processed()
        elif (
            type(body) is Expertise  # this process does not have the data service
            or type(body) is Queries
            or self.cur is not self.client_cur
            or not self.above.is_expected(sender, body)
        ):
            self._ignore(sender, body)
            self._tell_processed()
        else:
            self._unprocessed.append(self._received)
            if self.context.trace is not None:
                self.context.trace(DvsReceive(sender, body))
            self.above.receive(sender, body)

    # input VS-SAFE(m)_{q,p}
    def safe(self, sender: ProcessId, body: ViewMessage) -> None:
        if type(body) is not Info and type(body) is not Registered:
            if (self._ignored and self._was_ignored(body)) or type(body) is Expertise or type(body) is Queries:
                return
            if self.context.trace is not None:
                self.context.trace(DvsSafe(sender, body))
            self.above.safe(sender, body)

    def _ignore(self, sender: ProcessId, body: ViewMessage) -> None:
        """Ignores an invalid message. It is in the order of the view, so all members ignore it alike."""
        self._ignored.append(body)
        self.context.outbox.append(Ejected(sender, f"invalid {type(body).__name__} message in {self.cur}"))

    def _was_ignored(self, body: ViewMessage) -> bool:
        before = len(self._ignored)
        self._ignored = [ignored for ignored in self._ignored if ignored is not body]
        return len(self._ignored) < before

    # input DVS-GPSND(m)_p
    def send(self, body: ClientMessage) -> None:
        if self.client_cur is not None and self.context.trace is not None:
            self.context.trace(DvsSend(body))
        if self.is_primary:
            self.below.send(body)

    # input DVS-REGISTER_p
    def register(self) -> None:
        if self.client_cur is not None and self.context.trace is not None:
            self.context.trace(DvsRegister())
        if self.is_primary:
            self.below.send(Registered())

    def processed(self, count: int) -> None:
        """The client has processed its next `count` messages of this view."""
        unprocessed = self._unprocessed
        for _ in range(count):
            unprocessed.popleft()
        self.below.processed_up_to(unprocessed[0] - 1 if unprocessed else self._received)

    def roomy(self) -> None:
        self.above.roomy()

    # VS-GPRCV(<"info", v, V>)_{q,p}, then output DVS-NEWVIEW(cur)_p where it is enabled
    def _info(self, sender: ProcessId, info: Info) -> None:
        assert self.cur is not None
        if sender in self.info_rcvd or any(
            view.id >= self.cur.id for view in (info.act, *info.amb) if view is not None
        ):
            self.context.outbox.append(Ejected(sender, f"invalid Info message in {self.cur}"))
            return
        self.info_rcvd.add(sender)
        if info.act is not None and (self.act is None or info.act.id > self.act.id):
            self.act = info.act
        self.amb.update((view.id, view) for view in info.amb)
        self._forget_settled()
        if len(self.info_rcvd) == len(self.cur.members) and self._may_attempt(self.cur):
            self.amb[self.cur.id] = self.cur
            self.client_cur = self.cur
            self._persist()
            if self.context.trace is not None:
                self.context.trace(DvsNewView(self.cur))
            self.above.new_view(self.cur)

    def _may_attempt(self, view: View) -> bool:
        if self.client_cur is not None and view.id <= self.client_cur.id:
            return False
        return self.act is not None and all(is_quorum(view.members, used) for used in self.use)

    # VS-GPRCV(<"registered">)_{q,p}, then DVS-GARBAGE-COLLECT(cur)_p where it is enabled
    def _registered(self, sender: ProcessId) -> None:
        assert self.cur is not None
        self.rcvd_rgst.add(sender)
        if len(self.rcvd_rgst) == len(self.cur.members) and (self.act is None or self.cur.id > self.act.id):
            self.act = self.cur
            self._forget_settled()
            self._persist()  # nothing waits for this record, but the survivors of a power failure need it

    def _forget_settled(self) -> None:
        if self.act is not None:
            settled = self.act.id
            self.amb = {view_id: view for view_id, view in self.amb.items() if view_id > settled}

    def _persist(self) -> None:
        state = (self.act, tuple(sorted(self.amb)))
        if state != self._on_disk:
            self._on_disk = state
            self.context.outbox.append(Persist(Primaries(self.act, tuple(self.amb[view_id] for view_id in state[1]))))

    def _tell_processed(self) -> None:
        self.below.processed_up_to(self._unprocessed[0] - 1 if self._unprocessed else self._received)
