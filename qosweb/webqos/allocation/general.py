"""Lexicographic max-min over any rules, by exact linear programs: for what no quicker method knows. Pure.

The steps are those of the specification in ``shares``: what was released keeps its demand, then the floors are met as
far as they can be, then the classes are raised together, level by level. ``fill`` divides a capacity; ``fill_to`` says
what classes hold when the water stands at a level, because all that there is beyond it has gone to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import Exact
from qosweb.webqos.allocation.problem import PPM
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
) -> Exact:
    """The exact shares: floors first (``full``: sets that keep all their demand, before any floor), then max-min."""
    filling = _Filling(capacity, demand, floors, ceilings, relations, full)
    for level in sorted({levels[one] for one in filling.present}):
        filling.begin([one for one in filling.present if levels[one] == level])
        filling.lift()
    return filling.shares()


def fill_to(
    level: int,
    parts: int,
    demand: Sequence[int],
    levels: Sequence[int],
    floors: Iterable[Group],
    ceilings: Iterable[Group],
    relations: Sequence[Relation] = (),
    full: Iterable[tuple[int, ...]] = (),
) -> Exact:
    """The exact shares when the water stands at ``level / parts``, each level of priority one capacity above the last.

    Who has not reached the water, because a rule stops him, stops there. Of what has, the least possible is taken:
    with the water, others would rise. Within that, everything is max-min again: who is held above the water by a rule
    may have to share what is there.
    """
    at_priority, water = divmod(level, PPM * parts)
    filling = _Filling(
        sum(demand) * parts,
        [amount * parts for amount in demand],
        [(group, ppm * parts) for group, ppm in floors],
        [(group, ppm * parts) for group, ppm in ceilings],
        relations,
        full,
        water,
    )
    least = False
    for priority in sorted({levels[one] for one in filling.present}):
        filling.begin([one for one in filling.present if levels[one] == priority])
        if priority == at_priority:
            filling.lift(to_water=True)
        if priority >= at_priority and not least:
            filling.take_least()
            least = True
        filling.lift()
    amounts, scale = filling.shares()
    return Exact(amounts, scale * parts)


class _Filling:
    """One division: the program, and who has risen how far."""

    def __init__(
        self,
        capacity: int,
        demand: Sequence[int],
        floors: Iterable[Group],
        ceilings: Iterable[Group],
        relations: Sequence[Relation],
        full: Iterable[tuple[int, ...]],
        water: int = 0,
    ) -> None:
        self.present = [one for one, amount in enumerate(demand) if amount > 0]
        self._demand = demand
        self._column = {one: c for c, one in enumerate(self.present)}
        self._shares = [Fraction(0)] * len(demand)
        self._rising: list[int] = []
        self._height = Fraction(0)
        self._rows: list[list[int]] = []
        self._limits: list[int] = []
        for one in self.present:
            self._add_row([(one, 1)], demand[one])
        self._capacity = self._add_row([(one, 1) for one in self.present], capacity)
        for group, ppm in ceilings:
            if ppm < sum([demand[one] for one in group]):
                self._add_row([(one, 1) for one in group], ppm)
        for relation in relations:
            entries = [(one, relation.weight_right) for one in relation.right]
            self._add_row([*entries, *((one, -relation.weight_left) for one in relation.left)], 0)
        stages: list[list[tuple[int, int, int]]] = []  # (slack of the floor, slack of the unit of its stage, weight)
        for stage in (((group, capacity) for group in full), floors):
            needs = [(group, min(ppm, sum([demand[one] for one in group]))) for group, ppm in stage]
            needs = [(group, ppm) for group, ppm in needs if ppm > 0]
            if needs:
                unit = self._add_row([], 1)
                stages.append([(self._add_row([(one, -1) for one in group], 0), unit, ppm) for group, ppm in needs])
        self._water = self._add_row([], water)
        self._water_limit = water
        self._program = Program(self._rows, self._limits)
        for needs_of_stage in stages:
            _meet(self._program, needs_of_stage)

    def _add_row(self, entries: Iterable[tuple[int, int]], limit: int) -> int:
        row = [0] * len(self.present)
        for one, entry in entries:
            if one in self._column:
                row[self._column[one]] += entry
        self._rows.append(row)
        self._limits.append(limit)
        return len(self.present) + len(self._rows) - 1

    def begin(self, rising: list[int]) -> None:
        """These are to rise, from nothing."""
        self._rising = rising
        self._height = Fraction(0)

    def lift(self, *, to_water: bool = False) -> None:
        """All that rise go on together; who can get no further stops. Until all have, or up to the water."""
        program, zero = self._program, self._program.zero
        while True:
            going: list[int] = []
            height, parts = self._height.numerator, self._height.denominator
            for one in self._rising:
                if self._column[one] in zero or height >= self._demand[one] * parts:
                    self._shares[one] = self._height
                else:
                    going.append(one)
            self._rising = going
            if not going or (to_water and self._height == self._water_limit):
                return
            together = [(self._column[one], 1) for one in going]
            if to_water:
                together.append((self._water, 1))
            self._height += program.raise_together(together)

    def take_least(self) -> None:
        """From now on, as little as possible in all."""
        if self._capacity not in self._program.zero:
            self._program.raise_together([(self._capacity, 1)])

    def shares(self) -> Exact:
        scale = lcm(*(share.denominator for share in self._shares))
        return Exact([share.numerator * (scale // share.denominator) for share in self._shares], scale)


def _meet(program: Program, needs: list[tuple[int, int, int]]) -> None:
    """Meet the same fraction of every floor; those that can get no further stop, the others go on up to the whole."""
    unit = needs[0][1]
    met = Fraction(0)
    while met < 1:
        needs = [need for need in needs if need[0] not in program.zero]
        if not needs:
            break
        met += program.raise_together([(unit, 1), *((slack, ppm) for slack, _, ppm in needs)])
