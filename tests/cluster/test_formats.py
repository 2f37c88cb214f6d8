"""Golden bytes of all wire messages, disk records and trace lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cluster import actions, durable, messages
from cluster.actions import NAMES, Action
from cluster.entries import CHECKPOINT, VIEW, Entry, pack
from cluster.names import Label, ProcessId, View, make_view
from cluster.replica import Checkpoint, SnapshotState
from cluster.reports.messages import Origin
from cluster.run_log import Run
from cluster.runtime.commands.counter_machine import CounterMachine
from cluster.runtime.disk import rows
from cluster.runtime.net import handshake, wire
from cluster.runtime.observe.observer import OrderLine
from cluster.specs.traces import Life, action_line, life_line, read_trace
from tests.support.golden import Case, assert_all_types_occur, check

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data"
A, B = ProcessId("a", 7), ProcessId("b")
V = make_view(3, {A: 4, B: 1_000})
ORIGIN = Origin(A, 2)
LABEL = Label(V.id, 5, A)
NOBODYS = Label(V.id, 1, ProcessId("", 0))
ENTRIES = [Entry("a", b"x"), Entry(VIEW, b"\x01"), Entry(CHECKPOINT, b"")]
RUN = Run(V.id, 5, A, pack(ENTRIES))
SUMMARY = messages.Summary(20, 31, ((LABEL, ENTRIES[0]), (NOBODYS, ENTRIES[1])), ((LABEL, ENTRIES[2]),), V.id, (LABEL,))
BATCH = messages.Batch(5, RUN.pack)
SLOT = messages.Slot(2, 9, 3, (1, 2), 7, BATCH, 6)
PLAIN = messages.Plain(7, messages.Registered(), 6)
RECOVERY = rows.Recovery("2026-01-02T03:04:05+00:00", "shop", "shop-1", "ab", V, (A,), (B,), 40, 38)

PAYLOADS: list[messages.Payload] = [
    messages.ViewMsg(V),
    messages.AppMsg(SLOT),
    messages.AppMsg(messages.Slot(2, 9, 0, None, 7, None)),
    messages.AppMsg(messages.Slot(2, 9, 1, None, 7, messages.Info(None, ()))),
    messages.AppMsg(messages.Slot(2, 9, 1, None, 7, messages.Info(V, (V,)))),
    messages.AppMsg(PLAIN),
    messages.AppMsg(messages.Plain(7, SUMMARY)),
    messages.AppMsg(messages.Plain(7, messages.Summary(0, 0, (), (), None, ()))),
    messages.AppMsg(messages.Sequence(7, (0, 1, 0), 6)),
    messages.FwdMsg(A, V.id, PLAIN, 12),
    messages.SyncMsg(4, V.id, (3, 0)),
    messages.Ack(V.id, 70_000, 6),
    messages.Supply(V.id, 1, 3, 40, b"half of a snapshot", 44, (RUN,), "d1"),
    messages.Supply(V.id, 0, 1, -1, b"", 44, ()),
    messages.Resume(V.id, 2),
    messages.AppMsg(messages.OpMsg(9, b"operation", (3, 0))),
    messages.AppMsg(messages.LtMsg(10, (3, 1))),
    messages.AppMsg(messages.StMsg((A, B), 1, 3, b"part of a state")),
    messages.AppMsg(messages.Slot(2, 9, 1, None, 7, messages.Expertise(41, True))),
    messages.AppMsg(messages.Plain(7, messages.Queries((messages.Query(5, 41, -1, b"query"),)))),
    messages.Answers(V.id, (messages.QueryAnswer(5, 42, b"answer", ""),)),
]
FRAMES = [
    messages.Hello(2, 1, 3, 70_000),
    messages.LinkAck(3, 70_000),
    messages.Proposal(9, (A, B), (messages.Row(A, (2, 5), (A, B)),), leaving=False),
    wire.Addresses((("a", ("127.0.0.1:7000", "[::1]:7000")),)),
    wire.RecoveryNotice((RECOVERY,)),
    *(messages.Data(3, number, body) for number, body in enumerate(PAYLOADS, 1)),
]
GREETINGS = [
    handshake.Hail(handshake.MAGIC, handshake.VERSION, "shop", bytes(32)),
    handshake.Proof(b"who", b"code"),
    handshake.Refusal("b", "no", "refused"),
]
IDENTITIES = [
    handshake.PeerIdentity(A, 2, ("127.0.0.1:7000",), "", probe=True),
    handshake.PeerIdentity(A, 2, (), "ab", True, False, handshake.Dialect(1, 2, 1)),
]
SNAPSHOT = durable.Snapshotted(40, (LABEL,), b"state")
RECORDS = [
    durable.Boot(3),
    durable.Epoch(70_000),
    durable.Primaries(V, (V,)),
    durable.Labelled(RUN),
    durable.Appended(44, RUN),
    durable.Rebuilt(40, (RUN,), V.id, 41, SNAPSHOT),
    durable.Rebuilt(40, (), V.id, 41, None),
    SNAPSHOT,
    durable.Truncated(40),
    durable.InterimOperation(A, b"operation", 1_700_000_000.5),
    durable.InterimState(b"state", 1_700_000_000.5),
]
META = rows.Meta(
    identity=rows.DiskIdentity("shop", "a", 7, founder=True),
    founding="ab",
    in_use=True,
    boot=3,
    epoch=70_000,
    primaries=rows.PrimariesRow(V, (V,)),
    high_primary=V.id,
    next_confirm=41,
    base=40,
    snapshot=rows.SnapshotHead(40, (LABEL,), 5),
    recoveries=(RECOVERY,),
)
VALUES: dict[str, tuple[Any, Any]] = {  # types encoded separately, inside an entry or a snapshot
    "view": (View, V),
    "checkpoint": (Checkpoint, Checkpoint(40, "d1")),
    "state": (SnapshotState, SnapshotState(V, [(A, 40)], b"machine")),
    "bodies": (list[bytes], [b"x", b""]),
}
ACTIONS: list[Action] = [
    actions.LinkSend((A, B), messages.AppMsg(SLOT)),
    actions.LinkDeliver(A, messages.SyncMsg(4, V.id, (3, 0))),
    actions.LinkReliable((A, B)),
    actions.LinkLive((A,)),
    actions.StartChange(4, (A, B)),
    actions.MembershipView(V),
    actions.GcsSend(SLOT),
    actions.GcsDeliver(A, PLAIN),
    actions.GcsView(V, (A,)),
    actions.Block(),
    actions.BlockOk(),
    actions.VsSend(messages.Info(V, ())),
    actions.VsReceive(A, messages.Registered()),
    actions.VsSafe(A, BATCH),
    actions.VsNewView(V),
    actions.DvsSend(SUMMARY),
    actions.DvsReceive(A, BATCH),
    actions.DvsSafe(A, BATCH),
    actions.DvsNewView(V),
    actions.DvsRegister(),
    actions.Broadcast(ENTRIES[0]),
    actions.Deliver(41, LABEL, ENTRIES[0]),
    actions.CatchUp(40),
    actions.Confirm(42),
    actions.Established(V, 40),
    actions.Submitted(6, b"x"),
    actions.Resolved(6, True, 41, ""),
    actions.StateDigest(40, "d1"),
    actions.Applied(41, LABEL, ENTRIES[0]),
    actions.Restored(40),
    actions.ReportBroadcast(ORIGIN, 3, "load", b"7"),
    actions.ReportEnqueue(ORIGIN, 3, ORIGIN.process),
    actions.ReportDeliver(ORIGIN, 3, "load", b"7"),
    actions.ReportPurge(ORIGIN, 1, 3),
    actions.ReportSafe(ORIGIN, 3),
    actions.ReportForget(ORIGIN),
    actions.InterimRequest(2, b"x"),
    actions.InterimResponse(2, "'done'"),
    actions.InterimRefresh((A, B), b"state", "d1"),
    actions.InterimApplied(A, b"x", at_view_end=True),
    actions.InterimView(V, (A,)),
    actions.InterimLoaded("d1"),
    actions.DataRequest("k1", 5, False, b"query", 41),
    actions.DataReply("k1", 5, False, b"answer", 42),
    actions.DataGone("k1"),
    actions.DataQuery(A, 5, b"query", b"answer", 42),
    actions.Crashed(disk_lost=False),
    actions.Recovered(3),
]
LIVES = [Life(1, A, 2, 12.25, B), Life(1, A, 2, 12.25)]


def packed(value: Any, kind: Any) -> Case:
    return Case(value, msgspec.msgpack.encode, msgspec.msgpack.Decoder(kind).decode)


def encode_frame(frame: Any) -> bytes:
    return b"".join(wire.FrameWriter(1 << 20).parts(frame))


def decode_frame(data: bytes) -> Any:
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return wire.decode_frame(data[4:])


def numbered(prefix: str, cases: list[Case], name: Callable[[Any], str]) -> dict[str, Case]:
    """Names each value after its type, with a number if there are several values of one type."""
    found: dict[str, Case] = {}
    for case in cases:
        stem = f"{prefix}.{name(case.value)}"
        found[stem if stem not in found else f"{stem}.{sum(one.startswith(stem) for one in found) + 1}"] = case
    return found


def tag_of(message: Any) -> str:
    body = f".{tag_of(message.body)}" if isinstance(getattr(message, "body", None), messages.Message) else ""
    return f"{message.__struct_config__.tag}{body}"


def meta_rows(meta: rows.Meta) -> bytes:
    return msgspec.msgpack.encode([rows.meta_row(key, getattr(meta, key)) for key in rows.META_KEYS])


def meta_of(data: bytes) -> rows.Meta:
    return rows.meta_of(iter(msgspec.msgpack.decode(data, type=list[tuple[str, bytes, int]])))


def read_steps(data: bytes) -> Any:
    """The single line after the first line of a life."""
    return list(read_trace("golden", [life_line(LIVES[0]), data]))[1]


def transcript(_: None) -> bytes:
    """A complete handshake with fixed nonces: the messages of both sides in turn."""

    def side(identity: handshake.PeerIdentity, nonce: bytes, *, accepts: bool) -> handshake.Handshake:
        return handshake.Handshake(
            accepts=accepts,
            key=b"k" * 32,
            cluster="shop",
            identity=identity,
            nonce=nonce * handshake.NONCE_LEN,
            seen=handshake.SeenNonces(),
            decide=lambda _peer: "",
        )

    dialer = side(handshake.PeerIdentity(A, 2, ("127.0.0.1:7000",), ""), b"d", accepts=False)
    acceptor = side(handshake.PeerIdentity(B, 1, (), "ab"), b"a", accepts=True)
    said = [dialer.open()]
    while said[-1]:
        said.append((acceptor if len(said) % 2 else dialer).receive(said[-1]))
    assert dialer.peer is not None
    assert acceptor.peer is not None
    return msgspec.msgpack.encode(said)


def test_a_handshake(write_golden: bool) -> None:
    check(DATA / "handshake.txt", {"transcript": Case(None, transcript, lambda _data: None)}, write=write_golden)


def test_frames_between_members(write_golden: bool) -> None:
    cases = numbered("frame", [Case(frame, encode_frame, decode_frame) for frame in FRAMES], tag_of)
    cases |= numbered("handshake", [packed(one, handshake.Hail | handshake.Proof | handshake.Refusal)
                                    for one in GREETINGS], tag_of)  # fmt: skip
    cases |= numbered("identity", [packed(one, handshake.PeerIdentity) for one in IDENTITIES], lambda _: "process")
    check(DATA / "frames.txt", cases, write=write_golden)


def test_records_and_rows_on_disk(write_golden: bool) -> None:
    cases = numbered("record", [packed(one, durable.Records) for one in RECORDS], tag_of)
    cases |= {"row.run": Case(RUN, rows.encode, rows.decode_run), "rows.meta": Case(META, meta_rows, meta_of)}
    cases |= {f"value.{name}": packed(value, kind) for name, (kind, value) in VALUES.items()}
    check(DATA / "records.txt", cases, write=write_golden)


def test_lines_of_traces_and_order_logs(write_golden: bool) -> None:
    line = OrderLine(41, "3:ab/5@a.7", "a.7", "3:ab", "a", "00ff")
    cases = numbered(
        "action",
        [Case((12.5, A, action), lambda step: action_line(step[0], step[2]), read_steps) for action in ACTIONS],
        lambda step: NAMES[type(step[2])],
    )
    another = (12.5, B, actions.Block())
    cases["action.of_another"] = Case(another, lambda step: action_line(step[0], step[2], step[1]), read_steps)
    cases |= numbered("trace", [Case(one, life_line, lambda data: next(read_trace("golden", [data]))) for one in LIVES],
                      lambda _: "life")  # fmt: skip
    cases["order_log.line"] = Case(line, msgspec.json.encode, msgspec.json.Decoder(OrderLine).decode)
    check(DATA / "lines.txt", cases, write=write_golden)


def test_the_state_of_the_counting_machine(write_golden: bool) -> None:
    machine = CounterMachine()
    machine.apply(0, A, b"x")
    machine.view_changed(1, V)

    def restored(state: bytes) -> bytes:
        other = CounterMachine()
        other.restore(state)
        return other.snapshot()

    case = Case(machine.snapshot(), bytes, restored)
    check(DATA / "states.txt", {"tally": case}, write=write_golden)


def test_every_type_has_a_golden_value() -> None:
    values = [*FRAMES, *GREETINGS, *IDENTITIES, *RECORDS, META, RUN, *(value for _, value in VALUES.values())]
    roots = [
        wire.Travelling,
        handshake.Hail,
        handshake.Proof,
        handshake.Refusal,
        handshake.PeerIdentity,
        durable.Records,
    ]
    assert_all_types_occur([*roots, rows.Meta, Run, *(kind for kind, _ in VALUES.values())], values)
    for base in (messages.Message, durable.Record):
        kinds = {kind for kind in base.__subclasses__() if kind.__module__.startswith("cluster.")}
        assert_all_types_occur(kinds, values)
        assert all(kind.__struct_config__.tag is not None for kind in kinds)


def test_every_action_has_a_name_and_a_golden_line() -> None:
    kinds = {kind for kind in Action.__subclasses__() if kind.__module__ == actions.__name__}
    assert kinds == set(NAMES) == {type(action) for action in ACTIONS}
    assert len(set(NAMES.values())) == len(NAMES)
