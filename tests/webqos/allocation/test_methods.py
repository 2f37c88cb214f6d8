"""The fast methods give exactly the shares of the general method, wherever they apply."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from qosweb.webqos.allocation.general import fill
from qosweb.webqos.allocation.groups import Exact
from qosweb.webqos.allocation.nested import Nested
from qosweb.webqos.allocation.packing import fill_under
from qosweb.webqos.allocation.problem import PPM, Problem, ShareBound
from qosweb.webqos.allocation.rounding import Rounding
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
    exact = _fractions(fill(PPM, demand, problem.levels(), floors, ceilings).exact)
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


@settings(max_examples=150)
@given(with_demand(any_problems(classes_max=7, relations=False)))
def test_progressive_filling(case: Case) -> None:
    problem, asked = case
    demand = [min(amount, PPM) for amount in asked]
    everyone = (tuple(range(problem.classes)), PPM)
    ceilings = [everyone, *_groups(problem.ceilings)]
    floors = {group[0]: ppm for group, ppm in _groups(problem.floors) if len(group) == 1}
    low = [min(amount, floors.get(one, 0)) for one, amount in enumerate(demand)]
    found = fill_under(ceilings, low, demand, [level * PPM for level in problem.levels()])
    assert (found is None) == any(sum(low[one] for one in group) > ppm for group, ppm in ceilings)
    if found is not None:
        single = [((one,), ppm) for one, ppm in enumerate(low)]
        assert _fractions(found) == _fractions(fill(PPM, demand, problem.levels(), single, ceilings).exact)


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
    there = _fractions(fill(PPM, demand, levels, floors, ceilings).exact)
    here = _fractions(
        fill(
            PPM, [demand[one] for one in back], [levels[one] for one in back], renamed(floors), renamed(ceilings)
        ).exact
    )
    assert there == [here[new[one]] for one in range(problem.classes)]


@settings(max_examples=100)
@given(with_demand(any_problems(relations=False)))
def test_rounding_keeps_every_ceiling_and_nearly_every_share(case: Case) -> None:
    problem, asked = case
    demand = [min(amount, PPM) for amount in asked]
    floors, ceilings, levels = _groups(problem.floors), _groups(problem.ceilings), problem.levels()
    found = fill(PPM, demand, levels, floors, ceilings).exact
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
