"""Adaptation policy of the book-keeper (ATOP paper, section 6.1)."""

from __future__ import annotations

import pytest

from cluster.settings import Settings
from cluster.slot_weights import ROUND, WeightPolicy

SETTINGS = Settings(atop_window_factor=10, atop_epsilon=0.1, atop_threshold=0.2)


def given_out(book: WeightPolicy, ranks: list[int]) -> list[tuple[int, ...]]:
    return [weights for rank in ranks if (weights := book.on_message(rank)) is not None]


def test_equal_rates_need_no_new_distribution() -> None:
    assert given_out(WeightPolicy(3, SETTINGS), [0, 1, 2] * 100) == []


def test_weights_follow_the_shares_in_the_window() -> None:
    (weights,) = given_out(WeightPolicy(3, SETTINGS), [0, 0, 1] * 100)
    assert abs(weights[0] / ROUND - 2 / 3) < 0.04
    assert abs(weights[1] / ROUND - 1 / 3) < 0.04


def test_no_member_has_weight_zero() -> None:
    (weights,) = given_out(WeightPolicy(6, SETTINGS), [2] * 500)
    assert min(weights) == 1
    assert weights[2] >= 0.98 * ROUND


def test_a_single_sender_is_detected_before_the_window_is_full() -> None:
    assert given_out(WeightPolicy(3, SETTINGS), [0] * 9) == []
    (weights,) = given_out(WeightPolicy(3, SETTINGS), [0] * 10)
    assert weights[0] >= 0.98 * ROUND


def test_small_differences_in_a_small_window_are_ignored() -> None:
    few = [0, 1, 1, 0, 2, 0, 1, 2, 0, 0]
    assert given_out(WeightPolicy(3, SETTINGS), few) == []
    assert len(given_out(WeightPolicy(3, SETTINGS), few * 3)) == 1


def test_a_change_of_rates_is_noticed_and_then_settles() -> None:
    book = WeightPolicy(2, SETTINGS)
    assert len(given_out(book, [0] * 200)) == 1
    changes = given_out(book, [1] * 200)
    assert 1 <= len(changes) <= 3
    assert changes[-1][1] > 0.9 * ROUND
    assert given_out(book, [1] * 200) == []
    assert len(book.window) == 20
    assert sum(book.counts) == 20


@pytest.mark.parametrize("often", range(1, 9))
def test_a_member_that_fell_silent_loses_its_slots(often: int) -> None:
    """Start of a view: all members send something, then only one does. The last step may be below the threshold."""
    book = WeightPolicy(3, SETTINGS)
    changes = given_out(book, [0, 1, 2] * often + [1] * 200)
    assert changes[-1] == (1, changes[-1][1], 1)
    assert len(changes) <= 4


def test_a_rare_sender_causes_no_new_distribution() -> None:
    book = WeightPolicy(3, SETTINGS)
    given_out(book, [0] * 100)
    rarely = ([0] * 45 + [1]) * 20
    assert given_out(book, rarely) == []
