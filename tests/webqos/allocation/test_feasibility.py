"""The feasibility check is exact, and names a smallest set of contradicting constraints."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings

from qosweb.webqos.allocation import feasibility
from qosweb.webqos.allocation.feasibility import contradiction
from qosweb.webqos.allocation.inequalities import ALWAYS, Inequality, culprits, rows_of
from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from tests.webqos.allocation.problems import any_problems


def solvable(rows: list[Inequality]) -> bool:
    return culprits(rows) is None


def _brute_force(problem: Problem) -> int | None:
    """The size of the smallest contradiction, by trying all sets of constraints in exact arithmetic."""
    rows = rows_of(problem)
    constraints = sorted({row.constraint for row in rows} - {ALWAYS})
    for size in range(len(constraints) + 1):
        for chosen in combinations(constraints, size):
            if not solvable([row for row in rows if row.constraint in (ALWAYS, *chosen)]):
                return size
    return None


@settings(max_examples=100)
@given(any_problems(order=False))
def test_a_smallest_contradiction_is_found(problem: Problem) -> None:
    found = contradiction(problem)
    assert (None if found is None else len(found)) == _brute_force(problem)
    if found is not None:
        rows = rows_of(problem)
        assert not solvable([row for row in rows if row.constraint in (ALWAYS, *found)])


@settings(max_examples=40)
@given(any_problems(order=False))
def test_with_little_effort_an_irreducible_contradiction_is_found(problem: Problem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feasibility, "EFFORT_MAX", 0)
        found = contradiction(problem)
    rows = rows_of(problem)
    assert (found is None) == solvable(rows)
    for one in found or ():
        assert solvable([row for row in rows if row.constraint in {ALWAYS, *(found or ())} - {one}])


def _floors(*ppm: int) -> tuple[ShareBound, ...]:
    return tuple(ShareBound((one,), amount, one) for one, amount in enumerate(ppm))


def test_floors_may_add_up_to_the_capacity_but_not_to_one_part_more() -> None:
    assert contradiction(Problem(3, _floors(333_333, 333_333, 333_334), ())) is None
    assert contradiction(Problem(3, _floors(333_333, 333_334, 333_334), ())) == (0, 1, 2)


def test_a_hundred_floors_at_the_capacity_and_one_part_above() -> None:
    assert contradiction(Problem(100, _floors(*[10_000] * 100), ())) is None
    assert contradiction(Problem(100, _floors(*[10_000] * 99, 10_001), ())) == tuple(range(100))


def test_one_constraint_can_contradict_itself() -> None:
    assert contradiction(Problem(1, (ShareBound((0,), PPM + 1, 7),), ())) == (7,)
    assert contradiction(Problem(1, (ShareBound((), 1, 7),), ())) == (7,)
    assert contradiction(Problem(2, (ShareBound((0, 1), 5, 7),), (ShareBound((0,), 1, 7), ShareBound((1,), 3, 7)))) == (
        7,
    )


def test_the_smallest_of_several_is_named() -> None:
    floors = (*_floors(400_000, 300_000, 300_000, 100_000), ShareBound((4,), 50_000, 4))
    assert contradiction(Problem(5, floors, (ShareBound((4,), 40_000, 5),))) == (4, 5)


def test_groups_that_overlap() -> None:
    floors = (ShareBound((0, 1), 700_000, 1), ShareBound((2, 3), 200_000, 2))
    assert contradiction(Problem(4, floors, (ShareBound((0,), 300_000, 3), ShareBound((1, 2), 390_000, 4)))) == (
        1,
        3,
        4,
    )


def test_ratios_are_decided_exactly() -> None:
    """A third is not an integer: 3 * a = b and a + b = all leaves a quarter, and not a part more."""
    thrice = (Ratio((1,), (0,), "==", 3, 1, 9),)
    assert contradiction(Problem(2, (ShareBound((0,), 250_000, 0),), (), thrice)) is None
    assert contradiction(Problem(2, (ShareBound((0,), 250_001, 0),), (), thrice)) == (0, 9)
    seventh = (Ratio((1,), (0,), ">=", 1, 6, 9),)
    assert contradiction(Problem(2, (ShareBound((0,), 857_142, 0),), (), seventh)) is None
    assert contradiction(Problem(2, (ShareBound((0,), 857_143, 0),), (), seventh)) == (0, 9)


def test_ratios_with_large_numbers_are_decided_exactly() -> None:
    near_one = (Ratio((1,), (0,), ">=", 999_999_999_999, 10**12, 8),)
    assert contradiction(Problem(2, (ShareBound((0,), 500_000, 0),), (), near_one)) is None
    assert contradiction(Problem(2, (ShareBound((0,), 500_000, 0),), (ShareBound((1,), 499_999, 1),), near_one)) == (
        0,
        1,
        8,
    )
    above_one = (Ratio((1,), (0,), ">=", 10**12 + 1, 10**12, 8),)
    assert contradiction(Problem(2, (ShareBound((0,), 500_000, 0),), (), above_one)) == (0, 8)


def test_equal_shares_always_hold() -> None:
    assert contradiction(Problem(3, _floors(333_333), (), equal=((0, 1, 2),))) is None
    assert contradiction(Problem(3, _floors(333_334), (), equal=((0, 1, 2),))) == (0,)


def test_nothing_agrees_with_nothing() -> None:
    assert contradiction(Problem(0, (), ())) is None
    assert contradiction(Problem(3, (), ())) is None


@settings(max_examples=100)
@given(any_problems(order=False))
def test_the_constraints_of_a_proof_contradict_each_other(problem: Problem) -> None:
    rows = rows_of(problem)
    found = culprits(rows)
    if found is not None:
        assert not solvable([row for row in rows if row.constraint in {ALWAYS, *found}])
