"""``./dev bench decisions``: CPU time of a queued decision in the replicated state machine.

Three replicas in one process, each the state machine of one node. A decision is a request that is submitted, granted
when another request ends, and ends. Each batch of a node submits a fixed number, and ends as many of its granted
requests, so the queue keeps its initial length. The cost is CPU time per decision and replica, including decoding: the
run of the three replicas is recorded first, and then replayed by a replica with the same initial state. Cluster time
advances as at 5,000 decisions per second and node.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import deque
from typing import TYPE_CHECKING

from cluster.names import ProcessId, make_view
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.effects import Effect, Granted, Reserved
from qosweb.engine.replicated.entries import NodeBatch, NodeReport, PolicyText
from qosweb.engine.replicated.state_machine import QosStateMachine
from qosweb.engine.sim.policies import policy_of

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = [ProcessId(name) for name in "abc"]
BATCHES = (1, 10, 100)
WAITING = (10, 100_000)
CLASSES = (5, 40)
CHANNELS = 200  # of each node: more than one batch ends
CHANNEL_BPS = 16_384 * 1000 // 64
COST = 16_384 * 100  # so long that nothing is granted ahead
PER_S = 5_000
GOAL_US = 15.0


class Trio:
    """Three replicas, and the requests granted to each node."""

    def __init__(self, classes: int) -> None:
        share = 100 / classes
        text = "set channel = 16KB in 64ms\n" + "".join(
            f"</c{number}>.server_resource = {share:.2f}%\n" for number in range(classes)
        )
        policy = policy_of(text)
        self.classes = classes
        self.effects: list[Effect] = []
        self.granted: dict[ProcessId, deque[int]] = {node: deque() for node in NODES}
        self.visits: dict[ProcessId, deque[tuple[ProcessId, int]]] = {node: deque() for node in NODES}
        self.machines = [QosStateMachine(node, CompiledPolicy.empty(), self._effect_of(node)) for node in NODES]
        self.number = self.position = 0
        self.told: list[tuple[ProcessId, bytes]] = []
        for machine in self.machines:
            machine.view_changed(0, make_view(1, dict.fromkeys(NODES, 1)))
        self.tell(NODES[0], NodeBatch(0, 0, PolicyText(policy.text, policy.packed)))
        for node in NODES:
            self.tell(node, NodeBatch(0, 1, report=NodeReport(CHANNELS * CHANNEL_BPS, 0, 0, "")))

    def _effect_of(self, node: ProcessId) -> Callable[[Effect], None]:
        granted, visits = self.granted[node], self.visits[node]

        def effect(effect: Effect) -> None:
            if isinstance(effect, Granted):
                if effect.at == node:
                    granted.append(effect.number)
            elif isinstance(effect, Reserved):
                visits.append((effect.owner, effect.number))

        return effect

    def tell(self, node: ProcessId, batch: NodeBatch) -> None:
        self.position += 1
        body = entries.encode(batch)
        self.told.append((node, body))
        for machine in self.machines:
            machine.apply(self.position, node, body)

    def submits(self, count: int) -> list[tuple[int, int, int]]:
        first = self.number + 1
        self.number += count
        return [(number, number % self.classes, COST) for number in range(first, first + count)]

    def round(self, node: ProcessId, count: int, at_ms: int) -> int:
        """One batch of this node; returns the number of decisions that it ends."""
        granted, visits = self.granted[node], self.visits[node]
        finished = [(granted.popleft(), COST) for _ in range(min(count, len(granted)))]
        visited = [(*visits.popleft(), COST) for _ in range(min(count - len(finished), len(visits)))]
        ended = len(finished) + len(visited)
        self.tell(node, NodeBatch(at_ms, 1, submitted=self.submits(ended), finished=finished, visited=visited))
        return ended


def measure(batch: int, waiting: int, classes: int, decisions: int, runs: int) -> float:
    """Microseconds per decision in one replica, in the best run."""
    trio = Trio(classes)
    each = (waiting + 3 * CHANNELS) // 3 + 1
    for node in NODES:
        for first in range(0, each, entries.LIST_MAX):
            trio.tell(node, NodeBatch(0, 1, submitted=trio.submits(min(entries.LIST_MAX, each - first))))
    for step in range(30):  # warm
        trio.round(NODES[step % 3], batch, 0)
    trio.told.clear()
    before = trio.machines[0].snapshot()
    done = step = 0
    while done < decisions:
        done += trio.round(NODES[step % 3], batch, step * batch * 1000 // (3 * PER_S))
        step += 1
    return min(_again(before, trio.told) for _ in range(runs)) / done * 1e6


def _again(before: bytes, told: list[tuple[ProcessId, bytes]]) -> float:
    """Seconds for one replica to replay the recorded run."""
    machine = QosStateMachine(NODES[0], CompiledPolicy.empty(), lambda _effect: None)
    machine.restore(before)
    gc.collect()
    start = time.thread_time()
    for node, body in told:
        machine.apply(0, node, body)
    return time.thread_time() - start


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench decisions", description=__doc__)
    parser.add_argument("--decisions", type=int, default=6_000, help="decisions per measurement")
    parser.add_argument("--runs", type=int, default=5, help="runs per measurement, of which the best counts")
    options = parser.parse_args(arguments)
    print(f"Microseconds of CPU time per decision and replica (goal: {GOAL_US:.0f}), best of {options.runs};")
    print(f"and the part of one core, over three nodes of {PER_S} decisions per second each.")
    print(f"{'batch':>6}{'waiting':>9}{'classes':>9}{'us':>8}{'cores':>8}")
    for classes in CLASSES:
        for waiting in WAITING:
            for batch in BATCHES:
                cost_us = measure(batch, waiting, classes, options.decisions, options.runs)
                cores = 3 * cost_us * 3 * PER_S / 1e6
                print(f"{batch:>6}{waiting:>9}{classes:>9}{cost_us:>8.1f}{cores:>8.2f}", flush=True)
    return 0
