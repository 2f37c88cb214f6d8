"""``./dev bench group``: three members on loopback, entries of 150 bytes, one at a time and many outstanding.

Ours (volatile and durable) beside a bare sequencer in Python that waits for all acknowledgements and promises nothing:
the least that such a program can cost. All contenders run in one session, in turns, and only ratios to the floor are to
be compared between machines. One member submits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median
from typing import Any

TOP = Path(__file__).resolve().parents[2]


class Three:
    """Three processes of one contender."""

    def __init__(self, kind: str, submitter: int, **role: Any) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.submitter = submitter
        join: list[str] = []
        for name in "abc":
            own = {**role, "data": f"{role['data']}/{name}"} if role.get("data") else role
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.group_members",
                 json.dumps({"kind": kind, "name": name, "join": join, **own})],
                cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.processes.append(process)
            address = self._answer(process)["address"]
            join = join or [address]
        for process in self.processes:
            self.order(process, {"do": "whole", "count": 3})

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a member ended without an answer")
        found: dict[str, Any] = json.loads(line)
        return found

    def order(self, process: subprocess.Popen[str], order: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        return self._answer(process)

    def load(self, outstanding: int, seconds: float, futures: bool) -> dict[str, float]:
        before = self._cpu()
        found = self.order(
            self.processes[self.submitter],
            {"do": "load", "outstanding": outstanding, "seconds": seconds, "futures": futures},
        )
        found["cpu_us"] = 1e6 * (self._cpu() - before) / found["count"]
        return found

    def _cpu(self) -> float:
        return sum(float(self.order(process, {"do": "cpu"})["cpu_s"]) for process in self.processes)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for file in (process.stdin, process.stdout):
                if file is not None:
                    file.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench group", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is shown")
    parser.add_argument("--outstanding", type=int, nargs="+", default=[1, 64, 512])
    parser.add_argument("--futures", action="store_true", help="a future for each entry, not a callback")
    parser.add_argument("--only", nargs="+", help="only these contenders")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        contenders: dict[str, tuple[str, int, dict[str, Any]]] = {
            "floor": ("floor", 0, {}),
            "ours, volatile": ("ours", 1, {}),
            "ours, sequencer": ("ours", 0, {"settings": {"order": "sequencer"}}),
            "ours, durable": ("ours", 1, {"data": folder}),
        }
        if options.only:
            contenders = {name: contenders[name] for name in options.only}
        _measure(contenders, options)
        if not options.only:
            _kills(options.rounds, folder)
    return 0


def _kills(rounds: int, folder: str) -> None:
    """The longest that an entry waits when a member is killed in the middle of the load."""
    print("\nlongest wait of an entry when a member is killed (kill -9), 8 outstanding, each round:")
    for mode in ("volatile", "durable"):
        for victim in (0, 2):
            waits = []
            for _ in range(rounds):
                three = Three("ours", 1, **({"data": tempfile.mkdtemp(dir=folder)} if mode == "durable" else {}))
                try:
                    killer = threading.Timer(0.7, three.processes[victim].kill)
                    killer.start()
                    order = {"do": "load", "outstanding": 8, "seconds": 2.0, "futures": False}
                    waits.append(three.order(three.processes[1], order)["max_us"] / 1000)
                    killer.join()
                finally:
                    three.close()
            which = "the lowest member" if victim == 0 else "another member"
            print(f"  {mode:<9} {which:<18} " + "  ".join(f"{wait:.0f} ms" for wait in waits))


def _measure(contenders: dict[str, tuple[str, int, dict[str, Any]]], options: argparse.Namespace) -> None:
    figures: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for name, (kind, submitter, role) in contenders.items():
            if role.get("data"):
                role = {"data": tempfile.mkdtemp(dir=role["data"])}
            three = Three(kind, submitter, **role)
            try:
                for outstanding in options.outstanding:
                    three.load(outstanding, min(0.5, options.seconds), options.futures)
                    found = three.load(outstanding, options.seconds, options.futures)
                    figures.setdefault((name, outstanding), []).append(found)
            finally:
                three.close()
    print(f"{'':<18}{'outstanding':>12}{'entries/s':>11}{'of floor':>10}{'p50':>11}{'p99':>11}{'CPU of all':>14}")
    for (name, outstanding), rounds in sorted(figures.items(), key=lambda item: item[0][1]):
        mid = {key: median(found[key] for found in rounds) for key in rounds[0]}
        floor = median(found["per_s"] for found in figures.get(("floor", outstanding), rounds))
        print(
            f"{name:<18}{outstanding:>12}{mid['per_s']:>11,.0f}{mid['per_s'] / floor:>10.2f}"
            f"{mid['p50_us']:>8,.0f} us{mid['p99_us']:>8,.0f} us{mid['cpu_us']:>11.1f} us"
        )
