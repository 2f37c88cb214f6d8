"""WV_RFIFO, VS_RFIFO, TRANS_SET and SELF: allowed traces, and each violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import Action, Block, BlockOk, GcsDeliver, GcsSend, GcsView, StartChange
from cluster.specs.self_delivery import SelfSpec
from cluster.specs.trans_set import TransSetSpec
from cluster.specs.vs_rfifo import VsRfifoSpec
from cluster.specs.wv_rfifo import FORGET_EVERY, WvRfifoSpec
from tests.cluster.specs.traces import (
    CRASH,
    CRASH_DISK,
    RECOVER,
    A,
    B,
    C,
    Trace,
    allows,
    each,
    plain,
    preconditions,
    refuses,
    view,
)  # fmt: skip

if TYPE_CHECKING:
    from cluster.names import ProcessId, View
    from cluster.specs.spec import Spec

V2, V3, V4 = view(2, A, B, C), view(3, A, B, C), view(4, A, B, C)
AB3 = view(3, A, B)


def views(v: View, *members: ProcessId) -> list[tuple[ProcessId, Action]]:
    return [(p, GcsView(v, members)) for p in members]


def send(p: ProcessId, *texts: str) -> list[tuple[ProcessId, Action]]:
    return [(p, GcsSend(plain(text))) for text in texts]


def deliver(p: ProcessId, q: ProcessId, *texts: str) -> list[tuple[ProcessId, Action]]:
    return [(p, GcsDeliver(q, plain(text))) for text in texts]


ALL_2 = [(p, GcsView(V2, (p,))) for p in (A, B, C)]  # each from its own v_p
NEXT = "deliver: m = msgs[q][current_view[p]][last_dlvrd[q][p] + 1]"

WV_REFUSED: dict[str, Trace] = {
    "send: after a recovery the client waits for a view": [*ALL_2, (A, CRASH), (A, RECOVER), *send(A, "1")],
    NEXT: [*ALL_2, *send(A, "1", "2"), *deliver(B, A, "2")],
    "view: p in v.set": [(C, GcsView(AB3, (C,)))],
    "view: v.id > current_view[p].id": [*ALL_2, (A, GcsView(view(1, A), (A,)))],
}


@each(WV_REFUSED)
def test_wv_rfifo_refuses(clause: str, trace: Trace) -> None:
    for spec in (WvRfifoSpec(), VsRfifoSpec(), SelfSpec()):
        refuses([spec], trace, clause)


def test_every_clause_is_refused() -> None:
    assert set(WV_REFUSED) == preconditions(WvRfifoSpec)
    assert set(VS_REFUSED) == preconditions(VsRfifoSpec)
    assert set(TS_REFUSED) == preconditions(TransSetSpec)
    assert set(SELF_REFUSED) == preconditions(SelfSpec)


def test_messages_stay_in_their_view() -> None:
    sent = [*ALL_2, *send(A, "1", "2")]
    allows([WvRfifoSpec()], [*sent, *deliver(B, A, "1", "2"), *deliver(A, A, "1"), *deliver(C, A, "1")])
    refuses([WvRfifoSpec()], [*sent, *views(V3, B), *deliver(B, A, "1")], NEXT)
    refuses([WvRfifoSpec()], [*sent, *deliver(B, A, "1", "1")], NEXT)
    refuses([WvRfifoSpec()], [*sent, *deliver(B, C, "1")], NEXT)


def test_the_view_after_a_recovery_is_greater_than_all_before() -> None:
    crashed = [*ALL_2, (A, CRASH), (A, RECOVER)]
    allows([WvRfifoSpec()], [*crashed, *views(V3, A), *send(A, "1"), *deliver(A, A, "1")])
    refuses([WvRfifoSpec()], [*crashed, (A, GcsView(V2, (A,)))], "view: v.id > current_view[p].id")


def test_messages_are_dropped_when_no_member_needs_them() -> None:
    spec = WvRfifoSpec()
    allows([spec], ALL_2)
    for number in range(2 * FORGET_EVERY):
        text = str(number)
        allows([spec], [*send(A, text), *(step for p in (A, B, C) for step in deliver(p, A, text))])
    assert spec.msgs[V2.id][A].low >= FORGET_EVERY
    allows([spec], [*views(V3, A, B), (C, CRASH_DISK), *views(V4, A, B)])
    assert V2.id not in spec.msgs


def test_a_late_member_still_finds_the_messages_of_the_view() -> None:
    allows([WvRfifoSpec()], [*views(V2, A, B), *send(A, "1"), *views(V3, A, B), *views(V2, C), *deliver(C, A, "1")])


VS_REFUSED: dict[str, Trace] = {
    "view: for all q, last_dlvrd[q][p] = cut[current_view[p]][v](q)": [
        *ALL_2, *send(A, "1"), *deliver(B, A, "1"), *views(V3, B, C),
    ],
}  # fmt: skip


@each(VS_REFUSED)
def test_vs_rfifo_refuses(clause: str, trace: Trace) -> None:
    refuses([VsRfifoSpec()], trace, clause)
    allows([WvRfifoSpec()], trace)


def test_only_members_that_move_together_share_a_cut() -> None:
    spec = VsRfifoSpec()
    sent = [*ALL_2, *send(A, "1"), *deliver(A, A, "1"), *deliver(B, A, "1")]
    allows([spec], [*sent, *views(V3, A, B), *views(V4, C, A)])
    assert spec.coverage["set_cut: by the first process that moves from v to v'"] >= 5
    # a recovery is a move to v_p, and no other process comes from there
    allows([VsRfifoSpec()], [*sent, (C, CRASH), (C, RECOVER), *views(V3, A, B, C)])


TS_REFUSED: dict[str, Trace] = {
    "view: prev_view[p][v] = current_view[p], as stated by earlier deliveries of v": [
        *ALL_2, *views(view(3, C), C), (A, GcsView(V4, (A, B, C))), (C, GcsView(V4, (C,))),
    ],
    "view: p in T, for prev_view[p][v] = current_view[p]": [*ALL_2, (A, GcsView(V3, (B,)))],
    "view: T is a subset of v.set and current_view[p].set": [*ALL_2, (A, GcsView(AB3, (A, B, C)))],
    "view: q in T only if prev_view[q][v] = current_view[p]": [
        *ALL_2, *views(view(3, C), C), (C, GcsView(V4, (C,))), (A, GcsView(V4, (A, B, C))),
    ],
    "view: q in T only if q was in current_view[p]": [*views(V2, A), (A, GcsView(V3, (A, B)))],
    "view: q not in T only if prev_view[q][v] /= current_view[p]": [
        *ALL_2, (A, GcsView(V3, (A, B, C))), (B, GcsView(V3, (B, C))),
    ],
}  # fmt: skip


@each(TS_REFUSED)
def test_trans_set_refuses(clause: str, trace: Trace) -> None:
    refuses([TransSetSpec()], trace, clause)


def test_a_transitional_set_constrains_excluded_members() -> None:
    refuses(
        [TransSetSpec()],
        [*ALL_2, (A, GcsView(V3, (A, B))), (C, GcsView(V3, (A, B, C)))],
        "view: prev_view[p][v] = current_view[p], as stated by earlier deliveries of v",
    )


def test_a_member_from_another_view_is_excluded() -> None:
    spec = TransSetSpec()
    apart = [*ALL_2, *views(view(3, C), C)]
    allows([spec], [*apart, *views(V4, A, B), (C, GcsView(V4, (C,)))])
    assert spec.coverage["view: q in both views moves from another view"] == 2


def test_a_member_that_never_delivers_the_view_may_be_in_the_set() -> None:
    allows([TransSetSpec()], [*ALL_2, (A, GcsView(V3, (A, B, C))), (B, GcsView(V3, (A, B, C)))])
    allows([TransSetSpec()], [*ALL_2, (A, GcsView(V3, (A, B))), (B, GcsView(V3, (A, B)))])
    # C was in V2 when it set prev_view; then it crashed
    allows([TransSetSpec()], [*ALL_2, (C, CRASH), (C, RECOVER), (A, GcsView(V3, (A, B, C)))])


def test_a_recovered_process_moves_alone() -> None:
    crashed = [*ALL_2, (C, CRASH), (C, RECOVER)]
    allows([TransSetSpec()], [*crashed, (C, GcsView(V3, (C,))), (A, GcsView(V3, (A, B)))])
    refuses(
        [TransSetSpec()],
        [*crashed, (C, GcsView(V3, (A, B, C)))],
        "view: T is a subset of v.set and current_view[p].set",
    )


def change(p: ProcessId, cid: int = 3) -> tuple[ProcessId, Action]:
    return p, StartChange(cid, (A, B, C))


SELF_REFUSED: dict[str, Trace] = {
    "view: last_dlvrd[p][p] = LastIndexOf(msgs[p][current_view[p]])": [
        *ALL_2, *send(A, "1", "2"), *deliver(A, A, "1"), *views(V3, A),
    ],
    "block: start_change is not bottom": [*ALL_2, (A, Block())],
    "block: block_status = unblocked": [*ALL_2, change(A), (A, Block()), change(A, 4), (A, Block())],
    "block_ok: block_status = requested": [*ALL_2, change(A), (A, BlockOk())],
    "send: block_status /= blocked": [*ALL_2, change(A), (A, Block()), (A, BlockOk()), *send(A, "1")],
}  # fmt: skip


@each(SELF_REFUSED)
def test_self_refuses(clause: str, trace: Trace) -> None:
    refuses([SelfSpec()], trace, clause)


def test_a_client_is_blocked_until_the_next_view() -> None:
    spec = SelfSpec()
    blocked = [*ALL_2, change(A), (A, Block()), *send(A, "1"), (A, BlockOk()), *deliver(A, A, "1")]
    allows([spec], [*blocked, *views(V3, A), *send(A, "2"), change(A, 4), (A, Block()), (A, BlockOk())])
    assert spec.coverage["send: between block and block_ok"] == 1
    assert spec.coverage["view: after own messages"] == 1
    allows([SelfSpec()], [*blocked, (A, CRASH), (A, RECOVER), *views(V3, A), change(A, 4), (A, Block())])
    refuses([SelfSpec()], [*blocked, (A, CRASH), (A, RECOVER), (A, Block())], "block: start_change is not bottom")


def test_history_of_ended_views_is_dropped() -> None:
    specs: list[Spec] = [VsRfifoSpec(), TransSetSpec(), SelfSpec()]
    trace: list[tuple[ProcessId, Action]] = []
    for epoch in range(2, 40):
        v = view(epoch, A, B, C)
        trace += views(v, A, B, C) if epoch > 2 else ALL_2
        trace += send(A, "1")
        trace += [step for p in (A, B, C) for step in deliver(p, A, "1")]
    allows(specs, trace)
    assert isinstance(specs[0], VsRfifoSpec)
    assert isinstance(specs[1], TransSetSpec)
    assert len(specs[0].cut) <= 2
    assert len(specs[0].msgs) <= 2
    assert len(specs[1].prev_view) <= 2
    assert len(specs[1].been_in) <= 2
