"""EO_FIFO_DS, AO and the lemmas of IADS: every clause rejects a trace that breaks it, and only that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from cluster.actions import (
    InterimApplied,
    InterimLoaded,
    InterimRefresh,
    InterimRequest,
    InterimResponse,
    InterimView,
)
from cluster.interim.replica import NORMAL, ST
from cluster.sim.journal import Journal
from cluster.specs.atomic_object import AoSpec
from cluster.specs.eo_fifo_ds import EoFifoDsSpec
from cluster.specs.interim_liveness import InterimLivenessSpec
from cluster.specs.invariants.interim import InterimInvariants
from cluster.specs.spec import Spec, Violation
from tests.cluster.specs.traces import CRASH, RECOVER, A, B, C, Trace, allows, each, preconditions, refuses, view

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from cluster.specs.invariants.joint import Joint

V1, V2 = view(1, A, B), view(2, A, B, C)


def journal(*operations: tuple[ProcessId, bytes]) -> Journal:
    made = Journal()
    for origin, body in operations:
        made.apply(origin, body, 0.0)
    return made


def merged(*journals: Journal) -> Journal:
    made = Journal()
    made.merge([one.snapshot() for one in journals])
    return made


def result(*operations: tuple[ProcessId, bytes]) -> str:
    """The result of the last of these operations."""
    *before, (origin, body) = operations
    return repr(journal(*before).apply(origin, body, 0.0))


def refresh(state: Journal, *members: ProcessId) -> InterimRefresh:
    return InterimRefresh(members, state.snapshot(), state.digest())


def do(origin: ProcessId, body: bytes, *, at_view_end: bool = False) -> InterimApplied:
    return InterimApplied(origin, body, at_view_end)


EMPTY = Journal()
X, Y = InterimRequest(1, b"x"), InterimRequest(2, b"y")
X_RESULT, Y_AFTER_X = result((A, b"x")), result((A, b"x"), (A, b"y"))
# A and B are in a view of two, and have the empty state
TOGETHER: list[tuple[ProcessId, Any]] = [
    (p, action) for action in (InterimView(V1, (A, B)), refresh(EMPTY, A, B)) for p in (A, B)
]
ANSWERED: Trace = [*TOGETHER, (A, X), (A, do(A, b"x")), (A, InterimResponse(1, X_RESULT))]


def service() -> list[Spec]:
    return [EoFifoDsSpec(Journal)]


def atomic() -> list[Spec]:
    return [AoSpec(Journal)]


def lemmas() -> list[Spec]:
    replicas = EoFifoDsSpec(Journal)
    return [replicas, InterimInvariants(replicas)]


SERVICE: dict[str, list[Trace]] = {
    "response: o is first on ops[p]": [
        [(A, do(A, b"x")), (A, InterimResponse(1, X_RESULT))],
        [(A, X), (A, Y), (A, do(A, b"x")), (A, InterimResponse(2, X_RESULT))],
        [*ANSWERED, (A, InterimResponse(1, X_RESULT))],
        [(A, X), (A, CRASH), (A, RECOVER), (A, do(A, b"x")), (A, InterimResponse(1, X_RESULT))],
    ],
    "response: <x, r> = o(x-), where x- is the state of the replica of p": [
        [(A, X), (A, InterimResponse(1, X_RESULT))],
        [(A, X), (A, do(A, b"x")), (A, InterimResponse(1, Y_AFTER_X))],
        [(A, X), (A, do(B, b"x")), (A, do(A, b"x")), (A, InterimResponse(1, X_RESULT))],
    ],
    "refresh: p in s": [[(A, refresh(EMPTY, B))]],
    "refresh: once in a view": [[*TOGETHER, (A, refresh(EMPTY, A, B))]],
    "load: the replica has what it applied and merged before the crash": [
        [*ANSWERED, (A, CRASH), (A, RECOVER), (A, InterimLoaded(EMPTY.digest()))],
        [(A, refresh(journal((B, b"x")), A)), (A, CRASH), (A, RECOVER), (A, InterimLoaded(EMPTY.digest()))],
    ],
}
ATOMIC: dict[str, list[Trace]] = {
    "10.1.1: base_state is the same for all clients of the view": [
        [*TOGETHER[:3], (B, refresh(journal((A, b"x")), A, B))],
    ],
    "do: operations are applied after the refresh of the view": [[*TOGETHER[:2], (A, X), (A, do(A, b"x"))]],
    "do: all replicas apply the operations of a view in one order": [
        [*TOGETHER, (A, X), (B, X), (A, do(A, b"x")), (B, do(B, b"x"))],
        [*TOGETHER, (A, X), (A, Y), (A, do(A, b"x")), (B, do(A, b"y"))],
    ],
    "do: o = First(ops[q])": [
        [*TOGETHER, (A, do(A, b"x"))],
        [*TOGETHER, (A, X), (A, Y), (B, do(A, b"y"))],
        [*TOGETHER, (A, X), (A, do(A, b"x")), (A, do(A, b"x"))],
    ],
    "response: <o, r> is first on out[p]": [
        [*TOGETHER, (A, X), (A, InterimResponse(1, X_RESULT))],
        [*TOGETHER, (A, X), (A, do(A, b"x")), (A, InterimResponse(1, Y_AFTER_X))],
    ],
}
LEMMAS: dict[str, list[Trace]] = {
    "10.2.1(1): p in SS_p^v, a subset of v.set": [[(A, InterimView(V1, (B,)))], [(A, InterimView(V1, (A, C)))]],
    "10.2.1(2): SS_p^v and SS_q^v are equal or disjoint": [
        [(A, InterimView(V2, (A, B))), (B, InterimView(V2, (A, B, C)))],
        [(A, InterimView(V2, (A, B))), (B, InterimView(V2, (B,)))],
    ],
    "10.2.3: q in SS_p^v implies obj_q^v = obj_p^v": [
        [*ANSWERED, (A, InterimView(V2, (A, B))), (B, InterimView(V2, (A, B)))],
    ],
    "refresh: with the members of the view": [[(A, InterimView(V1, (A, B))), (A, refresh(EMPTY, A, B, C))]],
    "10.2.4: the state of every member is in the merge": [[(A, InterimView(V1, (A,))), (A, refresh(EMPTY, A, B))]],
    "10.2.4: base_obj_p^v = merge({<q, obj_q^v> : q in v.set})": [
        [*TOGETHER[:2], (A, refresh(journal((A, b"x")), A, B))],
        [
            *ANSWERED, (A, InterimView(V2, (A,))), (B, InterimView(V2, (B, C))),
            (A, refresh(journal((A, b"x")), A, B, C)),
        ],
    ],
}  # fmt: skip


def numbered(cases: dict[str, list[Trace]]) -> dict[str, Trace]:
    return {f"{clause} ({number})": trace for clause, traces in cases.items() for number, trace in enumerate(traces)}


@each(numbered(SERVICE))
def test_the_service_refuses(clause: str, trace: Trace) -> None:
    refuses(service(), trace, clause.rpartition(" (")[0])


@each(numbered(ATOMIC))
def test_the_atomic_object_refuses(clause: str, trace: Trace) -> None:
    refuses(atomic(), trace, clause.rpartition(" (")[0])


@each(numbered(LEMMAS))
def test_the_lemmas_refuse(clause: str, trace: Trace) -> None:
    refuses(lemmas(), trace, clause.rpartition(" (")[0])


def test_every_clause_is_refused() -> None:
    assert set(SERVICE) == preconditions(EoFifoDsSpec)
    assert set(ATOMIC) == preconditions(AoSpec)
    assert set(LEMMAS) == preconditions(InterimInvariants) - {"the object is in the state that follows from the trace"}


def test_the_service_allows() -> None:
    x, y = journal((A, b"x")), journal((B, b"x"))
    both = merged(x, y)
    trace: Trace = [
        *ANSWERED,
        (B, do(A, b"x")),
        (A, Y),  # sent, and applied by A alone when the view ends
        (A, do(A, b"y", at_view_end=True)),
        (A, InterimResponse(2, Y_AFTER_X)),
        (A, InterimView(view(2, A), (A,))),
        (A, refresh(journal((A, b"x"), (A, b"y")), A)),
        (A, CRASH),
        (A, RECOVER),
        (A, InterimLoaded(journal((A, b"x"), (A, b"y")).digest())),
    ]
    allows([*lemmas(), *atomic()], trace)
    apart: Trace = [
        (A, X), (A, InterimView(view(1, A), (A,))), (A, refresh(EMPTY, A)), (A, do(A, b"x")),
        (B, X), (B, InterimView(view(1, B), (B,))), (B, refresh(EMPTY, B)), (B, do(B, b"x")),
        (A, InterimView(V2, (A,))), (B, InterimView(V2, (B, C))), (A, refresh(both, A, B, C)),
    ]  # fmt: skip
    allows([*lemmas(), *atomic()], apart)


class EndState:
    """The part of a process that the check of the end reads."""

    def __init__(self, obj: Journal, mode: str = NORMAL) -> None:
        self.interim = self
        self.obj = obj
        self.mode = mode


def ended(trace: Trace, modes: tuple[str, str] = (NORMAL, NORMAL), after: Trace = ()) -> None:
    replicas = EoFifoDsSpec(Journal)
    views = InterimInvariants(replicas)
    liveness = InterimLivenessSpec(replicas, views)
    joint = cast("Joint", {p: EndState(replicas.replica(p), mode) for p, mode in zip((A, B), modes, strict=True)})  # type: ignore[arg-type]
    for at, action in trace:
        replicas.observe(at, action)
        views.observe(at, action)
    liveness.judge_end(joint)
    for at, action in after:
        replicas.observe(at, action)
        views.observe(at, action)
    liveness.judge_stayed(joint)


def test_the_end_of_a_run() -> None:
    ended([*ANSWERED, (B, do(A, b"x"))], after=[(A, Y), (A, do(A, b"y")), (A, InterimResponse(2, Y_AFTER_X)),
                                               (B, do(A, b"y"))])  # fmt: skip


@pytest.mark.parametrize(
    ("clause", "trace", "modes", "after"),
    [
        ("occurs at every client", TOGETHER[:3], (NORMAL, NORMAL), []),
        ("occurs at every client", TOGETHER, (NORMAL, ST), []),
        ("every request has a response", [*TOGETHER, (B, X)], (NORMAL, NORMAL), []),
        ("replicas of the stable set are equal", ANSWERED, (NORMAL, NORMAL), []),
        (
            "no refresh_p follows",
            TOGETHER,
            (NORMAL, NORMAL),
            [(p, action) for action in (InterimView(view(2, A, B), (A, B)), refresh(EMPTY, A, B)) for p in (A, B)],
        ),
    ],
)
def test_the_end_of_a_run_refuses(clause: str, trace: Trace, modes: tuple[str, str], after: Trace) -> None:
    with pytest.raises(Violation, match=clause):
        ended(trace, modes, after)


def test_a_merge_that_forgets_an_answered_operation_is_refused() -> None:
    replicas = EoFifoDsSpec(Journal)
    views = InterimInvariants(replicas)
    for at, action in ANSWERED:
        replicas.observe(at, action)
        views.observe(at, action)
    for p in (A, B):
        replicas.interim_refresh_eff(refresh(EMPTY, A, B), p)
    joint = cast("Joint", {p: EndState(Journal()) for p in (A, B)})
    with pytest.raises(Violation, match="are in the final state"):
        InterimLivenessSpec(replicas, views).judge_end(joint)


def test_an_object_that_differs_from_the_trace_is_refused() -> None:
    replicas = EoFifoDsSpec(Journal)
    views = InterimInvariants(replicas)
    views.after(A, cast("Joint", {A: EndState(Journal())}))
    with pytest.raises(Violation, match="follows from the trace"):
        views.after(A, cast("Joint", {A: EndState(journal((A, b"x")))}))
