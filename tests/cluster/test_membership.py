"""Membership of one process, driven by hand with messages of its peers. MBRSHP: thesis, fig. 4.2."""

from __future__ import annotations

import itertools
from math import inf
from random import Random

import pytest

from cluster.durable import Epoch
from cluster.layer import Context, Effect, KnownPeers, Persist, Send
from cluster.membership import ATTEMPTS_MAX, Membership
from cluster.messages import Proposal, Row
from cluster.names import ProcessId, View, initial_view, make_view
from cluster.settings import DEFAULT

A, B, C, D = (ProcessId(name) for name in "abcd")
ALL = (A, B, C)


class Seat:
    """The membership of B between a detector, links and an end-point that only record."""

    def __init__(self, epoch: int = 0, boot: int = 1) -> None:
        self.context = Context(B, Random(0))
        self.connected_peers: tuple[ProcessId, ...] = (A, C)
        self.hears: tuple[ProcessId, ...] = (B,)
        self.shunned: dict[ProcessId, float] = {}
        self.told: list[tuple[int, tuple[ProcessId, ...]] | View] = []
        self.current_view = initial_view(B)
        self.prompt = True  # views are delivered as soon as they are formed
        self.membership = Membership(self.context, DEFAULT, epoch, boot)
        self.membership.links = self.membership.detector = self
        self.membership.above = self
        self.membership.start()

    def live(self, members: tuple[ProcessId, ...]) -> None:
        assert B in members

    def shun(self, peer: ProcessId, until: float) -> None:
        self.shunned[peer] = until
        self.hear(*(member for member in self.hears if member != peer))

    def pardon(self, peer: ProcessId) -> None:
        self.shunned.pop(peer, None)

    def start_change(self, cid: int, members: tuple[ProcessId, ...]) -> None:
        self.told.append((cid, members))

    def membership_view(self, view: View) -> None:
        self.told.append(view)
        if self.prompt:
            self.current_view = view

    def hear(self, *members: ProcessId) -> None:
        self.hears = tuple(sorted(members))
        self.membership.hears_changed()

    def say(
        self,
        who: ProcessId,
        epoch: int,
        members: tuple[ProcessId, ...],
        hears: tuple[ProcessId, ...] = ALL,
        version: tuple[int, int] = (1, 1),
    ) -> None:
        self.membership.received(who, Proposal(epoch, members, (Row(who, version, hears),), False))

    def wait(self, seconds: float) -> None:
        end = self.context.now + seconds
        while self.membership.next_deadline() <= end:
            self.context.now = max(self.context.now, self.membership.next_deadline())
            self.membership.tick()
        self.context.now = end

    def take(self) -> list[Effect]:
        effects, self.context.outbox = self.context.outbox, []
        return effects

    def proposals(self) -> list[tuple[int, tuple[ProcessId, ...]]]:
        frames = [effect.frame for effect in self.take() if isinstance(effect, Send)]
        return [(frame.epoch, frame.members) for frame in frames if isinstance(frame, Proposal)]


@pytest.fixture
def seat() -> Seat:
    """B in a view of all three, formed in epoch 5."""
    seat = Seat()
    seat.hear(*ALL)
    for epoch, members in ((0, ()), (5, ALL)):
        seat.say(A, epoch, members)
        seat.say(C, epoch, members)
    assert seat.told[-1] == make_view(5, dict.fromkeys(ALL, 5))
    seat.wait(2 * DEFAULT.retry)
    seat.take()
    seat.told.clear()
    return seat


def test_a_heartbeat_before_anything_was_proposed_proposes_nothing() -> None:
    seat = Seat(epoch=7, boot=2)
    seat.wait(DEFAULT.heartbeat)
    assert set(seat.proposals()) == {(7, ())}


def test_even_alone_a_process_gets_a_view_of_this_life() -> None:
    seat = Seat(epoch=7, boot=2)
    seat.wait(1.0)
    assert seat.told == [(8, (B,)), make_view(8, {B: 8})]


def test_the_epoch_is_on_disk_before_it_is_proposed_and_proposed_before_it_is_told(seat: Seat) -> None:
    seat.hear(B, C)
    effects = seat.take()
    assert effects[0] == Persist(Epoch(6))
    assert isinstance(effects[1], Send)
    assert seat.told == [(6, (B, C))]


def test_one_message_delay_where_all_see_the_same_change(seat: Seat) -> None:
    seat.hear(B, C)
    seat.say(C, 6, (B, C), (B, C), (1, 2))
    assert seat.told == [(6, (B, C)), make_view(6, {B: 6, C: 6})]


def test_one_detection_is_enough_for_all(seat: Seat) -> None:
    seat.say(C, 6, (B, C), (B, C), (1, 2))
    assert seat.told == [(6, (B, C)), make_view(6, {B: 6, C: 6})]


def test_a_later_epoch_of_a_member_is_adopted(seat: Seat) -> None:
    seat.say(A, 9, ALL)
    seat.say(C, 9, ALL)
    assert seat.told == [(9, ALL), make_view(9, dict.fromkeys(ALL, 9))]
    seat.hear(B, C)
    assert seat.told[-1] == (10, (B, C))


def test_a_later_epoch_of_a_non_member_is_not_adopted(seat: Seat) -> None:
    seat.say(D, 9, (D,), (D,))
    assert seat.told == []
    seat.hear(B, C)
    assert seat.told == [(9, (B, C))]


def test_nothing_is_proposed_twice_in_an_epoch(seat: Seat) -> None:
    seat.hear(B, C)
    seat.hear(B)
    seat.hear(B, C)
    epochs = [change[0] for change in seat.told if isinstance(change, tuple)]
    assert epochs == sorted(set(epochs))


def test_a_fully_connected_view_waits_before_it_grows(seat: Seat) -> None:
    four = (*ALL, D)
    seat.hear(*four)
    for process in (A, C, D):
        seat.say(process, 5, ALL, four, (1, 2))
    assert seat.told == []
    seat.wait(DEFAULT.settle)
    assert seat.told == [(6, four)]


def test_newcomers_become_known(seat: Seat) -> None:
    seat.say(A, 5, ALL, (*ALL, D), (1, 2))
    assert KnownPeers((D,)) in seat.take()
    seat.say(A, 5, ALL, (*ALL, D), (1, 3))
    assert not any(isinstance(effect, KnownPeers) for effect in seat.take())


def test_a_member_that_restarted_needs_a_new_view(seat: Seat) -> None:
    seat.membership.restarted(C)
    assert seat.told == [(6, ALL)]
    seat.say(A, 6, ALL)
    assert seat.told == [(6, ALL)]
    seat.say(C, 6, ALL, version=(2, 1))
    assert seat.told[-1] == make_view(6, dict.fromkeys(ALL, 6))


def test_a_leaving_process_is_no_longer_heard(seat: Seat) -> None:
    seat.membership.received(C, Proposal(5, (), (), True))
    assert seat.shunned == {C: inf}
    assert seat.told == [(6, (A, B))]


def test_leaving_is_announced_once_as_the_last_message(seat: Seat) -> None:
    seat.membership.leave()
    seat.membership.leave()
    frames = [effect.frame for effect in seat.take() if isinstance(effect, Send)]
    assert [frame.leaving for frame in frames if isinstance(frame, Proposal)] == [True]
    seat.hear(B)
    seat.say(A, 9, ALL)
    seat.wait(5.0)
    assert seat.take() == []
    assert seat.told == []


def test_failed_proposals_back_off_and_then_exclude_silent_processes(seat: Seat) -> None:
    seat.say(C, 6, ALL)
    at = [seat.context.now]
    while C not in seat.shunned and A not in seat.shunned:
        before = len(seat.told)
        seat.wait(0.05)
        if len(seat.told) > before:
            at.append(seat.context.now)
            epoch = seat.membership.epoch
            if A not in seat.shunned:
                seat.say(C, epoch, ALL)
    pauses = [after - before for before, after in itertools.pairwise(at)]
    assert len(pauses) == ATTEMPTS_MAX
    assert pauses == sorted(pauses)
    assert list(seat.shunned) == [A]
    assert seat.told[-1] == (seat.membership.epoch, (B, C))


def test_a_view_that_is_formed_and_not_delivered_is_tried_again(seat: Seat) -> None:
    seat.prompt = False
    seat.say(A, 6, ALL)
    seat.say(C, 6, ALL)
    assert seat.told == [(6, ALL), make_view(6, dict.fromkeys(ALL, 6))]
    seat.wait(2 * DEFAULT.retry)
    assert seat.told[-1] == (7, ALL)
    assert not seat.shunned


def test_rows_of_unheard_processes_are_dropped(seat: Seat) -> None:
    seat.say(D, 5, (D,), (D,))
    assert D in seat.membership.rows
    seat.wait(1.0)
    frame = seat.take()[-1]
    assert isinstance(frame, Send)
    assert isinstance(frame.frame, Proposal)
    assert [row.process for row in frame.frame.rows] == list(ALL)
    seat.wait(11 * DEFAULT.suspect_max)
    assert D not in seat.membership.rows


def test_an_own_row_of_an_earlier_life_is_superseded(seat: Seat) -> None:
    stale = Row(B, (7, 700), (B,))
    seat.membership.received(A, Proposal(5, ALL, (stale,), False))
    assert seat.membership.rows[B].version > stale.version
    assert seat.membership.rows[B].hears == ALL
    assert seat.told == []


@pytest.mark.parametrize(
    "hostile",
    [
        Proposal(2**63, ALL, (), False),
        Proposal(-1, ALL, (), False),
        Proposal(6, tuple(ProcessId(str(n)) for n in range(10_000)), (), False),
        Proposal(6, ALL, tuple(Row(ProcessId(str(n)), (1, 1), ()) for n in range(10_000)), False),
        Proposal(6, ALL, (Row(A, (1, 9), tuple(ProcessId(str(n)) for n in range(10_000))),), False),
        Proposal(6, ALL, (Row(A, (2**70, 1), ALL),), False),
    ],
)
def test_an_implausible_proposal_is_ignored(seat: Seat, hostile: Proposal) -> None:
    seat.membership.received(A, hostile)
    assert seat.told == []
    assert seat.membership.epoch_seen == 5
    seat.hear(B, C)
    assert seat.told == [(6, (B, C))]


def test_many_unknown_processes_cost_bounded_memory(seat: Seat) -> None:
    for n in range(3_000):
        row = Row(ProcessId(f"x{n}"), (1, 1), (ProcessId(f"y{n}"),))
        seat.membership.received(A, Proposal(5, ALL, (row,), False))
    assert len(seat.membership.rows) <= 256
    known = [peer for effect in seat.take() if isinstance(effect, KnownPeers) for peer in effect.peers]
    assert len(known) < 256
