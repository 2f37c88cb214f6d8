"""The bounds of a problem as linear inequalities over the shares, for the feasibility check. Pure.

A row reads ``sum(coefficient * share) <= limit`` in integers. Every row belongs to a constraint of the specification,
or to none: the capacity and equal shares always hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.simplex import Program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from qosweb.webqos.allocation.problem import Problem

ALWAYS = -1


@dataclass(frozen=True, slots=True)
class Inequality:
    """``sum(coefficient * share[class]) <= limit``, from ``constraint``."""

    terms: tuple[tuple[int, int], ...]  # (class, coefficient)
    limit: int
    constraint: int


def rows_of(problem: Problem, capacity: int = PPM) -> list[Inequality]:
    """All inequalities of a problem; demand and priority are left out, because they cannot contradict."""
    rows = [Inequality(tuple((one, 1) for one in range(problem.classes)), capacity, ALWAYS)]
    rows += [_row([(b.classes, -1)], -b.ppm, b.constraint) for b in problem.floors]
    rows += [_row([(b.classes, 1)], b.ppm, b.constraint) for b in problem.ceilings]
    for ratio in problem.ratios:
        # denominator * left - numerator * right, with the sign that makes it at most zero
        for op, sign in ((">=", -1), ("<=", 1)):
            if ratio.op in (op, "=="):
                sides = [(ratio.left, sign * ratio.denominator), (ratio.right, -sign * ratio.numerator)]
                rows.append(_row(sides, 0, ratio.constraint))
    for group in problem.equal:
        for one, other in zip(group, (*group[1:], *group[:1]), strict=True):
            rows.append(_row([((one,), 1), ((other,), -1)], 0, ALWAYS))
    return rows


def satisfied(rows: Iterable[Inequality], shares: Sequence[Fraction | int]) -> bool:
    """True if these shares satisfy all rows, exactly."""
    return all(sum(factor * shares[one] for one, factor in row.terms) <= row.limit for row in rows)


def culprits(rows: Sequence[Inequality]) -> set[int] | None:
    """None if there is a solution; else the constraints that a proof of the contradiction uses. Exact."""
    for row in rows:
        if not row.terms and row.limit < 0:
            return {row.constraint} - {ALWAYS}
    named = sorted({one for row in rows for one, _ in row.terms})
    column = {one: c for c, one in enumerate(named)}
    table = [{column[one]: factor for one, factor in row.terms} for row in rows]
    # Rows with a negative limit are met by the same fraction; the last row limits that fraction to 1.
    program = Program(len(named), [*table, {}], [*(max(row.limit, 0) for row in rows), 1])
    demanded = [(len(named) + r, -row.limit) for r, row in enumerate(rows) if row.limit < 0]
    if program.raise_together([(len(named) + len(rows), 1), *demanded]) == 1:
        return None
    # Slacks that cannot rise: the multipliers of their rows prove the contradiction (Farkas).
    return {row.constraint for r, row in enumerate(rows) if len(named) + r in program.zero} - {ALWAYS}


def _row(sides: Iterable[tuple[tuple[int, ...], int]], limit: int, constraint: int) -> Inequality:
    total: dict[int, int] = {}
    for classes, factor in sides:
        for one in classes:
            total[one] = total.get(one, 0) + factor
    divisor = gcd(limit, *total.values()) or 1
    terms = tuple((one, factor // divisor) for one, factor in sorted(total.items()) if factor)
    return Inequality(terms, limit // divisor, constraint)
