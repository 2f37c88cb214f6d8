"""VS and DVS: allowed traces, and each violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import (
    Action,
    DvsNewView,
    DvsReceive,
    DvsRegister,
    DvsSafe,
    DvsSend,
    VsNewView,
    VsReceive,
    VsSafe,
    VsSend,
)  # fmt: skip
from cluster.names import ProcessId, View, ViewId
from cluster.specs.dvs import DvsSpec
from cluster.specs.ordered_views import FORGET_EVERY, OrderedViewsSpec
from cluster.specs.primary_history import PrimaryHistory, is_quorum
from cluster.specs.vs import VsSpec
from tests.cluster.specs.traces import (
    CRASH,
    CRASH_DISK,
    RECOVER,
    A,
    B,
    C,
    D,
    Trace,
    allows,
    batch,
    each,
    preconditions,
    refuses,
    view,
)  # fmt: skip

if TYPE_CHECKING:
    from cluster.specs.spec import Spec

V2, V3 = view(2, A, B, C), view(3, A, B, C)
VS_TO_DVS: dict[type[Action], type[Action]] = {
    VsNewView: DvsNewView, VsSend: DvsSend, VsReceive: DvsReceive, VsSafe: DvsSafe,
}  # fmt: skip


def views(v: View, *members: ProcessId) -> list[tuple[ProcessId, Action]]:
    return [(p, VsNewView(v)) for p in members or v.members]


def send(p: ProcessId, *texts: str) -> list[tuple[ProcessId, Action]]:
    return [(p, VsSend(batch(text))) for text in texts]


def receive(p: ProcessId, q: ProcessId, *texts: str) -> list[tuple[ProcessId, Action]]:
    return [(p, VsReceive(q, batch(text))) for text in texts]


def safe(p: ProcessId, q: ProcessId, *texts: str) -> list[tuple[ProcessId, Action]]:
    return [(p, VsSafe(q, batch(text))) for text in texts]


def as_dvs(trace: Trace) -> Trace:
    """The same trace one layer up."""
    return [
        (p, VS_TO_DVS[type(action)](*(getattr(action, name) for name in action.__struct_fields__)))
        if type(action) in VS_TO_DVS
        else (p, action)
        for p, action in trace
    ]


def all_receive(q: ProcessId, *texts: str) -> list[tuple[ProcessId, Action]]:
    return [step for text in texts for p in (A, B, C) for step in receive(p, q, text)]


FAKE = View(ViewId(2, V2.id.digest), (A, B), (2, 2))  # another view with the id of V2
SENT = [*views(V2), *send(A, "1", "2"), *send(B, "x")]

REFUSED: dict[str, Trace] = {
    "createview: for all w in created, v.id /= w.id": [*views(V2, C), *views(FAKE, A)],
    "newview: p in v.set": views(V2, D),
    "newview: v.id > current-viewid[p]": [*views(V3, A), *views(V2, B, A)],
    "gprcv: g = current-viewid[q] is not bottom": [*views(V2, A, B), *send(A, "1"), *receive(C, A, "1")],
    "order: m is head of pending[p, g]": [*SENT, *receive(B, A, "2")],
    "gprcv: queue[g](next[q, g]) = (m, p)": [*SENT, *receive(B, A, "1"), *receive(C, B, "x")],
    "safe: g = current-viewid[q] is not bottom": [
        *SENT, *all_receive(A, "1"), (B, CRASH), (B, RECOVER), *safe(B, A, "1"),
    ],
    "safe: queue[g](next-safe[q, g]) = (m, p)": [*SENT, *all_receive(A, "1", "2"), *safe(B, A, "2")],
    "safe: for all r in P, next[r, g] > next-safe[q, g]": [
        *SENT, *receive(A, A, "1"), *receive(B, A, "1"), *safe(B, A, "1"),
    ],
}  # fmt: skip


def both() -> list[tuple[Spec, bool]]:
    return [(VsSpec(), False), (DvsSpec(A), True)]


@each(REFUSED)
def test_refused(clause: str, trace: Trace) -> None:
    for spec, is_dvs in both():
        refuses([spec], as_dvs(trace) if is_dvs else trace, clause)


def test_every_clause_is_refused() -> None:
    assert set(REFUSED) == preconditions(OrderedViewsSpec)
    assert set(DVS_REFUSED) == preconditions(DvsSpec)


def test_one_order_in_a_view_and_prefixes_of_it() -> None:
    trace = [
        *SENT,
        *receive(A, A, "1"), *receive(A, B, "x"), *receive(A, A, "2"),
        *receive(B, A, "1"), *receive(B, B, "x"),
        *receive(C, A, "1"), *safe(A, A, "1"), *safe(C, A, "1"),
        *views(V3), *send(A, "3"), *all_receive(A, "3"), *safe(B, A, "3"),
    ]  # fmt: skip
    for spec, is_dvs in both():
        allows([spec], as_dvs(trace) if is_dvs else trace)


def test_messages_of_the_old_view_are_not_received_in_the_new() -> None:
    trace = [*SENT, *views(V3, B), *receive(B, A, "1")]
    refuses([VsSpec()], trace, "order: m is head of pending[p, g]")


def test_views_may_be_created_out_of_order() -> None:
    allows([VsSpec()], [*views(view(5, A, B)), *views(view(4, C)), *views(view(6, C))])


def test_messages_received_before_a_crash_stay_received() -> None:
    trace = [*SENT, *all_receive(A, "1"), (C, CRASH), *safe(A, A, "1"), (C, RECOVER), *views(V3, C), *safe(B, A, "1")]
    for spec, is_dvs in both():
        allows([spec], as_dvs(trace) if is_dvs else trace)


def test_a_recovered_process_is_in_no_view() -> None:
    spec = VsSpec()
    allows([spec], [*SENT, (A, CRASH), (A, RECOVER), *send(A, "4"), *receive(B, A, "1", "2")])
    assert spec.coverage["gpsnd: without a view, no effect"] == 1
    refuses([VsSpec()], [*SENT, (A, CRASH), (A, RECOVER), *views(V2, A)], "newview: v.id > current-viewid[p]")


def test_the_beginning_of_a_long_queue_is_dropped() -> None:
    spec = VsSpec()
    allows([spec], views(V2))
    for number in range(FORGET_EVERY + 1):
        text = str(number)
        allows(
            [spec], [*send(A, text), *all_receive(A, text), *(step for p in V2.members for step in safe(p, A, text))]
        )
    assert spec.sequences[V2.id].queue.low > FORGET_EVERY - 4
    allows([spec], [*views(V3, A, B), (C, CRASH_DISK), *views(view(4, A, B))])
    assert V2.id not in spec.sequences


# ---- DVS alone


def primary(v: View, *members: ProcessId) -> list[tuple[ProcessId, Action]]:
    return [(p, DvsNewView(v)) for p in members or v.members]


def register(*members: ProcessId) -> list[tuple[ProcessId, Action]]:
    return [(p, DvsRegister()) for p in members]


AB, ABC = view(2, A, B), view(3, A, B, C)
IN_ABC = [*primary(AB), *register(A, B), *primary(ABC)]
INTERSECT = "createview: for all w in created, some x in TotReg is between v and w, or v.set and w.set intersect"

DVS_REFUSED: dict[str, Trace] = {INTERSECT: [*IN_ABC, *register(A, B), *primary(view(4, D))]}


@each(DVS_REFUSED)
def test_dvs_refuses(clause: str, trace: Trace) -> None:
    refuses([DvsSpec(A)], trace, clause)


def test_the_founder_alone_is_the_first_primary() -> None:
    refuses([DvsSpec(A)], primary(view(2, B, C), B), INTERSECT)
    allows([DvsSpec(A)], primary(view(2, A, B)))


def test_a_totally_registered_view_stands_for_all_before_it() -> None:
    spec = DvsSpec(A)
    later = view(5, B, C)
    allows([spec], [*primary(AB), *register(A, B), *primary(later), *register(B, C), *primary(view(6, C, D))])
    assert spec.coverage["register: the view is totally registered"] == 2
    # {C, D} has nothing in common with {A, B}; only that {B, C} registered in between makes it primary
    unregistered = [*primary(AB), *register(A, B), *primary(later), *register(B)]
    refuses([DvsSpec(A)], [*unregistered, *primary(view(6, C, D), C)], INTERSECT)


def test_out_of_order_creation_looks_upwards_too() -> None:
    upper = [*primary(AB), *register(A, B), *primary(view(9, A), A)]
    refuses([DvsSpec(A)], [*upper, *primary(view(5, B))], INTERSECT)
    allows([DvsSpec(A)], [*upper, *primary(view(5, A, B), B)])


def test_registering_without_a_view_has_no_effect() -> None:
    spec = DvsSpec(A)
    allows([spec], [*register(B), *primary(AB), (B, CRASH), (B, RECOVER), *register(B)])
    assert spec.coverage["register: without a view, no effect"] == 2
    assert not spec.history.is_tot_reg(AB.id)


# ---- the history of primary views


def test_between() -> None:
    history = PrimaryHistory(view(0, A))
    for epoch in (2, 3, 4, 6):
        history.attempt(view(epoch, A, B), A)
    assert history.register(view(3, A, B).id, A) is False
    assert history.register(view(3, A, B).id, B) is True
    assert [v.id.epoch for v in history.below(view(6, A, B).id)] == [4, 3]
    assert [v.id.epoch for v in history.below(view(3, A, B).id)] == [2, 0]
    assert [v.id.epoch for v in history.above(view(0, A).id)] == [2, 3]
    assert [v.id.epoch for v in history.above(view(5, C).id)] == [6]
    latest = history.latest_tot_reg_below(view(6, A, B).id)
    assert latest is not None
    assert latest.id.epoch == 3
    assert history.latest_tot_reg_below(view(0, A).id) is None


def test_quorums_of_a_view_intersect() -> None:
    w = view(1, A, B, C, D)
    assert is_quorum((A, B), w)
    assert not is_quorum((C, D), w)
    assert is_quorum((B, C, D), w)
    assert not is_quorum((B, C), w)
    assert is_quorum((B, A), view(1, A, B, C))
    assert not is_quorum((A,), view(1, A, B, C))
