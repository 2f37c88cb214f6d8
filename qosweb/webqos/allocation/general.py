"""Lexicographic max-min shares under arbitrary rules, by exact linear programs: the general, slow method. Pure.

The steps are those of the specification in ``shares``: released sets keep their demand, then the floors are met as far
as possible, then the classes are raised together, level by level.
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

    def surplus(self, amounts: Sequence[int]) -> int:
        """The excess of the left side over the right; negative if the relation does not hold."""
        left, right = (sum([amounts[one] for one in side]) for side in (self.left, self.right))
        return self.weight_left * left - self.weight_right * right


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
        filling.lift([one for one in filling.present if levels[one] == level])
    return filling.exact()


class _Filling:
    """The state of one division: the linear program, and how far each class has risen."""

    def __init__(
        self,
        capacity: int,
        demand: Sequence[int],
        floors: Iterable[Group],
        ceilings: Iterable[Group],
        relations: Sequence[Relation],
        full: Iterable[tuple[int, ...]],
    ) -> None:
        self.present = [one for one, amount in enumerate(demand) if amount > 0]
        self._demand = demand
        self._column = {one: c for c, one in enumerate(self.present)}
        self._shares = [Fraction(0)] * len(demand)
        self._rows: list[dict[int, int]] = []
        self._limits: list[int] = []
        for one in self.present:
            self._add_row([(one, 1)], demand[one])
        self._add_row([(one, 1) for one in self.present], capacity)
        for group, ppm in ceilings:
            if ppm < sum([demand[one] for one in group]):
                self._add_row([(one, 1) for one in group], ppm)
        for relation in relations:
            entries = [(one, relation.weight_right) for one in relation.right]
            self._add_row([*entries, *((one, -relation.weight_left) for one in relation.left)], 0)
        stages: list[list[tuple[int, int, int]]] = []  # (slack of the floor, slack of the unit of its stage, weight)
        for stage in (((group, sum([demand[one] for one in group])) for group in full), floors):
            needs = [(group, min(ppm, sum([demand[one] for one in group]))) for group, ppm in stage]
            needs = [(group, ppm) for group, ppm in needs if ppm > 0]
            if needs:
                unit = self._add_row([], 1)
                stages.append([(self._add_row([(one, -1) for one in group], 0), unit, ppm) for group, ppm in needs])
        self._program = Program(len(self.present), self._rows, self._limits)
        for stage_needs in stages:
            _meet(self._program, stage_needs)

    def _add_row(self, entries: Iterable[tuple[int, int]], limit: int) -> int:
        row: dict[int, int] = {}
        for one, entry in entries:
            column = self._column.get(one)
            if column is not None:
                row[column] = row.get(column, 0) + entry
        self._rows.append(row)
        self._limits.append(limit)
        return len(self.present) + len(self._rows) - 1

    def lift(self, rising: list[int]) -> None:
        """Raises the classes of a level of priority together; a class that cannot rise further stops."""
        program, zero = self._program, self._program.zero
        height = Fraction(0)
        while True:
            going: list[int] = []
            whole, parts = height.numerator, height.denominator
            for one in rising:
                if self._column[one] in zero or whole >= self._demand[one] * parts:
                    self._shares[one] = height
                else:
                    going.append(one)
            if not going:
                return
            rising = going
            height += program.raise_together([(self._column[one], 1) for one in going])

    def exact(self) -> Exact:
        scale = lcm(*(share.denominator for share in self._shares))
        return Exact([share.numerator * (scale // share.denominator) for share in self._shares], scale)


def _meet(program: Program, needs: list[tuple[int, int, int]]) -> None:
    """Meets the same fraction of every floor. Floors that cannot rise stop; the others go on to their full value."""
    unit = needs[0][1]
    met = Fraction(0)
    while met < 1:
        left = [need for need in needs if need[0] not in program.zero]
        if not left:
            return
        met += program.raise_together([(unit, 1), *((slack, ppm) for slack, _, ppm in left)])
