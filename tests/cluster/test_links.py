"""Reliable links over connections that break, driven by hand. CO_RFIFO: thesis, fig. 4.4."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from cluster.layer import Context, Send
from cluster.links import ACK_EVERY, FED_FIRST, FED_MAX, Links
from cluster.messages import Data, Frame, Hello, LinkAck, Payload, Supply, SyncMsg
from cluster.names import ProcessId, ViewId
from cluster.settings import Settings

A, B = ProcessId("a"), ProcessId("b")


def payload(number: int) -> SyncMsg:
    return SyncMsg(number, ViewId(0, ""), ())


class End:
    """A process with links only."""

    def __init__(self, me: ProcessId, boot: int = 1, settings: Settings | None = None) -> None:
        self.context = Context(me, Random(0))
        self.links = Links(self.context, settings or Settings(), boot)
        self.got: list[int] = []
        self.shunned: dict[ProcessId, float] = {}
        self.restarts: list[ProcessId] = []
        self.links.above = {SyncMsg: lambda _, body: self.got.append(body.cid)}
        self.links.detector = self
        self.links.membership = self

    def shun(self, peer: ProcessId, until: float) -> None:
        self.shunned[peer] = until

    def restarted(self, peer: ProcessId) -> None:
        self.restarts.append(peer)

    def take(self) -> list[Frame]:
        effects, self.context.outbox = self.context.outbox, []
        assert all(isinstance(effect, Send) for effect in effects)
        return [effect.frame for effect in effects if isinstance(effect, Send)]

    def send(self, *numbers: int) -> None:
        peer = B if self.context.me == A else A
        for number in numbers:
            self.links.send((peer,), payload(number))


def feed(frames: list[Frame], to: End) -> None:
    peer = B if to.context.me == A else A
    for frame in frames:
        assert isinstance(frame, Hello | Data | LinkAck)
        to.links.received(peer, frame)


def exchange(a: End, b: End) -> None:
    while a.context.outbox or b.context.outbox:
        feed(a.take(), b)
        feed(b.take(), a)


def connect(a: End, b: End) -> None:
    a.links.connected(B)
    b.links.connected(A)


def disconnect(a: End, b: End) -> None:
    a.take()
    b.take()
    a.links.disconnected(B)
    b.links.disconnected(A)


@pytest.fixture
def ends() -> tuple[End, End]:
    a, b = End(A), End(B)
    connect(a, b)
    exchange(a, b)
    a.links.reliable((A, B))
    return a, b


def test_nothing_but_hello_before_the_peers_hello() -> None:
    a = End(A)
    a.links.reliable((A, B))
    a.send(1)
    a.links.connected(B)
    a.send(2)
    assert a.take() == [Hello(1, 0, 0, 0)]
    a.links.received(B, Hello(1, 0, 0, 0))
    assert a.take() == [Data(1, 1, payload(1)), Data(1, 2, payload(2))]


def test_nothing_is_taken_from_a_peer_before_its_hello() -> None:
    a = End(A)
    a.links.connected(B)
    a.links.received(B, Data(1, 1, payload(1)))
    assert a.got == []


@pytest.mark.parametrize("arrived", range(4))
def test_a_break_loses_nothing_and_repeats_nothing(ends: tuple[End, End], arrived: int) -> None:
    a, b = ends
    a.send(1, 2, 3)
    feed(a.take()[:arrived], b)
    disconnect(a, b)
    a.send(4)
    connect(a, b)
    exchange(a, b)
    assert b.got == [1, 2, 3, 4]
    assert a.links.resent == 4 - arrived  # the peer's Hello told how much it had received


def test_leaving_the_reliable_set_loses_a_suffix(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(1, 2, 3)
    feed(a.take()[:1], b)
    disconnect(a, b)
    a.links.reliable((A,))
    a.send(4)
    a.links.reliable((A, B))
    a.send(5)
    connect(a, b)
    exchange(a, b)
    assert b.got == [1, 5]


def test_what_is_on_its_way_when_a_stream_ends_still_arrives_in_order(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(1, 2)
    a.links.reliable((A,))
    a.links.reliable((A, B))
    a.send(3)
    exchange(a, b)
    assert b.got == [1, 2, 3]


def test_a_new_life_gets_nothing_of_the_old_one(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(1)
    exchange(a, b)
    disconnect(a, b)
    a.send(2)
    b = End(B, boot=2)
    connect(a, b)
    exchange(a, b)
    assert a.restarts == [B]
    a.send(3)
    exchange(a, b)
    assert b.got == [3]


def test_the_sender_may_be_a_new_life(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(1, 2, 3)
    exchange(a, b)
    disconnect(a, b)
    a = End(A, boot=2)
    a.links.reliable((A, B))
    a.send(4)
    connect(a, b)
    exchange(a, b)
    assert b.got == [1, 2, 3, 4]


def test_a_peer_that_lost_acknowledged_payloads_is_a_new_life(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(*range(ACK_EVERY))
    exchange(a, b)
    a.links.received(B, Hello(1, 1, 0, 0))
    assert a.restarts == [B]


def test_a_gap_requests_one_resend(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(1, 2, 3, 4)
    frames = a.take()
    feed([frames[0], frames[2], frames[3]], b)
    assert b.got == [1]
    asked = b.take()
    assert asked == [Hello(1, 1, 1, 1)]
    feed(asked, a)
    feed(a.take(), b)
    assert b.got == [1, 2, 3, 4]


def test_acknowledgements_are_sent_by_count_or_by_time(ends: tuple[End, End]) -> None:
    a, b = ends
    a.send(*range(ACK_EVERY + 1))
    feed(a.take(), b)
    assert b.take() == [LinkAck(1, ACK_EVERY)]
    b.context.now = b.links.next_deadline()
    b.links.tick()
    acks = b.take()
    assert acks == [LinkAck(1, ACK_EVERY + 1)]
    feed(acks, a)
    assert not a.links.link(B).unacked
    assert b.links.next_deadline() == inf


@pytest.mark.parametrize(
    "frame",
    [LinkAck(1, 99), LinkAck(9, 1), LinkAck(1, -5), LinkAck(0, 0), Data(0, 2, payload(7)), Data(-3, 1, payload(7)),
     Data(2**60, 2**60, payload(7)), Data(1, 0, payload(7)), Data(1, -1, payload(7)), Hello(1, 1, 2**60, -1)],
)  # fmt: skip
def test_invalid_frames_are_ignored(ends: tuple[End, End], frame: Hello | Data | LinkAck) -> None:
    a, b = ends
    a.send(1, 2)
    a.links.received(B, frame)
    assert a.got == []
    assert len(a.links.link(B).unacked) == 2
    exchange(a, b)
    assert b.got == [1, 2]


def test_a_stalled_peer_is_shunned_until_its_queue_is_dropped() -> None:
    a = End(A, settings=Settings(link_len_max=5))
    a.links.connected(B)
    a.links.reliable((A, B))
    a.send(1, 2, 3)
    a.links.tick()
    assert not a.shunned
    a.send(4, 5)
    a.links.tick()
    assert a.shunned == {B: inf}
    a.links.reliable((A,))
    a.links.tick()
    assert a.shunned[B] < inf
    assert not a.links.link(B).unacked


def piece(number: int) -> Supply:
    return Supply(ViewId(1, ""), number, 100, -1, b"", number, ())


@pytest.mark.parametrize("len_max", [1, 5, 50, 10_000])
def test_a_feed_never_fills_the_queue_and_goes_on_after_a_break(len_max: int) -> None:
    a, b = End(A, settings=Settings(link_len_max=len_max)), End(B)
    b.links.above[Supply] = lambda _, body: b.got.append(body.piece)
    for end, peer in ((a, B), (b, A)):
        end.links.connected(peer)
        end.links.reliable((A, B))
    exchange(a, b)
    a.links.feed(B, [piece(i) for i in range(100)])
    most = seen = 0
    for _ in range(300):
        most = max(most, len(a.links.link(B).unacked))
        frames = a.take()
        if len(b.got) > seen + 40:  # in the middle of the feed
            seen = len(b.got)
            disconnect(a, b)
            connect(a, b)
            continue
        feed(frames, b)
        feed(b.take(), a)
        a.links.tick()
    assert b.got == list(range(100))
    assert most <= max(FED_FIRST, min(FED_MAX, len_max // 4))
    assert a.shunned == ({} if len_max > FED_FIRST else {B: inf})


def test_pieces_that_the_peer_does_not_need_are_skipped(ends: tuple[End, End]) -> None:
    a, b = ends
    b.links.above[Supply] = lambda _, body: b.got.append(body.piece)
    a.links.feed(B, [piece(i) for i in range(100)])
    a.links.skip(B, lambda body: isinstance(body, Supply) and body.piece >= 90)
    exchange(a, b)
    assert b.got == [0, 1, *range(90, 100)]


def test_a_feed_that_is_replaced_or_stopped_is_forgotten(ends: tuple[End, End]) -> None:
    a, b = ends
    b.links.above[Supply] = lambda _, body: b.got.append(body.piece)
    a.links.feed(B, [piece(i) for i in range(100)])
    a.links.feed(B, [piece(i) for i in range(1000, 1100)])
    exchange(a, b)
    assert b.got == [0, 1, *range(1000, 1100)]
    a.links.feed(B, [piece(i) for i in range(100)])
    a.links.stop_feeding()
    exchange(a, b)
    assert b.got[102:] == [0, 1]
    a.links.feed(B, [piece(i) for i in range(100)])
    a.links.reliable((A,))
    assert not a.links.link(B).later


def test_bodies_are_of_the_closed_union() -> None:
    assert isinstance(payload(1), Payload)
