"""Packets on the wire: their bytes do not change."""

from __future__ import annotations

import msgspec
import pytest

from cluster.bulk.knowledge import Knowledge
from cluster.bulk.packets import (
    T_MAX,
    Complete,
    ControlPacket,
    EmptyPacket,
    Header,
    JoinConfirm,
    JoinRequest,
    Nak,
    NakDeny,
    Parameters,
    ProgressReport,
    RecentMessage,
    ShortHeader,
    Status,
    TokenGrant,
    TokenRequest,
)
from cluster.names import ProcessId

A, B = ProcessId("a"), ProcessId("b", 5)
PARAMETERS = Parameters(20, 64, 12)
HEADER = Header(7, 3, (RecentMessage(Status.ACCEPTED, A), RecentMessage(Status.JOINED, B, A)), PARAMETERS)
BYTES = "94070392930192a16100c0930392a1620592a161009314400c"

GOLDEN: tuple[tuple[ControlPacket, str], ...] = (
    (EmptyPacket(HEADER, 2, 3, False), "9502" + BYTES + "0203c2"),
    (Nak(HEADER, 2, ((1, 4),)), "9403" + BYTES + "0291920104"),
    (NakDeny(HEADER, 2), "9304" + BYTES + "02"),
    (TokenRequest(HEADER, 9), "9305" + BYTES + "09"),
    (TokenGrant(HEADER, 9, 3), "9406" + BYTES + "0903"),
    (JoinRequest(HEADER, 4, True), "9407" + BYTES + "04c3"),
    (JoinConfirm(HEADER, 4, 2, (A, B), None), "9608" + BYTES + "04029292a1610092a16205c0"),
    (Complete(HEADER, 2), "9309" + BYTES + "02"),
    (ProgressReport(HEADER, 2, 7, False, 9), "960a" + BYTES + "0207c209"),
)


@pytest.mark.parametrize(("packet", "encoded"), GOLDEN, ids=lambda value: type(value).__name__)
def test_bytes(packet: ControlPacket, encoded: str) -> None:
    assert msgspec.msgpack.encode(packet).hex() == encoded
    assert msgspec.msgpack.decode(bytes.fromhex(encoded), type=ControlPacket) == packet


def test_a_header_numbers_its_statuses_from_the_newest() -> None:
    assert HEADER.slots() == [(2, HEADER.recent[0]), (1, HEADER.recent[1])]


def test_statuses_are_learned_once() -> None:
    """L2: a reordered header does not undo a decision."""
    knowledge = Knowledge(7)
    assert knowledge.learn(HEADER)
    assert not knowledge.learn(HEADER)
    assert not knowledge.learn(Header(7, 3, (RecentMessage(Status.PENDING, A),), PARAMETERS))
    assert knowledge.status(2) is Status.ACCEPTED
    assert knowledge.header(PARAMETERS) == HEADER


def test_a_short_header_decides_messages_that_are_known() -> None:
    knowledge = Knowledge(7)
    knowledge.learn(Header(7, 3, (RecentMessage(Status.PENDING, A),), PARAMETERS))
    short = ShortHeader(7, 5, (Status.PENDING, Status.ACCEPTED, Status.ACCEPTED, Status.JOINED), PARAMETERS)
    assert knowledge.learn_short(short)
    assert not knowledge.learn_short(short)
    assert knowledge.next == 5
    assert knowledge.slots == {2: RecentMessage(Status.ACCEPTED, A)}  # of the others the producers are not known
    assert knowledge.short_header(PARAMETERS).statuses == (None, None, Status.ACCEPTED, None)


def test_statuses_that_headers_still_have_are_not_forgotten() -> None:
    """A producer that joined again learns what became of its message."""
    knowledge = Knowledge(7)
    knowledge.learn(HEADER)
    knowledge.forget_below(3)
    assert knowledge.status(2) is Status.ACCEPTED
    knowledge.learn(Header(7, 20, (), PARAMETERS))
    knowledge.forget_below(15)
    assert knowledge.status(2) is None
    assert knowledge.is_lost(20 - T_MAX - 1)
    assert not knowledge.is_lost(20 - T_MAX)
