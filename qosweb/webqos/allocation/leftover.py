"""Phase 2 of an allocation: divides capacity that contention leaves unused, bound by hard ceilings alone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import fill
from qosweb.webqos.allocation.groups import exceeded, upper_bounds
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.rounding import Rounding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.problem import Problem


class Leftover:
    """Divides unused capacity under the hard ceilings of a problem."""

    def __init__(self, problem: Problem, levels: Sequence[int]) -> None:
        self._levels = levels
        self._ceilings = upper_bounds(bound for bound in problem.ceilings if bound.hard)
        self._nested = Nested(levels, (), self._ceilings)
        self._everyone: Group = (tuple(range(problem.classes)), PPM)

    def allows(self, shares: Sequence[int]) -> bool:
        return not exceeded(self._ceilings, shares)

    def divide(self, demand: Sequence[int], held: Sequence[int]) -> list[int]:
        """The shares in ``held`` plus an even part of the remaining capacity."""
        shares = self._nested.fill(demand, held)
        if shares is not None and not exceeded(self._nested.others[1], shares):
            return shares
        more = [amount - share for amount, share in zip(demand, held, strict=True)]
        rooms = [(group, ppm - sum(held[one] for one in group)) for group, ppm in (self._everyone, *self._ceilings)]
        exact = fill(PPM, more, self._levels, (), rooms)
        gains = Rounding(self._levels, (), rooms).whole(exact, more)
        return [share + gain for share, gain in zip(held, gains, strict=True)]
