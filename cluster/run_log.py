"""In-memory replicated log, stored as runs of consecutive entries of one sender.

Entries travel in runs, and a run costs the same however many entries it has. Positions count from 0 over the whole
history. A log has the positions from `base` on, and `base` is always the start of a run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import msgspec

from cluster.entries import Entry, Pack, pack
from cluster.names import Label, ProcessId, ViewId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_new = tuple.__new__  # creates a Label in a third of the time of Label(...)


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Entries with the labels (view_id, seqno, origin), (view_id, seqno + 1, origin), ..."""

    view_id: ViewId
    seqno: int
    origin: ProcessId
    pack: Pack

    @property
    def entries(self) -> list[Entry]:
        return self.pack.entries()

    @property
    def first(self) -> Label:
        return _new(Label, (self.view_id, self.seqno, self.origin))

    @property
    def last(self) -> Label:
        return _new(Label, (self.view_id, self.seqno + self.pack.count - 1, self.origin))

    def part(self, low: int, high: int) -> Run:
        """The entries low, low + 1, ..., high - 1."""
        if low == 0 and high == self.pack.count:
            return self
        return Run(self.view_id, self.seqno + low, self.origin, self.pack.part(low, high))

    def labelled(self) -> Iterator[tuple[Label, Entry]]:
        for i, entry in enumerate(self.entries):
            yield Label(self.view_id, self.seqno + i, self.origin), entry


def runs_of(labelled: Iterable[tuple[Label, Entry]]) -> Iterator[Run]:
    """Groups labelled entries into the fewest runs that keep their order."""
    first: Label | None = None
    entries: list[Entry] = []
    for label, entry in labelled:
        if first is None or label != (first.view_id, first.seqno + len(entries), first.origin):
            if first is not None:
                yield Run(*first, pack(entries))
            first, entries = label, []
        entries.append(entry)
    if first is not None:
        yield Run(*first, pack(entries))


class RunLog:
    __slots__ = ("_runs", "_starts", "base", "end")

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.end = base  # the position after the last entry
        self._runs: list[Run] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        return self.end - self.base

    def __getitem__(self, index: int) -> tuple[Label, Entry]:
        """The entry at position base + index, with its label."""
        run, offset = self.find(self.base + index)
        return Label(run.view_id, run.seqno + offset, run.origin), run.entries[offset]

    def copy(self) -> RunLog:
        other = RunLog(self.base)
        other.end, other._runs, other._starts = self.end, self._runs[:], self._starts[:]
        return other

    def append(self, run: Run) -> None:
        self._starts.append(self.end)
        self._runs.append(run)
        self.end += run.pack.count

    def extend(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.append(run)

    def find(self, position: int) -> tuple[Run, int]:
        """The run that contains this position, and the index within the run."""
        if not self.base <= position < self.end:
            raise IndexError(f"position {position} is not in {self.base}..{self.end}")
        starts = self._starts
        at = len(starts) - 1
        if starts[at] > position:  # usually in one of the last runs, and the others are not in the CPU cache
            at -= 1
            if starts[at] > position:
                at = bisect_right(starts, position) - 1
        return self._runs[at], position - starts[at]

    def since(self, position: int, end: int | None = None) -> Iterator[tuple[Label, Entry]]:
        """The entries at `position`, `position` + 1, ... (before `end`), with their labels."""
        for run in self.runs(position, end):
            yield from run.labelled()

    def runs(self, position: int, end: int | None = None) -> list[Run]:
        """The same entries as runs. The first and the last run are cut to the requested range."""
        end = self.end if end is None else end
        if position >= end:
            return []
        _, offset = self.find(position)
        first, behind = bisect_right(self._starts, position) - 1, bisect_left(self._starts, end)
        runs = self._runs[first:behind]
        runs[-1] = runs[-1].part(0, min(runs[-1].pack.count, end - self._starts[behind - 1]))
        runs[0] = runs[0].part(offset, runs[0].pack.count)
        return runs

    def cut(self, position: int) -> None:
        """Drops everything from this position on."""
        while self._starts and self._starts[-1] >= position:
            self._starts.pop()
            self.end -= self._runs.pop().pack.count
        if self.end > position:
            run = self._runs.pop()
            self._runs.append(run.part(0, position - self._starts[-1]))
            self.end = position

    def drop_below(self, position: int) -> None:
        """Drops all runs that lie entirely below this position."""
        count = bisect_right(self._starts, position) - (position < self.end)
        if count > 0:
            del self._runs[:count], self._starts[:count]
            self.base = self._starts[0] if self._starts else self.end
