"""Simulates the law that finds the slots of application servers, over fresh seeds, and checks its goals."""

from __future__ import annotations

import argparse
import time

from tests.engine.laws.sim.measures import settled_s, window
from tests.engine.laws.sim.scenarios import bypass, changing, play, steady
from tests.engine.laws.sim.table import WARM_UP, best_fixed, print_table

# Scenarios with a goal of their own: use relative to the best fixed limit, and queue inside. The server of 2/200 ms
# with 32 places answers 6,000 requests a second, so 5 ms are tolerated (`tolerance`): 30 requests by Little.
USE_MIN = {
    "lognormal 200 ms, 8": 0.8,
    "2/200 ms lognormal, 2": 0.9,
    "2/200 ms lognormal, 4": 0.9,
    "2/200 ms lognormal, 8": 0.9,
}
QUEUE_MAX = {"2/200 ms, 32": 30.0, "half I/O, 4": 5.0, "processor sharing, 2": 4.5, "processor sharing, 32": 4.0}
SETTLE_MAX_S = (6.0, 3.0, 10.0)
NO_SETTLE_GOAL = ("other traffic", "restarted", "failing", "half as fast", "lognormal 20 ms")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign knee", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="seeds per scenario (default: 10)")
    parser.add_argument("--seed-from", type=int, metavar="S", help="first seed (default: from the clock)")
    parser.add_argument("--table", action="store_true", help="print the table of means instead")
    parser.add_argument("--only", default="", metavar="TEXT", help="with --table: scenarios whose name contains TEXT")
    options = parser.parse_args(arguments)
    first = options.seed_from if options.seed_from is not None else int(time.time())
    print(f"seeds from {first} on", flush=True)
    seeds = range(first, first + options.seeds)
    if options.table:
        print_table(seeds, options.only)
        return 0
    missed = _judge_steady(seeds) + _judge_changing(seeds) + _judge_bypass(seeds)
    print(f"{missed} goals missed")
    return 1 if missed else 0


def _judge_steady(seeds: range) -> int:
    missed = 0
    for scenario in steady():
        best = best_fixed(scenario)
        for seed in seeds:
            seen = window(play(scenario, seed).buckets, scenario.seconds * WARM_UP, scenario.seconds)
            if seen.work < USE_MIN.get(scenario.name, 0.93) * best or seen.queue > QUEUE_MAX.get(scenario.name, 2.5):
                missed += 1
                print(
                    f"SEED={seed} {scenario.name}: {seen.work / best:.3f} of the best, queue {seen.queue:.2f}",
                    flush=True,
                )
    return missed


def _judge_changing(seeds: range) -> int:
    missed = 0
    for scenario in changing():
        if any(name in scenario.name for name in NO_SETTLE_GOAL):
            continue
        ends = (*scenario.phases[1:], scenario.seconds)
        for seed in seeds:
            run = play(scenario, seed)
            took = [settled_s(run.buckets, a, b - 0.1) for a, b in zip(scenario.phases, ends, strict=True)]
            goals = list(zip(took, SETTLE_MAX_S, strict=False))  # some scenarios have no third phase
            if "ejected" in scenario.name:
                del goals[1]  # nothing is served
            if any(one is None or one > most for one, most in goals):
                missed += 1
                print(f"SEED={seed} {scenario.name}: settled after {took} s", flush=True)
    return missed


def _judge_bypass(seeds: range) -> int:
    missed = 0
    for seed in seeds:
        seen = window(play(bypass(), seed).buckets, 5.0, 30.0)
        if seen.limit > 32 or seen.limit_max > 40:
            missed += 1
            print(f"SEED={seed} bypass: limit {seen.limit:.1f}, at most {seen.limit_max}", flush=True)
    return missed
