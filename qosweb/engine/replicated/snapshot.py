"""Snapshot format of the state machine: equal states give equal bytes, and a restored machine behaves the same."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from cluster.names import ProcessId, View
from qosweb.engine.replicated.buckets import Bucket
from qosweb.engine.replicated.classes import NEVER_MS, ClassState, Totals, Waiter
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.cost_scale import CostScale
from qosweb.engine.replicated.entries import with_format, without_format
from qosweb.engine.replicated.flows import Flow
from qosweb.engine.replicated.pipes import Pipe, PipeChannel
from qosweb.engine.replicated.server_pool import ServerPool
from qosweb.engine.replicated.servers import Server, SlotUse
from qosweb.engine.replicated.upstreams import UpstreamReport
from qosweb.webqos import Environment

if TYPE_CHECKING:
    from qosweb.engine.replicated.state_machine import QosStateMachine


class ClassSnapshot(msgspec.Struct, array_like=True):
    name: str
    queues: list[tuple[ProcessId, list[tuple[int, Waiter]]]]
    virtual: int
    spare_cost: int
    backlog_ms: int
    came: Flow
    got: Flow
    totals: Totals
    short_ms: int = NEVER_MS  # not in format 1
    mean_cost: int = 0  # not in format 1


class PipeSnapshot(msgspec.Struct, array_like=True):
    capacity_bps: int
    load_ppm: int
    wall_ms: int
    url: str
    language: int
    channels: list[tuple[ProcessId, int, PipeChannel]]
    upstreams: tuple[UpstreamReport, ...] = ()  # not in format 1


class ServerSnapshot(msgspec.Struct, array_like=True):
    limit: int
    level: int
    epoch: int
    decider: ProcessId | None
    slots_max: int
    is_out: bool
    uses: list[tuple[ProcessId, int, SlotUse]]
    reserved: list[tuple[ProcessId, int, int]]  # slots, until when
    open_ms: int = 0
    kept: int = 0


class PoolSnapshot(msgspec.Struct, array_like=True):
    key: tuple[str, ...]
    classes: list[ClassSnapshot]
    virtual: int
    spare: int
    era: int
    seq: int
    shares_at_ms: int
    shares: tuple[int, ...]
    scales: list[tuple[str, CostScale]] = []


class EngineSnapshot(msgspec.Struct, array_like=True):
    """The whole replicated state."""

    time_ms: int
    generation: int
    view: View | None
    text: str
    model: bytes
    language: int
    names: list[tuple[int, list[str]]]
    accessed_ms: list[tuple[int, int]]
    classes: list[ClassSnapshot]
    pipes: list[tuple[ProcessId, PipeSnapshot]]
    buckets: list[tuple[int, Bucket]]  # by constraint
    virtual: int
    seq: int
    shares_at_ms: int
    shares: tuple[int, ...]
    bound_ms: int
    environment: tuple[int, int, int, int, int, list[tuple[int, int]], int | None]
    spare: int
    era: int
    servers: list[tuple[str, ServerSnapshot]] = []  # not in format 1
    pools: list[PoolSnapshot] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(EngineSnapshot).decode


def encode(state: EngineSnapshot) -> bytes:
    return with_format(_encode(state))


def decode(data: bytes) -> EngineSnapshot:
    """Raises OtherFormat, or msgspec.DecodeError."""
    content, is_earlier = without_format(data)
    state = _decode(content)
    return _from_earlier(state) if is_earlier else state


def _from_earlier(state: EngineSnapshot) -> EngineSnapshot:
    """Takes over a snapshot in format 1: as much as `entries.decode` takes over of the entries before it."""
    unknown = -1  # shares are divided when it is loaded
    return replace(
        state,
        classes=[ClassSnapshot(one.name, [], 0, 0, NEVER_MS, Flow(), Flow(), one.totals) for one in state.classes],
        pipes=[(pid, replace(pipe, channels=[])) for pid, pipe in state.pipes],
        buckets=[],
        virtual=0,
        seq=0,
        shares_at_ms=unknown,
        shares=(0,) * len(state.classes),
        spare=0,
        era=state.generation,
    )


def save(machine: QosStateMachine) -> EngineSnapshot:
    scheduler, facts = machine.scheduler, machine.environment
    return EngineSnapshot(
        time_ms=machine.time_ms,
        generation=machine.generation,
        view=machine.view,
        text=machine.policy.text,
        model=machine.policy.packed,
        language=machine.policy.language,
        names=list(machine.names.items()),
        accessed_ms=list(machine.accessed_ms.items()),
        classes=[_save_class(one) for one in scheduler.classes],
        pipes=[(pid, _save_pipe(pipe)) for pid, pipe in scheduler.pipes.items()],
        buckets=[
            (rule.constraint, bucket) for rule, bucket in zip(scheduler.bound.rules, scheduler.buckets, strict=True)
        ],
        virtual=scheduler.virtual,
        seq=machine.seq,
        shares_at_ms=machine.shares_at_ms,
        shares=scheduler.shares,
        bound_ms=machine.bound_ms,
        environment=(
            facts.time_s, facts.weekday, facts.day, facts.load_ppm, facts.nodes, sorted(facts.accessed_ms.items()),
            facts.capacity_bps,
        ),
        spare=scheduler.spare,
        era=scheduler.era,
        servers=[(name, _save_server(one)) for name, one in machine.servers.servers.items()],
        pools=[_save_pool(pool) for pool in machine.servers.pools.values()],
    )  # fmt: skip


def load(machine: QosStateMachine, state: EngineSnapshot) -> None:
    policy = CompiledPolicy.of(state.text, state.model, state.language)
    scheduler = machine.scheduler
    machine.time_ms, machine.generation, machine.view = state.time_ms, state.generation, state.view
    machine.policy, machine.names = policy, dict(state.names)
    machine.accessed_ms = dict(state.accessed_ms)
    machine.seq, machine.shares_at_ms = state.seq, state.shares_at_ms
    scheduler.places = {pid: _load_pipe(pipe) for pid, pipe in state.pipes}
    scheduler.classes_changed([_load_class(one) for one in state.classes])
    for class_number, one in enumerate(scheduler.classes):
        for owner, queue in one.queues.items():
            scheduler.pipes[owner].waiting.update(dict.fromkeys(queue, class_number))
    time_s, weekday, day, load_ppm, nodes, accessed_ms, capacity_bps = state.environment
    machine.bind_to(Environment(time_s, weekday, day, load_ppm, nodes, dict(accessed_ms), capacity_bps))
    machine.bound_ms = state.bound_ms
    scheduler.buckets = [bucket for _, bucket in state.buckets]
    scheduler.may_redirect = policy.may_redirect
    scheduler.virtual, scheduler.spare = state.virtual, state.spare
    scheduler.set_shares(state.shares)
    scheduler.era = state.era
    scheduler.wake_ms = None
    machine.servers.servers = {name: _load_server(one) for name, one in state.servers}
    machine.servers.pools = {one.key: _load_pool(machine, one) for one in state.pools}
    if state.shares_at_ms < 0:
        machine.rebind()


def _save_class(one: ClassState) -> ClassSnapshot:
    queues = [(owner, list(one.queues[owner].items())) for owner in sorted(one.queues)]
    return ClassSnapshot(
        one.name, queues, one.virtual, one.spare_cost, one.backlog_ms, one.came, one.got, one.totals, one.short_ms,
        one.mean_cost,
    )  # fmt: skip


def _load_class(saved: ClassSnapshot) -> ClassState:
    state = ClassState(saved.name)
    state.virtual, state.spare_cost, state.backlog_ms = saved.virtual, saved.spare_cost, saved.backlog_ms
    state.short_ms, state.mean_cost = saved.short_ms, saved.mean_cost
    state.came, state.got, state.totals = saved.came, saved.got, saved.totals
    for owner, waiters in saved.queues:
        state.queues[owner] = OrderedDict(waiters)
        state.waiting += len(waiters)
        state.waiting_cost += sum(waiter.cost for _, waiter in waiters)
    return state


def _save_pipe(pipe: Pipe) -> PipeSnapshot:
    channels = [(owner, number, pipe.channels[owner, number]) for owner, number in sorted(pipe.channels)]
    return PipeSnapshot(
        pipe.capacity_bps, pipe.load_ppm, pipe.wall_ms, pipe.url, pipe.language, channels, pipe.upstreams
    )


def _load_pipe(saved: PipeSnapshot) -> Pipe:
    pipe = Pipe()
    pipe.capacity_bps, pipe.load_ppm, pipe.wall_ms = saved.capacity_bps, saved.load_ppm, saved.wall_ms
    pipe.url, pipe.language, pipe.upstreams = saved.url, saved.language, saved.upstreams
    for owner, number, channel in saved.channels:
        pipe.take(owner, number, channel)
    return pipe


def _save_server(server: Server) -> ServerSnapshot:
    return ServerSnapshot(
        server.limit, server.level, server.epoch, server.decider, server.slots_max, server.is_out,
        [(owner, number, server.uses[owner, number]) for owner, number in sorted(server.uses)],
        [(pid, *server.reserved[pid]) for pid in sorted(server.reserved)], server.open_ms, server.kept,
    )  # fmt: skip


def _load_server(saved: ServerSnapshot) -> Server:
    server = Server()
    server.limit, server.level, server.epoch, server.decider = saved.limit, saved.level, saved.epoch, saved.decider
    server.slots_max, server.is_out = saved.slots_max, saved.is_out
    for owner, number, use in saved.uses:
        server.take(owner, number, use)
    server.open_ms, server.kept = saved.open_ms, saved.kept
    server.reserved = {pid: (slots, until_ms) for pid, slots, until_ms in saved.reserved}
    return server


def _save_pool(pool: ServerPool) -> PoolSnapshot:
    scheduler = pool.scheduler
    return PoolSnapshot(
        pool.key, [_save_class(one) for one in pool.classes], scheduler.virtual, scheduler.spare, scheduler.era,
        pool.seq, pool.shares_at_ms, scheduler.shares, sorted(pool.scales.items()),
    )  # fmt: skip


def _load_pool(machine: QosStateMachine, saved: PoolSnapshot) -> ServerPool:
    pool = ServerPool(machine, saved.key)
    scheduler, servers = pool.scheduler, machine.servers.servers
    scheduler.classes_changed([_load_class(one) for one in saved.classes])
    for class_number, one in enumerate(pool.classes):
        for owner, queue in one.queues.items():
            pool.waiting.update({(owner, number): class_number for number in queue})
    pool.use({name: servers[name] for name in saved.key if name in servers})
    scheduler.virtual, scheduler.spare, scheduler.era = saved.virtual, saved.spare, saved.era
    pool.seq, pool.shares_at_ms = saved.seq, saved.shares_at_ms
    pool.scales = dict(saved.scales)
    scheduler.set_shares(saved.shares)
    return pool
