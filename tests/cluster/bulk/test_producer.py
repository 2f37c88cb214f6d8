"""The producer: fig. 2 and section 3.3 of TR 90-1141."""

from __future__ import annotations

from cluster.bulk.effects import MessageResolved, Outcome
from cluster.bulk.master import AddMember, Grant, RemoveMember
from cluster.bulk.packets import (
    T_MAX,
    DataPacket,
    EmptyPacket,
    Nak,
    NakDeny,
    ProgressReport,
    RecentMessage,
    Status,
    TokenGrant,
    TokenRequest,
)
from tests.cluster.bulk.single import A, B, C, Single


def producing(packets: int, rate_min: float = 0.0) -> Single:
    """A producer with a token for message 4."""
    single = Single(B)
    request = single.send(packets, rate_min)
    single.add(RecentMessage(Status.PENDING, B))
    single.take()
    single.receive(A, TokenGrant(single.header(), request, 4))
    return single


def test_no_data_without_a_token() -> None:
    single = Single(B)
    request = single.send(3)
    single.beats(6)
    effects = single.take()
    packets = [effect.packet for effect in effects if hasattr(effect, "packet")]
    assert {type(packet) for packet in packets} == {TokenRequest}
    assert {packet.request for packet in packets} == {request}
    assert len(packets) == 2  # repeated, since no token came


def test_at_most_a_window_per_heartbeat_and_an_end_mark() -> None:
    single = producing(20)
    single.beats(1)
    first = single.sent(DataPacket)
    assert 0 < len(first) <= 2 * 8
    single.beats(4)
    packets = first + single.sent(DataPacket)
    assert [(data.packet, data.is_end) for data in packets] == [(at, at == 19) for at in range(20)]


def test_empty_packets_when_there_is_nothing_to_send() -> None:
    single = producing(2)
    single.beats(1)
    single.take()
    single.beats(3)
    empty = single.sent(EmptyPacket)
    assert len(empty) >= 2
    assert {(one.number, one.packets, one.is_end) for one in empty} == {(4, 2, True)}


def test_packets_that_were_asked_for_come_first_and_once() -> None:
    single = producing(100)
    single.beats(1)
    single.take()
    for consumer in (A, C):
        single.receive(consumer, Nak(single.header(), 4, ((1, 3),)))
    single.beats(1)
    assert [data.packet for data in single.sent(DataPacket)][:2] == [1, 2]
    single.beats(5)
    assert not {1, 2} & {data.packet for data in single.sent(DataPacket)}


def test_packets_are_kept_for_retention_and_then_denied() -> None:
    single = producing(2)
    single.beats(1)
    single.decide(4, Status.ACCEPTED)
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    assert MessageResolved(1, 4, Outcome.ACCEPTED) in single.take()
    single.beats(single.process.context.flow.retention - 1)
    single.receive(C, Nak(single.header(), 4, ((0, 1),)))
    single.beats(1)
    assert [data.packet for data in single.sent(DataPacket)] == [0]
    single.process.producer.retained.clear()
    single.process.consumer.kept.clear()
    single.process.consumer.incoming.clear()
    single.receive(C, Nak(single.header(), 4, ((0, 1),)))
    assert [deny.number for deny in single.sent(NakDeny)] == [4]


def test_a_nak_extends_the_retention() -> None:
    single = producing(2)
    single.beats(1)
    single.decide(4, Status.ACCEPTED)
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    for _ in range(3):
        single.beats(single.process.context.flow.retention - 1)
        single.receive(C, Nak(single.header(), 4, ((0, 1),)))
    assert 4 in single.process.producer.retained
    for consumer in (A, C):
        single.receive(consumer, ProgressReport(single.header(), 4, 2, True, 99, is_delivered=True))
    single.beats(single.process.context.flow.retention + 2)
    assert 4 not in single.process.producer.retained


def test_a_slow_consumer_slows_all() -> None:
    """No other token until all members have the message; the producer asks who has it."""
    single = producing(2)
    single.beats(1)
    single.decide(4, Status.ACCEPTED)
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    single.send(1)
    single.receive(A, ProgressReport(single.header(), 4, 2, True, 99, is_delivered=True))
    single.receive(C, ProgressReport(single.header(), 4, 1, False, 99))
    single.take()
    single.beats(200)
    packets = [effect.packet for effect in single.take() if hasattr(effect, "packet")]
    assert not [packet for packet in packets if isinstance(packet, TokenRequest)]
    assert [packet for packet in packets if isinstance(packet, EmptyPacket)]
    assert single.process.producer.retained[4].progress == {A: 2, C: 1}
    single.receive(C, ProgressReport(single.header(), 4, 2, True, 99, is_delivered=True))
    single.beats(2)
    assert single.sent(TokenRequest)


def test_a_slow_consumer_falls_behind_if_the_sender_chose_so() -> None:
    single = producing(2, rate_min=100)
    single.beats(1)
    single.decide(4, Status.ACCEPTED)
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    single.send(1)
    single.beats(2)
    assert single.sent(TokenRequest)
    assert single.process.context.flow.window_min == 2


def test_what_receivers_have_counts_those_that_have_not_told_and_not_those_that_joined_again() -> None:
    single = producing(2)
    single.apply(Grant(B, 1))
    message = single.process.producer.retained[4]
    assert single.process.producer.received(message) == {"a": 0, "c": 0}
    single.receive(C, ProgressReport(single.header(), 4, 1, False, 99))
    single.receive(A, ProgressReport(single.header(), 4, 2, True, 99))
    assert single.process.producer.received(message) == {"a": 1, "c": 1}  # a may still join again without it
    single.apply(AddMember(A, 2, with_state=False))
    assert single.process.producer.received(message) == {"a": 0, "c": 1}
    single.apply(RemoveMember(C, 3))
    single.receive(C, ProgressReport(single.header(), 4, 2, True, 99, is_delivered=True))
    assert single.process.producer.received(message) == {"a": 0, "c": None}  # it has the file, and has left
    message.rate_min = 1.0
    single.receive(B, ProgressReport(single.header(), 4, 2, True, 99))
    assert single.process.producer.received(message)["b"] is None


def test_what_a_producer_learns_comes_before_its_data() -> None:
    """Data packets do not have the ids of producers."""
    single = producing(20)
    single.beats(0.5)
    packets = [effect.packet for effect in single.take() if hasattr(effect, "packet")]
    assert isinstance(packets[0], EmptyPacket)
    assert packets[0].header.recent[0] == RecentMessage(Status.PENDING, B)


def test_a_status_that_was_missed_is_unknown() -> None:
    """A status that no header has any more (section 3.4)."""
    single = producing(2)
    for _ in range(T_MAX + 1):
        single.add(RecentMessage(Status.ACCEPTED, A))
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    assert MessageResolved(1, 4, Outcome.UNKNOWN) in single.take()
    assert single.process.producer.current is None
