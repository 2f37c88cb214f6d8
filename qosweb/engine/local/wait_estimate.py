"""Wait estimate: predicts the queueing time of a request, so that requests that would expire are denied on arrival.

The requests of a class that wait at this node are a part of all that wait in the cluster, and not an even part. A free
channel goes first to a request that waits at the same node. So a node with few arrivals serves its requests at once,
and a node with many serves them later than younger requests of other nodes. The fraction of the starts of a class that
belongs to this node tells how fast its own queue moves:

    wait = cost of what waits here / (rate of the class * started of ours / started of all),

where both start rates are recent means (`flows`). The rate of the class is that at which its requests really started
recently, too: a class often gets more than its share, and a request that could be served must not be denied. If the
class started less than its weight (see the scheduler) allows, because it asked for less, its weight is its rate. If
none of this node's requests started recently, all requests of the class that wait anywhere count as ahead.
A bound that is always enforced admits what its bucket allows, at whichever node the requests wait.
Neighbours: `pipe_queue` calls this and reports waits and starts; the state machine knows the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from qosweb.engine.replicated.buckets import REQUEST
from qosweb.engine.replicated.flows import STEP_MS, Flow
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.names import ProcessId
    from qosweb.engine.replicated.classes import ClassState
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.fair_queueing import FairScheduler
    from qosweb.engine.replicated.pipes import Pipe

LITTLE = 32  # a node with less than 1/LITTLE of the starts knows nothing of its own rate


class Decider(Protocol):
    """The state machine for the node's own pipe, or one of its pools of upstream servers."""

    @property
    def scheduler(self) -> FairScheduler[Any, Any, Any]: ...
    @property
    def classes(self) -> list[ClassState]: ...
    @property
    def policy(self) -> CompiledPolicy: ...
    @property
    def pipes(self) -> dict[ProcessId, Pipe]: ...
    @property
    def time_ms(self) -> int: ...
    @property
    def travel_ms(self) -> int: ...
    @property
    def capacity_bps(self) -> int: ...
    @property
    def is_contended(self) -> bool: ...


def patience_ms(lifetime_ms: int, machine: Decider) -> int:
    """The part of a lifetime that may be spent in the queue: decisions take time, and grants ahead wait further.

    A redirected request is granted further ahead, by the time that its client may need to arrive.
    """
    most = lifetime_ms // 4
    return lifetime_ms - min(most, 2 * LOOKAHEAD_MS) - min(most, machine.travel_ms)


class ClassWait:
    """Costs of this node's own requests of one class."""

    __slots__ = ("begun", "untold", "waiting")

    def __init__(self) -> None:
        self.waiting = 0  # waiting here
        self.untold = 0  # the part of it that the state machine does not know yet
        self.begun = Flow()  # started, here or at another node


class WaitEstimate:
    """Wait estimates of one node, by class number."""

    __slots__ = ("_of", "_paces", "_step")

    def __init__(self) -> None:
        self._of: dict[int, ClassWait] = {}
        self._paces: dict[int, tuple[int, int, bool]] = {}  # cached until the state machine or a mean changes
        self._step = 0

    def of(self, number: int) -> ClassWait:
        found = self._of.get(number)
        if found is None:
            found = self._of[number] = ClassWait()
        return found

    def submitted(self, number: int, cost: int) -> None:
        class_wait = self.of(number)
        class_wait.untold += cost
        class_wait.waiting += cost

    def left(self, number: int, cost: int) -> None:
        """A request no longer waits."""
        self._of[number].waiting -= cost

    def count_start(self, number: int, cost: int) -> None:
        class_wait = self._of.get(number) or self.of(number)
        class_wait.begun.now += cost

    def forget_untold(self, number: int, cost: int) -> None:
        """The state machine knows a request, or never will. A class number of an earlier policy has no effect."""
        class_wait = self._of.get(number)
        if class_wait is not None:
            class_wait.untold = max(0, class_wait.untold - cost)

    def has_untold(self, number: int) -> bool:
        class_wait = self._of.get(number)
        return class_wait is not None and class_wait.untold > 0

    def forget_all_untold(self) -> None:
        for class_wait in self._of.values():
            class_wait.untold = 0

    def advance(self, now_ms: int) -> None:
        steps = now_ms // STEP_MS - self._step
        if steps > 0:
            self._step += steps
            self._paces.clear()
            for class_wait in self._of.values():
                class_wait.begun.step(steps)

    def machine_changed(self) -> None:
        """The state machine has applied an entry, or was replaced."""
        self._paces.clear()

    def translate(self, numbers: Sequence[int]) -> None:
        """Translate class numbers after a change of policy."""
        before, self._of = self._of, {}
        self._paces.clear()
        for number, one in before.items():
            self.of(numbers[number]).waiting += one.waiting

    def wait(self, machine: Decider, number: int, time_ms: int) -> tuple[int, int | None]:
        """Expected wait in ms at the current rate of the class, and the bound behind it; `time_ms` is cluster time.

        If the wait is unknown (classes of higher priority take everything for now), it is 0: the request may try.
        """
        pace = self._paces.get(number)
        if pace is None:
            pace = self._paces[number] = self._pace(machine, number)
        of_cost_ms, per, counts_all = pace
        class_wait = self.of(number)
        chosen = machine.classes[number]
        ahead = chosen.waiting_cost + class_wait.untold if counts_all else class_wait.waiting
        wait_ms = ahead * of_cost_ms // per
        scheduler = machine.scheduler
        buckets_of = scheduler.buckets_of[number]
        longest: int | None = None
        for at in buckets_of:
            rule, bucket = scheduler.bound.rules[at], scheduler.buckets[at]
            tokens = chosen.waiting * REQUEST if rule.counts == "requests" else chosen.waiting_cost + class_wait.untold
            level = bucket.level_at(rule, max(machine.time_ms, time_ms))
            of_bound_ms = (1000 * tokens - level) // max(1, rule.rate_per_s)
            if of_bound_ms > wait_ms:
                wait_ms, longest = of_bound_ms, at
        return wait_ms, longest

    def _pace(self, machine: Decider, number: int) -> tuple[int, int, bool]:
        """Milliseconds per cost ahead, as a fraction; and whether requests that wait at other nodes are ahead, too."""
        chosen = machine.classes[number]
        weight = machine.scheduler.weights[number] if chosen.waiting else PPM  # for a class that does not wait, a guess
        rate_bps = max(machine.capacity_bps * weight // PPM, chosen.got.per_s)
        if not rate_bps:
            return 0, 1, False
        if len(machine.pipes) == 1:
            return 1000, rate_bps, False
        ours, all_ = self.of(number).begun.per_s, chosen.got.per_s
        if ours * LITTLE < all_ or not ours:
            return 1000, rate_bps, True
        return 1000 * max(ours, all_), ours * rate_bps, False
