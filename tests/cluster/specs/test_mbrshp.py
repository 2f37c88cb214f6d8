"""MBRSHP: allowed traces, and each violation."""

from __future__ import annotations

from cluster.actions import LinkSend, MembershipView, StartChange
from cluster.messages import SyncMsg
from cluster.specs.mbrshp import MbrshpSpec
from tests.cluster.specs.traces import CRASH, RECOVER, A, B, Trace, allows, each, preconditions, refuses, view

AB = (A, B)
TO_5 = [(A, StartChange(5, AB)), (A, MembershipView(view(5, A, B)))]
SYNC_7 = LinkSend((B,), SyncMsg(7, view(5, A, B).id, (0, 0)))

REFUSED: dict[str, Trace] = {
    "start_change: cid > mbrshp_view[p].startId(p)": [*TO_5, (A, StartChange(5, AB))],
    "start_change: cid >= start_change[p].id": [*TO_5, (A, StartChange(8, AB)), (A, StartChange(7, AB))],
    "start_change: p in set": [(A, StartChange(5, (B,)))],
    "start_change: after a recovery, no other process has seen cid": [
        *TO_5, (A, StartChange(7, AB)), (A, SYNC_7), (A, CRASH), (A, RECOVER), (A, StartChange(7, AB)),
    ],
    "view: p in v.set": [(A, StartChange(5, AB)), (A, MembershipView(view(5, B)))],
    "view: v.id > mbrshp_view[p].id": [
        *TO_5, (A, StartChange(6, AB)), (A, MembershipView(view(4, A, B, cids={A: 6}))),
    ],
    "view: v.set is a subset of start_change[p].set": [(A, StartChange(5, (A,))), (A, MembershipView(view(5, A, B)))],
    "view: v.startId(p) = start_change[p].id": [(A, StartChange(6, AB)), (A, MembershipView(view(7, A, B)))],
    "view: v.startId(p) > mbrshp_view[p].startId(p)": [*TO_5, (A, MembershipView(view(6, A, B, cids={A: 5})))],
    "view: views of one epoch have no member in common": [
        *TO_5, (B, StartChange(5, (B,))), (B, MembershipView(view(5, B))),
    ],
}  # fmt: skip


@each(REFUSED)
def test_refused(clause: str, trace: Trace) -> None:
    refuses([MbrshpSpec()], trace, clause)


def test_every_clause_is_refused() -> None:
    assert set(REFUSED) == preconditions(MbrshpSpec)


def test_clients_may_see_different_views() -> None:
    """Example 4.1.1 of the thesis."""
    spec = MbrshpSpec()
    trace = [
        *((p, StartChange(1, AB)) for p in AB),
        *((p, MembershipView(view(2, A, B, cids={A: 1, B: 1}))) for p in AB),
        (B, StartChange(2, (B,))),
        (B, MembershipView(view(3, B, cids={B: 2}))),
        (A, StartChange(2, AB)),
        (A, StartChange(2, (A, B))),
        (B, StartChange(3, AB)),
        *((p, MembershipView(view(4, A, B, cids={A: 2, B: 3}))) for p in AB),
    ]
    allows([spec], trace)
    assert spec.coverage["start_change: the last id again"] == 1


def test_a_view_may_be_smaller_than_announced() -> None:
    spec = MbrshpSpec()
    allows([spec], [(A, StartChange(5, AB)), (A, MembershipView(view(5, A)))])
    assert spec.coverage["view: smaller than the start_change announced"] == 1


def test_a_recovered_process_needs_a_new_start_change() -> None:
    crashed = [(A, StartChange(5, AB)), (A, CRASH), (A, RECOVER)]
    refuses(
        [MbrshpSpec()],
        [*crashed, (A, MembershipView(view(5, A, B)))],
        "view: v.set is a subset of start_change[p].set",
    )
    # no other process saw the id, so it can be used again
    allows([MbrshpSpec()], [*crashed, (A, StartChange(5, AB)), (A, MembershipView(view(5, A, B)))])
