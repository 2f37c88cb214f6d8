"""Simulate the law that finds the slots of a server, and print a table.

Pure: the output function is an argument.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import TYPE_CHECKING

from qosweb.engine.laws.sim.measures import settled_s, window
from qosweb.engine.laws.sim.scenarios import FixedLimit, bypass, changing, play, steady

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qosweb.engine.laws.sim.scenarios import Scenario

SEEDS = 3
WARM_UP = 1 / 3  # of a run


def main(arguments: Sequence[str], write: Callable[[str], None]) -> int:
    parser = argparse.ArgumentParser(prog="python -m qosweb.engine.laws", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seeds", type=_count, default=SEEDS, metavar="N", help=f"seeds per scenario (default {SEEDS})"
    )
    parser.add_argument("--seed-from", type=_count, default=11, metavar="S", help="the first seed (default 11)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scenarios whose name contains TEXT")
    options = parser.parse_args(arguments)
    seeds = range(options.seed_from, options.seed_from + max(1, options.seeds))
    write(f"{'scenario':<32} {'use':>6} {'worst':>6} {'queue':>6} {'worst':>6} {'limit':>6} {'share':>6}")
    for scenario in (*steady(), bypass(), bypass((7, 3))):
        if options.only in scenario.name:
            write(steady_row(scenario, seeds))
    write(f"\n{'seconds until the goals hold':<32} {'start':>12} {'changed':>12} {'back':>12}   median (worst)")
    for scenario in changing():
        if options.only in scenario.name:
            write(changing_row(scenario, seeds))
    return 0


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


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)
