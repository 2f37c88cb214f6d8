"""The sentences of the specification of shares, each as a small story."""

from __future__ import annotations

import pytest

from qosweb.webqos.allocation.problem import PPM, Bound, Problem, Ratio
from qosweb.webqos.allocation.shares import Allocator, allocate

ALL = PPM


def floor(ppm: int, *classes: int) -> Bound:
    return Bound(classes, ppm, 0)


def ceiling(ppm: int, *classes: int, hard: bool = False) -> Bound:
    return Bound(classes, ppm, 0, hard)


def shares(
    *demand: int,
    floors: tuple[Bound, ...] = (),
    ceilings: tuple[Bound, ...] = (),
    ratios: tuple[Ratio, ...] = (),
    before: tuple[tuple[int, int], ...] = (),
    equal: tuple[tuple[int, ...], ...] = (),
    rest: tuple[int, ...] = (),
) -> tuple[int, ...]:
    return allocate(Problem(len(demand), floors, ceilings, ratios, before, equal, rest), demand)


def test_without_contention_everybody_gets_what_he_asks_for() -> None:
    bounds = {"floors": (floor(500_000, 1),), "ceilings": (ceiling(100_000, 0),)}
    assert shares(600_000, 400_000, **bounds) == (600_000, 400_000)


def test_without_bounds_all_are_even() -> None:
    assert shares(ALL, ALL, ALL, ALL) == (250_000,) * 4


def test_what_small_demand_leaves_is_divided_evenly() -> None:
    assert shares(100_000, ALL, ALL) == (100_000, 450_000, 450_000)


def test_what_does_not_divide_goes_to_the_lower_numbers() -> None:
    assert shares(ALL, ALL, ALL) == (333_334, 333_333, 333_333)


def test_the_example_of_the_paper() -> None:
    """Example 2.1: free at most a tenth, full at least half, and the pages that nothing is said about."""
    free_full = {"floors": (floor(500_000, 1),), "ceilings": (ceiling(100_000, 0),)}
    assert shares(ALL, ALL, ALL, **free_full) == (100_000, 500_000, 400_000)
    assert shares(ALL, ALL, 0, **free_full) == (100_000, 900_000, 0)
    assert shares(ALL, 200_000, 0, **free_full) == (800_000, 200_000, 0)


def test_five_fixed_shares_hold_under_contention_and_flow_when_idle() -> None:
    fixed = (100_000, 150_000, 200_000, 250_000, 300_000)
    bounds = {
        "floors": tuple(floor(ppm, one) for one, ppm in enumerate(fixed)),
        "ceilings": tuple(ceiling(ppm, one) for one, ppm in enumerate(fixed)),
    }
    assert shares(*[ALL] * 5, **bounds) == fixed
    assert shares(ALL, ALL, ALL, ALL, 0, **bounds) == (250_000, 250_000, 250_000, 250_000, 0)
    assert shares(ALL, 0, 0, 0, 0, **bounds) == (ALL, 0, 0, 0, 0)


def test_a_floor_is_no_bonus_on_top_of_an_even_part() -> None:
    assert shares(ALL, ALL, floors=(floor(300_000, 0),)) == (500_000, 500_000)


def test_a_floor_nobody_asks_for_is_free_for_others() -> None:
    assert shares(50_000, ALL, ALL, floors=(floor(600_000, 0),)) == (50_000, 475_000, 475_000)


def test_the_floor_of_a_group_is_for_whoever_of_it_asks() -> None:
    group = (floor(800_000, 0, 1),)
    assert shares(ALL, ALL, ALL, floors=group) == (400_000, 400_000, 200_000)
    assert shares(ALL, 0, ALL, floors=group) == (800_000, 0, 200_000)
    assert shares(ALL, 700_000, ALL, floors=(*group, floor(600_000, 1))) == (200_000, 600_000, 200_000)


def test_a_soft_ceiling_yields_only_to_capacity_that_nobody_else_may_take() -> None:
    low = (ceiling(100_000, 0),)
    assert shares(ALL, ALL, ceilings=low) == (100_000, 900_000)
    assert shares(ALL, 500_000, ceilings=low) == (500_000, 500_000)


def test_a_hard_ceiling_never_yields() -> None:
    assert shares(ALL, 500_000, ceilings=(ceiling(100_000, 0, hard=True),)) == (100_000, 500_000)
    assert shares(200_000, 0, ceilings=(ceiling(100_000, 0, hard=True),)) == (100_000, 0)


def test_beyond_the_ceilings_all_are_even_again() -> None:
    both = (ceiling(100_000, 0), ceiling(300_000, 1))
    assert shares(ALL, ALL, ceilings=both) == (500_000, 500_000)
    assert shares(ALL, ALL, 550_000, ceilings=both) == (150_000, 300_000, 550_000)


def test_the_ceiling_of_a_group_is_divided_evenly() -> None:
    assert shares(ALL, ALL, ALL, ceilings=(ceiling(100_000, 0, 1),)) == (50_000, 50_000, 900_000)


def test_ceilings_that_overlap() -> None:
    two = (ceiling(300_000, 0, 1), ceiling(400_000, 1, 2))
    assert shares(*[ALL] * 4, ceilings=two) == (150_000, 150_000, 250_000, 450_000)


def test_floors_that_overlap_share_what_serves_both() -> None:
    two = (floor(600_000, 0, 1), floor(600_000, 1, 2))
    assert shares(*[ALL] * 3, floors=two) == (333_334, 333_333, 333_333)
    assert shares(*[ALL] * 4, floors=(*two, floor(300_000, 3))) == (100_000, 500_000, 100_000, 300_000)


def test_who_comes_before_is_filled_first_and_takes_no_floor() -> None:
    bounds = {"floors": (floor(50_000, 2),), "before": ((0, 1), (1, 2))}
    assert shares(ALL, ALL, ALL, **bounds) == (950_000, 0, 50_000)
    assert shares(300_000, ALL, ALL, **bounds) == (300_000, 650_000, 50_000)
    assert shares(300_000, 100_000, ALL, **bounds) == (300_000, 100_000, 600_000)


def test_who_comes_before_stops_at_its_ceiling() -> None:
    assert shares(ALL, ALL, ceilings=(ceiling(200_000, 0),), before=((0, 1),)) == (200_000, 800_000)


def test_the_rest_is_what_all_others_leave() -> None:
    assert shares(ALL, 300_000, 300_000, rest=(0,)) == (400_000, 300_000, 300_000)
    assert shares(ALL, ALL, ALL, rest=(0,), floors=(floor(10_000, 0),)) == (10_000, 495_000, 495_000)


def test_equals_are_held_back_together() -> None:
    bounds = {"ceilings": (ceiling(100_000, 0),), "equal": ((0, 1),)}
    assert shares(ALL, ALL, ALL, **bounds) == (100_000, 100_000, 800_000)
    assert shares(ALL, ALL, 0, **bounds) == (500_000, 500_000, 0)


def test_an_equal_that_asks_for_little_holds_nobody_back() -> None:
    assert shares(30_000, ALL, ALL, equal=((0, 1),)) == (30_000, 485_000, 485_000)


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
    assert shares(*demand, ratios=(Ratio((0,), (1,), ">=", 2, 1, 0),)) == expected


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
    assert shares(*demand, ratios=(Ratio((0,), (1,), "==", 2, 1, 0),)) == expected


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        ((ALL, ALL, ALL), (250_000, 500_000, 250_000)),
        ((ALL, 0, ALL), (0, 0, ALL)),  # a bound from above is not released
        ((ALL, 0, 300_000), (700_000, 0, 300_000)),  # but yields to capacity that nobody else may take
    ],
)
def test_at_most_half(demand: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert shares(*demand, ratios=(Ratio((0,), (1,), "<=", 1, 2, 0),)) == expected


def test_floors_that_cannot_all_be_met_get_the_same_part() -> None:
    assert shares(ALL, ALL, ALL, floors=(floor(900_000, 0), floor(600_000, 1))) == (600_000, 400_000, 0)
    assert shares(ALL, ALL, floors=(floor(5_000_000, 0),)) == (ALL, 0)


def test_a_floor_that_its_ceiling_forbids_takes_nothing_from_other_floors() -> None:
    bounds = {"floors": (floor(600_000, 0), floor(600_000, 1)), "ceilings": (ceiling(150_000, 0),)}
    assert shares(ALL, ALL, ALL, **bounds) == (150_000, 600_000, 250_000)


def test_floors_that_are_exactly_all() -> None:
    thirds = (floor(333_333, 0), floor(333_333, 1), floor(333_334, 2))
    assert shares(ALL, ALL, ALL, floors=thirds) == (333_333, 333_333, 333_334)


def test_no_classes_no_demand_and_too_much() -> None:
    assert shares() == ()
    assert shares(0, 0, floors=(floor(500_000, 0),)) == (0, 0)
    assert shares(-5, 10**40) == (0, ALL)
    assert shares(10**40, 10**40, floors=(floor(10**40, 1),)) == (0, ALL)
    assert shares(ALL, ALL, ceilings=(ceiling(0, 0), ceiling(0, 1))) == (500_000, 500_000)
    assert shares(ALL, ALL, ceilings=(ceiling(0, 0, hard=True), ceiling(0, 1, hard=True))) == (0, 0)
    assert shares(ALL, floors=(Bound((), 10, 0),), ceilings=(Bound((), 10, 0),)) == (ALL,)
    assert shares(ALL, floors=(floor(10, 0),), ceilings=(ceiling(300_000, 0, hard=True),)) == (300_000,)


def test_a_demand_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 demands for 3 classes"):
        allocate(Problem(3, (), ()), (1, 2))


def test_problems_that_make_no_sense_are_refused() -> None:
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
    assert allocator.update(1, 100_000) == (900_000, 100_000, 0)
    assert allocator.update(2, ALL) == (500_000, 100_000, 400_000)
    assert allocator.update(0, 0) == (0, 100_000, 900_000)


def test_an_allocator_does_not_grow_without_bound() -> None:
    allocator = Allocator(Problem(2, (), ()))
    for amount in range(5_000):
        allocator.shares((amount, ALL))
    assert len(allocator._cache) <= 1024
