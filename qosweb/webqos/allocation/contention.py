"""Phase 1 of an allocation, contention: max-min fair shares under all rules of a problem. Pure, exact.

Where bounds are nested and nothing else binds, water levels find the shares (``nested``). Otherwise linear programs do
(``general``), and floors are added lazily: the shares are computed without floors, the floors that these shares miss
are added, and so on until none is missed. Shares that are max-min under some of the rules and satisfy all rules are
max-min under all rules; that a floor among those added cannot be met in full makes no difference, because all others
then have the largest fraction that a floor can have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import fill
from qosweb.webqos.allocation.groups import Exact, lower_bounds, upper_bounds
from qosweb.webqos.allocation.nested import Nested
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
        self._floors = lower_bounds(problem.floors)
        self._ceilings = upper_bounds(problem.ceilings)
        self._relations = Relations(problem)
        self._nested = Nested(levels, self._floors, self._ceilings)
        self._only_nested = self._nested.others == ([], []) and not self._relations.any
        self._rounding = Rounding(levels, self._floors, self._ceilings)

    def divide(self, demand: list[int]) -> list[int]:
        """The shares under contention."""
        shares = self._nested.fill(demand) if self._only_nested else None
        return shares if shares is not None else self._by_need(demand)

    def _by_need(self, demand: list[int]) -> list[int]:
        """Shares under all rules. Relations are imposed and released as the specification says."""
        state = self._relations.at_first
        floors: list[Group] = []
        while True:
            exact = self._exact(demand, state, floors)
            after = self._relations.judge(exact, demand, state)
            if after is state:
                return self._rounding.whole(exact, demand)
            state = after

    def _exact(self, demand: list[int], state: State, floors: list[Group]) -> Exact:
        """The exact shares with these relations; extends ``floors`` by those that may bind."""
        while True:
            exact = fill(PPM, demand, self._levels, floors, self._ceilings, state.relations, state.full)
            missed = [bound for bound in self._floors if bound not in floors and _misses(exact, bound, demand)]
            if not missed:
                return exact
            floors += missed


def _misses(exact: Exact, floor: Group, demand: Sequence[int]) -> bool:
    amounts, scale = exact
    group, ppm = floor
    return sum([amounts[one] for one in group]) < min(ppm, sum([demand[one] for one in group])) * scale
