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
all it asks for, which that then keeps. This repeats until every relation holds or its left side is full. ``==`` is a
relation in both directions; equal shares are ``==`` between all members of the group; ``<=`` bounds its left side from
above, so it is never released.

Phase 2, *no contention*. Capacity that nobody may take in phase 1 is offered to all who demand more, bound by demand,
capacity and hard ceilings alone; what they gain on top of what they have is lexicographically max-min by level. (The
gains and not the sums: shares that were set apart by their ceilings stay apart when somebody else is idle.)

*Rounding.* Each phase ends in whole parts per million. Where bounds are nested, every share and the sum of every group
is the exact value rounded up or down (``nested``), so all bounds hold exactly; where they overlap otherwise, ceilings
hold exactly (``rounding``). Ties go to the lower number. The outcome depends on nothing but the arguments.

A problem in contradiction with itself is no error here: its floors yield as above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import fill
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.packing import fill_under
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.relations import Relations
from qosweb.webqos.allocation.rounding import to_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    from qosweb.webqos.allocation.general import Group
    from qosweb.webqos.allocation.problem import Problem

CACHE_MAX = 1024


class Allocator:
    """The shares of one problem, for one demand after another."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._levels = problem.levels()
        self._floors = _merged(((bound.classes, bound.ppm) for bound in problem.floors), max)
        self._ceilings = _merged(((bound.classes, bound.ppm) for bound in problem.ceilings), min)
        self._hard = _merged(((bound.classes, bound.ppm) for bound in problem.ceilings if bound.hard), min)
        self._nested = Nested(self._levels, self._floors, self._ceilings)
        self._nested_hard = Nested(self._levels, (), self._hard)
        self._relations = Relations(problem)
        self._everyone: Group = (tuple(range(problem.classes)), PPM)
        self._offsets = [level * PPM for level in self._levels]
        self._floor_of = {group[0]: ppm for group, ppm in self._floors if len(group) == 1}
        self._ceiling_of = {group[0]: ppm for group, ppm in self._ceilings if len(group) == 1}
        self._demand = [0] * problem.classes
        self._cache: dict[tuple[int, ...], tuple[int, ...]] = {}

    def shares(self, demand_ppm: Sequence[int]) -> tuple[int, ...]:
        """The share of each class, in parts per million."""
        self._demand = list(demand_ppm)
        return self._shares()

    def update(self, one: int, demand_ppm: int) -> tuple[int, ...]:
        """The shares after the demand of one class has changed."""
        self._demand[one] = demand_ppm
        return self._shares()

    def _shares(self) -> tuple[int, ...]:
        demand = tuple(self._demand)
        found = self._cache.get(demand)
        if found is None:
            if len(demand) != self.problem.classes:
                raise ValueError(f"{len(demand)} demands for {self.problem.classes} classes")
            if len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            found = self._cache[demand] = tuple(self._divide([min(max(amount, 0), PPM) for amount in demand]))
        return found

    def _divide(self, demand: list[int]) -> list[int]:
        if sum(demand) <= PPM and not _exceeded(self._hard, demand):
            return demand  # no contention
        shares = self._contend_nested(demand)
        if shares is None:
            shares = self._contend_packed(demand)
        if shares is None:
            shares = self._contend(demand)
        if sum(shares) < PPM:
            shares = self._offer(demand, shares)
        return shares

    def _contend_nested(self, demand: list[int]) -> list[int] | None:
        """Phase 1 with the nested bounds alone; None if the others, or a relation, would have changed it.

        What is best among more is best among fewer, if it is there.
        """
        shares = self._nested.fill(demand)
        if shares is None:
            return None
        floors, ceilings = self._nested.others
        if _missed(floors, shares, demand) or _exceeded(ceilings, shares):
            return None
        return shares if self._relations.hold_nearly(shares, demand) else None

    def _contend_packed(self, demand: list[int]) -> list[int] | None:
        """Phase 1 with all ceilings, but of the floors only those of single classes; None as above."""
        if not self._nested.others[1]:
            return None  # nothing new to try
        low, high = demand.copy(), demand.copy()
        for one in range(len(demand)):
            high[one] = min(high[one], self._ceiling_of.get(one, PPM))
            low[one] = min(high[one], self._floor_of.get(one, 0))
        exact = fill_under([self._everyone, *self._ceilings], low, high, self._offsets)
        if exact is None or _missed(self._floors, exact, demand) or not self._relations.hold(exact, demand):
            return None
        return to_whole(exact, demand, self._levels, self._floors, self._ceilings)

    def _contend(self, demand: list[int]) -> list[int]:
        """Phase 1 for any bounds."""
        relations = self._relations
        imposed: set[int] = set()
        released: set[int] = set()
        while True:
            exact = fill(
                PPM,
                demand,
                self._levels,
                self._floors,
                self._ceilings,
                relations.in_force(imposed),
                relations.left(released),
            )
            broken, lapsed = relations.judge(exact, demand, imposed, released)
            if not broken and not lapsed:
                return to_whole(exact, demand, self._levels, self._floors, self._ceilings)
            imposed = (imposed | broken) - lapsed
            released |= lapsed

    def _offer(self, demand: list[int], held: list[int]) -> list[int]:
        """Phase 2."""
        shares = self._nested_hard.fill(demand, held)
        if shares is None or _exceeded(self._nested_hard.others[1], shares):
            more = [amount - share for amount, share in zip(demand, held, strict=True)]
            hard = [(group, ppm - sum(held[one] for one in group)) for group, ppm in (self._everyone, *self._hard)]
            exact = fill_under(hard, [0] * len(held), more, self._offsets)
            assert exact is not None, "phase 1 exceeds no ceiling"
            gained = to_whole(exact, more, self._levels, (), hard)
            shares = [share + gain for share, gain in zip(held, gained, strict=True)]
        return shares


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


def _missed(floors: list[Group], shares: Sequence[Fraction] | list[int], demand: list[int]) -> bool:
    return any(
        sum([shares[one] for one in group]) < min(ppm, sum([demand[one] for one in group])) for group, ppm in floors
    )


def _exceeded(ceilings: list[Group], shares: list[int]) -> bool:
    return any(sum([shares[one] for one in group]) > ppm for group, ppm in ceilings)
