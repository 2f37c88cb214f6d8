"""EO_FIFO_DS: specification of a data service that answers each request once, in the order of the requests.

Paper: Khazan's thesis, fig. 10.3. State variables keep its names.
Departs:
- The figure allows any state x- to which an operation is applied. Here it is the state of the replica of p, which is
  what the thesis calls reachable: the checker follows each replica with an object of its own.
- A crash loses the requests without a response. Everything that was applied or merged before it is on disk.
- A process sees a refresh in a view at most once.
No internal actions, so no guesses: `InterimApplied` shows when a replica applies an operation.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from cluster.interim.shared_object import SharedObject
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import (
        Crashed,
        InterimApplied,
        InterimLoaded,
        InterimRefresh,
        InterimRequest,
        InterimResponse,
        InterimView,
    )
    from cluster.names import ProcessId


class ReferenceObject(SharedObject, Protocol):
    """An object without time limits that knows which operations its state contains."""

    def __contains__(self, body: bytes) -> bool: ...


class EoFifoDsSpec(Spec):
    NAME = "EO_FIFO_DS"

    def __init__(self, make_object: Callable[[], ReferenceObject]) -> None:
        super().__init__()
        self.make_object = make_object
        self.ops: dict[ProcessId, deque[tuple[int, bytes]]] = {}  # ticket and operation
        self.obj: dict[ProcessId, ReferenceObject] = {}  # the replicas
        self.results: dict[ProcessId, deque[str]] = {}  # results of own operations, not reported yet
        self.answered: dict[ProcessId, list[bytes]] = {}
        self._refreshed: set[ProcessId] = set()  # processes that saw a refresh in their view

    def replica(self, p: ProcessId) -> ReferenceObject:
        if p not in self.obj:
            self.obj[p] = self.make_object()
        return self.obj[p]

    # input request_p(o)
    def interim_request_eff(self, act: InterimRequest, at: ProcessId) -> None:
        self.ops.setdefault(at, deque()).append((act.ticket, act.body))

    def interim_applied_eff(self, act: InterimApplied, at: ProcessId) -> None:
        result = self.replica(at).apply(act.origin, act.body, 0.0)
        if act.origin == at:
            self.results.setdefault(at, deque()).append(repr(result))

    # output response_p(o, r)
    def interim_response_pre(self, act: InterimResponse, at: ProcessId) -> None:
        ops, results = self.ops.get(at), self.results.get(at)
        self.require(
            bool(ops) and ops[0][0] == act.ticket,  # type: ignore[index]
            "response: o is first on ops[p]",
            ops[0] if ops else None,
        )
        self.require(
            bool(results) and results[0] == act.result,  # type: ignore[index]
            "response: <x, r> = o(x-), where x- is the state of the replica of p",
            results[0] if results else None,
        )

    def interim_response_eff(self, _act: InterimResponse, at: ProcessId) -> None:
        self.results[at].popleft()
        self.answered.setdefault(at, []).append(self.ops[at].popleft()[1])

    def interim_view_eff(self, _act: InterimView, at: ProcessId) -> None:
        self._refreshed.discard(at)

    # output refresh_p(s, x)
    def interim_refresh_pre(self, act: InterimRefresh, at: ProcessId) -> None:
        self.require(at in act.members, "refresh: p in s", act.members)
        self.require(at not in self._refreshed, "refresh: once in a view")

    def interim_refresh_eff(self, act: InterimRefresh, at: ProcessId) -> None:
        self._refreshed.add(at)
        self.replica(at).restore(act.state, 0.0)

    def interim_loaded_pre(self, act: InterimLoaded, at: ProcessId) -> None:
        digest = self.replica(at).digest()
        self.require(act.digest == digest, "load: the replica has what it applied and merged before the crash", digest)

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        self.ops.pop(at, None)
        self.results.pop(at, None)
