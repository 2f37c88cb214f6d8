"""Simulates thousands of fresh fault seeds: the group stack, its services, the engine, and many channels or slots."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign seeds", description=__doc__)
    parser.add_argument(
        "--seeds",
        type=int,
        default=5_000,
        metavar="N",
        help="seeds of the group stack; the others get a tenth of them",
    )
    parser.add_argument("--seed-from", type=int, metavar="S", help="first seed (default: from the clock)")
    options = parser.parse_args(arguments)
    first = options.seed_from if options.seed_from is not None else int(time.time())
    few = str(max(1, options.seeds // 10))
    print(f"seeds from {first} on")
    group = ["cluster", "sim", "--jobs", str(os.cpu_count() or 1), "--seeds"]
    for command in (
        [*group, str(options.seeds)],
        [*group, few, "--interim"],
        [*group, few, "--data"],
        [*group, few, "--reports"],
        [*group, few, "--bulk"],
        ["qosweb.engine.sim", "--seeds", few],
        ["qosweb.engine.sim", "--wide", "--seeds", few],
        ["qosweb.engine.sim", "--slots", "--seeds", few],
    ):
        words = [sys.executable, "-m", *command, "--seed-from", str(first)]
        print(" ".join(words[1:]), flush=True)
        if code := subprocess.run(words, cwd=TOP, check=False).returncode:
            return code
    return 0
