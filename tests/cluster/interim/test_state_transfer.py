"""States travel in chunks: any size arrives, and chunks that make no sense are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.interim import state_transfer
from cluster.interim.state_transfer import StateSender, StatesReceived
from cluster.messages import StMsg
from cluster.names import ProcessId

A, B, C = (ProcessId(name) for name in "abc")


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(1, 50))
def test_states_arrive_in_chunks(one: bytes, other: bytes, chunk_bytes: int) -> None:
    senders = {A: StateSender((A, C), one, chunk_bytes), B: StateSender((B,), other, chunk_bytes)}
    received = StatesReceived((A, B, C))
    while not all(sender.is_done for sender in senders.values()):
        assert not received.is_complete
        for process, sender in senders.items():
            if not sender.is_done:
                assert received.add(process, sender.next_chunk()) == ""
    assert received.is_complete
    assert received.in_order() == [one, other]


@pytest.mark.parametrize(
    ("sender", "messages"),
    [
        (B, [StMsg((A, B), 0, 1, b"")]),  # not the lowest
        (A, [StMsg((), 0, 1, b"")]),
        (A, [StMsg((A, ProcessId("d")), 0, 1, b"")]),  # not a member
        (A, [StMsg((A,), 1, 2, b"")]),  # not the first chunk
        (A, [StMsg((A,), 0, 0, b"")]),
        (A, [StMsg((A,), 0, 2, b""), StMsg((A,), 0, 2, b"")]),
        (A, [StMsg((A,), 0, 2, b""), StMsg((A, B), 1, 2, b"")]),
        (A, [StMsg((A,), 0, 2, b""), StMsg((A,), 1, 3, b"")]),
        (A, [StMsg((A,), 0, 1, b""), StMsg((A,), 1, 1, b"")]),
    ],
)
def test_chunks_that_make_no_sense(sender: ProcessId, messages: list[StMsg]) -> None:
    received = StatesReceived((A, B, C))
    *good, bad = messages
    for message in good:
        assert received.add(sender, message) == ""
    assert received.add(sender, bad)


def test_a_state_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_transfer, "STATE_BYTES_MAX", 10)
    received = StatesReceived((A,))
    assert received.add(A, StMsg((A,), 0, 3, b"123456")) == ""
    assert received.add(A, StMsg((A,), 1, 3, b"78901"))
