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

*Priority.* ``a before b`` holds b back while a lacks something, and puts it behind nobody else: when a turns out to
have all it asks for, a keeps that, and the shares are found again with b no longer behind it (``Problem.levels``),
until nobody else turns out to be full.

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
hold exactly (``rounding``). Ties go to the lower number.

*The outcome depends on nothing but the arguments*, whatever was asked before. Each step above asks for shares that are
lexicographically max-min over a convex set, and there is only one such vector: of two different ones, equal in the
lexicographic order, the mean would be better than both. So it does not matter how a method comes upon its answer, if
only that is proved to be max-min; what is remembered from one demand to the next are guesses, and each is proved, in
whole numbers, for the demand at hand (``active_sets`` says how) or given up. Which relations are imposed and released,
and the rounding, follow from the exact shares alone.

A problem in contradiction with itself is no error here: its floors yield as above.

Neighbours: ``contention`` is phase 1, ``leftover`` phase 2. Phase 1 by water levels: ``nested`` where all bounds are
nested (``incremental_nested`` remember the last division); else ``binding_bounds``, which takes only the bounds that
bind and finds the level (``level_search``) at which the free classes (``waterline``) and all that hangs together hold
the capacity. What hangs together goes by straight lines, as far as it is known (``component``, ``active_sets``;
``packing`` if ceilings alone bind). What is not known, linear programs find (``general``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.contention import ContentionPhase
from qosweb.webqos.allocation.leftover import Leftover
from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.problem import Problem

CACHE_MAX = 1024
METHODS_MAX = 64
FEW_CHANGES = 4


class Allocator:
    """The shares of one problem, for one demand after another; what depends on the problem alone is done once.

    A class that does not get all it asks for may ask for more, or for somewhat less, and nothing changes: a change of
    this kind is recognised without a division.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._first = sorted({first for first, _ in problem.before})
        self._methods: dict[frozenset[int], tuple[ContentionPhase, Leftover]] = {}
        self._methods_for(frozenset())
        self._demand = [0] * problem.classes
        self._found: tuple[int, ...] | None = None  # the shares for this demand
        self._steps: list[tuple[ContentionPhase, list[int]]] = []  # how they were found; none if by looking them up
        self._cache: dict[tuple[int, ...], tuple[int, ...]] = {}

    def shares(self, demand_ppm: Sequence[int]) -> tuple[int, ...]:
        """The share of each class, in parts per million."""
        if len(demand_ppm) != self.problem.classes:
            raise ValueError(f"{len(demand_ppm)} demands for {self.problem.classes} classes")
        if self._found is not None:
            changed = [one for one, (a, b) in enumerate(zip(self._demand, demand_ppm, strict=True)) if a != b]
            if len(changed) <= FEW_CHANGES and self._are_idle(changed, demand_ppm):
                return self._found
        self._demand = list(demand_ppm)
        return self._shares()

    def update(self, one: int, demand_ppm: int) -> tuple[int, ...]:
        """The shares after the demand of one class has changed."""
        if self._found is not None and self._is_idle(one, demand_ppm):
            self._demand[one] = demand_ppm
            return self._found
        self._demand[one] = demand_ppm
        return self._shares()

    def _are_idle(self, changed: Sequence[int], demand_ppm: Sequence[int]) -> bool:
        """The same for several, one after the other."""
        for one in changed:
            if not self._is_idle(one, demand_ppm[one]):
                return False
            self._demand[one] = demand_ppm[one]
        return True

    def _is_idle(self, one: int, demand_ppm: int) -> bool:
        """Is it certain that this change of demand changes no share?"""
        before = self._demand[one]
        if before == demand_ppm:
            return True
        if self._found is None or not self._steps:
            return False
        least = min(before, demand_ppm)
        if least <= self._found[one]:
            return False
        return all(least > shares[one] and least >= method.needed(one, self._demand) for method, shares in self._steps)

    def _shares(self) -> tuple[int, ...]:
        demand = tuple(self._demand)
        found = self._cache.get(demand)
        self._steps.clear()
        if found is None:
            if len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            wanted = list(demand)
            if wanted and (min(wanted) < 0 or max(wanted) > PPM):
                wanted = [min(max(amount, 0), PPM) for amount in wanted]
            found = self._cache[demand] = tuple(self._divide(wanted))
        self._found = found
        return found

    def _divide(self, demand: list[int]) -> list[int]:
        if sum(demand) <= PPM and self._methods_for(frozenset())[1].allows(demand):
            return demand
        shares, full = self._contend(demand)
        return shares if sum(shares) == PPM else self._methods_for(full)[1].divide(demand, shares)

    def _contend(self, demand: list[int]) -> tuple[list[int], frozenset[int]]:
        """Phase 1, and which classes turned out to be full and hold back nobody."""
        full: frozenset[int] = frozenset()
        while True:
            method = self._methods_for(full)[0]
            shares = method.divide(demand)
            self._steps.append((method, shares))
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
