"""Test driver: a state machine with nodes that submit, finish and wait, on time set by the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId, make_view
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.entries import NodeBatch, NodeReport
from qosweb.engine.replicated.invariants import violated_invariants
from qosweb.engine.replicated.state_machine import QosStateMachine
from qosweb.webqos import compile_policy

if TYPE_CHECKING:
    from qosweb.engine.replicated.effects import Effect


def policy_of(text: str) -> CompiledPolicy:
    return CompiledPolicy.of_model(text, compile_policy(text, check=False).require_model())


class Cluster:
    """One replica, seen through the eyes of its first member. The invariants are looked at every so many entries."""

    check_every = 1

    def __init__(self, text: str, nodes: str = "a", capacity_bps: int = 2_000_000) -> None:
        self.pids = {name: ProcessId(name) for name in nodes}
        self.effects: list[Effect] = []
        self.machine = QosStateMachine(self.pids[nodes[0]], policy_of(text), self.effects.append)
        self.position = 0
        self.epoch = 0
        self.view(nodes)
        for name in nodes:
            self.tell(name, report=NodeReport(capacity_bps, 0, 0, f"http://{name}"))

    def view(self, nodes: str) -> None:
        self.epoch += 1
        self.position += 1
        self.pids.update({name: ProcessId(name) for name in nodes if name not in self.pids})
        self.machine.view_changed(self.position, make_view(self.epoch, {self.pids[name]: self.epoch for name in nodes}))
        self.check()

    def tell(self, node: str, at_ms: int | None = None, **what: object) -> None:
        self.position += 1
        batch = NodeBatch(self.machine.time_ms if at_ms is None else at_ms, self.machine.generation, **what)  # type: ignore[arg-type]
        self.machine.apply(self.position, self.pids[node], entries.encode(batch))
        self.check()

    def check(self) -> None:
        if self.position % self.check_every == 0:
            assert violated_invariants(self.machine) == []

    def number(self, name: str) -> int:
        return self.machine.names_now().index(name)

    def running(self, node: str) -> list[tuple[str, int]]:
        return [(owner.name, number) for owner, number in self.machine.pipes[self.pids[node]].channels]
