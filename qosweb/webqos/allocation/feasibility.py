"""Feasibility check: can all bounds of a specification be met together, and if not, which few contradict?

A linear program over the shares: floors, ceilings, relations, equal shares, all within the capacity, in exact
arithmetic. So bounds that add up to exactly the capacity agree, and bounds that exceed it by one part in a million do
not. Where water levels (``nested``) find shares that meet all bounds, no linear program is needed.

The smallest contradicting set is found by implicit hitting sets (Ignatiev et al., "Smallest MUS extraction with minimal
hitting set dualization", CP 2015): every set of constraints whose removal makes the rest agree must be hit by every
contradiction. So a smallest set that hits all such sets known so far either is a contradiction, and then a smallest
one, or reveals another set to hit. The effort is bounded; when the bound is reached, the result is a set from which no
constraint can be removed, which need not be the smallest.

Not for the path of a request: a call takes milliseconds, and seconds for thousands of overlapping bounds.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import lower_bounds, upper_bounds
from qosweb.webqos.allocation.inequalities import ALWAYS, culprits, rows_of, satisfied
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.inequalities import Inequality
    from qosweb.webqos.allocation.problem import Problem

EFFORT_MAX = 10_000_000  # in the search for a smallest set: the sum of the cubed sizes of the linear programs
ROUNDS_MAX = 60
STEPS_MAX = 2_000  # of one search for a hitting set


def contradiction(problem: Problem, capacity: int = PPM) -> tuple[int, ...] | None:
    """A smallest set of constraints that cannot be met together, in rising order; None if all bounds can be met.

    ``capacity``: the limit of the sum of all shares, where bounds are in another unit than parts per million.
    """
    rows = rows_of(problem, capacity)
    if capacity == PPM:
        nested = Nested([0] * problem.classes, lower_bounds(problem.floors), upper_bounds(problem.ceilings))
        shares = nested.fill([PPM] * problem.classes)
        if shares is not None and satisfied(rows, shares):
            return None
    search = _Search(rows)
    found = search.culprits(sorted(search.by_constraint))
    if found is None:
        return None
    return tuple(sorted(search.smallest(search.irreducible(found))))


class _Search:
    def __init__(self, rows: Iterable[Inequality]) -> None:
        self._always: list[Inequality] = []
        self._effort = 0
        self.by_constraint: dict[int, list[Inequality]] = defaultdict(list)
        for row in rows:
            (self._always if row.constraint == ALWAYS else self.by_constraint[row.constraint]).append(row)

    def culprits(self, constraints: Iterable[int]) -> set[int] | None:
        """None if these constraints agree; else those that a proof of the contradiction uses."""
        rows = [*self._always, *(row for constraint in constraints for row in self.by_constraint[constraint])]
        self._effort += len(rows) ** 3
        return culprits(rows)

    def irreducible(self, contradicting: Iterable[int]) -> list[int]:
        """A contradicting subset that no longer contradicts without any one of its constraints."""
        kept: list[int] = []
        waiting = sorted(contradicting, key=self._limit)
        while waiting:  # the weakest bounds first, so that few strong ones stay
            one = waiting.pop()
            found = self.culprits([*kept, *waiting])
            if found is None:
                kept.append(one)
            else:
                waiting = [other for other in waiting if other in found]
        return kept

    def _limit(self, constraint: int) -> int:
        return min(row.limit for row in self.by_constraint[constraint])

    def smallest(self, known: list[int]) -> list[int]:
        """A contradiction of the fewest constraints; ``known`` is one, and the result if the effort is too great."""
        to_hit: list[list[int]] = []
        kept: list[int] = []
        self._effort = 0
        while len(to_hit) < ROUNDS_MAX and (found := self._correction(kept)) is not None:
            to_hit.append(found)
            # As long as the sets found so far agree, the next set is disjoint from them, which gives the strongest
            # bound.
            kept = sorted({*kept, *found})
            if self.culprits(kept) is None:
                continue
            fewest = _hit(to_hit, len(known) - 1)
            if fewest is None:
                return known
            if self.culprits(fewest) is not None:
                return fewest
            kept = fewest
        return known

    def _correction(self, kept: Sequence[int]) -> list[int] | None:
        """Constraints without which all others agree with ``kept``, none of them in vain; None after much effort."""
        others = set(self.by_constraint).difference(kept)
        left_out: list[int] = []
        while found := self.culprits([*kept, *sorted(others)]):
            if self._effort > EFFORT_MAX:
                return None
            one = max(found & others)
            others.remove(one)
            left_out.append(one)
        for one in left_out[:-1]:
            if self.culprits([*kept, *sorted(others), one]) is None:
                others.add(one)
                left_out.remove(one)
        return left_out


def _hit(sets: Sequence[Sequence[int]], most: int) -> list[int] | None:
    """A minimum hitting set, one element of every set, of at most ``most`` elements; None if there is none."""
    steps = 0

    def hit(taken: list[int], left: int) -> list[int] | None:
        nonlocal steps
        steps += 1
        missed = next((one for one in sets if not any(element in taken for element in one)), None)
        if missed is None:
            return taken
        if not left or steps > STEPS_MAX:
            return None
        return next((found for element in missed if (found := hit([*taken, element], left - 1)) is not None), None)

    for size in range(1, most + 1):
        found = hit([], size)
        if found is not None or steps > STEPS_MAX:
            return found
    return None
