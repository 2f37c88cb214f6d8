"""Finds a smallest set of contradicting constraints (minimum unsatisfiable subset), by linear programs with scipy.

Results of HiGHS are verified in integer arithmetic, by a solution or by a Farkas certificate. Where its output contains
neither, exact arithmetic decides. So bounds that add up to exactly the capacity agree, and bounds that exceed it by one
part in a million do not.

The smallest contradicting set is found by implicit hitting sets (Ignatiev et al., "Smallest MUS extraction with minimal
hitting set dualization", CP 2015): every set of constraints whose removal makes the rest agree must be hit by every
contradiction. So a smallest set that hits all such sets known so far either is a contradiction, and then a smallest
one, or reveals another set to hit. The number of rounds is bounded; when the bound is reached, the result is a set from
which no constraint can be removed, which need not be the smallest.

Importing scipy takes half a second and 40 MB: ``feasibility`` imports this module only when it needs it.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array

from qosweb.webqos.allocation.inequalities import ALWAYS, Inequality, refuted, satisfied, solvable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROUNDS_MAX = 60
DENOMINATORS = (1, 1_000, 1_000_000)
EXCESS_MIN = 1e-4  # parts per million; the tolerance of HiGHS is 1e-7
MULTIPLIER_MIN = 1e-9


def smallest_contradiction(rows: Iterable[Inequality], classes: int) -> tuple[int, ...] | None:
    """A smallest set of constraints that cannot be met together, in rising order; None if all rows can be met."""
    search = _Search(rows, classes)
    everything = sorted(search.by_constraint)
    if search.agree(everything):
        return None
    return tuple(sorted(search.smallest(search.irreducible(everything))))


class _Search:
    def __init__(self, rows: Iterable[Inequality], classes: int) -> None:
        self.classes = classes
        self.always: list[Inequality] = []
        self.by_constraint: dict[int, list[Inequality]] = defaultdict(list)
        for row in rows:
            (self.always if row.constraint == ALWAYS else self.by_constraint[row.constraint]).append(row)

    def rows(self, constraints: Iterable[int]) -> list[Inequality]:
        return [*self.always, *(row for constraint in constraints for row in self.by_constraint[constraint])]

    def agree(self, constraints: Iterable[int]) -> bool:
        return self.culprits(constraints) is None

    def culprits(self, constraints: Iterable[int]) -> set[int] | None:
        """None if these constraints agree; else those that a proof of the contradiction uses."""
        rows = self.rows(constraints)
        relaxed = _relax(rows, frozenset(), self.classes)
        if relaxed is not None:
            shares, multipliers = relaxed
            for denominator in DENOMINATORS:
                if satisfied(rows, [_near(share, denominator) for share in shares]):
                    return None
                proof = [_near(multiplier, denominator) for multiplier in multipliers]
                if refuted(rows, proof):
                    return _constraints(row for row, part in zip(rows, proof, strict=True) if part)
            suspects = [row for row, part in zip(rows, multipliers, strict=True) if part > MULTIPLIER_MIN]
            if suspects and not solvable(suspects):
                return _constraints(suspects)
        return None if solvable(rows) else _constraints(rows)

    def irreducible(self, constraints: Sequence[int]) -> list[int]:
        """A contradicting subset that no longer contradicts without any one of its constraints."""
        found = self.culprits(constraints)
        assert found is not None, "asked of constraints that agree"
        kept: list[int] = []
        waiting = sorted(found)
        while waiting:
            one = waiting.pop()
            found = self.culprits([*kept, *waiting])
            if found is None:
                kept.append(one)
            else:
                waiting = [other for other in waiting if other in found]
        return kept

    def smallest(self, known: list[int]) -> list[int]:
        """A contradiction of the fewest constraints; ``known`` is one, and the result if the rounds run out."""
        to_hit: list[list[int]] = []
        kept: list[int] = []
        for _ in range(ROUNDS_MAX):
            found = self.correction(kept)
            if not found:
                return known
            to_hit.append(found)
            # As long as the sets found so far agree, the next set is disjoint from them, which gives the strongest
            # bound.
            kept = sorted({*kept, *found})
            if self.agree(kept):
                continue
            kept = _hit(to_hit)
            if len(kept) >= len(known):
                return known
            if not self.agree(kept):
                return kept
        return known

    def correction(self, kept: Iterable[int]) -> list[int]:
        """Constraints without which all others agree with ``kept``; none if the conflict is too small to see."""
        rows = self.rows(sorted(self.by_constraint))
        firm = frozenset((ALWAYS, *kept))
        relaxed = _relax(rows, firm, self.classes)
        if relaxed is None:
            return []
        shares, _ = relaxed
        broken = (row for row in rows if row.constraint not in firm and _excess(row, shares) > EXCESS_MIN)
        return sorted(_constraints(broken))


def _relax(rows: Sequence[Inequality], firm: frozenset[int], classes: int) -> tuple[list[float], list[float]] | None:
    """Shares that break the rows as little as possible in sum, those of ``firm`` not at all, and the multipliers."""
    loose = [r for r, row in enumerate(rows) if row.constraint not in firm]
    entries = [(float(factor), r, one) for r, row in enumerate(rows) for one, factor in row.terms]
    entries += [(-1.0, r, classes + c) for c, r in enumerate(loose)]
    factors, lines, columns = zip(*entries, strict=True) if entries else ((), (), ())
    width = classes + len(loose)
    solved = linprog(
        [0.0] * classes + [1.0] * len(loose),
        A_ub=csr_array((factors, (lines, columns)), shape=(len(rows), width)),
        b_ub=[float(row.limit) for row in rows],
        bounds=(0, None),
        method="highs",
    )
    if solved.status != 0:
        return None
    return [float(x) for x in solved.x[:classes]], [-float(y) for y in solved.ineqlin.marginals]


def _hit(sets: Sequence[Sequence[int]]) -> list[int]:
    """A minimum hitting set: the fewest elements with one of every set."""
    elements = sorted({element for one in sets for element in one})
    column = {element: c for c, element in enumerate(elements)}
    pairs = [(s, column[element]) for s, one in enumerate(sets) for element in one]
    lines, columns = zip(*pairs, strict=True)
    matrix = csr_array(([1.0] * len(pairs), (lines, columns)), shape=(len(sets), len(elements)))
    solved = milp(
        [1.0] * len(elements),
        integrality=[1] * len(elements),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, 1),
    )
    return [element for element, taken in zip(elements, solved.x, strict=True) if taken > 0.5]


def _constraints(rows: Iterable[Inequality]) -> set[int]:
    return {row.constraint for row in rows} - {ALWAYS}


def _excess(row: Inequality, shares: Sequence[float]) -> float:
    return sum(factor * shares[one] for one, factor in row.terms) - row.limit


def _near(value: float, denominator: int) -> Fraction | int:
    return Fraction(round(value * denominator), denominator) if denominator > 1 else round(value)
