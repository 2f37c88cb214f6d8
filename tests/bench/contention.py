"""``./dev bench contention``: CPU time of queued decisions in a cluster of three processes.

Three nodes in contention, each with a given number of queued decisions per second (`contention_node.py` describes such
a node: everything but HTTP). The result is the CPU time of all three, less that of the same processes with a plain
queue in the same run, alternating. It covers batches, the group, the state machine at each replica, grants,
starts and ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cluster.runtime.net.keys import make_key_file
from tests.bench.contention_node import HOLD_S

NAMES = "abc"
PER_S = 5_000
GOAL_CORES = 1.0
MODES = ("plain", "cluster")


class Member:
    def __init__(self, role: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.contention_node", json.dumps(role)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def tell(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a node ended with {self.process.wait(10)}")
        found: dict[str, Any] = json.loads(line)
        return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench contention", description=__doc__)
    parser.add_argument("--per-s", type=int, default=PER_S, help="decisions per second and node")
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-results/contention.json"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        members = _start(Path(folder), stack, round(options.per_s * HOLD_S))
        figures = [_round(members, turn, options) for turn in range(options.rounds)]
    report = _report(figures, options.per_s)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"figures": figures, "report": report}, indent=2) + "\n")
    return 0


def _start(folder: Path, stack: ExitStack, channels: int) -> list[Member]:
    make_key_file(folder / "key")
    members: list[Member] = []
    contact = ""
    for name in NAMES:
        role = {"name": name, "key": str(folder / "key"), "contact": contact, "channels": channels}
        members.append(stack.enter_context(Member(role)))
        address = members[-1].hear()["address"]
        contact = contact or address
    for member in members:
        member.tell({"do": "ready", "members": len(NAMES)})
    for member in members:
        member.hear()
    return members


def _round(members: list[Member], turn: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    found = {}
    for mode in MODES if turn % 2 else MODES[::-1]:
        for member in members:
            member.tell({"do": "run", "mode": mode, "seconds": options.seconds, "warm_s": options.seconds / 4})
        heard = [member.hear() for member in members]
        per_s = min(one["decisions"] / one["seconds"] for one in heard)
        cores = sum(one["cpu_s"] / one["seconds"] for one in heard)
        cpu_us = 1e6 * sum(one["cpu_s"] for one in heard) / max(1, sum(one["decisions"] for one in heard))
        entries_per_s = heard[0]["entries"] / heard[0]["seconds"]
        found[mode] = {"per_s": per_s, "cores": cores, "cpu_us": cpu_us, "entries_per_s": entries_per_s}
        print(
            f"round {turn + 1}/{options.rounds} {mode:<8} {per_s:6.0f}/s at the slowest node, {cores:5.2f} cores, "
            f"{cpu_us:5.1f} us a decision, {entries_per_s:4.0f} batches/s",
            flush=True,
        )
    return found


def _report(figures: list[dict[str, dict[str, float]]], wanted_per_s: int) -> dict[str, float]:
    cost_us = statistics.median(one["cluster"]["cpu_us"] - one["plain"]["cpu_us"] for one in figures)
    per_s = statistics.median(one["cluster"]["per_s"] for one in figures)
    cores = cost_us * wanted_per_s * len(NAMES) / 1e6
    print(
        f"\na decision costs the cluster {cost_us:.1f} us more than a plain queue; at {wanted_per_s}/s at each of "
        f"{len(NAMES)} nodes that is {cores:.2f} of one core (goal: {GOAL_CORES:.0f}) "
        f"{'met' if cores < GOAL_CORES else 'MISSED'}"
    )
    held = per_s >= 0.95 * wanted_per_s
    print(f"the slowest node had {per_s:.0f}/s of {wanted_per_s}/s: {'held' if held else 'NOT HELD'}")
    return {"cost_us": cost_us, "cores": cores, "per_s": per_s}
