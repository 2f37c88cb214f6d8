"""Mutation testing with fresh seeds: every mutant of the group stack, its services and the engine must be caught."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.sim.mutant_hunt import hunt, row
from qosweb.engine.sim.plan import make_plan
from qosweb.engine.sim.run import play
from qosweb.engine.sim.slot_plan import make_slot_plan
from tests.engine.sim.mutant_catalogue import MUTANTS
from tests.engine.sim.slot_mutant_catalogue import SLOT_MUTANTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.sim.mutation import Mutant
    from qosweb.engine.sim.plan import EnginePlan

TOP = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign mutants", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=300, metavar="N", help="at most so many seeds per mutant (default: 300)"
    )
    parser.add_argument("--seed-from", type=int, metavar="S", help="first seed (default: from the clock)")
    options = parser.parse_args(arguments)
    first = options.seed_from if options.seed_from is not None else int(time.time())
    print(f"seeds from {first} on")
    worst = 0
    for command in (
        ["cluster", "sim"],
        ["cluster", "sim", "--interim"],
        ["cluster", "sim", "--data"],
        ["cluster", "sim", "--reports"],
        ["cluster", "sim", "--bulk"],
    ):
        words = [sys.executable, "-m", *command, "--mutants", "--seeds", str(options.seeds), "--seed-from", str(first)]
        print(" ".join(words[1:]), flush=True)
        worst = max(worst, subprocess.run(words, cwd=TOP, check=False).returncode)
    for make, mutants in ((make_plan, MUTANTS), (make_slot_plan, SLOT_MUTANTS)):
        print("mutants of the engine" + (" in front of upstream servers" if mutants is SLOT_MUTANTS else ""))
        worst = max(worst, _hunt(make, mutants, range(first, first + options.seeds)))
    return worst


def _hunt(make: Callable[[int], EnginePlan], mutants: Sequence[Mutant], seeds: range) -> int:
    """Those that only tests notice survive (`NOTICED_BY` in tests/engine/sim)."""
    survivors = 0
    for mutant in mutants:
        caught = hunt(mutant, seeds, lambda seed: play(make(seed)))
        survivors += not caught.by
        print(row(caught), flush=True)
    return 1 if survivors else 0
