"""A history in format 1, recorded by the version that wrote it: replicas continue alike from any of its snapshots.

`format_1_history.txt` has the entries and views of two nodes, and the snapshot after each. It is never regenerated.
"""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from cluster.names import ProcessId, View
from qosweb.engine.replicated import entries, snapshot
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.entries import NodeBatch, NodeRestatement
from qosweb.engine.replicated.invariants import violated_invariants
from qosweb.engine.replicated.snapshot import EngineSnapshot
from qosweb.engine.replicated.state_machine import QosStateMachine

HISTORY = Path(__file__).parents[1] / "data" / "format_1_history.txt"


class Step(NamedTuple):
    origin: str  # empty: a view
    body: bytes
    state: bytes  # the snapshot after it


def read_history() -> list[Step]:
    steps, origin, body = [], "", b""
    for line in HISTORY.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "snapshot":
            steps.append(Step(origin, body, literal_eval(rest)))
        elif kind == "view":
            origin, body = "", literal_eval(rest)
        else:
            name, _, rest = rest.partition(" ")
            origin, body = literal_eval(name), literal_eval(rest)
    return steps


STEPS = read_history()


def new_machine() -> QosStateMachine:
    return QosStateMachine(ProcessId("a"), CompiledPolicy.empty(), lambda _effect: None)


def apply(machine: QosStateMachine, position: int) -> None:
    step = STEPS[position]
    if step.origin:
        machine.apply(position + 1, ProcessId(step.origin), step.body)
    else:
        machine.view_changed(position + 1, msgspec.msgpack.decode(step.body, type=View))


@pytest.fixture(scope="module")
def replayed() -> list[bytes]:
    """The snapshots of a replica that applied the whole history."""
    machine, found = new_machine(), []
    for position in range(len(STEPS)):
        apply(machine, position)
        assert violated_invariants(machine) == []
        found.append(machine.snapshot())
    return found


def test_the_history_has_what_must_be_dropped() -> None:
    states = [msgspec.msgpack.decode(step.state[1:], type=EngineSnapshot) for step in STEPS]
    assert {step.state[0] for step in STEPS} == {1}
    assert any(one.queues for state in states for one in state.classes)
    assert any(pipe.channels for state in states for _, pipe in state.pipes)
    assert len({state.generation for state in states}) == 3
    assert len({len(state.pipes) for state in states}) == 2


@pytest.mark.parametrize("position", range(len(STEPS)))
def test_replica_continues_from_any_snapshot_as_if_it_had_replayed_the_history(
    position: int, replayed: list[bytes]
) -> None:
    machine = new_machine()
    machine.restore(STEPS[position].state)
    assert machine.snapshot() == replayed[position]
    for later in range(position + 1, len(STEPS)):
        apply(machine, later)
    assert machine.snapshot() == replayed[-1]


def test_policy_and_totals_are_taken_over(replayed: list[bytes]) -> None:
    then, now = msgspec.msgpack.decode(STEPS[-1].state[1:], type=EngineSnapshot), snapshot.decode(replayed[-1])
    assert now.text == then.text
    assert (now.generation, now.time_ms, now.view) == (then.generation, then.time_ms, then.view)
    assert [(one.name, one.totals) for one in now.classes] == [(one.name, one.totals) for one in then.classes]
    assert any(one.totals.started for one in now.classes)
    assert [(pid, pipe.capacity_bps, pipe.url) for pid, pipe in now.pipes] == [
        (pid, pipe.capacity_bps, pipe.url) for pid, pipe in then.pipes
    ]


def test_requests_are_served_afterwards() -> None:
    machine = new_machine()
    machine.restore(STEPS[-1].state)
    a = ProcessId("a")
    body = entries.encode(
        NodeBatch(machine.time_ms, machine.generation, restated=NodeRestatement(1, [], [(1, 0, 9_000)]))
    )
    machine.apply(len(STEPS) + 1, a, body)
    assert (a, 1) in machine.pipes[a].channels
    assert violated_invariants(machine) == []
