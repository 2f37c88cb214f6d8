"""Requests of one node that wait for one resource: their deadlines and denials.

Their order is decided in `qosweb.engine.replicated.fair_queueing`; subclasses decide which requests run.

A request is submitted to the cluster's queue and waits for a grant, its deadline, or its client's disconnection. The
node's own clock enforces the deadline, whatever the group does. A request that would not be granted in time is denied
on arrival.
No clock and no sockets: times are arguments, decisions are callbacks, and the engine asks for batches.
Invariant: each request gets exactly one decision.
Neighbours: `pipe_queue` for the nodes' pipes, `slot_queue` for upstream servers.  Below: the state machine, read-only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

import msgspec

from qosweb.engine.local import requests as r
from qosweb.engine.local.requests import LENT, OVER, READY, RUNNING, WAITING, Decision, Deny, Request
from qosweb.engine.local.wait_estimate import WaitEstimate, patience_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.engine.local.wait_estimate import Decider
    from qosweb.engine.replicated.classes import Totals

WAITING_MAX = 20_000  # waiting requests of one node
ALWAYS_MAX = 20_000  # more of always-available classes; the limit only protects memory
RETRY_MAX_S = 60
DEADLINES_OLD_MAX = 1_000  # stale deadlines, of requests that no longer wait
SLACK_MS = 50  # half of the time in which an empty token bucket fills


class QueueOutbox(Protocol):
    """Collects the events of a queue until the next batch."""

    def account(self, class_number: int) -> Totals: ...
    def denied(self, class_number: int, cost: int) -> None: ...
    def submitted(self, number: int, class_number: int, cost: int) -> None: ...
    def cancelled(self, number: int) -> bool: ...
    def translate(self, numbers: list[int]) -> None: ...


class RequestNumbers:
    """Numbers of one node's requests. None is used twice, not even after a restart of the node."""

    __slots__ = ("_last",)

    def __init__(self, last: int) -> None:
        self._last = last

    def next(self) -> int:
        self._last += 1
        return self._last


class RequestQueue(ABC):
    """The requests of one node for one resource. `decider` is the part of the state machine that decides now."""

    def __init__(self, me: ProcessId, decider: Decider, pending: QueueOutbox, numbers: RequestNumbers) -> None:
        self.me = me
        self.decider = decider
        self.is_draining = False
        self.now_ms = 0  # by the node's clock, at the last call
        self.ahead_ms = 0  # cluster time minus the node's time
        self.in_minority = False
        self._pending = pending
        self.numbers = numbers
        self._own: dict[int, Request] = {}  # all unfinished requests of this node
        self._waiting = 0
        self._waiting_of: dict[int, int] = {}  # by class
        self._deadlines: list[tuple[int, int]] = []  # when, number
        self._wait_estimate = WaitEstimate()
        self._is_contended = False

    @abstractmethod
    def finish(self, request: Request, cost: int, until_s: float | None = None) -> None:
        """A running request has ended with this cost; its channel or slot is free since `until_s` (default: now)."""

    def has_untold(self, class_number: int) -> bool:
        """A request of this class waits here that the state machine does not know yet."""
        return self._wait_estimate.has_untold(class_number)

    def is_open_to(self, class_number: int) -> bool:
        """No request waits, and no bound of the class is always enforced."""
        return not (
            self._is_contended
            or (self._waiting and self.waits_for_room)
            or self.is_draining
            or self.decider.scheduler.buckets_of[class_number]
            or (self.in_minority and self.decider.scheduler.bound.terms[class_number].in_minority == "deny")
        )

    @property
    def requests(self) -> list[Request]:
        """All unfinished requests."""
        return list(self._own.values())

    @property
    def waiting(self) -> int:
        """Waiting requests of this node."""
        return self._waiting

    @property
    def waits_for_room(self) -> bool:
        """A request here waits for a channel, and not only for tokens of its class."""
        buckets_of = self.decider.scheduler.buckets_of
        return any(waiting and not buckets_of[number] for number, waiting in self._waiting_of.items())

    def submit(self, class_number: int, cost: int, now_ms: int, decided: Callable[[Decision], None]) -> Request | Deny:
        """Queue a request: the decision comes through `decided`; a denial may be returned at once."""
        self.now_ms = now_ms
        denial = self._refusal(class_number)
        if denial is not None:
            self._pending.denied(class_number, cost)
            return denial
        lifetime_ms = self.decider.scheduler.bound.terms[class_number].lifetime_ms
        deadline_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        request = Request(self.numbers.next(), class_number, cost, deadline_ms, decided)
        self._own[request.number] = request
        self._count_waiting(class_number, 1)
        if deadline_ms is not None:
            heappush(self._deadlines, (deadline_ms, request.number))
        self._wait_estimate.submitted(class_number, cost)
        self._pending.submitted(request.number, class_number, cost)
        return request

    def _count_waiting(self, class_number: int, more: int) -> None:
        self._waiting += more
        self._waiting_of[class_number] = self._waiting_of.get(class_number, 0) + more

    def _waits_no_longer(self, request: Request) -> None:
        self._count_waiting(request.class_number, -1)
        self._wait_estimate.left(request.class_number, request.cost)

    def cancel(self, request: Request) -> None:
        """The client disconnected or gave up."""
        if request.phase is RUNNING or request.phase is LENT:
            self.finish(request, 0)
        elif request.phase is not OVER:
            self._drop(request)

    def _expire(self, request: Request) -> None:
        throttled_by = self._client_bound(request.class_number, request) if request.phase is WAITING else None
        self._drop(request)
        machine, number = self.decider, request.class_number
        scheduler = machine.scheduler
        because = f"The request waited for the whole lifetime of class {machine.classes[number].name}"
        now_ms = max(machine.time_ms, self.now_ms + self.ahead_ms)
        for at in scheduler.buckets_of[number] if throttled_by is None else (throttled_by,):
            if at == throttled_by or scheduler.buckets[at].level_at(scheduler.bound.rules[at], now_ms) <= 0:
                denial = self._over_bound(at, f"{because}, and the class is", 1)
                decide(request, msgspec.structs.replace(denial, is_expired=True))
                return
        decide(request, Deny(r.EXPIRED, f"{because}.", 1, is_expired=True))

    def _client_bound(self, class_number: int, expired: Request | None = None) -> int | None:
        """The bound on the client whose tokens are all needed for the requests before this one; None: there is none.

        For a request that has expired, the tokens at its deadline count, without those of the last SLACK_MS: they may
        have come too late to be granted.
        """
        machine, now_ms, slack_ms = self.decider, self.now_ms, 0
        if expired is not None and expired.deadline_ms is not None:
            now_ms, slack_ms = min(now_ms, expired.deadline_ms), SLACK_MS
        scheduler, classes = machine.scheduler, machine.classes
        for at in scheduler.buckets_of[class_number]:
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
        rule = self.decider.scheduler.bound.rules[at]
        text = self.decider.policy.model.constraints[rule.constraint].text
        reason = r.CLIENT_BOUND if rule.of_client else r.OVER_BOUND
        return Deny(reason, f"{who} over a bound ({text}).", retry_s, is_of_client=rule.of_client)

    def cut_off(self) -> None:
        """This node decides alone from now on: deny waiting requests of classes that a minority does not serve."""
        if not self.in_minority:
            return
        machine = self.decider
        for request in list(self._own.values()):
            denies = machine.scheduler.bound.terms[request.class_number].in_minority == "deny"
            if denies and request.phase in (WAITING, READY):
                self._drop(request)
                decide(request, _cut_off(machine.classes[request.class_number].name))

    def _is_late(self, request: Request) -> bool:
        return request.deadline_ms is not None and request.deadline_ms <= self.now_ms

    def _may_expire(self, number: int) -> bool:
        request = self._own.get(number)
        return request is not None and (request.phase is WAITING or request.phase is READY)

    def refresh(self) -> None:
        """The state machine has applied an entry, or was replaced."""
        self._is_contended = self.decider.is_contended
        self._wait_estimate.machine_changed()

    def _refusal(self, class_number: int) -> Deny | None:
        machine = self.decider
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

    def tick(self, now_ms: int) -> None:
        """Expire the requests whose deadlines have passed."""
        self.now_ms = now_ms
        self._wait_estimate.advance(now_ms)
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number = heappop(self._deadlines)
            if self._may_expire(number):
                self._expire(self._own[number])

    def next_deadline_ms(self) -> int | None:
        """A lower bound: the first deadline may belong to a request that no longer waits."""
        if len(self._deadlines) > 2 * len(self._own) + DEADLINES_OLD_MAX:
            self._deadlines = [one for one in self._deadlines if self._may_expire(one[1])]
            heapify(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def policy_changed(self, numbers: list[int]) -> None:
        """Translate class numbers after a change of policy."""
        waiting_of, self._waiting_of = self._waiting_of, {}
        for number, waiting in waiting_of.items():
            self._waiting_of[numbers[number]] = self._waiting_of.get(numbers[number], 0) + waiting
        for request in self._own.values():
            request.class_number = numbers[request.class_number]
        self._wait_estimate.translate(numbers)
        self._pending.translate(numbers)

    def _drop(self, request: Request) -> None:
        """End a request that has not started."""
        if request.phase is WAITING:
            self._waits_no_longer(request)
        request.phase = OVER
        del self._own[request.number]
        self._pending.account(request.class_number).cancelled += not request.is_visitor
        if not self._pending.cancelled(request.number):
            self._wait_estimate.forget_untold(request.class_number, request.cost)


def _cut_off(name: str) -> Deny:
    return Deny(r.MINORITY, f"This node is cut off from its cluster; class {name} is not served outside it.", 5)


def decide(request: Request, decision: Decision) -> None:
    decided, request.decided = request.decided, None
    if decided is not None:
        decided(decision)
