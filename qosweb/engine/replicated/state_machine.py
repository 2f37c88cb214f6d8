"""Replicated state machine of the QoS engine: the cluster's request queue, scheduler and resource model.

Paper: the qosd of section 3.2.2 ("a global queue of outstanding HTTP requests, and a global resource model"), which was
one process at one place; here every node has a replica, and the total order keeps the replicas equal.
State: the policy; the waiting requests and virtual time of each class; the capacity and channels of each node; cluster
time. Deterministic: integers only, no clock but the times in the entries (the largest time seen is now).
Invariants: `invariants.violated_invariants`.
Above: the node, through effects.  Below: the total order, through apply, view_changed, snapshot and restore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.replicated import entries, snapshot
from qosweb.engine.replicated.buckets import DEPTH_MS, Bucket
from qosweb.engine.replicated.classes import ClassNumbers, ClassState, Totals, Waiter
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.demand import demand_ppm
from qosweb.engine.replicated.effects import (
    Effect,
    EntryRejected,
    Granted,
    PolicyChanged,
    Reported,
    Reserved,
    RestatementApplied,
    RestatementNeeded,
    UpstreamsReported,
    Viewed,
)
from qosweb.engine.replicated.flows import STEP_MS
from qosweb.engine.replicated.pipe_scheduler import PipeScheduler
from qosweb.engine.replicated.pipes import NEVER, TRAVEL_MS, Pipe, held, whole_channel
from qosweb.engine.replicated.server_table import ServerTable
from qosweb.webqos import Environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId, View
    from qosweb.engine.replicated.entries import NodeBatch, NodeRestatement, PolicyText
    from qosweb.engine.replicated.servers import SlotUse

SHARES_EVERY_MS = 20  # interval of dividing the capacity, unless a class without a share begins to wait
GENERATIONS_KEPT = 8  # policies whose class numbers may occur in entries in flight


class QosStateMachine:
    """One replica. `me` and `effect` belong to the node and are not part of the state."""

    def __init__(self, me: ProcessId, policy: CompiledPolicy, effect: Callable[[Effect], None]) -> None:
        self.me = me
        self.effect = effect
        self.policy = policy
        self.time_ms = 0
        self.generation = 0
        self.view: View | None = None
        self.names: dict[int, list[str]] = {}  # class names, by generation
        self.accessed_ms: dict[int, int] = {}  # last access to each page set
        self.scheduler = PipeScheduler()
        self.servers = ServerTable(self)
        self.seq = 0
        self.shares_at_ms = -1
        self.binding_is_due = True  # the environment has changed
        self.bound_ms = 0  # when the policy was last evaluated, and in which environment
        self.environment = Environment()
        self._translations: dict[int, ClassNumbers] = {}  # of class numbers, by generation
        self._translations_to: CompiledPolicy | None = None  # the policy they translate to
        self._bind_all()

    # ---- observation

    @property
    def classes(self) -> list[ClassState]:
        return self.scheduler.classes

    @property
    def pipes(self) -> dict[ProcessId, Pipe]:
        return self.scheduler.pipes

    @property
    def capacity_bps(self) -> int:
        return sum(pipe.capacity_bps for pipe in self.pipes.values())

    @property
    def is_contended(self) -> bool:
        """A request waits for a channel, and not only for tokens of its class."""
        scheduler = self.scheduler
        return any(scheduler.has_tokens(number, self.time_ms) for number in scheduler.waiting())

    @property
    def travel_ms(self) -> int:
        """How long a request may be on its way to another node."""
        return TRAVEL_MS if len(self.pipes) > 1 and self.policy.may_redirect else 0

    @property
    def wake_ms(self) -> int | None:
        """When a request may start although nothing happens until then."""
        wakes = (self.scheduler.wake_ms, *self.servers.wakes_ms())
        return min((one for one in wakes if one is not None), default=None)

    @property
    def promised(self) -> tuple[int, ...]:
        """The guaranteed shares."""
        return self.scheduler.bound.guaranteed

    def names_now(self) -> list[str]:
        return [one.name for one in self.classes]

    # ---- the order

    def apply(self, position: int, origin: ProcessId, body: bytes) -> None:
        """Apply an entry. Raises OtherFormat or OtherLanguage if this version cannot take part in the cluster.

        The first entry decides the format of the order: a version that cannot read it has to stop. A later entry that
        is unreadable to the nodes that read the others is skipped, by all of them.
        """
        try:
            batch = entries.decode(body)
        except (entries.OtherFormat, msgspec.DecodeError) as error:
            if isinstance(error, entries.OtherFormat) and not self.generation:
                raise
            self.effect(EntryRejected(position, origin, str(error)))
            return
        self.binding_is_due |= entries.is_earlier(body)  # as after the load of a snapshot in that format
        self._advance(batch.at_ms)
        if batch.policy is not None:
            self._take_policy(position, origin, batch.policy)
        number_of = self._translation(batch.generation)
        if batch.generation == self.generation:  # page sets are numbered by policy
            for page_set, at_ms in batch.accessed:
                if at_ms > self.accessed_ms.get(page_set, -1):
                    self.accessed_ms[page_set] = at_ms
        for number, *counts in batch.accounts:
            self.classes[number_of[number]].totals.add(Totals(*counts))
        for number, count, cost in batch.served:
            self._started_at_once(number_of[number], count, cost)
        for number, _, cost in batch.denied:
            self.classes[number_of[number]].came.now += cost
        pipe = self.pipes.get(origin)
        if pipe is not None:
            self._apply_of_member(position, origin, pipe, batch, number_of)
        self._rebind_if_due()
        self._schedule()

    def _apply_of_member(
        self, position: int, origin: ProcessId, pipe: Pipe, batch: NodeBatch, number_of: ClassNumbers
    ) -> None:
        if batch.report is not None:
            report = batch.report
            if report.capacity_bps != pipe.capacity_bps:
                self.effect(Reported(position, origin, report.capacity_bps))
            pipe.capacity_bps, pipe.load_ppm = report.capacity_bps, report.load_ppm
            pipe.wall_ms, pipe.url, pipe.language = report.wall_ms, report.url, report.language
            self.binding_is_due = True
        if batch.upstreams is not None and pipe.upstreams != (upstreams := tuple(batch.upstreams)):
            pipe.upstreams = upstreams
            self.servers.update()
            self.effect(UpstreamsReported(position, origin))
        charged: dict[int, SlotUse] = {}
        if batch.restated is not None:
            charged = self._restate(origin, pipe, batch.restated, number_of)
        for number, class_number, cost in batch.started:
            if (origin, number) not in pipe.channels:
                if number in pipe.waiting:
                    self._cancel(origin, pipe, number)
                if not pipe.has_free_channel:
                    self.classes[number_of[class_number]].backlog_ms = self.time_ms
                paid = self._started_at_once(number_of[class_number], 1, cost)
                self._hold(origin, pipe, number, number_of[class_number], cost, *paid)
        self._wait(origin, pipe, batch.submitted, number_of)
        for number in batch.cancelled:
            self._cancel(origin, pipe, number)
        for number, cost in batch.finished:
            self._free(pipe, origin, number, cost)
        for owner, number, cost in batch.visited:
            self._free(pipe, owner, number, cost)
        for decision in batch.limits:
            self.servers.decide(origin, *decision)
        for of_pool in batch.pools:
            pool = self.servers.pools.get(of_pool.servers)
            if pool is not None:
                is_current = batch.generation == self.generation
                pool.apply(origin, of_pool, number_of, charged, is_current=is_current)

    def _started_at_once(self, class_number: int, count: int, cost: int) -> tuple[int, int]:
        chosen = self.classes[class_number]
        chosen.came.now += cost
        chosen.got.now += cost
        self.scheduler.take_tokens(class_number, count, cost, self.time_ms)
        return self.scheduler.charge(class_number, cost)

    def _hold(
        self, owner: ProcessId, pipe: Pipe, number: int, class_number: int, cost: int, share: int = 0, era: int = NEVER
    ) -> None:
        rate = whole_channel(self.scheduler.bound.rate_bps(class_number, cost), pipe.capacity_bps)
        pipe.take(owner, number, held(class_number, cost, rate, share, era, visits=False))

    def _wait(self, owner: ProcessId, pipe: Pipe, ones: list[tuple[int, int, int]], number_of: ClassNumbers) -> None:
        classes, waiting, channels, time_ms = self.classes, pipe.waiting, pipe.channels, self.time_ms
        for number, class_then, cost in ones:
            if number in waiting or (owner, number) in channels:
                continue
            class_number = number_of[class_then]
            chosen = classes[class_number]
            if not chosen.waiting:
                self.scheduler.begins_to_wait(class_number, time_ms)
                if not self.scheduler.shares[class_number]:
                    self.shares_at_ms = -1
            chosen.came.now += cost
            self.seq += 1
            chosen.add(owner, number, Waiter(self.seq, cost, time_ms))
            waiting[number] = class_number

    def _cancel(self, owner: ProcessId, pipe: Pipe, number: int) -> None:
        class_number = pipe.waiting.pop(number, None)
        if class_number is not None:
            self.classes[class_number].remove(owner, number)
            return
        for other in self.pipes.values():  # granted meanwhile, at some node
            if (owner, number) in other.channels:
                self._free(other, owner, number, entries.UNUSED)
                return

    def _free(self, pipe: Pipe, owner: ProcessId, number: int, cost: int) -> None:
        channel = pipe.give_back(owner, number)
        if channel is None or channel.cost == cost > 0:
            return
        more = max(0, cost) - channel.cost
        if more or cost == entries.UNUSED:
            self.classes[channel.number].got.now += more
            self.scheduler.settle(channel, more)
            self.scheduler.take_tokens(channel.number, -(cost == entries.UNUSED), more, self.time_ms)

    def _restate(
        self, origin: ProcessId, pipe: Pipe, restated: NodeRestatement, number_of: ClassNumbers
    ) -> dict[int, SlotUse]:
        """Replace the known requests of a node. Returns the slots that it had, by request."""
        charged = self._forget(origin)
        self.servers.end_reservation(origin)
        here = {number for number, *_ in (*restated.running, *restated.waiting)}
        for other in self.pipes.values():  # channels granted to these requests while their node was away
            for key in [key for key in other.channels if key[0] == origin and key[1] in here]:
                other.give_back(*key)
        if origin == self.me:
            self.effect(RestatementApplied(restated.count))
        for number, class_number, cost in restated.running:
            self._hold(origin, pipe, number, number_of[class_number], cost)
        self._wait(origin, pipe, restated.waiting, number_of)
        return charged

    # ---- members

    def view_changed(self, position: int, view: View) -> None:
        before = set(self.pipes)
        left = sorted(before.difference(view.members))
        self.servers.reserve(left, len(before))
        for gone in left:
            self._forget(gone)
        self.scheduler.places = {member: self.pipes.get(member) or Pipe() for member in view.members}
        self.servers.update()
        self.view = view
        self.binding_is_due = True
        self._rebind_if_due()
        self.effect(Viewed(position, view))
        if self.me in view.members and self.me not in before:
            self.effect(RestatementNeeded())
        self._schedule()

    def _forget(self, member: ProcessId) -> dict[int, SlotUse]:
        """Remove a node's waiting requests, its pipe's channels, and its slots: these are returned, by request.

        Its channels at other nodes end there.
        """
        pipe = self.pipes[member]
        for number, class_number in pipe.waiting.items():
            self.classes[class_number].remove(member, number)
        pipe.waiting.clear()
        for owner, number in list(pipe.channels):
            pipe.give_back(owner, number)
        return self.servers.forget(member)

    # ---- the policy

    def _take_policy(self, position: int, origin: ProcessId, policy: PolicyText) -> None:
        """Change the policy, unless some member could not read it."""
        for member, pipe in self.pipes.items():
            if 0 < pipe.language < policy.language:
                because = f"it is in language {policy.language}, but {member.name} reads up to {pipe.language}"
                self.effect(EntryRejected(position, origin, because, policy.text))
                return
        try:
            compiled = CompiledPolicy.of(policy.text, policy.model, policy.language)
        except msgspec.DecodeError as error:
            self.effect(EntryRejected(position, origin, str(error), policy.text))
        else:
            self._change_policy(position, compiled)

    def change_policy(self, position: int, policy: CompiledPolicy) -> None:
        """Change the policy outside an entry."""
        self._change_policy(position, policy)
        self._schedule()

    def _change_policy(self, position: int, policy: CompiledPolicy) -> None:
        """Change the policy from this position of the order on.

        Classes keep their state by name. The requests and totals of a removed class go to the default class. Virtual
        times are reset.
        """
        before = {one.name: one for one in self.classes}
        self.policy = policy
        self.generation += 1
        new_number = {name: at for at, name in enumerate(policy.names)}
        classes = [before.get(name) or ClassState(name) for name in policy.names]
        default = classes[policy.default]
        gone = [one for one in self.classes if one.name not in new_number]
        waiting = sorted(waiter for one in (*gone, default) for waiter in one.all())
        default.clear()
        for waiter, owner, number in waiting:
            default.add(owner, number, waiter)
        for one in gone:
            default.totals.add(one.totals)
        names = self.names_now()
        numbers = [new_number.get(name, policy.default) for name in names]
        for pipe in self.pipes.values():
            pipe.waiting = {number: numbers[old] for number, old in pipe.waiting.items()}
            pipe.channels = {key: one._replace(number=numbers[one.number]) for key, one in pipe.channels.items()}
        self.servers.change_policy(policy, numbers)
        self.scheduler.classes_changed(classes)
        self.scheduler.forget()
        self.accessed_ms = {}
        self._bind_all()
        self.effect(PolicyChanged(position, policy.text))

    def _bind_all(self) -> None:
        """Evaluate a new policy from scratch."""
        self.names[self.generation] = list(self.policy.names)
        for old in [one for one in self.names if one <= self.generation - GENERATIONS_KEPT]:
            del self.names[old]
        if not self.classes:
            self.scheduler.classes_changed([ClassState(name) for name in self.policy.names])
        self.scheduler.may_redirect = self.policy.may_redirect
        self.scheduler.buckets = []
        self.binding_is_due = True
        self._rebind_if_due()

    def _rebind_if_due(self) -> None:
        if self.binding_is_due or self.policy.binds_anew(self.bound_ms, self.time_ms):
            self.rebind()

    def rebind(self) -> None:
        """Evaluate the policy in the present environment. A full token bucket stays full, whatever its new rate."""
        scheduler = self.scheduler
        before: dict[int, Bucket] = {}
        for rule, bucket in zip(scheduler.bound.rules, scheduler.buckets, strict=True) if scheduler.buckets else ():
            bucket.fill(rule, self.time_ms)
            if bucket.level < rule.rate_per_s * DEPTH_MS:
                before[rule.constraint] = bucket
        pipes, load_ppm = list(self.pipes.values()), self.servers.load_ppm
        self.bind_to(self.policy.environment(self.time_ms, pipes, self.accessed_ms, load_ppm))
        scheduler.buckets = [
            before.get(rule.constraint) or Bucket(rule.rate_per_s * DEPTH_MS, self.time_ms)
            for rule in scheduler.bound.rules
        ]
        self.shares_at_ms = -1
        self._divide()
        for pool in self.servers.pools.values():
            pool.bind()

    def bind_to(self, environment: Environment) -> None:
        self.binding_is_due = False
        self.bound_ms = self.time_ms
        self.environment = environment
        self.scheduler.bind(self.policy.bind(environment))

    def _translation(self, generation: int) -> ClassNumbers:
        """Map class numbers of a generation to the current ones."""
        if self._translations_to is not self.policy:
            self._translations_to = self.policy
            self._translations.clear()
        found = self._translations.get(generation)
        if found is None:
            found = ClassNumbers(self.names.get(generation, ()), self.policy.names, self.policy.default)
            if generation in self.names:
                self._translations[generation] = found
        return found

    # ---- time and shares

    def _advance(self, at_ms: int) -> None:
        if at_ms <= self.time_ms:
            return
        steps = at_ms // STEP_MS - self.time_ms // STEP_MS
        if steps:
            for one in self.classes:
                one.came.step(steps)
                one.got.step(steps)
            for pool in self.servers.pools.values():
                pool.advance(steps)
        self.time_ms = at_ms
        self.servers.end_reservations()

    def _divide(self) -> None:
        if 0 <= self.shares_at_ms <= self.time_ms < self.shares_at_ms + SHARES_EVERY_MS:
            return
        self.shares_at_ms = self.time_ms
        capacity = self.capacity_bps
        bound = self.scheduler.bound
        demand = [
            demand_ppm(one, capacity, always=always) for one, always in zip(self.classes, bound.always, strict=True)
        ]
        self.scheduler.divide(demand, self.time_ms)

    def _schedule(self) -> None:
        now_ms, me, scheduler = self.time_ms, self.me, self.scheduler
        waiting = scheduler.waiting()
        for class_number in waiting:
            scheduler.classes[class_number].backlog_ms = now_ms
        self._divide()
        for class_number, owner, number, at, channel in scheduler.starts(now_ms, waiting):
            if owner == me:
                self.effect(Granted(number, at, channel.rate_bps))
            elif at == me:
                self.effect(Reserved(owner, number, class_number, channel.cost, channel.rate_bps))
        self.servers.schedule()

    # ---- snapshots

    def snapshot(self) -> bytes:
        return snapshot.encode(snapshot.save(self))

    def restore(self, state: bytes) -> None:
        snapshot.load(self, snapshot.decode(state))
        self.effect(PolicyChanged(-1, self.policy.text))
        self.effect(RestatementNeeded())
