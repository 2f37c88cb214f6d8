"""Sealed datagrams: strangers, changes and replays are refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.bulk.packets import Complete, DataPacket, Header, Parameters, ShortHeader, Status
from cluster.names import ProcessId
from cluster.runtime.bulk.datagrams import (
    DATA_OVERHEAD,
    REPLAY_WINDOW,
    SENDERS_MAX,
    DatagramCodec,
    ReplayWindow,
)
from cluster.runtime.bulk.spool import PACKET_LEN

A, B = ProcessId("a", 1), ProcessId("b", 2)
PACKET = Complete(Header(1, 1, (), Parameters(20, 64, 12)), 5, 1)
SHORT = ShortHeader(
    1,
    5,
    (Status.PENDING, Status.ACCEPTED, None, Status.JOINED, Status.ACCEPTED, None, None, None),
    Parameters(20, 64, 12),
)
DATA = DataPacket(SHORT, 3, 7, True, b"xyz")


def codec(me: ProcessId, key: bytes = b"k" * 32, cluster: str = "c", start: int = 9) -> DatagramCodec:
    return DatagramCodec(key, cluster, 1, me, start)


def test_a_datagram_is_opened_once() -> None:
    datagram, receiver = codec(A).seal(PACKET), codec(B)
    assert receiver.open(datagram) == (A, PACKET)
    assert receiver.open(datagram) is None
    assert (receiver.refused, receiver.replayed) == (0, 1)


def test_a_data_datagram_fits_into_the_mtu_of_ethernet() -> None:
    assert 40 + 8 + DATA_OVERHEAD + PACKET_LEN <= 1500


def test_data_of_a_sender_that_is_not_known_is_dropped() -> None:
    sender, receiver = codec(A), codec(B)
    assert receiver.open(sender.seal(DATA)) is None
    assert receiver.open(sender.seal(PACKET)) is not None
    datagram = sender.seal(DATA)
    assert receiver.open(datagram) == (A, DATA)
    assert receiver.open(datagram) is None
    assert receiver.open(codec(A, start=10).seal(DATA)) is None
    assert (receiver.refused, receiver.replayed) == (0, 1)


@given(st.data())
def test_a_changed_datagram_is_refused(data: st.DataObject) -> None:
    datagram = bytearray(codec(A).seal(PACKET))
    at = data.draw(st.integers(0, len(datagram) - 1))
    datagram[at] ^= data.draw(st.integers(1, 255))
    receiver = codec(B)
    assert receiver.open(bytes(datagram)) is None
    assert receiver.refused == 1


@given(st.binary(max_size=200))
def test_nonsense_is_refused(datagram: bytes) -> None:
    assert codec(B).open(datagram) is None


def test_another_key_or_cluster_is_a_stranger() -> None:
    receiver = codec(B)
    assert receiver.open(codec(A, key=b"x" * 32).seal(PACKET)) is None
    assert receiver.open(codec(A, cluster="d").seal(PACKET)) is None
    assert receiver.refused == 2


def test_a_restarted_sender_begins_again_and_its_old_datagrams_are_replays() -> None:
    old, new, receiver = codec(A), codec(A, start=10), codec(B)
    first, second = old.seal(PACKET), old.seal(PACKET)
    assert receiver.open(first) is not None
    assert receiver.open(new.seal(PACKET)) is not None
    assert receiver.open(second) is None
    assert receiver.open(new.seal(PACKET)) is not None


@given(st.lists(st.integers(0, 3 * REPLAY_WINDOW), max_size=80))
def test_a_window_is_like_a_set_of_recent_numbers(sequences: list[int]) -> None:
    window, seen = ReplayWindow(1), set[int]()
    for sequence in sequences:
        is_recent = sequence > max(seen, default=-1) - REPLAY_WINDOW
        assert window.is_new(sequence) == (is_recent and sequence not in seen)
        seen.add(sequence)


def test_memory_for_senders_is_bounded() -> None:
    receiver = codec(B)
    for number in range(SENDERS_MAX + 10):
        receiver.open(codec(ProcessId(f"n{number}")).seal(PACKET))
    assert len(receiver._by_name) == SENDERS_MAX
