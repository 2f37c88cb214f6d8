"""Goals of ``./dev bench group``: compares the figures with the goals and prints one line for each."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    Figures = dict[tuple[str, int], list[dict[str, float]]]  # by contender and outstanding: each round's

VOLATILE, DURABLE = "ours, volatile", "ours, durable"
PEERS = ("pysyncobj", "pysyncobj, tuned", "etcd, memory", "etcd, disk", "corosync")
ETCD = "etcd, disk"

# (goal) entries a second by outstanding, and a lone entry's median wait
PER_S = {64: 100_000, 512: 150_000}
LONE_US = {VOLATILE: 400, DURABLE: 2_000}
TIMES_ETCD = 3
HALF_P99_MS = 10
KILLED_MS = 200
CUT_MS = 1_000
STOPPED_MS = 1_000
SEVEN_OF_THREE = 2 / 3
MANY = (64, 512)  # outstanding, where peers are compared


class Goal(msgspec.Struct, frozen=True):
    what: str
    wanted: str
    found: str
    met: bool


class Verdicts:
    def __init__(self) -> None:
        self.goals: list[Goal] = []

    def least(self, what: str, found: float, wanted: float, form: str = "{:,.0f}") -> None:
        """Adds a goal with a lower limit."""
        self.goals.append(Goal(what, "at least " + form.format(wanted), form.format(found), found >= wanted))

    def most(self, what: str, found: float, wanted: float, form: str = "{:,.0f}") -> None:
        """Adds a goal with an upper limit."""
        self.goals.append(Goal(what, "at most " + form.format(wanted), form.format(found), found <= wanted))

    def show(self) -> None:
        if not self.goals:
            return
        width = max(len(goal.what) for goal in self.goals)
        print("\ngoals:")
        for goal in self.goals:
            print(f"  {'met   ' if goal.met else 'MISSED'}  {goal.what:<{width}}  {goal.found:>12}  ({goal.wanted})")
        print(f"{sum(goal.met for goal in self.goals)} of {len(self.goals)} goals met")


def judge_comparison(verdicts: Verdicts, figures: Figures) -> None:
    """Judges the figures of the comparison, medians of the rounds."""
    for outstanding, wanted in PER_S.items():
        if (VOLATILE, outstanding) in figures:
            verdicts.least(
                f"volatile, {outstanding} outstanding, entries/s", per_s(figures, VOLATILE, outstanding), wanted
            )
    for peer in PEERS:
        for outstanding in MANY:
            if (peer, outstanding) in figures and (VOLATILE, outstanding) in figures:
                times = per_s(figures, VOLATILE, outstanding) / per_s(figures, peer, outstanding)
                verdicts.least(f"volatile, {outstanding} outstanding, times {peer}", times, 1, "{:.2f}")
    for outstanding in MANY:
        if (ETCD, outstanding) in figures and (DURABLE, outstanding) in figures:
            times = per_s(figures, DURABLE, outstanding) / per_s(figures, ETCD, outstanding)
            verdicts.least(f"durable, {outstanding} outstanding, times {ETCD}", times, TIMES_ETCD, "{:.2f}")
    for ours, wanted in LONE_US.items():
        if (ours, 1) in figures:
            p50 = median(found["p50_us"] for found in figures[ours, 1])
            verdicts.most(f"{ours.removeprefix('ours, ')}, a lone entry, p50", p50, wanted, "{:,.0f} us")


def per_s(figures: Figures, name: str, outstanding: int) -> float:
    return median(found["per_s"] for found in figures[name, outstanding])
