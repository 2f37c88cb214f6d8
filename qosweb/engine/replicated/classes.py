"""Replicated state of one class: its queues by node, its virtual time, its recent arrivals and starts, its totals.

A class has one queue per node, in the order of arrival. Removing any entry takes constant time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.replicated.flows import Flow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.names import ProcessId

NEVER_MS = -(1 << 40)


class Waiter(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A waiting request."""

    seq: int  # of its arrival in the total order: the smallest has waited longest
    cost: int
    at_ms: int


class ClassNumbers(dict[int, int]):
    """Maps old class numbers to new ones, by class name; a removed class maps to the default class."""

    __slots__ = ("_default",)

    def __init__(self, before: Sequence[str], after: Sequence[str], default: int) -> None:
        now = {name: number for number, name in enumerate(after)}
        super().__init__((number, now.get(name, default)) for number, name in enumerate(before))
        self._default = default

    def __missing__(self, number: int) -> int:
        return self._default


class Totals(msgspec.Struct, array_like=True):
    """Outcomes of requests since the founding, over all nodes, including nodes that were cut off and returned.

    In the end, each request is in one of `started`, `denied`, `cancelled` and `redirected`. A redirected request that
    arrived at the other node is also in `started` there.
    """

    started: int = 0
    started_cost: int = 0
    denied: int = 0
    denied_cost: int = 0
    cancelled: int = 0
    redirected: int = 0

    def add(self, more: Totals) -> None:
        self.started += more.started
        self.started_cost += more.started_cost
        self.denied += more.denied
        self.denied_cost += more.denied_cost
        self.cancelled += more.cancelled
        self.redirected += more.redirected


class ClassState:
    """Queues, virtual time and counters of one class."""

    __slots__ = ("backlog_ms", "came", "got", "mean_cost", "name", "queues", "short_ms", "spare_cost", "totals",
                 "virtual", "waiting", "waiting_cost")  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[ProcessId, OrderedDict[int, Waiter]] = {}
        self.waiting = 0
        self.waiting_cost = 0
        self.virtual = 0  # virtual time: the costs of its starts, each divided by the share at that time
        self.spare_cost = 0  # cost of starts while it had no share
        self.backlog_ms = NEVER_MS  # when it last had waiting requests
        self.short_ms = NEVER_MS  # when it last demanded more than its share
        self.mean_cost = 0  # of recent requests, where the cost is unknown at the start; 0: none yet
        self.came = Flow()
        self.got = Flow()
        self.totals = Totals()

    def has_waited_since(self, time_ms: int) -> bool:
        return self.waiting > 0 or self.backlog_ms > time_ms

    def add(self, owner: ProcessId, number: int, waiter: Waiter) -> None:
        queue = self.queues.get(owner)
        if queue is None:
            queue = self.queues[owner] = OrderedDict()
        queue[number] = waiter
        self.waiting += 1
        self.waiting_cost += waiter.cost

    def remove(self, owner: ProcessId, number: int) -> Waiter:
        queue = self.queues[owner]
        waiter = queue.pop(number)
        if not queue:
            del self.queues[owner]
        self.waiting -= 1
        self.waiting_cost -= waiter.cost
        return waiter

    def take_oldest(self, owner: ProcessId) -> tuple[int, Waiter]:
        queue = self.queues[owner]
        number, waiter = queue.popitem(last=False)
        if not queue:
            del self.queues[owner]
        self.waiting -= 1
        self.waiting_cost -= waiter.cost
        return number, waiter

    def all(self) -> Iterator[tuple[Waiter, ProcessId, int]]:
        return (
            (waiter, owner, number) for owner, queue in self.queues.items() for number, waiter in queue.items()
        )  # fmt: skip

    def clear(self) -> None:
        self.queues.clear()
        self.waiting = self.waiting_cost = 0

    def oldest(self, owner: ProcessId) -> tuple[int, Waiter]:
        return next(iter(self.queues[owner].items()))
