"""How long a request would wait: what cannot be reached within its lifetime is denied when it comes.

What waits here of a class is a part of what waits of it in the cluster, and not an even one: a channel that becomes
free is for somebody who waits there, so that a node where little arrives serves its own at once, and one where much
arrives serves its own later than others that came after them. The part that this node has of what starts of its class
tells how fast its own queue moves on:

    wait = cost of what waits here / (capacity * share of the class * started of ours / started of all),

each of the latter two a mean over the last second or so, and the share that of now. Where nothing of ours has started
of late, all that waits anywhere is ahead.
A bound that is always enforced lets through what its bucket does, wherever that waits.
Neighbours: `admission` asks and tells it what waits and starts; the machine knows the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.buckets import REQUEST
from qosweb.engine.flows import STEP_MS, Flow
from qosweb.engine.pipes import LOOKAHEAD_MS, TRAVEL_MS
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.engine.machine import QosMachine

LITTLE = 32  # less than such a part of what starts says nothing about a node's own


def patience_ms(lifetime_ms: int, machine: QosMachine) -> int:
    """So much of a lifetime may be spent in the queue: a decision takes time, and what was granted ahead waits on.

    What is sent elsewhere is granted further ahead, for as long as its client may need to come.
    """
    most = lifetime_ms // 4
    travel_ms = TRAVEL_MS if len(machine.pipes) > 1 and machine.law.may_redirect else 0
    return lifetime_ms - min(most, 2 * LOOKAHEAD_MS) - min(most, travel_ms)


class Outlook:
    """Of one node. Costs are of its own requests."""

    __slots__ = ("_begun", "_step", "_untold", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, int] = {}  # by class: the cost of what waits here,
        self._untold: dict[int, int] = {}  # of that what the machine does not know yet,
        self._begun: dict[int, Flow] = {}  # and what of ours was started, here or elsewhere
        self._step = 0

    def submitted(self, number: int, cost: int) -> None:
        self._untold[number] = self._untold.get(number, 0) + cost
        self._waiting[number] = self._waiting.get(number, 0) + cost

    def left(self, number: int, cost: int) -> None:
        """It waits no longer."""
        self._waiting[number] -= cost

    def began(self, number: int, cost: int) -> None:
        flow = self._begun.get(number)
        if flow is None:
            flow = self._begun[number] = Flow()
        flow.now += cost

    def told(self, number: int, cost: int) -> None:
        """The machine knows, or never will."""
        self._untold[number] = max(0, self._untold.get(number, 0) - cost)

    def all_told(self) -> None:
        self._untold.clear()

    def advance(self, now_ms: int) -> None:
        steps = now_ms // STEP_MS - self._step
        if steps > 0:
            self._step += steps
            for flow in self._begun.values():
                flow.step(steps)

    def translate(self, numbers: Sequence[int]) -> None:
        """Classes have other numbers from now on."""
        self._untold.clear()
        self._begun.clear()
        waiting, self._waiting = self._waiting, {}
        for number, cost in waiting.items():
            self._waiting[numbers[number]] = self._waiting.get(numbers[number], 0) + cost

    def wait(self, machine: QosMachine, number: int, time_ms: int) -> tuple[int, int | None]:
        """How many ms, at the rate that its class has now, and for which bound; `time_ms` is the cluster's.

        Where that is not known (others that come first take everything, for now) it may try.
        """
        scheduler = machine.scheduler
        chosen = machine.classes[number]
        everywhere = chosen.waiting_cost + self._untold.get(number, 0)
        share = scheduler.shares[number] if chosen.waiting else PPM  # of those who do not wait it is a guess
        rate_bps = machine.capacity_bps * share // PPM
        wait_ms = 0
        longest: int | None = None
        if rate_bps:
            wait_ms = self._ahead(machine, number, everywhere) * 1000 // rate_bps
        for at in scheduler.bound.buckets_of[number]:
            rule, bucket = scheduler.bound.rules[at], scheduler.buckets[at]
            tokens = chosen.waiting * REQUEST if rule.counts == "requests" else everywhere
            level = bucket.level_at(rule, max(machine.time_ms, time_ms))
            of_bound_ms = (1000 * tokens - level) // max(1, rule.rate_per_s)
            if of_bound_ms > wait_ms:
                wait_ms, longest = of_bound_ms, at
        return wait_ms, longest

    def _ahead(self, machine: QosMachine, number: int, everywhere: int) -> int:
        """The cost of what the whole cluster will start of this class before it comes to a request from here."""
        here = self._waiting.get(number, 0)
        if len(machine.pipes) == 1:
            return here
        flow = self._begun.get(number)
        ours, all_ = flow.per_s if flow is not None else 0, machine.classes[number].got.per_s
        if ours * LITTLE < all_ or not ours:
            return everywhere
        return here * max(ours, all_) // ours
