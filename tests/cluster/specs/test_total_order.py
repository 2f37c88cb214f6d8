"""TO and REPLICA: allowed traces, and each violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import (
    Action,
    Applied,
    Broadcast,
    CatchUp,
    Confirm,
    Deliver,
    DvsNewView,
    DvsRegister,
    Established,
    Resolved,
    StateDigest,
    Submitted,
)  # fmt: skip
from cluster.entries import CHECKPOINT, Entry
from cluster.names import Label, ProcessId
from cluster.specs.replica import DIGESTS, ReplicaSpec
from cluster.specs.total_order import TotalOrderSpec
from tests.cluster.specs.traces import (
    CRASH,
    RECOVER,
    VIEW_ENTRY,
    A,
    B,
    C,
    D,
    Trace,
    allows,
    each,
    entry,
    label,
    preconditions,
    refuses,
    view,
    view_label,
)  # fmt: skip

if TYPE_CHECKING:
    from cluster.specs.spec import Spec

V1, V2 = view(1, A, B, C), view(2, A, B, C)
Steps = list[tuple[ProcessId, Action]]


def cast(p: ProcessId, *texts: str) -> Steps:
    return [(p, Broadcast(entry(text))) for text in texts]


def deliver(p: ProcessId, position: int, of: Label, what: str | Entry) -> tuple[ProcessId, Action]:
    return p, Deliver(position, of, entry(what) if isinstance(what, str) else what)


A1, A2, A3, B1 = label(1, 1, A), label(1, 2, A), label(1, 3, A), label(1, 1, B)
BASIS: Steps = [
    *((p, Established(V1, 1)) for p in (A, B, C)),
    (A, Confirm(1)),
    (A, Deliver(0, view_label(V1), VIEW_ENTRY)),
    *cast(A, "x", "y"),
    *cast(B, "z"),
    (A, Confirm(4)),
]
ORDER = [(A1, "x"), (B1, "z"), (A2, "y")]  # at positions 1, 2, 3


def all_deliver(p: ProcessId, start: int = 1, end: int = 4) -> Steps:
    first: Steps = [(p, Deliver(0, view_label(V1), VIEW_ENTRY))] if start == 0 else []
    return first + [deliver(p, i, *ORDER[i - 1]) for i in range(max(1, start), end)]


TO_REFUSED: dict[str, Trace] = {
    "to-order: the labels of an origin increase": [*BASIS, deliver(A, 1, A2, "x"), deliver(A, 2, A1, "y")],
    "to-order: an entry without an origin is a change of view": [*BASIS, deliver(A, 1, view_label(V2), "x")],
    "to-order: a change of view ends the order that its members built on": [
        *BASIS, (A, Established(V2, 4)), (A, Deliver(1, view_label(V2), VIEW_ENTRY)),
    ],
    "to-order: a change of view has no origin": [*BASIS, (A, Deliver(1, A1, VIEW_ENTRY))],
    "to-order: a is head of pending[p]": [*BASIS, deliver(A, 1, A1, "y")],
    "deliver: after a recovery, at most where p was": [*BASIS, (A, CRASH), (A, RECOVER), deliver(A, 2, A1, "x")],
    "deliver: i = next[p]": [*BASIS, deliver(A, 2, A1, "x")],
    "deliver: some process confirmed the entry": [*BASIS, *all_deliver(A), *cast(A, "w"), deliver(A, 4, A3, "w")],
    "deliver: queue(next[p]) = (a, p)": [*BASIS, *all_deliver(A), *all_deliver(B, 0, 1), deliver(B, 1, B1, "z")],
    "catch_up: never back to before next[p]": [*BASIS, *all_deliver(A), (A, CatchUp(2))],
    "catch_up: some process delivered all entries below": [*BASIS, *all_deliver(A), (B, CatchUp(5))],
    "digest: after a recovery, of entries that some process delivered": [
        *BASIS, *all_deliver(A), (B, CRASH), (B, RECOVER), (B, StateDigest(5, "d")),
    ],
    "confirm: nextconfirm never decreases": [*BASIS, (A, Confirm(3))],
    "established: p in v.set": [(D, Established(V1, 1))],
    "established: all members build on the same order": [(A, Established(V1, 1)), (B, Established(V1, 2))],
    "register: established[current]": [*BASIS, (A, DvsNewView(V2)), (A, DvsRegister())],
    "established: entries delivered by p are in the order": [*BASIS, *all_deliver(A), (A, Established(V2, 4))],
}  # fmt: skip


@each(TO_REFUSED)
def test_to_refuses(clause: str, trace: Trace) -> None:
    refuses([TotalOrderSpec()], trace, clause)


def test_every_clause_is_refused() -> None:
    assert set(TO_REFUSED) == preconditions(TotalOrderSpec)
    assert set(REPLICA_REFUSED) == preconditions(ReplicaSpec)


def test_all_processes_deliver_one_order() -> None:
    allows([TotalOrderSpec()], [*BASIS, *all_deliver(A), *all_deliver(B, 0), *all_deliver(C, 0, 3)])


def test_a_recovered_process_delivers_again_from_any_earlier_position() -> None:
    for start in range(1, 4):
        spec = TotalOrderSpec()
        allows([spec], [*BASIS, *all_deliver(A), (A, CRASH), (A, RECOVER), *all_deliver(A, start)])
        assert spec.coverage["deliver: again, after a recovery"] == 1
    refuses(
        [TotalOrderSpec()],
        [*BASIS, *all_deliver(A), (A, CRASH), (A, RECOVER), deliver(A, 1, B1, "z")],
        "deliver: queue(next[p]) = (a, p)",
    )
    refuses(
        [TotalOrderSpec()],
        [*BASIS, *all_deliver(A), (A, CRASH), (A, RECOVER), deliver(A, 1, *ORDER[0]), deliver(A, 3, *ORDER[2])],
        "deliver: i = next[p]",
    )


def test_a_snapshot_stands_for_all_entries_below_it() -> None:
    allows([TotalOrderSpec()], [*BASIS, *all_deliver(A), (B, CatchUp(3)), deliver(B, 3, *ORDER[2])])
    # a recovered process may catch up to a position before its last one
    allows([TotalOrderSpec()], [*BASIS, *all_deliver(A), (A, CRASH), (A, RECOVER), (A, CatchUp(2)), *all_deliver(A, 2)])


def test_a_process_recovers_from_a_snapshot_that_its_state_machine_never_got() -> None:
    spec = TotalOrderSpec()
    allows([spec], [*BASIS, *all_deliver(A), (B, CRASH), (B, RECOVER), (B, StateDigest(3, "d")), *all_deliver(B, 3)])
    assert spec.coverage["digest: of a snapshot that p had on its disk only"] == 1


def test_a_crash_may_lose_the_last_broadcast_entries() -> None:
    crashed = [*BASIS, (A, CRASH), (A, RECOVER), *cast(A, "new")]
    allows([TotalOrderSpec()], [*crashed, deliver(B, 0, view_label(V1), VIEW_ENTRY), deliver(B, 1, A1, "new")])
    allows(
        [TotalOrderSpec()],
        [*crashed, *all_deliver(B, 0, 1), deliver(B, 1, A1, "x"), deliver(B, 2, A3, "new")],
    )
    refuses(
        [TotalOrderSpec()],
        [*crashed, *all_deliver(B, 0, 1), deliver(B, 1, A1, "new"), deliver(B, 2, A2, "y")],
        "to-order: a is head of pending[p]",
    )


def test_a_checkpoint_may_be_taken_back() -> None:
    checkpoint = Entry(CHECKPOINT, b"at 5")
    with_one: Steps = [(C, Broadcast(checkpoint)), *cast(C, "after")]
    allows([TotalOrderSpec()], [*BASIS, *with_one, deliver(A, 1, label(1, 1, C), "after")])
    allows(
        [TotalOrderSpec()],
        [*BASIS, *with_one, deliver(A, 1, label(1, 1, C), checkpoint), deliver(A, 2, label(1, 2, C), "after")],
    )
    refuses(
        [TotalOrderSpec()],
        [*BASIS, *with_one, deliver(A, 1, label(1, 1, C), "after"), deliver(A, 2, label(1, 2, C), checkpoint)],
        "to-order: a is head of pending[p]",
    )


def test_old_entries_are_not_compared() -> None:
    spec = TotalOrderSpec(remembered=2)
    allows([spec], [*BASIS, *all_deliver(A), *all_deliver(B, 0)])
    assert spec.coverage["deliver: older than the kept history"] == 2


# ---- the replica


def specs() -> list[Spec]:
    total_order = TotalOrderSpec()
    return [total_order, ReplicaSpec(total_order)]


def submit(p: ProcessId, ticket: int, text: str) -> Steps:
    return [(p, Submitted(ticket, text.encode())), *cast(p, text)]


def delivered(ticket: int, position: int) -> Resolved:
    return Resolved(ticket, True, position, "")


REFUSED = Resolved(2, False, -1, "because")
START: Steps = [
    (A, Established(V1, 1)),
    (A, Confirm(9)),
    (A, Deliver(0, view_label(V1), VIEW_ENTRY)),
    *submit(A, 1, "x"),
    *submit(A, 2, "y"),
    *submit(B, 1, "z"),
]
X, Y = deliver(A, 1, A1, "x"), deliver(A, 2, A2, "y")

REPLICA_REFUSED: dict[str, Trace] = {
    "submit: the ticket is new": [*START, (A, Submitted(2, b"w"))],
    "resolve: the ticket is open": [*START, X, (A, delivered(1, 1)), (A, delivered(1, 1))],
    "resolve: a refused entry was not ordered": [*START, X, Y, (A, REFUSED)],
    "resolve: inside a snapshot only after one": [*START, X, (A, delivered(1, -1))],
    "resolve: delivered here before it is reported": [*START, (A, delivered(1, 1))],
    "resolve: one position resolves one ticket, in order": [*START, X, (A, delivered(1, 1)), (A, delivered(2, 1))],
    "resolve: the entry at this position is the one that was submitted": [*START, X, (A, delivered(2, 1))],
    "deliver: an entry is ordered at most as often as it was submitted, and never after it was refused": [
        *START, *cast(A, "x"), X, Y, deliver(A, 3, A3, "x"),
    ],
    "deliver: after a recovery, from the snapshot of p on, or from the beginning": [
        *START, X, (A, StateDigest(2, "d")), Y, (A, CRASH), (A, RECOVER), (A, StateDigest(2, "d")),
        deliver(A, 3, B1, "z"),
    ],
    "apply: at one position, all state machines get the same entry": [
        *START, (A, Applied(1, A1, entry("x"))), (A, CRASH), (B, Applied(1, B1, entry("z"))),
    ],
    "digest: of exactly the entries that p has applied": [*START, X, (A, StateDigest(1, "d"))],
    "digest: equal at equal positions": [
        *START, X, (A, StateDigest(2, "d")), deliver(B, 0, view_label(V1), VIEW_ENTRY), deliver(B, 1, A1, "x"),
        (B, StateDigest(2, "e")),
    ],
}  # fmt: skip


@each(REPLICA_REFUSED)
def test_replica_refuses(clause: str, trace: Trace) -> None:
    refuses(specs(), trace, clause)


def test_every_submission_has_an_outcome() -> None:
    judges = specs()
    allows(judges, [*START, (A, REFUSED), X, (A, delivered(1, 1)), deliver(A, 2, B1, "z"), (A, StateDigest(3, "d"))])
    assert judges[1].coverage["resolve: refused"] == 1
    assert judges[1].coverage["resolve: delivered"] == 1


def test_a_refused_entry_is_never_ordered() -> None:
    refuses(specs(), [*START, (A, REFUSED), X, Y], "to-order: a is head of pending[p]")


def test_the_outcome_can_be_inside_a_snapshot() -> None:
    judges = specs()
    trace = [*START, *((C, action) for _, action in (START[2], X, Y)), (A, CatchUp(3)), (A, delivered(1, -1))]
    allows(judges, trace)
    assert judges[1].coverage["resolve: inside a snapshot"] == 1


def test_a_crash_loses_waiting_submitters() -> None:
    crashed = [*START, X, (A, CRASH), (A, RECOVER)]
    refuses(specs(), [*crashed, (A, delivered(1, 1))], "resolve: the ticket is open")
    again = [START[2], X, Y, *submit(A, 1, "again"), deliver(A, 3, A3, "again"), (A, delivered(1, 3))]
    allows(specs(), [*crashed, *again])


def test_a_recovered_replica_reports_the_digest_of_its_snapshot() -> None:
    crashed = [*START, X, (A, StateDigest(2, "d")), Y, (A, CRASH), (A, RECOVER)]
    allows(specs(), [*crashed, (A, StateDigest(2, "d")), Y])
    undelivered = "digest: after a recovery, of entries that some process delivered"
    refuses(specs(), [*crashed, (A, StateDigest(4, "d"))], undelivered)


def test_old_digests_are_dropped() -> None:
    judges = specs()
    replica = judges[1]
    assert isinstance(replica, ReplicaSpec)
    for position in range(DIGESTS + 5):
        replica.state_digest_eff(StateDigest(position, ""), A)
    assert len(replica.digests) == DIGESTS
