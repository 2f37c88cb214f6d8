"""One end-point, driven by hand between links and a client that only record. Thesis, figs. 6.2, 6.5, 6.6."""

from __future__ import annotations

from random import Random

import pytest

from cluster.endpoint import Endpoint
from cluster.layer import Context
from cluster.messages import AppMsg, FwdMsg, Ordered, Payload, Plain, Registered, SyncMsg, ViewMsg
from cluster.names import ProcessId, View, ViewId, initial_view, make_view

A, B, C, D = (ProcessId(name) for name in "abcd")


def message(number: int) -> Plain:
    return Plain(number, Registered())


def view_of(epoch: int, *members: ProcessId) -> View:
    return make_view(epoch, dict.fromkeys(members, epoch))


V = view_of(1, A, B, C)


class Seat:
    """The end-point of B."""

    def __init__(self) -> None:
        self.endpoint = Endpoint(Context(B, Random(0)))
        self.endpoint.links = self.endpoint.above = self
        self.sent: list[tuple[str, Payload]] = []
        self.reliable_now: tuple[ProcessId, ...] = (B,)
        self.delivered: list[tuple[ProcessId, int]] = []
        self.views: list[tuple[View, str]] = []
        self.prompt = True
        self.blocks = 0
        self.answers: list[int] = []

    # links
    def send(self, to: tuple[ProcessId, ...], body: Payload) -> None:
        assert set(to) <= set(self.reliable_now) - {B}
        self.sent.append(("".join(peer.name for peer in to), body))

    def reliable(self, members: tuple[ProcessId, ...]) -> None:
        self.reliable_now = members

    # client
    def deliver(self, sender: ProcessId, body: Ordered) -> None:
        assert isinstance(body, Plain)
        self.delivered.append((sender, body.ack))
        if self.answers:
            self.endpoint.send(message(self.answers.pop(0)))

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        self.views.append((view, "".join(member.name for member in transitional)))

    def block(self) -> None:
        self.blocks += 1
        if self.prompt:
            self.endpoint.block_ok()

    # the others
    def hear(self, sender: ProcessId, *bodies: Payload | int) -> None:
        for body in bodies:
            self.endpoint.link_deliver(sender, AppMsg(message(body)) if isinstance(body, int) else body)

    def enter(self, view: View, *syncs: ProcessId) -> None:
        self.endpoint.start_change(view.id.epoch, view.members)
        for member in syncs:
            self.hear(member, SyncMsg(view.id.epoch, initial_view(member).id, (0,)))
        self.endpoint.membership_view(view)

    def take(self) -> list[tuple[str, Payload]]:
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def seat() -> Seat:
    """B in the view of A, B and C, whose members announced it."""
    seat = Seat()
    seat.enter(V, A, C)
    assert seat.views == [(V, "b")]
    assert seat.sent[-1] == ("ac", ViewMsg(V))
    for member in (A, C):
        seat.hear(member, ViewMsg(V))
    seat.take()
    return seat


# ---- within the view


def test_own_messages_go_out_and_come_back_at_once(seat: Seat) -> None:
    seat.endpoint.send(message(1))
    assert seat.take() == [("ac", AppMsg(message(1)))]
    assert seat.delivered == [(B, 1)]


def test_a_client_that_sends_while_it_is_delivered_to_is_delivered_to_after(seat: Seat) -> None:
    seat.answers = [10, 20, 30]
    seat.hear(A, 1)
    assert seat.delivered == [(A, 1), (B, 10), (B, 20), (B, 30)]


def test_messages_of_a_later_view_wait_for_it(seat: Seat) -> None:
    later = view_of(2, A, B)
    seat.hear(A, SyncMsg(2, V.id, (0, 0, 0)), ViewMsg(later), 1, 2)
    assert seat.delivered == []
    seat.endpoint.start_change(2, later.members)
    seat.endpoint.membership_view(later)
    assert seat.views[-1] == (later, "ab")
    assert seat.delivered == [(A, 1), (A, 2)]
    seat.hear(A, 3)
    assert seat.delivered[-1] == (A, 3)


def test_messages_of_views_without_this_process_are_ignored(seat: Seat) -> None:
    seat.hear(A, 1, ViewMsg(view_of(7, A, C)), 2)
    seat.hear(D, 3)
    seat.hear(D, ViewMsg(view_of(7, D)), 4)
    seat.hear(C, ViewMsg(initial_view(C)), 5)
    assert seat.delivered == [(A, 1), (C, 5)]


def test_stable_messages_are_dropped_if_delivered(seat: Seat) -> None:
    seat.hear(A, 1, 2, 3)
    seat.endpoint.stable((2, 0, 0))
    assert seat.endpoint.of[A].msgs.items == [message(3)]
    seat.endpoint.stable((9, 0, 0))
    seat.hear(A, 4)
    assert seat.delivered == [(A, 1), (A, 2), (A, 3), (A, 4)]


# ---- the change


def test_the_cut_is_sent_to_the_proposed_members(seat: Seat) -> None:
    seat.hear(A, 1, 2)
    seat.endpoint.send(message(3))
    seat.take()
    seat.endpoint.start_change(2, (A, B, D))
    assert seat.take() == [("ad", SyncMsg(2, V.id, (2, 1, 0)))]
    assert seat.reliable_now == (A, B, C, D)


def test_the_own_cut_limits_delivery_until_the_view_is_known(seat: Seat) -> None:
    after = view_of(2, A, B)
    seat.hear(A, 1)
    seat.endpoint.start_change(2, after.members)
    seat.hear(A, 2)
    assert seat.delivered == [(A, 1)]
    seat.hear(A, SyncMsg(2, V.id, (2, 0, 0)))
    assert seat.delivered == [(A, 1)]
    seat.endpoint.membership_view(after)
    assert seat.delivered == [(A, 1), (A, 2)]
    assert seat.views[-1] == (after, "ab")


def test_a_view_waits_for_messages_in_the_cuts_of_others(seat: Seat) -> None:
    after = view_of(2, A, B)
    seat.endpoint.start_change(2, after.members)
    seat.endpoint.membership_view(after)
    seat.hear(A, SyncMsg(2, V.id, (1, 0, 2)))
    assert seat.views[-1][0] == V
    seat.hear(A, 1)
    seat.hear(A, FwdMsg(C, V.id, message(3), 2))
    assert seat.delivered == [(A, 1)]
    seat.hear(A, FwdMsg(C, V.id, message(2), 1))
    assert seat.delivered == [(A, 1), (C, 2), (C, 3)]
    assert seat.views[-1] == (after, "ab")


def test_a_forwarded_message_is_delivered_once(seat: Seat) -> None:
    seat.hear(A, FwdMsg(C, V.id, message(1), 1))
    seat.hear(C, 1, 2)
    assert seat.delivered == [(C, 1), (C, 2)]


def test_messages_beyond_the_cut_are_not_delivered(seat: Seat) -> None:
    after = view_of(2, A, B)
    seat.endpoint.start_change(2, after.members)
    seat.hear(C, 1)
    seat.hear(A, SyncMsg(2, V.id, (0, 0, 0)))
    seat.endpoint.membership_view(after)
    assert seat.delivered == []
    assert seat.views[-1] == (after, "ab")


def test_a_member_from_another_view_is_not_in_the_transitional_set(seat: Seat) -> None:
    after = view_of(3, A, B, C)
    seat.endpoint.start_change(3, after.members)
    seat.endpoint.membership_view(after)
    seat.hear(A, SyncMsg(3, view_of(2, A).id, (9,)))
    assert seat.views[-1][0] == V
    seat.hear(C, SyncMsg(3, V.id, (0, 0, 0)))
    assert seat.views[-1] == (after, "bc")


def test_a_member_that_has_moved_on_is_still_followed(seat: Seat) -> None:
    """The member's next synchronisation message arrives before messages that this process must deliver first."""
    later = view_of(2, A, B)
    seat.hear(A, 1)
    seat.endpoint.start_change(2, later.members)
    seat.hear(A, SyncMsg(2, V.id, (1, 0, 2)))
    seat.endpoint.membership_view(later)
    seat.hear(A, FwdMsg(C, V.id, message(31), 1))
    seat.hear(A, SyncMsg(3, later.id, (0, 0)), SyncMsg(4, view_of(3, A).id, (0,)))
    assert seat.views[-1][0] == V
    seat.hear(A, FwdMsg(C, V.id, message(32), 2))
    assert seat.delivered == [(A, 1), (C, 31), (C, 32)]
    assert seat.views[-1] == (later, "ab")
    assert seat.endpoint.sync_msg[A].cid == 4


def test_an_obsolete_view_is_not_delivered(seat: Seat) -> None:
    seat.endpoint.start_change(2, (A, B))
    seat.endpoint.membership_view(view_of(2, A, B))
    seat.endpoint.start_change(3, (A, B, C))
    seat.hear(A, SyncMsg(2, V.id, (0, 0, 0)))
    assert seat.views[-1][0] == V
    after = view_of(3, A, B, C)
    seat.endpoint.membership_view(after)
    seat.hear(A, SyncMsg(3, V.id, (0, 0, 0)))
    seat.hear(C, SyncMsg(3, V.id, (0, 0, 0)))
    assert seat.views[-1] == (after, "abc")


def test_each_attempt_makes_a_cut_of_its_own(seat: Seat) -> None:
    seat.endpoint.start_change(2, (A, B))
    seat.hear(A, 1)
    seat.endpoint.start_change(3, (A, B))
    syncs = [body for _, body in seat.take() if isinstance(body, SyncMsg)]
    assert [(sync.cid, sync.cut) for sync in syncs] == [(2, (0, 0, 0)), (3, (1, 0, 0))]
    assert seat.delivered == [(A, 1)]


def test_more_members_in_a_change_get_the_same_cut(seat: Seat) -> None:
    seat.endpoint.start_change(2, (A, B))
    seat.take()
    seat.hear(A, 1)
    seat.endpoint.start_change(2, (A, B, D))
    assert seat.take() == [("d", SyncMsg(2, V.id, (0, 0, 0)))]


# ---- forwarding: the second strategy


def forwarded(seat: Seat) -> list[tuple[str, int]]:
    return [(to, body.index) for to, body in seat.take() if isinstance(body, FwdMsg)]


def test_the_lowest_member_forwards_messages_of_departed_senders() -> None:
    seat = Seat()
    four = view_of(1, A, B, C, D)
    seat.enter(four, A, C, D)
    seat.hear(D, ViewMsg(four), 1, 2, 3)
    after = view_of(2, A, B, C)
    seat.endpoint.start_change(2, after.members)
    seat.endpoint.membership_view(after)
    seat.hear(A, SyncMsg(2, four.id, (0, 0, 0, 1)))
    assert forwarded(seat) == []
    seat.hear(C, SyncMsg(2, four.id, (0, 0, 0, 0)))
    assert forwarded(seat) == [("ac", 2), ("ac", 3)]
    assert seat.delivered == [(D, 1), (D, 2), (D, 3)]
    assert seat.views[-1] == (after, "abc")


def test_nothing_is_forwarded_that_its_sender_sends_itself(seat: Seat) -> None:
    seat.hear(A, 1)
    after = view_of(2, A, B, C)
    seat.endpoint.start_change(2, after.members)
    seat.endpoint.membership_view(after)
    seat.hear(A, SyncMsg(2, V.id, (1, 0, 0)))
    seat.hear(C, SyncMsg(2, V.id, (0, 0, 0)))
    assert forwarded(seat) == []


def test_nothing_is_forwarded_twice_when_the_change_is_tried_again(seat: Seat) -> None:
    seat.hear(C, 1, 2)
    after = view_of(2, A, B)
    seat.endpoint.start_change(2, after.members)
    seat.hear(A, SyncMsg(2, V.id, (1, 0, 0)))
    seat.endpoint.membership_view(after)
    assert forwarded(seat) == [("a", 1), ("a", 2)]
    assert seat.views[-1][0] == V
    seat.endpoint.start_change(3, after.members)
    seat.hear(A, SyncMsg(3, V.id, (1, 0, 1)))
    seat.endpoint.membership_view(view_of(3, A, B))
    assert forwarded(seat) == []


@pytest.mark.parametrize("cut", [(), (1,), (0, 0, 0, 0), (-1, -1, -1), (10**18, 0, 10**18)])
def test_an_invalid_cut_is_ignored(seat: Seat, cut: tuple[int, ...]) -> None:
    seat.hear(C, 1)
    after = view_of(2, A, B)
    seat.endpoint.start_change(2, after.members)
    seat.endpoint.membership_view(after)
    seat.hear(A, SyncMsg(2, V.id, cut))
    seat.endpoint.start_change(3, (B,))
    seat.endpoint.membership_view(view_of(3, B))
    assert seat.views[-1] == (view_of(3, B), "b")


def test_invalid_forwarded_messages_are_ignored(seat: Seat) -> None:
    for index in (-1, 0, 10**18):
        seat.hear(A, FwdMsg(C, V.id, message(9), index))
    seat.hear(A, FwdMsg(D, V.id, message(9), 1), FwdMsg(C, ViewId(9, "x"), message(9), 1))
    assert seat.delivered == []
    assert not seat.endpoint.of[C].msgs.ahead


# ---- self delivery


def test_no_cut_before_the_client_stopped_sending(seat: Seat) -> None:
    seat.prompt = False
    seat.blocks = 0
    seat.endpoint.start_change(2, (A, B))
    assert (seat.blocks, seat.take()) == (1, [])
    seat.endpoint.send(message(1))
    seat.endpoint.block_ok()
    assert seat.take() == [("ac", AppMsg(message(1))), ("a", SyncMsg(2, V.id, (0, 1, 0)))]
    seat.endpoint.start_change(3, (A, B))
    assert seat.blocks == 1


def test_a_view_ends_the_blocking(seat: Seat) -> None:
    after = view_of(2, B)
    seat.endpoint.start_change(2, (B,))
    seat.endpoint.membership_view(after)
    seat.endpoint.send(message(1))
    assert seat.delivered == [(B, 1)]
    seat.endpoint.start_change(3, (B,))
    assert seat.blocks == 3  # one for the first view


def test_a_client_that_violates_the_protocol_gets_an_error(seat: Seat) -> None:
    seat.endpoint.start_change(2, (A, B))
    with pytest.raises(RuntimeError, match="block_ok"):
        seat.endpoint.send(message(1))
    with pytest.raises(RuntimeError, match="block_ok"):
        seat.endpoint.block_ok()
