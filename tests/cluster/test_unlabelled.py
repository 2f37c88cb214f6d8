"""Submissions without a label: tickets and entries stay side by side, however they come and go."""

from __future__ import annotations

from cluster.messages import APPLICATION, Entry
from cluster.unlabelled import Unlabelled


def _entry(ticket: int) -> Entry:
    return Entry(APPLICATION, b"%d" % ticket)


def _of(*tickets: int) -> Unlabelled:
    waiting = Unlabelled()
    waiting.put(tickets, [_entry(ticket) for ticket in tickets])
    return waiting


def test_they_leave_in_the_order_in_which_they_came() -> None:
    waiting = _of(1, 2, 3)
    waiting.put(range(4, 6), [_entry(4), _entry(5)])
    assert waiting.take(2) == ([1, 2], (_entry(1), _entry(2)))
    assert waiting.take(10) == ([3, 4, 5], (_entry(3), _entry(4), _entry(5)))
    assert not waiting


def test_just_as_many_as_may_be_taken() -> None:
    assert _of(1, 2).take(2) == ([1, 2], (_entry(1), _entry(2)))


def test_what_is_withdrawn_leaves_with_its_entry() -> None:
    waiting = _of(1, 2, 3)
    assert waiting.withdraw(2)
    assert not waiting.withdraw(2)
    assert waiting.tickets == [1, 3]
    assert waiting.take(9) == ([1, 3], (_entry(1), _entry(3)))
    assert not waiting.withdraw(1)
