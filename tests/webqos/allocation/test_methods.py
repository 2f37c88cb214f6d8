"""The fast methods give exactly the shares of the general method, wherever they apply."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from qosweb.webqos.allocation.contention import ContentionPhase
from qosweb.webqos.allocation.general import Relation, fill
from qosweb.webqos.allocation.groups import Exact, lower_bounds, upper_bounds
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from qosweb.webqos.allocation.relations import State
from qosweb.webqos.allocation.rounding import Rounding
from qosweb.webqos.allocation.shares import Allocator, allocate
from tests.webqos.allocation.problems import (
    any_problems,
    demands,
    groups,
    nested_problems,
    with_demand,
)

if TYPE_CHECKING:
    from random import Random

    from qosweb.webqos.allocation.groups import Group

Case = tuple[Problem, tuple[int, ...]]


def _groups(bounds: tuple[ShareBound, ...]) -> list[Group]:
    return [(bound.classes, bound.ppm) for bound in bounds]


def _fractions(exact: Exact) -> list[Fraction]:
    return [Fraction(amount, exact.scale) for amount in exact.amounts]


@settings(max_examples=300)
@given(with_demand(nested_problems(classes_max=9)))
def test_water_levels(case: Case) -> None:
    problem, asked = case
    demand = [min(amount, PPM) for amount in asked]
    floors, ceilings = _groups(problem.floors), _groups(problem.ceilings)
    nested = Nested(problem.levels(), floors, ceilings)
    assert nested.others == ([], [])
    shares = nested.fill(demand)
    exact = _fractions(fill(PPM, demand, problem.levels(), floors, ceilings))
    if shares is None:
        assert any(
            sum(exact[one] for one in group) < min(ppm, sum(demand[one] for one in group)) for group, ppm in floors
        )
        return
    assert sum(shares) == sum(exact)
    assert all(abs(share - amount) < 1 for share, amount in zip(shares, exact, strict=True))
    assert all(sum(shares[one] for one in group) <= ppm for group, ppm in ceilings)
    assert all(
        -1 < sum((exact[one] - shares[one] for one in group), Fraction(0)) < 1 for group, _ in (*floors, *ceilings)
    )


def test_few_parts_among_many() -> None:
    """Only the capacity binds: the five classes with demand get three fifths each, so the groups 9/5 and 6/5."""
    everyone, first, last = tuple(range(8)), (0, 1, 2, 3), (4, 5, 6, 7)
    nested = Nested([0] * 8, [(last, 0)], [(everyone, 3), (first, 50_000)])
    assert nested.fill([0, PPM, PPM, PPM, 0, 0, PPM, PPM]) == [0, 1, 1, 0, 0, 0, 1, 0]


@settings(max_examples=250)
@given(with_demand(any_problems(classes_max=7, relations=False)), st.data())
def test_floors_that_are_added_when_they_are_missed(case: Case, data: st.DataObject) -> None:
    """The same shares as with all floors from the beginning, also where not all floors can be met."""
    problem, asked = case
    demand, levels = [min(amount, PPM) for amount in asked], problem.levels()
    floors, ceilings = lower_bounds(problem.floors), upper_bounds(problem.ceilings)
    full: list[tuple[int, ...]] = [
        (one,) for one in data.draw(st.sets(st.integers(0, problem.classes - 1), max_size=1))
    ]
    relations = data.draw(relations_over(problem.classes))
    state = State(relations, relations, [], full)
    found = ContentionPhase(problem, levels)._exact(demand, state, [])
    assert _fractions(found) == _fractions(fill(PPM, demand, levels, floors, ceilings, relations, full))


@st.composite
def relations_over(draw: st.DrawFn, classes: int) -> list[Relation]:
    side = st.sets(st.integers(0, classes - 1), min_size=1, max_size=2)
    found = []
    for _ in range(draw(st.integers(0, 2))):
        left, right = draw(side), draw(side)
        weights = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        found.append(Relation(tuple(sorted(left)), tuple(sorted(right - left)), *weights))
    return found


def test_hundreds_of_classes_beside_a_ratio() -> None:
    classes = 200
    demand = [PPM, PPM, *range(1, 20 * (classes - 2), 20)]
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


@settings(max_examples=100)
@given(with_demand(any_problems(relations=False)), st.randoms(use_true_random=False))
def test_exact_shares_do_not_depend_on_the_order_of_anything(case: Case, random: Random) -> None:
    problem, asked = case
    demand = [min(amount, PPM) for amount in asked]
    new = list(range(problem.classes))
    random.shuffle(new)

    def renamed(bounds: list[Group]) -> list[Group]:
        found = [(tuple(new[one] for one in group), ppm) for group, ppm in bounds]
        random.shuffle(found)
        return found

    floors, ceilings, levels = _groups(problem.floors), _groups(problem.ceilings), problem.levels()
    back = [new.index(one) for one in range(problem.classes)]
    there = _fractions(fill(PPM, demand, levels, floors, ceilings))
    here = _fractions(
        fill(PPM, [demand[one] for one in back], [levels[one] for one in back], renamed(floors), renamed(ceilings))
    )
    assert there == [here[new[one]] for one in range(problem.classes)]


@settings(max_examples=100)
@given(with_demand(any_problems(relations=False)))
def test_rounding_keeps_every_ceiling_and_nearly_every_share(case: Case) -> None:
    problem, asked = case
    demand = [min(amount, PPM) for amount in asked]
    floors, ceilings, levels = _groups(problem.floors), _groups(problem.ceilings), problem.levels()
    found = fill(PPM, demand, levels, floors, ceilings)
    shares = Rounding(levels, floors, ceilings).whole(found, demand)
    exact = _fractions(found)
    assert all(int(amount) <= share for share, amount in zip(shares, exact, strict=True))
    assert sum(shares) <= sum(exact) + 1
    assert all(sum(shares[one] for one in group) <= ppm for group, ppm in ceilings)
    assert all(sum(shares[one] for one in group) > sum(exact[one] for one in group) - len(group) for group, _ in floors)


def test_rounding_fills_floors_first() -> None:
    halves = Exact([1, 1, 1, 1], 2)
    assert Rounding([0] * 4, [], []).whole(halves, [5] * 4) == [1, 1, 0, 0]
    assert Rounding([0] * 4, [((2, 3), 1)], []).whole(halves, [5] * 4) == [1, 0, 1, 0]


def test_rounding_gives_to_others_what_no_rounding_up_can_use() -> None:
    """Three halves, each two bounded by one: no two can be rounded up."""
    pairs = [((0, 1), 1), ((1, 2), 1), ((0, 2), 1)]
    assert Rounding([0] * 4, [], pairs).whole(Exact([1, 1, 1, 10], 2), [9] * 4) == [1, 0, 0, 6]


@given(st.lists(groups(6), max_size=8), st.lists(demands, min_size=6, max_size=6))
def test_a_nested_part_can_be_taken_of_any_groups(found: list[tuple[int, ...]], asked: list[int]) -> None:
    ceilings = [(group, PPM // 3) for group in dict.fromkeys(found)]
    nested = Nested([0] * 6, (), ceilings)
    shares = nested.fill([min(amount, PPM) for amount in asked])
    assert shares is not None
    left_out = nested.others[1]
    for group, ppm in ceilings:
        assert (group, ppm) in left_out or sum(shares[one] for one in group) <= ppm
