"""Local queue: starts, queues, denies or redirects each request of one node.

A request starts at once if the pipe has room, no request waits, and no bound of its class is always enforced. The other
nodes learn of it later, in a batch. Any other request is submitted to the cluster's queue and waits for a grant, its
deadline, or its client's disconnection. The node's own clock enforces the deadline, whatever the group does.
No clock and no sockets: times are arguments, decisions are callbacks, and the engine asks for batches.
Invariant: each request gets exactly one decision, and its channel is released exactly once.
Above: the node.  Below: the state machine, through its effects and read-only access.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.local import requests as r
from qosweb.engine.local.expected_redirects import VISIT_MS, ExpectedRedirect, ExpectedRedirects
from qosweb.engine.local.requests import LENT, OVER, READY, RUNNING, WAITING, Decision, Deny, GoTo, Request, Start
from qosweb.engine.local.untold_requests import UntoldRequests
from qosweb.engine.local.wait_estimate import WaitEstimate, patience_ms
from qosweb.engine.replicated.effects import Effect, Granted, Reserved, RestatementApplied, RestatementNeeded
from qosweb.engine.replicated.entries import UNUSED, NodeBatch, NodeRestatement
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS, ROOM, whole_channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.engine.local.outbox import BatchOutbox
    from qosweb.engine.replicated.state_machine import QosStateMachine

WAITING_MAX = 20_000  # waiting requests of one node
ALWAYS_MAX = 20_000  # more of always-available classes; the limit only protects memory
RETRY_MAX_S = 60
DEADLINES_OLD_MAX = 1_000  # stale deadlines, of requests that no longer wait
MUCH_MORE = 2  # times the charged cost: from there on the state machine is told at once
SLACK_MS = 50  # half of the time in which an empty token bucket fills
READY_FEW = 4  # fewer ready requests may all start at the same moment
RECLAIMED = 8  # channels taken back may exceed the pipe by 1/RECLAIMED


class LocalQueue:
    """The requests of one node. `capacity_bps` is its own pipe's; `machine` is the state machine that decides now.

    Request numbers start after `numbers`. No number may be used twice, not even after a restart of the node.
    """

    def __init__(self, me: ProcessId, machine: QosStateMachine, outbox: BatchOutbox, numbers: int = 0) -> None:
        self.me = me
        self.machine = machine
        self.outbox = outbox
        self.capacity_bps = 0
        self.used_bps = 0  # by requests that run here now
        self._exceeding_bps = 0  # by always-available requests that started although the pipe was full
        self.is_draining = False
        self.now_ms = 0  # by the node's clock, at the last call
        self.ahead_ms = 0  # cluster time minus the node's time
        self.in_minority = False
        self._numbers = numbers
        self._own: dict[int, Request] = {}  # all unfinished requests of this node but those below
        self._untold = UntoldRequests()
        self._lent: set[Request] = set()  # running requests that lent their channels
        self._waiting = 0
        self._waiting_of: dict[int, int] = {}  # by class
        self._ready: deque[Request] = deque()  # may contain requests that are no longer ready
        self._ready_cost = 0
        self._deadlines: list[tuple[int, int]] = []  # when, number
        self._redirects = ExpectedRedirects()
        self._wait_estimate = WaitEstimate()
        self._is_contended = False
        self._restates = 0  # restatements so far, including the pending one
        self._known = 0  # the last restatement that the state machine has applied

    # ---- observation

    @property
    def requests(self) -> list[Request]:
        """All unfinished requests: this node's, and those redirected here."""
        return [*self._own.values(), *self._untold.running, *self._redirects.requests]

    @property
    def expected(self) -> list[tuple[ProcessId, int]]:
        """Redirected requests for which a channel is held here."""
        return self._redirects.expected

    def lasts_for(self, ms: int) -> bool:
        """The ready requests keep the pipe busy for `ms`, by its capacity."""
        return len(self._ready) >= READY_FEW and self._ready_cost * 1000 >= ms * self.capacity_bps

    def has_untold(self, class_number: int) -> bool:
        """A request of this class waits here that the state machine does not know yet."""
        return self._wait_estimate.has_untold(class_number)

    # ---- requests of this node

    def start_at_once(self, class_number: int, cost: int, *, may_exceed: bool = False) -> Request | None:
        """Start a request without consulting the queue, if that is allowed.

        `may_exceed`: requests of always-available classes exceed a full pipe, by at most its capacity.
        """
        has_room = self.is_open_to(class_number) and self._has_room()
        if not (has_room or (may_exceed and self._may_exceed(class_number))):
            return None
        self._numbers += 1
        request = Request(self._numbers, class_number, cost)
        request.exceeds = not has_room
        self._own[request.number] = request
        rate_bps = self.machine.scheduler.bound.rate_bps(class_number, cost)
        self._run(request, whole_channel(rate_bps, self.capacity_bps))
        self.outbox.started(request.number, class_number, cost)
        self._wait_estimate.count_start(class_number, cost)
        return request

    def hold(self, class_number: int, cost: int) -> Request | None:
        """Start a request of the fast path that takes time: it holds a channel until `finish`. None: no room.
        The caller has asked `is_open_to`."""
        if not self._has_room():
            return None
        request = Request(0, class_number, cost)
        self._untold.running[request] = None
        rate_bps = self._untold.channel_bps(self.machine.scheduler.bound, class_number, cost, self.capacity_bps)
        self._run(request, rate_bps)
        return request

    def tell_held(self) -> None:
        """Tell the other nodes of all requests that hold a channel: the room for others has become scarce."""
        for request in list(self._untold.running):
            self.tell(request)

    def tell(self, request: Request) -> None:
        """Tell the other nodes of a request that holds a channel, as of every other that runs here."""
        if request not in self._untold.running:
            return
        del self._untold.running[request]
        self._numbers += 1
        request.number = self._numbers
        self._own[request.number] = request
        self.outbox.started(request.number, request.class_number, request.cost)
        self._wait_estimate.count_start(request.class_number, request.cost)

    def served(self, class_number: int, count: int, cost: int) -> None:
        """Count finished requests that started at once without a call each (the fast path)."""
        self.outbox.served(class_number, count, cost)
        self._wait_estimate.count_start(class_number, cost)

    def is_open_to(self, class_number: int) -> bool:
        """No request waits, and no bound of the class is always enforced."""
        return not (
            self._is_contended
            or (self._waiting and self._waits_for_room())
            or self._ready
            or self.is_draining
            or self.machine.scheduler.bound.buckets_of[class_number]
            or (self.in_minority and self.machine.scheduler.bound.terms[class_number].in_minority == "deny")
        )

    def _may_exceed(self, class_number: int) -> bool:
        bound = self.machine.scheduler.bound
        if not bound.always[class_number] or self.is_draining or self._exceeding_bps >= self.capacity_bps:
            return False
        return not (self.in_minority and bound.terms[class_number].in_minority == "deny")

    def _waits_for_room(self) -> bool:
        """A request here waits for a channel, and not only for tokens of its class."""
        buckets_of = self.machine.scheduler.bound.buckets_of
        return any(waiting and not buckets_of[number] for number, waiting in self._waiting_of.items())

    def submit(self, class_number: int, cost: int, now_ms: int, decided: Callable[[Decision], None]) -> Request | Deny:
        """Queue a request: the decision comes through `decided`; a denial may be returned at once."""
        self.now_ms = now_ms
        denial = self._refusal(class_number)
        if denial is not None:
            self.outbox.denied(class_number, cost)
            return denial
        lifetime_ms = self.machine.scheduler.bound.terms[class_number].lifetime_ms
        self._numbers += 1
        deadline_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        request = self._own[self._numbers] = Request(self._numbers, class_number, cost, deadline_ms, decided)
        self._count_waiting(class_number, 1)
        if deadline_ms is not None:
            heappush(self._deadlines, (deadline_ms, request.number))
        self._wait_estimate.submitted(class_number, cost)
        self.outbox.submitted(request.number, class_number, cost)
        return request

    def _count_waiting(self, class_number: int, more: int) -> None:
        self._waiting += more
        self._waiting_of[class_number] = self._waiting_of.get(class_number, 0) + more

    def _waits_no_longer(self, request: Request) -> None:
        self._count_waiting(request.class_number, -1)
        self._wait_estimate.left(request.class_number, request.cost)

    def finish(self, request: Request, cost: int, until_s: float | None = None) -> None:
        """A running request has ended with this cost; its channel is free since `until_s`, by default since now."""
        phase = request.phase
        if phase is LENT:
            request.phase = OVER
            self._lent.discard(request)
            if cost > request.settled:
                self.outbox.served(request.class_number, 0, cost - request.settled)
        elif phase is RUNNING:
            request.phase = OVER
            if request in self._untold.running:
                self._leave_pipe(request)
                self._untold.end(request, cost)
                if self._ready:
                    self._start_ready(until_s)
                return
            self._release(request, max(0, cost - request.settled))
            self._start_ready(until_s)

    def _release(self, request: Request, cost: int) -> None:
        """Release the channel of a running request. `cost` is what it really cost since it got the channel."""
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
        """The client of a running request does not read: release its channel. `cost` is what it has cost so far."""
        if request.phase is not RUNNING:
            return
        self.tell(request)
        request.phase = LENT
        self._release(request, max(0, cost - request.settled))
        request.settled = max(cost, request.settled)
        self._lent.add(request)
        self._start_ready()

    def reclaim(self, request: Request, cost: int) -> bool:
        """Give a request that lent its channel another one, if there is room. `cost` is what it will still cost.

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
        self._numbers += 1
        request.number, request.cost = self._numbers, cost
        self._own[request.number] = request
        self._run(request, whole_channel(scheduler.bound.rate_bps(number, cost), self.capacity_bps))
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
        self.tell(request)
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
            self._numbers += 1
            request.number = self._numbers
            self._own[request.number] = request
            self.outbox.restarted(request.number, number, cost)
        self.outbox.account(number).started_cost += cost - request.cost
        request.cost = cost

    def cancel(self, request: Request) -> None:
        """The client disconnected or gave up."""
        if request.phase is RUNNING or request.phase is LENT:
            self.finish(request, 0)
        elif request.phase is not OVER:
            self._drop(request)

    def tick(self, now_ms: int) -> None:
        """Expire what is past its deadline."""
        self.now_ms = now_ms
        for ended in self._untold.take_ended():
            self.served(*ended)
        self._wait_estimate.advance(now_ms)
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number = heappop(self._deadlines)
            if self._may_expire(number):
                self._expire(self._own[number])
        for key in self._redirects.no_shows(now_ms):
            self.outbox.visited(*key, UNUSED)
        for request in self._redirects.too_late(now_ms):
            self._expire(request)

    def _expire(self, request: Request) -> None:
        throttled_by = self._client_bound(request.class_number, request) if request.phase is WAITING else None
        self._drop(request)
        machine, number = self.machine, request.class_number
        scheduler = machine.scheduler
        because = f"The request waited for the whole lifetime of class {machine.classes[number].name}"
        now_ms = max(machine.time_ms, self.now_ms + self.ahead_ms)
        for at in scheduler.bound.buckets_of[number] if throttled_by is None else (throttled_by,):
            if at == throttled_by or scheduler.buckets[at].level_at(scheduler.bound.rules[at], now_ms) <= 0:
                denial = self._over_bound(at, f"{because}, and the class is", 1)
                _decide(request, msgspec.structs.replace(denial, is_expired=True))
                return
        _decide(request, Deny(r.EXPIRED, f"{because}.", 1, is_expired=True))

    def _client_bound(self, class_number: int, expired: Request | None = None) -> int | None:
        """The bound on the client whose tokens are all needed for the requests before this one; None: there is none.

        For a request that has expired, the tokens at its deadline count, without those of the last SLACK_MS: they may
        have come too late to be granted.
        """
        machine, now_ms, slack_ms = self.machine, self.now_ms, 0
        if expired is not None and expired.deadline_ms is not None:
            now_ms, slack_ms = min(now_ms, expired.deadline_ms), SLACK_MS
        scheduler, classes = machine.scheduler, machine.classes
        for at in scheduler.bound.buckets_of[class_number]:
            rule = scheduler.bound.rules[at]
            if not rule.of_client:
                continue
            requests = sum(max(classes[one].waiting, self._waiting_of.get(one, 0)) for one in rule.classes)
            cost = sum(classes[one].waiting_cost for one in rule.classes)
            if expired is not None:
                requests, cost = requests - 1, max(0, cost - expired.cost)
            level = scheduler.buckets[at].level_at(rule, now_ms + self.ahead_ms)
            if level - 1000 * rule.price(requests, cost) <= slack_ms * rule.rate_per_s:
                return at
        return None

    def _over_bound(self, at: int, who: str, retry_s: int) -> Deny:
        """A denial because of a bound that is always enforced."""
        rule = self.machine.scheduler.bound.rules[at]
        text = self.machine.policy.model.constraints[rule.constraint].text
        reason = r.CLIENT_BOUND if rule.of_client else r.OVER_BOUND
        return Deny(reason, f"{who} over a bound ({text}).", retry_s, is_of_client=rule.of_client)

    def cut_off(self) -> None:
        """This node decides alone from now on: deny waiting requests of classes that a minority does not serve."""
        if not self.in_minority:
            return
        machine = self.machine
        for request in list(self._own.values()):
            denies = machine.scheduler.bound.terms[request.class_number].in_minority == "deny"
            if denies and request.phase in (WAITING, READY):
                self._drop(request)
                _decide(request, _cut_off(machine.classes[request.class_number].name))

    def _is_late(self, request: Request) -> bool:
        return request.deadline_ms is not None and request.deadline_ms <= self.now_ms

    def next_deadline_ms(self) -> int | None:
        """A lower bound: the first deadline may belong to a request that no longer waits."""
        if len(self._deadlines) > 2 * len(self._own) + DEADLINES_OLD_MAX:
            self._deadlines = [one for one in self._deadlines if self._may_expire(one[1])]
            heapify(self._deadlines)
        first_ms = self._deadlines[0][0] if self._deadlines else None
        visitor_ms = self._redirects.next_ms()
        return min((one for one in (first_ms, visitor_ms) if one is not None), default=None)

    def _may_expire(self, number: int) -> bool:
        request = self._own.get(number)
        return request is not None and (request.phase is WAITING or request.phase is READY)

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
    def _is_void(self) -> bool:
        """A restatement is pending: the state machine will discard this node's state, so grants from it are void."""
        return self._known != self._restates

    def _reserved(self, owner: ProcessId, number: int, visit: ExpectedRedirect) -> None:
        if self._is_void or self._redirects.has_come((owner, number)):
            return
        if not self._redirects.expect((owner, number), visit):
            self.outbox.visited(owner, number, UNUSED)

    def granted(self, grant: Granted) -> None:
        if self._is_void:
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
        _decide(request, GoTo(at, self.machine.pipes[at].url, grant.rate_bps, left_ms))

    def restate(self) -> None:
        """Restate all unfinished requests in the next batch, to replicas that do not know them."""
        self._restates += 1
        self.outbox.restate()
        self._redirects.expect_nobody()
        self._wait_estimate.forget_all_untold()

    def make_restatement(self) -> NodeRestatement:
        """Build the restatement of all unfinished requests. Redirected ones count as this node's own from now on."""
        for request in self._redirects.adopt():
            self._numbers += 1
            request.number, request.owner = self._numbers, None
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

    def policy_changed(self, numbers: list[int]) -> None:
        """Translate class numbers after a change of policy."""
        self._untold.translate(numbers)
        waiting_of, self._waiting_of = self._waiting_of, {}
        for number, waiting in waiting_of.items():
            self._waiting_of[numbers[number]] = self._waiting_of.get(numbers[number], 0) + waiting
        for request in (*self._own.values(), *self._lent):
            request.class_number = numbers[request.class_number]
        self._redirects.translate(numbers)
        self._wait_estimate.translate(numbers)
        self.outbox.translate(numbers)

    def refresh(self) -> None:
        """The state machine has applied an entry, or was replaced."""
        self._is_contended = self.machine.is_contended
        self._wait_estimate.machine_changed()

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
                _decide(request, Start(request.rate_bps, since_s))

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

    def _drop(self, request: Request) -> None:
        if request.phase is WAITING:
            self._waits_no_longer(request)
        request.phase = OVER
        if request.owner is None:
            del self._own[request.number]
            self.outbox.account(request.class_number).cancelled += not request.is_visitor
            if not self.outbox.cancelled(request.number):
                self._wait_estimate.forget_untold(request.class_number, request.cost)
        else:
            self._redirects.leave((request.owner, request.number))
            self.outbox.visited(request.owner, request.number, UNUSED)

    # ---- early denial

    def _refusal(self, class_number: int) -> Deny | None:
        machine = self.machine
        terms = machine.scheduler.bound.terms[class_number]
        if self.in_minority and terms.in_minority == "deny":
            return _cut_off(machine.classes[class_number].name)
        if self.is_draining:
            return Deny(r.DRAINING, "This node is shutting down.", 1)
        if self._waiting >= WAITING_MAX + ALWAYS_MAX * terms.always:
            if (at := self._client_bound(class_number)) is not None:
                return self._over_bound(at, f"Class {machine.classes[class_number].name} is", 1)
            return Deny(r.FULL, f"The queue of this node is full: {self._waiting} requests wait.", 1)
        lifetime_ms = terms.lifetime_ms
        if terms.always or lifetime_ms is None:
            return None
        wait_ms, at = self._wait_estimate.wait(machine, class_number, self.now_ms + self.ahead_ms)
        if wait_ms < lifetime_ms // 2:
            return None  # the usable part of a lifetime is at least that
        patience = patience_ms(lifetime_ms, machine)
        if wait_ms > patience:
            name = machine.classes[class_number].name
            retry_s = min(RETRY_MAX_S, -(-(wait_ms - patience) // 1000))
            throttled_by = self._client_bound(class_number)
            if (at := at if throttled_by is None else throttled_by) is not None:
                return self._over_bound(at, f"Class {name} is", retry_s)
            return Deny(r.TOO_FAR, f"Class {name} is over its share; the wait would exceed its lifetime.", retry_s)
        return None


def _cut_off(name: str) -> Deny:
    return Deny(r.MINORITY, f"This node is cut off from its cluster; class {name} is not served outside it.", 5)


def _decide(request: Request, decision: Decision) -> None:
    decided, request.decided = request.decided, None
    if decided is not None:
        decided(decision)
