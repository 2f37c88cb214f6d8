"""Pipe queue: starts, queues, denies or redirects each request of one node that needs a channel of a node's pipe.

A request starts at once if the pipe has room, no request waits, and no bound of its class is always enforced. The other
nodes learn of it later, in a batch. Any other request waits (`request_queue`); its grant may name another node.
Invariant: the channel of each request is released exactly once.
Above: the node.  Beside it: `slot_queue`.  Below: the state machine, through its effects and read-only access.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from qosweb.engine.local.expected_redirects import VISIT_MS, ExpectedRedirect, ExpectedRedirects
from qosweb.engine.local.request_queue import RequestNumbers, RequestQueue, decide
from qosweb.engine.local.requests import LENT, OVER, READY, RUNNING, WAITING, Decision, GoTo, Request, Start
from qosweb.engine.replicated.effects import Effect, Granted, Reserved, RestatementApplied, RestatementNeeded
from qosweb.engine.replicated.entries import UNUSED, NodeBatch, NodeRestatement
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS, ROOM, whole_channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.engine.local.outbox import BatchOutbox
    from qosweb.engine.replicated.state_machine import QosStateMachine

MUCH_MORE = 2  # times the charged cost: from there on the state machine is told at once
READY_FEW = 4  # fewer ready requests may all start at the same moment
RECLAIMED = 8  # channels taken back may exceed the pipe by 1/RECLAIMED


class PipeQueue(RequestQueue):
    """The requests of one node. `capacity_bps` is its own pipe's; `machine` is the state machine that decides now."""

    def __init__(self, me: ProcessId, machine: QosStateMachine, outbox: BatchOutbox, numbers: int = 0) -> None:
        super().__init__(me, machine, outbox, RequestNumbers(numbers))
        self.outbox = outbox
        self.capacity_bps = 0
        self.used_bps = 0  # by requests that run here now
        self._exceeding_bps = 0  # by always-available requests that started although the pipe was full
        self._lent: set[Request] = set()  # running requests that lent their channels
        self._ready: deque[Request] = deque()  # may contain requests that are no longer ready
        self._ready_cost = 0
        self._redirects = ExpectedRedirects()
        self._restates = numbers  # the last restatement, which may be pending; unique as requests are
        self._known = numbers  # the last restatement that the state machine has applied
        self.machine = machine

    @property
    def machine(self) -> QosStateMachine:
        return self._machine

    @machine.setter
    def machine(self, machine: QosStateMachine) -> None:
        self._machine = self.decider = machine

    def is_open_to(self, class_number: int) -> bool:
        """No request waits, and no bound of the class is always enforced."""
        return not self._ready and super().is_open_to(class_number)

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        for key in self._redirects.no_shows(now_ms):
            self.outbox.visited(*key, UNUSED)
        for request in self._redirects.too_late(now_ms):
            self._expire(request)

    def next_deadline_ms(self) -> int | None:
        times_ms = super().next_deadline_ms(), self._redirects.next_ms()
        return min((one for one in times_ms if one is not None), default=None)

    def policy_changed(self, numbers: list[int]) -> None:
        super().policy_changed(numbers)
        for request in self._lent:
            request.class_number = numbers[request.class_number]
        self._redirects.translate(numbers)

    def _drop(self, request: Request) -> None:
        if request.owner is None:
            super()._drop(request)
            return
        request.phase = OVER
        self._redirects.leave((request.owner, request.number))
        self.outbox.visited(request.owner, request.number, UNUSED)

    # ---- observation

    @property
    def requests(self) -> list[Request]:
        """All unfinished requests: this node's, and those redirected here."""
        return [*self._own.values(), *self._redirects.requests]

    @property
    def expected(self) -> list[tuple[ProcessId, int]]:
        """Redirected requests for which a channel is held here."""
        return self._redirects.expected

    def lasts_for(self, ms: int) -> bool:
        """The ready requests keep the pipe busy for `ms`, by its capacity."""
        return len(self._ready) >= READY_FEW and self._ready_cost * 1000 >= ms * self.capacity_bps

    # ---- requests of this node

    def start_at_once(self, class_number: int, cost: int, *, may_exceed: bool = False) -> Request | None:
        """Start a request without consulting the queue, if that is allowed.

        `may_exceed`: requests of always-available classes exceed a full pipe, by at most its capacity. Those of a class
        that is behind the others in virtual time, with nothing in the queue and nobody waiting here before it in turn,
        exceed it by at most half of that; small ones, which are soon over, by as much.
        """
        has_room = self.is_open_to(class_number) and self._has_room()
        if not (has_room or (may_exceed and self._may_exceed(class_number, cost))):
            return None
        request = Request(self.numbers.next(), class_number, cost)
        request.exceeds = not has_room
        self._own[request.number] = request
        self._run(request, self.channel_bps(class_number, cost))
        self.outbox.started(request.number, class_number, cost)
        self._wait_estimate.count_start(class_number, cost)
        return request

    def _may_exceed(self, number: int, cost: int) -> bool:
        scheduler, state, most_bps = self.machine.scheduler, self.machine.classes[number], self.capacity_bps
        bound = scheduler.bound
        if not bound.always[number]:
            is_held_back = state.waiting or self._waiting_of.get(number) or bound.buckets_of[number]
            is_behind = scheduler.weights[number] and state.virtual < scheduler.virtual
            is_small = cost * 1000 < LOOKAHEAD_MS * self.capacity_bps
            is_next = is_behind and not is_held_back and not self._has_waiting_before(number)
            most_bps = (most_bps if is_small else most_bps // 2) if is_next else 0
        is_denied = self.is_draining or (self.in_minority and bound.terms[number].in_minority == "deny")
        return self._exceeding_bps < most_bps and not is_denied

    def _has_waiting_before(self, number: int) -> bool:
        """A request waits here whose class comes before this one in turn."""
        scheduler, classes = self.machine.scheduler, self.machine.classes
        return any(
            scheduler.bound.always[at] or (scheduler.weights[at] and classes[at].virtual <= classes[number].virtual)
            for at, waiting in self._waiting_of.items()
            if waiting
        )

    def channel_bps(self, class_number: int, cost: int) -> int:
        """The rate of a channel of this class."""
        return whole_channel(self.machine.scheduler.bound.rate_bps(class_number, cost), self.capacity_bps)

    def served(self, class_number: int, count: int, cost: int) -> None:
        """Count finished requests that started at once without a call each (the fast path)."""
        self.outbox.served(class_number, count, cost)
        self._wait_estimate.count_start(class_number, cost)

    def finish(self, request: Request, cost: int, until_s: float | None = None) -> None:
        """A running request has ended with this cost; its channel is free since `until_s`, by default since now."""
        if request.phase is LENT:
            request.phase = OVER
            self._lent.discard(request)
            if cost > request.settled:
                self.outbox.served(request.class_number, 0, cost - request.settled)
        elif request.phase is RUNNING:
            request.phase = OVER
            self._release(request, max(0, cost - request.settled))
            self._start_ready(until_s)

    def _release(self, request: Request, cost: int) -> None:
        """Release the channel of a running request. `cost` is its real cost since it got the channel."""
        self._leave_pipe(request)
        request.exceeds = False
        if cost != request.cost:
            self.outbox.account(request.class_number).started_cost += cost - request.cost
        if request.owner is None:
            del self._own[request.number]
            self.outbox.finished(request.number, cost)
        else:
            self._redirects.leave((request.owner, request.number))
            self.outbox.visited(request.owner, request.number, cost)
            request.owner = None

    def lend(self, request: Request, cost: int) -> None:
        """The client of a running request does not read: release its channel. `cost` is its cost so far."""
        if request.phase is not RUNNING:
            return
        request.phase = LENT
        self._release(request, max(0, cost - request.settled))
        request.settled = max(cost, request.settled)
        self._lent.add(request)
        self._start_ready()

    def reclaim(self, request: Request, cost: int) -> bool:
        """Give a request that lent its channel another one, if there is room. `cost` is its remaining cost.

        A class that is not ahead of others in virtual time may exceed a full pipe: otherwise its responses would stand
        still although it does not get its share. The request is charged like one that starts now.
        """
        if request.phase is not LENT:
            return False
        number, scheduler = request.class_number, self.machine.scheduler
        has_room = self._has_room() and not self._ready
        is_behind = bool(scheduler.weights[number]) and self.machine.classes[number].virtual <= scheduler.virtual
        exceeds = self.used_bps * RECLAIMED >= self.capacity_bps * (RECLAIMED + 1)
        if not (has_room or scheduler.bound.always[number] or (is_behind and not exceeds)):
            return False
        self._lent.discard(request)
        request.number, request.cost = self.numbers.next(), cost
        self._own[request.number] = request
        self._run(request, self.channel_bps(number, cost))
        self.outbox.restarted(request.number, number, cost)
        self.outbox.account(number).started_cost += cost
        return True

    def resize(self, request: Request, cost: int) -> None:
        """The cost of a running request has become known. Its real cost is charged at its end in any case.

        If its class has a response time, its channel is resized to the cost. If the cost is much higher than the state
        machine was told, the state machine is informed: otherwise it would expect the channel to be free soon, and
        grant it ahead of time. To the state machine, the request ends unused and another one starts.
        """
        if request.phase is not RUNNING:
            return
        bound, number = self.machine.scheduler.bound, request.class_number
        if bound.terms[number].response_ms:
            self._leave_pipe(request)
            self._run(request, whole_channel(bound.rate_bps(number, cost), self.capacity_bps))
            self._start_ready()
        if request.owner is not None:
            return  # its channel is held under its owner's number
        if not self.outbox.recharged(request.number, cost):
            if cost < MUCH_MORE * request.cost or cost * 1000 < LOOKAHEAD_MS * request.rate_bps:
                return
            self.outbox.cancelled(request.number)
            del self._own[request.number]
            request.number = self.numbers.next()
            self._own[request.number] = request
            self.outbox.restarted(request.number, number, cost)
        self.outbox.account(number).started_cost += cost - request.cost
        request.cost = cost

    # ---- requests of other nodes, redirected here with a ticket

    def visit(
        self,
        owner: ProcessId,
        number: int,
        class_number: int,
        cost: int,
        decided: Callable[[Decision], None],
        left_ms: int | None = None,
    ) -> Request | None:
        """A redirected client has arrived, perhaps before its reservation. None: too late, its channel is gone.

        `left_ms` is the rest of its lifetime, as the redirecting node computed it: how long it may wait for room here.
        """
        if self._redirects.has_missed((owner, number)):
            return None
        request = Request(number, class_number, cost, None, decided)
        expected = self._redirects.arrive((owner, number), request)
        request.owner = owner
        request.is_visitor = True
        request.phase = READY
        if expected is not None:
            request.class_number, request.cost, request.rate_bps = (
                expected.class_number, expected.cost, expected.rate_bps,
            )  # fmt: skip
        else:
            rate_bps = self.machine.scheduler.bound.rate_bps(class_number, cost)
            request.rate_bps = whole_channel(rate_bps, self.capacity_bps)
        self._is_ready(request)
        lifetime_ms = self.machine.scheduler.bound.terms[request.class_number].lifetime_ms
        if request.phase is READY and lifetime_ms is not None:
            wait_ms = lifetime_ms if left_ms is None else min(left_ms, lifetime_ms)
            self._redirects.wait(request, self.now_ms + wait_ms)
        return request

    # ---- effects of the state machine

    def handle(self, effect: Effect, now_ms: int) -> None:
        self.now_ms = now_ms
        match effect:
            case Granted():
                self.granted(effect)
            case Reserved(owner, number, class_number, cost, rate_bps):
                self._reserved(owner, number, ExpectedRedirect(class_number, cost, rate_bps, now_ms + VISIT_MS))
            case RestatementNeeded():
                self.restate()
            case RestatementApplied(count):
                self._known = count
            case _:
                pass

    @property
    def is_void(self) -> bool:
        """A restatement is pending: the state machine will discard this node's state, so grants from it are void."""
        return self._known != self._restates

    def _reserved(self, owner: ProcessId, number: int, visit: ExpectedRedirect) -> None:
        if self.is_void or self._redirects.has_come((owner, number)):
            return
        if not self._redirects.expect((owner, number), visit):
            self.outbox.visited(owner, number, UNUSED)

    def granted(self, grant: Granted) -> None:
        if self.is_void:
            return
        number, at = grant.number, grant.at
        request = self._own.get(number)
        if request is None or request.phase is not WAITING:
            return  # cancelled meanwhile; the next batch says so
        if self._is_late(request):
            self._expire(request)
            return
        self._waits_no_longer(request)
        self._wait_estimate.count_start(request.class_number, request.cost)
        if at == self.me:
            request.phase = READY
            request.rate_bps = grant.rate_bps
            self._is_ready(request)
            return
        request.phase = OVER
        del self._own[number]
        self.outbox.account(request.class_number).redirected += 1
        left_ms = None if request.deadline_ms is None else request.deadline_ms - self.now_ms
        decide(request, GoTo(at, self.machine.pipes[at].url, grant.rate_bps, left_ms))

    def restate(self) -> None:
        """Restate all unfinished requests in the next batch, to replicas that do not know them."""
        self._restates += 1
        self.outbox.restate()
        self._redirects.expect_nobody()
        self._wait_estimate.forget_all_untold()

    def make_restatement(self) -> NodeRestatement:
        """Build the restatement of all unfinished requests. Redirected ones count as this node's own from now on."""
        for request in self._redirects.adopt():
            request.number, request.owner = self.numbers.next(), None
            self._own[request.number] = request
        own = [(one.number, one.class_number, one.cost, one.phase) for one in self._own.values()]
        return NodeRestatement(
            self._restates,
            [one[:3] for one in own if one[3] is not WAITING],
            [one[:3] for one in own if one[3] is WAITING],
        )

    def on_batch_applied(self, batch: NodeBatch) -> None:
        """The state machine has applied a batch of this node."""
        for _, class_number, cost in batch.submitted:
            self._wait_estimate.forget_untold(class_number, cost)

    def _has_room(self) -> bool:
        return self.used_bps * ROOM < self.capacity_bps * (ROOM - 1) or not self.used_bps

    def _is_ready(self, request: Request) -> None:
        self._ready.append(request)
        self._ready_cost += request.cost
        self._start_ready()

    def _start_ready(self, since_s: float | None = None) -> None:
        ready = self._ready
        while ready and self._has_room():
            request = ready.popleft()
            self._ready_cost -= request.cost
            if request.phase is not READY:
                continue
            if self._is_late(request):
                self._expire(request)
            else:
                self._run(request, request.rate_bps)
                self.outbox.count_start(request.class_number, request.cost)
                decide(request, Start(request.rate_bps, since_s))

    def capacity_changed(self, capacity_bps: int) -> None:
        self.capacity_bps = capacity_bps
        self._start_ready()

    def _run(self, request: Request, rate_bps: int) -> None:
        request.phase = RUNNING
        request.rate_bps = min(rate_bps, max(self.capacity_bps - self.used_bps, rate_bps // 2, 1))
        self.used_bps += request.rate_bps
        self._exceeding_bps += request.rate_bps * request.exceeds

    def _leave_pipe(self, request: Request) -> None:
        self.used_bps -= request.rate_bps
        self._exceeding_bps -= request.rate_bps * request.exceeds
