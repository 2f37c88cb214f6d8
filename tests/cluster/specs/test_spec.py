"""Base class of specifications: dispatch, violation reports, coverage; and the message queues."""

from __future__ import annotations

import pytest

from cluster.actions import GcsDeliver, GcsSend, GcsView, LinkLive
from cluster.durable import Image
from cluster.sim.history_machine import History
from cluster.sim.journal import Journal
from cluster.specs.checkers import Checkers
from cluster.specs.co_rfifo import CoRfifoSpec
from cluster.specs.disk import DiskSpec
from cluster.specs.eo_fifo_ds import EoFifoDsSpec
from cluster.specs.queues import LossyQueue, Window
from cluster.specs.services.data import DataSpec
from cluster.specs.services.reports import ReportsSpec
from cluster.specs.spec import ACTIONS, Violation
from cluster.specs.vs_rfifo import VsRfifoSpec
from cluster.specs.wv_rfifo import WvRfifoSpec
from tests.cluster.specs.traces import A, B, plain, view


def test_a_failure_tells_the_action_the_precondition_and_the_steps_before() -> None:
    checkers = Checkers(A, [CoRfifoSpec(), WvRfifoSpec()])
    v = view(2, A, B)
    checkers.observe(A, GcsView(v, (A,)), 0.25)
    checkers.observe(A, LinkLive((A, B)), 0.5)  # not of this specification
    checkers.observe(A, GcsSend(plain("x")), 0.5)
    with pytest.raises(Violation) as caught:
        checkers.observe(A, GcsDeliver(B, plain("y")), 0.75)
    text = str(caught.value)
    assert "WV_RFIFO step 4: GcsDeliver(b, Plain(" in text
    assert "not enabled: deliver: m = msgs[q][current_view[p]][last_dlvrd[q][p] + 1]" in text
    assert "0.2500  a  GcsView(<2:" in text
    assert "LinkLive" not in text
    assert [step.number for step in caught.value.before] == [1, 3]


def test_coverage_lists_clauses_never_met() -> None:
    checkers = Checkers(A, [WvRfifoSpec(), VsRfifoSpec()])
    checkers.observe(A, GcsView(view(2, A, B), (A,)))
    coverage = checkers.coverage()
    assert coverage["WV_RFIFO"]["view: p in v.set"] == 1
    assert coverage["WV_RFIFO"]["gcs_view"] == 1
    assert coverage["VS_RFIFO"]["view: for all q, last_dlvrd[q][p] = cut[current_view[p]][v](q)"] == 0
    assert all(coverage.values())


def test_every_action_is_judged() -> None:
    checkers = Checkers(A)
    services = (EoFifoDsSpec(Journal), ReportsSpec(), DataSpec(History))
    specs = (*checkers.specs, DiskSpec(lambda _: Image()), *services)
    known = {kind for spec in specs for kind in spec.actions}
    assert known == set(ACTIONS.values())


def test_no_two_clauses_share_a_text() -> None:
    for spec in Checkers(A).specs:
        assert len(spec.clauses()) == len(set(spec.clauses()))
        assert all(clause == clause.strip() and len(clause) > 5 for clause in spec.clauses())


def test_a_window_forgets_its_beginning() -> None:
    window: Window[str] = Window()
    for letter in "abcd":
        window.append(letter)
    window.drop_below(2)
    assert (window.low, window.end, window[2], window[3]) == (2, 4, "c", "d")
    with pytest.raises(IndexError):
        window[1]
    window.drop_below(9)
    assert (window.low, window.end) == (4, 4)


def test_elements_taken_back_are_not_delivered() -> None:
    queue: LossyQueue[str] = LossyQueue()
    for letter in "abcb":
        queue.put(letter)
    assert queue.take_back("b")
    assert not queue.take_back("z")
    assert [queue.take(letter) for letter in "abcb"] == [True, True, True, False]


def test_front_lists_possible_next_elements() -> None:
    queue: LossyQueue[str] = LossyQueue()
    queue.put("a")
    queue.put("b", optional=True)
    queue.lose()
    queue.put("c")
    assert queue.front() == ["a", "c"]
    assert queue.take("a")
    assert queue.front() == ["b", "c"]
    queue.clear()
    assert queue.front() == []
    assert len(queue) == 0
