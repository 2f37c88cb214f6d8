"""Submission index: tickets are added in runs and removed in other runs."""

from __future__ import annotations

from cluster.entries import pack_bodies
from cluster.names import Label, ProcessId, ViewId
from cluster.run_log import Run
from cluster.submission_index import NO_TICKET, SubmissionIndex

ME = ProcessId("a")
FIRST, SECOND = ViewId(1, "x"), ViewId(2, "y")


def run_of(view_id: ViewId, seqno: int, length: int) -> Run:
    return Run(view_id, seqno, ME, pack_bodies([b""] * length))


def open_tickets() -> SubmissionIndex:
    tickets = SubmissionIndex()
    tickets.put(FIRST, 1, [11, 12, 13])
    tickets.put(FIRST, 4, [14, NO_TICKET])
    tickets.put(SECOND, 1, [15])
    assert tickets.count == 5
    return tickets


def test_runs_are_taken_as_added() -> None:
    tickets = open_tickets()
    assert tickets.take(run_of(FIRST, 1, 3)) == [11, 12, 13]
    assert tickets.take(run_of(FIRST, 4, 2)) == [14, NO_TICKET]
    assert tickets.take(run_of(SECOND, 1, 1)) == [15]
    assert tickets.count == 0


def test_runs_are_cut_and_joined() -> None:
    tickets = open_tickets()
    assert tickets.take(run_of(FIRST, 1, 2)) == [11, 12]
    assert tickets.take(run_of(FIRST, 3, 3)) == [13, 14, NO_TICKET]
    assert tickets.count == 1


def test_all_up_to_a_label_over_several_views() -> None:
    tickets = open_tickets()
    assert tickets.take_up_to(Label(FIRST, 2, ME)) == [11, 12]
    assert tickets.take_up_to(Label(SECOND, 1, ME)) == [13, 14, NO_TICKET, 15]
    assert tickets.count == 0


def test_labels_of_an_earlier_life_have_no_tickets() -> None:
    tickets = open_tickets()
    assert tickets.take(run_of(ViewId(0, "z"), 1, 4)) == []
    assert tickets.take(run_of(FIRST, 1, 0)) == []
    assert tickets.count == 5
