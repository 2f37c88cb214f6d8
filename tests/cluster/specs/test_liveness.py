"""LIVENESS and TIMING: a correct end of a run, and each violation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from cluster.actions import Action, GcsDeliver, GcsSend, GcsView, MembershipView, StartChange, Submitted
from cluster.names import Label, ProcessId, View, ViewId
from cluster.specs.checkers import Checkers
from cluster.specs.liveness import LivenessSpec, is_primary_allowed
from cluster.specs.replica import ReplicaSpec
from cluster.specs.self_delivery import SelfSpec
from cluster.specs.spec import Violation
from cluster.specs.timing import TimingSpec
from cluster.specs.total_order import TotalOrderSpec
from tests.cluster.specs.traces import A, B, C, entry, label, plain, preconditions, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.entries import Entry

AB, ABC, OLD = view(5, A, B), view(6, A, B, C), view(4, A, B, C)


@dataclass
class Primary:
    act: View | None = ABC
    amb: dict[ViewId, View] = field(default_factory=dict)
    cur: View | None = ABC
    client_cur: View | None = ABC


@dataclass
class TotalOrder:
    current: View | None = ABC
    status: str = "normal"
    base: int = 1
    log: list[tuple[Label, Entry]] = field(default_factory=lambda: [(label(1, 1, A), entry("x"))])
    next_confirm: int = 2
    high_primary: ViewId | None = ABC.id


@dataclass
class Endpoint:
    current_view: View = ABC
    mbrshp_view: View = ABC


@dataclass
class Process:
    primary: Primary = field(default_factory=Primary)
    total_order: TotalOrder = field(default_factory=TotalOrder)
    endpoint: Endpoint = field(default_factory=Endpoint)


class End:
    """A group of three at rest, after one message and two entries."""

    def __init__(self) -> None:
        self.joint = {p: Process() for p in (A, B, C)}
        self.digests = dict.fromkeys(self.joint, "d")
        total_order = TotalOrderSpec()
        self.checkers = Checkers(A, [SelfSpec(), total_order, ReplicaSpec(total_order)])
        for p in self.joint:
            self.see(p, GcsView(ABC, (p,)))
        self.see(A, GcsSend(plain("m")))
        for p in self.joint:
            self.see(p, GcsDeliver(A, plain("m")))
            total_order.next[p] = 2
        self.total_order = total_order

    def see(self, p: ProcessId, action: Action) -> None:
        self.checkers.observe(p, action)

    def judge(self) -> None:
        self.checkers.at_end(self.joint, self.digests)  # type: ignore[arg-type]


def other_view(end: End) -> None:
    end.joint[B].endpoint.mbrshp_view = OLD


def not_all_that_are_up(end: End) -> None:
    del end.joint[C]


def view_not_delivered(end: End) -> None:
    end.joint[B].endpoint.current_view = OLD


def message_not_delivered(end: End) -> None:
    end.see(B, GcsSend(plain("late")))


def not_primary(end: End) -> None:
    end.joint[C].primary.client_cur = OLD


def not_established(end: End) -> None:
    end.joint[C].total_order.status = "collect"


def established_an_older_one(end: End) -> None:
    end.joint[C].total_order.high_primary = OLD.id


def not_registered(end: End) -> None:
    end.joint[C].primary.act = OLD


def not_confirmed(end: End) -> None:
    end.joint[C].total_order.next_confirm = 1


def shorter(end: End) -> None:
    end.joint[C].total_order = TotalOrder(log=[], next_confirm=1)


def not_delivered(end: End) -> None:
    end.total_order.next[B] = 1


def open_submission(end: End) -> None:
    end.see(B, Submitted(1, b"?"))


def different_state(end: End) -> None:
    end.digests[C] = "e"


BAD = [
    (other_view, "5.2.1: MBRSHP gave all running processes one view of exactly them"),
    (not_all_that_are_up, "5.2.1: MBRSHP gave all running processes one view of exactly them"),
    (view_not_delivered, "5.2.2: the stable view is delivered"),
    (message_not_delivered, "5.2.2: every message sent in the stable view is delivered to all its members"),
    (not_primary, "the view of all running processes is primary, if the rules allow it"),
    (not_established, "all members have established the primary view"),
    (established_an_older_one, "all members have established the primary view"),
    (not_registered, "all members know that the primary view is totally registered"),
    (not_confirmed, "all ordered entries are confirmed by all processes"),
    (shorter, "all ordered entries are confirmed by all processes"),
    (not_delivered, "all confirmed entries are delivered by all processes"),
    (open_submission, "every submission has an outcome"),
    (different_state, "all replicas have the same state"),
]


def test_a_good_end() -> None:
    end = End()
    end.judge()
    counts = end.checkers.coverage()["LIVENESS"]
    assert all(counts[clause] for _, clause in BAD)


@pytest.mark.parametrize(("spoil", "clause"), BAD)
def test_a_bad_end(spoil: Callable[[End], None], clause: str) -> None:
    end = End()
    spoil(end)
    with pytest.raises(Violation) as caught:
        end.judge()
    assert caught.value.clause == clause


def test_every_clause_of_liveness_is_broken() -> None:
    assert {clause for _, clause in BAD} == preconditions(LivenessSpec)


def test_no_liveness_is_required_without_a_possible_primary_view() -> None:
    end = End()
    for process in end.joint.values():
        process.primary = Primary(act=view(3, *(ProcessId(name) for name in "uvwx")), client_cur=None)
    end.digests[C] = "e"
    end.judge()
    assert end.checkers.coverage()["LIVENESS"]["the rules allow no primary view any more"] == 1
    Checkers(A).at_end({})


def test_who_may_form_a_primary_view() -> None:
    def allowed(*states: Primary) -> bool:
        return is_primary_allowed({p: Process(s) for p, s in zip((A, B, C), states, strict=False)})  # type: ignore[misc]

    nothing = Primary(act=None)
    far = view(9, B, C, *(ProcessId(name) for name in "xyz"))
    assert not allowed(nothing, nothing)
    assert allowed(Primary(act=AB), nothing)
    assert allowed(Primary(act=AB), Primary(amb={ABC.id: ABC}))
    assert not allowed(Primary(act=AB), Primary(amb={far.id: far}))
    assert allowed(Primary(act=view(10, A)), Primary(amb={far.id: far}))  # settled since


# ---- timing


def times(
    start: tuple[float, float], mview: tuple[float, float], gcview: tuple[float, float], last: View = AB
) -> TimingSpec:
    spec = TimingSpec()
    for p, *at in zip((A, B), start, mview, gcview, strict=True):
        spec.watch(p, StartChange(5, (A, B)), at[0])
        spec.watch(p, MembershipView(AB), at[1])
        spec.watch(p, GcsView(AB if p == A else last, (p,)), at[2])
    return spec


def judge(spec: TimingSpec, *members: ProcessId) -> float:
    return spec.judge(10.0, members or (A, B), detection=1.0, latency=0.1, block_time=0.05)


TIMES = [
    (times((11.0, 11.0), (11.1, 11.1), (11.1, 11.1), ABC), (A, B), "all processes have the same last view"),
    (times((11.0, 11.0), (11.1, 11.1), (11.1, 11.1)), (A, B, C), "all processes have the same last view"),
    (times((11.0, 11.0), (11.1, 11.1), (11.1, 11.1)), (A,), "the view has exactly these members"),
    (times((11.0, 11.2), (11.1, 11.1), (11.1, 11.1)), (A, B), "9.4.1: T[mstart_p] <= T[last-ge] + detection"),
    (times((10.8, 10.9), (11.0, 11.1), (11.0, 11.1)), (A, B), "9.4.2: T[mview_p] <= T[last-mstart] + latency"),
    (
        times((10.8, 10.8), (10.9, 10.9), (10.95, 10.97)),
        (A, B),
        "9.3.2: T[gcview_p] <= max(T[mview_p], T[last-mstart] + c + latency)",
    ),
]


def test_a_change_in_time() -> None:
    assert judge(times((10.9, 11.0), (11.0, 11.1), (11.0, 11.15))) == pytest.approx(1.15)


@pytest.mark.parametrize(("spec", "members", "clause"), TIMES)
def test_a_change_that_takes_too_long(spec: TimingSpec, members: tuple[ProcessId, ...], clause: str) -> None:
    with pytest.raises(Violation) as caught:
        judge(spec, *members)
    assert caught.value.clause == clause


def test_the_composition_of_the_bounds() -> None:
    """9.5.1 follows from the others; it fails alone only when they are not checked."""
    spec = times((10.9, 11.0), (11.0, 11.1), (11.0, 11.3))
    with pytest.raises(Violation, match=r"9\.5\.1: T"):
        spec.invariant_bounds(B, 10.0, 11.2, 1.0, 0.1, 0.05)
    assert {clause for _, _, clause in TIMES} | {"9.5.1: T[gcview_p] <= T[last-ge] + detection + latency + c"} == (
        preconditions(TimingSpec)
    )
