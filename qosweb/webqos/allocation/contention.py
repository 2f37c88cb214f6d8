"""Phase 1 of an allocation: the quick methods as far as they go, then the general one. Pure.

A quick method leaves some of the rules out. If what it finds happens to keep those too, it is the answer: what is best
among more is best among fewer, if it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import Exact, exceeded, lower_bounds, missed, upper_bounds
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.packing import fill_under
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.reduced import fill_reduced
from qosweb.webqos.allocation.relations import Relations
from qosweb.webqos.allocation.rounding import to_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.problem import Problem


class Contention:
    """All rules of a problem, hard or not."""

    def __init__(self, problem: Problem, levels: Sequence[int]) -> None:
        self._levels = levels
        self._offsets = [level * PPM for level in levels]
        self._floors = lower_bounds(problem.floors)
        self._ceilings = upper_bounds(problem.ceilings)
        self._relations = Relations(problem)
        self._single = Nested(levels, self._floors, self._ceilings, single=True)
        self._nested = Nested(levels, self._floors, self._ceilings)
        self._everyone: Group = (tuple(range(problem.classes)), PPM)
        self._floor_of = [0] * problem.classes
        self._ceiling_of = [PPM] * problem.classes
        for group, ppm in self._floors:
            if len(group) == 1:
                self._floor_of[group[0]] = ppm
        for group, ppm in self._ceilings:
            if len(group) == 1:
                self._ceiling_of[group[0]] = ppm

    def divide(self, demand: list[int]) -> list[int]:
        """The shares under contention."""
        shares = None
        if self._nested.others[1]:
            shares = self._by_levels(self._single, demand)
            if shares is None:
                shares = self._under_ceilings(demand)
        if shares is None:
            shares = self._by_levels(self._nested, demand)
        if shares is None:
            shares = self._by_programs(demand)
        return shares

    def _by_levels(self, nested: Nested, demand: list[int]) -> list[int] | None:
        """With bounds that are nested; None if the rules left out are broken."""
        shares = nested.fill(demand)
        if shares is None:
            return None
        floors, ceilings = nested.others
        whole = Exact(shares, 1)
        if missed(floors, whole, demand) or exceeded(ceilings, shares):
            return None
        return shares if self._relations.hold(whole, demand, noise=1) else None

    def _under_ceilings(self, demand: list[int]) -> list[int] | None:
        """With all ceilings, but of the floors only those of single classes; None as above."""
        high = [*map(min, demand, self._ceiling_of)]
        low = [*map(min, high, self._floor_of)]
        exact = fill_under([self._everyone, *self._ceilings], low, high, self._offsets)
        if exact is None or missed(self._floors, exact, demand) or not self._relations.hold(exact, demand):
            return None
        return to_whole(exact, demand, self._levels, self._floors, self._ceilings)

    def _by_programs(self, demand: list[int]) -> list[int]:
        """With everything. Relations are imposed and released as the specification says."""
        relations = self._relations
        imposed: set[int] = set()
        released: set[int] = set()
        while True:
            binding, full = relations.in_force(imposed), relations.left(released)
            exact = fill_reduced(PPM, demand, self._levels, self._floors, self._ceilings, binding, full)
            broken, lapsed = relations.judge(exact, demand, imposed, released)
            if not broken and not lapsed:
                return to_whole(exact, demand, self._levels, self._floors, self._ceilings)
            imposed = (imposed | broken) - lapsed
            released |= lapsed
