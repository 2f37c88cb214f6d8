"""Phase 1 of an allocation, contention: max-min fair shares under all rules of a problem. Pure, exact.

Where bounds are nested and nothing else binds, water levels find the shares (``nested``). Otherwise rules are added
lazily: the shares are computed under the bounds of single classes, the rules that these shares break are added, and so
on until none is broken. Shares that are max-min under some of the rules and satisfy all rules are max-min under all
rules. While only ceilings bind, progressive filling finds the shares (``packing``), else a linear program over the
classes that the binding rules name (``level_search``). Where the capacity is less than the sum of the floors, a linear
program over all classes and rules does (``general``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import fill
from qosweb.webqos.allocation.groups import Exact, lower_bounds, upper_bounds
from qosweb.webqos.allocation.level_search import Rules, fill_beside
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.packing import fill_under
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.relations import Relations
from qosweb.webqos.allocation.rounding import Rounding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.problem import Problem
    from qosweb.webqos.allocation.relations import State


class ContentionPhase:
    """Divides the capacity under all rules of a problem, hard or not."""

    def __init__(self, problem: Problem, levels: Sequence[int]) -> None:
        self._levels = levels
        self._offsets = [level * PPM for level in levels]
        self._floors = lower_bounds(problem.floors)
        self._ceilings = upper_bounds(problem.ceilings)
        self._relations = Relations(problem)
        self._nested = Nested(levels, self._floors, self._ceilings)
        self._only_nested = self._nested.others == ([], []) and not self._relations.any
        self._rounding = Rounding(levels, self._floors, self._ceilings)
        self._own_floors = [bound for bound in self._floors if len(bound[0]) == 1]
        self._own_ceilings = [bound for bound in self._ceilings if len(bound[0]) == 1]
        self._group_floors = [bound for bound in self._floors if len(bound[0]) > 1]
        self._group_ceilings = [bound for bound in self._ceilings if 1 < len(bound[0]) < problem.classes]
        # A ceiling over all classes is a smaller capacity.
        self._capacity = min([PPM, *(ppm for group, ppm in self._ceilings if len(group) == problem.classes)])
        self._everyone: Group = (tuple(range(problem.classes)), self._capacity)

    def divide(self, demand: list[int]) -> list[int]:
        """The shares under contention."""
        shares = self._nested.fill(demand) if self._only_nested else None
        return shares if shares is not None else self._by_need(demand)

    def _by_need(self, demand: list[int]) -> list[int]:
        """Shares under all rules. Relations are imposed and released as the specification says."""
        state = self._relations.at_first
        binding: tuple[list[Group], list[Group]] = [], []
        while True:
            exact = self._exact(demand, state, *binding)
            after = self._relations.judge(exact, demand, state)
            if after is state:
                return self._rounding.whole(exact, demand)
            state = after

    def _exact(self, demand: list[int], state: State, floors: list[Group], ceilings: list[Group]) -> Exact:
        """The exact shares with these relations; extends ``floors`` and ``ceilings`` by groups that may bind."""
        low, high = self._own_bounds(demand)
        while True:
            exact = None
            if not state.relations and not state.full and not floors:
                exact = fill_under([self._everyone, *ceilings], low, high, self._offsets)
            if exact is None and sum(low) <= self._capacity:
                bounds = [*self._own_floors, *floors], [*self._own_ceilings, *ceilings]
                rules = Rules(*bounds, state.relations, state.full)
                exact = fill_beside(self._capacity, demand, self._levels, low, high, rules)
            if exact is None:
                rules = Rules(self._floors, self._ceilings, state.relations, state.full)
                return fill(PPM, demand, self._levels, *rules).exact
            before = len(floors) + len(ceilings)
            ceilings += [bound for bound in self._group_ceilings if bound not in ceilings and _exceeds(exact, bound)]
            floors += [bound for bound in self._group_floors if bound not in floors and _lacks(exact, bound, demand)]
            if len(floors) + len(ceilings) == before:
                return exact

    def _own_bounds(self, demand: Sequence[int]) -> tuple[list[int], list[int]]:
        low, high = [0] * len(demand), list(demand)
        for (one,), ppm in self._own_ceilings:
            high[one] = min(high[one], ppm)
        for (one,), ppm in self._own_floors:
            low[one] = min(high[one], ppm)
        return low, high


def _exceeds(exact: Exact, ceiling: Group) -> bool:
    amounts, scale = exact
    group, ppm = ceiling
    return sum([amounts[one] for one in group]) > ppm * scale


def _lacks(exact: Exact, floor: Group, demand: Sequence[int]) -> bool:
    amounts, scale = exact
    group, ppm = floor
    return sum([amounts[one] for one in group]) < min(ppm, sum([demand[one] for one in group])) * scale
