"""Phase 1 of an allocation: the quick methods as far as they go, then the general one. Pure.

Where bounds are nested and nothing else binds, by water levels (``nested``). Else by those bounds alone that bind
(``binding_bounds``), and where there is less than what floors ask for together, by linear programs over all
(``general``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.binding_bounds import Lazy
from qosweb.webqos.allocation.general import fill
from qosweb.webqos.allocation.groups import Exact, lower_bounds, upper_bounds
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.relations import Relations
from qosweb.webqos.allocation.rounding import Rounding, to_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.problem import Problem
    from qosweb.webqos.allocation.waterline import Bounds, Found


class ContentionPhase:
    """All rules of a problem, hard or not."""

    def __init__(self, problem: Problem, levels: Sequence[int]) -> None:
        self._levels = levels
        self._floors = lower_bounds(problem.floors)
        self._ceilings = upper_bounds(problem.ceilings)
        self._relations = Relations(problem)
        self._nested = Nested(levels, self._floors, self._ceilings)
        related = self._relations.classes()
        self._only_nested = self._nested.others == ([], []) and not related
        offsets = [level * PPM for level in levels]
        self._lazy = Lazy(offsets, self._floors, self._ceilings, related)
        self._rounding = Rounding(levels, self._floors, self._ceilings)
        self._floors_over: list[list[Group]] = [[] for _ in levels]  # for each class: the others in a floor with it
        for group, ppm in self._floors:
            for one in group:
                self._floors_over[one].append((tuple(other for other in group if other != one), ppm))
        self._steps: list[Exact | tuple[Bounds, Found]] = []

    def divide(self, demand: list[int]) -> list[int]:
        """The shares under contention."""
        shares = None
        self._steps.clear()
        if self._only_nested:
            shares = self._nested.divide(demand)
        if shares is None:
            shares = self._by_need(demand)
        return shares

    def needed(self, one: int, demand: Sequence[int]) -> int:
        """What this class must ask for at least for the outcome of the last division to be what it is.

        Had it asked for that much or more, instead of what it asked for, which is more, nothing would be different: its
        floors would demand the same, since others make up for what it does not ask for, and it would not be full.
        """
        most = 0
        for others, ppm in self._floors_over[one]:
            most = max(most, ppm - sum([min(max(demand[other], 0), PPM) for other in others]))
        for step in self._steps:
            held = -(-step.amounts[one] // step.scale) if isinstance(step, Exact) else self._lazy.amount(one, *step)
            most = max(most, held + 1)
        return most

    def _by_need(self, demand: list[int]) -> list[int]:
        """With everything. Relations are imposed and released as the specification says."""
        relations, lazy, steps = self._relations, self._lazy, self._steps
        bounds = lazy.bounds(demand)
        state = relations.at_first
        while True:
            found = lazy.settle(bounds, state) if bounds is not None else None
            if found is not None and bounds is not None:
                steps.append((bounds, found))
                after = relations.judge(found.amounts, found.parts, demand, state)
                if after is state:
                    return lazy.whole(bounds, found, self._rounding)
            else:
                rules = self._floors, self._ceilings, state.relations, state.full
                exact = fill(PPM, demand, self._levels, *rules)
                steps.append(exact)
                after = relations.judge(exact.amounts, exact.scale, demand, state)
                if after is state:
                    return to_whole(exact, demand, self._levels, self._floors, self._ceilings)
            state = after
