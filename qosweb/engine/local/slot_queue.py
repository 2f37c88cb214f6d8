"""Requests of one node for one pool of upstream servers: starts, queues or denies each of them.

A request starts at once at a server with a free slot if no request of the pool waits and no bound of its class is
always enforced; the other nodes learn of it later. Of the free slots of a shared server a node so uses its part, at
least one, before they have learned of it. So a limit is exceeded by at most one slot for each node, until the next
round.
Everything else is as for the node's own pipe (`pipe_queue`), but a granted request starts at once, at its server.
On the fast path a request is only counted, in the `Lane` of its class and server. It becomes a `Request` if it still
runs when the next batch is made.
Costs are microseconds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from qosweb.engine.laws.service_samples import UNLIMITED, Sampler
from qosweb.engine.local.pool_outbox import PoolOutbox
from qosweb.engine.local.request_queue import WAITING_MAX, RequestQueue, decide
from qosweb.engine.local.requests import OVER, RUNNING, WAITING, Request, Start
from qosweb.engine.replicated.cost_scale import UNIT
from qosweb.engine.replicated.server_pool import MEAN_OF, ServerPool
from qosweb.engine.replicated.servers import SLOT
from qosweb.engine.replicated.slot_scheduler import most_free

if TYPE_CHECKING:
    from qosweb.engine.local.pipe_queue import PipeQueue
    from qosweb.engine.replicated.effects import SlotGranted
    from qosweb.engine.replicated.pool_batch import PoolBatch
    from qosweb.engine.replicated.servers import PoolKey
    from qosweb.webqos.policy.terms import Terms

# Of a server: its name, how many requests may be untold, free slots, requests in service, and the epoch.
Room = tuple[str, int, int, int, int]


class Lane:
    """Requests of one class at one server that started at once, and of which the pool knows nothing but `told`."""

    __slots__ = ("class_number", "cost", "ended", "in_service", "running", "server", "told", "used_us")

    def __init__(self, class_number: int, server: str) -> None:
        self.class_number = class_number
        self.server = server
        self.running = 0
        self.ended = 0  # since the last batch, of those that were not told
        self.used_us = 0  # their slot time
        self.cost = 0  # of the last one that started
        self.in_service = 1  # at the server, with the last one that started
        self.told: list[Request] = []  # one for each that runs since the last batch, whichever it is


class SlotQueue(RequestQueue):
    """The requests of one node for one pool."""

    def __init__(self, node: PipeQueue, key: PoolKey) -> None:
        """`node` is the queue for the node's own pipe."""
        self.pool = ServerPool(node.machine, key)  # replaced by `attach`
        self.outbox = PoolOutbox(node.outbox)
        super().__init__(node.me, self.pool, self.outbox, node.numbers)
        self.key = key
        self._node = node
        self._untold: dict[int, str] = {}  # the server of each running request that the pool does not know yet
        self._gone: dict[int, str] = {}  # the same of each finished request that still runs for the pool
        self._balance: Counter[str] = Counter()  # by server: untold starts, less untold ends
        self._mean_amounts: dict[int, int] = {}  # by class, if its cost is not time
        self._turn = 0  # chooses among servers that are equally free
        self._ids = {name.partition("@")[0]: name for name in key}
        # Cached until an entry is applied, or a request begins or ends to wait:
        self._opens: dict[int, tuple[bool, int]] = {}  # by class: `is_open_to`, and the cost of a request
        self._rooms: dict[str, Room] = {}  # by short name
        self._lanes: dict[tuple[int, str], Lane] = {}  # by class and short name
        self.attach()

    def attach(self) -> None:
        """The state machine has changed: find the pool in it. One that is not known yet has no servers."""
        node = self._node
        found = node.machine.servers.pools.get(self.key)
        is_old = self.pool.machine is not node.machine or self.pool.scheduler.bound is not node.machine.scheduler.bound
        if found is None and (is_old or self.pool.servers):
            found = ServerPool(node.machine, self.key)
        if found is not None:
            self.pool = self.decider = found
        self.ahead_ms, self.in_minority, self.is_draining = node.ahead_ms, node.in_minority, node.is_draining
        self.refresh()

    def refresh(self) -> None:
        super().refresh()
        self._opens.clear()
        self._rooms.clear()

    def _count_waiting(self, class_number: int, more: int) -> None:
        super()._count_waiting(class_number, more)
        self._opens.clear()

    def is_open_to(self, class_number: int) -> bool:
        return not self.pool.scheduler.bound.slot_bounds_of[class_number] and super().is_open_to(class_number)

    def terms_of(self, request: Request) -> Terms:
        return self.pool.scheduler.bound.terms[request.class_number]

    def start_at_once(self, class_number: int) -> Request | None:
        """Start a request without consulting the queue, if that is allowed."""
        name = self._free_server() if self.is_open_to(class_number) else None
        if name is None:
            return None
        return self._start(class_number, self.pool.mean_us(class_number), self._room(name))

    def start_at(self, class_number: int, name: str) -> Request | Lane | None:
        """The same at this server, named without its node. This is the fast path: it asks what is remembered.

        It ends with `finish_timed`; `request_of` makes a request of it.
        """
        opening = self._opens.get(class_number)
        if opening is None:
            is_timed = not self.pool.scheduler.bound.measures[class_number]  # this path measures nothing else
            is_open = is_timed and self.is_open_to(class_number)
            opening = self._opens[class_number] = is_open, self.pool.mean_us(class_number)
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = self._room(self._ids.get(name, ""))
        found, most, free, in_service, _ = room
        balance = self._balance[found] + 1
        if not opening[0] or balance > most:
            return None
        if balance >= free:  # a sample of the limit
            return self._start(class_number, opening[1], room)
        lane = self._lanes.get((class_number, name))
        if lane is None:
            lane = self._lanes[class_number, name] = Lane(class_number, found)
        self._balance[found] = balance
        lane.cost = opening[1]
        lane.in_service = in_service + balance
        lane.running += 1
        return lane

    def _room(self, name: str) -> Room:
        server = self.pool.scheduler.places.get(name)
        if server is None:
            return name, -WAITING_MAX, 0, 0, 0
        free, members = server.free, len(self.pool.pipes)
        most = free if members < 2 else min(free, max(1, free // members))
        return name, most, free, len(server.uses), server.epoch

    def _start(self, class_number: int, cost: int, room: Room) -> Request:
        """Start a request. Its cost is the mean of its class."""
        name, _, free, in_service, epoch = room
        request = self._tell(class_number, cost, name)
        self._balance[name] = balance = self._balance[name] + 1
        self._tag(request, epoch, in_service + balance, free <= balance)
        return request

    def _tell(self, class_number: int, cost: int, name: str) -> Request:
        """A running request that the next batch tells of."""
        number = self.numbers.next()
        request = self._own[number] = Request(number, class_number, cost)
        request.phase = RUNNING
        request.server = self._untold[number] = name
        self.outbox.started(number, class_number, cost, name)
        self._wait_estimate.count_start(class_number, cost)
        return request

    def settle(self) -> None:
        """Count what the lanes did since the last batch, and make requests of those that still run."""
        for lane in self._lanes.values():
            class_number, count = lane.class_number, lane.ended
            if count:
                self.outbox.served(class_number, count, lane.used_us)
                self._wait_estimate.count_start(class_number, count * lane.cost)
                lane.ended = lane.used_us = 0
            while len(lane.told) < lane.running:
                lane.told.append(self._tell_one_of(lane))

    def request_of(self, held: Request | Lane) -> Request:
        """The request of a start on the fast path, to be ended by `finish`."""
        if isinstance(held, Request):
            return held
        held.running -= 1
        return held.told.pop() if held.told else self._tell_one_of(held)

    def _tell_one_of(self, lane: Lane) -> Request:
        request = self._tell(lane.class_number, lane.cost, lane.server)
        self._tag(request, 0, lane.in_service, is_limited=False)
        return request

    def _free_server(self) -> str | None:
        servers = self.pool.scheduler.places
        roomy = [name for name in servers if self._may_use(name)]
        if not roomy:
            return None
        self._turn += 1
        return most_free(servers, roomy, self._turn, self._balance)

    def _may_use(self, name: str) -> bool:
        return self._balance[name] < self._room(name)[1]

    def in_service(self) -> Counter[str]:
        """Requests of this node in service, by server: the pool's count, corrected by newer events."""
        found = Counter({name: self._balance[name] for name in self.key})
        for name, server in self.pool.servers.items():
            found[name] += sum(owner == self.me for owner, _ in server.uses)
        return found

    def granted_slot(self, grant: SlotGranted) -> None:
        if self._node.is_void:
            return
        request = self._own.get(grant.number)
        if request is None or request.phase is not WAITING or self._is_late(request):
            self._gone[grant.number] = grant.server  # cancelled meanwhile, or now; the next batch says so
            self._balance[grant.server] -= 1
            if request is not None and request.phase is WAITING:
                self._expire(request)
            return
        self._waits_no_longer(request)
        self._wait_estimate.count_start(request.class_number, request.cost)
        request.phase = RUNNING
        request.server = grant.server
        self._tag(request, grant.epoch, grant.in_service, grant.is_limited)
        self.outbox.count_start(request.class_number, request.cost)
        decide(request, Start(0))

    def _tag(self, request: Request, epoch: int, in_service: int, is_limited: bool) -> None:
        sampler = self.outbox.samplers.get(request.server) or self._sampler(request.server)
        if is_limited:
            sampler.epoch = epoch
        request.tag = sampler.start(request.class_number, in_service if in_service > 0 else 1, is_limited)

    def _sampler(self, name: str) -> Sampler:
        sampler = self.outbox.samplers[name] = Sampler()
        return sampler

    def finish(
        self,
        request: Request,
        cost: int,
        until_s: float | None = None,  # noqa: ARG002
        *,
        failed: bool = False,
        withdrawn: bool = False,
        service_s: float | None = None,
        amount: int | None = None,
    ) -> None:
        """A running request has left its server after this slot time; 0: it was never sent there.

        `failed`: the server did not respond, or with an error. `withdrawn`: its client left. `service_s`: what the
        server took, if that is known to be less than the slot time. `amount`: what it cost by the measure of its class,
        if that is not time; None: the mean of its class.
        """
        if request.phase is not RUNNING:
            return
        request.phase = OVER
        sampler = self.outbox.samplers[request.server]
        if withdrawn:
            sampler.withdraw(request.class_number, request.tag)
        elif failed:
            sampler.fail(request.class_number, request.tag)
        elif cost > 0:
            sampler.end(request.class_number, cost / SLOT if service_s is None else service_s, request.tag)
        number = request.number
        del self._own[number]
        self._balance[request.server] -= 1
        was_untold = self._untold.pop(number, None) is not None
        is_told = self.outbox.cancelled(number) if cost <= 0 else True
        if cost > 0:
            amounts = self._amounts(request.class_number, amount)
            request.cost = self.pool.cost_us(request.class_number, cost, amounts)
            is_told = self.outbox.finished(number, cost, *amounts)
        if is_told and not was_untold:
            self._gone[number] = request.server

    def finish_timed(self, held: Request | Lane, cost: int, service_s: float) -> None:
        """`finish` of what `start_at` returned; the request was answered."""
        if not isinstance(held, Lane):
            self.finish(held, cost, service_s=service_s)
            return
        held.running -= 1
        if held.told:
            self.finish(held.told.pop(), cost, service_s=service_s)
            return
        name = held.server
        held.ended += 1
        held.used_us += cost
        self._balance[name] -= 1
        sampler = self.outbox.samplers.get(name) or self._sampler(name)
        sampler.end(held.class_number, service_s, (UNLIMITED, held.in_service))

    def _amounts(self, class_number: int, amount: int | None) -> tuple[int, ...]:
        if not self.pool.scheduler.bound.measures[class_number]:
            return ()
        mean = self._mean_amounts.get(class_number, UNIT if amount is None else amount)
        if amount is None:
            return (mean,)
        self._mean_amounts[class_number] = mean + (amount - mean) // MEAN_OF
        return (amount,)

    def policy_changed(self, numbers: list[int]) -> None:
        self.settle()
        self._lanes = {}  # requests of the old ones are told
        super().policy_changed(numbers)
        self._mean_amounts.clear()
        for sampler in self.outbox.samplers.values():
            sampler.forget_classes()
        self.attach()

    def untell(self) -> None:
        """A restatement is due: count all that runs until it is applied, whatever the state machine knows of it."""
        self.settle()
        self._gone.clear()
        self._untold = {one.number: one.server for one in self._own.values() if one.phase is RUNNING}
        self._balance = Counter(self._untold.values())

    def restatement(self) -> PoolBatch:
        """The batch that restates all unfinished requests."""
        self.settle()
        self.outbox.clear()
        batch = self.outbox.take(self.key)
        self.untell()
        own = list(self._own.values())
        batch.running = [(one.number, one.class_number, one.cost, one.server) for one in own if one.phase is RUNNING]
        batch.submitted = [(one.number, one.class_number, one.cost) for one in own if one.phase is WAITING]
        self._wait_estimate.forget_all_untold()
        return batch

    def on_pool_batch_applied(self, batch: PoolBatch) -> None:
        """The state machine has applied a batch of this node."""
        for _, class_number, cost in batch.submitted:
            self._wait_estimate.forget_untold(class_number, cost)
        for number, _, _, name in (*batch.running, *batch.started):
            if self._untold.pop(number, None) is None:  # finished since
                self._gone[number] = name
            self._balance[name] -= 1
        for number in (*(one[0] for one in batch.finished), *batch.cancelled):
            gone = self._gone.pop(number, None)
            if gone is not None:
                self._balance[gone] += 1
