"""Batching of submissions: when entries leave, in which batches, and how outcomes are reported."""

from __future__ import annotations

import pytest

from cluster.layer import Delivered, DeliveredRun
from cluster.runtime.submissions import BATCH_MAX, IN_FLIGHT_MAX, PARALLEL_BATCH_MIN, SPLIT_FROM, Submissions


class Nobody:
    def __init__(self) -> None:
        self.rooms = 0

    def on_ended(self, *_: object) -> None: ...

    def on_room(self) -> None:
        self.rooms += 1


class Process:
    """Hands out tickets; a batch completes when the test says so."""

    def __init__(self, submissions: Submissions) -> None:
        self.submissions = submissions
        self.sizes: list[int] = []  # sizes of all batches
        self._in_flight: list[range] = []
        self._ticket = 0

    def submit(self, _now: float, bodies: list[bytes]) -> range:
        self.sizes.append(len(bodies))
        tickets = range(self._ticket + 1, self._ticket + len(bodies) + 1)
        self._ticket = tickets[-1]
        self._in_flight.append(tickets)
        return tickets

    def leave_all(self) -> list[int]:
        """The sizes of the batches that leave now."""
        before = len(self.sizes)
        while self.submissions.is_batch_due:
            self.submissions.submit_batch(self.submit)
        return self.sizes[before:]

    def end_first(self) -> None:
        """Complete the oldest batch in flight."""
        tickets = list(self._in_flight.pop(0))
        self.submissions.complete_run(DeliveredRun(tickets, tickets[0], tickets))


def begin() -> tuple[Submissions, Process, list[int]]:
    submissions = Submissions(Nobody())
    return submissions, Process(submissions), []


def put(submissions: Submissions, count: int, told: list[int]) -> None:
    def done(end: Delivered) -> None:
        told.append(end.ticket)

    for _ in range(count):
        submissions.put(b"12345", done)


def test_a_lone_entry_leaves_at_once_and_the_next_wait_for_it() -> None:
    submissions, process, told = begin()
    assert not submissions.is_batch_due
    put(submissions, 1, told)
    assert process.leave_all() == [1]
    put(submissions, 7, told)
    assert process.leave_all() == []
    process.end_first()
    assert process.leave_all() == [7]
    assert told == [1]


def test_large_batches_leave_while_others_are_in_flight_up_to_a_bound() -> None:
    submissions, process, told = begin()
    for _ in range(IN_FLIGHT_MAX + 2):
        put(submissions, PARALLEL_BATCH_MIN, told)
        process.leave_all()
    assert process.sizes == [PARALLEL_BATCH_MIN] * IN_FLIGHT_MAX
    assert submissions.waiting == 2 * PARALLEL_BATCH_MIN
    process.end_first()
    assert process.leave_all() == [2 * PARALLEL_BATCH_MIN]


@pytest.mark.parametrize("count", [SPLIT_FROM - 1, SPLIT_FROM, 2 * BATCH_MAX, 20 * BATCH_MAX])
def test_a_large_backlog_leaves_in_several_batches(count: int) -> None:
    submissions, process, told = begin()
    put(submissions, count, told)
    while submissions.outstanding:
        sizes = process.leave_all()
        assert len(sizes) <= IN_FLIGHT_MAX
        assert all(size <= BATCH_MAX for size in sizes)
        process.end_first()
    assert told == list(range(1, count + 1))
    assert sum(process.sizes) == count
    assert (len(process.sizes) > 1) == (count >= SPLIT_FROM)
    assert (submissions.outstanding_bytes, submissions.handles, submissions.delivered) == (0, {}, count)


def test_queued_entries_can_be_withdrawn_and_the_rest_abandoned() -> None:
    submissions, process, told = begin()
    put(submissions, 1, told)
    process.leave_all()

    def mine(_end: Delivered) -> None: ...

    put(submissions, 2, told)
    submissions.put(b"a", mine)
    assert submissions.ticket_of(mine) is None
    assert submissions.withdraw(mine)
    assert not submissions.withdraw(mine)
    assert (submissions.outstanding, submissions.outstanding_bytes) == (3, 15)
    unsent, in_doubt = submissions.abandon()
    assert (len(unsent), len(in_doubt), submissions.waiting) == (2, 1, 0)


def test_a_refused_entry_completes() -> None:
    submissions, process, told = begin()
    put(submissions, 1, told)
    process.leave_all()
    submissions.complete_one(Delivered(1, False, -1, "no", None))
    assert (told, submissions.refused, submissions.outstanding) == ([1], 1, 0)
    put(submissions, 1, told)
    assert process.leave_all() == [1]
