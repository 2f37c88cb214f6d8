"""Specification and entry point of the allocation: max-min fair shares of the classes for one demand. Pure, exact.

All results are integers, in parts per million. An allocation has two phases. The second only matters when the first
leaves capacity unused.

Phase 1, *contention*. Among all shares with

- at most its demand for each class, and the capacity for all together,
- no ceiling exceeded, hard or not, and no ``<=`` relation broken,
- each floor, or the whole demand of its classes if that is less, met. Where this is impossible (demand can make it so
  in a specification without contradiction) every floor is met by the same fraction, floors that can get more than the
  others get more, and so on: the fractions are lexicographically max-min. Floors yield; upper bounds do not,
- every ``>=`` or ``==`` relation and every group of equals kept, unless released (below),

the lexicographically max-min vector: first for the classes of the first level of priority, then, with these fixed, for
the next level. The level of a class is the length of the longest chain of classes that come before it; classes that
take the rest come last. So a floor is not a bonus on top of an equal part: capacity beyond the floors goes to the
classes that have least, until all that may grow are even; and no priority takes a floor away.

*Priority.* ``a before b`` holds b back while a lacks something, and puts b behind no other class: when a turns out to
have its whole demand, a keeps it, and the shares are computed again with b no longer behind a (``Problem.levels``),
until no other class turns out to be full.

*Release.* ``a >= r * b`` must not hold b back only because a has little demand. Relations bind lazily: the shares are
computed without them. Each relation that does not hold is then imposed, unless its left side already has its whole
demand. An imposed relation is released again, for good, when it holds its right side back although its left side has
its whole demand; the left side then keeps its demand. This repeats until every relation holds or its left side is full.
``==`` is a relation in both directions; equal shares are ``==`` between all members of the group; ``<=`` bounds its
left side from above, so it is never released.

Phase 2, *no contention*. Capacity that no class may take in phase 1 is offered to all classes with unmet demand, bound
by demand, capacity and hard ceilings alone. The gains on top of phase 1 are lexicographically max-min by level. (The
gains and not the sums: shares that differ because of their ceilings keep that difference when another class is idle.)

*Rounding.* Each phase ends in integer parts per million. Where bounds are nested, every share and the sum of every
group is the exact value rounded up or down (``nested``), so all bounds hold exactly; where they overlap otherwise,
ceilings hold exactly (``rounding``). Ties go to the lower number.

*The result depends only on the arguments*, not on earlier calls. Each step above computes the lexicographically max-min
vector over a convex set, which is unique: of two different ones, equal in the lexicographic order, the mean would be
better than both. So it does not matter which method finds it. Which relations are imposed and released, and the
rounding, follow from the exact shares alone.

A contradictory problem is no error here: its floors yield as above.

Neighbours: ``contention`` is phase 1, ``leftover`` phase 2. Two methods find shares: water levels where all bounds are
nested (``nested``, ``water``), else linear programs (``general``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.contention import ContentionPhase
from qosweb.webqos.allocation.leftover import Leftover
from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.problem import Problem

CACHE_MAX = 1024  # cached demands
CACHED_AMOUNTS_MAX = 1 << 18  # in all cached demands together
METHODS_MAX = 64


class Allocator:
    """Computes the shares of one problem, for one demand after another.

    Work that depends on the problem alone is done once, and the shares of recent demands are cached: callers round the
    demand to steps, so that the same demand returns.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._first = sorted({first for first, _ in problem.before})
        self._methods: dict[frozenset[int], tuple[ContentionPhase, Leftover]] = {}
        self._methods_for(frozenset())
        self._cache: dict[tuple[int, ...], tuple[int, ...]] = {}  # the least recently used first
        self._cache_max = min(CACHE_MAX, CACHED_AMOUNTS_MAX // max(problem.classes, 1))

    def shares(self, demand_ppm: Sequence[int]) -> tuple[int, ...]:
        """The share of each class, in parts per million."""
        if len(demand_ppm) != self.problem.classes:
            raise ValueError(f"{len(demand_ppm)} demands for {self.problem.classes} classes")
        demand = tuple(demand_ppm)
        found = self._cache.pop(demand, None)
        if found is None:
            if len(self._cache) >= self._cache_max:
                del self._cache[next(iter(self._cache))]
            found = tuple(self._divide([min(max(amount, 0), PPM) for amount in demand]))
        self._cache[demand] = found
        return found

    def _divide(self, demand: list[int]) -> list[int]:
        if sum(demand) <= PPM and self._methods_for(frozenset())[1].allows(demand):
            return demand
        shares, full = self._contend(demand)
        return shares if sum(shares) == PPM else self._methods_for(full)[1].divide(demand, shares)

    def _contend(self, demand: list[int]) -> tuple[list[int], frozenset[int]]:
        """Phase 1, and the classes that turned out to be full and hold no class back."""
        full: frozenset[int] = frozenset()
        while True:
            method = self._methods_for(full)[0]
            shares = method.divide(demand)
            found = frozenset([one for one in self._first if shares[one] >= demand[one]])
            if found <= full:
                return shares, full
            full |= found

    def _methods_for(self, full: frozenset[int]) -> tuple[ContentionPhase, Leftover]:
        methods = self._methods.get(full)
        if methods is None:
            if len(self._methods) >= METHODS_MAX:
                self._methods.clear()
            levels = self.problem.levels(full)
            methods = self._methods[full] = ContentionPhase(self.problem, levels), Leftover(self.problem, levels)
        return methods


def allocate(problem: Problem, demand_ppm: Sequence[int]) -> tuple[int, ...]:
    """The share of each class, in parts per million; their sum is at most ``PPM``."""
    return Allocator(problem).shares(demand_ppm)
