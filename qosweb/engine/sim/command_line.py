"""Simulate the QoS engine: explore seeds, replay or narrate one seed.

Pure: the clock and the output function are arguments.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cluster.sim.explore import ExplorationReport
from cluster.sim.narrate import Detail, Narrator
from qosweb.engine.sim.plan import make_plan
from qosweb.engine.sim.run import play
from qosweb.engine.sim.sample_load import sample_shares
from qosweb.engine.sim.slot_plan import make_slot_plan
from qosweb.engine.sim.steady_load import outside_tolerance, shares_of
from qosweb.engine.sim.wide_pipes import WIDER, make_wide_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.sim.run import RunResult
    from qosweb.engine.sim.plan import EnginePlan

    Make = Callable[[int], EnginePlan]

SEEDS = 100
TELL_EVERY = 50


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def main(arguments: Sequence[str], clock: Callable[[], float], write: Callable[[str], None]) -> int:
    parser = argparse.ArgumentParser(prog="python -m qosweb.engine.sim", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seeds", type=_count, default=SEEDS, metavar="N", help=f"how many seeds to run (default {SEEDS})"
    )
    parser.add_argument("--seed-from", type=_count, default=0, metavar="S", help="the first seed (default 0)")
    parser.add_argument("--seed", type=_count, metavar="S", help="run only this seed")
    parser.add_argument("--narrate", action="store_true", help="print what happens during the run (needs --seed)")
    parser.add_argument("--steady", action="store_true", help="check shares under overload without faults")
    parser.add_argument("--sample", action="store_true", help="print shares under overload by the sample site's policy")
    parser.add_argument("--wide", action="store_true", help="nodes with many channels, and flash crowds that fill them")
    parser.add_argument("--slots", action="store_true", help="pools of upstream servers with slots beside the pipes")
    options = parser.parse_args(arguments)
    if options.narrate and options.seed is None:
        parser.error("--narrate needs --seed")
    seeds = range(options.seed_from, options.seed_from + options.seeds) if options.seed is None else [options.seed]
    make = make_slot_plan if options.slots else make_wide_plan if options.wide else make_plan
    if options.steady:
        return _steady(seeds, WIDER if options.wide else 1, write)
    if options.sample:
        return _sample(seeds, write)
    if options.seed is not None:
        return _one(options, make, write)
    return _explore(seeds, make, clock, write)


def _explore(seeds: Sequence[int], make: Make, clock: Callable[[], float], write: Callable[[str], None]) -> int:
    start = clock()
    report = ExplorationReport()
    for seed in seeds:
        outcome = play(make(seed))
        report.add(outcome)
        if outcome.failure is not None:
            write(line(outcome))
            break
        if report.runs % TELL_EVERY == 0:
            write(f"{clock() - start:7.1f} s  {report.progress()}")
    write(report.coverage())
    write(f"\n{report.progress()}, {clock() - start:.1f} s")
    return 0 if report.failed is None else 1


def line(outcome: RunResult) -> str:
    failure = outcome.failure
    assert failure is not None
    return (
        f"SEED={outcome.seed} {failure.kind} event {failure.step}: {failure.text}\n"
        f"replay: python -m qosweb.engine.sim --seed {outcome.seed} --narrate"
    )


def _one(options: argparse.Namespace, make: Make, write: Callable[[str], None]) -> int:
    plan = make(options.seed)
    write(str(plan))
    narrator = Narrator(write, Detail.LAYERS) if options.narrate else None
    outcome = play(plan, narrator)
    if narrator is not None:
        narrator.flush()
    if outcome.failure is None:
        write(f"seed {options.seed}: no violation, {outcome.steps} actions in {outcome.seconds:.1f} virtual seconds")
        return 0
    write(line(outcome))
    return 1


def _steady(seeds: Sequence[int], wider: int, write: Callable[[str], None]) -> int:
    wrong = 0
    for seed in seeds:
        shares = shares_of(seed, wider)
        wrong += bool(outside_tolerance(shares))
        told = ", ".join(f"{name} {share:.1f}" for name, share in shares.items())
        write(f"seed {seed}: {told}{'  <-- outside the tolerance' if outside_tolerance(shares) else ''}")
    return 1 if wrong else 0


def _sample(seeds: Sequence[int], write: Callable[[str], None]) -> int:
    for seed in seeds:
        found = sample_shares(seed)
        free, used = (" ".join(f"{share:.1f}" for share in shares) for shares in (found.free, found.used))
        write(f"seed {seed}: free pages {free}, capacity used {used}, gentle load not served {found.unserved:.1f}")
    return 0
