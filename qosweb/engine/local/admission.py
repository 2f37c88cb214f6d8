"""The node's side of the engine: its requests, its pipe, and what it has to tell the others.

A request starts at once where the pipe has room, nobody waits, and no bound of its class is always enforced; the others
hear of it later, in a batch. Any other is submitted, and waits for a grant, its deadline, or its client's end. A
deadline is kept by this node's own clock, whatever the group does.
Neither clock nor sockets: times are arguments, decisions are calls, batches are asked for.
Invariant: each request gets exactly one decision, and what it held is given back exactly once.
Above: the node.  Below: the machine, here by its effects and to look at.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.local import requests as r
from qosweb.engine.local.expected_redirects import VISIT_MS, ExpectedRedirect, ExpectedRedirects
from qosweb.engine.local.requests import OVER, READY, RUNNING, WAITING, Decision, Deny, GoTo, Request, Start
from qosweb.engine.local.wait_estimate import WaitEstimate, patience_ms
from qosweb.engine.replicated.effects import Effect, Granted, Reserved, RestatementApplied, RestatementNeeded
from qosweb.engine.replicated.entries import UNUSED, NodeBatch, NodeRestatement
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS, ROOM, whole_channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.engine.local.outbox import BatchOutbox
    from qosweb.engine.replicated.state_machine import QosStateMachine

WAITING_MAX = 20_000  # requests of one node that may wait,
ALWAYS_MAX = 20_000  # and so many more of what is always available: beyond that it is memory that is lacking
RETRY_MAX_S = 60
DEADLINES_OLD_MAX = 1_000  # of requests that no longer wait
MUCH_MORE = 2  # times the cost that was charged, from which on the machine hears of it at once
SLACK_MS = 50  # half of the time in which an empty token bucket fills
READY_FEW = 4  # fewer that are ready may all start at one moment


class Admission:
    """One node's requests. `capacity_bps` is that of its own pipe; `state_machine` the one that decides now.

    Their numbers begin after `numbers`: none may be used twice, also not by another life of the same node.
    """

    def __init__(self, me: ProcessId, machine: QosStateMachine, outbox: BatchOutbox, numbers: int = 0) -> None:
        self.me = me
        self.machine = machine
        self.outbox = outbox
        self.capacity_bps = 0
        self.used_bps = 0  # by what runs here now
        self.is_draining = False
        self.now_ms = 0  # by the node's clock, as far as it was told
        self.ahead_ms = 0  # the cluster's time less the node's
        self.in_minority = False
        self._numbers = numbers
        self._own: dict[int, Request] = {}  # all that are not over
        self._waiting = 0
        self._waiting_of: dict[int, int] = {}  # by class
        self._ready: deque[Request] = deque()  # and some that no longer are
        self._ready_cost = 0
        self._deadlines: list[tuple[int, int]] = []  # when, number
        self._visitors = ExpectedRedirects()
        self._outlook = WaitEstimate()
        self._is_contended = False
        self._restates = 0  # how often everything was said anew, or is to be
        self._known = 0  # the last of them that the machine has applied

    # ---- what can be seen

    @property
    def requests(self) -> list[Request]:
        """All that are not over: ours, and of others who came here."""
        return [*self._own.values(), *self._visitors.requests]

    @property
    def expected(self) -> list[tuple[ProcessId, int]]:
        """For whom a channel is held here."""
        return self._visitors.expected

    def lasts_for(self, ms: int) -> bool:
        """What is ready to start keeps the pipe busy for so long, by its capacity."""
        return len(self._ready) >= READY_FEW and self._ready_cost * 1000 >= ms * self.capacity_bps

    def has_untold(self, class_number: int) -> bool:
        """Somebody of this class waits here of whom the machine does not know."""
        return self._outlook.has_untold(class_number)

    # ---- requests of this node

    def start_at_once(self, class_number: int, cost: int) -> Request | None:
        """A request that may start without asking anybody."""
        if not self.is_open_to(class_number) or not self._has_room():
            return None
        self._numbers += 1
        request = Request(self._numbers, class_number, cost)
        self._own[request.number] = request
        rate_bps = self.machine.scheduler.bound.rate_bps(class_number, cost)
        self._run(request, whole_channel(rate_bps, self.capacity_bps))
        self.outbox.started(request.number, class_number, cost)
        self._outlook.began(class_number, cost)
        return request

    def served(self, class_number: int, count: int, cost: int) -> None:
        """So many started at once without being asked for one by one, and are over."""
        self.outbox.served(class_number, count, cost)
        self._outlook.began(class_number, cost)

    def is_open_to(self, class_number: int) -> bool:
        """Nobody waits, and the class has no bound that is always enforced."""
        return not (
            self._is_contended
            or (self._waiting and self._waits_for_room())
            or self._ready
            or self.is_draining
            or self.machine.scheduler.bound.buckets_of[class_number]
            or (self.in_minority and self.machine.scheduler.bound.terms[class_number].in_minority == "deny")
        )

    def _waits_for_room(self) -> bool:
        """Somebody here waits, and not for tokens of its own alone."""
        buckets_of = self.machine.scheduler.bound.buckets_of
        return any(waiting and not buckets_of[number] for number, waiting in self._waiting_of.items())

    def submit(self, class_number: int, cost: int, now_ms: int, decided: Callable[[Decision], None]) -> Request | Deny:
        """A request that has to wait: the decision comes by `decided`, or now if it is no already."""
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
        self._outlook.submitted(class_number, cost)
        self.outbox.submitted(request.number, class_number, cost)
        return request

    def _count_waiting(self, class_number: int, more: int) -> None:
        self._waiting += more
        self._waiting_of[class_number] = self._waiting_of.get(class_number, 0) + more

    def _waits_no_longer(self, request: Request) -> None:
        self._count_waiting(request.class_number, -1)
        self._outlook.left(request.class_number, request.cost)

    def finish(self, request: Request, cost: int, until_s: float | None = None) -> None:
        """It ran, and is over; it cost so much, and its channel is free since then, if not just now."""
        if request.phase is not RUNNING:
            return
        request.phase = OVER
        self.used_bps -= request.rate_bps
        if cost != request.cost:
            self.outbox.account(request.class_number).started_cost += cost - request.cost
        if request.owner is None:
            del self._own[request.number]
            self.outbox.finished(request.number, cost)
        else:
            self._visitors.leave((request.owner, request.number))
            self.outbox.visited(request.owner, request.number, cost)
        self._start_ready(until_s)

    def resize(self, request: Request, cost: int) -> None:
        """The cost of a running request has become known. What it really costs is charged at its end in any case.

        Where its class has a response time, its channel follows the cost. The machine hears of a cost that is much
        higher than it was told: it would take the channel for free soon, and grant it to others ahead of time. For the
        machine the request ends unused then, and another one starts.
        """
        if request.phase is not RUNNING:
            return
        bound, number = self.machine.scheduler.bound, request.class_number
        if bound.terms[number].response_ms:
            used_by_others_bps = self.used_bps - request.rate_bps
            self.used_bps = used_by_others_bps
            self._run(request, whole_channel(bound.rate_bps(number, cost), self.capacity_bps))
            self._start_ready()
        if request.owner is not None:
            return  # its channel is held under a number of its owner
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
        """Its client is gone, or it gave up, before it ran."""
        if request.phase is RUNNING:
            self.finish(request, 0)
        elif request.phase is not OVER:
            self._drop(request)

    def tick(self, now_ms: int) -> None:
        """Deadlines."""
        self.now_ms = now_ms
        self._outlook.advance(now_ms)
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number = heappop(self._deadlines)
            if self._may_expire(number):
                self._expire(self._own[number])
        for key in self._visitors.no_shows(now_ms):
            self.outbox.visited(*key, UNUSED)
        for request in self._visitors.too_late(now_ms):
            self._expire(request)

    def _expire(self, request: Request) -> None:
        throttled_by = self._client_bound(request.class_number, request) if request.phase is WAITING else None
        self._drop(request)
        machine, number = self.machine, request.class_number
        scheduler = machine.scheduler
        because = f"It waited for as long as class {machine.classes[number].name} may"
        now_ms = max(machine.time_ms, self.now_ms + self.ahead_ms)
        for at in scheduler.bound.buckets_of[number] if throttled_by is None else (throttled_by,):
            if at == throttled_by or scheduler.buckets[at].level_at(scheduler.bound.rules[at], now_ms) <= 0:
                denial = self._over_bound(at, f"{because}, which is", 1)
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
        """Denied because of a bound that holds whether or not others want the capacity."""
        rule = self.machine.scheduler.bound.rules[at]
        text = self.machine.law.model.constraints[rule.constraint].text
        reason = r.CLIENT_BOUND if rule.of_client else r.OVER_BOUND
        return Deny(reason, f"{who} over a bound ({text}).", retry_s, is_of_client=rule.of_client)

    def cut_off(self) -> None:
        """This node decides alone from now on: what is not to be served then waits for nothing."""
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
        """Or earlier: the first deadline may be that of a request which no longer waits."""
        if len(self._deadlines) > 2 * len(self._own) + DEADLINES_OLD_MAX:
            self._deadlines = [one for one in self._deadlines if self._may_expire(one[1])]
            heapify(self._deadlines)
        first_ms = self._deadlines[0][0] if self._deadlines else None
        visitor_ms = self._visitors.next_ms()
        return min((one for one in (first_ms, visitor_ms) if one is not None), default=None)

    def _may_expire(self, number: int) -> bool:
        request = self._own.get(number)
        return request is not None and (request.phase is WAITING or request.phase is READY)

    # ---- requests of others, sent here with a ticket

    def visit(
        self,
        owner: ProcessId,
        number: int,
        class_number: int,
        cost: int,
        decided: Callable[[Decision], None],
        left_ms: int | None = None,
    ) -> Request | None:
        """The client has come. (It may be faster than the word that it will.) None: too late, its channel is gone.

        `left_ms` is what the node that sent it left of its lifetime: what it may wait for room here.
        """
        if self._visitors.has_missed((owner, number)):
            return None
        request = Request(number, class_number, cost, None, decided)
        expected = self._visitors.arrive((owner, number), request)
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
            self._visitors.wait(request, self.now_ms + wait_ms)
        return request

    # ---- what the machine says

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
        """What the machine knows of this node is about to be forgotten, with all that it grants by it."""
        return self._known != self._restates

    def _reserved(self, owner: ProcessId, number: int, visit: ExpectedRedirect) -> None:
        if self._is_void or self._visitors.has_come((owner, number)):
            return
        if not self._visitors.expect((owner, number), visit):
            self.outbox.visited(owner, number, UNUSED)

    def granted(self, grant: Granted) -> None:
        if self._is_void:
            return
        number, at = grant.number, grant.at
        request = self._own.get(number)
        if request is None or request.phase is not WAITING:
            return  # it was given up meanwhile, which the others will hear
        if self._is_late(request):
            self._expire(request)
            return
        self._waits_no_longer(request)
        self._outlook.began(request.class_number, request.cost)
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
        """Say with the next batch everything that is not over, to those who know nothing of it."""
        self._restates += 1
        self.outbox.restate()
        self._visitors.expect_nobody()
        self._outlook.all_told()

    def restated(self) -> NodeRestatement:
        """Everything that is not over. Visitors count as our own from now on."""
        for request in self._visitors.adopt():
            self._numbers += 1
            request.number, request.owner = self._numbers, None
            self._own[request.number] = request
        own = [(one.number, one.class_number, one.cost, one.phase) for one in self._own.values()]
        return NodeRestatement(
            self._restates,
            [one[:3] for one in own if one[3] is not WAITING],
            [one[:3] for one in own if one[3] is WAITING],
        )

    def told(self, batch: NodeBatch) -> None:
        """The machine has applied a batch of ours."""
        for _, class_number, cost in batch.submitted:
            self._outlook.told(class_number, cost)

    def policy_changed(self, numbers: list[int]) -> None:
        """Classes have other numbers from now on."""
        waiting_of, self._waiting_of = self._waiting_of, {}
        for number, waiting in waiting_of.items():
            self._waiting_of[numbers[number]] = self._waiting_of.get(numbers[number], 0) + waiting
        for request in self._own.values():
            request.class_number = numbers[request.class_number]
        self._visitors.translate(numbers)
        self._outlook.translate(numbers)
        self.outbox.translate(numbers)

    def refresh(self) -> None:
        """The machine has applied something, or is another one."""
        self._is_contended = self.machine.is_contended
        self._outlook.machine_changed()

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
                self.outbox.began(request.class_number, request.cost)
                _decide(request, Start(request.rate_bps, since_s))

    def capacity_changed(self, capacity_bps: int) -> None:
        self.capacity_bps = capacity_bps
        self._start_ready()

    def _run(self, request: Request, rate_bps: int) -> None:
        request.phase = RUNNING
        request.rate_bps = min(rate_bps, max(self.capacity_bps - self.used_bps, rate_bps // 2, 1))
        self.used_bps += request.rate_bps

    def _drop(self, request: Request) -> None:
        if request.phase is WAITING:
            self._waits_no_longer(request)
        request.phase = OVER
        if request.owner is None:
            del self._own[request.number]
            self.outbox.account(request.class_number).cancelled += not request.is_visitor
            if not self.outbox.cancelled(request.number):
                self._outlook.told(request.class_number, request.cost)
        else:
            self._visitors.leave((request.owner, request.number))
            self.outbox.visited(request.owner, request.number, UNUSED)

    # ---- early denial

    def _refusal(self, class_number: int) -> Deny | None:
        machine = self.machine
        terms = machine.scheduler.bound.terms[class_number]
        if self.in_minority and terms.in_minority == "deny":
            return _cut_off(machine.classes[class_number].name)
        if self.is_draining:
            return Deny(r.DRAINING, "This node is about to stop.", 1)
        if self._waiting >= WAITING_MAX + ALWAYS_MAX * terms.always:
            if (at := self._client_bound(class_number)) is not None:
                return self._over_bound(at, f"Class {machine.classes[class_number].name} is", 1)
            return Deny(r.FULL, f"{self._waiting} requests wait at this node already.", 1)
        lifetime_ms = terms.lifetime_ms
        if terms.always or lifetime_ms is None:
            return None
        wait_ms, at = self._outlook.wait(machine, class_number, self.now_ms + self.ahead_ms)
        if wait_ms < lifetime_ms // 2:
            return None  # patience is no less
        patience = patience_ms(lifetime_ms, machine)
        if wait_ms > patience:
            name = machine.classes[class_number].name
            retry_s = min(RETRY_MAX_S, -(-(wait_ms - patience) // 1000))
            throttled_by = self._client_bound(class_number)
            if (at := at if throttled_by is None else throttled_by) is not None:
                return self._over_bound(at, f"Class {name} is", retry_s)
            return Deny(r.TOO_FAR, f"Class {name} is over its share; what waits before it takes longer.", retry_s)
        return None


def _cut_off(name: str) -> Deny:
    return Deny(r.MINORITY, f"This node is cut off from its cluster, where class {name} is not served.", 5)


def _decide(request: Request, decision: Decision) -> None:
    decided, request.decided = request.decided, None
    if decided is not None:
        decided(decision)
