"""``./dev bench group``: total order broadcast of three members on loopback, compared with other systems.

Entries have 150 bytes, one at a time and many outstanding. Ours (volatile and durable) runs beside pysyncobj, etcd and
corosync where they are installed, and beside a bare sequencer in Python that waits for all acknowledgements and gives
no guarantee: the minimum cost of such a program. All contenders run in one session, in turns, on the same two cores.
Only ratios can be compared between machines. One member submits. Of ours it is the second member, which has no special
role in the order. Of the fixed sequencer it is the sequencer itself, which saves a message delay: the best case of that
order, and the target of the adaptive one. Then come trials of ours alone: see `group_trials`. At the end every goal is
listed, with whether it was met. The whole takes about ten minutes where all peers are installed, and `--minutes` more.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.bench import group_corosync, group_etcd, group_pysyncobj, group_trials
from tests.bench.group_goals import Verdicts, judge_comparison, per_s
from tests.bench.group_processes import EtcdMembers, Members

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.group_goals import Figures

MEMORY = "/dev/shm"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench group", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of a measurement")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median is shown")
    parser.add_argument("--outstanding", type=int, nargs="+", default=[1, 64, 512])
    parser.add_argument("--only", nargs="+", help="only these contenders (or none), and only named trials")
    parser.add_argument("--trials", nargs="+", choices=group_trials.TRIALS, help="only these trials of ours")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="minutes of full load at the end, to count false suspicions"
    )
    options = parser.parse_args(arguments)
    print(f"load of the machine before: {_load()}")
    began, verdicts = time.monotonic(), Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(folder)
        if options.only:
            if unknown := set(options.only) - {*contenders, "none"}:
                parser.error(f"--only: not here: {', '.join(sorted(unknown))}; there are {'; '.join(contenders)}; none")
            contenders = {name: contenders[name] for name in options.only if name != "none"}
        figures = _measure(contenders, options)
        if figures:
            _print_table(figures)
            _print_ratios(figures)
            judge_comparison(verdicts, figures)
        trials = options.trials or ([] if options.only else list(group_trials.TRIALS))
        session = group_trials.Session(folder, options.rounds, options.seconds, verdicts)
        for name in trials:
            group_trials.TRIALS[name](session)
        if options.minutes:
            group_trials.long_load(session, options.minutes)
    verdicts.show()
    print(f"took {(time.monotonic() - began) / 60:.1f} minutes; load of the machine after: {_load()}")
    return 0


def _load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def _contenders(folder: str) -> dict[str, Callable[[], Members]]:
    found: dict[str, Callable[[], Members]] = {
        "floor": lambda: Members("floor", 0),
        "ours, volatile": lambda: Members("ours", 1),
        "ours, sequencer": lambda: Members("ours", 0, settings={"order": "sequencer"}),
        "ours, durable": lambda: Members("ours", 1, data=tempfile.mkdtemp(dir=folder)),
    }
    if why := group_pysyncobj.missing():
        print(why)
    else:
        found["pysyncobj"] = lambda: Members("pysyncobj", 0, ports=group_etcd.free_ports(3), tuned=False)
        found["pysyncobj, tuned"] = lambda: Members("pysyncobj", 0, ports=group_etcd.free_ports(3), tuned=True)
    if why := group_etcd.missing():
        print(why)
    else:
        if Path(MEMORY).is_dir():
            found["etcd, memory"] = lambda: EtcdMembers(MEMORY)
        found["etcd, disk"] = lambda: EtcdMembers(folder)
    if why := group_corosync.missing():
        print(why)
    else:
        found["corosync"] = group_corosync.CorosyncMembers
    return found


def _measure(contenders: dict[str, Callable[[], Members]], options: argparse.Namespace) -> Figures:
    figures: Figures = {}
    for _ in range(options.rounds):
        for name, begin in contenders.items():
            members = begin()
            try:
                for outstanding in options.outstanding:
                    members.load(outstanding, min(0.5, options.seconds))
                    found = members.load(outstanding, options.seconds)
                    figures.setdefault((name, outstanding), []).append(found)
            finally:
                members.close()
    return figures


def _print_table(figures: Figures) -> None:
    print(f"{'':<18}{'outstanding':>12}{'entries/s':>11}{'of floor':>10}{'p50':>11}{'p99':>11}{'CPU of all':>14}")
    for (name, outstanding), rounds in sorted(figures.items(), key=lambda item: item[0][1]):
        mid = {key: median(found[key] for found in rounds) for key in rounds[0]}
        floor = median(found["per_s"] for found in figures.get(("floor", outstanding), rounds))
        print(
            f"{name:<18}{outstanding:>12}{mid['per_s']:>11,.0f}{mid['per_s'] / floor:>10.2f}"
            f"{mid['p50_us']:>8,.0f} us{mid['p99_us']:>8,.0f} us{mid['cpu_us']:>11.1f} us"
        )


def _print_ratios(figures: Figures) -> None:
    """Ratio of our rate to that of each peer with the same durability."""
    pairs = (
        ("ours, volatile", "pysyncobj"), ("ours, volatile", "pysyncobj, tuned"), ("ours, volatile", "etcd, memory"),
        ("ours, volatile", "corosync"), ("ours, durable", "etcd, disk"),
    )  # fmt: skip
    for ours, peer in pairs:
        ratios = [
            f"{per_s(figures, ours, outstanding) / per_s(figures, peer, outstanding):.1f} at {outstanding}"
            for name, outstanding in figures
            if name == peer and (ours, outstanding) in figures
        ]
        if ratios:
            print(f"{ours} / {peer}: {', '.join(ratios)} outstanding")
