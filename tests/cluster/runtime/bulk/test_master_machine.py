"""The master as a replicated state machine: snapshots and bad entries."""

from __future__ import annotations

import msgspec

from cluster.bulk.master import AddMember, ChangeView, Entry, Grant, MarkReady
from cluster.names import ProcessId
from cluster.runtime.bulk.master_machine import MasterMachine

A, B = ProcessId("a", 1), ProcessId("b", 2)


def test_a_snapshot_restores_the_master() -> None:
    machine, copy = MasterMachine("c"), MasterMachine("c")
    entries: tuple[Entry, ...] = (
        ChangeView((A, B)), AddMember(A, 1, True), AddMember(B, 1, True), MarkReady(B, 2), Grant(A, 1),
    )  # fmt: skip
    for entry in entries:
        assert machine.apply(0, A, msgspec.msgpack.encode(entry)) is None
    copy.restore(machine.snapshot())
    assert copy.snapshot() == machine.snapshot()
    for one in (machine, copy):
        one.apply(0, B, msgspec.msgpack.encode(Grant(B, 1)))
    assert copy.snapshot() == machine.snapshot()
    assert copy.master.pending() == [(3, A), (4, B)]


def test_an_entry_that_is_none_changes_nothing() -> None:
    machine = MasterMachine("c")
    before = machine.snapshot()
    assert "not an entry" in str(machine.apply(0, A, b"nonsense"))
    assert machine.snapshot() == before
