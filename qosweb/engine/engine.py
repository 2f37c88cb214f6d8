"""QoS engine of one node: uses the replicated state machine in a primary view, and a private one outside it.

Outside a primary view the same state machine runs for this node alone, with the last policy, on the node's own pipe.
On both transitions the node restates all unfinished requests to the state machine that decides from then on. What the
node served while it was alone is added to the cluster's accounts when it returns.
Time: cluster time counts milliseconds since the founding of the cluster. A node that has seen cluster time T continues
from T by its own monotonic clock, and moves forward when entries of other nodes are ahead. The wall clock matters only
to conditions on the time of day.
Above: the node, which passes the time to every call.  Below: the group; the caller broadcasts what `flush` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.names import make_view
from qosweb.engine.local.batch_timing import SUPPLIED_MS, can_wait
from qosweb.engine.local.outbox import BatchOutbox
from qosweb.engine.local.pipe_queue import PipeQueue
from qosweb.engine.local.server_laws import ServerLaws
from qosweb.engine.local.slot_queue import SlotQueue
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.classes import ClassNumbers
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.effects import (
    Effect,
    EntryRejected,
    Granted,
    PolicyChanged,
    Reported,
    RestatementNeeded,
    Sampled,
    SlotGranted,
    UpstreamsReported,
    Viewed,
)
from qosweb.engine.replicated.entries import NodeReport, PolicyText
from qosweb.engine.replicated.flows import STEP_MS, Flow
from qosweb.engine.replicated.servers import server_id
from qosweb.engine.replicated.state_machine import QosStateMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.names import ProcessId, View
    from qosweb.engine.local.request_queue import RequestQueue
    from qosweb.engine.replicated.entries import NodeBatch
    from qosweb.engine.replicated.pool_batch import PoolBatch
    from qosweb.engine.replicated.upstreams import UpstreamReport

NUMBERS_BITS = 20  # at most 2**20 requests per second of a node's life
QUIET_MS = 50  # longest delay of a batch on which no request waits


class EngineListener(Protocol):
    """Callbacks of the engine to its node."""

    def policy_changed(self, position: int, policy: CompiledPolicy) -> None: ...
    def viewed(self, position: int, view: View) -> None: ...
    def reported(self, effect: Reported) -> None: ...
    def upstreams_reported(self, effect: UpstreamsReported) -> None: ...
    def entry_rejected(self, effect: EntryRejected) -> None: ...


class Engine:
    """The engine of one node.

    `policy` applies while the node is alone; the group's policy comes through the total order, from the same beginning
    for all replicas. `is_member`: the node belongs to a group, and decides alone only outside a primary view. `life`
    has to grow with each restart of the node: the seconds of its wall clock will do.
    """

    def __init__(
        self, me: ProcessId, policy: CompiledPolicy, listener: EngineListener, *, is_member: bool, life: int = 0
    ) -> None:
        self.me = me
        self.listener = listener
        self.outbox = BatchOutbox()
        self._names = list(policy.names)
        self.report = NodeReport(0, 0, 0, "")
        self.upstreams: list[UpstreamReport] = []  # of this node
        self.replicated = QosStateMachine(me, CompiledPolicy.empty(), self._of_replicated)
        self.solo: QosStateMachine | None = None
        self._policy = policy  # the policy that was last in force here
        numbers = life << NUMBERS_BITS
        self.pipe_queue = PipeQueue(me, self.replicated, self.outbox, numbers)
        self.slot_queues: dict[tuple[tuple[str, bool], ...], SlotQueue] = {}  # by name and scope of the servers
        self._laws = ServerLaws()
        self._limits: dict[str, tuple[str, int, int, int]] = {}  # decisions for the next batch, by server
        self.in_flight: NodeBatch | None = None
        self._is_member = is_member
        self._offset_ms = 0  # cluster time minus the node's time
        self._solo_offset_ms = 0  # the same for the time of the private state machine
        self._is_applying = False
        self._sent_at_ms = 0
        self._refused_ms = -QUIET_MS  # when the group last refused a batch
        self._solo_position = 0
        self.leave_primary_view()

    @property
    def now_ms(self) -> int:
        """The current time by the node's clock."""
        return self.pipe_queue.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.pipe_queue.now_ms = now_ms

    @property
    def machine(self) -> QosStateMachine:
        """The state machine that decides now."""
        return self.solo or self.replicated

    @property
    def time_ms(self) -> int:
        """Cluster time."""
        return self.now_ms + (self._offset_ms if self.solo is None else self._solo_offset_ms)

    def recent_bps(self, flow: Flow) -> int:
        """The mean of a flow as of now. The state machine's own time stands still while no entry is ordered."""
        return flow.per_s_after(self.time_ms // STEP_MS - self.machine.time_ms // STEP_MS)

    def recent_starts_bps(self) -> list[int]:
        """Recent starts of each class in the whole cluster."""
        return [self.recent_bps(one.got) for one in self.machine.classes]

    # ---- in and out of the primary view

    def take_name(self, me: ProcessId) -> None:
        """Set the node's identity in the group, before any request."""
        self.me = self.replicated.me = self.pipe_queue.me = me
        self.solo = None
        self.leave_primary_view()

    def leave_primary_view(self) -> None:
        """From now on the private state machine decides for this node."""
        if self.solo is not None:
            return
        self.in_flight = None  # its outcome no longer matters
        self.solo = QosStateMachine(self.me, self._policy, self._of_solo)
        self.solo.time_ms = self.replicated.time_ms
        self.solo.servers.limits_at_first = self.replicated.servers.parts()
        self.solo.servers.limit_of_unknown = int(self._is_member)  # others may use it
        self._solo_offset_ms = self.solo.time_ms - self.now_ms
        if self._is_member:
            self.outbox.policy = None  # it is for the cluster only
        self._use(self.solo)
        self.pipe_queue.in_minority = self._is_member
        self.solo.view_changed(0, make_view(0, {self.me: 0}))
        self._report_again()
        for queue in self.queues:
            queue.cut_off()

    def enter_primary_view(self) -> None:
        """From now on the replicated state machine decides."""
        solo, self.solo = self.solo, None
        if self.replicated.policy is not self._policy:
            self._policy_changed(-1, self.replicated.policy)
        self._use(self.replicated)
        self.pipe_queue.in_minority = False
        if solo is not None:
            self._restate()
            self._report_again()
            names = {name: at for at, name in enumerate(self.replicated.policy.names)}
            for one in solo.classes if self._is_member else ():
                self.outbox.account(names.get(one.name, self.replicated.policy.default)).add(one.totals)

    def _use(self, machine: QosStateMachine) -> None:
        self.pipe_queue.machine = machine
        self._laws.machine_changed()
        self._limits.clear()
        if machine is self.replicated:
            self._catch_up(machine.time_ms)
        self._refresh()

    # ---- the order

    def apply(self, position: int, origin: ProcessId, body: bytes) -> None:
        self.replicated.apply(position, origin, body)
        self._applied(self.replicated)

    def view_changed(self, position: int, view: View) -> None:
        self.replicated.view_changed(position, view)
        if self.solo is None and self.me not in view.members:  # the other replicas have forgotten its slots
            self._untell_slots()
        self._applied(self.replicated)

    def snapshot(self) -> bytes:
        return self.replicated.snapshot()

    def restore(self, state: bytes) -> None:
        self.replicated.restore(state)
        self._offset_ms = self.replicated.time_ms - self.now_ms
        self._applied(self.replicated)

    def _applied(self, machine: QosStateMachine) -> None:
        if machine is self.replicated:
            self._catch_up(machine.time_ms)
            if self.solo is not None:
                self._take_parts(self.solo)
        if machine is self.pipe_queue.machine:
            self._refresh()

    def _refresh(self) -> None:
        self.pipe_queue.ahead_ms = self.time_ms - self.now_ms
        self.pipe_queue.refresh()
        for queue in self.slot_queues.values():
            queue.attach()

    def _take_parts(self, solo: QosStateMachine) -> None:
        """Use the parts that follow from the replicated state. What runs here already counts before any start."""
        parts = self.replicated.servers.parts()
        if self._is_member and parts != solo.servers.limits_at_first:
            solo.servers.take_parts(parts)
            self._apply_alone(solo, self._take_batch())

    def _catch_up(self, time_ms: int) -> None:
        self._offset_ms = max(self._offset_ms, time_ms - self.now_ms)

    # ---- sending batches

    @property
    def should_send(self) -> bool:
        """A batch should be sent at once, and none is in flight."""
        return self._may_send and self._is_due and not self._can_wait

    @property
    def is_collecting(self) -> bool:
        """A batch is due, but can wait and collect more."""
        return self._may_send and self._is_due and self._can_wait

    @property
    def _is_due(self) -> bool:
        """A request waits for the content of the next batch."""
        outbox = self.outbox
        if self._limits or outbox.is_awaited or (outbox.frees and self.machine.scheduler.waiting()):
            return True
        return any(
            queue.outbox.is_awaited
            or ((queue.outbox.frees or queue.outbox.has_started) and queue.pool.scheduler.waiting())
            for queue in self.slot_queues.values()
        )

    @property
    def is_silent(self) -> bool:
        """There is nothing to send."""
        return (
            self.outbox.is_empty
            and not self._limits
            and all(queue.outbox.is_empty for queue in self.slot_queues.values())
        )

    @property
    def _can_wait(self) -> bool:
        if self.solo is not None or self.now_ms >= self._sent_at_ms + SUPPLIED_MS:
            return False
        if self._limits or any(not queue.outbox.is_empty for queue in self.slot_queues.values()):
            return False
        return can_wait(self.replicated, self.pipe_queue, self.outbox)

    @property
    def _may_send(self) -> bool:
        """No batch is in flight, and the group did not refuse one just now: it would refuse again."""
        refused = self.solo is None and self.now_ms < self._refused_ms + QUIET_MS
        return self.in_flight is None and not self._is_applying and not refused

    def next_call_ms(self) -> int | None:
        """The latest time for the next call of `flush` and `tick`, by the node's clock."""
        wakes = [queue.next_deadline_ms() for queue in self.queues]
        wakes.append(self._laws.next_ms(self.machine))
        if self.in_flight is None and not self.is_silent:
            wait_ms = SUPPLIED_MS if self._may_send and self._is_due else QUIET_MS
            wakes.append(max(self._sent_at_ms, self._refused_ms) + wait_ms)
        if self._may_send and (wake_ms := self.machine.wake_ms) is not None:
            wakes.append(wake_ms - (self.time_ms - self.now_ms))
        return min((one for one in wakes if one is not None), default=None)

    def tick(self, now_ms: int) -> None:
        for queue in self.queues:
            queue.tick(now_ms)
        for decision in self._laws.tick(self.machine, now_ms, in_minority=self.pipe_queue.in_minority):
            self._limits[decision[0]] = decision

    def flush(self, now_ms: int) -> bytes | None:
        """The batch to broadcast now, if any; `batch_ended` follows. Outside a primary view, apply it at once."""
        self.now_ms = now_ms
        self._settle_slots()
        if not self._may_send:
            return None
        wake_ms = self.machine.wake_ms
        is_awake = wake_ms is not None and wake_ms <= self.time_ms
        if not (is_awake or self.should_send or (not self.is_silent and now_ms >= self._sent_at_ms + QUIET_MS)):
            return None
        self._sent_at_ms = now_ms
        batch = self._take_batch()
        if self.solo is not None:
            self._apply_alone(self.solo, batch)
            return None
        self.in_flight = batch
        return entries.encode(batch)

    def _settle_slots(self) -> None:
        """Collect the starts and ends that the slot queues have only counted."""
        for queue in self.slot_queues.values():
            queue.settle()

    def _take_batch(self) -> NodeBatch:
        self._settle_slots()
        restated = self.pipe_queue.make_restatement() if self.outbox.restates else None
        batch = self.outbox.take(self.time_ms, self.machine.generation, restated)
        batch.limits = list(self._limits.values())
        self._limits.clear()
        for queue in self.slot_queues.values():
            if restated is not None:
                batch.pools.append(queue.restatement())
            elif not queue.outbox.is_empty:
                batch.pools.append(queue.outbox.take(queue.key))
        return batch

    def _apply_alone(self, solo: QosStateMachine, batch: NodeBatch) -> None:
        self._solo_position += 1
        self._is_applying = True
        try:
            solo.apply(self._solo_position, self.me, entries.encode(batch))
        finally:
            self._is_applying = False
        self._on_batch_applied(batch)
        self._applied(solo)

    def batch_ended(self, batch: NodeBatch, delivered: bool) -> None:
        """A batch was applied here, or will never be applied anywhere.

        One that is no longer in flight is older than a restatement.
        """
        if delivered:
            if batch is self.in_flight:
                self._on_batch_applied(batch)
        else:
            self._refused_ms = self.now_ms
            number_of = self._number_of(batch.generation)
            self.outbox.put_back(batch, number_of)
            for queue, of_pool in self._of_pools(batch):
                queue.outbox.put_back(of_pool, number_of)
            if self.solo is not None and self._is_member:
                self.outbox.policy = None
            if batch is self.in_flight:
                for decision in batch.limits:
                    self._limits.setdefault(decision[0], decision)
                self._restate()
        if batch is self.in_flight:
            self.in_flight = None

    def _restate(self) -> None:
        self.pipe_queue.restate()
        self._untell_slots()

    def _untell_slots(self) -> None:
        for queue in self.slot_queues.values():
            queue.untell()

    def _on_batch_applied(self, batch: NodeBatch) -> None:
        self.pipe_queue.on_batch_applied(batch)
        for queue, of_pool in self._of_pools(batch):
            queue.on_pool_batch_applied(of_pool)

    def _of_pools(self, batch: NodeBatch) -> Iterator[tuple[SlotQueue, PoolBatch]]:
        for of_pool in batch.pools:
            for queue in self.slot_queues.values():
                if queue.key == of_pool.servers:
                    yield queue, of_pool

    def _number_of(self, generation: int) -> ClassNumbers:
        """Map class numbers of an earlier policy of the cluster to those in force here."""
        return ClassNumbers(self.replicated.names.get(generation, ()), self._names, self._policy.default)

    # ---- requests of the node

    @property
    def queues(self) -> list[RequestQueue]:
        """All queues of this node: for its pipe, and for the pools of its upstream servers."""
        return [self.pipe_queue, *self.slot_queues.values()]

    def slot_queue(self, servers: tuple[tuple[str, bool], ...]) -> SlotQueue:
        """The queue for the upstream servers of one route: the name of each, and whether it is shared."""
        found = self.slot_queues.get(servers)
        if found is None:
            key = tuple(sorted(server_id(self.me.name, name, is_shared=shared) for name, shared in servers))
            found = self.slot_queues[servers] = SlotQueue(self.pipe_queue, key)
            found.now_ms = self.now_ms
        return found

    def report_capacity(self, report: NodeReport) -> None:
        self.report = self.outbox.report = report
        self.pipe_queue.capacity_changed(report.capacity_bps)

    def report_upstreams(self, upstreams: list[UpstreamReport]) -> None:
        """Report all upstream servers of this node, with its votes on their health."""
        self.upstreams = self.outbox.upstreams = upstreams

    def _report_again(self) -> None:
        """Repeat the reports to a state machine that may not know them."""
        self.outbox.report = self.report
        if self.upstreams:
            self.outbox.upstreams = self.upstreams

    def change_policy(self, policy: CompiledPolicy) -> None:
        """Change the policy on all nodes, at one position of the order. Only in a primary view, or without a group."""
        self.outbox.policy = PolicyText(policy.text, policy.packed, policy.language)

    # ---- effects

    def _of_replicated(self, effect: Effect) -> None:
        if type(effect) is Granted:  # by far the most frequent
            if self.solo is None:
                self.pipe_queue.granted(effect)
            return
        if type(effect) is SlotGranted:
            if self.solo is None:
                self._granted_slot(effect)
            return
        if type(effect) is Sampled:
            if self.solo is None:
                self._laws.absorb(self.replicated, effect.server, effect.rows)
            return
        match effect:
            case PolicyChanged(position, _) if self.solo is not None:
                self._take_parts(self.solo)  # before anything starts
                self._apply_alone(self.solo, self._take_batch())
                self.solo.change_policy(position, self.replicated.policy)
            case PolicyChanged(position, _):
                self._policy_changed(position, self.replicated.policy)
            case Viewed(position, view):
                self.listener.viewed(position, view)
            case Reported():
                self.listener.reported(effect)
            case UpstreamsReported():
                self.listener.upstreams_reported(effect)
            case EntryRejected():
                self.listener.entry_rejected(effect)
            case _ if self.solo is None:
                self._handle(effect)

    def _of_solo(self, effect: Effect) -> None:
        if type(effect) is SlotGranted:  # by far the most frequent
            self._granted_slot(effect)
            return
        match effect:
            case PolicyChanged(position, _):
                assert self.solo is not None
                self._policy_changed(position, self.solo.policy)
            case Reported():
                if not self._is_member:
                    self.listener.reported(effect)
            case UpstreamsReported():
                self.listener.upstreams_reported(effect)
            case EntryRejected():
                self.listener.entry_rejected(effect)
            case Viewed():
                pass
            case Sampled(server, rows):
                assert self.solo is not None
                self._laws.absorb(self.solo, server, rows)
            case _:
                self._handle(effect)

    def _granted_slot(self, grant: SlotGranted) -> None:
        for queue in self.slot_queues.values():
            if queue.key == grant.pool:
                queue.now_ms = self.now_ms
                queue.granted_slot(grant)

    def _handle(self, effect: Effect) -> None:
        if isinstance(effect, RestatementNeeded):
            self._report_again()
        self.pipe_queue.handle(effect, self.now_ms)
        if isinstance(effect, RestatementNeeded):
            self._untell_slots()

    def _policy_changed(self, position: int, policy: CompiledPolicy) -> None:
        """Unfinished requests keep their class by its name."""
        self._settle_slots()  # before the outbox translates its numbers
        before, self._names, self._policy = self._names, list(policy.names), policy
        now = {name: at for at, name in enumerate(policy.names)}
        numbers = [now.get(name, policy.default) for name in before]
        for queue in self.queues:
            queue.policy_changed(numbers)
        self._laws.policy_changed()
        self.listener.policy_changed(position, policy)
