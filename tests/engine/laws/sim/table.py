"""Table of simulated servers: what the law that finds their slots makes of them."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from tests.engine.laws.sim.measures import settled_s, window
from tests.engine.laws.sim.scenarios import FixedLimit, bypass, changing, play, steady

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.engine.laws.sim.scenarios import Scenario

WARM_UP = 1 / 3  # of a run


def print_table(seeds: Sequence[int], only: str = "") -> None:
    """Every scenario whose name contains ``only``."""
    print(f"{'scenario':<32} {'use':>6} {'worst':>6} {'queue':>6} {'worst':>6} {'limit':>6} {'share':>6}")
    for scenario in (*steady(), bypass(), bypass((7, 3))):
        if only in scenario.name:
            print(steady_row(scenario, seeds), flush=True)
    print(f"\n{'seconds until the goals hold':<32} {'start':>12} {'changed':>12} {'back':>12}   median (worst)")
    for scenario in changing():
        if only in scenario.name:
            print(changing_row(scenario, seeds), flush=True)


def steady_row(scenario: Scenario, seeds: Sequence[int]) -> str:
    """Use relative to the best fixed limit, queue inside, limit, and the error of the shares in points."""
    from_s = scenario.seconds * WARM_UP
    best = best_fixed(scenario) if scenario.places else 0.0
    uses, queues, limits, errors = [], [], [], []
    for seed in seeds:
        run = play(scenario, seed)
        seen = window(run.buckets, from_s, scenario.seconds)
        uses.append(seen.work / best if best else seen.use)
        queues.append(seen.queue)
        limits.append(seen.limit)
        weights = [one.weight for one in scenario.classes]
        errors.append(100 * abs(run.slot_s[0] / sum(run.slot_s) - weights[0] / sum(weights)))
    return (
        f"{scenario.name:<32} {_mean(uses):6.3f} {min(uses):6.3f} {_mean(queues):6.2f} {max(queues):6.2f}"
        f" {_mean(limits):6.1f} {max(errors):6.1f}"
    )


def changing_row(scenario: Scenario, seeds: Sequence[int]) -> str:
    ends = (*scenario.phases[1:], scenario.seconds)
    found: list[list[float]] = [[] for _ in ends]
    for seed in seeds:
        run = play(scenario, seed)
        for times, from_s, to_s in zip(found, scenario.phases, ends, strict=True):
            took_s = settled_s(run.buckets, from_s, to_s - 0.1)
            times.append(float("inf") if took_s is None else took_s)
    cells = [f"{_seconds(median(times))} ({_seconds(max(times))})" for times in found]
    return f"{scenario.name:<32} " + " ".join(f"{cell:>12}" for cell in cells)


def best_fixed(scenario: Scenario) -> float:
    """Work per second at the best of some fixed limits."""
    places = scenario.places
    limits = sorted({places, places + 1, places + 2, int(1.5 * places), 2 * places})
    from_s = scenario.seconds * WARM_UP
    return max(window(play(scenario, 1, FixedLimit(limit)).buckets, from_s, scenario.seconds).work for limit in limits)


def _seconds(value: float) -> str:
    return "never" if value == float("inf") else f"{value:.1f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
