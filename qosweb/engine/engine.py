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
from qosweb.engine.local.admission import Admission
from qosweb.engine.local.batch_timing import SUPPLIED_MS, can_wait
from qosweb.engine.local.outbox import BatchOutbox
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
    Viewed,
)
from qosweb.engine.replicated.entries import NodeReport, PolicyText
from qosweb.engine.replicated.flows import STEP_MS, Flow
from qosweb.engine.replicated.state_machine import QosStateMachine

if TYPE_CHECKING:
    from cluster.names import ProcessId, View
    from qosweb.engine.replicated.entries import NodeBatch

NUMBERS_BITS = 20  # requests in a second of life, at most
QUIET_MS = 50  # how long what nobody waits for may wait to be told


class EngineListener(Protocol):
    """What the node hears."""

    def policy_changed(self, position: int, law: CompiledPolicy) -> None: ...
    def viewed(self, position: int, view: View) -> None: ...
    def reported(self, effect: Reported) -> None: ...
    def refused(self, effect: EntryRejected) -> None: ...


class Engine:
    """`is_member`: it belongs to a group, and decides alone only while there is no primary view.

    `compiled_policy` is for this node alone. What the group has comes through the order, to all from the same
    beginning. `life` is larger for each life of the node: the seconds of its wall clock will do.
    """

    def __init__(
        self, me: ProcessId, law: CompiledPolicy, listener: EngineListener, *, is_member: bool, life: int = 0
    ) -> None:
        self.me = me
        self.listener = listener
        self.outbox = BatchOutbox()
        self._names = list(law.names)
        self.report = NodeReport(0, 0, 0, "")
        self.replicated = QosStateMachine(me, CompiledPolicy.empty(), self._of_replicated)
        self.solo: QosStateMachine | None = None
        self._law = law  # the last that was in force here
        self.admission = Admission(me, self.replicated, self.outbox, life << NUMBERS_BITS)
        self.in_flight: NodeBatch | None = None
        self._is_member = is_member
        self._offset_ms = 0  # the cluster's time less ours
        self._solo_offset_ms = 0  # the same for the time of the machine that decides alone
        self._is_applying = False
        self._told_at_ms = 0
        self._refused_ms = -QUIET_MS  # when the group last refused to take a batch
        self._solo_position = 0
        self.alone()

    @property
    def now_ms(self) -> int:
        """By the node's clock."""
        return self.admission.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.admission.now_ms = now_ms

    @property
    def machine(self) -> QosStateMachine:
        """The one that decides."""
        return self.solo or self.replicated

    @property
    def time_ms(self) -> int:
        """The cluster's time."""
        return self.now_ms + (self._offset_ms if self.solo is None else self._solo_offset_ms)

    def of_late_bps(self, flow: Flow) -> int:
        """A flow by the clock. The order says nothing while nothing happens, and its own time stands still then."""
        return flow.per_s_after(self.time_ms // STEP_MS - self.machine.time_ms // STEP_MS)

    def started_of_late_bps(self) -> list[int]:
        """By class, in the whole cluster."""
        return [self.of_late_bps(one.got) for one in self.machine.classes]

    # ---- in and out of the primary view

    def take_name(self, me: ProcessId) -> None:
        """Who we are in the group, before anything has happened."""
        self.me = self.replicated.me = self.admission.me = me
        self.solo = None
        self.alone()

    def alone(self) -> None:
        """There is no primary view: decide for this node."""
        if self.solo is not None:
            return
        self.in_flight = None  # whatever becomes of it
        self.solo = QosStateMachine(self.me, self._law, self._of_solo)
        self.solo.time_ms = self.replicated.time_ms
        self._solo_offset_ms = self.solo.time_ms - self.now_ms
        if self._is_member:
            self.outbox.policy = None  # it is for the cluster, or for nobody
        self._use(self.solo)
        self.admission.in_minority = self._is_member
        self.solo.view_changed(0, make_view(0, {self.me: 0}))
        self.outbox.report = self.report
        self.admission.cut_off()

    def together(self) -> None:
        """The replicated machine decides; we are in its view."""
        solo, self.solo = self.solo, None
        if self.replicated.law is not self._law:
            self._policy_changed(-1, self.replicated.law)
        self._use(self.replicated)
        self.admission.in_minority = False
        if solo is not None:
            self.admission.restate()
            self.outbox.report = self.report
            names = {name: at for at, name in enumerate(self.replicated.law.names)}
            for one in solo.classes if self._is_member else ():
                self.outbox.account(names.get(one.name, self.replicated.law.default)).add(one.totals)

    def _use(self, machine: QosStateMachine) -> None:
        self.admission.machine = machine
        if machine is self.replicated:
            self._catch_up(machine.time_ms)
        self.admission.ahead_ms = self.time_ms - self.now_ms
        self.admission.refresh()

    # ---- the order

    def apply(self, position: int, origin: ProcessId, body: bytes) -> None:
        self.replicated.apply(position, origin, body)
        self._applied(self.replicated)

    def view_changed(self, position: int, view: View) -> None:
        self.replicated.view_changed(position, view)
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
        if machine is self.admission.machine:
            self.admission.ahead_ms = self.time_ms - self.now_ms
            self.admission.refresh()

    def _catch_up(self, time_ms: int) -> None:
        self._offset_ms = max(self._offset_ms, time_ms - self.now_ms)

    # ---- telling

    @property
    def wants_to_tell(self) -> bool:
        """Something is to be told at once, and nothing is on its way."""
        return self._may_tell and self._hurries and not self._can_wait

    @property
    def collects(self) -> bool:
        """Something is to be told, and can wait for more."""
        return self._may_tell and self._hurries and self._can_wait

    @property
    def _hurries(self) -> bool:
        """Somebody waits for what is to be told."""
        outbox = self.outbox
        return outbox.hurries or (outbox.frees and any(one.waiting for one in self.machine.classes))

    @property
    def _can_wait(self) -> bool:
        if self.solo is not None or self.now_ms >= self._told_at_ms + SUPPLIED_MS:
            return False
        return can_wait(self.replicated, self.admission, self.outbox)

    @property
    def _may_tell(self) -> bool:
        """Nothing is on its way, nor is it the wrong moment: whoever refused a batch would refuse it again."""
        refused = self.solo is None and self.now_ms < self._refused_ms + QUIET_MS
        return self.in_flight is None and not self._is_applying and not refused

    def next_call_ms(self) -> int | None:
        """When `flush` and `tick` want to be called at the latest, by the node's clock."""
        wakes = [self.admission.next_deadline_ms()]
        if self.in_flight is None and not self.outbox.is_empty:
            wait_ms = SUPPLIED_MS if self._may_tell and self._hurries else QUIET_MS
            wakes.append(max(self._told_at_ms, self._refused_ms) + wait_ms)
        if self._may_tell and self.machine.scheduler.wake_ms is not None:
            wakes.append(self.machine.scheduler.wake_ms - (self.time_ms - self.now_ms))
        return min((one for one in wakes if one is not None), default=None)

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.admission.tick(now_ms)

    def flush(self, now_ms: int) -> bytes | None:
        """What to broadcast now, if anything; its end is to be told by `ended`. Alone, it is applied at once."""
        self.now_ms = now_ms
        if not self._may_tell:
            return None
        wake_ms = self.machine.scheduler.wake_ms
        is_awake = wake_ms is not None and wake_ms <= self.time_ms
        if not (is_awake or self.wants_to_tell or (not self.outbox.is_empty and now_ms >= self._told_at_ms + QUIET_MS)):
            return None
        self._told_at_ms = now_ms
        restated = self.admission.restated() if self.outbox.restates else None
        batch = self.outbox.take(self.time_ms, self.machine.generation, restated)
        body = entries.encode(batch)
        if self.solo is None:
            self.in_flight = batch
            return body
        self._solo_position += 1
        self._is_applying = True
        try:
            self.solo.apply(self._solo_position, self.me, body)
        finally:
            self._is_applying = False
        self.admission.told(batch)
        self._applied(self.solo)
        return None

    def ended(self, batch: NodeBatch, delivered: bool) -> None:
        """A batch that was on its way has been applied here, or never will be anywhere."""
        if delivered:
            self.admission.told(batch)
        else:
            self._refused_ms = self.now_ms
            self.outbox.put_back(batch, self._number_of(batch.generation))
            if self.solo is not None and self._is_member:
                self.outbox.policy = None
            if batch is self.in_flight:
                self.admission.restate()
        if batch is self.in_flight:
            self.in_flight = None

    def _number_of(self, generation: int) -> ClassNumbers:
        """From class numbers of a policy of the cluster to those in force here."""
        return ClassNumbers(self.replicated.names.get(generation, ()), self._names, self._law.default)

    # ---- what the node wants

    def report_capacity(self, report: NodeReport) -> None:
        self.report = self.outbox.report = report
        self.admission.capacity_changed(report.capacity_bps)

    def change_policy(self, law: CompiledPolicy) -> None:
        """Everywhere, at one place in the order. Only in a primary view, or where there is no group."""
        self.outbox.policy = PolicyText(law.text, law.packed, law.language)

    # ---- effects

    def _of_replicated(self, effect: Effect) -> None:
        if type(effect) is Granted:  # by far the most
            if self.solo is None:
                self.admission.granted(effect)
            return
        match effect:
            case PolicyChanged(position, _) if self.solo is not None:
                self.solo.change_policy(position, self.replicated.law)
            case PolicyChanged(position, _):
                self._policy_changed(position, self.replicated.law)
            case Viewed(position, view):
                self.listener.viewed(position, view)
            case Reported():
                self.listener.reported(effect)
            case EntryRejected():
                self.listener.refused(effect)
            case _ if self.solo is None:
                self._handle(effect)

    def _of_solo(self, effect: Effect) -> None:
        match effect:
            case PolicyChanged(position, _):
                assert self.solo is not None
                self._policy_changed(position, self.solo.law)
            case Reported():
                if not self._is_member:
                    self.listener.reported(effect)
            case EntryRejected():
                self.listener.refused(effect)
            case Viewed():
                pass
            case _:
                self._handle(effect)

    def _handle(self, effect: Effect) -> None:
        if isinstance(effect, RestatementNeeded):
            self.outbox.report = self.report
        self.admission.handle(effect, self.now_ms)

    def _policy_changed(self, position: int, law: CompiledPolicy) -> None:
        """Requests on their way keep their class by its name."""
        before, self._names, self._law = self._names, list(law.names), law
        now = {name: at for at, name in enumerate(law.names)}
        self.admission.policy_changed([now.get(name, law.default) for name in before])
        self.listener.policy_changed(position, law)
