"""Repairs of a member for others, when the producer may be gone."""

from __future__ import annotations

from cluster.bulk.consumer import KEPT
from cluster.bulk.effects import Discard, SendTo
from cluster.bulk.packets import DataPacket, EmptyPacket, Nak, NakDeny, RecentMessage, Status
from cluster.bulk.repairs import QUEUE_MAX
from cluster.sim.mutation import Mutant
from tests.cluster.bulk.single import A, B, C, Single
from tests.support.mutants import assert_a_test_catches

WINDOW = 8  # of `Single`
ONE_BURST = Mutant(
    "a repair is one burst", "cluster.bulk.repairs",
    "        for key in list(islice(self._queue, ceil(min(PACE, flow.window) / SLICES))):",
    "        keys = list(islice(self._queue, ceil(min(PACE, flow.window) / SLICES)))\n"
    "        self._queue = dict.fromkeys(keys)\n        for key in keys:",
    "a member that missed most of a long message waits for minutes once its producer is gone",
)  # fmt: skip


def holder(packets: int) -> Single:
    """A member with all packets of the accepted message 4."""
    single = Single(C)
    single.add(RecentMessage(Status.ACCEPTED, B))
    for packet in range(packets):
        single.data(4, packet, is_end=packet == packets - 1)
    single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    single.take()
    return single


def sent_packets(single: Single) -> list[int]:
    return [data.packet for data in single.sent(DataPacket)]


def test_repairs_a_message_that_it_has() -> None:
    single = holder(2)
    single.receive(A, Nak(single.header(), 4, ((1, 9),)))
    single.beats(1)
    effects = [effect for effect in single.take() if isinstance(effect, SendTo)]
    assert {effect.to for effect in effects} == {A}
    empty, data = (effect.packet for effect in effects)  # the first names its sender, so that its data is taken
    assert isinstance(empty, EmptyPacket)
    assert isinstance(data, DataPacket)
    assert (empty.packets, empty.is_end, data.packet, data.is_end) == (2, True, 1, True)


def test_one_nak_brings_all_packets_at_a_steady_rate() -> None:
    """A member that was cut off asks for most of a long message in one range."""
    single = holder(100)
    single.receive(A, Nak(single.header(), 4, ((10, 100),)))
    single.beats(5)
    part = sent_packets(single)
    assert 5 * WINDOW <= len(part) <= 6 * WINDOW
    single.beats(12)
    assert part + sent_packets(single) == list(range(10, 100))


def test_a_repair_of_one_burst_is_noticed() -> None:
    assert_a_test_catches(ONE_BURST, test_one_nak_brings_all_packets_at_a_steady_rate)


def test_a_packet_that_waits_is_queued_once_for_each_member() -> None:
    single = holder(50)
    for sender in (A, A, B):
        single.receive(sender, Nak(single.header(), 4, ((20, 50),)))
    single.beats(20)
    assert sorted(sent_packets(single)) == sorted([*range(20, 50), *range(20, 50)])


def test_the_queue_is_bounded() -> None:
    single = holder(QUEUE_MAX + 100)
    single.receive(A, Nak(single.header(), 4, ((0, QUEUE_MAX + 100),)))
    single.beats(QUEUE_MAX / WINDOW + 50)
    assert sent_packets(single) == list(range(QUEUE_MAX))


def test_nothing_leaves_while_the_socket_takes_nothing() -> None:
    single = holder(20)
    single.process.context.flow.is_blocked = True
    single.receive(A, Nak(single.header(), 4, ((0, 20),)))
    single.beats(5)
    assert sent_packets(single) == []
    single.process.context.flow.is_blocked = False
    single.beats(5)
    assert sent_packets(single) == list(range(20))


def test_a_message_that_was_discarded_meanwhile_is_skipped() -> None:
    single = holder(20)
    single.receive(A, Nak(single.header(), 4, ((0, 20),)))
    single.beats(1)
    begun = sent_packets(single)
    for _ in range(KEPT):
        number = single.add(RecentMessage(Status.ACCEPTED, B))
        single.data(number, 0, is_end=True)
        single.receive(A, EmptyPacket(single.header(), 0, 0, False))
    assert Discard(4) in single.take()
    single.spool.messages.pop(4)
    single.beats(10)
    assert len(begun) < 20
    assert sent_packets(single) == []
    single.receive(A, Nak(single.header(), 4, ((0, 20),)))
    assert [deny.number for deny in single.sent(NakDeny)] == [4]
