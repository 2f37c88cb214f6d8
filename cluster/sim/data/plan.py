"""Run plan of the data service in the simulator: the faults of the stack, and what its clients do when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.sim.plan import DATA_AMBUSH_ACTIONS, RunPlan, make_plan
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from cluster.settings import Settings

KEPT_SUBMISSIONS = 10  # entries that are no updates of clients
GIVE_UP_SHARE = 0.25  # share of requests for which a client abandons the one before, if it still waits for it
MOVE_SHARE = 0.3  # share of requests that a client makes at another node
UPDATE_SHARE = 0.3


class ClientStep(msgspec.Struct, frozen=True):
    """A client makes a request at a node. If it still waits for another one, it gives that up, or does nothing."""

    at: float
    client: str
    node: str
    is_update: bool
    gives_up: bool
    body: bytes
    then: str = ""  # a node that it asks as soon as it has the reply

    def __str__(self) -> str:
        verb = "updates" if self.is_update else "asks"
        then = f", then asks {self.then}" if self.then else ""
        return f"client {self.client} {verb} {self.node}: {self.body.decode()}{then}"

    def next(self, at: float) -> ClientStep:
        """The query after the reply."""
        return ClientStep(at, self.client, self.then, False, False, b"q" + self.body)


class DataPlan(msgspec.Struct, frozen=True):
    """Everything that determines a run."""

    base: RunPlan
    steps: tuple[ClientStep, ...]

    def __str__(self) -> str:
        lines = [f"  {step.at:8.4f}  {step}" for step in self.steps]
        return "\n".join([str(self.base), *lines])


def make_data_plan(seed: int, nodes_min: int = 3, nodes_max: int = 7) -> DataPlan:
    """Draw the plan of a seed."""
    base = make_plan(seed, nodes_min, nodes_max, ambushes=DATA_AMBUSH_ACTIONS)
    chance = SeededRandom(seed).fork("data")
    base = msgspec.structs.replace(
        base,
        submissions=base.submissions[:KEPT_SUBMISSIONS],
        settings=_settings(chance.fork("settings"), base.settings),
    )
    return DataPlan(base, _steps(chance.fork("clients"), base))


def _settings(chance: SeededRandom, settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings,
        query_sharing="least loaded" if chance.hits(0.3) else "round robin",
        query_window=chance.choice((1, 2, 8)),
        query_batch_max=chance.choice((1, 3, 64)),
    )


def _steps(chance: SeededRandom, base: RunPlan) -> tuple[ClientStep, ...]:
    """Steady requests of some clients, and bursts of many clients at one node, also just before a fault."""
    found: list[ClientStep] = []
    for number in range(1 + chance.below(8)):
        name, node = f"k{number}", chance.choice(base.names)
        for _ in range(chance.choice((4, 12, 30))):
            if chance.hits(MOVE_SHARE):
                node = chance.choice(base.names)
            then = chance.choice(base.names) if chance.hits(MOVE_SHARE) else ""
            found.append(_step(chance, chance.between(0.0, base.lasts), name, node, len(found), then))
    times = [chance.between(0.0, base.lasts) for _ in range(chance.below(4))]
    times += [max(0.0, fault.at - chance.exponential(0.005)) for fault in base.faults]
    for burst, at in enumerate(times):
        node = chance.choice(base.names)
        for number in range(1 + chance.below(12)):
            then = chance.choice(base.names) if chance.hits(MOVE_SHARE) else ""
            found.append(_step(chance, at, f"b{burst}.{number}", node, len(found), then))
    return tuple(sorted(found, key=lambda step: (step.at, step.client)))


def _step(chance: SeededRandom, at: float, client: str, node: str, number: int, then: str) -> ClientStep:
    is_update = chance.hits(UPDATE_SHARE)
    body = b"%s%s.%d" % (b"u" if is_update else b"q", client.encode(), number)
    return ClientStep(at, client, node, is_update, chance.hits(GIVE_UP_SHARE), body, then)
