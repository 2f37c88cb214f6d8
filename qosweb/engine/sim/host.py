"""A process of the simulator with an engine on top: the group's stack, the QoS state machine, and a site.

It takes the place of `cluster.stack.Process`, and connects stack and engine as the real node does: time, effects,
batches. News of primary views may reach the engine a little later than the entries do, as in a real node.
Above: `cluster.sim.node`, and the clients.  Below: the stack, the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.layer import Delivered, DeliveredRun, PrimaryChanged
from cluster.stack import Process
from qosweb.engine.engine import Engine
from qosweb.engine.replicated.entries import NodeReport
from qosweb.engine.replicated.upstreams import UpstreamReport, Vote

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import Context, Effect, RandomSource
    from cluster.messages import Frame
    from cluster.names import ProcessId, View
    from cluster.settings import Settings
    from cluster.sim.history_machine import History
    from cluster.sim.node import SimNode
    from cluster.sim.world import World
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.effects import EntryRejected, Reported, UpstreamsReported
    from qosweb.engine.replicated.entries import NodeBatch

ROUNDS_MAX = 1_000  # batches within one input: more is an endless loop
ROUNDING = 1e-6


class EndlessBatches(Exception):
    """The engine produces batches without end at one moment."""


class MachineObserver(Protocol):
    """Observes the state machine after every entry."""

    def applied(self, host: Host, position: int) -> None: ...


class _HostState(msgspec.Struct, array_like=True):
    history: bytes
    engine: bytes


class SimEngineStateMachine:
    """The replicated state: the history that the group's simulator compares, and the engine's state machine."""

    def __init__(self, host: Host, history: History) -> None:
        self._host = host
        self._history = history

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        self._host.read_clock()
        result = self._history.apply(position, origin, body)
        self._host.engine.apply(position, origin, body)
        self._host.watch.applied(self._host, position)
        return result

    def view_changed(self, position: int, view: View) -> None:
        self._host.read_clock()
        self._history.view_changed(position, view)
        self._host.engine.view_changed(position, view)
        self._host.watch.applied(self._host, position)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_HostState(self._history.snapshot(), self._host.engine.snapshot()))

    def restore(self, state: bytes) -> None:
        self._host.read_clock()
        found = msgspec.msgpack.decode(state, type=_HostState)
        self._history.restore(found.history)
        self._host.engine.restore(found.engine)


class Host:
    """One simulated node process, from start to crash."""

    def __init__(
        self,
        world: World,
        node: SimNode,
        policy: CompiledPolicy,
        watch: MachineObserver,
        lag: float,
        capacity_bps: int,
        servers: list[UpstreamReport],
        parts: tuple[ProcessId, Settings, Image, History, RandomSource, Callable[[Action], None] | None],
    ) -> None:
        me, settings, image, history, chance, trace = parts
        history.keep_bodies = False
        self.world = world
        self.node = node
        self.life = node.started_count
        self.watch = watch
        self.policy = policy
        self.engine = Engine(me, policy, self, is_member=True, life=self.life)
        self.process = Process(me, settings, image, SimEngineStateMachine(self, history), chance, trace)
        self._lag = lag
        self._batches: dict[int, NodeBatch] = {}
        self.states: list[tuple[int, str]] = []  # digests after positions that the judge has not compared yet
        self._seen = 0  # effects handled so far
        self._has_servers = bool(servers)
        if servers:
            self.engine.report_upstreams(servers)
        self.report(capacity_bps)

    def report(self, capacity_bps: int) -> None:
        """Report this capacity, and a vote on an upstream server that changes with it, unless the node has others."""
        self.engine.report_capacity(NodeReport(capacity_bps, 0, 0, f"http://{self.node.name}"))
        if self._has_servers:
            return
        vote = Vote(capacity_bps // 1000 % len(Vote))
        self.engine.report_upstreams([UpstreamReport("app", "http://app.example", True, 1, 8, (), (), vote)])

    # ---- time

    @property
    def now_ms(self) -> int:
        return int((self.process.context.now + ROUNDING) * 1000)

    def read_clock(self) -> None:
        self.engine.now_ms = self.now_ms

    def poke(self) -> None:
        """After a client's action: let the node send a batch if one is due."""
        self.world.nodes[self.node.name].put(0, None, None)

    def wake(self) -> None:
        """Before a client's action: read the clock."""
        self.process.context.now = self.node.clock()
        self.read_clock()

    # ---- the process, for the simulator

    @property
    def context(self) -> Context:
        return self.process.context

    def start(self, now: float) -> None:
        self.process.start(now)

    def tick(self, now: float) -> None:
        self.process.tick(now)
        self.engine.tick(self.now_ms)

    def connected(self, now: float, peer: ProcessId) -> None:
        self.process.connected(now, peer)

    def disconnected(self, now: float, peer: ProcessId) -> None:
        self.process.disconnected(now, peer)

    def received(self, now: float, peer: ProcessId, frame: Frame) -> None:
        self.process.received(now, peer, frame)

    def submit(self, now: float, body: bytes) -> int:
        return self.process.submit(now, body)

    def performed(self, now: float, count: int) -> None:
        self.process.performed(now, count)

    def leave(self, now: float) -> None:
        self.process.leave(now)

    def next_deadline(self) -> float:
        deadline = self.process.next_deadline()
        call_ms = self.engine.next_call_ms()
        return deadline if call_ms is None else min(deadline, max(call_ms, self.now_ms + 1) / 1000)

    def take(self) -> list[Effect]:
        outbox = self.process.context.outbox
        for _ in range(ROUNDS_MAX):
            while self._seen < len(outbox):
                self._seen += 1
                self._hear(outbox[self._seen - 1])
            body = self.engine.flush(self.now_ms)
            if body is not None:
                self._broadcast(body)
            elif not self.engine.should_send and self._seen == len(outbox):
                self._seen = 0
                self.world.sometimes["collects what it has to tell"] += self.engine.is_collecting
                return self.process.take()
        raise EndlessBatches(f"{self.node.pid} at {self.now_ms} ms")

    def _broadcast(self, body: bytes) -> None:
        batch = self.engine.in_flight
        assert batch is not None
        ticket = self.process.submit(self.process.context.now, body)
        self.node.pending[ticket] = body
        self._batches[ticket] = batch

    def _hear(self, effect: Effect) -> None:
        self.read_clock()
        if isinstance(effect, DeliveredRun):
            for end in effect.ends():
                self.engine.batch_ended(self._batches.pop(end.ticket), end.delivered)
        elif isinstance(effect, Delivered):
            self.engine.batch_ended(self._batches.pop(effect.ticket), effect.delivered)
        elif isinstance(effect, PrimaryChanged):
            if self._lag:
                self.world.events.after(self._lag, self._primary_later, effect.view)
            else:
                self._primary(effect.view)

    def _primary_later(self, view: View | None) -> None:
        if self.node.process is not self:
            return
        self.wake()
        self._primary(view)
        self.poke()

    def _primary(self, view: View | None) -> None:
        if view is None:
            self.engine.leave_primary_view()
            self.world.sometimes["decides alone"] += 1
            return
        self.engine.enter_primary_view()
        if not self.engine.replicated.generation and view.members[0] == self.engine.me:
            self.engine.change_policy(self.policy)

    # ---- callbacks of the engine

    def policy_changed(self, _position: int, _policy: CompiledPolicy) -> None:
        self.world.sometimes["another policy"] += 1

    def viewed(self, _position: int, _view: View) -> None:
        self.world.sometimes["a view in the order"] += 1

    def reported(self, _effect: Reported) -> None:
        self.world.sometimes["a capacity fixed"] += 1

    def upstreams_reported(self, _effect: UpstreamsReported) -> None:
        self.world.sometimes["a vote on an upstream server"] += 1

    def entry_rejected(self, effect: EntryRejected) -> None:
        raise AssertionError(f"an entry of this version was rejected: {effect}")
