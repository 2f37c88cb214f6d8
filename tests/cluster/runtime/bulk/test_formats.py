"""Golden bytes of the multicast transport: ordered entries, the snapshot of the master, control packets, data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.bulk import master, packets
from cluster.bulk.packets import Parameters, RecentMessage, Status
from cluster.names import ProcessId
from cluster.runtime.bulk.datagrams import ControlBody, DatagramCodec
from cluster.runtime.bulk.master_machine import MasterMachine, MasterState
from tests.support.golden import Case, assert_all_types_occur, check

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "data"
A, B = ProcessId("a"), ProcessId("b", 5)
RECENT = (RecentMessage(Status.ACCEPTED, A), RecentMessage(Status.JOINED, B, A))
HEADER = packets.Header(7, 3, RECENT, Parameters(20, 64, 12))
SHORT = packets.ShortHeader(7, 70_000, (*Status, None, Status.PENDING), Parameters(20, 64, 12))
RECORD = master.MemberRecord(9, 2, (A, B), A, is_ready=True)

ENTRIES: list[master.Entry] = [
    master.Grant(B, 70_000),
    master.Accept(6, (A, B), 70_000),
    master.Reject(6),
    master.AddMember(B, 1_700_000_000_000, True),
    master.MarkReady(B, 2),
    master.RemoveMember(B, 2),
    master.ChangeView((A, B)),
]
STATE = MasterState(7, 2, 1, 3, list(RECENT), [(B, (70_000, 2))], [(B, RECORD)], (A, B), A, 9)
PACKETS: list[packets.ControlPacket] = [
    packets.EmptyPacket(HEADER, 2, 3, False),
    packets.Nak(HEADER, 2, ((1, 4), (70_000, 70_001))),
    packets.NakDeny(HEADER, 2),
    packets.TokenRequest(HEADER, 9),
    packets.TokenGrant(HEADER, 9, 3),
    packets.JoinRequest(HEADER, 4, True),
    packets.JoinConfirm(HEADER, 4, 2, (A, B), None),
    packets.Complete(HEADER, 2, 9),
    packets.ProgressReport(HEADER, 2, 7, True, 9, is_delivered=True),
]
DATA_PACKETS = [
    packets.DataPacket(SHORT, 69_998, 70_000, False, b"x" * 3),
    packets.DataPacket(SHORT, 69_998, 70_001, True, b""),
]


def named(
    prefix: str, values: list[Any], encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
) -> dict[str, Case]:
    return {f"{prefix}.{value.__struct_config__.tag}": Case(value, encode, decode) for value in values}


def codec(me: ProcessId) -> DatagramCodec:
    return DatagramCodec(b"k" * 32, "shop", 7, me, 1_700_000_000_000)


def seal(packet: packets.AnyPacket) -> bytes:
    return codec(B).seal(packet)


def unseal(datagram: bytes) -> packets.AnyPacket:
    """Data is opened only after a control datagram of its sender."""
    receiver, sender = codec(A), codec(B)
    sender._sequence = 9
    receiver.open(sender.seal(PACKETS[-1]))
    opened = receiver.open(datagram)
    assert opened is not None
    assert opened[0] == B
    return opened[1]


def restored(snapshot: bytes) -> MasterState:
    """The state as a replica that was restored from the snapshot writes it again."""
    machine = MasterMachine("shop")
    machine.restore(snapshot)
    written = msgspec.msgpack.decode(machine.snapshot(), type=MasterState)
    return msgspec.structs.replace(written, session=STATE.session)


def test_ordered_entries_packets_and_datagrams(write_golden: bool) -> None:
    cases = named("entry", ENTRIES, msgspec.msgpack.encode, msgspec.msgpack.Decoder(master.Entry).decode)
    cases |= named("packet", PACKETS, msgspec.msgpack.encode, msgspec.msgpack.Decoder(packets.ControlPacket).decode)
    cases["snapshot.master"] = Case(STATE, msgspec.msgpack.encode, restored)
    cases["datagram.control"] = Case(PACKETS[0], seal, unseal)
    cases |= {f"datagram.data.{at}": Case(packet, seal, unseal) for at, packet in enumerate(DATA_PACKETS, 1)}
    check(DATA / "bulk.txt", cases, write=write_golden)


def test_every_type_has_a_golden_value() -> None:
    assert_all_types_occur([master.Entry, MasterState, ControlBody, packets.DataPacket], [
        *ENTRIES, *PACKETS, *DATA_PACKETS, STATE, ControlBody(A, 1, PACKETS[0]),
    ])  # fmt: skip
    assert set(packets.Packet.__subclasses__()) == {type(packet) for packet in PACKETS}
