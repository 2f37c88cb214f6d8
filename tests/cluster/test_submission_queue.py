"""Submission queue: tickets and bodies stay together when they are added, taken and withdrawn."""

from __future__ import annotations

from cluster.entries import APPLICATION, CHECKPOINT, Entry, pack
from cluster.submission_queue import SubmissionQueue


def _body(ticket: int) -> bytes:
    return b"%d" % ticket


def _of(*tickets: int) -> SubmissionQueue:
    waiting = SubmissionQueue()
    waiting.put(tickets, APPLICATION, [_body(ticket) for ticket in tickets])
    return waiting


def _taken(waiting: SubmissionQueue, count_max: int) -> tuple[list[int], list[Entry]]:
    tickets, taken = waiting.take(count_max)
    return tickets, taken.entries()


def _entries(*tickets: int) -> list[Entry]:
    return [Entry(APPLICATION, _body(ticket)) for ticket in tickets]


def test_submissions_are_taken_in_order() -> None:
    waiting = _of(1, 2, 3)
    waiting.put(range(4, 6), APPLICATION, [_body(4), _body(5)])
    assert _taken(waiting, 2) == ([1, 2], _entries(1, 2))
    assert _taken(waiting, 10) == ([3, 4, 5], _entries(3, 4, 5))
    assert not waiting


def test_at_most_count_max_are_taken() -> None:
    assert _taken(_of(1, 2), 2) == ([1, 2], _entries(1, 2))


def test_a_withdrawn_submission_is_removed_with_its_body() -> None:
    waiting = _of(1, 2, 3)
    assert waiting.withdraw(2)
    assert not waiting.withdraw(2)
    assert waiting.tickets == [1, 3]
    assert _taken(waiting, 9) == ([1, 3], _entries(1, 3))
    assert not waiting.withdraw(1)


def test_each_entry_keeps_its_kind() -> None:
    waiting = _of(1, 2)
    waiting.put((3,), CHECKPOINT, [b"first"])
    waiting.put((4,), CHECKPOINT, [b"second"])
    waiting.put((5,), APPLICATION, [_body(5)])
    assert waiting.take(1) == ([1], pack(_entries(1)))
    assert waiting.withdraw(3)
    assert _taken(waiting, 9) == ([2, 4, 5], [*_entries(2), Entry(CHECKPOINT, b"second"), *_entries(5)])
