"""Who gets how much: the division of the capacity among the classes, for one demand. Pure, exact, integers only.

An allocation is the outcome of two phases; the second only has something to do when the first leaves capacity over.

Phase 1, *contention*. Among all shares with

- at most its demand for each class, and the capacity for all together,
- no ceiling exceeded, hard or not, and no ``<=`` relation broken,
- each floor, or the whole demand of its classes if that is less, met. Where this is impossible (demand can make it so
  in a specification without contradiction) every floor gets the same fraction of it, those that could have more than
  the others get more, and so on: the fractions are lexicographically max-min. Floors yield; bounds from above do not,
- every ``>=`` or ``==`` relation and every group of equals kept, unless released (below),

the one that is lexicographically max-min: first for the classes of the first level of priority, then, those being
fixed, for the next. A level is the length of the longest chain of classes that come before; those that take the rest
come last. So a floor is not a bonus on top of an equal part: what is left beyond the floors goes to those who have
least, until all that may grow are even; and no priority takes a floor away.

*Release.* ``a >= r * b`` must not hold b back only because a asks for little. Relations bind lazily: the shares are
found without them; each relation that does not hold is then imposed, unless its left side already has all that it
asks for; and one that is imposed is released again, for good, when it holds its right side back although its left has
all it asks for, which that then keeps. This repeats until every relation holds or its left side is full. ``==`` is a relation in both directions; equal
shares are ``==`` between all members of the group; ``<=`` bounds its left side from above, so it is never released.

Phase 2, *no contention*. Capacity that nobody may take in phase 1 is offered to all who demand more: again
lexicographically max-min by level, nobody losing what he has, now bound by demand, capacity and hard ceilings alone.

*Rounding.* Each phase ends in whole parts per million. Where bounds are nested, every share and the sum of every group
is the exact value rounded up or down (``nested``), so all bounds hold exactly; where they overlap otherwise, ceilings
hold exactly (``rounding``). Ties go to the lower number. The outcome depends on nothing but the arguments.

A problem in contradiction with itself is no error here: its floors yield as above.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import Group, Relation, fill
from qosweb.webqos.allocation.problem import PPM, Problem
from qosweb.webqos.allocation.rounding import to_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Allocator:
    """The shares of one problem, for one demand after another."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._levels = problem.levels()
        self._floors = _merged(((bound.classes, bound.ppm) for bound in problem.floors), max)
        self._ceilings = _merged(((bound.classes, bound.ppm) for bound in problem.ceilings), min)
        self._hard = _merged(((bound.classes, bound.ppm) for bound in problem.ceilings if bound.hard), min)
        self._bounding, self._lapsing = _relations(problem)

    def shares(self, demand_ppm: Sequence[int]) -> tuple[int, ...]:
        """The share of each class, in parts per million."""
        if len(demand_ppm) != self.problem.classes:
            raise ValueError(f"{len(demand_ppm)} demands for {self.problem.classes} classes")
        demand = [min(max(amount, 0), PPM) for amount in demand_ppm]
        if sum(demand) <= PPM and all(sum(demand[one] for one in group) <= ppm for group, ppm in self._hard):
            return tuple(demand)  # no contention
        shares = self._contend(demand)
        return tuple(self._offer(demand, shares))

    def _contend(self, demand: list[int]) -> list[int]:
        imposed: list[int] = []
        released: list[int] = []
        while True:
            exact = fill(
                PPM,
                demand,
                self._levels,
                self._floors,
                self._ceilings,
                [*self._bounding, *(self._lapsing[number] for number in imposed)],
                [self._lapsing[number].left for number in released],
            )
            broken = [
                number
                for number, relation in enumerate(self._lapsing)
                if number not in imposed and number not in released and not _holds(relation, exact, demand)
            ]
            lapsed = [number for number in imposed if _holds_back(self._lapsing[number], exact, demand)]
            if not broken and not lapsed:
                break
            imposed = sorted({*imposed, *broken} - set(lapsed))
            released += lapsed
        return to_whole(exact, demand, self._levels, self._floors, self._ceilings)

    def _offer(self, demand: list[int], shares: list[int]) -> list[int]:
        if sum(shares) == PPM:
            return shares
        floors = [((one,), share) for one, share in enumerate(shares)]
        exact = fill(PPM, demand, self._levels, floors, self._hard)
        return to_whole(exact, demand, self._levels, floors, self._hard)


def allocate(problem: Problem, demand_ppm: Sequence[int]) -> tuple[int, ...]:
    """The share of each class, in parts per million; their sum is at most ``PPM``."""
    return Allocator(problem).shares(demand_ppm)


def _merged(groups: Iterable[Group], choose: Callable[[int, int], int]) -> list[Group]:
    """One bound for each set of classes, and none for the empty set."""
    found: dict[tuple[int, ...], int] = {}
    for group, ppm in groups:
        if group:
            found[group] = choose(found.get(group, ppm), ppm)
    return list(found.items())


def _relations(problem: Problem) -> tuple[list[Relation], list[Relation]]:
    """Those that bound from above and hold always, and those that can be released."""
    bounding: list[Relation] = []
    lapsing: list[Relation] = []
    for ratio in problem.ratios:
        forward = Relation(ratio.left, ratio.right, ratio.denominator, ratio.numerator)
        backward = Relation(ratio.right, ratio.left, ratio.numerator, ratio.denominator)
        if ratio.op == "<=":
            bounding.append(backward)
        elif ratio.op == ">=":
            lapsing.append(forward)
        else:
            lapsing += [forward, backward]
    for group in problem.equal:
        lapsing += [Relation((one,), (other,), 1, 1) for one, other in permutations(group, 2)]
    return bounding, lapsing


def _surplus(relation: Relation, shares: Sequence[Fraction]) -> Fraction:
    left = sum((shares[one] for one in relation.left), Fraction(0))
    return relation.weight_left * left - relation.weight_right * sum(shares[one] for one in relation.right)


def _full(relation: Relation, shares: Sequence[Fraction], demand: Sequence[int]) -> bool:
    return all(shares[one] == demand[one] for one in relation.left)


def _holds(relation: Relation, shares: Sequence[Fraction], demand: Sequence[int]) -> bool:
    return _surplus(relation, shares) >= 0 or _full(relation, shares, demand)


def _holds_back(relation: Relation, shares: Sequence[Fraction], demand: Sequence[int]) -> bool:
    return _surplus(relation, shares) == 0 and _full(relation, shares, demand)
