"""Executable VS service of fig. 1, used below the primary views and the total order in tests.

Every step is one action at one process, chosen by the test. So a test can stop at any message boundary, and enumerate
them all. Processes consist of the real layers from primary views upwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cluster.durable import Image
from cluster.layer import Context, Persist
from cluster.messages import Supply
from cluster.names import ProcessId, View, ViewId, founding_view, make_view
from cluster.primary import PrimaryViews
from cluster.replica import ReplicaLayer
from cluster.settings import Settings
from cluster.total_order import TotalOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cluster.actions import Action
    from cluster.messages import Payload, ViewMessage


class Half:
    """A constant random source; its values do not matter here."""

    def random(self) -> float:
        return 0.5


class Log:
    """A state machine that records its inputs."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.views: list[ViewId] = []

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        self.entries.append(body)
        return (position, origin)

    def view_changed(self, _position: int, view: View) -> None:
        self.views.append(view.id)

    def snapshot(self) -> bytes:
        return b"\n".join(self.entries)

    def restore(self, state: bytes) -> None:
        self.entries = state.split(b"\n") if state else []


@dataclass
class Queue:
    """queue[g], and the position of each member in it."""

    view: View
    messages: list[tuple[ProcessId, ViewMessage]] = field(default_factory=list)
    next: dict[ProcessId, int] = field(default_factory=dict)
    next_safe: dict[ProcessId, int] = field(default_factory=dict)
    processed: dict[ProcessId, int] = field(default_factory=dict)


class Supplying:
    """The part of a member's links that the total order uses: all pieces are sent at once."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def feed(self, peer: ProcessId, pieces: Sequence[Payload]) -> None:
        for piece in pieces:
            self.send((peer,), piece)

    def send(self, to: tuple[ProcessId, ...], body: Payload) -> None:
        member = self._member
        assert member.queue is not None
        for peer in to:
            if isinstance(body, Supply):
                member.service.members[peer].supplies.append((member.queue.view.id, member.me, body))

    def skip(self, peer: ProcessId, is_needed: Callable[[Payload], bool]) -> None: ...

    def stop_feeding(self) -> None:
        """Pieces in flight for a view that has ended are not received."""


class Member:
    """One process: the real layers, and its end of the VS service."""

    def __init__(self, service: VsService, me: ProcessId, image: Image, settings: Settings) -> None:
        self.service = service
        self.me = me
        self.image = image
        self.queue: Queue | None = None
        self.offered: View | None = None  # a view not delivered to it yet
        self.supplies: list[tuple[ViewId, ProcessId, Supply]] = []
        self.machine = Log()
        self.context = Context(me, Half(), service.trace_of(me))
        self.primary = PrimaryViews(self.context, image)
        self.total_order = TotalOrder(self.context, settings, image)
        self.replica = ReplicaLayer(self.context, settings, self.machine)
        self.primary.above, self.primary.below = self.total_order, self
        self.total_order.above, self.total_order.below = self.replica, self.primary
        self.total_order.links = Supplying(self)
        self.replica.below = self.total_order
        self.total_order.start()
        self.flush()

    # interface to the primary views and the total order

    has_room = True

    def send(self, body: ViewMessage) -> None:
        assert self.queue is not None
        self.queue.messages.append((self.me, body))

    def processed_up_to(self, count: int) -> None:
        assert self.queue is not None
        assert count >= self.queue.processed[self.me]
        self.queue.processed[self.me] = count

    # steps

    def step(self) -> bool:
        """Runs one action, if one is enabled."""
        done = self._new_view() or self._receive_supply() or self._receive() or self._safe() or self._catch_up()
        self.flush()
        return done

    def _new_view(self) -> bool:
        if self.offered is None:
            return False
        view, self.offered = self.offered, None
        self.queue = self.service.queues[view.id]
        self.queue.next[self.me] = self.queue.next_safe[self.me] = self.queue.processed[self.me] = 0
        self.primary.new_view(view)
        return True

    def _receive_supply(self) -> bool:
        while self.supplies:
            view_id, sender, supply = self.supplies.pop(0)
            if self.queue is not None and view_id == self.queue.view.id:
                self.total_order.supplied(sender, supply)
                return True
        return False

    def _receive(self) -> bool:
        queue = self.queue
        if queue is None or queue.next[self.me] >= len(queue.messages):
            return False
        sender, body = queue.messages[queue.next[self.me]]
        queue.next[self.me] += 1
        self.primary.receive(sender, body)
        return True

    def _safe(self) -> bool:
        queue = self.queue
        if queue is None or queue.next_safe[self.me] >= queue.next[self.me]:
            return False
        if any(queue.processed.get(member, 0) <= queue.next_safe[self.me] for member in queue.view.members):
            return False
        sender, body = queue.messages[queue.next_safe[self.me]]
        queue.next_safe[self.me] += 1
        self.primary.safe(sender, body)
        return True

    def _catch_up(self) -> bool:
        if not self.total_order.is_behind:
            return False
        self.total_order.tick()
        return True

    def flush(self) -> None:
        """Performs all effects and handles their consequences."""
        while effects := self.context.take():
            for effect in effects:
                if isinstance(effect, Persist):
                    self.image.apply(effect.record)
            self.total_order.performed(self.context.taken)


class VsService:
    def __init__(self, names: str, settings: Settings | None = None) -> None:
        self.settings = settings or Settings(snapshot_every=1000)
        self.epoch = 0
        self.queues: dict[ViewId, Queue] = {}
        self.members: dict[ProcessId, Member] = {}
        for i, name in enumerate(names):
            me = ProcessId(name)
            image = Image()
            if i == 0:
                image.act = founding_view(me)
                image.high_primary = image.act.id
            self.members[me] = Member(self, me, image, self.settings)

    def __getitem__(self, name: str) -> Member:
        return self.members[ProcessId(name)]

    def trace_of(self, _me: ProcessId) -> Callable[[Action], None] | None:
        """The trace observer of this process: none here."""
        return None

    def restart(self, name: str) -> None:
        me = ProcessId(name)
        self.members[me] = Member(self, me, self.members[me].image, self.settings)

    def views(self, *groups: Iterable[str]) -> VsService:
        """Offers each group its own view; its members take it when they are stepped."""
        for group in groups:
            self.epoch += 1
            view = make_view(self.epoch, {ProcessId(name): self.epoch for name in group})
            self.queues[view.id] = Queue(view)
            for member in view.members:
                self.members[member].offered = view
        return self

    def run(self, steps: int = 100_000, first: int = 0) -> int:
        """Steps the processes in turn until nothing is enabled, or `steps` were taken. Returns the number of steps."""
        turn = list(self.members.values())
        taken, idle, i = 0, 0, first
        while taken < steps and idle < len(turn):
            if turn[i % len(turn)].step():
                taken, idle = taken + 1, 0
            else:
                idle += 1
            i += 1
        return taken
