"""DATA-S, DATA-D and DATA-SHARING: allowed traces, and each violation."""

from __future__ import annotations

import pytest

from cluster.actions import (
    Action,
    Applied,
    DataGone,
    DataQuery,
    DataReply,
    DataRequest,
    Established,
    Restored,
    VsNewView,
    VsReceive,
    VsSend,
)
from cluster.messages import Expertise, Queries, Query
from cluster.names import ProcessId
from cluster.sim.history_machine import History
from cluster.specs.services.data import DataDelaySpec, DataSpec, OpenRequest
from cluster.specs.services.data_sharing import DataSharingSpec
from cluster.specs.spec import Spec, Violation
from tests.cluster.specs.traces import CRASH, A, B, C, Trace, allows, entry, label, preconditions, refuses, view

Step = tuple[ProcessId, Action]


def make_machine() -> History:
    return History(keep_bodies=False)


def service() -> list[Spec]:
    return [DataSpec(make_machine), DataDelaySpec(make_machine)]


def update(body: bytes = b"u", at: ProcessId = A, client: str = "k", ticket: int = 1, seen: int = 0) -> Step:
    return at, DataRequest(client, ticket, True, body, seen)


def ask(at: ProcessId = A, seen: int = 0, client: str = "k", ticket: int = 2) -> Step:
    return at, DataRequest(client, ticket, False, b"q", seen)


def applied(position: int, text: str, at: ProcessId = A, origin: ProcessId = A) -> Step:
    return at, Applied(position, label(1, position + 1, origin), entry(text))


def state(*texts: str) -> History:
    machine = make_machine()
    for position, text in enumerate(texts):
        machine.apply(position, A, text.encode())
    return machine


def answered(index: int, *texts: str, at: ProcessId = A, client: str = "k") -> Step:
    return at, DataReply(client, 2, False, state(*texts).query(b"q"), index)


OK = (A, DataReply("k", 1, True, b"1", 1))
DONE = [update(), applied(0, "u"), OK]

ALLOWED: dict[str, Trace] = {
    "an update, then a query": [*DONE, ask(seen=1), answered(1, "u")],
    "a query in an older state than the latest": [
        update(client="other"), applied(0, "u"), ask(), answered(0)
    ],
    "the client moves": [*DONE, ask(B, seen=1), applied(0, "u", at=B), answered(1, "u", at=B)],
    "an update whose client left": [update(), (A, DataGone("k")), applied(0, "u"), ask(), answered(1, "u")],
    "the process of the client crashes": [update(), (A, CRASH), ask(B), applied(0, "u", at=B)],
    "an update in a snapshot": [
        update(at=B), applied(0, "u", origin=B), (B, Restored(1)), (B, DataReply("k", 1, True, b"", 1))
    ],
}  # fmt: skip

REFUSED: dict[str, Trace] = {
    "request: busy = false": [update(), ask()],
    "request: with last(c)": [*DONE, ask(seen=0)],
    "update: u = map(c), once": [*DONE, applied(1, "u")],
    "query: l <= |dbs| - 1": [(A, DataQuery(A, 2, b"q", b"", 1))],
    "query: the answer is q(dbs[l])": [(A, DataQuery(A, 2, b"q", b"", 0))],
    "reply: to the request that c waits for": [*DONE, OK],
    "reply: last(c) <= l <= |dbs| - 1": [*DONE, ask(seen=1), answered(0)],
    "reply: the answer to a query is q(dbs[l])": [*DONE, ask(seen=1), answered(1, "v")],
    "reply: ok, if the update took place": [update(client="k2", body=b"v"), applied(0, "v"), update(), OK],
    "reply: the result of the update": [update(), applied(0, "u"), (A, DataReply("k", 1, True, b"7", 1))],
    "reply: the state of the snapshot has the update in it": [
        update(), applied(0, "u"), (A, DataReply("k", 1, True, b"", 0))
    ],
    "reply: ok, if the member of c has applied the update": [
        update(at=B), applied(0, "u", origin=B), (B, DataReply("k", 1, True, b"1", 1))
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    allows(service(), ALLOWED[name])


@pytest.mark.parametrize("clause", REFUSED)
def test_refused(clause: str) -> None:
    refuses(service(), REFUSED[clause], clause)


V = view(2, A, B, C)
ONCE = "query: rank(p, view.set) = query_counter mod |view.set|, once"


def told(at: ProcessId, *last_updates: int, current: bool = False) -> list[Step]:
    return [
        (at, VsReceive(member, Expertise(last, current))) for member, last in zip(V.members, last_updates, strict=True)
    ]


def sent(at: ProcessId, *queries: Query, sender: ProcessId = A) -> Step:
    return at, VsReceive(sender, Queries(queries))


def did(at: ProcessId, client: int, index: int = 5, body: bytes = b"q") -> Step:
    return at, DataQuery(A, client, body, b"", index)


def query(client: int, last: int = 0, to: int = -1) -> Query:
    return Query(client, last, to, b"q")


AT_B: list[Step] = [(B, VsNewView(V)), *told(B, 5, 5, 3)]

SHARED: dict[str, Trace] = {
    "the first query of three members": [*AT_B, sent(B, query(1)), did(B, 1)],
    "among the members that are able": [*AT_B, sent(B, query(1, 4), query(2, 4)), did(B, 1)],
    "as the sender says": [*AT_B, sent(B, query(1), query(2, to=1)), did(B, 1), did(B, 2)],
    "current in a primary view": [(B, VsNewView(V)), (B, Established(V, 1)), (B, VsSend(Expertise(5, True)))],
}
NOT_SHARED: dict[str, Trace] = {
    "gpsnd: mode = normal, so x of all members came before": [(B, VsNewView(V)), sent(B, query(1))],
    "gpsnd: some member can answer": [*AT_B, sent(B, query(1, 6))],
    "gpsnd: the member that is named can answer": [*AT_B, sent(B, query(1, 4, to=2))],
    "gpsnd(x): current only in an established primary view": [(B, VsNewView(V)), (B, VsSend(Expertise(5, True)))],
    ONCE: [*AT_B, sent(B, query(1), query(2)), did(B, 2)],
    "query: last_update >= l": [*AT_B, sent(B, query(1, 4)), did(B, 1, 3)],
    "query: q of the client": [*AT_B, sent(B, query(1)), did(B, 1, body=b"r")],
}


@pytest.mark.parametrize("name", SHARED)
def test_shared(name: str) -> None:
    allows([DataSharingSpec()], SHARED[name])


@pytest.mark.parametrize("clause", NOT_SHARED)
def test_not_shared(clause: str) -> None:
    refuses([DataSharingSpec()], NOT_SHARED[clause], clause)


def test_a_query_is_executed_once() -> None:
    refuses([DataSharingSpec()], [*AT_B, sent(B, query(1)), did(B, 1), did(B, 1)], ONCE)


def test_every_precondition_has_a_case() -> None:
    assert preconditions(DataSpec) | preconditions(DataDelaySpec) == set(REFUSED)
    assert preconditions(DataSharingSpec) - {"every request has a reply", "queries are shared evenly"} == set(
        NOT_SHARED
    )


def test_the_end_of_a_run() -> None:
    spec = DataSharingSpec()
    spec.invariant_replies({})
    spec.invariant_shares([3, 4, 3])
    with pytest.raises(Violation, match="every request has a reply"):
        spec.invariant_replies({"k": OpenRequest(A, 1, False, b"q")})
    with pytest.raises(Violation, match="queries are shared evenly"):
        spec.invariant_shares([3, 5, 3])
