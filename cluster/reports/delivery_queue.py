"""Delivery queue: reports that wait for the application; a newer report replaces an older one of its item.

Paper: Semantically Reliable Broadcast, fig. 3 (TP3, TP4), where it is Q_i.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cluster.reports.messages import Origin
    from cluster.reports.report_log import KeptReport


class QueuedReport(NamedTuple):
    """A report that waits for delivery."""

    origin: Origin
    number: int
    report: KeptReport


class DeliveryQueue:
    """Q_i without the purged reports, in the order of arrival: ascending numbers for each origin."""

    __slots__ = ("_reports", "len_max", "purged", "semantic")

    def __init__(self, len_max: int, *, semantic: bool) -> None:
        self.len_max = len_max
        self.semantic = semantic
        self.purged = 0  # purge_q_i(m)
        self._reports: dict[tuple[Origin, str | int], QueuedReport] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def has_room(self, origin: Origin, item: str) -> bool:
        return len(self._reports) < self.len_max or (self.semantic and (origin, item) in self._reports)

    def put(self, queued: QueuedReport) -> None:
        """Adds a report and purges the one that it makes obsolete (TP4)."""
        key = (queued.origin, queued.report.item if self.semantic else queued.number)
        if self._reports.pop(key, None) is not None:
            self.purged += 1
        self._reports[key] = queued

    def pop(self) -> QueuedReport:
        return self._reports.pop(next(iter(self._reports)))

    def forget(self, origin: Origin) -> None:
        for key in [key for key in self._reports if key[0] == origin]:
            del self._reports[key]
