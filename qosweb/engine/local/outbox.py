"""Collects the events of this node until its next batch to the group.

Requests that end before a batch mentions them are shortened: a request that was submitted and cancelled is left out,
and one that started at once and ended is only added to a sum. Every request is counted exactly once, even if the rest
of its record is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import astuple

from qosweb.engine.replicated.classes import Totals
from qosweb.engine.replicated.entries import LIST_MAX, NodeBatch, NodeReport, NodeRestatement, PolicyText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.names import ProcessId
    from qosweb.engine.replicated.classes import ClassNumbers
    from qosweb.engine.replicated.upstreams import UpstreamReport

Sums = dict[int, list[int]]  # class: requests, cost


class BatchOutbox:
    """Contents of the next batch of one node."""

    __slots__ = ("_accessed", "_accounts", "_cancelled", "_denied", "_finished", "_served", "_started", "_submitted",
                 "_visited", "policy", "report", "restates", "upstreams")  # fmt: skip

    def __init__(self) -> None:
        self.restates = False  # the next batch restates all unfinished requests
        self.report: NodeReport | None = None
        self.policy: PolicyText | None = None
        self.upstreams: list[UpstreamReport] | None = None
        self._accounts: dict[int, Totals] = {}
        self._accessed: dict[int, int] = {}
        self._served: Sums = {}
        self._denied: Sums = {}
        self._started: dict[int, tuple[int, int, int]] = {}
        self._submitted: dict[int, tuple[int, int, int]] = {}
        self._cancelled: list[int] = []
        self._finished: list[tuple[int, int]] = []
        self._visited: list[tuple[ProcessId, int, int]] = []

    # ---- events

    def account(self, class_number: int) -> Totals:
        """Counts of this class since the last batch, for the caller to add to."""
        found = self._accounts.get(class_number)
        if found is None:
            found = self._accounts[class_number] = Totals()
        return found

    def served(self, class_number: int, count: int, cost: int) -> None:
        """Requests that started at once and are over."""
        _add(self._served, class_number, count, cost)
        account = self.account(class_number)
        account.started += count
        account.started_cost += cost

    def denied(self, class_number: int, cost: int) -> None:
        _add(self._denied, class_number, 1, cost)
        account = self.account(class_number)
        account.denied += 1
        account.denied_cost += cost

    def started(self, number: int, class_number: int, cost: int) -> None:
        """A request started at once, without waiting."""
        self._started[number] = (number, class_number, cost)
        self.count_start(class_number, cost)

    def count_start(self, class_number: int, cost: int) -> None:
        """Count the start of a request that waited for its channel."""
        account = self.account(class_number)
        account.started += 1
        account.started_cost += cost

    def restarted(self, number: int, class_number: int, cost: int) -> None:
        """A running request, already counted, continues under another number."""
        self._started[number] = (number, class_number, cost)

    def recharged(self, number: int, cost: int) -> bool:
        """The cost of a request that started at once has changed; false if a batch with it was sent already."""
        started = self._started.get(number)
        if started is None:
            return False
        self._started[number] = (number, started[1], cost)
        return True

    def submitted(self, number: int, class_number: int, cost: int) -> None:
        self._submitted[number] = (number, class_number, cost)

    def cancelled(self, number: int) -> bool:
        """Returns whether the other nodes have to be told: not if they never heard of the request."""
        if self._submitted.pop(number, None) is not None:
            return False
        self._cancelled.append(number)
        return True

    def finished(self, number: int, cost: int) -> None:
        started = self._started.pop(number, None)
        if started is None:
            self._finished.append((number, cost))
        else:
            _add(self._served, started[1], 1, cost)

    def visited(self, owner: ProcessId, number: int, cost: int) -> None:
        self._visited.append((owner, number, cost))

    def accessed(self, page_set: int, at_ms: int) -> None:
        self._accessed[page_set] = at_ms

    # ---- batches

    @property
    def is_awaited(self) -> bool:
        """A request waits for the effect of the next batch."""
        return bool(
            self._submitted or self._cancelled or self.restates or self.policy or self.report
            or self.upstreams is not None
        )  # fmt: skip

    @property
    def is_urgent(self) -> bool:
        """There is more than arrivals, cancellations and released channels."""
        return bool(self.restates or self.policy or self.report or self.upstreams is not None)

    @property
    def frees(self) -> bool:
        """A channel was released that a request may wait for."""
        return bool(self._finished or self._visited)

    @property
    def is_empty(self) -> bool:
        return not (
            self.is_awaited or self.frees or self._served or self._denied or self._started or self._accessed
            or self._accounts
        )  # fmt: skip

    def take(self, at_ms: int, generation: int, restated: NodeRestatement | None = None) -> NodeBatch:
        """Take a batch; events beyond its limits stay. `restated` is required if `restates` is set."""
        if restated is not None:
            self.restate()
        batch = NodeBatch(
            at_ms,
            generation,
            self.policy,
            self.report,
            restated,
            [(number, *astuple(totals)) for number, totals in self._accounts.items()],
            list(self._accessed.items()),
            [(number, count, cost) for number, (count, cost) in self._served.items()],
            [(number, count, cost) for number, (count, cost) in self._denied.items()],
            _some(self._started),
            _some(self._submitted),
            self._cancelled[:LIST_MAX],
            self._finished[:LIST_MAX],
            self._visited[:LIST_MAX],
            self.upstreams,
        )
        self.restates = False
        self.report = self.policy = self.upstreams = None
        self._accounts, self._accessed, self._served, self._denied = {}, {}, {}, {}
        del self._cancelled[:LIST_MAX], self._finished[:LIST_MAX], self._visited[:LIST_MAX]
        return batch

    def put_back(self, batch: NodeBatch, number_of: ClassNumbers) -> None:
        """Take back the counts of a batch that was never delivered. A restatement covers the rest."""
        for number, count, cost in batch.served:
            _add(self._served, number_of[number], count, cost)
        for _, number, cost in batch.started:
            _add(self._served, number_of[number], 1, cost)
        for number, count, cost in batch.denied:
            _add(self._denied, number_of[number], count, cost)
        for number, *counts in batch.accounts:
            self.account(number_of[number]).add(Totals(*counts))
        self.report = self.report or batch.report
        self.policy = self.policy or batch.policy
        if self.upstreams is None:
            self.upstreams = batch.upstreams

    def restate(self) -> None:
        """Make the next batch a restatement, which replaces all pending events."""
        self.restates = True
        for _, class_number, cost in self._started.values():
            _add(self._served, class_number, 1, cost)
        self._started.clear()
        self._submitted.clear()
        self._cancelled.clear()
        self._finished.clear()
        self._visited.clear()

    def translate(self, numbers: Sequence[int]) -> None:
        """Translate class numbers after a change of policy."""
        accounts, self._accounts = self._accounts, {}
        for number, totals in accounts.items():
            self.account(numbers[number]).add(totals)
        self._accessed = {}
        for sums in (self._served, self._denied):
            before = list(sums.items())
            sums.clear()
            for number, (count, cost) in before:
                _add(sums, numbers[number], count, cost)
        for listed in (self._started, self._submitted):
            for number, (_, class_number, cost) in listed.items():
                listed[number] = (number, numbers[class_number], cost)


def _add(sums: Sums, class_number: int, count: int, cost: int) -> None:
    so_far = sums.get(class_number)
    if so_far is None:
        sums[class_number] = [count, cost]
    else:
        so_far[0] += count
        so_far[1] += cost


def _some(listed: dict[int, tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    if len(listed) <= LIST_MAX:
        found = list(listed.values())
        listed.clear()
        return found
    found = [one for one, _ in zip(listed.values(), range(LIST_MAX), strict=False)]
    for number, *_ in found:
        del listed[number]
    return found
