"""Log of the reports of one origin that a process holds: its outgoing buffer toward all peers.

Paper: Semantically Reliable Broadcast, fig. 3 (TP2, TP5) and section 2.5.
Departs: every outgoing buffer O_ij of the paper gets the same reports, and a purge is allowed in all of them at the
same time. So there is one log, and each peer has its position in it. The current value of every item stays after all
peers have it, for newcomers.

Invariants:
- Of each item, the log keeps one report with a number up to `safe` and all reports above it.
- A number up to `held` that is missing although no later report of its item is in the log was purged by the origin in
  the view in which this process last confirmed the origin's reports. So more than f members of that view hold its
  successor. `companions` are the members of that view that moved together with this process ever since: they may
  lack what this log has, and are sent it when the origin is gone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId

OVERHEAD_BYTES = 64  # counted for each report in addition to its item and value


class KeptReport(NamedTuple):
    """A report in memory. `born`: when it was published, by the clock of this process."""

    item: str
    value: bytes
    born: float

    @property
    def size(self) -> int:
        return len(self.item) + len(self.value) + OVERHEAD_BYTES


class ReportLog:
    """Everything that a process holds of one origin."""

    __slots__ = ("_settled", "_unsafe", "companions", "held", "kept", "safe", "skipped")

    def __init__(self) -> None:
        self.held = 0  # all numbers up to this one were received or skipped as purged
        self.safe = 0  # more than f members hold all numbers up to this one
        self.kept: dict[int, KeptReport] = {}  # by number, ascending
        self.companions: set[ProcessId] = set()  # members to which it is forwarded if they lack reports
        self.skipped = 0  # numbers that never arrived because the sender had purged them
        self._settled: dict[str, int] = {}  # the number up to `safe` that is kept of each item
        self._unsafe: deque[int] = deque()  # the numbers above `safe`

    def append(self, number: int, report: KeptReport) -> None:
        """Adds a report. Numbers that it skips were purged by the sender."""
        self.kept[number] = report
        self._unsafe.append(number)
        self.skipped += number - self.held - 1
        self.held = number

    def cover(self, number: int) -> None:
        """Skips numbers up to this one: they were purged by the sender."""
        if number > self.held:
            self.skipped += number - self.held
            self.held = number

    def advance_safe(self, safe: int, purge: Callable[[int, int], None]) -> None:
        """All numbers up to `safe` are safe: purges what they make obsolete. Calls `purge(number, successor)` first."""
        self.safe = max(self.safe, min(safe, self.held))
        while self._unsafe and self._unsafe[0] <= self.safe:
            number = self._unsafe.popleft()
            item = self.kept[number].item
            before = self._settled.get(item)
            if before is not None:
                purge(before, number)
                del self.kept[before]
            self._settled[item] = number

    def drop(self, number: int) -> None:
        """Drops all reports up to this number, obsolete or not: plain reliable broadcast keeps no current values."""
        while self._unsafe and self._unsafe[0] <= number:
            del self.kept[self._unsafe.popleft()]

    def after(self, number: int) -> list[int]:
        """The numbers of the kept reports above `number`, ascending."""
        found: list[int] = []
        for kept in reversed(self.kept):
            if kept <= number:
                break
            found.append(kept)
        found.reverse()
        return found
