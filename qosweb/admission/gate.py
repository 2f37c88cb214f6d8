"""Admission gates: ask the engine about a request and turn its decision into a permit, denial or redirect.

`OpenGate` admits every request; `EngineGate` asks the QoS engine. `start` is the fast path: one list lookup. A request
that it admits needs no permit; the engine learns of it later, from the accounts. `hold` is the same for requests that
an upstream server answers: they hold a slot of it meanwhile. Every other request goes through `enter`: it starts at
once if it may, or waits here, without a task, until the engine calls back.

A request whose size is unknown at entry is charged with the mean size of such requests in its class. Every request is
charged with the bytes really sent when its permit closes.
Neighbours: `control` is the interface to servers; `engine_driver` runs the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from qosweb.admission.cost_measure import CostMeasure
from qosweb.admission.engine_driver import EngineDriver
from qosweb.admission.loop_turns import LoopTurns
from qosweb.admission.outcomes import Denial, Hold, Permit, Wait
from qosweb.engine.local.requests import Deny, GoTo, Phase, Request, Start
from qosweb.engine.replicated.servers import SLOT
from qosweb.webqos.policy.environment import REQUEST_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.admission.capacity_meter import CapacityMeter
    from qosweb.admission.class_accounts import ClassAccount, ClassAccounts
    from qosweb.admission.clock import Clock
    from qosweb.admission.facts import RequestFacts
    from qosweb.admission.outcomes import Decided, OnDecided
    from qosweb.admission.redirects import Redirects
    from qosweb.engine.engine import Engine
    from qosweb.engine.local.request_ids import RequestId
    from qosweb.engine.local.requests import Decision
    from qosweb.engine.local.slot_queue import SlotQueue

Servers = tuple[tuple[str, bool], ...]  # of one route: name, and whether all nodes share the server

MEAN_OF = 8  # weight of the exponential mean, in responses
HEAD_BYTES = 256  # default cost of a request in addition to its body, until it is measured


class SendThrottle(Protocol):
    """Limits the bytes that a process sends per second, while `is_limited`."""

    is_limited: bool

    def try_send(self, cost: int) -> bool:
        """Whether a response of this cost may be sent at once, before all that wait. If so, it is charged."""


class OpenGate:
    """Admits every request, counts those in service, and meters them."""

    def __init__(self, clock: Clock, meter: CapacityMeter) -> None:
        self.in_service = 0
        self._clock = clock
        self._meter = meter

    def start(self, account: ClassAccount, size: int) -> bool:  # noqa: ARG002
        return True

    def hold(self, account: ClassAccount, servers: Servers, name: str, now: float) -> Hold | None:  # noqa: ARG002
        """Start a request at the server `name` if it may start at once."""
        self._count_in(account)
        return Hold(account, None)

    def release(self, hold: Hold, bytes_sent: int, now: float) -> None:  # noqa: ARG002
        self.in_service -= 1
        hold.account.in_service -= 1

    def permit_for(self, hold: Hold) -> Permit:
        return Permit(self, hold.account, None, None, self._meter.enter(self._clock.read()))

    def enter(
        self,
        facts: RequestFacts,  # noqa: ARG002
        account: ClassAccount,
        size: int | None,  # noqa: ARG002
        on_decided: OnDecided,  # noqa: ARG002
        servers: Servers | None = None,  # noqa: ARG002
    ) -> Decided | Wait:
        """See `AdmissionControl.enter`."""
        self._count_in(account)
        return Permit(self, account, None, None, self._meter.enter(self._clock.read()))

    def resize(self, permit: Permit, size: int) -> None:  # noqa: ARG002
        permit.meter_mark = self._meter.restart(self._clock.read())

    def leave_server(
        self, permit: Permit, response_bytes: int = 0, *, failed: bool = False, withdrawn: bool = False
    ) -> None:
        pass

    def cost_header(self, permit: Permit) -> str | None:  # noqa: ARG002
        return None

    def pace(self, permit: Permit) -> bool:  # noqa: ARG002
        return False

    def lend(self, permit: Permit, bytes_sent: int) -> None:
        """Nothing to do: there are no channels."""

    def reclaim(self, permit: Permit, bytes_left: int) -> bool:  # noqa: ARG002
        return True

    def settle(self, permit: Permit, bytes_sent: int, *, is_sample: bool) -> None:
        self.in_service -= 1
        permit.account.in_service -= 1
        is_sample = is_sample and permit.rate_bps is None
        self._meter.leave(permit.meter_mark, bytes_sent, self._clock.read(), is_sample=is_sample)

    def _count_in(self, account: ClassAccount) -> None:
        self.in_service += 1
        account.in_service += 1


class EngineGate(OpenGate):
    """Admits requests as the engine decides."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        clock: Clock,
        meter: CapacityMeter,
        accounts: ClassAccounts,
        redirects: Redirects,
        *,
        throttle: SendThrottle | None,
        is_application: bool = False,
        log_message: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`throttle` limits the bytes that this process sends per second, if they are limited.

        `is_application`: the server of the pool is this process, so a busy event loop is part of its service times.
        """
        super().__init__(clock, meter)
        self.driver = EngineDriver(loop, engine, before_turn=self._count_fast_path, on_change=self._refresh)
        self.fixed_bytes = HEAD_BYTES
        self._engine = engine
        self._accounts = accounts
        self._redirects = redirects
        self._throttle = throttle
        self._costs = CostMeasure(log_message)
        self._turns = None if is_application else LoopTurns(loop)
        self._opens: list[bool] = []  # by class: whether a request may start on the fast path
        self._counted: dict[str, tuple[int, int]] = {}  # by class: requests and bytes that the engine knows of
        self._counted_relayed: dict[str, tuple[int, int]] = {}  # the same of requests to upstream servers
        self._means: dict[str, int] = {}  # by class: mean size of recent responses whose size was unknown at entry
        self.on_size: Callable[[ClassAccount, int], None] = _ignore_size  # of a response whose size was unknown
        self.on_answered: Callable[[ClassAccount, int], None] | None = None  # the same of a request from `hold`

    # ---- the fast path

    def start(self, account: ClassAccount, size: int) -> bool:  # noqa: ARG002
        return self._opens[account.number]

    def start_throttled(self, account: ClassAccount, size: int) -> bool:
        """`start` for a process whose sending is limited."""
        assert self._throttle is not None
        return self._opens[account.number] and self._throttle.try_send(self.fixed_bytes + size)

    @property
    def is_limited(self) -> bool:
        """Whether responses are paced."""
        return self._throttle is not None and self._throttle.is_limited

    def hold(self, account: ClassAccount, servers: Servers, name: str, now: float) -> Hold | None:
        throttle = self._throttle
        if throttle is not None and throttle.is_limited:
            return None
        queue = self._engine.slot_queues.get(servers) or self._engine.slot_queue(servers)
        request = queue.start_at(account.number, name)
        if request is None:
            return None
        self.in_service += 1
        account.in_service += 1
        turns = self._turns
        if turns is not None and not turns.is_open:
            turns.note(now)
        return Hold(account, request, queue, now)

    def release(self, hold: Hold, bytes_sent: int, now: float) -> None:
        queue, request, since, account = hold.queue, hold.request, hold.since, hold.account
        assert queue is not None
        assert request is not None
        used_us = int((now - since) * SLOT)
        turns = self._turns
        service_s = now - since if turns is None else turns.service_s(since, now)
        queue.finish_timed(request, used_us if used_us > 0 else 1, service_s)
        if self.on_answered is not None:
            self.on_answered(account, bytes_sent)
        if queue.pool.scheduler.queued:
            self.driver.poke()
        self.in_service -= 1
        account.in_service -= 1

    def permit_for(self, hold: Hold) -> Permit:
        queue = hold.queue
        assert queue is not None
        assert hold.request is not None
        self.driver.poke()
        if self.on_answered is not None:
            self.on_answered(hold.account, 0)  # the rest follows when the permit closes
        mark = self._meter.enter(self._clock.read())
        return Permit(
            self, hold.account, None, queue.request_of(hold.request), mark, fixed_bytes=self.fixed_bytes, queue=queue,
            slot_since=hold.since,
        )  # fmt: skip

    def _refresh(self) -> None:
        """Recompute which classes may start at once."""
        is_open_to = self._engine.pipe_queue.is_open_to
        self._opens = [is_open_to(number) for number in range(len(self._accounts.accounts))]

    def _count_fast_path(self) -> None:
        """Report the requests on the fast path since the last call to the engine."""
        pipe_queue = self._engine.pipe_queue
        for account in self._accounts.accounts:
            served, size = account.plain_served, account.plain_bytes
            before = self._counted.get(account.name, (0, 0))
            if served != before[0]:
                count = served - before[0]
                pipe_queue.served(account.number, count, size - before[1] + count * self.fixed_bytes)
                self._counted[account.name] = served, size
            served, size = account.relayed_served, account.relayed_bytes
            before = self._counted_relayed.get(account.name, (0, 0))
            if served != before[0]:  # their starts are counted already
                cost = (served - before[0]) * self.fixed_bytes + size - before[1]
                pipe_queue.served(account.number, 0, cost)
                self._counted_relayed[account.name] = served, size

    # ---- all other requests

    def enter(
        self,
        facts: RequestFacts,
        account: ClassAccount,
        size: int | None,
        on_decided: OnDecided,
        servers: Servers | None = None,
    ) -> Decided | Wait:
        driver, pipe_queue = self.driver, self._engine.pipe_queue
        driver.expire_overdue()
        if servers is not None:
            return self._enter_pool(facts, account, on_decided, self._engine.slot_queue(servers))
        ticket = self._redirects.check_ticket(facts)
        if ticket is not None and ticket.class_number < len(self._accounts.accounts):
            account = self._accounts.accounts[ticket.class_number]  # here the request has another host
        rid = None if ticket is None else ticket.rid
        cost = self.fixed_bytes + (self._means.get(account.name, REQUEST_BYTES) if size is None else size)
        learns_size = size is None
        if ticket is None:
            started = pipe_queue.start_at_once(account.number, cost, may_exceed=self.is_limited)
            if started is not None:
                driver.poke()
                return self._permit(account, rid, started, learns_size=learns_size)
        pending = WaitingRequest(self, facts, account, rid, on_decided, learns_size=learns_size)
        request: Request | Deny | None = None
        if ticket is not None:
            pipe_queue.now_ms = driver.now_ms()
            request = pipe_queue.visit(
                ticket.owner, ticket.number, account.number, cost, pending.on_decision, ticket.left_ms
            ) or pipe_queue.start_at_once(account.number, cost)
        if request is None:
            request = pipe_queue.submit(account.number, cost, driver.now_ms(), pending.on_decision)
        driver.poke()
        if isinstance(request, Deny):
            return _denial(request, account, rid)
        if request.phase is Phase.RUNNING:
            return self._permit(account, rid, request, learns_size=learns_size)
        self._refresh()  # a request waits now
        pending.request = request
        return pending

    def _enter_pool(
        self, facts: RequestFacts, account: ClassAccount, on_decided: OnDecided, queue: SlotQueue
    ) -> Decided | Wait:
        """Ask for a slot of an upstream server."""
        driver = self.driver
        started = queue.start_at_once(account.number)
        if started is not None:
            driver.poke()
            return self._slot_permit(account, started, queue)
        pending = WaitingRequest(self, facts, account, None, on_decided, learns_size=False, queue=queue)
        cost = queue.pool.mean_us(account.number)
        request = queue.submit(account.number, cost, driver.now_ms(), pending.on_decision)
        driver.poke()
        if isinstance(request, Deny):
            return _denial(request, account, None)
        pending.request = request
        return pending

    def _slot_permit(self, account: ClassAccount, request: Request, queue: SlotQueue) -> Permit:
        self._count_in(account)
        now = self._clock.read()
        if self._turns is not None:
            self._turns.note(now)
        pipe_queue = self._engine.pipe_queue
        rate_bps = pipe_queue.channel_bps(account.number, self.fixed_bytes) if self.is_limited else None
        mark = self._meter.enter(now)
        return Permit(
            self, account, None, request, mark, rate_bps=rate_bps, fixed_bytes=self.fixed_bytes, queue=queue,
            slot_since=now,
        )  # fmt: skip

    def leave_server(
        self, permit: Permit, response_bytes: int = 0, *, failed: bool = False, withdrawn: bool = False
    ) -> None:
        queue, request = permit.queue, permit.request
        assert queue is not None
        assert request is not None
        if request.phase is Phase.RUNNING:
            now, since = self._clock.read(), permit.slot_since
            queue.now_ms = self.driver.now_ms()
            queue.finish(
                request, max(1, int((now - since) * SLOT)), failed=failed, withdrawn=withdrawn,
                service_s=self._service_s(since, now),
                amount=self._costs.amount(
                    permit.account.name, queue.terms_of(request), self.fixed_bytes + response_bytes, permit.stated_costs
                ),
            )  # fmt: skip
            permit.work_s = request.cost / SLOT
            self.driver.poke()

    def cost_header(self, permit: Permit) -> str | None:
        queue, request = permit.queue, permit.request
        return None if queue is None or request is None else queue.terms_of(request).cost_header

    def _service_s(self, since: float, now: float) -> float:
        return now - since if self._turns is None else self._turns.service_s(since, now)

    def outcome(self, pending: WaitingRequest, request: Request, decision: Decision) -> Decided:
        """The outcome of a decision of the engine for a request that waited."""
        match decision:
            case Start() if pending.queue is not None:
                return self._slot_permit(pending.account, request, pending.queue)
            case Start():
                return self._permit(pending.account, pending.rid, request, learns_size=pending.learns_size)
            case GoTo():
                return self._redirects.send(pending.facts, request.number, pending.account, pending.rid, decision)
            case Deny():
                return _denial(decision, pending.account, pending.rid)

    def _permit(
        self,
        account: ClassAccount,
        rid: RequestId | None,
        request: Request,
        *,
        learns_size: bool,
    ) -> Permit:
        self._count_in(account)
        return Permit(
            self,
            account,
            rid,
            request,
            self._meter.enter(self._clock.read()),
            rate_bps=request.rate_bps if self.is_limited else None,
            fixed_bytes=self.fixed_bytes,
            learns_size=learns_size,
        )

    def schedule_delivery(self, pending: WaitingRequest) -> float:
        """The engine has decided: schedule the delivery. Returns the time of the decision."""
        self.driver.deliver(pending.deliver)
        return self._clock.read()

    def cancel(self, request: Request, of_pool: SlotQueue | None) -> None:
        """Cancel a request that has not started, perhaps just after the engine decided."""
        queue = of_pool or self._engine.pipe_queue
        queue.now_ms = self.driver.now_ms()  # the request that starts next may be late already
        queue.cancel(request)
        self.driver.poke()

    def resize(self, permit: Permit, size: int) -> None:
        super().resize(permit, size)
        if permit.queue is not None:
            return
        request = permit.request
        assert request is not None
        self._engine.pipe_queue.resize(request, self.fixed_bytes + size)
        if permit.rate_bps is not None:
            permit.rate_bps = request.rate_bps

    def pace(self, permit: Permit) -> bool:
        if permit.queue is not None or permit.request is None:
            return False
        permit.rate_bps = permit.request.rate_bps
        return True

    def lend(self, permit: Permit, bytes_sent: int) -> None:
        if permit.queue is not None:
            return  # it has no channel of the pipe
        assert permit.request is not None
        pipe_queue = self._engine.pipe_queue
        pipe_queue.now_ms = self.driver.now_ms()  # the request that starts next may be late already
        pipe_queue.lend(permit.request, self.fixed_bytes + bytes_sent)
        self.driver.poke()

    def reclaim(self, permit: Permit, bytes_left: int) -> bool:
        if permit.queue is not None:
            return True
        assert permit.request is not None
        has_channel = self._engine.pipe_queue.reclaim(permit.request, max(1, bytes_left))
        if has_channel:
            permit.rate_bps = permit.request.rate_bps
            self.driver.poke()
        return has_channel

    def settle(self, permit: Permit, bytes_sent: int, *, is_sample: bool) -> None:
        request = permit.request
        assert request is not None
        pipe_queue = self._engine.pipe_queue
        if permit.queue is not None:
            # If it has not left: the application has finished it, or it was not forwarded, or no longer is.
            self.leave_server(permit, bytes_sent, withdrawn=self._turns is not None or not is_sample)
            pipe_queue.served(permit.account.number, 0, self.fixed_bytes + bytes_sent)  # the node has sent it
            self.on_size(permit.account, bytes_sent)
            super().settle(permit, bytes_sent, is_sample=False)
            return
        pipe_queue.now_ms = self.driver.now_ms()  # the request that starts next may be late already
        pipe_queue.finish(request, self.fixed_bytes + bytes_sent)
        if permit.learns_size:
            name = permit.account.name
            mean = self._means.get(name, bytes_sent)
            self._means[name] = mean + (bytes_sent - mean) // MEAN_OF
            self.on_size(permit.account, bytes_sent)
        self.driver.poke()
        super().settle(permit, bytes_sent, is_sample=is_sample)


class WaitingRequest(Wait):
    """A queued request: the engine has not decided yet."""

    __slots__ = ("_at", "_decision", "_gate", "_on_decided", "facts", "learns_size", "queue", "request")

    def __init__(
        self,
        gate: EngineGate,
        facts: RequestFacts,
        account: ClassAccount,
        rid: RequestId | None,
        on_decided: OnDecided,
        *,
        learns_size: bool,
        queue: SlotQueue | None = None,
    ) -> None:
        super().__init__(account, rid)
        self.queue = queue  # of the upstream servers, if it waits for one
        self.facts = facts
        self.learns_size = learns_size
        self.request: Request | None = None  # set once it is queued
        self._gate = gate
        self._on_decided: OnDecided | None = on_decided
        self._decision: Decision | None = None
        self._at = 0.0

    def on_decision(self, decision: Decision) -> None:
        """Called by the engine."""
        if self.request is not None:  # otherwise the engine decided at once, and `enter` returns the outcome
            self._decision = decision
            self._at = self._gate.schedule_delivery(self)

    def deliver(self) -> None:
        on_decided, self._on_decided = self._on_decided, None
        if on_decided is None:
            return  # cancelled before the delivery
        assert self.request is not None
        assert self._decision is not None
        on_decided(self._gate.outcome(self, self.request, self._decision), self._at)

    def cancel(self) -> None:
        if self._on_decided is not None and self.request is not None:
            self._on_decided = None
            self._gate.cancel(self.request, self.queue)


def _ignore_size(account: ClassAccount, size: int) -> None:
    """Default of `on_size`."""


def _denial(decision: Deny, account: ClassAccount, rid: RequestId | None) -> Denial:
    account.reasons[decision.reason] += 1
    return Denial(
        account,
        rid,
        status=429 if decision.is_of_client else 503,
        fields=(("Retry-After", str(max(1, decision.retry_s))), ("QoS-Decision", f"denied; reason={decision.reason}")),
        text=f"The request was not served. {decision.because}",
        reason=decision.reason,
        decision="expired" if decision.is_expired else "denied",
    )
