"""Shares found with few rules and few columns equal those of one linear program over everything."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qosweb.webqos.allocation.general import Relation, fill
from qosweb.webqos.allocation.groups import lower_bounds, upper_bounds
from qosweb.webqos.allocation.level_search import Rules, fill_beside
from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from qosweb.webqos.allocation.shares import Allocator, allocate
from tests.webqos.allocation.problems import any_problems, demands, nested_problems, with_demand

if TYPE_CHECKING:
    from qosweb.webqos.allocation.groups import Exact, Group

Case = tuple[Problem, tuple[int, ...]]


def _rules(problem: Problem, relations: list[Relation], full: frozenset[int] = frozenset()) -> Rules:
    groups = [(one,) for one in sorted(full)]
    return Rules(lower_bounds(problem.floors), upper_bounds(problem.ceilings), relations, groups)


def _fractions(exact: Exact) -> list[Fraction]:
    return [Fraction(amount, exact.scale) for amount in exact.amounts]


def _beside(demand: list[int], levels: tuple[int, ...], rules: Rules) -> list[Fraction] | None:
    low, high = [0] * len(demand), list(demand)
    for group, ppm in rules.ceilings:
        if len(group) == 1:
            high[group[0]] = min(high[group[0]], ppm)
    for group, ppm in rules.floors:
        if len(group) == 1:
            low[group[0]] = min(high[group[0]], ppm)
    exact = fill_beside(PPM, demand, levels, low, high, rules) if sum(low) <= PPM else None
    return _fractions(exact) if exact is not None else None


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
    full = data.draw(st.just(frozenset[int]()) | st.frozensets(st.integers(0, problem.classes - 1), max_size=1))
    rules = _rules(problem, data.draw(relations_over(problem.classes)), full)
    found = _beside(demand, problem.levels(), rules)
    expected = _fractions(fill(PPM, demand, problem.levels(), *rules).exact)
    if found is not None:
        assert found == expected
    else:  # there is less than what floors and those who are full ask for together
        floors = [*rules.floors, *(((one,), PPM) for one in full)]
        assert any(_is_missed(floor, expected, demand) for floor in floors)


def _is_missed(floor: Group, shares: list[Fraction], demand: list[int]) -> bool:
    group, ppm = floor
    return sum(shares[one] for one in group) < min(ppm, sum(demand[one] for one in group))


def test_the_usual_problem() -> None:
    """A chain of ratios, overlapping ceilings and a floor on a group, all binding, and five free classes."""
    ceilings = (ShareBound((4, 5, 6), 200_000, 0), ShareBound((6, 7), 100_000, 1))
    floors = (ShareBound((8, 9), 250_000, 2), ShareBound((10,), 30_000, 3))
    problem, demand = Problem(15, floors, ceilings), [PPM // 4] * 15
    rules = _rules(problem, [Relation((0,), (1,), 1, 2), Relation((1,), (2, 3), 2, 1)])
    found = _beside(demand, problem.levels(), rules)
    assert found is not None
    assert found == _fractions(fill(PPM, demand, problem.levels(), *rules).exact)
    assert found[0] == 2 * found[1] == found[2] + found[3]
    assert found[4] + found[5] + found[6] == 200_000 or found[6] + found[7] == 100_000
    assert found[8] + found[9] == 250_000


@pytest.mark.parametrize("last", [PPM // 4 - 1, PPM // 4, PPM // 4 + 1])
def test_capacity_that_is_exhausted_where_a_free_class_is_full(last: int) -> None:
    """Two classes bound by a ratio, one that is full at exactly that level, and one that starts to rise there."""
    rules = Rules([((3,), PPM // 4)], [], [Relation((0,), (1,), 1, 1)], [])
    demand, levels = [PPM, PPM, last, PPM], (0, 0, 0, 0)
    assert _beside(demand, levels, rules) == _fractions(fill(PPM, demand, levels, *rules).exact)


def test_thousands_of_classes_beside_a_ratio() -> None:
    """All other classes have different demands: the linear program has no columns for them."""
    classes = 3_000
    demand = [PPM, PPM, *range(1, classes - 1)]
    problem = Problem(classes, (), (), (Ratio((0,), (1,), "==", 2, 1, 0),))
    twice, *others = allocate(problem, demand)
    level = max(others)
    assert twice + sum(others) == PPM
    assert abs(twice - 2 * level) <= 2
    assert all(share in (amount, level, level - 1) for share, amount in zip(others, demand[1:], strict=True))


@settings(max_examples=150)
@given(with_demand(any_problems() | nested_problems(classes_max=10, relations=True)), st.data())
@example((Problem(2, (), (), (Ratio((0,), (1,), ">=", 2, 1, 0),)), (PPM, PPM)), None)
def test_earlier_demands_make_no_difference(case: Case, data: st.DataObject | None) -> None:
    problem, demand = case
    allocator = Allocator(problem)
    shares = allocator.shares(demand)
    asked = [demand]
    for k in range(6):
        now = list(data.draw(st.sampled_from(asked)) if data is not None else demand)
        if data is None:
            now[0] = 666_669 - k
        else:
            for one in data.draw(st.sets(st.integers(0, problem.classes - 1), max_size=3)):
                now[one] = data.draw(demands | st.integers(max(shares[one] - 2, 0), shares[one] + 3) | st.just(-1))
        shares = allocator.shares(now)
        assert shares == allocate(problem, now)
        asked.append(tuple(now))


@pytest.mark.parametrize("seed", range(24))
def test_bounds_that_overlap_in_several_places(seed: int) -> None:
    """Shares under all rules, before rounding, are those of one linear program over everything."""
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
    problem = Problem(classes, floors, bounds(classes // 2, part, 4 * part))
    relations = [Relation((0,), (1, 2), 1, 2), Relation((1, 2), (0,), 2, 1)] if seed % 4 == 3 else []
    rules = _rules(problem, relations)
    for _ in range(10):
        demand = [random.randrange(4 * part) for _ in range(classes)]
        found = _beside(demand, problem.levels(), rules)
        assert found is None or found == _fractions(fill(PPM, demand, problem.levels(), *rules).exact)
