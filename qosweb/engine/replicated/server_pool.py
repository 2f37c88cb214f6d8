"""Pool of upstream servers in the replicated state: the requests that wait for a slot of any of them, by class.

The rules on shares hold in each pool for itself: a class has a demand, a share and a virtual time in each. The service
time of a request is unknown at its start: it is charged with the mean of recent requests of its class in the pool, and
at its end with its real slot time, or with the slot time that corresponds to its cost if its class has another measure
(`cost_scale`). A request starts at its owner, wherever the server is; there are no redirects.
Neighbours: `state_machine` applies the entries to the pools.  Below: `slot_scheduler`, `servers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.classes import ClassState, Waiter
from qosweb.engine.replicated.cost_scale import AMOUNT_MAX, CostScale
from qosweb.engine.replicated.demand import demand_ppm
from qosweb.engine.replicated.effects import Sampled, SlotGranted
from qosweb.engine.replicated.servers import SLOT, Server, SlotUse
from qosweb.engine.replicated.slot_scheduler import SlotScheduler
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.names import ProcessId
    from qosweb.engine.replicated.classes import ClassNumbers
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.pipes import Pipe
    from qosweb.engine.replicated.pool_batch import PoolBatch
    from qosweb.engine.replicated.servers import PoolKey
    from qosweb.engine.replicated.state_machine import QosStateMachine

SHARES_EVERY_MS = 20
MEAN_US = 10_000  # service time of a class that is not known yet
MEAN_OF = 8  # weight of the mean, in requests
COST_MAX = 600 * SLOT


class ServerPool:
    """One pool."""

    def __init__(self, machine: QosStateMachine, key: PoolKey) -> None:
        self.machine = machine
        self.key = key
        self.scheduler = SlotScheduler()
        self.scheduler.classes_changed([ClassState(name) for name in machine.policy.names])
        self.servers: dict[str, Server] = {}  # all; the scheduler uses only servers that are not out
        self.waiting: dict[tuple[ProcessId, int], int] = {}  # the class of each waiting request
        self.seq = 0
        self.scales: dict[str, CostScale] = {}  # by measure
        self.shares_at_ms = -1
        self.bind()

    # ---- observation, as of the state machine

    @property
    def classes(self) -> list[ClassState]:
        return self.scheduler.classes

    @property
    def policy(self) -> CompiledPolicy:
        return self.machine.policy

    @property
    def pipes(self) -> dict[ProcessId, Pipe]:
        return self.machine.pipes

    @property
    def time_ms(self) -> int:
        return self.machine.time_ms

    @property
    def travel_ms(self) -> int:
        return 0

    @property
    def capacity_bps(self) -> int:
        return self.scheduler.capacity_per_s

    @property
    def load_ppm(self) -> int:
        """Part of the slots in use, over some seconds."""
        used_us = sum(one.got.per_s for one in self.classes)
        return min(PPM, used_us * PPM // self.capacity_bps) if self.capacity_bps else 0

    @property
    def is_contended(self) -> bool:
        """A request waits for a slot, and not only for a bound of its class."""
        scheduler = self.scheduler
        return any(scheduler.has_tokens(number, self.time_ms) for number in scheduler.waiting())

    @property
    def oldest_ms(self) -> int:
        """Since when a request waits; as of now, if none does."""
        return min((one.oldest(owner)[1].at_ms for one in self.classes for owner in one.queues), default=self.time_ms)

    def mean_us(self, class_number: int) -> int:
        return self.classes[class_number].mean_cost or MEAN_US

    # ---- entries

    def apply(
        self,
        origin: ProcessId,
        batch: PoolBatch,
        number_of: ClassNumbers,
        charged: Mapping[int, SlotUse],
        *,
        is_current: bool,
    ) -> None:
        """`charged`: the slots that the node had before this restatement, by request.

        `is_current`: the node knew the policy in force, and so its measures of costs.
        """
        for number, class_then, cost, name in batch.running:
            self._hold(origin, number, charged.get(number) or self._charge(number_of[class_then], cost), name)
        for class_number, count, cost, *amount in batch.served:
            self._served(number_of[class_number], count, cost, amount if is_current else ())
        for number, class_number, cost, name in batch.started:
            self._start_at_once(origin, number, number_of[class_number], cost, name)
        for number, class_number, cost in batch.submitted:
            self._wait(origin, number, number_of[class_number], cost)
        for class_number, cost in batch.denied:
            self.classes[number_of[class_number]].came.now += cost
        for number in batch.cancelled:
            self._cancel(origin, number)
        for number, cost, *amount in batch.finished:
            self._finish(origin, number, cost, amount if is_current else ())
        for name, rows in batch.samples:
            if name in self.key and self.machine.servers.decider_of(name) == self.machine.me:
                for row in rows:
                    row.number = number_of[row.number]
                self.machine.effect(Sampled(name, rows))

    def _start_at_once(self, owner: ProcessId, number: int, class_number: int, cost: int, name: str) -> None:
        if self._server_of(owner, number) is not None:
            return
        if (owner, number) in self.waiting:
            self._cancel(owner, number)
        self.scheduler.take_tokens(class_number, 1, cost, self.time_ms)
        if name in self.servers:
            self.servers[name].kept = max(0, self.servers[name].kept - 1)
        self._hold(owner, number, self._charge(class_number, cost), name)

    def _charge(self, class_number: int, cost: int) -> SlotUse:
        chosen = self.classes[class_number]
        chosen.came.now += cost
        chosen.got.now += cost
        weight, era = self.scheduler.charge(class_number, cost)
        return SlotUse(class_number, cost, weight, era, self.scheduler.bound.always[class_number])

    def _served(self, class_number: int, count: int, cost: int, amount: Sequence[int]) -> None:
        """Requests that started at once and are over."""
        if count < 1:
            return
        cost = self._settled_cost(class_number, count, cost, amount)
        chosen = self.classes[class_number]
        chosen.came.now += cost
        chosen.got.now += cost
        chosen.mean_cost += (cost // count - chosen.mean_cost) // MEAN_OF if chosen.mean_cost else cost // count
        self.scheduler.take_tokens(class_number, count, cost, self.time_ms)
        self.scheduler.charge(class_number, cost)

    def _hold(self, owner: ProcessId, number: int, use: SlotUse, name: str) -> None:
        server = self.servers.get(name)
        if server is not None:
            server.take(owner, number, use)

    def _wait(self, owner: ProcessId, number: int, class_number: int, cost: int) -> None:
        if (owner, number) in self.waiting or self._server_of(owner, number) is not None:
            return
        chosen = self.classes[class_number]
        if not chosen.waiting:
            self.scheduler.begins_to_wait(class_number, self.time_ms)
            if not self.scheduler.shares[class_number]:
                self.shares_at_ms = -1
        chosen.came.now += cost
        self.seq += 1
        chosen.add(owner, number, Waiter(self.seq, cost, self.time_ms))
        self.waiting[owner, number] = class_number

    def _cancel(self, owner: ProcessId, number: int) -> None:
        class_number = self.waiting.pop((owner, number), None)
        if class_number is not None:
            self.classes[class_number].remove(owner, number)
            return
        use = self._release(owner, number)
        if use is not None:
            self._settle(use, -use.cost)
            self.scheduler.take_tokens(use.number, -1, 0, self.time_ms)

    def _finish(self, owner: ProcessId, number: int, cost: int, amount: Sequence[int]) -> None:
        use = self._release(owner, number)
        if use is None:
            return
        cost = self._settled_cost(use.number, 1, min(max(1, cost), COST_MAX), amount)
        chosen = self.classes[use.number]
        chosen.mean_cost += (cost - chosen.mean_cost) // MEAN_OF if chosen.mean_cost else cost
        self._settle(use, cost - use.cost)

    def _settled_cost(self, class_number: int, count: int, used_us: int, amount: Sequence[int]) -> int:
        """The cost of requests that are over, by the measure of their class."""
        measure = self.scheduler.bound.measures[class_number]
        if measure and amount:
            scale = self.scales.setdefault(measure, CostScale())
            scale.add(count, used_us, min(max(0, amount[0]), count * AMOUNT_MAX))
        return min(self.cost_us(class_number, used_us, amount), count * COST_MAX)

    def cost_us(self, class_number: int, used_us: int, amount: Sequence[int]) -> int:
        """The cost of requests that took this slot time, and this amount if the measure of their class is not time."""
        scale = self.scales.get(self.scheduler.bound.measures[class_number])
        return used_us if scale is None or not amount else scale.slot_us(amount[0])

    def _settle(self, use: SlotUse, more: int) -> None:
        self.classes[use.number].got.now += more
        self.scheduler.settle(use, more)

    def _release(self, owner: ProcessId, number: int) -> SlotUse | None:
        server = self._server_of(owner, number)
        return None if server is None else server.give_back(owner, number)

    def _server_of(self, owner: ProcessId, number: int) -> Server | None:
        for server in self.servers.values():
            if (owner, number) in server.uses:
                return server
        return None

    def forget(self, member: ProcessId) -> None:
        """Remove the waiting requests of a node."""
        for owner, number in [key for key in self.waiting if key[0] == member]:
            self.classes[self.waiting.pop((owner, number))].remove(owner, number)

    def use(self, servers: dict[str, Server]) -> None:
        """The servers of the pool, or their health, have changed. If all are out, trying is better than failing."""
        self.servers = servers
        self.scheduler.places = {name: one for name, one in servers.items() if not one.is_out} or servers

    # ---- the policy

    def bind(self) -> None:
        """The policy was evaluated anew."""
        of_pipes = self.machine.scheduler
        self.scheduler.bind(of_pipes.bound)
        self.scheduler.buckets = of_pipes.buckets
        self.shares_at_ms = -1
        self._divide()

    def change_policy(self, names: list[str], default: int, numbers: list[int]) -> None:
        """Classes keep their state by name; requests of a removed class go to the default class."""
        before = {one.name: one for one in self.classes}
        classes = [before.get(name) or ClassState(name) for name in names]
        gone = [one for one in self.classes if one.name not in names]
        chosen = classes[default]
        moved = sorted(waiter for one in (*gone, chosen) for waiter in one.all())
        chosen.clear()
        for waiter, owner, number in moved:
            chosen.add(owner, number, waiter)
        self.waiting = {key: numbers[old] for key, old in self.waiting.items()}
        self.scheduler.classes_changed(classes)
        self.scheduler.forget()
        self.scales = {}

    # ---- time and shares

    def advance(self, steps: int) -> None:
        for one in self.classes:
            one.came.step(steps)
            one.got.step(steps)

    def _divide(self) -> None:
        now_ms, bound, scheduler = self.time_ms, self.scheduler.bound, self.scheduler
        if 0 <= self.shares_at_ms <= now_ms < self.shares_at_ms + SHARES_EVERY_MS:
            return
        self.shares_at_ms = now_ms
        capacity = self.capacity_bps
        demand = [
            demand_ppm(one, capacity, always=always) for one, always in zip(self.classes, bound.always, strict=True)
        ]
        scheduler.divide(demand, now_ms)

    def schedule(self) -> None:
        scheduler, now_ms, machine = self.scheduler, self.time_ms, self.machine
        waiting = scheduler.waiting()
        for number in waiting:
            scheduler.classes[number].backlog_ms = now_ms
        self._divide()
        for owner, number, name in scheduler.starts(now_ms, waiting):
            del self.waiting[owner, number]
            if owner == machine.me:
                server = scheduler.places[name]
                machine.effect(SlotGranted(self.key, number, name, server.epoch, len(server.uses), server.free <= 0))
