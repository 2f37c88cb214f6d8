"""Test harness for the view order alone: FIFO multicast with virtual delays, view changes, and a VS checker.

The layer below the order keeps the guarantees of the virtual synchrony layer: FIFO per sender, a sender gets its own
messages, members that continue together have delivered the same messages of the old view, nothing crosses a view. The
checker compares the order with VS (DVS paper, fig. 1) at every receipt and every safe indication. A safe indication
also requires that every client has processed the message.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from cluster.entries import pack_bodies
from cluster.layer import Context
from cluster.messages import Ack, Batch, Ordered, Slot, ViewMessage
from cluster.names import ProcessId, View, ViewId, make_view
from cluster.settings import DEFAULT, Settings
from cluster.view_order import ViewOrder

MakeOrder = Callable[[Context, Settings], ViewOrder]


def message(number: int, size: int = 1) -> Batch:
    return Batch(number, pack_bodies([b"x" * size]))


class Judge:
    """VS of fig. 1, with the queue of a view as far as any member has received it."""

    def __init__(self) -> None:
        self.queue: dict[ViewId, list[tuple[ProcessId, ViewMessage]]] = {}
        self.sent: dict[tuple[ViewId, ProcessId], list[ViewMessage]] = {}  # pending[p, g], from the beginning
        self.ordered: dict[tuple[ViewId, ProcessId], int] = {}
        self.next: dict[tuple[ProcessId, ViewId], int] = {}
        self.next_safe: dict[tuple[ProcessId, ViewId], int] = {}
        self.dealt: dict[tuple[ProcessId, ViewId], int] = {}  # how much of the order a client has processed
        self.receipts = 0
        self.safes = 0

    def send(self, at: ProcessId, view: View, body: ViewMessage) -> None:
        self.sent.setdefault((view.id, at), []).append(body)

    def receive(self, at: ProcessId, view: View, sender: ProcessId, body: ViewMessage) -> None:
        queue = self.queue.setdefault(view.id, [])
        i = self.next.get((at, view.id), 0)
        if i == len(queue):  # VS-ORDER takes place now, at the first receipt
            k = self.ordered.get((view.id, sender), 0)
            assert self.sent[view.id, sender][k] is body, f"{at}: not the next message of {sender}"
            self.ordered[view.id, sender] = k + 1
            queue.append((sender, body))
        assert queue[i] == (sender, body), f"{at} receives {body} of {sender} at {i}, others had {queue[i]}"
        self.next[at, view.id] = i + 1
        self.receipts += 1

    def safe(self, at: ProcessId, view: View, sender: ProcessId, body: ViewMessage) -> None:
        i = self.next_safe.get((at, view.id), 0)
        assert self.queue[view.id][i] == (sender, body)
        for member in view.members:
            assert self.next.get((member, view.id), 0) > i, f"{at}: safe at {i}, but {member} has not received it"
            assert self.dealt.get((member, view.id), 0) > i, f"{at}: safe at {i}, but {member} has not dealt with it"
        self.next_safe[at, view.id] = i + 1
        self.safes += 1


class Node:
    """A process: the order under test, its client above, the end-point and the links below."""

    def __init__(self, world: World, me: ProcessId, make: MakeOrder, settings: Settings) -> None:
        self.world = world
        self.me = me
        self.context = Context(me, world.chance)
        self.order = make(self.context, settings)
        self.order.above = self
        self.order.below = self
        self.order.links = _Links(self)
        self.current_view: View | None = None
        self.is_blocked = True
        self.is_mute = False  # drops all messages of the order
        self.ahead: list[tuple[View, ProcessId, Ordered]] = []  # messages of future views
        self.taken: dict[ProcessId, int] = {}  # messages of each member given to the order in this view
        self.received: list[tuple[ProcessId, ViewMessage]] = []  # in this view
        self.received_at: dict[int, float] = {}  # by id of the body
        self.safe_at: dict[int, float] = {}
        self.safe_count = 0
        self.lag: Callable[[], float] | None = None  # the client's processing time per message
        self.on_receive: Callable[[ProcessId, ViewMessage], None] | None = None
        self.backlog: deque[ViewMessage] = deque()  # for a client that respects the window
        self.stable_counts: tuple[int, ...] = ()

    # ---- the client above

    def new_view(self, view: View) -> None:
        assert view is self.current_view
        self.received = []
        self.safe_count = 0

    def receive(self, sender: ProcessId, body: ViewMessage) -> None:
        assert self.current_view is not None
        view = self.current_view
        self.world.judge.receive(self.me, view, sender, body)
        self.received.append((sender, body))
        self.received_at[id(body)] = self.world.now
        count = len(self.received)
        if self.lag is None:
            self.world.judge.dealt[self.me, view.id] = count
            self.order.processed_up_to(count)
        else:
            self.world.at(self.world.now + self.lag(), lambda: self._processed(view, count))
        if self.on_receive is not None:
            self.on_receive(sender, body)

    def _processed(self, view: View, count: int) -> None:
        if view is self.current_view:
            self.world.judge.dealt[self.me, view.id] = max(count, self.world.judge.dealt.get((self.me, view.id), 0))
            self.order.processed_up_to(count)
            self.order.settle()

    def safe(self, sender: ProcessId, body: ViewMessage) -> None:
        assert self.current_view is not None
        self.world.judge.safe(self.me, self.current_view, sender, body)
        self.safe_at[id(body)] = self.world.now
        self.safe_count += 1

    def roomy(self) -> None:
        assert self.order.has_room
        while self.backlog and self.order.has_room:
            self.submit(self.backlog.popleft())

    def submit(self, body: ViewMessage) -> None:
        if self.current_view is not None:
            self.world.judge.send(self.me, self.current_view, body)
        self.order.send(body)
        self.order.settle()

    # ---- the endpoint below

    def send(self, body: Ordered) -> None:
        assert not self.is_blocked, "sends although it said block_ok"
        assert self.current_view is not None
        if not self.is_mute:
            self.world.multicast(self, self.current_view, body)

    def block_ok(self) -> None:
        self.is_blocked = True

    def stable(self, counts: tuple[int, ...]) -> None:
        assert self.current_view is not None
        self.stable_counts = counts
        for rank, sender in enumerate(self.current_view.members):
            for member in self.current_view.members:
                node = self.world.nodes[member]
                if node.current_view is self.current_view:
                    assert node.taken.get(sender, 0) >= counts[rank], f"{member} lacks what {self.me} calls stable"

    def arrive(self, view: View, sender: ProcessId, body: Ordered) -> None:
        """A message arrived over the wire."""
        if view is self.current_view:
            cut = self.world.cuts.get((self.me, view.id))
            if cut is None or self.taken.get(sender, 0) < cut[sender]:
                self.take(sender, body)
        elif self.current_view is None or view.id > self.current_view.id:
            self.ahead.append((view, sender, body))

    def take(self, sender: ProcessId, body: Ordered) -> None:
        self.taken[sender] = self.taken.get(sender, 0) + 1
        self.context.now = self.world.now
        self.order.deliver(sender, body)
        self.order.settle()

    def acknowledged(self, sender: ProcessId, ack: Ack) -> None:
        self.order.ack_received(sender, ack)
        self.order.settle()

    def install(self, view: View) -> None:
        self.current_view = view
        self.is_blocked = False
        self.taken = {}
        self.context.now = self.world.now
        self.order.view(view, view.members)
        self.order.settle()
        ahead, self.ahead = self.ahead, []
        for later, sender, body in ahead:
            self.arrive(later, sender, body)


class _Links:
    def __init__(self, node: Node) -> None:
        self.node = node

    def send(self, to: tuple[ProcessId, ...], body: Ack) -> None:
        world, me = self.node.world, self.node.me
        world.acks += 1
        for peer in to:
            world.post(me, peer, partial(world.nodes[peer].acknowledged, me, body))


class World:
    def __init__(
        self,
        names: str,
        make: MakeOrder,
        seed: int = 0,
        settings: Settings = DEFAULT,
        delay: Callable[[Random], float] = lambda _: 0.001,
    ) -> None:
        self.chance = Random(seed)
        self.delay = delay
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.event_count = 0
        self.judge = Judge()
        self.streams: dict[tuple[ViewId, ProcessId], list[Ordered]] = {}
        self.cuts: dict[tuple[ProcessId, ViewId], dict[ProcessId, int]] = {}
        self.last_arrival: dict[tuple[ProcessId, ProcessId], float] = {}
        self.epoch = 0
        self.acks = 0  # number of separate acknowledgement messages
        self.data = 0
        self.nulls = 0
        self.others = 0
        self.nodes = {pid: Node(self, pid, make, settings) for pid in map(ProcessId, names)}
        self.start_ids = dict.fromkeys(self.nodes, 0)

    def node(self, name: str) -> Node:
        return self.nodes[ProcessId(name)]

    # ---- time

    def at(self, when: float, what: Callable[[], None]) -> None:
        self.event_count += 1
        heapq.heappush(self.events, (when, self.event_count, what))

    def run(self, until: float = float("inf")) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, what = heapq.heappop(self.events)
            what()
        if until != float("inf"):
            self.now = until

    # ---- the wire

    def post(self, sender: ProcessId, to: ProcessId, what: Callable[[], None]) -> None:
        when = max(self.now + self.delay(self.chance), self.last_arrival.get((sender, to), 0.0))
        self.last_arrival[sender, to] = when
        self.at(when, what)

    def multicast(self, node: Node, view: View, body: Ordered) -> None:
        self.streams.setdefault((view.id, node.me), []).append(body)
        if isinstance(body, Slot):
            self.data += body.body is not None
            self.nulls += body.body is None
        for peer in view.members:
            if peer != node.me:
                self.post(node.me, peer, partial(self.nodes[peer].arrive, view, node.me, body))
        node.take(node.me, body)

    # ---- views

    def make_view(self, names: str) -> View:
        self.epoch += 1
        return make_view(self.epoch, {ProcessId(name): self.epoch for name in names})

    def form(self, names: str) -> World:
        """Puts all members into this view at once."""
        view = self.make_view(names)
        for name in names:
            self.node(name).install(view)
        return self

    def change(self, *groups: str, spread: float = 0.01) -> None:
        """Changes views: members block, get their companions' messages of the old view, then the new view."""
        for names in groups:
            for name in names:
                node = self.node(name)
                self.at(self.now + self.chance.random() * spread, partial(self._block, node))
        views = [self.make_view(names) for names in groups]
        for view in views:
            self.at(self.now + spread, partial(self._cut, view))
            for member in view.members:
                when = self.now + spread * (1.0 + self.chance.random())
                self.at(when, partial(self._finish, self.nodes[member], view))
        self.run(self.now + 2 * spread)

    def _block(self, node: Node) -> None:
        if node.current_view is None:
            node.is_blocked = True
        if not node.is_blocked:
            node.order.block()
            assert node.is_blocked

    def _cut(self, view: View) -> None:
        """Members that continue together agree on a cut of each stream of the old view."""
        together: dict[ViewId, list[Node]] = {}
        for member in view.members:
            node = self.nodes[member]
            if node.current_view is not None:
                together.setdefault(node.current_view.id, []).append(node)
        for view_id, companions in sorted(together.items()):
            old = companions[0].current_view
            assert old is not None
            cut = {}
            for sender in old.members:
                sent = len(self.streams.get((view_id, sender), []))
                least = max(node.taken.get(sender, 0) for node in companions)
                is_along = any(node.me == sender for node in companions)
                cut[sender] = sent if is_along else self.chance.randint(least, sent)
            for node in companions:
                self.cuts[node.me, view_id] = cut

    def _finish(self, node: Node, view: View) -> None:
        """Forwards messages up to the cut, in any order that keeps the streams; then delivers the view."""
        old = node.current_view
        if old is not None:
            cut = self.cuts[node.me, old.id]
            open_streams = [sender for sender in old.members if node.taken.get(sender, 0) < cut[sender]]
            while open_streams:
                sender = self.chance.choice(open_streams)
                node.take(sender, self.streams[old.id, sender][node.taken.get(sender, 0)])
                if node.taken[sender] == cut[sender]:
                    open_streams.remove(sender)
        node.install(view)
