"""Random disk histories that a process could write, and comparison of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from cluster.durable import (
    Appended,
    Boot,
    Epoch,
    Image,
    InterimOperation,
    InterimState,
    Labelled,
    Primaries,
    Rebuilt,
    Record,
    Snapshotted,
    Truncated,
)
from cluster.entries import pack_bodies
from cluster.names import Label, ProcessId, View, make_view
from cluster.run_log import Run

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

ME = ProcessId("a", 7)
OTHER = ProcessId("b", 9)


def contents(image: Image) -> dict[str, object]:
    """The content of an image in comparable form; empty runs are ignored."""
    said = {name: getattr(image, name) for name in Image.__slots__ if name != "log"}
    log = image.log
    runs = [(start, run) for start, run in zip(log._starts, log._runs, strict=True) if run.pack.count]
    return {**said, "log": (log.base, log.end, runs)}


def copy(image: Image) -> Image:
    other = Image()
    for name in Image.__slots__:
        setattr(other, name, getattr(image, name))
    other.log, other.labelled, other.interim = image.log.copy(), dict(image.labelled), list(image.interim)
    return other


class Writer:
    """Draws records that continue earlier ones: positions are in the order, labels are new."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.image = Image()
        self.seqno = 0

    def record(self) -> Record:
        kinds = [self.appended, self.appended, self.labelled, self.ordered, self.rebuilt, self.truncated,
                 self.snapshotted, self.primaries, self.boot, self.epoch, self.interim_operation,
                 self.interim_state]  # fmt: skip
        record: Record = self.draw(st.sampled_from(kinds))()
        self.image.apply(record)
        return record

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def run(self, origin: ProcessId) -> Run:
        size = self.number(0 if origin == OTHER else 1, 4)
        bodies = self.draw(st.lists(st.binary(max_size=40), min_size=size, max_size=size))
        self.seqno += 10
        return Run(self.view().id, self.seqno, origin, pack_bodies(bodies))

    def view(self) -> View:
        return make_view(self.number(0, 5), {ME: 1, OTHER: self.number(0, 3)})

    def boot(self) -> Record:
        return Boot(self.number(0, 9))

    def epoch(self) -> Record:
        return Epoch(self.number(0, 2**40))

    def primaries(self) -> Record:
        return Primaries(
            self.draw(st.sampled_from((None, self.view()))), tuple(self.view() for _ in range(self.number(0, 2)))
        )

    def labelled(self) -> Record:
        return Labelled(self.run(ME))

    def appended(self) -> Record:
        position = self.image.log.end
        if self.number(0, 5) == 0:
            position = self.number(self.image.log.base, position)
        return Appended(position, self.run(OTHER))

    def ordered(self) -> Record:
        """An own run that was labelled before."""
        waiting = sorted(self.image.labelled)
        run = self.image.labelled[self.draw(st.sampled_from(waiting))] if waiting else self.run(ME)
        return Appended(self.image.log.end, run)

    def rebuilt(self) -> Record:
        log = self.image.log
        snapshot = self.snapshot(self.number(0, log.end + 20)) if self.number(0, 1) else None
        position = snapshot.position if snapshot else self.number(log.base, log.end)
        runs = tuple(self.run(OTHER) for _ in range(self.number(0, 3)))
        return Rebuilt(position, runs, self.view().id, self.number(0, position + 5), snapshot)

    def snapshotted(self) -> Record:
        return self.snapshot(self.number(0, self.image.log.end))

    def snapshot(self, position: int) -> Snapshotted:
        highest = tuple(Label(self.view().id, self.number(0, 99), who) for who in (ME, OTHER))
        size = self.draw(st.sampled_from((0, 1, 100, 262_144, 262_145, 600_000)))
        return Snapshotted(position, highest, self.draw(st.binary(min_size=1, max_size=1)) * size)

    def interim_operation(self) -> Record:
        return InterimOperation(OTHER, self.draw(st.binary(max_size=40)), float(self.number(0, 9)))

    def interim_state(self) -> Record:
        return InterimState(b"s" * self.draw(st.sampled_from((0, 100, 300_000))), float(self.number(0, 9)))

    def truncated(self) -> Record:
        return Truncated(self.number(0, self.image.log.end + 3))


@st.composite
def histories(draw: DrawFn) -> list[list[Record]]:
    """Transactions of a few records each."""
    writer = Writer(draw)
    return [[writer.record() for _ in range(draw(st.integers(0, 5)))] for _ in range(draw(st.integers(1, 8)))]
