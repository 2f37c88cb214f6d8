"""Executable specification of shares: slow, each line a sentence of the docstring of ``shares``.

Lexicographic max-min by one linear program after the other, in floating point, with scipy. Uses no water levels,
optimal faces or integers.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.problem import Problem

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
    Upper = tuple[Vector, float]  # vector @ shares <= limit

NEAR = 1e-3  # parts per million
GIVE = 1e-6  # by so much a value that was found before may be missed later, or the solver calls it impossible


def reference(problem: Problem, demand: Sequence[int]) -> list[float]:
    """The exact shares before any rounding, up to the precision of floating point."""
    size = problem.classes
    if not size:
        return []
    wanted = np.clip(np.array(demand, dtype=float), 0, PPM)
    unit = np.eye(size)
    always: list[Upper] = [(unit[one], wanted[one]) for one in range(size)]
    always.append((np.ones(size), PPM))
    hard = [(_sum(size, bound.classes), bound.ppm) for bound in problem.ceilings if bound.hard]
    soft = [(_sum(size, bound.classes), bound.ppm) for bound in problem.ceilings]
    bounding: list[Upper] = []
    lapsing: list[tuple[tuple[int, ...], Vector]] = []  # vector @ shares <= 0, unless these classes are full
    for ratio in problem.ratios:
        left, right = _sum(size, ratio.left), _sum(size, ratio.right) * ratio.numerator / ratio.denominator
        if ratio.op == "<=":
            bounding.append((left - right, 0.0))
        if ratio.op in (">=", "=="):
            lapsing.append((ratio.left, right - left))
        if ratio.op == "==":
            lapsing.append((ratio.right, left - right))
    for group in problem.equal:
        lapsing += [((one,), unit[other] - unit[one]) for one, other in permutations(group, 2)]

    full_before: frozenset[int] = frozenset()
    imposed: set[int] = set()
    released: set[int] = set()
    while True:
        ranks = problem.levels(full_before)
        levels = [[one for one, rank in enumerate(ranks) if rank == level] for level in sorted({*ranks})]
        uppers = [*always, *soft, *bounding, *((lapsing[number][1], 0.0) for number in sorted(imposed))]
        for number in sorted(released):
            group = lapsing[number][0]
            uppers = _floors(uppers, [(group, float(sum(wanted[one] for one in group)))], wanted)
        uppers = _floors(uppers, [(bound.classes, bound.ppm) for bound in problem.floors], wanted)
        shares = _by_levels(uppers, levels, size)
        full = [bool(all(shares[one] > wanted[one] - NEAR for one in left)) for left, _ in lapsing]
        gap = [float(vector @ shares) for _, vector in lapsing]
        fresh = [number for number in range(len(lapsing)) if number not in imposed | released]
        broken = {number for number in fresh if gap[number] > NEAR and not full[number]}
        lapsed = {number for number in imposed if gap[number] > -NEAR and full[number]}
        if not broken and not lapsed:
            fresh_full = {first for first, _ in problem.before if shares[first] > wanted[first] - NEAR} - full_before
            if not fresh_full:
                break
            full_before |= fresh_full
            imposed, released = set(), set()
            continue
        imposed = (imposed | broken) - lapsed
        released |= lapsed

    more = [(vector, max(limit - float(vector @ shares), 0.0)) for vector, limit in (*always, *hard)]
    return [float(share) for share in shares + _by_levels(more, levels, size)]


def _by_levels(uppers: list[Upper], levels: Iterable[list[int]], size: int) -> Vector:
    """Gives the classes of one level after the other all that max-min allows."""
    unit = np.eye(size)
    for level in levels:
        fixed = _lexicographic([unit[one] for one in level], uppers)
        uppers = [*uppers, *((-unit[one], GIVE - value) for one, value in zip(level, fixed, strict=True))]
    return _maximise(np.zeros(size), uppers)


def _floors(uppers: list[Upper], floors: Iterable[tuple[tuple[int, ...], float]], wanted: Vector) -> list[Upper]:
    """Every floor, or the demand of its classes; if that is infeasible, max-min fractions of them."""
    size = len(wanted)
    needs = [(_sum(size, group), min(ppm, float(_sum(size, group) @ wanted))) for group, ppm in floors]
    needs = [(vector, need) for vector, need in needs if need > 0]
    fractions = _lexicographic([vector / need for vector, need in needs], uppers, most=1.0)
    return [*uppers, *((-vector, GIVE - need * part) for (vector, need), part in zip(needs, fractions, strict=True))]


def _lexicographic(functions: list[Vector], uppers: list[Upper], most: float = np.inf) -> list[float]:
    """Values of linear functions at the lexicographic max-min: raise the smallest, fix those that cannot rise."""
    scale = PPM if most == 1.0 else 1.0
    values = [most] * len(functions)
    rising = set(range(len(functions)))
    while rising:
        least = _least([functions[f] for f in sorted(rising)], uppers)
        if least >= most - NEAR / scale:
            break
        others = {f: (-functions[f], GIVE / scale - least) for f in rising}
        stuck = {
            f
            for f in rising
            if functions[f] @ _maximise(functions[f], [*uppers, *others.values()]) < least + NEAR / scale
        }
        assert stuck, "nothing stops the rise"
        for f in stuck:
            values[f] = least
            uppers = [*uppers, others[f]]
        rising -= stuck
    return values


def _least(functions: list[Vector], uppers: list[Upper]) -> float:
    """The largest minimum: maximise t with t <= every function."""
    size = len(functions[0])
    with_t = [(np.append(vector, 0.0), limit) for vector, limit in uppers]
    with_t += [(np.append(-vector, 1.0), 0.0) for vector in functions]
    return float(_maximise(np.append(np.zeros(size), 1.0), with_t)[-1])


def _maximise(objective: Vector, uppers: list[Upper]) -> Vector:
    solved = linprog(
        -objective, A_ub=np.array([vector for vector, _ in uppers]), b_ub=[limit for _, limit in uppers], method="highs"
    )
    assert solved.status == 0, solved.message
    found: Vector = solved.x
    return found


def _sum(size: int, classes: Iterable[int]) -> Vector:
    vector = np.zeros(size)
    vector[list(classes)] = 1.0
    return vector
