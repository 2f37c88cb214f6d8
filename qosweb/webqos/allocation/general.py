"""Lexicographic max-min over any bounds, by exact linear programs: for what the quick methods cannot do. Pure.

Used when groups overlap without being nested, when floors cannot all be met, and when relative constraints bind.
The steps are those of the specification in ``shares``: what was released keeps its demand, then the floors are met as
far as they can be, then the classes are raised together, level by level.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import Exact
from qosweb.webqos.allocation.simplex import Program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Group


@dataclass(frozen=True, slots=True)
class Relation:
    """``weight_left * sum(left) >= weight_right * sum(right)``."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    weight_left: int
    weight_right: int


def fill(
    capacity: int,
    demand: Sequence[int],
    levels: Sequence[int],
    floors: Iterable[Group],
    ceilings: Iterable[Group],
    relations: Sequence[Relation] = (),
    full: Iterable[tuple[int, ...]] = (),
    weights: Sequence[int] = (),
) -> Exact:
    """The exact shares: floors first (``full``: sets that keep all their demand, before any floor), then max-min.

    A class with a weight stands for so many classes with equal shares.
    """
    present = [one for one, amount in enumerate(demand) if amount > 0]
    shares = [Fraction(0)] * len(demand)
    if not present:
        return Exact([0] * len(demand), 1)
    column = {one: c for c, one in enumerate(present)}
    wanted = [demand[one] for one in present]
    rows: list[list[int]] = []
    limits: list[int] = []

    def add_row(entries: Iterable[tuple[int, int]], limit: int) -> int:
        row = [0] * len(present)
        for one, entry in entries:
            if one in column:
                row[column[one]] += entry
        rows.append(row)
        limits.append(limit)
        return len(present) + len(rows) - 1

    for one in present:
        add_row([(one, 1)], demand[one])
    add_row([(one, weights[one] if weights else 1) for one in present], capacity)
    for group, ppm in ceilings:
        if ppm < sum(demand[one] for one in group):
            add_row([(one, 1) for one in group], ppm)
    for relation in relations:
        entries = [(one, relation.weight_right) for one in relation.right]
        add_row([*entries, *((one, -relation.weight_left) for one in relation.left)], 0)
    stages: list[list[tuple[int, int, int]]] = []  # (slack of the floor, slack of the unit of its stage, weight)
    for stage in (((group, capacity) for group in full), floors):
        needs = [(group, min(ppm, sum(demand[one] for one in group))) for group, ppm in stage]
        needs = [(group, ppm) for group, ppm in needs if ppm > 0]
        if needs:
            unit = add_row([], 1)
            stages.append([(add_row([(one, -1) for one in group], 0), unit, ppm) for group, ppm in needs])

    program = Program(rows, limits)
    for needs_of_stage in stages:
        _meet(program, needs_of_stage)
    for level in sorted({levels[one] for one in present}):
        _raise_level(program, {column[one] for one in present if levels[one] == level}, wanted, shares, present)
    scale = lcm(*(share.denominator for share in shares))
    return Exact([share.numerator * (scale // share.denominator) for share in shares], scale)


def _meet(program: Program, needs: list[tuple[int, int, int]]) -> None:
    """Meet the same fraction of every floor; those that can get no further stop, the others go on up to the whole."""
    unit = needs[0][1]
    met = Fraction(0)
    while met < 1:
        needs = [need for need in needs if need[0] not in program.zero]
        if not needs:
            break
        met += program.raise_together([(unit, 1), *((slack, ppm) for slack, _, ppm in needs)])


def _raise_level(
    program: Program, rising: set[int], wanted: list[int], shares: list[Fraction], present: list[int]
) -> None:
    height = Fraction(0)
    while True:
        stopped = {c for c in rising if c in program.zero or height >= wanted[c]}
        for c in stopped:
            shares[present[c]] = height
        rising = rising - stopped
        if not rising:
            break
        height += program.raise_together([(c, 1) for c in sorted(rising)])
