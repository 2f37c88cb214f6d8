"""The consumer: fig. 3 and sections 3.3, 3.4 and 5.3 of TR 90-1141."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.bulk.consumer import BEHIND_MAX, SAME_NAKS
from cluster.bulk.effects import DeliverMessage, MembersChanged, MissedMessages, SendState, SendTo
from cluster.bulk.packets import (
    T_MAX,
    Complete,
    DataPacket,
    EmptyPacket,
    JoinConfirm,
    JoinRequest,
    Nak,
    NakDeny,
    ProgressReport,
    RecentMessage,
    Status,
)
from tests.cluster.bulk.single import A, B, C, Single

if TYPE_CHECKING:
    from cluster.names import ProcessId


GONE_S = 15.0  # virtual: all members are asked within this time


def announce(single: Single) -> None:
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))


def delivered(single: Single) -> list[int]:
    return [effect.number for effect in single.take() if isinstance(effect, DeliverMessage)]


def test_delivers_accepted_messages_in_order_and_skips_rejected_ones() -> None:
    single = Single(C)
    for _ in range(3):
        single.add(RecentMessage(Status.PENDING, B))
    single.data(6, 0, is_end=True)
    single.data(4, 0, is_end=True)
    single.decide(6, Status.ACCEPTED)
    single.decide(4, Status.ACCEPTED)
    announce(single)
    assert delivered(single) == [4]
    single.decide(5, Status.REJECTED)
    announce(single)
    assert delivered(single) == [6]


def test_a_pending_message_is_not_delivered_but_reported_complete() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.data(4, 0, is_end=True)
    single.beats(5)
    effects = single.take()
    assert not any(isinstance(effect, DeliverMessage) for effect in effects)
    reports = [effect for effect in effects if isinstance(getattr(effect, "packet", None), Complete)]
    assert len(reports) == 2  # at once, and again while the message is pending
    assert {report.to for report in reports} == {A}  # type: ignore[attr-defined]


def test_a_member_tells_the_producer_when_the_message_is_delivered() -> None:
    """With all packets it may still miss the message: it joins again if it misses one before."""
    single = Single(C)
    number = single.add(RecentMessage(Status.PENDING, B))
    announce(single)
    single.data(number, 0, is_end=True)
    assert [(one.is_complete, one.is_delivered) for one in single.sent(ProgressReport)] == [(True, False)]
    single.decide(number, Status.ACCEPTED)
    announce(single)
    assert [(one.is_complete, one.is_delivered) for one in single.sent(ProgressReport)] == [(True, True)]
    single.receive(B, EmptyPacket(single.header(), number, 1, True))  # the producer asks again
    assert [one.is_delivered for one in single.sent(ProgressReport)] == [True]


def test_asks_for_gaps_after_dallying_and_again() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.data(4, 0)
    single.data(4, 3)
    single.beats(0.4)
    assert single.sent(Nak) == []  # reordered packets may still arrive
    single.data(4, 2)
    single.beats(0.2)
    assert [nak.ranges for nak in single.sent(Nak)] == [((1, 2),)]
    single.beats(10)
    assert single.sent(Nak) == []  # the answer may be under way
    single.beats(3)
    assert len(single.sent(Nak)) == 1


def test_an_empty_packet_shows_lost_packets_at_the_end() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.receive(B, EmptyPacket(single.header(), 4, 5, True))
    single.beats(1)
    assert [nak.ranges for nak in single.sent(Nak)] == [((0, 5),)]


def test_asks_other_members_when_the_producer_denies() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.ACCEPTED, B))
    announce(single)
    single.beats(1)
    assert [effect.to for effect in single.take() if isinstance(getattr(effect, "packet", None), Nak)] == [B]  # type: ignore[attr-defined]
    single.receive(B, NakDeny(single.header(), 4))
    single.beats(1)
    assert [effect.to for effect in single.take() if isinstance(getattr(effect, "packet", None), Nak)] == [A]  # type: ignore[attr-defined]
    single.receive(A, NakDeny(single.header(), 4))
    single.beats(1)
    assert any(isinstance(effect, MissedMessages) for effect in single.take())


def nak_targets(single: Single) -> list[ProcessId]:
    return [effect.to for effect in single.take() if isinstance(effect, SendTo) and isinstance(effect.packet, Nak)]


def test_a_producer_that_denies_an_undecided_message_is_not_asked_at_once_again() -> None:
    """It has given its token back, or restarted. In a minority there is nobody who could reject the message."""
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.data(4, 0)
    single.data(4, 2)
    naks = 0
    for _ in range(200):  # four heartbeats
        single.beats(0.02)
        for _ in single.sent(Nak):
            naks += 1
            single.receive(B, NakDeny(single.header(), 4))
    assert naks == 1
    single.decide(4, Status.ACCEPTED)
    announce(single)
    single.beats(20)
    assert set(nak_targets(single)) == {A}


def test_answered_naks_are_no_sign_that_packets_are_lost_for_good() -> None:
    """A long transfer with many repairs, whose acceptance comes before the last of them."""
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.data(4, 0)
    for packet in range(2, 400, 2):
        single.data(4, packet)
        single.beats(12)
        single.data(4, packet - 1)
    single.data(4, 400, is_end=True)
    single.decide(4, Status.ACCEPTED)
    single.take()
    announce(single)
    single.beats(8)
    assert single.process.consumer.is_member
    assert set(nak_targets(single)) == {B}


def test_all_members_are_asked_when_the_producer_does_not_answer() -> None:
    """The producer may be gone, and is asked again all the same. A member that denied has no answer."""
    single = Single(C)
    single.add(RecentMessage(Status.ACCEPTED, B))
    announce(single)
    asked: list[ProcessId] = []
    while len(asked) < SAME_NAKS + 4:
        single.beats(3)
        asked += nak_targets(single)
    assert asked[:SAME_NAKS] == [B] * SAME_NAKS
    assert set(asked[SAME_NAKS:]) == {A, B}
    assert single.now < GONE_S
    single.receive(A, NakDeny(single.header(), 4))
    single.beats(200)
    assert set(nak_targets(single)) == {B}


def test_who_repairs_is_asked_for_the_rest() -> None:
    """Otherwise every part of a repair waits until the producer, which is gone, has not answered."""
    single = Single(C)
    single.add(RecentMessage(Status.ACCEPTED, B))
    announce(single)
    single.receive(A, DataPacket(single.short_header(), 4, 0, False, b"0"))
    single.receive(A, EmptyPacket(single.header(), 4, 9, True))
    single.take()
    single.beats(3)
    assert nak_targets(single) == [A]


def test_joins_again_when_it_missed_a_status() -> None:
    """Fig. 3: status(nextOut) = pending and nextIn - nextOut > t."""
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    announce(single)
    for _ in range(T_MAX - 1):
        single.add(RecentMessage(Status.REJECTED, B))
    announce(single)
    assert not any(isinstance(effect, MissedMessages) for effect in single.take())
    single.add(RecentMessage(Status.REJECTED, B))
    announce(single)
    assert any(isinstance(effect, MissedMessages) for effect in single.take())
    single.beats(1)
    assert [request.attempt for request in single.sent(JoinRequest)] == [2]


def test_memory_for_messages_behind_an_incomplete_one_is_bounded() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.ACCEPTED, B))
    for _ in range(BEHIND_MAX + 1):
        announce(single)
        single.data(single.add(RecentMessage(Status.ACCEPTED, B)), 0, is_end=True)
    assert not single.process.consumer.is_member


def test_a_member_that_falls_behind_keeps_what_it_reported_complete() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.add(RecentMessage(Status.PENDING, B))
    single.data(4, 1)
    single.data(5, 0, is_end=True)
    single.process.consumer.join_again("a test")
    single.take()
    single.receive(A, Nak(single.header(), 5, ((0, 1),)))
    single.beats(1)
    assert [data.packet for data in single.sent(DataPacket)] == [0]
    single.receive(A, Nak(single.header(), 4, ((1, 2),)))
    assert [deny.number for deny in single.sent(NakDeny)] == [4]


def test_membership_changes_at_one_place_of_the_sequence() -> None:
    """Section 5.3, and fig. 6 for the state."""
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.add(RecentMessage(Status.LEFT, A))
    single.add(RecentMessage(Status.JOINED, A, C))
    announce(single)
    assert single.take() == []
    single.decide(4, Status.REJECTED)
    announce(single)
    assert single.take() == [
        MembersChanged(5, (B, C)),
        SendState(A, 6),
        MembersChanged(6, (B, C, A)),
    ]


def test_a_process_that_was_removed_joins_again() -> None:
    single = Single(C)
    single.add(RecentMessage(Status.LEFT, C))
    announce(single)
    assert any(isinstance(effect, MissedMessages) for effect in single.take())


def test_a_member_that_joined_again_does_not_claim_messages_before() -> None:
    """The producer asks who has its message, also those that joined after it began."""
    single = Single(C)
    single.add(RecentMessage(Status.PENDING, B))
    single.data(4, 0, is_end=True)
    single.decide(4, Status.ACCEPTED)
    announce(single)
    single.take()
    single.receive(B, EmptyPacket(single.header(), 4, 1, True))
    assert [report.is_complete for report in single.sent(ProgressReport)] == [True]
    single.process.consumer.join_again("a test")
    single.add(RecentMessage(Status.JOINED, C))
    single.receive(A, JoinConfirm(single.header(), 2, 5, (A, B, C), None))
    assert single.process.consumer.is_member
    single.take()
    single.receive(B, EmptyPacket(single.header(), 4, 1, True))
    assert single.sent(ProgressReport) == []
