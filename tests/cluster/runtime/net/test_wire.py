"""Wire format: frames arrive however the bytes are split; invalid bytes are rejected at bounded cost."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.entries import pack_bodies
from cluster.messages import AppMsg, Batch, Data, Hello, LinkAck, Plain, Proposal, Row
from cluster.names import ProcessId
from cluster.runtime.net.wire import LENGTH, ROOM, Addresses, BadFrame, FrameWriter, Splitter, decode_frame

BODY = AppMsg(Plain(3, Batch(1, pack_bodies([b"x" * 200, b""]))))
FRAMES = (
    Hello(1, 2, 3, 4),
    Data(1, 1, BODY),
    Data(70_000, 2**40, BODY),
    LinkAck(1, 2),
    Proposal(7, (ProcessId("a"),), (Row(ProcessId("a"), (1, 2), (ProcessId("a"),)),), False),
    Addresses((("a", ("127.0.0.1:1",)),)),
)
BYTES = b"".join(b"".join(FrameWriter(10_000).parts(frame)) for frame in FRAMES)


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_equals_its_plain_msgspec_encoding(frame: Hello) -> None:
    text = b"".join(FrameWriter(10_000).parts(frame))
    plain = msgspec.msgpack.encode(frame)
    assert msgspec.msgpack.decode(text[LENGTH.size :]) == msgspec.msgpack.decode(plain)
    assert LENGTH.unpack(text[: LENGTH.size]) == (len(text) - LENGTH.size,)
    assert decode_frame(text[LENGTH.size :]) == frame


def test_a_payload_for_several_peers_is_encoded_once() -> None:
    writer = FrameWriter(10_000)
    first, second = writer.parts(Data(1, 1, BODY)), writer.parts(Data(2, 9, BODY))
    assert first[1] is second[1]
    other = AppMsg(Plain(4, Batch(1, pack_bodies([]))))
    assert decode_frame(b"".join(writer.parts(Data(1, 2, other)))[LENGTH.size :]) == Data(1, 2, other)


@given(st.lists(st.integers(0, len(BYTES)), max_size=12))
def test_frames_arrive_whole_however_the_bytes_are_cut(cuts: list[int]) -> None:
    edges = sorted({0, len(BYTES), *cuts})
    splitter = Splitter(10_000)
    found = [decode_frame(text) for low, high in pairwise(edges) for text in splitter.feed(BYTES[low:high])]
    assert found == list(FRAMES)
    assert splitter.held == 0


def test_the_buffer_grows_as_a_long_frame_arrives_and_shrinks_afterwards() -> None:
    """A length that is only announced costs nothing."""
    splitter, length = Splitter(100 * ROOM), 10 * ROOM
    assert list(splitter.feed(LENGTH.pack(length))) == []
    rooms = []
    for _ in range(100):
        rooms.append(splitter.held + len(splitter.room()))
        found = [bytes(frame) for frame in splitter.feed(b"x" * (ROOM // 8))]
        if found:
            break
        assert rooms[-1] <= 2 * max(ROOM, splitter.held)
    assert found == [b"x" * length]
    assert rooms[0] == ROOM < max(rooms) <= LENGTH.size + length
    assert len(splitter.room()) == ROOM - splitter.held


def test_the_buffer_grows_with_the_limit() -> None:
    splitter = Splitter(100)
    assert len(splitter.room()) == 104
    for frame in splitter.feed(LENGTH.pack(1) + b"a" + LENGTH.pack(1) + b"b"):
        assert bytes(frame) in (b"a", b"b")
        splitter.frame_len_max = 10_000
    assert len(splitter.room()) == 10_004


def test_an_oversized_frame_is_refused_when_announced() -> None:
    with pytest.raises(BadFrame, match="a frame of 10001 bytes is announced; at most 10000"):
        list(Splitter(10_000).feed(LENGTH.pack(10_001)))
    with pytest.raises(BadFrame, match="cannot send AppMsg"):
        FrameWriter(100).parts(Data(1, 1, BODY))


@given(st.binary(max_size=300))
def test_random_bytes_are_rejected_or_a_frame(data: bytes) -> None:
    with suppress(BadFrame):
        decode_frame(data)


@given(st.sampled_from(FRAMES), st.data())
def test_a_damaged_frame_is_rejected_or_another_frame(frame: Hello, data: st.DataObject) -> None:
    text = bytearray(msgspec.msgpack.encode(frame))
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadFrame):
        decode_frame(bytes(text))


@pytest.mark.parametrize("claim", [b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\xc6\xff\xff\xff\xff"])
def test_a_claimed_length_of_millions_costs_nothing(claim: bytes) -> None:
    with pytest.raises(BadFrame):
        decode_frame(b"\x95\xa8Proposal\x01" + claim)
