"""Slot assignment: in proportion to the weights, spread evenly, the same on every machine."""

from __future__ import annotations

import itertools

import pytest

from cluster.names import ViewId
from cluster.slots import ROUND_MAX, SlotAssignment, is_valid_distribution

VIEW = ViewId(7, "beef")


@pytest.mark.parametrize("weights", [(1,), (1, 1, 1), (5, 1), (100, 3, 1, 1), (1, 17, 9, 2, 2)])
def test_every_place_belongs_to_one_member_and_shares_are_the_weights(weights: tuple[int, ...]) -> None:
    deal = SlotAssignment(weights, VIEW, 3)
    rounds = 4
    places = {
        deal.place(rank, number): rank for rank, weight in enumerate(weights) for number in range(rounds * weight)
    }
    assert sorted(places) == list(range(rounds * sum(weights)))
    for rank, weight in enumerate(weights):
        mine = [place for place in sorted(places) if places[place] == rank]
        assert len(mine) == rounds * weight
        gaps = [later - earlier for earlier, later in itertools.pairwise(mine)]
        assert max(gaps) <= sum(weights) / weight + len(weights) + 1  # slots are spread evenly


@pytest.mark.parametrize("weights", [(1, 1, 1), (5, 1), (100, 3, 1, 1)])
def test_before_counts_the_slots_before_a_place(weights: tuple[int, ...]) -> None:
    deal = SlotAssignment(weights, VIEW, 1)
    for rank in range(len(weights)):
        for place in range(3 * sum(weights)):
            number = deal.before(rank, place)
            assert deal.place(rank, number) >= place
            assert number == 0 or deal.place(rank, number - 1) < place


def test_slots_depend_on_view_distribution_and_weights() -> None:
    assert SlotAssignment((9, 4, 4), VIEW, 1).offsets == SlotAssignment((9, 4, 4), VIEW, 1).offsets
    arrangements = {str(SlotAssignment((9, 4, 4), VIEW, dist).offsets) for dist in range(20)}
    assert len(arrangements) > 5


def test_slots_are_the_same_on_every_machine() -> None:
    assert SlotAssignment((4, 2, 1), VIEW, 1).offsets == [[0, 2, 4, 5], [3, 6], [1]]


def test_valid_distributions() -> None:
    assert is_valid_distribution((1, 2, 3), 3)
    assert not is_valid_distribution((1, 2, 3), 4)
    assert not is_valid_distribution((1, 0, 3), 3)
    assert not is_valid_distribution((1, -5, 9), 3)
    assert not is_valid_distribution((1, ROUND_MAX), 2)
