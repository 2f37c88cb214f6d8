"""The sentences of the specification of shares, each as a small example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from qosweb.webqos.allocation.shares import Allocator, allocate

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = PPM


def floor(ppm: int, *classes: int) -> ShareBound:
    return ShareBound(classes, ppm, 0)


def ceiling(ppm: int, *classes: int, hard: bool = False) -> ShareBound:
    return ShareBound(classes, ppm, 0, hard)


def rules(
    *,
    floors: tuple[ShareBound, ...] = (),
    ceilings: tuple[ShareBound, ...] = (),
    ratios: tuple[Ratio, ...] = (),
    before: tuple[tuple[int, int], ...] = (),
    equal: tuple[tuple[int, ...], ...] = (),
    rest: tuple[int, ...] = (),
) -> Callable[..., tuple[int, ...]]:
    """A function from the demand of each class to the shares under these rules."""

    def divide(*demand: int) -> tuple[int, ...]:
        return allocate(Problem(len(demand), floors, ceilings, ratios, before, equal, rest), demand)

    return divide


def test_without_contention_every_class_gets_its_demand() -> None:
    divide = rules(floors=(floor(500_000, 1),), ceilings=(ceiling(100_000, 0),))
    assert divide(600_000, 400_000) == (600_000, 400_000)


def test_without_bounds_all_are_even() -> None:
    assert rules()(ALL, ALL, ALL, ALL) == (250_000,) * 4


def test_capacity_left_by_small_demand_is_divided_evenly() -> None:
    assert rules()(100_000, ALL, ALL) == (100_000, 450_000, 450_000)


def test_the_remainder_goes_to_the_lower_numbers() -> None:
    assert rules()(ALL, ALL, ALL) == (333_334, 333_333, 333_333)


def test_the_example_of_the_paper() -> None:
    """Example 2.1: free at most a tenth, full at least half, and pages without a rule."""
    divide = rules(floors=(floor(500_000, 1),), ceilings=(ceiling(100_000, 0),))
    assert divide(ALL, ALL, ALL) == (100_000, 500_000, 400_000)
    assert divide(ALL, ALL, 0) == (100_000, 900_000, 0)
    assert divide(ALL, 200_000, 0) == (800_000, 200_000, 0)


def test_five_fixed_shares_hold_under_contention_and_flow_when_idle() -> None:
    fixed = (100_000, 150_000, 200_000, 250_000, 300_000)
    divide = rules(
        floors=tuple(floor(ppm, one) for one, ppm in enumerate(fixed)),
        ceilings=tuple(ceiling(ppm, one) for one, ppm in enumerate(fixed)),
    )
    assert divide(*[ALL] * 5) == fixed
    assert divide(ALL, ALL, ALL, ALL, 0) == (175_000, 225_000, 275_000, 325_000, 0)
    assert divide(ALL, 0, 0, 0, 0) == (ALL, 0, 0, 0, 0)


def test_a_floor_is_no_bonus_on_top_of_an_even_part() -> None:
    assert rules(floors=(floor(300_000, 0),))(ALL, ALL) == (500_000, 500_000)


def test_an_unused_floor_is_free_for_others() -> None:
    assert rules(floors=(floor(600_000, 0),))(50_000, ALL, ALL) == (50_000, 475_000, 475_000)


def test_the_floor_of_a_group_serves_its_members_with_demand() -> None:
    group = (floor(800_000, 0, 1),)
    assert rules(floors=group)(ALL, ALL, ALL) == (400_000, 400_000, 200_000)
    assert rules(floors=group)(ALL, 0, ALL) == (800_000, 0, 200_000)
    assert rules(floors=(*group, floor(600_000, 1)))(ALL, 700_000, ALL) == (200_000, 600_000, 200_000)


def test_a_soft_ceiling_yields_only_to_unused_capacity() -> None:
    low = (ceiling(100_000, 0),)
    assert rules(ceilings=low)(ALL, ALL) == (100_000, 900_000)
    assert rules(ceilings=low)(ALL, 500_000) == (500_000, 500_000)


def test_a_hard_ceiling_never_yields() -> None:
    assert rules(ceilings=(ceiling(100_000, 0, hard=True),))(ALL, 500_000) == (100_000, 500_000)
    assert rules(ceilings=(ceiling(100_000, 0, hard=True),))(200_000, 0) == (100_000, 0)


def test_beyond_the_ceilings_all_gain_the_same() -> None:
    both = (ceiling(100_000, 0), ceiling(300_000, 1))
    assert rules(ceilings=both)(ALL, ALL) == (400_000, 600_000)
    assert rules(ceilings=both)(ALL, 320_000, 500_000) == (180_000, 320_000, 500_000)


def test_the_ceiling_of_a_group_is_divided_evenly() -> None:
    assert rules(ceilings=(ceiling(100_000, 0, 1),))(ALL, ALL, ALL) == (50_000, 50_000, 900_000)


def test_ceilings_that_overlap() -> None:
    two = (ceiling(300_000, 0, 1), ceiling(400_000, 1, 2))
    assert rules(ceilings=two)(*[ALL] * 4) == (150_000, 150_000, 250_000, 450_000)


def test_a_ceiling_that_others_have_relieved_is_reached_later() -> None:
    chain = (ceiling(200_000, 0, 1), ceiling(300_000, 1, 2), ceiling(340_000, 2, 3))
    assert rules(ceilings=chain)(*[ALL] * 5) == (100_000, 100_000, 170_000, 170_000, 460_000)


def test_overlapping_floors_share_common_classes() -> None:
    two = (floor(600_000, 0, 1), floor(600_000, 1, 2))
    assert rules(floors=two)(*[ALL] * 3) == (333_334, 333_333, 333_333)
    assert rules(floors=(*two, floor(300_000, 3)))(*[ALL] * 4) == (100_000, 500_000, 100_000, 300_000)


def test_a_class_that_comes_first_is_filled_first_but_takes_no_floor() -> None:
    divide = rules(floors=(floor(50_000, 2),), before=((0, 1), (1, 2)))
    assert divide(ALL, ALL, ALL) == (950_000, 0, 50_000)
    assert divide(300_000, ALL, ALL) == (300_000, 650_000, 50_000)
    assert divide(300_000, 100_000, ALL) == (300_000, 100_000, 600_000)


def test_a_class_after_a_full_class_is_behind_no_other() -> None:
    """0 before 1: once 0 has its whole demand, 1 and 2, which has no rule, are equals."""
    divide = rules(before=((0, 1),))
    assert divide(200_000, ALL, ALL) == (200_000, 400_000, 400_000)
    assert divide(400_000, ALL, ALL) == (400_000, 300_000, 300_000)
    assert divide(0, ALL, ALL) == (0, 500_000, 500_000)
    assert divide(600_000, ALL, ALL) == (500_000, 0, 500_000)


def test_priority_is_transitive() -> None:
    """0 before 1 before 2: even if 1 has no demand, 2 does not pass 0."""
    divide = rules(before=((0, 1), (1, 2)))
    assert divide(ALL, 0, ALL) == (ALL, 0, 0)
    assert divide(300_000, 0, ALL) == (300_000, 0, 700_000)


def test_a_class_that_comes_first_stops_at_its_ceiling() -> None:
    assert rules(ceilings=(ceiling(200_000, 0),), before=((0, 1),))(ALL, ALL) == (200_000, 800_000)


def test_rest_gets_what_all_others_leave() -> None:
    assert rules(rest=(0,))(ALL, 300_000, 300_000) == (400_000, 300_000, 300_000)
    assert rules(rest=(0,), floors=(floor(10_000, 0),))(ALL, ALL, ALL) == (10_000, 495_000, 495_000)


def test_equals_are_held_back_together() -> None:
    divide = rules(ceilings=(ceiling(100_000, 0),), equal=((0, 1),))
    assert divide(ALL, ALL, ALL) == (100_000, 100_000, 800_000)
    assert divide(ALL, ALL, 0) == (500_000, 500_000, 0)


def test_an_equal_with_small_demand_holds_no_class_back() -> None:
    assert rules(equal=((0, 1),))(30_000, ALL, ALL) == (30_000, 485_000, 485_000)


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        ((ALL, ALL), (666_667, 333_333)),
        ((600_000, ALL), (600_000, 400_000)),  # the left side has all it asks for: the right takes what is left
        ((100_000, ALL), (100_000, 900_000)),
        ((0, ALL), (0, ALL)),
        ((ALL, 200_000), (800_000, 200_000)),
        ((ALL, 0), (ALL, 0)),
    ],
)
def test_at_least_twice(demand: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert rules(ratios=(Ratio((0,), (1,), ">=", 2, 1, 0),))(*demand) == expected


def test_a_left_side_that_becomes_full_keeps_its_demand_and_releases_the_right() -> None:
    """Even parts would leave 0 short of its demand, twice its part would leave 1 behind 2."""
    assert rules(ratios=(Ratio((0,), (1,), ">=", 2, 1, 0),))(400_000, ALL, ALL) == (400_000, 300_000, 300_000)


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        ((ALL, ALL, ALL), (500_000, 250_000, 250_000)),
        ((300_000, ALL, ALL), (300_000, 350_000, 350_000)),
        ((ALL, 100_000, ALL), (450_000, 100_000, 450_000)),
        ((0, ALL, ALL), (0, 500_000, 500_000)),
    ],
)
def test_exactly_twice(demand: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert rules(ratios=(Ratio((0,), (1,), "==", 2, 1, 0),))(*demand) == expected


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        ((ALL, ALL, ALL), (250_000, 500_000, 250_000)),
        ((ALL, 0, ALL), (0, 0, ALL)),  # a bound from above is not released
        ((ALL, 0, 300_000), (700_000, 0, 300_000)),  # but yields to capacity that nobody else may take
    ],
)
def test_at_most_half(demand: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert rules(ratios=(Ratio((0,), (1,), "<=", 1, 2, 0),))(*demand) == expected


def test_floors_that_cannot_all_be_met_get_the_same_part() -> None:
    assert rules(floors=(floor(900_000, 0), floor(600_000, 1)))(ALL, ALL, ALL) == (600_000, 400_000, 0)
    assert rules(floors=(floor(5_000_000, 0),))(ALL, ALL) == (ALL, 0)


def test_a_floor_that_its_ceiling_forbids_takes_nothing_from_other_floors() -> None:
    divide = rules(floors=(floor(600_000, 0), floor(600_000, 1)), ceilings=(ceiling(150_000, 0),))
    assert divide(ALL, ALL, ALL) == (150_000, 600_000, 250_000)


def test_a_floor_beyond_its_own_ceiling_yields_in_proportion_to_the_floor() -> None:
    """Floors of 600,000, one with a ceiling of 150,000, both with one of 400,000: first a quarter of each."""
    bounds = (ceiling(150_000, 0), ceiling(400_000, 0, 1), ceiling(450_000, 1, 2))
    divide = rules(floors=(floor(600_000, 0), floor(600_000, 1)), ceilings=bounds)
    assert divide(ALL, ALL, ALL, ALL)[:2] == (150_000, 250_000)


def test_floors_that_yield_to_the_ceiling_of_their_group_get_the_same_part() -> None:
    """Floors of 600,000 and 300,000 where there is room for 400,000: four ninths of each."""
    divide = rules(floors=(floor(600_000, 0), floor(300_000, 1)), ceilings=(ceiling(400_000, 0, 1),))
    assert divide(ALL, ALL, ALL) == (266_667, 133_333, 600_000)


def test_floors_that_are_exactly_all() -> None:
    thirds = (floor(333_333, 0), floor(333_333, 1), floor(333_334, 2))
    assert rules(floors=thirds)(ALL, ALL, ALL) == (333_333, 333_333, 333_334)


def test_no_classes_no_demand_and_too_much() -> None:
    assert rules()() == ()
    assert rules(floors=(floor(500_000, 0),))(0, 0) == (0, 0)
    assert rules()(-5, 10**40) == (0, ALL)
    assert rules(floors=(floor(10**40, 1),))(10**40, 10**40) == (0, ALL)
    assert rules(ceilings=(ceiling(0, 0), ceiling(0, 1)))(ALL, ALL) == (500_000, 500_000)
    assert rules(ceilings=(ceiling(0, 0, hard=True), ceiling(0, 1, hard=True)))(ALL, ALL) == (0, 0)
    assert rules(floors=(ShareBound((), 10, 0),), ceilings=(ShareBound((), 10, 0),))(ALL) == (ALL,)
    assert rules(floors=(floor(10, 0),), ceilings=(ceiling(300_000, 0, hard=True),))(ALL) == (300_000,)


def test_a_demand_of_the_wrong_length_is_rejected() -> None:
    with pytest.raises(ValueError, match="2 demands for 3 classes"):
        allocate(Problem(3, (), ()), (1, 2))


def test_invalid_problems_are_rejected() -> None:
    with pytest.raises(ValueError, match="cycle"):
        allocate(Problem(2, (), (), before=((0, 1), (1, 0))), (1, 1))
    with pytest.raises(ValueError, match="not below 2"):
        Problem(2, (floor(5, 2),), ())
    with pytest.raises(ValueError, match="not sorted"):
        floor(5, 1, 0)
    with pytest.raises(ValueError, match="-5 ppm"):
        floor(-5, 1)
    with pytest.raises(ValueError, match="1/0"):
        Ratio((0,), (1,), ">=", 1, 0, 0)


def test_an_allocator_follows_demand_as_it_changes() -> None:
    allocator = Allocator(Problem(3, (floor(500_000, 0),), ()))
    assert allocator.shares((ALL, ALL, 0)) == (500_000, 500_000, 0)
    assert allocator.shares((ALL, 100_000, 0)) == (900_000, 100_000, 0)
    assert allocator.shares((ALL, 100_000, ALL)) == (500_000, 100_000, 400_000)
    assert allocator.shares((0, 100_000, ALL)) == (0, 100_000, 900_000)


def test_the_cache_of_an_allocator_is_bounded() -> None:
    allocator = Allocator(Problem(2, (), ()))
    first = allocator.shares((0, ALL))
    for amount in range(1, 5_000):
        allocator.shares((amount, ALL))
        assert allocator.shares((0, ALL)) is first
    assert len(allocator._cache) <= 1024
