"""What is found with few bounds, level by level, is exactly what linear programs find with all of them."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qosweb.webqos.allocation.binding_bounds import Lazy
from qosweb.webqos.allocation.general import Relation, fill
from qosweb.webqos.allocation.groups import lower_bounds, upper_bounds
from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from qosweb.webqos.allocation.relations import State
from qosweb.webqos.allocation.shares import Allocator, allocate
from qosweb.webqos.allocation.waterline import Waterline
from tests.webqos.allocation.problems import (
    amounts,
    any_problems,
    demands,
    nested_problems,
    with_demand,
)

if TYPE_CHECKING:
    from qosweb.webqos.allocation.groups import Group

Case = tuple[Problem, tuple[int, ...]]


def _lazily(
    problem: Problem, demand: list[int], relations: list[Relation], full: frozenset[int] = frozenset()
) -> list[Fraction] | None:
    floors, ceilings, levels = lower_bounds(problem.floors), upper_bounds(problem.ceilings), problem.levels()
    related = {one for r in relations for one in (*r.left, *r.right)} | full
    offsets = [level * PPM for level in levels]
    lazy = Lazy(offsets, floors, ceilings, related)
    bounds = lazy.bounds(demand)
    state = State(1, frozenset(), frozenset(), relations, [(one,) for one in sorted(full)])
    found = lazy.settle(bounds, state) if bounds is not None else None
    if bounds is None or found is None:
        return None
    level, parts, held, bound, _ = found
    height = Fraction(level, parts)
    return [
        Fraction(held[one], parts)
        if one in bound
        else min(max(height - offsets[one], Fraction(bounds.low[one])), Fraction(bounds.high[one]))
        for one in range(problem.classes)
    ]


def _generally(
    problem: Problem, demand: list[int], relations: list[Relation], full: frozenset[int] = frozenset()
) -> list[Fraction]:
    floors, ceilings = lower_bounds(problem.floors), upper_bounds(problem.ceilings)
    exact = fill(PPM, demand, problem.levels(), floors, ceilings, relations, [(one,) for one in sorted(full)])
    return [Fraction(amount, exact.scale) for amount in exact.amounts]


@st.composite
def relations_over(draw: st.DrawFn, classes: int) -> list[Relation]:
    side = st.sets(st.integers(0, classes - 1), min_size=1, max_size=2)
    found = []
    for _ in range(draw(st.integers(0, 2))):
        left, right = draw(side), draw(side)
        weights = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        found.append(Relation(tuple(sorted(left)), tuple(sorted(right - left)), *weights))
    return found


@settings(max_examples=250)
@given(with_demand(any_problems(classes_max=7, relations=False)), st.data())
def test_any_bounds_and_relations(case: Case, data: st.DataObject) -> None:
    problem, asked = case
    demand = [min(amount, PPM) for amount in asked]
    relations = data.draw(relations_over(problem.classes))
    full = data.draw(st.just(frozenset[int]()) | st.frozensets(st.integers(0, problem.classes - 1), max_size=1))
    found, expected = _lazily(problem, demand, relations, full), _generally(problem, demand, relations, full)
    if found is not None:
        assert found == expected
    else:  # there is less than what floors and those who are full ask for together
        floors = [*lower_bounds(problem.floors), *(((one,), PPM) for one in full)]
        assert any(_is_missed(floor, expected, demand) for floor in floors)


def _is_missed(floor: Group, shares: list[Fraction], demand: list[int]) -> bool:
    group, ppm = floor
    return sum(shares[one] for one in group) < min(ppm, sum(demand[one] for one in group))


def test_what_the_usual_problem_has_is_within_the_quick_method() -> None:
    """A chain of ratios, ceilings that overlap and a floor over a group, all of which bind, and five free classes."""
    ceilings = (ShareBound((4, 5, 6), 200_000, 0), ShareBound((6, 7), 100_000, 1))
    floors = (ShareBound((8, 9), 250_000, 2), ShareBound((10,), 30_000, 3))
    relations = [Relation((0,), (1,), 1, 2), Relation((1,), (2, 3), 2, 1)]
    problem, demand = Problem(15, floors, ceilings), [PPM // 4] * 15
    found = _lazily(problem, demand, relations)
    assert found is not None
    assert found == _generally(problem, demand, relations)
    assert found[0] == 2 * found[1] == found[2] + found[3]
    assert found[4] + found[5] + found[6] == 200_000 or found[6] + found[7] == 100_000
    assert found[8] + found[9] == 250_000


@settings(max_examples=150)
@given(with_demand(any_problems()), st.data())
@example((Problem(2, (), (), (Ratio((0,), (1,), ">=", 2, 1, 0),)), (PPM, PPM)), None)
def test_one_change_after_another_is_as_good_as_starting_anew(case: Case, data: st.DataObject | None) -> None:
    problem, demand = case
    allocator = Allocator(problem)
    shares = allocator.shares(demand)
    now = list(demand)
    changes = [(0, 666_668), (0, 666_667), (0, 666_666), (1, PPM // 3), (0, PPM)] if data is None else []
    for _ in range(5 if data is not None else 0):
        assert data is not None
        one = data.draw(st.integers(0, problem.classes - 1))
        changes.append((one, data.draw(demands | st.integers(max(shares[one] - 2, 0), shares[one] + 3))))
    for one, amount in changes:
        now[one] = amount
        assert allocator.update(one, amount) == allocate(problem, now)


@settings(max_examples=150)
@given(with_demand(any_problems() | nested_problems(classes_max=10, relations=True)), st.data())
def test_some_changes_after_others_are_as_good_as_starting_anew(case: Case, data: st.DataObject) -> None:
    """Several classes change at one time, and demands of before come back."""
    problem, demand = case
    allocator = Allocator(problem)
    shares = allocator.shares(demand)
    asked = [demand]
    for _ in range(6):
        now = list(data.draw(st.sampled_from(asked)))
        for one in data.draw(st.sets(st.integers(0, problem.classes - 1), max_size=3)):
            now[one] = data.draw(demands | st.integers(max(shares[one] - 2, 0), shares[one] + 3) | st.just(-1))
        shares = allocator.shares(now)
        assert shares == allocate(problem, now)
        asked.append(tuple(now))


def test_a_change_that_changes_nothing_is_not_even_divided() -> None:
    allocator = Allocator(Problem(3, (), (), (Ratio((0,), (1,), "==", 2, 1, 0),)))
    before = allocator.shares([PPM, PPM, 100_000])
    assert allocator.update(0, PPM - 1) is before
    assert allocator.shares([PPM - 1, PPM // 2, 100_000]) is before
    assert allocator.update(2, 90_000) != before


@given(st.lists(st.tuples(amounts, amounts, st.integers(0, 2)), min_size=1, max_size=6), st.data())
def test_the_level_of_free_classes(classes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    low, high = [min(a, b) for a, b, _ in classes], [max(a, b) for a, b, _ in classes]
    offsets = [level * PPM for _, _, level in classes]
    amount = data.draw(st.integers(sum(low), sum(high)))
    line = Waterline(low, high, offsets)
    level, parts = line.level(amount)
    held = [
        min(max(Fraction(level, parts) - offset, Fraction(least)), Fraction(most))
        for least, most, offset in zip(low, high, offsets, strict=True)
    ]
    assert sum(held) == amount
    assert line.held(level, parts)[0] == amount * parts
    assert line.whole(level // parts) == [
        min(max(level // parts - offset, least), most) for least, most, offset in zip(low, high, offsets, strict=True)
    ]


@pytest.mark.parametrize("seed", range(24))
def test_many_changes_of_many_classes_are_as_good_as_starting_anew(seed: int) -> None:
    """Enough classes that bounds overlap in several places, and enough changes that what is remembered grows old."""
    random = Random(seed)
    classes = random.randrange(10, 16)
    part = PPM // classes

    def bounds(count: int, least: int, most: int) -> tuple[ShareBound, ...]:
        return tuple(
            ShareBound(
                tuple(sorted(random.sample(range(classes), random.randrange(1, 5)))), random.randrange(least, most), k
            )
            for k in range(count)
        )

    floors = bounds(seed % 3, part // 4, part)
    ratios = (Ratio((0,), (1, 2), "==", 2, 1, 99),) if seed % 4 == 3 else ()
    problem = Problem(classes, floors, bounds(classes // 2, part, 4 * part), ratios)
    now = [random.randrange(4 * part) for _ in range(classes)]
    allocator = Allocator(problem)
    for _ in range(40):
        for one in random.sample(range(classes), random.choice((1, 1, 1, 2, 3))):
            now[one] = random.randrange(4 * part)
        assert allocator.shares(now) == allocate(problem, now)
