"""Formats of the engine: golden bytes of batches, snapshots and tickets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cluster.names import ProcessId, make_view
from qosweb.engine.laws.service_samples import SampleRow
from qosweb.engine.local.request_ids import RequestId
from qosweb.engine.local.tickets import Ticket, TicketOffice, TicketVerdict
from qosweb.engine.replicated import entries, snapshot
from qosweb.engine.replicated.buckets import Bucket
from qosweb.engine.replicated.classes import NEVER_MS, Totals, Waiter
from qosweb.engine.replicated.cost_scale import CostScale
from qosweb.engine.replicated.entries import UNUSED, NodeBatch, NodeReport, NodeRestatement, PolicyText
from qosweb.engine.replicated.flows import Flow
from qosweb.engine.replicated.pipes import PipeChannel
from qosweb.engine.replicated.pool_batch import PoolBatch
from qosweb.engine.replicated.servers import SlotUse
from qosweb.engine.replicated.snapshot import ClassSnapshot, EngineSnapshot, PipeSnapshot, PoolSnapshot, ServerSnapshot
from qosweb.engine.replicated.upstreams import UpstreamReport, Vote
from tests.support.golden import Case, assert_all_types_occur, check, read

DATA = Path(__file__).parent / "data"
A, B = ProcessId("a", 7), ProcessId("b")
UPSTREAM = UpstreamReport(
    "app", "http://10.0.0.5:9000", True, 2, 8, ("shop.example",), ("/api/*",), Vote.OUT, "connection errors"
)
POOL = PoolBatch(
    servers=("app", "other@a"),
    running=[(7, 0, 20_000, "app")],
    served=[(0, 2, 30_000)],
    started=[(8, 1, 21_000, "other@a")],
    submitted=[(9, 0, 22_000)],
    denied=[(1, 23_000)],
    cancelled=[10],
    finished=[(7, 24_000)],
    samples=[("app", (SampleRow(3, 1, 4, 5, 6, 7, 8, 9, 10, 11),))],
)
BATCH = NodeBatch(
    at_ms=70_000,
    generation=2,
    policy=PolicyText("text", b"model", 1),
    report=NodeReport(2_000_000, 300_000, 1_700_000_000_000, "http://a.example", 1),
    restated=NodeRestatement(1, [(1, 0, 9_000)], [(2, 1, 70_000)]),
    accounts=[(0, 1, 2, 3, 4, 5, 6)],
    accessed=[(0, 69_000)],
    served=[(0, 3, 9_000)],
    denied=[(1, 2, 8_000)],
    started=[(3, 0, 7_000)],
    submitted=[(4, 1, 6_000)],
    cancelled=[2],
    finished=[(1, 8_900)],
    visited=[(B, 5, 4_000), (B, 6, UNUSED)],
    upstreams=[UPSTREAM],
    pools=[POOL],
    limits=[("app", 12, 14, 3)],
)
AMOUNTS = NodeBatch(1, 0, pools=[PoolBatch(("app",), served=[(0, 2, 30_000, 1_500)], finished=[(7, 24_000, 1_000)])])
CLASS = ClassSnapshot(
    "a", [(A, [(4, Waiter(9, 6_000, 69_500))])], 12, 13, 14, Flow(1, 2), Flow(3, 4), Totals(*range(6)), 18, 19
)
PIPE = PipeSnapshot(
    2_000_000, 300_000, 1_700_000_000_000, "http://a.example", 1, [(B, 5, PipeChannel(1, 2, 3, 4, 5, 6))], (UPSTREAM,)
)
STATE = EngineSnapshot(
    time_ms=70_000,
    generation=2,
    view=make_view(3, {A: 4, B: 5}),
    text="text",
    model=b"model",
    language=1,
    names=[(1, ["default"]), (2, ["a", "default"])],
    accessed_ms=[(0, 69_000)],
    classes=[CLASS],
    pipes=[(A, PIPE)],
    buckets=[(0, Bucket(-5, 69_000))],
    virtual=15,
    seq=9,
    shares_at_ms=69_000,
    shares=(500_000, 500_000),
    bound_ms=69_900,
    environment=(3_600, 2, 365, 300_000, 2, [(0, 1_000)], 2_000_000),
    spare=16,
    era=17,
    servers=[
        (
            "app",
            ServerSnapshot(12, 14, 3, A, 20, False, [(B, 5, SlotUse(1, 2, 3, 4, True))], [(B, 4, 80_000)], 69_995, 2),
        )
    ],
    pools=[
        PoolSnapshot(("app",), [CLASS], 20, 21, 22, 23, 69_990, (500_000, 500_000), [("requests", CostScale(7, 8, 9))])
    ],
)


def issued(good: tuple[TicketVerdict, Ticket]) -> bytes:
    ticket = good[1]
    return (
        TicketOffice(b"k" * 32, ticket.owner)
        .issue(
            ticket.number,
            ticket.class_number,
            B,
            "b.example:8080",
            "/shop?item=1",
            ticket.expires_ms,
            ticket.left_ms,
            ticket.rid,
            ticket.client,
        )
        .encode()
    )


def checked(text: bytes) -> Any:
    return TicketOffice(b"k" * 32, B).check(text.decode(), "b.example:8080", "/shop?item=1", 1_700_000_000_000)


def test_batches_and_snapshots(write_golden: bool) -> None:
    cases = {
        "batch.full": Case(BATCH, entries.encode, entries.decode),
        "batch.empty": Case(NodeBatch(1, 0), entries.encode, entries.decode),
        "batch.amounts": Case(AMOUNTS, entries.encode, entries.decode),
        "snapshot.full": Case(STATE, snapshot.encode, snapshot.decode),
    }
    check(DATA / "entries_2.txt", cases, write=write_golden)


def test_format_1_without_what_depended_on_its_scheduler() -> None:
    golden = read(DATA / "entries.txt")
    assert golden.keys() == {"batch.full", "batch.empty", "snapshot.full"}
    assert entries.decode(golden["batch.empty"]) == NodeBatch(1, 0)
    assert entries.decode(golden["batch.full"]) == NodeBatch(
        BATCH.at_ms, BATCH.generation, BATCH.policy, BATCH.report, accounts=BATCH.accounts, accessed=BATCH.accessed
    )
    assert snapshot.decode(golden["snapshot.full"]) == replace(
        STATE,
        classes=[ClassSnapshot("a", [], 0, 0, NEVER_MS, Flow(), Flow(), CLASS.totals)],
        pipes=[(A, replace(PIPE, channels=[], upstreams=()))],
        buckets=[], virtual=0, seq=0, shares_at_ms=-1, shares=(0,), spare=0, era=STATE.generation, servers=[],
        pools=[],
    )  # fmt: skip


def test_tickets(write_golden: bool) -> None:
    rid = RequestId(b"\xb1\x24\x4d\xbf", 17)
    cases = {
        "ticket": Case((TicketVerdict.GOOD, Ticket(A, 12, 3, 1_700_000_001_000, 250, rid)), issued, checked),
        "ticket.unlimited": Case((TicketVerdict.GOOD, Ticket(A, 12, 3, 1_700_000_001_000, None, rid)), issued, checked),
        "ticket.forwarded": Case(
            (TicketVerdict.GOOD, Ticket(A, 12, 3, 1_700_000_001_000, 250, rid, "192.0.2.7")), issued, checked
        ),
        "ticket.forwarded.ipv6": Case(
            (TicketVerdict.GOOD, Ticket(A, 12, 3, 1_700_000_001_000, 250, rid, "2001:db8::7")), issued, checked
        ),
    }
    check(DATA / "tickets.txt", cases, write=write_golden)


def test_every_type_has_a_golden_value() -> None:
    assert_all_types_occur([NodeBatch, EngineSnapshot], [BATCH, STATE])
