"""The catalogue of simulated servers and loads.

Two classes with shares 60:40, more demand than the server can serve, and connections that do not match the shares.
Steady scenarios are compared with the best fixed limit; in the others the server changes during the run, and the time
until the goals hold again counts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, exp, log, pi, sqrt
from typing import TYPE_CHECKING

import msgspec

from cluster.sim.event_queue import EventQueue
from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.laws.knee import Knee, LimitDecision
from tests.engine.laws.sim.gateways import AnyServer, GatewayOptions, Gateways, SimClass
from tests.engine.laws.sim.servers import PlacesServer, PooledServer, SharingServer, SimRequest

if TYPE_CHECKING:
    from qosweb.engine.laws.service_samples import SampleBatch
    from tests.engine.laws.sim.gateways import AnyLaw, Demand

WEIGHTS = (6, 4)


def constant(seconds: float) -> Demand:
    return lambda _: seconds


def lognormal(mean_s: float, sigma: float) -> Demand:
    mu = log(mean_s) - sigma * sigma / 2

    def draw(chance: SeededRandom) -> float:
        normal = sqrt(-2 * log(1 - chance.random())) * cos(2 * pi * chance.random())  # Box and Muller
        return exp(mu + sigma * normal)

    return draw


class Change(msgspec.Struct, frozen=True):
    """At a time, something changes at the server."""

    at_s: float
    apply: Callable[[Gateways], None]


class Scenario(msgspec.Struct, frozen=True):
    """A server, its load, and what changes."""

    name: str
    server: Callable[[EventQueue], AnyServer]
    classes: tuple[SimClass, ...]
    seconds: float = 30.0
    places: int = 0  # around which the best fixed limit is searched; 0: not compared
    changes: tuple[Change, ...] = ()
    phases: tuple[float, ...] = ()  # starts of the parts whose settle times count
    options: GatewayOptions = GatewayOptions()


class FixedLimit:
    """A limit by hand, for comparison."""

    def __init__(self, limit: int) -> None:
        self._decision = LimitDecision(limit, limit, 1)

    def absorb(self, batch: SampleBatch) -> None:
        """Learns nothing."""

    def tick(self, now_s: float, in_service: int) -> LimitDecision | None:  # noqa: ARG002
        return None

    def decision(self) -> LimitDecision:
        return self._decision

    def restart(self) -> None:
        """Stays."""

    def forget_classes(self) -> None:
        """Knows none."""


def play(scenario: Scenario, seed: int, law: AnyLaw | None = None) -> Gateways:
    """Run a scenario, with the Knee law unless another is given."""
    chance = SeededRandom(seed).fork(scenario.name)
    law = law if law is not None else Knee(delay_s=scenario.options.delay_s[1])
    run = Gateways(law, scenario.classes, chance, scenario.options)
    run.server = scenario.server(run.events)
    for change in scenario.changes:
        run.events.after(change.at_s, change.apply, run)
    run.run(scenario.seconds)
    return run


def two_classes(one: Demand, other: Demand, places: int) -> tuple[SimClass, ...]:
    return (
        SimClass(WEIGHTS[0], one, clients=4 * places + 8),
        SimClass(WEIGHTS[1], other, clients=2 * places + 20),
    )


def places_server(places: int) -> Callable[[EventQueue], AnyServer]:
    return lambda events: PlacesServer(events, places)


def sharing_server(cores: int, lock: float = 0.0, io: float = 0.0) -> Callable[[EventQueue], AnyServer]:
    return lambda events: SharingServer(events, cores, lock, io)


def steady() -> list[Scenario]:
    """Scenarios that are compared with the best fixed limit."""
    found = []
    for places, demand, name in (
        (1, constant(0.02), "constant 20 ms"),
        (2, constant(0.02), "constant 20 ms"),
        (4, constant(0.005), "constant 5 ms"),
        (8, constant(0.02), "constant 20 ms"),
        (8, constant(0.2), "constant 200 ms"),
        (20, constant(0.01), "constant 10 ms"),
        (64, constant(0.02), "constant 20 ms"),
        (1, lognormal(0.02, 1), "lognormal 20 ms"),
        (2, lognormal(0.02, 1), "lognormal 20 ms"),
        (4, lognormal(0.02, 1), "lognormal 20 ms"),
        (8, lognormal(0.02, 1), "lognormal 20 ms"),
        (8, lognormal(0.2, 1), "lognormal 200 ms"),
        (20, lognormal(0.02, 1), "lognormal 20 ms"),
        (64, lognormal(0.02, 1), "lognormal 20 ms"),
    ):
        seconds = 40.0 if name.startswith("lognormal") else 30.0
        found.append(
            Scenario(f"{name}, {places}", places_server(places), two_classes(demand, demand, places), seconds, places)
        )
    for places in (2, 4, 8, 32):
        for name, one, other in (
            ("2/200 ms", constant(0.002), constant(0.2)),
            ("2/200 ms lognormal", lognormal(0.002, 0.7), lognormal(0.2, 0.7)),
        ):
            found.append(
                Scenario(f"{name}, {places}", places_server(places), two_classes(one, other, places), places=places)
            )
    half = lognormal(0.02, 0.5)
    found += [
        Scenario(f"processor sharing, {cores}", sharing_server(cores), two_classes(half, half, cores), places=cores)
        for cores in (2, 8, 32)
    ]
    found += [
        Scenario("half I/O, 4", sharing_server(4, io=0.5), two_classes(half, half, 12), places=8),
        Scenario("lock, 8", sharing_server(8, lock=0.03), two_classes(half, half, 12), places=8),
        open_loop(0.95), open_loop(1.5), open_loop(3.0),
        several_gateways(8), several_gateways(32),
    ]  # fmt: skip
    return found


def open_loop(load: float) -> Scenario:
    demand = lognormal(0.02, 0.5)
    classes = (SimClass(6, demand, rate_per_s=400 * load * 0.4), SimClass(4, demand, rate_per_s=400 * load * 0.6))
    return Scenario(f"open loop {load} times, 8", places_server(8), classes, places=8)


def several_gateways(places: int) -> Scenario:
    options = GatewayOptions(gateways=3, skew=(6, 3, 1), delay_s=(0.005, 0.02))
    demand = lognormal(0.02, 0.5)
    return Scenario(
        f"three gateways, {places}", places_server(places), two_classes(demand, demand, places), places=places,
        options=options,
    )  # fmt: skip


def bypass(weights: tuple[int, int] = WEIGHTS, seconds: float = 30.0) -> Scenario:
    """2 ms free, 20 ms through a pool of 8 inside the server."""
    return Scenario(
        f"bypass, shares {weights[0]}:{weights[1]}", lambda events: PooledServer(events, 8),
        (SimClass(weights[0], lognormal(0.002, 0.5), clients=80),
         SimClass(weights[1], lognormal(0.02, 0.5), clients=80)),
        seconds=seconds,
    )  # fmt: skip


def halving(
    places: int, one: Demand, other: Demand, name: str, options: GatewayOptions | None = None, part_s: float = 15.0
) -> Scenario:
    """After a third of the run half of the places are lost; after two thirds they return."""
    return Scenario(
        f"halved, {name}, {places}", places_server(places), two_classes(one, other, places), seconds=3 * part_s,
        changes=(Change(part_s, _set_places(places // 2)), Change(2 * part_s, _set_places(places))),
        phases=(0.0, part_s, 2 * part_s), options=options or GatewayOptions(),
    )  # fmt: skip


def changing() -> list[Scenario]:
    """Scenarios in which the server changes."""
    half = lognormal(0.02, 0.5)
    full = lognormal(0.02, 1)
    cluster = GatewayOptions(gateways=3, skew=(6, 3, 1), delay_s=(0.005, 0.02))
    return [
        halving(8, constant(0.02), constant(0.02), "constant 20 ms"),
        halving(8, full, full, "lognormal 20 ms"),
        halving(4, constant(0.05), constant(0.05), "constant 50 ms"),
        halving(32, half, half, "lognormal .5 20 ms"),
        halving(64, constant(0.02), constant(0.02), "constant 20 ms"),
        halving(8, constant(0.2), constant(0.2), "constant 200 ms"),
        halving(8, constant(0.002), constant(0.2), "2/200 ms"),
        halving(8, half, half, "three gateways", cluster),
        _changed("half as fast", full, Change(15.0, _set_slower(2.0)), Change(30.0, _set_slower(1.0))),
        _changed(
            "restarted, slow at first", half, Change(15.0, _stop(2.0)), Change(17.0, _set_slower(4.0)),
            Change(20.0, _set_slower(1.0)), phases=(0.0, 15.0, 20.0),
        ),
        _changed(
            "failing", half, Change(15.0, _set_failing(True)), Change(18.0, _set_failing(False)),
            phases=(0.0, 15.0, 18.0),
        ),
        _changed("ejected", half, Change(15.0, lambda run: run.eject(3.0)), phases=(0.0, 15.0, 18.0)),
        _changed("new policy", half, Change(15.0, lambda run: run.change_policy()), phases=(0.0, 15.0)),
        _changed("other traffic 30 %", half, Change(15.0, _add_traffic(120.0, half, 30.0)), phases=(0.0, 15.0, 30.0)),
    ]  # fmt: skip


def _changed(name: str, demand: Demand, *changes: Change, phases: tuple[float, ...] = (0.0, 15.0, 30.0)) -> Scenario:
    return Scenario(
        f"{name}, 8", places_server(8), two_classes(demand, demand, 8), seconds=45.0, changes=changes, phases=phases
    )


def _set_places(places: int) -> Callable[[Gateways], None]:
    return lambda run: _places(run).set_places(places)


def _set_slower(factor: float) -> Callable[[Gateways], None]:
    return lambda run: _places(run).set_slower(factor)


def _set_failing(failing: bool) -> Callable[[Gateways], None]:
    return lambda run: _places(run).set_failing(failing)


def _stop(seconds: float) -> Callable[[Gateways], None]:
    return lambda run: _places(run).stop(seconds)


def _add_traffic(rate_per_s: float, demand: Demand, until_s: float) -> Callable[[Gateways], None]:
    """Requests that reach the server by another way."""

    def begin(run: Gateways) -> None:
        chance = SeededRandom(int(rate_per_s)).fork("other traffic")

        def arrive() -> None:
            if run.events.now < until_s:
                run.server.arrive(SimRequest(0, demand(chance), lambda _: None))
                run.events.after(chance.exponential(1 / rate_per_s), arrive)

        arrive()

    return begin


def _places(run: Gateways) -> PlacesServer:
    assert isinstance(run.server, PlacesServer)
    return run.server
