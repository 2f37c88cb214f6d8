"""The Knee law in the simulator: use, queue and settle times on servers of many kinds, with fixed seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qosweb.engine.laws.knee import Knee
from tests.engine.laws.sim.gateways import GatewayOptions, Gateways, SimClass
from tests.engine.laws.sim.measures import settled_s, window
from tests.engine.laws.sim.scenarios import (
    Change,
    Scenario,
    bypass,
    changing,
    constant,
    halving,
    lognormal,
    places_server,
    play,
    steady,
    two_classes,
)
from tests.engine.laws.sim.servers import PlacesServer

if TYPE_CHECKING:
    from cluster.sim.seeded_random import SeededRandom

SEED = 11
STEADY = {one.name: one for one in steady()}
CHANGING = {one.name: one for one in changing()}
SHORT = Scenario("short", places_server(8), two_classes(lognormal(0.02, 0.5), lognormal(0.02, 0.5), 8), seconds=4.0)


def judge_steady(name: str, use_min: float = 0.95, queue_max: float = 2.0, seed: int = SEED) -> None:
    scenario = STEADY[name]
    run = play(scenario, seed)
    seen = window(run.buckets, scenario.seconds / 3, scenario.seconds)
    assert seen.use >= use_min, seen
    assert seen.queue <= queue_max, seen
    weights = [one.weight for one in scenario.classes]
    assert run.slot_s[0] / sum(run.slot_s) == pytest.approx(weights[0] / sum(weights), abs=0.03)


def judge_changing(scenario: Scenario, goals_s: tuple[float, ...], seed: int = SEED) -> Gateways:
    """A goal of 0 is none."""
    run = play(scenario, seed)
    ends = (*scenario.phases[1:], scenario.seconds)
    for from_s, to_s, goal_s in zip(scenario.phases, ends, goals_s, strict=True):
        if not goal_s:
            continue
        took_s = settled_s(run.buckets, from_s, to_s - 0.1)
        assert took_s is not None, f"not settled from {from_s} s on"
        assert took_s <= goal_s, f"settled only {took_s:.1f} s after {from_s} s"
    return run


@pytest.mark.parametrize(
    "name",
    ["constant 20 ms, 1", "constant 20 ms, 8", "lognormal 20 ms, 8", "2/200 ms, 4", "processor sharing, 8", "lock, 8",
     "open loop 3.0 times, 8", "three gateways, 8"],
)  # fmt: skip
def test_server_is_used_and_its_queue_is_short(name: str) -> None:
    judge_steady(name)


def test_few_noisy_places_are_used_to_ninety_percent() -> None:
    judge_steady("lognormal 20 ms, 4", use_min=0.9)
    judge_steady("lognormal 200 ms, 8", use_min=0.85)


def test_a_smooth_knee_costs_some_queue() -> None:
    judge_steady("half I/O, 4", queue_max=4.5)


HALF = lognormal(0.02, 0.5)
CLUSTER = GatewayOptions(gateways=3, skew=(6, 3, 1), delay_s=(0.005, 0.02))
HALVED = (
    halving(8, constant(0.02), constant(0.02), "constant", part_s=8.0),
    halving(4, constant(0.05), constant(0.05), "slow", part_s=8.0),
    halving(16, HALF, HALF, "lognormal", part_s=12.0),
    halving(8, constant(0.002), constant(0.2), "2/200 ms", part_s=12.0),
    halving(8, HALF, HALF, "three gateways", CLUSTER, part_s=12.0),
)


@pytest.mark.parametrize("scenario", HALVED, ids=lambda one: one.name)
def test_lost_places_are_noticed_in_three_seconds_and_returned_ones_in_ten(scenario: Scenario) -> None:
    judge_changing(scenario, (5.0, 3.0, 10.0))


def test_slower_server_keeps_its_limit() -> None:
    run = play(CHANGING["half as fast, 8"], SEED)
    assert window(run.buckets, 18.0, 30.0).limit == pytest.approx(window(run.buckets, 6.0, 15.0).limit, abs=1.5)


def test_restarted_server_is_full_again() -> None:
    judge_changing(CHANGING["restarted, slow at first, 8"], (5.0, 0.0, 3.0))


def test_returned_server_is_full_again_and_a_new_policy_keeps_the_estimate() -> None:
    judge_changing(CHANGING["ejected, 8"], (5.0, 0.0, 3.0))
    judge_changing(CHANGING["new policy, 8"], (5.0, 1.0))


def test_failing_server_gets_one_request_at_a_time() -> None:
    scenario = Scenario(
        "failing", places_server(8), two_classes(HALF, HALF, 8), seconds=8.0,
        changes=(
            Change(4.0, lambda run: run.server.set_failing(True)),  # type: ignore[attr-defined]
            Change(5.0, lambda run: run.server.set_failing(False)),  # type: ignore[attr-defined]
        ),
    )  # fmt: skip
    run = play(scenario, SEED)
    assert window(run.buckets, 4.2, 4.9).limit == 1.0
    assert 100 < run.failed < 300  # one after the other, 5 ms each
    assert window(run.buckets, 5.5, 8.0).use > 0.9


def test_lost_places_are_noticed_while_the_limit_does_not_bind() -> None:
    scenario = Scenario(
        "few clients", places_server(20),
        (SimClass(6, constant(0.02), clients=8), SimClass(4, constant(0.02), clients=7)),
        seconds=20.0, changes=(Change(10.0, lambda run: run.server.set_places(4)),),  # type: ignore[attr-defined]
    )  # fmt: skip
    run = play(scenario, SEED)
    took_s = settled_s(run.buckets, 10.0, 19.9)
    assert took_s is not None
    assert took_s <= 2.0


def test_limit_of_a_noisy_server_never_creeps_up() -> None:
    demand = lognormal(0.02, 1)
    for places in (2, 3):
        scenario = Scenario(
            f"long, {places}", places_server(places), two_classes(demand, demand, places), seconds=120.0
        )
        assert window(play(scenario, SEED).buckets, 8.0, 120.0).limit_max <= places + 3


def test_long_turnaround_is_hidden() -> None:
    """2 ms on the way for each 5 ms of service: more than 16 requests are needed to keep 16 places busy."""
    demand = constant(0.005)
    scenario = Scenario(
        "turnaround", places_server(16), two_classes(demand, demand, 20), options=GatewayOptions(turnaround_s=0.002),
        seconds=15.0,
    )  # fmt: skip
    seen = window(play(scenario, SEED).buckets, 5.0, 15.0)
    assert seen.use >= 0.95
    assert 20 <= seen.limit <= 27


def test_limit_does_not_run_away_past_a_bottleneck() -> None:
    assert window(play(bypass(seconds=1.5), 1).buckets, 0.0, 1.5).limit_max <= 40


def test_class_that_bypasses_the_bottleneck_does_not_raise_the_limit() -> None:
    """2 ms free, 20 ms through a pool of 8 inside the server."""
    run = play(bypass(seconds=8.0), 1)
    assert window(run.buckets, 0.0, 8.0).limit_max <= 40
    assert 12 <= window(run.buckets, 3.0, 8.0).limit <= 32
    assert window(run.buckets, 4.0, 8.0).queue <= 3.0


def test_bound_by_hand_is_kept() -> None:
    for bound in (1, 5):
        run = play(SHORT, SEED, Knee(limit_max=bound))
        assert window(run.buckets, 0.0, SHORT.seconds).limit_max == bound


def test_runs_are_repeatable() -> None:
    assert play(SHORT, 5).buckets == play(SHORT, 5).buckets
    assert play(SHORT, 5).buckets != play(SHORT, 6).buckets


@pytest.mark.parametrize("seed", [2, 5])
def test_returned_workers_are_found_although_a_request_takes_2_or_200_ms(seed: int) -> None:
    """The variance of ln R is five times that of R / E[R] here: with ln R alone the use stays at 0.50 and 0.32."""

    def short_or_long(chance: SeededRandom) -> float:
        return 0.002 if chance.random() < 0.5 else 0.2

    scenario = Scenario(
        "one class of 2 or 200 ms", places_server(8), two_classes(short_or_long, short_or_long, 8), seconds=45.0,
        changes=(Change(12.0, lambda run: set_places(run, 4)), Change(22.0, lambda run: set_places(run, 8))),
    )  # fmt: skip
    assert window(play(scenario, seed).buckets, 32.0, 45.0).use >= 0.75


def set_places(run: Gateways, places: int) -> None:
    assert isinstance(run.server, PlacesServer)
    run.server.set_places(places)
