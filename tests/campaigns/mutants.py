"""Mutation testing with fresh seeds: every mutant of the group stack, its services and the engine must be caught."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

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
        ["qosweb.engine.sim"],
        ["qosweb.engine.sim", "--slots"],
    ):
        words = [sys.executable, "-m", *command, "--mutants", "--seeds", str(options.seeds), "--seed-from", str(first)]
        print(" ".join(words[1:]), flush=True)
        worst = max(worst, subprocess.run(words, cwd=TOP, check=False).returncode)
    return worst
