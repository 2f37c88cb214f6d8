"""Outbox: nothing is lost, and nothing is sent twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.names import ProcessId
from qosweb.engine.local import outbox as module
from qosweb.engine.local.outbox import BatchOutbox
from qosweb.engine.replicated.classes import ClassNumbers
from qosweb.engine.replicated.entries import NodeBatch, NodeReport, NodeRestatement, PolicyText

if TYPE_CHECKING:
    import pytest

A = ProcessId("a")


NAMES = [f"c{number}" for number in range(10)]
same = ClassNumbers(NAMES, NAMES, 0)


def test_empty_outbox() -> None:
    outbox = BatchOutbox()
    assert outbox.is_empty
    assert not outbox.is_awaited
    assert outbox.take(1, 2) == NodeBatch(1, 2)


def test_request_cancelled_before_its_batch_is_left_out() -> None:
    outbox = BatchOutbox()
    outbox.submitted(1, 0, 10)
    assert outbox.is_awaited
    assert outbox.cancelled(1) is False
    assert outbox.is_empty


def test_request_cancelled_after_its_batch_is_sent() -> None:
    outbox = BatchOutbox()
    outbox.submitted(1, 0, 10)
    outbox.take(0, 0)
    assert outbox.cancelled(1) is True
    assert outbox.take(0, 0).cancelled == [1]


def test_request_over_before_its_batch_is_only_counted() -> None:
    outbox = BatchOutbox()
    outbox.started(1, 3, 10)
    outbox.started(2, 3, 20)
    outbox.finished(1, 12)
    batch = outbox.take(0, 0)
    assert (batch.served, batch.started, batch.finished) == ([(3, 1, 12)], [(2, 3, 20)], [])
    outbox.finished(2, 20)
    assert outbox.take(0, 0).finished == [(2, 20)]


def test_waiting_and_released_requests_are_due_and_sums_are_not() -> None:
    outbox = BatchOutbox()
    outbox.served(0, 5, 50)
    outbox.denied(0, 5)
    outbox.started(1, 0, 5)
    assert not outbox.is_awaited
    assert not outbox.frees
    assert not outbox.is_empty
    outbox.finished(9, 5)
    assert outbox.frees


def test_batch_is_limited_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIST_MAX", 3)
    outbox = BatchOutbox()
    for number in range(8):
        outbox.started(number, 0, 1)
        outbox.submitted(100 + number, 0, 1)
        outbox.cancelled(200 + number)
        outbox.finished(300 + number, 1)
        outbox.visited(A, number, 1)
    got: Counter[str] = Counter()
    while not outbox.is_empty:
        batch = outbox.take(0, 0)
        for name in ("started", "submitted", "cancelled", "finished", "visited"):
            items = getattr(batch, name)
            assert len(items) <= 3
            got[name] += len(set(items))
    assert set(got.values()) == {8}


def test_restatement_replaces_everything_but_counts() -> None:
    outbox = BatchOutbox()
    outbox.started(1, 0, 10)
    outbox.submitted(2, 0, 10)
    outbox.cancelled(3)
    outbox.finished(4, 10)
    outbox.visited(A, 5, 10)
    outbox.restate()
    outbox.submitted(6, 0, 10)  # after it was asked for, before it is said
    batch = outbox.take(0, 0, NodeRestatement(1, [(1, 0, 10)], [(6, 0, 10)]))
    assert (batch.started, batch.submitted, batch.cancelled, batch.finished, batch.visited) == ([], [], [], [], [])
    assert batch.served == [(0, 1, 10)]
    assert batch.accounts == [(0, 1, 10, 0, 0, 0, 0)]
    assert not outbox.restates
    assert outbox.is_empty


def test_counts_of_a_lost_batch_go_with_the_next() -> None:
    outbox = BatchOutbox()
    outbox.served(0, 2, 20)
    outbox.denied(1, 7)
    outbox.started(5, 0, 10)
    outbox.report = NodeReport(1, 2, 3, "u")
    outbox.policy = PolicyText("", b"")
    lost = outbox.take(0, 0)
    outbox.served(0, 1, 10)
    outbox.put_back(lost, same)
    batch = outbox.take(0, 0)
    assert batch.served == [(0, 4, 40)]
    assert batch.denied == [(1, 1, 7)]
    assert sorted(batch.accounts) == [(0, 4, 40, 0, 0, 0, 0), (1, 0, 0, 1, 7, 0, 0)]
    assert (batch.report, batch.policy) == (lost.report, lost.policy)


def test_a_lost_report_does_not_replace_a_newer_one() -> None:
    outbox = BatchOutbox()
    outbox.report = NodeReport(1, 0, 0, "")
    lost = outbox.take(0, 0)
    outbox.report = NodeReport(2, 0, 0, "")
    outbox.put_back(lost, same)
    assert outbox.take(0, 0).report == NodeReport(2, 0, 0, "")


def test_class_numbers_are_translated() -> None:
    outbox = BatchOutbox()
    outbox.served(0, 1, 10)
    outbox.served(1, 1, 5)
    outbox.denied(0, 3)
    outbox.started(7, 1, 5)
    outbox.submitted(8, 0, 5)
    outbox.accessed(4, 100)
    lost = NodeBatch(0, 0, served=[(0, 1, 1)])
    outbox.translate([2, 2])
    outbox.put_back(lost, ClassNumbers(["old", "older"], ["a", "b", "c"], default=2))
    batch = outbox.take(0, 1)
    assert batch.served == [(2, 3, 16)]
    assert batch.denied == [(2, 1, 3)]
    assert batch.started == [(7, 2, 5)]
    assert batch.submitted == [(8, 2, 5)]
    assert batch.accessed == []
    assert batch.accounts == [(2, 3, 20, 1, 3, 0, 0)]


@given(st.lists(st.tuples(st.sampled_from(["serve", "deny", "start", "take", "lose", "restate"]), st.integers(0, 2))))
@settings(max_examples=100, deadline=None)
def test_each_request_is_counted_once_despite_losses_and_restatements(steps: list[tuple[str, int]]) -> None:
    outbox = BatchOutbox()
    truth: Counter[str] = Counter()
    told: Counter[str] = Counter()

    def tell(batch: NodeBatch) -> None:
        for _, started, cost, denied, *_ in batch.accounts:
            told.update({"started": started, "cost": cost, "denied": denied})

    def take() -> NodeBatch:
        return outbox.take(0, 0, NodeRestatement(1, [], []) if outbox.restates else None)

    for number, (what, class_number) in enumerate(steps):
        match what:
            case "serve":
                outbox.served(class_number, 2, 7)
                truth.update({"started": 2, "cost": 7})
            case "deny":
                outbox.denied(class_number, 1)
                truth.update({"denied": 1})
            case "start":
                outbox.started(number, class_number, 9)
                truth.update({"started": 1, "cost": 9})
            case "take":
                tell(take())
            case "lose":
                outbox.put_back(take(), same)
            case "restate":
                outbox.restate()
    tell(take())
    assert +told == +truth
