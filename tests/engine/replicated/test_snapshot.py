"""Snapshots: a restored state machine behaves the same, whatever came before and comes after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cluster.names import ProcessId, make_view
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.entries import UNUSED, NodeBatch, NodeReport, NodeRestatement, PolicyText
from qosweb.engine.replicated.invariants import violated_invariants
from qosweb.engine.replicated.state_machine import QosStateMachine
from qosweb.engine.replicated.upstreams import UpstreamReport, Vote
from qosweb.engine.sim.policies import POLICIES, policy_of

if TYPE_CHECKING:
    from qosweb.engine.replicated.effects import Effect

NODES = [ProcessId(name) for name in "abc"]
QUICK = settings(  # without shrinking, which takes minutes
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
COMPILED = [policy_of(text) for text in POLICIES]

numbers = st.integers(1, 25)
classes = st.integers(0, 5)
costs = st.integers(0, 70_000)
three = st.tuples(numbers, classes, costs)

batches = st.builds(
    NodeBatch,
    at_ms=st.integers(0, 5_000),
    generation=st.integers(0, 4),
    policy=st.none() | st.none() | st.sampled_from([PolicyText(policy.text, policy.packed) for policy in COMPILED]),
    report=st.none()
    | st.builds(NodeReport, st.integers(0, 600_000), st.integers(0, 10**6), st.integers(0, 10**8), st.just("u")),
    restated=st.none()
    | st.builds(
        NodeRestatement,
        st.integers(1, 9),
        st.lists(three, unique_by=lambda one: one[0], max_size=3),
        st.lists(three.map(lambda one: (one[0] + 30, *one[1:])), unique_by=lambda one: one[0], max_size=3),
    ),
    accounts=st.lists(st.tuples(classes, *[st.integers(0, 9)] * 6), max_size=2),
    accessed=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5_000)), max_size=2),
    served=st.lists(three, max_size=2),
    denied=st.lists(three, max_size=2),
    started=st.lists(three, max_size=3),
    submitted=st.lists(three, max_size=6),
    cancelled=st.lists(numbers, max_size=3),
    finished=st.lists(st.tuples(numbers, costs), max_size=4),
    visited=st.lists(st.tuples(st.sampled_from(NODES), numbers, costs | st.just(UNUSED)), max_size=2),
    upstreams=st.none()
    | st.lists(
        st.builds(
            UpstreamReport,
            st.sampled_from("xy"),
            st.just("u"),
            st.booleans(),
            st.integers(1, 2),
            st.integers(1, 2),
            st.just(()),
            st.just(()),
            st.sampled_from(Vote),
        ),
        max_size=2,
    ),
)
steps = st.tuples(st.sampled_from(NODES), batches) | st.sets(st.sampled_from(NODES), min_size=1)
Step = tuple[ProcessId, NodeBatch] | set[ProcessId]


def with_unique_numbers(sequence: list[Step]) -> list[Step]:
    """As real nodes send it: a node starts or submits no number twice, except that it may restate a request."""
    used: set[tuple[ProcessId, int]] = set()
    found: list[Step] = []

    def fresh(origin: ProcessId, ones: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        kept = []
        for one in ones:
            if (origin, one[0]) not in used:
                used.add((origin, one[0]))
                kept.append(one)
        return kept

    for step in sequence:
        if isinstance(step, set):
            found.append(step)
            continue
        origin, batch = step
        if batch.restated is not None:
            fresh(origin, batch.restated.running + batch.restated.waiting)
        started, submitted = fresh(origin, batch.started), fresh(origin, batch.submitted)
        found.append((origin, msgspec.structs.replace(batch, started=started, submitted=submitted)))
    return found


class Replica:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.machine = QosStateMachine(NODES[0], COMPILED[0], self.effects.append)
        self.position = 0
        self.step(set(NODES))

    def step(self, step: Step) -> None:
        self.position += 1
        if isinstance(step, set):
            view = make_view(self.position, dict.fromkeys(step, self.position))
            self.machine.view_changed(self.position, view)
        else:
            self.machine.apply(self.position, step[0], entries.encode(step[1]))
        assert violated_invariants(self.machine) == []


@given(st.lists(steps, max_size=12), st.lists(steps, max_size=8))
@settings(QUICK, max_examples=40)
def test_restored_machine_behaves_the_same(
    before: list[Step],
    after: list[Step],
) -> None:
    one, other = Replica(), Replica()
    sequence = with_unique_numbers(before + after)
    before, after = sequence[: len(before)], sequence[len(before) :]
    for step in before:
        one.step(step)
    state = one.machine.snapshot()
    other.machine.restore(state)
    other.position = one.position
    assert other.machine.snapshot() == state
    one.effects.clear()
    other.effects.clear()
    for step in after:
        one.step(step)
        other.step(step)
        assert one.machine.snapshot() == other.machine.snapshot()
    assert one.effects == other.effects


@given(st.lists(steps, max_size=10))
@settings(QUICK, max_examples=20)
def test_equal_states_have_equal_bytes_at_any_replica(
    sequence: list[Step],
) -> None:
    one, other = Replica(), Replica()
    other.machine.me = NODES[2]
    for step in with_unique_numbers(sequence):
        one.step(step)
        other.step(step)
    assert one.machine.snapshot() == other.machine.snapshot()


def test_a_snapshot_can_be_taken_while_it_goes_on() -> None:
    """The bytes do not change with the state machine."""
    one, other = Replica(), Replica()
    one.step(
        (NODES[0], NodeBatch(5, 0, report=NodeReport(100_000, 0, 0, ""), submitted=[(n, 0, 9_000) for n in range(9)]))
    )
    state = one.machine.snapshot()
    one.step((NODES[0], NodeBatch(9, 0, cancelled=[7, 8])))
    other.machine.restore(state)
    assert other.machine.snapshot() == state
