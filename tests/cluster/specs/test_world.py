"""WORLD: allowed traces, and each violation."""

from __future__ import annotations

from cluster.actions import Block
from cluster.specs.world import WorldSpec
from tests.cluster.specs.traces import CRASH, CRASH_DISK, RECOVER, A, B, Trace, allows, each, preconditions, refuses

REFUSED: dict[str, Trace] = {
    "a process that crashed takes no step before it recovers": [(A, Block()), (A, CRASH), (B, Block()), (A, Block())],
    "recover: the disk is still there": [(A, CRASH_DISK), (A, RECOVER)],
}


@each(REFUSED)
def test_refused(clause: str, trace: Trace) -> None:
    refuses([WorldSpec()], trace, clause)


def test_every_clause_is_refused() -> None:
    assert set(REFUSED) == preconditions(WorldSpec)


def test_a_process_takes_steps_after_its_recovery() -> None:
    allows([WorldSpec()], [(A, CRASH), (A, RECOVER), (A, Block()), (A, CRASH), (A, RECOVER)])


def test_the_first_start_may_be_reported_or_not() -> None:
    allows([WorldSpec()], [(A, RECOVER), (A, Block()), (B, Block())])
