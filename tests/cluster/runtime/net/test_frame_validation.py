"""Address and recovery notices of authenticated peers with arbitrary content are bounded or rejected.

They go to the transport as they would come from a connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.names import ProcessId, founding_view
from cluster.runtime.api.options import Options
from cluster.runtime.disk.rows import RECOVERIES_MAX, RECOVERY_LEN_MAX, Recovery
from cluster.runtime.net.addresses import ADDRESS_LEN_MAX
from cluster.runtime.net.handshake import ADDRESSES_EACH_MAX
from cluster.runtime.net.transport import Transport
from cluster.runtime.net.wire import (
    ADDRESSES_MAX,
    LENGTH,
    Addresses,
    BadFrame,
    FrameWriter,
    RecoveryNotice,
    decode_frame,
)

if TYPE_CHECKING:
    from cluster.messages import Frame
    from cluster.runtime.net.connection import PeerConnection

A, B = ProcessId("a", 1), ProcessId("b", 2)
TEXTS = st.text(max_size=80) | st.sampled_from(["", "a", "b", "127.0.0.1:1", "[::1]:65535", "x:0", "h" * 5000 + ":1"])
NUMBERS = st.integers(-(2**63), 2**64 - 1)
HEARSAY = st.builds(
    Addresses, st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=12).map(tuple)), max_size=30).map(tuple)
)
PROCESSES = st.lists(st.builds(ProcessId, TEXTS, NUMBERS), max_size=5).map(tuple)
RECOVERIES = st.builds(
    Recovery, TEXTS, TEXTS, TEXTS, TEXTS, st.just(founding_view(A)), PROCESSES, PROCESSES, NUMBERS, NUMBERS
)
PASTS = st.builds(RecoveryNotice, st.lists(RECOVERIES, max_size=RECOVERIES_MAX + 1).map(tuple))


class RecordingStub:
    """Stands in for the driver, the dialer and a connected peer; counts the effects of notices."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.learned_last: tuple[Recovery, ...] = ()
        self.put_bytes = 0

    def process(self, name: str) -> None:
        self.called.add(name)

    def on_recoveries(self, recoveries: tuple[Recovery, ...]) -> None:
        self.learned_last = recoveries

    def put(self, parts: tuple[bytes, ...]) -> None:
        self.put_bytes = sum(map(len, parts))

    def on_received(self, _peer: ProcessId, frame: Frame) -> None:
        raise AssertionError(f"{frame} is no part of the protocol")


def receive_all(frames: list[Addresses | RecoveryNotice]) -> tuple[Transport, RecordingStub]:
    """Hand in all frames in sequence, as a peer would send them, to a process without any knowledge."""

    async def story() -> tuple[Transport, RecordingStub]:
        told = RecordingStub()
        options = Options(name=A.name, key=b"k" * 32, listen=("127.0.0.1:0",))
        transport = Transport(options, A, 1, "founding", told)  # type: ignore[arg-type]
        transport._dialing = told  # type: ignore[assignment]
        connection: PeerConnection = told  # type: ignore[assignment]
        transport.connections[B] = connection
        writer = FrameWriter(options.bounds.frame_len_max)
        for frame in frames:
            text = b"".join(writer.parts(frame))[LENGTH.size :]
            try:
                transport.on_frame(connection, decode_frame(text))
            except BadFrame:
                break
        return transport, told

    return asyncio.run(story())


@settings(deadline=None)
@given(st.lists(HEARSAY, max_size=5))
def test_addresses_are_learned_within_bounds(frames: list[Addresses | RecoveryNotice]) -> None:
    transport, told = receive_all(frames)
    book = transport.book
    assert len(book.names) <= ADDRESSES_MAX
    assert A.name not in book.names
    assert told.called <= set(book.names)
    for name in book.names:
        assert 0 < len(book[name]) <= ADDRESSES_EACH_MAX
        assert all(len(address) <= ADDRESS_LEN_MAX for address in book[name])


def test_thousands_of_addresses_are_bounded_and_forwarded_in_one_bounded_frame() -> None:
    crowd = [
        Addresses(tuple((f"{frame}-{i}", ("127.0.0.1:1",) * 100) for i in range(10_000))) for frame in range(3)
    ]  # fmt: skip
    transport, told = receive_all([*crowd])
    assert len(transport.book.names) == len(told.called) == ADDRESSES_MAX
    assert told.put_bytes < ADDRESSES_MAX * ADDRESSES_EACH_MAX * (ADDRESS_LEN_MAX + 100)


@settings(deadline=None)
@given(st.lists(PASTS, max_size=4))
def test_recoveries_are_learned_within_bounds(frames: list[Addresses | RecoveryNotice]) -> None:
    transport, told = receive_all(frames)
    assert len(transport.recoveries) <= RECOVERIES_MAX
    assert told.learned_last == transport.recoveries
    assert told.put_bytes <= RECOVERIES_MAX * RECOVERY_LEN_MAX + 100


@pytest.mark.parametrize(
    "past",
    [
        RecoveryNotice(
            tuple(Recovery(str(i), "", "c", "f", founding_view(A), (), (), 0, 0) for i in range(RECOVERIES_MAX + 1))
        ),
        RecoveryNotice((Recovery("now", "x" * RECOVERY_LEN_MAX, "c", "f", founding_view(A), (), (), 0, 0),)),
        RecoveryNotice((Recovery("now", "", "c", "f", founding_view(A), (A,) * RECOVERY_LEN_MAX, (), 0, 0),)),
    ],
    ids=["too many", "long", "of a crowd"],
)
def test_an_oversized_recovery_notice_is_rejected(past: RecoveryNotice) -> None:
    transport, told = receive_all([past])
    assert transport.recoveries == ()
    assert told.put_bytes == 0
