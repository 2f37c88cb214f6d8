"""DISK: a state machine sees only what is on the disk of its process."""

from __future__ import annotations

from cluster.actions import Applied, Restored
from cluster.durable import Image, Snapshotted
from cluster.run_log import RunLog, runs_of
from cluster.specs.disk import DiskSpec
from tests.cluster.specs.traces import A, B, Trace, allows, each, entry, label, preconditions, refuses

X, Y = label(1, 1, A), label(1, 2, A)


def disk(base: int = 0) -> DiskSpec:
    """The disk of A has two entries from this position on, and a snapshot there. The disk of B is empty."""
    written = Image()
    written.log = RunLog(base)
    written.log.extend(runs_of([(X, entry("x")), (Y, entry("y"))]))
    written.snapshot = Snapshotted(base, (), b"") if base else None
    return DiskSpec({A: written, B: Image()}.__getitem__)


REFUSED: dict[str, list[Trace]] = {
    "apply: the entry is on the disk of p": [
        [(A, Applied(5, Y, entry("y")))],
        [(A, Applied(7, Y, entry("y")))],
        [(A, Applied(4, X, entry("x")))],
        [(B, Applied(0, X, entry("x")))],
    ],
    "restore: the snapshot is on the disk of p": [[(A, Restored(4))], [(A, Restored(6))], [(B, Restored(0))]],
}


@each({f"{clause} ({number})": trace for clause, traces in REFUSED.items() for number, trace in enumerate(traces)})
def test_refuses(clause: str, trace: Trace) -> None:
    refuses([disk(5)], trace, clause.rpartition(" (")[0])


def test_every_clause_is_refused() -> None:
    assert set(REFUSED) == preconditions(DiskSpec)


def test_entries_on_disk_may_be_applied() -> None:
    allows([disk(5)], [(A, Restored(5)), (A, Applied(5, X, entry("x"))), (A, Applied(6, Y, entry("y")))])
    allows([disk()], [(A, Applied(0, X, entry("x"))), (A, Applied(1, Y, entry("y")))])
