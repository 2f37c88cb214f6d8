"""``./dev bench shares``: how long a division of the capacity takes, beside one linear program of scipy's.

The scheduler asks for shares on every change of demand, so each round here has another demand and nothing is
remembered. A linear program is one solution of ``linprog`` (HiGHS) over the same bounds; max-min needs several.
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from qosweb.webqos.allocation.problem import PPM, Bound, Problem, Ratio
from qosweb.webqos.allocation.shares import Allocator

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (5, 20, 50)
SLOW = ("tangled",)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench shares", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="demands for each problem")
    options = parser.parse_args(arguments)
    print(f"{'bounds':<12}{'classes':>8}{'median':>12}{'slowest':>12}{'again':>10}{'one program':>14}{'ratio':>8}")
    for name, make in KINDS.items():
        for classes in SIZES:
            rounds = max(options.rounds // 10, 5) if name in SLOW else options.rounds
            _measure(name, make(classes, Random(classes)), rounds)
    return 0


def _measure(name: str, problem: Problem, rounds: int) -> None:
    random = Random(1)
    demands = [
        tuple(random.randrange(4 * PPM // problem.classes) for _ in range(problem.classes)) for _ in range(rounds)
    ]
    allocator = Allocator(problem)
    ours = _times(lambda k: allocator.shares(demands[k]), rounds)
    again = _times(lambda k: allocator.shares(demands[k]), rounds)
    programs = _times(lambda k: _program(problem, demands[k]), min(rounds, 10))
    median, program = statistics.median(ours), statistics.median(programs)
    print(
        f"{name:<12}{problem.classes:>8}{median:>9.1f} us{max(ours):>9.1f} us{statistics.median(again):>7.1f} us"
        f"{program:>11.1f} us{program / median:>8.1f}"
    )


def _times(call: Callable[[int], object], rounds: int) -> list[float]:
    times = []
    for k in range(rounds):
        start = time.perf_counter()
        call(k)
        times.append((time.perf_counter() - start) * 1e6)
    return times


def _program(problem: Problem, demand: tuple[int, ...]) -> None:
    """The most that all classes can have together, within the bounds."""
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
    floors = tuple(Bound((one,), random.randrange(part), one) for one in range(classes))
    ceilings = tuple(Bound((one,), random.randrange(part, 4 * part), one) for one in range(classes))
    return Problem(classes, floors, ceilings)


def _priority(classes: int, random: Random) -> Problem:
    single = _single(classes, random)
    return Problem(classes, single.floors, single.ceilings, before=((0, 1), (1, classes - 1)), rest=(2,))


def _nested(classes: int, random: Random) -> Problem:
    """Fives with a floor and a ceiling each, that bind now and then, and a ceiling on every second class."""
    groups = [tuple(range(first, first + 5)) for first in range(0, classes, 5)]
    part = PPM // len(groups)
    floors = tuple(Bound(group, random.randrange(part // 2, part), k) for k, group in enumerate(groups))
    ceilings = [Bound(group, random.randrange(part, 2 * part), k) for k, group in enumerate(groups)]
    ceilings += [Bound((one,), random.randrange(part // 4, part), 100 + one) for one in range(0, classes, 2)]
    return Problem(classes, floors, tuple(ceilings))


def _overlapping(classes: int, random: Random) -> Problem:
    """Ceilings on random fours, half as many as there are classes."""
    groups = [tuple(sorted(random.sample(range(classes), 4))) for _ in range(classes // 2)]
    part = PPM // classes
    return Problem(classes, (), tuple(Bound(g, random.randrange(2 * part, 8 * part), k) for k, g in enumerate(groups)))


def _ratio(classes: int, random: Random) -> Problem:
    single = _single(classes, random)
    return Problem(classes, single.floors, (), (Ratio((0,), (1, 2), "==", 2, 1, 99),))


def _tangled(classes: int, random: Random) -> Problem:
    """Floors and ceilings on random fours, and a ratio: only exact linear programs can do it."""
    overlapping = _overlapping(classes, random)
    part = PPM // classes
    groups = [tuple(sorted(random.sample(range(classes), 4))) for _ in range(classes // 4)]
    floors = tuple(Bound(group, random.randrange(part, 4 * part), k) for k, group in enumerate(groups))
    return Problem(classes, floors, overlapping.ceilings, (Ratio((0,), (1, 2), "==", 2, 1, 99),))


KINDS: dict[str, Callable[[int, Random], Problem]] = {
    "none": _unbound,
    "single": _single,
    "priority": _priority,
    "nested": _nested,
    "overlapping": _overlapping,
    "ratio": _ratio,
    "tangled": _tangled,
}
