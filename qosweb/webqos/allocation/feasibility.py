"""Feasibility check: can all bounds of a specification be met together, and if not, which few contradict?

A linear program over the shares: floors, ceilings, relations, equal shares, all within the capacity. The result is
exact. Where water levels (``nested``) find shares that meet all bounds, the bounds agree. For a small specification
exact arithmetic decides. Otherwise, and to name a contradiction, scipy is loaded (``contradictions``).

Not for the path of a request: a call takes milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import lower_bounds, upper_bounds
from qosweb.webqos.allocation.inequalities import rows_of, satisfied, solvable
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from qosweb.webqos.allocation.problem import Problem

NESTED_ROWS_MAX = 1_000
EXACT_ROWS_MAX = 60  # with more, floating point is faster


def contradiction(problem: Problem, capacity: int = PPM) -> tuple[int, ...] | None:
    """A smallest set of constraints that cannot be met together, in rising order; None if all bounds can be met.

    ``capacity``: the limit of the sum of all shares, where bounds are in another unit than parts per million.
    """
    rows = rows_of(problem, capacity)
    if capacity == PPM and len(rows) <= NESTED_ROWS_MAX:
        nested = Nested([0] * problem.classes, lower_bounds(problem.floors), upper_bounds(problem.ceilings))
        shares = nested.fill([PPM] * problem.classes)
        if shares is not None and satisfied(rows, shares):
            return None
    if len(rows) <= EXACT_ROWS_MAX and solvable(rows):
        return None
    from qosweb.webqos.allocation.contradictions import smallest_contradiction  # loads scipy

    return smallest_contradiction(rows, problem.classes)
