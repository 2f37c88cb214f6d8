"""``./dev bench shares``: time to compute the shares, compared with one linear program of scipy.

The scheduler computes shares on every change of demand. Here all classes change their demand at random in each round,
twice the capacity on average, and then one class at a time does. A linear program is one solution of ``linprog``
(HiGHS) over the same bounds; max-min needs several.
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from qosweb.webqos.allocation.shares import Allocator

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (5, 20, 40)
SLOW = ("tangled",)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench shares", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="demands for each problem")
    options = parser.parse_args(arguments)
    print("Microseconds of CPU time: median, and in brackets the 90th percentile.")
    print(f"{'bounds':<12}{'classes':>8}{'all change':>18}{'one changes':>18}{'one program':>14}{'ratios':>16}")
    for name, make in KINDS.items():
        for classes in SIZES:
            rounds = max(options.rounds // 10, 5) if name in SLOW else options.rounds
            _measure(name, make(classes, Random(classes)), rounds)
    return 0


def _measure(name: str, problem: Problem, rounds: int) -> None:
    random = Random(1)
    demands = [_demand(problem, random) for _ in range(rounds)]
    allocator = Allocator(problem)
    all_change = _times(lambda k: allocator.shares(demands[k]), rounds)
    changed = [list(demands[-1])]
    for _ in range(2 * rounds):
        now = [*changed[-1]]
        now[random.randrange(problem.classes)] = random.randrange(4 * PPM // problem.classes)
        changed.append(now)
    one_changes = _times(lambda k: allocator.shares(changed[k + 1]), 2 * rounds)
    programs = _times(lambda k: _program(problem, demands[k]), min(rounds, 20))
    program = statistics.median(programs)
    columns = [f"{statistics.median(times):.1f} ({_most(times):.0f})" for times in (all_change, one_changes)]
    ratios = [f"{program / statistics.median(times):.1f}" for times in (all_change, one_changes)]
    print(
        f"{name:<12}{problem.classes:>8}{columns[0]:>18}{columns[1]:>18}{program:>14.1f}{ratios[0]:>8}{ratios[1]:>8}",
        flush=True,
    )


def _demand(problem: Problem, random: Random) -> tuple[int, ...]:
    return tuple(random.randrange(4 * PPM // problem.classes) for _ in range(problem.classes))


def _most(times: list[float]) -> float:
    return sorted(times)[len(times) * 9 // 10]


def _times(call: Callable[[int], object], rounds: int) -> list[float]:
    times = []
    for k in range(rounds):
        start = time.thread_time()
        call(k)
        times.append((time.thread_time() - start) * 1e6)
    return times


def _program(problem: Problem, demand: tuple[int, ...]) -> None:
    """The largest sum of all shares within the bounds, by linprog."""
    rows, limits = [np.ones(problem.classes)], [float(PPM)]
    for bound, sign in [*((one, -1.0) for one in problem.floors), *((one, 1.0) for one in problem.ceilings)]:
        row = np.zeros(problem.classes)
        row[list(bound.classes)] = sign
        rows.append(row)
        asked = sum(demand[one] for one in bound.classes)
        limits.append(float(bound.ppm if sign > 0 else -min(bound.ppm, asked) // 2))
    linprog(-np.ones(problem.classes), A_ub=np.array(rows), b_ub=limits, bounds=[(0, d) for d in demand])


def _unbound(classes: int, _: Random) -> Problem:
    return Problem(classes, (), ())


def _single(classes: int, random: Random) -> Problem:
    part = PPM // classes
    floors = tuple(ShareBound((one,), random.randrange(part), one) for one in range(classes))
    ceilings = tuple(ShareBound((one,), random.randrange(part, 4 * part), one) for one in range(classes))
    return Problem(classes, floors, ceilings)


def _priority(classes: int, random: Random) -> Problem:
    single = _single(classes, random)
    return Problem(classes, single.floors, single.ceilings, before=((0, 1), (1, classes - 1)), rest=(2,))


def _nested(classes: int, random: Random) -> Problem:
    """Groups of five with a floor and a ceiling that bind now and then, and a ceiling on every second class."""
    groups = [tuple(range(first, first + 5)) for first in range(0, classes, 5)]
    part = PPM // len(groups)
    floors = tuple(ShareBound(group, random.randrange(part // 2, part), k) for k, group in enumerate(groups))
    ceilings = [ShareBound(group, random.randrange(part, 2 * part), k) for k, group in enumerate(groups)]
    ceilings += [ShareBound((one,), random.randrange(part // 4, part), 100 + one) for one in range(0, classes, 2)]
    return Problem(classes, floors, tuple(ceilings))


def _overlapping(classes: int, random: Random) -> Problem:
    """Ceilings on random groups of four, half as many as there are classes."""
    groups = [tuple(sorted(random.sample(range(classes), 4))) for _ in range(classes // 2)]
    part = PPM // classes
    return Problem(
        classes, (), tuple(ShareBound(g, random.randrange(2 * part, 8 * part), k) for k, g in enumerate(groups))
    )


def _ratio(classes: int, random: Random) -> Problem:
    single = _single(classes, random)
    return Problem(classes, single.floors, (), (Ratio((0,), (1, 2), "==", 2, 1, 99),))


def _usual(classes: int, random: Random) -> Problem:
    """A typical large site: bounds on some classes, three ratios, and groups that overlap in pairs."""
    part = PPM // classes
    floors = [ShareBound((one,), random.randrange(part // 2, part), one) for one in range(0, classes, 3)]
    ceilings = [ShareBound((one,), random.randrange(2 * part, 4 * part), one) for one in range(1, classes, 4)]
    third = classes // 3
    ratios: list[Ratio] = []
    if classes > 10:
        ratios.append(Ratio((0,), (third - 1,), "==", 2, 1, 900))
        ratios.append(Ratio((1,), (third - 2, third), ">=", 3, 2, 901))
        ratios.append(Ratio((2,), (third - 3,), "<=", 4, 1, 902))
    for k in range(3):
        first = third + 1 + k * third // 2
        left, right = tuple(range(first, first + third // 4 + 1)), tuple(range(first + 1, first + third // 4 + 2))
        bounds = floors if k == 2 else ceilings
        most = len(left) * part
        if right[-1] < classes:
            bounds += [
                ShareBound(g, random.randrange(most // 2, most), 950 + 2 * k + j) for j, g in enumerate((left, right))
            ]
    return Problem(classes, tuple(floors), tuple(ceilings), tuple(ratios))


def _tangled(classes: int, random: Random) -> Problem:
    """Floors and ceilings on random groups of four, and a ratio: most classes are connected, and programs are large."""
    overlapping = _overlapping(classes, random)
    part = PPM // classes
    groups = [tuple(sorted(random.sample(range(classes), 4))) for _ in range(classes // 4)]
    floors = tuple(ShareBound(group, random.randrange(part, 4 * part), k) for k, group in enumerate(groups))
    return Problem(classes, floors, overlapping.ceilings, (Ratio((0,), (1, 2), "==", 2, 1, 99),))


KINDS: dict[str, Callable[[int, Random], Problem]] = {
    "none": _unbound,
    "single": _single,
    "priority": _priority,
    "nested": _nested,
    "overlapping": _overlapping,
    "ratio": _ratio,
    "usual": _usual,
    "tangled": _tangled,
}
