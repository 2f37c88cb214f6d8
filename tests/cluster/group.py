"""Test harness: end-points with their links and membership, on a simulated network that can be cut.

Connections are FIFO in each direction and break on request. A silenced direction holds back its frames. The clients
only record. Each run is determined by the calls and the seed.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import combinations, count
from math import inf
from random import Random
from typing import TYPE_CHECKING

from cluster.actions import Action, Crashed, Recovered
from cluster.detector import Detector
from cluster.durable import Epoch
from cluster.endpoint import Endpoint
from cluster.layer import Context, KnownPeers, Persist, Send
from cluster.links import Links
from cluster.membership import Membership
from cluster.messages import AppMsg, Frame, FwdMsg, Ordered, Plain, Proposal, Registered, SyncMsg, ViewMsg
from cluster.names import ProcessId, View
from cluster.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

LATENCY = 0.01
REDIAL = 0.02


class Client:
    """Records the end-point's calls, and answers block at once (or on request, with `prompt` off)."""

    def __init__(self) -> None:
        self.endpoint: Endpoint
        self.delivered: list[tuple[ProcessId, Ordered]] = []
        self.views: list[tuple[View, tuple[ProcessId, ...]]] = []
        self.prompt = True
        self.blocked = False

    def deliver(self, sender: ProcessId, body: Ordered) -> None:
        self.delivered.append((sender, body))

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        self.views.append((view, transitional))
        self.blocked = False

    def block(self) -> None:
        self.blocked = True
        if self.prompt:
            self.endpoint.block_ok()


class Node:
    """One life of a process."""

    def __init__(self, group: Group, me: ProcessId, boot: int, epoch: int) -> None:
        self.me, self.boot, self.epoch = me, boot, epoch
        self.context = Context(me, group.chance, lambda action: group.trace.append((me, action)))
        self.context.now = group.now
        self.links = Links(self.context, group.settings, boot)
        self.detector = Detector(self.context, group.settings)
        self.membership = Membership(self.context, group.settings, epoch, boot)
        self.endpoint = Endpoint(self.context)
        self.client = Client()
        self.client.endpoint = self.endpoint
        self.links.above = dict.fromkeys((ViewMsg, AppMsg, FwdMsg, SyncMsg), self.endpoint.link_deliver)
        self.links.detector, self.links.membership = self.detector, self.membership
        self.detector.above = self.membership
        self.membership.links, self.membership.detector = self.links, self.detector
        self.membership.above = self.endpoint
        self.endpoint.links, self.endpoint.above = self.links, self.client
        self.deaf = False  # reads nothing but proposals
        self.membership.start()

    def received(self, peer: ProcessId, frame: Frame) -> None:
        if isinstance(frame, Proposal):
            self.detector.heard(peer)
            self.membership.received(peer, frame)
        else:
            if self.deaf:
                return
            self.links.received(peer, frame)  # first: a Hello tells which life of the peer this is
            self.detector.heard(peer)

    def tick(self) -> None:
        self.links.tick()
        self.detector.tick()
        self.membership.tick()

    def next_deadline(self) -> float:
        return min(self.links.next_deadline(), self.detector.next_deadline(), self.membership.next_deadline())


Pair = tuple[ProcessId, ProcessId]


class Group:
    def __init__(
        self,
        names: str,
        seed: int = 0,
        settings: Settings | None = None,
        jitter: float = 0.0,
        latency: float = LATENCY,
    ) -> None:
        self.latency = latency
        self.settings = settings or Settings()
        self.chance = Random(seed)
        self.jitter = jitter
        self.now = 0.0
        self.trace: list[tuple[ProcessId, Action]] = []
        self.nodes: dict[ProcessId, Node] = {}
        self.frames: list[tuple[ProcessId, ProcessId, Frame]] = []
        self._disk: dict[ProcessId, list[int]] = {}  # boot, epoch
        self._events: list[tuple[float, int, str, ProcessId, ProcessId, int]] = []
        self._order = count()
        self._connection: dict[Pair, int] = {}  # sorted pair -> number of the connection
        self._connections = count(1)
        self._wire: dict[Pair, deque[Frame]] = {}
        self._last: dict[Pair, float] = {}
        self._silent: set[Pair] = set()
        self._held: dict[Pair, int] = {}
        self._cut: set[Pair] = set()
        self._sent = count(1)
        for name in names:
            self.start(name)

    # ---- actions of a test

    def start(self, name: str) -> None:
        me = ProcessId(name)
        disk = self._disk.setdefault(me, [0, 0])
        disk[0] += 1
        if disk[0] > 1:
            self.trace.append((me, Recovered(disk[0])))
        self.nodes[me] = Node(self, me, disk[0], disk[1])
        self._handle(self.nodes[me])
        for other in self.nodes:
            if other != me:
                self._at(REDIAL, "dial", me, other)

    def crash(self, name: str) -> None:
        me = ProcessId(name)
        self.trace.append((me, Crashed(False)))
        del self.nodes[me]
        for pair in [pair for pair in self._connection if me in pair]:
            self._break(pair)

    def cut(self, a: str, b: str) -> None:
        """Closes the connection between the two and keeps it closed."""
        pair = _pair(ProcessId(a), ProcessId(b))
        self._cut.add(pair)
        self._break(pair)

    def partition(self, *sides: str) -> None:
        for left, right in combinations(sides, 2):
            for a in left:
                for b in right:
                    self.cut(a, b)

    def flicker(self, a: str, b: str) -> None:
        """Breaks the connection; it is dialled again."""
        self._break(_pair(ProcessId(a), ProcessId(b)))

    def silence(self, a: str, b: str) -> None:
        """Holds back the frames from a to b."""
        self._silent.add((ProcessId(a), ProcessId(b)))

    def heal(self) -> None:
        self._cut.clear()
        self._silent.clear()
        for (a, b), held in sorted(self._held.items()):
            for _ in range(held):
                self._at(LATENCY, "frame", a, b, self._connection.get(_pair(a, b), 0))
        self._held.clear()
        for a, b in combinations(sorted(self.nodes), 2):
            self._at(REDIAL, "dial", a, b)

    def send(self, name: str) -> Ordered | None:
        """The client sends its next message, if it may."""
        node = self.nodes[ProcessId(name)]
        if node.client.blocked:
            return None
        body = Plain(next(self._sent), Registered())
        node.context.now = self.now
        node.endpoint.send(body)
        self._handle(node)
        return body

    def block_ok(self, name: str) -> None:
        node = self.nodes[ProcessId(name)]
        node.context.now = self.now
        node.endpoint.block_ok()
        self._handle(node)

    def leave(self, name: str) -> None:
        node = self.nodes[ProcessId(name)]
        node.context.now = self.now
        node.membership.leave()
        self._handle(node)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._next_at() <= end:
            self.step()
        self.now = end

    def step(self) -> None:
        """Runs the next event: a frame arrives, a connection is made, or a deadline is reached."""
        at = self._next_at()
        self.now = max(self.now, at)
        if self._events and self._events[0][0] <= at:
            _, _, kind, a, b, connection = heappop(self._events)
            (self._frame if kind == "frame" else self._dial)(a, b, connection)
            return
        node = min(self.nodes.values(), key=lambda node: (node.next_deadline(), node.me))
        node.context.now = self.now
        node.tick()
        self._handle(node)

    def _next_at(self) -> float:
        event = self._events[0][0] if self._events else inf
        return min(event, min((node.next_deadline() for node in self.nodes.values()), default=inf))

    # ---- results

    def view(self, name: str) -> str:
        return "".join(member.name for member in self.nodes[ProcessId(name)].endpoint.current_view.members)

    def views(self) -> dict[str, str]:
        return {me.name: self.view(me.name) for me in sorted(self.nodes)}

    def delivered(self, name: str) -> list[Ordered]:
        return [body for _, body in self.nodes[ProcessId(name)].client.delivered]

    # ---- the network

    def _at(self, delay: float, kind: str, a: ProcessId, b: ProcessId, connection: int = 0) -> None:
        heappush(self._events, (self.now + delay, next(self._order), kind, a, b, connection))

    def _handle(self, node: Node) -> None:
        effects, node.context.outbox = node.context.outbox, []
        for effect in effects:
            if isinstance(effect, Send):
                for peer in effect.to:
                    self._carry(node.me, peer, effect.frame)
            elif isinstance(effect, Persist):
                assert isinstance(effect.record, Epoch)
                self._disk[node.me][1] = effect.record.epoch
            else:
                assert isinstance(effect, KnownPeers)

    def _carry(self, a: ProcessId, b: ProcessId, frame: Frame) -> None:
        connection = self._connection.get(_pair(a, b))
        if connection is None:
            return
        self.frames.append((a, b, frame))
        self._wire[a, b].append(frame)
        delay = self.latency + self.jitter * self.chance.random()
        arrival = self._last[a, b] = max(self._last.get((a, b), 0.0), self.now + delay)
        heappush(self._events, (arrival, next(self._order), "frame", a, b, connection))

    def _frame(self, a: ProcessId, b: ProcessId, connection: int) -> None:
        if self._connection.get(_pair(a, b)) != connection:
            return
        if (a, b) in self._silent or self._held.get((a, b)):
            self._held[a, b] = self._held.get((a, b), 0) + 1
            return
        node = self.nodes[b]
        node.context.now = self.now
        node.received(a, self._wire[a, b].popleft())
        self._handle(node)

    def _dial(self, a: ProcessId, b: ProcessId, _: int) -> None:
        pair = _pair(a, b)
        if a not in self.nodes or b not in self.nodes or pair in self._connection or pair in self._cut:
            return
        self._connection[pair] = next(self._connections)
        self._wire[a, b], self._wire[b, a] = deque(), deque()
        for me, peer in ((a, b), (b, a)):
            self.nodes[me].context.now = self.now
            self.nodes[me].detector.connected(peer)
            self.nodes[me].links.connected(peer)
            self._handle(self.nodes[me])

    def _break(self, pair: Pair) -> None:
        if self._connection.pop(pair, None) is None:
            return
        a, b = pair
        self._held.pop((a, b), None)
        self._held.pop((b, a), None)
        for me, peer in ((a, b), (b, a)):
            if me in self.nodes:
                self.nodes[me].context.now = self.now
                self.nodes[me].links.disconnected(peer)
                self.nodes[me].detector.disconnected(peer)
                self._handle(self.nodes[me])
        self._at(REDIAL, "dial", a, b)


def _pair(a: ProcessId, b: ProcessId) -> Pair:
    return (a, b) if a < b else (b, a)


def processes(names: Iterable[str]) -> tuple[ProcessId, ...]:
    return tuple(ProcessId(name) for name in names)
