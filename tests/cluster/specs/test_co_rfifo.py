"""CO_RFIFO: allowed traces, and each violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import Action, LinkDeliver, LinkReliable, LinkSend
from cluster.messages import AppMsg
from cluster.specs.co_rfifo import CoRfifoSpec
from tests.cluster.specs.traces import CRASH, CRASH_DISK, RECOVER, A, B, C, allows, plain, refuses

if TYPE_CHECKING:
    from cluster.names import ProcessId

FIRST = "deliver: m = first(channel[p][q])"
RELIABLE = (A, LinkReliable((A, B)))
UNRELIABLE = (A, LinkReliable((A,)))


def sent(*texts: str) -> list[tuple[ProcessId, Action]]:
    return [(A, LinkSend((B,), AppMsg(plain(text)))) for text in texts]


def got(*texts: str) -> list[tuple[ProcessId, Action]]:
    return [(B, LinkDeliver(A, AppMsg(plain(text)))) for text in texts]


def test_messages_are_delivered_in_order_and_once() -> None:
    allows([CoRfifoSpec()], [RELIABLE, *sent("1", "2"), *got("1"), *sent("3"), *got("2", "3")])
    refuses([CoRfifoSpec()], [RELIABLE, *sent("1", "2"), *got("2")], FIRST)
    refuses([CoRfifoSpec()], [RELIABLE, *sent("1"), *got("1", "1")], FIRST)


def test_a_message_for_another_process_is_rejected() -> None:
    refuses([CoRfifoSpec()], got("1"), FIRST)
    refuses([CoRfifoSpec()], [(A, LinkSend((C,), AppMsg(plain("1")))), *got("1")], FIRST)


def test_a_suffix_is_lost_outside_of_the_reliable_set() -> None:
    spec = CoRfifoSpec()
    allows([spec], [RELIABLE, *sent("1", "2", "3"), UNRELIABLE, RELIABLE, *sent("4"), *got("1", "4")])
    assert spec.coverage["deliver: after a loss"] == 1


def test_a_loss_in_the_middle_of_a_stream_is_rejected() -> None:
    lossy = [RELIABLE, *sent("1", "2", "3"), UNRELIABLE, RELIABLE, *sent("4", "5")]
    refuses([CoRfifoSpec()], [*lossy, *got("1", "5")], FIRST)
    refuses([CoRfifoSpec()], [*lossy, *got("1", "3")], FIRST)
    refuses([CoRfifoSpec()], [*lossy, *got("1", "4", "2")], FIRST)


def test_unreliable_sends_can_be_lost_one_by_one() -> None:
    spec = CoRfifoSpec()
    allows([spec], [*sent("1", "2", "3"), *got("3")])
    assert spec.coverage["send: to a process outside of reliable_set[p]"] == 3
    allows([CoRfifoSpec()], [*sent("1", "2", "3"), *got("2", "3")])


def test_equal_messages_keep_both_explanations_possible() -> None:
    lossy = [RELIABLE, *sent("same", "x"), UNRELIABLE, RELIABLE, *sent("same", "y")]
    allows([CoRfifoSpec()], [*lossy, *got("same", "y")])
    allows([CoRfifoSpec()], [*lossy, *got("same", "x", "same", "y")])
    allows([CoRfifoSpec()], [*lossy, *got("same", "same", "y")])
    refuses([CoRfifoSpec()], [*lossy, *got("same", "y", "same")], FIRST)


def test_a_crash_of_the_sender_loses_a_suffix() -> None:
    crashed = [RELIABLE, *sent("1", "2"), (A, CRASH), (A, RECOVER), RELIABLE, *sent("3")]
    allows([CoRfifoSpec()], [*crashed, *got("1", "3")])
    allows([CoRfifoSpec()], [*crashed, *got("3")])
    refuses([CoRfifoSpec()], [*crashed, *got("2")], FIRST)


def test_a_new_life_gets_no_message_sent_to_the_old_one() -> None:
    crashed = [RELIABLE, *sent("1", "2"), (B, CRASH), *sent("3"), (B, RECOVER), *sent("4", "5")]
    allows([CoRfifoSpec()], [*crashed, *got("4", "5")])  # A knew of the new life when it sent 4
    allows([CoRfifoSpec()], [*crashed, *got("5")])
    refuses([CoRfifoSpec()], [*crashed, *got("2")], FIRST)
    refuses([CoRfifoSpec()], [*crashed, *got("3", "5")], FIRST)  # A knew when it sent 3: nothing is lost after that


def test_a_process_that_lost_its_disk_gets_nothing_more() -> None:
    refuses([CoRfifoSpec()], [RELIABLE, *sent("1"), (B, CRASH_DISK), *got("1")], FIRST)


def test_channels_keep_only_messages_in_flight() -> None:
    spec = CoRfifoSpec()
    for number in range(1000):
        allows([spec], [RELIABLE, *sent(str(number)), *got(str(number))])
    assert len(spec.channel[A][B]) == 0
