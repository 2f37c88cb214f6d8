"""FIFO_SRB: allowed traces, each violation, and what a view change may lose."""

from __future__ import annotations

import pytest

from cluster.actions import (
    Action,
    GcsView,
    ReportBroadcast,
    ReportDeliver,
    ReportEnqueue,
    ReportForget,
    ReportPurge,
    ReportSafe,
    StartChange,
)
from cluster.names import ProcessId
from cluster.reports.messages import Origin
from cluster.specs.services.reports import ReportsSpec
from cluster.specs.spec import Violation
from tests.cluster.specs.traces import CRASH, RECOVER, A, B, C, Trace, allows, each, preconditions, refuses, view

X = Origin(A, 1)
E = ProcessId("e")
Steps = list[tuple[ProcessId, Action]]


def entered(*members: ProcessId, epoch: int = 2, together: tuple[ProcessId, ...] | None = None) -> Steps:
    """All members enter one view together."""
    v = view(epoch, *members)
    return [(p, GcsView(v, members if together is None else together)) for p in members]


def said(*items: str, origin: Origin = X, first: int = 1) -> Steps:
    """The origin broadcasts reports of these items, numbered from `first`, and holds them."""
    found: Steps = []
    for number, item in enumerate(items, first):
        found.append((origin.process, ReportBroadcast(origin, number, item, b"%d" % number)))
        found.append((origin.process, ReportEnqueue(origin, number, origin.process)))
    return found


def got(at: ProcessId, number: int, item: str, origin: Origin = X) -> tuple[ProcessId, Action]:
    return at, ReportDeliver(origin, number, item, b"%d" % number)


def has(at: ProcessId, number: int, origin: Origin = X, via: ProcessId | None = None) -> tuple[ProcessId, Action]:
    return at, ReportEnqueue(origin, number, via or origin.process)


THREE = entered(A, B, C)
M123 = said("x", "y", "x")  # m1, m2, m3 of section 2.2: m3 makes m1 obsolete

REFUSED: dict[str, Trace] = {
    "broadcast: the origin is the process itself": [(B, ReportBroadcast(X, 1, "x", b"1"))],
    "broadcast: next(m, O_ii)": [(A, ReportBroadcast(X, 2, "x", b"2"))],
    "enqueue: everything was broadcast before": [has(B, 1)],
    "enqueue: m not in Q_i": [*THREE, *M123, has(B, 2), has(B, 2)],
    "enqueue: sent by a member of the view": [*entered(A), *M123, has(B, 2)],
    "safe: more than f members of the view hold the report": [*THREE, *M123, has(B, 2), (A, ReportSafe(X, 3))],
    "purge: m < m'": [*M123, (A, ReportPurge(X, 1, 2))],
    "purge: m' is in the same buffer": [*THREE, *M123, has(B, 2), (B, ReportPurge(X, 1, 3))],
    "purge: safe_i(m')": [*THREE, *M123, (A, ReportPurge(X, 1, 3))],
    "integrity: m was broadcast before": [*THREE, *said("x"), got(B, 1, "y")],
    "integrity: m is delivered once": [*THREE, *said("x"), got(B, 1, "x"), got(B, 1, "x")],
    "FIFO order: no later report was delivered before": [*THREE, *M123, got(B, 2, "y"), got(B, 1, "x")],
    "no report is skipped without a successor": [*THREE, *said("x", "y"), got(B, 2, "y")],
    "deliver: the process was in a view with the origin": [*entered(A), *said("x"), *entered(B, C), got(B, 1, "x")],
    "forget: the origin did not move into the view with the process": [*THREE, *said("x"), (B, ReportForget(X))],
}


@each(REFUSED)
def test_a_wrong_step_is_rejected(clause: str, trace: Trace) -> None:
    refuses([ReportsSpec()], trace, clause)


def test_every_precondition_has_a_trace_or_an_end() -> None:
    assert preconditions(ReportsSpec) == REFUSED.keys() | ENDS.keys()


def test_a_purge_after_the_successor_is_safe_is_allowed() -> None:
    allows([ReportsSpec()], [*THREE, *M123, has(B, 3), (A, ReportSafe(X, 3)), (A, ReportPurge(X, 1, 3))])


def test_an_acknowledgement_of_an_earlier_life_does_not_count() -> None:
    again = [*entered(A, B, C, epoch=3, together=(A, C))]
    refuses(
        [ReportsSpec()],
        [*THREE, *M123, has(B, 3), (B, CRASH), (B, RECOVER), *again, (A, ReportSafe(X, 3))],
        "safe: more than f members of the view hold the report",
    )


def test_a_view_with_an_earlier_life_of_the_origin_is_not_a_view_with_the_origin() -> None:
    again = [(A, CRASH), (A, RECOVER), *said("x", origin=Origin(A, RECOVER.boot))]
    refuses(
        [ReportsSpec()],
        [*THREE, *again, got(B, 1, "x", Origin(A, RECOVER.boot))],
        "deliver: the process was in a view with the origin",
    )


def test_a_member_that_crashed_before_anybody_entered_the_view_is_there_in_its_earlier_life() -> None:
    v = view(3, A, B)
    joins = [(A, StartChange(v.start_id(A), v.members)), *said("x"), (A, CRASH), (A, RECOVER), (B, GcsView(v, (B,)))]
    allows([ReportsSpec()], [*joins, has(B, 1), got(B, 1, "x")])


def test_a_crash_before_the_life_was_on_the_disk_begins_no_other_life() -> None:
    again = [(A, CRASH), (A, RECOVER), (A, CRASH), (A, RECOVER), *entered(A, B, epoch=3, together=())]
    x2 = Origin(A, RECOVER.boot)
    allows([ReportsSpec()], [*again, *said("x", origin=x2), has(B, 1, x2), got(B, 1, "x", x2)])


def test_a_crashed_member_of_the_view_counts_as_one_of_the_f() -> None:
    allows([ReportsSpec()], [*THREE, *M123, has(B, 3), (B, CRASH), (A, ReportSafe(X, 3)), (A, ReportPurge(X, 1, 3))])


# ---- the end of a run


def ended(trace: Trace, *running: ProcessId) -> str:
    """The clause that the end of this run violates ('' if none)."""
    spec = ReportsSpec()
    allows([spec], trace)
    try:
        spec.judge_end({p: spec.lives[p] + 1 for p in running})
    except Violation as violation:
        return violation.clause
    return ""


SELF = [got(A, 2, "y"), got(A, 3, "x")]
GONE = entered(B, C, epoch=3)
ENDS: dict[str, tuple[Trace, tuple[ProcessId, ...]]] = {
    "validity: a broadcast report is delivered": ([*THREE, *M123, got(A, 1, "x")], (A,)),
    "agreement: every member delivers the current value of every member's item": (
        [*THREE, *M123, *SELF, got(B, 2, "y")],
        (A, B),
    ),
    "agreement: members that move together deliver what one of them delivered": (
        [*THREE, *M123, has(B, 1), got(B, 1, "x"), *GONE],
        (B, C),
    ),
    "FIFO completeness: what was broadcast before is delivered or obsolete": (
        [*THREE, *M123, got(B, 2, "y"), got(C, 2, "y"), (A, CRASH), *GONE],
        (B, C),
    ),
}


@pytest.mark.parametrize("clause", ENDS)
def test_a_wrong_end_is_rejected(clause: str) -> None:
    trace, running = ENDS[clause]
    assert ended(trace, *running) == clause


def test_a_successor_takes_the_place_of_a_report() -> None:
    assert ended([*THREE, *M123, *SELF, got(B, 2, "y"), got(B, 3, "x")], A, B) == ""


def test_a_newcomer_needs_every_current_value() -> None:
    joined = [*THREE, *M123, *SELF, *entered(A, E, epoch=3, together=(A,))]
    assert ended([*joined, got(E, 2, "y")], A, E) == (
        "agreement: every member delivers the current value of every member's item"
    )
    assert ended([*joined, got(E, 2, "y"), got(E, 3, "x")], A, E) == ""


def test_what_nobody_delivered_may_be_lost_with_its_sender() -> None:
    assert ended([*THREE, *M123, got(B, 1, "x"), got(C, 1, "x"), (A, CRASH), *GONE], B, C) == ""


def test_members_that_met_later_owe_each_other_nothing_of_an_origin_that_is_gone() -> None:
    alone = [*entered(A, B), *said("x"), got(B, 1, "x"), (A, CRASH)]
    assert ended([*alone, *entered(B, C, epoch=3, together=(B,))], B, C) == ""


def test_completeness_may_be_lost_with_more_than_f_members() -> None:
    """b and c moved on from a view of five: three of its members are gone."""
    five = entered(A, B, C, ProcessId("d"), E)
    assert ended([*five, *M123, got(B, 2, "y"), got(C, 2, "y"), *GONE], B, C) == ""


def test_completeness_holds_for_newcomers() -> None:
    """a was alone: m3 was safe, and m1 purged. b and c must not take m2 without m3."""
    alone = [*entered(A), *M123, (A, ReportSafe(X, 3)), (A, ReportPurge(X, 1, 3))]
    torn = [got(B, 2, "y"), got(C, 2, "y"), (A, CRASH), *GONE]
    assert ended([*alone, *entered(A, B, C, epoch=2, together=()), *torn], B, C).startswith("FIFO completeness")


def test_a_forwarded_report_is_owed_to_the_same_members() -> None:
    """b took a report from a, passed it on to c and crashed. c owes it to d, which was there, and not to e."""
    d = ProcessId("d")
    four = [*entered(A, B, C, d), *said("x"), has(B, 1), got(B, 1, "x"), (A, CRASH), *entered(B, C, d, epoch=3)]
    passed = [*four, has(C, 1, via=B), got(C, 1, "x"), (B, CRASH), *entered(C, d, epoch=4)]
    with_e = [*passed, *entered(C, d, E, epoch=5, together=(C, d))]
    assert ended(with_e, C, d, E).startswith("agreement: members that move together")
    assert ended([*with_e, has(d, 1, via=C), got(d, 1, "x")], C, d, E) == ""


def test_a_forgotten_origin_is_new() -> None:
    away = [*entered(A, B), *said("x"), got(A, 1, "x"), got(B, 1, "x"), *entered(B, epoch=3), (B, ReportForget(X))]
    back = [*entered(A, B, epoch=4, together=()), has(B, 1), got(B, 1, "x")]
    assert ended([*away, *back], A, B) == ""
