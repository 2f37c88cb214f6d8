"""Processor queue: while the processor is full, requests wait here for their turns, in the order of their classes.

While it `queues_all`, no request starts when it arrives, except one for an upstream server in a class that is alone
(`AdmissionControl`). Each turn of the event loop answers a few of those that wait; then
sockets are read again, so that requests wait here and not in the kernel, where nothing can order them. A request is
denied when its lifetime has ended. It is denied on arrival only if WAITING_MAX requests wait: a denial costs nearly as
much as a small page, so that early denials would take the time of answers.

This node orders the queue alone; the shares are those of the replicated policy, for the classes with requests in the
last ACTIVE_S, each of which wants all it can get. The node's next batch reports the served
bytes of each class, as always.
Neighbours: `qosweb.engine.laws.saturation` decides when requests wait, `qosweb.engine.local.turn_order` which one is
next; `control` is the caller.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from qosweb.admission.loop_busy_time import LoopBusyTime
from qosweb.admission.outcomes import Denial, Wait
from qosweb.admission.resources import ProcessorShortage
from qosweb.engine.laws.saturation import WINDOW_S, SaturationLaw
from qosweb.engine.local.active_weights import ActiveWeights
from qosweb.engine.local.requests import EXPIRED, FULL
from qosweb.engine.local.turn_order import TurnOrder
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qosweb.admission.class_accounts import ClassAccount, ClassAccounts
    from qosweb.admission.clock import Clock
    from qosweb.admission.facts import RequestFacts
    from qosweb.admission.gate import EngineGate, Servers
    from qosweb.admission.outcomes import Decided, OnDecided
    from qosweb.engine.engine import Engine
    from qosweb.engine.local.turn_order import Turn, TurnClass
    from qosweb.engine.replicated.bound_policy import BoundPolicy

WAITING_MAX = 20_000
ACTIVE_S = 1.0
SHARES_EVERY_S = 0.1
CREDIT_S = 0.05
TURN_COST = 256  # of a request in addition to its body, for shares
RETRY_S = 1
SHORT_S = 0.02  # the processor is short if requests wait for this time, not only for a turn or two
GAP_S = 0.005  # without requests, which ends that: clients in a closed loop leave shorter gaps


class ProcessorQueue:
    """One per process that has a policy. `on_switch` is called when requests begin to be held, and when that ends."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        accounts: ClassAccounts,
        clock: Clock,
        on_switch: Callable[[], None],
    ) -> None:
        self.law = SaturationLaw()
        self.order = TurnOrder()
        self.is_full = False  # the processor
        self.queues_all = False  # requests have to wait for their turns
        self.switches = 0  # how often the processor became full
        self._connections: Callable[[], int] = lambda: 0
        self._after_turn: Callable[[float], None] = lambda _began: None
        self._loop = loop
        self._engine = engine
        self._accounts = accounts
        self._clock = clock
        self._on_switch = on_switch
        self._busy = LoopBusyTime()
        self._runs = False
        self._waiting_since = self._turn_at = -inf
        self._shares_at = -inf
        self._weights = ActiveWeights()
        self._alone: tuple[ClassAccount, TurnClass] | None = None  # no other class has had requests since this one

    def start(self, connections: Callable[[], int], after_turn: Callable[[float], None]) -> None:
        """Watch the processor from now on.

        `connections` counts those that are open; `after_turn` is called after each turn, with the time when it began.
        """
        self._connections = connections
        self._after_turn = after_turn
        self._clock.watch(self.check)

    def shortage(self) -> ProcessorShortage | None:
        """None: requests do not wait for the processor, or not for long."""
        now = self._clock.read()
        if now < self._waiting_since + SHORT_S or (not self._runs and now > self._turn_at + GAP_S):
            return None
        return ProcessorShortage(int(self.law.capacity_per_s), self.order.waiting)

    def close(self) -> None:
        self._busy.close()

    def check(self, now: float) -> float:
        """Look at the last window. Returns when to look again."""
        law, order = self.law, self.order
        is_shared = self._connections() > 1
        law.observe(now, self._busy.read_s(), order.work, is_shared=is_shared, waiting=order.waiting)
        if law.is_saturated != self.is_full:
            self.is_full = self.queues_all = law.is_saturated
            self.switches += self.is_full
            self._shares_at = -inf
            self._on_switch()
        if self.is_full:
            order.credit = CREDIT_S * law.capacity_per_s
            if now >= self._shares_at:
                self._refresh(now)
        return now + WINDOW_S

    # ---- requests

    def submit(self, account: ClassAccount, request: Turn, now: float) -> bool:
        """Let a request wait for its turn. False: too many wait."""
        order = self.order
        chosen = order.classes.get(account.name)
        if chosen is None:
            chosen = order.class_of(account.name)
            chosen.came_at = now
            self._refresh(now)
        if self._alone is not None and self._alone[1] is not chosen:
            self._alone = None
        if order.waiting >= WAITING_MAX:
            return False
        order.add(chosen, request, now)
        if not self._runs:
            self._runs = True
            if now > self._turn_at + GAP_S:
                self._waiting_since = now
            self._loop.call_soon(self._run)
        return True

    def is_alone(self, account: ClassAccount, now: float) -> bool:
        """Whether no other class has had requests lately: then a request of this class need not wait for its turn."""
        if self._alone is not None and self._alone[0] is account:
            self._alone[1].came_at = now
            return True
        self._alone = None
        classes = self.order.classes
        chosen = classes.get(account.name)
        if chosen is None:
            chosen = self.order.class_of(account.name)
            self._refresh(now)
        chosen.came_at = now
        since = now - ACTIVE_S
        if any(one.queue or one.came_at > since for one in classes.values() if one is not chosen):
            return False
        self._alone = account, chosen
        return True

    def enter(
        self,
        gate: EngineGate,
        facts: RequestFacts,
        account: ClassAccount,
        size: int | None,
        on_decided: OnDecided,
        servers: Servers | None,
    ) -> Decided | Wait:
        """`AdmissionControl.enter` while requests are held: the gate is asked when the turn has come."""
        request = ProcessorWait(self, gate, facts, account, size, on_decided, servers)
        if self.submit(account, request, self._clock.read()):
            return request
        return self.denial(account, FULL)

    def charge(self, account: ClassAccount, size: int) -> None:
        """Charge the body of a response whose size was unknown when its turn came."""
        if self.is_full:
            self.order.charge(account.name, size)

    def charge_answered(self, account: ClassAccount, size: int) -> None:
        """Charge a request that had no turn, because its class `is_alone`, or because the processor was not full."""
        if self.is_full:
            self.order.charge(account.name, TURN_COST + size)

    def denial(self, account: ClassAccount, reason: str) -> Denial:
        """Count a denial. Its response depends on nothing but class and reason."""
        account.reasons[reason] += 1
        self._engine.outbox.denied(account.number, TURN_COST)
        because = f"The request waited for the whole lifetime of class {account.name}."
        if reason == FULL:
            because = "Too many requests wait at this node."
        return Denial(
            account,
            None,
            status=503,
            fields=(("Retry-After", str(RETRY_S)), ("QoS-Decision", f"denied; reason={reason}")),
            text=f"The request was not served. {because}",
            reason=reason,
            decision="expired" if reason == EXPIRED else "denied",
        )

    def _run(self) -> None:
        now = self._clock.read()
        self._turn_at = now
        order = self.order
        try:
            order.run(now)
        finally:
            self._after_turn(now)
            self._runs = order.waiting > 0
            if self._runs:
                self._loop.call_soon(self._run)

    # ---- shares

    def _refresh(self, now: float) -> None:
        """Set weights and lifetimes for the classes that are active."""
        self._shares_at = now + SHARES_EVERY_S
        bound = self._engine.machine.scheduler.bound
        by_name = self.order.classes
        known = {one.name: one.number for one in self._accounts.accounts if one.name in by_name}
        active = tuple(
            sorted(known[name] for name, one in by_name.items() if name in known and one.came_at > now - ACTIVE_S)
        )
        weights = dict(zip(active, self._weights.of(active, bound), strict=True))
        for name, one in by_name.items():
            if name in known:
                self._set_terms(one, bound, known[name], weights.get(known[name]))
            else:
                one.set_weight(0.0)  # of an earlier policy

    @staticmethod
    def _set_terms(one: TurnClass, bound: BoundPolicy, number: int, weight_ppm: int | None) -> None:
        one.set_weight(None if bound.always[number] else (weight_ppm or bound.guaranteed[number]) / PPM)
        lifetime_ms = bound.terms[number].lifetime_ms
        one.lifetime_s = inf if lifetime_ms is None else lifetime_ms / 1000


class ProcessorWait(Wait):
    """A request outside the fast path that waits for its turn, and then perhaps for the engine."""

    __slots__ = ("_facts", "_gate", "_inner", "_on_decided", "_processor", "_servers", "_size", "deadline")

    def __init__(
        self,
        processor: ProcessorQueue,
        gate: EngineGate,
        facts: RequestFacts,
        account: ClassAccount,
        size: int | None,
        on_decided: OnDecided,
        servers: Servers | None,
    ) -> None:
        super().__init__(account, None)
        self.deadline = 0.0
        self._processor = processor
        self._gate = gate
        self._facts = facts
        self._size = size
        self._servers = servers
        self._on_decided: OnDecided | None = on_decided
        self._inner: Wait | None = None  # once it waits for the engine

    def take_turn(self, now: float) -> int:
        on_decided = self._on_decided
        if on_decided is None:
            return 0
        entered = self._gate.enter(self._facts, self.account, self._size, self._decide, self._servers)
        if isinstance(entered, Wait):
            self._inner = entered
        else:
            self._decide(entered, now)
        return TURN_COST + (self._size or 0)

    def miss_turn(self, now: float) -> None:
        if self._on_decided is not None:
            self._decide(self._processor.denial(self.account, EXPIRED), now)

    def _decide(self, decided: Decided, at: float) -> None:
        on_decided, self._on_decided = self._on_decided, None
        if on_decided is not None:
            on_decided(decided, at)

    def cancel(self) -> None:
        self._on_decided = None
        if self._inner is not None:
            self._inner.cancel()
