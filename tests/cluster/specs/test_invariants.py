"""The invariants: each clause is violated once, by a trace or by a state.

4.2, 5.5 and 6.2 follow from clauses checked before them, so no trace violates them alone; they are called directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from cluster.actions import (
    Action,
    Block,
    BlockOk,
    DvsNewView,
    DvsRegister,
    DvsSend,
    Established,
    GcsDeliver,
    GcsSend,
    GcsView,
    LinkDeliver,
    LinkReliable,
    LinkSend,
    MembershipView,
    StartChange,
    VsNewView,
    VsReceive,
    VsSend,
)  # fmt: skip
from cluster.fifo_multicast import SenderState
from cluster.messages import FwdMsg, Info, Summary, SyncMsg
from cluster.names import Label, ProcessId, View, ViewId, founding_view, initial_view
from cluster.specs.checkers import Checkers
from cluster.specs.co_rfifo import CoRfifoSpec
from cluster.specs.invariants.dvs import DvsInvariants
from cluster.specs.invariants.gcs import GcsInvariants
from cluster.specs.invariants.replica import ReplicaInvariants
from cluster.specs.invariants.total_order import TotalOrderInvariants
from cluster.specs.self_delivery import SelfSpec
from cluster.specs.spec import Spec, Violation
from tests.cluster.specs.traces import (
    CRASH,
    RECOVER,
    A,
    B,
    C,
    D,
    Trace,
    allows,
    each,
    entry,
    label,
    plain,
    preconditions,
    refuses,
    view,
)  # fmt: skip

if TYPE_CHECKING:
    from cluster.entries import Entry

V0 = founding_view(A)
E_, F_ = ProcessId("e"), ProcessId("f")
Steps = list[tuple[ProcessId, Action]]


def given(v: View, *members: ProcessId) -> Steps:
    return [(p, VsNewView(v)) for p in members or v.members]


def attempt(v: View, *members: ProcessId) -> Steps:
    return [(p, DvsNewView(v)) for p in members or v.members]


def primary(v: View) -> Steps:
    return [*given(v), *attempt(v)]


def register(*members: ProcessId) -> Steps:
    return [(p, DvsRegister()) for p in members]


def info(p: ProcessId, act: View | None, *amb: View) -> Steps:
    return [(p, VsSend(Info(act, amb)))]


AB, ABC, BC = view(2, A, B), view(3, A, B, C), view(4, B, C)
IN_ABC = [*primary(AB), *register(A, B), *primary(ABC)]  # AB is totally registered, ABC is attempted by all
FAKE = View(ViewId(2, AB.id.digest), (A, C), (2, 2))
CD, ABD, WIDE = view(5, C, D), view(9, A, B, D), view(8, A, C, D, E_, F_)

DVS_TRACES: dict[str, Trace] = {
    "3.1: v.id = v'.id only if v = v'": [*given(AB), *given(FAKE, A)],
    "5.1: v attempted, q in v.set: cur.id_q >= v.id": [*given(AB, A), *attempt(AB, A)],
    "5.2(4): info-sent = (x, X): x in TotReg": [*IN_ABC, *given(BC), *info(B, ABC)],
    "5.2(5): info-sent = (x, X), w in X: x.id < w.id": [*IN_ABC, *given(BC), *info(B, AB, V0)],
    "5.2(6): info-sent[g] = (x, X), w in X or w = x: w.id < g": [*IN_ABC, *info(B, AB, ABC)],
    "5.3(1): info-sent[g] = (x, X), w attempted before g: w in X or w = x or w.id < x.id": [
        *IN_ABC, *given(BC), *info(B, AB),
    ],
    "5.4: v has a majority of each w that a member of v attempted before": [*IN_ABC, *given(CD), *attempt(CD, C)],
    "5.4: a later view has a majority of v, if a member of it attempts v": [
        *primary(AB), *register(A, B), *given(ABD), *attempt(ABD, A), *given(WIDE), *attempt(WIDE, D),
    ],
    "5.6 and 4.1: views with none of TotReg between them intersect": [
        *primary(AB), *given(view(5, C)), *attempt(view(5, C)),
    ],
}  # fmt: skip


@each(DVS_TRACES)
def test_dvs_traces(clause: str, trace: Trace) -> None:
    refuses([DvsInvariants(A)], trace, clause)


def test_a_good_story_of_primary_views() -> None:
    allows(
        [DvsInvariants(A)],
        [
            *given(AB), *info(A, V0), *info(B, None), *attempt(AB), *register(A, B),
            *given(ABC), *info(A, AB), *info(B, V0, AB), *info(C, None), *attempt(ABC), *register(A, B, C),
            (C, CRASH), (C, RECOVER), *register(C),
            *given(BC), *info(C, AB, ABC), *info(B, ABC), *attempt(BC), *register(B, C),
        ],
    )  # fmt: skip


@dataclass
class Primary:
    act: View | None = AB
    amb: dict[ViewId, View] = field(default_factory=lambda: {ABC.id: ABC})
    cur: View | None = ABC
    client_cur: View | None = ABC


@dataclass
class Order:
    log: list[tuple[Label, Entry]] = field(default_factory=list)
    next_confirm: int = 0
    high_primary: ViewId | None = AB.id
    base: int = 0
    current: View | None = AB
    status: str = "normal"
    next_report: int = 0


@dataclass
class Process:
    primary: Primary = field(default_factory=Primary)
    total_order: Order = field(default_factory=Order)
    endpoint: Endpoint | None = None
    replica: Replica = field(default_factory=lambda: Replica())


@dataclass
class Replica:
    primary: View | None = None


def judged(specs: list[Spec], trace: Trace, at: ProcessId, joint: dict[ProcessId, Process]) -> str:
    """The clause that the state of `at` violates after this trace, or ''."""
    checkers = Checkers(A, specs)
    for p, action in trace:
        checkers.observe(p, action)
    try:
        checkers.after(at, joint)  # type: ignore[arg-type]
        checkers.after_all(joint)  # type: ignore[arg-type]
    except Violation as violation:
        return violation.clause if f"at {violation.at}" in str(violation) else ""
    return ""


DVS_STATES = [
    (Primary(act=ABC, amb={}), "5.2(1): act_p in TotReg"),
    (Primary(amb={V0.id: V0}), "5.2(2): w in amb: act.id < w.id"),
    (Primary(client_cur=AB), "5.2(3): w in use: w.id <= cur.id, and w.id < cur.id until cur is attempted"),
    (Primary(amb={}), "5.3(2): info-rcvd = (x, X), w in X or w = x: w in use or w.id < act.id"),
]
TOLD = [*IN_ABC, (B, VsReceive(C, Info(AB, (ABC,))))]


@pytest.mark.parametrize(("state", "clause"), DVS_STATES)
def test_dvs_states(state: Primary, clause: str) -> None:
    assert judged([DvsInvariants(A)], TOLD, B, {B: Process(state)}) == clause


def test_dvs_good_states() -> None:
    for state in (Primary(), Primary(act=None, amb={ABC.id: ABC, AB.id: AB}), Primary(cur=None, client_cur=None)):
        assert judged([DvsInvariants(A)], TOLD, B, {B: Process(state)}) == ""


def test_invariants_that_follow_from_the_others() -> None:
    dvs = DvsInvariants(A)
    dvs.tot_att_max = AB.id
    with pytest.raises(Violation, match=r"4\.2: "):
        dvs.invariant_4_2()
    with pytest.raises(Violation, match=r"5\.5: "):
        dvs.invariant_5_5(CD, AB)
    with pytest.raises(Violation, match=r"6\.2: "):
        TotalOrderInvariants(dvs).invariant_6_2(AB.id)


def test_every_clause_of_dvs_is_broken() -> None:
    broken = {*DVS_TRACES, *(clause for _, clause in DVS_STATES)}
    alone = {clause for clause in preconditions(DvsInvariants) if clause.startswith(("4.2", "5.5"))}
    assert len(alone) == 2
    assert broken | alone == preconditions(DvsInvariants)


# ---- TO-IMPL

X, Y, Z = label(2, 1, A), label(2, 2, A), label(2, 1, B)


def summary(p: ProcessId, high: View | None, next_confirm: int, *tail: Label) -> Steps:
    entries = tuple((each_label, entry("")) for each_label in tail)
    return [(p, DvsSend(Summary(0, next_confirm, entries, (), high.id if high else None, ())))]


def order(*labels: Label, confirmed: int = 0, high: View = AB) -> Process:
    nothing = Primary(act=None, amb={}, cur=None, client_cur=None)
    return Process(nothing, Order([(each_label, entry("")) for each_label in labels], confirmed, high.id))


def to_impl() -> list[Spec]:
    dvs = DvsInvariants(A)
    return [dvs, TotalOrderInvariants(dvs)]


DECREASES = "allconfirm: nextconfirm_p never decreases"
DURABLE = "durable: entries confirmed in a view of p are on the disk of p"
IN_AB = [*primary(AB), *((p, Established(AB, 1)) for p in (A, B)), *register(A, B)]
HIGH = "6.1: x in allstate: x.high is a created view that all its members attempted"
BUILT = "6.3: the order that all processes leaving v had built there is in every order built on a later view"
LEFT_AB = [*IN_AB, *given(ABC), *attempt(ABC), *summary(A, AB, 1, X, Y), *summary(B, AB, 1, X), *summary(C, None, 0)]
IN_ABC_NOW = [*LEFT_AB, (C, Established(ABC, 3))]

TO_STATES = [
    (IN_AB, {A: order(high=ABC)}, HIGH),
    (IN_ABC_NOW, {C: order(V0_LABEL := label(2, 0, B), Z, high=ABC)}, BUILT),
    (IN_AB, {A: order(X, confirmed=2)}, "allconfirm: confirmed entries are in the order"),
    (
        IN_AB,
        {A: order(X, confirmed=1), B: order(X, Y, confirmed=2)},
        "confirm: all members of the view have the label there",
    ),
]


@pytest.mark.parametrize(("trace", "joint", "clause"), TO_STATES)
def test_to_states(trace: Trace, joint: dict[ProcessId, Process], clause: str) -> None:
    assert judged(to_impl(), trace, max(joint), joint) == clause


def test_confirmed_orders_are_equal() -> None:
    specs = to_impl()
    assert judged(specs, IN_AB, A, {A: order(X, Y, confirmed=2)}) == ""
    assert judged(specs, [], B, {B: order(X, Y, Z, confirmed=2)}) == ""
    clause = "allconfirm: confirmed orders are prefixes of one another"
    assert judged(specs, [], C, {C: order(X, Z, confirmed=2)}) == clause


def test_confirmed_entries_stay_confirmed() -> None:
    specs = to_impl()
    assert judged(specs, IN_AB, A, {A: order(X, Y, confirmed=2)}) == ""
    assert judged(specs, [(A, Established(ABC, 3))], A, {A: order(X, Y, confirmed=1)}) == DECREASES
    assert judged(specs, [(A, CRASH), (A, RECOVER)], A, {A: order(X, Y, confirmed=1)}) == ""


def test_confirmed_entries_survive_a_crash() -> None:
    back = [(B, CRASH), (B, RECOVER)]
    for state, clause in (
        (order(X, Y, Z), ""),
        (order(X), DURABLE),
        (order(X, Z), DURABLE),
    ):
        specs = to_impl()
        assert judged(specs, IN_AB, A, {A: order(X, Y, confirmed=2), B: order(X, Y)}) == ""
        assert judged(specs, back, B, {B: state}) == clause


def test_summaries_are_states_too() -> None:
    refuses(to_impl(), [*IN_AB, *given(ABC), *attempt(ABC, A), *summary(A, ABC, 0)], HIGH)
    allows(to_impl(), LEFT_AB)


def test_orders_that_keep_what_was_built() -> None:
    for state in (order(V0_LABEL, X, high=ABC), order(V0_LABEL, X, Z, high=ABC)):
        assert judged(to_impl(), IN_ABC_NOW, C, {C: state}) == ""
    # a member left without having established the view: nothing is required
    alone = [*IN_AB[:-4], *register(A), *given(ABC), *attempt(ABC), *summary(B, None, 0), *summary(A, AB, 1, X)]
    assert judged(to_impl(), [*alone, (C, Established(ABC, 3))], C, {C: order(V0_LABEL, Z, high=ABC)}) == ""


def test_every_clause_of_to_is_broken() -> None:
    broken = {clause for _, _, clause in TO_STATES} | {
        "allconfirm: confirmed orders are prefixes of one another",
        DURABLE,
        DECREASES,
    }
    alone = {clause for clause in preconditions(TotalOrderInvariants) if clause.startswith("6.2")}
    assert len(alone) == 1
    assert broken | alone == preconditions(TotalOrderInvariants)


# ---- GCS

V2 = view(2, A, B)
SYNC = SyncMsg(3, V2.id, (1, 0))
MESSAGE = "7.1.2: msgs[q][v][i] is what q sent as the i-th message in v"


@dataclass
class Endpoint:
    current_view: View = V2
    mbrshp_view: View = V2
    start_change_now: tuple[int, tuple[ProcessId, ...]] | None = (3, (A, B))
    sync_msg: dict[ProcessId, SyncMsg] = field(default_factory=lambda: {A: SYNC})
    reliable_set: tuple[ProcessId, ...] = (A, B)
    block_status: str = "blocked"
    of: dict[ProcessId, SenderState] = field(default_factory=lambda: {A: source(A, "m"), B: source(B)})
    sync_before: dict[ProcessId, SyncMsg] = field(default_factory=dict)


def source(p: ProcessId, *texts: str, delivered: int = 0) -> SenderState:
    made = SenderState(p)
    made.last_dlvrd = delivered
    made.view_msg = V2
    for text in texts:
        made.msgs.append(plain(text))
    return made


def gcs() -> list[Spec]:
    links, client = CoRfifoSpec(), SelfSpec()
    return [links, client, GcsInvariants(links, client)]


ENTERED: Steps = [
    *((p, action) for p in (A, B) for action in (StartChange(2, (A, B)), MembershipView(V2), GcsView(V2, (p,)))),
    (A, LinkReliable((A, B))),
    (A, GcsSend(plain("m"))),
]
BLOCKED: Steps = [*ENTERED, (A, StartChange(3, (A, B))), (A, Block()), (A, BlockOk()), (A, LinkSend((B,), SYNC))]
AFTER_B: Steps = [*BLOCKED, (B, LinkSend((A,), SyncMsg(3, V2.id, (0, 0))))]

GCS_TRACES: dict[str, Trace] = {
    "8.2.1: a view is delivered only if it is the last of MBRSHP, and no start_change came since": [
        *ENTERED, (B, StartChange(3, (A, B))), (B, MembershipView(view(3, A, B))), (B, StartChange(4, (A, B))),
        (B, GcsView(view(3, A, B), (A, B))),
    ],
    "7.2.1: one synchronisation message for one start-change id": [
        *BLOCKED, (A, LinkSend((B,), SyncMsg(3, V2.id, (2, 0)))),
    ],
    MESSAGE: [*ENTERED, (A, LinkSend((B,), FwdMsg(A, V2.id, plain("n"), 1))),
              (B, LinkDeliver(A, FwdMsg(A, V2.id, plain("n"), 1)))],
}  # fmt: skip

LATE: Steps = [*BLOCKED, (B, GcsSend(plain("late"))), (B, GcsSend(plain("later")))]
CUT = "8.1.1: no more is delivered than a synchronisation message of the transitional set commits to"
DROPPED = "6.4: dropped messages were received by all members of the view"
GCS_STATES = [
    (BLOCKED, Endpoint(mbrshp_view=view(2, B)), "7.1.1: p in mbrshp_view.set"),
    (BLOCKED, Endpoint(current_view=view(2, B)), "7.1.1: p in current_view.set"),
    (
        [*BLOCKED, (A, LinkReliable((A,)))],
        Endpoint(),
        "7.1.3: view_msg[p] = current_view only if current_view.set is a subset of reliable_set",
    ),
    (BLOCKED[:-2], Endpoint(), "7.4.1: the end-point and its client have the same block_status"),
    (
        AFTER_B,
        Endpoint(sync_msg={A: SYNC, B: SyncMsg(3, V2.id, (1, 0))}),
        "7.2.1: sync_msg[q][cid] is the same at p and at q",
    ),
    (
        BLOCKED,
        Endpoint(sync_msg={A: SyncMsg(3, V0.id, (1, 0))}),
        "7.3.2: sync_msg[p][start_change.id].view = current_view",
    ),
    (
        BLOCKED,
        Endpoint(sync_msg={A: SyncMsg(4, V2.id, (1, 0))}),
        "7.3.1: id > MBRSHP.start_change[p].id only if sync_msg[p][id] = bottom",
    ),
    (
        [*BLOCKED, (A, StartChange(4, (A, B)))],
        Endpoint(),
        "7.3.1: start_change of p, if there is one, has the id of MBRSHP.start_change[p]",
    ),
    (BLOCKED[:-2], Endpoint(block_status="requested"), "7.4.2: sync_msg[p][start_change.id] only while blocked"),
    (
        BLOCKED,
        Endpoint(sync_msg={A: SyncMsg(3, V2.id, (0, 0))}),
        "7.4.3: sync_msg[p][start_change.id].cut(p) = LastIndexOf(msgs[p][current_view])",
    ),
    (BLOCKED, Endpoint(of={A: source(A, "m"), B: source(B, "never sent")}), MESSAGE),
    (LATE, Endpoint(of={A: source(A, "m"), B: source(B, "late", delivered=1)}), CUT),
    (
        LATE,
        Endpoint(
            mbrshp_view=view(3, A, B),
            sync_msg={A: SYNC, B: SyncMsg(3, V2.id, (1, 1))},
            of={A: source(A, "m"), B: source(B, "late", "later", delivered=2)},
        ),
        CUT,
    ),
]


@each(GCS_TRACES)
def test_gcs_traces(clause: str, trace: Trace) -> None:
    refuses(gcs(), trace, clause)


@pytest.mark.parametrize(("trace", "state", "clause"), GCS_STATES)
def test_gcs_states(trace: Trace, state: Endpoint, clause: str) -> None:
    assert judged(gcs(), trace, A, {A: Process(endpoint=state)}) == clause


def test_gcs_good_states() -> None:
    assert judged(gcs(), BLOCKED, A, {A: Process(endpoint=Endpoint())}) == ""
    assert judged(gcs(), AFTER_B, A, {A: Process(endpoint=Endpoint(sync_msg={A: SYNC, B: AFTER_B[-1][1].body}))}) == ""  # type: ignore[attr-defined]
    fresh = Endpoint(initial_view(A), initial_view(A), None, {}, (A,), "unblocked", {A: SenderState(A)})
    assert judged(gcs(), [*BLOCKED, (A, CRASH), (A, RECOVER)], A, {A: Process(endpoint=fresh)}) == ""
    next_view = view(3, A, B)  # the view was delivered; the synchronisation message stays until the next change
    over = Endpoint(next_view, next_view, None, block_status="unblocked", of={A: SenderState(A), B: SenderState(B)})
    came = (GcsDeliver(A, plain("m")), MembershipView(next_view), GcsView(next_view, (A,)))
    assert judged(gcs(), [*BLOCKED, *((A, action) for action in came)], A, {A: Process(endpoint=over)}) == ""


def test_only_messages_that_all_members_have_are_dropped() -> None:
    dropped = Endpoint()
    dropped.of[A].msgs.drop(1)
    lacking = Endpoint(of={A: source(A), B: source(B)})
    having = Endpoint(of={A: source(A, "m"), B: source(B)})
    elsewhere = Endpoint(current_view=view(3, A, B), of={A: source(A), B: source(B)})
    for other, clause in ((lacking, DROPPED), (having, ""), (elsewhere, "")):
        joint = {A: Process(endpoint=dropped), B: Process(endpoint=other)}
        specs = gcs()
        checkers = Checkers(A, specs)
        for p, action in BLOCKED:
            checkers.observe(p, action)
        if clause:
            with pytest.raises(Violation, match=r"6\.4: dropped messages"):
                checkers.after(A, joint)  # type: ignore[arg-type]
        else:
            checkers.after(A, joint)  # type: ignore[arg-type]


def test_the_cuts_of_others_apply_once_the_view_is_known() -> None:
    state = Endpoint(
        mbrshp_view=view(3, A, B),
        sync_msg={A: SYNC, B: SyncMsg(3, V2.id, (1, 1))},
        of={A: source(A, "m"), B: source(B, "late", delivered=1)},
    )
    assert judged(gcs(), LATE, A, {A: Process(endpoint=state)}) == ""


def test_the_cut_of_a_member_that_moved_on_applies_too() -> None:
    state = Endpoint(
        mbrshp_view=view(3, A, B),
        sync_msg={A: SYNC, B: SyncMsg(4, view(3, A, B).id, (0, 0))},
        sync_before={B: SyncMsg(3, V2.id, (1, 1))},
        of={A: source(A, "m"), B: source(B, "late", delivered=1)},
    )
    assert judged(gcs(), LATE, A, {A: Process(endpoint=state)}) == ""


def test_messages_of_a_future_view_are_compared_too() -> None:
    state = Endpoint()
    state.of[B].view_msg = view(5, A, B)
    state.of[B].later = source(B, "ahead").msgs
    sent = [(B, StartChange(5, (A, B))), (B, MembershipView(view(5, A, B))), (B, GcsView(view(5, A, B), (B,)))]
    assert judged(gcs(), [*BLOCKED, *sent, (B, GcsSend(plain("ahead")))], A, {A: Process(endpoint=state)}) == ""
    assert judged(gcs(), [*BLOCKED, *sent, (B, GcsSend(plain("other")))], A, {A: Process(endpoint=state)}) == MESSAGE


def test_every_clause_of_gcs_is_broken() -> None:
    assert {*GCS_TRACES, *(clause for _, _, clause in GCS_STATES), DROPPED} == preconditions(GcsInvariants)


# ---- REPLICA-IMPL

TOLD_OF_ABC = Replica(ABC)
IN_ORDER = Order(current=ABC, high_primary=ABC.id)
REPLICA_STATES = [
    (
        Process(Primary(cur=BC), IN_ORDER, replica=TOLD_OF_ABC),
        "primary view: the view reported to p is cur and client-cur",
    ),
    (
        Process(Primary(client_cur=AB), IN_ORDER, replica=TOLD_OF_ABC),
        "primary view: the view reported to p is cur and client-cur",
    ),
    (
        Process(Primary(), Order(current=ABC, status="collect"), replica=TOLD_OF_ABC),
        "primary view: the view reported to p is established at p",
    ),
    (
        Process(Primary(), Order(current=AB), replica=TOLD_OF_ABC),
        "primary view: the view reported to p is established at p",
    ),
    (
        Process(Primary(), IN_ORDER),
        "primary view: cur was reported to p, if it is established at p and p delivered all confirmed entries",
    ),
    (
        Process(
            Primary(),
            Order(current=ABC, high_primary=ABC.id, next_confirm=3, next_report=2),
            replica=TOLD_OF_ABC,
        ),
        "primary view: p delivered all entries confirmed before the view reported to p",
    ),
]
CONFIRMED_BEFORE_ABC: Trace = [
    *primary(ABC),
    *((p, DvsSend(Summary(0, count, (), (), AB.id, ()))) for p, count in ((A, 3), (B, 1), (C, 2))),
]


@pytest.mark.parametrize(("state", "clause"), REPLICA_STATES)
def test_replica_states(state: Process, clause: str) -> None:
    assert judged([ReplicaInvariants()], CONFIRMED_BEFORE_ABC, B, {B: state}) == clause


def test_replica_good_states() -> None:
    for state in (
        Process(Primary(), Order(current=ABC, next_confirm=4, next_report=3), replica=TOLD_OF_ABC),
        Process(Primary(cur=BC), IN_ORDER),  # the view ended, and this was reported to p
        Process(Primary(), Order(current=ABC, status="collect")),  # attempted, and not established yet
        Process(Primary(), Order(current=ABC, next_confirm=3, next_report=2)),  # established, and not caught up yet
        Process(Primary(cur=None, client_cur=None), Order(current=None)),  # just started
    ):
        assert judged([ReplicaInvariants()], CONFIRMED_BEFORE_ABC, B, {B: state}) == ""


def test_every_clause_of_the_replica_is_broken() -> None:
    assert {clause for _, clause in REPLICA_STATES} == preconditions(ReplicaInvariants)
