"""Collects the events of this node at one pool of upstream servers until its next batch.

The counts of requests go to the accounts of the node, without costs: those are bytes there, and microseconds here.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

from qosweb.engine.replicated.entries import LIST_MAX
from qosweb.engine.replicated.pool_batch import PoolBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.engine.laws.service_samples import Sampler
    from qosweb.engine.local.outbox import BatchOutbox
    from qosweb.engine.replicated.classes import ClassNumbers, Totals
    from qosweb.engine.replicated.servers import PoolKey

Running = tuple[int, int, int, str]  # number, class, cost, server


class PoolOutbox:
    """Contents of the next batch for one pool."""

    __slots__ = ("_cancelled", "_denied", "_finished", "_node", "_served", "_started", "_submitted", "samplers")

    def __init__(self, node: BatchOutbox) -> None:
        self._node = node
        self._started: dict[int, Running] = {}
        self._served: dict[int, list[int]] = {}  # class: requests, cost, and amount if that is not time
        self._submitted: dict[int, tuple[int, int, int]] = {}
        self._denied: list[tuple[int, int]] = []
        self._cancelled: list[int] = []
        self._finished: list[tuple[int, ...]] = []
        self.samplers: dict[str, Sampler] = {}  # of service times, by server

    # ---- events

    def account(self, class_number: int) -> Totals:
        return self._node.account(class_number)

    def denied(self, class_number: int, cost: int) -> None:
        self._denied.append((class_number, cost))
        self.account(class_number).denied += 1

    def started(self, number: int, class_number: int, cost: int, server: str) -> None:
        """A request started at once, without waiting."""
        self._started[number] = (number, class_number, cost, server)
        self._node.account(class_number).started += 1

    def count_start(self, class_number: int, cost: int) -> None:  # noqa: ARG002
        self.account(class_number).started += 1

    def submitted(self, number: int, class_number: int, cost: int) -> None:
        self._submitted[number] = (number, class_number, cost)

    def cancelled(self, number: int) -> bool:
        """Returns whether the other nodes have to be told: not if they never heard of the request."""
        if self._submitted.pop(number, None) is not None or self._started.pop(number, None) is not None:
            return False
        self._cancelled.append(number)
        return True

    def finished(self, number: int, cost: int, *amount: int) -> bool:
        """Returns whether the other nodes have heard of the request. If not, its slot time is only added to a sum.

        `amount`: its cost, if the cost of its class is not time.
        """
        started = self._started.pop(number, None)
        if started is None:
            self._finished.append((number, cost, *amount))
            return True
        self._add_served(started[1], 1, cost, *amount)
        return False

    def served(self, class_number: int, count: int, cost: int) -> None:
        """Requests that started at once and are over, all since the last batch."""
        self._add_served(class_number, count, cost)
        self.account(class_number).started += count

    def _add_served(self, class_number: int, *more: int) -> None:
        sums = self._served.get(class_number)
        self._served[class_number] = [*more] if sums is None else list(map(add, sums, more))

    # ---- batches

    @property
    def is_awaited(self) -> bool:
        """A request waits for the effect of the next batch."""
        return bool(self._submitted or self._cancelled)

    @property
    def frees(self) -> bool:
        """A slot was released that a request may wait for."""
        return bool(self._finished)

    @property
    def has_started(self) -> bool:
        """Requests started at once that the other nodes have not been told."""
        return bool(self._started)

    @property
    def is_empty(self) -> bool:
        return not (
            self._submitted or self._cancelled or self._finished or self._started or self._served or self._denied
        )

    def take(self, servers: PoolKey) -> PoolBatch:
        """Take a batch; events beyond its limits stay."""
        started = list(self._started.values())[:LIST_MAX]
        submitted = list(self._submitted.values())[:LIST_MAX]
        batch = PoolBatch(
            servers, [], [(number, *sums) for number, sums in self._served.items()], started, submitted,
            self._denied[:LIST_MAX], self._cancelled[:LIST_MAX],
            self._finished[:LIST_MAX],
        )  # fmt: skip
        batch.samples = [(name, rows) for name, one in self.samplers.items() if (rows := one.take())]
        self._served = {}
        for number, *_ in started:
            del self._started[number]
        for number, *_ in submitted:
            del self._submitted[number]
        del self._denied[:LIST_MAX], self._cancelled[:LIST_MAX], self._finished[:LIST_MAX]
        return batch

    def put_back(self, batch: PoolBatch, number_of: ClassNumbers) -> None:
        """Take back the counts of a batch that was never delivered. A restatement covers the rest.

        Amounts may have had the measures of an earlier policy.
        """
        for number, *sums in batch.served:
            self._add_served(number_of[number], *sums[:2])
        self._denied += [(number_of[number], cost) for number, cost in batch.denied]

    def clear(self) -> None:
        """A restatement replaces all pending events."""
        self._started.clear()
        self._submitted.clear()
        self._cancelled.clear()
        self._finished.clear()

    def translate(self, numbers: Sequence[int]) -> None:
        """Translate class numbers after a change of policy. Amounts had the measures of the earlier policy."""
        self._denied = [(numbers[number], cost) for number, cost in self._denied]
        served, self._served = self._served, {}
        for number, sums in served.items():
            self._add_served(numbers[number], *sums[:2])
        self._finished = [one[:2] for one in self._finished]
        for number, (_, class_number, cost, server) in self._started.items():
            self._started[number] = (number, numbers[class_number], cost, server)
        for number, (_, class_number, cost) in self._submitted.items():
            self._submitted[number] = (number, numbers[class_number], cost)
