"""Semantically reliable broadcast step by step: the scenarios of the paper, bounds, views and invalid frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.layer import Context
from cluster.names import ProcessId, View, make_view
from cluster.reports.broadcast import InvalidReportFrame, SemanticBroadcast
from cluster.reports.messages import Greeting, Origin, OwnWindow, Report, ReportFrame, Taken
from cluster.reports.publisher import ReportsFull
from cluster.reports.settings import ReportSettings
from cluster.sim.reports.mutant_catalogue import REPORT_MUTANTS
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from cluster.sim.mutation import Mutant

P, Q, R, S, T = (ProcessId(name) for name in "pqrst")


class Processes:
    """Processes with streams between them; frames move only when the test says so."""

    def __init__(self, *names: ProcessId, settings: ReportSettings | None = None) -> None:
        self.settings = settings or ReportSettings()
        self.of = {name: SemanticBroadcast(Context(name, SeededRandom(1)), self.settings, 1) for name in names}
        for one in names:
            for other in names:
                if one != other:
                    self.of[one].on_connected(other)

    def enter(self, epoch: int, *names: ProcessId, together: tuple[ProcessId, ...] = ()) -> View:
        view = make_view(epoch, dict.fromkeys(names, epoch))
        for name in names:
            self.of[name].on_view(view, together or (name,))
        self.settle()
        return view

    def frames(self, source: ProcessId, destination: ProcessId) -> list[ReportFrame]:
        found = []
        while (frame := self.of[source].next_frame(destination)) is not None:
            found.append(frame)
        return found

    def move(self, source: ProcessId, destination: ProcessId) -> list[ReportFrame]:
        """Move everything from one process to another."""
        found = self.frames(source, destination)
        if destination in self.of:
            for frame in found:
                self.of[destination].on_frame(source, frame)
        return found

    def settle(self) -> None:
        while any(self.move(one, other) for one in self.of for other in self.of if one != other):
            pass

    def delivered(self, name: ProcessId) -> list[tuple[str, bytes]]:
        found = []
        while (queued := self.of[name].deliver()) is not None:
            found.append((queued.report.item, queued.report.value))
        return found


def numbers(frames: list[ReportFrame]) -> list[int]:
    return [report.number for frame in frames if isinstance(frame, OwnWindow) for report in frame.reports]


def test_a_purged_number_does_not_hold_up_the_next_one() -> None:
    """Section 2.2, first scenario: m1 is purged because of m3, and q learns that without ever getting a successor."""
    group = Processes(P, Q, R, settings=ReportSettings(window_len=1))
    group.enter(1, P, Q, R)
    p = group.of[P]
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        p.publish(item, value)
    while group.move(P, R) + group.move(R, P):  # r acknowledges everything: m3 is safe, m1 is purged
        pass
    assert p.purged == 1
    (window,) = group.frames(P, Q)
    assert window == OwnWindow(0, 2, 3, (Report(2, "y", b"2", 0),))
    group.of[Q].on_frame(P, window)
    assert group.delivered(Q) == [("y", b"2")]


def test_nothing_is_purged_before_its_successor_is_safe() -> None:
    """Section 2.2, second scenario: q gets m2, then p crashes. q has m1 then, because m3 was not safe."""
    group = Processes(P, Q, R)
    group.enter(1, P, Q, R)
    p = group.of[P]
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        p.publish(item, value)
    assert p.purged == 0
    (window,) = group.frames(P, Q)
    assert numbers([window]) == [1, 2, 3]
    assert isinstance(window, OwnWindow)
    group.of[Q].on_frame(P, OwnWindow(0, 2, 0, window.reports[:2]))  # p crashes in the middle
    del group.of[P]
    group.enter(2, Q, R, together=(Q, R))
    assert group.delivered(Q) == group.delivered(R) == [("x", b"1"), ("y", b"2")]


def test_a_safe_successor_survives_the_crash_of_its_origin() -> None:
    """The same, but r has m3: q gets m2 without m1 from p, and m3 from r."""
    group = Processes(P, Q, R)
    group.enter(1, P, Q, R)
    p = group.of[P]
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        p.publish(item, value)
    while group.move(P, R) + group.move(R, P):
        pass
    (window,) = group.frames(P, Q)
    assert isinstance(window, OwnWindow)
    group.of[Q].on_frame(P, OwnWindow(0, 2, 3, window.reports[:1]))
    del group.of[P]
    group.enter(2, Q, R, together=(Q, R))
    assert group.delivered(Q) == [("y", b"2"), ("x", b"3")]


def test_a_window_bounds_what_is_on_the_way() -> None:
    """Section 2.5: s + w is not put in the network before s is acknowledged."""
    group = Processes(P, Q, settings=ReportSettings(window_len=3))
    group.enter(1, P, Q)
    for number in range(8):
        group.of[P].publish(f"item {number}", b"")
    frames = group.frames(P, Q)
    assert numbers(frames) == [1, 2, 3]
    group.of[Q].on_frame(P, frames[0])
    group.move(Q, P)
    assert numbers(group.frames(P, Q)) == [4, 5, 6]


def test_a_full_delivery_queue_stops_the_sender() -> None:
    """Section 3.2: a receiver whose queue is full takes no more, and the buffers of the sender fill up."""
    settings = ReportSettings(window_len=2, queue_len_max=2, buffer_len_max=4, pending_len_max=0)
    group = Processes(P, Q, settings=settings)
    group.enter(1, P, Q)
    for number in range(6):  # two in the queue of q, four unacknowledged
        group.of[P].publish(f"item {number}", b"")
        group.delivered(P)
        group.settle()
    with pytest.raises(ReportsFull, match="q has not acknowledged 4 reports"):
        group.of[P].publish("item 6", b"")
    assert len(group.of[Q].Q) == 2
    group.delivered(Q)
    group.settle()
    group.of[P].publish("one more", b"")


def test_a_peer_that_takes_nothing_never_stops_a_publisher_whose_reports_become_obsolete() -> None:
    group = Processes(P, Q, R, settings=ReportSettings(window_len=4, buffer_len_max=12, pending_len_max=5))
    group.enter(1, P, Q, R)
    for number in range(5_000):
        group.of[P].publish(f"item {number % 5}", b"%d" % number)
        if number % 7 == 0:
            while group.move(P, R) + group.move(R, P):
                pass
    assert group.of[P].I[Q].unacked_len <= 12
    group.settle()
    assert sorted(group.delivered(Q))[-5:] == [(f"item {number % 5}", b"%d" % number) for number in range(4_995, 5_000)]


def test_each_report_is_transmitted_once_per_receiver() -> None:
    """Section 2.5: acknowledgements replace the n * n transmissions of fig. 3."""
    group = Processes(P, Q, R)
    group.enter(1, P, Q, R)
    sent: list[int] = []
    for number in range(50):
        group.of[P].publish(f"item {number}", b"")
        sent += numbers(group.move(P, Q)) + numbers(group.move(P, R))
        for one, other in ((Q, R), (R, Q)):
            assert not [frame for frame in group.move(one, other) if not isinstance(frame, Greeting | Taken)]
        group.settle()
    assert sorted(sent) == sorted(2 * list(range(1, 51)))


def test_a_newcomer_first_gets_every_current_value() -> None:
    group = Processes(P, Q, R)
    group.enter(1, P, Q, together=(P, Q))
    for number in range(30):
        group.of[P].publish(f"item {number % 3}", b"%d" % number)
        group.settle()
    view = make_view(2, {P: 2, Q: 2, R: 2})
    for name, together in ((P, (P, Q)), (Q, (P, Q)), (R, (R,))):
        group.of[name].on_view(view, together)
    group.of[P].publish("item 0", b"new")
    group.settle()
    assert group.delivered(R) == [("item 1", b"28"), ("item 2", b"29"), ("item 0", b"new")]


def test_who_never_met_an_origin_gets_nothing_of_it() -> None:
    """r came after p was gone. q may hold only a part of what p broadcast, and r could not tell."""
    group = Processes(P, Q, R)
    group.enter(1, P, Q)
    group.of[P].publish("x", b"1")
    group.settle()
    del group.of[P]
    group.enter(2, Q)
    group.enter(3, Q, R)
    group.enter(4, Q, R, together=(Q, R))
    assert group.delivered(Q) == [("x", b"1")]
    assert group.delivered(R) == []


def test_a_forgotten_origin_does_not_come_back_from_a_member_that_still_holds_it() -> None:
    group = Processes(P, Q, R)
    group.enter(1, P, Q, R)
    group.of[P].publish("x", b"1")
    group.settle()
    del group.of[P]
    group.enter(2, Q, R, together=(Q, R))
    assert group.delivered(Q) == group.delivered(R) == [("x", b"1")]
    group.of[R].settings = ReportSettings(departed_len_max=0)
    for epoch in (3, 4):
        group.enter(epoch, Q, R, together=(Q, R))
        assert group.delivered(R) == []
        assert Origin(P, 1) not in group.of[R].O
        assert Origin(P, 1) in group.of[Q].O


def test_a_member_that_never_heard_of_an_origin_gets_what_another_member_delivered() -> None:
    """p was in the view of r, but crashed before r got its first frame. q knows p, and r does not."""
    group = Processes(P, Q, R)
    view = make_view(1, {P: 1, Q: 1, R: 1})
    for name in (P, Q, R):
        group.of[name].on_view(view, (name,))
    group.of[P].publish("x", b"1")
    while group.move(P, Q) + group.move(Q, P):
        pass
    del group.of[P]
    group.settle()
    group.enter(2, Q, R, together=(Q, R))
    assert group.delivered(Q) == group.delivered(R) == [("x", b"1")]


def test_a_member_that_heard_of_an_origin_late_does_not_pass_it_on_to_newcomers() -> None:
    """p crashed before r got a frame of it. When q tells r, s has joined, who never met p."""
    group = Processes(P, Q, R, S)
    for name in (P, Q, R):
        group.of[name].on_view(make_view(1, {P: 1, Q: 1, R: 1}), (name,))
    group.of[P].publish("x", b"1")
    while group.move(P, Q) + group.move(Q, P):
        pass
    del group.of[P]
    for name in (Q, R):
        group.of[name].on_view(make_view(2, {Q: 2, R: 2}), (Q, R))
    for name, together in ((Q, (Q, R)), (R, (Q, R)), (S, (S,))):
        group.of[name].on_view(make_view(3, {Q: 3, R: 3, S: 3}), together)
    for name in (Q, R, S):
        group.of[name].on_view(make_view(4, {Q: 4, R: 4, S: 4}), (Q, R, S))
    while group.move(Q, R) + group.move(R, Q):
        pass
    group.settle()
    assert group.delivered(Q) == group.delivered(R) == [("x", b"1")]
    assert group.delivered(S) == []


def test_a_newcomer_takes_what_was_safe_before_it_came_all_at_once() -> None:
    """p was alone: m1 was purged because of m3. If p crashes before r has m3, r must not have delivered m2."""
    group = Processes(P, Q, R, settings=ReportSettings(window_len=1))
    group.enter(1, P)
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        group.of[P].publish(item, value)
    view = make_view(2, {P: 2, Q: 2, R: 2})
    for name in (P, Q, R):
        group.of[name].on_view(view, (name,))
    for source, destination in ((P, R), (R, P), (P, R)):
        group.move(source, destination)
    assert group.of[R].I[P].staged
    assert group.delivered(R) == []
    while group.move(P, Q) + group.move(Q, P):
        pass
    assert group.delivered(Q) == [("y", b"2"), ("x", b"3")]
    del group.of[P]
    group.enter(3, Q, R, together=(Q, R))
    assert group.delivered(R) == [("y", b"2"), ("x", b"3")]


def test_acknowledgements_of_an_earlier_view_do_not_make_a_report_safe() -> None:
    """q holds m3, but it might not pass it on to s, which came later, before it confirmed it in the new view."""
    group = Processes(P, Q, R, S)
    group.enter(1, P, Q, R)
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        group.of[P].publish(item, value)
    group.of[Q].on_frame(P, group.frames(P, Q)[0])
    group.frames(Q, P)  # the acknowledgement is lost
    view = make_view(2, {P: 2, Q: 2, R: 2, S: 2})
    for name, together in ((P, (P, Q, R)), (Q, (P, Q, R)), (R, (P, Q, R)), (S, (S,))):
        group.of[name].on_view(view, together)
    group.move(Q, P)
    assert group.of[P].purged == 0
    while group.move(P, Q) + group.move(Q, P):
        pass
    assert group.of[P].purged == 1


def test_forwarded_reports_are_taken_all_at_once() -> None:
    """q knows m2 and m3 of p, and that m1 was purged. It crashes while it forwards them to r."""
    group = Processes(P, Q, R, S, settings=ReportSettings(window_len=1))
    group.enter(1, P, Q, R, S)
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        group.of[P].publish(item, value)
    while group.move(P, Q) + group.move(Q, P):
        pass
    assert group.of[P].purged == 1
    del group.of[P]
    for name in (Q, R, S):
        group.of[name].on_view(make_view(2, {Q: 2, R: 2, S: 2}), (Q, R, S))
    for source, destination in ((R, Q), (Q, R)):
        group.move(source, destination)
    assert group.of[R].I[Q].staged
    del group.of[Q]
    group.enter(3, R, S, together=(R, S))
    assert group.delivered(R) == group.delivered(S) == []


def test_forwarded_reports_are_forwarded_again() -> None:
    """Only q hears from p. It forwards a report to r and crashes: r forwards it to s, which was there too."""
    group = Processes(P, Q, R, S)
    for name in (P, Q, R, S):
        group.of[name].on_view(make_view(1, {P: 1, Q: 1, R: 1, S: 1}), (name,))
    group.of[P].publish("x", b"1")
    while group.move(P, Q) + group.move(Q, P):
        pass
    del group.of[P]
    for name in (Q, R, S):
        group.of[name].on_view(make_view(2, {Q: 2, R: 2, S: 2}), (Q, R, S))
    while group.move(Q, R) + group.move(R, Q):
        pass
    del group.of[Q]
    group.enter(3, R, S, together=(R, S))
    assert group.delivered(R) == group.delivered(S) == [("x", b"1")]


def test_acknowledgements_count_in_their_view_only() -> None:
    """q had m3 when it was in a view with p. It is another life of q that is in the view of five."""
    group = Processes(P, Q, R, S, T)
    group.enter(1, P, Q, R, S, T)
    for item, value in (("x", b"1"), ("y", b"2"), ("x", b"3")):
        group.of[P].publish(item, value)
    while group.move(P, Q) + group.move(Q, P):
        pass
    assert group.of[P].purged == 0  # two of five hold m3
    view = make_view(2, {P: 2, Q: 2, R: 2})
    for name, together in ((P, (P, R)), (Q, (Q,)), (R, (P, R))):
        group.of[name].on_view(view, together)
    assert group.of[P].purged == 0
    group.settle()
    assert group.of[P].purged == 1


def test_a_process_holds_what_it_greeted_with() -> None:
    """r has told q how far it holds p's reports. It must not forget p while q sends the rest."""
    group = Processes(P, Q, R, settings=ReportSettings(departed_len_max=0))
    group.enter(1, P, Q, R)
    group.of[P].publish("x", b"1")
    group.settle()
    group.of[P].publish("y", b"2")
    group.move(P, R)
    view = make_view(2, {P: 2, Q: 2, R: 2})
    for name in (P, Q, R):
        group.of[name].on_view(view, (P, Q, R))
    group.settle()
    assert group.delivered(Q) == group.delivered(R) == [("x", b"1"), ("y", b"2")]


def test_a_forgotten_origin_has_nothing_in_the_queue() -> None:
    group = Processes(P, Q, settings=ReportSettings(departed_len_max=0))
    group.enter(1, P, Q)
    group.of[P].publish("x", b"1")
    group.settle()
    group.enter(2, Q)
    assert Origin(P, 1) not in group.of[Q].O
    assert group.delivered(Q) == []


SCRIPTED = {  # mutants that seeds rarely show
    "a greeting counts as an acknowledgement": test_acknowledgements_of_an_earlier_view_do_not_make_a_report_safe,
    "acknowledgements of an earlier view count": test_acknowledgements_count_in_their_view_only,
    "a part of forwarded reports is taken": test_forwarded_reports_are_taken_all_at_once,
    "forwarded reports are not forwarded again": test_forwarded_reports_are_forwarded_again,
    "a forgotten origin stays in the queue": test_a_forgotten_origin_has_nothing_in_the_queue,
    "a full queue is not resumed": test_a_full_delivery_queue_stops_the_sender,
}


@pytest.mark.parametrize("mutant", [one for one in REPORT_MUTANTS if one.name in SCRIPTED], ids=lambda one: one.name)
def test_a_mutant_fails_its_scenario(mutant: Mutant) -> None:
    undo = mutant.apply()
    try:
        with pytest.raises((AssertionError, ReportsFull)):
            SCRIPTED[mutant.name]()
    finally:
        undo()


def test_an_empty_window_is_announced() -> None:
    """Section 2.5: without anything to send, the receiver still learns which numbers are gone."""
    group = Processes(P, Q, R, settings=ReportSettings(semantic=False))
    group.enter(1, P, Q, together=(P, Q))
    group.of[P].publish("x", b"1")
    group.settle()
    group.of[P].on_view(view := make_view(2, {P: 2, R: 2}), (P,))
    group.of[R].on_view(view, (R,))
    group.move(R, P)
    assert [frame for frame in group.move(P, R) if isinstance(frame, OwnWindow)] == [OwnWindow(0, 1, 0, ())]
    assert group.of[R].O[Origin(P, 1)].held == 1


@pytest.mark.parametrize(
    "frame",
    [
        OwnWindow(5, 6, 0, (Report(6, "x", b"", 0),)),
        OwnWindow(0, 1, 0, (Report(2, "x", b"", 0),)),
        OwnWindow(0, 3, 0, (Report(3, "x", b"", 0), Report(2, "x", b"", 0))),
        Taken(Origin(Q, 1), 9),
        Greeting(make_view(1, {P: 1, Q: 1}).id, 1, 0, ((Origin(Q, 1), 7),)),
    ],
)
def test_an_invalid_frame_is_rejected(frame: ReportFrame) -> None:
    group = Processes(P, Q)
    group.enter(1, P, Q)
    with pytest.raises(InvalidReportFrame):
        group.of[Q].on_frame(P, frame)


def test_bounds_are_explained() -> None:
    alone = Processes(P, settings=ReportSettings(items_len_max=1, value_len_max=3, item_len_max=4)).of[P]
    alone.publish("x", b"1")
    with pytest.raises(ReportsFull, match="'y' would be item 2; at most 1 are allowed"):
        alone.publish("y", b"1")
    with pytest.raises(ValueError, match="has 4 bytes; at most 3"):
        alone.publish("x", b"1234")
    with pytest.raises(ValueError, match="1 to 4 characters, not 0"):
        alone.publish("", b"1")
