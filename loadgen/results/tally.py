"""Counters and latency histograms of a run by class: worker processes send increments, the run adds them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from loadgen.results.histogram import VALUE_MAX, index_of
from loadgen.results.outcomes import ACCEPTED, DENIED, FAILED

if TYPE_CHECKING:
    from loadgen.results.results import Result

CLASSES_MAX = 1000
KINDS_MAX = 200  # of causes and reasons: a server can send any text
OTHERS = "(others)"

Counts = dict[str, int]
Slots = dict[int, int]  # of a histogram in microseconds


class ClassTally(msgspec.Struct):
    """Outcomes of the requests of one class."""

    outcomes: Counts = {}
    reasons: Counts = {}  # of denials
    causes: Counts = {}  # of failures
    answered_as: Counts = {}  # by the class that the server named
    bytes: int = 0  # of bodies of accepted responses
    redirects: int = 0  # followed
    redirected: int = 0  # requests with at least one followed redirect
    retries: int = 0
    latency_us: Slots = {}  # of accepted requests, since the due time
    answer_us: Slots = {}  # of the same, since sending
    denial_us: Slots = {}  # of denied requests
    latency_max_us: int = 0

    def add(self, other: ClassTally) -> None:
        for mine, theirs in (
            (self.outcomes, other.outcomes),
            (self.reasons, other.reasons),
            (self.causes, other.causes),
            (self.answered_as, other.answered_as),
        ):
            for name, count in theirs.items():
                add_count(mine, name, count)
        self.bytes += other.bytes
        self.redirects += other.redirects
        self.redirected += other.redirected
        self.retries += other.retries
        for slots, more in (
            (self.latency_us, other.latency_us),
            (self.answer_us, other.answer_us),
            (self.denial_us, other.denial_us),
        ):
            for slot, count in more.items():
                slots[slot] = slots.get(slot, 0) + count
        self.latency_max_us = max(self.latency_max_us, other.latency_max_us)

    def fail(self, cause: str, count: int = 1) -> None:
        self.outcomes[FAILED] = self.outcomes.get(FAILED, 0) + count
        add_count(self.causes, cause, count)

    def count(self, outcome: str) -> int:
        return self.outcomes.get(outcome, 0)

    @property
    def requests(self) -> int:
        return sum(self.outcomes.values())


class RunTally(msgspec.Struct):
    """Counters of all classes and of the generator itself."""

    classes: dict[str, ClassTally] = {}
    targets: dict[int, int] = {}  # requests by target
    late_us: Slots = {}  # how late the generator took up requests after their due times
    late_max_us: int = 0
    read_late_us: Slots = {}  # how long responses waited until the generator read them, where known
    read_late_max_us: int = 0
    connections: int = 0  # opened
    connections_failed: int = 0  # failed to open
    unasked: int = 0  # connections on which unrequested data arrived

    def of(self, name: str) -> ClassTally:
        found = self.classes.get(name)
        if found is None:
            if len(self.classes) >= CLASSES_MAX:
                name = OTHERS
                if name in self.classes:
                    return self.classes[name]
            found = self.classes[name] = ClassTally()
        return found

    def count(self, result: Result, closed_loop: bool) -> None:
        """Count one request with its outcome."""
        name = result.counted_as
        mine = self.classes.get(name) or self.of(name)
        outcome, latency_us = result.outcome, result.latency_us
        mine.outcomes[outcome] = mine.outcomes.get(outcome, 0) + 1
        if outcome == ACCEPTED:
            add_value(mine.latency_us, latency_us)
            mine.latency_max_us = max(mine.latency_max_us, latency_us)
            add_value(mine.answer_us, latency_us if closed_loop else latency_us - result.sent_us)
            mine.bytes += result.bytes
        elif outcome == DENIED:
            add_value(mine.denial_us, latency_us)
            add_count(mine.reasons, result.reason)
        elif outcome == FAILED:
            add_count(mine.causes, result.cause)
        if result.answered_as:
            add_count(mine.answered_as, result.answered_as)
        if result.redirects:
            mine.redirects += result.redirects
            mine.redirected += 1
        mine.retries += result.retries
        self.targets[result.target] = self.targets.get(result.target, 0) + 1
        add_value(self.late_us, result.late_us)
        self.late_max_us = max(self.late_max_us, result.late_us)
        if result.read_late_us >= 0:
            add_value(self.read_late_us, result.read_late_us)
            self.read_late_max_us = max(self.read_late_max_us, result.read_late_us)

    def add(self, other: RunTally) -> None:
        for name, tally in other.classes.items():
            self.of(name).add(tally)
        for target, count in other.targets.items():
            self.targets[target] = self.targets.get(target, 0) + count
        for slots, more in ((self.late_us, other.late_us), (self.read_late_us, other.read_late_us)):
            for slot, count in more.items():
                slots[slot] = slots.get(slot, 0) + count
        self.late_max_us = max(self.late_max_us, other.late_max_us)
        self.read_late_max_us = max(self.read_late_max_us, other.read_late_max_us)
        self.connections += other.connections
        self.connections_failed += other.connections_failed
        self.unasked += other.unasked

    def whole(self) -> ClassTally:
        """All classes as one."""
        whole = ClassTally()
        for tally in self.classes.values():
            whole.add(tally)
        return whole

    @property
    def requests(self) -> int:
        return sum(tally.requests for tally in self.classes.values())


def add_count(counts: Counts, name: str, count: int = 1) -> None:
    if name not in counts and len(counts) >= KINDS_MAX:
        name = OTHERS
    counts[name] = counts.get(name, 0) + count


def add_value(slots: Slots, value_us: int) -> None:
    """Record a duration in a histogram (up to 2047 us each value has its own slot)."""
    slot = value_us if 0 <= value_us < 2048 else index_of(min(max(value_us, 0), VALUE_MAX))
    slots[slot] = slots.get(slot, 0) + 1
