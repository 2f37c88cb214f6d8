"""Headers of packets, and what a member learns from them."""

from __future__ import annotations

from cluster.bulk.message_statuses import MessageStatuses
from cluster.bulk.packets import T_MAX, Header, Parameters, RecentMessage, ShortHeader, Status
from cluster.names import ProcessId

A, B = ProcessId("a"), ProcessId("b", 5)
PARAMETERS = Parameters(20, 64, 12)
HEADER = Header(7, 3, (RecentMessage(Status.ACCEPTED, A), RecentMessage(Status.JOINED, B, A)), PARAMETERS)


def test_a_header_numbers_its_statuses_from_the_newest() -> None:
    assert HEADER.slots() == [(2, HEADER.recent[0]), (1, HEADER.recent[1])]


def test_statuses_are_learned_once() -> None:
    """L2: a reordered header does not undo a decision."""
    statuses = MessageStatuses(7)
    assert statuses.learn(HEADER)
    assert not statuses.learn(HEADER)
    assert not statuses.learn(Header(7, 3, (RecentMessage(Status.PENDING, A),), PARAMETERS))
    assert statuses.status(2) is Status.ACCEPTED
    assert statuses.header(PARAMETERS) == HEADER


def test_a_short_header_decides_messages_that_are_known() -> None:
    statuses = MessageStatuses(7)
    statuses.learn(Header(7, 3, (RecentMessage(Status.PENDING, A),), PARAMETERS))
    short = ShortHeader(7, 5, (Status.PENDING, Status.ACCEPTED, Status.ACCEPTED, Status.JOINED), PARAMETERS)
    assert statuses.learn_short(short)
    assert not statuses.learn_short(short)
    assert statuses.next == 5
    assert statuses.slots == {2: RecentMessage(Status.ACCEPTED, A)}  # of the others the producers are not known
    assert statuses.short_header(PARAMETERS).statuses == (None, None, Status.ACCEPTED, None)


def test_statuses_that_headers_still_have_are_not_forgotten() -> None:
    """A producer that joined again learns what became of its message."""
    statuses = MessageStatuses(7)
    statuses.learn(HEADER)
    statuses.forget_below(3)
    assert statuses.status(2) is Status.ACCEPTED
    statuses.learn(Header(7, 20, (), PARAMETERS))
    statuses.forget_below(15)
    assert statuses.status(2) is None
    assert statuses.is_lost(20 - T_MAX - 1)
    assert not statuses.is_lost(20 - T_MAX)
