"""Trials of ``./dev bench group`` on ours alone: after the comparison, or each by itself (`--trials NAME`).

Every trial prints its measurements and passes them to the verdicts where there is a goal. During a fault, with a few
entries always outstanding, the longest wait of an entry is slightly more than the longest gap in confirmed entries.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.bench import group_goals as goals
from tests.bench.calm import stolen_s
from tests.bench.group_layers import show_layers
from tests.bench.group_processes import Members

SATURATED = 512  # outstanding
FULL = 2048  # outstanding, where members have no reason to wait for each other
FEW = 8  # outstanding, where something goes wrong meanwhile
STOP_S, EVERY_S = 0.2, 1.0
AWAKE = 0.95  # of the usual rate, while a member that naps is awake: all of it, less what two measurements may differ
CALM = 0.005  # of the processors' time: what the host may take in a round that is judged
TRIES = 4  # as many rounds as are asked for, to find calm ones
STRIKE_S = 0.7  # after the load began


class Session(msgspec.Struct, frozen=True):
    """Shared state of all trials of one run."""

    folder: str  # on disk
    rounds: int
    seconds: float
    verdicts: goals.Verdicts


Trial = Callable[[Session], None]


def _ours(folder: str = "", names: str = "abc", network: NamespaceNetwork | None = None) -> Members:
    """Members of ours; durable if there is a folder."""
    data = {"data": tempfile.mkdtemp(dir=folder)} if folder else {}
    return Members("ours", 1, names, network, **data)


def kills(session: Session) -> None:
    """Longest wait of an entry when a member is killed under load."""
    print(f"\nlongest wait of an entry when a member is killed (kill -9), {FEW} outstanding, each round:")
    for mode in ("volatile", "durable"):
        for victim, which in ((0, "the lowest member"), (2, "another member")):
            waits = []
            for _ in range(session.rounds):
                members = _ours(session.folder if mode == "durable" else "")
                try:
                    waits.append(_longest_wait_ms(members, members.processes[victim].kill, 2.0))
                finally:
                    members.close()
            print(f"  {mode:<9} {which:<18} " + "  ".join(f"{wait:.0f} ms" for wait in waits))
            session.verdicts.most(f"{mode}, gap after kill -9 of {which}", max(waits), goals.KILLED_MS, "{:.0f} ms")


def cuts(session: Session) -> None:
    """Longest wait when a member is cut off silently: packets to and from it are dropped."""
    waits = []
    try:
        for _ in range(session.rounds):
            with NamespaceNetwork("abc") as network:
                members = _ours(network=network)
                try:
                    waits.append(_longest_wait_ms(members, lambda: network.part("ab", "c"), 3.0))
                finally:
                    members.close()
    except NamespacesUnavailable as error:
        print(f"\na silent cut is not measured: it needs network namespaces ({error})")
        return
    print(f"\nlongest wait of an entry when a member is cut off silently, {FEW} outstanding, each round:")
    print("  " + "  ".join(f"{wait:.0f} ms" for wait in waits))
    session.verdicts.most("volatile, gap after a silent cut", max(waits), goals.CUT_MS, "{:.0f} ms")


def _longest_wait_ms(members: Members, strike: Callable[[], None], seconds: float) -> float:
    """Longest wait of an entry in a load during which the given fault happens."""
    timer = threading.Timer(STRIKE_S, strike)
    timer.start()
    try:
        return members.submit(_load(FEW, seconds))["max_us"] / 1000
    finally:
        timer.join()


def half(session: Session) -> None:
    """Waits at half of the saturation rate.

    A host that takes a core away for 20 ms delays all entries until the backlog is gone, 1 in 50 in a round of two
    seconds. So disturbed rounds are shown but not judged, as long as there are others.
    """
    print("\nwaits at half of saturation, from when an entry was due:")
    for mode in ("volatile", "durable"):
        members = _ours(session.folder if mode == "durable" else "")
        try:
            members.load(SATURATED, 0.5)
            most = median(members.load(SATURATED, session.seconds)["per_s"] for _ in range(session.rounds))
            order = {"do": "paced", "per_s": most / 2, "seconds": session.seconds}
            rounds: list[Waits] = []
            while len(rounds) < TRIES * session.rounds and sum(one.is_calm for one in rounds) < session.rounds:
                rounds.append(_waits(members, order))
        finally:
            members.close()
        judged = [one for one in rounds if one.is_calm] or rounds
        p50, p99 = median(one.p50_ms for one in judged), median(one.p99_ms for one in judged)
        of_all = median(one.p99_ms for one in rounds)
        print(f"  {mode:<9} {most / 2:,.0f} of {most:,.0f} entries/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms "
              f"({of_all:.1f} ms of all rounds)")  # fmt: skip
        each = "  ".join(f"{one.p99_ms:.1f} ({1000 * one.stolen_s:.0f})" for one in rounds)
        print(f"            p99 of each round (and the steal time of all processors), in ms: {each}")
        of = f"{len(judged)} calm rounds of {len(rounds)}" if judged[0].is_calm else "no calm round"
        session.verdicts.most(f"{mode}, p99 at half of saturation ({of})", p99, goals.HALF_P99_MS, "{:.1f} ms")


class Waits(NamedTuple):
    """Waits of one round."""

    p50_ms: float
    p99_ms: float
    stolen_s: float
    lasted_s: float

    @property
    def is_calm(self) -> bool:
        return self.stolen_s <= CALM * self.lasted_s * len(os.sched_getaffinity(0))


def _waits(members: Members, order: dict[str, object]) -> Waits:
    began, before = time.perf_counter(), stolen_s()
    found = members.submit(order)
    return Waits(
        found["p50_us"] / 1000, found["p99_us"] / 1000, stolen_s() - before, time.perf_counter() - began
    )  # fmt: skip


def sizes(session: Session) -> None:
    """More members, on the same two cores; compared with the bare sequencer, whose members hardly process an entry.

    Seven members wait longer for each other than three, so more outstanding entries are needed to keep them busy: the
    goal is for loads that saturate both.
    """
    figures: dict[tuple[str, int, int], list[dict[str, float]]] = {}
    for _ in range(session.rounds):
        for kind, count in product(("ours", "floor"), (3, 5, 7)):
            names = "abcdefg"[:count]
            members = _ours(names=names) if kind == "ours" else Members("floor", 0, names)
            try:
                for outstanding in (SATURATED, FULL):
                    members.load(outstanding, 0.5)
                    found = members.load(outstanding, session.seconds)
                    figures.setdefault((kind, outstanding, count), []).append(found)
            finally:
                members.close()
    of_three = {}
    for outstanding in (SATURATED, FULL):
        print(f"\nmembers on the same two cores, {outstanding} outstanding:")
        for kind, count in product(("ours", "floor"), (3, 5, 7)):
            found_all, three = (figures[kind, outstanding, size] for size in (count, 3))
            per_s, cpu_us = (median(each[key] for each in found_all) for key in ("per_s", "cpu_us"))
            ratio = median(one["per_s"] / of["per_s"] for one, of in zip(found_all, three, strict=True))
            of_three[kind, outstanding, count] = ratio
            print(f"  {kind:<6} {count} members {per_s:>9,.0f} entries/s, {ratio:.2f} of three, CPU {cpu_us:.1f} us")
    what = f"7 members, of what 3 do on the same cores (the floor: {of_three['floor', FULL, 7]:.2f})"
    session.verdicts.least(what, of_three["ours", FULL, 7], goals.SEVEN_OF_THREE, "{:.2f}")


def slow(session: Session) -> None:
    """A member that is stopped now and then, and a member that is stopped for good."""
    seconds = max(session.seconds, 4.0)
    waits, shares, gone = [], [], []
    for _ in range(session.rounds):
        members = _ours()
        try:
            whole = members.submit(_load(FEW, seconds))
            nap = Nap(members.processes[2].pid)
            nap.thread.start()
            found = members.submit(_load(FEW, seconds))
            nap.end()
            waits.append((found["max_us"] - whole["max_us"]) / 1000 / (1000 * nap.longest_s))
            shares.append(found["per_s"] / whole["per_s"] / (1 - nap.slept_s / seconds))
            pid = members.processes[2].pid
            gone.append(_longest_wait_ms(members, lambda: os.kill(pid, signal.SIGSTOP), 3.0))  # noqa: B023
        finally:
            members.close()
    print(f"\na member that is stopped for {STOP_S * 1000:.0f} ms of every second, {FEW} outstanding, each round:")
    print("  longest wait beyond the usual, in naps   " + "  ".join(f"{wait:.2f}" for wait in waits))
    print("  entries in the time that it was awake, of those without naps   " + "  ".join(f"{x:.2f}" for x in shares))
    print("one that is stopped for good, longest wait:  " + "  ".join(f"{wait:.0f} ms" for wait in gone))
    verdicts = session.verdicts
    verdicts.most("a member that naps, longest wait beyond the usual, in naps", median(waits), 1, "{:.2f}")
    verdicts.least("a member that naps, rate while it is awake, of the usual", median(shares), AWAKE, "{:.2f}")
    verdicts.most("a member that is stopped, gap until it is out", max(gone), goals.STOPPED_MS, "{:.0f} ms")


class Nap:
    """Stops a process for a while, again and again, and records for how long."""

    def __init__(self, pid: int) -> None:
        self.longest_s = self.slept_s = 0.0
        self.thread = threading.Thread(target=self._naps)
        self._pid = pid
        self._over = threading.Event()

    def _naps(self) -> None:
        while not self._over.wait(EVERY_S - STOP_S):
            began = time.perf_counter()
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(STOP_S)
            os.kill(self._pid, signal.SIGCONT)
            slept = time.perf_counter() - began
            self.longest_s = max(self.longest_s, slept)
            self.slept_s += slept

    def end(self) -> None:
        self._over.set()
        self.thread.join()


def disk(session: Session) -> None:
    """Latency of a single durable entry, in syncs of this disk."""
    syncs, waits = [], []
    for _ in range(session.rounds):
        syncs.append(_sync_ms(session.folder))
        members = _ours(session.folder)
        try:
            members.load(1, 0.5)
            waits.append(members.load(1, session.seconds)["p50_us"] / 1000)
        finally:
            members.close()
    sync, wait = median(syncs), median(waits)
    print(f"\na write of 4 KiB with fdatasync takes {sync:.2f} ms here (median), a lone durable entry {wait:.2f} ms: "
          f"{wait / sync:.1f} times that")  # fmt: skip


def _sync_ms(folder: str) -> float:
    taken = []
    with (Path(folder) / "sync").open("wb", buffering=0) as file:
        for _ in range(200):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return 1000 * median(taken)


def layers(session: Session) -> None:
    members = _ours()
    try:
        show_layers(members, SATURATED, max(5, round(session.seconds)))
    finally:
        members.close()


def long_load(session: Session, minutes: float) -> None:
    """Full load on both cores for a long time: no member may be suspected."""
    members = _ours()
    try:
        before = members.suspicions
        found = members.submit({"do": "long", "outstanding": SATURATED, "seconds": minutes * 60})
        suspicions = members.suspicions - before
    finally:
        members.close()
    print(f"\n{minutes:g} minutes of full load: {found['count']:,.0f} entries, {found['per_s']:,.0f} entries/s")
    print(f"  longest wait {found['max_us'] / 1000:.0f} ms, {suspicions} suspicions")
    session.verdicts.most(f"{minutes:g} minutes of full load, suspicions", suspicions, 0)


def _load(outstanding: int, seconds: float) -> dict[str, object]:
    return {"do": "load", "outstanding": outstanding, "seconds": seconds}


TRIALS: dict[str, Trial] = {
    "kills": kills, "cuts": cuts, "half": half, "sizes": sizes, "slow": slow, "disk": disk, "layers": layers,
}  # fmt: skip
