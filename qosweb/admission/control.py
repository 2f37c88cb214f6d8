"""Admission control: the interface between a server and the QoS engine.

A server describes a request by `RequestFacts` and asks three things, in this order:

    account = control.classify(facts, now)
    outcome = control.enter(facts, account, on_decided, size=size)
    permit.close(bytes_sent)

`enter` returns a `Permit`, a `Denial`, a `Redirect` or `Forward` to another node, or a `Wait`. After a `Wait`,
`on_decided` follows with one of the others, unless the wait is cancelled. A server with a fast path calls `start`
instead: if it returns True, the request counts as served, and the server adds it to the account of its class
(`plain_served`, `bytes_sent`). For a request of the fast path that an upstream server answers it calls `hold`, with the
servers of its route and the one of them to use; `release` ends it, with the bytes that were sent. If such a request
turns out to need more, `permit_for` makes a permit of it.

Without a policy every request may start. A process on its own is a cluster of one; a member of a cluster joins the
driver to its group (`driver.join_group`) and opens redirects (`open_redirects`).
Above: `qosweb.server`, `qosweb.middleware`.  Below: `gate`, `qosweb.engine`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cluster.names import ProcessId
from qosweb.admission.capacity_meter import CapacityMeter
from qosweb.admission.capacity_report import CapacityReporter
from qosweb.admission.class_accounts import ClassAccounts
from qosweb.admission.classifier import Classifier
from qosweb.admission.gate import HEAD_BYTES, EngineGate, OpenGate
from qosweb.admission.processor_queue import ProcessorQueue
from qosweb.admission.redirects import Redirects
from qosweb.admission.resources import pool_name, resources_of
from qosweb.engine.engine import Engine
from qosweb.engine.local.active_weights import ActiveWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from cluster.names import View
    from qosweb.admission.class_accounts import ClassAccount
    from qosweb.admission.clock import Clock
    from qosweb.admission.engine_driver import EngineDriver
    from qosweb.admission.facts import HeadFacts, RequestFacts
    from qosweb.admission.gate import SendThrottle, Servers
    from qosweb.admission.outcomes import Decided, Hold, OnDecided, Permit, Wait
    from qosweb.admission.resources import ResourceState
    from qosweb.engine.engine import EngineListener
    from qosweb.engine.local.request_ids import RequestId
    from qosweb.engine.local.send_order import SendAccount
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.effects import EntryRejected, Reported, UpstreamsReported
    from qosweb.webqos.policy.environment import Environment


class AdmissionControl:
    """One per process. Needs the event loop on which all its methods are called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        policy: CompiledPolicy | None,
        *,
        name: str,
        capacity_bps: int | None,
        throttle: SendThrottle | None = None,
        is_member: bool = False,
        life: int = 0,
        index: str = "index.html",
        finds_processor: bool = False,
        is_application: bool = False,
        listener: EngineListener | None = None,
        log_message: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`policy` None: everything is admitted, and there is no engine. `capacity_bps` None: it is measured.

        `throttle`: responses are paced, each to at least the rate of its channel (`Permit.rate_bps`). `is_member` and
        `life` are those of `Engine`. `index` is the page of a directory. `finds_processor`:
        requests wait for their turns while the processor is full. `is_application`: the server of the only pool is
        this process, not one behind it. `listener` gets the events of the engine after
        admission control has handled them; `log_message` prints a line for the operator.
        """
        self._clock = clock
        self._index = index
        self._listener = listener
        self.engine: Engine | None = None
        self.driver: EngineDriver | None = None
        self.meter = CapacityMeter(capacity_bps)
        self.redirects = Redirects(log_message)
        self.accounts = ClassAccounts(self._classifier(policy))
        self._reporter: CapacityReporter | None = None
        self._weights = ActiveWeights()
        self._gate: OpenGate
        self.processor: ProcessorQueue | None = None
        if policy is None:
            self._gate = OpenGate(clock, self.meter)
        else:
            self.engine = Engine(ProcessId(name), policy, self, is_member=is_member, life=life)
            gate = EngineGate(
                loop, self.engine, clock, self.meter, self.accounts, self.redirects, throttle=throttle,
                is_application=is_application, log_message=log_message,
            )  # fmt: skip
            self._gate = gate
            self.driver = gate.driver
            self._reporter = CapacityReporter(gate.driver, self.meter, clock)
            if finds_processor:
                self.processor = ProcessorQueue(loop, self.engine, self.accounts, clock, self.refresh_limit)
                gate.on_size = self.processor.charge
                gate.on_answered = self.processor.charge_answered
        # The fast path: whether a request of this class with a response of this size may start now; see above. (An
        # attribute saves a call.)
        self.start: Callable[[ClassAccount, int], bool] = self._gate.start
        self.start_in_turn = self.start  # of a request whose turn has come, if the processor is full
        self.hold: Callable[[ClassAccount, Servers, str, float], Hold | None] = self._gate.hold
        self.refresh_limit()
        self.release: Callable[[Hold, int, float], None] = self._gate.release

    # ---- requests

    def classify(self, facts: RequestFacts, now: float) -> ClassAccount:
        return self.accounts.of(facts, now)

    def classify_page(self, host: str, path: str) -> ClassAccount | None:
        """The account of the class of every request for this page; None if the page alone does not decide."""
        return self.accounts.of_page(host, path)

    def classify_head(self, facts: HeadFacts) -> ClassAccount | None:
        """The account of the class of every request with this head, for the fast path; None: classify each request."""
        return self.accounts.of_head(facts)

    @property
    def needs_file(self) -> bool:
        """Whether the policy has rules on files: then the file has to be looked up before the request is classified."""
        return self.accounts.classifier.needs_file

    def record_access(self, facts: RequestFacts, now: float) -> None:
        """Record a request for conditions on earlier requests; see `Classifier.record_access`."""
        self.accounts.classifier.record_access(facts, now)

    def enter(
        self,
        facts: RequestFacts,
        account: ClassAccount,
        on_decided: OnDecided,
        *,
        size: int | None = None,
        servers: Servers | None = None,
    ) -> Decided | Wait:
        """Ask to start a request. `size` is that of the response body; None: unknown, the class's mean is charged.

        `servers`: the request is for one of these upstream servers, by name; the flag tells whether all nodes share it.
        Its permit names the server. `on_decided` is called later, only if this returns a `Wait`.
        """
        if self.processor is not None and self.processor.queues_all and isinstance(self._gate, EngineGate):
            return self.processor.enter(self._gate, facts, account, size, on_decided, servers)
        return self._gate.enter(facts, account, size, on_decided, servers)

    def pool_name(self, servers: Servers) -> str:
        """The name of the pool of these servers; empty if there is no engine."""
        return "" if self.engine is None else pool_name(self.engine.slot_queue(servers).key)

    def permit_for(self, hold: Hold) -> Permit:
        """Turn ``hold`` into a permit, which ends it instead of `release`."""
        return self._gate.permit_for(hold)

    def lifetime_s(self, account: ClassAccount) -> float | None:
        """How long a request of this class may wait; None: without limit."""
        if self.engine is None:
            return None
        lifetime_ms = self.engine.machine.scheduler.bound.terms[account.number].lifetime_ms
        return None if lifetime_ms is None else lifetime_ms / 1000

    def refresh_limit(self) -> None:
        """Choose `start` and `hold` for the present state: sending is free or paced, or the processor is full."""
        gate = self._gate
        is_limited = isinstance(gate, EngineGate) and gate.is_limited
        self.start_in_turn = gate.start_throttled if is_limited and isinstance(gate, EngineGate) else gate.start
        if self.processor is not None and self.processor.queues_all:
            self.start, self.hold = _start_nothing, self._hold_alone
        else:
            self.start, self.hold = self.start_in_turn, gate.hold

    def _hold_alone(self, account: ClassAccount, servers: Servers, name: str, now: float) -> Hold | None:
        """`hold` while the processor is full: only a class that is alone need not wait for its turns."""
        processor = self.processor
        assert processor is not None
        if not processor.is_alone(account, now):
            return None
        return self._gate.hold(account, servers, name, now)

    def enter_in_turn(self, run: Callable[[], None]) -> None:
        """Call ``run``, which handles one request whose turn has come: it is not held again."""
        processor = self.processor
        assert processor is not None
        processor.queues_all = False
        self.refresh_limit()
        try:
            run()
        finally:
            processor.queues_all = processor.is_full
            self.refresh_limit()

    def send_weights(self, accounts: Sequence[SendAccount]) -> Sequence[int | None]:
        """The weights of these classes while exactly they can send; see `active_weights`."""
        if self.engine is None:
            return [0] * len(accounts)
        return self._weights.of(tuple([one.number for one in accounts]), self.engine.machine.scheduler.bound)

    @property
    def in_service(self) -> int:
        """Number of open permits."""
        return self._gate.in_service

    # ---- policy and cluster

    def change_policy(self, policy: CompiledPolicy) -> None:
        """Change the policy of the whole cluster, at one position of its order; see `Engine.change_policy`."""
        assert self.engine is not None
        assert self.driver is not None
        self.engine.change_policy(policy)
        self.driver.turn()

    def open_redirects(self, cluster_key: bytes, next_rid: Callable[[], RequestId]) -> None:
        """Allow redirects: the node is a member of a cluster. `next_rid` makes request ids."""
        assert self.engine is not None
        self.redirects.open(self.engine, cluster_key, next_rid)

    # ---- capacity

    async def sample_load(self) -> None:
        """Sample the load of the machine. Call it about once a second."""
        await asyncio.to_thread(self.meter.sampler.sample)

    def charge_measured_cost(self) -> None:
        """Charge each request with the measured fixed cost, if that is more than the default."""
        if isinstance(self._gate, EngineGate):
            self._gate.fixed_bytes = max(HEAD_BYTES, self.meter.model.fixed_bytes)

    def report(self, url: str = "", *, anew: bool = False) -> None:
        """Report the capacity to the engine if it has changed; see `CapacityReporter`."""
        if self._reporter is not None:
            self._reporter.report(url, anew=anew)

    def wall_ms(self) -> int | None:
        """The wall clock less the cluster's time; None without an engine."""
        return None if self._reporter is None else self._reporter.wall_ms()

    def resources(self, slots_set: Collection[str] = ()) -> list[ResourceState]:
        """The resources for which requests may wait here. `slots_set`: servers whose slots are set by hand."""
        if self.engine is None:
            return []
        fixed = self._gate.fixed_bytes if isinstance(self._gate, EngineGate) else HEAD_BYTES
        shortage = None if self.processor is None else self.processor.shortage()
        return list(resources_of(self.engine, self.meter, slots_set, fixed, shortage))

    # ---- the end

    async def drain(self) -> None:
        """Queue no more requests. Returns when all clients have arrived that other nodes have redirected here."""
        if self.driver is not None:
            self.driver.drain()
            await self.driver.visitors_arrived.wait()

    def close(self) -> None:
        if self.driver is not None:
            self.driver.close()
        if self.processor is not None:
            self.processor.close()

    # ---- events of the engine

    def policy_changed(self, position: int, policy: CompiledPolicy) -> None:
        self.accounts.change(self._classifier(policy))
        if self._listener is not None:
            self._listener.policy_changed(position, policy)

    def viewed(self, position: int, view: View) -> None:
        if self._listener is not None:
            self._listener.viewed(position, view)

    def reported(self, effect: Reported) -> None:
        if self._listener is not None:
            self._listener.reported(effect)

    def upstreams_reported(self, effect: UpstreamsReported) -> None:
        if self._listener is not None:
            self._listener.upstreams_reported(effect)

    def entry_rejected(self, effect: EntryRejected) -> None:
        if self._listener is not None:
            self._listener.entry_rejected(effect)

    # ---- services for the classifier

    def _classifier(self, policy: CompiledPolicy | None) -> Classifier:
        if policy is None:
            return Classifier(self._clock)
        return Classifier(self._clock, policy.model, self._index, policy.text, self._on_access, self._environment)

    def _environment(self) -> Environment:
        assert self.engine is not None
        return self.engine.machine.environment

    def _on_access(self, page_sets: Iterable[int]) -> None:
        if self.driver is not None:
            self.driver.accessed(page_sets)


def _start_nothing(account: ClassAccount, size: int) -> bool:  # noqa: ARG001
    return False
