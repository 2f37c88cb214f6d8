"""One simulation run of the multicast transport, with random faults from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.bulk.consumer import BEHIND_MAX
from cluster.bulk.packets import T_MAX
from cluster.sim.bulk.world import RATE_MIN, BulkWorld
from cluster.sim.event_queue import TooManyEvents
from cluster.sim.run import RunFailure, RunResult
from cluster.sim.seeded_random import SeededRandom
from cluster.specs.spec import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.explore import SeedTask

FAULTS_S = 4.0  # length of the fault phase


def run_bulk_task(task: SeedTask) -> RunResult:
    return run_bulk_seed(task.seed)


def run_bulk_seed(seed: int, say: Callable[[str], None] | None = None) -> RunResult:
    """One run with the faults that the seed gives."""
    chance = SeededRandom(seed).fork("plan")
    names = "abcde"[: 3 + chance.below(3)]
    world = BulkWorld(seed, names, loss=chance.choice((0.0, 0.02, 0.1, 0.2)), with_state=chance.hits(0.4))
    if say is not None:
        world.say = say
    _inject(world, chance, names)
    return play(seed, world, FAULTS_S)


def play(seed: int, world: BulkWorld, faults_s: float) -> RunResult:
    """Runs the scheduled events, then ends all faults and waits until the run comes to rest."""
    failure = None
    try:
        world.events.run_until(faults_s)
        world.come_to_rest()
    except Violation as error:
        failure = RunFailure(error.spec, world.handled, str(error))
    except TooManyEvents as error:
        failure = RunFailure("liveness", world.handled, str(error))
    except Exception as error:
        failure = RunFailure(type(error).__name__, world.handled, repr(error))
    return RunResult(seed, failure, world.handled, world.events.handled, world.now, world.sometimes, {})


def _inject(world: BulkWorld, chance: SeededRandom, names: str) -> None:
    """Schedules messages and faults."""
    for _ in range(3 + chance.below(10)):
        world.events.at(chance.between(0.05, FAULTS_S), world.send, chance.choice(names), 1 + chance.below(40))
    if chance.hits(0.2):  # everybody sends at once, one of them a long message
        at = chance.between(0.3, 2.0)
        world.events.at(at, world.send, chance.choice(names), 300)
        for name in names * 4:
            world.events.at(at, world.send, name, 1 + chance.below(4))
    if chance.hits(0.1):  # t + 1 producers fail in a row (section 3.2)
        world.events.at(0.5, setattr, world, "ambushes", T_MAX + 1)
        for name in names:
            world.events.at(0.5, world.send, name, 2)
    if chance.hits(0.1):  # a majority loses its state at once
        at = chance.between(0.5, 3.0)
        for name in chance.sample(names, len(names) // 2 + 1):
            world.events.at(at, world.crash, name)
            world.events.at(at + chance.between(0.05, 0.5), world.restart, name)
    for _ in range(chance.below(6)):
        _inject_fault(world, chance, names)
    leaving = chance.fork("leaving")
    if leaving.hits(0.1):
        _inject_leaver(world, leaving, names)
    flood = chance.fork("flood")
    if flood.hits(0.1):  # many messages while one member gets no data
        at, starved = flood.between(0.3, 1.0), flood.choice(names)
        world.events.at(at, setattr, world.nodes[starved], "is_starved", True)
        for number in range(2 * BEHIND_MAX):
            sender = flood.choice([name for name in names if name != starved])
            world.events.at(at + 0.005 * number, world.send, sender, 1, RATE_MIN)
        for number in range(10):
            world.events.at(at + 0.1 * number, world.send, starved, 20, RATE_MIN)


def _inject_leaver(world: BulkWorld, chance: SeededRandom, names: str) -> None:
    """A producer leaves when a long message is accepted, of which a member has missed the most."""
    at = chance.between(0.3, 0.8)
    producer, away = chance.sample(names, 2)
    world.events.at(at, setattr, world, "leaver", producer)
    is_fast = world.loss < 0.1 and world.room > 4
    world.events.at(at, world.send, producer, 1000 if is_fast else 100)
    world.events.at(at + chance.between(0.0, 0.3), world.split, [{away}, set(names) - {away}])
    world.events.at(at + chance.between(1.0, 3.0), world.heal)


def _inject_fault(world: BulkWorld, chance: SeededRandom, names: str) -> None:
    at, name = chance.between(0.2, FAULTS_S), chance.choice(names)
    end = at + chance.between(0.05, 2.0)
    kind = chance.below(5)
    if kind == 0:
        world.events.at(at, world.crash, name)
        world.events.at(end, world.restart, name)
    elif kind == 1:
        away = set(chance.sample(names, 1 + chance.below(len(names) - 1)))
        world.events.at(at, world.split, [away, set(names) - away])
        world.events.at(end, world.heal)
    elif kind == 2:
        world.events.at(at, setattr, world.nodes[name], "slow_s", chance.between(0.02, 0.4))
        world.events.at(end, setattr, world.nodes[name], "slow_s", 0.0)
    elif kind == 3:
        world.events.at(at, setattr, world.nodes[name], "is_deaf", True)
        world.events.at(end, setattr, world.nodes[name], "is_deaf", False)
    else:
        world.events.at(at, setattr, world, "loss", min(0.9, world.loss + 0.5))
        world.events.at(at + chance.between(0.05, 0.6), setattr, world, "loss", world.loss)
