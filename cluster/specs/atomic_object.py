"""AO: specification of an atomic object, from the refresh of a view to its end.

Paper: Khazan's thesis, fig. 10.4, and property 10.1.2: after the final refresh events, the service is
AO[set, base_state, init_ops]. State variables keep its names.
Departs: checked for every view, not only for the last: no process knows that its view is the last one. So all clients
of a view get the same base state (property 10.1.1), and their operations are applied to it in one order until the view
ends for a member. What it applies because the view ended is not part of AO.

Internal choice: do(p, o), the place of an operation in the order. The checker takes it when the first replica applies
the operation. A response of p follows from the step in which the replica of p applies it, so no later guess is
possible, and earlier ones allow no more: nothing shows an operation before a replica has applied it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.actions import (
        InterimApplied,
        InterimRefresh,
        InterimRequest,
        InterimResponse,
        InterimView,
        Recovered,
    )
    from cluster.names import ProcessId, ViewId
    from cluster.specs.eo_fifo_ds import ReferenceObject

VIEWS_KEPT = 32  # views that all processes have left


def past_views(known: Iterable[ViewId], current: Iterable[ViewId]) -> list[ViewId]:
    """The oldest views, if there are many that no process is in."""
    past = set(known).difference(current)
    return sorted(past)[: max(0, len(past) - VIEWS_KEPT)]


class AtomicObject:
    """AO of one view: its state, and the operations applied to it so far with their results."""

    __slots__ = ("base", "count", "done", "next", "obj")

    def __init__(self, obj: ReferenceObject, base: str) -> None:
        self.obj = obj
        self.base = base  # digest of s_b
        self.done: list[tuple[ProcessId, bytes, str]] = []
        self.next: dict[ProcessId, int] = {}  # by replica: how much of `done` it has applied
        self.count: dict[ProcessId, int] = {}  # by client: its operations in `done`


class AoSpec(Spec):
    NAME = "AO"

    def __init__(self, make_object: Callable[[], ReferenceObject]) -> None:
        super().__init__()
        self.make_object = make_object
        self.views: dict[ViewId, AtomicObject] = {}
        self.current: dict[ProcessId, ViewId] = {}
        self.requests: dict[ProcessId, list[bytes]] = {}  # of the current life
        self.applied: dict[ProcessId, int] = {}  # own requests that the replica of the client has applied
        self.ops: dict[ViewId, dict[ProcessId, tuple[list[bytes], int]]] = {}  # requests, and how many before the view
        self.out: dict[ProcessId, deque[str | None]] = {}  # None: applied at the end of a view

    # input request_p(o)
    def interim_request_eff(self, act: InterimRequest, at: ProcessId) -> None:
        self.requests.setdefault(at, []).append(act.body)

    def interim_view_eff(self, act: InterimView, at: ProcessId) -> None:
        self.current[at] = act.view.id
        self.ops.setdefault(act.view.id, {})[at] = (self.requests.setdefault(at, []), self.applied.get(at, 0))
        for old in past_views(self.ops, self.current.values()):
            del self.ops[old]
            self.views.pop(old, None)

    def interim_refresh_pre(self, act: InterimRefresh, at: ProcessId) -> None:
        known = self.views.get(self.current[at])
        if known is not None:
            self.require(
                act.digest == known.base, "10.1.1: base_state is the same for all clients of the view", known.base
            )

    def interim_refresh_eff(self, act: InterimRefresh, at: ProcessId) -> None:
        view_id = self.current[at]
        if view_id not in self.views:
            obj = self.make_object()
            obj.restore(act.state, 0.0)
            self.views[view_id] = AtomicObject(obj, act.digest)
        self.views[view_id].next[at] = 0

    # internal do(p, o)
    def interim_applied_pre(self, act: InterimApplied, at: ProcessId) -> None:
        if act.at_view_end:
            return
        known = self.views.get(self.current[at])
        self.require(known is not None and at in known.next, "do: operations are applied after the refresh of the view")
        assert known is not None
        place = known.next[at]
        if place < len(known.done):
            origin, body, _ = known.done[place]
            self.require(
                (act.origin, act.body) == (origin, body),
                "do: all replicas apply the operations of a view in one order",
                place,
                origin,
                body,
            )
        else:
            requests, before = self.ops[self.current[at]].get(act.origin, ([], 0))
            index = before + known.count.get(act.origin, 0)
            self.require(
                index < len(requests) and requests[index] == act.body,
                "do: o = First(ops[q])",
                index,
                requests[index] if index < len(requests) else None,
            )

    def interim_applied_eff(self, act: InterimApplied, at: ProcessId) -> None:
        result = None
        if act.at_view_end:
            self.branch("an operation is applied because its view ends")
        else:
            result = self._do(act, at)
        if act.origin == at:
            self.applied[at] = self.applied.get(at, 0) + 1
            self.out.setdefault(at, deque()).append(result)

    def _do(self, act: InterimApplied, at: ProcessId) -> str:
        known = self.views[self.current[at]]
        if known.next[at] == len(known.done):
            result = repr(known.obj.apply(act.origin, act.body, 0.0))
            known.done.append((act.origin, act.body, result))
            known.count[act.origin] = known.count.get(act.origin, 0) + 1
        known.next[at] += 1
        return known.done[known.next[at] - 1][2]

    # output response_p(o, r)
    def interim_response_pre(self, act: InterimResponse, at: ProcessId) -> None:
        out = self.out.get(at)
        self.require(
            bool(out) and out[0] in (None, act.result),  # type: ignore[index]
            "response: <o, r> is first on out[p]",
            out[0] if out else None,
        )

    def interim_response_eff(self, _act: InterimResponse, at: ProcessId) -> None:
        self.out[at].popleft()

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self.requests[at] = []
        self.applied[at] = 0
        self.out.pop(at, None)
