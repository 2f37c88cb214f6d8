"""Soak test: real processes under load, killed, stopped and restarted at random, checked against the specifications.

Runs rounds of about twenty seconds, each with a new group, until the time is over.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from pathlib import Path

from tests.cluster.runtime.members import Cluster

NAMES = "abcde"
STEPS = 8  # per round
RUNNING_MIN = 3  # members: a majority


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, metavar="M", help="duration (default: 30)")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of the first round (default: from the clock)")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else int(time.time())
    until = time.monotonic() + 60 * options.minutes
    rounds = 0
    while not rounds or time.monotonic() < until:
        print(f"round {rounds + 1}, seed {seed + rounds}", flush=True)
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            play(Path(folder), random.Random(seed + rounds))
        rounds += 1
    print(f"{rounds} rounds, no violation")
    return 0


def play(folder: Path, chance: random.Random) -> None:
    with Cluster(folder, durable=True) as cluster:
        cluster.begin(NAMES).load(4)
        running, stopped, dead = set(NAMES), set[str](), set[str]()
        for _ in range(STEPS):
            kind = chance.choice(("kill", "stop", "return"))
            if kind == "return" and (stopped or dead):
                name = chance.choice(sorted(stopped | dead))
                come_back(cluster, name, is_dead=name in dead)
                stopped.discard(name)
                dead.discard(name)
                running.add(name)
            elif len(running) > RUNNING_MIN:
                name = chance.choice(sorted(running))
                running.remove(name)
                (dead if kind == "kill" else stopped).add(name)
                cluster.members[name].signal(signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            names = "".join(sorted(running))
            cluster.wait_for_primary(names).load(4).wait_until_confirmed_at(names, 20)
        for name in sorted(stopped | dead):
            come_back(cluster, name, is_dead=name in dead)
        cluster.wait_for_primary(NAMES).quiet().stop().judge()


def come_back(cluster: Cluster, name: str, *, is_dead: bool) -> None:
    if is_dead:
        cluster.members[name].kill()  # it is dead already: this closes its files
        cluster.start(name)
    else:
        cluster.members[name].signal(signal.SIGCONT)
